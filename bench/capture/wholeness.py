"""Is a run whole: was all played that was planned, and are its books without holes?

What is missing is *incomplete*: nobody is blamed for it. The manifest says which cases were
planned, how the run ended, and how many lines each stream had then, with a checksum; each
`case.end` says how many lines of the case stood in each stream (`books`). A run of an older
version says none of this: there, the numbers of the lines and the ends of the cases must do. Which
it is, its lines tell: those of an older one have neither a plan nor books.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from bench.capture.reading import (
    RUN_BEGIN,
    RUN_END,
    Event,
    Timetable,
    capture_files,
    content,
    contents_of,
    lines,
    of_kinds,
    stream,
    timetable,
)
from bench.capture.run_folder import BENCH, MANIFEST

KILLED = "killed"
HOLES_TOLD_MAX = 20  # of one stream


class Rule(StrEnum):
    """What books with holes break."""

    ENDED = "a run ends"
    PLAYED = "what is planned is played"
    GAPS = "no gaps in seq"
    TWICE = "no line twice"
    TORN = "torn lines"
    COUNTS = "lines as counted"
    CHECKSUM = "checksum"
    STREAMS = "every stream there"
    MANIFEST = "a manifest"


@dataclass(frozen=True, slots=True)
class Hole:
    """One way in which the books of a run are not whole; always the bench's own business."""

    rule: Rule
    text: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """A case that nobody can judge: its lines are not all there.

    `begin` is its `case.begin`, empty where that is what is missing.
    """

    case: str
    reason: str
    begin: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wholeness:
    """What of a run is there, and what is missing.

    `planned` is None where the run does not say; `how` it ended: finished, interrupted, stopped,
    killed, or "" where an older version did not say. `judged`: the cases that are whole. `strange`:
    names that lines have and no book knows: what they say is no evidence.
    """

    planned: int | None = None
    how: str = ""
    reason: str = ""
    begun: int = 0
    judged: tuple[str, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    unplayed: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()
    holes: tuple[Hole, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether all is there that was planned, and every line of it."""
        return not (self.withheld or self.unplayed or self.holes)

    @property
    def sentence(self) -> str:
        """What is missing, in a sentence for a person; "" where nothing is."""
        return "" if self.whole else f"incomplete: {'; '.join(self._parts())}"

    def _parts(self) -> Iterator[str]:
        if self.how == KILLED or self.how not in ("", "finished"):
            yield f"{self.how} at case {self._place}{f' ({self.reason})' if self.reason else ''}"
        if self.how == "finished" and self.unplayed:
            yield f"{len(self.unplayed)} of {self.planned} cases have vanished from its books"
        elif self.unplayed:
            yield f"{_cases(len(self.unplayed))} not played"
        if self.withheld:
            for_what = "it" if len(self.withheld) == 1 else "them"
            yield f"{_cases(len(self.withheld))} not whole, and nobody is blamed for {for_what}"
        texts = [hole.text for hole in self.holes if hole.rule not in (Rule.ENDED, Rule.PLAYED)]
        if texts:
            more = len(texts) - 1
            yield texts[0] + (f", and {more} more such hole{'s' * (more > 1)}" if more else "")

    @property
    def _place(self) -> str:
        return str(self.begun) if self.planned is None else f"{self.begun} of {self.planned}"

    def as_json(self) -> dict[str, Any]:
        return {
            "whole": self.whole,
            "sentence": self.sentence,
            "how": self.how,
            "planned": self.planned,
            "begun": self.begun,
            "judged": len(self.judged),
            "withheld": [{"case": one.case, "reason": one.reason} for one in self.withheld],
            "unplayed": list(self.unplayed),
            "holes": [{"rule": hole.rule.value, "text": hole.text} for hole in self.holes],
        }


def wholeness(run_folder: Path) -> Wholeness:
    """What of a run is there, and what is missing.

    Streams for which their checksums vouch are not read line by line, but for that of the bench;
    where none vouches for that one, who knows whose manifest it is: then all of them are.
    """
    return _Audit(run_folder).result()


class _Row(msgspec.Struct):
    seq: int
    t_us: int
    source: str
    kind: str
    case: Any = None
    run_id: Any = None


_decode = msgspec.json.Decoder(_Row).decode


@dataclass(slots=True)
class _Stream:
    """What was found in one stream that was read line by line.

    `missing`: how many numbers were passed over. `of_case`: the numbers of the lines of each case.
    `suspects`: the cases beside a hole; `doubted`: those of which a line is not as it was.
    """

    lines: int = 0
    missing: int = 0
    holes: list[Hole] = field(default_factory=list)
    of_case: dict[str, list[int]] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    doubted: set[str] = field(default_factory=set)


class _Audit:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holes: list[Hole] = []
        self._manifest = self._read_manifest()
        self._files = {stream(path): path for path in capture_files(folder)}
        self._vouched: set[str] = set()
        marks = list(_marks(self._files.get(BENCH)))
        named = [one for one in marks if isinstance(one.get("case"), str)]
        self._times = Counter((one["kind"], one["case"]) for one in named)
        self._begins = {one["case"]: one for one in _of_kind(marks, "case.begin")}
        self._ends = {one["case"]: one for one in _of_kind(marks, "case.end")}
        self._table: Timetable = timetable(marks)
        self._run_begin = next((one for one in marks if one.get("kind") == RUN_BEGIN), None)
        self._run_end = next((one for one in marks if one.get("kind") == RUN_END), None)

    def result(self) -> Wholeness:
        planned = self._planned
        how, reason = self._ending()
        self._holes += self._unsaid()
        found = self._streams()
        reasons = self._withheld(found)
        booked = self._begins.keys() | self._ends.keys()
        unplayed = tuple(case for case in planned or () if case not in self._begins)
        unplayed = tuple(case for case in unplayed if case not in reasons)
        if how and how != "finished":
            self._holes.insert(0, Hole(Rule.ENDED, f"{how}{f': {reason}' if reason else ''}"))
        if unplayed:
            names = ", ".join(unplayed[:HOLES_TOLD_MAX])
            more = f", and {len(unplayed) - HOLES_TOLD_MAX} more" * (len(unplayed) > HOLES_TOLD_MAX)
            text = f"{_cases(len(unplayed))} planned and not there: {names}{more}"
            self._holes.append(Hole(Rule.PLAYED, text))
        return Wholeness(
            planned=None if planned is None else len(planned),
            how=how,
            reason=reason,
            begun=len(self._begins if planned is None else set(planned) & set(self._begins)),
            judged=tuple(case for case in self._begins if case not in reasons),
            withheld=tuple(
                Withheld(case, reasons[case], self._begins.get(case, {})) for case in reasons
            ),
            unplayed=unplayed,
            strange=tuple(sorted(set().union(*(one.of_case for one in found.values())) - booked)),
            holes=tuple(self._holes),
        )

    @property
    def _planned(self) -> Sequence[str] | None:
        planned = self._manifest.get("planned")
        return list(map(str, planned)) if isinstance(planned, list) else None

    def _ending(self) -> tuple[str, str]:
        ended = self._manifest.get("ended")
        said = ended if isinstance(ended, dict) else self._run_end
        if said is None:
            return (KILLED if self._planned is not None else ""), ""
        return str(said.get("how", KILLED)), str(said.get("reason", ""))

    def _unsaid(self) -> Iterator[Hole]:
        """What the manifest no longer says, though the lines are of a version that wrote it."""
        is_booked = any("books" in end for end in self._ends.values())
        if self._holes or not (is_booked or "planned" in (self._run_begin or {})):
            return
        begin, planned, books = self._run_begin or {}, self._planned, self._manifest.get("streams")
        if planned is None:
            yield Hole(Rule.MANIFEST, f"{MANIFEST} does not say what was planned")
        elif (run_id := self._manifest.get("run_id")) != begin.get("run_id", run_id):
            yield Hole(Rule.MANIFEST, f"{MANIFEST} is of another run")
        elif begin.get("planned", len(planned)) != len(planned):
            text = f"{MANIFEST} plans {len(planned)} cases, and its run {begin['planned']}"
            yield Hole(Rule.MANIFEST, text)
        if (self._run_end or self._manifest.get("ended")) and not isinstance(books, dict):
            yield Hole(Rule.MANIFEST, f"{MANIFEST} does not say what its streams were")

    def _read_manifest(self) -> dict[str, Any]:
        try:
            found = json.loads(content(self._folder / MANIFEST))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        self._holes.append(Hole(Rule.MANIFEST, f"{MANIFEST} cannot be read: nobody knows the plan"))
        return {}

    def _streams(self) -> dict[str, _Stream]:
        books = self._manifest.get("streams")
        booked: Mapping[str, Any] = books if isinstance(books, dict) else {}
        as_booked = {
            name for name, path in self._files.items() if _is_as_booked(path, booked.get(name))
        }
        self._vouched = as_booked if BENCH in as_booked else set()
        found: dict[str, _Stream] = {}
        for name in sorted(booked.keys() | self._files.keys()):
            if name not in self._files:
                self._holes.append(Hole(Rule.STREAMS, f"the stream {name} is missing"))
                found[name] = _Stream()
            elif name not in self._vouched:
                book = booked.get(name)
                found[name] = self._read(name, None if name in as_booked else book)
                if isinstance(books, dict) and not isinstance(book, dict):
                    text = f"the stream {name} is not one that this run had"
                    self._holes.append(Hole(Rule.STREAMS, text))
                    found[name].doubted |= found[name].of_case.keys()
        return found

    def _read(self, name: str, book: object) -> _Stream:
        run_id = None if self._run_begin is None else self._run_begin.get("run_id")
        found = _Reader(name, self._table, run_id).read(self._files[name])
        if isinstance(book, dict):
            due = book.get("lines")
            if found.lines != due:
                text = f"{name} has {found.lines} lines, and had {due} when the run ended"
                found.holes.append(Hole(Rule.COUNTS, text))
            if not found.holes:
                text = f"{name} is not as it was when the run ended: its checksum is another one"
                found.holes.append(Hole(Rule.CHECKSUM, text))
                found.doubted |= found.of_case.keys() or set(self._begins)
        self._holes += found.holes
        return found

    def _withheld(self, found: Mapping[str, _Stream]) -> dict[str, str]:
        short = self._short(found)
        reasons: dict[str, str] = {}
        for case in dict.fromkeys([*self._begins, *self._ends]):
            if case not in self._begins:
                reasons[case] = "incomplete: its beginning is missing"
            elif case not in self._ends:
                reasons[case] = "incomplete: the run ended before this case did"
            elif max(self._times["case.begin", case], self._times["case.end", case]) > 1:
                reasons[case] = "incomplete: it stands there more than once"
            elif not _are_books(self._ends[case].get("books", [])):
                reasons[case] = "incomplete: nobody can read its books"
            elif case in short:
                reasons[case] = f"incomplete: {short[case]}"
        return reasons

    def _short(self, found: Mapping[str, _Stream]) -> dict[str, str]:
        short: dict[str, str] = {}
        accounted: Counter[str] = Counter()
        for case, end in self._ends.items():
            for name, due, last_seq in _books(end):
                if name in self._vouched:
                    continue
                numbers = found[name].of_case.get(case, ()) if name in found else ()
                ending = end["seq"] if name == BENCH else None  # which is in no book of the case
                lost = due - sum(seq <= last_seq and seq != ending for seq in numbers)
                if lost:
                    accounted[name] += max(0, lost)
                    short.setdefault(case, f"{lost} of its {due} lines in {name} are missing")
        for name, one in found.items():
            # What no book accounts for may have been a line of any case beside the hole.
            unbooked = {case for case in one.suspects if not any(_books(self._ends.get(case, {})))}
            beside = one.suspects if one.missing > accounted[name] else unbooked
            for case in sorted(one.doubted | beside):
                short.setdefault(case, f"the stream {name} has holes")
        return short


class _Reader:
    def __init__(self, name: str, table: Timetable, run_id: object) -> None:
        self._name = name
        self._table = table
        self._run_id = run_id
        self._found = _Stream()
        self._beside: frozenset[str] = frozenset()
        self._is_torn_before = False
        self._due = 0
        self._told: Counter[Rule] = Counter()

    def read(self, path: Path) -> _Stream:
        """What is in the stream; as far as it can be read."""
        try:
            for number, line in enumerate(lines(path), 1):
                self._line(number, line)
        except OSError as error:
            self._hole(Rule.TORN, str(error).replace(f"{path.parent}/", ""))
            self._found.doubted |= set(self._table.cases)
        if self._is_torn_before:
            self._found.suspects |= self._beside
        return self._found

    def _line(self, number: int, line: bytes) -> None:
        found = self._found
        found.lines += 1
        try:
            row = _decode(line)
        except (ValueError, RecursionError):
            self._hole(Rule.TORN, f"{self._name}: line {number} is torn")
            self._is_torn_before = True
            return
        cases = self._cases(row)
        is_other_run = self._run_id not in (None, row.run_id)
        if is_other_run or row.source != self._name:
            of = "another run" if is_other_run else "another stream"
            self._hole(Rule.STREAMS, f"{self._name}: line {number} is of {of}")
            found.doubted |= cases
        if row.seq > self._due:
            missing = f"{self._due} to {row.seq - 1}" if row.seq - self._due > 1 else f"{self._due}"
            rule = Rule.TORN if self._is_torn_before else Rule.GAPS
            self._hole(rule, f"{self._name} goes on with seq {row.seq}: {missing} is missing")
            found.missing += row.seq - self._due
        if row.seq != self._due or self._is_torn_before:
            found.suspects |= (cases & self._beside) or (cases | self._beside)
        if row.seq < self._due:
            self._hole(Rule.TWICE, f"{self._name}: seq {row.seq} stands there again, at {number}")
            found.doubted |= cases
        elif row.case is not None:
            found.of_case.setdefault(_name(row.case), []).append(row.seq)
        self._due = max(self._due, row.seq + 1)
        self._beside, self._is_torn_before = cases, False

    def _cases(self, row: _Row) -> frozenset[str]:
        if isinstance(row.case, str):
            return frozenset((row.case,))
        return frozenset(self._table.open_at(row.t_us))

    def _hole(self, rule: Rule, text: str) -> None:
        self._told[rule] += 1
        if self._told[rule] <= HOLES_TOLD_MAX:
            self._found.holes.append(Hole(rule, text))


def _name(case: object) -> str:
    """As Spark reads it, also where it is no text."""
    return case if isinstance(case, str) else msgspec.json.encode(case).decode()


def _is_as_booked(path: Path, book: object) -> bool:
    digest = hashlib.sha256()
    try:
        for block in contents_of(path) if isinstance(book, dict) else ():
            digest.update(block)
    except OSError:
        return False
    return isinstance(book, dict) and digest.hexdigest() == book.get("sha256")


def _are_books(books: object) -> bool:
    return isinstance(books, list) and all(
        isinstance(book, dict) and type(book.get("lines")) is type(book.get("last_seq")) is int
        for book in books
    )


def _books(end: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    books = end.get("books", [])
    for book in books if _are_books(books) else ():
        yield str(book.get("source")), book["lines"], book["last_seq"]


def _of_kind(events: Iterable[Event], kind: str) -> Iterator[Event]:
    return (e for e in events if e.get("kind") == kind and isinstance(e.get("case"), str))


def _marks(path: Path | None) -> Iterator[Event]:
    if path is not None:
        with suppress(OSError):
            for found in of_kinds(path, "case.begin", "case.end", RUN_BEGIN, RUN_END):
                if type(found.get("t_us")) is int:
                    yield found


def _cases(number: int) -> str:
    return f"{number} case{' is' if number == 1 else 's are'}"
