"""Captures of real traffic: everything passes, and the counts are those of the files themselves.

What is expected here is counted from the raw records by lines that share nothing with the import.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench.traffic import read
from tests.bench.traffic.conftest import ARCHIVED_UPLINKS
from tests.bench.traffic.run_lines import lines, of
from tests.sizes import size

# One worker makes the runs, which take a minute.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("captures")]

RETENTION_S = 60
LINES = size(2_000, 14_204)
UPLINKS, STATUS_LINES, RECEPTIONS = size((1_945, 55, 12_866), (13_768, 436, 93_435))


@pytest.fixture(scope="module")
def archive(saint_eynard_capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first lines of the archive; all of them in a soak."""
    file = tmp_path_factory.mktemp("archive") / saint_eynard_capture.name
    with gzip.open(saint_eynard_capture) as whole, gzip.open(file, "wb", compresslevel=1) as part:
        part.writelines(islice(whole, LINES))
    return file


def conformance_logs(path: Path) -> list[list[dict[str, Any]]]:
    """The uplinks of each log."""
    logs = json.loads(path.read_bytes())["logs"]
    return [[event for event in log["events"] if event["dir"] == "up"] for log in logs]


def archived(path: Path) -> Iterator[dict[str, Any]]:
    """Every line of the archive."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def test_the_conformance_file_is_read_whole(conformance_capture: Path) -> None:
    found = read(conformance_capture)
    assert not found.left_out
    facts = found.facts()
    assert (facts["logs"], facts["frames"], facts["downlinks"]) == (11, 1031, 235)
    assert (facts["uplinks"], facts["receptions"]) == (796, 796)
    assert facts["uplinks"] == sum(map(len, conformance_logs(conformance_capture)))


def test_every_conformance_log_passes_with_every_strategy(conformance_run: Path) -> None:
    ends = of(conformance_run, "case.end")
    assert len(ends) == 11 * 3
    assert [end["case"] for end in ends if end["verdict"] != "PASS"] == []


def test_no_line_of_the_conformance_run_is_torn(conformance_run: Path) -> None:
    counts = Counter(line["kind"] for line in lines(conformance_run))
    assert counts["lns.outcome"] == counts["case.expect"] == 796 * 3
    assert counts["radio.transmit"] == 796 * 3


def test_the_statuses_of_the_conformance_logs(
    conformance_run: Path, conformance_capture: Path
) -> None:
    due: Counter[str] = Counter()
    for uplinks in conformance_logs(conformance_capture):
        last_heard: dict[str, datetime] = {}
        for event in uplinks:
            heard = datetime.fromisoformat(event["t"].replace(",", "."))
            before = last_heard.get(event["phy"])
            last_heard[event["phy"]] = heard
            again = before is not None and (heard - before).total_seconds() < RETENTION_S
            due["DuplicateDueToResubmission" if again else "NonDuplicate"] += 1
    assert due == {"NonDuplicate": 783, "DuplicateDueToResubmission": 13}
    outcomes = of(conformance_run, "lns.outcome")
    for strategy in ("Drop", "Mark", "None"):
        assert due == Counter(o["status"] for o in outcomes if o["strategy"] == strategy)


def test_confirmed_frames_and_joins_of_the_conformance_logs_are_answered(
    conformance_run: Path, conformance_capture: Path
) -> None:
    uplinks = [event for log in conformance_logs(conformance_capture) for event in log]
    asking = Counter(event["mtype"] for event in uplinks)
    assert (asking["confirmed-up"], asking["join-request"]) == (12, 16)
    answered = Counter(
        outcome["strategy"]
        for outcome in of(conformance_run, "lns.outcome")
        if outcome["answer"] == "RX1"
    )
    assert answered == {"Drop": 28, "Mark": 28, "None": 28}


def test_the_archive_is_read_whole(archive: Path) -> None:
    raw = list(archived(archive))
    uplinks = [line for line in raw if "rxInfo" in line]
    assert (len(uplinks), len(raw) - len(uplinks)) == (UPLINKS, STATUS_LINES)
    facts = read(archive).facts()
    assert not facts["left_out"]
    assert (facts["uplinks"], facts["status_lines"]) == (UPLINKS, STATUS_LINES)
    assert facts["receptions"] == sum(len(line["rxInfo"]) for line in uplinks) == RECEPTIONS


def test_the_archive_passes(saint_eynard_run: Path) -> None:
    assert [(end["verdict"], end["reasons"]) for end in of(saint_eynard_run, "case.end")] == [
        ("PASS", [])
    ]


def test_the_statuses_of_the_archive(saint_eynard_run: Path, saint_eynard_capture: Path) -> None:
    every = (line for line in archived(saint_eynard_capture) if "rxInfo" in line)
    uplinks = list(islice(every, ARCHIVED_UPLINKS))
    first, receptions = len(uplinks), sum(len(line["rxInfo"]) for line in uplinks)
    again, open_ = resubmissions(uplinks)
    counts: Counter[str] = Counter()
    words: Counter[tuple[str, str, str, str]] = Counter()
    published: Counter[bool] = Counter()  # by "is it marked as a copy?"
    for line in lines(saint_eynard_run):
        counts[line["kind"]] += 1
        if line["kind"] == "lns.outcome":
            reason = line.get("reason", "-")
            words[line["status"], line["upstream"], reason, line["answer"]] += 1
        elif line["kind"] == "upstream.published":
            published["dupMsg" in line["body"]] += 1
    assert counts["radio.transmit"] == first
    assert counts["lns.outcome"] == counts["case.expect"] == receptions
    observed_again = words.pop(
        ("DuplicateDueToResubmission", "dropped", "InvalidFrameCounter", "NotAsked")
    )
    assert again <= observed_again <= again + open_
    assert words == {
        ("NonDuplicate", "forwarded", "-", "NotAsked"): first,
        ("SoftDuplicate", "marked", "-", "NotAsked"): receptions - first - observed_again,
    }
    assert published == {False: first, True: receptions - first - observed_again}


def resubmissions(uplinks: list[dict[str, Any]]) -> tuple[int, int]:
    """How often the first gateway reports an uplink again; and how often that is left to chance.

    The first of those that tell a time within 2 s of the archive's is the first to arrive. Where
    nobody does, the arrivals are drawn.
    """
    certain = left_to_chance = 0
    for uplink in uplinks:
        told = []
        for place, entry in enumerate(uplink["rxInfo"]):
            if "time" in entry:
                ms = datetime.fromisoformat(entry["time"].replace("Z", "+00:00")).timestamp() * 1000
                if abs(ms - uplink["_timestamp"]) <= 2000:
                    told.append((ms, place, entry["gatewayID"]))
        reports = Counter(entry["gatewayID"] for entry in uplink["rxInfo"])
        if told:
            certain += reports[min(told)[2]] - 1
        else:
            left_to_chance += max(reports.values()) - 1
    return certain, left_to_chance
