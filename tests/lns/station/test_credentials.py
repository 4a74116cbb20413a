"""Credentials in the form that a station reads, and their fingerprints."""

import zlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.x509 import CertificateBuilder, Name, load_der_x509_certificate

from bench.host.lns_files import Authority
from lns.lorawan.identifiers import Eui
from lns.station.cups import StationFiles

AUTHORITY = Authority()
CLIENT = AUTHORITY.client(Eui("0016C001F1500001"))
TRUST = AUTHORITY.certificate


def read_der(segment: bytes) -> tuple[bytes, bytes]:
    """As sys.c does: only the short length and 0x82, four zero bytes are nothing."""
    if segment[:4] == bytes(4):
        return b"", segment[4:]
    assert segment[0] == 0x30
    assert segment[1] < 0x80 or segment[1] == 0x82
    length = 2 + segment[1] if segment[1] < 0x80 else 4 + int.from_bytes(segment[2:4], "big")
    return segment[:length], segment[length:]


def key(private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, form: PrivateFormat) -> bytes:
    return private.private_bytes(Encoding.PEM, form, NoEncryption())


def test_a_station_without_anything_has_the_fingerprint_it_says() -> None:
    assert StationFiles().crc() == 2077607535
    assert StationFiles().segment() == b""


def test_a_client_certificate_is_three_der_objects() -> None:
    segment = StationFiles(TRUST, CLIENT.certificate, CLIENT.key).segment()
    trust, rest = read_der(segment)
    certificate, rest = read_der(rest)
    private, rest = read_der(rest)
    assert rest == b""
    assert len(private) == 121
    load_der_x509_certificate(trust)
    load_der_private_key(private, None)
    assert StationFiles(trust, certificate, private).crc() == zlib.crc32(segment)
    assert StationFiles(trust, certificate, private).segment() == segment


def test_trust_alone_is_followed_by_two_nothings() -> None:
    segment = StationFiles(TRUST).segment()
    trust, rest = read_der(segment)
    assert rest == bytes(8)
    assert StationFiles(trust).crc() == zlib.crc32(segment)


@pytest.mark.parametrize("token", [b"Authorization: Bearer x", b"Authorization: Bearer x\r\n"])
def test_a_token_follows_four_zero_bytes(token: bytes) -> None:
    segment = StationFiles(TRUST, b"", token).segment()
    trust, rest = read_der(segment)
    assert rest == bytes(4) + b"Authorization: Bearer x\r\n"
    assert StationFiles(trust, b"", b"Authorization: Bearer x\r\n").crc() == zlib.crc32(segment)


def test_credentials_have_as_many_bytes_as_two_can_count() -> None:
    short = len(StationFiles(TRUST, b"", b"A: x").segment())
    longest = StationFiles(TRUST, b"", b"A: " + b"x" * (65_535 - short + 1))
    assert len(longest.segment()) == 65_535


def test_a_pkcs8_key_leaves_as_sec1() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    pkcs8 = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    assert pkcs8[1] == 0x81
    segment = StationFiles(TRUST, CLIENT.certificate, pkcs8).segment()
    assert segment.endswith(
        private.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )


def test_an_rsa_key_is_readable() -> None:
    private = key(rsa.generate_private_key(65537, 2048), PrivateFormat.PKCS8)
    segment = StationFiles(TRUST, CLIENT.certificate, private).segment()
    _, rest = read_der(segment)
    _, rest = read_der(rest)
    assert read_der(rest)[1] == b""


P384 = key(ec.generate_private_key(ec.SECP384R1()), PrivateFormat.PKCS8)
ED25519 = ed25519.Ed25519PrivateKey.generate().private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (StationFiles(b"", CLIENT.certificate, CLIENT.key), "need a .trust file"),
        (StationFiles(TRUST, CLIENT.certificate), "needs a .key file"),
        (StationFiles(b"nonsense"), ".trust: no certificate"),
        (StationFiles(TRUST + TRUST), ".trust: CUPS hands out one certificate, not 2"),
        (StationFiles(TRUST, TRUST[:90], CLIENT.key), ".crt: no certificate"),
        (StationFiles(TRUST, CLIENT.certificate, b"secret"), ".key: no private key"),
        (StationFiles(TRUST, CLIENT.certificate, P384), ".key: a station cannot read"),
        (StationFiles(TRUST, CLIENT.certificate, ED25519), ".key: no private key"),
        (StationFiles(TRUST, b"", b"secret"), ".key: without a .crt it is a token"),
        (StationFiles(TRUST, b"", b"A: \xff"), ".key: without a .crt it is a token"),
        (StationFiles(TRUST, b"", b"A: " + b"x" * 65_536), "more than 65535 bytes"),
    ],
)
def test_what_a_station_could_not_read_is_refused(files: StationFiles, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        files.segment()
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(files)


def test_a_certificate_of_less_than_256_bytes_is_refused_as_what_it_is() -> None:
    private, nobody = ed25519.Ed25519PrivateKey.generate(), Name([])
    began = datetime(2026, 1, 1, tzinfo=UTC)
    ends = began + timedelta(days=1)
    made = CertificateBuilder(nobody, nobody, private.public_key(), 1, began, ends)
    signed = made.sign(private, None)
    for form in (Encoding.DER, Encoding.PEM):
        with pytest.raises(ValueError, match=r"^\.trust: a station cannot read 1.. bytes of DER"):
            StationFiles(signed.public_bytes(form)).segment()
