"""`lorabench certificates`, and whether a network server and stations get along with what it made.

The server is `lorabench lns` as a process; the stations are the bench's own and, for the
handshake, OpenSSL's.
"""

import asyncio
import json
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.cli.program import main
from bench.host.program import Program, free_port
from bench.station import LinkClosed
from bench.station.web_socket import StationTls, station_files
from bench.virtual.air import Links, Medium
from bench.virtual.virtual_station import VirtualStation
from lns.config import load
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868
from lns.startup import prepare
from lns.station.cups import NO_CHANGE, StationFiles
from tests import forked
from tests.links import StationLinks

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")
PATIENCE_S = 60
ROOT = Path(__file__).resolve().parents[3]
TC = ["tc.crt", "tc.key", "tc.trust", "tc.uri"]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(*words: str) -> int:
    return main(["certificates", "--station", WEST, *words])


def files(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def contents() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def test_everything_is_there_and_the_configuration_is_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert make("--station", "16:c001:f150:2", "--cups-port", "6091") == 0
    said = capsys.readouterr().out
    assert "lorabench lns certificates/lns.toml" in said and "wss://127.0.0.1:6090" in said
    assert files("certificates") == [
        "devices.toml",
        "lns.toml",
        "server.crt",
        "server.key",
        "stations",
        "stations-ca.crt",
    ]
    for station in (WEST, EAST):
        home = Path("certificates/stations") / station
        assert files(str(home)) == [name.replace("tc", "cups") for name in TC] + TC
        assert (home / "tc.uri").read_text() == "wss://127.0.0.1:6090"
        assert (home / "cups.uri").read_text() == "https://127.0.0.1:6091"
    secret = list(Path().rglob("*.key"))
    assert len(secret) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    startup = prepare(load(Path("certificates/lns.toml")))
    assert startup.access.certificates and sorted(startup.cups) == [WEST, EAST]
    assert main(["lns", "certificates/lns.toml", "--check"]) == 0


def test_nothing_is_overwritten_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    make()
    Path("certificates/devices.toml").write_text("device = []  # mine\n")
    before = contents()
    assert make("--show", "token") == 4
    assert "certificates/lns.toml, certificates/server.crt" in capsys.readouterr().err
    assert contents() == before
    assert make("--show", "token", "--overwrite") == 0
    after = contents()
    assert after["certificates/devices.toml"] == b"device = []  # mine\n"
    assert after["certificates/server.crt"] != before["certificates/server.crt"]
    # A .crt that stayed would make a station take the token for a private key.
    assert files(f"certificates/stations/{WEST}") == ["tc.key", "tc.trust", "tc.uri"]
    assert make("--overwrite") == 0
    assert "tokens.toml" not in files("certificates")


def test_a_key_that_others_could_read_is_private_afterwards() -> None:
    home = Path("certificates/stations") / WEST
    home.mkdir(parents=True)
    (home / "tc.key").write_text("old")
    (home / "tc.key").chmod(0o644)
    assert make("--overwrite") == 0
    assert stat.S_IMODE((home / "tc.key").stat().st_mode) == 0o600


def test_json_names_the_files_and_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert make("--show", "token", "--into", "made", "--host", "lns.example", "--json") == 0
    said = capsys.readouterr().out
    document = json.loads(said)
    assert document["tc_uri"] == "wss://lns.example:6090"
    assert document["stations"] == {WEST: f"made/stations/{WEST}"}
    assert all(Path(file).is_file() for file in document["files"])
    token = Path(f"made/stations/{WEST}/tc.key").read_text().partition("Bearer ")[2].strip()
    assert len(token) >= 32 and token not in said
    assert prepare(load(Path("made/lns.toml"))).access.tokens == {WEST: f"Bearer {token}"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--station", "west"], "west is no EUI"),
        (["--port", "0"], "0 is no TCP port"),
        (["--cups-port", "6090"], "a port of its own"),
        (["--host", "wss://a"], "wss://a is no host"),
        (["--days", "0"], "1 to 36500"),
        (["--days", "36501"], "1 to 36500"),
        (["--into", "file"], "file is no folder"),
        (["--host", f"{'a' * 60}.{'b' * 60}.example"], "127 characters"),
    ],
)
def test_a_mistake_is_answered_in_words(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("")
    assert make(*words) == 4
    assert said in capsys.readouterr().err
    assert list(contents()) == ["file"]


@asynccontextmanager
async def serving(*words: str) -> AsyncIterator[tuple[Program, int, int]]:
    """`lorabench lns` on what was made with these words."""
    port, cups_port = free_port(), free_port()
    assert make("--port", str(port), "--cups-port", str(cups_port), *words) == 0
    starter = forked.Starter(forked.SERVER_COMMAND)
    server = Program("lorabench lns", Path("lns.log"), starter=starter)
    command = [sys.executable, "-m", "bench", "lns", "certificates/lns.toml"]
    await server.begin(command, speaks=True, env={"PYTHONPATH": str(ROOT)})
    line = await server.first_line(PATIENCE_S)
    assert line == f"listening wss://127.0.0.1:{port}/router-info"
    try:
        yield server, port, cups_port
    finally:
        await server.stop()
        assert server.died is None


async def radio_comes_on(home: Path) -> str | None:
    """Let a station find its server with the files in its home; the TLS version it spoke."""
    uri, tls = station_files(home)
    links, spoken = StationLinks(), []

    async def connect() -> object:
        link = await links.connect(uri, Eui(home.name), tls=tls)
        agreed = link._connection.transport.get_extra_info("ssl_object")
        spoken.append(agreed and agreed.version())
        return link

    medium = Medium(EU868, Links(), lambda *_: None)
    station = VirtualStation(
        Eui(home.name),
        medium,
        connect,  # type: ignore[arg-type]
        seed=1,
        record=lambda *_: None,
    )
    running = asyncio.ensure_future(station.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not station.radio_on:
                assert not running.done()
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await links.close()
    return spoken[-1]


@pytest.mark.parametrize("shown", ["certificate", "token", "nothing"])
def test_the_station_comes_on_the_air_with_its_files(shown: str) -> None:
    async def body() -> None:
        async with serving("--show", shown, "--station", EAST) as (server, _, _):
            homes = Path("certificates/stations")
            assert await radio_comes_on(homes / WEST) == "TLSv1.2"
            if shown == "nothing":
                return
            uri, _ = station_files(homes / WEST)
            for tls in (StationTls(homes / WEST / "tc.trust"), station_files(homes / EAST)[1]):
                with pytest.raises(LinkClosed, match=r"40[13]|another station's|wrong token"):
                    await StationLinks().connect(uri, WEST, tls=tls)
            token = (homes / WEST / "tc.key").read_text().strip()
            assert token.partition(": ")[2] or shown == "certificate"
            assert token not in server.tail(10_000)

    asyncio.run(body())


def test_cups_has_nothing_new_for_a_station_with_its_files() -> None:
    async def body() -> None:
        async with serving():
            home = Path("certificates/stations") / WEST
            uri, tls = station_files(home, "cups")
            assert tls is not None

            def has(category: str) -> StationFiles:
                suffixes = ("trust", "crt", "key")
                return StationFiles(
                    *((home / f"{category}.{suffix}").read_bytes() for suffix in suffixes)
                )

            question = {
                "router": "16:c001:f150:1",
                "cupsUri": uri,
                "tcUri": (home / "tc.uri").read_text(),
                "cupsCredCrc": has("cups").crc(),
                "tcCredCrc": has("tc").crc(),
                "station": "2.0.6(linux/virtual)",
            }
            assert await asyncio.to_thread(asked, uri, question, tls.context) == NO_CHANGE
            question["tcCredCrc"] = 1
            changed = await asyncio.to_thread(asked, uri, question, tls.context)
            segment = has("tc").segment()
            assert changed == bytes(2) + bytes(2) + len(segment).to_bytes(2, "little") + segment + (
                bytes(8)
            )

    def asked(uri: str, question: dict[str, object], context: ssl.SSLContext) -> bytes:
        request = urllib.request.Request(
            f"{uri}/update-info",
            json.dumps(question).encode(),
            {"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=PATIENCE_S) as answer:
            return bytes(answer.read())

    asyncio.run(body())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssl_shakes_hands_and_verifies_the_name(version: str) -> None:
    async def body() -> None:
        async with serving() as (_, port, _):
            said = await asyncio.to_thread(handshake, port)
            assert "Verify return code: 0 (ok)" in said or "Verification: OK" in said
            assert version.replace("-tls", "TLSv").replace("_", ".") in said

    def handshake(port: int) -> str:
        home = Path("certificates/stations") / WEST
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", version, "-brief"]
        command += ["-CAfile", f"{home}/tc.trust", "-cert", f"{home}/tc.crt"]
        command += ["-key", f"{home}/tc.key", "-verify_return_error"]
        command += ["-verify_hostname", "127.0.0.1"]
        done = subprocess.run(
            command, input=b"", capture_output=True, timeout=PATIENCE_S, check=False
        )
        return (done.stdout + done.stderr).decode()

    asyncio.run(body())


def test_a_taken_port_is_told_and_ends_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        make("--port", str(taken.getsockname()[1]))
        capsys.readouterr()
        assert main(["lns", "certificates/lns.toml"]) == 4
    assert "lns.toml:4: lns.listen: cannot listen on" in capsys.readouterr().err
