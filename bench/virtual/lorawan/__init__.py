"""LoRaWAN from the specification, a second time: what the far end of the air knows.

Shares no line with `lns.lorawan`, so that a fault there is seen from here. Identifiers are
upper-case hexadecimal text as everywhere, most significant byte first.

Whoever inspects a network server reads its downlinks with it too: what it has wrong would look like
a fault of the server. So it is asked for answers that are known (`wrong_answers`); the first frame
and the join-accept are examples that others have published.
"""

from collections.abc import Callable, Iterator
from functools import cache

from bench.virtual.lorawan.air_interface import Keys, Kind, counter_of, data_frame, read_data
from bench.virtual.lorawan.channel_plan import EU868, US915, Lora, time_on_air_us
from bench.virtual.lorawan.join_frames import join_request, read_join_accept, session_keys

_KEYS = Keys(
    bytes.fromhex("44024241ED4CE9A68C6A8BC055233FD3"),
    bytes.fromhex("EC925802AE430CA77FD3DD73CB2CC588"),
)
_APP_KEY = bytes.fromhex("B6B53F4A168A7A88BDF7EA135CE9CFCA")
_DOWN = bytes.fromhex("A0F17DBE49200100012F6808BF1A20E2507135AC5ACECBF1D3AAB8A86EB27E78F9")
_ACCEPT = bytes.fromhex("204DD85AE608B87FC4889970B7D2042C9E72959B0057AED6094B16003DF12DE145")


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
    return join_request(_APP_KEY, **euis, dev_nonce=0x1234).hex()


def _accept() -> str:
    accept = read_join_accept(_APP_KEY, _ACCEPT)
    return accept.dev_addr if accept else "unreadable"


def _derived() -> str:
    keys = session_keys(_APP_KEY, 0x1A2B3C, "000013", 0x1234)
    return f"{keys.nwk_s_key.hex()} {keys.app_s_key.hex()}"


def _rx1() -> str:
    hz = [US915.rx1_freq_hz(US915.default_channels[number].freq_hz) for number in (0, 9, 64)]
    drs = [US915.rx1_dr(3, 2), US915.rx1_dr(4, 0), EU868.rx1_dr(5, 1), EU868.rx1_dr(1, 3)]
    return f"{hz} {drs}"


def _airtime() -> str:
    lora = (Lora(7, 125_000), True), (Lora(12, 125_000), False)
    return str([time_on_air_us(modulated, 19, crc=crc) for modulated, crc in lora])


_KNOWN: dict[str, tuple[Callable[[], str], str]] = {
    "data uplink": (_uplink, "40f17dbe4900020001954378762b11ff0d"),
    "data downlink": (_downlink, f"{bytes(range(20)).hex()}, FCntDown [65537, None]"),
    "join request": (_request, "00000000d07ed5b3701e6fedf57ceeaf0034129a8b232a"),
    "join accept": (_accept, "26012E43"),
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
