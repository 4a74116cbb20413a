"""What became of the cases of a run, as its captures say?"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.capture.reading import Event, of_kinds
from bench.cli.output import ExitCode
from bench.night.record import exit_code

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
    return {word: counted.pop(word, 0) for word in WORDS} | dict(sorted(counted.items()))


def exit_code_of(verdicts: Sequence[CaseVerdict], *, whole: bool = True) -> ExitCode:
    """The exit code of a run that is not scored yet; the same rule as for a scored one."""
    rows = [{"verdict": verdict.verdict, "attempt": verdict.attempt} for verdict in verdicts]
    return ExitCode(exit_code({"verdicts": rows, "wholeness": {"whole": whole}}))


def in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no verdict"


def _verdict(end: Event) -> CaseVerdict:
    reasons, attempt = end.get("reasons"), end.get("attempt")
    return CaseVerdict(
        case=str(end.get("case", "?")),
        verdict=str(end.get("verdict", "ERROR")),
        reasons=tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else (),
        attempt=attempt if isinstance(attempt, int) else 1,
    )
