"""What is the same for every use of a LoRa-E5: its settings, its version, its restarts?

Source: serial logs of modules with AT firmware 4.0.11, Seeed's AT command specification 1.0, and
for the Seeeduino LoRaWAN (RHF76-052) the end-to-end tests of the Azure IoT Edge starter kit.
"""

import contextlib
import re
from dataclasses import dataclass

from bench.device.attached import AttachedBoard
from bench.device.console import Console
from bench.device.conversation import Wire
from bench.device.deadlines import Deadlines
from bench.device.lora_e5_grammar import E5
from bench.device.seam import DeviceRestarted, NotAsWritten, UnknownFirmware
from lns.lorawan.region import Channel

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
        """An identifier or a key as this board takes it."""
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
        """Reset it, and ask until it answers again."""
        with contextlib.suppress(DeviceRestarted):
            await self._run(RESET)
        await self.returned(self._deadlines.boot_us)

    async def factory_reset(self) -> None:
        """Forget everything, keys and session included."""
        await self._run(self.lineage.factory_reset)

    @property
    def _tells_boot(self) -> bool:
        return False

    def _restarts(self, command: str) -> bool:
        return command == RESET


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
