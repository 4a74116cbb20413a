"""Both real captures, through the network server, the capture, Spark and the oracle."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import traffic
from tests.bench.score.conftest import Scored, captures
from tests.bench.traffic.conftest import ARCHIVED_UPLINKS, CAPTURES, capture
from tests.bench.traffic.run_lines import of
from tests.sizes import SOAK

LOGS, ARCHIVE = "conformance-frames.json", "saint-eynard-33.ndjson.gz"
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


def played(root: Path) -> dict[str, Path]:
    """The conformance logs with every strategy, and the archive with the one of most words."""
    return {
        "conformance": traffic.run(
            [CAPTURES / LOGS], runs_dir=root / "logs", strategy=None, seed=1, limit=None
        ),
        "saint eynard": traffic.run(
            [CAPTURES / ARCHIVE],
            runs_dir=root / "archive",
            strategy="Mark",
            seed=1,
            limit=ARCHIVED_UPLINKS,
        ),
    }


@captures
def write(root: Path) -> dict[str, Path]:
    # The whole archive is too much for the session of the suite.
    are_there = (CAPTURES / LOGS).is_file() and (CAPTURES / ARCHIVE).is_file()
    return played(root) if are_there and not SOAK else {}


@pytest.fixture(scope="module")
def real(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The run and the score of each capture; in full scored as a user would."""
    capture(LOGS)
    capture(ARCHIVE)
    if not SOAK:
        scored: Scored = request.getfixturevalue("scored")
        names = ("conformance", "saint eynard")
        return {name: (scored.folders[name], scored.scores[name]) for name in names}
    root = tmp_path_factory.mktemp("real")
    runs = played(root)
    command = [sys.executable, "-m", "bench", "score", *map(str, runs.values())]
    done = subprocess.run(
        [*command, "--lake", str(root / "lake")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        name: (run, json.loads((run / "score.json").read_text("utf-8")))
        for name, run in runs.items()
    }


@pytest.mark.parametrize("name", ["conformance", "saint eynard"])
def test_spark_and_the_oracle_agree_on_all_real_traffic(
    real: dict[str, tuple[Path, dict[str, Any]]], name: str
) -> None:
    run, found = real[name]
    number = len(of(run, "lns.outcome"))
    assert number == 796 * 3 or name != "conformance"
    assert found["findings"] == []
    assert found["counts"]["torn_lines"] == 0
    assert found["counts"]["receptions"] == found["counts"]["outcomes"] == number > 0
    assert found["oracle_agreement"]["status_agree"] == number
    assert found["oracle_agreement"]["disposition_agree"] == number
    assert {verdict["verdict"] for verdict in found["verdicts"]} == {"PASS"}
