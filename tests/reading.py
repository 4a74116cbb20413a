"""A whole capture, as a test reads it: every event of a run, and the events of each case."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.capture.reading import Event, capture_files, cases_of, event, lines, stream, timetable


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
    files = capture_files(run_folder)
    if not files:
        raise FileNotFoundError(f"{run_folder}: no capture (*.jsonl) in this folder")
    reading = Reading()
    for path in files:
        for line in lines(path):
            found = event(line)
            if found is None or not _is_whole(found):
                reading.torn_lines += 1
                if stream(path) not in reading.torn:
                    reading.torn.append(stream(path))
            else:
                reading.events.append(found)
    reading.events.sort(key=lambda event: (event["t_us"], event["source"], event["seq"]))
    return reading


def cases(events: Iterable[Event]) -> Iterator[list[Event]]:
    """The events of each case, in the order in which the cases began.

    Cases may run side by side: a line belongs to the case it names. One that names none belongs
    to the case that was open then, if it was the only one; a stall of the host to every case open.
    """
    listed = list(events)
    table = timetable(listed)
    by_case: dict[str, list[Event]] = {case: [] for case in table.cases}
    for one in listed:
        for case in cases_of(one, table):
            by_case[case].append(one)
    yield from by_case.values()


def _is_whole(event: Event) -> bool:
    return all(type(event.get(name)) is kind for name, kind in _HEAD.items())


_HEAD = {"t_us": int, "source": str, "seq": int, "kind": str}
