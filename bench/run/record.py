"""Where does a run leave what happened, and how did it go so far?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.capture import run_folder
from bench.case import Title
from lns.capture import Capture
from lns.clock import now_us


@dataclass
class RunRecord:
    """The folder of one run, made with the first case, and the verdicts so far.

    `left_out`: the scenarios that the rig cannot play, with what each misses.
    """

    rig: str
    seed: int
    runs_dir: Path
    devices: str = "virtual"
    stations: str = "virtual"
    verdicts: Counter[str] = field(default_factory=Counter)
    left_out: list[tuple[Title, tuple[str, ...]]] = field(default_factory=list)
    started: datetime = field(
        default_factory=lambda: datetime.now(UTC)  # noqa: TID251 - names the folder, decides nothing
    )
    _folder: run_folder.RunFolder | None = None
    _capture: Capture | None = None

    @property
    def folder(self) -> Path | None:
        """Where the captures are; None before the first case."""
        return self._folder.path if self._folder else None

    def leave_out(self, title: Title, missing: Sequence[str]) -> None:
        """Note a scenario that this rig cannot play."""
        self.left_out.append((title, tuple(missing)))

    def open(self, *, buffered: bool = True) -> Capture:
        """The capture; inside the event loop whose time it is to tell.

        `buffered`: its lines may reach the disk late, and not at all after a crash.
        """
        if self._capture is None:
            self._folder = run_folder.create(
                self.runs_dir,
                rig=self.rig,
                seed=self.seed,
                started=self.started,
                argv=run_folder.argv_of_this_process(),
                inventory={"devices": self.devices, "stations": self.stations},
            )
            run = self._folder
            self._capture = Capture(run.path, run.run_id, now_us, buffered=buffered)
            for title, missing in self.left_out:
                facts = {"case": title.case, "scenario": title.scenario, "file": title.file}
                facts |= {"group": title.group, "title": title.title}
                self._capture.record("bench", "case.left_out", {**facts, "missing": [*missing]})
        return self._capture

    def close(self) -> None:
        """Close the capture files."""
        if self._capture is not None:
            self._capture.close()
