"""The hour of the law goes on from one run to the next."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.lab.regulation import HOUR_US, LastingLedger
from lns.lorawan.region import EU868, US915

NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
G1_HZ = 868_100_000
SECOND_US = 1_000_000


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
