"""What does a firmware do otherwise than others, in words that no dialect has?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Abilities of a device that scenarios ask for.

    `obeys_retries`: it repeats a confirmed message as often as it is told over its serial line.
    `sets_counters`: its frame counters can be written. `tells_windows`: one line tells of a
    downlink window, port and data. `counts_dev_nonces`: its DevNonces count up, drawn otherwise.
    `first_f_cnt`: the counter of its first frame, in a new session or when it counts anew.
    """

    obeys_retries: bool
    sets_counters: bool
    tells_windows: bool
    counts_dev_nonces: bool
    first_f_cnt: int


@dataclass(frozen=True, slots=True)
class Radiation:
    """Where and how strongly a device transmits, as read from it; `region` is its name for it."""

    region: str
    eirp_dbm: int
