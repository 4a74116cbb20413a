"""Whole files in a run folder, which may have links in it."""

import os
from pathlib import Path

import pytest

from bench.capture.run_folder import replace, replacing


def test_a_file_takes_the_place_of_a_link_and_leaves_what_it_names(tmp_path: Path) -> None:
    treasure, run = tmp_path / "treasure", tmp_path / "run"
    treasure.write_text("gold")
    run.mkdir()
    aside = f".report.html.{os.getpid()}.unfinished"
    for name in ("report.html", aside, ".report.html.unfinished"):
        (run / name).symlink_to(treasure)
    replace(run / "report.html", b"<html>")
    assert treasure.read_text() == "gold"
    assert not (run / "report.html").is_symlink()
    assert (run / "report.html").read_bytes() == b"<html>"


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "score.json"
    path.write_text("old")
    with pytest.raises(OSError, match="disk"), replacing(path) as file:
        file.write(b"half")
        raise OSError("the disk is full")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("score.json", "old")]
