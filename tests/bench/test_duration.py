import pytest

from bench.clock import microseconds, milliseconds, minutes, seconds


@pytest.mark.parametrize(
    ("duration_us", "expected_us"),
    [
        (microseconds(1), 1),
        (milliseconds(50), 50_000),
        (milliseconds(0.5), 500),
        (seconds(59.999_999), 59_999_999),
        (seconds(60.001), 60_001_000),
        (seconds(17.93), 17_930_000),
        (minutes(1.5), 90_000_000),
        (seconds(0), 0),
    ],
)
def test_durations_are_whole_microseconds(duration_us: int, expected_us: int) -> None:
    assert duration_us == expected_us
    assert type(duration_us) is int
