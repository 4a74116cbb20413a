"""When is a downlink that nobody has proven sent once more?"""

import pytest

from bench.inspection.class_c import ACK_US, REPORT_US, ClassC
from bench.inspection.downlink import KnownDevice, Wanted
from bench.verdict.owner import Scrutiny

CHECK = Scrutiny(rule="dnmsg", of="dnmsg", t_us=0)
DEV_EUI = "70B3D57ED0000001"


def again(after_us: int, *, confirmed: bool = False, wanted: int = 1) -> int:
    """How many complaints there are of a downlink that comes once more so much later."""
    sent = Wanted(8, b"on", confirmed)
    device = KnownDevice(DEV_EUI, bytes(16), [], wanted=[sent] * wanted)
    books = ClassC(lambda eui: eui)
    times = ({"t_us": 1_000_000}, {"t_us": 1_000_000 + after_us})
    return len([found for event in times for found in books.again(event, device, sent, CHECK)])


@pytest.mark.parametrize(("confirmed", "due_us"), [(False, REPORT_US), (True, ACK_US)])
def test_it_comes_when_its_time_is_over(confirmed: bool, due_us: int) -> None:
    assert again(due_us, confirmed=confirmed) == 0
    assert again(due_us - 1_000_000, confirmed=confirmed) == 1
    assert again(due_us + 1_000_000, confirmed=confirmed) == 1
    assert again(due_us * 3, confirmed=confirmed) == 0  # something else has held it up


def test_nobody_can_tell_two_of_a_kind_apart() -> None:
    assert again(1_000_000, wanted=2) == 0
