"""What lies around a consumer: its way from the broker, and where its effects come to lie?

The real subscription on a socket; a file beside its own, or topics on which it publishes once more;
and what is between it and its store.
"""

import asyncio
import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from sqlite3 import Connection, OperationalError, connect

from bench.capture import Record
from bench.chance import stream
from bench.clock import is_disk_slow
from bench.host.program import ConsumerDied
from bench.inspection.consumer import ConsumerBooks, refusal
from bench.rig.case_setup import CaseSetup
from bench.rig.consumer_settings import ConsumerSettings
from bench.rig.in_memory.application import MemoryBroker
from bench.rig.in_memory.mistakes import no_file_beyond, syncs
from bench.rig.in_memory.outbox_file import seize
from bench.rig.in_memory.promises import broken_promises
from bench.rig.interfaces import Wire
from bench.verdict.wire import json_of
from bench.virtual.mqtt_broker import RECEIVE_MAX, Client, MqttBroker
from bench.virtual.mqtt_packets import Login, Published
from lns.clock import now_us
from lns.delivery import Incoming
from lns.delivery.detectors import TOPIC, topic_of
from lns.delivery.effect import (
    EffectUnavailable,
    JsonLinesFile,
    JsonLinesStream,
    Republishing,
    json_lines,
)
from lns.delivery.inbox import Accepted, Event
from lns.delivery.mqtt_sender import MqttSender
from lns.delivery.mqtt_session import Broker, Patience
from lns.delivery.subscription import Delivery, HeldSubscription
from lns.store.inbox_store import SqliteInboxStore, Transaction

_TOPIC, _ALL = "lorawan/+/+/up", "lorawan/#"
_HELD_MAX, _KEEP_ALIVE_S, _SESSION_S, _PACKET_BYTES_MAX = 200, 30, 86_400, 1 << 20
_AT_LEAST_ONCE, _NOTHING_RETAINED = 1, 2 << 4
"""Options of a subscription (MQTT 5.0, 3.8.3.1): QoS 1, with what is retained or not."""
_ASKED = dict.fromkeys((_TOPIC, _ALL), _AT_LEAST_ONCE | _NOTHING_RETAINED) | {TOPIC: _AT_LEAST_ONCE}
_PRODUCERS = tuple(enumerate(("producer", "another producer"), 1))
_TOO_LATE = "lorawan/bench/late/up"
_OF_NO_MEANING = {f"of no meaning {number}": "" for number in range(5)}
_LEFT_WITHIN_US = _SAID_WITHIN_US = 100_000
_AGAIN_WITHIN_US = 600_000  # half a second, and a moment
Brought = Callable[[str, bytes, Mapping[str, str], int], None]


class ConsumerWire:
    """One consumer's session at the broker, which outlives the consumer.

    `brought` is told of each message as it was sent, when the consumer is handed it. Finds what is
    wrong with how the consumer connects, what it asks for, how many messages it takes at a time and
    which of them it acknowledges.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        folder: Path,
        memory: MemoryBroker,
        brought: Brought,
        found: Callable[[str], None],
        hears_all: bool,
    ) -> None:
        self._topics = _ALL if hears_all else _TOPIC
        self._name, self._client_id = name, name.replace(" ", "-")
        self._memory, self._brought, self._found = memory, brought, found
        self._chance = stream(seed, name, "subscription")
        published = partial(self._wrong, "nothing published")
        self._broker = MqttBroker(folder / "broker", published, found)
        self._broker.greeted, self._broker.subscribed = self._greet, self._subscribe
        self._broker.resumed, self._broker.left_by = self._resume, self._left
        self._broker.acknowledged, self.start = self._acknowledge, self._broker.listen
        self._client: Client | None = None
        self._on_the_way: dict[int, Callable[[], None]] = {}
        self._under_way: list[tuple[str, bytes, Mapping[str, str], int]] = []
        self._held: deque[list[bool]] = deque()
        self._subscription: HeldSubscription | None = None
        self._stays = self._is_left_behind = self._is_over = False
        self._renewals = self._asked_us = 0
        self._renewed_us: int | None = None
        self._known: set[tuple[object, ...]] = set()  # what was brought, however long ago
        self._forget()
        for text in broken_promises():
            found(f"{name}: {text}")

    @asynccontextmanager
    async def open(self, delivered: Callable[[Delivery], None]) -> AsyncIterator[None]:
        """Be subscribed, as a consumer is as long as it runs."""
        self._broker.listen()
        subscription = self._subscription = HeldSubscription(
            Broker(str(self._broker.path), 1), self._topics, self._client_id,
            lambda delivery: delivered(self._hold(delivery)),
            patient=True, patience=Patience(in_flight_max=1), chance=self._chance, retained=TOPIC,
            on_retained=self._hear,
        )  # fmt: skip
        async with subscription:
            yield
        self._subscription = None

    def ask(self) -> None:
        """Let the consumer have what is retained, behind all that was brought."""
        subscription = self._subscription
        if subscription is not None and subscription.connected and not self._asked_us:
            self._asked_us = now_us()
            subscription.ask()

    def renew(self, why: str) -> None:
        """Let the consumer begin another connection: it has no room for what it is brought."""
        assert self._subscription is not None
        self._renewals += 1
        self._renewed_us = now_us()
        self._subscription.renew(why)
        if self._subscription.connected:
            self._wrong("not connected when it has given that up", "connected")

    async def fall_silent(self) -> None:
        """Let a consumer that is about to end take nothing more, whatever it is brought."""
        if self._subscription is not None and self._client is not None:
            self._subscription.stop_listening()
            self._is_over = True
            self._client.bring(_TOO_LATE, b"{}", (), _AT_LEAST_ONCE)
            heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0, heard.set_result, None)
            await heard  # whoever reads has done so by then

    def unlimit(self) -> None:
        """Let the broker bring more at a time than the consumer takes (Receive Maximum)."""
        self._broker.is_unlimited = True

    def refuse(self, subscriptions: int) -> None:
        """Let the broker refuse what it asks for, so many times; it leaves without a word then."""
        self._broker.subscription_refusals = subscriptions
        self._renewals += subscriptions

    def cut(self) -> None:
        """The consumer is gone, or its connection: nothing more of it is heard."""
        self._broker.hang_up()

    def stop(self) -> None:
        """The broker is away, until `start`."""
        self._broker.stop()
        self._renewed_us = None

    def end(self, took_us: int) -> None:
        """The case is over, and the consumer has said goodbye, which took it so long."""
        if self._client is not None:
            self._wrong("ended when the broker has read all of it", "it is connected yet")
        if took_us > _LEFT_WITHIN_US:
            self._wrong(f"ended within {_LEFT_WITHIN_US} us", f"{took_us} us")
        if self._broker.without_a_word > self._renewals:
            self._wrong("a goodbye", "none")
        if self._told != self._done:
            self._wrong(f"{self._done} acknowledged", self._told)
        if self._retained and self._heard != self._retained:
            self._wrong(f"retained {self._retained}", self._heard)
        if self._stays:
            self._wrong("nothing asked for but uplinks", TOPIC)
        self._broker.go()

    def _forget(self) -> None:
        """Nothing is on its way on a new connection."""
        self._on_the_way.clear()
        self._under_way.clear()
        self._held.clear()
        self._flags: deque[bool] = deque()
        self._sent = self._told = self._behind = self._asked_us = 0
        self._done_us: list[int] = []  # when each could be acknowledged
        self._retained, self._heard = list[tuple[str, bytes]](), list[tuple[str, bytes]]()
        self._stays = False

    def _greet(self, client: Client) -> None:
        """Its session goes on, and what it has not acknowledged comes again."""
        self._forget()
        late_us = 0 if self._renewed_us is None else now_us() - self._renewed_us
        # Of several in a row each may wait for longer than the one before.
        if self._renewals == 1 and late_us > _AGAIN_WITHIN_US and not is_disk_slow():
            self._wrong(f"again within {_AGAIN_WITHIN_US} us", f"{late_us} us")
        self._renewed_us = None
        self._is_left_behind = TOPIC in client.filters  # it died while it asked
        due = Login(self._client_id, False, _KEEP_ALIVE_S, _SESSION_S, _HELD_MAX, _PACKET_BYTES_MAX)
        if client.login != due:
            self._wrong(due, client.login)

    def _subscribe(self, client: Client, topic_filter: str, options: int) -> None:
        if _ASKED.get(topic_filter) != options:
            self._wrong(f"{_ASKED} asked for", f"{topic_filter} with options {options:#x}")
        elif topic_filter == TOPIC:
            self._behind = self._sent
            for number, name in _PRODUCERS:
                self._state(client, name, b"%d.5" % number, retain=True)
        elif client is not self._client:
            self._resume(client)

    def _resume(self, client: Client) -> None:
        self._client = client
        if self._is_left_behind:
            for number, name in _PRODUCERS:
                self._state(client, name, b"%d.25" % number, retain=False)
        self._memory.connect(self._name, self._bring)

    def _state(self, client: Client, producer: str, payload: bytes, *, retain: bool) -> None:
        """Bring what a producer has said of itself, before or just now."""
        self._retained.append((topic_of(producer), payload))
        client.bring(topic_of(producer), payload, (), _AT_LEAST_ONCE, retain=retain)

    def _bring(
        self,
        topic: str,
        payload: bytes,
        properties: Mapping[str, str],
        qos: int,
        acknowledge: Callable[[], None],
    ) -> None:
        assert self._client is not None
        self._under_way.append((topic, payload, properties, qos))
        this = topic, payload, tuple(properties.items())
        again = qos > 0 and this in self._known
        # Of one name the last one counts.
        told = [(name, text + "x") for name, text in properties.items() if text]
        told += [*_OF_NO_MEANING.items(), *properties.items()]
        number = self._client.bring(topic, payload, told, qos, again=again)
        if number:
            self._sent += 1
            self._on_the_way[number] = acknowledge
            self._known.add(this)
            self._flags.append(again)

    @property
    def _done(self) -> int:
        """How many messages the broker may forget."""
        return len(self._done_us)

    @property
    def under_way(self) -> int:
        """How many messages were sent on this connection that the consumer was not handed yet."""
        return len(self._under_way)

    def _hold(self, delivery: Delivery) -> Delivery:
        """A message is with the consumer, until it acknowledges it and all that came before."""
        handed = delivery.topic, delivery.qos
        sent = next((one for one in self._under_way if (one[0], one[3]) == handed), None)
        if sent is not None:
            self._under_way.remove(sent)
            self._brought(*sent)
        if self._is_over:
            self._wrong("nothing taken by a consumer that ends", delivery.topic)
        if not delivery.qos:
            return delivery
        again = self._flags.popleft() if self._flags else None
        if delivery.repeated is not again:
            self._wrong(f"repeated {again}", f"{delivery.repeated}, {delivery.topic}")
        held = [True]
        self._held.append(held)
        if len(self._held) > _HELD_MAX + 1:
            self._wrong(f"{_HELD_MAX + 1} messages held at most", len(self._held))

        def acknowledge() -> None:
            held[0] = False
            while self._held and not self._held[0][0]:
                self._held.popleft()
                self._done_us.append(now_us())
            delivery.acknowledge()

        return replace(delivery, acknowledge=acknowledge)

    def _acknowledge(self, client: Client, number: int) -> None:
        if number in self._on_the_way:
            self._told += 1
            self._on_the_way.pop(number)()
            if self._told > self._done:
                self._wrong(f"{self._done} acknowledged", self._told)
            elif (late_us := now_us() - self._done_us[self._told - 1]) > _SAID_WITHIN_US:
                self._wrong(f"acknowledged within {_SAID_WITHIN_US} us", f"{late_us} us")

    def _hear(self, topic: str, payload: bytes) -> None:
        self._heard.append((topic, payload))
        if self._done < self._behind:
            self._wrong(f"{self._behind} acknowledged before what is retained", self._done)

    def _left(self, client: Client) -> None:
        if client is self._client:
            is_due = self._asked_us and now_us() - self._asked_us > _SAID_WITHIN_US
            if is_due and not self._retained:
                self._wrong(f"{TOPIC} asked for", "nothing")
            self._client = None
            self._stays = TOPIC in client.filters and not self._is_left_behind
            self._memory.disconnect(self._name)

    def _wrong(self, due: object, observed: object) -> None:
        self._found(f"{self._name}: expected {due}, observed {observed}")


_TOGETHER_MAX = 500  # share a transaction of a store of one consumer


class Refused(Exception):
    """The application cannot have this message."""


class Lines:
    """The effect: a line of JSON in a file for each message, written to the capture once it stays.

    What a kill took back is cut off, unless the file is `elsewhere`: a pipe, which keeps all that
    it was given. Messages whose id begins with what the effect `refuses` fail, the first `refusals`
    times (None: always).
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        folder: Path,
        setup: CaseSetup,
        crashes: Callable[[str], None],
        books: ConsumerBooks,
        found: Callable[[str], None],
        kept: Callable[[], None],
    ) -> None:
        self._kept = kept
        self._name = settings.name
        self._books = books
        self._found = found
        self._setup = setup
        self._crashes = crashes
        self._refuses = settings.refuses
        self._refusals = settings.refusals
        self._elsewhere = settings.elsewhere
        self.path = folder / f"{settings.name}.jsonl"
        self._told_octets = 0
        self._had = 0
        self.room: int | None = None
        self.spare_octets: int | None = None
        self._lines: JsonLinesFile | JsonLinesStream

    def begin(self) -> None:
        """Open the file, as a consumer does that starts."""
        self._had, self._is_open, self._is_full = 0, False, False
        if self._elsewhere:
            # A pipe that is named has no buffer, standard output has one.
            buffering = 0 if self._setup.on_disk else -1
            self._lines = JsonLinesStream(self.path.open("ab", buffering), owned=True)
        else:
            is_new = not self.path.exists()
            self._lines = json_lines(str(self.path), sys.stdout.buffer)
            if is_new and self.path.stat().st_mode & 0o077:
                self._found(f"{self._name}: its effects are for others to read")

    def give_up(self) -> None:
        """The consumer is gone, and with it what it had opened."""
        self._lines.close()

    def open(self, transaction: Transaction) -> None:
        """What was never kept is no more in the file; EffectUnavailable."""
        self._lines.open(transaction)
        self._is_open = True
        self._look("when it is opened")

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        """Have one more line; EffectUnavailable while there is no room."""
        self._crashes("effect")
        if not self._is_open:
            self._found(f"{self._name}: an effect is had before it is opened")
        for text in self._books.tried(self._name, message.channel, message.message_id, now_us()):
            self._found(text)
        if self.room is not None and self._had >= self.room:
            self._is_full = True
            raise EffectUnavailable("the application has no room")
        refuses = self._refuses is not None and message.message_id.startswith(self._refuses)
        if refuses and self._refusals != 0:
            if self._refusals is not None:
                self._refusals -= 1
            self._books.failed(self._name, message.channel, message.message_id, now_us())
            raise Refused(refusal(message.message_id))
        self._lines.handle(message, transaction)
        self._had += 1

    def flush(self, transaction: Transaction) -> None:
        """The lines are in the file, and those that are taken back on its disk."""
        spare, octets = self.spare_octets, self.path.stat().st_size
        beyond = nullcontext() if spare is None else no_file_beyond(octets + spare)
        with beyond, syncs() as synced:
            self._lines.flush(transaction)
        is_synced = self._elsewhere or self.path.stat().st_size in synced
        if self._had and not is_synced:
            self._found(f"{self._name}: {self._had} effects are kept before they are on the disk")
        if self._had > (most := 1 if self._setup.on_redis else _TOGETHER_MAX):
            self._found(f"{self._name}: expected {most} effects together, observed {self._had}")
        if self._elsewhere:
            self._tell()
        if self._had:
            self._crashes("commit")

    def end(self, *, kept: bool) -> None:
        """Keep the lines or none of them."""
        self._lines.end(kept=kept)
        if self._is_full or (self._had and not kept):
            self._books.unavailable(self._name, now_us(), kept=kept)
        if self._had and not kept:
            self._take_back()
        if self.room is not None:
            self.room -= self._had
        self._had, self._is_full = 0, False
        if kept:
            self._tell()
            self._kept()

    def _tell(self) -> None:
        """Write down the lines that are new."""
        octets = self.path.read_bytes()[self._told_octets :]
        self._told_octets += len(octets)
        for text in octets.splitlines():
            line = json_of(text.decode(errors="replace")) or {}
            self._books.had(self._name, line)
            fields = {"consumer": self._name, "channel": line.get("channel", "")}
            fields |= {"message_id": line.get("messageId", ""), "position": line.get("position")}
            self._setup.record("application", "application.effect", fields)

    def _take_back(self) -> None:
        """None of the lines stays, as what belongs to them could not be written."""
        if not self._setup.breaks_writes and self.spare_octets is None:
            self._found(f"{self._name}: {self._had} effects were had and are not kept")
        self._look("that are taken back")

    def look_at_the_end(self) -> None:
        """Nothing has become of the file but what was told."""
        if self.path.exists():
            self._look("in the end")

    def _look(self, when: str) -> None:
        octets = self.path.stat().st_size
        if octets != self._told_octets:
            due = self._told_octets
            self._found(f"{self._name}: effects {when}: expected {due} octets, observed {octets}")


_PREFIX = "once/more"
_REMOVED_US = 100_000
Said = tuple[Published, dict[str, object]]


class Relay:
    """The effect: each message on another topic, where the application takes it once.

    Finds what is wrong with what arrives there: it is what the consumer was brought, of each topic
    in order, and comes a second time only where its acknowledgement was lost. At most `room`
    messages wait for that.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        folder: Path,
        room: int,
        record: Record,
        found: Callable[[str], None],
    ) -> None:
        self._name, self._client_id = name, f"{name.replace(' ', '-')}-out"
        self._chance = stream(seed, name, "relay")
        self._room, self._record, self._found = room, record, found
        self._broker = MqttBroker(folder / "relay", self._take, found)
        self._broker.receive_max = RECEIVE_MAX  # a broker says nothing of that
        self._brought: defaultdict[tuple[str, str], deque[bytes]] = defaultdict(deque)
        self._owed: defaultdict[str, deque[Said]] = defaultdict(deque)
        self._taken_us: dict[Published, int] = {}
        self.start = self._broker.listen
        self.start()

    def effect(self, store: SqliteInboxStore) -> Republishing:
        """What a consumer that starts has its messages done by."""
        self._file = store.path
        try:
            self._effect = Republishing(store, _PREFIX, messages_max=self._room)
        except ValueError as error:
            raise ConsumerDied(f"consumer {self._name} ended: {error}") from error
        return self._effect

    @asynccontextmanager
    async def open(self, effect: Republishing) -> AsyncIterator[None]:
        """Send what waits, as a consumer does as long as it runs."""
        there = Broker(str(self._broker.path), 1)
        sender = MqttSender(there, effect, client_id=self._client_id, chance=self._chance)
        async with sender:
            effect.look = sender.look
            yield

    def brought(self, topic: str, message_id: object, payload: bytes) -> None:
        """The consumer is brought a message."""
        self._brought[topic, str(message_id)].append(payload)

    def told(self, event: Event) -> None:
        """The consumer has decided: what it accepts is owed to the application from now on."""
        if not isinstance(event, Accepted):
            return
        payload = self._brought.pop((event.channel, event.message_id), deque([b""]))[0]
        properties = {
            "messageId": event.message_id,
            "removeDuplicatesKey": event.key or event.message_id,
            "partitionKey": event.partition_key,
            "sequenceNumber": str(event.sequence_number or 0),
        }
        topic = f"{_PREFIX}/{event.channel}"
        due = Published(self._client_id, topic, payload, tuple(properties.items()), False, False)
        fields: dict[str, object] = {"consumer": self._name, "channel": event.channel}
        fields |= {"message_id": event.message_id, "position": event.position}
        self._owed[topic].append((due, fields))
        if self._owing > self._room:
            self._wrong(f"at most {self._room} messages that wait", self._owing)

    def stop(self) -> None:
        """The broker is away, until `start`."""
        self._broker.stop()

    def end(self) -> None:
        """The case is over, and the consumer has ended."""
        self._broker.go()
        count = -1  # there is no such table
        with closing(connect(self._file)) as db, suppress(OperationalError):
            [count] = db.execute("SELECT count(*) FROM inbox_republished").fetchone()
        if count != self._owing:
            self._wrong(f"{self._owing} messages in the file in the end", count)
        if count >= 0 and self._effect.waiting != count:
            self._wrong(f"{count} messages that wait in the end", self._effect.waiting)

    @property
    def _owing(self) -> int:
        return sum(map(len, self._owed.values()))

    def _take(self, message: Published) -> None:
        owed = self._owed[message.topic]
        if owed and owed[0][0] == message:
            _, fields = owed.popleft()
            self._taken_us[message] = now_us()
            self._record("application", "application.effect", fields)
        elif message not in self._taken_us:
            self._wrong(owed[0][0] if owed else f"nothing on {message.topic}", message)
        elif self._broker.lost_us - self._taken_us[message] > _REMOVED_US:
            self._wrong(f"{dict(message.properties)} once, as it was acknowledged", "it again")

    def _wrong(self, due: object, observed: object) -> None:
        self._found(f"{self._name}: published once more: expected {due}, observed {observed}")


class InboxWire(Wire):
    """The wire of one consumer to a Redis, or the file that it has: whole, slow or cut.

    What is cut takes nothing and says nothing; of a file only writing is kept from it. `fault` is
    told what begins and what ends.
    """

    def __init__(self, file: Callable[[], Path | None], fault: Callable[..., None]) -> None:
        self._file = file
        self._fault = fault
        self._is_cut = False
        self._delay_us = 0
        self._seized: Connection | None = None

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    @property
    def delay_us(self) -> int:
        return self._delay_us

    def cut(self) -> None:
        self._is_cut = True
        file = self._file()
        if file is not None:
            self._seized = seize(file)
        self._fault("cut", "fault.begin")

    def delay(self, us: int) -> None:
        self._delay_us = us
        self._fault("delay", "fault.begin", after_us=us)

    async def restore(self) -> None:
        self.end()
        self._fault("cut", "fault.end")

    def end(self) -> None:
        """Let everything pass again."""
        self._is_cut, self._delay_us = False, 0
        if self._seized is not None:
            self._seized.close()
            self._seized = None
