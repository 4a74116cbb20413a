"""Would anybody notice a store that does not know who owns a frame?

The decision stands twice, in Python and in the scripts that Redis runs, so most bugs are there
twice.
"""

from tests.mutants.mutant import Mutant

COMBINED = "scenarios/test_levels_combined.py"
SEVERAL = "scenarios/test_several_servers.py"
DECISION = "tests/lns/dedup/test_claim.py"
STORES = "tests/contracts/test_claim_store.py"

CLAIM = "lns/dedup/claim.py"
MEMORY = "lns/store/memory_claims.py"
REDIS = "lns/store/redis_claims.py"
KEYS = "lns/store/redis_keys.py"

# What is decided, in Python and in Lua.
DECIDED = (
    Mutant(
        "equal counter of anybody is granted",
        CLAIM,
        "if bid.f_cnt > state.f_cnt_up:",
        "if bid.f_cnt >= state.f_cnt_up:",
        COMBINED,
    ),
    Mutant(
        "equal counter of anybody (Redis)",
        REDIS,
        "if not overtook and (f_cnt > newest or",
        "if not overtook and (f_cnt >= newest or",
        STORES,
    ),
    Mutant(
        "owner not compared",
        CLAIM,
        "mine = state.owner == bid.lns",
        "mine = True",
        COMBINED,
    ),
    Mutant(
        "owner not compared (Redis)",
        REDIS,
        "local newest, mine, lived = tonumber(known[1]), known[2] == lns,",
        "local newest, mine, lived = tonumber(known[1]), true,",
        STORES,
    ),
    Mutant(
        "owner not granted its frame again",
        CLAIM,
        "if bid.f_cnt == state.f_cnt_up and mine:",
        "if False:",
        COMBINED,
    ),
    Mutant(
        "overtaken first message is a restart",
        CLAIM,
        "if seen and (bid.advances or not mine):",
        "if False:",
        STORES,
    ),
    Mutant(
        "overtaken first message (Redis)",
        REDIS,
        "local overtook = f_cnt > newest and seen and",
        "local overtook = false and",
        STORES,
    ),
    Mutant(
        "owner not granted its frame (Redis)",
        REDIS,
        "(f_cnt > newest or (f_cnt == newest and mine)) then",
        "f_cnt > newest then",
        STORES,
    ),
    Mutant(
        "counters compared in 16 bits",
        CLAIM,
        "bid.f_cnt > state.f_cnt_up:",
        "bid.f_cnt & 0xFFFF > state.f_cnt_up & 0xFFFF:",
        SEVERAL,
    ),
    Mutant(
        "counters compared in 16 bits (Redis)",
        REDIS,
        "local lns, f_cnt, life = ARGV[1], tonumber(ARGV[2]),",
        "local lns, f_cnt, life = ARGV[1], tonumber(ARGV[2]) % 65536,",
        STORES,
    ),
    Mutant(
        "copy of a first message is a restart",
        CLAIM,
        "if bid.advances and (mine or not seen):",
        "if bid.advances:",
        DECISION,
    ),
    Mutant(
        "copy of a first message (Redis)",
        REDIS,
        "not overtook and (mine or not seen) then",
        "advances then",
        STORES,
    ),
    Mutant(
        "another server's claim given back",
        CLAIM,
        "(state.owner, state.f_cnt_up) != (bid.lns, bid.f_cnt)",
        "state.f_cnt_up != bid.f_cnt",
        DECISION,
    ),
    Mutant(
        "another server's claim (Redis)",
        REDIS,
        "if known[2] ~= ARGV[1] or known[1] ~= ARGV[2] then return 0 end",
        "if known[1] ~= ARGV[2] then return 0 end",
        STORES,
    ),
)

# What is remembered, of whom and for how long.
REMEMBERED = (
    Mutant(
        "claim without its session",
        MEMORY,
        'this store never fails."""\n        session = bid.dev_eui, bid.dev_addr\n',
        'this store never fails."""\n        session = bid.dev_eui, DevAddr("")\n',
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
        "redis.call('PEXPIRE', KEYS[1], ARGV[9])\n",
        "",
        STORES,
    ),
    Mutant(
        "refused claim keeps the state alive",
        MEMORY,
        "            assert state is not None\n",
        "            assert state is not None\n            self._remember(session, state)\n",
        STORES,
    ),
    Mutant(
        "refused claim keeps it alive (Redis)",
        REDIS,
        "        return {0, known[2], -1, f_cnt_down, lived}",
        "        redis.call('PEXPIRE', KEYS[1], ARGV[9])\n"
        "        return {0, known[2], -1, f_cnt_down, lived}",
        STORES,
    ),
    Mutant(
        "FCntDown for the loser",
        MEMORY,
        "                owner=state.owner,\n",
        "                owner=state.owner,\n"
        "                f_cnt_down=next_f_cnt_down if bid.takes_f_cnt_down else None,\n",
        STORES,
    ),
    Mutant(
        "FCntDown for the loser (Redis)",
        REDIS,
        "return {0, known[2], -1, f_cnt_down, lived}",
        "return {0, known[2], takes and f_cnt_down or -1, f_cnt_down, lived}",
        STORES,
    ),
    Mutant(
        "FCntDown not shared",
        MEMORY,
        "next_f_cnt_down = max(bid.f_cnt_down, self._f_cnt_down.get(session, 0))",
        "next_f_cnt_down = bid.f_cnt_down",
        STORES,
    ),
    Mutant(
        "FCntDown not shared (Redis)",
        REDIS,
        "f_cnt_down = math.max(f_cnt_down, tonumber(ARGV[3]))",
        "f_cnt_down = tonumber(ARGV[3])",
        STORES,
    ),
    Mutant(
        "FCntDown without a claim for anybody",
        MEMORY,
        "if state is not None and state.owner != bid.lns:",
        "if False:",
        STORES,
    ),
    Mutant(
        "FCntDown for anybody (Redis)",
        REDIS,
        "if owner and owner ~= ARGV[1] then return -1 end\n",
        "",
        STORES,
    ),
)

MUTANTS = DECIDED + REMEMBERED
