"""Would the store in memory have come to the same as a Redis, with each script that it has run?

What is asked for on one machine and worked out on another in two languages must agree: whose a
frame is, how far its session came, which counter it is answered with, and which sessions are kept.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from bench.inspection.redis_use import Words, run_by
from lns.dedup.claim import STATE_US, Bid, Claim
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from lns.store.inbox_store import at_once
from lns.store.memory import MemoryClaims, MemoryStore
from lns.store.redis import RedisStore
from lns.store.redis_claims import RedisClaims, asked_by
from lns.store.redis_wire import RedisServer

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

    def __init__(self, found: Callable[[str], None]) -> None:
        self.found = found
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
        self._said: defaultdict[Asked, list[object]] = defaultdict(list)
        self._kept: dict[bytes, bytes] = {}
        self._told: defaultdict[tuple[str, bytes], list[bytes]] = defaultdict(list)
        self._outdated: defaultdict[tuple[str, bytes], set[bytes]] = defaultdict(set)

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

    def _joins(self, lns: str, keys: Words, values: Words, reply: Any) -> None:
        dev_nonce, _, known, written = values
        user = self.dev_nonces[_dev_eui(keys[0])].setdefault(int(dev_nonce), lns)
        self._compare(keys[0], user == lns, reply != 0)
        if reply:
            self._claims.begin(_dev_eui(keys[0]), _decode(written)[0].dev_addr)
            self._keeps(lns, keys[1], known, written, reply)
            self._told[lns, keys[1]] += [written, reply]  # it may not have heard of it

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


class TwinStore(RedisStore):
    """Sessions of one server, whose DevNonces are those that it knows to be used."""

    def __init__(self, twin: MemoryTwin, server: RedisServer, lns: str, devices: Iterable[Eui]):
        super().__init__(server, lns, devices)
        self._twin, self._name_of_this = twin, lns

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        before = self.dev_nonces(dev_eui)
        due = before
        try:
            kept = await super().keep_join(dev_eui, dev_nonce, sessions)
            due = before | {dev_nonce}
            if kept and dev_nonce in before:
                self._twin.found(f"{dev_eui}: expected DevNonce {dev_nonce} used")
        finally:
            self._look_at(dev_eui, due)
        return kept

    async def refresh(self, dev_eui: Eui) -> None:
        before, users = self.dev_nonces(dev_eui), self._twin.dev_nonces[dev_eui]
        others = {nonce for nonce, lns in users.items() if lns != self._name_of_this}
        await super().refresh(dev_eui)
        self._look_at(dev_eui, before | others)

    def _look_at(self, dev_eui: Eui, due: frozenset[int]) -> None:
        """Others may have joined meanwhile."""
        seen, users = self.dev_nonces(dev_eui), self._twin.dev_nonces[dev_eui]
        more = {nonce for nonce in seen - due if users.get(nonce) == self._name_of_this}
        if not due <= seen or more:
            said = f"expected DevNonces {sorted(due)}, observed {sorted(seen)}"
            self._twin.found(f"{dev_eui}: {said}")


class TwinClaims(RedisClaims):
    """Claims of the servers of one Redis, each of which is granted as in memory."""

    def __init__(self, twin: MemoryTwin, server: RedisServer, retention_us: int) -> None:
        super().__init__(server, retention_us=retention_us)
        self._twin = twin

    async def claim(self, bid: Bid) -> Claim:
        keys, _ = asked_by(bid)
        return await self._alike(bid, keys, lambda claims: claims.claim(bid), super().claim(bid))

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        keys, _ = asked_by(bid)
        asked = super().take_f_cnt_down(bid)
        return await self._alike(bid, keys[:2], lambda claims: claims.take_f_cnt_down(bid), asked)

    async def release(self, bid: Bid, claim: Claim) -> None:
        (of_session, _, of_frame, *_), _ = asked_by(bid)
        self._twin.asks((bid.lns, of_session, of_frame), lambda claims: claims.release(bid, claim))
        await super().release(bid, claim)

    async def _alike(self, bid: Bid, keys: Sequence[str], act: Act, asked: Awaitable[T]) -> T:
        self._twin.asks((bid.lns, *keys), act)
        said = await asked
        self._twin.answered((bid.lns, *keys), said)
        return said
