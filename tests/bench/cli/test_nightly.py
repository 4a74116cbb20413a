"""What the night consists of, and how it is told."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench import traffic
from bench.capture.reading import capture_files
from bench.capture.run_folder import latest
from bench.cli.nightly import Night, captures_in, importing, placed_last
from bench.cli.nights import Judged, night_document, sentence, summary
from bench.cli.output import Refused
from bench.cli.program import main
from bench.lab.inventory import BenchLock, load
from bench.night.record import ExitCode
from tests.bench.night.web_hook import Hook, serving
from tests.bench.traffic.traffic_files import CONFORMANCE, SAINT_EYNARD

BENCH = """
rig = "hardware"
[bench]
name = "lab-1"
region = "EU868"
tap = "127.0.0.1:0"
[[device]]
name = "dut"
dialect = "rui3"
port = "{port}"
dev_eui = "AC1F09FFFE000001"
dr = 5
power_dbm = 14
[[device]]
name = "second"
dialect = "lora-e5"
usb_serial = "0123ABCD"
dev_eui = "AC1F09FFFE000002"
dr = 5
power_dbm = 14
[report]
webhook = "{hook}"
"""


def written(folder: Path, port: str = "/dev/lora/nothing", hook: str = "http://[::1]:9") -> Path:
    file = folder / "lab.toml"
    file.write_text(BENCH.format(port=port, hook=hook))
    return file


def scored(verdict: str) -> Judged:
    score = {
        "totals": {"PASS": 0, "FAIL": 0, "INCONCLUSIVE": 0, "ERROR": 0} | {verdict: 1},
        "counts": {"receptions": 4},
        "oracle_agreement": {"receptions": 4, "status_agree": 3},
        "findings": [{"owner": "LNS"}],
        "verdicts": [{"case": "a", "verdict": verdict, "attempt": 1}],
    }
    return Judged("scenarios", Path("runs/20261120T020003Z-7f3a"), score)


def test_captures_of_known_kinds_are_taken(tmp_path: Path) -> None:
    for name in ("b.ndjson.gz", "a.ndjson", "conformance-frames.json", "README.md", "x.json"):
        (tmp_path / name).write_text("")
    names = [file.name for file in captures_in(tmp_path)]
    assert names == ["a.ndjson", "b.ndjson.gz", "conformance-frames.json"]


def test_a_folder_that_is_not_there_holds_no_captures(tmp_path: Path) -> None:
    assert captures_in(tmp_path / "nowhere") == []


def test_the_summary_names_the_report_and_the_command_that_repeats_it() -> None:
    assert summary([scored("FAIL")], ExitCode.FAILED, "lorabench nightly --seed 7") == [
        "",
        "scenarios: 1 FAIL",
        "  receptions  4",
        "  oracle      agrees on 3 of 4 statuses",
        "  findings    1",
        "  report      runs/20261120T020003Z-7f3a/report.html",
        "",
        "Something failed. The report names who did not do what was due.",
        "Repeat it: lorabench nightly --seed 7",
    ]


def test_the_summary_tells_of_margins_stalls_and_what_was_left_out() -> None:
    night = scored("PASS")
    rx1 = {"min_us": 963_791, "p1_us": 964_495, "p50_us": 978_332, "p99_us": 990_621}
    night.score["margins"] = [{"kind": "data", "answers": 249, "late": 1, "rx1": rx1}]
    night.score["host"] = {"stalls": 1, "worst_stall_us": 179_600}
    night.score["left_out"] = [{"case": "a", "missing": ["time"]}, {"case": "b", "missing": ["b"]}]
    lines = summary([night], ExitCode.PASSED, "lorabench nightly")
    assert lines[4:7] == [
        "  margins     RX1 963.7 ms at least, median 978.3 ms; 1 of 249 too late",
        "  host        stalled for 179.6 ms at worst",
        "  left out    2; this rig lacks b, time",
    ]


def test_every_end_of_a_night_has_a_sentence() -> None:
    ends = set(ExitCode) - {ExitCode.INTERRUPTED, ExitCode.USAGE}
    assert all(sentence(code, 0) for code in sorted(ends))


def test_a_night_with_findings_is_not_called_good() -> None:
    assert sentence(ExitCode.PASSED, 0).startswith("A good night")
    assert sentence(ExitCode.PASSED, 6) == (
        "Everything passed at the first attempt, but 6 findings are to be read in the report."
    )


def test_a_program_reads_of_each_run_and_of_the_whole() -> None:
    told = night_document([scored("FAIL")], ExitCode.FAILED)
    assert json.loads(json.dumps(told)) == {
        "exit_code": 1,
        "runs": [
            {
                "what": "scenarios",
                "run": "runs/20261120T020003Z-7f3a",
                "report": "runs/20261120T020003Z-7f3a/report.html",
                "totals": {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 0, "ERROR": 0},
                "findings": 1,
                "exit_code": 1,
            }
        ],
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rig", "hardware"], "name the inventory of the bench, --bench bench.toml"),
        (["--rig", "emulated", "--bench", "x.toml"], "the emulated rig has no inventory"),
        (["--bench", "nowhere.toml"], "There is no file nowhere.toml"),
        (["--keep", "0"], "--keep is a number of nights, 1 at least"),
        (["--without", "dut"], "which bench, --bench says"),
    ],
)
def test_what_cannot_be_a_night_is_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nightly", *words]) == ExitCode.USAGE
    assert told in capsys.readouterr().err


def night_with(tmp_path: Path, *files: Path) -> Night:
    return Night(
        rig="simulated",
        inventory=None,
        seed=1,
        runs=tmp_path / "runs",
        lake=str(tmp_path / "lake"),
        files=files,
        limit=None,
        keep=1,
    )


@pytest.mark.programs
def test_real_traffic_played_beside_the_scenarios_is_the_same_run_and_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_for = datetime(2126, 11, 20, 2, 0, 59, tzinfo=UTC)
    monkeypatch.setattr("bench.cli.nightly.utc_of_this_host", lambda: waited_for)
    night, said = night_with(tmp_path, CONFORMANCE, SAINT_EYNARD), list[str]()

    def note(text: str, done: int = 0, total: int = 0) -> None:
        said.append(text)

    with importing(night) as run:
        folder = run(note)
    other = traffic.run(night.files, runs_dir=tmp_path / "other", strategy="None", seed=1)
    assert {path.name: path.read_bytes() for path in capture_files(folder)} == {
        path.name: path.read_bytes() for path in capture_files(other)
    }
    assert said[0] == "reading conformance.json"
    assert folder.name == f"21261120T020059Z-{other.name.split('-')[1]}"


@pytest.mark.programs
def test_real_traffic_that_cannot_be_read_is_refused_when_its_turn_has_come(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_text("{")
    with (
        importing(night_with(tmp_path, file)) as run,
        pytest.raises(Refused, match=r"a\.ndjson: unknown format"),
    ):
        run(lambda text, done=0, total=0: None)


def test_a_run_played_beside_others_comes_after_them_by_its_name(tmp_path: Path) -> None:
    for name in ("20261120T020003Z-7f3a-2", "20261120T020059Z-7f3a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    run = placed_last(tmp_path / "20261120T020003Z-7f3a-2")
    assert run == latest(tmp_path)
    assert run.name.endswith("Z-7f3a")


def test_a_bench_that_is_not_ready_is_told_whole_and_nothing_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    with serving(Hook()) as hook:
        file = written(tmp_path, hook=hook.url)
        words = ["--bench", str(file), "--runs", str(runs), "--captures", str(tmp_path)]
        code = main(["nightly", *words])
    said = capsys.readouterr().err
    assert code == ExitCode.BENCH_ERROR
    assert "1/7 is the bench lab-1 ready" in said
    assert "dut: there is no /dev/lora/nothing; plug the board in" in said
    assert "second: no serial port with USB serial number 0123ABCD" in said
    assert "no [[gateway]]: nothing could be heard" in said
    assert "The summary is posted to http://127.0.0.1:" in said
    [(_, _, body)] = hook.told
    assert isinstance(body, dict)
    assert (body["bench"], body["rig"], body["exit_code"], body["runs"]) == (
        "lab-1",
        "hardware",
        12,
        [],
    )
    assert body["text"].startswith("lab-1: no night: The bench lab-1")


def test_a_refused_night_is_a_row_in_the_memory_and_no_latest_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    words = ["--bench", str(written(tmp_path)), "--runs", str(runs)]
    assert main(["nightly", *words, "--captures", str(tmp_path)]) == ExitCode.BENCH_ERROR
    assert main(["nights", "--runs", str(runs), "--json"]) == ExitCode.PASSED
    [night] = json.loads(capsys.readouterr().out)
    assert (night["bench"], night["exit_code"], night["totals"]) == ("lab-1", 12, {})
    assert night["trouble"].startswith("it was refused: The bench lab-1")
    assert "it was refused" in (runs / "nights.html").read_text("utf-8")
    assert latest(runs) is None


def test_a_mistake_in_the_command_is_no_night(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    words = ["nightly", "--bench", str(written(tmp_path)), "--runs", str(runs), "--without", "dot"]
    assert main(words) == ExitCode.USAGE
    assert not runs.exists()


def test_a_bench_that_somebody_else_has_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    with BenchLock(load(file)):
        code = main(["nightly", "--bench", str(file), "--runs", str(tmp_path / "runs")])
    said = capsys.readouterr().err
    assert code == ExitCode.BENCH_ERROR
    assert "The bench lab-1 is taken" in said
    assert "not ready" not in said
