"""Two clocks of a log, neither of which is enough alone."""

import pytest

from bench.traffic.conformance import Stamp, times_us

SECOND = 1_000_000


def test_the_counter_is_followed_where_the_wall_clock_is_late() -> None:
    stamps = [
        Stamp.of("2020-08-11 22:17:31,291", 251_908_868),
        Stamp.of("2020-08-11 22:17:32,558", 253_115_412),
    ]
    assert times_us(stamps) == [0, 1_206_544]


def test_the_counter_wraps() -> None:
    stamps = [
        Stamp.of("2020-08-12 23:16:32,000", 4_292_918_628),
        Stamp.of("2020-08-12 23:16:42,019", 7_970_580),
    ]
    assert times_us(stamps) == [0, 10_019_248]


def test_the_wall_clock_tells_how_often_the_counter_has_wrapped() -> None:
    stamps = [
        Stamp.of("2020-08-12 00:00:00,000", 5 * SECOND),
        Stamp.of("2020-08-12 02:23:10,000", 5 * SECOND + 65_408),
    ]
    assert times_us(stamps) == [0, 2 * (1 << 32) + 65_408]


def test_a_gateway_that_began_anew_is_followed_by_the_wall_clock() -> None:
    stamps = [
        Stamp.of("2020-08-12 00:00:00,000", 3_000 * SECOND),
        Stamp.of("2020-08-12 00:01:00,000", 17),
        Stamp.of("2020-08-12 00:01:05,100", 17 + 5 * SECOND),
    ]
    assert times_us(stamps) == [0, 60 * SECOND, 65 * SECOND]


def test_records_out_of_order_keep_their_times() -> None:
    stamps = [
        Stamp.of("2020-08-12 00:00:10", 20 * SECOND),
        Stamp.of("2020-08-12 00:00:04", 14 * SECOND),
        Stamp.of("2020-08-12T00:00:12.500+00:00", 22 * SECOND),
    ]
    assert times_us(stamps) == [6 * SECOND, 0, 8 * SECOND]


def test_one_clock_is_enough() -> None:
    assert times_us([Stamp.of(None, 4_294_967_290), Stamp.of(None, 4)]) == [0, 10]
    assert times_us(
        [Stamp.of("2020-08-12 00:00:00", None), Stamp.of("2020-08-12 00:00:01", None)]
    ) == [0, SECOND]


def test_no_frames_no_times() -> None:
    assert times_us([]) == []


@pytest.mark.parametrize("text", ["", "22:17", "2020-13-01 00:00:00"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="`t` is no time"):
        Stamp.of(text, 1)
