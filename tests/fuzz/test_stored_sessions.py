"""Fuzz target: whatever stands in a store is sessions that can be used, or a store that is refused.

Written into the file by whoever can, while no server runs.
"""

import asyncio
import sqlite3
import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from lns.clock import StoreUnavailable
from lns.dedup.session import Session
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import Eui
from lns.store.sqlite import SqliteStore
from tests.fuzz.mutation import mutated
from tests.fuzz.test_station_messages import JSON
from tests.lns.served_network import ALPHA, DEV_ADDR, KEYS

GENUINE = Session(
    dev_eui=ALPHA.dev_eui,
    dev_addr=DEV_ADDR,
    keys=KEYS,
    f_cnt_up=65_537,
    f_cnt_down=7,
    resubmissions={65_537: 2},
    copies={65_537: 1},
    former={0: 20_001},
    life=1,
    lives=1,
)
FIELDS = msgspec.to_builtins(GENUINE, str_keys=True)
# Each example opens a file twice, and waits for the disk.
FEW = settings(max_examples=max(10, settings().max_examples // 5))
TEXT = msgspec.json.encode((GENUINE,))


@st.composite
def respelt(draw: st.DrawFn) -> bytes:
    """A session with any JSON in some of its fields."""
    fields = dict(FIELDS)
    for key in draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3)):
        numbers = st.sampled_from([-1, 0, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 63, 10**30])
        fields[key] = draw(numbers | JSON)
    return b"[" + msgspec.json.encode(fields) + b"]"


def stored(value: object, as_text: bool) -> SqliteStore:
    """The store after somebody has written `value` into it; StoreUnavailable."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lns-a.store"
        store = SqliteStore(path)
        asyncio.run(store.keep_sessions(ALPHA.dev_eui, (GENUINE,)))
        store.close()
        with sqlite3.connect(path) as db:
            column = "CAST(? AS TEXT)" if as_text else "?"
            db.execute(f"UPDATE device SET sessions = {column}", (value,))
        db.close()
        store = SqliteStore(path)
        store.close()
        return store


def check(value: object, as_text: bool) -> None:
    try:
        sessions = stored(value, as_text).sessions(Eui(ALPHA.dev_eui))
    except StoreUnavailable as unavailable:
        assert "lns-a.store" in str(unavailable)
        return
    for session in sessions:
        assert session.f_cnt_up is None or 0 <= session.f_cnt_up < 1 << 32
        if session.f_cnt_down < 1 << 32:  # one more is a session that has used them all
            how = {"dev_addr": session.dev_addr, "f_cnt": session.f_cnt_down, "keys": session.keys}
            assert build_data(MType.UNCONFIRMED_DOWN, f_port=None, payload=b"", **how)


@FEW
@given(mutated([TEXT]) | respelt() | st.binary(max_size=100), st.booleans())
def test_any_bytes_in_a_store_are_sessions_or_refused(data: bytes, as_text: bool) -> None:
    check(data, as_text)


@FEW
@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False))
def test_a_number_in_the_place_of_sessions_is_refused(value: float) -> None:
    check(value, False)
