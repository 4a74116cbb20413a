"""Channels, data rates and times of a `router_config`, each with one of its fields spoilt."""

from copy import deepcopy
from typing import Any

import pytest

from bench.inspection.router_config import TIME_LATE_US, router_config
from bench.verdict.owner import Scrutiny
from bench.virtual.lorawan.channel_plan import PLANS
from lns.lorawan.region import REGIONS
from lns.station import spelling

NOW_S = 1_800_000_000.0
CHECK = Scrutiny(rule="router_config", of="router_config", t_us=0)


def wrong(told: dict[str, Any], region: str = "EU868", *, late_us: int = TIME_LATE_US) -> list[str]:
    found = router_config(told, PLANS[region], "000013", CHECK, now_s=NOW_S, late_us=late_us)
    return [one.text.split(": ")[1] for one in found]


@pytest.mark.parametrize("region", REGIONS)
def test_a_right_one_is_nothing_to_speak_of(region: str) -> None:
    assert wrong(spelling.router_config(REGIONS[region], mux_time=NOW_S), region) == []


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("radio_0", {"enable": True, "freq": 867_300_000}, "chan_multiSF"),
        ("radio_1", {"enable": False, "freq": 868_500_000}, "chan_multiSF"),
        ("chan_multiSF_7", {"enable": True, "radio": 0, "if": 300_000}, "chan_multiSF"),
        ("chan_multiSF_7", {"enable": False}, "chan_multiSF"),
        ("chan_multiSF_7", {"enable": True, "radio": 0, "if": 200_000}, "chan_multiSF"),
        ("chan_Lora_std", {"enable": False}, "chan_Lora_std"),
        ("chan_FSK", {"enable": False}, "chan_FSK"),
        ("chan_FSK", {"enable": True, "radio": 1, "if": 400_000}, "chan_FSK"),
    ],
)
def test_every_channel_is_where_devices_send(place: str, value: object, says: str) -> None:
    told = deepcopy(spelling.router_config(REGIONS["EU868"], mux_time=NOW_S))
    told["sx1301_conf"][0][place] = value
    assert wrong(told)[0] == says


@pytest.mark.parametrize("mux_time", [None, NOW_S + 60, NOW_S + 1, NOW_S - 11, NOW_S * 1000])
def test_the_time_of_the_server_is_told(mux_time: float | None) -> None:
    assert wrong(spelling.router_config(REGIONS["EU868"], mux_time=mux_time)) == ["MuxTime"]


@pytest.mark.parametrize(("late_us", "words"), [(1_000_000, []), (999_999, ["MuxTime"])])
def test_the_time_is_late_by_no_more_than_a_server_may_be(late_us: int, words: list[str]) -> None:
    told = spelling.router_config(REGIONS["EU868"], mux_time=NOW_S - 1)
    assert wrong(told, late_us=late_us) == words
