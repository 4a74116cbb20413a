"""How does a person follow the scenarios while pytest runs them?

A pytest plugin in the place of pytest's own terminal output: one line per scenario with how many of
its cases passed, the reason of each that did not, and nothing else. On a terminal a bar stands for
the lines.
"""

import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from bench.cli.progress import ProgressDisplay
from bench.cli.runs import in_words
from bench.pytest_plugin import lacking

REASON_LINES_MAX = 12
PASSED = "PASS"
EXCEPTION_NAME = re.compile(r"^(?:Failed|(?:\w+\.)+\w+): ")


@dataclass(slots=True, eq=False)
class ScenarioLines:
    """Remembers how many cases of a pytest run ended, and how those of this scenario went.

    `lacking`: what the rig does not have for the scenarios that it left out.
    """

    display: ProgressDisplay
    total: int = 0
    ended: int = 0
    failed: int = 0
    broken: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
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

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.lacking = lacking(session.config)
        self._print_scenario()

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
        """The line of the scenario whose cases have all ended; on a terminal the bar will do."""
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
    """Why a case did not pass: the message of what was raised, else the end of its trace."""
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
