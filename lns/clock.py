"""What time is it for the network server?

One clock for every deadline and every expiry: the monotonic clock of the running event loop,
in whole microseconds. Under the bench's virtual-time loop it is virtual, elsewhere it is
`time.monotonic`; a step of the wall clock changes nothing that the network server decides.
"""

from asyncio import get_running_loop
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Utc = Callable[[], datetime]


def now_us() -> int:
    """The monotonic time in microseconds; RuntimeError outside a running event loop."""
    return round(get_running_loop().time() * 1_000_000)


def utc_counted_from(start: datetime) -> Utc:
    """A wall clock that starts at `start` and runs with `now_us()`; for virtual time."""

    def utc() -> datetime:
        return start + timedelta(microseconds=now_us())

    return utc


def utc_of_this_host() -> datetime:
    """The wall clock of this host.

    For people to read, and for what must be true across restarts: certificates, and how long a
    consumer remembers a message. The network server decides nothing by it.
    """
    return datetime.now(UTC)  # noqa: TID251 - the one place that reads the wall clock
