"""The way upstream over a real Mosquitto: what arrives, in which order, and what survives."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from bench.virtual.mqtt_broker import MqttBroker
from bench.virtual.mqtt_packets import Published
from lns.delivery.mqtt_session import Broker, Patience
from lns.delivery.outbox import Entry
from lns.delivery.publisher import UpstreamUnavailable
from tests.broker import Heard, Listener, Mosquitto
from tests.lns.delivery.sending import ALPHA, BETA, Relay, message, until, way
from tests.looped import on_a_loop

pytestmark = pytest.mark.broker


def numbers(heard: list[Heard]) -> dict[str, list[int]]:
    """The sequence numbers of each topic, first arrivals only, in order of arrival."""
    seen: dict[str, dict[int, None]] = defaultdict(dict)
    for one in heard:
        seen[one.topic].setdefault(one.body["sequenceNumber"])
    return {topic: list(found) for topic, found in seen.items()}


def test_the_application_gets_the_message_of_the_interface(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    async def body() -> None:
        async with way(mosquitto.url, tmp_path) as upstream:
            await upstream.publish(message(42))
            await upstream.drained()

    asyncio.run(body())
    [heard] = listener.count(1)
    assert heard.topic == "lorawan/lns-a/70B3D57ED0000001/up"
    assert heard.qos == 1
    assert heard.properties == (
        ("messageId", "70B3D57ED0000001-01ABCDEF-42"),
        ("removeDuplicatesKey", "70B3D57ED0000001-01ABCDEF-42"),
        ("partitionKey", "70B3D57ED0000001"),
        ("sequenceNumber", "1"),
    )
    assert heard.payload == (
        b'{"messageId":"70B3D57ED0000001-01ABCDEF-42",'
        b'"removeDuplicatesKey":"70B3D57ED0000001-01ABCDEF-42","partitionKey":"70B3D57ED0000001",'
        b'"sequenceNumber":1,"lns":"lns-a","devEui":"70B3D57ED0000001","devAddr":"01ABCDEF",'
        b'"fCnt":42,"fPort":2,"confirmed":true,"payload":"c0ffee","station":"B827EBFFFE123456",'
        b'"rssi":-71,"snr":9.5,"freqHz":868100000,"dr":5,"receivedAt":"2026-11-20T02:00:30.393Z"}'
    )


def test_messages_arrive_once_and_in_order_of_each_device(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    async def body() -> None:
        async with way(mosquitto.url, tmp_path) as upstream:
            sent = [message(n, dev_eui) for n in range(1500) for dev_eui in (ALPHA, BETA)]
            await asyncio.gather(*(upstream.publish(one) for one in sent))
            await upstream.drained()
            assert upstream.waiting == 0

    asyncio.run(body())
    heard = listener.count(3000)
    assert len(heard) == 3000
    assert set(map(tuple, numbers(heard).values())) == {tuple(range(1, 1501))}
    assert [one.body["fCnt"] for one in heard if one.body["devEui"] == ALPHA] == list(range(1500))


def test_every_acknowledgement_is_told_with_what_still_waits(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []

    def acknowledged(entry: Entry, waiting: int) -> None:
        told.append((entry.sequence_number, waiting))

    async def body() -> None:
        mosquitto.stop()
        async with way(mosquitto.url, tmp_path, acknowledged=acknowledged) as upstream:
            for f_cnt in range(500):
                await upstream.publish(message(f_cnt))
            assert told == []
            mosquitto.start()
            await upstream.drained()

    asyncio.run(body())
    assert told == [(number, 500 - number) for number in range(1, 501)]


def test_a_broker_that_comes_later_gets_everything(tmp_path: Path) -> None:
    server = Mosquitto(tmp_path)

    async def body() -> list[Heard]:
        async with way(server.url, tmp_path) as upstream:
            for f_cnt in range(5):
                await upstream.publish(message(f_cnt))
            assert (upstream.connected, upstream.waiting) == (False, 5)
            server.start()
            listener = Listener(server.port)
            try:
                await upstream.drained()
                return listener.count(5)
            finally:
                listener.close()

    try:
        heard = asyncio.run(body())
    finally:
        server.stop()
    assert [one.body["fCnt"] for one in heard] == list(range(5))


def test_nothing_is_lost_when_the_broker_restarts(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    async def body() -> None:
        async with way(mosquitto.url, tmp_path) as upstream:
            for f_cnt in range(400):
                await upstream.publish(message(f_cnt))
                if f_cnt == 200:
                    mosquitto.stop()
                if f_cnt == 300:
                    mosquitto.start()
            await upstream.drained()

    asyncio.run(body())
    ids = [message(f_cnt).message_id for f_cnt in range(400)]
    heard = listener.wait_for(lambda heard: len({one.message_id for one in heard}) == 400)
    assert list(dict.fromkeys(one.message_id for one in heard)) == ids
    [found] = numbers(heard).values()
    assert found == list(range(1, 401)), "sent again with the same number"


def test_without_acknowledgement_a_message_goes_out_again(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    async def body() -> int:
        async with Relay(mosquitto.port) as relay:
            short = Patience(acknowledge_us=300_000)
            async with way(relay.url, tmp_path, patience=short) as upstream:
                await until(lambda: upstream.connected)
                relay.swallow("down")
                for f_cnt in range(3):
                    await upstream.publish(message(f_cnt))
                await until(lambda: not upstream.connected)
                assert upstream.waiting == 3
                await relay.restore()
                await upstream.drained()
            return relay.connections

    assert asyncio.run(body()) >= 2
    heard = listener.wait_for(lambda heard: len({one.message_id for one in heard}) == 3)
    arrived = [(one.message_id[-1], one.body["sequenceNumber"]) for one in heard]
    again = len(arrived) - 2
    assert again >= 2
    assert arrived == [("0", 1)] * again + [("1", 2), ("2", 3)]


def test_a_cut_wire_loses_nothing(mosquitto: Mosquitto, listener: Listener, tmp_path: Path) -> None:
    async def body() -> None:
        async with Relay(mosquitto.port) as relay, way(relay.url, tmp_path) as upstream:
            for f_cnt in range(300):
                await upstream.publish(message(f_cnt))
                if f_cnt % 50 == 25:
                    relay.cut()
                    await relay.restore()
            await upstream.drained()

    asyncio.run(body())
    heard = listener.wait_for(lambda heard: len({one.message_id for one in heard}) == 300)
    [found] = numbers(heard).values()
    assert found == list(range(1, 301))


def test_no_key_and_no_password_is_shown(
    mosquitto: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-c", "-b", passwords, "operator", "right"], check=True)
    passwords.chmod(0o644)
    (tmp_path / "closed").mkdir()
    server = Mosquitto(tmp_path / "closed", f"password_file {passwords}").start()
    port = server.port

    async def body() -> None:
        wrong = f"mqtt://operator:hunter2@127.0.0.1:{port}"
        async with way(wrong, tmp_path) as upstream:
            await until(lambda: "refuses the login" in caplog.text)
            await asyncio.sleep(0.3)
            await upstream.publish(message(1))
            assert not upstream.connected

    async def again() -> None:
        async with way(f"mqtt://operator:right@127.0.0.1:{port}", tmp_path) as upstream:
            await upstream.drained()

    try:
        with caplog.at_level(logging.INFO):
            asyncio.run(body())
            assert [record.getMessage() for record in caplog.records] == [
                f"mqtt://127.0.0.1:{port} refuses the login: Not authorized; 0 messages wait"
            ], "said once, however often it is tried"
            caplog.clear()
            asyncio.run(again())
    finally:
        server.stop()
    assert "is connected; 1 messages wait" in caplog.text
    assert "hunter2" not in caplog.text and "right" not in caplog.text


@on_a_loop
async def test_a_full_outbox_says_what_the_broker_does(tmp_path: Path) -> None:
    async with way("mqtt://127.0.0.1:1", tmp_path, messages_max=2) as upstream:
        await upstream.publish(message(1))
        await upstream.publish(message(2))
        with pytest.raises(UpstreamUnavailable, match="is full: 2 messages wait; mqtt://"):
            await upstream.publish(message(3))


def test_what_was_durable_survives_kill_9(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    durable: list[str] = []
    for life in range(3):
        command = [sys.executable, "-m", "tests.lns.delivery.publishing_process"]
        command += [mosquitto.url, str(tmp_path), str(life * 100_000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            durable += [child.stdout.readline().strip() for _ in range(300)]
            os.kill(child.pid, signal.SIGKILL)
            # What was reported in the moment of death counts too; a torn last line does not.
            durable += [line.strip() for line in child.stdout if line.endswith("\n")]

    async def the_rest() -> None:
        async with way(mosquitto.url, tmp_path) as upstream:
            await upstream.drained()

    asyncio.run(the_rest())
    heard = listener.wait_for(lambda heard: set(durable) <= {one.message_id for one in heard})
    assert len(set(durable)) >= 900
    per_id: dict[str, set[bytes]] = defaultdict(set)
    for one in heard:
        per_id[one.message_id].add(one.payload)
    assert {len(payloads) for payloads in per_id.values()} == {1}, "the same message every time"
    for found in numbers(heard).values():
        assert found == list(range(1, len(found) + 1)), "no number is given twice or left out"


def test_a_message_that_is_refused_stays(
    mosquitto: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    acl = tmp_path / "acl"
    acl.write_text(f"topic read #\ntopic write {message(1, BETA).topic}\n")
    acl.chmod(0o644)
    (tmp_path / "strict").mkdir()
    server = Mosquitto(tmp_path / "strict", f"acl_file {acl}").start()

    async def body() -> None:
        async with way(server.url, tmp_path, drain_us=10_000) as upstream:
            await upstream.publish(message(1))
            await until(lambda: f"refuses messages on {message(1).topic}" in caplog.text)
            for n in range(20):  # Mosquitto 2.0.11 ends the connection with each refusal
                await upstream.publish(message(n, BETA))
            await until(lambda: upstream.waiting == 1)

    try:
        asyncio.run(body())
    finally:
        server.stop()


def into(took: list[tuple[str, int]]) -> Callable[[Published], None]:
    """Note the device and the counter of each message that a broker takes."""

    def take(published: Published) -> None:
        body = json.loads(published.payload)
        took.append((body["devEui"], body["fCnt"]))

    return take


def test_a_topic_that_is_refused_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However much of it waits: on the same connection, and it is tried again by itself."""
    took: list[tuple[str, int]] = []

    async def body() -> None:
        server = MqttBroker(tmp_path / "broker", into(took), pytest.fail)
        server.refusals_on[message(1).topic] = 1_000_000
        server.listen()
        async with way(Broker(str(server.path), 1), tmp_path, drain_us=1) as upstream:
            await asyncio.gather(*(upstream.publish(message(n)) for n in range(1200)))
            await asyncio.gather(*(upstream.publish(message(n, BETA)) for n in range(50)))
            await until(lambda: upstream.waiting == 1200)
            server.refusals_on.clear()
            await upstream.drained()
        server.go()

    with caplog.at_level(logging.INFO):
        asyncio.run(body())
    assert caplog.text.count("is connected") == 1
    assert took[:50] == [(BETA, n) for n in range(50)]
    assert took[50:] == [(ALPHA, n) for n in range(1200)]


def test_what_is_behind_a_refused_message_of_its_topic_waits(tmp_path: Path) -> None:
    """One of each topic is on its way: the broker would take the second one before the first."""
    took: list[tuple[str, int]] = []

    async def body() -> None:
        server = MqttBroker(tmp_path / "broker", into(took), pytest.fail)
        server.listen()
        async with way(Broker(str(server.path), 1), tmp_path) as upstream:
            await until(lambda: upstream.connected)
            server.be_mute()
            for sent in (message(1), message(2), message(3), message(1, BETA)):
                await upstream.publish(sent)
            await until(lambda: len(took) >= 2)
            assert took == [(ALPHA, 1), (BETA, 1)]
            server.be_well()
            server.refusals = 3
            await upstream.drained()
        server.go()

    asyncio.run(body())
    assert [f_cnt for dev_eui, f_cnt in took if dev_eui == ALPHA] == [1, 1, 2, 3]
    assert (BETA, 1) in took[2:], "it was not acknowledged either"


def test_no_more_is_on_its_way_than_the_broker_allows(tmp_path: Path) -> None:
    """MQTT 5.0, 3.2.2.3.3: a broker may end the connection of a client that sends more."""
    took: list[Published] = []

    async def body() -> None:
        server = MqttBroker(tmp_path / "broker", took.append, pytest.fail)
        server.receive_max = 2
        server.listen()
        short = Patience(acknowledge_us=1_000_000)
        async with way(Broker(str(server.path), 1), tmp_path, patience=short) as upstream:
            await until(lambda: upstream.connected)
            server.be_mute()
            for n in range(5):
                await upstream.publish(message(1, f"{n:016X}"))
            await until(lambda: not upstream.connected)
            assert len(took) == 2
            server.be_well()
            await upstream.drained()
        server.go()

    asyncio.run(body())
    assert len({published.topic for published in took}) == 5


def test_a_message_that_is_refused_is_waited_for_no_more(tmp_path: Path) -> None:
    async def body() -> None:
        async with way("mqtt://127.0.0.1:1", tmp_path) as upstream:
            with closing(connect(tmp_path / "lns-a.outbox", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                refused = asyncio.create_task(upstream.publish(message(1)))
                await asyncio.sleep(0)
                assert upstream.waiting == 1
                async with asyncio.timeout(5):
                    await upstream.drained()
        with pytest.raises(UpstreamUnavailable, match="cannot be written"):
            await refused

    asyncio.run(body())


def test_names_of_any_length_arrive(tmp_path: Path) -> None:
    """The length of the user properties has one octet, or two (MQTT 5.0, 1.5.5)."""
    took: list[Published] = []
    wrong: list[str] = []
    names = ["A" * n for n in (1, 9, 10, 16, 24, 32, 48, 64, 128, 256)]

    async def body() -> None:
        server = MqttBroker(tmp_path / "broker", took.append, wrong.append)
        server.listen()
        async with way(Broker(str(server.path), 1), tmp_path) as upstream:
            for name in names:
                await upstream.publish(message(100, name))  # of nine letters: 128 octets
            await until(lambda: bool(wrong) or not upstream.waiting)
        server.go()

    asyncio.run(body())
    assert not wrong
    assert {dict(one.properties)["partitionKey"] for one in took} == set(names)


def test_a_broker_that_dies_is_told_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.read(1000)
                if accepts:
                    writer.write(bytes.fromhex("2003000000"))  # CONNACK
                    await reader.read(1000)
            finally:
                writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, way(f"mqtt://127.0.0.1:{port}", tmp_path) as upstream:
            await until(lambda: "is gone before the login; is it a broker" in caplog.text)
            accepts.append(True)
            await upstream.publish(message(1))
            await until(lambda: "is gone: the connection was closed without a word" in caplog.text)

    accepts: list[bool] = []
    with caplog.at_level(logging.INFO):
        asyncio.run(body())
    assert "Unspecified" not in caplog.text
