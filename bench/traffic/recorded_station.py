"""How does a station tell again what it heard long ago?

It has no radio: a capture says what was heard. Everything it says is in Basics Station's own
spelling, with an `xtime` of its own clock. It keeps both reports of a gateway that has two
concentrators, where a station with one radio would keep the better copy.
"""

import asyncio
from collections.abc import Awaitable, Callable

from bench.chance import stream
from bench.station.link import LinkClosed, TextLink
from bench.traffic.recording import Hearing, Uplink
from bench.virtual.station.transmitter import ConcentratorClock
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.station.messages import UpInfo
from lns.station.protocol import Configured, Side, StationProtocol, TimeTold


class RecordedStation:
    """One station of a capture; `run` it in a task and, once it is `ready`, `tell` what it heard.

    Downlinks reach it and are not transmitted: the device that would listen is not there.
    """

    def __init__(self, eui: Eui, connect: Callable[[], Awaitable[TextLink]], *, seed: int) -> None:
        self.eui = eui
        self.ready = asyncio.Event()
        self._connect = connect
        self._clock = ConcentratorClock(stream(seed, "station", eui, "clock"))
        self._protocol = StationProtocol(Side.STATION, xtime_now=self.xtime_now)
        self._link: TextLink | None = None
        self._utc_us: int | None = None

    def xtime_now(self) -> int:
        """What its clock shows; 0 before the server has configured it."""
        return self._clock.xtime(now_us())

    async def run(self) -> None:
        """Introduce itself to the server and listen to it, until the link is over."""
        link = self._link = await self._connect()
        self._protocol.send_version()
        try:
            while True:
                await self._push(link)
                self._protocol.receive_text(await link.receive())
                self._take_notice()
        except LinkClosed:
            return
        finally:
            link.close()

    async def tell(self, uplink: Uplink, hearing: Hearing, *, heard_us: int) -> None:
        """Report an uplink now that ended at `heard_us`; LinkClosed where nobody listens."""
        assert self._link is not None and self.ready.is_set()
        utc_s = 0.0 if self._utc_us is None else (self._utc_us + now_us()) / 1_000_000
        upinfo = UpInfo(
            xtime=self._clock.xtime(heard_us),
            rssi_dbm=hearing.rssi_dbm,
            snr_db=hearing.snr_db,
            rxtime=utc_s,
        )
        self._protocol.send_uplink(
            uplink.phy, dr=uplink.dr, freq_hz=uplink.freq_hz, upinfo=upinfo, ref_time=utc_s
        )
        await self._push(self._link)

    def _take_notice(self) -> None:
        for event in self._protocol.events_received():
            match event:
                case Configured():
                    self._clock.start(now_us())
                    self.ready.set()
                case TimeTold(mux_time):
                    self._utc_us = round(mux_time * 1_000_000) - now_us()

    async def _push(self, link: TextLink) -> None:
        for text in self._protocol.texts_to_send():
            await link.send(text)
