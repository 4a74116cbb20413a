"""What can be set in a LoRa-E5, what does it keep, and how does it refuse?"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from bench.virtual.lorawan.channel_plan import PLANS, ChannelPlan, Lora
from bench.virtual.mac import MacSettings, Nvm


class Error(IntEnum):
    """The number in `+X: ERROR(-n)`."""

    PARAMETERS = -1
    UNKNOWN = -10
    FORMAT = -11
    MODE = -12
    TOO_MANY = -20
    TOO_LONG = -21
    CHARACTER = -23


class E5Refusal(Exception):
    """A command that is not carried out; `error` says why."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.name)
        self.error = error


def require(fine: bool, error: Error = Error.PARAMETERS) -> None:
    """E5Refusal unless it is fine."""
    if not fine:
        raise E5Refusal(error)


def whole(text: str, low: int, high: int) -> int:
    """A whole number in a range; E5Refusal for anything else."""
    digits = text.strip().removeprefix("-")
    require(digits.isascii() and digits.isdecimal())
    require(low <= int(text) <= high)
    return int(text)


def octets(text: str, count: int | None = None) -> bytes:
    """The bytes in quoted or plain hexadecimal, blanks allowed; E5Refusal for anything else."""
    digits = text.strip().strip('"').replace(" ", "").replace(":", "")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        raise E5Refusal(Error.CHARACTER) from None
    require(count is None or len(data) == count)
    return data


_PLANS = {plan.e5_plan: plan for plan in PLANS.values()}
_DEFAULTS: dict[str, Any] = {
    "mode": "LWABP",
    "region": "EU868",
    "dr": 0,
    "adr": True,
    "power_dbm": 14,
    "class": "A",
    "port": 8,
    "rept": 1,
    "retry": 0,
    "dc": True,
    "jdc": True,
    "net": True,
    "channels": None,
    "freqs_hz": {},
    "rx2": None,
    "delays_ms": {"RX1": 1000, "RX2": 2000, "JRX1": 5000, "JRX2": 6000},
    "DevAddr": "00000000",
    "AppEui": "0" * 16,
    "APPKEY": "0" * 32,
    "NWKSKEY": "0" * 32,
    "APPSKEY": "0" * 32,
    "dev_nonce": 0,
    "counters": None,
    "log": "",
}


class E5Memory:
    """Settings by name; `dev_eui` is what is on the label."""

    def __init__(self, nvm: Nvm, *, dev_eui: str) -> None:
        self._nvm = nvm
        self._dev_eui = dev_eui

    def get(self, name: str) -> Any:
        return self._nvm.get(name, self._dev_eui if name == "DevEui" else _DEFAULTS[name])

    def put(self, **values: Any) -> None:
        self._nvm.put(**values)

    def factory(self) -> None:
        """AT+FDEFAULT: all settings as they left the factory; the DevNonce counts on."""
        self._nvm.erase("boots", "dev_nonce", "DevEui")

    @property
    def plan(self) -> ChannelPlan:
        return _PLANS[self.get("region")]

    def mac_settings(self) -> MacSettings:
        plan, delays_ms = self.plan, self.get("delays_ms")
        rx2_hz, rx2_dr = self.get("rx2") or (plan.rx2_freq_hz, plan.rx2_dr)
        channels = self.get("channels")
        return MacSettings(
            plan=plan,
            dr=self.get("dr"),
            power_dbm=self.get("power_dbm"),
            adr=self.get("adr"),
            duty_cycle=self.get("dc"),
            class_c=self.get("class") == "C",
            public=self.get("net"),
            rx1_delay_us=delays_ms["RX1"] * 1_000,
            rx2_delay_us=delays_ms["RX2"] * 1_000,
            join1_delay_us=delays_ms["JRX1"] * 1_000,
            join2_delay_us=delays_ms["JRX2"] * 1_000,
            rx2_dr=rx2_dr,
            rx2_freq_hz=rx2_hz,
            added_channels_hz=tuple(hz for _, hz in sorted(self.get("freqs_hz").items())),
            masked=None if channels is None else frozenset(channels),
        )


Handler = Callable[[str], list[str]]
_IDS = {"DEVADDR": ("DevAddr", 4), "DEVEUI": ("DevEui", 8), "APPEUI": ("AppEui", 8)}
_KEYS = ("APPKEY", "NWKSKEY", "APPSKEY")
_MODES = ("LWOTAA", "LWABP", "TEST")
_DELAYS = ("RX1", "RX2", "JRX1", "JRX2")
_ALL_PLANS = (
    "EU868", "US915", "US915HYBRID", "AU915", "AU915OLD", "CN470", "CN779", "EU433", "AS923",
    "KR920", "IN865", "RU864",
)  # fmt: skip


class E5Settings:
    """Settings of one module; `changed` is called with the name after each that the MAC feels."""

    def __init__(self, memory: E5Memory, dev_addr: Callable[[], str]) -> None:
        self.changed: Callable[[str], None] = lambda name: None
        self._memory = memory
        self._dev_addr = dev_addr
        self.handlers: dict[str, Handler] = {
            "ID": self._id,
            "KEY": self._key,
            "MODE": self._mode,
            "DR": self._dr,
            "CH": self._ch,
            "ADR": lambda text: self._switch("adr", text),
            "CLASS": self._class,
            "PORT": lambda text: self._number("port", text, 1, 255),
            "REPT": lambda text: self._number("rept", text, 1, 15),
            "RETRY": lambda text: self._number("retry", text, 0, 254),
            "POWER": lambda text: self._number("power_dbm", text, -20, 30),
            "RXWIN2": self._rxwin2,
            "DELAY": self._delay,
            "LOG": self._log,
        }

    def _id(self, text: str) -> list[str]:
        name, _, value = text.partition(",")
        if not name:
            return [self._shown(key) for key in _IDS]
        require(name.strip().upper() in _IDS)
        kept, size = _IDS[name.strip().upper()]
        if value:
            self._keep(kept, octets(value, size))
        return [self._shown(name.strip().upper())]

    def _shown(self, key: str) -> str:
        name, _ = _IDS[key]
        value = self._dev_addr() if key == "DEVADDR" else self._memory.get(name)
        return f"{name}, {':'.join(value[at : at + 2] for at in range(0, len(value), 2))}"

    def _key(self, text: str) -> list[str]:
        name, _, value = text.partition(",")
        name = name.strip().upper()
        require(name in _KEYS and bool(value))
        self._keep(name, octets(value, 16))
        return [f"{name} {self._memory.get(name)}"]

    def _keep(self, name: str, data: bytes) -> None:
        text = data.hex().upper()
        if text != self._memory.get(name):
            self._set(name, text)

    def _set(self, name: str, value: object) -> None:
        self._memory.put(**{name: value})
        self.changed(name)

    def _mode(self, text: str) -> list[str]:
        if text:
            require(text.upper() in _MODES)
            changes = text.upper() != self._memory.get("mode")
            self._memory.put(mode=text.upper())
            if changes:
                self.changed("mode")
        return [self._memory.get("mode")]

    def _dr(self, text: str) -> list[str]:
        word = text.upper()
        if word in _PLANS:
            self._memory.put(region=word, dr=0, channels=None, freqs_hz={}, rx2=None)
            self.changed("region")
            return [word]
        require(word not in _ALL_PLANS)  # plans that this emulation does not know
        if word:
            drs = self._memory.plan.up_drs
            self._set("dr", whole(word.removeprefix("DR"), 0, len(drs) - 1))
        dr = self._memory.get("dr")
        data_rate = self._memory.plan.data_rates[dr]
        shown = "FSK"
        if isinstance(data_rate, Lora):
            shown = f"SF{data_rate.sf}  BW{data_rate.bw_hz // 1000}K"
        return [f"DR{dr}", f"{self._memory.get('region')} DR{dr}  {shown}"]

    def _ch(self, text: str) -> list[str]:
        words = [word.strip() for word in text.split(",")]
        known = self._memory.plan.default_channels
        if words[0].upper() == "NUM":
            if len(words) > 1:
                self._set("channels", _numbers(words[1:]))
            listed = self._memory.get("channels") or [*range(len(known))]
            return [f"NUM, {', '.join(words[1:]) or _ranges(listed)}"]
        if not text:
            return [f"{n},{c.freq_hz},DR{c.drs[0]},DR{c.drs[-1]}" for n, c in enumerate(known[:16])]
        number = whole(words[0], 0, 95)
        if len(words) == 1:
            require(number < len(known))
        elif number < len(known):
            require(hertz(words[1]) == known[number].freq_hz)  # the channels of the plan are fixed
        else:
            self._memory.put(freqs_hz={**self._memory.get("freqs_hz"), number: hertz(words[1])})
            self.changed("channels")
            return [f"{number},{hertz(words[1])},DR0,DR5"]
        channel = known[number]
        return [f"{number},{channel.freq_hz},DR{channel.drs[0]},DR{channel.drs[-1]}"]

    def _class(self, text: str) -> list[str]:
        if text:
            require(text.upper() in ("A", "C"))
            self._set("class", text.upper())
        return [self._memory.get("class")]

    def _switch(self, name: str, text: str) -> list[str]:
        if text:
            require(text.upper() in ("ON", "OFF"))
            self._set(name, text.upper() == "ON")
        return ["ON" if self._memory.get(name) else "OFF"]

    def _number(self, name: str, text: str, low: int, high: int) -> list[str]:
        if text:
            self._set(name, whole(text, low, high))
        return [str(self._memory.get(name))]

    def _rxwin2(self, text: str) -> list[str]:
        if text:
            freq, _, dr = text.upper().partition(",")
            known = len(self._memory.plan.data_rates) - 1
            self._set("rx2", [hertz(freq), whole(dr.strip().removeprefix("DR"), 0, known)])
        settings = self._memory.mac_settings()
        return [f"{settings.rx2_freq_hz},DR{settings.rx2_dr}"]

    def _delay(self, text: str) -> list[str]:
        delays_ms = dict(self._memory.get("delays_ms"))
        if not text:
            return [f"{name}, {delays_ms[name]}" for name in _DELAYS]
        name, _, value = text.upper().partition(",")
        require(name in _DELAYS)
        delays_ms[name] = whole(value, 100, 16_000)
        self._memory.put(delays_ms=delays_ms)
        self.changed("delays")
        return [f"{name}, {delays_ms[name]}"]

    def _log(self, text: str) -> list[str]:
        require(text.upper() in ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "PANIC", "QUIET"))
        self._memory.put(log=text.upper())
        return [text.upper()]


def hertz(text: str) -> int:
    """A frequency in MHz, with at most six digits behind the point; E5Refusal."""
    whole_mhz, _, rest = text.strip().partition(".")
    if not (whole_mhz + rest).isdecimal() or len(rest) > 6:
        raise E5Refusal(Error.PARAMETERS)
    return int(whole_mhz) * 1_000_000 + int(rest.ljust(6, "0"))


def _numbers(words: list[str]) -> list[int]:
    found: list[int] = []
    for word in words:
        first, _, last = word.partition("-")
        found += range(whole(first, 0, 95), whole(last or first, 0, 95) + 1)
    return found


def _ranges(numbers: list[int]) -> str:
    return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
