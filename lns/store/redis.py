"""The store that several network servers may share, and that outlives them: Redis.

Any server that speaks its protocol will do. How long it outlives a crash of its own is up to its
configuration (`appendonly yes`, https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/).
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from types import TracebackType

import msgspec

from lns.end_device import Session
from lns.lorawan.identifiers import Eui
from lns.registry import StoreUnavailable
from lns.store.redis_wire import PATIENCE_US, RedisServer, RedisWire

_AT_ONCE = 500  # devices read in one round trip
_OPENING_US = 5_000_000
# A DevNonce belongs to the server that used it first; that one may use it again until it has heard
# that it did. KEYS: DevNonces, sessions. ARGV: DevNonce, this server, the sessions.
_JOIN = """
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0
    and redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[2], ARGV[3])
return 1
"""
_decode = msgspec.json.Decoder(tuple[Session, ...]).decode


class RedisStore:
    """Sessions and used DevNonces of the devices of one server, running as `async with`.

    Entering reads everything of `devices`; after that it is read from memory, and written through.
    What was kept is in Redis when the awaited call returns. StoreUnavailable when Redis is away,
    too slow (`patience_us` a round trip) or refuses; it is asked again with the next call.

    Keys: `lns:{<DevEUI>}:sessions`, JSON, and `lns:{<DevEUI>}:dev_nonces`, a hash from DevNonce to
    the id of the server that used it.
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

    async def __aenter__(self) -> "RedisStore":
        patient = RedisWire(self._server, patience_us=_OPENING_US)
        try:
            await patient.do("PING")
            for first in range(0, len(self._devices), _AT_ONCE):
                some = self._devices[first : first + _AT_ONCE]
                await asyncio.gather(*(self._read(patient, dev_eui) for dev_eui in some))
        finally:
            await patient.close()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._wire.close()

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        """The sessions of a device, newest first."""
        return tuple(session.snapshot() for session in self._sessions.get(dev_eui, ()))

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Replace the sessions of a device by these, as they are now; StoreUnavailable."""
        kept = tuple(session.snapshot() for session in sessions)
        await self._wire.do("SET", _sessions_of(dev_eui), msgspec.json.encode(kept))
        self._sessions[dev_eui] = kept

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        """Every DevNonce that was ever accepted of a device."""
        return frozenset(self._dev_nonces[dev_eui])

    async def keep_join(
        self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]
    ) -> bool:
        """Use a DevNonce and replace the sessions, both or none; StoreUnavailable.

        False when the DevNonce was used before, here or at another server.
        """
        used = self._dev_nonces[dev_eui]
        if dev_nonce in used:
            return False
        used.add(dev_nonce)
        kept = tuple(session.snapshot() for session in sessions)
        keys = _dev_nonces_of(dev_eui), _sessions_of(dev_eui)
        values = dev_nonce, self._lns, msgspec.json.encode(kept)
        try:
            is_new = bool(await self._wire.do("EVAL", _JOIN, len(keys), *keys, *values))
        except BaseException:
            # What was not kept was not used: the device may send the same join again.
            used.discard(dev_nonce)
            raise
        if is_new:
            self._sessions[dev_eui] = kept
        return is_new

    async def _read(self, wire: RedisWire, dev_eui: Eui) -> None:
        kept, used = await asyncio.gather(
            wire.do("GET", _sessions_of(dev_eui)), wire.do("HKEYS", _dev_nonces_of(dev_eui))
        )
        try:
            self._sessions[dev_eui] = _decode(kept) if kept is not None else ()
            self._dev_nonces[dev_eui] = {int(dev_nonce) for dev_nonce in used}
        except ValueError:
            said = f"{self._server} holds something else than a session or DevNonces of {dev_eui}"
            raise StoreUnavailable(said) from None


# The braces put the keys of a device into one slot of a cluster.
def _sessions_of(dev_eui: Eui) -> str:
    return f"lns:{{{dev_eui}}}:sessions"


def _dev_nonces_of(dev_eui: Eui) -> str:
    return f"lns:{{{dev_eui}}}:dev_nonces"
