"""Which cases does a run hold, and what did it record of one of them?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bench.report.evidence import Event, Window, read_events
from bench.report.score_file import Finding, ReportError, read_score

NEAR_MAX = 5
_LATER_US = 10**18  # later than anything


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """One case as the bench recorded it; times in µs of the run's clock.

    `end_us` is where the case ends, or the next one begins; `verdict` is "" while it has none.
    """

    case: str
    begin: Event
    begin_us: int
    end_us: int
    verdict: str = ""
    owner: str | None = None
    reasons: tuple[str, ...] = ()
    attempt: int = 1

    @property
    def wording(self) -> str:
        """The verdict as a person reads it."""
        if not self.verdict:
            return "no verdict: the run ended before the case did"
        repeated = " on a repeated stimulus" if self.verdict == "PASS" and self.attempt > 1 else ""
        owner = f" ({self.owner})" if self.owner else ""
        return f"{self.verdict}{repeated}{owner}"

    def text(self, field: str) -> str:
        """A text field of `case.begin`; "" if it is not there."""
        value = self.begin.get(field)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What Spark made of a case, once it has scored the run."""

    verdict: str
    findings: tuple[Finding, ...]


def cases_of(run_folder: Path) -> list[CaseRecord]:
    """Every case of a run in order of time, from the bench's own capture alone."""
    records: list[CaseRecord] = []
    ends: dict[str, Event] = {}
    for event in read_events(run_folder, sources="bench"):
        if not isinstance(event.get("case"), str):
            continue
        if event.get("kind") == "case.begin":
            records.append(CaseRecord(event["case"], event, event["t_us"], _LATER_US))
        elif event.get("kind") == "case.end":
            ends[event["case"]] = event
    for n, following in enumerate(records[1:]):
        records[n] = replace(records[n], end_us=following.begin_us - 1)
    return [_ended(record, ends.get(record.case)) for record in records]


def matching(records: Sequence[CaseRecord], wanted: str) -> list[CaseRecord]:
    """The cases that a person means: of that very name, else all with every word in the name."""
    exact = [record for record in records if record.case == wanted]
    if exact:
        return exact
    words = [word.removeprefix("test_") for word in wanted.lower().split()]
    return [record for record in records if all(word in record.case.lower() for word in words)]


def nearest_names(records: Sequence[CaseRecord], wanted: str) -> list[str]:
    """The names of cases, or of parts of them, that look most like what was asked for."""
    by_part: dict[str, dict[str, None]] = {}
    for record in records:
        whole = record.case.lower()
        scenario = whole.partition("[")[0]
        for part in (whole, scenario, scenario.rpartition("/")[2]):
            by_part.setdefault(part, {})[record.case] = None
    near = get_close_matches(wanted.lower(), list(by_part), n=NEAR_MAX, cutoff=0.4)
    return list(dict.fromkeys(case for part in near for case in by_part[part]))


def events_of(run_folder: Path, record: CaseRecord) -> list[Event]:
    """The events of a case in order of time."""
    return list(read_events(run_folder, [Window(record.case, record.begin_us, record.end_us)]))


def judgement_of(run_folder: Path, case: str) -> Judgement | None:
    """What Spark made of the case; None where the run is not scored, or the score not readable."""
    try:
        score = read_score(run_folder)
    except ReportError:
        return None
    verdict = next((found.verdict for found in score.verdicts if found.case == case), None)
    if verdict is None:
        return None
    return Judgement(verdict, tuple(found for found in score.findings if found.case == case))


def _ended(record: CaseRecord, end: Event | None) -> CaseRecord:
    if end is None:
        return record
    reasons, owner, attempt = end.get("reasons"), end.get("owner"), end.get("attempt")
    return replace(
        record,
        end_us=min(record.end_us, end["t_us"]),
        verdict=str(end.get("verdict", "ERROR")),
        owner=owner if isinstance(owner, str) else None,
        reasons=_texts(reasons),
        attempt=attempt if type(attempt) is int else 1,
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
