from bench.report.excerpts import Event
from bench.report.narration import cast_of
from bench.report.stories import Scene
from bench.report.timeline import Comparison, Divergence, Row, Tone, rows

DEVICE = {"t_us": 0, "kind": "case.device", "dev_eui": "D1", "name": "alpha"}
SENT = {"t_us": 10, "kind": "radio.transmit", "direction": "up", "sender": "D1", "f_cnt": 7}
SENT |= {"dr": 5, "freq_hz": 868_100_000}
HEARD = {"t_us": 20, "kind": "station.text", "station": "G1", "direction": "up"}
HEARD |= {"text": '{"msgtype":"updf","FCnt":7}', "lns": "lns-a"}


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
