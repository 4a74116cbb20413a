from pathlib import Path

import pytest

from bench.night.record import exit_code
from bench.report.conclusion import causes, conclusion, what
from bench.report.page import page
from bench.report.score_file import Books, Counts, Finding, Score, Verdict, Withheld


def scored(*words: str) -> dict:
    """Verdicts in short: "PASS", "PASS 2" (second attempt), "FAIL", …"""
    parts = [word.split() for word in words]
    return {
        "verdicts": [
            {"verdict": part[0], "attempt": int(part[1]) if len(part) > 1 else 1} for part in parts
        ]
    }


def night(*words: str, owner: str | None = None, **more) -> Score:
    verdicts = tuple(
        Verdict(f"case-{n}", "test", v["verdict"], attempt=v["attempt"], owner=owner)
        for n, v in enumerate(scored(*words)["verdicts"])
    )
    return Score(1, "run", verdicts, **more)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["PASS"], 0),
        (["PASS", "PASS"], 0),
        (["PASS", "FAIL"], 1),
        (["PASS", "PASS 2"], 10),
        (["PASS", "INCONCLUSIVE"], 11),
        (["PASS", "ERROR"], 12),
        ([], 12),
        (["PASS", "NO_SUCH_WORD"], 12),
    ],
)
def test_each_exit_code(words: list[str], code: int) -> None:
    assert exit_code(scored(*words)) == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ERROR", "FAIL", "INCONCLUSIVE", "PASS 2"], 12),
        (["FAIL", "INCONCLUSIVE", "PASS 2"], 1),
        (["INCONCLUSIVE", "PASS 2"], 11),
    ],
)
def test_a_bench_error_comes_before_a_failure_and_that_before_doubt(words, code) -> None:
    assert exit_code(scored(*words)) == code


def test_inconclusive_is_allowed_up_to_a_share() -> None:
    score = scored("PASS", "PASS", "PASS", "INCONCLUSIVE")
    assert exit_code({**score, "inconclusive_share_max": 0.25}) == 0
    assert exit_code({**score, "inconclusive_share_max": 0.24}) == 11
    assert exit_code({**score, "inconclusive_share_max": "much"}) == 11


def test_within_the_allowed_share_a_repeated_pass_still_shows() -> None:
    assert exit_code({**scored("PASS 2", "INCONCLUSIVE"), "inconclusive_share_max": 0.5}) == 10


def test_a_night_that_proves_nothing_is_never_0() -> None:
    assert exit_code({**scored("INCONCLUSIVE"), "inconclusive_share_max": 1.0}) == 11


@pytest.mark.parametrize("score", [{}, {"verdicts": None}, {"verdicts": ["PASS"]}])
def test_a_score_without_verdicts_is_a_bench_error(score) -> None:
    assert exit_code(score) == 12


@pytest.mark.parametrize(
    ("score", "verdict", "sentence"),
    [
        (night("PASS", "PASS"), "PASS", "All 2 cases passed at the first attempt."),
        (night("PASS"), "PASS", "The only case passed at the first attempt."),
        (
            night("PASS", "INCONCLUSIVE", inconclusive_share_max=0.5),
            "PASS",
            "1 of 2 cases passed at the first attempt, which is enough here.",
        ),
        (
            night("FAIL", "PASS", owner="LNS"),
            "FAIL",
            "1 of 2 cases failed, and the trail leads to the network server.",
        ),
        (
            night("FAIL"),
            "FAIL",
            "1 of 1 case failed: somebody did not do what was due.",
        ),
        (
            night("PASS", "PASS 2"),
            "PASS on repeat",
            "Nothing failed, but 1 of 2 cases passed only when the stimulus was repeated.",
        ),
        (
            night("PASS", "ERROR"),
            "ERROR",
            "The bench itself broke in 1 of 2 cases: this run does not tell the whole story.",
        ),
    ],
)
def test_the_night_in_one_sentence(score: Score, verdict: str, sentence: str) -> None:
    told = conclusion(score)
    assert (told.verdict, told.sentence) == (verdict, sentence)


def test_several_owners_are_counted_in_the_sentence() -> None:
    verdicts = tuple(
        Verdict(f"case-{n}", "test", "FAIL", owner=owner)
        for n, owner in enumerate(("LNS", "LNS", "device"))
    )
    assert conclusion(Score(1, "run", verdicts)).sentence == (
        "3 of 3 cases failed. The trails lead: 2 to the network server, 1 to a device."
    )


def test_a_good_night_with_findings_says_so() -> None:
    score = night(
        "PASS", findings=(Finding("LNS", "oracle"),), counts=Counts(torn_lines=1, evicted=2)
    )
    assert conclusion(score).remarks == (
        "1 finding to read: the network server 1.",
        "1 capture line could not be read.",
        "The server forgot 2 sightings before the time was up.",
    )


def test_a_run_that_is_not_whole_is_never_a_good_one() -> None:
    books = {"whole": False, "sentence": "incomplete: killed at case 3 of 9"}
    assert exit_code({**scored("PASS", "PASS"), "wholeness": books}) == 12
    assert exit_code({**scored("PASS", "FAIL"), "wholeness": books}) == 12
    assert exit_code({**scored("PASS"), "wholeness": {"whole": True}}) == 0
    found = Books(False, books["sentence"], "killed", 9, 2, (Withheld("case-2", "cut"),))
    told = conclusion(night("PASS", "FAIL", "ERROR", wholeness=found))
    assert told.verdict == "ERROR"
    assert told.sentence == (
        "Incomplete: killed at case 3 of 9. 2 whole cases were judged: 1 FAIL, 1 PASS."
    )


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
