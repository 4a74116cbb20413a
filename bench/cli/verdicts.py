"""How did the cases of a run end, before Spark has looked at them?"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.capture.reading import Event, event, lines
from bench.cli.exit_code import ExitCode
from bench.report import exit_code

BENCH_EVENTS = "bench.jsonl"
WORDS = ("PASS", "FAIL", "INCONCLUSIVE", "ERROR")


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """What became of one case, as its `case.end` says."""

    case: str
    verdict: str
    reasons: tuple[str, ...] = ()
    attempt: int = 1


def read_verdicts(run_folder: Path) -> list[CaseVerdict]:
    """The verdicts of a run in order; a line that cannot be read is none, for Spark to count.

    A case that proved nothing and was played again does not count: its repetition does.
    """
    ends = _of_kind(run_folder, "case.end")
    return [_verdict(end) for end in ends if not end.get("repeated")]


def read_left_out(run_folder: Path) -> dict[str, int]:
    """What the rig misses, and how many cases it could not play for that, the most first."""
    counted: Counter[str] = Counter()
    for note in _of_kind(run_folder, "case.left_out"):
        missing = note.get("missing")
        names = sorted(map(str, missing)) if isinstance(missing, list) else []
        counted[", ".join(names) or "not told"] += 1
    return dict(counted.most_common())


def totals(verdicts: Iterable[CaseVerdict]) -> dict[str, int]:
    """How many cases ended with each verdict word; the four words are always there."""
    counted = Counter(verdict.verdict for verdict in verdicts)
    return {word: counted.pop(word, 0) for word in WORDS} | dict(sorted(counted.items()))


def exit_code_of(verdicts: Sequence[CaseVerdict], *, whole: bool = True) -> ExitCode:
    """The exit code of a run that is not scored yet; the same rule as for a scored one."""
    rows = [{"verdict": verdict.verdict, "attempt": verdict.attempt} for verdict in verdicts]
    return ExitCode(exit_code({"verdicts": rows, "wholeness": {"whole": whole}}))


def in_words(counts: Mapping[str, int]) -> str:
    """The totals as a person reads them: `41 PASS, 1 FAIL`; words that did not occur left out."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no verdict"


def _of_kind(run_folder: Path, kind: str) -> list[Event]:
    found = [event(line) for line in lines(run_folder / BENCH_EVENTS)]
    return [one for one in found if one is not None and one.get("kind") == kind]


def _verdict(end: Event) -> CaseVerdict:
    reasons, attempt = end.get("reasons"), end.get("attempt")
    return CaseVerdict(
        case=str(end.get("case", "?")),
        verdict=str(end.get("verdict", "ERROR")),
        reasons=tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else (),
        attempt=attempt if isinstance(attempt, int) else 1,
    )
