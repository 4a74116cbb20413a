"""A station under the name a scenario knows it by, as far as the tap on its link goes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from bench.capture import Record
from bench.rig.parts import NetworkServer
from bench.station.tap import Tap
from bench.virtual.air.medium import Medium
from lns.lorawan.identifiers import Eui

LINK_US = 2_000


class TappedStation(ABC):
    """One station of a case, virtual or real, with the tap of that case on its link.

    Remembers its network server, the longest delay it was given (µs), and how much weaker than
    others it hears (dB). `retimed` shortens a delay where the network server forgets sooner.
    """

    def __init__(
        self,
        name: str,
        eui: Eui,
        server: NetworkServer,
        *,
        retimed: Callable[[int], int],
        record: Record,
        taps: Callable[[str], Tap],
    ) -> None:
        self.name = name
        self.eui = eui
        self.longest_delay_us = 0
        self.weaker_db = 0
        self.server = server
        self._retimed = retimed
        self.record = record
        self._taps = taps
        self.tap = Tap(eui, lambda: self.server.connect(eui), record, latency_us=LINK_US)

    @property
    @abstractmethod
    def is_up(self) -> bool:
        """Whether it hears and is heard, and can be asked to answer."""

    @abstractmethod
    def start(self, tasks: asyncio.TaskGroup, medium: Medium) -> None:
        """Switch tap and station on."""

    @abstractmethod
    def stop(self) -> None:
        """Switch the tap off; the case is over."""

    @abstractmethod
    def restart(self) -> None:
        """Restart the station: its radio begins a new session."""

    # --- its equipment, before the first act -------------------------------------------------

    def weaken(self, db: int) -> None:
        raise self._has_no("attenuator")

    def add_antenna(self, *, weaker_db: int) -> None:
        raise self._has_no("second antenna")

    def fit_gps(self) -> None:
        raise self._has_no("GPS receiver")

    def keep_duty_cycle(self) -> None:
        raise self._has_no("duty cycle of its own")

    def reconnect_without_version(self) -> None:
        raise self._has_no("way to keep silent")

    def break_clock(self) -> None:
        raise self._has_no("clock")

    def repeat_session(self) -> None:
        raise self._has_no("session byte")

    def _has_no(self, what: str) -> RuntimeError:
        return RuntimeError(f"station {self.name} has no {what} that the bench can set")

    # --- its link --------------------------------------------------------------------------

    def delay_uplinks(self, us: int, receptions: int | None = None) -> None:
        self.tap.delay_up(self._note(us), receptions)

    def drop_uplinks(self, receptions: int) -> None:
        self.tap.drop_up(receptions)

    def repeat_uplinks(self, after_us: int, times: int = 1) -> None:
        self.tap.repeat_up(self._note(after_us, times), times)

    def clone_uplinks_to(self, station: str, after_us: int) -> None:
        self.tap.clone_to(self._taps(station), self._note(after_us), None)

    def suppress_downlinks(self, downlinks: int) -> None:
        self.tap.suppress_down(downlinks)

    def delay_downlinks(self, us: int, downlinks: int | None = None) -> None:
        self.tap.delay_down(self._note(us), downlinks)

    def cut(self) -> None:
        self.tap.cut()

    def restore(self) -> None:
        self.tap.restore()

    def leave_half_open(self, noticed_after_us: int) -> None:
        noticed_us = self._note(noticed_after_us)
        told = {"seam": "tap", "fault": "half open", "station": self.eui, "origin": "injected"}
        self.record("bench", "fault.begin", told | {"detail": {"noticed_after_us": noticed_us}})
        self.server.leave_half_open(self.eui, noticed_us)

    def _note(self, us: int, times: int = 1) -> int:
        us = self._retimed(us)
        self.longest_delay_us = max(self.longest_delay_us, us * times)
        return us
