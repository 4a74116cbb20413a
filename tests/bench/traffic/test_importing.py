"""Files become a run: cases, verdicts, manifest, and no keys in it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench import traffic
from bench.traffic.recording import CONFORMANCE as CONFORMANCE_NOTICE
from bench.traffic.recording import SAINT_EYNARD as SAINT_EYNARD_NOTICE
from tests.bench.traffic.run_lines import of
from tests.bench.traffic.traffic_files import (
    CONFORMANCE,
    SAINT_EYNARD,
    document,
    records,
    written,
)

BOTH = (CONFORMANCE, SAINT_EYNARD)


def imported(tmp_path: Path, *files: Path, strategy: str | None = None, **options: Any) -> Path:
    options = {"seed": 1, "limit": None} | options
    return traffic.run(files, runs_dir=tmp_path / "runs", strategy=strategy, **options)


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return found


def test_every_log_passes_with_every_strategy(tmp_path: Path) -> None:
    folder = imported(tmp_path, *BOTH)
    ends = of(folder, "case.end")
    assert [(end["case"], end["verdict"], end["reasons"]) for end in ends] == [
        (f"imported/{log}[{strategy}]", "PASS", [])
        for log in (
            "conformance.json/agent_result_fixFCntUpFUN03",
            "conformance.json/agent_resultACT",
            "conformance.json/agent_resultFUN",
            "saint-eynard.ndjson",
        )
        for strategy in ("Drop", "Mark", "None")
    ]


def test_a_case_says_what_it_is(tmp_path: Path) -> None:
    folder = imported(tmp_path, SAINT_EYNARD, strategy="Mark")
    (begin,) = of(folder, "case.begin")
    told = {name: begin[name] for name in ("group", "scenario", "file", "title", "strategy", "rig")}
    assert told == {
        "group": "imported",
        "scenario": "saint-eynard.ndjson",
        "file": "saint-eynard.ndjson",
        "title": "4 archived uplinks of 1 device, heard by 8 gateways",
        "strategy": "Mark",
        "rig": "simulated",
    }
    assert begin["params"] == {
        "format": "ChirpStack events, one per line",
        "uplinks": "4",
        "receptions": "16",
        "status_lines": "1",
        "wrong_clocks": "2",
    }
    assert "confirmed" not in begin


def test_every_reception_has_one_expectation_and_one_outcome(tmp_path: Path) -> None:
    folder = imported(tmp_path, SAINT_EYNARD, strategy="Mark")
    found = Counter(line["kind"] for line in of(folder, "case.expect", "lns.outcome"))
    texts = [line for line in of(folder, "station.text") if '"updf"' in line["text"]]
    assert found == {"case.expect": 16, "lns.outcome": 16}
    assert len(texts) == 16


def test_the_statuses_of_the_first_archived_uplink(tmp_path: Path) -> None:
    folder = imported(tmp_path, SAINT_EYNARD, strategy="Mark", limit=1)
    outcomes = of(folder, "lns.outcome")
    # The gateway 489E… is the first listed of those that tell the time, and it is there twice.
    first, *others = outcomes
    assert (first["station"], first["status"], first["upstream"]) == (
        "489EBDE27FABEE58", "NonDuplicate", "forwarded",
    )  # fmt: skip
    assert Counter((o["status"], o["upstream"], o.get("reason")) for o in others) == {
        ("SoftDuplicate", "marked", None): 5,
        ("DuplicateDueToResubmission", "dropped", "InvalidFrameCounter"): 1,
    }


def test_every_uplink_is_announced_with_its_sender(tmp_path: Path) -> None:
    folder = imported(tmp_path, *BOTH, strategy="None")
    sent = of(folder, "radio.transmit")
    assert len(sent) == 15 + 4
    assert {(line["origin"], line["genuine"], line["direction"]) for line in sent} == {
        ("injected", True, "up")
    }
    assert sum("f_cnt" not in line for line in sent) == 1  # the join request


def test_stations_speak_as_basics_station_does(tmp_path: Path) -> None:
    folder = imported(tmp_path, SAINT_EYNARD, strategy="None", limit=1)
    texts = [line["text"] for line in of(folder, "station.text")]
    assert any(text.startswith('{"msgtype":"version","station":"2.0.6') for text in texts)
    told = next(json.loads(text) for text in texts if text.startswith('{"msgtype":"updf"'))
    assert list(told) == [
        "msgtype", "MHdr", "DevAddr", "FCtrl", "FCnt", "FOpts", "FPort", "FRMPayload", "MIC",
        "RefTime", "DR", "Freq", "upinfo",
    ]  # fmt: skip
    assert (told["FCnt"], told["DR"], told["Freq"]) == (1151, 5, 868_500_000)
    assert told["upinfo"]["xtime"] > 0


def test_answers_reach_the_tap_of_the_station_that_heard(tmp_path: Path) -> None:
    folder = imported(tmp_path, CONFORMANCE, strategy="Drop")
    down = [line["text"] for line in of(folder, "station.text") if '"dnmsg"' in line["text"]]
    # The join request, two confirmed frames, and the repetition of one of them.
    assert len(down) == 4


def test_two_stations_deliver_what_one_has_heard(tmp_path: Path) -> None:
    folder = imported(tmp_path, CONFORMANCE, strategy="Mark", stations=2)
    assert {end["verdict"] for end in of(folder, "case.end")} == {"PASS"}
    statuses = Counter(outcome["status"] for outcome in of(folder, "lns.outcome"))
    # Eight repetitions, each heard twice; the copy of the join request is the hard duplicate.
    assert statuses["Duplicate"] == 1
    assert statuses["SoftDuplicate"] == 14
    assert sum(statuses.values()) == 2 * 15


def test_a_counter_that_goes_back_and_unproven_frames_pass_too(tmp_path: Path) -> None:
    lines = [row for row in records() if "rxInfo" in row]
    lines[2]["fCnt"], lines[3]["fCnt"], lines[3]["confirmedUplink"] = 0, 1, True
    content = document()
    content["logs"][0]["events"][0]["mic_ok"] = False
    content["logs"][0]["events"][0]["phy"] = content["logs"][0]["events"][0]["phy"][:-2] + "00"
    del content["logs"][1]["sessions"]["45688dde"]
    folder = imported(
        tmp_path,
        written(tmp_path / "again.ndjson.gz", lines),
        written(tmp_path / "spoilt.json", content),
    )
    assert {end["verdict"] for end in of(folder, "case.end")} == {"PASS"}
    reasons = Counter(outcome.get("reason") for outcome in of(folder, "lns.outcome"))
    assert (reasons["MicMismatch"], reasons["UnknownDevice"]) == (3, 6)


def test_the_manifest_tells_files_and_licences(tmp_path: Path) -> None:
    told = manifest(imported(tmp_path, *BOTH, strategy="None"))
    assert told["notices"] == [CONFORMANCE_NOTICE, SAINT_EYNARD_NOTICE]
    assert (told["rig"], told["seed"]) == ("simulated", 1)
    assert [found["file"] for found in told["inventory"]["traffic"]] == [
        "conformance.json", "saint-eynard.ndjson",
    ]  # fmt: skip


def test_a_record_left_out_is_told_and_stands_in_the_manifest(tmp_path: Path) -> None:
    lines = [row for row in records() if "rxInfo" in row]
    lines[1]["data"] = "?"
    told: list[str] = []
    folder = imported(
        tmp_path,
        written(tmp_path / "a.ndjson", lines),
        strategy="None",
        progress=lambda text, done=0, total=0: told.append(text),
    )
    reason = "a.ndjson: line 2: non-hexadecimal number found in fromhex() arg at position 0"
    assert told[:2] == ["reading a.ndjson", f"1 record left out, the first: {reason}"]
    assert manifest(folder)["inventory"]["traffic"][0]["left_out"] == [reason]
    assert [end["verdict"] for end in of(folder, "case.end")] == ["PASS"]


def test_progress_goes_up_to_the_number_of_receptions(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    imported(
        tmp_path,
        SAINT_EYNARD,
        strategy="None",
        progress=lambda text, done=0, total=0: told.append((text, done, total)),
    )
    assert told[-1] == ("imported/saint-eynard.ndjson[None]", 16, 16)


def test_no_key_is_ever_written(tmp_path: Path) -> None:
    folder = imported(tmp_path, CONFORMANCE)
    content = document()
    keys = [content["meta"]["app_key"]]
    keys += [key for log in content["logs"] for s in log["sessions"].values() for key in s.values()]
    assert len(keys) == 9
    for path in sorted(folder.iterdir()):
        text = path.read_text(encoding="utf-8").upper()
        assert not [key for key in keys if key.upper() in text], path.name


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (imported(tmp_path, *BOTH, strategy="Mark") for _ in range(2))
    assert first != second
    for path in sorted(first.glob("*.jsonl")):
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_cases_of_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folder = imported(tmp_path, SAINT_EYNARD, SAINT_EYNARD, strategy="None", limit=1)
    assert [end["case"] for end in of(folder, "case.end")] == [
        "imported/saint-eynard.ndjson[None]",
        "imported/saint-eynard.ndjson#2[None]",
    ]


def test_a_file_that_cannot_be_used_leaves_no_run(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("nothing")
    with pytest.raises(traffic.TrafficError, match="unknown format"):
        imported(tmp_path, SAINT_EYNARD, path)
    assert not (tmp_path / "runs").exists()


def test_an_unknown_strategy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Sometimes"):
        imported(tmp_path, SAINT_EYNARD, strategy="Sometimes")
