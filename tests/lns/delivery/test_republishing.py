"""A clean topic: what went through the inbox, on a real Mosquitto."""

import asyncio
import random
from pathlib import Path

import pytest

from lns.delivery import Inbox
from lns.delivery.effect import EffectUnavailable, Republishing
from lns.delivery.incoming import Incoming
from lns.delivery.mqtt_sender import MqttSender
from lns.delivery.mqtt_session import broker
from lns.delivery.publisher import UpstreamUnavailable
from lns.store.inbox_store import Batch, SqliteInboxStore
from tests.broker import Heard, Listener, Mosquitto
from tests.lns.delivery.arriving import TOPIC, incoming, payload
from tests.lns.delivery.sending import QUICK
from tests.looped import on_a_loop

WAIT_S = 60


def sender(url: str, clean: Republishing) -> MqttSender:
    chance = random.Random(1)
    return MqttSender(broker(url), clean, client_id="clean", chance=chance, back_off=QUICK)


async def take(inbox: Inbox, *f_cnts: int) -> None:
    for f_cnt in f_cnts:
        inbox.offer(TOPIC, payload(f_cnt), {}, 1, lambda: None)
    async with asyncio.timeout(WAIT_S):
        await inbox.settled()


@pytest.mark.broker
def test_the_clean_topic_has_each_message_as_it_came(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    async def body() -> None:
        store = SqliteInboxStore(tmp_path / "inbox.sqlite")
        clean = Republishing(store, "clean")
        async with Inbox(store, clean) as inbox, sender(mosquitto.url, clean) as on_its_way:
            clean.look = on_its_way.look
            await take(inbox, 1, 2, 1, 3, 2)
            async with asyncio.timeout(WAIT_S):
                await on_its_way.drained()
        assert clean.waiting == 0
        await store.close()

    asyncio.run(body())
    heard = listener.count(3)
    assert [(one.topic, one.payload) for one in heard] == [
        (f"clean/{TOPIC}", payload(f_cnt)) for f_cnt in (1, 2, 3)
    ]
    read = Incoming.of(heard[0].topic, heard[0].payload, dict(heard[0].properties), 1)
    assert isinstance(read, Incoming)
    assert (read.sequence_number, read.remove_duplicates_key) == (1, read.message_id)


@pytest.mark.broker
def test_what_the_broker_has_not_taken_goes_out_after_a_restart_with_its_id_and_number(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    path = tmp_path / "inbox.sqlite"

    async def accept() -> None:
        store = SqliteInboxStore(path)
        clean = Republishing(store, "clean")
        async with Inbox(store, clean) as inbox:
            await take(inbox, 7, 8)
        assert clean.waiting == 2
        await store.close()

    async def send() -> None:
        store = SqliteInboxStore(path)
        clean = Republishing(store, "clean")
        async with Inbox(store, clean) as inbox:
            assert clean.waiting == 2
            async with sender(mosquitto.url, clean) as on_its_way, asyncio.timeout(WAIT_S):
                await take(inbox, 7, 8)
                await on_its_way.drained()
        await store.close()

    asyncio.run(accept())
    asyncio.run(send())

    def enough(heard: list[Heard]) -> bool:
        return len(heard) == 2

    heard = listener.wait_for(enough)
    assert [dict(one.properties)["sequenceNumber"] for one in heard] == ["7", "8"]
    assert [one.message_id for one in heard] == [
        f"70B3D57ED0000001-01ABCDEF-{f_cnt}" for f_cnt in (7, 8)
    ]


@on_a_loop
async def test_a_message_without_number_and_partition_has_none_on_the_clean_topic_either(
    tmp_path: Path,
) -> None:
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    clean = Republishing(store, "clean")
    async with Inbox(store, clean) as inbox:
        inbox.offer(TOPIC, b'{"messageId": "m"}', {}, 1, lambda: None)
        await inbox.settled()
        [entry] = await clean.after(0, 10)
    told = {"sequenceNumber": str(entry.sequence_number), "partitionKey": entry.partition_key}
    told |= {"messageId": entry.message_id}
    again = Incoming.of(entry.topic, entry.body, told, 1)
    assert again == incoming("m", channel=f"clean/{TOPIC}", body=b'{"messageId": "m"}')
    await store.close()


@on_a_loop
async def test_a_store_that_is_closed_is_away(tmp_path: Path) -> None:
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    clean = Republishing(store, "clean")
    async with Inbox(store, clean) as inbox:
        await take(inbox, 1)
    await store.close()
    with pytest.raises(UpstreamUnavailable):
        await clean.after(0, 10)
    with pytest.raises(UpstreamUnavailable):
        await clean.remove([1])
    assert clean.waiting == 1


@on_a_loop
async def test_a_message_keeps_its_remove_duplicates_key_or_its_id_is_one(tmp_path: Path) -> None:
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    clean = Republishing(store, "clean")
    async with Inbox(store, clean) as inbox:
        for text in (b'{"messageId": "m", "removeDuplicatesKey": "k"}', b'{"messageId": "n"}'):
            inbox.offer(TOPIC, text, {}, 1, lambda: None)
        await inbox.settled()
        entries = await clean.after(0, 10)
    assert [entry.remove_duplicates_key for entry in entries] == ["k", "n"]
    await store.close()


@pytest.mark.parametrize("batch_max", [1, 500])
def test_nothing_is_accepted_while_too_many_wait_for_the_broker(
    tmp_path: Path, batch_max: int
) -> None:
    acknowledged: list[int] = []

    async def body() -> None:
        store = SqliteInboxStore(tmp_path / "inbox.sqlite")
        clean = Republishing(store, "clean", messages_max=2)
        async with Inbox(store, clean, batch_max=batch_max) as inbox:
            for f_cnt in (1, 2, 3):
                inbox.offer(TOPIC, payload(f_cnt), {}, 1, lambda n=f_cnt: acknowledged.append(n))  # type: ignore[misc]
            async with asyncio.timeout(WAIT_S):
                while len(acknowledged) < 2:  # noqa: ASYNC110 - the broker is told, nobody else
                    await asyncio.sleep(0.01)
            entries = await clean.after(0, 10)
            assert (len(entries), acknowledged) == (2, [1, 2])
            await clean.remove([entries[0].position])
            async with asyncio.timeout(WAIT_S):
                await inbox.settled()
            assert [entry.sequence_number for entry in await clean.after(0, 10)] == [2, 3]
        await store.close()

    asyncio.run(body())
    assert acknowledged == [1, 2, 3]


@on_a_loop
async def test_what_was_not_kept_does_not_wait(tmp_path: Path) -> None:
    looks: list[int] = []
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    clean = Republishing(store, "clean")
    clean.look = lambda: looks.append(clean.waiting)

    async def work(batch: Batch) -> None:
        clean.open(batch)
        clean.handle(incoming("m"), batch)
        raise EffectUnavailable("another one")

    with pytest.raises(EffectUnavailable):
        await store.transact([], work)
    clean.end(kept=False)
    assert (clean.waiting, looks) == (0, [])
    async with Inbox(store, clean) as inbox:
        await take(inbox, 1)
    assert (clean.waiting, looks) == (1, [1])
    await store.close()


@pytest.mark.parametrize("prefix", ["", "/clean", "clean/", "a/+", "#"])
@on_a_loop
async def test_a_prefix_is_a_topic(tmp_path: Path, prefix: str) -> None:
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    try:
        with pytest.raises(ValueError, match="a prefix is a topic"):
            Republishing(store, prefix)
    finally:
        await store.close()
