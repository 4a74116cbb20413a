"""What does the clock of a real station show, as far as it has told?"""

import asyncio
import json

from bench.clock import run
from bench.station.switchboard import StationClock

UPDF = json.dumps({"msgtype": "updf", "upinfo": {"xtime": 5_000_000, "rssi": -70}})


def test_it_shows_nothing_before_it_was_told() -> None:
    clock = StationClock()
    assert not clock.is_told
    assert clock.xtime_now() == 0


def test_a_reception_tells_it_and_time_goes_on() -> None:
    async def main() -> tuple[int, int]:
        clock = StationClock()
        clock.learn(UPDF)
        then = clock.xtime_now()
        await asyncio.sleep(2)
        return then, clock.xtime_now()

    assert run(main()) == (5_000_000, 7_000_000)


def learning(*texts: str) -> StationClock:
    async def main() -> StationClock:
        clock = StationClock()
        for text in texts:
            clock.learn(text)
        return clock

    return run(main())


def test_an_answer_to_getxtime_tells_it_unless_the_radio_does_not_run() -> None:
    zeros = json.dumps({"msgtype": "getxtime", "xtimes": [0, 0, 0, 0]})
    assert not learning(zeros).is_told
    assert learning(zeros, json.dumps({"msgtype": "getxtime", "xtimes": [77, 0, 0, 0]})).is_told


def test_a_new_connection_may_be_a_new_session() -> None:
    clock = learning(UPDF)
    clock.forget()
    assert not clock.is_told


def test_what_cannot_be_read_tells_nothing() -> None:
    texts = ("", "no json", "[]", '{"upinfo": 3}', '{"upinfo": {"xtime": "5"}}',
                 '{"msgtype": "getxtime", "xtimes": []}', '{"upinfo": {"xtime": -1}}')  # fmt: skip
    assert not learning(*texts).is_told
