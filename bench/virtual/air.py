"""Who hears a frame, how strong, and what spoils it?

Every transmission ends in a `Heard` or a `radio.lost` for each listener of its direction. Uplinks
carry a CRC, downlinks none and inverted IQ, so that the two directions do not disturb each other.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from bench.capture import Record
from bench.chance import stream
from bench.device.interfaces import Sent
from bench.transmission import Direction, Eui, Transmission
from bench.virtual.lorawan.air_interface import read_data
from bench.virtual.lorawan.channel_plan import (
    ChannelPlan,
    Fsk,
    Lora,
    Modulated,
    channel_plan,
    time_on_air_us,
)
from lns.clock import now_us

T = TypeVar("T")

PUBLIC = "3444"
"""The sync word of public LoRaWAN networks, 0x34, as the register pair of an SX126x."""
PRIVATE = "1424"
_SF_MIN = 6  # of the airtime formula; SF5 exists on SX126x only


@dataclass(frozen=True, slots=True, kw_only=True)
class Modulation:
    """How a frame is modulated; `sf` 0 stands for the FSK of LoRaWAN, `inverted` for its IQ."""

    freq_hz: int
    sf: int
    bw_hz: int
    inverted: bool = False
    sync_word: str = PUBLIC

    @property
    def data_rate(self) -> Modulated:
        return Lora(self.sf, self.bw_hz) if self.sf else Fsk()

    def disturbs(self, other: "Modulation") -> bool:
        """Whether a frame of this kind spoils one of that kind; sync words do not protect it."""
        return (self.freq_hz, self.sf, self.bw_hz, self.inverted) == (
            other.freq_hz, other.sf, other.bw_hz, other.inverted,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """One frame sent once; `sender` and `number` together name it. Times as `lns.clock.now_us`."""

    sender: str
    number: int
    phy: bytes
    modulation: Modulation
    start_us: int
    airtime_us: int
    power_dbm: int

    @property
    def end_us(self) -> int:
        return self.start_us + self.airtime_us

    @property
    def freq_hz(self) -> int:
        return self.modulation.freq_hz

    @property
    def key(self) -> str:
        return f"{self.sender}#{self.number}"

    def overlaps(self, other: "Emission") -> bool:
        return self.start_us < other.end_us and other.start_us < self.end_us

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "phy": self.phy.hex()}


def from_json(fields: Mapping[str, Any]) -> Emission:
    """The emission that `to_json` wrote."""
    modulation = Modulation(**fields["modulation"])
    rest = {**fields, "phy": bytes.fromhex(fields["phy"]), "modulation": modulation}
    return Emission(**rest)


@dataclass(frozen=True, slots=True)
class Caught:
    """An emission as one receiver heard it; `error`: it was there, but could not be read."""

    emission: Emission
    rssi_dbm: int
    snr_db: float
    error: bool = False

    @property
    def phy(self) -> bytes:
        return self.emission.phy


def modulated(
    data_rate: Modulated, freq_hz: int, *, inverted: bool, sync_word: str = PUBLIC
) -> Modulation:
    if isinstance(data_rate, Fsk):
        return Modulation(freq_hz=freq_hz, sf=0, bw_hz=0, inverted=inverted, sync_word=sync_word)
    return Modulation(
        freq_hz=freq_hz, sf=data_rate.sf, bw_hz=data_rate.bw_hz, inverted=inverted,
        sync_word=sync_word,
    )  # fmt: skip


def on_air_us(
    modulation: Modulation, payload_bytes: int, *, crc: bool, coding_rate: int = 1
) -> int:
    data_rate = modulation.data_rate
    if isinstance(data_rate, Lora):
        data_rate = Lora(max(data_rate.sf, _SF_MIN), data_rate.bw_hz)
    return time_on_air_us(data_rate, payload_bytes, crc=crc, coding_rate=coding_rate)


ATTENUATION_DB = 100
NOISE_FIGURE_DB = 6
SNR_CAP_DB = 12.0
_THERMAL_NOISE_DBM_HZ = -174
_FSK_BANDWIDTH_HZ = 100_000
_FSK_SNR_DB = 9.0
_SNR_SF7_DB = -7.5
_SNR_STEP_DB = 2.5


class Links:
    """What lies between each two radios, the same both ways, until it is changed.

    `attenuation_db` for every pair that nobody set; `fading_sigma_db`: standard deviation of a
    random loss or gain per frame and receiver, 0 for a rig on which nothing is left to chance.
    """

    def __init__(
        self, *, attenuation_db: int = ATTENUATION_DB, fading_sigma_db: float = 0.0, seed: int = 0
    ) -> None:
        self._default_db = attenuation_db
        self._sigma_db = fading_sigma_db
        self._seed = seed
        self._attenuations_db: dict[tuple[Eui, Eui], int] = {}
        self._cuts: dict[tuple[Eui, Eui], None] = {}

    def set_attenuation(self, a: Eui, b: Eui, attenuation_db: int) -> None:
        self._attenuations_db[_pair(a, b)] = attenuation_db

    def cut(self, a: Eui, b: Eui) -> None:
        """Let two radios hear nothing of each other, until `restore`."""
        self._cuts[_pair(a, b)] = None

    def restore(self, a: Eui, b: Eui) -> None:
        self._cuts.pop(_pair(a, b), None)

    def is_cut(self, a: Eui, b: Eui) -> bool:
        return _pair(a, b) in self._cuts

    def attenuation_db(self, a: Eui, b: Eui) -> int:
        return self._attenuations_db.get(_pair(a, b), self._default_db)

    def rssi_dbm(self, sender: Eui, receiver: Eui, power_dbm: int, frame: int) -> float:
        """The strength of one frame (numbered `frame`) at one receiver."""
        rssi_dbm = float(power_dbm - self.attenuation_db(sender, receiver))
        if self._sigma_db:
            fading = stream(self._seed, "fading", str(frame), receiver)
            rssi_dbm -= fading.gauss(0.0, self._sigma_db)
        return rssi_dbm


def snr_db(rssi_dbm: float, data_rate: Modulated) -> float:
    """Signal to noise as a concentrator reports it: steps of 0.25 dB, capped at 12."""
    return math.trunc(min(rssi_dbm - noise_dbm(data_rate), SNR_CAP_DB) * 4) / 4


def noise_dbm(data_rate: Modulated) -> float:
    """The noise in the bandwidth of a data rate: -117 dBm in 125 kHz."""
    bandwidth_hz = data_rate.bw_hz if isinstance(data_rate, Lora) else _FSK_BANDWIDTH_HZ
    return _THERMAL_NOISE_DBM_HZ + round(10 * math.log10(bandwidth_hz)) + NOISE_FIGURE_DB


def sensitivity_dbm(data_rate: Modulated) -> float:
    """The weakest frame that is received: -124.5 dBm with SF7, -137 dBm with SF12 in 125 kHz."""
    if isinstance(data_rate, Lora):
        return noise_dbm(data_rate) + _SNR_SF7_DB - (data_rate.sf - 7) * _SNR_STEP_DB
    return noise_dbm(data_rate) + _FSK_SNR_DB


def _cut_and_restored() -> str:
    links, ends = Links(), (Eui("A"), Eui("B"))
    links.cut(*ends)
    cut = links.is_cut(*ends)
    links.restore(*ends)
    return f"{cut}, {links.is_cut(*ends)}"


def _strengths() -> str:
    links, ends = Links(), (Eui("A"), Eui("B"))
    heard_dbm = links.rssi_dbm(*ends, 14, 1)
    links.set_attenuation(*ends, 149)
    weak_dbm = links.rssi_dbm(*ends, 14, 2)
    return f"{heard_dbm} {snr_db(heard_dbm, _SF7)}, {weak_dbm} {snr_db(weak_dbm, _SF12)}"


_SF7, _SF12 = Lora(7, 125_000), Lora(12, 125_000)
_KNOWN: dict[str, tuple[Callable[[], str], str]] = {
    "a link that is cut, and is restored": (_cut_and_restored, "True, False"),
    "RSSI and SNR": (_strengths, "-86.0 12.0, -135.0 -18.0"),
    "sensitivity": (lambda: f"{sensitivity_dbm(_SF7)} {sensitivity_dbm(_SF12)}", "-124.5 -137.0"),
}


def wrong_answers() -> list[tuple[str, str, str]]:
    """What this air does otherwise than is known: what, the known answer, and its own."""
    given = [(what, known, ask()) for what, (ask, known) in _KNOWN.items()]
    return [one for one in given if one[1] != one[2]]


def _pair(a: Eui, b: Eui) -> tuple[Eui, Eui]:
    return (a, b) if a <= b else (b, a)


CAPTURE_DB = 6
"""A frame survives another on the same frequency and spreading factor if it is this much
stronger (SX1301 datasheet: co-channel rejection)."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A transmission as one receiver heard it, at `end_us`; its strength without the fraction."""

    transmission: Transmission
    rssi_dbm: int
    snr_db: float
    end_us: int

    @property
    def phy(self) -> bytes:
        return self.transmission.phy


def spoilt(rssi_dbm: float, *, is_busy: bool, others_dbm: Iterable[float]) -> str | None:
    """What spoils a frame that is strong enough, None if nothing does.

    `is_busy`: the receiver has sent meanwhile. `others_dbm`: the frames that disturb it, as strong
    as they are there.
    """
    if is_busy:
        return "busy"  # half duplex
    if any(rssi_dbm - other_dbm < CAPTURE_DB for other_dbm in others_dbm):
        return "collision"
    return None


@dataclass(frozen=True, slots=True)
class Window:
    """One receive window: `slot` 1, 2 or C, when it opens and closes, and what it demodulates."""

    slot: str
    opens_us: int
    closes_us: int
    dr: int
    freq_hz: int


@dataclass(frozen=True, slots=True)
class Received(Generic[T]):
    content: T
    slot: str
    heard: Heard


@dataclass(frozen=True, slots=True)
class Listened(Generic[T]):
    """What came of the windows; `gave_up`: another's frame in RX1 has kept RX2 closed."""

    answer: Received[T] | None = None
    gave_up: bool = False


class MacRadio(Protocol):
    """The radio of a device, as its MAC uses it. `unasked` is told what no window takes."""

    unasked: Callable[[Heard, int, int], None]

    def send(
        self, phy: bytes, *, dr: int, freq_hz: int, power_dbm: int, facts: dict[str, object]
    ) -> Transmission:
        """Put a frame on the air now."""

    async def listen(
        self,
        windows: tuple[Window, Window],
        believe: Callable[[Heard], T | None],
        *,
        gives_up_rx2: bool,
    ) -> Listened[T]:
        """The first frame that is believed; when all windows are over, none."""

    async def sleep_until(self, when_us: int) -> None:
        """Wait with the radio off."""

    def tune(self, plan: ChannelPlan, *, public: bool) -> None:
        """Send and hear as this region has it, in a public network or a private one."""

    def hear_always(self) -> None:
        """Tell `unasked` what no window takes, from now on."""


class Named(Protocol):
    """A region, as far as the air is concerned: all else it knows by itself."""

    @property
    def name(self) -> str:
        """EU868, US915."""


class Listener(Protocol):
    """A radio that hears frames."""

    @property
    def eui(self) -> Eui:
        """Whose radio it is."""

    def frame_heard(self, heard: Heard) -> None:
        """Take a frame, at its end."""


@dataclass(slots=True)
class _OnAir:
    transmission: Transmission
    cut_at_start: tuple[Eui, ...]
    overlaps: list[Transmission] = field(default_factory=list)


class Medium:
    """The air around one rig; remembers what is being transmitted right now.

    And how strong radios have heard what; `antennas_db`: how much weaker each antenna of them is.
    `on_duty`: the stations that keep a duty cycle.
    """

    def __init__(self, region: Named, links: Links, record: Record) -> None:
        self.plan = channel_plan(region.name)
        self.links = links
        self._record = record
        # By object: two stations may use one EUI, as a copied configuration has it.
        self._listeners: dict[Direction, dict[int, Listener]] = {"up": {}, "down": {}}
        self._on_air: dict[int, _OnAir] = {}
        self._numbers = 0
        self.antennas_db: dict[str, tuple[int, ...]] = {}
        self.on_duty: list[Eui] = []
        self._strengths: dict[tuple[int, str], tuple[int, float]] = {}
        self._powers_dbm: dict[int, int] = {}

    def attach(self, listener: Listener, *, hears: Direction) -> None:
        """Let a radio hear frames of one direction, from now on."""
        self._listeners[hears][id(listener)] = listener

    def detach(self, listener: Listener, *, hears: Direction) -> None:
        """Let a radio hear frames of this direction no more; frames under way included."""
        self._listeners[hears].pop(id(listener), None)

    def power_dbm(self, number: int) -> int | None:
        """With how much power (EIRP) a transmission of this air was sent."""
        return self._powers_dbm.get(number)

    def strength(self, number: int, eui: str, antenna: int) -> tuple[int, float] | None:
        """RSSI (dBm) and SNR (dB) of a transmission at an antenna; None: it was not heard here."""
        heard, antennas_db = self._strengths.get((number, eui)), self.antennas_db.get(eui, (0,))
        if heard is None or antenna >= len(antennas_db):
            return None
        return heard[0] - antennas_db[antenna], heard[1] - antennas_db[antenna]

    def ongoing(self, direction: Direction) -> list[Transmission]:
        on_air = (frame.transmission for frame in self._on_air.values())
        return [transmission for transmission in on_air if transmission.direction == direction]

    def transmit(
        self,
        sender: Eui,
        phy: bytes,
        *,
        direction: Direction,
        freq_hz: int,
        dr: int,
        power_dbm: int,
        origin: str = "device",
        start_us: int | None = None,
        facts: dict[str, object] | None = None,
    ) -> Transmission:
        """Put a frame on the air; ValueError for a data rate that the region does not know.

        `start_us`: when its radio began, where a timer of the radio decides that; it is now, or
        was just before now. `facts`: what only the sender knows (dev_eui, session, f_cnt, frame_id,
        genuine, attempt); they go into `radio.transmit` as they are.
        """
        data_rate = self.plan.data_rates[dr] if dr < len(self.plan.data_rates) else None
        if data_rate is None:
            raise ValueError(f"{self.plan.name}: DR{dr} is not defined")
        self._numbers += 1
        start_us = now_us() if start_us is None else start_us
        airtime_us = time_on_air_us(data_rate, len(phy), crc=direction == "up")
        transmission = Transmission(
            number=self._numbers,
            direction=direction,
            sender=sender,
            phy=phy,
            freq_hz=freq_hz,
            dr=dr,
            data_rate=data_rate,
            start_us=start_us,
            airtime_us=airtime_us,
            end_us=start_us + airtime_us,
            power_dbm=power_dbm,
            origin=origin,
        )
        self._powers_dbm[transmission.number] = power_dbm
        self._record("air", "radio.transmit", _described(transmission, facts or {}))
        self._begin(transmission)
        return transmission

    def announce(self, sender: Eui, phy: bytes, facts: dict[str, object]) -> int:
        """Note an uplink that reaches stations by another way than this air; returns its number.

        Whoever makes frames himself tells of them, or the books would not know who sent them.
        """
        self._numbers += 1
        fields = {"transmission": self._numbers, "direction": "up", "sender": sender, **facts}
        fields |= {"origin": "injected", "phy": phy.hex().upper()}
        self._record("air", "radio.transmit", fields)
        return self._numbers

    def observe(
        self,
        sender: Eui,
        phy: bytes,
        facts: dict[str, object],
        *,
        freq_hz: int,
        dr: int,
        airtime_us: int,
        attempt: int,
    ) -> int:
        """Note an uplink of a real radio, as stations have told of it; returns its number."""
        self._numbers += 1
        fields = {"transmission": self._numbers, "direction": "up", "sender": sender, **facts}
        fields |= {"origin": "device", "phy": phy.hex().upper(), "freq_hz": freq_hz, "dr": dr}
        fields |= {"airtime_us": airtime_us, "attempt": attempt}
        self._record("air", "radio.transmit", fields)
        return self._numbers

    def _begin(self, transmission: Transmission) -> None:
        deaf = tuple(
            listener.eui
            for listener in self._listeners[transmission.direction].values()
            if self.links.is_cut(transmission.sender, listener.eui)
        )
        frame = _OnAir(transmission, deaf)
        for other in self._on_air.values():
            if other.transmission.end_us > transmission.start_us:
                other.overlaps.append(transmission)
                frame.overlaps.append(other.transmission)
        self._on_air[transmission.number] = frame
        loop = asyncio.get_running_loop()
        loop.call_at(transmission.end_us / 1_000_000, self._end, transmission.number)

    def _end(self, number: int) -> None:
        frame = self._on_air.pop(number)
        transmission = frame.transmission
        for listener in list(self._listeners[transmission.direction].values()):
            if listener.eui == transmission.sender:
                continue
            rssi_dbm = self._rssi_dbm(transmission, listener.eui)
            cause = self._loss(frame, listener.eui, rssi_dbm)
            self._look_again(frame, listener.eui, rssi_dbm, cause)
            if cause is None:
                snr = snr_db(rssi_dbm, transmission.data_rate)
                heard = Heard(transmission, int(rssi_dbm), snr, transmission.end_us)
                self._strengths[number, listener.eui] = heard.rssi_dbm, snr
                listener.frame_heard(heard)
            else:
                lost = {"transmission": number, "receiver": listener.eui, "cause": cause}
                self._record("air", "radio.lost", lost)

    def _loss(self, frame: _OnAir, receiver: Eui, rssi_dbm: float) -> str | None:
        transmission = frame.transmission
        if receiver in frame.cut_at_start or self.links.is_cut(transmission.sender, receiver):
            return "cut"
        if rssi_dbm < sensitivity_dbm(transmission.data_rate):
            return "faded"
        disturbing = [other for other in frame.overlaps if _disturbs(other, transmission)]
        return spoilt(
            rssi_dbm,
            is_busy=any(other.sender == receiver for other in frame.overlaps),
            others_dbm=(
                self._rssi_dbm(other, receiver)
                for other in disturbing
                if not self.links.is_cut(other.sender, receiver)
            ),
        )

    def _look_again(self, frame: _OnAir, receiver: Eui, rssi_dbm: float, cause: str | None) -> None:
        """Whoever hears a frame, or has lost it, has a reason for that: else the air has none."""
        sent = frame.transmission
        is_cut = receiver in frame.cut_at_start or self.links.is_cut(sent.sender, receiver)
        may_be = {
            "cut": is_cut,
            "faded": rssi_dbm < sensitivity_dbm(sent.data_rate),
            "busy": any(other.sender == receiver for other in frame.overlaps),
            "collision": bool(frame.overlaps),
            None: not is_cut and rssi_dbm >= sensitivity_dbm(sent.data_rate),
        }
        if not may_be[cause]:
            self._miss(f"{sent.number} at {receiver}: expected another end than {cause or 'heard'}")
        early_us = sent.start_us + sent.airtime_us - sent.end_us
        if early_us:
            self._miss(f"{sent.number}: expected on the air until its end, observed {early_us} us")

    def _miss(self, reason: str) -> None:
        fields: dict[str, object] = {"owner": "air", "reason": f"transmission {reason}"}
        self._record("bench", "stimulus.missed", fields)

    def _rssi_dbm(self, transmission: Transmission, receiver: Eui) -> float:
        return self.links.rssi_dbm(
            transmission.sender, receiver, transmission.power_dbm, transmission.number
        )


def _disturbs(one: Transmission, other: Transmission) -> bool:
    """Whether they use the same frequency and modulation, in the same direction."""
    return (one.freq_hz, one.data_rate, one.direction) == (
        other.freq_hz, other.data_rate, other.direction,
    )  # fmt: skip


def _described(transmission: Transmission, facts: dict[str, object]) -> dict[str, object]:
    return {
        "transmission": transmission.number,
        "direction": transmission.direction,
        "sender": transmission.sender,
        **{name: value for name, value in facts.items() if name != "attempt"},
        "origin": transmission.origin,
        "phy": transmission.phy.hex().upper(),
        "freq_hz": transmission.freq_hz,
        "dr": transmission.dr,
        "airtime_us": transmission.airtime_us,
        "attempt": facts.get("attempt", 1),
    }


def uplink_in(dev_eui: Eui, phy: bytes, f_cnt: int, *, session: int = 0) -> Sent:
    """The uplink in these bytes, as its sender knows it; ValueError if they are none."""
    frame = read_data(phy)
    if frame is None:
        raise ValueError(f"{phy.hex().upper()} is no data frame")
    return Sent(dev_eui, frame.frame_id, phy, f_cnt, session, frame.confirmed)


def facts_of(sent: Sent, attempt: int) -> dict[str, object]:
    """What only its sender knows of a transmission of this frame."""
    return {
        "dev_eui": sent.dev_eui,
        "session": sent.session,
        "f_cnt": sent.f_cnt,
        "frame_id": sent.frame_id,
        "genuine": True,
        "attempt": attempt,
    }
