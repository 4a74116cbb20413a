"""A station under the name a scenario knows it by, as far as the tap on its link goes."""

from bench.rig.case_setup import LNS, CaseSetup
from bench.rig.interfaces import CaseStation
from bench.station.tap import Tap
from bench.verdict.case import fault_fields
from lns.lorawan.identifiers import Eui

LINK_US = 2_000


class TappedStation(CaseStation):
    """One station of a case, virtual or real, with the tap of that case on its link.

    `can`: with what the bench can equip it.
    """

    can: frozenset[str] = frozenset()

    def __init__(self, name: str, eui: Eui, setup: CaseSetup) -> None:
        self.name = name
        self.eui = eui
        self.longest_delay_us = 0
        self.weaker_db = 0
        self.server = setup.servers[LNS]
        self.setup = setup
        self.tap = Tap(eui, lambda: self.server.connect(eui), setup.record, latency_us=LINK_US)

    def must_have(self, what: str) -> None:
        """RuntimeError where the bench cannot equip it so."""
        if what not in self.can:
            raise RuntimeError(f"station {self.name}: the bench has not {what} there")

    # --- its link --------------------------------------------------------------------------

    def delay_uplinks(self, us: int, receptions: int | None = None) -> None:
        self.tap.delay_up(self._note(us), receptions)

    def drop_uplinks(self, receptions: int) -> None:
        self.tap.drop_up(receptions)

    def repeat_uplinks(self, after_us: int, times: int = 1) -> None:
        self.tap.repeat_up(self._note(after_us, times), times)

    def clone_uplinks_to(self, station: str, after_us: int) -> None:
        other = self.setup.station(station).tap
        self.tap.clone_to(other, self._note(after_us), None)

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
        detail = {"noticed_after_us": noticed_us}
        fields = fault_fields("tap", "half open", detail, station=self.eui)
        self.setup.record("bench", "fault.begin", fields)
        self.server.leave_half_open(self.eui, noticed_us)

    def _note(self, us: int, times: int = 1) -> int:
        us = self.setup.retimed(us)
        self.longest_delay_us = max(self.longest_delay_us, us * times)
        return us
