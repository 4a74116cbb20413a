"""`lorabench scenarios --plan`: what does each scenario need, and how long do all of them take?"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli.bench_file import inventory_of
from bench.cli.exit_code import BenchBroken
from bench.cli.output import labelled
from bench.cli.progress import ProgressDisplay
from bench.cli.scenario_catalogue import NoSuchScenario, chosen, nothing_fits
from bench.cli.scenario_lines import ScenarioLines, short_name
from bench.plan.abilities import Abilities, abilities_of, usual_bench
from bench.plan.bound import Bound, bound
from bench.plan.needs import needs
from bench.plan.planned_case import PlannedCase, from_json
from bench.plan.schedule import Overheads, Schedule, schedule
from bench.run.planning import PLAN
from bench.run.settings import RETENTION_S

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
        """The cases that the bench can play."""
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
    missing = {case.case: needs(case, bench) for case in planned}
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
    """Says nothing of scenarios, and remembers what each case requires."""

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
        arguments = [
            "-p",
            "lorabench",
            "-p",
            "no:cacheprovider",
            "--rig",
            "plan",
            "--capture-dir",
            folder,
        ]
        outcome = pytest.main([*chosen(pattern), *arguments], plugins=[markers])
        if outcome == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise NoSuchScenario(nothing_fits(pattern))
        if outcome == pytest.ExitCode.USAGE_ERROR:
            raise NoSuchScenario("pytest did not accept this; its message stands above.")
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


def as_json(plan: Plan) -> dict[str, Any]:
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
