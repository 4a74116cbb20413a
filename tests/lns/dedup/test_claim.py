"""The decision of level 2 without a store; stores have `tests/contracts/test_claim_store.py`."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lns.dedup.claim import (
    Bid,
    Claim,
    Decision,
    Level2,
    OnOutage,
    Seen,
    SoleServer,
    State,
    decide,
    released,
)
from lns.dedup.session import Counter, Lived
from lns.dedup.strategy import Disposition, Reason, Strategy, Upstream, after_claim, known_before
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from tests.looped import on_a_loop

MIC, OTHER_MIC = Mic("2B11FF0D"), Mic("0D11FF2B")
BID = Bid(
    lns="lns-a", dev_eui=Eui("70B3D57ED0000001"), dev_addr=DevAddr("01ABCDEF"), f_cnt=10, mic=MIC
)


def state(f_cnt_up: int, owner: str, **known: Any) -> State:
    return State(Counter(f_cnt_up, **known), owner)


def test_nobody_owns_a_session_that_nobody_claimed() -> None:
    decided = decide(None, replace(BID, known=Counter(7, 3, 3)))
    assert decided.granted
    assert decided.state == State(Counter(10, 3, 3, {}, MIC), "lns-a")


def test_what_a_server_knows_counts_where_the_store_knows_nothing() -> None:
    """It was told that another one has accepted this frame, or a newer one."""
    for f_cnt_up in (10, 11):
        known = replace(BID, known=Counter(f_cnt_up), known_owner="lns-b")
        assert decide(None, known).state.owner == "lns-b"
        assert not decide(None, known).granted


@pytest.mark.parametrize(
    ("f_cnt_up", "owner", "granted"),
    [
        (9, "lns-a", True),
        (9, "lns-b", True),
        (10, "lns-a", True),
        (10, "lns-b", False),
        (11, "lns-a", False),
        (11, "lns-b", False),
    ],
)
def test_the_decision_of_adr_007(f_cnt_up: int, owner: str, granted: bool) -> None:
    decided = decide(state(f_cnt_up, owner), BID)
    assert (decided.granted, decided.is_new) == (granted, f_cnt_up == 9)
    assert decided.state.counter.f_cnt_up == max(10, f_cnt_up)
    assert decided.state.owner == ("lns-a" if granted else owner)


FRAME = Lived(4)


@pytest.mark.parametrize(
    ("owner", "is_first", "seen", "granted", "is_new"),
    [
        ("lns-a", True, None, True, True),
        ("lns-a", True, "lns-a", True, False),
        ("lns-a", True, "lns-b", False, False),
        ("lns-a", False, None, True, False),
        ("lns-a", False, "lns-a", True, False),
        ("lns-a", False, "lns-b", False, False),
        ("lns-b", True, None, True, True),
        ("lns-b", True, "lns-b", False, False),
        ("lns-b", False, None, False, False),
        ("lns-b", False, "lns-b", False, False),
    ],
)
def test_a_first_message_below_the_counter(
    owner: str, is_first: bool, seen: str | None, granted: bool, is_new: bool
) -> None:
    bid = replace(BID, f_cnt=1, first_message=True, is_first=is_first)
    before = state(7, owner, life=4, lives=5)
    known = None if seen is None else Seen(FRAME, seen)
    decided = decide(before, bid, seen=known)
    assert (decided.granted, decided.is_new) == (granted, is_new)
    if is_new:
        assert decided.state == State(Counter(1, 6, 6, {4: 7}, MIC), "lns-a")
    else:
        assert decided.state == before
    strict = decide(before, replace(bid, first_message=False), seen=None)
    assert not strict.granted


@pytest.mark.parametrize("too_far", [True, False])
def test_a_frame_too_far_ahead_moves_the_session_unless_the_bid_says_that_it_is(
    too_far: bool,
) -> None:
    """Too far for what the server knows may be near for what all servers know."""
    before = state(7, "lns-b", life=4, lives=5)
    bid = replace(BID, f_cnt=7 + 16_385, too_far=too_far, known=Counter(6, 4, 5))
    decided = decide(before, bid)
    assert (decided.granted, decided.too_far) == (not too_far, too_far)
    assert (decided.state == before) is too_far
    if too_far:
        assert decided.lived == Lived(4, odd=True)


def test_a_frame_that_continues_a_former_life_takes_the_session_back_to_it() -> None:
    replayed = state(0, "lns-b", life=1, lives=1, former={0: 20_001})
    decided = decide(replayed, replace(BID, f_cnt=20_002))
    assert decided == Decision(True, True, State(Counter(20_002, 0, 1, {}, MIC), "lns-a"), Lived(0))


def test_what_was_claimed_lately_lies_in_the_life_in_which_it_was_claimed() -> None:
    """A late copy of a former life is newer than the first frame of this one, and yet a copy."""
    restarted = state(0, "lns-b", life=1, lives=1, former={0: 12})
    late = decide(restarted, BID, seen=Seen(Lived(0), "lns-b"))
    assert late == Decision(False, False, restarted, Lived(0))


def test_a_frame_that_was_refused_is_granted_under_the_name_that_it_has() -> None:
    """Another server was refused it a moment ago, and may have told its application of it."""
    before = state(9, "lns-b")
    granted = decide(before, BID, seen=Seen(Lived(0, odd=True), None))
    assert (granted.granted, granted.lived) == (True, Lived(0, odd=True))
    assert granted.state == State(Counter(10, mic=MIC), "lns-a")
    assert decide(before, BID, seen=Seen(Lived(0), None)).granted
    other_life = Seen(Lived(1), None)
    assert decide(before, BID, seen=other_life) == Decision(False, False, before, Lived(1))


def test_other_bytes_with_a_used_counter_are_an_odd_frame() -> None:
    for f_cnt_up, mic, odd in ((10, MIC, False), (10, OTHER_MIC, True), (11, MIC, True)):
        known = state(f_cnt_up, "lns-b", mic=mic)
        assert decide(known, BID).lived == Lived(0, odd=odd)


def test_a_repetition_from_before_a_life_began_is_none_of_it() -> None:
    """Its server heard it before: though its counter is higher, the new life has not sent it."""
    began = State(Counter(0, 1, 1, {0: 10}, OTHER_MIC), "lns-a")
    seen = Seen(Lived(0), "lns-a")
    decided = decide(began, replace(BID, is_first=False, repeats=True), seen=seen)
    assert (decided.granted, decided.state, decided.lived) == (False, began, Lived(0))


def test_what_all_servers_remember_of_a_frame_counts_before_what_one_does() -> None:
    """It was away when the frame was claimed, and took it for another one."""
    alone = replace(BID, is_first=False, lived=Lived(0, odd=True))
    decided = decide(state(10, "lns-b", mic=MIC), alone, seen=Seen(Lived(0), "lns-b"))
    assert decided.lived == Lived(0)


def test_a_counter_that_was_kept_without_its_frame_is_that_of_the_first_one() -> None:
    decided = decide(state(10, "lns-a"), BID)
    assert decided.granted
    assert (decided.lived, decided.state.counter.mic) == (Lived(0), MIC)


def test_who_began_a_life_alone_takes_the_one_before_no_further_back() -> None:
    """It had not heard how far that one came at the others, and cannot go on with it there."""
    alone = Counter(1, 1, 1, {0: 2}, OTHER_MIC)
    decided = decide(state(4, "lns-b"), replace(BID, f_cnt=3, known=alone, known_owner="lns-a"))
    assert decided == Decision(True, True, State(Counter(3, 1, 1, {0: 4}, MIC), "lns-a"), Lived(1))


def test_who_knows_of_more_lives_takes_none_further_back() -> None:
    """It was alone with a late first message, and the life before went on."""
    alone = replace(BID, f_cnt=3, known=Counter(3, 0, 1), known_owner="lns-a", is_first=False)
    decided = decide(state(4, "lns-b", mic=MIC), alone)
    assert decided.state == State(Counter(4, 0, 1, mic=MIC), "lns-b")


def test_a_life_that_was_given_back_begins_with_whoever_hears_its_first_message_again() -> None:
    """This server was refused that frame, and told of the life, which counts for nobody."""
    begun = Counter(0, 1, 1, mic=MIC)
    bid = replace(BID, f_cnt=0, first_message=True, is_first=False, known=begun)
    before = state(0, "lns-a", mic=OTHER_MIC)
    seen = Seen(Lived(1), None, given_back=True)
    decided = decide(before, replace(bid, known_owner="lns-b"), seen=seen)
    assert decided == Decision(True, True, State(begun, "lns-a"), Lived(1))


def test_only_what_was_granted_last_is_given_back() -> None:
    granted = Claim(level2=Level2.OWNER, is_new=True, counter=Counter(10, 2), before=Counter(8, 2))
    assert released(state(10, "lns-a", life=2), BID, granted)
    assert not released(state(10, "lns-a", life=2), BID, replace(granted, before=None))
    for other in (
        None,
        state(10, "lns-b", life=2),
        state(9, "lns-a", life=2),
        state(11, "lns-a", life=2),
        state(10, "lns-a", life=3),
    ):
        assert not released(other, BID, granted)


def test_a_first_message_that_was_claimed_before_the_server_began_anew_is_no_news() -> None:
    retry = known_before(FORWARDED, confirmed=True)
    assert (retry.upstream, retry.answers, retry.spends) == ("forwarded", True, True)
    again = known_before(FORWARDED, confirmed=False)
    assert (again.upstream, again.answers) == ("forwarded", False)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["lns-a", "lns-b", "lns-c"]),
            st.one_of(st.integers(0, 5), st.integers(0xFFFE, 0x10001)),
        ),
        max_size=40,
    )
)
def test_in_any_order_at_most_one_server_owns_a_frame(bids: list[tuple[str, int]]) -> None:
    known: State | None = None
    owners: dict[int, set[str]] = {}
    newest = -1
    for lns, f_cnt in bids:
        decided = decide(known, replace(BID, lns=lns, f_cnt=f_cnt))
        again = f_cnt == newest and owners[f_cnt] == {lns}
        assert decided.granted == (f_cnt > newest or again)
        if decided.granted:
            owners.setdefault(f_cnt, set()).add(lns)
            newest, known = f_cnt, decided.state
    assert all(len(some) == 1 for some in owners.values())


@on_a_loop
async def test_a_sole_server_asks_nobody() -> None:
    sole = SoleServer()
    assert (await sole.claim(BID)).level2 is Level2.NOT_ASKED
    assert await sole.take_f_cnt_down(replace(BID, f_cnt_down=7)) == 7
    await sole.release(BID, Claim(level2=Level2.OWNER))


FORWARDED = Disposition(Upstream.FORWARDED, answers=True, advances=True)
AGAIN = Disposition(Upstream.DROPPED, Reason.RESUBMISSION_SUPPRESSED, answers=True, spends=True)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("on_outage", OnOutage)
@pytest.mark.parametrize("done", [FORWARDED, AGAIN])
def test_nobody_but_the_owner_answers(
    strategy: Strategy, on_outage: OnOutage, done: Disposition
) -> None:
    for level2 in (Level2.NOT_ASKED, Level2.OWNER):
        assert after_claim(done, strategy, level2, on_outage) is done
    for level2 in (Level2.NOT_OWNER, Level2.UNAVAILABLE):
        left = after_claim(done, strategy, level2, on_outage)
        assert (left.answers, left.spends, left.advances) == (False, False, done.advances)


def test_what_another_server_owns_goes_up_as_the_strategy_says() -> None:
    told = {
        strategy: after_claim(FORWARDED, strategy, Level2.NOT_OWNER, on_outage)
        for strategy, on_outage in product(Strategy, OnOutage)
    }
    assert {strategy: (left.upstream, left.reason) for strategy, left in told.items()} == {
        Strategy.DROP: (Upstream.DROPPED, Reason.DUPLICATE_AT_OTHER_SERVER),
        Strategy.MARK: (Upstream.MARKED, None),
        Strategy.NONE: (Upstream.FORWARDED, None),
    }


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("done", [FORWARDED, AGAIN])
def test_during_an_outage_one_word_decides(strategy: Strategy, done: Disposition) -> None:
    opened = after_claim(done, strategy, Level2.UNAVAILABLE, OnOutage.OPEN)
    closed = after_claim(done, strategy, Level2.UNAVAILABLE, OnOutage.CLOSED)
    assert (opened.upstream, opened.reason) == (done.upstream, done.reason)
    assert (closed.upstream, closed.reason) == (Upstream.DROPPED, Reason.STORE_UNAVAILABLE)
