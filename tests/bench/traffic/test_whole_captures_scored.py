"""Both captures, whole, through the network server, the capture, Spark and the oracle."""

from pathlib import Path

import pytest

from bench.score.job import score

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


def test_spark_and_the_oracle_agree_on_all_real_traffic(
    conformance_run: Path, saint_eynard_run: Path, tmp_path: Path
) -> None:
    runs = {run.name: run for run in (conformance_run, saint_eynard_run)}
    assert len(runs) == 2
    scores = score(list(runs.values()), lake=tmp_path / "lake")
    receptions = {conformance_run.name: 796 * 3, saint_eynard_run.name: 93_435}
    for run, found in scores.items():
        assert found["findings"] == []
        assert found["counts"]["torn_lines"] == 0
        assert found["counts"]["receptions"] == found["counts"]["outcomes"] == receptions[run]
        assert found["oracle_agreement"]["status_agree"] == receptions[run]
        assert found["oracle_agreement"]["disposition_agree"] == receptions[run]
        assert {verdict["verdict"] for verdict in found["verdicts"]} == {"PASS"}
    assert (tmp_path / "lake" / "receptions").is_dir()
