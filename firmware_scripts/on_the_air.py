"""What may be sent in a region, and how long is it on the air?

LoRaWAN Regional Parameters RP002, EU863-870 and US902-928; airtime by the formula of Semtech's
AN1200.13.
"""

from dataclasses import dataclass

from ending import WrongUsage

_UPLINKS = {0: "join-request", 2: "unconfirmed uplink", 4: "confirmed uplink"}
_FRAME_BYTES_MIN = 12  # MHDR 1, DevAddr 4, FCtrl 1, FCnt 2, MIC 4
_JOIN_REQUEST_BYTES = 23
_BEYOND_PAYLOAD = 13  # MHDR, DevAddr, FCtrl, FCnt, FPort, MIC


@dataclass(frozen=True, slots=True)
class DataRate:
    """Spreading factor and bandwidth, and the largest application payload in bytes.

    In US915 that keeps a frame within the 400 ms that it may stay on a channel.
    """

    sf: int
    bw_khz: int
    payload_max: int


_EU868 = {
    0: DataRate(12, 125, 51),
    1: DataRate(11, 125, 51),
    2: DataRate(10, 125, 51),
    3: DataRate(9, 125, 115),
    4: DataRate(8, 125, 242),
    5: DataRate(7, 125, 242),
    6: DataRate(7, 250, 242),
}
_US915 = {
    0: DataRate(10, 125, 11),
    1: DataRate(9, 125, 53),
    2: DataRate(8, 125, 125),
    3: DataRate(7, 125, 242),
    4: DataRate(8, 500, 242),
}
DATA_RATES = {"EU868": _EU868, "US915": _US915}
_EU_CHANNELS_HZ = (
    *(868_100_000, 868_300_000, 868_500_000),
    *(867_100_000 + 200_000 * n for n in range(5)),
)
_US_125_HZ = tuple(902_300_000 + 200_000 * n for n in range(64))
_US_500_HZ = tuple(903_000_000 + 1_600_000 * n for n in range(8))
POWER_DBM_MAX = {"EU868": 14, "US915": 22}


def airtime_us(data_rate: DataRate, phy_bytes: int) -> int:
    """Airtime in microseconds of an uplink: 8 symbols preamble, explicit header, CR 4/5, CRC."""
    low_data_rate = (1 << data_rate.sf) > 16 * data_rate.bw_khz  # a symbol beyond 16 ms
    bits = 8 * phy_bytes - 4 * data_rate.sf + 28 + 16
    groups = max(-(-bits // (4 * (data_rate.sf - 2 * low_data_rate))), 0)
    quarter_symbols = 4 * (8 + 8 + 5 * groups) + 17
    return quarter_symbols * (1000 << data_rate.sf) // (4 * data_rate.bw_khz)


def quiet_after_us(freq_hz: int, on_air_us: int) -> int:
    """How long a transmitter in EU868 is silent after a frame: 1 % in 868.0 to 868.6, else 0.1 %.

    That is how Basics Station shares the bands out, and stricter than the law below 868 MHz.
    """
    return on_air_us * (99 if 868_000_000 <= freq_hz <= 868_600_000 else 999)


def channel_hz(text: str) -> int:
    """`868.1` or `868100000` as Hz."""
    try:
        value = float(text)
    except ValueError:
        raise WrongUsage(f"--freq {text!r} is no frequency; write 868.1 or 868100000") from None
    return round(value * 1_000_000) if value < 10_000 else round(value)


def check_frame(phy: bytes, region: str, freq_hz: int, dr: int) -> str:
    """What kind of uplink it is; WrongUsage if the region, or sense, forbids to send it."""
    data_rate = DATA_RATES[region].get(dr)
    if data_rate is None:
        known = ", ".join(f"DR{number}" for number in DATA_RATES[region])
        raise WrongUsage(f"DR{dr} is no LoRa uplink of {region}; there are: {known}")
    _check_channel(region, freq_hz, dr)
    kind = _kind(phy)
    bytes_max = data_rate.payload_max + _BEYOND_PAYLOAD
    if len(phy) > bytes_max:
        raise WrongUsage(f"{len(phy)} bytes: {region} DR{dr} carries {bytes_max} at most")
    return kind


def _check_channel(region: str, freq_hz: int, dr: int) -> None:
    if region == "EU868":
        channels = _EU_CHANNELS_HZ if dr <= 5 else (868_300_000,)
    else:
        channels = _US_125_HZ if dr <= 3 else _US_500_HZ
    if freq_hz not in channels:
        some = ", ".join(f"{channel / 1e6:.1f}" for channel in sorted(channels)[:8])
        raise WrongUsage(
            f"{freq_hz / 1e6:.3f} MHz is no uplink channel of {region} for DR{dr}; there are: "
            f"{some}{' …' if len(channels) > 8 else ''} MHz"
        )


def _kind(phy: bytes) -> str:
    kind = _UPLINKS.get(phy[0] >> 5) if phy else None
    if kind is None:
        raise WrongUsage("this is no LoRaWAN uplink; a replayer repeats what a device has sent")
    if kind == "join-request" and len(phy) != _JOIN_REQUEST_BYTES:
        raise WrongUsage(f"a join-request has {_JOIN_REQUEST_BYTES} bytes, this has {len(phy)}")
    if len(phy) < _FRAME_BYTES_MIN:
        raise WrongUsage(f"{len(phy)} bytes: an uplink has {_FRAME_BYTES_MIN} at least")
    return kind
