"""Network servers as processes of their own, each with one station on a real WebSocket.

Everything that a server decided is read from its capture.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from bench.host.lns_process import LnsProcess
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, parse
from lns.lorawan.identifiers import DevAddr, Eui, dev_addr, eui
from lns.station.messages import UpInfo
from tests import forked
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.station_texts import frame_text

UNTIL_S = 60
KEYS = SessionKeys(bytes(range(16)), bytes(range(16, 32)))


def addr(number: int) -> DevAddr:
    """The DevAddr of the n-th device."""
    return dev_addr(0x26000000 + number)


def device_table(number: int) -> dict[str, object]:
    """An ABP device under Drop, as `devices.toml` has it."""
    return {
        "name": f"device-{number}",
        "dev_eui": eui(0x70B3D57ED0000000 + number),
        "activation": "abp",
        "dev_addr": addr(number),
        "nwk_s_key": KEYS.nwk_s_key.hex(),
        "app_s_key": KEYS.app_s_key.hex(),
        "strategy": "Drop",
    }


class Radio(BasicsStation):
    """A station that knows which frame each downlink answers, by its xtime."""

    def __init__(self, station: Eui) -> None:
        super().__init__(station, "")
        self.told: dict[int, bytes] = {}
        self._newest = 0

    async def run(self) -> None:
        """As in BasicsStation, however long nobody has anything to say."""
        while True:
            with suppress(TimeoutError):
                return await super().run()

    def tell(self, phy: bytes) -> None:
        """Hear a frame now."""
        self._newest = xtime = max(self.xtime_now(), self._newest + 1)
        self.told[xtime] = phy
        info = UpInfo(xtime=xtime, rssi_dbm=-71, snr_db=9.5)
        text = frame_text(phy, dr=5, freq_hz=868_100_000, upinfo=info)
        assert text is not None and self.socket is not None
        self.socket.send_text(text)

    def answers(self) -> list[tuple[bytes, Data]]:
        """Which frame was answered, and with what, in this order."""
        found = [(self.told[dnmsg.xtime], parse(dnmsg.pdu)) for dnmsg in self.dnmsgs]
        return [(phy, answer) for phy, answer in found if isinstance(answer, Data)]


class Server:
    """One server, its station, and what stands in its capture: `outcomes` and `claims`."""

    def __init__(self, folder: Path, lns: str, station: Eui, process: LnsProcess) -> None:
        self.lns = lns
        self.radio = Radio(station)
        self.process = process
        self.outcomes: list[dict[str, Any]] = []
        self.claims: list[dict[str, Any]] = []
        self._capture = folder / "capture.jsonl"
        self._read_to = 0

    async def settled(self, outcomes: int) -> None:
        """Wait until it has told what became of so many frames, and its answers arrived."""
        async with asyncio.timeout(UNTIL_S):
            while not self._is_settled(outcomes):  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.005)

    def _is_settled(self, outcomes: int) -> bool:
        with self._capture.open("rb") as file:
            file.seek(self._read_to)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read_to += len(whole) + len(newline)
        for event in map(json.loads, whole.splitlines()):
            if event["kind"] == "lns.outcome":
                self.outcomes.append(event)
            elif event["kind"] == "lns.claim":
                self.claims.append(event)
        answered = sum(outcome["answer"] in ("RX1", "RX2") for outcome in self.outcomes)
        return len(self.outcomes) >= outcomes and len(self.radio.dnmsgs) >= answered


@asynccontextmanager
async def servers_in(
    folder: Path,
    count: int,
    devices: int,
    settings: Callable[[str], Mapping[str, Mapping[str, object]]],
) -> AsyncIterator[Sequence[Server]]:
    """So many servers with the same devices, and with `settings` of each, which names it."""
    servers = []
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        stack.push_async_callback(StationSocket.reset_all)
        for number in range(count):
            lns = f"lns-{number}"
            process = LnsProcess(
                folder / lns,
                {
                    "lns": {"id": lns},
                    "capture": {"path": "capture.jsonl"},
                    **settings(lns),
                },
                [device_table(device) for device in range(devices)],
                starter=forked.Starter(),
            )
            server = Server(folder / lns, lns, eui(0x0016C001F1500000 + number), process)
            stack.push_async_callback(process.stop)
            await process.start()
            server.radio.tc_uri = process.uri
            await server.radio.connect()
            await server.radio.until_configured()
            tasks.create_task(server.radio.run())
            servers.append(server)
        yield servers
    assert [server.process.died for server in servers] == [None] * count
