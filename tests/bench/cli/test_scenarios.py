"""The list of scenarios, read from their source."""

from pathlib import Path

import pytest

from bench.cli.output import BenchBroken, Refused
from bench.cli.scenarios import (
    Scenario,
    chosen,
    matching,
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


SETTINGS = [
    *("-c", str(scenarios_folder().parent / "bench" / "run" / "scenarios.ini")),
    *("--rootdir", str(scenarios_folder().parent)),
]


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
    assert chosen(None) == [str(scenarios_folder()), *SETTINGS]


def test_a_pattern_is_an_expression_over_all_of_them() -> None:
    wanted = [str(scenarios_folder()), "-k=replay and not storm", *SETTINGS]
    assert chosen("replay and not storm") == wanted


@pytest.mark.parametrize("name", ["test_replay.py", "scenarios/test_replay.py"])
def test_a_file_is_found_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = scenarios_folder() / "test_replay.py"
    assert chosen(name) == [str(file), *SETTINGS]
    assert chosen(f"{name}::test_a_storm") == [f"{file}::test_a_storm", *SETTINGS]


def test_what_is_ones_own_is_played_with_ones_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "test_replay.py").write_text(SOURCE)
    assert chosen("mine") == ["mine"]
    assert chosen("mine/test_replay.py") == ["mine/test_replay.py"]
    assert len(matching("mine")) == len(matching("mine/test_replay.py")) == 2


def test_a_catalogue_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text("{}")
    assert chosen(None, catalogue=file) == [
        str(scenarios_folder() / "test_catalogue.py"), "--catalogue", str(file), *SETTINGS,
    ]  # fmt: skip
    with pytest.raises(Refused, match="there is no file"):
        chosen(None, catalogue=tmp_path / "none.json")


def test_scenarios_are_found_by_part_of_a_name_or_title() -> None:
    assert {one.group for one in matching("second_station")} >= {"multi_concentrator"}
    with pytest.raises(Refused, match="Near it: a_second_station_delivers_the_same_frame"):
        matching("secnd_staton")
    with pytest.raises(Refused, match=r"Near it: test_joins\.py"):
        matching("test_jons.py")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(Refused, match=r"There is no file test_nothing\.py"):
        chosen("test_nothing.py")
