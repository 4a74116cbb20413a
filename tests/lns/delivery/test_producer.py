"""What waits for too long is parked and never lost; and how far the rest has come is retained."""

import asyncio
import json
import random
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from lns.delivery import mqtt_sender
from lns.delivery.detectors import statement, topic_of
from lns.delivery.mqtt_sender import MqttSender, MqttUpstream, Producer
from lns.delivery.mqtt_session import broker
from lns.delivery.outbox import Entry, Outbox, state_of
from lns.delivery.publisher import UpstreamUnavailable
from tests.broker import Listener, Mosquitto
from tests.lns.delivery.sending import QUICK, RECEIVED_AT, Relay, message, until, way
from tests.looped import on_a_loop

AGAIN_S = 0.02
SECOND_US = 1_000_000
RETRY_US = 60 * SECOND_US
TOPIC = topic_of("lns-a")
RECEIVED_US = round(RECEIVED_AT.timestamp() * 1000) * 1000


@pytest.fixture(autouse=True)
def again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is looked at, and told, every few milliseconds."""
    monkeypatch.setattr(mqtt_sender, "_AGAIN_S", AGAIN_S)
    monkeypatch.setattr(mqtt_sender, "_TELL_S", 10 * AGAIN_S)


class Clock:
    """A wall clock that a test sets, how often it was looked at, and what was told as parked."""

    def __init__(self) -> None:
        self.now_us = RECEIVED_US
        self.parked: list[tuple[str, int]] = []
        self.looks = 0

    @property
    def producer(self) -> Producer:
        return Producer(
            topic=TOPIC,
            body_of=lambda at_us: statement("lns-a", at_us, RETRY_US),
            retry_us=RETRY_US,
            parked=self._park,
            utc_us=self._look,
        )

    def _look(self) -> int:
        self.looks += 1
        return self.now_us

    async def looked_at(self, times: int) -> None:
        """Wait until it was looked at so often: by two whole looks, twice for each message."""
        wanted = self.looks + times
        await until(lambda: self.looks >= wanted)

    def up(self, url: str, folder: Path, *, keep_us: int = 0) -> MqttUpstream:
        return way(url, folder, producer=self.producer, keep_us=keep_us)

    def _park(self, entry: Entry, waiting: int) -> None:
        self.parked.append((entry.message_id[-2:], waiting))


def wait_for_statement(listener: Listener, said: str) -> None:
    listener.wait_for(
        lambda heard: any(said in one.decode() for one in listener.statements.get(TOPIC, []))
    )


@pytest.mark.broker
def test_what_waits_for_too_long_is_parked_and_goes_on_when_a_person_says_so(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    clock, listener = Clock(), Listener(mosquitto.port)
    mosquitto.stop()

    async def park() -> None:
        async with clock.up(mosquitto.url, tmp_path) as up:
            await up.publish(message(1))
            await up.publish(message(2))
            await up.publish(message(3, received_at=RECEIVED_AT + timedelta(seconds=30)))
            clock.now_us += RETRY_US
            await clock.looked_at(2 * 3)
            assert clock.parked == [], "at exactly that time it is still sent"
            clock.now_us += 1
            await until(lambda: len(clock.parked) == 2)
            assert (clock.parked, up.waiting) == ([("-1", 1), ("-2", 1)], 1)
            mosquitto.start()
            await up.drained()

    async def release() -> None:
        with closing(Outbox(tmp_path / "lns-a.outbox")) as outbox:
            assert await outbox.release(clock.now_us) == 2
        async with clock.up(mosquitto.url, tmp_path) as up:
            await up.drained()

    try:
        asyncio.run(park())
        assert [one.message_id[-2:] for one in listener.count(1)] == ["-3"]
        parked = state_of(tmp_path / "lns-a.outbox").parked
        assert [(one.message_id[-2:], one.sequence_number) for one in parked] == [
            ("-1", 1),
            ("-2", 2),
        ]
        clock.now_us += 10 * RETRY_US
        asyncio.run(release())
        heard = listener.count(3)
    finally:
        listener.close()
    told = [(one.message_id[-2:], one.body["sequenceNumber"]) for one in heard]
    assert told == [("-3", 3), ("-1", 4), ("-2", 5)]
    assert dict(heard[1].properties)["sequenceNumber"] == "4"
    assert state_of(tmp_path / "lns-a.outbox").parked == ()


@pytest.mark.broker
def test_what_comes_back_with_a_lost_connection_is_not_sent_when_it_is_too_old(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """The broker has it, and may have said so; its consumers may have forgotten the key."""
    clock, listener = Clock(), Listener(mosquitto.port)

    async def body() -> None:
        async with Relay(mosquitto.port) as relay, clock.up(relay.url, tmp_path) as up:
            await until(lambda: up.connected)
            relay.swallow("down")
            await up.publish(message(1))
            await asyncio.to_thread(listener.count, 1)
            clock.now_us += RETRY_US + 1
            await clock.looked_at(2)
            assert clock.parked == [], "it is on its way"
            await relay.restore()
            relay.cut()
            await relay.restore()
            await until(lambda: clock.parked == [("-1", 0)])
            await up.drained()

    try:
        asyncio.run(body())
        assert [one.message_id[-2:] for one in listener.heard] == ["-1"]
    finally:
        listener.close()


class LateOutbox(Outbox):
    """Its disk is busy: whoever looks for what waits, after the first ones, is answered late."""

    def __init__(self, path: Path, *, in_time: int = 1) -> None:
        super().__init__(path)
        self.in_time = in_time
        self.looks = 0
        self.answers = asyncio.Event()

    async def after(self, position: int, limit: int) -> list[Entry]:
        found = await super().after(position, limit)
        self.looks += bool(found)
        if self.looks > self.in_time:
            await self.answers.wait()
        return found


@pytest.mark.broker
def test_what_is_only_kept_is_not_parked(mosquitto: Mosquitto, tmp_path: Path) -> None:
    clock = Clock()

    async def body() -> None:
        async with clock.up(mosquitto.url, tmp_path, keep_us=3_600 * SECOND_US) as up:
            await up.publish(message(1))
            await up.drained()
            clock.now_us += RETRY_US + 1
            await asyncio.sleep(10 * AGAIN_S)

    asyncio.run(body())
    assert clock.parked == []


@pytest.mark.broker
def test_what_is_sent_while_the_outbox_is_looked_into_is_not_parked(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    clock = Clock()
    mosquitto.stop()

    async def body() -> tuple[int, int]:
        with closing(LateOutbox(tmp_path / "late.outbox")) as outbox:
            await outbox.add(message(1))
            async with MqttSender(
                broker(mosquitto.url),
                outbox,
                client_id="lns-a",
                chance=random.Random(1),
                back_off=QUICK,
                keep_us=3_600 * SECOND_US,
                producer=clock.producer,
            ) as sender:
                await until(lambda: outbox.looks == 2)  # it waits, and is not overdue
                await asyncio.to_thread(mosquitto.start)
                await sender.drained()
                clock.now_us += RETRY_US + 1
                outbox.answers.set()
                await clock.looked_at(1)
                await outbox.after(0, 1)  # behind what was written meanwhile
                return sender.waiting, outbox.parked

    assert asyncio.run(body()) == (0, 0)
    assert clock.parked == []


@on_a_loop
async def test_what_is_parked_takes_room(tmp_path: Path) -> None:
    with closing(Outbox(tmp_path / "outbox", messages_max=2)) as outbox:
        await outbox.add(message(1))
        await outbox.add(message(2))
        await outbox.park([1])
        assert (outbox.waiting, outbox.parked) == (1, 1)
        with pytest.raises(UpstreamUnavailable, match="2 messages wait, 1 of them parked"):
            await outbox.add(message(3))
    with closing(Outbox(tmp_path / "outbox", messages_max=2)) as outbox:
        assert (outbox.waiting, outbox.parked) == (1, 1)


@pytest.mark.broker
def test_the_time_of_the_oldest_message_is_retained(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    """When nothing waits, it is the time at which that is said."""
    clock = Clock()
    clock.now_us += SECOND_US

    async def body() -> None:
        async with Relay(mosquitto.port) as relay, clock.up(relay.url, tmp_path) as up:
            await until(lambda: up.connected)
            await asyncio.to_thread(wait_for_statement, listener, "02:00:31.393")
            relay.swallow("down")
            await up.publish(message(1))
            clock.now_us += SECOND_US
            await relay.restore()
            relay.cut()
            await relay.restore()
            await asyncio.to_thread(wait_for_statement, listener, "02:00:3")
            await up.drained()
            clock.now_us += SECOND_US
            relay.cut()
            await relay.restore()
            await asyncio.to_thread(wait_for_statement, listener, "02:00:33.393")

    asyncio.run(body())
    said = [json.loads(one) for one in listener.statements[TOPIC]]
    assert said[0] == {
        "lns": "lns-a",
        "minMsgTime": "2026-11-20T02:00:31.393000Z",
        "retryMaxS": 60,
    }
    later = Listener(mosquitto.port)
    try:
        wait_for_statement(later, "02:00:33.393")
    finally:
        later.close()


@pytest.mark.broker
def test_nothing_is_told_while_something_is_unread(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    """Nobody knows how long it has waited."""
    clock = Clock()
    clock.now_us += 30 * SECOND_US

    async def body() -> list[bytes]:
        with closing(LateOutbox(tmp_path / "late.outbox", in_time=0)) as outbox:
            await outbox.add(message(1))
            async with MqttSender(
                broker(mosquitto.url),
                outbox,
                client_id="lns-a",
                chance=random.Random(1),
                back_off=QUICK,
                producer=clock.producer,
            ) as sender:
                await until(lambda: sender.connected)
                await asyncio.sleep(3 * mqtt_sender._TELL_S)
                told = list(listener.statements.get(TOPIC, []))
                outbox.answers.set()
                await sender.drained()
        return told

    assert asyncio.run(body()) == []


@pytest.mark.broker
@on_a_loop
async def test_what_waits_holds_the_time_back(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    clock = Clock()
    clock.now_us += 30 * SECOND_US
    async with clock.up(mosquitto.url, tmp_path, keep_us=3_600 * SECOND_US) as up:
        await up.publish(message(1))
        await up.drained()
    # It is kept, so it may go out again: that is what the next process begins with.
    async with clock.up(mosquitto.url, tmp_path, keep_us=3_600 * SECOND_US) as up:
        await up.drained()
        mosquitto.stop()
        await until(lambda: not up.connected)
        mosquitto.start()
        await asyncio.to_thread(wait_for_statement, listener, "02:00:30.393")
