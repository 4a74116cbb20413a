"""The airtime ledger: nothing over the share of an hour, and nothing held back for long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.lab.regulation import HOUR_US, AirtimeLedger, NeverPermitted
from lns.lorawan.region import EU868, US915

G1_HZ = 868_100_000
CONDUCTED_HZ = 867_100_000
P_HZ = 869_525_000
SECOND_US = 1_000_000
WINDOW_US = 2_000
ALLOWED_US = 20  # 1 % of it


def ledger(**facts: bool) -> AirtimeLedger:
    return AirtimeLedger(EU868, **{"conducted": False, **facts})


def test_a_fresh_transmitter_may_send_now() -> None:
    assert ledger().due_us("dut", G1_HZ, 61_696, 7) == 7


def test_one_percent_of_an_hour_is_used_up_after_36_seconds() -> None:
    books = ledger()
    for second in range(36):
        books.note("dut", G1_HZ, SECOND_US, second * SECOND_US)
    # The first second of airtime has to be an hour old when the new one ends.
    assert books.due_us("dut", G1_HZ, SECOND_US, 40 * SECOND_US) == HOUR_US
    assert books.due_us("dut", P_HZ, SECOND_US, 40 * SECOND_US) == 40 * SECOND_US
    assert books.due_us("replayer", G1_HZ, SECOND_US, 40 * SECOND_US) == 40 * SECOND_US


def test_what_fits_exactly_is_sent_at_once() -> None:
    books = ledger()
    books.note("dut", G1_HZ, 35 * SECOND_US, 0)
    assert books.due_us("dut", G1_HZ, SECOND_US, 36 * SECOND_US) == 36 * SECOND_US
    assert books.due_us("dut", G1_HZ, SECOND_US + 1, 36 * SECOND_US) > 36 * SECOND_US


@pytest.mark.parametrize(
    ("freq_hz", "allowed_s"),
    [
        (868_000_000, 36),
        (868_600_000, 36),
        (869_700_000, 36),
        (869_400_000, 360),
        (869_650_000, 360),
        (867_900_000, 3.6),
        (868_700_000, 3.6),
        (869_200_000, 3.6),
    ],
)
def test_each_band_has_its_share(freq_hz: int, allowed_s: float) -> None:
    allowed_us = round(allowed_s * SECOND_US)
    assert ledger().due_us("dut", freq_hz, allowed_us, 0) == 0
    with pytest.raises(NeverPermitted, match="an hour in this band"):
        ledger().due_us("dut", freq_hz, allowed_us + 1, 0)


def test_on_cables_nobody_waits_and_the_books_are_kept() -> None:
    books = ledger(conducted=True)
    books.note("dut", CONDUCTED_HZ, 60 * SECOND_US, 0)
    assert books.due_us("dut", CONDUCTED_HZ, SECOND_US, 61 * SECOND_US) == 61 * SECOND_US
    [share] = books.share("dut", 61 * SECOND_US)
    assert (share.used_us, share.limit_us) == (60 * SECOND_US, 3_600_000)


def test_the_share_is_of_the_last_hour_only() -> None:
    books = ledger()
    books.note("dut", G1_HZ, 10 * SECOND_US, 0)
    books.note("dut", P_HZ, 4 * SECOND_US, 20 * SECOND_US)
    p, g1 = books.share("dut", HOUR_US + 3 * SECOND_US)
    assert (g1.used_us, p.used_us) == (7 * SECOND_US, 4 * SECOND_US)
    assert str(g1) == "868.0-868.60 MHz: 7.000 s of 36.000 s"
    assert books.share("replayer", HOUR_US) == ()


@pytest.mark.parametrize("conducted", [True, False])
def test_nothing_is_sent_outside_the_region(conducted: bool) -> None:
    books = ledger(conducted=conducted)
    with pytest.raises(NeverPermitted, match="dut may not send on 915 MHz"):
        books.due_us("dut", 915_000_000, 50_000, 0)


def test_us915_has_a_dwell_time_and_no_duty_cycle() -> None:
    books = AirtimeLedger(US915, conducted=False)
    for start_us in range(0, 60 * SECOND_US, 400_000):
        books.note("dut", 903_900_000, 400_000, start_us)
    assert books.due_us("dut", 903_900_000, 400_000, 60 * SECOND_US) == 60 * SECOND_US
    with pytest.raises(NeverPermitted, match="400000 us"):
        books.due_us("dut", 903_900_000, 400_001, 0)
    assert AirtimeLedger(US915, conducted=True).due_us("dut", 903_900_000, 400_001, 0) == 0


def on_air_us(sent: list[tuple[int, int]], since_us: int, until_us: int) -> int:
    """The model: how long of a span each of (start, end) lasted, added up."""
    return sum(max(0, min(end, until_us) - max(start, since_us)) for start, end in sent)


def is_lawful(sent: list[tuple[int, int]]) -> bool:
    """No window that ends where a frame ends, or begins where one begins, holds too much."""
    ends = [end for _, end in sent] + [start + WINDOW_US for start, _ in sent]
    return all(on_air_us(sent, end - WINDOW_US, end) <= ALLOWED_US for end in ends)


@given(
    st.lists(
        st.tuples(
            st.integers(1, ALLOWED_US),
            st.one_of(st.integers(0, 40), st.sampled_from([WINDOW_US - 1, WINDOW_US])),
        ),
        max_size=40,
    )
)
def test_who_waits_until_due_keeps_the_law_and_waits_no_longer(
    wishes: list[tuple[int, int]],
) -> None:
    books = AirtimeLedger(EU868, conducted=False, window_us=WINDOW_US)
    sent: list[tuple[int, int]] = []
    now_us = 0
    for airtime_us, pause_us in wishes:
        now_us += pause_us
        due_us = books.due_us("dut", G1_HZ, airtime_us, now_us)
        assert due_us >= now_us
        if due_us > now_us:
            # A frame counts whole until its end is out of the window: never by more than that.
            longest_us = max(end - start for start, end in sent)
            early_us = max(now_us, due_us - longest_us)
            wanted = (early_us, early_us + airtime_us)
            assert due_us - longest_us <= now_us or not is_lawful([*sent, wanted])
        books.note("dut", G1_HZ, airtime_us, due_us)
        sent.append((due_us, due_us + airtime_us))
        now_us = due_us + airtime_us
    assert is_lawful(sent)
