"""How early were the answers, and was the host fast enough to tell?"""

from dataclasses import dataclass

from bench.report.histogram import AIM_GAP_MS, Histogram, histogram
from bench.report.score_file import Margins, Score

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
