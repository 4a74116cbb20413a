"""How many receptions a second does the network server decide, with everything in memory?

Level 1 alone (`Sightings.note`) and the way from a station's text to its outcome (parse, MIC,
level 1, policy). Beside it, in the same run, the bare work nobody can avoid: parsing the same JSON
and computing the same AES-CMAC; and for level 1 a bare `dict` and a bare `cachetools.TTLCache`.
Then the longest that a reception waits for level 1 when 200 000 frames have become old in a quiet
minute: processor time, for what else this machine does meanwhile is not level 1's.
"""

import asyncio
import random
import sys
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from time import perf_counter, thread_time

from cachetools import TTLCache

from bench import clock
from bench.station.tap import link_pair
from lns.dedup.concentrator import RETENTION_US, DataKey, Sightings
from lns.lorawan.crypto import Direction, SessionKeys, data_mic
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import Mic, dev_addr, eui
from lns.lorawan.region import EU868
from lns.network_server import NetworkServer
from lns.station.messages import UpInfo, json_object
from lns.store.memory import MemoryStore
from lns.uplink.registry import Activation, EndDevice
from tests.station_texts import frame_text
from tests.xtimes import join

FRAMES = 5_000
MANY = 200_000
KEYS = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
DEV_EUI = eui("70B3D57ED0000001")
DEV_ADDR = dev_addr("26000001")
STATION = eui("0016C001F1500001")


class Application:
    """Takes every message and keeps none."""

    async def publish(self, message: object) -> None:
        """Take a message."""


def main() -> int:
    """Print the table; five runs each, the best."""
    texts = _texts()
    rows = [
        ("parse the JSON (bare)", len(texts), lambda: [json_object(text) for text in texts]),
        ("AES-CMAC of a frame (bare)", FRAMES, _macs),
        ("dict, get and set (bare)", FRAMES, lambda: _get_and_set({})),
        ("TTLCache, get and set (bare)", FRAMES, lambda: _get_and_set(_ttl_cache(_Ticks()))),
        ("level 1: Sightings.note", FRAMES, _sightings),
        ("text to outcome: NetworkServer", len(texts), lambda: clock.run(_server(texts))),
    ]
    print(f"{'what':34} {'a second':>12} {'us each':>9}")
    for what, number, work in rows:
        best_s = min(_seconds(work) for _ in range(5))
        print(f"{what:34} {number / best_s:12,.0f} {best_s / number * 1e6:9.2f}")
    print(f"\n{'after a quiet minute':34} {'frames':>12} {'longest':>9}")
    for what, longest_s in (("TTLCache (bare)", _bare_wait), ("level 1", _longest_wait)):
        best_s = min(longest_s() for _ in range(3))
        print(f"{what:34} {MANY:12,} {best_s * 1e3:6.2f} ms")
    return 0


def _seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def _texts() -> list[str]:
    texts = []
    for f_cnt in range(1, FRAMES + 1):
        phy = build_data(
            MType.UNCONFIRMED_UP,
            dev_addr=DEV_ADDR,
            f_cnt=f_cnt,
            keys=KEYS,
            f_port=2,
            payload=b"21.5 C",
        )
        upinfo = UpInfo(xtime=join(0, 7, 1_000_000 + f_cnt * 1_000), rssi_dbm=-80, snr_db=7.5)
        texts.append(frame_text(phy, dr=5, freq_hz=868_100_000, upinfo=upinfo))
    return texts


def _macs() -> None:
    message = bytes(24)
    for f_cnt in range(FRAMES):
        data_mic(KEYS.nwk_s_key, Direction.UP, DEV_ADDR, f_cnt, message)


class _Ticks:
    """A clock that goes on by a microsecond each time it is read."""

    def __init__(self) -> None:
        self.us = 0

    def __call__(self) -> int:
        self.us += 1
        return self.us


def _ttl_cache(clock: _Ticks) -> TTLCache[DataKey, int]:
    return TTLCache(1_000_000, RETENTION_US, timer=clock)


def _get_and_set(cache: MutableMapping[DataKey, int]) -> None:
    for f_cnt in range(FRAMES):
        key = DataKey(DEV_EUI, Mic("2B11FF0D"), f_cnt)
        cache[key] = cache.get(key, f_cnt)


def _bare_wait() -> float:
    clock = _Ticks()
    cache = _ttl_cache(clock)
    for f_cnt in range(MANY):
        cache[DataKey(DEV_EUI, Mic("2B11FF0D"), f_cnt)] = f_cnt
    clock.us += RETENTION_US
    began = thread_time()
    cache[DataKey(DEV_EUI, Mic("2B11FF0E"), 0)] = 0
    return thread_time() - began


def _longest_wait() -> float:
    clock = _Ticks()
    sightings = Sightings(clock)
    for f_cnt in range(MANY):
        sightings.note(DataKey(DEV_EUI, Mic("2B11FF0D"), f_cnt), STATION)
    clock.us += RETENTION_US
    keys = [DataKey(DEV_EUI, Mic("2B11FF0E"), f_cnt) for f_cnt in range(FRAMES)]
    longest_s = 0.0
    for key in keys:
        began = thread_time()
        sightings.note(key, STATION)
        longest_s = max(longest_s, thread_time() - began)
    return longest_s


def _sightings() -> None:
    sightings = Sightings(_Ticks())
    for f_cnt in range(FRAMES):
        sightings.note(DataKey(DEV_EUI, Mic("2B11FF0D"), f_cnt), STATION)


async def _server(texts: list[str]) -> int:
    device = EndDevice(
        name="alpha",
        dev_eui=DEV_EUI,
        activation=Activation.ABP,
        dev_addr=DEV_ADDR,
        session_keys=KEYS,
    )
    outcomes: list[object] = []
    server = NetworkServer(
        "lns-a",
        EU868,
        [device],
        store=MemoryStore(),
        application=Application(),
        record=outcomes.append,
        utc=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        entropy=random.Random(1),
    )
    ours, theirs = link_pair()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve(STATION, theirs))
        for text in texts:
            await ours.send(text)
        await asyncio.sleep(1)
        theirs.close()
    assert len(outcomes) == len(texts), "every reception has an outcome"
    return len(outcomes)


if __name__ == "__main__":
    sys.exit(main())
