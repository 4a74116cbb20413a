"""What a session remembers of its counters."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lns.dedup.session import Counter, Lived, Session, Standing, is_later, joined
from lns.lorawan.frame import F_CNT_MAX
from lns.lorawan.identifiers import Mic
from tests.lns.served_network import ALPHA, DEV_ADDR, GAMMA, KEYS

MIC = Mic("2B11FF0D")


@pytest.fixture
def session() -> Session:
    return Session(dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS)


@pytest.mark.parametrize(
    ("last", "f_cnt", "standing"),
    [
        (None, 0, Standing.NEWER),
        (None, 16_384, Standing.NEWER),
        (None, 16_385, Standing.TOO_FAR),
        (10, 9, Standing.OLDER),
        (10, 10, Standing.EQUAL),
        (10, 11, Standing.NEWER),
        (10, 16_394, Standing.NEWER),
        (10, 16_395, Standing.TOO_FAR),
        (0, 0, Standing.EQUAL),
        (0xFFFF, 0x10000, Standing.NEWER),
        (0xFFFFFFFF, 0, Standing.OLDER),
    ],
)
def test_where_a_counter_stands(
    session: Session, last: int | None, f_cnt: int, standing: Standing
) -> None:
    session.f_cnt_up = last
    assert session.standing(f_cnt) is standing


def test_a_newer_counter_goes_on_with_the_same_life(session: Session) -> None:
    session.advance(3, MIC)
    session.advance(4, MIC)
    assert (session.f_cnt_up, session.life) == (4, 0)


@pytest.mark.parametrize("f_cnt", [0, 1, 5])
def test_a_step_back_or_a_repetition_begins_a_new_life(session: Session, f_cnt: int) -> None:
    session.advance(5, MIC)
    session.advance(f_cnt, MIC)
    assert (session.f_cnt_up, session.life) == (f_cnt, 1)


def test_an_advance_empties_the_budget_of_resubmissions(session: Session) -> None:
    session.resubmissions = {5: 3}
    session.advance(6, MIC)
    assert session.resubmissions == {}


def test_copies_are_numbered_per_counter(session: Session) -> None:
    session.advance(5, MIC)
    assert [session.number_copy(5), session.number_copy(5)] == [1, 2]
    session.advance(6, MIC)
    assert session.number_copy(6) == 1


def test_the_copies_of_a_first_message_are_counted_on(session: Session) -> None:
    session.advance(1, MIC)
    session.number_copy(1)
    session.advance(2, MIC)
    assert session.number_copy(1) == 2


def test_copies_are_counted_on_through_all_lives(session: Session) -> None:
    """A late copy of the first message of a former life still needs a number of its own."""
    session.advance(0, MIC)
    session.number_copy(0)
    session.advance(0, MIC)
    assert session.number_copy(0) == 2


def test_late_copies_of_older_frames_are_counted_on(session: Session) -> None:
    """Of two servers, one forwards copies of a frame that a newer one has overtaken."""
    session.number_copy(1)
    for f_cnt in range(5, 5 + 16):
        session.advance(f_cnt, MIC)
        session.number_copy(f_cnt)
    assert (session.number_copy(5), session.number_copy(1)) == (2, 2)
    session.number_copy(500)
    assert len(session.copies) == 16 + 1
    assert (session.number_copy(5), session.number_copy(6)) == (3, 1)


def test_copies_are_counted_on_when_another_server_came_farther(session: Session) -> None:
    session.advance(5, MIC)
    session.number_copy(5)
    known = session.snapshot()
    known.advance(6, MIC)
    known.copies = {4: 2}
    session.catch_up(known)
    assert (session.number_copy(5), session.number_copy(4)) == (2, 3)


def test_a_device_that_begins_again_repeats_nothing_until_it_is_asked(session: Session) -> None:
    session.f_cnt_up, session.nb_trans, session.nb_trans_asked = 40, 3, True
    session.advance(0, MIC)
    assert (session.nb_trans, session.nb_trans_asked) == (1, False)


def test_each_downlink_counter_is_handed_out_once_also_over_a_restart(session: Session) -> None:
    session.advance(7, MIC)
    taken = [session.take_f_cnt_down()]
    session.advance(0, MIC)
    taken += [session.take_f_cnt_down(), session.take_f_cnt_down()]
    assert taken == [0, 1, 2]


def test_none_is_left_behind_the_last_downlink_counter(session: Session) -> None:
    session.f_cnt_down = F_CNT_MAX
    assert [session.take_f_cnt_down() for _ in range(3)] == [F_CNT_MAX, None, None]
    assert msgspec.json.decode(msgspec.json.encode(session), type=Session) == session


def test_a_snapshot_does_not_change_with_its_session(session: Session) -> None:
    session.advance(5, MIC)
    session.number_copy(5)
    session.resubmissions[5] = 1
    before = session.snapshot()
    session.number_copy(5)
    session.resubmissions[5] = 2
    assert (before.copies, before.resubmissions) == ({5: 1}, {5: 1})


def test_a_frame_under_way_is_not_kept_before_the_application_has_it(session: Session) -> None:
    session.advance(5, MIC)
    for f_cnt in (6, 7):
        session.under_way[Mic(f"0000000{f_cnt}")] = session.before()
        session.advance(f_cnt, Mic(f"0000000{f_cnt}"))
    kept = session.snapshot()
    assert (kept.f_cnt_up, kept.mic, kept.under_way) == (5, MIC, {})
    assert session.f_cnt_up == 7
    del session.under_way[Mic("00000007")]
    assert session.snapshot().f_cnt_up == 7


def test_what_was_granted_since_is_taken_back_with_its_life_only(session: Session) -> None:
    session.advance(10, Mic("10"))
    before = session.before()
    session.advance(11, Mic("11"))
    session.nb_trans, session.knows_dwell_times = 3, True
    session.step_back(before)
    assert (session.f_cnt_up, session.nb_trans, session.knows_dwell_times) == (10, 3, True)
    before = session.before()
    session.advance(0, Mic("00"))
    assert (session.nb_trans, session.knows_dwell_times) == (1, False)
    session.step_back(before)
    assert (session.f_cnt_up, session.nb_trans, session.knows_dwell_times) == (10, 3, True)


def test_a_step_back_undoes_an_advance_but_never_a_downlink_counter(session: Session) -> None:
    session.advance(40, MIC)
    session.number_copy(40)
    as_it_was, before = structs.replace(session), session.before()
    session.advance(0, MIC)
    session.take_f_cnt_down()
    session.step_back(before)
    assert session == structs.replace(as_it_was, f_cnt_down=1, taken_back={MIC: (1, 0)})


def test_a_frame_that_was_taken_back_keeps_its_name(session: Session) -> None:
    """Its message may be there yet. Other bytes of its counter have another name, taken back too;
    of many the oldest is forgotten.
    """
    before, other = session.before(), Mic("00000000")
    for mic, odd in ((MIC, False), (other, True), (MIC, False)):
        assert session.advance(7, mic) == Lived(0, odd=odd)
        session.step_back(before)
    kept = session.snapshot()
    session.under_way[MIC] = before
    assert kept.taken_back == {MIC: (0, 7)}
    for f_cnt in range(8, 16):
        session.advance(f_cnt, Mic(f"{f_cnt:08X}"))
        session.step_back(before)
    assert len(session.taken_back) == 8
    assert session.advance(7, other) == Lived(0)
    assert kept.advance(7, other) == Lived(0, odd=True)


def test_a_counter_that_continues_a_former_life_goes_back_to_it(session: Session) -> None:
    """Beyond how far that life came, never below: a life has each counter once."""
    session.advance(20_001, MIC)
    session.advance(0, MIC)
    assert session.standing(20_001) is Standing.TOO_FAR
    assert session.standing(36_386) is Standing.TOO_FAR
    assert session.standing(20_002) is Standing.NEWER
    assert session.advance(5, MIC) == Lived(1)
    assert session.advance(20_002, MIC) == Lived(0)
    assert (session.f_cnt_up, session.life, session.lives, session.former) == (20_002, 0, 1, {})
    assert session.advance(0, MIC) == Lived(2)


def test_of_several_former_lives_the_one_that_is_continued_counts(session: Session) -> None:
    for f_cnt in (20_000, 0, 500, 1, 40, 0):
        session.advance(f_cnt, MIC)
    assert session.former == {0: 20_000, 1: 500, 2: 40}
    assert session.advance(501, MIC) == Lived(1)
    assert (session.former, session.lives) == ({0: 20_000}, 3)


def test_a_life_that_came_no_farther_than_the_one_after_it_is_forgotten(session: Session) -> None:
    for f_cnt in (7, 0, 7, 0, 1, 1, 0):
        session.advance(f_cnt, MIC)
    assert session.former == {0: 7, 3: 1}


def test_former_lives_are_bounded(session: Session) -> None:
    for f_cnt in range(100, 0, -1):
        session.advance(f_cnt, MIC)
        session.advance(0, MIC)
    assert len(session.former) == 8
    assert session.former[max(session.former)] == 1


def test_what_another_server_brought_makes_no_frame_old_that_was_not_heard(
    session: Session,
) -> None:
    session.advance(5, MIC, "lns-a")
    theirs = session.snapshot()
    theirs.advance(9, MIC, "lns-b")
    session.catch_up(theirs)
    assert session.standing(7) is session.standing_at("lns-b", 7) is Standing.OLDER
    assert [session.standing_at("lns-a", f_cnt) for f_cnt in (4, 5, 7, 9)] == [
        Standing.OLDER,
        Standing.EQUAL,
        Standing.NEWER,
        Standing.NEWER,
    ]
    session.hear(7, 0)
    session.hear(6, 0)
    assert session.standing_at("lns-a", 7) is Standing.EQUAL


def test_a_session_of_an_older_version_has_lives_as_well() -> None:
    session = Session(dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=7, life=2)
    assert session.advance(0, MIC) == Lived(3)


def test_only_a_relaxed_abp_device_may_restart_its_counter() -> None:
    assert ALPHA.may_restart_counter
    assert not replace(ALPHA, relaxed_f_cnt=False).may_restart_counter
    assert not GAMMA.may_restart_counter


def test_no_key_shows_in_a_repr(session: Session) -> None:
    shown = repr((ALPHA, GAMMA, session))
    assert "NWK" not in shown.upper()
    assert all(repr(key) not in shown for key in (KEYS.nwk_s_key, KEYS.app_s_key, GAMMA.app_key))


def test_a_store_of_before_knew_no_mic(session: Session) -> None:
    """What is as far as this server and has one fills it in; what is not as far changes nothing."""
    session.advance(10, MIC)
    session.mic = None
    session.learn(Counter(9, mic=MIC), "lns-b")
    assert session.mic is None
    session.learn(Counter(10, mic=MIC), "lns-b")
    assert session.mic == MIC


def test_a_life_that_begins_is_the_one_that_was_heard(session: Session) -> None:
    session.advance(10, MIC)
    session.advance(0, MIC)
    assert (session.heard, session.heard_life) == (0, session.life) == (0, 1)


def test_who_knows_the_bytes_of_a_counter_learns_no_others(session: Session) -> None:
    session.advance(10, MIC)
    session.learn(structs.replace(session.counter, mic=Mic("00000000")), "lns-b")
    assert session.mic == MIC


RANGES = {
    "f_cnt_up": (0, 0xFFFFFFFF),
    "f_cnt_down": (0, 0x100000000),
    "nb_trans": (1, 15),
    "rx1_dr_offset": (0, 7),
    "rx_delay_s": (1, 15),
    "rx2_dr": (0, 15),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, both in RANGES.items() for v in both])
def test_a_store_has_whatever_a_session_can_have(session: Session, name: str, value: int) -> None:
    kept = msgspec.to_builtins(session)
    (kept["listening"] if name in kept["listening"] else kept)[name] = value
    assert msgspec.to_builtins(msgspec.convert(kept, Session)) == kept


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, least - 1) for name, (least, _) in RANGES.items()),
        *((name, most + 1) for name, (_, most) in RANGES.items()),
        ("life", -1),
        ("lives", -1),
        ("former", {-1: 1}),
        ("former", {0: 1 << 32}),
        ("copies", {0: -1}),
    ],
)
def test_a_store_has_nothing_that_a_session_cannot_have(
    session: Session, name: str, value: object
) -> None:
    kept = msgspec.to_builtins(session)
    (kept["listening"] if name in kept["listening"] else kept)[name] = value
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(kept, Session)


def test_a_store_has_counters_from_nothing_on(session: Session) -> None:
    session.life = session.lives = 0
    session.former, session.copies = {0: 0xFFFFFFFF}, {0: 0, 0xFFFFFFFF: 1}
    assert msgspec.convert(msgspec.to_builtins(session), Session) == session


CAME = st.builds(
    lambda newest, farther: Counter(
        newest,
        life=len(farther),
        lives=len(farther),
        former={life: newest + sum(farther[life:]) for life in range(len(farther))},
    ),
    st.integers(0, 9),
    st.lists(st.integers(1, 9), max_size=4),
)


@given(CAME, CAME)
def test_lives_are_joined_as_far_as_anybody_knows_them(known: Counter, other: Counter) -> None:
    """Each life before the newest came as far as the farther of the two, or is forgotten."""
    far = {**known.former}
    for life, came in {**other.former, other.life: other.f_cnt_up}.items():
        if life < known.life and came is not None:
            far[life] = max(came, far.get(life, came))
    expected: dict[int, int] = {}
    for life in sorted(far, reverse=True):
        if far[life] > max(expected.values(), default=known.f_cnt_up or 0):
            expected = {life: far[life], **expected}
    assert joined(known, other) == structs.replace(known, former=expected)


@given(CAME, CAME)
def test_one_of_two_knows_more_and_no_life_goes_back(one: Counter, other: Counter) -> None:
    assert not (is_later(one, other) and is_later(other, one))
    if (one.life, one.f_cnt_up) != (other.life, other.f_cnt_up):
        assert is_later(one, other) or is_later(other, one)
    if is_later(one, other):
        far = {**other.former, other.life: other.f_cnt_up}.get(one.life)
        assert far is None or (one.f_cnt_up or 0) > far


@pytest.mark.parametrize(("life", "agreed"), [(2, (3, 3, True)), (1, (1, 0, False))])
def test_what_another_server_has_agreed_holds_for_the_life_of_the_counter(
    life: int, agreed: tuple[int, int, bool]
) -> None:
    known = Session(
        dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS, life=life, nb_trans=3,
        nb_trans_asked=3, knows_dwell_times=True,
    )  # fmt: skip
    session = Session(dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS, life=2)
    session.agree(known)
    assert (session.nb_trans, session.nb_trans_asked, session.knows_dwell_times) == agreed
