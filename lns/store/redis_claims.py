"""Which network server owns a frame, when they share nothing but a Redis?

`lns.dedup.claim.decide` as a script that Redis runs in one step: one round trip, no lock that
could expire while it is held, and no clock but that of Redis.
"""

from types import TracebackType

from lns.complaints import printable
from lns.dedup.claim import STATE_US, Bid, Claim, Level2
from lns.dedup.concentrator import RETENTION_US
from lns.lorawan.frame_counter import F_CNT_MAX
from lns.outage import StoreUnavailable
from lns.store.redis_keys import claim_of, f_cnt_down_of, first_message_of
from lns.store.redis_wire import RedisServer, RedisWire, Script

PATIENCE_US = 200_000  # a claim, a write and the way to the station end before RX1 opens

# KEYS: claim, downlink counters, first message. ARGV: server, counter, next downlink counter,
# takes one, life, MIC of a first message or "", advances, DevAddr, expiry of claim and of first
# message (ms), downlink counters missed. Reply: granted, owner, downlink counter taken or -1, next
# one, life.
_CLAIM = Script("""
local known = redis.call('HMGET', KEYS[1], 'f_cnt_up', 'owner', 'life')
local lns, f_cnt, life = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local takes, first, advances = ARGV[4] == '1', ARGV[6] ~= '', ARGV[7] == '1'
local seen = false
if first then
    seen = redis.call('GET', KEYS[3]) == ARGV[6]
    redis.call('SET', KEYS[3], ARGV[6], 'PX', ARGV[10])
end
local f_cnt_down = tonumber(redis.call('HGET', KEYS[2], ARGV[8]) or ARGV[3] + ARGV[11])
f_cnt_down = math.max(f_cnt_down, tonumber(ARGV[3]))
local granted, f_cnt_up = true, f_cnt
if known[1] then
    local newest, mine, lived = tonumber(known[1]), known[2] == lns, tonumber(known[3])
    life = math.max(life, lived)
    local overtook = f_cnt > newest and seen and (advances or not mine)
    if not overtook and (f_cnt > newest or (f_cnt == newest and mine)) then
        f_cnt_up = f_cnt
    elseif first and mine and not advances then
        f_cnt_up, life = newest, lived
    elseif first and advances and not overtook and (mine or not seen) then
        life = math.max(life, lived + 1)
    else
        return {0, known[2], -1, f_cnt_down, lived}
    end
end
redis.call('HSET', KEYS[1], 'f_cnt_up', f_cnt_up, 'owner', lns, 'life', life)
redis.call('PEXPIRE', KEYS[1], ARGV[9])
local taken = -1
if takes then
    taken = f_cnt_down
    f_cnt_down = f_cnt_down + 1
end
redis.call('HSET', KEYS[2], ARGV[8], f_cnt_down)
return {1, lns, taken, f_cnt_down, life}
""")

# KEYS: claim, downlink counters. ARGV: server, next downlink counter, DevAddr, counters missed.
_TAKE = Script("""
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return -1 end
local f_cnt_down = tonumber(redis.call('HGET', KEYS[2], ARGV[3]) or ARGV[2] + ARGV[4])
f_cnt_down = math.max(f_cnt_down, tonumber(ARGV[2]))
redis.call('HSET', KEYS[2], ARGV[3], f_cnt_down + 1)
return f_cnt_down
""")

# KEYS: claim, first message. ARGV: server, counter, expiry of the claim (ms).
_RELEASE = Script("""
local known = redis.call('HMGET', KEYS[1], 'f_cnt_up', 'owner')
if known[2] ~= ARGV[1] or known[1] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'f_cnt_up', tonumber(ARGV[2]) - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('DEL', KEYS[2])
return 1
""")


class RedisClaims:
    """Claims of all servers that use one Redis, running as `async with`.

    StoreUnavailable when Redis is away, slower than `patience_us` or refuses; it is asked again
    with the next call. A claim whose reply was lost may have been granted; its server is granted
    it again. Nothing is asked on entering: a server that is away then may come later.

    Where `server` names several, a replica that becomes master knows the claims that had reached
    it: Redis answers before they do.
    """

    def __init__(
        self,
        server: RedisServer,
        *,
        patience_us: int = PATIENCE_US,
        state_us: int = STATE_US,
        retention_us: int = RETENTION_US,
    ) -> None:
        self._wire = RedisWire(server, patience_us=patience_us)
        self._state_ms = state_us // 1000
        self._retention_ms = retention_us // 1000

    async def __aenter__(self) -> "RedisClaims":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._wire.close()

    async def claim(self, bid: Bid) -> Claim:
        """Claim one frame of a session for a server, in one round trip; StoreUnavailable."""
        granted, owner, taken, next_f_cnt_down, life = await self._wire.run(
            _CLAIM,
            (
                claim_of(bid.dev_eui, bid.dev_addr),
                f_cnt_down_of(bid.dev_eui),
                first_message_of(bid.dev_eui, bid.dev_addr, bid.f_cnt),
            ),
            bid.lns,
            bid.f_cnt,
            bid.f_cnt_down,
            int(bid.takes_f_cnt_down),
            bid.life,
            bid.first_message or "",
            int(bid.advances),
            bid.dev_addr,
            self._state_ms,
            self._retention_ms,
            bid.f_cnt_down_missed,
        )
        if not -1 <= taken <= F_CNT_MAX:
            raise StoreUnavailable(f"the downlink counter of {bid.dev_addr} is out of range")
        return Claim(
            level2=Level2.OWNER if granted else Level2.NOT_OWNER,
            owner=printable(owner.decode(errors="replace")),
            f_cnt_down=None if taken < 0 else taken,
            next_f_cnt_down=next_f_cnt_down,
            life=life,
        )

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        """One more downlink counter; None when another server owns it; StoreUnavailable."""
        keys = claim_of(bid.dev_eui, bid.dev_addr), f_cnt_down_of(bid.dev_eui)
        known = bid.lns, bid.f_cnt_down, bid.dev_addr, bid.f_cnt_down_missed
        taken = int(await self._wire.run(_TAKE, keys, *known))
        return None if taken < 0 else taken

    async def release(self, bid: Bid) -> None:
        """Give back a frame that was granted; StoreUnavailable."""
        keys = (
            claim_of(bid.dev_eui, bid.dev_addr),
            first_message_of(bid.dev_eui, bid.dev_addr, bid.f_cnt),
        )
        await self._wire.run(_RELEASE, keys, bid.lns, bid.f_cnt, self._state_ms)
