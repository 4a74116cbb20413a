"""`lorabench nightly`: did anything change for the worse since yesterday?"""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import bench
from bench.capture.run_folder import Origin
from bench.cli.against import Other, against_run, against_server, other_of
from bench.cli.nights import (
    KNOWN,
    Judged,
    KnownFile,
    Morning,
    annotate,
    as_document,
    known_of,
    label_of_tonight,
    morning_of,
    night_document,
    sentence,
    states_of,
    summary,
    write_nights,
)
from bench.cli.on_hardware.lab import bench_taken, inventory_of, whereabouts
from bench.cli.output import (
    LAKE,
    LIMIT_WANTED,
    RUNS,
    AsJson,
    BenchBroken,
    Dut,
    Lake,
    Limit,
    Line,
    Progress,
    ProgressDisplay,
    Refused,
    RunsWritten,
    Seed,
    Without,
    command_line,
    print_json,
    print_lines,
    refusing,
    shown_path,
)
from bench.cli.report import score_runs, write_report
from bench.cli.run import Ran, Rig, Selection, import_files, run_scenarios
from bench.device.dialects import serial_ports
from bench.explore.explore import Explored, Order, exploring
from bench.host.fork_server import beside
from bench.host.program import HostError
from bench.lab.inventory import Inventory, NoSuchPart
from bench.night.comparison import Outcome as Verdict
from bench.night.memory import compact_runs, publish, sick_parts
from bench.night.record import ExitCode, worst
from bench.night.series import Known
from bench.run import RunRecord, describe
from bench.run.wall_clock import check
from lns.clock import utc_of_this_host


class NotReady(BenchBroken):
    """Something of the bench is not there; the text names all of it."""


def ready(inventory: Inventory) -> list[str]:
    """What is there, in lines; NotReady with everything that is not, or who else has the bench."""
    with bench_taken(inventory):
        ports = serial_ports()
        found = [(radio.name, *whereabouts(radio, ports)) for radio in inventory.radios]
    missing = [f"{name}: {wrong}" for name, _, wrong in found if wrong]
    if not inventory.devices:
        missing.append("no [[device]]: nothing could send anything")
    if not inventory.gateways:
        missing.append("no [[gateway]]: nothing could be heard")
    if missing:
        wrong = "\n".join(f"  {one}" for one in missing)
        raise NotReady(f"The bench {inventory.name} ({inventory.path}) is not ready:\n{wrong}")
    lines = [f"{name} at {port}" for name, port, _ in found]
    gateways = ", ".join(entry.name for entry in inventory.gateways)
    return [*lines, f"gateways {gateways} are to connect to {inventory.tap}"]


def healthy(
    inventory: Inventory,
    tell: Callable[[str], None],
    well: Callable[[str], None] = lambda name: None,
) -> None:
    """Let every board be heard; `tell` is told what is found, `well` the name of each part that is.

    NotReady with all that is wrong.
    """
    with refusing(HostError, by=NotReady):
        warnings = check(inventory, tell, well)
    for warning in warnings:
        tell(f"warning: {warning}")


EXAMPLES = (
    "lorabench nightly",
    "lorabench nightly --gate new",
    "lorabench nightly multi_concentrator --limit 20",
    "lorabench nightly --short --seed 7",
    "lorabench nightly --rig emulated",
    "lorabench nightly --bench bench.toml",
)
SHORT_LIMIT = 500
SHORT_HISTORIES, EXPLORED_S = 300, 30
KEEP_NIGHTS = 14
SCENARIOS = "scenarios"
NOT_GATED = (ExitCode.INTERRUPTED, ExitCode.USAGE, ExitCode.BENCH_ERROR)
Gate = Literal["all", "new"]
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
    pattern: str | None = None
    cases_max: int | None = None
    line: str | None = None
    dut: str | None = None
    gate: Gate = "all"
    known: tuple[Known, ...] = ()
    against: Other | None = None
    label: str = ""

    def origin(self, *, explores: bool = False) -> Origin:
        part = [self.pattern or "", f"first {self.cases_max}" if self.cases_max else ""]
        return Origin(
            night=self.label,
            line=self.line,
            dut=self.dut,
            part=", ".join(filter(None, part)),
            explores=explores,
        )

    @property
    def explores(self) -> bool:
        """Whether a second run has a seed of the day: only where a difference is a fact."""
        return self.rig == "simulated" and not self.origin().part

    @property
    def repeat(self) -> str:
        words: list[object] = [self.pattern] if self.pattern else []
        words += ["--limit", self.cases_max] if self.cases_max else []
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
    morning: Morning | None = None
    compared: tuple[str, ...] = ()


def nightly(
    pattern: str | None = None,
    /,
    *,
    rig: Rig | None = None,
    bench: Path | None = None,
    seed: Seed = 1,
    runs: RunsWritten = RUNS,
    lake: Lake = LAKE,
    captures: Path | None = None,
    short: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help=f"At most {SHORT_LIMIT} uplinks of each capture."
        ),
    ] = False,
    limit: Limit = None,
    without: Without = (),
    line: Line = None,
    dut: Dut = None,
    gate: Gate = "all",
    known: KnownFile = KNOWN,
    against: str | None = None,
    keep: int = KEEP_NIGHTS,
    as_json: AsJson = False,
) -> int:
    """Run all scenarios and real captures, score them, write the reports, say how it went.

    On a real bench everything is looked for first, and at the end the summary goes to whom the
    inventory names.

    :param pattern: Only these scenarios, for a first evening: no real traffic, no other seed.
    :param rig: What stands below the scenarios: simulated, if nothing is said.
    :param bench: Inventory of a real bench: a night on the hardware rig.
    :param captures: Folder with captures of real traffic; without it, ../shared/captures beside the
        checkout if that is there.
    :param gate: What decides the exit code: `all` verdicts, or only what is `new`: new and changed
        failures, lost cases, broken determinism, answers too late.
    :param against: Compare the night with this run, night, line or LINE@BUILD; or, on real time,
        with another network server, by the command that starts it (`python -m lns`): both are then
        played in turn until it is clear whether one is worse.
    :param keep: Compress the captures of runs older than so many nights; delete nothing.
    """
    if limit is not None and limit < 1:
        raise Refused(LIMIT_WANTED)
    if captures is not None and not captures.is_dir():
        raise Refused(f"--captures: there is no folder {captures}.")
    if keep < 1:
        raise Refused("--keep is a number of nights, 1 at least: the last one stays as it is.")
    rig_below = _rig_of(rig, bench, without)
    night = Night(
        rig=rig_below,
        inventory=None if bench is None else _lab_of(bench, without, runs),
        seed=seed,
        runs=runs,
        lake=lake,
        files=() if pattern or limit else tuple(captures_in(captures)),
        limit=SHORT_LIMIT if short else None,
        keep=keep,
        pattern=pattern,
        cases_max=limit,
        line=line,
        dut=dut,
        gate=gate,
        known=known_of(known),
        against=None if against is None else other_of(against, rig_below, runs),
        label=label_of_tonight(runs),
    )
    with ProgressDisplay() as display:
        try:
            outcome = _pass(night, display)
        except (Refused, OSError) as refusal:
            _note_refused(night, refusal)
            code = refusal.exit_code if isinstance(refusal, Refused) else ExitCode.USAGE
            for line in _published(night, code, f"no night: {refusal}", ()):
                display.line(line)
            raise
    findings = sum(run.findings for run in outcome.judged)
    verdict_sentence = sentence(outcome.code, findings)
    morning = outcome.morning
    published = _published(night, outcome.code, verdict_sentence, outcome.judged, morning)
    if as_json:
        shown = night_document(outcome.judged, outcome.code) | as_document(morning)
        print_json(shown | {"compacted": outcome.compacted, "published": published})
    else:
        print_lines(summary(outcome.judged, outcome.code, night.repeat, morning))
        print_lines(outcome.compared)
        print_lines([*outcome.compacted, *published])
        if not night.files and not night.origin().part:
            print_lines(["No real traffic was there to import; --captures names a folder with it."])
    return outcome.code


def captures_in(folder: Path | None) -> list[Path]:
    """The captures of real traffic in a folder, or in the usual place if none is named."""
    usual = Path(bench.__path__[0]).resolve().parent.parent / "shared" / "captures"
    looked_in = folder if folder is not None else usual
    return sorted(file for pattern in CAPTURE_FILES for file in looked_in.glob(pattern))


def _rig_of(rig: Rig | None, bench: Path | None, without: Sequence[str]) -> Rig:
    if bench is None and rig == "hardware":
        raise Refused(
            "--rig hardware: name the inventory of the bench, --bench bench.toml"
            " (`lorabench devices --discover` helps to write it)."
        )
    if bench is None and without:
        raise Refused("--without names parts of a bench; which bench, --bench says.")
    if bench is not None and rig not in (None, "hardware"):
        raise Refused(f"--bench: the {rig} rig has no inventory; leave one of the two out.")
    return "hardware" if bench is not None else rig or "simulated"


def _lab_of(bench: Path, without: Sequence[str], runs: Path) -> Inventory:
    inventory = inventory_of(bench)
    asked_for = dict.fromkeys(without, "asked for")
    with refusing(NoSuchPart):
        return inventory.without(sick_parts(runs, inventory) | asked_for)


def _pass(night: Night, display: ProgressDisplay) -> Outcome:
    stage = _Stages(night, display)
    if night.inventory is not None:
        stage(f"is the bench {night.inventory.name} ready")
        for line in _left_out(night.inventory):
            display.line(f"    {line}")
        for line in ready(night.inventory):
            display.line(f"    {line}")
        stage("is every board heard by every gateway")
        healthy(night.inventory, lambda line: display.line(f"    {line}"))
    order = _order_of(night)
    with ExitStack() as stack:
        begin = partial(_begun, night, order, stack)
        # On real time nothing may disturb the others.
        beside_scenarios = begin() if night.rig == "simulated" else None
        folders, codes = _played(night, stage, display)
        found, traffic = beside_scenarios or begin()
        if night.files:
            stage(f"real traffic: {', '.join(file.name for file in night.files)}")
            folders["real traffic"] = traffic(display)
        explored = partial(_explored, found, order.seed, display)
        return _judged(night, stage, folders, codes, explored, display)


def _begun(
    night: Night, order: Order, stack: ExitStack
) -> tuple[Callable[[], Explored], Callable[[Progress], Path]]:
    """What goes on beside the rest of a night, each to be waited for."""
    return stack.enter_context(exploring(order)), stack.enter_context(importing(night))


def _played(
    night: Night, stage: "_Stages", display: ProgressDisplay
) -> tuple[dict[str, Path], list[ExitCode]]:
    stage(f"scenarios on the {night.rig} rig, seed {night.seed}")
    ran = _scenarios(night, display)
    folders, codes = {SCENARIOS: ran.folder}, [ran.exit_code]
    if night.explores:
        seed = seed_of(night.label)
        stage(f"each scenario once with the seed of the day, {seed}")
        other = _scenarios(night, display, explores=seed)
        folders["seed of the day"] = other.folder
        codes.append(other.exit_code)
    return folders, codes


@contextmanager
def importing(night: Night) -> Iterator[Callable[[Progress], Path]]:
    """Play the real traffic of a night meanwhile; what is handed out waits for the run.

    By its name that comes after all that have begun by then. Refused or OSError as `import_files`
    has them; with the end of the block what is still played is interrupted.
    """
    if not night.files:
        yield lambda progress: Path()
        return
    ordered = (night.files, night.runs, night.seed, night.limit, night.origin())
    with beside(_import, *ordered) as found:
        yield partial(_imported, found)


@dataclass(slots=True)
class _Imported:
    result: Path | Refused | OSError = Path()
    said: list[str] = field(default_factory=list)

    def note(self, text: str, done: int = 0, total: int = 0) -> None:
        if not total:
            self.said.append(text)


def _import(
    files: Sequence[Path], runs: Path, seed: int, limit: int | None, origin: Origin
) -> _Imported:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = _Imported()
    try:
        found.result = import_files(
            files,
            runs_dir=runs,
            strategy="None",
            seed=seed,
            limit=limit,
            origin=origin,
            progress=found.note,
        )
    except (Refused, OSError) as error:
        found.result = error
    return found


def _imported(found: Callable[[], _Imported], progress: Progress) -> Path:
    try:
        imported = found()
    except EOFError:
        raise BenchBroken("The process that plays real traffic has died.") from None
    for text in imported.said:
        progress(text)
    if not isinstance(imported.result, Path):
        raise imported.result
    return placed_last(imported.result)


def placed_last(run: Path) -> Path:
    """The folder of a run under the name of one that begins now: names tell the order of runs."""
    run_id = run.name.split("-")[1]
    return run.rename(run.with_name(f"{utc_of_this_host():%Y%m%dT%H%M%SZ}-{run_id}"))


def _judged(
    night: Night,
    stage: "_Stages",
    folders: Mapping[str, Path],
    codes: Sequence[ExitCode],
    explored: Callable[[], ExitCode],
    display: ProgressDisplay,
) -> Outcome:
    stage("scores, by Spark")
    scores = score_runs(list(folders.values()), lake=night.lake, progress=display)
    stage("histories that nobody thought of")
    of_histories = explored()
    stage("reports")
    judged = tuple(Judged(what, folder, scores[folder.name]) for what, folder in folders.items())
    morning = morning_of(night.runs, folders[SCENARIOS], night.known)
    states = {} if morning is None else states_of(morning, night.known)
    for folder in folders.values():
        write_report(folder, states)
    if morning is not None:
        write_nights(night.runs, night.known)
        annotate(morning, [folder / "summary.md" for folder in folders.values()])
    stage(f"old runs: those of the {night.keep} newest nights stay as they are")
    compacted = tuple(map(str, compact_runs(night.runs, nights_kept=night.keep)))
    code = worst([*codes, of_histories, *(run.exit_code for run in judged)])
    if morning is not None and night.gate == "new" and code not in NOT_GATED:
        code = worst([morning.code, of_histories])
    if night.against is None:
        return Outcome(judged=judged, code=code, compacted=compacted, morning=morning)
    stage(f"against {night.against.name}")
    verdict, lines = _against(night, night.against, folders[SCENARIOS], display)
    if verdict is Verdict.WORSE and code not in NOT_GATED:
        code = ExitCode.FAILED
    return Outcome(
        judged=judged, code=code, compacted=compacted, morning=morning, compared=tuple(lines)
    )


def _note_refused(night: Night, refusal: Exception) -> None:
    if night.inventory is None or not isinstance(refusal, BenchBroken):
        return
    record = RunRecord(night.rig, night.seed, night.runs, origin=night.origin())
    describe(record, night.inventory)
    with suppress(OSError):  # it is told all the same
        record.refuse(" ".join(str(refusal).split()))
        write_nights(night.runs, night.known)


def _left_out(inventory: Inventory) -> Iterator[str]:
    for name, why in inventory.absent.items():
        yield f"{name} is left out, with the cases that need it: {why}"
    if any(why != "asked for" for why in inventory.absent.values()):
        heal = command_line("doctor", "--bench", shown_path(inventory.path))
        yield f"{heal} lets it take part again, once it is heard"


def _against(
    night: Night, other: Other, folder: Path, display: ProgressDisplay
) -> tuple[Verdict, list[str]]:
    if other.is_server:
        found, lines = against_server(other.name, _selection(night), display)
    else:
        found, lines = against_run(other, folder)
    return found.outcome, lines


def _order_of(night: Night) -> Order:
    """Explore for a while with a seed of the date; in a short night, or a night of a part, so
    many that are the same every time.
    """
    if night.limit or night.pattern or night.cases_max:
        return Order(night.seed, histories=SHORT_HISTORIES)
    return Order(int(f"{utc_of_this_host():%Y%m%d}"), seconds=EXPLORED_S)


def _explored(found: Callable[[], Explored], seed: int, display: ProgressDisplay) -> ExitCode:
    try:
        explored = found()
    except EOFError:
        raise BenchBroken("The process that explores has died.") from None
    share = f"{explored.unknowable_share:.1%} of the receptions unknowable"
    display.line(f"    {explored.batch.histories} histories, seed {seed}, {share}")
    for finding in explored.findings:
        repeat = command_line("explore", "--history", finding.history)
        display.line(f"    {finding.cause}, in {finding.count}: {repeat}")
    return ExitCode.FAILED if explored.findings else ExitCode.PASSED


def seed_of(label: str) -> int:
    """The seed of a day: six days in a row play every row of every scenario."""
    return date.fromisoformat(label[:10]).toordinal()


def _scenarios(night: Night, display: ProgressDisplay, *, explores: int | None = None) -> Ran:
    ran = run_scenarios(_selection(night, explores), display)
    if ran.interrupted:
        raise KeyboardInterrupt
    return ran


def _selection(night: Night, explores: int | None = None) -> Selection:
    file = None if night.inventory is None else night.inventory.path
    return Selection(
        night.pattern,
        night.rig,
        night.seed if explores is None else explores,
        None,
        night.runs,
        bench=file,
        each_once=explores is not None,
        limit=night.cases_max,
        origin=night.origin(explores=explores is not None),
        without={} if night.inventory is None else night.inventory.absent,
    )


class _Stages:
    def __init__(self, night: Night, display: ProgressDisplay) -> None:
        self._display = display
        self._number = 0
        self._all = 5 + bool(night.files) + night.explores + 2 * (night.inventory is not None)
        self._all += night.against is not None

    def __call__(self, what: str) -> None:
        self._number += 1
        self._display.line(f"{self._number}/{self._all} {what}")


def _published(
    night: Night,
    code: ExitCode,
    verdict_sentence: str,
    judged: Sequence[Judged],
    morning: Morning | None = None,
) -> list[str]:
    if night.inventory is None:
        return []
    report = night.inventory.report
    if report.only_on_change and morning is not None and not morning.night.changes:
        return ["Nothing changed, so nobody is told (only_on_change)."]
    name = night.inventory.name
    said: dict[str, Any] = {"schema": 1, "bench": name, "text": f"{name}: {verdict_sentence}"}
    said |= {"rig": night.rig, "seed": night.seed, **night_document(judged, code)}
    return publish(report, name, said | as_document(morning))
