"""Scenarios that somebody wrote in a folder of their own: found, played, and told what is wrong."""

import importlib.metadata
import sys
from pathlib import Path

import pytest

from bench.pytest_plugin import RIGS, STRATEGIES
from bench.run import pytest_session
from bench.verdict.owner import ScenarioMistake, not_there, place_in
from lns.dedup.strategy import Strategy
from tests.bench.test_pytest_plugin import Ran, run_in

OWN = '''
from bench.scenario import Rig, Table

NEW = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate forwarded RX1
    *        unconfirmed | NonDuplicate forwarded NotAsked
    *        join        | NonDuplicate dropped RX1
""")


async def test_a_meter_with_keys_of_its_own(rig: Rig) -> None:
    """A device that exists joins through a station that exists."""
    meter = rig.provision(
        "meter",
        activation="otaa",
        dev_eui="0004A30B001C0530",
        join_eui="0004A30B001C0001",
        app_key="00112233445566778899AABBCCDDEEFF",
    )
    rig.station("roof")
    rig.only("roof")
    rig.expect(await meter.join(), NEW, first="roof")
    uplink = await meter.send(b"on", confirmed=True)
    rig.expect(uplink, NEW, first="roof")
    rig.expect_reply(uplink)
'''
MISTAKES = '''
from bench.scenario import Rig, Table

ONLY_CONFIRMED = Table("""
    strategy kind      | first                      | second
    *        confirmed | NonDuplicate forwarded RX1 | Duplicate dropped(Duplicate) Suppressed
""")


async def test_0(rig):
    await rig.device("alpa").send()


async def test_1(rig):
    rig.only("est"); await rig.alpha.send()


async def test_2(rig):
    await rig.alpa.send()


async def test_3(rig):
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, ONLY_CONFIRMED, first="west")


async def test_4(rig):
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, ONLY_CONFIRMED, first="west", secnd="east")


async def test_5(rig):
    uplink = await rig.alpha.send()
    rig.expect(uplink, ONLY_CONFIRMED, first="west", second="east")


async def test_6(rig):
    uplink = await rig.alpha.send()
    await rig.replay(uplink, by="wset")


async def test_7(rig):
    rig.provision("mine", colour="red")


async def test_8(rig):
    rig.provision("mine", activation="otaa", app_key="0011")


async def test_9(rig):
    rig.provision("mine", dev_eui="not one")


async def test_10(rig):
    await rig.start_consumer("nobody")


async def test_11(rig):
    def in_a_function():
        raise KeyError("mine")

    in_a_function()


async def test_12(rig):
    await rig.wait(1.5)


async def test_13(rig):
    rig.provision("mine", strategy="drop")


async def test_14(rig):
    await rig.post_request(rig.alpha, "{")


async def test_15(rig):
    await rig.queue_downlink(rig.alpha, payload=b"on", port=300)


async def test_16(rig):
    await rig.say(b"{}", by="west")
'''
TOLD = {
    0: (11, "no device 'alpa'; known: alpha, bravo, charlie; did you mean 'alpha'?"),
    1: (15, "no station 'est'; known: west, east; did you mean 'west' or 'east'?"),
    2: (19, "rig.alpa is no verb, device or station; did you mean rig.alpha?"),
    3: (24, "role 'second' is bound to no station: add second=\"west\""),
    4: (29, "no role 'secnd'; known: first, second; did you mean 'second'?"),
    5: (34, "the table has no row for None unconfirmed; it has Drop confirmed, Mark confirmed,"),
    6: (39, "no station 'wset'; known: west, east; did you mean 'west'?"),
    7: (43, "no fact of a device 'colour'; known: activation, adr, app_key,"),
    8: (47, "device 'mine': an app_key has 32 hex digits"),
    9: (51, "device 'mine': not an EUI: 'not one'"),
    10: (55, "no consumer 'nobody'; known: none"),
    11: (60, "KeyError: 'mine'"),
    12: (66, "TypeError: a time is whole microseconds, not 1.5: say seconds(1.5)"),
    13: (70, "device 'mine': strategy: Input should be 'Drop', 'Mark' or 'None'"),
    14: (74, "an application asks in bytes: b'{'"),
    15: (78, "an application has port 1 to 223, not 300; what no server can read is for"),
    16: (82, "a station says text, not b'{}'"),
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "mine").mkdir()
    (folder / "mine" / "test_meter.py").write_text(OWN)
    (folder / "mine" / "test_plain.py").write_text("def test_plain():\n    pass\n")
    (folder / "test_mistakes.py").write_text(MISTAKES)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def _pytest(folder: Path, *words: str, workers: bool = False) -> Ran:
    plugins = ["-p", "lorabench", *(["-p", "xdist", "-n2"] if workers else [])]
    command = [sys.executable, "-m", "pytest", *plugins, "--capture-dir", "else/where", *words]
    return run_in(folder, command)


def test_pytest_knows_the_plugin_by_name() -> None:
    [found] = importlib.metadata.entry_points(group="pytest11", name="lorabench")
    assert found.value == "bench.pytest_plugin"


def test_the_words_that_are_there_before_anything_is_imported_are_those_of_the_bench() -> None:
    assert set(RIGS) == set(pytest_session.RIGS)
    assert set(STRATEGIES) == {strategy.value for strategy in Strategy}


def test_a_folder_of_ones_own_on_two_workers_is_one_run(own: Path) -> None:
    ran = _pytest(own, "mine", workers=True)
    assert ran.code == 0, ran.output
    assert ran.verdicts == {"meter/a_meter_with_keys_of_its_own": "PASS"}
    assert "verdicts   1 PASS" in ran.output
    assert f"captures   else/where/{ran.runs[0].name}" in ran.output
    assert "2 passed" in ran.output


def test_a_scenario_in_a_text_keeps_no_tests_together(tmp_path: Path) -> None:
    scenario = 'TEXT = """\nasync def test_it(rig):\n    ...\n"""\n'
    for name in ("one", "other"):
        (tmp_path / f"test_{name}.py").write_text(f"{scenario}def test_{name}():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ran = _pytest(tmp_path, "-v", ".", workers=True)
    assert "2 passed" in ran.output
    assert "OneRun" not in ran.output
    (tmp_path / "test_one.py").write_text("async def test_it(rig):\n    ...\n")
    assert "OneRun" in _pytest(tmp_path, "-v", ".", workers=True).output


def test_the_program_plays_a_folder_of_ones_own(own: Path) -> None:
    command = [sys.executable, "-m", "bench", "run", "mine", "--runs", "by-program"]
    ran = run_in(own, command)
    assert ran.code == 0, ran.output
    assert "1 case: 1 PASS" in ran.output
    assert "meter/a_meter_with_keys_of_its_own: 1 PASS" in ran.output
    assert len(list((own / "by-program").iterdir())) == 1


def test_a_mistake_is_told_with_its_line_and_what_would_be_right(own: Path, tmp_path: Path) -> None:
    words = ("--capture-dir", str(tmp_path), "test_mistakes.py")
    ran = run_in(own, [sys.executable, "-m", "pytest", "-p", "lorabench", *words])
    assert ran.code == 1, ran.output
    for number, (line, text) in TOLD.items():
        lines = ran.output.partition(f"_ test_{number} _")[2].splitlines()
        assert lines[1] == "ERROR (bench)", ran.output
        assert lines[2].strip().startswith(f"test_mistakes.py:{line}: {text}"), lines[2]


def test_a_mistake_names_what_is_near() -> None:
    assert str(not_there("station", "wes", ["west", "east"])).endswith("did you mean 'west'?")
    assert str(not_there("station", "roof", [])) == "no station 'roof'; known: none"
    assert isinstance(not_there("x", "y", ()), ScenarioMistake)


def test_what_was_raised_elsewhere_has_no_place() -> None:
    assert place_in("nowhere/test_x.py", None) is None
