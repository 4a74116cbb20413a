"""What is the same for every use of a LoRa-E5: the lines of its replies, its version, its restarts?

Source: serial logs of modules with AT firmware 4.0.11, Seeed's AT command specification 1.0, and
for the Seeeduino LoRaWAN (RHF76-052) the end-to-end tests of the Azure IoT Edge starter kit.
Replies name their command: `+CMD: text`. A query (`AT+CMD?`) and a change have the same last line.
"""

import contextlib
import re
from dataclasses import dataclass

from bench.device.at_session import NOTHING, Console, Grammar, LineSpelling, Reply, Wire
from bench.device.attached import AttachedBoard
from bench.device.interfaces import (
    Deadlines,
    DeviceRestarted,
    NotAsWritten,
    UnknownFirmware,
)
from lns.lorawan.region import Channel

_COMMAND = re.compile(r"AT(?:\+(\w+))?(?:=?\?|=(.*))?", re.I)
_ERROR = r"\+\w+: ERROR\(.*\)|\+INFO: Input timeout"
_WORD = re.compile(r"[A-Z]\w*", re.I)

# What comes after Start, so that what is left of an earlier message is no refusal of this one.
_AMID_A_MESSAGE = "FPENDING|PORT: |RXWIN|LINK|Wait ACK|ACK Received|MULTICAST|Done"
_AMID_A_JOIN = "NORMAL|FORCE|Network joined|NetID|Join failed|Done"
_MESSAGES = ("MSG", "MSGHEX", "CMSG", "CMSGHEX", "PMSG", "PMSGHEX")

E5_LINES = LineSpelling(
    interjection=re.compile(r"\+LOG: "),
    event=re.compile(r"\+LOG: |\+LOWPOWER: "),
    boot=re.compile(r"\+RESET: OK"),
    status=NOTHING,
)


def reply_to(command: str) -> Reply:
    found = _COMMAND.fullmatch(command)
    name = (found[1] or "AT").upper() if found else "AT"
    value = (found[2] or "").strip() if found else ""
    if name in _MESSAGES:
        return _begins(name, "Start", _AMID_A_MESSAGE)
    if name == "JOIN":
        return _begins(name, "Start.*", _AMID_A_JOIN)
    if name == "DR" and not _is_plan(value):  # its last line names the modulation, if it comes
        return _ends(r"\+DR: .*SF.*", perhaps=r"\+DR: .*")
    if name in ("AT", "RESET", "FDEFAULT"):
        return _ends(rf"\+{name}: OK")
    if name == "ID" and not value:
        return _ends(r"\+ID: AppEui\b.*")
    subject = _WORD.match(value)
    if subject and name in ("ID", "KEY", "LW", "TEST", "CH", "DELAY"):
        return _ends(rf"\+{name}: (?i:{subject[0]})\b.*")
    return _ends(rf"\+{name}: (?!ERROR).*")


def _is_plan(value: str) -> bool:
    """Whether AT+DR sets a channel plan, such as EU868, and not DR5 or 5."""
    return re.fullmatch(r"(?!DR\d)[A-Z].*", value, re.I) is not None


def _begins(name: str, start: str, amid: str) -> Reply:
    refused = rf"\+{name}: (?!{start}|{amid}).*|{_ERROR}"
    return Reply(accepted=re.compile(rf"\+{name}: {start}"), refused=re.compile(refused))


def _ends(last: str, *, perhaps: str | None = None) -> Reply:
    return Reply(
        accepted=re.compile(last),
        refused=re.compile(_ERROR),
        perhaps=NOTHING if perhaps is None else re.compile(rf"(?!{_ERROR}){perhaps}"),
    )


# Continuous carriers, a sleep that only a character ends, another baud rate.
E5 = Grammar(
    lines=E5_LINES,
    reply_to=reply_to,
    question="AT+VER",
    answer="+VER:",
    forbidden=re.compile(r"AT\+TEST=TX(?:CW|CLORA)\b.*|AT\+LOWPOWER\b.*|AT\+UART=BR.*", re.I),
)


RESET = "AT+RESET"
_DATA_RATE = re.compile(r"(\w+) DR(\d+)\b.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """How the boards with this dialect differ.

    `quote` stands around keys and identifiers; `counts_channels`: `AT+CH=NUM,0-2` chooses the
    channels, otherwise each is written by its frequency.
    """

    quote: str
    dr_prefix: str
    counts_channels: bool
    factory_reset: str

    def quoted(self, text: str) -> str:
        return f"{self.quote}{text}{self.quote}"

    def channel_values(self, all_channels: tuple[Channel, ...], first: int, last: int) -> list[str]:
        """The values of AT+CH that make it use the channels `first` to `last` of a region."""
        if self.counts_channels:
            return [f"NUM,{first}-{last}" if first < last else f"NUM,{first}"]
        return [f"{n},{mhz(all_channels[n].freq_hz)}" for n in range(first, last + 1)]


LORA_E5 = Lineage(quote='"', dr_prefix="", counts_channels=True, factory_reset="AT+FDEFAULT")
SEEEDUINO = Lineage(
    quote="", dr_prefix="DR", counts_channels=False, factory_reset="AT+FDEFAULT=RISINGHF"
)


class LoraE5Board(AttachedBoard):
    """A board with a LoRa-E5; it does not say that it has started, so it is asked until it does."""

    def __init__(
        self,
        name: str,
        line: Wire,
        console: Console,
        *,
        deadlines: Deadlines | None = None,
        lineage: Lineage = LORA_E5,
    ) -> None:
        super().__init__(name, line, console, E5, deadlines)
        self.lineage = lineage

    async def answer_to(self, command: str) -> list[str]:
        """The lines of its answer; CommandRefused, DeviceSilent, DeviceRestarted."""
        return (await self._run(command)).answer

    async def ask(self, command: str) -> str:
        """The last line of its answer to a query such as `AT+MODE?`, without the command's name."""
        return (await self.answer_to(command))[-1].partition(": ")[2].strip()

    async def change(self, name: str, value: str) -> bool:
        """Give a setting such as `AT+MODE` a value if it has another; whether it had.

        NotAsWritten when the answer to the change names another value.
        """
        if value_of(await self.ask(f"{name}?")) == value:
            return False
        answer = value_of(await self.ask(f"{name}={value}"))
        if answer != value:
            raise NotAsWritten(f"{self.name}: {name}={value} was written, {answer!r} the answer")
        return True

    async def recognise(self) -> str:
        """Ask for its version; UnknownFirmware for an answer that has no number."""
        await self._run("AT")
        version = await self.ask("AT+VER")
        if not version[:1].isdigit():
            raise UnknownFirmware(f"{version!r} is no version of a LoRa-E5")
        self.firmware = version
        return version

    async def identifiers(self) -> dict[str, str]:
        """DevAddr, DevEui and AppEui, in digits alone."""
        found = {}
        for line in await self.answer_to("AT+ID"):
            name, _, digits = line.removeprefix("+ID: ").partition(", ")
            found[name] = digits.replace(":", "").replace(" ", "").upper()
        return found

    async def reboot(self) -> None:
        with contextlib.suppress(DeviceRestarted):
            await self._run(RESET)
        await self.returned(self._deadlines.boot_us)

    async def factory_reset(self) -> None:
        await self._run(self.lineage.factory_reset)

    @property
    def _tells_boot(self) -> bool:
        return False


def value_of(answer: str) -> str:
    """The first word of an answer: `14` of `14` and of `14, 2`."""
    return answer.replace(",", " ").split()[0].upper() if answer.strip(" ,") else ""


def parse_data_rate(answer: str) -> tuple[str, int]:
    """Channel plan and index of the data rate in `EU868 DR5  SF7  BW125K`; UnknownFirmware."""
    found = _DATA_RATE.fullmatch(answer)
    if found is None:
        raise UnknownFirmware(f"{answer!r} is no answer of a LoRa-E5 to AT+DR")
    return found[1], int(found[2])


def mhz(freq_hz: int) -> str:
    """A frequency in megahertz with the digits that it needs: 868.1, 869.525."""
    whole, rest = divmod(freq_hz, 1_000_000)
    digits = f"{rest:06d}".rstrip("0")
    return f"{whole}.{digits or '0'}"
