"""The options of the scenarios; their rig comes with the plugin `lorabench` of pytest."""

import pytest

from bench.verdict.case import Title
from scenarios.catalogue import read_catalogue

RIGS = "lorabench"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let another catalogue of edge cases be played."""
    parser.addoption(
        "--catalogue",
        metavar="FILE",
        help="catalogue of edge cases to play instead of scenarios/edge_cases.json",
    )
    parser.addoption(
        "--explored",
        metavar="FILE",
        help="histories to play instead of scenarios/explored.json",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a catalogue that is none, or of which nothing can be played."""
    file = config.getoption("--catalogue")
    try:
        found = read_catalogue(file)
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"--catalogue: {error}") from None
    if not found.cases:
        why = "\n".join(f"{case.id}: {case.why}" for case in found.unplayed) or "it has none"
        raise pytest.UsageError(f"--catalogue: no case of {file} can be played.\n{why}")


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Name the cases of another catalogue that are not played."""
    file, plugin = config.getoption("--catalogue"), config.pluginmanager.getplugin(RIGS)
    assert plugin is not None
    for case in read_catalogue(file).unplayed if file else ():
        title = Title(
            case=f"catalogue/edge_case[{case.id}]",
            scenario="test_edge_case",
            file="scenarios/test_catalogue.py",
            group="catalogue",
            title=case.title,
        )
        plugin.leave_out(config, title, case.why)
