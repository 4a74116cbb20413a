"""Which small faults would nobody notice? `make faults` plants them one by one in every function.

    python -m tests.mutants.generated                          one fault of each function
    python -m tests.mutants.generated lns/uplink/join.py --seed 7     other ones, of one module
    python -m tests.mutants.generated lns/uplink/join.py --all        every one that can be planted
    python -m tests.mutants.generated --only 'Joins.receive'   those with this in their name
    python -m tests.mutants.generated --list lns/uplink/data.py     only their names

The scenarios play against each fault on the simulated rig until one blames whoever it belongs to:
first the case that noticed it before (`.faults` remembers) and the file that a list names, then one
row of each scenario, then all rows. What they overlook the tests of the module must notice. At the
end stands a table by module, and the survivors by name. Exit status 1 when there is a survivor that
is not listed in `tests.mutants.equivalent`.

Why not mutmut or cosmic-ray: they ask whether a test fails. This asks what the bench says of the
fault, verdict and owner, and plays a fault in a fork of one loaded process, only the scenarios
that come past it, those first that have noticed it before: a second a fault and not a minute.
"""

import argparse
import ast
import functools
import hashlib
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutants import edges
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.faults import ROOT, Fault, all_faults, draw
from tests.mutants.module_tests import play_tests
from tests.mutants.planting import Broken, plant, plant_constant
from tests.mutants.written import Written, all_written

MEMORY = ROOT / ".faults"
BROAD_FIRST = 12
"""So many cases that come past the most go first; then those that come past the fewest."""
CPU_MAX_S, DATA_MAX_BYTES, CASE_MAX_S = 120, 3 << 30, 30
WALL_MAX_S = 1200
WRONG_MAX = 8
"""After so many cases with another owner none is expected to name the right one."""
SERVER = "LNS"
NONE = "none"
"""Instead of a verdict: the case hangs, or pytest itself has stumbled."""
OF_CONSUMERS = re.compile(
    r"lns/delivery/(inbox|detect|decision|message_id|sequence|remove|min_msg|effect|incoming"
    r"|waiting|subscription|held|json_lines|mqtt_se(ssion|nder))"
    r"|lns/store/(inbox|redis_wire|sqlite)|lns/clock"
)
"""What runs at the application, or there as well: a fault there may be the application's."""
VERDICT = re.compile(r"(PASS|FAIL|INCONCLUSIVE|ERROR)(?: \((.*?)\))?")


@dataclass(frozen=True, slots=True)
class Noticed:
    """A case that was no PASS: the words of its verdict, and the first reason."""

    case: str
    verdict: str
    owner: str
    reason: str

    def is_right(self, fault: Fault) -> bool:
        """Whether the verdict names who the fault belongs to."""
        owners = {SERVER, "application"} if OF_CONSUMERS.match(fault.file) else {SERVER}
        says = fault.says if isinstance(fault, Written) else ""
        is_told = re.search(says, self.reason) is not None
        return self.verdict == "FAIL" and self.owner in owners and is_told


@dataclass(slots=True)
class Judged:
    """What became of one fault: the cases that noticed it, and the test that did."""

    fault: Fault
    noticed: list[Noticed] = field(default_factory=list)
    ended: str = ""
    test: str = ""
    came_past: int = 0

    @property
    def word(self) -> str:
        """`right`, `wrong` (owner, or the bench itself stumbles), `test`, or `survived`."""
        if self.fault.name in EQUIVALENT:
            return "equivalent"
        if any(one.is_right(self.fault) for one in self.noticed):
            return "right"
        if self.noticed or self.ended:
            return "wrong"
        return "test" if self.test else "survived"

    @classmethod
    def read(cls, written: dict[str, Any], faults: Mapping[str, Fault]) -> "Judged":
        """What `written` gave."""
        noticed = [Noticed(*one) for one in written["noticed"]]
        facts = written["ended"], written["test"], written["came_past"]
        return cls(faults[written["name"]], noticed, *facts)

    def written(self) -> dict[str, Any]:
        """It, for JSON."""
        return {
            "name": self.fault.name, "line": self.fault.line, "word": self.word,
            "noticed": [astuple(one) for one in self.noticed], "ended": self.ended,
            "test": self.test, "came_past": self.came_past,
        }  # fmt: skip

    def line(self) -> str:
        """It, for people."""
        last = self.noticed[-1] if self.noticed else None
        by = f"{last.verdict} ({last.owner}) {last.case}: {last.reason}" if last else self.test
        return f"{self.word:10} {self.fault.line:4} {self.fault.name}\n    {self.ended} {by}"


# --- playing ----------------------------------------------------------------------------------


class Reach:
    """A plugin that notes which lines of `lns` each case comes past."""

    def __init__(self) -> None:
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, branch=False, include=[str(ROOT / "lns/*")]
        )
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        yield
        self.coverage.switch_context("")

    def found(self) -> dict[str, dict[str, list[str]]]:
        """The cases by file and line; the case "" is the import."""
        self.coverage.stop()
        data = self.coverage.get_data()
        return {
            Path(file).relative_to(ROOT).as_posix(): {
                str(line): cases for line, cases in data.contexts_by_lineno(file).items()
            }
            for file in sorted(data.measured_files())
        }


class Plays:
    """A plugin that plays some of the collected cases, until one notices the fault rightly."""

    def __init__(self, fault: Fault, order: Callable[[list[str]], list[str]]) -> None:
        self.fault = fault
        self.noticed: list[Noticed] = []
        self._order = order

    def choose(self, session: pytest.Session) -> None:
        items = {item.nodeid: item for item in session.items}
        session.items[:] = [items[case] for case in self._order(list(items))]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        self.choose(session)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            told = str(report.longrepr)
            said = VERDICT.match(told)
            reason = told.partition("\n")[2] if said else told[-300:]
            verdict, owner = (said[1], said[2] or "") if said else (NONE, "")
            self.noticed.append(Noticed(report.nodeid, verdict, owner, reason.strip()[:400]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        last = self.noticed[-1] if self.noticed else None
        if last is None:
            return
        hangs = last.verdict == NONE
        if hangs or last.is_right(self.fault) or len(self.noticed) >= WRONG_MAX:
            item.session.shouldstop = "noticed"


class Warm:
    """A plugin that forks, once all is loaded, for each fault that can be planted then."""

    def __init__(self, campaign: "Campaign", faults: Sequence[Fault]) -> None:
        self._campaign = campaign
        self._faults = faults
        self.plays: Plays | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        for fault in self._faults:
            child = os.fork()
            if child == 0:
                _limit_myself()
                if not (plant(fault) if fault.in_body else plant_constant(fault)):
                    os._exit(CANNOT)
                self.plays = self._campaign.plays(fault)
                session.config.pluginmanager.register(self.plays)
                self.plays.choose(session)
                return None
            self._campaign.take(fault, _wait_for(child), is_sure=fault.in_body)
        return True


CANNOT = 77


def _limit_myself() -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_MAX_S, CPU_MAX_S))
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_MAX_BYTES, DATA_MAX_BYTES))


def _wait_for(child: int, limit_s: int | None = WALL_MAX_S) -> int:
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], limit_s)[0]:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(handle)


def _pytest(folder: Path, scenarios: str, plugin: object) -> int:
    """Scenarios on the simulated rig, in this process, which must not do anything after it."""
    output = os.open(folder / "output", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.dont_write_bytecode = True
    # A long run lets forks play a part ahead: what those come past nobody here would see.
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[os.getpid() % len(processors)]})
    arguments = [scenarios, "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
    arguments += ["--capture-dir", str(folder / "runs"), f"--timeout={CASE_MAX_S}"]
    try:
        return int(pytest.main(arguments, plugins=[plugin]))
    except (ExceptionGroup, Warning):  # what a case left open is found when all is over
        return int(pytest.ExitCode.TESTS_FAILED)


class Campaign:
    """Plays faults; writes to `folder / "judged"` what became of each, and tells it as it comes.

    Much of it happens in forked processes: they share the folder and the terminal, and no memory.
    """

    def __init__(
        self, folder: Path, remembered: dict[str, str], scenarios: str, *, one_row: bool = False
    ) -> None:
        self._folder = folder
        self._remembered = remembered
        self._scenarios = scenarios
        self._one_row = one_row
        self._terminal = os.dup(1)
        self._reach = self._measure()
        self._count = Counter(
            case for lines in self._reach.values() for cases in lines.values() for case in cases
        )

    @property
    def on_rig(self) -> frozenset[str]:
        """The modules that some case comes past, and not only their import."""
        return frozenset(
            file
            for file, lines in self._reach.items()
            if any(case for cases in lines.values() for case in cases)
        )

    def run(self, faults: Sequence[Fault]) -> list[Judged]:
        """Judge each; those that take effect at an import come last."""
        warm = [fault for fault in faults if self._is_warm(fault)]
        for fault in [fault for fault in warm if not self._past(fault)]:
            self._tell(Judged(fault))
        warm = [fault for fault in warm if self._past(fault)]
        if warm:
            # It waits for one fault after the other, each of which has its time.
            self._fork(lambda: self._play_warm(warm), limit_s=None)
        cannot = self._folder / "cannot"
        names = set(cannot.read_text().splitlines()) if cannot.exists() else set()
        for fault in faults:
            if not self._is_warm(fault) or fault.name in names:
                self.take(fault, self._fork(functools.partial(self._play_cold, fault)))
        by_name = {fault.name: fault for fault in faults}
        told = (self._folder / "judged").read_text().splitlines() if faults else []
        return [Judged.read(json.loads(line), by_name) for line in told]

    def _fork(self, act: Callable[[], int], *, limit_s: int | None = WALL_MAX_S) -> int:
        child = os.fork()
        if child == 0:
            code = 99
            try:
                code = act()
            finally:
                os._exit(code)
        return _wait_for(child, limit_s)

    def _play_warm(self, faults: Sequence[Fault]) -> int:
        plugin = Warm(self, faults)
        code = _pytest(self._folder, self._scenarios, plugin)
        return self._write(plugin.plays, code) if plugin.plays else code

    def _play_cold(self, fault: Fault) -> int:
        _limit_myself()
        sys.meta_path.insert(0, Broken(fault))
        plays = self.plays(fault)
        return self._write(plays, _pytest(self._folder, self._scenarios, plays))

    def _write(self, plays: Plays, code: int) -> int:
        (self._folder / "noticed").write_text(json.dumps([astuple(n) for n in plays.noticed]))
        return code

    def plays(self, fault: Fault) -> Plays:
        """What a process that has the fault is to play."""
        return Plays(fault, functools.partial(self._order, fault))

    def take(self, fault: Fault, code: int, *, is_sure: bool = True) -> None:
        """Read what a process found that has ended with this code.

        Unless it `is_sure` only who was noticed rightly is done with.
        """
        if code == CANNOT:
            with (self._folder / "cannot").open("a") as file:
                file.write(fault.name + "\n")
            return
        judged = Judged(fault, came_past=len(self._past(fault)))
        noticed = self._folder / "noticed"
        if noticed.exists():
            judged.noticed = [Noticed(*one) for one in json.loads(noticed.read_text())]
            noticed.unlink()
        if not is_sure and judged.word != "right":
            with (self._folder / "cannot").open("a") as file:
                file.write(fault.name + "\n")
            return
        if code not in (0, 1, 2) and not judged.noticed:
            output = (self._folder / "output").read_text("utf-8", "replace")
            judged.ended = f"[ended with {code}: {output[-200:]!r}]"
        shutil.rmtree(self._folder / "runs", ignore_errors=True)
        self._tell(judged)

    def _tell(self, judged: Judged) -> None:
        with (self._folder / "judged").open("a") as file:
            file.write(json.dumps(judged.written()) + "\n")
        os.write(self._terminal, (judged.line() + "\n").encode())

    def _measure(self) -> dict[str, dict[str, list[str]]]:
        """Which cases come past which lines; measured once for each state of the sources."""
        sources = sorted(f for n in ("lns", "bench", "scenarios") for f in (ROOT / n).rglob("*.py"))
        texts = b"".join(file.read_bytes() for file in sources)
        digest = hashlib.sha256(self._scenarios.encode() + texts).hexdigest()
        kept = MEMORY / f"reach-{digest[:16]}.json"
        if not kept.exists():
            for old in MEMORY.glob("reach-*"):
                old.unlink()
            if self._fork(functools.partial(self._note_reach, kept)) != 0:
                output = (self._folder / "output").read_text("utf-8", "replace")
                raise SystemExit(f"the unbroken tree does not pass: {output[-2000:]}")
        found: dict[str, dict[str, list[str]]] = json.loads(kept.read_text())
        return found

    def _note_reach(self, kept: Path) -> int:
        reach = Reach()
        code = _pytest(self._folder, self._scenarios, reach)
        if code == 0:
            kept.write_text(json.dumps(reach.found()))
        return code

    def _is_warm(self, fault: Fault) -> bool:
        """Whether nothing of it has taken effect once everything is imported."""
        if not fault.in_body:
            return bool(fault.assigned and self._past(fault))
        return "" not in self._cases_at(fault)

    def _past(self, fault: Fault) -> set[str]:
        """The cases that come past it, or past the use of a constant; none: nobody knows.

        Before Python 3.12 nobody sees the lines of a coroutine into which something is raised: so
        whoever comes into a coroutine may come past any line of it.
        """
        if fault.in_body:
            return self._cases_at(fault, coroutine_around(fault.file, fault.line)) - {""}
        used = re.compile(rf"\b{fault.assigned}\b") if fault.assigned else None
        cases: set[str] = set()
        for file, reached in self._reach.items() if used else ():
            for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1):
                if str(number) in reached and used is not None and used.search(line):
                    cases.update(reached[str(number)])
        return cases - {""}

    def _cases_at(self, fault: Fault, within: tuple[int, int] | None = None) -> set[str]:
        lines = self._reach.get(fault.file, {})
        first, last = within or fault.statement
        return {case for line in range(first, last + 1) for case in lines.get(str(line), ())}

    def _order(self, fault: Fault, cases: list[str]) -> list[str]:
        past = self._past(fault) or set(cases)
        chosen = sorted(
            (case for case in cases if case in past), key=lambda case: (-self._count[case], case)
        )
        one_row = list({scenario(case): case for case in chosen}.values())
        first = [case for case in (self._remembered.get(fault.name),) if case in chosen]
        if isinstance(fault, Written) and fault.scenario:
            first += [case for case in reversed(one_row) if case.startswith(fault.scenario)]
        rest = [] if self._one_row else chosen
        return list(dict.fromkeys([*first, *one_row[:BROAD_FIRST], *reversed(one_row), *rest]))


@functools.cache
def _functions(file: str) -> list[tuple[int, int, bool]]:
    """The lines of the body of each function, inner ones first, and whether it is a coroutine."""
    found = {}
    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.body[0].lineno, node.end_lineno or 0
            found[lines] = isinstance(node, ast.AsyncFunctionDef)
    inner_first = sorted(found.items(), key=lambda one: one[0][1] - one[0][0])
    return [(*lines, is_coroutine) for lines, is_coroutine in inner_first]


def coroutine_around(file: str, line: int) -> tuple[int, int] | None:
    """The lines of the coroutine in which a line stands; None where its function is none."""
    for first, last, is_coroutine in _functions(file):
        if first <= line <= last:
            return (first, last) if is_coroutine else None
    return None


def scenario(case: str) -> str:
    """The name of a case without its strategy and its kind, of which there are six rows."""
    return re.sub(r"(?<=[-\[])(None|Drop|Mark|confirmed|unconfirmed)(?=[-\]])", "", case)


# --- telling ----------------------------------------------------------------------------------


def table(judged: Iterable[Judged], on_rig: Collection[str] = ()) -> str:
    """By module: planted, equivalent, noticed by whom, survived.

    `on_rig`: the modules that scenarios on the simulated rig run. Of the others (sockets, Redis,
    SQLite, MQTT, configuration) only tests and the emulated rig can tell.
    """
    words = ("equivalent", "right", "wrong", "test", "survived")
    modules: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in judged:
        modules[one.fault.file][one.word] += 1
    rows = [f"{'module':40} {'planted':>8}" + "".join(f"{word:>11}" for word in words)]
    totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, counts in sorted(modules.items()):
        totals["on the simulated rig" if name in on_rig else "elsewhere"] += counts
        rows.append(_row(name, counts, words))
    rows += [_row(name, counts, words) for name, counts in sorted(totals.items()) if on_rig]
    return "\n".join([*rows, _row("together", sum(totals.values(), Counter()), words)])


def _row(name: str, counts: Counter[str], words: Sequence[str]) -> str:
    return f"{name:40} {counts.total():8}" + "".join(f"{counts[word]:11}" for word in words)


def main(argv: Sequence[str]) -> int:
    """Plant the faults that were asked for; 1 when one of them survives."""
    parser = _options()
    options = parser.parse_args(argv)
    os.chdir(ROOT)
    faults = _chosen(options)
    if not faults:
        parser.error("there is no such fault; --list names those that there are")
    if options.list:
        print(*(fault.name for fault in faults), f"{len(faults)} faults", sep="\n")
        return 0
    MEMORY.mkdir(exist_ok=True)
    remembered_in = MEMORY / "noticed.json"
    remembered = json.loads(remembered_in.read_text()) if remembered_in.exists() else {}
    with tempfile.TemporaryDirectory(prefix="lorabench-faults-") as folder:
        one_row = options.one_row
        campaign = Campaign(Path(folder), remembered, options.scenarios, one_row=one_row)
        judged = campaign.run(faults)
    remembered |= {one.fault.name: one.noticed[-1].case for one in judged if one.word == "right"}
    if not options.only:  # a test plants a few, and leaves the tree as it is
        remembered_in.write_text(json.dumps(remembered, indent=1, sort_keys=True))
    for one in judged:
        if one.word == "survived" and not options.no_tests:
            one.test = play_tests(one.fault)
            print(one.line(), flush=True)
    print(f"\nseed {options.seed}\n{table(judged, campaign.on_rig)}")
    survivors = [one.fault.name for one in judged if one.word == "survived"]
    print(f"\n{len(survivors)} survivors", *survivors, sep="\n  ")
    if options.out is not None:
        options.out.write_text("".join(json.dumps(one.written()) + "\n" for one in judged))
    return 1 if survivors else 0


def _chosen(options: argparse.Namespace) -> Sequence[Fault]:
    if options.written or options.edges:
        words = options.paths or [""]
        written = all_written(options.edges or edges.FILE)
        return [fault for fault in written if any(word in fault.name for word in words)]
    faults = list(all_faults(options.paths or ["lns"]))
    if options.only:
        return [fault for fault in faults if any(word in fault.name for word in options.only)]
    drawn = faults if options.all else draw(faults, options.seed)
    chosen = drawn[options.first :: options.step]
    random.Random(options.seed).shuffle(chosen)  # what is interrupted is an even sample yet
    return chosen


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants.generated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", help="modules or folders (all of lns)")
    parser.add_argument("--seed", type=int, default=1, help="chooses one fault of each function")
    parser.add_argument("--all", action="store_true", help="every fault, not one of a function")
    parser.add_argument("--step", type=int, default=1, help="only every so many-th")
    parser.add_argument("--first", type=int, default=0, help="... beginning with this one")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="those with this in their name")
    parser.add_argument(
        "--scenarios", default="scenarios", metavar="PATH", help="play these, not all of them"
    )
    parser.add_argument("--one-row", action="store_true", help="one strategy and kind of each")
    parser.add_argument("--no-tests", action="store_true", help="play scenarios only")
    parser.add_argument("--out", type=Path, help="write a JSON line for each fault there")
    parser.add_argument(
        "--written", action="store_true", help="those of `tests.mutants.edges`; PATHS: their words"
    )
    parser.add_argument(
        "--edges", type=Path, metavar="FILE", help="those of a list like tests/mutants/edges.toml"
    )
    parser.add_argument("--list", action="store_true", help="play nothing, name them")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
