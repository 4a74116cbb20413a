"""How does the bench speak with a RAK3172 or RAK4631 under RUI3 that is a LoRaWAN device?

Source: RAK-STM32-RUI 5.0.0 and the version differences of 3.x to 5.x. The same driver speaks to a
board at a USB port and to the virtual firmware behind a pty. It waits for lines, never for time.
"""

import contextlib
import re

from bench.capture import Record
from bench.device.at import Line, LineKind
from bench.device.attached import TROUBLES, insist_on_identity, restricted_us
from bench.device.console import Console
from bench.device.conversation import Wire
from bench.device.deadlines import Deadlines
from bench.device.mac_cycle import MacCycle
from bench.device.rui3_board import Rui3Board
from bench.device.rui3_settings import BANDS, power_dbm, settings_of, single_channel
from bench.device.seam import CommandRefused, DeviceRestarted, DeviceSilent, Ending, Outcome
from bench.device.traits import Radiation, Traits
from bench.device.wanted import Wanted
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import region

PORTS = range(1, 224)
PAYLOAD_BYTES = range(1, 251)
RETRIES = range(8)

_LORAWAN = "1"
_JOIN, _STOP_JOINING = "AT+JOIN=1:0:8:0", "AT+JOIN=0:0:8:0"
_JOINED = re.compile(r"\+EVT:(?:JOINED|JOIN_FAILED(?:_\w+)?)")
_TRANSMITS = re.compile(r"AT\+(?:SEND=|JOIN=1)")
_SENT = re.compile(r"\+EVT:TX_DONE")
_CONFIRMED = re.compile(r"\+EVT:SEND_CONFIRMED_(?:OK|FAILED(?:\((\d+)\))?)")
_DOWNLINK = re.compile(r"\+EVT:RX_[12BC]:.*")


class Rui3Device(Rui3Board):
    """A LoRaWAN device under RUI3; remembers what the bench has written into it.

    Also whether it may be sending by itself: the empty frame after a payload that was too long, or
    after a confirmed downlink.
    """

    def __init__(
        self,
        name: str,
        dev_eui: Eui,
        line: Wire,
        record: Record,
        *,
        deadlines: Deadlines | None = None,
    ) -> None:
        super().__init__(name, line, Console(name, dev_eui, record), deadlines=deadlines)
        self.dev_eui = dev_eui
        self._cycle = MacCycle()
        self._sends_unasked = False
        self._confirming: bool | None = None
        self._joins: bool | None = None
        self._retries: int | None = None
        self._wanted: Wanted | None = None

    @property
    def traits(self) -> Traits:
        """What its version can do and tell; known after `identify`."""
        assert self.version is not None, f"{self.name} has not been identified"
        return self.version.traits

    async def identify(self) -> str:
        """Ask who this is; UnknownFirmware, WrongDevice. Echo, where it is on, is switched off.

        A board that was left in its raw mode is taken out of it: there it does not tell its DevEUI.
        """
        await self.recognise()
        try:
            found = await self.ask("AT+DEVEUI")
        except CommandRefused as refused:
            if "AT_MODE_NO_SUPPORT" not in str(refused):
                raise
            await self.work_in_mode(_LORAWAN)
            found = await self.ask("AT+DEVEUI")
        insist_on_identity(self.name, self.dev_eui, found)
        self._joins = await self.ask("AT+NJM") == "1"
        self._confirming = await self.ask("AT+CFM") == "1"
        return self.firmware

    async def provision(self, wanted: Wanted) -> tuple[str, ...]:
        """Write what differs from what is wanted, and read it back: flash wears by writing.

        The names of the settings that were written; NotAsWritten if one reads otherwise after that.
        Where the mode or the session of ABP was written, the device restarts and counts anew.
        """
        if self.version is None:
            await self.recognise()
        settings = settings_of(wanted)
        names = ["NWM"] if await self.work_in_mode(_LORAWAN) else []
        first = await self.write_what_differs(settings)
        if any(setting.boots for setting in first):
            await self.reboot()
        # A new band and a restart reset some of what was written: twice is enough, or never.
        second = await self.write_what_differs(settings) if first else []
        await self.read_back(second)
        self._wanted, self._retries, self._confirming = wanted, 0, None
        self._joins = wanted.joins
        names += [setting.name.removeprefix("AT+") for setting in (*first, *second)]
        return tuple(dict.fromkeys(names))

    async def radiation(self) -> Radiation:
        """The region and the EIRP that its settings stand for; CommandRefused in another band."""
        band, index = await self.ask("AT+BAND"), await self.ask("AT+TXP")
        names = {number: name for name, number in BANDS.items()}
        if band not in names or not index.isdecimal():
            raise CommandRefused(f"{self.name}: AT+BAND={band}, AT+TXP={index} is no known region")
        return Radiation(names[band], power_dbm(region(names[band]), int(index)))

    async def set_retries(self, retries: int) -> None:
        """How often a confirmed message without acknowledgement is repeated, 0..7.

        Without effect from RUI 4.2 on: there the network server sets the number of transmissions.
        """
        if retries not in RETRIES:
            raise ValueError(f"{retries} retries: AT+RETY takes 0 to 7")
        if retries != self._retries:
            await self.write("AT+RETY", str(retries))
        self._retries = retries

    async def set_adr(self, adr: bool) -> None:
        """AT+ADR."""
        await self.write("AT+ADR", str(int(adr)))

    async def ask_time(self) -> None:
        """AT+TIMEREQ; `+EVT:TIMEREQ_OK` or `_FAILED` tells what became of it."""
        await self._run("AT+TIMEREQ=1")

    async def ask_link(self) -> None:
        """AT+LINKCHECK, once; `+EVT:LINKCHECK:0:margin:gateways:rssi:snr`, or `:1:0:0:0:0`."""
        await self._run("AT+LINKCHECK=1")

    async def send(
        self, payload: bytes, *, port: int = 2, confirmed: bool = False, transmissions: int = 1
    ) -> Ending:
        """Send one message, to the end of its MAC cycle; CommandRefused if the device will not.

        `transmissions`: how often the network server makes it repeat every frame (NbTrans); the
        deadline follows from it. DeviceSilent when no end is told.
        """
        if port not in PORTS or len(payload) not in PAYLOAD_BYTES:
            raise ValueError(f"port {port}, {len(payload)} bytes: 1 to 223 and 1 to 250 it must be")
        tries = max(transmissions, 1 + (self._retries or 0) if confirmed else 1)
        try:
            await self._insist_that_it_fits(payload)
            if confirmed is not self._confirming:
                await self.write("AT+CFM", str(int(confirmed)))
                self._confirming = confirmed
            end = await self._carry_out(
                f"AT+SEND={port}:{payload.hex().upper()}",
                _CONFIRMED if confirmed else _SENT,
                tries * self._deadlines.transmission_us,
            )
        except DeviceRestarted:
            return Ending(Outcome.RESTARTED)
        return _ending(end)

    async def join(self) -> bool:
        """Join once; whether the device has a session then. A device in ABP mode has one."""
        try:
            if self._joins is None:
                self._joins = await self.ask("AT+NJM") == "1"
            if not self._joins:  # it prints no event
                await self._run(_JOIN)
                self._cycle.end()
                return await self.ask("AT+NJS") == "1"
            end = await self._carry_out(_JOIN, _JOINED, self._deadlines.join_us)
        except DeviceRestarted:
            return False
        return end == "+EVT:JOINED"

    async def restart(self) -> None:
        """Reset the device (ATZ) and wait until it has started."""
        await self.reboot()
        await self._set_up_again()

    async def reset_counters(self) -> None:
        """Let an ABP device count anew: writing its address forgets the counters at the restart.

        ValueError for a device that joins: that would forget its DevNonce.
        """
        if await self.ask("AT+NJM") != "0":
            raise ValueError(f"{self.name}: a device that joins counts anew by joining")
        await self.write("AT+DEVADDR", await self.ask("AT+DEVADDR"))
        await self.restart()

    async def set_counters(self, up: int, down: int) -> None:
        """CommandRefused: RUI3 has no command for it."""
        raise CommandRefused(f"{self.name}: RUI3 cannot write frame counters ({up}, {down})")

    async def factory_reset(self) -> None:
        """Forget everything, keys, session and DevNonce included (ATR), and start."""
        await self.reboot("ATR")
        self._wanted = self._joins = self._retries = None

    async def silence(self) -> None:
        """Let it transmit nothing any more: no joining, no repetition; nothing of it is raised."""
        with contextlib.suppress(*TROUBLES):
            await self._run(_STOP_JOINING)
        if self._cycle.is_open:
            with contextlib.suppress(*TROUBLES):
                await self.reboot()

    def said(self, line: str) -> str | None:
        """The line as this version spells it; None for one that it does not print."""
        if self.version is None or self.version.tells_tx_done:
            return line
        return None if _SENT.fullmatch(line) else re.sub(r"(CONFIRMED_FAILED)\(\d+\)", r"\1", line)

    async def _set_up_again(self) -> None:
        """The one channel is forgotten by every start."""
        if self._wanted is not None and self._wanted.channel_hz:
            await self.write_what_differs([single_channel(self._wanted)])

    async def _insist_that_it_fits(self, payload: bytes) -> None:
        """CommandRefused for a payload too long for the data rate: it would send an empty frame."""
        if self._wanted is None:
            return
        rules = region(self._wanted.region)
        if len(payload) <= min(size for size in rules.max_payloads if size is not None):
            return
        dr = self._wanted.dr
        if self._wanted.adr and (found := await self.ask("AT+DR")).isdecimal():
            dr = int(found)
        longest = rules.max_payload(dr, repeater=False)
        if len(payload) > longest:
            raise CommandRefused(
                f"{self.name}: {len(payload)} bytes at DR{dr}, which takes {longest}; not tried"
            )

    async def _carry_out(self, command: str, endings: re.Pattern[str], within_us: int) -> str:
        """The event that ends a command; empty for a firmware that does not tell of it."""

        def is_still_busy(refused: CommandRefused) -> bool:
            said = str(refused)
            # A payload too long is refused, and an empty frame is sent all the same.
            if endings is not _JOINED and "AT_PARAM_ERROR" in said:
                self._sends_unasked = True
            unheard = self._cycle.is_open and not self._conversation.is_awaited
            waits = self._sends_unasked or unheard
            return waits and "AT_BUSY_ERROR" in said and restricted_us(said) is None

        async def carry_out() -> str:
            return await self._cycle.past(
                lambda: self._end_of(command, endings, within_us),
                is_still_busy,
                self._deadlines.transmission_us,
            )

        return await self._when_permitted(carry_out)

    async def _end_of(self, command: str, endings: re.Pattern[str], within_us: int) -> str:
        async with self._conversation.accepted(command, endings) as exchange:
            try:
                return (await self._conversation.wait(exchange, exchange.ending, within_us)).text
            except DeviceSilent:
                tells = self.version is None or self.version.tells_tx_done
                if tells or endings is not _SENT:
                    raise
                self._cycle.end()
                return ""

    def _hear(self, line: Line) -> None:
        super()._hear(line)
        if line.kind is LineKind.BOOT:
            self._confirming = None
            self._sends_unasked = False
        elif _DOWNLINK.fullmatch(line.text):
            self._sends_unasked = True
        elif line.text == "OK" and self._is_asked_to_send():
            self._cycle.begin()
            self._sends_unasked = False
        if line.kind is LineKind.BOOT or _ends_a_cycle(line.text):
            self._cycle.end()

    def _is_asked_to_send(self) -> bool:
        under_way = self._conversation.exchanges
        return any(_TRANSMITS.match(e.command) and not e.status.done() for e in under_way)


def _ends_a_cycle(line: str) -> bool:
    return any(ending.fullmatch(line) for ending in (_SENT, _CONFIRMED, _JOINED))


def _ending(line: str) -> Ending:
    """What an event says of the message that it ends."""
    if not line:
        return Ending(Outcome.UNTOLD)
    if line == "+EVT:TX_DONE":
        return Ending(Outcome.SENT, line)
    if line == "+EVT:SEND_CONFIRMED_OK":
        return Ending(Outcome.ACKNOWLEDGED, line)
    found = _CONFIRMED.fullmatch(line)
    number = found[1] if found else None
    return Ending(Outcome.FAILED, line, None if number is None else int(number))
