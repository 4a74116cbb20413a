"""Where is the broker, how does one log in, and how is a connection to it held?

The event loop says when the socket can be read or written, and paho-mqtt does the rest, without a
thread. Only the connecting itself runs in one, for paho resolves the name, connects and shakes
hands in one blocking call. What goes over the wire is up to whoever holds it.
"""

import asyncio
import os
import random
import re
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from lns.clock import now_us

_PORTS = {"mqtt": 1883, "mqtts": 8883}  # IANA: mqtt, secure-mqtt
_LABEL = "[A-Za-z0-9_:%-]{1,63}"  # of a name, or a whole address
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as its URL names it; neither `str` nor `repr` shows user or password.

    A `host` that begins with / is the path of a Unix socket on this host.
    """

    host: str
    port: int
    tls: bool = False
    ca: Path | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        return self.host.startswith("/")

    def __str__(self) -> str:
        if self.is_local:
            return f"mqtt+unix://{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        """What proves the broker's identity; None for mqtt://. ValueError for an unusable `ca`."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.sslsocket_class = _HandshakingSocket
            return context
        except ssl.SSLError as error:
            raise ValueError(f"{self.ca} holds no certificate (PEM)") from error
        except OSError as error:
            raise ValueError(f"{self.ca} cannot be read: {error.strerror}") from error


class _HandshakingSocket(ssl.SSLSocket):
    """Closes itself when the handshake fails: paho drops it as it is."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def broker(url: str, ca: Path | None = None) -> Broker:
    """The broker of `mqtt[s]://[user[:password]@]host[:port]`; ValueError, without the password.

    `ca` is a PEM file with the certificates that may vouch for the broker, mqtts:// only;
    without it, those of the system may.
    """
    shape = "mqtt://[user:password@]host[:port], or mqtts://"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"not the URL of a broker; it is {shape}") from None
    if parts.scheme not in _PORTS:
        raise ValueError(f"a broker's URL begins with mqtt:// or mqtts://; it is {shape}")
    if not parts.hostname or not _HOST.fullmatch(parts.hostname):
        raise ValueError(f"the URL of the broker names no host; it is {shape}")
    if port == 0:
        raise ValueError("the port of a broker is 1 to 65535")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(
            f"the URL of a broker ends after its port; it is {shape}"
            " (write / ? # @ in a password as %2F %3F %23 %40)"
        )
    if parts.password and not parts.username:
        raise ValueError("MQTT takes a password only with a user; write user:password@")
    tls = parts.scheme == "mqtts"
    if ca is not None and not tls:
        raise ValueError("a ca is for mqtts:// only")
    found = Broker(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        tls=tls,
        ca=ca,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )
    found.tls_context()
    return found


def doubled_us(first_us: int, max_us: int, failures: int) -> int:
    """The wait after the n-th failure in a row, n from 1: doubled each time, up to a bound."""
    return min(max_us, first_us << min(failures - 1, 32))


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits before another connection: doubled with every failure, and half of each is chance."""

    first_us: int = 500_000
    max_us: int = 30_000_000

    def wait_us(self, failures: int, chance: random.Random) -> int:
        """The wait after the n-th failure in a row, n from 1, in µs."""
        whole_us = doubled_us(self.first_us, self.max_us, failures)
        return chance.randint(whole_us // 2, whole_us)


class BrokerLost(Exception):
    """There is no connection to the broker, or none any more; the text says why."""


class Held(Protocol):
    """A connection that is there; `useful`: it came to something."""

    useful: bool

    async def watch(self) -> NoReturn:
        """Keep it alive until it is lost; BrokerLost says why."""


class Attempts:
    """Attempts to hold a connection; remembers how many in a row came to nothing.

    One that lasted longer than the longest wait came to something, and the waits begin anew.
    """

    def __init__(self, back_off: BackOff, chance: random.Random) -> None:
        self._back_off = back_off
        self._chance = chance
        self._failures = 0
        self._began_us = 0

    def begin(self) -> None:
        self._began_us = now_us()

    def next_wait_us(self, *, useful: bool = False) -> int:
        """The attempt is over, and was `useful` or not: how long to wait before the next, in µs."""
        proved = useful or now_us() - self._began_us > self._back_off.max_us
        self._failures = 1 if proved else self._failures + 1
        return self._back_off.wait_us(self._failures, self._chance)

    async def hold(
        self,
        connected: Callable[[], AbstractAsyncContextManager[Held]],
        lost: Callable[[str], None],
    ) -> NoReturn:
        """Hold one connection after another, for ever; `lost` is told why there is none now."""
        while True:
            self.begin()
            useful = False
            try:
                async with connected() as held:
                    try:
                        await held.watch()
                    finally:
                        useful = held.useful
            except BrokerLost as error:
                lost(str(error))
            await asyncio.sleep(self.next_wait_us(useful=useful) / 1_000_000)


_AT_ONCE = 65_536  # octets
_UNSPECIFIED = "Unspecified error"
PACKET_BYTES_MAX = 65_536  # what an application asks for has less than 1 kB
_TICK_S = 0.5  # how often deadlines are looked at


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the broker may take, in µs, and how many messages it may leave unacknowledged."""

    connect_us: int = 5_000_000
    acknowledge_us: int = 20_000_000
    keep_alive_us: int = 30_000_000
    in_flight_max: int = 200


class _Client(Client):
    """Closes a Unix socket at which nobody listens: paho drops it as it is."""

    def _create_unix_socket_connection(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.connect(self._host)
        except OSError:
            line.close()
            raise
        return line


class MqttSession:
    """One connection of one paho client; used once, MQTT 5.0. BrokerLost for an unusable `ca`.

    `after_read` is called after every turn in which something may have arrived, `look` twice a
    second, to see to deadlines. Whoever finds it `useful` says so (`Attempts`). With `session_s`
    the broker keeps subscriptions and what they have not brought for so long after the end of the
    connection; without, it begins anew. With `held_max` whatever arrives is acknowledged by hand
    (`client.ack`), and at most so many messages wait for it (Receive Maximum, MQTT 5.0,
    3.1.2.11.3). What has more than `packet_bytes_max` octets the broker does not bring
    (3.1.2.11.4): a message of megabytes would stop everything else while it is read.
    """

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        patience: Patience,
        after_read: Callable[[], None],
        *,
        look: Callable[[], None] = lambda: None,
        session_s: int = 0,
        held_max: int = 0,
        packet_bytes_max: int = PACKET_BYTES_MAX,
    ) -> None:
        self.useful = False
        self._look = look
        self._broker = broker
        self._patience = patience
        self._packet_bytes_max = packet_bytes_max
        self._after_read = after_read
        self._session_s = session_s
        self._held_max = held_max
        self._loop = asyncio.get_running_loop()
        self._accepted = self._loop.create_future()
        self._lost: asyncio.Future[str] = self._loop.create_future()
        self._written: asyncio.Future[None] | None = None
        self.receive_max = patience.in_flight_max
        self.client = self._new_client(client_id)

    @property
    def is_open(self) -> bool:
        """Whether the broker has accepted the login and is not lost since."""
        return self._accepted.done() and not self._lost.done()

    @property
    def is_lost(self) -> bool:
        return self._lost.done()

    async def open(self) -> None:
        """Connect and log in; BrokerLost."""
        client, broker = self.client, self._broker
        keep_alive_s = max(1, self._patience.keep_alive_us // 1_000_000)
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._session_s
        properties.MaximumPacketSize = self._packet_bytes_max
        if self._held_max:
            properties.ReceiveMaximum = self._held_max
        connect = partial(
            client.connect,
            broker.host,
            broker.port,
            keep_alive_s,
            clean_start=self._session_s == 0,
            properties=properties,
        )
        connecting = self._loop.run_in_executor(None, connect)
        try:
            await asyncio.shield(connecting)
        except OSError as error:
            raise BrokerLost(f"cannot be reached: {_said(error)}") from error
        except asyncio.CancelledError:
            # The thread cannot be stopped; it ends within `connect_us`, and nobody asks how.
            connecting.add_done_callback(asyncio.Future.exception)
            await asyncio.wait({connecting})
            raise
        client.on_socket_close = self._let_go
        client.on_disconnect = self._disconnected
        sock = client.socket()
        if sock is None:
            raise BrokerLost("is gone before it has said a word")
        self._loop.add_reader(sock, self._readable)
        self.write_when_possible()
        await self.until(self._accepted, f"no CONNACK within {self._patience.connect_us} us")

    async def until(self, done: "asyncio.Future[None]", silence: str) -> None:
        """Wait `connect_us` for an answer of the broker; BrokerLost when it does not come."""
        deadline_s = self._patience.connect_us / 1_000_000
        waiting: set[asyncio.Future[Any]] = {done, self._lost}
        await asyncio.wait(waiting, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            raise BrokerLost(self._lost.result())
        if not done.done():
            raise BrokerLost(f"is silent: {silence}")

    async def watch(self) -> NoReturn:
        """Keep the connection alive until it is lost; BrokerLost says why."""
        while True:
            await asyncio.wait({self._lost}, timeout=_TICK_S)
            if self._lost.done():
                raise BrokerLost(self._lost.result())
            self.client.loop_misc()
            self.write_when_possible()
            self._look()

    def listen(self, *, listening: bool) -> None:
        """Read no further from the broker, or read again what has come meanwhile."""
        sock = self.client.socket()
        if sock is None or self._lost.done():
            return
        if listening:
            self._loop.add_reader(sock, self._readable)
        else:
            self._loop.remove_reader(sock)

    def lose(self, why: str) -> None:
        """End the connection for a reason of our own; the first reason stays."""
        if not self._lost.done():
            self._lost.set_result(why)

    async def leave(self) -> None:
        """Say goodbye and wait, at most twice `connect_us`, until the broker has read all of it.

        It reads in order, and hangs up then. One that meets the next connection of a session first
        forgets what it has not read of this one, acknowledgements too (MQTT 5.0, 3.1.4).
        """
        with suppress(BrokerLost, TimeoutError, OSError):
            if self.client.want_write():
                self._written = self._loop.create_future()
                await self.until(self._written, "it reads nothing")
            sock = self.client.socket()
            if sock is None or self._lost.done():
                return self.close()
            # paho closes its own handle with the goodbye; nothing is made of what is read.
            with socket.socket(fileno=os.dup(sock.fileno())) as line:
                line.setblocking(False)
                self.close()
                async with asyncio.timeout(self._patience.connect_us / 1_000_000):
                    while await self._loop.sock_recv(line, _AT_ONCE):
                        pass
        self.close()

    def close(self) -> None:
        """Say goodbye if there is still somebody to say it to, and give the socket up."""
        client = self.client
        client.on_disconnect = client.on_publish = client.on_message = client.on_subscribe = None
        if not self._lost.done():
            self._lost.set_result("was left")
            client.disconnect()
        sock = client.socket()
        if sock is not None:
            self._let_go(client, None, sock)
            client.on_socket_close = None
            sock.close()

    def write_when_possible(self) -> None:
        """Let the loop write what paho has not sent yet."""
        sock = self.client.socket()
        if sock is None or self._lost.done():
            return
        if self.client.want_write():
            self._loop.add_writer(sock, self._writable)
        else:
            self._loop.remove_writer(sock)
            if self._written is not None and not self._written.done():
                self._written.set_result(None)

    def _new_client(self, client_id: str) -> Client:
        client = _Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=MQTTv5,
            transport="unix" if self._broker.is_local else "tcp",
            manual_ack=self._held_max > 0,
        )
        if self._broker.user is not None:
            client.username_pw_set(self._broker.user, self._broker.password)
        try:
            context = self._broker.tls_context()
        except ValueError as error:  # somebody exchanges the certificates just now
            raise BrokerLost(f"cannot be trusted: {error}") from error
        if context is not None:
            client.tls_set_context(context)
        client.connect_timeout = self._patience.connect_us / 1_000_000
        client.max_inflight_messages = self._patience.in_flight_max
        client.on_connect = self._connected
        return client

    def _readable(self) -> None:
        self.client.loop_read()
        sock = self.client.socket()
        # What TLS has decrypted already does not make the socket readable again.
        while isinstance(sock, ssl.SSLSocket) and sock.pending():
            self.client.loop_read()
            sock = self.client.socket()
        self._after_read()
        self.write_when_possible()

    def _writable(self) -> None:
        self.client.loop_write()
        self.write_when_possible()

    def _connected(
        self, client: Client, data: Any, flags: ConnectFlags, said: ReasonCode, more: Any
    ) -> None:
        if said.is_failure:
            return self.lose(f"refuses the login: {said}")
        # MQTT 5.0, 3.2.2.3.3: a broker that says nothing takes 65535.
        self.receive_max = min(self.receive_max, getattr(more, "ReceiveMaximum", 0xFFFF))
        if not self._accepted.done():
            self._accepted.set_result(None)

    def _disconnected(
        self, client: Client, data: Any, flags: DisconnectFlags, said: ReasonCode, more: Any
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self.lose(f"ended the connection: {said}")
        elif not self._accepted.done():
            self.lose(
                "is gone before the login; is it a broker of MQTT v5, and with TLS or without as"
                " the URL says?"
            )
        elif str(said) == _UNSPECIFIED:  # all that paho says of a connection that was closed
            self.lose("is gone: the connection was closed without a word")
        else:
            self.lose(f"is gone: {said}")

    def _let_go(self, client: Client, data: Any, sock: Any) -> None:
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)


def _said(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error) or type(error).__name__


async def post(broker: Broker, topic: str, body: bytes) -> None:
    """Publish one message (MQTT 5.0, QoS 1); the broker has it when this returns, or BrokerLost."""
    patience = Patience()
    taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    wire = MqttSession(broker, "", patience, lambda: None)

    def published(client: Client, data: Any, mid: int, said: ReasonCode, more: Any) -> None:
        if said.is_failure:
            wire.lose(f"refuses a message on {topic}: {said}")
        elif not taken.done():
            taken.set_result(None)

    wire.client.on_publish = published
    try:
        await wire.open()
        wire.client.publish(topic, body, qos=1)
        wire.write_when_possible()
        await wire.until(taken, f"no PUBACK within {patience.connect_us} us")
    finally:
        wire.close()
