"""The catalogue of duplicate situations, one line of stimulus each, for every strategy.

`edge_cases.json` holds the facts (stimulus, statuses, totals); `edge_case.py` reads the stimulus
and says what each reception must become. A case whose stimulus is prose has a scenario of its own
in `test_catalogue_prose.py`; every case that does not run here is named in `catalogue.py`.
"""

import pytest

from scenarios.catalogue import DIFFERENCES, EdgeCase, Played, read_cases


def pytest_generate_tests(metafunc):
    """One scenario for each case of the catalogue that is written as events."""
    cases = read_cases(metafunc.config.getoption("--catalogue"))
    metafunc.parametrize("edge_case", cases, ids=[case.id for case in cases])


async def test_edge_case(rig, strategy, edge_case: EdgeCase):
    """A line of the catalogue gives the statuses, deliveries and answers it promises."""
    played = await Played.on(rig, edge_case)
    for frame, due in zip(played.frames, edge_case.due(strategy), strict=True):
        rig.expect_words(frame.sent, frame.station, due)
    if edge_case.id not in DIFFERENCES:
        assert edge_case.due_totals(strategy) == edge_case.totals(strategy)
        assert edge_case.due_statuses(strategy) == edge_case.statuses(strategy)


def test_every_difference_is_explained():
    """A case that we read differently stays in the catalogue, with the reason."""
    for case_id, why in DIFFERENCES.items():
        assert why.endswith("."), case_id


pytestmark = pytest.mark.filterwarnings("error")
