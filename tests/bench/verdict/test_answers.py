"""What an answer says, octet by octet."""

import json

import pytest

from bench.capture.reading import Event
from bench.verdict.expectation import Evidence, Heard, Reasons
from bench.verdict.particulars import ANSWER_FIELDS, answer_of, wrong_particulars

WINDOWS = {
    "rctx": 1,
    "RxDelay": 2,
    "RX1DR": 5,
    "RX1Freq": 868_100_000,
    "RX2DR": 0,
    "RX2Freq": 869_525_000,
}
FRAME = "F"


def dnmsg(pdu: str) -> dict[str, object]:
    return {"msgtype": "dnmsg", "xtime": 7, "pdu": pdu, **WINDOWS}


@pytest.mark.parametrize(
    ("pdu", "said"),
    [
        # MHDR, DevAddr, FCtrl, FCnt, MIC
        ("60010000002001000A0B0C0D", (1, True, False, 0, None, False)),
        # A confirmed one with two octets in FOpts, FPort 7 and one of payload; more waits
        ("A00100000012FFFF06FF07AA0A0B0C0D", (0xFFFF, False, True, 2, 7, True)),
    ],
)
def test_a_frame_of_data(pdu: str, said: tuple[object, ...]) -> None:
    told = answer_of(dnmsg(pdu))
    assert tuple(told[name] for name in ANSWER_FIELDS) == (*said, *WINDOWS.values())


@pytest.mark.parametrize("pdu", ["20" + "00" * 16, "no hex", "60", 5])
def test_of_anything_else_only_the_message_is_known(pdu: str) -> None:
    told = answer_of(dnmsg(pdu))
    assert list(told) == list(ANSWER_FIELDS[6:])


def told(station: str, pdu: str) -> Event:
    text = json.dumps(dnmsg(pdu))
    return {"kind": "station.text", "direction": "down", "station": station, "text": text}


def wrong(due: list[dict[str, object]], *events: Event) -> Reasons:
    rows: list[Event] = [
        {"expect": "answer", "frame_id": FRAME, "n": n, "body": body} for n, body in enumerate(due)
    ]
    evidence = Evidence(particulars=rows, receptions=[Heard("west", FRAME, 7, 0)])
    return wrong_particulars(evidence, events)


def test_answers_are_compared_in_order() -> None:
    sent = told("west", "60010000002001000A0B0C0D"), told("west", "60010000002002000A0B0C0D")
    assert wrong([{"f_cnt": f_cnt, "f_port": None} for f_cnt in (1, 3, 4)], *sent) == [
        ("LNS", "answer 1 to F: expected f_cnt 3, observed 2"),
        ("LNS", "answer 2 to F: none was sent"),
    ]


def test_what_answers_nothing_of_this_frame_is_left_alone() -> None:
    sent = told("west", "60010000002001000A0B0C0D"), told("east", "60010000002009000A0B0C0D")
    assert wrong([{"ack": True}], *sent) == []
