"""Which scenarios are there, and what does each require?

Read from the source without importing it: the list is there at once, also when one is broken.
"""

import ast
import difflib
import io
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import bench
from bench import pytest_plugin
from bench.cli.on_hardware.lab import inventory_of
from bench.cli.output import (
    AsJson,
    BenchBroken,
    Flag,
    ProgressDisplay,
    Refused,
    answer,
    labelled,
    options,
    refusing,
)
from bench.explore.history import read_histories
from bench.night.record import ExitCode, in_words
from bench.plan import (
    Abilities,
    Bound,
    Overheads,
    PlannedCase,
    Schedule,
    abilities_of,
    bound,
    from_json,
    lacking,
    schedule,
    usual_bench,
)
from bench.run import PLAN, RETENTION_S

# A pytest plugin in the place of pytest's own terminal output: one line per scenario with how many
# of its cases passed, the reason of each that did not, and nothing else. On a terminal a bar stands
# for the lines.
REASON_LINES_MAX = 12
PASSED = "PASS"
EXCEPTION_NAME = re.compile(r"^(?:Failed|(?:\w+\.)+\w+): ")


@dataclass(slots=True, eq=False)
class ScenarioLines:
    """Remembers how many cases of a pytest run ended, and how those of this scenario went.

    `lacking`: what the rig does not have for the scenarios that it left out. `not_played`: cases
    that no rig can play, and why. `folder`: of the run.
    """

    display: ProgressDisplay
    total: int = 0
    ended: int = 0
    failed: int = 0
    broken: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    not_played: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    _stages: dict[str, list[pytest.TestReport]] = field(default_factory=dict)
    _scenario: str = ""
    _verdicts: Counter[str] = field(default_factory=Counter)
    _duration_s: float = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        # Other plugins ask for the terminal reporter, so one stays, writing where nobody reads.
        config.pluginmanager.unregister(name="terminalreporter")
        silent = pytest.TerminalReporter(config, io.StringIO())
        config.pluginmanager.register(silent, "terminalreporter")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.total = len(session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid or 'scenarios'}: {_reason([report])}")

    def pytest_internalerror(self, excrepr: Any) -> None:
        self.broken.append("\n".join(str(excrepr).splitlines()[-REASON_LINES_MAX:]))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if isinstance(excinfo.value, pytest.exit.Exception):
            self.broken.append(str(excinfo.value.msg))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        stages = self._stages.setdefault(report.nodeid, [])
        stages.append(report)
        if report.when == "teardown":
            del self._stages[report.nodeid]
            self._case_ended(stages)

    def pytest_lorabench_waiting(self, over: int, cases: int) -> None:
        self.display("cases that are over", over, cases)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.lacking = pytest_plugin.lacking(session.config)
        self.not_played = pytest_plugin.not_played(session.config)
        self.folder = pytest_plugin.run_folder(session.config)
        self._print_scenario()
        for case, why in self.not_played.items():
            self.display.line(f"not played: {case}: {why}")

    def _case_ended(self, stages: Sequence[pytest.TestReport]) -> None:
        name = short_name(stages[0].nodeid)
        scenario = name.partition("[")[0]
        if scenario != self._scenario:
            self._print_scenario()
            self._scenario = scenario
        verdict = verdict_of(stages)
        self.ended += 1
        self.failed += any(stage.failed for stage in stages)
        self._verdicts[verdict] += 1
        self._duration_s += sum(stage.duration for stage in stages)
        if self.display.is_terminal:
            self.display("cases", self.ended, self.total)
        if verdict != PASSED:
            self.display.line(f"{verdict}: {name}")
            for line in _reason(stages).splitlines():
                self.display.line(f"    {line}")

    def _print_scenario(self) -> None:
        if self._verdicts and not self.display.is_terminal:
            width = len(str(self.total))
            self.display.line(
                f"[{self.ended:{width}}/{self.total}] {self._scenario}: "
                f"{in_words(self._verdicts)}, {self._duration_s:.2f} s"
            )
        self._verdicts.clear()
        self._duration_s = 0.0


def verdict_of(stages: Sequence[pytest.TestReport]) -> str:
    """The verdict of a case: what the rig's plugin noted, else what pytest makes of it."""
    for stage in reversed(stages):
        for name, value in reversed(stage.user_properties):
            if name == "verdict":
                return str(value)
    if any(stage.failed and stage.when != "call" for stage in stages):
        return "ERROR"
    if any(stage.failed for stage in stages):
        return "FAIL"
    return "SKIPPED" if any(stage.skipped for stage in stages) else PASSED


def short_name(node_id: str) -> str:
    """`scenarios/test_joins.py::test_a[x]` as its case is called: `joins/a[x]`."""
    file, _, name = node_id.partition("::")
    group = file.rpartition("/")[2].removesuffix(".py").removeprefix("test_")
    return f"{group}/{name.removeprefix('test_')}"


def _reason(stages: Sequence[pytest.TestReport] | Sequence[pytest.CollectReport]) -> str:
    for stage in stages:
        if stage.passed:
            continue
        crash = getattr(stage.longrepr, "reprcrash", None)
        if crash is not None:
            message = EXCEPTION_NAME.sub("", str(crash.message))
            return "\n".join(message.splitlines()[:REASON_LINES_MAX])
        if isinstance(stage.longrepr, tuple):
            return str(stage.longrepr[2])
        return "\n".join(stage.longreprtext.splitlines()[-REASON_LINES_MAX:])
    return ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: the group is its file's name, the title the first line of its docstring."""

    group: str
    name: str
    title: str
    file: str
    line: int
    requires: tuple[str, ...] = ()


def scenarios_folder() -> Path:
    """The folder `scenarios` beside the package; BenchBroken if it is not there."""
    folder = Path(bench.__path__[0]).resolve().parent / "scenarios"
    if not folder.is_dir():
        raise BenchBroken(f"There is no folder {folder}: install lorabench anew.")
    return folder


def chosen(pattern: str | None, *, catalogue: Path | None = None) -> list[str]:
    """What pytest is told to collect, and with which settings.

    Part of a name, a `-k` expression, a file or a folder; None: all that come with the bench.
    With `catalogue` the edge cases of that file, or the histories. Refused for a file that
    is not there, or keeps histories that cannot be read.
    """
    folder = scenarios_folder()
    if catalogue is not None:
        if not catalogue.is_file():
            raise Refused(f"--catalogue: there is no file {catalogue}.")
        only = [] if pattern is None else [f"-k={pattern}"]
        if _keeps_histories(catalogue):
            explored = [str(folder / _HISTORIES), *only, "--explored", str(catalogue)]
            return [*explored, *_settings(folder)]
        return [str(folder / _CATALOGUE), *only, "--catalogue", str(catalogue), *_settings(folder)]
    if pattern is None:
        return [str(folder), *_settings(folder)]
    file, _, function = pattern.partition("::")
    if Path(file).is_dir() and not _is_word(file):
        return [file]
    if not file.endswith(".py"):
        return [str(folder), f"-k={pattern}", *_settings(folder)]
    path = _file_of(file, folder)
    own = not path.resolve().is_relative_to(folder)
    which = f"{path}::{function}".removesuffix("::")
    return [which, *([] if own else _settings(folder))]


_CATALOGUE = "test_catalogue.py"
_HISTORIES = "test_explored.py"


def _keeps_histories(catalogue: Path) -> bool:
    try:
        cases = json.loads(catalogue.read_text(encoding="utf-8-sig"))["cases"]
        if not any("history" in case for case in cases):
            return False
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    with refusing(ValueError, said="--catalogue: {}"):
        read_histories(catalogue)
    return True


def _is_word(name: str) -> bool:
    return "/" not in name and any(name in one.name for one in scenarios_in(scenarios_folder()))


def _settings(folder: Path) -> list[str]:
    ini = Path(bench.__path__[0]) / "run" / "scenarios.ini"
    return ["-c", str(ini), "--rootdir", str(folder.parent)]


def matching(pattern: str | None) -> list[Scenario]:
    """The scenarios whose name, title or group has `pattern` in it, or all of a file or folder.

    Refused where there is none.
    """
    folder = scenarios_folder()
    if pattern is None:
        return scenarios_in(folder)
    place = Path(pattern)
    if place.is_dir() and not _is_word(pattern):
        return scenarios_in(place.resolve())
    if pattern.endswith(".py"):
        file = _file_of(pattern, folder).resolve()
        return list(_scenarios_of(file, file.parent))
    wanted = pattern.lower()
    known = scenarios_in(folder)
    found = [one for one in known if wanted in f"{one.group} {one.name} {one.title}".lower()]
    if not found:
        raise Refused(nothing_fits(pattern))
    return found


def _file_of(file: str, folder: Path) -> Path:
    for path in (Path(file), folder.parent / file, folder / file):
        if path.is_file():
            return path
    meant = difflib.get_close_matches(Path(file).name, [p.name for p in folder.glob("test_*.py")])
    hint = f" Near it: {', '.join(meant)}." if meant else ""
    raise Refused(f"There is no file {file}.{hint} `lorabench scenarios` lists all scenarios.")


def nothing_fits(pattern: str | None) -> str:
    """What to say of a pattern that no scenario fits: which ones may be meant."""
    meant = _near(pattern or "", scenarios_in(scenarios_folder()))
    hint = f" Near it: {', '.join(meant)}." if meant else ""
    return f"No scenario fits {pattern!r}.{hint} `lorabench scenarios` lists all of them."


def _near(pattern: str, known: Sequence[Scenario]) -> list[str]:
    wanted = [word for word in pattern.lower().split("_") if word]
    ranked = sorted((-_likeness(wanted, one.name), one.name) for one in known)
    return [name.removeprefix("test_") for score, name in ranked if -score >= _NEAR][:_NEAR_MAX]


_NEAR, _NEAR_MAX = 0.8, 3


def _likeness(wanted: Sequence[str], name: str) -> float:
    words = name.removeprefix("test_").split("_")
    best = [
        max(difflib.SequenceMatcher(None, one, word).ratio() for word in words) for one in wanted
    ]
    return sum(best) / len(best) if best else 0.0


def scenarios_in(folder: Path) -> list[Scenario]:
    files = sorted(folder.rglob("test_*.py"))
    return [scenario for file in files for scenario in _scenarios_of(file, folder)]


def _scenarios_of(file: Path, folder: Path) -> Iterator[Scenario]:
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise BenchBroken(f"{file} cannot be read as Python: {error}") from None
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("test_"):
            continue
        yield Scenario(
            group=file.stem.removeprefix("test_"),
            name=node.name,
            title=" ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()),
            file=file.relative_to(folder.parent).as_posix(),
            line=node.lineno,
            requires=tuple(_required(node)),
        )


def _required(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
            continue
        if decorator.func.attr != "requires":
            continue
        for argument in decorator.args:
            if isinstance(argument, ast.Constant):
                yield str(argument.value)


AIM = 2
"""The planned duration is to be at most so many times the bound."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Every case with what is missing for it, and the schedule of those that miss nothing."""

    bench: Abilities
    cases: tuple[PlannedCase, ...]
    missing: Mapping[str, tuple[str, ...]]
    failed: Mapping[str, str]
    bound: Bound
    schedule: Schedule
    overheads: Overheads = field(default_factory=Overheads)

    @property
    def playable(self) -> list[PlannedCase]:
        return [case for case in self.cases if not self.missing[case.case]]

    @property
    def ratio(self) -> float | None:
        """The planned duration as so many times the bound; None where nothing is played."""
        total_us = self.bound.total_us
        return round(self.schedule.duration_us / total_us, 2) if total_us else None


def bench_of(file: Path | None) -> Abilities:
    """What the bench of this file can do; the usual bench if there is no file."""
    return usual_bench() if file is None else abilities_of(inventory_of(file))


def plan_of(pattern: str | None, bench: Abilities, display: ProgressDisplay) -> Plan:
    """Play the scenarios without a bench, and plan those that this one can play."""
    planned, failed = _dry_run(pattern, display)
    missing = {case.case: lacking(case, bench) for case in planned}
    playable = [case for case in planned if not missing[case.case]]
    return Plan(
        bench=bench,
        cases=tuple(planned),
        missing=missing,
        failed=failed,
        bound=bound(playable, bench),
        schedule=schedule(playable, bench),
    )


@dataclass(slots=True, eq=False)
class _Markers(ScenarioLines):
    requires: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            words = [word for mark in item.iter_markers("requires") for word in mark.args]
            self.requires[short_name(item.nodeid)] = tuple(words)

    def _print_scenario(self) -> None:
        self._verdicts.clear()


def _dry_run(
    pattern: str | None, display: ProgressDisplay
) -> tuple[list[PlannedCase], dict[str, str]]:
    markers = _Markers(display)
    with tempfile.TemporaryDirectory(prefix="lorabench-plan-") as folder:
        plugins = "-p", "lorabench", "-p", "no:cacheprovider"
        arguments = [*chosen(pattern), *plugins, *options(rig="plan", capture_dir=folder)]
        outcome = pytest.main(arguments, plugins=[markers])
        if outcome == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise Refused(nothing_fits(pattern))
        if outcome == pytest.ExitCode.USAGE_ERROR:
            raise Refused("pytest did not accept this; its message stands above.")
        if outcome == pytest.ExitCode.INTERRUPTED and not markers.broken:
            raise KeyboardInterrupt
        file = Path(folder, PLAN)
        if markers.broken or not file.is_file():
            raise BenchBroken("The scenarios could not be played:\n" + "\n".join(markers.broken))
        plan = json.loads(file.read_text(encoding="utf-8"))
    cases = [from_json(fields) for fields in plan["cases"]]
    return [replace(case, requires=markers.requires[case.case]) for case in cases], plan["failed"]


# --- how it is told ------------------------------------------------------------------------------


def told(plan: Plan) -> list[str]:
    """The plan in lines for a person: one for each scenario, then the whole."""
    scenarios: dict[str, list[PlannedCase]] = {}
    for case in plan.cases:
        scenarios.setdefault(case.case.partition("[")[0], []).append(case)
    lines = [_scenario_line(name, cases, plan) for name, cases in scenarios.items()]
    return [*lines, "", *_summary(plan)]


def _scenario_line(name: str, cases: Sequence[PlannedCase], plan: Plan) -> str:
    boards = max(len(case.on_air) for case in cases)
    longest_us = max(case.duration_us for case in cases)
    words = [
        f"{len(cases)} case{'' if len(cases) == 1 else 's'}",
        f"{longest_us / 1e6:.1f} s",
        f"{boards or 'no'} board{'' if boards == 1 else 's'}",
        *(["a replayer"] if any(case.replays for case in cases) else []),
        *(["alone"] if any(case.alone for case in cases) else []),
        *(["servers of its own"] if any(case.own_servers for case in cases) else []),
    ]
    missing = dict.fromkeys(word for case in cases for word in plan.missing[case.case])
    lacking = sum(bool(plan.missing[case.case]) for case in cases)
    how_many = "" if lacking == len(cases) else f"{lacking} of them: "
    lacks = f"  [missing: {how_many}{', '.join(missing)}]" if missing else ""
    return f"{name}: {', '.join(words)}{lacks}"


def _summary(plan: Plan) -> list[str]:
    playable = plan.playable
    airtime_us = sum(case.airtime_us for case in playable)
    rows: list[tuple[str, object]] = [
        ("bench", _bench_line(plan.bench)),
        ("cases", f"{len(playable)} of {len(plan.cases)} can be played"),
        *_missing_rows(plan),
        ("airtime", f"{airtime_us / 1e6:.1f} s, replays included"),
        ("bound", f"{_span(plan.bound.total_us)}  {_bound_words(plan)}"),
        ("planned", f"{_span(plan.schedule.duration_us)}  {_overhead_words(plan.overheads)}"),
    ]
    if plan.ratio is not None:
        rows.append(("ratio", f"{plan.ratio:.2f}  planned / bound; the aim is {AIM} at most"))
    broken = [f"Could not be planned: {case}: {why}" for case, why in plan.failed.items()]
    return [*labelled(rows), *broken]


def _missing_rows(plan: Plan) -> Iterator[tuple[str, object]]:
    counted = Counter(word for words in plan.missing.values() for word in words)
    for word, count in counted.most_common():
        yield "missing", f"{word} ({count} case{'' if count == 1 else 's'})"


def _bench_line(bench: Abilities) -> str:
    boards = Counter(board.dialect for board in bench.boards)
    parts = [f"{count} {dialect}" for dialect, count in boards.items()]
    parts += [f"{bench.stations} stations", f"{bench.replayers} replayer"]
    return f"{', '.join(parts)}; {bench.region}, {'on cables' if bench.conducted else 'radiated'}"


def _bound_words(plan: Plan) -> str:
    silence = "" if plan.bench.conducted else ", and the silence that the duty cycle demands"
    return (
        "airtime, receive windows, retransmission time-outs, and waits that scenarios demand"
        f" (servers forget after {RETENTION_S} s){silence}; spread evenly over the boards that can"
    )


def _overhead_words(overheads: Overheads) -> str:
    return (
        f"longest first, {overheads.setup_us / 1e6:g} s to set up and"
        f" {overheads.settle_us / 1e6:g} s to settle each,"
        f" {overheads.lns_start_us / 1e6:g} s for each network server"
    )


def _span(us: int) -> str:
    minutes, seconds = divmod(round(us / 1e6), 60)
    return f"{minutes} min {seconds:02d} s"


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """The plan for programs: each case with its turn, or with what is missing for it."""
    turns = {turn.case: asdict(turn) for turn in plan.schedule.turns}
    return {
        "bench": {
            **asdict(plan.bench),
            "extras": sorted(plan.bench.extras),
            "capabilities": sorted(plan.bench.capabilities),
        },
        "overheads": asdict(plan.overheads),
        "bound": {**asdict(plan.bound), "total_us": plan.bound.total_us},
        "planned_us": plan.schedule.duration_us,
        "ratio": plan.ratio,
        "failed": dict(plan.failed),
        "cases": [
            {**case.as_json(), "missing": plan.missing[case.case], "turn": turns.get(case.case)}
            for case in plan.cases
        ],
    }


EXAMPLES = (
    "lorabench scenarios",
    "lorabench scenarios replay",
    "lorabench scenarios --json",
    "lorabench scenarios --plan",
    "lorabench scenarios --plan replay --bench lab.toml",
)


def scenarios(
    pattern: str | None = None,
    /,
    *,
    plan: Flag = False,
    bench: Path | None = None,
    as_json: AsJson = False,
) -> int:
    """List every scenario with what it requires of the network server.

    With `--plan` each is played without a bench, to find out which boards, stations and other
    things it needs, the least time that the set can take, and the time that is planned for it.

    :param pattern: Part of a name or title, or a file or folder; with --plan also a pytest -k
        expression.
    :param plan: Say what each scenario needs of a real bench, and how long all of them take.
    :param bench: With --plan: the bench.toml to plan for; without it two RUI3 boards, a LoRa-E5, a
        replayer and two stations, on cables.
    """
    if plan:
        return _plan(pattern, bench, as_json=as_json)
    if bench is not None:
        raise Refused("--bench says what to plan for: add --plan.")
    found = matching(pattern)
    return answer([asdict(scenario) for scenario in found], _listing(found), as_json=as_json)


def _plan(pattern: str | None, bench: Path | None, *, as_json: bool) -> int:
    abilities = bench_of(bench)
    with ProgressDisplay() as display:
        planned = plan_of(pattern, abilities, display)
    code = ExitCode.BENCH_ERROR if planned.failed else ExitCode.PASSED
    return answer(plan_as_json(planned), told(planned), code, as_json=as_json)


def _listing(found: list[Scenario]) -> list[str]:
    lines: list[str] = []
    for group, members in groupby(found, key=lambda scenario: scenario.group):
        lines.append(group)
        for scenario in members:
            needs = f"  [needs {', '.join(scenario.requires)}]" if scenario.requires else ""
            lines.append(f"  {scenario.name.removeprefix('test_')}{needs}")
            if scenario.title:
                lines.append(f"      {scenario.title}")
        lines.append("")
    return [*lines, f"{len(found)} scenario{'' if len(found) == 1 else 's'}"]
