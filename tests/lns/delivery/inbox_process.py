"""A consumer that may be killed: `FOLDER FIRST LAST` offers these messages, in order.

Says `accepted N` and `ignored N` for every event, and `acknowledged N` as a broker would hear it.
Every tenth message comes twice.
"""

import asyncio
import sys
from pathlib import Path

from lns.delivery import Detectors, Inbox, RemoveDuplicatesKeys
from lns.delivery.effect import JsonLinesFile
from lns.delivery.inbox import Event, Unread
from lns.store.inbox_store import SqliteInboxStore
from tests.lns.delivery.arriving import TOPIC, payload

AT_ONCE = 20  # as many as a broker sends before it wants an acknowledgement


def say(word: str, number: object) -> None:
    """One word to whoever watches; it arrives even when this process ends at once."""
    sys.stdout.write(f"{word} {number}\n")
    sys.stdout.flush()


def told(event: Event) -> None:
    """Say what was decided."""
    assert not isinstance(event, Unread)
    say(event.kind.removeprefix("inbox."), event.message_id.rpartition("-")[2])


async def consume(folder: Path, first: int, last: int) -> None:
    """Offer the messages, a few at a time."""
    store, lines = SqliteInboxStore(folder / "inbox.sqlite"), JsonLinesFile(folder / "up.jsonl")
    detectors = Detectors(keys=RemoveDuplicatesKeys())
    async with Inbox(store, lines, detectors, on_event=told, batch_max=7) as inbox:
        for number in range(first, last + 1):
            for _ in range(2 if number % 10 == 0 else 1):
                inbox.offer(TOPIC, payload(number), {}, 1, lambda n=number: say("acknowledged", n))
            if inbox.waiting >= AT_ONCE:
                await inbox.settled()
        await inbox.settled()
    lines.close()
    await store.close()


asyncio.run(consume(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
