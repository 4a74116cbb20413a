"""Messages to send, ways to send them on, and a wire that can be cut."""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench.host import relay
from lns.delivery.mqtt_sender import MqttUpstream, Producer
from lns.delivery.mqtt_session import BackOff, Broker, Patience, broker
from lns.delivery.outbox import Entry
from lns.delivery.publisher import Message

ALPHA, BETA = "70B3D57ED0000001", "70B3D57ED0000002"
QUICK = BackOff(first_us=20_000, max_us=100_000)
WAIT_S = 60
RECEIVED_AT = datetime(2026, 11, 20, 2, 0, 30, 393_000, tzinfo=UTC)


def message(f_cnt: int, dev_eui: str = ALPHA, received_at: datetime = RECEIVED_AT) -> Message:
    return Message(
        message_id=f"{dev_eui}-01ABCDEF-{f_cnt}",
        remove_duplicates_key=f"{dev_eui}-01ABCDEF-{f_cnt}",
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
        received_at=received_at,
        dup_msg=False,
    )


def way(
    url: str | Broker,
    folder: Path,
    *,
    messages_max: int = 100_000,
    acknowledged: Callable[[Entry, int], None] | None = None,
    patience: Patience | None = None,
    ca: Path | None = None,
    drain_us: int = 1_000_000,
    keep_us: int = 0,
    producer: Producer | None = None,
) -> MqttUpstream:
    """The way upstream that keeps its outbox in this folder, and tries again at once."""
    return MqttUpstream(
        broker(url, ca) if isinstance(url, str) else url,
        folder / "lns-a.outbox",
        client_id="lns-a",
        chance=random.Random(1),
        messages_max=messages_max,
        acknowledged=acknowledged,
        patience=patience,
        back_off=QUICK,
        drain_us=drain_us,
        keep_us=keep_us,
        producer=producer,
    )


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so; TimeoutError when it never is."""
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)


class Relay(relay.Relay):
    """A wire to the broker."""

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port, name="upstream")

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"
