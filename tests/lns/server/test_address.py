"""Addresses and URIs, as an operator writes them and a station takes them."""

import pytest

from lns.lorawan.identifiers import Eui
from lns.server import address


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:6090", ("127.0.0.1", 6090)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:6090", ("::1", 6090)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_an_address_has_host_and_port(text: str, parts: tuple[str, int]) -> None:
    assert address.host_and_port(text) == parts


@pytest.mark.parametrize(
    "text", ["", "6090", ":6090", "a:", "a:b", "a:-1", "a:65536", "::1:1", "a:²"]
)
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        address.host_and_port(text)


@pytest.mark.parametrize("host", ["lns..example", ".example", f"{'a' * 64}.example"])
def test_a_host_that_nobody_can_look_up_is_no_address(host: str) -> None:
    with pytest.raises(ValueError, match="between the dots of a host name"):
        address.host_and_port(f"{host}:6090")


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("ws://127.0.0.1:6090", "ws://127.0.0.1:6090"),
        ("wss://lns.example:443/", "wss://lns.example:443"),
        ("wss://lns.example:443/a/b/", "wss://lns.example:443/a/b"),
    ],
)
def test_a_uri_for_stations(text: str, uri: str) -> None:
    assert address.public_uri(text) == uri


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lns.example", "scheme, host and port"),
        ("wss://lns.example", "scheme, host and port"),
        ("wss://:443", "scheme, host and port"),
        ("https://lns.example:443", "scheme, host and port"),
        ("wss://lns.example:70000", "scheme, host and port"),
        ("wss://[::1:443", "scheme, host and port"),
        ("wss://me:pw@lns.example:443", "scheme, host and port"),
        ("wss://lns .example:443", "scheme, host and port"),
        ("wss://lns.example:443/?a=1", "no query"),
        ("wss://" + "l" * 94 + ":443", "127 characters, not 128"),
    ],
)
def test_a_uri_that_a_station_would_not_take(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        address.public_uri(text)


def test_the_longest_uri_that_a_station_takes() -> None:
    public = address.public_uri("wss://" + "l" * 93 + ":443")
    assert len(address.station_uri(public, Eui("0016C001F1500001"))) == 127


@pytest.mark.parametrize(
    ("file", "text"), [("tc", "wss://lns.example:443"), ("cups", "http://127.0.0.1:6091")]
)
def test_a_uri_of_a_station_file(file: str, text: str) -> None:
    assert address.file_uri(text, file) == text


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tc", "wss://lns.example:443/"),
        ("tc", "wss://lns.example:443?a"),
        ("tc", "wss://a"),
        ("tc", "https://lns.example:443"),
        ("cups", "wss://lns.example:443"),
    ],
)
def test_a_uri_that_ends_a_station_at_its_start(file: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"no path|scheme"):
        address.file_uri(text, file)


@pytest.mark.parametrize(
    ("host", "everywhere", "loopback"),
    [
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("localhost", False, True),
        ("0.0.0.0", True, False),
        ("::", True, False),
        ("lns.example", False, False),
        ("10.0.0.1", False, False),
    ],
)
def test_kinds_of_hosts(host: str, everywhere: bool, loopback: bool) -> None:
    assert (address.is_everywhere(host), address.is_loopback(host)) == (everywhere, loopback)


def test_an_ipv6_address_is_bracketed() -> None:
    assert address.uri("ws", "::1", 6090) == "ws://[::1]:6090"
    assert address.without_path("wss://[::1]:6090/a") == "wss://[::1]:6090"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("redis://:secret@host:1/0", "redis://host:1/0"),
        ("--redis=rediss://user:se%2Fcret@[::1]:1", "--redis=rediss://[::1]:1"),
        ("mqtt://host", "mqtt://host"),
        ("runs/a@b", "runs/a@b"),
        ("one mqtt://u:p@a two redis://:q@b", "one mqtt://a two redis://b"),
    ],
)
def test_the_login_of_a_url_is_left_out(text: str, told: str) -> None:
    assert address.without_login(text) == told
