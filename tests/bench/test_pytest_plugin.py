"""The plugin as people use it: pytest in a process of its own, on scenarios written here."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from bench.capture.reading import Event
from tests import forked
from tests.reading import cases, read

ROOT = Path(__file__).resolve().parents[2]

HEAD = '''
import asyncio
import pytest
from bench.verdict.expectation import Table

NEW = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate forwarded RX1
    *        unconfirmed | NonDuplicate forwarded NotAsked
""")
WRONG = Table("""
    strategy kind        | first
    *        *           | SoftDuplicate forwarded NotAsked
""")


async def stimulus(rig, table=NEW, **how):
    rig.only("west")
    uplink = await rig.alpha.send(**how)
    rig.expect(uplink, table, first="west")
    return uplink
'''
PASSES = '''

async def test_passes(rig):
    """It passes."""
    await stimulus(rig)
'''


@dataclass(frozen=True)
class Ran:
    """What a run of pytest left behind."""

    code: int
    output: str
    runs: list[Path]

    @property
    def events(self) -> list[Event]:
        """The events of the one run."""
        [run] = self.runs
        return read(run).events

    @property
    def ends(self) -> list[Event]:
        """How each case ended, in order."""
        return [event for event in self.events if event["kind"] == "case.end"]

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each case; of one that was played again, the last."""
        return {_name(end["case"]): end["verdict"] for end in self.ends}

    @property
    def passed(self) -> bool:
        """Whether all passed, be it on a repeated stimulus: this host may be busy."""
        return self.code in (0, 10)

    def of(self, case: str) -> list[Event]:
        """What was captured of the last attempt at a case."""
        last = [end["case"] for end in self.ends if _name(end["case"]) == f"here/{case}"][-1]
        return [event for event in self.events if event.get("case") == last]


def _name(case: str) -> str:
    return case.partition(" (attempt")[0]


def pytest_in(
    folder: Path, scenarios: str, *arguments: str, file: str = "test_here.py", **env: str
) -> Ran:
    (folder / file).write_text(HEAD + scenarios, encoding="utf-8")
    # The folder is its own root, so that no settings but these are read.
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [
        "-p", "lorabench", "-p", "no:cacheprovider", "--noconftest",
        "--capture-dir", "else/where", *arguments,
    ]  # fmt: skip
    return run_in(folder, [sys.executable, "-m", "pytest", *command], **env)


def heed_ctrl_c() -> None:
    """A shell that runs the tests in the background lets them, and all they start, ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_in(folder: Path, command: list[str], **env: str) -> Ran:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **env}  # others take longer than we do
    if "PYTHONHASHSEED" in env:  # only a new interpreter heeds it
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False,
            timeout=500, preexec_fn=heed_ctrl_c,
        )  # fmt: skip
    else:
        imports = forked.HARDWARE if "hardware" in command else forked.ANY_RIG
        ran = forked.run(command[2:], cwd=folder, env=environment, imports=imports)
    runs = sorted((folder / "else" / "where").glob("*"))
    return Ran(ran.returncode, ran.stdout + ran.stderr, runs)


def test_a_scenario_passes_and_the_summary_says_where_its_capture_is(tmp_path: Path) -> None:
    ran = pytest_in(tmp_path, PASSES)
    assert ran.code == 0, ran.output
    assert ran.verdicts == {"here/passes": "PASS"}
    [run] = ran.runs
    assert "verdicts   1 PASS" in ran.output
    assert f"captures   else/where/{run.name}" in ran.output
    begin = next(event for event in ran.events if event["kind"] == "case.begin")
    head = {"schema", "run_id", "source", "seq", "t_us", "kind"}
    assert {key: value for key, value in begin.items() if key not in head} == {
        "case": "here/passes", "scenario": "test_passes", "file": "test_here.py", "group": "here",
        "title": "It passes.", "rig": "simulated", "params": {},
    }  # fmt: skip
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    assert (manifest["rig"], manifest["seed"]) == ("simulated", 1)
    assert manifest["run_id"] == begin["run_id"]


def test_two_scenarios_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "__init__.py").write_text("")
    (tmp_path / "deeper" / "test_here.py").write_text(HEAD + PASSES)
    ran = pytest_in(tmp_path, PASSES)
    assert ran.code == 4, ran.output
    assert "two scenarios are called here/passes; rename one, or its file" in ran.output
    assert not ran.runs


MANY = """

@pytest.mark.parametrize("n", [1])
async def test_open(rig, strategy, confirmed, n):
    await stimulus(rig, confirmed=confirmed)


async def test_own(rig):
    await stimulus(rig)
"""


def test_a_scenario_runs_for_every_strategy_and_both_kinds(tmp_path: Path) -> None:
    ran = pytest_in(tmp_path, MANY)
    assert ran.code == 0, ran.output
    begins = [event for event in ran.events if event["kind"] == "case.begin"]
    assert len(begins) == 3 * 2 + 1 == len({begin["case"] for begin in begins})
    assert {(begin.get("strategy"), begin.get("confirmed")) for begin in begins} == {
        ("Drop", True), ("Drop", False), ("Mark", True), ("Mark", False), ("None", True),
        ("None", False), (None, None),
    }  # fmt: skip
    devices = [event for event in ran.events if event["kind"] == "case.device"]
    assert {device["strategy"] for device in devices} == {"Drop", "Mark", "None"}
    assert begins[0]["title"] == "test_open"
    parts = list(cases(ran.events))
    assert len(parts) == 7
    for before, after in pairwise(parts):
        assert before[-1]["t_us"] < after[0]["t_us"]
        assert {before[0]["kind"], after[0]["kind"]} == {"case.begin"}


def test_only_one_strategy(tmp_path: Path) -> None:
    ran = pytest_in(tmp_path, MANY, "--strategy", "Mark")
    assert ran.code == 0, ran.output
    begins = [event for event in ran.events if event["kind"] == "case.begin"]
    assert [begin.get("strategy") for begin in begins] == ["Mark", "Mark", None]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--bench", "bench.toml"), "--bench: the simulated rig has no inventory; leave it out"),
        (("--rig", "hardwear"), "argument --rig: invalid choice: 'hardwear'"),
        (("--strategy", "drop"), "argument --strategy: invalid choice: 'drop'"),
        (("--seed", "one"), "argument --seed: invalid int value: 'one'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    ran = pytest_in(tmp_path, PASSES, *arguments)
    assert ran.code == 4
    assert told in ran.output
    assert "Traceback" not in ran.output
    assert ran.runs == []


def test_the_options_are_explained(tmp_path: Path) -> None:
    ran = pytest_in(tmp_path, PASSES, "--help")
    assert ran.code == 0
    for option in ("--rig", "--bench", "--seed", "--strategy", "--capture-dir"):
        assert option in ran.output


MIXED = (
    PASSES
    + """

def test_plain():
    pass


async def test_lonely():
    pass


async def test_fails(rig):
    await stimulus(rig, WRONG)


async def test_fails_and_breaks(rig):
    await stimulus(rig, WRONG)
    await rig.wait(5_000_000)
    raise OSError("broken")


async def test_nobody_hears(rig):
    rig.only()
    rig.expect(await rig.alpha.send(), NEW, first="west")


async def test_expects_nothing(rig):
    await rig.alpha.send()
"""
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run with a scenario of every kind."""
    return pytest_in(tmp_path_factory.mktemp("mixed"), MIXED)


def test_every_verdict_is_counted_and_only_a_pass_is_a_success(mixed: Ran) -> None:
    assert mixed.code == 1
    assert mixed.verdicts == {
        "here/passes": "PASS", "here/fails": "FAIL", "here/fails_and_breaks": "FAIL",
        "here/nobody_hears": "INCONCLUSIVE", "here/expects_nothing": "ERROR",
    }  # fmt: skip
    assert "verdicts   1 ERROR, 2 FAIL, 1 INCONCLUSIVE, 1 PASS" in mixed.output
    assert "5 failed, 2 passed" in mixed.output


def test_an_async_scenario_needs_the_rig(mixed: Ran) -> None:
    assert "_ test_lonely _" in mixed.output
    assert "an async scenario takes the fixture `rig`" in mixed.output


def test_a_failure_is_told_in_words(mixed: Ran) -> None:
    assert "FAIL (LNS)" in mixed.output
    told = (
        "through west: expected SoftDuplicate forwarded NotAsked, observed NonDuplicate forwarded"
    )
    assert told in mixed.output


def test_what_did_not_happen_is_inconclusive(mixed: Ran) -> None:
    assert "INCONCLUSIVE (air)" in mixed.output
    assert "west was to hear it, nobody did" in mixed.output


def test_a_scenario_without_expectations_proves_nothing(mixed: Ran) -> None:
    assert mixed.ends[-1]["reasons"] == ["the scenario expects nothing"]


def test_a_failure_beats_an_error_and_both_are_told(mixed: Ran) -> None:
    end = next(end for end in mixed.ends if end["case"] == "here/fails_and_breaks")
    assert end["owner"] == "LNS"
    assert end["reasons"][-1] == "besides: test_here.py:44: OSError: broken"


def test_tests_that_are_no_scenarios_are_left_alone(tmp_path: Path) -> None:
    ran = pytest_in(tmp_path, "\n\ndef test_plain():\n    assert True\n")
    assert (ran.code, ran.runs) == (0, [])
    assert "= lorabench =" not in ran.output and "captures" not in ran.output


BREAKS = {
    "at_once": ("    raise OSError('the bench is broken')", "OSError: the bench is broken"),
    "after_a_stimulus": (
        "    await stimulus(rig)\n    assert 1 == 2, 'no'",
        "AssertionError: no",
    ),
    "in_a_group_of_groups": (
        "    async with asyncio.TaskGroup() as tasks:\n"
        "        async with asyncio.TaskGroup() as inner:\n"
        "            inner.create_task(rig.device('nobody').send())",
        "no device 'nobody'",
    ),
    "in_a_callback": (
        "    await stimulus(rig)\n"
        "    asyncio.get_running_loop().call_later(1, [].index, 7)\n"
        "    await asyncio.sleep(5)",
        "ValueError: 7 is not in list",
    ),
    "waits_for_ever": (
        "    await asyncio.get_running_loop().create_future()",
        "Deadlock: nothing is scheduled",
    ),
    "pytest_fails": ("    pytest.fail('by hand')", "Failed: by hand"),
    "asks_too_late": (
        "    await stimulus(rig)\n    rig.provision('late')",
        "RuntimeError: device 'late': ask for it before the first frame",
    ),
    "an_unknown_role": (
        "    rig.expect(await rig.alpha.send(), NEW, frist='west')",
        "no role 'frist'; known: first; did you mean 'first'?",
    ),
}


def test_whatever_breaks_in_a_scenario_is_an_error_of_the_bench(tmp_path: Path) -> None:
    scenarios = "".join(
        f"\n\nasync def test_{name}(rig):\n{body}\n" for name, (body, _) in BREAKS.items()
    )
    ran = pytest_in(tmp_path, scenarios + PASSES)
    assert ran.code == 1
    ends = {end["case"].removeprefix("here/"): end for end in ran.ends}
    assert ends.keys() == {*BREAKS, "passes"}, ran.output
    for name, (_, told) in BREAKS.items():
        assert (ends[name]["verdict"], ends[name]["owner"]) == ("ERROR", "bench"), ends[name]
        place = r"(test_here\.py:\d+: )?"
        assert re.match(place + re.escape(told), ends[name]["reasons"][0]), ends[name]
        assert re.search(rf"ERROR \(bench\)\n  {place}{re.escape(told)}", ran.output)
    assert ends["passes"]["verdict"] == "PASS"
    assert f"verdicts   {len(BREAKS)} ERROR, 1 PASS" in ran.output
    assert len(list(cases(ran.events))) == len(BREAKS) + 1
    times = [event["t_us"] for event in ran.events if event["source"] == "bench"]
    assert times == sorted(times)


def test_the_repeat_command_repeats(tmp_path: Path) -> None:
    scenarios = (
        PASSES
        + """

async def test_fails(rig, strategy):
    await stimulus(rig, WRONG)
"""
    )
    ran = pytest_in(
        tmp_path, scenarios, "-q", "--seed", "77", "-k", "(fails and Mark) or fails and None"
    )
    [command] = [
        line.removeprefix("repeat it").strip()
        for line in ran.output.splitlines()
        if line.startswith("repeat it")
    ]
    assert "--seed 77" in command
    program, *arguments = shlex.split(command)
    assert program == "pytest"
    again = run_in(tmp_path, [sys.executable, "-m", "pytest", *arguments])
    assert again.code == ran.code == 1
    first, second = again.runs
    assert written(first) == written(second)
    ends = [event for event in read(second).events if event["kind"] == "case.end"]
    assert [end["case"] for end in ends] == ["here/fails[Mark]", "here/fails[None]"]


def test_a_seed_gives_the_same_bytes_whatever_python_hashes(tmp_path: Path) -> None:
    scenarios = """

async def test_all(rig, strategy, confirmed):
    rig.west.drop_uplinks(1)
    await rig.bravo.join()
    await stimulus(rig, confirmed=confirmed, retries=2)
    await rig.restart_lns()
"""
    folders = []
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        ran = pytest_in(tmp_path / number, scenarios, "--seed", "5", PYTHONHASHSEED=number)
        folders.append(written(ran.runs[0]))
    assert folders[0] == folders[1]
    assert len(folders[0]) > 5


def written(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir() if path.name != "manifest.json"}


def test_ctrl_c_ends_the_run_and_keeps_what_was_written(tmp_path: Path) -> None:
    ran = pytest_in(
        tmp_path,
        PASSES + '''

async def test_is_interrupted(rig):
    """It takes long."""
    import os, signal
    await stimulus(rig)
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        await rig.wait(1_000_000)


async def test_never_begins(rig):
    await stimulus(rig)
''',
    )  # fmt: skip
    assert ran.code == 2
    assert "KeyboardInterrupt" in ran.output
    assert "verdicts   1 PASS" in ran.output
    assert ran.verdicts == {"here/passes": "PASS"}
    done, interrupted = cases(ran.events)
    assert done[-1]["kind"] == "case.end"
    assert any(event["kind"] == "lns.outcome" for event in interrupted)


FORGETFUL = """

async def test_forgets_a_verb(rig):
    uplink = await stimulus(rig)
    rig.wait(1)


async def helps(rig):
    await rig.wait(1)


async def test_forgets_its_own(rig):
    await stimulus(rig)
    helps(rig)


async def test_forgets_to_send(rig):
    rig.only("west")
    rig.expect(rig.alpha.send(), NEW, first="west")
"""


def test_what_a_scenario_forgets_to_await_is_an_error_of_its_own(tmp_path: Path) -> None:
    ran = pytest_in(tmp_path, FORGETFUL)
    assert ran.verdicts == dict.fromkeys(
        ("here/forgets_a_verb", "here/forgets_its_own", "here/forgets_to_send"), "ERROR"
    )
    for said in (
        "Rig.wait() was never awaited: write `await` before it",
        "helps() was never awaited: write `await` before it",
        "'coroutine' object has no attribute 'dev_eui'; is there an `await` missing?",
    ):
        assert said in ran.output
