"""A real Redis for the network servers and consumers of one process, and who uses it how?

One program a process; between it and each server or consumer stands a relay on virtual time.
"""

import asyncio
import atexit
import gc
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from shutil import rmtree
from threading import Event
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from bench.clock import network
from bench.host.lns_files import toml_text
from bench.host.lns_process import valkey_program
from bench.host.program import LOOPBACK, HostError, ProgramMissing, bound_to_this
from bench.inspection.store import (
    AT_ONCE_MAX,
    DATABASE,
    OPENING,
    OTHERS,
    PASSWORD,
    READS,
    USER,
    Conversation,
    Held,
    Insistence,
    Kept,
    Key,
    Words,
    counters_left,
    expiries,
    in_the_end,
    is_confirmation,
    is_refusal,
    is_reservation,
    joined,
    left_of_before,
    looked_at,
    meet,
    packed,
    positions_taken,
    preset,
    read,
    released,
    reserved,
)
from bench.rig.in_memory.inbox_twin import Deciding
from bench.rig.in_memory.memory_twin import (
    Bidding,
    Keeping,
    MemoryTwin,
    TwinClaims,
    TwinStore,
    meet_strangers,
)
from bench.rig.in_memory.written_files import new_folder, told_without_folder
from bench.rig.provisioning import kept_for_inspector
from lns.clock import StoreUnavailable, now_us
from lns.config import Config, LnsFile
from lns.dedup.claim import Bid
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui, dev_addr, eui
from lns.startup import prepare
from lns.store.inbox_redis import RedisInboxStore
from lns.store.redis import (
    RedisStore,
    dev_nonces_of,
    join_nonce_of,
    keys_of,
    sessions_of,
)
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import redis_server
from lns.uplink.registry import EndDevice

_SENTINELS = 26379, 26380, 26381, 26382
"""One cannot be reached, one says nothing, one is new, and one knows the masters."""
_FIRST_PORT, _OTHER_MASTER = 6379, 1_000
_BIDDINGS, _KEEPINGS, _STEPS = 48, 12, 24
_TOO_SLOW_US = 3_000_000
_SLOW_US = 1_000
_STARTS_WITHIN_S = 10
_READ_BYTES = 1 << 16
_EXPIRE = """for _, key in ipairs(redis.call('KEYS', '*')) do
    if redis.call('PTTL', key) >= 0 then redis.call('DEL', key) end
end"""
_MEMORY = {"be full": "1", "have room": "0"}
_OK = b"+OK\r\n"
_READONLY = b"-READONLY You can't write against a read only replica.\r\n"
_READING: Mapping[bytes, Callable[[bytes], tuple[str | bytes, ...]]] = {
    b"+string": lambda name: ("GET", name),
    b"+hash": lambda name: ("HGETALL", name),
    b"+set": lambda name: ("SMEMBERS", name),
    b"+zset": lambda name: ("ZRANGE", name, "0", "-1", "WITHSCORES"),
}
_QUIET = ("--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "")


class SlowWire(Protocol):
    """What is known of the wire between a server and its store."""

    @property
    def is_cut(self) -> bool: ...

    @property
    def delay_us(self) -> int: ...


def there_is_one() -> bool:
    """Whether this host has the program."""
    try:
        valkey_program()
    except ProgramMissing:
        return False
    return True


class _Program:
    """The program of one process, which ends with it, and the line to it."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        folder = new_folder("redis")
        path = str(folder / "socket")
        command = [valkey_program(), "--port", "0", "--unixsocket", path, "--dir", str(folder)]
        said = subprocess.DEVNULL
        bound = bound_to_this("valkey", [*command, *_QUIET])
        self._process = subprocess.Popen(
            bound, stdin=said, stdout=said, stderr=said, start_new_session=True
        )
        atexit.register(self.end)
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connect(path)
        finally:
            rmtree(folder, ignore_errors=True)

    def _connect(self, path: str) -> None:
        until = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < until:
            with suppress(FileNotFoundError, ConnectionRefusedError):
                return self.line.connect(path)
            Event().wait(0.005)  # the clock of the host: the program has no other
        raise HostError(f"the Redis of the simulated rig does not start in {_STARTS_WITHIN_S} s")

    def end(self) -> None:
        """A process that was forked since has its own."""
        if os.getpid() == self._owner:
            self.line.close()
            self._process.kill()
            self._process.wait()


_programs: dict[int, _Program] = {}


def _line() -> socket.socket:
    process = os.getpid()
    if process not in _programs:
        _programs[process] = _Program()
    return _programs[process].line


def exchange(asked: bytes, number: int) -> tuple[bytes, list[Any]]:
    """What the program says to so many requests: as it came, and what it means."""
    line, found, told, end = _line(), bytearray(), list[Any](), 0
    line.sendall(asked)
    while len(told) < number:
        if (one := read(found, end)) is not None:
            told.append(one[0])
            end = one[1]
            continue
        more = line.recv(_READ_BYTES)
        if not more:
            raise HostError("the Redis of the simulated rig has ended")
        found += more
    return bytes(found), told


def _ask(*words: str | bytes) -> Any:
    [reply] = _ask_all([words])
    return reply


def _ask_all(requests: Sequence[Sequence[str | bytes]]) -> Sequence[Any]:
    return exchange(b"".join(map(packed, requests)), len(requests))[1]


class _Relay(asyncio.Protocol):
    """One connection; it is `among` those that are open for as long as it lasts."""

    def __init__(self, redis: "RealRedis", of: str, wire: SlowWire, among: "set[_Relay]") -> None:
        self._redis, self.of = redis, of
        self._wire = wire
        self._open = among
        self._asked = bytearray()
        self._talk = Conversation()
        self.is_replica, self.hangs = False, False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)
        self._redis.comes(self.of)
        if self._wire.is_cut:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)

    def data_received(self, data: bytes) -> None:
        self._redis.comes(self.of)
        if self._wire.is_cut:
            self._redis.refuses(self.of, data)
            return self._transport.abort()
        if self.hangs:
            return
        go_on = bool(self._asked)
        self._asked += data
        whole, requests = 0, list[Words]()
        while (found := read(self._asked, whole)) is not None:
            requests.append(found[0])
            whole = found[1]
        if requests:
            asked = bytes(self._asked[:whole])
            del self._asked[:whole]
            self._redis.tell_wrong(self._talk.asked(requests, go_on=go_on))
            told = self._redis.reply(self.of, asked, requests, is_replica=self.is_replica)
            delay_us = self._wire.delay_us
            self._redis.confirms(self.of, requests, told[1], delay_us)
            self._talk.learnt(requests, told[1])
            loop = asyncio.get_running_loop()
            loop.call_later(delay_us / 1_000_000, self._tell, told[0], len(requests))

    def cut(self) -> None:
        """End it; what was asked is done, and not answered."""
        self._transport.abort()

    def _tell(self, told: bytes, number: int) -> None:
        if not self._wire.is_cut:
            self._talk.answered(number)
            self._transport.write(told)


_Masters = Callable[[], Mapping[str, int]]


class _Sentinel(asyncio.Protocol):
    """Tells after 5 ms which ports are those of masters, by service; who it is nobody says."""

    def __init__(self, masters: _Masters, found: Callable[[str], None]):
        self._masters, self._found = masters, found
        self._asked = bytearray()
        self._transport: asyncio.BaseTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked += data
        while (found := read(self._asked)) is not None:
            words, end = found
            del self._asked[:end]
            if words[0] == b"AUTH":
                self._found("expected a Sentinel is told no password, observed one")
            assert isinstance(self._transport, asyncio.WriteTransport)
            said = _OK if words[0] in OPENING else self._all()
            asyncio.get_running_loop().call_later(0.005, self._transport.write, said)

    def _all(self) -> bytes:
        facts = "ip", LOOPBACK, "flags", "master", "num-other-sentinels", "1"
        told = self._masters().items()
        masters = [packed(("name", name, "port", str(port), *facts)) for name, port in told]
        return b"*%d\r\n" % len(masters) + b"".join(masters)


async def _sentinels(
    masters: _Masters, found: Callable[[str], None]
) -> Sequence[asyncio.AbstractServer]:
    loop = asyncio.get_running_loop()
    gone, silent, new, other = _SENTINELS
    network().unreachable.add(gone)
    return [
        await loop.create_server(asyncio.Protocol, LOOPBACK, silent),
        await loop.create_server(lambda: _Sentinel(dict, found), LOOPBACK, new),
        await loop.create_server(lambda: _Sentinel(masters, found), LOOPBACK, other),
    ]


class _Whole:
    def __init__(self) -> None:
        self.mend()

    def mend(self) -> None:
        self.is_cut, self.delay_us = False, 0


class RealRedis:
    """The Redis of one case, empty at first."""

    def __init__(
        self, *, retention_us: int, found: Callable[[str], None], by_sentinels: bool = False
    ) -> None:
        self._by_sentinels, self._master_at = by_sentinels, 0
        self._retention_us = retention_us
        self._found = found
        self._ports: dict[str, int] = {}
        self._listeners: list[asyncio.AbstractServer] = []
        self._relays: set[_Relay] = set()
        self._taken: Counter[str] = Counter()
        self._insistence = Insistence()
        self._twin = MemoryTwin(found, _ask_all)
        self.empty()

    def empty(self) -> None:
        """Let it know nothing but what is somebody else's."""
        _ask_all([("CONFIG", "SET", "maxmemory", "0"), ("FLUSHALL",)])
        _ask("MSET", *(word for other in OTHERS.items() for word in other))
        self._taken.clear()
        self._twin.empty()

    def restart(self) -> None:
        """Let every connection end, and know no script any more; keys stay."""
        for relay in list(self._relays):
            relay.cut()
        self._forget_scripts()

    def disturb(self, how: str) -> None:
        """Let it "fail over", "forget scripts" or "let expire" what would some day; the rest stays.

        After a failover every connection is to a replica, which refuses to change anything, and who
        connects anew reaches the master, which knows no script; where Sentinels name it, it has
        another port, and the one of before is the replica's. Or let it "be full", until it is to
        "have room". With "hang" the one of before answers nothing after the failover.
        """
        if how in _MEMORY:
            _ask("CONFIG", "SET", "maxmemory", _MEMORY[how])
            return
        if how == "let expire":
            _ask("EVAL", _EXPIRE, "0")
            return self._twin.expire()
        if how in ("fail over", "hang"):
            for relay in self._relays:
                relay.is_replica = True
                relay.hangs |= how == "hang"
            self._master_at = _OTHER_MASTER - self._master_at
        self._forget_scripts()

    def _forget_scripts(self) -> None:
        _ask("SCRIPT", "FLUSH")

    def reply(
        self, of: str, asked: bytes, requests: Sequence[Words], *, is_replica: bool
    ) -> tuple[bytes, Sequence[Any]]:
        """What is said to requests of one connection; who it is it need not prove."""
        if requests[0][0] in OPENING:
            return _OK * len(requests), [_OK] * len(requests)
        if len(requests) > 1 and (is_replica or meet(requests)):
            parts = [self.reply(of, packed(one), [one], is_replica=is_replica) for one in requests]
            return b"".join(told for told, _ in parts), [reply for _, [reply] in parts]
        if is_replica and requests[0][0] not in READS:
            return _READONLY, [_READONLY]
        held = [self._held(words) for words in requests]
        told, replies = exchange(asked, len(requests))
        for words, before, reply in zip(requests, held, replies, strict=True):
            if not is_refusal(reply):
                self._look_at(words, before, reply)
                self._twin.ran(of, words, reply)
        return told, replies

    def _look_at(self, words: Words, before: Held, reply: Any) -> None:
        self.tell_wrong(expiries(words, self._retention_us // 1_000))
        if before and not is_reservation(words):
            self.tell_wrong(released(words, before, self._held(words)))
        if is_reservation(words):
            inbox = words[3].decode()
            wrong = reserved(words, reply, before, self._held(words), self._taken[inbox])
            self.tell_wrong(wrong)
            self._taken[inbox] += positions_taken(words)
        if device := preset(words):
            keys = _ask("KEYS", device + b"*")
            self.tell_wrong(left_of_before(device, words[2], keys))
        if (device := joined(words)) and reply:
            left = _ask("GET", device + b"sessions"), _ask("HKEYS", device + b"f_cnt_down")
            self.tell_wrong(counters_left(*left))

    def comes(self, of: str) -> None:
        """Somebody connects, or says something."""
        self.tell_wrong(self._insistence.comes(of, now_us()))

    def refuses(self, of: str, said: bytes) -> None:
        """What somebody says reaches nobody."""
        if b":confirmed:" in said:
            self._insistence.failed(of, now_us())

    def confirms(
        self, of: str, requests: Sequence[Words], replies: Sequence[Any], delay_us: int
    ) -> None:
        """Somebody is answered, so much later, perhaps to what he has decided."""
        for words, reply in zip(requests, replies, strict=True):
            if is_confirmation(words) and is_refusal(reply):
                self._insistence.failed(of, now_us() + delay_us)
            elif is_confirmation(words):
                self._insistence.is_over(of)

    def _held(self, words: Words) -> Held:
        """Who holds the places of a request, and for how long yet (ms)."""
        keys = looked_at(words)
        told = iter(_ask_all([(asked, key) for key in keys for asked in ("GET", "PTTL")]))
        return {key: (next(told), next(told)) for key in keys}

    def tell_wrong(self, wrong: Iterable[str]) -> None:
        """What is wrong with how it is used."""
        for text in wrong:
            self._found(text)

    def look_at_the_end(self, *, is_sure: bool) -> None:
        """What has stayed in it; `is_sure`: nobody was disturbed."""
        retention_ms = self._retention_us // 1000
        if not is_sure:
            gc.collect(1)  # an error that nobody has looked at is told when it is let go
        for of, number in sorted(Counter(relay.of for relay in self._relays).items()):
            most = 1 if of.startswith("consumer") else 2  # sessions and claims
            if number > most:
                self._found(f"connections of {of}: expected {most} at most, observed {number}")
        keys = self._keys()
        self.tell_wrong(in_the_end(keys, retention_ms, self._taken, is_sure=is_sure))
        self._twin.look_at_the_end(keys)

    def _keys(self) -> list[Key]:
        names = sorted(_ask("KEYS", "*"))
        kinds = _ask_all([("TYPE", name) for name in names])
        left_ms = _ask_all([("PTTL", name) for name in names])
        values = _ask_all([_READING[k](name) for name, k in zip(names, kinds, strict=True)])
        return [
            Key(name.decode(errors="replace"), left if left >= 0 else None, value)
            for name, left, value in zip(names, left_ms, values, strict=True)
        ]

    def kept(self, dev_eui: Eui) -> Kept:
        """What it has of a device."""
        asked = ("GET", sessions_of(dev_eui)), ("HKEYS", dev_nonces_of(dev_eui))
        text, nonces = _ask_all(asked)
        sessions = msgspec.json.decode(text or b"[]", type=tuple[Session, ...])
        return Kept(dev_eui, tuple(map(kept_for_inspector, sessions)), frozenset(map(int, nonces)))

    async def open(
        self, lns: str, devices: Sequence[EndDevice], wire: SlowWire, stack: AsyncExitStack
    ) -> tuple[TwinStore, TwinClaims]:
        """Sessions and claims as one server opens them by its file, until the stack is left."""
        url = await self._url(lns, wire)
        retention = {"retention_s": self._retention_us // 1_000_000}
        written = {"lns": {"id": lns}, "store": {"url": url}, "dedup": retention}
        file = new_folder("lns") / "lns.toml"
        stack.callback(rmtree, file.parent, ignore_errors=True)
        file.write_text(toml_text(written), "utf-8")
        with told_without_folder(file):
            startup = prepare(Config(file, LnsFile.model_validate(written), tuple(devices)))
            store = await stack.enter_async_context(startup.open_store())
            claims = await stack.enter_async_context(startup.open_claims())
        assert isinstance(store, RedisStore) and isinstance(claims, RedisClaims)
        return TwinStore(self._twin, store, lns), TwinClaims(self._twin, claims)

    async def inbox(
        self, name: str, consumer: str, *, wire: SlowWire | None = None, **most: int
    ) -> RedisInboxStore:
        """An inbox as one of its consumers has it; `most` are `entries_max` and `batch_max`."""
        server = redis_server(await self._url(f"consumer {consumer}", wire or _Whole()))
        self._insistence.is_over(f"consumer {consumer}")
        self._twin.opens(name, consumer)
        return RedisInboxStore(server, name, consumer=consumer, **most, now_us=now_us)

    async def claim(self, bid: Bid) -> None:
        """Claim a frame for nobody who runs."""
        async with self._claims_of_nobody() as claims:
            await claims.claim(bid)

    async def bid_at_random(self, dev_eui: Eui, dice: Random) -> None:
        """Let servers that nobody runs claim frames of sessions that a device never had.

        And keep sessions of another device, side by side, and inboxes that nobody reads.
        """
        await self._keep_at_random(dice)
        async with self._claims_of_nobody() as claims:
            for number in range(_BIDDINGS):
                dev_addrs = [dev_addr(f"FE{number:04X}{one:02X}") for one in range(3)]
                bidding = Bidding(claims, dev_eui, dev_addrs, dice)
                for _ in range(_STEPS):
                    if dice.randrange(_STEPS) == 0:
                        self.disturb("let expire")
                    await bidding.go_on()
        for entries_max, batch_max in ((4, 1), (4, 1), (1000, 1), (1000, 5)):
            await self._decide_at_random(entries_max, batch_max, dice)

    async def _keep_at_random(self, dice: Random) -> None:
        number = AT_ONCE_MAX + 1  # more than are asked for at once
        devices = [eui(f"FE{one:014X}") for one in range(number)]
        async with AsyncExitStack() as stack:
            stores = {}
            for lns in ("lns-x", "lns-y", "lns-z"):
                server = redis_server(await self._url(lns, _Whole()))
                some = devices if lns == "lns-x" else ()
                store = await stack.enter_async_context(RedisStore(server, lns, some))
                stores[lns] = TwinStore(self._twin, store, lns)
            for dev_eui in devices:
                stores["lns-x"].sessions(dev_eui)
            for dev_eui in devices[:_KEEPINGS]:
                keeping = Keeping(stores, dev_eui, dice)
                for _ in range(_STEPS):
                    await keeping.go_on()
            async with self._claims_of_nobody() as claims:
                await Keeping(stores, devices[-1], dice).open_twice(claims)
            await meet_strangers(stores["lns-x"], devices[-3:-1], _ask, self._found)
            _ask("SET", sessions_of(devices[-2]), "7")
            with suppress(StoreUnavailable):
                await stack.enter_async_context(RedisStore(server, "lns-y", devices[-3:]))
                self._found("a server that cannot read a session: expected it does not begin")
            _ask("DEL", sessions_of(devices[-2]))
            for dev_eui in devices[:_KEEPINGS]:
                await stores["lns-x"].forget(dev_eui)
                left = {*_ask("KEYS", keys_of(dev_eui))} - {join_nonce_of(dev_eui).encode()}
                if left:
                    self._found(f"{dev_eui}: expected nothing is left, observed {left}")

    async def _decide_at_random(self, entries_max: int, batch_max: int, dice: Random) -> None:
        """Half of the time what is decided reaches nobody at first, or nobody hears that it did."""
        wire, loop, name = _Whole(), asyncio.get_running_loop(), f"drawn {dice.random()}"
        most = {"entries_max": entries_max, "batch_max": batch_max}
        store, rival = [await self.inbox(name, of, **most, wire=wire) for of in ("drawn", "rival")]
        deciding = Deciding(store, entries_max, dice, self._found)

        def fails() -> None:
            wire.is_cut = dice.randrange(2) > 0
            wire.delay_us = 0 if wire.is_cut else _TOO_SLOW_US
            loop.call_later(1, wire.mend)

        for _ in range(_STEPS):
            await deciding.go_on(fails if dice.randrange(4) == 0 else None)
        await deciding.put_many_aside()
        await deciding.leave_to_others(rival)
        wire.delay_us = _SLOW_US
        await deciding.begin_late(_SLOW_US)
        await store.close()

    @asynccontextmanager
    async def _claims_of_nobody(self) -> AsyncIterator[TwinClaims]:
        server = redis_server(await self._url("", _Whole()))
        async with RedisClaims(server, retention_us=self._retention_us) as claims:
            yield TwinClaims(self._twin, claims)

    def end(self) -> None:
        """Nobody listens any more."""
        for listener in self._listeners:
            listener.close()

    async def _url(self, lns: str, wire: SlowWire) -> str:
        if lns not in self._ports:
            port = self._ports[lns] = _FIRST_PORT + len(self._ports)
            await self._listen(port, lambda: self._relay(lns, wire, at=0))
            if self._by_sentinels:
                at = _OTHER_MASTER
                await self._listen(port + at, lambda: self._relay(lns, wire, at=at))
        login = f"{quote(USER)}:{quote(PASSWORD, safe='')}"
        if not self._by_sentinels:
            return f"redis://{login}@{LOOPBACK}:{self._ports[lns]}/{DATABASE}"
        if len(self._ports) == 1:
            self._listeners += await _sentinels(self._masters, self._found)
        hosts = ",".join(f"{LOOPBACK}:{port}" for port in _SENTINELS)
        return f"redis+sentinel://{login}@{hosts}/{lns}/{DATABASE}"

    async def _listen(self, port: int, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_server(protocol, LOOPBACK, port))

    def _relay(self, lns: str, wire: SlowWire, *, at: int) -> _Relay:
        relay = _Relay(self, lns, wire, self._relays)
        relay.is_replica = self._by_sentinels and at != self._master_at
        return relay

    def _masters(self) -> Mapping[str, int]:
        return {lns: port + self._master_at for lns, port in self._ports.items()}
