"""What does a build server want to know of a run? One testcase per verdict, in JUnit's XML."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from bench.report.foreign_text import shown
from bench.report.score_file import Finding, LeftOut, Score, Verdict

FINDINGS_MAX = 20  # of one case
TEXT_MAX = 2000  # characters of one message


@dataclass(frozen=True, slots=True)
class CaseState:
    """How a case stands beside the nights before; `known`: the issue that excuses its failure."""

    state: str
    since: str = ""
    since_build: str = ""
    series: str = ""
    dut: str = ""
    known: str = ""


_OUTCOMES = {"FAIL": "failure", "INCONCLUSIVE": "skipped"}  # ERROR, and no known word: error


def junit(score: Score, states: Mapping[str, CaseState] | None = None) -> bytes:
    """JUnit XML, UTF-8: FAIL is a failure, ERROR an error, INCONCLUSIVE skipped with its reason.

    With `states` each case says how it stands, and a failure that somebody knows of is skipped. A
    pass on a repeated stimulus is a pass with a `flakyFailure`.

    So is a case that the rig could not play; one that was planned and is not there is an error.
    Cases may run side by side: the suite takes as long as from the first begin to the last end, not
    as all cases together.
    """
    found: dict[str | None, list[Finding]] = defaultdict(list)
    for finding in score.findings:
        found[finding.case].append(finding)
    suites = Element("testsuites")
    suite = SubElement(suites, "testsuite", name=shown(score.run, 200))
    _properties(suite, _run_properties(score))
    for verdict in score.verdicts:
        state = (states or {}).get(verdict.case)
        _testcase(suite, verdict, found[verdict.case], score, state)
    for case in score.left_out:
        _left_out(suite, case)
    for name in score.wholeness.unplayed:
        _missing(suite, name, score.wholeness.sentence)
    for element in (suites, suite):
        element.set("tests", str(len(suite.findall("testcase"))))
        element.set("failures", str(len(suite.findall("testcase/failure"))))
        element.set("errors", str(len(suite.findall("testcase/error"))))
        element.set("skipped", str(len(suite.findall("testcase/skipped"))))
        element.set("time", _seconds(_span_us(score.verdicts)))
    indent(suites)
    content: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _testcase(
    suite: Element,
    verdict: Verdict,
    findings: Sequence[Finding],
    score: Score,
    state: CaseState | None,
) -> None:
    testcase = SubElement(
        suite,
        "testcase",
        classname=_classname(verdict),
        name=shown(verdict.case, 200),
        time=_seconds(_length_us(verdict)),
    )
    words = {True: "true", False: "false"}
    own = [
        ("scenario", verdict.scenario),
        ("strategy", verdict.strategy),
        ("confirmed", words[verdict.confirmed] if verdict.confirmed is not None else None),
        ("attempt", verdict.attempt),
        ("owner", verdict.owner),
    ]
    _properties(testcase, [*own, *_state_properties(state), *_run_properties(score)])
    if verdict.verdict == "PASS":
        if verdict.attempt > 1:
            why = f"passed at attempt {verdict.attempt}; what came before proved nothing"
            SubElement(testcase, "flakyFailure", message=why, type="repeated stimulus")
        return
    message = "; ".join(verdict.reasons) or verdict.verdict
    if verdict.verdict == "FAIL" and state is not None and state.known:
        SubElement(testcase, "skipped", message=shown(f"known: {state.known}", TEXT_MAX))
        return
    outcome = SubElement(
        testcase, _OUTCOMES.get(verdict.verdict, "error"), message=shown(message, TEXT_MAX)
    )
    if verdict.verdict != "INCONCLUSIVE":
        outcome.set("type", shown(verdict.owner or verdict.verdict, 40))
    outcome.text = "\n".join(_finding(finding) for finding in findings[:FINDINGS_MAX])


def _state_properties(state: CaseState | None) -> list[tuple[str, object]]:
    if state is None:
        return []
    return [
        ("state", state.state),
        ("since", state.since or None),
        ("series", state.series),
        ("dut", state.dut),
    ]


def _left_out(suite: Element, case: LeftOut) -> None:
    name = shown(case.case, 200)
    testcase = SubElement(suite, "testcase", classname=_classname(case), name=name, time="0.000")
    message = f"left out: this rig lacks {', '.join(case.missing) or 'something'}"
    SubElement(testcase, "skipped", message=shown(message, TEXT_MAX))


def _missing(suite: Element, case: str, why: str) -> None:
    place = shown(case.rpartition("/")[0] or "scenarios", 200)
    testcase = SubElement(suite, "testcase", classname=place, name=shown(case, 200), time="0.000")
    error = SubElement(testcase, "error", message=shown(f"planned, not there: {why}", TEXT_MAX))
    error.set("type", "incomplete")


def _classname(case: Verdict | LeftOut) -> str:
    path = (case.file or case.group or "scenarios").removesuffix(".py")
    return shown(path.replace("/", "."), 200)


def _finding(finding: Finding) -> str:
    parts = [f"{finding.owner}, {finding.rule}: {finding.text}"]
    if finding.frame_id:
        parts.append(f"frame {finding.frame_id}")
    if finding.station:
        parts.append(f"station {finding.station}")
    if finding.expected is not None or finding.observed is not None:
        parts.append(f"expected {finding.expected}, observed {finding.observed}")
    return shown("; ".join(parts), TEXT_MAX)


def _run_properties(score: Score) -> list[tuple[str, object]]:
    return [("seed", score.seed), ("run", score.run), ("rig", score.rig)]


def _properties(parent: Element, values: Sequence[tuple[str, object]]) -> None:
    properties = SubElement(parent, "properties")
    for name, value in values:
        if value is not None:
            SubElement(properties, "property", name=name, value=shown(str(value), 200))


def _length_us(verdict: Verdict) -> int:
    if verdict.begin_us is None or verdict.end_us is None:
        return 0
    return max(0, verdict.end_us - verdict.begin_us)


def _span_us(verdicts: Sequence[Verdict]) -> int:
    begins = [verdict.begin_us for verdict in verdicts if verdict.begin_us is not None]
    ends = [verdict.end_us for verdict in verdicts if verdict.end_us is not None]
    return max(0, max(ends) - min(begins)) if begins and ends else 0


def _seconds(time_us: int) -> str:
    return f"{time_us // 1_000_000}.{time_us % 1_000_000 // 1000:03d}"
