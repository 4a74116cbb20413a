"""The hardware rig as a lab uses it: boards and gateways that are not of this process.

The boards and the gateways here are emulated ones; what drives them knows nothing of that.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
from bench.expectation import Table


def lab(verb, name):
    words = [sys.executable, "-m", "bench.emulation.control", os.environ["LAB"], verb, name]
    subprocess.run(words, check=True)


TWO = Table("""
    strategy kind | first                          | copy
    None     *    | NonDuplicate forwarded NotAsked | SoftDuplicate forwarded NotAsked
""")

'''


JOIN = '''
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


FIRST = Table("""
    strategy kind      | first
    None     join      | NonDuplicate dropped RX1
    None     confirmed | NonDuplicate forwarded RX1
""")

'''


def test_a_scenario_passes_on_boards_and_gateways(tmp_path: Path, lab: Lab) -> None:
    ran = hardware_in(tmp_path, lab, PASSES)
    assert ran.code == 0, ran.output
    kinds = {event["kind"] for event in ran.events}
    assert {"device.command", "device.line", "radio.transmit", "station.text"} <= kinds
    assert {"lns.outcome", "upstream.published"} <= kinds
    [run] = ran.runs
    assert json.loads((run / "manifest.json").read_text())["inventory"] == {
        "devices": "dut, spare, e5",
        "stations": "west, east",
    }


def test_nothing_of_another_rig_is_in_the_process(tmp_path: Path, lab: Lab) -> None:
    """The test beside the scenario fails in the dry run, which is a process of its own."""
    scenarios = (
        PASSES
        + '''

def test_modules():
    """Only what drives real things is there."""
    import sys

    strangers = ("simulated", "virtual", "emulated", "bench.emulation", "device.firmware")
    found = sorted(name for name in sys.modules if any(word in name for word in strangers))
    assert not [name for name in found if name.startswith("bench.")], found
'''
    )
    ran = hardware_in(tmp_path, lab, scenarios)
    assert (ran.code, ran.verdicts) == (0, {"here/passes": "PASS"}), ran.output
    assert "2 passed" in ran.output


def test_a_station_is_muted_at_the_tap_and_its_copy_is_on_record(tmp_path: Path, lab: Lab) -> None:
    scenarios = (
        BOTH
        + '''
async def test_one_then_both(rig):
    """The first frame only for west, the second for both."""
    rig.heard_by("west", ("west", "east"))
    rig.east.delay_uplinks(300_000)
    first, second = await rig.alpha.send(), await rig.alpha.send()
    rig.expect(first, TWO.only("first"), first="west")
    rig.expect(second, TWO, first="west", copy="east")
'''
    )
    ran = hardware_in(tmp_path, lab, scenarios)
    assert ran.verdicts == {"here/one_then_both": "PASS"}, ran.output
    told = [e for e in ran.events if e["kind"] == "station.text" and '"updf"' in e["text"]]
    assert sum("dropped" in event for event in told) == 1


def test_a_replay_comes_from_a_second_radio(tmp_path: Path, lab: Lab) -> None:
    scenarios = (
        BOTH
        + '''
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
'''
    )
    ran = hardware_in(tmp_path, lab, scenarios)
    said = [e["text"] for e in ran.events if e["kind"] == "replayer.command"]
    assert ran.verdicts == {"here/again": "PASS"}, ran.output
    assert any(text.startswith("AT+PSEND=") for text in said)


def test_a_pulled_board_is_an_error_of_the_device_and_the_next_run_works(
    tmp_path: Path, lab: Lab
) -> None:
    scenarios = (
        BOTH
        + '''
async def test_pulled(rig):
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
    ran = hardware_in(tmp_path, lab, scenarios)
    assert ran.verdicts == {"here/pulled": "ERROR"}, ran.output
    [end] = [event for event in ran.events if event["kind"] == "case.end"]
    assert end["owner"] == "device" and "unplugged" in end["reasons"][0]
    assert hardware_in(tmp_path, lab, PASSES).code == 0


def test_a_board_that_answers_nothing_is_switched_off_and_on(tmp_path: Path, lab: Lab) -> None:
    lab.work("mute", "spare")
    ran = hardware_in(tmp_path, lab, PASSES)
    assert ran.code == 0, ran.output


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


def test_a_board_that_restarts_by_itself_proves_nothing_or_passes(tmp_path: Path, lab: Lab) -> None:
    scenarios = (
        BOTH
        + '''
async def test_restarts(rig):
    """All boards begin anew, nobody asked them to."""
    first = await rig.alpha.send()
    for name in ("dut", "spare", "e5"):
        lab("reboot", name)
    second = await rig.alpha.send()
    rig.only("west")
    third = await rig.alpha.send()
    rig.expect(third, TWO.only("first"), first="west")
'''
    )
    ran = hardware_in(tmp_path, lab, scenarios)
    ends = [event for event in ran.events if event["kind"] == "case.end"]
    assert ends[-1]["verdict"] in ("PASS", "INCONCLUSIVE", "ERROR"), ran.output
    assert all(event["verdict"] != "FAIL" for event in ends)
    assert hardware_in(tmp_path, lab, PASSES).code == 0


def test_a_board_joins_again_and_again_in_one_run_after_the_other(tmp_path: Path, lab: Lab) -> None:
    """Every run has a store of its own, the boards remember DevNonce and JoinNonce."""
    scenarios = (
        BOTH
        + JOIN
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
    for night in ("first", "second"):
        (tmp_path / night).mkdir()
        ran = hardware_in(tmp_path / night, lab, scenarios)
        assert ran.verdicts == {"here/joins": "PASS"}, ran.output
    told = {e["lorawan"] for e in ran.events if e["kind"] == "case.device" and "join_eui" in e}
    assert "1.0.3" in told, "one of the boards draws its DevNonces"


def test_a_fresh_board_begins_with_the_counter_of_its_stack(tmp_path: Path, lab: Lab) -> None:
    scenarios = (
        BOTH
        + '''
async def test_fresh(rig):
    """LoRaMac counts before it uses the counter."""
    rig.only("west")
    device = rig.provision("fresh", f_cnt=1)
    sent = await device.send()
    assert sent.f_cnt == 1
    rig.expect(sent, TWO.only("first"), first="west")
'''
    )
    ran = hardware_in(tmp_path, lab, scenarios)
    assert ran.verdicts == {"here/fresh": "PASS"}, ran.output


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("join()", "did not hear the join accept that a gateway has sent"),
        ("send(confirmed=True)", "did not hear the acknowledgement that a gateway has sent"),
    ],
    ids=["join accept", "acknowledgement"],
)
def test_an_answer_that_was_lost_on_the_air_proves_nothing(
    tmp_path: Path, lab: Lab, act: str, said: str
) -> None:
    once = tmp_path / "once.toml"
    once.write_text(lab.inventory.read_text() + "\n[limits]\nrf_attempts_max = 1\n")
    scenarios = (
        BOTH
        + JOIN
        + f'''
async def test_unheard(rig):
    """The boards are put into a box when the gateway has heard them."""
    rig.only("west")
    await rig.bravo.join()
    asked = sends(rig)
    acting = asyncio.ensure_future(rig.bravo.{act})
    while sends(rig) == asked and not acting.done():
        await asyncio.sleep(0.01)
    try:
        boards("deaf")
        frame = await acting
    finally:
        boards("hearing")
    rig.expect(frame, FIRST, first="west")
    rig.expect_reply(frame)
'''
    )
    words = ("--rig", "hardware", "--bench", str(once))
    ran = pytest_in(tmp_path, scenarios, *words, LAB=str(lab.folder))
    [end] = [event for event in ran.events if event["kind"] == "case.end"]
    assert (end["verdict"], end["owner"]) == ("INCONCLUSIVE", "air"), ran.output
    assert said in end["reasons"][0]


def test_a_deaf_gateway_makes_no_network_server_fail(tmp_path: Path, lab: Lab) -> None:
    """The stimulus is made as often as the inventory allows, and proves nothing."""
    scenarios = (
        BOTH
        + '''
async def test_deaf(rig):
    """East hears nothing, and was to hear all."""
    lab("deaf", "east")
    try:
        frame = await rig.alpha.send()
    finally:
        lab("hearing", "east")
    rig.expect(frame, TWO, first="west", copy="east")
'''
    )
    ran = hardware_in(tmp_path, lab, scenarios)
    ends = [event for event in ran.events if event["kind"] == "case.end"]
    assert [end["verdict"] for end in ends] == ["INCONCLUSIVE"] * 3, ran.output
    assert [end["attempt"] for end in ends] == [1, 2, 3]
    assert "east was to hear" in ends[0]["reasons"][0]


def test_a_gateway_that_was_killed_makes_no_network_server_fail_and_the_next_run_works(
    tmp_path: Path, lab: Lab
) -> None:
    once = tmp_path / "once.toml"
    once.write_text(lab.inventory.read_text() + "\n[limits]\nrf_attempts_max = 1\n")
    scenarios = (
        BOTH
        + '''
async def test_killed(rig):
    """East dies, and was to hear all."""
    await rig.alpha.send()
    lab("kill-station", "east")
    try:
        frame = await rig.alpha.send()
    finally:
        lab("start-station", "east")
    rig.expect(frame, TWO, first="west", copy="east")
'''
    )
    words = ("--rig", "hardware", "--bench", str(once))
    ran = pytest_in(tmp_path, scenarios, *words, LAB=str(lab.folder))
    [end] = [event for event in ran.events if event["kind"] == "case.end"]
    assert (end["verdict"], end["owner"]) == ("INCONCLUSIVE", "air"), ran.output
    assert hardware_in(tmp_path, lab, PASSES).code == 0


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


def test_what_the_bench_has_not_is_left_out_and_named(tmp_path: Path, lab: Lab) -> None:
    scenarios = (
        PASSES
        + '''

async def test_three(rig):
    """It takes a third station."""
    rig.heard_by(("west", "east", "north"))
    rig.north.delay_uplinks(100_000)
    await rig.alpha.send()
'''
    )
    ran = hardware_in(tmp_path, lab, scenarios)
    assert ran.code == 0, ran.output
    [left_out] = [event for event in ran.events if event["kind"] == "case.left_out"]
    assert (left_out["case"], left_out["missing"]) == ("here/three", ["a third station"])
