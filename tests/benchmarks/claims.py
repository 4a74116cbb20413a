"""How many claims a second does a Redis grant to four servers, beside round trips that do nothing?

`python -m tests.benchmarks.claims` lets four servers, each with a connection of its own, claim the
same frames at the same moment: 1, 16 and 64 frames at once. In turns with the client of `redis` as
it comes, which runs a script of the same size that does nothing. Then both scripts over one plain
socket, where only Redis and the kernel count. Exit status 1 when a frame has not exactly one owner,
or when a share is below the aim.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.host.lns_process import Valkey
from tests.benchmarks.load.claiming import (
    CLAIM,
    SERVERS,
    TRIVIAL,
    Asked,
    bare,
    claims,
    over_socket,
    owners,
)
from tests.blocking import start_now, stop_now

RUNS = 3
AT_ONCE = (1, 16, 64)
DEPTHS = (1, 50)
SHARE_MIN = 0.5


def main(arguments: list[str]) -> int:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=2000, help="frames a measurement")
    parser.add_argument("--durable", action="store_true", help="on disk before it is answered")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        valkey = Valkey(Path(folder), append_only=options.durable)
        try:
            start_now(valkey)
            shares = _by_servers(valkey, options.frames) + _by_socket(valkey, options.frames)
        finally:
            stop_now(valkey)
    met = min(shares) >= SHARE_MIN
    print(f"{'met   ' if met else 'MISSED'} everywhere at least {SHARE_MIN:.0%} of the bare rate")
    return 0 if met else 1


def _by_servers(valkey: Valkey, frames: int) -> list[float]:
    print(f"{SERVERS} servers, {frames} frames, median of {RUNS}; claims, and bare round trips")
    print(f"{'at once':>8} | {'a second':>8} {'p99 ms':>7} | {'a second':>8} {'p99 ms':>7} | share")
    shares = []
    for at_once in AT_ONCE:
        ours, others = [], []
        for _ in range(RUNS):
            ours.append(_owned(valkey, frames, at_once))
            others.append(asyncio.run(bare(valkey.url, frames, at_once)))
        shares.append(_row(at_once, ours, others))
    return shares


def _owned(valkey: Valkey, frames: int, at_once: int) -> Asked:
    """One race in an empty store; AssertionError when a frame has not exactly one owner."""
    stop_now(valkey)
    folder = valkey.log.parent
    for kept in folder.glob("appendonlydir/*"):
        kept.unlink()
    start_now(valkey)
    found, by_frame = asyncio.run(claims(valkey.url, frames, at_once))
    wrong = [claimed for claimed in by_frame if owners(claimed) != 1]
    assert not wrong, f"{len(wrong)} of {frames} frames have not exactly one owner: {wrong[0]}"
    return found


def _by_socket(valkey: Valkey, questions: int) -> list[float]:
    print("one plain socket, no client")
    print(f"{'a trip':>8} | {'a second':>8} {'p99 ms':>7} | {'a second':>8} {'p99 ms':>7} | share")
    shares = []
    for depth in DEPTHS:
        pairs = [
            [over_socket(valkey.port, script, questions, depth) for script in (CLAIM, TRIVIAL)]
            for _ in range(RUNS)
        ]
        shares.append(_row(depth, [pair[0] for pair in pairs], [pair[1] for pair in pairs]))
    return shares


def _row(number: int, ours: Sequence[Asked], others: Sequence[Asked]) -> float:
    """Print one line of a table; returns the share of the bare rate."""
    (rate, p99), (bare_rate, bare_p99) = (
        (
            statistics.median(asked.rate for asked in found),
            statistics.median(asked.part_ms(99) for asked in found),
        )
        for found in (ours, others)
    )
    share = rate / bare_rate
    print(
        f"{number:8} | {rate:8.0f} {p99:7.2f} | {bare_rate:8.0f} {bare_p99:7.2f} | {share:5.0%}",
        flush=True,
    )
    return share


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
