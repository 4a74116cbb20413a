"""What do the numbers of a run look like as tables?"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.report.conclusion import SEVERITY
from bench.report.score_file import Answers, Duplicates, Ledger, LeftOut, StoreCalls, Verdict

# The drawing is pure geometry, in pixels; `duplicates.html.j2` puts it on the page.
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
class Share:
    """One count; `share` of everything born in its row, 0 to 100."""

    count: int
    share: int
    tone: str


@dataclass(frozen=True, slots=True)
class LifeTable:
    """Born in the rows, died in the columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Share, ...], int], ...]
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
            Share(counts[name, place], counts[name, place] * 100 // total, _tone(place))
            for place in died
        )
        rows.append((name, cells, total))
    totals = tuple(sum(counts[name, place] for name in born) for place in died)
    return LifeTable(died, tuple(rows), totals, counts.total(), _drawing(counts, born, died))


def sentence(ledger: Ledger) -> str:
    """How many uplinks were accepted, were delivered and had effect exactly once."""
    text = f"{ledger.uplinks} uplinks accepted, {ledger.delivered} delivered at least once"
    if not ledger.consumed:
        return f"{text}; no case had a consumer."
    if ledger.consumed == ledger.uplinks:
        return f"{text}, {ledger.once} had effect exactly once."
    return f"{text}; of {ledger.consumed} with a consumer, {ledger.once} had effect exactly once."


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
    middle = (_LEFT + _RIGHT) // 2
    top = f"M{_LEFT} {from_y:.1f}C{middle} {from_y:.1f} {middle} {to_y:.1f} {_RIGHT} {to_y:.1f}"
    down = f"V{to_y + height:.1f}"
    back = (
        f"C{middle} {to_y + height:.1f} {middle} {from_y + height:.1f}"
        f" {_LEFT} {from_y + height:.1f}"
    )
    return f"{top}{down}{back}Z"


STATUSES = ("NonDuplicate", "Duplicate", "SoftDuplicate", "DuplicateDueToResubmission")
STRATEGIES = ("Drop", "Mark", "None")
ANSWERS = ("RX1", "RX2", "TooLate", "Suppressed", "NotAsked")
IMPORTED = "imported"

SITUATIONS = {
    "multi_concentrator": "Several concentrators hear one frame",
    "missed_confirm_window": "Missed confirm window",
    "restart": "Device restart",
    "several_servers": "Several network servers hear one frame",
    "levels_combined": "Several concentrators at several network servers",
    "shared_store": "The store that network servers share",
    "replay": "Replay",
    "expiry": "Expiry of the memory",
    "joins": "Joins",
    "catalogue": "Catalogue of known duplicate bugs",
    IMPORTED: "Imported real traffic",
}
_SYNONYMS = {"confirm_window": "missed_confirm_window", "join": "joins", "restarts": "restart"}


@dataclass(frozen=True, slots=True)
class Cell:
    """The verdicts of one place of the scenario table: the worst word, and how many have it."""

    word: str
    count: int
    total: int
    link: str
    span: int = 1


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    """One scenario: a cell per strategy and confirmation; None where nothing ran."""

    scenario: str
    title: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """Scenarios of one kind, with the totals per verdict word."""

    name: str
    totals: tuple[tuple[str, int], ...]
    rows: tuple[ScenarioRow, ...]

    @property
    def is_green(self) -> bool:
        return {word for word, _ in self.totals} == {"PASS"}


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One count of a heat table; `share` is its part of the row's total, 0 to 100."""

    count: int
    share: int
    agrees: bool


@dataclass(frozen=True, slots=True)
class HeatRow:
    """What became of everything that was due as `name`."""

    name: str
    total: int
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, slots=True)
class Heat:
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    agree: int
    total: int


@dataclass(frozen=True, slots=True)
class AnswerRow:
    strategy: str
    confirmed: str
    counts: tuple[int, ...]
    total: int


def situations(
    verdicts: Sequence[Verdict], anchors: Mapping[int, str], *, imported: bool
) -> list[Situation]:
    """The scenario table, by situation; either the imported traffic or everything else.

    `anchors` maps the index of a verdict to the anchor where the page tells more of it.
    """
    grouped: dict[str, dict[tuple[str, str, int], list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for index, verdict in enumerate(verdicts):
        group = _SYNONYMS.get(verdict.group or "", verdict.group or "")
        if (group == IMPORTED) is imported:
            key = verdict.file or "", verdict.scenario, _span(verdict)
            grouped[group][key].append(index)
    known = list(SITUATIONS)
    order = sorted(grouped, key=lambda g: (known.index(g) if g in known else len(known), g))
    return [_situation(group, grouped[group], verdicts, anchors) for group in order]


def heat(counts: Iterable[tuple[str, str, int]]) -> Heat:
    """(due, observed, count) as a heat table in the order of ADR 007's statuses."""
    summed: Counter[tuple[str, str]] = Counter()
    for due, observed, count in counts:
        summed[due, observed] += count
    names = [*STATUSES, "-"]
    names += sorted({due for due, _ in summed} - set(names))
    columns = [*STATUSES, "-", "missing"]
    columns += sorted({observed for _, observed in summed} - set(columns))
    rows = []
    for due in names:
        total = sum(summed[due, observed] for observed in columns)
        cells = tuple(
            HeatCell(summed[due, seen], percent(summed[due, seen], total), due == seen)
            for seen in columns
        )
        rows.append(HeatRow(due, total, cells))
    agree = sum(count for (due, observed), count in summed.items() if due == observed)
    return Heat(tuple(columns), tuple(rows), agree, summed.total())


def answer_rows(answers: Sequence[Answers]) -> list[AnswerRow]:
    summed: Counter[tuple[str, str, str]] = Counter()
    for row in answers:
        confirmed = {True: "confirmed", False: "unconfirmed", None: "join or unknown"}
        strategy = row.strategy if row.strategy not in (None, "-") else "no device"
        summed[strategy, confirmed[row.confirmed], row.answer] += row.count
    order = [*STRATEGIES, *sorted({s for s, _, _ in summed} - set(STRATEGIES))]
    rows = []
    for strategy in order:
        for confirmed_word in ("confirmed", "unconfirmed", "join or unknown"):
            counts = tuple(summed[strategy, confirmed_word, answer] for answer in ANSWERS)
            if any(counts):
                rows.append(AnswerRow(strategy, confirmed_word, counts, sum(counts)))
    return rows


def percent(part: int, whole: int) -> int:
    """The part in percent, rounded, but 100 only for all and 0 only for nothing."""
    if part <= 0 or whole <= 0:
        return 0
    return 100 if part >= whole else min(99, max(1, round(100 * part / whole)))


def _situation(
    group: str,
    scenarios: Mapping[tuple[str, str, int], Sequence[int]],
    verdicts: Sequence[Verdict],
    anchors: Mapping[int, str],
) -> Situation:
    words = Counter(verdicts[i].wording for indices in scenarios.values() for i in indices)
    name = SITUATIONS.get(group) or (group.replace("_", " ").capitalize() or "Other")
    rows = tuple(
        ScenarioRow(
            scenario,
            verdicts[indices[0]].title or scenario.removeprefix("test_").replace("_", " "),
            _cells(indices, span, verdicts, anchors),
        )
        for (_, scenario, span), indices in sorted(scenarios.items(), key=lambda kv: kv[1][0])
    )
    totals = tuple((word, words[word]) for word in SEVERITY if words[word])
    return Situation(name, totals, rows)


def _cells(
    indices: Sequence[int], span: int, verdicts: Sequence[Verdict], anchors: Mapping[int, str]
) -> tuple[Cell | None, ...]:
    """Six cells of span 1, three of span 2 (nothing to confirm), or one of span 6 (no strategy)."""
    if span == 6:
        return (_cell(indices, span, verdicts, anchors),)
    kinds: tuple[bool | None, ...] = (None,) if span == 2 else (True, False)
    return tuple(
        _cell(
            [i for i in indices if (verdicts[i].strategy, verdicts[i].confirmed) == (s, kind)],
            span,
            verdicts,
            anchors,
        )
        for s in STRATEGIES
        for kind in kinds
    )


def _cell(
    indices: Sequence[int], span: int, verdicts: Sequence[Verdict], anchors: Mapping[int, str]
) -> Cell | None:
    if not indices:
        return None
    severity = {word: rank for rank, word in enumerate(SEVERITY)}
    worst = min(indices, key=lambda i: (severity.get(verdicts[i].wording, 0), i not in anchors, i))
    word = verdicts[worst].wording
    count = sum(verdicts[i].wording == word for i in indices)
    return Cell(word, count, len(indices), anchors.get(worst, f"c{worst}"), span)


def _span(verdict: Verdict) -> int:
    if verdict.strategy not in STRATEGIES:
        return 6
    return 2 if verdict.confirmed is None else 1


SCENARIOS_MAX = 30  # of one group, on the page


@dataclass(frozen=True, slots=True)
class LeftOutScenario:
    """One scenario, and how many of its cases were left out."""

    name: str
    title: str
    cases: int


@dataclass(frozen=True, slots=True)
class LeftOutGroup:
    """Everything that misses the same: the scenarios, and how many cases they are."""

    missing: str
    cases: int
    scenarios: tuple[LeftOutScenario, ...]


def left_out_groups(cases: Iterable[LeftOut]) -> list[LeftOutGroup]:
    """The cases by what is missing, the largest group first."""
    grouped: dict[str, Counter[tuple[str, str]]] = {}
    for case in cases:
        missing = ", ".join(sorted(case.missing)) or "not told"
        title = case.title or case.scenario.removeprefix("test_").replace("_", " ")
        grouped.setdefault(missing, Counter())[case.scenario, title] += 1
    groups = [
        LeftOutGroup(
            missing,
            scenarios.total(),
            tuple(LeftOutScenario(*which, count) for which, count in scenarios.items()),
        )
        for missing, scenarios in grouped.items()
    ]
    return sorted(groups, key=lambda group: (-group.cases, group.missing))


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
