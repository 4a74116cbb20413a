"""Which cases does a run hold, and what did it record of one of them?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bench.capture import reading
from bench.capture.reading import Event, Timetable
from bench.report.excerpts import Window, read_events
from bench.report.score_file import Finding, ReportError, read_score

NEAR_MAX = 5


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """One case as the bench recorded it; times in µs of the run's clock.

    Without an end, `end_us` is where the next case begins; `verdict` is "" while there is none.
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
    events = list(read_events(run_folder, sources="bench"))
    table = reading.timetable(events)
    begins = {event["case"]: event for event in events if event.get("kind") == "case.begin"}
    ends = {event["case"]: event for event in events if event.get("kind") == "case.end"}
    return [
        _ended(CaseRecord(case, begins[case], *table.window(case)), ends.get(case))
        for case in table.cases
    ]


def matching(records: Sequence[CaseRecord], wanted: str) -> list[CaseRecord]:
    """The cases that a person means: of that very name, else all with every word in the name."""
    exact = [record for record in records if record.case == wanted]
    if exact:
        return exact
    words = [word.removeprefix("test_") for word in wanted.lower().split()]
    return [record for record in records if all(word in record.case.lower() for word in words)]


def left_out_case(run_folder: Path, wanted: str) -> tuple[str, str] | None:
    """A case of this name that the rig could not play, and what it lacks; None if there is none."""
    notes = {
        event["case"]: event
        for event in read_events(run_folder, sources="bench")
        if event.get("kind") == "case.left_out" and isinstance(event.get("case"), str)
    }
    records = [CaseRecord(case, note, note["t_us"], note["t_us"]) for case, note in notes.items()]
    found = matching(records, wanted)
    if not found:
        return None
    missing = found[0].begin.get("missing")
    return found[0].case, ", ".join(_texts(missing)) or "what it needs"


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


def events_of(
    run_folder: Path, record: CaseRecord, records: Sequence[CaseRecord] = ()
) -> list[Event]:
    """The events of a case in order of time.

    `records` are all cases of the run: they tell whose a line is that names no case.
    """
    table = Timetable({r.case: (r.begin_us, r.end_us) for r in records or [record]})
    window = Window(record.case, record.begin_us, record.end_us, record.case)
    return [
        event
        for event in read_events(run_folder, [window])
        if record.case in reading.cases_of(event, table)
    ]


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
        verdict=str(end.get("verdict", "ERROR")),
        owner=owner if isinstance(owner, str) else None,
        reasons=_texts(reasons),
        attempt=attempt if type(attempt) is int else 1,
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
