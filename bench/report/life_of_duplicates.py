"""Where were duplicates born, and where did they die: as a table, as a drawing and in one sentence?

The drawing is pure geometry, in pixels; `duplicates.html.j2` puts it on the page.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.report.score_file import Duplicates, Ledger

BORN = ("air", "station", "LNS", "broker", "consumer", "bench")
DIED = (
    "level 1", "level 2", "counter", "not served here", "no payload", "window", "sequence", "key",
    "parked", "no outcome", "delivered", "effect",
)  # fmt: skip
LIVED = "effect"
_NOBODY_LOOKED = ("delivered", "no outcome")

_WIDTH, _TOP = 640, 24
_LEFT, _RIGHT = 118, _WIDTH - 168  # the inner edges of the two columns
_COLUMN = 12
_FLOW_HEIGHT, _GAP = 220, 20
_LEAST = 2.0  # px, so that one of thousands is seen


@dataclass(frozen=True, slots=True)
class Node:
    """A place with everything that was born, or died, there."""

    name: str
    count: int
    x: float
    y: float
    height: float
    tone: str


@dataclass(frozen=True, slots=True)
class Flow:
    """The duplicates that were born at one place and died at another, as the path of a band."""

    born: str
    died: str
    count: int
    path: str
    tone: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """All flows between two columns of places."""

    born: tuple[Node, ...]
    died: tuple[Node, ...]
    flows: tuple[Flow, ...]
    height: int
    width: int = _WIDTH
    top: int = _TOP
    left: int = _LEFT
    right: int = _RIGHT
    column: int = _COLUMN


@dataclass(frozen=True, slots=True)
class Cell:
    """One count; `share` of everything born in its row, 0 to 100."""

    count: int
    share: int
    tone: str


@dataclass(frozen=True, slots=True)
class LifeTable:
    """Born in the rows, died in the columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...], int], ...]
    totals: tuple[int, ...]
    total: int
    drawing: Drawing


def life_of(duplicates: Sequence[Duplicates]) -> LifeTable | None:
    """The table and the drawing of these duplicates; None without any."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in duplicates:
        counts[row.born, row.died] += row.count
    if not counts.total():
        return None
    born = _in_order({born for born, _ in counts}, BORN)
    died = _in_order({died for _, died in counts}, DIED)
    rows = []
    for name in born:
        total = sum(counts[name, place] for place in died)
        cells = tuple(
            Cell(counts[name, place], counts[name, place] * 100 // total, _tone(place))
            for place in died
        )
        rows.append((name, cells, total))
    totals = tuple(sum(counts[name, place] for name in born) for place in died)
    return LifeTable(died, tuple(rows), totals, counts.total(), _drawing(counts, born, died))


def sentence(ledger: Ledger) -> str:
    """How many uplinks were accepted, were delivered and had effect exactly once."""
    told = f"{ledger.uplinks} uplinks accepted, {ledger.delivered} delivered at least once"
    if not ledger.consumed:
        return f"{told}; no case had a consumer."
    if ledger.consumed == ledger.uplinks:
        return f"{told}, {ledger.once} had effect exactly once."
    return f"{told}; of {ledger.consumed} with a consumer, {ledger.once} had effect exactly once."


def exceptions(ledger: Ledger) -> list[str]:
    """Why other uplinks with a consumer had not just one effect."""
    reasons = (
        (ledger.copies, "had one effect for each of several copies: their strategy lets them"
         " through as messages of their own, and that consumer compares ids only"),
        (ledger.more, "had several effects of one message; where no scenario says so, it is a"
         " finding"),
        (ledger.never, "had no effect at some consumer"),
    )  # fmt: skip
    return [f"{count} {why}." for count, why in reasons if count]


def _in_order(found: set[str], order: Sequence[str]) -> tuple[str, ...]:
    return (*(name for name in order if name in found), *sorted(found - set(order)))


def _tone(died: str) -> str:
    """A duplicate that lived is to be seen; one that nobody looked at is neither good nor bad."""
    if died == LIVED:
        return "un"
    return "re" if died in _NOBODY_LOOKED else "ok"


def _drawing(
    counts: Mapping[tuple[str, str], int], born: Sequence[str], died: Sequence[str]
) -> Drawing:
    scale = _FLOW_HEIGHT / sum(counts.values())
    thick = {pair: max(_LEAST, count * scale) for pair, count in counts.items() if count}
    left = _column(thick, born, 0, _LEFT - _COLUMN, counts)
    right = _column(thick, died, 1, _RIGHT, counts)
    from_y = {node.name: node.y for node in left}
    to_y = {node.name: node.y for node in right}
    flows = []
    for one in born:
        for other in died:
            if (one, other) not in thick:
                continue
            height = thick[one, other]
            path = _band(from_y[one], to_y[other], height)
            flows.append(Flow(one, other, counts[one, other], path, _tone(other)))
            from_y[one] += height
            to_y[other] += height
    bottom = max(node.y + node.height for node in (*left, *right))
    return Drawing(left, right, tuple(flows), round(bottom) + 12)


def _column(
    thick: Mapping[tuple[str, str], float],
    names: Sequence[str],
    side: int,
    x: float,
    counts: Mapping[tuple[str, str], int],
) -> tuple[Node, ...]:
    nodes = []
    y = float(_TOP)
    for name in names:
        height = sum(px for pair, px in thick.items() if pair[side] == name)
        count = sum(n for pair, n in counts.items() if pair[side] == name)
        tone = _tone(name) if side else ""
        nodes.append(Node(name, count, x, round(y, 1), round(height, 1), tone))
        y += height + _GAP
    return tuple(nodes)


def _band(from_y: float, to_y: float, height: float) -> str:
    """A band that leaves and arrives level."""
    middle = (_LEFT + _RIGHT) // 2
    top = f"M{_LEFT} {from_y:.1f}C{middle} {from_y:.1f} {middle} {to_y:.1f} {_RIGHT} {to_y:.1f}"
    down = f"V{to_y + height:.1f}"
    back = (
        f"C{middle} {to_y + height:.1f} {middle} {from_y + height:.1f}"
        f" {_LEFT} {from_y + height:.1f}"
    )
    return f"{top}{down}{back}Z"
