"""What every store of an inbox keeps, and that all of them say the same of a message."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from bench.host.lns_process import Valkey
from lns.delivery.detectors import (
    ConfigurationError,
    Detectors,
    Duplicate,
    MessageIdWindow,
    RemoveDuplicatesKeys,
    SequenceTracker,
)
from lns.delivery.incoming import Incoming, Stream
from lns.store.inbox_redis import RedisInboxStore
from lns.store.inbox_store import (
    Batch,
    InboxStore,
    Mark,
    MemoryInboxStore,
    ParkedMessage,
    Place,
    Size,
    SqliteInboxStore,
    Table,
)
from lns.store.redis_wire import redis_server
from tests import sizes
from tests.blocking import start_now, stop_now

SECOND_US = 1_000_000
WINDOW_US = 20 * SECOND_US
SUM_US = 30 * SECOND_US
DETECTORS = Detectors(
    MessageIdWindow(WINDOW_US, partitioned=True),
    SequenceTracker(),
    RemoveDuplicatesKeys(retention_us=27 * SECOND_US, retry_us=2 * SECOND_US, network_us=SECOND_US),
)
PATIENCE_US = 10_000_000  # this host may be busy
PLACE, OTHER = Place(Table.WINDOW, "X"), Place(Table.WINDOW, "Y")

T = TypeVar("T")
names = count()


class Failed(Exception):
    """What an effect raises here."""


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = start_now(Valkey(tmp_path_factory.mktemp("valkey"), append_only=False))
    yield server
    stop_now(server)


class Kept:
    """A store that is asked one question after the other, and opened again."""

    def __init__(self, opened: Callable[[], InboxStore], *, outlives: bool = True) -> None:
        self._runner = asyncio.Runner()
        self._opened = opened
        self.outlives = outlives
        self.store = self._open()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def do(self, work: Callable[[Batch], T], *places: Place) -> T:
        """What is done in one transaction that touches these places."""

        async def working(batch: Batch) -> T:
            return work(batch)

        return self.run(self.store.transact([places], working))

    def put(self, place: Place, mark: Mark) -> None:
        self.do(lambda batch: batch.put(place, mark), place)

    def get(self, place: Place) -> Mark | None:
        return self.do(lambda batch: batch.get(place), place)

    def number(self, name: str) -> int:
        return self.do(lambda batch: batch.number(name))

    def size(self, table: Table = Table.WINDOW) -> Size:
        return self.run(self.store.summary()).sizes[table.value]

    def open_again(self) -> None:
        if self.outlives:
            self.run(self.store.close())
            self.store = self._open()

    def close(self) -> None:
        self.run(self.store.close())
        self._runner.close()

    def _open(self) -> InboxStore:
        async def opened() -> InboxStore:
            return self._opened()

        return self.run(opened())


def kept(kind: str, folder: Path, valkey: Callable[[], Valkey], **known: int) -> Kept:
    """A new store of some kind."""
    name = f"inbox-{next(names)}"
    if kind == "memory":
        return Kept(lambda: MemoryInboxStore(**known), outlives=False)
    if kind == "sqlite":
        return Kept(lambda: SqliteInboxStore(folder / f"{name}.sqlite", **known))
    server = redis_server(valkey().url)
    return Kept(
        lambda: RedisInboxStore(server, name, consumer="c", patience_us=PATIENCE_US, **known)
    )


KINDS = ["memory", "sqlite", "redis"]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    made = kept(request.param, tmp_path, lambda: request.getfixturevalue("valkey"))
    yield made
    made.close()


@pytest.fixture(params=KINDS)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    """A store with room for three marks in each table."""
    made = kept(request.param, tmp_path, lambda: request.getfixturevalue("valkey"), entries_max=3)
    yield made
    made.close()


def test_a_mark_is_as_it_was_made(store: Kept) -> None:
    for table in Table:
        assert store.get(Place(table, "X")) is None
    for number, table in enumerate(Table, start=1):
        store.put(Place(table, "X"), Mark(1_795_220_000_123_456, number, 2**63 - 1))
    store.open_again()
    for number, table in enumerate(Table, start=1):
        assert store.get(Place(table, "X")) == Mark(1_795_220_000_123_456, number, 2**63 - 1)


@pytest.mark.parametrize("name", ["é 日本", "a\0b", "a\nb", '"quoted"', "{x}:*", "x" * 600])
def test_every_name_is_one(store: Kept, name: str) -> None:
    store.put(Place(Table.KEY, name), Mark(1, 1))
    assert store.get(Place(Table.KEY, name)) == Mark(1, 1)
    assert store.get(Place(Table.KEY, name[:-1])) is None


def test_a_newer_mark_takes_the_place_of_the_older(store: Kept) -> None:
    store.put(PLACE, Mark(1, 1, 5))
    store.put(PLACE, Mark(2, 2, 4))
    assert store.get(PLACE) == Mark(2, 2, 4)
    assert store.size() == Size(1, 2)


def test_numbers_add_up(store: Kept) -> None:
    assert store.number("accepted") == 0
    for by in (2, 3, -1):
        store.do(lambda batch, by=by: batch.add("accepted", by))  # type: ignore[misc]
    store.open_again()
    assert store.number("accepted") == 4


def test_what_is_put_is_seen_in_the_same_transaction(store: Kept) -> None:
    def work(batch: Batch) -> tuple[Mark | None, int]:
        batch.put(PLACE, Mark(1, 1))
        batch.add("n", 7)
        return batch.get(PLACE), batch.number("n")

    assert store.do(work, PLACE) == (Mark(1, 1), 7)


def test_of_a_transaction_that_fails_nothing_is_kept(store: Kept) -> None:
    store.put(PLACE, Mark(1, 1))

    def work(batch: Batch) -> None:
        batch.put(PLACE, Mark(2, 2))
        batch.put(OTHER, Mark(2, 2))
        batch.add("n", 7)
        batch.park(parked("X"))
        raise Failed

    with pytest.raises(Failed):
        store.do(work, PLACE, OTHER)
    assert (store.get(PLACE), store.get(OTHER), store.number("n")) == (Mark(1, 1), None, 0)
    assert store.run(store.store.parked()) == []
    assert store.size() == Size(1, 1)
    store.put(OTHER, Mark(3, 3))
    assert store.size() == Size(2, 1)


def test_what_left_for_an_attempt_that_failed_is_the_first_to_leave_yet(small: Kept) -> None:
    def places(batch: Batch) -> None:
        with pytest.raises(Failed), batch.attempt():
            batch.put(Place(Table.KEY, "x"), Mark(5, 5))
            raise Failed

    for number, name in enumerate("abc", 1):
        small.put(Place(Table.KEY, name), Mark(number, number))
    small.do(places)
    small.put(Place(Table.KEY, "d"), Mark(6, 6))
    seen = [small.get(Place(Table.KEY, name)) is not None for name in "abcxd"]
    assert seen == [False, True, True, False, True]


def test_a_mark_that_an_attempt_made_anew_in_vain_is_the_first_to_leave_yet(small: Kept) -> None:
    first = Place(Table.KEY, "a")

    def work(batch: Batch) -> None:
        with pytest.raises(Failed), batch.attempt():
            batch.put(first, Mark(5, 5))
            raise Failed

    for number, name in enumerate("abc", 1):
        small.put(Place(Table.KEY, name), Mark(number, number))
    small.do(work, first)
    assert small.size(Table.KEY) == Size(3, 1)
    small.put(Place(Table.KEY, "d"), Mark(6, 6))
    seen = [small.get(Place(Table.KEY, name)) is not None for name in "abcd"]
    assert seen == [False, True, True, True]


def test_of_an_attempt_that_fails_nothing_is_kept_and_of_the_others_everything(
    store: Kept,
) -> None:
    third = Place(Table.WINDOW, "Z")

    def work(batch: Batch) -> None:
        with batch.attempt():
            batch.put(PLACE, Mark(1, 1))
            batch.add("n", 1)
        with pytest.raises(Failed), batch.attempt():
            batch.put(PLACE, Mark(2, 2))
            batch.put(OTHER, Mark(2, 2))
            batch.add("n", 10)
            batch.forget(Table.WINDOW, 100, 100)
            raise Failed
        with batch.attempt():
            batch.put(third, Mark(3, 3))
            batch.add("n", 100)

    store.do(work, PLACE, OTHER, third)
    assert [store.get(place) for place in (PLACE, OTHER, third)] == [Mark(1, 1), None, Mark(3, 3)]
    assert store.number("n") == 101
    assert store.size() == Size(2, 1)


def test_what_is_older_than_a_time_is_forgotten_but_not_too_much_at_once(store: Kept) -> None:
    for number in range(6):
        store.put(Place(Table.KEY, f"k{number}"), Mark(number * 10, number + 1))
    store.do(lambda batch: batch.forget(Table.KEY, 20, 100))
    assert store.size(Table.KEY) == Size(4, 20)
    store.do(lambda batch: batch.forget(Table.KEY, 100, 3))
    assert store.size(Table.KEY) == Size(1, 50)
    assert store.get(Place(Table.KEY, "k4")) is None
    assert store.get(Place(Table.KEY, "k5")) == Mark(50, 6)


def test_a_mark_that_was_renewed_is_as_old_as_its_renewal(store: Kept) -> None:
    store.put(PLACE, Mark(10, 1))
    store.put(OTHER, Mark(20, 2))
    store.put(PLACE, Mark(30, 3))
    store.do(lambda batch: batch.forget(Table.WINDOW, 25, 100))
    assert (store.get(PLACE), store.get(OTHER)) == (Mark(30, 3), None)


def test_a_full_table_lets_the_first_go_and_counts_it(small: Kept) -> None:
    for number in range(5):
        small.put(Place(Table.SEQUENCE, f"s{number}"), Mark(number, number + 1))
    small.put(Place(Table.SEQUENCE, "s4"), Mark(9, 9))
    assert small.size(Table.SEQUENCE) == Size(3, 2)
    assert small.number("evicted") == 2
    assert small.get(Place(Table.SEQUENCE, "s1")) is None
    assert small.get(Place(Table.SEQUENCE, "s2")) == Mark(2, 3)


def test_what_was_undone_takes_no_room(small: Kept) -> None:
    def work(batch: Batch) -> None:
        for number in range(5):
            with pytest.raises(Failed), batch.attempt():
                batch.put(Place(Table.KEY, f"undone {number}"), Mark(1, 1))
                raise Failed
        for number in range(3):
            batch.put(Place(Table.KEY, f"k{number}"), Mark(1, number + 1))

    small.do(work, *(Place(Table.KEY, f"k{number}") for number in range(3)))
    assert (small.size(Table.KEY), small.number("evicted")) == (Size(3, 1), 0)


def parked(message_id: str, **known: Any) -> ParkedMessage:
    fields = {"sequence_number": None, "key": None, "tries": 5, "parked_us": 1} | known
    return ParkedMessage(
        bus="mqtt",
        channel="up",
        qos=1,
        message_id=message_id,
        partition_key="p",
        reason="ValueError: no",
        body=b'{"messageId": "X"}',
        **fields,
    )


def test_a_parked_message_waits_and_the_same_one_waits_once(store: Kept) -> None:
    first, second = parked("Y", parked_us=2), parked("X", sequence_number=3, key="k", parked_us=1)
    for message in (parked("Y", tries=4, parked_us=0), first, second):
        store.do(lambda batch, message=message: batch.park(message))  # type: ignore[misc]
    store.open_again()
    assert store.run(store.store.parked()) == [second, first]
    assert store.run(store.store.summary()).parked == 2


def test_a_parked_message_that_had_its_effect_after_all_waits_no_more(store: Kept) -> None:
    for message in (parked("X"), parked("Y")):
        store.do(lambda batch, message=message: batch.park(message))  # type: ignore[misc]

    def fail(batch: Batch) -> None:
        batch.unpark(parked("Y").identity)
        raise Failed

    with pytest.raises(Failed):
        store.do(fail)
    store.do(lambda batch: batch.unpark(parked("Z").identity))
    store.do(lambda batch: batch.unpark(parked("X").identity))
    assert store.run(store.store.parked()) == [parked("Y")]


NOW_US = 1_795_220_000_000_000


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            MessageIdWindow(600 * SECOND_US),
            MessageIdWindow(20 * SECOND_US, partitioned=True),
            "was created with a window of 10 min, which cannot become a window of 20 s,"
            " partitioned;",
        ),
        (
            MessageIdWindow(600 * SECOND_US, partitioned=True, sessions=True),
            MessageIdWindow(600 * SECOND_US, partitioned=True),
            "was created with a window of 10 min, partitioned, sessions, which cannot become a"
            " window of 10 min, partitioned;",
        ),
        (
            None,
            MessageIdWindow(),
            "was created without duplicate detection by message id, and is to be used with it;",
        ),
        (
            MessageIdWindow(),
            None,
            "was created with duplicate detection by message id, and is to be used without it;",
        ),
    ],
)
def test_the_window_is_chosen_when_the_store_is_created(
    store: Kept, first: MessageIdWindow | None, second: MessageIdWindow | None, said: str
) -> None:
    """Also J09: what was created without detection has none, ever."""
    name = str(store.store)
    store.do(lambda batch: Detectors(window=first).settle(batch, name, NOW_US))
    store.open_again()
    store.do(lambda batch: Detectors(window=first, sequence=None).settle(batch, name, NOW_US))
    with pytest.raises(ConfigurationError) as error:
        store.do(lambda batch: Detectors(window=second).settle(batch, name, NOW_US))
    assert f"{name} {said}" in str(error.value)
    assert str(error.value).endswith("name another store, or remove this one")
    store.do(lambda batch: Detectors(window=first).settle(batch, name, NOW_US))


@pytest.mark.parametrize("length_us", [20 * SECOND_US, 7 * 86_400 * SECOND_US])
def test_the_length_of_the_window_may_change_for_all_who_use_the_store(
    store: Kept, length_us: int
) -> None:
    before = Detectors(window=MessageIdWindow(600 * SECOND_US, partitioned=True))
    after = Detectors(window=MessageIdWindow(length_us, partitioned=True))
    for detectors in (before, after):
        store.do(lambda batch, new=detectors: new.settle(batch, "s", NOW_US))  # type: ignore[misc]
        store.open_again()
    assert store.number("window_us") == length_us
    found = store.do(lambda batch: before.as_kept(batch)).window
    assert found is not None and found.settings == after.window.settings  # type: ignore[union-attr]


@pytest.mark.parametrize("partitioned", [False, True])
def test_ids_of_before_topics_were_remembered_count_for_every_topic_until_they_are_over(
    store: Kept, partitioned: bool
) -> None:
    window = MessageIdWindow(600 * SECOND_US, partitioned=partitioned)
    detectors, name = Detectors(window=window, sequence=None), "1:p:X" if partitioned else "X"
    for number, value in (*window.settings.items(), ("created", 1)):
        store.do(lambda batch, n=number, v=value: batch.add(n, v))  # type: ignore[misc]
    store.put(Place(Table.WINDOW, name), Mark(NOW_US - 1, 7))
    store.do(lambda batch: detectors.settle(batch, "s", NOW_US))
    store.open_again()

    def take(channel: str, message_id: str, now_us: int) -> Duplicate | None:
        message = Incoming(channel=channel, message_id=message_id, partition_key="p")

        def work(batch: Batch) -> Duplicate | None:
            detectors.settle(batch, "s", now_us)
            kept = detectors.as_kept(batch)
            found = kept.judge(batch, message, now_us)
            if found is None:
                kept.remember(batch, message, now_us, 8)
            return found

        both = MessageIdWindow(partitioned=partitioned, topicless_until_us=1).places(message)
        return store.do(work, *both)

    assert [take(channel, "X", NOW_US) for channel in ("a", "b")] == [Duplicate("window", 7)] * 2  # type: ignore[arg-type]
    assert take("a", "Y", NOW_US) is None
    assert take("b", "Y", NOW_US) is None
    assert take("a", "Y", NOW_US) == Duplicate("window", 8)  # type: ignore[arg-type]
    week_us = NOW_US + 7 * 86_400 * SECOND_US
    assert take("a", "X", week_us) is None
    assert store.number("topicless_until_us") == 0


class Model:
    """Everything that was ever accepted, and what the seeds say of it."""

    def __init__(self) -> None:
        self.accepted: list[tuple[int, Incoming]] = []
        self.streams: dict[Stream, tuple[int, int]] = {}

    def receive(self, message: Incoming, position: int, *, duplicate: bool) -> bool:
        """Note a number, and by which position; whether it says that the message is a duplicate."""
        if message.sequence_number is None:
            return False
        last, newest = self.streams.get(message.stream, (0, 0))
        if 1 < message.sequence_number <= last:
            return True
        position = max(newest, position) if duplicate else position
        self.streams[message.stream] = message.sequence_number, position
        return False

    def judge(self, message: Incoming, now_us: int) -> tuple[str, int] | None:
        """By whom a message is ignored, and the position of what it repeats."""
        ids = (message.channel, message.message_id, message.partition_key)
        window = self._last(lambda old: (old.channel, old.message_id, old.partition_key) == ids)
        if window is not None and now_us - window[1] < WINDOW_US:
            return "window", window[0]
        last, newest = self.streams.get(message.stream, (0, 0))
        if 1 < (message.sequence_number or 0) <= last:
            return "sequence", newest
        key = self._last(
            lambda old: old.remove_duplicates_key == message.remove_duplicates_key is not None
        )
        if key is not None and key[1] >= now_us - SUM_US:
            return "key", key[0]
        return None

    def _last(self, fits: Callable[[Incoming], bool]) -> tuple[int, int] | None:
        for position in range(len(self.accepted), 0, -1):
            at_us, old = self.accepted[position - 1]
            if fits(old):
                return position, at_us
        return None


EDGES = (0, 1, WINDOW_US - 1, WINDOW_US, WINDOW_US + 1, SUM_US - 1, SUM_US, SUM_US + 1)
MESSAGES = st.builds(
    Incoming,
    channel=st.sampled_from(["up", "other"]),
    message_id=st.sampled_from(["X", "Y"]),
    partition_key=st.sampled_from(["", "p"]),
    sequence_number=st.sampled_from([None, 1, 2, 3, 4]),
    remove_duplicates_key=st.sampled_from([None, "k", "l"]),
)


class Consumer(RuleBasedStateMachine):
    """A store and the model get the same messages at the same times."""

    opened: Callable[[], Kept]

    def __init__(self) -> None:
        super().__init__()
        self.kept = type(self).opened()
        self.model = Model()
        self.now_us = 1_795_220_000_000_000

    @initialize()
    def create(self) -> None:
        self.kept.do(lambda batch: DETECTORS.settle(batch, "store", self.now_us))

    @rule(message=MESSAGES, fails=st.sampled_from([False] * 4 + [True]))
    def arrive(self, message: Incoming, fails: bool) -> None:
        position = len(self.model.accepted) + 1
        counted: list[bool] = []

        def work(batch: Batch) -> Duplicate | None:
            found = DETECTORS.judge(batch, message, self.now_us)
            if found is None:
                try:
                    with batch.attempt():
                        DETECTORS.remember(batch, message, self.now_us, position)
                        if fails:
                            raise Failed
                except Failed:
                    pass
            else:
                counted.append(DETECTORS.ignore(batch, message, self.now_us, found))
            DETECTORS.forget(batch, self.now_us, at_most=2)
            return found

        found = self.kept.do(work, *DETECTORS.places(message))
        expected = self.model.judge(message, self.now_us)
        assert (None if found is None else (found.by.value, found.first_position)) == expected
        if expected is not None:
            assert counted == [self.model.receive(message, expected[1], duplicate=True)]
        elif not fails:
            self.model.accepted.append((self.now_us, message))
            self.model.receive(message, position, duplicate=False)

    @rule(wait_us=st.one_of(st.sampled_from(EDGES), st.integers(0, 2 * SUM_US)))
    def wait(self, wait_us: int) -> None:
        self.now_us += wait_us

    @rule()
    def restart(self) -> None:
        self.kept.open_again()

    def teardown(self) -> None:
        self.kept.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_store_says_of_any_message_what_the_model_says(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    class Subject(Consumer):
        opened = staticmethod(
            lambda: kept(kind, tmp_path, lambda: request.getfixturevalue("valkey"))
        )

    small, full = {"memory": (60, 3_000), "sqlite": (25, 500), "redis": (25, 500)}[kind]
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Subject, settings=settings(max_examples=sizes.size(small, full), stateful_step_count=30)
    )
