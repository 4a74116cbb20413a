"""One of several consumers of an inbox: `URL NAME CONSUMER LEASE_MS MESSAGES LOG`.

Everyone gets every message, and those that are to be killed from the last one on. An effect is a
line in LOG: id, consumer, monotonic time in ns. With MESSAGES 0 the one effect there is never ends.
Says `begun ID` of every effect on standard output.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from lns.delivery.detectors import Detectors, RemoveDuplicatesKeys
from lns.delivery.inbox import Inbox
from lns.delivery.incoming import Incoming
from lns.store.inbox_redis import RedisInboxStore
from lns.store.inbox_store import Transaction
from lns.store.redis_wire import redis_server
from tests.lns.delivery.arriving import TOPIC, payload

AT_ONCE = 10


async def consume(
    url: str, name: str, consumer: str, lease_us: int, messages: int, path: Path
) -> None:
    """Take the messages, a few at a time."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def effect(message: Incoming, transaction: Transaction) -> None:
        os.write(log, f"{message.message_id} {consumer} {time.monotonic_ns()}\n".encode())
        print(f"begun {message.message_id}", flush=True)
        if not messages:
            await asyncio.Event().wait()

    store = RedisInboxStore(
        redis_server(url), name, consumer=consumer, lease_us=lease_us, patience_us=10_000_000
    )
    detectors = Detectors(sequence=None, keys=RemoveDuplicatesKeys())
    async with Inbox(store, effect, detectors) as inbox:
        numbers = range(1, max(1, messages) + 1)
        for number in reversed(numbers) if consumer.startswith("killed") else numbers:
            inbox.offer(TOPIC, payload(number), {}, 1, lambda: None)
            if inbox.waiting >= AT_ONCE:
                await inbox.settled()
        await inbox.settled()
    await store.close()
    os.close(log)


url, name, consumer, lease_ms, messages, path = sys.argv[1:]
asyncio.run(consume(url, name, consumer, int(lease_ms) * 1000, int(messages), Path(path)))
