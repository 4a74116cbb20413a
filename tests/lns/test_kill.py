"""SIGKILL at any moment: what was answered is upstream, and no counter and no DevNonce goes back.

A real process, a real store, a real broker and a real WebSocket. Ten devices send confirmed
uplinks and join as fast as they are answered; the process is killed at random moments, also while
it starts. LORABENCH_KILLS and LORABENCH_KILL_SEED choose how often and when.
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench.chance import stream
from bench.host.lns_process import LnsProcess, Valkey
from bench.virtual.lorawan.join_frames import join_request
from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import (
    Data,
    JoinRequest,
    MType,
    build_data,
    open_join_accept,
    parse,
)
from lns.lorawan.identifiers import DevAddr, Eui
from lns.station.messages import Dnmsg, UpInfo
from lns.station.protocol import LinkClosed
from tests import forked
from tests.blocking import start_now, stop_now
from tests.broker import Listener, Mosquitto
from tests.lns.served_network import WEST
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.sizes import size
from tests.station_texts import frame_text

KILLS = int(os.environ.get("LORABENCH_KILLS", size(6, 40)))
SEED = int(os.environ.get("LORABENCH_KILL_SEED", "1"))
JOIN_EUI = Eui("70B3D57ED0000000")
LIFE_S = 0.5  # at most, from the moment stations can connect
ANSWER_S = 3.0
OUTCOME_S = 30.0
UPLINKS_PER_SESSION = 6


class Killed(Exception):
    """The process is gone, and with it the connection."""


class Device:
    """One device, strict about counters; remembers every frame that was answered."""

    def __init__(self, number: int, *, otaa: bool) -> None:
        self.dev_eui = Eui(f"70B3D57ED000{number:04X}")
        self.otaa = otaa
        self.app_key = bytes([number] * 16)
        self.dev_addr = None if otaa else DevAddr(f"0100{number:04X}")
        self.keys = SessionKeys(bytes([number] * 16), bytes([number + 100] * 16))
        self.f_cnt = 0
        self.dev_nonce = 0
        self.answered: list[bytes] = []  # of this session
        self.accepted: list[bytes] = []

    @property
    def table(self) -> dict[str, object]:
        """Its entry in `devices.toml`."""
        table: dict[str, object] = {"name": f"d{self.dev_eui[-4:]}", "dev_eui": self.dev_eui}
        if self.otaa:
            return table | {
                "activation": "otaa",
                "join_eui": JOIN_EUI,
                "app_key": self.app_key.hex(),
            }
        assert self.dev_addr is not None
        return table | {
            "activation": "abp",
            "dev_addr": self.dev_addr,
            "nwk_s_key": self.keys.nwk_s_key.hex(),
            "app_s_key": self.keys.app_s_key.hex(),
            "relaxed_f_cnt": False,
        }

    def next_frame(self) -> bytes:
        """What it sends now: a join request, or a confirmed uplink; the same until `go_on`."""
        if self.dev_addr is None:
            return join_request(
                self.app_key, join_eui=JOIN_EUI, dev_eui=self.dev_eui, dev_nonce=self.dev_nonce
            )
        return build_data(
            MType.CONFIRMED_UP,
            dev_addr=self.dev_addr,
            f_cnt=self.f_cnt,
            keys=self.keys,
            f_port=2,
            payload=self.f_cnt.to_bytes(2, "big"),
        )

    def take(self, phy: bytes, pdu: bytes) -> None:
        """The answer to one of its frames."""
        if isinstance(parse(phy), JoinRequest):
            fields = open_join_accept(self.app_key, pdu)
            self.keys = derive_session_keys(
                self.app_key,
                join_nonce=fields.join_nonce,
                net_id=fields.net_id,
                dev_nonce=self.dev_nonce,
            )
            self.dev_addr, self.f_cnt, self.answered = fields.dev_addr, 0, []
            self.accepted.append(phy)
        else:
            self.answered.append(phy)

    def go_on(self) -> None:
        """The next frame, or the next join; a join that was not accepted is never repeated."""
        if self.dev_addr is None:
            self.dev_nonce += 1
            return
        self.f_cnt += 1
        if self.otaa and self.f_cnt == UPLINKS_PER_SESSION:
            self.dev_addr = None
            self.dev_nonce += 1

    def old_frames(self, chance: random.Random) -> Iterator[bytes]:
        """Frames that must not be accepted any more."""
        if self.dev_addr is not None and len(self.answered) > 1:
            yield chance.choice(self.answered[:-1])
        if self.accepted:
            yield chance.choice(self.accepted)


class Radio(BasicsStation):
    """A station that knows which frame each downlink answers, by its xtime."""

    def __init__(self, devices: list[Device], facts: "Facts") -> None:
        super().__init__(WEST, "")
        self.facts = facts
        self.devices = {device.dev_eui: device for device in devices}
        self.sent: dict[int, tuple[Device, bytes, asyncio.Future[None]]] = {}

    async def run(self) -> None:
        """As in BasicsStation; Killed in the end."""
        await super().run()
        raise Killed

    def tell(self, device: Device, phy: bytes) -> "asyncio.Future[None]":
        """Hear a frame now; what is returned is done when it was answered."""
        xtime = max(self.xtime_now(), max(self.sent, default=0) + 1)
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent[xtime] = device, phy, answered
        text = frame_text(
            phy, dr=5, freq_hz=868_100_000, upinfo=UpInfo(xtime=xtime, rssi_dbm=-71, snr_db=9.5)
        )
        assert text is not None
        if self.socket is not None:
            self.socket.send_text(text)
        return answered

    def _obey(self, text: str) -> None:
        known = len(self.dnmsgs)
        super()._obey(text)
        for dnmsg in self.dnmsgs[known:]:
            self._answered(dnmsg)

    def _answered(self, dnmsg: Dnmsg) -> None:
        device, phy, answered = self.sent[dnmsg.xtime]
        self.facts.answer(device, phy, dnmsg.pdu)
        if not answered.done():
            device.take(phy, dnmsg.pdu)
            answered.set_result(None)


class Facts:
    """What must hold whatever was killed; `wrong` is what did not."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.owed: set[str] = set()
        self._downs: dict[tuple[Eui, DevAddr], int] = {}

    def answer(self, device: Device, phy: bytes, pdu: bytes) -> None:
        """A frame was answered: its message is owed, and its FCntDown is new."""
        frame, down = parse(phy), parse(pdu)
        if not isinstance(frame, Data):
            self.counts["joins accepted"] += 1
            return
        assert isinstance(down, Data) and down.ack
        self.counts["uplinks answered"] += 1
        self.owed.add(f"{device.dev_eui}-{frame.dev_addr}-{frame.f_cnt}")
        session = device.dev_eui, frame.dev_addr
        if down.f_cnt <= self._downs.get(session, -1):
            self.wrong.append(f"{session}: FCntDown {down.f_cnt} after {self._downs[session]}")
        self._downs[session] = down.f_cnt


class Story:
    """The lives of one network server."""

    def __init__(self, folder: Path, store: str, broker: str, listener: Listener) -> None:
        self.listener = listener
        self.devices = [Device(number, otaa=number > 6) for number in range(1, 11)]
        self.facts = Facts()
        self.chance = stream(SEED, "kill", store.partition(":")[0])
        self.radio = Radio(self.devices, self.facts)
        self.capture = folder / "var" / "lns-a.jsonl"
        self.lns = LnsProcess(
            folder,
            {
                "lns": {"id": "lns-a"},
                "store": {"url": store},
                "upstream": {"url": broker},
                "capture": {"path": "var/lns-a.jsonl"},
            },
            [device.table for device in self.devices],
            starter=forked.Starter(),
        )
        self._read_to = 0

    async def live(self, life_s: float | None) -> None:
        """One life: until it is killed, or until everything answers (`life_s` None)."""
        for device in self.devices:
            if device.dev_addr is None:
                device.go_on()
        self._new_outcomes()
        await self.lns.start()
        self.radio.tc_uri, self.radio.uri = self.lns.uri, ""
        try:
            async with asyncio.TaskGroup() as tasks:
                if life_s is not None:
                    tasks.create_task(self._kill_after(life_s))
                try:
                    await self.radio.connect()
                    await self.radio.until_configured()
                except (LinkClosed, OSError, asyncio.IncompleteReadError):
                    raise Killed from None
                tasks.create_task(self.radio.run())
                await self._replay()
                lasting = [tasks.create_task(self._send(device, life_s)) for device in self.devices]
                if life_s is None:
                    await asyncio.wait(lasting)
                    await asyncio.to_thread(self._until_upstream)
                    await self.lns.stop()
        except* Killed:
            pass
        finally:
            await self.lns.kill()  # until it is gone
            await StationSocket.reset_all()
            self.radio.socket = None
        assert self.lns.died is None, self.lns.died

    def _until_upstream(self) -> None:
        """Wait until the application has heard what is owed; what it never hears is told later."""
        owed = self.facts.owed
        with suppress(AssertionError):
            self.listener.wait_for(lambda heard: owed <= {one.message_id for one in heard})

    async def die_early(self, life_s: float) -> None:
        """A life that ends before anybody could connect, most likely."""
        with suppress(TimeoutError):
            async with asyncio.timeout(life_s):
                await self.lns.start()
        await self.lns.kill()

    async def _kill_after(self, life_s: float) -> None:
        await asyncio.sleep(life_s)
        self.facts.counts["kills"] += 1
        await self.lns.kill()
        raise Killed

    async def _send(self, device: Device, life_s: float | None) -> None:
        """Send frame after frame; in the last life, until one of each kind was answered."""
        while True:
            was_join = device.dev_addr is None
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self.radio.tell(device, device.next_frame())
            except TimeoutError:
                self.facts.counts["frames not answered in time"] += 1
                device.go_on()
                continue
            if not was_join:
                device.go_on()
                if life_s is None:
                    return

    async def _replay(self) -> None:
        """Frames that were answered in an earlier life are refused."""
        due: dict[str, str] = {}
        for device in self.devices:
            for phy in device.old_frames(self.chance):
                frame = parse(phy)
                assert isinstance(frame, Data | JoinRequest)
                is_data = isinstance(frame, Data)
                due[frame.frame_id] = "InvalidFrameCounter" if is_data else "DevNonceUsed"
                self.radio.tell(device, phy)
        async with asyncio.timeout(OUTCOME_S):
            while due:
                for outcome in self._new_outcomes():
                    reason = due.pop(str(outcome.get("frame_id")), None)
                    if reason is None:
                        continue
                    self.facts.counts["replays"] += 1
                    if outcome.get("reason") != reason:
                        self.facts.wrong.append(f"{reason} expected: {outcome}")
                await asyncio.sleep(0.005)

    def _new_outcomes(self) -> list[dict[str, Any]]:
        """The outcomes written since the last call; a torn line is nobody's."""
        if not self.capture.exists():
            return []
        with self.capture.open("rb") as file:
            file.seek(self._read_to)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read_to += len(whole) + len(newline)
        events = []
        for line in whole.splitlines():
            with suppress(ValueError):
                events.append(json.loads(line))
        return [event for event in events if event.get("kind") == "lns.outcome"]


def tell(story: Story, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    counts = ", ".join(f"{number} {what}" for what, number in sorted(story.facts.counts.items()))
    with capsys.disabled():
        print(f"\n{kind}, seed {SEED}: {counts}")


def play(story: Story, kills: int) -> None:
    async def lives() -> None:
        for _ in range(kills):
            if story.chance.random() < 0.15:
                await story.die_early(story.chance.uniform(0.01, 0.3))
                story.facts.counts["kills while starting"] += 1
            await story.live(story.chance.uniform(0, LIFE_S))
        await story.live(None)

    try:
        asyncio.run(lives())
    finally:
        story.lns.kill_now()


@pytest.mark.broker
@pytest.mark.timeout(240 + 10 * KILLS)
@pytest.mark.fault("LNS", "cut / restarted")
@pytest.mark.parametrize(("kind", "kills"), [("sqlite", KILLS), ("redis", max(4, KILLS // 3))])
def test_no_kill_loses_what_was_answered(
    kind: str, kills: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("broker", "store"):
        (tmp_path / name).mkdir()
    mosquitto = Mosquitto(tmp_path / "broker").start()
    listener = Listener(mosquitto.port)
    valkey = start_now(Valkey(tmp_path / "store")) if kind == "redis" else None
    url = valkey.url if valkey else "sqlite://var/lns-a.store"
    story = Story(tmp_path / "lns", url, mosquitto.url, listener)
    try:
        play(story, kills)
        owed = story.facts.owed
        try:
            heard = listener.wait_for(lambda heard: owed <= {one.message_id for one in heard})
        except AssertionError:
            lost = sorted(owed - {one.message_id for one in listener.heard})
            raise AssertionError(f"owed and not heard: {lost}") from None
    finally:
        listener.close()
        mosquitto.stop()
        if valkey:
            stop_now(valkey)
        tell(story, kind, capsys)
    assert story.facts.wrong == []
    assert story.facts.counts["kills"] == kills
    assert len(owed) >= 10 and story.facts.counts["joins accepted"] >= 4
    numbers: dict[str, set[int]] = {}
    for one in heard:
        numbers.setdefault(one.topic, set()).add(one.body["sequenceNumber"])
    for topic, found in numbers.items():
        assert found == set(range(1, len(found) + 1)), f"{topic} has a gap"
