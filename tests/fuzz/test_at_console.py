"""Fuzz target: no bytes from a serial line make the console raise, or say what a line is not."""

from hypothesis import given
from hypothesis import strategies as st

from bench.device.at_session import LINE_BYTES_MAX, AtConsole, Line, LineKind, masked

KEY = "2B7E151628AED2A6ABF7158809CF4F3C"
GENUINE = [
    "OK", "AT_BUSY_ERROR", "AT+VER=RUI_5.0.0_RAK3172-E", "+EVT:JOINED", "+EVT:TX_DONE",
    "+EVT:RX_1:-61:9:UNICAST:10:a1b2", "+EVT:SEND_CONFIRMED_FAILED(4)", "+BC:LOCKED",
    "Restricted_Wait_9000_ms", "Current Work Mode: LoRaWAN.", f"AT+APPKEY={KEY}",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Genuine lines with bytes changed, lost and put in, and pieces of others in between."""
    data = bytearray()
    for text in draw(st.lists(st.sampled_from(GENUINE), max_size=6)):
        data += text.encode() + draw(st.sampled_from([b"\r\n", b"\n\r", b"\n", b"\r", b""]))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "lose", "insert"])):
            case "change":
                data[at : at + 1] = draw(st.binary(max_size=1))
            case "lose":
                del data[at : at + draw(st.integers(1, 20))]
            case "insert":
                data[at:at] = draw(st.binary(max_size=20))
    return bytes(data)


def check(line: Line) -> None:
    assert line.text == line.text.strip(" ")
    assert 0 < len(line.text) <= LINE_BYTES_MAX
    assert all(" " <= char <= "~" or char == "\N{REPLACEMENT CHARACTER}" for char in line.text)
    assert (line.kind is LineKind.EVENT) == line.text.startswith(("+EVT:", "+BC:"))
    if line.kind is LineKind.STATUS:
        assert line.text == "OK" or line.text.startswith("AT_") or "not found" in line.text
    if not line.text.startswith("+EVT:RX_1:-61:9:UNICAST:"):  # there it may be a payload
        assert KEY not in masked(line.text)


@given(st.lists(st.one_of(st.binary(max_size=200), mutated()), max_size=8))
def test_any_bytes_are_lines(chunks: list[bytes]) -> None:
    console = AtConsole()
    for chunk in chunks:
        for line in console.receive_bytes(chunk):
            check(line)
    console.forget()
    assert console.receive_bytes(b"OK\r\n") == [Line(LineKind.STATUS, "OK")]
