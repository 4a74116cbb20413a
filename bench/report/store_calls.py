"""How many calls to the shared store did the uplinks cost, and which receptions made them?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.score_file import StoreCalls
from bench.report.tables import STATUSES, STRATEGIES


@dataclass(frozen=True, slots=True)
class Asked:
    """How many of these receptions asked who owns their frame."""

    asked: int
    receptions: int


@dataclass(frozen=True, slots=True)
class AskedRow:
    """The receptions of one status: one place per strategy, None where there was none, and all."""

    status: str
    may_ask: bool
    places: tuple[Asked | None, ...]
    total: Asked


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of a run; `per_uplink` has two decimals."""

    asked: int
    uplinks: int
    receptions: int
    per_uplink: str
    per_reception: str
    rows: tuple[AskedRow, ...]

    @property
    def saved(self) -> int:
        """The receptions that asked nobody."""
        return self.receptions - self.asked


_NEVER = ("Duplicate", "SoftDuplicate", "-")


def calls(found: Sequence[StoreCalls]) -> Calls | None:
    """The calls to the store; None where no server shares its devices with another one."""
    receptions: Counter[tuple[str, str]] = Counter()
    asked: Counter[tuple[str, str]] = Counter()
    for row in found:
        receptions[row.status, row.strategy or "-"] += row.receptions
        asked[row.status, row.strategy or "-"] += row.asked
    if not receptions:
        return None
    statuses = [*STATUSES, *sorted({status for status, _ in receptions} - set(STATUSES))]
    rows = []
    for status in statuses:
        of_status = [key for key in receptions if key[0] == status]
        if of_status:
            counted = [(asked[status, name], receptions[status, name]) for name in STRATEGIES]
            places = tuple(Asked(*place) if place[1] else None for place in counted)
            total = Asked(
                sum(asked[key] for key in of_status), sum(receptions[key] for key in of_status)
            )
            rows.append(AskedRow(status, status not in _NEVER, places, total))
    uplinks = sum(row.uplinks for row in found)
    all_asked, heard = asked.total(), receptions.total()
    return Calls(
        all_asked, uplinks, heard, _ratio(all_asked, uplinks), _ratio(heard, uplinks), tuple(rows)
    )


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "–"
