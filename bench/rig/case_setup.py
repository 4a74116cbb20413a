"""What do all parts of one rig know of their case: what there is, and what is due?"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

from bench.capture import Record
from bench.chance import stream
from bench.clock import pause
from bench.device.interfaces import Joining, Sent
from bench.rig.interfaces import CaseDevice, CaseStation, Devices, Frame, NetworkServer, RigDevice
from bench.rig.provisioning import NET_ID
from bench.verdict.case import Case
from bench.verdict.expectation import Due, Table
from bench.verdict.owner import Owner, not_there
from bench.virtual.air import Links, Medium
from lns.dedup.claim import OnOutage
from lns.dedup.strategy import Strategy
from lns.lorawan.region import EU868, Region, region

T = TypeVar("T")
LNS = "lns-a"
"""The first network server."""


Shows = Literal["", "nothing", "token", "certificate", "any certificate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorRules:
    """What a station has to show to a network server ("": there is no TLS), and which may come.

    `only`: the names of those that are listed, None for any. `cups`: credentials are to be had.
    `public_host`: where stations are told to go, if not to where the server listens, which has an
    address of IPv6 if it is so said.
    """

    shows: Shows = ""
    only: tuple[str, ...] | None = None
    cups: bool = False
    public_host: str = ""
    ipv6: bool = False


def there(what: str, name: str, known: Mapping[str, T]) -> T:
    """What has this name; ScenarioMistake for one that nothing has."""
    if name not in known:
        raise not_there(what, name, known)
    return known[name]


class CaseSetup:
    """One case as it is being set up and played; the parts of its rig share it.

    Remembers devices, stations and network servers by name, in the order in which they were asked
    for, and what is to be logged of CUPS. `retimed` says how long a wait of the scenario takes here
    (µs); whoever is among `listeners` sees each event before it is written.
    `clock_began`: what the clocks of the servers showed when that of the bench was 0, if it is
    known.
    """

    def __init__(
        self,
        *,
        seed: int,
        case: str,
        wall_clock_start: datetime,
        strategy: Strategy = Strategy.NONE,
        region: Region = EU868,
        retention_us: int = 60_000_000,
        number: int = 0,
        retimed: Callable[[int], int] = lambda us: us,
        clock_began: datetime | None = None,
    ) -> None:
        self.strategy = strategy
        self.region = region
        self.net_id = NET_ID
        self.links = Links(seed=seed)
        self.seed = stream(seed, case).getrandbits(63)
        self.wall_clock_start = wall_clock_start
        self.clock_began = clock_began
        self.number = number
        self.retention_us = retention_us
        self.entries_max = self.sessions_max = 1_000_000
        self.on_outage = OnOutage.OPEN
        self.on_disk = self.on_redis = self.breaks_writes = self.ends_leases = False
        self.consumers_stepped_us = 0
        self.by_sentinels = False
        self.capture_mib = 1024
        self.puts_aside_s = [86_400]
        self.door: DoorRules | None = None
        self.cups_says: list[str] = []
        self.retimed = retimed
        self.devices: dict[str, CaseDevice] = {}
        self.stations: dict[str, CaseStation] = {}
        self.servers: dict[str, NetworkServer] = {}
        self.listeners: list[Record] = []
        self.is_started = False
        self.begin: Callable[[], Awaitable[None]]
        """The first act, which starts everything; every other act awaits it."""
        self.new_server: Callable[[str], NetworkServer]
        self.capabilities: frozenset[str] = frozenset()
        self.medium = Medium(region, self.links, self.record)
        self._named: list[str] = []
        self._case: Case | None = None
        self._tasks: asyncio.TaskGroup | None = None

    def open(self, case: Case) -> None:
        """What is recorded from now on is of this case."""
        self._case = case

    @property
    def is_open(self) -> bool:
        return self._case is not None

    @property
    def case(self) -> Case:
        assert self._case is not None, "a rig is used inside `running`"
        return self._case

    @property
    def tasks(self) -> asyncio.TaskGroup:
        assert self._tasks is not None, "a rig is used inside `running`"
        return self._tasks

    @tasks.setter
    def tasks(self, tasks: asyncio.TaskGroup | None) -> None:
        self._tasks = tasks

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        for listener in self.listeners:
            listener(source, kind, fields)
        self.case.record(source, kind, fields)

    def in_region(self, name: str) -> None:
        self.region = region(name)
        self.medium = Medium(self.region, self.links, self.record)

    async def pause(self, us: int) -> None:
        """Let just so much time pass, whatever is retimed."""
        await pause(max(0, us))

    def must_have(self, capability: str) -> None:
        """RuntimeError where this rig has not what a verb takes."""
        if capability not in self.capabilities:
            raise RuntimeError(
                f"this rig lacks {capability}: mark the scenario with"
                f" @pytest.mark.requires({str(capability)!r}), so that it is left out here"
            )

    def before_start(self, what: str) -> None:
        """RuntimeError once the first act has started everything."""
        if self.is_started:
            raise RuntimeError(f"{what}: ask for it before the first frame of the scenario")

    def device(self, name: str) -> CaseDevice:
        """A device by name; ScenarioMistake for one that nobody asked for before."""
        return there("device", name, self.devices)

    def station(self, name: str) -> CaseStation:
        """A station by name; ScenarioMistake for one that nobody asked for before."""
        return there("station", name, self.stations)

    def server(self, lns: str) -> NetworkServer:
        """A network server by its id; ScenarioMistake for one that nobody asked for before."""
        return there("network server", lns, self.servers)

    def server_or_new(self, lns: str) -> NetworkServer:
        """A network server by its id; one that nobody asked for before is added."""
        if lns not in self.servers:
            self.before_start(f"network server {lns!r}")
            self.servers[lns] = self.new_server(lns)
        return self.servers[lns]

    def some_servers(self, lns: str | None) -> list[NetworkServer]:
        return list(self.servers.values()) if lns is None else [self.server(lns)]

    def will_hear(self, stations: Iterable[str]) -> None:
        """Stations that are to hear something; until the first act one may still be added."""
        self._named += stations
        if self.is_started:
            self.check_names()

    def check_names(self) -> None:
        """ScenarioMistake for a station that is to hear something and is not there."""
        for name in self._named:
            self.station(name)


# The verbs with which a scenario says what is due.
REPLIES = {True: "+EVT:SEND_CONFIRMED_OK", False: "+EVT:TX_DONE"}


@dataclass(frozen=True, slots=True)
class Injected:
    """One message of the bench, by its id; the same id may be published several times."""

    message_id: str


Named = Sent | Injected
"""An uplink with all its messages, or one message of the bench."""


class Expectations:
    """Writes into the case what is due of a frame, a device or a message."""

    def __init__(self, setup: CaseSetup, devices: Devices) -> None:
        self.setup = setup
        self._devices = devices

    def expect(self, frame: Frame, table: Table, **stations: str | tuple[str, ...]) -> None:
        """Expect the receptions of a frame to become what the table says.

        For the strategy of its device, which is that of the case unless it was given another one.
        """
        for due in table.row(self._strategy_of(frame), _kind_of(frame), stations):
            self.expect_due(frame, due)

    def expect_due(self, frame: Frame, due: Due) -> None:
        """Expect the words of the next reception of a frame."""
        station = self.setup.station(due.station)
        self.setup.case.expect_outcome(frame.frame_id, station.eui, due)

    def expect_race(self, frame: Frame, table: Table, *, between: Sequence[str]) -> None:
        """Expect stations to deliver a frame at one moment, each column of the table for one.

        Any of them may get the words of any column, and exactly one each.
        """
        due = table.race(self._strategy_of(frame), _kind_of(frame), between)
        by_station = {self.setup.station(one.station).eui: one for one in due}
        self.setup.case.expect_race(frame.frame_id, by_station)

    def _strategy_of(self, frame: Frame) -> Strategy:
        records = (device.provisioned.record for device in self.setup.devices.values())
        own = (one.strategy for one in records if one.dev_eui == frame.dev_eui)
        return Strategy(next(own, self.setup.strategy))

    def expect_reply(self, frame: Frame, line: str | None = None) -> None:
        """Expect the device to say a line; by default what a successful `frame` ends in."""
        if line is None:
            joined = isinstance(frame, Joining)
            line = "+EVT:JOINED" if joined else REPLIES[frame.confirmed]  # type: ignore[union-attr]
        own = self._devices.line_of(frame.dev_eui, line)
        if own is not None:
            self.setup.case.expect_line(frame.dev_eui, own)

    def expect_downlink(
        self, device: RigDevice, payload: bytes, *, port: int = 2, window: str = "1"
    ) -> None:
        """Expect the device to print what the application sent, heard in window 1, 2 or C."""
        line = f"+EVT:RX_{window}:UNICAST:{port}:{payload.hex()}"
        self.setup.case.expect_line(device.dev_eui, line)

    def expect_status(self, device: RigDevice, *, times: int = 1) -> None:
        """Expect the application to be told so often what a device says of itself."""
        self.setup.case.expect("status", dev_eui=device.dev_eui, count=times)

    def expect_evictions(self, times: int) -> None:
        """Expect network servers to tell so often that level 1 was full, and forgot too early."""
        self.setup.case.expect("evicted", count=times)

    def expect_finding(self, rule: str, *, owner: str, about: str) -> None:
        """Expect the report to have a finding about a station: it is there on purpose.

        It is not counted among those to be read; without it the case fails.
        """
        station = self.setup.station(about).eui
        self.setup.case.expect("finding", owner=Owner(owner), rule=rule, station=station)

    def expect_upstream(self, uplink: Sent, *, through: str, **body: object) -> None:
        """Expect these fields in every message that the application gets of an uplink by a station.

        How many messages it gets is a matter of `expect`.
        """
        which = {"dev_eui": uplink.dev_eui, "f_cnt": uplink.f_cnt}
        station = self.setup.station(through).eui
        self.setup.case.expect("upstream", **which, station=station, body=body)

    def expect_answer(self, frame: Frame, **said: int | bool | None) -> None:
        """Expect the next answer to a frame to say this as it leaves the network server.

        Of the frame: `f_cnt` as on the wire, `ack`, `f_pending`, `f_opts_bytes`, `f_port` (None:
        there is none) and `confirmed`; of the message to the station: `rctx`, `rx_delay_s`,
        `rx1_dr`, `rx1_freq_hz`, `rx2_dr`, `rx2_freq_hz`. What is not named may be anything.
        """
        self.setup.case.expect_answer(frame.frame_id, said)

    def expect_on_air(self, frame: Frame, *windows: str) -> None:
        """Expect the answers to a frame that stations report on the air to use these windows."""
        self.setup.case.expect("on_air", frame_id=frame.frame_id, windows=list(windows))

    def expect_effects(
        self, message: Named, times: int = 1, *, consumer: str | None = None
    ) -> None:
        """Expect the messages of an uplink to have so many effects, at one consumer or all.

        Copies are messages of their own.
        """
        self._expect_effects("effect", message, times, consumer=consumer)

    def expect_ignored(
        self, message: Named, *, by: str, times: int = 1, consumer: str | None = None
    ) -> None:
        """Expect so many to be ignored as duplicates, by "window", "sequence" or "key"."""
        self._expect_effects("ignored", message, times, consumer=consumer, by=by)

    def _expect_effects(self, what: str, message: Named, times: int, **at: str | None) -> None:
        facts = {**which(message), **{name: who for name, who in at.items() if who is not None}}
        self.setup.case.expect(what, **facts, count=times)


def which(message: Named) -> dict[str, object]:
    """How a message is named in an expectation."""
    if isinstance(message, Injected):
        return {"message_id": message.message_id}
    dev_addr = message.frame_id.split(":")[0]
    return {"dev_eui": message.dev_eui, "dev_addr": dev_addr, "f_cnt": message.f_cnt}


def _kind_of(frame: Frame) -> str:
    if isinstance(frame, Joining):
        return "join"
    return "confirmed" if frame.confirmed else "unconfirmed"
