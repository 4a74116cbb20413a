"""A run on the emulated rig: software radios over real wires, a bench of programs."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from bench.rig.emulated_rig import CAPABILITIES, emulated_rig
from bench.rig.programs.process_bench import AT_ONCE, ProcessBench
from bench.rig.rig import Rig
from bench.run.attempts import Play
from bench.run.run_record import RETENTION_S, RunRecord, RunSettings
from bench.run.simulated import DryRun
from bench.run.wall_clock import WallClockRun


class EmulatedRigs:
    attempts_max = 4
    share_servers = True
    again_at_once: Sequence[int] = (6, 2, 1)

    def __init__(self, record: RunRecord, settings: RunSettings) -> None:
        self._record = record
        self._settings = settings
        # A store that was given is not this bench's to stop.
        given = {"own store"} if settings.redis_url is not None else set()
        self.capabilities = CAPABILITIES - given
        self.retention_us = (settings.retention_s or RETENTION_S) * 1_000_000

    def open_bench(self) -> AbstractAsyncContextManager[ProcessBench]:
        return ProcessBench(
            self._record.open(),
            retention_us=self.retention_us,
            tls=self._settings.tls,
            redis_url=self._settings.redis_url,
        )

    def rig(self, bench: ProcessBench, play: Play, *, is_again: bool, **facts: Any) -> Rig:
        # The network server that others share does not know the devices of another attempt.
        return emulated_rig(bench, own_server=is_again or _has_own_server(play), **facts)

    def missing(self, play: Play) -> tuple[str, ...]:
        return ()

    def in_order(self, plays: list[Play]) -> list[Play]:
        """At the end the bench is not to wait for a single long case.

        How long a case lasts is what it takes without a bench. Where all begin at once, who needs
        programs of its own is the first to have them.
        """
        if len(plays) <= AT_ONCE:
            return sorted(plays, key=lambda play: not _has_own_server(play))
        dry = DryRun(seed=self._record.seed, retention_s=self.retention_us // 1_000_000)
        for play in plays:
            dry.play(play)
        lasting_us = {name: case.duration_us for name, case in dry.planned.items()}
        return sorted(plays, key=lambda play: -lasting_us.get(play.title.case, 0))


def _has_own_server(play: Play) -> bool:
    return not play.faults.isdisjoint(("lns", "store"))


def open_run(record: RunRecord, settings: RunSettings) -> WallClockRun[ProcessBench]:
    rigs = EmulatedRigs(record, settings)
    return WallClockRun(record, rigs, settings, retention_us=rigs.retention_us)
