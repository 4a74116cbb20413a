"""The broker of one emulated case: who publishes there, and what has it been given?"""

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from bench.capture import Record
from bench.host.mosquitto import Mosquitto
from bench.rig.injected import STATUS_TOPIC, UP_TOPIC, Witness
from lns.delivery.mqtt_session import broker, post
from lns.delivery.subscription import Subscription

_TOPICS = tuple(f"lorawan/+/+{ending}" for ending in (UP_TOPIC, STATUS_TOPIC))


class OwnBroker:
    """A real broker with its files in `folder`, and the bench as one of its subscribers."""

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder = folder
        self._mosquitto = Mosquitto(folder)
        self._witness = Witness(record)
        self._injected: Counter[tuple[str, bytes]] = Counter()
        self._over = asyncio.Event()
        self._hearing: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._mosquitto.port

    async def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Start it and hear every message from now on; HostError."""
        await self._mosquitto.start()
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hearing = tasks.create_task(self._hear(begun))
        await begun

    async def stop(self) -> None:
        """End it; it keeps on the disk what it has acknowledged."""
        await self._mosquitto.stop()

    async def start(self) -> None:
        """Start it again."""
        await self._mosquitto.start()

    async def post(self, topic: str, body: bytes) -> None:
        """Publish something as an application does; BrokerLost."""
        await post(broker(self._mosquitto.url), topic, body)

    async def inject(self, topic: str, body: dict[str, object]) -> None:
        """Publish one message of the bench; BrokerLost."""
        payload = json.dumps(body).encode()
        self._injected[topic, payload] += 1
        await self.post(topic, payload)

    async def end(self) -> None:
        """End it for good."""
        self._over.set()
        if self._hearing is not None:
            await asyncio.wait({self._hearing})
        await self._mosquitto.stop()

    async def _hear(self, begun: "asyncio.Future[None]") -> None:
        place = broker(self._mosquitto.url)
        async with AsyncExitStack() as keep:
            for number, topic in enumerate(_TOPICS):
                one = Subscription(place, topic, f"witness-{number}", self._heard)
                await keep.enter_async_context(one)
            begun.set_result(None)
            await self._over.wait()

    def _heard(self, topic: str, payload: bytes, properties: dict[str, str]) -> None:
        injected = self._injected[topic, payload] > 0
        self._injected[topic, payload] -= injected
        self._witness.hear(topic, json.loads(payload), injected=injected)
