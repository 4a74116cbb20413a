"""What does a LoRa-E5 (AT firmware 4.0.11) answer on its serial line?

Written from the firmware's side of the wire. There is no line that ends every answer. Not emulated:
class B, proprietary frames, RTC, watchdog, EEPROM, plans other than EU868 and US915.
"""

import re
from collections.abc import Callable

from bench.virtual.board.circuit import Circuit
from bench.virtual.lora_e5.e5_settings import E5Memory, E5Refusal, E5Settings, Error, require, whole
from bench.virtual.lora_e5.e5_test_mode import E5TestMode
from bench.virtual.lora_e5.e5_traffic import E5Traffic

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
        """Say nothing: this firmware has no banner."""
        self._apply("mode")

    def hear(self, data: bytes) -> None:
        """Take bytes; a line ends with LF."""
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
        self._circuit.write(f"+{command}: {text}\r\n".encode("latin-1"))

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
