import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.device.at_session import is_about_a_key, masked

KEY = "2B7E151628AED2A6ABF7158809CF4F3C"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"AT+APPKEY={KEY}", "AT+APPKEY=***"),
        (f"AT+NWKSKEY={KEY}", "AT+NWKSKEY=***"),
        (f"at+appskey={KEY.lower()}", "at+appskey=***"),
        ("AT+APPKEY=2B7E1516", "AT+APPKEY=***"),  # the rest was lost
        (f"AT+APPK\N{REPLACEMENT CHARACTER}Y={KEY}", "AT+APPK\N{REPLACEMENT CHARACTER}Y=***"),
        ("28AED2A6ABF7158809CF4F3C", "***"),  # the beginning was lost
        (f"AT+ADDMULC=C:01020304:{KEY}:{KEY}:869525000:0:0", "AT+ADDMULC=***"),
        (f'AT+KEY=APPKEY,"{KEY}"', "AT+KEY=***"),
        (f"AT+ENCKEY={KEY}", "AT+ENCKEY=***"),
        (f"+EVT:RX{KEY}", "+EVT:RX***"),  # two lines run together
        (f"+KEY: APPKEY {KEY}", "+KEY: ***"),
        (f'+KEY: NWKSKEY, "{KEY}"', "+KEY: ***"),
        (f"+KEY: APPKEY {bytes.fromhex(KEY).hex(' ').upper()}", "+KEY: ***"),
        (f"AT+KEY= APPKEY,{KEY}", "AT+KEY= ***"),
        (f"+K: {bytes.fromhex(KEY).hex(' ')}", "+K: ***"),  # a byte of its name was lost
        (f'{KEY[12:]}"', "***"),
        (bytes.fromhex(KEY[:12]).hex(" "), "***"),
    ],
)
def test_keys_are_masked(text: str, written: str) -> None:
    assert masked(text) == written


@pytest.mark.parametrize(
    "text",
    ["OK", "ATZ", "AT+APPKEY=?", "AT+DEVEUI=70B3D57ED0000001", "AT+VER=RUI_4.1.0_RAK3172-H",
     f"AT+SEND=2:{KEY}", f"+EVT:RX_1:-61:9:UNICAST:10:{KEY.lower()}",
     f"AT+RECV=2:{KEY}", f"AT+PSEND={KEY}", f"+EVT:RXP2P:-61:9:{KEY}",
     f'AT+MSGHEX="{KEY}"', f'AT+CMSGHEX="{KEY}"', f'+MSGHEX: PORT: 8; RX: "{KEY}"',
     f'AT+TEST=TXLRPKT,"{KEY}"', f'+TEST: TXLRPKT "{KEY}"', f'+TEST: RX "{KEY}"',
     f"+LOG: DEBUG 123 LORA TX, {KEY}", "+KEY: ERROR(-1)", "+ID: AppEui, 80:00:00:00:00:00:00:06",
     "+JOIN: NetID 000013 DevAddr 26:0B:12:34"],
)  # fmt: skip
def test_everything_else_stays(text: str) -> None:
    assert masked(text) == text


@given(st.sampled_from(["APPKEY", "NWKSKEY", "APPSKEY"]), st.binary(min_size=16, max_size=16))
def test_no_key_is_left(name: str, key: bytes) -> None:
    text = f"AT+{name}={key.hex().upper()}"
    assert key.hex().upper() not in masked(text)
    assert is_about_a_key(text)
    assert is_about_a_key(f"AT+{name}=?")


def test_other_commands_are_not_about_keys() -> None:
    assert not any(is_about_a_key(text) for text in ("AT", "AT+DEVEUI=?", "AT+SEND=2:01", "ATZ"))
