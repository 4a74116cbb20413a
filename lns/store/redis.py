"""The store that several network servers may share, and that outlives them: Redis.

Any server that speaks its protocol will do. How long it outlives a crash of its own is up to its
configuration (`appendonly yes`, https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/).
The braces put the keys of a device into one slot of a cluster, so that one script reaches them.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from lns.clock import StoreUnavailable
from lns.dedup.session import Session
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.store.redis_wire import PATIENCE_US, Command, RedisServer, RedisWire, Script


def sessions_of(dev_eui: Eui) -> str:
    """JSON: the sessions of a device, newest first."""
    return f"lns:{{{dev_eui}}}:sessions"


def dev_nonces_of(dev_eui: Eui) -> str:
    """A hash: every DevNonce that was ever accepted, and the server that used it."""
    return f"lns:{{{dev_eui}}}:dev_nonces"


def join_nonce_of(dev_eui: Eui) -> str:
    """The newest JoinNonce that any server took for a device."""
    return f"lns:{{{dev_eui}}}:join_nonce"


def claim_of(dev_eui: Eui, dev_addr: DevAddr) -> str:
    """A hash that expires: how far a session came (`lns.dedup.session`), its `owner`, or `over`;
    of each life the newest frame that had its name and was given back (`named:LIFE`).
    """
    return f"lns:{{{dev_eui}}}:claim:{dev_addr}"


def frame_of(dev_eui: Eui, dev_addr: DevAddr, f_cnt: int, mic: Mic) -> str:
    """In which life a frame lies that was claimed; it expires after the retention."""
    return f"lns:{{{dev_eui}}}:frame:{dev_addr}:{f_cnt}:{mic}"


def keys_of(dev_eui: Eui) -> str:
    """A pattern: all that is known of a device by its DevEUI."""
    return f"lns:{{{dev_eui}}}:*"


def frames_of(dev_eui: Eui) -> str:
    """A pattern: all frames of a device that were claimed lately."""
    return f"lns:{{{dev_eui}}}:frame:*"


def f_cnt_down_of(dev_eui: Eui) -> str:
    """A hash: the next downlink counter by DevAddr, for as long as a session lives."""
    return f"lns:{{{dev_eui}}}:f_cnt_down"


def devices_with(dev_addr: DevAddr) -> str:
    """A set: the devices that a join gave this DevAddr."""
    return f"lns:dev_addr:{dev_addr}"


_AT_ONCE = 500  # devices read in one round trip
_OPENING_US = 5_000_000
# Another server may have written since: its newer counters stay, and so do sessions that it added;
# those that it ended do not come back. `merged` has what is there, what this server found there,
# and what it writes; sessions are the same if DevAddr and keys are.
_MERGED = """
local function come(session)
    local f_cnt_up = session.f_cnt_up
    return type(f_cnt_up) == 'number' and f_cnt_up or -1
end
local function lives(session)
    return session.lives or session.life
end
local function later(one, other)
    if one.life > other.life then return not later(other, one) end
    if one.life == other.life then return come(one) > come(other) end
    local before = other.former and other.former[tostring(one.life)] or -1
    return lives(one) >= lives(other) and come(one) > before
end
local function same(session, others)
    for _, other in ipairs(others) do
        local is_same = other.dev_addr == session.dev_addr
        for name, key in pairs(session.keys) do
            is_same = is_same and other.keys[name] == key
        end
        if is_same then return other end
    end
end
local function most(one, other)
    local found = {}
    for f_cnt, number in pairs(one or {}) do found[f_cnt] = number end
    for f_cnt, number in pairs(other or {}) do
        found[f_cnt] = math.max(number, found[f_cnt] or 0)
    end
    return found
end
local function merged(there, known, written)
    if not there or there == known or there == written then return written end
    local theirs, ours, kept = cjson.decode(there), cjson.decode(written), {}
    known = known == '' and {} or cjson.decode(known)
    for _, their in ipairs(theirs) do
        if not same(their, known) and not same(their, ours) then table.insert(kept, their) end
    end
    for _, our in ipairs(ours) do
        local their = same(our, theirs)
        if their then
            local f_cnt_down = math.max(their.f_cnt_down, our.f_cnt_down)
            local began = math.max(lives(their), lives(our))
            local copies = most(their.copies, our.copies)
            if later(their, our) then
                our = their
            elseif not later(our, their) then
                our.resubmissions = most(their.resubmissions, our.resubmissions)
            end
            our.f_cnt_down, our.lives, our.copies = f_cnt_down, began, copies
        end
        if their or not same(our, known) then table.insert(kept, our) end
    end
    return #kept > 0 and cjson.encode(kept) or '[]'
end
"""
# A DevNonce belongs to the server that used it first; that one may use it again until it has heard
# that it did. The downlink counters of sessions that are no more are forgotten, and that of the new
# session begins: nobody has answered in it, whoever hears its first frame. KEYS: DevNonces,
# sessions, downlink counters. ARGV: DevNonce, this server, what it found there, what it writes.
# Reply: what is there now, 0 if the DevNonce was used.
_JOIN = (
    _MERGED
    + """
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0
    and redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
local text = merged(redis.call('GET', KEYS[2]), ARGV[3], ARGV[4])
redis.call('SET', KEYS[2], text)
local lives = {}
for _, session in ipairs(cjson.decode(text)) do lives[session.dev_addr] = true end
for _, dev_addr in ipairs(redis.call('HKEYS', KEYS[3])) do
    if not lives[dev_addr] then redis.call('HDEL', KEYS[3], dev_addr) end
end
local opened = cjson.decode(ARGV[4])[1]
if opened and lives[opened.dev_addr] then redis.call('HSETNX', KEYS[3], opened.dev_addr, 0) end
return text
"""
)
# KEYS: sessions. ARGV: what this server found there, what it writes. Reply: what is there now, nil
# for what it wrote, 0 if there was nothing.
_KEEP = Script(
    _MERGED
    + """
local there = redis.call('GET', KEYS[1])
local text = merged(there, ARGV[1], ARGV[2])
redis.call('SET', KEYS[1], text)
return not there and 0 or text ~= ARGV[2] and text
"""
)
# KEYS: JoinNonce. ARGV: the least it may be. Reply: a greater one than any before.
_NEXT_JOIN_NONCE = Script("""
local next = redis.call('INCR', KEYS[1])
if next >= tonumber(ARGV[1]) then return next end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
""")
_EUI = re.compile("[0-9A-F]{16}")
_decode = msgspec.json.Decoder(tuple[Session, ...]).decode


class RedisStore:
    """A `SessionStore` of the devices of one server, and `SharedSessions`, as `async with`.

    Entering reads everything of `devices`; after that it is read from memory, and written through.
    What was kept is in Redis when the awaited call returns. StoreUnavailable when Redis is away,
    too slow (`patience_us` a round trip) or refuses; it is asked again with the next call.

    What another server kept since is read with `refresh`, and never undone by a later write of
    this one. Keys: `lns.store.redis`.
    """

    def __init__(
        self,
        server: RedisServer,
        lns: str,
        devices: Iterable[Eui],
        *,
        patience_us: int = PATIENCE_US,
    ) -> None:
        self._server = server
        self._lns = lns
        self._devices = tuple(devices)
        self._wire = RedisWire(server, patience_us=patience_us)
        self._sessions: dict[Eui, tuple[Session, ...]] = {}
        self._dev_nonces: defaultdict[Eui, set[int]] = defaultdict(set)
        self._joining: defaultdict[Eui, set[int]] = defaultdict(set)  # with these DevNonces
        self._join_nonces: dict[Eui, int] = {}
        # What this server knows of, which is what it read and wrote: the sessions of others that
        # a write came upon are none of it until they were handed out.
        self._texts: dict[Eui, bytes] = {}
        self._known: dict[Eui, bytes] = {}

    async def __aenter__(self) -> "RedisStore":
        patient = RedisWire(self._server, patience_us=_OPENING_US)
        try:
            await patient.do("PING")
            for first in range(0, len(self._devices), _AT_ONCE):
                some = self._devices[first : first + _AT_ONCE]
                reading = (self._read(patient, dev_eui) for dev_eui in some)
                for read in await asyncio.gather(*reading, return_exceptions=True):
                    if read is not None:
                        raise read
        finally:
            await patient.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._wire.close()

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        sessions = self._sessions.get(dev_eui, ())
        self._known[dev_eui] = self._texts.get(dev_eui, b"")
        return tuple(session.snapshot() for session in sessions)

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        kept = tuple(session.snapshot() for session in sessions)
        known, written = self._known.get(dev_eui, b""), msgspec.json.encode(kept)
        # Whoever writes next knows of this one, although it is still on its way. It may never
        # arrive: what it ends is still known then, or it would be taken for another server's.
        on_its_way = self._known[dev_eui] = _written_over(known, kept, written)
        keys = (sessions_of(dev_eui),)
        there = await self._wire.run(_KEEP, keys, known, written)
        if self._known[dev_eui] is on_its_way:
            self._known[dev_eui] = written
        was_empty = there == 0
        if there:
            kept = self._sessions_in(dev_eui, there)
        await self._let_go(dev_eui, kept)
        self._sessions[dev_eui], self._texts[dev_eui] = kept, there or written
        if was_empty:
            await self._wire.do_together(*self._told_anew(dev_eui, kept))

    async def preset(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Let a device begin with these, whatever any server knew of it; StoreUnavailable."""
        old = (*self._sessions.get(dev_eui, ()), *sessions)
        dev_addrs = sorted({session.dev_addr for session in old})
        claims = [claim_of(dev_eui, dev_addr) for dev_addr in dev_addrs]
        frames = await self._wire.do("KEYS", frames_of(dev_eui))
        await self._wire.do("DEL", f_cnt_down_of(dev_eui), *claims, *frames)
        await self._wire.do("SET", sessions_of(dev_eui), msgspec.json.encode(sessions))
        await self.refresh(dev_eui)

    async def forget(self, dev_eui: Eui) -> None:
        """Let no server know anything of a device, its DevNonces included; StoreUnavailable.

        JoinNonces go on: the device may remember the last one.
        """
        await self.preset(dev_eui, ())
        await self._wire.do("DEL", dev_nonces_of(dev_eui), sessions_of(dev_eui))
        self._dev_nonces.pop(dev_eui, None)
        await self.refresh(dev_eui)

    async def refresh(self, dev_eui: Eui) -> None:
        await self._read(self._wire, dev_eui, opening=False)

    async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        found = await self._wire.do("SMEMBERS", devices_with(dev_addr))
        names = {name.decode(errors="replace") for name in found}
        return tuple(sorted(Eui(name) for name in names if _EUI.fullmatch(name)))

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        return frozenset(self._dev_nonces[dev_eui])

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        used = self._dev_nonces[dev_eui]
        if dev_nonce in used:
            return False
        kept = tuple(session.snapshot() for session in sessions)
        # Whoever asks for the DevAddr finds the device before that can use it.
        named: list[Command] = [("SADD", devices_with(s.dev_addr), dev_eui) for s in kept[:1]]
        if not self._texts.get(dev_eui):
            named = self._told_anew(dev_eui, kept)
        used.add(dev_nonce)
        self._joining[dev_eui].add(dev_nonce)
        keys = dev_nonces_of(dev_eui), sessions_of(dev_eui), f_cnt_down_of(dev_eui)
        known, written = self._known.get(dev_eui, b""), msgspec.json.encode(kept)
        on_its_way = self._known[dev_eui] = _written_over(known, kept, written)
        there = b""
        try:
            join: Command = ("EVAL", _JOIN, len(keys), *keys, dev_nonce, self._lns, known, written)
            *_, there = await self._wire.do_together(*named, join)
        except BaseException:
            # What was not kept was not used: the device may send the same join again.
            used.discard(dev_nonce)
            raise
        finally:
            self._joining[dev_eui].discard(dev_nonce)
            if self._known[dev_eui] is on_its_way:
                self._known[dev_eui] = written if there else known
        if there:
            kept = self._sessions_in(dev_eui, there)
            await self._let_go(dev_eui, kept)
            self._sessions[dev_eui], self._texts[dev_eui] = kept, there
        return bool(there)

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        """A JoinNonce greater than any before, at any server, at least `least`; StoreUnavailable.

        One whose reply was lost is not used. A Redis that has lost those of before is told.
        """
        least = max(least, self._join_nonces.get(dev_eui, 0) + 1)
        taken = int(await self._wire.run(_NEXT_JOIN_NONCE, (join_nonce_of(dev_eui),), least))
        self._note_join_nonce(dev_eui, taken)
        return taken

    def _told_anew(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> list[Command]:
        """What tells a Redis that has nothing of a device its DevAddrs, and the nonces of joins."""
        told: list[Command] = [("SADD", devices_with(s.dev_addr), dev_eui) for s in sessions]
        key = dev_nonces_of(dev_eui)
        used = sorted(self.dev_nonces(dev_eui) - self._joining[dev_eui])
        told += (("HSETNX", key, dev_nonce, self._lns) for dev_nonce in used)
        if dev_eui in self._join_nonces:
            told.append(("SETNX", join_nonce_of(dev_eui), self._join_nonces[dev_eui]))
        return told

    async def _let_go(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        stay = {session.dev_addr for session in sessions}
        for old in self._sessions.get(dev_eui, ()):
            if old.dev_addr in stay:
                continue
            with suppress(StoreUnavailable):  # then some day somebody looks here in vain
                await self._wire.do("SREM", devices_with(old.dev_addr), dev_eui)

    async def _read(self, wire: RedisWire, dev_eui: Eui, *, opening: bool = True) -> None:
        kept, used, join_nonce = await wire.do_together(
            ("GET", sessions_of(dev_eui)),
            ("HGETALL", dev_nonces_of(dev_eui)),
            ("GET", join_nonce_of(dev_eui)),
        )
        sessions = self._sessions_in(dev_eui, kept) if kept is not None else ()
        try:
            # One that this server used, and has not heard that it did, it may use again.
            own = None if opening else self._lns.encode()
            self._dev_nonces[dev_eui] |= {
                int(dev_nonce)
                for dev_nonce, lns in zip(used[::2], used[1::2], strict=True)
                if lns != own
            }
            self._note_join_nonce(dev_eui, int(join_nonce or 0))
        except ValueError:
            raise self._unreadable(dev_eui) from None
        self._sessions[dev_eui], self._texts[dev_eui] = sessions, kept or b""

    def _note_join_nonce(self, dev_eui: Eui, join_nonce: int) -> None:
        if join_nonce > self._join_nonces.get(dev_eui, 0):
            self._join_nonces[dev_eui] = join_nonce

    def _sessions_in(self, dev_eui: Eui, text: bytes) -> tuple[Session, ...]:
        try:
            return _decode(text)
        except (ValueError, RecursionError):
            raise self._unreadable(dev_eui) from None

    def _unreadable(self, dev_eui: Eui) -> StoreUnavailable:
        said = f"{self._server} holds something else than a session or DevNonces of {dev_eui}"
        return StoreUnavailable(said)


def _written_over(known: bytes, kept: tuple[Session, ...], written: bytes) -> bytes:
    """What is known to be there while `kept` is written over what was known."""
    proofs = [(session.dev_addr, session.keys) for session in kept]
    before = _decode(known) if known else ()
    ended = tuple(old for old in before if (old.dev_addr, old.keys) not in proofs)
    return msgspec.json.encode((*kept, *ended)) if ended else written
