"""What happened in a case, as a drawing: device | air | stations | LNS | upstream, time downwards?

Pure geometry, in pixels of the drawing; `ladder.svg.j2` puts it on the page.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench.report import station_text
from bench.report.cast import Cast
from bench.report.evidence import Event, Excerpt, nearest
from bench.report.foreign_text import shown
from bench.report.narration import disposition, seconds

ROWS_MAX = 44
STATIONS_MAX = 6  # lanes; texts of further stations are drawn at the last lane
DEVICES_MAX = 3
LABEL_MAX = 66  # characters
GAP_US = 2_000_000  # a longer silence is written into the drawing

_TIME_WIDTH, _ROW_HEIGHT, _HEAD_HEIGHT = 84, 27, 40
_SPOKEN = re.compile(r"SEND|MSG|JOIN|RESET|ATZ|REBOOT|EVT|ERROR|TIMEOUT|FAIL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lane:
    """One party, as a vertical line at `x`."""

    x: int
    title: str
    subtitle: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """One event: an arrow from `x` to `to_x`, a dot, a cross, or a band over the whole width.

    `via_x` is a dot on the arrow's way; `lost` ends the arrow in a cross.
    """

    shape: str  # "arrow", "dot", "cross", "band", "gap"
    x: int
    to_x: int
    label: str
    injected: bool = False
    lost: bool = False
    via_x: int | None = None
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
    stage = _Stage(excerpt.events, cast)
    drawn = [
        (event, replace(mark, pointed_at=place in pointed_at))
        for place, event in enumerate(excerpt.events)
        if (draw := _DRAWINGS.get(str(event.get("kind")))) is not None
        and (mark := draw(event, stage)) is not None
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

    def __init__(self, events: Sequence[Event], cast: Cast) -> None:
        self.cast = cast
        self.lanes: tuple[Lane, ...] = ()
        self._x = _TIME_WIDTH - 40
        radio = any(str(event.get("kind")).startswith("radio.") for event in events)
        self.devices = self._stand(list(cast.devices)[:DEVICES_MAX], 120, cast.devices)
        self.air = self._lane(140, "air", "") if radio else None
        self.stations = self._stand(list(cast.stations)[:STATIONS_MAX], 124, cast.stations)
        servers = cast.servers or ("LNS",)
        self.servers = {server: self._lane(150, server, "LNS") for server in servers}
        self.upstream = self._lane(400, "upstream", "application")
        self.width = self._x + 70
        self._server_of = {
            str(event["station"]): str(event["lns"])
            for event in events
            if "station" in event and event.get("lns") in self.servers
        }

    def device(self, eui: object) -> int | None:
        return self.devices.get(str(eui))

    def station(self, eui: object) -> int | None:
        if str(eui) in self.cast.stations and self.stations:
            return self.stations.get(str(eui), max(self.stations.values()))
        return None

    def server(self, event: Event) -> int:
        named = str(event.get("lns") or self._server_of.get(str(event.get("station"))))
        return self.servers.get(named, min(self.servers.values()))

    def _stand(self, euis: Sequence[str], step: int, titles: dict[str, str]) -> dict[str, int]:
        return {
            eui: self._lane(step, titles[eui], "" if titles[eui] == eui else eui) for eui in euis
        }

    def _lane(self, step: int, title: str, subtitle: str) -> int:
        self._x += step
        self.lanes += (Lane(self._x, shown(title, 20), shown(subtitle, 20)),)
        return self._x


def _spoken(event: Event, stage: _Stage) -> Mark | None:
    x, text = stage.device(event.get("dev_eui")), str(event.get("text"))
    if x is None or _SPOKEN.search(text) is None:
        return None
    return Mark("dot", x, x, text)


def _transmitted(event: Event, stage: _Stage) -> Mark | None:
    injected = event.get("origin") == "injected"
    if event.get("direction") == "down":
        x = stage.station(event.get("sender"))
        if x is None or stage.air is None:
            return None
        ends = list(stage.devices.values())
        to_x = ends[0] if len(ends) == 1 else stage.air
        return Mark("arrow", x, to_x, "downlink on the air", injected, via_x=stage.air)
    x = stage.device(event.get("sender"))
    if x is None or stage.air is None:
        return None
    label = f"FCnt {event['f_cnt']}" if "f_cnt" in event else "join request"
    if event.get("genuine") is False:
        label = "forged frame"
    if event.get("attempt", 1) != 1:
        label += f", again ({event['attempt']})"
    return Mark("arrow", x, stage.air, label, injected)


def _lost(event: Event, stage: _Stage) -> Mark | None:
    receiver = event.get("receiver")
    x = stage.station(receiver) or stage.device(receiver)
    return None if x is None else Mark("cross", x, x, f"not heard: {event.get('cause')}")


def _texted(event: Event, stage: _Stage) -> Mark | None:
    x, word = stage.station(event.get("station")), station_text.msgtype(event.get("text"))
    if x is None or word in ("timesync", "router_config"):
        return None
    injected, lost = event.get("origin") == "injected", event.get("dropped") is True
    label, server = station_text.label(event.get("text")), stage.server(event)
    if event.get("direction") == "down":
        return Mark("arrow", server, x, label, injected, lost)
    heard = word in ("updf", "jreq") and stage.air is not None and not injected
    start = stage.air if heard and stage.air is not None else x
    to_x = (x + server) // 2 if lost else server
    return Mark("arrow", start, to_x, label, injected, lost, via_x=x if heard else None)


def _decided(event: Event, stage: _Stage) -> Mark:
    x = stage.server(event)
    return Mark("dot", x, x, disposition(event))


def _forgot(event: Event, stage: _Stage) -> Mark:
    x = stage.server(event)
    return Mark("dot", x, x, "forgets a sighting too early")


def _published(event: Event, stage: _Stage) -> Mark:
    body = event.get("body")
    told = body if isinstance(body, dict) else {}
    marked = ", marked dupMsg" if told.get("dupMsg") is True else ""
    x = stage.servers.get(str(told.get("lns")), stage.server(event))
    return Mark("arrow", x, stage.upstream, f"FCnt {told.get('fCnt', '?')}{marked}")


def _not_published(event: Event, stage: _Stage) -> Mark:
    return Mark("arrow", stage.server(event), stage.upstream, f"{event.get('cause')}", lost=True)


def _faulted(event: Event, stage: _Stage) -> Mark:
    where = f", {stage.cast.name(str(event['station']))}" if "station" in event else ""
    label = f"fault: {event.get('fault')} on the {event.get('seam')}{where}"
    return Mark("band", _TIME_WIDTH, stage.width, label, injected=True)


def _restarted(event: Event, stage: _Stage) -> Mark | None:
    if event.get("event") != "restart":
        return None
    return Mark("band", _TIME_WIDTH, stage.width, f"{event.get('lns')} restarts")


_DRAWINGS: dict[str, Callable[[Event, _Stage], Mark | None]] = {
    "device.command": _spoken,
    "device.line": _spoken,
    "radio.transmit": _transmitted,
    "radio.lost": _lost,
    "station.text": _texted,
    "lns.outcome": _decided,
    "lns.evicted": _forgot,
    "upstream.published": _published,
    "upstream.failed": _not_published,
    "fault.begin": _faulted,
    "case.lns": _restarted,
}
