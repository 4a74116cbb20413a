"""The store that outlives the process, and a cut of the power: one SQLite file.

For a network server that shares its sessions with no other. The file holds session keys: it is
readable for its owner only.
"""

from collections import defaultdict
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

import msgspec

from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from lns.outage import StoreUnavailable
from lns.store.sqlite_file import Change, FileUnusable, Kind, SqliteFile

T = TypeVar("T")

_KIND = Kind(
    name="the sessions of a network server",
    letters=b"LNSs",
    tables=(
        "CREATE TABLE IF NOT EXISTS device"
        " (dev_eui TEXT PRIMARY KEY, sessions TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS dev_nonce"
        " (dev_eui TEXT, dev_nonce INTEGER, PRIMARY KEY (dev_eui, dev_nonce)) WITHOUT ROWID",
        # Files of earlier versions have none yet; it is made when they are opened.
        "CREATE TABLE IF NOT EXISTS join_nonce"
        " (dev_eui TEXT PRIMARY KEY, join_nonce INTEGER NOT NULL) WITHOUT ROWID",
    ),
)
_NEXT_JOIN_NONCE = """
INSERT INTO join_nonce VALUES (?, ?)
ON CONFLICT (dev_eui) DO UPDATE SET join_nonce = max(join_nonce + 1, excluded.join_nonce)
RETURNING join_nonce
"""
_decode = msgspec.json.Decoder(tuple[Session, ...]).decode


class SqliteStore:
    """Sessions (the one in use and those waiting for their first frame) and used DevNonces.

    All of them are in memory too, and read from there. What was kept is on the disk when the
    awaited call returns. StoreUnavailable when the file is in use or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = SqliteFile(path, _KIND)
        except FileUnusable as unusable:
            raise StoreUnavailable(f"the store {unusable}") from unusable
        try:
            self._sessions = self._file.read_at_once(_sessions)
            self._dev_nonces = self._file.read_at_once(_dev_nonces)
        except FileUnusable as unusable:
            self._file.close()
            raise StoreUnavailable(f"the store {unusable}") from unusable
        except msgspec.DecodeError:
            self._file.close()
            raise StoreUnavailable(f"the store {path} holds sessions nobody can read") from None

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        """The sessions of a device, newest first."""
        return tuple(session.snapshot() for session in self._sessions.get(dev_eui, ()))

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Replace the sessions of a device by these, as they are now; StoreUnavailable."""
        kept = tuple(session.snapshot() for session in sessions)
        await self._write(lambda db: _replace(db, dev_eui, kept))
        self._sessions[dev_eui] = kept

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        """Every DevNonce that was ever accepted of a device."""
        return frozenset(self._dev_nonces[dev_eui])

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        """Use a DevNonce and replace the sessions, both or none; StoreUnavailable.

        False when the DevNonce was used before.
        """
        used = self._dev_nonces[dev_eui]
        if dev_nonce in used:
            return False
        used.add(dev_nonce)
        kept = tuple(session.snapshot() for session in sessions)

        def change(db: Connection) -> None:
            # It is there already when nobody waited for the commit that brought it.
            db.execute("INSERT OR IGNORE INTO dev_nonce VALUES (?, ?)", (dev_eui, dev_nonce))
            _replace(db, dev_eui, kept)

        try:
            await self._write(change)
        except BaseException:
            # What was not kept was not used: the device may send the same join again.
            used.discard(dev_nonce)
            raise
        self._sessions[dev_eui] = kept
        return True

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        """A JoinNonce greater than any before, at least `least`; StoreUnavailable."""

        def change(db: Connection) -> int:
            [(join_nonce,)] = db.execute(_NEXT_JOIN_NONCE, (dev_eui, least)).fetchall()
            return int(join_nonce)

        return await self._write(change)

    def close(self) -> None:
        """Give the file up; the store cannot be written any more."""
        self._file.close()

    async def _write(self, change: Change[T]) -> T:
        try:
            return await self._file.write(change)
        except FileUnusable as unusable:
            raise StoreUnavailable(f"the store {unusable}") from unusable


def _replace(db: Connection, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
    text = msgspec.json.encode(sessions).decode()
    db.execute("REPLACE INTO device VALUES (?, ?)", (dev_eui, text))


def _sessions(db: Connection) -> dict[Eui, tuple[Session, ...]]:
    rows = db.execute("SELECT dev_eui, sessions FROM device")
    return {Eui(dev_eui): _decode(text) for dev_eui, text in rows}


def _dev_nonces(db: Connection) -> defaultdict[Eui, set[int]]:
    used: defaultdict[Eui, set[int]] = defaultdict(set)
    for dev_eui, dev_nonce in db.execute("SELECT dev_eui, dev_nonce FROM dev_nonce"):
        used[Eui(dev_eui)].add(dev_nonce)
    return used
