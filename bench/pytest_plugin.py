"""pytest with a rig: options, fixtures, and a verdict for every scenario.

A scenario is an `async def test_…(rig, …)` that stimulates and expects. The plugin plays it on the
rig, writes the case to the capture and fails the test unless the verdict is a PASS. A scenario
that needs what the rig has not (`requires`) is left out, and that is noted in the capture.
"""

import errno
import importlib
import inspect
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

from bench.capture.run_folder import Ending, Origin
from bench.case import Title
from bench.chance import stream
from bench.expectation import Result, Verdict
from bench.host.program import HostError
from bench.inventory import Inventory, InventoryError, load
from bench.run.play import Play
from bench.run.record import RunRecord
from bench.run.settings import RETENTION_S, RunSettings
from lns.address import without_login
from lns.complaints import without_controls
from lns.dedup.strategy import Strategy
from lns.store.redis_server import redis_server

USAGE, BENCH_ERROR = 4, 12
PLACE_ERRORS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR}
    | {errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT}
)
"""Why captures cannot be written where they were to be: somebody has to name another place."""
MARKERS = (
    'requires(*capabilities): what the rig must offer for this scenario, such as "wires"',
    'fault(seam, kind): where this scenario injects which fault; at the seams "lns" and "store"'
    ' it gets network servers of its own, at "store" also a store',
)
KINDS = {True: "confirmed", False: "unconfirmed"}
ROW = ("strategy", "confirmed")
"""What a scenario leaves open, and so is played in every way."""


class Run(Protocol):
    """A run of scenarios on one kind of rig."""

    capabilities: frozenset[str]
    limits_itself: bool
    """Whether it ends a case that hangs; whoever asks may wait long for the turn of a case."""

    def missing(self, play: Play) -> Sequence[str]:
        """What the bench lacks for a scenario, besides what it says that it requires."""

    def announce(self, plays: list[Play]) -> None:
        """Take note of what will be asked for."""

    def play(self, play: Play) -> Verdict:
        """The verdict of one case."""

    def close(self) -> None:
        """Give everything up."""


RIGS: Mapping[str, str] = {
    "simulated": "bench.run.simulated",
    "emulated": "bench.run.emulated",
    "hardware": "bench.run.hardware",
    "plan": "bench.run.dry_run",
}
"""The module of each rig, which has `open_run`: only that of the rig in use is imported, so that
nothing of another rig is in the process."""
_RECORD = pytest.StashKey[RunRecord]()
_RUN = pytest.StashKey[Run]()
_ANNOUNCED = pytest.StashKey[bool]()
_ENDING = pytest.StashKey[tuple[Ending, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run."""
    group = parser.getgroup("lorabench", "LoRaWAN test bench")
    group.addoption(
        "--rig", choices=list(RIGS), default="simulated", help="what the scenarios run on"
    )
    group.addoption("--bench", metavar="FILE", help="inventory of a real bench")
    group.addoption(
        "--retention",
        type=int,
        metavar="SECONDS",
        help="how long network servers remember a frame; waits of scenarios shrink with it"
        f" (emulated rig: default {RETENTION_S})",
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
        "--strategy",
        choices=[strategy.value for strategy in Strategy],
        help="only this strategy, where a scenario leaves it open",
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


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what this rig does not have; prepare the run."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    rig: str = config.getoption("--rig")
    inventory = _inventory(config, rig)
    if rig == "simulated" and config.getoption("--retention"):
        raise pytest.UsageError(
            "--retention: the simulated rig waits without taking time; leave it out"
        )
    for option in ("--tls", "--redis"):
        if rig == "simulated" and config.getoption(option):
            raise pytest.UsageError(f"{option}: the simulated rig has no wires; leave it out")
        if rig == "hardware" and config.getoption(option):
            raise pytest.UsageError(f"{option}: only for the emulated rig; leave it out")
    try:
        redis_server(config.getoption("--redis") or "redis://unnamed")
    except ValueError as error:
        raise pytest.UsageError(f"--redis: {error}") from None
    runs_dir = Path(config.getoption("--capture-dir"))
    record = config.stash[_RECORD] = RunRecord(
        rig,
        config.getoption("--seed"),
        runs_dir,
        origin=_origin(config),
        configuration=_configuration(config),
    )
    settings = RunSettings(
        retention_s=config.getoption("--retention"),
        tls=config.getoption("--tls"),
        redis_url=config.getoption("--redis"),
        inventory=inventory,
        arguments=tuple(str(argument) for argument in config.invocation_params.args),
    )
    config.stash[_RUN] = importlib.import_module(RIGS[rig]).open_run(record, settings)


def _origin(config: pytest.Config) -> Origin:
    names = ("night", "line", "dut", "part", "explores")
    return Origin(**{name: config.getoption(f"--{name}") for name in names})


def _configuration(config: pytest.Config) -> dict[str, object]:
    """How the network servers are set, as far as a run chooses it."""
    names = ("rig", "retention", "tls", "strategy")
    return {name: config.getoption(f"--{name}") for name in names} | {
        "redis": config.getoption("--redis") is not None
    }


def _inventory(config: pytest.Config, rig: str) -> Inventory | None:
    """The inventory of a real bench, which only the hardware rig has."""
    file = config.getoption("--bench")
    if rig == "hardware":
        if not file:
            raise pytest.UsageError(
                "--rig hardware: name the inventory of the bench, --bench bench.toml"
                " (`lorabench devices --discover` helps to write it)"
            )
        try:
            return load(Path(file))
        except (InventoryError, OSError) as error:
            raise pytest.UsageError(without_controls(f"--bench: {error}")) from None
    if file and rig != "plan":
        raise pytest.UsageError(f"--bench: the {rig} rig has no inventory; leave it out")
    return None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run, and close its capture."""
    if _RUN in config.stash:
        config.stash[_RUN].close()
        how, reason = config.stash.get(_ENDING, (Ending.STOPPED, ""))
        with suppress(OSError):  # a full disk: told already, by whoever wrote last
            config.stash[_RECORD].end(how, reason=reason)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Note how the run ended, for its last line."""
    config = session.config
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        config.stash[_ENDING] = Ending.INTERRUPTED, ""
    elif _ENDING not in config.stash:
        is_over = config.stash[_RECORD].verdicts.total() >= len(_planned(session))
        why = str(session.shouldstop or session.shouldfail or "")
        config.stash[_ENDING] = (Ending.FINISHED, "") if is_over else (Ending.STOPPED, why)


def _planned(session: pytest.Session) -> list[str]:
    """The cases that are to be played."""
    items = [item for item in session.items if "rig" in getattr(item, "fixturenames", ())]
    return [_title(item).case for item in items]


def _stop(config: pytest.Config, reason: str, code: int = BENCH_ERROR) -> NoReturn:
    """End the run here."""
    config.stash[_ENDING] = Ending.STOPPED, reason.partition("\n")[0]
    pytest.exit(reason, returncode=code)


@pytest.hookimpl(trylast=True)  # of what -k has chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the scenarios that need what this rig has not, and with --each-once most rows."""
    left_out = _leave_out_impossible(config, items)
    if config.getoption("--each-once"):
        left_out += _leave_out_rows(items, config.getoption("--seed"))
    limit = config.getoption("--limit")
    if limit is not None:
        left_out += items[limit:]
        del items[limit:]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def _leave_out_impossible(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    run, record = config.stash[_RUN], config.stash[_RECORD]
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        needed = [name for mark in item.iter_markers("requires") for name in mark.args]
        missing = sorted(set(needed) - run.capabilities)
        if not missing and "rig" in getattr(item, "fixturenames", ()):
            missing = list(run.missing(_play(item, _chosen(item))))
        if missing:
            record.leave_out(_title(item), missing)
        (left_out if missing else kept).append(item)
        if run.limits_itself and "rig" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(0))
    items[:] = kept
    return left_out


def _leave_out_rows(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Keep one row of each scenario; so many seeds in a row as it has rows keep each of them.

    A row is a strategy and a kind. Whatever else tells two cases apart (an edge case, a fault)
    makes them scenarios of their own.
    """
    scenarios: dict[tuple[object, ...], list[pytest.Item]] = {}
    for item in items:
        function = item.nodeid.partition("[")[0]
        variant = [id(value) for name, value in _chosen(item).items() if name not in ROW]
        scenarios.setdefault((function, *variant), []).append(item)
    kept = set()
    for rows in scenarios.values():
        first = stream(0, "each once", rows[0].name).randrange(len(rows))
        kept.add(rows[(first + seed) % len(rows)])
    left_out = [item for item in items if item not in kept]
    items[:] = [item for item in items if item in kept]
    return left_out


def leave_out(config: pytest.Config, title: Title, why: str) -> None:
    """Note a case that cannot be played on any rig; it is told by name."""
    config.stash[_RECORD].leave_out(title, (why,), named=True)


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
    config = pyfuncitem.config
    names = pyfuncitem._fixtureinfo.argnames
    if "rig" not in names:
        raise pytest.UsageError(f"{pyfuncitem.nodeid}: an async scenario takes the fixture `rig`")
    run, record = config.stash[_RUN], config.stash[_RECORD]
    try:
        if _ANNOUNCED not in config.stash:
            config.stash[_ANNOUNCED] = True
            _prepare(pyfuncitem.session)
            ahead = [item for item in pyfuncitem.session.items if _is_known_ahead(item)]
            run.announce([_play(item, _chosen(item)) for item in ahead])
        verdict = run.play(_play(pyfuncitem, pyfuncitem.funcargs))
    except (HostError, OSError) as error:
        where = f" (captures: {record.folder})" if isinstance(error, OSError) else ""
        _stop(config, f"{record.rig} rig: {error}{where}")
    record.verdicts[verdict.result] += 1
    pyfuncitem.user_properties.append(("verdict", verdict.result.value))
    if verdict.result is not Result.PASS:
        pytest.fail(str(verdict), pytrace=False)
    return True


def _prepare(session: pytest.Session) -> None:
    """Make the run's folder before anything plays, or refuse to play."""
    record = session.config.stash[_RECORD]
    try:
        record.prepare(_planned(session))
    except OSError as error:
        code = USAGE if error.errno in PLACE_ERRORS else BENCH_ERROR
        why = f"--capture-dir {record.runs_dir}: captures cannot be written there: {error.strerror}"
        _stop(session.config, f"{why}. Nothing was played.", code)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the captures are and how to run the same again."""
    config = terminalreporter.config
    record = config.stash[_RECORD]
    if record.folder is None and not record.not_played:
        return
    terminalreporter.section("lorabench")
    for title, why in record.not_played:
        terminalreporter.line(f"not played {title.case}: {why}")
    if record.folder is None:
        return
    words = ", ".join(f"{count} {word}" for word, count in sorted(record.verdicts.items()))
    terminalreporter.line(f"verdicts   {words}")
    named = {title.case for title, _ in record.not_played}
    of_rig = [names for title, names in record.left_out if title.case not in named]
    if named:
        terminalreporter.line(f"not played {len(named)}, named above")
    if of_rig:
        missing = sorted({name for names in of_rig for name in names})
        terminalreporter.line(
            f"left out   {len(of_rig)} (the {record.rig} rig has no: {', '.join(missing)})"
        )
    terminalreporter.line(f"captures   {record.folder}")
    given = [without_login(str(argument)) for argument in config.invocation_params.args]
    arguments = shlex.join([*given, "--seed", str(record.seed)])
    terminalreporter.line(f"repeat it  pytest {arguments}")


def _is_known_ahead(item: Any) -> bool:
    """Whether a scenario can be played before pytest comes to it: it has no other fixture."""
    if not inspect.iscoroutinefunction(getattr(item, "obj", None)):
        return False
    return set(item.fixturenames) <= {"rig", "request", *_chosen(item)}


def _play(item: Any, values: Mapping[str, object]) -> Play:
    # Before its turn nobody has made the other fixtures that a scenario asks for.
    names = [name for name in item._fixtureinfo.argnames if name != "rig" and name in values]
    arguments = {name: values[name] for name in names}
    scenario, strategy = item.obj, arguments.get("strategy", Strategy.NONE)
    return Play(
        _title(item),
        lambda rig: scenario(rig=rig, **arguments),
        strategy=strategy if isinstance(strategy, Strategy) else Strategy.NONE,
        faults=frozenset(mark.args[0] for mark in item.iter_markers("fault")),
    )


def _chosen(item: Any) -> dict[str, Any]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def _title(item: Any) -> Title:
    file = Path(item.location[0])
    group = file.stem.removeprefix("test_")
    chosen = _chosen(item)
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
