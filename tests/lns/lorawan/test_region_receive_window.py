"""Which window can still be met, to the microsecond."""

import pytest

from lns.lorawan.region import EU868, Answer, Offer, Window, first_window, offer

HEARD_US = 10_000_000


@pytest.mark.parametrize(
    ("elapsed_us", "window"),
    [
        (0, Window(Answer.RX1, 1_000_000)),
        (599_999, Window(Answer.RX1, 400_001)),
        (600_000, Window(Answer.RX1, 400_000)),
        (600_001, Window(Answer.RX2, 1_399_999)),
        (1_599_999, Window(Answer.RX2, 400_001)),
        (1_600_000, Window(Answer.RX2, 400_000)),
        (1_600_001, None),
        (3_600_000_000, None),
    ],
)
def test_the_first_window_with_a_lead_of_400_ms(elapsed_us: int, window: Window | None) -> None:
    assert first_window(HEARD_US + elapsed_us, HEARD_US, 1_000_000) == window


@pytest.mark.parametrize(
    ("elapsed_us", "answer"),
    [(4_600_000, Answer.RX1), (4_600_001, Answer.RX2), (5_600_000, Answer.RX2)],
)
def test_a_join_accept_has_the_later_windows(elapsed_us: int, answer: Answer) -> None:
    window = first_window(HEARD_US + elapsed_us, HEARD_US, 5_000_000)
    assert window is not None
    assert window.answer is answer


def test_no_window_of_a_join_accept_after_five_and_a_half_seconds() -> None:
    assert first_window(HEARD_US + 5_600_001, HEARD_US, 5_000_000) is None


def test_the_lead_can_be_another() -> None:
    assert first_window(HEARD_US + 980_000, HEARD_US, 1_000_000, lead_us=20_000) == Window(
        Answer.RX1, 20_000
    )


@pytest.mark.parametrize(
    ("spent_us", "in_rx1", "in_rx2"),
    [
        (0, Window(Answer.RX1, 400_000), Window(Answer.RX2, 400_000)),
        (350_000, Window(Answer.RX1, 50_000), Window(Answer.RX2, 50_000)),
        (350_001, Window(Answer.RX2, 1_049_999), None),
        (1_350_000, Window(Answer.RX2, 50_000), None),
        (1_350_001, None, None),
    ],
)
def test_what_is_left_of_a_window_can_be_met_50_ms_before(
    spent_us: int, in_rx1: Window | None, in_rx2: Window | None
) -> None:
    assert Window(Answer.RX1, 400_000).after(spent_us) == in_rx1
    assert Window(Answer.RX2, 400_000).after(spent_us) == in_rx2


def test_a_frame_from_the_future_has_all_the_time() -> None:
    assert first_window(HEARD_US - 5, HEARD_US, 1_000_000) == Window(Answer.RX1, 1_000_005)


@pytest.mark.parametrize(
    ("dr", "freq_hz", "first", "payload_bytes", "windows"),
    [
        (5, 868_100_000, Answer.RX1, 10, Offer((5, 868_100_000), (0, 869_525_000))),
        (5, 868_100_000, Answer.RX2, 10, Offer(None, (0, 869_525_000))),
        # RX2 has DR0, which takes 51 bytes (RP002, EU868), FOpts included.
        (5, 868_100_000, Answer.RX1, 51, Offer((5, 868_100_000), (0, 869_525_000))),
        (5, 868_100_000, Answer.RX1, 52, Offer((5, 868_100_000), None)),
        (5, 868_100_000, Answer.RX2, 52, Offer(None, None)),
        # No uplink of this region has this data rate: nobody knows its RX1.
        (15, 868_100_000, Answer.RX1, 10, Offer(None, (0, 869_525_000))),
    ],
)
def test_the_windows_that_a_downlink_fits_into(
    dr: int, freq_hz: int, first: Answer, payload_bytes: int, windows: Offer
) -> None:
    found = offer(EU868, dr, freq_hz, first, payload_bytes)
    assert found == windows
    assert found.is_empty is (windows == Offer(None, None))
