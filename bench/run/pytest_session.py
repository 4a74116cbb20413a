"""What pytest's session is to the bench: the run, its record, and which of the items are scenarios.

All that takes time to import is here; `bench.pytest_plugin`, which pytest loads whether or not
there are scenarios, comes to it when there are some.
"""

import asyncio
import errno
import gc
import importlib
import inspect
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

from bench.capture.run_folder import Ending, Origin
from bench.chance import stream
from bench.host.program import HostError
from bench.lab.inventory import Inventory, InventoryError, NoSuchPart, load
from bench.run import RunRecord, RunSettings
from bench.run.attempts import Play
from bench.verdict.case import Result, Title, Verdict
from lns.clock import StoreUnavailable
from lns.complaints import without_controls
from lns.dedup.strategy import Strategy
from lns.server.address import without_login
from lns.store.redis_wire import RedisWire, redis_server

USAGE, BENCH_ERROR = 4, 12
PLACE_ERRORS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR}
    | {errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT}
)
"""Why captures cannot be written where they were to be: somebody has to name another place."""
GARBAGE_MIN = 20_000
"""How many objects may be new before somebody looks for garbage: a case is a knot of a thousand,
which is all of it garbage in the end, and nothing but a waste of time to look at before."""
ROW = ("strategy", "confirmed")
"""What a scenario leaves open, and so is played in every way."""
_REDIS_ANSWERS_US = 5_000_000


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
    "simulated": "bench.run.simulated:open_run",
    "emulated": "bench.run.emulated:open_run",
    "hardware": "bench.run.wall_clock:open_run",
    "plan": "bench.run.simulated:open_dry_run",
}
"""What opens a run on each rig: only the module of the rig in use is imported, so that nothing of
another rig is in the process."""


class ScenarioSession:
    """The scenarios of one pytest session on one rig; UsageError for options that do not fit it."""

    def __init__(self, config: pytest.Config) -> None:
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
        if redis_url := config.getoption("--redis"):
            _look_for_redis(redis_url)
        self._arguments = arguments_of(config)
        runs_dir = Path(config.getoption("--capture-dir"))
        self.record = RunRecord(
            rig,
            config.getoption("--seed"),
            runs_dir,
            origin=_origin(config),
            configuration=_configuration(config),
        )
        settings = RunSettings(
            retention_s=config.getoption("--retention"),
            tls=config.getoption("--tls"),
            redis_url=redis_url,
            inventory=inventory,
            arguments=self._arguments,
            waiting=partial(_tell_who_waits, config),
        )
        module, _, open_run = RIGS[rig].partition(":")
        self._run: Run = getattr(importlib.import_module(module), open_run)(self.record, settings)
        self._announced = False
        self._ended = False
        self._ending: tuple[Ending, str] | None = None

    # --- which are played ---------------------------------------------------------------------

    def choose(
        self, items: list[pytest.Item], *, each_once: bool, limit: int | None
    ) -> list[pytest.Item]:
        """Take those away that this rig cannot play or that are not asked for; returns them."""
        left_out = self._leave_out_impossible(items)
        if each_once:
            left_out += _leave_out_rows(items, self.record.seed)
        if limit is not None:
            left_out += items[limit:]
            del items[limit:]
        return left_out

    def _leave_out_impossible(self, items: list[pytest.Item]) -> list[pytest.Item]:
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            if not is_scenario(item):
                kept.append(item)
                continue
            needed = [name for mark in item.iter_markers("requires") for name in mark.args]
            missing = sorted(set(needed) - self._run.capabilities)
            missing = missing or list(self._run.missing(_play(item, _chosen(item))))
            if missing:
                self.record.leave_out(_title(item), missing)
            (left_out if missing else kept).append(item)
            if self._run.limits_itself:
                item.add_marker(pytest.mark.timeout(0))
        items[:] = kept
        return left_out

    # --- how they are played ------------------------------------------------------------------

    def play(self, item: pytest.Function) -> None:
        """Play a scenario; the test fails unless the verdict is a PASS."""
        try:
            if not self._announced:
                self._announced = True
                # Thousands of items that stay: a collection that walked them would stop the bench.
                gc.freeze()
                gc.set_threshold(GARBAGE_MIN)
                self._prepare(item.session)
                ahead = [other for other in item.session.items if _is_known_ahead(other)]
                self._run.announce([_play(other, _chosen(other)) for other in ahead])
            verdict = self._run.play(_play(item, item.funcargs))
        except (HostError, OSError) as error:
            where = f" (captures: {self.record.folder})" if isinstance(error, OSError) else ""
            self._stop(f"{self.record.rig} rig: {error}{where}")
        self.record.verdicts[verdict.result] += 1
        item.user_properties.append(("verdict", verdict.result.value))
        if verdict.result is not Result.PASS:
            pytest.fail(str(verdict), pytrace=False)

    def _prepare(self, session: pytest.Session) -> None:
        planned = _planned(session)
        if twice := [case for case, times in Counter(planned).items() if times > 1]:
            self._stop(f"two scenarios are called {twice[0]}; rename one, or its file", USAGE)
        try:
            self.record.prepare(planned)
        except OSError as error:
            code = USAGE if error.errno in PLACE_ERRORS else BENCH_ERROR
            folder = self.record.runs_dir
            why = f"--capture-dir {folder}: captures cannot be written there: {error.strerror}"
            self._stop(f"{why}. Nothing was played.", code)

    def _stop(self, reason: str, code: int = BENCH_ERROR) -> NoReturn:
        self._ending = Ending.STOPPED, reason.partition("\n")[0]
        pytest.exit(reason, returncode=code)

    # --- how it ends --------------------------------------------------------------------------

    def finish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            self._ending = Ending.INTERRUPTED, ""
        elif self._ending is None:
            is_over = self.record.verdicts.total() >= len(_planned(session))
            why = str(session.shouldstop or session.shouldfail or "")
            self._ending = (Ending.FINISHED, "") if is_over else (Ending.STOPPED, why)

    def close(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._run.close()
        how, reason = self._ending or (Ending.STOPPED, "")
        with suppress(OSError):  # a full disk: told already, by whoever wrote last
            self.record.end(how, reason=reason)

    def closing_lines(self) -> list[str]:
        """Where the captures are, what was left out, and how to run the same again."""
        record = self.record
        lines = [f"not played {title.case}: {why}" for title, why in record.not_played]
        if record.folder is None:
            return lines + _left_out(record.rig, [names for _, names in record.left_out])
        words = ", ".join(f"{count} {word}" for word, count in sorted(record.verdicts.items()))
        lines.append(f"verdicts   {words}")
        named = {title.case for title, _ in record.not_played}
        of_rig = [names for title, names in record.left_out if title.case not in named]
        if named:
            lines.append(f"not played {len(named)}, named above")
        lines += _left_out(record.rig, of_rig)
        lines.append(f"captures   {record.folder}")
        if self._ending is not None and self._ending[0] is Ending.INTERRUPTED:
            lines.append("the run was interrupted: what it has played so far is in the captures")
        given = [without_login(argument) for argument in self._arguments]
        lines.append(f"repeat it  pytest {shlex.join([*given, '--seed', str(record.seed)])}")
        return lines


def _left_out(rig: str, lacking: Sequence[Sequence[str]]) -> list[str]:
    names = ", ".join(sorted({name for names in lacking for name in names}))
    return [f"left out   {len(lacking)} (the {rig} rig lacks: {names})"] if names else []


def _look_for_redis(url: str) -> None:
    async def ask() -> None:
        wire = RedisWire(redis_server(url), patience_us=_REDIS_ANSWERS_US)
        try:
            await wire.do("PING")
        finally:
            await wire.close()

    try:
        asyncio.run(ask())
    except (ValueError, StoreUnavailable) as error:
        raise pytest.UsageError(f"--redis: {error}") from None


def arguments_of(config: pytest.Config) -> tuple[str, ...]:
    """The command line of pytest; that of whoever started this process, where it is a worker."""
    given: Mapping[str, Sequence[str]] = getattr(config, "workerinput", {})
    return tuple(map(str, given.get(ARGUMENTS, config.invocation_params.args)))


ARGUMENTS = "lorabench_arguments"
"""Under which name a worker of pytest-xdist is told the command line."""


def is_scenario(item: Any) -> bool:
    """Whether an item takes the `rig` of this bench, and not a fixture of that name elsewhere."""
    info = getattr(item, "_fixtureinfo", None)
    found: Any = None if info is None else info.name2fixturedefs.get("rig")
    return bool(found) and found[-1].func.__module__ == PLUGIN


PLUGIN = "bench.pytest_plugin"


def _planned(session: pytest.Session) -> list[str]:
    return [_title(item).case for item in session.items if is_scenario(item)]


def _origin(config: pytest.Config) -> Origin:
    names = ("night", "line", "dut", "part", "explores")
    return Origin(**{name: config.getoption(f"--{name}") for name in names})


def _configuration(config: pytest.Config) -> dict[str, object]:
    names = ("rig", "retention", "tls", "strategy")
    return {name: config.getoption(f"--{name}") for name in names} | {
        "redis": config.getoption("--redis") is not None
    }


def _inventory(config: pytest.Config, rig: str) -> Inventory | None:
    file = config.getoption("--bench")
    if rig == "hardware":
        if not file:
            raise pytest.UsageError(
                "--rig hardware: name the inventory of the bench, --bench bench.toml"
                " (`lorabench devices --discover` helps to write it)"
            )
        try:
            named = [option.partition("=") for option in config.getoption("--without")]
            return load(Path(file)).without({name: why or "asked for" for name, _, why in named})
        except (InventoryError, NoSuchPart, OSError) as error:
            raise pytest.UsageError(without_controls(f"--bench: {error}")) from None
    if config.getoption("--without") and rig != "plan":
        raise pytest.UsageError(f"--without: the {rig} rig has no inventory; leave it out")
    if file and rig != "plan":
        raise pytest.UsageError(f"--bench: the {rig} rig has no inventory; leave it out")
    return None


def _leave_out_rows(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Keep one row of each scenario; so many seeds in a row as it has rows keep each of them.

    A row is a strategy and a kind. Whatever else tells two cases apart (an edge case, a fault)
    makes them scenarios of their own.
    """
    scenarios: dict[tuple[object, ...], list[pytest.Item]] = {}
    for item in items:
        if not is_scenario(item):
            scenarios[(id(item),)] = [item]
            continue
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


def _is_known_ahead(item: Any) -> bool:
    if not is_scenario(item) or not inspect.iscoroutinefunction(item.obj):
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


def _tell_who_waits(config: pytest.Config, over: int, cases: int) -> None:
    # What is printed while a test runs is held by pytest; this is for now.
    capture = config.pluginmanager.getplugin("capturemanager")
    with nullcontext() if capture is None else capture.global_and_fixture_disabled():
        config.hook.pytest_lorabench_waiting(over=over, cases=cases)


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
