"""How does each message come out of the inbox on another topic, without its repeats?

The effect is one more row in the file of the inbox, in the same transaction as its state; a sender
takes the rows to the broker. What the broker has not acknowledged goes out again after a kill, with
the same id and the same sequence number: on the clean topic each message arrives at least once, and
whoever must have it once needs an inbox too.
"""

from collections.abc import Callable, Sequence
from sqlite3 import Connection

from lns.delivery.effect import EffectUnavailable
from lns.delivery.incoming import Incoming
from lns.delivery.outbox import MESSAGES_MAX, Entry
from lns.delivery.publisher import UpstreamUnavailable
from lns.outage import StoreUnavailable
from lns.store.inbox_entries import Transaction
from lns.store.inbox_sqlite import SqliteInboxStore
from lns.store.sqlite_file import Change

_TABLE = (
    "CREATE TABLE IF NOT EXISTS inbox_republished (position INTEGER PRIMARY KEY AUTOINCREMENT,"
    " topic TEXT NOT NULL, message_id TEXT NOT NULL, partition_key TEXT NOT NULL,"
    " sequence_number INTEGER NOT NULL, body BLOB NOT NULL, key TEXT NOT NULL)"
)
_ADD = (
    "INSERT INTO inbox_republished"
    " (topic, message_id, partition_key, sequence_number, body, key) VALUES (?, ?, ?, ?, ?, ?)"
)
_AFTER = "SELECT * FROM inbox_republished WHERE position > ? ORDER BY position LIMIT ?"


class Republishing:
    """Messages on their way to `prefix`/topic, as they came; an `Effect`, and what a sender sends.

    At most `messages_max` wait for the broker; beyond that nothing more is accepted until it takes
    some. `look`, if there is one, is called whenever there are new ones: `MqttSender.look`.
    """

    def __init__(
        self, store: SqliteInboxStore, prefix: str, *, messages_max: int = MESSAGES_MAX
    ) -> None:
        if not prefix or set(prefix) & set("+#\0") or prefix.strip("/") != prefix:
            raise ValueError("a prefix is a topic without + and #, and no / at its ends")
        self._store = store
        self._prefix = prefix
        self._messages_max = messages_max
        self._kept = self._added = 0
        self.look: Callable[[], None] | None = None

    @property
    def waiting(self) -> int:
        """How many messages the broker has not acknowledged."""
        return self._kept + self._added

    def open(self, transaction: Transaction) -> None:
        """Make the table, and count what waits since before."""
        transaction.execute(_TABLE)
        [[self._kept]] = transaction.execute("SELECT count(*) FROM inbox_republished")

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        """Have a message sent; EffectUnavailable when too many wait."""
        if self.waiting >= self._messages_max:
            raise EffectUnavailable(f"{self.waiting} messages wait for the broker already")
        key = message.remove_duplicates_key or message.message_id
        number = message.sequence_number or 0
        topic = f"{self._prefix}/{message.channel}"
        row = topic, message.message_id, message.partition_key, number, message.body, key
        transaction.execute(_ADD, row)
        self._added += 1

    def flush(self, transaction: Transaction) -> None:
        """What was added is in the transaction."""

    def end(self, *, kept: bool) -> None:
        """What was added may be sent, or was never there."""
        added, self._added = self._added, 0
        if not kept:
            return
        self._kept += added
        if added and self.look is not None:
            self.look()

    async def after(self, position: int, limit: int) -> list[Entry]:
        """The next messages to send behind a position; UpstreamUnavailable."""

        def query(db: Connection) -> list[Entry]:
            return [Entry(*row) for row in db.execute(_AFTER, (position, limit)).fetchall()]

        try:
            return await self._store.read(query)
        except StoreUnavailable as unavailable:
            raise UpstreamUnavailable(str(unavailable)) from unavailable

    async def remove(self, positions: Sequence[int]) -> None:
        """Forget messages that the broker has; UpstreamUnavailable."""
        try:
            removed = await self._store.write(_removal(positions))
        except StoreUnavailable as unavailable:
            raise UpstreamUnavailable(str(unavailable)) from unavailable
        self._kept -= removed

    async def park(self, positions: Sequence[int]) -> None:
        """Nothing is too old to be published again."""

    async def compact(self) -> None:
        """The file is as long as the inbox needs it."""


def _removal(positions: Sequence[int]) -> Change[int]:
    def change(db: Connection) -> int:
        rows = [(position,) for position in positions]
        return db.executemany("DELETE FROM inbox_republished WHERE position = ?", rows).rowcount

    return change
