"""How does the bench speak with a LoRa-E5, or a Seeeduino LoRaWAN?

Source: serial logs of modules with AT firmware 4.0.11, Seeed's AT command specification 1.0, and
for the Seeeduino LoRaWAN (RHF76-052) the end-to-end tests of the Azure IoT Edge starter kit.
Replies name their command: `+CMD: text`. A query (`AT+CMD?`) and a change have the same last line.
A confirmed message was acknowledged if `ACK Received` stands between its Start and its Done: the
order of the lines between them is not sure, and no line says no.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.capture import Record
from bench.device.at_session import NOTHING, Grammar, Line, LineKind, LineSpelling, Reply, Wire
from bench.device.attached import TROUBLES, AttachedBoard, insist_on_identity
from bench.device.interfaces import (
    Abp,
    Change,
    CommandRefused,
    Deadlines,
    DeviceConfig,
    DeviceRestarted,
    Ending,
    NotAsWritten,
    Otaa,
    Outcome,
    Radiation,
    Traits,
    UnknownFirmware,
    channels,
)
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import REGIONS, Channel, region

_COMMAND = re.compile(r"AT(?:\+(\w+))?(?:=?\?|=(.*))?", re.I)
_ERROR = r"\+\w+: ERROR\(.*\)|\+INFO: Input timeout"
_PLAN = re.compile(r"(?!DR\d)[A-Z].*", re.I)
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
    # Not for a channel plan such as EU868, which is neither DR5 nor 5. The last line names the
    # modulation, if it comes.
    if name == "DR" and not _PLAN.fullmatch(value):
        return _ends(r"\+DR: .*SF.*", perhaps=r"\+DR: .*")
    if name in ("AT", "RESET", "FDEFAULT"):
        return _ends(rf"\+{name}: OK")
    if name == "ID" and not value:
        return _ends(r"\+ID: AppEui\b.*")
    subject = _WORD.match(value)
    if subject and name in ("ID", "KEY", "LW", "TEST", "CH", "DELAY"):
        return _ends(rf"\+{name}: (?i:{subject[0]})\b.*")
    return _ends(rf"\+{name}: (?!ERROR).*")


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

    grammar = E5

    def __init__(
        self,
        name: str,
        line: Wire,
        record: Record,
        *,
        dev_eui: Eui | None = None,
        deadlines: Deadlines | None = None,
        lineage: Lineage = LORA_E5,
    ) -> None:
        super().__init__(name, line, record, dev_eui=dev_eui, deadlines=deadlines)
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


class LoraE5Settings:
    """The settings of one board.

    Remembers what cannot be read from it and so is written once: keys for as long as it is not
    reset to its factory state, channels and duty cycle until `restarted`.
    """

    def __init__(self, board: LoraE5Board) -> None:
        self._board = board
        self._keys: dict[str, bytes] = {}
        self._told: dict[str, str] = {}

    async def write(self, wanted: DeviceConfig) -> tuple[str, ...]:
        """The names of those that had to be written; NotAsWritten if an answer names another value.

        The mode comes first, and ADR before the data rate, which it would not take otherwise.
        """
        first, then = _plain(wanted)
        names = await self._write_plain(first)
        names += await self._write_identity(wanted)
        names += await self._write_data_rate(wanted)
        names += await self._write_plain(then)
        for command in _untold(wanted, self._board.lineage):
            names += [command.removeprefix("AT+").split("=")[0]] * await self._write_once(command)
        return tuple(dict.fromkeys(names))

    async def _write_plain(self, settings: Mapping[str, str]) -> list[str]:
        board = self._board
        return [n for n, value in settings.items() if await board.change(f"AT+{n}", value)]

    async def missing(self, wanted: DeviceConfig) -> tuple[Change, ...]:
        """Those that `write` would write; what is not told is among them."""
        board = self._board
        identifiers, keys = _identity(wanted)
        first, then = _plain(wanted)
        as_written = first | then
        found = {name: value_of(await board.ask(f"AT+{name}?")) for name in as_written}
        found |= await board.identifiers()
        due = as_written | identifiers
        changes = [Change(n, found.get(n), due[n]) for n in due if found.get(n) != due[n]]
        changes += [Change(name) for name, key in keys.items() if self._keys.get(name) != key]
        plan, dr = parse_data_rate(await board.ask("AT+DR?"))
        due_plan = region(wanted.region).lora_e5_plan
        if plan != due_plan:
            changes.append(Change("BAND", plan, due_plan))
        if plan != due_plan or (dr != wanted.dr and not wanted.adr):
            changes.append(Change("DR", str(dr), str(wanted.dr)))
        for command in _untold(wanted, board.lineage):
            if self._told.get(command.rpartition(",")[0]) != command:
                name, _, value = command.removeprefix("AT+").partition("=")
                changes.append(Change(name, None, value))
        return tuple(changes)

    async def restarted(self) -> None:
        written, self._told = self._told, {}
        for command in written.values():
            await self._write_once(command)

    def forget(self) -> None:
        self._keys.clear()
        self._told.clear()

    async def _write_identity(self, wanted: DeviceConfig) -> list[str]:
        identifiers, keys = _identity(wanted)
        board, quoted = self._board, self._board.lineage.quoted
        names = []
        found = await board.identifiers()
        for name, digits in identifiers.items():
            if found.get(name) != digits:
                await board.answer_to(f"AT+ID={name},{quoted(digits)}")
                names.append(name)
        if names:
            found = await board.identifiers()
            wrong = [name for name, digits in identifiers.items() if found.get(name) != digits]
            if wrong:
                raise NotAsWritten(f"{board.name}: {wrong[0]} reads {found.get(wrong[0])}")
        for name, key in keys.items():
            if self._keys.get(name) != key:
                await board.answer_to(f"AT+KEY={name},{quoted(key.hex().upper())}")
                self._keys[name] = key
                names.append(name)
        return names

    async def _write_data_rate(self, wanted: DeviceConfig) -> list[str]:
        board, due = self._board, region(wanted.region).lora_e5_plan
        plan, dr = parse_data_rate(await board.ask("AT+DR?"))
        names = []
        if plan != due:
            await board.answer_to(f"AT+DR={due}")
            plan, dr = parse_data_rate(await board.ask("AT+DR?"))
            names.append("BAND")
        if dr != wanted.dr and not wanted.adr:
            await board.answer_to(f"AT+DR={board.lineage.dr_prefix}{wanted.dr}")
            plan, dr = parse_data_rate(await board.ask("AT+DR?"))
            names.append("DR")
        if plan != due or (dr != wanted.dr and not wanted.adr):
            wrong = f"its data rate reads {plan} DR{dr}, not {due} DR{wanted.dr}"
            raise NotAsWritten(f"{board.name}: {wrong}")
        return names

    async def _write_once(self, command: str) -> bool:
        subject = command.rpartition(",")[0]
        if self._told.get(subject) == command:
            return False
        await self._board.answer_to(command)
        self._told[subject] = command
        return True


def _plain(wanted: DeviceConfig) -> tuple[dict[str, str], dict[str, str]]:
    first = {"MODE": "LWOTAA" if wanted.joins else "LWABP", "ADR": "ON" if wanted.adr else "OFF"}
    then = {"CLASS": "C" if wanted.class_c else "A", "POWER": str(wanted.power_dbm)}
    return first, then | {"REPT": "1", "RETRY": "1"}


def _identity(wanted: DeviceConfig) -> tuple[dict[str, str], dict[str, bytes]]:
    match wanted.activation:
        case Otaa(join_eui, app_key):
            return {"DevEui": wanted.dev_eui, "AppEui": join_eui}, {"APPKEY": app_key}
        case Abp(dev_addr, SessionKeys(nwk_s_key, app_s_key)):
            keys = {"NWKSKEY": nwk_s_key, "APPSKEY": app_s_key}
            return {"DevEui": wanted.dev_eui, "DevAddr": dev_addr}, keys


def _untold(wanted: DeviceConfig, lineage: Lineage) -> Iterator[str]:
    rules = region(wanted.region)
    known, used = rules.uplink_channels, channels(rules, wanted.sub_band)
    if wanted.channel_hz:
        used = tuple(channel for channel in used if channel.freq_hz == wanted.channel_hz)
    numbers = [known.index(channel) for channel in used if channel.dr_max == used[0].dr_max]
    if not numbers:
        raise ValueError(f"{wanted.channel_hz} Hz is no channel of {rules.name}")
    for value in lineage.channel_values(known, numbers[0], numbers[-1]):
        yield f"AT+CH={value}"
    keeps = "ON" if wanted.duty_cycle else "OFF"
    yield f"AT+LW=DC,{keeps}"
    yield f"AT+LW=JDC,{keeps}"
    yield "AT+LW=NET,ON"


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
        super().__init__(name, line, record, dev_eui=dev_eui, deadlines=deadlines, lineage=lineage)
        self.dev_eui = dev_eui
        self._settings = LoraE5Settings(self)
        self._port: int | None = None
        self._tries: int | None = None

    @property
    def traits(self) -> Traits:
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

    async def provision(self, wanted: DeviceConfig) -> tuple[str, ...]:
        """Write what differs from what is wanted; keys and channels, which it does not tell, once.

        The names of the settings that were written; NotAsWritten if an answer names another value.
        """
        if not self.firmware:
            await self.recognise()
        written = await self._settings.write(wanted)
        self._tries = 1
        return written

    async def missing(self, wanted: DeviceConfig) -> tuple[Change, ...]:
        if not self.firmware:
            await self.recognise()
        return await self._settings.missing(wanted)

    async def radiation(self) -> Radiation:
        plan, _ = parse_data_rate(await self.ask("AT+DR?"))
        power = await self.ask("AT+POWER?")
        found = _POWER.match(power)
        if found is None:
            raise CommandRefused(f"{self.name}: {power!r} is no power")
        names = {known.lora_e5_plan: known.name for known in REGIONS.values()}
        return Radiation(names.get(plan, plan), int(found[0]))

    async def set_adr(self, adr: bool) -> None:
        await self.change("AT+ADR", "ON" if adr else "OFF")

    async def ask_time(self) -> None:
        """CommandRefused: no command for it is known."""
        raise CommandRefused(f"{self.name}: nobody knows how to let it ask for the time")

    async def ask_link(self) -> None:
        """CommandRefused: no command for it is known."""
        raise CommandRefused(f"{self.name}: nobody knows how to let it check its link")

    async def set_retries(self, retries: int) -> None:
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
            lines = await self._message(command, tries * self._deadlines.transmission_us)
        except DeviceRestarted:
            return Ending(Outcome.RESTARTED)
        if not confirmed:
            return Ending(Outcome.SENT, f"+{name}: Done")
        if any("ACK Received" in line for line in lines):
            return Ending(Outcome.ACKNOWLEDGED, f"+{name}: ACK Received")
        return Ending(Outcome.FAILED, f"+{name}: Done")

    async def join(self) -> bool:
        try:
            if await self.ask("AT+MODE?") == "LWABP":
                return True
            try:
                lines = await self._message("AT+JOIN", self._deadlines.join_us)
            except CommandRefused as refused:
                if "Joined already" not in str(refused):
                    raise
                lines = await self._message("AT+JOIN=FORCE", self._deadlines.join_us)
        except DeviceRestarted:
            return False
        return any("Network joined" in line for line in lines)

    async def restart(self) -> None:
        await self.reboot()
        await self._set_up_again()

    async def reset_counters(self) -> None:
        if await self.ask("AT+MODE?") != "LWABP":
            raise ValueError(f"{self.name}: a device that joins counts anew by joining")
        await self.set_counters(0, 0)

    async def set_counters(self, up: int, down: int) -> None:
        await self._run(f"AT+LW=ULDL,{up},{down}")
        found = await self.counters()
        if found != (up, down):
            raise NotAsWritten(f"{self.name}: its counters read {found}, not {(up, down)}")

    async def counters(self) -> tuple[int, int]:
        answer = await self.ask("AT+LW=ULDL")
        found = _COUNTERS.fullmatch(answer)
        if found is None:
            raise CommandRefused(f"{self.name}: {answer!r} are no counters")
        return int(found[1]), int(found[2])

    async def factory_reset(self) -> None:
        await super().factory_reset()
        self._settings.forget()
        self._tries, self._port = None, None

    async def silence(self) -> None:
        if self._cycle.is_open:
            with contextlib.suppress(*TROUBLES):
                await self.reboot()

    def said(self, line: str) -> str | None:
        """What it says where RUI3 says `line`; no line of its own says that no ack came."""
        return _WORDS.get(line)

    async def _set_up_again(self) -> None:
        self._port = None
        await self._settings.restarted()

    async def _message(self, command: str, within_us: int) -> list[str]:
        """What it tells between Start and Done; CommandRefused if there is no Start."""

        return await self._past_cycles(lambda: self._told(command, within_us), self._is_still_busy)

    def _is_still_busy(self, refused: CommandRefused) -> bool:
        unheard = self._cycle.is_open and not self._session.is_awaited
        return unheard and "modem is busy" in str(refused)

    async def _told(self, command: str, within_us: int) -> list[str]:
        name = command.removeprefix("AT+").partition("=")[0]
        done = re.compile(rf"\+{name}: Done")
        async with self._session.accepted(command, done) as asked:
            if not asked.ending.done():
                self._cycle.begin()
            await self._session.wait(asked, asked.ending, within_us)
            return list(asked.told)

    def _hear(self, line: Line) -> None:
        super()._hear(line)
        if line.kind is LineKind.BOOT or _DONE.fullmatch(line.text):
            self._cycle.end()
