"""What lies behind the servers of this process: outboxes, a broker, consumers."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from bench.capture import Record
from bench.host.program import ConsumerDied
from bench.inspection import consumer
from bench.inspection.consumer import ConsumerBooks, Rules
from bench.rig.case_setup import CaseSetup
from bench.rig.interfaces import Application, Consumer, ConsumerSettings, Wire
from bench.verdict.case import fault_fields
from bench.verdict.wire import json_of
from lns.clock import now_us
from lns.delivery import Incoming
from lns.delivery.detectors import Detector
from lns.delivery.inbox import Event, Figures, Inbox, figures_of
from lns.delivery.publisher import ForApplication, UpstreamUnavailable
from lns.store.inbox_store import InboxStore, MemoryInboxStore, Transaction

UP_TOPIC, STATUS_TOPIC = "/up", "/status"
"""How the topics of uplinks, and of what devices tell of themselves, end."""

# At least once (MQTT QoS 1): each message stays with the broker until its consumer has acknowledged
# it on the connection that brought it; the next connection brings it again.
Take = Callable[[str, bytes, Callable[[], None]], None]  # topic, payload, acknowledge
PUBLISHED = ("upstream.published", "upstream.repeated", "upstream.injected")
"""The kinds of what a broker has had."""


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
        session = self._sessions[consumer]
        session.connection += 1
        session.take = None

    def lose_acks(self, consumer: str) -> None:
        """Do not hear what a consumer acknowledges, until `redeliver`."""
        self._sessions[consumer].loses_acks = True

    def redeliver(self, consumer: str) -> None:
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


CRASHES = ("effect", "commit", "ack")


class Crashed(BaseException):
    """The consumer is gone; no part of it catches this."""


class Refused(Exception):
    """The application cannot have this message."""


class Lines:
    """The effect: one line for each message, written to the capture once nobody takes it back.

    `elsewhere` nobody can, whatever becomes of the transaction. The one that it `refuses` fails,
    the first `refusals` times (None: always).
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        record: Record,
        crashes: Callable[[str], None],
        books: ConsumerBooks,
        found: Callable[[str], None],
    ) -> None:
        self._name = settings.name
        self._books = books
        self._found = found
        self._record = record
        self._crashes = crashes
        self._elsewhere = settings.elsewhere
        self._refuses = settings.refuses
        self._refusals = settings.refusals
        self._lines: list[dict[str, object]] = []

    def open(self, transaction: Transaction) -> None:
        """Cut off what was never kept."""
        self._lines = []

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        """Have one more line."""
        self._crashes("effect")
        for text in self._books.tried(self._name, message.message_id, now_us()):
            self._found(text)
        if message.message_id == self._refuses and self._refusals != 0:
            if self._refusals is not None:
                self._refusals -= 1
            self._books.failed(self._name, message.message_id, now_us())
            raise Refused(message.message_id)
        line = {"consumer": self._name, "channel": message.channel}
        self._lines.append(
            {**line, "message_id": message.message_id, "position": transaction.position}
        )
        if self._elsewhere:
            self._write()
        self._crashes("commit")

    def flush(self, transaction: Transaction) -> None:
        """The lines are as durable as the transaction."""

    def end(self, *, kept: bool) -> None:
        """Keep the lines or none of them."""
        if kept:
            self._write()
        self._lines = []

    def _write(self) -> None:
        for line in self._lines:
            self._record("application", "application.effect", line)
        self._lines = []


class MemoryConsumer(Consumer):
    """One consumer with its store, which outlives it as a disk does."""

    def __init__(
        self,
        settings: ConsumerSettings,
        store: InboxStore,
        broker: MemoryBroker,
        setup: CaseSetup,
        utc_us: Callable[[], int],
        books: ConsumerBooks,
    ) -> None:
        self.settings = settings
        self._books = books
        self._store = store
        self._broker = broker
        self._setup = setup
        self._utc_us = utc_us
        self._crash_at: str | None = None
        self._running: asyncio.Task[None] | None = None
        self._inbox: Inbox | None = None
        broker.expect(settings.name)

    async def start(self) -> None:
        lines = Lines(
            self.settings, self._setup.record, self._crashes, self._books,
            lambda text: self._find([text]),
        )  # fmt: skip
        inbox = Inbox(
            self._store, lines, self.settings.detectors(self._oldest_us),
            told=self._tell, utc_us=self._utc_us,
        )  # fmt: skip
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = self._setup.tasks.create_task(self._run(inbox, begun))
        await begun

    async def kill(self) -> None:
        self._broker.disconnect(self.settings.name)
        self._books.gone(self.settings.name)
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def crash(self, at: str) -> None:
        self._setup.case.fault("consumer", "crash", consumer=self.settings.name, at=at)
        if at not in CRASHES:
            raise ValueError(f"{at!r} is none of {', '.join(CRASHES)}")
        self._crash_at = at

    async def until_crashed(self) -> None:
        if self._crash_at is not None and self._running is not None:
            await asyncio.wait({self._running})

    async def lose_acks(self) -> None:
        name = self.settings.name
        self._setup.case.fault("broker", "lose acknowledgements", consumer=name)
        self._broker.lose_acks(name)

    async def redeliver(self) -> None:
        if self._inbox is not None:
            await self._inbox.settled()
        self._broker.redeliver(self.settings.name)

    async def _run(self, inbox: Inbox, begun: "asyncio.Future[None]") -> None:
        name = self.settings.name
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            async with inbox:
                self._inbox = inbox
                self._broker.connect(name, lambda *message: self._offer(inbox, ended, *message))
                begun.set_result(None)
                await ended
        except* Crashed:
            self._broker.disconnect(name)
            self._books.gone(name)
            self._crash_at = None
        except* Exception as error:
            cause = error.exceptions[0]
            if not begun.done():
                begun.set_exception(cause)
            else:
                text = f"consumer {name} ended: {type(cause).__name__}: {cause}"
                raise ConsumerDied(text) from error
        finally:
            self._inbox = None

    def _offer(
        self,
        inbox: Inbox,
        ended: asyncio.Future[None],
        topic: str,
        payload: bytes,
        acknowledge: Callable[[], None],
    ) -> None:
        def keep() -> None:
            self._crashes("ack")
            self._find(self._books.acknowledged(self.settings.name, topic))
            acknowledge()

        self._books.brought(self.settings.name, topic, _named(payload))
        try:
            inbox.offer(topic, payload, {}, 1, keep)
        except Exception as error:
            if not ended.done():
                ended.set_exception(error)

    def _crashes(self, at: str) -> None:
        if at == self._crash_at:
            self._broker.disconnect(self.settings.name)
            self._books.is_blind |= at == "ack"  # of a batch the others are kept and not told
            raise Crashed

    def _tell(self, event: Event) -> None:
        said = msgspec.to_builtins(event)
        self._setup.record("inbox", event.kind, {"consumer": self.settings.name, **said})
        self._find(self._books.told(self._rules(), event.kind, said, self._utc_us()))

    def _find(self, wrong: Iterable[str]) -> None:
        for text in wrong:
            self._setup.case.find(consumer.found(text, now_us()))

    def _rules(self) -> Rules:
        of = self.settings
        return Rules(
            of.name, of.window_us, of.partitioned, of.sequence, of.keys, of.retention_us,
            of.retry_us + of.network_us, self._oldest_us if of.knows_oldest else None,
        )  # fmt: skip

    def _oldest_us(self) -> int | None:
        then_us = self._broker.oldest_us(self.settings.name)
        return None if then_us is None else self._utc_us() - (now_us() - then_us)


def _named(payload: bytes) -> object:
    body = json_of(payload.decode(errors="replace"))
    return None if body is None else body.get("messageId")


def _figures(of: Figures) -> dict[str, int]:
    """The figures of a store by the words of the books."""
    ignored = {f"ignored by {by}": number for by, number in of.ignored.items()}
    accepted, unreadable = of.accepted, of.unreadable
    decided = {"inbox.accepted": accepted, "inbox.unreadable": unreadable}
    failed = {"inbox.parked": of.parked, "failed": of.tries_failed, "evicted": of.evicted}
    return {**decided, **ignored, **failed, "NumDupMsgsRcvd": of.num_dup_msgs_rcvd}


_Body = dict[str, object]
_Published = tuple[str, _Body]


class Outboxes:
    """The outboxes of all servers: take messages durably and bring them to the broker.

    Numbers the messages of each topic from 1. `refuse` and `delay` force an outbox that cannot be
    written, or is slow; both act on the next `messages` messages of a server, or of any (None).
    """

    def __init__(self, record: Record, broker: MemoryBroker | None = None) -> None:
        self._record = record
        self._broker = broker or MemoryBroker(Witness(record))
        self._numbers: Counter[str] = Counter()
        self._refusals: list[str | None] = []
        self._full: set[str] = set()
        self._delays_us: list[tuple[str | None, int]] = []
        self._away: dict[str, str] = {}
        self._kept: list[_Published] = []

    def refuse(self, messages: int = 1, lns: str | None = None) -> None:
        self._refusals += [lns] * messages
        self._fault("refuse", messages=messages, **_of(lns))

    def delay(self, us: int, messages: int = 1, lns: str | None = None) -> None:
        """Take each of the next messages only after `us`."""
        self._delays_us += [(lns, us)] * messages
        self._fault("delay", us=us, messages=messages, **_of(lns))

    def fill_disk(self, lns: str) -> None:
        """Take nothing of a server, until `free_disk`."""
        self._full.add(lns)
        self._fault("disk full", lns=lns)

    def free_disk(self, lns: str) -> None:
        self._full.discard(lns)
        self._fault("disk full", "fault.end", lns=lns)

    def lose_pubacks(self, lns: str) -> None:
        """Let the messages of a server be published, and published again after `find_broker`."""
        self._away[lns] = "swallow"
        self._fault("swallow", lns=lns)

    def hold(self, lns: str) -> None:
        """Let the messages of a server wait for `find_broker`."""
        self._away[lns] = "hold"
        self._fault("hold", lns=lns)

    def find_broker(self, lns: str) -> None:
        self._away.pop(lns, None)
        self.send_again()

    def send_again(self) -> None:
        """Publish what was not acknowledged, as far as the broker can be reached."""
        kept, self._kept = self._kept, []
        for topic, body in kept:
            if body["lns"] in self._away:
                self._kept.append((topic, body))
            else:
                self._send(topic, body)

    def wipe(self, lns: str) -> None:
        self._kept = [(topic, body) for topic, body in self._kept if body["lns"] != lns]
        for topic in [topic for topic in self._numbers if topic.split("/")[1] == lns]:
            del self._numbers[topic]
        self._fault("wipe", lns=lns)

    async def publish(self, message: ForApplication) -> None:
        """Take one message; UpstreamUnavailable where a scenario wants it so."""
        delay = next((one for one in self._delays_us if one[0] in (None, message.lns)), None)
        if delay is not None:
            self._delays_us.remove(delay)
            await asyncio.sleep(delay[1] / 1_000_000)
        refusal = next((n for n, of in enumerate(self._refusals) if of in (None, message.lns)), -1)
        if refusal >= 0 or message.lns in self._full:
            cause = "refused by the application" if refusal >= 0 else "the disk is full"
            del self._refusals[max(refusal, 0) : refusal + 1]
            fields: dict[str, object] = {"topic": message.topic, "cause": cause}
            fields["message_id"] = message.message_id
            self._record("upstream", "upstream.failed", fields)
            raise UpstreamUnavailable(cause)
        self._numbers[message.topic] += 1
        self._send(message.topic, message.body(self._numbers[message.topic]))

    def _send(self, topic: str, body: _Body) -> None:
        away = self._away.get(str(body["lns"]))
        if away is not None or not self._broker.is_up:
            self._kept.append((topic, body))
        if self._broker.is_up and away != "hold":
            self._broker.publish(topic, body)

    def _fault(self, fault: str, kind: str = "fault.begin", **detail: int | str) -> None:
        self._record("bench", kind, fault_fields("upstream", fault, detail))


def _of(lns: str | None) -> dict[str, str]:
    return {} if lns is None else {"lns": lns}


class OutboxWire(Wire):
    def __init__(self, outboxes: Outboxes, lns: str) -> None:
        self._outboxes = outboxes
        self._lns = lns

    def lose_answers(self) -> None:
        self._outboxes.lose_pubacks(self._lns)

    def hold(self) -> None:
        self._outboxes.hold(self._lns)

    async def restore(self) -> None:
        self._outboxes.find_broker(self._lns)


class MemoryApplication(Application):
    capabilities = frozenset({"slow application", "crash in a transaction"})

    def __init__(
        self,
        setup: CaseSetup,
        broker: MemoryBroker,
        outboxes: Outboxes,
        utc_us: Callable[[], int],
    ) -> None:
        self._setup = setup
        self._broker = broker
        self._outboxes = outboxes
        self._utc_us = utc_us
        self._inboxes: dict[str, MemoryInboxStore] = {}
        self._books: dict[str, ConsumerBooks] = {}
        self._consumers: dict[str, MemoryConsumer] = {}

    def new_consumer(self, settings: ConsumerSettings) -> Consumer:
        name = settings.store or settings.name
        store = self._inboxes.setdefault(name, MemoryInboxStore())
        books = self._books.setdefault(name, ConsumerBooks())
        new = MemoryConsumer(settings, store, self._broker, self._setup, self._utc_us, books)
        self._consumers[settings.name] = new
        return new

    async def ready(self) -> None:
        for one in self._consumers.values():
            await one.start()

    async def publish(self, topic: str, body: dict[str, object]) -> None:
        self._broker.publish(topic, body, injected=True)

    async def stop_broker(self) -> None:
        self._broker.stop()

    async def start_broker(self) -> None:
        self._broker.start()
        self._outboxes.send_again()

    def delay(self, us: int, messages: int, lns: str | None) -> None:
        self._outboxes.delay(us, messages, lns)

    def refuse(self, messages: int, lns: str | None) -> None:
        self._outboxes.refuse(messages, lns)

    async def end(self) -> None:
        for name, books in self._books.items():
            seen = await figures_of(self._inboxes[name])
            ids = seen.remembered[Detector.WINDOW].count
            remembered = books.remembered(ids, self._utc_us())
            for text in (*books.figures(_figures(seen)), *remembered):
                self._setup.case.find(consumer.found(f"{name}: {text}", now_us()))
        for one in self._consumers.values():
            await one.kill()
