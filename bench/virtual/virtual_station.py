"""What does a Basics Station do, between the air and its network server?

Behaves as version 2.0.6 with one radio of ten channels, as its server has set them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bench.capture import Record
from bench.chance import stream
from bench.station import LinkClosed, TextLink
from bench.station.tap import MemoryLink
from bench.transmission import Eui, Transmission
from bench.verdict import wire
from bench.virtual.air import Heard, Medium
from bench.virtual.lorawan.channel_plan import Fsk, Lora, Modulated
from bench.virtual.transmitter import ConcentratorClock, Job, Transmitter, allowed
from lns.clock import now_us

LOSSES_MAX = 5
AWAY_S = 10
AWAY_MAX = 6


class BackOff:
    """The waiting of one station; remembers how often it failed since its start."""

    def __init__(self) -> None:
        self._failures = 0
        self._restarted = False
        self._waiter: asyncio.Future[None] | None = None

    async def lost(self) -> bool:
        """Wait 1, 2, 4, 8 or 16 s after a lost connection; False: it is to be discovered anew."""
        if self._failures >= LOSSES_MAX:
            self._failures = 0
            await self._wait(0)
            return False
        wait_s = 1 << self._failures
        self._failures += 1
        await self._wait(wait_s)
        return True

    async def away(self) -> None:
        """Wait 10, 20 and up to 60 s where no server was found; the first time not at all."""
        wait_s = AWAY_S * min(self._failures, AWAY_MAX)
        self._failures += 1
        await self._wait(wait_s)

    def restart(self) -> None:
        """The process starts anew: the wait under way, or the next one, is over at once."""
        self._failures = 0
        self._restarted = True
        self._wake()

    async def _wait(self, wait_s: int) -> None:
        if self._restarted:
            self._restarted = False
            return
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(wait_s, self._wake)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
        self._restarted = False

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


POLL_US = 20_000
FRAMES_MAX = 64
BYTES_MAX = 10 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RadioFrame:
    """A frame as the concentrator gave it; `transmission` names it on the simulated air."""

    phy: bytes
    dr: int
    freq_hz: int
    rssi_dbm: int
    snr_db: float
    rctx: int
    xtime: int
    transmission: int | None = None

    @property
    def quality(self) -> float:
        """What Basics Station compares: 8 SNR - RSSI, in units of a quarter dB and of -1 dBm."""
        return 8 * 4 * self.snr_db + self.rssi_dbm


class ReceiveQueue:
    """The frames that were heard and not yet told; remembers them until `take_all`."""

    def __init__(self) -> None:
        self._frames: deque[RadioFrame] = deque()
        self._bytes = 0

    def add(self, frame: RadioFrame) -> bool:
        """Queue a frame, or keep only the better of it and its equal; False if it is lost."""
        for at, queued in enumerate(self._frames):
            if queued.phy == frame.phy and queued.dr == frame.dr:
                self._keep_better(at, frame)
                return True
        if len(self._frames) >= FRAMES_MAX or self._bytes + len(frame.phy) > BYTES_MAX:
            return False
        self._frames.append(frame)
        self._bytes += len(frame.phy)
        return True

    def take_all(self) -> list[RadioFrame]:
        frames = list(self._frames)
        self._frames.clear()
        self._bytes = 0
        return frames

    def _keep_better(self, at: int, frame: RadioFrame) -> None:
        if frame.quality > self._frames[at].quality:
            del self._frames[at]
            self._frames.append(frame)


def as_stored(rssi_dbm: int, snr_db: float) -> tuple[int, float]:
    """Strength as the station keeps it: -RSSI in an octet without sign, SNR in quarters of a dB.

    What does not fit begins again at the other end: +5 dBm reads -251.
    """
    quarters = int(snr_db * 4)
    return -(-rssi_dbm % 256), ((quarters + 128) % 256 - 128) / 4


def next_poll_us(now_us: int, phase_us: int) -> int:
    """The next poll at or after `now_us`, on a grid of 20 ms shifted by `phase_us`."""
    return now_us + (phase_us - now_us) % POLL_US


_TO_SERVER_US = (800, 11_000)
_HWSPEC = "sx1301/1"
_VERSION = "2.0.6(linux/std)"
_FIRMWARE = "lorabench 1.0"
_PULSE_US = 71_000
_PULSES_MAX = 10
_PULSES_AGAIN_US = 5_000_000
_ROUND_TRIP_MAX_US = 2_000_000
_SECOND_US = 1_000_000
_MUX_TIME_MAX = 1 << 40
_EU868_STRONG_HZ = range(869_400_000, 869_650_001)
_EU868_STRONG_DBM = 27


class VirtualStation:
    """One station; `run` it in a task, cancel that to switch it off.

    Remembers its radio session, frames not yet told and downlinks planned. `link_factory` connects
    it to its server (or to a tap); LinkClosed means that nobody is there. The radio starts with the
    first `router_config`. It goes on while the link is down, until no server is found any more:
    then it stops, and what was queued is lost. `rediscover` is called before the link is looked for
    by way of discovery, otherwise it is opened where it was. `antennas_db`: how much weaker each
    antenna hears (its place is its `rctx`). `gps_start_us`: GPS time at the start of the bench's
    clock; None without a receiver: with one it asks its server which second it is (`timesync`), and
    knows GPS time from then on. A station that does not introduce itself sends no `version`.
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
        rediscover: Callable[[], None] | None = None,
    ) -> None:
        self.eui = eui
        self.introduces_itself = True
        self._antennas_db = antennas_db
        self._gps_start_us = gps_start_us
        self._gps_ahead_us: int | None = None
        self._pulses = 0
        self._pulse_timer: asyncio.TimerHandle | None = None
        self._rediscover = rediscover
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
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
        self._link: TextLink | None = None
        self._back_off = BackOff()
        self._time_told: tuple[float, int] | None = None
        self.radio_on = False
        """Whether the radio runs: after the first `router_config`."""
        self._tuned: frozenset[tuple[int, Modulated | None]] = frozenset()
        self._polling = False

    @property
    def connected(self) -> bool:
        return self._link is not None

    def xtime_now(self) -> int:
        """What the concentrator's counter shows, with its session; 0 before the radio runs."""
        return self.clock.xtime(now_us())

    async def run(self) -> None:
        try:
            while True:
                link = await self._find_server()
                if link is None:
                    self._switch_radio_off()
                    self._queue.take_all()
                    await self._back_off.away()
                    continue
                await self._serve(link)
                if not await self._back_off.lost() and self._rediscover is not None:
                    self._rediscover()
        finally:
            self._switch_radio_off()

    async def _find_server(self) -> TextLink | None:
        try:
            return await self._link_factory()
        except LinkClosed:
            if self._rediscover is None:
                return None
        self._rediscover()
        try:
            return await self._link_factory()
        except LinkClosed:
            return None

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

        False while the radio is off. What it hears of origin "injected" is noted as a fault on
        the air.
        """
        if not self.radio_on:
            return False
        if origin == "injected":
            self._note_injected(phy)
        rssi_dbm, snr_db = as_stored(rssi_dbm, snr_db)
        frame = RadioFrame(
            phy=phy,
            dr=dr,
            freq_hz=freq_hz,
            rssi_dbm=rssi_dbm,
            snr_db=snr_db,
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
        sent = heard.transmission
        if not self._tuned & {(sent.freq_hz, sent.data_rate), (sent.freq_hz, _of_any_sf(sent))}:
            lost = {"transmission": sent.number, "receiver": self.eui, "cause": "not tuned"}
            self._record("air", "radio.lost", lost)
            return
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
        if self._link is None:
            return
        ref_time = self._utc_s()
        for frame in self._queue.take_all():
            heard = wire.Upinfo(
                rctx=frame.rctx,
                xtime=frame.xtime,
                rssi_dbm=frame.rssi_dbm,
                snr_db=frame.snr_db,
                gpstime=self._gps_us(frame.xtime),
                rxtime=ref_time,
            )
            self._say(
                wire.frame_told(
                    frame.phy, dr=frame.dr, freq_hz=frame.freq_hz, heard=heard, ref_time=ref_time
                )
            )

    def _say(self, text: str | None) -> None:
        if text is not None and self._link is not None:
            if isinstance(self._link, MemoryLink) and not self._link.closed:
                self._link.send_now(text)
            else:
                self._outgoing.put_nowait(text)

    def _gps_us(self, xtime: int) -> int:
        start_us, at_us = self._gps_start_us, self.clock.time_us(xtime)
        if start_us is None or self._gps_ahead_us is None or at_us is None:
            return 0
        return start_us + self._gps_ahead_us + at_us

    def _pulse(self) -> None:
        if self._gps_start_us is None or self._gps_ahead_us is not None or not self.radio_on:
            return
        self._say(wire.pulse_told(now_us()))
        self._pulses += 1
        is_over = self._pulses % _PULSES_MAX == 0
        self._pulse_in(_PULSES_AGAIN_US if is_over else _PULSE_US)

    def _pulse_in(self, wait_us: int) -> None:
        loop = asyncio.get_running_loop()
        self._pulse_timer = loop.call_at((now_us() + wait_us) / 1_000_000, self._pulse)

    def _learn_second(self, asked_us: object, gps_us: object) -> None:
        if type(asked_us) is not int or type(gps_us) is not int or self._gps_start_us is None:
            return
        if not 0 <= now_us() - asked_us < _ROUND_TRIP_MAX_US or self._gps_ahead_us is not None:
            return
        ahead_us = gps_us - (self._gps_start_us + asked_us)
        self._gps_ahead_us = (ahead_us + _SECOND_US // 2) // _SECOND_US * _SECOND_US

    def _utc_s(self) -> float:
        if self._time_told is None:
            return 0.0
        mux_time, told_us = self._time_told
        return mux_time + (now_us() - told_us) / 1_000_000

    async def _serve(self, link: TextLink) -> None:
        self._link = link
        self._outgoing = asyncio.Queue()
        if self.introduces_itself:
            self.clock.is_told = False  # it will be configured anew
            features = ["rmtsh", *["gps"] * (self._gps_start_us is not None)]
            self._say(wire.version_told(station=_VERSION, firmware=_FIRMWARE, features=features))
        self._tell_frames()
        try:
            async with asyncio.TaskGroup() as tasks:
                if not isinstance(link, MemoryLink):
                    tasks.create_task(self._send(link, self._outgoing))
                tasks.create_task(self._read(link))
        except* LinkClosed:
            pass
        finally:
            self._link = None
            link.close()

    async def _send(self, link: TextLink, outgoing: asyncio.Queue[str]) -> None:
        while True:
            await link.send(await outgoing.get())

    async def _read(self, link: TextLink) -> None:
        while True:
            fields = wire.understood(await link.receive())
            mux_time = fields.get("MuxTime")
            if isinstance(mux_time, int | float) and 0 < mux_time < _MUX_TIME_MAX:
                self._time_told = mux_time, now_us()
            match fields.get("msgtype"):
                case "router_config":
                    self._start_radio(link, dict(fields))
                case "dnmsg":
                    order = wire.wanted(fields)
                    if order is not None:
                        self._transmitter.plan(order)
                case "getxtime":
                    self._tell_clocks(mux_time)
                case "timesync":
                    self._learn_second(fields.get("txtime"), fields.get("gpstime"))

    def _tell_clocks(self, mux_time: object) -> None:
        time_s = float(mux_time) if isinstance(mux_time, int | float) else 0.0
        utc_us = round(self._utc_s() * 1_000_000)
        xtime = self.clock.tell(now_us())
        self._say(wire.clocks_told(xtime, mux_time=time_s, up_us=now_us(), utc_us=utc_us))

    def _start_radio(self, link: TextLink, config: dict[str, Any]) -> None:
        if config.get("hwspec") != _HWSPEC or not config.get("sx1301_conf"):
            link.close()
            return
        self.clock.start(now_us())
        self._transmitter.start(allowed(config, self._medium.plan))
        self._tuned = _tuned(config["sx1301_conf"][0])
        self.radio_on = True
        self._gps_ahead_us, self._pulses = None, 0
        if self._pulse_timer is not None:
            self._pulse_timer.cancel()
        if self._gps_start_us is not None:
            self._pulse_in(_PULSE_US)
        self._medium.attach(self, hears="up")

    def _switch_radio_off(self) -> None:
        self.radio_on = False
        self._transmitter.stop()
        self._medium.detach(self, hears="up")

    def _emit(self, job: Job) -> Transmission:
        strong = self._medium.plan.name == "EU868" and job.freq_hz in _EU868_STRONG_HZ
        power_dbm = _EU868_STRONG_DBM if strong else self._medium.plan.station_dbm
        return self._medium.transmit(
            self.eui,
            job.wanted.pdu,
            direction="down",
            freq_hz=job.freq_hz,
            dr=job.dr,
            power_dbm=power_dbm,
            start_us=job.start_us,  # the concentrator's own timer starts a frame
        )

    def _emitted(self, job: Job) -> None:
        self._say(
            wire.sent_told(
                job.wanted,
                dr=job.dr,
                freq_hz=job.freq_hz,
                xtime=job.xtime,
                up_us=job.start_us,
                gpstime=self._gps_us(job.xtime),
            )
        )


_ANY_SF = Lora(0, 125_000)
"""What a channel of 125 kHz hears: every spreading factor."""


def _of_any_sf(sent: Transmission) -> Modulated | None:
    modulated = sent.data_rate
    is_narrow = isinstance(modulated, Lora) and modulated.bw_hz == _ANY_SF.bw_hz
    return _ANY_SF if is_narrow else None


def _tuned(board: dict[str, Any]) -> frozenset[tuple[int, Modulated | None]]:
    found: set[tuple[int, Modulated | None]] = set()
    for name, channel in board.items():
        try:
            if not name.startswith("chan_") or not channel["enable"]:
                continue
            radio = board[f"radio_{channel['radio']}"]
            freq_hz = radio["freq"] + channel["if"]
            modulated: Modulated = _ANY_SF
            if name == "chan_Lora_std":
                modulated = Lora(channel["spread_factor"], channel["bandwidth"])
            elif name == "chan_FSK":
                modulated = Fsk()
        except (KeyError, TypeError):
            continue
        if radio.get("enable"):
            found.add((freq_hz, modulated))
    return frozenset(found)
