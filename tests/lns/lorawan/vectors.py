"""The vectors of other LoRaWAN implementations, as tests/vectors/lorawan holds them."""

import json
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parents[2] / "vectors" / "lorawan"


def vectors(name: str) -> list[dict[str, Any]]:
    """All vectors of one kind."""
    found: list[dict[str, Any]] = json.loads((_FOLDER / f"{name}.json").read_text())["vectors"]
    return found


def each(found: list[dict[str, Any]]) -> pytest.MarkDecorator:
    """One test per vector, named after it; an empty list would prove nothing."""
    assert found
    ids = [vector.get("id", str(number)) for number, vector in enumerate(found)]
    return pytest.mark.parametrize("vector", found, ids=ids)
