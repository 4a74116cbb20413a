"""What happened in a case, as a drawing, time downwards?

The lanes are device | air | stations | tap | LNS | upstream.

Pure geometry, in pixels of the drawing; `ladder.svg.j2` puts it on the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.report.excerpts import Excerpt, nearest
from bench.report.foreign_text import shown
from bench.report.narration import Cast, seconds
from bench.report.steps import TAP, Kind, Party, Scene, Shape, Step, step_of

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
    """Where the lanes of one drawing stand; holds for that drawing."""

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
        """The step in pixels; None if one of its parties has no lane."""
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
