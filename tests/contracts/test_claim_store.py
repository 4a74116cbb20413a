"""What every store of claims decides, and that all of them decide the same."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from bench.host.lns_process import Valkey
from lns.dedup.claim import Bid, Claim, Claims, Level2
from lns.dedup.session import LIVES_MAX, Counter, Lived
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.store.memory import MemoryClaims
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import redis_server
from tests.blocking import start_now, stop_now
from tests.looped import on_a_loop
from tests.sizes import size

ALPHA, BETA = Eui("70B3D57ED0000001"), Eui("70B3D57ED0000002")
ADDR, OTHER_ADDR = DevAddr("01ABCDEF"), DevAddr("01ABCDEE")
MIC, OTHER_MIC, NO_MIC = Mic("2B11FF0D"), Mic("0D11FF2B"), Mic("00000000")
FIRST: dict[str, Any] = {"mic": MIC, "first_message": True}
SECOND: dict[str, Any] = {"mic": OTHER_MIC, "first_message": True}
HOUR_US = 3_600_000_000

T = TypeVar("T")


def bid(lns: str, f_cnt: int, **known: Any) -> Bid:
    fields: dict[str, Any] = {"dev_eui": ALPHA, "dev_addr": ADDR, "mic": NO_MIC, **known}
    return Bid(lns=lns, f_cnt=f_cnt, **fields)


class Asked:
    """A store of claims that is asked one question after the other."""

    def __init__(self, claims: Claims, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.claims = claims
        self._run = run

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        said: T = self._run(coroutine)
        return said

    def claim(self, lns: str, f_cnt: int, **known: Any) -> Claim:
        return self.run(self.claims.claim(bid(lns, f_cnt, **known)))

    def word(self, lns: str, f_cnt: int, **known: Any) -> tuple[Level2, str | None]:
        claim = self.claim(lns, f_cnt, **known)
        return claim.level2, claim.owner

    def take(self, lns: str, f_cnt_down: int = 0) -> int | None:
        return self.run(self.claims.take_f_cnt_down(bid(lns, 0, f_cnt_down=f_cnt_down)))

    def release(self, lns: str, f_cnt: int, claim: Claim, **known: Any) -> None:
        self.run(self.claims.release(bid(lns, f_cnt, **known), claim))


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = start_now(Valkey(tmp_path_factory.mktemp("valkey"), append_only=False))
    yield server
    stop_now(server)


databases = count()
PATIENCE_US = 10_000_000  # this host may be busy


def redis_claims(valkey: Valkey, **known: int) -> RedisClaims:
    server = redis_server(f"redis://127.0.0.1:{valkey.port}/{next(databases) % 16}")
    return RedisClaims(server, patience_us=PATIENCE_US, **known)


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[Asked]:
    with asyncio.Runner() as runner:
        if request.param == "memory":
            yield Asked(MemoryClaims(lambda: 1), runner.run)
        else:
            claims = redis_claims(request.getfixturevalue("valkey"))
            runner.run(claims._wire.do("FLUSHDB"))
            yield Asked(claims, runner.run)
            runner.run(claims.__aexit__(None, None, None))


OWN_A, OWN_B = (Level2.OWNER, "lns-a"), (Level2.OWNER, "lns-b")
OF_A, OF_B = (Level2.NOT_OWNER, "lns-a"), (Level2.NOT_OWNER, "lns-b")


def test_the_first_to_claim_a_frame_owns_it(store: Asked) -> None:
    assert [store.word(lns, 10) for lns in ("lns-a", "lns-b", "lns-c")] == [OWN_A, OF_A, OF_A]


def test_the_owner_may_process_its_frame_again(store: Asked) -> None:
    assert [store.word(lns, 10) for lns in ("lns-a", "lns-a", "lns-b")] == [OWN_A, OWN_A, OF_A]


def test_a_higher_counter_changes_the_owner(store: Asked) -> None:
    assert store.word("lns-a", 10) == OWN_A
    assert store.word("lns-b", 11) == OWN_B
    assert store.word("lns-a", 11) == OF_B


@pytest.mark.parametrize("lns", ["lns-a", "lns-b"])
def test_a_lower_counter_is_a_duplicate_of_whoever_it_is(store: Asked, lns: str) -> None:
    store.claim("lns-a", 12)
    assert store.word(lns, 11) == OF_A


def test_counters_have_32_bits(store: Asked) -> None:
    for f_cnt in (0xFFFF, 0x10000, 0x1FFFF, 0x20000, 0xFFFFFFFE, 0xFFFFFFFF):
        assert store.word("lns-a", f_cnt) == OWN_A
        assert store.word("lns-b", f_cnt) == OF_A
    assert store.word("lns-b", 0xFFFFFFFE) == OF_A


def test_every_session_and_every_device_has_a_state_of_its_own(store: Asked) -> None:
    assert store.word("lns-a", 500) == OWN_A
    assert store.word("lns-b", 1, dev_addr=OTHER_ADDR) == OWN_B
    assert store.word("lns-b", 1, dev_eui=BETA) == OWN_B
    assert store.word("lns-b", 1) == OF_A


def test_only_the_owner_gets_a_downlink_counter(store: Asked) -> None:
    first = store.claim("lns-a", 10, takes_f_cnt_down=True, f_cnt_down=7)
    other = store.claim("lns-b", 10, takes_f_cnt_down=True, f_cnt_down=3)
    again = store.claim("lns-a", 10, takes_f_cnt_down=True, f_cnt_down=8)
    assert (first.f_cnt_down, other.f_cnt_down, again.f_cnt_down) == (7, None, 8)
    assert (first.next_f_cnt_down, other.next_f_cnt_down, again.next_f_cnt_down) == (8, 8, 9)


def test_no_downlink_counter_is_handed_out_twice(store: Asked) -> None:
    """Not to a server that knows of fewer, and not to one that knows of more."""
    counters = [
        store.claim("lns-a", 10, takes_f_cnt_down=True, f_cnt_down=2).f_cnt_down,
        store.take("lns-a"),
        store.claim("lns-b", 11, takes_f_cnt_down=True).f_cnt_down,
        store.claim("lns-a", 12, takes_f_cnt_down=True, f_cnt_down=9).f_cnt_down,
        store.claim("lns-b", 13, takes_f_cnt_down=True, f_cnt_down=5).f_cnt_down,
    ]
    assert counters == [2, 3, 4, 9, 10]


def test_a_frame_that_needs_no_answer_costs_no_downlink_counter(store: Asked) -> None:
    assert [store.claim("lns-a", f_cnt).f_cnt_down for f_cnt in (10, 11)] == [None, None]
    assert store.claim("lns-a", 12, takes_f_cnt_down=True).f_cnt_down == 0


def test_a_downlink_counter_without_a_claim_is_for_the_owner(store: Asked) -> None:
    assert store.take("lns-b", 4) == 4  # nobody owns the session
    store.claim("lns-a", 10)
    assert (store.take("lns-b"), store.take("lns-a")) == (None, 5)


def test_what_was_given_back_anybody_may_have(store: Asked) -> None:
    for number, f_cnt in enumerate((10, 0x10000)):
        taken = store.claim("lns-a", f_cnt, takes_f_cnt_down=True)
        store.release("lns-a", f_cnt, taken)
        assert store.word("lns-b", f_cnt) == OWN_B
        assert store.word("lns-a", f_cnt) == OF_B
        assert taken.f_cnt_down == number
        assert store.word("lns-b", f_cnt - 1)[0] is Level2.NOT_OWNER


def test_what_is_given_back_takes_nothing_from_the_owner_before(store: Asked) -> None:
    store.claim("lns-b", 10)
    store.release("lns-a", 11, store.claim("lns-a", 11))
    assert (store.take("lns-a"), store.claim("lns-a", 9).owner) == (None, "lns-b")
    assert store.word("lns-b", 10) == OWN_B


def test_a_frame_keeps_the_name_under_which_it_was_refused(store: Asked) -> None:
    store.claim("lns-b", 2, mic=OTHER_MIC)
    refused = store.claim("lns-a", 2, mic=MIC)
    assert (refused.level2, refused.lived) == (Level2.NOT_OWNER, Lived(0, odd=True))
    store.claim("lns-a", 0, mic=NO_MIC, first_message=True)
    granted = store.claim("lns-b", 2, mic=MIC)
    assert (granted.level2, granted.is_new, granted.lived) == (Level2.OWNER, True, refused.lived)
    again = store.claim("lns-b", 2, mic=MIC, is_first=False)
    assert (again.level2, again.lived) == (Level2.OWNER, refused.lived)


def test_a_frame_of_a_life_before_is_new_in_none(store: Asked) -> None:
    """It was refused a moment ago as the newest one of a life that is over by now."""
    begun = {"known": Counter(3, mic=OTHER_MIC), "known_owner": "lns-b"}
    assert store.word("lns-a", 3, mic=OTHER_MIC, **begun) == OF_B
    store.claim("lns-b", 0, mic=NO_MIC, first_message=True, **begun)
    again = store.claim("lns-b", 3, mic=OTHER_MIC)
    assert (again.level2, again.is_new, again.lived) == (Level2.NOT_OWNER, False, Lived(0))


def test_the_counter_of_the_newest_frame_is_that_of_another_one_in_a_life_before(
    store: Asked,
) -> None:
    store.claim("lns-a", 5, mic=MIC)
    store.claim("lns-a", 0, mic=NO_MIC, first_message=True)
    assert store.claim("lns-a", 5, mic=OTHER_MIC).lived == Lived(1)
    again = {"mic": MIC, "is_first": False, "lived": Lived(0)}
    assert store.claim("lns-a", 5, **again).level2 is Level2.NOT_OWNER


def test_only_what_is_owned_can_be_given_back(store: Asked) -> None:
    of_a = store.claim("lns-a", 10)
    store.release("lns-b", 10, of_a)
    assert store.word("lns-b", 10) == OF_A
    store.claim("lns-b", 11)
    store.release("lns-a", 10, of_a)
    assert store.word("lns-a", 11) == OF_B


def test_what_came_after_it_stays_when_a_frame_is_given_back(store: Asked) -> None:
    older = store.claim("lns-a", 10, mic=MIC)
    store.claim("lns-a", 11, mic=OTHER_MIC)
    store.release("lns-a", 10, older, mic=MIC)
    assert store.word("lns-b", 11, mic=NO_MIC) == (Level2.NOT_OWNER, "lns-a")


def test_what_was_only_granted_again_cannot_be_given_back(store: Asked) -> None:
    store.claim("lns-a", 10)
    store.release("lns-a", 10, store.claim("lns-a", 10, is_first=False))
    assert store.word("lns-b", 10) == OF_A


def test_the_first_frame_of_all_can_be_given_back(store: Asked) -> None:
    granted = store.claim("lns-a", 0, **FIRST)
    store.release("lns-a", 0, granted, **FIRST)
    assert store.word("lns-b", 0, **FIRST) == OWN_B


def test_who_gives_back_the_first_frame_owns_nothing_of_before(store: Asked) -> None:
    """The counter before was nobody's: whoever asks for it first has it."""
    before = {"known": Counter(2, mic=MIC)}
    granted = store.claim("lns-a", 3, mic=OTHER_MIC, **before)
    assert (granted.before, granted.owner_before) == (before["known"], None)
    store.release("lns-a", 3, granted, mic=OTHER_MIC)
    assert store.take("lns-b") == 0
    assert store.word("lns-b", 2, mic=MIC, **before) == OWN_B
    assert store.word("lns-a", 2, mic=MIC, **before) == OF_B
    assert store.take("lns-a") is None


def test_a_life_that_is_given_back_begins_with_who_was_told_of_it(store: Asked) -> None:
    """It was refused the first frame of that life, and hears it again: nobody has delivered it."""
    store.claim("lns-a", 0, mic=OTHER_MIC)
    granted = store.claim("lns-b", 0, mic=MIC, first_message=True)
    told = store.claim("lns-a", 0, mic=MIC, first_message=True)
    store.release("lns-b", 0, granted, mic=MIC, first_message=True)
    knows = {"known": told.counter, "known_owner": "lns-b", "is_first": False}
    again = store.claim("lns-a", 0, mic=MIC, first_message=True, **knows)
    assert (again.level2, again.is_new, again.lived) == (Level2.OWNER, True, Lived(1))


def test_what_was_given_back_is_nobodys_until_somebody_is_granted_it(store: Asked) -> None:
    """A server that has heard more refuses it; for one of the life after that it is new."""
    store.release("lns-a", 3, store.claim("lns-a", 3, mic=MIC), mic=MIC)
    store.claim("lns-b", 4, mic=OTHER_MIC)
    assert store.word("lns-b", 3, mic=MIC, is_first=False) == OF_B
    store.claim("lns-b", 0, mic=OTHER_MIC, first_message=True)
    assert store.word("lns-a", 3, mic=MIC) == OWN_A


@pytest.mark.parametrize(
    ("known", "former"),
    [
        (Counter(1, 1, 1, {0: 2}), {0: 4}),
        (Counter(1, 1, 1), {0: 4}),
        (Counter(1, 2, 2, {0: 9, 1: 2}), {0: 9, 1: 2}),
        (Counter(1, 2, 2, {0: 3, 1: 2}), {0: 4, 1: 2}),
        (Counter(1, 2, 2, {1: 5}), {1: 5}),
        (Counter(4, 1, 1), {}),
    ],
)
def test_who_began_a_life_alone_takes_none_before_it_back(
    store: Asked, known: Counter, former: dict[int, int]
) -> None:
    """It had not heard how far that life came at the others."""
    store.claim("lns-b", 4, mic=MIC)
    claim = store.claim("lns-a", 1, mic=NO_MIC, known=known, known_owner="lns-a", is_first=False)
    assert claim.counter.former == former


@pytest.mark.parametrize(
    ("known", "counter", "owner"),
    [
        (Counter(3, 0, 1), Counter(4, 0, 1, mic=MIC), "lns-b"),
        (Counter(4, 0, 1, mic=NO_MIC), Counter(4, 0, 1, mic=MIC), "lns-b"),
        (Counter(5, 0, 1, mic=NO_MIC), Counter(5, 0, 1, mic=NO_MIC), "lns-a"),
    ],
)
def test_no_life_goes_back_when_one_server_knows_of_more(
    store: Asked, known: Counter, counter: Counter, owner: str
) -> None:
    """It was alone when a late first message came, and went on with the life before."""
    store.claim("lns-b", 4, mic=MIC)
    late = {"known": known, "known_owner": "lns-a", "is_first": False, "mic": NO_MIC}
    claim = store.claim("lns-a", 3, **late)
    assert (claim.counter, claim.owner) == (counter, owner)


@pytest.mark.parametrize(
    ("known", "counter"),
    [
        (Counter(9, 0, 2), Counter(1, 1, 2, {0: 9}, MIC)),
        (Counter(10, 0, 2, mic=NO_MIC), Counter(10, 0, 2, mic=NO_MIC)),
    ],
)
def test_a_life_is_gone_back_to_only_beyond_what_others_know_of_it(
    store: Asked, known: Counter, counter: Counter
) -> None:
    store.claim("lns-b", 9)
    for f_cnt in (0, 1):
        store.claim("lns-b", f_cnt, mic=MIC, first_message=True)
    late = {"known": known, "known_owner": "lns-a", "is_first": False, "mic": NO_MIC}
    assert store.claim("lns-a", 1, **late).counter == counter


def test_former_lives_of_two_servers_are_bounded(store: Asked) -> None:
    store.claim("lns-b", 99, mic=MIC)
    lives = {life: 50 - life for life in range(1, 1 + LIVES_MAX)}
    alone = {"known": Counter(1, 9, 9, lives), "known_owner": "lns-a", "is_first": False}
    assert store.claim("lns-a", 1, **alone).counter.former == lives


def test_a_restart_that_is_given_back_began_nothing(store: Asked) -> None:
    """The message has the same name when it comes again, and the life before goes on."""
    store.claim("lns-a", 40)
    granted = store.claim("lns-a", 0, **FIRST)
    store.release("lns-a", 0, granted, **FIRST)
    assert store.claim("lns-b", 41).lived == Lived(0)
    again = store.claim("lns-b", 0, **FIRST)
    assert (again.is_new, again.lived, again.counter.former) == (True, Lived(1), {0: 41})


@pytest.mark.parametrize("relaxed", [False, True], ids=["the same life", "a life that it began"])
def test_what_was_given_back_keeps_its_name_to_itself(store: Asked, relaxed: bool) -> None:
    """Another server may have sent a copy of it up meanwhile."""
    if relaxed:
        store.claim("lns-a", 40)
    known, life = {"first_message": relaxed}, int(relaxed)
    granted = store.claim("lns-a", 0, mic=MIC, **known)
    assert store.claim("lns-b", 0, mic=MIC, **known).lived == Lived(life)
    store.release("lns-a", 0, granted, mic=MIC)
    other = store.claim("lns-a", 0, mic=OTHER_MIC, **known)
    assert (other.is_new, other.lived) == (True, Lived(life, odd=True))
    store.release("lns-a", 0, other, mic=OTHER_MIC)
    assert store.claim("lns-b", 0, mic=MIC, **known).lived == Lived(life)


def test_what_was_given_back_under_no_name_keeps_none(store: Asked) -> None:
    """It was too far at first; other frames with its counter, or a lower one, have their own."""
    store.claim("lns-a", 10)
    store.claim("lns-a", 20_000, mic=MIC, too_far=True)
    store.claim("lns-a", 10_000)
    granted = store.claim("lns-a", 20_000, mic=MIC)
    assert (granted.is_new, granted.lived) == (True, Lived(0, odd=True))
    store.release("lns-a", 20_000, granted, mic=MIC)
    for f_cnt in (10_001, 20_000):
        assert store.claim("lns-a", f_cnt, mic=OTHER_MIC).lived == Lived(0)


def test_names_that_were_given_back_are_known_up_to_the_newest(store: Asked) -> None:
    for f_cnt, mic in ((3, MIC), (4, OTHER_MIC)):
        store.release("lns-a", f_cnt, store.claim("lns-a", f_cnt, mic=mic), mic=mic)
    again = store.claim("lns-b", 3, mic=MIC)
    assert (again.is_new, again.lived) == (True, Lived(0)), "its name is remembered with it"
    store.release("lns-b", 3, again, mic=MIC)
    for f_cnt, odd in ((3, True), (4, True), (5, False)):
        assert store.claim("lns-a", f_cnt, mic=NO_MIC).lived == Lived(0, odd=odd)


def test_what_was_given_back_may_be_of_another_life_when_it_comes_again(store: Asked) -> None:
    """Nobody has it yet; the device may send the same bytes in the next life."""
    store.claim("lns-a", 0, **FIRST)
    store.release("lns-b", 1, store.claim("lns-b", 1, mic=OTHER_MIC), mic=OTHER_MIC)
    store.claim("lns-a", 0, mic=NO_MIC, first_message=True)
    again = store.claim("lns-b", 1, mic=OTHER_MIC)
    assert (again.level2, again.is_new, again.lived) == (Level2.OWNER, True, Lived(1))


@on_a_loop
async def test_who_forgot_a_frame_knows_what_name_it_has_not() -> None:
    now_us = [0]
    claims = MemoryClaims(lambda: now_us[0])

    async def claim(mic: Mic) -> Claim:
        return await claims.claim(bid("lns-a", 3, mic=mic))

    await claims.release(bid("lns-a", 3, mic=MIC), await claim(MIC))
    named = (await claim(OTHER_MIC)).lived
    now_us[0] += HOUR_US
    assert (await claim(OTHER_MIC)).lived == named == Lived(0, odd=True)


def test_a_strict_counter_cannot_restart(store: Asked) -> None:
    store.claim("lns-a", 5)
    assert store.word("lns-b", 0) == OF_A


@pytest.mark.parametrize("lns", ["lns-a", "lns-b"])
@pytest.mark.parametrize("f_cnt", [0, 1])
def test_a_relaxed_counter_may_restart_at_any_server(store: Asked, lns: str, f_cnt: int) -> None:
    store.claim("lns-a", 5, takes_f_cnt_down=True)
    restarted = store.claim(lns, f_cnt, **FIRST, takes_f_cnt_down=True)
    assert (restarted.level2, restarted.owner, restarted.lived) == (Level2.OWNER, lns, Lived(1))
    assert (restarted.is_new, restarted.counter.former) == (True, {0: 5})
    assert restarted.f_cnt_down == 1  # downlink counters go on
    other = "lns-b" if lns == "lns-a" else "lns-a"
    late = store.claim(other, f_cnt, **FIRST)
    assert (late.level2, late.owner, late.lived) == (Level2.NOT_OWNER, lns, Lived(1))
    assert store.claim(other, f_cnt + 1).lived == Lived(1)


def test_a_late_copy_of_a_first_message_restarts_nothing(store: Asked) -> None:
    store.claim("lns-a", 0, **FIRST)
    store.claim("lns-a", 1, **SECOND)
    assert store.word("lns-b", 0, **FIRST) == OF_A
    assert store.word("lns-b", 1, **SECOND) == OF_A
    assert store.claim("lns-b", 2).counter.lives == 0


def test_downlink_counters_that_others_may_have_used_are_left_out(store: Asked) -> None:
    """The server has missed so many; a store that knows the session knows better."""
    known: dict[str, Any] = {"f_cnt_down": 5, "f_cnt_down_missed": 12, "takes_f_cnt_down": True}
    assert store.claim("lns-a", 10, **known).f_cnt_down == 17
    assert store.claim("lns-b", 11, **known).f_cnt_down == 18
    assert store.claim("lns-b", 12, **(known | {"f_cnt_down": 30})).f_cnt_down == 30


def test_what_is_refused_leaves_no_downlink_counter_out(store: Asked) -> None:
    """It would be left out again with each such frame, until a device refuses the next answer."""
    known: dict[str, Any] = {"f_cnt_down": 5, "f_cnt_down_missed": 12, "known": Counter(10)}
    assert store.claim("lns-a", 9, **known).next_f_cnt_down == 5
    too_far = store.claim("lns-a", 40_000, too_far=True, **known)
    assert (too_far.too_far, too_far.next_f_cnt_down) == (True, 5)
    assert store.claim("lns-a", 11, **known).next_f_cnt_down == 17


@pytest.mark.parametrize("late", ["lns-a", "lns-b"])
def test_a_first_message_that_was_overtaken_takes_nothing_back(store: Asked, late: str) -> None:
    """It looks like a restart; copies of what overtook it are copies all the same."""
    assert store.word("lns-a", 1, **FIRST) == OWN_A
    assert store.word(late, 0, **SECOND) == (Level2.OWNER, late)
    for lns in ("lns-b", "lns-c"):
        assert store.word(lns, 1, **FIRST) == (Level2.NOT_OWNER, late)
    again = store.word("lns-a", 1, **FIRST, is_first=False)
    assert again == (OWN_A if late == "lns-a" else OF_B)


def test_another_first_message_is_a_restart(store: Asked) -> None:
    store.claim("lns-a", 0, **FIRST)
    restarted = store.claim("lns-b", 0, **SECOND)
    assert (restarted.level2, restarted.lived) == (Level2.OWNER, Lived(1))


def test_the_owner_answers_a_late_copy_of_its_first_message_again(store: Asked) -> None:
    store.claim("lns-a", 0, **FIRST)
    store.claim("lns-a", 1, **SECOND)
    assert store.word("lns-a", 0, **FIRST, is_first=False) == OWN_A
    assert store.word("lns-b", 0, **FIRST, is_first=False) == OF_A
    assert store.word("lns-b", 1, **SECOND) == OF_A


def test_a_server_that_knows_of_a_later_life_tells_the_others(store: Asked) -> None:
    """It was alone with the device while the store was away, or the store lost what it knew."""
    assert store.claim("lns-a", 10, known=Counter(3, 2, 2)).counter.life == 2
    assert store.claim("lns-b", 10, known=Counter(9, 0, 0)).counter.life == 2
    assert store.claim("lns-b", 11).counter.life == 2
    assert store.claim("lns-a", 12, known=Counter(5, 3, 3, {2: 11})).counter == Counter(
        12, 2, 3, {}, NO_MIC
    )


@pytest.mark.parametrize("newest", [5_001, 20_001, 200_001])
@pytest.mark.parametrize("lns", ["lns-a", "lns-b"])
def test_a_replayed_first_message_takes_no_life_away(store: Asked, lns: str, newest: int) -> None:
    """Whoever hears the next frame of the device, it goes on in the life before."""
    store.claim("lns-a", newest)
    assert store.claim("lns-b", 0, **FIRST).counter == Counter(0, 1, 1, {0: newest}, MIC)
    back = store.claim(lns, newest + 1, **{**FIRST, "mic": OTHER_MIC, "first_message": False})
    assert (back.level2, back.is_new, back.lived) == (Level2.OWNER, True, Lived(0))
    assert back.counter == Counter(newest + 1, 0, 1, {}, OTHER_MIC)
    assert back.before == Counter(0, 1, 1, {0: newest}, MIC)
    assert store.claim("lns-b", 0, mic=NO_MIC, first_message=True).lived == Lived(2)


def test_former_lives_are_remembered_as_long_as_they_came_farther(store: Asked) -> None:
    frames = [(f"{n:08X}", f_cnt) for n, f_cnt in enumerate((900, 0, 500, 1, 40, 0, 30, 0))]
    for mic, f_cnt in frames:
        claim = store.claim("lns-a", f_cnt, mic=mic, first_message=f_cnt <= 1)
    assert claim.counter.former == {0: 900, 1: 500, 2: 40, 3: 30}
    assert store.claim("lns-b", 35).lived == Lived(3)
    assert store.claim("lns-b", 40).lived == Lived(3)
    assert store.claim("lns-b", 41).counter.former == {0: 900, 1: 500}


def test_a_life_that_came_as_far_as_the_one_before_it_is_forgotten(store: Asked) -> None:
    store.claim("lns-a", 5)
    for f_cnt, number in ((0, 1), (5, 1), (0, 2)):
        claim = store.claim("lns-a", f_cnt, mic=f"{number:08X}", first_message=f_cnt == 0)
    assert claim.counter.former == {0: 5}


def test_what_is_given_back_late_takes_nothing_from_a_life_that_began_since(store: Asked) -> None:
    store.claim("lns-a", 500)
    late = store.claim("lns-a", 0, mic="00000001", first_message=True)
    store.claim("lns-a", 0, mic="00000002", first_message=True)
    store.release("lns-a", 0, late, mic="00000001")
    assert store.word("lns-b", 1) == OWN_B


def test_what_was_granted_again_cannot_be_given_back(store: Asked) -> None:
    store.claim("lns-a", 500)
    store.claim("lns-a", 0, **FIRST)
    again = store.claim("lns-a", 0, **FIRST)
    store.release("lns-a", 0, again, **FIRST)
    assert store.word("lns-b", 0, **FIRST) == OF_A


def test_former_lives_are_bounded(store: Asked) -> None:
    for number in range(LIVES_MAX + 3):
        store.claim("lns-a", 100 - number, mic=f"{number:08X}")
        store.claim("lns-a", 0, mic=f"F{number:07X}", first_message=True)
    claim = store.claim("lns-b", 0, **FIRST)
    assert claim.counter.former == {3 + n: 97 - n for n in range(LIVES_MAX)}


def test_what_is_too_far_here_may_be_near_for_all_servers(store: Asked) -> None:
    refused = store.claim("lns-b", 16_385, too_far=True)
    assert (refused.too_far, refused.lived) == (True, Lived(0, odd=True))
    store.claim("lns-a", 1)
    assert store.claim("lns-b", 16_386, too_far=True).too_far
    near = store.claim("lns-b", 16_385, too_far=True, mic=MIC)
    assert (near.level2, near.is_new, near.too_far) == (Level2.OWNER, True, False)
    assert store.claim("lns-b", 80_000).is_new, "it went on while nobody could be asked"


def test_what_is_near_a_life_that_ended_is_too_far_for_the_next(store: Asked) -> None:
    """A server that was not told of the next life does not know that; the store does."""
    known = Counter(16_389)
    assert store.claim("lns-a", 0, **FIRST, known=known).counter.former == {0: 16_389}
    claim = store.claim("lns-b", 16_388, mic=OTHER_MIC, known=Counter(16_387))
    assert (claim.level2, claim.is_new, claim.too_far) == (Level2.NOT_OWNER, False, True)


def test_what_is_too_far_is_so_whatever_life_another_server_was_refused_it_in(
    store: Asked,
) -> None:
    known = {"known": Counter(40_000, life=2, lives=2, mic=OTHER_MIC), "known_owner": "lns-a"}
    refused = store.claim("lns-b", 16_886, mic=MIC, lived=Lived(2), is_first=False, **known)
    assert (refused.level2, refused.lived) == (Level2.NOT_OWNER, Lived(2))
    claim = store.claim("lns-c", 16_886, mic=MIC, too_far=True)
    assert (claim.level2, claim.too_far) == (Level2.NOT_OWNER, True)
    assert claim.lived == Lived(0, odd=True)


def test_a_late_copy_of_a_former_life_is_a_copy(store: Asked) -> None:
    store.claim("lns-a", 7, mic=OTHER_MIC)
    store.claim("lns-a", 0, **FIRST)
    late = store.claim("lns-b", 7, mic=OTHER_MIC)
    assert (late.level2, late.lived, late.counter.f_cnt_up) == (Level2.NOT_OWNER, Lived(0), 0)
    assert store.claim("lns-b", 1, mic=OTHER_MIC, first_message=True).lived == Lived(1)


def test_who_was_granted_a_frame_answers_its_copies_and_not_who_owns_the_session(
    store: Asked,
) -> None:
    store.claim("lns-a", 0, **FIRST)
    store.claim("lns-b", 1, **SECOND)
    assert store.word("lns-b", 0, **FIRST, is_first=False) == OF_B
    assert store.word("lns-b", 0, **FIRST) == OF_B
    assert store.word("lns-a", 0, **FIRST, is_first=False) == OWN_B


def test_a_frame_of_another_server_is_not_answered_after_a_restart_here(store: Asked) -> None:
    """Level 1 of this one knows it, and its counter is newer than that of the life it is in now."""
    store.claim("lns-a", 1, **FIRST)
    store.claim("lns-b", 1, **FIRST)
    store.claim("lns-b", 0, **SECOND)
    assert store.word("lns-b", 1, **FIRST, is_first=False)[0] is Level2.NOT_OWNER


def test_other_bytes_with_a_used_counter_are_told_apart(store: Asked) -> None:
    store.claim("lns-a", 10, mic=MIC)
    assert store.claim("lns-a", 10, mic=OTHER_MIC).lived == Lived(0, odd=True)
    assert store.claim("lns-b", 10, mic=OTHER_MIC).lived == Lived(0, odd=True)
    assert store.claim("lns-b", 10, mic=MIC).lived == Lived(0)
    assert store.claim("lns-b", 9, mic=MIC).lived == Lived(0, odd=True)


def test_the_frame_of_a_counter_that_was_kept_without_one_is_the_first_that_is_granted(
    store: Asked,
) -> None:
    known: dict[str, Any] = {"known": Counter(2), "known_owner": "lns-a"}
    newest = store.claim("lns-a", 2, mic=MIC, **known)
    assert (newest.level2, newest.lived, newest.counter.mic) == (Level2.OWNER, Lived(0), MIC)
    other = store.claim("lns-b", 2, mic=OTHER_MIC, **known)
    assert (other.level2, other.lived, other.counter.mic) == (
        Level2.NOT_OWNER, Lived(0, odd=True), MIC,
    )  # fmt: skip
    odd = store.claim("lns-a", 2, mic=OTHER_MIC, is_first=False, lived=Lived(0), **known)
    assert (odd.lived, odd.counter.mic) == (Lived(0, odd=True), MIC)


def test_what_is_known_to_be_another_frame_does_not_become_the_newest_one(store: Asked) -> None:
    odd = Lived(0, odd=True)
    again = store.claim("lns-a", 2, mic=MIC, known=Counter(2), is_first=False, lived=odd)
    assert (again.level2, again.lived, again.counter.mic) == (Level2.OWNER, odd, None)


def test_a_repetition_from_before_a_restart_takes_the_new_life_nowhere(store: Asked) -> None:
    """One that came after it is the device again, with an equal frame."""
    store.claim("lns-a", 7, mic=OTHER_MIC)
    begun = store.claim("lns-a", 0, **FIRST).counter
    repeated: dict[str, Any] = {"mic": OTHER_MIC, "is_first": False}
    before = store.claim("lns-a", 7, **repeated, repeats=True)
    assert (before.level2, before.is_new, before.lived) == (Level2.NOT_OWNER, False, Lived(0))
    assert before.counter == begun
    after = store.claim("lns-a", 7, **repeated)
    assert (after.level2, after.is_new, after.lived) == (Level2.OWNER, True, Lived(1))


def test_a_session_is_over_when_a_later_one_was_heard(store: Asked) -> None:
    store.claim("lns-a", 10)
    later: dict[str, Any] = {"dev_addr": OTHER_ADDR, "elders": (ADDR,)}
    assert not store.claim("lns-a", 0, **later).outdated
    for lns in ("lns-a", "lns-b"):
        over = store.claim(lns, 11)
        assert (over.level2, over.outdated) == (Level2.NOT_OWNER, True)
        assert store.take(lns) is None
        assert not store.claim(lns, 1, dev_addr=OTHER_ADDR).outdated


def test_of_many_at_once_one_is_the_owner(store: Asked) -> None:
    async def race() -> list[list[Claim]]:
        bids = [
            [bid(f"lns-{n}", f_cnt, takes_f_cnt_down=True) for n in range(4)] for f_cnt in range(50)
        ]
        return [list(await asyncio.gather(*map(store.claims.claim, some))) for some in bids]

    rounds = store.run(race())
    for claims in rounds:
        assert [claim.level2 for claim in claims].count(Level2.OWNER) == 1
        assert len({claim.owner for claim in claims}) == 1
    taken = [claim.f_cnt_down for claims in rounds for claim in claims]
    assert [f_cnt_down for f_cnt_down in taken if f_cnt_down is not None] == list(range(50))


def test_the_state_expires_and_the_downlink_counter_does_not() -> None:
    """Exactly a day after the last claim that was granted, whoever was refused since."""
    now_us = 0
    with asyncio.Runner() as runner:
        store = Asked(MemoryClaims(lambda: now_us), runner.run)
        store.claim("lns-a", 500, takes_f_cnt_down=True)
        now_us += 24 * HOUR_US - 1
        assert store.word("lns-b", 11) == OF_A
        now_us += 1
        late = store.claim("lns-b", 11, takes_f_cnt_down=True)
    assert (late.level2, late.f_cnt_down) == (Level2.OWNER, 1)


@on_a_loop
async def test_in_redis_it_expires_after_a_day_too(valkey: Valkey) -> None:
    """Redis has a clock of its own, so this one reads how long it will keep the state."""
    day_ms = 24 * HOUR_US // 1000
    async with redis_claims(valkey) as claims:
        wire = claims._wire
        await wire.do("FLUSHDB")
        await claims.claim(bid("lns-a", 0, **FIRST))
        key = f"lns:{{{ALPHA}}}:claim:{ADDR}"
        for _ in range(2):
            assert day_ms - 60_000 < await wire.do("PTTL", key) <= day_ms
            await wire.do("PEXPIRE", key, 1_000_000)
            await claims.claim(bid("lns-a", 1))
        await wire.do("PEXPIRE", key, 1_000_000)
        await claims.claim(bid("lns-b", 1))
        assert await wire.do("PTTL", key) <= 1_000_000
        first = f"lns:{{{ALPHA}}}:frame:{ADDR}:0:{MIC}"
        assert 1_000 < await wire.do("PTTL", first) <= 60_000
        assert await wire.do("PTTL", f"lns:{{{ALPHA}}}:f_cnt_down") == -1
        await claims.claim(bid("lns-b", 2, elders=(OTHER_ADDR,)))
        elder = f"lns:{{{ALPHA}}}:claim:{OTHER_ADDR}"
        assert day_ms - 60_000 < await wire.do("PTTL", elder) <= day_ms


SERVERS = st.sampled_from(["lns-a", "lns-b", "lns-c"])
# Near each other, and around every place where fewer bits would show.
COUNTERS = st.one_of(
    st.integers(0, 4), st.integers(0xFFFE, 0x10002), st.integers(0xFFFFFFFD, 0xFFFFFFFF)
)
COUNTED = st.builds(
    lambda newest, lives, mic: Counter(newest, max(lives), max(lives), _former(newest, lives), mic),
    st.none() | COUNTERS,
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.sampled_from([MIC, None]),
)
BIDS = st.builds(
    Bid,
    lns=SERVERS,
    dev_eui=st.sampled_from([ALPHA, BETA]),
    dev_addr=st.sampled_from([ADDR, OTHER_ADDR]),
    f_cnt=COUNTERS,
    mic=st.sampled_from([MIC, OTHER_MIC, NO_MIC]),
    known=COUNTED,
    known_owner=st.none() | SERVERS,
    f_cnt_down=st.integers(0, 5),
    takes_f_cnt_down=st.booleans(),
    first_message=st.just(value=False),
    too_far=st.booleans(),
    is_first=st.booleans(),
    repeats=st.booleans(),
    lived=st.none() | st.builds(Lived, st.integers(0, 3), st.booleans()),
    elders=st.sampled_from([(), (), (), (DevAddr("01ABCDED"),), (OTHER_ADDR,)]),
)
FIRSTS = st.builds(replace, BIDS, f_cnt=st.integers(0, 1), first_message=st.just(value=True))


def _former(newest: int | None, lives: list[int]) -> dict[int, int]:
    """Former lives, each of which came farther than the one after it."""
    far = 0 if newest is None else newest
    return {life: far + 4 * (max(lives) - life) for life in sorted(set(lives) - {max(lives)})}


class BothStores(RuleBasedStateMachine):
    """The same sequence drives both stores: they say the same, and what they say holds."""

    valkey: Valkey

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._redis = redis_claims(self.valkey)
        self._now_us = 0
        self._memory = MemoryClaims(lambda: self._now_us)
        self._run(self._redis._wire.do("FLUSHDB"))
        self._handed_out: set[tuple[Eui, DevAddr, int]] = set()
        self._last: Bid | None = None
        self._claim: Claim

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    @rule(asked=st.one_of(BIDS, FIRSTS))
    def claims(self, asked: Bid) -> None:
        in_memory = self._run(self._memory.claim(asked))
        assert self._run(self._redis.claim(asked)) == in_memory
        if in_memory.level2 is Level2.OWNER:
            # Of the session another one may be the owner by now.
            assert in_memory.owner == asked.lns or not in_memory.is_new
            self._last, self._claim = asked, in_memory
        self._hand_out(asked, in_memory.f_cnt_down)

    @precondition(lambda self: self._last is not None)
    @rule(lns=SERVERS, same=st.booleans())
    def claims_what_was_claimed_last(self, lns: str, same: bool) -> None:
        assert self._last is not None
        asked = self._last
        self.claims(replace(asked, lns=asked.lns if same else lns, is_first=not same))

    @rule(asked=BIDS)
    def takes(self, asked: Bid) -> None:
        in_memory = self._run(self._memory.take_f_cnt_down(asked))
        assert self._run(self._redis.take_f_cnt_down(asked)) == in_memory
        self._hand_out(asked, in_memory)

    @precondition(lambda self: self._last is not None)
    @rule(lns=SERVERS)
    def releases(self, lns: str) -> None:
        assert self._last is not None
        given_back = replace(self._last, lns=lns)
        self._run(self._memory.release(given_back, self._claim))
        self._run(self._redis.release(given_back, self._claim))

    @rule(seconds=st.sampled_from([25, 61, 13 * 3600, 25 * 3600]))
    def waits(self, seconds: int) -> None:
        """Redis' clock cannot be moved: what it keeps for a while is kept for less instead.

        No sum of these waits comes near an expiry, so the time that the test takes is no matter.
        """
        self._now_us += seconds * 1_000_000
        wire = self._redis._wire
        for key in self._run(wire.do("KEYS", "*")):
            left_ms = self._run(wire.do("PTTL", key))
            if left_ms >= 0:
                self._run(wire.do("PEXPIRE", key, left_ms - seconds * 1000))  # or it is deleted

    def _hand_out(self, asked: Bid, f_cnt_down: int | None) -> None:
        if f_cnt_down is None:
            return
        handed_out = asked.dev_eui, asked.dev_addr, f_cnt_down
        assert handed_out not in self._handed_out, "a downlink counter was handed out twice"
        self._handed_out.add(handed_out)

    def teardown(self) -> None:
        self._run(self._redis.__aexit__(None, None, None))
        self._runner.close()


def test_both_stores_say_the_same_whatever_is_asked(valkey: Valkey) -> None:
    BothStores.valkey = valkey
    run_state_machine_as_test(
        BothStores, settings=settings(max_examples=size(60, 2_000), stateful_step_count=30)
    )
