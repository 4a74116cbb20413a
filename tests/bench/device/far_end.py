"""The far end of a serial line: it answers as a test or a transcript tells it to.

Nothing of the drivers is used here: the spelling of each dialect stands in the tests literally.
"""

import asyncio
import os
import tty
from collections.abc import Callable
from pathlib import Path

from bench.chance import stream
from tests.bench.device.wired import MemoryLine

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "vectors" / "at_transcripts"
WHOLE = 1 << 16


class FarEnd:
    """Answers every line with what `answer` gives, cut into pieces of at most `piece` bytes.

    Remembers what was written to it, and what the driver captured. The line is in memory; with
    `link` it is a real pty, and `port` a name for it that stays the same over `unplug` and `plug`.
    """

    def __init__(
        self,
        answer: Callable[[str], bytes],
        link: Path | None = None,
        *,
        piece: int = WHOLE,
        seed: int = 0,
    ) -> None:
        self.commands: list[str] = []
        self.captured: list[tuple[str, str]] = []
        self.events: list[dict[str, object]] = []
        self.port = "" if link is None else str(link)
        self.line = MemoryLine(self._receive)
        self._answer = answer
        self._link = link
        self._piece = piece
        self._chance = stream(seed, "pieces")
        self._rest = b""
        self._asked: dict[str, asyncio.Event] = {}
        self._heard: dict[str, asyncio.Event] = {}
        self.master = -1
        self.slave = -1
        self.plug()

    async def __aenter__(self) -> "FarEnd":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.unplug()

    def plug(self) -> None:
        self.line.plug()
        if self._link is None:
            return
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self._link.unlink(missing_ok=True)
        self._link.symlink_to(os.ttyname(self.slave))
        asyncio.get_running_loop().add_reader(self.master, self._readable)

    def unplug(self) -> None:
        self.line.unplug()
        self._rest = b""
        if self._link is not None and self.master >= 0:
            asyncio.get_running_loop().remove_reader(self.master)
            os.close(self.master)
            os.close(self.slave)
            self.master = -1
            self._link.unlink(missing_ok=True)

    def say(self, data: bytes) -> None:
        while data and (self._link is None or self.master >= 0):
            size = self._chance.randint(1, self._piece)
            if self._link is None:
                self.line.say(data[:size])
            else:
                os.write(self.master, data[:size])
            data = data[size:]

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        self.events.append({"source": source, "kind": kind, **fields})
        text = str(fields.get("text", ""))
        self.captured.append((kind, text))
        self._heard.setdefault(text, asyncio.Event()).set()

    async def asked(self, command: str) -> None:
        """Wait until this command has come (again)."""
        await self._asked.setdefault(command, asyncio.Event()).wait()
        self._asked[command].clear()

    async def heard(self, line: str) -> None:
        """Wait until the driver has captured this line."""
        await self._heard.setdefault(line, asyncio.Event()).wait()
        await asyncio.sleep(0)  # who waited for the line goes first

    def _readable(self) -> None:
        self._receive(os.read(self.master, 4096))

    def _receive(self, data: bytes) -> None:
        self._rest += data
        while b"\r\n" in self._rest:
            raw, _, self._rest = self._rest.partition(b"\r\n")
            command = raw.decode()
            if command:
                self.commands.append(command)
                self.say(self._answer(command))
                self._asked.setdefault(command, asyncio.Event()).set()


class Transcript:
    """Answers as a recorded or documented dialogue has it: in its order for one command.

    The last answer to a command is given again and again. What is not in the transcript is answered
    from `beside`, and otherwise noted in `strange`.
    """

    def __init__(self, name: str, beside: dict[str, list[str]] | None = None) -> None:
        self.strange: list[str] = []
        self.answers: dict[str, list[str]] = {}
        command = ""
        for line in (TRANSCRIPTS / f"{name}.txt").read_text("utf-8").splitlines():
            match line[:2]:
                case "> ":
                    command = line[2:]
                    self.answers.setdefault(command, []).append("")
                case "< ":
                    self.answers[command][-1] += f"{line[2:]}\r\n"
                case _:
                    assert line.startswith(("#", "~")), line
        for command, lines in (beside or {}).items():
            self.answers.setdefault(command, ["".join(f"{line}\r\n" for line in lines)])

    def __call__(self, command: str) -> bytes:
        answers = self.answers.get(command)
        if answers is None:
            self.strange.append(command)
            return b""
        return (answers.pop(0) if len(answers) > 1 else answers[0]).encode()


class Rui3Settings:
    """The settings of a board under RUI3: `AT+X=?` reads, `AT+X=v` writes, ATZ starts it anew.

    Remembers in `written` what was written. `forgotten`: what a start sets back; `stubborn`: what
    keeps its value whatever is written.
    """

    def __init__(self, **values: str) -> None:
        self.values = {
            "VER": "RUI_4.1.0_RAK3172-H", "NWM": "1", "BAND": "4", "NJM": "1",
            "DEVEUI": "70B3D57ED0000001", "APPEUI": "0" * 16, "APPKEY": "0" * 32,
            "DEVADDR": "0" * 8, "NWKSKEY": "0" * 32, "APPSKEY": "0" * 32, "CLASS": "A",
            "ADR": "1", "DR": "0", "TXP": "0", "DCS": "1", "JOIN": "1:1:8:3", "RETY": "0",
            "CFM": "0", "PNM": "1", "LPM": "0", "LINKCHECK": "0", "CHS": "0", "MASK": "0000",
            **values,
        }  # fmt: skip
        self.written: list[str] = []
        self.starts = 0
        self.forgotten: dict[str, str] = {}
        self.stubborn: tuple[str, ...] = ()
        self.replies: dict[str, bytes] = {}

    def __call__(self, command: str) -> bytes:
        if command in self.replies:
            return self.replies[command]
        if command == "AT":
            return b"OK\r\n"
        if command == "ATZ" or (command.startswith("AT+NWM=") and command[-1] != "?"):
            return self._start(command)
        name, _, value = command.removeprefix("AT+").partition("=")
        if name not in self.values:
            return b"AT_COMMAND_NOT_FOUND\r\n"
        if value == "?":
            return f"AT+{name}={self.values[name]}\r\nOK\r\n".encode()
        self.written.append(f"{name}={value}")
        if name not in self.stubborn:
            self.values[name] = value
        if name == "BAND":
            self.values |= {"DR": "0", "TXP": "0", "MASK": "0000", "CHS": "0"}
        return b"OK\r\n"

    def _start(self, command: str) -> bytes:
        self.starts += 1
        self.values |= self.forgotten
        said = b""
        if command != "ATZ":
            self.values["NWM"] = command[-1]
            said = b"OK"  # without a line end
        mode = "LoRaWAN." if self.values["NWM"] == "1" else "LoRa P2P."
        return said + f"\r\nCurrent Work Mode: {mode}\r\n".encode()
