"""How does what waits in a file reach the broker, and what if the broker is away?

The outbox makes a message durable; a sender takes the outbox to the broker, in order, over MQTT 5.0
with QoS 1, and removes what the broker has acknowledged. Whatever is unacknowledged when a
connection or the process ends goes out again with the same id, so each message arrives at least
once. Of a topic one message at a time is on its way: a broker may refuse it (3.4.2.1: a PUBACK
with 0x80 or more) and would take those behind it, and then it is too late for the first one. What
it refuses waits, and what is behind it of its topic, and is tried again; other topics go on, also
on the next connection: Mosquitto (2.0.11) ends one in which it has refused something.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, Required, Self, TypedDict, Unpack

from paho.mqtt.client import Client
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from lns.clock import Trouble, now_us
from lns.delivery.mqtt_session import Attempts, BackOff, Broker, MqttSession, Patience
from lns.delivery.outbox import MESSAGES_MAX, Entry, Outbox, Refusals, Turns
from lns.delivery.publisher import ForApplication, UpstreamUnavailable

log = logging.getLogger(__name__)

_QOS = 1
_USER_PROPERTY = 0x26  # MQTT 5.0, 3.3.2.3.7


class MqttConnection:
    """What is sent on one connection, its `wire`: `send` while there is `room`.

    `acknowledged` is told the entries of every PUBACK, several at a time, or none where only what
    was told made room; `refused` those that the broker did not take, with its words, before.
    """

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        patience: Patience,
        acknowledged: Callable[[Sequence[Entry]], None],
        refused: Callable[[Sequence[tuple[Entry, str]]], None],
    ) -> None:
        self._patience = patience
        self._tell, self._tell_refused = acknowledged, refused
        self._in_flight: dict[int, Entry] = {}
        self._acknowledged: list[Entry] = []
        self._refused: list[tuple[Entry, str]] = []
        self._progress_us = 0
        self._reported: set[int] = set()
        self._has_more_room = False
        self.wire = MqttSession(
            broker, client_id, patience, self._tell_answered, look=self._look_at_deadline
        )
        self.wire.client.on_publish = self._published

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        in_flight = len(self._in_flight) + len(self._reported)
        return self.wire.receive_max - in_flight if self.wire.is_open else 0

    def unacknowledged(self) -> list[Entry]:
        """What was sent and not acknowledged, in the order of sending."""
        return list(self._in_flight.values())

    def send(self, entries: Sequence[Entry]) -> None:
        """Publish these, in this order; there must be `room` for them."""
        if not self._in_flight:
            self._progress_us = now_us()
        for entry in entries:
            sent = self.wire.client.publish(
                entry.topic, entry.body, qos=_QOS, properties=_UserProperties(entry)
            )
            # What could not be sent is unacknowledged like the rest, and goes out with it.
            self._in_flight[sent.mid] = entry
        self.wire.write_when_possible()

    def tell(self, topic: str, body: bytes) -> None:
        """Let the broker retain something; there must be `room` for it. It is not sent again."""
        sent = self.wire.client.publish(topic, body, qos=_QOS, retain=True)
        self._reported.add(sent.mid)
        self.wire.write_when_possible()

    def _look_at_deadline(self) -> None:
        silent_us = now_us() - self._progress_us
        if self._in_flight and silent_us > self._patience.acknowledge_us:
            self.wire.lose(f"acknowledges nothing within {self._patience.acknowledge_us} us")

    def _tell_answered(self) -> None:
        acknowledged, self._acknowledged = self._acknowledged, []
        refused, self._refused = self._refused, []
        if refused:
            self._progress_us = now_us()
            self._tell_refused(refused)
        if acknowledged:
            self._progress_us, self.wire.useful = now_us(), True
        if acknowledged or self._has_more_room:
            self._has_more_room = False
            self._tell(acknowledged)

    def _published(self, client: Client, data: Any, mid: int, said: ReasonCode, more: Any) -> None:
        if mid in self._reported:
            self._reported.discard(mid)
            self._has_more_room = True
            return  # a broker that lets nobody retain anything takes the messages
        if self.wire.is_lost or mid not in self._in_flight:
            return
        if said.is_failure:
            self._refused.append((self._in_flight.pop(mid), str(said)))
        else:
            self._acknowledged.append(self._in_flight.pop(mid))


class _UserProperties(Properties):
    """The user properties of one message, packed at once: paho's own packing takes 50 µs."""

    def __init__(self, entry: Entry) -> None:
        pairs = (
            ("messageId", entry.message_id),
            ("removeDuplicatesKey", entry.remove_duplicates_key),
            ("partitionKey", entry.partition_key),
            ("sequenceNumber", str(entry.sequence_number)),
        )
        packed = b"".join(
            bytes([_USER_PROPERTY]) + _string(name) + _string(value) for name, value in pairs
        )
        object.__setattr__(self, "_packed", _variable_byte_integer(len(packed)) + packed)

    def pack(self) -> bytes:
        """The property length and the properties (MQTT 5.0, 2.2.2)."""
        packed: bytes = object.__getattribute__(self, "_packed")
        return packed


def _string(text: str) -> bytes:
    octets = text.encode()
    return len(octets).to_bytes(2, "big") + octets


def _variable_byte_integer(value: int) -> bytes:
    """MQTT 5.0, 1.5.5: seven bits an octet, the lowest first."""
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


_READY_MAX = 1000  # messages held in memory beside those in flight
_GATHER_S = 0.02  # acknowledgements wait so long for others to be removed with
_TELL_S = 10.0  # so often it is told how far messages have come
_AGAIN_S = 1.0  # a disk that refused is asked again after this


class Pending(Protocol):
    """Messages on a disk, in order, for as long as the broker has not acknowledged them.

    Each method may raise UpstreamUnavailable; it is tried again then.
    """

    @property
    def waiting(self) -> int:
        """How many there are."""

    async def after(self, position: int, limit: int) -> list[Entry]:
        """The next durable messages behind a position, at most `limit`."""

    async def remove(self, positions: Sequence[int]) -> None:
        """Forget messages that were acknowledged."""

    async def park(self, positions: Sequence[int]) -> None:
        """Put messages aside that are not to be sent any more; only asked for with `retry_us`."""

    async def compact(self) -> None:
        """Give space back that is not needed any more."""


@dataclass(frozen=True, slots=True)
class Producer:
    """What a producer says of itself to those who remove its duplicates.

    It sends no message that waits for longer than `retry_us`: that is parked, and `parked` told.
    `topic` has, retained, a time such that everything of before is with the broker (`body_of`, µs
    since 1970, UTC, as `utc_us` tells it).
    """

    topic: str
    body_of: Callable[[int], bytes]
    retry_us: int
    parked: Callable[[Entry, int], None]
    utc_us: Callable[[], int]


class MqttSender:
    """Takes what is `pending` to a broker, running as `async with`.

    `client_id` must be this sender's own. `chance` draws the jitter of the back-off. A broker that
    is away is no error. `acknowledged` is told of every message that the broker has taken, and how
    many it has not. What it refuses is tried again after the waits of `back_off`, and what is
    behind it of its topic waits with it. At the end, what is on its way gets `drain_us` to be
    acknowledged; the rest stays where it is for the next start.

    A broker that is killed forgets what it acknowledged and had not written. With `keep_us` a
    message stays for so long after its acknowledgement, and goes out again, before any later one,
    if the connection or this process ends meanwhile. That must be longer than the broker takes to
    write (Mosquitto: `autosave_interval`); then nothing is lost, and more arrives twice.

    With a `producer` what waits for too long is parked, and how far the rest has come is told.
    """

    def __init__(
        self,
        broker: Broker,
        pending: Pending,
        *,
        client_id: str,
        chance: random.Random,
        acknowledged: Callable[[Entry, int], None] | None = None,
        patience: Patience | None = None,
        back_off: BackOff | None = None,
        drain_us: int = 1_000_000,
        keep_us: int = 0,
        producer: Producer | None = None,
    ) -> None:
        self._broker = broker
        self._keep_us = keep_us
        self._producer = producer
        self._overdue: dict[int, Entry] = {}
        self._wants_room = False  # how far the messages have come is told before more of them
        self._client_id = client_id
        self._tell_acknowledged = acknowledged
        self._patience = patience or Patience()
        back_off = back_off or BackOff()
        self._attempts = Attempts(back_off, chance)
        self._refusals = Refusals(back_off, chance, self._try_again)
        self._drain_us = drain_us
        self._pending = pending
        self._connection: MqttConnection | None = None
        self._ready = Turns()
        self._read_to = 0
        self._acknowledged: deque[tuple[int, Entry]] = deque()  # since when, what
        self._more, self._tidy = asyncio.Event(), asyncio.Event()
        self._removal = asyncio.Lock()
        self._empty, self._connected = asyncio.Event(), asyncio.Event()
        self._trouble = Trouble(log, "is not connected yet")
        self._work: list[asyncio.Task[None]] = []
        self._tasks = asyncio.TaskGroup()

    @property
    def connected(self) -> bool:
        """Whether the broker takes messages now."""
        return self._connection is not None

    @property
    def waiting(self) -> int:
        """How many messages are durable here and not yet acknowledged by the broker."""
        return self._pending.waiting - len(self._acknowledged)

    @property
    def state(self) -> str | None:
        """What keeps the broker from taking messages, as in "is gone"; None when it takes them."""
        return self._trouble.state

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        work: list[Coroutine[Any, Any, None]] = [
            self._attempts.hold(self._deliver, self._say),
            self._read_on(),
            self._clear(),
        ]
        if self._producer is not None:
            work += [self._park(self._producer), self._tell_oldest(self._producer)]
        self._work = [self._tasks.create_task(task) for task in work]
        self._more.set()
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is None and self.connected:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._drain_us / 1_000_000):
                        await self.drained()
        finally:
            async with self._removal:  # what was removed is counted, too
                for task in self._work:
                    task.cancel()
                self._refusals.close()
            try:
                await self._tasks.__aexit__(kind, error, trace)
            finally:
                with suppress(UpstreamUnavailable):
                    await self._remove(self._done())

    def look(self) -> None:
        """There may be more to send than before."""
        self._more.set()

    async def drained(self) -> None:
        """Wait until the broker has acknowledged everything; for as long as that takes."""
        while self.waiting:
            self._empty.clear()
            await self._empty.wait()

    @asynccontextmanager
    async def _deliver(self) -> AsyncIterator[MqttSession]:
        connection = MqttConnection(
            self._broker,
            self._client_id,
            self._patience,
            self._take_acknowledged,
            self._take_refused,
        )
        try:
            await connection.wire.open()
            self._connection = connection
            self._say(None)
            self._send()
            self._connected.set()
            yield connection.wire
        finally:
            self._connection = None
            connection.wire.close()
            self._take_back(connection.unacknowledged())

    async def _read_on(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            limit = _READY_MAX - self._ready.ahead
            if limit <= 0:
                continue
            try:
                entries = await self._pending.after(self._read_to, limit)
            except UpstreamUnavailable as unavailable:
                log.warning("%s", unavailable)
                await asyncio.sleep(_AGAIN_S)
                self._more.set()
                continue
            if entries:
                self._read_to = entries[-1].position
                self._ready.add(entries)
                self._more.set()
                self._send()
            elif not self.waiting:
                self._empty.set()  # what was to be added may have been refused

    async def _clear(self) -> None:
        while True:
            await self._tidy.wait()
            self._tidy.clear()
            await asyncio.sleep(_GATHER_S)
            try:
                await self._remove(self._done())
            except UpstreamUnavailable as unavailable:
                log.warning("%s", unavailable)
                await asyncio.sleep(_AGAIN_S)
                self._tidy.set()
                continue
            with suppress(UpstreamUnavailable):
                await self._pending.compact()
            if self._acknowledged and self._keep_us:
                await asyncio.sleep(min(_AGAIN_S, self._keep_us / 1_000_000))
                self._tidy.set()

    async def _park(self, producer: Producer) -> None:
        while True:
            await asyncio.sleep(_AGAIN_S)
            limit = _READY_MAX + len(self._with_the_broker())
            try:
                head = await self._pending.after(0, limit) if self.waiting else []
                # Some may have been sent since.
                busy = {entry.position for entry in self._with_the_broker()}
                old = {entry.position: entry for entry in head if self._is_overdue(entry)}
                old = {at: entry for at, entry in (old | self._overdue).items() if at not in busy}
                if not old:
                    continue
                await self._pending.park(sorted(old))
            except UpstreamUnavailable as unavailable:
                log.warning("%s", unavailable)
                continue
            self._overdue = {}
            self._ready.leave_out(old)
            for entry in old.values():
                if entry.topic not in self._ready:
                    self._refusals.forget(entry.topic)
            for _, entry in sorted(old.items()):
                producer.parked(entry, self.waiting)
            log.warning(
                "%d messages are parked: they wait for longer than %d s",
                len(old),
                producer.retry_us // 1_000_000,
            )
            if not self.waiting:
                self._empty.set()

    def _is_overdue(self, entry: Entry) -> bool:
        """Whether nobody expects a message any more: whoever has had it may have forgotten it."""
        producer = self._producer
        if producer is None:
            return False
        since_us = entry.waits_since_us
        return since_us is not None and producer.utc_us() - since_us > producer.retry_us

    async def _tell_oldest(self, producer: Producer) -> None:
        while True:
            self._connected.clear()
            at_us = self._oldest_us(producer)
            connection = self._connection
            if connection is not None and at_us is not None:
                self._wants_room = not connection.room
                if connection.room:
                    connection.tell(producer.topic, producer.body_of(at_us))
            with suppress(TimeoutError):
                async with asyncio.timeout(_TELL_S):
                    await self._connected.wait()

    def _oldest_us(self, producer: Producer) -> int | None:
        sent = self._with_the_broker()
        first = [*sent, *self._overdue.values(), *self._ready]
        if not first:
            return None if self._pending.waiting else producer.utc_us()
        oldest_us = producer.utc_us()
        for entry in first:  # by a clock that was set back, what is behind others may be older
            if (since_us := entry.waits_since_us) is None:
                return None
            oldest_us = min(oldest_us, since_us)
        return oldest_us

    def _with_the_broker(self) -> list[Entry]:
        sent = [] if self._connection is None else self._connection.unacknowledged()
        return [*sent, *(entry for _, entry in self._acknowledged)]

    def _done(self) -> list[int]:
        until_us = now_us() - self._keep_us
        over = takewhile(lambda kept: kept[0] <= until_us, self._acknowledged)
        return [entry.position for _, entry in over]

    async def _remove(self, positions: Sequence[int]) -> None:
        if not positions:
            return
        async with self._removal:
            await self._pending.remove(positions)
            for _ in positions:
                self._acknowledged.popleft()

    def _take_back(self, unacknowledged: Sequence[Entry]) -> None:
        """The connection is lost: what may be lost with it is to be sent before all else."""
        again = list(unacknowledged)
        until_us = now_us() - self._keep_us
        while self._keep_us and self._acknowledged and self._acknowledged[-1][0] > until_us:
            again.append(self._acknowledged.pop()[1])
        self._ready.put_back(again)

    def _take_acknowledged(self, entries: Sequence[Entry]) -> None:
        at_us = now_us()
        for entry in entries:
            self._acknowledged.append((at_us, entry))
            self._ready.let_go(entry.topic)
            if self._refusals.forget(entry.topic):
                log.info("%s takes messages on %s again", self._broker, entry.topic)
            if self._tell_acknowledged is not None:
                self._tell_acknowledged(entry, self.waiting)
        if entries:
            self._tidy.set()
        if not self.waiting:
            self._empty.set()
        self._send()

    def _send(self) -> None:
        connection = self._connection
        if connection is None:
            return
        batch: list[Entry] = []
        room = connection.room
        if self._wants_room and room:
            self._wants_room, room = False, room - 1
            self._connected.set()
        while len(batch) < room and (entry := self._ready.take()) is not None:
            if self._is_overdue(entry):
                self._overdue[entry.position] = entry
                self._ready.let_go(entry.topic)
            else:
                batch.append(entry)
        if batch:
            connection.send(batch)
        if self._ready.ahead < _READY_MAX // 2:
            self._more.set()

    def _take_refused(self, refused: Sequence[tuple[Entry, str]]) -> None:
        for entry, said in refused:
            self._ready.refuse(entry)
            if self._refusals.note(entry.topic) == 1:
                log.warning("%s refuses messages on %s: %s", self._broker, entry.topic, said)
        self._send()

    def _try_again(self, topic: str) -> None:
        self._ready.try_again(topic)
        self._send()

    def _say(self, state: str | None) -> None:
        said = "is connected" if state is None else state
        self._trouble.is_now(state, "%s %s; %d messages wait", self._broker, said, self.waiting)


class Sending(TypedDict, total=False):
    """How an `MqttSender` sends."""

    client_id: Required[str]
    chance: Required[random.Random]
    acknowledged: Callable[[Entry, int], None]
    patience: Patience
    back_off: BackOff
    drain_us: int
    keep_us: int
    producer: Producer


class MqttUpstream:
    """The way to the application over a broker; an `Upstream`, running as `async with`.

    Entering opens the outbox: UpstreamUnavailable when it is in use or unusable; a broker that is
    away is no error. What is not acknowledged at the end stays in the outbox for the next start.
    """

    def __init__(
        self,
        broker: Broker,
        outbox: Path,
        *,
        messages_max: int = MESSAGES_MAX,
        **sending: Unpack[Sending],
    ) -> None:
        self._broker = broker
        self._path, self._messages_max = outbox, messages_max
        self._sending = sending
        self._outbox: Outbox | None = None
        self._sender: MqttSender | None = None

    @property
    def connected(self) -> bool:
        return self._running.connected

    @property
    def waiting(self) -> int:
        return self._running.waiting

    @property
    def _running(self) -> MqttSender:
        assert self._sender is not None, "only inside `async with`"
        return self._sender

    async def __aenter__(self) -> "MqttUpstream":
        self._outbox = Outbox(self._path, messages_max=self._messages_max)
        self._sender = MqttSender(self._broker, self._outbox, **self._sending)
        await self._sender.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        assert self._outbox is not None
        try:
            await self._running.__aexit__(*raised)
        finally:
            self._outbox.close()

    async def publish(self, message: ForApplication) -> None:
        """Take one message; it is on the disk when this returns, else UpstreamUnavailable."""
        assert self._outbox is not None, "only inside `async with`"
        try:
            await self._outbox.add(message)
        except UpstreamUnavailable as unavailable:
            state = self._running.state
            if state is None:
                raise
            raise UpstreamUnavailable(f"{unavailable}; {self._broker} {state}") from None
        finally:
            # Also when nobody waits any more: the message may become durable yet.
            self._running.look()

    async def drained(self) -> None:
        await self._running.drained()
