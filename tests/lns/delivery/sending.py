"""Messages to send, ways to send them on, and a wire that can be cut."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from lns.delivery.broker import broker
from lns.delivery.mqtt import BackOff, MqttUpstream
from lns.delivery.mqtt_connection import Patience
from lns.delivery.publisher import Message

ALPHA, BETA = "70B3D57ED0000001", "70B3D57ED0000002"
QUICK = BackOff(first_us=20_000, max_us=100_000)
WAIT_S = 20


def message(f_cnt: int, dev_eui: str = ALPHA) -> Message:
    return Message(
        message_id=f"{dev_eui}-01ABCDEF-{f_cnt}",
        lns="lns-a",
        dev_eui=dev_eui,
        dev_addr="01ABCDEF",
        f_cnt=f_cnt,
        f_port=2,
        confirmed=True,
        payload=b"\xc0\xff\xee",
        station="B827EBFFFE123456",
        rssi_dbm=-71.0,
        snr_db=9.5,
        freq_hz=868_100_000,
        dr=5,
        received_at=datetime(2026, 11, 20, 2, 0, 30, 393_000, tzinfo=UTC),
        dup_msg=False,
    )


def way(
    url: str,
    folder: Path,
    *,
    messages_max: int = 100_000,
    patience: Patience | None = None,
    ca: Path | None = None,
    drain_us: int = 1_000_000,
) -> MqttUpstream:
    """The way upstream that keeps its outbox in this folder, and tries again at once."""
    return MqttUpstream(
        broker(url, ca),
        folder / "lns-a.outbox",
        client_id="lns-a",
        chance=random.Random(1),
        messages_max=messages_max,
        patience=patience,
        back_off=QUICK,
        drain_us=drain_us,
    )


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so; TimeoutError when it never is."""
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)


class Relay:
    """A wire to the broker; `swallow` lets nothing of it come back, `cut` ends all connections."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.swallow = False
        self.connections = 0
        self.up = bytearray()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"mqtt://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.sleep(0.01)

    def cut(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, to_broker]
        async with asyncio.TaskGroup() as ways:
            ways.create_task(self._pass(reader, to_broker, up=True))
            ways.create_task(self._pass(from_broker, writer, up=False))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool
    ) -> None:
        with suppress(OSError):
            while octets := await reader.read(65536):
                if up:
                    self.up += octets
                elif self.swallow:
                    continue
                writer.write(octets)
                await writer.drain()
        writer.close()
