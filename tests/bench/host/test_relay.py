"""A wire that goes wrong."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping

import pytest

from bench.host.lns_files import Authority, write_server_files
from bench.host.relay import Relay
from tests.looped import on_a_loop

PATIENCE_S = 60
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Wire:
    """A relay to an echo server, and its clients."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.told: list[tuple[str, Mapping[str, object]]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def client(self) -> Ends:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.relay.port)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        for writer in self._writers:
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def play(scenario: Callable[[Wire], Awaitable[None]]) -> Wire:
    async def main() -> Wire:
        received = bytearray()

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while octets := await reader.read(4096):
                    received.extend(octets)
                    writer.write(octets)
            except ConnectionError:
                pass
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        relay = Relay("127.0.0.1", server.sockets[0].getsockname()[1], name="upstream")
        wire = Wire(relay)
        wire.received = received  # type: ignore[attr-defined]
        relay._note = lambda kind, fields: wire.told.append((kind, fields))
        async with asyncio.timeout(PATIENCE_S), relay:
            await scenario(wire)
        await wire.close()
        server.close()
        await server.wait_closed()
        return wire

    return asyncio.run(main())


async def is_over(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_octets_pass_both_ways_and_the_end_does_too() -> None:
    async def scenario(wire: Wire) -> None:
        reader, writer = await wire.client()
        sent = bytes(range(256)) * 4_000
        writer.write(sent)
        writer.write_eof()
        assert await reader.read(-1) == sent
        assert wire.relay.octets("up") == wire.relay.octets("down") == len(sent)
        assert wire.relay.connections == 1

    assert play(scenario).told == []


def test_a_delay_keeps_the_order_and_the_time() -> None:
    async def scenario(wire: Wire) -> None:
        loop = asyncio.get_running_loop()
        reader, writer = await wire.client()
        wire.relay.delay(200_000, "up")
        began_s = loop.time()
        writer.write(b"a")
        await asyncio.sleep(0.1)
        wire.relay.delay(0, "up")
        writer.write(b"b")
        assert await reader.readexactly(2) == b"ab"
        assert loop.time() - began_s >= 0.2
        wire.relay.delay(100_000)
        began_s = loop.time()
        writer.write(b"c")
        assert await reader.readexactly(1) == b"c"
        assert loop.time() - began_s >= 0.2

    play(scenario)


def test_a_cut_ends_all_and_refuses_until_it_is_restored() -> None:
    async def scenario(wire: Wire) -> None:
        clients = [await wire.client() for _ in range(3)]
        for reader, writer in clients:
            writer.write(b"a")
            await reader.readexactly(1)
        wire.relay.cut()
        for reader, _ in clients:
            assert await is_over(reader)
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                await wire.client()
        await wire.relay.restore()
        reader, writer = await wire.client()
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"

    wire = play(scenario)
    fields = {"seam": "upstream", "fault": "cut", "origin": "injected", "detail": {}}
    assert wire.told == [("fault.begin", fields), ("fault.end", fields)]


def test_what_is_held_goes_on_later() -> None:
    async def scenario(wire: Wire) -> None:
        wire.relay.hold()
        reader, writer = await wire.client()
        writer.write(b"late")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)
        await wire.relay.restore()
        assert await reader.readexactly(4) == b"late"
        wire.relay.hold()
        writer.write(b"never")
        wire.relay.cut()
        assert await is_over(reader)

    play(scenario)


def test_what_is_swallowed_never_arrives() -> None:
    async def scenario(wire: Wire) -> None:
        reader, writer = await wire.client()
        wire.relay.swallow("down")
        writer.write(b"heard")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)
        await wire.relay.restore()
        assert await is_over(reader)
        wire.relay.swallow()
        reader, writer = await wire.client()
        writer.write(b"unheard")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)
        await wire.relay.clear()
        reader, writer = await wire.client()
        writer.write(b".")
        assert await reader.readexactly(1) == b"."

    assert play(scenario).received == b"heard."  # type: ignore[attr-defined]


@on_a_loop
async def test_where_nobody_listens_a_client_is_sent_away() -> None:
    async with Relay("127.0.0.1", 9) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        assert await is_over(reader)
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def test_all_faults_are_cleared_together() -> None:
    async def scenario(wire: Wire) -> None:
        wire.relay.delay(60_000_000)
        wire.relay.hold()
        wire.relay.cut()
        await wire.relay.clear()
        reader, writer = await wire.client()
        writer.write(b"all well")
        assert await reader.readexactly(8) == b"all well"

    told = play(scenario).told
    ended = sorted(str(fields["fault"]) for kind, fields in told if kind == "fault.end")
    assert ended == ["cut", "delay", "hold"]


def test_what_was_asked_arrives_and_no_answer_comes_back() -> None:
    async def scenario(wire: Wire) -> None:
        reader, writer = await wire.client()
        asked = wire.relay.hold_after_next()
        writer.write(b"question")
        await asked
        answer = asyncio.create_task(reader.readexactly(8))
        while bytes(wire.received) != b"question":  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        writer.write(b" again")
        await asyncio.sleep(0.05)
        assert not answer.done()
        assert bytes(wire.received) == b"question"  # type: ignore[attr-defined]
        await wire.relay.restore()
        assert await answer == b"question"

    told = [(kind, fields["fault"]) for kind, fields in play(scenario).told]
    assert told == [("fault.begin", "hold"), ("fault.end", "hold")]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("tls")
    write_server_files(folder, Authority(), "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    return context


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("turns", range(6))
def test_of_who_connects_in_the_moment_of_its_end_nothing_is_left(
    turns: int, encrypted: bool, tls: ssl.SSLContext
) -> None:
    """However far its connection has come: the socket is closed, and no task goes on."""

    async def main() -> list[asyncio.Task[object]]:
        async with asyncio.timeout(PATIENCE_S / 2):  # a handshake would be waited for longer
            server = await asyncio.start_server(lambda *ends: ends[1].close(), "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            relay = Relay("127.0.0.1", port, tls=tls if encrypted else None)
            before = asyncio.all_tasks()
            await relay.start()
            with socket.create_connection(("127.0.0.1", relay.port)):
                for _ in range(turns):
                    await asyncio.sleep(0)
                await relay.stop()
                left = [task for task in asyncio.all_tasks() - before if "relay" in repr(task)]
            server.close()
            await server.wait_closed()
            return left

    assert asyncio.run(main()) == []
    gc.collect()  # a socket that is not closed is told now


def test_of_who_stays_or_goes_after_its_handshake_nothing_is_left(tls: ssl.SSLContext) -> None:
    trusting = ssl._create_unverified_context()

    async def scenario(wire: Wire) -> None:
        async with Relay("127.0.0.1", wire.relay.port, tls=tls) as front:
            for goes in (True, False):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", front.port, ssl=trusting
                )
                wire._writers.append(writer)
                writer.write(b"ping")
                assert await reader.readexactly(4) == b"ping"
                if goes:
                    writer.transport.abort()

    play(scenario)
    gc.collect()  # a socket that is not closed is told now
