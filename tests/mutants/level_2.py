"""Would anybody notice network servers that ask level 2 wrongly, or do not do what it says?"""

from tests.mutants.mutant import Mutant

COMBINED = "scenarios/test_levels_combined.py"
SEVERAL = "scenarios/test_several_servers.py"
DECISION = "tests/lns/dedup/test_claim.py"
SERVERS = "tests/lns/test_several_servers.py"
OWNER_FAILS = "tests/lns/dedup/test_owner_fails.py"
OUTAGE = "tests/lns/test_claims_outage.py"
LIVES = "tests/lns/dedup/test_lives.py"
HISTORIES = "tests/bench/explore/test_explore.py"
EXPLORED = "tests/bench/explore/test_explore.py"
SESSIONS = "tests/contracts/test_session_store.py"

STRATEGY = "lns/dedup/strategy.py"
UPLINK = "lns/uplink/data.py"
CLAIMING = "lns/dedup/claiming.py"

MUTANTS = (
    Mutant(
        "claim after publish",
        UPLINK,
        "facts = await self._claim(facts)",
        "pass",
        COMBINED,
    ),
    Mutant(
        "SoftDuplicate asks",
        UPLINK,
        "        if facts.status is Status.SOFT_DUPLICATE:\n            return facts\n",
        "",
        SERVERS,
    ),
    Mutant(
        "Duplicate asks",
        UPLINK,
        "return done.upstream is DROPPED and not (done.answers or done.advances)",
        "return False",
        SERVERS,
    ),
    Mutant(
        "resubmission that advances is told nobody with Drop",
        UPLINK,
        "        done = facts.disposition\n        session, known =",
        "        done = facts.disposition\n"
        "        if not done.answers and done.upstream is DROPPED:\n            return facts\n"
        "        session, known =",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "pinned device asks",
        "lns/uplink/registry.py",
        "return not self._alone and device.server is None",
        "return not self._alone",
        SERVERS,
    ),
    Mutant(
        "pinned device is anybody's",
        UPLINK,
        "if match.device.server not in (None, self._lns):",
        "if False:",
        SEVERAL,
    ),
    Mutant(
        "Drop forwards what another server owns",
        STRATEGY,
        "Strategy.DROP: Disposition(Upstream.DROPPED, Reason.DUPLICATE_AT_OTHER_SERVER),",
        "Strategy.DROP: Disposition(Upstream.FORWARDED),",
        COMBINED,
    ),
    Mutant(
        "Mark does not mark what another owns",
        STRATEGY,
        "Strategy.MARK: Disposition(Upstream.MARKED),",
        "Strategy.MARK: Disposition(Upstream.FORWARDED),",
        COMBINED,
    ),
    Mutant(
        "None marks what another server owns",
        STRATEGY,
        "Strategy.NONE: Disposition(Upstream.FORWARDED),",
        "Strategy.NONE: Disposition(Upstream.MARKED),",
        COMBINED,
    ),
    Mutant(
        "policy lets the loser answer",
        STRATEGY,
        "done = _with(_ELSEWHERE[strategy], advances=done.advances)",
        "left = _ELSEWHERE[strategy]\n"
        "        done = Disposition(left.upstream, left.reason, done.answers, done.advances)",
        DECISION,
    ),
    Mutant(
        "loser answers",
        UPLINK,
        "        if facts.claim.level2 is NOT_OWNER:\n            return facts.withheld\n"
        "        try:\n            answer = facts.withheld\n"
        "            if facts.disposition.answers:",
        "        try:\n            answer = facts.withheld\n            if facts.requests.ack:",
        COMBINED,
    ),
    Mutant(
        "loser spends the answers it may repeat",
        UPLINK,
        "            self._give_back(facts)\n            left = after_claim(",
        "            left = after_claim(",
        "scenarios/test_shared_store.py",
    ),
    Mutant(
        "frame given back counts as delivered",
        UPLINK,
        "if claim.given_back and facts.status is Status.RESUBMISSION:",
        "if False:",
        OWNER_FAILS,
    ),
    Mutant(
        "owner of a frame given back not learnt",
        "lns/dedup/session.py",
        "            self.owner = owner  # the one before has given it back\n",
        "",
        "scenarios/test_claim_limits.py",
    ),
    Mutant(
        "equal counter of another life is old",
        UPLINK,
        "(standing is Standing.TOO_FAR or is_begun or is_nameless)",
        "(standing is Standing.TOO_FAR or is_nameless)",
        LIVES,
    ),
    Mutant(
        "copy judged by a counter that was learnt",
        UPLINK,
        "standing = session.standing_at(self._lns, f_cnt) if shared else session.standing(f_cnt)",
        "standing = session.standing(f_cnt)",
        SEVERAL,
    ),
    Mutant(
        "answers of another server counted",
        UPLINK,
        "resubmissions=spent.get(f_cnt, 0) if mine else 0,",
        "resubmissions=spent.get(f_cnt, 0),",
        SERVERS,
    ),
    Mutant(
        "waiting copy made old",
        UPLINK,
        "if waited is not None and status is not NON_DUPLICATE:",
        "if False:",
        "tests/lns/uplink/test_data_upstream.py",
    ),
    Mutant(
        "waiting repeat spends the answers of a later life",
        UPLINK,
        "spent = session.resubmissions if waited is None else waited.spent",
        "spent = session.resubmissions",
        EXPLORED,
    ),
    Mutant(
        "old here and too far for all is taken",
        UPLINK,
        "too_far=facts.match.session.standing(facts.match.f_cnt) is not Standing.NEWER,",
        "too_far=facts.match.session.standing(facts.match.f_cnt) is Standing.TOO_FAR,",
        EXPLORED,
    ),
    Mutant(
        "old frame granted at last counts as given back",
        CLAIMING,
        "return replace(claim, given_back=claim.is_new)",
        "return replace(claim, given_back=True)",
        EXPLORED,
    ),
    Mutant(
        "copy of a refused frame goes up",
        UPLINK,
        "waited = None if first.lost or first.refused else first",
        "waited = None if first.lost else first",
        EXPLORED,
    ),
    Mutant(
        "copy of a frame whose session is over goes up",
        UPLINK,
        "self.is_over = became.reason is Reason.UNKNOWN_DEVICE",
        "self.is_over = False",
        EXPLORED,
    ),
    Mutant(
        "refused copy counts as heard",
        UPLINK,
        "        elif (session.heard, session.heard_life) == (f_cnt, facts.named.life):",
        "        elif False:",
        EXPLORED,
    ),
    Mutant(
        "hit with a newer counter refused",
        STRATEGY,
        "        # A relaxed device has restarted and sends an equal frame again.\n"
        "        return _NEWEST[status, strategy, confirmed]",
        "        return _INVALID",
        LIVES,
    ),
    Mutant(
        "ended session written back",
        "lns/store/memory.py",
        "        if theirs is not None or not _same(session, known):",
        "        if True:",
        SESSIONS,
    ),
    Mutant(
        "ended session written back (Redis)",
        "lns/store/redis.py",
        "        if their or not same(our, known) then table.insert(kept, our) end",
        "        table.insert(kept, our)",
        SESSIONS,
    ),
    Mutant(
        "session that ended during an outage written back (Redis)",
        "lns/store/redis.py",
        "_written_over(known, kept, written)\n        keys =",
        "written\n        keys =",
        "tests/lns/store/test_redis_sessions.py",
    ),
    Mutant(
        "numbers of copies lost to another server's (Redis)",
        "lns/store/redis.py",
        "local copies = most(their.copies, our.copies)",
        "local copies = our.copies",
        "tests/lns/store/test_redis_sessions.py",
    ),
    Mutant(
        "JoinNonce begins anew with an emptied Redis",
        "lns/store/redis.py",
        "least = max(least, self._join_nonces.get(dev_eui, 0) + 1)",
        "pass",
        "tests/lns/store/test_redis_sessions.py",
    ),
    Mutant(
        "JoinNonce of others not read",
        "lns/store/redis.py",
        "self._note_join_nonce(dev_eui, int(join_nonce or 0))",
        "int(join_nonce or 0)",
        "tests/lns/store/test_redis_sessions.py",
    ),
    Mutant(
        "repetition from before a restart begins a frame",
        UPLINK,
        "            repeats=not (is_first or facts.disposition.advances),",
        "            repeats=False,",
        HISTORIES,
    ),
    Mutant(
        "frame of a nameless counter taken for the newest",
        UPLINK,
        "Standing.TOO_FAR or is_begun or is_nameless)",
        "Standing.TOO_FAR or is_begun)",
        HISTORIES,
    ),
    Mutant(
        "pending sessions dropped by a join",
        "lns/uplink/registry.py",
        "joined = (session, *_bounded(before))",
        "joined = (session, *(old for old in before if old.f_cnt_up is not None))",
        "scenarios/test_joins.py",
    ),
    Mutant(
        "forgotten claims are all there is",
        "lns/dedup/claiming.py",
        " or self._is_out_of_date(match)",
        "",
        "scenarios/test_ownership.py",
    ),
    Mutant(
        "one station asks for all that a store can answer",
        "lns/dedup/claiming.py",
        "self._asked_by[station] >= UNDER_WAY_MAX",
        "self._asked_by.total() >= UNDER_WAY_MAX",
        "tests/lns/dedup/test_claiming.py",
    ),
    Mutant(
        "one frame keeps the store from being asked for another",
        "lns/dedup/claiming.py",
        "if frame.frame_id in self._asked or",
        "if any(known.startswith(frame.dev_addr) for known in self._asked) or",
        "scenarios/test_slow_store.py",
    ),
    Mutant(
        "used downlink counters handed out",
        "lns/dedup/claiming.py",
        "return min(frames * ANSWERS_MAX, MAX_GAP // 4, USED_UP - session.f_cnt_down)",
        "return 0",
        SERVERS,
    ),
    Mutant(
        "emptied store not told the names",
        "lns/store/redis.py",
        "await self._wire.do_together(*self._told_anew(dev_eui, kept))",
        "pass",
        SERVERS,
    ),
    Mutant(
        "two messages with one id",
        "lns/uplink/data.py",
        "if self.claim.level2 is NOT_OWNER:",
        "if False:",
        COMBINED,
    ),
    Mutant(
        "undelivered frame stays claimed",
        UPLINK,
        "if facts.is_first and facts.bid is not None:",
        "if False:",
        SERVERS,
    ),
    Mutant(
        "on_outage ignored",
        STRATEGY,
        "elif level2 is Level2.UNAVAILABLE and on_outage is OnOutage.OPEN:",
        "elif level2 is Level2.UNAVAILABLE:",
        DECISION,
    ),
    Mutant(
        "on_outage always closed",
        STRATEGY,
        "elif level2 is Level2.UNAVAILABLE and on_outage is OnOutage.OPEN:",
        "elif False:",
        OUTAGE,
    ),
    Mutant(
        "Unavailable answers",
        STRATEGY,
        "done = Disposition(done.upstream, done.reason, advances=done.advances)",
        "done = Disposition(done.upstream, done.reason, done.answers, done.advances)",
        OUTAGE,
    ),
    Mutant(
        "unverified not told",
        UPLINK,
        "            unverified=facts.claim.level2 is UNAVAILABLE,\n        )\n",
        "            unverified=False,\n        )\n",
        OUTAGE,
    ),
    Mutant(
        "claim waited for beyond RX1",
        CLAIMING,
        "CLAIM_US = 250_000",
        "CLAIM_US = 2_500_000",
        OUTAGE,
    ),
    Mutant(
        "FCntDown of the others not learned",
        CLAIMING,
        "session.f_cnt_down = max(session.f_cnt_down, claim.next_f_cnt_down)",
        "pass",
        SERVERS,
    ),
)
