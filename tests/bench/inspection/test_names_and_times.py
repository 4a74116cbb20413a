"""What is wrong in the names, times and statuses of messages, told by field."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from bench.inspection.downlink import Answered
from bench.inspection.known_device import KnownDevice, Session
from bench.inspection.message import (
    UPLINK,
    Names,
    Numbers,
    addressed,
    in_time,
    misshapen,
    status,
)
from bench.verdict.owner import Scrutiny
from bench.verdict.wire import Uplink
from bench.virtual.lorawan.air_interface import Keys, Kind, data_frame, read_data

KEYS = Keys(bytes(16), bytes(range(16)))
DEV_EUI, STATION = "70B3D57ED0000001", "0016C001F1500001"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
CHECK = Scrutiny(rule="message", of="message", t_us=2_000_000)


def heard(payload: bytes = b"hi", f_opts: bytes = b"") -> Answered:
    phy = data_frame(
        Kind.UNCONFIRMED_UP, "26000001", KEYS, 10, f_port=2, payload=payload, f_opts=f_opts
    )
    frame = read_data(phy)
    assert frame is not None
    uplink = Uplink(
        station=STATION, t_us=1_000_000, held_us=0, phy=phy, frame=frame, xtime=1, rctx=0,
        dr=5, freq_hz=868_100_000, rssi=-80, snr=7,
    )  # fmt: skip
    session = Session("26000001", KEYS, 0)
    return Answered(uplink, KnownDevice(DEV_EUI, bytes(16), [session]), 10, session)


def body(**changed: object) -> dict[str, Any]:
    told: dict[str, Any] = {
        "messageId": f"{DEV_EUI}-26000001-10", "removeDuplicatesKey": f"{DEV_EUI}-26000001-10",
        "partitionKey": DEV_EUI, "lns": "lns-a", "devEui": DEV_EUI, "devAddr": "26000001",
        "fCnt": 10, "station": STATION, "receivedAt": "2026-01-01T00:00:01.500Z",
    }  # fmt: skip
    return told | changed


def fields(found: Any) -> list[str]:
    return [one.text.split(": ")[1] for one in found]


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, []),
        ({"messageId": f"{DEV_EUI}-26000001-10-{STATION}-2"}, []),
        ({"messageId": f"{DEV_EUI}-26000001-10-{STATION}-0"}, ["messageId"]),
        ({"messageId": f"{DEV_EUI}-26000001-11"}, ["messageId"]),
        ({"removeDuplicatesKey": f"{DEV_EUI}-26000001-11"}, ["removeDuplicatesKey"]),
        ({"removeDuplicatesKey": f"{DEV_EUI}-26000001.0-10"}, ["removeDuplicatesKey"]),
    ],
)
def test_names_are_made_of_the_frame(changed: dict[str, object], wrong: list[str]) -> None:
    assert fields(Names().compare(body(**changed), [heard()], CHECK)) == wrong


def test_a_counter_that_nobody_heard_is_what_is_wrong() -> None:
    assert fields(Names().compare(body(fCnt=65546), [], CHECK)) == ["fCnt"]
    assert fields(Names().compare(body(fCnt=65546), [heard()], CHECK)) == ["removeDuplicatesKey"]


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, []),
        ({"dupMsg": True, "unverified": True, "fPort": None, "more": 1}, []),
        ({"dupMsg": False}, ["dupMsg"]),
        ({"unverified": None}, ["unverified"]),
        ({"fCnt": "10"}, ["fCnt"]),
        ({"fPort": "2"}, ["fPort"]),
    ],
)
def test_a_message_has_fields_of_a_kind_and_marks_that_are_true(
    changed: dict[str, object], wrong: list[str]
) -> None:
    of_frame = {"confirmed": False, "payload": "00", "rssi": -80, "snr": 7.5, "freqHz": 868_100_000}
    told = body(sequenceNumber=1, dr=5, fPort=2, **of_frame)
    assert fields(misshapen(told | changed, UPLINK, CHECK)) == wrong
    del told["fPort"]
    assert fields(misshapen(told, UPLINK, CHECK)) == ["fPort"]


def test_all_messages_of_a_frame_have_one_key_and_no_other_frame_has_it() -> None:
    names = Names()
    assert fields(names.compare(body(), [heard()], CHECK)) == []
    odd = f"{DEV_EUI}-26000001-10.01234567"
    other = body(messageId=odd, removeDuplicatesKey=odd)
    assert fields(names.compare(other, [heard()], CHECK)) == ["removeDuplicatesKey"]
    assert fields(names.compare(body(), [heard(b"ho")], CHECK)) == ["removeDuplicatesKey"]
    assert fields(names.compare(body(unverified=True), [heard(b"ho")], CHECK)) == []
    own = f"{DEV_EUI}-26000001-10.{heard().uplink.phy[-4:].hex().upper()}"
    careful = body(messageId=own, removeDuplicatesKey=own, unverified=True)
    assert fields(names.compare(careful, [heard()], CHECK)) == []
    both, said = [heard(), heard(b"ho")], body(payload=b"ho".hex())
    assert fields(names.compare(said, both, CHECK)) == ["removeDuplicatesKey"]
    assert fields(names.compare(body(payload=b"ha".hex()), both, CHECK)) == []


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ("2026-01-01T00:00:01.000Z", []),
        ("2026-01-01T00:00:02.000Z", []),
        ("2026-01-01T00:00:00.900Z", ["receivedAt"]),
        ("2026-01-01T00:00:02.100Z", ["receivedAt"]),
        ("2026-01-01T00:00:01Z", ["receivedAt"]),
        ("2026-01-01T00:00:01.000000Z", ["receivedAt"]),
    ],
)
def test_a_message_is_received_between_reception_and_publication(
    told: str, wrong: list[str]
) -> None:
    assert fields(in_time(body(receivedAt=told), BEGAN, 1_000_000, CHECK)) == wrong


def test_a_message_says_the_same_as_its_topic() -> None:
    assert fields(addressed(f"lorawan/lns-a/{DEV_EUI}/up", "up", body(), CHECK)) == []
    assert fields(addressed("lorawan/lns-a/x/up", "up", body(), CHECK)) == ["topic"]
    wrong = body(partitionKey="26000001")
    assert fields(addressed(f"lorawan/lns-a/{DEV_EUI}/up", "up", wrong, CHECK)) == ["partitionKey"]


@pytest.mark.parametrize(
    ("battery", "margin", "wrong"),
    [(255, -32, []), (254, -32, ["battery and margin"]), (255, 32, ["battery and margin"])],
)
def test_a_status_is_what_the_device_said_last(battery: int, margin: int, wrong: list[str]) -> None:
    frame = heard(f_opts=bytes.fromhex("06010106FF20"))
    name = f"{DEV_EUI}-26000001-10-status"
    told = body(messageId=name, removeDuplicatesKey=name, battery=battery, margin=margin)
    assert fields(status(told, [frame], CHECK)) == wrong


@pytest.mark.parametrize(
    ("name", "key", "wrong"),
    [
        ("26000001.2-10-status", "26000001.2-10-status", []),
        ("26000001-10", "26000001-10", ["messageId"]),
        ("26000001-11-status", "26000001-11-status", ["messageId"]),
        ("26000001-10-status", "26000001-10", ["removeDuplicatesKey"]),
    ],
)
def test_a_status_has_a_name_of_its_own(name: str, key: str, wrong: list[str]) -> None:
    names = {"messageId": f"{DEV_EUI}-{name}", "removeDuplicatesKey": f"{DEV_EUI}-{key}"}
    assert fields(status(body(**names, battery=1, margin=2), [], CHECK)) == wrong


def wrong_number(
    numbers: Numbers, number: int, name: str, topic: str = "lorawan/lns-a/d/up"
) -> list[str]:
    numbered = body(sequenceNumber=number, messageId=name)
    return fields(numbers.compare(topic, numbered, CHECK))


def test_the_messages_of_a_topic_are_numbered_without_a_gap() -> None:
    numbers = Numbers()
    told = partial(wrong_number, numbers)
    assert told(7, "a") == []  # what was before the case nobody knows
    assert told(8, "b") + told(7, "a") + told(9, "c") == []
    assert told(9, "d") == ["sequenceNumber"]
    assert told(11, "e") == ["sequenceNumber"]
    assert told(1, "z") == ["sequenceNumber"]
    assert told(11, "y") == ["sequenceNumber"]
    numbers.begins_at_one = True
    numbers.forget("lns-b", CHECK.t_us)
    assert told(12, "f") == []
    numbers.forget("lns-a", CHECK.t_us)
    assert told(1, "g") + told(1, "h", "lorawan/lns-a/e/up") == []
    assert told(2, "i", "lorawan/lns-a/f/up") == ["sequenceNumber"]


@pytest.mark.parametrize(
    ("after_us", "number", "wrong"),
    [(999_999, 3, []), (1_000_000, 3, ["sequenceNumber"]), (0, 4, ["sequenceNumber"])],
)
def test_what_was_on_its_way_when_an_outbox_was_lost_has_the_number_of_before(
    after_us: int, number: int, wrong: list[str]
) -> None:
    numbers = Numbers()
    numbers.begins_at_one = True
    told = partial(wrong_number, numbers)
    assert told(1, "a") + told(2, "b") == []
    numbers.forget("lns-a", CHECK.t_us - after_us)
    assert told(number, "c") == wrong
    if not wrong:
        assert told(1, "d") + told(2, "e") + told(3, "f") == []


def test_a_message_that_comes_again_behind_a_lost_outbox_may_be_the_first() -> None:
    numbers = Numbers()
    numbers.begins_at_one = True
    told = partial(wrong_number, numbers)
    assert told(1, "a") == []
    numbers.forget("lns-a", CHECK.t_us)
    assert told(1, "a") + told(2, "b") == []
    assert told(4, "c") == ["sequenceNumber"]


def behind(
    aside_us: int, *, wiped_us: int | None = None, number: int = 2, name: str = "a"
) -> list[str]:
    """What is wrong in a number where `b` is put aside as 1, and where its outbox was lost."""
    numbers, topic = Numbers(), "lorawan/lns-a/d/up"
    numbers.begins_at_one = True
    parked = {"kind": "upstream.parked", "topic": topic, "sequence_number": 1, "message_id": "b"}
    numbers.put_aside([parked | {"t_us": aside_us}])
    if wiped_us is not None:
        numbers.forget("lns-a", wiped_us)
    return fields(numbers.compare(topic, body(sequenceNumber=number, messageId=name), CHECK))


@pytest.mark.parametrize(("wiped_us", "wrong"), [(39, []), (40, ["sequenceNumber"])])
def test_what_was_put_aside_before_an_outbox_was_lost_has_no_number(
    wiped_us: int, wrong: list[str]
) -> None:
    assert behind(40, wiped_us=wiped_us) == wrong


def test_another_frame_has_the_name_of_one_behind_an_emptied_store() -> None:
    names = Names()
    assert fields(names.compare(body(), [heard()], CHECK)) == []
    names.forget()
    assert fields(names.compare(body(), [heard(b"ho")], CHECK)) == []


@pytest.mark.parametrize(("later_us", "wrong"), [(2_100_000, []), (2_100_001, ["sequenceNumber"])])
def test_behind_what_is_soon_put_aside_the_next_number_comes(
    later_us: int, wrong: list[str]
) -> None:
    assert behind(CHECK.t_us + later_us) == wrong


def test_what_is_sent_and_soon_put_aside_has_its_own_number() -> None:
    """Its acknowledgement was lost. When it is released it has another one."""
    assert behind(CHECK.t_us, number=1, name="b") == []
    assert behind(0, number=2, name="b") == []
    assert behind(CHECK.t_us, number=1, name="a") == ["sequenceNumber"]
