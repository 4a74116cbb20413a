"""What does a device say on its serial line, and which lines end the reply to a command?

Sans-IO, and the same for every dialect that ends its lines with CR or LF; a `LineSpelling` says
which of them are events, a `Grammar` which of them end a reply. How the bytes are cut into chunks
makes no difference. Silence is for the caller to notice.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

LINE_BYTES_MAX = 2048
"""Bytes of a line that are kept, the last ones: after noise without end comes a line. The longest
genuine line, a downlink, has about 520."""

_LINE_ENDS = re.compile(rb"[\r\n]")
_NOISE = "\N{REPLACEMENT CHARACTER}"


class LineKind(StrEnum):
    """What a line is, as far as it says itself."""

    STATUS = "status"  # the end of a reply: OK or an error
    REPLY = "reply"  # anything else: a value, an explanation, an echo, a banner, noise
    EVENT = "event"
    BOOT = "boot"  # the device has just started


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSpelling:
    """How a dialect spells the lines that say themselves what they are; `re.match` decides.

    `interjection`: what is printed from another context than the replies, and so sometimes in the
    middle of one. `status` is matched in full.
    """

    interjection: re.Pattern[str]
    event: re.Pattern[str]
    boot: re.Pattern[str]
    status: re.Pattern[str]


RUI3_LINES = LineSpelling(
    interjection=re.compile(r"\+(?:EVT|BC):|Current Work Mode: "),
    event=re.compile(r"\+(?:EVT|BC):"),
    boot=re.compile(r"Current Work Mode: "),
    status=re.compile(r"OK|AT_[A-Z0-9_]+|.*: Command not found!!"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line as text: no line end, never empty, printable ASCII, U+FFFD for each byte of noise.

    `damaged`: there were bytes that no device means to send, or it was longer than is kept.
    """

    kind: LineKind
    text: str
    damaged: bool = False


class LineCutter:
    """Cuts a stream of bytes into lines; remembers the one that has not ended yet."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._overlong = False

    def receive_bytes(self, data: bytes) -> list[tuple[bytes, bool]]:
        """The lines that end in these bytes, without the empty ones, and whether one was cut."""
        *ended, rest = _LINE_ENDS.split(data)
        lines = []
        for part in ended:
            self._append(part)
            if self._rest:
                lines.append((bytes(self._rest), self._overlong))
            self.forget()
        self._append(rest)
        return lines

    def forget(self) -> None:
        """Drop the line that has not ended: its end will not come."""
        self._rest.clear()
        self._overlong = False

    def _append(self, part: bytes) -> None:
        self._rest += part
        if len(self._rest) > LINE_BYTES_MAX:
            del self._rest[:-LINE_BYTES_MAX]
            self._overlong = True


class AtConsole:
    """The bench's side of a serial line; no bytes whatever make it raise."""

    def __init__(self, spelling: LineSpelling = RUI3_LINES) -> None:
        self._spelling = spelling
        self._cutter = LineCutter()

    def receive_bytes(self, data: bytes) -> list[Line]:
        """The lines that end in these bytes, in order; a line with another inside it is several."""
        return [
            line
            for raw, cut in self._cutter.receive_bytes(data)
            for line in _lines_in(raw, self._spelling, cut=cut)
        ]

    def forget(self) -> None:
        """Drop the line that has not ended, as when the line was opened anew."""
        self._cutter.forget()


def command_bytes(text: str) -> bytes:
    """A command as it goes on the wire; ValueError where it is not one line of printable ASCII."""
    if not text or not text.isascii() or not text.isprintable():
        raise ValueError(f"{text!r} is not one line of printable ASCII")
    return f"{text}\r\n".encode("ascii")


def _lines_in(raw: bytes, spelling: LineSpelling, *, cut: bool) -> Iterator[Line]:
    heard = raw.replace(b"\0", b"")  # RUI3 pads AT+SN with NUL bytes
    printable = "".join(chr(byte) if 0x20 <= byte < 0x7F else _NOISE for byte in heard)
    begins = sorted({0, *(found.start() for found in spelling.interjection.finditer(printable))})
    for begin, end in zip(begins, [*begins[1:], len(printable)], strict=True):
        part = printable[begin:end]
        text = part.strip(f" {_NOISE}")
        if text:
            damaged = len(heard) < len(raw) or _NOISE in part or (cut and begin == 0)
            yield Line(_kind(text, spelling), text, damaged=damaged)


def _kind(text: str, spelling: LineSpelling) -> LineKind:
    if spelling.event.match(text):
        return LineKind.EVENT
    if spelling.boot.match(text):
        return LineKind.BOOT
    return LineKind.STATUS if spelling.status.fullmatch(text) else LineKind.REPLY


NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The lines that end one reply: `accepted` or `refused`, each matched in full.

    `perhaps` ends it too, unless another line follows within `quiet_us`; it counts as accepted.
    """

    accepted: re.Pattern[str]
    refused: re.Pattern[str]
    perhaps: re.Pattern[str] = NOTHING
    quiet_us: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How a dialect frames commands and replies.

    `question` is a query whose answer begins with `answer` and so cannot be that of an earlier
    command. `forbidden`: commands that the bench never writes.
    """

    lines: LineSpelling
    reply_to: Callable[[str], Reply]
    question: str
    answer: str
    forbidden: re.Pattern[str]


_RUI3_REPLY = Reply(
    accepted=re.compile(r"OK"),
    refused=re.compile(r"AT_[A-Z0-9_]+|.*: Command not found!!|COMMAND_LOCKED"),
)

# AT+BOOT waits in the boot loader for a new firmware; AT+BAUD changes its speed before its OK.
RUI3 = Grammar(
    lines=RUI3_LINES,
    reply_to=lambda command: _RUI3_REPLY,
    question="AT+VER=?",
    answer="AT+VER=",
    forbidden=re.compile(r"AT\+BOOT\b.*|AT\+BAUD=(?!\?).*", re.I),
)
