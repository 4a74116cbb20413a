import pytest

from lns.station.protocol import StationClock
from tests.xtimes import XtimeParts, join, split

SESSION_A, SESSION_B = 94, 139


def test_an_xtime_of_a_real_station_comes_apart() -> None:
    assert split(26458648088757040) == XtimeParts(0, 94, 277955376)
    assert join(0, 94, 277955376) == 26458648088757040
    assert split(join(3, 255, (1 << 48) - 1)) == XtimeParts(3, 255, (1 << 48) - 1)


def test_the_fastest_text_tells_the_offset() -> None:
    clock = StationClock()
    clock.sample(join(0, SESSION_A, 1_000_000), 501_030_000)
    clock.sample(join(0, SESSION_A, 2_000_000), 502_000_800)
    clock.sample(join(0, SESSION_A, 3_000_000), 503_020_000)
    assert clock.lns_time_us(join(0, SESSION_A, 3_000_000)) == 503_000_800


def test_a_slow_text_is_dated_back() -> None:
    clock = StationClock()
    clock.sample(join(0, SESSION_A, 0), 700)
    clock.sample(join(0, SESSION_A, 1_000_000), 3_000_000)
    assert clock.lns_time_us(join(0, SESSION_A, 1_000_000)) == 1_000_700


def test_clocks_may_drift_apart_by_50_ppm_and_no_more() -> None:
    clock = StationClock()
    clock.sample(join(0, SESSION_A, 0), 1_000)
    hour_us = 3_600_000_000
    clock.sample(join(0, SESSION_A, hour_us), hour_us + 1_000 + 180_100)
    assert clock.lns_time_us(join(0, SESSION_A, 0)) == 1_000
    clock.sample(join(0, SESSION_A, hour_us), hour_us + 1_000 + 180_000)
    assert clock.lns_time_us(join(0, SESSION_A, 0)) == 181_000


def test_a_late_text_of_an_old_session_does_not_spoil_the_new_one() -> None:
    clock = StationClock()
    old, new = join(0, SESSION_A, 5_000_000), join(0, SESSION_B, 1_000)
    clock.sample(old, 6_000_000)
    assert clock.knows(old, 6_000_000)
    clock.sample(new, 7_000_000)
    clock.sample(old, 90_000_000)
    assert clock.knows(new, 90_000_000)
    assert not clock.knows(old, 90_000_000)
    assert clock.lns_time_us(new) == 7_000_000
    assert clock.lns_time_us(old) == 6_000_000


def test_the_report_after_a_configuration_names_the_session_that_runs() -> None:
    clock = StationClock()
    old, new = join(0, SESSION_A, 5_000_000), join(0, SESSION_B, 1_000)
    clock.connected(0)
    clock.report(old, 100)
    assert clock.knows(old, 100)
    clock.configured(200)
    assert not clock.knows(old, 200)
    clock.sample(old, 300)
    assert not clock.knows(old, 300)
    clock.report(new, 400)
    clock.sample(old, 20_000_000)
    assert clock.knows(new, 20_000_000)
    assert not clock.knows(old, 20_000_000)


def test_a_queued_frame_does_not_make_its_session_run_when_the_server_is_new() -> None:
    clock = StationClock()
    clock.connected(0)
    queued = join(0, SESSION_A, 5_000_000)
    clock.configured(100)
    clock.sample(queued, 200)
    assert not clock.knows(queued, 200)
    clock.report(join(0, SESSION_B, 7), 300)
    clock.sample(queued, 400)
    assert not clock.knows(queued, 400)


@pytest.mark.parametrize(("at_us", "known"), [(10_000_099, False), (10_000_100, True)])
def test_a_station_that_does_not_report_is_believed_after_ten_seconds(
    at_us: int, known: bool
) -> None:
    clock = StationClock()
    clock.connected(0)
    clock.configured(100)
    frame = join(0, SESSION_A, 5_000_000)
    clock.sample(frame, at_us)
    assert clock.knows(frame, at_us) is known


@pytest.mark.parametrize(("at_us", "known"), [(1_000_499, False), (1_000_500, True)])
def test_a_session_goes_on_when_a_new_connection_brings_no_version_for_a_second(
    at_us: int, known: bool
) -> None:
    clock = StationClock()
    frame = join(0, SESSION_A, 5_000_000)
    clock.connected(0)
    clock.report(frame, 100)
    clock.connected(500)
    assert clock.knows(frame, at_us) is known


def test_a_frame_that_waited_for_a_connection_is_dated_by_what_was_known_before() -> None:
    clock = StationClock()
    clock.connected(0)
    clock.report(join(0, SESSION_A, 1_000_000), 1_000_000)
    clock.connected(60_000_000)
    clock.sample(join(0, SESSION_A, 5_000_000), 60_000_100)
    assert clock.lns_time_us(join(0, SESSION_A, 5_000_000)) == 5_000_000


def test_each_radio_unit_has_a_session_of_its_own() -> None:
    clock = StationClock()
    clock.report(join(0, SESSION_A, 10), 20)
    clock.report(join(1, SESSION_B, 10), 20)
    assert clock.knows(join(0, SESSION_A, 30), 30)
    assert clock.knows(join(1, SESSION_B, 30), 30)
    assert not clock.knows(join(1, SESSION_A, 30), 30)


def test_a_session_number_may_come_again() -> None:
    clock = StationClock()
    again = join(0, SESSION_A, 10)
    clock.report(again, 20)
    clock.configured(30)
    clock.report(again, 40)
    assert clock.knows(again, 40)


def test_sixteen_sessions_are_remembered() -> None:
    clock = StationClock()
    for session in range(1, 18):
        clock.sample(join(0, session, 10), 20)
    assert clock.lns_time_us(join(0, 1, 10)) is None
    assert clock.lns_time_us(join(0, 2, 10)) == 20


def test_a_clock_that_nobody_told_is_unknown() -> None:
    clock = StationClock()
    clock.sample(0, 5)
    clock.report(0, 5)
    assert clock.lns_time_us(0) is None
    assert not clock.knows(join(0, SESSION_A, 0), 5)
    assert clock.lns_time_us(join(0, SESSION_A, 0)) is None


def test_a_foreign_session_in_a_frame_does_not_end_the_one_the_station_reported() -> None:
    clock = StationClock()
    clock.connected(0)
    clock.configured(0)
    clock.report(join(0, 7, 1_000_000), 1_000_000)
    clock.sample(join(0, 9, 5), 30_000_000)
    assert clock.knows(join(0, 7, 30_000_000), 30_000_000)
    assert not clock.knows(join(0, 9, 5), 30_000_000)


def test_a_session_number_that_comes_again_has_an_offset_of_its_own() -> None:
    clock = StationClock()
    clock.connected(900_000)
    clock.configured(900_000)
    clock.report(join(0, 208, 500_000), 1_000_000)
    clock.connected(61_000_000)
    clock.configured(61_000_000)
    clock.report(join(0, 208, 20_000), 61_030_000)
    assert clock.knows(join(0, 208, 1_000_000), 62_020_000)
    assert clock.sample(join(0, 208, 1_000_000), 62_020_000) == 62_010_000


def test_a_frame_of_the_earlier_session_of_a_number_does_not_spoil_the_later_one() -> None:
    clock = StationClock()
    clock.connected(0)
    clock.configured(0)
    clock.report(join(0, 208, 500_000), 1_000_000)
    queued = join(0, 208, 30_000_000)
    clock.connected(61_000_000)
    assert clock.sample(queued, 61_000_100) == 30_500_000
    clock.configured(61_000_200)
    clock.sample(queued, 61_000_300)
    clock.report(join(0, 208, 20_000), 61_030_000)
    assert clock.sample(queued, 61_030_100) is None
    assert clock.sample(join(0, 208, 1_000_000), 62_030_000) == 62_010_000


def test_a_queued_frame_of_a_number_never_heard_does_not_spoil_the_session_that_is_reported() -> (
    None
):
    clock = StationClock()
    clock.connected(61_000_000)
    clock.configured(61_000_200)
    clock.sample(join(0, 208, 30_000_000), 61_000_300)
    clock.report(join(0, 208, 20_000), 61_030_000)
    assert clock.lns_time_us(join(0, 208, 20_000)) == 61_030_000


def test_a_clock_that_is_too_fast_is_followed_after_the_configuration() -> None:
    clock = StationClock()
    clock.connected(0)
    clock.configured(0)
    clock.report(join(0, 7, 1_000), 2_000)
    hour_us = 3_600_000_000
    assert clock.sample(join(0, 7, hour_us + 400_000), hour_us) == hour_us


@pytest.mark.parametrize(("after_us", "known"), [(9_999_999, False), (10_000_000, True)])
def test_without_a_report_a_number_that_comes_again_is_believed_after_ten_seconds(
    after_us: int, known: bool
) -> None:
    clock = StationClock()
    clock.connected(0)
    clock.sample(join(0, 208, 5_000_000), 20_000_000)
    assert clock.knows(join(0, 208, 5_000_000), 20_000_000)
    clock.connected(60_000_000)
    clock.configured(60_000_000)
    frame = join(0, 208, after_us - 700)
    clock.sample(frame, 60_000_000 + after_us)
    assert clock.knows(frame, 60_000_000 + after_us) is known
    assert (clock.lns_time_us(frame) == 60_000_000 + after_us) is known


def test_a_moment_far_ahead_is_unsure_until_the_station_shows_its_clock_again() -> None:
    clock = StationClock()
    clock.connected(0)
    clock.configured(0)
    clock.report(join(0, 7, 1_000_000), 1_000_700)
    near, far = join(0, 7, 20_100_000), join(0, 7, 4_300_000_000)
    assert clock.sample(near, 20_000_700) == 20_000_700
    assert not clock.is_unsure(near)
    assert clock.sample(far, 21_000_000) == 21_000_000
    assert clock.is_unsure(near)
    clock.asked(22_000_000)
    clock.asked(22_500_000)
    clock.report(join(0, 7, 22_000_100), 22_001_000)
    assert not clock.is_unsure(near)
    assert clock.lns_time_us(join(0, 7, 23_000_000)) == 23_000_900


def test_what_is_shown_without_a_question_sets_no_clock_back() -> None:
    clock = StationClock()
    clock.connected(0)
    clock.configured(0)
    clock.report(join(0, 7, 1_000_000), 1_000_700)
    clock.report(join(0, 7, 20_000_000), 20_500_000)
    assert clock.lns_time_us(join(0, 7, 20_000_000)) == 20_000_700


def test_every_radio_answers_the_same_question() -> None:
    clock = StationClock()
    clock.connected(0)
    clock.configured(0)
    for unit in (0, 1):
        clock.sample(join(unit, 7, 9_000_000), 1_000_000)
    clock.asked(2_000_000)
    for unit in (0, 1):
        clock.report(join(unit, 7, 3_000_000), 2_010_000)
    assert [clock.lns_time_us(join(unit, 7, 3_000_000)) for unit in (0, 1)] == [2_010_000] * 2


def test_of_what_is_forgotten_nobody_is_unsure() -> None:
    clock = StationClock()
    clock.sample(join(0, 7, 0), 1_000_000)
    clock.sample(join(0, 7, 1_000_000), 1_000_001)
    for session in range(100, 116):
        clock.sample(join(1, session, 0), 1_000_002)
    clock.sample(join(0, 7, 0), 3_000_000)
    assert clock.runs(join(0, 7, 0)) and not clock.is_unsure(join(0, 7, 0))
