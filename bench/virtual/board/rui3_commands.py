"""What does RUI3 answer to an AT command, and what does the firmware behind it do then?"""

import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.device.device_config import Abp, Otaa
from bench.device.interfaces import CommandRefused, Sent
from bench.virtual.board.device import Asked, VirtualDevice

_COMMAND = re.compile(r"AT(?:\+(\w{1,32}))?(?:(=)(.*))?", re.I)
_HEX_PAYLOAD = re.compile(r"(\d{1,3}):((?:[0-9A-F]{2}){1,250})", re.I)
_JOIN = re.compile(r"([01])(?::([01])(?::(\d{1,3})(?::(\d{1,3}))?)?)?")
_JOIN_PERIODS_S = range(7, 256)
_PORTS = range(1, 224)

OK = "OK\r\n"
PARAM_ERROR = "AT_PARAM_ERROR\r\n"
NOT_FOUND = "AT_COMMAND_NOT_FOUND\r\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes on the wire at once beside the lines of the firmware, and what follows."""

    text: str = ""
    goes_on: Coroutine[Any, Any, Any] | None = None
    resets: bool = False


class Rui3Commands:
    """The command interpreter of one device; remembers the echo and the last message.

    The firmware prints its own lines, OK and refusals included; a `Reply` has only the rest.
    """

    def __init__(self, firmware: VirtualDevice, version: str) -> None:
        self.echo = False
        self.last_sent: Sent | None = None
        self._firmware = firmware
        self._version = version
        self._actions: dict[str, Callable[[str | None], Reply]] = {
            "SEND": self._send,
            "JOIN": self._join,
            "CFM": self._set_confirming,
            "RETY": self._set_retries,
            "DR": self._set_dr,
            "ADR": self._set_adr,
            "NWM": self._set_work_mode,
            "CLASS": self._set_class,
            "TIMEREQ": partial(self._ask, Asked.DEVICE_TIME),
            "LINKCHECK": partial(self._ask, Asked.LINK_CHECK),
        }
        self._values: dict[str, Callable[[], object]] = {
            "VER": lambda: self._version,
            "DEVEUI": lambda: self._firmware.dev_eui,
            "DEVADDR": self._dev_addr,
            "NJM": lambda: int(isinstance(self._firmware.activation, Otaa)),
            "NJS": lambda: int(self._firmware.session is not None),
            "CFM": lambda: int(self._firmware.confirming),
            "CFS": lambda: int(self.last_sent is not None and self.last_sent.acknowledged),
            "RETY": lambda: self._firmware.retries,
            "DR": lambda: self._firmware.settings.dr,
            "ADR": lambda: int(self._firmware.settings.adr),
            "JOIN": lambda: "1:0:8:0",
            "NWM": lambda: 1,
            "CLASS": lambda: "C" if self._firmware.settings.class_c else "A",
        }

    @property
    def keeps_session_over_reset(self) -> bool:
        """Whether the session outlives ATZ: the counters of ABP are restored, OTAA must join."""
        return isinstance(self._firmware.activation, Abp)

    def obey(self, text: str) -> Reply:
        """Carry out one line; errors are replies."""
        if text.upper() == "ATZ":
            return Reply(resets=True)
        if text.upper() == "ATE":
            self.echo = not self.echo
            return Reply(OK)
        found = _COMMAND.fullmatch(text)
        if found is None:
            return Reply(NOT_FOUND)
        name, equals, value = (found[1] or "").upper(), found[2], found[3]
        if not name:
            return Reply(OK if not equals else NOT_FOUND)
        if value == "?" and name in self._values:
            return Reply(f"AT+{name}={self._values[name]()}\r\n{OK}")
        if name not in self._actions:
            return Reply(PARAM_ERROR if name in self._values else NOT_FOUND)
        if value in ("", "?") or (value is None and name != "JOIN"):
            return Reply(PARAM_ERROR)
        return self._actions[name](value)

    def _send(self, value: str | None) -> Reply:
        found = _HEX_PAYLOAD.fullmatch(value or "")
        if found is None or int(found[1]) not in _PORTS:
            return Reply(PARAM_ERROR)
        firmware = self._firmware
        try:
            sent = firmware.begin_send(
                bytes.fromhex(found[2]), port=int(found[1]), confirmed=firmware.confirming
            )
        except CommandRefused:
            return Reply()  # the firmware has printed why
        self.last_sent = sent
        return Reply(goes_on=firmware.finish(sent))

    def _join(self, value: str | None) -> Reply:
        found = _JOIN.fullmatch(value or "1")
        if found is None:
            return Reply(PARAM_ERROR)
        if int(found[3] or 8) not in _JOIN_PERIODS_S or int(found[4] or 0) > 255:
            return Reply(PARAM_ERROR)
        if found[1] == "0":
            return Reply(OK)
        try:
            self._firmware.begin_join()
        except CommandRefused:
            return Reply()
        return Reply(goes_on=self._firmware.finish_join())

    def _set_confirming(self, value: str | None) -> Reply:
        if value not in ("0", "1"):
            return Reply(PARAM_ERROR)
        self._firmware.set_confirming(value == "1")
        return Reply()

    def _set_retries(self, value: str | None) -> Reply:
        if value not in tuple("01234567"):
            return Reply(PARAM_ERROR)
        self._firmware.set_retries(int(value))
        return Reply()

    def _set_dr(self, value: str | None) -> Reply:
        drs = len(self._firmware.mac.plan.up_drs)
        if value is None or not value.isdecimal() or int(value) >= drs:
            return Reply(PARAM_ERROR)
        self._firmware.settings.dr = int(value)
        return Reply(OK)

    def _set_adr(self, value: str | None) -> Reply:
        if value not in ("0", "1"):
            return Reply(PARAM_ERROR)
        self._firmware.set_adr(value == "1")
        return Reply()

    def _ask(self, request: Asked, value: str | None) -> Reply:
        if value not in ("0", "1"):
            return Reply(PARAM_ERROR)
        if value == "0":
            return Reply(OK)
        self._firmware.ask(request)
        return Reply()

    def _set_work_mode(self, value: str | None) -> Reply:
        # It resets also when nothing changes, and its OK has no line end.
        return Reply("OK", resets=True) if value == "1" else Reply(PARAM_ERROR)

    def _set_class(self, value: str | None) -> Reply:
        if value is None or value.upper() not in ("A", "C"):
            return Reply(PARAM_ERROR)
        class_c = value.upper() == "C"
        self._firmware.settings.class_c = class_c
        return Reply(OK)

    def _dev_addr(self) -> str:
        session = self._firmware.session
        return "00000000" if session is None else str(session.dev_addr)
