"""With what may a run be opened, whatever its rig?"""

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
