"""What does a board with RUI3 answer on its serial line?

Written from the firmware's side of the wire. Not played: class B beacons, RAK's own fragmentation,
multicast, RF tests, the serial password, regions other than EU868 and US915.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from bench.virtual.board.circuit import Circuit
from bench.virtual.rui3.rui3_lorawan import Rui3Network
from bench.virtual.rui3.rui3_p2p import Rui3P2p
from bench.virtual.rui3.rui3_values import (
    ALIASES,
    GENERAL,
    NETWORK,
    P2P,
    VALUES,
    Rui3Memory,
    Rui3Version,
    Status,
)

LINE_BYTES_MAX = 2048
_COMMAND = re.compile(r"AT\+(\w{1,32})(?:(\?)|(=)(.*))?", re.I)
_MODES = {0: "LoRa P2P.", 1: "LoRaWAN.", 2: "FSK."}
_CLASS_B = frozenset(("PGSLOT", "BFREQ", "BTIME", "BGW"))


@dataclass(frozen=True, slots=True)
class Action:
    """A command that is no value: how it is read, written, and carried out without argument."""

    read: Callable[[], str] | None = None
    write: Callable[[str], Status] | None = None
    run: Callable[[], Status] | None = None


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
            self.network = Rui3Network(circuit, self._memory, version, self._say)
        elif self._memory.mode == 0:
            self._p2p = Rui3P2p(circuit, self._memory, version, self._say)
        self._facts = self._own_facts(dev_eui)

    def boot(self) -> None:
        """The banner; then an auto-join, where it was asked for."""
        self._is_over = False
        self._line.clear()
        self._circuit.write(b"\r\n")
        self._say(f"Current Work Mode: {_MODES[self._memory.mode]}")
        if self.network is not None:
            self.network.boot()

    def hear(self, data: bytes) -> None:
        """Take bytes; CR or LF ends a command, and echo shows the end as LF CR."""
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
            self._say(f"{text}: Command not found!!")
        elif status is not Status.NOTHING:
            self._say(status)

    def _say(self, text: str) -> None:
        self._circuit.write(text.encode("latin-1") + b"\r\n")

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
            self._say(f"AT+{name},{'RW' if action.write else 'R'}: {about}")
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
            self._say(f"AT+{name}={action.read()}")
            return Status.OK
        if not argument or action.write is None:
            return Status.PARAM_ERROR
        return action.write(argument)

    def _action(self, name: str) -> Action | None:
        """What a command does in this mode."""
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
        special = part.actions.get(name)
        if special is not None:
            return Action(*special)
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
        if argument not in (("0", "1", "2") if self._circuit.chip else ("1",)):
            return Status.PARAM_ERROR
        self._memory.mode = int(argument)
        self._reset()  # also when nothing changes
        return Status.OK_WITHOUT_END

    def _restore_defaults(self) -> Status:
        if self.network is not None and self.network.busy:
            return Status.BUSY_ERROR
        self._memory.restore_defaults()
        self._reset()
        return Status.NOTHING

    def _reset(self) -> None:
        self._is_over = True
        self._circuit.reset()

    def _own_facts(self, dev_eui: str) -> dict[str, str]:
        """What can only be read."""
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
