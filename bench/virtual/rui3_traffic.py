"""How does RUI3 join and send, how often, and which events does it print for it?

Joins are held back by their airtime in the first hour, as LoRaMac does it.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.device.interfaces import Joining, Sent
from bench.transmission import Eui, Transmission
from bench.virtual.air import Received, facts_of, uplink_in
from bench.virtual.crafted import Identity, join
from bench.virtual.lorawan.air_interface import Cid, Command, Downlink
from bench.virtual.mac import Circuit, Cycle, Mac, Nvm, Tries
from bench.virtual.stacks import LORAMAC_44
from lns.clock import now_us


# Defaults as after ATR (5.0.0). A check gives the text to keep, None for a bad argument.
class Status(StrEnum):
    """The last line, or what stands for it."""

    OK = "OK"
    ERROR = "AT_ERROR"
    PARAM_ERROR = "AT_PARAM_ERROR"
    BUSY_ERROR = "AT_BUSY_ERROR"
    NO_CLASS_B = "AT_NO_CLASSB_ENABLE"
    NO_NETWORK_JOINED = "AT_NO_NETWORK_JOINED"
    MODE_NO_SUPPORT = "AT_MODE_NO_SUPPORT"
    NOT_FOUND = "AT_COMMAND_NOT_FOUND"
    UNSUPPORTED_BAND = "AT_UNSUPPORTED_BAND"
    OK_WITHOUT_END = "OK, and no line end"
    NOTHING = "nothing: it resets, or answers later"


_VERSION = re.compile(r"RUI_(\d+)\.(\d+)\.(\d+)_(\w+)-?.*")
_SILENT = ((4, 0, 0), (4, 0, 1), (4, 0, 3))


@dataclass(frozen=True, slots=True)
class Rui3Version:
    """A firmware by the name it gives itself, such as RUI_4.1.0_RAK3172-H."""

    name: str

    @property
    def number(self) -> tuple[int, int, int]:
        found = _VERSION.fullmatch(self.name)
        assert found is not None, f"{self.name} is no version of RUI3"
        return int(found[1]), int(found[2]), int(found[3])

    @property
    def tells_ends(self) -> bool:
        """Whether there are `TX_DONE`, `TXP2P DONE` and the number in `FAILED(n)`."""
        return self.number >= (4, 0, 0) and self.number not in _SILENT

    @property
    def is_new_stack(self) -> bool:
        """LoRaMac 4.7 instead of 4.4: DevNonce counts, and AT+RETY does not reach the MAC."""
        return self.number >= (4, 2, 0)

    @property
    def names_unknown_commands(self) -> bool:
        """Whether an unknown command is repeated in the answer, as up to 3.5.0."""
        return self.number <= (3, 5, 0)


Check = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Value:
    """One value: its default, what may be written, what the help says."""

    default: str
    check: Check
    about: str


def number(low: int, high: int) -> Check:
    def check(text: str) -> str | None:
        known = text.isascii() and text.isdecimal() and low <= int(text) <= high
        return str(int(text)) if known else None

    return check


def hexadecimal(octets: int, *, upper: bool = True) -> Check:
    def check(text: str) -> str | None:
        if not re.fullmatch(rf"[0-9A-Fa-f]{{{2 * octets}}}", text):
            return None
        return text.upper() if upper else text.lower()

    return check


def _letter(text: str) -> str | None:
    return text.upper() if text.upper() in ("A", "B", "C") else None


def _name(text: str) -> str | None:
    return text if 1 <= len(text) <= 16 else None


GENERAL = {
    "ALIAS": Value("", _name, "add an alias name to the device"),
    "LPM": Value("0", number(0, 1), "get or set the low power mode (0 = off, 1 = on)"),
    "DEBUG": Value("0", number(0, 1), "debug prints (0 = off, 1 = on)"),
    "BAUD": Value("115200", number(4800, 115_200), "get or set the serial port baudrate"),
}

NETWORK = {
    "DEVEUI": Value("0" * 16, hexadecimal(8), "get or set the device EUI (8 bytes in hex)"),
    "APPEUI": Value("0" * 16, hexadecimal(8), "get or set the application EUI (8 bytes in hex)"),
    "APPKEY": Value("0" * 32, hexadecimal(16), "get or set the application key"),
    "DEVADDR": Value("0" * 8, hexadecimal(4), "get or set the device address"),
    "NWKSKEY": Value("0" * 32, hexadecimal(16), "get or set the network session key"),
    "APPSKEY": Value("0" * 32, hexadecimal(16), "get or set the application session key"),
    "NJM": Value("1", number(0, 1), "get or set the network join mode (0 = ABP, 1 = OTAA)"),
    "CLASS": Value("A", _letter, "get or set the device class (A = class A, B = class B, C)"),
    "BAND": Value("4", number(0, 12), "get or set the active region"),
    "DR": Value("0", number(0, 13), "get or set the data rate"),
    "ADR": Value("1", number(0, 1), "get or set the adaptive data rate (0 = off, 1 = on)"),
    "TXP": Value("0", number(0, 14), "get or set the transmitting power"),
    "DCS": Value("1", number(0, 1), "get or set the duty cycle settings (0 = off, 1 = on)"),
    "CFM": Value("0", number(0, 1), "get or set the confirm mode (0 = off, 1 = on)"),
    "RETY": Value("0", number(0, 7), "get or set the number of retransmissions (0 - 7)"),
    "RX1DL": Value("1", number(1, 15), "get or set the delay of RX1 (seconds)"),
    "RX2DL": Value("2", number(2, 16), "get or set the delay of RX2 (seconds)"),
    "JN1DL": Value("5", number(1, 14), "get or set the join delay of RX1 (seconds)"),
    "JN2DL": Value("6", number(2, 15), "get or set the join delay of RX2 (seconds)"),
    "RX2DR": Value("0", number(0, 13), "get or set the RX2 data rate"),
    "RX2FQ": Value("869525000", number(150_000_000, 960_000_000), "get or set the RX2 frequency"),
    "PNM": Value("1", number(0, 1), "get or set the public network mode (0 = off, 1 = on)"),
    "LINKCHECK": Value("0", number(0, 2), "get or set the link check (0 = off, 1 = once, 2)"),
    "TIMEREQ": Value("0", number(0, 1), "request the current date and time"),
    "MASK": Value("00FF", hexadecimal(2), "get or set the channel mask"),
    "CHS": Value("0", number(0, 960_000_000), "get or set single channel mode (0 = off)"),
}

P2P = {
    "PFREQ": Value("868000000", number(150_000_000, 960_000_000), "P2P frequency (Hz)"),
    "PSF": Value("7", number(5, 12), "P2P spreading factor"),
    "PBW": Value("0", number(0, 9), "P2P bandwidth (0 = 125, 1 = 250, 2 = 500 kHz, ...)"),
    "PCR": Value("0", number(0, 3), "P2P code rate (0 = 4/5 ... 3 = 4/8)"),
    "PPL": Value("8", number(5, 65_535), "P2P preamble length"),
    "PTP": Value("14", number(5, 22), "P2P TX power (dBm)"),
    "SYNCWORD": Value("1424", hexadecimal(2, upper=False), "P2P sync word"),
    "IQINVER": Value("0", number(0, 1), "P2P IQ inversion"),
    "ENCRY": Value("0", number(0, 1), "P2P encryption"),
    "ENCKEY": Value("0" * 16, hexadecimal(8), "P2P encryption key"),
    "CRYPIV": Value("0" * 16, hexadecimal(8), "P2P encryption IV"),
    "CAD": Value("0", number(0, 1), "P2P channel activity detection"),
    "FIXLENGTHPAYLOAD": Value("0", number(0, 1), "P2P fixed payload length"),
    "SYMBOLTIMEOUT": Value("0", number(0, 248), "P2P symbol timeout"),
}
ALIASES = {
    "RFFREQUENCY": "PFREQ",
    "SPREADINGFACTOR": "PSF",
    "BANDWIDTH": "PBW",
    "CODINGRATE": "PCR",
    "PREAMBLELENGTH": "PPL",
    "TXOUTPUTPOWER": "PTP",
}
VALUES = {**GENERAL, **NETWORK, **P2P}


class Rui3Memory:
    """Settings as text by the names of their commands, the work mode, echo, nonce and counters."""

    def __init__(self, nvm: Nvm, *, factory_dev_eui: str) -> None:
        self._nvm = nvm
        if nvm.get("DEVEUI") is None:
            nvm.put(DEVEUI=factory_dev_eui)

    @property
    def mode(self) -> int:
        """0 P2P, 1 LoRaWAN, 2 FSK."""
        return int(self._nvm.get("mode", 1))

    @mode.setter
    def mode(self, mode: int) -> None:
        self._nvm.put(mode=mode)

    @property
    def echoes(self) -> bool:
        return bool(self._nvm.get("echo", False))

    @echoes.setter
    def echoes(self, echoes: bool) -> None:
        self._nvm.put(echo=echoes)

    def get(self, name: str) -> str:
        return str(self._nvm.get(name, VALUES[name].default))

    def number(self, name: str) -> int:
        return int(self.get(name))

    def set(self, name: str, argument: str) -> Status:
        kept = VALUES[name].check(argument)
        if kept is None:
            return Status.PARAM_ERROR
        self._nvm.put(**{name: kept})
        return Status.OK

    def keep(self, **values: Any) -> None:
        self._nvm.put(**values)

    def kept(self, name: str, default: Any) -> Any:
        return self._nvm.get(name, default)

    def restore_defaults(self) -> None:
        """ATR: keys, EUIs, settings, DevNonce and counters are lost."""
        self._nvm.erase("boots")
        self._nvm.put(DEVEUI=VALUES["DEVEUI"].default)


JOIN_HOUR_US = 3_600_000_000
JOIN_BUDGET_US = 36_000_000
"""Airtime of join-requests in the first hour after a boot; kept also without duty cycle."""


class JoinTimes:
    """Remembers since the boot the airtime of all joins."""

    def __init__(self) -> None:
        self._booted_us = now_us()
        self._joins_us = 0

    def note(self, sent: Transmission) -> None:
        self._joins_us += sent.airtime_us

    def wait_us(self) -> int:
        """How long joins are held back: until the hour is over, once its airtime is used up."""
        if self._joins_us < JOIN_BUDGET_US:
            return 0
        return max(self._booted_us + JOIN_HOUR_US - now_us(), 0)


_SEND = re.compile(r"(\d{1,3}):((?:[0-9A-F]{2}){1,250})", re.I)
_PORTS = range(1, 224)
_RX2_TIMEOUT = 4


class Rui3Traffic:
    """Messages of one board; remembers what it heard last, and whether the MAC is busy."""

    def __init__(
        self, circuit: Circuit, memory: Rui3Memory, version: Rui3Version, mac: Mac
    ) -> None:
        self.mac = mac
        self.acknowledged = False
        self.last_sent: Sent | None = None
        self.last_rssi_dbm = 0
        self.last_snr_db = 0
        self.busy = False
        self._circuit = circuit
        self._memory = memory
        self._version = version
        self._received = "0:"
        self.join_times = JoinTimes()
        mac.heard_unasked = self._tell_downlink

    def send(self, argument: str) -> Status:
        """AT+SEND; too long a payload is refused, and an empty frame goes out all the same."""
        found = _SEND.fullmatch(argument)
        if found is None or int(found[1]) not in _PORTS:
            return Status.PARAM_ERROR
        confirmed = self._memory.get("CFM") == "1"
        return self.take(bytes.fromhex(found[2]), int(found[1]), confirmed=confirmed)

    def take(self, payload: bytes, port: int, *, confirmed: bool) -> Status:
        """Begin with a message, also to a port that the console would not take."""
        if self.mac.session is None:
            return Status.NO_NETWORK_JOINED
        if self.busy or self.is_restricted():
            return Status.BUSY_ERROR
        too_long = len(payload) > self.mac.max_payload(self.mac.settings.dr)
        if too_long and self._circuit.sends_unasked:
            self.begin(self._cycle(b"", None, confirmed=False))
        if too_long:
            return Status.PARAM_ERROR
        self.begin(self._cycle(payload, port, confirmed=confirmed))
        return Status.OK

    def take_received(self) -> str:
        """AT+RECV=?, which clears the store."""
        received, self._received = self._received, "0:"
        return received

    def is_restricted(self) -> bool:
        """Whether the duty cycle forbids to send now; said on the console if so."""
        wait_us = self.mac.restricted_us(self.mac.settings.dr)
        if wait_us:
            self.tell_restricted(wait_us)
        return wait_us > 0

    def tell_restricted(self, wait_us: int) -> None:
        self._circuit.say(f"Restricted_Wait_{-(-wait_us // 1000)}_ms")

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Let the MAC do something; it is busy until that is over."""
        self.busy = True
        self._circuit.spawn(self._occupied(work))

    def tell_sent(self, sent: Transmission) -> None:
        """What AT+DEBUG=1 adds for a frame that goes out."""
        session = self.mac.session
        if self._memory.get("DEBUG") == "1":
            self._circuit.say(f"Frequency:{sent.freq_hz}")
            self._circuit.say(f"ChannelsDatarate:{self.mac.settings.dr}")
            self._circuit.say(f"FCntUp:{session.f_cnt_up if session else 0}")

    def keep_counters(self) -> None:
        """The counters of a fixed session go into the flash while the MAC is idle."""
        if self.mac.session is not None and not self._memory.number("NJM"):
            self._memory.keep(counters=self.mac.session.counters())

    async def _occupied(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            self.busy = False

    async def _cycle(self, payload: bytes, port: int | None, *, confirmed: bool) -> None:
        session = self.mac.session
        assert session is not None
        self.acknowledged = self.acknowledged and not confirmed
        session.asked = asked = self._ask()
        f_cnt = session.f_cnt_up
        phy = self.mac.uplink(payload, port, confirmed=confirmed)
        dev_eui = Eui(self._memory.get("DEVEUI"))
        sent = self.last_sent = uplink_in(dev_eui, phy, f_cnt, session=session.number)
        cycle = Cycle(confirmed, tries=sent.transmissions)
        await self.mac.deliver(phy, cycle, self._tries(sent))
        self.acknowledged = sent.acknowledged = cycle.acknowledged
        self.keep_counters()
        self._tell_end(cycle)
        ends = cycle.downlink if cycle.acknowledged or not confirmed else None
        if ends is not None:
            self._tell_downlink(ends, asked=asked)
        elif asked:
            self._tell_answers(asked, cycle.downlink)
        downlink = cycle.downlink.content if cycle.downlink else None
        if downlink is None or not self._circuit.sends_unasked:
            return
        if downlink.confirmed or (downlink.f_pending and not self.mac.settings.class_c):
            # By itself and at once: a counter that nobody asked for.
            await self._cycle(b"", None, confirmed=False)

    def _tries(self, sent: Sent) -> Tries:
        number = self.mac.settings.nb_trans
        if sent.confirmed and not self._version.is_new_stack:
            tries = 1 + self._memory.number("RETY")
            number = tries if self.mac.stack is LORAMAC_44 else max(number, tries)
        return Tries(
            number=number,
            on_sent=lambda this, transmission: self.tell_sent(transmission),
            facts=lambda attempt: facts_of(sent, attempt),
            heard=self._tell_downlink,
        )

    def _tell_end(self, cycle: Cycle) -> None:
        tells = self._version.tells_ends
        if not cycle.confirmed:
            if tells:
                self._circuit.say("+EVT:TX_DONE")
        elif cycle.acknowledged:
            self._circuit.say("+EVT:SEND_CONFIRMED_OK")
        else:
            self._circuit.say(f"+EVT:SEND_CONFIRMED_FAILED{f'({_RX2_TIMEOUT})' if tells else ''}")

    def _tell_downlink(
        self, received: Received[Downlink], *, asked: Sequence[Command] = ()
    ) -> None:
        downlink, caught = received.content, received.heard
        self.last_rssi_dbm, self.last_snr_db = caught.rssi_dbm, round(caught.snr_db)
        signal = f"{self.last_rssi_dbm}:{self.last_snr_db}"
        if self._memory.get("DEBUG") == "1":
            self._circuit.say(f"Receiving in RX_SLOT_WIN_{received.slot}")
            self._circuit.say(f"FCntDown:{downlink.f_cnt}")
        if asked:
            self._tell_answers(asked, received)
        if downlink.f_port and downlink.payload:
            data = f"UNICAST:{downlink.f_port}:{downlink.payload.hex()}"
            self._circuit.say(f"+EVT:RX_{received.slot}:{signal}:{data}")
            self._received = f"{downlink.f_port}:{downlink.payload.hex().upper()}"
        if received.slot == "C":
            self.keep_counters()

    def _ask(self) -> list[Command]:
        asks = {"LINKCHECK": Cid.LINK_CHECK, "TIMEREQ": Cid.DEVICE_TIME}
        return [Command(cid) for name, cid in asks.items() if self._memory.number(name)]

    def _tell_answers(self, asked: Sequence[Command], received: Received[Downlink] | None) -> None:
        commands = received.content.commands if received else ()
        answers = {command.cid: command.told for command in commands}
        if Command(Cid.LINK_CHECK) in asked:
            answer = answers.get(Cid.LINK_CHECK)
            if answer is None:
                self._circuit.say("+EVT:LINKCHECK:1:0:0:0:0")
            else:
                signal = f"{self.last_rssi_dbm}:{self.last_snr_db}"
                self._circuit.say(f"+EVT:LINKCHECK:0:{answer[0]}:{answer[1]}:{signal}")
            if self._memory.number("LINKCHECK") == 1:
                self._memory.keep(LINKCHECK="0")
        if Command(Cid.DEVICE_TIME) in asked:
            self._circuit.say(f"+EVT:TIMEREQ_{'OK' if Cid.DEVICE_TIME in answers else 'FAILED'}")
            self._memory.keep(TIMEREQ="0")


_JOIN = re.compile(r"([01])(?::([01])(?::(\d{1,3})(?::(\d{1,3}))?)?)?")
_PERIODS_S = range(7, 256)
_ATTEMPTS_MAX = 255
_DEFAULTS = (0, 0, 8, 0)
_JOIN_FAIL = "7"  # LoRaMacEventInfoStatus: a join-accept came, with a wrong MIC or JoinNonce


class Rui3Join:
    """Joins of one board; remembers how many attempts are left, and whether it was told to stop."""

    def __init__(
        self, circuit: Circuit, memory: Rui3Memory, version: Rui3Version, traffic: Rui3Traffic
    ) -> None:
        self.begin_fixed_session: Callable[[], None] = lambda: None
        self._circuit = circuit
        self._memory = memory
        self._version = version
        self._traffic = traffic
        self.last_join: Joining | None = None
        self._nonces = circuit.chance("nonce")
        self._round = 0  # of the attempts that belong to one command

    def boot(self) -> None:
        if self._parameters()[1] and self._memory.number("NJM"):
            self._start()

    def told(self) -> str:
        return ":".join(map(str, self._parameters()))

    def write(self, argument: str) -> Status:
        """AT+JOIN=start:auto:period:attempts; what is left out stays as it was."""
        found = _JOIN.fullmatch(argument)
        if found is None:
            return Status.PARAM_ERROR
        before = self._parameters()
        words = zip(found.groups(), before, strict=True)
        parameters = [known if text is None else int(text) for text, known in words]
        if parameters[2] not in _PERIODS_S or parameters[3] > _ATTEMPTS_MAX:
            return Status.PARAM_ERROR
        self._memory.keep(join=parameters)
        if not parameters[0]:
            self._round += 1
            return Status.OK
        return self.run()

    def run(self) -> Status:
        if not self._memory.number("NJM"):
            self.begin_fixed_session()
            return Status.OK  # and no event
        if self._traffic.busy:
            return Status.BUSY_ERROR
        held_us = self._traffic.join_times.wait_us()
        if held_us:
            self._traffic.tell_restricted(held_us)
        if held_us or self._traffic.is_restricted():
            return Status.BUSY_ERROR
        self._start()
        return Status.OK

    def _parameters(self) -> tuple[int, int, int, int]:
        start, auto, period_s, attempts = self._memory.kept("join", _DEFAULTS)
        return start, auto, period_s, attempts

    def _start(self) -> None:
        self._round += 1
        self._circuit.spawn(self._attempts(self._round))

    async def _attempts(self, this_round: int) -> None:
        _, _, period_s, attempts = self._parameters()
        for left in range(attempts, -1, -1):
            self._traffic.busy = True
            try:
                has_joined = await self._attempt()
            finally:
                self._traffic.busy = False
            why = _JOIN_FAIL if self._traffic.mac.accept_was_refused else "RX_TIMEOUT"
            self._circuit.say("+EVT:JOINED" if has_joined else f"+EVT:JOIN_FAILED_{why}")
            if has_joined or not left or self._round != this_round:
                return
            await asyncio.sleep(period_s)
            if self._round != this_round:
                return

    async def _attempt(self) -> bool:
        memory, mac = self._memory, self._traffic.mac
        if not self._circuit.keeps_session:
            mac.session = None
        mac.join_nonce = int(memory.kept("join_nonce", 0))
        dev_nonce, app_key = self._next_dev_nonce(), bytes.fromhex(memory.get("APPKEY"))
        who = Identity(Eui(memory.get("DEVEUI")), Eui(memory.get("APPEUI")), app_key)
        joining = self.last_join = join(who, dev_nonce)

        def on_sent(sent: Transmission) -> None:
            joining.transmissions.append(sent)
            self._traffic.join_times.note(sent)
            self._traffic.tell_sent(sent)

        session = await mac.join(
            app_key,
            dev_eui=memory.get("DEVEUI"),
            join_eui=memory.get("APPEUI"),
            dev_nonce=dev_nonce,
            sent=on_sent,
            facts={"dev_eui": who.dev_eui, "frame_id": joining.frame_id, "genuine": True},
        )
        if session is None:
            return False
        joining.accepted = True
        memory.keep(join_nonce=session.join_nonce)
        return True

    def _next_dev_nonce(self) -> int:
        if self._traffic.mac.stack.draws_dev_nonce:
            return self._nonces.randrange(1 << 16)
        dev_nonce = int(self._memory.kept("dev_nonce", 0)) + 1
        self._memory.keep(dev_nonce=dev_nonce)
        return dev_nonce
