"""Runs of scenarios: where does one leave what happened, and how did it go so far?"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import bench
from bench.capture import run_folder
from bench.capture.run_folder import Ending, Origin
from bench.host.program import HostError
from bench.lab.inventory import Inventory
from bench.plan import PlannedCase, from_json
from bench.verdict.case import Title
from lns.capture import Capture
from lns.clock import now_us

RETENTION_S = 30
"""For how long network servers remember a frame on a rig with a wall clock, if nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The options of a run; each rig takes those that are about it.

    `arguments`: the command line of pytest, for whoever has to run the same once more. `waiting`:
    told how many cases are over, and of how many, while others keep somebody waiting.
    """

    retention_s: int | None = None
    tls: bool = False
    redis_url: str | None = field(default=None, repr=False)
    inventory: Inventory | None = None
    arguments: tuple[str, ...] = ()
    waiting: Callable[[int, int], None] = lambda over, cases: None


WRITTEN_FOR_US = 60_000_000
ABOUT_THE_RETENTION_US = 25_000_000
"""Waits from here on are about the retention: no radio and no station takes so long."""
LONG_AFTER_US = 90_000_000
"""A wait that is longer than this stands for any time after the retention."""


class Retiming:
    """A scenario is written for the retention of ADR 007, a minute.

    On a rig with a wall clock the network server is configured with a shorter one, and waits that
    are about the retention shrink with it. What radios and stations decide by themselves (receive
    windows, retries, reconnecting) takes its time.

    Shortens waits in proportion to `retention_us`; a call gives the wait (µs) instead."""

    def __init__(self, retention_us: int) -> None:
        self._retention_us = retention_us

    def __call__(self, us: int) -> int:
        """The wait here, in µs; a short one, and every one under the full retention, is itself."""
        if us < ABOUT_THE_RETENTION_US or self._retention_us == WRITTEN_FOR_US:
            return us
        return min(us, LONG_AFTER_US) * self._retention_us // WRITTEN_FOR_US


@dataclass
class RunRecord:
    """The folder of one run, and the verdicts so far.

    `left_out`: the cases that the rig cannot play, with what each misses; of those `not_played`
    cannot be played on any. `bench`: name of a real bench, `inventory_sha` a hash of its file, and
    `inconclusive_share_max` how much of its cases may stay undecided.
    """

    rig: str
    seed: int
    runs_dir: Path
    devices: str = "virtual"
    stations: str = "virtual"
    bench: str | None = None
    inventory_sha: str | None = None
    inconclusive_share_max: float = 0.0
    origin: Origin = field(default_factory=Origin)
    configuration: Mapping[str, object] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    left_out: list[tuple[Title, tuple[str, ...]]] = field(default_factory=list)
    not_played: list[tuple[Title, str]] = field(default_factory=list)
    started: datetime = field(
        default_factory=lambda: datetime.now(UTC)  # noqa: TID251 - names the folder, decides nothing
    )
    _folder: run_folder.RunFolder | None = None
    _capture: Capture | None = None

    @property
    def folder(self) -> Path | None:
        """Where the captures are; None before `prepare`."""
        return self._folder.path if self._folder else None

    def leave_out(self, title: Title, missing: Sequence[str], *, named: bool = False) -> None:
        """Note a case that this rig cannot play; `named`: no rig can, so it is told by name."""
        self.left_out.append((title, tuple(missing)))
        if named:
            self.not_played.append((title, ", ".join(missing)))

    def prepare(self, planned: Iterable[str] = ()) -> None:
        """Make the folder, and write down which cases are to be played; OSError where it cannot be.

        Before anything plays: a run whose captures go nowhere is none.
        """
        if self._folder is None:
            self._folder = run_folder.create(
                self.runs_dir,
                rig=self.rig,
                seed=self.seed,
                started=self.started,
                argv=run_folder.argv_of_this_process(),
                inventory=self._inventory(),
                planned=planned,
                origin=self.origin,
                configuration=self.configuration,
            )

    def _inventory(self) -> dict[str, object]:
        named: dict[str, object] = {}
        if self.bench is not None:
            named = {"name": self.bench, "sha": self.inventory_sha}
            named["inconclusive_share_max"] = self.inconclusive_share_max
        return {**named, "devices": self.devices, "stations": self.stations}

    def open(self, *, buffered: bool = True) -> Capture:
        """The capture; inside the event loop whose time it is to tell.

        `buffered`: its lines may reach the disk late, those of the case that is being played not
        at all after a crash. OSError where it cannot be written.
        """
        if self._capture is None:
            self.prepare()
            assert self._folder is not None
            run = self._folder
            self._capture = Capture(run.path, run.run_id, now_us, buffered=buffered)
            run_folder.begin(run, self._capture)
            for title, missing in self.left_out:
                facts = {"case": title.case, "scenario": title.scenario, "file": title.file}
                facts |= {"group": title.group, "title": title.title}
                self._capture.record("bench", "case.left_out", {**facts, "missing": [*missing]})
        return self._capture

    def refuse(self, reason: str) -> None:
        """Say that the run could not begin; OSError where that cannot be written."""
        self.prepare()
        assert self._folder is not None
        run_folder.refuse(self._folder, reason)

    def end(self, how: Ending, *, reason: str = "") -> None:
        """Say how the run ended, and close its books; OSError where they cannot be written."""
        if self._capture is not None and self._folder is not None:
            capture, self._capture = self._capture, None
            run_folder.end(self._folder, capture, how, reason=reason)


def describe(record: RunRecord, inventory: Inventory) -> None:
    record.devices = ", ".join(entry.name for entry in inventory.devices)
    record.stations = ", ".join(entry.name for entry in inventory.gateways)
    record.bench = inventory.name
    record.inconclusive_share_max = inventory.limits.inconclusive_share_max
    record.inventory_sha = hashlib.blake2b(inventory.path.read_bytes(), digest_size=8).hexdigest()


PLAN = "plan.json"
"""What a dry run leaves in a folder: the planned cases, and `failed`: those it could not play."""
PLAN_S = 900
_TAIL_LINES = 10


class NoPlan(HostError):
    """The dry run failed; the text has the end of what it said."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases of a run by name, and why some could not be played even without a bench."""

    cases: Mapping[str, PlannedCase]
    failed: Mapping[str, str]


def plan_of(arguments: Sequence[str], *, retention_s: int) -> Plan:
    """The cases that pytest would run with these arguments; NoPlan.

    In a process of its own: nothing in software that plays a device or a station comes into the
    process that speaks with real ones.
    """
    source = str(Path(bench.__path__[0]).resolve().parent)
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory(prefix="lorabench-plan-") as folder:
        last = ["-q", "--no-header", "--rig", "plan"]
        if any(argument.startswith(("-n", "--numprocesses")) for argument in arguments):
            last.append("-n0")  # one dry run is enough
        last += ["--retention", str(retention_s), "--capture-dir", folder]
        command = [sys.executable, "-m", "pytest", "-p", "lorabench", *arguments, *last]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=PLAN_S,
                env={**os.environ, "PYTHONPATH": path},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoPlan(f"the dry run of the scenarios is not over after {PLAN_S} s") from None
        try:
            plan = json.loads((Path(folder) / PLAN).read_text("utf-8"))
        except (OSError, ValueError):
            said = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL_LINES:])
            raise NoPlan(f"the dry run of the scenarios failed:\n{said}") from None
    cases = {case.case: case for case in map(from_json, plan["cases"])}
    return Plan(cases, plan["failed"])
