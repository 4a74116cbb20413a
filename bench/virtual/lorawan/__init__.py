"""LoRaWAN from the specification, a second time: what the far end of the air knows.

Shares no line with `lns.lorawan`, so that a fault there is seen from here. Identifiers are
upper-case hexadecimal text as everywhere, most significant byte first.

Whoever inspects a network server reads its downlinks with it too: what it has wrong would look like
a fault of the server. So it is asked for answers that are known (`wrong_answers`); the first frame
and the first join-accept are examples that others have published.
"""

from collections.abc import Callable, Iterator
from functools import cache

from bench.virtual.lorawan.air_interface import (
    Keys,
    Kind,
    counter_of,
    data_frame,
    from_device,
    from_network,
    link_adr,
    read_data,
)
from bench.virtual.lorawan.channel_plan import EU868, PLANS, US915, Lora, time_on_air_us
from bench.virtual.lorawan.join_frames import (
    join_request,
    read_join_accept,
    read_join_request,
    session_keys,
)

_KEYS = Keys(
    bytes.fromhex("44024241ED4CE9A68C6A8BC055233FD3"),
    bytes.fromhex("EC925802AE430CA77FD3DD73CB2CC588"),
)
_APP_KEY = bytes.fromhex("B6B53F4A168A7A88BDF7EA135CE9CFCA")
_DOWN = bytes.fromhex("A0F17DBE49200100012F6808BF1A20E2507135AC5ACECBF1D3AAB8A86EB27E78F9")
_ACCEPTS = (
    bytes.fromhex("204DD85AE608B87FC4889970B7D2042C9E72959B0057AED6094B16003DF12DE145"),
    bytes.fromhex("20F7BB783A78BA6F650333E20C979AFB13BA7DE9DA716AEC67C9E93583380BE8C3"),
)


def _uplink() -> str:
    kind = Kind.UNCONFIRMED_UP
    return data_frame(kind, "49BE7DF1", _KEYS, 2, f_port=1, payload=b"test").hex()


def _downlink() -> str:
    frame = read_data(_DOWN)
    if frame is None:
        return "unreadable"
    taken = [counter_of(frame, _KEYS.nwk_s_key, last) for last in (65536, 65537)]
    return f"{frame.clear(_KEYS, 65537).hex()}, FCntDown {taken}"


def _request() -> str:
    euis = {"join_eui": "70B3D57ED0000000", "dev_eui": "00AFEE7CF5ED6F1E"}
    phy = join_request(_APP_KEY, **euis, dev_nonce=0x1234)
    read = read_join_request(phy)
    return f"{phy.hex()} {read.frame_id if read else 'unreadable'}"


def _accepts() -> str:
    return " ".join(map(_accept, _ACCEPTS))


def _accept(phy: bytes) -> str:
    read = read_join_accept(_APP_KEY, phy)
    if read is None:
        return "unreadable"
    windows = f"{read.rx1_dr_offset}/{read.rx2_dr}/{read.rx_delay_s}s"
    listed = *read.more_channels_hz, *read.channel_masks
    told = f"{read.join_nonce:06X}:{read.net_id}:{read.dev_addr}:{windows}"
    return f"{told}:{'+'.join(map(str, listed))}"


def _commands() -> str:
    down = from_network(
        bytes.fromhex("020103 0352340567 0401 0528D2AD84 06 070301020355 0805 0915")
    )
    up = from_device(bytes.fromhex("02 0307 04 0507 06FF1F 0703 08 09 0A03 0D"))
    asked = link_adr(down[1])
    fields = asked.dr, asked.power, f"{asked.mask:04X}", asked.mask_control, asked.nb_trans
    told = " ".join(command.octets.hex() for command in (*down, *up))
    return f"{told} {'/'.join(map(str, fields))}"


def _derived() -> str:
    keys = session_keys(_APP_KEY, 0x1A2B3C, "000013", 0x1234)
    return f"{keys.nwk_s_key.hex()} {keys.app_s_key.hex()}"


def _rx1() -> str:
    hz = [US915.rx1_freq_hz(US915.default_channels[number].freq_hz) for number in (0, 9, 64)]
    drs = [US915.rx1_dr(3, 2), US915.rx1_dr(4, 0), EU868.rx1_dr(5, 1), EU868.rx1_dr(1, 3)]
    return f"{hz} {drs}"


def _plans() -> str:
    """Where devices begin and where RX2 is: of each region its own (RP002-1.0.3)."""
    told = []
    for name, plan in PLANS.items():
        first_hz, last_hz = (plan.default_channels[end].freq_hz for end in (0, -1))
        slowest, rx2 = plan.data_rates[0], f"{plan.rx2_dr}@{plan.rx2_freq_hz}"
        assert isinstance(slowest, Lora)
        told.append(f"{name} {first_hz}-{last_hz} SF{slowest.sf} {rx2}")
    return ", ".join(told)


def _airtime() -> str:
    lora = (Lora(7, 125_000), True), (Lora(12, 125_000), False)
    return str([time_on_air_us(modulated, 19, crc=crc) for modulated, crc in lora])


_KNOWN: dict[str, tuple[Callable[[], str], str]] = {
    "data uplink": (_uplink, "40f17dbe4900020001954378762b11ff0d"),
    "data downlink": (_downlink, f"{bytes(range(20)).hex()}, FCntDown [65537, None]"),
    "join request": (
        _request,
        "00000000d07ed5b3701e6fedf57ceeaf0034129a8b232a 70B3D57ED0000000:00AFEE7CF5ED6F1E:4660",
    ),
    "join accept": (
        _accepts,
        "E5063A:000013:26012E43:0/3/1s:867100000+867300000+867500000+867700000+867900000"
        " 030201:060504:0A090807:2/8/5s:65280+0+0+0+2",
    ),
    "commands": (
        _commands,
        "020103 0352340567 0401 0528d2ad84 06 070301020355 0805 0915"
        " 02 0307 04 0507 06ff1f 0703 08 09 0a03 0d 5/2/0534/6/7",
    ),
    "regions": (
        _plans,
        "EU868 868100000-868500000 SF12 0@869525000, US915 902300000-914200000 SF10 8@923300000,"
        " AS923-1 923200000-923400000 SF12 2@923200000",
    ),
    "session keys": (_derived, "0f64ed03191b7053647a91dafdca0c62 04b4f1f920c7b82f3884a3117f3c52d7"),
    "RX1": (_rx1, "[923300000, 923900000, 923300000] [11, 13, 4, 0]"),
    "airtime": (_airtime, "[51456, 1318912]"),
}


@cache
def wrong_answers() -> tuple[tuple[str, str, str], ...]:
    """What of it is wrong: of what, the known answer, and the one that it gives."""
    return tuple(_wrong())


def _wrong() -> Iterator[tuple[str, str, str]]:
    for what, (ask, known) in _KNOWN.items():
        try:
            given = ask()
        except (ArithmeticError, AssertionError, LookupError, ValueError) as failure:
            given = f"{type(failure).__name__}: {failure}"
        if given != known:
            yield what, known, given
