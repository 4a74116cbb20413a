"""The lines of a run, one after the other: a run of real traffic is too long to be held whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Every line of every source; fails on a torn one, and on a gap in `seq`."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for seq, line in enumerate(file):
                found: dict[str, Any] = _decode(line)
                assert (found["source"], found["seq"]) == (path.stem, seq), f"{path.name} {seq}"
                yield found


def of(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    """The lines of some kinds, each in its file's order; no other line is read."""
    marks = [f'"kind":"{kind}"'.encode() for kind in kinds]
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            found += [_decode(line) for line in file if any(mark in line for mark in marks)]
    return [line for line in found if line["kind"] in kinds]
