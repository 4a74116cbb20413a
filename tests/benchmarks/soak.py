"""Does the memory of `python -m lns` grow beyond its bounded caches?

`python -m tests.benchmarks.soak --minutes 10` sends it confirmed uplinks at a steady rate, each
heard by two of 50 stations, and looks at its memory every 10 s. The caches are full after the
retention of level 1 (60 s); from twice that on nothing may grow. Told is the slope of a line
through those samples. Exit status 1 when it is steeper than 24 octets an uplink: whoever keeps one
more thing of each uplink needs that for the smallest object and a place in a container.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.load.programs import NetworkServer
from tests.benchmarks.load.traffic import Devices, clock_us
from tests.benchmarks.load.wires import Wires

STATIONS, DEVICES = 50, 500
SAMPLE_S, WARM_UP_S = 10, 120
GROWTH_OCTETS_MAX = 24
PATIENCE_US = 5_000_000


def main(arguments: list[str]) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10, help="length of the load, from 5")
    parser.add_argument("--rate", type=float, default=400, help="uplinks a second")
    options = parser.parse_args(arguments)
    if options.minutes < 5:
        parser.error("five minutes at least, or nothing can be said")
    with tempfile.TemporaryDirectory() as folder:
        return _soak(Path(folder), options.minutes * 60, options.rate)


def _soak(folder: Path, length_s: float, rate: float) -> int:
    devices = Devices(DEVICES)
    found: list[tuple[float, int, int]] = []
    unanswered = 0
    print(f"{'s':>6} {'MB':>8} {'answers':>8} {'p99 ms':>8}", flush=True)
    with NetworkServer(folder / "soak", devices) as server, Wires(server.port, STATIONS) as wires:
        began_us, seconds = clock_us(), 0.0
        while seconds < length_s:
            uplinks = devices.paced(int(rate * SAMPLE_S), rate)
            # The second copy goes through the next station right behind the first.
            copies = [uplink for uplink in uplinks for _ in range(2)]
            answered, without = wires.pace(copies, PATIENCE_US)
            unanswered += without
            seconds = (clock_us() - began_us) / 1e6
            uplinks_sent = len(uplinks) * (len(found) + 1)
            found.append((seconds, uplinks_sent, server.memory_kb()))
            p99_ms = sorted(answered)[len(answered) * 99 // 100] / 1000 if answered else 0
            print(
                f"{seconds:6.0f} {found[-1][2] / 1024:8.2f} {len(answered):8} {p99_ms:8.1f}",
                flush=True,
            )
    settled = [(sent, kb * 1024) for seconds, sent, kb in found if seconds > WARM_UP_S]
    growth = statistics.linear_regression(*zip(*settled, strict=True)).slope
    level_mb = statistics.mean(octets for _, octets in settled) / 1024**2
    print(f"{unanswered} of {found[-1][1]} uplinks were not answered")
    print(f"{level_mb:.1f} MB from {WARM_UP_S} s on; growth {growth:.1f} octets an uplink")
    met = growth <= GROWTH_OCTETS_MAX
    print(f"{'met   ' if met else 'MISSED'} no growth beyond the bounded caches")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
