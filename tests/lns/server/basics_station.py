"""A Basics Station on a real socket, as version 2.0.6 behaves there.

The upgrade request, the masks, what it closes a connection for, and what it does with its radio
session are those of the real program (net.c, tc.c, s2e.c), byte for byte where it is bytes.
"""

import asyncio
import json
import ssl
from collections import deque
from typing import Any, ClassVar
from urllib.parse import urlsplit

from lns.clock import now_us
from lns.lorawan.identifiers import Eui, eui_id6
from lns.station.messages import Dnmsg, UpInfo
from lns.station.protocol import LinkClosed
from tests.station_texts import (
    GetXtime,
    RouterConfig,
    frame_text,
    parse_down,
    version_text,
    xtime_report_text,
)

MASK = bytes([1, 1, 1, 1])
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
RECEIVE_BUFFER_BYTES = 40_000
QUEUE_MAX = 64
PATIENCE_S = 60


class UpgradeRefused(Exception):
    """The server answered with another status than 101."""

    def __init__(self, head: str, body: str) -> None:
        self.status = int(head.split()[1])
        super().__init__(f"{self.status}: {body}")
        self.head = head
        self.body = body


class StationSocket:
    """One WebSocket of a station; strict as the real one in what it takes."""

    opened: ClassVar[list["StationSocket"]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.response = ""
        self.pongs = 0
        self.opened.append(self)

    @classmethod
    async def open(
        cls, uri: str, *, headers: str = "", context: ssl.SSLContext | None = None
    ) -> "StationSocket":
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
        assert host is not None and port is not None, "a station needs host and port"
        tls = context if parts.scheme == "wss" else None
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        link = cls(reader, writer)
        path = uri.partition("://")[2].partition("/")[2]
        # net.c: this very request, with this very key.
        writer.write(
            (
                f"GET /{path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
                f"Connection: upgrade\r\nSec-WebSocket-Key: bpse8nVmEl6ZlX4lSb6RMw==\r\n"
                f"Sec-WebSocket-Version: 13\r\n{headers}\r\n"
            ).encode()
        )
        async with asyncio.timeout(PATIENCE_S):
            link.response = (await reader.readuntil(b"\r\n\r\n")).decode()
            status = int(link.response.split()[1])
            if status != 101:
                body = await reader.read()
                writer.close()
                raise UpgradeRefused(link.response, body.decode())
        return link

    def send_frame(self, opcode: int, payload: bytes, *, head: int = 0x80) -> None:
        length = len(payload)
        size = (
            bytes([0x80 | length])
            if length < 126
            else bytes([0x80 | 126]) + length.to_bytes(2, "big")
            if length < 1 << 16
            else bytes([0x80 | 127]) + length.to_bytes(8, "big")
        )
        masked = bytes(byte ^ 1 for byte in payload)
        self.writer.write(bytes([head | opcode]) + size + MASK + masked)

    def send_text(self, text: str) -> None:
        self.send_frame(TEXT, text.encode())

    async def receive_text(self) -> str:
        """The next text; LinkClosed, with the code, once the server closes."""
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    opcode, payload = await self._frame()
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise LinkClosed("reset") from error
            if opcode == TEXT:
                return payload.decode()
            if opcode == PING:
                self.pongs += 1
                self.send_frame(PONG, payload)
            if opcode == CLOSE:
                self.send_frame(CLOSE, payload)
                self.writer.close()
                raise LinkClosed(str(int.from_bytes(payload[:2], "big")))
            assert opcode in (PING, CLOSE), f"a station closes on opcode {opcode}"

    async def _frame(self) -> tuple[int, bytes]:
        first, second = await self.reader.readexactly(2)
        assert first & 0xF0 == 0x80, "a station closes on a fragment, and on RSV bits"
        assert not second & 0x80, "a station closes on a masked frame"
        assert second != 127, "a station closes on a 64-bit length"
        length = second
        if second == 126:
            length = int.from_bytes(await self.reader.readexactly(2), "big")
        assert length < RECEIVE_BUFFER_BYTES
        return first & 0x0F, await self.reader.readexactly(length)

    async def close(self, code: int = 1000) -> None:
        self.send_frame(CLOSE, code.to_bytes(2, "big"))
        try:
            while True:
                await self.receive_text()
        except LinkClosed:
            self.writer.close()

    @classmethod
    async def reset_all(cls) -> None:
        """End whatever a test left open."""
        while cls.opened:
            cls.opened.pop().reset()
        await asyncio.sleep(0.001)

    def reset(self) -> None:
        self.writer.transport.abort()


class BasicsStation:
    """One station: its radio session, what it heard while the link was down, what it was told."""

    def __init__(
        self,
        eui: Eui,
        tc_uri: str,
        *,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.eui = eui
        self.tc_uri = tc_uri
        self.headers = "" if token is None else f"Authorization: {token}\r\n"
        self.context = context
        self.session = 0
        self.sessions = iter(range(17, 256))
        self.clock_shown = False
        self.blind = 0
        self.queue: deque[str] = deque(maxlen=QUEUE_MAX)
        self.dnmsgs: list[Dnmsg] = []
        self.obsolete: list[Dnmsg] = []
        self.texts: list[str] = []
        self.uri = ""
        self.socket: StationSocket | None = None

    async def discover(self) -> dict[str, Any]:
        """Ask `/router-info`, then close with 1000 as the real one does."""
        socket = await StationSocket.open(
            f"{self.tc_uri}/router-info", headers=self.headers, context=self.context
        )
        socket.send_text(json.dumps({"router": eui_id6(self.eui)}, separators=(",", ":")))
        answer = json.loads(await socket.receive_text())
        await socket.close()
        assert isinstance(answer, dict)
        return answer

    async def connect(self) -> None:
        """Find the server, connect, introduce itself and tell what was heard meanwhile."""
        self.clock_shown = False
        if not self.uri:
            uri = (await self.discover())["uri"]
            parts = urlsplit(uri)
            assert parts.port and parts.path and len(uri) <= 127
            self.uri = uri
        self.socket = await StationSocket.open(self.uri, headers=self.headers, context=self.context)
        self.socket.send_text(version_text("2.0.6(linux/testsim)", features="rmtsh"))
        while self.queue:
            self.socket.send_text(self.queue.popleft())

    async def run(self) -> None:
        """Do what the server says until the connection is over."""
        assert self.socket is not None
        socket = self.socket
        try:
            while True:
                self._obey(await socket.receive_text())
        except LinkClosed:
            if self.socket is socket:
                self.socket = None

    async def until_configured(self) -> None:
        """Take `router_config` and answer `getxtime`, until the radio has shown its time."""
        assert self.socket is not None
        while not self.clock_shown:
            self._obey(await self.socket.receive_text())

    def xtime_now(self) -> int:
        return self.session << 48 | now_us() + 10_000_077

    def hear(self, phy: bytes, *, late_us: int = 0) -> None:
        """A frame ended `late_us` ago; it is told, or queued while the link is down."""
        info = UpInfo(xtime=self.xtime_now() - late_us, rssi_dbm=-71, snr_db=9.5)
        text = frame_text(phy, dr=5, freq_hz=868_100_000, upinfo=info)
        assert text is not None
        if self.socket is None:
            self.queue.append(text)
        else:
            self.socket.send_text(text)

    async def next_dnmsg(self) -> Dnmsg:
        """Obey until a downlink comes."""
        assert self.socket is not None
        before = len(self.dnmsgs)
        while len(self.dnmsgs) == before:
            self._obey(await self.socket.receive_text())
        return self.dnmsgs[-1]

    def _obey(self, text: str) -> None:
        self.texts.append(text)
        match parse_down(text):
            case RouterConfig():
                self.session = next(self.sessions)  # the radio starts anew
                # timesync.c: every clock is forgotten; the radio is read only after the messages
                # that came together with this one.
                self.blind, self.clock_shown = 1, False
            case GetXtime():
                assert self.socket is not None
                self.clock_shown, self.blind = not self.blind, 0
                xtime = self.xtime_now() if self.clock_shown else 0
                report = xtime_report_text(xtime, mux_time=0.0, uptime_us=0)
                self.socket.send_text(report)
            case Dnmsg() as dnmsg:
                current = dnmsg.xtime >> 48 in (0, self.session)  # 0: class C, at once
                (self.dnmsgs if current else self.obsolete).append(dnmsg)
