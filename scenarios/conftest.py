"""Options of the scenarios themselves."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let another catalogue of edge cases be played."""
    parser.addoption(
        "--catalogue",
        metavar="FILE",
        help="catalogue of edge cases to play instead of scenarios/edge_cases.json",
    )
