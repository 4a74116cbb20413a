"""`python -m lns` as a process of its own: it listens, serves, and stops when it is told to."""

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from bench.host.lns_files import Authority, write_server_files, write_station_files
from lns.station.cups import NO_CHANGE
from tests import forked
from tests.lns.served_network import WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.lns.server.test_station_server_tls import station_tls

ROOT = Path(__file__).resolve().parents[2]
DEVICES = """[[device]]
name = "alpha"
dev_eui = "70B3D57ED0000001"
activation = "abp"
dev_addr = "01ABCDEF"
nwk_s_key = "44024241ED4CE9A68C6A8BC055233FD3"
app_s_key = "EC925802AE430CA77FD3DD73CB2CC588"
"""
LNS = '[lns]\nid = "lns-a"\nlisten = "127.0.0.1:0"\n[capture]\npath = "var/lns-a.jsonl"\n'


class Process:
    """A network server in a process of its own; `tc_uri` is where it listens.

    A fork, but where it is about how Python starts, and what a person's signals do (`anew`).
    """

    popen: "subprocess.Popen[str] | forked.Piped"

    def __init__(self, file: Path, stderr: TextIO | None = None, *, anew: bool = False) -> None:
        if anew:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "lns", str(file)],
                cwd=ROOT,
                env=os.environ | {"PYTHONWARNINGS": "error"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if stderr is None else stderr,
                text=True,
            )
        else:
            self.popen = forked.Piped(["lns", str(file)], stderr)
        assert self.popen.stdout is not None
        self.first_line = self.popen.stdout.readline()

    @property
    def tc_uri(self) -> str:
        return self.first_line.removeprefix("listening ").removesuffix("/router-info\n")

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit status, and what it said on stdout (after the first line) and stderr."""
        self.popen.send_signal(number)
        out, err = self.popen.communicate(timeout=60)
        return self.popen.returncode, out, err


@contextlib.contextmanager
def running(file: Path, stderr: TextIO | None = None, *, anew: bool = False) -> Iterator[Process]:
    """`stderr`: where its log goes; a pipe that nobody reads holds 64 kB."""
    process = Process(file, stderr, anew=anew)
    try:
        yield process
    finally:
        process.popen.kill()
        process.popen.communicate()


@pytest.fixture
def lns_toml(tmp_path: Path) -> Path:
    (tmp_path / "devices.toml").write_text(DEVICES)
    (tmp_path / "devices.toml").chmod(0o600)
    file = tmp_path / "lns.toml"
    file.write_text(LNS)
    file.chmod(0o600)
    return file


def events(file: Path) -> list[dict[str, object]]:
    capture = file.parent / "var" / "lns-a.jsonl"
    return [json.loads(line) for line in capture.read_text().splitlines()]


async def written(file: Path, text: str, times: int) -> None:
    """Wait until the capture has this text so often."""
    async with asyncio.timeout(60):
        capture = file.parent / "var" / "lns-a.jsonl"
        while capture.read_text().count(text) < times:  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.01)


def hear(station: BasicsStation, f_cnt: int) -> None:
    """One confirmed uplink through a station, answered."""

    async def scenario() -> None:
        await station.connect()
        await station.until_configured()
        station.hear(uplink(f_cnt, confirmed=True))
        await station.next_dnmsg()
        assert station.socket is not None
        await station.socket.close()
        await StationSocket.reset_all()

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_listens_says_so_in_one_line_and_stops_when_told(lns_toml: Path, number: int) -> None:
    with running(lns_toml, anew=True) as process:
        assert process.first_line.startswith("listening ws://127.0.0.1:")
        assert process.first_line.endswith("/router-info\n")
        hear(BasicsStation(WEST, process.tc_uri), 10)
        status, out, err = process.stop(number)
    assert (status, out) == (0, "")
    assert "Traceback" not in err
    for line in err.splitlines():
        assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING) ", line), line
    kinds = [event["kind"] for event in events(lns_toml)]
    assert kinds == ["lns.connection", "lns.downlink", "lns.outcome", "lns.connection"]


def test_it_stops_with_stations_connected(lns_toml: Path) -> None:
    async def scenario(process: Process) -> tuple[int, str, str]:
        station = BasicsStation(WEST, process.tc_uri)
        await station.connect()
        await station.until_configured()
        stopping = asyncio.create_task(asyncio.to_thread(process.stop))
        await station.run()
        await StationSocket.reset_all()
        return await stopping

    with running(lns_toml) as process:
        assert asyncio.run(scenario(process))[0] == 0


def test_a_capture_goes_on_after_a_kill(lns_toml: Path) -> None:
    for f_cnt in (10, 11):
        with running(lns_toml) as process:
            hear(BasicsStation(WEST, process.tc_uri), f_cnt)
            asyncio.run(written(lns_toml, '"stage":"disconnected"', f_cnt - 9))
            process.popen.kill()
            process.popen.wait()
        with (lns_toml.parent / "var" / "lns-a.jsonl").open("a") as capture:
            capture.write('{"schema":1,"torn')
    capture_lines = (lns_toml.parent / "var" / "lns-a.jsonl").read_text().splitlines()
    whole = [json.loads(line) for line in capture_lines if not line.endswith("torn")]
    assert [line["seq"] for line in whole][:4] == [0, 1, 2, 3]
    assert len(capture_lines) - len(whole) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LNS.replace("listen", "listn"), ":3: lns.listn: unknown key; did you mean 'listen'?"),
        (LNS.replace("127.0.0.1:0", "6090"), ':3: lns.listen: an address is "host:port"'),
        (LNS.replace("127.0.0.1:0", "192.0.2.1:0"), ":3: lns.listen: cannot listen on 192.0.2.1:0"),
        (LNS.replace("var/", "lns.toml/"), ":5: capture.path: "),
        (LNS + '[upstream]\nurl = "carrier-pigeon://"\n', ":7: upstream.url: carrier-pigeon://"),
    ],
)
def test_a_mistake_ends_it_with_4_and_the_line(lns_toml: Path, text: str, sentence: str) -> None:
    lns_toml.write_text(text)
    with running(lns_toml) as process:
        status, out, err = process.popen.wait(20), process.first_line, process.popen.stderr
        assert err is not None
        said = err.read()
    assert (status, out) == (4, "")
    assert said.startswith(f"{lns_toml}{sentence}")
    assert "Traceback" not in said


def test_a_port_that_is_taken_is_told(lns_toml: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        lns_toml.write_text(LNS.replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        with running(lns_toml) as process:
            assert process.popen.wait(20) == 4
            assert process.popen.stderr is not None
            assert (
                f":3: lns.listen: cannot listen on 127.0.0.1:{port}" in process.popen.stderr.read()
            )


def test_tls_tokens_and_cups_together(lns_toml: Path) -> None:
    """A station gets everything from CUPS, connects with it, and is told that nothing changes."""
    folder, authority = lns_toml.parent, Authority()
    write_server_files(folder, authority, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = folder / "stations" / WEST
    trust = authority.certificate
    write_station_files(home, "tc", "wss://127.0.0.1:6090", trust=trust, token="Bearer a")
    (home / "tc.uri").unlink()
    (folder / "tokens.toml").write_text(f'{WEST} = "file:stations/{WEST}/tc.key"\n')
    lns_toml.write_text(
        LNS
        + '[tls]\ncert = "server.crt"\nkey = "server.key"\ntokens = "tokens.toml"\n'
        + f'[cups]\nlisten = "127.0.0.1:{port}"\ncredentials = "stations"\n'
    )
    context = station_tls(folder, by=authority)
    context.load_verify_locations(cadata=trust.decode())

    async def ask(tc_uri: str | None, crc: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        asked = {"router": "16:c001:f150:1", "cupsUri": None, "tcUri": tc_uri}
        asked |= {"cupsCredCrc": 2077607535, "tcCredCrc": crc}  # type: ignore[dict-item]
        body = json.dumps(asked)
        writer.write(
            f"POST /update-info HTTP/1.1\r\nAuthorization: Bearer a\r\n"
            f"Content-Length: {len(body):9d}\r\n\r\n{body}".encode()
        )
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer.partition(b"\r\n\r\n")[2]

    with running(lns_toml) as process:
        given = asyncio.run(ask(None, 2077607535))
        assert given[1 : 2 + given[1]][1:].decode() == process.tc_uri
        assert b"Authorization: Bearer a\r\n" in given
        crc = _crc_of_tc(given)
        assert asyncio.run(ask(process.tc_uri, crc)) == NO_CHANGE
        hear(BasicsStation(WEST, process.tc_uri, token="Bearer a", context=context), 10)
        status, _, err = process.stop()
    assert status == 0
    assert "Bearer" not in err


def test_cups_names_the_public_uri_to_who_has_none_of_its_own(lns_toml: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = lns_toml.parent / "stations" / WEST
    write_station_files(home, "tc", "wss://of.its.own:6090", trust=Authority().certificate)
    lns_toml.write_text(
        LNS.replace("[lns]\n", '[lns]\npublic_uri = "ws://lns.public:80"\n')
        + f'[cups]\nlisten = "127.0.0.1:{port}"\ncredentials = "stations"\n'
    )

    async def uri_of(router: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        asked = {"router": router, "cupsUri": None, "tcUri": None}
        body = json.dumps(asked | {"cupsCredCrc": 0, "tcCredCrc": 0})
        head = f"POST /update-info HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        given = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()
        await writer.wait_closed()
        return given[2 : 2 + given[1]].decode()

    with running(lns_toml) as process:
        told = [asyncio.run(uri_of(router)) for router in ("16:c001:f150:1", "1::1")]
        assert process.stop()[0] == 0
    assert told == ["wss://of.its.own:6090", "ws://lns.public:80"]


def _crc_of_tc(given: bytes) -> int:
    """What a station says after it has stored the TC credentials of this answer."""
    at = 2 + given[1]
    at += 2 + int.from_bytes(given[at : at + 2], "little")
    size = int.from_bytes(given[at : at + 2], "little")
    return zlib.crc32(given[at + 2 : at + 2 + size])


def test_a_capture_that_cannot_be_written_costs_nobody_his_answer(lns_toml: Path) -> None:
    async def scenario(process: Process) -> None:
        station = BasicsStation(WEST, process.tc_uri)
        await station.connect()
        await station.until_configured()
        station.hear(uplink(10, confirmed=True))
        await station.next_dnmsg()
        size = (lns_toml.parent / "var" / "lns-a.jsonl").stat().st_size
        limits = resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, (size + 50, limits[1]))
        for f_cnt in range(11, 21):
            station.hear(uplink(f_cnt, confirmed=True))
            await station.next_dnmsg()
        resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, limits)
        station.hear(uplink(21, confirmed=True))
        await station.next_dnmsg()
        assert station.socket is not None
        await station.socket.close()
        await StationSocket.reset_all()

    with running(lns_toml) as process:
        asyncio.run(scenario(process))
        status, _, err = process.stop()
    assert status == 0
    assert "Traceback" not in err
    assert err.count("lns-a.jsonl cannot be written: File too large") == 1
    told = events(lns_toml)
    assert [event["seq"] for event in told] == list(range(len(told)))
    [gap] = [event for event in told if event["kind"] == "lns.unrecorded"]
    assert gap["events"] in range(18, 24)  # of the first and the last uplink some may be under way
    assert told[told.index(gap) + 1]["kind"] in ("lns.downlink", "lns.outcome")
    outcomes = [event["f_cnt"] for event in told if event["kind"] == "lns.outcome"]
    assert outcomes[-1] == 21 and 15 not in outcomes


def test_the_capture_turns_to_a_new_file(lns_toml: Path) -> None:
    lns_toml.write_text(LNS + "size_max_mib = 1\n")
    capture = lns_toml.parent / "var" / "lns-a.jsonl"
    capture.parent.mkdir()
    line = '{"kind":"lns.outcome","seq":%d,"pad":"' + "x" * 1000 + '"}\n'
    capture.write_text("".join(line % number for number in range(600)))
    with running(lns_toml) as process:
        hear(BasicsStation(WEST, process.tc_uri), 10)
        _, _, err = process.stop()
    kinds = [(event["seq"], event["kind"]) for event in events(lns_toml)]
    assert kinds[:2] == [(600, "lns.turned"), (601, "lns.connection")]
    assert events(lns_toml)[0]["file"] == "lns-a.jsonl.1"
    assert len((capture.parent / "lns-a.jsonl.1").read_text().splitlines()) == 600
    assert "lns-a.jsonl is full" in err


def test_it_may_open_as_many_files_as_its_host_allows(lns_toml: Path) -> None:
    """Whoever starts it usually may open 1024, and every station is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        process = Process(lns_toml, anew=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        allowed = resource.prlimit(process.popen.pid, resource.RLIMIT_NOFILE)
    finally:
        process.popen.kill()
        process.popen.communicate()
    assert allowed == (hard, hard)
