"""A network server as a process: started, killed, paused, and back on the same port."""

import asyncio
import os
import shlex
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, OutOfMemoryError

from bench.host import lns_process
from bench.host.lns_process import (
    SQLITE,
    FollowedLns,
    LnsProcess,
    ServerDied,
    Starts,
    Valkey,
    valkey_program,
)
from bench.host.program import ProgramDied, ProgramMissing
from bench.station import LinkClosed
from bench.station.web_socket import discover
from lns.lorawan.identifiers import Eui
from tests import forked
from tests.blocking import start_now, stop_now
from tests.links import StationLinks
from tests.looped import on_a_loop
from tests.station_texts import version_text

WEST = Eui("0016C001F1500001")
KEY = "00112233445566778899AABBCCDDEEFF"
ALPHA = {
    "name": "alpha",
    "dev_eui": "70B3D57ED0000001",
    "activation": "abp",
    "dev_addr": "01ABCDEF",
    "nwk_s_key": KEY,
    "app_s_key": KEY,
    "f_cnt_bits": 32,
    "relaxed_f_cnt": False,
}
PATIENCE_S = 60


def lns(folder: Path, *, anew: bool = False, **sections: dict[str, object]) -> LnsProcess:
    """A fork; `anew`: as the operating system starts it."""
    starter = None if anew else forked.Starter()
    return LnsProcess(folder, {"lns": {"id": "lns-a"}, **sections}, [ALPHA], starter=starter)


async def configured(links: StationLinks, uri: str) -> str:
    async with asyncio.timeout(PATIENCE_S):
        link = await links.connect(uri, WEST)
        await link.send(version_text("2.0.6(linux/virtual)"))
        return await link.receive()


BROKEN_SERVERS = {
    "says nothing": ("echo begun >&2; exec sleep 60", "is not ready after 0.5 s", 0.25),
    "ends": ("echo no such thing >&2; exit 3", "no such thing", 0.5),
    "says anything": ("echo hello; exec sleep 60", "'hello' instead of where it listens", 0.5),
}


@pytest.mark.parametrize("broken", BROKEN_SERVERS)
@on_a_loop
async def test_whoever_does_not_come_to_serve_is_at_fault_and_waited_for_once(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, why, next_s = BROKEN_SERVERS[broken]
    monkeypatch.setenv(lns_process.COMMAND, f"sh -c {shlex.quote(script)}")
    monkeypatch.setattr(lns_process, "LNS_START_NEXT_S", 0.25)
    starts = Starts(limit_s=0.5)
    settings = {"lns": {"id": "lns-a"}, "capture": {"path": "lns.jsonl"}}
    settings["store"] = {"url": f"{SQLITE}store.sqlite"}
    async with asyncio.TaskGroup() as tasks:
        server = FollowedLns(tmp_path, settings, print, tasks, starts, print)
        with pytest.raises(ServerDied, match=why):
            await server.start_with([], [])
    assert starts.limit_s == next_s


@on_a_loop
async def test_it_comes_back_on_the_same_port_after_sigkill(tmp_path: Path) -> None:
    server, links = lns(tmp_path, anew=True), StationLinks()
    await server.start()
    uri = server.uri
    assert uri.startswith("ws://127.0.0.1:")
    assert '"router_config"' in await configured(links, uri)
    pid = server.pid
    await server.kill()
    with pytest.raises(LinkClosed):
        await discover(uri, WEST)
    await server.start()
    assert server.uri == uri and server.pid != pid
    assert '"router_config"' in await configured(links, uri)
    await links.close()
    await server.stop()
    assert server.died is None


@on_a_loop
async def test_the_files_are_private_and_the_log_tells_no_key(tmp_path: Path) -> None:
    server = lns(tmp_path, capture={"path": "lns-a.jsonl"})
    await server.start()
    await server.stop()
    for name in ("lns.toml", "devices.toml"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert KEY not in server.tail(10_000)
    assert "stopping" in server.tail()
    assert (tmp_path / "lns-a.jsonl").exists()


@on_a_loop
async def test_a_paused_server_answers_when_it_goes_on(tmp_path: Path) -> None:
    server, links = lns(tmp_path), StationLinks()
    await server.start()
    server.pause()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(configured(links, server.uri))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        server.resume()
    assert '"router_config"' in waiting.result()
    await links.close()
    server.pause()
    await server.stop()
    assert not server.running


@on_a_loop
async def test_its_own_end_is_noticed_with_what_it_said(tmp_path: Path) -> None:
    server = lns(tmp_path)
    await server.start()
    os.kill(server.pid, signal.SIGABRT)
    with pytest.raises(ProgramDied, match="network server lns-a ended by signal 6"):
        async with asyncio.timeout(PATIENCE_S):
            await server.watch()


@on_a_loop
async def test_a_wrong_configuration_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(ProgramDied, match=r"lns\.toml:\d+: .*retention"):
        await lns(tmp_path, dedup={"retention_s": 0}).start()


@on_a_loop
async def test_new_devices_are_known_after_a_restart(tmp_path: Path) -> None:
    server = lns(tmp_path)
    server.devices = [ALPHA, {**ALPHA, "name": 'b"eta'}]
    with pytest.raises(ProgramDied, match=r"devices\.toml"):
        await server.start()
    server.devices = [ALPHA]
    await server.start()
    await server.kill()


@contextmanager
def client(url: str) -> Iterator[Redis]:
    with Redis.from_url(url, socket_timeout=60) as opened:
        yield opened


@on_a_loop
async def test_what_was_answered_survives_sigkill(tmp_path: Path) -> None:
    store = Valkey(tmp_path)
    await store.start()
    url = store.url
    with client(url) as redis:
        redis.set("claim", "west")
    await store.kill()
    await store.start()
    assert store.url == url == f"redis://127.0.0.1:{store.port}/0"
    with client(url) as redis:
        assert redis.get("claim") == b"west"
    await store.stop()
    assert store.died is None


def test_a_store_that_keeps_nothing_comes_back_empty(tmp_path: Path) -> None:
    store = start_now(Valkey(tmp_path, append_only=False))
    with client(store.url) as redis:
        redis.set("claim", "west")
    stop_now(store)
    start_now(store)
    with client(store.url) as redis:
        assert redis.get("claim") is None
    store.kill_now()


def test_further_lines_are_part_of_its_configuration(tmp_path: Path) -> None:
    store = start_now(Valkey(tmp_path, "maxmemory 1", 'appendonly "no"'))
    with client(store.url) as redis:
        with pytest.raises(OutOfMemoryError):
            redis.set("claim", "west")
        assert redis.config_get("appendonly") == {"appendonly": "no"}  # the last line counts
    stop_now(store)


def test_a_password_is_asked_for_and_not_told(tmp_path: Path) -> None:
    password = 'p@ss/"wörd"\\ 1'
    store = start_now(Valkey(tmp_path, password=password))
    try:
        with client(store.url) as redis:
            assert redis.ping()
        with client(f"redis://127.0.0.1:{store.port}/0") as redis:
            with pytest.raises(AuthenticationError):
                redis.ping()
        assert password not in store.tail(10_000)
        assert stat.S_IMODE((tmp_path / "valkey.conf").stat().st_mode) == 0o600
    finally:
        stop_now(store)


def test_a_paused_store_answers_nobody(tmp_path: Path) -> None:
    store = start_now(Valkey(tmp_path))
    try:
        store.pause()
        with socket.create_connection(("127.0.0.1", store.port), timeout=0.2) as connection:
            connection.sendall(b"PING\r\n")
            with pytest.raises(TimeoutError):
                connection.recv(1)
            store.resume()
            connection.settimeout(20)
            assert connection.recv(7) == b"+PONG\r\n"
    finally:
        store.kill_now()


@on_a_loop
async def test_a_port_that_was_taken_meanwhile_is_chosen_anew(tmp_path: Path) -> None:
    store = Valkey(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", store.port))
        before = store.port
        await store.start()
    assert store.port != before
    await store.stop()


def test_without_the_package_the_system_s_program_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lns_process, "_bundled", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramMissing, match=r"make install.*apt-get install"):
        valkey_program()
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert valkey_program() == str(program)
