"""A run on the emulated rig: cases side by side, on the wall clock, over real wires."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager

from bench.rig.emulated import EmulatedRig
from bench.rig.wired_bench import AT_ONCE, WiredBench
from bench.run.dry_run import DryRun
from bench.run.play import Play, Turn, perform, repeated
from bench.run.record import RunRecord
from bench.run.settings import RETENTION_S, RunSettings
from bench.run.side_by_side import SideBySide
from bench.verdict.case import Case
from bench.verdict.expectation import Verdict

ATTEMPTS_MAX = 3
"""How often a case is played whose stimulus fails to come about, or that stalls this host."""


class EmulatedRun:
    """Plays what was announced side by side; whoever asks for a verdict waits for that case."""

    limits_itself = True

    def __init__(
        self,
        record: RunRecord,
        *,
        retention_s: int = RETENTION_S,
        tls: bool = False,
        redis_url: str | None = None,
    ) -> None:
        self._record = record
        self._retention_us = retention_s * 1_000_000
        self._tls = tls
        self._redis_url = redis_url
        # A store that was given is not this bench's to stop.
        missing = {"own store"} if redis_url is not None else set()
        self.capabilities = EmulatedRig.capabilities - missing
        self._bench = SideBySide(self._open)
        self._is_open = False
        self._verdicts: dict[str, Future[Verdict]] = {}
        self._numbers = 0

    def missing(self, play: Play) -> Sequence[str]:
        """Nothing is, besides what scenarios say that they require."""
        return ()

    def announce(self, plays: list[Play]) -> None:
        """Begin to play all of these; HostError when the bench cannot be set up."""
        if not self._is_open:
            self._bench.start()
            self._is_open = True
        self._bench.call(lambda bench: bench.expect(len(plays)))
        for play in self._longest_first(plays):
            self._begin(play)

    def _longest_first(self, plays: list[Play]) -> list[Play]:
        """In which order to begin: at the end the bench is not to wait for a single long case.

        How long a case lasts is what it takes without a bench. Where all begin at once, who needs
        programs of its own is the first to have them.
        """
        if len(plays) <= AT_ONCE:
            return sorted(plays, key=lambda play: not _has_own_server(play))
        dry = DryRun(seed=self._record.seed, retention_s=self._retention_us // 1_000_000)
        for play in plays:
            dry.play(play)
        lasting_us = {name: case.duration_us for name, case in dry.planned.items()}
        return sorted(plays, key=lambda play: -lasting_us.get(play.title.case, 0))

    def play(self, play: Play) -> Verdict:
        """The verdict of one case, as soon as there is one."""
        if play.title.case not in self._verdicts:
            self.announce([play])
        return self._bench.result(self._verdicts.pop(play.title.case))

    def close(self) -> None:
        """End every case and every program of the run."""
        if self._is_open:
            self._bench.close()

    def _begin(self, play: Play) -> None:
        async def perform_it(bench: WiredBench) -> Verdict:
            async def attempt(again: Play, turn: Turn) -> tuple[Verdict, bool]:
                own = _has_own_server(play)
                if again is not play:
                    # The network server that others share does not know the devices of this one.
                    bench.expect(1)
                    own = True
                return await self._attempt(bench, again, turn, own_server=own)

            return await repeated(play, ATTEMPTS_MAX, attempt)

        self._verdicts[play.title.case] = self._bench.play(perform_it)

    async def _attempt(
        self, bench: WiredBench, play: Play, turn: Turn, *, own_server: bool
    ) -> tuple[Verdict, bool]:
        self._numbers += 1
        rig = EmulatedRig(
            bench,
            own_server=own_server,
            wants_redis="store" in play.faults,
            seed=self._record.seed,
            case=play.title.case,
            strategy=play.strategy,
            retention_us=self._retention_us,
            number=self._numbers,
        )
        case = Case(play.title, bench.capture, rig=self._record.rig)
        try:
            return await perform(case, rig, play, turn), case.repeated
        finally:
            await rig.end()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[WiredBench]:
        async with WiredBench(
            self._record.open(),
            retention_us=self._retention_us,
            tls=self._tls,
            redis_url=self._redis_url,
        ) as bench:
            yield bench


def _has_own_server(play: Play) -> bool:
    return not play.faults.isdisjoint(("lns", "store"))


def open_run(record: RunRecord, settings: RunSettings) -> EmulatedRun:
    """A run on this rig."""
    return EmulatedRun(
        record,
        retention_s=settings.retention_s or RETENTION_S,
        tls=settings.tls,
        redis_url=settings.redis_url,
    )
