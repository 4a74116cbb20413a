"""Which session does a concentrator's clock show, and from where does it count?"""

from bench.chance import stream
from bench.virtual.concentrator_clock import ConcentratorClock
from lns.station.xtime import XtimeParts, split


def test_a_session_byte_comes_again_only_when_it_is_asked_for() -> None:
    clock = ConcentratorClock(stream(1, "clock"))
    clock.start(0)
    first = split(clock.xtime(0)).session
    clock.repeat_session()
    clock.start(5_000_000)
    assert split(clock.xtime(5_000_300)) == XtimeParts(0, first, 300)
    clock.start(9_000_000)
    assert split(clock.xtime(9_000_000)).session != first
