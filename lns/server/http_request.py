"""What does one HTTP request say? As much of HTTP/1.1 as a station speaks, and no more."""

import re
from dataclasses import dataclass, field

HEAD_BYTES_MAX = 8_192
BODY_BYTES_MAX = 16_384
_REQUEST_LINE = re.compile(r"([A-Z]+) (/[!-~]*) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t]*)")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """Method, path without query, headers by lower-case name (the last of a name counts)."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)

    @property
    def body_bytes(self) -> int | None:
        """The length of the body; None when it is not told as one number.

        A station pads the number with leading blanks.
        """
        told = self.headers.get("content-length", "").strip()
        return int(told) if told.isascii() and told.isdigit() and len(told) < 10 else None


def parse_head(head: bytes) -> RequestHead | None:
    """The head of a request up to its empty line; None if it is none."""
    try:
        first, *lines = head.decode("ascii").rstrip("\r\n").split("\r\n")
    except UnicodeDecodeError:
        return None
    request = _REQUEST_LINE.fullmatch(first)
    headers = [_HEADER.fullmatch(line) for line in lines]
    if request is None or not all(headers):
        return None
    found = {header[1].lower(): header[2].strip() for header in headers if header is not None}
    return RequestHead(request[1], request[2].partition("?")[0], found)


def response(status: int, reason: str, body: bytes, content_type: str) -> bytes:
    """A whole response; a station needs its Content-Length and takes no chunks."""
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
