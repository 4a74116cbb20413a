"""What does a LoRa-E5 (AT firmware 4.0.11) answer on its serial line?

Written from the firmware's side of the wire. There is no line that ends every answer. Not emulated:
class B, proprietary frames, RTC, watchdog, EEPROM, plans other than EU868 and US915.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from bench.transmission import Transmission
from bench.virtual.air import PRIVATE, PUBLIC, Caught, Emission, Modulation, Received
from bench.virtual.e5_settings import (
    E5Memory,
    E5Refusal,
    E5Settings,
    Error,
    hertz,
    octets,
    require,
    whole,
)
from bench.virtual.lorawan.air_interface import Downlink, Keys, Session, last_down
from bench.virtual.lorawan.channel_plan import Lora
from bench.virtual.mac import Circuit, Cycle, Mac, MacSettings, Tries
from bench.virtual.stacks import LORAMAC_44, NEVER_COUNTED
from lns.clock import now_us

_ON_OFF = {"ON": True, "OFF": False}
_SPREADING = ("SF5", "SF6", "SF7", "SF8", "SF9", "SF10", "SF11", "SF12")
_BANDWIDTHS = ("125", "250", "500")
_MODULATION = Modulation(freq_hz=868_000_000, sf=7, bw_hz=125_000, sync_word=PRIVATE)


@dataclass(frozen=True, slots=True)
class RfConfig:
    """What AT+TEST=RFCFG sets; the rest as the firmware has it by itself."""

    modulation: Modulation
    tx_preamble: int = 12
    rx_preamble: int = 15
    power_dbm: int = 14
    crc: bool = True

    def __str__(self) -> str:
        how = self.modulation
        words = {True: "ON", False: "OFF"}
        return (
            f"F:{how.freq_hz}, SF{how.sf}, BW{how.bw_hz // 1000}K, TXPR:{self.tx_preamble}, "
            f"RXPR:{self.rx_preamble}, POW:{self.power_dbm}dBm, CRC:{words[self.crc]}, "
            f"IQ:{words[how.inverted]}, NET:{words[how.sync_word == PUBLIC]}"
        )


class E5TestMode:
    """Test mode of one module; remembers its radio settings and whether it listens."""

    def __init__(self, circuit: Circuit, memory: E5Memory, say: Callable[[str, str], None]) -> None:
        self._circuit = circuit
        self._memory = memory
        self._say = say
        self._config = RfConfig(_MODULATION)
        self._listens = self._sends = False

    def use(self, is_test: bool) -> None:
        self._listens = False
        if is_test:
            self._circuit.raw.unasked_raw = self._caught

    def obey(self, text: str) -> list[str]:
        require(self._memory.get("mode") == "TEST", Error.MODE)
        words = [word.strip() for word in text.split(",")]
        match words[0].upper():
            case "RFCFG":
                if len(words) > 1:
                    self._config = _rf_config(words[1:])
                return [f"RFCFG {self._config}"]
            case "TXLRPKT" if len(words) == 2:
                require(not self._sends, Error.MODE)
                return self._send(words[1])
            case "RXLRPKT":
                self._listens = True
                return ["RXLRPKT"]
            case "STOP":
                self._listens = False
                return ["STOP"]
        raise E5Refusal(Error.PARAMETERS)

    def _send(self, text: str) -> list[str]:
        payload, how = octets(text), self._config
        require(bool(payload))
        self._listens, self._sends = False, True  # sending ends listening
        emission = self._circuit.raw.transmit(payload, how.modulation, power_dbm=how.power_dbm)
        self._circuit.spawn(self._sent(emission))
        return [f'TXLRPKT "{payload.hex().upper()}"']

    async def _sent(self, emission: Emission) -> None:
        await self._circuit.radio.sleep_until(emission.end_us)
        self._sends = False
        self._say("TEST", "TX DONE")

    def _caught(self, caught: Caught) -> None:
        emission = caught.emission
        if not self._listens or caught.error or emission.modulation != self._config.modulation:
            return
        signal = f"RSSI:{caught.rssi_dbm}, SNR:{round(caught.snr_db)}"
        self._say("TEST", f"LEN:{len(emission.phy)}, {signal}")
        self._say("TEST", f'RX "{emission.phy.hex().upper()}"')


def _rf_config(words: list[str]) -> RfConfig:
    require(len(words) <= 9, Error.TOO_MANY)
    require(len(words) == 9)
    freq, sf, bandwidth, tx_preamble, rx_preamble, power, *flags = (w.upper() for w in words)
    require(sf in _SPREADING and bandwidth in _BANDWIDTHS and all(f in _ON_OFF for f in flags))
    crc, inverted, public = (_ON_OFF[flag] for flag in flags)
    modulation = Modulation(
        freq_hz=hertz(freq),
        sf=int(sf[2:]),
        bw_hz=int(bandwidth) * 1000,
        inverted=inverted,
        sync_word=PUBLIC if public else PRIVATE,
    )
    return RfConfig(
        modulation, whole(tx_preamble, 1, 65_535), whole(rx_preamble, 1, 65_535),
        whole(power, -20, 22), crc,
    )  # fmt: skip


RETRY_US = (3_000_000, 10_000_000)
STACK = replace(LORAMAC_44, lowers_data_rate=False, draws_dev_nonce=False)
"""The module counts its DevNonces, and repeats with the same data rate."""
SETTLING_S = 1.3
"""From the join-accept to the end of the join, which takes 6.5 to 8 s."""
_BUSY = "LoRaWAN modem is busy"
_IDENTITY = ("mode", "DevAddr", "NWKSKEY", "APPSKEY")
_TEXT = re.compile(r'"?(.*?)"?', re.S)
Say = Callable[[str, str], None]


class E5Traffic:
    """Joins and messages of one module from a boot to the next."""

    def __init__(self, circuit: Circuit, memory: E5Memory, say: Say) -> None:
        self._circuit = circuit
        self._memory = memory
        self._say = say
        self._busy = False
        settings = memory.mac_settings()
        self._radio = circuit.radio
        self._mac: Mac = Mac(circuit, settings, stack=STACK)
        self._use(settings)
        self._mac.heard_unasked = lambda received: self._tell_downlink("MSG", received)

    def apply(self, name: str) -> None:
        """A setting was written: hand it to the MAC."""
        mac, made = self._mac, self._memory.mac_settings()
        made.nb_trans = mac.settings.nb_trans
        if mac.session is not None and name != "delays":
            made.rx1_delay_us = mac.settings.rx1_delay_us
            made.rx2_delay_us = mac.settings.rx2_delay_us
            made.rx2_dr = mac.settings.rx2_dr if name != "rx2" else made.rx2_dr
        self._use(made)
        if name not in _IDENTITY:
            return
        if self._memory.get("mode") == "LWABP":
            self._begin_fixed_session(anew=name != "mode")
        elif name == "mode":
            mac.session = None
        self._radio.hear_always()

    def _use(self, settings: MacSettings) -> None:
        self._mac.settings = settings
        self._radio.tune(settings.plan, public=settings.public)

    def dev_addr(self) -> str:
        session = self._mac.session
        return str(session.dev_addr if session else self._memory.get("DevAddr"))

    def counters(self) -> tuple[int, int]:
        session = self._mac.session
        return (session.f_cnt_up, session.counters()["down"] + 1) if session else (0, 0)

    def set_counters(self, up: int, down: int) -> None:
        session = self._mac.session
        if session is None:
            raise E5Refusal(Error.MODE)
        session.f_cnt_up, session.f_cnt_down = up, down - 1 if down else None
        self._keep_counters()

    def max_payload(self) -> int:
        return self._mac.max_payload(self._mac.settings.dr)

    def join(self, text: str) -> list[str]:
        mode = self._memory.get("mode")
        require(mode != "TEST", Error.MODE)
        if mode != "LWOTAA":
            return ["Not in OTAA mode"]
        if self._busy:
            return [_BUSY]
        forced = text.upper().startswith("FORCE")
        if self._mac.session is not None and not forced:
            return ["Joined already"]
        if self._memory.get("jdc") and self._mac.restricted_us(self._mac.settings.dr):
            return ["No free channel"]
        self._begin(self._join())
        return ["Start", "FORCE" if forced else "NORMAL"]

    def send(self, command: str, text: str) -> list[str]:
        """AT+MSG, AT+CMSG, AT+MSGHEX, AT+CMSGHEX; without text an empty frame."""
        require(self._memory.get("mode") != "TEST", Error.MODE)
        found = _TEXT.fullmatch(text)
        assert found is not None
        payload = octets(text) if command.endswith("HEX") else found[1].encode("latin-1")
        if self._busy:
            return [_BUSY]
        if self._mac.session is None:
            return ["Please join network first"]
        wait_us = self._mac.restricted_us(self._mac.settings.dr)
        if wait_us:
            return [f"No band in {wait_us // 1000}ms"]
        if len(payload) > self.max_payload():
            return [f"Length error {self.max_payload()}"]
        self._begin(self._cycle(command, payload))
        return ["Start"]

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._busy = True
        self._circuit.spawn(self._occupied(work))

    async def _occupied(self, work: Coroutine[Any, Any, None]) -> None:
        await work
        self._busy = False

    async def _join(self) -> None:
        memory, mac = self._memory, self._mac
        mac.session = None
        self._use(memory.mac_settings())
        dev_nonce = memory.get("dev_nonce") + 1
        memory.put(dev_nonce=dev_nonce)
        session = await mac.join(
            bytes.fromhex(memory.get("APPKEY")),
            dev_eui=memory.get("DevEui"),
            join_eui=memory.get("AppEui"),
            dev_nonce=dev_nonce,
            sent=self._log_sent,
        )
        if session is None:
            self._say("JOIN", "Join failed")
        else:
            await asyncio.sleep(SETTLING_S)
            self._say("JOIN", "Network joined")
            address = ":".join(session.dev_addr[at : at + 2] for at in range(0, 8, 2))
            self._say("JOIN", f"NetID {session.net_id} DevAddr {address}")
        self._say("JOIN", "Done")

    async def _cycle(self, command: str, payload: bytes) -> None:
        session, confirmed = self._mac.session, command.startswith("C")
        assert session is not None
        port = self._memory.get("port") if payload else None
        phy = self._mac.uplink(payload, port, confirmed=confirmed)
        cycle: Cycle = Cycle(confirmed)
        await self._mac.deliver(phy, cycle, self._tries(command, confirmed=confirmed))
        self._keep_counters()
        if cycle.acknowledged:
            self._say(command, "ACK Received")
        if cycle.downlink is not None:
            self._tell_downlink(command, cycle.downlink)
        self._say(command, "Done")

    def _tries(self, command: str, *, confirmed: bool) -> Tries:
        memory, settings = self._memory, self._mac.settings
        number = max(memory.get("retry"), 1) if confirmed else memory.get("rept")

        def on_sent(this: int, sent: Transmission) -> None:
            self._log_sent(sent)
            if confirmed:
                self._say(command, "Wait ACK")

        return Tries(number=max(number, settings.nb_trans), wait_us=RETRY_US, on_sent=on_sent)

    def _tell_downlink(self, command: str, received: Received[Downlink]) -> None:
        downlink, caught = received.content, received.heard
        self._log_received(received)
        if downlink.f_pending:
            self._say(command, "FPENDING")
        if downlink.f_port and downlink.payload:
            self._say(command, f'PORT: {downlink.f_port}; RX: "{downlink.payload.hex().upper()}"')
        slot = received.slot if received.slot in ("1", "2") else "2"
        self._say(command, f"RXWIN{slot}, RSSI {caught.rssi_dbm}, SNR {caught.snr_db:.1f}")

    def _log_sent(self, sent: Transmission) -> None:
        if self._memory.get("log") == "DEBUG":
            self._log(f"LORA TX, {_described(sent)}, 8, {sent.power_dbm}")
            self._log(f"LORA TX, {sent.phy.hex().upper()}")

    def _log_received(self, received: Received[Downlink]) -> None:
        if self._memory.get("log") == "DEBUG":
            caught = received.heard
            phy = caught.phy.hex().upper()
            self._log(f"LORA RX, {phy}, {caught.rssi_dbm}, {caught.snr_db:.1f}")

    def _log(self, text: str) -> None:
        self._say("LOG", f"DEBUG {now_us() // 1000} {text}")

    def _begin_fixed_session(self, *, anew: bool) -> None:
        memory = self._memory
        counters = memory.get("counters")
        if counters is None or anew:
            counters = NEVER_COUNTED
        self._mac.session = Session(
            dev_addr=memory.get("DevAddr"),
            keys=Keys(bytes.fromhex(memory.get("NWKSKEY")), bytes.fromhex(memory.get("APPSKEY"))),
            f_cnt_up=counters["up"],
            f_cnt_down=last_down(counters),
        )

    def _keep_counters(self) -> None:
        if self._mac.session is not None and self._memory.get("mode") == "LWABP":
            self._memory.put(counters=self._mac.session.counters())


def _described(sent: Transmission) -> str:
    rate = sent.data_rate
    sf, bw_hz = (rate.sf, rate.bw_hz) if isinstance(rate, Lora) else (0, 0)
    return f"{sent.freq_hz}, SF{sf}, {bw_hz // 1000}KHz"


LINE_BYTES_MAX = 528
_COMMAND = re.compile(r"AT(?:\+(\w{1,16})(?:\s*(?:=|(\?))\s*(.*))?)?", re.I | re.S)
_WAKE = b"\xff\xff\xff\xff"


class LoraE5:
    """The command line of one module; remembers a line that has no end, and whether it sleeps."""

    def __init__(self, circuit: Circuit, version: str, *, dev_eui: str) -> None:
        self._circuit = circuit
        self._version = version
        self._memory = E5Memory(circuit.nvm, dev_eui=dev_eui)
        self._line = bytearray()
        self._is_over = self._sleeps = self._sleeps_again = False
        self._traffic = E5Traffic(circuit, self._memory, self._say)
        self._settings = E5Settings(self._memory, self._traffic.dev_addr)
        self._settings.changed = self._apply
        self._test = E5TestMode(circuit, self._memory, self._say)
        self._commands: dict[str, Callable[[str], list[str]]] = {
            **self._settings.handlers,
            "VER": lambda text: [self._version],
            "LW": self._lw,
            "RESET": self._reset,
            "FDEFAULT": self._factory,
            "UART": lambda text: [text.replace(",", ", ")],
            "LOWPOWER": self._low_power,
            "JOIN": self._traffic.join,
            "TEST": self._test.obey,
            **{name: self._sender(name) for name in ("MSG", "CMSG", "MSGHEX", "CMSGHEX")},
        }

    def boot(self) -> None:
        self._apply("mode")

    def hear(self, data: bytes) -> None:
        if self._sleeps:
            self._sleeps = False
            self._say("LOWPOWER", "WAKEUP")
            return
        if self._sleeps_again:
            if _WAKE not in data:
                return
            data = data.partition(_WAKE)[2]
        for octet in data:
            if self._is_over:
                return
            if octet == ord("\n"):
                text, self._line = self._line.decode("latin-1").strip(), bytearray()
                if text:
                    self._obey(text)
            elif len(self._line) <= LINE_BYTES_MAX:
                self._line.append(octet)

    def _say(self, command: str, text: str) -> None:
        self._circuit.say(f"+{command}: {text}")

    def _obey(self, text: str) -> None:
        found = _COMMAND.fullmatch(text)
        if found is None:
            return self._say("AT", f"ERROR({Error.FORMAT})")
        if found[1] is None:
            return self._say("AT", "OK")
        name = found[1].upper()
        argument = "" if found[3] in (None, "?") else found[3].strip()
        try:
            require(len(text) <= LINE_BYTES_MAX, Error.TOO_LONG)
            require(name in self._commands, Error.UNKNOWN)
            for line in self._commands[name](argument):
                self._say(name, line)
        except E5Refusal as refusal:
            self._say(name, f"ERROR({refusal.error})")
        if self._is_over:
            self._circuit.reset()

    def _sender(self, name: str) -> Callable[[str], list[str]]:
        return lambda text: self._traffic.send(name, text)

    def _apply(self, name: str) -> None:
        is_test = self._memory.get("mode") == "TEST"
        self._test.use(is_test)
        if not is_test:
            self._traffic.apply(name)

    def _reset(self, text: str) -> list[str]:
        self._is_over = True
        return ["OK"]

    def _factory(self, text: str) -> list[str]:
        self._memory.factory()
        self._apply("mode")
        return ["OK"]

    def _low_power(self, text: str) -> list[str]:
        if text.upper() in ("AUTOON", "AUTOOFF"):
            self._sleeps_again = text.upper() == "AUTOON"
            return [text.upper()]
        self._sleeps = True
        return ["SLEEP"]

    def _lw(self, text: str) -> list[str]:
        words = [word.strip().upper() for word in text.split(",")]
        match words:
            case ["ULDL"]:
                return [f"ULDL, {', '.join(map(str, self._traffic.counters()))}"]
            case ["ULDL", up, down]:
                self._traffic.set_counters(whole(up, 0, 2**32 - 1), whole(down, 0, 2**32 - 1))
                return [f"ULDL, {up}, {down}"]
            case ["DC" | "JDC" | "NET" as name, *rest]:
                if rest:
                    require(rest[0] in ("ON", "OFF"))
                    self._memory.put(**{name.lower(): rest[0] == "ON"})
                    self._apply(name.lower())
                is_on = "ON" if self._memory.get(name.lower()) else "OFF"
                return [f"{name}, {is_on}{', 0' if name == 'DC' else ''}"]
            case ["LEN"]:
                return [f"LEN, {self._traffic.max_payload()}"]
            case ["LCR"]:
                return ["LCR"]
        raise E5Refusal(Error.PARAMETERS)
