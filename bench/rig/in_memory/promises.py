"""Does whoever uses a part of a consumer, or of an outbox, alone get what it promises?

How topic filters, times and brokers are spelled is written down by hand, from MQTT 5.0 (4.7),
ISO 8601 and RFC 3986. A file is refused as what it is: in use, no file, somebody else's, too new,
unreadable; and it keeps what it takes, all that was written together or none of it.
"""

import asyncio
import io
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from random import Random
from shutil import rmtree
from sqlite3 import Connection, connect
from ssl import CERT_REQUIRED, create_default_context
from typing import NoReturn, TypeVar

from bench.chance import stream
from bench.rig.in_memory.inbox_twin import Deciding, broken_waiting, loses, may_become, settled
from bench.rig.in_memory.memory_twin import Keeping, TwinFile
from bench.rig.in_memory.written_files import new_folder, seize
from lns.clock import StoreUnavailable
from lns.delivery import Incoming
from lns.delivery.detectors import (
    Detectors,
    Judge,
    MessageIdWindow,
    MinMsgTime,
    RemoveDuplicatesKeys,
    SequenceTracker,
    duration,
    time_us,
)
from lns.delivery.effect import EffectUnavailable, JsonLinesStream, effect_of, json_lines
from lns.delivery.inbox import Decisions, Tries, figures, figures_in
from lns.delivery.incoming import Offered
from lns.delivery.mqtt_session import Broker, broker
from lns.delivery.outbox import Entry, Outbox, Turns, state_of
from lns.delivery.publisher import UpstreamUnavailable
from lns.delivery.subscription import HeldSubscription, expect_topic_filter
from lns.lorawan.identifiers import eui
from lns.store.inbox_store import (
    MemoryEntries,
    MemoryInboxStore,
    SqliteInboxStore,
    Transaction,
    TransactionLost,
    at_once,
)
from lns.store.sqlite import FileUnusable, Kind, SqliteFile, SqliteStore, look

T = TypeVar("T")

_IS_REFUSED = "refused"
_LONG = "x" * 65_535
_FILTERS = ("#", "+", "/", "a", "a/#", "+/+/up", "/+", "a/+/#", "a//b", "ä", _LONG)
_NO_FILTERS: tuple[str, ...] = (
    "",
    "a#",
    "#/a",
    "a/#/b",
    "+a",
    "a+",
    "a/b+/c",
    "##",
    "++",
    "a\0",
    _LONG + "/",
)
_NO_FILTERS += ("é" + _LONG[1:],)
_AT_US = 1_767_225_600_000_000
_TIMES: Mapping[str, int | None] = {
    "": None, " \n": None, "0": 0, "12": 12_000_000, " 7\n": 7_000_000, "1.5": 1_500_000,
    "1.05": 1_050_000, "1.000001": 1_000_001, "1.0000019": 1_000_001, "12.": 12_000_000,
    "253402300799": 253_402_300_799_000_000, "9999-12-31T23:59:59Z": 253_402_300_799_000_000,
    "2026-01-01": _AT_US, "2026-01-01T00:00:00.001Z": _AT_US + 1_000, "0" * 64: 0,
    "2026-01-01T01:30:00+01:30": _AT_US, "2025-12-31T19:00:01-05:00": _AT_US + 1_000_000,
}  # fmt: skip
_NO_TIMES = ("x", "1.2.3", "-1", "12:00", "1e3", "2026-13-01", "253402300800", "0" * 65)
_STATED: Mapping[str, int | None] = {
    "7": 7_000_000,
    '{"lns":"a","minMsgTime":"2026-01-01T00:00:00Z","retryMaxS":60}': _AT_US,
}
_NOT_STATED = ("[1]", '{"lns":"a","minMsgTime":7,"retryMaxS":60}', '{"z":' + "[" * 5_000)
_DURATIONS = {
    0: "0 s", 1: "1 us", 999_999: "999999 us", 1_000_000: "1 s", 59_000_000: "59 s",
    60_000_000: "1 min", 60_000_001: "60000001 us", 61_000_000: "61 s", 5_400_000_000: "90 min",
    3_600_000_000: "1 h", 90_000_000_000: "25 h", 86_400_000_000: "1 d", 604_800_000_000: "7 d",
}  # fmt: skip
_BROKERS = {
    "mqtt://a": "mqtt://a:1883", "mqtt://a:1/": "mqtt://a:1", "mqtt://u:p@A:65535": "mqtt://a:65535",
    "mqtt://[::1]": "mqtt://[::1]:1883", "mqtt://u@[1:2:3:4:5:6:7:8]:2": "mqtt://[1:2:3:4:5:6:7:8]:2",
}  # fmt: skip
_OLDEST = {None: (None, 9_000_000), 7: (7, 7), 10_000_000: (10_000_000, 9_000_000)}
_WINDOW_US = 600_000_000
_PIPE = "a pipe that has a name"
_TOPICS = "a", "b", "c"
_ACTS = "come", "come", "take", "take", "end", "end", "lose", "leave out"
_UNREAD = "Unread"
_EFFECTS: Mapping[str, tuple[Callable[[Transaction], Awaitable[None] | None], object]] = {
    "returns": (lambda tx: None, ([_UNREAD, "Accepted"], 1, 0)),
    "is awaited": (lambda tx: MemoryInboxStore().close(), ([_UNREAD, "Accepted"], 1, 0)),
    "waits": (lambda tx: asyncio.sleep(0), "EffectMustNotWait"),
    "fails": (lambda tx: _raised(KeyError()), ([_UNREAD, "failed"], 0, 1)),
    "writes": (lambda tx: _raised(TypeError(tx.execute("SELECT"))), ([_UNREAD, "failed"], 0, 1)),
    "has no room": (lambda tx: _raised(EffectUnavailable()), ([_UNREAD, "waits"], 0, 0)),
    "loses all": (lambda tx: _raised(TransactionLost()), "TransactionLost"),
}
"""What an effect does that is a function, and what becomes of two messages then."""
_ACCEPTED: Mapping[Judge, tuple[list[int], int]] = {
    MessageIdWindow(20_000_000): ([1, 2, 5, 3, 5, 6], 0),
    MessageIdWindow(20_000_001): ([1, 2, 5, 3, 6], 0),
    RemoveDuplicatesKeys(retention_us=10_000_000, retry_us=0): ([1, 2, 5, 3, 6], 0),
    RemoveDuplicatesKeys(retention_us=9_999_999, retry_us=0): ([1, 2, 5, 3, 5, 6], 0),
    SequenceTracker(): ([1, 2, 5, 6], 2),
    SequenceTracker(perform_duplicate_checking=False): ([1, 2, 5, 3, 5, 6], 0),
}
_NO_BROKERS: tuple[str, ...] = (
    "a",
    "http://a",
    "mqtt://",
    "mqtt://a:0",
    "mqtt://a:65536",
    "mqtt://:p@a",
)
_NO_BROKERS += tuple(f"mqtt://a{rest}" for rest in ("/x", "?x", "#x", " b"))


@cache
def broken_promises() -> tuple[str, ...]:
    """What is taken for something else than it is, or remembered in another way."""
    return tuple(_broken())


def _broken() -> Iterator[str]:
    for read in (expect_topic_filter, _retained):
        yield from _other_than(read, dict.fromkeys(_FILTERS), _NO_FILTERS)
    yield from _other_than(time_us, _TIMES, _NO_TIMES)
    yield from _other_than(_stated_us, _STATED, _NOT_STATED)
    yield from _other_than(duration, _DURATIONS, ())
    yield from _other_than(lambda url: str(broker(url)), _BROKERS, _NO_BROKERS)
    yield from _other_than(_trusts, {"mqtts://a": (True, CERT_REQUIRED), "mqtt://a": None}, ())
    usual = create_default_context().verify_flags  # the time of a certificate is looked at
    yield from _other_than(_looks_at, {"mqtts://a": usual}, ())
    yield from _other_than(_accepted, _ACCEPTED, ())
    yield from _other_than(_window_us, {20_000_000: 20_000_000, 0: None, -1: _WINDOW_US}, ())
    yield from _other_than(settled, may_become(), ())
    yield from _other_than(_oldest_us, _OLDEST, ())
    yield from _other_than(_done, {how: due for how, (_, due) in _EFFECTS.items()}, ())
    yield from _other_than(_is_stream, {"-": True, "/dev/null": True, _PIPE: True, "/": False}, ())
    yield from broken_waiting()


def _trusts(url: str) -> object:
    """Whether a broker's certificate has to be for its name, and has to be there."""
    context = broker(url).tls_context()
    return context and (context.check_hostname, context.verify_mode)


def _looks_at(url: str) -> object:
    context = broker(url).tls_context()
    return context and context.verify_flags


def _accepted(judge: Judge) -> tuple[list[int], int]:
    """Which of these numbers are accepted, a second after each other, and what is counted."""
    entries, accepted = MemoryEntries(), []
    for second, number in enumerate((1, 2, 5, 3, 5, 6)):
        text = str(number)
        message = Incoming(
            channel="up", message_id=text, sequence_number=number, remove_duplicates_key=text
        )
        if judge.take(entries, message, 10_000_000 * second) is None:
            accepted.append(number)
    counts = judge.num_dup_msgs_rcvd(entries) if isinstance(judge, SequenceTracker) else 0
    return accepted, counts


def _window_us(stored_us: int) -> int | None:
    """The window of who looks into a store; less than 0: one that nobody has created."""
    created = {"created": 1, "window_us": stored_us} if stored_us >= 0 else {}
    window = Detectors(MessageIdWindow(_WINDOW_US)).with_window_of(created).window
    return None if window is None else window.window_us


def _oldest_us(known_us: int | None) -> tuple[int | None, ...]:
    """What a consumer goes by that has kept this: at first, and with what is said."""
    said = MinMsgTime(known_us, lambda topic, retry_us: None)
    before = said.oldest_us
    said.hear("up", b"9")
    return before, said.oldest_us


def _stated_us(payload: str) -> int | None:
    said = MinMsgTime(None, lambda topic, retry_us: None)
    said.hear("up", payload.encode())
    return said.oldest_us


def _is_stream(where: str) -> bool:
    """Whether effects go into a stream; standard output is somebody else's, and stays open."""
    standard_output = io.BytesIO()
    ends = os.pipe()
    try:
        lines = json_lines(where.replace(_PIPE, f"/dev/fd/{ends[1]}"), standard_output)
    except EffectUnavailable:
        return False
    finally:
        for end in ends:
            os.close(end)
    lines.close()
    return isinstance(lines, JsonLinesStream) and not standard_output.closed


def _retained(topic_filter: str) -> None:
    there = Broker("/nowhere", 1)
    HeldSubscription(there, "#", "consumer", lambda delivery: None, retained=topic_filter)


def _done(how: str) -> object:
    """What becomes of a message behind one that cannot be read, whose effect is a function."""
    store, effect = MemoryInboxStore(), effect_of(lambda message, tx: _EFFECTS[how][0](tx))
    decisions = Decisions(Detectors(), effect, Tries())
    offered = Incoming.of("up", b"?", {}, 1), Incoming(channel="other", message_id="a")
    batch = [Offered(number, message, lambda: None) for number, message in enumerate(offered)]
    decided = store.transact([], lambda tx: decisions.decide(tx, batch, 0))
    try:
        words = [
            type(one.event).__name__ if one.event else "failed" if one.failed else "waits"
            for one in at_once(decided)
        ]
    except Exception as error:
        return type(error).__name__
    seen = figures(at_once(store.summary()))
    return words, seen.accepted, seen.tries_failed


_topic = attrgetter("topic")


def _raised(error: Exception) -> NoReturn:
    raise error


@cache
def broken_turns() -> tuple[str, ...]:
    """What is said of messages that are to be sent, and not so; whatever is drawn to be done."""
    dice, turns = stream(7, "turns"), Turns()
    waits, taken, refused = list[Entry](), dict[str, Entry](), list[str]()
    for position in range(1, 500):
        topic, due, seen = dice.choice(_TOPICS), None, None
        match dice.choice(_ACTS):
            case "come":
                waits.append(Entry(position, topic, "", "", 0, b"", ""))
                turns.add(waits[-1:])
            case "take":
                due = next((e for e in waits if e.topic not in taken.keys() | {*refused}), None)
                seen = turns.take()
                waits = [entry for entry in waits if entry is not due]
                taken |= {due.topic: due} if due else {}
            case "end" if topic in refused:
                refused.remove(topic)
                turns.try_again(topic)
            case "end" if topic in taken and position % 2:
                turns.let_go(taken.pop(topic).topic)
            case "end" if topic in taken:
                refused.append(topic)
                turns.refuse(taken[topic])
                waits.append(taken.pop(topic))
            case "lose":
                turns.put_back(taken.values())
                waits += taken.values()
                taken.clear()
            case "leave out":
                turns.leave_out(range(0, position, 3))
                waits = [entry for entry in waits if entry.position % 3]
        waits.sort(key=lambda entry: entry.position)
        told = [turns.ahead, sorted(turns, key=_topic), *(one in turns for one in _TOPICS)]
        is_so = sum(e.topic not in refused for e in waits), sorted(waits, key=_topic)
        topics = {*taken, *(entry.topic for entry in waits)}
        if [seen, *told] != [due, *is_so, *(one in topics for one in _TOPICS)]:
            return ("what is to be sent: expected what waits and may go, observed something else",)
    return ()


def _other_than(
    read: Callable[[T], object], right: Mapping[T, object], wrong: tuple[T, ...]
) -> Iterator[str]:
    for one, due in {**right, **dict.fromkeys(wrong, _IS_REFUSED)}.items():
        try:
            seen = read(one)
        except ValueError:
            seen = _IS_REFUSED
        except Exception as error:
            seen = error
        if seen != due:
            yield f"{_name(one)}: expected {due}, observed {seen}"


def _name(one: object) -> str:
    return f"{one!s:.50}" if isinstance(one, str | int | tuple) else type(one).__name__


Opened = Callable[[Path], object]
_SAYS: Mapping[Opened, str] = {
    Outbox: "the outbox ",
    state_of: "",
    SqliteStore: "the store ",
    SqliteInboxStore: "the inbox ",
    figures_in: "the inbox ",
}
_KINDS: Mapping[str, tuple[Opened, ...]] = {
    "the outbox of a network server": (Outbox, state_of),
    "the sessions of a network server": (SqliteStore,),
    "the inbox of an application": (SqliteInboxStore, figures_in),
}


@cache
def ill_refused() -> tuple[str, ...]:
    """What is said of a file instead of what is so."""
    folder = new_folder("files")
    try:
        return tuple(said for kind in _KINDS for said in _ill_refused(folder / kind / "ours", kind))
    finally:
        rmtree(folder)


def _ill_refused(file: Path, kind: str) -> Iterator[str]:
    own, *looks = _KINDS[kind]
    owner = own(file)
    linked = file.with_name("linked")
    linked.symlink_to(file)
    for name in (file, linked):  # whoever finds it by another name finds the same file
        said = f"{name.name} is in use by another process; {kind} belongs to one server"
        yield from _wrong(name, own, said)
    _close(owner)
    if file.stat().st_mode & 0o077:
        yield f"{kind}: expected for its owner only, observed for others as well"
    unable = "cannot be opened: unable to open database file"
    yield from _wrong(file.parent, own, f"{file.parent.name} {unable}")
    yield from _wrong(file / "x", own, "x cannot be opened: File exists")
    file.with_name("foreign").write_text("something else" * 99)
    with closing(connect(file.with_name("another"))) as db:
        db.execute("CREATE TABLE one (number INTEGER)")
    for foreign in ("foreign", "another"):
        said = f"{foreign} holds something else than {kind}"
        yield from _wrong(file.with_name(foreign), own, said)
    for other in sorted(_KINDS.keys() - {kind}):
        for opened in _KINDS[other]:
            yield from _wrong(file, opened, f"ours holds something else than {other}")
    file.with_name("empty").touch()
    for reads in looks:
        yield from _wrong(file.with_name("none"), reads, "none is no file")
        said = f"empty is empty: nobody has written {kind} there yet"
        yield from _wrong(file.with_name("empty"), reads, said)
        yield from _wrong(file, reads, "")
    with closing(connect(file, isolation_level=None)) as db:
        [version] = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")
        yield from _wrong(file, own, "ours was written by a newer version of this program")
        db.execute(f"PRAGMA user_version = {version}")
        if own is SqliteStore:
            db.execute("REPLACE INTO device VALUES ('70B3D57ED0000001', '[7]')")
            yield from _wrong(file, own, "ours holds sessions nobody can read")
            db.execute("DELETE FROM device")
        yield from _vacuumed(db, file, own)


def _vacuumed(db: Connection, file: Path, own: Opened) -> Iterator[str]:
    """An outbox that was written before files gave pages back does so when it is opened."""
    db.execute("PRAGMA auto_vacuum = NONE")
    db.execute("VACUUM")
    yield from _wrong(file, own, "")
    [seen] = db.execute("PRAGMA auto_vacuum").fetchone()
    if (seen == 2) is not (own is Outbox):
        yield f"an older file: expected pages given back by an outbox alone, observed {seen}"


def _wrong(file: Path, opened: Opened, due: str) -> Iterator[str]:
    """Nothing, or what is said when a file is opened, that is not `due`; "": it is taken."""
    seen = ""
    try:
        _close(opened(file))
    except (UpstreamUnavailable, StoreUnavailable) as refusal:
        seen = str(refusal).replace(f"{file.parent}/", "")
    if seen != (due and f"{_SAYS[opened]}{due}"):
        yield f"a file: expected {due or 'taken'}, observed {seen or 'taken'}"


def _close(taken: object) -> None:
    if isinstance(taken, SqliteInboxStore):
        at_once(taken.close())
    elif isinstance(taken, Outbox | SqliteStore):
        taken.close()


_ROUNDS, _STEPS, _DEVICES = 40, 24, 4
_SPARE_PAGES, _PAGE_BYTES, _AUTO_CHECKPOINT = 256, 4096, 1000
_TABLES = (
    "CREATE TABLE IF NOT EXISTS one (number INTEGER PRIMARY KEY, text TEXT)",
    "CREATE TABLE IF NOT EXISTS other (number INTEGER REFERENCES one"
    " DEFERRABLE INITIALLY DEFERRED)",
)
_KIND = Kind(
    name="numbers",
    letters=b"LNSt",
    tables=_TABLES,
    upgrades=(
        lambda db: _change(db, "ALTER TABLE one ADD COLUMN text TEXT"),
        lambda db: _change(db, "UPDATE one SET text = 'upgraded'"),
    ),
    shrinks=True,
)
_ADD, _REFUSED, _UNCOMMITTED = (
    "INSERT INTO one (number) VALUES (?)",
    "INSERT INTO none VALUES (?)",
    "INSERT INTO other VALUES (-?)",
)


_ENDS_WITHIN_S = 60


async def ill_written(dice: Random) -> list[str]:
    """What files of all kinds keep instead of what they were given."""
    folder, found = new_folder("files"), list[str]()
    try:
        async with asyncio.timeout(_ENDS_WITHIN_S):
            await _use(folder, dice, found)
    except TimeoutError:
        found.append(f"who waits for it is told nothing within {_ENDS_WITHIN_S} s")
    finally:
        rmtree(folder)
    return found


async def _use(folder: Path, dice: Random, found: list[str]) -> None:
    await _sessions_at_random(folder / "sessions", dice, found.append)
    for number, entries_max in enumerate((4, 4, 1000, 1000)):
        inbox = folder / f"inbox {number}"
        await _inbox_at_random(inbox, entries_max, dice, found.append)
    found += _upgraded(folder / "older")
    file = SqliteFile(folder / "numbers", _KIND)
    file.read_at_once(lambda db: _change(db, "PRAGMA foreign_keys = ON"))
    due = list[int]()
    for _ in range(_ROUNDS):
        found += await _written(file, due, dice)
    found += [*await _compacted(file), *await _closed(file)]


async def _sessions_at_random(file: Path, dice: Random, found: Callable[[str], None]) -> None:
    store = TwinFile(file, found)
    for number in range(_DEVICES):
        keeping = Keeping({"lns-x": store}, eui(f"FE{number:014X}"), dice)
        for _ in range(_STEPS):
            await keeping.go_on()
    for number in range(_DEVICES):
        await store.refresh(eui(f"FE{number:014X}"))
        store.sessions(eui(f"FE{number:014X}"))
    store.close()


async def _inbox_at_random(
    file: Path, entries_max: int, dice: Random, found: Callable[[str], None]
) -> None:
    deciding = Deciding(SqliteInboxStore(file, entries_max=entries_max), entries_max, dice, found)
    for _ in range(_STEPS):
        await deciding.go_on()
        match dice.randrange(6):
            case 0:
                await deciding.store.close()
                deciding.store = SqliteInboxStore(file, entries_max=entries_max)
                await deciding.look()
            case 1:
                with closing(seize(file)):
                    await deciding.is_refused()
    await deciding.put_many_aside()
    for error in (None, KeyError("no key")):
        await loses(deciding.store, error, found)
    await deciding.store.close()


async def _written(file: SqliteFile, due: list[int], dice: Random) -> list[str]:
    """What is wrong after a few commits, each of several writes, one of which may be refused.

    Those behind the first commit go together into the next one; some are not waited for.
    """
    asked, ends = list[asyncio.Future[int]](), list[object]()
    for _ in range(2):
        numbers = [1 + len(due) + one for one in range(dice.randint(1, 3))]
        refused = dice.choice((_REFUSED, _UNCOMMITTED, "", "", ""))
        for number in numbers:
            sql = refused if refused and number == numbers[-1] else _ADD
            asked.append(file.submit(partial(_do, sql=sql, number=number)))
        if not refused:
            due += numbers
        ends += [FileUnusable if refused else number for number in numbers]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    left = dice.randrange(3 * len(asked))
    for one in asked[left : left + 1]:
        one.cancel()
    seen = [await file.read(_numbers)] if dice.randrange(2) else []
    told = await asyncio.gather(*asked, return_exceptions=True)
    seen.append(await file.read(_numbers))
    wrong = [f"a file: expected {due}, observed {one}" for one in seen if one != due]
    said: list[object] = [type(one) if isinstance(one, FileUnusable) else one for one in told]
    said[left : left + 1] = ends[left : left + 1]
    return wrong if said == ends else [*wrong, f"writes: expected {ends}, observed {said}"]


def _do(db: Connection, sql: str, number: int) -> int:
    db.execute(sql, (number,))
    return number


def _change(db: Connection, sql: str) -> None:
    db.execute(sql)


def _numbers(db: Connection) -> list[int]:
    return [number for (number,) in db.execute("SELECT number FROM one ORDER BY number")]


def _upgraded(file: Path) -> Iterator[str]:
    """Each step is done once, by the owner; before nobody reads the file."""
    for version in range(3):
        file.unlink(missing_ok=True)
        with closing(connect(file, isolation_level=None)) as db:
            text = ", text TEXT" if version else ""
            db.execute(f"CREATE TABLE one (number INTEGER PRIMARY KEY{text})")
            db.execute("INSERT INTO one (number) VALUES (7)")
            db.execute(f"PRAGMA application_id = {_KIND.application_id}")
            db.execute(f"PRAGMA user_version = {version}")
        try:
            seen = str(look(file, _KIND, _numbers))
        except FileUnusable as refusal:
            seen = str(refusal)
        if ("is of an earlier version" in seen) is not (version < 2):
            yield f"a file of version {version}: expected read by its owner first, observed {seen}"
        owner = SqliteFile(file, _KIND)
        row = owner.read_at_once(lambda db: db.execute("SELECT * FROM one").fetchone())
        owner.close()
        if row != (due := (7, "upgraded" if version < 2 else None)):
            yield f"a file of version {version}: expected {due}, observed {row}"


async def _compacted(file: SqliteFile) -> list[str]:
    """Pages go back when most of a long file is free, and the next ones keep some room."""
    wrong = []
    await file.write(lambda db: _change(db, "DELETE FROM one"))
    for pages, freed in ((300, 250), (800, 380), (800, 700), (400, 390)):
        await file.write(partial(_fill, pages=pages))
        await file.write(partial(_do, sql="DELETE FROM one WHERE number < ?", number=freed))
        [before] = await file.read(lambda db: db.execute("PRAGMA freelist_count").fetchone())
        await file.compact()
        [free] = await file.read(lambda db: db.execute("PRAGMA freelist_count").fetchone())
        [all_] = await file.read(lambda db: db.execute("PRAGMA page_count").fetchone())
        [auto] = await file.read(lambda db: db.execute("PRAGMA wal_autocheckpoint").fetchone())
        is_due = before > max(_SPARE_PAGES, (all_ + before - free) // 2)
        due = _SPARE_PAGES if is_due else before
        octets = file.path.stat().st_size
        if (free, auto) != (due, _AUTO_CHECKPOINT):
            wrong.append(f"of {pages} pages: expected {due} free, observed {free}, {auto}")
        if is_due and octets != all_ * _PAGE_BYTES:
            wrong.append(f"of {pages} pages: expected {all_} in the file, observed {octets} octets")
        await file.write(lambda db: _change(db, "DELETE FROM one"))
    return wrong


def _fill(db: Connection, pages: int) -> None:
    rows = [(number, "x" * (_PAGE_BYTES - 200)) for number in range(pages)]
    db.executemany("INSERT INTO one VALUES (?, ?)", rows)


async def _closed(file: SqliteFile) -> list[str]:
    """Who waits when a file is closed is told so, and so is whoever comes later."""
    waits = [file.submit(_numbers) for _ in range(3)]
    file.close()
    file.close()
    said = [str(one) for one in await asyncio.gather(*waits, return_exceptions=True)]
    for ask in (file.read, file.write):
        try:
            said.append(str(await ask(_numbers)))
        except FileUnusable as refusal:
            said.append(str(refusal))
    return [f"a file: expected closed, observed {one}" for one in said if "is closed" not in one]
