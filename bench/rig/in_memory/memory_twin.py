"""Would the store in memory have come to the same as a Redis or a file, with all that it was asked?

What two stores work out in two languages must agree: whose a frame is, how far its session came,
which counter it is answered with, and which sessions are kept.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import is_
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from bench.inspection.store import DAY_MS, Key, Words, is_confirmation, pairs, run_by
from bench.rig.in_memory.inbox_twin import RedisInboxTwin, same
from lns.clock import StoreUnavailable
from lns.dedup.claim import STATE_US, Bid, Claim, Claims, Level2, Seen, State
from lns.dedup.session import Counter, Lived, Session, Standing, begun_again, gone_on, standing
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.store.inbox_store import POSITION, at_once
from lns.store.memory import MemoryClaims, MemoryStore
from lns.store.redis import RedisStore, devices_with, join_nonce_of, keys_of, sessions_of
from lns.store.redis_claims import RedisClaims, asked_by
from lns.store.sqlite import SqliteStore

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

    def __init__(
        self, found: Callable[[str], None], ask: Callable[[Sequence[Sequence[Any]]], Sequence[Any]]
    ) -> None:
        self.found = found
        self._ask = ask
        self.dev_nonces: defaultdict[Eui, dict[int, str]] = defaultdict(dict)
        """Which server has used which."""
        self._acts: dict[Asked, tuple[Bid, Act]] = {}
        self._opened: defaultdict[str, list[str]] = defaultdict(list)
        self._now_us = 0
        self.empty()

    def empty(self) -> None:
        """Know nothing any more."""
        self.dev_nonces.clear()
        self._claims = _TwinState(lambda: self._now_us)
        self._store = MemoryStore()
        self._inboxes: defaultdict[bytes, RedisInboxTwin] = defaultdict(RedisInboxTwin)
        self._said: defaultdict[Asked, list[object]] = defaultdict(list)
        self._kept: dict[bytes, bytes] = {}
        # Of a server and a device: what it read or wrote last, all of that, and what it knows of,
        # which is what it handed out or wrote last.
        self._told: defaultdict[tuple[str, bytes], list[bytes]] = defaultdict(list)
        self._ever: defaultdict[tuple[str, bytes], set[bytes]] = defaultdict(lambda: {b""})
        self._knows: defaultdict[tuple[str, bytes], set[bytes]] = defaultdict(lambda: {b""})

    def expire(self) -> None:
        """All that would some day."""
        self._now_us += STATE_US

    def asks(self, asked: Iterable[str], bid: Bid, act: Act) -> None:
        """A server is about to have a script run."""
        self._acts[_octets(asked)] = bid, act

    def answered(self, asked: Iterable[str], said: object) -> None:
        """It was told what came of that, which may have run more than once."""
        key = _octets(asked)
        dues = self._said.pop(key, [])
        if said not in dues:
            self._compare(key[1], dues[-1:], said)

    def ran(self, lns: str, words: Words, reply: Any) -> None:
        """Redis has done what it was asked for."""
        keys, values = run_by(words)
        if (known := self._acts.get((*values[:1], *keys))) is not None:
            bid, act = known
            self._now_us += 1
            self._said[values[0], *keys].append(at_once(act(self._claims)))
            self._look_how_long(keys[0], self._claims.is_renewed(bid))
            written = self._claims.written(bid)
            for (asked_so, kept), seen in zip(written.items(), self._ask([*written]), strict=True):
                self._compare(b" ".join(asked_so[1:]), kept, seen)
        match (keys or words[1:2] or words)[0].rpartition(b":")[2], words[0]:
            case b"join_nonce", b"EVAL" | b"EVALSHA":
                asked = self._store.next_join_nonce(Eui(keys[0].decode()), int(values[0]))
                self._compare(keys[0], at_once(asked), int(reply))
            case b"join_nonce", b"SETNX" if reply:
                at_once(self._store.next_join_nonce(_dev_eui(words[1]), int(words[2])))
            case b"dev_nonces", b"EVAL" | b"EVALSHA":
                self._joins(lns, keys, values, reply)
            case b"dev_nonces", b"HSETNX":
                self.dev_nonces[_dev_eui(words[1])].setdefault(int(words[2]), words[3].decode())
            case b"sessions", b"EVAL" | b"EVALSHA":
                self._keeps(lns, keys[0], values[0], values[1], reply or values[1])
                self._knows[lns, keys[0]] = {values[1]}
            case b"sessions", b"SET":
                self._kept[words[1]] = words[2]
                self._claims.forget(_dev_eui(words[1]))
            case b"sessions", b"GET":
                self._told[lns, words[1]].append(reply or b"")
                self._ever[lns, words[1]].add(reply or b"")
            case b"numbers", b"EVAL" | b"EVALSHA" if is_confirmation(words):
                inbox = self._inboxes[keys[0].removesuffix(b"numbers")]
                if not inbox.confirm(keys, values):
                    self._compare(keys[-1], "said once, or once more", "another decision")
                for order in keys[4:7]:
                    due = len(inbox.tables[order.split(b":")[-2]])
                    self._compare(order, due, *self._ask([(b"ZCARD", order)]))

    def _look_how_long(self, claim: bytes, is_renewed: bool | None) -> None:
        """What is granted or given back is remembered for a day from then on, what is not is not.

        Then some of the day is taken away, so that the next time shows.
        """
        left_ms, _ = self._ask([(b"PTTL", claim), (b"PEXPIRE", claim, b"%d" % (DAY_MS * 3 // 4))])
        if is_renewed is not None:
            self._compare(claim + b", a day from now", is_renewed, left_ms > DAY_MS * 7 // 8)

    def look_at_the_end(self, keys: Iterable[Key]) -> None:
        """What each inbox holds."""
        held = {key.name.encode(): key.value for key in keys}
        for inbox, twin in self._inboxes.items():
            for name, due in twin.tables.items():
                seen = pairs(held.get(inbox + name, ()))
                seen.pop(POSITION.encode(), None)
                self._compare(inbox + name, due, seen)

    def opens(self, name: str, consumer: str) -> None:
        """Whoever opens his own inbox again finds it as an earlier version would have left it."""
        if self._opened[name] == [consumer]:
            inbox = b"inbox:{%b}:" % name.encode()
            self._ask([*self._inboxes[inbox].forget_topics(inbox)])
        self._opened[name].append(consumer)

    def begins(self, lns: str) -> None:
        """A server has begun, and has handed out nothing yet."""
        for of in [of for of in self._knows if of[0] == lns]:
            del self._knows[of]

    def handed_out(self, lns: str, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """A server has told what it keeps of a device: what it read or wrote last."""
        of = lns, sessions_of(dev_eui).encode()
        told = self._told[of]
        if not told:
            self.found(f"{dev_eui}: expected read by {lns}, observed not even asked for")
        self._knows[of] = {text for text in told if _says(text, sessions)}
        if told and not self._knows[of]:
            self._compare(of[1], _told(told[-1]), _told(msgspec.json.encode(sessions)))

    def heard_of_join(self, lns: str, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """A server was told that its join is kept: it knows of nothing older any more."""
        written = tuple(session.snapshot() for session in sessions)
        self._knows[lns, sessions_of(dev_eui).encode()] = {msgspec.json.encode(written)}

    def heard_of_keeping(self, lns: str, dev_eui: Eui, written: bytes) -> None:
        """A server was told what it kept, and what others had kept beside it."""
        told = self._told[lns, sessions_of(dev_eui).encode()]
        if told[:1] == [written]:  # else it has asked for more meanwhile
            del told[0]

    def _joins(self, lns: str, keys: Words, values: Words, reply: Any) -> None:
        dev_nonce, _, known, written = values
        user = self.dev_nonces[_dev_eui(keys[0])].setdefault(int(dev_nonce), lns)
        self._compare(keys[0], user == lns, reply != 0)
        if reply:
            self._claims.begin(_dev_eui(keys[0]), _decode(written)[0].dev_addr)
            before = self._told[lns, keys[1]]
            self._keeps(lns, keys[1], known, written, reply)
            self._told[lns, keys[1]] += before  # it may not have heard of it
            self._knows[lns, keys[1]].add(written)

    def _keeps(self, lns: str, key: bytes, known: bytes, written: bytes, kept: bytes) -> None:
        of, there = (lns, key), self._kept.get(key, known)
        if known in self._ever[of] - self._knows[of] and written not in self._told[of]:
            self._compare(key, f"{lns} to know what it wrote last", known)
        for due in _merged(there, known, written):
            self._compare(key, _told(due), _told(kept))
        self._kept[key] = kept
        self._told[of] = [written, kept]
        self._ever[of] |= {written, kept}

    def _compare(self, key: bytes, due: object, seen: object) -> None:
        same(self.found, key.decode(), due, seen)


class _TwinState(MemoryClaims):
    """Claims in memory, and how they would stand in a Redis (`lns.store.redis_claims`)."""

    def is_renewed(self, bid: Bid) -> bool | None:
        """Whether its session is remembered from this moment on; None: it is over."""
        session = bid.dev_eui, bid.dev_addr
        if session in self._over:
            return None
        _, since_us = self._states.get(session, (None, -1))
        return since_us == self._now_us()

    def written(self, bid: Bid) -> dict[tuple[bytes, ...], object]:
        """What is due where a Redis is asked so about a bid: its session, frame and elders."""
        session = bid.dev_eui, bid.dev_addr
        (claim, f_cnt_downs, frame, *elders), _ = asked_by(bid)
        seen, state = self._seen((session, bid.f_cnt, bid.mic)), self._state(session)
        due: dict[tuple[str, ...], object] = {
            ("HGET", f_cnt_downs, bid.dev_addr): _octets_of(self._f_cnt_down.get(session)),
            ("GET", frame): None if seen is None else _octets_of(_frame(seen)),
        }
        for key, dev_addr in zip((claim, *elders), (bid.dev_addr, *bid.elders), strict=True):
            is_over = (bid.dev_eui, dev_addr) in self._over
            due["HGET", key, "over"] = b"1" if is_over else None
        if state is not None and session not in self._over:
            facts = _facts(state)
            due["HMGET", claim, *facts] = [_octets_of(fact) for fact in facts.values()]
        return {_octets(words): one for words, one in due.items()}


def _facts(state: State) -> dict[str, object]:
    counter, named = state.counter, sorted(state.named.items())
    return {
        "f_cnt_up": -1 if counter.f_cnt_up is None else counter.f_cnt_up,
        "owner": state.owner or "",
        "life": counter.life,
        "lives": counter.lives,
        "former": " ".join(f"{life}:{far}" for life, far in counter.former.items()),
        "mic": counter.mic or "",
        **{f"named:{life}": f"{f_cnt} {mic}" for life, (f_cnt, mic) in named},
    }


def _frame(seen: Seen) -> str:
    marks = "x" * seen.lived.odd + "-" * seen.given_back
    return f"{seen.lived.life}{marks} {seen.owner or ''}"


def _octets_of(fact: object) -> bytes | None:
    return None if fact is None else str(fact).encode()


def _dev_eui(key: bytes) -> Eui:
    return Eui(key.decode()[len("lns:{") :].partition("}")[0])


def _merged(there: bytes, known: bytes, written: bytes) -> Iterator[bytes]:
    """What is kept beside what others have kept since, where the store is in memory.

    It is the same whether its server has read what it knows of, or written that.
    """
    if there in (known, written):
        yield written
        return
    for has_read in (True, False):
        store, dev_eui, begins = MemoryStore(MemoryStore()), Eui(""), _decode(known or b"[]")
        if has_read:
            store.preset(dev_eui, begins)
            store.sessions(dev_eui)
        else:
            at_once(store.keep_sessions(dev_eui, begins))
        store.preset(dev_eui, _decode(there))
        at_once(store.keep_sessions(dev_eui, _decode(written)))
        yield msgspec.json.encode(store.kept(dev_eui))


def _told(text: bytes) -> list[tuple[object, ...]]:
    """What is merged of sessions; the rest is that of whoever has come farther."""
    return [
        (s.dev_addr, s.keys, s.counter, s.owner, s.f_cnt_down, s.resubmissions)
        for s in _decode(text or b"[]")
    ]


class TwinStore:
    """Sessions of one server, whose DevNonces are those that it knows to be used."""

    def __init__(self, twin: MemoryTwin, store: RedisStore, lns: str) -> None:
        self._twin, self._store, self._lns = twin, store, lns
        self.preset, self.next_join_nonce = store.preset, store.next_join_nonce
        self.devices_with, self.dev_nonces = store.devices_with, store.dev_nonces
        twin.begins(lns)

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        sessions = self._store.sessions(dev_eui)
        if any(map(is_, sessions, self._store.sessions(dev_eui))):
            self._twin.found(f"{dev_eui}: expected sessions to be handed out, observed what it has")
        self._twin.handed_out(self._lns, dev_eui, sessions)
        return sessions

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        written = msgspec.json.encode(tuple(map(Session.snapshot, sessions)))
        await self._store.keep_sessions(dev_eui, sessions)
        self._twin.heard_of_keeping(self._lns, dev_eui, written)

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        before = self.dev_nonces(dev_eui)
        due = before
        try:
            kept = await self._store.keep_join(dev_eui, dev_nonce, sessions)
            due = before | {dev_nonce}
            if kept:
                self._twin.heard_of_join(self._lns, dev_eui, sessions)
            if kept and dev_nonce in before:
                self._twin.found(f"{dev_eui}: expected DevNonce {dev_nonce} used")
        finally:
            self._look_at(dev_eui, due)
        return kept

    async def forget(self, dev_eui: Eui) -> None:
        """Let nothing be known of a device, and of others what was."""
        due = {other: self.dev_nonces(other) for other in sorted(self._twin.dev_nonces)}
        await self._store.forget(dev_eui)
        self._twin.dev_nonces.pop(dev_eui, None)
        seen = {other: self.dev_nonces(other) for other in due}
        if seen != due | {dev_eui: frozenset()}:
            self._twin.found(f"{dev_eui}: expected forgotten alone, observed {seen}")

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


class TwinFile:
    """Sessions of one server in a file, which are as they would be in memory; `refresh` opens it
    anew.
    """

    def __init__(self, path: Path, found: Callable[[str], None]) -> None:
        self._path, self._found = path, found
        self._store, self._memory = SqliteStore(path), MemoryStore()

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        due = self._memory.sessions(dev_eui), self._memory.dev_nonces(dev_eui)
        seen = self._store.sessions(dev_eui), self._store.dev_nonces(dev_eui)
        same(self._found, dev_eui, due, seen)
        return seen[0]

    async def refresh(self, dev_eui: Eui) -> None:
        self.sessions(dev_eui)
        self.close()
        self._store = SqliteStore(self._path)

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        await self._memory.keep_sessions(dev_eui, sessions)
        await self._store.keep_sessions(dev_eui, sessions)

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        due = await self._memory.keep_join(dev_eui, dev_nonce, sessions)
        kept = await self._store.keep_join(dev_eui, dev_nonce, sessions)
        return same(self._found, dev_eui, due, kept)

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        due = await self._memory.next_join_nonce(dev_eui, least)
        seen = await self._store.next_join_nonce(dev_eui, least)
        return same(self._found, dev_eui, due, seen)

    def close(self) -> None:
        self._store.close()


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
        asked = bid.lns, of_session, of_frame
        self._twin.asks(asked, bid, lambda claims: claims.release(bid, claim))
        await self._claims.release(bid, claim)

    async def _alike(self, bid: Bid, keys: Sequence[str], act: Act, asked: Awaitable[T]) -> T:
        self._twin.asks((bid.lns, *keys), bid, act)
        said = await asked
        self._twin.answered((bid.lns, *keys), said)
        return said


_COUNTERS = (0, 1, 2, 5, 6, 7, 500, 501, 502, 16_385, 16_386, 16_885, 16_886, 40_000)
_LNS = ("lns-x", "lns-y", "lns-z")


class Bidding:
    """Claims of three sessions by three servers, each of which knows what it was told last or not.

    A frame comes once more at another one, is given back, begins a life at any of them, or brings
    the other sessions to an end; a server hears lives of which nobody else knows. Each bidding has
    few counters, and habits of its own.
    """

    def __init__(self, claims: Claims, dev_eui: Eui, dev_addrs: Sequence[DevAddr], dice: Random):
        self._claims, self._dice = claims, dice
        self._dev_eui, self._dev_addrs = dev_eui, dev_addrs
        self._counters = dice.sample(_COUNTERS, dice.randint(2, 6))
        self._begins, self._gives_back, self._ends = dice.random(), dice.random() / 2, dice.random()
        self._known: dict[tuple[str, DevAddr], tuple[Counter, str | None]] = {}
        self._lived: dict[tuple[str, DevAddr, int, Mic], Lived | None] = {}
        self._granted: list[tuple[Bid, Claim]] = []
        self._released: Bid | None = None

    async def go_on(self) -> None:
        """One more claim, counter for a downlink, or frame that is given back."""
        dice = self._dice
        if self._granted and dice.random() < self._gives_back:
            last = len(self._granted) - 1
            self._released, claim = self._granted.pop(max(0, last - dice.randrange(2)))
            return await self._claims.release(self._released, claim)
        bid = self._bid(dice.choice(_LNS), dice.choices(self._dev_addrs, (9, 1, 1))[0])
        if dice.randrange(10) == 0:
            await self._claims.take_f_cnt_down(bid)
            return
        claim = await self._claims.claim(bid)
        if claim.level2 is Level2.OWNER:
            self._granted.append((bid, claim))
        if dice.randrange(4) and not claim.outdated:
            self._known[bid.lns, bid.dev_addr] = claim.counter, claim.owner
            self._lived[bid.lns, bid.dev_addr, bid.f_cnt, bid.mic] = claim.lived

    def _bid(self, lns: str, dev_addr: DevAddr) -> Bid:
        dice, f_cnt = self._dice, self._dice.choice(self._counters)
        mic = Mic(dice.choice(("AAAAAAAA", "BBBBBBBB")))
        if self._released is not None and dice.randrange(3) == 0:
            dev_addr, f_cnt, mic = self._released.dev_addr, self._released.f_cnt, self._released.mic
        known, owner = self._known.get((lns, dev_addr), (Counter(), None))
        if dice.randrange(8) == 0:
            alone = sorted(dice.sample(_COUNTERS, dice.randint(1, 12)), reverse=True)
            for its in (*alone, dice.choice(_COUNTERS)):
                is_ahead = standing(known, its) in (Standing.NEWER, Standing.TOO_FAR)
                known = (gone_on if is_ahead else begun_again)(known, its, mic)
            known, owner = replace(known, mic=dice.choice((mic, None))), lns
        frame = lns, dev_addr, f_cnt, mic
        is_first = frame not in self._lived or dice.randrange(3) > 0
        # Of a session of before its newest frame has no MIC: it is not that of an older one.
        is_older = known.mic is None and standing(known, f_cnt) is Standing.OLDER
        is_first &= not is_older
        others = [other for other in self._dev_addrs if other != dev_addr]
        return Bid(
            lns=lns,
            dev_eui=self._dev_eui,
            dev_addr=dev_addr,
            f_cnt=f_cnt,
            mic=mic,
            known=known,
            known_owner=owner,
            first_message=dice.random() < self._begins or is_older,
            too_far=standing(known, f_cnt) is Standing.TOO_FAR,
            is_first=is_first,
            repeats=not is_first and dice.randrange(2) > 0,
            lived=None if is_first else self._lived.get(frame, Lived(known.life)),
            f_cnt_down=dice.randrange(9),
            takes_f_cnt_down=dice.randrange(2) > 0,
            f_cnt_down_missed=dice.randrange(5),
            elders=tuple(others) if dice.random() < self._ends / 9 else (),
        )


class Keeping:
    """Sessions of one device, which three servers keep side by side, each as far as it has heard.

    A server reads what others kept or does not, hears more in a session, lets one go or opens one;
    sessions share their DevAddr or a key. Each keeping has few counters.
    """

    def __init__(
        self, stores: Mapping[str, TwinStore | TwinFile], dev_eui: Eui, dice: Random
    ) -> None:
        self._stores, self._dev_eui, self._dice = stores, dev_eui, dice
        self._counters = [0, *dice.sample(_COUNTERS[1:], dice.randint(1, 4))]
        self._held: dict[str, tuple[Session, ...]] = {}
        self._dev_nonces = 0

    async def go_on(self) -> None:
        """One of the servers reads, or writes what it has heard."""
        dice, dev_eui = self._dice, self._dev_eui
        lns = dice.choice(sorted(self._stores))
        store, held = self._stores[lns], self._held.get(lns, ())
        if (what := dice.randrange(6)) == 5:
            await store.next_join_nonce(dev_eui, 1 + dice.randrange(9))
        elif what == 0:
            if not held or dice.randrange(2):
                await store.refresh(dev_eui)
            held = store.sessions(dev_eui)
        elif what == 1 or not held:
            self._dev_nonces += dice.randrange(2)  # or another server has used it
            opened = self._opened()
            more = opened, *(one for one in held if one.keys != opened.keys)
            held = more if await store.keep_join(dev_eui, self._dev_nonces, more) else held
        else:
            heard = dice.choice(held)
            self._hear(heard)
            held = tuple(one for one in held if one is heard or dice.randrange(4))
            await store.keep_sessions(dev_eui, held)
        self._held[lns] = held

    async def open_twice(self, claims: TwinClaims) -> None:
        """A session that a join opens again, its reply was lost, goes on counting downlinks."""
        dev_eui, opened = self._dev_eui, self._opened()
        lns, store = next(iter(self._stores.items()))
        for dev_nonce in range(2):
            await store.keep_join(dev_eui, dev_nonce, (opened,))
            bid = Bid(lns=lns, dev_eui=dev_eui, dev_addr=opened.dev_addr, f_cnt=0)
            await claims.take_f_cnt_down(bid)

    def _opened(self) -> Session:
        key, other = (self._dice.choice((b"\x01", b"\x02")) * 16 for _ in range(2))
        dev_addr = DevAddr(self._dice.choice(("FC000001", "FC000002")))
        return Session(dev_eui=self._dev_eui, dev_addr=dev_addr, keys=SessionKeys(key, other))

    def _hear(self, session: Session) -> None:
        dice = self._dice
        for _ in range(dice.randint(1, 2)):
            f_cnt = dice.choice(self._counters)
            if session.standing(f_cnt) is not Standing.EQUAL:
                session.advance(f_cnt, Mic("AAAAAAAA"), dice.choice(_LNS))
        for _ in range(dice.randrange(3)):
            session.take_f_cnt_down()
            session.resubmissions = {f_cnt: session.resubmissions.get(f_cnt, 0) + 1}


_DEEP = b'[{"more":' + b"[" * 60_000
_FOREIGN = {"sessions": (b"{", b"[1]", b"7", b"\xff", b"", _DEEP), "join_nonce": (b"x", b"1.5")}


def _says(text: bytes | None, sessions: tuple[Session, ...]) -> bool:
    """Whether a store tells these; what a stranger has written there tells none."""
    with suppress(msgspec.MsgspecError, RecursionError):
        return _decode(text or b"[]") == sessions
    return False


async def meet_strangers(
    store: TwinStore, devices: Sequence[Eui], ask: Callable[..., Any], found: Callable[[str], None]
) -> None:
    """What somebody else has written names no device, and is told as what it is: of its device."""
    addr, stranger = DevAddr("FE0F0F0F"), devices[0]
    ask("SADD", devices_with(addr), *devices, f"{stranger}0", f"0{stranger}", "somebody else")
    same(found, f"devices of {addr}", tuple(devices), await store.devices_with(addr))
    ask("DEL", devices_with(addr))
    for name, texts in _FOREIGN.items():
        key = keys_of(stranger).replace("*", name)
        for text in texts:
            ask("SET", key, text)
            said = ""
            try:
                await store.refresh(stranger)
            except StoreUnavailable as unavailable:
                said = str(unavailable).partition(" holds ")[2]
            except RecursionError as error:
                said = str(error)
            due = f"something else than a session or DevNonces of {stranger}"
            same(found, f"{key} is {text[:9]!r}", due, said)
        ask("DEL", key)
    await store.refresh(stranger)
    for _ in range(3):  # a Redis that has taken the place of another one knows of the first alone
        await store.next_join_nonce(stranger, 1)
        ask("SET", join_nonce_of(stranger), "1")
        await store.refresh(stranger)
