"""When does a server tell a station another time than its clock shows?"""

from datetime import UTC, datetime

import pytest

from bench.inspection.station import ServerTime
from bench.verdict.owner import Scrutiny

BEGAN = datetime(2026, 11, 20, 2, 0, 0, tzinfo=UTC)
GPS_US = (int(BEGAN.timestamp()) - 315_964_800 + 18) * 1_000_000
CHECK = Scrutiny(rule="router_config", of="router_config", t_us=0)


def wrong(told_s: float | None, *, is_simulated: bool = False) -> list[str]:
    told = {} if told_s is None else {"MuxTime": BEGAN.timestamp() + told_s}
    found = ServerTime(BEGAN, is_simulated=is_simulated).mux_time(told, 60_000_000, CHECK)
    return [one.text.split(": ")[1] for one in found]


@pytest.mark.parametrize("told_s", [50, 59, 60, 60.1])
def test_a_server_may_be_late_with_the_time(told_s: float) -> None:
    assert wrong(told_s) == []


@pytest.mark.parametrize("told_s", [None, 49.9, 60.3, 120, 1_795_000_000])
def test_another_time_is_wrong(told_s: float | None) -> None:
    assert wrong(told_s) == ["MuxTime"]


@pytest.mark.parametrize(("told_s", "words"), [(60, []), (59.995, []), (59.9, ["MuxTime"])])
def test_a_simulated_server_is_never_late(told_s: float, words: list[str]) -> None:
    assert wrong(told_s, is_simulated=True) == words


@pytest.mark.parametrize(
    ("gps_s", "mux_s", "wrongs"), [(60, 60, 0), (55, 55, 0), (60, 59, 1), (49, 49, 1), (61, 60, 2)]
)
def test_both_times_of_an_answer_are_of_one_moment(gps_s: int, mux_s: int, wrongs: int) -> None:
    told = {"gpstime": GPS_US + gps_s * 1_000_000, "MuxTime": BEGAN.timestamp() + mux_s}
    assert len(list(ServerTime(BEGAN).gps_time(told, 60_000_000, CHECK))) == wrongs


def test_where_nobody_knows_the_clock_any_time_is_right() -> None:
    assert list(ServerTime().mux_time({}, 0, CHECK)) == []
    assert list(ServerTime().gps_time({}, 0, CHECK)) == []
