"""pytest with a rig: options, fixtures, and a verdict for every scenario.

A scenario is an `async def test_…(rig, …)` that stimulates and expects. The plugin plays it on the
rig, writes the case to the capture and fails the test unless the verdict is a PASS. A scenario
that needs what the rig has not (`requires`) is left out, and that is noted in the capture.

pytest finds the plugin by its entry point `lorabench`, so scenarios may stand in any folder. It is
loaded in every session of pytest: what takes time to import, comes with the first scenario only.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bench.run.pytest_session import ScenarioSession
    from bench.verdict.case import Title

RIGS = ("simulated", "emulated", "hardware", "plan")
STRATEGIES = ("Mark", "Drop", "None")
MARKERS = (
    'requires(*capabilities): what the rig must offer for this scenario, such as "wires"',
    'fault(seam, kind): where this scenario injects which fault; at the seams "lns" and "store"'
    ' it gets network servers of its own, at "store" also a store',
)
KINDS = {True: "confirmed", False: "unconfirmed"}
REPORT = "lorabench"
"""Under which name a worker of pytest-xdist tells its closing lines."""
_SESSION = pytest.StashKey["ScenarioSession"]()
_LINES = pytest.StashKey[list[str]]()
_TAKES_RIG = re.compile(rb"^async def test_\w+\([^)]*\brig\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lorabench", "LoRaWAN test bench")
    group.addoption("--rig", choices=RIGS, default="simulated", help="what the scenarios run on")
    group.addoption("--bench", metavar="FILE", help="inventory of a real bench")
    group.addoption(
        "--without",
        metavar="NAME[=WHY]",
        action="append",
        default=[],
        help="leave this board or gateway of the bench out; as often as there are such",
    )
    group.addoption(
        "--retention",
        type=int,
        metavar="SECONDS",
        help="how long network servers remember a frame; waits of scenarios shrink with it"
        " (emulated rig: default 30)",
    )
    group.addoption("--tls", action="store_true", help="let stations use wss:// (emulated rig)")
    group.addoption(
        "--redis",
        metavar="URL",
        help="the store of the network servers (emulated rig; by default one is started);"
        " what it knows of the devices of this bench is forgotten, and it is never restarted",
    )
    group.addoption("--seed", type=int, default=1, help="of every random number (default 1)")
    group.addoption(
        "--strategy", choices=STRATEGIES, help="only this strategy, where a scenario leaves it open"
    )
    group.addoption(
        "--each-once",
        action="store_true",
        help="of the strategies and kinds of each scenario one, chosen by its name and the seed",
    )
    group.addoption(
        "--capture-dir", metavar="DIR", default="runs", help="where the run's folder is made"
    )
    group.addoption("--limit", type=int, metavar="N", help="at most so many cases, the first ones")
    group.addoption("--line", metavar="NAME", help="what is tested, such as lns@main")
    group.addoption("--dut", metavar="NAME@VERSION", help="the server under test, if it is no lns")
    group.addoption("--night", metavar="NAME", help="the night that the run is part of")
    group.addoption("--part", metavar="TEXT", default="", help="what was chosen of the catalogue")
    group.addoption("--explores", action="store_true", help="the seed is another one each night")


class Hooks:
    """What other plugins may listen to."""

    @staticmethod
    def pytest_lorabench_waiting(over: int, cases: int) -> None:
        """While cases play side by side: so many of them are over."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_configure(config: pytest.Config) -> None:
    """Say what the markers are; refuse options that do not fit the rig at once."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(_NoRig())
    asked = ("--bench", "--retention", "--tls", "--redis")
    if config.getoption("--rig") != "simulated" or any(map(config.getoption, asked)):
        _session(config)


def _session(config: pytest.Config) -> "ScenarioSession":
    from bench.run.pytest_session import ScenarioSession

    if _SESSION not in config.stash:
        config.stash[_SESSION] = ScenarioSession(config)
    return config.stash[_SESSION]


def leave_out(config: pytest.Config, title: "Title", why: str) -> None:
    """Note a case that cannot be played on any rig; it is told by name."""
    _session(config).record.leave_out(title, (why,), named=True)


def lacking(config: pytest.Config) -> list[str]:
    """What the rig lacks for the scenarios that were left out, each once."""
    if _SESSION not in config.stash:
        return []
    return sorted({name for _, names in config.stash[_SESSION].record.left_out for name in names})


def not_played(config: pytest.Config) -> dict[str, str]:
    """The cases that no rig can play, and why; none of them is lacking on this one."""
    if _SESSION not in config.stash:
        return {}
    return {title.case: why for title, why in config.stash[_SESSION].record.not_played}


def run_folder(config: pytest.Config) -> Path | None:
    """The folder of this run, as soon as it has one."""
    return config.stash[_SESSION].record.folder if _SESSION in config.stash else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A scenario that takes `strategy` runs for each; one with `confirmed`, for both kinds."""
    found = metafunc._arg2fixturedefs.get("rig")
    if not found or found[-1].func.__module__ != __name__:
        return
    if "strategy" in metafunc.fixturenames:
        from lns.dedup.strategy import Strategy

        only = metafunc.config.getoption("--strategy")
        strategies = [s for s in Strategy if only is None or s.value == only]
        metafunc.parametrize("strategy", strategies, ids=[s.value for s in strategies])
    if "confirmed" in metafunc.fixturenames:
        metafunc.parametrize("confirmed", list(KINDS), ids=list(KINDS.values()))


@pytest.hookimpl(trylast=True)  # of what -k has chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the scenarios that need what this rig has not, and with --each-once most rows."""
    if not any("rig" in getattr(item, "fixturenames", ()) for item in items):
        return
    each_once, limit = config.getoption("--each-once"), config.getoption("--limit")
    left_out = _session(config).choose(items, each_once=each_once, limit=limit)
    if left_out:
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> None:
    """The rig, in a known state: devices provisioned, stations up, the network server fresh.

    A scenario gets it when it is played; there is nothing to hand out before that.
    """
    if not inspect.iscoroutinefunction(request.node.obj):
        raise pytest.UsageError(f"{request.node.nodeid}: a scenario with `rig` is an `async def`")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Play an asynchronous scenario on its rig."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    if "rig" not in pyfuncitem._fixtureinfo.argnames:
        return None
    _session(pyfuncitem.config).play(pyfuncitem)
    return True


class _NoRig:
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> None:
        if inspect.iscoroutinefunction(pyfuncitem.obj):
            pytest.fail("an async scenario takes the fixture `rig`", pytrace=False)


# --- the end ----------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Note how the run ended, and tell whoever distributed the tests."""
    config = session.config
    if _SESSION not in config.stash:
        return
    config.stash[_SESSION].finish(session, exitstatus)
    if (output := getattr(config, "workeroutput", None)) is not None:
        config.stash[_SESSION].close()
        output[REPORT] = config.stash[_SESSION].closing_lines()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SESSION in config.stash:
        config.stash[_SESSION].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the captures are and how to run the same again."""
    config = terminalreporter.config
    lines = config.stash.get(_LINES, [])
    if _SESSION in config.stash:
        lines = lines or config.stash[_SESSION].closing_lines()
    if lines:
        terminalreporter.section("lorabench")
    for line in lines:
        terminalreporter.line(line)


# --- beside other tests, with pytest-xdist ------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker with which command line the scenarios were asked for."""
    from bench.run.pytest_session import ARGUMENTS, arguments_of

    node.workerinput[ARGUMENTS] = list(arguments_of(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take the closing lines of the worker that has played the scenarios."""
    lines = getattr(node, "workeroutput", {}).get(REPORT, [])
    if any(line.startswith("captures") for line in lines):
        node.config.stash[_LINES] = lines


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker play every scenario: a run has one rig, one folder and one set of books.

    The emulated rig plays several cases at once by itself. Other tests go where they would.
    """
    files = set(_files_with_scenarios(config))
    if not files:
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneRun(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if (config.rootpath / file).resolve() in files:
                return REPORT
            return file if config.getoption("dist") == "loadfile" else nodeid

    return OneRun(config, log)


def _files_with_scenarios(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        path = (config.invocation_params.dir / argument.partition("::")[0]).resolve()
        files: Iterable[Path] = path.rglob("*.py") if path.is_dir() else [path]
        for file in files:
            if file.is_file() and _has_scenarios(file.read_bytes()):
                yield file


def _has_scenarios(source: bytes) -> bool:
    """Whether it defines a scenario; one in a text, for a test of scenarios, is none."""
    if not _TAKES_RIG.search(source):
        return False
    try:
        top = ast.parse(source).body
    except (SyntaxError, ValueError):
        return False  # pytest will say so
    tests = (
        one for one in top if isinstance(one, ast.AsyncFunctionDef) and one.name.startswith("test_")
    )
    return any(arg.arg == "rig" for one in tests for arg in (*one.args.args, *one.args.kwonlyargs))
