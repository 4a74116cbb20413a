"""How does a LoRa-E5 (Wio-E5), or a Seeeduino LoRaWAN, want to be spoken to?

Answers are `+CMD: text` without a common last line, so every command has an end of its own. Keys
can be written but not read. Factory mode is ABP.
"""

import re

from at_port import AtPort
from board import Identity, Refused, Setting, Wanted, without_separators
from ending import Failed

BAUDS = {"lora-e5": 9_600, "seeeduino": 115_200}
_ERROR = re.compile(r"\+[A-Z0-9]+: ERROR\((-?\d+)\)")
_ERRORS = {
    "-1": "it does not take this value",
    "-10": "this firmware does not know the command",
    "-11": "the command has a wrong format",
    "-12": "not in this mode",
    "-20": "too many parameters",
    "-21": "the command is too long",
    "-22": "the end of the command was not seen in time",
    "-23": "the command has a wrong character",
}
_SF = re.compile(r"\bSF\d+\b")
_DATA_RATE = re.compile(r"\bDR(\d+)\b")
_PLAN = re.compile(r"\b(EU868|US915HYBRID|US915|AU915|AS923|KR920|IN865|RU864|CN470|EU433)\b")
BOOT_S = 5.0
_QUIET_S = 0.4  # AT+DR has no certain last line


class LoraE5:
    """A board of this family at an open port."""

    def __init__(self, port: AtPort, dialect: str = "lora-e5") -> None:
        self.port = port
        self.dialect = dialect

    def tell(self, command: str, last: str, wait_s: float = 3) -> list[str]:
        """The lines up to the one that begins with `last`; Refused on an error line."""

        def ended(line: str) -> bool:
            return line.startswith(last) or _ERROR.fullmatch(line) is not None

        lines = self.port.ask(command, ended, wait_s)
        if (error := _ERROR.fullmatch(lines[-1])) is not None:
            meaning = _ERRORS.get(error[1], "it refuses")
            raise Refused(f"{self.port.url}: {_head(command)} answers {lines[-1]}: {meaning}")
        return lines

    def identity(self) -> Identity:
        """Who it is; Failed if what answers is no board of this family."""
        self.tell("AT", "+AT: OK")
        firmware = self.tell("AT+VER", "+VER: ")[-1].removeprefix("+VER: ")
        mode = self.tell("AT+MODE", "+MODE: ")[-1].removeprefix("+MODE: ")
        dev_eui = self._ids().get("DevEui")
        return Identity(dialect=self.dialect, firmware=firmware, dev_eui=dev_eui, mode=mode)

    def settings(self, wanted: Wanted) -> list[Setting]:
        """Mode and plan first: they decide what the others mean."""
        return [
            Setting(name="activation", key="MODE", value="LWOTAA" if wanted.otaa else "LWABP"),
            Setting(name="region", key="PLAN", value=wanted.region),
            _identifier("DevEUI", "DevEui", wanted.dev_eui),
            *_activation(wanted),
            Setting(name="ADR", key="ADR", value="ON" if wanted.adr else "OFF"),
            Setting(name="data rate", key="DR", value=str(wanted.dr)),
            Setting(name="class", key="CLASS", value=wanted.device_class),
            Setting(name="power", key="POWER", value=str(wanted.power_dbm), comparable=_number),
            *_regional(wanted),
        ]

    def read(self, setting: Setting) -> str | None:
        """What stands in it now; None if it cannot tell."""
        if setting.key in ("DevEui", "AppEui", "DevAddr"):
            return self._ids().get(setting.key)
        if setting.key in ("DR", "PLAN"):
            pattern = _DATA_RATE if setting.key == "DR" else _PLAN
            found = [match[1] for line in self._data_rate() if (match := pattern.search(line))]
            return found[-1] if found else None
        head = f"+{setting.key}: "
        return self.tell(f"AT+{setting.key}", head)[-1].removeprefix(head).strip()

    def write(self, setting: Setting) -> None:
        """Write one setting and compare the answer; Refused if it is another value."""
        if setting.key == "DR":
            self._data_rate(f"={setting.value}")
            return
        command, head = _writing(setting)
        answer = without_separators(self.tell(command, head)[-1].removeprefix(head))
        if not setting.readable and without_separators(setting.value) not in answer:
            raise Refused(
                f"{self.port.url}: {setting.name} was written and the answer holds another value"
            )

    def restart(self) -> None:
        """`AT+RESET`; an OTAA session is lost by that."""
        self.tell("AT+RESET", "+RESET: OK")
        self._wait_until_it_answers()

    def enter_lorawan(self) -> bool:
        """Leave the test mode."""
        if self.tell("AT+MODE", "+MODE: ")[-1] != "+MODE: TEST":
            return False
        self.tell("AT+MODE=LWOTAA", "+MODE: LWOTAA")
        return True

    def factory_reset(self) -> None:
        """`AT+FDEFAULT`; the older module of the Seeeduino wants its maker's name."""
        seeeduino = self.dialect == "seeeduino"
        self.tell("AT+FDEFAULT=RISINGHF" if seeeduino else "AT+FDEFAULT", "+FDEFAULT: ")
        self._wait_until_it_answers()

    def _ids(self) -> dict[str, str]:
        found = {}
        for line in self.tell("AT+ID", "+ID: AppEui"):
            name, comma, value = line.removeprefix("+ID: ").partition(",")
            if line.startswith("+ID: ") and comma:
                found[name] = without_separators(value)
        return found

    def _data_rate(self, value: str = "") -> list[str]:
        """The lines after `AT+DR`: up to the one with the spreading factor, or to silence."""
        lines = self.tell(f"AT+DR{value}", "+DR: ")
        while _SF.search(lines[-1]) is None:
            if (line := self.port.line(_QUIET_S)) is None:
                break
            lines.append(line)
        return lines

    def _wait_until_it_answers(self) -> None:
        tries = 10
        for left in reversed(range(tries)):
            try:
                self.port.ask("AT", lambda line: line == "+AT: OK", 0.5)
            except Failed:
                if left == 0:
                    raise
            else:
                return


def _head(command: str) -> str:
    return command.partition("=")[0]


def _number(text: str) -> str:
    found = re.match(r"\s*(-?\d+)", text)
    return found[1] if found else text


def _activation(wanted: Wanted) -> list[Setting]:
    if wanted.otaa:
        return [
            _identifier("JoinEUI", "AppEui", wanted.join_eui or ""),
            _key("AppKey", "APPKEY", wanted.app_key),
        ]
    return [
        _identifier("DevAddr", "DevAddr", wanted.dev_addr or ""),
        _key("NwkSKey", "NWKSKEY", wanted.nwk_s_key),
        _key("AppSKey", "APPSKEY", wanted.app_s_key),
    ]


def _regional(wanted: Wanted) -> list[Setting]:
    """US915 has channels to choose, EU868 a duty cycle."""
    if wanted.region == "US915":
        first = 8 * (wanted.sub_band - 1)
        channels = f"NUM, {first}-{first + 7}"
        return [Setting(name="channels", key="CH", value=channels, readable=False)]
    duty_cycle = "ON" if wanted.duty_cycle else "OFF"
    settings = [Setting(name="duty cycle", key="DC", value=duty_cycle, readable=False)]
    if not wanted.duty_cycle:
        settings.append(Setting(name="join duty cycle", key="JDC", value="OFF", readable=False))
    return settings


def _identifier(name: str, key: str, value: str) -> Setting:
    return Setting(name=name, key=key, value=value, comparable=without_separators)


def _key(name: str, key: str, value: str | None) -> Setting:
    return Setting(
        name=name,
        key=key,
        value=value or "",
        secret=True,
        readable=False,
        comparable=without_separators,
    )


def _writing(setting: Setting) -> tuple[str, str]:
    """The command that writes a setting, and how its answer begins."""
    value = setting.value
    match setting.key:
        case "DevEui" | "AppEui" | "DevAddr":
            return f'AT+ID={setting.key},"{value}"', f"+ID: {setting.key}"
        case "APPKEY" | "NWKSKEY" | "APPSKEY":
            return f'AT+KEY={setting.key},"{value}"', f"+KEY: {setting.key}"
        case "PLAN":
            return f"AT+DR={value}", "+DR: "
        case "DC" | "JDC":
            return f"AT+LW={setting.key},{value}", f"+LW: {setting.key}"
        case "CH":
            return f"AT+CH={value.replace(' ', '')}", "+CH: "
        case key:
            return f"AT+{key}={value}", f"+{key}: "
