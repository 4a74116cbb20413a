"""wss://, client certificates and tokens, over real TLS as a station speaks it."""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509 import ObjectIdentifier

from bench.host.lns_files import CLIENT, SERVER, Authority, Pair, write_server_files
from lns.lorawan.identifiers import Eui, eui_dashed, eui_id6
from lns.server.access import Access, server_context
from lns.server.web_socket import Limits
from tests.lns.served_network import EAST, WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket, UpgradeRefused
from tests.lns.server.listening import PATIENCE_S, Listening, play

TOKENS = {WEST: "Bearer west-7c2f", EAST: "Bearer east-91ab"}
AUTHORITY = Authority()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_server_files(tmp_path, AUTHORITY, "127.0.0.1", "localhost")
    return tmp_path


def server_tls(folder: Path, *, client_ca: bool = False) -> ssl.SSLContext:
    ca = folder / "stations-ca.crt" if client_ca else None
    return server_context(folder / "server.crt", folder / "server.key", ca)


def station_tls(
    folder: Path,
    *,
    client: Eui | None = None,
    by: Authority = AUTHORITY,
    pair: Pair | None = None,
) -> ssl.SSLContext:
    """As mbedtls 2.28 has it: TLS 1.2 at most, always with verification."""
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    shown = by.client(client) if client is not None else pair
    if shown is not None:
        shown.write(folder, "shown")
        context.load_cert_chain(folder / "shown.crt", folder / "shown.key")
    return context


def refused(served: Listening) -> list[tuple[str | None, str | None]]:
    return [(event.station, event.cause) for event in served.connections("refused")]


def test_a_station_is_served_over_tls_1_2(folder: Path) -> None:
    async def scenario(served: Listening) -> None:
        assert served.uri.startswith("wss://127.0.0.1:")
        station = BasicsStation(WEST, served.uri, context=station_tls(folder))
        await station.connect()
        assert station.uri == f"{served.uri}/router/{WEST}"
        await station.until_configured()
        station.hear(uplink(10, confirmed=True))
        await station.next_dnmsg()

    assert play(scenario, tls=server_tls(folder)).words[0][3] == "RX1"


async def shake_hands(port: int, context: ssl.SSLContext) -> None:
    """A TLS handshake as a station has it, and its end, whoever it is that ends it.

    In a thread: asyncio's client leaves without the alert that says why.
    """

    def shake() -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as plain:
            context.wrap_socket(plain, server_hostname="127.0.0.1").close()

    await asyncio.to_thread(shake)


async def speak_http(port: int, _: ssl.SSLContext) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /router-info HTTP/1.1\r\n\r\n")
    await reader.read()
    writer.close()


async def say_nothing(port: int, _: ssl.SSLContext) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        await reader.read()
    writer.close()


async def leave_in_the_middle(port: int, _: ssl.SSLContext) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01\x00")
    writer.write_eof()
    await writer.drain()
    writer.close()


def stranger(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=Authority().certificate.decode())


HOUR = timedelta(hours=1)
REFUSED_HANDSHAKES = [
    (shake_hands, stranger, "the station does not trust the server's certificate"),
    (
        shake_hands,
        lambda folder: station_tls(folder, client=WEST, by=Authority("other")),
        "the client certificate is of another authority",
    ),
    (
        shake_hands,
        lambda folder: station_tls(folder, client=WEST, by=Authority()),  # of the same name
        "the client certificate is of another authority",
    ),
    (
        shake_hands,
        lambda folder: station_tls(
            folder, pair=AUTHORITY.issue([WEST], usages=[CLIENT], ends_in=-HOUR)
        ),
        "the client certificate has expired",
    ),
    (
        shake_hands,
        lambda folder: station_tls(folder, pair=AUTHORITY.issue([WEST], usages=[SERVER])),
        "the client certificate is not made for clients",
    ),
    (speak_http, stranger, "speaks no TLS"),
    (say_nothing, stranger, "takes too long"),
    (leave_in_the_middle, stranger, "left in the middle of it"),
]


@pytest.mark.parametrize(("come", "context", "why"), REFUSED_HANDSHAKES)
def test_a_handshake_that_fails_is_told_with_peer_and_reason(
    folder: Path,
    come: Callable[[int, ssl.SSLContext], Awaitable[None]],
    context: Callable[[Path], ssl.SSLContext],
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(served: Listening) -> None:
        async with asyncio.timeout(60):
            await come(served.port, context(folder))
        await served.until(lambda: served.connections("refused"))

    with caplog.at_level(logging.WARNING):
        within_us = 400_000 if come is say_nothing else 60_000_000
        tls, limits = server_tls(folder, client_ca=True), Limits(handshake_us=within_us)
        served = play(scenario, tls=tls, limits=limits, access=Access(certificates=True))
    (event,) = served.connections("refused")
    assert (event.station, event.cause) == (None, f"TLS handshake: {why}")
    assert event.peer.startswith("127.0.0.1:")
    assert caplog.messages == [f"{event.peer}: refused: TLS handshake: {why}"]
    assert served.server.opening == 0


@pytest.mark.parametrize("path", ["router-info", f"router/{WEST}"])
def test_without_a_client_certificate_nothing_is_served(folder: Path, path: str) -> None:
    async def scenario(served: Listening) -> None:
        with pytest.raises(UpgradeRefused) as refusal:
            await StationSocket.open(f"{served.uri}/{path}", context=station_tls(folder))
        assert (refusal.value.status, refusal.value.body) == (403, "no client certificate\n")

    tls = server_tls(folder, client_ca=True)
    station = None if path == "router-info" else WEST
    served = play(scenario, tls=tls, access=Access(certificates=True))
    assert refused(served) == [(station, "no client certificate")]


def test_a_client_certificate_is_good_for_its_station_only(folder: Path) -> None:
    async def scenario(served: Listening) -> None:
        context = station_tls(folder, client=WEST)
        await BasicsStation(WEST, served.uri, context=context).connect()
        impostor = BasicsStation(EAST, served.uri, context=context)
        assert "another station's" in (await impostor.discover())["error"]
        with pytest.raises(UpgradeRefused) as refusal:
            await StationSocket.open(f"{served.uri}/router/{EAST}", context=context)
        assert refusal.value.status == 403

    tls = server_tls(folder, client_ca=True)
    served = play(scenario, tls=tls, access=Access(certificates=True))
    assert refused(served) == [(EAST, "the client certificate is another station's")] * 2


@pytest.mark.parametrize(
    "name", [eui_dashed(WEST), eui_id6(WEST), f" {WEST} ", WEST.lower(), "00:16:c0:01:f1:50:00:01"]
)
def test_a_station_may_be_named_in_any_spelling_and_no_other_is_served(
    folder: Path, name: str
) -> None:
    context = station_tls(folder, pair=AUTHORITY.issue([name], usages=[CLIENT]))

    async def scenario(served: Listening) -> None:
        await BasicsStation(WEST, served.uri, context=context).connect()
        assert (
            "another"
            in (await BasicsStation(EAST, served.uri, context=context).discover())["error"]
        )
        with pytest.raises(UpgradeRefused):
            await StationSocket.open(f"{served.uri}/router/{EAST}", context=context)

    served = play(
        scenario, tls=server_tls(folder, client_ca=True), access=Access(certificates=True)
    )
    assert refused(served) == [(EAST, "the client certificate is another station's")] * 2


NO_NAME = "the client certificate names no station: it needs an EUI as its CN"
NO_CLIENT = "the client certificate is not made for clients"


@pytest.mark.parametrize(
    ("names", "usages", "why"),
    [
        (["gateway-7"], [CLIENT], NO_NAME),
        ([], [CLIENT], NO_NAME),
        ([WEST, EAST], [CLIENT], NO_NAME),
        ([f"{WEST}\t"], [CLIENT], NO_NAME),
        ([WEST], [], NO_CLIENT),
        (["127.0.0.1"], [SERVER, CLIENT], NO_NAME),
    ],
)
@pytest.mark.parametrize("path", ["router-info", f"router/{WEST}"])
def test_any_other_certificate_of_the_authority_opens_nothing(
    folder: Path, names: list[str], usages: list[ObjectIdentifier], why: str, path: str
) -> None:
    context = station_tls(folder, pair=AUTHORITY.issue(names, usages=usages))

    async def scenario(served: Listening) -> None:
        with pytest.raises(UpgradeRefused) as refusal:
            await StationSocket.open(f"{served.uri}/{path}", context=context)
        assert (refusal.value.status, refusal.value.body) == (403, f"{why}\n")

    tls, access = server_tls(folder, client_ca=True), Access(certificates=True)
    station = None if path == "router-info" else WEST
    assert refused(play(scenario, tls=tls, access=access)) == [(station, why)]


@pytest.mark.parametrize("names", [["gateway-7"], [], [EAST]])
def test_with_any_station_every_certificate_of_the_authority_is_good(
    folder: Path, names: list[str]
) -> None:
    context = station_tls(folder, pair=AUTHORITY.issue(names, usages=[]))

    async def scenario(served: Listening) -> None:
        await BasicsStation(WEST, served.uri, context=context).connect()

    access = Access(certificates=True, any_station=True)
    assert refused(play(scenario, tls=server_tls(folder, client_ca=True), access=access)) == []


def test_half_a_handshake_counts_from_the_moment_it_is_accepted(folder: Path) -> None:
    """Of four hundred that began one, twenty are left; a station is served among them."""
    hello = b"\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03" + bytes(32)

    async def scenario(served: Listening) -> None:
        opened = []
        for number in range(400):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            if number % 2:
                writer.write(hello)
            opened.append((reader, writer))
            assert served.server.opening <= 20
        station = BasicsStation(WEST, served.uri, context=station_tls(folder))
        await station.connect()
        await station.until_configured()
        reading = [asyncio.ensure_future(reader.read()) for reader, _ in opened]
        async with asyncio.timeout(PATIENCE_S):
            for ended, one in enumerate(asyncio.as_completed(reading), start=1):
                with suppress(ConnectionError):
                    await one
                if ended == 380:
                    break
        for task, (_, writer) in zip(reading, opened, strict=True):
            task.cancel()
            writer.close()
        await asyncio.gather(*reading, return_exceptions=True)

    limits = Limits(opening_max=20, handshake_us=60_000_000)
    served = play(scenario, tls=server_tls(folder), limits=limits)
    causes = Counter(event.cause for event in served.connections("refused"))
    assert causes["too many connections that say nothing"] >= 380
    assert len(served.connections("connected")) == 1


def test_whoever_opens_most_goes_first(folder: Path) -> None:
    """A station whose handshake is slow is not dropped for the crowd of another address."""

    async def scenario(served: Listening) -> None:
        slow, writer = await asyncio.open_connection(
            "127.0.0.1", served.port, local_addr=("127.0.0.2", 0)
        )
        crowd = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(60)]
        await served.until(lambda: len(served.connections("refused")) >= 41)
        assert not slow.at_eof()
        assert {one.peer.split(":")[0] for one in served.connections("refused")} == {"127.0.0.1"}
        for _, other in [*crowd, (slow, writer)]:
            other.close()

    limits = Limits(opening_max=20, handshake_us=60_000_000)
    play(scenario, tls=server_tls(folder), limits=limits)


def test_the_right_token_opens_discovery_and_data_connection(folder: Path) -> None:
    async def scenario(served: Listening) -> None:
        context = station_tls(folder)
        station = BasicsStation(WEST, served.uri, token=TOKENS[WEST], context=context)
        await station.connect()
        await station.until_configured()

    served = play(scenario, tls=server_tls(folder), access=Access(tokens=TOKENS))
    assert refused(served) == []


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (None, "no Authorization header"),
        ("Bearer nobody", "wrong token"),
        ("", "wrong token"),
        ("Bearer west-7c2f\r\nAuthorization: Bearer west-7c2f", "no Authorization header"),
        ("\u00e9", "wrong token"),
    ],
)
@pytest.mark.parametrize("path", ["router-info", f"router/{WEST}"])
def test_a_wrong_token_opens_nothing(
    folder: Path, token: str | None, why: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(served: Listening) -> None:
        headers = "" if token is None else f"Authorization: {token}\r\n"
        with pytest.raises(UpgradeRefused) as refusal:
            context = station_tls(folder)
            await StationSocket.open(f"{served.uri}/{path}", headers=headers, context=context)
        assert (refusal.value.status, refusal.value.body) == (401, f"{why}\n")
        assert "\r\nWWW-Authenticate: Bearer\r\n" in refusal.value.head

    station = None if path == "router-info" else WEST
    with caplog.at_level(logging.DEBUG, "lns"):
        served = play(scenario, tls=server_tls(folder), access=Access(tokens=TOKENS))
    assert refused(served) == [(station, why)]
    told = [line for line in caplog.messages if "refused" in line]
    assert len(told) == 1
    assert "west-7c2f" not in caplog.text
    assert "nobody" not in caplog.text


def test_the_token_of_another_station_is_refused(folder: Path) -> None:
    async def scenario(served: Listening) -> None:
        context = station_tls(folder)
        thief = BasicsStation(WEST, served.uri, token=TOKENS[EAST], context=context)
        assert await thief.discover() == {"router": "16:c001:f150:1", "error": "wrong token"}
        with pytest.raises(UpgradeRefused) as refusal:
            uri = f"{served.uri}/router/{WEST}"
            await StationSocket.open(uri, headers=thief.headers, context=context)
        assert refusal.value.status == 401

    served = play(scenario, tls=server_tls(folder), access=Access(tokens=TOKENS))
    assert refused(served) == [(WEST, "wrong token")] * 2


def test_who_reads_nothing_over_tls_is_dropped_too(folder: Path) -> None:
    async def scenario(served: Listening) -> None:
        station = BasicsStation(WEST, served.uri, context=station_tls(folder))
        await station.connect()
        assert station.socket is not None
        station.socket.writer.transport.pause_reading()  # type: ignore[attr-defined]
        try:
            while not served.causes:
                for _ in range(200):
                    station.socket.send_text('{"msgtype":"timesync","txtime":1}')
                await station.socket.writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        await served.until(lambda: served.causes)

    assert play(scenario, tls=server_tls(folder)).causes == ["reads too slowly"]


def test_the_keys_never_appear_in_a_repr() -> None:
    assert "7c2f" not in repr(Access(tokens=TOKENS))
    assert "PRIVATE" not in repr(AUTHORITY.client(WEST))
