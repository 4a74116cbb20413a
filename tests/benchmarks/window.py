"""What do a mark and a take cost when 20 s, 10 min and 7 days' worth of ids are remembered?

`python -m tests.benchmarks.window` fills each store of an inbox with as many ids as one message a
second leaves in the window (20, 600, 604 800), and takes messages on top. A *mark* remembers an id
that is known to be new; a *take* looks for the id, remembers it and lets go of what is over, as an
inbox does for every message. Both in transactions of 500, each on the disk or confirmed by Redis.
Exit status 1 when a take from a full window of 7 days costs more than four times one from 20 s.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from bench.host.lns_process import Valkey
from lns.delivery import Incoming, MessageIdWindow
from lns.store.inbox_redis import RedisInboxStore
from lns.store.inbox_store import Batch, InboxStore, MemoryInboxStore, SqliteInboxStore
from lns.store.redis_wire import redis_server
from tests.blocking import start_now, stop_now

SECOND_US = 1_000_000
WINDOWS_S = {"20 s": 20, "10 min": 600, "7 days": 604_800}
AT_ONCE = 500
MESSAGES = 2_000
RUNS = 5
COST_MAX = 4.0
PATIENCE_US = 60_000_000

Act = Callable[[Batch, Incoming, int], object]


def message(number: int) -> Incoming:
    """The message of a second."""
    dev_eui = f"70B3D57ED000{number % 50:04X}"
    message_id = f"{dev_eui}-01ABCDEF-{number}"
    return Incoming(channel=f"lorawan/lns-a/{dev_eui}/up", message_id=message_id)


async def play(
    store: InboxStore, window: MessageIdWindow, numbers: Sequence[int], act: Act
) -> float:
    """Seconds for one act on each of these messages."""
    seconds = 0.0
    for first in range(0, len(numbers), AT_ONCE):
        some = [
            (message(number), number * SECOND_US) for number in numbers[first : first + AT_ONCE]
        ]

        async def work(batch: Batch, some: Sequence[tuple[Incoming, int]] = tuple(some)) -> None:
            for one, at_us in some:
                act(batch, one, at_us)
            window.forget(batch, some[-1][1], 4 * len(some))

        wanted = [window.places(one) for one, _ in some]
        began = perf_counter()
        await store.transact(wanted, work)
        seconds += perf_counter() - began
    return seconds


async def measure(store: InboxStore, window_s: int) -> tuple[float, float]:
    """Microseconds for a mark and for a take, with so many seconds' worth of ids in the store."""
    window = MessageIdWindow(window_s * SECOND_US)
    marks, takes = [], []

    def mark(batch: Batch, one: Incoming, at_us: int) -> None:
        window.remember(batch, one, at_us, at_us // SECOND_US)

    def take(batch: Batch, one: Incoming, at_us: int) -> None:
        assert window.take(batch, one, at_us, at_us // SECOND_US) is None

    await play(store, window, range(1, window_s + 1), mark)
    at = window_s + 1
    for _ in range(RUNS):
        marks.append(await play(store, window, range(at, at + MESSAGES), mark))
        takes.append(await play(store, window, range(at + MESSAGES, at + 2 * MESSAGES), take))
        at += 2 * MESSAGES
    each = 1_000_000 / MESSAGES
    return statistics.median(marks) * each, statistics.median(takes) * each


def main(arguments: list[str]) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, help="where the files lie: the disk to measure")
    options = parser.parse_args(arguments)
    dear = False
    print(f"one message a second, {AT_ONCE} a transaction, median of {RUNS}; us a message")
    print(f"{'store':8} {'window':>8} {'ids':>8} {'mark':>8} {'take':>8}")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        server = start_now(Valkey(folder, append_only=False))
        stores: dict[str, Callable[[str], InboxStore]] = {
            "memory": lambda window: MemoryInboxStore(),
            "SQLite": lambda window: SqliteInboxStore(folder / f"{window}.sqlite"),
            "Redis": lambda window: RedisInboxStore(
                redis_server(server.url), window, consumer="c", patience_us=PATIENCE_US
            ),
        }

        async def run(opened: Callable[[str], InboxStore], window: str) -> tuple[float, float]:
            store = opened(window)
            try:
                return await measure(store, WINDOWS_S[window])
            finally:
                await store.close()

        try:
            for kind, opened in stores.items():
                cost = {}
                for window, window_s in WINDOWS_S.items():
                    mark_us, cost[window] = asyncio.run(run(opened, window))
                    row = f"{kind:8} {window:>8} {window_s:8} {mark_us:8.1f} {cost[window]:8.1f}"
                    print(row, flush=True)
                dear = dear or cost["7 days"] > COST_MAX * cost["20 s"]
        finally:
            stop_now(server)
    print(f"a take with 7 days' worth of ids costs at most {COST_MAX:.0f} times one with 20 s")
    return 1 if dear else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
