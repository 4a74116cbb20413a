"""How does a log pass through the network server, as one case?

Stations, taps, server and capture are those of the simulated rig, on virtual time; in place of
devices and air there is the log.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Protocol

from bench.station.link import TextLink
from bench.station.tap import Tap
from bench.traffic.expected_words import RETENTION_US, ExpectedWords
from bench.traffic.recorded_station import RecordedStation
from bench.traffic.recording import Log, Step, steps
from bench.traffic.serving import LINK_US, LNS, LogServer
from bench.verdict.case import Case
from bench.verdict.expectation import Due, Verdict, words
from bench.virtual.air.medium import Links, Medium
from lns.clock import now_us
from lns.dedup.strategy import Strategy
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868

WALL_CLOCK_START = datetime(2026, 1, 1, tzinfo=UTC)
LEAD_US = 1_000_000
SETTLE_US = 3_000_000
STEPS_BETWEEN_NEWS = 1_000


class Progress(Protocol):
    """Who is told how far the work is: a text, receptions delivered, receptions in all."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None: ...


@dataclass(slots=True)
class _Post:
    """A station at its tap, and the tasks that keep both going."""

    station: RecordedStation
    tap: Tap
    tasks: list[asyncio.Task[None]]


async def play(
    log: Log, case: Case, *, strategy: Strategy, seed: int, progress: Progress
) -> tuple[Verdict, int]:
    """Play a log and judge it; also returns the time at which it was over (µs).

    What the bench itself gets wrong is an ERROR of the case, not a crash.
    """
    case.begin()
    error = None
    try:
        await _Player(log, case, strategy, seed, progress).play()
    except Exception as failure:
        error = f"{type(failure).__name__}: {_innermost(failure)}"
    return case.end(error), now_us()


class _Player:
    """Plays one log once; remembers its stations and what they have said so far."""

    def __init__(
        self, log: Log, case: Case, strategy: Strategy, seed: int, progress: Progress
    ) -> None:
        self._log = log
        self._case = case
        self._seed = seed
        self._progress = progress
        self._air = Medium(EU868, Links(seed=seed), case.record)
        self._expected = ExpectedWords(log, strategy.value)
        self._server = LogServer(
            log,
            EU868,
            strategy,
            seed=seed,
            record=case.record,
            wall_clock_start=WALL_CLOCK_START,
        )
        self._posts: dict[Eui, _Post] = {}

    async def play(self) -> None:
        self._tell_facts()
        async with asyncio.TaskGroup() as tasks:
            for eui in self._log.stations:
                self._posts[eui] = self._post(eui, tasks)
            for post in self._posts.values():
                await post.station.ready.wait()
            await self._play_steps(now_us() + LEAD_US)
            await asyncio.sleep(SETTLE_US / 1_000_000)
            for post in self._posts.values():
                for task in post.tasks:
                    task.cancel()
            self._server.stop()

    def _tell_facts(self) -> None:
        for eui, name in self._log.stations.items():
            self._case.station(eui, name)
        for device, recorded in zip(self._server.devices, self._log.devices, strict=True):
            self._case.device(device, f_cnt_up=recorded.f_cnt_up)
        self._case.lns(LNS, "start", region=EU868.name, retention_us=RETENTION_US)

    def _post(self, eui: Eui, tasks: asyncio.TaskGroup) -> _Post:
        async def connect() -> TextLink:
            return self._server.connect(eui, tasks)

        tap = Tap(eui, connect, self._case.record, latency_us=LINK_US)
        station = RecordedStation(eui, tap.connect, seed=self._seed)
        tap.xtime_now = station.xtime_now
        running = [tasks.create_task(tap.run()), tasks.create_task(station.run())]
        return _Post(station, tap, running)

    async def _play_steps(self, start_us: int) -> None:
        total, done = self._log.receptions, 0
        for number, step in enumerate(steps(self._log)):
            await asyncio.sleep((start_us + step.at_us - now_us()) / 1_000_000)
            if step.hearing is None:
                self._announce(step)
            else:
                await self._deliver(step, start_us)
                done += 1
            if number % STEPS_BETWEEN_NEWS == 0:
                self._progress(self._case.title.case, done, total)
        self._progress(self._case.title.case, total, total)

    def _announce(self, step: Step) -> None:
        """Tell the books who sent the frame."""
        uplink = step.uplink
        facts: dict[str, object] = {"dev_eui": uplink.dev_eui}
        if uplink.f_cnt is not None:
            facts |= {"session": 0, "f_cnt": uplink.f_cnt}
        facts |= {"frame_id": uplink.frame_id, "genuine": uplink.genuine}
        facts |= {"freq_hz": uplink.freq_hz, "dr": uplink.dr}
        self._air.announce(uplink.dev_eui, uplink.phy, facts)

    async def _deliver(self, step: Step, start_us: int) -> None:
        uplink, hearing = step.uplink, step.hearing
        assert hearing is not None
        text = self._expected.of(uplink, hearing.station, step.at_us)
        self._case.expect_outcome(uplink.frame_id, hearing.station, _due(hearing.station, text))
        station = self._posts[hearing.station].station
        await station.tell(uplink, hearing, heard_us=start_us + uplink.at_us)


@cache
def _due(station: Eui, text: str) -> Due:
    return Due(station, words(text))


def _innermost(failure: BaseException) -> BaseException:
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
