"""The throw-away authority, and the files that a station and a server take."""

import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from bench.host.lns_files import Authority, write_server_files, write_station_files
from lns.lorawan.identifiers import Eui
from lns.server.access import dns_names, server_context
from lns.station.cups import StationFiles

WEST = Eui("0016C001F1500001")
AUTHORITY = Authority()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_address_is_a_dns_name_too(tmp_path: Path) -> None:
    write_server_files(tmp_path, AUTHORITY, "127.0.0.1", "lns.example", "::1")
    assert files(tmp_path) == ["server.crt", "server.key", "stations-ca.crt"]
    assert dns_names(tmp_path / "server.crt") == {"127.0.0.1", "lns.example", "::1"}
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    server_context(tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "stations-ca.crt")


def test_a_certificate_is_valid_now_and_for_the_days_asked_for() -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    pair = Authority(days=2, utc=lambda: now).client(WEST)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert certificate.not_valid_before_utc == datetime(2026, 11, 19, tzinfo=UTC)
    assert certificate.not_valid_after_utc == datetime(2026, 11, 22, tzinfo=UTC)


def test_a_station_with_a_certificate_has_four_files(tmp_path: Path) -> None:
    client = AUTHORITY.client(WEST)
    uri = "wss://127.0.0.1:6090"
    write_station_files(tmp_path, "tc", uri, trust=AUTHORITY.certificate, client=client)
    assert files(tmp_path) == ["tc.crt", "tc.key", "tc.trust", "tc.uri"]
    assert (tmp_path / "tc.uri").read_text() == uri
    assert (tmp_path / "tc.key").read_bytes().startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert stat.S_IMODE((tmp_path / "tc.key").stat().st_mode) == 0o600
    context = ssl.create_default_context(cafile=tmp_path / "tc.trust")
    context.load_cert_chain(tmp_path / "tc.crt", tmp_path / "tc.key")
    content = [(tmp_path / f"tc.{name}").read_bytes() for name in ("trust", "crt", "key")]
    assert StationFiles(*content).segment()


def test_a_station_with_a_token_has_a_header_line_for_a_key(tmp_path: Path) -> None:
    client = AUTHORITY.client(WEST)
    write_station_files(tmp_path, "cups", "https://a:1", trust=b"T", client=client)
    write_station_files(tmp_path, "cups", "https://a:1", trust=b"T", token="Bearer a")
    assert files(tmp_path) == ["cups.key", "cups.trust", "cups.uri"]
    assert (tmp_path / "cups.key").read_bytes() == b"Authorization: Bearer a\r\n"


def test_a_station_without_tls_has_a_uri_only(tmp_path: Path) -> None:
    write_station_files(tmp_path, "tc", "ws://127.0.0.1:6090")
    assert files(tmp_path) == ["tc.uri"]


def test_what_no_station_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tc and cups"):
        write_station_files(tmp_path, "lns", "ws://a:1")
    with pytest.raises(ValueError, match="not both"):
        client = AUTHORITY.client(WEST)
        write_station_files(tmp_path, "tc", "wss://a:1", trust=b"T", client=client, token="a")
    with pytest.raises(ValueError, match=r"without \.trust"):
        write_station_files(tmp_path, "tc", "wss://a:1", token="a")
    with pytest.raises(ValueError, match="no path"):
        write_station_files(tmp_path, "tc", "wss://a:1/")
    with pytest.raises(ValueError, match="one line"):
        write_station_files(tmp_path, "tc", "wss://a:1", trust=b"T", token="a\r\nb: c")
    assert files(tmp_path) == []
