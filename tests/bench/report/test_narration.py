import pytest

from bench.report.narration import (
    Cast,
    cast_of,
    downlink,
    in_words,
    label,
    megahertz,
    msgtype,
    seconds,
    text_in_words,
)

CAST = Cast({"D1": "alpha"}, {"G1": "station A", "G2": "station B"}, ("lns-a",))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"kind": "case.begin", "case": "c", "title": "A title"}, "the case begins: A title"),
        ({"kind": "case.end", "verdict": "FAIL", "reasons": ["x"]}, "the case ends: FAIL, x"),
        (
            {"kind": "case.expect", "expect": "device", "dev_eui": "D1", "line": "OK"},
            "due: alpha prints “OK”",
        ),
        (
            {"kind": "case.expect", "expect": "outcome", "frame_id": "F", "n": 1, "station": "G2"}
            | {"status": "-", "upstream": "dropped", "reason": "Malformed", "answer": "NotAsked"},
            "due: reception 1 of F at station B: no status · dropped: Malformed · no answer asked",
        ),
        (
            {"kind": "case.device", "name": "alpha", "dev_eui": "D1", "activation": "abp"}
            | {"strategy": "Drop", "relaxed_f_cnt": True, "f_cnt_up": 6},
            "alpha (D1) joins the case: abp, strategy Drop, relaxed counter, last FCnt heard 6",
        ),
        (
            {"kind": "case.lns", "lns": "lns-a", "event": "restart", "retention_us": 60_000_000}
            | {"region": "EU868"},
            "lns-a: restart, EU868, remembers for 60 s",
        ),
        (
            {"kind": "fault.begin", "seam": "tap", "fault": "delay", "station": "G1"}
            | {"detail": {"delay_us": 5}},
            "fault on the tap at station A: delay (delay_us 5)",
        ),
        (
            {"kind": "fault.end", "seam": "tap", "fault": "delay"},
            "end of the fault on the tap: delay",
        ),
        ({"kind": "device.command", "dev_eui": "D1", "text": "ATZ"}, "to alpha: ATZ"),
        ({"kind": "device.line", "dev_eui": "D1", "text": "OK"}, "alpha: OK"),
        (
            {"kind": "radio.transmit", "direction": "up", "sender": "D1", "frame_id": "F"}
            | {"genuine": False, "dr": 5, "freq_hz": 868100000, "airtime_us": 61696}
            | {"transmission": 3, "attempt": 2},
            "alpha sends F, attempt 2, not a frame of a device; DR5 868.1 MHz, 61.7 ms on the air "
            "(transmission 3)",
        ),
        (
            {"kind": "radio.lost", "receiver": "G1", "transmission": 3, "cause": "faded"},
            "station A does not hear transmission 3: faded",
        ),
        (
            {"kind": "station.text", "station": "G1", "direction": "up", "dropped": True}
            | {"held_us": 1500, "text": "?"},
            "station A → LNS: “?”, held back for 1.5 ms, dropped by the tap",
        ),
        (
            {"kind": "lns.outcome", "lns": "lns-a", "station": "G9", "upstream": "dropped"}
            | {"reason": "Malformed", "answer": "NotAsked"},
            "lns-a decides on an unreadable frame from G9: no status · dropped: Malformed · "
            "no answer asked",
        ),
        (
            {"kind": "lns.downlink", "stage": "scheduled", "window": "RX1", "station": "G1"}
            | {"margin_us": 812000},
            "answer scheduled for RX1 by station A, 812.0 ms before the window",
        ),
        (
            {"kind": "upstream.published", "topic": "t", "body": {"fCnt": 7, "dupMsg": True}},
            "published on t: FCnt 7, payload None, marked as a duplicate (message None)",
        ),
        ({"kind": "upstream.published", "topic": "t", "body": None}, "published on t"),
        (
            {"kind": "upstream.failed", "topic": "t", "cause": "cut"},
            "not published on t: cut",
        ),
        ({"kind": "lns.evicted", "frame_id": "F", "age_us": 9}, "frame_id F, age_us 9"),
        ({}, ""),
    ],
)
def test_an_event_in_words(event: dict, words: str) -> None:
    assert in_words(event, CAST) == words


def test_seconds_are_exact_and_may_be_negative() -> None:
    assert [seconds(t_us) for t_us in (0, 1_250_000, -3)] == ["0.000000", "1.250000", "−0.000003"]


def test_the_cast_is_named_from_the_events() -> None:
    cast = cast_of(
        [
            {"kind": "case.station", "eui": "G1", "name": "west"},
            {"kind": "case.device", "dev_eui": "D0", "name": "silent"},
            {"kind": "case.device", "dev_eui": "D1", "name": "alpha"},
            {"kind": "radio.transmit", "direction": "up", "sender": "D1"},
            {"kind": "device.line", "dev_eui": "D2", "source": "device-beta"},
            {"kind": "radio.transmit", "direction": "up", "sender": "D3"},
            {"kind": "lns.outcome", "station": "G2", "lns": "lns-b"},
            {"kind": "station.text", "station": "G1"},
        ]
    )
    assert cast == Cast(
        {"D1": "alpha", "D2": "beta", "D3": "D3"}, {"G1": "west", "G2": "station B"}, ("lns-b",)
    )


def test_what_a_network_server_and_the_host_tell_of_themselves() -> None:
    cast = Cast({}, {"G1": "west"}, ("lns-a",))
    ended = {"kind": "lns.connection", "stage": "disconnected", "station": "G1", "peer": "1:2"}
    assert in_words({**ended, "cause": "gone"}, cast) == "west disconnected (1:2): gone"
    assert in_words({"kind": "lns.connection", "stage": "refused", "peer": "1:2"}, cast) == (
        "a station refused (1:2)"
    )
    had = {"kind": "upstream.acknowledged", "case": "c", "message_id": "m-2"}
    assert in_words(had, cast) == "the broker has the message m-2"
    stalled = {"kind": "host.stalled", "late_us": 179_600}
    assert in_words(stalled, cast) == "the host of the bench stalled for 179.6 ms"
    assert in_words({"kind": "of.tomorrow", "case": "c", "more": 1}, cast) == "more 1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"msgtype":"updf","MHdr":64,"DevAddr":-1234567,"FCnt":2,"FPort":-1,"FRMPayload":"",'
            '"DR":5,"Freq":868100000,"upinfo":{"rssi":-51,"snr":9.5,"xtime":62768920078008177}}',
            "updf FFED2979 FCnt 2, unconfirmed, no FPort, payload –, DR5 868.1 MHz, "
            "RSSI -51 dBm, SNR 9.5 dB, xtime 62768920078008177",
        ),
        (
            '{"msgtype":"jreq","JoinEui":"AA-13","DevEui":"33-31","DevNonce":35076,"DR":5,'
            '"Freq":868100000,"upinfo":{"rssi":-60,"snr":7,"xtime":1}}',
            "jreq of 33-31 for AA-13, DevNonce 35076, DR5 868.1 MHz, RSSI -60 dBm, SNR 7 dB, "
            "xtime 1",
        ),
        (
            '{"msgtype":"dnmsg","diid":7,"pdu":"20aabbccddeeff00112233445566778899","RX2DR":0,'
            '"RX2Freq":869525000}',
            "dnmsg 7: join accept; RX2 DR0 869.525 MHz",
        ),
        ('{"msgtype":"dntxed","diid":7}', "dntxed 7: the station has sent the downlink"),
        ('{"msgtype":"router_config","region":"EU868"}', "router_config: EU868"),
        (
            '{"msgtype":"version","station":"2.0.6","protocol":2}',
            "version: station 2.0.6, protocol 2",
        ),
        ('{"msgtype":"timesync","txtime":1}', "timesync"),
        ('{"msgtype":"updf"}', 'updf with unreadable fields: “{"msgtype":"updf"}”'),
        ('{"msgtype":"novel"}', '“{"msgtype":"novel"}”'),
        ("not JSON", "“not JSON”"),
        ("[" * 100_000, f"“{'[' * 159}…”"),
    ],
)
def test_a_message_in_words(text: str, words: str) -> None:
    assert text_in_words(text) == words


def test_a_field_of_the_wrong_type_is_quoted() -> None:
    text = (
        '{"msgtype":"updf","MHdr":"x","DevAddr":[],"FCnt":2,"FPort":1,"FRMPayload":"","upinfo":0}'
    )
    assert text_in_words(text).startswith("updf with unreadable fields: “")


def test_the_label_of_an_arrow_is_short() -> None:
    assert label('{"msgtype":"updf","FCnt":7}') == "updf FCnt 7"
    assert label('{"msgtype":"jreq","DevNonce":3}') == "jreq DevNonce 3"
    assert label("}") == "unreadable"
    assert msgtype(None) == "unreadable"


def test_downlinks_in_words() -> None:
    assert downlink("60efcdab0120030012345678") == "ack for 01ABCDEF, FCntDown 3"
    assert downlink("zz") == "unreadable frame"


def test_a_frequency_for_reading() -> None:
    assert megahertz(869525000) == "869.525 MHz"
    assert megahertz(868000000) == "868.0 MHz"
