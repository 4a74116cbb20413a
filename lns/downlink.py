"""How does an answer leave: which window, which counter, which bytes, through which station?

Always through the station that delivered the reception being answered, with that reception's own
`xtime` and `rctx` (Basics Station, `dnmsg`). RX2 goes along as the fall-back of RX1.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from lns.clock import now_us
from lns.end_device import Session
from lns.events import Downlink
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import Region
from lns.receive_window import RX2_AFTER_RX1_US, Answer, Window, first_window
from lns.reception import Reception
from lns.station.messages import Dnmsg
from lns.station.protocol import Transmitted

# Downlinks whose `dntxed` may still come; of one that it cannot send a station says nothing.
WAITING_MAX = 4096


class Stations(Protocol):
    """The stations connected right now."""

    def is_current(self, station: Eui, xtime: int) -> bool:
        """Whether `xtime` belongs to the running radio session of a connected station."""

    async def send(self, station: Eui, downlink: Dnmsg) -> bool:
        """Hand a downlink to a station; False when it is not connected any more."""


@dataclass(frozen=True, slots=True)
class Content:
    """What an answer carries besides its header: the ACK bit and MAC commands."""

    ack: bool
    f_opts: bytes = b""


class Downlinks:
    """Builds and sends answers; numbers them with `diid`, unique in this server.

    `keep` makes the sessions of a device durable: before a downlink counter is used, never after,
    or a restarted server would use it again.
    """

    def __init__(
        self,
        lns: str,
        region: Region,
        stations: Stations,
        keep: Callable[[Eui], Awaitable[None]],
        record: Callable[[Downlink], None],
        *,
        first_diid: int = 1,
    ) -> None:
        self._lns = lns
        self._region = region
        self._stations = stations
        self._keep = keep
        self._record = record
        self._diid = first_diid
        self._waiting: dict[int, Waiting] = {}

    async def answer(
        self, reception: Reception, session: Session, frame_id: str, content: Content
    ) -> Answer:
        """Answer a data uplink in the first window that can be met.

        A downlink counter is taken only for a frame that leaves: `TooLate` costs none.
        """
        window = self._window(reception, self._region.receive_delay_us)
        if window is None:
            return Answer.TOO_LATE
        f_cnt_down = session.take_f_cnt_down()
        await self._keep(session.dev_eui)
        pdu = build_data(
            MType.UNCONFIRMED_DOWN,
            dev_addr=session.dev_addr,
            f_cnt=f_cnt_down,
            keys=session.keys,
            ack=content.ack,
            f_opts=content.f_opts,
        )
        return await self._send(
            reception,
            window,
            pdu,
            session.dev_eui,
            Scheduled(frame_id, self._region.receive_delay_us, f_cnt_down, session.dev_addr),
        )

    async def accept(
        self, reception: Reception, dev_eui: Eui, frame_id: str, join_accept: bytes
    ) -> Answer:
        """Answer a join request in its later windows (JOIN_ACCEPT_DELAY1 and 2)."""
        window = self._window(reception, self._region.join_accept_delay_us)
        if window is None:
            return Answer.TOO_LATE
        return await self._send(
            reception,
            window,
            join_accept,
            dev_eui,
            Scheduled(frame_id, self._region.join_accept_delay_us),
        )

    def transmitted(self, station: Eui, report: Transmitted) -> None:
        """A station reports a downlink on the air: the only proof that it was sent."""
        waiting = self._waiting.pop(report.diid, None)
        if waiting is None:
            return
        late_us = report.xtime - waiting.xtime - waiting.rx1_delay_us
        window = Answer.RX1 if late_us < RX2_AFTER_RX1_US // 2 else Answer.RX2
        self._record(
            Downlink(
                stage="transmitted",
                lns=self._lns,
                station=station,
                dev_eui=report.dev_eui,
                diid=report.diid,
                window=window.value,
                xtime=report.xtime,
                frame_id=waiting.frame_id,
            )
        )

    def _window(self, reception: Reception, rx1_delay_us: int) -> Window | None:
        if reception.heard_us is None:
            return None
        if not self._stations.is_current(reception.station, reception.xtime):
            return None  # a station discards the xtime of an earlier radio session
        window = first_window(now_us(), reception.heard_us, rx1_delay_us)
        if window is not None and window.answer is Answer.RX1 and self._rx1(reception) is None:
            return Window(Answer.RX2, window.margin_us + RX2_AFTER_RX1_US)
        return window

    def _rx1(self, reception: Reception) -> tuple[int, int] | None:
        """Data rate and frequency of RX1; None for an uplink that this region does not have."""
        try:
            return self._region.rx1(reception.dr, reception.freq_hz)
        except ValueError:
            return None

    async def _send(
        self,
        reception: Reception,
        window: Window,
        pdu: bytes,
        dev_eui: Eui,
        scheduled: "Scheduled",
    ) -> Answer:
        diid = self._diid
        self._diid += 1
        rx1_dr, rx1_freq_hz = None, None
        if window.answer is Answer.RX1:
            rx1_dr, rx1_freq_hz = self._region.rx1(reception.dr, reception.freq_hz)
        downlink = Dnmsg(
            dev_eui=dev_eui,
            device_class=0,
            diid=diid,
            pdu=pdu,
            rx_delay_s=scheduled.rx1_delay_us // 1_000_000,
            rx1_dr=rx1_dr,
            rx1_freq_hz=rx1_freq_hz,
            rx2_dr=self._region.rx2_dr,
            rx2_freq_hz=self._region.rx2_freq_hz,
            xtime=reception.xtime,
            rctx=reception.rctx,
        )
        if not await self._stations.send(reception.station, downlink):
            return Answer.TOO_LATE
        self._waiting[diid] = Waiting(scheduled.frame_id, reception.xtime, scheduled.rx1_delay_us)
        if len(self._waiting) > WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        self._record(
            Downlink(
                stage="scheduled",
                lns=self._lns,
                station=reception.station,
                dev_eui=dev_eui,
                dev_addr=scheduled.dev_addr,
                diid=diid,
                window=window.answer.value,
                xtime=reception.xtime,
                f_cnt_down=scheduled.f_cnt_down,
                frame_id=scheduled.frame_id,
                margin_us=window.margin_us,
            )
        )
        return window.answer


@dataclass(frozen=True, slots=True)
class Waiting:
    """A downlink that a station has not reported yet; `xtime` is the uplink's."""

    frame_id: str
    xtime: int
    rx1_delay_us: int


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The facts of an answer that its station need not know but the capture tells."""

    frame_id: str
    rx1_delay_us: int
    f_cnt_down: int | None = None
    dev_addr: DevAddr | None = None
