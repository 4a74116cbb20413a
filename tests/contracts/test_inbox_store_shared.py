"""What several consumers of one inbox may rely on: reservation, lease, confirmation.

Real consumers on a real Valkey, some of them processes that are killed. Leases end by Valkey's own
clock; a test waits for that by asking until it has happened.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest

from bench.host.lns_process import Valkey
from lns.clock import StoreUnavailable
from lns.delivery.detectors import Detectors, MessageIdWindow, RemoveDuplicatesKeys
from lns.delivery.inbox import Accepted, Event, Ignored, Inbox
from lns.delivery.incoming import Incoming
from lns.store.inbox_redis import RedisInboxStore
from lns.store.inbox_store import Batch, Mark, Place, Table, Transaction
from lns.store.redis_wire import redis_server
from tests.blocking import start_now, stop_now
from tests.lns.delivery.arriving import TOPIC, payload

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("LORABENCH_INBOX_KILLS", "3"))
SEED = int(os.environ.get("LORABENCH_KILL_SEED", "1"))
MESSAGES = 120 * KILLS
LEASE_MS = 2000
WAIT_S = 60
PATIENCE_US = 10_000_000
LONG_US = 600_000_000
PLACE, OTHER, THIRD = (Place(Table.KEY, name) for name in ("k", "l", "m"))
SHARED = Detectors(sequence=None, keys=RemoveDuplicatesKeys())
names = count()


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = start_now(Valkey(tmp_path_factory.mktemp("valkey"), append_only=False))
    yield server
    stop_now(server)


@pytest.fixture
def name() -> str:
    return f"shared-{next(names)}"


def store(
    valkey: Valkey, name: str, consumer: str, *, lease_us: int = LONG_US, batch_max: int = 1
) -> RedisInboxStore:
    return RedisInboxStore(
        redis_server(valkey.url),
        name,
        consumer=consumer,
        lease_us=lease_us,
        patience_us=PATIENCE_US,
        batch_max=batch_max,
    )


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await true():  # noqa: ASYNC110 - a lease that ends tells nobody
            await asyncio.sleep(0.01)


async def held(store: RedisInboxStore, *places: Place) -> list[bool]:
    """Which of these messages, each with one place, somebody else has."""

    async def work(batch: Batch) -> list[bool]:
        return [batch.is_held_elsewhere(number) for number in range(len(places))]

    return await store.transact([[place] for place in places], work)


def test_what_one_consumer_works_on_no_other_one_gets(valkey: Valkey, name: str) -> None:
    async def body() -> None:
        one, other = store(valkey, name, "one"), store(valkey, name, "other")

        async def work(batch: Batch) -> list[bool]:
            return await held(other, PLACE, OTHER)

        assert await one.transact([[PLACE]], work) == [True, False]
        assert await held(other, PLACE, OTHER) == [False, False]
        await one.close()
        await other.close()

    asyncio.run(body())


def test_a_message_is_reserved_with_all_of_its_places_or_with_none(
    valkey: Valkey, name: str
) -> None:
    async def body() -> None:
        one, other, third = (store(valkey, name, who) for who in ("one", "other", "third"))

        async def within(batch: Batch) -> list[bool]:
            assert batch.is_held_elsewhere(0)
            return await held(third, PLACE, OTHER)

        async def work(batch: Batch) -> list[bool]:
            return await other.transact([[PLACE, OTHER]], within)

        assert await one.transact([[PLACE]], work) == [True, False]
        for consumer in (one, other, third):
            await consumer.close()

    asyncio.run(body())


@pytest.mark.parametrize("ends", ["kept", "failed"])
def test_a_reservation_ends_with_the_work(valkey: Valkey, name: str, ends: str) -> None:
    async def body() -> None:
        one, other = store(valkey, name, "one"), store(valkey, name, "other")

        async def work(batch: Batch) -> None:
            batch.put(PLACE, Mark(1, 1))
            if ends == "failed":
                raise ValueError("no")

        try:
            await one.transact([[PLACE]], work)
        except ValueError:
            pass
        assert await held(other, PLACE) == [False]

        async def get(batch: Batch) -> Mark | None:
            return batch.get(PLACE)

        assert await other.transact([[PLACE]], get) == (Mark(1, 1) if ends == "kept" else None)
        await one.close()
        await other.close()

    asyncio.run(body())


def test_positions_are_unique_among_consumers(valkey: Valkey, name: str) -> None:
    async def body() -> None:
        consumers = [store(valkey, name, str(number)) for number in range(3)]

        async def work(batch: Batch) -> int:
            return batch.number("position")

        wanted = [[Place(Table.KEY, f"{name}{number}")] for number in range(4)]
        first = [await consumer.transact(wanted, work) for consumer in consumers for _ in range(2)]
        assert first == [0, 4, 8, 12, 16, 20]
        for consumer in consumers:
            await consumer.close()

    asyncio.run(body())


def test_an_effect_that_outlasts_its_lease_is_counted(valkey: Valkey, name: str) -> None:
    """Both consumers had the effect: the one that was too slow, and the one that took over."""

    async def body() -> None:
        slow = store(valkey, name, "slow", lease_us=50_000)
        other = store(valkey, name, "other")

        async def take_over(batch: Batch) -> bool:
            if batch.is_held_elsewhere(0):
                return False
            batch.put(PLACE, Mark(2, batch.number("position") + 1))
            batch.put(OTHER, Mark(2, batch.number("position") + 1))
            return True

        async def work(batch: Batch) -> int:
            position = batch.number("position") + 1
            await until(lambda: other.transact([[PLACE, OTHER]], take_over))
            assert not batch.has_time()
            batch.put(PLACE, Mark(1, position))
            batch.put(OTHER, Mark(1, position))
            return position

        await slow.transact([[PLACE, OTHER]], work)
        found = await other.summary()
        assert found.numbers["overruns"] == 1

        async def get(batch: Batch) -> Mark | None:
            return batch.get(PLACE)

        mark = await other.transact([[PLACE]], get)
        assert mark is not None
        assert mark.at_us == 2
        await slow.close()
        await other.close()

    asyncio.run(body())


def test_an_effect_that_happened_is_confirmed_when_redis_is_back(tmp_path: Path, name: str) -> None:
    """It happened once, and is known as soon as Redis is: nobody has it again."""
    server = Valkey(tmp_path)

    async def body() -> None:
        await asyncio.to_thread(start_now, server)
        one = RedisInboxStore(redis_server(server.url), name, consumer="one", patience_us=2_000_000)
        effects = 0
        gone = asyncio.Event()

        async def work(batch: Batch) -> None:
            nonlocal effects
            effects += 1
            await asyncio.to_thread(stop_now, server)
            gone.set()
            batch.put(PLACE, Mark(1, 1))
            batch.add("accepted", 1)

        task = asyncio.ensure_future(one.transact([[PLACE]], work))
        await gone.wait()
        with pytest.raises(StoreUnavailable):
            await one.summary()
        await asyncio.to_thread(start_now, server)
        async with asyncio.timeout(WAIT_S):
            await task
        found = await one.summary()
        assert (effects, found.numbers["accepted"], found.sizes["key"].count) == (1, 1, 1)
        await one.close()

    try:
        asyncio.run(body())
    finally:
        stop_now(server)


@pytest.mark.parametrize("batch_max", [1, 7])
def test_several_consumers_share_what_they_consumed(
    valkey: Valkey, name: str, batch_max: int
) -> None:
    """J20, the right way: everyone gets every message, and each has its effect once."""
    effects: list[str] = []
    events: list[Event] = []

    async def effect(message: Incoming, transaction: Transaction) -> None:
        await asyncio.sleep(0)
        effects.append(str(message.remove_duplicates_key))

    async def body() -> None:
        stores = [store(valkey, name, str(n), batch_max=batch_max) for n in range(3)]
        async with asyncio.TaskGroup() as group:
            for number, one in enumerate(stores):
                group.create_task(consume(one, number))
        for one in stores:
            await one.close()

    async def consume(one: RedisInboxStore, number: int) -> None:
        async with Inbox(one, effect, SHARED, on_event=events.append) as inbox:
            for f_cnt in range(60):
                copy = payload(f_cnt + 1, messageId=f"{f_cnt}-{number}")
                inbox.offer(f"{TOPIC}/{number}", copy, {}, 1, lambda: None)
            await inbox.settled()

    asyncio.run(body())
    assert len(effects) == len(set(effects)) == 60
    accepted = [event.position for event in events if isinstance(event, Accepted)]
    assert len(set(accepted)) == 60
    ignored = [event.by for event in events if isinstance(event, Ignored)]
    assert ignored == ["key"] * 120


def test_while_redis_is_away_nothing_is_accepted_and_afterwards_everything_once(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Valkey(tmp_path)
    effects: list[str] = []
    acknowledged: list[int] = []

    async def body() -> None:
        await asyncio.to_thread(start_now, server)
        one = store(server, name, "one")
        effect = lambda message, _: effects.append(message.message_id)  # noqa: E731
        async with Inbox(one, effect, SHARED) as inbox, asyncio.timeout(WAIT_S):
            for f_cnt in (1, 2, 3, 4):
                inbox.offer(TOPIC, payload(f_cnt), {}, 1, lambda n=f_cnt: acknowledged.append(n))  # type: ignore[misc]
                if f_cnt == 2:
                    await inbox.settled()
                    await asyncio.to_thread(stop_now, server)
            while not caplog.records:  # noqa: ASYNC110 - it is told to a person
                await asyncio.sleep(0.01)
            assert acknowledged == [1, 2]
            await asyncio.to_thread(start_now, server)
            await inbox.settled()
        await one.close()

    try:
        asyncio.run(body())
    finally:
        stop_now(server)
    assert effects == [message_id(number) for number in (1, 2, 3, 4)]
    assert acknowledged == [1, 2, 3, 4]


def process(
    valkey: Valkey, name: str, consumer: str, messages: int, log: Path, *, watched: bool = True
) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("inbox_consumer_process.py")
    lease_ms = 6000 if messages == 0 else LEASE_MS
    known = [valkey.url, name, consumer, str(lease_ms), str(messages), str(log)]
    return subprocess.Popen(
        [sys.executable, str(script), *known],
        cwd=ROOT,
        stdout=subprocess.PIPE if watched else subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def kill(consumer: subprocess.Popen[str]) -> None:
    consumer.kill()
    consumer.wait(WAIT_S)
    if consumer.stdout is not None:
        consumer.stdout.close()


def test_a_consumer_that_is_killed_in_an_effect_loses_nothing(
    valkey: Valkey, name: str, tmp_path: Path
) -> None:
    """While its lease holds nobody else has the message; when it is over, another one does."""
    effects: list[Incoming] = []

    async def body() -> None:
        other = store(valkey, name, "other")
        one = Incoming(channel=TOPIC, message_id=message_id(1))
        assert await held(other, MessageIdWindow().place(one)) == [True]
        events: list[Event] = []
        async with Inbox(
            other, lambda message, _: effects.append(message), SHARED, on_event=events.append
        ) as inbox:
            inbox.offer(TOPIC, payload(1), {}, 1, lambda: None)
            async with asyncio.timeout(WAIT_S):
                await inbox.settled()
        assert [type(event) for event in events] == [Accepted]
        await other.close()

    consumer = process(valkey, name, "killed", 0, tmp_path / "log")
    try:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == f"begun {message_id(1)}\n"
    finally:
        kill(consumer)
    asyncio.run(body())
    assert [message.message_id for message in effects] == [message_id(1)]


def test_consumers_that_are_killed_repeat_no_more_than_the_effect_they_were_killed_after(
    valkey: Valkey, name: str, tmp_path: Path
) -> None:
    """Two consumers get everything; one of them is killed, again and again, at any moment.

    An effect that nobody could confirm happens again, but only when its lease is over.
    """
    chance, log = random.Random(SEED), tmp_path / "log"
    steady = process(valkey, name, "steady", MESSAGES, log, watched=False)
    try:
        for life in range(KILLS):
            consumer = process(valkey, name, f"killed {life}", MESSAGES, log)
            assert consumer.stdout is not None
            for _ in range(chance.randint(1, 30)):
                consumer.stdout.readline()
            kill(consumer)
        last = process(valkey, name, "last", MESSAGES, log)
        last.communicate(timeout=WAIT_S)
        assert (steady.wait(WAIT_S), last.returncode) == (0, 0)
    finally:
        kill(steady)

    begun: dict[str, list[tuple[int, str]]] = {}
    for line in log.read_text("utf-8").splitlines():
        one, *who, at_ns = line.split()
        begun.setdefault(one, []).append((int(at_ns), " ".join(who)))
    assert set(begun) == {message_id(number) for number in range(1, MESSAGES + 1)}
    again = [two for times in begun.values() for two in pairwise(sorted(times))]
    for (first_ns, who), (second_ns, _) in again:
        assert who.startswith("killed")
        assert second_ns - first_ns >= LEASE_MS * 1_000_000 // 2
    assert len(again) <= KILLS
    print(f"seed {SEED}: {KILLS} kills, {MESSAGES} messages, {len(again)} effects happened again")


def message_id(f_cnt: int) -> str:
    return f"70B3D57ED0000001-01ABCDEF-{f_cnt}"
