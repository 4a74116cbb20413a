"""Excerpts of real traffic, and files made of them."""

import gzip
import json
from pathlib import Path
from typing import Any

EXCERPTS = Path(__file__).parent / "excerpts"
CONFORMANCE = EXCERPTS / "conformance.json"
SAINT_EYNARD = EXCERPTS / "saint-eynard.ndjson"


def document() -> dict[str, Any]:
    """The conformance excerpt, to be changed."""
    found: dict[str, Any] = json.loads(CONFORMANCE.read_bytes())
    return found


def records() -> list[dict[str, Any]]:
    """The lines of the Saint Eynard excerpt, to be changed."""
    return [json.loads(line) for line in SAINT_EYNARD.read_bytes().splitlines()]


def written(path: Path, content: dict[str, Any] | list[dict[str, Any]]) -> Path:
    """A file with this document, or with these records line by line; gzipped for a name in .gz."""
    rows = content if isinstance(content, list) else [content]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
