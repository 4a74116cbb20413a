"""What does a device say on its serial line, and whose line is it: who asked, who waits?

One command at a time on one serial line, the same for every dialect that ends its lines with CR or
LF: a `LineSpelling` says which of them are events, a `Grammar` which of them end a reply. How the
bytes are cut into chunks makes no difference. It waits for lines, never for time. Every command and
every line goes into the capture, but keys: they go over the line in clear, in commands and in the
answers to `AT+APPKEY=?`, and a capture holds them neither whole nor in part, as far as a line can
tell; payloads look the same and stay.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from bench.capture import Record
from bench.device.interfaces import CommandRefused, DeviceRestarted, DeviceSilent
from bench.device.serial_line import LineLost
from lns.lorawan.identifiers import Eui

LINE_BYTES_MAX = 2048
"""Bytes of a line that are kept, the last ones: after noise without end comes a line. The longest
genuine line, a downlink, has about 520."""

_LINE_ENDS = re.compile(rb"[\r\n]")
_NOISE = "\N{REPLACEMENT CHARACTER}"


class LineKind(StrEnum):
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
    """One line as text, never empty: no line end, printable ASCII, U+FFFD for a byte of noise."""

    kind: LineKind
    text: str


class AtConsole:
    """The bench's side of a serial line; no bytes whatever make it raise.

    Remembers the line that has not ended yet. How the bytes are cut makes no difference.
    """

    def __init__(self, spelling: LineSpelling = RUI3_LINES) -> None:
        self._spelling = spelling
        self._rest = b""

    def receive_bytes(self, data: bytes) -> list[Line]:
        """The lines that end in these bytes, in order; a line with another inside it is several."""
        *ended, rest = _LINE_ENDS.split(self._rest + data)
        self._rest = rest[-LINE_BYTES_MAX:]
        return [line for raw in ended for line in _lines_in(raw, self._spelling)]

    def forget(self) -> None:
        """Drop the line that has not ended: its end will not come."""
        self._rest = b""


def command_bytes(text: str) -> bytes:
    """A command as it goes on the wire; ValueError where it is not one line of printable ASCII."""
    if not text or not text.isascii() or not text.isprintable():
        raise ValueError(f"{text!r} is not one line of printable ASCII")
    return f"{text}\r\n".encode("ascii")


def _lines_in(raw: bytes, spelling: LineSpelling) -> Iterator[Line]:
    heard = raw[-LINE_BYTES_MAX:].replace(b"\0", b"")  # RUI3 pads AT+SN with NUL bytes
    printable = "".join(chr(byte) if 0x20 <= byte < 0x7F else _NOISE for byte in heard)
    begins = sorted({0, *(found.start() for found in spelling.interjection.finditer(printable))})
    for begin, end in zip(begins, [*begins[1:], len(printable)], strict=True):
        text = printable[begin:end].strip(f" {_NOISE}")
        if text:
            yield Line(_kind(text, spelling), text)


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


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A TaskGroup in which an error of the caller stays what it is.

    The group itself would wrap it in a group. Only a cancellation passes, which it must know of.
    """
    failed: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        try:
            yield tasks
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed


MASK = "***"

# AT+APPKEY=…, AT+KEY=APPKEY,"…" and +KEY: APPKEY … (LoRa-E5),
# AT+ADDMULC=class:address:key:key:… (multicast).
_NAMED = re.compile(r"(KEY\b[^A-Z0-9?]*|(?:ADDMULC|CRYPIV|PWORD)\W+)(?!\?)(?=.*\w).*", re.I)
_ABOUT_A_KEY = re.compile(r"AT\+(?:\w*KEY\b|ADDMULC|LSTMULC|CRYPIV|PWORD)", re.I)
_KEY_LONG = re.compile(r"(?:[0-9A-F]{2}[ :-]){15,}[0-9A-F]{2}|[0-9A-F]{32,}", re.I)
_REST_OF_A_LINE = re.compile(r"[0-9A-F]{8,}\"?|(?:[0-9A-F]{2}[ :-]){4,}[0-9A-F]{2}\"?", re.I)
_PAYLOAD = re.compile(
    r"(?:\+EVT:RX_[12BC]:-?\d+:-?\d+:(?:UNI|MULTI)CAST:\d+:|\+EVT:RXP2P:-?\d+:-?\d+:"
    r"|AT\+(?:SEND|RECV)=\d+:|AT\+LPSEND=\d+:[01]:|AT\+PSEND=)[0-9A-F]*"
    # LoRa-E5: messages, the raw packets of its test mode, and what it logs of the air.
    r"|AT\+C?MSG(?:HEX)?=\"?[0-9A-F ]*\"?|\+C?MSG(?:HEX)?: PORT: \d+; RX: \"[0-9A-F ]*\""
    r"|AT\+TEST=TXLRPKT,\"?[0-9A-F ]*\"?|\+TEST: (?:TXLRPKT|RX) \"[0-9A-F ]*\""
    r"|\+LOG: DEBUG [^,]*LORA [RT]X, [0-9A-F ]*",
    re.I,
)
_E5_ERROR = re.compile(r"\+KEY: ERROR\(-?\d+\)")


def masked(text: str) -> str:
    """The line with every key replaced; payloads stay."""
    if _PAYLOAD.fullmatch(text) or _E5_ERROR.fullmatch(text):
        return text
    if _REST_OF_A_LINE.fullmatch(text):  # its beginning, which would say what it is, is lost
        return MASK
    return _KEY_LONG.sub(MASK, _NAMED.sub(rf"\1{MASK}", text))


def is_about_a_key(command: str) -> bool:
    """Whether a command sets or asks for a key, so that no reply to it may be written down."""
    return _ABOUT_A_KEY.match(command) is not None


class Console:
    """The console of one device: every command and every line goes into the capture.

    Without a DevEUI it is the console of a radio that is no device of the network, a replayer.
    """

    def __init__(self, name: str, dev_eui: Eui | None, record: Record) -> None:
        self._name = name
        self._dev_eui = dev_eui
        self._record = record

    def command(self, text: str) -> None:
        """What was written to the device."""
        self._write("command", text)

    def line(self, text: str) -> None:
        self._write("line", text)

    def _write(self, verb: str, text: str) -> None:
        if self._dev_eui is None:
            self._record(f"replayer-{self._name}", f"replayer.{verb}", {"text": text})
            return
        fields: dict[str, object] = {"dev_eui": self._dev_eui, "text": text}
        self._record(f"device-{self._name}", f"device.{verb}", fields)


REPLIES_MAX = 100

Heard = Line | LineLost


class AtCommand:
    """What a device said since a command was written to it.

    `status` is the line that ends the reply, `ending` the line that ends what was begun, counted
    only from the status on, or with `early` from the command on; a device that starts anew is both,
    and so is a lost line. `replies` are the lines before the status, `told` those after it, the
    newest. `after`: the reply that must come before a status counts, where one of an earlier
    command may be under way.
    """

    def __init__(
        self,
        command: str,
        reply: Reply,
        endings: re.Pattern[str] | None = None,
        *,
        after: str = "",
        early: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.command = command
        self.replies: list[str] = []
        self.told: deque[str] = deque(maxlen=REPLIES_MAX)
        self.echoed = False
        self.status: asyncio.Future[Heard] = loop.create_future()
        self.ending: asyncio.Future[Heard] = loop.create_future()
        self._reply = reply
        self._endings = endings
        self._after = after.upper()
        self._early = early
        self._quiet: asyncio.TimerHandle | None = None

    def hear(self, line: Line) -> None:
        if line.kind is LineKind.BOOT:
            self.end(line)
        elif self.status.done():
            if line.kind is not LineKind.EVENT:
                self.told.append(line.text)
            self._hear_ending(line)
        elif line.kind is LineKind.EVENT:
            if self._early:
                self._hear_ending(line)
        else:
            self._hear_reply(line)

    def end(self, why: Heard) -> None:
        for future in (self.status, self.ending):
            if not future.done():
                future.set_result(why)

    def refuses(self, status: Line) -> bool:
        return self._reply.refused.fullmatch(status.text) is not None

    @property
    def is_under_way(self) -> bool:
        return self._endings is not None and self.status.done() and not self.ending.done()

    @property
    def answer(self) -> list[str]:
        status = self.status.result() if self.status.done() else None
        return [*self.replies, status.text] if isinstance(status, Line) else list(self.replies)

    def value(self, name: str) -> str | None:
        """The value in the reply `AT+NAME=value`, None without such a line."""
        head = f"{name}="
        return next((r[len(head) :] for r in self.replies if r.upper().startswith(head)), None)

    def _hear_ending(self, line: Line) -> None:
        if self._endings is not None and not self.ending.done():
            if self._endings.fullmatch(line.text):
                self.ending.set_result(line)

    def _hear_reply(self, line: Line) -> None:
        text = line.text
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None
        if text == self.command:
            self.echoed = True
            return
        if self._after and text.upper().startswith(self._after):
            self._after = ""
        reply = self._reply
        ends = reply.accepted.fullmatch(text) or reply.refused.fullmatch(text)
        if ends and not self._after:
            self.status.set_result(line)
            return
        if len(self.replies) < REPLIES_MAX and not ends:
            self.replies.append(text)
        if reply.perhaps.fullmatch(text):
            loop = asyncio.get_running_loop()
            self._quiet = loop.call_later(reply.quiet_us / 1_000_000, self._settle, line)

    def _settle(self, line: Line) -> None:
        if not self.status.done():
            self.replies.pop()
            self.status.set_result(line)


class Wire(Protocol):
    async def open(self) -> None:
        """Open it; an exception that says why not."""

    async def read(self) -> bytes:
        """At least one byte; LineLost."""

    def write(self, data: bytes) -> None:
        """Hand over bytes; LineLost."""

    async def close(self) -> None:
        """Close it; `read` ends with LineLost."""


class AtSession:
    """A device at a serial line, which is `opened` and listened to until the end.

    Remembers the commands under way, the last line, and whether a reply is still to come. `heard`
    is told every line, before those who wait for it, and `gone` that the line is lost.
    """

    def __init__(
        self,
        name: str,
        line: Wire,
        console: Console,
        *,
        grammar: Grammar,
        reply_us: int,
        heard: Callable[[Line], None] = lambda line: None,
        gone: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.commands: list[AtCommand] = []
        self._line = line
        self._console = console
        self._grammar = grammar
        self._reply_us = reply_us
        self._heard = heard
        self._gone = gone
        self._at = AtConsole(grammar.lines)
        self._one_command = asyncio.Lock()
        self._tasks: asyncio.TaskGroup | None = None
        self._listening: asyncio.Task[None] | None = None
        self._lost: LineLost | None = LineLost(f"{name}: its line was never opened")
        self._last_line = ""
        self._reply_owed = False

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Open the line, and listen until the end; PortUnavailable if that cannot be."""
        async with task_group() as self._tasks:
            try:
                await self.reconnect()
                yield self
            finally:
                await self._disconnect()

    async def reconnect(self) -> None:
        """Open the line, anew if it was open; PortUnavailable if that cannot be."""
        assert self._tasks is not None, "a device is used inside `opened`"
        await self._disconnect()
        await self._line.open()
        self._lost = None
        self._at.forget()
        self._listening = self._tasks.create_task(self._listen())

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the end of something that was begun."""
        return any(asked.is_under_way for asked in self.commands)

    @asynccontextmanager
    async def accepted(
        self,
        command: str,
        endings: re.Pattern[str] | None = None,
        within_us: int | None = None,
        *,
        early: bool = False,
    ) -> AsyncIterator[AtCommand]:
        """A command that the device accepted; it is listened to until the block ends.

        `early`: its ending counts even before it was accepted. ValueError for a command that the
        bench never writes.
        """
        if self._grammar.forbidden.fullmatch(command):
            raise ValueError(f"{self.name}: the bench never writes {command}")
        reply = self._grammar.reply_to(command)
        asked = AtCommand(command, reply, endings, early=early)
        within_us = self._reply_us if within_us is None else within_us
        try:
            async with self._one_command:
                if self._reply_owed:
                    await self._pick_up_the_thread()
                status = await self._status_of(asked, within_us)
            if asked.refuses(status):
                replies = [] if is_about_a_key(command) else asked.replies
                said = " ".join(masked(text) for text in (*replies, status.text))
                raise CommandRefused(f"{self.name}: {said} (to {masked(command)})")
            yield asked
        finally:
            if asked in self.commands:
                self.commands.remove(asked)

    async def is_there(self, within_us: int) -> bool:
        """Whether it answers to AT within a time; LineLost. What is asked next is not mistaken."""
        asked = AtCommand("AT", self._grammar.reply_to("AT"))
        async with self._one_command:
            owed = self._reply_owed
            try:
                await self._status_of(asked, within_us)
            except (DeviceSilent, DeviceRestarted):
                return False
            finally:
                self.commands.remove(asked)
            self._reply_owed = owed
            return True

    def restarted(self) -> None:
        """It has started anew and does not say so: end what is under way."""
        self._reply_owed = False
        for asked in self.commands:
            asked.end(Line(LineKind.BOOT, "it was restarted"))

    async def _pick_up_the_thread(self) -> None:
        question = self._grammar.question
        reply = self._grammar.reply_to(question)
        asked = AtCommand(question, reply, after=self._grammar.answer)
        try:
            await self._status_of(asked, self._reply_us)
        finally:
            self.commands.remove(asked)

    async def _status_of(self, asked: AtCommand, within_us: int) -> Line:
        self.commands.append(asked)
        if self._lost is not None:
            raise LineLost(str(self._lost))
        self._console.command(masked(asked.command))
        self._reply_owed = True
        try:
            self._line.write(command_bytes(asked.command))
        except LineLost as lost:
            self._lose(lost)
            raise
        status = await self.wait(asked, asked.status, within_us)
        self._reply_owed = False
        return status

    async def wait(self, asked: AtCommand, line: asyncio.Future[Heard], within_us: int) -> Line:
        """A line that a command waits for; DeviceSilent, DeviceRestarted, LineLost."""
        try:
            async with asyncio.timeout(within_us / 1_000_000):
                heard = await line
        except TimeoutError:
            command, last = masked(asked.command), self._last_line
            raise DeviceSilent(
                f"{self.name}: no answer to {command} within {within_us} us; last line {last!r}"
            ) from None
        if isinstance(heard, LineLost):
            raise LineLost(str(heard))
        if heard.kind is LineKind.BOOT:
            raise DeviceRestarted(f"{self.name}: {heard.text}")
        return heard

    async def _listen(self) -> None:
        try:
            while True:
                for line in self._at.receive_bytes(await self._line.read()):
                    self._hear(line)
        except LineLost as lost:
            self._lose(lost)
            await self._line.close()  # or it comes back under another name

    def _hear(self, line: Line) -> None:
        secret = line.kind is LineKind.REPLY and any(
            is_about_a_key(asked.command) for asked in self.commands
        )
        self._last_line = MASK if secret else masked(line.text)
        self._console.line(self._last_line)
        if line.kind is LineKind.BOOT:
            self._reply_owed = False
        self._heard(line)
        for asked in self.commands:
            asked.hear(line)

    def _lose(self, lost: LineLost) -> None:
        self._lost = lost
        self._reply_owed = False
        for asked in self.commands:
            asked.end(lost)
        self._gone()

    async def _disconnect(self) -> None:
        if self._listening is not None:
            await self._line.close()
            await self._listening
            self._listening = None
