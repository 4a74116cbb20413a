"""What is missing for a case, in words; and no verb that nobody has thought about."""

import asyncio
import json
from dataclasses import replace

import pytest

from bench.device.dialects import DIALECTS, driver_for
from bench.device.rui3 import Rui3Device, rui3_version
from bench.device.serial_line import SerialLine
from bench.plan import (
    Item,
    PlannedDevice,
    board,
    from_json,
    lacking,
    needed_by,
    needs,
    usual_bench,
)
from bench.rig.hardware_rig import CAPABILITIES as HARDWARE
from bench.rig.interfaces import RigStation
from bench.rig.rig import Rig
from bench.rig.simulated_rig import CAPABILITIES as SIMULATED
from lns.lorawan.identifiers import Eui
from tests.bench.plan.cases import RETRY, SEND, case, device

BENCH = usual_bench()
DEV_EUI = Eui("70B3D57ED0000001")


class Asked:
    """Whoever has only some things."""

    capabilities = frozenset({Item.WIRES})

    def must_have(self, item: str) -> None:
        if item not in self.capabilities:
            raise RuntimeError(item)

    @needs(Item.WIRES)
    def pause(self) -> str:
        return "paused"

    @needs(Item.REPLAYER)
    async def replay(self) -> None:
        raise AssertionError("nobody comes here")


def test_a_verb_is_refused_where_there_is_not_what_it_takes() -> None:
    assert Asked().pause() == "paused"
    with pytest.raises(RuntimeError, match="a replayer"):
        asyncio.run(Asked().replay())


@pytest.mark.parametrize(
    ("kind", "verb", "item"),
    [
        (Rig, "replay", Item.REPLAYER),
        (Rig, "flood", Item.BURST),
        (Rig, "send", None),
        (Rig, "pause_lns", Item.WIRES),
        (RigStation, "fit_gps", Item.GPS),
        (RigStation, "cut", None),
    ],
)
def test_a_verb_says_what_it_takes(kind: type, verb: str, item: Item | None) -> None:
    assert needed_by(kind, verb) is item


def test_what_every_rig_can_do_is_asked_of_its_parts() -> None:
    asked = {needed_by(Rig, verb) for verb in dir(Rig)} - {None}
    assert asked <= SIMULATED | {Item.WIRES}


def test_the_usual_bench_lacks_nothing_for_a_usual_case() -> None:
    usual = case(
        devices=(device(airtime_us=50_000), device("bravo", RETRY)),
        verbs=("alpha.send", "expect", "only", "replay", "west.suppress_downlinks"),
    )
    assert lacking(usual, BENCH) == ()


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ({"region": "US915"}, "region US915"),
        ({"stations": ("west", "east", "north")}, "a third station"),
        ({"devices": tuple(device(name) for name in "abcd")}, "a fourth board"),
        ({"takes": (Item.TWIN,)}, "many radios on one EUI"),
        ({"takes": (Item.BURST,)}, "many radios at one moment"),
        ({"takes": (Item.GPS,)}, "a GPS receiver"),
        ({"takes": (Item.ANTENNA,)}, "a second antenna"),
        ({"verbs": ("west.weaken",)}, "an attenuator"),
        ({"takes": (Item.DUTY_CYCLE,)}, "a station that keeps its duty cycle"),
        ({"takes": (Item.APPLICATION,)}, "slow application"),
        ({"takes": (Item.WALL_CLOCK,)}, "wall clock"),
        ({"requires": ("virtual time", "wires")}, "virtual time"),
        ({"devices": (device(crafted=True),)}, "a device that gives up its counters"),
    ],
)
def test_what_is_missing_is_named(facts: dict[str, object], missing: str) -> None:
    assert lacking(case(**facts), BENCH) == (missing,)


def test_two_stations_that_hear_less_need_two_attenuators() -> None:
    weak = case(verbs=("east.weaken", "west.weaken"))
    assert lacking(weak, replace(BENCH, attenuators=1)) == ("an attenuator",)
    assert lacking(weak, replace(BENCH, attenuators=2)) == ()


def test_a_marker_and_a_verb_that_say_the_same_are_told_once() -> None:
    assert lacking(case(takes=(Item.APPLICATION,), requires=("slow application",)), BENCH) == (
        "slow application",
    )


def test_a_bench_without_a_replayer_lacks_it() -> None:
    assert lacking(case(takes=(Item.REPLAYER,)), replace(BENCH, replayers=0)) == ("a replayer",)


def test_a_device_that_only_lends_its_name_gives_up_its_counters() -> None:
    silent = PlannedDevice(name="a", activation="abp", crafted=True, explicit_counter=True)
    assert lacking(case(devices=(silent,)), replace(BENCH, boards=())) == ()


def test_boards_without_an_ability_are_named_by_it() -> None:
    rui3 = replace(BENCH, boards=(board("dut", "rui3"),))
    assert lacking(case(devices=(device("a", SEND, RETRY),)), rui3) == (
        "a board that repeats as often as it is told (LoRa-E5)",
    )
    assert lacking(case(devices=(device(explicit_counter=True, next_f_cnt=10),)), rui3) == (
        "a board that can set its counters (LoRa-E5)",
    )


@pytest.mark.parametrize("dialect", ["lora-e5", "seeeduino"])
def test_a_board_of_that_lineage_is_told_its_counters(dialect: str) -> None:
    bench = replace(BENCH, boards=(board("dut", dialect),))
    assert lacking(case(devices=(device(explicit_counter=True, next_f_cnt=10),)), bench) == ()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_planned_board_can_do_what_its_driver_says(dialect: str) -> None:
    driver = driver_for(dialect, "dut", DEV_EUI, SerialLine("x"), lambda *told: None)
    if isinstance(driver, Rui3Device):
        driver.version = rui3_version("RUI_5.0.0_RAK3172-H")
    assert board("dut", dialect).traits == driver.traits


def test_a_board_that_repeats_nothing_by_itself_is_told_to_by_the_network() -> None:
    rui3 = replace(BENCH, boards=(board("dut", "rui3"),))
    evenly = device("a", RETRY, RETRY, next_f_cnt=10)
    assert lacking(case(devices=(evenly,)), rui3) == ()
    assert lacking(case(devices=(replace(evenly, activation="otaa"),)), rui3) != ()


def test_one_device_that_needs_two_things_needs_one_board_that_can_do_both() -> None:
    both = device(expects_downlink=True, explicit_counter=True, next_f_cnt=10)
    assert lacking(case(devices=(both,)), BENCH) == (
        "a board that can do all of what one device needs",
    )


def test_two_devices_cannot_share_the_one_board_that_can() -> None:
    both = (device("a", SEND, RETRY), device("b", SEND, RETRY))
    assert len(lacking(case(devices=both), BENCH)) == 1


def test_radiated_stations_keep_their_duty_cycle() -> None:
    kept = case(verbs=("west.keep_duty_cycle",))
    assert lacking(kept, replace(BENCH, conducted=False)) == ()


def test_what_was_fitted_is_there() -> None:
    fitted = replace(BENCH, extras=frozenset({"a GPS receiver"}))
    assert lacking(case(verbs=("west.fit_gps",)), fitted) == ()


def test_a_plan_grants_what_the_rig_of_real_benches_has() -> None:
    assert BENCH.capabilities == HARDWARE


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
