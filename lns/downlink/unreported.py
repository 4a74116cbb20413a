"""Which downlinks may a station still report on the air?

`dntxed` is the only proof that something was sent; of what it could not send a station says
nothing at all (Basics Station, `dntxed`).
"""

from collections.abc import Callable

from cachetools import FIFOCache
from msgspec import Struct

from lns.downlink.downlink_queue import Waiting
from lns.downlink.receive_window import RX2_AFTER_RX1_US, Answer
from lns.events import Downlink
from lns.lorawan.identifiers import DevAddr, Eui
from lns.station.protocol import Transmitted

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
