"""How did the run go: as a number for a shell, as a sentence for a person, by how many causes?"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.night.record import ExitCode, code_of, word
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
    words = Counter(word(v.verdict, v.attempt) for v in score.verdicts)
    cases = len(score.verdicts)
    if not score.wholeness.whole:
        withheld = Counter({"ERROR": len(score.wholeness.withheld)})
        sentence = _incomplete_sentence(words - withheld, score)
        return Conclusion("ERROR", sentence, tuple(_remarks("ERROR", words, score)))
    verdict, sentence = {
        ExitCode.BENCH_ERROR: ("ERROR", _error_sentence(words, cases)),
        ExitCode.FAILED: ("FAIL", _failed_sentence(words, cases, score.verdicts)),
        ExitCode.INCONCLUSIVE: ("INCONCLUSIVE", _unproven_sentence(words, cases)),
        ExitCode.REPEATED: (
            "PASS on repeat",
            f"Nothing failed, but {_of(words['PASS on repeat'], cases, 'passed')} only when the "
            "stimulus was repeated.",
        ),
        ExitCode.PASSED: ("PASS", _passed_sentence(words, cases)),
    }[code_of(words, score.inconclusive_share_max)]
    return Conclusion(verdict, sentence, tuple(_remarks(verdict, words, score)))


def _incomplete_sentence(words: Counter[str], score: Score) -> str:
    counts = ", ".join(f"{_count(words[word])} {word}" for word in SEVERITY if words[word])
    books = score.wholeness
    sentence = f"{books.sentence[:1].upper()}{books.sentence[1:]}."
    were = "was" if books.judged == 1 else "were"
    judged = f"{_count(books.judged, 'whole case')} {were} judged"
    return f"{sentence} {judged}: {counts or 'no verdict'}."


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


def _passed_sentence(words: Counter[str], cases: int) -> str:
    if words["PASS"] < cases:
        return f"{_of(words['PASS'], cases, 'passed')} at the first attempt, which is enough here."
    passed = "The only case" if cases == 1 else f"All {_count(cases)} cases"
    return f"{passed} passed at the first attempt."


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
        owners = Counter(finding.owner for finding in score.findings)
        named = ", ".join(f"{the(owner)} {_count(n)}" for owner, n in _ranked(owners))
        remarks.append(f"{_count(len(score.findings), 'finding')} to read: {named}.")
    if score.provoked:
        count = _count(len(score.provoked), "finding")
        remarks.append(f"{count} that scenarios bring about on purpose: nothing to read.")
    if score.counts.torn_lines:
        remarks.append(f"{_count(score.counts.torn_lines, 'capture line')} could not be read.")
    if score.counts.evicted:
        remarks.append(
            f"The server forgot {_count(score.counts.evicted, 'sighting')} before the time was up."
        )
    return remarks


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


def _count(number: int, noun: str = "") -> str:
    plural = "" if number == 1 or not noun else "s"
    return f"{number:,} {noun}{plural}".strip().replace(",", "\N{NO-BREAK SPACE}")


CAUSES_SHOWN = 8
KINDS_SHOWN = 12
_FOLLOWS = frozenset({"device", "air"})
_COPIES = frozenset({"Duplicate", "SoftDuplicate"})
_VERBS = {"forwarded": "forwards", "marked": "marks", "dropped": "drops"}
_ANSWERS = frozenset({"RX1", "RX2", "due"})


@dataclass(frozen=True, slots=True)
class Kind:
    """Findings that are the same to the letter: rule, what was due, what was observed."""

    rule: str
    expected: str | None
    observed: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Cause:
    """What one owner did wrong: in a sentence, with how often and where; `anchor`: its first story.

    `consequences`: findings of devices and air in the same cases.
    """

    owner: str
    sentence: str
    count: str
    cases: int
    kinds: tuple[Kind, ...]
    consequences: int
    anchor: str
    fails: bool


def causes(score: Score, anchors: Mapping[int, str]) -> list[Cause]:
    """The causes of a run, those of failed cases first, then by the number of cases."""
    verdicts = {verdict.case: verdict for verdict in score.verdicts}
    places = {verdict.case: place for place, verdict in enumerate(score.verdicts)}
    of_case: dict[str | None, list[Finding]] = defaultdict(list)
    for finding in score.findings:
        of_case[finding.case].append(finding)
    explained = {
        case for case, found in of_case.items() if any(one.owner not in _FOLLOWS for one in found)
    }
    grouped: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    follow: Counter[str | None] = Counter()
    for finding in score.findings:
        if finding.owner in _FOLLOWS and finding.case is not None and finding.case in explained:
            follow[finding.case] += 1
        else:
            grouped[finding.owner, what(finding)].append(finding)
    made = [
        _cause(key, found, follow, verdicts, {c: anchors.get(n, "") for c, n in places.items()})
        for key, found in grouped.items()
    ]
    return sorted(made, key=lambda cause: (not cause.fails, -cause.cases, cause.sentence))


def _cause(
    key: tuple[str, str],
    found: Sequence[Finding],
    follow: Counter[str | None],
    verdicts: Mapping[str, Verdict],
    anchors: Mapping[str, str],
) -> Cause:
    owner, what = key
    cases = sorted({one.case for one in found if one.case is not None})
    receptions = {(one.case, one.frame_id, one.n, one.t_us) for one in found if one.frame_id}
    count = _count(len(receptions), "reception") if receptions else _count(len(found), "finding")
    kinds = Counter((one.rule, one.expected, one.observed) for one in found)
    failed = [case for case in cases if case in verdicts and verdicts[case].verdict == "FAIL"]
    told_in = next((anchors[case] for case in [*failed, *cases] if anchors.get(case)), "")
    name = the(owner)
    return Cause(
        owner=owner,
        sentence=f"{name[:1].upper()}{name[1:]} {what}",
        count=f"{count} in {_count(len(cases), 'case')}" if cases else count,
        cases=len(cases),
        kinds=tuple(Kind(*kind, n) for kind, n in kinds.most_common()),
        consequences=sum(follow[case] for case in cases),
        anchor=told_in,
        fails=bool(failed),
    )


def what(finding: Finding) -> str:
    """What a finding says its owner did, without the case, the strategy and the numbers."""
    due, seen = _words(finding.expected), _words(finding.observed)
    if not due or not seen or not ({due[0], seen[0]} & _STATUSES):
        return _of_rule(finding)
    if _sort(due[0]) != _sort(seen[0]):
        return f"says {_sort(seen[0])} where {_sort(due[0])} is due"
    status = _sort(due[0])
    if len(due) > 1 and len(seen) > 1 and due[1].partition("(")[0] != seen[1].partition("(")[0]:
        verb = _VERBS.get(seen[1].partition("(")[0], f"says {seen[1]} of")
        return f"{verb} {status} that is to be {due[1].partition('(')[0]}"
    if len(due) > 2 and len(seen) > 2 and due[2] != seen[2]:
        if seen[2] in _ANSWERS and due[2] not in _ANSWERS:
            return f"answers {status}, which is to stay without an answer"
        if due[2] in _ANSWERS and seen[2] not in _ANSWERS:
            return f"does not answer {status} ({seen[2]})"
        return f"answers {status} with {seen[2]} where {due[2]} is due"
    if due[:2] != seen[:2]:
        return f"gives {seen[1]} as the reason where {due[1]} is due"
    return _of_rule(finding)


_STATUSES = _COPIES | {"NonDuplicate", "DuplicateDueToResubmission"}


_FIELD = re.compile(r": ([^:]+): expected ")


def _words(text: str | None) -> list[str]:
    return text.split() if text else []


def _sort(status: str) -> str:
    """Duplicate and SoftDuplicate are one sort of mistake: the strategy tells them apart."""
    return "Duplicate or SoftDuplicate" if status in _COPIES else status


def _of_rule(finding: Finding) -> str:
    field = _FIELD.search(finding.text) if finding.expected and finding.observed else None
    if field is not None:  # its values may differ from case to case
        return f"breaks “{finding.rule}”: {field[1]} is another than is due"
    short = [text for text in (finding.expected, finding.observed) if text and len(text) < 60]
    if len(short) == 2:
        return f"breaks “{finding.rule}”: {short[0]} is due, {short[1]} observed"
    if finding.expected and finding.observed is None and short:
        return f"breaks “{finding.rule}”: {finding.expected} is due, and did not come"
    return f"breaks “{finding.rule}”"
