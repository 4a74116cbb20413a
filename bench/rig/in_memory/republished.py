"""What does a consumer publish once more, on topics of its own?"""

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from sqlite3 import connect

from bench.capture import Record
from bench.chance import stream
from bench.virtual.mqtt_broker import MqttBroker, Published
from lns.clock import now_us
from lns.delivery.effect import Republishing
from lns.delivery.inbox import Accepted, Event
from lns.delivery.mqtt_sender import MqttSender
from lns.delivery.mqtt_session import Broker
from lns.store.inbox_store import SqliteInboxStore

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
        self._brought: defaultdict[tuple[str, str], deque[bytes]] = defaultdict(deque)
        self._owed: defaultdict[str, deque[Said]] = defaultdict(deque)
        self._taken_us: dict[Published, int] = {}
        self.start()

    def effect(self, store: SqliteInboxStore) -> Republishing:
        """What a consumer that starts has its messages done by."""
        self._file = store.path
        return Republishing(store, _PREFIX, messages_max=self._room)

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
        self._broker.go()

    def start(self) -> None:
        self._broker.listen()

    def end(self) -> None:
        """The case is over, and the consumer has ended."""
        with closing(connect(self._file)) as db:
            [count] = db.execute("SELECT count(*) FROM inbox_republished").fetchone()
        if count != self._owing:
            self._wrong(f"{self._owing} messages in the file in the end", count)
        self._broker.go()

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
