"""Which network server hears a log, and what does it know of the devices in it?"""

import asyncio
from datetime import datetime

from bench.capture import Record
from bench.chance import stream
from bench.rig.application import Outboxes
from bench.station.link import MemoryLink, TextLink, link_pair
from bench.traffic.recording import Device, Log
from lns.clock import utc_counted_from
from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.events import Event, as_fields
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region
from lns.network_server import NetworkServer
from lns.store.memory import MemoryStore
from lns.uplink.end_device import EndDevice, LoRaWanVersion

LNS = "lns-a"
LINK_US = 2_000


class LogServer:
    """One LNS in this process for one log; its devices all have the same strategy."""

    def __init__(
        self,
        log: Log,
        region: Region,
        strategy: Strategy,
        *,
        seed: int,
        record: Record,
        wall_clock_start: datetime,
    ) -> None:
        self.devices = [_end_device(device, strategy) for device in log.devices]
        self._record = record
        self._links: list[MemoryLink] = []
        store = MemoryStore()
        for device in log.devices:
            store.preset(device.dev_eui, _sessions(device))
        self._server = NetworkServer(
            LNS,
            region,
            self.devices,
            store=store,
            application=Outboxes(record),
            record=self._note,
            utc=utc_counted_from(wall_clock_start),
            entropy=stream(seed, LNS, log.name),
        )

    def connect(self, station: Eui, tasks: asyncio.TaskGroup) -> TextLink:
        """A link to the server for one station, served in a task of `tasks`."""
        ours, theirs = link_pair(LINK_US)
        self._links.append(theirs)
        tasks.create_task(self._server.serve(station, theirs))
        return ours

    def stop(self) -> None:
        """End every connection."""
        for link in self._links:
            link.close()

    def _note(self, event: Event) -> None:
        self._record(LNS, event.kind, as_fields(event))


def _end_device(device: Device, strategy: Strategy) -> EndDevice:
    return EndDevice(
        name=device.name,
        dev_eui=device.dev_eui,
        activation=device.activation,
        join_eui=device.join_eui,
        app_key=device.app_key,
        dev_addr=device.dev_addr,
        session_keys=device.keys,
        lorawan=LoRaWanVersion.V1_0_2,  # DevNonces were drawn at random then
        strategy=strategy,
        relaxed_f_cnt=device.relaxed_f_cnt,
    )


def _sessions(device: Device) -> tuple[Session, ...]:
    """The session that the server begins with; none before a join."""
    if device.dev_addr is None or device.keys is None:
        return ()
    return (
        Session(
            dev_eui=device.dev_eui,
            dev_addr=device.dev_addr,
            keys=device.keys,
            f_cnt_up=device.f_cnt_up,
        ),
    )
