"""A mistake in a scenario names what is there, and the line that asked for something else."""

from pathlib import Path

import pytest

from bench.verdict.owner import Owner, ScenarioMistake, not_there, place_in


def test_what_is_not_there_is_told_with_what_is() -> None:
    known = ["west", "east"]
    near = "no station 'est'; known: west, east; did you mean 'west' or 'east'?"
    assert str(not_there("station", "est", known)) == near
    assert str(not_there("station", "zzz", known)) == "no station 'zzz'; known: west, east"
    assert str(not_there("station", "west", [])) == "no station 'west'; known: none"


def test_the_innermost_line_of_the_file_is_the_place() -> None:
    def asks() -> None:
        raise not_there("station", "est", ["west"])

    with pytest.raises(ScenarioMistake) as raised:
        asks()
    here = Path(__file__)
    place = place_in(f"{here.parent.name}/{here.name}", raised.tb)
    assert place is not None
    name, _, line = place.rpartition(":")
    assert name == f"{here.parent.name}/{here.name}"
    assert "raise not_there" in here.read_text("utf-8").splitlines()[int(line) - 1]
    assert place_in("scenarios/test_other.py", raised.tb) is None
    assert place_in("scenarios/test_other.py", None) is None


def test_an_owner_is_shown_by_its_name_in_full() -> None:
    assert [owner.shown for owner in (Owner.LNS, Owner.AIR)] == ["network server", "air"]
