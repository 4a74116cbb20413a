"""The page that says where the sources are followed is held against the code and the scenarios."""

import re
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from bench.cli import inbox
from lns.config import DeviceSection, UpstreamSection
from lns.dedup.strategy import DISPOSITIONS, Disposition, Status, Strategy, Upstream
from lns.delivery.detectors import PERFORMS, Detector, duration
from tests.lns.delivery.sending import message

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "lns" / "sources.md"
SOURCES = ("ADR 007", "Azure Service Bus", "AEP Engine", "CMQ")
WORDS = ["the source says", "here", "where"]
DEVIATIONS = ["deviation", "why", "scenario"]
POLICY = ["status", "confirmed", "Drop", "Mark", "None"]


@cache
def tables() -> dict[str, dict[str, list[list[str]]]]:
    """The rows of every table, by source and by the name of its first column."""
    found: dict[str, dict[str, list[list[str]]]] = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        source = section.split(":", 1)[0]
        found[source] = {}
        for table in re.findall(r"(?:^\|.*\n)+", section + "\n", re.MULTILINE):
            head, _, *rows = [
                [cell.strip() for cell in line.strip("|").split("|")]
                for line in table.rstrip().split("\n")
            ]
            found[source][head[0]] = rows
            assert head in (WORDS, DEVIATIONS, POLICY)
            assert all(len(row) == len(head) for row in rows)
    return found


def rows(table: str) -> list[Any]:
    return [
        pytest.param(*row, id=row[0])
        for source in tables().values()
        for row in source.get(table, [])
    ]


def options() -> set[str]:
    """What `lorabench inbox` takes."""
    names = {f"--{name.replace('_', '-')}" for name in signature(inbox.inbox).parameters}
    for one in signature(inbox.inbox).parameters.values():
        for said in getattr(one.annotation, "__metadata__", ()):
            names |= {*(said.name or ()), *(said.negative or ())}
    return names


def value(where: str) -> object:
    """What stands at `module:name.name`; of a setting its default, of a field its name."""
    module, _, path = where.partition(":")
    found: Any = import_module(module)
    for name in path.split("."):
        if isinstance(found, type) and issubclass(found, BaseModel):
            return found.model_fields[name].default
        if hasattr(found, "__struct_fields__"):
            assert name in found.__struct_fields__
            return name
        found = getattr(found, name)
    return found


def test_each_source_has_its_words_and_its_deviations() -> None:
    assert tuple(tables()) == SOURCES
    for source in SOURCES:
        assert {"the source says", "deviation"} <= set(tables()[source])


@pytest.mark.parametrize(("said", "here", "where"), rows("the source says"))
def test_every_word_of_the_sources_is_called_what_the_page_says(
    said: str, here: str, where: str
) -> None:
    here = here.strip("`")
    match where:
        case "field of a message":
            assert here == "dupMsg" or here in message(1).body(1)
        case "option of `lorabench inbox`":
            assert here in options()
        case "key of a device":
            assert here in DeviceSection.model_fields
        case "key of `[upstream]`":
            assert here in UpstreamSection.model_fields
        case _:
            found = value(where.strip("`"))
            is_time = isinstance(found, int) and where.endswith("_US`")
            assert here == (duration(found) if is_time else str(found))  # type: ignore[arg-type]


def test_no_word_is_missing_from_the_page() -> None:
    said = {row[1].strip("`") for source in tables().values() for row in source["the source says"]}
    assert {*Status, *Strategy, *Detector, PERFORMS} <= said


@pytest.mark.parametrize(("deviation", "why", "scenario"), rows("deviation"))
def test_every_deviation_has_a_reason_and_a_scenario(
    deviation: str, why: str, scenario: str
) -> None:
    assert len(why) > 20
    name = scenario.strip("`")
    if "/" in name:
        assert (ROOT / name).is_file()
    else:
        assert any(f"def {name}(" in text for text in scenarios()), f"{name} is no scenario"


@cache
def scenarios() -> tuple[str, ...]:
    return tuple(path.read_text("utf-8") for path in (ROOT / "scenarios").glob("test_*.py"))


def shown(done: Disposition | None) -> str:
    """A disposition as the page shows it."""
    if done is None:
        return ""
    upstream = {Upstream.FORWARDED: "✔", Upstream.MARKED: "m", Upstream.DROPPED: ""}[done.upstream]
    return " ".join(filter(None, (upstream, "↓" if done.answers else ""))) or "–"


def test_the_policy_is_the_one_of_the_page() -> None:
    page = {(row[0], row[1].startswith("yes")): row[2:] for row in tables()["ADR 007"]["status"]}
    expected = {
        (status.value, confirmed): [
            shown(DISPOSITIONS.get((status, strategy, confirmed))) for strategy in Strategy
        ]
        for status in Status
        for confirmed in (True, False)
    }
    assert page == expected


def test_the_page_is_where_the_readme_says() -> None:
    assert "[exactly as ADR 007 says](lns/sources.md)" in (ROOT / "README.md").read_text("utf-8")
