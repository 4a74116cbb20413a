"""The SQLite store beyond the contract of `tests/contracts/test_session_store.py`."""

import asyncio
import json
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lns.clock import StoreUnavailable
from lns.dedup.session import Session
from lns.delivery.outbox import Outbox
from lns.lorawan.identifiers import Eui
from lns.store.sqlite import SqliteStore
from tests.lns.served_network import DEV_ADDR, KEYS

ALPHA, BETA = Eui("70B3D57ED0000001"), Eui("70B3D57ED0000002")
SESSION = Session(
    dev_eui=ALPHA,
    dev_addr=DEV_ADDR,
    keys=KEYS,
    f_cnt_up=0x1FFFE,
    f_cnt_down=7,
    life=1,
    resubmissions={0x1FFFE: 2},
    copies={0: 1},
    nb_trans=3,
    nb_trans_asked=True,
)
# Joins for ever and tells each DevNonce once it is durable.
JOINING = """
import asyncio, sys
from pathlib import Path
from tests.lns.store.test_sqlite import ALPHA, SESSION, SqliteStore

async def join():
    store = SqliteStore(Path(sys.argv[1]))
    for dev_nonce in range(65536):
        SESSION.f_cnt_up = dev_nonce
        assert await store.keep_join(ALPHA, dev_nonce, (SESSION,))
        print(dev_nonce, flush=True)

asyncio.run(join())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lns-a.store"


def test_sessions_and_dev_nonces_outlive_the_process(path: Path) -> None:
    store = SqliteStore(path)
    asyncio.run(store.keep_join(ALPHA, 7, (SESSION, SESSION)))
    asyncio.run(store.keep_join(BETA, 65535, ()))
    store.close()
    again = SqliteStore(path)
    assert again.sessions(ALPHA) == (SESSION, SESSION)
    assert again.dev_nonces(ALPHA) == frozenset({7})
    assert again.dev_nonces(BETA) == frozenset({65535})
    assert not asyncio.run(again.keep_join(ALPHA, 7, ()))
    again.close()


def test_join_nonces_outlive_the_process(path: Path) -> None:
    store = SqliteStore(path)
    assert [asyncio.run(store.next_join_nonce(ALPHA, 1)) for _ in range(2)] == [1, 2]
    store.close()
    again = SqliteStore(path)
    assert asyncio.run(again.next_join_nonce(ALPHA, 1)) == 3
    again.close()


def test_a_file_from_before_join_nonces_were_kept_is_read(path: Path) -> None:
    db = sqlite3.connect(path)
    db.executescript(
        "CREATE TABLE device (dev_eui TEXT PRIMARY KEY, sessions TEXT NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE dev_nonce (dev_eui TEXT, dev_nonce INTEGER,"
        " PRIMARY KEY (dev_eui, dev_nonce)) WITHOUT ROWID;"
        f"PRAGMA application_id = {int.from_bytes(b'LNSs', 'big')};"
    )
    sessions = msgspec.json.encode((SESSION,)).decode()
    db.execute("INSERT INTO device VALUES (?, ?)", (ALPHA, sessions))
    db.execute("INSERT INTO dev_nonce VALUES (?, 7)", (ALPHA,))
    db.commit()
    db.close()
    store = SqliteStore(path)
    assert (store.sessions(ALPHA), store.dev_nonces(ALPHA)) == ((SESSION,), frozenset({7}))
    assert [asyncio.run(store.next_join_nonce(ALPHA, 1)) for _ in range(2)] == [1, 2]
    store.close()


def test_what_was_kept_survives_kill_9(path: Path) -> None:
    command = [sys.executable, "-c", JOINING, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(100)]
        os.kill(child.pid, signal.SIGKILL)
        told += [line for line in child.stdout if line.endswith("\n")]
    last = int(told[-1])
    store = SqliteStore(path)
    assert set(range(last + 1)) <= store.dev_nonces(ALPHA)
    [session] = store.sessions(ALPHA)
    assert session.f_cnt_up is not None and session.f_cnt_up >= last
    store.close()


def test_a_store_belongs_to_one_server(path: Path) -> None:
    store = SqliteStore(path)
    command = [sys.executable, "-c", JOINING, str(path)]
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "StoreUnavailable: the store" in second.stderr
    assert "is in use by another process" in second.stderr
    with pytest.raises(StoreUnavailable, match="is in use by another process"):
        SqliteStore(path)
    store.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"f_cnt_down": (1 << 32) + 1},
        {"f_cnt_up": 1 << 32},
        {"f_cnt_up": -1},
        {"nb_trans": 0},
        {"dev_addr": "hello"},
        {"keys": {"nwk_s_key": "AA==", "app_s_key": "AA=="}},
        {"copies": {"-1": 1}},
    ],
)
def test_sessions_out_of_range_are_told_when_the_store_is_opened(
    path: Path, fields: dict[str, object]
) -> None:
    store = SqliteStore(path)
    asyncio.run(store.keep_sessions(ALPHA, (SESSION,)))
    store.close()
    [session] = json.loads(msgspec.json.encode((SESSION,)))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE device SET sessions = ?", (json.dumps([session | fields]),))
    db.close()
    with pytest.raises(StoreUnavailable, match="holds sessions nobody can read"):
        SqliteStore(path)


@pytest.mark.parametrize("kept", [b'[{"dev_eui":"\xff"}]', b'[{"z":' + b"[" * 60_000])
def test_sessions_that_are_no_text_or_nested_too_deeply_are_told(path: Path, kept: bytes) -> None:
    SqliteStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO device VALUES (?, ?)", (ALPHA, kept))
    db.close()
    with pytest.raises(StoreUnavailable, match="holds sessions nobody can read"):
        SqliteStore(path)


def test_an_outbox_is_no_store(path: Path) -> None:
    Outbox(path).close()
    with pytest.raises(StoreUnavailable, match="holds something else than the sessions"):
        SqliteStore(path)


def test_a_full_disk_is_told_and_nothing_is_half_kept(path: Path) -> None:
    store = SqliteStore(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.with_name(path.name + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(StoreUnavailable, match="cannot be written: "):
            asyncio.run(store.keep_join(ALPHA, 7, ()))
        with pytest.raises(StoreUnavailable, match="cannot be written: "):
            asyncio.run(store.keep_sessions(ALPHA, (SESSION,)))
        with pytest.raises(StoreUnavailable, match="cannot be written: "):
            asyncio.run(store.next_join_nonce(ALPHA, 1))
        assert (store.sessions(ALPHA), store.dev_nonces(ALPHA)) == ((), frozenset())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert asyncio.run(store.keep_join(ALPHA, 7, ())), "it was not used"
    store.close()
    again = SqliteStore(path)
    assert again.sessions(ALPHA) == ()
    assert again.dev_nonces(ALPHA) == frozenset({7})
    again.close()


def test_keys_are_readable_for_their_owner_only(path: Path) -> None:
    store = SqliteStore(path)
    asyncio.run(store.keep_sessions(ALPHA, (SESSION,)))
    files = [file for file in path.parent.iterdir() if file.name.startswith("lns-a.store")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    store.close()


def test_a_closed_store_refuses(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        asyncio.run(store.keep_join(ALPHA, 7, ()))
