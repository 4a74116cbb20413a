"""Connections within one process behave as those of a host: each test runs on both."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from bench import clock
from bench.host.lns_files import Authority, write_server_files
from bench.sockets import ON_THE_WAY_MAX
from lns.clock import now_us
from lns.server.access import server_context

HOST = "127.0.0.1"
RUNS: dict[str, Callable[[Coroutine[Any, Any, None]], None]] = {
    "virtual": clock.run,
    "real": asyncio.run,
}
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


class End(asyncio.Protocol):
    """Notes what happens to one end; it stays half open where it is told to."""

    def __init__(self, *, stays: bool = False) -> None:
        self.came = bytearray()
        self.happened: list[str] = []
        self.error: Exception | None = None
        self.made = asyncio.Event()
        self.over = asyncio.Event()
        self.transport: asyncio.Transport
        self._stays = stays

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.made.set()

    def data_received(self, data: bytes) -> None:
        self.came += data

    def eof_received(self) -> bool:
        self.happened.append("eof")
        return self._stays

    def pause_writing(self) -> None:
        self.happened.append("pause")

    def resume_writing(self) -> None:
        self.happened.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.happened.append("lost")
        self.error = exc
        self.over.set()


async def pair(*, stays: bool = False, away_us: int = 0) -> tuple[asyncio.AbstractServer, End, End]:
    """A server, the end of a client and the one that was accepted."""
    accepted: list[End] = []

    def accept() -> End:
        accepted.append(End(stays=stays))
        return accepted[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(accept, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    if away_us:
        cast(Any, loop).network.away_us[port] = away_us
    _, client = await loop.create_connection(End, HOST, port)
    await until(lambda: bool(accepted) and accepted[0].made.is_set())
    return server, client, accepted[0]


async def until(condition: Callable[[], bool]) -> None:
    await clock.until(condition, 5_000_000, TimeoutError, every_us=1000)


async def end(server: asyncio.AbstractServer, *ends: End) -> None:
    for one in ends:
        one.transport.abort()
    server.close()
    await server.wait_closed()


def test_what_is_written_arrives_in_order(run: Run) -> None:
    async def play() -> None:
        server, client, accepted = await pair()
        client.transport.write(b"one ")
        client.transport.writelines([b"two ", b"three"])
        accepted.transport.write(b"answer")
        await until(lambda: bytes(accepted.came) == b"one two three")
        await until(lambda: bytes(client.came) == b"answer")
        ours, theirs = (client.transport.get_extra_info(name) for name in ("sockname", "peername"))
        assert theirs == server.sockets[0].getsockname()
        assert accepted.transport.get_extra_info("peername") == ours
        await end(server, client, accepted)

    run(play())


def test_what_was_written_before_the_end_arrives(run: Run) -> None:
    async def play() -> None:
        server, client, accepted = await pair()
        client.transport.write(b"x" * 1_000_000)
        client.transport.close()
        client.transport.write(b"too late")
        await client.over.wait()
        await accepted.over.wait()
        assert len(accepted.came) == 1_000_000
        assert accepted.happened == ["eof", "lost"]
        assert accepted.error is None and client.error is None
        assert client.transport.is_closing() and accepted.transport.is_closing()
        await end(server)

    run(play())


def test_an_end_may_say_that_nothing_follows_and_hear_on(run: Run) -> None:
    async def play() -> None:
        server, client, accepted = await pair(stays=True)
        client.transport.write(b"question")
        client.transport.write_eof()
        await until(lambda: accepted.happened == ["eof"])
        assert bytes(accepted.came) == b"question"
        accepted.transport.write(b"answer")
        accepted.transport.close()
        await client.over.wait()
        assert bytes(client.came) == b"answer"
        await end(server)

    run(play())


def test_who_writes_to_nobody_who_reads_is_told_so(run: Run) -> None:
    async def play() -> None:
        server, client, accepted = await pair()
        accepted.transport.pause_reading()
        client.transport.write(b"x" * 20_000_000)
        await until(lambda: client.happened == ["pause"])
        assert client.transport.get_write_buffer_size() > 64 * 1024
        await asyncio.sleep(0.05)
        assert not accepted.came
        accepted.transport.resume_reading()
        await until(lambda: client.happened == ["pause", "resume"])
        await until(lambda: len(accepted.came) == 20_000_000)
        await end(server, client, accepted)

    run(play())


def test_an_aborted_connection_is_over_for_both(run: Run) -> None:
    async def play() -> None:
        server, client, accepted = await pair()
        client.transport.abort()
        await client.over.wait()
        await accepted.over.wait()
        assert client.happened == ["lost"] and accepted.happened == ["eof", "lost"]
        await end(server)

    run(play())


def test_whoever_writes_to_somebody_who_is_gone_loses_the_connection(run: Run) -> None:
    async def play() -> None:
        server, client, accepted = await pair(stays=True)
        client.transport.abort()
        await until(lambda: accepted.happened == ["eof"])
        accepted.transport.write(b"anybody there?")
        await asyncio.sleep(0.02)
        accepted.transport.write(b"anybody?")
        await accepted.over.wait()
        assert isinstance(accepted.error, OSError)
        await end(server)

    run(play())


def test_nobody_listens(run: Run) -> None:
    async def play() -> None:
        server, client, accepted = await pair()
        loop, port = asyncio.get_running_loop(), server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match=r"98|in use|listens"):
            await loop.create_server(End, HOST, port)
        await end(server, client, accepted)
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(End, HOST, port)

    run(play())


def test_tls_over_it(run: Run, tmp_path: Path) -> None:
    authority = Authority()
    write_server_files(tmp_path, authority, HOST)
    trusting = ssl.create_default_context(cadata=authority.certificate.decode())

    async def play() -> None:
        loop, context = (
            asyncio.get_running_loop(),
            server_context(tmp_path / "server.crt", tmp_path / "server.key"),
        )
        accepted, plain = End(), End()
        server = await loop.create_server(lambda: plain, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        coming = asyncio.ensure_future(loop.create_connection(End, HOST, port, ssl=trusting))
        await plain.made.wait()
        secured = await loop.start_tls(plain.transport, accepted, context, server_side=True)
        assert secured is not None
        accepted.transport = secured
        _, client = await coming
        client.transport.write(b"x" * 200_000)
        await until(lambda: len(accepted.came) == 200_000)
        secured.write(b"answer")
        await until(lambda: bytes(client.came) == b"answer")
        await end(server, client, accepted)

    run(play())


@pytest.mark.parametrize("away_us", [0, 1, 500])
def test_it_takes_its_time_and_no_more(away_us: int) -> None:
    async def play() -> None:
        began_us = now_us()
        server, client, accepted = await pair(away_us=away_us)
        assert away_us <= now_us() - began_us <= away_us + 1000
        began_us = now_us()
        client.transport.write(b"x" * ON_THE_WAY_MAX)
        count = ON_THE_WAY_MAX
        await clock.until(lambda: len(accepted.came) == count, count, TimeoutError, every_us=1)
        assert abs(now_us() - began_us - away_us) <= 2
        await end(server, client, accepted)

    clock.run(play())


@pytest.mark.parametrize("name", ["consumer-a", None])
def test_what_nobody_is_closing_is_left_open(name: str | None) -> None:
    async def play() -> None:
        server, client, accepted = await pair()
        if name is not None:
            accepted.of = name  # type: ignore[attr-defined]
        assert clock.left_open() == [name or "somebody"]
        await end(server, client, accepted)
        assert clock.left_open() == []

    clock.run(play())
