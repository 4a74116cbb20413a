"""How early were the answers, as a drawing too, and was the host fast enough to tell?"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.report.score_file import Margins, Score

BARS_MAX = 40
AIM_GAP_MS = 20  # what a station needs to send in a window (Basics Station)

_WIDTH, _HEIGHT = 520, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 26
_STEPS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_TICK_PX = 62  # at least, from one number to the next


@dataclass(frozen=True, slots=True)
class Bar:
    """So many answers with margins from `from_ms` to `to_ms`, that excluded; `late`: too few ms."""

    x: float
    y: float
    width: float
    height: float
    from_ms: int
    to_ms: int
    count: int
    late: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """A number at the axis."""

    x: float
    ms: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """The drawing; `gap_x` is where an answer begins to be in time, None if that is not on it."""

    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    count_max: int
    gap_x: float | None
    step_ms: int
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT
    top: int = _TOP
    base: int = _HEIGHT - _BOTTOM


def histogram(counts: Iterable[tuple[int, int]], later_ms: int = 0) -> Histogram | None:
    """The drawing of (whole milliseconds, how many), each `later_ms` longer; None without any.

    The bars are so wide that there are at most BARS_MAX; one ends at AIM_GAP_MS.
    """
    exact = Counter[int]()
    for ms, count in counts:
        exact[ms + later_ms] += count
    if not exact:
        return None
    step_ms = _step_ms(min(exact), max(exact))
    bins = Counter[int]()
    for ms, count in exact.items():
        bins[_bin(ms, step_ms)] += count
    first, last, count_max = min(bins), max(bins) + 1, max(bins.values())
    bar_px = (_WIDTH - _LEFT - _RIGHT) / (last - first)

    def x(number: int) -> float:
        return round(_LEFT + (number - first) * bar_px, 1)

    bars = []
    for number in sorted(bins):
        height = round((_HEIGHT - _TOP - _BOTTOM) * bins[number] / count_max, 1)
        from_ms = _from_ms(number, step_ms)
        late = from_ms < AIM_GAP_MS
        width = round(bar_px - min(1.0, bar_px / 5), 1)
        y = _HEIGHT - _BOTTOM - height
        to_ms = from_ms + step_ms
        bars.append(Bar(x(number), y, width, height, from_ms, to_ms, bins[number], late))
    gap = _bin(AIM_GAP_MS, step_ms)
    return Histogram(
        bars=tuple(bars),
        ticks=tuple(Tick(x(n), _from_ms(n, step_ms)) for n in _ticks(first, last, bar_px)),
        count_max=count_max,
        gap_x=x(gap) if first <= gap <= last else None,
        step_ms=step_ms,
    )


def _step_ms(first_ms: int, last_ms: int) -> int:
    fitting = (s for s in _STEPS_MS if _bin(last_ms, s) - _bin(first_ms, s) < BARS_MAX)
    return next(fitting, -(-(last_ms - first_ms + 1) // (BARS_MAX - 1)))


def _bin(ms: int, step_ms: int) -> int:
    """Which bar holds so many ms: bars are counted from AIM_GAP_MS, so that none crosses it."""
    return (ms - AIM_GAP_MS) // step_ms


def _from_ms(number: int, step_ms: int) -> int:
    return number * step_ms + AIM_GAP_MS


def _ticks(first: int, last: int, bar_px: float) -> Sequence[int]:
    every = next(n for n in (1, 2, 5, 10, 20, 50) if n * bar_px >= _TICK_PX or n == 50)
    return range(first, last + 1, every)


_KINDS = {"data": "confirmed uplinks", "join": "joins"}
RX2_AFTER_RX1_MS = 1000


@dataclass(frozen=True, slots=True)
class MarginRow:
    """The margins of one kind of uplink to one window, in words: "964.5" is milliseconds."""

    kind: str
    window: str
    answers: int
    min_ms: str
    p1_ms: str
    p50_ms: str
    p99_ms: str


@dataclass(frozen=True, slots=True)
class Timing:
    """What the page says of time: rows, the two drawings of data answers, and remarks."""

    rows: tuple[MarginRow, ...]
    drawings: tuple[tuple[str, Histogram], ...]
    remarks: tuple[str, ...]


def timing(score: Score) -> Timing:
    """The margins of a run to its receive windows, as `bench.score.margins` measured them."""
    data = next((margins for margins in score.margins if margins.kind == "data"), None)
    drawings = []
    for window, later_ms in (("RX1", 0), ("RX2", RX2_AFTER_RX1_MS)):
        drawing = histogram(data.rx1_ms, later_ms) if data is not None else None
        if drawing is not None:
            drawings.append((window, drawing))
    return Timing(
        rows=tuple(row for margins in score.margins for row in _rows(margins)),
        drawings=tuple(drawings),
        remarks=tuple(remark for margins in score.margins for remark in _remarks(margins)),
    )


def host_words(score: Score) -> str:
    """The worst stall of the host, for people; "" where none was noted."""
    if not score.host.worst_stall_us:
        return ""
    return f"the host stalled for {ms(score.host.worst_stall_us)} ms at worst"


def ms(time_us: int) -> str:
    """Microseconds as milliseconds with one decimal, rounded down: 964.5."""
    tenths = time_us // 100
    return f"{'−' if tenths < 0 else ''}{abs(tenths) // 10}.{abs(tenths) % 10}"


def _rows(margins: Margins) -> list[MarginRow]:
    figures = (("RX1", margins.rx1), ("RX2", margins.rx2))
    return [
        MarginRow(
            _KINDS.get(margins.kind, margins.kind),
            window,
            margins.answers,
            *(ms(us) for us in (found.min_us, found.p1_us, found.p50_us, found.p99_us)),
        )
        for window, found in figures
        if found is not None
    ]


def _remarks(margins: Margins) -> list[str]:
    kind = _KINDS.get(margins.kind, margins.kind)
    remarks = [
        f"Answers to {kind} that no station could use any more (less than {AIM_GAP_MS} ms before "
        f"the last window): {margins.late} of {margins.answers}; meant for RX1 and only in time "
        f"for RX2: {margins.late_for_rx1}."
    ]
    if margins.disturbed:
        remarks.append(
            f"Not counted: {margins.disturbed} answers to {kind} that a scenario delayed, "
            "repeated or slowed down on purpose, or during which the host stalled."
        )
    upper = margins.answers - margins.from_air
    if upper:
        remarks.append(
            f"{upper} of the {margins.answers} margins of {kind} are upper bounds: nothing tells "
            "when the uplink ended on the air, so the moment counts at which it left the tap."
        )
    return remarks
