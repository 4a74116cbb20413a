"""The network server: stations in, one outcome per reception out.

The shell around the pure parts. It knows links and tasks; what a frame is worth is decided in
`uplink` and `join`.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable

from lns.clock import Utc, now_us
from lns.dedup.claim import Claims, SoleServer
from lns.dedup.concentrator import ENTRIES_MAX, RETENTION_US, Eviction, Sightings
from lns.dedup.strategy import Reason, Upstream
from lns.delivery.publisher import Upstream as Application
from lns.downlink import Downlinks
from lns.end_device import EndDevice
from lns.events import Event, Evicted, Outcome
from lns.join import Joins
from lns.lorawan.frame import Data, JoinRequest, MalformedFrame, parse
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region
from lns.receive_window import Answer
from lns.reception import Reception
from lns.registry import Registry, SessionStore
from lns.station.link import LinkClosed, TextLink
from lns.station.messages import Dnmsg
from lns.station.protocol import (
    Passed,
    Rejected,
    Side,
    StationProtocol,
    Transmitted,
    Uplink,
    Versioned,
    XtimeSample,
)
from lns.station.xtime import StationClock
from lns.uplink import Uplinks

log = logging.getLogger(__name__)

# Receptions of one connection under way at once; a station that has more to tell is read later.
RECEPTIONS_MAX = 256
# What a station gets wrong is logged so often on one connection.
COMPLAINTS_MAX = 10
# Stations whose clock is remembered after their connection has ended.
CLOCKS_MAX = 10_000


class _Connection:
    """One connected station: its protocol state, its clock, and how much of it is under way."""

    def __init__(self, link: TextLink, protocol: StationProtocol, clock: StationClock) -> None:
        self.link = link
        self.protocol = protocol
        self.clock = clock
        self.places = asyncio.Semaphore(RECEPTIONS_MAX)
        self._complaints = 0

    def complain(self, sentence: str, *facts: str) -> None:
        """Log what the station got wrong; after ten times only the capture tells."""
        self._complaints += 1
        if self._complaints <= COMPLAINTS_MAX:
            log.warning(sentence, *facts)

    async def flush(self) -> None:
        for text in self.protocol.texts_to_send():
            await self.link.send(text)


class _Connections:
    """The stations connected right now; a new connection of a station replaces its old one.

    Remembers the clocks of the last 10 000 stations: a station that comes back tells what it heard
    meanwhile, in the session of before.
    """

    def __init__(self) -> None:
        self._current: dict[Eui, _Connection] = {}
        self._clocks: dict[Eui, StationClock] = {}

    def clock(self, station: Eui) -> StationClock:
        clock = self._clocks.pop(station) if station in self._clocks else StationClock()
        self._clocks[station] = clock
        if len(self._clocks) > CLOCKS_MAX:
            del self._clocks[next(iter(self._clocks))]
        return clock

    def add(self, station: Eui, connection: _Connection) -> None:
        replaced = self._current.get(station)
        if replaced is not None:
            # What it still tells is of another session: the newer connection's clock is spared.
            replaced.clock = StationClock()
        self._current[station] = connection

    def remove(self, station: Eui, connection: _Connection) -> None:
        # The end of a replaced connection must not unregister the newer one.
        if self._current.get(station) is connection:
            del self._current[station]

    def is_current(self, station: Eui, xtime: int) -> bool:
        connection = self._current.get(station)
        return connection is not None and connection.clock.knows(xtime, now_us())

    async def send(self, station: Eui, downlink: Dnmsg) -> bool:
        connection = self._current.get(station)
        if connection is None:
            return False
        connection.protocol.send_downlink(downlink)
        try:
            await connection.flush()
        except LinkClosed:
            return False
        return True


class NetworkServer:
    """One LNS instance: devices, level 1, joins, answers; one `lns.outcome` per reception.

    `store` holds what outlives a restart (sessions, DevNonces), `application` takes the accepted
    uplinks, `record` the events. `entropy` draws DevAddr and JoinNonce: `random.SystemRandom`
    outside a simulation.
    """

    def __init__(
        self,
        lns: str,
        region: Region,
        devices: Iterable[EndDevice],
        *,
        store: SessionStore,
        application: Application,
        record: Callable[[Event], None],
        utc: Utc,
        entropy: random.Random,
        net_id: str = "000013",
        retention_us: int = RETENTION_US,
        entries_max: int = ENTRIES_MAX,
        claims: Claims | None = None,
    ) -> None:
        self.lns = lns
        self._region = region
        self._record = record
        self._utc = utc
        self._connections = _Connections()
        sightings = Sightings(now_us, retention_us=retention_us, entries_max=entries_max)
        registry = Registry(devices, store)
        downlinks = self._downlinks = Downlinks(
            lns, region, self._connections, registry.keep, record
        )
        self._uplinks = Uplinks(
            lns,
            region,
            registry,
            sightings,
            claims or SoleServer(),
            application,
            downlinks,
            utc,
            self._evicted,
        )
        self._joins = Joins(
            lns, net_id, region, registry, sightings, downlinks, entropy, self._evicted
        )

    async def serve(self, station: Eui, link: TextLink) -> None:
        """Serve one station until its link closes; receptions under way are finished first."""
        protocol = StationProtocol(Side.LNS, region=self._region, utc=self._utc)
        clock = self._connections.clock(station)
        clock.connected(now_us())
        connection = _Connection(link, protocol, clock)
        self._connections.add(station, connection)
        try:
            async with asyncio.TaskGroup() as receptions:
                await self._read(station, connection, receptions)
        finally:
            self._connections.remove(station, connection)

    async def _read(
        self, station: Eui, connection: _Connection, receptions: asyncio.TaskGroup
    ) -> None:
        while True:
            try:
                text = await connection.link.receive()
                arrived_us = now_us()
                connection.protocol.receive_text(text)
                for event in connection.protocol.events_received():
                    match event:
                        case Uplink():
                            reception = _reception(station, connection.clock, event, arrived_us)
                            await connection.places.acquire()
                            task = receptions.create_task(self._receive(reception))
                            task.add_done_callback(lambda _: connection.places.release())
                        case Rejected():
                            self._record(self._malformed(station, None))
                            connection.complain("%s: unreadable message: %s", station, event.why)
                        case _:
                            self._note(station, connection, event, arrived_us)
                await connection.flush()
            except LinkClosed:
                return

    def _note(self, station: Eui, connection: _Connection, event: object, arrived_us: int) -> None:
        match event:
            case Versioned():
                log.info("%s: station %s", station, event.station_version)
                connection.clock.configured(arrived_us)
            case XtimeSample():
                connection.clock.report(event.xtime, arrived_us)
            case Transmitted():
                self._downlinks.transmitted(station, event)
            case Passed():
                log.debug("%s: ignored message %s", station, event.msgtype)

    async def _receive(self, reception: Reception) -> None:
        try:
            frame = parse(reception.phy)
        except MalformedFrame as error:
            log.warning("%s: unreadable frame: %s", reception.station, error)
            return self._record(self._malformed(reception.station, reception.xtime))
        match frame:
            case Data() if frame.is_uplink:
                outcome = await self._uplinks.receive(reception, frame)
            case JoinRequest():
                outcome = await self._joins.receive(reception, frame)
            case _:
                outcome = self._malformed(reception.station, reception.xtime)
        self._record(outcome)

    def _malformed(self, station: Eui, xtime: int | None) -> Outcome:
        return Outcome(
            station=station,
            lns=self.lns,
            upstream=Upstream.DROPPED,
            reason=Reason.MALFORMED,
            answer=Answer.NOT_ASKED,
            xtime=xtime,
        )

    def _evicted(self, eviction: Eviction) -> None:
        key = ":".join(str(part) for part in eviction.key)
        self._record(Evicted(lns=self.lns, key=key, silent_us=eviction.silent_us))


def _reception(station: Eui, clock: StationClock, uplink: Uplink, arrived_us: int) -> Reception:
    clock.sample(uplink.xtime, arrived_us)
    return Reception(
        station=station,
        phy=uplink.phy,
        dr=uplink.dr,
        freq_hz=uplink.freq_hz,
        rssi_dbm=uplink.rssi_dbm,
        snr_db=uplink.snr_db,
        xtime=uplink.xtime,
        rctx=uplink.rctx,
        arrived_us=arrived_us,
        heard_us=clock.lns_time_us(uplink.xtime),
    )
