"""Verbs in any order blame nobody who is right; other seeds: see `tests.fuzz.random_verbs`."""

from pathlib import Path

import pytest

from bench.cli.program import main
from bench.night.record import ExitCode

CASES = 60


def test_nobody_is_blamed_who_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = str(Path(__file__).with_name("random_verbs.py"))
    words = [played, "--limit", str(CASES), "--capture-dir", str(tmp_path)]
    assert main(["run", *words]) == ExitCode.PASSED
    assert f"{CASES} cases: {CASES} PASS" in capsys.readouterr().out
