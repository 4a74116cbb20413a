"""How many messages has an inbox accepted, ignored and put aside since it was created?"""

from pathlib import Path

from msgspec import Struct

from lns.delivery.detection import Detector
from lns.delivery.sequence_tracker import NUM_DUP_MSGS_RCVD, PERFORMS
from lns.outage import StoreUnavailable
from lns.store.inbox_entries import (
    EVICTED,
    OVERRUNS,
    InboxStore,
    ParkedMessage,
    Size,
    Summary,
    Table,
)
from lns.store.inbox_sqlite import KIND, parked, summary
from lns.store.sqlite_file import FileUnusable, look

ACCEPTED = "accepted"
UNREADABLE = "unreadable"
TRIES_FAILED = "tries_failed"
IGNORED = {detector: f"ignored_by_{detector}" for detector in Detector}


class Figures(Struct, frozen=True, kw_only=True):
    """The counts of an inbox; they are in its store, and outlive the process.

    `remembered`: by detector, how many marks there are and when the first was made (UTC, µs).
    `evicted` marks left before their time, as their table was full: a repeat of those is accepted.
    `overruns` are effects that took longer than the lease of the message; another consumer may have
    had them too. `window_us` is None where ids are not compared. `waiting` is not in the store.
    """

    accepted: int
    ignored: dict[str, int]
    unreadable: int
    parked: int
    tries_failed: int
    evicted: int
    overruns: int
    num_dup_msgs_rcvd: int
    window_us: int | None
    remembered: dict[str, Size]
    waiting: int = 0


def figures(found: Summary, *, waiting: int = 0, checks_sequence: bool | None = None) -> Figures:
    """The figures in a summary; NumDupMsgsRcvd is 0 for who checks no sequence numbers.

    Where nobody says whether he does (None), the consumer counts who opened the store last.
    """
    numbers = found.numbers
    if checks_sequence is None:
        checks_sequence = bool(numbers.get(PERFORMS, 1))
    return Figures(
        accepted=numbers.get(ACCEPTED, 0),
        ignored={str(detector): numbers.get(IGNORED[detector], 0) for detector in Detector},
        unreadable=numbers.get(UNREADABLE, 0),
        parked=found.parked,
        tries_failed=numbers.get(TRIES_FAILED, 0),
        evicted=numbers.get(EVICTED, 0),
        overruns=numbers.get(OVERRUNS, 0),
        num_dup_msgs_rcvd=numbers.get(NUM_DUP_MSGS_RCVD, 0) if checks_sequence else 0,
        window_us=numbers.get("window_us", 0) or None,
        remembered={str(table): found.sizes[table] for table in Table},
        waiting=waiting,
    )


async def figures_of(store: InboxStore) -> Figures:
    """The figures of a store that this process has opened; StoreUnavailable."""
    return figures(await store.summary())


def figures_in(path: Path) -> tuple[Figures, list[ParkedMessage]]:
    """The figures and the parked messages in a file, also while another process owns it.

    StoreUnavailable when it is no inbox, or cannot be read.
    """
    try:
        return look(path, KIND, lambda db: (figures(summary(db)), parked(db)))
    except FileUnusable as unusable:
        raise StoreUnavailable(f"the inbox {unusable}") from unusable
