"""The inbox: every message has its effect once, and the broker is told only then."""

import asyncio
import json
import resource
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest

from bench.host.lns_process import Valkey
from lns.clock import StoreUnavailable, utc_of_this_host
from lns.delivery import Accepted, Detectors, Ignored, Inbox, Parked, Unread
from lns.delivery.detectors import (
    ConfigurationError,
    Detector,
    MessageIdWindow,
    RemoveDuplicatesKeys,
    SequenceTracker,
)
from lns.delivery.effect import Effect, EffectUnavailable, JsonLinesFile
from lns.delivery.inbox import Event, Tries, figures_in, figures_of, utc_us
from lns.delivery.incoming import InboxFull, Incoming, Unfit
from lns.store.inbox_redis import RedisInboxStore
from lns.store.inbox_store import (
    EffectMustNotWait,
    InboxStore,
    MemoryInboxStore,
    NoTables,
    Size,
    SqliteInboxStore,
    Transaction,
)
from lns.store.redis_wire import redis_server
from tests.blocking import start_now, stop_now
from tests.lns.delivery.arriving import ALPHA, SECOND_US, TOPIC, payload

QUICK = Tries(most=3, first_us=1000, max_us=4000)
WAIT_S = 60
NOW_US = 1_795_220_000_000_000

Work = Callable[["Offering"], Coroutine[Any, Any, None]]


class Offering:
    """An inbox to which messages are offered, what it told, and what the broker was told."""

    def __init__(
        self, inbox: Inbox, store: InboxStore, events: list[Event], now_us: list[int]
    ) -> None:
        self.inbox = inbox
        self.store = store
        self.events = events
        self.now_us = now_us
        self.acknowledged: list[str] = []

    def offer(self, f_cnt: int, *, topic: str = TOPIC, qos: int = 1, **fields: Any) -> None:
        self.offer_octets(payload(f_cnt, **fields), str(f_cnt), topic=topic, qos=qos)

    def offer_octets(
        self, octets: bytes, name: str, *, topic: str = TOPIC, qos: int = 1, **properties: str
    ) -> None:
        self.inbox.offer(topic, octets, properties, qos, lambda: self.acknowledged.append(name))

    async def settled(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.inbox.settled()

    async def send(self, *f_cnts: int, **fields: Any) -> None:
        """Offer messages and wait until all are decided on."""
        for f_cnt in f_cnts:
            self.offer(f_cnt, **fields)
        await self.settled()


Handler = Callable[[Incoming, Transaction], Awaitable[None] | None]


def consume(
    store: Callable[[], InboxStore],
    effect: Effect | Handler,
    work: Work,
    detectors: Detectors | None = None,
    **known: Any,
) -> Offering:
    """An inbox as long as `work` goes on; the store is closed afterwards."""
    events: list[Event] = []
    now_us = [NOW_US]

    async def body() -> Offering:
        opened = store()
        try:
            inbox = Inbox(
                opened,
                effect,
                detectors,
                on_event=events.append,
                utc_us=lambda: now_us[0],
                **({"tries": QUICK} | known),
            )
            async with inbox:
                offering = Offering(inbox, opened, events, now_us)
                await work(offering)
            return offering
        finally:
            await opened.close()

    return asyncio.run(body())


def numbers(found: list[Event], kind: type[Any]) -> list[int]:
    """The counters in the ids of the events of a kind."""
    return [int(event.message_id.rpartition("-")[2]) for event in found if type(event) is kind]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inbox.sqlite"


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = start_now(Valkey(tmp_path_factory.mktemp("valkey"), append_only=False))
    yield server
    stop_now(server)


names = count()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request: pytest.FixtureRequest, path: Path) -> Callable[[], InboxStore]:
    if request.param == "sqlite":
        return lambda: SqliteInboxStore(path)
    if request.param == "redis":
        server = redis_server(request.getfixturevalue("valkey").url)
        name = f"inbox-{next(names)}"
        return lambda: RedisInboxStore(server, name, consumer="c", patience_us=10_000_000)
    memory = MemoryInboxStore()
    return lambda: memory


class Effects:
    """Effects in the order in which they happened; the first `failures` of an id raise."""

    def __init__(self, **failures: int) -> None:
        self.f_cnts: list[int] = []
        self.positions: list[int] = []
        self._failures = {int(name[1:]): count for name, count in failures.items()}

    def __call__(self, message: Incoming, transaction: Transaction) -> None:
        f_cnt = int(message.message_id.rpartition("-")[2])
        if self._failures.get(f_cnt, 0) > 0:
            self._failures[f_cnt] -= 1
            raise ValueError(f"{f_cnt} does not fit")
        self.f_cnts.append(f_cnt)
        self.positions.append(transaction.position)


def test_a_message_has_its_effect_once_however_often_it_comes(
    store: Callable[[], InboxStore],
) -> None:
    effects = Effects()

    async def work(offering: Offering) -> None:
        await offering.send(1, 2, 1, 3, 2, 3)
        await offering.send(3, 4)

    offering = consume(store, effects, work)
    assert effects.f_cnts == [1, 2, 3, 4]
    assert effects.positions == sorted(set(effects.positions))
    assert offering.acknowledged == ["1", "2", "1", "3", "2", "3", "3", "4"]
    assert numbers(offering.events, Accepted) == [1, 2, 3, 4]
    assert numbers(offering.events, Ignored) == [1, 2, 3, 3]


def test_the_broker_is_told_when_the_event_is_and_both_after_the_effect(path: Path) -> None:
    order: list[str] = []

    def effect(message: Incoming, transaction: Transaction) -> None:
        order.append("effect")

    def told(event: Event) -> None:
        figures, _ = figures_in(path)
        order.append(f"told, {figures.accepted} kept")

    async def work(offering: Offering) -> None:
        offering.inbox.offer(TOPIC, payload(1), {}, 1, lambda: order.append("acknowledged"))
        await offering.settled()

    async def body() -> None:
        store = SqliteInboxStore(path)
        async with Inbox(store, effect, on_event=told) as inbox:
            await work(Offering(inbox, store, [], []))
        await store.close()

    asyncio.run(body())
    assert order == ["effect", "told, 1 kept", "acknowledged"]


def test_an_event_says_which_message_it_was(path: Path) -> None:
    async def work(offering: Offering) -> None:
        await offering.send(7, removeDuplicatesKey=None)
        offering.offer(7, removeDuplicatesKey=None)
        offering.offer(8, sequenceNumber=7, removeDuplicatesKey="k", partitionKey="q")
        await offering.settled()

    events = consume(lambda: SqliteInboxStore(path), Effects(), work).events
    known = {"channel": TOPIC, "message_id": f"{ALPHA}-01ABCDEF-7", "partition_key": ALPHA}
    other = known | {"message_id": f"{ALPHA}-01ABCDEF-8", "partition_key": "q", "key": "k"}
    assert events == [
        Accepted(**known, sequence_number=7, position=1),
        Ignored(**known, sequence_number=7, by=Detector.WINDOW, first_position=1),
        Ignored(**other, sequence_number=7, by=Detector.SEQUENCE, first_position=1),
    ]
    assert [event.kind for event in events] == [
        "inbox.accepted",
        "inbox.ignored",
        "inbox.ignored",
    ]


def test_state_and_positions_outlive_the_consumer(path: Path) -> None:
    first, second = Effects(), Effects()

    async def one(offering: Offering) -> None:
        await offering.send(1, 2)

    async def other(offering: Offering) -> None:
        offering.now_us[0] += 3600 * SECOND_US  # only the sequence numbers know them still
        await offering.send(1 + 1, 3)

    consume(lambda: SqliteInboxStore(path), first, one)
    offering = consume(lambda: SqliteInboxStore(path), second, other)
    assert (second.f_cnts, second.positions) == ([3], [3])
    assert [event.by for event in offering.events if isinstance(event, Ignored)] == ["sequence"]


def test_an_effect_in_the_transaction_is_kept_with_the_state_or_not_at_all(path: Path) -> None:
    def effect(message: Incoming, transaction: Transaction) -> None:
        transaction.execute("CREATE TABLE IF NOT EXISTS reading (position INTEGER, body TEXT)")
        row = transaction.position, message.body.decode()
        transaction.execute("INSERT INTO reading VALUES (?, ?)", row)
        if b'"sequenceNumber": 2' in message.body:
            raise ValueError("no reading")

    async def work(offering: Offering) -> None:
        await offering.send(1, 2, 3)

    offering = consume(lambda: SqliteInboxStore(path), effect, work)

    async def readings() -> list[int]:
        store = SqliteInboxStore(path)

        def query(db: Connection) -> list[int]:
            rows = db.execute("SELECT position, body FROM reading ORDER BY position").fetchall()
            return [json.loads(body)["sequenceNumber"] for _, body in rows]

        found = await store.read(query)
        await store.close()
        return found

    assert asyncio.run(readings()) == [1, 3]
    assert numbers(offering.events, Accepted) == [1, 3]
    assert numbers(offering.events, Parked) == [2]


def test_an_effect_that_raises_is_tried_again_and_then_had_once(
    store: Callable[[], InboxStore],
) -> None:
    effects = Effects(_2=2)

    async def work(offering: Offering) -> None:
        await offering.send(1, 2, 3, 2)
        figures = await offering.inbox.figures()
        assert (figures.accepted, figures.tries_failed, figures.parked) == (3, 2, 0)

    offering = consume(store, effects, work)
    assert effects.f_cnts == [1, 2, 3]
    assert effects.positions == sorted(set(effects.positions))
    assert numbers(offering.events, Accepted) == [1, 2, 3]
    assert numbers(offering.events, Ignored) == [2]


def test_a_stream_waits_for_its_effect_and_others_do_not(
    store: Callable[[], InboxStore],
) -> None:
    """Else the sequence number of the next message would make a duplicate of this one."""
    effects = Effects(_10=2)

    async def work(offering: Offering) -> None:
        for f_cnt in (10, 11, 12):
            offering.offer(f_cnt)
        for f_cnt in (20, 21):
            offering.offer(f_cnt, topic="lorawan/lns-a/other/up")
        await offering.settled()

    offering = consume(store, effects, work)
    assert effects.f_cnts == [20, 21, 10, 11, 12]
    assert offering.acknowledged == ["20", "21", "10", "11", "12"]


def test_an_effect_that_always_raises_is_put_aside_and_its_stream_goes_on(
    store: Callable[[], InboxStore],
) -> None:
    effects = Effects(_2=99)

    async def work(offering: Offering) -> None:
        await offering.send(1, 2, 3)
        figures = await offering.inbox.figures()
        assert (figures.parked, figures.tries_failed, figures.accepted) == (1, 3, 2)
        parked = await offering.store.parked()
        assert [(one.message_id, one.reason, one.tries, one.parked_us) for one in parked] == [
            (f"{ALPHA}-01ABCDEF-2", "ValueError: 2 does not fit", 3, NOW_US)
        ]
        assert json.loads(parked[0].body)["sequenceNumber"] == 2

    offering = consume(store, effects, work)
    assert effects.f_cnts == [1, 3]
    assert offering.acknowledged == ["1", "2", "3"]
    [parked] = [event for event in offering.events if isinstance(event, Parked)]
    assert (parked.reason, parked.tries) == ("ValueError: 2 does not fit", 3)


def test_a_parked_message_that_comes_again_is_tried_again_and_then_parked_no_more(
    store: Callable[[], InboxStore],
) -> None:
    effects = Effects(_2=3)

    async def work(offering: Offering) -> None:
        await offering.send(1, 2)
        assert (await offering.inbox.figures()).parked == 1
        await offering.send(2)
        assert (await offering.inbox.figures()).parked == 0

    offering = consume(store, effects, work)
    assert effects.f_cnts == [1, 2]
    assert numbers(offering.events, Parked) == [2]
    assert numbers(offering.events, Accepted) == [1, 2]


POISON = [
    (b"not json", Unfit.NOT_JSON),
    (b"[]", Unfit.WRONG_FIELD),
    (b"{}", Unfit.NO_MESSAGE_ID),
    (b'{"messageId": {"x": 1}}', Unfit.WRONG_FIELD),
    (b'{"messageId": "m", "sequenceNumber": "many"}', Unfit.WRONG_FIELD),
    (b'{"messageId": "m", "x": "' + b"x" * 300_000 + b'"}', Unfit.TOO_LARGE),
]


def test_what_cannot_be_read_is_counted_and_acknowledged(
    store: Callable[[], InboxStore],
) -> None:
    effects = Effects()

    async def work(offering: Offering) -> None:
        for number, (octets, _) in enumerate(POISON):
            offering.offer_octets(octets, f"poison {number}")
            offering.offer(number + 1)
        await offering.settled()
        assert (await offering.inbox.figures()).unreadable == len(POISON)

    offering = consume(store, effects, work)
    assert effects.f_cnts == [1, 2, 3, 4, 5, 6]
    unread = [event for event in offering.events if isinstance(event, Unread)]
    assert [event.reason for event in unread] == [reason for _, reason in POISON]
    assert len(offering.acknowledged) == 2 * len(POISON)


def test_with_sessions_another_session_is_unreadable(store: Callable[[], InboxStore]) -> None:
    effects = Effects()

    async def work(offering: Offering) -> None:
        offering.offer(1, sessionId=ALPHA)
        offering.offer(2, sessionId="another")
        offering.offer(3)
        await offering.settled()

    detectors = Detectors(MessageIdWindow(partitioned=True, sessions=True))
    offering = consume(store, effects, work, detectors)
    assert effects.f_cnts == [1]
    assert [event.reason for event in offering.events if isinstance(event, Unread)] == [
        Unfit.SESSION_IS_NOT_PARTITION,
        Unfit.SESSION_IS_NOT_PARTITION,
    ]


def test_the_figures_say_who_ignored_what_and_what_is_remembered(
    store: Callable[[], InboxStore],
) -> None:
    detectors = Detectors(keys=RemoveDuplicatesKeys())

    async def work(offering: Offering) -> None:
        await offering.send(1, 2)
        offering.now_us[0] += SECOND_US
        await offering.send(2, 2)
        offering.offer(7, sequenceNumber=2)
        offering.offer(8, sequenceNumber=3, removeDuplicatesKey=f"{ALPHA}-01ABCDEF-1")
        await offering.settled()
        figures = await offering.inbox.figures()
        assert figures.ignored == {"window": 2, "sequence": 1, "key": 1}
        assert (figures.accepted, figures.num_dup_msgs_rcvd) == (2, 3)
        assert (figures.window_us, figures.waiting, figures.evicted) == (600 * SECOND_US, 0, 0)
        assert figures.remembered == {
            "window": Size(2, NOW_US),
            "sequence": Size(1, NOW_US + SECOND_US),  # the 3 was received, though its key was known
            "key": Size(2, NOW_US),
        }
        assert await figures_of(offering.store) == figures

    consume(store, Effects(), work, detectors)


def test_switched_off_the_sequence_numbers_count_nothing(
    store: Callable[[], InboxStore],
) -> None:
    """J16, also in a store where they have counted before."""
    off = SequenceTracker(perform_duplicate_checking=False)

    async def work(offering: Offering) -> None:
        offering.offer(1, sequenceNumber=5)
        offering.offer(2, sequenceNumber=5)
        await offering.settled()

    async def afterwards(offering: Offering) -> None:
        offering.offer(3, sequenceNumber=5)
        await offering.settled()
        assert (await offering.inbox.figures()).num_dup_msgs_rcvd == 0

    consume(store, Effects(), work)
    effects = Effects()
    consume(store, effects, afterwards, Detectors(sequence=off))
    assert effects.f_cnts == [3]


def test_the_window_is_forgotten_as_time_goes_by(path: Path) -> None:
    async def work(offering: Offering) -> None:
        await offering.send(*range(1, 101))
        offering.now_us[0] += 600 * SECOND_US
        await offering.send(101)
        await offering.send(102)
        figures = await offering.inbox.figures()
        assert figures.remembered["window"] == Size(2, NOW_US + 600 * SECOND_US)
        await offering.send(103, messageId=f"{ALPHA}-01ABCDEF-1")

    offering = consume(lambda: SqliteInboxStore(path), Effects(), work)
    assert numbers(offering.events, Accepted) == [*range(1, 103), 1]


def test_a_store_without_a_window_never_has_one(path: Path) -> None:
    async def nothing(offering: Offering) -> None:
        pass

    def opened() -> SqliteInboxStore:
        return SqliteInboxStore(path)

    consume(opened, Effects(), nothing, Detectors(None))
    with pytest.raises(ConfigurationError) as error:
        consume(opened, Effects(), nothing, Detectors(MessageIdWindow(30 * SECOND_US)))
    assert str(error.value) == (
        f"{path} was created without duplicate detection by message id, and is to be used with it;"
        " that is chosen at creation: name another store, or remove this one"
    )


def test_whoever_shares_a_store_follows_when_its_window_becomes_shorter(
    valkey: Valkey,
) -> None:
    """Another consumer of the same Redis is started with another length."""
    server, name = redis_server(valkey.url), f"inbox-{next(names)}"

    async def work(offering: Offering) -> None:
        await offering.send(1)
        offering.now_us[0] += 25 * SECOND_US
        await offering.send(1)
        assert (await offering.inbox.figures()).ignored["window"] == 1
        other = RedisInboxStore(server, name, consumer="other", patience_us=10 * SECOND_US)
        short = Detectors(MessageIdWindow(20 * SECOND_US))
        async with Inbox(other, Effects(), short, utc_us=lambda: offering.now_us[0]):
            offering.offer(1, sequenceNumber=None)
            await offering.settled()
        assert (await offering.inbox.figures()).accepted == 2
        await other.close()

    consume(
        lambda: RedisInboxStore(server, name, consumer="one", patience_us=10 * SECOND_US),
        Effects(),
        work,
        Detectors(MessageIdWindow(), sequence=None),
    )


def test_a_file_belongs_to_one_consumer(path: Path) -> None:
    async def work(offering: Offering) -> None:
        with pytest.raises(StoreUnavailable, match="is in use by another process"):
            SqliteInboxStore(path)

    consume(lambda: SqliteInboxStore(path), Effects(), work)


def test_more_than_may_wait_are_not_taken() -> None:
    async def work(offering: Offering) -> None:
        offering.offer(1)
        offering.offer(2)
        with pytest.raises(InboxFull):
            offering.offer(3)
        await offering.settled()
        await offering.send(4)

    offering = consume(MemoryInboxStore, Effects(), work, waiting_max=2)
    assert offering.acknowledged == ["1", "2", "4"]


class Counting:
    """An effect that counts the messages of each transaction."""

    def __init__(self) -> None:
        self.transactions: list[int] = []
        self._messages = 0

    def open(self, transaction: Transaction) -> None:
        pass

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        self._messages += 1

    def flush(self, transaction: Transaction) -> None:
        pass

    def end(self, *, kept: bool) -> None:
        assert kept
        self.transactions.append(self._messages)
        self._messages = 0


def test_messages_that_come_fast_share_a_transaction(path: Path) -> None:
    effect = Counting()

    async def work(offering: Offering) -> None:
        await offering.send(*range(1, 1001))

    consume(lambda: SqliteInboxStore(path), effect, work)
    assert effect.transactions == [500, 500]


def test_leaving_finishes_what_is_under_way_and_leaves_the_rest(path: Path) -> None:
    effects = Effects(_2=99)

    async def work(offering: Offering) -> None:
        offering.offer(1)
        offering.offer(2)
        offering.offer(3)
        async with asyncio.timeout(WAIT_S):
            while not effects.f_cnts:  # noqa: ASYNC110 - the effect tells nobody
                await asyncio.sleep(0)

    patient = Tries(most=3, first_us=3600 * SECOND_US, max_us=3600 * SECOND_US)
    offering = consume(lambda: SqliteInboxStore(path), effects, work, tries=patient)
    assert offering.acknowledged == ["1"]
    assert numbers(offering.events, Accepted) == [1]


def test_an_effect_that_waits_in_a_transaction_is_a_mistake_that_is_told(path: Path) -> None:
    async def effect(message: Incoming, transaction: Transaction) -> None:
        transaction.execute("CREATE TABLE mistake (n)")
        await asyncio.sleep(0)

    async def work(offering: Offering) -> None:
        await offering.send(1)

    with pytest.raises(ExceptionGroup) as error:
        consume(lambda: SqliteInboxStore(path), effect, work)
    assert error.group_contains(EffectMustNotWait, match="must not await anything")
    assert figures_in(path)[0].accepted == 0


def test_an_effect_that_ends_the_transaction_itself_is_not_kept(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    def effect(message: Incoming, transaction: Transaction) -> None:
        if not ended:
            ended.append(message.message_id)
            transaction.execute("ROLLBACK")

    async def work(offering: Offering) -> None:
        await offering.send(1)

    offering = consume(lambda: SqliteInboxStore(path), effect, work)
    assert numbers(offering.events, Accepted) == [1]
    assert figures_in(path)[0].tries_failed == 0
    assert "the transaction of an effect has ended" in caplog.text


def test_an_inbox_that_was_offered_nothing_is_settled() -> None:
    async def work(offering: Offering) -> None:
        assert offering.inbox.waiting == 0
        await offering.settled()

    assert consume(MemoryInboxStore, lambda message, tx: None, work).events == []


def test_an_effect_is_tried_five_times_and_ten_seconds_apart_at_most() -> None:
    tries = Tries()
    waits_us = [tries.wait_us(failures) for failures in (1, 2, 3, 4, 7, 8, 50)]
    assert (tries.most, waits_us) == (
        5,
        [100_000, 200_000, 400_000, 800_000, 6_400_000, 10_000_000, 10_000_000],
    )


def test_the_wall_clock_counts_since_1970() -> None:
    now_us = utc_us()
    assert abs(now_us - utc_of_this_host().timestamp() * 1_000_000) < 60_000_000


def test_memory_has_no_tables() -> None:
    def effect(message: Incoming, transaction: Transaction) -> None:
        with pytest.raises(NoTables):
            transaction.execute("SELECT 1")

    async def work(offering: Offering) -> None:
        await offering.send(1)

    assert numbers(consume(MemoryInboxStore, effect, work).events, Accepted) == [1]


class Unwilling:
    """An effect that cannot be had for a while."""

    def __init__(self) -> None:
        self.refusals = 1
        self.kept: list[bool] = []
        self.f_cnts: list[str] = []

    def open(self, transaction: Transaction) -> None:
        pass

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        self.f_cnts.append(message.message_id.rpartition("-")[2])

    def flush(self, transaction: Transaction) -> None:
        if self.refusals:
            self.refusals -= 1
            raise EffectUnavailable("the printer has no paper")

    def end(self, *, kept: bool) -> None:
        self.kept.append(kept)


def test_an_effect_that_cannot_be_had_now_is_waited_for(
    store: Callable[[], InboxStore], caplog: pytest.LogCaptureFixture
) -> None:
    effect = Unwilling()

    async def work(offering: Offering) -> None:
        await offering.send(1, 2)
        figures = await offering.inbox.figures()
        assert (figures.accepted, figures.tries_failed) == (2, 0)

    offering = consume(store, effect, work)
    assert effect.f_cnts[0] == "1"
    assert effect.f_cnts[-2:] == ["1", "2"]
    assert (effect.kept[0], set(effect.kept[1:])) == (False, {True})
    assert offering.acknowledged == ["1", "2"]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "the printer has no paper; 2 messages wait"
    ]


@pytest.fixture
def writable() -> Iterator[Callable[[], None]]:
    """Files of this process may grow again when this is called, and in the end."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def again() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    yield again
    again()


def test_a_full_disk_accepts_nothing_and_loses_nothing(
    path: Path,
    tmp_path: Path,
    writable: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = JsonLinesFile(tmp_path / "uplinks.jsonl")

    async def work(offering: Offering) -> None:
        await offering.send(1)
        size = path.with_name(path.name + "-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        for f_cnt in range(2, 40):
            offering.offer(f_cnt, removeDuplicatesKey="k" * 200 + str(f_cnt))
        async with asyncio.timeout(WAIT_S):
            while not caplog.records:  # noqa: ASYNC110 - it is told to a person
                await asyncio.sleep(0.01)
        assert offering.acknowledged == ["1"]
        writable()
        await offering.settled()

    offering = consume(
        lambda: SqliteInboxStore(path), lines, work, Detectors(keys=RemoveDuplicatesKeys())
    )
    lines.close()
    text = lines.path.read_text("utf-8")
    written = [json.loads(line)["body"]["sequenceNumber"] for line in text.splitlines()]
    assert written == list(range(1, 40))
    assert numbers(offering.events, Accepted) == written
    assert not [event for event in offering.events if isinstance(event, Parked)]
