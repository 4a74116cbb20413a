"""Which stations cannot answer what they hear first?

The first station of a frame owns its answer (ADR 007). One whose clock is not known, or whose texts
come late, so keeps every device that it hears first from being answered; that must be seen.
"""

from collections.abc import Callable
from enum import StrEnum

from cachetools import LRUCache, TTLCache
from msgspec import Struct

from lns.clock import now_us
from lns.complaints import Complaints
from lns.events import TooLateInARow
from lns.lorawan.identifiers import Eui

IN_A_ROW = 5
STATIONS_MAX = 10_000
AGAIN_US = 60_000_000


class Cause(StrEnum):
    """Why no window of an uplink could be met."""

    NO_CLOCK = "the clock of the station is not known"
    OTHER_SESSION = "the frame is of a radio session that does not run"
    LATE = "the frame was told too late"


class _Row(Struct):
    """So many `TooLate` in a row; the next number that is told."""

    number: int = 0
    next_told: int = IN_A_ROW


class LateStations:
    """Counts how often in a row a station could not answer; at 5, 10, 20 … it tells.

    Remembers 10 000 stations, and for a minute which of them the log named.
    """

    def __init__(
        self, lns: str, record: Callable[[TooLateInARow], None], complaints: Complaints
    ) -> None:
        self._lns = lns
        self._record = record
        self._complaints = complaints
        self._rows: LRUCache[Eui, _Row] = LRUCache(STATIONS_MAX)
        self._named: TTLCache[Eui, bool] = TTLCache(STATIONS_MAX, AGAIN_US, timer=now_us)

    def answered(self, station: Eui) -> None:
        """An answer was handed to the station in time."""
        row = self._rows.pop(station, None)
        if row is not None and row.number >= IN_A_ROW:
            self._complaints.complain("%s: answers again, after %d TooLate", station, row.number)
            self._record(TooLateInARow(stage="over", lns=self._lns, station=station, n=row.number))

    def too_late(self, station: Eui, frame_id: str | None, cause: Cause) -> None:
        """No window of a frame could be met through the station."""
        row = self._rows.get(station) or _Row()
        self._rows[station] = row
        row.number += 1
        if row.number == row.next_told:
            row.next_told *= 2
            self._complaints.complain(
                "%s: cannot answer: %d TooLate in a row, at last because %s;"
                " what it hears first stays unanswered",
                *(station, row.number, cause),
            )
            self._record(
                TooLateInARow(
                    stage="going on",
                    lns=self._lns,
                    station=station,
                    n=row.number,
                    cause=cause,
                )
            )
        elif station not in self._named:
            self._named[station] = True
            self._complaints.complain("%s: TooLate (%s): %s", station, frame_id, cause)
