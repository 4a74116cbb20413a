"""How fast do messages reach the broker through the outbox, next to paho alone?

`python -m tests.benchmarks.upstream` sends the same messages to the same Mosquitto (MQTT 5.0, QoS
1), in turns: `bare` is paho with its own thread and no disk at all, `plain` the same without user
properties, `outbox` is `MqttUpstream`, every message on the disk before it is sent. Exit status 1
when the outbox reaches less than half the rate of `bare`.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import msgspec
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lns.delivery.mqtt_sender import MqttUpstream
from lns.delivery.mqtt_session import broker
from lns.delivery.publisher import Message
from tests.broker import Mosquitto

RUNS = 3
IN_FLIGHT = 200
DEVICES = 100
PUBLISHERS = 256  # receptions that the server handles at once
SHARE_MIN = 0.5


def message(number: int) -> Message:
    """The n-th message of the benchmark."""
    dev_eui = f"70B3D57ED000{number % DEVICES:04X}"
    f_cnt = number // DEVICES
    return Message(
        message_id=f"{dev_eui}-01ABCDEF-{f_cnt}",
        remove_duplicates_key=f"{dev_eui}-01ABCDEF-{f_cnt}",
        lns="lns-a",
        dev_eui=dev_eui,
        dev_addr="01ABCDEF",
        f_cnt=f_cnt,
        f_port=2,
        confirmed=True,
        payload=bytes(range(20)),
        station="B827EBFFFE123456",
        rssi_dbm=-71.0,
        snr_db=9.5,
        freq_hz=868_100_000,
        dr=5,
        received_at=datetime(2026, 11, 20, 2, 0, 30, tzinfo=UTC),
        dup_msg=False,
    )


def bare(port: int, messages: list[Message], *, plain: bool = False) -> float:
    """Seconds until paho, with its thread, has every message acknowledged."""
    left, done = len(messages), threading.Event()

    def published(*_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    connected = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, "bare", protocol=MQTTv5)
    client.max_inflight_messages = IN_FLIGHT
    client.on_publish = published
    client.on_connect = lambda *_: connected.set()
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert connected.wait(10)
    began = perf_counter()
    for number, sent in enumerate(messages):
        body = sent.body(number // DEVICES + 1)
        properties = None
        if not plain:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            properties.UserProperty = [
                (name, str(body[name])) for name in ("messageId", "partitionKey", "sequenceNumber")
            ]
        client.publish(sent.topic, msgspec.json.encode(body), 1, properties=properties)
    assert done.wait(300)
    seconds = perf_counter() - began
    client.disconnect()
    client.loop_stop()
    return seconds


def through_outbox(port: int, messages: list[Message], folder: Path) -> float:
    """Seconds until `MqttUpstream` has every message acknowledged, `PUBLISHERS` at a time."""

    async def run() -> float:
        url = broker(f"mqtt://127.0.0.1:{port}")
        chance = random.Random(1)
        outbox = folder / "bench.outbox"
        async with MqttUpstream(url, outbox, client_id="outbox", chance=chance) as upstream:
            await upstream.publish(message(0))
            await upstream.drained()
            began = perf_counter()
            rest = iter(messages)

            async def publish() -> None:
                for sent in rest:
                    await upstream.publish(sent)

            await asyncio.gather(*(publish() for _ in range(PUBLISHERS)))
            await upstream.drained()
            return perf_counter() - began

    return asyncio.run(run())


WAYS: dict[str, Callable[[int, list[Message], Path], float]] = {
    "plain": lambda port, messages, folder: bare(port, messages, plain=True),
    "bare": lambda port, messages, folder: bare(port, messages),
    "outbox": through_outbox,
}


def main(arguments: list[str]) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=20_000, help="messages a run")
    parser.add_argument("--folder", type=Path, help="where the outbox lies: the disk to measure")
    parser.add_argument("--way", choices=sorted(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.way:
            messages = [message(number) for number in range(options.messages)]
            print(WAYS[options.way](options.port, messages, Path(folder)))
            return 0
        return _compare(options.messages, Path(folder))


def _compare(messages: int, folder: Path) -> int:
    # Mosquitto lets a client have 20 messages unacknowledged unless it is told otherwise.
    server = Mosquitto(folder, f"max_inflight_messages {IN_FLIGHT}").start()
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    try:
        for _ in range(RUNS):
            for way in WAYS:
                rates[way].append(messages / in_own_process(way, messages, server.port, folder))
    finally:
        server.stop()
    print(f"{messages} messages, {IN_FLIGHT} in flight, median of {RUNS}; messages a second")
    for way, found in rates.items():
        print(f"{way:8} {statistics.median(found):8.0f}   ({min(found):.0f} to {max(found):.0f})")
    share = statistics.median(rates["outbox"]) / statistics.median(rates["bare"])
    print(f"outbox / bare: {share:.2f} (at least {SHARE_MIN})")
    return 0 if share >= SHARE_MIN else 1


def bare_in_own_process(messages: int, port: int, folder: Path) -> float:
    """Seconds of `bare` where nothing else is in the way of its thread."""
    return in_own_process("bare", messages, port, folder)


def in_own_process(way: str, messages: int, port: int, folder: Path) -> float:
    """Seconds of one way, where nothing else of this process is in its way."""
    command = [sys.executable, "-m", "tests.benchmarks.upstream", "--messages", str(messages)]
    command += ["--way", way, "--port", str(port), "--folder", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    return float(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main(sys.argv[1:]))
