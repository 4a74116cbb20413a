"""The score of a run does not change when its captures are compressed, nor does its report."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.duration import seconds
from bench.night.compaction import compact
from bench.report import write
from bench.rig.simulated import SimulatedRig
from bench.score.job import score
from scenarios.words import COPY, FIRST
from tests.bench.rig.played import play

pytestmark = pytest.mark.spark

NAME = "20261118T020003Z-7f3a"


async def two_stations_and_a_replay(rig: SimulatedRig) -> None:
    uplink = await rig.alpha.send(confirmed=True)
    await rig.replay(uplink, by="west", after=seconds(2))
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")


def scored(folder: Path, lake: Path) -> dict[str, Any]:
    found = score([folder], lake=lake)[NAME]
    del found["spark"]  # how long it took
    return found


def test_score_and_report_of_a_compacted_run_are_those_before(tmp_path: Path, spark: Any) -> None:
    folder = play(tmp_path / NAME, two_stations_and_a_replay).folder
    with (folder / "air.jsonl").open("a") as capture:
        capture.write("torn")
    manifest = {"schema": 1, "run_id": "r", "seed": 1, "rig": "simulated"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    before = scored(folder, tmp_path / "lake")
    assert before["counts"]["receptions"] > 0
    assert before["findings"]
    score_file = (folder / "score.json").read_text()
    write(folder)
    page = (folder / "report.html").read_text()
    assert compact(folder).files > 2
    assert not list(folder.glob("*.jsonl"))
    assert scored(folder, tmp_path / "lake") == before
    (folder / "score.json").write_text(score_file)  # this one took as long as that one
    write(folder)
    assert (folder / "report.html").read_text() == page
