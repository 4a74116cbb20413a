"""Through which stations could a network server not answer, when it last told?

It tells of many `TooLate` in a row through one station as `lns.too_late`.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from bench.capture.reading import Event, capture_files, event, lines
from bench.capture.run_folder import latest

KIND = "lns.too_late"
_MARK = KIND.encode()
_LIVING = "hardware"


def captures_to_ask(runs: Path, capture: Path | None) -> list[Path]:
    """The capture that is named; without one those of the newest run, if that had real gateways.

    OSError when the one that is named cannot be read.
    """
    if capture is not None:
        capture.open("rb").close()
        return [capture]
    run = latest(runs)
    if run is None:
        return []
    try:
        rig = json.loads((run / "manifest.json").read_text("utf-8")).get("rig")
    except (OSError, ValueError, AttributeError):
        return []
    return capture_files(run) if rig == _LIVING else []


def unanswering(files: Iterable[Path]) -> dict[str, str]:
    """By EUI, what a server said last of each station that it could not answer through since."""
    last: dict[tuple[object, object], Event] = {}
    for path in files:
        for line in lines(path):
            told = event(line) if _MARK in line else None
            if told is not None and told.get("kind") == KIND:
                last[told.get("lns"), told.get("station")] = told
    return {
        str(told["station"]): _sentence(told)
        for told in last.values()
        if told.get("stage") == "going on" and isinstance(told.get("station"), str)
    }


def _sentence(told: Event) -> str:
    return (
        f"{told.get('lns')} could not answer through it {told.get('n')} times in a row,"
        f" at last because {told.get('cause')}: what it hears first stays unanswered"
    )
