import pytest

from bench.report import exit_code
from bench.report.conclusion import conclusion
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
    assert exit_code(score, inconclusive_share_max=0.25) == 0
    assert exit_code(score, inconclusive_share_max=0.24) == 11


def test_within_the_allowed_share_a_repeated_pass_still_shows() -> None:
    assert exit_code(scored("PASS 2", "INCONCLUSIVE"), inconclusive_share_max=0.5) == 10


def test_a_night_that_proves_nothing_is_never_0() -> None:
    assert exit_code(scored("INCONCLUSIVE"), inconclusive_share_max=1.0) == 11


@pytest.mark.parametrize("score", [{}, {"verdicts": None}, {"verdicts": ["PASS"]}])
def test_a_score_without_verdicts_is_a_bench_error(score) -> None:
    assert exit_code(score) == 12


@pytest.mark.parametrize(
    ("score", "verdict", "sentence"),
    [
        (night("PASS", "PASS"), "PASS", "All 2 cases passed at the first attempt."),
        (night("PASS"), "PASS", "The only case passed at the first attempt."),
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
