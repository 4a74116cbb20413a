"""How does a RAK board with RUI3 want to be spoken to?

A query is `AT+X=?` and answers `AT+X=<value>` and a status line; events (`+EVT:`) may stand in
between. `ATZ`, `ATR` and `AT+NWM=<n>` restart the board: wait for `Current Work Mode:`.
"""

import re

from at_port import AtPort, Silent
from board import Identity, Refused, Setting, Wanted, without_separators
from ending import Failed

BAUD = 115_200
_STATUS = frozenset(
    "OK AT_ERROR AT_PARAM_ERROR AT_BUSY_ERROR AT_TEST_PARAM_OVERFLOW AT_NO_CLASSB_ENABLE "
    "AT_NO_NETWORK_JOINED AT_RX_ERROR AT_MODE_NO_SUPPORT AT_COMMAND_NOT_FOUND "
    "AT_UNSUPPORTED_BAND COMMAND_LOCKED".split()
)
_MEANING = {
    "AT_BUSY_ERROR": "the radio is busy or waits for its duty cycle; try again in some seconds",
    "AT_COMMAND_NOT_FOUND": "this firmware does not know the command",
    "AT_MODE_NO_SUPPORT": "not in this work mode (LoRaWAN or P2P)",
    "AT_PARAM_ERROR": "it does not take this value",
    "AT_UNSUPPORTED_BAND": "this board or firmware is not made for the region",
    "COMMAND_LOCKED": "its serial port is locked with a password",
}
_BOOTED = re.compile(r"Current Work Mode: (LoRaWAN|LoRa P2P|FSK)\.?")
_VERSION = re.compile(r"RUI_(\d+)\.(\d+)\.(\d+)")
_BANDS = {"EU868": "4", "US915": "5"}
_POWER_INDEX_0_DBM = {"EU868": 16, "US915": 30}  # index n is 2 n dB less
BOOT_S = 5.0


def _is_status(line: str) -> bool:
    return line in _STATUS or line.endswith("Command not found!!")


def _auto_join(text: str) -> str:
    """Of `start:auto:period:attempts` only whether it joins by itself after a restart."""
    fields = text.split(":")
    return fields[1] if len(fields) > 1 else text


class Rui3:
    """A board with RUI3 firmware at an open port."""

    dialect = "rui3"

    def __init__(self, port: AtPort) -> None:
        self.port = port

    def tell(self, command: str, wait_s: float = 2) -> list[str]:
        """The lines of the answer before `OK`; Refused with any other status."""
        *lines, status = self.port.ask(command, _is_status, wait_s)
        if status != "OK":
            raise Refused(
                f"{self.port.url}: {command.partition('=')[0]} answers {status}: "
                f"{_MEANING.get(status, 'it refuses')}"
            )
        return [line for line in lines if line != command]  # without the echo, where it is on

    def query(self, key: str) -> str:
        """The value of `AT+<key>=?`; Refused or Silent without one."""
        head = f"AT+{key}="
        values = [line for line in self.tell(f"{head}?") if line.startswith(head)]
        if not values:
            raise Refused(f"{self.port.url}: {head}? answers OK without a value")
        return values[-1].removeprefix(head).strip()

    def identity(self) -> Identity:
        """Who it is; Failed if what answers is not RUI3."""
        firmware = self.query("VER")
        if _VERSION.match(firmware) is None:
            raise Failed(f"{self.port.url}: {firmware!r} is no RUI3 firmware; update it first")
        mode = {"0": "P2P", "1": "LoRaWAN", "2": "FSK"}.get(self.query("NWM"), "unknown")
        return Identity(
            dialect=self.dialect,
            firmware=firmware,
            dev_eui=self._optional("DEVEUI"),
            role=self._optional("ALIAS") or None,
            mode=mode,
        )

    def version(self) -> tuple[int, int, int]:
        """The three numbers of its firmware."""
        found = _VERSION.match(self.query("VER"))
        if found is None:
            raise Failed(f"{self.port.url}: no RUI3 firmware")
        major, minor, patch = map(int, found.groups())
        return major, minor, patch

    def settings(self, wanted: Wanted) -> list[Setting]:
        """Region first: changing it resets data rate, power and channels."""
        settings = [Setting(name="region", key="BAND", value=_BANDS[wanted.region])]
        settings += _activation(wanted)
        settings += [
            Setting(name="class", key="CLASS", value=wanted.device_class),
            Setting(name="ADR", key="ADR", value=str(int(wanted.adr))),
            Setting(name="data rate", key="DR", value=str(wanted.dr)),
            Setting(name="power", key="TXP", value=_power_index(wanted)),
            Setting(name="public network", key="PNM", value="1"),
            Setting(name="auto-join", key="JOIN", value="0:0:8:0", comparable=_auto_join),
        ]
        if wanted.region == "US915":
            mask = f"{1 << (wanted.sub_band - 1):04X}"
            settings.append(Setting(name="channel mask", key="MASK", value=mask))
        else:
            duty_cycle = str(int(wanted.duty_cycle))
            settings.append(Setting(name="duty cycle", key="DCS", value=duty_cycle))
        if wanted.role is not None:
            role = wanted.role[:16]
            settings.append(Setting(name="role", key="ALIAS", value=role, comparable=str.strip))
        return settings

    def read(self, setting: Setting) -> str | None:
        """What stands in it now."""
        return self.query(setting.key)

    def write(self, setting: Setting) -> None:
        """Write one setting; Refused if it says no."""
        self.tell(f"AT+{setting.key}={setting.value}")

    def restart(self) -> None:
        """`ATZ`, then wait for the boot line; no `OK` comes."""
        self._restart_by("ATZ")

    def enter_lorawan(self) -> bool:
        """Leave P2P or FSK mode; the board restarts by that."""
        if self.query("NWM") == "1":
            return False
        self._restart_by("AT+NWM=1")
        return True

    def enter_p2p(self) -> bool:
        """Enter P2P mode if it is in another; the board restarts by that."""
        if self.query("NWM") == "0":
            return False
        self._restart_by("AT+NWM=0")
        return True

    def factory_reset(self) -> None:
        """`ATR`: defaults, then a restart; no `OK` comes."""
        self._restart_by("ATR")

    def _restart_by(self, command: str) -> None:
        def ended(line: str) -> bool:
            return _BOOTED.fullmatch(line) is not None or (_is_status(line) and line != "OK")

        last = self.port.ask(command, ended, BOOT_S)[-1]
        if _is_status(last):
            raise Refused(f"{self.port.url}: {command} answers {last}: {_MEANING.get(last, '')}")
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        tries = 10
        for left in reversed(range(tries)):
            try:
                self.port.ask("AT", _is_status, 0.5)
            except Silent:
                if left == 0:
                    raise
            else:
                return

    def _optional(self, key: str) -> str | None:
        try:
            return self.query(key)
        except Refused:
            return None


def _activation(wanted: Wanted) -> list[Setting]:
    mode = Setting(
        name="activation",
        key="NJM",
        value=str(int(wanted.otaa)),
        restarts=True,
        note="DevNonce and frame counters begin anew at the next start",
    )
    dev_eui = Setting(name="DevEUI", key="DEVEUI", value=wanted.dev_eui)
    if wanted.otaa:
        return [
            mode,
            dev_eui,
            Setting(name="JoinEUI", key="APPEUI", value=wanted.join_eui or ""),
            Setting(name="AppKey", key="APPKEY", value=wanted.app_key or "", secret=True),
        ]
    # Never for a device that joins: writing them makes its DevNonce begin anew.
    anew = "frame counters begin anew at the next start"
    return [
        mode,
        dev_eui,
        _session("DevAddr", "DEVADDR", wanted.dev_addr, note=anew),
        _session("NwkSKey", "NWKSKEY", wanted.nwk_s_key, note=anew, secret=True),
        _session("AppSKey", "APPSKEY", wanted.app_s_key, note=anew, secret=True),
    ]


def _session(name: str, key: str, value: str | None, *, note: str, secret: bool = False) -> Setting:
    return Setting(
        name=name,
        key=key,
        value=value or "",
        secret=secret,
        restarts=True,
        comparable=without_separators,
        note=note,
    )


def _power_index(wanted: Wanted) -> str:
    highest_dbm = _POWER_INDEX_0_DBM[wanted.region]
    index, odd = divmod(highest_dbm - wanted.power_dbm, 2)
    if odd or index < 0 or (wanted.region == "EU868" and index > 7):
        raise Failed(
            f"{wanted.power_dbm} dBm: {wanted.region} has steps of 2 dB, {highest_dbm} dBm and less"
        )
    return str(index)
