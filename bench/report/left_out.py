"""Which scenarios could this rig not play, and what does it miss?"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bench.report.score_file import LeftOut

SCENARIOS_MAX = 30  # of one group, on the page


@dataclass(frozen=True, slots=True)
class LeftOutScenario:
    """One scenario, and how many of its cases were left out."""

    name: str
    title: str
    cases: int


@dataclass(frozen=True, slots=True)
class LeftOutGroup:
    """Everything that misses the same: the scenarios, and how many cases they are."""

    missing: str
    cases: int
    scenarios: tuple[LeftOutScenario, ...]


def left_out_groups(cases: Iterable[LeftOut]) -> list[LeftOutGroup]:
    """The cases by what is missing, the largest group first."""
    grouped: dict[str, Counter[tuple[str, str]]] = {}
    for case in cases:
        missing = ", ".join(sorted(case.missing)) or "not told"
        title = case.title or case.scenario.removeprefix("test_").replace("_", " ")
        grouped.setdefault(missing, Counter())[case.scenario, title] += 1
    groups = [
        LeftOutGroup(
            missing,
            scenarios.total(),
            tuple(LeftOutScenario(*which, count) for which, count in scenarios.items()),
        )
        for missing, scenarios in grouped.items()
    ]
    return sorted(groups, key=lambda group: (-group.cases, group.missing))
