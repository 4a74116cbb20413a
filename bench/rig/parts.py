"""What does a rig need of the network server it puts its stations on?"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from bench.rig.provisioning import Provisioned
from bench.station.link import TextLink
from lns.dedup.claim import OnOutage
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region


class NetworkServer(Protocol):
    """One LNS, in this process or as a program of its own; `lns` is its id.

    `on_outage`: what it does with a frame whose owner nobody can name.
    """

    lns: str
    region: Region
    on_outage: OnOutage

    async def start(self, tasks: asyncio.TaskGroup, provisioned: Sequence[Provisioned]) -> None:
        """Start it with the devices that it is to know."""

    async def connect(self, station: Eui) -> TextLink:
        """A link to the server for one station; LinkClosed when it does not run."""

    async def kill(self) -> None:
        """End it at once: what it had in memory only is gone."""

    async def start_again(self, *, f_cnt_up: int | None = None) -> None:
        """Start it with what it had made durable; `f_cnt_up` replaces the counters among that."""

    def leave_half_open(self, station: Eui, noticed_after_us: int) -> None:
        """End the station's connection; the server notices so much later."""

    def stop(self) -> None:
        """End every connection; the case is over."""
