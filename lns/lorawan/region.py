"""What does a region allow: data rates, channels, sizes, receive windows; how long is a frame?

Source: LoRaWAN Regional Parameters (RP002), EU863-870, US902-928 and AS923 (group 1). Frequencies
in hertz. Airtime of LoRa: Semtech's formula (AN1200.13, SX1276 data sheet 4.1.1.7); of FSK:
LoRaWAN's packet of 5 bytes preamble, 3 bytes sync word, 1 byte length, the payload, 2 bytes CRC.
LoRaWAN 1.0.x, class A: RX1 opens RECEIVE_DELAY1 after the end of the uplink, RX2 one second
later (for joins JOIN_ACCEPT_DELAY1 and 2). The end of the uplink is the station's `xtime`.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

_DATR = re.compile(r"SF([0-9]{1,2})BW([0-9]{3})")


@dataclass(frozen=True, slots=True)
class DataRate:
    """LoRa with a spreading factor (7..12) and a bandwidth in hertz."""

    sf: int
    bw_hz: int

    def __str__(self) -> str:
        """The spelling of packet forwarders: "SF7BW125"."""
        return f"SF{self.sf}BW{self.bw_hz // 1000}"


@dataclass(frozen=True, slots=True)
class FskDataRate:
    """FSK with a bit rate in bits per second."""

    bit_rate_bps: int = 50_000

    def __str__(self) -> str:
        """The spelling of a person: "FSK 50000"."""
        return f"FSK {self.bit_rate_bps}"


FSK = FskDataRate()
"""The only FSK data rate of LoRaWAN: 50 kbit/s."""


def data_rate(text: str) -> DataRate:
    """The LoRa data rate from a packet forwarder's spelling ("SF7BW125"); ValueError otherwise."""
    found = _DATR.fullmatch(text)
    if found is None:
        raise ValueError(f"not a LoRa data rate: {text!r}")
    return DataRate(int(found[1]), int(found[2]) * 1000)


_FSK_OVERHEAD_BYTES = 5 + 3 + 1 + 2
_LDRO_FROM_SYMBOL_US = 16_000


def frame_airtime_us(data_rate: DataRate | FskDataRate, payload_bytes: int, *, crc: bool) -> int:
    """Airtime in microseconds of one LoRaWAN frame; `payload_bytes` is the whole PHYPayload.

    `crc` says whether the LoRa payload CRC is sent: uplinks have it, downlinks do not. FSK frames
    have their CRC in both directions, so there it changes nothing.
    """
    if isinstance(data_rate, FskDataRate):
        return fsk_airtime_us(payload_bytes, bit_rate_bps=data_rate.bit_rate_bps)
    return airtime_us(payload_bytes, sf=data_rate.sf, bw_hz=data_rate.bw_hz, crc=crc)


def airtime_us(
    payload_bytes: int,
    *,
    sf: int,
    bw_hz: int,
    coding_rate: int = 1,
    crc: bool = True,
    preamble: int = 8,
    implicit_header: bool = False,
    ldro: bool | None = None,
) -> int:
    """Airtime in microseconds of one LoRa frame, rounded to the nearest.

    `coding_rate` 1..4 stands for 4/5..4/8, `preamble` counts symbols without the 4.25 that the
    radio adds, `ldro` is the low data rate optimisation (None: as LoRaWAN has it, on where a symbol
    lasts longer than 16 ms: SF11 and SF12 at 125 kHz, SF12 at 250 kHz).
    ValueError outside SF6..SF12, coding rates 1..4 or for negative sizes.
    """
    if not 6 <= sf <= 12 or not 1 <= coding_rate <= 4 or payload_bytes < 0 or bw_hz <= 0:
        raise ValueError(
            f"no LoRa frame: {payload_bytes} bytes, SF{sf}, {bw_hz} Hz, coding rate {coding_rate}"
        )
    if ldro is None:
        ldro = (1_000_000 << sf) > _LDRO_FROM_SYMBOL_US * bw_hz
    bits = 8 * payload_bytes - 4 * sf + 28 + 16 * crc - 20 * implicit_header
    bits_per_group = 4 * (sf - 2 * ldro)
    symbols = 8 + max(-(-bits // bits_per_group) * (coding_rate + 4), 0)
    quarter_symbols = 4 * (preamble + symbols) + 17
    # A symbol lasts 2**sf / bw; counting quarters keeps the arithmetic in integers.
    return (quarter_symbols * (1_000_000 << sf) + 2 * bw_hz) // (4 * bw_hz)


def fsk_airtime_us(payload_bytes: int, *, bit_rate_bps: int = 50_000) -> int:
    """Airtime in microseconds of one LoRaWAN FSK frame, rounded to the nearest."""
    bits = (_FSK_OVERHEAD_BYTES + payload_bytes) * 8
    return (bits * 1_000_000 + bit_rate_bps // 2) // bit_rate_bps


@dataclass(frozen=True, slots=True)
class Channel:
    """An uplink channel and the data rates that may be used on it."""

    freq_hz: int
    dr_min: int
    dr_max: int


@dataclass(frozen=True, slots=True)
class DutyCycleBand:
    """Frequencies, both ends included, that share one share of airtime per transmitter."""

    ranges_hz: tuple[tuple[int, int], ...]
    per_mille: int

    def contains(self, freq_hz: int) -> bool:
        """Whether a transmission on this frequency counts for this band."""
        return any(low <= freq_hz <= high for low, high in self.ranges_hz)


@dataclass(frozen=True, slots=True)
class DwellTimes:
    """What a device of the region is told by TxParamSetupReq: whether 400 ms are the longest."""

    uplink: bool
    downlink: bool


@dataclass(frozen=True, slots=True)
class StationRadio:
    """How the stations of a region listen: two radios, and modems each within 400 kHz of one.

    `centres_hz` are the radios; a modem names its radio, and its distance from that centre (Hz).
    `standard` hears one data rate only, the eight of `multi_sf` every one of 125 kHz.
    """

    centres_hz: tuple[int, int]
    multi_sf: tuple[tuple[int, int], ...]
    standard: tuple[int, int, DataRate]
    fsk: tuple[int, int] | None = None

    @property
    def channels_hz(self) -> tuple[int, ...]:
        """The channels of 125 kHz that are heard."""
        return tuple(self.centres_hz[radio] + offset_hz for radio, offset_hz in self.multi_sf)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region:
    """The rules of one region.

    `data_rates`: index = DR, None = undefined. `max_payloads`, `max_payloads_no_repeater`: the
    largest application payload per DR (bytes, FOpts empty). `duty_cycle_bands`: the first that
    contains a frequency counts; empty = no duty cycle. `uplink_dwell_us`: longest allowed uplink,
    None = no limit. `downlink_channels_hz`: empty = RX1 on the frequency of the uplink. `ch_mask`:
    the first 16 channels of a device that the stations listen to. `more_channels_max`: how many
    others a join accept may name (CFList). `dwell_times`: None where no device is told any.
    `tx_power_max`: the last index of TXPower, each 2 dB below the one before. `rui3_band`,
    `lora_e5_plan`: what RUI3 (`AT+BAND`) and a LoRa-E5 (`AT+DR`) call it.
    """

    name: str
    data_rates: tuple[DataRate | FskDataRate | None, ...]
    downlink_only_drs: tuple[int, ...]
    uplink_channels: tuple[Channel, ...]
    join_channels: tuple[Channel, ...]
    downlink_channels_hz: tuple[int, ...]
    rx1_drs: tuple[tuple[int, ...], ...]
    rx1_freq_hz: Callable[[int], int]
    rx2_dr: int
    rx2_freq_hz: int
    max_payloads: tuple[int | None, ...]
    max_payloads_no_repeater: tuple[int | None, ...]
    freq_range_hz: tuple[int, int]
    duty_cycle_bands: tuple[DutyCycleBand, ...]
    uplink_dwell_us: int | None
    max_eirp_dbm: int
    tx_power_max: int
    ch_mask: int
    station_radio: StationRadio
    rui3_band: int
    lora_e5_plan: str
    more_channels_max: int = 0
    dwell_times: DwellTimes | None = None
    receive_delay_us: int = 1_000_000
    join_accept_delay_us: int = 5_000_000

    def rx1(self, dr: int, freq_hz: int, offset: int = 0) -> tuple[int, int]:
        """Data rate and frequency of RX1 for an uplink with `dr` on `freq_hz`.

        ValueError for a data rate, offset or frequency that no uplink of this region can have.
        """
        if not 0 <= dr < len(self.rx1_drs) or not 0 <= offset < len(self.rx1_drs[dr]):
            raise ValueError(f"{self.name}: no RX1 for DR{dr} with offset {offset}")
        return self.rx1_drs[dr][offset], self.rx1_freq_hz(freq_hz)

    def rx2(self, dr: int | None = None) -> tuple[int, int]:
        """Data rate and frequency of RX2; `dr` where a join accept named another data rate."""
        return self.rx2_dr if dr is None else dr, self.rx2_freq_hz

    def max_payload(self, dr: int, *, repeater: bool = True) -> int:
        """The largest application payload in bytes without FOpts; ValueError for an undefined DR.

        `repeater`: leave room for a repeater's own header, as regional parameters recommend.
        """
        sizes = self.max_payloads if repeater else self.max_payloads_no_repeater
        size = sizes[dr] if 0 <= dr < len(sizes) else None
        if size is None:
            raise ValueError(f"{self.name}: DR{dr} is not defined")
        return size

    def uplink_dr(self, data_rate: DataRate | FskDataRate) -> int:
        """The data rate index of an uplink with this modulation; ValueError if there is none."""
        for dr, known in enumerate(self.data_rates):
            if known == data_rate and dr not in self.downlink_only_drs:
                return dr
        raise ValueError(f"{self.name}: {data_rate} is no uplink data rate")

    def duty_cycle_band(self, freq_hz: int) -> DutyCycleBand | None:
        """The band that a transmission on this frequency counts for; None: unlimited."""
        return next((band for band in self.duty_cycle_bands if band.contains(freq_hz)), None)


def region(name: str) -> Region:
    """The region of this name; ValueError, naming the known ones, otherwise."""
    if name not in REGIONS:
        raise ValueError(f"unknown region {name!r}; known: {', '.join(REGIONS)}")
    return REGIONS[name]


def us915_sub_band(number: int) -> tuple[Channel, ...]:
    """Sub-band 1..8 of US915: eight 125 kHz channels, then the 500 kHz channel over them.

    ValueError for another number.
    """
    if not 1 <= number <= 8:
        raise ValueError(f"US915 has sub-bands 1 to 8, not {number}")
    first = 8 * (number - 1)
    return (*_US_125_KHZ[first : first + 8], _US_500_KHZ[number - 1])


def _rx1_where_it_was_sent(freq_hz: int) -> int:
    return freq_hz


def _as923_rx1_dr(dr: int, offset: int) -> int:
    """Offsets 6 and 7 are -1 and -2: RX1 is faster than the uplink."""
    return max(dr - offset, 0) if offset < 6 else min(dr + offset - 5, 7)


def _us915_rx1_freq_hz(freq_hz: int) -> int:
    channel = _US_CHANNEL_NUMBERS.get(freq_hz)
    if channel is None:
        raise ValueError(f"US915: {freq_hz} Hz is no uplink channel")
    return _US_DOWNLINKS_HZ[channel % 8]


# RP002, EU863-870: one transmitter, one share per band (the division Basics Station uses).
_EU_CHANNELS = tuple(Channel(freq_hz, 0, 5) for freq_hz in (868_100_000, 868_300_000, 868_500_000))

EU868 = Region(
    name="EU868",
    data_rates=(
        *(DataRate(sf, 125_000) for sf in (12, 11, 10, 9, 8, 7)),
        DataRate(7, 250_000),
        FSK,
    ),
    downlink_only_drs=(),
    uplink_channels=_EU_CHANNELS,
    join_channels=_EU_CHANNELS,
    downlink_channels_hz=(),
    rx1_drs=tuple(tuple(max(dr - offset, 0) for offset in range(6)) for dr in range(8)),
    rx1_freq_hz=_rx1_where_it_was_sent,
    rx2_dr=0,
    rx2_freq_hz=869_525_000,
    max_payloads=(51, 51, 51, 115, 222, 222, 222, 222),
    max_payloads_no_repeater=(51, 51, 51, 115, 242, 242, 242, 242),
    freq_range_hz=(863_000_000, 870_000_000),
    duty_cycle_bands=(
        DutyCycleBand(((869_400_000, 869_650_000),), 100),
        DutyCycleBand(((868_000_000, 868_600_000), (869_700_000, 870_000_000)), 10),
        DutyCycleBand(((863_000_000, 870_000_000),), 1),
    ),
    uplink_dwell_us=None,
    max_eirp_dbm=16,
    tx_power_max=7,
    ch_mask=0x0007,
    station_radio=StationRadio(
        centres_hz=(867_500_000, 868_500_000),
        multi_sf=(
            *((1, -400_000), (1, -200_000), (1, 0)),
            *((0, -400_000), (0, -200_000), (0, 0), (0, 200_000), (0, 400_000)),
        ),
        standard=(1, -200_000, DataRate(7, 250_000)),
        fsk=(1, 300_000),
    ),
    rui3_band=4,
    lora_e5_plan="EU868",
    more_channels_max=5,
)

_US_125_KHZ = tuple(Channel(902_300_000 + 200_000 * n, 0, 3) for n in range(64))
_US_500_KHZ = tuple(Channel(903_000_000 + 1_600_000 * n, 4, 4) for n in range(8))
_US_CHANNELS = _US_125_KHZ + _US_500_KHZ
_US_CHANNEL_NUMBERS = {channel.freq_hz: n for n, channel in enumerate(_US_CHANNELS)}
_US_DOWNLINKS_HZ = tuple(923_300_000 + 600_000 * n for n in range(8))

US915 = Region(
    name="US915",
    data_rates=(
        *(DataRate(sf, 125_000) for sf in (10, 9, 8, 7)),
        DataRate(8, 500_000),
        *(None, None, None),
        *(DataRate(sf, 500_000) for sf in (12, 11, 10, 9, 8, 7)),
    ),
    downlink_only_drs=(8, 9, 10, 11, 12, 13),
    uplink_channels=_US_CHANNELS,
    # A join-request uses a 125 kHz channel with DR0 or a 500 kHz channel with DR4, by turns.
    join_channels=(
        *(Channel(channel.freq_hz, 0, 0) for channel in _US_125_KHZ),
        *_US_500_KHZ,
    ),
    downlink_channels_hz=_US_DOWNLINKS_HZ,
    rx1_drs=(
        (10, 9, 8, 8),
        (11, 10, 9, 8),
        (12, 11, 10, 9),
        (13, 12, 11, 10),
        (13, 13, 12, 11),
    ),
    rx1_freq_hz=_us915_rx1_freq_hz,
    rx2_dr=8,
    rx2_freq_hz=923_300_000,
    max_payloads=(11, 53, 125, 242, 242, None, None, None, 33, 109, 222, 222, 222, 222),
    max_payloads_no_repeater=(
        *(11, 53, 125, 242, 242, None, None, None),
        *(53, 129, 242, 242, 242, 242),
    ),
    freq_range_hz=(902_000_000, 928_000_000),
    duty_cycle_bands=(),
    uplink_dwell_us=400_000,
    max_eirp_dbm=30,
    tx_power_max=14,
    ch_mask=0xFF00,  # sub-band 2
    station_radio=StationRadio(
        centres_hz=(904_300_000, 905_000_000),
        multi_sf=(
            *((0, -400_000), (0, -200_000), (0, 0), (0, 200_000)),
            *((1, -300_000), (1, -100_000), (1, 100_000), (1, 300_000)),
        ),
        standard=(0, 300_000, DataRate(8, 500_000)),
    ),
    rui3_band=5,
    lora_e5_plan="US915",
)

_AS_CHANNELS = tuple(Channel(freq_hz, 0, 5) for freq_hz in (923_200_000, 923_400_000))

AS923_1 = Region(
    name="AS923-1",
    data_rates=EU868.data_rates,
    downlink_only_drs=(),
    uplink_channels=_AS_CHANNELS,
    join_channels=tuple(Channel(channel.freq_hz, 2, 5) for channel in _AS_CHANNELS),
    downlink_channels_hz=(),
    rx1_drs=tuple(tuple(_as923_rx1_dr(dr, offset) for offset in range(8)) for dr in range(8)),
    rx1_freq_hz=_rx1_where_it_was_sent,
    rx2_dr=2,
    rx2_freq_hz=923_200_000,
    # Without a dwell time of the downlink, as devices are told.
    max_payloads=(51, 51, 115, 115, 222, 222, 222, 222),
    max_payloads_no_repeater=(51, 51, 115, 115, 242, 242, 242, 242),
    freq_range_hz=(915_000_000, 928_000_000),
    duty_cycle_bands=(DutyCycleBand(((915_000_000, 928_000_000),), 10),),
    uplink_dwell_us=400_000,
    max_eirp_dbm=16,
    tx_power_max=7,
    ch_mask=0x0003,
    station_radio=StationRadio(
        centres_hz=(923_600_000, 924_600_000),
        multi_sf=(
            *((0, -400_000), (0, -200_000), (0, 0), (0, 200_000), (0, 400_000)),
            *((1, -400_000), (1, -200_000), (1, 0)),
        ),
        standard=(1, -100_000, DataRate(7, 250_000)),
        fsk=(1, 200_000),
    ),
    rui3_band=8,
    lora_e5_plan="AS923",
    more_channels_max=5,
    dwell_times=DwellTimes(uplink=True, downlink=False),
)

REGIONS = {known.name: known for known in (EU868, US915, AS923_1)}
"""All regions, by their names."""


RX2_AFTER_RX1_US = 1_000_000
# Time to package a downlink and bring it to the station, as in the starter kit of ADR 007. The
# station itself wants it 20 ms before the window and moves from RX1 to RX2 on its own.
PACKAGE_AND_SEND_US = 400_000
# The same when the downlink is ready: the way to the station, and what that needs itself.
SEND_US = 50_000


class Answer(StrEnum):
    """What became of the downlink that a reception asked for."""

    RX1 = "RX1"
    RX2 = "RX2"
    TOO_LATE = "TooLate"
    SUPPRESSED = "Suppressed"
    NOT_ASKED = "NotAsked"


RX1, RX2, TOO_LATE, SUPPRESSED, NO_ANSWER = Answer
SENT = (RX1, RX2)


class Window(Struct, frozen=True):
    """The first window that can be met, and how long before it opens the choice was made (µs)."""

    answer: Answer
    margin_us: int

    def after(self, spent_us: int) -> "Window | None":
        """What a station can still meet of it when so much time has passed, or of RX2 behind it."""
        left = Window(self.answer, self.margin_us - spent_us)
        if left.margin_us < SEND_US and self.answer is Answer.RX1:
            left = Window(Answer.RX2, left.margin_us + RX2_AFTER_RX1_US)
        return left if left.margin_us >= SEND_US else None


def first_window(
    now_us: int, heard_us: int, rx1_delay_us: int, *, lead_us: int = PACKAGE_AND_SEND_US
) -> Window | None:
    """The first window that opens at least `lead_us` from now; None when both are gone.

    `heard_us` is the end of the uplink on the clock of `now_us`.
    """
    rx1_us = heard_us + rx1_delay_us - now_us
    if rx1_us >= lead_us:
        return Window(Answer.RX1, rx1_us)
    rx2_us = rx1_us + RX2_AFTER_RX1_US
    if rx2_us >= lead_us:
        return Window(Answer.RX2, rx2_us)
    return None


Parameters = tuple[int, int]
"""Data rate and frequency (Hz) of a receive window."""


class Offer(Struct, frozen=True):
    """The windows that a downlink can use; None for one that is gone or has no room for it."""

    rx1: Parameters | None
    rx2: Parameters | None

    @property
    def is_empty(self) -> bool:
        """Whether the downlink cannot be sent at all."""
        return self.rx1 is None and self.rx2 is None


def offer(
    region: Region,
    dr: int,
    freq_hz: int,
    first: Answer,
    payload_bytes: int,
    *,
    rx1_dr_offset: int = 0,
    rx2_dr: int | None = None,
) -> Offer:
    """The windows of an uplink with `dr` on `freq_hz` for a downlink of this size.

    `first` is the first window that can be met; FOpts count as payload. An uplink that this
    region does not have has no RX1. A join accept may have named `rx1_dr_offset` and `rx2_dr`.
    """
    rx1 = None
    if first is Answer.RX1:
        with suppress(ValueError):
            rx1 = region.rx1(dr, freq_hz, rx1_dr_offset)
    rx2 = region.rx2(rx2_dr)
    return Offer(
        rx1 if rx1 and payload_bytes <= region.max_payload(rx1[0]) else None,
        rx2 if payload_bytes <= region.max_payload(rx2[0]) else None,
    )
