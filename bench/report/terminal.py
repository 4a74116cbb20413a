"""What happened in one case of a run, event by event, in a terminal's characters?

A reading of the captures like the report, with the same words; it needs no score.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from textwrap import wrap
from unicodedata import combining, east_asian_width

from bench.capture.reading import Event
from bench.report.divergence import Comparison
from bench.report.foreign_text import shown
from bench.report.narration import disposition, in_words, milliseconds, seconds
from bench.report.station_messages import megahertz
from bench.report.steps import AIR, TAP, UPSTREAM, Kind, Party, Scene, Shape, Step, step_of

WORDS_MAX = 200  # characters of one row
GAP_US = 2_000_000  # a longer silence has a row of its own

MET, UNMET = "✓", "✗"


class Tone(StrEnum):
    """What a row is about, for colours; its words say the same."""

    PLAIN = "plain"
    DECISION = "decision"
    UPSTREAM = "upstream"
    FAULT = "fault"
    MET = "met"
    DIVERGED = "diverged"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: an event at its place in the case, or a silence (`place` is None)."""

    t_us: int
    words: str
    tone: Tone
    place: int | None = None
    step: Step | None = None
    diverges: bool = False
    first: bool = False


def rows(events: Sequence[Event], scene: Scene, comparison: Comparison, places: range) -> list[Row]:
    """The rows of the events at these places, from early to late; some events have none."""
    due: dict[int, list[str]] = {}
    for found in comparison.divergences:
        due.setdefault(found.place, []).append(found.text)
    first = None if comparison.first is None else comparison.first.place
    told: list[Row] = []
    for place in places:
        event = events[place]
        step = step_of(event, scene)
        if step is None:
            step = _more(event, scene)
        if step is None and place not in due and event.get("kind") != "case.expect":
            continue
        t_us = event["t_us"]
        if told and t_us - told[-1].t_us >= GAP_US:
            later = f"{(t_us - told[-1].t_us) / 1_000_000:.1f} s later"
            told.append(Row(t_us, later, Tone.QUIET))
        words = _words(event, step, scene)
        met = comparison.met.get(place)
        if met is not None:
            words = f"{MET if met else UNMET} {words}"
        if place in due:
            words += "".join(f"  {UNMET} {text}" for text in due[place])
        told.append(
            Row(
                t_us,
                shown(words, WORDS_MAX),
                _tone(event, met=met, diverges=place in due),
                place,
                step,
                diverges=place in due,
                first=place == first,
            )
        )
    return told


def _more(event: Event, scene: Scene) -> Step | None:
    """The step of what the report leaves to its list of lines."""
    kind, words = str(event.get("kind")), in_words(event, scene.cast)
    if kind == "fault.end":
        return Step(Shape.BAND, (), words)
    if kind == "lns.downlink":
        return Step(Shape.DOT, (scene.server(event),), words)
    if kind.startswith("lns."):
        return Step(Shape.DOT, (scene.server(event),), f"{kind}: {words}")
    if kind.startswith(("upstream.", "inbox.")):
        return Step(Shape.DOT, (UPSTREAM,), f"{kind}: {words}")
    return None


def _words(event: Event, step: Step | None, scene: Scene) -> str:
    if step is None:
        return in_words(event, scene.cast)
    label = ("injected: " if step.injected and step.shape is not Shape.BAND else "") + step.label
    match event.get("kind"):
        case "device.command":
            return f"> {label}"
        case "device.line":
            return f"< {label}"
        case "radio.transmit":
            return f"{label}, DR{event.get('dr')} {_frequency(event.get('freq_hz'))}"
        case "radio.lost":
            return f"{scene.cast.name(str(event.get('receiver')))}: {label}"
        case "station.text":
            held = f", held {milliseconds(event['held_us'])}" if "held_us" in event else ""
            return label + held + (", dropped by the tap" if step.lost else "")
        case "lns.outcome":
            return disposition(event)
        case "upstream.published":
            return f"published {label}"
        case "upstream.failed":
            return f"not published: {label}"
        case "fault.begin":
            return label + _detail(event)
        case _:
            return label


def _detail(event: Event) -> str:
    detail = event.get("detail")
    if not isinstance(detail, dict) or not detail:
        return ""
    return f" ({', '.join(f'{key} {value}' for key, value in detail.items())})"


def _frequency(freq_hz: object) -> str:
    return megahertz(freq_hz) if type(freq_hz) is int else "? MHz"


def _tone(event: Event, *, met: bool | None, diverges: bool) -> Tone:
    kind = str(event.get("kind"))
    if diverges or met is False:
        return Tone.DIVERGED
    if met:
        return Tone.MET
    if kind.startswith("fault.") or event.get("origin") == "injected" or kind == "case.lns":
        return Tone.FAULT
    return {
        "lns.outcome": Tone.DECISION,
        "upstream.published": Tone.UPSTREAM,
        "upstream.failed": Tone.FAULT,
        "radio.lost": Tone.FAULT,
        "host.stalled": Tone.FAULT,
        "lns.downlink": Tone.QUIET,
        "case.expect": Tone.QUIET,
    }.get(kind, Tone.FAULT if event.get("dropped") is True else Tone.PLAIN)


WIDTH_MIN, WIDTH_MAX = 80, 200
LINES_MAX = 4  # of one row
DEVICES_MAX, STATIONS_MAX, SERVERS_MAX = 3, 6, 3

_PITCH_MIN, _PITCH_MAX = 5, 12
_WORDS_SHARE = 0.42  # of the width, at least, is for words
_MARGIN = 2
_FIRST = "▶"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the drawing, in the parts that may have colours of their own."""

    margin: str
    time: str
    graph: str
    words: str
    tone: Tone = Tone.PLAIN

    def __str__(self) -> str:
        return f"{self.margin}{self.time} {self.graph} {self.words}".rstrip()


class Drawing:
    """Where the lanes of one timeline stand; holds for one scene and one width in columns."""

    def __init__(self, scene: Scene, width: int, time_width: int) -> None:
        self._time_width = time_width
        room = width - _MARGIN - time_width - 2
        lanes_room = room - int(width * _WORDS_SHARE)
        self._titles, shared = _lanes(scene, lanes_room // _PITCH_MIN)
        count = len(self._titles)
        longest = max(cells(title) for title in self._titles.values()) + 1
        self._pitch = max(_PITCH_MIN, min(_PITCH_MAX, longest, lanes_room // count))
        first = self._pitch // 2
        self._at = {party: first + n * self._pitch for n, party in enumerate(self._titles)}
        for party, host in shared.items():
            self._at[party] = self._at[host]
        self._graph_width = count * self._pitch
        self._words_width = room - self._graph_width

    def head(self) -> Iterator[Line]:
        """The names of the lanes, on two lines where they would touch each other on one."""
        longest = max(cells(title) for title in self._titles.values())
        steps = 1 if longest < self._pitch else 2
        for row in range(steps):
            line = ""
            for place, (party, title) in enumerate(self._titles.items()):
                if place % steps != row:
                    continue
                fitting = _clipped(title, steps * self._pitch - 1)
                start = max(0, self._at[party] - cells(fitting) // 2)
                start = min(start, self._graph_width - cells(fitting))
                line += " " * (start - cells(line)) + fitting
            time = "seconds" if row == steps - 1 else ""
            graph = line + " " * (self._graph_width - cells(line))
            yield Line(" " * _MARGIN, f"{time:>{self._time_width}}", graph, "", Tone.QUIET)

    def lines(self, rows: Sequence[Row], begin_us: int) -> Iterator[Line]:
        """The rows, each on one line or more; the time only where it has gone on."""
        shown_us: int | None = None
        for row in rows:
            silence = row.place is None
            time = "" if silence or row.t_us == shown_us else seconds(row.t_us - begin_us)
            shown_us = shown_us if silence else row.t_us
            words = f"FIRST DIVERGENCE: {row.words}" if row.first else row.words
            graph = self._silence() if silence else self._graph(row.step)
            after, width = self._graph(None), self._words_width
            if row.step is None and not silence:  # nothing to draw: the words take the lanes' room
                graph, after, width = "", "  ", self._graph_width + self._words_width
            margin = f"{_FIRST if row.diverges else ' ':{_MARGIN}}"
            for text in _wrapped(words, width - len(graph or after) * (not graph)):
                yield Line(margin, f"{time:>{self._time_width}}", graph, text, row.tone)
                margin, time, graph = " " * _MARGIN, "", after

    def _silence(self) -> str:
        return self._graph(None).replace("│", "⋮")

    def _graph(self, step: Step | None) -> str:
        line = [" "] * self._graph_width
        for x in self._at.values():
            line[x] = "│"
        xs = [self._at[party] for party in step.stops if party in self._at] if step else []
        if step is None or (step.shape is not Shape.BAND and not xs):
            return "".join(line)
        match step.shape:
            case Shape.BAND:
                line = ["═" if character == " " else "╪" for character in line]
            case Shape.DOT:
                line[xs[0]] = "●"
            case Shape.CROSS:
                line[xs[0]] = "✗"
            case Shape.ARROW:
                lost_at = self._at[TAP] if step.lost and TAP in step.stops else None
                _arrow(line, xs, step.lost, lost_at)
        return "".join(line)


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _arrow(line: list[str], xs: Sequence[int], lost: bool, lost_at: int | None) -> None:
    """An arrow over the lanes at `xs`; a lost one ends in a cross."""
    if lost_at is not None:
        xs = xs[: xs.index(lost_at) + 1]
    start, end = xs[0], xs[-1]
    if start == end:  # two parties that share a lane
        line[start] = "●"
        return
    right = end > start
    for x in range(min(start, end) + 1, max(start, end)):
        line[x] = "┼" if line[x] == "│" else "─"
    for x in xs[1:-1]:
        line[x] = "●"
    line[start] = "├" if right else "┤"
    if lost:
        line[end] = "✗"
    else:
        line[end - 1 if right else end + 1] = "►" if right else "◄"


def _lanes(scene: Scene, count_max: int) -> tuple[dict[Party, str], dict[Party, Party]]:
    """The lanes with their titles, at most `count_max`, and who shares the lane of another.

    Where there are too many parties, the last stations share a lane, then devices, then servers.
    """
    cast = scene.cast
    stations = [Party(Kind.STATION, eui) for eui in cast.stations]
    devices = [Party(Kind.DEVICE, eui) for eui in cast.devices]
    own = {
        Kind.STATION: min(len(stations), STATIONS_MAX),
        Kind.DEVICE: min(len(devices), DEVICES_MAX),
        Kind.SERVER: min(len(scene.servers), SERVERS_MAX),
    }
    fixed = 2 + scene.has_air
    for kind in own:
        while own[kind] > 1 and fixed + sum(own.values()) > count_max:
            own[kind] -= 1
    titles: dict[Party, str] = {}
    shared: dict[Party, Party] = {}

    def stand(parties: Sequence[Party], lanes_max: int) -> None:
        for party in parties[:lanes_max]:
            titles[party] = _title(party, scene)
        rest = parties[lanes_max:]
        if rest:
            host = parties[lanes_max - 1]
            titles[host] = f"{len(rest) + 1} others"
            shared.update(dict.fromkeys(rest, host))

    stand(devices, own[Kind.DEVICE])
    if scene.has_air:
        titles[AIR] = "air"
    stand(stations, own[Kind.STATION])
    if stations:
        titles[TAP] = "tap"
    stand(scene.servers, own[Kind.SERVER])
    titles[UPSTREAM] = "upstream"
    return titles, shared


def _title(party: Party, scene: Scene) -> str:
    name = party.name if party.kind is Kind.SERVER else scene.cast.name(party.name)
    return shown(name, 20).replace("\n", " ").replace("\t", " ")


def _clipped(title: str, width: int) -> str:
    """The end of a title where it is too long: of two EUIs, it is the end that differs."""
    while cells(title) > width:
        title = f"…{title[2:]}"
    return title


def _wrapped(words: str, width: int) -> list[str]:
    """Words on lines of `width` columns, at most LINES_MAX of them."""
    wide = max(1, width // 2) if cells(words) > len(words) else width
    return wrap(words, wide, max_lines=LINES_MAX, placeholder=" …") or [""]
