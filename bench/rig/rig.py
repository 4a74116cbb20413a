"""What may a scenario do: send, spoil, replay, restart, wait, expect?

The verbs stand here once, over five parts (`bench.rig.interfaces`); what is due stands in
`bench.rig.expect`. A scenario never asks which rig it is on.
"""

import asyncio
import difflib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from bench.capture.reading import Event
from bench.chance import stream
from bench.clock import until
from bench.device.interfaces import Joining, Sent
from bench.inspection.inspector import REQUEST, Inspector
from bench.plan.needs import Item, needs
from bench.rig.case_setup import LNS, CaseSetup
from bench.rig.expect import Expectations, Injected, Named, which
from bench.rig.interfaces import (
    Application,
    CaseStation,
    Consumer,
    ConsumerSettings,
    Devices,
    Frame,
    NetworkServer,
    RigDevice,
    RigStation,
    Servers,
    Stations,
    Store,
)
from bench.rig.provisioning import NET_ID, PAYLOAD, known_to_inspector, provision
from bench.rig.stations import reception_text, sessions_opened
from bench.verdict.case import Case
from bench.verdict.owner import ScenarioMistake, not_there
from bench.verdict.wire import json_of
from bench.virtual import crafted
from bench.virtual.lorawan.channel_plan import channel_plan
from bench.virtual.lorawan.frames import Keys
from lns.clock import now_us
from lns.dedup.claim import Bid, OnOutage
from lns.dedup.strategy import Strategy
from lns.delivery.detectors import NETWORK_US, RETENTION_MAX_US, RETRY_US, WINDOW_US
from lns.lorawan.identifiers import eui

MID_LIFE_F_CNT = 10
FIRST_GROUP = 0xF150
"""Bytes 5 and 6 of the stations' EUIs in the first case of a run."""
CONSUMER = "application"
PRODUCER = "bench"
"""Stands where an LNS id does in the topics of the bench's own messages."""
PUBLISHED = ("upstream.published", "upstream.repeated", "upstream.injected")
"""The kinds of what a broker has had."""
_DEAD_LNS = "lns-x"
_SETTLE_US = 3_000_000
_UP_WITHIN_US = 60_000_000
_PUBLISHED_WITHIN_US = 20_000_000


class GatewayAway(Exception):
    """A station does not come to its network server in time."""


class CaseTooLong(TimeoutError):
    """A case is not over after the time that it may take."""


class ServerSilent(Exception):
    """A network server does not tell a station that is connected what it needs to begin."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What one rig is put together from."""

    devices: Devices
    stations: Stations
    servers: Servers
    store: Store
    application: Application

    @property
    def capabilities(self) -> frozenset[str]:
        """What these can do together."""
        return capabilities_of(
            self.devices, self.stations, self.servers, self.store, self.application
        )


def capabilities_of(*parts: Any) -> frozenset[str]:
    """What parts, or parts of these kinds, can do together."""
    return frozenset[str]().union(*(part.capabilities for part in parts))


class Rig(Expectations):
    """Devices, stations and network servers in a known state, and what may happen to them.

    Nothing is on the air before the first act, which starts everything: until then stations and
    devices can be added and changed. What is disturbed is written to the capture as `fault.begin`
    and `fault.end`, origin `injected`; a scenario that disturbs servers or store says so first
    (`@pytest.mark.fault`). Use it inside `running`, and `end` it afterwards where it has wires.
    """

    strategy: Strategy
    capabilities: frozenset[str]
    """What a scenario may ask for with `requires(...)` and have here."""

    def __init__(
        self,
        setup: CaseSetup,
        parts: Parts,
        *,
        limit_s: int | None = None,
        capabilities: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(setup, parts.devices)
        self.strategy = setup.strategy
        self.capabilities = parts.capabilities | capabilities
        self._parts = parts
        self._limit_s = limit_s
        self._limit = asyncio.timeout(None) if limit_s is not None else None
        self._consumers: dict[str, Consumer] = {}
        self._messages = 0
        self._longest_delay_us = 0
        self._due_us = self._reached_us = 0
        self.began_us: int | None = None
        setup.begin = self.start
        setup.servers[LNS] = parts.servers.new(LNS)

    # --- what there is ------------------------------------------------------------------------

    @property
    def west(self) -> RigStation:
        """The first station."""
        return self.station("west")

    @property
    def east(self) -> RigStation:
        """The second station."""
        return self.station("east")

    @property
    def north(self) -> RigStation:
        """A third station, for those who ask for it."""
        return self.station("north")

    @property
    def alpha(self) -> RigDevice:
        """An ABP device in the middle of its life: its next frame has FCnt 10."""
        return self.device("alpha")

    @property
    def bravo(self) -> RigDevice:
        """An OTAA device that has not joined yet."""
        return self.device("bravo")

    @property
    def charlie(self) -> RigDevice:
        """A second device like alpha, with other keys and the same counter."""
        return self.device("charlie")

    def in_region(self, name: str) -> None:
        """Use another region than EU868; before the first act."""
        self.setup.before_start(f"region {name}")
        self.setup.in_region(name)

    def put_on(self, lns: str, *stations: str) -> None:
        """Let stations connect to another network server (`lns-b`, …); before the first act.

        It knows the same devices, and shares sessions and claims with the first one.
        """
        for name in stations:
            self.setup.before_start(f"network server of {name!r}")
            self._station(name).server = self._server(lns)

    @needs(Item.VIRTUAL_TIME)
    def dedup(self, *, retention: int | None = None, entries_max: int | None = None) -> None:
        """Let every network server remember frames for so long (µs), and so many; before the start.

        Without it as the run says: a minute, and a million.
        """
        setup = self.setup
        setup.before_start("what [dedup] says")
        setup.retention_us = setup.retention_us if retention is None else retention
        setup.entries_max = setup.entries_max if entries_max is None else entries_max
        self._parts.store.remember_for(setup.retention_us)

    @needs(Item.TWIN)
    def impersonate(self, station: str, *, by: str) -> RigStation:
        """Add a station, named `by`, that says it has the EUI of another one."""
        self.setup.before_start(f"station {by!r}")
        # Another seed: the same one would give both the same clock.
        seed = stream(self.setup.seed, "station", by).getrandbits(63)
        return self._add_station(by, self._station(station).eui, seed)

    def station(self, name: str) -> RigStation:
        """A station by name; one that nobody asked for before is added."""
        return self._station(name)

    def device(self, name: str) -> RigDevice:
        """A device by name."""
        return self.setup.device(name)

    def provision(self, name: str, **facts: Any) -> RigDevice:
        """Provision one more device: `activation`, `strategy`, `relaxed_f_cnt`, `nb_trans`, …

        `adr`: whether its frames have the ADR bit, by default where `nb_trans` is set.

        A fresh device that nobody has heard, unless `f_cnt` says which counter comes next.
        """
        setup = self.setup
        setup.before_start(f"device {name!r}")
        if "keys" in facts:
            # Whoever else has these keys would answer to the same frames.
            self._parts.servers.own()
        facts = {"strategy": self.strategy, **facts}
        number = (setup.number << 8) + len(setup.devices) + 1
        device = self._parts.devices.new(provision(name, number, setup.seed, **facts))
        setup.devices[name] = device
        return device

    def stranger(self, *, activation: str = "abp") -> RigDevice:
        """A device that the network server does not know."""
        return self.provision("stranger", activation=activation, known=False)

    # --- who hears what -----------------------------------------------------------------------

    def only(self, *stations: str) -> None:
        """Let no other station hear any device from now on."""
        self.setup.will_hear(stations)
        self._parts.stations.only(stations)

    def heard_by(self, *stations: str | Iterable[str]) -> None:
        """Let the next transmissions be heard by these: one entry for each transmission."""
        entries = [(s,) if isinstance(s, str) else tuple(s) for s in stations]
        self.setup.will_hear(chain.from_iterable(entries))
        self._parts.stations.heard_by(entries)

    # --- frames that no device sends now --------------------------------------------------------

    @needs(Item.REPLAYER)
    async def replay(self, frame: Frame, *, by: str, after: int = 1_000_000) -> None:
        """Deliver a frame once more, `after` µs since it last reached the network server."""
        await self.start()
        await self._parts.stations.replay(frame, by=by, after_us=self.setup.retimed(after))

    async def hear(self, phy: str, *, of: RigDevice, f_cnt: int, by: str) -> Sent:
        """Deliver a given frame of a device (hex), as if a station had just heard it."""
        await self.start()
        sent = crafted.found(of.dev_eui, bytes.fromhex(phy), f_cnt)
        self.announce(sent)
        await self._deliver_alone(sent, by)
        return sent

    async def craft(
        self,
        device: Any,
        *,
        confirmed: bool = False,
        payload: bytes = PAYLOAD,
        port: int | None = 2,
        f_cnt: int | None = None,
        f_opts: bytes = b"",
        adr: bool = False,
        adr_ack_req: bool = False,
        ack: bool = False,
        class_b: bool = False,
    ) -> Sent:
        """The next frame of a device, built by the bench; nobody hears it before `say`.

        With `f_cnt` one that it sent some time ago, and that somebody recorded. `f_opts`: the MAC
        commands in its header, up to 15 bytes; on port 0 they are its payload. Without a port
        (None) it has no payload either. `class_b`: it says that it listens to beacons.
        """
        await self.start()
        session = device.session
        if f_cnt is None:
            f_cnt, session.f_cnt_up = session.f_cnt_up, session.f_cnt_up + 1
        sent = crafted.data(
            device.dev_eui,
            session.dev_addr,
            session.keys,
            f_cnt,
            confirmed=confirmed,
            payload=payload,
            port=port,
            f_opts=f_opts,
            adr=adr,
            adr_ack_req=adr_ack_req,
            ack=ack,
            class_b=class_b,
        )
        self.announce(sent)
        return sent

    async def craft_join(
        self, device: Any, *, dev_nonce: int | None = None, join_eui: str | None = None
    ) -> Joining:
        """A join request of a device, built by the bench; nobody hears it before `say`.

        By default with the DevNonce that the device will use next, and with its own JoinEUI.
        """
        await self.start()
        nonce = device.dev_nonce + 1 if dev_nonce is None else dev_nonce
        other_eui = None if join_eui is None else eui(join_eui)
        joining = crafted.join(device.provisioned.identity, nonce, join_eui=other_eui)
        self.announce(joining)
        return joining

    @needs(Item.BURST)
    async def flood(self, device: RigDevice, *, by: str, frames: int) -> list[Sent]:
        """Let a station's radio hear so many frames of a device at one moment."""
        await self.start()
        sent = [await self.craft(device) for _ in range(frames)]
        await self._parts.stations.flood(sent, by=by)
        await self.pause(1_000_000)
        return sent

    def told(
        self, frame: Frame, *, by: str, dr: int | None = None, freq_hz: int | None = None
    ) -> str:
        """The text of a station that has just heard a frame, or believes so."""
        xtime = self.setup.station(by).tap.xtime_now()
        return reception_text(frame.phy, self.setup.region, xtime, dr=dr, freq_hz=freq_hz)

    async def say(self, text: str, *, by: str) -> None:
        """Let a station say something to the network server, whatever it is."""
        await self.start()
        self.setup.station(by).tap.inject(text)
        await self.pause(0)

    async def forge(self, device: Any, *, by: str, confirmed: bool = False) -> Sent:
        """Deliver a frame in the name of a device, with a wrong MIC."""
        await self.start()
        session = device.session
        sent = crafted.data(
            device.dev_eui,
            session.dev_addr,
            session.keys,
            session.f_cnt_up,
            confirmed=confirmed,
            forged=True,
        )
        self.announce(sent, genuine=False)
        await self._deliver_alone(sent, by)
        return sent

    async def forge_join(self, device: Any, *, by: str) -> Joining:
        """Deliver the device's next join request with a wrong MIC."""
        await self.start()
        identity = device.provisioned.identity
        joining = crafted.join(identity, device.dev_nonce + 1, forged=True)
        self.announce(joining, genuine=False)
        await self._deliver_alone(joining, by)
        return joining

    def announce(self, frame: Frame, *, genuine: bool = True) -> None:
        """Note a frame that the bench made, so that the books know who sent it."""
        facts: dict[str, object] = {"dev_eui": frame.dev_eui, "frame_id": frame.frame_id}
        if isinstance(frame, Sent):
            facts |= {"session": frame.session, "f_cnt": frame.f_cnt}
        self.setup.medium.announce(frame.dev_eui, frame.phy, {**facts, "genuine": genuine})

    def deliver(self, frame: Frame, *, by: str) -> None:
        """Let a station deliver a frame now, as if it had just heard it."""
        self.setup.station(by).tap.replay(self.told(frame, by=by))

    async def _deliver_alone(self, frame: Frame, by: str) -> None:
        self.deliver(frame, by=by)
        await self.pause(1_000_000)

    def sessions_opened(self, device: Any) -> list[tuple[str, Keys]]:
        """The sessions that join accepts have opened for a device, oldest first."""
        return sessions_opened(self.case.events, device.identity)

    # --- what the application asks --------------------------------------------------------------

    async def queue_downlink(
        self, device: RigDevice, *, payload: bytes, port: int = 2, confirmed: bool = False
    ) -> None:
        """Let the application want something sent to a device; it waits in the server then."""
        body = {"fPort": port, "payload": payload.hex(), "confirmed": confirmed}
        facts = {"wants": "downlink", "f_port": port, "payload": payload.hex()}
        await self._ask(device, json.dumps(body).encode(), {**facts, "confirmed": confirmed})

    async def queue_status(self, device: RigDevice) -> None:
        """Let the application want to know the status of a device; the server asks it then."""
        await self._ask(device, json.dumps({"devStatus": True}).encode(), {"wants": "status"})

    async def post_request(self, device: RigDevice, body: bytes) -> None:
        """Let an application ask for something for a device that no server can read."""
        await self._ask(device, body, {"wants": "unreadable"}, is_readable=False)

    async def _ask(
        self, device: RigDevice, body: bytes, facts: dict[str, object], *, is_readable: bool = True
    ) -> None:
        await self.start()
        self.setup.record("application", REQUEST, {"dev_eui": device.dev_eui, **facts})
        server = self.setup.servers[LNS]
        await server.ask(device.dev_eui, body, waits_until_queued=is_readable)

    # --- time -----------------------------------------------------------------------------------

    async def wait(self, us: int) -> None:
        """Let time pass."""
        await self.pause(self.setup.retimed(us))

    async def wait_until(self, us: int) -> None:
        """Let time pass until so much of it is over since the first act."""
        await self.start()
        self._due_us = max(self._due_us + self.setup.retimed(us - self._reached_us), now_us())
        self._reached_us = us
        await self.pause(self._due_us - now_us())

    async def meanwhile(self, us: int, action: Callable[[], None]) -> None:
        """Do something so much later, while the scenario goes on."""
        await self.start()
        asyncio.get_running_loop().call_later(us / 1_000_000, action)

    async def settle(self) -> None:
        """Let everything under way come to its end."""
        delays_us = [station.longest_delay_us for station in self.setup.stations.values()]
        await self.pause(max([*delays_us, self._longest_delay_us]) + _SETTLE_US)
        await self._parts.servers.settle()
        await self._parts.application.settle()
        self._parts.servers.check()

    async def pause(self, us: int) -> None:
        """Let just so much time pass, whatever is retimed."""
        await asyncio.sleep(max(0, us) / 1_000_000)

    # --- what goes wrong with servers and store ---------------------------------------------------

    def on_outage(self, word: str) -> None:
        """What network servers do with a frame whose owner nobody can name; before the first act.

        "open": forward it, flagged; "closed": drop it.
        """
        self._parts.servers.must_be_own('on_outage: mark the scenario with'
                                        ' @pytest.mark.fault("store", …)')  # fmt: skip
        self.setup.before_start(f"on_outage {word!r}")
        self.setup.on_outage = OnOutage(word)

    async def restart_lns(self, *, f_cnt_up: int | None = None, lns: str = LNS) -> None:
        """Restart a network server; what it had in memory only is gone.

        `f_cnt_up`: the newest counter that it had made durable, if that was not its newest.
        """
        await self.kill_lns(lns)
        await self._start_lns(lns, f_cnt_up)

    async def kill_lns(self, lns: str = LNS) -> None:
        """End a network server at once, as a crash does, until `start_lns`."""
        await self.start()
        self.case.lns(lns, "kill")
        await self.setup.server(lns).kill()
        for station in self._stations_on(lns):
            # Nobody is behind the tap: a station is refused before it tells anything.
            self._parts.stations.shut_out(station)

    async def start_lns(self, lns: str = LNS) -> None:
        """Start the network server that was killed, and wait until the stations are back."""
        await self._start_lns(lns, None)

    async def _start_lns(self, lns: str, f_cnt_up: int | None) -> None:
        self.case.lns(lns, "restart", **({} if f_cnt_up is None else {"f_cnt_up": f_cnt_up}))
        await self.setup.server(lns).start_again(f_cnt_up=f_cnt_up)
        for station in self._stations_on(lns):
            self._parts.stations.let_in(station)
        await self.pause(100_000)  # until the stations notice
        await self._until_stations_are_up()

    async def orphan_next_frame(self, device: Any) -> None:
        """Let a server claim a device's next frame and die before it has delivered anything.

        It is none of those that stations connect to; nothing is left of it but its claim.
        """
        await self.start()
        session, dev_eui = device.session, device.dev_eui
        f_cnt = session.f_cnt_up
        self._fault("store", "orphan", lns=_DEAD_LNS, dev_eui=dev_eui, f_cnt=f_cnt)
        bid = Bid(lns=_DEAD_LNS, dev_eui=dev_eui, dev_addr=session.dev_addr, f_cnt=f_cnt)
        await self._parts.store.claim(bid)

    @needs(Item.WIRES)
    async def pause_lns_in_mid_claim(self, lns: str = LNS) -> None:
        """Let a network server stand still as soon as it has asked who owns its next frame.

        It learns the answer too late: after `resume_lns` and `restore_store`.
        """
        await self.start()
        self.setup.server(lns).pause_in_mid_claim()

    @needs(Item.WIRES)
    def pause_lns(self, lns: str = LNS) -> None:
        """Let a network server do nothing, until `resume_lns`."""
        self.setup.server(lns).pause()

    @needs(Item.WIRES)
    def resume_lns(self, lns: str = LNS) -> None:
        """Let it go on."""
        self.setup.server(lns).resume()

    @needs(Item.WIRES)
    def cut_upstream(self) -> None:
        """Cut the wire between the network server and the application, until `restore_upstream`."""
        self.setup.servers[LNS].to_broker.cut()

    @needs(Item.WIRES)
    async def restore_upstream(self) -> None:
        """Mend the wire; the network server finds it when its back-off is over."""
        await self.setup.servers[LNS].to_broker.restore()

    def cut_store(self, lns: str | None = None) -> None:
        """Cut the wires between all network servers, or one, and the store they share."""
        for server in self.setup.some_servers(lns):
            server.to_store.cut()

    def slow_store(self, us: int, lns: str | None = None) -> None:
        """Let what the store says to all network servers, or to one, arrive so much later.

        What it is asked to do it does at once.
        """
        for server in self.setup.some_servers(lns):
            server.to_store.delay(us)

    async def restore_store(self, lns: str | None = None) -> None:
        """Undo `cut_store` and `slow_store` for all network servers, or for one."""
        for server in self.setup.some_servers(lns):
            await server.to_store.restore()

    async def restart_store(self, *, empty: bool) -> None:
        """Restart the store that the network servers share; `empty`: it knows nothing any more."""
        await self.start()
        self._parts.store.must_be_own()
        self._fault("store", "restart", empty=empty)
        await self._parts.store.restart(empty=empty)
        self._fault("store", "restart", "fault.end", empty=empty)

    @needs(Item.WIRES)
    def pause_store(self) -> None:
        """Let the store take everything and answer nothing, until `resume_store`."""
        self._parts.store.pause()
        self._fault("store", "pause")

    @needs(Item.WIRES)
    def resume_store(self) -> None:
        """Let the store go on, with what it was told meanwhile."""
        self._fault("store", "pause", "fault.end")
        self._parts.store.resume()

    @needs(Item.APPLICATION)
    def delay_upstream(self, us: int, messages: int = 1) -> None:
        """Let the application take each of the next messages only after so long."""
        self._longest_delay_us = max(self._longest_delay_us, us)
        self._parts.application.delay(us, messages)

    @needs(Item.APPLICATION)
    def refuse_upstream(self, messages: int = 1) -> None:
        """Let the application take none of the next messages."""
        self._parts.application.refuse(messages)

    async def fill_disk(self, lns: str = LNS) -> None:
        """Let a network server's disk take nothing more that it promises the application."""
        await self.start()
        self.setup.server(lns).fill_disk()

    async def free_disk(self, lns: str = LNS) -> None:
        """Give it room again."""
        self.setup.server(lns).free_disk()

    @needs(Item.WIRES)
    def park_after(self, us: int) -> None:
        """Let network servers put aside what waits for the broker for longer; before the start."""
        self.setup.before_start("when messages are parked")
        for server in self.setup.servers.values():
            server.park_after(us)

    @needs(Item.WIRES)
    async def release_parked(self, lns: str = LNS) -> None:
        """End a network server, let what it has put aside be sent after all, and start it again.

        It tries as long as usual from then on.
        """
        await self.kill_lns(lns)
        await self.setup.server(lns).release_parked()
        await self.start_lns(lns)

    @needs(Item.WIRES)
    async def spoil_store(self, device: RigDevice) -> None:
        """Write something foreign where the store has what servers know of a device."""
        await self.start()
        self._parts.store.must_be_own()
        self._fault("store", "foreign value", dev_eui=device.dev_eui)
        await self._parts.store.spoil(device.dev_eui)

    @needs(Item.WIRES)
    async def mend_store(self, device: RigDevice) -> None:
        """Remove what is foreign; the store knows nothing of the device then."""
        await self._parts.store.mend(device.dev_eui)
        self._fault("store", "foreign value", "fault.end", dev_eui=device.dev_eui)

    @needs(Item.WALL_CLOCK)
    def step_wall_clock(self, us: int, *, lns: str = LNS) -> None:
        """Set the wall clock of a network server's host forward or back."""
        self.setup.server(lns).step_wall_clock(us)

    # --- consumers, and the broker before them ----------------------------------------------------

    def consumer(
        self,
        name: str = CONSUMER,
        *,
        window: int | None = WINDOW_US,
        partitioned: bool = False,
        sessions: bool = False,
        sequence: bool = True,
        keys: bool = False,
        retention: int = RETENTION_MAX_US,
        retry: int = RETRY_US,
        network: int = NETWORK_US,
        knows_oldest: bool = False,
        store: str | None = None,
        elsewhere: bool = False,
        refuses: str | None = None,
        refusals: int | None = None,
    ) -> None:
        """Let a consumer take every message, with these detectors; before the first act.

        `window` in µs, None: ids are not compared; ConfigurationError outside of 20 s to 7 d. With
        `sessions` a message is taken only if its session id is its partition key.
        `keys` live for retention, retry and network (µs); with `knows_oldest` as long as the oldest
        message that was not consumed demands. Consumers with the same `store` share one. The effect
        has the fate of the transaction, unless it is `elsewhere`, where nobody can take it back.
        The effect of the message with the id `refuses` fails, however often it is tried, or the
        first `refusals` times.
        """
        self.setup.before_start(f"consumer {name!r}")
        settings = ConsumerSettings(
            name=name,
            window_us=window,
            partitioned=partitioned,
            sessions=sessions,
            sequence=sequence,
            keys=keys,
            retention_us=retention,
            retry_us=retry,
            network_us=network,
            knows_oldest=knows_oldest,
            store=store,
            elsewhere=elsewhere,
            refuses=refuses,
            refusals=refusals,
        )
        settings.detectors()
        if elsewhere or refuses is not None:
            self.must_have("crash in a transaction")
        self._consumers[name] = self._parts.application.new_consumer(settings)

    async def kill_consumer(self, name: str = CONSUMER) -> None:
        """End a consumer at once, until `start_consumer`; its store is on the disk."""
        await self.start()
        self._fault("consumer", "kill", consumer=name)
        await self._consumer(name).kill()

    async def start_consumer(self, name: str = CONSUMER, *, window: int | None = None) -> None:
        """Start a consumer that was killed, or that is about to crash, as soon as it has.

        With `window` it has another one than before: ConfigurationError.
        """
        consumer = self._consumer(name)
        await consumer.until_crashed()
        if window is not None:
            consumer.settings = replace(consumer.settings, window_us=window)
        await consumer.start()

    async def crash_consumer(self, at: str, name: str = CONSUMER) -> None:
        """Let a consumer crash at its next message: before the "effect", "commit" or "ack".

        At "commit" it has had the effect. `start_consumer` waits until it has happened.
        """
        await self.start()
        await self._consumer(name).crash(at)

    async def lose_acks(self, name: str = CONSUMER) -> None:
        """Let the broker not hear what a consumer acknowledges, until `redeliver`."""
        await self.start()
        await self._consumer(name).lose_acks()

    async def redeliver(self, name: str = CONSUMER) -> None:
        """Let the broker bring a consumer again what it has not heard to be acknowledged.

        What a queue does when its visibility time is over, and a broker on the next connection.
        Waits until the consumer has decided on what was brought before.
        """
        await self._consumer(name).redeliver()

    async def stop_broker(self) -> None:
        """End the broker, until `start_broker`; it remembers what it has acknowledged."""
        await self.start()
        self._fault("broker", "stop")
        await self._parts.application.stop_broker()

    async def start_broker(self) -> None:
        """Start the broker again."""
        self._fault("broker", "stop", "fault.end")
        await self._parts.application.start_broker()

    async def lose_pubacks(self, lns: str = LNS) -> None:
        """Let a server's messages reach the broker, and nothing come back, until `find_broker`."""
        await self.start()
        self.setup.server(lns).to_broker.lose_answers()

    async def hold_messages(self, lns: str = LNS) -> None:
        """Let a server's messages not reach the broker, until `find_broker`."""
        await self.start()
        self.setup.server(lns).to_broker.hold()

    async def find_broker(self, lns: str = LNS) -> None:
        """Undo `lose_pubacks` and `hold_messages`: a server sends what it knows nothing about."""
        await self.setup.server(lns).to_broker.restore()

    async def wipe_producer(self, lns: str = LNS) -> None:
        """Restart a server without its outbox: it numbers the messages of every topic from 1."""
        await self.kill_lns(lns)
        self.setup.server(lns).lose_outbox()
        await self.start_lns(lns)

    @needs(Item.WIRES)
    def share_client_id(self, *lns: str) -> None:
        """Let several servers name themselves alike to the broker; before the first act."""
        self.setup.before_start("client id")
        for one in lns:
            self._server(one).share_client_id()

    async def until_published(self, uplink: Named, times: int = 1, *, lns: str = "") -> None:
        """Wait until the broker has had messages of an uplink so many times, of one server or all.

        TimeoutError when that takes too long.
        """

        def too_few() -> TimeoutError:
            got = len(self._messages_of(uplink, lns))
            return TimeoutError(f"{which(uplink)}: published {got} times, not {times}")

        await until(
            lambda: len(self._messages_of(uplink, lns)) >= times, _PUBLISHED_WITHIN_US, too_few
        )

    async def republish(self, uplink: Sent, *, after: int) -> None:
        """Publish the first message of an uplink again, `after` µs since it was, never retimed."""
        await self.until_published(uplink)
        first = self._messages_of(uplink, "")[0]
        await self.pause(first["t_us"] + after - now_us())
        await self._parts.application.publish(first["topic"], first["body"])

    async def inject(
        self,
        device: RigDevice,
        *,
        message_id: str | None = None,
        number: int | None = None,
        key: str | None = None,
        session: str | None = None,
        partition: str | None = None,
        body: str = "21.5",
    ) -> Injected:
        """Publish one message in the name of another producer, on a topic of its own.

        By default its id is new, and it has neither sequence number, Remove Duplicates key nor
        session id; its partition key is the DevEUI, as its topic is.
        """
        await self.start()
        self._messages += 1
        message = Injected(message_id or f"injected-{self._messages}")
        dev_eui = device.dev_eui
        fields: dict[str, object] = {
            "messageId": message.message_id,
            "partitionKey": partition or dev_eui,
        }
        optional = {"sequenceNumber": number, "removeDuplicatesKey": key, "sessionId": session}
        fields |= {name: value for name, value in optional.items() if value is not None}
        fields |= {"devEui": dev_eui, "payload": body}
        await self._parts.application.publish(f"lorawan/{PRODUCER}/{dev_eui}/up", fields)
        return message

    def _messages_of(self, message: Named, lns: str) -> list[Event]:
        """The lines of an uplink's messages, or of one message of the bench."""

        def fits(body: dict[str, Any]) -> bool:
            if isinstance(message, Injected):
                return bool(body["messageId"] == message.message_id)
            what = body.get("devEui"), body.get("devAddr"), body.get("fCnt")
            return what == tuple(which(message).values()) and lns in ("", body["lns"])

        lines = self.case.events
        return [line for line in lines if line["kind"] in PUBLISHED and fits(line["body"])]

    # --- from the first act to the end ----------------------------------------------------------

    @asynccontextmanager
    async def running(self, case: Case) -> AsyncIterator[None]:
        """Run the rig for one case; everything it started ends with it.

        CaseTooLong when the case hangs; the time in which it waits for its turn does not count.
        """
        self.setup.open(case)
        self.provision("alpha", f_cnt=MID_LIFE_F_CNT)
        self.provision("bravo", activation="otaa")
        self.provision("charlie", f_cnt=MID_LIFE_F_CNT)
        for name in ("west", "east"):
            self.station(name)
        try:
            async with AsyncExitStack() as stack:
                if self._limit is not None:
                    await stack.enter_async_context(self._limit)
                self.setup.tasks = await stack.enter_async_context(asyncio.TaskGroup())
                stack.push_async_callback(self._switch_off)
                yield
        except TimeoutError as error:
            if self._limit is not None and self._limit.expired():
                raise CaseTooLong(f"not over {self._limit_s} s after it began") from error
            raise
        finally:
            self.setup.tasks = None

    async def start(self) -> None:
        """Switch everything on, once, and wait until the stations hear and are heard."""
        setup, parts = self.setup, self._parts
        if setup.is_started:
            return
        setup.check_names()
        setup.is_started = True
        await parts.devices.ready()
        await parts.servers.ready()
        await parts.store.ready()
        if self._limit is not None and self._limit_s is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._limit_s)
        await parts.application.ready()
        for server in setup.servers.values():
            await server.start()
        case = self.case
        case.begin()
        for device in setup.devices.values():
            if device.provisioned.known:
                case.device(device.provisioned.record, f_cnt_up=device.provisioned.f_cnt_up)
        facts = {"region": setup.region.name, "retention_us": setup.retention_us}
        for lns in setup.servers:
            case.lns(lns, "start", **facts, on_outage=setup.on_outage)
        await parts.stations.switch_on()
        for device in setup.devices.values():
            await device.start()
        for station in setup.stations.values():
            station.start()
        await self._until_stations_are_up()
        self._due_us = self.began_us = now_us()

    async def _switch_off(self) -> None:
        await self._parts.application.end()
        for station in self.setup.stations.values():
            station.stop()
        for device in self.setup.devices.values():
            await device.stop()
        for server in self.setup.servers.values():
            server.stop()

    async def end(self) -> None:
        """Give up what the case has on a bench that it shares with others."""
        async with AsyncExitStack() as stack:
            for part in (self._parts.devices, self._parts.stations, self._parts.store):
                stack.push_async_callback(part.end)
            stack.push_async_callback(self._parts.servers.end)

    def inspect(self, *, is_stuck: bool = False) -> None:
        """Note what is wrong in all that network servers handed over.

        `is_stuck`: a device refused to go on, which may be for want of what it was not given.
        """
        setup = self.setup
        names = {str(station.eui): station.name for station in setup.stations.values()}
        plan = channel_plan(setup.region.name)
        devices = [device.provisioned for device in setup.devices.values()]
        inspector = Inspector(
            plan,
            NET_ID,
            [known_to_inspector(one, plan) for one in devices if one.known],
            names,
            began=setup.clock_began,
            has_twins=len(names) < len(setup.stations),
        )
        for found in inspector.inspect(self.case.in_order(), is_stuck=is_stuck):
            self.case.find(found)

    # --- between the verbs ----------------------------------------------------------------------

    @property
    def case(self) -> Case:
        """The case that is running."""
        return self.setup.case

    @property
    def retention_us(self) -> int:
        """For how long network servers remember a frame here."""
        return self.setup.retention_us

    def has_station(self, name: str) -> bool:
        """Whether somebody has asked for a station of this name."""
        return name in self.setup.stations

    def must_have(self, capability: str) -> None:
        """RuntimeError where this rig has not what a verb takes."""
        if capability not in self.capabilities:
            raise RuntimeError(
                f"this rig has no {capability}: mark the scenario with"
                f" @pytest.mark.requires({str(capability)!r}), so that it is left out here"
            )

    def _fault(self, seam: str, fault: str, kind: str = "fault.begin", **detail: object) -> None:
        self.case.fault(seam, fault, kind, **detail)

    def _server(self, lns: str) -> NetworkServer:
        """A network server by its id; one that nobody asked for before is added."""
        if lns not in self.setup.servers:
            self.setup.before_start(f"network server {lns!r}")
            self.setup.servers[lns] = self._parts.servers.new(lns)
        return self.setup.servers[lns]

    def _station(self, name: str) -> CaseStation:
        setup = self.setup
        if name not in setup.stations:
            setup.before_start(f"station {name!r}")
            group, number = (FIRST_GROUP + setup.number) & 0xFFFF, len(setup.stations) + 1
            self._add_station(name, eui(f"0016C001{group:04X}{number:04X}"), setup.seed)
        return setup.stations[name]

    def _add_station(self, name: str, station_eui: Any, seed: int) -> CaseStation:
        station = self._parts.stations.new(name, station_eui, seed)
        self.setup.stations[name] = station
        self.case.station(station_eui, name)
        return station

    def _stations_on(self, lns: str) -> list[CaseStation]:
        server = self.setup.server(lns)
        return [one for one in self.setup.stations.values() if one.server is server]

    def _consumer(self, name: str) -> Consumer:
        if name not in self._consumers:
            raise not_there("consumer", name, self._consumers)
        return self._consumers[name]

    async def _until_stations_are_up(self) -> None:
        stations = self.setup.stations.values()

        def away() -> GatewayAway:
            for station in stations:
                self._blame_server(station)
            missing = ", ".join(station.name for station in stations if not station.is_up)
            return GatewayAway(f"not connected to the network server: {missing}")

        def are_up() -> bool:
            return not [station for station in stations if not station.is_up]

        await until(are_up, _UP_WITHIN_US, away, every_us=10_000)
        await self.pause(100_000)

    def _blame_server(self, station: CaseStation) -> None:
        """ServerSilent where a station has introduced itself, and waits for its server."""
        said: list[tuple[str, object]] = []
        for event in self.case.events:
            if event["kind"] == "station.text" and event["station"] == station.eui:
                fields = json_of(event["text"])
                if fields is not None:
                    said.append((event["direction"], fields.get("msgtype")))
        if station.is_up or ("up", "version") not in said:
            return
        who = f"{station.server.lns} has sent no"
        if ("down", "router_config") not in said:
            raise ServerSilent(f"{who} router_config to {station.name}")
        # A station whose clock is not read yet answers 0, and has to be asked again.
        if said.count(("down", "getxtime")) <= said.count(("up", "getxtime")):
            raise ServerSilent(f"{who} getxtime to {station.name}, or not again")

    if not TYPE_CHECKING:  # a type checker finds it by itself

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not self.__dict__["setup"].is_open:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            known = [word for word in dir(type(self)) if not word.startswith("_")]
            near = [f"rig.{word}" for word in difflib.get_close_matches(name, known)]
            meant = f"; did you mean {' or '.join(near)}?" if near else ";"
            raise ScenarioMistake(
                f"rig.{name} is no verb, device or station{meant} a device of your own is"
                " rig.device(name) after rig.provision(name, ...), a station rig.station(name)"
            )
