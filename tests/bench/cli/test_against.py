"""Two network servers on the same wires, one of them broken, played in turn."""

import shutil
import sys
from pathlib import Path

import pytest

from bench.cli.against import against_run, against_server, is_command, other_of
from bench.cli.output import ProgressDisplay
from bench.cli.program import main
from bench.cli.run import Selection
from bench.night.comparison import Outcome
from tests.bench.night.written_nights import night_of, write_night

ROOT = Path(__file__).resolve().parents[3]
LINE = "_COPY_DROPPED = Disposition(Upstream.DROPPED, Reason.DUPLICATE)"


def test_a_run_of_old_is_set_beside_tonight(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"a": "PASS"}, rig="simulated")
    tonight = write_night(tmp_path, 1, {"a": "FAIL"}, rig="simulated")
    found, lines = against_run(other_of(night_of(0), "simulated", tmp_path), tonight)
    assert found.outcome is Outcome.WORSE
    assert lines[-1] == "Worse: of 1 pair 1 got worse, 0 better."


def test_a_command_is_told_from_a_run(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    assert is_command(f"{sys.executable} -m lns", tmp_path)
    assert not is_command("python", tmp_path)
    assert not is_command("20261120T020003Z-7f3a", tmp_path)


@pytest.mark.parametrize("name", ["latest", "lns@main"])
def test_the_latest_is_the_one_before_tonight(tmp_path: Path, name: str) -> None:
    write_night(tmp_path, 0, {"a": "PASS"}, rig="simulated")
    other = other_of(name, "simulated", tmp_path)
    tonight = write_night(tmp_path, 1, {"a": "FAIL"}, rig="simulated")
    found, _ = against_run(other, tonight)
    assert (found.outcome, found.worse) == (Outcome.WORSE, 1)


@pytest.mark.parametrize(
    ("against", "said"),
    [
        (f"{sys.executable} -m lns", "lorabench compare OLD NEW"),
        ("nonsense", "There is no run nonsense"),
        ("nonsense -m lns", "There is no run nonsense -m lns"),
        ("python 'x", "--against: No closing quotation"),
    ],
)
def test_what_no_night_can_be_set_beside_is_refused_before_it_begins(
    tmp_path: Path, against: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_night(tmp_path, 0, {"a": "PASS"}, rig="simulated")
    assert main(["nightly", "--runs", str(tmp_path), "--against", against]) == 4
    ended = capsys.readouterr()
    assert said in ended.err and "scenarios on the" not in ended.err
    assert len(list(tmp_path.glob("*/manifest.json"))) == 1


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
