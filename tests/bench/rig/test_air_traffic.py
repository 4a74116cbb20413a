"""When is the air of a lab free for one more frame?"""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from bench.clock import run
from bench.rig.on_hardware.hardware_bench import MARGIN_US, START_UP_US, AirTraffic
from lns.clock import now_us

AIRTIME_US = 60_000
NEEDED_US = START_UP_US + AIRTIME_US + MARGIN_US

SPANS = st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 300_000)), max_size=8)


def test_a_free_air_is_free_at_once() -> None:
    assert AirTraffic().free_from(5, NEEDED_US) == 5


def test_a_frame_fits_just_before_a_downlink_or_waits_until_it_is_over() -> None:
    traffic = AirTraffic()
    traffic.expect(1_000_000, AIRTIME_US)
    last_us = 1_000_000 - MARGIN_US - NEEDED_US
    assert traffic.free_from(last_us, NEEDED_US) == last_us
    assert traffic.free_from(last_us + 1, NEEDED_US) == 1_000_000 + AIRTIME_US + MARGIN_US


def test_a_frame_waits_where_its_answer_would_be_put_off() -> None:
    """RX1 opens a second after its end, when a gateway sends something else."""
    traffic = AirTraffic()
    traffic.expect(2_000_000, AIRTIME_US)
    over_us = 2_000_000 + AIRTIME_US + MARGIN_US
    last_us = 1_000_000 - AIRTIME_US - MARGIN_US - NEEDED_US
    assert traffic.answered_from(last_us, NEEDED_US) == last_us
    assert traffic.answered_from(last_us + 1, NEEDED_US) == over_us - 1_000_000 - AIRTIME_US


def test_two_boards_follow_each_other() -> None:
    async def main() -> tuple[int, int]:
        traffic = AirTraffic()
        begun: list[int] = []

        async def send() -> None:
            await traffic.clear(AIRTIME_US)
            begun.append(now_us())

        await asyncio.gather(send(), send())
        return begun[0], begun[1]

    first_us, second_us = run(main())
    assert second_us - first_us == NEEDED_US


@given(SPANS, st.integers(0, 3_000_000), st.integers(1, 400_000))
def test_the_first_free_time_is_free_and_there_is_none_before(
    spans: list[tuple[int, int]], at_us: int, needed_us: int
) -> None:
    """Against a model: every begin that could be the earliest is tried in turn."""
    traffic = AirTraffic()
    for begin_us, airtime_us in spans:
        traffic.expect(begin_us, airtime_us)
    busy = [(begin_us - MARGIN_US, begin_us + long_us + MARGIN_US) for begin_us, long_us in spans]

    def is_free(begin_us: int) -> bool:
        return all(begin_us + needed_us <= low or begin_us >= high for low, high in busy)

    tried = sorted({at_us, *(high for _, high in busy if high > at_us)})
    assert traffic.free_from(at_us, needed_us) == next(filter(is_free, tried))
