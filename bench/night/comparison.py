"""Is one build worse than another?

Pairs are made by case, seed, rig and bench; only those count that are conclusive on both sides. On
the simulated rig a difference is a fact. On real time McNemar's exact test speaks for the whole,
Fisher's for a case that was played often, and an e-value that is valid at any time says when enough
was seen.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from bench.night.record import CONCLUSIVE, FAIL, SIMULATED, Recorded, Result
from bench.night.statistics import evidence, false_discovery, fisher, mcnemar, wilson

EVIDENCE_ENOUGH = 20
MARGIN_SHARE = 0.05
P_MAX = 0.05
FAILURES_MIN = 3
POINTS_MIN = 0.05
CONCLUSIVE_SHARE_MIN = 0.8


class Outcome(IntEnum):
    NOT_WORSE = 0
    WORSE = 1
    NOTHING_IN_COMMON = 4
    UNDECIDED = 10
    UNPROVEN = 11


class Stop(StrEnum):
    WORSE = "worse: the evidence is enough"
    NOT_WORSE = "not worse: whatever the difference, it is below 5 points"
    SPENT = "what was to be played is played"


@dataclass(frozen=True, slots=True)
class Difference:
    """A case that one build passes and the other one fails, or that fails in another way."""

    case: str
    relation: str
    text: str
    old: str
    new: str
    p: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the pairs of two builds show; `worse` and `better` count discordant pairs."""

    pairs: int
    worse: int
    better: int
    old_fails: int
    new_fails: int
    left: tuple[tuple[str, int], ...]
    differences: tuple[Difference, ...]
    real_time: bool

    @property
    def p(self) -> float | None:
        """McNemar's exact test, one-sided; None where a difference is a fact or there is none."""
        discordant = self.worse + self.better
        return mcnemar(self.worse, self.better) if self.real_time and discordant else None

    @property
    def evidence(self) -> float:
        return evidence(self.worse, self.better)

    @property
    def outcome(self) -> Outcome:
        """Worse, not worse, or not to be decided."""
        known = self.pairs + sum(n for why, n in self.left if why.startswith("not conclusive"))
        if not known:
            return Outcome.NOTHING_IN_COMMON
        if self.pairs < CONCLUSIVE_SHARE_MIN * known:
            return Outcome.UNPROVEN
        if not self.real_time:
            worse = any(one.relation in ("worse", "fails otherwise") for one in self.differences)
            return Outcome.WORSE if worse else Outcome.NOT_WORSE
        by_case = any(one.p is not None and one.p < P_MAX for one in self.differences)
        by_all = self.p is not None and self.p < P_MAX
        if by_case or by_all or self.evidence >= EVIDENCE_ENOUGH:
            return Outcome.WORSE
        return Outcome.UNDECIDED if self.worse else Outcome.NOT_WORSE

    @property
    def stop(self) -> Stop | None:
        """Whether enough was seen after the pairs so far."""
        if self.evidence >= EVIDENCE_ENOUGH:
            return Stop.WORSE
        _, high = wilson(self.worse, self.pairs)
        low, _ = wilson(self.better, self.pairs)
        return Stop.NOT_WORSE if self.pairs and high - low < MARGIN_SHARE else None


def compared(old: Sequence[Recorded], new: Sequence[Recorded]) -> Comparison:
    """The runs of an old and a new build, pair by pair, in the order in which they were played."""
    olds, news = _by_key(old), _by_key(new)
    left: Counter[str] = Counter()
    pairs: dict[str, list[tuple[Result, Result]]] = defaultdict(list)
    for key in sorted({*olds, *news}):
        ours, theirs = olds.get(key, []), news.get(key, [])
        left["only in the old"] += max(0, len(ours) - len(theirs))
        left["only in the new"] += max(0, len(theirs) - len(ours))
        for one, other in zip(ours, theirs, strict=False):
            both = one.glyph in CONCLUSIVE and other.glyph in CONCLUSIVE
            if both:
                pairs[key[0]].append((one, other))
            else:
                left[f"not conclusive in the {'old' if _is_open(one) else 'new'}"] += 1
    every = [pair for of_case in pairs.values() for pair in of_case]
    return Comparison(
        pairs=len(every),
        worse=sum(_fails(b) and not _fails(a) for a, b in every),
        better=sum(_fails(a) and not _fails(b) for a, b in every),
        old_fails=sum(_fails(a) for a, _ in every),
        new_fails=sum(_fails(b) for _, b in every),
        left=tuple((why, n) for why, n in sorted(left.items()) if n),
        differences=_differences(pairs),
        real_time=any(run.rig != SIMULATED for run in [*old, *new]),
    )


def _is_open(result: Result) -> bool:
    return result.glyph not in CONCLUSIVE


def _fails(result: Result) -> bool:
    return result.glyph == FAIL


def _by_key(runs: Sequence[Recorded]) -> dict[tuple[str, str, str, str], list[Result]]:
    found: dict[tuple[str, str, str, str], list[Result]] = defaultdict(list)
    for run in runs:
        if run.whole:
            for case, result in run.results.items():
                found[case, str(run.seed), run.rig, run.bench].append(result)
    return found


def _differences(pairs: dict[str, list[tuple[Result, Result]]]) -> tuple[Difference, ...]:
    found = [_difference(case, of_case) for case, of_case in sorted(pairs.items())]
    differing = [one for one in found if one is not None]
    tested = [one for one in differing if one.p is not None]
    adjusted = false_discovery([one.p for one in tested if one.p is not None])
    ps = {one.case: p for one, p in zip(tested, adjusted, strict=True)}
    return tuple(
        Difference(one.case, one.relation, one.text, one.old, one.new, ps.get(one.case))
        for one in differing
    )


def _difference(case: str, pairs: Sequence[tuple[Result, Result]]) -> Difference | None:
    was, now, n = sum(_fails(a) for a, _ in pairs), sum(_fails(b) for _, b in pairs), len(pairs)
    other = [b for a, b in pairs if _fails(a) and _fails(b) and a.signature != b.signature]
    if was == now and not other:
        return None
    relation = "worse" if now > was else "better" if now < was else "fails otherwise"
    shown = next((b for _, b in pairs if _fails(b)), None) if now else pairs[0][0]
    enough = now >= FAILURES_MIN and (now - was) / n >= POINTS_MIN
    return Difference(
        case=case,
        relation=relation,
        text=shown.reason if shown is not None else "",
        old=f"{was}/{n}",
        new=f"{now}/{n}",
        p=fisher(was, n, now, n) if enough else None,
    )


def table(comparison: Comparison, old: str, new: str, *, rows_max: int = 20) -> list[str]:
    """The comparison in lines, in the manner of benchstat."""
    width = max([len("case"), *(len(one.case) for one in comparison.differences[:rows_max])])
    lines = [
        f"{'case':{width}}  {'old fails':>10}  {'new fails':>10}  delta",
        *(
            f"{one.case:{width}}  {one.old:>10}  {one.new:>10}  {_delta(one, comparison)}"
            for one in comparison.differences[:rows_max]
        ),
    ]
    more = len(comparison.differences) - rows_max
    lines += [f"… and {more} more"] if more > 0 else []
    whole = comparison.pairs
    rates = f"{comparison.old_fails}/{whole}", f"{comparison.new_fails}/{whole}"
    lines.append(f"{'all':{width}}  {rates[0]:>10}  {rates[1]:>10}  {_of_all(comparison)}")
    lines += [
        f"{n} {'case' if n == 1 else 'cases'} left aside: {why}" for why, n in comparison.left
    ]
    return [f"old {old}", f"new {new}", "", *lines, "", sentence(comparison)]


def _delta(one: Difference, comparison: Comparison) -> str:
    if not comparison.real_time:
        return one.relation
    n = one.new.partition("/")[2]
    return "~" if one.p is None or one.p >= P_MAX else f"{one.relation} (p={one.p:.3f} n={n}+{n})"


def _of_all(comparison: Comparison) -> str:
    points = 100 * (comparison.new_fails - comparison.old_fails) / max(1, comparison.pairs)
    if comparison.p is None:
        return f"{points:+.1f} points"
    n = comparison.pairs
    sign = "~" if comparison.p >= P_MAX else f"{points:+.1f} points"
    return f"{sign} (p={comparison.p:.3f} n={n}+{n})"


def sentence(comparison: Comparison) -> str:
    """The answer: worse or not, and how sure."""
    pairs = f"{comparison.pairs} pair{'' if comparison.pairs == 1 else 's'}"
    discordant = f"{comparison.worse} got worse, {comparison.better} better"
    return {
        Outcome.NOT_WORSE: f"Not worse: of {pairs} {discordant}.",
        Outcome.WORSE: f"Worse: of {pairs} {discordant}.",
        Outcome.NOTHING_IN_COMMON: "They have no case with the same seed, rig and bench in common.",
        Outcome.UNDECIDED: f"Different, but undecided: of {pairs} {discordant}; "
        f"evidence {comparison.evidence:.1f} of {EVIDENCE_ENOUGH}.",
        Outcome.UNPROVEN: f"Too few pairs are conclusive on both sides: {pairs}.",
    }[comparison.outcome]
