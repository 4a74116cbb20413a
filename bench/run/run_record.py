"""Where does a run leave what happened, and how did it go so far?"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.capture import run_folder
from bench.capture.run_folder import Ending, Origin
from bench.lab.inventory import Inventory
from bench.verdict.case import Title
from lns.capture import Capture
from lns.clock import now_us


@dataclass
class RunRecord:
    """The folder of one run, and the verdicts so far.

    `left_out`: the cases that the rig cannot play, with what each misses; of those `not_played`
    cannot be played on any. `bench`: name of a real bench, and `inventory_sha` a hash of its file.
    """

    rig: str
    seed: int
    runs_dir: Path
    devices: str = "virtual"
    stations: str = "virtual"
    bench: str | None = None
    inventory_sha: str | None = None
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
        named = {} if self.bench is None else {"name": self.bench, "sha": self.inventory_sha}
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
    """Say which bench a run is on."""
    record.devices = ", ".join(entry.name for entry in inventory.devices)
    record.stations = ", ".join(entry.name for entry in inventory.gateways)
    record.bench = inventory.name
    record.inventory_sha = hashlib.blake2b(inventory.path.read_bytes(), digest_size=8).hexdigest()
