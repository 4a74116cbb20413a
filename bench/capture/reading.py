"""What does a capture say, in order of time, torn lines left out and counted?"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(slots=True)
class Reading:
    """The events of a run in order of (t_us, source, seq), how many lines were torn, and where."""

    events: list[Event] = field(default_factory=list)
    torn_lines: int = 0
    torn: list[str] = field(default_factory=list)


def read(run_folder: Path) -> Reading:
    """Read every capture file of a run; FileNotFoundError when the folder holds none.

    A line that is not a whole JSON object is counted and left out: a run that was killed ends in
    the middle of one. A blank line is none.
    """
    files = sorted(run_folder.glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"{run_folder}: no capture (*.jsonl) in this folder")
    reading = Reading()
    for path in files:
        with path.open("rb") as lines:
            for line in filter(bytes.strip, lines):
                event = _event(line)
                if event is None:
                    reading.torn_lines += 1
                    if path.stem not in reading.torn:
                        reading.torn.append(path.stem)
                else:
                    reading.events.append(event)
    reading.events.sort(key=lambda event: (event["t_us"], event["source"], event["seq"]))
    return reading


def cases(events: list[Event]) -> Iterator[list[Event]]:
    """The events of each case, from its `case.begin` to its `case.end`; cases never overlap.

    A case without an end, as in a run that was killed, lasts until the next one begins.
    """
    begins = [event for event in events if event["kind"] == "case.begin"]
    ends = {event["case"]: event["t_us"] for event in events if event["kind"] == "case.end"}
    position = 0
    for number, begin in enumerate(begins):
        while events[position]["t_us"] < begin["t_us"]:
            position += 1
        start = position
        last_us = ends.get(begin["case"], float("inf"))
        if number + 1 < len(begins):
            last_us = min(last_us, begins[number + 1]["t_us"] - 1)
        while position < len(events) and events[position]["t_us"] <= last_us:
            position += 1
        yield events[start:position]


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    whole = all(type(event.get(name)) is kind for name, kind in _HEAD.items())
    return event if whole else None


_HEAD = {"t_us": int, "source": str, "seq": int, "kind": str}
