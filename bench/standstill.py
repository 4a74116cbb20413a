"""Who holds up everybody on a virtual clock: who sleeps, never gives way, or begins and never does?

Nobody else runs meanwhile, so it is found by timers: of the processor, for what computes, and on
the wall, for what waits. What a module of `lns` calls by its name is told of before it is done.
"""

import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from traceback import walk_stack
from types import CoroutineType, FrameType
from typing import Any

LOOKS_EACH_S = 2
"""Of the processor. A turn that is still the same at the next look never ends."""
STILL_EACH_S = 10
"""On the wall. A turn that is still the same at the next look, and neither had a processor for more
than hardly any of that nor waited for one, waits for what cannot come."""
HARDLY = 0.1

_WAITED = Path("/proc/self/schedstat")
"""How long a process ran and how long it waited to run, in ns (Linux)."""
_LENT = {"lns.clock", "lns.capture", "bench.clock"}
"""What the bench reads its clock and writes its captures with, and the loop that all run on."""


def busy_s() -> float:
    """For how long this process has had a processor, or would have used one that others had."""
    try:
        _, waited_ns, *_ = map(int, _WAITED.read_text("ascii").split())
    except (OSError, ValueError):
        waited_ns = 0  # nobody tells: only what it had counts
    return time.process_time() + waited_ns / 1_000_000_000


def is_of(frame: FrameType, *packages: str) -> bool:
    """Whether it is code of these packages, and none that the bench has lent itself."""
    name = frame.f_globals.get("__name__", "")
    is_lent = name in _LENT or frame.f_code.co_name == "_read_us"
    return name.partition(".")[0] in packages and not is_lent


def inmost_of(frame: FrameType | None) -> FrameType | None:
    """Where a server or a consumer is, unless the bench has been called from there."""
    frames = (one for one, _ in walk_stack(frame))
    inmost = next((one for one in frames if is_of(one, "bench", "lns")), None)
    return inmost if inmost is not None and is_of(inmost, "lns") else None


Names = dict[str, Any]


@cache
def _bound(real: Callable[..., object], loaded: int) -> list[tuple[Names, str]]:
    """Under which names a module of `lns`, or its own, has a function when so many are loaded."""
    modules = [module for name, module in sys.modules.items() if name.startswith("lns.")]
    return [
        (vars(module), name)
        for module in (time, os, *modules)
        for name, value in vars(module).items()
        if value is real
    ]


@contextmanager
def told_first(
    real: Callable[[Any], object], tell: Callable[[FrameType, Any], None]
) -> Iterator[None]:
    """Tell who calls it, and with what, before it is done."""

    def told(with_what: Any) -> None:
        tell(sys._getframe(1), with_what)
        real(with_what)

    bound = _bound(real, len(sys.modules))
    for names, name in bound:
        names[name] = told
    try:
        yield
    finally:
        for names, name in bound:
            names[name] = real


@contextmanager
def told_of_unawaited(never: list[tuple[str, str]]) -> Iterator[None]:
    """Note what was begun and is let go before it has done anything, and of which file it is."""
    warn = warnings._warn_unawaited_coroutine  # type: ignore[attr-defined]

    def told(begun: "CoroutineType[Any, Any, Any]") -> None:
        never.append((begun.__qualname__, begun.cr_code.co_filename))

    warnings._warn_unawaited_coroutine = told  # type: ignore[attr-defined]
    try:
        yield
    finally:
        warnings._warn_unawaited_coroutine = warn  # type: ignore[attr-defined]


@contextmanager
def told_of_ill_ended(ended: list[tuple[str, str]]) -> Iterator[None]:
    """Note what was begun, is let go in the middle, and fails then, and of which file it is.

    So is what is let go open, of no file: Python tells the kind of it, as in "unclosed <socket…",
    or of a file, which may be the scenario's, the whole sentence: "unclosed file …".
    """
    hook = sys.unraisablehook

    def told(failed: "sys.UnraisableHookArgs") -> None:
        if isinstance(failed.object, CoroutineType):
            ended.append((failed.object.__qualname__, failed.object.cr_code.co_filename))
        elif isinstance(failed.exc_value, ResourceWarning):
            said = str(failed.exc_value)
            kind = re.match(r"unclosed (?:event )?<?([\w.]+)", said)
            ended.append((said if kind is None or kind[1] == "file" else kind[1], ""))
        else:
            hook(failed)

    sys.unraisablehook = told
    try:
        yield
    finally:
        sys.unraisablehook = hook


@contextmanager
def looking(
    look: Callable[[int, FrameType | None], None], still: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Let it look each few seconds of the processor, and at who stands `still`, by the wall.

    A thread of its own cannot be looked at.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watched = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, LOOKS_EACH_S, LOOKS_EACH_S)
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, STILL_EACH_S, STILL_EACH_S)
    until_s = time.monotonic() + left_s

    def still_or_late(number: int, frame: FrameType | None) -> None:
        nonlocal left_s
        if left_s and time.monotonic() > until_s and callable(late):
            left_s = 0  # somebody else waits for the same timer, once
            late(number, frame)
        still(number, frame)

    late = signal.signal(signal.SIGALRM, still_or_late)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        left_s = left_s and max(until_s - time.monotonic(), 0.001)
        signal.setitimer(signal.ITIMER_REAL, left_s)
        signal.signal(signal.SIGVTALRM, watched)
        signal.signal(signal.SIGALRM, late)
