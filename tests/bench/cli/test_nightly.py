"""What the night consists of, and how it is told."""

from pathlib import Path

from bench.cli.exit_code import ExitCode
from bench.cli.nightly import Judged, captures_in, sentence, summary


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
