"""What changed tonight, beside all nights of the same line before it, and who knows of it?"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from bench.night.record import (
    CONCLUSIVE,
    FAIL,
    GLYPHS,
    LEFT_OUT,
    NOT_RUN,
    SIMULATED,
    Part,
    Recorded,
    Result,
    Timing,
    worst,
)
from bench.night.series import STRIP_MAX, Known, Recent, Series, State, Tonight, recent, with_night
from bench.night.statistics import segments, shifts, stands_out, wilson

NO_BASELINE_CODES = frozenset({2, 4, 12})
GATED = frozenset(
    "new_failure changed_failure new_case_failing lost determinism_broken seed_dependent"
    " margin_limit".split()
)
KINDS = {
    "determinism_broken": ("broken determinism", "broken determinisms"),
    "new_failure": ("new failure", "new failures"),
    "changed_failure": ("changed failure", "changed failures"),
    "new_case_failing": ("new case that fails", "new cases that fail"),
    "seed_dependent": ("failure of a seed", "failures of a seed"),
    "lost": ("lost case", "lost cases"),
    "margin_limit": ("kind of answers too late", "kinds of answers too late"),
    "margin_shift": ("shift in time", "shifts in time"),
    "fixed": ("fixed", "fixed"),
    "lab_shift": ("change in the lab", "changes in the lab"),
    "flaky": ("flaky", "flaky"),
    "unsettled": ("unsettled", "unsettled"),
    "new_case": ("new case", "new cases"),
    "known_expired": ("known failure past its day", "known failures past their day"),
    "known_unused": ("known failure that is gone", "known failures that are gone"),
}  # fmt: skip
"""Every kind of change, for one and for many, in the order in which people read them."""
_OF_STATES = {
    State.NEW_FAILURE, State.CHANGED_FAILURE, State.NEW_CASE_FAILING, State.FIXED, State.NEW_CASE,
    State.LOST,
}  # fmt: skip
SICK_SHARE = 0.1
SICK_NIGHTS = 3
AIM_GAP_US = 20_000
LAB_SHIFT_MIN = 0.05
_RECENT_NIGHTS = 15
_NEAR_NIGHTS = 3


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it was: what a person reads in the morning."""

    kind: str
    case: str = ""
    owner: str = ""
    text: str = ""
    since: str = ""
    since_build: str = ""
    run: str = ""
    repeat: str = ""
    signature: str = ""
    known: str = ""
    gated: bool = False


class RunOfNight(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    seed: int | None = None
    explores: bool = False
    setting: str = ""
    content: str = ""
    code: int = 0
    whole: bool = True
    scored: bool = True
    totals: dict[str, int] = {}


class Night(msgspec.Struct, kw_only=True):
    """A night of a line: its runs, how it ended, and what changed.

    `code` is the worst exit code of its runs; 12 where one is missing or was not scored.
    """

    night: str
    runs: list[RunOfNight] = []
    build: str = ""
    dirty: bool = False
    part: str = ""
    catalogue: str = ""
    code: int = 12
    trouble: str = ""
    started: str = ""
    ended: str = ""
    host: str = ""
    baseline: str = ""
    totals: dict[str, int] = {}
    margins: dict[str, Timing] = {}
    lab: dict[str, Part] = {}
    sick: dict[str, int] = {}
    changes: list[Change] = []
    counts: dict[str, int] = {}

    @property
    def proves(self) -> bool:
        """Whether its verdicts count: every run is there and whole."""
        return bool(self.runs) and all(run.whole and run.scored for run in self.runs)


class Line(msgspec.Struct, kw_only=True):
    """All nights of one line at one bench, on one rig, and the series of its cases."""

    bench: str
    rig: str
    line: str
    nights: list[Night] = []
    series: dict[str, Series] = {}
    shifted: dict[str, list[str]] = {}
    """By kind of answer, or part of the lab: the nights since which it was told to be different."""

    @property
    def real_time(self) -> bool:
        return self.rig != SIMULATED

    @property
    def key(self) -> tuple[str, str, str]:
        return self.bench, self.rig, self.line

    def recent(self, series: Series) -> Recent:
        """What the newest nights of one of its series amount to."""
        # The strip never reaches before the first night.
        builds = [night.build for night in self.nights[-len(series.strip) :]]
        return recent(series.strip, builds, real_time=self.real_time)


KEPT_CHANGES = 500


def with_one_more(line: Line, runs: Sequence[Recorded]) -> Night:
    """Fold one night into its line; what changed stands in the night, whoever knows of it."""
    night = _night(runs)
    base = baseline(line, night.part)
    night.baseline = "" if base is None else base.night
    line.nights.append(night)
    if night.proves:
        main = [run for run in runs if not run.explores]
        changes = _changes_of_cases(line, night, main, base)
        changes += _of_chance(line, night, runs)
        changes += _timing_changes(line, night)
        changes += _lab_changes(line, night)
        night.changes = sorted(changes, key=_rank)[:KEPT_CHANGES]
        night.counts = dict(Counter(change.kind for change in changes))
    else:
        for series in line.series.values():
            series.strip = (series.strip + NOT_RUN)[-STRIP_MAX:]
    return night


def baseline(line: Line, part: str = "") -> Night | None:
    """The newest night with which another one can be compared; None where there is none."""
    fit = (n for n in reversed(line.nights) if n.part == part and n.code not in NO_BASELINE_CODES)
    return next(fit, None)


def gate(night: Night) -> int:
    """The exit code of a night by what changed: 1 only for what is new."""
    if night.code in NO_BASELINE_CODES:
        return night.code
    if any(change.gated for change in night.changes):
        return 1
    if night.totals.get(GLYPHS["INCONCLUSIVE"]):
        return 11
    quiet = night.totals.get(FAIL, 0) + night.totals.get(GLYPHS["PASS on repeat"], 0)
    return 10 if quiet or night.code else 0


def _rank(change: Change) -> tuple[bool, int, str]:
    return not change.gated, list(KINDS).index(change.kind), change.case


def _night(runs: Sequence[Recorded]) -> Night:
    first = min(runs, key=lambda run: (run.explores, run.run))
    totals: Counter[str] = Counter()
    for run in runs:
        totals += run.totals
        totals[LEFT_OUT] += 0 if run.explores else len(run.left_out)
    parts: dict[str, Part] = {}
    for run in runs:
        parts |= {f"{part.kind} {part.name}": part for part in run.lab}
    return Night(
        night=str(first.night),
        runs=[
            RunOfNight(
                run=run.run, seed=run.seed, explores=run.explores, setting=run.setting,
                content=run.content, code=run.code, whole=run.whole, scored=run.scored,
                totals=dict(run.totals),
            )
            for run in sorted(runs, key=lambda run: run.run)
        ],
        build=first.build,
        dirty=any(run.dirty for run in runs),
        part=first.part,
        catalogue=first.catalogue,
        code=worst(run.code for run in runs),
        trouble="; ".join(dict.fromkeys(run.trouble for run in runs if run.trouble)),
        started=min((run.started for run in runs), default=""),
        ended=max((run.ended for run in runs), default=""),
        host=first.host,
        totals={glyph: n for glyph, n in totals.items() if n},
        margins={k: v for run in runs if not run.explores for k, v in run.margins.items()},
        lab=parts,
    )  # fmt: skip


def _changes_of_cases(
    line: Line, night: Night, runs: Sequence[Recorded], base: Night | None
) -> list[Change]:
    results = {case: (run, result) for run in runs for case, result in run.results.items()}
    left_out = {case: why for run in runs for case, why in run.left_out.items()}
    names = [one.night for one in line.nights]
    builds = [one.build for one in line.nights]
    back = None if base is None else len(line.nights) - 1 - line.nights.index(base)
    changes = []
    for case in sorted({*line.series, *results, *left_out}):
        run, result = results.get(case, (None, None))
        glyph = LEFT_OUT if case in left_out else NOT_RUN
        if result is not None:
            glyph = result.glyph
        before = line.series.get(case) or Series()
        now = Tonight(glyph, result.signature if result else "", night.night, names, builds)
        after = with_night(before, now, real_time=line.real_time)
        if result is not None:
            _describe(after, result)
        was_there = back is not None and before.strip[-back:][:1] not in ("", NOT_RUN, LEFT_OUT)
        if glyph == NOT_RUN and was_there and before.state is not State.LOST:
            after.state = State.LOST
        line.series[case] = after
        is_new = after.state in _OF_STATES and (glyph in CONCLUSIVE or after.state is State.LOST)
        is_new = is_new and not (after.state is State.LOST is before.state)
        first_time = {State.FLAKY, State.UNSETTLED}
        if is_new or (after.state in first_time and before.state is not after.state):
            changes.append(_change(after, case, before, line, night, run))
    return changes


def _describe(series: Series, result: Result) -> None:
    series.file, series.scenario, series.strategy = result.file, result.scenario, result.strategy
    if result.glyph == FAIL:
        series.reason, series.owner = result.reason, result.owner
        series.rules = list(result.rules)


def _change(
    after: Series, case: str, before: Series, line: Line, night: Night, run: Recorded | None
) -> Change:
    failing = after.state not in (State.FIXED, State.NEW_CASE, State.LOST)
    text = after.reason if failing else ""
    since, since_build = after.since, after.since_build
    if after.state is State.FIXED:
        text = f"failed since {before.since}: {after.reason}"
    elif after.state is State.LOST:
        text = f"it ran in {night.baseline}, and tonight neither ran nor was left out"
        since, since_build = night.night, night.build
    elif after.state is State.UNSETTLED:
        text = f"{after.quiet} nights without a pass or a failure"
        since, since_build = night.night, night.build
    return Change(
        kind=after.state.value,
        case=case,
        owner=after.owner if failing else "",
        text=text,
        since=since,
        since_build=since_build,
        run="" if run is None else run.run,
        repeat=repeat_command(line, after, run.seed if run else None),
        signature=after.signature if failing else "",
        gated=after.state.value in GATED,
    )


def repeat_command(line: Line, series: Series, seed: int | None) -> str:
    if not series.scenario or not series.file.endswith(".py"):
        return ""
    words = ["pytest", f"{series.file}::{series.scenario}", "--rig", line.rig]
    words += ["--seed", str(seed)] if seed is not None else []
    words += ["--strategy", series.strategy] if series.strategy else []
    return " ".join(words)


def _of_chance(line: Line, night: Night, runs: Sequence[Recorded]) -> list[Change]:
    changes = []
    for run in runs:
        if run.setting and run.whole and (twin := _twin(line, night, run)) is not None:
            changes += _differences(line, run, *twin)
    for run in runs:
        if run.explores:
            changes += _found_by_seed(line, night, run)
    return changes


def _twin(line: Line, night: Night, run: Recorded) -> tuple[int, Night, RunOfNight] | None:
    for ago, earlier in enumerate(reversed(line.nights[:-1]), 1):
        for other in earlier.runs:
            if other.setting == run.setting and other.whole and earlier.proves:
                return ago, earlier, other
    return None


def _differences(
    line: Line, run: Recorded, ago: int, earlier: Night, other: RunOfNight
) -> list[Change]:
    changes = []
    for case, result in run.results.items():
        series = line.series.get(case)
        if run.explores or series is None or len(series.strip) <= ago:
            continue
        was = series.strip[-1 - ago]
        if was == NOT_RUN or ago >= STRIP_MAX:
            continue
        same = was == result.glyph and (
            was != FAIL or series.signatures.get(earlier.night) == result.signature
        )
        if not same:
            text = f"{was} in {other.run}, {result.glyph} in {run.run}, and nothing else differs"
            changes.append(_broken(case, text, run))
    if not changes and "" not in (run.content, other.content) and run.content != other.content:
        text = f"{other.run} and {run.run} follow from the same, and have written other bytes"
        changes.append(_broken("", text, run))
    return changes


def _broken(case: str, text: str, run: Recorded) -> Change:
    kind = "determinism_broken"
    return Change(kind=kind, case=case, owner="bench", text=text, run=run.run, gated=True)


def _found_by_seed(line: Line, night: Night, run: Recorded) -> list[Change]:
    changes = []
    for case, result in sorted(run.results.items()):
        series = line.series.get(case)
        if result.glyph != FAIL or series is None or series.last == FAIL:
            continue
        known_before = result.signature in series.explored
        if not known_before:
            series.explored = [*series.explored, result.signature][-20:]
        changes.append(
            Change(
                kind="seed_dependent",
                case=case,
                owner=result.owner,
                text=f"fails with seed {run.seed}: {result.reason}",
                since=night.night,
                since_build=night.build,
                run=run.run,
                repeat=repeat_command(line, series, run.seed),
                signature=result.signature,
                gated=not known_before,
            )
        )
    return changes


def _timing_changes(line: Line, night: Night) -> list[Change]:
    changes = []
    earlier = [one for one in line.nights[:-1] if one.proves]
    for kind, tonight in sorted(night.margins.items()):
        before = [one for one in earlier if kind in one.margins]
        was = before[-1].margins[kind] if before else None
        if _is_over_limit(tonight) and not (was is not None and _is_over_limit(was)):
            changes.append(_limit(kind, tonight, night))
        known = line.shifted.setdefault(kind, [])
        # On virtual time it moves with the set of cases, and with nothing else.
        label = _shift_since(before, night, kind, known) if line.real_time else None
        if label is not None:
            known.append(label)
            changes.append(_shift(line, night, kind, label))
    return changes


def _is_over_limit(timing: Timing) -> bool:
    p1_us = timing.p1_margin_us
    return timing.late > 0 or (p1_us is not None and p1_us < AIM_GAP_US)


def _limit(kind: str, timing: Timing, night: Night) -> Change:
    p1_us = timing.p1_margin_us
    least = "" if p1_us is None else f", 1 % with less than {p1_us / 1000:.1f} ms to RX1"
    text = f"answers to {kind}: {timing.late} too late{least}"
    return Change(
        kind="margin_limit", case=kind, owner="LNS", text=text, since=night.night,
        since_build=night.build, run=night.runs[0].run, gated=True,
    )  # fmt: skip


def _shift_since(
    before: Sequence[Night], night: Night, kind: str, known: Sequence[str]
) -> str | None:
    nights = [*before, night]
    labels = [one.night for one in nights]
    begin = max((labels.index(label) for label in known if label in labels), default=0)
    for name in ("p50_us", "p99_us"):
        values = [float(getattr(one.margins[kind], name)) for one in nights]
        if stands_out(values[begin:-1], values[-1]):
            return night.night
        for at in shifts(values):
            near = any(
                abs(at - labels.index(one)) <= _NEAR_NIGHTS for one in known if one in labels
            )
            if not near and at >= begin and at >= len(values) - _RECENT_NIGHTS:
                return labels[at]
    return None


def _shift(line: Line, night: Night, kind: str, label: str) -> Change:
    since = next(n for n, one in enumerate(line.nights) if one.night == label)
    before = [one.margins[kind] for one in line.nights[:since] if kind in one.margins]
    now = line.nights[-1].margins[kind]
    was = before[-1] if before else now
    text = (
        f"answers to {kind} take {now.p50_us / 1000:.1f} ms (99 %: {now.p99_us / 1000:.1f} ms)"
        f" instead of {was.p50_us / 1000:.1f} ms ({was.p99_us / 1000:.1f} ms)"
    )
    return Change(
        kind="margin_shift", case=kind, owner="LNS", text=text, since=label,
        since_build=line.nights[since].build, run=night.runs[0].run,
    )  # fmt: skip


def _lab_changes(line: Line, night: Night) -> list[Change]:
    if not line.real_time:
        return []
    before = next((one for one in reversed(line.nights[:-1]) if one.proves), None)
    sick = {} if before is None else before.sick
    changes = []
    for name, part in sorted(night.lab.items()):
        low, high = wilson(part.missed, part.opportunities)
        ill = low > SICK_SHARE or (name in sick and high > SICK_SHARE)
        if ill:
            night.sick[name] = sick.get(name, 0) + 1
        share = f"{part.missed} of {part.opportunities} stimuli missed"
        interval = f"95 % {100 * low:.0f}–{100 * high:.0f} %"
        if ill and name not in sick:
            text = f"{name} is sick: {share} ({interval})"
        elif name in sick and not ill:
            text = f"{name} is well again: {share}"
        elif (since := _drift(line, name)) is not None:
            text = f"{name} misses another share of stimuli since {since}: {share} ({interval})"
        else:
            continue
        line.shifted.setdefault(name, []).append(night.night)
        changes.append(_of_lab(name, part, text, night))
    return changes


def _of_lab(name: str, part: Part, text: str, night: Night) -> Change:
    owner = {"station": "gateway", "device": "device"}.get(part.kind, "bench")
    return Change(
        kind="lab_shift", case=name, owner=owner, text=text, since=night.night,
        since_build=night.build, run=night.runs[0].run,
    )  # fmt: skip


def _drift(line: Line, name: str) -> str | None:
    nights = [one for one in line.nights if one.proves and name in one.lab][-STRIP_MAX:]
    found = segments([(one.lab[name].missed, one.lab[name].opportunities) for one in nights])
    if len(found) < 2:
        return None
    old, new = found[-2:]
    was, now = old.fails / max(1, old.n), new.fails / max(1, new.n)
    apart = old.interval[1] < new.interval[0] or new.interval[1] < old.interval[0]
    if abs(now - was) < LAB_SHIFT_MIN or not apart:
        return None
    labels = [one.night for one in nights]
    places = [labels.index(label) for label in line.shifted.get(name, []) if label in labels]
    return None if any(place >= new.begin for place in places) else labels[new.begin]


def with_known(line: Line, known: Sequence[Known]) -> Night:
    """The newest night of a line, with what somebody knows of out of the gate.

    A rule that is over, or that no failure fits any more, is a change as well.
    """
    night = line.nights[-1]
    if not night.proves or not known:
        return night
    valid = [one for one in known if not one.is_over(night.night)]
    changes = []
    for change in night.changes:
        rules = line.series[change.case].rules if change.case in line.series else ()
        fits = (one for one in valid if one.fits(change.case, change.signature, rules))
        one = next(fits, None) if change.gated else None
        replaced = {"known": one.told, "gated": False} if one is not None else {}
        changes.append(msgspec.structs.replace(change, **replaced))
    failing = {case: (s.signature, s.rules) for case, s in line.series.items() if s.last == FAIL}
    failing |= {one.case: (one.signature, failing.get(one.case, ("", []))[1]) for one in changes}
    for one in known:
        if one.is_over(night.night):
            changes.append(Change(kind="known_expired", case=one.case, text=one.told))
        elif not any(one.fits(case, *found) for case, found in failing.items()) and _was_played(
            one, line, night
        ):
            text = f"{one.told}: nothing of tonight is this failure"
            changes.append(Change(kind="known_unused", case=one.case, text=text))
    counts = dict(Counter(change.kind for change in changes))
    return msgspec.structs.replace(night, changes=sorted(changes, key=_rank), counts=counts)


def _was_played(known: Known, line: Line, night: Night) -> bool:
    """Whether a night would have shown it: a part of the scenarios, or another rig, may not."""
    series = [series for case, series in line.series.items() if known.names(case)]
    if not series:
        return not night.part
    return any(one.strip[-1:] not in ("", NOT_RUN, LEFT_OUT) for one in series)
