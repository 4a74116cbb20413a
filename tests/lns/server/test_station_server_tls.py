"""wss://, client certificates and tokens, over real TLS as a station speaks it."""

import asyncio
import json
import logging
import socket
import ssl
from pathlib import Path

import pytest

from bench.certificates import Authority, write_server_files
from lns.access import Access
from lns.lorawan.identifiers import Eui
from lns.tls import server_context
from tests.lns.served_network import EAST, WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket, UpgradeRefused
from tests.lns.server.listening import Listening, play

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
    folder: Path, *, client: Eui | None = None, by: Authority = AUTHORITY
) -> ssl.SSLContext:
    """As mbedtls 2.28 has it: TLS 1.2 at most, always with verification."""
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if client is not None:
        by.client(client).write(folder, client)
        context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
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


def test_a_station_that_trusts_another_authority_is_told_of(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def shake_hands(port: int) -> None:
        stranger = ssl.create_default_context(cadata=Authority().certificate.decode())
        with socket.create_connection(("127.0.0.1", port)) as plain:
            with pytest.raises(ssl.SSLCertVerificationError):
                stranger.wrap_socket(plain, server_hostname="127.0.0.1")

    async def scenario(served: Listening) -> None:
        await asyncio.to_thread(shake_hands, served.port)
        await asyncio.sleep(0.05)

    with caplog.at_level(logging.WARNING):
        assert play(scenario, tls=server_tls(folder)).events == []
    assert any("TLS handshake refused" in line for line in caplog.messages)


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


def test_a_certificate_of_another_authority_ends_the_handshake(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(served: Listening) -> None:
        context = station_tls(folder, client=WEST, by=Authority("other"))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await StationSocket.open(f"{served.uri}/router-info", context=context)
        await asyncio.sleep(0.05)

    with caplog.at_level(logging.WARNING):
        play(scenario, tls=server_tls(folder, client_ca=True), access=Access(certificates=True))
    assert any("TLS handshake refused" in line for line in caplog.messages)


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


def test_plain_text_at_a_tls_listener_harms_nobody(folder: Path) -> None:
    async def scenario(served: Listening) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /router-info HTTP/1.1\r\n\r\n")
        await reader.read()
        writer.close()
        station = BasicsStation(WEST, served.uri, context=station_tls(folder))
        assert json.dumps(await station.discover())

    play(scenario, tls=server_tls(folder))


def test_the_keys_never_appear_in_a_repr() -> None:
    assert "7c2f" not in repr(Access(tokens=TOKENS))
    assert "PRIVATE" not in repr(AUTHORITY.client(WEST))
