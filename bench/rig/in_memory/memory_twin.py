"""Would the store in memory have come to the same as a Redis or a file, with all that it was asked?

What two stores work out in two languages must agree: whose a frame is, how far its session came,
which counter it is answered with, which sessions are kept, and what an inbox remembers.
"""

import collections
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from sqlite3 import Connection
from typing import Any, TypeVar

import msgspec

from bench.inspection.redis_use import Key, Words, is_confirmation, pairs, run_by
from bench.rig.in_memory.outbox_file import ill_kept
from lns.dedup.claim import STATE_US, Bid, Claim, Claims, Level2
from lns.dedup.session import Counter, Lived, Session, Standing, standing
from lns.delivery.inbox import figures, figures_in
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.store.inbox_store import (
    EVICTED,
    OVERRUNS,
    POSITION,
    Batch,
    Identity,
    Mark,
    MemoryEntries,
    ParkedMessage,
    Place,
    SqliteInboxStore,
    Summary,
    Table,
    Work,
    at_once,
)
from lns.store.memory import MemoryClaims, MemoryStore
from lns.store.redis import RedisStore, sessions_of
from lns.store.redis_claims import RedisClaims, asked_by

T = TypeVar("T")
Act = Callable[[MemoryClaims], Coroutine[Any, Any, Any]]
Asked = tuple[bytes, ...]
"""Who asks, and the keys that a script is given."""
_decode = msgspec.json.Decoder(tuple[Session, ...]).decode


def _octets(words: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(word.encode() for word in words)


class MemoryTwin:
    """What is asked of one Redis, said to claims and sessions in memory as soon as it has run.

    There nothing expires by itself either.
    """

    def __init__(self, found: Callable[[str], None], number_in: Callable[[bytes], int]) -> None:
        self.found = found
        self._number_in = number_in
        self.dev_nonces: defaultdict[Eui, dict[int, str]] = defaultdict(dict)
        """Which server has used which."""
        self._acts: dict[Asked, Act] = {}
        self._now_us = 0
        self.empty()

    def empty(self) -> None:
        """Know nothing any more."""
        self.dev_nonces.clear()
        self._claims = MemoryClaims(lambda: self._now_us)
        self._store = MemoryStore()
        self._inboxes: defaultdict[bytes, _InboxTwin] = defaultdict(_InboxTwin)
        self._said: defaultdict[Asked, list[object]] = defaultdict(list)
        self._kept: dict[bytes, bytes] = {}
        self._told: defaultdict[tuple[str, bytes], list[bytes]] = defaultdict(list)
        self._outdated: defaultdict[tuple[str, bytes], set[bytes]] = defaultdict(set)
        self._joined: collections.Counter[tuple[str, bytes]] = collections.Counter()

    def expire(self) -> None:
        """All that would some day."""
        self._now_us += STATE_US

    def asks(self, asked: Iterable[str], act: Act) -> None:
        """A server is about to have a script run."""
        self._acts[_octets(asked)] = act

    def answered(self, asked: Iterable[str], said: object) -> None:
        """It was told what came of that, which may have run more than once."""
        key = _octets(asked)
        dues = self._said.pop(key, [])
        if said not in dues:
            self._compare(key[1], dues[-1:], said)

    def ran(self, lns: str, words: Words, reply: Any) -> None:
        """Redis has done what it was asked for."""
        keys, values = run_by(words)
        if (act := self._acts.get((*values[:1], *keys))) is not None:
            self._said[values[0], *keys].append(at_once(act(self._claims)))
        match (keys or words[1:2] or words)[0].rpartition(b":")[2], words[0]:
            case b"join_nonce", _:
                asked = self._store.next_join_nonce(Eui(keys[0].decode()), int(values[0]))
                self._compare(keys[0], at_once(asked), int(reply))
            case b"dev_nonces", b"EVAL" | b"EVALSHA":
                self._joins(lns, keys, values, reply)
            case b"sessions", b"EVAL" | b"EVALSHA":
                self._keeps(lns, keys[0], values[0], values[1], reply or values[1])
                self._outdated[lns, keys[0]] |= {b"", *self._told[lns, keys[0]]}
                self._told[lns, keys[0]] = [values[1], reply or values[1]]
            case b"sessions", b"SET":
                self._kept[words[1]] = words[2]
                self._claims.forget(_dev_eui(words[1]))
            case b"sessions", b"GET":
                self._told[lns, words[1]].append(reply or b"")
            case b"numbers", b"EVAL" | b"EVALSHA" if is_confirmation(words):
                inbox = self._inboxes[keys[0].removesuffix(b"numbers")]
                inbox.confirm(keys, values)
                for order in keys[4:7]:
                    due = len(inbox.tables[order.split(b":")[-2]])
                    self._compare(order, due, self._number_in(order))

    def look_at_the_end(self, keys: Iterable[Key]) -> None:
        """What each inbox holds."""
        held = {key.name.encode(): key.value for key in keys}
        for inbox, twin in self._inboxes.items():
            for name, due in twin.tables.items():
                seen = pairs(held.get(inbox + name, ()))
                seen.pop(POSITION.encode(), None)
                self._compare(inbox + name, due, seen)

    def heard_of_join(self, lns: str, dev_eui: Eui) -> None:
        """A server was told that its join is kept: it knows of nothing older any more."""
        of = lns, sessions_of(dev_eui).encode()
        number = self._joined[of]
        self._outdated[of] |= {b"", *self._told[of][:number]}
        del self._told[of][:number]
        self._joined[of] = 0

    def _joins(self, lns: str, keys: Words, values: Words, reply: Any) -> None:
        dev_nonce, _, known, written = values
        user = self.dev_nonces[_dev_eui(keys[0])].setdefault(int(dev_nonce), lns)
        self._compare(keys[0], user == lns, reply != 0)
        if reply:
            self._claims.begin(_dev_eui(keys[0]), _decode(written)[0].dev_addr)
            self._keeps(lns, keys[1], known, written, reply)
            told = self._told[lns, keys[1]]
            self._joined[lns, keys[1]] = len(told)
            told += [written, reply]  # it may not have heard of it

    def _keeps(self, lns: str, key: bytes, known: bytes, written: bytes, kept: bytes) -> None:
        there = self._kept.get(key, known)
        told, outdated = self._told[lns, key], self._outdated[lns, key]
        if known in outdated and known not in told and written not in told:
            self._compare(key, f"{lns} to know what it wrote last", known)
        due = written if there in (known, written) else _merged(there, known, written)
        self._compare(key, _told(due), _told(kept))
        self._kept[key] = kept

    def _compare(self, key: bytes, due: object, seen: object) -> None:
        if seen != due:
            self.found(f"{key.decode()}: expected {due}, observed {seen}")


def _dev_eui(key: bytes) -> Eui:
    return Eui(key.decode()[len("lns:{") :].partition("}")[0])


def _merged(there: bytes, known: bytes, written: bytes) -> bytes:
    """What is kept beside what others have kept since, where the store is in memory."""
    store, dev_eui = MemoryStore(MemoryStore()), Eui("")
    store.preset(dev_eui, _decode(known or b"[]"))
    store.sessions(dev_eui)
    store.preset(dev_eui, _decode(there))
    at_once(store.keep_sessions(dev_eui, _decode(written)))
    return msgspec.json.encode(store.kept(dev_eui))


def _told(text: bytes) -> list[tuple[object, ...]]:
    """What is merged of sessions; the rest is that of whoever has come farther."""
    return [
        (s.dev_addr, s.keys, s.counter, s.owner, s.f_cnt_down, s.resubmissions)
        for s in _decode(text)
    ]


class TwinStore:
    """Sessions of one server, whose DevNonces are those that it knows to be used."""

    def __init__(self, twin: MemoryTwin, store: RedisStore, lns: str) -> None:
        self._twin, self._store, self._lns = twin, store, lns
        self.sessions, self.keep_sessions = store.sessions, store.keep_sessions
        self.preset, self.devices_with = store.preset, store.devices_with
        self.dev_nonces, self.next_join_nonce = store.dev_nonces, store.next_join_nonce

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        before = self.dev_nonces(dev_eui)
        due = before
        try:
            kept = await self._store.keep_join(dev_eui, dev_nonce, sessions)
            due = before | {dev_nonce}
            if kept:
                self._twin.heard_of_join(self._lns, dev_eui)
            if kept and dev_nonce in before:
                self._twin.found(f"{dev_eui}: expected DevNonce {dev_nonce} used")
        finally:
            self._look_at(dev_eui, due)
        return kept

    async def refresh(self, dev_eui: Eui) -> None:
        before, users = self.dev_nonces(dev_eui), self._twin.dev_nonces[dev_eui]
        others = {nonce for nonce, lns in users.items() if lns != self._lns}
        await self._store.refresh(dev_eui)
        self._look_at(dev_eui, before | others)

    def _look_at(self, dev_eui: Eui, due: frozenset[int]) -> None:
        """Others may have joined meanwhile."""
        seen, users = self.dev_nonces(dev_eui), self._twin.dev_nonces[dev_eui]
        more = {nonce for nonce in seen - due if users.get(nonce) == self._lns}
        if not due <= seen or more:
            said = f"expected DevNonces {sorted(due)}, observed {sorted(seen)}"
            self._twin.found(f"{dev_eui}: {said}")


class TwinClaims:
    """Claims of the servers of one Redis, each of which is granted as in memory."""

    def __init__(self, twin: MemoryTwin, claims: RedisClaims) -> None:
        self._twin, self._claims = twin, claims

    async def claim(self, bid: Bid) -> Claim:
        keys, _ = asked_by(bid)
        asked = self._claims.claim(bid)
        return await self._alike(bid, keys, lambda claims: claims.claim(bid), asked)

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        keys, _ = asked_by(bid)
        asked = self._claims.take_f_cnt_down(bid)
        return await self._alike(bid, keys[:2], lambda claims: claims.take_f_cnt_down(bid), asked)

    async def release(self, bid: Bid, claim: Claim) -> None:
        (of_session, _, of_frame, *_), _ = asked_by(bid)
        self._twin.asks((bid.lns, of_session, of_frame), lambda claims: claims.release(bid, claim))
        await self._claims.release(bid, claim)

    async def _alike(self, bid: Bid, keys: Sequence[str], act: Act, asked: Awaitable[T]) -> T:
        self._twin.asks((bid.lns, *keys), act)
        said = await asked
        self._twin.answered((bid.lns, *keys), said)
        return said


_COUNTERS = (0, 0, 1, 1, 2, 5, 6, 7, 500, 501, 502, 16_885, 16_886, 40_000)
_LNS = ("lns-x", "lns-y", "lns-z")


class Bidding:
    """Claims of one session by three servers, each of which knows what it was told last or not.

    A frame comes once more at another one, is given back, or begins a life at any of them.
    """

    def __init__(self, claims: Claims, dev_eui: Eui, dev_addr: DevAddr, dice: Random) -> None:
        self._claims, self._dice = claims, dice
        self._dev_eui, self._dev_addr = dev_eui, dev_addr
        self._known: dict[str, tuple[Counter, str | None]] = {}
        self._granted: dict[str, tuple[Bid, Claim]] = {}

    async def go_on(self) -> None:
        """One more claim, counter for a downlink, or frame that is given back."""
        lns, what = self._dice.choice(_LNS), self._dice.randrange(10)
        bid = self._bid(lns)
        if what == 0:
            await self._claims.take_f_cnt_down(bid)
        elif what <= 2 and lns in self._granted:
            await self._claims.release(*self._granted.pop(lns))
        else:
            claim = await self._claims.claim(bid)
            if claim.level2 is Level2.OWNER:
                self._granted[lns] = bid, claim
            if self._dice.randrange(4) and not claim.outdated:
                self._known[lns] = claim.counter, claim.owner

    def _bid(self, lns: str) -> Bid:
        dice, f_cnt = self._dice, self._dice.choice(_COUNTERS)
        known, owner = self._known.get(lns, (Counter(), None))
        return Bid(
            lns=lns,
            dev_eui=self._dev_eui,
            dev_addr=self._dev_addr,
            f_cnt=f_cnt,
            mic=Mic(dice.choice(("AAAAAAAA", "BBBBBBBB"))),
            known=known,
            known_owner=owner,
            first_message=f_cnt <= 1 and dice.randrange(4) > 0,
            too_far=standing(known, f_cnt) is Standing.TOO_FAR,
            is_first=(is_first := dice.randrange(3) > 0),
            repeats=not is_first and dice.randrange(2) > 0,
            lived=None if is_first else Lived(known.life, odd=dice.randrange(2) > 0),
            f_cnt_down=dice.randrange(9),
            takes_f_cnt_down=dice.randrange(2) > 0,
            f_cnt_down_missed=dice.randrange(5),
            elders=() if dice.randrange(8) else (DevAddr("FD000000"),),
        )


class _InboxTwin:
    """An inbox of several consumers, as what they confirm makes it; of each hash what it has."""

    def __init__(self) -> None:
        self.tables: defaultdict[bytes, dict[bytes, bytes]] = defaultdict(dict)
        self._confirmed: set[bytes] = set()

    def confirm(self, keys: Words, values: Words) -> None:
        """A consumer says what it has decided; said once more it changes nothing."""
        if keys[-1] in self._confirmed:
            return
        self._confirmed.add(keys[-1])
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
        for number, before_us, at_most in said["forget"]:
            self._forget(self.tables[names[number - 1]], before_us, at_most)
        for identity in said["unparked"]:
            self.tables[b"parked"].pop(identity.encode(), None)
        for identity, message in said["parked"]:
            self.tables[b"parked"][identity.encode()] = message.encode()
        for table in names[1:4]:
            excess = _oldest(self.tables[table])[: max(0, len(self.tables[table]) - int(values[2]))]
            for oldest in excess:
                del self.tables[table][oldest]
            self._add(EVICTED, len(excess))
        self._add(OVERRUNS, len(overrun))

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
        with self._twin.attempt():
            return await super().transact(
                wanted, lambda batch: work(_Both(batch, self._twin, self._found))
            )


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
        if seen != due:
            self._found(f"{of}: expected {due}, observed {seen}")
        return seen
