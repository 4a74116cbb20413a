"""`lorabench scenarios`: what does the bench check, and what will that take?"""

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bench.cli.exit_code import ExitCode, Refused
from bench.cli.options import AsJson
from bench.cli.output import print_json, print_lines
from bench.cli.progress import ProgressDisplay
from bench.cli.scenario_catalogue import Scenario, matching
from bench.cli.scenario_plan import as_json as plan_as_json
from bench.cli.scenario_plan import bench_of, plan_of, told

EXAMPLES = (
    "lorabench scenarios",
    "lorabench scenarios replay",
    "lorabench scenarios --json",
    "lorabench scenarios --plan",
    "lorabench scenarios --plan replay --bench lab.toml",
)


def scenarios(
    pattern: Annotated[
        str | None,
        Parameter(
            help="Part of a name or title, or a file or folder; with --plan also a pytest -k"
            " expression."
        ),
    ] = None,
    /,
    *,
    plan: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Say what each scenario needs of a real bench, and how long all of them take.",
        ),
    ] = False,
    bench: Annotated[
        Path | None,
        Parameter(
            help="With --plan: the bench.toml to plan for; without it two RUI3 boards, a LoRa-E5,"
            " a replayer and two stations, on cables."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List every scenario with what it requires of the network server.

    With `--plan` each is played without a bench, to find out which boards, stations and other
    things it needs, the least time that the set can take, and the time that is planned for it.
    """
    if plan:
        return _plan(pattern, bench, as_json=as_json)
    if bench is not None:
        raise Refused("--bench says what to plan for: add --plan.")
    found = matching(pattern)
    if as_json:
        print_json([asdict(scenario) for scenario in found])
    else:
        print_lines(_listing(found))
    return ExitCode.PASSED


def _plan(pattern: str | None, bench: Path | None, *, as_json: bool) -> int:
    abilities = bench_of(bench)
    with ProgressDisplay() as display:
        planned = plan_of(pattern, abilities, display)
    if as_json:
        print_json(plan_as_json(planned))
    else:
        print_lines(told(planned))
    return ExitCode.BENCH_ERROR if planned.failed else ExitCode.PASSED


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
