"""What stands in each row of a timeline: which step, in which words, marked how?"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.capture.reading import Event
from bench.report.foreign_text import shown
from bench.report.narration import disposition, in_words, milliseconds
from bench.report.station_text import megahertz
from bench.report.steps import UPSTREAM, Scene, Shape, Step, step_of
from bench.report.timeline.divergence import Comparison

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
