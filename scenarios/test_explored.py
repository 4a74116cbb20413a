"""Histories that nobody thought of, found by `lorabench explore` and kept for ever.

`explored.json` holds them; a model that shares no code with network servers says what is due.
"""

from pathlib import Path

import pytest

from bench.explore.history import KEPT, KeptHistory, read_histories
from bench.explore.laws import broken_laws
from bench.explore.rig_stage import missing, needs, play_on
from bench.verdict.owner import Found
from lns.clock import now_us


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One scenario for each history that a rig can play."""
    if "kept" in metafunc.fixturenames:
        file = metafunc.config.getoption("--explored") or KEPT
        cases = [case for case in read_histories(Path(file)) if missing(case.history) is None]
        params = [pytest.param(case, id=case.id, marks=_marks(case)) for case in cases]
        metafunc.parametrize("kept", params)


def _marks(case: KeptHistory) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.requires(need) for need in needs(case.history)]
    return [*marks, pytest.mark.fault("lns", "restart")]


async def test_history(rig, kept: KeptHistory):
    """Every reception becomes what the model says, and no law is broken."""
    for broken in broken_laws(await play_on(rig, kept.history)):
        rig.case.find(Found(rule=broken.law, text=str(broken), t_us=now_us()))
