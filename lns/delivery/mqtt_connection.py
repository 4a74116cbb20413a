"""What happens on one connection to the broker, from CONNECT until it is lost?

paho-mqtt without its thread: the event loop says when the socket can be read or written, and paho
does the rest. Only the connecting itself runs in a thread, for paho resolves the name, connects
and shakes hands in one blocking call. A connection is used once; the messages that it leaves
unacknowledged go out on the next one, in their order, with the same ids.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from paho.mqtt.client import (
    Client,
    ConnectFlags,
    DisconnectFlags,
    MQTTv5,
)
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from lns.clock import now_us
from lns.delivery.broker import Broker
from lns.delivery.outbox import Entry

_QOS = 1
_USER_PROPERTY = 0x26  # MQTT 5.0, 3.3.2.3.7
_TICK_S = 0.5  # how often deadlines are looked at


class BrokerLost(Exception):
    """There is no connection to the broker, or none any more; the text says why."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the broker may take, in µs, and how many messages it may leave unacknowledged."""

    connect_us: int = 5_000_000
    acknowledge_us: int = 20_000_000
    keep_alive_us: int = 30_000_000
    in_flight_max: int = 200


class MqttConnection:
    """One connection: `open` it, `send` while there is `room`, `watch` it until it is lost.

    `acknowledged` is told the entries of every PUBACK, several at a time.
    """

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        patience: Patience,
        acknowledged: Callable[[Sequence[Entry]], None],
    ) -> None:
        self._broker = broker
        self._patience = patience
        self._tell = acknowledged
        self._loop = asyncio.get_running_loop()
        self._accepted = self._loop.create_future()
        self._lost: asyncio.Future[str] = self._loop.create_future()
        self._in_flight: dict[int, Entry] = {}
        self._in_flight_max = patience.in_flight_max
        self._acknowledged: list[Entry] = []
        self._progress_us = 0
        self.useful = False  # whether anything was ever acknowledged on it
        self._client = self._new_client(client_id)

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        if self._lost.done() or not self._accepted.done():
            return 0
        return self._in_flight_max - len(self._in_flight)

    def unacknowledged(self) -> list[Entry]:
        """What was sent and not acknowledged, in the order of sending."""
        return list(self._in_flight.values())

    async def open(self) -> None:
        """Connect and log in; BrokerLost."""
        client, broker = self._client, self._broker
        keep_alive_s = max(1, self._patience.keep_alive_us // 1_000_000)
        connect = partial(client.connect, broker.host, broker.port, keep_alive_s, clean_start=True)
        connecting = self._loop.run_in_executor(None, connect)
        try:
            await asyncio.shield(connecting)
        except OSError as error:
            raise BrokerLost(f"cannot be reached: {_said(error)}") from error
        except asyncio.CancelledError:
            # The thread cannot be stopped; it ends within `connect_us`.
            await asyncio.wait({connecting})
            raise
        client.on_socket_close = self._let_go
        client.on_disconnect = self._disconnected
        sock = client.socket()
        if sock is None:
            raise BrokerLost("is gone before it has said a word")
        self._loop.add_reader(sock, self._readable)
        self._write_when_possible()
        waiting = {self._accepted, self._lost}
        deadline_s = self._patience.connect_us / 1_000_000
        await asyncio.wait(waiting, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            raise BrokerLost(self._lost.result())
        if not self._accepted.done():
            raise BrokerLost(f"is silent: no CONNACK within {self._patience.connect_us} us")

    def send(self, entries: Sequence[Entry]) -> None:
        """Publish these, in this order; there must be `room` for them."""
        if not self._in_flight:
            self._progress_us = now_us()
        for entry in entries:
            sent = self._client.publish(
                entry.topic, entry.body, qos=_QOS, properties=_UserProperties(entry)
            )
            # What could not be sent is unacknowledged like the rest, and goes out with it.
            self._in_flight[sent.mid] = entry
        self._write_when_possible()

    async def watch(self) -> NoReturn:
        """Keep the connection alive until it is lost; BrokerLost says why."""
        while True:
            await asyncio.wait({self._lost}, timeout=_TICK_S)
            if self._lost.done():
                raise BrokerLost(self._lost.result())
            self._client.loop_misc()
            silent_us = now_us() - self._progress_us
            if self._in_flight and silent_us > self._patience.acknowledge_us:
                self._lose(f"acknowledges nothing within {self._patience.acknowledge_us} us")

    def close(self) -> None:
        """Say goodbye if there is still somebody to say it to, and give the socket up."""
        client = self._client
        client.on_disconnect = client.on_publish = None
        if not self._lost.done():
            self._lost.set_result("was left")
            client.disconnect()
        sock = client.socket()
        if sock is not None:
            self._let_go(client, None, sock)
            client.on_socket_close = None
            sock.close()

    def _new_client(self, client_id: str) -> Client:
        client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=MQTTv5)
        if self._broker.user is not None:
            client.username_pw_set(self._broker.user, self._broker.password)
        context = self._broker.tls_context()
        if context is not None:
            client.tls_set_context(context)
        client.connect_timeout = self._patience.connect_us / 1_000_000
        client.max_inflight_messages = self._patience.in_flight_max
        client.on_connect = self._connected
        client.on_publish = self._published
        return client

    def _readable(self) -> None:
        self._client.loop_read()
        sock = self._client.socket()
        # What TLS has decrypted already does not make the socket readable again.
        while isinstance(sock, ssl.SSLSocket) and sock.pending():
            self._client.loop_read()
            sock = self._client.socket()
        if self._acknowledged:
            told, self._acknowledged = self._acknowledged, []
            self._progress_us, self.useful = now_us(), True
            self._tell(told)
        self._write_when_possible()

    def _write_when_possible(self) -> None:
        sock = self._client.socket()
        if sock is None or self._lost.done():
            return
        if self._client.want_write():
            self._loop.add_writer(sock, self._writable)
        else:
            self._loop.remove_writer(sock)

    def _writable(self) -> None:
        self._client.loop_write()
        self._write_when_possible()

    def _connected(
        self, client: Client, data: Any, flags: ConnectFlags, said: ReasonCode, more: Any
    ) -> None:
        if said.is_failure:
            return self._lose(f"refuses the login: {said}")
        # MQTT 5.0, 3.2.2.3.3: a broker that says nothing takes 65535.
        receive_max = getattr(more, "ReceiveMaximum", 0xFFFF)
        self._in_flight_max = min(self._in_flight_max, receive_max)
        if not self._accepted.done():
            self._accepted.set_result(None)

    def _published(self, client: Client, data: Any, mid: int, said: ReasonCode, more: Any) -> None:
        if said.is_failure:
            topic = self._in_flight[mid].topic if mid in self._in_flight else "?"
            self._lose(f"refuses a message on {topic}: {said}")
        elif not self._lost.done() and mid in self._in_flight:
            self._acknowledged.append(self._in_flight.pop(mid))

    def _disconnected(
        self, client: Client, data: Any, flags: DisconnectFlags, said: ReasonCode, more: Any
    ) -> None:
        by = "ended the connection" if flags.is_disconnect_packet_from_server else "is gone"
        self._lose(f"{by}: {said}")

    def _let_go(self, client: Client, data: Any, sock: Any) -> None:
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)

    def _lose(self, why: str) -> None:
        if not self._lost.done():
            self._lost.set_result(why)


class _UserProperties(Properties):
    """The user properties of one message, packed at once: paho's own packing takes 50 µs."""

    def __init__(self, entry: Entry) -> None:
        pairs = (
            ("messageId", entry.message_id),
            ("partitionKey", entry.partition_key),
            ("sequenceNumber", str(entry.sequence_number)),
        )
        packed = b"".join(
            bytes([_USER_PROPERTY]) + _string(name) + _string(value) for name, value in pairs
        )
        object.__setattr__(self, "_packed", _variable_byte_integer(len(packed)) + packed)

    def pack(self) -> bytes:
        """The property length and the properties (MQTT 5.0, 2.2.2)."""
        packed: bytes = object.__getattribute__(self, "_packed")
        return packed


def _string(text: str) -> bytes:
    octets = text.encode()
    return len(octets).to_bytes(2, "big") + octets


def _variable_byte_integer(value: int) -> bytes:
    """MQTT 5.0, 1.5.5: seven bits an octet, the lowest first."""
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def _said(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error) or type(error).__name__
