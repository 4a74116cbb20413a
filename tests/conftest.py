"""What every test of the suite shares: its profile, what runs where, and in which order.

`pytest tests` is the everyday run: without Java, without programs of their own, on several workers.
Whoever names a folder, a file or `-m` gets all that fits, in one process unless `-n` says more.
"""

import gc
import os
import random
import re
import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SPARK_TIMEOUT_S = 900
EVERYDAY_WORKERS = 3
LONG_FIRST = (
    "tests/bench/run/test_hardware",
    "tests/bench/score/test_honesty.py",
    "tests/bench/run/test_emulated.py",
    "tests/bench/night/test_series.py",
    "tests/bench/explore",
    "tests/bench/test_pytest_plugin.py",
    "tests/bench/test_wheel.py",
    "tests/test_pages.py",
    "tests/bench/cli/test_against.py",
    "tests/mutants",
    "tests/lns/test_kill.py",
    "tests/bench/cli/test_inbox.py",
    "tests/lns/server/test_neighbour.py",
    "tests/bench/virtual/lab/test_emulated_lab.py",
    "tests/lns/test_running",
    "tests/bench/traffic",
    "tests/lns/test_race.py",
    "tests/bench/report",
    "tests/lns/delivery",
    "tests/test_suite.py",
    "tests/lns/test_redis_outage.py",
    "tests/lns/store",
    "tests/scenarios",
    "tests/bench/virtual",
    "tests/bench/cli",
    "tests/bench/device",
    "tests/bench/host",
    "tests/contracts",
    "tests/fuzz",
    "tests/test_layers.py",
    "tests/lns/server",
    "tests/lns/dedup",
    "tests/lns/uplink",
)
"""What takes longest begins first, so that at the end no worker is left alone with it."""
STARTERS = (
    "bench.host.fork_server",
    "bench.host.lns_process",
    "bench.host.program",
    "tests.blocking",
    "tests.broker",
    "tests.bench.run.lab",
    "tests.bench.test_pytest_plugin",
    "tests.forked",
    "tests.firmware_scripts.running",
    "tests.lns.store.lns_processes",
    "tests.lns.store.replicated",
)
"""Whoever imports something of these starts programs, as a rule."""
START_NOTHING = frozenset(
    "HostGuard _can_be_had away_us disk_us free_port guard_machine guard_program is_answered"
    " stolen_us take_all_allowed".split()
)
"""But for these of them, and constants."""

_ROOMS = "|".join(
    rf"from {room} import {name}\b|from {room}\.{name} import (\([^)]*|.*)|import {room}\.{name}\b"
    for room, _, name in (starter.rpartition(".") for starter in STARTERS)
)
_STARTER = re.compile(rf"^(?:{_ROOMS}|import subprocess$)", re.MULTILINE)


def imports_starters(source: str) -> bool:
    """Whether a file may start programs; single tests say so with the marker."""
    for found in _STARTER.finditer(source):
        names = re.findall(r"\w+", next(filter(None, found.groups()), ""))
        if not names or any(not name.isupper() for name in {*names} - START_NOTHING):
            return True
    return False


# Every worker would compile what it imports anew, and every program that a test starts.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The everyday profile is derandomised: the same commit gives the same result. The fuzz profile
# looks for new examples (`make fuzz`), and prints what repeats a failure.
settings.register_profile("everyday", derandomize=True, deadline=None, max_examples=100)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=5000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "everyday")
settings.load_profile(PROFILE)


EXAMPLES = pytest.StashKey[dict[str, int]]()
EVERYDAY = pytest.StashKey[bool]()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Remember how many examples a property test looked at (Hypothesis counts them)."""
    told = getattr(item, "hypothesis_statistics", None)
    if told is not None:
        numbers = re.findall(r"(\d+) (?:passing|failing)\b", told)
        item.config.stash.setdefault(EXAMPLES, {})[item.nodeid] = sum(map(int, numbers))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """`make fuzz` tells how far it looked."""
    looked = config.stash.get(EXAMPLES, {})
    if not looked or PROFILE != "fuzz":
        return
    terminalreporter.section("examples")
    for test, number in sorted(looked.items(), key=lambda found: found[1]):
        terminalreporter.write_line(f"{number:8d}  {test}")
    terminalreporter.write_line(f"{sum(looked.values()):8d}  in {len(looked)} tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the order be another one."""
    parser.addoption(
        "--order-seed",
        type=int,
        metavar="N",
        help="shuffle files, and tests within a file: no result may depend on the order",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The everyday run has workers; a worker has none, and no run that a test has started."""
    if hasattr(config, "workerinput"):
        return
    options = config.option
    config.stash[EVERYDAY] = _is_everyday(config)
    inner = {"PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"} & set(os.environ)
    if config.stash[EVERYDAY] and not (inner or options.usepdb or options.collectonly):
        options.numprocesses = EVERYDAY_WORKERS
    if getattr(options, "numprocesses", None):
        options.dist = "loadfile"  # what shares a fixture of its module stays together
        options.loadscopereorder = False  # what begins first is decided here


def _is_everyday(config: pytest.Config) -> bool:
    """Whether nobody has said which tests, nor on how many workers."""
    options = config.option
    chosen = {Path(word).resolve() for word in config.args} - {Path(__file__).parent}
    said = chosen or options.keyword or options.markexpr != "not spark"
    return not said and getattr(options, "numprocesses", None) is None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """The build server has all that a test can need: what is skipped there has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"nothing is skipped where CI=true: {report.longrepr}"
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker what was asked of its controller."""
    node.workerinput["everyday"] = node.config.stash[EVERYDAY]


_ALL_SPARK = re.compile(r"^pytestmark = .*\bpytest\.mark\.spark\b", re.MULTILINE)
_SOME_SPARK = re.compile(r"\bmark\.spark\b")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which no test would run is not even imported: each worker would do it."""
    if collection_path.suffix != ".py":
        return None
    if _left_out_programs(config) and _may_start_programs(collection_path):
        return True
    source = collection_path.read_text("utf-8")
    if config.option.markexpr == "spark":
        return None if _SOME_SPARK.search(source) else True
    return True if config.option.markexpr == "not spark" and _ALL_SPARK.search(source) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """While thousands of tests are collected nothing is garbage, and they stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Now they may go."""
    gc.unfreeze()


def pytest_itemcollected(item: Any) -> None:
    """Mark what starts programs before `-m` chooses."""
    if _may_start_programs(item.path):
        item.add_marker("programs")
    _prepare(item)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Say what is left out of the everyday run, and in which order the rest is."""
    if _left_out_programs(config):
        left_out = [item for item in items if item.get_closest_marker("programs")]
        items[:] = [item for item in items if not item.get_closest_marker("programs")]
        config.hook.pytest_deselected(items=left_out)
    seed = config.getoption("--order-seed")
    if seed is not None:
        _shuffle(items, random.Random(seed))
    elif hasattr(config, "workerinput"):
        items.sort(key=_rank)  # a stable sort: within a file the order stays


def _left_out_programs(config: pytest.Config) -> bool:
    """Whether this is the everyday run, here or at the controller of this worker."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    return bool(worker.get("everyday", config.stash.get(EVERYDAY, False)))


@cache
def _may_start_programs(file: Path) -> bool:
    return imports_starters(file.read_text("utf-8"))


def _prepare(item: pytest.Item) -> None:
    """Tests that need Spark have the time to start it."""
    if item.get_closest_marker("spark") is not None:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))


def _rank(item: pytest.Item) -> int:
    file = item.nodeid.partition("::")[0]
    found = [rank for rank, part in enumerate(LONG_FIRST) if file.startswith(part)]
    return found[0] if found else len(LONG_FIRST)


def _shuffle(items: list[pytest.Item], chance: random.Random) -> None:
    """Files in any order, and the tests of a file in any order, so that a file stays together."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    parts = list(files.values())
    chance.shuffle(parts)
    for part in parts:
        chance.shuffle(part)
    items[:] = [item for part in parts for item in part]
