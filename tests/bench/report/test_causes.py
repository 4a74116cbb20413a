"""Findings that say the same are one cause, and a red page begins with it."""

from pathlib import Path

import pytest

from bench.report.conclusion import causes, what
from bench.report.page import page
from bench.report.score_file import Finding, Score, Verdict

DUE = "DuplicateDueToResubmission dropped(ResubmissionSuppressed) RX1"


def finding(case: str, owner: str = "LNS", n: int = 1, **more: object) -> Finding:
    facts = {"rule": "expectation", "frame_id": "01ABCDEF:7:2B11FF0D", **more}
    return Finding(owner=owner, case=case, n=n, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "observed", "told"),
    [
        (DUE, "Duplicate dropped(Duplicate) Suppressed",
         "says Duplicate or SoftDuplicate where DuplicateDueToResubmission is due"),
        ("SoftDuplicate marked Suppressed", "SoftDuplicate marked RX1",
         "answers Duplicate or SoftDuplicate, which is to stay without an answer"),
        ("NonDuplicate forwarded RX1", "NonDuplicate forwarded TooLate",
         "does not answer NonDuplicate (TooLate)"),
        ("SoftDuplicate marked NotAsked", "SoftDuplicate forwarded NotAsked",
         "forwards Duplicate or SoftDuplicate that is to be marked"),
        ("NonDuplicate forwarded RX1", "NonDuplicate forwarded RX2",
         "answers NonDuplicate with RX2 where RX1 is due"),
        ("Duplicate dropped(Duplicate) NotAsked", "Duplicate dropped(MicMismatch) NotAsked",
         "gives dropped(MicMismatch) as the reason where dropped(Duplicate) is due"),
        ("+EVT:SEND_CONFIRMED_OK", None,
         "breaks “expectation”: +EVT:SEND_CONFIRMED_OK is due, and did not come"),
        (None, None, "breaks “expectation”"),
    ],
)  # fmt: skip
def test_what_differs_is_said_in_words(
    expected: str | None, observed: str | None, told: str
) -> None:
    assert what(finding("a", expected=expected, observed=observed)) == told


def test_a_field_with_another_value_in_each_case_is_one_cause() -> None:
    found = [
        finding(
            case, rule="dnmsg", expected=f"more than {case}", observed="4",
            text=f"dnmsg for west to {case}: FCntDown: expected more than {case}, observed 4",
        )
        for case in ("6", "7")
    ]  # fmt: skip
    score = Score(schema=1, run="20261120T020003Z-7f3a", verdicts=(), findings=tuple(found))
    [cause] = causes(score, {})
    assert cause.sentence == "The network server breaks “dnmsg”: FCntDown is another than is due"
    assert [(kind.expected, kind.observed) for kind in cause.kinds] == [
        ("more than 6", "4"),
        ("more than 7", "4"),
    ]


def red() -> Score:
    """Two failed cases with one cause, of which the device's finding is a consequence."""
    wrong = {"expected": DUE, "observed": "Duplicate dropped(Duplicate) Suppressed"}
    found = [
        finding("a", **wrong),
        finding("a", rule="oracle status", **wrong),
        finding("b", **wrong),
        finding("b", owner="device", rule="device line", frame_id=None, expected="+OK"),
        finding("c", owner="device", rule="device line", frame_id=None, expected="+OK"),
    ]
    verdicts = (
        Verdict("a", "test_a", "FAIL", owner="LNS", begin_us=0, end_us=9_000_000),
        Verdict("b", "test_b", "FAIL", owner="LNS", begin_us=9_000_000, end_us=10_000_000),
        Verdict("c", "test_c", "PASS", begin_us=10_000_000, end_us=11_000_000),
    )
    return Score(schema=1, run="20261120T020003Z-7f3a", verdicts=verdicts, findings=tuple(found))


def test_a_cause_counts_receptions_once_and_what_follows_from_it_apart() -> None:
    first, second = causes(red(), {0: "s0"})
    assert first.sentence == (
        "The network server says Duplicate or SoftDuplicate where DuplicateDueToResubmission is due"
    )
    assert (first.count, first.consequences, first.anchor) == ("2 receptions in 2 cases", 1, "s0")
    assert [(kind.rule, kind.count) for kind in first.kinds] == [
        ("expectation", 2),
        ("oracle status", 1),
    ]
    assert (second.owner, second.fails, second.count) == ("device", False, "1 finding in 1 case")


def test_the_first_line_of_a_red_page_names_the_cause(tmp_path: Path) -> None:
    html = page(tmp_path, red(), {"started": "2026-11-20T02:00:03Z", "host": "lab-pc",
                                  "ended": {"how": "finished", "at": "2026-11-20T02:14:05Z"},
                                  "night": "2026-11-20"})  # fmt: skip
    heading = html.partition("<h1>")[2].partition("</h1>")[0]
    assert heading.startswith("The network server says Duplicate or SoftDuplicate where")
    assert heading.endswith("is due: 2 receptions in 2 cases.")
    assert "took 14 min 02 s, on lab-pc" in html
    assert 'href="../nights.html"' in html
    assert html.index('id="findings"') < html.index('id="scenarios"')
    assert "<code>a</code> 9.0" in html
