"""Which network server owns a frame, when they share nothing but a Redis?

`lns.dedup.claim.decide` as a script that Redis runs in one step: one round trip, no lock that
could expire while it is held, and no clock but that of Redis.
"""

from typing import Any

from lns.clock import StoreUnavailable
from lns.complaints import printable
from lns.dedup.claim import STATE_US, Bid, Claim, Level2
from lns.dedup.concentrator import RETENTION_US
from lns.dedup.session import LIVES_MAX, USED_UP, Counter, Lived
from lns.lorawan.frame import MAX_GAP
from lns.lorawan.identifiers import Mic
from lns.store.redis import claim_of, f_cnt_down_of, frame_of
from lns.store.redis_wire import RedisServer, RedisWire, Script

PATIENCE_US = 200_000  # a claim, a write and the way to the station end before RX1 opens

# `former` is written as "life:counter ...", the oldest life first, and what is known of a frame as
# its life, with an "x" behind it where it is odd and a "-" where it was given back, and who was
# granted it. A counter that nobody has heard is -1, an owner that is nobody "".

# KEYS: claim, downlink counters, frame, claims of elders. ARGV: server, counter, MIC, what this
# server knows (1: whose it is; newest counter, life, lives, former, MIC), first message, first
# here, frame as known here or "", DevAddr, next downlink counter, takes one, downlink counters
# missed, too far here, repeats, expiry of claim and of frame (ms). Reply: granted, is new, too far,
# owner, owner before, the counter (5), the counter before (5), frame, downlink counter taken or -1,
# next one; nothing: the session is over.
_STATE_MS = STATE_US // 1000
_CLAIM = Script(
    """
-- Former lives, with one more of them as far as it came, if that is farther than those after it.
local function joined(former, newest, life, its, far)
    if its >= life or far <= math.max(newest, 0) then return former end
    local before, after, number = '', '', 1
    for other, came in former:gmatch('(%d+):(%d+)') do
        other, came = tonumber(other), tonumber(came)
        if other >= its and came >= far then return former end
        local one = other .. ':' .. came .. ' '
        if other > its then after, number = after .. one, number + 1 end
        if other < its and came > far then before, number = before .. one, number + 1 end
    end
    former = before .. its .. ':' .. far .. ' ' .. after
    if number > LIVES_MAX then former = former:gsub('^%S+ ', '') end
    return former:sub(1, -2)
end
local known = redis.call('HMGET', KEYS[1],
    'f_cnt_up', 'owner', 'life', 'lives', 'former', 'mic', 'over')
if known[7] then return {} end
local lns, f_cnt, mic = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local owner, newest, life, lives, former, newest_mic = ARGV[4], tonumber(ARGV[5]),
    tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], ARGV[9]
local before, owner_before = {newest, life, lives, former, newest_mic}, owner
local seen, seen_owner, given_back = redis.call('GET', KEYS[3]), '', ''
if seen then seen, given_back, seen_owner = seen:match('^(%d+x?)(%-?) (.*)$') end
local is_void = given_back ~= '' and newest_mic == mic
if known[1] then
    owner_before = known[2]
    local lived = tonumber(known[4] or known[3])
    before = {tonumber(known[1]), tonumber(known[3]), lived, known[5] or '', known[6] or ''}
    local came = life == before[2] and before[1]
        or tonumber((' ' .. before[4]):match(' ' .. life .. ':(%d+)') or -1)
    if lives <= lived or is_void or (life <= before[2] and newest <= came) then
        lives = is_void and lived or math.max(lives, lived)
        owner, newest, life = known[2], before[1], before[2]
        former, newest_mic = before[4], before[5]
    else
        for its, far in before[4]:gmatch('(%d+):(%d+)') do
            former = joined(former, newest, life, tonumber(its), tonumber(far))
        end
        former = joined(former, newest, life, before[2], before[1])
    end
end
if owner == '' then owner = lns end
local mine, first_message, is_first = owner == lns, ARGV[10] == '1', ARGV[11] == '1'

-- Where the counter stands, and what is left of the former lives if it continues one of them.
local far, into, older, least, number = newest, life, '', nil, 0
for before_it, its in former:gmatch('(%d+):(%d+)') do
    if f_cnt > tonumber(its) then
        far, into = tonumber(its), tonumber(before_it)
        break
    end
    older = older .. (older == '' and '' or ' ') .. before_it .. ':' .. its
    least, number = tonumber(its), number + 1
end
-- The frame by its life, unless that is perhaps the name of one that was given back.
local function named(its)
    local far, far_mic = (redis.call('HGET', KEYS[1], 'named:' .. its) or '-1 '):match('(%S+) (.*)')
    local is_odd = f_cnt < tonumber(far) or (f_cnt == tonumber(far) and mic ~= far_mic)
    return its .. (is_odd and 'x' or '')
end
local granted, is_new, too_far, frame = false, false, false, nil
local is_higher = f_cnt > far
local elsewhere = is_higher and (ARGV[18] == '1' or not (mine and seen_owner == lns))
local is_old = seen and seen_owner == '' and seen ~= tostring(into) and not seen:find('x')
if is_higher and is_old and given_back ~= '' then seen, is_old = nil, false end
if seen_owner ~= '' and (is_first or elsewhere) then
    granted, frame = is_first and seen_owner == lns, seen
elseif (ARGV[17] == '1' or tonumber(ARGV[7]) < lives) and f_cnt - math.max(far, 0) > MAX_GAP then
    too_far, frame = true, ARGV[12] ~= '' and ARGV[12] or life .. 'x'
elseif is_higher and is_old then
    frame = seen
elseif is_higher then
    granted, is_new, frame = true, true, seen_owner == '' and seen or nil
    newest, life, former = f_cnt, into, older
elseif first_message and (is_first or given_back ~= '') then
    granted, is_new = true, true
    if newest > f_cnt and (not least or newest < least) then
        former = former .. (former == '' and '' or ' ') .. life .. ':' .. newest
        if number == LIVES_MAX then former = former:gsub('^%S+ ', '') end
    end
    newest, life, lives = f_cnt, lives + 1, lives + 1
else
    frame = seen or (ARGV[12] ~= '' and ARGV[12])
    if not frame then
        local is_newest = f_cnt == newest and (newest_mic == '' or newest_mic == mic)
        frame = is_newest and named(life) or life .. 'x'
    end
    local is_its = tonumber(frame:match('%d+')) == life or newest_mic == mic
    local again = f_cnt == newest and is_its
    if seen_owner ~= '' then mine = seen_owner == lns end
    granted = mine and (again or first_message)
    if granted and newest_mic == '' and f_cnt == newest and frame == tostring(life) then
        newest_mic = mic
    end
end
if is_new then
    owner, newest_mic, frame = lns, mic, frame or named(life)
end
local whose = granted and ' ' .. lns or given_back .. ' ' .. seen_owner
redis.call('SET', KEYS[3], frame .. whose, 'PX', ARGV[20])
-- What others may have taken is left out once, and not with each frame that is refused.
local missed = granted and ARGV[16] or 0
local f_cnt_down = tonumber(redis.call('HGET', KEYS[2], ARGV[13]) or ARGV[14] + missed)
f_cnt_down = math.max(f_cnt_down, tonumber(ARGV[14]))
local taken = -1
if granted then
    redis.call('HSET', KEYS[1], 'f_cnt_up', newest, 'owner', owner, 'life', life,
        'lives', lives, 'former', former, 'mic', newest_mic)
    redis.call('PEXPIRE', KEYS[1], ARGV[19])
    if ARGV[15] == '1' and f_cnt_down ~= USED_UP then
        taken = f_cnt_down
        f_cnt_down = f_cnt_down + 1
    end
    redis.call('HSET', KEYS[2], ARGV[13], f_cnt_down)
    for elder = 4, #KEYS do
        redis.call('HSET', KEYS[elder], 'over', 1)
        redis.call('PEXPIRE', KEYS[elder], ARGV[19])
    end
end
return {granted and 1 or 0, is_new and 1 or 0, too_far and 1 or 0, owner, owner_before,
    newest, life, lives, former, newest_mic, before[1], before[2], before[3], before[4], before[5],
    frame, taken, f_cnt_down}
""".replace("LIVES_MAX", str(LIVES_MAX))
    .replace("MAX_GAP", str(MAX_GAP))
    .replace("USED_UP", str(USED_UP))
)

# KEYS: claim, downlink counters. ARGV: server, next downlink counter, DevAddr, counters missed.
_TAKE = Script(
    """
local known = redis.call('HMGET', KEYS[1], 'owner', 'over')
if known[2] or (known[1] and known[1] ~= '' and known[1] ~= ARGV[1]) then return -1 end
local f_cnt_down = tonumber(redis.call('HGET', KEYS[2], ARGV[3]) or ARGV[2] + ARGV[4])
f_cnt_down = math.max(f_cnt_down, tonumber(ARGV[2]))
if f_cnt_down >= USED_UP then return -1 end
redis.call('HSET', KEYS[2], ARGV[3], f_cnt_down + 1)
return f_cnt_down
""".replace("USED_UP", str(USED_UP))
)

# KEYS: claim, frame. ARGV: server, the counter and life that were granted, expiry of the claim
# (ms), the counter before (5), whose that was, counter and MIC of the frame, its life if that is
# its name, or "".
_RELEASE = Script("""
local known = redis.call('HMGET', KEYS[1], 'owner', 'f_cnt_up', 'life')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], 'f_cnt_up', ARGV[5], 'life', ARGV[6], 'lives', ARGV[7],
    'former', ARGV[8], 'mic', ARGV[9], 'owner', ARGV[10])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local seen, left_ms = redis.call('GET', KEYS[2]), redis.call('PTTL', KEYS[2])
if seen and left_ms > 0 then
    redis.call('SET', KEYS[2], seen:match('%d+x?') .. '- ', 'PX', left_ms)
end
if ARGV[13] == '' then return 1 end
local far = redis.call('HGET', KEYS[1], 'named:' .. ARGV[13]) or '-1 '
if tonumber(far:match('%S+')) < tonumber(ARGV[11]) then
    redis.call('HSET', KEYS[1], 'named:' .. ARGV[13], ARGV[11] .. ' ' .. ARGV[12])
end
return 1
""")


class RedisClaims:
    """The `Claims` of all servers that use one Redis, running as `async with`.

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
        retention_us: int = RETENTION_US,
    ) -> None:
        self._wire = RedisWire(server, patience_us=patience_us)
        self._retention_ms = retention_us // 1000

    async def __aenter__(self) -> "RedisClaims":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._wire.close()

    async def claim(self, bid: Bid) -> Claim:
        keys, values = asked_by(bid)
        expiry = _STATE_MS, self._retention_ms
        said = await self._wire.run(_CLAIM, keys, *values, *expiry)
        if not said:
            return Claim(level2=Level2.NOT_OWNER, outdated=True)
        granted, is_new, too_far, *owners, frame, taken, next_f_cnt_down = said
        owner, owner_before, *counters = owners
        if next_f_cnt_down > USED_UP:
            raise StoreUnavailable(f"the downlink counter of {bid.dev_addr} is out of range")
        return Claim(
            level2=Level2.OWNER if granted else Level2.NOT_OWNER,
            owner=printable(owner.decode(errors="replace")),
            is_new=bool(is_new),
            counter=_read(counters[:5]),
            before=_read(counters[5:]) if is_new else None,
            owner_before=owner_before.decode(errors="replace") or None if is_new else None,
            lived=Lived(int(frame.rstrip(b"x")), odd=frame.endswith(b"x")),
            too_far=bool(too_far),
            f_cnt_down=None if taken < 0 else taken,
            next_f_cnt_down=next_f_cnt_down,
        )

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        keys = claim_of(bid.dev_eui, bid.dev_addr), f_cnt_down_of(bid.dev_eui)
        known = bid.lns, bid.f_cnt_down, bid.dev_addr, bid.f_cnt_down_missed
        taken = int(await self._wire.run(_TAKE, keys, *known))
        return None if taken < 0 else taken

    async def release(self, bid: Bid, claim: Claim) -> None:
        if claim.before is None:
            return
        keys = (
            claim_of(bid.dev_eui, bid.dev_addr),
            frame_of(bid.dev_eui, bid.dev_addr, bid.f_cnt, bid.mic),
        )
        newest = claim.counter
        granted = -1 if newest.f_cnt_up is None else newest.f_cnt_up, newest.life
        before = *_written(claim.before), claim.owner_before or ""
        lived = "" if claim.lived is None or claim.lived.odd else claim.lived.life
        frame = bid.f_cnt, bid.mic, lived
        await self._wire.run(_RELEASE, keys, bid.lns, *granted, _STATE_MS, *before, *frame)


def asked_by(bid: Bid) -> tuple[tuple[str, ...], tuple[str | int, ...]]:
    """The keys of a bid, and its values but for the times of expiry."""
    keys = (
        claim_of(bid.dev_eui, bid.dev_addr),
        f_cnt_down_of(bid.dev_eui),
        frame_of(bid.dev_eui, bid.dev_addr, bid.f_cnt, bid.mic),
        *(claim_of(bid.dev_eui, elder) for elder in bid.elders),
    )
    return keys, (
        bid.lns,
        bid.f_cnt,
        bid.mic,
        bid.known_owner or "",
        *_written(bid.known),
        int(bid.first_message),
        int(bid.is_first),
        "" if bid.lived is None else _frame(bid.lived),
        bid.dev_addr,
        bid.f_cnt_down,
        int(bid.takes_f_cnt_down),
        bid.f_cnt_down_missed,
        int(bid.too_far),
        int(bid.repeats),
    )


def _written(counter: Counter) -> tuple[int, int, int, str, str]:
    f_cnt_up = -1 if counter.f_cnt_up is None else counter.f_cnt_up
    former = " ".join(f"{life}:{far}" for life, far in counter.former.items())
    return f_cnt_up, counter.life, counter.lives, former, counter.mic or ""


def _read(written: list[Any]) -> Counter:
    f_cnt_up, life, lives, former, mic = written
    lived = (one.split(":") for one in former.decode().split())
    return Counter(
        f_cnt_up=None if f_cnt_up < 0 else f_cnt_up,
        life=life,
        lives=lives,
        former={int(before): int(far) for before, far in lived},
        mic=Mic(mic.decode()) or None,
    )


def _frame(lived: Lived) -> str:
    return f"{lived.life}x" if lived.odd else str(lived.life)
