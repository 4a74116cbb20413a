"""What was answered, as an inspector remembers it."""

from math import inf

from bench.inspection.owed import Answers


def test_the_first_answer_to_a_frame_is_the_first_one_until_it_is_forgotten() -> None:
    answers = Answers()
    assert answers.is_first("one", -inf)
    answers.note("one", 7)
    assert answers.is_first("other", -inf)
    assert [answers.is_first("one", since_us) for since_us in (-inf, 6, 7, 8)] == [
        False, False, None, None,
    ]  # fmt: skip
