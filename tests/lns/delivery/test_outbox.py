"""The outbox: durable, numbered, bounded, one owner."""

import asyncio
import json
import random
import resource
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from operator import attrgetter
from pathlib import Path
from time import process_time

import msgspec
import pytest

from lns.delivery.outbox import Entry, Outbox, Turns, state_of
from lns.delivery.publisher import Message, UpstreamUnavailable
from tests import sizes as soak
from tests.lns.delivery.sending import ALPHA, BETA, message

TOPIC = "lorawan/lns-a/70B3D57ED0000001/up"

ENTRIES = soak.size(2_500, 20_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "lns-a.outbox"


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """No file of this process grows beyond what the write-ahead log has now."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.with_name(path.name + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def ids(outbox: Outbox, after: int = 0, limit: int = 100) -> list[tuple[str, int]]:
    entries = asyncio.run(outbox.after(after, limit))
    return [(entry.message_id, entry.sequence_number) for entry in entries]


def add(outbox: Outbox, *f_cnts: int, dev_eui: str = ALPHA) -> None:
    async def all_at_once() -> None:
        await asyncio.gather(*(outbox.add(message(f_cnt, dev_eui)) for f_cnt in f_cnts))

    asyncio.run(all_at_once())


def test_messages_come_out_in_order_and_numbered_from_1(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 7, 8, 9)
    add(outbox, 1, dev_eui=BETA)
    assert ids(outbox) == [
        ("70B3D57ED0000001-01ABCDEF-7", 1),
        ("70B3D57ED0000001-01ABCDEF-8", 2),
        ("70B3D57ED0000001-01ABCDEF-9", 3),
        ("70B3D57ED0000002-01ABCDEF-1", 1),
    ]
    assert [number for _, number in ids(outbox, after=1, limit=2)] == [2, 3]
    outbox.close()


def test_an_entry_is_the_message_as_the_application_gets_it(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 42)
    [entry] = asyncio.run(outbox.after(0, 1))
    assert (entry.topic, entry.partition_key) == ("lorawan/lns-a/70B3D57ED0000001/up", ALPHA)
    assert list(json.loads(entry.body).items()) == list(message(42).body(1).items())
    outbox.close()


def test_messages_and_numbers_outlive_the_process(path: Path) -> None:
    first = Outbox(path)
    add(first, 1, 2)
    first.close()
    second = Outbox(path)
    assert second.waiting == 2
    asyncio.run(second.remove([1, 2]))
    second.close()
    third = Outbox(path)
    add(third, 3)
    assert (third.waiting, ids(third)) == (1, [("70B3D57ED0000001-01ABCDEF-3", 3)])
    assert asyncio.run(third.after(0, 1))[0].position == 3
    third.close()


def test_a_full_outbox_refuses_until_there_is_room(path: Path) -> None:
    outbox = Outbox(path, messages_max=2)
    add(outbox, 1, 2)
    with pytest.raises(UpstreamUnavailable, match=r"lns-a\.outbox is full: 2 messages wait"):
        add(outbox, 3)
    asyncio.run(outbox.remove([1]))
    add(outbox, 3)
    assert [number for _, number in ids(outbox)] == [2, 3], "a refused message takes no number"
    outbox.close()


def test_the_bound_holds_for_many_at_once(path: Path) -> None:
    outbox = Outbox(path, messages_max=5)

    async def ten() -> list[BaseException | None]:
        adding = (outbox.add(message(f_cnt)) for f_cnt in range(10))
        return await asyncio.gather(*adding, return_exceptions=True)

    refused = [error for error in asyncio.run(ten()) if error is not None]
    assert (len(refused), outbox.waiting, len(ids(outbox))) == (5, 5, 5)
    outbox.close()


def test_what_is_put_aside_takes_room_and_is_counted_apart(path: Path) -> None:
    outbox = Outbox(path, messages_max=2)
    add(outbox, 1)
    asyncio.run(outbox.park([1]))
    add(outbox, 2)
    with pytest.raises(UpstreamUnavailable, match="2 messages wait, 1 of them parked"):
        add(outbox, 3)
    assert asyncio.run(outbox.release(0)) == 1
    assert (outbox.waiting, outbox.parked) == (2, 0)
    asyncio.run(outbox.remove([2, 3]))
    add(outbox, 3, 4)
    assert (outbox.waiting, outbox.parked) == (2, 0)
    outbox.close()


def test_a_full_disk_refuses_and_the_outbox_recovers(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 1)
    with full_disk(path), pytest.raises(UpstreamUnavailable, match="cannot be written: "):
        add(outbox, 2, 3)
    assert outbox.waiting == 1
    add(outbox, 4)
    outbox.close()
    again = Outbox(path)
    assert [number for _, number in ids(again)] == [1, 2]
    assert [name[-1] for name, _ in ids(again)] == ["1", "4"]
    again.close()


def test_a_closed_outbox_refuses(path: Path) -> None:
    outbox = Outbox(path)
    outbox.close()
    with pytest.raises(UpstreamUnavailable, match="is closed"):
        add(outbox, 1)
    later = (
        outbox.after(0, 1),
        outbox.remove([1]),
        outbox.park([1]),
        outbox.release(0),
        outbox.compact(),
    )
    for act in later:
        with pytest.raises(UpstreamUnavailable, match="is closed"):
            asyncio.run(act)
    assert (outbox.waiting, outbox.parked) == (0, 0)


def test_a_topic_of_which_nothing_waits_is_told_with_its_numbers(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 1, 2)
    add(outbox, 1, dev_eui=BETA)
    [first, second, _] = asyncio.run(outbox.after(0, 10))
    asyncio.run(outbox.remove([first.position, second.position]))
    outbox.close()
    state = state_of(path)
    assert [(one.waiting, one.first, one.last, one.numbered) for one in state.streams] == [
        (0, None, None, 2),
        (1, 1, 1, 1),
    ]
    assert (state.waiting, state.body_bytes > 0) == (1, True)


def test_an_outbox_has_one_owner(path: Path) -> None:
    outbox = Outbox(path)
    with pytest.raises(UpstreamUnavailable, match="is in use by another process"):
        Outbox(path)
    outbox.close()
    Outbox(path).close()


def test_a_file_that_is_no_outbox_is_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("not a database, and longer than the header of one " * 20)
    before = notes.read_bytes()
    with pytest.raises(UpstreamUnavailable, match=r"notes\.txt holds something else"):
        Outbox(notes)
    assert notes.read_bytes() == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UpstreamUnavailable, match=r"file/lns-a\.outbox cannot be opened: "):
        Outbox(tmp_path / "file" / "lns-a.outbox")
    with pytest.raises(UpstreamUnavailable, match="cannot be opened: "):
        Outbox(tmp_path)


def test_only_its_owner_can_read_it(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 1)
    files = sorted(path.parent.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    outbox.close()


def test_an_outbox_without_keys_is_brought_up_to_date(path: Path) -> None:
    """As written before messages had a Remove Duplicates key."""
    path.parent.mkdir()
    body = b'{"messageId":"%s","partitionKey":"70B3D57ED0000001","sequenceNumber":%d,"snr":9.5}'
    ids_then = ["70B3D57ED0000001-01ABCDEF-7", "70B3D57ED0000001-01ABCDEF.2-0-0016C001F1500001-3"]
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(
            "CREATE TABLE message (position INTEGER PRIMARY KEY AUTOINCREMENT,"
            " topic TEXT NOT NULL, message_id TEXT NOT NULL, partition_key TEXT NOT NULL,"
            " sequence_number INTEGER NOT NULL, body BLOB NOT NULL)"
        )
        db.execute(
            "CREATE TABLE stream"
            " (topic TEXT PRIMARY KEY, sequence_number INTEGER NOT NULL) WITHOUT ROWID"
        )
        for number, message_id in enumerate(ids_then, start=1):
            row = TOPIC, message_id, ALPHA, number, body % (message_id.encode(), number)
            db.execute("INSERT INTO message VALUES (NULL, ?, ?, ?, ?, ?)", row)
        db.execute("INSERT INTO stream VALUES (?, 2)", (TOPIC,))
        db.execute(f"PRAGMA application_id = {int.from_bytes(b'LNSo', 'big')}")
        db.commit()
    for _ in range(2):
        outbox = Outbox(path)
        entries = asyncio.run(outbox.after(0, 10))
        assert [entry.message_id for entry in entries] == ids_then
        assert [entry.remove_duplicates_key for entry in entries] == [
            "70B3D57ED0000001-01ABCDEF-7",
            "70B3D57ED0000001-01ABCDEF.2-0",
        ]
        assert entries[1].body == (
            b'{"messageId":"70B3D57ED0000001-01ABCDEF.2-0-0016C001F1500001-3",'
            b'"removeDuplicatesKey":"70B3D57ED0000001-01ABCDEF.2-0",'
            b'"partitionKey":"70B3D57ED0000001","sequenceNumber":2,"snr":9.5}'
        )
        outbox.close()
    outbox = Outbox(path)
    add(outbox, 8)
    assert ids(outbox)[-1] == ("70B3D57ED0000001-01ABCDEF-8", 3)
    outbox.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,), "it can become smaller"


def test_an_outbox_of_a_newer_version_is_left_alone(path: Path) -> None:
    Outbox(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(UpstreamUnavailable, match="was written by a newer version"):
        Outbox(path)


def test_who_gives_up_waiting_does_not_spoil_the_count(path: Path) -> None:
    outbox = Outbox(path)

    async def given_up(f_cnt: int) -> None:
        adding = asyncio.ensure_future(outbox.add(message(f_cnt)))
        await asyncio.sleep(0)
        adding.cancel()
        await asyncio.wait([adding])
        assert adding.cancelled()
        await asyncio.wait([asyncio.ensure_future(outbox.after(0, 10))])

    asyncio.run(given_up(1))
    assert (outbox.waiting, len(ids(outbox))) == (1, 1), "it became durable all the same"
    with full_disk(path):
        asyncio.run(given_up(2))
    assert (outbox.waiting, len(ids(outbox))) == (1, 1), "it was refused, and nobody heard it"
    outbox.close()


def test_a_file_stays_small_however_much_goes_through(path: Path) -> None:
    """12 000 messages in and out (50 000 in a soak); the file holds no more than what waits."""
    outbox = Outbox(path)
    sizes: list[int] = []

    async def batch(first: int) -> None:
        before = outbox.waiting
        await asyncio.gather(*(outbox.add(message(first + n)) for n in range(1000)))
        assert outbox.waiting == before + 1000
        entries = await outbox.after(0, 2000)
        await outbox.remove([entry.position for entry in entries])
        await outbox.compact()
        sizes.append(size(path))

    async def all_batches() -> None:
        for number in range(soak.size(12, 50)):
            await batch(1000 * number)

    asyncio.run(all_batches())
    assert max(sizes[5:]) <= 2 * max(sizes[:5])
    assert max(sizes) < 12 << 20, "one batch, and a log of 4 MiB"
    outbox.close()


def test_a_long_outage_leaves_no_large_file_behind(path: Path) -> None:
    outbox = Outbox(path)

    async def outage() -> tuple[int, int]:
        await asyncio.gather(*(outbox.add(long(number)) for number in range(ENTRIES)))
        most = size(path)
        while entries := await outbox.after(0, 200):
            await outbox.remove([entry.position for entry in entries])
            await outbox.compact()
        return most, size(path)

    most, least = asyncio.run(outage())
    assert most > 10 << 20
    assert least < 8 << 20, f"{most} octets became {least}"
    outbox.close()
    assert path.stat().st_size < 4 << 20
    again = Outbox(path)
    add(again, 1)
    assert ids(again) == [("70B3D57ED0000001-01ABCDEF-1", ENTRIES + 1)]
    again.close()


def long(number: int) -> Message:
    """One of as many as take more than 10 MiB together."""
    return msgspec.structs.replace(message(number), payload=bytes(soak.size(2_000, 3)))


def size(path: Path) -> int:
    """Of the file and its log together, in octets."""
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


TOPICS = "abcde"


def entry(position: int, topic: str) -> Entry:
    return Entry(position, topic, f"id-{position}", topic, position, b"{}", f"id-{position}")


topic_of = attrgetter("topic")


class Model:
    """All that waits, in order, and which topics may not send."""

    def __init__(self) -> None:
        self.waiting: list[Entry] = []
        self.held: dict[str, Entry] = {}
        self.refused: set[str] = set()

    def take(self) -> Entry | None:
        blocked = self.refused | set(self.held)
        one = next((one for one in self.waiting if one.topic not in blocked), None)
        if one is not None:
            self.waiting.remove(one)
            self.held[one.topic] = one
        return one

    def put(self, entries: list[Entry]) -> None:
        self.waiting = sorted([*self.waiting, *entries], key=lambda one: one.position)


@pytest.mark.parametrize("seed", range(20))
def test_any_history_agrees_with_a_list(seed: int) -> None:
    chance, model, turns, position = random.Random(seed), Model(), Turns(), 0
    for _ in range(400):
        match chance.choice("add add take take take go go refuse again lost park".split()):
            case "add":
                new = [entry(position + n, chance.choice(TOPICS)) for n in range(3)]
                position += 3
                model.put(new)
                turns.add(new)
            case "take":
                assert turns.take() == model.take()
            case "go" if model.held:
                topic = chance.choice(sorted(model.held))
                del model.held[topic]
                turns.let_go(topic)
            case "refuse" if model.held:
                one = model.held.pop(chance.choice(sorted(model.held)))
                model.refused.add(one.topic)
                model.put([one])
                turns.refuse(one)
            case "again" if model.refused:
                topic = chance.choice(sorted(model.refused))
                model.refused.discard(topic)
                turns.try_again(topic)
            case "lost":
                model.put(list(model.held.values()))
                turns.put_back(model.held.values())
                model.held = {}
            case "park":
                gone = {one.position for one in model.waiting if chance.random() < 0.3}
                model.waiting = [one for one in model.waiting if one.position not in gone]
                turns.leave_out(gone)
        there = {one.topic for one in model.waiting} | set(model.held)
        assert {topic for topic in TOPICS if topic in turns} == there
        assert sorted(turns, key=topic_of) == sorted(model.waiting, key=topic_of)
        assert turns.ahead == sum(one.topic not in model.refused for one in model.waiting)


def test_what_is_put_back_goes_in_the_order_it_had() -> None:
    turns = Turns()
    turns.add([entry(n, "a") for n in range(5)])
    turns.put_back(reversed([_next(turns) for _ in range(3)]))
    assert [_next(turns).position for _ in range(5)] == [0, 1, 2, 3, 4]


def _next(turns: Turns) -> Entry:
    one = turns.take()
    assert one is not None
    turns.let_go(one.topic)
    return one


def test_a_long_queue_of_one_topic_is_not_looked_through_for_each_message() -> None:
    """Looked through each time, 40 000 would take minutes."""
    turns, began_s = Turns(), process_time()
    turns.add([entry(n, "a") for n in range(40_000)])
    for n in range(40_000):
        one = turns.take()
        assert one is not None
        assert one.position == n
        assert turns.take() is None
        turns.let_go("a")
    assert process_time() - began_s < 10
