"""CUPS on a real socket: one request a connection, an answer with its length."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bench.host.lns_files import CLIENT, Authority, Pair, write_server_files
from lns.events import Connection, Event
from lns.lorawan.identifiers import eui_dashed
from lns.server.access import Access, server_context
from lns.server.cups_server import CupsServer, StationSetup, parse_head
from lns.server.web_socket import Limits
from lns.station.cups import NO_CHANGE, Category, StationFiles
from tests.lns.served_network import EAST, WEST

AUTHORITY = Authority()
BODY: dict[str, Any] = {
    "router": "16:c001:f150:1",
    "cupsUri": "http://127.0.0.1:6091",
    "tcUri": None,
    "cupsCredCrc": 2077607535,
    "tcCredCrc": 2077607535,
    "station": "2.0.6(linux/testsim) 2026-11-20 15:01:02",
    "model": "linux",
    "package": None,
    "keys": [],
}
SETUP = StationSetup(tc=Category.of("ws://127.0.0.1:6090", StationFiles(AUTHORITY.certificate)))


def request(body: bytes, *, head: str = "POST /update-info HTTP/1.1", extra: str = "") -> bytes:
    """As cups.c spells it, the length padded with blanks."""
    return (
        f"{head}\r\nHost: 127.0.0.1:6091\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body):9d}\r\n{extra}\r\n"
    ).encode() + body


def asking(**changed: object) -> bytes:
    return request(json.dumps(BODY | changed).encode())


class Cups:
    def __init__(self, server: CupsServer, events: list[Event]) -> None:
        self.server = server
        self.events = events

    async def ask(self, sent: bytes, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
        """The status and the body of the answer; (0, b"") for none."""
        port = int(self.server.uri.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head:
            return 0, b""
        assert b"chunked" not in head.lower()
        assert f"Content-Length: {len(body)}".encode() in head
        assert (b"\r\nWWW-Authenticate: Bearer\r\n" in head) == (b" 401 " in head)
        return int(head.split()[1]), body


def play(scenario: Callable[[Cups], Awaitable[None]], **how: Any) -> list[str | None]:
    """Play, and return why requests were refused."""
    events: list[Event] = []

    async def playing() -> None:
        server = CupsServer("lns-a", {WEST: SETUP}, events.append, **how)
        await server.start("127.0.0.1", 0)
        try:
            await scenario(Cups(server, events))
        finally:
            await server.stop()

    asyncio.run(playing())
    return [event.cause for event in events if isinstance(event, Connection)]


def test_a_station_is_told_where_to_go_and_whom_to_trust() -> None:
    async def scenario(cups: Cups) -> None:
        status, body = await cups.ask(asking())
        segment = StationFiles(AUTHORITY.certificate).segment()
        expected = b"\x00\x13ws://127.0.0.1:6090\x00\x00" + len(segment).to_bytes(2, "little")
        assert (status, body) == (200, expected + segment + bytes(8))

    assert play(scenario) == []


def test_a_station_that_has_everything_gets_fourteen_zero_bytes() -> None:
    async def scenario(cups: Cups) -> None:
        crc = SETUP.tc.files.crc()
        assert await cups.ask(asking(tcUri="ws://127.0.0.1:6090", tcCredCrc=crc)) == (
            200,
            NO_CHANGE,
        )

    play(scenario)


def test_a_station_without_a_setup_of_its_own_gets_what_all_get() -> None:
    async def scenario(cups: Cups) -> None:
        status, body = await cups.ask(asking(router="16:c001:f150:2"))
        assert (status, body[:2], len(body)) == (200, b"\x00\x08", 22)

    play(scenario, otherwise=StationSetup(tc=Category("ws://h:1")))


@pytest.mark.parametrize(
    ("sent", "status", "why"),
    [
        (b"\x16\x03\x01\r\n\r\n", 400, "no HTTP request"),
        (b"POST\r\n\r\n", 400, "no HTTP request"),
        (b"POST /update-info HTTP/1.1\r\nbroken\r\n\r\n", 400, "no HTTP request"),
        (request(b"", head="POST / HTTP/1.1"), 404, "only /update-info is here"),
        (request(b"", head="GET /update-info HTTP/1.1"), 405, "only POST is served"),
        (b"POST /update-info HTTP/1.1\r\n\r\n", 411, "no Content-Length"),
        (b"POST /update-info HTTP/1.1\r\nContent-Length: x\r\n\r\n", 411, "no Content-Length"),
        (request(b"x" * 16_384), 400, "no update-info request"),
        (request(b"x" * 16_385), 413, "the body is too large"),
        (request(b"{}"), 400, "no update-info request"),
        (request(b"[" * 10_000), 400, "no update-info request"),
        (request(b"\xff\xfe"), 400, "no update-info request"),
    ],
)
def test_what_is_no_question_is_refused(sent: bytes, status: int, why: str) -> None:
    async def scenario(cups: Cups) -> None:
        assert await cups.ask(sent) == (status, f"{why}\n".encode())

    assert play(scenario) == [f"CUPS: {why}"]


def test_who_was_answered_is_at_the_door_no_more() -> None:
    async def scenario(cups: Cups) -> None:
        assert (await cups.ask(asking()))[0] == 200
        async with asyncio.timeout(5):
            while cups.server.opening:  # noqa: ASYNC110 - nobody tells when it is over
                await asyncio.sleep(0.005)

    assert play(scenario) == []


def test_a_station_that_may_not_connect_gets_nothing() -> None:
    async def scenario(cups: Cups) -> None:
        assert (await cups.ask(asking()))[0] == 403

    access = Access(stations=frozenset({EAST}))
    assert play(scenario, access=access) == ["CUPS: not in the list of stations"]


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    write_server_files(tmp_path, AUTHORITY, "127.0.0.1")
    files = ("server.crt", "server.key", "stations-ca.crt")
    return server_context(*(tmp_path / file for file in files))


def station_tls(folder: Path, shown: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if shown is not None:
        shown.write(folder, "shown")
        context.load_cert_chain(folder / "shown.crt", folder / "shown.key")
    return context


def test_an_answer_arrives_however_much_is_under_way_behind_its_question() -> None:
    """A connection that is closed with something unread is reset, and the answer with it."""

    async def scenario(cups: Cups) -> None:
        port = int(cups.server.uri.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(b"x" * 1_000_000))
        answer = await reader.readuntil(b"large\n")
        assert answer.startswith(b"HTTP/1.1 413 ")
        await writer.drain()
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    assert play(scenario) == ["CUPS: the body is too large"]


def test_tokens_count_here_too(tmp_path: Path, tls: ssl.SSLContext) -> None:
    body = json.dumps(BODY).encode()

    async def scenario(cups: Cups) -> None:
        assert cups.server.uri.startswith("https://")
        context = station_tls(tmp_path)
        assert (await cups.ask(asking(), context))[0] == 401
        token = request(body, extra="Authorization: Bearer a\r\n")
        assert (await cups.ask(token, context))[0] == 200

    access = Access(tokens={WEST: "Bearer a"})
    assert play(scenario, access=access, tls=tls) == ["CUPS: no Authorization header"]


NO_NAME = "the client certificate names no station: it needs an EUI as its CN"


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (None, "no client certificate"),
        (AUTHORITY.client(EAST), "the client certificate is another station's"),
        (AUTHORITY.issue([eui_dashed(EAST)], usages=[CLIENT]), "the client certificate is another"),
        (AUTHORITY.issue([f"{EAST} "], usages=[CLIENT]), "the client certificate is another"),
        (AUTHORITY.issue(["gateway-7"], usages=[CLIENT]), NO_NAME),
        (AUTHORITY.issue([], usages=[CLIENT]), NO_NAME),
        (AUTHORITY.issue([WEST], usages=[]), "the client certificate is not made for clients"),
    ],
)
def test_the_key_of_a_station_is_handed_to_nobody_else(
    tmp_path: Path, tls: ssl.SSLContext, shown: Pair | None, why: str
) -> None:
    async def scenario(cups: Cups) -> None:
        status, body = await cups.ask(asking(), station_tls(tmp_path, shown))
        assert (status, body[: len(why)]) == (403, why.encode())
        own = station_tls(tmp_path, AUTHORITY.client(WEST))
        assert (await cups.ask(asking(), own))[0] == 200

    (cause,) = play(scenario, access=Access(certificates=True), tls=tls)
    assert (cause or "").startswith(f"CUPS: {why}")


def test_half_a_handshake_counts_here_too(tmp_path: Path, tls: ssl.SSLContext) -> None:
    async def scenario(cups: Cups) -> None:
        port = int(cups.server.uri.rpartition(":")[2])
        opened = []
        for _ in range(100):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            assert cups.server.opening <= 10
        context = station_tls(tmp_path, AUTHORITY.client(WEST))
        assert (await cups.ask(asking(), context))[0] == 200
        for reader, writer in opened:
            try:
                async with asyncio.timeout(60):
                    assert await reader.read() == b""
            except ConnectionError:
                pass
            writer.close()

    limits = Limits(opening_max=10, handshake_us=2_000_000)
    causes = play(scenario, access=Access(certificates=True), tls=tls, limits=limits)
    assert sorted(Counter(causes).items()) == [
        ("CUPS: TLS handshake: takes too long", 9),
        ("CUPS: too many connections that say nothing", 91),
    ]


def test_who_says_nothing_or_too_much_is_dropped_and_others_are_served() -> None:
    async def scenario(cups: Cups) -> None:
        port = int(cups.server.uri.rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        assert (await cups.ask(asking()))[0] == 200
        for reader, writer in silent:
            try:
                assert await reader.read() == b""
            except ConnectionError:
                pass
            writer.close()
        with pytest.raises(ConnectionError):
            assert (await cups.ask(b"GET /" + b"x" * 20_000))[0] == 0
            raise ConnectionResetError

    causes = play(scenario, limits=Limits(question_us=1_000_000, opening_max=10))
    assert sorted(Counter(causes).items()) == [
        ("CUPS: no whole request", 10),
        ("CUPS: too many connections that say nothing", 21),
    ]


def test_header_lines_are_read_whatever_their_case() -> None:
    head = parse_head(b"POST /update-info?a HTTP/1.1\r\ncontent-length:   7\r\nX-A: \r\n\r\n")
    assert head is not None
    assert (head.method, head.path, head.body_bytes) == ("POST", "/update-info", 7)
    twice = parse_head(b"GET / HTTP/1.1\r\nX-A: 1\r\nx-a: 2\r\n\r\n")
    assert twice is not None
    assert twice.headers == {"x-a": "2"}
    assert "Bearer" not in repr(parse_head(b"GET / HTTP/1.1\r\nAuthorization: Bearer a\r\n\r\n"))
