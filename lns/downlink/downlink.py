"""How does a downlink leave: which window, which counter, which bytes, through which station?

An answer goes through the station that delivered the reception being answered, with that
reception's own `xtime` and `rctx`; RX2 goes along as the fall-back of RX1. What the application
wants sent goes with the next answer, one with each; to a class C device at once, in RX2, through
the station that heard it last. Source: Basics Station, `dnmsg`.

A class C device listens in RX2 whenever it does not send: what waits is sent at once, one after
the other. A station that has never heard it would send into the void, so a device that nobody has
heard in its session waits for its next uplink.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from cachetools import FIFOCache
from msgspec import Struct

from lns.clock import StoreUnavailable, Utc, now_us
from lns.dedup.claiming import Claiming
from lns.dedup.session import AS_REGION_SAYS, Listening, Session
from lns.downlink.downlink_queue import QUEUE_FULL, ApplicationDownlink, DownlinkQueues, Waiting
from lns.events import Downlink, Request
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.mac_commands import ServerCommand, encode
from lns.lorawan.region import (
    RX2_AFTER_RX1_US,
    SENT,
    Answer,
    Offer,
    Region,
    Window,
    first_window,
    frame_airtime_us,
    offer,
)
from lns.station.messages import CLASS_C, Dnmsg
from lns.station.protocol import Reception, Transmitted
from lns.uplink.mac_layer import StatusRequests
from lns.uplink.registry import DeviceClass, Registry

log = logging.getLogger(__name__)

# A station tries a blocked class C downlink for about a second, then drops it without a word.
REPORT_US = 3_000_000
# Time for the device to acknowledge: it may have to wait for its own duty cycle.
ACK_US = 8_000_000


class Connected(Protocol):
    """The stations connected right now."""

    def soon(self, station: Eui, errand: Callable[[], Awaitable[None]]) -> None:
        """Begin something that ends with a station's connection; nothing without one."""


class ClassC:
    """Sends what waits for class C devices, through the station that heard each of them last.

    `send` hands one over to a station, if it fits, and tells whether it did.
    """

    def __init__(
        self,
        registry: Registry,
        stations: Connected,
        queues: DownlinkQueues,
        send: Callable[[Session, Eui, Waiting], Awaitable[bool]],
    ) -> None:
        self._registry = registry
        self._stations = stations
        self._queues = queues
        self._send = send
        self._sending: set[Eui] = set()
        self._on_air_until_us: dict[Eui, int] = {}

    def on_air(self, dev_eui: Eui, airtime_us: int) -> None:
        """A downlink of a device is on the air from now on: it hears no other one meanwhile."""
        device = self._registry.device(dev_eui)
        if device is not None and device.device_class is DeviceClass.C:
            self._on_air_until_us[dev_eui] = now_us() + airtime_us

    def stir(self, dev_eui: Eui) -> None:
        """Something may be due: begin to send it."""
        device = self._registry.device(dev_eui)
        station = self._registry.last_heard(dev_eui)
        if device is None or device.device_class is not DeviceClass.C or station is None:
            return
        if dev_eui in self._queues.devices:
            self._stations.soon(station, partial(self._send_all, dev_eui, station))

    def watch(self, dev_eui: Eui, station: Eui, carried: Waiting) -> None:
        """An answer carries one: it is sent by itself if nothing proves that in time."""
        device = self._registry.device(dev_eui)
        if device is not None and device.device_class is DeviceClass.C:
            carried.proof_until_us = carried.busy_until_us + _proof_us(carried)
            self._stations.soon(station, partial(self._send_unless_proven, dev_eui, carried))

    async def _send_unless_proven(self, dev_eui: Eui, carried: Waiting) -> None:
        proof_until_us = carried.proof_until_us
        # Whoever has carried it again meanwhile waits for the proof of that.
        if (
            not await _is_proven(carried, proof_until_us - now_us())
            and carried.proof_until_us == proof_until_us
        ):
            carried.proof_until_us = 0
            self.stir(dev_eui)

    async def _send_all(self, dev_eui: Eui, station: Eui) -> None:
        if dev_eui in self._sending:
            return
        self._sending.add(dev_eui)
        try:
            while await self._send_next(dev_eui, station):
                pass
        finally:
            self._sending.discard(dev_eui)
        if self._registry.last_heard(dev_eui) != station:
            self.stir(dev_eui)

    async def _send_next(self, dev_eui: Eui, station: Eui) -> bool:
        """Send the oldest and wait for its proof; False when there is nothing more to do here now.

        Not before the one that is on the air is over, and not where the device was before.
        """
        wait_us = self._on_air_until_us.get(dev_eui, 0) - now_us()
        if wait_us > 0:
            await asyncio.sleep(wait_us / 1_000_000)
        session = self._registry.session_heard(dev_eui)
        if session is None or self._registry.last_heard(dev_eui) != station:
            return False
        due = self._queues.due(dev_eui, now_us(), unasked=True)
        if due is None:
            return False
        wait_us = _proof_us(due)
        self._queues.take(due, now_us() + wait_us)
        sent = False
        try:
            sent = await self._send(session, station, due)
        except StoreUnavailable as error:
            log.warning("%s: nothing is sent: %s", dev_eui, error)
        finally:
            if not sent:
                self._queues.put_back(due)
        if sent:
            await _is_proven(due, wait_us)  # else the next turn sends it again, or gives it up
        return sent


def _proof_us(due: Waiting) -> int:
    return ACK_US if due.downlink.confirmed else REPORT_US


async def _is_proven(waiting: Waiting, within_us: int) -> bool:
    try:
        async with asyncio.timeout(within_us / 1_000_000):
            return await waiting.proven.wait()
    except TimeoutError:
        return False


UNREPORTED_MAX = 4096


class Scheduled(Struct, frozen=True):
    """A downlink that was handed to a station.

    `xtime` and `rx1_delay_us` are those of the uplink it answers, None and 0 in class C;
    `carries` is what it has of the application.
    """

    dev_eui: Eui
    frame_id: str | None = None
    xtime: int | None = None
    rx1_delay_us: int = 0
    f_cnt_down: int | None = None
    dev_addr: DevAddr | None = None
    carries: Waiting | None = None
    pdu_bytes: int = 0


class Unreported:
    """Remembers the newest 4096 downlinks by station and `diid`, until they are reported."""

    def __init__(self, lns: str, record: Callable[[Downlink], None]) -> None:
        self._lns = lns
        self._record = record
        self._scheduled: FIFOCache[tuple[Eui, int], Scheduled] = FIFOCache(UNREPORTED_MAX)

    def note(self, station: Eui, diid: int, scheduled: Scheduled) -> None:
        """A station was handed a downlink."""
        self._scheduled[station, diid] = scheduled

    def reported(self, station: Eui, report: Transmitted) -> Scheduled | None:
        """What a station reports on the air; None if it was not asked for it, or twice."""
        scheduled = self._scheduled.get((station, report.diid))
        if scheduled is None or scheduled.dev_eui != report.dev_eui:
            return None
        del self._scheduled[station, report.diid]
        carried = scheduled.carries.downlink if scheduled.carries else None
        self._record(
            Downlink(
                stage="transmitted",
                lns=self._lns,
                station=station,
                dev_eui=report.dev_eui,
                diid=report.diid,
                window=_window(scheduled, report).value,
                xtime=report.xtime,
                frame_id=scheduled.frame_id,
                f_port=carried.f_port if carried else None,
                confirmed=carried.confirmed if carried else None,
            )
        )
        return scheduled


def _window(scheduled: Scheduled, report: Transmitted) -> Answer:
    if scheduled.xtime is None:
        return Answer.RX2
    late_us = report.xtime - scheduled.xtime - scheduled.rx1_delay_us
    return Answer.RX1 if late_us < RX2_AFTER_RX1_US // 2 else Answer.RX2


class Content(Struct, frozen=True):
    """What an answer carries besides its header: the ACK bit and MAC commands.

    `due`: it is owed to the device even if the application has nothing to say. `f_cnt_down` is the
    counter that the claim of its uplink brought; without one it takes its own.
    """

    ack: bool
    commands: tuple[ServerCommand, ...] = ()
    due: bool = True
    f_cnt_down: int | None = None


class DownlinkFrames:
    """Builds the data downlinks of the devices of one server.

    The sessions of a device are made durable before a downlink counter is used, never after, or a
    restarted server would use it again.
    """

    def __init__(self, registry: Registry, claiming: Claiming, queues: DownlinkQueues) -> None:
        self._registry = registry
        self._claiming = claiming
        self._queues = queues

    async def build(
        self, session: Session, content: Content, carried: Waiting | None
    ) -> tuple[bytes, int] | None:
        """The bytes of a data downlink, and its counter, which is durable already.

        None: another server owns the session, or its counters are used up. StoreUnavailable:
        nothing may leave.
        """
        said = carried.downlink if carried else None
        f_cnt_down = content.f_cnt_down
        if f_cnt_down is None:
            device = self._registry.device(session.dev_eui)
            assert device is not None, "a session belongs to a device of this server"
            if self._registry.shares(device):
                f_cnt_down = await self._claiming.take_f_cnt_down(session)
            else:
                f_cnt_down = session.take_f_cnt_down()
        if f_cnt_down is None:
            return None
        await self._registry.keep(session.dev_eui)
        waiting = self._queues.waiting(session.dev_eui)
        pdu = build_data(
            MType.CONFIRMED_DOWN if said and said.confirmed else MType.UNCONFIRMED_DOWN,
            dev_addr=session.dev_addr,
            f_cnt=f_cnt_down,
            keys=session.keys,
            f_port=said.f_port if said else None,
            payload=said.payload if said else b"",
            ack=content.ack,
            f_opts=encode(content.commands),
            f_pending=waiting > (1 if said else 0),
        )
        return pdu, f_cnt_down


# MHDR, DevAddr, FCtrl, FCnt, FPort, MIC: what a frame has besides FOpts and payload.
_FRAME_OVERHEAD_BYTES = 13


class Stations(Protocol):
    """The stations connected right now."""

    def is_current(self, station: Eui, xtime: int) -> bool:
        """Whether `xtime` belongs to the running radio session of a connected station."""

    async def send(self, station: Eui, downlink: Dnmsg) -> bool:
        """Hand a downlink to a station; False when it is not connected any more."""

    def soon(self, station: Eui, errand: Callable[[], Awaitable[None]]) -> None:
        """Begin something that ends with a station's connection; nothing without one."""


class Downlinks:
    """Builds and sends downlinks; numbers them with `diid`, from the milliseconds of UTC.

    What a frame of data says, and with which counter, is up to `lns.downlink.downlink`.
    """

    def __init__(
        self,
        lns: str,
        region: Region,
        stations: Stations,
        registry: Registry,
        record: Callable[[Downlink | Request], None],
        utc: Utc,
        claiming: Claiming,
    ) -> None:
        self._lns = lns
        self._region = region
        self._stations = stations
        self._registry = registry
        self._record = record
        self._utc = utc
        self._diid = 0
        self.queues = DownlinkQueues(lns, record)
        self._frames = DownlinkFrames(registry, claiming, self.queues)
        self.statuses = StatusRequests(lns, record)
        self._unreported = Unreported(lns, record)
        self._class_c = ClassC(registry, stations, self.queues, self._send_at_once)

    def enqueue(self, dev_eui: Eui, downlink: ApplicationDownlink) -> str | None:
        """Send a device something of the application when it can be; or why it is refused."""
        reason = self._refusal(dev_eui, downlink)
        if reason is not None:
            self.queues.refuse(reason, dev_eui, downlink)
            return reason
        if not self.queues.add(dev_eui, downlink):
            return QUEUE_FULL
        self._class_c.stir(dev_eui)
        return None

    def want_status(self, dev_eui: Eui) -> str | None:
        """Ask a device for its status with its next answer; or why that is refused."""
        reason = self._refusal(dev_eui)
        if reason is not None:
            self.statuses.refuse(reason, dev_eui)
            return reason
        self.statuses.want(dev_eui)
        return None

    def refuse(self, reason: str) -> None:
        """Tell of a request that could not be read."""
        self.queues.refuse(reason)

    async def answer(
        self, reception: Reception, session: Session, frame_id: str, content: Content
    ) -> Answer:
        """Answer a data uplink in the first window that can be met.

        A downlink counter is taken only for a frame that leaves: `TooLate` costs none, but where
        a claim brought it already, or the store takes so long that no window is left.
        `Suppressed`: another server owns the session by now.
        """
        dev_eui, delay_us = session.dev_eui, session.listening.rx_delay_s * 1_000_000
        began_us, window = now_us(), self._window(reception, delay_us)
        carried = self._carried(reception, session, window, content) if window else None
        if window is None or not (content.due or carried):
            self._class_c.stir(dev_eui)
            return Answer.TOO_LATE if content.due else Answer.NOT_ASKED
        if carried:
            to_rx2_us = RX2_AFTER_RX1_US if window.answer is Answer.RX1 else 0
            self.queues.take(carried, now_us() + window.margin_us + to_rx2_us)
        sent = Answer.SUPPRESSED
        try:
            built = await self._frames.build(session, content, carried)
            if built is None:
                return sent
            pdu, f_cnt_down = built
            window = self._left(reception, window, now_us() - began_us)
            if window is None:
                self._class_c.stir(dev_eui)
                sent = Answer.TOO_LATE
                return sent
            scheduled = Scheduled(
                dev_eui,
                frame_id,
                reception.xtime,
                delay_us,
                f_cnt_down,
                session.dev_addr,
                carried,
                len(pdu),
            )
            sent = await self._send(reception, window, pdu, scheduled, session.listening)
        finally:
            if carried and sent not in SENT:
                self.queues.put_back(carried)
        if carried and sent in SENT:
            self._class_c.watch(dev_eui, reception.station, carried)
        return sent

    async def accept(
        self, reception: Reception, dev_eui: Eui, frame_id: str, join_accept: bytes
    ) -> Answer:
        """Answer a join request in its later windows (JOIN_ACCEPT_DELAY1 and 2)."""
        delay_us = self._region.join_accept_delay_us
        window = self._window(reception, delay_us)
        if window is None:
            return Answer.TOO_LATE
        scheduled = Scheduled(
            dev_eui, frame_id, reception.xtime, delay_us, pdu_bytes=len(join_accept)
        )
        return await self._send(reception, window, join_accept, scheduled, AS_REGION_SAYS)

    def transmitted(self, station: Eui, report: Transmitted) -> None:
        """A station reports a downlink on the air: the only proof that it was sent."""
        scheduled = self._unreported.reported(station, report)
        if scheduled is None:
            return
        self._class_c.on_air(scheduled.dev_eui, self._airtime_us(report.dr, scheduled.pdu_bytes))
        carried = scheduled.carries
        if carried is not None and carried.downlink.confirmed:
            return  # who sent it waits until the device has had time to acknowledge it
        if carried is not None:
            self.queues.prove(scheduled.dev_eui, carried)
        if scheduled.f_cnt_down is not None:
            self._class_c.stir(scheduled.dev_eui)  # behind an accept nobody has been heard yet

    def _airtime_us(self, dr: int, pdu_bytes: int) -> int:
        known = self._region.data_rates[dr : dr + 1]
        data_rate = known[0] if known else None
        return 0 if data_rate is None else frame_airtime_us(data_rate, pdu_bytes, crc=False)

    def _refusal(self, dev_eui: Eui, downlink: ApplicationDownlink | None = None) -> str | None:
        device = self._registry.device(dev_eui)
        if device is None:
            return "UnknownDevice"
        if device.server not in (None, self._lns):
            return "BelongsToAnotherServer"
        longest = max(size or 0 for size in self._region.max_payloads)
        return "TooLong" if downlink and len(downlink.payload) > longest else None

    def _window(self, reception: Reception, rx1_delay_us: int) -> Window | None:
        if reception.heard_us is None:
            return None
        if not self._stations.is_current(reception.station, reception.xtime):
            return None  # a station discards the xtime of an earlier radio session
        return first_window(now_us(), reception.heard_us, rx1_delay_us)

    def _left(self, reception: Reception, window: Window, spent_us: int) -> Window | None:
        """What is left of a window that was chosen before its counter was durable."""
        is_current = self._stations.is_current(reception.station, reception.xtime)
        return window.after(spent_us) if is_current else None

    def _offer(
        self, reception: Reception, window: Window, payload_bytes: int, listening: Listening
    ) -> Offer:
        return offer(
            self._region,
            reception.dr,
            reception.freq_hz,
            window.answer,
            payload_bytes,
            rx1_dr_offset=listening.rx1_dr_offset,
            rx2_dr=listening.rx2_dr,
        )

    def _carried(
        self, reception: Reception, session: Session, window: Window, content: Content
    ) -> Waiting | None:
        """What the application has to say in this answer: nothing, or one that fits a window.

        MAC commands go first. One that would not even fit RX1 without them is given up.
        """
        dev_eui, listening = session.dev_eui, session.listening
        due = self.queues.due(dev_eui, now_us())
        if due is None:
            return None
        size, f_opts = len(due.downlink.payload), len(encode(content.commands))
        if not self._offer(reception, window, size + f_opts, listening).is_empty:
            return due
        fits_none = self._offer(reception, window, size, listening).is_empty
        if window.answer is Answer.RX1 and fits_none:
            self.queues.give_up(dev_eui, due, "TooLong")
        return None

    async def _send(
        self,
        reception: Reception,
        window: Window,
        pdu: bytes,
        scheduled: Scheduled,
        listening: Listening,
    ) -> Answer:
        offered = self._offer(reception, window, len(pdu) - _FRAME_OVERHEAD_BYTES, listening)
        rx1, rx2 = offered.rx1, offered.rx2
        if offered.is_empty:
            return Answer.TOO_LATE  # it would have fitted RX1
        if rx1 is None and window.answer is Answer.RX1:
            window = Window(Answer.RX2, window.margin_us + RX2_AFTER_RX1_US)
        downlink = Dnmsg(
            dev_eui=scheduled.dev_eui,
            diid=self._next_diid(),
            pdu=pdu,
            rx_delay_s=scheduled.rx1_delay_us // 1_000_000,
            rx1_dr=rx1 and rx1[0],
            rx1_freq_hz=rx1 and rx1[1],
            rx2_dr=rx2 and rx2[0],
            rx2_freq_hz=rx2 and rx2[1],
            xtime=reception.xtime,
            rctx=reception.rctx,
        )
        sent = await self._hand_over(reception.station, downlink, scheduled, window)
        return window.answer if sent else Answer.TOO_LATE

    async def _send_at_once(self, session: Session, station: Eui, waiting: Waiting) -> bool:
        """Class C, without an uplink: RX2 only, no xtime, no RX1 (Basics Station, `dnmsg`)."""
        rx2_dr, rx2_freq_hz = self._region.rx2(session.listening.rx2_dr)
        if len(waiting.downlink.payload) > self._region.max_payload(rx2_dr):
            return False  # perhaps RX1 of its next uplink is faster
        built = await self._frames.build(session, Content(ack=False), waiting)
        if built is None:
            return False  # the server that owns the session hears of the device, this one does not
        pdu, f_cnt_down = built
        downlink = Dnmsg(
            dev_eui=session.dev_eui,
            device_class=CLASS_C,
            diid=self._next_diid(),
            pdu=pdu,
            rx2_dr=rx2_dr,
            rx2_freq_hz=rx2_freq_hz,
        )
        scheduled = Scheduled(
            session.dev_eui,
            f_cnt_down=f_cnt_down,
            dev_addr=session.dev_addr,
            carries=waiting,
            pdu_bytes=len(pdu),
        )
        return await self._hand_over(station, downlink, scheduled, Window(Answer.RX2, 0))

    def _next_diid(self) -> int:
        """Greater than any of an earlier process, whose reports may still come."""
        self._diid = self._diid + 1 if self._diid else int(self._utc().timestamp() * 1000)
        return self._diid

    async def _hand_over(
        self, station: Eui, downlink: Dnmsg, scheduled: Scheduled, window: Window
    ) -> bool:
        if not await self._stations.send(station, downlink):
            return False
        self._unreported.note(station, downlink.diid, scheduled)
        carried = scheduled.carries.downlink if scheduled.carries else None
        self._record(
            Downlink(
                stage="scheduled",
                lns=self._lns,
                station=station,
                dev_eui=scheduled.dev_eui,
                dev_addr=scheduled.dev_addr,
                diid=downlink.diid,
                window=window.answer.value,
                xtime=scheduled.xtime,
                f_cnt_down=scheduled.f_cnt_down,
                frame_id=scheduled.frame_id,
                margin_us=None if scheduled.xtime is None else window.margin_us,
                f_port=carried.f_port if carried else None,
                confirmed=carried.confirmed if carried else None,
            )
        )
        return True
