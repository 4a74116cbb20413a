"""What breaks in a lab: a board, a gateway, the air; and the run after that, in the same lab.

As in `test_hardware.py`, boards and gateways are emulated ones in processes of their own.
"""

from collections.abc import Iterator

import pytest

from bench.capture.reading import Event
from tests.bench.run.lab import BOTH, JOINS, Lab, hardware_in, running_lab
from tests.bench.test_pytest_plugin import PASSES, Ran

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


HANDS = '''
import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from bench.virtual.lab.lab_folder import ask


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
def broken(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Each case is played once."""
    return hardware_in(tmp_path_factory.mktemp("broken"), lab, BROKEN, rf_attempts_max=1)


@pytest.fixture(scope="module")
def next_night(lab: Lab, broken: Ran, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run behind the broken one, with a board that answers nothing but has a switch."""
    lab.work("mute", "spare")
    folder = tmp_path_factory.mktemp("next")
    return hardware_in(folder, lab, PASSES + BOTH + JOINS, board_patience_s=2)


def ends_of(ran: Ran, case: str) -> list[Event]:
    """How each attempt at a case ended."""
    return [end for end in ran.ends if end["case"].partition(" (")[0] == f"here/{case}"]


def test_a_pulled_board_is_an_error_of_the_device(broken: Ran) -> None:
    [*_, end] = ends_of(broken, "pulled")
    assert (end["verdict"], end["owner"]) == ("ERROR", "device"), broken.output
    assert "unplugged" in end["reasons"][0]


def test_a_gateway_that_was_killed_makes_no_network_server_fail(broken: Ran) -> None:
    [*_, end] = ends_of(broken, "killed")
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
    [*_, end] = ends_of(broken, "restarts")
    assert end["verdict"] in ("PASS", "INCONCLUSIVE", "ERROR"), broken.output


def test_the_run_after_a_broken_one_works(next_night: Ran) -> None:
    """Boards were unplugged, deaf and rebooted, a gateway was killed, and a board is mute now."""
    assert next_night.verdicts["here/passes"] == "PASS", next_night.output
    assert next_night.passed, next_night.output


def test_a_board_joins_again_and_again_in_one_run_after_the_other(
    broken: Ran, next_night: Ran
) -> None:
    """Every run has a store of its own, the boards remember DevNonce and JoinNonce."""
    joined = [e for e in broken.events if "+EVT:JOINED" in str(e.get("text"))]
    assert joined, broken.output
    assert next_night.verdicts["here/joins"] == "PASS", next_night.output
    devices = [e for e in next_night.events if e["kind"] == "case.device" and "join_eui" in e]
    versions = {device["lorawan"] for device in devices}
    assert "1.0.3" in versions, "one of the boards draws its DevNonces"
