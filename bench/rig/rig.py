"""What may a scenario do: send, spoil, replay, restart, wait, expect?

Every verb has its name here, over five parts (`bench.rig.interfaces`). Of some the promise stands
with their kind: `case_setup`, `stations`, `outages`, `consumption`, `visits`, `log`. A scenario
never asks which rig it is on.
"""

import asyncio
import difflib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import wraps
from inspect import iscoroutinefunction
from itertools import chain
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from bench.chance import stream
from bench.inspection.inspector import REQUEST, Inspector
from bench.inspection.known_device import misread
from bench.plan import Item, needs
from bench.rig.case_setup import LNS, CaseSetup, Expectations
from bench.rig.consumption import Consumption
from bench.rig.interfaces import CaseStation, Parts, RigDevice, RigStation
from bench.rig.log import Log
from bench.rig.outages import Outages
from bench.rig.provisioning import known_to_inspector, provision
from bench.rig.stations import InjectedFrames, until_stations_are_up
from bench.rig.visits import Configurations, Visits
from bench.verdict.case import Case
from bench.verdict.owner import ScenarioMistake
from bench.virtual.air import wrong_answers
from bench.virtual.lorawan.channel_plan import channel_plan
from lns.clock import now_us
from lns.dedup.strategy import Strategy
from lns.lorawan.identifiers import Eui, eui

MID_LIFE_F_CNT = 10
FIRST_GROUP = 0xF150
"""Bytes 5 and 6 of the stations' EUIs in the first case of a run."""
_SETTLE_US = 3_000_000
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class CaseTooLong(TimeoutError):
    """A case is not over after the time that it may take."""


def verb(part: str, does: Callable[Concatenate[S, P], R]) -> Callable[Concatenate["Rig", P], R]:
    """A verb of a rig that one of its parts carries out."""

    @wraps(does)
    def asked(rig: "Rig", *given: P.args, **facts: P.kwargs) -> R:
        return does(getattr(rig, part), *given, **facts)

    @wraps(does)
    async def asked_and_waited_for(rig: "Rig", *given: P.args, **facts: P.kwargs) -> Any:
        return await does(getattr(rig, part), *given, **facts)  # type: ignore[misc]

    return asked_and_waited_for if iscoroutinefunction(does) else asked  # type: ignore[return-value]


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
        self.capabilities = setup.capabilities = parts.capabilities | capabilities
        self.frames = InjectedFrames(setup, parts.stations)
        self.outages = Outages(setup, parts)
        self.consumption = Consumption(setup, parts.application, self.outages)
        self.visits = Visits(setup)
        self.configurations = Configurations(setup)
        self.log = Log(setup)
        self._parts = parts
        self._limit_s = limit_s
        self._limit = asyncio.timeout(None) if limit_s is not None else None
        self._due_us = self._reached_us = 0
        self.began_us: int | None = None
        setup.begin = self.start
        setup.new_server = parts.servers.new
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

    @needs(Item.VIRTUAL_TIME)
    def in_network(self, net_id: str) -> None:
        """Give the network servers another NetID (6 hexadecimal digits); before the first act."""
        self.setup.before_start(f"network {net_id}")
        self.setup.net_id = net_id

    def put_on(self, lns: str, *stations: str) -> None:
        """Let stations connect to another network server (`lns-b`, …); before the first act.

        It knows the same devices, and shares sessions and claims with the first one.
        """
        for name in stations:
            self.setup.before_start(f"network server of {name!r}")
            self._station(name).server = self.setup.server_or_new(lns)

    @needs(Item.VIRTUAL_TIME)
    def dedup(
        self,
        *,
        retention: int | None = None,
        entries_max: int | None = None,
        sessions_max: int | None = None,
    ) -> None:
        """Let every network server remember frames for so long (µs), and so many; before the start.

        Without it as the run says: a minute, and a million. `sessions_max`: of so many sessions
        claims in memory know whose they are.
        """
        setup = self.setup
        if sessions_max is not None:
            setup.must_have("virtual time")
            setup.sessions_max = sessions_max
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
        if "keys" in facts or "only_at" in facts:
            # Who has such keys, or a record, is up to the scenario: nobody else is to answer.
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

    replay = verb("frames", InjectedFrames.replay)
    hear = verb("frames", InjectedFrames.hear)
    craft = verb("frames", InjectedFrames.craft)
    craft_join = verb("frames", InjectedFrames.craft_join)
    flood = verb("frames", InjectedFrames.flood)
    told = verb("frames", InjectedFrames.told)
    sent = verb("frames", InjectedFrames.sent)
    say = verb("frames", InjectedFrames.say)
    forge = verb("frames", InjectedFrames.forge)
    forge_join = verb("frames", InjectedFrames.forge_join)
    announce = verb("frames", InjectedFrames.announce)
    deliver = verb("frames", InjectedFrames.deliver)
    sessions_opened = verb("frames", InjectedFrames.sessions_opened)

    # --- what the application asks --------------------------------------------------------------

    async def queue_downlink(
        self,
        device: RigDevice,
        *,
        payload: bytes,
        port: int = 2,
        confirmed: bool = False,
        octets: int = 0,
    ) -> None:
        """Let the application want something sent to a device; it waits in the server then.

        `octets`: how long the request is at least; it ends in spaces then.
        """
        if port not in range(1, 224):
            raise ScenarioMistake(
                f"an application has port 1 to 223, not {port!r};"
                " what no server can read is for post_request"
            )
        body: dict[str, object] = {"fPort": port, "payload": payload.hex()}
        if confirmed:
            body["confirmed"] = True
        facts = {"wants": "downlink", "f_port": port, "payload": payload.hex()}
        text = json.dumps(body).ljust(octets)
        await self._ask(device, text.encode(), {**facts, "confirmed": confirmed})

    async def queue_status(self, device: RigDevice, *, is_spread: bool = False) -> None:
        """Let the application want to know the status of a device; the server asks it then.

        `is_spread`: as a JSON text of several lines.
        """
        text = json.dumps({"devStatus": True}, indent=4 if is_spread else None)
        await self._ask(device, text.encode(), {"wants": "status"})

    async def post_request(
        self, device: RigDevice, body: bytes, why: str = "", *, on: str = ""
    ) -> None:
        """Let an application ask for something for a device that no server can read.

        `why`: what a server says of it, where that is known to the letter. `on` the topic of one
        that is called so, which is no DevEUI.
        """
        if not isinstance(body, bytes):
            raise ScenarioMistake(f"an application asks in bytes: b{body!r}")
        facts: dict[str, object] = {"wants": "unreadable", "why": why}
        await self._ask(device, body, facts, on=on)

    async def _ask(
        self, device: RigDevice, body: bytes, facts: dict[str, object], *, on: str = ""
    ) -> None:
        await self.start()  # on a bench a device gets its board then, and the DevEUI of that
        dev_eui = Eui(on) if on else device.dev_eui
        self.setup.record("application", REQUEST, {"dev_eui": dev_eui, **facts})
        server = self.setup.servers[LNS]
        await server.ask(dev_eui, body, waits_until_queued=facts["wants"] != "unreadable")

    # --- time -----------------------------------------------------------------------------------

    async def wait(self, us: int, *, whole: int = 1) -> None:
        """Let time pass, and a little more until the run has lasted a multiple of `whole` µs."""
        us = self.setup.retimed(us)
        await self.pause(us if whole == 1 else us + -(now_us() + us) % whole)

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
        await self.pause(max([*delays_us, self.outages.longest_delay_us]) + _SETTLE_US)
        await self._parts.servers.settle()
        await self._parts.application.settle()
        await self.consumption.settle()
        self.log.look_for_keys(self._parts.servers.logs())
        self._parts.servers.check()

    @property
    def is_over_time(self) -> bool:
        """Whether the case hangs, and is being broken off."""
        return self._limit is not None and self._limit.expired()

    async def mend(self) -> None:
        """Let what is under way come to its end in a case that its scenario did not finish.

        Servers and broker are brought back: what nobody could deliver is no server's fault, and
        what is still missing then is.
        """
        with suppress(TimeoutError):
            await self.outages.mend()
            await self.consumption.mend()
        await self.settle()

    async def pause(self, us: int) -> None:
        """Let just so much time pass, whatever is retimed."""
        await self.setup.pause(us)

    # --- what goes wrong with servers and store ---------------------------------------------------

    on_outage = verb("outages", Outages.on_outage)
    keep_on_disk = verb("outages", Outages.keep_on_disk)
    keep_in_redis = verb("outages", Outages.keep_in_redis)
    check_configuration = verb("configurations", Configurations.check_configuration)
    check_read = verb("configurations", Configurations.check_read)
    check_command = verb("configurations", Configurations.check_command)
    run_server = verb("configurations", Configurations.run_server)
    restart_lns = verb("outages", Outages.restart_lns)
    change_record = verb("outages", Outages.change_record)
    kill_lns = verb("outages", Outages.kill_lns)
    start_lns = verb("outages", Outages.start_lns)
    orphan_next_frame = verb("outages", Outages.orphan_next_frame)
    pause_lns_in_mid_claim = verb("outages", Outages.pause_lns_in_mid_claim)
    pause_lns = verb("outages", Outages.pause_lns)
    resume_lns = verb("outages", Outages.resume_lns)
    cut_upstream = verb("outages", Outages.cut_upstream)
    restore_upstream = verb("outages", Outages.restore_upstream)
    cut_store = verb("outages", Outages.cut_store)
    slow_store = verb("outages", Outages.slow_store)
    restore_store = verb("outages", Outages.restore_store)
    restart_store = verb("outages", Outages.restart_store)
    bid_at_random = verb("outages", Outages.bid_at_random)
    disturb_redis = verb("outages", Outages.disturb_redis)
    pause_store = verb("outages", Outages.pause_store)
    resume_store = verb("outages", Outages.resume_store)
    delay_upstream = verb("outages", Outages.delay_upstream)
    refuse_upstream = verb("outages", Outages.refuse_upstream)
    fill_disk = verb("outages", Outages.fill_disk)
    break_disk = verb("outages", Outages.break_disk)
    fill_store = verb("outages", Outages.fill_store)
    break_writes = verb("outages", Outages.break_writes)
    slow_disk = verb("outages", Outages.slow_disk)
    free_disk = verb("outages", Outages.free_disk)
    park_after = verb("outages", Outages.park_after)
    keep_acknowledged = verb("outages", Outages.keep_acknowledged)
    limit_outbox = verb("outages", Outages.limit_outbox)
    refuse_messages = verb("outages", Outages.refuse_messages)
    refuse_logins = verb("outages", Outages.refuse_logins)
    fill_capture = verb("outages", Outages.fill_capture)
    free_capture = verb("outages", Outages.free_capture)
    stumble = verb("outages", Outages.stumble)
    release_parked = verb("outages", Outages.release_parked)
    spoil_store = verb("outages", Outages.spoil_store)
    mend_store = verb("outages", Outages.mend_store)
    step_wall_clock = verb("outages", Outages.step_wall_clock)

    # --- consumers, and the broker before them ----------------------------------------------------

    consumer = verb("consumption", Consumption.consumer)
    kill_consumer = verb("consumption", Consumption.kill_consumer)
    start_consumer = verb("consumption", Consumption.start_consumer)
    crash_consumer = verb("consumption", Consumption.crash_consumer)
    tamper_with_effects = verb("consumption", Consumption.tamper_with_effects)
    fill_application = verb("consumption", Consumption.fill_application)
    make_room = verb("consumption", Consumption.make_room)
    lose_acks = verb("consumption", Consumption.lose_acks)
    redeliver = verb("consumption", Consumption.redeliver)
    unlimit_broker = verb("consumption", Consumption.unlimit_broker)
    refuse_subscriptions = verb("consumption", Consumption.refuse_subscriptions)
    stop_broker = verb("consumption", Consumption.stop_broker)
    start_broker = verb("consumption", Consumption.start_broker)
    lose_pubacks = verb("consumption", Consumption.lose_pubacks)
    hold_messages = verb("consumption", Consumption.hold_messages)
    delay_pubacks = verb("consumption", Consumption.delay_pubacks)
    find_broker = verb("consumption", Consumption.find_broker)
    wipe_producer = verb("consumption", Consumption.wipe_producer)
    share_client_id = verb("consumption", Consumption.share_client_id)
    until_published = verb("consumption", Consumption.until_published)
    republish = verb("consumption", Consumption.republish)
    inject = verb("consumption", Consumption.inject)

    # --- doors of network servers -----------------------------------------------------------------

    open_door = verb("visits", Visits.open_door)
    knock = verb("visits", Visits.knock)
    expect_refused = verb("visits", Visits.expect_refused)
    expect_goodbye = verb("visits", Visits.expect_goodbye)
    expect_said = verb("visits", Visits.expect_said)
    expect_brought = verb("visits", Visits.expect_brought)
    begin_knocking = verb("visits", Visits.begin_knocking)
    close_door = verb("visits", Visits.close_door)
    credentials = verb("visits", Visits.credentials)

    # --- what a program says to a person ---------------------------------------------------------

    expect_logged = verb("log", Log.expect_logged)
    read_frame = verb("log", Log.read_frame)

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
                stack.enter_context(self.log.followed())
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
        case.find(*misread(case.rig, wrong_answers()))
        for device in setup.devices.values():
            agreed = device.provisioned
            if agreed.known:
                case.device(
                    agreed.record,
                    f_cnt_up=agreed.f_cnt_up,
                    f_cnt_down=agreed.f_cnt_down,
                    only_at=agreed.only_at,
                )
        facts = {"region": setup.region.name, "retention_us": setup.retention_us}
        facts |= {"store": "sentinels"} if setup.by_sentinels else {}
        for lns in setup.servers:
            case.lns(lns, "start", **facts, on_outage=setup.on_outage)
        await parts.stations.switch_on()
        for device in setup.devices.values():
            await device.start()
        for station in setup.stations.values():
            station.start()
        await until_stations_are_up(setup)
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
        clocks: dict[str, list[tuple[int, int]]] = {}
        for tap in (station.tap for station in setup.stations.values()):
            clocks.setdefault(tap.station, []).append((tap.xtime_now(), now_us()))
        plan = channel_plan(setup.region.name)
        devices = [device.provisioned for device in setup.devices.values()]
        inspector = Inspector(
            plan,
            setup.net_id,
            [known_to_inspector(one, plan) for one in devices if one.known],
            names,
            began=setup.clock_began,
            has_twins=len(names) < len(setup.stations),
            kept=self._parts.store.kept(one.dev_eui for one in devices if one.known),
            air=setup.medium,
            clocks=clocks,
            on_duty=setup.medium.on_duty,
        )
        events = self.case.in_order()
        self.case.find(*inspector.inspect(events, is_stuck=is_stuck, ended_us=now_us()))

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
        self.setup.must_have(capability)

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
