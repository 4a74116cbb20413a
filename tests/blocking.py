"""Programs for a test that has no loop: what `Program` and its kinds await is waited for here."""

import subprocess
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import TypeVar

from bench.host.lns_process import START_S, PolledListener
from bench.host.program import STOP_S, Program

LOOK_S = 0.01
Listening = TypeVar("Listening", bound=PolledListener)


def start_now(program: Listening) -> Listening:
    """`start`; a port that was taken is told, not chosen anew."""
    program._begin()
    until_now(program, program._is_ready, START_S)
    return program


def until_now(program: Program, ready: Callable[[], bool], deadline_s: float) -> None:
    """`until`."""
    for _ in range(int(deadline_s / LOOK_S)):
        if program._is(ready):
            return
        Event().wait(LOOK_S)
    program.kill_now()
    raise program._silent(deadline_s)


def stop_now(program: Program, limit_s: float = STOP_S) -> None:
    """`stop`."""
    program._ask_to_end(15)
    if program._process is not None:
        with suppress(subprocess.TimeoutExpired):
            program._process.wait(limit_s)
    program.kill_now()
