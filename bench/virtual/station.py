"""What does a Basics Station do, between the air and its network server?

Behaves as version 2.0.6 with one radio and without a time source. Simplified: it hears every
frequency of the air, and after its sixth lost connection it looks for its server again at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bench.chance import stream
from bench.device.activation import Eui
from bench.radio.medium import Heard, Medium, Record, Transmission
from bench.station.link import LinkClosed, TextLink
from bench.virtual.back_off import BackOff
from bench.virtual.concentrator_clock import ConcentratorClock
from bench.virtual.receive_queue import POLL_US, RadioFrame, ReceiveQueue, next_poll_us
from bench.virtual.transmitter import Job, Transmitter, allowed
from lns.clock import now_us
from lns.station.messages import UpInfo
from lns.station.protocol import Configured, DownlinkWanted, Side, StationProtocol, TimeTold

_TO_SERVER_US = (800, 11_000)
_HWSPEC = "sx1301/1"
_EU868_STRONG_HZ = range(869_400_000, 869_650_001)
_POWER_DBM = {"EU868": 16, "US915": 26}
_EU868_STRONG_DBM = 27


class VirtualStation:
    """One station; `run` it in a task, cancel that to switch it off.

    Remembers its radio session, frames not yet told and downlinks planned. `link_factory` connects
    it to its server (or to a tap); LinkClosed means that nobody is there. The radio starts with the
    first `router_config` and goes on while the link is down. `antennas_db`: how much weaker each
    antenna hears (its place is its `rctx`). `gps_start_us`: GPS time at the start of the bench's
    clock; None without a receiver. A station that does not introduce itself sends no `version`.
    Every `router_config` makes it forget its clocks: see `ConcentratorClock.tell`.
    """

    def __init__(
        self,
        eui: Eui,
        medium: Medium,
        link_factory: Callable[[], Awaitable[TextLink]],
        *,
        seed: int,
        record: Record,
        ppm: int = 0,
        offset_us: int | None = None,
        duty_cycle: bool = False,
        antennas_db: tuple[int, ...] = (0,),
        gps_start_us: int | None = None,
    ) -> None:
        self.eui = eui
        self.introduces_itself = True
        self._antennas_db = antennas_db
        self._gps_start_us = gps_start_us
        self._medium = medium
        self._link_factory = link_factory
        self._record = record
        clock_chance = stream(seed, "station", eui, "clock")
        self.clock = ConcentratorClock(clock_chance, ppm=ppm, offset_us=offset_us)
        self._latency = stream(seed, "station", eui, "latency")
        self._poll_phase_us = self._latency.randrange(POLL_US)
        self._queue = ReceiveQueue()
        self._transmitter = Transmitter(
            medium.plan,
            self.clock,
            emit=self._emit,
            emitted=self._emitted,
            duty_cycle=duty_cycle,
        )
        self._protocol: StationProtocol | None = None
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
        self._link: TextLink | None = None
        self._back_off = BackOff()
        self._time_told: tuple[float, int] | None = None
        self._radio_on = False
        self._polling = False

    @property
    def connected(self) -> bool:
        """Whether the link to the server is up."""
        return self._link is not None

    @property
    def radio_on(self) -> bool:
        """Whether the radio runs: after the first `router_config`."""
        return self._radio_on

    def xtime_now(self) -> int:
        """What the concentrator's counter shows, with its session; 0 before the radio runs."""
        return self.clock.xtime(now_us())

    async def run(self) -> None:
        """Connect, serve and connect again, until cancelled."""
        try:
            while True:
                try:
                    await self._serve(await self._link_factory())
                except LinkClosed:
                    pass
                await self._back_off.wait()
        finally:
            self._switch_radio_off()

    def restart(self) -> None:
        """Restart the process: link, radio session and everything queued are gone."""
        self._switch_radio_off()
        self._queue.take_all()
        self._time_told = None
        self._back_off.restart()
        if self._link is not None:
            self._link.close()

    def deliver(
        self,
        phy: bytes,
        *,
        dr: int,
        freq_hz: int,
        rssi_dbm: int,
        snr_db: float,
        rctx: int = 0,
        end_us: int | None = None,
        origin: str = "injected",
        transmission: int | None = None,
    ) -> bool:
        """Let the radio have heard a frame that ended at `end_us` (default now).

        False while the radio is off. A frame of origin "injected" is noted as a fault on the air.
        """
        if origin == "injected":
            self._note_injected(phy)
        if not self._radio_on:
            return False
        frame = RadioFrame(
            phy=phy,
            dr=dr,
            freq_hz=freq_hz,
            rssi_dbm=max(-255, min(rssi_dbm, 0)),
            snr_db=max(-32.0, min(snr_db, 31.75)),
            rctx=rctx,
            xtime=self.clock.xtime(now_us() if end_us is None else end_us),
            transmission=transmission,
        )
        if self._queue.add(frame):
            self._poll_soon()
        elif transmission is not None:
            lost = {"transmission": transmission, "receiver": self.eui, "cause": "busy"}
            self._record("air", "radio.lost", lost)
        return True

    def frame_heard(self, heard: Heard) -> None:
        """Take an uplink, at its end; the medium calls it."""
        sent = heard.transmission
        for antenna, weaker_db in enumerate(self._antennas_db):
            self.deliver(
                sent.phy,
                dr=sent.dr,
                freq_hz=sent.freq_hz,
                rssi_dbm=heard.rssi_dbm - weaker_db,
                snr_db=heard.snr_db - weaker_db,
                rctx=antenna,
                end_us=heard.end_us,
                origin="device",
                transmission=sent.number,
            )

    def _note_injected(self, phy: bytes) -> None:
        fault = {"seam": "air", "fault": "replay", "station": self.eui, "origin": "injected"}
        detail: dict[str, object] = {"phy": phy.hex().upper()}
        for kind in ("fault.begin", "fault.end"):
            self._record("bench", kind, {**fault, "detail": detail})

    def _poll_soon(self) -> None:
        if self._polling:
            return
        self._polling = True
        poll_us = next_poll_us(now_us(), self._poll_phase_us)
        told_us = poll_us + self._latency.randint(*_TO_SERVER_US)
        asyncio.get_running_loop().call_at(told_us / 1_000_000, self._poll)

    def _poll(self) -> None:
        self._polling = False
        self._tell_frames()

    def _tell_frames(self) -> None:
        """Tell the server what was heard; while the link is down it stays queued."""
        if self._protocol is None:
            return
        ref_time = self._utc_s()
        for frame in self._queue.take_all():
            upinfo = UpInfo(
                rctx=frame.rctx,
                xtime=frame.xtime,
                rssi_dbm=frame.rssi_dbm,
                snr_db=frame.snr_db,
                gpstime=self._gps_us(frame),
                rxtime=ref_time,
            )
            self._protocol.send_uplink(
                frame.phy, dr=frame.dr, freq_hz=frame.freq_hz, upinfo=upinfo, ref_time=ref_time
            )
        self._push()

    def _gps_us(self, frame: RadioFrame) -> int:
        """When the frame ended by GPS; 0 without a receiver."""
        start_us, ended_us = self._gps_start_us, self.clock.time_us(frame.xtime)
        return 0 if start_us is None or ended_us is None else start_us + ended_us

    def _utc_s(self) -> float:
        """What the server last told, and the time since; 0 if it never did."""
        if self._time_told is None:
            return 0.0
        mux_time, told_us = self._time_told
        return mux_time + (now_us() - told_us) / 1_000_000

    async def _serve(self, link: TextLink) -> None:
        """Speak the protocol on one connection until it is over."""
        self._link = link
        self._outgoing = asyncio.Queue()
        self._protocol = StationProtocol(Side.STATION, xtime_now=lambda: self.clock.tell(now_us()))
        if self.introduces_itself:
            self.clock.is_told = False  # it will be configured anew
            self._protocol.send_version()
        self._tell_frames()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send(link, self._outgoing))
                tasks.create_task(self._read(link, self._protocol))
        except* LinkClosed:
            pass
        finally:
            self._protocol = None
            self._link = None
            link.close()

    async def _send(self, link: TextLink, outgoing: asyncio.Queue[str]) -> None:
        while True:
            await link.send(await outgoing.get())

    async def _read(self, link: TextLink, protocol: StationProtocol) -> None:
        while True:
            protocol.receive_text(await link.receive())
            for event in protocol.events_received():
                match event:
                    case Configured(config):
                        self._start_radio(link, config)
                    case DownlinkWanted(dnmsg):
                        self._transmitter.plan(dnmsg)
                    case TimeTold(mux_time):
                        self._time_told = mux_time, now_us()
            self._push()

    def _push(self) -> None:
        if self._protocol is not None:
            for text in self._protocol.texts_to_send():
                self._outgoing.put_nowait(text)

    def _start_radio(self, link: TextLink, config: dict[str, Any]) -> None:
        """Start the radio anew, a new session; a plan for another radio ends the connection."""
        if config.get("hwspec") != _HWSPEC or not config.get("sx1301_conf"):
            link.close()
            return
        self.clock.start(now_us())
        self._transmitter.start(allowed(config, self._medium.plan))
        self._radio_on = True
        self._medium.attach(self, hears="up")

    def _switch_radio_off(self) -> None:
        self._radio_on = False
        self._transmitter.stop()
        self._medium.detach(self, hears="up")

    def _emit(self, job: Job) -> Transmission:
        strong = self._medium.plan.name == "EU868" and job.freq_hz in _EU868_STRONG_HZ
        power_dbm = _EU868_STRONG_DBM if strong else _POWER_DBM[self._medium.plan.name]
        return self._medium.transmit(
            self.eui,
            job.dnmsg.pdu,
            direction="down",
            freq_hz=job.freq_hz,
            dr=job.dr,
            power_dbm=power_dbm,
            start_us=job.start_us,  # the concentrator's own timer starts a frame
        )

    def _emitted(self, job: Job) -> None:
        if self._protocol is None:
            return
        self._protocol.send_transmitted(
            job.dnmsg,
            dr=job.dr,
            freq_hz=job.freq_hz,
            xtime=job.xtime,
            txtime=job.start_us / 1_000_000,
        )
        self._push()
