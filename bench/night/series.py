"""What is the state of a case tonight, since when, and does somebody know of its failure?

A series is a case at one bench, on one rig, of one line. PASS and FAIL are conclusive; whatever
else a night gives is transparent for states. On the simulated rig a difference is a fact; on real
time statistics say what is flaky and what broke.

`known.toml` has a table `[[known]]` for each failure that somebody knows of: `case` (a name, `*`
for any characters), `issue`, and if wanted `rule`, `signature`, `owner` and `until`, a date.
"""

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from bench.capture.run_folder import replace
from bench.night.record import CONCLUSIVE, FAIL, LEFT_OUT, NOT_RUN, PASSES
from bench.night.statistics import Segment, segments, wilson

STRIP_MAX = 60
RECENT = 30
FLIPS_FLAKY = 2
STEADY = 3
"""What lasts for so many nights is a regression or a mend, and does not count as flaking."""
PASSES_CONFIRM = 3
PASSES_BRIDGED = 3
QUIET_UNSETTLED = 3


class State(StrEnum):
    """What a case is tonight, beside the nights before."""

    PASSING = "passing"
    NEW_CASE = "new_case"
    NEW_CASE_FAILING = "new_case_failing"
    NEW_FAILURE = "new_failure"
    CHANGED_FAILURE = "changed_failure"
    STILL_FAILING = "still_failing"
    FIXED = "fixed"
    FLAKY = "flaky"
    UNSETTLED = "unsettled"
    LOST = "lost"
    UNPROVEN = "unproven"
    """Never yet a conclusive result."""


QUIETLY = {
    State.NEW_CASE: State.PASSING,
    State.FIXED: State.PASSING,
    State.NEW_CASE_FAILING: State.STILL_FAILING,
    State.NEW_FAILURE: State.STILL_FAILING,
    State.CHANGED_FAILURE: State.STILL_FAILING,
}
"""What is left of a state in a night that proves nothing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a state follows from; everything but `glyph` and `signature` is of earlier nights, but
    `flips`, `both`, `broke` and `quiet` count tonight in.

    `last`: "·" or "F", "" without a conclusive night. `passes`: since the last failure. `flips`:
    in the last 30 conclusive nights, into and out of what did not last. `both`: both
    outcomes in the newest segment at one build. `broke`: the newest segment has nothing but
    failures, and another one came before. `told`: its failure was told as new.
    """

    glyph: str
    signature: str
    last: str
    last_signature: str
    passes: int
    told: bool
    quiet: int
    before: State
    flips: int = 0
    both: bool = False
    broke: bool = False


def state_of(facts: Facts, *, real_time: bool) -> State:
    if facts.glyph not in CONCLUSIVE:
        if facts.quiet >= QUIET_UNSETTLED and (facts.last or facts.glyph != LEFT_OUT):
            return State.UNSETTLED
        return QUIETLY.get(facts.before, facts.before)
    failed = facts.glyph == FAIL
    if not facts.last:
        return State.NEW_CASE_FAILING if failed else State.NEW_CASE
    same = facts.signature == facts.last_signature
    bridged = real_time and facts.told and same and facts.passes <= PASSES_BRIDGED
    if failed and bridged and facts.before is not State.FLAKY:
        return State.STILL_FAILING
    if real_time and not facts.broke and (facts.both or facts.flips >= FLIPS_FLAKY):
        return State.FLAKY
    if not failed:
        return State.FIXED if facts.last == FAIL else State.PASSING
    if facts.last != FAIL or not facts.told:
        return State.NEW_FAILURE
    return State.STILL_FAILING if same else State.CHANGED_FAILURE


class Series(msgspec.Struct, kw_only=True):
    """What is remembered of a case: the strip of the newest nights, and how it stands.

    The strip has a glyph a night, the last one of the newest night. `signatures`: of the failures
    in it, by night. `since`, `since_build`: when the present streak of passes or failures began.
    """

    strip: str = ""
    signatures: dict[str, str] = {}
    state: State = State.UNPROVEN
    last: str = ""
    since: str = ""
    since_build: str = ""
    last_pass: str = ""
    last_pass_build: str = ""
    signature: str = ""
    passes: int = 0
    told: bool = False
    quiet: int = 0
    explored: list[str] = []
    reason: str = ""
    owner: str = ""
    rules: list[str] = []
    file: str = ""
    scenario: str = ""
    strategy: str = ""

    @property
    def confirmed(self) -> bool:
        return not self.signature or self.passes >= PASSES_CONFIRM


class Recent(msgspec.Struct, frozen=True):
    """What the newest nights of a series amount to."""

    n30: int
    fail30: int
    flips30: int
    flips_brief: int
    both: bool
    broke: bool
    segments: tuple[Segment, ...]
    places: tuple[int, ...]
    """Of each conclusive night its place in the strip."""

    @property
    def interval(self) -> tuple[float, float]:
        """Within which the rate of failures lies, at 95 %."""
        return wilson(self.fail30, self.n30)


def recent(strip: str, builds: Sequence[str], *, real_time: bool) -> Recent:
    """The newest nights of a strip; `builds` are those of the same nights.

    On the simulated rig a segment is a streak.
    """
    places = tuple(n for n, glyph in enumerate(strip) if glyph in CONCLUSIVE)
    fails = [int(strip[n] == FAIL) for n in places]
    last = fails[-RECENT:]
    flips = [n for n in range(1, len(fails)) if fails[n] != fails[n - 1]]
    late_flips = [n for n in flips if n > len(fails) - len(last)]
    streaks = _streaks(fails)
    found = segments([(fail, 1) for fail in fails]) if real_time and any(fails) else streaks
    brief = {at for one in streaks[:-1] if one.n < STEADY for at in (one.begin, one.end)}
    now = found[-1] if found else Segment(0, 0, 0, 0, 0, 0)
    outcomes: dict[str, set[int]] = {}
    for n in range(now.begin, now.end):
        outcomes.setdefault(builds[places[n]], set()).add(fails[n])
    return Recent(
        n30=len(last),
        fail30=sum(last),
        flips30=len(late_flips),
        flips_brief=sum(n in brief for n in late_flips),
        both=any(len(words) > 1 for words in outcomes.values()),
        broke=len(found) > 1 and 0 < now.n == now.fails,
        segments=tuple(found),
        places=places,
    )


def _streaks(fails: Sequence[int]) -> list[Segment]:
    if not fails:
        return []
    begins = [n for n in range(len(fails)) if n == 0 or fails[n] != fails[n - 1]]
    ends = [*begins[1:], len(fails)]
    return [
        Segment(begin, end, begin, begin, sum(fails[begin:end]), end - begin)
        for begin, end in zip(begins, ends, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Tonight:
    """What a case gave tonight; `nights` and `builds` are those of the strip, tonight included."""

    glyph: str
    signature: str
    night: str
    nights: Sequence[str]
    builds: Sequence[str]


def with_night(series: Series, tonight: Tonight, *, real_time: bool) -> Series:
    """The series with one night more; what was lost or did not run leaves its state as it was."""
    glyph = tonight.glyph
    strip = (series.strip + glyph)[-STRIP_MAX:]
    kept = set(tonight.nights[-len(strip) :])
    signatures = {night: sig for night, sig in series.signatures.items() if night in kept}
    after = msgspec.structs.replace(series, strip=strip, signatures=signatures)
    if glyph == NOT_RUN:
        after.state = QUIETLY.get(series.state, series.state)
        return after
    after.quiet = 0 if glyph in CONCLUSIVE else series.quiet + 1
    found = recent(strip, tonight.builds[-len(strip) :], real_time=real_time)
    facts = Facts(
        glyph, tonight.signature, series.last, series.signature, series.passes, series.told,
        after.quiet, series.state, found.flips_brief, found.both, found.broke,
    )  # fmt: skip
    after.state = state_of(facts, real_time=real_time)
    if glyph in CONCLUSIVE:
        _note(after, series, tonight, real_time=real_time)
    return after


def _note(after: Series, before: Series, tonight: Tonight, *, real_time: bool) -> None:
    build = tonight.builds[-1]
    if tonight.glyph in PASSES:
        after.passes = before.passes + 1
        if before.last != "·":
            after.since, after.since_build = tonight.night, build
        if after.passes > (PASSES_BRIDGED if real_time else 0):
            after.told = False
        after.last, after.last_pass, after.last_pass_build = "·", tonight.night, build
        return
    after.last, after.passes, after.signature = FAIL, 0, tonight.signature
    after.signatures[tonight.night] = tonight.signature
    bridged = after.state is State.STILL_FAILING and before.last != FAIL
    if bridged:
        after.since, after.since_build = _failing_since(before, tonight)
    elif before.last != FAIL or before.signature != tonight.signature:
        after.since, after.since_build = tonight.night, build
    after.told = before.told or after.state is not State.FLAKY


def _failing_since(before: Series, tonight: Tonight) -> tuple[str, str]:
    since = len(before.strip) - 1
    passes = 0
    for place in range(len(before.strip) - 1, -1, -1):
        glyph = before.strip[place]
        if glyph == FAIL:
            if before.signatures.get(_night(tonight, before, place)) != tonight.signature:
                break
            since, passes = place, 0
        elif glyph in PASSES:
            passes += 1
            if passes > PASSES_BRIDGED:
                break
    return _night(tonight, before, since), tonight.builds[since - len(before.strip) - 1]


def _night(tonight: Tonight, before: Series, place: int) -> str:
    return tonight.nights[place - len(before.strip) - 1]


KEYS = frozenset({"case", "rule", "signature", "issue", "owner", "until"})


class KnownUnreadable(Exception):
    """`known.toml` cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A failure that somebody knows of; `until` is the last day on which it is excused."""

    case: str
    issue: str
    rule: str | None = None
    signature: str | None = None
    owner: str | None = None
    until: date | None = None

    def names(self, case: str) -> bool:
        """Whether it is about a case of this name."""
        return self.case == case or fnmatchcase(case, self.case.replace("[", "[[]"))

    def fits(self, case: str, signature: str, rules: Iterable[str] = ()) -> bool:
        """Whether this is the failure, by the name of its case and whatever else is said."""
        return (
            self.names(case)
            and self.signature in (None, signature)
            and (self.rule is None or self.rule in rules)
        )

    def is_over(self, night: str) -> bool:
        """Whether a night (it begins with its date) is past `until`."""
        return self.until is not None and night[:10] > self.until.isoformat()

    @property
    def told(self) -> str:
        return self.issue + (f" until {self.until}" if self.until else "")


def read_known(path: Path) -> tuple[Known, ...]:
    """What is known; nothing without the file. KnownUnreadable."""
    try:
        found = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return ()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise KnownUnreadable(f"{path}: {error}") from None
    tables = found.pop("known", [])
    if found or not isinstance(tables, list):
        raise KnownUnreadable(f"{path}: it has tables [[known]] and nothing else")
    return tuple(_known(path, number, table) for number, table in enumerate(tables, 1))


def _known(path: Path, number: int, table: object) -> Known:
    where = f"{path}, [[known]] number {number}"
    if not isinstance(table, dict):
        raise KnownUnreadable(f"{where}: it is a table")
    if strange := sorted(set(table) - KEYS):
        raise KnownUnreadable(f"{where}: {strange[0]} is none of {', '.join(sorted(KEYS))}")
    if missing := sorted({"case", "issue"} - set(table)):
        raise KnownUnreadable(f"{where}: it lacks {missing[0]}")
    until = table.get("until")
    if until is not None and type(until) is not date:
        raise KnownUnreadable(f"{where}: until is a date, such as 2026-12-24")
    if wrong := [
        key for key in sorted(KEYS - {"until"}) if not isinstance(table.get(key, ""), str)
    ]:
        raise KnownUnreadable(f"{where}: {wrong[0]} is a text")
    return Known(**table)


def add_known(path: Path, known: Known) -> None:
    """Write one more at the end of the file; what stands there stays as it is."""
    said = {"case": known.case, "rule": known.rule, "signature": known.signature}
    said |= {"issue": known.issue, "owner": known.owner}
    lines = [f"{key} = {json.dumps(value)}" for key, value in said.items() if value is not None]
    lines += [f"until = {known.until}"] if known.until is not None else []
    before = path.read_text("utf-8") if path.is_file() else ""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    replace(path.resolve(), (before + gap + "\n".join(["[[known]]", *lines]) + "\n").encode())
