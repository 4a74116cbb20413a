"""How does the bench speak with a RAK3172 or RAK4631 under RUI3 that is a LoRaWAN device?

Source: RAK-STM32-RUI 5.0.0 and the version differences of 3.x to 5.x. The same driver speaks to a
board at a USB port and to the virtual one behind a pty. It waits for lines, never for time.
"""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.capture import Record
from bench.device.at_session import RUI3, Line, LineKind, Wire, is_about_a_key
from bench.device.attached import TROUBLES, AttachedBoard, insist_on_identity, restricted_us
from bench.device.interfaces import (
    Abp,
    Change,
    CommandRefused,
    Deadlines,
    DeviceConfig,
    DeviceRestarted,
    DeviceSilent,
    Ending,
    NotAsWritten,
    Otaa,
    Outcome,
    Radiation,
    Traits,
    UnknownFirmware,
    channels,
)
from bench.device.serial_line import LineLost
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import REGIONS, Region, region

_VERSION = re.compile(r"RUI_(\d+)\.(\d+)\.(\d+)(.*)")
_WITHOUT_TX_DONE = ((4, 0, 0), (4, 0, 1), (4, 0, 3))


@dataclass(frozen=True, slots=True)
class Rui3Version:
    """A version as `AT+VER=?` tells it, `text` in full."""

    text: str
    number: tuple[int, int, int]

    @property
    def tells_tx_done(self) -> bool:
        """Whether `+EVT:TX_DONE` ends an unconfirmed message; not in 3.x, 4.0.0, 4.0.1, 4.0.3."""
        return self.number >= (4, 0, 0) and self.number not in _WITHOUT_TX_DONE

    @property
    def obeys_retries(self) -> bool:
        """Whether `AT+RETY` reaches the MAC; from 4.2 on only LinkADRReq makes it repeat."""
        return self.number < (4, 2, 0)

    @property
    def counts_dev_nonces(self) -> bool:
        """Whether DevNonces count up (from 4.2, LoRaMac-node 4.7) instead of being drawn."""
        return self.number >= (4, 2, 0)

    @property
    def traits(self) -> Traits:
        return Traits(
            obeys_retries=self.obeys_retries,
            sets_counters=False,
            tells_windows=True,
            counts_dev_nonces=self.counts_dev_nonces,
            first_f_cnt=1,
        )


def rui3_version(text: str) -> Rui3Version:
    """The version in an answer such as `RUI_4.1.0_RAK3172-H`; UnknownFirmware in any other."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise UnknownFirmware(f"{text!r} is no version of RUI3")
    major, minor, patch = (int(digits) for digits in found.groups()[:3])
    return Rui3Version(text.strip(), (major, minor, patch))


RESET = "ATZ"
_ASKS = 2  # a question is asked again when noise has made the answer unreadable


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting and the value it must have.

    `boots`: a change is complete after a restart only. `optional`: some firmware knows no such
    setting, and then behaves as if it had this value.
    """

    name: str
    value: str = field(repr=False)
    boots: bool = False
    optional: bool = False

    def is_met_by(self, found: str) -> bool:
        if self.name == "AT+JOIN":  # its first field is an action
            return found.partition(":")[2] == self.value.partition(":")[2]
        return found.upper() == self.value.upper()


class Rui3Board(AttachedBoard):
    """A board under RUI3; remembers its version once it has told it."""

    grammar = RUI3
    version: Rui3Version | None = None

    async def ask(self, name: str) -> str:
        """The value of a setting such as `AT+DR`; CommandRefused, DeviceSilent, DeviceRestarted."""
        for _ in range(_ASKS):
            value = (await self._run(f"{name}=?")).value(name)
            if value is not None:
                return value
        raise DeviceSilent(f"{self.name}: no value in its answers to {name}=?")

    async def ask_if_known(self, name: str) -> str | None:
        """The value of a setting; None where this firmware has no such setting."""
        try:
            return await self.ask(name)
        except CommandRefused as refused:
            if re.search("AT_COMMAND_NOT_FOUND|Command not found!!", str(refused)):
                return None
            raise

    async def write(self, name: str, value: str) -> None:
        """Change a setting such as `AT+DR`; CommandRefused, DeviceSilent, DeviceRestarted."""
        await self._run(f"{name}={value}")

    async def write_what_differs(self, settings: Iterable[Setting]) -> list[Setting]:
        """Read each, and write only what has another value: flash wears by writing."""
        written = []
        for setting in settings:
            if await self._otherwise(setting) is not None:
                await self.write(setting.name, setting.value)
                written.append(setting)
        return written

    async def read_back(self, settings: Iterable[Setting]) -> None:
        """NotAsWritten for the first that has another value."""
        for setting in settings:
            found = await self._otherwise(setting)
            if found is not None:
                difference = f"reads {found}, not {setting.value}"
                if is_about_a_key(setting.name):
                    difference = "reads otherwise than it was written"
                raise NotAsWritten(f"{self.name}: {setting.name} {difference}")

    async def recognise(self) -> Rui3Version:
        """Ask for its version; UnknownFirmware. Echo, where it is on, is switched off."""
        if (await self._run("AT")).echoed:
            await self._run("ATE")
        self.version = rui3_version(await self.ask("AT+VER"))
        self.firmware = self.version.text
        return self.version

    async def work_in_mode(self, mode: str) -> bool:
        """Let it work in a mode, "1" LoRaWAN or "0" LoRa P2P; whether it had to change.

        Not asked for without need: it starts anew even when it has this mode.
        """
        if await self.ask("AT+NWM") == mode:
            return False
        await self.reboot(f"AT+NWM={mode}")
        return True

    async def reboot(self, command: str = RESET) -> None:
        """Let it start anew by a command, and wait until it has started.

        It says so without an OK before, or after one without a line end; a board with USB of its
        own goes away meanwhile. CommandRefused when its MAC is busy.
        """
        boot_us = self._deadlines.boot_us
        was_lost = self._session.is_lost
        try:
            async with self._session.accepted(command, within_us=boot_us) as asked:
                await self._session.wait(asked, asked.ending, boot_us)
        except DeviceRestarted:
            return
        except LineLost:
            if was_lost:
                raise
            with self._boot_expected():
                await self.returned(boot_us)

    async def _otherwise(self, setting: Setting) -> str | None:
        ask = self.ask_if_known if setting.optional else self.ask
        found = await ask(setting.name)
        return None if found is None or setting.is_met_by(found) else found


_TXP_STEP_DB = 2
_AUTO_JOIN_OFF = "0:0:8:0"


def settings_of(wanted: DeviceConfig) -> tuple[Setting, ...]:
    """All settings in the order in which they are written: the band resets what follows it.

    ValueError for a region or a power that RUI3 does not have.
    """
    rules = region(wanted.region)
    return (
        Setting("AT+BAND", str(rules.rui3_band)),
        *_identity(wanted),
        Setting("AT+CLASS", "C" if wanted.class_c else "A"),
        Setting("AT+ADR", str(int(wanted.adr))),
        Setting("AT+DR", str(wanted.dr)),
        Setting("AT+TXP", str(power_index(rules, wanted.power_dbm))),
        Setting("AT+DCS", str(int(wanted.duty_cycle))),
        Setting("AT+JOIN", _AUTO_JOIN_OFF),
        Setting("AT+RETY", "0"),
        Setting("AT+PNM", "1", optional=True),
        Setting("AT+LPM", "0", optional=True),
        Setting("AT+LINKCHECK", "0", optional=True),
        *_channels(rules, wanted.sub_band),
        single_channel(wanted),
        *([Setting("AT+ALIAS", wanted.role[:16], optional=True)] if wanted.role else ()),
    )


def single_channel(wanted: DeviceConfig) -> Setting:
    """The one channel that is used, 0 for those of the region."""
    return Setting("AT+CHS", str(wanted.channel_hz), optional=not wanted.channel_hz)


def power_index(rules: Region, power_dbm: int) -> int:
    """The strongest step of AT+TXP that does not exceed an EIRP; ValueError where none is."""
    index = max(0, -((power_dbm - rules.max_eirp_dbm) // _TXP_STEP_DB))
    if index > rules.tx_power_max:
        weakest = rules.max_eirp_dbm - _TXP_STEP_DB * rules.tx_power_max
        raise ValueError(f"{power_dbm} dBm: {weakest} dBm is the weakest that RUI3 transmits")
    return index


def power_dbm(rules: Region, index: int) -> int:
    return rules.max_eirp_dbm - _TXP_STEP_DB * index


def _identity(wanted: DeviceConfig) -> tuple[Setting, ...]:
    """Mode, DevEUI and the secrets of this mode alone.

    ABP secrets are never written into a device that joins: its DevNonce would begin at 0 again, and
    a strict server would refuse it for ever.
    """
    match wanted.activation:
        case Otaa(join_eui, app_key):
            return (
                Setting("AT+NJM", "1", boots=True),
                Setting("AT+DEVEUI", wanted.dev_eui),
                Setting("AT+APPEUI", join_eui),
                Setting("AT+APPKEY", app_key.hex().upper()),
            )
        case Abp(dev_addr, keys):
            return (
                Setting("AT+NJM", "0", boots=True),
                Setting("AT+DEVEUI", wanted.dev_eui),
                Setting("AT+DEVADDR", dev_addr, boots=True),
                Setting("AT+NWKSKEY", keys.nwk_s_key.hex().upper(), boots=True),
                Setting("AT+APPSKEY", keys.app_s_key.hex().upper(), boots=True),
            )


def _channels(rules: Region, sub_band: int) -> tuple[Setting, ...]:
    if not rules.downlink_channels_hz:
        return ()
    first = rules.uplink_channels.index(channels(rules, sub_band)[0])
    return (Setting("AT+MASK", f"{1 << (first // 8):04X}"),)


PORTS = range(1, 224)
PAYLOAD_BYTES = range(1, 251)
RETRIES = range(8)

_LORAWAN = "1"
_JOIN, _STOP_JOINING = "AT+JOIN=1:0:8:0", "AT+JOIN=0:0:8:0"
_JOINED = re.compile(r"\+EVT:(?:JOINED|JOIN_FAILED(?:_\w+)?)")
_TRANSMITS = re.compile(r"AT\+(?:SEND=|JOIN=1)")
_SENT = re.compile(r"\+EVT:TX_DONE")
_CONFIRMED = re.compile(r"\+EVT:SEND_CONFIRMED_(?:OK|FAILED(?:\((\d+)\))?)")
_ENDS_A_CYCLE = re.compile("|".join(one.pattern for one in (_SENT, _CONFIRMED, _JOINED)))
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
        super().__init__(name, line, record, dev_eui=dev_eui, deadlines=deadlines)
        self.dev_eui = dev_eui
        self._sends_unasked = False
        self._confirming: bool | None = None
        self._joins: bool | None = None
        self._retries: int | None = None
        self._wanted: DeviceConfig | None = None

    @property
    def traits(self) -> Traits:
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

    async def provision(self, wanted: DeviceConfig) -> tuple[str, ...]:
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

    async def missing(self, wanted: DeviceConfig) -> tuple[Change, ...]:
        if self.version is None:
            await self.recognise()
        mode = await self.ask("AT+NWM")
        if mode != _LORAWAN:
            return (Change("NWM", mode, _LORAWAN),)
        found = [(setting, await self._otherwise(setting)) for setting in settings_of(wanted)]
        return tuple(
            Change(setting.name.removeprefix("AT+"))
            if is_about_a_key(setting.name)
            else Change(setting.name.removeprefix("AT+"), value, setting.value)
            for setting, value in found
            if value is not None
        )

    async def radiation(self) -> Radiation:
        band, index = await self.ask("AT+BAND"), await self.ask("AT+TXP")
        rules = next((known for known in REGIONS.values() if str(known.rui3_band) == band), None)
        if rules is None or not index.isdecimal():
            raise CommandRefused(f"{self.name}: AT+BAND={band}, AT+TXP={index} is no known region")
        return Radiation(rules.name, power_dbm(rules, int(index)))

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
        await self.reboot("ATR")
        self._wanted = self._joins = self._retries = None

    async def silence(self) -> None:
        with contextlib.suppress(*TROUBLES):
            await self._run(_STOP_JOINING)
        if self._cycle.is_open:
            with contextlib.suppress(*TROUBLES):
                await self.reboot()

    def said(self, line: str) -> str | None:
        if self.version is None or self.version.tells_tx_done:
            return line
        return None if _SENT.fullmatch(line) else re.sub(r"(CONFIRMED_FAILED)\(\d+\)", r"\1", line)

    async def _set_up_again(self) -> None:
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
        def is_still_busy(refused: CommandRefused) -> bool:
            said = str(refused)
            # A payload too long is refused, and an empty frame is sent all the same.
            if endings is not _JOINED and "AT_PARAM_ERROR" in said:
                self._sends_unasked = True
            unheard = self._cycle.is_open and not self._session.is_awaited
            waits = self._sends_unasked or unheard
            return waits and "AT_BUSY_ERROR" in said and restricted_us(said) is None

        return await self._past_cycles(
            lambda: self._end_of(command, endings, within_us), is_still_busy
        )

    async def _end_of(self, command: str, endings: re.Pattern[str], within_us: int) -> str:
        async with self._session.accepted(command, endings) as asked:
            try:
                return (await self._session.wait(asked, asked.ending, within_us)).text
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
        if line.kind is LineKind.BOOT or _ENDS_A_CYCLE.fullmatch(line.text):
            self._cycle.end()

    def _is_asked_to_send(self) -> bool:
        under_way = self._session.commands
        return any(_TRANSMITS.match(e.command) and not e.status.done() for e in under_way)


def _ending(line: str) -> Ending:
    if not line:
        return Ending(Outcome.UNTOLD)
    if line == "+EVT:TX_DONE":
        return Ending(Outcome.SENT, line)
    if line == "+EVT:SEND_CONFIRMED_OK":
        return Ending(Outcome.ACKNOWLEDGED, line)
    found = _CONFIRMED.fullmatch(line)
    number = found[1] if found else None
    return Ending(Outcome.FAILED, line, None if number is None else int(number))
