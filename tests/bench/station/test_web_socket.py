"""Links over real sockets, of a station to a server, over ws:// and wss://."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from bench.host.lns_files import Authority, write_server_files, write_station_files
from bench.station import LinkClosed
from bench.station.web_socket import (
    StationTls,
    TapServer,
    WebSocketLink,
    connect,
    discover,
    station_files,
)
from lns.lorawan.identifiers import Eui
from lns.server.access import Access, server_context
from tests.links import StationLinks
from tests.lns.server.listening import listening
from tests.looped import on_a_loop
from tests.station_texts import version_text

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")
PATIENCE_S = 60
AUTHORITY = Authority()


class Ends:
    """A tap server that keeps the server's end of each link."""

    def __init__(self) -> None:
        self.server = TapServer()
        self.accepted: asyncio.Queue[WebSocketLink] = asyncio.Queue()

    async def accept(self, link: WebSocketLink) -> None:
        await self.accepted.put(link)
        await link.wait_closed()


def play(scenario: Callable[[Ends, WebSocketLink, WebSocketLink], Awaitable[None]]) -> None:
    """Play with both ends of one link: the server's parts, the station's end, the server's end."""

    async def main() -> None:
        ends, links = Ends(), StationLinks()
        await ends.server.start()
        ends.server.register(WEST, ends.accept)
        try:
            async with asyncio.timeout(PATIENCE_S):
                ours = await links.connect(ends.server.uri, WEST)
                await scenario(ends, ours, await ends.accepted.get())
        finally:
            await links.close()
            await ends.server.stop()

    asyncio.run(main())


def test_texts_arrive_in_order_both_ways() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        for text in ("a", "b", "ä" * 300_000):
            await ours.send(text)
            await theirs.send(text.upper())
        assert [await theirs.receive() for _ in range(2)] == ["a", "b"]
        assert await theirs.receive() == "ä" * 300_000
        assert [await ours.receive() for _ in range(2)] == ["A", "B"]

    play(scenario)


def test_what_was_sent_before_the_end_still_arrives() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        await ours.send("last")
        ours.close()
        assert ours.closed
        assert await theirs.receive() == "last"
        with pytest.raises(LinkClosed, match="1000"):
            await theirs.receive()
        with pytest.raises(LinkClosed):
            await theirs.send("x")
        for _ in range(2):
            with pytest.raises(LinkClosed, match="closed by this end"):
                await ours.receive()
        with pytest.raises(LinkClosed, match="closed by this end"):
            await ours.send("x")
        ours.close()

    play(scenario)


def test_a_reader_is_told_at_once_when_its_own_end_closes() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(_reason(ours))
            await asyncio.sleep(0)
            ours.close()
        assert reading.result() == "closed by this end"

    play(scenario)


def test_a_cancelled_reader_loses_nothing() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ours.receive()
        await theirs.send("a")
        assert await ours.receive() == "a"

    play(scenario)


def test_the_end_that_closed_takes_nothing_more_and_ends_all_the_same() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        for number in range(2_000):
            await theirs.send(f"{number}")
        ours.close()
        await ours.wait_closed()
        await theirs.wait_closed()

    play(scenario)


def test_an_abandoned_link_stays_open_until_it_is_closed() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        await ours.send("before")
        ours.abandon()
        await ours.send("into the void")
        await theirs.send("into the void")
        assert await theirs.receive() == "before"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await asyncio.gather(theirs.receive(), ours.receive())
        assert not ours.closed and not theirs.closed
        ours.close()
        with pytest.raises(LinkClosed):
            await theirs.receive()
        with pytest.raises(LinkClosed, match="gone"):
            await ours.receive()

    play(scenario)


def test_a_reader_of_an_abandoned_link_waits_for_its_close() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(_reason(ours))
            await asyncio.sleep(0)
            ours.abandon()
            await theirs.send("nobody reads this")
            await asyncio.sleep(0.1)
            assert not reading.done()
            ours.close()
        assert reading.result() == "this end is gone"

    play(scenario)


def test_the_other_end_of_a_link_that_vanished_notices_later() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        began_s = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(_reason(ours))
            await asyncio.sleep(0)
            ours.vanish(300_000)
        assert reading.result() == "this end vanished"
        assert ours.closed and not theirs.closed
        ours.close()  # as every owner of a link does in the end
        await theirs.send("into the void")
        with pytest.raises(LinkClosed):
            await theirs.receive()
        assert asyncio.get_running_loop().time() - began_s >= 0.3

    play(scenario)


def test_a_station_that_answers_no_more_does_not_keep_the_server_from_stopping() -> None:
    async def scenario(ends: Ends, ours: WebSocketLink, theirs: WebSocketLink) -> None:
        ours.abandon()
        await ends.server.stop()
        assert theirs.closed

    play(scenario)


async def _reason(link: WebSocketLink) -> str:
    with pytest.raises(LinkClosed) as caught:
        await link.receive()
    return str(caught.value)


@on_a_loop
async def test_nobody_there_is_a_link_that_is_closed() -> None:
    server = TapServer()
    await server.start()
    uri = server.uri
    await server.stop()
    with pytest.raises(LinkClosed, match="Connect call failed"):
        await connect(f"{uri}/router-{WEST}")
    with pytest.raises(LinkClosed):
        await discover(uri, WEST)
    with pytest.raises(LinkClosed, match="nonsense"):
        await connect("nonsense")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{", "cannot be read"),
        ('{"uri": 5}', "no URI"),
        ('{"uri": "ws://a/no-port"}', "scheme and port"),
        ('{"uri": "http://a:1/"}', "scheme and port"),
        (f'{{"uri": "ws://a:1/{"x" * 120}"}}', "127"),
        ('{"error": "go away"}', "go away"),
    ],
)
@on_a_loop
async def test_discovery_takes_what_a_station_takes(answer: str, said: str) -> None:
    async def tell(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(answer)
        await connection.wait_closed()

    async with serve(tell, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(LinkClosed, match=said):
            await discover(f"ws://127.0.0.1:{port}", WEST)


@on_a_loop
async def test_a_text_that_is_no_text_ends_the_link() -> None:
    async def tell(connection: ServerConnection) -> None:
        await connection.send(b"a binary message is left out")
        await connection.send("read")
        await connection.send(b"\xff", text=True)
        await connection.wait_closed()

    async with serve(tell, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        link = await connect(f"ws://127.0.0.1:{port}/")
        assert await link.receive() == "read"
        assert await _reason(link) == "a text that nobody can read"
        await link.wait_closed()


@on_a_loop
async def test_a_station_follows_no_redirect() -> None:
    reply = b"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(redirect, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(LinkClosed, match="refused with 302"):
            await connect(f"ws://127.0.0.1:{port}/")


@on_a_loop
async def test_the_network_server_takes_such_a_station() -> None:
    async with listening() as lns:
        links = StationLinks()
        link = await links.connect(lns.uri, WEST)
        await link.send(version_text("2.0.6(linux/virtual)"))
        assert '"router_config"' in await link.receive()
        await links.close()
        await lns.until(lambda: lns.causes)


def _https(folder: Path) -> ssl.SSLContext:
    write_server_files(folder, AUTHORITY, "127.0.0.1")
    return server_context(folder / "server.crt", folder / "server.key", folder / "stations-ca.crt")


@on_a_loop
async def test_a_station_with_a_certificate_gets_through_and_speaks_tls_1_2(tmp_path: Path) -> None:
    async with listening(tls=_https(tmp_path), access=Access(certificates=True)) as lns:
        client = AUTHORITY.client(WEST)
        home = tmp_path / "home"
        write_station_files(home, "tc", lns.uri, trust=AUTHORITY.certificate, client=client)
        uri, tls = station_files(home)
        link = await connect(await discover(uri, WEST, tls=tls), tls=tls)
        agreed = link._connection.transport.get_extra_info("ssl_object")
        assert agreed.version() == "TLSv1.2"
        await link.send(version_text("2.0.6(linux/virtual)"))
        assert '"router_config"' in await link.receive()
        link.close()
        await link.wait_closed()
        with pytest.raises(LinkClosed, match="403 no client certificate"):
            await discover(uri, WEST, tls=StationTls(home / "tc.trust"))
        with pytest.raises(LinkClosed, match="another station's"):
            await discover(uri, EAST, tls=tls)


@on_a_loop
async def test_a_station_with_a_token_gets_through(tmp_path: Path) -> None:
    access = Access(tokens={WEST: "Bearer west"})
    async with listening(tls=_https(tmp_path), access=access) as lns:
        home = tmp_path / "home"
        trust = AUTHORITY.certificate
        write_station_files(home, "tc", lns.uri, trust=trust, token="Bearer west")
        uri, tls = station_files(home)
        links = StationLinks()
        await links.connect(uri, WEST, tls=tls)
        await links.close()
        write_station_files(home, "tc", lns.uri, trust=trust, token="Bearer east")
        with pytest.raises(LinkClosed, match="401 wrong token") as caught:
            await discover(uri, WEST, tls=station_files(home)[1])
        assert "east" not in str(caught.value)


@on_a_loop
async def test_a_server_that_another_authority_vouches_for_is_not_trusted(tmp_path: Path) -> None:
    async with listening(tls=_https(tmp_path)) as lns:
        (tmp_path / "other.crt").write_bytes(Authority().certificate)
        with pytest.raises(LinkClosed, match="CERTIFICATE_VERIFY_FAILED"):
            await discover(lns.uri, WEST, tls=StationTls(tmp_path / "other.crt"))
        with pytest.raises(LinkClosed, match=r"\.trust"):
            await discover(lns.uri, WEST)


def test_a_station_without_trust_has_no_tls(tmp_path: Path) -> None:
    write_station_files(tmp_path, "tc", "ws://127.0.0.1:6090")
    assert station_files(tmp_path) == ("ws://127.0.0.1:6090", None)


@on_a_loop
async def test_an_abandoned_link_over_tls_stays_open_too(tmp_path: Path) -> None:
    ends = Ends()
    ends.server = TapServer(ssl=_https(tmp_path))
    await ends.server.start()
    ends.server.register(WEST, ends.accept)
    tls = StationTls(tmp_path / "stations-ca.crt")
    links = StationLinks()
    ours = await links.connect(ends.server.uri, WEST, tls=tls)
    theirs = await ends.accepted.get()
    ours.abandon()
    await theirs.send("into the void")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await theirs.receive()
    assert not theirs.closed
    await links.close()
    with pytest.raises(LinkClosed):
        await theirs.receive()
    await ends.server.stop()
