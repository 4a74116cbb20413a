"""Everything a configuration names, read before anybody connects; each mistake with its line."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.host.lns_files import Authority, write_server_files, write_station_files
from lns.config import ConfigError, load
from lns.delivery.mqtt_sender import MqttUpstream
from lns.delivery.publisher import MemoryUpstream, Upstream
from lns.lorawan.identifiers import Eui
from lns.server.access import Access
from lns.startup import Startup, prepare
from lns.store.memory import MemoryStore
from lns.store.sqlite import SqliteStore
from lns.uplink.registry import SessionStore

AUTHORITY = Authority()
WEST = Eui("0016C001F1500001")
LNS = '[lns]\nid = "lns-a"\n'
TLS = '[tls]\ncert = "server.crt"\nkey = "server.key"\n'
CLIENT_CA = 'client_ca = "stations-ca.crt"\n'
CUPS = '[cups]\nlisten = "127.0.0.1:0"\ncredentials = "stations"\n'
UNNAMEABLE = "a" * 256
"""What no file is called: whoever looks for it is refused, as by a folder that may not be read."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "devices.toml").write_text("device = []\n")
    write_server_files(tmp_path, AUTHORITY, "127.0.0.1", "*.lns.example")
    return tmp_path


@pytest.fixture
def startup(folder: Path) -> Iterator[Startup]:
    (folder / "lns.toml").write_text(LNS)
    yield prepare(load(folder / "lns.toml"))


def prepare_text(folder: Path, text: str) -> Startup:
    (folder / "lns.toml").write_text(text)
    return prepare(load(folder / "lns.toml"))


async def opened(startup: Startup) -> tuple[Upstream, SessionStore]:
    async with startup.open_store() as store, startup.open_upstream(lambda event: None) as up:
        return up, store


def mistake(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        prepare_text(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


def test_the_smallest_configuration_is_complete(startup: Startup) -> None:
    upstream, store = asyncio.run(opened(startup))
    assert isinstance(upstream, MemoryUpstream)
    assert isinstance(store, MemoryStore)
    assert (startup.tls, startup.cups) == (None, {})
    assert startup.access.stations is None


def test_stations_with_certificates(folder: Path) -> None:
    listed = f'stations = ["{WEST}"]\n'
    startup = prepare_text(folder, LNS + listed + TLS + CLIENT_CA)
    assert startup.tls is not None
    assert startup.access == Access(stations=frozenset({WEST}), certificates=True)
    startup = prepare_text(folder, LNS + TLS + CLIENT_CA + "any_station = true\n")
    assert startup.access == Access(certificates=True, any_station=True)


def test_stations_with_tokens(folder: Path) -> None:
    (folder / "tokens.toml").write_text(f'{WEST} = "Bearer a"\n')
    startup = prepare_text(folder, LNS + TLS + 'tokens = "tokens.toml"\n')
    assert startup.access == Access(tokens={WEST: "Bearer a"})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            LNS + 'listen = "0.0.0.0:6090"\n',
            "lns.toml:1: lns.public_uri: is needed: stations cannot connect to 0.0.0.0",
        ),
        (
            LNS + 'public_uri = "ws://lns.example:443"\n' + TLS,
            "lns.toml:3: lns.public_uri: with [tls] it has to begin with wss://",
        ),
        (
            LNS + '[store]\nurl = "etcd://:geheim@127.0.0.1:6379/0"\n',
            "lns.toml:4: store.url: etcd:// is not served; served are: ",
        ),
        (
            LNS + '[upstream]\nurl = "amqp://me:geheim@127.0.0.1:1883"\n',
            "lns.toml:4: upstream.url: amqp:// is not served; served are: ",
        ),
        (
            LNS + '[store]\nurl = "redis://:geheim@127.0.0.1:6379/first"\n',
            "lns.toml:4: store.url: the URL of a Redis server ends with a database, a number; it",
        ),
        (LNS + '[store]\nurl = "sqlite://"\n', "lns.toml:4: store.url: names no file; it is"),
        (
            LNS + '[upstream]\nurl = "mqtt://me:geheim@"\n',
            "lns.toml:4: upstream.url: the URL of the broker names no host; it is mqtt://",
        ),
        (
            LNS + '[upstream]\nurl = "mqtt://me:geheim@127.0.0.1"\nca = "server.crt"\n',
            "lns.toml:5: upstream.ca: a ca is for mqtts:// only",
        ),
        (
            LNS + '[upstream]\nurl = "mqtts://me:geheim@127.0.0.1"\nca = "devices.toml"\n',
            "lns.toml:5: upstream.ca: devices.toml holds no certificate",
        ),
        (
            LNS + '[upstream]\nurl = "mqtt://127.0.0.1"\nmessages_max = 0\n',
            "lns.toml:5: upstream.messages_max: ",
        ),
        (
            LNS + '[upstream]\nurl = "geheim"\n',
            "lns.toml:4: upstream.url: is no URL; served are: ",
        ),
        (
            LNS + TLS.replace("server.crt", "other.crt"),
            "lns.toml:4: tls.cert: there is no file other.crt",
        ),
        (
            LNS + TLS.replace("server.key", "server.crt"),
            "lns.toml:4: tls.cert: server.crt and server.crt are no PEM pair of",
        ),
        (
            LNS + TLS + 'client_ca = "devices.toml"\n',
            "lns.toml:6: tls.client_ca: devices.toml is no PEM file of certificates",
        ),
        (LNS + TLS + 'tokens = "nowhere.toml"\n', "nowhere.toml: cannot be read"),
        (
            LNS + TLS + CLIENT_CA + 'tokens = "tokens.toml"\n',
            "lns.toml:7: tls.tokens: a station shows a certificate or a token, never both; leave",
        ),
        (
            LNS + TLS + "any_station = true\n",
            "lns.toml:6: tls.any_station: is about certificates of stations; add client_ca",
        ),
        (LNS + CUPS, "lns.toml:5: cups.credentials: there is no folder stations"),
        (
            LNS + f'devices = "{UNNAMEABLE}"\n',
            f"lns.toml:3: lns.devices: {UNNAMEABLE} cannot be read: File name too long",
        ),
        (
            LNS + TLS.replace("server.crt", UNNAMEABLE),
            f"lns.toml:4: tls.cert: {UNNAMEABLE} cannot be read: File name too long",
        ),
        (
            LNS + TLS + f'client_ca = "{UNNAMEABLE}"\n',
            f"lns.toml:6: tls.client_ca: {UNNAMEABLE} cannot be read: File name too long",
        ),
        (
            LNS + CUPS.replace("stations", UNNAMEABLE),
            f"lns.toml:5: cups.credentials: {UNNAMEABLE} cannot be read: File name too long",
        ),
        (
            LNS + '[upstream]\nurl = "mqtt://broker"\noutbox = "a\\u0000"\n',
            "lns.toml:5: upstream.outbox: the name of a file has no NUL in it",
        ),
        (
            LNS + '[capture]\npath = "a\\u0000.jsonl"\n',
            "lns.toml:4: capture.path: the name of a file has no NUL in it",
        ),
        (
            LNS + '[store]\nurl = "sqlite://a\\u0000"\n',
            "lns.toml:4: store.url: names no file; it is sqlite://PATH",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(folder: Path, text: str, sentence: str) -> None:
    told = mistake(folder, text)
    assert told.startswith(sentence)
    assert "geheim" not in told


def open_mistake(folder: Path, text: str) -> str:
    startup = prepare_text(folder, text)
    with pytest.raises(ConfigError) as caught:
        asyncio.run(opened(startup))
    return str(caught.value).replace(f"{folder}/", "")


def test_store_and_outbox_are_files_beside_the_configuration(folder: Path) -> None:
    text = (
        LNS
        + '[store]\nurl = "sqlite://var/a/lns-a.store"\n[upstream]\nurl = "mqtt://127.0.0.1:1"\n'
    )
    upstream, store = asyncio.run(opened(prepare_text(folder, text)))
    assert isinstance(upstream, MqttUpstream)
    assert isinstance(store, SqliteStore)
    files = {path.relative_to(folder).as_posix() for path in (folder / "var").rglob("*.*")}
    assert {file for file in files if not file.endswith("-lock")} == {
        "var/a/lns-a.store",
        "var/lns-a.outbox",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[store]\nurl = "sqlite://devices.toml"\n',
            "lns.toml:4: store.url: the store devices.toml holds something else than the sessions",
        ),
        (
            '[store]\nurl = "sqlite://devices.toml/lns-a.store"\n',
            "lns.toml:4: store.url: the store devices.toml/lns-a.store cannot be opened: ",
        ),
        (
            '[store]\nurl = "redis://:geheim@127.0.0.1:1"\n',
            "lns.toml:4: store.url: redis://127.0.0.1:1/0 is not available: ",
        ),
        (
            '[upstream]\nurl = "mqtt://me:geheim@127.0.0.1:1"\noutbox = "devices.toml"\n',
            "lns.toml:5: upstream.outbox: the outbox devices.toml holds something else than the",
        ),
        (
            '[upstream]\nurl = "mqtt://127.0.0.1:1"\noutbox = "devices.toml/a.outbox"\n',
            "lns.toml:5: upstream.outbox: the outbox devices.toml/a.outbox cannot be opened: ",
        ),
    ],
)
def test_what_cannot_be_opened_is_told_with_its_line(
    folder: Path, text: str, sentence: str
) -> None:
    told = open_mistake(folder, LNS + text)
    assert told.startswith(sentence)
    assert "geheim" not in told


@pytest.mark.parametrize(
    ("public", "warned"),
    [
        ("", False),
        ('public_uri = "wss://a.lns.example:443"\n', False),
        ('public_uri = "wss://10.0.0.1:443"\n', True),
        ('public_uri = "wss://a.b.lns.example:443"\n', True),
    ],
)
def test_a_name_that_stations_will_not_find_in_the_certificate_is_told(
    folder: Path, public: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        prepare_text(folder, LNS + public + TLS)
    assert ("stations will refuse it" in caplog.text) is warned


def test_an_encrypted_key_is_refused_and_not_asked_for(folder: Path) -> None:
    key = folder / "server.key"
    text = key.read_text().replace(
        "KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n", 1
    )
    key.write_text(text)
    assert mistake(folder, LNS + TLS).startswith("lns.toml:4: tls.cert: ")


def test_the_folder_of_cups_has_the_files_of_each_station(folder: Path) -> None:
    home = folder / "stations" / "16:c001:f150:1"
    client = AUTHORITY.client(WEST)
    uri = "wss://127.0.0.1:6090"
    write_station_files(home, "tc", uri, trust=AUTHORITY.certificate, client=client)
    (folder / "stations" / "README").write_text("a file is no station")
    setup = prepare_text(folder, LNS + CUPS).cups[WEST]
    assert setup.tc.uri == uri
    assert setup.tc.files.crt == client.certificate
    assert (setup.cups.uri, setup.cups.segment) == (None, b"")


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        (f"{WEST}/tc.uri", "ws://127.0.0.1:6090/", "tc: a station takes no path here"),
        (f"{WEST}/tc.uri", "wss://lns.example", "tc: a URI for stations has scheme, host and port"),
        (f"{WEST}/cups.trust", "nonsense", "cups: .trust: no certificate"),
        (f"{WEST}/tc.key", "geheim", "tc: credentials need a .trust file"),
        ("nobody/tc.uri", "", "not an EUI: 'nobody'"),
    ],
)
def test_what_a_station_could_not_take_is_told_with_its_folder(
    folder: Path, file: str, content: str, why: str
) -> None:
    path = folder / "stations" / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    told = mistake(folder, LNS + CUPS)
    assert told.startswith(f"lns.toml:5: cups.credentials: stations/{path.parent.name}: {why}")
    assert "geheim" not in told


def test_keys_leave_this_host_encrypted_and_to_their_owner_only(folder: Path) -> None:
    client = AUTHORITY.client(WEST)
    trust = AUTHORITY.certificate
    home = folder / "stations" / WEST
    write_station_files(home, "tc", "wss://a:1", trust=trust, client=client)
    everywhere = CUPS.replace("127.0.0.1", "0.0.0.0")
    assert "in clear" in mistake(folder, LNS + everywhere)
    assert "whoever asks" in mistake(folder, LNS + TLS + everywhere)
    any_station = TLS + CLIENT_CA + "any_station = true\n"
    assert "the keys of all" in mistake(folder, LNS + any_station + everywhere)
    assert prepare_text(folder, LNS + TLS + CLIENT_CA + everywhere).cups
    assert prepare_text(folder, LNS + CUPS).cups


@pytest.mark.parametrize(
    ("name", "mode", "told"),
    [
        ("devices.toml", 0o644, "the devices file {} can be read by others (mode 644)"),
        ("devices.toml", 0o660, "the devices file {} can be written by others (mode 660)"),
        ("lns-a.store", 0o666, "the store file {} can be read and written by others (mode 666)"),
        ("var/lns-a.outbox", 0o604, "the outbox file {} can be read by others (mode 604)"),
        ("server.key", 0o644, "the key file {} can be read by others (mode 644)"),
        ("devices.toml", 0o600, None),
        ("devices.toml", 0o640, None),
        ("server.crt", 0o644, None),
    ],
)
def test_a_file_that_others_can_read_or_write_is_said_at_the_start(
    folder: Path, name: str, mode: int, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    (folder / "devices.toml").chmod(0o600)
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        prepare_text(folder, LNS + TLS + '[store]\nurl = "sqlite://lns-a.store"\n')
    lines = [line.partition(": chmod 600")[0] for line in caplog.messages]
    assert lines == ([] if told is None else [told.format(path)])


def test_a_server_does_not_warn_of_the_files_that_it_makes(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "devices.toml").chmod(0o600)
    text = '[store]\nurl = "sqlite://lns-a.store"\n[upstream]\nurl = "mqtt://127.0.0.1:1"\n'
    asyncio.run(opened(prepare_text(folder, LNS + text)))
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        prepare_text(folder, LNS + text)
    assert caplog.messages == []


def test_a_file_that_nobody_can_look_at_is_for_whoever_opens_it(folder: Path) -> None:
    text = LNS + f'[upstream]\nurl = "mqtt://broker"\noutbox = "{UNNAMEABLE}"\n'
    startup = prepare_text(folder, text + f'[store]\nurl = "sqlite://{UNNAMEABLE}"\n')
    with pytest.raises(ConfigError, match=r"store\.url: the store .* cannot be opened: File name"):
        asyncio.run(opened(startup))
    with pytest.raises(
        ConfigError, match=r"upstream\.outbox: the outbox .* cannot be opened: File"
    ):
        asyncio.run(opened(prepare_text(folder, text)))
