"""`lorabench run` and `import`: which scenarios pass on a rig, and what comes of real traffic?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from cyclopts import Parameter

from bench.capture.run_folder import Origin, manifest_of
from bench.capture.wholeness import Wholeness, wholeness
from bench.cli.output import (
    LIMIT_WANTED,
    RUNS,
    AsJson,
    BenchBroken,
    Dut,
    Limit,
    Line,
    ProgressDisplay,
    Refused,
    RunsWritten,
    Seed,
    Strategy,
    Without,
    answer,
    command_line,
    joined_options,
    labelled,
    options,
    refusing,
    shown_path,
)
from bench.cli.scenarios import ScenarioLines, chosen, nothing_fits
from bench.host.program import first_cause
from bench.night.record import (
    CaseVerdict,
    ExitCode,
    exit_code_of,
    in_words,
    read_left_out,
    read_verdicts,
    share_max_of,
    totals,
)
from bench.verdict.case import Result
from lns.server.address import without_login

Rig = Literal["simulated", "emulated", "hardware"]

EXAMPLES = (
    "lorabench run",
    "lorabench run second_station --strategy Mark --seed 7",
    "lorabench run test_multi_concentrator.py",
    "lorabench run --rig emulated",
    "lorabench run --rig emulated --each-once",
    "lorabench run --bench bench.toml multi_concentrator",
    "lorabench run --bench bench.toml --without board-2",
    "lorabench run my_scenarios/",
    "lorabench run --catalogue my_cases.json",
    "lorabench import saint-eynard-33.ndjson.gz --limit 2000",
    "lorabench import frames.json --strategy Drop",
)


@dataclass(frozen=True, slots=True)
class Selection:
    pattern: str | None
    rig: str
    seed: int
    strategy: str | None
    capture_dir: Path
    retention_s: int | None = None
    tls: bool = False
    redis_url: str | None = None
    bench: Path | None = None
    each_once: bool = False
    limit: int | None = None
    catalogue: Path | None = None
    origin: Origin = field(default_factory=Origin)
    explored: Path | None = None
    without: Mapping[str, str] = field(default_factory=dict)

    def said(self, **more: object) -> dict[str, object]:
        """What a command line says of it, with `more` that is spelled for whoever reads it."""
        return {
            "rig": self.rig,
            "seed": self.seed,
            "strategy": self.strategy,
            "each_once": self.each_once,
            "retention": self.retention_s or None,
            "tls": self.tls,
            "limit": self.limit,
            **more,
        }

    @property
    def repeat(self) -> str:
        said = self.said(
            bench=self.bench and shown_path(self.bench),
            without=tuple(self.without),
            redis=self.redis_url and without_login(self.redis_url),
            catalogue=self.catalogue and shown_path(self.catalogue),
            line=self.origin.line,
            dut=self.origin.dut,
            capture_dir=None if self.capture_dir == RUNS else shown_path(self.capture_dir),
        )
        return command_line("run", *filter(None, [self.pattern]), *options(**said))


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has taken place: its folder, its verdicts, and how many tests pytest saw fail."""

    folder: Path
    verdicts: tuple[CaseVerdict, ...]
    books: Wholeness
    failed: int
    interrupted: bool
    left_open: str = ""
    """What nobody has closed, which pytest tells of in the end."""
    not_played: Mapping[str, str] = field(default_factory=dict)
    """Cases that no rig can play, and why."""

    @property
    def exit_code(self) -> ExitCode:
        """BENCH_ERROR where the captures know nothing of a test that failed, or are not whole."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        share_max = share_max_of(manifest_of(self.folder).get("inventory"))
        code = exit_code_of(self.verdicts, whole=self.books.whole, share_max=share_max)
        is_clean = not (self.failed or self.left_open)
        hidden = not is_clean and code in (ExitCode.PASSED, ExitCode.REPEATED)
        return ExitCode.BENCH_ERROR if hidden else code


def run(
    pattern: str | None = None,
    /,
    *,
    rig: Rig = "simulated",
    seed: Seed = 1,
    strategy: Strategy | None = None,
    each_once: Annotated[bool, Parameter(negative="")] = False,
    capture_dir: RunsWritten = RUNS,
    retention: int | None = None,
    tls: Annotated[bool, Parameter(negative="")] = False,
    redis: str | None = None,
    bench: Path | None = None,
    without: Without = (),
    catalogue: Path | None = None,
    limit: Limit = None,
    line: Line = None,
    dut: Dut = None,
    as_json: AsJson = False,
) -> int:
    """Run scenarios on a rig, and leave their captures in a folder of their own.

    `simulated` has everything in this process, on virtual time. `emulated` has real wires: devices
    at serial ports, stations at WebSockets, network servers, broker and store as programs.
    `hardware` has the boards and gateways of an inventory, and the rest as the emulated rig has it.

    :param pattern: Part of a name, a pytest -k expression, or a file or folder of your own. All
        that come with the bench if left out.
    :param rig: What stands below the scenarios.
    :param strategy: Only this deduplication strategy, where a scenario leaves it open.
    :param each_once: Play each scenario once instead of with every strategy and kind of uplink;
        which of them, its name and the seed decide. Six seeds in a row play all.
    :param retention: Seconds for which network servers remember a frame; the waits of scenarios
        shrink with it. On the emulated rig 30, if left out; on the simulated one always 60.
    :param tls: Let stations use wss://, on the emulated rig.
    :param redis: URL of the store of network servers, on the emulated rig; one is started if left
        out. What it knows of the devices of this bench is forgotten.
    :param bench: Inventory of a real bench; the scenarios run on its boards and gateways.
    :param catalogue: Edge cases of your own (JSON), in place of scenarios/edge_cases.json, or
        histories that `lorabench explore --keep` has written.
    """
    if bench is not None:
        rig = "hardware"
    elif without:
        raise Refused("--without names parts of a bench; which bench, --bench says.")
    if limit is not None and limit < 1:
        raise Refused(LIMIT_WANTED)
    if retention is not None and retention < 1:
        raise Refused("--retention is a number of seconds, 1 at least.")
    selection = Selection(
        pattern, rig, seed, strategy, capture_dir, retention, tls, redis, bench, each_once, limit,
        catalogue, Origin(line=line, dut=dut), without=dict.fromkeys(without, ""),
    )  # fmt: skip
    with ProgressDisplay() as display:
        ran = run_scenarios(selection, display)
    document = {
        "run": ran.folder,
        "rig": rig,
        "seed": seed,
        "totals": totals(ran.verdicts),
        "wholeness": ran.books.as_json(),
        "verdicts": [asdict(verdict) for verdict in ran.verdicts],
        "repeat": selection.repeat,
        "exit_code": int(ran.exit_code),
    }
    return answer(document, _lines(ran, selection), ran.exit_code, as_json=as_json)


def _lines(ran: Ran, selection: Selection) -> list[str]:
    cases, folder = len(ran.verdicts), shown_path(ran.folder)
    lines = [f"{cases} case{'' if cases == 1 else 's'}: {in_words(totals(ran.verdicts))}"]
    lines += remarks_on(ran, selection.rig)
    if ran.failed and ran.exit_code is ExitCode.BENCH_ERROR:
        lines.append(f"{ran.failed} of the scenarios broke in the bench; see above.")
    rows = [("captures", folder), ("repeat it", selection.repeat)]
    return [*lines, *labelled([*rows, ("score it", command_line("score", folder))])]


def remarks_on(ran: Ran, rig: str) -> list[str]:
    """What the totals do not say: what is missing, repetitions, and what the rig could not play."""
    remarks = []
    if ran.left_open:
        remarks.append(f"Something was left open to the end: {ran.left_open}")
    if not ran.books.whole:
        remarks.append(ran.books.sentence)
    if repeated := sum(verdict.attempt > 1 for verdict in ran.verdicts):
        remarks.append(f"{repeated} of them on a repeated stimulus; the first proved nothing.")
    unproven = [one for one in ran.verdicts if one.verdict == Result.INCONCLUSIVE]
    if again := [one.case.partition(" (attempt ")[0] for one in unproven if one.attempt > 1]:
        prove, were = ("proves", "it was") if len(again) == 1 else ("prove", "they were")
        remarks.append(
            f"{len(again)} {prove} nothing either way, however often {were} played, at last when"
            f" little else ran: {', '.join(again)}. Why, stands above: this host was late, or a"
            " stimulus did not come about."
        )
    if ran.not_played:
        remarks.append(f"{len(ran.not_played)} of the catalogue not played, named above.")
    told = ran.not_played.values()
    left_out = {why: n for why, n in read_left_out(ran.folder).items() if why not in told}
    if left_out:
        missing = ", ".join(f"{names} ({count})" for names, count in left_out.items())
        remarks.append(f"{sum(left_out.values())} left out; the {rig} rig lacks: {missing}")
    return remarks


def run_scenarios(selection: Selection, display: ProgressDisplay) -> Ran:
    """Run the scenarios in this process; Refused or BenchBroken if none took place."""
    lines = ScenarioLines(display)
    left_open = ""
    try:
        outcome = pytest.main(_pytest_arguments(selection), plugins=[lines])
    except (pytest.PytestUnraisableExceptionWarning, ExceptionGroup) as left:
        # What nobody closed is told of with its last reference, when all has been played.
        outcome, left_open = pytest.ExitCode.TESTS_FAILED, _left_open(left)
    if outcome == pytest.ExitCode.NO_TESTS_COLLECTED and lines.lacking:
        raise Refused(
            f"None of these scenarios can be played on the {selection.rig} rig; it lacks:"
            f" {', '.join(lines.lacking)}."
        )
    if outcome == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise Refused(nothing_fits(selection.pattern))
    if outcome == pytest.ExitCode.USAGE_ERROR:
        raise Refused(
            "\n".join(lines.broken) or "pytest did not accept this; its message stands above."
        )
    if lines.broken:
        raise BenchBroken("The scenarios could not be run:\n" + "\n".join(lines.broken))
    interrupted = outcome == pytest.ExitCode.INTERRUPTED
    folder = lines.folder
    if interrupted and folder is None:
        raise KeyboardInterrupt
    if folder is None:
        raise BenchBroken(f"The scenarios left no capture in {selection.capture_dir}.")
    verdicts = tuple(read_verdicts(folder))
    books = wholeness(folder)
    return Ran(folder, verdicts, books, lines.failed, interrupted, left_open, lines.not_played)


def _left_open(left: Exception) -> str:
    """What stays open, the first of it; an error of something else goes on."""
    first = first_cause(left)
    if not isinstance(first, pytest.PytestUnraisableExceptionWarning):
        raise first
    return str(first.__cause__ or first).partition("\n")[0]


def _pytest_arguments(selection: Selection) -> list[str]:
    return [
        *chosen(selection.pattern, catalogue=selection.catalogue),
        *("-p", "lorabench", "-p", "no:cacheprovider", "--strict-markers"),
        # No scenario needs them, and their imports take a tenth of a short run.
        *("-p", "no:hypothesispytest", "-p", "no:valkey"),
        # A look at the bench has imported what pytest would like to see first.
        *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
        *(f"--without={name}={why}" for name, why in selection.without.items()),
        *joined_options(
            **selection.said(
                explored=selection.explored,
                redis=selection.redis_url,
                bench=selection.bench,
                capture_dir=selection.capture_dir,
                **asdict(selection.origin),
            )
        ),
    ]


def import_captures(
    file: list[Path],
    /,
    *,
    strategy: Strategy = "None",
    seed: Seed = 1,
    limit: int | None = None,
    stations: int = 1,
    runs: RunsWritten = RUNS,
    as_json: AsJson = False,
) -> int:
    """Feed captures of real traffic through the network server, as a run like any other.

    :param file: Files of real traffic.
    :param strategy: How the devices deduplicate.
    :param limit: At most so many uplinks of each file. All if left out.
    :param stations: Stations that hear a capture of a single gateway, each in its own way.
    """
    for name, number in (("--limit", limit), ("--stations", stations)):
        if number is not None and number < 1:
            raise Refused(f"{name} has to be 1 or more.")
    with ProgressDisplay() as display:
        folder = import_files(
            file,
            runs_dir=runs,
            strategy=strategy,
            seed=seed,
            limit=limit,
            stations=stations,
            progress=display,
        )
    verdicts, books = read_verdicts(folder), wholeness(folder)
    is_empty = not verdicts and books.whole
    code = ExitCode.PASSED if is_empty else exit_code_of(verdicts, whole=books.whole)
    counts, path = totals(verdicts), shown_path(folder)
    rows = [("captures", path), ("verdicts", in_words(counts))]
    lines = labelled([*rows, ("score it", command_line("score", path))])
    return answer(
        {"run": folder, "totals": counts, "exit_code": int(code)}, lines, code, as_json=as_json
    )


def import_files(files: Sequence[Path], **how: Any) -> Path:
    """The run folder with the captures of these files, made by `traffic.run` in this way.

    Refused if one is not there.
    """
    for file in files:
        if not file.is_file():
            raise Refused(f"There is no file {file}. Give the path of a capture of traffic.")
    from bench import traffic

    with refusing(traffic.TrafficError):
        return traffic.run(files, **how)
