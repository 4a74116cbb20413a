"""Four network servers race for every frame: each has one owner, who alone delivers and answers.

Real processes, a real Redis, a real broker and real WebSockets. What a claim costs is printed,
next to bare round trips of the same size to the same Redis.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import pytest

from bench.host.lns_process import Valkey
from lns.lorawan.frame import MType, build_data
from tests.benchmarks.load import claiming
from tests.blocking import start_now, stop_now
from tests.broker import Listener, Mosquitto
from tests.lns.store.lns_processes import KEYS, Server, addr, servers_in
from tests.sizes import size

SERVERS = 4
DEVICES = 50
ROUNDS = size(12, 40)
AT_ONCE = 10  # more could take longer than a claim may, where the servers share two cores
FRAMES = DEVICES * ROUNDS
UNAVAILABLE_MAX = FRAMES // 2
ANSWERED_MIN = 0.5
SHARE_MIN = 0.25

Frame = tuple[str, int]


def frames() -> Iterator[tuple[Frame, bytes]]:
    """Two frames of every device in turn: the second is claimed while the first one still is."""
    for first in range(0, ROUNDS, 2):
        for device in range(DEVICES):
            for f_cnt in (first, first + 1):
                yield (addr(device), f_cnt), phy(device, f_cnt)


def phy(device: int, f_cnt: int) -> bytes:
    return build_data(
        MType.CONFIRMED_UP if is_confirmed(f_cnt) else MType.UNCONFIRMED_UP,
        dev_addr=addr(device),
        f_cnt=f_cnt,
        keys=KEYS,
        f_port=2,
        payload=f_cnt.to_bytes(2, "big"),
    )


def is_confirmed(f_cnt: int) -> bool:
    return f_cnt % 4 >= 2


async def race(servers: Sequence[Server], sent: dict[Frame, bytes]) -> float:
    """Every frame to all servers in the same moment; seconds until all of them are decided."""
    began, phys = perf_counter(), list(sent.values())
    for first in range(0, len(phys), AT_ONCE):
        some = phys[first : first + AT_ONCE]
        for number, heard in enumerate(some):
            for place in range(SERVERS):
                servers[(number + place) % SERVERS].radio.tell(heard)
        for server in servers:
            await server.settled(first + len(some))
    return perf_counter() - began


def by_frame(servers: Sequence[Server]) -> dict[Frame, Counter[str]]:
    """How often each frame was decided in which way."""
    found: dict[Frame, Counter[str]] = {}
    for server in servers:
        for claim in server.claims:
            frame = claim["dev_addr"], claim["f_cnt"]
            found.setdefault(frame, Counter())[claim["decision"]] += 1
    return found


def check(servers: Sequence[Server], sent: dict[Frame, bytes], delivered: list[Frame]) -> None:
    """One owner, one message, at most one answer, no downlink counter twice."""
    decided = by_frame(servers)
    assert decided.keys() == sent.keys()
    assert {found.total() for found in decided.values()} == {SERVERS}
    assert not [frame for frame, found in decided.items() if found["Owner"] > 1]
    # Where each had its answer in time, one of them is the owner; this host may be busy.
    in_time = [found for found in decided.values() if not found["Unavailable"]]
    assert len(in_time) >= FRAMES - UNAVAILABLE_MAX
    assert {found["Owner"] for found in in_time} == {1}
    owned = sorted(frame for frame, found in decided.items() if found["Owner"])
    assert sorted(delivered) == owned
    for server in servers:
        for outcome in server.outcomes:
            assert (outcome["upstream"] == "forwarded") == (outcome["level2"] == "Owner")
            assert outcome["level2"] == "Owner" or outcome["answer"] in ("NotAsked", "Suppressed")
    answers = [answer for server in servers for answer in server.radio.answers()]
    assert max(Counter(answered for answered, _ in answers).values()) == 1
    assert max(Counter((down.dev_addr, down.f_cnt) for _, down in answers).values()) == 1
    assert {answered for answered, _ in answers} <= {sent[frame] for frame in owned}
    said = [o for server in servers for o in server.outcomes if o["answer"] in ("RX1", "RX2")]
    assert len(answers) == len(said)
    # A busy host answers some too late, or not at all when it could not keep the counter.
    confirmed = [frame for frame in owned if is_confirmed(frame[1])]
    assert len(answers) >= len(confirmed) * ANSWERED_MIN


def told(servers: Sequence[Server], seconds: float, bare: str) -> str:
    """The figures of the race, for the person at the console."""
    claims = [claim for server in servers for claim in server.claims]
    took_us = sorted(claim["duration_us"] for claim in claims)
    owners = Counter(
        server.lns for server in servers for c in server.claims if c["decision"] == "Owner"
    )
    away = sum(claim["decision"] == "Unavailable" for claim in claims)
    return (
        f"\n{FRAMES} frames at {SERVERS} servers: {len(claims) / seconds:.0f} claims a second,"
        f" p50 {took_us[len(took_us) // 2] / 1000:.1f} ms,"
        f" p99 {took_us[len(took_us) * 99 // 100] / 1000:.1f} ms, {away} without an answer in time;"
        f" owners {dict(sorted(owners.items()))}\n{bare}"
    )


def beside_bare(valkey: Valkey) -> tuple[float, str]:
    """Claims of four servers in one process against bare round trips: the share, and the text."""

    async def both() -> tuple[claiming.Asked, claiming.Asked]:
        found, by_number = await claiming.claims(valkey.url, 1000, AT_ONCE)
        assert {claiming.owners(claims) for claims in by_number} == {1}
        return found, await claiming.bare(valkey.url, 1000, AT_ONCE)

    ours, bare = asyncio.run(both())
    scripts = [
        claiming.over_socket(valkey.port, script, 2000, 1)
        for script in (claiming.CLAIM, claiming.TRIVIAL)
    ]
    share = ours.rate / bare.rate
    return share, (
        f"the claims alone: {ours.rate:.0f} a second, p99 {ours.part_ms(99):.1f} ms; bare round"
        f" trips: {bare.rate:.0f} a second, p99 {bare.part_ms(99):.1f} ms; share {share:.2f}\n"
        f"one plain socket: {scripts[0].rate:.0f} claims a second, p99 {scripts[0].part_ms(99):.2f}"
        f" ms; {scripts[1].rate:.0f} bare, p99 {scripts[1].part_ms(99):.2f} ms;"
        f" share {scripts[0].rate / scripts[1].rate:.2f}"
    )


@pytest.mark.broker
@pytest.mark.timeout(600)
def test_four_servers_race_for_every_frame(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("broker", "store"):
        (tmp_path / name).mkdir()
    mosquitto = Mosquitto(tmp_path / "broker").start()
    listener = Listener(mosquitto.port)
    valkey = start_now(Valkey(tmp_path / "store", append_only=False))
    sent = dict(frames())
    try:

        async def body() -> tuple[list[Server], float]:
            def settings(lns: str) -> dict[str, dict[str, object]]:
                return {
                    "store": {"url": valkey.url, "on_outage": "closed"},
                    "upstream": {"url": mosquitto.url},
                }

            async with servers_in(tmp_path, SERVERS, DEVICES, settings) as servers:
                return list(servers), await race(servers, sent)

        servers, seconds = asyncio.run(body())
        owned = sum(found["Owner"] for found in by_frame(servers).values())
        listener.count(owned)
        share, bare = beside_bare(valkey)  # which leaves time for one message too many
        delivered = [(m.body["devAddr"], m.body["fCnt"]) for m in listener.heard]
    finally:
        listener.close()
        mosquitto.stop()
        stop_now(valkey)
    with capsys.disabled():
        print(told(servers, seconds, bare))
    check(servers, sent, delivered)
    assert share >= SHARE_MIN
