"""What a run of scenarios tells the shell, and how it is repeated."""

import json
from pathlib import Path

import pytest

from bench.capture.wholeness import Wholeness
from bench.cli.program import main
from bench.cli.run import Ran, Selection, remarks_on
from bench.night.record import CaseVerdict, ExitCode

PASSED = CaseVerdict("a", "PASS")
FAILED = CaseVerdict("b", "FAIL", ("two answers",))


@pytest.mark.parametrize(
    ("verdicts", "failed", "interrupted", "code"),
    [
        ((PASSED,), 0, False, ExitCode.PASSED),
        ((PASSED, FAILED), 1, False, ExitCode.FAILED),
        ((PASSED,), 1, False, ExitCode.BENCH_ERROR),
        ((PASSED,), 0, True, ExitCode.INTERRUPTED),
        ((), 0, False, ExitCode.BENCH_ERROR),
    ],
)
def test_the_exit_code_of_a_run(
    verdicts: tuple[CaseVerdict, ...], failed: int, interrupted: bool, code: ExitCode
) -> None:
    ran = Ran(Path("runs/x"), verdicts, Wholeness(), failed, interrupted)
    assert ran.exit_code is code


def test_a_run_names_what_it_could_not_prove(tmp_path: Path) -> None:
    again = CaseVerdict("here/deaf (attempt 3)", "INCONCLUSIVE", ("host stalled 60 ms",), 3)
    verdicts = (PASSED, CaseVerdict("here/once", "INCONCLUSIVE"), again)
    ran = Ran(tmp_path, verdicts, Wholeness(), 2, False)
    assert ran.exit_code is ExitCode.INCONCLUSIVE
    repeated, unproven = remarks_on(ran, "emulated")
    assert repeated.startswith("1 of them on a repeated stimulus")
    assert unproven.startswith("1 proves nothing either way, however often it was played")
    assert "when little else ran: here/deaf. Why, stands above" in unproven


def test_what_no_rig_can_play_is_nothing_that_this_one_lacks(tmp_path: Path) -> None:
    note = (
        '{"source":"bench","seq":%d,"t_us":1,"kind":"case.left_out","case":"c","missing":["%s"]}\n'
    )
    (tmp_path / "bench.jsonl").write_text(note % (0, "setup is missing") + note % (1, "power"))
    why = {"catalogue/edge_case[X02]": "setup is missing"}
    assert remarks_on(Ran(tmp_path, (), Wholeness(), 0, False, not_played=why), "emulated") == [
        "1 of the catalogue not played, named above.",
        "1 left out; the emulated rig lacks: power (1)",
    ]


def test_a_run_that_is_not_whole_is_an_error_of_the_bench_whatever_passed() -> None:
    books = Wholeness(planned=2, how="stopped", unplayed=("b",))
    for verdicts in ((PASSED,), (PASSED, FAILED)):
        assert Ran(Path("runs/x"), verdicts, books, 0, False).exit_code is ExitCode.BENCH_ERROR


def test_the_command_that_repeats_a_run_names_what_was_chosen() -> None:
    plain = Selection(None, "simulated", 1, None, Path("runs"))
    chosen = Selection("soft duplicate", "simulated", 7, "Mark", Path("elsewhere"))
    assert plain.repeat == "lorabench run --rig simulated --seed 1"
    assert chosen.repeat == (
        "lorabench run 'soft duplicate' --rig simulated --seed 7 --strategy Mark "
        "--capture-dir elsewhere"
    )


def test_a_run_of_a_few_cases_says_of_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["multi_concentrator", "--limit", "2", "--line", "lns@release", "--json"]
    assert main(["run", *words, "--capture-dir", str(tmp_path)]) == ExitCode.PASSED
    told = json.loads(capsys.readouterr().out)
    manifest = json.loads((Path(told["run"]) / "manifest.json").read_text("utf-8"))
    assert (told["totals"]["PASS"], len(manifest["planned"])) == (2, 2)
    assert manifest["line"] == "lns@release"
    assert told["repeat"].endswith(f"--limit 2 --line lns@release --capture-dir {tmp_path}")
    assert main(["run", "--limit", "0"]) == ExitCode.USAGE


def test_a_name_that_begins_with_an_at_sign_is_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["multi_concentrator", "--limit", "1", "--line", "@x", "--dut", "@y", "--json"]
    assert main(["run", *words, "--capture-dir", str(tmp_path)]) == ExitCode.PASSED
    told = json.loads(capsys.readouterr().out)
    manifest = json.loads((Path(told["run"]) / "manifest.json").read_text("utf-8"))
    assert (manifest["line"], manifest["dut"]["version"]) == ("@x", "y")
    assert main(["run", "@x"]) == ExitCode.USAGE
    assert "expression passed to '-k': @x" in capsys.readouterr().err


def test_a_marker_that_is_misspelt_is_refused_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "test_mine.py"
    file.write_text('import pytest\n\n@pytest.mark.requiers("redis")\nasync def test_x(rig): ...\n')
    assert main(["run", str(file), "--capture-dir", str(tmp_path / "runs")]) == 12
    assert "'requiers' not found in `markers`" in capsys.readouterr().err


MEANWHILE = '''
from pathlib import Path


async def test_another_run_begins(rig):
    """Somebody else's run of the same folder begins later, and has ended no case."""
    other = Path(__file__).parent / "runs" / "29990101T000000Z-ffff"
    other.mkdir(parents=True)
    (other / "manifest.json").write_text('{"rig": "emulated", "planned": ["x", "y"]}')
    await rig.alpha.send()
'''


def test_a_run_tells_of_itself_whoever_runs_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_meanwhile.py").write_text(MEANWHILE)
    runs = tmp_path / "runs"
    main(["run", str(tmp_path / "test_meanwhile.py"), "--json", "--capture-dir", str(runs)])
    told = json.loads(capsys.readouterr().out)
    assert (runs / "29990101T000000Z-ffff").is_dir()
    assert Path(told["run"]).parent == runs and not told["run"].endswith("-ffff")
    assert sum(told["totals"].values()) == 1


LEAVES_OPEN = '''
from bench.scenario import Table

FIRST = Table("""
    strategy kind        | first
    *        unconfirmed | NonDuplicate forwarded NotAsked
""")


async def test_leaves_open(rig):
    """A file stays open behind it."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), FIRST, first="west")
    held = [open(__file__)]
    held.append(held)
'''


def test_what_nobody_closes_is_told_in_the_end_and_nothing_is_lost_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has been there for long is not looked at behind each case."""
    old = "    import gc\n    gc.collect()\n"
    (tmp_path / "test_open.py").write_text(LEAVES_OPEN + old)
    code = main(["run", str(tmp_path / "test_open.py"), "--capture-dir", str(tmp_path / "runs")])
    said = capsys.readouterr().out
    assert code == ExitCode.BENCH_ERROR
    assert said.startswith("1 case: 1 PASS\n")
    assert "left open to the end: unclosed file" in said


def test_a_file_that_nobody_closes_is_told_of_and_nothing_is_lost_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_held.py").write_text(LEAVES_OPEN)
    code = main(["run", str(tmp_path / "test_held.py"), "--capture-dir", str(tmp_path / "runs")])
    said = capsys.readouterr()
    assert code == ExitCode.BENCH_ERROR
    assert said.out.startswith("1 case: 1 ERROR\n")
    assert "ERROR (bench)\n      unclosed file <" in said.err
