"""What happens to consumers and to the broker, and what do applications find published?"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bench.capture.reading import Event
from bench.clock import until
from bench.device.interfaces import Sent
from bench.host.program import ConsumerDied
from bench.plan import Item, needs
from bench.rig.case_setup import LNS, CaseSetup, Injected, Named, there, which
from bench.rig.configuration import DEFAULTS_US, ConsumerSettings
from bench.rig.in_memory.application import PUBLISHED, spelled
from bench.rig.interfaces import Application, Consumer, RigDevice
from bench.rig.outages import Outages
from bench.rig.stations import ServerSilent
from bench.verdict.case import is_all_published
from lns.clock import now_us
from lns.delivery import ConfigurationError

_REFUSED = ("MicMismatch", "UnknownDevice", "InvalidFrameCounter", "Malformed")
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
        waiting_max: int | None = None,
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
        At most `waiting_max` wait for a decision; the broker has to bring the others again.
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
            waiting_max=waiting_max,
        )
        if entries_max is not None or waiting_max is not None:
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

    async def fill_application(
        self, room: int = 0, name: str = CONSUMER, *, octets: int | None = None
    ) -> None:
        """Let the application of a consumer have room for so many effects, until `make_room`.

        With `octets` its file takes so many of them more, of what it has together.
        """
        self.must_have("full application")
        await self.setup.begin()
        await self._named(name).fill(None if octets is not None else room, octets)

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

    async def unlimit_broker(self, name: str = CONSUMER) -> None:
        """Let the broker bring a consumer more at once than it takes, as Mosquitto 2.0.11 does."""
        self.must_have("unlimited broker")
        await self.setup.begin()
        self._named(name).unlimit()

    async def refuse_subscriptions(self, times: int, name: str = CONSUMER) -> None:
        """Let the broker refuse what a consumer asks it for; it has to leave, and to come again."""
        self.must_have("unlimited broker")
        await self.setup.begin()
        self._named(name).refuse_subscriptions(times)

    async def stop_broker(self) -> None:
        """End the broker, until `start_broker`; it remembers what it has acknowledged."""
        await self.setup.begin()
        self.setup.case.fault("broker", "stop")
        await self._application.stop_broker()

    async def start_broker(self) -> None:
        """Start the broker again."""
        self.setup.case.fault("broker", "stop", "fault.end")
        await self._application.start_broker()

    async def mend(self) -> None:
        """Bring the broker back to a case that is over early, and wait until it has everything.

        TimeoutError when a server does not publish what it has forwarded.
        """
        setup, events, broken = self.setup, self.setup.case.events, self._broken
        if not broken:
            return
        of_broker = [event for event in events if event.get("seam") == "broker"]
        stops = [event["kind"] for event in of_broker if event["fault"] == "stop"]
        if stops and stops[-1] == "fault.begin":
            await self.start_broker()
        for server in setup.servers.values() if "upstream" in broken else ():
            await server.to_broker.restore()
        await self._all_published()

    async def settle(self) -> None:
        """Wait for what servers still send, because they find a broker again in their own time."""
        if Item.VIRTUAL_TIME in self.setup.capabilities and self._broken:
            with suppress(TimeoutError):
                await self._all_published()

    @property
    def _broken(self) -> set[str]:
        begun = {e.get("seam", "") for e in self.setup.case.events if e["kind"] == "fault.begin"}
        return begun & {"broker", "upstream"}

    async def _all_published(self) -> None:
        def is_there() -> bool:
            return is_all_published(self.setup.case.in_order())

        refused = [e["detail"]["logins"] for e in self.setup.case.events if _refuses_logins(e)]
        within_us = _PUBLISHED_WITHIN_US * (1 + sum(refused))
        await until(is_there, within_us, TimeoutError, every_us=1_000_000)

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
        """Restart a server without its outbox: it numbers the messages of every topic from 1.

        RuntimeError while it owes the application a message, which would be lost.
        """
        if not is_all_published(self.setup.case.in_order()):
            raise RuntimeError(f"{lns} has messages in its outbox: let the broker have them first")
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
        frame = re.compile("{dev_eui}-{dev_addr}.*-{f_cnt}(?![0-9])".format(**which(message)))
        parked = (e for e in self.setup.case.events if e["kind"] == "upstream.parked")
        waits_for_a_person = any(frame.match(event["message_id"]) for event in parked)
        told = [
            event
            for event in self.setup.case.events
            if event["kind"] == "lns.outcome" and event.get("frame_id") == message.frame_id
        ]
        # On virtual time no host is slow, and a scenario lets the broker be there, and all go on.
        is_sure = Item.VIRTUAL_TIME in self.setup.capabilities
        is_refused = all(event.get("reason") in _REFUSED for event in told)
        return told[-1] if told and (is_sure or (is_refused and not waits_for_a_person)) else None

    def _published(self, message: Named, lns: str) -> list[Event]:
        def fits(body: dict[str, Any]) -> bool:
            if isinstance(message, Injected):
                return bool(body["messageId"] == message.message_id)
            what = body.get("devEui"), body.get("devAddr"), body.get("fCnt")
            return what == tuple(which(message).values()) and lns in ("", body["lns"])

        lines = self.setup.case.events
        return [line for line in lines if line["kind"] in PUBLISHED and fits(line["body"])]

    def _named(self, name: str) -> Consumer:
        return there("consumer", name, self._consumers)


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


def _refuses_logins(event: Event) -> bool:
    return (event["kind"], event.get("fault")) == ("fault.begin", "login refused")
