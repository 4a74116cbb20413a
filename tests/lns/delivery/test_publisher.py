"""The message of an uplink: its identity and its body."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from lns.dedup.session import Lived, Session
from lns.delivery.publisher import (
    MemoryUpstream,
    Message,
    message_of,
    remove_duplicates_key,
    status_of_device,
)
from lns.lorawan.frame import Data, parse
from lns.lorawan.mac_commands import DevStatusAns
from lns.station.protocol import Reception
from tests.lns.served_network import ALPHA, DEV_ADDR, EAST, KEYS, WEST, uplink

OF_FIRST_LIFE = Lived()
RECEIVED_AT = datetime(2026, 11, 20, 2, 0, 30, 393_999, tzinfo=UTC)


@pytest.fixture
def session() -> Session:
    return Session(dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=42)


def message(
    session: Session,
    f_cnt: int = 42,
    *,
    phy: bytes | None = None,
    reception: Reception | None = None,
    first: bool = True,
    dup_msg: bool = False,
    lived: Lived = OF_FIRST_LIFE,
) -> Message:
    frame = parse(phy or uplink(f_cnt, confirmed=True))
    assert isinstance(frame, Data)
    heard = reception or Reception(WEST, b"", 5, 868_100_000, -71.0, 9.5, 1, 0, 1, 1)
    return message_of(
        "lns-a",
        session,
        f_cnt,
        frame,
        heard,
        lived=lived,
        received_at=RECEIVED_AT,
        first=first,
        dup_msg=dup_msg,
    )


def test_the_body_of_the_interface(session: Session) -> None:
    body = message(session, dup_msg=True).body(17)
    assert body == {
        "messageId": "70B3D57ED0000001-01ABCDEF-42",
        "removeDuplicatesKey": "70B3D57ED0000001-01ABCDEF-42",
        "partitionKey": "70B3D57ED0000001",
        "sequenceNumber": 17,
        "lns": "lns-a",
        "devEui": "70B3D57ED0000001",
        "devAddr": "01ABCDEF",
        "fCnt": 42,
        "fPort": 2,
        "confirmed": True,
        "payload": "c0ffee",
        "station": "0016C001F1500001",
        "rssi": -71,
        "snr": 9.5,
        "freqHz": 868100000,
        "dr": 5,
        "receivedAt": "2026-11-20T02:00:30.393Z",
        "dupMsg": True,
    }
    assert list(body)[-1] == "dupMsg"


def test_whole_numbers_have_no_point(session: Session) -> None:
    heard = Reception(WEST, b"", 5, 868_100_000, -71.0, 9.0, 1, 0, 1, 1)
    body = message(session, reception=heard).body(1)
    assert (repr(body["rssi"]), repr(body["snr"])) == ("-71", "9")


def test_dup_msg_is_there_only_as_true(session: Session) -> None:
    assert "dupMsg" not in message(session).body(1)


def test_the_topic(session: Session) -> None:
    assert message(session).topic == "lorawan/lns-a/70B3D57ED0000001/up"


def test_a_counter_of_32_bits_is_told_and_decrypts(session: Session) -> None:
    body = message(session, 0x12345).body(1)
    assert (body["fCnt"], body["payload"]) == (0x12345, "c0ffee")
    assert body["messageId"] == "70B3D57ED0000001-01ABCDEF-74565"


def test_without_port_there_is_no_payload(session: Session) -> None:
    body = message(session, phy=uplink(42, f_port=None)).body(1)
    assert (body["fPort"], body["payload"], body["confirmed"]) == (None, "", False)


def test_the_first_message_of_a_frame_has_the_same_id_every_time(session: Session) -> None:
    assert message(session).message_id == message(session).message_id


def test_every_copy_has_an_id_of_its_own(session: Session) -> None:
    west = Reception(WEST, b"", 5, 868_100_000, -71.0, 9.5, 1, 0, 1, 1)
    east = replace(west, station=EAST)
    ids = [message(session, reception=r, first=False).message_id for r in (east, west, east)]
    assert ids == [
        "70B3D57ED0000001-01ABCDEF-42-0016C001F1500002-1",
        "70B3D57ED0000001-01ABCDEF-42-0016C001F1500001-2",
        "70B3D57ED0000001-01ABCDEF-42-0016C001F1500002-3",
    ]


def test_every_copy_of_a_frame_has_the_key_of_its_first_message(session: Session) -> None:
    copies = [message(session, first=first) for first in (True, False, False)]
    assert len({copy.message_id for copy in copies}) == 3
    assert {copy.remove_duplicates_key for copy in copies} == {copies[0].message_id}
    assert [remove_duplicates_key(copy.message_id) for copy in copies] == [
        "70B3D57ED0000001-01ABCDEF-42"
    ] * 3


def test_another_server_gives_the_same_frame_the_same_key(session: Session) -> None:
    here = message(session)
    there = message(Session(dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS), first=False)
    assert here.remove_duplicates_key == there.remove_duplicates_key
    assert message(session, 43).remove_duplicates_key != here.remove_duplicates_key


def test_a_counter_that_began_again_has_other_ids(session: Session) -> None:
    again = Lived(1)
    assert message(session, 0, lived=again).message_id == "70B3D57ED0000001-01ABCDEF.1-0"
    copy = message(session, 0, lived=again, first=False)
    assert copy.message_id == "70B3D57ED0000001-01ABCDEF.1-0-0016C001F1500001-1"
    assert copy.remove_duplicates_key == "70B3D57ED0000001-01ABCDEF.1-0"


def test_another_frame_with_the_same_counter_is_told_apart_by_its_mic(session: Session) -> None:
    odd = message(session, 0, lived=Lived(odd=True), first=False)
    mic = uplink(0, confirmed=True)[-4:].hex().upper()
    assert odd.remove_duplicates_key == f"70B3D57ED0000001-01ABCDEF-0.{mic}"
    assert remove_duplicates_key(odd.message_id) == odd.remove_duplicates_key


def test_the_status_of_a_device_is_a_message_of_its_own(session: Session) -> None:
    heard = Reception(WEST, b"", 5, 868_100_000, -71.0, 9.5, 1, 0, 1, 1)
    known = DevStatusAns(254, -32)
    phy = uplink(42)
    frame = parse(phy)
    assert isinstance(frame, Data)
    status = status_of_device(
        "lns-a",
        session,
        42,
        frame,
        known,
        heard,
        lived=Lived(life=2, odd=True),
        received_at=RECEIVED_AT,
    )
    name = f"70B3D57ED0000001-01ABCDEF.2-42.{phy[-4:].hex().upper()}-status"
    assert (status.topic, status.remove_duplicates_key) == (
        "lorawan/lns-a/70B3D57ED0000001/status",
        name,
    )
    body = status.body(17)
    assert body == {
        "messageId": name,
        "removeDuplicatesKey": name,
        "partitionKey": "70B3D57ED0000001",
        "sequenceNumber": 17,
        "lns": "lns-a",
        "devEui": "70B3D57ED0000001",
        "devAddr": "01ABCDEF",
        "fCnt": 42,
        "battery": 254,
        "margin": -32,
        "station": WEST,
        "receivedAt": "2026-11-20T02:00:30.393Z",
    }
    assert replace(status, unverified=True).body(17) == body | {"unverified": True}


def test_topics_in_memory_are_numbered_from_one(session: Session) -> None:
    upstream = MemoryUpstream(messages_max=3)
    first = message(session)
    other = replace(first, lns="lns-b")
    for one in (first, other, first, other):
        asyncio.run(upstream.publish(one))
    assert [number for number, _ in upstream.numbered] == [1, 2, 2]
    assert upstream.taken == 4


MESSAGE = Message(
    message_id="70B3D57ED0000001-01ABCDEF-42",
    remove_duplicates_key="70B3D57ED0000001-01ABCDEF-42",
    lns="lns-a",
    dev_eui="70B3D57ED0000001",
    dev_addr="01ABCDEF",
    f_cnt=42,
    f_port=2,
    confirmed=False,
    payload=b"\xc0\xff\xee",
    station="0016C001F1500001",
    rssi_dbm=-71,
    snr_db=9.5,
    freq_hz=868_100_000,
    dr=5,
    received_at=datetime(2026, 11, 20, tzinfo=UTC),
    dup_msg=False,
)


def test_the_newest_messages_are_kept_with_their_numbers() -> None:
    upstream = MemoryUpstream(messages_max=2)

    async def publish() -> None:
        for f_cnt in (1, 2, 3):
            await upstream.publish(replace(MESSAGE, f_cnt=f_cnt))

    asyncio.run(publish())
    assert [(number, message.f_cnt) for number, message in upstream.numbered] == [(2, 2), (3, 3)]
    assert upstream.taken == 3


def test_each_topic_is_numbered_from_one() -> None:
    upstream = MemoryUpstream()

    async def publish() -> None:
        await upstream.publish(MESSAGE)
        await upstream.publish(replace(MESSAGE, dev_eui="70B3D57ED0000002"))

    asyncio.run(publish())
    assert [number for number, _ in upstream.numbered] == [1, 1]
