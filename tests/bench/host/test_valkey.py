"""A real store, as the rig starts it."""

import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, OutOfMemoryError

from bench.host import lns_process
from bench.host.lns_process import Valkey, valkey_program
from bench.host.program import ProgramMissing
from tests.looped import on_a_loop


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
    store = Valkey(tmp_path, append_only=False).start_now()
    with client(store.url) as redis:
        redis.set("claim", "west")
    store.stop_now()
    store.start_now()
    with client(store.url) as redis:
        assert redis.get("claim") is None
    store.kill_now()


def test_further_lines_are_part_of_its_configuration(tmp_path: Path) -> None:
    store = Valkey(tmp_path, "maxmemory 1", 'appendonly "no"').start_now()
    with client(store.url) as redis:
        with pytest.raises(OutOfMemoryError):
            redis.set("claim", "west")
        assert redis.config_get("appendonly") == {"appendonly": "no"}  # the last line counts
    store.stop_now()


def test_a_password_is_asked_for_and_not_told(tmp_path: Path) -> None:
    password = 'p@ss/"wörd"\\ 1'
    store = Valkey(tmp_path, password=password).start_now()
    try:
        with client(store.url) as redis:
            assert redis.ping()
        with client(f"redis://127.0.0.1:{store.port}/0") as redis:
            with pytest.raises(AuthenticationError):
                redis.ping()
        assert password not in store.tail(10_000)
        assert stat.S_IMODE((tmp_path / "valkey.conf").stat().st_mode) == 0o600
    finally:
        store.stop_now()


def test_a_paused_store_answers_nobody(tmp_path: Path) -> None:
    store = Valkey(tmp_path).start_now()
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
