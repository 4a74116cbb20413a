"""Tails and intervals: figures that others have computed, and scipy on random counts.

scipy is imported where it is used: it takes longer than all else that a worker imports.
"""

import random
from math import isclose

import pytest

from bench.night.statistics import (
    binomial_tail,
    evidence,
    false_discovery,
    fisher,
    incomplete_beta,
    mcnemar,
    student,
    wilson,
)


def close(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def test_nothing_seen_in_thirty_nights_still_means_up_to_eleven_percent() -> None:
    low, high = wilson(0, 30)
    assert low == 0
    assert round(high, 3) == 0.114
    assert wilson(0, 0) == (0.0, 1.0)


def test_intervals_are_those_of_scipy() -> None:
    from scipy import stats

    chance = random.Random(1)
    for _ in range(300):
        whole = chance.randint(1, 500)
        part = chance.randint(0, whole)
        due = stats.binomtest(part, whole).proportion_ci(method="wilson")
        low, high = wilson(part, whole)
        assert close(low, due.low), (part, whole)
        assert close(high, due.high), (part, whole)


def test_the_incomplete_beta_function_is_that_of_scipy() -> None:
    from scipy import special

    chance = random.Random(2)
    for _ in range(500):
        a, b = chance.uniform(0.05, 400), chance.uniform(0.05, 400)
        x = chance.choice([0.0, 0.5, 1.0, chance.random()])
        assert close(incomplete_beta(a, b, x), float(special.betainc(a, b, x))), (a, b, x)


def test_exact_tests_are_those_of_scipy() -> None:
    from scipy import stats

    chance = random.Random(3)
    for _ in range(300):
        old, new = chance.randint(1, 60), chance.randint(1, 60)
        was, now = chance.randint(0, old), chance.randint(0, new)
        table = [[now, new - now], [was, old - was]]
        due = stats.fisher_exact(table, alternative="greater").pvalue
        assert close(fisher(was, old, now, new), float(due)), table
        tail = stats.binomtest(was, old, 0.5, alternative="greater").pvalue
        assert close(binomial_tail(was, old), float(tail))


def test_many_tests_at_once_are_adjusted_as_by_scipy() -> None:
    from scipy import stats

    chance = random.Random(4)
    for _ in range(50):
        chances = [chance.random() ** 3 for _ in range(chance.randint(1, 40))]
        due = stats.false_discovery_control(chances)
        assert all(map(close, false_discovery(chances), map(float, due)))
    assert false_discovery([]) == []


def test_the_t_test_is_that_of_scipy() -> None:
    from scipy import stats

    chance = random.Random(5)
    for _ in range(200):
        before = [chance.gauss(20, 3) for _ in range(chance.randint(2, 30))]
        after = [chance.gauss(chance.choice([20, 23]), 3) for _ in range(chance.randint(2, 30))]
        assert close(student(before, after), float(stats.ttest_ind(before, after).pvalue))
    assert student([22.0] * 5, [22.0] * 5) == 1.0
    assert student([22.0] * 5, [25.0] * 5) == 0.0


@pytest.mark.parametrize(
    ("worse", "better", "p", "e"),
    [(5, 0, 0.031, 10.5), (6, 0, 0.016, 18.1), (7, 0, None, 31.9), (8, 1, 0.020, 11.3)],
)
def test_discordant_pairs(worse: int, better: int, p: float | None, e: float) -> None:
    assert round(evidence(worse, better), 1) == e
    assert p is None or round(mcnemar(worse, better), 3) == p


def test_evidence_stays_small_for_chance_alone_however_often_one_looks() -> None:
    chance = random.Random(6)
    alarms = 0
    for _ in range(400):
        worse = better = 0
        for _ in range(100):
            worse, better = (worse + 1, better) if chance.random() < 0.5 else (worse, better + 1)
            if evidence(worse, better) >= 20:
                alarms += 1
                break
    assert alarms / 400 <= 0.05
    assert evidence(5000, 0) > 1e300
