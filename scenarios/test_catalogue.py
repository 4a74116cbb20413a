"""The catalogue of duplicate situations, one line of stimulus each, for every strategy.

`edge_cases.json` holds the facts (stimulus, statuses, totals); `edge_case.py` reads the stimulus
and says what each reception must become, apart from the network server that is judged.
"""

import pytest

from bench.verdict.expectation import Due, words
from scenarios.catalogue import EdgeCase, Player, read_cases
from scenarios.catalogue_places import DIFFERENCES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One scenario for each case of the catalogue that is written as events."""
    if "edge_case" in metafunc.fixturenames:
        cases = read_cases(metafunc.config.getoption("--catalogue"))
        params = [pytest.param(case, id=case.id, marks=_marks(case)) for case in cases]
        metafunc.parametrize("edge_case", params)


def _marks(case: EdgeCase) -> list[pytest.MarkDecorator]:
    """What a rig must offer for this case, and where it is disturbed."""
    marks = []
    if case.is_exact:
        marks.append(pytest.mark.requires("virtual time"))
    if case.restarts:
        marks.append(pytest.mark.fault("lns", "restart"))
    return marks


async def test_edge_case(rig, strategy, edge_case: EdgeCase):
    """A line of the catalogue gives the statuses, deliveries and answers it promises."""
    if edge_case.id not in DIFFERENCES:
        promised = edge_case.statuses(strategy), edge_case.totals(strategy)
        ruled = edge_case.due_statuses(strategy), edge_case.due_totals(strategy)
        assert promised == ruled, f"the catalogue promises {promised}, the rules say {ruled}"
    delivered = await Player(rig, edge_case).play()
    for frame, text in zip(delivered, edge_case.due(strategy), strict=True):
        rig.expect_due(frame.sent, Due(frame.station, words(text)))
