"""The store of an inbox that several consumers share: Redis.

A message is *reserved* before its effect and confirmed after it: each of its places is held by one
consumer, for as long as a lease of Redis's own clock lasts. A consumer that dies in between loses
nothing, as another one gets the message once the lease is over.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from lns.clock import StoreUnavailable, now_us
from lns.store.inbox_store import (
    ENTRIES_MAX,
    POSITION,
    Identity,
    Mark,
    MemoryEntries,
    ParkedMessage,
    Place,
    Size,
    Summary,
    Table,
    Work,
)
from lns.store.redis_wire import RedisServer, RedisWire, Script

# ARGV: token, lease (ms), JSON {"places": [[number of the hash, name]], "groups": [[number of the
# place]]}, number of messages. A message gets all of its places or none. Reply: by message whether
# it is reserved, by place its mark or "", the named numbers, the first position that is ours.
RESERVE = Script("""
local asked = cjson.decode(ARGV[3])
local free, marks, granted = {}, {}, {}
for number, place in ipairs(asked.places) do
    local holder = redis.call('GET', KEYS[8 + number])
    free[number] = not holder or holder == ARGV[1]
    marks[number] = redis.call('HGET', KEYS[place[1]], place[2]) or ''
end
for number, group in ipairs(asked.groups) do
    local all = true
    for _, place in ipairs(group) do all = all and free[place] end
    if all then
        for _, place in ipairs(group) do
            redis.call('SET', KEYS[8 + place], ARGV[1], 'PX', ARGV[2])
        end
    end
    granted[number] = all and 1 or 0
end
local position = redis.call('HINCRBY', KEYS[1], 'position', ARGV[4]) - ARGV[4]
return {granted, marks, redis.call('HGETALL', KEYS[1]), position}
""")

# ARGV: token, JSON {"marks": [[number of the place, number of the hash, name, mark found, mark]],
# "numbers": [[name, what to add]], "forget": [[number of the hash, before (us), at most]],
# "unparked": [identity], "parked": [[identity, message]]}, most marks of a table. A mark that
# somebody else has made since stays: the lease was over, and the effect may have happened there
# too. Done once, however often it is said.
CONFIRM = Script("""
if not redis.call('SET', KEYS[#KEYS], '1', 'NX', 'PX', 86400000) then return 0 end
local said, overruns, outlasted = cjson.decode(ARGV[2]), 0, {}
for _, change in ipairs(said.marks) do
    local marks, name, mark = KEYS[change[2]], change[3], change[5]
    local position = string.match(mark, '^%S+ (%S+)')
    if (redis.call('HGET', marks, name) or '') == change[4] then
        redis.call('HSET', marks, name, mark)
        redis.call('ZADD', KEYS[change[2] + 3], position, name)
    elseif not outlasted[position] then
        outlasted[position] = true
        overruns = overruns + 1
    end
end
for number = 9, #KEYS - 1 do
    if redis.call('GET', KEYS[number]) == ARGV[1] then redis.call('DEL', KEYS[number]) end
end
for _, change in ipairs(said.numbers) do redis.call('HINCRBY', KEYS[1], change[1], change[2]) end
for _, identity in ipairs(said.unparked) do redis.call('HDEL', KEYS[8], identity) end
for _, message in ipairs(said.parked) do redis.call('HSET', KEYS[8], message[1], message[2]) end
local evicted = 0
for number = 2, 4 do
    while redis.call('ZCARD', KEYS[number + 3]) > tonumber(ARGV[3]) do
        redis.call('HDEL', KEYS[number], redis.call('ZPOPMIN', KEYS[number + 3])[1])
        evicted = evicted + 1
    end
end
for _, table in ipairs(said.forget) do
    local marks, order = KEYS[table[1]], KEYS[table[1] + 3]
    for _, name in ipairs(redis.call('ZRANGE', order, 0, table[3] - 1)) do
        local at_us = string.match(redis.call('HGET', marks, name), '^%S+')
        if tonumber(at_us) >= table[2] then break end
        redis.call('HDEL', marks, name)
        redis.call('ZREM', order, name)
    end
end
if evicted > 0 then redis.call('HINCRBY', KEYS[1], 'evicted', evicted) end
if overruns > 0 then redis.call('HINCRBY', KEYS[1], 'overruns', overruns) end
return 1
""")


T = TypeVar("T")

LEASE_US = 30_000_000
PATIENCE_US = 2_000_000
_AGAIN_S = 0.2
_TABLES = tuple(Table)
_decode_parked = msgspec.json.Decoder(ParkedMessage).decode
_encode = msgspec.json.Encoder().encode


class RedisInboxStore:
    """Keeps the inbox called `name` in a Redis; each of its consumers has a name of its own.

    No effect happens twice while leases hold: it begins in the first half of its lease, and must
    end in the second. One that outlasts its lease may happen at another consumer too; that is
    counted (`overruns`), and so is a consumer that was stopped so long. An effect is never part of
    the transaction: killed exactly between effect and confirmation, it happens again at whoever
    takes over. With `batch_max` messages confirmed at once, so many may. Once an effect has
    happened, it is confirmed for as long as that takes.

    Positions are unique among all consumers, and have gaps. Consumers that share a stream share its
    sequence numbers too, one message after the other; a message that its neighbour overtakes at
    another consumer is lost to the tracker, so a stream should have one consumer.

    A mark costs about 300 octets of Redis; at most `entries_max` a table. StoreUnavailable when
    Redis is away, slower than `patience_us` or refuses. The keys begin with `inbox:{name}:`.
    """

    def __init__(
        self,
        server: RedisServer,
        name: str,
        *,
        consumer: str,
        lease_us: int = LEASE_US,
        patience_us: int = PATIENCE_US,
        entries_max: int = ENTRIES_MAX,
        batch_max: int = 1,
        now_us: Callable[[], int] = now_us,
    ) -> None:
        self._server = server
        self._name = name
        self._consumer = consumer
        self._lease_us = lease_us
        self._entries_max = entries_max
        self.batch_max = batch_max
        self._now_us = now_us
        self._wire = RedisWire(server, patience_us=patience_us)
        self._life: int | None = None
        self._reservations = 0

    def __str__(self) -> str:
        return f"{self._server} ({self._name})"

    async def transact(self, wanted: Sequence[Sequence[Place]], work: Work[T]) -> T:
        """What the work returns, which may wait, once what it changed is confirmed.

        It must leave alone what is held elsewhere, and begin nothing when there is no time.
        """
        token = await self._next_token()
        places = tuple(dict.fromkeys(place for group in wanted for place in group))
        began_us = self._now_us()
        reserved = await self._reserve(token, wanted, places)
        batch = _Reserved(reserved, lambda: self._now_us() - began_us < self._lease_us // 2)
        done: T | None = None
        failed: BaseException | None = None
        try:
            with batch.attempt():
                done = await work(batch)
        except BaseException as error:
            failed = error
        await self._confirm(token, places, batch)
        if failed is not None:
            raise failed
        return done  # type: ignore[return-value]

    async def summary(self) -> Summary:
        commands = [("ZCARD", self._key(f"{table}:order")) for table in _TABLES]
        counts = await self._wire.do_together(*commands)
        sizes = {}
        for table, count in zip(_TABLES, counts, strict=True):
            sizes[table.value] = Size(count, await self._oldest_us(table))
        numbers, put_aside = await self._wire.do_together(
            ("HGETALL", self._key("numbers")), ("HLEN", self._key("parked"))
        )
        found = {name.decode(): int(value) for name, value in sorted(_pairs(numbers))}
        return Summary(sizes, found, put_aside)

    async def parked(self) -> list[ParkedMessage]:
        texts = await self._wire.do("HVALS", self._key("parked"))
        found = [_decode_parked(text) for text in texts]
        return sorted(found, key=lambda message: message.parked_us)

    async def close(self) -> None:
        await self._wire.close()

    async def _next_token(self) -> str:
        """A name for one reservation that nobody has had, not even a namesake before a restart.

        One that was never confirmed is used again: who knows what was reserved with it.
        """
        if self._life is None:
            self._life = int(await self._wire.do("INCR", self._key("lives")))
        return f"{self._consumer}:{self._life}:{self._reservations}"

    async def _reserve(
        self, token: str, wanted: Sequence[Sequence[Place]], places: Sequence[Place]
    ) -> "_Reservation":
        number_of = {place: number for number, place in enumerate(places, start=1)}
        asked = {
            "places": [[_TABLES.index(place.table) + 2, place.name] for place in places],
            "groups": [[number_of[place] for place in group] for group in wanted],
        }
        lease_ms = max(1, self._lease_us // 1000)
        reply = await self._wire.run(
            RESERVE, self._keys(places), token, lease_ms, _encode(asked), len(wanted)
        )
        return _Reservation(places, *reply)

    async def _confirm(self, token: str, places: Sequence[Place], batch: "_Reserved") -> None:
        """Keep what the work has changed and end the reservation; for as long as that takes."""
        said = _encode(batch.changes(places))
        keys = (*self._keys(places), self._key(f"confirmed:{token}"))
        while True:
            try:
                await self._wire.run(CONFIRM, keys, token, said, self._entries_max)
                self._reservations += 1
                return
            except StoreUnavailable:
                if not batch.has_changed:
                    self._reservations += 1
                    return  # the lease ends by itself
                await asyncio.sleep(_AGAIN_S)

    async def _oldest_us(self, table: Table) -> int | None:
        [name] = await self._wire.do("ZRANGE", self._key(f"{table}:order"), 0, 0) or [None]
        if name is None:
            return None
        text = await self._wire.do("HGET", self._key(table), name)
        return None if text is None else _mark(text).at_us

    def _key(self, rest: str) -> str:
        return f"inbox:{{{self._name}}}:{rest}"

    def _keys(self, places: Iterable[Place]) -> tuple[str, ...]:
        tables = [self._key(table) for table in _TABLES]
        orders = [self._key(f"{table}:order") for table in _TABLES]
        held = [self._key(f"held:{place.table}:{place.name}") for place in places]
        return (self._key("numbers"), *tables, *orders, self._key("parked"), *held)


class _Reservation:
    """What Redis said: by message whether it is ours, by place its mark, and all numbers."""

    def __init__(
        self,
        places: Sequence[Place],
        granted: Sequence[int],
        marks: Sequence[bytes],
        numbers: Sequence[bytes],
        position: int,
    ) -> None:
        self.granted = [bool(one) for one in granted]
        self.marks = {place: text for place, text in zip(places, marks, strict=True) if text}
        self.numbers = {name.decode(): int(value) for name, value in _pairs(numbers)}
        self.numbers[POSITION] = position


class _Reserved(MemoryEntries):
    def __init__(self, found: _Reservation, has_time: Callable[[], bool]) -> None:
        super().__init__()
        self._found = found
        self._has_time = has_time
        self._to_forget: dict[str, tuple[int, int]] = {}
        self._unparked: dict[Identity, None] = {}
        for place, text in found.marks.items():
            self.marks[place.table][place.name] = _mark(text)
        self.numbers.update(found.numbers)

    @property
    def has_changed(self) -> bool:
        return bool(self._changed_marks() or self._changed_numbers() or self.put_aside)

    def forget(self, table: Table, before_us: int, at_most: int) -> None:
        """Redis does so: here are only the marks of these messages."""
        self.restore_when_undone(self._to_forget, table.value)
        self._to_forget[table.value] = before_us, at_most

    def unpark(self, identity: Identity) -> None:
        """Redis knows whether it waits."""
        super().unpark(identity)
        self.restore_when_undone(self._unparked, identity)
        self._unparked[identity] = None

    def is_held_elsewhere(self, number: int) -> bool:
        return not self._found.granted[number]

    def has_time(self) -> bool:
        """Whether less than half of the lease is over."""
        return self._has_time()

    def changes(self, places: Sequence[Place]) -> dict[str, object]:
        """What the confirmation says; marks as texts, for a number of Lua has 53 bits only."""
        found, changed = self._found.marks, self._changed_marks()
        return {
            "marks": [
                [
                    number,
                    _TABLES.index(place.table) + 2,
                    place.name,
                    found.get(place, b"").decode(),
                    changed[place],
                ]
                for number, place in enumerate(places, start=1)
                if place in changed
            ],
            "numbers": [[name, str(by)] for name, by in self._changed_numbers().items()],
            "forget": [
                [_TABLES.index(Table(table)) + 2, before_us, at_most]
                for table, (before_us, at_most) in self._to_forget.items()
            ],
            "unparked": [_encode(identity).decode() for identity in self._unparked],
            "parked": [
                [_encode(identity).decode(), _encode(message).decode()]
                for identity, message in self.put_aside.items()
            ],
        }

    def _changed_marks(self) -> dict[Place, str]:
        texts = {
            Place(table, name): f"{mark.at_us} {mark.position} {mark.number}"
            for table, marks in self.marks.items()
            for name, mark in marks.items()
        }
        found = self._found.marks
        return {p: text for p, text in texts.items() if found.get(p, b"").decode() != text}

    def _changed_numbers(self) -> dict[str, int]:
        """What was added to each; the positions were taken when the messages were reserved."""
        found = self._found.numbers
        added = {name: value - found.get(name, 0) for name, value in self.numbers.items()}
        return {name: by for name, by in added.items() if by and name != POSITION}


def _mark(text: bytes) -> Mark:
    return Mark(*map(int, text.split()))


def _pairs(reply: Any) -> Iterable[tuple[bytes, bytes]]:
    return reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
