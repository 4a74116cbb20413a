"""The list of scenarios, read from their source."""

from pathlib import Path

import pytest

from bench.cli.exit_code import BenchBroken
from bench.cli.scenario_catalogue import (
    NoSuchScenario,
    Scenario,
    chosen,
    scenarios_folder,
    scenarios_in,
)

SOURCE = '''"""Two stations."""

import pytest


@pytest.mark.requires("attenuator", "second board")
async def test_the_second_station_is_a_soft_duplicate(rig):
    """Under None the second copy goes up
    unmarked.

    More words that the list leaves out.
    """


def prepared(rig):
    """No scenario."""


def test_silent(rig): ...
'''


def test_scenarios_are_listed_by_file_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "test_two_stations.py").write_text(SOURCE)
    (folder / "conftest.py").write_text("def test_not_a_scenario(): ...\n")
    assert scenarios_in(folder) == [
        Scenario(
            group="two_stations",
            name="test_the_second_station_is_a_soft_duplicate",
            title="Under None the second copy goes up unmarked.",
            file="scenarios/test_two_stations.py",
            line=7,
            requires=("attenuator", "second board"),
        ),
        Scenario("two_stations", "test_silent", "", "scenarios/test_two_stations.py", 19),
    ]


def test_a_scenario_file_with_a_syntax_error_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("def test_(:\n")
    with pytest.raises(BenchBroken, match=r"test_broken\.py cannot be read as Python"):
        scenarios_in(tmp_path)


def test_without_a_pattern_all_scenarios_are_chosen() -> None:
    assert chosen(None) == [str(scenarios_folder())]


def test_a_pattern_is_an_expression_over_all_of_them() -> None:
    assert chosen("replay and not storm") == [str(scenarios_folder()), "-k", "replay and not storm"]


@pytest.mark.parametrize("name", ["test_replay.py", "scenarios/test_replay.py"])
def test_a_file_is_found_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = scenarios_folder() / "test_replay.py"
    assert chosen(name) == [str(file)]
    assert chosen(f"{name}::test_a_storm") == [f"{file}::test_a_storm"]


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(NoSuchScenario, match=r"There is no file test_nothing\.py"):
        chosen("test_nothing.py")
