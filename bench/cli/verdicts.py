"""How did the cases of a run end, before Spark has looked at them?"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """The verdicts of a run in order; a line that cannot be read is none, for Spark to count."""
    path = run_folder / BENCH_EVENTS
    if not path.is_file():
        return []
    return list(_verdicts(path.read_bytes().splitlines()))


def totals(verdicts: Iterable[CaseVerdict]) -> dict[str, int]:
    """How many cases ended with each verdict word; the four words are always there."""
    counted = Counter(verdict.verdict for verdict in verdicts)
    return {word: counted.pop(word, 0) for word in WORDS} | dict(sorted(counted.items()))


def exit_code_of(verdicts: Sequence[CaseVerdict]) -> ExitCode:
    """The exit code of a run that is not scored yet; the same rule as for a scored one."""
    rows = [{"verdict": verdict.verdict, "attempt": verdict.attempt} for verdict in verdicts]
    return ExitCode(exit_code({"verdicts": rows}))


def in_words(counts: Mapping[str, int]) -> str:
    """The totals as a person reads them: `41 PASS, 1 FAIL`; words that did not occur left out."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no verdict"


def _verdicts(lines: Iterable[bytes]) -> Iterable[CaseVerdict]:
    for line in lines:
        event = _event(line)
        if event.get("kind") != "case.end":
            continue
        reasons = event.get("reasons")
        attempt = event.get("attempt")
        yield CaseVerdict(
            case=str(event.get("case", "?")),
            verdict=str(event.get("verdict", "ERROR")),
            reasons=tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else (),
            attempt=attempt if isinstance(attempt, int) else 1,
        )


def _event(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
