"""What does a capture say, in order of time, torn lines left out and counted?"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(slots=True)
class Reading:
    """The events of a run in order of (t_us, source, seq), and how many lines were torn."""

    events: list[Event] = field(default_factory=list)
    torn_lines: int = 0


def read(run_folder: Path) -> Reading:
    """Read every capture file of a run; FileNotFoundError when the folder holds none.

    A line that is not a whole JSON object is counted and left out: a run that was killed ends in
    the middle of one.
    """
    files = sorted(run_folder.glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"{run_folder}: no capture (*.jsonl) in this folder")
    reading = Reading()
    for path in files:
        with path.open("rb") as lines:
            for line in lines:
                event = _event(line)
                if event is None:
                    reading.torn_lines += 1
                else:
                    reading.events.append(event)
    reading.events.sort(key=lambda event: (event["t_us"], event["source"], event["seq"]))
    return reading


def cases(events: list[Event]) -> Iterator[list[Event]]:
    """The events of each case, from its `case.begin` to its `case.end`; cases never overlap."""
    bounds: dict[str, list[int]] = {}
    for event in events:
        if event["kind"] in ("case.begin", "case.end"):
            bounds.setdefault(event["case"], []).append(event["t_us"])
    position = 0
    for begin_us, *end_us in sorted(bounds.values()):
        last_us = end_us[0] if end_us else float("inf")
        while position < len(events) and events[position]["t_us"] < begin_us:
            position += 1
        start = position
        while position < len(events) and events[position]["t_us"] <= last_us:
            position += 1
        yield events[start:position]


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(event, dict) and {"t_us", "source", "seq", "kind"} <= event.keys()
    return event if whole else None
