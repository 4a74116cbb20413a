"""Change points: what is known of the method, planted changes, and scipy's own functions.

scipy is imported where it is used: it takes longer than all else that a worker imports.
"""

import random
from math import log

import pytest

from bench.night.statistics import Segment, segments, shifts, stands_out


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
