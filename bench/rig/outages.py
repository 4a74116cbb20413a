"""What goes wrong with servers, store, broker and consumers, and with the wires between them."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.capture.reading import Event
from bench.clock import VirtualTimeLoop, until
from bench.device.interfaces import Sent
from bench.host.program import ConsumerDied
from bench.plan.needs import Item, needs
from bench.rig.case_setup import LNS, CaseSetup, Injected, Named, which
from bench.rig.in_memory.application import PUBLISHED, spelled
from bench.rig.interfaces import (
    DEFAULTS_US,
    Application,
    CaseStation,
    Consumer,
    ConsumerSettings,
    Parts,
    RigDevice,
    Wire,
)
from bench.rig.stations import ServerSilent, until_stations_are_up
from bench.verdict.owner import not_there
from lns.clock import now_us
from lns.dedup.claim import Bid, OnOutage
from lns.delivery import ConfigurationError

_DEAD_LNS = "lns-x"
_REFUSED = ("MicMismatch", "UnknownDevice", "InvalidFrameCounter", "Malformed")


class Outages:
    """Disturbs what a case shares with nobody; remembers the longest delay that it made."""

    def __init__(self, setup: CaseSetup, parts: Parts) -> None:
        self.setup = setup
        self.must_have = setup.must_have
        self._parts = parts
        self.longest_delay_us = 0

    def on_outage(self, word: str) -> None:
        """What network servers do with a frame whose owner nobody can name; before the first act.

        "open": forward it, flagged; "closed": drop it.
        """
        self._parts.servers.must_be_own('on_outage: mark the scenario with'
                                        ' @pytest.mark.fault("store", …)')  # fmt: skip
        self.setup.before_start(f"on_outage {word!r}")
        self.setup.on_outage = OnOutage(word)

    @needs(Item.VIRTUAL_TIME)
    def keep_on_disk(self) -> None:
        """Give servers and consumers, each of which is alone, files; before the first act.

        A server reads its configuration there and keeps what it knows, a consumer its inbox.
        """
        self.setup.before_start("what is kept on the disk")
        self.setup.on_disk = True

    def keep_in_redis(self) -> None:
        """Let servers share a real Redis, in which nothing expires; before the first act."""
        self.setup.must_have("redis")
        self.setup.before_start("where servers keep what they share")
        self.setup.on_redis = True

    async def restart_lns(self, *, f_cnt_up: int | None = None, lns: str = LNS) -> None:
        """Restart a network server; what it had in memory only is gone.

        `f_cnt_up`: the newest counter that it had made durable, if that was not its newest.
        """
        await self.kill_lns(lns)
        await self._start_lns(lns, f_cnt_up)

    async def kill_lns(self, lns: str = LNS) -> None:
        """End a network server at once, as a crash does, until `start_lns`."""
        await self.setup.begin()
        self.setup.case.lns(lns, "kill")
        await self.setup.server(lns).kill()
        for station in self._stations_on(lns):
            # Nobody is behind the tap: a station is refused before it tells anything.
            self._parts.stations.shut_out(station)

    async def start_lns(self, lns: str = LNS) -> None:
        """Start the network server that was killed, and wait until the stations are back."""
        await self._start_lns(lns, None)

    async def _start_lns(self, lns: str, f_cnt_up: int | None) -> None:
        self.setup.case.lns(lns, "restart", **({} if f_cnt_up is None else {"f_cnt_up": f_cnt_up}))
        await self.setup.server(lns).start_again(f_cnt_up=f_cnt_up)
        for station in self._stations_on(lns):
            self._parts.stations.let_in(station)
        await self.setup.pause(100_000)  # until the stations notice
        await until_stations_are_up(self.setup)

    async def orphan_next_frame(self, device: Any) -> None:
        """Let a server claim a device's next frame and die before it has delivered anything.

        It is none of those that stations connect to; nothing is left of it but its claim.
        """
        await self.setup.begin()
        session, dev_eui = device.session, device.dev_eui
        f_cnt = session.f_cnt_up
        self.setup.case.fault("store", "orphan", lns=_DEAD_LNS, dev_eui=dev_eui, f_cnt=f_cnt)
        bid = Bid(lns=_DEAD_LNS, dev_eui=dev_eui, dev_addr=session.dev_addr, f_cnt=f_cnt)
        await self._parts.store.claim(bid)

    @needs(Item.WIRES)
    async def pause_lns_in_mid_claim(self, lns: str = LNS) -> None:
        """Let a network server stand still as soon as it has asked who owns its next frame.

        It learns the answer too late: after `resume_lns` and `restore_store`.
        """
        await self.setup.begin()
        self.setup.server(lns).pause_in_mid_claim()

    @needs(Item.WIRES)
    def pause_lns(self, lns: str = LNS) -> None:
        """Let a network server do nothing, until `resume_lns`."""
        self.setup.server(lns).pause()

    @needs(Item.WIRES)
    def resume_lns(self, lns: str = LNS) -> None:
        """Let it go on."""
        self.setup.server(lns).resume()

    @needs(Item.OUTBOX)
    def cut_upstream(self) -> None:
        """Cut the wire between the network server and the application, until `restore_upstream`."""
        self.setup.servers[LNS].to_broker.cut()

    @needs(Item.OUTBOX)
    async def restore_upstream(self) -> None:
        """Mend the wire; the network server finds it when its back-off is over."""
        await self.setup.servers[LNS].to_broker.restore()

    def cut_store(self, lns: str | None = None) -> None:
        """Cut the wires between all network servers, or one, and the store they share.

        Or that between a consumer with this name and its store; a file takes nothing then.
        """
        for wire in self._to_store(lns):
            wire.cut()

    def slow_store(self, us: int, lns: str | None = None) -> None:
        """Let what the store says to all network servers, or to one, arrive so much later.

        What it is asked to do it does at once.
        """
        for wire in self._to_store(lns):
            wire.delay(us)

    async def restore_store(self, lns: str | None = None) -> None:
        """Undo `cut_store` and `slow_store` for all network servers, or for one."""
        for wire in self._to_store(lns):
            await wire.restore()

    def _to_store(self, whose: str | None) -> list[Wire]:
        of_consumer = None if whose is None else self._parts.application.to_store(whose)
        if of_consumer is not None:
            return [of_consumer]
        return [server.to_store for server in self.setup.some_servers(whose)]

    async def restart_store(self, *, empty: bool) -> None:
        """Restart the store that the network servers share; `empty`: it knows nothing any more."""
        await self.setup.begin()
        self._parts.store.must_be_own()
        self.setup.case.fault("store", "restart", empty=empty)
        await self._parts.store.restart(empty=empty)
        self.setup.case.fault("store", "restart", "fault.end", empty=empty)

    async def disturb_redis(self, how: str) -> None:
        """Let the Redis of a case "fail over", or "forget scripts" while connections stay.

        Or "let expire": what it would forget some day, it forgets now.
        """
        await self.setup.begin()
        self.setup.case.fault("store", how)
        self._parts.store.disturb(how)

    @needs(Item.WIRES)
    def pause_store(self) -> None:
        """Let the store take everything and answer nothing, until `resume_store`."""
        self._parts.store.pause()
        self.setup.case.fault("store", "pause")

    @needs(Item.WIRES)
    def resume_store(self) -> None:
        """Let the store go on, with what it was told meanwhile."""
        self.setup.case.fault("store", "pause", "fault.end")
        self._parts.store.resume()

    @needs(Item.APPLICATION)
    def delay_upstream(self, us: int, messages: int = 1, lns: str | None = None) -> None:
        """Let the application take the next messages, of one server or any, each after so long."""
        self.longest_delay_us = max(self.longest_delay_us, us)
        self._parts.application.delay(us, messages, lns)

    @needs(Item.APPLICATION)
    def refuse_upstream(self, messages: int = 1, lns: str | None = None) -> None:
        """Let the application take none of the next messages, of one server or of any."""
        self._parts.application.refuse(messages, lns)

    async def fill_disk(self, lns: str = LNS) -> None:
        """Let a network server's disk take nothing more that it promises the application."""
        await self.setup.begin()
        self.setup.server(lns).fill_disk()

    @needs(Item.VIRTUAL_TIME)
    async def break_disk(self, after: int, lns: str = LNS) -> None:
        """Let a network server's disk take so many messages more, then take and give nothing."""
        await self.setup.begin()
        self.setup.server(lns).fill_disk(after)

    @needs(Item.VIRTUAL_TIME)
    async def fill_store(self, after: int, lns: str = LNS) -> None:
        """Let the file of a server that keeps on a disk take so many writes more, and no others."""
        await self.setup.begin()
        self.setup.server(lns).fill_disk(writes=after)

    @needs(Item.VIRTUAL_TIME)
    async def slow_disk(self, us: int) -> None:
        """Let whatever goes to a disk be there so much later; 0: at once again."""
        await self.setup.begin()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.thread_us = us
        self.longest_delay_us = max(self.longest_delay_us, us)
        kind = "fault.begin" if us else "fault.end"
        self.setup.case.fault("store", "slow disk", kind, after_us=us)

    async def free_disk(self, lns: str = LNS) -> None:
        """Undo `fill_disk`, `break_disk` and `fill_store`."""
        self.setup.server(lns).free_disk()

    @needs(Item.OUTBOX)
    def park_after(self, us: int) -> None:
        """Let network servers put aside what waits for the broker for longer; before the start."""
        self.setup.before_start("when messages are parked")
        for server in self.setup.servers.values():
            server.set_upstream("retry_max_s", us // 1_000_000)

    @needs(Item.OUTBOX)
    def keep_acknowledged(self, us: int) -> None:
        """Let network servers keep a message for so long after its PUBACK; before the start.

        It goes out again when its broker or its server is lost meanwhile.
        """
        self.setup.before_start("how long a message stays")
        for server in self.setup.servers.values():
            server.set_upstream("keep_s", us // 1_000_000)

    @needs(Item.VIRTUAL_TIME)
    def limit_outbox(self, messages: int, lns: str = LNS) -> None:
        """Let a server's outbox hold so many messages and no more; before the start."""
        self.setup.before_start("how many messages an outbox holds")
        self.setup.server(lns).set_upstream("messages_max", messages)

    @needs(Item.VIRTUAL_TIME)
    async def refuse_messages(
        self, messages: int, lns: str = LNS, *, of: RigDevice | None = None
    ) -> None:
        """Let the broker refuse the next messages that a server sends, or those of one device."""
        await self.setup.begin()
        dev_eui = "" if of is None else of.dev_eui
        self._parts.application.refuse(messages, lns, broker=True, of=dev_eui)

    @needs(Item.OUTBOX)
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
        await self.setup.begin()
        self._parts.store.must_be_own()
        self.setup.case.fault("store", "foreign value", dev_eui=device.dev_eui)
        await self._parts.store.spoil(device.dev_eui)

    @needs(Item.WIRES)
    async def mend_store(self, device: RigDevice) -> None:
        """Remove what is foreign; the store knows nothing of the device then."""
        await self._parts.store.mend(device.dev_eui)
        self.setup.case.fault("store", "foreign value", "fault.end", dev_eui=device.dev_eui)

    @needs(Item.WALL_CLOCK)
    def step_wall_clock(self, us: int, *, lns: str = LNS) -> None:
        """Set the wall clock of a network server's host forward or back."""
        self.setup.server(lns).step_wall_clock(us)

    def _stations_on(self, lns: str) -> list[CaseStation]:
        server = self.setup.server(lns)
        return [one for one in self.setup.stations.values() if one.server is server]


CONSUMER = "application"
PRODUCER = "bench"
"""Stands where an LNS id does in the topics of the bench's own messages."""
_PUBLISHED_WITHIN_US = 40_000_000
"""A server that has tried in vain for long tries again after half a minute."""


class Consumption:
    """What happens to consumers and broker; remembers the consumers of the case by name."""

    def __init__(self, setup: CaseSetup, application: Application, outages: Outages) -> None:
        self.setup = setup
        self.must_have = setup.must_have
        self._application = application
        self._outages = outages
        self._consumers: dict[str, Consumer] = {}
        self._messages = 0

    def consumer(
        self,
        name: str = CONSUMER,
        *,
        window: int | None = DEFAULTS_US["window_us"],
        partitioned: bool = False,
        sessions: bool = False,
        sequence: bool = True,
        keys: bool = False,
        retention: int = DEFAULTS_US["retention_us"],
        retry: int = DEFAULTS_US["retry_us"],
        network: int = DEFAULTS_US["network_us"],
        knows_oldest: bool = False,
        store: str | None = None,
        elsewhere: bool = False,
        refuses: str | None = None,
        refusals: int | None = None,
        entries_max: int | None = None,
        republishes: int = 0,
    ) -> None:
        """Let a consumer take every message, with these detectors; before the first act.

        `window` in µs, None: ids are not compared; ConfigurationError outside of 20 s to 7 d. With
        `sessions` a message is taken only if its session id is its partition key.
        `keys` live for retention, retry and network (µs); with `knows_oldest` as long as the oldest
        message that was not consumed demands. Consumers with the same `store` share one. The effect
        has the fate of the transaction, unless it is `elsewhere`, where nobody can take it back.
        The effect of messages whose id begins with `refuses` fails, however often it is tried, or
        the first `refusals` times. It remembers `entries_max` of each kind, a million by default.
        It `republishes` each message on another topic; so many wait there at most, and in its file.
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
            entries_max=entries_max,
            republishes=republishes,
        )
        if entries_max is not None:
            self.must_have("small inbox")
        if republishes:
            self.must_have("relay")
        _look_at(settings)
        if elsewhere or refuses is not None:
            self.must_have("crash in a transaction")
        self._consumers[name] = self._application.new_consumer(settings)

    async def kill_consumer(self, name: str = CONSUMER) -> None:
        """End a consumer at once, until `start_consumer`; its store is on the disk."""
        await self.setup.begin()
        self.setup.case.fault("consumer", "kill", consumer=name)
        await self._named(name).kill()

    async def start_consumer(
        self,
        name: str = CONSUMER,
        *,
        window: int | None = None,
        sequence: bool | None = None,
        partitioned: bool | None = None,
        sessions: bool | None = None,
    ) -> None:
        """Start a consumer that was killed, or that is about to crash, as soon as it has.

        With `window` it has another one than before: ConfigurationError where it had none. With
        `sequence` it looks at numbers from now on, or does not. With another `partitioned` or other
        `sessions` than before: ConfigurationError.
        """
        consumer = self._named(name)
        await consumer.until_crashed()
        before = consumer.settings
        asked = {"window_us": window, "sequence": sequence}
        asked |= {"partitioned": partitioned, "sessions": sessions}
        changes: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
        consumer.settings = replace(before, **changes)
        await consumer.start()
        if window is not None and before.window_us is None:
            raise ConsumerDied(f"consumer {name} compares ids with a store that was made for none")
        for kind, is_so, was_so in (
            ("partitions", consumer.settings.partitioned, before.partitioned),
            ("sessions", consumer.settings.sessions, before.sessions),
        ):
            if is_so is not was_so:
                raise ConsumerDied(f"consumer {name} has {kind} now, or none, and one store")

    async def crash_consumer(self, at: str, name: str = CONSUMER) -> None:
        """Let a consumer crash at its next message: before the "effect", "commit" or "ack".

        At "commit" it has had the effect. `start_consumer` waits until it has happened.
        """
        await self.setup.begin()
        await self._named(name).crash(at)

    async def fill_application(self, room: int = 0, name: str = CONSUMER) -> None:
        """Let the application of a consumer have room for so many effects, until `make_room`."""
        self.must_have("full application")
        await self.setup.begin()
        await self._named(name).fill(room)

    async def tamper_with_effects(self, name: str = CONSUMER) -> None:
        """Let a consumer that does not run find its effects cut short, in use, or another's.

        It has to refuse them; then they are as before.
        """
        self.must_have("crash in a transaction")
        self.setup.case.fault("consumer", "effects that are not its own", consumer=name)
        await self._named(name).tamper()

    async def make_room(self, name: str = CONSUMER) -> None:
        """Let the application of a consumer have room for all effects again."""
        await self._named(name).fill(None)

    async def lose_acks(self, name: str = CONSUMER) -> None:
        """Let the broker not hear what a consumer acknowledges, until `redeliver`."""
        await self.setup.begin()
        await self._named(name).lose_acks()

    async def redeliver(self, name: str = CONSUMER) -> None:
        """Let the broker bring a consumer again what it has not heard to be acknowledged.

        What a queue does when its visibility time is over, and a broker on the next connection.
        Waits until the consumer has decided on what was brought before.
        """
        await self._named(name).redeliver()

    async def stop_broker(self) -> None:
        """End the broker, until `start_broker`; it remembers what it has acknowledged."""
        await self.setup.begin()
        self.setup.case.fault("broker", "stop")
        await self._application.stop_broker()

    async def start_broker(self) -> None:
        """Start the broker again."""
        self.setup.case.fault("broker", "stop", "fault.end")
        await self._application.start_broker()

    async def lose_pubacks(self, lns: str = LNS) -> None:
        """Let a server's messages reach the broker, and nothing come back, until `find_broker`."""
        await self.setup.begin()
        self.setup.server(lns).to_broker.lose_answers()

    async def hold_messages(self, lns: str = LNS) -> None:
        """Let a server's messages not reach the broker, until `find_broker`."""
        await self.setup.begin()
        self.setup.server(lns).to_broker.hold()

    async def delay_pubacks(self, us: int, lns: str = LNS) -> None:
        """Let the broker acknowledge what a server sends so much later, until `find_broker`."""
        await self.setup.begin()
        self.setup.server(lns).to_broker.delay(us)

    async def find_broker(self, lns: str = LNS) -> None:
        """Undo `lose_pubacks`, `hold_messages` and `delay_pubacks`: what is unknown goes again."""
        await self.setup.server(lns).to_broker.restore()

    async def wipe_producer(self, lns: str = LNS) -> None:
        """Restart a server without its outbox: it numbers the messages of every topic from 1."""
        await self._outages.kill_lns(lns)
        self.setup.server(lns).lose_outbox()
        await self._outages.start_lns(lns)

    @needs(Item.WIRES)
    def share_client_id(self, *lns: str) -> None:
        """Let several servers name themselves alike to the broker; before the first act."""
        self.setup.before_start("client id")
        for one in lns:
            self.setup.server_or_new(one).share_client_id()

    async def until_published(self, uplink: Named, times: int = 1, *, lns: str = "") -> None:
        """Wait until the broker has had messages of an uplink so many times, of one server or all.

        TimeoutError when that takes too long; ServerSilent where only its server can be why.
        """

        def too_few() -> Exception:
            got = len(self._published(uplink, lns))
            silent = self._kept_back(uplink)
            if silent is None:
                return TimeoutError(f"{which(uplink)}: published {got} times, not {times}")
            reason = silent.get("reason", "nothing is said against it")
            said = f"published {silent['frame_id']} {got} times, not {times}: {reason}"
            return ServerSilent(f"{silent['lns']} has {said}")

        await until(
            lambda: len(self._published(uplink, lns)) >= times, _PUBLISHED_WITHIN_US, too_few
        )

    async def republish(self, uplink: Sent, *, after: int) -> None:
        """Publish the first message of an uplink again, `after` µs since it was, never retimed."""
        await self.until_published(uplink)
        first = self._published(uplink, "")[0]
        await self.setup.pause(first["t_us"] + after - now_us())
        await self._application.publish(first["topic"], first["body"])

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
        octets: int = 0,
        properties: Mapping[str, str] | None = None,
        qos: int = 1,
    ) -> Injected:
        """Publish one message in the name of another producer, on a topic of its own.

        By default its id is new, and it has neither sequence number, Remove Duplicates key nor
        session id; its partition key is the DevEUI, as its topic is. It has so many `octets` where
        that is more than it needs. What the user `properties` name does not stand in its body,
        unless it was given. With `qos` 0 nobody has to acknowledge it.
        """
        if properties is not None:
            self.must_have("user properties")
        if qos != 1:
            self.must_have("QoS 0")
        await self.setup.begin()
        self._messages += 1
        named = message_id or (properties or {}).get("messageId")
        message = Injected(named or f"injected-{self._messages}")
        dev_eui = device.dev_eui
        fields: dict[str, object] = {
            "messageId": message.message_id,
            "partitionKey": partition or dev_eui,
        }
        optional = {"sequenceNumber": number, "removeDuplicatesKey": key, "sessionId": session}
        fields |= {name: value for name, value in optional.items() if value is not None}
        if message_id is None and named is not None:
            del fields["messageId"]
        if partition is None and "partitionKey" in (properties or {}):
            del fields["partitionKey"]
        fields |= {"devEui": dev_eui, "payload": body}
        fields["payload"] = body + "0" * (octets - len(spelled(fields)))
        topic = f"lorawan/{PRODUCER}/{dev_eui}/up"
        await self._application.publish(topic, fields, properties, qos)
        return message

    def _kept_back(self, message: Named) -> Event | None:
        """What a server said of a frame that it should have published; None: others may be why."""
        if isinstance(message, Injected):
            return None
        told = [
            event
            for event in self.setup.case.events
            if event["kind"] == "lns.outcome" and event.get("frame_id") == message.frame_id
        ]
        # On virtual time no host is slow, and a scenario sees to it that the broker is there.
        is_sure = Item.VIRTUAL_TIME in self.setup.capabilities
        if is_sure or all(event.get("reason") in _REFUSED for event in told):
            return told[-1] if told else None
        return None

    def _published(self, message: Named, lns: str) -> list[Event]:
        def fits(body: dict[str, Any]) -> bool:
            if isinstance(message, Injected):
                return bool(body["messageId"] == message.message_id)
            what = body.get("devEui"), body.get("devAddr"), body.get("fCnt")
            return what == tuple(which(message).values()) and lns in ("", body["lns"])

        lines = self.setup.case.events
        return [line for line in lines if line["kind"] in PUBLISHED and fits(line["body"])]

    def _named(self, name: str) -> Consumer:
        if name not in self._consumers:
            raise not_there("consumer", name, self._consumers)
        return self._consumers[name]


def _look_at(settings: ConsumerSettings) -> None:
    """ConfigurationError for what a consumer refuses; ConsumerDied where it errs in that."""
    try:
        settings.detectors()
    except ConfigurationError as refusal:
        if settings.are_allowed:
            raise ConsumerDied(f"consumer {settings.name} refuses what is allowed") from refusal
        raise
    if not settings.are_allowed:
        raise ConsumerDied(f"consumer {settings.name} takes what is not allowed: {settings}")
