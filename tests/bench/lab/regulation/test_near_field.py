"""Radios too close: by strength, and by an image on another channel."""

from dataclasses import replace

import pytest

from bench.lab.regulation import HeardFrame, near_field

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
