"""What does a run folder say about the run: its scores, its manifest, and each of its cases?"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from bench.capture import reading
from bench.capture.reading import Event, Timetable, capture_files, content
from bench.capture.run_folder import manifest_of
from bench.capture.wholeness import wholeness
from bench.night.record import INCONCLUSIVE_SHARE_MAX, SCORE_SCHEMA, share_max_of, word
from bench.report.excerpts import Window, decode, read_events, shown


class ReportError(Exception):
    """The report cannot be written; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one case; times in µs of the run's clock."""

    case: str
    scenario: str
    verdict: str
    file: str | None = None
    group: str | None = None
    title: str | None = None
    strategy: str | None = None
    confirmed: bool | None = None
    reasons: tuple[str, ...] = ()
    owner: str | None = None
    attempt: int = 1
    begin_us: int | None = None
    end_us: int | None = None
    receptions: int = 0

    @property
    def first_attempt_pass(self) -> bool:
        return self.verdict == "PASS" and self.attempt <= 1

    @property
    def wording(self) -> str:
        return word(self.verdict, self.attempt)


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement between LNS, expectation, oracle and the conservation laws."""

    owner: str
    rule: str
    case: str | None = None
    frame_id: str | None = None
    station: str | None = None
    n: int | None = None
    expected: str | None = None
    observed: str | None = None
    t_us: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often `observed` stood where `expected` was due; "-" is no status."""

    expected: str
    observed: str
    count: int


@dataclass(frozen=True, slots=True)
class OracleConfusion:
    """How often the LNS said `observed` where the oracle says `oracle`; "-" is no status."""

    oracle: str
    observed: str
    count: int


@dataclass(frozen=True, slots=True)
class OracleAgreement:
    receptions: int = 0
    status_agree: int = 0
    disposition_agree: int = 0
    level2_agree: int | None = None


@dataclass(frozen=True, slots=True)
class StoreCalls:
    """How many receptions of one kind there were where level 2 may be asked, and how many asked.

    `uplinks` counts the frames whose first reception was of this kind.
    """

    status: str
    receptions: int
    asked: int
    uplinks: int = 0
    strategy: str | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """How many receptions of one kind ended in `answer`."""

    answer: str
    count: int
    strategy: str | None = None
    confirmed: bool | None = None


@dataclass(frozen=True, slots=True)
class Disposition:
    upstream: str
    count: int


@dataclass(frozen=True, slots=True)
class Percentiles:
    min_us: int
    p1_us: int
    p50_us: int
    p99_us: int


@dataclass(frozen=True, slots=True)
class Margins:
    """How early the answers to one kind of uplink ("data", "join") left for their station.

    What the bench `disturbed` on purpose is counted, and is in no other figure. `late`: for every
    window; `late_for_rx1`: aimed at RX1, and only RX2 was left. `rx1_ms`: how many margins to RX1
    lie in each whole millisecond.
    """

    kind: str
    answers: int
    disturbed: int = 0
    late: int = 0
    late_for_rx1: int = 0
    from_air: int = 0
    rx1: Percentiles | None = None
    rx2: Percentiles | None = None
    rx1_ms: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Duplicates:
    """How many duplicates were born and died at these places; "effect": they lived."""

    born: str
    died: str
    count: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """How many uplinks were accepted (`uplinks`), delivered at least once, and had effects.

    Of those `consumed` by an application: `once` had one effect at each of its consumers, `copies`
    one for each of several messages, `more` several of one message, `never` none.
    """

    uplinks: int = 0
    delivered: int = 0
    consumed: int = 0
    once: int = 0
    copies: int = 0
    more: int = 0
    never: int = 0
    duplicates: tuple[Duplicates, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A case that the rig could not play, and what it misses."""

    case: str
    scenario: str
    missing: tuple[str, ...]
    file: str | None = None
    group: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """How often the host stalled for so long that cases suffer, and its worst stall in µs."""

    stalls: int = 0
    worst_stall_us: int = 0


@dataclass(frozen=True, slots=True)
class Withheld:
    """A case that began and cannot be judged: lines of it are missing."""

    case: str
    reason: str


@dataclass(frozen=True, slots=True)
class Books:
    """Whether all is there that was planned; `sentence` says what is missing."""

    whole: bool = True
    sentence: str = ""
    how: str = ""
    planned: int | None = None
    judged: int = 0
    withheld: tuple[Withheld, ...] = ()
    unplayed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    lines: int = 0
    torn_lines: int = 0
    receptions: int = 0
    outcomes: int = 0
    transmissions: int = 0
    evicted: int = 0
    deliveries: int = 0
    left_out: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Spark:
    """Which Spark scored the run, and how long it took in seconds; "" where none did."""

    version: str = ""
    master: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Score:
    """score.json, schema 1, as `bench.score.job` leaves it in the run folder.

    `is_scored` is false where the run was not scored yet, and the verdicts are its own.
    """

    schema: int
    run: str
    verdicts: tuple[Verdict, ...]
    run_id: str | None = None
    rig: str | None = None
    seed: int | str | None = None
    spark: Spark = field(default_factory=Spark)
    counts: Counts = field(default_factory=Counts)
    confusion: tuple[Confusion, ...] = ()
    oracle: tuple[OracleConfusion, ...] = ()
    oracle_agreement: OracleAgreement = field(default_factory=OracleAgreement)
    findings: tuple[Finding, ...] = ()
    provoked: tuple[Finding, ...] = ()
    answers: tuple[Answers, ...] = ()
    dispositions: tuple[Disposition, ...] = ()
    store_calls: tuple[StoreCalls, ...] = ()
    margins: tuple[Margins, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    left_out: tuple[LeftOut, ...] = ()
    host: Host = field(default_factory=Host)
    wholeness: Books = field(default_factory=Books)
    inconclusive_share_max: float = 0.0
    is_scored: bool = True


def read_score(run_folder: Path) -> Score:
    """The scores of a run; ReportError if they are missing, torn or of another schema."""
    path = run_folder / "score.json"
    if not run_folder.is_dir():
        raise ReportError(f"{run_folder}: no such run folder. `ls {run_folder.parent}` lists runs.")
    try:
        found = json.loads(decode(content(path)))
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema != SCORE_SCHEMA:
            raise ReportError(
                f"{path}: schema {shown(repr(schema))}, this report reads schema {SCORE_SCHEMA}. "
                f"Score the run again with this version: lorabench score {run_folder}"
            )
        return msgspec.convert(found, Score)
    except FileNotFoundError:
        raise ReportError(
            f"{path} is missing: the run has not been scored. First: lorabench score {run_folder}"
        ) from None
    except (json.JSONDecodeError, RecursionError, msgspec.ValidationError) as error:
        raise ReportError(
            f"{path} cannot be read ({shown(str(error))}). "
            f"Score the run again: lorabench score {run_folder}"
        ) from None


def score_of(run_folder: Path) -> Score:
    """The scores of a run; of one that was not scored yet, the verdicts that it reached itself.

    ReportError if the scores are torn or of another schema, or if there is no verdict either.
    """
    if (run_folder / "score.json").is_file() or not capture_files(run_folder, "bench"):
        return read_score(run_folder)
    return unscored(run_folder)


def unscored(run_folder: Path) -> Score:
    """What a run says of itself, without Spark: its verdicts, what was left out, what is missing.

    A case that proved nothing and was played again does not count; of a case that is not whole
    there is no verdict but an ERROR of the bench.
    """
    books = wholeness(run_folder)
    withheld = {one.case: one.reason for one in books.withheld}
    begins: dict[str, Event] = {}
    verdicts: dict[str, dict[str, Any]] = {}
    left_out = []
    for event in read_events(run_folder, sources="bench"):
        kind, case = event.get("kind"), event.get("case")
        if not isinstance(case, str):
            continue
        if kind == "case.begin":
            begins[case] = event
        elif kind == "case.left_out":
            left_out.append(event)
        elif kind == "case.end" and case in begins and case not in withheld:
            verdicts[case] = {**begins[case], **event, "begin_us": begins[case]["t_us"]}
    for case, reason in withheld.items():
        found = begins.get(case, {})
        broken = {"case": case, "verdict": "ERROR", "owner": "bench", "reasons": [reason]}
        verdicts[case] = {"scenario": case, **found, "begin_us": found.get("t_us"), **broken}
    said = {
        "schema": SCORE_SCHEMA,
        "run": run_folder.name,
        "verdicts": [
            {**row, "end_us": row.get("t_us"), "reasons": row.get("reasons") or ()}
            for row in verdicts.values()
            if not (row.get("repeated") and row.get("verdict") == "INCONCLUSIVE")
        ],
        "left_out": left_out,
        "wholeness": books.as_json(),
        INCONCLUSIVE_SHARE_MAX: share_max_of(manifest_of(run_folder).get("inventory")),
        "is_scored": False,
    }
    try:
        return msgspec.convert(said, Score)
    except msgspec.ValidationError as error:
        raise ReportError(
            f"{run_folder}: its own verdicts cannot be read ({shown(str(error))}). "
            f"First: lorabench score {run_folder}"
        ) from None


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
        value = self.begin.get(field)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Judgement:
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
