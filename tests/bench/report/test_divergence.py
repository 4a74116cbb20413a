from pathlib import Path
from typing import Any

import pytest

from bench.report.excerpts import Event
from bench.report.narration import cast_of
from bench.report.score_file import Finding, cases_of, events_of
from bench.report.timeline import Comparison, compare
from tests.bench.report.timeline_run import write_run

FRAME = "01ABCDEF:7:2B11FF0D"
WEST, EAST = "B827EBFFFE000001", "B827EBFFFE000002"


@pytest.fixture
def events(tmp_path: Path) -> list[Event]:
    run = write_run(tmp_path)
    return events_of(run, cases_of(run)[0])


def compared(events: list[Event], *findings: Finding) -> Comparison:
    return compare(events, cast_of(events), findings)


def changed(events: list[Event], kind: str, n: int, **fields: Any) -> list[Event]:
    """The events with some fields of the n-th of that kind changed."""
    place = [i for i, event in enumerate(events) if event["kind"] == kind][n]
    return [event | fields if i == place else event for i, event in enumerate(events)]


def test_the_first_divergence_is_the_outcome_that_was_not_due(events: list[Event]) -> None:
    comparison = compared(events)
    first = comparison.first
    assert first is not None
    assert events[first.place]["seq"] == 1
    assert (first.t_us, first.text) == (1_109_500, "due: SoftDuplicate marked Suppressed")
    assert list(comparison.met.values()) == [True, False, False]


def test_what_the_device_did_not_say_diverges_later(events: list[Event]) -> None:
    texts = [found.text for found in compared(events).divergences]
    assert texts[1:] == ["alpha did not say '+EVT:SEND_CONFIRMED_OK'"]


def test_a_frame_that_a_station_missed_diverges_where_it_was_lost(events: list[Event]) -> None:
    lost = {"source": "air", "seq": 1, "t_us": 1_070_000, "kind": "radio.lost"}
    lost |= {"transmission": 0, "receiver": EAST, "cause": "faded"}
    without = [
        event
        for event in events
        if event.get("station") != EAST or event["kind"].startswith(("case", "fault"))
    ]
    after = sorted([*without, lost], key=lambda event: event["t_us"])
    first = compared(after).first
    assert first is not None
    assert after[first.place] == lost
    assert first.text == f"due: east hears {FRAME}"


def test_a_text_that_the_tap_dropped_diverges_there(events: list[Event]) -> None:
    dropped = [
        event | {"dropped": True} if event["source"] == f"tap-{EAST}" else event
        for event in events
        if event["kind"] != "lns.outcome" or event["station"] != EAST
    ]
    first = compared(dropped).first
    assert first is not None
    assert dropped[first.place]["source"] == f"tap-{EAST}"


def test_a_reception_that_was_not_due_diverges(events: list[Event]) -> None:
    first_row_only = [event for event in events if event.get("n") != 1]
    first = compared(first_row_only).first
    assert first is not None
    assert first.text == "east heard it and was not to"


def test_a_reception_without_an_outcome_diverges(events: list[Event]) -> None:
    silent = [event for event in events if event["source"] != "lns-a"]
    first = compared(silent).first
    assert first is not None
    assert first.text == "an outcome, due: NonDuplicate forwarded RX1"


def test_bodies_and_answers_on_the_air_are_compared(events: list[Event]) -> None:
    due = {"source": "bench", "seq": 90, "t_us": 1_900_000, "kind": "case.expect"}
    body = {"messageId": "m", "devEui": "D", "fCnt": 7, "station": WEST, "payload": "00"}
    more = [
        *changed(events, "upstream.published", 0, body=body),
        due | {"expect": "upstream", "dev_eui": "D", "f_cnt": 7, "station": WEST}
        | {"body": {"payload": "01"}},
        due | {"expect": "on_air", "frame_id": FRAME, "windows": ["RX1"]},
    ]  # fmt: skip
    texts = [found.text for found in compared(more).divergences]
    assert "due: payload '01'" in texts
    assert "reported on the air: none" in texts


def test_findings_of_a_score_diverge_at_their_events(events: list[Event]) -> None:
    finding = Finding("LNS", "oracle", station=WEST, t_us=1_074_500, text="no")
    first = compared(events, finding).first
    assert first is not None
    assert (first.t_us, first.text) == (1_074_500, "oracle: no")


def test_a_case_that_expects_nothing_or_cannot_be_read_has_no_divergence(
    events: list[Event],
) -> None:
    assert compared([e for e in events if e["kind"] != "case.expect"]) == Comparison()
    assert compared([{"t_us": 1, "kind": "case.expect", "expect": "outcome"}]) == Comparison()
