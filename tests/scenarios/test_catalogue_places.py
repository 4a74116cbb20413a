"""Has every situation of the catalogue exactly one place, and does that place exist?"""

import ast
import json
import re
from collections import Counter
from pathlib import Path

from bench.cli.scenarios import scenarios_folder
from scenarios.catalogue import CATALOGUE, read_cases
from scenarios.catalogue_places import DIFFERENCES, EVENTS, NOT_YET, SCENARIOS

CITED = re.compile(r"^ *Catalogue: (\w\d\d)\.", re.MULTILINE)


def known_cases() -> list[str]:
    return [case["id"] for case in json.loads(CATALOGUE.read_text("utf-8"))["cases"]]


def docstrings() -> dict[str, str]:
    """The docstring of every scenario, by file and name."""
    return {
        f"{file.stem}.{node.name}": ast.get_docstring(node) or ""
        for file in sorted(scenarios_folder().glob("test_*.py"))
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_case_has_one_place() -> None:
    places = Counter([*EVENTS, *SCENARIOS, *NOT_YET])
    assert sorted(places) == sorted(known_cases())
    assert not [case for case, times in places.items() if times > 1]


def test_no_case_is_named_twice_in_the_source() -> None:
    source = Path(CATALOGUE).with_name("catalogue_places.py").read_text("utf-8")
    table = source[: source.index("DIFFERENCES = ")]
    assert sorted(re.findall(r"\b[A-L]\d\d\b", table)) == sorted(known_cases())


def test_what_is_written_as_events_is_played_from_them() -> None:
    assert {case.id for case in read_cases(None)} == EVENTS


def test_every_scenario_of_a_case_exists_and_names_it() -> None:
    cited = {name: CITED.findall(text) for name, text in docstrings().items()}
    assert {case: cited.get(name) for case, name in SCENARIOS.items()} == {
        case: [case] for case in SCENARIOS
    }


def test_no_scenario_names_a_case_that_has_another_place() -> None:
    cited = {case: name for name, text in docstrings().items() for case in CITED.findall(text)}
    assert cited == SCENARIOS


def test_every_reason_and_every_difference_is_a_sentence_about_a_known_case() -> None:
    assert not [case for case, why in NOT_YET.items() if ": " not in why]
    assert not [case for case, why in DIFFERENCES.items() if not why.endswith(".")]
    assert not set(DIFFERENCES) - EVENTS - set(SCENARIOS)
