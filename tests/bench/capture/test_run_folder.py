import json
import os
import platform
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.capture import run_folder
from bench.capture.run_folder import Origin, RunFolder, captures_to_ask, latest, unanswering

STARTED = datetime(2026, 11, 20, 2, 0, 3, tzinfo=UTC)


def create(runs: Path, **changed: object) -> RunFolder:
    facts: dict[str, object] = {
        "rig": "simulated", "seed": 7, "started": STARTED, "argv": ["pytest", "scenarios"],
        "inventory": {"devices": "virtual"}, **changed,
    }  # fmt: skip
    return run_folder.create(runs, **facts)  # type: ignore[arg-type]


def manifest(run: RunFolder) -> dict[str, object]:
    found: dict[str, object] = json.loads((run.path / "manifest.json").read_text("utf-8"))
    return found


def test_a_folder_is_named_for_its_second_and_its_run(tmp_path: Path) -> None:
    run = create(tmp_path / "does" / "not" / "exist")
    assert run.path.is_dir()
    assert re.fullmatch(r"20261120T020003Z-[0-9a-f]{4}", run.name)
    assert run.name.endswith(run.run_id[:4])


def test_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    first, second, third = (create(tmp_path) for _ in range(3))
    assert (second.name, third.name) == (f"{first.name}-2", f"{first.name}-3")
    assert first.run_id == second.run_id == third.run_id


def test_a_simulated_run_is_known_by_rig_and_seed(tmp_path: Path) -> None:
    ids = [create(tmp_path, seed=seed).run_id for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert re.fullmatch("[0-9a-f]{8}", ids[0])


def test_other_runs_are_known_by_chance(tmp_path: Path) -> None:
    ids = {create(tmp_path, rig="hardware", seed=1).run_id for _ in range(5)}
    assert len(ids) == 5


def test_the_manifest_says_what_it_takes_to_repeat_the_run(tmp_path: Path) -> None:
    run = create(tmp_path, notices=["no GPS"], planned=["a", "b"])
    found = manifest(run)
    commit, versions = found.pop("git_commit"), found.pop("versions")
    dut, code, line = found.pop("dut"), found.pop("bench_code"), found.pop("line")
    hashes = [found.pop(name) for name in ("catalogue_sha", "inventory_sha")]
    assert all(re.fullmatch("[0-9a-f]{16}", str(sha)) for sha in hashes)
    assert found == {
        "schema": 1, "run_id": run.run_id, "seed": 7, "rig": "simulated",
        "inventory": {"devices": "virtual"}, "argv": ["pytest", "scenarios"],
        "notices": ["no GPS"], "planned": ["a", "b"], "started": "2026-11-20T02:00:03Z",
        "host": platform.node(),
    }  # fmt: skip
    assert isinstance(commit, str)
    assert re.fullmatch(r"[0-9a-f]{12}|unknown", commit)
    assert isinstance(dut, dict)
    assert str(line).partition("@")[0] == "lns"
    assert {**dut, **code} == dut  # type: ignore[dict-item]
    assert dut["commit"].startswith(commit)
    assert (dut["name"], dut["version"]) == ("lns", versions["lorabench"])  # type: ignore[index]
    assert isinstance(versions, dict)
    assert versions["python"] == ".".join(str(part) for part in sys.version_info[:3])
    assert versions.keys() == {"python", *run_folder.DISTRIBUTIONS}
    assert all(versions.values())


def test_a_run_of_a_night_says_of_which_and_of_what(tmp_path: Path) -> None:
    origin = Origin(
        night="2026-11-20.2", dut="chirpstack@4.9+1a2b3c", part="restart", explores=True
    )
    found = manifest(create(tmp_path, origin=origin, configuration={"retention_s": 30}))
    other = manifest(create(tmp_path, origin=origin, configuration={"retention_s": 60}))
    told = [found[name] for name in ("night", "line", "part", "explores")]
    assert told == ["2026-11-20.2", "chirpstack", "restart", True]
    dut: dict[str, object] = found["dut"]  # type: ignore[assignment]
    assert dut.pop("configuration") != other["dut"]["configuration"]  # type: ignore[index]
    assert dut == {"name": "chirpstack", "version": "4.9", "commit": "1a2b3c", "dirty": None}


def test_what_is_tested_is_named_by_whoever_starts_the_run(tmp_path: Path) -> None:
    assert manifest(create(tmp_path, origin=Origin(line="lns@release")))["line"] == "lns@release"


def test_no_notices_are_an_empty_list(tmp_path: Path) -> None:
    assert manifest(create(tmp_path))["notices"] == []


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(OSError, match="runs"):
        create(tmp_path / "runs")


def folder(runs: Path, name: str) -> Path:
    path = runs / name
    path.mkdir()
    (path / "manifest.json").write_text("{}")
    return path


def test_the_latest_run_is_the_newest_by_name(tmp_path: Path) -> None:
    new = folder(tmp_path, "20261120T020003Z-0000")
    old = folder(tmp_path, "20261119T235959Z-ffff")
    os.utime(old, (2**31, 2**31))
    assert latest(tmp_path) == new


def test_the_latest_of_one_second_has_the_highest_number(tmp_path: Path) -> None:
    runs = [create(tmp_path) for _ in range(12)]
    assert latest(tmp_path) == runs[-1].path


def test_what_has_no_manifest_is_no_run(tmp_path: Path) -> None:
    run = folder(tmp_path, "20261120T020003Z-0000")
    (tmp_path / "20261121T020003Z-0000").mkdir()
    (tmp_path / "20261122T020003Z-0000").write_text("a file")
    assert latest(tmp_path) == run


def test_there_may_be_no_run_at_all(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    assert latest(tmp_path / "nowhere") is None


def test_the_command_line_is_one_that_a_person_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/some/where/pytest", "scenarios", "-k", "a or b"])
    assert run_folder.argv_of_this_process() == ["pytest", "scenarios", "-k", "a or b"]


WEST, EAST = "0016C001F1500001", "0016C001F1500002"


def line(seq: int, station: str, stage: str, n: int) -> str:
    cause = {"cause": "the frame was told too late"} if stage == "going on" else {}
    facts = {"kind": "lns.too_late", "lns": "lns-a", "station": station, "stage": stage, "n": n}
    return json.dumps({"schema": 1, "seq": seq, "t_us": seq, **facts, **cause}) + "\n"


def test_the_last_word_of_a_station_counts(tmp_path: Path) -> None:
    capture = tmp_path / "lns-a.jsonl"
    capture.write_text(
        line(0, WEST, "going on", 5)
        + line(1, EAST, "going on", 5)
        + line(2, WEST, "over", 7)
        + line(3, EAST, "going on", 10)
        + '{"kind":"lns.too_late","torn'
    )
    assert unanswering([capture]) == {
        EAST: "lns-a could not answer through it 10 times in a row, at last because the frame was"
        " told too late: what it hears first stays unanswered"
    }


@pytest.mark.parametrize(("rig", "asked"), [("hardware", 1), ("simulated", 0), (7, 0)])
def test_only_a_run_with_real_gateways_is_asked(tmp_path: Path, rig: object, asked: int) -> None:
    run = tmp_path / "20261120T020000Z-7f3a"
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps({"rig": rig}))
    (run / "lns-a.jsonl").write_text(line(0, WEST, "going on", 5))
    assert len(captures_to_ask(tmp_path, None)) == asked


def test_a_capture_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert captures_to_ask(tmp_path, None) == []
    with pytest.raises(OSError, match="nowhere"):
        captures_to_ask(tmp_path, tmp_path / "nowhere.jsonl")
