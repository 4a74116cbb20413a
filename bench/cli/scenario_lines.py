"""How does a person follow the scenarios while pytest runs them?

A pytest plugin in the place of pytest's own terminal output: one line per scenario, the reason
below it when it did not pass, and nothing else. On a terminal a bar stands for those that passed.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from bench.cli.progress import ProgressDisplay

REASON_LINES_MAX = 12
PASSED = "PASS"
EXCEPTION_NAME = re.compile(r"^(?:Failed|(?:\w+\.)+\w+): ")


@dataclass(slots=True, eq=False)
class ScenarioLines:
    """Remembers, for one pytest run, how many scenarios ended and how each stage of one went."""

    display: ProgressDisplay
    total: int = 0
    ended: int = 0
    failed: int = 0
    broken: list[str] = field(default_factory=list)
    _stages: dict[str, list[pytest.TestReport]] = field(default_factory=dict)

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

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        stages = self._stages.setdefault(report.nodeid, [])
        stages.append(report)
        if report.when == "teardown":
            del self._stages[report.nodeid]
            self._scenario_ended(stages)

    def _scenario_ended(self, stages: Sequence[pytest.TestReport]) -> None:
        self.ended += 1
        self.failed += any(stage.failed for stage in stages)
        verdict = verdict_of(stages)
        if self.display.is_terminal:
            self.display("scenarios", self.ended, self.total)
        if verdict != PASSED or not self.display.is_terminal:
            self._print(verdict, stages)

    def _print(self, verdict: str, stages: Sequence[pytest.TestReport]) -> None:
        duration_s = sum(stage.duration for stage in stages)
        width = len(str(self.total))
        self.display.line(
            f"[{self.ended:{width}}/{self.total}] {verdict:12} {short_name(stages[0].nodeid)}  "
            f"{duration_s:.2f} s"
        )
        if verdict != PASSED:
            for line in _reason(stages).splitlines():
                self.display.line(f"{'':{2 * width + 4}}{line}")


def verdict_of(stages: Sequence[pytest.TestReport]) -> str:
    """The verdict of a scenario: what the rig's plugin noted, else what pytest makes of it."""
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
    """Why a scenario did not pass: the message of what was raised, else the end of its trace."""
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
