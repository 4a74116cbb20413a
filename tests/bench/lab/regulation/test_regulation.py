"""The airtime ledger: nothing over the share of an hour, and nothing held back for long."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.lab.regulation import (
    HOUR_US,
    AirtimeLedger,
    HeardFrame,
    LastingLedger,
    NeverPermitted,
    check_eirp,
    check_region,
    near_field,
)
from lns.lorawan.region import EU868, US915

G1_HZ = 868_100_000
CONDUCTED_HZ = 867_100_000
P_HZ = 869_525_000
SECOND_US = 1_000_000
WINDOW_US = 2_000
ALLOWED_US = 20  # 1 % of it


def ledger(**facts: bool) -> AirtimeLedger:
    return AirtimeLedger(EU868, **{"conducted": False, **facts})


def test_a_fresh_transmitter_may_send_now() -> None:
    assert ledger().due_us("dut", G1_HZ, 61_696, 7) == 7


def test_one_percent_of_an_hour_is_used_up_after_36_seconds() -> None:
    books = ledger()
    for second in range(36):
        books.note("dut", G1_HZ, SECOND_US, second * SECOND_US)
    # The first second of airtime has to be an hour old when the new one ends.
    assert books.due_us("dut", G1_HZ, SECOND_US, 40 * SECOND_US) == HOUR_US
    assert books.due_us("dut", P_HZ, SECOND_US, 40 * SECOND_US) == 40 * SECOND_US
    assert books.due_us("replayer", G1_HZ, SECOND_US, 40 * SECOND_US) == 40 * SECOND_US


def test_what_fits_exactly_is_sent_at_once() -> None:
    books = ledger()
    books.note("dut", G1_HZ, 35 * SECOND_US, 0)
    assert books.due_us("dut", G1_HZ, SECOND_US, 36 * SECOND_US) == 36 * SECOND_US
    assert books.due_us("dut", G1_HZ, SECOND_US + 1, 36 * SECOND_US) > 36 * SECOND_US


@pytest.mark.parametrize(
    ("freq_hz", "allowed_s"),
    [
        (868_000_000, 36),
        (868_600_000, 36),
        (869_700_000, 36),
        (869_400_000, 360),
        (869_650_000, 360),
        (867_900_000, 3.6),
        (868_700_000, 3.6),
        (869_200_000, 3.6),
    ],
)
def test_each_band_has_its_share(freq_hz: int, allowed_s: float) -> None:
    allowed_us = round(allowed_s * SECOND_US)
    assert ledger().due_us("dut", freq_hz, allowed_us, 0) == 0
    with pytest.raises(NeverPermitted, match="an hour in this band"):
        ledger().due_us("dut", freq_hz, allowed_us + 1, 0)


def test_on_cables_nobody_waits_and_the_books_are_kept() -> None:
    books = ledger(conducted=True)
    books.note("dut", CONDUCTED_HZ, 60 * SECOND_US, 0)
    assert books.due_us("dut", CONDUCTED_HZ, SECOND_US, 61 * SECOND_US) == 61 * SECOND_US
    [share] = books.share("dut", 61 * SECOND_US)
    assert (share.used_us, share.limit_us) == (60 * SECOND_US, 3_600_000)


def test_the_share_is_of_the_last_hour_only() -> None:
    books = ledger()
    books.note("dut", G1_HZ, 10 * SECOND_US, 0)
    books.note("dut", P_HZ, 4 * SECOND_US, 20 * SECOND_US)
    p, g1 = books.share("dut", HOUR_US + 3 * SECOND_US)
    assert (g1.used_us, p.used_us) == (7 * SECOND_US, 4 * SECOND_US)
    assert str(g1) == "868.0-868.60 MHz: 7.000 s of 36.000 s"
    assert books.share("replayer", HOUR_US) == ()


@pytest.mark.parametrize("conducted", [True, False])
def test_nothing_is_sent_outside_the_region(conducted: bool) -> None:
    books = ledger(conducted=conducted)
    with pytest.raises(NeverPermitted, match="dut may not send on 915 MHz"):
        books.due_us("dut", 915_000_000, 50_000, 0)


def test_us915_has_a_dwell_time_and_no_duty_cycle() -> None:
    books = AirtimeLedger(US915, conducted=False)
    for start_us in range(0, 60 * SECOND_US, 400_000):
        books.note("dut", 903_900_000, 400_000, start_us)
    assert books.due_us("dut", 903_900_000, 400_000, 60 * SECOND_US) == 60 * SECOND_US
    with pytest.raises(NeverPermitted, match="400000 us"):
        books.due_us("dut", 903_900_000, 400_001, 0)
    assert AirtimeLedger(US915, conducted=True).due_us("dut", 903_900_000, 400_001, 0) == 0


def on_air_us(sent: list[tuple[int, int]], since_us: int, until_us: int) -> int:
    """The model: how long of a span each of (start, end) lasted, added up."""
    return sum(max(0, min(end, until_us) - max(start, since_us)) for start, end in sent)


def is_lawful(sent: list[tuple[int, int]]) -> bool:
    """No window that ends where a frame ends, or begins where one begins, holds too much."""
    ends = [end for _, end in sent] + [start + WINDOW_US for start, _ in sent]
    return all(on_air_us(sent, end - WINDOW_US, end) <= ALLOWED_US for end in ends)


@given(
    st.lists(
        st.tuples(
            st.integers(1, ALLOWED_US),
            st.one_of(st.integers(0, 40), st.sampled_from([WINDOW_US - 1, WINDOW_US])),
        ),
        max_size=40,
    )
)
def test_who_waits_until_due_keeps_the_law_and_waits_no_longer(
    wishes: list[tuple[int, int]],
) -> None:
    books = AirtimeLedger(EU868, conducted=False, window_us=WINDOW_US)
    sent: list[tuple[int, int]] = []
    now_us = 0
    for airtime_us, pause_us in wishes:
        now_us += pause_us
        due_us = books.due_us("dut", G1_HZ, airtime_us, now_us)
        assert due_us >= now_us
        if due_us > now_us:
            # A frame counts whole until its end is out of the window: never by more than that.
            longest_us = max(end - start for start, end in sent)
            early_us = max(now_us, due_us - longest_us)
            wanted = (early_us, early_us + airtime_us)
            assert due_us - longest_us <= now_us or not is_lawful([*sent, wanted])
        books.note("dut", G1_HZ, airtime_us, due_us)
        sent.append((due_us, due_us + airtime_us))
        now_us = due_us + airtime_us
    assert is_lawful(sent)


def test_power_up_to_the_limit_is_well() -> None:
    assert check_eirp("dut", 14, EU868, 14) is None


def test_power_over_the_limit_of_the_bench_is_told() -> None:
    told = check_eirp("dut", 16, EU868, 14)
    assert told is not None
    assert told.startswith("dut sends with 16 dBm EIRP, the bench allows 14 dBm")


def test_the_region_caps_what_the_bench_allows() -> None:
    told = check_eirp("dut", 22, EU868, 30)
    assert told is not None
    assert "EU868 allows 16 dBm" in told


def test_another_region_is_told() -> None:
    assert check_region("dut", "EU868", EU868) is None
    told = check_region("dut", "EU868", US915)
    assert told is not None
    assert "dut uses the region EU868, this bench is in US915" in told


NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lab-1.airtime"


def opened(file: Path, now_us: int = 0, utc: datetime = NIGHT) -> LastingLedger:
    return LastingLedger(EU868, file, conducted=False, now_us=now_us, utc=utc)


def test_a_run_knows_what_the_one_before_has_sent(file: Path) -> None:
    opened(file, now_us=500 * SECOND_US).note("dut", G1_HZ, 30 * SECOND_US, 510 * SECOND_US)
    # The host was started anew: its monotonic clock begins again, the wall clock goes on.
    again = opened(file, now_us=7 * SECOND_US, utc=NIGHT + timedelta(minutes=10))
    assert again.share("dut", 7 * SECOND_US)[0].used_us == 30 * SECOND_US
    # It ended 40 s after NIGHT, so 560 s before this run began.
    due_us = again.due_us("dut", G1_HZ, 10 * SECOND_US, 7 * SECOND_US)
    assert due_us == 7 * SECOND_US - 560 * SECOND_US + HOUR_US - 10 * SECOND_US
    assert again.due_us("replayer", G1_HZ, 10 * SECOND_US, 7 * SECOND_US) == 7 * SECOND_US


def test_after_an_hour_nothing_is_left_of_it(file: Path) -> None:
    opened(file).note("dut", G1_HZ, 36 * SECOND_US, 0)
    later = opened(file, now_us=9, utc=NIGHT + timedelta(hours=1, seconds=36))
    assert later.due_us("dut", G1_HZ, 36 * SECOND_US, 9) == 9
    opened(file, utc=NIGHT + timedelta(hours=3))
    assert file.read_text() == ""


def test_many_runs_add_up(file: Path) -> None:
    for number in range(3):
        ledger = opened(file, utc=NIGHT + timedelta(minutes=number))
        ledger.note("dut", G1_HZ, 12 * SECOND_US, 5 * SECOND_US)
    last = opened(file, utc=NIGHT + timedelta(minutes=3))
    assert last.share("dut", 0)[0].used_us == 36 * SECOND_US
    assert last.due_us("dut", G1_HZ, SECOND_US, 0) > 3_000 * SECOND_US


def test_a_wall_clock_that_was_set_back_makes_nothing_forgotten(file: Path) -> None:
    opened(file).note("dut", G1_HZ, 36 * SECOND_US, 10 * SECOND_US)
    back = opened(file, now_us=50 * SECOND_US, utc=NIGHT - timedelta(hours=5))
    # As if it had ended just now; and no longer than that, also for the runs that follow.
    assert back.due_us("dut", G1_HZ, SECOND_US, 50 * SECOND_US) == 49 * SECOND_US + HOUR_US
    later = opened(file, now_us=0, utc=NIGHT - timedelta(hours=4))
    assert later.due_us("dut", G1_HZ, SECOND_US, 0) == 0


def test_a_torn_line_costs_only_itself(file: Path) -> None:
    opened(file).note("dut", G1_HZ, 20 * SECOND_US, 0)
    with file.open("ab") as lines:
        lines.write(b'{"transmitter": "dut", "freq\xff\n[1]\nnull\n{"transmitter": 1}\n')
    again = opened(file, now_us=60 * SECOND_US, utc=NIGHT + timedelta(seconds=60))
    assert again.share("dut", 60 * SECOND_US)[0].used_us == 20 * SECOND_US
    assert file.read_text().count("\n") == 1


def test_where_nothing_is_limited_nothing_is_waited_for(file: Path) -> None:
    ledger = LastingLedger(US915, file, conducted=False, now_us=0, utc=NIGHT)
    ledger.note("dut", 903_900_000, 300_000, 0)
    again = LastingLedger(US915, file, conducted=False, now_us=0, utc=NIGHT)
    assert again.due_us("dut", 903_900_000, 300_000, 0) == 0


SESSION = 0x0042 << 48
FRAME = HeardFrame("west", "40AABB", 868_100_000, -66, SESSION | 1_000_000)


def test_a_bench_at_rest_says_nothing() -> None:
    assert near_field([FRAME, replace(FRAME, station="east")]) == ()


@pytest.mark.parametrize(("rssi_dbm", "lines"), [(-41, 0), (-40, 0), (-39, 1)])
def test_a_frame_stronger_than_the_limit_is_told(rssi_dbm: int, lines: int) -> None:
    assert len(near_field([FRAME, replace(FRAME, rssi_dbm=rssi_dbm)])) == lines


def test_the_limit_is_the_benchs_and_the_strongest_is_named_once() -> None:
    heard = [replace(FRAME, rssi_dbm=rssi_dbm) for rssi_dbm in (-59, -51, -55)]
    [line] = near_field(heard, rssi_dbm_max=-60)
    assert "west heard a frame with -51 dBm, more than -60 dBm" in line


@pytest.mark.parametrize(
    ("apart_us", "is_twin"), [(0, True), (8, True), (1_000, True), (1_001, False)]
)
def test_one_frame_on_two_channels_at_once_is_an_image(apart_us: int, is_twin: bool) -> None:
    twin = replace(FRAME, freq_hz=868_300_000, xtime=FRAME.xtime + apart_us)
    lines = near_field([FRAME, twin])
    assert bool(lines) is is_twin
    if is_twin:
        assert f"{apart_us} us apart, on 868.1 and 868.3 MHz" in lines[0]


@pytest.mark.parametrize(
    "other",
    [
        replace(FRAME, station="east", freq_hz=868_300_000),
        replace(FRAME, phy="40AABC", freq_hz=868_300_000),
        replace(FRAME, xtime=FRAME.xtime + 3),  # a second antenna hears on the same channel
        replace(FRAME, freq_hz=868_300_000, xtime=FRAME.xtime + 2_000_000),  # sent again
    ],
    ids=["another station", "another frame", "the same channel", "a retransmission"],
)
def test_what_is_no_image(other: HeardFrame) -> None:
    assert near_field([FRAME, other]) == ()


def test_the_radio_unit_in_xtime_does_not_hide_an_image() -> None:
    twin = replace(FRAME, freq_hz=868_300_000, xtime=FRAME.xtime | 1 << 56)
    assert len(near_field([FRAME, twin])) == 1
