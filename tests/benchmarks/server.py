"""How many uplinks a second does `python -m lns` bring to their outcome, and to the broker?

`python -m tests.benchmarks.server` drives it over real WebSockets with 1, 2, 50 and 500 stations,
capture on, beside a bare `websockets` server that parses the same JSON and sends it back, in turns
in the same run. What else the host does makes a run slower and never faster, so the best of several
short ones counts, on either side. Beside the share of the rate stands that of the processor time;
where the two differ, somebody else had the cores. The frames are all different and of 500 ABP
devices, so every one goes through MIC check and level 1. Then confirmed uplinks, as fast as they
are answered and then at half that rate: the time from `updf` to `dnmsg`. Then with a Mosquitto,
next to paho alone. Exit status 1 when an aim is missed; the aims are meant for a machine that has
two cores to spare.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.load.programs import NetworkServer, Program, echo_server
from tests.benchmarks.load.traffic import Devices, Sent
from tests.benchmarks.load.wires import Wires
from tests.benchmarks.upstream import IN_FLIGHT, bare_in_own_process
from tests.broker import Mosquitto

STATIONS = (1, 2, 50, 500)
DEVICES = 500
RUNS = 7
BROKER_RUNS = 3
FRAMES = 20_000
SHARE_OF_ECHO_MIN = 0.4
SHARE_OF_PAHO_MIN = 0.5
P99_MS_MAX = 50.0
PATIENCE_US = 5_000_000
AHEAD = 64  # uplinks under way beside two of each station: enough that no server waits
AHEAD_OF_BROKER = 2000
OUTCOME, FIRST = b'"kind":"lns.outcome"', b'"status":"NonDuplicate"'
ACKNOWLEDGED = b'"kind":"upstream.acknowledged"'


@dataclass(frozen=True, slots=True)
class Pace:
    """One measurement: uplinks a second, and microseconds of processor time for each."""

    rate: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Row:
    """What was found with so many stations."""

    stations: int
    echo: Pace
    server: Pace
    answering: Pace
    p50_ms: float
    p99_ms: float
    unanswered: int

    @property
    def share(self) -> float:
        """The rate of the network server against that of the echo server."""
        return self.server.rate / self.echo.rate

    @property
    def cpu_share(self) -> float:
        """The same of what a processor can do in a second."""
        return self.echo.cpu_us / self.server.cpu_us


def main(arguments: list[str]) -> int:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--uplinks", type=int, default=6000, help="uplinks a measurement")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the paced load")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = _to_outcome(Path(folder), options.uplinks, options.seconds)
        _print_rows(rows)
        _memory(Path(folder))
        share = _to_broker(Path(folder), options.uplinks)
    aims = {
        f"at least {SHARE_OF_ECHO_MIN:.0%} of the echo server's rate": min(
            row.share for row in rows
        )
        >= SHARE_OF_ECHO_MIN,
        f"p99 under {P99_MS_MAX:.0f} ms at half load, everything answered": all(
            row.p99_ms < P99_MS_MAX and not row.unanswered for row in rows
        ),
        f"with upstream at least {SHARE_OF_PAHO_MIN:.0%} of paho's rate": share
        >= SHARE_OF_PAHO_MIN,
    }
    for aim, met in aims.items():
        print(f"{'met   ' if met else 'MISSED'} {aim}")
    print("no growth of memory: python -m tests.benchmarks.soak --minutes 10")
    return 0 if all(aims.values()) else 1


def _to_outcome(folder: Path, uplinks: int, seconds: float) -> list[Row]:
    devices = Devices(DEVICES)
    rows = []
    with echo_server(folder) as echo, NetworkServer(folder / "outcome", devices) as server:
        flood_echo(echo, devices.uplinks(uplinks), 2)  # the first run of a program is slower
        flood(server, devices.uplinks(uplinks), 2)
        for stations in STATIONS:
            pairs = []
            for _ in range(RUNS):
                sent = devices.uplinks(uplinks // 2)
                pairs.append((flood_echo(echo, sent, stations), flood(server, sent, stations)))
            echoed, reached = (_best([pair[side] for pair in pairs]) for side in (0, 1))
            answering = flood_confirmed(server, devices, stations, uplinks // 3)
            found_us, unanswered = latencies(server, devices, stations, answering.rate / 2, seconds)
            ms = sorted(us / 1000 for us in found_us) or [float("inf")]
            p50_ms, p99_ms = ms[len(ms) // 2], ms[len(ms) * 99 // 100]
            rows.append(Row(stations, echoed, reached, answering, p50_ms, p99_ms, unanswered))
    return rows


def flood_echo(echo: Program, uplinks: list[Sent], stations: int) -> Pace:
    """Send uplinks as fast as the echo server sends them back."""
    # What comes back is what was sent without its masking key of four octets.
    octets = sum(len(sent.octets) - 4 for sent in uplinks) / len(uplinks)
    with Wires(echo.port, stations, introduced=False) as wires:
        cpu_s = echo.cpu_s()
        seconds = wires.flood(uplinks, lambda: round(wires.octets / octets), AHEAD)
        return Pace(len(uplinks) / seconds, (echo.cpu_s() - cpu_s) / len(uplinks) * 1e6)


def flood(
    server: NetworkServer,
    uplinks: list[Sent],
    stations: int,
    until: bytes = OUTCOME,
    ahead: int = AHEAD,
) -> Pace:
    """Send uplinks as fast as the capture has a line `until` for each.

    AssertionError when one of them was not a first copy.
    """
    server.new_lines()
    arrived = firsts = 0

    def reached() -> int:
        nonlocal arrived, firsts
        new, first = server.new_lines(until, FIRST)
        arrived, firsts = arrived + new, firsts + first
        return arrived

    with Wires(server.port, stations) as wires:
        cpu_s = server.cpu_s()
        seconds = wires.flood(uplinks, reached, ahead)
        cpu_us = (server.cpu_s() - cpu_s) / len(uplinks) * 1e6
    assert firsts == len(uplinks), f"{firsts} of {len(uplinks)} uplinks were a first copy"
    return Pace(len(uplinks) / seconds, cpu_us)


def flood_confirmed(server: NetworkServer, devices: Devices, stations: int, count: int) -> Pace:
    """The same with uplinks that are all answered; so few that none comes too late for that."""
    return flood(server, devices.burst(count), stations)


def latencies(
    server: NetworkServer, devices: Devices, stations: int, rate: float, seconds: float
) -> tuple[list[int], int]:
    """Confirmed uplinks at a steady rate: us until each answer, and how many had none."""
    with Wires(server.port, stations) as wires:
        return wires.pace(devices.paced(int(rate * seconds), rate), PATIENCE_US)


def _best(found: list[Pace]) -> Pace:
    return Pace(max(pace.rate for pace in found), min(pace.cpu_us for pace in found))


def _print_rows(rows: list[Row]) -> None:
    print(
        f"{'':8} | {'echo server':^17} | {'to the outcome':^31} | {'answered':^15}"
        " | updf to dnmsg at half that"
    )
    print(
        f"{'stations':8} | {'a second':>8} {'cpu us':>8}"
        f" | {'a second':>8} {'cpu us':>8} {'share':>6} {'by cpu':>6}"
        f" | {'a second':>8} {'cpu us':>6} | {'p50 ms':>6} {'p99 ms':>6} {'unanswered':>10}"
    )
    for row in rows:
        print(
            f"{row.stations:8} | {row.echo.rate:8.0f} {row.echo.cpu_us:8.0f}"
            f" | {row.server.rate:8.0f} {row.server.cpu_us:8.0f}"
            f" {row.share:6.0%} {row.cpu_share:6.0%}"
            f" | {row.answering.rate:8.0f} {row.answering.cpu_us:6.0f}"
            f" | {row.p50_ms:6.1f} {row.p99_ms:6.1f} {row.unanswered:10}"
        )


def _memory(folder: Path) -> None:
    """What a station and a frame that level 1 remembers cost."""
    devices = Devices(DEVICES)
    with NetworkServer(folder / "memory", devices) as server:
        flood(server, devices.uplinks(2 * DEVICES), 1)
        before_kb = server.memory_kb()
        flood(server, devices.uplinks(FRAMES), 1)
        empty_kb = server.memory_kb()
        with Wires(server.port, max(STATIONS)):
            connected_kb = server.memory_kb()
    frame_octets = (empty_kb - before_kb) * 1024 / FRAMES
    station_kb = (connected_kb - empty_kb) / max(STATIONS)
    print(f"memory: {before_kb / 1024:.0f} MB with {DEVICES} devices and no station,")
    print(f"  {station_kb:.1f} kB a connected station, {frame_octets:.0f} octets a cached frame")


def _to_broker(folder: Path, uplinks: int) -> float:
    """Print the rate to the broker's acknowledgement; returns its share of paho's own."""
    devices = Devices(DEVICES)
    broker = Mosquitto(folder, f"max_inflight_messages {IN_FLIGHT}").start()
    upstream = f'[upstream]\nurl = "{broker.url}"\noutbox = "bench.outbox"\n'
    try:
        with NetworkServer(folder / "upstream", devices, upstream) as server:
            flood(server, devices.uplinks(uplinks), 50, ACKNOWLEDGED, AHEAD_OF_BROKER)
            bare, reached = [], []
            for _ in range(BROKER_RUNS):
                seconds = bare_in_own_process(uplinks, broker.port, folder)
                bare.append(uplinks / seconds)
                sent = devices.uplinks(uplinks)
                reached.append(flood(server, sent, 50, ACKNOWLEDGED, AHEAD_OF_BROKER))
    finally:
        broker.stop()
    found, paho = _best(reached), max(bare)
    print(f"to the broker, QoS 1, 50 stations: {found.rate:.0f} a second, {found.cpu_us:.0f} us of")
    print(f"  processor each; paho alone {paho:.0f} a second; share {found.rate / paho:.0%}")
    return found.rate / paho


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
