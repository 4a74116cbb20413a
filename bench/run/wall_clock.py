"""A run on the wall clock: cases side by side, on a bench of programs or on one of a lab."""

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from bench.device.serial_line import LineLost
from bench.host.program import HostError, first_cause
from bench.lab.inventory import BenchLock, Inventory, LockHeld
from bench.plan import PlannedCase, PlannedDevice, abilities_of, lacking, schedule
from bench.rig.hardware_rig import CAPABILITIES, hardware_rig
from bench.rig.on_hardware.hardware_bench import BenchUnfit, HardwareBench
from bench.rig.on_hardware.lab_board import DATA_OVERHEAD_BYTES, LabBoard
from bench.rig.programs.process_bench import ProcessBench
from bench.rig.provisioning import provision
from bench.rig.rig import Rig
from bench.run import RETENTION_S, Plan, Retiming, RunRecord, RunSettings, describe, plan_of
from bench.run.attempts import DEVICE_ERRORS, Play, Turn, perform, repeated
from bench.verdict.case import Case, Verdict
from lns.capture import Capture
from lns.clock import now_us

T = TypeVar("T")
B = TypeVar("B")


class BenchStopped(HostError):
    """The bench broke while cases were played on it; the text says why."""


class SideBySide(Generic[B]):
    """A bench on an event loop in a thread of its own; used from another thread.

    `open_bench` makes the bench, inside the loop; `start` raises what that raised.
    """

    def __init__(self, open_bench: Callable[[], AbstractAsyncContextManager[B]]) -> None:
        self._open_bench = open_bench
        self._opened: Future[B] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._plays: set[asyncio.Task[Any]] = set()
        self._broke: BaseException | None = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="bench", daemon=True
        )

    def result(self, future: "Future[T]") -> T:
        """What came of a case; BenchStopped when the bench broke before it was over."""
        try:
            return future.result()
        except CancelledError:
            raise self._stopped() from None

    def _stopped(self) -> BenchStopped:
        cause = None if self._broke is None else first_cause(self._broke)
        why = "it was closed" if cause is None else str(cause) or type(cause).__name__
        return BenchStopped(f"the bench has stopped: {why}. What was captured until then stays")

    def start(self) -> B:
        self._thread.start()
        return self._opened.result()

    def play(self, case: Callable[[B], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Begin to play a case; `result` has what came of it. BenchStopped if the bench broke."""
        assert self._loop is not None
        if self._broke is not None or self._loop.is_closed():
            raise self._stopped()
        return asyncio.run_coroutine_threadsafe(self._keep(case), self._loop)

    async def _keep(self, case: Callable[[B], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._plays.add(task)
        try:
            return await case(self._opened.result())
        finally:
            self._plays.discard(task)

    def call(self, action: Callable[[B], T]) -> T:
        async def act(bench: B) -> T:
            return action(bench)

        return self.result(self.play(act))

    def close(self) -> None:
        is_open = self._opened.done() and self._opened.exception() is None
        if is_open and self._loop is not None and self._over is not None:
            with suppress(RuntimeError):  # the bench broke, and its loop is gone
                self._loop.call_soon_threadsafe(self._over.set)
        if self._thread.is_alive():
            self._thread.join()

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._open_bench() as bench:
                self._opened.set_result(bench)
                await self._over.wait()
                await self._end_all()
        except BaseException as error:
            if self._opened.done():
                self._broke = error
            else:
                self._opened.set_exception(error)

    async def _end_all(self) -> None:
        plays = list(self._plays)
        for task in plays:
            task.cancel()
        await asyncio.gather(*plays, return_exceptions=True)


class Rounds:
    """When is a case played once more, whose attempt proved nothing?

    What makes this host late is most often the run itself. So nobody begins anew before the
    attempts of all cases are over; then those play that have to, in a second round, and in a third
    one, few side by side: `at_once` says how many in the second, in the third, …
    """

    def __init__(self, at_once: Sequence[int]) -> None:
        self._at_once = at_once
        self._round = 1
        self._playing = 0
        self._waiting: list[asyncio.Future[asyncio.Semaphore]] = []

    def expect(self, cases: int) -> None:
        """So many cases are about to play: no round begins before they have."""
        self._playing += cases

    def over(self) -> None:
        """An attempt is over, and no other one of this case follows."""
        self._playing -= 1
        if self._playing == 0 and self._waiting:
            places = asyncio.Semaphore(self._at_once[min(self._round, len(self._at_once)) - 1])
            self._round += 1
            waiting, self._waiting = self._waiting, []
            self._playing = len(waiting)
            for one in waiting:
                one.set_result(places)

    async def following(self) -> asyncio.Semaphore:
        """Wait for the next round, in which this case plays; what bounds how many play at once."""
        begins: asyncio.Future[asyncio.Semaphore] = asyncio.get_running_loop().create_future()
        self._waiting.append(begins)
        self.over()
        try:
            return await begins
        except asyncio.CancelledError:
            if begins.cancelled():
                self._waiting.remove(begins)
                self._playing += 1  # until it says itself that it is over
            raise


Bench = TypeVar("Bench", bound=ProcessBench)


class Rigs(Protocol[Bench]):
    """What a run on the wall clock has to know of its kind of rig."""

    capabilities: frozenset[str]
    attempts_max: int
    """How often a case is played whose stimulus fails to come about, or that stalls this host."""
    share_servers: bool
    """Whether cases begin together, with network servers that know the devices of all of them."""
    again_at_once: Sequence[int]
    """How many cases play side by side in the second round of attempts, in the third, …; none: a
    case is played again at once, and the others go on meanwhile."""

    def open_bench(self) -> AbstractAsyncContextManager[Bench]:
        """The bench of all cases."""

    def rig(self, bench: Bench, play: Play, *, is_again: bool, **facts: Any) -> Rig:
        """A rig for one attempt of a case; `is_again`: for one that is not the first.

        `play` is the case as it was announced, whichever attempt it is for.
        """

    def missing(self, play: Play) -> Sequence[str]:
        """What the bench lacks for a scenario, besides what it says that it requires."""

    def in_order(self, plays: list[Play]) -> list[Play]:
        """In which order cases begin."""


TOLD_EVERY_S = 10.0


class WallClockRun(Generic[Bench]):
    """Plays what was announced side by side; whoever asks for a verdict waits for that case."""

    limits_itself = True

    def __init__(
        self, record: RunRecord, rigs: Rigs[Bench], settings: RunSettings, *, retention_us: int
    ) -> None:
        self.capabilities = rigs.capabilities
        self._record = record
        self._waiting = settings.waiting
        self._rigs = rigs
        self._retention_us = retention_us
        self._bench = SideBySide(rigs.open_bench)
        self._is_open = False
        self._verdicts: dict[str, Future[Verdict]] = {}
        self._rounds = Rounds(rigs.again_at_once) if rigs.again_at_once else None
        self._numbers = 0
        self._announced = 0
        self._over = 0

    def missing(self, play: Play) -> Sequence[str]:
        return self._rigs.missing(play)

    def announce(self, plays: list[Play]) -> None:
        if not self._is_open:
            self._bench.start()
            self._is_open = True
        self._announced += len(plays)
        self._expect(len(plays))
        for play in self._rigs.in_order(plays):
            self._begin(play)

    def _expect(self, cases: int) -> None:
        def expect(bench: Bench) -> None:
            if self._rigs.share_servers:
                bench.expect(cases)
            if self._rounds is not None:
                self._rounds.expect(cases)

        self._bench.call(expect)

    def play(self, play: Play) -> Verdict:
        if play.title.case not in self._verdicts:
            self.announce([play])
        verdict = self._verdicts.pop(play.title.case)
        while not wait([verdict], TOLD_EVERY_S).done:
            self._waiting(self._over, self._announced)
        return self._bench.result(verdict)

    def close(self) -> None:
        if self._is_open:
            self._bench.close()

    def _begin(self, play: Play) -> None:
        async def perform_it(bench: Bench) -> Verdict:
            rounds = self._rounds

            async def attempt(again: Play, turn: Turn) -> tuple[Verdict, bool]:
                if again is play:
                    return await self._attempt(bench, play, again, turn)
                async with nullcontext() if rounds is None else await rounds.following():
                    await bench.quiet()
                    if self._rigs.share_servers:
                        bench.expect(1)
                    return await self._attempt(bench, play, again, turn)

            try:
                first = Turn(1, self._rigs.attempts_max, is_played=rounds is not None)
                return await repeated(play, first, attempt)
            finally:
                self._over += 1
                if rounds is not None:
                    rounds.over()

        self._verdicts[play.title.case] = self._bench.play(perform_it)

    async def _attempt(
        self, bench: Bench, announced: Play, play: Play, turn: Turn
    ) -> tuple[Verdict, bool]:
        self._numbers += 1
        rig = self._rigs.rig(
            bench,
            announced,
            is_again=play is not announced,
            wants_store="store" in play.faults,
            seed=self._record.seed,
            case=play.title.case,
            strategy=play.strategy,
            retention_us=self._retention_us,
            retimed=Retiming(self._retention_us),
            number=self._numbers,
        )
        case = Case(play.title, bench.capture, rig=self._record.rig)
        try:
            return await perform(case, rig, play, turn), case.repeated
        finally:
            await rig.end()


_FRAME = b"health"
TRIES = 3
"""Frames that a board sends until every gateway has heard one."""


def check(
    inventory: Inventory,
    tell: Callable[[str], None],
    well: Callable[[str], None] = lambda name: None,
) -> tuple[str, ...]:
    """Open the bench, let every board be heard by every gateway, and read powers back.

    Returns what is worth a look. `tell` is told each line as it is known, `well` each board that
    every gateway has heard, and each gateway that has heard every board. HostError with everything
    that is wrong, also when somebody else uses the bench.
    """
    with _locked(inventory), tempfile.TemporaryDirectory(prefix="lorabench-health-") as folder:
        return asyncio.run(_check(inventory, Path(folder), tell, well))


async def _check(
    inventory: Inventory, folder: Path, tell: Callable[[str], None], well: Callable[[str], None]
) -> tuple[str, ...]:
    capture = Capture(folder, "health", now_us, buffered=True)
    troubles: list[str] = []
    try:
        async with HardwareBench(capture, inventory, retention_us=RETENTION_S * 1_000_000) as bench:
            for name in bench.gateways.switchboards:
                tell(f"gateway {name}: connected, its radio runs")
            for board in bench.boards.values():
                try:
                    tell(await _look_at(board, bench))
                except (*DEVICE_ERRORS, HostError) as error:
                    troubles.append(str(error))
                missing = sorted(set(bench.gateways.switchboards) - board.heard_by)
                if missing and not board.unfit:
                    troubles.append(
                        f"{board.name}: not heard by {', '.join(missing)} in {TRIES} frames;"
                        " antenna, attenuator, channel plan?"
                    )
                elif not board.unfit:
                    well(board.name)
            for name in bench.gateways.switchboards:
                if all(name in board.heard_by for board in bench.boards.values()):
                    well(name)
            warnings = bench.near_field()
    except LineLost as lost:
        troubles.append(str(lost))
    finally:
        capture.close()
    if troubles:
        raise BenchUnfit("\n".join(["the bench is not fit:", *troubles]))
    return warnings


async def _look_at(board: LabBoard, bench: HardwareBench) -> str:
    device = provision("health", 0, 0, f_cnt=10)
    planned = PlannedDevice(name="health", activation="abp")
    await board.prepare(device, planned, bench)
    for _ in range(TRIES):
        since = board.frames
        await bench.may_send(board.name, len(_FRAME) + DATA_OVERHEAD_BYTES, board.entry.dr)
        await board.driver.send(_FRAME, port=1)
        await bench.heard(board, since)
        if board.heard_by >= set(bench.gateways.switchboards):
            break
    radiation = await board.driver.radiation()
    heard = ", ".join(
        f"{name} {max(f.rssi_dbm for f in bench.overheard if f.station == name)} dBm"
        for name in sorted(board.heard_by)
    )
    return (
        f"board {board.name}: {board.driver.firmware}, {radiation.region},"
        f" {radiation.eirp_dbm} dBm EIRP,"
        f" heard by {heard or 'nobody'}"
    )


def is_alone(planned: PlannedCase) -> bool:
    """Whether a case needs the gateways for itself: also one that sets attenuators."""
    return planned.alone or "weaken" in planned.station_verbs


class HardwareRigs:
    """The bench of one inventory, which is locked for the run (`bench.run.wall_clock.Rigs`)."""

    capabilities = CAPABILITIES
    share_servers = False
    again_at_once: Sequence[
        int
    ] = ()  # what failed to come about was on the air, and this host has little to do

    def __init__(self, record: RunRecord, inventory: Inventory, settings: RunSettings) -> None:
        describe(record, inventory)
        self.attempts_max = inventory.limits.rf_attempts_max
        self.retention_s = settings.retention_s or RETENTION_S
        self._record = record
        self._inventory = inventory
        self._arguments = settings.arguments
        self._abilities = abilities_of(inventory)

    @cached_property
    def _plan(self) -> Plan:
        return plan_of(self._arguments, retention_s=self.retention_s)

    def missing(self, play: Play) -> tuple[str, ...]:
        planned = self._plan.cases.get(play.title.case)
        if planned is None:
            why = self._plan.failed.get(play.title.case, "it was not among the scenarios")
            return (f"a dry run of it: {why}",)
        missing = lacking(planned, self._abilities)
        absent = (f"{name} (left out: {why})" for name, why in self._inventory.absent.items())
        return (*missing, *absent) if missing else ()

    def in_order(self, plays: list[Play]) -> list[Play]:
        return sorted(plays, key=self._turn)

    def _turn(self, play: Play) -> tuple[bool, int]:
        planned = self._plan.cases[play.title.case]
        return is_alone(planned), self._turns.get(play.title.case, 0)

    @cached_property
    def _turns(self) -> dict[str, int]:
        playable = [one for one in self._plan.cases.values() if not lacking(one, self._abilities)]
        turns = schedule(playable, self._abilities).turns
        return {turn.case: place for place, turn in enumerate(turns)}

    def rig(self, bench: HardwareBench, play: Play, *, is_again: bool, **facts: Any) -> Rig:
        planned = self._plan.cases[play.title.case]
        alone = is_alone(planned)
        return hardware_rig(bench, planned, alone=alone, region=bench.region, **facts)

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[HardwareBench]:
        retention_us = self.retention_s * 1_000_000
        with _locked(self._inventory):
            capture = self._record.open(buffered=False)
            async with HardwareBench(capture, self._inventory, retention_us=retention_us) as bench:
                yield bench


@contextmanager
def _locked(inventory: Inventory) -> Iterator[None]:
    try:
        with BenchLock(inventory):
            yield
    except LockHeld as held:
        raise HostError(str(held)) from None


def open_run(record: RunRecord, settings: RunSettings) -> WallClockRun[HardwareBench]:
    assert settings.inventory is not None
    rigs = HardwareRigs(record, settings.inventory, settings)
    return WallClockRun(record, rigs, settings, retention_us=rigs.retention_s * 1_000_000)
