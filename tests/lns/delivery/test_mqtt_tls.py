"""The way upstream over TLS: who vouches for the broker?"""

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.broker import Mosquitto
from tests.lns.delivery.sending import message, until, way
from tests.looped import on_a_loop

pytestmark = pytest.mark.broker

LONG_AGO, FAR_OFF = datetime(2020, 1, 1, tzinfo=UTC), timedelta(days=365 * 50)


def certificate(folder: Path, name: str) -> Path:
    """A certificate of 127.0.0.1 that vouches for itself; its key lies beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    place = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(LONG_AGO)
        .not_valid_after(LONG_AGO + FAR_OFF)
        .add_extension(place, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / f"{name}.pem"
    pem.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    return certificate(tmp_path, "broker")


@pytest.fixture
def guarded(tmp_path: Path, ca: Path) -> Iterator[Mosquitto]:
    """A broker that speaks TLS only."""
    key = ca.with_suffix(".key")
    server = Mosquitto(tmp_path, f"certfile {ca}", f"keyfile {key}").start()
    yield server
    server.stop()


@on_a_loop
async def test_a_trusted_broker_gets_the_messages(
    guarded: Mosquitto, ca: Path, tmp_path: Path
) -> None:
    async with way(f"mqtts://127.0.0.1:{guarded.port}", tmp_path, ca=ca) as upstream:
        await asyncio.gather(*(upstream.publish(message(f_cnt)) for f_cnt in range(300)))
        await upstream.drained()


@pytest.mark.parametrize("trusted", ["stranger", None])
def test_a_broker_nobody_vouches_for_gets_nothing(
    guarded: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture, trusted: str | None
) -> None:
    ca = certificate(tmp_path, trusted) if trusted else None

    async def body() -> None:
        async with way(f"mqtts://127.0.0.1:{guarded.port}", tmp_path, ca=ca) as upstream:
            await upstream.publish(message(1))
            await until(lambda: "is not trusted" in caplog.text)
            assert (upstream.connected, upstream.waiting) == (False, 1)

    with caplog.at_level(logging.INFO):
        asyncio.run(body())
    assert "its certificate is not trusted (self-signed certificate)" in caplog.text


def test_without_tls_a_guarded_broker_is_not_reached(
    guarded: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with way(guarded.url, tmp_path) as upstream:
            await until(lambda: "is gone" in caplog.text)
            assert not upstream.connected

    with caplog.at_level(logging.INFO):
        asyncio.run(body())
    assert f"mqtt://127.0.0.1:{guarded.port} is gone before the login; is it" in caplog.text
