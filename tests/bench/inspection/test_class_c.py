"""When is a downlink sent once more, and when the one behind it?"""

import pytest

from bench.inspection.known_device import KnownDevice, Wanted
from bench.inspection.requests import ACK_US, REPORT_US, ClassC, is_quiet
from bench.verdict.owner import Scrutiny
from bench.virtual.lorawan.air_interface import read_data

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


def next_one(
    at_us: int, *, confirmed: bool = False, wanted_us: int = 0, is_quiet: bool = True
) -> int:
    """How many complaints there are of what comes behind one that is over at 2 s."""
    first, second = Wanted(8, b"one", confirmed), Wanted(8, b"two", False)
    device = KnownDevice(DEV_EUI, bytes(16), [], wanted=[first, second], delivered=1)
    books = ClassC(lambda eui: eui, is_quiet=is_quiet)
    books.wanted_us[DEV_EUI] = [0, wanted_us]
    books.sent[DEV_EUI] = 1_000_000, first
    books.sends_us["west", DEV_EUI] = 1_000_000, 2_000_000
    return len(list(books.next_one({"station": "west", "t_us": at_us}, device, second, CHECK)))


def test_what_waits_comes_when_the_air_is_free() -> None:
    assert next_one(2_015_000) == 0
    assert next_one(2_015_001) == 1


def test_what_waits_for_something_else_may_come_later() -> None:
    assert next_one(3_000_000, confirmed=True) == 0
    assert next_one(3_000_000, wanted_us=1_000_001) == 0
    assert next_one(3_000_000, is_quiet=False) == 0


@pytest.mark.parametrize(
    ("told_us", "at_us", "wrong"),
    [
        (0, 6_015_000, 0),
        (0, 6_015_001, 1),
        (1_000_000, 6_015_001, 0),  # it may have been told so lately that an answer is under way
    ],
)
def test_what_is_wanted_comes_at_once_where_nothing_is_on_the_air(
    told_us: int, at_us: int, wrong: int
) -> None:
    wanted = Wanted(8, b"one", confirmed=False)
    device = KnownDevice(DEV_EUI, bytes(16), [], wanted=[wanted])
    books = ClassC(lambda eui: eui, is_quiet=True)
    books.wanted_us[DEV_EUI] = [6_000_000]
    books.told_by[DEV_EUI, "west"] = told_us
    event = {"station": "west", "t_us": at_us}
    assert len(list(books.next_one(event, device, wanted, CHECK))) == wrong
    books.unproven_us[DEV_EUI] = 0
    assert list(books.next_one(event, device, wanted, CHECK)) == []


@pytest.mark.parametrize(("is_quiet", "early_us"), [(True, 0), (False, 20_000)])
def test_nobody_is_spoken_to_before_what_he_hears_is_over(is_quiet: bool, early_us: int) -> None:
    books = ClassC(lambda eui: eui, is_quiet=is_quiet)
    books.hand_over("west", "20ab", DEV_EUI)
    books.on_air({"sender": "west", "phy": "20AB", "t_us": 1_000_000, "airtime_us": 500_000})

    def interrupted(station: str, dev_eui: str, at_us: int) -> int:
        return len(list(books.interrupted({"station": station, "t_us": at_us}, dev_eui, CHECK)))

    assert interrupted("west", DEV_EUI, 1_500_000 - early_us) == 0
    assert interrupted("west", DEV_EUI, 1_499_999 - early_us) == 1
    assert interrupted("west", DEV_EUI, 1_010_000) == 0  # nobody has told of it yet
    assert interrupted("west", DEV_EUI, 1_010_001) == 1
    assert interrupted("east", DEV_EUI, 1_200_000) == 0
    assert interrupted("west", "another", 1_200_000) == 0


@pytest.mark.parametrize(
    ("event", "quiet"),
    [
        ({"kind": "case.lns", "event": "start"}, True),
        ({"kind": "case.lns", "event": "restart"}, False),
        ({"kind": "fault.begin", "fault": "delay"}, False),
        ({"kind": "fault.begin", "fault": "replay"}, True),
        ({"kind": "case.begin", "rig": "emulated"}, False),
    ],
)
def test_only_without_faults_and_hosts_time_is_exact(event: dict[str, str], quiet: bool) -> None:
    assert is_quiet([{"kind": "case.begin", "rig": "simulated"}, event]) is quiet


def test_a_device_is_spoken_to_in_the_session_that_it_was_heard_in() -> None:
    books = ClassC(lambda eui: eui)
    frame = read_data(bytes.fromhex("60010000262003000A0B0C0D"))
    accepted = {"status": "NonDuplicate", "dev_eui": DEV_EUI, "station": "west"}
    assert list(books.spoken_to(frame, DEV_EUI, CHECK)) == []
    for lns, dev_addr, wrong in (("a", "26000001", 0), ("a", "26000002", 1), ("b", "26000001", 0)):
        books.outcome({**accepted, "lns": lns, "dev_addr": dev_addr})
        assert len(list(books.spoken_to(frame, DEV_EUI, CHECK))) == wrong


def test_it_listens_in_the_session_that_it_was_told_in_whatever_becomes_of_that() -> None:
    """A frame may be on its way to the application, or claimed: only one server is sure to know."""
    books = ClassC(lambda eui: eui)
    old, new = [read_data(bytes.fromhex(f"600{n}0000262003000A0B0C0D")) for n in (1, 2)]
    accepted = {"status": "NonDuplicate", "dev_eui": DEV_EUI, "station": "west", "lns": "a"}
    books.outcome({**accepted, "dev_addr": "26000001"})
    told = read_data(bytes.fromhex("40020000260003000A0B0C0D"))
    assert told is not None
    books.told(DEV_EUI, "west", told, 1_000_000, 7)
    for at_us, hears_all, wrong in (
        (1_900_000, True, 1),
        (1_500_000, True, 0),
        (1_900_000, False, 0),
    ):
        books.hears_all = hears_all
        check = Scrutiny(rule="dnmsg", of="dnmsg", t_us=at_us)
        assert list(books.spoken_to(new, DEV_EUI, check)) == []
        assert len(list(books.spoken_to(old, DEV_EUI, check))) == wrong
    books.outcome({"reason": "UnknownDevice", "dev_addr": "26000002"})
    assert len(list(books.spoken_to(new, DEV_EUI, CHECK))) == 1


CONFIRMED, UNCONFIRMED = "A0010000260000000201DEADBEEF", "60010000260000000201DEADBEEF"


def test_it_is_spoken_to_where_its_newest_frame_was_told_unless_that_is_a_copy() -> None:
    """As long as nobody has said which copy it is, it may be the one that counts."""
    books = ClassC(lambda eui: eui)
    told = read_data(bytes.fromhex("40020000260003000A0B0C0D"))
    assert told is not None
    said = {"lns": "a", "dev_eui": DEV_EUI, "dev_addr": "26000002", "station": "east", "xtime": 7}
    books.outcome({**said, "status": "NonDuplicate", "station": "west"})
    books.told(DEV_EUI, "east", told, 1_000_000, 7)
    handed_over = {"t_us": 2_000_000, "station": "east"}
    for xtime, wrong in ((6, 0), (7, 1)):
        books.outcome({**said, "status": "SoftDuplicate", "xtime": xtime})
        assert len(list(books.through(handed_over, DEV_EUI, CHECK))) == wrong


def too_soon(
    after_us: int, *, pdu: str = CONFIRMED, by: str = "west", forgets: bool = False
) -> int:
    """How many complaints there are of what comes without an uplink so long after an answer."""
    books = ClassC(lambda eui: eui, forgets_nothing=not forgets)
    books.answer({"station": "west", "t_us": 1_000_000}, pdu, DEV_EUI)
    event = {"station": by, "t_us": 1_000_000 + after_us}
    return len(list(books.too_soon(event, None, DEV_EUI, CHECK)))


def test_an_answer_has_time_to_be_acknowledged() -> None:
    assert too_soon(ACK_US) == 0
    assert too_soon(ACK_US - 1) == 1
    assert too_soon(ACK_US - 1, pdu=UNCONFIRMED) == 0
    assert too_soon(ACK_US - 1, by="east") == 0
    assert too_soon(ACK_US - 1, forgets=True) == 0


@pytest.mark.parametrize(
    ("confirmed", "handed", "waited_us", "wrong"),
    [
        (True, 1, ACK_US * 2, 1),
        (True, 3, ACK_US * 2, 0),
        (True, 1, ACK_US, 0),
        (False, 1, ACK_US * 2, 0),
    ],
)
def test_what_nobody_acknowledges_is_sent_three_times(
    confirmed: bool, handed: int, waited_us: int, wrong: int
) -> None:
    sent = Wanted(8, b"on", confirmed)
    kept = [sent] * (handed - 1)  # a tap has kept one: it was handed all the same
    device = KnownDevice(
        DEV_EUI, bytes(16), [], wanted=[sent], told=kept, handed=[sent] * handed
    )  # fmt: skip
    books = ClassC(lambda eui: eui, is_quiet=True, end_us=waited_us)
    books.sent[DEV_EUI] = 0, sent
    assert len([*books.unsent({DEV_EUI: device}, (), {})]) == wrong


def store(kind: str, t_us: int, fault: str = "delay") -> dict[str, object]:
    return {"kind": f"fault.{kind}", "seam": "store", "fault": fault, "t_us": t_us}


@pytest.mark.parametrize(
    ("faults", "sends_all"),
    [
        ([], True),
        ([store("begin", 0), store("end", 10_000_000)], True),
        ([store("begin", 0), store("end", 10_000_001)], False),
        ([store("begin", 0)], False),
        ([store("begin", 0, "cut"), store("end", 1, "cut")], False),
    ],
)
def test_what_a_late_store_has_held_up_is_sent_when_it_is_late_no_more(
    faults: list[dict[str, object]], sends_all: bool
) -> None:
    books = ClassC(lambda eui: eui)
    books.begin([*faults, {"kind": "case.end", "t_us": 20_000_000}], undisturbed=not faults)
    assert books.sends_all is sends_all
