"""What passed between a station and the network server, and what did the bench do to it?

The tap stands between one station and the server, in every connection of that station. It records
each text that leaves it and injects faults into receptions (updf, jreq, broken texts), into what a
station shows of its clock and into dnmsg; every other text passes. Texts it cannot read are
forwarded untouched. Binary messages (a remote shell's, or garbage) go no further: they are counted,
and the 1st, 2nd, 4th, … recorded.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from bench.capture import Record
from bench.station import LinkClosed, TextLink
from bench.station.web_socket import WebSocketLink
from bench.verdict.case import fault_fields
from bench.verdict.expectation import LINK, NO_LINK
from bench.verdict.wire import is_reception, json_of, reception_in
from lns.clock import now_us
from lns.lorawan.identifiers import Eui

_SESSION_SHIFT = 48


def frame_id_of(text: str) -> str | None:
    """The frame_id of a reception; None if it cannot be read."""
    uplink = reception_in(text)
    return None if uplink is None else uplink.frame_id


def told_by(xtime_now: int, text: str, *, teller_now: int | None = None) -> str:
    """A reception with the `xtime` of another moment or another station's clock.

    `xtime_now` is the clock that tells it now. `teller_now` is the clock that told it first, now:
    the frame ended as long ago as that clock says. None: the frame ended just now. A text that has
    no xtime stays as it is.
    """
    fields = json_of(text)
    upinfo = None if fields is None else fields.get("upinfo")
    if not isinstance(upinfo, dict) or not isinstance(upinfo.get("xtime"), int):
        return text
    elapsed_us = 0
    if teller_now is not None and teller_now >> _SESSION_SHIFT == upinfo["xtime"] >> _SESSION_SHIFT:
        elapsed_us = teller_now - upinfo["xtime"]
    moved = {**upinfo, "xtime": max(xtime_now - elapsed_us, 0)}
    return json.dumps(
        {**(fields or {}), "upinfo": moved}, ensure_ascii=False, separators=(",", ":")
    )


class FaultKind(StrEnum):
    """What can be done to a text on its way."""

    DELAY = "delay"
    DROP = "drop"
    DROP_CLOCK = "drop_clock"
    REPEAT = "repeat"
    CUT = "cut"
    CLONE = "clone"
    REPLAY = "replay"
    SUPPRESS = "suppress"
    DELAY_DOWNLINK = "delay_downlink"


@dataclass(slots=True, eq=False)
class Fault:
    """One fault; `remaining` texts are still to suffer it, None = all.

    `after_us`: how much later the text, or its copy, leaves. `times`: how many copies.
    """

    kind: FaultKind
    remaining: int | None
    after_us: int = 0
    times: int = 1
    target: object = None
    detail: dict[str, object] = field(default_factory=dict)


class Faults:
    """The faults of one tap, in the order in which they were injected.

    Begin and end of each are recorded; one that is used up has ended.
    """

    def __init__(self, station: Eui, record: Record) -> None:
        self._station = station
        self._record = record
        self._active: list[Fault] = []

    def begin(self, fault: Fault) -> Fault:
        self._active.append(fault)
        self._note("fault.begin", fault)
        return fault

    def end(self, fault: Fault) -> None:
        """Without effect on one that has ended."""
        if fault in self._active:
            self._active.remove(fault)
            self._note("fault.end", fault)

    def active(self, kind: FaultKind) -> Fault | None:
        return next((fault for fault in self._active if fault.kind is kind), None)

    def take(self, kind: FaultKind) -> Fault | None:
        """The first fault of a kind, used up by one text."""
        fault = self.active(kind)
        if fault is not None and fault.remaining is not None:
            fault.remaining -= 1
            if fault.remaining <= 0:
                self.end(fault)
        return fault

    def _note(self, kind: str, fault: Fault) -> None:
        fields = fault_fields("tap", fault.kind.value, fault.detail, station=self._station)
        self._record("bench", kind, fields)


@dataclass(slots=True)
class Leaving:
    """A text on its way out, and what is to be recorded of it.

    `link`: of what a station says first, on which of its connections.
    """

    text: str
    direction: str
    held_us: int = 0
    origin: str | None = None
    link: int | None = None


@dataclass(slots=True, eq=False)
class Connection:
    """One connection of the station: both links, and what waits to be sent on each.

    On a link in memory nothing has to wait. `number`: how many the station has had with it, until
    it has said something here.
    """

    station: TextLink
    lns: TextLink
    number: int | None
    to_station: asyncio.Queue[Leaving] = field(default_factory=asyncio.Queue)
    to_lns: asyncio.Queue[Leaving] = field(default_factory=asyncio.Queue)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        self.station.close()
        self.lns.close()


TEXTS_MAX = 100_000


def link_pair(latency_us: int = 0) -> tuple["MemoryLink", "MemoryLink"]:
    """The two ends of a connection in memory; a text arrives `latency_us` after it was sent."""
    left, right = MemoryLink(latency_us), MemoryLink(latency_us)
    left.peer, right.peer = right, left
    return left, right


class MemoryLink:
    """One end of a connection in memory.

    Remembers the texts that arrived and were not read. What was sent before `close` still arrives;
    the end that closed reads and sends nothing more. A reader further than 100 000 texts behind
    loses the connection, as it would to a full socket.
    """

    def __init__(self, latency_us: int) -> None:
        self._latency_us = latency_us
        self._arrived: deque[str] = deque()
        self._reader: asyncio.Future[None] | None = None
        self.closed = False
        self.ended_us = 0
        """When it was over, for this end."""
        self._ended = False
        self._take: Callable[[str], None] | None = None
        self._over: Callable[[], None] = lambda: None
        self.peer: MemoryLink

    def send_now(self, text: str) -> None:
        """`send` for those who cannot wait; LinkClosed if the connection is over."""
        if self.closed:
            raise LinkClosed("the link is closed")
        self._after_latency(self.peer._arrive, text)

    async def send(self, text: str) -> None:
        self.send_now(text)

    async def receive(self) -> str:
        assert self._reader is None, "a link has one reader"
        while not self._arrived:
            if self._ended:
                raise LinkClosed("the link is closed")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._arrived.popleft()

    def hand_to(self, take: Callable[[str], None], over: Callable[[], None]) -> None:
        """Let each text be taken as it arrives, instead of `receive`; `over`: none comes any more.

        What has arrived already is taken at once.
        """
        self._take, self._over = take, over
        while self._arrived:
            take(self._arrived.popleft())
        if self._ended:
            over()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._arrived.clear()
        self._end()
        self._after_latency(self.peer._end)

    def vanish(self, noticed_after_us: int) -> None:
        """End the connection for this end only; the other end notices so much later (half open)."""
        if self.closed:
            return
        self._arrived.clear()
        self._end()
        loop = asyncio.get_running_loop()
        loop.call_at((now_us() + noticed_after_us) / 1_000_000, self.peer._end)

    def _after_latency(self, callback: Callable[..., None], *args: str) -> None:
        loop = asyncio.get_running_loop()
        loop.call_at((now_us() + self._latency_us) / 1_000_000, callback, *args)

    def _arrive(self, text: str) -> None:
        if self._ended:
            return
        if self._take is not None:
            return self._take(text)
        self._arrived.append(text)
        if len(self._arrived) > TEXTS_MAX:
            self.close()
        self._wake()

    def _end(self) -> None:
        is_over, self._ended, self.closed = self._ended, True, True
        if not is_over:
            self.ended_us = now_us()
            self._over()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


_SHOWN_BYTES = 16


class Tap:
    """One station's tap; `run` it in a task, and give the station `connect` as its link factory.

    `connect_lns` opens a link to the server. `xtime_now`: the station's clock, needed for
    `clone_to` and for a fresh xtime. Remembers the faults injected.
    A delayed text whose link is down as it leaves is dropped. `audible` is asked of each reception
    as it comes: one that the station was not to hear goes no further; the others leave `lag_us`
    later. `has_lost_clock`: what its station has shown last of its clock has come to nobody.
    """

    def __init__(
        self,
        station: Eui,
        connect_lns: Callable[[], Awaitable[TextLink]],
        record: Record,
        *,
        latency_us: int = 0,
    ) -> None:
        self.station = station
        self.xtime_now: Callable[[], int] = lambda: 0
        self.audible: Callable[[str], bool] = lambda text: True
        self.lag_us = 0
        self.has_lost_clock = False
        self._connect_lns = connect_lns
        self._record = record
        self._latency_us = latency_us
        self._faults = Faults(station, record)
        self._connection: Connection | None = None
        self._connections = 0
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.get_running_loop().create_future()
        finally:
            self._tasks = None

    @property
    def is_parted(self) -> bool:
        """Whether a scenario has taken its link away, and not given it back."""
        return self._faults.active(FaultKind.CUT) is not None

    @property
    def is_cut(self) -> bool:
        return self._tasks is None or self.is_parted

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    async def connect(self) -> TextLink:
        """A new link for the station, through the tap; LinkClosed while cut or without server.

        Its last one is over first: a server would end it for the new one's sake.
        """
        if self._connection is not None:
            await self._connection.gone.wait()
        if self.is_cut or self._tasks is None:
            raise LinkClosed("the tap is cut")
        lns_link = await self._link_to_lns()
        station_end, tap_end = link_pair(self._latency_us)
        self._tasks.create_task(self._carry(self._open(tap_end, lns_link)))
        return station_end

    async def accept(self, station_link: TextLink) -> None:
        """Carry what the station says on a link that it opened, until either end closes it."""
        try:
            if self.is_cut:
                raise LinkClosed("the tap is cut")
            lns_link = await self._link_to_lns()
        except LinkClosed:
            return station_link.close()
        await self._carry(self._open(station_link, lns_link))

    def _open(self, station: TextLink, lns: TextLink) -> Connection:
        self._connections += 1
        self._connection = Connection(station, lns, self._connections)
        return self._connection

    async def _link_to_lns(self) -> TextLink:
        try:
            return await self._connect_lns()
        except LinkClosed:
            self._note_link("refused")
            raise

    def delay_up(self, delay_us: int, n: int | None = None) -> None:
        """Let the next `n` receptions leave so much later; None: all."""
        self._begin(FaultKind.DELAY, n, after_us=delay_us)

    def drop_up(self, n: int) -> None:
        """Let the next `n` receptions not leave."""
        self._begin(FaultKind.DROP, n)

    def drop_clock(self, n: int) -> None:
        """Let the next `n` answers to `getxtime` not leave."""
        self._begin(FaultKind.DROP_CLOCK, n)

    def repeat_up(self, after_us: int, times: int = 1) -> None:
        """Let the next reception leave again `times` times, `after_us` between two."""
        self._begin(FaultKind.REPEAT, 1, after_us=after_us, times=times)

    def clone_to(self, other: "Tap", after_us: int) -> None:
        """Let all receptions come from another station too, in that station's words."""
        self._begin(FaultKind.CLONE, None, after_us=after_us, target=other)

    def suppress_down(self, n: int) -> None:
        """Let the next `n` dnmsg not reach the station."""
        self._begin(FaultKind.SUPPRESS, n)

    def delay_down(self, delay_us: int, n: int | None = None) -> None:
        """Let the next `n` dnmsg reach the station so much later; None: all."""
        self._begin(FaultKind.DELAY_DOWNLINK, n, after_us=delay_us)

    def cut(self) -> None:
        """End the connection of the station, and let it not connect until `restore`."""
        self._begin(FaultKind.CUT, None)
        if self._connection is not None:
            self._connection.close()

    def restore(self) -> None:
        """Undo `cut`; the station connects when its back-off is over."""
        while (cut := self._faults.active(FaultKind.CUT)) is not None:
            self._faults.end(cut)

    def replay(self, text: str) -> None:
        """Let a reception come once more from this station, as if heard as it leaves."""
        self._inject(told_by(self.xtime_now(), text), fresh_xtime=True)

    def inject(self, text: str) -> None:
        """Let any text, also a broken one, come from this station."""
        self._inject(text, fresh_xtime=False)

    def _inject(self, text: str, *, fresh_xtime: bool) -> None:
        detail: dict[str, object] = {"after_us": 0, "fresh_xtime": fresh_xtime}
        fault = self._faults.begin(Fault(FaultKind.REPLAY, None, detail=detail))
        self._leave(Leaving(text, "up", origin="injected"))
        self._faults.end(fault)

    def _begin(
        self,
        kind: FaultKind,
        n: int | None,
        *,
        after_us: int = 0,
        times: int = 1,
        target: "Tap | None" = None,
    ) -> None:
        detail: dict[str, object] = {}
        if n is not None:
            detail["n"] = n
        if after_us:
            detail["after_us"] = after_us
        if kind is FaultKind.REPEAT:
            detail["times"] = times
        if target is not None:
            detail["to"] = target.station
        self._faults.begin(Fault(kind, n, after_us, times, target, detail))

    def _up(self, text: str) -> None:
        if not is_reception(text):
            is_clock, leaving = '"getxtime"' in text, Leaving(text, "up")
            if is_clock and self._faults.take(FaultKind.DROP_CLOCK):
                self.has_lost_clock = True
                return self._note(leaving, dropped=True)
            self.has_lost_clock &= not is_clock
            return self._leave(leaving)
        if not self.audible(text):
            return self._note(Leaving(text, "up"), dropped=True)
        self._clone(text)
        if self._faults.take(FaultKind.DROP):
            return self._note(Leaving(text, "up"), dropped=True)
        delay = self._faults.take(FaultKind.DELAY)
        delay_us = self.lag_us + (delay.after_us if delay else 0)
        self._later(delay_us, lambda: self._leave(Leaving(text, "up", delay_us)))
        repeat = self._faults.take(FaultKind.REPEAT)
        for copy in range(1, repeat.times + 1 if repeat else 1):
            assert repeat is not None
            after_us = delay_us + copy * repeat.after_us
            self._later(after_us, lambda: self._leave(Leaving(text, "up", origin="injected")))

    def _down(self, text: str) -> None:
        fields = json_of(text)
        if fields is None or fields.get("msgtype") != "dnmsg":
            return self._leave(Leaving(text, "down"))
        if self._faults.take(FaultKind.SUPPRESS):
            return self._note(Leaving(text, "down"), dropped=True)
        delay = self._faults.take(FaultKind.DELAY_DOWNLINK)
        delay_us = delay.after_us if delay else 0
        self._later(delay_us, lambda: self._leave(Leaving(text, "down", delay_us)))

    def _clone(self, text: str) -> None:
        clone = self._faults.take(FaultKind.CLONE)
        if clone is None:
            return
        assert isinstance(clone.target, Tap)
        other = clone.target
        copy = told_by(other.xtime_now(), text, teller_now=self.xtime_now())
        leaving = Leaving(copy, "up", clone.after_us, origin="injected")
        self._later(clone.after_us, lambda: other._leave(leaving))

    def _leave(self, leaving: Leaving) -> None:
        connection = self._connection
        if connection is None:
            return self._note(leaving, dropped=True, cause=NO_LINK)
        up = leaving.direction == "up"
        link = connection.lns if up else connection.station
        if up and leaving.origin is None and connection.number is not None:
            leaving.link, connection.number = connection.number, None
        if isinstance(link, MemoryLink):
            self._note_leaving(leaving, link)
            return None if link.closed else link.send_now(leaving.text)
        (connection.to_lns if up else connection.to_station).put_nowait(leaving)

    def _note(self, leaving: Leaving, *, dropped: bool, cause: str | None = None) -> None:
        fields: dict[str, object] = {
            "station": self.station,
            "direction": leaving.direction,
            "text": leaving.text,
        }
        if leaving.held_us:
            fields["held_us"] = leaving.held_us
        if leaving.link is not None:
            fields["link"] = leaving.link
        if dropped:
            fields["dropped"] = True
        if cause is not None:
            fields["cause"] = cause
        if leaving.origin is not None:
            fields["origin"] = leaving.origin
        self._record(f"tap-{self.station}", "station.text", fields)

    def _note_leaving(self, leaving: Leaving, link: TextLink) -> None:
        self._note(leaving, dropped=link.closed, cause=NO_LINK if link.closed else None)

    def _later(self, after_us: int, action: Callable[[], None]) -> None:
        if after_us <= 0:
            return action()
        asyncio.get_running_loop().call_at((now_us() + after_us) / 1_000_000, action)

    async def _carry(self, connection: Connection) -> None:
        self._watch(connection.station, "up")
        self._watch(connection.lns, "down")
        over = asyncio.Event()

        def lns_over() -> None:
            # When the case is over the bench ends all links itself.
            if self._tasks is not None and not connection.station.closed:
                self._note_link("closed")
            over.set()

        try:
            async with asyncio.TaskGroup() as tasks:
                for link, take, ended, queue in (
                    (connection.station, self._up, over.set, connection.to_station),
                    (connection.lns, self._down, lns_over, connection.to_lns),
                ):
                    if isinstance(link, MemoryLink):
                        link.hand_to(take, ended)
                    else:
                        tasks.create_task(_read(link, take, ended))
                        tasks.create_task(self._send(link, queue))
                await over.wait()
                raise LinkClosed
        except* LinkClosed:
            pass
        finally:
            connection.close()
            if self._connection is connection:
                self._connection = None
            for queue in (connection.to_lns, connection.to_station):
                while not queue.empty():
                    self._note(queue.get_nowait(), dropped=True, cause=NO_LINK)
            connection.gone.set()

    def _watch(self, link: TextLink, direction: str) -> None:
        count = 0

        def binary(octets: bytes) -> None:
            nonlocal count
            count += 1
            if count.bit_count() == 1:
                self._record(
                    f"tap-{self.station}",
                    "station.binary",
                    {
                        "station": self.station,
                        "direction": direction,
                        "n": count,
                        "bytes_count": len(octets),
                        "begins": octets[:_SHOWN_BYTES].hex(),
                        "dropped": True,
                    },
                )

        if isinstance(link, WebSocketLink):
            link.binary = binary

    def _note_link(self, what: str) -> None:
        fields: dict[str, object] = {"station": self.station, "event": what}
        self._record(f"tap-{self.station}", LINK, fields)

    async def _send(self, link: TextLink, leaving: asyncio.Queue[Leaving]) -> None:
        while True:
            text = await leaving.get()
            # Noted before it is sent: the other process may answer before this one goes on.
            self._note_leaving(text, link)
            await link.send(text.text)


async def _read(link: TextLink, take: Callable[[str], None], ended: Callable[[], None]) -> None:
    with suppress(LinkClosed):
        while True:
            take(await link.receive())
    ended()
