"""What do those say who come to the door of a network server, and what are they told?

Requests as octets, right and wrong ones, and the answers read without the server's code. Sources:
RFC 9112 and RFC 6455; Basics Station, LNS and CUPS protocols.
"""

import base64
import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha1
from zlib import crc32

_KEY = base64.b64encode(bytes(16)).decode()
_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
OPENED = 101
HALF_AT_HOME = "0016C001F1FFFFFE"
"""A station in whose files nobody has written where its network server is."""
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_LAST, _OPCODE, _MASKED, _TWO_OCTETS, _EIGHT_OCTETS = 0x80, 0x0F, 0x80, 126, 127
TLS_1_1, TLS_1_2 = 0x0302, 0x0303
_ALERT, _HANDSHAKE = 0x15, 0x16
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) (.*?)\r")
Headers = Sequence[tuple[str, str]]


def request(method: str, path: str, headers: Headers = (), body: bytes = b"") -> bytes:
    """A request of HTTP/1.1."""
    lines = [f"{method} {path} HTTP/1.1", "Host: lns.example"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def upgrade(path: str, headers: Headers = ()) -> bytes:
    """The request for a WebSocket, by who could do more than a station."""
    asked = (
        ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Key", _KEY),
        ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Extensions", "permessage-deflate"),
        ("Sec-WebSocket-Protocol", "lorawan"),
    )  # fmt: skip
    return request("GET", path, (*asked, *headers))


def frame(content: str | bytes, opcode: int | None = None) -> bytes:
    """One message of a client, whose masking key is 0."""
    octets = content.encode() if isinstance(content, str) else content
    opcode = (TEXT if isinstance(content, str) else BINARY) if opcode is None else opcode
    count = len(octets)
    if count < _TWO_OCTETS:
        head = struct.pack("!BB", _LAST | opcode, _MASKED | count)
    elif count < 1 << 16:
        head = struct.pack("!BBH", _LAST | opcode, _MASKED | _TWO_OCTETS, count)
    else:
        head = struct.pack("!BBQ", _LAST | opcode, _MASKED | _EIGHT_OCTETS, count)
    return head + bytes(4) + octets


def client_hello(version: int, cipher: int) -> bytes:
    """The first words of TLS, of who knows P-256 and one cipher (RFC 5246, 7.4.1.2)."""
    # supported_groups: secp256r1; signature_algorithms: ecdsa_secp256r1_sha256
    extensions = bytes.fromhex("000a000400020017000d000400020403")
    hello = struct.pack("!H32xBHHBBH", version, 0, 2, cipher, 1, 0, len(extensions)) + extensions
    message = b"\x01" + len(hello).to_bytes(3, "big") + hello
    return struct.pack("!BHH", _HANDSHAKE, 0x0301, len(message)) + message


def alert(description: int) -> bytes:
    """Why somebody ends a TLS handshake (RFC 5246, 7.2)."""
    return struct.pack("!BHHBB", _ALERT, TLS_1_2, 2, 2, description)


def in_two(text: str) -> tuple[bytes, bytes]:
    """One text in two frames (RFC 6455, 5.4)."""
    head, tail = frame(text[:9]), frame(text[9:], 0)
    return bytes([head[0] ^ _LAST]) + head[1:], tail


def update_info(
    station: str | int,
    *,
    uris: tuple[str, str] = ("", ""),
    cups_keys: bytes = b"",
    keys: bytes = b"",
    **more: object,
) -> bytes:
    """What a station asks CUPS, which has these URIs and credentials, of CUPS and of its LNS."""
    body = {
        "router": station, "cupsUri": uris[0], "tcUri": uris[1], "cupsCredCrc": crc32(cups_keys),
        "tcCredCrc": crc32(keys), "station": "2.0.6(linux/std)", "model": "linux", "package": "",
        "keys": [], **more,
    }  # fmt: skip
    return json.dumps(body).encode()


def longest_uri(scheme: str) -> str:
    """The longest URI that there is room for in an answer of CUPS."""
    head, port = f"{scheme}://", ":6190"
    return head + "a" * (255 - len(head) - len(port)) + port


def post(path: str, body: bytes, headers: Headers = ()) -> bytes:
    """A request with a body."""
    return request("POST", path, (("Content-Length", str(len(body))), *headers), body)


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody was told, octet by octet, and how long it took until it was over."""

    octets: bytes
    lasted_us: int

    @property
    def status(self) -> int | None:
        """The HTTP status; None where there was no answer."""
        found = _STATUS.match(self.octets)
        return int(found[1]) if found else None

    @property
    def reason(self) -> str:
        """What the status is called; "" where there was no answer."""
        found = _STATUS.match(self.octets)
        return found[2].decode("latin-1") if found else ""

    @property
    def body(self) -> bytes:
        return self.octets.partition(b"\r\n\r\n")[2]

    def header(self, name: str) -> str | None:
        """What a header says; None where it is not there."""
        head = self.octets.partition(b"\r\n\r\n")[0].decode("latin-1")
        found = re.search(rf"(?im)^{re.escape(name)}: *(.*?)\r?$", head)
        return found[1] if found else None

    @property
    def is_web_socket(self) -> bool:
        """Whether a request for a WebSocket was taken, with the right proof (RFC 6455, 4.2.2)."""
        digest = sha1(_KEY.encode() + _ACCEPT, usedforsecurity=False).digest()
        proof = base64.b64encode(digest).decode()
        return self.status == OPENED and self.header("Sec-WebSocket-Accept") == proof

    @property
    def is_for_stations(self) -> bool:
        """Whether a station takes each frame: whole, not masked, and without an extension."""
        agreed = self.header("Sec-WebSocket-Extensions") or self.header("Sec-WebSocket-Protocol")
        return not agreed and all(
            head[0] & ~_OPCODE == _LAST and not head[1] & _MASKED for head, _ in self._frames()
        )

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Opcode and content of each whole message that came over a WebSocket."""
        for head, content in self._frames():
            yield head[0] & _OPCODE, content

    def _frames(self) -> Iterator[tuple[bytes, bytes]]:
        left = self.body
        while len(left) > 1:
            head, count, at = left[:2], left[1] & ~_MASKED, 2
            if count == _TWO_OCTETS:
                count, at = struct.unpack_from("!H", left, 2)[0], 4
            elif count == _EIGHT_OCTETS:
                count, at = struct.unpack_from("!Q", left, 2)[0], 10
            if len(left) < at + count:
                return
            yield head, left[at : at + count]
            left = left[at + count :]

    @property
    def texts(self) -> list[str]:
        """The texts that came over a WebSocket."""
        return [
            content.decode(errors="replace") for opcode, content in self.frames() if opcode == TEXT
        ]

    @property
    def said(self) -> dict[str, object]:
        """The first text as a JSON object; an empty one where there is none."""
        try:
            said = json.loads(self.texts[0])
        except (IndexError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    @property
    def closed_with(self) -> int | None:
        """The code with which a WebSocket was closed; None where it was not."""
        closing = [content for opcode, content in self.frames() if opcode == CLOSE]
        return int.from_bytes(closing[0][:2], "big") if closing else None

    @property
    def handed_out(self) -> tuple[str, str, bytes, bytes]:
        """What CUPS gave: URIs and credentials, of CUPS and of the LNS; each may be empty."""
        left, found = self.body if self.status == 200 else b"", []
        for wide in (1, 1, 2, 2, 4, 4):
            count = int.from_bytes(left[:wide], "little")
            found.append(left[wide : wide + count])
            left = left[wide + count :]
        cups_uri, tc_uri, cups, tc, *_ = found
        return cups_uri.decode("latin-1"), tc_uri.decode("latin-1"), cups, tc
