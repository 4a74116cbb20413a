"""Who is to blame when a station shows another time than its frames have?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bench.inspection.station import StationTime
from bench.verdict.owner import Found, Scrutiny
from tests.bench.inspection.test_gateway import HEARD, SECOND_US, SESSION

CHECK = Scrutiny(rule="a station serves", of="west", t_us=0)
OTHER = 0xAC << 48


class Seen:
    """What one station shows; remembers what was found."""

    def __init__(self, rig: str = "simulated", **facts: Any) -> None:
        self._time = StationTime(rig, **facts)
        self.found: list[str] = []

    def hears(
        self, at_s: int, *, session: int = SESSION, gpstime: int = 0, began_s: int = 0
    ) -> "Seen":
        """A frame that has just ended, told with a clock of that session, which began then."""
        counter_us = (at_s - began_s) * SECOND_US
        uplink = replace(HEARD, xtime=session | counter_us, gpstime=gpstime)
        return self._note(self._time.heard(uplink, at_s * SECOND_US, CHECK))

    def says(self, at_s: int) -> "Seen":
        """A frame that no radio has sent."""
        xtime = SESSION | at_s * SECOND_US
        uplink = replace(HEARD, xtime=xtime, t_us=at_s * SECOND_US)
        return self._note(self._time.said(uplink, CHECK))

    def shows(self, at_s: int, **fields: Any) -> "Seen":
        return self._note(self._time.told("west", fields, at_s * SECOND_US, CHECK))

    def answers(self, at_s: int, xtime: int) -> "Seen":
        return self.shows(at_s, msgtype="getxtime", xtimes=[xtime, 0])

    def is_configured(self, at_s: int) -> "Seen":
        self._time.configured("west", at_s * SECOND_US)
        return self

    def in_the_end(self) -> "Seen":
        return self._note(self._time.misshown())

    def _note(self, found: Iterator[Found]) -> "Seen":
        self.found += [one.text.removeprefix("west: ") for one in found]
        return self


def test_a_session_of_its_radio_lasts_until_it_is_configured_again() -> None:
    wrong = "session of xtime: expected 171, observed 172"
    assert Seen().hears(1).hears(2, session=OTHER).found == [wrong]
    assert Seen().hears(1).is_configured(2).hears(3, session=OTHER).found == []
    # What was heard before is told behind that.
    assert Seen().is_configured(2).hears(1).hears(3, session=OTHER).found == []
    assert Seen(alone=False).hears(1).hears(2, session=OTHER).found == []
    assert Seen("emulated").hears(1).hears(2, session=OTHER).found == []


@pytest.mark.parametrize("rig", ["simulated", "emulated"])
def test_a_session_byte_may_come_again(rig: str) -> None:
    """Drawn at random: one in 128 is that of the session before, whose last frame was held."""
    held = Seen(rig).hears(1).is_configured(10)
    assert held.hears(13, began_s=9).hears(20, began_s=9).found == []
    wrong = "xtime: expected 7000000 us after the first, observed 5000000 us"
    assert held.hears(20, began_s=11).found == [wrong]
    told_behind = Seen(rig).is_configured(10).hears(1).hears(13, began_s=9)
    assert told_behind.hears(2).found == []
    assert told_behind.hears(20, began_s=11).found == [wrong]


def test_its_frames_have_the_clock_that_it_shows() -> None:
    assert Seen().answers(1, SESSION | SECOND_US).hears(2).found == []
    wrong = "xtime: expected 1000000 us after what it showed, observed -4000000 us"
    assert Seen().answers(1, SESSION | 6 * SECOND_US).hears(2).found == [wrong]
    near = "xtime: expected 1000000 us after what it showed, observed 970000 us"
    assert Seen().answers(1, SESSION | SECOND_US + 30_000).hears(2).found == [near]
    assert Seen().answers(1, SESSION | SECOND_US + 20_000).hears(2).found == []
    assert Seen().answers(1, SESSION | SECOND_US + 30_000).says(2).found == []
    other = "session of xtime: expected 172, as it showed, observed 171"
    assert Seen().answers(1, OTHER | SECOND_US).hears(2).found == [other]
    assert Seen().answers(1, OTHER | SECOND_US).is_configured(1).hears(2).found == []
    assert Seen().answers(1, 0).hears(2).found == []
    assert Seen().answers(1, SESSION | SECOND_US).says(2).found == []
    assert Seen().answers(1, SESSION | 6 * SECOND_US).says(2).found == [wrong]
    assert Seen("emulated").answers(1, SESSION | 6 * SECOND_US).says(2).found == []


@pytest.mark.parametrize(("apart_us", "wrong"), [(0, False), (1_800, False), (30_000, True)])
def test_its_first_frame_is_of_the_time_that_its_clock_shows(apart_us: int, wrong: bool) -> None:
    """However well the later ones agree with it."""
    shown = (SESSION | 9 * SECOND_US) - apart_us, 9 * SECOND_US
    seen = Seen(shows={"west": [shown]}).is_configured(0).hears(1).hears(2)
    assert seen.found == []
    due = f"{SESSION + SECOND_US - apart_us}, as its clock shows"
    found = [f"xtime: expected {due}, observed {SESSION + SECOND_US}"] * wrong
    assert seen.in_the_end().found == found


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"msgtype": "timesync", "txtime": 12_000_000}, False),
        ({"msgtype": "timesync", "txtime": 12_700_000}, True),
        ({"msgtype": "dntxed", "txtime": 12.0}, False),
        ({"msgtype": "dntxed", "txtime": 13.0}, True),
        ({"msgtype": "version", "txtime": 13.0}, False),
    ],
)
def test_the_clock_of_its_host_goes_as_time_does(fields: dict[str, Any], wrong: bool) -> None:
    first = {"msgtype": "getxtime", "xtimes": [0], "ustime": 11_000_000}
    said = Seen().shows(1, **first).shows(2, **fields).found
    assert [one.partition(":")[0] for one in said] == ["clock of its host"] * wrong


def test_its_satellites_tell_when_a_frame_has_ended() -> None:
    assert Seen(gps_began_us=500).hears(1, gpstime=500 + SECOND_US).found == []
    wrong = "gpstime: expected when it has ended, observed 1000000 us after that"
    assert Seen(gps_began_us=500).hears(1, gpstime=500 + 2 * SECOND_US).found == [wrong]
    assert Seen().hears(1, gpstime=500 + 2 * SECOND_US).found == []
    began = StationTime("simulated", gps_began_us=500)
    assert not [*began.gps(500 + SECOND_US, SECOND_US, "begun", CHECK)]
    assert not [*began.gps(0, SECOND_US, "begun", CHECK)]
    assert len([*began.gps(1_500, SECOND_US, "begun", CHECK)]) == 1
