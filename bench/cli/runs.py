"""Which runs does a person mean, and what came of them?"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from bench.capture.reading import Event, event, lines
from bench.capture.run_folder import latest
from bench.cli.output import ExitCode, Refused
from bench.report import exit_code

LATEST = "latest"
MANIFEST = "manifest.json"


class NoSuchRun(Refused):
    """There is no run folder of this name."""


def run_folders_in(runs: Path) -> list[Path]:
    """The run folders in `runs`, oldest first: their names begin with the time of the run."""
    if not runs.is_dir():
        return []
    return sorted(folder for folder in runs.iterdir() if _is_run(folder))


def resolve(names: Sequence[str], *, runs: Path) -> list[Path]:
    """The run folders that names stand for, once each: a path, a name in `runs`, or `latest`."""
    return list(dict.fromkeys(_resolve(name, runs) for name in names))


def _resolve(name: str, runs: Path) -> Path:
    if name == LATEST:
        return _latest(runs)
    for folder in (Path(name), runs / name):
        if _is_run(folder):
            return folder
    if Path(name).is_dir():
        raise NoSuchRun(f"{name} is a folder, but not of a run: it holds no {MANIFEST}.")
    known = [folder.name for folder in run_folders_in(runs)]
    near = get_close_matches(Path(name).name, known, n=3) or known[-3:]
    found = f"The nearest in {runs}: {', '.join(near)}." if near else f"{runs} holds no run yet."
    raise NoSuchRun(f"There is no run {name}. {found} `lorabench run` makes a new one.")


def _latest(runs: Path) -> Path:
    folder = latest(runs)
    if folder is None:
        raise NoSuchRun(f"There is no run in {runs} yet. `lorabench run` makes one.")
    return folder


def _is_run(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


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
