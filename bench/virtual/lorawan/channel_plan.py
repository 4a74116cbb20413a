"""Which channels, data rates and windows has a device in a region, and how long is a frame there?

Source: LoRaWAN Regional Parameters RP002-1.0.3, 2.4 (EU863-870), 2.5 (US902-928) and 2.10 (AS923).
"""

from dataclasses import dataclass

# LoRa by the SX1272/73 data sheet, 4.1.1.7; FSK by its octets.
_LONG_SYMBOL_US = 16_000
_HEADER_SYMBOLS = 8
_PREAMBLE = 8
_FSK_FRAME = 5 + 3 + 1 + 2  # preamble, sync word, length, CRC
RX2_AFTER_RX1_S = 1
OVERHEAD = 8  # FHDR without FOpts, and FPort
SUB_BAND_2 = (*range(8, 16), 65)
"""The numbers of the channels in US915 that the devices of this bench are set to."""


@dataclass(frozen=True, slots=True)
class Lora:
    sf: int
    bw_hz: int


@dataclass(frozen=True, slots=True)
class Fsk:
    """The FSK of LoRaWAN."""

    bit_rate_bps: int = 50_000


Modulated = Lora | Fsk


@dataclass(frozen=True, slots=True)
class UpChannel:
    """A channel of a device, and the data rates it may send with there."""

    freq_hz: int
    drs: range


@dataclass(frozen=True, slots=True)
class Band:
    """Frequencies from and to (Hz) that share one duty cycle, in thousandths."""

    ranges_hz: tuple[tuple[int, int], ...]
    per_mille: int

    def __contains__(self, freq_hz: int) -> bool:
        return any(low <= freq_hz <= high for low, high in self.ranges_hz)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlan:
    """One region; lists by DR have None, or 0, where a DR is not defined.

    `payload_max`: octets of an application in a frame without FOpts, no repeater. `offsets`: how
    many RX1DROffset there are. `downlinks_hz`: empty where RX1 is on the channel of the uplink.
    `tx_params`: what TxParamSetupReq says; None where no device obeys or answers it.
    `repeater_max`: `payload_max` with room for a repeater's own header. `rui3_band` and `e5_plan`
    are what boards call it; `station_names` what stations do, which send with `station_dbm`. The
    stations of this bench hear 125 kHz on `heard_hz`, one data rate only on `heard_single`, and FSK
    on `heard_fsk_hz`.
    """

    name: str
    data_rates: tuple[Modulated | None, ...]
    up_drs: range
    default_channels: tuple[UpChannel, ...]
    downlinks_hz: tuple[int, ...]
    offsets: int
    rx2_dr: int
    rx2_freq_hz: int
    payload_max: tuple[int, ...]
    repeater_max: tuple[int, ...]
    limits_hz: tuple[int, int]
    bands: tuple[Band, ...]
    eirp_max_dbm: int
    power_index_max: int
    channels_max: int
    rui3_band: int
    e5_plan: str
    station_names: tuple[str, ...]
    station_dbm: int
    heard_hz: tuple[int, ...]
    heard_single: tuple[int, Lora]
    heard_fsk_hz: int | None = None
    tx_params: int | None = None

    @property
    def own_channels(self) -> tuple[UpChannel, ...]:
        """Those that a device of this bench begins with: one sub-band where there are 72."""
        if not self.downlinks_hz:
            return self.default_channels
        return tuple(self.default_channels[number] for number in SUB_BAND_2)

    @property
    def own_mask(self) -> int:
        """The ChMask that leaves a device of this bench on its first sixteen channels."""
        numbers = SUB_BAND_2 if self.downlinks_hz else range(len(self.default_channels))
        return sum(1 << number for number in numbers if number < 16)

    def rx1_dr(self, up_dr: int, offset: int) -> int:
        if self.offsets == 8 and offset > 5:  # AS923: these two make RX1 faster
            return min(7, up_dr + offset - 5)
        if not self.downlinks_hz:
            return up_dr - offset if up_dr > offset else 0
        # 10 with SF10/125, one more for each faster DR; never beyond 13, never below 8.
        return min(13, max(8, 10 + up_dr - offset))

    def rx1_freq_hz(self, up_freq_hz: int) -> int:
        if not self.downlinks_hz:
            return up_freq_hz
        channels = [channel.freq_hz for channel in self.default_channels]
        return self.downlinks_hz[channels.index(up_freq_hz) % len(self.downlinks_hz)]

    def up_dr(self, modulated: Modulated) -> int | None:
        for dr in self.up_drs:
            if self.data_rates[dr] == modulated:
                return dr
        return None

    def power_dbm(self, index: int) -> int:
        """EIRP of a TXPower: the most, and 2 dB less with each step."""
        return self.eirp_max_dbm - 2 * index

    def band(self, freq_hz: int) -> Band | None:
        """The duty cycle that holds for a frequency; None for none."""
        for band in self.bands:
            if freq_hz in band:
                return band
        return None


def time_on_air_us(
    modulated: Modulated,
    octets: int,
    *,
    crc: bool,
    coding_rate: int = 1,
    optimised: bool | None = None,
) -> int:
    """Microseconds, rounded to the nearest, of a PHYPayload of so many octets.

    `crc`: uplinks have one, LoRa downlinks none. `coding_rate` 1 to 4 is 4/5 to 4/8. `optimised`:
    low data rate optimisation; None where LoRaWAN has it, with symbols longer than 16 ms.
    """
    if not isinstance(modulated, Lora):
        return round(8_000_000 * (_FSK_FRAME + octets) / modulated.bit_rate_bps)
    chips = 2**modulated.sf
    if optimised is None:
        optimised = chips * 1_000_000 / modulated.bw_hz > _LONG_SYMBOL_US
    bits_left = 8 * octets - 4 * modulated.sf + 28
    bits_left += 16 if crc else 0
    bits_of_a_code_word = 4 * (modulated.sf - (2 if optimised else 0))
    code_words = 0
    while code_words * bits_of_a_code_word < bits_left:
        code_words += 1
    payload = _HEADER_SYMBOLS + code_words * (4 + coding_rate)
    # 4.25 symbols of sync word and start; a symbol lasts 2**SF / BW.
    return int((_PREAMBLE + 4.25 + payload) * chips * 1_000_000 / modulated.bw_hz + 0.5)


_EU_SF = (12, 11, 10, 9, 8, 7)


EU868 = ChannelPlan(
    name="EU868",
    data_rates=(*(Lora(sf, 125_000) for sf in _EU_SF), Lora(7, 250_000), Fsk()),
    up_drs=range(8),
    default_channels=tuple(UpChannel(868_100_000 + n * 200_000, range(6)) for n in range(3)),
    downlinks_hz=(),
    offsets=6,
    rx2_dr=0,
    rx2_freq_hz=869_525_000,
    payload_max=(51, 51, 51, 115, 242, 242, 242, 242),
    repeater_max=(51, 51, 51, 115, 222, 222, 222, 222),
    limits_hz=(863_000_000, 870_000_000),
    # ETSI EN 300 220 as LoRaWAN devices divide it: 10 %, 1 %, and 0.1 % elsewhere.
    bands=(
        Band(((869_400_000, 869_650_000),), 100),
        Band(((868_000_000, 868_600_000), (869_700_000, 870_000_000)), 10),
        Band(((863_000_000, 870_000_000),), 1),
    ),
    eirp_max_dbm=16,
    power_index_max=7,
    channels_max=16,
    rui3_band=4,
    e5_plan="EU868",
    station_names=("EU868", "EU863"),
    station_dbm=16,
    heard_hz=tuple(867_100_000 + n * 200_000 for n in range(8)),
    heard_single=(868_300_000, Lora(7, 250_000)),
    heard_fsk_hz=868_800_000,
)

US915 = ChannelPlan(
    name="US915",
    data_rates=(
        *(Lora(sf, 125_000) for sf in (10, 9, 8, 7)),
        Lora(8, 500_000),
        *(None,) * 3,
        *(Lora(sf, 500_000) for sf in _EU_SF),
    ),
    up_drs=range(5),
    default_channels=(
        *(UpChannel(902_300_000 + n * 200_000, range(4)) for n in range(64)),
        *(UpChannel(903_000_000 + n * 1_600_000, range(4, 5)) for n in range(8)),
    ),
    downlinks_hz=tuple(923_300_000 + n * 600_000 for n in range(8)),
    offsets=4,
    rx2_dr=8,
    rx2_freq_hz=923_300_000,
    payload_max=(11, 53, 125, 242, 242, 0, 0, 0, 53, 129, 242, 242, 242, 242),
    repeater_max=(11, 53, 125, 242, 242, 0, 0, 0, 33, 109, 222, 222, 222, 222),
    limits_hz=(902_000_000, 928_000_000),
    bands=(),
    eirp_max_dbm=30,
    power_index_max=14,
    channels_max=72,
    rui3_band=5,
    e5_plan="US915",
    station_names=("US915", "US902"),
    station_dbm=26,
    heard_hz=tuple(903_900_000 + n * 200_000 for n in range(8)),
    heard_single=(904_600_000, Lora(8, 500_000)),
)

AS923_1 = ChannelPlan(
    name="AS923-1",
    data_rates=EU868.data_rates,
    up_drs=range(8),
    default_channels=tuple(UpChannel(923_200_000 + n * 200_000, range(6)) for n in range(2)),
    downlinks_hz=(),
    offsets=8,
    rx2_dr=2,
    rx2_freq_hz=923_200_000,
    payload_max=(51, 51, 115, 115, 242, 242, 242, 242),
    repeater_max=(51, 51, 115, 115, 222, 222, 222, 222),
    limits_hz=(915_000_000, 928_000_000),
    bands=(Band(((915_000_000, 928_000_000),), 10),),
    eirp_max_dbm=16,
    power_index_max=7,
    channels_max=16,
    rui3_band=8,
    e5_plan="AS923",
    station_names=("AS923-1", "AS923JP"),
    station_dbm=13,
    heard_hz=tuple(923_200_000 + n * 200_000 for n in range(8)),
    heard_single=(924_500_000, Lora(7, 250_000)),
    heard_fsk_hz=924_800_000,
    tx_params=0x15,  # 400 ms for uplinks, 16 dBm (LoRaWAN 1.0.4, 5.8)
)

PLANS = {plan.name: plan for plan in (EU868, US915, AS923_1)}


def channel_plan(region: str) -> ChannelPlan:
    """The plan of a region by its name; KeyError for one that is not known here."""
    return PLANS[region]
