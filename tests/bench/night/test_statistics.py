"""Tails and intervals: figures that others have computed, and scipy on random counts.

scipy is imported where it is used: it takes longer than all else that a worker imports.
"""

import random
from math import isclose, log

import pytest

from bench.night.statistics import (
    Segment,
    evidence,
    false_discovery,
    fisher,
    incomplete_beta,
    mcnemar,
    segments,
    shifts,
    stands_out,
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
        assert close(mcnemar(was, old - was), float(tail))


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


def nights(text: str) -> list[tuple[int, int]]:
    return [(int(glyph == "F"), 1) for glyph in text]


@pytest.mark.parametrize(("passes", "fails"), [(7, 5), (14, 3), (30, 2), (60, 2)])
def test_a_break_is_called_after_so_many_failures(passes: int, fails: int) -> None:
    assert len(segments(nights("." * passes + "F" * (fails - 1)))) == 1
    found = segments(nights("." * passes + "F" * fails))
    assert [(one.begin, one.fails, one.n) for one in found] == [
        (0, 0, passes),
        (passes, fails, fails),
    ]


def test_a_segment_says_where_it_may_begin() -> None:
    [first, second] = segments(nights("." * 40 + "F.FFF.FF"))
    assert first == Segment(0, 40, 0, 0, 0, 40)
    assert second.earliest <= second.begin == 40 <= second.latest
    assert second.latest <= 43
    assert segments([]) == []


def test_nights_without_an_opportunity_change_nothing() -> None:
    assert len(segments([(0, 0)] * 30)) == 1


def best_by_scipy(series: list[tuple[int, int]]) -> tuple[float, int]:
    """The best first split, by the function of scipy."""
    import numpy as np
    from scipy import special

    fails, whole = (np.array(column) for column in zip(*series, strict=True))

    def likelihood(x: int, n: int) -> float:
        return float(special.betaln(x + 0.05, n - x + 0.5) - special.betaln(0.05, 0.5))

    gains = [
        likelihood(fails[:at].sum(), whole[:at].sum())
        + likelihood(fails[at:].sum(), whole[at:].sum())
        - likelihood(fails.sum(), whole.sum())
        for at in range(1, len(series))
    ]
    return max(gains), 1 + int(np.argmax(gains))


def test_on_random_series_the_first_split_is_that_of_scipy() -> None:
    chance = random.Random(7)
    split = 0
    for _ in range(200):
        rates = chance.choice([(0.01, 0.01), (0.02, 0.7), (0.9, 0.1)])
        series = [(int(chance.random() < rates[n >= 25]), 1) for n in range(40)]
        gain, at = best_by_scipy(series)
        found = [one.begin for one in segments(series)[1:]]
        assert bool(found) == (gain + log(1e-3) > 0)
        assert not found or at in found
        split += bool(found)
    assert 80 < split < 180


def test_a_quiet_series_has_no_change_point() -> None:
    chance = random.Random(8)
    for _ in range(50):
        values = [22_000 + chance.gauss(0, 500) for _ in range(60)]
        assert shifts(values) == []
        assert len(segments([(int(chance.random() < 0.02), 20) for _ in range(60)])) == 1


def test_a_drift_of_three_milliseconds_is_found_at_its_night() -> None:
    from scipy import stats

    chance = random.Random(9)
    for _ in range(30):
        values = [chance.gauss(22_000, 300) + 3_000 * (n >= 35) for n in range(60)]
        assert shifts(values) == [35]
        assert float(stats.ttest_ind(values[10:35], values[35:]).pvalue) < 0.001


def test_what_is_small_is_no_shift_however_sure_it_is() -> None:
    assert shifts([22_000.0] * 20 + [23_000.0] * 20) == []
    assert shifts([60_000.0] * 20 + [65_000.0] * 20) == []
    assert shifts([22_000.0] * 20 + [25_000.0] * 20) == [20]


def test_tonight_is_set_against_the_median_of_the_nights_before() -> None:
    quiet = [22_000.0, 22_100.0, 21_900.0, 22_050.0, 21_950.0]
    assert stands_out(quiet, 25_000)
    assert not stands_out(quiet, 23_900)
    assert not stands_out(quiet[:4], 25_000)
    assert not stands_out([20_000.0, 24_000.0, 22_000.0, 26_000.0, 18_000.0], 25_000)
