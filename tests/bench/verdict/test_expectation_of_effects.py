"""What a case may expect beyond the words of its receptions: message fields, answers on the air."""

from bench.verdict.case import Result, judge
from tests.bench.verdict.written_case import (
    ALPHA,
    EAST,
    FRAME,
    WEST,
    Event,
    at_once,
    dnmsg_at_once,
    good,
    outcome,
    published,
    text,
)


def due_upstream(eui: str, **body: object) -> Event:
    return {
        "source": "bench", "kind": "case.expect", "case": "c", "expect": "upstream",
        "dev_eui": ALPHA, "f_cnt": 2, "station": eui, "body": body,
    }  # fmt: skip


def due_on_air(*windows: str) -> Event:
    return {
        "source": "bench", "kind": "case.expect", "case": "c", "expect": "on_air",
        "frame_id": FRAME, "windows": list(windows),
    }  # fmt: skip


def on_air(window: str) -> Event:
    return {
        "source": "lns-a", "kind": "lns.downlink", "stage": "transmitted", "station": WEST,
        "dev_eui": ALPHA, "xtime": 12, "window": window, "frame_id": FRAME,
    }  # fmt: skip


def test_a_message_with_the_expected_fields_passes() -> None:
    strong = published(WEST, rssi=-51, snr=9.5)
    assert judge(good(due_upstream(WEST, rssi=-51), published=strong)).result is Result.PASS


def test_a_message_with_another_field_is_the_fault_of_the_lns() -> None:
    verdict = judge(good(due_upstream(WEST, rssi=-60, dr=5), published=published(WEST, rssi=-51)))
    assert (verdict.result, verdict.owner) == (Result.FAIL, "LNS")
    assert verdict.reasons == (
        "message m-2 through west: expected rssi -60, observed -51",
        "message m-2 through west: expected dr 5, observed None",
    )


def test_messages_through_other_stations_may_be_different() -> None:
    assert judge(good(due_upstream(EAST, rssi=-60))).result is Result.PASS


def test_answers_on_the_air_are_compared_in_order() -> None:
    assert judge(good(due_on_air("RX2"), on_air("RX2"))).result is Result.PASS
    assert judge(good(due_on_air("RX1", "RX2"), on_air("RX1"), on_air("RX2"))).result is Result.PASS


def test_an_answer_in_another_window_is_a_failure() -> None:
    verdict = judge(good(due_on_air("RX1"), on_air("RX2")))
    assert (verdict.result, verdict.owner) == (Result.FAIL, "gateway")
    assert verdict.reasons == (f"answers to {FRAME} on the air: expected RX1, observed RX2",)


def test_an_answer_that_was_not_to_leave_is_a_failure() -> None:
    verdict = judge(good(due_on_air(), on_air("RX1")))
    assert verdict.reasons == (f"answers to {FRAME} on the air: expected none, observed RX1",)
    assert judge(good(due_on_air("RX1"))).reasons == (
        f"answers to {FRAME} on the air: expected RX1, observed none",
    )


def due_answer(n: int, **said: object) -> Event:
    return {
        "source": "bench", "kind": "case.expect", "case": "c", "expect": "answer",
        "frame_id": FRAME, "n": n, "body": said,
    }  # fmt: skip


def test_an_answer_is_looked_for_among_those_to_its_frame() -> None:
    others = text(WEST, '{"msgtype":"router_config"}', "down"), at_once(WEST, 3)
    broken = text(WEST, "{"), outcome(WEST, None, "- dropped Malformed NotAsked", None)
    said = good(due_answer(0, rctx=0), *others, *broken, dnmsg_at_once(WEST, 3))
    assert judge(said).result is Result.PASS
    assert judge(good(due_answer(0, rctx=1), due_answer(1, ack=True))).reasons == (
        f"answer 0 to {FRAME}: expected rctx 1, observed 0",
        f"answer 1 to {FRAME}: none was sent",
    )
