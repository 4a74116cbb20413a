"""What does a board with RUI3 answer on its serial line?

Written from the firmware's side of the wire. Not played: class B beacons, RAK's own fragmentation,
multicast, RF tests, the serial password, regions other than EU868 and US915.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

from bench.virtual.air import Caught, Emission, Modulation
from bench.virtual.lorawan.air_interface import Keys, Session, last_down
from bench.virtual.lorawan.channel_plan import PLANS, ChannelPlan, channel_plan
from bench.virtual.mac import Circuit, Mac, MacSettings
from bench.virtual.rui3_traffic import (
    ALIASES,
    GENERAL,
    NETWORK,
    P2P,
    VALUES,
    Rui3Join,
    Rui3Memory,
    Rui3Traffic,
    Rui3Version,
    Status,
)
from bench.virtual.stacks import LORAMAC_44, LORAMAC_NODE, NEVER_COUNTED

BANDS = {plan.rui3_band: plan.name for plan in PLANS.values()}
HARDWARE_DBM_MAX = 22
SUB_BAND_2_MASK = "0002"
_ZEROES_MAC = ("DEVADDR", "NWKSKEY", "APPSKEY")
_RESET_BY_BAND = ("DR", "TXP", "MASK", "CHS")
_CHANNELS_PER_BIT = 8
_WIDE = 64  # the number of the first wide channel


@dataclass(frozen=True, slots=True)
class Action:
    """A command that is no value: how it is read, written, and carried out without argument."""

    read: Callable[[], str] | None = None
    write: Callable[[str], Status] | None = None
    run: Callable[[], Status] | None = None


class Rui3Network:
    """LoRaWAN mode; remembers what the MAC does until the next reset."""

    NAMES = frozenset(("JOIN", "SEND", "RECV", "NJS", "CFS", "NETID", "RSSI", "SNR"))

    def __init__(self, circuit: Circuit, memory: Rui3Memory, version: Rui3Version) -> None:
        self._memory = memory
        stack = circuit.stack or (LORAMAC_NODE if version.is_new_stack else LORAMAC_44)
        self._never_counted = {**NEVER_COUNTED, "up": stack.first_f_cnt}
        self._forget_what_must_be()
        self._radio = circuit.radio
        self._radio.hear_always()
        self.mac = Mac(circuit, _mac_settings(memory), stack=stack)
        self.mac.join_nonce = int(memory.kept("join_nonce", 0))
        self._tune()
        if not memory.number("NJM"):
            self._begin_fixed_session()
        self.traffic = Rui3Traffic(circuit, memory, version, self.mac)
        self.join = Rui3Join(circuit, memory, version, self.traffic)
        self.join.begin_fixed_session = self._begin_fixed_session
        traffic = self.traffic
        self.actions = {
            "JOIN": Action(self.join.told, self.join.write, self.join.run),
            "SEND": Action(write=traffic.send),
            "RECV": Action(traffic.take_received),
            "NJS": Action(lambda: str(int(self.mac.session is not None))),
            "CFS": Action(lambda: str(int(traffic.acknowledged))),
            "NETID": Action(lambda: getattr(self.mac.session, "net_id", "000000")),
            "RSSI": Action(lambda: str(traffic.last_rssi_dbm)),
            "SNR": Action(lambda: str(traffic.last_snr_db)),
        }

    def forget_session(self) -> None:
        """Lose what is not in the flash: a fixed session begins anew, another is gone."""
        self.mac.session = None
        self._memory.keep(counters=self._never_counted)
        if not self._memory.number("NJM"):
            self._begin_fixed_session()
        settings = self.mac.settings
        settings.receive_as_at_first()
        settings.masked = _masked(self._memory.get("MASK"), settings.plan)

    def get(self, name: str) -> str:
        mac, session = self.mac, self.mac.session
        is_joining = self._memory.number("NJM") == 1
        match name:
            case "DEVADDR" if is_joining:
                return session.dev_addr if session else VALUES[name].default
            case "NWKSKEY" if is_joining:
                return session.keys.nwk_s_key.hex().upper() if session else VALUES[name].default
            case "APPSKEY" if is_joining:
                return session.keys.app_s_key.hex().upper() if session else VALUES[name].default
            case "RX1DL":
                return str(mac.settings.rx1_delay_us // 1_000_000)
            case "RX2DL":
                return str(mac.settings.rx2_delay_us // 1_000_000)
            case "RX2DR":
                return str(mac.settings.rx2_dr)
            case "RX2FQ":
                return str(mac.settings.rx2_freq_hz)
            case "DR":
                return str(mac.settings.dr)
            case "CHS":
                return str(mac.settings.single_channel_hz)
            case "CLASS" if self._memory.get(name) == "B":
                return "B:S0"  # there is no beacon on this air
            case _:
                return self._memory.get(name)

    def set(self, name: str, argument: str) -> Status:
        """Write a setting; it is in force at once, what concerns the MAC's memory at next boot."""
        refusal = self._refusal(name, argument)
        if refusal is not None:
            return refusal
        before = self._memory.get(name)
        status = self._memory.set(name, argument)
        if status is not Status.OK:
            return status
        changed = self._memory.get(name) != before
        if name in _ZEROES_MAC or (name == "NJM" and changed):
            self._memory.keep(zero_mac=True)
        if name == "NJM" and changed:
            self.mac.session = None
        elif name in _ZEROES_MAC and not self._memory.number("NJM"):
            self._begin_fixed_session()
        elif name == "BAND" and changed:
            self._change_band()
        elif name == "RX1DL":
            self._memory.set("RX2DL", str(self._memory.number("RX1DL") + 1))
        self._apply(name)
        return Status.OK

    def _refusal(self, name: str, argument: str) -> Status | None:
        settings = self.mac.settings
        if name == "BAND" and argument.isdecimal() and int(argument) <= 12:
            if self.traffic.busy:
                return Status.BUSY_ERROR
            return None if int(argument) in BANDS else Status.UNSUPPORTED_BAND
        if name == "DR" and argument.isdecimal() and int(argument) not in settings.plan.up_drs:
            return Status.PARAM_ERROR
        if name == "MASK" and not settings.plan.downlinks_hz:
            return Status.ERROR
        return None

    def _change_band(self) -> None:
        new = BANDS[self._memory.number("BAND")]
        plan = channel_plan(new)
        rx2 = {"RX2DR": str(plan.rx2_dr), "RX2FQ": str(plan.rx2_freq_hz)}
        self._memory.keep(**{name: VALUES[name].default for name in _RESET_BY_BAND}, **rx2)
        for name in (*_RESET_BY_BAND, *rx2):
            self._apply(name)

    def _apply(self, name: str) -> None:
        made, settings = _mac_settings(self._memory), self.mac.settings
        for field in _FIELDS.get(name, ()):
            setattr(settings, field, getattr(made, field))
        if name == "CHS":
            settings.single_channel_hz = self._memory.number("CHS")
        self._tune()

    def _tune(self) -> None:
        settings = self.mac.settings
        self._radio.tune(settings.plan, public=settings.public)

    def _begin_fixed_session(self) -> None:
        memory = self._memory
        counters = memory.kept("counters", self._never_counted)
        running = self.mac.session
        self.mac.session = Session(
            dev_addr=memory.get("DEVADDR"),
            keys=Keys(bytes.fromhex(memory.get("NWKSKEY")), bytes.fromhex(memory.get("APPSKEY"))),
            f_cnt_up=running.f_cnt_up if running else counters["up"],
            f_cnt_down=running.f_cnt_down if running else last_down(counters),
        )

    def _forget_what_must_be(self) -> None:
        """The MAC's memory is zeroed at the boot after its identity was written."""
        if self._memory.kept("zero_mac", False):
            self._memory.keep(zero_mac=False, dev_nonce=0, counters=self._never_counted)


_FIELDS: dict[str, tuple[str, ...]] = {
    "BAND": ("plan",),
    "DR": ("dr",),
    "ADR": ("adr",),
    "TXP": ("power_dbm",),
    "DCS": ("duty_cycle",),
    "CLASS": ("class_c",),
    "PNM": ("public",),
    "RX1DL": ("rx1_delay_us", "rx2_delay_us"),
    "RX2DL": ("rx2_delay_us",),
    "JN1DL": ("join1_delay_us",),
    "JN2DL": ("join2_delay_us",),
    "RX2DR": ("rx2_dr",),
    "RX2FQ": ("rx2_freq_hz",),
    "MASK": ("masked",),
}


def _mac_settings(memory: Rui3Memory) -> MacSettings:
    """What the MAC has after a boot; in EU868 the single channel is not kept."""
    plan = channel_plan(BANDS[memory.number("BAND")])
    power_dbm = plan.power_dbm(memory.number("TXP"))
    return MacSettings(
        plan=plan,
        dr=memory.number("DR"),
        power_dbm=min(power_dbm, HARDWARE_DBM_MAX),
        adr=memory.get("ADR") == "1",
        duty_cycle=memory.get("DCS") == "1",
        class_c=memory.get("CLASS") == "C",
        public=memory.get("PNM") == "1",
        rx1_delay_us=memory.number("RX1DL") * 1_000_000,
        rx2_delay_us=memory.number("RX2DL") * 1_000_000,
        join1_delay_us=memory.number("JN1DL") * 1_000_000,
        join2_delay_us=memory.number("JN2DL") * 1_000_000,
        rx2_dr=memory.number("RX2DR"),
        rx2_freq_hz=memory.number("RX2FQ"),
        single_channel_hz=0 if plan.name == "EU868" else memory.number("CHS"),
        masked=_masked(memory.get("MASK"), plan),
    )


def _masked(mask: str, plan: ChannelPlan) -> frozenset[int] | None:
    """The channels of US915 that AT+MASK leaves, a bit for eight of them and the wide one."""
    if not plan.downlinks_hz or mask == VALUES["MASK"].default:
        return None
    bits = [bit for bit in range(_CHANNELS_PER_BIT) if int(mask, 16) >> bit & 1]
    narrow = [_CHANNELS_PER_BIT * bit + number for bit in bits for number in range(8)]
    return frozenset((*narrow, *(_WIDE + bit for bit in bits)))


PRINTED_AFTER_US = 50_000
"""How long the console may take to an `OK`: the event of a shorter frame comes before it."""
_BANDWIDTHS_HZ = (
    125_000, 250_000, 500_000, 7_810, 10_420, 15_630, 20_830, 31_250, 41_670, 62_500,
)  # fmt: skip
_IN_ONE = ("PFREQ", "PSF", "PBW", "PCR", "PPL", "PTP")
_PAYLOAD = re.compile(r"(?:[0-9A-F]{2}){1,239}", re.I)
_UNTIL_ONE, _ALWAYS, _ALWAYS_AND_SEND = 65_535, 65_534, 65_533
_TIMED_MS_MIN = 15
_ON = "P2P_RX_ON already, please disable P2P RX before setting."


class Rui3P2p:
    """P2P mode; remembers whether it sends or receives, until the next reset."""

    NAMES = frozenset(("P2P", "PSEND", "PRECV"))

    def __init__(self, circuit: Circuit, memory: Rui3Memory, version: Rui3Version) -> None:
        self._circuit = circuit
        self._memory = memory
        self._version = version
        self._unstored: dict[str, str] = {}
        self._sending = False
        self._receiving = 0
        self._receivings = 0
        circuit.raw.unasked_raw = self._caught
        self.actions = {
            "P2P": Action(lambda: ":".join(map(self.get, _IN_ONE)), self._set_all),
            "PSEND": Action(write=self._send),
            "PRECV": Action(lambda: f"P2P_RX_{'ON' if self._receiving else 'OFF'}", self._receive),
        }

    def get(self, name: str) -> str:
        return self._unstored.get(name) or self._memory.get(name)

    def set(self, name: str, argument: str) -> Status:
        """Write a setting; not while the receiver is on."""
        if VALUES[name].check(argument) is None:
            return Status.PARAM_ERROR
        refusal = self._refusal()
        if refusal is None:
            self._unstored.pop(name, None)
            return self._memory.set(name, argument)
        return refusal

    def _refusal(self) -> Status | None:
        if self._receiving:
            self._circuit.say(_ON)
            return Status.BUSY_ERROR
        return Status.BUSY_ERROR if self._sending else None

    def _set_all(self, argument: str) -> Status:
        parts = argument.split(":")
        stores = parts[len(_IN_ONE) :] in ([], ["0"])
        if len(parts) < len(_IN_ONE) or not (stores or parts[len(_IN_ONE) :] == ["1"]):
            return Status.PARAM_ERROR
        kept = {
            name: text
            for name, part in zip(_IN_ONE, parts, strict=False)
            if (text := VALUES[name].check(part)) is not None
        }
        if len(kept) < len(_IN_ONE):
            return Status.PARAM_ERROR
        refusal = self._refusal()
        if refusal is None:
            self._unstored = {} if stores else kept
            if stores:
                self._memory.keep(**kept)
        return refusal or Status.OK

    def _send(self, argument: str) -> Status:
        if not _PAYLOAD.fullmatch(argument):
            return Status.PARAM_ERROR
        if self._sending or self._receiving not in (0, _ALWAYS_AND_SEND):
            return Status.BUSY_ERROR
        self._sending = True
        emission = self._circuit.raw.transmit(
            bytes.fromhex(argument),
            self._modulation(),
            power_dbm=int(self.get("PTP")),
            coding_rate=int(self.get("PCR")) + 1,
        )
        # The event comes from an interrupt: with a short frame before the OK.
        is_short = emission.airtime_us < PRINTED_AFTER_US
        self._circuit.spawn(self._sent(emission, is_short=is_short))
        return Status.NOTHING if is_short else Status.OK

    async def _sent(self, emission: Emission, *, is_short: bool) -> None:
        await self._circuit.radio.sleep_until(emission.end_us)
        self._sending = False
        if self._version.tells_ends:
            self._circuit.say("+EVT:TXP2P DONE")
        if is_short:
            self._circuit.say(Status.OK)

    def _receive(self, argument: str) -> Status:
        if not argument.isdecimal() or int(argument) > _UNTIL_ONE:
            return Status.PARAM_ERROR
        wanted = int(argument)
        if 0 < wanted < _TIMED_MS_MIN:
            return Status.PARAM_ERROR
        if wanted and (self._receiving or self._sending):
            return self._refusal() or Status.BUSY_ERROR
        self._receiving = wanted
        self._receivings += 1
        if 0 < wanted < _ALWAYS_AND_SEND:
            self._circuit.spawn(self._time_out(self._receivings, wanted))
        return Status.OK

    async def _time_out(self, receiving: int, wanted_ms: int) -> None:
        await asyncio.sleep(wanted_ms / 1_000)
        if self._receivings == receiving and self._receiving:
            self._receiving = 0
            self._circuit.say("+EVT:RXP2P RECEIVE TIMEOUT")

    def _caught(self, caught: Caught) -> None:
        if not self._receiving or caught.emission.modulation != self._modulation():
            return
        if self._receiving not in (_ALWAYS, _ALWAYS_AND_SEND):
            self._receiving = 0
        if caught.error:
            self._circuit.say("+EVT:RXP2P RECEIVE ERROR")
            return
        signal = f"{caught.rssi_dbm}:{round(caught.snr_db)}"
        self._circuit.say(f"+EVT:RXP2P:{signal}:{caught.emission.phy.hex().upper()}")

    def _modulation(self) -> Modulation:
        return Modulation(
            freq_hz=int(self.get("PFREQ")),
            sf=int(self.get("PSF")),
            bw_hz=_BANDWIDTHS_HZ[int(self.get("PBW"))],
            inverted=self.get("IQINVER") == "1",
            sync_word=self.get("SYNCWORD"),
        )


LINE_BYTES_MAX = 2048
_COMMAND = re.compile(r"AT\+(\w{1,32})(?:(\?)|(=)(.*))?", re.I)
_MODES = {0: "LoRa P2P.", 1: "LoRaWAN.", 2: "FSK."}
_CLASS_B = frozenset(("PGSLOT", "BFREQ", "BTIME", "BGW"))


class Rui3:
    """The command line of one board from a boot to the next; remembers a line that has no end."""

    def __init__(self, circuit: Circuit, version: Rui3Version, *, dev_eui: str) -> None:
        self._circuit = circuit
        self._version = version
        self._memory = Rui3Memory(circuit.nvm, factory_dev_eui=dev_eui)
        self._line = bytearray()
        self._after_cr = False
        self._is_over = False
        self.network: Rui3Network | None = None
        self._p2p: Rui3P2p | None = None
        if self._memory.mode == 1:
            self.network = Rui3Network(circuit, self._memory, version)
        elif self._memory.mode == 0:
            self._p2p = Rui3P2p(circuit, self._memory, version)
        self._facts = self._own_facts(dev_eui)

    def boot(self) -> None:
        self._is_over = False
        self._line.clear()
        self._circuit.write(b"\r\n")
        self._circuit.say(f"Current Work Mode: {_MODES[self._memory.mode]}")
        if self.network is not None:
            self.network.join.boot()

    def hear(self, data: bytes) -> None:
        for octet in data:
            if self._is_over:
                return
            char = bytes([octet])
            if char in (b"\r", b"\n"):
                if not (char == b"\n" and self._after_cr) and self._memory.echoes:
                    self._circuit.write(b"\n\r")
                self._after_cr = char == b"\r"
                self._end_line()
                continue
            self._after_cr = False
            if self._memory.echoes:
                self._circuit.write(char)
            if len(self._line) < LINE_BYTES_MAX:
                self._line += char

    def _end_line(self) -> None:
        text, self._line = self._line.decode("ascii", "replace"), bytearray()
        if not text:
            return
        status = self._obey(text)
        if status is Status.OK_WITHOUT_END:
            self._circuit.write(b"OK")
        elif status is Status.NOT_FOUND and self._version.names_unknown_commands:
            self._circuit.say(f"{text}: Command not found!!")
        elif status is not Status.NOTHING:
            self._circuit.say(status)

    def _obey(self, text: str) -> Status:
        match text.upper():
            case "AT":
                return Status.OK
            case "ATZ":
                self._reset()
                return Status.NOTHING
            case "ATR":
                return self._restore_defaults()
            case "ATE":
                self._memory.echoes = not self._memory.echoes
                return Status.OK
        found = _COMMAND.fullmatch(text)
        if found is None:
            return Status.NOT_FOUND
        name = ALIASES.get(found[1].upper(), found[1].upper())
        action, strange = self._action(name), self._is_of_another_mode(name)
        if strange:
            return Status.MODE_NO_SUPPORT
        if action is None:
            return Status.NOT_FOUND
        if found[2]:
            about = VALUES[name].about if name in VALUES else "see the manual"
            self._circuit.say(f"AT+{name},{'RW' if action.write else 'R'}: {about}")
            return Status.OK
        return self._carry_out(found[1].upper(), action, found[3], found[4])

    def _carry_out(
        self, name: str, action: Action, equals: str | None, argument: str | None
    ) -> Status:
        if not equals:
            return Status.PARAM_ERROR if action.run is None else action.run()
        if argument == "?":
            if action.read is None:
                return Status.PARAM_ERROR
            self._circuit.say(f"AT+{name}={action.read()}")
            return Status.OK
        if not argument or action.write is None:
            return Status.PARAM_ERROR
        return action.write(argument)

    def _action(self, name: str) -> Action | None:
        if name in self._facts:
            return Action(read=lambda: self._facts[name])
        if name == "NWM":
            return Action(lambda: str(self._memory.mode), self._set_mode)
        if name in GENERAL:
            return Action(lambda: self._memory.get(name), lambda v: self._memory.set(name, v))
        if name in _CLASS_B and self.network is not None:
            return Action(lambda: "0", lambda v: Status.NO_CLASS_B, lambda: Status.NO_CLASS_B)
        part = self.network or self._p2p
        if part is None:
            return None
        if name in part.actions:
            return part.actions[name]
        if name in NETWORK or name in P2P:
            return Action(lambda: part.get(name), lambda value: part.set(name, value))
        return None

    def _is_of_another_mode(self, name: str) -> bool:
        if name in P2P or name in Rui3P2p.NAMES:
            return self._p2p is None
        if name in NETWORK or name in Rui3Network.NAMES or name in _CLASS_B:
            return self.network is None
        return False

    def _set_mode(self, argument: str) -> Status:
        if argument not in (("0", "1", "2") if self._circuit.has_raw else ("1",)):
            return Status.PARAM_ERROR
        self._memory.mode = int(argument)
        self._reset()  # also when nothing changes
        return Status.OK_WITHOUT_END

    def _restore_defaults(self) -> Status:
        if self.network is not None and self.network.traffic.busy:
            return Status.BUSY_ERROR
        self._memory.restore_defaults()
        self._reset()
        return Status.NOTHING

    def _reset(self) -> None:
        self._is_over = True
        self._circuit.reset()

    def _own_facts(self, dev_eui: str) -> dict[str, str]:
        number = ".".join(map(str, self._version.number))
        return {
            "VER": self._version.name,
            "FIRMWAREVER": self._version.name,
            "SN": f"RAK{dev_eui[-12:]}".ljust(18, "\0"),
            "HWMODEL": "rak3172",
            "HWID": "stm32wle5xx",
            "UID": f"0080E115{dev_eui}",
            "BUILDTIME": "20241218-093000",
            "CLIVER": "1.5.13",
            "APIVER": "3.2.9",
            "REPOINFO": f"RUI_{number}",
            "SYSV": "3.3",
            "BAT": "3.3",
        }
