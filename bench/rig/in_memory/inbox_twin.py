"""Would an inbox in memory have come to the same as one in a Redis, or in a file?"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from sqlite3 import Connection, connect
from typing import TypeVar

from bench.chance import stream
from bench.clock import pause
from bench.inspection.store import LEASE_MS, Words
from bench.rig.in_memory.written_files import ill_kept
from lns.clock import StoreUnavailable, now_us
from lns.delivery.detectors import PERFORMS, ConfigurationError, Detectors, MessageIdWindow
from lns.delivery.inbox import figures, figures_in
from lns.delivery.incoming import InboxFull, Incoming, Offered, WaitingMessages
from lns.store.inbox_store import (
    EVICTED,
    OVERRUNS,
    POSITION,
    Batch,
    Identity,
    InboxStore,
    Mark,
    MemoryEntries,
    MemoryInboxStore,
    ParkedMessage,
    Place,
    SqliteInboxStore,
    Summary,
    Table,
    Work,
)

T = TypeVar("T")


class RedisInboxTwin:
    """An inbox of several consumers, as what they confirm makes it; of each hash what it has."""

    def __init__(self) -> None:
        self.tables: defaultdict[bytes, dict[bytes, bytes]] = defaultdict(dict)
        self._confirmed: dict[bytes, tuple[Words, Words]] = {}

    def confirm(self, keys: Words, values: Words) -> bool:
        """A consumer says what it has decided; said once more it changes nothing.

        Whether that is true: under one name it says the same.
        """
        if keys[-1] in self._confirmed:
            return self._confirmed[keys[-1]] == (keys, values)
        self._confirmed[keys[-1]] = keys, values
        said = json.loads(values[1])
        names = [key.rpartition(b":")[2] for key in keys[:8]]
        overrun = set()
        for _, number, name, found, mark in said["marks"]:
            marks = self.tables[names[number - 1]]
            if marks.get(name.encode(), b"") == found.encode():
                marks[name.encode()] = mark.encode()
            else:
                overrun.add(_numbers(mark)[1])
        for name, by in said["numbers"]:
            self._add(name, int(by))
        for identity in said["unparked"]:
            self.tables[b"parked"].pop(identity.encode(), None)
        for identity, message in said["parked"]:
            self.tables[b"parked"][identity.encode()] = message.encode()
        for table in names[1:4]:
            excess = _oldest(self.tables[table])[: max(0, len(self.tables[table]) - int(values[2]))]
            for oldest in excess:
                del self.tables[table][oldest]
            self._add(EVICTED, len(excess))
        for number, before_us, at_most in said["forget"]:
            self._forget(self.tables[names[number - 1]], before_us, at_most)
        self._add(OVERRUNS, len(overrun))
        return True

    def forget_topics(self, inbox: bytes) -> Iterator[Words]:
        """What is to be said to the Redis where it lies, to be as an earlier version left it.

        That knew of no id on which topic it was. Where two have one id, there was no such version.
        """
        marks = self.tables[b"window"]
        ids = {name: _without_topic(name.decode()).encode() for name in marks}
        if len(set(ids.values())) < len(ids):
            return
        window, order = inbox + b"window", inbox + b"window:order"
        for name, without in ids.items():
            mark = marks[without] = marks.pop(name)
            yield b"HDEL", window, name
            yield b"HSET", window, without, mark
            yield b"ZREM", order, name
            yield b"ZADD", order, mark.split()[1], without
        for number in (b"has_topics", PERFORMS.encode()):
            self.tables[b"numbers"].pop(number, None)
            yield b"HDEL", inbox + b"numbers", number

    def _add(self, name: str, by: int) -> None:
        numbers = self.tables[b"numbers"]
        if by:
            numbers[name.encode()] = b"%d" % (int(numbers.get(name.encode(), 0)) + by)

    def _forget(self, marks: dict[bytes, bytes], before_us: int, at_most: int) -> None:
        for name in _oldest(marks)[:at_most]:
            if _numbers(marks[name])[0] >= before_us:
                return
            del marks[name]


def _numbers(mark: str | bytes) -> tuple[int, ...]:
    return tuple(map(int, mark.split()))


def _oldest(marks: Mapping[bytes, bytes]) -> list[bytes]:
    return sorted(marks, key=lambda name: (_numbers(marks[name])[1], name))


def make_older(file: Path, found: Callable[[str], None]) -> None:
    """Write an inbox as an earlier version did; whoever reads it finds as many duplicates in it.

    Nobody could switch the look at sequence numbers off then.
    """
    before, _ = figures_in(file)
    forget_topics(file)
    after, _ = figures_in(file)
    if before.num_dup_msgs_rcvd not in (0, after.num_dup_msgs_rcvd):
        due, seen = before.num_dup_msgs_rcvd, after.num_dup_msgs_rcvd
        found(f"NumDupMsgsRcvd: expected {due}, observed {seen}")


class TwinInbox(SqliteInboxStore):
    """An inbox in a file, whose marks and numbers are those that there would be in memory."""

    def __init__(self, path: Path, found: Callable[[str], None], *, entries_max: int) -> None:
        super().__init__(path, entries_max=entries_max)
        self._found = found
        self._twin = MemoryEntries(entries_max=entries_max)
        self._file.read_at_once(self._read)

    def _read(self, db: Connection) -> None:
        for table, marks in self._twin.marks.items():
            for name, *mark in db.execute(f"SELECT * FROM inbox_{table} ORDER BY position"):
                marks[name] = Mark(*mark)
        self._twin.numbers.update(db.execute("SELECT * FROM inbox_number"))
        for text in ill_kept(db):
            self._found(text)

    async def summary(self) -> Summary:
        seen = await super().summary()
        sizes = {name: size.count for name, size in seen.sizes.items()}
        due = {table.value: len(marks) for table, marks in self._twin.marks.items()}
        if (sizes, seen.numbers) != (due, self._twin.numbers):
            said = f"{sizes} and {seen.numbers}"
            self._found(f"the inbox: expected {due} and {self._twin.numbers}, observed {said}")
        return seen

    async def parked(self) -> list[ParkedMessage]:
        seen = figures(await super().summary()), await super().parked()
        if seen != (told := figures_in(self.path)):
            self._found(f"the inbox: expected {seen}, observed {told} in its file")
        return seen[1]

    async def transact(self, wanted: Sequence[Sequence[Place]], work: Work[T]) -> T:
        try:
            with self._twin.attempt():
                return await super().transact(
                    wanted, lambda batch: work(_Both(batch, self._twin, self._found))
                )
        finally:
            if self._counts != (due := {t: len(marks) for t, marks in self._twin.marks.items()}):
                self._found(f"the inbox: expected {due} in mind, observed {self._counts}")


class _Both:
    """A transaction of a file, and its twin."""

    def __init__(self, batch: Batch, twin: MemoryEntries, found: Callable[[str], None]) -> None:
        self._batch, self._twin, self._found = batch, twin, found
        self.execute, self.has_time = batch.execute, batch.has_time
        self.is_held_elsewhere = batch.is_held_elsewhere

    @property
    def position(self) -> int:
        return self._batch.position

    @position.setter
    def position(self, position: int) -> None:
        self._batch.position = position

    def get(self, place: Place) -> Mark | None:
        return self._same(place, self._twin.get(place), self._batch.get(place))

    def number(self, name: str) -> int:
        return self._same(name, self._twin.number(name), self._batch.number(name))

    def put(self, place: Place, mark: Mark) -> None:
        self._twin.put(place, mark)
        self._batch.put(place, mark)

    def forget(self, table: Table, before_us: int, at_most: int) -> None:
        self._twin.forget(table, before_us, at_most)
        self._batch.forget(table, before_us, at_most)
        [(left,)] = self._batch.execute(f"SELECT count(*) FROM inbox_{table}")
        self._same(table, len(self._twin.marks[table]), left)

    def add(self, name: str, by: int) -> None:
        self._twin.add(name, by)
        self._batch.add(name, by)

    def park(self, message: ParkedMessage) -> None:
        self._batch.park(message)

    def unpark(self, identity: Identity) -> None:
        self._batch.unpark(identity)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        with self._twin.attempt(), self._batch.attempt():
            yield

    def _same(self, of: object, due: T, seen: T) -> T:
        return same(self._found, of, due, seen)


def same(found: Callable[[str], None], of: object, due: T, seen: T) -> T:
    """What is seen, which is to be what is due."""
    if seen != due:
        found(f"{of}: expected {due}, observed {seen}")
    return seen


def forget_topics(file: Path) -> None:
    """Write an inbox as an earlier version did, which knew of no id on which topic it was.

    Where two topics have one id, there was no such version.
    """
    with closing(connect(file)) as db, db:
        names = [name for (name,) in db.execute("SELECT name FROM inbox_window")]
        ids = {name: _without_topic(name) for name in names}
        if len(set(ids.values())) == len(ids):
            for name, without in ids.items():
                db.execute("UPDATE inbox_window SET name = ? WHERE name = ?", (without, name))
            db.execute("DELETE FROM inbox_number WHERE name = 'has_topics'")
            db.execute("DELETE FROM inbox_number WHERE name = ?", (PERFORMS,))


def _without_topic(name: str) -> str:
    """What stands behind bus and channel, each of which has its length before it."""
    for _ in range(2):
        length, _, rest = name.partition(":")
        name = rest[int(length) + 1 :]
    return name


class _Undone(Exception):
    """An effect, or all work, has failed."""


_Acts = Sequence[tuple[str, object, *tuple[object, ...]]]
_MANY = 1_001
_HALF_LEASE_US = LEASE_MS * 1_000 // 2


class Deciding:
    """Batches of messages that a store of an inbox keeps as one in memory does.

    A message has a place in some tables and a number, and is put aside or no more; it may fail, and
    so may a whole batch. Marks are let go from the oldest.
    """

    def __init__(
        self, store: InboxStore, entries_max: int, dice: Random, found: Callable[[str], None]
    ) -> None:
        self.store, self._dice, self._found = store, dice, found
        self._twin = MemoryInboxStore(entries_max=entries_max)
        self._is_small = entries_max < 99  # then marks leave by themselves
        self._messages = 0

    async def go_on(self, fails: Callable[[], None] | None = None) -> None:
        """One more batch; `fails`: what comes between its effects and what keeps them."""
        dice, number = self._dice, 1 if self.store.batch_max == 1 else self._dice.randint(1, 5)
        batch = [self._drawn() for _ in range(number)]
        if not any(act[0] in ("put", "add", "park") for acts in batch for act in acts):
            fails = None  # nobody insists on keeping nothing
        undone = [dice.randrange(4) == 0 and fails is None for _ in batch]
        forgotten: list[tuple[str, object, *tuple[object, ...]]] = []
        if not self._is_small:
            before_us = _APART_US * (self._messages - dice.randrange(9))
            forgotten = [("forget", table, before_us, dice.randint(1, 3)) for table in Table]
        is_all_undone = dice.randrange(6) == 0 and fails is None
        ends = []
        for store, fault in ((self._twin, None), (self.store, fails)):
            seen: list[object] = []
            work = _work(batch, undone, forgotten, seen, fault, is_all_undone=is_all_undone)
            try:
                seen.append(await store.transact([_places(one) for one in batch], work))
            except _Undone as error:
                seen.append(str(error))
            ends.append(seen)
        same(self._found, "a batch", *ends)
        await self.look()

    async def put_many_aside(self) -> None:
        """More messages in one batch than anybody asks for at once."""
        facts = 1, None, "reason", 5, 7, b"{}"
        many = [ParkedMessage("bus", "channel", 1, f"{n}", "", *facts) for n in range(_MANY)]
        before = (await self.store.summary()).parked
        work = _work([[("park", message) for message in many]], [False], [], [])
        await self.store.transact([[]], work)
        seen = (await self.store.summary()).parked, len(await self.store.parked())
        same(self._found, "put aside", (before + _MANY, before + _MANY), seen)

    async def leave_to_others(self, rival: InboxStore) -> None:
        """Of one batch those messages are held elsewhere of which another consumer has a place."""
        one, other = Place(Table.KEY, "one"), Place(Table.KEY, "other")

        async def ask(batch: Batch) -> list[bool]:
            return [batch.is_held_elsewhere(number) for number in range(3)]

        async def hold(_: Batch) -> list[bool]:
            return await self.store.transact([[one], [other], [other, one]], ask)

        seen = await rival.transact([[one]], hold)
        same(self._found, "held elsewhere", [True, False, True], seen)
        await rival.close()

    async def begin_late(self, slow_us: int) -> None:
        """Effects of one batch that last: none begins in the second half of the lease.

        That begins when it is asked for, and not when the answer is there, `slow_us` later.
        """
        for lasts_us in (slow_us, _HALF_LEASE_US - 1, _HALF_LEASE_US, 2 * _HALF_LEASE_US):
            began_us = now_us()

            async def work(batch: Batch, until_us: int = began_us + lasts_us) -> tuple[bool, bool]:
                has_time = batch.has_time()
                await pause(until_us - now_us())
                return has_time, batch.has_time()

            seen = await self.store.transact([[Place(Table.KEY, "late")]], work)
            same(self._found, f"after {lasts_us} us", (True, lasts_us < _HALF_LEASE_US), seen)

    async def look(self) -> None:
        """What both hold."""
        held = []
        for store in (self._twin, self.store):
            told = await store.summary()
            numbers = {name: by for name, by in told.numbers.items() if by and name != POSITION}
            held.append((told.sizes, numbers, told.parked, await store.parked()))
        same(self._found, "an inbox", *held)

    async def is_refused(self) -> None:
        """Nothing of a batch is kept."""
        one = self._drawn()
        try:
            await self.store.transact([_places(one)], _work([one], [False], [], []))
            self._found("a batch: expected refused, observed kept")
        except StoreUnavailable:
            await self.look()

    def _drawn(self) -> _Acts:
        dice = self._dice
        self._messages += 1
        acts: list[tuple[str, object, *tuple[object, ...]]] = []
        for table in dice.sample(tuple(Table), dice.randrange(4)):
            place = Place(table, f"{dice.randrange(12)}")
            mark = Mark(_APART_US * self._messages, self._messages, dice.randrange(3))
            acts += [("get", place), ("put", place, mark), ("get", place)]
        name = dice.choice("ab")
        if acts or dice.randrange(2):
            acts += [("add", name, dice.randint(1, 3)), ("number", name)]
        identity = "bus", dice.choice("cd"), dice.randrange(2), dice.choice("ef"), dice.choice("gh")
        if dice.randrange(3) == 0:
            return [*acts, ("unpark", identity)]
        facts = self._messages, None, f"reason {self._messages}", dice.randrange(9)
        parked_us = self._messages * 7_919 % 10_007  # the clock of who puts aside may go back
        return [*acts, ("park", ParkedMessage(*identity, *facts, parked_us, b"{}"))]


def _places(acts: _Acts) -> list[Place]:
    return [act[1] for act in acts if act[0] == "put" and isinstance(act[1], Place)]


def _act(entries: Batch, what: str, *facts: object) -> object:
    return getattr(entries, what)(*facts)


def _work(
    batch: Sequence[_Acts],
    undone: Sequence[bool],
    forgotten: _Acts,
    seen: list[object],
    fails: Callable[[], None] | None = None,
    *,
    is_all_undone: bool = False,
) -> Work[int]:
    async def work(entries: Batch) -> int:
        for acts, is_undone in zip(batch, undone, strict=True):
            with suppress(_Undone), entries.attempt():
                seen.extend(_act(entries, *act) for act in acts)
                if is_undone:
                    raise _Undone
        for act in forgotten:
            _act(entries, *act)
        if is_all_undone:
            raise _Undone("all of it")
        if fails is not None:
            fails()
        return len(batch)

    return work


_APART_US = 1_000
_WAITING_MAX, _LATER_US = 6, (0, 0, 3, 9)


@cache
def broken_waiting() -> tuple[str, ...]:
    """What waits for a decision, and is not so taken; whatever is drawn to be done."""
    dice, waiting = stream(7, "waiting"), WaitingMessages(_WAITING_MAX)
    waits, taken = list[Offered](), list[Offered]()
    for at_us in range(600):
        due: object = None
        seen: object = None
        match dice.randrange(4):
            case 0 | 1:
                name = str(at_us)
                one = Offered(at_us, Incoming(channel=dice.choice("abc"), message_id=name), _done)
                due, seen = len(waits) + len(taken) < _WAITING_MAX, True
                try:
                    waiting.add(one.message, _done)
                except InboxFull:
                    seen = False
                waits += [one] * bool(seen)
            case 2 if not taken:
                at_most, held = dice.randrange(1, 4), set[object]()
                for one in waits:
                    if one.due_us > at_us or one.stream in held:
                        held.add(one.stream)
                    elif len(taken) < at_most:
                        taken.append(one)
                due = [one.message for one in taken]
                waits = [one for one in waits if one not in taken]
                taken = waiting.take(at_most, at_us)
                seen = [one.message for one in taken]
            case _:
                back = [one for one in taken if dice.randrange(2)]
                for one in back:
                    one.due_us = at_us + dice.choice(_LATER_US)
                waiting.give_back(back)
                waits, taken = sorted([*back, *waits], key=_age), []
        heads = {one.stream: one.due_us for one in reversed(waits)}
        told = len(waiting), waiting.next_due_us()
        if (seen, *told) != (due, len(waits) + len(taken), min(heads.values(), default=None)):
            return ("what waits: expected in its order, in its time and counted, observed not so",)
    return ()


def _age(one: Offered) -> int:
    assert isinstance(one.message, Incoming)
    return int(one.message.message_id)


def _done() -> None:
    """Nobody is to be told."""


_WINDOWS = {
    "": None,
    "a window of 10 min": MessageIdWindow(),
    "a window of 20000001 us": MessageIdWindow(20_000_001),
    "a window of 7 d, partitioned": MessageIdWindow(604_800_000_000, partitioned=True),
    "a window of 20 s, sessions": MessageIdWindow(20_000_000, sessions=True),
    "a window of 1 h, partitioned, sessions": MessageIdWindow(
        3_600_000_000, partitioned=True, sessions=True
    ),
}


def settled(windows: tuple[str, str]) -> object:
    """The window of a store that one consumer has made, and another opens: or why it cannot."""
    entries = MemoryEntries()
    try:
        for name in windows:
            Detectors(_WINDOWS[name]).settle(entries, "it", 0)
    except ConfigurationError as refusal:
        return str(refusal)
    if entries.number("topicless_until_us"):
        return "ids count for every topic, as in a store of an earlier version"
    asked = _WINDOWS[windows[1]]
    own = asked and _of_length(asked, window_us=600_000_001)
    window = Detectors(own).with_window_of(entries.numbers).window
    return window and window.settings


def _of_length(window: MessageIdWindow, window_us: int) -> MessageIdWindow:
    """The same with another length."""
    flags = {name: bool(window.settings[name]) for name in ("partitioned", "sessions")}
    return MessageIdWindow(window_us, **flags)


def may_become() -> dict[tuple[str, str], object]:
    """Only its length may be another one later."""
    dues: dict[tuple[str, str], object] = {}
    for was, wanted in product(_WINDOWS, repeat=2):
        asked = _WINDOWS[wanted]
        due: object = asked and asked.settings
        if bool(was) is not bool(wanted):
            due = (
                f"it was created {'with' if was else 'without'} duplicate detection by message id,"
                f" and is to be used {'with' if wanted else 'without'} it; that is chosen at"
                " creation: name another store, or remove this one"
            )
        elif was.partition(",")[2] != wanted.partition(",")[2]:
            due = (
                f"it was created with {was}, which cannot become {wanted}; name another store, or"
                " remove this one"
            )
        dues[was, wanted] = due
    return dues


async def loses(store: InboxStore, error: Exception | None, found: Callable[[str], None]) -> None:
    """An effect that ends the transaction is told of, with what it has raised itself."""

    async def work(batch: Batch) -> None:
        with batch.attempt():
            batch.execute("COMMIT")
            if error is not None:
                raise error

    due, seen = f"the transaction of an effect has ended: {error}", "kept"
    try:
        await store.transact([], work)
    except Exception as refusal:
        seen = str(refusal)
    if seen != due:
        found(f"an inbox: expected {due}, observed {seen}")
