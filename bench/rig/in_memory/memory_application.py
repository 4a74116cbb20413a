"""Consumers of this process: how does each message have its effect, and what does it leave?"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, closing, suppress
from fcntl import LOCK_SH, flock
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.clock import awaited_in, is_disk_slow, until
from bench.host.program import ConsumerDied
from bench.inspection import consumer
from bench.inspection.consumer import Brought, ConsumerBooks, Rules
from bench.rig.case_setup import CaseSetup
from bench.rig.configuration import ConsumerSettings
from bench.rig.in_memory.application import MemoryBroker, Outboxes, Properties
from bench.rig.in_memory.consumer_effects import Lines, Relay
from bench.rig.in_memory.consumer_wire import ConsumerWire, InboxWire
from bench.rig.in_memory.inbox_twin import TwinInbox, make_older
from bench.rig.in_memory.mistakes import far_from_utc, without_zone
from bench.rig.in_memory.shared_store import SharedStore
from bench.rig.in_memory.written_files import new_folder, remove
from bench.rig.interfaces import Application, Consumer
from bench.verdict.owner import ScenarioMistake
from bench.verdict.wire import json_of
from lns.clock import StoreUnavailable, now_us
from lns.delivery import ConfigurationError
from lns.delivery.detectors import Detector, MinMsgTime, known_us, statement, topic_of
from lns.delivery.effect import EffectUnavailable, Republishing
from lns.delivery.inbox import WAITING_MAX, Event, Figures, Inbox, figures_of
from lns.delivery.incoming import InboxFull
from lns.store.inbox_store import (
    ENTRIES_MAX,
    InboxStore,
    MemoryInboxStore,
    ParkedMessage,
    SqliteInboxStore,
)

_PRODUCER, _QUICKER = "producer", "another, for which nothing waits"
_GONE, _BEFORE_ALL_US = "one that is gone", 4_234_567
_GONE_TOO = "one of no time zone"
_DECIDED_WITHIN_US = 40_000_000
_NOBODY = "the bench"
CRASHES = ("effect", "commit", "ack")


class Crashed(BaseException):
    """The consumer is gone; no part of it catches this."""


class MemoryConsumer(Consumer):
    """One consumer with its store, which outlives it as a disk does."""

    def __init__(
        self,
        settings: ConsumerSettings,
        opened: Callable[[], Awaitable[InboxStore]],
        broker: MemoryBroker,
        setup: CaseSetup,
        utc_us: Callable[[], int],
        books: ConsumerBooks,
    ) -> None:
        self.settings = settings
        self._books = books
        self._opened = opened
        self._broker = broker
        self._setup = setup
        self._utc_us = utc_us
        self._crash_at: str | None = None
        self._running: asyncio.Task[None] | None = None
        self._inbox: Inbox | None = None
        self._folder: Path | None = None
        self._lines: Lines | None = None
        self._min_msg_time = MinMsgTime(None, self._hear_retries)
        self._retries = 0
        self._store: InboxStore | None = None
        self.wire: ConsumerWire | None = None
        self.relay: Relay | None = None
        broker.expect(settings.name)

    async def start(self) -> None:
        if self._lines is None:
            self._folder = new_folder("consumer")
            self._lines = Lines(
                self.settings, self._folder, self._setup, self._crashes, self._books,
                lambda text: self._find([text]), self._note_oldest,
            )  # fmt: skip
            if self._setup.on_disk:
                self.wire = ConsumerWire(
                    self.settings.name, self._setup.seed, self._folder, self._broker,
                    self._brought, lambda text: self._find([text]), self.settings.knows_oldest,
                )  # fmt: skip
            if self.settings.republishes:
                if self._setup.on_redis or not self._setup.on_disk:
                    raise ScenarioMistake("a relay keeps what waits in a file: rig.keep_on_disk()")
                self.relay = Relay(
                    self.settings.name, self._setup.seed, self._folder, self.settings.republishes,
                    self._setup.record, lambda text: self._find([text]),
                )  # fmt: skip
        try:
            self._lines.begin()
        except EffectUnavailable as error:
            raise ConsumerDied(f"consumer {self.settings.name} ended: {error}") from error
        try:
            store = self._store = await self._opened()
        except StoreUnavailable:
            self._lines.give_up()
            raise
        relayed = None
        if self.relay is not None:
            assert isinstance(store, SqliteInboxStore)
            relayed = self.relay.effect(store)
        inbox = Inbox(
            store, relayed or self._lines, self.settings.detectors(self._oldest_said_us),
            on_event=self._tell, utc_us=self._utc_us,
            waiting_max=self.settings.waiting_max or WAITING_MAX,
        )  # fmt: skip
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = self._setup.tasks.create_task(self._run(inbox, relayed, begun))
        await begun

    async def kill(self) -> None:
        await self.look_at_figures()
        if self.wire is not None:
            self.wire.cut()
        self._broker.disconnect(self.settings.name)
        await self._stop()  # it may decide on something yet
        self._books.gone(self.settings.name)

    async def crash(self, at: str) -> None:
        self._setup.case.fault("consumer", "crash", consumer=self.settings.name, at=at)
        if at not in CRASHES:
            raise ValueError(f"{at!r} is none of {', '.join(CRASHES)}")
        self._crash_at = at

    async def until_crashed(self) -> None:
        if (at := self._crash_at) is not None and self._running is not None:
            await asyncio.wait({self._running}, timeout=_DECIDED_WITHIN_US / 1_000_000)
            if self._crash_at is not None:
                raise TimeoutError(f"consumer {self.settings.name} does not come to its {at}")

    async def lose_acks(self) -> None:
        name = self.settings.name
        self._setup.case.fault("broker", "lose acknowledgements", consumer=name)
        self._broker.lose_acks(name)

    def unlimit(self) -> None:
        assert self.wire is not None, "only a broker on a wire keeps messages back"
        self._setup.case.fault("broker", "unlimited", consumer=self.settings.name)
        self.wire.unlimit()

    def refuse_subscriptions(self, times: int) -> None:
        assert self.wire is not None, "only on a wire is a subscription asked for"
        name = self.settings.name
        self._setup.case.fault("broker", "subscription refused", consumer=name, times=times)
        self.wire.refuse(times)

    async def fill(self, room: int | None, octets: int | None = None) -> None:
        assert self._lines is not None, "it is started by the first act"
        name, spare = self.settings.name, room if octets is None else octets
        if spare is not None:
            self._setup.case.fault("consumer", "no room", consumer=name, room=spare)
        self._lines.room, self._lines.spare_octets = room, octets
        if self.relay is not None:
            self.relay.stop() if room is not None else self.relay.start()

    async def tamper(self) -> None:
        assert self._lines is not None, "it is started by the first act"
        path = self._lines.path
        before = path.read_bytes()
        for how in ("cut short", "empty", "in use"):
            with path.open("r+b") as file:
                if how == "in use":
                    flock(file, LOCK_SH)
                else:
                    file.truncate(0 if how == "empty" else len(before) - 1)
                await self._start_in_vain(how)
            path.write_bytes(before)
        self._lines.path = path.with_suffix(".foreign")
        self._lines.path.write_bytes(before)
        await self._start_in_vain("somebody else's")
        self._lines.path = path

    async def _start_in_vain(self, how: str) -> None:
        try:
            await self.start()
        except ConsumerDied:
            return
        self._find([f"{self.settings.name}: it starts though its effects are {how}"])
        await self.kill()

    async def end(self) -> None:
        """The case is over: nothing has become of what the application had."""
        if self.wire is None:
            await self.kill()
        else:
            await self.wire.fall_silent()
            began_us = now_us()
            await self._stop()
            self.wire.end(now_us() - began_us)
        if self.relay is not None:
            await self.relay.end()
        if self._lines is not None:
            self._lines.look_at_the_end()
        self._find([] if self._folder is None else remove(self._folder))

    async def look_at_figures(self) -> None:
        """What it tells of itself is what is in its store, and what waits for a decision."""
        if self._inbox is None or self._store is None or self._books.is_blind or is_disk_slow():
            return
        name, before = self.settings.name, await figures_of(self._store)
        seen, waiting = await self._inbox.figures(), self._books.waiting(name)
        due = await figures_of(self._store)
        if due != before:
            return  # it decides on something
        counts = 0 if not self.settings.sequence else due.num_dup_msgs_rcvd
        due = replace(due, waiting=waiting, num_dup_msgs_rcvd=counts)
        if seen != due:
            self._find([f"{name}: figures: expected {due}, observed {seen}"])

    async def redeliver(self) -> None:
        name = self.settings.name
        if self._inbox is not None:
            if (wire := self.wire) is not None:
                await until(
                    lambda: not (wire.under_way or self._books.waiting(name)),
                    _DECIDED_WITHIN_US, TimeoutError,
                )  # fmt: skip
            with suppress(TimeoutError):
                async with asyncio.timeout(_DECIDED_WITHIN_US / 1_000_000):
                    await self._inbox.settled()
            self._look_at_rest(self._inbox)
        if self.wire is not None:
            self.wire.cut()
        else:
            self._broker.redeliver(name)

    async def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def _run(
        self, inbox: Inbox, relayed: Republishing | None, begun: "asyncio.Future[None]"
    ) -> None:
        name, lines = self.settings.name, self._lines
        assert lines is not None
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            async with inbox, self._relayed(relayed), self._subscribed(inbox, ended):
                self._inbox = inbox
                self._books.opened(
                    self.settings.window_us, self._utc_us(), checks=self.settings.sequence
                )
                begun.set_result(None)
                await ended
        except* Crashed:
            self._broker.disconnect(name)
            self._books.gone(name)
            self._crash_at = None
        except* Exception as error:
            cause = error.exceptions[0]
            died = ConsumerDied(f"consumer {name} ended: {type(cause).__name__}: {cause}")
            if begun.done():
                raise died from error
            is_due = isinstance(cause, ConfigurationError) or (
                isinstance(cause, StoreUnavailable) and self._setup.breaks_writes
            )
            begun.set_exception(cause if is_due else died)
        finally:
            self._inbox = None
            lines.give_up()

    @asynccontextmanager
    async def _relayed(self, effect: Republishing | None) -> AsyncIterator[None]:
        if self.relay is None or effect is None:
            yield
        else:
            async with self.relay.open(effect):
                yield

    @asynccontextmanager
    async def _subscribed(self, inbox: Inbox, ended: "asyncio.Future[None]") -> AsyncIterator[None]:
        """What the broker brings is offered: as it is, or over a wire where there are files."""

        def offer(topic: str, payload: bytes, properties: Properties, *rest: Any) -> None:
            self._offer(inbox, ended, topic, payload, properties, *rest)

        def take(topic: str, payload: bytes, properties: Properties, *rest: Any) -> None:
            self._brought(topic, payload, properties, rest[0])
            offer(topic, payload, properties, *rest)

        if self.wire is None:
            self._broker.connect(self.settings.name, take)
            yield
        else:
            async with self.wire.open(
                lambda had: offer(had.topic, had.payload, had.properties, had.qos, had.acknowledge)
            ):
                yield

    def _brought(self, topic: str, payload: bytes, properties: Properties, qos: int) -> None:
        sessions = self.settings.sessions and self.settings.window_us is not None
        message = Brought.of(payload, properties, qos, sessions=sessions)
        self._books.brought(self.settings.name, topic, message)
        if self.relay is not None:
            self.relay.brought(topic, message.facts.get("message_id"), payload)

    def _offer(
        self,
        inbox: Inbox,
        ended: asyncio.Future[None],
        topic: str,
        payload: bytes,
        properties: Properties,
        qos: int,
        acknowledge: Callable[[], None],
    ) -> None:
        def keep() -> None:
            self._crashes("ack")
            self._find(self._books.acknowledged(self.settings.name, topic))
            acknowledge()

        self._look_at_rest(inbox)
        try:
            inbox.offer(topic, payload, properties, qos, keep)
        except InboxFull as full:
            assert self.wire is not None, "only a broker on a wire brings it again"
            if inbox.waiting < (self.settings.waiting_max or WAITING_MAX):
                self._find([f"{self.settings.name}: no room, and {inbox.waiting} messages wait"])
            self._books.gone_back(self.settings.name, topic)
            self.wire.renew(str(full))
        except Exception as error:
            if not ended.done():
                ended.set_exception(error)
        if inbox.waiting > (self.settings.waiting_max or WAITING_MAX):
            self._find([f"{self.settings.name}: {inbox.waiting} messages wait, more than may"])

    def _look_at_rest(self, inbox: Inbox) -> None:
        """It is settled when nothing waits for a decision, and only then."""
        is_settled = True
        with closing(inbox.settled()) as settled, suppress(StopIteration):
            settled.send(None)
            is_settled = False
        if is_settled is (inbox.waiting > 0):
            wait = f"settled, and {inbox.waiting} messages wait"
            said = wait if is_settled else "not settled, and nothing waits"
            self._find([f"{self.settings.name}: {said}"])

    def _crashes(self, at: str) -> None:
        if at == self._crash_at:
            self._broker.disconnect(self.settings.name)
            self._books.is_blind |= at == "ack"  # of a batch the others are kept and not told
            raise Crashed

    def _tell(self, event: Event) -> None:
        if self.relay is not None:
            self.relay.told(event)
            self._note_oldest()
        said = msgspec.to_builtins(event)
        self._setup.record("inbox", event.kind, {"consumer": self.settings.name, **said})
        self._find(self._books.told(self._rules(), event.kind, said, self._utc_us()))

    def _find(self, wrong: Iterable[str]) -> None:
        for text in wrong:
            self._setup.case.find(consumer.found(text, now_us()))

    def _rules(self) -> Rules:
        of = self.settings
        window_us = of.window_us and self._books.window_us
        return Rules(
            of.name, window_us, of.partitioned, of.sequence, of.keys, of.retention_us,
            of.retry_us + of.network_us, self._oldest_us if of.knows_oldest else None,
            is_relayed=of.republishes > 0, may_overrun=self._setup.ends_leases,
        )  # fmt: skip

    def _oldest_us(self) -> int | None:
        """When the oldest message was sent that it has not consumed (UTC), in whole ms."""
        then_us = self._broker.oldest_us(self.settings.name)
        return None if then_us is None else (self._utc_us() - now_us() + then_us) // 1000 * 1000

    def _note_oldest(self) -> None:
        if self.settings.keys and self.settings.knows_oldest:
            self._books.oldest_us = self._oldest_us() or self._books.oldest_us
        if self.wire is not None:
            self.wire.ask()

    def _oldest_said_us(self) -> int | None:
        """The same, as the consumer reads what producers say of themselves, in three rounds.

        Two of them, one of which names no time zone, are heard in the first and gone since: they
        count for another round, and no more. Who speaks again means what he said last, unless that
        was nothing, or blanks, and a round in which nobody speaks is none.
        """
        said = self._min_msg_time
        if (oldest_us := self._oldest_us()) is None:
            said.hear(topic_of(_GONE), b"1")
            said.set(None)
            return self._expect_oldest(0, None)
        gone_us = min(oldest_us, said.oldest_us or oldest_us) - _BEFORE_ALL_US
        retry_us, self._retries = self.settings.retry_us, 0
        for number, ago_us in enumerate((2_000_000, 1_000_000, 0)):
            said.next_round()
            if number == 0:
                for digits in (1, 6):  # of a fraction of a second; the last word counts
                    said.hear(topic_of(_GONE), f"{gone_us / 1_000_000:.{digits}f}".encode())
                with far_from_utc():
                    said.hear(topic_of(_GONE_TOO), without_zone(gone_us + 1_000_000))
            said.hear(topic_of(_QUICKER), statement(_QUICKER, self._utc_us(), retry_us))
            words = (statement(_PRODUCER, oldest_us - us, retry_us) for us in (3_000_000, ago_us))
            for word in (*words, b"", b" "):
                said.hear(topic_of(_PRODUCER), word)
            self._expect_oldest(number, oldest_us if number == 2 else gone_us)
        for number in (3, 4):
            said.next_round()
            self._expect_oldest(number, oldest_us)
        if self._retries != 9:
            self._find([f"how long producers try: expected to hear 9 times, {self._retries}"])
        return said.oldest_us

    def _expect_oldest(self, number: int, due_us: int | None) -> int | None:
        if (oldest_us := self._min_msg_time.oldest_us) != due_us:
            what = f"oldest message of all producers in round {number}"
            self._find([f"{what}: expected {due_us} µs, observed {oldest_us}"])
        return oldest_us

    def _hear_retries(self, topic: str, retry_us: int) -> None:
        self._retries += topic in (topic_of(_QUICKER), topic_of(_PRODUCER))
        due_us = self.settings.retry_us // 1_000_000 * 1_000_000
        if retry_us != due_us:
            self._find([f"how long {topic} tries: expected {due_us} µs, observed {retry_us}"])


def _figures(of: Figures) -> dict[str, int | None]:
    """The figures of a store by the words of the books."""
    ignored = {f"ignored by {by}": number for by, number in of.ignored.items()}
    decided = {"inbox.accepted": of.accepted, "inbox.unreadable": of.unreadable}
    failed = {"inbox.parked": of.parked, "failed": of.tries_failed, "evicted": of.evicted}
    numbers = {"NumDupMsgsRcvd": of.num_dup_msgs_rcvd, "window_us": of.window_us}
    numbers |= {"overruns": of.overruns}
    return {**decided, **ignored, **failed, **numbers}


def _parked(message: ParkedMessage) -> dict[str, object]:
    """What a store has put aside, with the body as JSON."""
    return {**msgspec.structs.asdict(message), "body": json_of(message.body.decode())}


class MemoryApplication(Application):
    capabilities = frozenset(
        {
            "slow application",
            "crash in a transaction",
            "full application",
            "user properties",
            "QoS 0",
            "small inbox",
            "relay",
            "unlimited broker",
        }
    )

    def __init__(
        self,
        setup: CaseSetup,
        broker: MemoryBroker,
        outboxes: Outboxes,
        shared: SharedStore,
        utc_us: Callable[[], int],
    ) -> None:
        self._setup = setup
        self._broker = broker
        self._outboxes = outboxes
        self._shared = shared
        self._utc_us: Callable[[], int] = lambda: utc_us() + setup.consumers_stepped_us
        self._inboxes: dict[str, InboxStore] = {}
        self._folder: Path | None = None
        self._books: dict[str, ConsumerBooks] = {}
        self._rooms: dict[str, int] = {}
        self._to_store: dict[str, InboxWire] = {}
        self._consumers: dict[str, MemoryConsumer] = {}
        self._starts: Counter[str] = Counter()

    def new_consumer(self, settings: ConsumerSettings) -> Consumer:
        name = settings.store or settings.name
        self._rooms[name] = settings.entries_max or ENTRIES_MAX
        opened = partial(self._store, name, settings.name)
        books = self._books.setdefault(name, ConsumerBooks(entries_max=self._rooms[name]))
        self._to_store[settings.name] = InboxWire(
            lambda: self._folder and self._folder / name,
            partial(self._setup.case.fault, "inbox", consumer=settings.name),
        )
        new = MemoryConsumer(settings, opened, self._broker, self._setup, self._utc_us, books)
        self._consumers[settings.name] = new
        return new

    def to_store(self, consumer: str) -> InboxWire | None:
        return self._to_store.get(consumer)

    async def ready(self) -> None:
        for books in self._books.values():
            books.has_gaps = self._setup.on_redis
            self._shared.of_inboxes.append(books)
        await asyncio.gather(*(one.start() for one in self._consumers.values()))

    async def publish(
        self,
        topic: str,
        body: dict[str, object],
        properties: Properties | None = None,
        qos: int = 1,
    ) -> None:
        self._broker.publish(topic, body, properties, injected=True, qos=qos)

    async def stop_broker(self) -> None:
        for wire in self._wires():
            wire.stop()
        self._outboxes.stop_broker()

    async def start_broker(self) -> None:
        self._outboxes.start_broker()
        for wire in self._wires():
            wire.start()

    def _wires(self) -> list[ConsumerWire | Relay]:
        consumers = self._consumers.values()
        return [wire for one in consumers for wire in (one.wire, one.relay) if wire is not None]

    def delay(self, us: int, messages: int, lns: str | None) -> None:
        self._outboxes.delay(us, messages, lns)

    def refuse(self, messages: int, lns: str | None, *, broker: bool = False, of: str = "") -> None:
        if broker and lns is not None:
            self._outboxes.refuse_at_broker(lns, messages, of)
        else:
            self._outboxes.refuse(messages, lns)

    async def end(self) -> None:
        for wire in self._to_store.values():
            wire.end()
        for one in self._consumers.values():
            await one.look_at_figures()
        for name, books in self._books.items():
            store = await self._store(name)
            seen = await figures_of(store)
            remembered = books.remembered(seen.remembered[Detector.WINDOW].count, self._utc_us())
            numbers = (await store.summary()).numbers
            kept = books.kept(known_us(numbers))
            by_key = books.remembered_keys(seen.remembered[Detector.KEY].count, self._utc_us())
            parked = books.put_aside(map(_parked, await store.parked()))
            topicless = books.topicless(numbers.get("topicless_until_us", 0))
            by_time = *remembered, *by_key, *kept, *topicless
            for text in (*books.figures(_figures(seen)), *by_time, *parked):
                self._setup.case.find(consumer.found(f"{name}: {text}", now_us()))
        for one in self._consumers.values():
            await one.end()
        for store in self._inboxes.values():
            await store.close()
        for text in [] if self._folder is None else remove(self._folder):
            self._setup.case.find(consumer.found(text, now_us()))
        await self._outboxes.end()
        for name in [] if self._outboxes.are_on_disk else awaited_in("lns.delivery"):
            self._setup.case.find(consumer.found(f"{name} is called in the end", now_us()))

    async def _store(self, name: str, consumer: str = _NOBODY) -> InboxStore:
        """What a consumer that starts has: on a disk, what can be read there."""
        if self._setup.on_redis:
            return await self._in_redis(name, consumer)
        if not self._setup.on_disk:
            opened = self._inboxes.get(name) or MemoryInboxStore(entries_max=self._rooms[name])
            return self._inboxes.setdefault(name, opened)
        if self._folder is None:
            self._folder = new_folder("inbox")
        if name in self._inboxes:
            await self._inboxes.pop(name).close()
        file = self._folder / name
        if consumer != _NOBODY:
            if self._to_store[consumer].is_cut:
                raise StoreUnavailable(f"the file of consumer {consumer} takes nothing")
            self._starts[name] += 1
            if self._starts[name] == 2:
                make_older(file, self._shared.found)
        opened = TwinInbox(file, self._shared.found, entries_max=self._rooms[name])
        return self._inboxes.setdefault(name, opened)

    async def _in_redis(self, name: str, consumer: str) -> InboxStore:
        """What consumers share there; each has a way of its own to it."""
        former = self._inboxes.pop(consumer, None)
        if former is not None:
            await former.close()
        room, wire = self._rooms[name], self._to_store.get(consumer)
        redis = self._shared.real_redis()
        opened = await redis.inbox(name, consumer, entries_max=room, wire=wire)
        return self._inboxes.setdefault(consumer, opened)
