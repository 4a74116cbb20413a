"""How did the run go: as a number for a shell, and as a sentence for a person?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.night.exit_code import (
    BENCH_ERROR,
    FAILED,
    PASSED,
    REPEATED,
    UNPROVEN,
    code_of,
    word,
)
from bench.report.score_file import Finding, Score, Verdict
from bench.verdict.owner import Owner

WORDS = ("PASS", "PASS on repeat", "FAIL", "INCONCLUSIVE", "ERROR")
SEVERITY = ("FAIL", "ERROR", "INCONCLUSIVE", "PASS on repeat", "PASS")  # the worst one first

UNSCORED = "Not scored yet: these are the verdicts that the run itself reached."


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer of the page's first line: a verdict word, one sentence, and what to add to it."""

    verdict: str
    sentence: str
    remarks: tuple[str, ...]


def conclusion(score: Score) -> Conclusion:
    """How the run went, in plain words."""
    words = Counter(word(v.verdict, v.attempt) for v in score.verdicts)
    cases = len(score.verdicts)
    if not score.wholeness.whole:
        withheld = Counter({"ERROR": len(score.wholeness.withheld)})
        sentence = _incomplete_sentence(words - withheld, score)
        return Conclusion("ERROR", sentence, tuple(_remarks("ERROR", words, score)))
    verdict, sentence = {
        BENCH_ERROR: ("ERROR", _error_sentence(words, cases)),
        FAILED: ("FAIL", _failed_sentence(words, cases, score.verdicts)),
        UNPROVEN: ("INCONCLUSIVE", _unproven_sentence(words, cases)),
        REPEATED: (
            "PASS on repeat",
            f"Nothing failed, but {_of(words['PASS on repeat'], cases, 'passed')} only when the "
            "stimulus was repeated.",
        ),
        PASSED: ("PASS", f"{_every(cases)} passed at the first attempt."),
    }[code_of(words)]
    return Conclusion(verdict, sentence, tuple(_remarks(verdict, words, score)))


def _incomplete_sentence(words: Counter[str], score: Score) -> str:
    told = ", ".join(f"{_count(words[word])} {word}" for word in SEVERITY if words[word])
    books = score.wholeness
    sentence = f"{books.sentence[:1].upper()}{books.sentence[1:]}."
    return f"{sentence} {_of_judged(books.judged)}{told or 'no verdict'}."


def _of_judged(cases: int) -> str:
    return f"{_count(cases, 'whole case')} {'was' if cases == 1 else 'were'} judged: "


def _error_sentence(words: Counter[str], cases: int) -> str:
    if cases == 0:
        return "No case ran, so there is no verdict: nothing was measured."
    sentence = f"The bench itself broke in {_count(words['ERROR'])} of {_count(cases, 'case')}"
    if words["FAIL"]:
        return f"{sentence}, and {_count(words['FAIL'], 'case')} failed."
    return f"{sentence}: this run does not tell the whole story."


def _failed_sentence(words: Counter[str], cases: int, verdicts: Sequence[Verdict]) -> str:
    sentence = f"{_of(words['FAIL'], cases, 'failed')}: somebody did not do what was due."
    owners = Counter(v.owner for v in verdicts if v.verdict == "FAIL" and v.owner)
    if not owners:
        return sentence
    if len(owners) == 1:
        return f"{_of(words['FAIL'], cases, 'failed')}, and the trail leads to {the(min(owners))}."
    named = ", ".join(f"{_count(n)} to {the(owner)}" for owner, n in _ranked(owners))
    return f"{_of(words['FAIL'], cases, 'failed')}. The trails lead: {named}."


def _unproven_sentence(words: Counter[str], cases: int) -> str:
    return (
        f"Nothing failed, but {_of(words['INCONCLUSIVE'], cases, 'proved')} nothing: the air or a "
        "gateway did not deliver what was set up, or the host stalled."
    )


def _remarks(verdict: str, words: Counter[str], score: Score) -> list[str]:
    remarks = [] if score.is_scored else [UNSCORED]
    if words["INCONCLUSIVE"] and verdict != "INCONCLUSIVE":
        remarks.append(
            f"{_of(words['INCONCLUSIVE'], len(score.verdicts), 'proved')} nothing, because the "
            "stimulus was not delivered or the host stalled."
        )
    if words["PASS on repeat"] and verdict != "PASS on repeat":
        remarks.append(
            f"{_count(words['PASS on repeat'], 'case')} passed only when the stimulus was repeated."
        )
    if score.left_out:
        remarks.append(
            f"{_count(len(score.left_out), 'case')} left out: this rig lacks what they need."
        )
    if score.counts.repeated:
        remarks.append(
            f"{_count(score.counts.repeated, 'attempt')} proved nothing and was repeated."
        )
    if score.host.stalls:
        remarks.append(
            f"The host stalled {_count(score.host.stalls, 'time')}, at worst for "
            f"{score.host.worst_stall_us // 1000} ms: a case that went wrong then proves nothing."
        )
    if late := sum(margins.late for margins in score.margins):
        remarks.append(f"{_count(late, 'answer')} left too late for any receive window.")
    if score.findings:
        remarks.append(_findings_remark(score.findings))
    if score.counts.torn_lines:
        remarks.append(f"{_count(score.counts.torn_lines, 'capture line')} could not be read.")
    if score.counts.evicted:
        remarks.append(
            f"The server forgot {_count(score.counts.evicted, 'sighting')} before the time was up."
        )
    return remarks


def _findings_remark(findings: Sequence[Finding]) -> str:
    owners = Counter(finding.owner for finding in findings)
    named = ", ".join(f"{the(owner)} {_count(n)}" for owner, n in _ranked(owners))
    return f"{_count(len(findings), 'finding')} to read: {named}."


def the(owner: str) -> str:
    """The owner of a finding as a sentence names it."""
    if owner not in tuple(Owner):
        return owner
    of_several = Owner(owner) in (Owner.GATEWAY, Owner.DEVICE)
    return f"{'a' if of_several else 'the'} {Owner(owner).shown}"


def _ranked(owners: Counter[str]) -> list[tuple[str, int]]:
    return sorted(owners.items(), key=lambda item: (-item[1], item[0]))


def _of(number: int, cases: int, verb: str) -> str:
    return f"{_count(number)} of {_count(cases, 'case')} {verb}"


def _every(cases: int) -> str:
    return "The only case" if cases == 1 else f"All {_count(cases)} cases"


def _count(number: int, noun: str = "") -> str:
    plural = "" if number == 1 or not noun else "s"
    return f"{number:,} {noun}{plural}".strip().replace(",", "\N{NO-BREAK SPACE}")
