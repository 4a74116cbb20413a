"""Which faults does a tap inject, until when, and who is told?"""

from dataclasses import dataclass, field
from enum import StrEnum

from bench.capture import Record
from lns.lorawan.identifiers import Eui


class FaultKind(StrEnum):
    """What can be done to a text on its way."""

    DELAY = "delay"
    DROP = "drop"
    REPEAT = "repeat"
    REORDER = "reorder"
    CUT = "cut"
    CLONE = "clone"
    REPLAY = "replay"
    SUPPRESS = "suppress"
    DELAY_DOWNLINK = "delay_downlink"


@dataclass(slots=True, eq=False)
class Fault:
    """One fault; `remaining` texts are still to suffer it, None = until it is cleared.

    `after_us`: how much later the text, or its copy, leaves. `times`: how many copies.
    """

    kind: FaultKind
    remaining: int | None
    after_us: int = 0
    times: int = 1
    target: object = None
    detail: dict[str, object] = field(default_factory=dict)


class Faults:
    """The faults of one tap, in the order in which they were injected.

    Begin and end of each are recorded; one that is used up has ended.
    """

    def __init__(self, station: Eui, record: Record) -> None:
        self._station = station
        self._record = record
        self._active: list[Fault] = []

    def begin(self, fault: Fault) -> Fault:
        """Inject a fault from now on."""
        self._active.append(fault)
        self._note("fault.begin", fault)
        return fault

    def end(self, fault: Fault) -> None:
        """Clear a fault; without effect on one that has ended."""
        if fault in self._active:
            self._active.remove(fault)
            self._note("fault.end", fault)

    def active(self, kind: FaultKind) -> Fault | None:
        """The first fault of a kind, left as it is."""
        return next((fault for fault in self._active if fault.kind is kind), None)

    def take(self, kind: FaultKind) -> Fault | None:
        """The first fault of a kind, used up by one text."""
        fault = self.active(kind)
        if fault is not None and fault.remaining is not None:
            fault.remaining -= 1
            if fault.remaining <= 0:
                self.end(fault)
        return fault

    def end_all(self) -> None:
        """Clear every fault."""
        for fault in list(self._active):
            self.end(fault)

    def _note(self, kind: str, fault: Fault) -> None:
        fields: dict[str, object] = {
            "seam": "tap",
            "fault": fault.kind.value,
            "station": self._station,
            "origin": "injected",
            "detail": fault.detail,
        }
        self._record("bench", kind, fields)
