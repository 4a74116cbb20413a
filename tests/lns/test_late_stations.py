"""A station that cannot answer is named, in the log and in the capture."""

import asyncio
import logging

import pytest

from lns.events import TooLateInARow
from tests.lns.served_network import WEST, Network, serve, uplink, wait


def told(network: Network) -> list[tuple[str, str, int, str | None]]:
    rows = [event for event in network.events if isinstance(event, TooLateInARow)]
    return [(row.station, row.stage, row.n, row.cause) for row in rows]


def test_five_too_late_in_a_row_are_told_then_ten_then_the_end() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in range(10, 21):
            await network.west.hears(uplink(f_cnt, confirmed=True), xtime=0)
        await network.west.hears(uplink(21, confirmed=True))

    network = serve(scenario)
    assert [words[-1] for words in network.words] == ["TooLate"] * 11 + ["RX1"]
    assert told(network) == [
        (WEST, "going on", 5, "the clock of the station is not known"),
        (WEST, "going on", 10, "the clock of the station is not known"),
        (WEST, "over", 11, None),
    ]


def test_four_in_a_row_are_told_to_nobody_but_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(network: Network) -> None:
        f_cnt = 10
        for _ in range(3):
            for late_us in (0, 2_000_000, 2_000_000, 2_000_000, 2_000_000):
                await wait(3)
                await network.west.hears(uplink(f_cnt, confirmed=True), late_us=late_us)
                f_cnt += 1

    network = serve(scenario)
    assert [words[-1] for words in network.words].count("TooLate") == 12
    assert told(network) == []
    assert "the frame was told too late" in caplog.text


def test_frames_of_a_session_that_does_not_run_are_told_as_such() -> None:
    async def scenario(network: Network) -> None:
        network.west.session += 1
        for f_cnt in range(10, 15):
            await network.west.hears(uplink(f_cnt, confirmed=True))

    assert told(serve(scenario)) == [
        (WEST, "going on", 5, "the frame is of a radio session that does not run")
    ]


def test_the_copies_of_others_and_what_asks_for_nothing_do_not_count() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in range(10, 16):
            frame = uplink(f_cnt, confirmed=f_cnt % 2 == 0)
            await network.west.hears(frame, xtime=0)
            await network.east.hears(frame)

    network = serve(scenario)
    assert {words[-1] for words in network.words if words[0] == "east"} == {
        "Suppressed",
        "NotAsked",
    }
    assert told(network) == []


def test_the_log_names_a_station_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in range(10, 14):
            await network.west.hears(uplink(f_cnt, confirmed=True), xtime=0)
            await asyncio.sleep(25)

    with caplog.at_level(logging.WARNING):
        serve(scenario)
    lines = [record.getMessage() for record in caplog.records if "TooLate" in record.getMessage()]
    assert [line.split(":")[0] for line in lines].count(WEST) == 2
    assert lines[0].startswith(f"{WEST}: TooLate (01ABCDEF:10:")
