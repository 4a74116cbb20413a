from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.device.at_session import LINE_BYTES_MAX, AtConsole, Line, LineKind, command_bytes

REPLACED = "\N{REPLACEMENT CHARACTER}"


def lines(*chunks: bytes) -> list[Line]:
    console = AtConsole()
    return [line for chunk in chunks for line in console.receive_bytes(chunk)]


def said(data: bytes) -> list[tuple[str, str]]:
    return [(line.kind.value, line.text) for line in lines(data)]


SOUNDS = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([
        b"\r\n", b"\n", b"\r", b"OK\r\n", b"AT_BUSY_ERROR\r\n", b"AT+VER=RUI_4.1.0_RAK3172-H\r\n",
        b"+EVT:TX_DONE\r\n", b"+EVT:RX_1:-61:9:UNICAST:10:a1b2\r\n", b"+EVT:", b"+BC:LOCKED\r\n",
        b"\r\nCurrent Work Mode: LoRaWAN.\r\n", b"\x00\xff", b"A" * (LINE_BYTES_MAX + 3),
    ]),
)  # fmt: skip


@given(st.lists(SOUNDS, max_size=12).map(b"".join), st.data())
def test_any_split_gives_the_same_lines(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    bounds = [0, *cuts, len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(bounds)]
    assert lines(*chunks) == lines(stream)


def test_one_byte_at_a_time() -> None:
    stream = b"\r\nAT+NWM=1\r\nOK\r\n\r\n+EVT:JOINED\r\n"
    assert lines(*(bytes([byte]) for byte in stream)) == lines(stream)


def test_a_query_and_a_plain_reply() -> None:
    assert said(b"AT+NWM=1\r\nOK\r\n") == [("reply", "AT+NWM=1"), ("status", "OK")]
    assert said(b"\r\nOK\r\n") == [("status", "OK")]  # older firmware


@pytest.mark.parametrize(
    "text",
    ["OK", "AT_ERROR", "AT_PARAM_ERROR", "AT_BUSY_ERROR", "AT_TEST_PARAM_OVERFLOW",
     "AT_NO_CLASSB_ENABLE", "AT_NO_NETWORK_JOINED", "AT_RX_ERROR", "AT_MODE_NO_SUPPORT",
     "AT_COMMAND_NOT_FOUND", "AT_UNSUPPORTED_BAND", "AT+FOO: Command not found!!"],
)  # fmt: skip
def test_every_status(text: str) -> None:
    assert said(text.encode() + b"\r\n") == [("status", text)]


def test_an_error_of_two_lines() -> None:
    assert said(b"Restricted_Wait_9000_ms\r\nAT_BUSY_ERROR\r\n") == [
        ("reply", "Restricted_Wait_9000_ms"),
        ("status", "AT_BUSY_ERROR"),
    ]


def test_an_event_in_the_middle_of_a_reply_is_kept_apart() -> None:
    assert said(b"AT+DR=5\r\n+EVT:TX_DONE\r\nOK\r\n") == [
        ("reply", "AT+DR=5"),
        ("event", "+EVT:TX_DONE"),
        ("status", "OK"),
    ]


def test_an_event_in_the_middle_of_a_line_is_kept_apart() -> None:
    assert said(b"OK+EVT:TX_DONE\r\n") == [("status", "OK"), ("event", "+EVT:TX_DONE")]


def test_a_boot_in_the_middle_of_a_reply() -> None:
    boot = ("boot", "Current Work Mode: LoRaWAN.")
    assert said(b"AT+VER=RUI_4.\r\nCurrent Work Mode: LoRaWAN.\r\n") == [
        ("reply", "AT+VER=RUI_4."),
        boot,
    ]
    assert said(b"AT+VECurrent Work Mode: LoRaWAN.\r\n") == [("reply", "AT+VE"), boot]
    # AT+NWM=1 prints its OK without a line end, then starts anew.
    assert said(b"OK\r\nCurrent Work Mode: LoRaWAN.\r\n") == [("status", "OK"), boot]


def test_an_echo_is_a_reply_and_its_odd_line_end_is_one() -> None:
    assert said(b"AT\n\rOK\r\n") == [("reply", "AT"), ("status", "OK")]


def test_noise_around_a_line_is_taken_off_and_inside_it_is_shown() -> None:
    assert lines(b"\xff\xfe\x00OK\x80\r\n") == [Line(LineKind.STATUS, "OK")]
    assert lines(b"AT+SN=12\x0034\r\n") == [Line(LineKind.REPLY, "AT+SN=1234")]
    assert lines(b"+EVT:TX\x80DONE\r\n") == [Line(LineKind.EVENT, f"+EVT:TX{REPLACED}DONE")]
    assert lines(b"\xff\x00\x01\r\n") == []


def test_a_line_that_has_not_ended_is_none() -> None:
    assert lines(b"OK") == []
    console = AtConsole()
    console.receive_bytes(b"AT+VER=RUI_")
    console.forget()
    assert [line.text for line in console.receive_bytes(b"OK\r\n")] == ["OK"]


def test_an_overlong_line_is_cut_and_the_next_one_whole() -> None:
    long, ok = lines(b"x" * 100_000 + b"\r\nOK\r\n")
    assert len(long.text) == LINE_BYTES_MAX
    assert ok == Line(LineKind.STATUS, "OK")


def test_a_line_after_noise_without_end_is_found() -> None:
    assert lines(b"\xf0" * 100_000 + b"OK\r\n") == [Line(LineKind.STATUS, "OK")]
    _, event = lines(b"x" * 100_000 + b"+EVT:JOINED\r\n")
    assert event == Line(LineKind.EVENT, "+EVT:JOINED")


def test_a_line_of_exactly_the_bound_is_whole() -> None:
    whole = "y" + "x" * (LINE_BYTES_MAX - 1)
    assert [line.text for line in lines(f"{whole}\n".encode())] == [whole]
    assert [line.text for line in lines(f"z{whole}\n".encode())] == [whole]


def test_a_command_is_one_line() -> None:
    assert command_bytes("AT+SEND=2:0102") == b"AT+SEND=2:0102\r\n"
    for text in ("", "AT\r\nATZ", "AT\0", "AT+ALIAS=ü"):
        with pytest.raises(ValueError, match="one line of printable ASCII"):
            command_bytes(text)
