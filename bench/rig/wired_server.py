"""The network server of the emulated rig: a program, and what a case may do to it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from bench.capture import Record
from bench.capture.reading import Event
from bench.rig.lns_program import LnsProgram
from bench.rig.lns_programs import STORE_FILE
from bench.rig.provisioning import Provisioned
from bench.rig.wired_bench import WiredBench
from bench.station.link import LinkClosed, TextLink
from bench.station.web_socket_link import WebSocketLink
from lns.dedup.claim import OnOutage
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region


class WiredServer:
    """A network server of one case: one that it shares, or one of its own.

    The store of its own one is a file, or what `store_url` names; None: what all cases share.
    Its broker is that of all cases, unless `broker_port` is another one.
    """

    def __init__(
        self, bench: WiredBench, lns: str, region: Region, record: Record, *, own: bool
    ) -> None:
        self.lns = lns
        self.region = region
        self.on_outage = OnOutage.OPEN
        self.program: LnsProgram | None = None
        self._bench = bench
        self.own = own
        self.store_url: str | None = STORE_FILE
        self.broker_port: int | None = None
        self.client_id: str | None = None
        self.park_after_us: int | None = None
        self.take: Callable[[Event], None] | None = None
        self._record = record
        self._links: dict[Eui, WebSocketLink] = {}

    async def start(self, tasks: asyncio.TaskGroup, provisioned: Sequence[Provisioned]) -> None:
        """Start the one of this case; one that is shared runs already."""
        if self.own:
            self.program = self._bench.programs.new(
                self.lns, self.region, store_url=self.store_url, on_outage=self.on_outage,
                note=self.note, broker_port=self.broker_port, client_id=self.client_id,
                take=self.take, park_after_us=self.park_after_us,
            )  # fmt: skip
            await self.program.start([device for device in provisioned if device.known])

    async def connect(self, station: Eui) -> TextLink:
        """A link to the server for one station; LinkClosed when it does not run."""
        assert self.program is not None
        if self.program.uri is None:
            raise LinkClosed("the network server does not run")
        link = self._links[station] = await self._bench.connect(self.program.uri, station)
        return link

    async def kill(self) -> None:
        """End it at once, if it is this case's own."""
        await self.own_program().kill()

    async def start_again(self, *, f_cnt_up: int | None = None) -> None:
        """Start it with what it had made durable."""
        await self.own_program().start_again(f_cnt_up=f_cnt_up)

    def leave_half_open(self, station: Eui, noticed_after_us: int) -> None:
        """End the station's connection; the server notices so much later."""
        self._links[station].vanish(noticed_after_us)

    def stop(self) -> None:
        """End every connection; the case is over."""
        for link in self._links.values():
            link.close()

    def own_program(self) -> LnsProgram:
        """The program, to be disturbed; RuntimeError if this case shares it with others."""
        if not self.own:
            raise RuntimeError(
                "this case shares its network server with others: mark the scenario with"
                ' @pytest.mark.fault("lns", …), so that it gets one of its own'
            )
        assert self.program is not None, "it is started by the first act"
        return self.program

    def note(self, kind: str, fields: Mapping[str, object]) -> None:
        """Tell of a fault that only this server meets."""
        self._record("bench", kind, {"lns": self.lns, **fields})

    async def end(self) -> None:
        """End the program, if it is this case's own."""
        if self.own and self.program is not None:
            await self.program.stop()
