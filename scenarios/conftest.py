"""Gives every scenario its rig (see `bench.pytest_plugin`), and the options of the scenarios."""

import pytest

pytest_plugins = ["bench.pytest_plugin"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let another catalogue of edge cases be played."""
    parser.addoption(
        "--catalogue",
        metavar="FILE",
        help="catalogue of edge cases to play instead of scenarios/edge_cases.json",
    )
