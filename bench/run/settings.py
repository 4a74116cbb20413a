"""With what may a run be opened, whatever its rig, and how long are its waits then?"""

from dataclasses import dataclass, field

from bench.lab.inventory import Inventory

RETENTION_S = 30
"""For how long network servers remember a frame on a rig with a wall clock, if nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The options of a run; each rig takes those that are about it.

    `arguments`: the command line of pytest, for whoever has to run the same once more.
    """

    retention_s: int | None = None
    tls: bool = False
    redis_url: str | None = field(default=None, repr=False)
    inventory: Inventory | None = None
    arguments: tuple[str, ...] = ()


WRITTEN_FOR_US = 60_000_000
ABOUT_THE_RETENTION_US = 25_000_000
"""Waits from here on are about the retention: no radio and no station takes so long."""
LONG_AFTER_US = 90_000_000
"""A wait that is longer than this stands for any time after the retention."""


class Retiming:
    """A scenario is written for the retention of ADR 007, a minute.

    On a rig with a wall clock the network server is configured with a shorter one, and waits that
    are about the retention shrink with it. What radios and stations decide by themselves (receive
    windows, retries, reconnecting) takes its time.

    Shortens waits in proportion to `retention_us`; a call gives the wait (µs) instead."""

    def __init__(self, retention_us: int) -> None:
        self._retention_us = retention_us

    def __call__(self, us: int) -> int:
        """The wait here, in µs; a short one, and every one under the full retention, is itself."""
        if us < ABOUT_THE_RETENTION_US or self._retention_us == WRITTEN_FOR_US:
            return us
        return min(us, LONG_AFTER_US) * self._retention_us // WRITTEN_FOR_US
