"""The far end of a serial port: boards that answer as the documented transcripts do.

Written from the documentation of the dialects, not from the scripts that are tested with them.
"""

import os
import re
import select
import threading
import tty
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

DEFAULTS = {
    **{"NWM": "1", "VER": "RUI_4.2.0_RAK3172-H", "DEVEUI": "AC1F09FFFE000001", "ALIAS": "DUT"},
    **{"APPEUI": "0000000000000000", "APPKEY": "0" * 32, "NJM": "1", "DEVADDR": "00000000"},
    **{"NWKSKEY": "0" * 32, "APPSKEY": "0" * 32, "BAND": "4", "DR": "0", "CLASS": "A", "ADR": "1"},
    **{"TXP": "0", "DCS": "1", "PNM": "1", "JOIN": "1:1:8:0", "MASK": "00FF", "CFM": "0"},
    **{"P2P": "868000000:7:0:0:8:14", "SYNCWORD": "1424", "IQINVER": "0", "ENCRY": "0"},
    **{"CAD": "0", "FIXLENGTHPAYLOAD": "0", "PRECV": "0", "RETY": "0", "LPM": "0"},
    **{"LINKCHECK": "0", "CHS": "0", "UID": "0080E115", "NJS": "0"},
}
READ_ONLY = ("VER",)
P2P_ONLY = ("P2P", "SYNCWORD", "IQINVER", "ENCRY", "CAD", "FIXLENGTHPAYLOAD", "PRECV", "PSEND")


class ScriptedBoard(ABC):
    """A pty whose far end answers each line with what `answer` returns, bytes as they are.

    Remembers every command. A context manager; `port` is what the script opens. The command
    `unplugged_by` is the last one it hears: then the cable is pulled.
    """

    dialect: str

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.unplugged_by: str | None = None
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(5)
        self._unplug()

    def _unplug(self) -> None:
        if self._master >= 0:
            os.close(self._master)
            os.close(self._slave)
            self._master = -1

    @abstractmethod
    def answer(self, command: str) -> bytes:
        """What the board writes in answer to a command."""

    def says(self, *lines: str) -> bytes:
        return "".join(f"{line}\r\n" for line in lines).encode()

    def _serve(self) -> None:
        waiting = b""
        while not self._ended.is_set():
            if not select.select([self._master], [], [], 0.02)[0]:
                continue
            waiting += os.read(self._master, 4096)
            *lines, waiting = re.split(rb"[\r\n]+", waiting)
            for line in filter(None, lines):
                command = line.decode(errors="replace")
                self.commands.append(command)
                if command == self.unplugged_by:
                    self._unplug()
                    return
                os.write(self._master, self.answer(command))


class Rui3Board(ScriptedBoard):
    """A RAK3172: every query is `AT+X=<value>` and `OK`; restarts end with a boot line.

    `deaf_to`: settings that say OK and keep their value. `before_ok`: lines between value and OK.
    """

    dialect = "rui3"

    def __init__(self, **settings: str) -> None:
        super().__init__()
        self.settings = DEFAULTS | settings
        self.restarts = 0
        self.deaf_to: Iterable[str] = ()
        self.before_ok: tuple[str, ...] = ()
        self.echo = False
        self.sending: Callable[[], bytes] = lambda: self.says("OK", "+EVT:TXP2P DONE")

    def answer(self, command: str) -> bytes:
        echoed = command.encode() + b"\n\r" if self.echo else b""
        return echoed + self._status(command)

    def _status(self, command: str) -> bytes:
        if command == "AT":
            return self.says("OK")
        if command in ("ATZ", "ATR"):
            if command == "ATR":
                self.settings = dict(DEFAULTS)
            return self._boot()
        found = re.fullmatch(r"AT\+([A-Z0-9]+)=(.+)", command)
        if found is None or found[1] not in (*self.settings, "PSEND"):
            return self.says("AT_COMMAND_NOT_FOUND")
        key, value = found.groups()
        if key in P2P_ONLY and self.settings["NWM"] != "0":
            return self.says("AT_MODE_NO_SUPPORT")
        if key == "PSEND":
            return self.sending()
        if value == "?":
            return self.says(f"AT+{key}={self.settings[key]}", *self.before_ok, "OK")
        return self._written(key, value)

    def _written(self, key: str, value: str) -> bytes:
        if key in READ_ONLY:
            return self.says("AT_PARAM_ERROR")
        if key not in self.deaf_to:
            if key == "BAND" and value != self.settings["BAND"]:
                self.settings |= {"DR": "0", "TXP": "0"}
            self.settings[key] = value
        if key == "NWM":  # OK without a line end, then it restarts
            return b"OK" + self._boot()
        return self.says("OK")

    def _boot(self) -> bytes:
        self.restarts += 1
        mode = {"0": "LoRa P2P", "1": "LoRaWAN"}[self.settings["NWM"]]
        return b"\r\nRAKwireless RAK3172\r\n------\r\n" + self.says(f"Current Work Mode: {mode}.")


class LoraE5Board(ScriptedBoard):
    """A LoRa-E5 with AT firmware 4.0.11: `+CMD: text`, and no line that ends them all."""

    dialect = "lora-e5"

    def __init__(self) -> None:
        super().__init__()
        self.ids = {
            "DevAddr": "32:30:70:58",
            "DevEui": "2C:F7:F1:20:00:00:00:01",
            "AppEui": "80:00:00:00:00:00:00:06",
        }
        self.keys: dict[str, str] = {}
        self.settings = {"MODE": "LWABP", "ADR": "ON", "CLASS": "A", "POWER": "16"} | {
            "REPT": "1",
            "RETRY": "1",
        }
        self.plan, self.dr = "EU868", 0
        self.radio = "TXPR:12, RXPR:15, POW:14dBm, CRC:ON, IQ:OFF, NET:OFF"
        self.network = "ON"
        self.takes_keys = True

    def answer(self, command: str) -> bytes:
        if command == "AT":
            return self.says("+AT: OK")
        found = re.fullmatch(r"AT\+([A-Z0-9]+)(?:\?|=(.*))?", command)
        if found is None:
            return self.says("+AT: ERROR(-10)")
        key, value = found.groups()
        verb = getattr(self, f"_{key.lower()}", None)
        if verb is not None:
            return verb(value)
        if key not in self.settings:
            return self.says(f"+{key}: ERROR(-10)")
        if value is not None:
            self.settings[key] = value
        return self.says(f"+{key}: {self.settings[key]}")

    def _ver(self, _: str | None) -> bytes:
        return self.says("+VER: 4.0.11")

    def _id(self, value: str | None) -> bytes:
        if value is None:
            return self.says(*(f"+ID: {name}, {text}" for name, text in self.ids.items()))
        name, text = value.replace('"', "").split(",")
        self.ids[name] = ":".join(re.findall("..", text))
        return self.says(f"+ID: {name}, {self.ids[name]}")

    def _key(self, value: str) -> bytes:
        name, text = value.replace('"', "").split(",")
        if not self.takes_keys:
            text = "0" * 32
        self.keys[name] = text
        return self.says(f"+KEY: {name} {' '.join(re.findall('..', text))}")

    def _dr(self, value: str | None) -> bytes:
        if value in ("EU868", "US915"):
            self.plan = value
            return self.says(f"+DR: {value}")
        if value is not None:
            self.dr = int(value)
        return self.says(f"+DR: DR{self.dr}", f"+DR: {self.plan} DR{self.dr}  SF7  BW125K")

    def _ch(self, value: str) -> bytes:
        return self.says(f"+CH: {value.replace(',', ', ')}")

    def _lw(self, value: str) -> bytes:
        return self.says(f"+LW: {value.replace(',', ', ')}, 0")

    def _reset(self, _: str | None) -> bytes:
        return self.says("+RESET: OK")

    def _fdefault(self, value: str | None) -> bytes:
        assert value is None, "RISINGHF belongs to the older module"
        self.settings["MODE"] = "LWABP"
        return self.says("+FDEFAULT: OK")

    def _test(self, value: str) -> bytes:
        if self.settings["MODE"] != "TEST":
            return self.says("+TEST: ERROR(-12)")
        word, _, rest = value.partition(",")
        if word == "RFCFG":
            freq, sf, bw, tx, rx, power, crc, iq, net = rest.split(",")
            net = net if self.network == "ON" else "OFF"
            hertz = round(float(freq) * 1e6)
            return self.says(
                f"+TEST: RFCFG F:{hertz}, {sf}, BW{bw}K, TXPR:{tx}, RXPR:{rx}, POW:{power}dBm, "
                f"CRC:{crc}, IQ:{iq}, NET:{net}"
            )
        return self.says(f"+TEST: {word} {rest}", "+TEST: TX DONE")
