"""Which run was it, how is it repeated, and was there time enough?"""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any

from bench.report.excerpts import shown, shown_arguments
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
    """The margins of a run to its receive windows, as `bench.score.receptions` measured them."""
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


UNCOMMITTED = "Uncommitted changes"
NOTICES_MAX = 50
ITEMS_MAX = 40  # devices or stations of the inventory that are named


@dataclass(frozen=True, slots=True)
class Facts:
    """Name and value of each fact, the command that repeats the run, licence notices.

    `alarming`: the names of facts that are to be red.
    """

    rows: tuple[tuple[str, str], ...]
    command: str
    notices: tuple[str, ...]
    alarming: frozenset[str] = frozenset()


def facts(score: Score, manifest: dict[str, Any]) -> Facts:
    """The facts of a run. What the manifest does not say is left out; keys are never printed."""
    rig = score.rig or manifest.get("rig")
    seed = score.seed if score.seed is not None else manifest.get("seed")
    spark = score.spark
    commit = manifest.get("git_commit") or manifest.get("commit") or manifest.get("git")
    found = manifest.get("dut")
    dut = found if isinstance(found, dict) else {}
    rows = [
        ("Night", manifest.get("night")),
        ("Line", manifest.get("line")),
        ("Run", score.run),
        ("Run id", score.run_id or manifest.get("run_id")),
        ("Rig", rig),
        ("Seed", seed),
        ("Started", manifest.get("started") or manifest.get("started_at")),
        ("Ended", _ended(manifest.get("ended"))),
        ("Wall time", _wall_time(manifest)),
        ("Host", manifest.get("host")),
        ("Server under test", " ".join(str(dut[n]) for n in ("name", "version") if dut.get(n))),
        ("Git commit", commit),
        (UNCOMMITTED, _uncommitted(dut) or _uncommitted(manifest.get("bench_code"))),
        ("Duration", _duration(score)),
        ("Scored by", spark.version and f"Spark {spark.version} in {spark.seconds:.1f} s"),
        ("Versions", _versions(manifest.get("versions"))),
        ("Inventory", _inventory(manifest.get("inventory"))),
    ]
    return Facts(
        rows=tuple((name, shown(_flat(value))) for name, value in rows if value not in (None, "")),
        command=_command(rig, seed, manifest.get("argv")),
        notices=tuple(_notices(manifest.get("notices"))),
        alarming=frozenset({UNCOMMITTED}),
    )


def _ended(ended: object) -> str:
    if not isinstance(ended, dict):
        return ""
    reason = ended.get("reason")
    return f"{ended.get('at')}, {ended.get('how')}" + (f": {reason}" if reason else "")


def _wall_time(manifest: dict[str, Any]) -> str:
    ended = manifest.get("ended")
    at = ended.get("at") if isinstance(ended, dict) else None
    try:
        took = datetime.fromisoformat(str(at)) - datetime.fromisoformat(str(manifest["started"]))
    except (KeyError, ValueError, TypeError):
        return ""
    minutes, whole_s = divmod(max(0, int(took.total_seconds())), 60)
    return f"{minutes} min {whole_s:02d} s" if minutes else f"{whole_s} s"


def _uncommitted(code: object) -> str:
    if not isinstance(code, dict) or code.get("dirty") is not True:
        return ""
    return f"the code that ran is not that commit; hash of the difference {code.get('difference')}"


def _command(rig: object, seed: object, argv: object) -> str:
    if isinstance(argv, list) and argv:
        words = shown_arguments([str(word) for word in argv])
        program = PurePath(words[0])
        # `python -m bench` leaves the path of __main__.py there.
        name = program.parent.name if program.name == "__main__.py" else program.name
        words = ["lorabench" if name == "bench" else name, *words[1:]]
    else:
        words = ["lorabench", "run", *(["--rig", str(rig)] if rig else [])]
    if seed not in (None, "") and not any(word.split("=")[0] == "--seed" for word in words):
        words += ["--seed", str(seed)]
    return shlex.join(shown(word) for word in words).replace("'****'", "****")


def _duration(score: Score) -> str:
    begins = [v.begin_us for v in score.verdicts if v.begin_us is not None]
    ends = [v.end_us for v in score.verdicts if v.end_us is not None]
    if not begins or not ends:
        return ""
    whole_s = max(0, max(ends) - min(begins)) // 1_000_000
    hours, minutes = divmod(whole_s // 60, 60)
    clock = "of the run's own clock"
    if whole_s < 60:
        return f"{whole_s} s {clock}"
    return f"{hours} h {minutes:02d} min {clock}" if hours else f"{minutes} min {clock}"


def _versions(versions: object) -> str:
    if isinstance(versions, dict):
        return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return str(versions) if isinstance(versions, str) else ""


def _inventory(inventory: object) -> str:
    """Only names, EUIs, kinds and firmware: an inventory may hold keys and addresses."""
    parts = []
    if isinstance(inventory, dict):
        for kind in sorted(inventory):
            items = inventory[kind]
            named = items.items() if isinstance(items, dict) else enumerate(_listed(items))
            shown_items = [_item(str(name), item) for name, item in named if isinstance(item, dict)]
            if shown_items:
                parts.append(f"{kind}: {', '.join(shown_items[:ITEMS_MAX])}")
    return "; ".join(parts)


def _item(name: str, item: dict[str, Any]) -> str:
    titles = (item.get(key) for key in ("name", "eui", "dev_eui", "file"))
    title = str(next((title for title in titles if title), name))
    more = [str(item[key]) for key in ("model", "kind", "firmware", "format") if item.get(key)]
    return f"{title} ({', '.join(more)})" if more else title


def _notices(notices: object) -> list[str]:
    parts = []
    for notice in _listed(notices)[:NOTICES_MAX]:
        if isinstance(notice, dict):
            parts.append(" — ".join(str(value) for value in notice.values() if value))
        else:
            parts.append(str(notice))
    return [shown(notice, 2000) for notice in parts]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)
