"""Who is to blame when a station does not send what it was handed?"""

import pytest

from bench.inspection.station import Orders, windows_of
from bench.virtual.lorawan.channel_plan import EU868

RX1_US, RX2_US, END_US = 1_000_000, 2_000_000, 3_000_000
RX1, RX2 = (5, 868_100_000), (0, 869_525_000)
TOLD = {
    "diid": 7, "pdu": "60" * 12, "RX1DR": 5, "RX1Freq": 868_100_000,
    "RX2DR": 0, "RX2Freq": 869_525_000,
}  # fmt: skip
LATER = {"diid": 8, "pdu": "61" * 12}


def handed(at_us: int = 0, *, asked_us: int | None = 0, rx1_us: int | None = RX1_US) -> Orders:
    orders = Orders(EU868)
    windows = windows_of(TOLD, rx1_us)
    orders.hand_over({"station": "west", "t_us": at_us}, TOLD, windows, asked_us)
    return orders


def sends(orders: Orders, at_us: int, where: tuple[int, int], pdu: str = TOLD["pdu"]) -> list[str]:
    """What is wrong with it; it takes 50 ms."""
    sent = {
        "t_us": at_us, "sender": "west", "phy": pdu, "dr": where[0], "freq_hz": where[1],
        "airtime_us": 50_000,
    }  # fmt: skip
    return [one.text.partition("air: ")[2] for one in orders.on_air(sent)]


def unsent(orders: Orders, end_us: int = END_US) -> list[tuple[str, int, int]]:
    return list(orders.unsent(end_us))


def test_what_could_be_sent_is_sent() -> None:
    assert unsent(handed()) == [("west", 7, RX1_US)]
    assert unsent(handed(), end_us=RX2_US) == []  # its windows are not over
    orders = handed()
    assert sends(orders, RX1_US, RX1) == []
    assert unsent(orders) == []


def test_who_comes_too_late_for_a_window_is_sent_in_the_next() -> None:
    orders = handed(at_us=980_000)
    assert sends(orders, RX2_US, RX2) == []
    assert unsent(handed(at_us=980_000)) == [("west", 7, RX2_US)]
    assert unsent(handed(at_us=1_990_000)) == []


def test_rx2_is_for_what_cannot_be_sent_in_rx1() -> None:
    wrong = "window: expected RX1, which was ahead and free, observed RX2"
    assert sends(handed(), RX2_US, RX2) == [wrong]
    assert sends(handed(asked_us=None), RX2_US, RX2) == []


@pytest.mark.parametrize(
    ("other_us", "wrong"),
    [(990_000, 0), (900_000, 0), (-4_100_000, 1), (1_100_000, 1)],
    ids=["on the air", "band used up", "band free again", "later"],
)
def test_who_cannot_send_in_rx1_waits(other_us: int, wrong: int) -> None:
    orders = handed()
    orders.hand_over({"station": "west", "t_us": 0}, LATER, {RX1: ()}, None)
    assert sends(orders, other_us, RX1, LATER["pdu"]) == []
    assert len(sends(orders, RX2_US, RX2)) == wrong


def test_whoever_may_have_begun_again_owes_nothing() -> None:
    orders = handed()
    orders.disturb("west", 500_000)
    assert unsent(orders) == []
    orders = handed(asked_us=600_000)
    orders.disturb("west", 500_000)
    assert unsent(orders) == [("west", 7, RX1_US)]
    assert unsent(handed(asked_us=None)) == []


def test_what_is_for_class_c_goes_at_once() -> None:
    assert unsent(handed(rx1_us=None)) == [("west", 7, 25_000)]
    orders = handed(rx1_us=None)
    assert sends(orders, 20_000, RX2) == []
    assert unsent(orders) == []
    late = ["time: expected at once, observed 1000000 us later"]
    assert sends(handed(rx1_us=None), 1_000_000, RX2) == late
    assert sends(handed(rx1_us=None, asked_us=None), 1_000_000, RX2) == []
    orders = handed(rx1_us=None)
    orders.hand_over({"station": "west", "t_us": 0}, LATER, {RX2: ()}, None)
    assert sends(orders, 10_000, RX2, LATER["pdu"]) == []
    assert sends(orders, 120_000, RX2) == []  # the antenna was taken
    elsewhere = "data rate and frequency: expected DR5 on 868100000 or DR0 on 869525000"
    assert sends(handed(rx1_us=None), 20_000, (0, 869_725_000)) == [
        f"{elsewhere}, observed DR0 on 869725000"
    ]
