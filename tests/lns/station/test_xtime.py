from lns.station.xtime import StationClock, XtimeParts, join, split

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


def test_a_new_session_is_learnt_anew_and_an_old_text_does_not_spoil_it() -> None:
    clock = StationClock()
    old, new = join(0, SESSION_A, 5_000_000), join(0, SESSION_B, 1_000)
    clock.sample(old, 6_000_000)
    assert clock.knows(old)
    clock.sample(new, 7_000_000)
    clock.sample(old, 90_000_000)
    assert clock.knows(new)
    assert not clock.knows(old)
    assert clock.lns_time_us(new) == 7_000_000
    assert clock.lns_time_us(old) == 6_000_000


def test_only_two_sessions_are_remembered() -> None:
    clock = StationClock()
    for session in (1, 2, 3):
        clock.sample(join(0, session, 10), 20)
    assert clock.lns_time_us(join(0, 1, 10)) is None
    assert clock.lns_time_us(join(0, 2, 10)) == 20


def test_a_clock_that_nobody_told_is_unknown() -> None:
    clock = StationClock()
    clock.sample(0, 5)
    assert clock.lns_time_us(0) is None
    assert not clock.knows(join(0, SESSION_A, 0))
    assert clock.lns_time_us(join(0, SESSION_A, 0)) is None
