"""When is a device asked for its battery and its margin, and what of that is still open?

DevStatusReq goes with the next answer to an uplink (LoRaWAN 1.0.4, 5.5). What the device answers
goes to the application on `lorawan/<lns id>/<dev_eui>/status`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lns.clock import now_us
from lns.events import Request
from lns.lorawan.identifiers import Eui
from lns.uplink.end_device import EndDevice

ASKED_MAX = 3
"""How often a device is asked for one status; one that never answers is left alone then."""


@dataclass(slots=True)
class _Wanted:
    """A status that the application wants (`by_application`), or that is due by configuration."""

    by_application: bool
    askings: int = 0


class StatusRequests:
    """Which devices are to be asked, and when each has told its status last.

    Remembers both for as long as the process lives; there is at most one entry a device.
    """

    def __init__(self, lns: str, record: Callable[[Request], None]) -> None:
        self._lns = lns
        self._record = record
        self._wanted: dict[Eui, _Wanted] = {}
        self._over_us: dict[Eui, int] = {}

    def want(self, dev_eui: Eui) -> None:
        """The application wants to know the status of a device."""
        self._wanted[dev_eui] = _Wanted(by_application=True)
        self._tell("queued", dev_eui)

    def refuse(self, reason: str, dev_eui: Eui) -> None:
        """Tell of a status that nobody is asked for."""
        self._tell("refused", dev_eui, reason)

    def is_due(self, device: EndDevice) -> bool:
        """Whether the next answer to a device asks for its status."""
        dev_eui = device.dev_eui
        wanted = self._wanted.get(dev_eui)
        if wanted is None and self._has_come_round(device):
            wanted = self._wanted[dev_eui] = _Wanted(by_application=False)
        if wanted is not None and wanted.askings >= ASKED_MAX:
            self._end(dev_eui, "given_up", "NotAnswered")
            return False
        return wanted is not None

    def asked(self, dev_eui: Eui) -> None:
        """A station was handed a DevStatusReq for a device."""
        wanted = self._wanted.get(dev_eui)
        if wanted is not None:
            wanted.askings += 1

    def told(self, dev_eui: Eui) -> None:
        """A device has told its status, whoever asked for it."""
        self._end(dev_eui, "done")

    def _has_come_round(self, device: EndDevice) -> bool:
        if device.dev_status_s is None:
            return False
        over_us = self._over_us.get(device.dev_eui)
        return over_us is None or now_us() - over_us >= device.dev_status_s * 1_000_000

    def _end(self, dev_eui: Eui, stage: str, reason: str | None = None) -> None:
        self._over_us[dev_eui] = now_us()
        wanted = self._wanted.pop(dev_eui, None)
        if wanted is not None and wanted.by_application:
            self._tell(stage, dev_eui, reason)

    def _tell(self, stage: str, dev_eui: Eui, reason: str | None = None) -> None:
        self._record(
            Request(stage=stage, lns=self._lns, dev_eui=dev_eui, wants="status", reason=reason)
        )
