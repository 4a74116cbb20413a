"""What does a broker say to a client, octet by octet (MQTT 5.0)?

A part of one: it takes messages of QoS 1 and acknowledges each, brings what clients ask for, and
keeps what is retained. What is against the specification it tells, and ends the connection.
"""

import asyncio
import os
import select
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lns.clock import now_us

_AT_ONCE = 65_536  # octets
_CONNECT, _CONNACK, _PUBLISH, _PUBACK = 1, 2, 3, 4
_SUBSCRIBE, _SUBACK, _UNSUBSCRIBE, _UNSUBACK = 8, 9, 10, 11
_PINGREQ, _PINGRESP, _DISCONNECT = 12, 13, 14
_USER_PROPERTY = 0x26
_NOT_AUTHORIZED, _QUOTA_EXCEEDED = 0x87, 0x97
_RECEIVE_MAXIMUM = 0x21


class Violation(Exception):
    """A client has said something that the specification does not know; the text says what."""


@dataclass(frozen=True, slots=True)
class Published:
    """A message as a client sent it; `again`: it says that it may have sent it before."""

    client: str
    topic: str
    payload: bytes
    properties: tuple[tuple[str, str], ...]
    retain: bool
    again: bool


class _Reader:
    """What the octets of one packet say, from its first to its last; Violation where they end."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    def take(self, count: int) -> bytes:
        taken = self._octets[self._at : self._at + count]
        if len(taken) != count:
            raise Violation(f"a packet of {len(self._octets)} octets ends too early")
        self._at += count
        return taken

    def number(self, octets: int) -> int:
        return int.from_bytes(self.take(octets), "big")

    def text(self) -> str:
        try:
            return self.take(self.number(2)).decode()
        except UnicodeDecodeError as error:
            raise Violation("a text is not UTF-8") from error

    def length(self) -> int:
        """1.5.5: seven bits an octet, the lowest first."""
        value = 0
        for place in range(4):
            octet = self.number(1)
            value |= (octet & 0x7F) << 7 * place
            if octet < 0x80:
                return value
        raise Violation("a length has more than four octets")

    def rest(self) -> bytes:
        return self.take(len(self._octets) - self._at)

    @property
    def is_over(self) -> bool:
        return self._at == len(self._octets)


def packets(octets: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take every whole packet from the octets: the first octet, and what follows the length."""
    while len(octets) > 1:
        reader = _Reader(bytes(octets[:5]))
        first = reader.number(1)
        try:
            length = reader.length()
        except Violation:
            if len(octets) < 5:
                return
            raise
        head = 1 + max(1, (length.bit_length() + 6) // 7)
        if len(octets) < head + length:
            return
        body = bytes(octets[head : head + length])
        del octets[: head + length]
        yield first, body


def _packet(first: int, body: bytes) -> bytes:
    length, rest = bytearray(), len(body)
    while rest > 0x7F:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([first]) + bytes([*length, rest]) + body


def _text(text: str) -> bytes:
    octets = text.encode()
    return len(octets).to_bytes(2, "big") + octets


def _published(client: str, flags: int, body: bytes) -> tuple[int, Published]:
    """The packet identifier and the message of a PUBLISH (3.3)."""
    if flags >> 1 & 3 != 1:
        raise Violation(f"a message of QoS {flags >> 1 & 3}, not 1")
    reader = _Reader(body)
    topic, number = reader.text(), reader.number(2)
    told, properties = _Reader(reader.take(reader.length())), []
    while not told.is_over:
        if told.number(1) != _USER_PROPERTY:
            raise Violation("a property that is no user property")
        properties.append((told.text(), told.text()))
    if not topic or set(topic) & set("+#") or not number:
        raise Violation(f"a message on {topic!r} with the packet identifier {number}")
    message = Published(
        client, topic, reader.rest(), tuple(properties), bool(flags & 1), bool(flags & 8)
    )
    return number, message


class _Client:
    """One connection: what it has said so far, and who it says it is."""

    def __init__(self, broker: "MqttBroker", line: socket.socket) -> None:
        self._broker = broker
        self._line = line
        self._said = bytearray()
        self._name = ""
        self._numbers = 0
        self._taken: set[tuple[str, bytes]] = set()
        self._unanswered: list[str] = []
        self.answered_us: int | None = None
        self.filters: list[str] = []

    def listen(self, *, listening: bool) -> None:
        loop = asyncio.get_running_loop()
        if listening:
            loop.add_reader(self._line, self._readable)
        else:
            loop.remove_reader(self._line)

    def leave(self) -> None:
        self.listen(listening=False)
        self._line.close()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended the connection, heard or not."""
        line = select.poll()
        line.register(self._line, 0)
        return any(told & select.POLLHUP for _, told in line.poll(0))

    def bring(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send it a message (QoS 1); what it acknowledges is not sent again."""
        self._numbers = self._numbers % 0xFFFF + 1
        body = _text(topic) + self._numbers.to_bytes(2, "big") + b"\0" + payload
        self._say(_PUBLISH << 4 | 1 << 1 | retain, body)

    def _readable(self) -> None:
        try:
            octets = self._line.recv(_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            return self._broker.goodbye(self)
        self._said += octets
        try:
            said = list(packets(self._said))
            # All of it was sent before anything of it is answered.
            self._count([body for first, body in said if first >> 4 == _PUBLISH])
            for first, body in said:
                self._take(first >> 4, first & 0xF, body)
        except Violation as violation:
            self._broker.wrong(f"{self._name or 'a client'}: {violation}")
            self._broker.left(self)

    def _take(self, kind: int, flags: int, body: bytes) -> None:
        match kind:
            case _ if (kind == _CONNECT) is bool(self._name):
                raise Violation("CONNECT is the first packet, and comes once")
            case 1:
                self._connect(_Reader(body))
            case 3:
                self._publish(flags, body)
            case 8 | 10:
                self._subscribe(kind, _Reader(body))
            case 12:
                self._say(_PINGRESP << 4, b"")
            case 14:
                self._broker.goodbye(self)
            case 4:
                pass
            case _:
                raise Violation(f"a packet of type {kind}")

    def _connect(self, reader: _Reader) -> None:
        protocol, level, flags, self._broker.keep_alive_s = (
            reader.text(),
            reader.number(1),
            reader.number(1),
            reader.number(2),
        )
        reader.take(reader.length())
        self._name = reader.text()
        if (protocol, level) != ("MQTT", 5) or not self._name:
            raise Violation(f"CONNECT of {self._name!r} with {protocol} {level}")
        known = self._broker.came(self, self._name, begins_anew=bool(flags & 2))
        told = bytes([_RECEIVE_MAXIMUM]) + self._broker.receive_max.to_bytes(2, "big")
        self._say(_CONNACK << 4, bytes([known, 0, len(told)]) + told)

    def _count(self, published: list[bytes]) -> None:
        topics = self._unanswered
        topics += [_Reader(body).text() for body in published]
        if len(topics) > self._broker.receive_max:
            raise Violation(f"{len(topics)} messages at once, not {self._broker.receive_max}")
        for topic in sorted({one for one in topics if topics.count(one) > 1}):
            self._broker.crowded(topic)

    def _publish(self, flags: int, body: bytes) -> None:
        number, message = _published(self._name, flags, body)
        what = message.topic, message.payload
        if what in self._taken:  # 4.4: only a new connection is a reason to send it again
            raise Violation(f"a message on {message.topic} twice in one connection")
        said = self._broker.take(message)
        if not (said or message.retain):
            self._taken.add(what)
        body = number.to_bytes(2, "big") + (bytes([said, 0]) if said else b"")
        if self._broker.puback_us:
            delay_s = self._broker.puback_us / 1_000_000
            asyncio.get_running_loop().call_later(delay_s, self._answer, message.topic, body)
        else:
            self._answer(message.topic, body)

    def _answer(self, topic: str, body: bytes) -> None:
        if not self._broker.is_mute:
            if len(self._unanswered) >= self._broker.receive_max:
                self._broker.full_us = now_us()
            self._unanswered.remove(topic)
        self._say(_PUBACK << 4, body)

    def _subscribe(self, kind: int, reader: _Reader) -> None:
        number = reader.take(2)
        reader.take(reader.length())
        granted = bytearray()
        while not reader.is_over:
            topic_filter = reader.text()
            if kind == _SUBSCRIBE:
                self.filters.append(topic_filter)
                granted.append(reader.number(1) & 3)
            else:
                granted.append(0 if topic_filter in self.filters else 0x11)
                self.filters = [one for one in self.filters if one != topic_filter]
        answer = _SUBACK if kind == _SUBSCRIBE else _UNSUBACK
        self._say(answer << 4, number + b"\0" + bytes(granted))

    def _say(self, first: int, body: bytes) -> None:
        if not self._broker.is_mute:
            self.answered_us = now_us()
            with suppress(OSError):
                self._line.send(_packet(first, body))


class MqttBroker:
    """A broker as clients of one Unix socket meet it: there, away, silent or deaf.

    `took` is told every message, once it has come; `wrong` what is against the specification. A
    client that is here twice loses its older connection (3.1.4). `refusals`: so many of the next
    messages are refused, `refusals_on`: so many on a topic; `refused` is told the topic, `crowded`
    one of which two messages wait at a time. `receive_max`: so many may wait for their PUBACK
    (3.2.2.3.3), which comes `puback_us` after its message; `full_us`: when last so many did.
    `well_since_us`: since when a client is here and is served. `deserted`: how often one has left
    or has waited for less than `patience_us`; `connections`: how many there were, `lost_us`: when
    the latest ended.
    """

    def __init__(
        self, path: Path, took: Callable[[Published], None], wrong: Callable[[str], None]
    ) -> None:
        self.path = path
        self.wrong = wrong
        self.is_mute = False
        self.refusals = 0
        self.refusals_on: Counter[str] = Counter()
        self.refused: Callable[[str], None] = lambda topic: None
        self.crowded: Callable[[str], None] = lambda topic: None
        self.keep_alive_s = self.full_us = 0
        self.well_since_us: int | None = None
        self.deserted = 0
        self.connections = self.lost_us = 0
        self.receive_max = 3
        self.patience_us = 20_000_000
        self.puback_us = 0
        self._took = took
        self._is_deaf = False
        self._listener: socket.socket | None = None
        self._clients: dict[_Client, str] = {}

    def listen(self) -> None:
        """Be there, if it is not."""
        if self._listener is not None:
            return
        listener = self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        listener.listen()
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(listener, self._accept)

    def go(self) -> None:
        """Be away: connections end, and nobody can connect."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
            os.unlink(self.path)
        self.hang_up()

    def hang_up(self) -> None:
        """End every connection."""
        for client in list(self._clients):
            self.left(client)

    def be_deaf(self) -> None:
        """Read nothing of what clients say, until `be_well`."""
        self._is_deaf = True
        self.well_since_us = None
        for client in self._clients:
            client.listen(listening=False)

    def be_mute(self) -> None:
        """Take everything and answer nothing, until `be_well`."""
        self.is_mute = True
        self.well_since_us = None

    def be_well(self) -> None:
        """Undo both, and answer at once; who waits for an answer that never came connects again."""
        self.puback_us = 0
        if self.is_mute:
            self.is_mute = False
            self.hang_up()
        if self._is_deaf:
            self._is_deaf = False
            for client in self._clients:
                if client.is_gone:
                    self.deserted += self._is_early(client)
                    client.answered_us = None
                client.listen(listening=True)

    def came(self, client: _Client, name: str, *, begins_anew: bool) -> bool:
        """A client says who it is; whether the broker knows it of before."""
        older = next((one for one, of in self._clients.items() if of == name), None)
        if older is not None:
            client.filters = [] if begins_anew else older.filters
            self.left(older)
        self._clients[client] = name
        self.connections += 1
        self.well_since_us = None if self.is_mute else now_us()
        return older is not None and not begins_anew

    def goodbye(self, client: _Client) -> None:
        """A client ends its connection; one that had left before it was heard deserts nobody."""
        since_us = self.well_since_us
        served = since_us is not None and since_us < now_us()
        self.deserted += client in self._clients and (served or self._is_early(client))
        self.left(client)

    def let_go(self) -> int:
        """Clients may leave from now on; how often one has left until now, and should not have."""
        deserted, self.deserted = self.deserted, 0
        self.well_since_us = None
        for client in self._clients:
            client.answered_us = None
        return deserted

    def left(self, client: _Client) -> None:
        """A connection is over."""
        if client in self._clients:
            del self._clients[client]
            client.leave()
            self.lost_us = now_us()
            self.well_since_us = self.well_since_us if self._clients else None

    def _is_early(self, client: _Client) -> bool:
        """Whether a client that leaves was answered, so lately that it has to wait for more."""
        said_us = client.answered_us
        return said_us is not None and 0 < now_us() - said_us < self.patience_us

    def take(self, message: Published) -> int:
        """Take one message; the reason code of its PUBACK."""
        if self.refusals_on[message.topic] > 0:
            self.refusals_on[message.topic] -= 1
            self.refused(message.topic)
            return _NOT_AUTHORIZED
        if self.refusals:
            self.refusals -= 1
            self.refused(message.topic)
            return _QUOTA_EXCEEDED
        self._took(message)
        return 0

    def _accept(self) -> None:
        assert self._listener is not None
        line, _ = self._listener.accept()
        line.setblocking(False)
        client = _Client(self, line)
        self._clients[client] = ""
        client.listen(listening=not self._is_deaf)
