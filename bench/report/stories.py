"""Which cases does the page tell in full, and what does it tell of each, step by step?

The page draws the steps of a case as pixels, `lorabench timeline` as characters: `Scene` and
`step_of` are what the two drawings have in common.
"""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from bench.capture.reading import Event, Timetable
from bench.report import narration
from bench.report.excerpts import Excerpt, Window, excerpts, nearest, shown
from bench.report.narration import Cast, Line, cast_of, disposition, lines, milliseconds, seconds
from bench.report.score_file import Finding, Score, Verdict

_CLOCKWORK = ("timesync", "getxtime", "router_config")  # said whatever the case is about
_SPOKEN = re.compile(r"SEND|MSG|JOIN|RESET|ATZ|REBOOT|EVT|ERROR|TIMEOUT|FAIL", re.IGNORECASE)


class Kind(StrEnum):
    """The kinds of parties, in the order in which an uplink passes them."""

    DEVICE = "device"
    AIR = "air"
    STATION = "station"
    TAP = "tap"
    SERVER = "LNS"
    UPSTREAM = "upstream"


class Party(NamedTuple):
    """One party of a case; `name` is an EUI or a server's id, "" where there is only one."""

    kind: Kind
    name: str = ""


class Shape(StrEnum):
    """How a step is drawn: between parties, at one of them, or across all of them."""

    ARROW = "arrow"
    DOT = "dot"
    CROSS = "cross"
    BAND = "band"


AIR = Party(Kind.AIR)
TAP = Party(Kind.TAP)
UPSTREAM = Party(Kind.UPSTREAM)


@dataclass(frozen=True, slots=True)
class Step:
    """One event between parties: where it starts, what it passes, where it ends.

    A lost text ends at the tap if it passes one, anything else that is lost at its last stop.
    """

    shape: Shape
    stops: tuple[Party, ...]
    label: str
    injected: bool = False
    lost: bool = False


class Scene:
    """Who is there in one case, and which server each station talks to."""

    def __init__(self, events: Iterable[Event], cast: Cast) -> None:
        self.cast = cast
        self.servers = tuple(Party(Kind.SERVER, name) for name in cast.servers or ("LNS",))
        self.has_air = False
        self.server_of: dict[str, Party] = {}
        for event in events:
            self.has_air = self.has_air or str(event.get("kind")).startswith("radio.")
            named = Party(Kind.SERVER, str(event.get("lns")))
            if "station" in event and named in self.servers:
                self.server_of[str(event["station"])] = named

    def device(self, eui: object) -> Party | None:
        return Party(Kind.DEVICE, str(eui)) if str(eui) in self.cast.devices else None

    def station(self, eui: object) -> Party | None:
        return Party(Kind.STATION, str(eui)) if str(eui) in self.cast.stations else None

    def server(self, event: Event) -> Party:
        named = Party(Kind.SERVER, str(event.get("lns")))
        if named in self.servers:
            return named
        return self.server_of.get(str(event.get("station")), self.servers[0])


def step_of(event: Event, scene: Scene) -> Step | None:
    """The step of one event; None for what happens inside a party, or to nobody of the cast."""
    tell = _STEPS.get(str(event.get("kind")))
    return None if tell is None else tell(event, scene)


def _spoken(event: Event, scene: Scene) -> Step | None:
    device, text = scene.device(event.get("dev_eui")), str(event.get("text"))
    if device is None or _SPOKEN.search(text) is None:
        return None
    return Step(Shape.DOT, (device,), text)


def _transmitted(event: Event, scene: Scene) -> Step | None:
    injected = event.get("origin") == "injected"
    if event.get("direction") == "down":
        station = scene.station(event.get("sender"))
        if station is None:
            return None
        only = list(scene.cast.devices)
        ends = (AIR, Party(Kind.DEVICE, only[0])) if len(only) == 1 else (AIR,)
        return Step(Shape.ARROW, (station, *ends), "downlink on the air", injected)
    device = scene.device(event.get("sender"))
    if device is None:
        return None
    label = f"FCnt {event['f_cnt']}" if "f_cnt" in event else "join request"
    if event.get("genuine") is False:
        label = "forged frame"
    if event.get("attempt", 1) != 1:
        label += f", again ({event['attempt']})"
    return Step(Shape.ARROW, (device, AIR), label, injected)


def _lost(event: Event, scene: Scene) -> Step | None:
    receiver = event.get("receiver")
    party = scene.station(receiver) or scene.device(receiver)
    if party is None:
        return None
    return Step(Shape.CROSS, (party,), f"not heard: {event.get('cause')}")


def _texted(event: Event, scene: Scene) -> Step | None:
    station, word = scene.station(event.get("station")), narration.msgtype(event.get("text"))
    if station is None or word in _CLOCKWORK:
        return None
    injected, lost = event.get("origin") == "injected", event.get("dropped") is True
    label, server = narration.label(event.get("text")), scene.server(event)
    if event.get("direction") == "down":
        return Step(Shape.ARROW, (server, TAP, station), label, injected, lost)
    heard = word in ("updf", "jreq") and scene.has_air and not injected
    start = (AIR, station) if heard else (station,)
    return Step(Shape.ARROW, (*start, TAP, server), label, injected, lost)


def _published(event: Event, scene: Scene) -> Step:
    body = event.get("body")
    fields = body if isinstance(body, dict) else {}
    marked = ", marked dupMsg" if fields.get("dupMsg") is True else ""
    server = scene.server({**event, "lns": fields.get("lns")})
    return Step(Shape.ARROW, (server, UPSTREAM), f"FCnt {fields.get('fCnt', '?')}{marked}")


def _faulted(event: Event, scene: Scene) -> Step:
    where = f", {scene.cast.name(event['station'])}" if "station" in event else ""
    label = f"fault: {event.get('fault')} on the {event.get('seam')}{where}"
    return Step(Shape.BAND, (), label, injected=True)


def _restarted(event: Event, scene: Scene) -> Step | None:
    if event.get("event") != "restart":
        return None
    return Step(Shape.BAND, (), f"{event.get('lns')} restarts")


_STEPS: dict[str, Callable[[Event, Scene], Step | None]] = {
    "device.command": _spoken,
    "device.line": _spoken,
    "radio.transmit": _transmitted,
    "radio.lost": _lost,
    "station.text": _texted,
    "lns.outcome": lambda event, scene: Step(Shape.DOT, (scene.server(event),), disposition(event)),
    "lns.evicted": lambda event, scene: Step(
        Shape.DOT, (scene.server(event),), "forgets a sighting too early"
    ),
    "upstream.published": _published,
    "upstream.failed": lambda event, scene: Step(
        Shape.ARROW, (scene.server(event), UPSTREAM), f"{event.get('cause')}", lost=True
    ),
    "fault.begin": _faulted,
    "case.lns": _restarted,
    "host.stalled": lambda event, _: Step(
        Shape.BAND, (), f"the host stalled for {milliseconds(event.get('late_us'))}", injected=True
    ),
}


# The lanes are device | air | stations | tap | LNS | upstream.
#
# Pure geometry, in pixels of the drawing; `ladder.svg.j2` puts it on the page.
ROWS_MAX = 44
STATIONS_MAX = 6  # lanes; texts of further stations are drawn at the last lane
DEVICES_MAX = 3
LABEL_MAX = 66  # characters
GAP_US = 2_000_000  # a longer silence is written into the drawing

_TIME_WIDTH, _ROW_HEIGHT, _HEAD_HEIGHT = 84, 27, 40


@dataclass(frozen=True, slots=True)
class Lane:
    """One party, as a vertical line at `x`."""

    x: int
    title: str
    subtitle: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """One event: an arrow from `x` to `to_x`, a dot, a cross, or a band over the whole width.

    `via_xs` are dots on the arrow's way; `lost` ends the arrow in a cross.
    """

    shape: str  # "arrow", "dot", "cross", "band", "gap"
    x: int
    to_x: int
    label: str
    injected: bool = False
    lost: bool = False
    via_xs: tuple[int, ...] = ()
    time: str = ""
    y: int = 0
    pointed_at: bool = False

    @property
    def head_x(self) -> int:
        return -7 if self.to_x > self.x else 7

    @property
    def middle_x(self) -> int:
        return (self.x + self.to_x) // 2


@dataclass(frozen=True, slots=True)
class Ladder:
    """A drawing: lanes, marks from early to late, its size, and how many events are not drawn."""

    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    width: int
    height: int
    left_out: int


def ladder(
    excerpt: Excerpt, cast: Cast, begin_us: int, pointed_at: frozenset[int]
) -> Ladder | None:
    """The drawing of a case's events; None if there is nothing to draw."""
    scene = Scene(excerpt.events, cast)
    stage = _Stage(scene)
    drawn = [
        (event, replace(mark, pointed_at=place in pointed_at))
        for place, event in enumerate(excerpt.events)
        if (step := step_of(event, scene)) is not None and (mark := stage.mark(step)) is not None
    ]
    if not drawn:
        return None
    marks_by_event = {id(event): mark for event, mark in drawn}
    moments_us = [event["t_us"] for event, mark in drawn if mark.pointed_at]
    kept = nearest([event for event, _ in drawn], moments_us, ROWS_MAX)
    marks = _placed([(event["t_us"], marks_by_event[id(event)]) for event in kept.events], begin_us)
    height = marks[-1].y + _ROW_HEIGHT
    return Ladder(stage.lanes, tuple(marks), stage.width, height, kept.left_out)


def _placed(timed: Sequence[tuple[int, Mark]], begin_us: int) -> list[Mark]:
    marks: list[Mark] = []
    y, before_us = _HEAD_HEIGHT, timed[0][0]
    for t_us, mark in timed:
        if t_us - before_us >= GAP_US:
            y += _ROW_HEIGHT
            pause = f"{(t_us - before_us) / 1_000_000:.1f} s later"
            marks.append(Mark("gap", _TIME_WIDTH, _TIME_WIDTH, pause, y=y))
        y += _ROW_HEIGHT
        time = seconds(t_us - begin_us) if not marks or t_us != before_us else ""
        marks.append(replace(mark, y=y, time=time, label=shown(mark.label, LABEL_MAX)))
        before_us = t_us
    return marks


class _Stage:
    def __init__(self, scene: Scene) -> None:
        self.lanes: tuple[Lane, ...] = ()
        self._x = _TIME_WIDTH - 40
        self._at: dict[Party, int] = {}
        cast = scene.cast
        self._stand(Kind.DEVICE, list(cast.devices)[:DEVICES_MAX], 120, cast.devices)
        if scene.has_air:
            self._lane(Party(Kind.AIR), 140, "air", "")
        self._stand(Kind.STATION, list(cast.stations)[:STATIONS_MAX], 124, cast.stations)
        for eui in list(cast.stations)[STATIONS_MAX:]:
            self._at[Party(Kind.STATION, eui)] = self._x
        if cast.stations:
            self._lane(TAP, 96, "tap", "")
        for server in scene.servers:
            self._lane(server, 150, server.name, "LNS")
        self._lane(Party(Kind.UPSTREAM), 400, "upstream", "application")
        self.width = self._x + 70

    def mark(self, step: Step) -> Mark | None:
        if step.shape is Shape.BAND:
            return Mark(step.shape, _TIME_WIDTH, self.width, step.label, step.injected)
        stops = step.stops
        if step.lost and TAP in stops:
            stops = stops[: stops.index(TAP) + 1]
        xs = [self._at[party] for party in stops if party in self._at]
        if len(xs) < len(stops):
            return None
        via_xs = tuple(xs[1:-1])
        return Mark(step.shape, xs[0], xs[-1], step.label, step.injected, step.lost, via_xs)

    def _stand(self, kind: Kind, euis: Sequence[str], step: int, titles: dict[str, str]) -> None:
        for eui in euis:
            subtitle = "" if titles[eui] == eui else eui
            self._lane(Party(kind, eui), step, titles[eui], subtitle)

    def _lane(self, party: Party, step: int, title: str, subtitle: str) -> None:
        self._x += step
        self._at[party] = self._x
        self.lanes += (Lane(self._x, shown(title, 20), shown(subtitle, 20)),)


STORIES_MAX = 40
FINDINGS_MAX = 40  # of one case
OUTSIDE_MAX = 10  # findings that belong to no case
AROUND_US = 1_000_000  # shown on both sides of a finding that belongs to no case

_RANKS = ("FAIL", "PASS", "ERROR", "INCONCLUSIVE", "PASS on repeat")  # PASS: but with findings


@dataclass(frozen=True, slots=True)
class Story:
    """One case in full: its findings, its events as a drawing and line by line."""

    anchor: str
    verdict: Verdict | None  # None: a finding that belongs to no case
    findings: tuple[Finding, ...]
    findings_left_out: int
    ladder: Ladder | None
    lines: tuple[Line, ...]
    lines_left_out: int
    command: str


@dataclass(frozen=True, slots=True)
class Stories:
    """The stories of the page, the worst first; how many cases and findings had to go."""

    stories: tuple[Story, ...]
    anchors: dict[int, str]  # index of a verdict -> anchor of its story
    left_out: int
    outside_left_out: int


@dataclass(frozen=True, slots=True)
class _Plot:
    window: Window
    verdict: Verdict | None
    findings: tuple[Finding, ...]


def stories(run_folder: Path, score: Score, stories_max: int = STORIES_MAX) -> Stories:
    """Every case that is not a first-attempt PASS or has findings, worst first, with evidence."""
    by_case: dict[str | None, list[Finding]] = defaultdict(list)
    known = {verdict.case for verdict in score.verdicts}
    for finding in score.findings:
        by_case[finding.case if finding.case in known else None].append(finding)
    worth = [
        index
        for index, verdict in enumerate(score.verdicts)
        if not verdict.first_attempt_pass or verdict.case in by_case
    ]
    chosen = _worst_first(score.verdicts, worth)[:stories_max]
    table = _timetable(score.verdicts)
    plots = [
        _plot(f"s{index}", score.verdicts[index], table, tuple(by_case[score.verdicts[index].case]))
        for index in chosen
    ]
    outside = by_case[None]
    plots += [_outside(f"o{n}", finding) for n, finding in enumerate(outside[:OUTSIDE_MAX])]
    moments_us = {
        plot.window.key: [f.t_us for f in plot.findings if f.t_us is not None] for plot in plots
    }
    windows = [plot.window for plot in plots]
    evidence = excerpts(run_folder, windows, moments_us, table=table)
    return Stories(
        stories=tuple(_story(plot, evidence[plot.window.key], score) for plot in plots),
        anchors={index: f"s{index}" for index in chosen},
        left_out=len(worth) - len(chosen),
        outside_left_out=max(0, len(outside) - OUTSIDE_MAX),
    )


def places(findings: Sequence[Finding], events: Sequence[Event]) -> frozenset[int]:
    """The places, in a sequence of events, of those that a finding points at."""
    return frozenset(
        place
        for place, event in enumerate(events)
        if any(_points_at(finding, event) for finding in findings)
    )


def repeat_command(verdict: Verdict, score: Score) -> str:
    if not verdict.file:
        return ""
    words = ["pytest", f"{verdict.file}::{verdict.scenario}"]
    words += ["--rig", score.rig] if score.rig else []
    words += ["--seed", str(score.seed)] if score.seed is not None else []
    words += ["--strategy", verdict.strategy] if verdict.strategy else []
    return shlex.join(words)


def _worst_first(verdicts: Sequence[Verdict], worth: Sequence[int]) -> list[int]:
    """By severity; the first case of every scenario before the second of any."""
    seen: Counter[tuple[str, str]] = Counter()
    ranks: dict[int, tuple[int, int, int]] = {}
    for index in worth:
        verdict = verdicts[index]
        word = verdict.wording
        turn = seen[verdict.scenario, word]
        seen[verdict.scenario, word] += 1
        ranks[index] = (_RANKS.index(word) if word in _RANKS else 0, turn, index)
    return sorted(worth, key=ranks.__getitem__)


def _timetable(verdicts: Sequence[Verdict]) -> Timetable:
    begins = {v.case: v.begin_us for v in verdicts if v.begin_us is not None}
    return Timetable.of(begins, {v.case: v.end_us for v in verdicts if v.end_us is not None})


def _plot(key: str, verdict: Verdict, table: Timetable, findings: tuple[Finding, ...]) -> _Plot:
    if verdict.case not in table:
        return _Plot(Window(key, 0, -1), verdict, findings)  # nothing is recorded of it
    return _Plot(Window(key, *table.window(verdict.case), verdict.case), verdict, findings)


def _outside(key: str, finding: Finding) -> _Plot:
    if finding.t_us is None:
        return _Plot(Window(key, 0, -1), None, (finding,))
    return _Plot(Window(key, finding.t_us - AROUND_US, finding.t_us + AROUND_US), None, (finding,))


def _story(plot: _Plot, excerpt: Excerpt, score: Score) -> Story:
    cast = cast_of(excerpt.events)
    pointed_at = places(plot.findings, excerpt.events)
    begin_us = plot.window.begin_us if plot.verdict else plot.window.begin_us + AROUND_US
    return Story(
        anchor=plot.window.key,
        verdict=plot.verdict,
        findings=plot.findings[:FINDINGS_MAX],
        findings_left_out=max(0, len(plot.findings) - FINDINGS_MAX),
        ladder=ladder(excerpt, cast, begin_us, pointed_at),
        lines=tuple(lines(excerpt, cast, begin_us, pointed_at)),
        lines_left_out=excerpt.left_out,
        command=repeat_command(plot.verdict, score) if plot.verdict is not None else "",
    )


def _points_at(finding: Finding, event: Event) -> bool:
    if event["t_us"] != finding.t_us:
        return False
    named = [
        (wanted, event.get(key))
        for key, wanted in (("station", finding.station), ("frame_id", finding.frame_id))
        if wanted is not None
    ]
    return all(found in (None, wanted) for wanted, found in named) and (
        not named or any(found is not None for _, found in named)
    )
