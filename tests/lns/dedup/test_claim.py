"""The decision of level 2 without a store; stores have `tests/contracts/test_claim_store.py`."""

import asyncio
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lns.dedup.claim import Bid, Level2, OnOutage, SoleServer, State, decide, released
from lns.dedup.strategy import Disposition, Reason, Strategy, Upstream, after_claim
from lns.lorawan.identifiers import DevAddr, Eui, Mic

BID = Bid(lns="lns-a", dev_eui=Eui("70B3D57ED0000001"), dev_addr=DevAddr("01ABCDEF"), f_cnt=10)
MIC = Mic("2B11FF0D")


def test_nobody_owns_a_session_that_nobody_claimed() -> None:
    assert decide(None, replace(BID, life=3)) == State(10, "lns-a", 3)


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
    after = decide(State(f_cnt_up, owner), BID)
    assert after == (State(10, "lns-a") if granted else None)


@pytest.mark.parametrize(
    ("owner", "advances", "seen", "after"),
    [
        ("lns-a", True, False, State(1, "lns-a", 5)),
        ("lns-a", True, True, State(1, "lns-a", 5)),
        ("lns-a", False, False, State(7, "lns-a", 4)),
        ("lns-a", False, True, State(7, "lns-a", 4)),
        ("lns-b", True, False, State(1, "lns-a", 5)),
        ("lns-b", True, True, None),
        ("lns-b", False, False, None),
        ("lns-b", False, True, None),
    ],
)
def test_a_first_message_below_the_counter(
    owner: str, advances: bool, seen: bool, after: State | None
) -> None:
    bid = replace(BID, f_cnt=1, first_message=MIC, advances=advances)
    assert decide(State(7, owner, 4), bid, seen=seen) == after
    assert decide(State(7, owner, 4), replace(bid, first_message=None), seen=seen) is None


def test_only_what_was_granted_last_is_given_back() -> None:
    assert released(State(10, "lns-a", 2), BID) == State(9, "lns-a", 2)
    for state in (None, State(10, "lns-b"), State(9, "lns-a"), State(11, "lns-a")):
        assert released(state, BID) is None


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
    state: State | None = None
    owners: dict[int, set[str]] = {}
    newest = -1
    for lns, f_cnt in bids:
        after = decide(state, replace(BID, lns=lns, f_cnt=f_cnt))
        again = f_cnt == newest and owners[f_cnt] == {lns}
        assert (after is not None) == (f_cnt > newest or again)
        if after is not None:
            owners.setdefault(f_cnt, set()).add(lns)
            newest, state = f_cnt, after
    assert all(len(some) == 1 for some in owners.values())


def test_a_sole_server_asks_nobody() -> None:
    async def body() -> None:
        sole = SoleServer()
        assert (await sole.claim(BID)).level2 is Level2.NOT_ASKED
        assert await sole.take_f_cnt_down(replace(BID, f_cnt_down=7)) == 7
        await sole.release(BID)

    asyncio.run(body())


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
