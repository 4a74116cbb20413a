"""What do the octets of an MQTT packet say (MQTT 5.0)?"""

from collections.abc import Iterator
from dataclasses import dataclass

USER_PROPERTY = 0x26  # 3.3.2.3.7


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


@dataclass(frozen=True, slots=True)
class Login:
    """How a client connects (3.1): what it asks of the broker; None: it does not say."""

    client: str
    begins_anew: bool
    keep_alive_s: int
    session_s: int = 0
    receive_max: int = 0xFFFF
    packet_bytes_max: int | None = None
    user: str | None = None
    password: str | None = None


class Reader:
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
        """1.5.5: seven bits an octet, the lowest first, in as few octets as it takes."""
        value = 0
        for place in range(4):
            octet = self.number(1)
            value |= (octet & 0x7F) << 7 * place
            if octet == 0 < place:
                raise Violation(f"the length {value} has an octet too many")
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
        reader = Reader(bytes(octets[:5]))
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


def length_of(value: int) -> bytes:
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])


def text_of(text: str) -> bytes:
    octets = text.encode()
    return len(octets).to_bytes(2, "big") + octets


def published(client: str, flags: int, body: bytes) -> tuple[int, Published]:
    """The packet identifier and the message of a PUBLISH (3.3)."""
    if flags >> 1 & 3 != 1:
        raise Violation(f"a message of QoS {flags >> 1 & 3}, not 1")
    reader = Reader(body)
    topic, number = reader.text(), reader.number(2)
    told, properties = Reader(reader.take(reader.length())), []
    while not told.is_over:
        if told.number(1) != USER_PROPERTY:
            raise Violation("a property that is no user property")
        properties.append((told.text(), told.text()))
    if not topic or set(topic) & set("+#") or not number:
        raise Violation(f"a message on {topic!r} with the packet identifier {number}")
    message = Published(
        client, topic, reader.rest(), tuple(properties), bool(flags & 1), bool(flags & 8)
    )
    return number, message
