from pathlib import Path
from typing import Any

import pytest

from bench.report.excerpts import Event
from bench.report.narration import cast_of
from bench.report.score_file import Finding, cases_of, events_of
from bench.report.stories import Scene
from bench.report.timeline import Comparison, Divergence, Drawing, Row, Tone, cells, compare, rows
from tests.bench.report.timeline_run import write_run

DEVICE = {"t_us": 0, "kind": "case.device", "dev_eui": "D1", "name": "alpha"}
SENT = {"t_us": 10, "kind": "radio.transmit", "direction": "up", "sender": "D1", "f_cnt": 7}
SENT |= {"dr": 5, "freq_hz": 868_100_000}
HEARD = {"t_us": 20, "kind": "station.text", "station": "G1", "direction": "up"}
HEARD |= {"text": '{"msgtype":"updf","FCnt":7}', "lns": "lns-a"}

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


DECIDED = {"t_us": 30, "kind": "lns.outcome", "station": "G1", "lns": "lns-a", "answer": "RX1"}
DECIDED |= {"status": "NonDuplicate", "upstream": "forwarded"}
DOWN = HEARD | {"t_us": 50, "direction": "down", "text": '{"msgtype":"dnmsg","RX1Freq":1}'}


def drawn(*events: Event, width: int = 80, comparison: Comparison | None = None) -> list[str]:
    scene = Scene(events, cast_of(events))
    told = rows(events, scene, comparison or Comparison(), range(len(events)))
    drawing = Drawing(scene, width, 8)
    return [str(line) for line in [*drawing.head(), *drawing.lines(told, 0)]]


def test_arrows_stand_between_the_lanes() -> None:
    head = 2
    sent, heard, decided, dropped, down = drawn(
        DEVICE, SENT, HEARD, DECIDED, DOWN | {"dropped": True}, DOWN | {"t_us": 51}
    )[head:]
    assert sent.split() == ["0.000010", "├───►│", *"││││", *"FCnt 7, DR5 868.1 MHz".split()]
    assert heard.split()[:5] == ["0.000020", "│", "├────●────●───►│", "│", "updf"]
    assert decided.split()[:7] == ["0.000030", *"││││●│"]
    assert dropped.split()[4:6] == ["✗────┤", "│"]
    assert down.split()[3:5] == ["│◄───●────┤", "│"]


def test_a_fault_goes_across_and_a_loss_is_a_cross() -> None:
    fault, lost = drawn(
        {"t_us": 1, "kind": "fault.begin", "seam": "tap", "fault": "cut", "station": "G1"},
        {"t_us": 2, "kind": "radio.lost", "receiver": "G1", "cause": "faded"},
    )[-2:]
    assert "═══╪═══" in fault
    assert lost.count("✗") == 1


@pytest.mark.parametrize("width", [80, 100, 133, 200])
def test_every_line_fits(width: int) -> None:
    crowd = [
        HEARD | {"t_us": n, "station": f"B827EBFFFE{n:06}", "lns": f"lns-{n % 5}"}
        for n in range(12)
    ]
    long = DECIDED | {"reason": "InvalidFrameCounter", "upstream": "dropped", "lns": "Ω" * 40}
    chinese = {"t_us": 60, "kind": "device.line", "dev_eui": "D1", "text": "+EVT:" + "早" * 99}
    expected = {"t_us": 70, "kind": "case.expect", "expect": "device", "line": "x" * 400}
    lines = drawn(DEVICE, SENT, *crowd, long, chinese, expected, width=width)
    assert max(map(cells, lines)) <= width


def test_parties_beyond_the_room_share_a_lane() -> None:
    crowd = [HEARD | {"t_us": n, "station": f"G{n:02}"} for n in range(12)]
    head = "".join(drawn(DEVICE, SENT, *crowd)[:2])
    assert "others" in head
    assert "tap" in head


def test_the_first_divergence_is_marked_in_the_margin_and_in_words() -> None:
    comparison = Comparison({}, [Divergence(1, 10, "due: silence")])
    (line, *_) = drawn(DEVICE, SENT, comparison=comparison, width=120)[1:]
    assert line.startswith("▶ 0.000010")
    assert "FIRST DIVERGENCE" in line


def test_the_time_stands_where_it_has_gone_on() -> None:
    lines = drawn(DEVICE, SENT, HEARD | {"t_us": 10})
    assert ["0.000010" in line for line in lines[-2:]] == [True, False]


def told(*events: Event, comparison: Comparison | None = None) -> list[Row]:
    scene = Scene(events, cast_of(events))
    return rows(events, scene, comparison or Comparison(), range(len(events)))


def words(*events: Event) -> list[str]:
    return [row.words for row in told(*events)]


def test_an_uplink_in_words() -> None:
    assert words(
        DEVICE,
        {"t_us": 5, "kind": "device.command", "dev_eui": "D1", "text": "AT+SEND=2:00"},
        SENT,
        HEARD | {"held_us": 40_000},
        {"t_us": 30, "kind": "lns.outcome", "station": "G1", "lns": "lns-a", "answer": "RX1"}
        | {"status": "NonDuplicate", "upstream": "forwarded"},
        {"t_us": 30, "kind": "upstream.published", "body": {"fCnt": 7, "dupMsg": True}},
        {"t_us": 40, "kind": "device.line", "dev_eui": "D1", "text": "+EVT:SEND_OK"},
    ) == [
        "> AT+SEND=2:00",
        "FCnt 7, DR5 868.1 MHz",
        "updf FCnt 7, held 40.0 ms",
        "NonDuplicate · forwarded · RX1",
        "published FCnt 7, marked dupMsg",
        "< +EVT:SEND_OK",
    ]


def test_losses_and_faults_in_words() -> None:
    assert words(
        {"t_us": 0, "kind": "case.station", "eui": "G1", "name": "west"},
        {"t_us": 1, "kind": "fault.begin", "seam": "tap", "fault": "delay", "station": "G1"}
        | {"detail": {"after_us": 5}},
        {"t_us": 2, "kind": "radio.lost", "receiver": "G1", "cause": "faded"},
        HEARD | {"dropped": True, "origin": "injected"},
        {"t_us": 21, "kind": "upstream.failed", "cause": "cut"},
        {"t_us": 22, "kind": "fault.end", "seam": "tap", "fault": "delay"},
    ) == [
        "fault: delay on the tap, west (after_us 5)",
        "west: not heard: faded",
        "injected: updf FCnt 7, dropped by the tap",
        "not published: cut",
        "end of the fault on the tap: delay",
    ]


def test_a_key_is_never_told() -> None:
    key = "00112233445566778899AABBCCDDEEFF"
    line = {"t_us": 1, "kind": "device.line", "dev_eui": "D1", "text": f"+EVT:{key}"}
    assert words(line) == ["< +EVT:****"]


def test_expectations_and_divergences_are_marked_in_words() -> None:
    expected = {"t_us": 30, "kind": "case.expect", "expect": "device", "dev_eui": "D1"}
    expected |= {"line": "OK"}
    comparison = Comparison({2: False, 3: True}, [Divergence(1, 10, "due: silence")])
    sent, unmet, met = told(DEVICE, SENT, expected, expected, comparison=comparison)
    assert sent.words == "FCnt 7, DR5 868.1 MHz  ✗ due: silence"
    assert (sent.first, sent.diverges, sent.tone) == (True, True, Tone.DIVERGED)
    assert (unmet.words[:5], unmet.tone) == ("✗ due", Tone.DIVERGED)
    assert (met.words[:5], met.tone) == ("✓ due", Tone.MET)


def test_a_long_silence_has_a_row_of_its_own() -> None:
    _, silence, _ = told(DEVICE, SENT, HEARD | {"t_us": 3_000_010})
    assert (silence.words, silence.place) == ("3.0 s later", None)


def test_an_answer_is_scheduled_at_its_server() -> None:
    (row,) = told({"t_us": 1, "kind": "lns.downlink", "lns": "lns-a", "stage": "scheduled"}
                  | {"window": "RX1", "station": "G1"})  # fmt: skip
    assert row.step is not None
    assert row.step.stops[0].name == "lns-a"
    assert row.words == "answer scheduled for RX1 by station A"


def test_what_is_not_known_is_told_by_its_fields() -> None:
    claim = {"t_us": 1, "kind": "lns.claim", "lns": "lns-a", "granted": False}
    inbox = {"t_us": 2, "kind": "inbox.ignored", "messageId": "m"}
    assert words(claim, inbox) == [
        "lns.claim: lns lns-a, granted False",
        "inbox.ignored: messageId m",
    ]
