"""A planned case: what it says of itself, and the way through JSON."""

import json

import pytest

from bench.plan.needs import from_json
from tests.bench.plan.cases import RETRY, SEND, case, device


def test_a_case_comes_back_from_json_as_it_was() -> None:
    planned = case(
        verbs=("alpha.send", "replay", "west.cut"),
        devices=(device("alpha", SEND, RETRY, next_f_cnt=10), device("b", class_c=True)),
        requires=("wires",),
        faults=("lns",),
        consumers=("application",),
        injected_airtime_us=51_456,
    )
    assert from_json(json.loads(json.dumps(planned.as_json()))) == planned


@pytest.mark.parametrize("verb", ["cut", "restart", "reconnect_without_version", "leave_half_open"])
def test_what_happens_to_a_whole_station_leaves_no_room_for_others(verb: str) -> None:
    assert case(verbs=(f"west.{verb}",)).alone
    assert not case(verbs=(f"west.{verb}",), stations=("east",)).alone


@pytest.mark.parametrize("verb", ["restart_lns", "kill_lns", "pause_lns", "wipe_producer"])
def test_what_stations_notice_of_a_server_leaves_no_room_for_others(verb: str) -> None:
    assert case(verbs=(verb,)).alone
    assert not case(verbs=(verb,)).takes_stations


def test_a_device_that_restarts_needs_no_station_for_itself() -> None:
    assert not case(verbs=("alpha.restart",)).alone


def test_a_device_that_only_lends_its_name_is_not_on_the_air() -> None:
    crafted = device("ghost", crafted=True)
    silent = type(crafted)(name="ghost", activation="abp", crafted=True)
    assert case(devices=(silent, device("alpha"))).on_air == (device("alpha"),)


def test_a_counter_matters_only_to_a_board() -> None:
    assert device(explicit_counter=True, next_f_cnt=10).wants_counter(1)
    silent = type(device())(name="x", activation="abp", explicit_counter=True, next_f_cnt=10)
    assert not silent.wants_counter(1)


@pytest.mark.parametrize(
    ("next_f_cnt", "first_f_cnt", "wants"),
    [(None, 0, False), (None, 1, False), (1, 1, False), (0, 1, True), (0, 0, False), (1, 0, True)],
)
def test_a_board_begins_anew_with_the_counter_of_its_stack(
    next_f_cnt: int | None, first_f_cnt: int, *, wants: bool
) -> None:
    fresh = device(explicit_counter=next_f_cnt is not None, next_f_cnt=next_f_cnt)
    assert fresh.wants_counter(first_f_cnt) is wants


def test_a_device_in_mid_life_is_one_that_was_heard_and_whose_counter_nobody_names() -> None:
    assert device(next_f_cnt=10).is_in_mid_life
    assert not device(next_f_cnt=None).is_in_mid_life
    assert not device(next_f_cnt=10, explicit_counter=True).is_in_mid_life


def test_the_airtime_of_a_case_is_that_of_devices_and_replayer() -> None:
    devices = (device(airtime_us=60_000), device("b", airtime_us=40_000))
    assert case(devices=devices, injected_airtime_us=5_000).airtime_us == 105_000


@pytest.mark.parametrize(
    ("facts", "own"),
    [
        ({}, False),
        ({"faults": ("link",)}, False),
        ({"faults": ("lns",)}, True),
        ({"faults": ("store",)}, True),
        ({"consumers": ("application",)}, True),
        ({"servers": ("lns-a", "lns-b")}, True),
    ],
)
def test_who_gets_network_servers_of_its_own(facts: dict[str, tuple[str, ...]], own: bool) -> None:
    assert case(**facts).own_servers is own


def test_retries_are_wanted_by_a_send_that_says_so() -> None:
    assert device("alpha", SEND, RETRY).wants_retries
    assert not device("alpha", RETRY, RETRY).wants_retries  # the network can tell it that
    assert device("alpha", RETRY).nb_trans == 1 + RETRY.retries
    assert device("alpha", SEND, RETRY).nb_trans == 1
