"""How does a case look on a terminal, and where did it first go another way than was due?

The verdict says why a case failed; the divergence says at which event one can see it. What is due
comes from the case's own expectations, and from Spark's findings where the run has been scored.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from textwrap import wrap
from unicodedata import combining, east_asian_width

from bench.capture.reading import Event
from bench.report.excerpts import shown
from bench.report.narration import (
    Cast,
    disposition,
    frequency,
    in_words,
    listed,
    milliseconds,
    seconds,
)
from bench.report.score_file import Finding
from bench.report.stories import (
    AIR,
    TAP,
    UPSTREAM,
    Kind,
    Party,
    Scene,
    Shape,
    Step,
    places,
    step_of,
)
from bench.verdict.expectation import Evidence, Heard, Words, without_signal


@dataclass(frozen=True, slots=True)
class Divergence:
    """An event, by its place among those of the case, and what was due there."""

    place: int
    t_us: int
    text: str


@dataclass(slots=True)
class Comparison:
    """What was due against what was there; `met` says so of each expectation, by its place."""

    met: dict[int, bool] = field(default_factory=dict)
    divergences: list[Divergence] = field(default_factory=list)

    @property
    def first(self) -> Divergence | None:
        """The divergence that came first; what follows from it comes later."""
        return min(self.divergences, key=lambda found: (found.t_us, found.place), default=None)


def compare(events: Sequence[Event], cast: Cast, findings: Sequence[Finding]) -> Comparison:
    """The expectations and findings of one case against its events, which are in order of time."""
    comparison = _Comparing(events, cast).compare()
    for finding in findings:
        for place in sorted(places([finding], events)):
            found = Divergence(place, events[place]["t_us"], f"{finding.rule}: {finding.text}")
            comparison.divergences.append(found)
    return comparison


class _Comparing:
    def __init__(self, events: Sequence[Event], cast: Cast) -> None:
        self._events = events
        self._cast = cast
        self._found = Comparison()
        self._seen: set[int] = set()
        self._due: dict[str, list[int]] = {}
        for place, event in enumerate(events):
            if event.get("kind") == "case.expect":
                self._due.setdefault(str(event.get("expect", "outcome")), []).append(place)

    def compare(self) -> Comparison:
        if not self._due:
            return self._found
        try:
            evidence = Evidence.of(self._events)
            self._outcomes(evidence)
            self._lines(evidence)
            self._bodies(evidence)
            self._windows(evidence)
        except (LookupError, TypeError, ValueError, AttributeError):
            # A capture with lines of another version: what was understood of it stays.
            pass
        return self._found

    def _outcomes(self, evidence: Evidence) -> None:
        places_of: dict[str, list[int]] = {}
        for place in self._due.get("outcome", ()):
            places_of.setdefault(self._events[place]["frame_id"], []).append(place)
        for frame_id, expected in evidence.expected.items():
            rows = zip(expected, places_of[frame_id], strict=True)
            heard = evidence.heard.get(frame_id, [])
            for row, reception in zip_longest(rows, heard):
                if row is None:
                    who = self._cast.name(reception.station)
                    self._diverges(self._text_of(reception), f"{who} heard it and was not to")
                    continue
                due, place = row
                self._found.met[place] = self._is_met(due.station, due.words, reception, frame_id)

    def _is_met(self, station: str, words: Words, heard: Heard | None, frame_id: str) -> bool:
        if heard is None or heard.station != station:
            who = self._cast.name(station)
            place = self._undelivered(station, frame_id)
            if place is None and heard is not None:
                place = self._text_of(heard)
            self._diverges(place, f"due: {who} hears {frame_id}")
            return False
        place = self._outcome_of(heard)
        if heard.outcome == words:
            return True
        missing = heard.outcome is None or place is None
        said = "an outcome, due: " if missing else "due: "
        self._diverges(self._text_of(heard) if missing else place, f"{said}{words}")
        return False

    def _lines(self, evidence: Evidence) -> None:
        observed = {dev_eui: iter(lines) for dev_eui, lines in evidence.lines.items()}
        for place in self._due.get("device", ()):
            event = self._events[place]
            # Consumes up to the match: the order counts.
            met = without_signal(event["line"]) in observed.get(event["dev_eui"], iter(()))
            self._found.met[place] = met
            if not met:
                who = self._cast.name(event["dev_eui"])
                self._diverges(place, f"{who} did not say {event['line']!r}")

    def _bodies(self, evidence: Evidence) -> None:
        for place in self._due.get("upstream", ()):
            due = self._events[place]
            which = due["dev_eui"], due["f_cnt"], due["station"]
            self._found.met[place] = True
            for at, event in enumerate(self._events):
                if event.get("kind") != "upstream.published":
                    continue
                body = event["body"]
                if (body["devEui"], body["fCnt"], body["station"]) != which:
                    continue
                wrong = [
                    f"{key} {due['body'][key]!r}"
                    for key in due["body"]
                    if body.get(key) != due["body"][key]
                ]
                if wrong:
                    self._found.met[place] = False
                    self._diverges(at, f"due: {', '.join(wrong)}")

    def _windows(self, evidence: Evidence) -> None:
        for place in self._due.get("on_air", ()):
            event = self._events[place]
            met = evidence.on_air.get(event["frame_id"], []) == event["windows"]
            self._found.met[place] = met
            if not met:
                said = ", ".join(evidence.on_air.get(event["frame_id"], [])) or "none"
                self._diverges(place, f"reported on the air: {said}")

    def _diverges(self, place: int | None, text: str) -> None:
        if place is not None:
            self._found.divergences.append(Divergence(place, self._events[place]["t_us"], text))

    def _outcome_of(self, heard: Heard) -> int | None:
        """The place of a reception's outcome: of that station, frame and xtime.

        Between processes it may seem to come before the reception, which is noted once it is sent.
        """
        return self._first(
            "lns.outcome", station=heard.station, frame_id=heard.frame_id, xtime=heard.xtime
        )

    def _text_of(self, heard: Heard) -> int | None:
        return self._first("station.text", station=heard.station, t_us=heard.t_us)

    def _undelivered(self, station: str, frame_id: str) -> int | None:
        sent = [
            (place, event)
            for place, event in enumerate(self._events)
            if event.get("kind") == "radio.transmit" and event.get("frame_id") == frame_id
        ]
        numbers = {event.get("transmission") for _, event in sent}
        lost = self._first(
            "radio.lost", lambda event: event.get("transmission") in numbers, receiver=station
        )
        if lost is not None or not sent:
            return lost
        place, first = sent[0]
        dropped = self._first(
            "station.text",
            lambda event: event["t_us"] >= first["t_us"],
            station=station,
            dropped=True,
        )
        return place if dropped is None else dropped

    def _first(
        self, kind: str, fits: Callable[[Event], bool] = lambda event: True, **said: object
    ) -> int | None:
        for place, event in enumerate(self._events):
            if place in self._seen or event.get("kind") != kind:
                continue
            if all(event.get(name) == value for name, value in said.items()) and fits(event):
                self._seen.add(place)
                return place
        return None


# A reading of the captures like the report, with the same words; it needs no score.
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
    rows: list[Row] = []
    for place in places:
        event = events[place]
        step = step_of(event, scene)
        if step is None:
            step = _more(event, scene)
        if step is None and place not in due and event.get("kind") != "case.expect":
            continue
        t_us = event["t_us"]
        if rows and t_us - rows[-1].t_us >= GAP_US:
            later = f"{(t_us - rows[-1].t_us) / 1_000_000:.1f} s later"
            rows.append(Row(t_us, later, Tone.QUIET))
        words = _words(event, step, scene)
        met = comparison.met.get(place)
        if met is not None:
            words = f"{MET if met else UNMET} {words}"
        if place in due:
            words += "".join(f"  {UNMET} {text}" for text in due[place])
        rows.append(
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
    return rows


def _more(event: Event, scene: Scene) -> Step | None:
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
            return f"{label}, DR{event.get('dr')} {frequency(event.get('freq_hz'))}"
        case "radio.lost":
            return f"{scene.cast.name(event.get('receiver'))}: {label}"
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
            details = listed(event.get("detail"))
            return label + (f" ({details})" if details else "")
        case _:
            return label


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
            graph = self._graph(None).replace("│", "⋮") if silence else self._graph(row.step)
            after, width = self._graph(None), self._words_width
            if row.step is None and not silence:  # nothing to draw: the words take the lanes' room
                graph, after, width = "", "  ", self._graph_width + self._words_width
            margin = f"{_FIRST if row.diverges else ' ':{_MARGIN}}"
            for text in _wrapped(words, width - len(graph or after) * (not graph)):
                yield Line(margin, f"{time:>{self._time_width}}", graph, text, row.tone)
                margin, time, graph = " " * _MARGIN, "", after

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
    while cells(title) > width:
        title = f"…{title[2:]}"
    return title


def _wrapped(words: str, width: int) -> list[str]:
    wide = max(1, width // 2) if cells(words) > len(words) else width
    return wrap(words, wide, max_lines=LINES_MAX, placeholder=" …") or [""]
