"""Lengths of time as a person writes them."""

import pytest

from bench.cli.output import Refused, time_span_us


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("10min", 600_000_000),
        ("15d", 1_296_000_000_000),
        ("0.5s", 500_000),
        ("1.000001 s", 1_000_001),
        ("250ms", 250_000),
        ("2h", 7_200_000_000),
    ],
)
def test_a_number_and_a_unit(text: str, us: int) -> None:
    assert time_span_us(text, "--window") == us


@pytest.mark.parametrize("text", ["", "10", "min", "-1s", "1 week", "1.5.2s", "1e3s"])
def test_anything_else_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(Refused, match=r"--window is a number and a unit .* such as 10min"):
        time_span_us(text, "--window")
