"""Which stations are connected, what is under way with each, and which of them answer too late?

The first station of a frame owns its answer (ADR 007). One whose clock is not known, or whose texts
come late, so keeps every device that it hears first from being answered; that must be seen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from enum import StrEnum
from typing import Any

from cachetools import LRUCache, TTLCache
from msgspec import Struct

from lns.clock import now_us, rest_of
from lns.complaints import Complaints
from lns.events import TooLateInARow
from lns.lorawan.identifiers import Eui
from lns.station.messages import Dnmsg
from lns.station.protocol import LinkClosed, StationClock, StationProtocol, TextLink


class ReceptionTasks:
    """Takes one piece of work after the other from `take`; none waits for one before it.

    The task that takes it also does it. Only when it has to wait for something does another task
    go on taking: work that waits for nothing, which is most, costs no task. When `under_way_max`
    wait, nobody takes until one of them is done. It ends when `take` raises LinkClosed; `tasks`
    waits for what is under way then.
    """

    def __init__(
        self,
        take: Callable[[], Awaitable[Coroutine[Any, Any, None]]],
        tasks: asyncio.TaskGroup,
        under_way_max: int,
    ) -> None:
        self._take = take
        self._tasks = tasks
        self._under_way_max = under_way_max
        self._under_way = 0
        self._somebody_takes = True

    async def handle(self) -> None:
        """Take and do, until the link is closed or another task takes."""
        while True:
            try:
                work = await self._take()
            except LinkClosed:
                return
            try:
                waits_for = work.send(None)
            except StopIteration:
                continue
            self._hand_over()
            await rest_of(work, waits_for)
            self._under_way -= 1
            if self._somebody_takes:
                return
            self._somebody_takes = True

    def _hand_over(self) -> None:
        self._under_way += 1
        self._somebody_takes = self._under_way < self._under_way_max
        if self._somebody_takes:
            self._tasks.create_task(self.handle())


IN_A_ROW = 5
STATIONS_MAX = 10_000
AGAIN_US = 60_000_000


class Cause(StrEnum):
    """Why no window of an uplink could be met."""

    NO_CLOCK = "the clock of the station is not known"
    OTHER_SESSION = "the frame is of a radio session that does not run"
    LATE = "the frame was told too late"


class _Row(Struct):
    """So many `TooLate` in a row; the next number that is told."""

    number: int = 0
    next_told: int = IN_A_ROW


class LateStations:
    """Counts how often in a row a station could not answer; at 5, 10, 20 … it tells.

    Remembers 10 000 stations, and for a minute which of them the log named.
    """

    def __init__(
        self, lns: str, record: Callable[[TooLateInARow], None], complaints: Complaints
    ) -> None:
        self._lns = lns
        self._record = record
        self._complaints = complaints
        self._rows: LRUCache[Eui, _Row] = LRUCache(STATIONS_MAX)
        self._named: TTLCache[Eui, bool] = TTLCache(STATIONS_MAX, AGAIN_US, timer=now_us)

    def answered(self, station: Eui) -> None:
        """An answer was handed to the station in time."""
        row = self._rows.pop(station, None)
        if row is not None and row.number >= IN_A_ROW:
            self._complaints.complain("%s: answers again, after %d TooLate", station, row.number)
            self._record(TooLateInARow(stage="over", lns=self._lns, station=station, n=row.number))

    def too_late(self, station: Eui, frame_id: str | None, cause: Cause) -> None:
        """No window of a frame could be met through the station."""
        row = self._rows.get(station) or _Row()
        self._rows[station] = row
        row.number += 1
        if row.number == row.next_told:
            row.next_told *= 2
            self._complaints.complain(
                "%s: cannot answer: %d TooLate in a row, at last because %s;"
                " what it hears first stays unanswered",
                *(station, row.number, cause),
            )
            self._record(
                TooLateInARow(
                    stage="going on", lns=self._lns, station=station, n=row.number, cause=cause
                )
            )
        elif station not in self._named:
            self._named[station] = True
            self._complaints.complain("%s: TooLate (%s): %s", station, frame_id, cause)


# Receptions of one connection under way at once; a station that has more to tell is read later.
RECEPTIONS_MAX = 256
# What a station gets wrong is logged so often on one connection.
COMPLAINTS_MAX = 10
# Stations whose clock is remembered after their connection has ended.
CLOCKS_MAX = 10_000
# A station is asked again for the clock that it does not show: soon, then less often.
ASK_AGAIN_US = 50_000
ASK_AGAIN_MAX_US = 1_000_000


class Connection:
    """One connected station: its protocol state, its clock, and how much of it is under way.

    `tasks` outlives the link until every reception is finished; errands end with the link.
    """

    def __init__(
        self,
        station: Eui,
        link: TextLink,
        protocol: StationProtocol,
        clock: StationClock,
        tasks: asyncio.TaskGroup,
        complaints: Complaints,
        failed: Callable[[Exception], None],
    ) -> None:
        self.station = station
        self.link = link
        self.protocol = protocol
        self.clock = clock
        self.tasks = tasks
        self._complaints = complaints
        self._failed = failed
        self._complained = 0
        self._errands: set[asyncio.Task[None]] = set()
        self._clock_wanted = False
        self._asking = False
        self._ask_after_us = ASK_AGAIN_US

    def complain(self, sentence: str, *facts: object) -> None:
        """Log what the station got wrong; after ten times only the capture tells."""
        self._complained += 1
        if self._complained <= COMPLAINTS_MAX:
            self._complaints.complain(sentence, *facts)

    async def flush(self) -> None:
        """Send what the protocol has to say; LinkClosed."""
        for text in self.protocol.texts_to_send():
            await self.link.send(text)

    def soon(self, errand: Callable[[], Awaitable[None]]) -> None:
        """Begin something that has no meaning any more once the link is closed."""
        task = self.tasks.create_task(self._until_closed(errand))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def end_errands(self) -> None:
        """The link is closed."""
        for task in self._errands:
            task.cancel()

    async def _until_closed(self, errand: Callable[[], Awaitable[None]]) -> None:
        try:
            await errand()
        except LinkClosed:
            return
        except Exception as error:
            self._failed(error)

    def clock_shown(self, xtime: int, arrived_us: int) -> None:
        """The station answered `getxtime`; 0: it has to be asked again."""
        self.clock.report(xtime, arrived_us)
        if xtime:
            self._clock_wanted = False
            self._ask_after_us = ASK_AGAIN_US
        else:
            self._want_clock()

    def heard_of(self, xtime: int) -> None:
        """A frame of a session that is not known to run, or ahead of all before: it is asked."""
        if xtime and self.clock.is_unsure(xtime):
            self._want_clock()

    def _want_clock(self) -> None:
        self._clock_wanted = True
        if not self._asking:
            self._asking = True
            self.soon(self._ask_for_clock)

    async def _ask_for_clock(self) -> None:
        try:
            while self._clock_wanted:
                await asyncio.sleep(self._ask_after_us / 1_000_000)
                if self._clock_wanted:
                    self._clock_wanted = False
                    self._ask_after_us = min(2 * self._ask_after_us, ASK_AGAIN_MAX_US)
                    self.clock.asked(now_us())
                    self.protocol.ask_xtime()
                    await self.flush()
        finally:
            self._asking = False


class Connections:
    """The stations connected right now; a new connection of a station replaces its old one.

    Remembers the clocks of the last 10 000 stations: a station that comes back tells what it heard
    meanwhile, in the session of before.
    """

    def __init__(self) -> None:
        self._current: dict[Eui, Connection] = {}
        self._clocks: LRUCache[Eui, StationClock] = LRUCache(CLOCKS_MAX)

    def clock(self, station: Eui) -> StationClock:
        """The clock of a station, a new one for a station never heard of."""
        clock = self._clocks[station] = self._clocks.get(station) or StationClock()
        return clock

    def add(self, connection: Connection) -> None:
        """A station connected, perhaps once more."""
        replaced = self._current.get(connection.station)
        if replaced is not None:
            # What it still tells is of another session: the newer connection's clock is spared.
            replaced.clock = StationClock()
        self._current[connection.station] = connection

    def remove(self, connection: Connection) -> None:
        """A connection ended; that of a replaced one must not unregister the newer one."""
        if self._current.get(connection.station) is connection:
            del self._current[connection.station]

    def is_current(self, station: Eui, xtime: int) -> bool:
        connection = self._current.get(station)
        return connection is not None and connection.clock.knows(xtime, now_us())

    async def send(self, station: Eui, downlink: Dnmsg) -> bool:
        connection = self._current.get(station)
        if connection is None:
            return False
        connection.protocol.send_downlink(downlink)
        try:
            await connection.flush()
        except LinkClosed:
            return False
        return True

    def soon(self, station: Eui, errand: Callable[[], Awaitable[None]]) -> None:
        connection = self._current.get(station)
        if connection is not None:
            connection.soon(errand)
