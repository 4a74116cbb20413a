"""Channels, data rates and times of a `router_config`, each with one of its fields spoilt."""

from copy import deepcopy
from typing import Any

import pytest

from bench.inspection.station import router_config
from bench.verdict.owner import Scrutiny
from bench.virtual.lorawan.channel_plan import PLANS
from lns.lorawan.region import REGIONS
from lns.station import messages

CHECK = Scrutiny(rule="router_config", of="router_config", t_us=0)


def wrong(told: dict[str, Any], region: str = "EU868") -> list[str]:
    found = router_config(told, PLANS[region], "000013", CHECK)
    return [one.text.split(": ")[1] for one in found]


@pytest.mark.parametrize("region", REGIONS)
def test_a_right_one_is_nothing_to_speak_of(region: str) -> None:
    assert wrong(messages.router_config(REGIONS[region]), region) == []


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
    told = deepcopy(messages.router_config(REGIONS["EU868"]))
    told["sx1301_conf"][0][place] = value
    assert wrong(told)[0] == says
