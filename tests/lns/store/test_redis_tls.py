"""`rediss://`: what goes to the store is encrypted, and whoever answers has to prove its name.

The Valkey of the bench is built without TLS, so it stands behind an end of TLS of its own host.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.host.lns_files import Authority, write_server_files
from bench.host.lns_process import Valkey
from bench.host.relay import Relay
from lns.clock import StoreUnavailable
from lns.dedup.claim import Bid, Level2
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from lns.store.redis import RedisStore
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import RedisServer, redis_server
from tests.lns.served_network import DEV_ADDR, KEYS
from tests.looped import on_a_loop

ALPHA = Eui("70B3D57ED0000001")
BID = Bid(lns="lns-a", dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=10)
SESSION = Session(dev_eui=ALPHA, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=10)
PATIENCE_US = 10_000_000  # this host may be busy


@asynccontextmanager
async def encrypted(folder: Path, host: str = "127.0.0.1") -> AsyncIterator[tuple[int, Valkey]]:
    """A store with a password, and the port of its TLS; its certificate is for `host`."""
    write_server_files(folder, Authority(), host)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    valkey = await Valkey(folder, password="hunter2").start()
    async with Relay("127.0.0.1", valkey.port, tls=context) as front:
        try:
            yield front.port, valkey
        finally:
            await valkey.stop()


def trust(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Whom this host trusts: the variable is OpenSSL's own."""
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "stations-ca.crt"))


async def refused(server: RedisServer) -> str:
    async with RedisClaims(server, patience_us=PATIENCE_US) as claims:
        with pytest.raises(StoreUnavailable, match="is not available") as found:
            await claims.claim(BID)
    assert "hunter" not in str(found.value)
    return str(found.value)


@on_a_loop
async def test_claims_and_sessions_go_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with encrypted(tmp_path) as (port, _):
        trust(monkeypatch, tmp_path)
        server = redis_server(f"rediss://:hunter2@127.0.0.1:{port}/0")
        async with RedisClaims(server, patience_us=PATIENCE_US) as claims:
            assert (await claims.claim(BID)).level2 is Level2.OWNER
        async with RedisStore(server, "lns-a", [ALPHA], patience_us=PATIENCE_US) as store:
            await store.keep_sessions(ALPHA, (SESSION,))
        async with RedisStore(server, "lns-b", [ALPHA], patience_us=PATIENCE_US) as again:
            assert again.sessions(ALPHA) == (SESSION,)


@on_a_loop
async def test_whom_nobody_vouches_for_gets_no_password(tmp_path: Path) -> None:
    async with encrypted(tmp_path) as (port, _):
        server = redis_server(f"rediss://:hunter2@127.0.0.1:{port}/0")
        assert "certificate verify failed" in await refused(server)


@on_a_loop
async def test_a_certificate_of_another_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with encrypted(tmp_path, "store.example") as (port, _):
        trust(monkeypatch, tmp_path)
        server = redis_server(f"rediss://:hunter2@127.0.0.1:{port}/0")
        assert "certificate is not valid for" in await refused(server)


@on_a_loop
async def test_both_sides_have_to_encrypt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with encrypted(tmp_path) as (port, valkey):
        trust(monkeypatch, tmp_path)
        await refused(redis_server(f"redis://:hunter2@127.0.0.1:{port}/0"))
        # A server without TLS takes the first message of a handshake for half a command.
        plain = redis_server(f"rediss://:hunter2@127.0.0.1:{valkey.port}/0")
        async with RedisClaims(plain) as claims:
            with pytest.raises(StoreUnavailable, match="does not answer within 200000 us"):
                await claims.claim(BID)
