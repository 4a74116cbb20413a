"""What a session remembers of its counters."""

from dataclasses import replace

import pytest
from msgspec import structs

from lns.dedup.strategy import Standing
from lns.end_device import Session
from tests.lns.served_network import ALPHA, DEV_ADDR, GAMMA, KEYS


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
    session.advance(3)
    session.advance(4)
    assert (session.f_cnt_up, session.life) == (4, 0)


@pytest.mark.parametrize("f_cnt", [0, 1, 5])
def test_a_step_back_or_a_repetition_begins_a_new_life(session: Session, f_cnt: int) -> None:
    session.advance(5)
    session.advance(f_cnt)
    assert (session.f_cnt_up, session.life) == (f_cnt, 1)


def test_an_advance_empties_the_budget_of_resubmissions(session: Session) -> None:
    session.resubmissions = {5: 3}
    session.advance(6)
    assert session.resubmissions == {}


def test_copies_are_numbered_per_counter(session: Session) -> None:
    session.advance(5)
    assert [session.number_copy(5), session.number_copy(5)] == [1, 2]
    session.advance(6)
    assert session.number_copy(6) == 1


def test_the_copies_of_a_first_message_are_counted_on(session: Session) -> None:
    session.advance(1)
    session.number_copy(1)
    session.advance(2)
    assert session.number_copy(1) == 2


def test_a_new_life_counts_its_copies_anew(session: Session) -> None:
    session.advance(0)
    session.number_copy(0)
    session.advance(0)
    assert session.number_copy(0) == 1


def test_a_device_that_begins_again_repeats_nothing_until_it_is_asked(session: Session) -> None:
    session.f_cnt_up, session.nb_trans, session.nb_trans_asked = 40, 3, True
    session.advance(0)
    assert (session.nb_trans, session.nb_trans_asked) == (1, False)


def test_each_downlink_counter_is_handed_out_once_also_over_a_restart(session: Session) -> None:
    session.advance(7)
    taken = [session.take_f_cnt_down()]
    session.advance(0)
    taken += [session.take_f_cnt_down(), session.take_f_cnt_down()]
    assert taken == [0, 1, 2]


def test_a_snapshot_does_not_change_with_its_session(session: Session) -> None:
    session.advance(5)
    session.number_copy(5)
    session.resubmissions[5] = 1
    before = session.snapshot()
    session.number_copy(5)
    session.resubmissions[5] = 2
    assert (before.copies, before.resubmissions) == ({5: 1}, {5: 1})


def test_a_step_back_undoes_an_advance_but_never_a_downlink_counter(session: Session) -> None:
    session.advance(40)
    session.number_copy(40)
    before = session.snapshot()
    session.advance(0)
    session.take_f_cnt_down()
    session.step_back(before)
    assert session == structs.replace(before, f_cnt_down=1)


def test_only_a_relaxed_abp_device_may_restart_its_counter() -> None:
    assert ALPHA.may_restart_counter
    assert not replace(ALPHA, relaxed_f_cnt=False).may_restart_counter
    assert not GAMMA.may_restart_counter


def test_no_key_shows_in_a_repr(session: Session) -> None:
    shown = repr((ALPHA, GAMMA, session))
    assert "NWK" not in shown.upper()
    assert all(repr(key) not in shown for key in (KEYS.nwk_s_key, KEYS.app_s_key, GAMMA.app_key))
