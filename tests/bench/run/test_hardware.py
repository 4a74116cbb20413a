"""The hardware rig as a lab uses it: boards and gateways that are not of this process.

The boards and the gateways here are emulated ones; what drives them knows nothing of that. A run
costs its servers, its boards and their boots, so scenarios of one kind share one: `good` plays what
goes well, `broken` what breaks a board, a gateway or the air, `next_night` is the run after both.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.capture.reading import Event
from bench.inventory import load
from bench.inventory.lock import BenchLock
from tests.bench.run.lab import Lab, running_lab
from tests.bench.test_pytest_plugin import PASSES, Ran, pytest_in

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


def hardware_in(folder: Path, lab: Lab, scenarios: str, *arguments: str) -> Ran:
    rig = ("--rig", "hardware", "--bench", str(lab.inventory))
    return pytest_in(folder, scenarios, *rig, *arguments, LAB=str(lab.folder))


BOTH = '''
import os, subprocess, sys
import pytest
from bench.expectation import Table


@pytest.fixture
def alone():
    """Who asks for more than the rig is played when it is asked for, not beside others."""


def lab(verb, name):
    words = [sys.executable, "-m", "bench.emulation.control", os.environ["LAB"], verb, name]
    subprocess.run(words, check=True)


FIRST = Table("""
    strategy kind      | first
    None     join      | NonDuplicate dropped RX1
    None     confirmed | NonDuplicate forwarded RX1
""")


TWO = Table("""
    strategy kind | first                          | copy
    None     *    | NonDuplicate forwarded NotAsked | SoftDuplicate forwarded NotAsked
""")

'''


HANDS = '''
import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from bench.emulation.control import ask


def sends(rig):
    sent = ("radio.transmit", "up")
    return sum((e["kind"], e.get("direction")) == sent for e in rig.case.events)


def boards(verb):
    """In a moment, not only in that which a process takes to begin."""
    async def every():
        for board in ("dut", "spare", "e5"):
            await ask(Path(os.environ["LAB"]), verb, board)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, every()).result()

'''


GOOD = (
    PASSES
    + BOTH
    + '''
def test_modules():
    """Only what drives real things is there."""
    import sys

    strangers = ("simulated", "virtual", "emulated", "bench.emulation", "device.firmware")
    found = sorted(name for name in sys.modules if any(word in name for word in strangers))
    assert not [name for name in found if name.startswith("bench.")], found


async def test_one_then_both(rig):
    """The first frame only for west, the second for both."""
    rig.heard_by("west", ("west", "east"))
    rig.east.delay_uplinks(300_000)
    first, second = await rig.alpha.send(), await rig.alpha.send()
    rig.expect(first, TWO.only("first"), first="west")
    rig.expect(second, TWO, first="west", copy="east")


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


async def test_joins(rig):
    """The boards draw or count their DevNonces, and check the JoinNonce or do not."""
    rig.only("west")
    for device in (rig.bravo, rig.provision("second", activation="otaa")):
        join = await device.join()
        rig.expect(join, FIRST, first="west")
        rig.expect_reply(join, "+EVT:JOINED")


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

BROKEN = (
    BOTH
    + HANDS
    + '''

async def test_killed(rig, alone):
    """East dies, and was to hear all."""
    await rig.alpha.send()
    lab("kill-station", "east")
    try:
        frame = await rig.alpha.send()
    finally:
        lab("start-station", "east")
    rig.expect(frame, TWO, first="west", copy="east")


@pytest.mark.parametrize("act", ["join", "send"])
async def test_unheard(rig, alone, act):
    """The boards are put into a box when the gateway has heard them."""
    rig.only("west")
    await rig.bravo.join()
    asked = sends(rig)
    acts = {"join": rig.bravo.join, "send": lambda: rig.bravo.send(confirmed=True)}
    acting = asyncio.ensure_future(acts[act]())
    while sends(rig) == asked and not acting.done():
        await asyncio.sleep(0.01)
    try:
        boards("deaf")
        frame = await acting
    finally:
        boards("hearing")
    rig.expect(frame, FIRST, first="west")
    rig.expect_reply(frame)


async def test_restarts(rig, alone):
    """All boards begin anew, nobody asked them to."""
    first = await rig.alpha.send()
    for name in ("dut", "spare", "e5"):
        lab("reboot", name)
    second = await rig.alpha.send()
    rig.only("west")
    third = await rig.alpha.send()
    rig.expect(third, TWO.only("first"), first="west")


async def test_pulled(rig, alone):
    """Somebody pulls the boards out in the middle."""
    await rig.alpha.send()
    for name in ("dut", "spare", "e5"):
        lab("unplug", name)
    try:
        await rig.alpha.send()
    finally:
        for name in ("dut", "spare", "e5"):
            lab("plug", name)
'''
)


@pytest.fixture(scope="module")
def good(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What goes well, and a gateway that hears nothing."""
    return hardware_in(tmp_path_factory.mktemp("good"), lab, GOOD)


@pytest.fixture(scope="module")
def broken(lab: Lab, good: Ran, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What breaks, each case played once."""
    folder = tmp_path_factory.mktemp("broken")
    once = folder / "once.toml"
    once.write_text(lab.inventory.read_text() + "\n[limits]\nrf_attempts_max = 1\n")
    words = ("--rig", "hardware", "--bench", str(once))
    return pytest_in(folder, BROKEN, *words, LAB=str(lab.folder))


@pytest.fixture(scope="module")
def next_night(lab: Lab, broken: Ran, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run behind the broken one, with a board that answers nothing but has a switch."""
    lab.work("mute", "spare")
    scenarios = (
        PASSES
        + BOTH
        + '''
async def test_joins(rig):
    """The boards draw or count their DevNonces, and check the JoinNonce or do not."""
    rig.only("west")
    for device in (rig.bravo, rig.provision("second", activation="otaa")):
        join = await device.join()
        rig.expect(join, FIRST, first="west")
        rig.expect_reply(join, "+EVT:JOINED")
'''
    )
    return hardware_in(tmp_path_factory.mktemp("next"), lab, scenarios)


def ends_of(ran: Ran, case: str) -> list[Event]:
    """How each attempt at a case ended."""
    return [end for end in ran.ends if end["case"].partition(" (")[0] == f"here/{case}"]


def of_case(ran: Ran, case: str) -> list[Event]:
    return [event for event in ran.events if event.get("case") == f"here/{case}"]


def test_a_scenario_passes_on_boards_and_gateways(good: Ran) -> None:
    assert good.verdicts["here/passes"] == "PASS", good.output
    kinds = {event["kind"] for event in good.events}
    assert {"device.command", "device.line", "radio.transmit", "station.text"} <= kinds
    assert {"lns.outcome", "upstream.published"} <= kinds
    [run] = good.runs
    assert json.loads((run / "manifest.json").read_text())["inventory"] == {
        "devices": "dut, spare, e5",
        "stations": "west, east",
    }


def test_nothing_of_another_rig_is_in_the_process(good: Ran) -> None:
    """The test beside the scenarios fails in the dry run, which is a process of its own."""
    passed = re.search(r"(\d+) passed", good.output)
    assert passed is not None and int(passed[1]) == 1 + sum(
        verdict == "PASS" for verdict in good.verdicts.values()
    ), good.output


def test_a_station_is_muted_at_the_tap_and_its_copy_is_on_record(good: Ran) -> None:
    assert good.verdicts["here/one_then_both"] == "PASS", good.output
    events = of_case(good, "one_then_both")
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
    ends = ends_of(good, "deaf")
    assert [end["verdict"] for end in ends] == ["INCONCLUSIVE"] * 3, good.output
    assert [end["attempt"] for end in ends] == [1, 2, 3]
    assert "east was to hear" in ends[0]["reasons"][0]


def test_what_the_bench_has_not_is_left_out_and_named(good: Ran) -> None:
    [left_out] = [event for event in good.events if event["kind"] == "case.left_out"]
    assert (left_out["case"], left_out["missing"]) == ("here/three", ["a third station"])


def test_a_pulled_board_is_an_error_of_the_device(broken: Ran) -> None:
    [end] = ends_of(broken, "pulled")
    assert (end["verdict"], end["owner"]) == ("ERROR", "device"), broken.output
    assert "unplugged" in end["reasons"][0]


def test_a_gateway_that_was_killed_makes_no_network_server_fail(broken: Ran) -> None:
    [end] = ends_of(broken, "killed")
    assert (end["verdict"], end["owner"]) == ("INCONCLUSIVE", "air"), broken.output


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("join", "did not hear the join accept that a gateway has sent"),
        ("send", "did not hear the acknowledgement that a gateway has sent"),
    ],
    ids=["join accept", "acknowledgement"],
)
def test_an_answer_that_was_lost_on_the_air_proves_nothing(
    broken: Ran, act: str, said: str
) -> None:
    [end] = ends_of(broken, f"unheard[{act}]")
    assert (end["verdict"], end["owner"]) == ("INCONCLUSIVE", "air"), broken.output
    assert said in end["reasons"][0]


def test_a_board_that_restarts_by_itself_proves_nothing_or_passes(broken: Ran) -> None:
    [end] = ends_of(broken, "restarts")
    assert end["verdict"] in ("PASS", "INCONCLUSIVE", "ERROR"), broken.output


def test_the_run_after_a_broken_one_works(next_night: Ran) -> None:
    """Boards were unplugged, deaf and rebooted, a gateway was killed, and a board is mute now."""
    assert next_night.verdicts["here/passes"] == "PASS", next_night.output
    assert next_night.code in (0, 10), next_night.output


def test_a_board_joins_again_and_again_in_one_run_after_the_other(
    good: Ran, next_night: Ran
) -> None:
    """Every run has a store of its own, the boards remember DevNonce and JoinNonce."""
    for ran in (good, next_night):
        assert ran.verdicts["here/joins"] == "PASS", ran.output
    devices = [e for e in next_night.events if e["kind"] == "case.device" and "join_eui" in e]
    versions = {device["lorawan"] for device in devices}
    assert "1.0.3" in versions, "one of the boards draws its DevNonces"


def test_a_board_that_answers_nothing_and_has_no_switch_is_told_before_anything_is_played(
    tmp_path: Path, lab: Lab
) -> None:
    lines = lab.inventory.read_text().splitlines(keepends=True)
    without = tmp_path / "without.toml"
    without.write_text("".join(line for line in lines if not line.startswith("power = ")))
    lab.work("mute", "spare")
    try:
        ran = pytest_in(tmp_path, PASSES, "--rig", "hardware", "--bench", str(without))
    finally:
        lab.work("unmute", "spare")
    assert ran.code == 12
    assert "the bench is not complete" in ran.output and "spare: " in ran.output


def test_a_bench_that_is_taken_says_who_has_it(tmp_path: Path, lab: Lab) -> None:
    with BenchLock(load(lab.inventory)):
        ran = hardware_in(tmp_path, lab, PASSES)
    assert ran.code == 12
    assert "is taken" in ran.output and "Traceback" not in ran.output


def test_an_inventory_with_mistakes_is_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text('rig = "hardware"\n[bench]\nname = "x"\nregion = "EU869"\n')
    done = subprocess.run(
        [sys.executable, "-m", "bench", "run", "--bench", str(file)],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 4
    assert "region" in done.stderr and "Traceback" not in done.stderr
