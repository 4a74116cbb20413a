from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lns.lorawan.frame import MAX_GAP, candidates
from tests.lns.lorawan.vectors import each, vectors

COUNTERS = st.one_of(
    st.integers(0, (1 << 32) - 1),
    st.builds(
        lambda upper, step: max(0, (upper << 16) + step),
        st.sampled_from([0, 1, 2, 0x7FFF, 0xFFFE, 0xFFFF]),
        st.integers(-3, 3),
    ),
)


@pytest.mark.parametrize(
    ("last", "wire", "expected"),
    [
        (None, 0, (0,)),
        (None, 65535, (65535,)),
        (0, 0, (0, 65536)),
        (5, 6, (6, 65542)),
        (65535, 0, (0, 65536)),
        (65535, 65535, (65535, 131071)),
        (65536, 0, (65536, 131072, 0)),
        # A late copy of the frame before the roll-over is recognised as old, not as forged.
        (65536, 65535, (131071, 196607, 65535)),
        # A device that restarted its counter long after its second roll-over.
        (200_000, 1, (196609, 262145, 131073, 1)),
        # The last counter of all: nothing comes after it.
        ((1 << 32) - 1, 0xFFFF, ((1 << 32) - 1, (1 << 32) - 1 - 65536, 0xFFFF)),
        ((1 << 32) - 1, 0, ((1 << 32) - 65536, (1 << 32) - 131072, 0)),
    ],
)
def test_the_likely_counters_come_first(
    last: int | None, wire: int, expected: tuple[int, ...]
) -> None:
    assert candidates(last, wire) == expected


@pytest.mark.parametrize("last", [None, 0, 65535])
def test_a_16_bit_device_counts_no_further_than_the_wire_shows(last: int | None) -> None:
    assert candidates(last, 7, bits=16) == (7,)


@given(last=COUNTERS, gap=st.integers(0, MAX_GAP))
@example(last=0, gap=0)
@example(last=65535, gap=1)
@example(last=65535, gap=MAX_GAP)
@example(last=(1 << 32) - 2, gap=1)
def test_the_32_bit_counter_is_found_for_every_allowed_gap(last: int, gap: int) -> None:
    counter = last + gap
    if counter < 1 << 32:
        # The true one is among the first two; only one candidate lies within the gap.
        tries = candidates(last, counter & 0xFFFF)
        assert counter in tries[:2]
        assert [c for c in tries if 0 <= c - last <= MAX_GAP] == [counter]


@given(last=COUNTERS, wire=st.integers(0, 0xFFFF))
def test_every_candidate_shows_the_wire_value_and_fits_32_bits(last: int, wire: int) -> None:
    tries = candidates(last, wire)
    assert len(set(tries)) == len(tries) <= 4
    assert all(c & 0xFFFF == wire and 0 <= c < 1 << 32 for c in tries)


@each(vectors("frame_counters"))
def test_the_answer_of_chirpstack_is_among_our_candidates(vector: dict[str, Any]) -> None:
    # ChirpStack keeps the counter it expects next and decides by distance, before the MIC is
    # known. Here the last counter is kept, and the MIC decides between a few candidates, so its
    # single answer has to be among ours. Its wrap from 2**32 - 1 to 0 is found as a restarted
    # counter, not as the next one: a session ends there.
    server_next = vector["server_next"]
    last = server_next - 1 if server_next else None
    assert vector["full"] in candidates(last, vector["wire"])


def test_one_behind_a_fresh_server_is_no_counter() -> None:
    # ChirpStack takes wire 65535, while it expects 0, for "one before the first" and underflows.
    assert candidates(None, 65535) == (65535,)
