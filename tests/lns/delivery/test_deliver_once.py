"""Radio frame to application, every part killed at any moment: nothing lost, each effect once.

A network server, a broker and an inbox as real processes. Devices send confirmed uplinks as fast
as they are answered; all three are killed with SIGKILL, in any combination. Mosquitto acknowledges
before it writes, which it does once a second here; so the network server keeps messages for three.
LORABENCH_KILLS, LORABENCH_KILL_SEED and LORABENCH_UPLINKS choose how often, when and how many.
"""

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pytest

from bench.chance import stream
from bench.host.lns_process import LnsProcess, Mosquitto
from bench.host.program import Program
from lns.delivery.inbox import Figures, figures_in
from lns.delivery.outbox import state_of
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import DevAddr, Eui
from lns.station.messages import Dnmsg, UpInfo
from lns.station.protocol import LinkClosed
from tests import forked
from tests.lns.served_network import WEST
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.sizes import size
from tests.station_texts import frame_text

KILLS = int(os.environ.get("LORABENCH_KILLS", size(4, 60)))
SEED = int(os.environ.get("LORABENCH_KILL_SEED", "1"))
UPLINKS = int(os.environ.get("LORABENCH_UPLINKS", size(500, 6_000)))
DEVICES = 40
ANSWER_S = 1.5
ATTEMPTS_MAX = 3
PROGRESS_S = 120.0
ROOT = Path(__file__).resolve().parents[3]


class Device:
    """One device with a session by hand; it repeats a frame until it is answered."""

    def __init__(self, number: int) -> None:
        self.dev_eui = Eui(f"70B3D57ED000{number:04X}")
        self.dev_addr = DevAddr(f"0100{number:04X}")
        self.keys = SessionKeys(bytes([number] * 16), bytes([number + 100] * 16))
        self.f_cnt = 0

    @property
    def table(self) -> dict[str, object]:
        """Its entry in `devices.toml`."""
        return {
            "name": f"d{self.dev_eui[-4:]}",
            "dev_eui": self.dev_eui,
            "activation": "abp",
            "dev_addr": self.dev_addr,
            "nwk_s_key": self.keys.nwk_s_key.hex(),
            "app_s_key": self.keys.app_s_key.hex(),
            "relaxed_f_cnt": False,
        }

    @property
    def key(self) -> str:
        """The Remove Duplicates key of the frame that it sends now."""
        return f"{self.dev_eui}-{self.dev_addr}-{self.f_cnt}"

    def frame(self) -> bytes:
        """The frame that it sends now."""
        return build_data(
            MType.CONFIRMED_UP,
            dev_addr=self.dev_addr,
            f_cnt=self.f_cnt,
            keys=self.keys,
            f_port=2,
            payload=self.f_cnt.to_bytes(4, "big"),
        )


class Radio(BasicsStation):
    """A station that connects again and again, and knows which frame each downlink answers."""

    def __init__(self) -> None:
        super().__init__(WEST, "")
        self.sessions = cycle(range(17, 256))
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._last_xtime = 0

    async def stay(self, lns: LnsProcess) -> None:
        """Be connected whenever there is a server to connect to."""
        while True:
            self.tc_uri, self.uri = lns.uri, ""
            self.texts.clear()
            with suppress(LinkClosed, OSError, TimeoutError, asyncio.IncompleteReadError):
                await self.connect()
                await self.until_configured()
                await self.run()
            self.socket = None
            await asyncio.sleep(0.02)

    async def ask(self, phy: bytes) -> bool:
        """Tell the server of a frame; whether it was answered in time."""
        while self.socket is None or not self.clock_shown:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
        xtime = self._last_xtime = max(self.xtime_now(), self._last_xtime + 1)
        text = frame_text(
            phy, dr=5, freq_hz=868_100_000, upinfo=UpInfo(xtime=xtime, rssi_dbm=-71, snr_db=9.5)
        )
        assert text is not None
        answered = self._waiting[xtime] = asyncio.get_running_loop().create_future()
        self.socket.send_text(text)
        try:
            async with asyncio.timeout(ANSWER_S):
                await answered
        except TimeoutError:
            return False
        finally:
            del self._waiting[xtime]
        return True

    def _obey(self, text: str) -> None:
        super()._obey(text)
        for dnmsg in chain(self.dnmsgs, self.obsolete):
            self._take(dnmsg)
        self.dnmsgs.clear()
        self.obsolete.clear()

    def _take(self, dnmsg: Dnmsg) -> None:
        answered = self._waiting.get(dnmsg.xtime)
        if answered is not None and not answered.done():
            answered.set_result(None)


class Story:
    """The three processes, the devices, and what must be true in the end."""

    def __init__(self, folder: Path) -> None:
        for name in ("broker", "lns", "inbox"):
            (folder / name).mkdir()
        self.chance: random.Random = stream(SEED, "deliver once")
        self.counts: Counter[str] = Counter()
        self.sent: set[str] = set()
        self.owed: set[str] = set()
        self.devices = [Device(number) for number in range(1, DEVICES + 1)]
        self.radio = Radio()
        saving = "autosave_interval 1"
        self.broker = Mosquitto(folder / "broker", "max_inflight_messages 200", saving)
        self.lns = LnsProcess(
            folder / "lns",
            {
                "lns": {"id": "lns-a"},
                "store": {"url": "sqlite://var/lns-a.store"},
                "upstream": {"url": self.broker.url},
                "capture": {"path": "var/lns-a.jsonl"},
            },
            [device.table for device in self.devices],
            starter=forked.Starter(),
        )
        self.outbox = folder / "lns" / "var" / "lns-a.outbox"
        self.capture = folder / "lns" / "var" / "lns-a.jsonl"
        self.saved = folder / "broker" / "mosquitto.db"
        starter = forked.Starter(forked.CONSUMER)
        self.inbox = Program("inbox", folder / "inbox" / "inbox.log", starter=starter)
        self.store, self.effects = folder / "inbox" / "store", folder / "inbox" / "effects.jsonl"

    async def play(self) -> None:
        """Send, and kill, until both have been done often enough; then let all come to rest."""
        await self.broker.start()
        await self.lns.start()
        await self.start_inbox()
        # Until it has subscribed once and that is written, the broker keeps nothing for it.
        await self.until(lambda: " brings " in self.inbox.tail())
        subscribed_s = self.inbox.log.stat().st_mtime
        await self.until(lambda: self.saved.exists() and self.saved.stat().st_mtime > subscribed_s)
        async with asyncio.TaskGroup() as tasks:
            lasting = [tasks.create_task(self.radio.stay(self.lns))]
            lasting += [tasks.create_task(self.send(device)) for device in self.devices]
            for kill in range(KILLS):
                await self.until(partial(self.has_done, (kill + 1) * UPLINKS // (KILLS + 1)))
                await asyncio.sleep(self.chance.uniform(0, 0.3))
                await self.kill_some()
            await self.until(lambda: self.done >= UPLINKS)
            for task in lasting:
                task.cancel()
        await StationSocket.reset_all()
        await self.until(lambda: state_of(self.outbox).waiting == 0)
        await self.lns.stop()
        await self.until(lambda: self.owed <= set(self.keys()))
        await self.inbox.stop()
        await self.broker.stop()

    @property
    def done(self) -> int:
        """How many uplinks were answered."""
        return len(self.owed)

    def has_done(self, uplinks: int) -> bool:
        """Whether so many uplinks were answered."""
        return self.done >= uplinks

    async def start_inbox(self) -> None:
        """Start the application."""
        command = [sys.executable, "-m", "bench", "inbox", "--broker", self.broker.url, "--keys"]
        command += ["--store", str(self.store), "--to", str(self.effects), "--retention", "1d"]
        await self.inbox.begin(command, env={"PYTHONPATH": str(ROOT)})

    async def kill_some(self) -> None:
        """One, two or all three of them, at the same moment; then they start again, in any order.

        Now and then one is killed again while it starts.
        """
        parts = self.chance.sample(["lns", "broker", "inbox"], self.chance.choice((1, 1, 2, 3)))
        self.counts["kills"] += 1
        await asyncio.gather(*(self.kill(part) for part in parts))
        for part in parts:
            await self.start(part)
            if self.chance.random() < 0.1:
                await asyncio.sleep(self.chance.uniform(0, 1))
                await self.kill(part)
                await self.start(part)

    async def kill(self, part: str) -> None:
        """End a process."""
        self.counts[f"{part} ended"] += 1
        if part == "lns":
            await self.lns.kill()
        elif part == "inbox":
            await self.inbox.kill()
        else:
            await self.broker.kill()

    async def start(self, part: str) -> None:
        """Start it again."""
        if part == "lns":
            await self.lns.start()
        elif part == "inbox":
            await self.start_inbox()
        else:
            await self.broker.start()

    async def send(self, device: Device) -> None:
        """Send frame after frame, each of them until it is answered."""
        while True:
            self.sent.add(device.key)
            for _ in range(ATTEMPTS_MAX):
                if await self.radio.ask(device.frame()):
                    self.owed.add(device.key)
                    break
                self.counts["frames sent again"] += 1
            device.f_cnt += 1

    async def until(self, true: Callable[[], bool], limit_s: float = PROGRESS_S) -> None:
        """Wait for something that nobody tells.

        An AssertionError after too long in which nothing was answered, and nothing has an effect.
        """
        loop, moved = asyncio.get_running_loop(), self._moved()
        try:
            async with asyncio.timeout(limit_s) as patience:
                while not true():
                    for program in (self.lns, self.broker, self.inbox):
                        assert program.died is None, program.died
                    if moved != (moved := self._moved()):
                        patience.reschedule(loop.time() + limit_s)
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{self.done} answered; {self.inbox.tail()}") from None

    def _moved(self) -> tuple[int, int]:
        """How far the story has come."""
        return self.done, self.effects.stat().st_size if self.effects.exists() else 0

    def lines(self) -> list[dict[str, Any]]:
        """The effects until now."""
        whole = self.effects.read_bytes().rpartition(b"\n")[0] if self.effects.exists() else b""
        return [json.loads(line) for line in whole.splitlines()]

    def keys(self) -> list[str]:
        """Which frames had an effect."""
        return [line["body"]["removeDuplicatesKey"] for line in self.lines()]

    def forwarded(self) -> Iterator[str]:
        """The frames that the network server says it forwarded."""
        for line in self.capture.read_bytes().splitlines():
            with suppress(ValueError):  # torn by a kill
                event = json.loads(line)
                if event.get("kind") == "lns.outcome" and event.get("upstream") == "forwarded":
                    yield f"{event['dev_eui']}-{event['dev_addr']}-{event['f_cnt']}"


def tell(story: Story, figures: Figures, lost: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures, for the person who asked for a long run."""
    counts = ", ".join(f"{number} {what}" for what, number in sorted(story.counts.items()))
    ignored = ", ".join(f"{number} by {name}" for name, number in figures.ignored.items())
    with capsys.disabled():
        print(
            f"\nseed {SEED}: {len(story.sent)} frames, {story.done} answered; {counts};"
            f" {figures.accepted} effects, ignored {ignored}; {lost} lost"
        )


@pytest.mark.broker
@pytest.mark.timeout(900 + 60 * KILLS)
@pytest.mark.fault("LNS", "cut / restarted")
@pytest.mark.fault("upstream", "cut / restarted")
def test_every_accepted_uplink_has_its_effect_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(tmp_path)
    try:
        asyncio.run(story.play())
    finally:
        for program in (story.lns, story.inbox, story.broker):
            program.kill_now()
    figures, parked = figures_in(story.store)
    lines = story.lines()
    keys = story.keys()
    missing = (story.owed | set(story.forwarded())) - set(keys)
    tell(story, figures, len(missing), capsys)
    assert story.counts["kills"] == KILLS
    assert [key for key, count in Counter(keys).items() if count > 1] == []
    assert [line["position"] for line in lines] == list(range(1, len(lines) + 1))
    assert figures.accepted == len(lines)
    assert (figures.unreadable, figures.parked, parked) == (0, 0, [])
    assert set(keys) <= story.sent
    for line in lines:
        body = line["body"]
        assert body["payload"] == body["fCnt"].to_bytes(4, "big").hex()
    assert sorted(missing) == []
