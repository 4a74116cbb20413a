"""What a capture says of stations that cannot answer."""

import json
from pathlib import Path

import pytest

from bench.capture.run_folder import captures_to_ask, unanswering

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
