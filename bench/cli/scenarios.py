"""`lorabench scenarios`: what does the bench check?"""

from dataclasses import asdict
from itertools import groupby

from bench.cli.exit_code import ExitCode
from bench.cli.options import AsJson
from bench.cli.output import print_json, print_lines
from bench.cli.scenario_catalogue import Scenario, scenarios_folder, scenarios_in

EXAMPLES = ("lorabench scenarios", "lorabench scenarios --json")


def scenarios(
    *, as_json: AsJson = False
) -> int:
    """List every scenario with what it requires of the network server."""
    found = scenarios_in(scenarios_folder())
    if as_json:
        print_json([asdict(scenario) for scenario in found])
    else:
        print_lines(_listing(found))
    return ExitCode.PASSED


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
