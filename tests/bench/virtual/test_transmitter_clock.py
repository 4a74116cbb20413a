"""Which session does a concentrator's clock show, and from where does it count?"""

from itertools import pairwise

from bench.chance import stream
from bench.virtual.transmitter import ConcentratorClock
from tests.xtimes import XtimeParts, split


def test_a_session_byte_can_be_chosen_again_or_avoided() -> None:
    clock = ConcentratorClock(stream(1, "clock"))
    clock.start(0)
    first = split(clock.xtime(0)).session
    clock.repeat_session()
    clock.start(5_000_000)
    assert split(clock.xtime(5_000_300)) == XtimeParts(0, first, 300)
    clock.differ_from(clock)
    for _ in range(1_000):
        last = split(clock.xtime(0)).session
        clock.start(9_000_000)
        assert split(clock.xtime(9_000_000)).session != last


def test_a_session_byte_is_drawn_and_may_be_the_last_one() -> None:
    clock = ConcentratorClock(stream(1, "clock"))
    drawn = []
    for _ in range(3_000):
        clock.start(0)
        drawn.append(split(clock.xtime(0)))
    assert {parts.session for parts in drawn} == set(range(1, 256))
    assert any(a.session == b.session for a, b in pairwise(drawn))
    # The counter begins at 0 with the radio, a moment before it is read.
    assert max(parts.counter_us for parts in drawn) < 1 << 20
