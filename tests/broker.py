"""A real Mosquitto on a free port of the loopback, and an application that listens to it.

For tests marked `broker`. The broker keeps its sessions on disk, so it can be stopped and started
in mid-test without losing what it has acknowledged.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Event
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bench.host import lns_process
from tests.blocking import start_now, stop_now

HEAR_S = 60


class Mosquitto:
    """One broker; `start` and `stop` may be called again and again, the port stays."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self._broker = lns_process.Mosquitto(folder, *lines)

    @property
    def port(self) -> int:
        return self._broker.port

    @property
    def url(self) -> str:
        """The URL without user and password."""
        return self._broker.url

    def start(self) -> "Mosquitto":
        """Start and wait until it listens."""
        start_now(self._broker)
        return self

    def stop(self) -> None:
        """Stop it as a service is stopped: it saves its sessions."""
        stop_now(self._broker)

    def pause(self) -> None:
        """Let it read nothing until `resume`: it is busy with others."""
        self._broker.pause()

    def resume(self) -> None:
        """Let it go on."""
        self._broker.resume()


@dataclass(frozen=True, slots=True)
class Heard:
    """One message as the application got it."""

    topic: str
    payload: bytes
    qos: int
    properties: tuple[tuple[str, str], ...]

    @property
    def body(self) -> dict[str, Any]:
        """The JSON of the payload."""
        body: dict[str, Any] = json.loads(self.payload)
        return body

    @property
    def message_id(self) -> str:
        """The id as the body tells it."""
        return str(self.body["messageId"])


class Listener:
    """An application with a lasting session: what the broker acknowledged, it hears.

    What servers say of themselves is in `statements`, by topic.
    """

    def __init__(self, port: int, **login: str) -> None:
        self.heard: list[Heard] = []
        self.statements: dict[str, list[bytes]] = {}
        self._changed = Condition()
        self._subscribed = Event()
        self._client = Client(CallbackAPIVersion.VERSION2, "listener", protocol=MQTTv5)
        if login:
            self._client.username_pw_set(login["user"], login["password"])
        self._client.on_connect = lambda client, *_: client.subscribe("#", qos=2)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._hear
        self._client.reconnect_delay_set(1, 1)
        lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        lasting.SessionExpiryInterval = 3600
        self._client.connect("127.0.0.1", port, clean_start=False, properties=lasting)
        self._client.loop_start()
        assert self._subscribed.wait(HEAR_S)

    def wait_for(self, enough: Callable[[list[Heard]], bool]) -> list[Heard]:
        """What was heard, as soon as it is enough; AssertionError with it when it never is."""
        with self._changed:
            done = self._changed.wait_for(lambda: enough(self.heard), HEAR_S)
            assert done, f"heard only {[heard.message_id for heard in self.heard]}"
            return list(self.heard)

    def count(self, number: int) -> list[Heard]:
        """The first messages, as soon as there are so many."""
        return self.wait_for(lambda heard: len(heard) >= number)

    def close(self) -> None:
        """Go away."""
        self._client.disconnect()
        self._client.loop_stop()

    def _hear(self, client: Client, data: Any, message: MQTTMessage) -> None:
        pairs = getattr(message.properties, "UserProperty", [])
        with self._changed:
            if message.topic.endswith("/min_msg_time"):
                self.statements.setdefault(message.topic, []).append(bytes(message.payload))
                self._changed.notify_all()
                return
            self.heard.append(
                Heard(message.topic, bytes(message.payload), message.qos, tuple(map(tuple, pairs)))
            )
            self._changed.notify_all()
