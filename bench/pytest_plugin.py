"""pytest with a rig: options, fixtures, and a verdict for every scenario.

A scenario is an `async def test_…(rig, …)` that stimulates and expects. The plugin runs it on the
rig's own clock, writes the case to the capture and fails the test unless the verdict is a PASS.
"""

import inspect
import shlex
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench import clock
from bench.capture import run_folder
from bench.case import Case, Title
from bench.expectation import Result, Verdict
from bench.rig.rig import Rig
from bench.rig.simulated import SimulatedRig
from lns.capture import Capture
from lns.clock import now_us
from lns.dedup.strategy import Strategy

RIGS = ("simulated",)
BETWEEN_CASES_US = 1_000_000
KINDS = {True: "confirmed", False: "unconfirmed"}


class BenchRun:
    """One run: its folder, its capture, and the time at which the next case begins (µs)."""

    def __init__(self, config: pytest.Config) -> None:
        self.seed: int = config.getoption("--seed")
        self.rig: str = config.getoption("--rig")
        self.verdicts: Counter[str] = Counter()
        self._started = datetime.now(UTC)  # noqa: TID251 - names the folder, decides nothing
        self._runs_dir = Path(config.getoption("--capture-dir"))
        self._folder: run_folder.RunFolder | None = None
        self._capture: Capture | None = None
        self._next_us = 0

    @property
    def folder(self) -> Path | None:
        """Where the captures are; None before the first case."""
        return self._folder.path if self._folder else None

    def run(self, title: Title, rig: SimulatedRig, scenario: Any) -> Verdict:
        """Run one scenario on its rig and close its case with a verdict."""
        case = Case(title, self._open(), rig=self.rig)
        try:
            verdict, self._next_us = clock.run(_play(case, rig, scenario), start_us=self._next_us)
        except Exception as failure:  # the clock itself stopped, and the scenario with it
            last_us = case.events[-1]["t_us"]
            verdict, self._next_us = clock.run(_break_off(case, failure), start_us=last_us)
        self.verdicts[verdict.result] += 1
        return verdict

    def close(self) -> None:
        """Close the capture files."""
        if self._capture is not None:
            self._capture.close()

    def _open(self) -> Capture:
        if self._capture is None:
            self._folder = run_folder.create(
                self._runs_dir,
                rig=self.rig,
                seed=self.seed,
                started=self._started,
                argv=run_folder.argv_of_this_process(),
                inventory={"devices": "virtual", "stations": "virtual"},
            )
            self._capture = Capture(self._folder.path, self._folder.run_id, now_us, buffered=True)
        return self._capture


async def _play(case: Case, rig: SimulatedRig, scenario: Any) -> tuple[Verdict, int]:
    """Play one scenario; whatever the bench itself gets wrong is an ERROR, not a crash."""
    error = None
    try:
        async with rig.running(case):
            await scenario
            await rig.settle()
    except (Exception, BaseExceptionGroup) as failure:
        error = _innermost(failure)
    return case.end(error), now_us() + BETWEEN_CASES_US


async def _break_off(case: Case, failure: BaseException) -> tuple[Verdict, int]:
    return case.end(_innermost(failure)), now_us() + BETWEEN_CASES_US


def _innermost(failure: BaseException) -> str:
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return f"{type(failure).__name__}: {failure}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run."""
    group = parser.getgroup("lorabench", "LoRaWAN test bench")
    group.addoption("--rig", choices=RIGS, default="simulated", help="what the scenarios run on")
    group.addoption("--bench", metavar="FILE", help="inventory of a real bench")
    group.addoption("--seed", type=int, default=1, help="of every random number (default 1)")
    group.addoption(
        "--strategy",
        choices=[strategy.value for strategy in Strategy],
        help="only this strategy, where a scenario leaves it open",
    )
    group.addoption(
        "--capture-dir", metavar="DIR", default="runs", help="where the run's folder is made"
    )


_RUN = pytest.StashKey[BenchRun]()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what this rig does not have; prepare the run."""
    if config.getoption("--bench"):
        raise pytest.UsageError("--bench: the simulated rig has no inventory; leave it out")
    config.stash[_RUN] = BenchRun(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the capture."""
    if _RUN in config.stash:
        config.stash[_RUN].close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A scenario that takes `strategy` runs for each; one with `confirmed`, for both kinds."""
    if "rig" not in metafunc.fixturenames:
        return
    if "strategy" in metafunc.fixturenames:
        only = metafunc.config.getoption("--strategy")
        strategies = [s for s in Strategy if only is None or s.value == only]
        metafunc.parametrize("strategy", strategies, ids=[s.value for s in strategies])
    if "confirmed" in metafunc.fixturenames:
        metafunc.parametrize("confirmed", list(KINDS), ids=list(KINDS.values()))


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Rig:
    """The rig, in a known state: devices provisioned, stations up, the network server fresh."""
    parameters = getattr(request.node, "callspec", None)
    chosen = parameters.params if parameters else {}
    run = request.config.stash[_RUN]
    return SimulatedRig(
        seed=run.seed,
        case=_title(request.node).case,
        strategy=chosen.get("strategy", Strategy.NONE),
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous scenario on the clock of its rig."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    rig = pyfuncitem.funcargs.get("rig")
    if not isinstance(rig, SimulatedRig):
        raise pytest.UsageError(f"{pyfuncitem.nodeid}: an async scenario takes the fixture `rig`")
    names = pyfuncitem._fixtureinfo.argnames
    scenario = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    verdict = pyfuncitem.config.stash[_RUN].run(_title(pyfuncitem), rig, scenario)
    pyfuncitem.user_properties.append(("verdict", verdict.result.value))
    if verdict.result is not Result.PASS:
        pytest.fail(str(verdict), pytrace=False)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the captures are and how to run the same again."""
    config = terminalreporter.config
    run = config.stash[_RUN]
    if run.folder is None:
        return
    terminalreporter.section("lorabench")
    words = ", ".join(f"{count} {word}" for word, count in sorted(run.verdicts.items()))
    terminalreporter.line(f"verdicts   {words}")
    terminalreporter.line(f"captures   {run.folder}")
    arguments = shlex.join([*config.invocation_params.args, "--seed", str(run.seed)])
    terminalreporter.line(f"repeat it  pytest {arguments}")


def _title(item: Any) -> Title:
    file = Path(item.location[0])
    group = file.stem.removeprefix("test_")
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    titles = [p.title for p in chosen.values() if isinstance(getattr(p, "title", None), str)]
    doc = inspect.getdoc(item.obj) or item.originalname
    return Title(
        case=f"{group}/{item.name.removeprefix('test_')}",
        scenario=item.originalname,
        file=file.as_posix(),
        group=group,
        title=next(iter(titles), doc.splitlines()[0]),
        strategy=chosen.get("strategy"),
        confirmed=chosen.get("confirmed"),
        params={"id": item.callspec.id} if chosen else {},
    )
