"""Would anybody notice a store that does not know who owns a frame?

The decision stands twice, in Python and in the scripts that Redis runs, so most bugs are there
twice.
"""

from tests.mutants.mutant import Mutant

COMBINED = "scenarios/test_levels_combined.py"
SEVERAL = "scenarios/test_several_servers.py"
DECISION = "tests/lns/dedup/test_claim.py"
STORES = "tests/contracts/test_claim_store.py"
LIVES = "tests/lns/dedup/test_lives.py"

CLAIM = "lns/dedup/claim.py"
LIFE = "lns/dedup/session.py"
MEMORY = "lns/store/memory.py"
REDIS = "lns/store/redis_claims.py"
KEYS = "lns/store/redis.py"

# What is decided, in Python and in Lua.
DECIDED = (
    Mutant(
        "equal counter of anybody is granted",
        CLAIM,
        "return Decision(granted, False, state, lived)",
        "return Decision(granted or again, False, state, lived)",
        COMBINED,
    ),
    Mutant(
        "equal counter of anybody (Redis)",
        REDIS,
        "    granted = mine and (again or first_message)",
        "    granted = again or (mine and first_message)",
        STORES,
    ),
    Mutant(
        "owner not compared",
        CLAIM,
        "counter, mine = state.counter, state.owner == bid.lns",
        "counter, mine = state.counter, True",
        STORES,
    ),
    Mutant(
        "owner not compared (Redis)",
        REDIS,
        "local mine, first_message, is_first = owner == lns,",
        "local mine, first_message, is_first = true,",
        STORES,
    ),
    Mutant(
        "owner not granted its frame again",
        CLAIM,
        "again = where is Standing.EQUAL and (",
        "again = False and (",
        COMBINED,
    ),
    Mutant(
        "overtaken first message is a restart",
        CLAIM,
        "if seen is not None and owner and (bid.is_first or elsewhere):",
        "if seen is not None and owner and bid.is_first and not is_higher:",
        STORES,
    ),
    Mutant(
        "overtaken first message (Redis)",
        REDIS,
        "if (seen_owner ~= '' and (is_first or elsewhere))",
        "if (seen_owner ~= '' and is_first and not is_higher)",
        STORES,
    ),
    Mutant(
        "owner not granted its frame (Redis)",
        REDIS,
        "local again = f_cnt == newest and",
        "local again = false and",
        STORES,
    ),
    Mutant(
        "counters compared in 16 bits",
        CLAIM,
        "where = standing(counter, bid.f_cnt)",
        "where = standing(counter, bid.f_cnt & 0xFFFF)",
        SEVERAL,
    ),
    Mutant(
        "counters compared in 16 bits (Redis)",
        REDIS,
        "local is_higher = f_cnt > far",
        "local is_higher = f_cnt % 65536 > far % 65536",
        STORES,
    ),
    Mutant(
        "copy of a first message is a restart",
        CLAIM,
        "if seen is not None and owner and (bid.is_first or elsewhere):",
        "if seen is not None and owner and elsewhere:",
        DECISION,
    ),
    Mutant(
        "copy of a first message (Redis)",
        REDIS,
        "if (seen_owner ~= '' and (is_first or elsewhere))",
        "if (seen_owner ~= '' and elsewhere)",
        STORES,
    ),
    Mutant(
        "another server's claim given back",
        CLAIM,
        " or state.owner != bid.lns:",
        ":",
        DECISION,
    ),
    Mutant(
        "another server's claim (Redis)",
        REDIS,
        "if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or",
        "if known[2] ~= ARGV[2] or",
        STORES,
    ),
    Mutant(
        "near for a server that was not told of a life",
        CLAIM,
        "(bid.too_far or bid.known.lives < counter.lives)",
        "bid.too_far",
        STORES,
    ),
    Mutant(
        "near for a server that was not told (Redis)",
        REDIS,
        "(ARGV[17] == '1' or tonumber(ARGV[7]) < lives)",
        "ARGV[17] == '1'",
        STORES,
    ),
    Mutant(
        "former lives forgotten",
        LIFE,
        "former = dict(farther[-LIVES_MAX:])",
        "former = {}",
        LIVES,
    ),
    Mutant(
        "former life not continued",
        LIFE,
        "        if f_cnt > f_cnt_up:\n            older =",
        "        if False:\n            older =",
        LIVES,
    ),
    Mutant(
        "former life not continued (Redis)",
        REDIS,
        "    if f_cnt > tonumber(its) then",
        "    if false then",
        STORES,
    ),
    Mutant(
        "former lives forgotten (Redis)",
        REDIS,
        "    if newest > f_cnt and (not least or newest < least) then",
        "    if false then",
        STORES,
    ),
    Mutant(
        "former life continued by a frame it had come past",
        LIFE,
        "    return life not in former or _order(one) > (other.lives, former[life])",
        "    return True",
        "tests/contracts/test_session_store.py",
    ),
    Mutant(
        "former life continued by a frame it had come past (Redis)",
        KEYS,
        "    return not far or come(one) > far",
        "    return true",
        "tests/contracts/test_session_store.py",
    ),
    Mutant(
        "late copy lies in the newest life",
        CLAIM,
        "return Decision(owner == bid.lns and bid.is_first, False, state, seen.lived)",
        "return Decision(owner == bid.lns and bid.is_first, False, state, Lived(counter.life))",
        LIVES,
    ),
    Mutant(
        "nameless counter stays nameless",
        CLAIM,
        "    if granted and again and counter.mic is None and not lived.odd:",
        "    if False:",
        STORES,
    ),
    Mutant(
        "nameless counter stays nameless (Redis)",
        REDIS,
        "    if granted and newest_mic == '' and f_cnt == newest and frame == tostring(life) then",
        "    if false then",
        STORES,
    ),
    Mutant(
        "repetition taken for an equal frame of a new life",
        CLAIM,
        "(bid.repeats or not (mine and owner == bid.lns))",
        "not (mine and owner == bid.lns)",
        STORES,
    ),
    Mutant(
        "repetition taken for an equal frame of a new life (Redis)",
        REDIS,
        "(ARGV[18] == '1' or not (mine and seen_owner == lns))",
        "not (mine and seen_owner == lns)",
        STORES,
    ),
    Mutant(
        "ended session claimed",
        MEMORY,
        "        if session in self._over:\n            return Claim",
        "        if False:\n            return Claim",
        SEVERAL,
    ),
    Mutant(
        "ended session claimed (Redis)",
        REDIS,
        "if known[7] then return {} end\n",
        "",
        STORES,
    ),
)

# What is remembered, of whom and for how long.
REMEMBERED = (
    Mutant(
        "a frame that was refused gets a second name",
        CLAIM,
        "        return replace(moved, lived=seen.lived)",
        "        return moved",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "a frame that was refused gets a second name (Redis)",
        REDIS,
        "granted, is_new, frame = true, true, seen_owner == '' and seen or nil",
        "granted, is_new = true, true",
        STORES,
    ),
    Mutant(
        "a frame of a life before is new in the next one",
        CLAIM,
        "return moved if seen.given_back else Decision(False, False, state, seen.lived)",
        "return moved",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "a frame of a life before is new in the next one (Redis)",
        REDIS,
        "or (is_higher and is_old) then",
        "then",
        STORES,
    ),
    Mutant(
        "a frame with the name of another life is not its owner's again",
        CLAIM,
        "(lived.life == counter.life or counter.mic == bid.mic)",
        "lived.life == counter.life",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "who gives a frame back owns the one before",
        CLAIM,
        "State(claim.before, claim.owner_before or bid.lns, named)",
        "State(claim.before, bid.lns, named)",
        "scenarios/test_ownership.py",
    ),
    Mutant(
        "who gives a frame back owns the one before (Redis)",
        REDIS,
        "'mic', ARGV[9], 'owner', ARGV[10])",
        "'mic', ARGV[9])",
        STORES,
    ),
    Mutant(
        "newer frame after a day makes others old",
        "lns/dedup/claiming.py",
        " and session.standing(match.f_cnt) is not Standing.NEWER:",
        ":",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "name of what was given back is free again",
        CLAIM,
        "lived = Lived(counter.life, odd=_is_named(state, counter.life, bid))",
        "lived = Lived(counter.life)",
        STORES,
    ),
    Mutant(
        "name of what was given back is free again (Redis)",
        REDIS,
        "    return its .. (is_odd and 'x' or '')",
        "    return tostring(its)",
        STORES,
    ),
    Mutant(
        "name of what was given back is free for who forgot it",
        CLAIM,
        "odd=not is_newest or _is_named(state, counter.life, bid))",
        "odd=not is_newest)",
        STORES,
    ),
    Mutant(
        "what was given back loses its name",
        MEMORY,
        "            self._frames[frame] = Seen(seen.lived, None, given_back=True), claimed_us",
        "            del self._frames[frame]",
        STORES,
    ),
    Mutant(
        "what was given back is refused in the life after",
        CLAIM,
        "return moved if seen.given_back else Decision(False, False, state, seen.lived)",
        "return Decision(False, False, state, seen.lived)",
        STORES,
    ),
    Mutant(
        "what was given back is refused in the life after (Redis)",
        REDIS,
        "if is_higher and is_old and given_back ~= '' then",
        "if false then",
        STORES,
    ),
    Mutant(
        "what was given back loses its name (Redis)",
        REDIS,
        "    redis.call('SET', KEYS[2], seen:match('%d+x?') .. '- ', 'PX', left_ms)",
        "    redis.call('DEL', KEYS[2])",
        STORES,
    ),
    Mutant(
        "claim without its session",
        MEMORY,
        "        session = bid.dev_eui, bid.dev_addr\n        if session in self._over:\n",
        '        session = bid.dev_eui, DevAddr("")\n        if session in self._over:\n',
        SEVERAL,
    ),
    Mutant(
        "claim without its session (Redis)",
        KEYS,
        'return f"lns:{{{dev_eui}}}:claim:{dev_addr}"',
        'return f"lns:{{{dev_eui}}}:claim"',
        STORES,
    ),
    Mutant(
        "claim never expires",
        MEMORY,
        "if known is None or self._now_us() - known[1] >= self._state_us:",
        "if known is None:",
        STORES,
    ),
    Mutant(
        "claim never expires (Redis)",
        REDIS,
        "newest_mic)\n    redis.call('PEXPIRE', KEYS[1], ARGV[19])\n",
        "newest_mic)\n",
        STORES,
    ),
    Mutant(
        "refused claim keeps the state alive",
        MEMORY,
        "        f_cnt_down = None\n        if decided.granted:\n",
        "        f_cnt_down = None\n        self._remember(session, decided.state)\n"
        "        if decided.granted:\n",
        STORES,
    ),
    Mutant(
        "refused claim keeps it alive (Redis)",
        REDIS,
        "local taken = -1\n",
        "local taken = -1\nredis.call('PEXPIRE', KEYS[1], ARGV[18])\n",
        STORES,
    ),
    Mutant(
        "FCntDown for the loser",
        MEMORY,
        "        f_cnt_down = None\n",
        "        f_cnt_down = next_f_cnt_down if bid.takes_f_cnt_down else None\n",
        STORES,
    ),
    Mutant(
        "FCntDown for the loser (Redis)",
        REDIS,
        "local taken = -1\n",
        "local taken = ARGV[15] == '1' and f_cnt_down or -1\n",
        STORES,
    ),
    Mutant(
        "FCntDown not shared",
        MEMORY,
        "        return max(f_cnt_down, known)",
        "        return f_cnt_down",
        STORES,
    ),
    Mutant(
        "FCntDown left out with each refused frame",
        MEMORY,
        "missed = bid.f_cnt_down_missed if decided.granted else 0",
        "missed = bid.f_cnt_down_missed",
        "scenarios/test_forgetful_store.py",
    ),
    Mutant(
        "FCntDown left out with each refused frame (Redis)",
        REDIS,
        "local missed = granted and ARGV[16] or 0",
        "local missed = ARGV[16]",
        STORES,
    ),
    Mutant(
        "FCntDown not shared (Redis)",
        REDIS,
        "f_cnt_down = math.max(f_cnt_down, tonumber(ARGV[14]))",
        "f_cnt_down = tonumber(ARGV[14])",
        STORES,
    ),
    Mutant(
        "FCntDown without a claim for anybody",
        MEMORY,
        "if session in self._over or (state is not None and state.owner != bid.lns):",
        "if self._is_over(session):",
        STORES,
    ),
    Mutant(
        "FCntDown for anybody (Redis)",
        REDIS,
        "if known[2] or (known[1] and known[1] ~= ARGV[1]) then return -1 end",
        "if known[2] then return -1 end",
        STORES,
    ),
    Mutant(
        "claimed and never sent taken for a retry",
        "lns/uplink/data.py",
        "if done.advances and claimed_before and facts.match.is_first_message:",
        "if done.advances and claimed_before:",
        noticed_by="tests/lns/test_kill.py",
    ),
)

MUTANTS = DECIDED + REMEMBERED
