"""Which run folder a word on the command line stands for."""

import json
from pathlib import Path

import pytest

from bench.cli.output import Refused
from bench.cli.report import report, resolve, run_folders_in


def make_run(runs: Path, name: str) -> Path:
    folder = runs / name
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


def test_a_path_is_itself(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "elsewhere")
    assert resolve([str(folder)], runs=tmp_path / "runs") == [folder]


def test_a_bare_name_is_looked_up_among_the_runs(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "20261120T020003Z-7f3a")
    assert resolve(["20261120T020003Z-7f3a"], runs=tmp_path) == [folder]


def test_latest_is_the_newest_by_name(tmp_path: Path) -> None:
    newest = make_run(tmp_path, "20261121T020003Z-0001")
    make_run(tmp_path, "20261120T020003Z-ffff")
    assert resolve(["latest"], runs=tmp_path) == [newest]


def test_a_folder_without_a_manifest_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert run_folders_in(tmp_path) == []
    with pytest.raises(Refused, match=r"holds no manifest\.json"):
        resolve([str(tmp_path / "notes")], runs=tmp_path)


def test_a_wrong_name_is_answered_with_near_ones(tmp_path: Path) -> None:
    make_run(tmp_path, "20261120T020003Z-7f3a")
    with pytest.raises(Refused, match="20261120T020003Z-7f3a"):
        resolve(["20261120T020003Z-7f3b"], runs=tmp_path)


def test_a_report_of_a_run_that_is_not_whole_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path, "20261120T020003Z-7f3a")
    score = {"schema": 1, "run": folder.name, "verdicts": [], "totals": {"PASS": 1}}
    score["wholeness"] = {"whole": False, "sentence": "incomplete: killed at case 1 of 9"}
    (folder / "score.json").write_text(json.dumps(score))
    assert report([str(folder)]) == 12
    assert "missing   incomplete: killed at case 1 of 9\n" in capsys.readouterr().out


def test_without_any_run_the_message_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="`lorabench run` makes one"):
        resolve(["latest"], runs=tmp_path / "runs")


@pytest.mark.parametrize(("verdict", "code"), [("PASS", 0), ("FAIL", 1)])
def test_a_run_that_was_not_scored_ends_with_the_code_of_its_own_verdicts(
    verdict: str, code: int, tmp_path: Path
) -> None:
    folder = make_run(tmp_path, "20261120T020003Z-7f3a")
    head = {"schema": 1, "run_id": "r", "source": "bench", "case": "group/a"}
    begin = {**head, "seq": 0, "t_us": 1, "kind": "case.begin", "scenario": "test_a"}
    end = {**head, "seq": 1, "t_us": 2, "kind": "case.end", "verdict": verdict, "attempt": 1}
    (folder / "bench.jsonl").write_text(f"{json.dumps(begin)}\n{json.dumps(end)}\n")
    assert report([str(folder)]) == code
