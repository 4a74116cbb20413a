"""What became of a run, and what of it does a night remember?

Read from its manifest and its score.json alone; of one that is not scored, from bench.jsonl.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec

from bench.capture.reading import Event, content, of_kinds
from bench.capture.run_folder import manifest_of

PASS_ON_REPEAT = "PASS on repeat"


class ExitCode(IntEnum):
    """The exit codes of every command; scripts rely on them."""

    PASSED = 0
    FAILED = 1
    INTERRUPTED = 2
    USAGE = 4
    REPEATED = 10
    INCONCLUSIVE = 11
    BENCH_ERROR = 12


MEANINGS = {
    ExitCode.PASSED: "every verdict is a PASS at the first attempt, or nothing was to be judged",
    ExitCode.FAILED: "at least one FAIL",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.USAGE: "usage or configuration: the message says what to change",
    ExitCode.REPEATED: "no FAIL, but passes on a repeated stimulus",
    ExitCode.INCONCLUSIVE: "no FAIL, but more INCONCLUSIVE than is allowed",
    ExitCode.BENCH_ERROR: "the bench itself failed, or the run is incomplete or has no verdict",
}

WORST_FIRST = (
    ExitCode.INTERRUPTED, ExitCode.USAGE, ExitCode.BENCH_ERROR, ExitCode.FAILED,
    ExitCode.INCONCLUSIVE, ExitCode.REPEATED, ExitCode.PASSED,
)  # fmt: skip
"""The first of these that applies to one of several runs is the exit code of all of them."""


def worst(codes: Iterable[int]) -> ExitCode:
    """The exit code of several runs together; BENCH_ERROR for none, as there is no verdict."""
    found = {ExitCode(code) for code in codes}
    return next((code for code in WORST_FIRST if code in found), ExitCode.BENCH_ERROR)


INCONCLUSIVE_SHARE_MAX = "inconclusive_share_max"
"""How great a share of its cases may be INCONCLUSIVE: the manifest of a run has it with the
inventory, its score on its own."""


def share_max_of(said: object) -> float:
    """That share, 0 to 1, as an inventory in a manifest or a score has it; 0 where it has none."""
    share = _mapping(said).get(INCONCLUSIVE_SHARE_MAX)
    return float(share) if isinstance(share, int | float) and 0 <= share <= 1 else 0.0


def exit_code(score: dict[str, Any]) -> ExitCode:
    """The exit code of a scored run, from the verdicts of score.json (a dict, as it is read).

    - 12 bench error: the run is incomplete, a verdict is ERROR (or no known word), or there is
      none at all;
    - 1 at least one FAIL;
    - 11 no FAIL, but more INCONCLUSIVE than its `inconclusive_share_max` allows, or no PASS;
    - 10 no FAIL, but passes on a repeated stimulus;
    - 0 every verdict a first-attempt PASS, but for the INCONCLUSIVE ones that are allowed.

    Several may apply; the first of this list wins. A bench error comes before a FAIL because a
    broken instrument makes every other verdict of the run doubtful. Never 0 with no verdict.
    """
    listed = score.get("verdicts")
    verdicts = [v for v in listed if isinstance(v, dict)] if isinstance(listed, list) else []
    words = Counter(word(v.get("verdict"), v.get("attempt")) for v in verdicts)
    books = score.get("wholeness")
    if isinstance(books, dict) and books.get("whole") is not True:
        return ExitCode.BENCH_ERROR
    return code_of(words, share_max_of(score))


def code_of(words: Counter[str], inconclusive_share_max: float = 0.0) -> ExitCode:
    """The same for so many cases of each word."""
    cases = words.total()
    if cases == 0 or words["ERROR"]:
        return ExitCode.BENCH_ERROR
    if words["FAIL"]:
        return ExitCode.FAILED
    proven = words["PASS"] + words[PASS_ON_REPEAT]
    if words["INCONCLUSIVE"] > inconclusive_share_max * cases or proven == 0:
        return ExitCode.INCONCLUSIVE
    return ExitCode.REPEATED if words[PASS_ON_REPEAT] else ExitCode.PASSED


def word(verdict: object, attempt: object) -> str:
    """The verdict as people read it: a pass on a repeated stimulus is labelled so.

    A word that this version does not know is an ERROR, never a pass.
    """
    if verdict == "PASS":
        repeated = isinstance(attempt, int) and attempt > 1
        return PASS_ON_REPEAT if repeated else "PASS"
    return str(verdict) if verdict in ("FAIL", "INCONCLUSIVE") else "ERROR"


BENCH_EVENTS = "bench.jsonl"
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "ERROR")


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """What became of one case, as its `case.end` says; `owner`: whose it is where it is no PASS."""

    case: str
    verdict: str
    reasons: tuple[str, ...] = ()
    attempt: int = 1
    owner: str | None = None


def read_verdicts(run_folder: Path) -> list[CaseVerdict]:
    """The verdicts of a run in order; a line that cannot be read is none, for Spark to count.

    A case that proved nothing and was played again does not count: its repetition does.
    """
    ends = of_kinds(run_folder / BENCH_EVENTS, "case.end")
    return [_verdict(end) for end in ends if not end.get("repeated")]


def read_left_out(run_folder: Path) -> dict[str, int]:
    """What the rig misses, and how many cases it could not play for that, the most first."""
    counted: Counter[str] = Counter()
    for note in of_kinds(run_folder / BENCH_EVENTS, "case.left_out"):
        missing = note.get("missing")
        names = sorted(map(str, missing)) if isinstance(missing, list) else []
        counted[", ".join(names) or "not told"] += 1
    return dict(counted.most_common())


def totals(verdicts: Iterable[CaseVerdict]) -> dict[str, int]:
    """How many cases ended with each verdict word; the four words are always there."""
    counted = Counter(verdict.verdict for verdict in verdicts)
    return {word: counted.pop(word, 0) for word in VERDICTS} | dict(sorted(counted.items()))


def in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no verdict"


def exit_code_of(
    verdicts: Sequence[CaseVerdict], *, whole: bool = True, share_max: float = 0.0
) -> ExitCode:
    """The exit code of a run that is not scored yet; the same rule as for a scored one."""
    rows = [{"verdict": verdict.verdict, "attempt": verdict.attempt} for verdict in verdicts]
    said = {"verdicts": rows, "wholeness": {"whole": whole}, INCONCLUSIVE_SHARE_MAX: share_max}
    return exit_code(said)


def _verdict(end: Event) -> CaseVerdict:
    reasons, attempt = end.get("reasons"), end.get("attempt")
    return CaseVerdict(
        case=str(end.get("case", "?")),
        verdict=str(end.get("verdict", "ERROR")),
        reasons=tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else (),
        attempt=attempt if isinstance(attempt, int) else 1,
        owner=None if end.get("owner") is None else str(end["owner"]),
    )


GLYPHS = {"PASS": "·", "PASS on repeat": "r", "FAIL": "F", "INCONCLUSIVE": "?", "ERROR": "!"}
PASSES, FAIL, LEFT_OUT, NOT_RUN = frozenset("·r"), "F", "–", " "
CONCLUSIVE = PASSES | {FAIL}
SIMULATED = "simulated"
_SIGNATURE_DIGITS = 12
_COMMIT_DIGITS = 12


class _Finding(msgspec.Struct):
    owner: str
    rule: str
    case: str | None = None
    expected: str | None = None
    observed: str | None = None


class _Verdict(msgspec.Struct):
    case: str
    verdict: str
    scenario: str = ""
    file: str | None = None
    title: str | None = None
    reasons: list[str] = []
    owner: str | None = None
    attempt: int | None = 1
    strategy: str | None = None
    begin_us: int | None = None
    end_us: int | None = None


class _LeftOut(msgspec.Struct):
    case: str
    missing: list[str] | None = None


class _Books(msgspec.Struct):
    whole: bool = True
    sentence: str = ""
    how: str = ""


class Figures(msgspec.Struct, frozen=True):
    """How long answers to one kind of uplink took, in µs: a distribution in short."""

    p50_us: int
    p95_us: int
    p99_us: int
    max_us: int


class _Rx1(msgspec.Struct):
    p1_us: int


class _Margins(msgspec.Struct):
    kind: str
    answers: int = 0
    late: int = 0
    rx1: _Rx1 | None = None
    consumed: Figures | None = None


class Part(msgspec.Struct, frozen=True):
    """What became of the stimuli that needed one part of a lab."""

    kind: str
    name: str
    opportunities: int
    missed: int
    repeats: int = 0
    inconclusive: int = 0
    errors: int = 0
    rssi_p50: float | None = None
    snr_p50: float | None = None


SCORE_SCHEMA = 1


class _Score(msgspec.Struct):
    verdicts: list[_Verdict]
    findings: list[_Finding] = []
    left_out: list[_LeftOut] = []
    margins: list[_Margins] = []
    lab: list[Part] = []
    wholeness: _Books = msgspec.field(default_factory=_Books)
    schema: int = SCORE_SCHEMA


_decode = msgspec.json.Decoder(_Score).decode


class Timing(msgspec.Struct, frozen=True):
    """The time that answers to one kind of uplink consumed, and how near they came to a window."""

    p50_us: int
    p99_us: int
    late: int = 0
    p1_margin_us: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a case: a glyph, and of a failure its signature and its first reason."""

    glyph: str
    signature: str = ""
    owner: str = ""
    reason: str = ""
    rules: tuple[str, ...] = ()
    file: str = ""
    scenario: str = ""
    strategy: str = ""
    duration_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run as a night remembers it.

    `build`: what was tested, in short; `setting`: a hash of all that a simulated run follows from,
    "" where it is not known; `content`: a hash of all that it wrote. `code`: its exit code.
    """

    run: str
    night: str | None
    bench: str
    rig: str
    line: str
    part: str
    explores: bool
    seed: int | None
    build: str
    dirty: bool
    catalogue: str
    setting: str
    content: str
    started: str
    ended: str
    host: str
    whole: bool
    scored: bool
    code: int
    trouble: str = ""
    results: Mapping[str, Result] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    margins: Mapping[str, Timing] = field(default_factory=dict)
    lab: tuple[Part, ...] = ()

    @property
    def totals(self) -> Counter[str]:
        return Counter(result.glyph for result in self.results.values())


def record_of(folder: Path, said: bytes | None = None) -> Recorded | None:
    """A run as a night remembers it; None where its manifest cannot be read.

    `said` stands in for its score. A run that was not scored, or whose score cannot be read, has no
    results: it proves nothing.
    """
    manifest = manifest_of(folder)
    if not manifest:
        return None
    try:
        score = _decode(content(folder / "score.json") if said is None else said)
    except FileNotFoundError:
        return _recorded(folder, manifest, None, _ending(manifest))
    except (ValueError, OSError, RecursionError) as error:
        return _recorded(folder, manifest, None, f"its score cannot be read: {error}")
    if score.schema != SCORE_SCHEMA:
        trouble = f"its score has schema {score.schema}, and this version reads {SCORE_SCHEMA}"
        return _recorded(folder, manifest, None, trouble)
    return _recorded(folder, manifest, score, score.wholeness.sentence)


def signature_of(findings: Iterable[tuple[str, str, str | None, str | None]]) -> str:
    """What makes two failures the same: who broke which rule how; no times, no names."""
    rows = {"\x1f".join(part or "" for part in finding) for finding in findings}
    text = "\x1e".join(sorted(rows))
    return hashlib.sha256(text.encode()).hexdigest()[:_SIGNATURE_DIGITS]


def build_of(manifest: Mapping[str, Any]) -> tuple[str, bool]:
    """What was tested, in short, and whether that is no commit: `7e07562d1a2b`, `4.9`.

    A tree with changes of its own has the hash of the difference behind the commit.
    """
    dut = _mapping(manifest.get("dut"))
    commit, version = dut.get("commit"), dut.get("version")
    known = isinstance(commit, str) and commit not in ("", "unknown")
    name = str(commit)[:_COMMIT_DIGITS] if known else str(version or "unknown")
    difference = dut.get("difference")
    dirty = dut.get("dirty") is True
    return (f"{name}+{str(difference)[:8]}" if dirty else name), dirty


def _recorded(
    folder: Path, manifest: dict[str, Any], score: _Score | None, trouble: str
) -> Recorded:
    build, dirty = build_of(manifest)
    whole = score is not None and score.wholeness.whole
    results = {} if score is None else _results(score)
    words = (
        Counter() if score is None else Counter(word(v.verdict, v.attempt) for v in score.verdicts)
    )
    inventory = _mapping(manifest.get("inventory"))
    ended = _mapping(manifest.get("ended"))
    kind_suffix = " of traffic" if inventory.get("devices") == "recorded" else ""
    night, seed = manifest.get("night"), manifest.get("seed")
    return Recorded(
        run=folder.name,
        night=night if isinstance(night, str) else None,
        bench=str(inventory.get("name") or ""),
        rig=str(manifest.get("rig") or ""),
        line=str(manifest.get("line") or ""),
        part=str(manifest.get("part") or ""),
        explores=manifest.get("explores") is True,
        seed=seed if isinstance(seed, int) else None,
        build=build,
        dirty=dirty or _mapping(manifest.get("bench_code")).get("dirty") is True,
        catalogue=str(manifest.get("catalogue_sha") or ""),
        setting=setting_of(manifest),
        content=content_of(manifest),
        started=str(manifest.get("started") or ""),
        ended=str(ended.get("at") or ""),
        host=str(manifest.get("host") or ""),
        whole=whole,
        scored=score is not None,
        code=code_of(words, share_max_of(inventory)) if whole else ExitCode.BENCH_ERROR,
        trouble=trouble,
        results=results,
        left_out={} if score is None else _left_out(score),
        margins={} if score is None else _margins(score, kind_suffix),
        lab=() if score is None else tuple(score.lab),
    )


def setting_of(manifest: Mapping[str, Any]) -> str:
    """A hash of all that a simulated run follows from; "" where something of it is not known."""
    dut, code = _mapping(manifest.get("dut")), _mapping(manifest.get("bench_code"))
    commits = [dut.get("commit"), code.get("commit")]
    known = all(isinstance(commit, str) and commit != "unknown" for commit in commits)
    if manifest.get("rig") != SIMULATED or not known:
        return ""
    names = ("seed", "catalogue_sha", "inventory_sha", "versions", "planned", "part")
    facts = [dut, code, *(manifest.get(name) for name in names)]
    return _short_hash(json.dumps(facts, sort_keys=True))


def content_of(manifest: Mapping[str, Any]) -> str:
    """A hash of all streams of a run that ended; "" of any other."""
    streams = manifest.get("streams")
    return _short_hash(json.dumps(streams, sort_keys=True)) if isinstance(streams, dict) else ""


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _ending(manifest: Mapping[str, Any]) -> str:
    ended = _mapping(manifest.get("ended"))
    if not ended:
        return "it did not end: it was killed, or is still running"
    how = ended.get("how")
    if how == "refused":
        return f"it was refused: {ended.get('reason')}"
    return "it was not scored" if how == "finished" else f"it was {how}, and not scored"


def _results(score: _Score) -> dict[str, Result]:
    found: dict[str, list[tuple[str, str, str | None, str | None]]] = defaultdict(list)
    for one in score.findings:
        if one.case is not None:
            found[one.case].append((one.owner, one.rule, one.expected, one.observed))
    return {case_of(one): _result(one, found[one.case]) for one in score.verdicts}


def case_of(verdict: _Verdict) -> str:
    """The name of the series: what was played again has the number of the attempt in its name."""
    suffix = f" (attempt {verdict.attempt})"
    return verdict.case.removesuffix(suffix)


def _result(verdict: _Verdict, findings: list[tuple[str, str, str | None, str | None]]) -> Result:
    glyph = GLYPHS[word(verdict.verdict, verdict.attempt)]
    failed = glyph == FAIL
    rows = findings or [(verdict.owner or "", "", None, None)]
    span_us = (verdict.end_us or 0) - (verdict.begin_us or 0)
    return Result(
        glyph,
        signature=signature_of(rows) if failed else "",
        owner=verdict.owner or "",
        reason=verdict.reasons[0] if verdict.reasons else "",
        rules=tuple(sorted({rule for _, rule, _, _ in findings})) if failed else (),
        file=verdict.file or "",
        scenario=verdict.scenario,
        strategy=verdict.strategy or "",
        duration_us=max(0, span_us),
    )


def _left_out(score: _Score) -> dict[str, str]:
    return {one.case: ", ".join(one.missing or ()) or "not told" for one in score.left_out}


def _margins(score: _Score, suffix: str) -> dict[str, Timing]:
    return {
        f"{one.kind}{suffix}": Timing(
            one.consumed.p50_us,
            one.consumed.p99_us,
            one.late,
            None if one.rx1 is None else one.rx1.p1_us,
        )
        for one in score.margins
        if one.consumed is not None
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
