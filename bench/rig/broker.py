"""The broker between network servers and consumers, in memory: what does it bring, and how often?

At least once (MQTT QoS 1): each message stays with the broker until its consumer has acknowledged
it on the connection that brought it; the next connection brings it again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.capture import Record
from lns.clock import now_us

UP_TOPIC, STATUS_TOPIC = "/up", "/status"
"""How the topics of uplinks, and of what devices tell of themselves, end."""

Take = Callable[[str, bytes, Callable[[], None]], None]  # topic, payload, acknowledge


class Witness:
    """Hears every message at the broker and writes which kind it is of; remembers all of them.

    `upstream.published`: a server's message. `upstream.repeated`: the same one, by its number in
    its topic, sent again. `upstream.injected`: none of a server's. `upstream.status`: what a device
    told of itself, which is no uplink.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._published: set[tuple[object, ...]] = set()

    def hear(self, topic: str, body: Mapping[str, object], *, injected: bool = False) -> None:
        """Write down one message as the broker has it; `injected`: the bench has published it."""
        kind = "upstream.injected" if injected else "upstream.published"
        if not injected:
            same = topic, body["messageId"], body["sequenceNumber"]
            kind = "upstream.repeated" if same in self._published else kind
            self._published.add(same)
        if topic.endswith(STATUS_TOPIC):
            kind = "upstream.status"
        self._record("upstream", kind, {"topic": topic, "body": body})


@dataclass(slots=True)
class _Kept:
    """One message that was not acknowledged, and when it was sent (µs)."""

    topic: str
    payload: bytes
    sent_us: int


@dataclass(slots=True)
class _Session:
    """What one consumer is owed; `take` while it is connected."""

    kept: dict[int, _Kept] = field(default_factory=dict)
    take: Take | None = None
    connection: int = 0
    loses_acks: bool = False


class MemoryBroker:
    """Brings each message to each consumer, in order; `is_up` False: it takes and brings nothing.

    A session begins with its name (`expect`) and has no end, so that nothing is missed.
    """

    def __init__(self, witness: Witness) -> None:
        self.is_up = True
        self._witness = witness
        self._sessions: dict[str, _Session] = {}
        self._numbers = 0

    def expect(self, consumer: str) -> None:
        """Keep every message for a consumer from now on."""
        self._sessions[consumer] = _Session()

    def publish(self, topic: str, body: Mapping[str, object], *, injected: bool = False) -> None:
        """Take one message, and bring it to whoever is connected; `injected`: of the bench."""
        assert self.is_up, "whoever publishes waits until it is"
        self._witness.hear(topic, body, injected=injected)
        if not self._sessions or topic.endswith(STATUS_TOPIC):
            return  # consumers ask for uplinks only
        payload = json.dumps(body).encode()
        self._numbers += 1
        for session in self._sessions.values():
            session.kept[self._numbers] = _Kept(topic, payload, now_us())
            self._bring(session, self._numbers)

    def connect(self, consumer: str, take: Take) -> None:
        """Bring a consumer what it has not acknowledged, and what comes."""
        session = self._sessions[consumer]
        session.connection += 1
        session.take, session.loses_acks = take, False
        self._bring_all(session)

    def disconnect(self, consumer: str) -> None:
        """Hear nothing more of a consumer."""
        session = self._sessions[consumer]
        session.connection += 1
        session.take = None

    def lose_acks(self, consumer: str) -> None:
        """Do not hear what a consumer acknowledges, until `redeliver`."""
        self._sessions[consumer].loses_acks = True

    def redeliver(self, consumer: str) -> None:
        """Bring again what was not acknowledged."""
        session = self._sessions[consumer]
        session.connection += 1
        session.loses_acks = False
        self._bring_all(session)

    def stop(self) -> None:
        """Bring nothing until `start`, and hear no acknowledgement."""
        self.is_up = False
        for session in self._sessions.values():
            session.connection += 1

    def start(self) -> None:
        """Go on with what was not acknowledged."""
        self.is_up = True
        for session in self._sessions.values():
            self._bring_all(session)

    def oldest_us(self, consumer: str) -> int | None:
        """When the oldest message was sent that a consumer has not acknowledged; None: none is."""
        return min((kept.sent_us for kept in self._sessions[consumer].kept.values()), default=None)

    def _bring_all(self, session: _Session) -> None:
        for number in list(session.kept):
            self._bring(session, number)

    def _bring(self, session: _Session, number: int) -> None:
        if session.take is None or not self.is_up:
            return
        connection, kept = session.connection, session.kept[number]

        def acknowledge() -> None:
            if session.connection == connection and not session.loses_acks:
                session.kept.pop(number, None)

        session.take(kept.topic, kept.payload, acknowledge)
