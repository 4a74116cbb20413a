"""What an inbox has counted, for whoever looks into its file."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from lns.clock import StoreUnavailable
from lns.delivery import Detectors, Inbox, SequenceTracker
from lns.delivery.inbox import Tries, figures_in
from lns.delivery.incoming import Incoming
from lns.store.inbox_store import SqliteInboxStore, Transaction
from tests.lns.delivery.arriving import TOPIC, payload
from tests.looped import on_a_loop


def effect(message: Incoming, transaction: Transaction) -> None:
    if b"poison" in message.body:
        raise ValueError("no")


@on_a_loop
async def test_the_figures_are_in_the_file_while_its_consumer_runs(tmp_path: Path) -> None:
    path = tmp_path / "inbox.sqlite"
    store = SqliteInboxStore(path, entries_max=2)
    async with Inbox(store, effect, tries=Tries(most=1), utc_us=lambda: 7) as inbox:
        for f_cnt, more in [(1, {}), (2, {}), (3, {}), (3, {}), (4, {"payload": "poison"})]:
            inbox.offer(TOPIC, payload(f_cnt, **more), {}, 1, lambda: None)
        inbox.offer(TOPIC, b"{}", {}, 1, lambda: None)
        await inbox.settled()
        figures, [parked] = figures_in(path)
        assert figures == await inbox.figures()
        assert msgspec.to_builtins(figures) == {
            "accepted": 3,
            "ignored": {"window": 1, "sequence": 0, "key": 0},
            "unreadable": 1,
            "parked": 1,
            "tries_failed": 1,
            "evicted": 1,
            "overruns": 0,
            "num_dup_msgs_rcvd": 1,
            "window_us": 600_000_000,
            "remembered": {
                "window": {"count": 2, "oldest_us": 7},
                "sequence": {"count": 1, "oldest_us": 7},
                "key": {"count": 0, "oldest_us": None},
            },
            "waiting": 0,
        }
        assert (parked.sequence_number, parked.reason) == (4, "ValueError: no")
    await store.close()


def test_duplicates_by_number_are_not_shown_while_they_are_not_looked_for(tmp_path: Path) -> None:
    """`performDuplicateChecking` off: NumDupMsgsRcvd is 0 for whoever looks into the file too."""
    path = tmp_path / "inbox.sqlite"

    async def body(*, checks: bool) -> None:
        store = SqliteInboxStore(path)
        tracker = SequenceTracker(perform_duplicate_checking=checks)
        async with Inbox(store, effect, Detectors(sequence=tracker)) as inbox:
            inbox.offer(TOPIC, payload(2), {}, 1, lambda: None)
            await inbox.settled()
        await store.close()

    asyncio.run(body(checks=True))
    shown = []
    for checks in (True, False, True):
        asyncio.run(body(checks=checks))
        shown.append(figures_in(path)[0].num_dup_msgs_rcvd)
    assert shown == [1, 0, 2]


def test_another_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="missing is no file"):
        figures_in(tmp_path / "missing")
    (tmp_path / "text").write_text("no database, " * 100)
    with pytest.raises(StoreUnavailable, match="text holds something else than the inbox of an"):
        figures_in(tmp_path / "text")
    with pytest.raises(StoreUnavailable, match="text holds something else than the inbox of an"):
        SqliteInboxStore(tmp_path / "text")


def test_an_effect_is_tried_again_after_twice_as_long_each_time_up_to_a_limit() -> None:
    tries = Tries(most=9, first_us=100, max_us=1000)
    assert [tries.wait_us(failures) for failures in (1, 2, 3, 4, 5, 99)] == [
        100,
        200,
        400,
        800,
        1000,
        1000,
    ]
