"""The network server: stations in, one outcome per reception out.

The shell around the pure parts. It knows links and tasks; what a frame is worth is decided in
`uplink` and `join`.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from traceback import format_tb
from typing import Any

from msgspec.structs import astuple

from lns.clock import Utc, now_us
from lns.complaints import Complaints, place_of, printable
from lns.connections import (
    RECEPTIONS_MAX,
    Cause,
    Connection,
    Connections,
    LateStations,
    ReceptionTasks,
)
from lns.dedup.claim import Claims, OnOutage, SoleServer
from lns.dedup.claiming import Claiming, SessionRefresh, SharedSessions
from lns.dedup.concentrator import ENTRIES_MAX, RETENTION_US, Eviction, Sightings
from lns.dedup.strategy import Reason, Upstream
from lns.delivery.publisher import InTime
from lns.delivery.publisher import Upstream as Application
from lns.downlink.downlink import Downlinks
from lns.downlink.downlink_queue import ApplicationDownlink, Refused, StatusWanted, parse_request
from lns.events import Event, Evicted, Failure, Outcome, UnreadableMessage
from lns.lorawan.frame import Data, Frame, JoinRequest, parse
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import SENT, TOO_LATE, Answer, Region
from lns.station.messages import Jreq, Updf
from lns.station.protocol import (
    LinkClosed,
    Passed,
    Reception,
    Rejected,
    StationProtocol,
    TextLink,
    Transmitted,
    Versioned,
    XtimeSample,
    reception_of,
)
from lns.uplink.data import Uplinks
from lns.uplink.join import Joins
from lns.uplink.registry import EndDevice, Registry, SessionStore

log = logging.getLogger(__name__)

_HEARD = (Updf, Jreq)


class NetworkServer:
    """One LNS instance: devices, level 1, joins, answers; one `lns.outcome` per reception.

    `store` holds what outlives a restart (sessions, DevNonces), `application` takes the accepted
    uplinks, `record` the events. `entropy` draws DevAddr and JoinNonce: `random.SystemRandom`
    outside a simulation. `claims` and `shared` are what it shares with other servers: who owns a
    frame (`on_outage`: what becomes of one if nobody can say), and the store if they use it too.
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
        on_outage: OnOutage = OnOutage.OPEN,
        shared: SharedSessions | None = None,
    ) -> None:
        self.lns = lns
        self._region = region
        self._record = record
        self._utc = utc
        self._connections = Connections()
        self._complaints = Complaints(log)
        self._late = LateStations(lns, record, self._complaints)
        self._versions = Complaints(log, level=logging.INFO)
        claims = claims or SoleServer()
        sightings = Sightings(
            now_us, retention_us=retention_us, entries_max=entries_max, evicted=self._evicted
        )
        registry = Registry(devices, store, lns=lns, alone=isinstance(claims, SoleServer))
        elsewhere = SessionRefresh(registry, shared, now_us) if shared is not None else None
        self._elsewhere = elsewhere
        claiming = Claiming(lns, claims, record)
        downlinks = self._downlinks = Downlinks(
            lns, region, self._connections, registry, record, utc, claiming
        )
        self._uplinks = Uplinks(
            lns,
            region,
            registry,
            sightings,
            claiming,
            on_outage,
            InTime(application),
            downlinks,
            utc,
            elsewhere,
        )
        self._joins = Joins(lns, net_id, region, registry, sightings, downlinks, entropy, elsewhere)

    def enqueue(self, dev_eui: Eui, downlink: ApplicationDownlink) -> bool:
        """Send a device something of the application when it can be; False when it is refused."""
        return self._downlinks.enqueue(dev_eui, downlink) is None

    def receive_request(self, topic: str, body: bytes) -> None:
        """Take what an application asks for on `lorawan/<lns id>/<dev_eui>/down`."""
        asked = parse_request(topic, body)
        if isinstance(asked, Refused):
            why = printable(asked.why)
            self._downlinks.refuse(why)
            return self._complaints.complain("%s: %s", printable(topic), why)
        dev_eui, wanted = asked
        if isinstance(wanted, StatusWanted):
            refused = self._downlinks.want_status(dev_eui)
        else:
            refused = self._downlinks.enqueue(dev_eui, wanted)
        if refused is not None:
            self._complaints.complain("%s: the downlink is refused: %s", printable(topic), refused)

    async def serve(self, station: Eui, link: TextLink) -> None:
        """Serve one station until its link closes; receptions under way are finished first."""
        if self._elsewhere is not None:
            self._elsewhere.begin()
        protocol = StationProtocol(self._region, self._utc)
        clock = self._connections.clock(station)
        clock.connected(now_us())
        connection: Connection | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                failed = partial(self._fail, station, "downlink")
                connection = Connection(
                    station, link, protocol, clock, tasks, self._complaints, failed
                )
                self._connections.add(connection)
                take = partial(self._take, connection)
                await ReceptionTasks(take, tasks, RECEPTIONS_MAX).handle()
        finally:
            if connection is not None:
                self._connections.remove(connection)

    async def _take(self, connection: Connection) -> Coroutine[Any, Any, None]:
        """Read up to the next reception, and hand out what is to be done with it; LinkClosed."""
        try:
            while True:
                text = await connection.link.receive()
                reception = self._read(connection, text, now_us())
                if reception is not None:
                    return self._receive(reception)
                await connection.flush()
        except LinkClosed:
            connection.end_errands()
            raise

    def _read(self, connection: Connection, text: str, arrived_us: int) -> Reception | None:
        """What a station tells, of which a frame that was heard is for the caller to act on.

        A text that breaks the program is lost alone, whatever is left of it: the next one is read.
        """
        try:
            connection.protocol.receive_text(text)
            for event in connection.protocol.events_received():
                if isinstance(event, _HEARD):
                    return _reception(connection, event, arrived_us)
                self._note(connection, event, arrived_us)
        except Exception as error:
            connection.protocol.events_received()
            self._fail(connection.station, "message", error)
        return None

    def _note(self, connection: Connection, event: object, arrived_us: int) -> None:
        station = connection.station
        match event:
            case Rejected():
                self._reject(connection, event)
            case Versioned():
                self._versions.complain("%s: station %s", station, printable(event.station_version))
                connection.clock.configured(arrived_us)
            case XtimeSample():
                connection.clock_shown(event.xtime, arrived_us)
            case Transmitted():
                self._downlinks.transmitted(station, event)
            case Passed():
                log.debug("%s: ignored message %s", station, printable(event.msgtype))

    def _reject(self, connection: Connection, event: Rejected) -> None:
        station, why = connection.station, printable(event.why)
        if event.reception:
            self._record(self._dropped(station, Reason.MALFORMED, None))
        else:
            self._record(
                UnreadableMessage(lns=self.lns, station=station, msgtype=event.msgtype, why=why)
            )
        connection.complain("%s: unreadable message: %s", station, why)

    async def _receive(self, reception: Reception) -> None:
        frame: Frame | None = None
        try:
            frame = parse(reception.phy)
            # What is no uplink no station can tell: its text was refused.
            assert isinstance(frame, Data | JoinRequest)
            if isinstance(frame, Data):
                outcome = await self._uplinks.receive(reception, frame)
            else:
                outcome = await self._joins.receive(reception, frame)
        except Exception as error:
            self._fail(reception.station, "reception", error, _frame_id(frame))
            outcome = self._dropped(
                reception.station, Reason.INTERNAL_ERROR, reception.xtime, _frame_id(frame)
            )
        self._record(outcome)
        if outcome.answer in SENT:
            self._late.answered(reception.station)
        elif outcome.answer is TOO_LATE:
            self._late.too_late(reception.station, outcome.frame_id, self._cause(reception))

    def _cause(self, reception: Reception) -> Cause:
        if reception.heard_us is None:
            return Cause.NO_CLOCK
        if not self._connections.is_current(reception.station, reception.xtime):
            return Cause.OTHER_SESSION
        return Cause.LATE

    def _dropped(
        self, station: Eui, reason: Reason, xtime: int | None, frame_id: str | None = None
    ) -> Outcome:
        return Outcome(
            station=station,
            lns=self.lns,
            frame_id=frame_id,
            upstream=Upstream.DROPPED,
            reason=reason,
            answer=Answer.NOT_ASKED,
            xtime=xtime,
        )

    def _fail(
        self, station: Eui, during: str, error: Exception, frame_id: str | None = None
    ) -> None:
        """The program is wrong somewhere: one thing is lost, and told, and nothing else is."""
        place = place_of(error)
        # The way to the error, without its text, which could be a secret.
        way = "".join(format_tb(error.__traceback__))
        self._complaints.complain("%s: internal error (%s): %s\n%s", station, during, place, way)
        self._record(
            Failure(lns=self.lns, station=station, during=during, error=place, frame_id=frame_id)
        )

    def _evicted(self, eviction: Eviction) -> None:
        key = ":".join(str(part) for part in astuple(eviction.key))
        self._record(Evicted(lns=self.lns, key=key, silent_us=eviction.silent_us))


def _frame_id(frame: Frame | None) -> str | None:
    return frame.frame_id if isinstance(frame, Data | JoinRequest) else None


def _reception(connection: Connection, message: Updf | Jreq, arrived_us: int) -> Reception:
    xtime = message.upinfo.xtime
    heard_us = connection.clock.sample(xtime, arrived_us)
    connection.heard_of(xtime)
    return reception_of(message, connection.station, arrived_us=arrived_us, heard_us=heard_us)
