"""A real broker, as the rig starts it."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from bench.host import lns_process
from bench.host.lns_process import Mosquitto, mosquitto_program
from bench.host.program import ProgramDied, ProgramMissing, is_answered
from tests.broker import Listener
from tests.looped import on_a_loop

pytestmark = pytest.mark.broker


def publish(port: int, topic: str, body: str) -> None:
    client = Client(CallbackAPIVersion.VERSION2, "publisher", protocol=MQTTv5)
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.publish(topic, body, qos=1).wait_for_publish(20)
    client.disconnect()
    client.loop_stop()


@on_a_loop
async def test_sessions_survive_a_stop_and_a_start_on_the_same_port(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    await broker.start()
    port = broker.port
    listener = Listener(port)
    listener.close()
    publish(port, "a", '{"messageId": "1"}')
    await broker.stop()
    assert not is_answered(port)
    await broker.start()
    assert broker.url == f"mqtt://127.0.0.1:{port}"
    listener = Listener(port)
    assert [heard.message_id for heard in listener.count(1)] == ["1"]
    listener.close()
    await broker.stop()
    assert broker.died is None


@on_a_loop
async def test_a_paused_broker_answers_nobody(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    await broker.start()
    broker.pause()
    with socket.create_connection(("127.0.0.1", broker.port), timeout=0.2) as connection:
        connection.sendall(b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x00")
        with pytest.raises(TimeoutError):
            connection.recv(1)
        broker.resume()
        connection.settimeout(60)
        assert connection.recv(1) == b"\x20"
    await broker.kill()


@on_a_loop
async def test_a_broker_that_is_killed_by_others_is_noticed(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    await broker.start()
    os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(ProgramDied, match="mosquitto ended by signal 9"):
        async with asyncio.timeout(60):
            await broker.watch()


@on_a_loop
async def test_a_configuration_that_is_wrong_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProgramDied, match="nonsense"):
        await Mosquitto(tmp_path, "nonsense yes").start()


@on_a_loop
async def test_a_port_that_was_taken_meanwhile_is_chosen_anew(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", broker.port))  # bound, and nobody answers
        before = broker.port
        await broker.start()
    assert broker.port != before
    await broker.stop()


def test_where_it_is_missing_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSQUITTO", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(lns_process, "_PLACES", ())
    with pytest.raises(ProgramMissing, match=r"make mosquitto.*apt-get install"):
        mosquitto_program()


def test_a_program_that_is_named_and_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSQUITTO", "/opt/mine/mosquitto")
    with pytest.raises(ProgramMissing, match="MOSQUITTO names /opt/mine/mosquitto"):
        mosquitto_program()
