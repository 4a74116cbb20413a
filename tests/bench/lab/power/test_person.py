"""A person is asked on the terminal of the process, wherever its streams lead."""

import os
import sys

import pytest

PATIENCE_US = 20_000_000
ASK = """
import asyncio
from bench.lab.power import PersonSwitch
from bench.lab.power import PowerFailed
async def ask():
    try:
        await PersonSwitch("poe-3", "port 3", {patience_us}).{verb}
        return "done"
    except PowerFailed as failed:
        return f"failed: {{failed}}"
print(asyncio.run(ask()))
"""


def asked(verb: str, typed: bytes, patience_us: int = PATIENCE_US) -> str:
    """What stands on the terminal in the end, if this is typed after the question."""
    terminal, port = os.openpty()
    # Who leads a session and opens a terminal has it as its own.
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", ASK.format(verb=verb, patience_us=patience_us)],
        os.environ,
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.ttyname(port), os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ],
    )
    os.close(port)
    shown = b""
    try:
        while b"cannot be done" not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, typed)
        while True:
            shown += os.read(terminal, 1000)
    except OSError:  # the end of the other side
        os.waitpid(child, 0)
        os.close(terminal)
    return shown.decode()


@pytest.mark.parametrize(
    ("verb", "request_"),
    [
        ("on()", "poe-3: switch on port 3, then press Enter"),
        ("off()", "poe-3: switch off port 3, then press Enter"),
        ("cycle(2_500_000)", "switch port 3 off and on after 3 s (a button: press it)"),
    ],
)
def test_enter_says_that_it_is_done(verb: str, request_: str) -> None:
    shown = asked(verb, b"\n")
    assert request_ in shown and "20 s)" in shown
    assert shown.endswith("done\r\n")


def test_n_says_that_it_cannot_be_done() -> None:
    assert "failed: poe-3: the answer was no: switch off port 3" in asked("off()", b"n\n")


def test_the_count_goes_down_until_nobody_is_waited_for() -> None:
    shown = asked("off()", b"", 1_500_000)
    assert "2 s)" in shown and "1 s)" in shown
    assert "failed: poe-3: nobody did this in 1 s: switch off port 3" in shown


def test_without_a_terminal_nobody_is_asked() -> None:
    reading, writing = os.pipe()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", ASK.format(verb="off()", patience_us=PATIENCE_US)],
        os.environ,
        setsid=True,
        file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)],
    )
    os.close(writing)
    with os.fdopen(reading) as told:
        said = told.read()
    os.waitpid(child, 0)
    assert "there is no terminal to ask on: switch off port 3. Run it in the foreground" in said
