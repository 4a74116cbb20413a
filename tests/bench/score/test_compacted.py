"""The score of a run does not change when its captures are compressed, nor does its report."""

import json
from pathlib import Path

import pytest

from bench.clock import seconds
from bench.rig.rig import Rig
from scenarios.words import COPY, FIRST
from tests.bench.rig.played import play
from tests.bench.score.conftest import Rescored, captures

pytestmark = pytest.mark.spark


async def two_stations_and_a_replay(rig: Rig) -> None:
    uplink = await rig.alpha.send(confirmed=True)
    await rig.replay(uplink, by="west", after=seconds(2))
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")


@captures
def write(root: Path) -> dict[str, Path]:
    folder = play(root / "compacted", two_stations_and_a_replay).folder
    with (folder / "air.jsonl").open("a") as capture:
        capture.write("torn")
    manifest = {"schema": 1, "run_id": "r", "seed": 1, "rig": "simulated"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return {"compacted": folder}


def test_score_and_report_of_a_compacted_run_are_those_before(rescored: Rescored) -> None:
    before, after = dict(rescored.before["compacted"]), dict(rescored.after["compacted"])
    del before["spark"], after["spark"]  # how long it took
    assert after == before
    assert before["counts"]["receptions"] > 0
    assert before["findings"]
    assert rescored.pages[0] == rescored.pages[1]
