"""How long the way upstream waits before it connects again."""

import random

import pytest

from lns.delivery.mqtt import BackOff


@pytest.mark.parametrize(
    ("failures", "whole_us"), [(1, 500_000), (2, 1_000_000), (6, 16_000_000), (7, 30_000_000)]
)
def test_waits_double_up_to_a_bound_and_half_of_each_is_chance(
    failures: int, whole_us: int
) -> None:
    chance = random.Random(1)
    waits_us = [BackOff().wait_us(failures, chance) for _ in range(200)]
    assert whole_us // 2 <= min(waits_us) < max(waits_us) <= whole_us
    assert len(set(waits_us)) > 100


def test_any_number_of_failures_is_waited_for() -> None:
    assert BackOff().wait_us(10_000, random.Random(1)) <= 30_000_000


def test_the_same_chance_gives_the_same_waits() -> None:
    one, other = ([BackOff().wait_us(n, random.Random(7)) for n in range(1, 9)] for _ in range(2))
    assert one == other
