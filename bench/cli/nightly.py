"""`lorabench nightly`: did anything change for the worse since yesterday?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bench
from bench.cli.bench_file import inventory_of
from bench.cli.exit_code import ExitCode, Refused, worst
from bench.cli.imports import import_files
from bench.cli.nightly_summary import Judged, document, sentence, summary
from bench.cli.options import LAKE, RUNS, AsJson, Lake, RunsWritten, Seed
from bench.cli.output import command_line, print_json, print_lines, shown_path
from bench.cli.progress import ProgressDisplay
from bench.cli.readiness import healthy, ready
from bench.cli.report import write_report
from bench.cli.run import Ran, Rig, Selection, run_scenarios
from bench.cli.score import score_runs
from bench.explore.explore import Order, explore
from bench.explore.judge import MODEL
from bench.inventory.entries import Inventory
from bench.night.compaction import compact_runs
from bench.night.publishing import publish
from lns.clock import utc_of_this_host

EXAMPLES = (
    "lorabench nightly",
    "lorabench nightly --short --seed 7",
    "lorabench nightly --rig emulated",
    "lorabench nightly --bench bench.toml",
)
SHORT_LIMIT = 500
SHORT_HISTORIES, EXPLORED_S = 300, 60
KEEP_NIGHTS = 14
CAPTURE_FILES = ("*.ndjson.gz", "*.ndjson", "conformance-frames.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night is to do; `inventory` is the bench of the hardware rig, None on any other."""

    rig: Rig
    inventory: Inventory | None
    seed: int
    runs: Path
    lake: str
    files: tuple[Path, ...]
    limit: int | None
    keep: int

    @property
    def repeat(self) -> str:
        """The command that does the same again."""
        words: list[object] = []
        if self.inventory is not None:
            words += ["--bench", shown_path(self.inventory.path)]
        elif self.rig != "simulated":
            words += ["--rig", self.rig]
        words += ["--seed", self.seed, *(["--short"] if self.limit else [])]
        return command_line("nightly", *words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A night that took place."""

    judged: tuple[Judged, ...]
    code: ExitCode
    compacted: tuple[str, ...]


def nightly(
    *,
    rig: Annotated[
        Rig | None,
        Parameter(help="What stands below the scenarios: simulated, if nothing is said."),
    ] = None,
    bench: Annotated[
        Path | None, Parameter(help="Inventory of a real bench: a night on the hardware rig.")
    ] = None,
    seed: Seed = 1,
    runs: RunsWritten = RUNS,
    lake: Lake = LAKE,
    captures: Annotated[
        Path | None,
        Parameter(
            help="Folder with captures of real traffic; without it, ../shared/captures beside the "
            "checkout if that is there."
        ),
    ] = None,
    short: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help=f"At most {SHORT_LIMIT} uplinks of each capture.",
        ),
    ] = False,
    keep: Annotated[
        int,
        Parameter(help="Compress the captures of runs older than so many nights; delete nothing."),
    ] = KEEP_NIGHTS,
    as_json: AsJson = False,
) -> int:
    """Run all scenarios and real captures, score them, write the reports, say how it went.

    On a real bench everything is looked for first, and at the end the summary goes to whom the
    inventory names.
    """
    if keep < 1:
        raise Refused("--keep is a number of nights, 1 at least: the last one stays as it is.")
    night = Night(
        rig=_rig_of(rig, bench),
        inventory=None if bench is None else inventory_of(bench),
        seed=seed,
        runs=runs,
        lake=lake,
        files=tuple(captures_in(captures)),
        limit=SHORT_LIMIT if short else None,
        keep=keep,
    )
    with ProgressDisplay() as display:
        try:
            outcome = _pass(night, display)
        except (Refused, OSError) as refusal:
            code = refusal.exit_code if isinstance(refusal, Refused) else ExitCode.USAGE
            for line in _published(night, code, f"no night: {refusal}", ()):
                display.line(line)
            raise
    findings = sum(run.findings for run in outcome.judged)
    told = sentence(outcome.code, findings)
    published = _published(night, outcome.code, told, outcome.judged)
    if as_json:
        shown = document(outcome.judged, outcome.code)
        print_json(shown | {"compacted": outcome.compacted, "published": published})
    else:
        print_lines(summary(outcome.judged, outcome.code, night.repeat))
        print_lines([*outcome.compacted, *published])
        if not night.files:
            print_lines(["No real traffic was there to import; --captures names a folder with it."])
    return outcome.code


def captures_in(folder: Path | None) -> list[Path]:
    """The captures of real traffic in a folder, or in the usual place if none is named."""
    usual = Path(bench.__path__[0]).resolve().parent.parent / "shared" / "captures"
    looked_in = folder if folder is not None else usual
    return sorted(file for pattern in CAPTURE_FILES for file in looked_in.glob(pattern))


def _rig_of(rig: Rig | None, bench: Path | None) -> Rig:
    if bench is None and rig == "hardware":
        raise Refused(
            "--rig hardware: name the inventory of the bench, --bench bench.toml"
            " (`lorabench devices --discover` helps to write it)."
        )
    if bench is not None and rig not in (None, "hardware"):
        raise Refused(f"--bench: the {rig} rig has no inventory; leave one of the two out.")
    return "hardware" if bench is not None else rig or "simulated"


def _pass(night: Night, display: ProgressDisplay) -> Outcome:
    """Go through the stages of a night; Refused when it cannot take place."""
    stage = _Stages(night, display)
    if night.inventory is not None:
        stage(f"is the bench {night.inventory.name} ready")
        for line in ready(night.inventory):
            display.line(f"    {line}")
        stage("is every board heard by every gateway")
        healthy(night.inventory, lambda line: display.line(f"    {line}"))
    stage(f"scenarios on the {night.rig} rig, seed {night.seed}")
    ran = _scenarios(night, display)
    folders = {"scenarios": ran.folder}
    if night.files:
        stage(f"real traffic: {', '.join(file.name for file in night.files)}")
        folders["real traffic"] = import_files(
            night.files,
            runs=night.runs,
            strategy="None",
            seed=night.seed,
            limit=night.limit,
            progress=display,
        )
    stage("histories that nobody thought of")
    explored = _explored(night, display)
    stage("scores, by Spark")
    scores = score_runs(list(folders.values()), lake=night.lake, progress=display)
    stage("reports")
    for folder in folders.values():
        write_report(folder)
    stage(f"old runs: those of the {night.keep} newest nights stay as they are")
    compacted = tuple(map(str, compact_runs(night.runs, nights_kept=night.keep)))
    judged = tuple(Judged(what, folder, scores[folder.name]) for what, folder in folders.items())
    code = worst([ran.exit_code, explored, *(run.exit_code for run in judged)])
    return Outcome(judged=judged, code=code, compacted=compacted)


def _explored(night: Night, display: ProgressDisplay) -> ExitCode:
    """Explore for a minute with a seed of the date, or so many that are the same every time.

    A broken law is a FAIL; a word that is not the model's is told, for somebody to look at.
    """
    if night.limit:
        order = Order(night.seed, histories=SHORT_HISTORIES)
    else:
        order = Order(int(f"{utc_of_this_host():%Y%m%d}"), seconds=EXPLORED_S)
    explored = explore(order, display)
    share = f"{explored.unknowable_share:.1%} of the receptions unknowable"
    display.line(f"    {explored.batch.histories} histories, seed {order.seed}, {share}")
    for finding in explored.findings:
        repeat = command_line("explore", "--history", finding.history)
        display.line(f"    {finding.cause}, in {finding.count}: {repeat}")
    broken = any(finding.cause.law != MODEL for finding in explored.findings)
    return ExitCode.FAILED if broken else ExitCode.PASSED


def _scenarios(night: Night, display: ProgressDisplay) -> Ran:
    file = None if night.inventory is None else night.inventory.path
    selection = Selection(None, night.rig, night.seed, None, night.runs, bench=file)
    ran = run_scenarios(selection, display)
    if ran.interrupted:
        raise KeyboardInterrupt
    return ran


class _Stages:
    """Numbers the stages of a night as they come; remembers how many there were."""

    def __init__(self, night: Night, display: ProgressDisplay) -> None:
        self._display = display
        self._number = 0
        self._all = 4 + bool(night.files) + 2 * (night.inventory is not None)

    def __call__(self, what: str) -> None:
        self._number += 1
        self._display.line(f"{self._number}/{self._all} {what}")


def _published(night: Night, code: ExitCode, told: str, judged: Sequence[Judged]) -> list[str]:
    """Tell whom the inventory names how the night went; that never changes how it went."""
    if night.inventory is None:
        return []
    name = night.inventory.name
    said: dict[str, Any] = {"schema": 1, "bench": name, "text": f"{name}: {told}"}
    said |= {"rig": night.rig, "seed": night.seed, **document(judged, code)}
    return publish(night.inventory.report, name, said)
