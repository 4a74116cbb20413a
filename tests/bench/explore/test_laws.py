"""Is each law broken by what breaks it, and by nothing else?"""

from dataclasses import replace

import pytest

from bench.explore.history import read_history
from bench.explore.laws import broken_laws
from bench.explore.memory_stage import play_in_memory
from bench.explore.trace import Answered, Delivered, Kept, Trace

TEXT = "servers=2 a=strict/Mark : a confirm A1 A2+10ms B1+50ms ; a confirm A1"


def played(text: str = TEXT) -> Trace:
    return play_in_memory(read_history(text))


def laws(trace: Trace) -> list[str]:
    return [str(broken) for broken in broken_laws(trace)]


def test_a_history_that_went_well_breaks_none() -> None:
    assert laws(played()) == []


def test_a_reception_has_one_outcome() -> None:
    trace = played()
    trace.outcomes[0] *= 2
    assert laws(trace) == ["one outcome: a reception has 2 outcomes"]
    trace.outcomes[0].clear()
    assert laws(trace) == ["one outcome: a reception has 0 outcomes"]


def test_an_outcome_belongs_to_a_reception() -> None:
    trace = played()
    trace.strays = 1
    assert laws(trace) == ["one outcome: an outcome belongs to no reception"]


def test_a_transmission_is_answered_once() -> None:
    trace = played()
    trace.answered.append(Answered(1, "01000000", 77))
    assert laws(trace) == ["one answer: a transmission is answered more than once"]


def test_a_downlink_counter_is_used_once() -> None:
    trace = played()
    trace.answered[1] = replace(trace.answered[1], f_cnt_down=0)
    assert laws(trace) == ["one answer: a downlink counter is used more than once"]


def test_who_was_told_that_a_frame_is_anothers_does_not_own_it() -> None:
    text = "servers=2 a=strict/None : a confirm A1 B1+10ms ; empty ; {}a again B1"
    trace = played(text.format(""))
    assert laws(trace) == []
    (again,) = trace.outcomes[2]
    assert again.level2 == "NotOwner"
    trace.outcomes[2] = [replace(again, level2="Owner")]
    assert laws(trace) == ["one owner: a server owns what it was told is another's"]
    assert laws(played(text.format("B restart ; "))) == []


def test_a_copy_that_comes_when_the_store_has_forgotten_all_may_be_answered() -> None:
    trace = played("servers=2 a=strict/None : a confirm A1 B1+100ms ; empty")
    assert len(trace.answered) == 2
    assert laws(trace) == []


def test_a_join_nonce_only_rises() -> None:
    trace = played("servers=2 a=otaa/None : a join A1 ; a join B1 ; a join A1")
    assert [answer.join_nonce for answer in trace.answered] == [1, 3, 2]  # by server
    trace.answered[1] = replace(trace.answered[1], join_nonce=2)
    assert laws(trace) == ["one answer: a JoinNonce is not greater than the one before"]


def test_what_an_emptied_store_let_be_used_twice_is_no_broken_law_if_nobody_could_know() -> None:
    text = "servers=2 a=strict/None : a confirm A1 ; {} empty ; a confirm B1"
    trace = played(text.format("a restart ;"))
    assert laws(trace) == []
    assert [answer.f_cnt_down for answer in trace.answered] == [0, 0]
    trace = played(text.format(""))
    assert trace.answered[1].f_cnt_down != 0
    trace.answered[1] = replace(trace.answered[1], f_cnt_down=0)
    assert laws(trace) == ["one answer: a downlink counter is used more than once"]


def test_a_session_that_has_ended_does_not_come_back() -> None:
    trace = played("a=otaa/None : a join A1 ; a send A1 ; a join A1 ; a send A1")
    assert laws(trace) == []
    trace.kept.append(replace(trace.kept[0], at_us=99_000_000))
    assert laws(trace) == [
        "sessions end: a session that has ended is in the store again",
        "sessions end: a session that is over is still kept",
    ]


def test_a_session_that_is_over_is_not_kept() -> None:
    trace = played("a=otaa/None : a join A1 ; a send A1 ; a join A1 ; a send A1")
    (old, new) = trace.dev_addr.values()
    trace.kept[-1] = replace(trace.kept[-1], sessions=((new, 0, 0), (old, 0, 0)))
    assert laws(trace)[-1] == "sessions end: a session that is over is still kept"


def test_no_counter_goes_back() -> None:
    trace = played()
    trace.kept.append(Kept(0, 99_000_000, (("01000000", 0, 0),)))
    assert laws(trace) == ["counters only rise: a counter went back within its life"]


def test_a_frame_that_somebody_heard_is_not_lost() -> None:
    trace = played()
    trace.delivered = [one for one in trace.delivered if one.reception != 3]
    lost = "delivered: a frame is lost"
    assert laws(trace) == [lost, "delivered: a frame is answered and lost"]
    trace.outcomes[3] = [replace(trace.outcomes[3][0], answer="Suppressed")]
    assert laws(trace) == [lost]


def test_a_frame_is_delivered_unmarked_once() -> None:
    trace = played()
    copies = [n for n, one in enumerate(trace.delivered) if one.marked]
    trace.delivered[copies[0]] = replace(trace.delivered[copies[0]], marked=False)
    assert laws(trace) == ["delivered: a frame is delivered unmarked more than once"]


@pytest.mark.parametrize(
    ("field", "law"),
    [
        ("key", "two frames share a key"),
        ("message_id", "two frames share an id"),
    ],
)
def test_frames_do_not_share_a_name(field: str, law: str) -> None:
    trace = played()
    last = trace.delivered.index(next(one for one in trace.delivered if one.reception == 3))
    first: Delivered = trace.delivered[0]
    trace.delivered[last] = replace(trace.delivered[last], **{field: getattr(first, field)})
    assert f"names: {law}" in laws(trace)


def test_a_server_uses_an_id_once_unless_it_forgot_the_frame() -> None:
    trace = played("servers=1 a=strict/Mark : a send A1 A2+10ms")
    trace.delivered[1] = replace(trace.delivered[1], message_id=trace.delivered[0].message_id)
    assert "names: a server uses an id twice" in laws(trace)
    # Another server's copy lets the claims name the frame longer than its owner remembers it.
    again = "a send B1 A1+1s ; wait 59940ms ; a again B1+100ms ; a restart ; a send B1"
    trace = played(f"servers=2 open a=relaxed/None/from3 : {again}")
    ids = [one.message_id for one in trace.delivered if one.server == 1]
    assert len(ids) == 3 and len(set(ids)) == 2
    assert laws(trace) == []


def test_the_copies_of_a_frame_have_one_key() -> None:
    trace = played()
    trace.delivered[1] = replace(trace.delivered[1], key="another")
    assert laws(trace) == ["names: a frame has two keys"]


def test_a_failure_inside_the_server_is_a_broken_law() -> None:
    trace = played()
    trace.failures.append("reception: KeyError at lns/uplink/data.py:1")
    assert laws(trace) == ["no failure: reception: KeyError at lns/uplink/data.py:1"]


def test_a_message_is_unverified_when_nobody_could_say_whose_it_is() -> None:
    trace = played()
    trace.delivered[0] = replace(trace.delivered[0], unverified=True)
    assert laws(trace) == ["flags: a message is unverified, or is not, against its outcome"]
