"""The hardware rig as a lab uses it: boards and gateways that are not of this process.

The boards and the gateways here are emulated ones; what drives them knows nothing of that. A run
costs its servers, its boards and their boots, so what goes well shares one; what breaks a board, a
gateway or the air is played in a lab of its own (`test_hardware_broken.py`).
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.lab.inventory import BenchLock, load
from bench.night.memory import sick_parts
from tests.bench.night.written_nights import write_night
from tests.bench.run.lab import BOTH, JOINS, Lab, hardware_in, running_lab
from tests.bench.test_pytest_plugin import PASSES, Ran, pytest_in

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


GOOD = (
    PASSES
    + BOTH
    + JOINS
    + '''
def test_modules():
    """Only what drives real things is there."""
    import sys

    # What LoRaWAN says may be there, nothing that plays a board, a station or the air.
    strangers = ("simulated", "emulated", "virtual_", "virtual.board", "station.transmitter",
                 "virtual.mac", "virtual.rui3", "virtual.lora_e5", "virtual.lab")
    found = sorted(name for name in sys.modules if any(word in name for word in strangers))
    assert not [name for name in found if name.startswith("bench.")], found


async def test_one_then_both(rig):
    """The first frame only for west, the second for both."""
    rig.heard_by("west", ("west", "east"))
    rig.east.delay_uplinks(300_000)
    first, second = await rig.alpha.send(), await rig.alpha.send()
    rig.expect(first, TWO.only("first"), first="west")
    rig.expect(second, TWO, first="west", copy="east")


async def test_asked(rig):
    """What an application asks for first is for the DevEUI that the board has."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"hi", port=7)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_downlink(rig.alpha, b"hi", port=7)


async def test_again(rig):
    """A captured frame is sent again."""
    rig.only("west")
    first = await rig.alpha.send()
    await rig.alpha.send()
    await rig.replay(first, by="west")
    rig.expect(first, TWO.only("first"), first="west")
    rig.expect(first, Table("""
        strategy kind | again
        None     *    | DuplicateDueToResubmission dropped(InvalidFrameCounter) NotAsked
    """), again="west")


async def test_fresh(rig):
    """LoRaMac counts before it uses the counter."""
    rig.only("west")
    device = rig.provision("fresh", f_cnt=1)
    sent = await device.send()
    assert sent.f_cnt == 1
    rig.expect(sent, TWO.only("first"), first="west")


async def test_three(rig):
    """It takes a third station."""
    rig.heard_by(("west", "east", "north"))
    rig.north.delay_uplinks(100_000)
    await rig.alpha.send()


async def test_deaf(rig, alone):
    """East hears nothing, and was to hear all."""
    lab("deaf", "east")
    try:
        frame = await rig.alpha.send()
    finally:
        lab("hearing", "east")
    rig.expect(frame, TWO, first="west", copy="east")
'''
)


@pytest.fixture(scope="module")
def good(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What goes well, and a gateway that hears nothing."""
    return hardware_in(tmp_path_factory.mktemp("good"), lab, GOOD)


def test_a_scenario_passes_on_boards_and_gateways(good: Ran) -> None:
    assert good.verdicts["here/passes"] == "PASS", good.output
    kinds = {event["kind"] for event in good.events}
    assert {"device.command", "device.line", "radio.transmit", "station.text"} <= kinds
    assert {"lns.outcome", "upstream.published"} <= kinds
    [run] = good.runs
    inventory = json.loads((run / "manifest.json").read_text())["inventory"]
    assert inventory["inconclusive_share_max"] == 0.05
    assert inventory["devices"] == "dut, spare, e5"
    assert inventory["stations"] == "west, east"


def test_an_application_may_ask_before_anything_is_sent(good: Ran) -> None:
    assert good.verdicts["here/asked"] == "PASS", good.output


def test_nobody_is_blamed_for_what_an_application_asks_of_another_case(good: Ran) -> None:
    """Each case has a server of its own, all have one id, and hear what is asked of that."""
    heard = [event for event in good.events if event.get("reason") == "UnknownDevice"]
    assert heard and not [event for event in heard if "case" in event]
    assert "FAIL" not in good.verdicts.values(), good.output


def test_nothing_of_another_rig_is_in_the_process(good: Ran) -> None:
    """The test beside the scenarios fails in the dry run, which is a process of its own."""
    passed = re.search(r"(\d+) passed", good.output)
    assert passed is not None and int(passed[1]) == 1 + sum(
        verdict == "PASS" for verdict in good.verdicts.values()
    ), good.output


def test_a_station_is_muted_at_the_tap_and_its_copy_is_on_record(good: Ran) -> None:
    assert good.verdicts["here/one_then_both"] == "PASS", good.output
    events = good.of("one_then_both")
    heard = [e for e in events if e["kind"] == "station.text" and '"updf"' in e["text"]]
    assert sum("dropped" in event for event in heard) == 1


def test_a_replay_comes_from_a_second_radio(good: Ran) -> None:
    said = [e["text"] for e in good.events if e["kind"] == "replayer.command"]
    assert good.verdicts["here/again"] == "PASS", good.output
    assert any(text.startswith("AT+PSEND=") for text in said)


def test_a_fresh_board_begins_with_the_counter_of_its_stack(good: Ran) -> None:
    assert good.verdicts["here/fresh"] == "PASS", good.output


def test_a_deaf_gateway_makes_no_network_server_fail(good: Ran) -> None:
    """The stimulus is made as often as the inventory allows, and proves nothing."""
    ends = [end for end in good.ends if end["case"].startswith("here/deaf")]
    assert [end["verdict"] for end in ends] == ["INCONCLUSIVE"] * 3, good.output
    assert [end["attempt"] for end in ends] == [1, 2, 3]
    assert "east was to hear" in ends[0]["reasons"][0]


def test_what_the_bench_has_not_is_left_out_and_named(good: Ran) -> None:
    [left_out] = [event for event in good.events if event["kind"] == "case.left_out"]
    assert (left_out["case"], left_out["missing"]) == ("here/three", ["a third station"])


def test_a_board_that_answers_nothing_and_has_no_switch_is_told_before_anything_is_played(
    tmp_path: Path, lab: Lab
) -> None:
    lines = lab.inventory.read_text().splitlines(keepends=True)
    without = tmp_path / "without.toml"
    kept = [line for line in lines if not line.startswith("power = ")]
    without.write_text("".join([*kept, "\n[limits]\nboard_patience_s = 2\n"]))
    lab.work("mute", "spare")
    try:
        ran = pytest_in(tmp_path, PASSES, "--rig", "hardware", "--bench", str(without))
    finally:
        lab.work("unmute", "spare")
    assert ran.code == 12
    assert "the bench is not complete" in ran.output and "spare: " in ran.output


def test_a_bench_that_is_taken_says_who_has_it(tmp_path: Path, lab: Lab) -> None:
    with BenchLock(load(lab.inventory)):
        ran = pytest_in(tmp_path, PASSES, "--rig", "hardware", "--bench", str(lab.inventory))
    assert ran.code == 12
    assert "is taken" in ran.output and "Traceback" not in ran.output


def test_an_inventory_with_mistakes_is_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text('rig = "hardware"\n[bench]\nname = "x"\nregion = "EU869"\n')
    done = subprocess.run(
        [sys.executable, "-m", "bench", "run", "--bench", str(file)],
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 4
    assert "region" in done.stderr and "Traceback" not in done.stderr


THREE_BOARDS = (
    PASSES
    + '''
async def test_three_boards(rig):
    """Each of three devices sends."""
    for device in [rig.provision(name, f_cnt=1) for name in ("first", "second", "third")]:
        await device.send()
'''
)


def test_a_board_that_is_left_out_takes_the_cases_that_need_it_with_it(
    lab: Lab, tmp_path: Path
) -> None:
    words = ("--rig", "hardware", "--bench", str(lab.inventory), "-k", "three_boards")
    ran = pytest_in(tmp_path, THREE_BOARDS, *words, "--without", "spare=sick since Monday")
    assert "a third board" in ran.output and "spare (left out: sick since Monday)" in ran.output


def test_the_doctor_lets_a_part_in_again_that_it_has_heard(lab: Lab, tmp_path: Path) -> None:
    """Three nights have called a board sick; it sends, every gateway hears it."""
    [dut, *_] = load(lab.inventory).devices
    for number in range(3):
        write_night(
            tmp_path, number, {"group/case": "PASS"}, rig="hardware",
            bench=load(lab.inventory).name, lab={("device", dut.dev_eui): (60, 120)},
        )  # fmt: skip
    words = ["doctor", "--bench", str(lab.inventory), "--runs", str(tmp_path), "--json"]
    assert set(sick_parts(tmp_path, load(lab.inventory))) == {"dut"}
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words], capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)["bench"]
    assert found["trouble"] == "" and {"dut", "spare", "e5", "west", "east"} == set(found["well"])
    assert found["left_out"] == {} == sick_parts(tmp_path, load(lab.inventory))
