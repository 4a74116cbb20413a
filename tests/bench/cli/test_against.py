"""Two network servers on the same wires, one of them broken, played in turn."""

import shutil
import sys
from pathlib import Path

import pytest

from bench.cli.against import against_run, against_server, is_command
from bench.cli.output import ProgressDisplay, Refused
from bench.cli.program import main
from bench.cli.run import Selection
from bench.night.comparison import Outcome
from tests.bench.night.written_nights import night_of, write_night

ROOT = Path(__file__).resolve().parents[3]
LINE = "_COPY_DROPPED = Disposition(Upstream.DROPPED, Reason.DUPLICATE)"


def test_a_run_of_old_is_set_beside_tonight(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"a": "PASS"}, rig="simulated")
    tonight = write_night(tmp_path, 1, {"a": "FAIL"}, rig="simulated")
    found, lines = against_run(night_of(0), tonight, tmp_path)
    assert found.outcome is Outcome.WORSE
    assert lines[-1] == "Worse: of 1 pair 1 got worse, 0 better."


def test_a_command_is_told_from_a_run(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    assert is_command(f"{sys.executable} -m lns", tmp_path)
    assert not is_command("python", tmp_path)
    assert not is_command("20261120T020003Z-7f3a", tmp_path)


def test_in_this_process_there_is_no_other_server(tmp_path: Path) -> None:
    selection = Selection(None, "simulated", 1, None, tmp_path)
    with ProgressDisplay() as display, pytest.raises(Refused, match="lorabench compare OLD NEW"):
        against_server(f"{sys.executable} -m lns", selection, display)


@pytest.mark.programs
@pytest.mark.timeout(1200)
def test_a_broken_server_is_worse_than_this_one_on_the_same_wires(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "lns", tmp_path / "old" / "lns")
    broken = tmp_path / "old" / "lns" / "dedup" / "strategy.py"
    text = broken.read_text("utf-8")
    assert text.count(LINE) == 1
    broken.write_text(
        text.replace(LINE, "_COPY_DROPPED = Disposition(Upstream.FORWARDED)"), "utf-8"
    )
    command = f"env PYTHONPATH={tmp_path / 'old'} {sys.executable} -m lns"
    pattern = "three_stations_deliver_the_same_frame"
    selection = Selection(pattern, "emulated", 1, "Drop", tmp_path / "runs", limit=1)
    pairs, lines = 0, []
    while not pairs:  # on a busy host a case of either may prove nothing, and says so
        assert not lines or any("not conclusive in the old" in line for line in lines), lines
        with ProgressDisplay() as display:
            found, lines = against_server(command, selection, display, pairs_max=1)
        pairs = found.pairs
    assert (found.pairs, found.worse, found.better) == (1, 0, 1), lines
    assert found.outcome is Outcome.NOT_WORSE
    assert lines[-1] == "Stopped after 1 pairs: what was to be played is played."
    # Neither is a night.
    assert main(["nights", "--runs", str(tmp_path / "runs")]) == 4
