"""Where did a case first go another way than was due?

The verdict says why a case failed; this says at which event one can see it. What is due comes from
the case's own expectations, and from Spark's findings where the run has been scored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from bench.capture.reading import Event
from bench.report.narration import Cast
from bench.report.score_file import Finding
from bench.report.stories import places
from bench.verdict.device_lines import without_signal
from bench.verdict.evidence import Evidence, Heard, Words


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
    """Compares the events of one case; remembers which outcomes it has looked at."""

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
            lambda event: (
                event.get("kind") == "lns.outcome"
                and event.get("station") == heard.station
                and event.get("frame_id") == heard.frame_id
                and event.get("xtime") == heard.xtime
            )
        )

    def _text_of(self, heard: Heard) -> int | None:
        return self._first(
            lambda event: (
                event.get("kind") == "station.text"
                and event.get("station") == heard.station
                and event["t_us"] == heard.t_us
            )
        )

    def _undelivered(self, station: str, frame_id: str) -> int | None:
        """The place where a frame on its way to a station was lost, or else where it was sent."""
        sent = [
            (place, event)
            for place, event in enumerate(self._events)
            if event.get("kind") == "radio.transmit" and event.get("frame_id") == frame_id
        ]
        numbers = {event.get("transmission") for _, event in sent}
        lost = self._first(
            lambda event: (
                event.get("kind") == "radio.lost"
                and event.get("receiver") == station
                and event.get("transmission") in numbers
            )
        )
        if lost is not None or not sent:
            return lost
        dropped = self._first(
            lambda event: (
                event.get("kind") == "station.text"
                and event.get("station") == station
                and event.get("dropped") is True
                and event["t_us"] >= sent[0][1]["t_us"]
            )
        )
        return sent[0][0] if dropped is None else dropped

    def _first(self, fits: Callable[[Event], bool]) -> int | None:
        for place, event in enumerate(self._events):
            if place not in self._seen and fits(event):
                self._seen.add(place)
                return place
        return None
