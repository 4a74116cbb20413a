"""The simulated rig: everything in one process, on virtual time, from one seed.

Devices, air, stations, taps and the network server are the real ones of this project; only links,
store and application are kept in memory.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from bench.case import Case
from bench.chance import stream
from bench.device import crafted
from bench.device.firmware import VirtualDevice
from bench.device.seam import Joining, Sent
from bench.expectation import Due, Table
from bench.radio.medium import Medium
from bench.radio.propagation import Links
from bench.rig.application import Application
from bench.rig.injection import last_heard_us, reception_text, sessions_opened
from bench.rig.provisioning import Provisioned, provision
from bench.rig.rig import Frame, Rig
from bench.rig.server import SimulatedServer
from bench.rig.simulated_station import SimulatedStation
from lns.clock import now_us
from lns.dedup.strategy import Strategy
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, eui
from lns.lorawan.region import EU868, Region

WALL_CLOCK_START = datetime(2026, 1, 1, tzinfo=UTC)
MID_LIFE_F_CNT = 10
REPLIES = {True: "+EVT:SEND_CONFIRMED_OK", False: "+EVT:TX_DONE"}
SETTLE_US = 3_000_000
PAYLOAD = b"21.5 C"


class SimulatedDevice:
    """A virtual device as a scenario uses it; starts the rig with its first act."""

    def __init__(self, rig: "SimulatedRig", provisioned: Provisioned) -> None:
        self._rig = rig
        self.provisioned = provisioned
        self.firmware: VirtualDevice | None = None

    async def send(
        self,
        payload: bytes = PAYLOAD,
        *,
        confirmed: bool = False,
        port: int = 2,
        retries: int = 0,
        transmissions: int = 1,
    ) -> Sent:
        firmware = await self._running()
        if retries != firmware.settings.retries:
            firmware.set_retries(retries)
        if transmissions > 1:
            firmware.set_nb_trans(transmissions)
        return await firmware.send(payload, port=port, confirmed=confirmed)

    async def join(self) -> Joining:
        firmware = await self._running()
        await firmware.join()
        assert firmware.last_join is not None
        return firmware.last_join

    async def restart(self, *, memory: bool) -> None:
        firmware = await self._running()
        await firmware.restart(memory=memory)

    async def _running(self) -> VirtualDevice:
        await self._rig.start()
        assert self.firmware is not None
        return self.firmware


class SimulatedRig(Rig):
    """One case's rig; use it inside `running`. Nothing is on the air before the first act."""

    def __init__(
        self,
        *,
        seed: int,
        case: str,
        strategy: Strategy,
        region: Region = EU868,
        retention_us: int = 60_000_000,
    ) -> None:
        self.strategy = strategy
        self.region = region
        self.links = Links(seed=seed)
        self._seed = stream(seed, case).getrandbits(63)
        self._retention_us = retention_us
        self._devices: dict[str, SimulatedDevice] = {}
        self._stations: dict[str, SimulatedStation] = {}
        self._schedule: list[tuple[str, ...]] = []
        self._hearing: tuple[str, ...] | None = None
        self._started = False
        self._tasks: asyncio.TaskGroup | None = None
        self.medium = Medium(region, self.links, self.record)
        self.application = Application(self.record)
        self.server = SimulatedServer(
            "lns-a", region, self.application, self._seed, self.record, WALL_CLOCK_START,
            retention_us=retention_us,
        )
        self._case: Case | None = None

    @asynccontextmanager
    async def running(self, case: Case) -> AsyncIterator[None]:
        """Run the rig for one case; everything it started ends with it."""
        self._case = case
        self.provision("alpha", f_cnt=MID_LIFE_F_CNT)
        self.provision("bravo", activation="otaa")
        self.provision("charlie", f_cnt=MID_LIFE_F_CNT)
        for name in ("west", "east"):
            self.station(name)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                yield
                for station in self._stations.values():
                    station.stop()
                self.server.stop()
        finally:
            self._tasks = None

    # --- what there is --------------------------------------------------------------------

    def station(self, name: str) -> SimulatedStation:
        if name not in self._stations:
            self._before_start(f"station {name!r}")
            number = len(self._stations) + 1
            station = SimulatedStation(
                name,
                eui(f"0016C001F150{number:04X}"),
                self.medium,
                self.server,
                seed=self._seed,
                record=self.record,
                taps=self._tap_of,
            )
            self._stations[name] = station
            self.case.station(station.eui, name)
        return self._stations[name]

    def device(self, name: str) -> SimulatedDevice:
        return self._devices[name]

    def provision(self, name: str, **facts: Any) -> SimulatedDevice:
        self._before_start(f"device {name!r}")
        facts = {"strategy": self.strategy, **facts}
        provisioned = provision(name, len(self._devices) + 1, self._seed, **facts)
        device = self._devices[name] = SimulatedDevice(self, provisioned)
        return device

    def stranger(self, *, activation: str = "abp") -> SimulatedDevice:
        return self.provision("stranger", activation=activation, known=False)

    # --- what happens on the air ------------------------------------------------------------

    def only(self, *stations: str) -> None:
        self._hearing = stations
        self._connect_air()

    def heard_by(self, *stations: str | Iterable[str]) -> None:
        self._schedule = [(s,) if isinstance(s, str) else tuple(s) for s in stations]

    def _connect_air(self) -> None:
        for device in self._devices.values():
            for name, station in self._stations.items():
                hears = self._hearing is None or name in self._hearing
                between = self.links.restore if hears else self.links.cut
                between(device.provisioned.dev_eui, station.eui)

    async def replay(self, frame: Frame, *, by: str, after: int = 1_000_000) -> None:
        await self.start()
        due_us = last_heard_us(self.case.events, frame.frame_id) + after
        await self.wait(due_us - now_us())
        self.deliver(frame, by=by)
        await self.wait(0)

    async def hear(self, phy: str, *, of: Any, f_cnt: int, by: str) -> Sent:
        await self.start()
        sent = crafted.found(of.provisioned.dev_eui, bytes.fromhex(phy), f_cnt)
        self.announce(sent)
        self.deliver(sent, by=by)
        await self.wait(1_000_000)
        return sent

    async def forge(self, device: Any, *, by: str, confirmed: bool = False) -> Sent:
        await self.start()
        session = device.firmware.session
        sent = crafted.data(
            device.provisioned.dev_eui,
            session.dev_addr,
            session.keys,
            session.f_cnt_up,
            confirmed=confirmed,
            forged=True,
        )
        self.announce(sent, genuine=False)
        self.deliver(sent, by=by)
        await self.wait(1_000_000)
        return sent

    async def forge_join(self, device: Any, *, by: str) -> Joining:
        await self.start()
        identity = device.provisioned.identity
        joining = crafted.join(identity, device.firmware.dev_nonce + 1, forged=True)
        self.announce(joining, genuine=False)
        self.deliver(joining, by=by)
        await self.wait(1_000_000)
        return joining

    def announce(self, frame: Frame, *, genuine: bool = True) -> None:
        """Note a frame that the bench made, so that the books know who sent it."""
        facts: dict[str, object] = {"dev_eui": frame.dev_eui, "frame_id": frame.frame_id}
        if isinstance(frame, Sent):
            facts |= {"session": frame.session, "f_cnt": frame.f_cnt}
        self.medium.announce(frame.dev_eui, frame.phy, {**facts, "genuine": genuine})

    def sessions_opened(self, device: Provisioned) -> list[tuple[DevAddr, SessionKeys]]:
        """The sessions that join accepts have opened for a device, oldest first."""
        return sessions_opened(self.case.events, device.identity)

    def deliver(self, frame: Frame, *, by: str) -> None:
        """Let a station deliver a frame now, as if it had just heard it."""
        station = self._stations[by]
        station.tap.replay(reception_text(frame.phy, self.region, station.station.xtime_now()))

    # --- network server, time -----------------------------------------------------------------

    async def restart_lns(self, *, f_cnt_up: int | None = None) -> None:
        """Restart the server; `f_cnt_up` replaces the counters it had persisted."""
        await self.start()
        self.server.restart(f_cnt_up=f_cnt_up)
        facts = {} if f_cnt_up is None else {"f_cnt_up": f_cnt_up}
        self.case.lns(self.server.lns, "restart", **facts)
        await self.wait(100_000)  # until the stations notice
        await self._until_stations_are_up()

    def step_wall_clock(self, us: int) -> None:
        self.server.step_wall_clock(us)

    def now_us(self) -> int:
        """The time of the rig (µs)."""
        return now_us()

    async def wait(self, us: int) -> None:
        await asyncio.sleep(max(0, us) / 1_000_000)

    async def settle(self) -> None:
        delays_us = [station.longest_delay_us for station in self._stations.values()]
        await self.wait(max(delays_us, default=0) + SETTLE_US)

    # --- what is due ----------------------------------------------------------------------------

    def expect(self, frame: Frame, table: Table, **stations: str | tuple[str, ...]) -> None:
        kind = "join"
        if isinstance(frame, Sent):
            kind = "confirmed" if frame.confirmed else "unconfirmed"
        for due in table.row(self.strategy, kind, stations):
            self.expect_due(frame, due)

    def expect_due(self, frame: Frame, due: Due) -> None:
        """Expect the words of the next reception of a frame."""
        self.case.expect_outcome(frame.frame_id, self._stations[due.station].eui, due)

    def expect_reply(self, frame: Frame, line: str | None = None) -> None:
        if line is None:
            line = "+EVT:JOINED" if isinstance(frame, Joining) else REPLIES[frame.confirmed]
        self.case.expect_line(frame.dev_eui, line)

    # --- below the verbs --------------------------------------------------------------------------

    @property
    def case(self) -> Case:
        """The case that is running."""
        assert self._case is not None, "a rig is used inside `running`"
        return self._case

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        """Write an event; an uplink on the air is heard by whom the schedule names."""
        if kind == "radio.transmit" and fields["direction"] == "up" and self._schedule:
            if fields["origin"] == "device":
                self.only(*self._schedule.pop(0))
        self.case.record(source, kind, fields)

    async def start(self) -> None:
        """Switch everything on, once, and wait until the stations hear and are heard."""
        if self._started:
            return
        self._started = True
        assert self._tasks is not None
        case = self.case
        for device in self._devices.values():
            if device.provisioned.known:
                case.device(device.provisioned.record, f_cnt_up=device.provisioned.f_cnt_up)
        facts = {"region": self.region.name, "retention_us": self._retention_us}
        case.lns(self.server.lns, "start", **facts)
        self._connect_air()
        provisioned = [device.provisioned for device in self._devices.values()]
        self.server.start(self._tasks, provisioned)
        for device in self._devices.values():
            device.firmware = device.provisioned.firmware(self.medium, self._seed, self.record)
        for station in self._stations.values():
            station.start(self._tasks)
        await self._until_stations_are_up()

    async def _until_stations_are_up(self) -> None:
        while not all(s.station.connected and s.station.radio_on for s in self._stations.values()):
            await self.wait(10_000)
        await self.wait(100_000)

    def _tap_of(self, name: str) -> Any:
        return self.station(name).tap

    def _before_start(self, what: str) -> None:
        if self._started:
            raise RuntimeError(f"{what}: ask for it before the first frame of the scenario")
