"""How does the bench speak with a LoRa-E5, or a Seeeduino LoRaWAN, that is a LoRaWAN device?

Source: as `lora_e5_board`. A confirmed message was acknowledged if `ACK Received` stands between
its Start and its Done: the order of the lines between them is not sure, and no line says no.
"""

import contextlib
import re

from bench.capture import Record
from bench.device.at import Line, LineKind
from bench.device.attached import TROUBLES, insist_on_identity
from bench.device.console import Console
from bench.device.conversation import Wire
from bench.device.deadlines import Deadlines
from bench.device.lora_e5_board import LORA_E5, Lineage, LoraE5Board, parse_data_rate
from bench.device.lora_e5_settings import LoraE5Settings
from bench.device.mac_cycle import MacCycle
from bench.device.seam import CommandRefused, DeviceRestarted, Ending, NotAsWritten, Outcome
from bench.device.traits import Radiation, Traits
from bench.device.wanted import Wanted
from lns.lorawan.identifiers import Eui

PORTS = range(1, 224)
RETRIES = range(8)

LORA_E5_TRAITS = Traits(
    obeys_retries=True,
    sets_counters=True,
    tells_windows=False,
    counts_dev_nonces=False,
    first_f_cnt=0,
)
_DONE = re.compile(r"\+\w+: Done")
_POWER = re.compile(r"-?\d+")
_COUNTERS = re.compile(r"ULDL, (\d+), (\d+)")
_DATA_RATE = re.compile(r"(\w+) DR(\d+)\b.*")
_WORDS = {
    "+EVT:JOINED": "+JOIN: Network joined",
    "+EVT:JOIN_FAILED_RX_TIMEOUT": "+JOIN: Join failed",
    "+EVT:TX_DONE": "+MSGHEX: Done",
    "+EVT:SEND_CONFIRMED_OK": "+CMSGHEX: ACK Received",
}


class LoraE5Device(LoraE5Board):
    """A LoRaWAN device with a LoRa-E5.

    Remembers its port, whether it has joined and how often it transmits a confirmed message. It
    does not say when it has started anew by itself: that it has lost its session gives it away.
    """

    def __init__(
        self,
        name: str,
        dev_eui: Eui,
        line: Wire,
        record: Record,
        *,
        deadlines: Deadlines | None = None,
        lineage: Lineage = LORA_E5,
    ) -> None:
        console = Console(name, dev_eui, record)
        super().__init__(name, line, console, deadlines=deadlines, lineage=lineage)
        self.dev_eui = dev_eui
        self._settings = LoraE5Settings(self)
        self._port: int | None = None
        self._cycle = MacCycle()
        self._joined = False
        self._tries: int | None = None

    @property
    def traits(self) -> Traits:
        """What it can do and tell."""
        return LORA_E5_TRAITS

    async def identify(self) -> str:
        """Ask who this is; UnknownFirmware, WrongDevice.

        A board that was left in its test mode is taken out of it: there it has no identifiers.
        """
        await self.recognise()
        if await self.ask("AT+MODE?") == "TEST":
            await self.change("AT+MODE", "LWABP")
        found = await self.identifiers()
        insist_on_identity(self.name, self.dev_eui, found.get("DevEui", ""))
        return self.firmware

    async def provision(self, wanted: Wanted) -> tuple[str, ...]:
        """Write what differs from what is wanted; keys and channels, which it does not tell, once.

        The names of the settings that were written; NotAsWritten if an answer names another value.
        """
        if not self.firmware:
            await self.recognise()
        written = await self._settings.write(wanted)
        self._tries = 1
        return written

    async def radiation(self) -> Radiation:
        """The channel plan and the power that it names; CommandRefused where it names none."""
        plan, _ = parse_data_rate(await self.ask("AT+DR?"))
        power = await self.ask("AT+POWER?")
        found = _POWER.match(power)
        if found is None:
            raise CommandRefused(f"{self.name}: {power!r} is no power")
        return Radiation(plan, int(found[0]))

    async def set_adr(self, adr: bool) -> None:
        """AT+ADR."""
        await self.change("AT+ADR", "ON" if adr else "OFF")

    async def ask_time(self) -> None:
        """CommandRefused: no command for it is known."""
        raise CommandRefused(f"{self.name}: nobody knows how to let it ask for the time")

    async def ask_link(self) -> None:
        """CommandRefused: no command for it is known."""
        raise CommandRefused(f"{self.name}: nobody knows how to let it check its link")

    async def set_retries(self, retries: int) -> None:
        """How often a confirmed message without acknowledgement is repeated, 0..7."""
        if retries not in RETRIES:
            raise ValueError(f"{retries} retries: 0 to 7 it must be")
        if 1 + retries != self._tries:  # AT+RETRY counts the first transmission too
            await self.change("AT+RETRY", str(1 + retries))
        self._tries = 1 + retries

    async def send(
        self, payload: bytes, *, port: int = 2, confirmed: bool = False, transmissions: int = 1
    ) -> Ending:
        """Send one message, to the end of its MAC cycle; CommandRefused if the device will not.

        `transmissions`: how often the network server makes it repeat every frame (NbTrans); the
        deadline follows from it.
        """
        if port not in PORTS or not payload:
            raise ValueError(f"port {port}, {len(payload)} bytes: 1 to 223 and 1 or more")
        tries = max(transmissions, (self._tries or 1) if confirmed else 1)
        name = "CMSGHEX" if confirmed else "MSGHEX"
        command = f'AT+{name}="{payload.hex().upper()}"'
        try:
            if port != self._port:
                await self.change("AT+PORT", str(port))
                self._port = port
            told = await self._message(command, tries * self._deadlines.transmission_us)
        except CommandRefused as refused:
            if self._joined and "join network first" in str(refused):
                self._joined = False
                self.restarts_unasked += 1
            raise
        except DeviceRestarted:
            return Ending(Outcome.RESTARTED)
        if not confirmed:
            return Ending(Outcome.SENT, f"+{name}: Done")
        if any("ACK Received" in line for line in told):
            return Ending(Outcome.ACKNOWLEDGED, f"+{name}: ACK Received")
        return Ending(Outcome.FAILED, f"+{name}: Done")

    async def join(self) -> bool:
        """Join once; whether it has joined then. A device in ABP mode has a session."""
        try:
            if await self.ask("AT+MODE?") == "LWABP":
                return True
            try:
                told = await self._message("AT+JOIN", self._deadlines.join_us)
            except CommandRefused as refused:
                if "Joined already" not in str(refused):
                    raise
                told = await self._message("AT+JOIN=FORCE", self._deadlines.join_us)
        except DeviceRestarted:
            return False
        self._joined = any("Network joined" in line for line in told)
        return self._joined

    async def restart(self) -> None:
        """Reset the device and wait until it answers; a session got by joining is lost."""
        await self.reboot()
        await self._set_up_again()

    async def reset_counters(self) -> None:
        """Let an ABP device count anew; ValueError for a device that joins."""
        if await self.ask("AT+MODE?") != "LWABP":
            raise ValueError(f"{self.name}: a device that joins counts anew by joining")
        await self.set_counters(0, 0)

    async def set_counters(self, up: int, down: int) -> None:
        """Write both frame counters, and read them back; NotAsWritten."""
        await self._run(f"AT+LW=ULDL,{up},{down}")
        found = await self.counters()
        if found != (up, down):
            raise NotAsWritten(f"{self.name}: its counters read {found}, not {(up, down)}")

    async def counters(self) -> tuple[int, int]:
        """Its frame counters, up and down."""
        answer = await self.ask("AT+LW=ULDL")
        found = _COUNTERS.fullmatch(answer)
        if found is None:
            raise CommandRefused(f"{self.name}: {answer!r} are no counters")
        return int(found[1]), int(found[2])

    async def factory_reset(self) -> None:
        """Forget everything, keys and session included."""
        await super().factory_reset()
        self._settings.forget()
        self._joined, self._tries, self._port = False, None, None

    async def silence(self) -> None:
        """Let it transmit nothing any more; nothing of it is raised."""
        if self._cycle.is_open:
            with contextlib.suppress(*TROUBLES):
                await self.reboot()

    def said(self, line: str) -> str | None:
        """What it says where RUI3 says `line`; no line of its own says that no ack came."""
        return _WORDS.get(line)

    async def _set_up_again(self) -> None:
        self._port, self._joined = None, False
        await self._settings.restarted()

    async def _message(self, command: str, within_us: int) -> list[str]:
        """What it tells between Start and Done; CommandRefused if there is no Start."""

        async def carry_out() -> list[str]:
            return await self._cycle.past(
                lambda: self._told(command, within_us),
                self._is_still_busy,
                self._deadlines.transmission_us,
            )

        return await self._when_permitted(carry_out)

    def _is_still_busy(self, refused: CommandRefused) -> bool:
        """Whether this is for a message whose Done was not heard, as over a line that was lost."""
        unheard = self._cycle.is_open and not self._conversation.is_awaited
        return unheard and "modem is busy" in str(refused)

    async def _told(self, command: str, within_us: int) -> list[str]:
        name = command.removeprefix("AT+").partition("=")[0]
        done = re.compile(rf"\+{name}: Done")
        async with self._conversation.accepted(command, done) as exchange:
            if not exchange.ending.done():
                self._cycle.begin()
            await self._conversation.wait(exchange, exchange.ending, within_us)
            return list(exchange.told)

    def _hear(self, line: Line) -> None:
        super()._hear(line)
        if line.kind is LineKind.BOOT or _DONE.fullmatch(line.text):
            self._cycle.end()
