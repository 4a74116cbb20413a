"""Both captures, whole, through the network server, the capture, Spark and the oracle."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.traffic.run_lines import of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.xdist_group("captures")]


def test_spark_and_the_oracle_agree_on_all_real_traffic(
    conformance_run: Path, saint_eynard_run: Path, tmp_path: Path
) -> None:
    receptions = {run: len(of(run, "lns.outcome")) for run in (conformance_run, saint_eynard_run)}
    assert receptions[conformance_run] == 796 * 3
    # As a user would: a process of its own starts the Spark that a capture of this size needs.
    command = [sys.executable, "-m", "bench", "score", *map(str, receptions)]
    command += ["--lake", str(tmp_path / "lake")]
    scored = subprocess.run(command, capture_output=True, text=True, check=False)
    assert scored.returncode == 0, scored.stdout + scored.stderr
    for run, number in receptions.items():
        found = json.loads((run / "score.json").read_text(encoding="utf-8"))
        assert found["findings"] == []
        assert found["counts"]["torn_lines"] == 0
        assert found["counts"]["receptions"] == found["counts"]["outcomes"] == number
        assert found["oracle_agreement"]["status_agree"] == number
        assert found["oracle_agreement"]["disposition_agree"] == number
        assert {verdict["verdict"] for verdict in found["verdicts"]} == {"PASS"}
    assert (tmp_path / "lake" / "receptions").is_dir()
