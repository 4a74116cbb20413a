"""Which messages go although a statement is due."""

from bench.inspection.statement import Overtaking

S = 1_000_000


def test_one_message_may_be_on_its_way_when_a_statement_is_due() -> None:
    seen = Overtaking()
    assert not seen.is_wrong(10 * S, due_us=10 * S)
    assert not seen.is_wrong(10 * S + 1, due_us=10 * S)
    assert not seen.is_wrong(10 * S + 100_001, due_us=10 * S)


def test_what_goes_behind_that_one_has_taken_the_room() -> None:
    seen = Overtaking()
    assert not seen.is_wrong(11 * S, due_us=10 * S)
    assert seen.is_wrong(11 * S + 100_001, due_us=10 * S)


def test_once_it_was_told_messages_go_on() -> None:
    seen = Overtaking()
    assert not seen.is_wrong(11 * S, due_us=10 * S)
    assert not seen.is_wrong(12 * S, due_us=22 * S)
    assert not seen.is_wrong(23 * S, due_us=22 * S)
