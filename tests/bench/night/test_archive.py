"""Old runs take less room, and nothing of them is lost."""

import gzip
import json
import os
from pathlib import Path

import pytest

from bench.night.memory import compact, compact_runs, old_runs
from tests.reading import read

LINE = json.dumps({"t_us": 1, "source": "bench", "seq": 0, "kind": "case.begin", "case": "a"})


def make_run(runs: Path, name: str, **captures: str) -> Path:
    run = runs / name
    run.mkdir(parents=True)
    (run / "manifest.json").write_text(json.dumps({"run_id": "7f3a", "rig": "simulated"}))
    for stream, text in (captures or {"bench": f"{LINE}\n" * 50}).items():
        (run / f"{stream}.jsonl").write_text(text)
    return run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_runs_before_the_newest_nights_are_old(tmp_path: Path) -> None:
    for name in (
        "20261118T020003Z-7f3a",
        "20261119T020003Z-7f3a",
        "20261119T230003Z-11aa",
        "20261121T020003Z-7f3a",
        "mine",
    ):
        make_run(tmp_path, name)
    (tmp_path / "20260101T000000Z-9999").mkdir()  # not a run: it has no manifest
    assert [run.name for run in old_runs(tmp_path, nights_kept=2)] == ["20261118T020003Z-7f3a"]
    assert [run.name for run in old_runs(tmp_path, nights_kept=1)] == [
        "20261118T020003Z-7f3a",
        "20261119T020003Z-7f3a",
        "20261119T230003Z-11aa",
    ]
    assert old_runs(tmp_path, nights_kept=3) == []
    assert old_runs(tmp_path / "nowhere", nights_kept=1) == []


def test_a_compacted_run_says_the_same_in_less_room(tmp_path: Path) -> None:
    run = make_run(tmp_path, "20261118T020003Z-7f3a", bench=f"{LINE}\n" * 50, air="torn")
    (run / "score.json").write_text("{}")
    before = read(run)
    [done] = compact_runs(tmp_path, nights_kept=0)
    assert read(run) == before
    assert names(run) == ["air.jsonl.gz", "bench.jsonl.gz", "manifest.json", "score.json"]
    assert (done.files, done.trouble) == (2, None)
    assert done.after_bytes < done.before_bytes == 50 * (len(LINE) + 1) + 4
    assert str(done).startswith("20261118T020003Z-7f3a: 2 capture files compressed, 0.0 MB to")


@pytest.mark.timeout(20)
def test_what_is_no_file_stays_as_it_is(tmp_path: Path) -> None:
    run = make_run(tmp_path, "20261118T020003Z-7f3a", air="12345\n")
    os.mkfifo(run / "bench.jsonl")
    assert compact(run).files == 1
    assert names(run) == ["air.jsonl.gz", "bench.jsonl", "manifest.json"]


def test_the_manifest_notes_what_was_compressed(tmp_path: Path) -> None:
    run = make_run(tmp_path, "20261118T020003Z-7f3a", air="12345\n")
    compact(run)
    said = json.loads((run / "manifest.json").read_text())
    assert (said["run_id"], said["rig"]) == ("7f3a", "simulated")
    assert said["compacted"]["files"] == {"air.jsonl": 6}
    assert said["compacted"]["at"].endswith("Z")


def test_a_run_is_compacted_once(tmp_path: Path) -> None:
    run = make_run(tmp_path, "20261118T020003Z-7f3a")
    assert len(list(compact_runs(tmp_path, nights_kept=0))) == 1
    manifest = (run / "manifest.json").read_bytes()
    assert list(compact_runs(tmp_path, nights_kept=0)) == []
    assert (run / "manifest.json").read_bytes() == manifest


def test_what_was_broken_off_is_finished(tmp_path: Path) -> None:
    run = make_run(tmp_path, "20261118T020003Z-7f3a", air="new\n", west="other\n")
    (run / "air.jsonl.gz").write_bytes(gzip.compress(b"ol"))  # left by one that was killed
    compact(run)
    assert gzip.decompress((run / "air.jsonl.gz").read_bytes()) == b"new\n"
    assert names(run) == ["air.jsonl.gz", "manifest.json", "west.jsonl.gz"]


def test_the_same_capture_gives_the_same_bytes(tmp_path: Path) -> None:
    packed = []
    for night in ("20261117T020003Z-7f3a", "20261118T020003Z-7f3a"):
        run = make_run(tmp_path, night)
        compact(run)
        packed.append((run / "bench.jsonl.gz").read_bytes())
    assert packed[0] == packed[1]


def test_trouble_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    run = make_run(tmp_path, "20261118T020003Z-7f3a", air="first\n", west="second\n")
    (run / "west.jsonl.gz").mkdir()  # no file can take its place
    [done] = compact_runs(tmp_path, nights_kept=0)
    assert done.files == 1
    assert done.trouble is not None
    assert (run / "west.jsonl").read_text() == "second\n"
    assert sorted(names(run)) == ["air.jsonl.gz", "manifest.json", "west.jsonl", "west.jsonl.gz"]
    assert "air.jsonl" in json.loads((run / "manifest.json").read_text())["compacted"]["files"]
