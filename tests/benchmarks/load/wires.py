"""How do many stations send from one cheap process, and what comes back?

Bare sockets with just enough of RFC 6455: no tasks, no text is built or parsed while the clock
runs, so that one core is enough to drive a server that has another.
"""

import os
import re
import selectors
import socket
from base64 import b64encode
from collections.abc import Callable, Sequence
from threading import Event
from time import perf_counter
from types import TracebackType

from lns.server.address import STATION_PATH
from tests.benchmarks.load.traffic import (
    Sent,
    clock_frame,
    clock_us,
    pong_frame,
    station,
    version_frame,
)

_READ_BYTES = 1 << 16
_LOOK_S = 0.0005
_HANDSHAKE_S = 30
_PING = 0x89
_XTIME = re.compile(rb'"xtime":(\d+)')


class Wire:
    """The connection of one station."""

    def __init__(self, port: int, number: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_HANDSHAKE_S)
        self._rest = b""
        key = b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {STATION_PATH}{station(number)} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            some = self.socket.recv(_READ_BYTES)
            assert some, f"the server hung up: {answer!r}"
            answer += some
        assert answer.startswith(b"HTTP/1.1 101"), answer
        self._rest = answer.partition(b"\r\n\r\n")[2]

    def introduce(self) -> None:
        """Do what a station does first: version, then its clock once it is configured."""
        self.socket.sendall(version_frame())
        while not any(b'"getxtime"' in payload for payload in self.read()):
            pass
        self.socket.sendall(clock_frame())

    def send(self, octets: bytes) -> None:
        """Send one message; BlockingIOError when the server is far behind."""
        self.socket.sendall(octets)

    def read(self) -> list[bytes]:
        """The payloads of the whole messages that have come; pings are answered."""
        data, at, payloads = self._rest + self._some(), 0, []
        while (end := _end(data, at)) is not None:
            payload = data[end[0] : end[1]]
            if data[at] == _PING:
                self.socket.send(pong_frame(payload))
            payloads.append(payload)
            at = end[1]
        self._rest = data[at:]
        return payloads

    def count(self) -> int:
        """Only how many octets have come: for a server whose every octet is known."""
        return len(self._some())

    def _some(self) -> bytes:
        some = self.socket.recv(_READ_BYTES)
        assert some, "the server hung up"
        return some


def _end(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of the frame at `at` begins and ends; None if it is not all there."""
    if len(data) < at + 4:
        # Two octets are a frame without payload, of which servers here send none.
        return None
    length, begin = data[at + 1], at + 2
    if length == 126:
        length, begin = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
    end = begin + length
    return (begin, end) if end <= len(data) else None


class Wires:
    """The connections of all stations of one load; closed at the end of `with`.

    Stations are `introduced` unless the server knows nothing of stations. `octets` counts what came
    during a flood.
    """

    def __init__(self, port: int, stations: int, *, introduced: bool = True) -> None:
        self._wires = [Wire(port, number) for number in range(stations)]
        self._selector = selectors.DefaultSelector()
        self.octets = 0
        for wire in self._wires:
            if introduced:
                wire.introduce()
            wire.socket.setblocking(False)
            self._selector.register(wire.socket, selectors.EVENT_READ, wire)

    def __enter__(self) -> "Wires":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for wire in self._wires:
            wire.socket.close()
        self._selector.close()

    def flood(self, uplinks: Sequence[Sent], reached: Callable[[], int], ahead: int) -> float:
        """Send uplinks as stations do, each by itself, in turn, so that the server is always busy.

        Under way are two of each station, and `ahead` more. Seconds until `reached` says that all
        uplinks have arrived.
        """
        began = perf_counter()
        sent, arrived, under_way = 0, 0, 2 * len(self._wires) + ahead
        while arrived < len(uplinks):
            until = min(arrived + under_way, len(uplinks))
            for number in range(sent, until):
                self._wires[number % len(self._wires)].send(uplinks[number].octets)
            sent = until
            # Whoever looks at once finds one message; whoever waits finds many, at the same cost.
            Event().wait(_LOOK_S)
            for key, _ in self._selector.select(0):
                self.octets += key.data.count()
            arrived = reached()
        return perf_counter() - began

    def pace(self, uplinks: Sequence[Sent], patience_us: int) -> tuple[list[int], int]:
        """Send each uplink when it was heard, stations in turn.

        Returns the microseconds until the answer of each that was answered, and how many were not
        within `patience_us` of the last one.
        """
        sent_at: dict[int, int] = {}
        answered: list[int] = []
        for number, uplink in enumerate(uplinks):
            while (wait_us := uplink.heard_us - clock_us()) > 0:
                self._hear(wait_us, sent_at, answered)
            sent_at[uplink.xtime] = clock_us()
            self._wires[number % len(self._wires)].send(uplink.octets)
        last_us = clock_us() + patience_us
        while sent_at and (wait_us := last_us - clock_us()) > 0:
            self._hear(wait_us, sent_at, answered)
        return answered, len(sent_at)

    def _hear(self, wait_us: int, sent_at: dict[int, int], answered: list[int]) -> None:
        for key, _ in self._selector.select(wait_us / 1e6):
            payloads = key.data.read()
            now_us = clock_us()
            for payload in payloads:
                xtime = _XTIME.search(payload)
                if xtime is not None:
                    answered.append(now_us - sent_at.pop(int(xtime[1])))
