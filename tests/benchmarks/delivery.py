"""What do outbox and inbox cost, next to paho and SQLite alone in the same run?

`python -m tests.benchmarks.delivery` publishes the same messages bare and through the outbox (as
`tests.benchmarks.upstream` does), takes a queue of the same messages from the broker bare and with
an inbox, and inserts as many rows into SQLite. Then it weighs what is remembered for each message.
Exit status 1 when a message through the outbox costs more than three times a bare one.
"""

import argparse
import asyncio
import gc
import os
import sqlite3
import statistics
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from time import perf_counter

import msgspec
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lns.delivery import Detectors, Inbox, Incoming, MessageIdWindow
from lns.delivery.effect import Effect, JsonLinesFile
from lns.delivery.mqtt_session import broker
from lns.delivery.subscription import HeldSubscription
from lns.store.inbox_store import InboxStore, MemoryInboxStore, SqliteInboxStore, Transaction
from tests.benchmarks.upstream import DEVICES, IN_FLIGHT, RUNS, in_own_process, message
from tests.broker import Mosquitto

COST_MAX = 3.0
COMMIT_ROWS = 500  # as many as an inbox puts into one commit
TOPIC = "lorawan/+/+/up"

Handle = Callable[[Incoming, Transaction], None]


def nothing(message: Incoming, transaction: Transaction) -> None:
    """The effect that costs nothing."""


def sqlite_alone(messages: int, folder: Path) -> float:
    """Seconds for as many rows of id and body, `COMMIT_ROWS` a commit, each on the disk."""
    rows = [
        (sent.message_id, msgspec.json.encode(sent.body(1)))
        for sent in map(message, range(messages))
    ]
    path = folder / "alone.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE message (id TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID")
        began = perf_counter()
        for first in range(0, messages, COMMIT_ROWS):
            db.execute("BEGIN")
            db.executemany("INSERT INTO message VALUES (?, ?)", rows[first : first + COMMIT_ROWS])
            db.execute("COMMIT")
        seconds = perf_counter() - began
    path.unlink()
    return seconds


class Session:
    """A session at the broker: it keeps what is published from now on, until it is ended."""

    def __init__(self, port: int, name: str) -> None:
        self._port, self._name = port, name
        self._connect(lambda client, done: setattr(client, "on_subscribe", lambda *_: done.set()))

    def take(self, messages: int) -> float:
        """Seconds until paho, with its thread, has taken so many."""
        left = messages

        def prepare(client: Client, done: Event) -> None:
            def one(*_: object) -> None:
                nonlocal left
                left -= 1
                if not left:
                    done.set()

            client.on_message = one

        began = perf_counter()
        self._connect(prepare)
        return perf_counter() - began

    def end(self) -> None:
        """Let the broker forget it."""
        self._connect(
            lambda client, done: setattr(client, "on_subscribe", lambda *_: done.set()), last=True
        )

    def _connect(self, prepare: Callable[[Client, Event], None], *, last: bool = False) -> None:
        client, done = Client(CallbackAPIVersion.VERSION2, self._name, protocol=MQTTv5), Event()
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 0 if last else 3600
        properties.ReceiveMaximum = IN_FLIGHT
        client.on_connect = lambda client, *_: client.subscribe(TOPIC, qos=1)
        prepare(client, done)
        client.connect("127.0.0.1", self._port, clean_start=last, properties=properties)
        client.loop_start()
        assert done.wait(120)
        client.disconnect()
        client.loop_stop()


async def inbox_takes(
    port: int, messages: int, store: InboxStore, effect: Effect | Handle
) -> float:
    """Seconds until an inbox has decided on so many and told the broker."""
    url = broker(f"mqtt://127.0.0.1:{port}")
    left, done = messages, asyncio.Event()

    def told(event: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    async with Inbox(store, effect, on_event=told) as inbox:
        subscription = HeldSubscription(
            url,
            TOPIC,
            "inbox",
            lambda d: inbox.offer(d.topic, d.payload, d.properties, d.qos, d.acknowledge),
            held_max=IN_FLIGHT,
        )
        began = perf_counter()
        async with subscription:
            await done.wait()
            seconds = perf_counter() - began
        figures = await inbox.figures()
    assert figures.accepted == messages, figures
    return seconds


def through_inbox(port: int, messages: int, folder: Path, *, to_file: bool) -> float:
    """The same for a SQLite store, and lines in a file or no effect at all."""

    async def run() -> float:
        store = SqliteInboxStore(folder / "inbox.sqlite")
        file = JsonLinesFile(folder / "lines.jsonl") if to_file else None
        try:
            return await inbox_takes(port, messages, store, file or nothing)
        finally:
            await store.close()
            if file is not None:
                file.close()

    try:
        return asyncio.run(run())
    finally:
        for path in folder.glob("inbox.sqlite*"):
            path.unlink()
        (folder / "lines.jsonl").unlink(missing_ok=True)


def weigh(messages: int, folder: Path) -> tuple[float, float]:
    """Octets for each remembered id: of a SQLite file, and of memory."""

    async def remember(store: InboxStore) -> None:
        detectors = Detectors(window=MessageIdWindow(), sequence=None)
        async with Inbox(store, nothing, detectors, waiting_max=messages) as inbox:
            for number in range(messages):
                sent = message(number)
                body = b'{"messageId":"%s"}' % sent.message_id.encode()
                inbox.offer(sent.topic, body, {}, 1, lambda: None)
                if number % COMMIT_ROWS == 0:
                    await inbox.settled()
            await inbox.settled()
        await store.close()

    path = folder / "weighed.sqlite"
    asyncio.run(remember(SqliteInboxStore(path)))
    on_disk = path.stat().st_size / messages
    memory = MemoryInboxStore()
    gc.collect()
    tracemalloc.start()
    asyncio.run(remember(memory))
    gc.collect()
    in_memory = tracemalloc.get_traced_memory()[0] / messages
    tracemalloc.stop()
    return on_disk, in_memory


def measure(messages: int, folder: Path) -> dict[str, list[float]]:
    """Seconds of each run, by what was measured."""
    rates: dict[str, list[float]] = {}
    (folder / "broker").mkdir()
    server = Mosquitto(folder / "broker", f"max_inflight_messages {IN_FLIGHT}").start()

    def note(what: str, seconds: float) -> None:
        rates.setdefault(what, []).append(seconds)

    def filled(name: str) -> Session:
        session = Session(server.port, name)
        in_own_process("bare", messages, server.port, folder)
        return session

    try:
        for _ in range(RUNS):
            for way in ("bare", "outbox"):
                note(f"publish {way}", in_own_process(way, messages, server.port, folder))
            session = filled("taker")
            note("take bare", session.take(messages))
            session.end()
            for to_file in (False, True):
                session = filled("inbox")
                what = "take inbox, JSON Lines" if to_file else "take inbox"
                note(what, through_inbox(server.port, messages, folder, to_file=to_file))
                session.end()
            note("insert SQLite alone", sqlite_alone(messages, folder))
    finally:
        server.stop()
    return rates


def main(arguments: list[str]) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=10_000, help="messages a run")
    parser.add_argument("--folder", type=Path, help="where the files lie: the disk to measure")
    options = parser.parse_args(arguments)
    messages: int = options.messages
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        seconds = measure(messages, Path(name))
        on_disk, in_memory = weigh(messages, Path(name))
    print(f"{messages} messages of {DEVICES} devices, median of {RUNS}; messages a second")
    for what, found in seconds.items():
        print(f"{what:24} {messages / statistics.median(found):8.0f}")
    print(f"a remembered id: {on_disk:.0f} octets in SQLite, {in_memory:.0f} in memory")
    cost = statistics.median(seconds["publish outbox"]) / statistics.median(seconds["publish bare"])
    print(f"outbox / bare, cost of a message: {cost:.2f} (at most {COST_MAX:.0f})")
    return 0 if cost <= COST_MAX else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main(sys.argv[1:]))
