"""Does a case of the catalogue still mean the same where the network server forgets sooner?"""

from dataclasses import replace

import pytest

from bench.clock import seconds
from bench.run import RETENTION_S, Retiming
from scenarios import edge_case as rules
from scenarios.catalogue import STRATEGIES, EdgeCase, read_cases

CASES = [case for case in read_cases(None) if not case.is_exact]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_every_case_is_due_the_same(case: EdgeCase, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {strategy: case.due(strategy) for strategy in STRATEGIES}
    retimed, steps, at_s, before_s = Retiming(seconds(RETENTION_S)), [], 0.0, 0.0
    for step in case.stimulus:
        at_s += retimed(seconds(step.at_s - before_s)) / 1_000_000
        before_s = step.at_s
        steps.append(replace(step, at_s=at_s))
    monkeypatch.setattr(rules, "RETENTION_S", float(RETENTION_S))
    for strategy in STRATEGIES:
        assert rules.due(steps, case.setup, strategy) == written[strategy]
