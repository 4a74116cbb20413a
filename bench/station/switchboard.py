"""How do cases that run side by side share one real station?

The station has one connection and believes in one network server. Each case has a server and a tap
of its own; to them it looks as if the station were theirs. A reception goes to the case whose
device sent it, what a server says goes to the station, and its report comes back to who asked.
A case that needs the station for itself gets the bare connection.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from bench.station import LinkClosed, TextLink
from bench.station.tap import MemoryLink, link_pair
from bench.verdict.wire import is_reception, json_of
from lns.clock import now_us
from lns.lorawan.identifiers import Eui


class StationClock:
    """The concentrator's counter (xtime) of one station; remembers what it told last, and when.

    Every text with an `xtime`, and the answer to `getxtime`, tells it: late by what the text took
    on its way, some milliseconds on a LAN.
    """

    def __init__(self) -> None:
        self._xtime = 0
        self._told_us = 0

    @property
    def is_told(self) -> bool:
        """Whether it has told anything: then its radio runs."""
        return self._xtime > 0

    def forget(self) -> None:
        """The station connects anew: its radio may begin a new session."""
        self._xtime = 0

    def learn(self, text: str) -> None:
        fields = json_of(text)
        if fields is None:
            return
        upinfo = fields.get("upinfo")
        xtime = upinfo.get("xtime") if isinstance(upinfo, dict) else None
        if xtime is None and fields.get("msgtype") == "getxtime":
            xtimes = fields.get("xtimes")
            xtime = xtimes[0] if isinstance(xtimes, list) and xtimes else None
        if isinstance(xtime, int) and xtime > 0:
            self._xtime, self._told_us = xtime, now_us()

    def xtime_now(self) -> int:
        """What it shows now; 0 before it has told anything."""
        return self._xtime + now_us() - self._told_us if self._xtime else 0


class OverheardLink:
    """The link of a station, whose clock is learnt from whatever it says."""

    def __init__(self, link: TextLink, clock: StationClock) -> None:
        self._link = link
        self._clock = clock

    @property
    def closed(self) -> bool:
        return self._link.closed

    async def send(self, text: str) -> None:
        await self._link.send(text)

    async def receive(self) -> str:
        text = await self._link.receive()
        self._clock.learn(text)
        return text

    def close(self) -> None:
        self._link.close()


_ASK_CLOCKS = '{"msgtype":"getxtime"}'
_ASK_AGAIN_S = 1.0
_CONNECT_AGAIN_S = 0.2
_JOBS_MAX = 10_000
"""Downlinks whose report may still come; a station keeps 128 at most."""


@dataclass(eq=False)
class Party:
    """One case at a station: its tap, and which receptions are its own."""

    accept: Callable[[TextLink], Coroutine[Any, Any, None]]
    owns: Callable[[str], bool]
    line: MemoryLink | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class _Job:
    party: Party
    diid: int


class Switchboard:
    """One real station; remembers its link, its clock, who takes part, and downlinks under way.

    `config` is the `router_config` that every server of this bench would send: the station gets it
    once for each connection, since its radio begins anew with every one. `foreign` is told each
    reception that is nobody's, `downlink` each that any case has asked for, with the clock that it
    goes by. `door` shuts the station out before it connects: once it is connected it tells at once
    what it has kept, and that would be lost.
    """

    def __init__(
        self,
        station: Eui,
        config: Mapping[str, Any],
        foreign: Callable[[Eui, str], None],
        *,
        downlink: Callable[[str, StationClock], None] = lambda text, clock: None,
        door: Callable[[bool], None] = lambda is_open: None,
    ) -> None:
        self.station = station
        self.clock = StationClock()
        self._config = dict(config)
        self._foreign = foreign
        self._downlink = downlink
        self._door = door
        self._parties: list[Party] = []
        self._alone: Party | None = None
        self._shut = False
        self._version = ""
        self._link: TextLink | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._jobs: dict[int, _Job] = {}
        self._numbers = 0
        self._askers: deque[Party | None] = deque()
        self._serving = asyncio.Lock()

    @property
    def connected(self) -> bool:
        return self._link is not None

    @property
    def is_up(self) -> bool:
        return self.connected and self.clock.is_told

    async def accept(self, link: TextLink) -> None:
        """Serve the station on a link that it opened, until that ends.

        One that connects anew has given up its earlier link, whether that is known here or not.
        """
        if self._shut:
            return link.close()
        self.hang_up()
        async with self._serving:
            self.clock.forget()
            self._askers.clear()
            line = self._link = OverheardLink(link, self.clock)
            try:
                if self._alone is not None:
                    await self._serve_alone(self._alone, line)
                else:
                    await self._serve_all(line)
            finally:
                link.close()
                self._link = None

    def join(self, party: Party, *, alone: bool = False) -> None:
        """Let a case take part; alone only when nobody else does: the station connects anew."""
        self._parties.append(party)
        if alone:
            assert len(self._parties) == 1, f"{self.station} is not free"
            self._alone = party
            self.hang_up()
        elif self._tasks is not None and self._version:
            self._tasks.create_task(self._keep_line(party))

    def leave(self, party: Party) -> None:
        if party not in self._parties:
            return
        self._parties.remove(party)
        if party.line is not None:
            party.line.close()
        if self._alone is party:
            self._alone = None
            self.open()
            self.hang_up()

    def shut(self) -> None:
        """Let the station not connect, until `open`; only while one case has it alone."""
        if not self._shut:
            self._shut = True
            self._door(False)
        self.hang_up()

    def open(self) -> None:
        """Let the station connect again, when its back-off is over."""
        if self._shut:
            self._shut = False
            self._door(True)

    def hang_up(self) -> None:
        """End the connection of the station; it will connect anew."""
        if self._link is not None:
            self._link.close()

    async def send(self, dnmsg: str) -> None:
        """Let the station send something for nobody's case; LinkClosed when it is not there."""
        if self._link is None:
            raise LinkClosed(f"{self.station} is not connected")
        fields = json_of(dnmsg)
        assert fields is not None
        self._numbers += 1
        await self._link.send(json.dumps({**fields, "diid": self._numbers}))

    # --- one case alone ---------------------------------------------------------------------

    async def _serve_alone(self, party: Party, line: "OverheardLink") -> None:
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(self._ask_until_told(line))
            try:
                await party.accept(line)
            finally:
                asking.cancel()

    # --- many cases ---------------------------------------------------------------------------

    async def _serve_all(self, line: "OverheardLink") -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                asking = self._tasks.create_task(self._ask_until_told(line))
                try:
                    while True:
                        await self._up(await line.receive())
                finally:
                    asking.cancel()
                    for party in self._parties:
                        if party.line is not None:
                            party.line.close()
        except* LinkClosed:
            pass
        finally:
            self._tasks, self._version = None, ""

    async def _up(self, text: str) -> None:
        if is_reception(text):
            owner = next((party for party in self._parties if party.owns(text)), None)
            return self._hand(owner, text) if owner else self._foreign(self.station, text)
        fields = json_of(text)
        if fields is None:
            return self._foreign(self.station, text)
        match fields.get("msgtype"):
            case "version":
                await self._begin(text)
            case "dntxed":
                job = self._jobs.pop(fields.get("diid", -1), None)
                if job is not None:
                    ours = {"diid": job.diid}
                    if "seqno" in fields:
                        ours["seqno"] = job.diid
                    self._hand(job.party, json.dumps({**fields, **ours}))
            case "getxtime":
                asker = self._askers.popleft() if self._askers else None
                self._hand(asker, text)
            case _:
                self._hand(next(iter(self._parties), None), text)

    async def _begin(self, version: str) -> None:
        assert self._link is not None and self._tasks is not None
        self._version = version
        await self._link.send(json.dumps(self._config))
        for party in self._parties:
            self._tasks.create_task(self._keep_line(party))

    async def _keep_line(self, party: Party) -> None:
        while party in self._parties and self.connected:
            ours, its = link_pair()
            party.line = ours
            ours.send_now(self._version)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(party.accept(its))
                    while True:
                        await self._down(party, await ours.receive())
            except* LinkClosed:
                pass
            finally:
                ours.close()
                party.line = None
            await asyncio.sleep(_CONNECT_AGAIN_S)  # its server is away

    async def _down(self, party: Party, text: str) -> None:
        if self._link is None:
            return
        fields = json_of(text)
        if fields is None:
            return await self._link.send(text)
        match fields.get("msgtype"):
            case "router_config":
                if _without_time(fields) != _without_time(self._config):
                    party.trouble = f"its server wants another channel plan of {self.station}"
                return
            case "dnmsg":
                self._downlink(text, self.clock)
                text = self._numbered(party, fields)
            case "getxtime":
                self._askers.append(party)
        await self._link.send(text)

    def _numbered(self, party: Party, fields: dict[str, Any]) -> str:
        self._numbers += 1
        self._jobs[self._numbers] = _Job(party, fields.get("diid", 0))
        while len(self._jobs) > _JOBS_MAX:
            del self._jobs[next(iter(self._jobs))]
        return json.dumps({**fields, "diid": self._numbers})

    def _hand(self, party: Party | None, text: str) -> None:
        if party is not None and party.line is not None and not party.line.closed:
            party.line.send_now(text)

    # --- its clock ---------------------------------------------------------------------------

    async def _ask_until_told(self, line: "OverheardLink") -> None:
        try:
            while not self.clock.is_told:
                await asyncio.sleep(_ASK_AGAIN_S)
                self._askers.append(None)
                await line.send(_ASK_CLOCKS)
        except LinkClosed:
            return


def _without_time(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "MuxTime"}
