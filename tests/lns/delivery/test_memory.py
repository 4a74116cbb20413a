"""The upstream in memory keeps the newest messages and numbers them all."""

import asyncio
from datetime import UTC, datetime

from msgspec.structs import replace

from lns.delivery.publisher import MemoryUpstream, Message

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
