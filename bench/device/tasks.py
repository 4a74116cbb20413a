"""How does something that runs tasks of its own end, without hiding why it was left?"""

import asyncio
from types import TracebackType


async def leave(
    tasks: asyncio.TaskGroup,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Leave a group from an `__aexit__`; an error of the caller stays what it is.

    A TaskGroup would wrap it in a group. Only a cancellation is handed on, which it must know of.
    """
    if isinstance(error, asyncio.CancelledError):
        await tasks.__aexit__(kind, error, trace)
    else:
        await tasks.__aexit__(None, None, None)
