"""What visitors say and read: vectors of RFC 6455 (5.7) and of the CUPS protocol as observed."""

import json

from bench.virtual.visitor import (
    CLOSE,
    PING,
    TEXT,
    Answer,
    frame,
    post,
    request,
    update_info,
    upgrade,
)

HELLO = bytes.fromhex("810548656c6c6f")
PINGED = bytes.fromhex("890548656c6c6f")
LONG = bytes.fromhex("827e0100") + bytes(256)
LONGER = bytes.fromhex("827f0000000000010000") + bytes(65_536)
NO_CHANGE = bytes(14)
CRC_OF_NOTHING = 2_077_607_535


def told(octets: bytes) -> Answer:
    return Answer(octets, 0)


def test_frames_of_a_server_are_read() -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
    closing = bytes.fromhex("880203e8")
    found = list(told(head + HELLO + PINGED + LONG + LONGER + closing + HELLO[:-1]).frames())
    assert [(opcode, len(content)) for opcode, content in found] == [
        (TEXT, 5), (PING, 5), (2, 256), (2, 65_536), (CLOSE, 2),
    ]  # fmt: skip
    assert told(head + HELLO).texts == ["Hello"] and told(head + HELLO).said == {}
    assert told(head + closing).closed_with == 1000 and told(head + HELLO).closed_with is None
    assert told(head + b'\x81\x07{"a":1}').said == {"a": 1}


def test_what_is_said_is_masked_with_zeros() -> None:
    assert frame("Hello") == bytes.fromhex("818500000000") + b"Hello"
    assert frame(bytes(256))[:8] == bytes.fromhex("82fe010000000000")
    assert frame(bytes(65_536))[:14] == bytes.fromhex("82ff000000000001000000000000")


def test_requests_are_requests() -> None:
    assert request("GET", "/x") == b"GET /x HTTP/1.1\r\nHost: lns.example\r\n\r\n"
    assert b"\r\nContent-Length: 2\r\n" in post("/x", b"{}") and post("/x", b"{}").endswith(b"{}")
    assert upgrade("/x").count(b"\r\nUpgrade: websocket\r\n") == 1


def test_an_answer_is_a_status_headers_and_a_body() -> None:
    answer = told(b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\n\r\nwrong token\n")
    assert (answer.status, answer.body) == (401, b"wrong token\n")
    assert (answer.reason, told(b"").reason) == ("Unauthorized", "")
    assert answer.header("WWW-Authenticate") == "Bearer" and answer.header("Date") is None
    assert told(b"").status is None and not answer.is_web_socket


def test_credentials_are_asked_for_and_handed_out() -> None:
    assert json.loads(update_info("west", keys=bytes(12)))["tcCredCrc"] == CRC_OF_NOTHING
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    assert told(head + NO_CHANGE).handed_out == ("", "", b"", b"")
    given = b"\x00\x04ws:1\x00\x00\x03\x00abc" + bytes(8)
    assert told(head + given).handed_out == ("", "ws:1", b"", b"abc")
    assert told(b"HTTP/1.1 403 No\r\n\r\n" + given).handed_out == ("", "", b"", b"")
