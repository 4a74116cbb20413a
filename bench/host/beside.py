"""How does this program do two things at once, each with a processor of its own?"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def beside(work: Callable[..., T], *arguments: object) -> Iterator[Callable[[], T]]:
    """Let `work` be done meanwhile, in a process of its own, which ends with the block.

    What is handed out waits for what comes of it; EOFError where that process has died. Ctrl-C is
    not for it: it is ended by SIGTERM.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work_into, args=(theirs, work, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv
    finally:
        process.terminate()
        process.join()
        ours.close()


def _work_into(result: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    leave_ctrl_c()
    with suppress(KeyboardInterrupt):  # where the work takes SIGTERM for one
        result.send(work(*arguments))


def leave_ctrl_c() -> None:
    """Whoever waits for this process ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
