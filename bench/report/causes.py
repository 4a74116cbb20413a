"""How many causes does a red run have? Findings that say the same are one cause.

Findings of devices and air in a case where another owner's finding explains them are consequences.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.report.conclusion import the
from bench.report.score_file import Finding, Score, Verdict

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
    owner, told = key
    cases = sorted({one.case for one in found if one.case is not None})
    receptions = {(one.case, one.frame_id, one.n, one.t_us) for one in found if one.frame_id}
    count = _many(len(receptions), "reception") if receptions else _many(len(found), "finding")
    kinds = Counter((one.rule, one.expected, one.observed) for one in found)
    failed = [case for case in cases if case in verdicts and verdicts[case].verdict == "FAIL"]
    told_in = next((anchors[case] for case in [*failed, *cases] if anchors.get(case)), "")
    name = the(owner)
    return Cause(
        owner=owner,
        sentence=f"{name[:1].upper()}{name[1:]} {told}",
        count=f"{count} in {_many(len(cases), 'case')}" if cases else count,
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
    status, place = _sort(due[0]), 1
    if len(due) > 1 and len(seen) > 1 and due[1].partition("(")[0] != seen[1].partition("(")[0]:
        verb = _VERBS.get(seen[1].partition("(")[0], f"says {seen[1]} of")
        return f"{verb} {status} that is to be {due[1].partition('(')[0]}"
    place = 2
    if len(due) > place and len(seen) > place and due[place] != seen[place]:
        if seen[place] in _ANSWERS and due[place] not in _ANSWERS:
            return f"answers {status}, which is to stay without an answer"
        if due[place] in _ANSWERS and seen[place] not in _ANSWERS:
            return f"does not answer {status} ({seen[place]})"
        return f"answers {status} with {seen[place]} where {due[place]} is due"
    if due[:2] != seen[:2]:
        return f"gives {seen[1]} as the reason where {due[1]} is due"
    return _of_rule(finding)


_STATUSES = _COPIES | {"NonDuplicate", "DuplicateDueToResubmission"}


def _words(text: str | None) -> list[str]:
    return text.split() if text else []


def _sort(status: str) -> str:
    """Duplicate and SoftDuplicate are one sort of mistake: the strategy tells them apart."""
    return "Duplicate or SoftDuplicate" if status in _COPIES else status


def _of_rule(finding: Finding) -> str:
    short = [text for text in (finding.expected, finding.observed) if text and len(text) < 60]
    if len(short) == 2:
        return f"breaks “{finding.rule}”: {short[0]} is due, {short[1]} observed"
    if finding.expected and finding.observed is None and short:
        return f"breaks “{finding.rule}”: {finding.expected} is due, and did not come"
    return f"breaks “{finding.rule}”"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", "\N{NO-BREAK SPACE}")
