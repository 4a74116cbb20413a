"""What became of the cases of a run, read from its captures alone."""

import json
import os
from pathlib import Path

import pytest

from bench.capture.wholeness import Wholeness, wholeness
from bench.cli.run import Ran
from bench.night.record import (
    CaseVerdict,
    ExitCode,
    exit_code_of,
    in_words,
    read_left_out,
    read_verdicts,
    record_of,
    totals,
)
from bench.report.score_file import unscored

BEGIN = '{"schema":1,"run_id":"r","source":"bench","seq":0,"t_us":1,"kind":"case.begin","case":"a"}'
PASSED = (
    '{"schema":1,"run_id":"r","source":"bench","seq":1,"t_us":2,"kind":"case.end","case":"a",'
    '"verdict":"PASS","reasons":[],"attempt":1}'
)
FAILED = (
    '{"schema":1,"run_id":"r","source":"bench","seq":2,"t_us":4,"kind":"case.end","case":"b",'
    '"verdict":"FAIL","reasons":["two answers"],"owner":"LNS","attempt":1}'
)
REPEATED = (
    '{"schema":1,"run_id":"r","source":"bench","seq":3,"t_us":6,"kind":"case.end","case":"c",'
    '"verdict":"PASS","reasons":[],"attempt":2}'
)


def run_folder(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / "bench.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_case_ends_are_read_in_order(tmp_path: Path) -> None:
    assert read_verdicts(run_folder(tmp_path, BEGIN, PASSED, FAILED)) == [
        CaseVerdict("a", "PASS"),
        CaseVerdict("b", "FAIL", ("two answers",), owner="LNS"),
    ]


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    assert read_verdicts(run_folder(tmp_path, PASSED, FAILED[:60])) == [CaseVerdict("a", "PASS")]


def test_a_folder_without_a_capture_has_no_verdict(tmp_path: Path) -> None:
    assert read_verdicts(tmp_path) == []


def test_the_exit_code_of_captures_is_that_of_scores(tmp_path: Path) -> None:
    assert exit_code_of(read_verdicts(run_folder(tmp_path, PASSED))) is ExitCode.PASSED
    assert exit_code_of(read_verdicts(run_folder(tmp_path, REPEATED))) is ExitCode.REPEATED
    assert exit_code_of(read_verdicts(run_folder(tmp_path, FAILED))) is ExitCode.FAILED
    assert exit_code_of([]) is ExitCode.BENCH_ERROR


@pytest.mark.parametrize(("share_max", "code"), [(0.5, 0), (0.4, 11)])
def test_a_lab_says_how_much_may_stay_undecided(
    tmp_path: Path, share_max: float, code: int
) -> None:
    """Its run, its score, the night and its report agree."""
    unproven = FAILED.replace("FAIL", "INCONCLUSIVE")
    run = run_folder(tmp_path, BEGIN, PASSED, BEGIN.replace('"a"', '"b"'), unproven)
    inventory = {"name": "lab", "inconclusive_share_max": share_max}
    (run / "manifest.json").write_text(json.dumps({"inventory": inventory}))
    whole = Wholeness()
    ran = Ran(run, tuple(read_verdicts(run)), whole, failed=0, interrupted=False)
    assert ran.exit_code == code
    verdicts = [{"case": one.case, "verdict": one.verdict} for one in ran.verdicts]
    said = json.dumps({"verdicts": verdicts, "wholeness": {"whole": True}}).encode()
    recorded = record_of(run, said)
    assert recorded is not None and recorded.code == code
    assert unscored(run).inconclusive_share_max == share_max


def test_totals_name_every_word_and_read_well() -> None:
    counts = totals([CaseVerdict("a", "PASS"), CaseVerdict("b", "FAIL"), CaseVerdict("c", "PASS")])
    assert counts == {"PASS": 2, "FAIL": 1, "INCONCLUSIVE": 0, "ERROR": 0}
    assert in_words(counts) == "2 PASS, 1 FAIL"
    assert in_words(totals([])) == "no verdict"


def test_what_was_left_out_is_counted_by_what_is_missing(tmp_path: Path) -> None:
    note = '{"source":"bench","seq":0,"t_us":1,"kind":"case.left_out","case":"a","missing":%s}'
    lines = [note % missing for missing in ('["time"]', '["radio","power"]', '["time"]', "7")]
    folder = run_folder(tmp_path, PASSED, *lines)
    assert read_left_out(folder) == {"time": 2, "power, radio": 1, "not told": 1}
    assert read_verdicts(folder) == [CaseVerdict("a", "PASS")]


@pytest.mark.timeout(20)
def test_neither_a_score_nor_a_manifest_that_is_a_pipe_is_waited_for(tmp_path: Path) -> None:
    run = run_folder(tmp_path, BEGIN, PASSED)
    (run / "manifest.json").write_text("{}")
    os.mkfifo(run / "score.json")
    assert record_of(run) is None
    (run / "manifest.json").write_text('{"rig": "simulated", "seed": 7}')
    recorded = record_of(run)
    assert recorded is not None
    assert recorded.results == {}
    (run / "manifest.json").unlink()
    os.mkfifo(run / "manifest.json")
    assert record_of(run) is None
    assert [hole.text for hole in wholeness(run).holes] == [
        "manifest.json cannot be read: nobody knows the plan"
    ]


def test_a_score_of_another_schema_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"rig": "simulated", "seed": 7}')
    (tmp_path / "score.json").write_text('{"schema": 2, "verdicts": []}')
    recorded = record_of(tmp_path)
    assert recorded is not None
    assert recorded.trouble == "its score has schema 2, and this version reads 1"
    assert not recorded.scored
