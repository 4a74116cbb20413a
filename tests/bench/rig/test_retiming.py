import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.clock import seconds
from bench.run import Retiming

HALF = Retiming(seconds(30))


@pytest.mark.parametrize(
    ("written_s", "taken_s"), [(0, 0), (5, 5), (24.9, 24.9), (30, 15), (59, 29.5), (61, 30.5)]
)
def test_only_waits_about_the_retention_shrink(written_s: float, taken_s: float) -> None:
    assert HALF(seconds(written_s)) == seconds(taken_s)


def test_an_hour_stands_for_any_time_after_the_retention() -> None:
    assert HALF(seconds(3_600)) == HALF(seconds(90)) == seconds(45)


def test_with_the_full_retention_every_wait_is_itself() -> None:
    assert Retiming(seconds(60))(seconds(3_600)) == seconds(3_600)


@given(st.integers(seconds(25), seconds(4_000)), st.integers(30, 59))
def test_a_wait_stays_on_its_side_of_the_retention(written_us: int, retention_s: int) -> None:
    taken_us = Retiming(seconds(retention_s))(written_us)
    assert (taken_us >= seconds(retention_s)) is (written_us >= seconds(60))
