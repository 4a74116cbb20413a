import pytest

from bench.inspection.logged import disagreements
from bench.verdict.owner import Scrutiny

WEST = "0016C001F1500001"
PARKED = "WARNING 2 messages are parked: they wait for longer than 60 s"
LATE = f"WARNING {WEST}: TooLate (ABP:10): the clock of the station is not known"
AGAIN = f"WARNING {WEST}: answers again, after 7 TooLate"
UNREADABLE = f"WARNING {WEST}: unreadable message: timesync: Expected `int`"
FAILED = f"WARNING {WEST}: internal error (reception): KeyError at data.py:7\n  File"
SLOW = "WARNING the store of the claims takes longer than 250000 us; nobody can say"
TOLD = {
    PARKED: [{"kind": "upstream.parked"}] * 2,
    LATE: [
        {"kind": "lns.outcome", "station": WEST, "frame_id": "ABP:10", "answer": "TooLate"},
    ],
    AGAIN: [{"kind": "lns.too_late", "stage": "over", "station": WEST, "n": 7}],
    UNREADABLE: [{"kind": "lns.unreadable", "station": WEST, "why": "timesync: Expected `int`"}],
    FAILED: [
        {
            "kind": "lns.failure",
            "station": WEST,
            "during": "reception",
            "error": "KeyError at data.py:7",
        }
    ],
    SLOW: [],
}


def wrong(line: str, events: list[dict[str, object]]) -> list[str]:
    check = Scrutiny(rule="log", of="what is logged", t_us=0)
    return [found.text for found in disagreements([line], events, [60], check)]


@pytest.mark.parametrize("line", TOLD)
def test_a_line_says_what_the_capture_tells(line: str) -> None:
    assert wrong(line, TOLD[line]) == []


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        (PARKED, PARKED.replace("2", "3")),
        (PARKED, PARKED.replace("60", "60000")),
        (LATE, LATE.replace("10", "11")),
        (AGAIN, AGAIN.replace("7 ", "8 ")),
        (UNREADABLE, UNREADABLE.replace("int", "str")),
        (FAILED, FAILED.replace("data", "join")),
        (SLOW, SLOW.replace("250000", "250")),
    ],
)
def test_a_line_with_another_fact_is_found(line: str, changed: str) -> None:
    assert len(wrong(changed, TOLD[line])) == 1


def test_what_was_put_aside_is_logged() -> None:
    assert wrong("INFO something else", TOLD[PARKED]) == [
        "what is logged: messages put aside: expected 2, observed 0"
    ]
