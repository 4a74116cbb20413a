"""The outbox: durable, numbered, bounded, one owner."""

import asyncio
import json
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lns.delivery.outbox import Outbox
from lns.delivery.publisher import UpstreamUnavailable
from tests.lns.delivery.sending import ALPHA, BETA, message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "lns-a.outbox"


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """No file of this process grows beyond what the write-ahead log has now."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.with_name(path.name + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def ids(outbox: Outbox, after: int = 0, limit: int = 100) -> list[tuple[str, int]]:
    entries = asyncio.run(outbox.after(after, limit))
    return [(entry.message_id, entry.sequence_number) for entry in entries]


def add(outbox: Outbox, *f_cnts: int, dev_eui: str = ALPHA) -> None:
    async def all_at_once() -> None:
        await asyncio.gather(*(outbox.add(message(f_cnt, dev_eui)) for f_cnt in f_cnts))

    asyncio.run(all_at_once())


def test_messages_come_out_in_order_and_numbered_from_1(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 7, 8, 9)
    add(outbox, 1, dev_eui=BETA)
    assert ids(outbox) == [
        ("70B3D57ED0000001-01ABCDEF-7", 1),
        ("70B3D57ED0000001-01ABCDEF-8", 2),
        ("70B3D57ED0000001-01ABCDEF-9", 3),
        ("70B3D57ED0000002-01ABCDEF-1", 1),
    ]
    assert [number for _, number in ids(outbox, after=1, limit=2)] == [2, 3]
    outbox.close()


def test_an_entry_is_the_message_as_the_application_gets_it(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 42)
    [entry] = asyncio.run(outbox.after(0, 1))
    assert (entry.topic, entry.partition_key) == ("lorawan/lns-a/70B3D57ED0000001/up", ALPHA)
    assert list(json.loads(entry.body).items()) == list(message(42).body(1).items())
    outbox.close()


def test_messages_and_numbers_outlive_the_process(path: Path) -> None:
    first = Outbox(path)
    add(first, 1, 2)
    first.close()
    second = Outbox(path)
    assert second.waiting == 2
    asyncio.run(second.remove([1, 2]))
    second.close()
    third = Outbox(path)
    add(third, 3)
    assert (third.waiting, ids(third)) == (1, [("70B3D57ED0000001-01ABCDEF-3", 3)])
    assert asyncio.run(third.after(0, 1))[0].position == 3
    third.close()


def test_a_full_outbox_refuses_until_there_is_room(path: Path) -> None:
    outbox = Outbox(path, messages_max=2)
    add(outbox, 1, 2)
    with pytest.raises(UpstreamUnavailable, match=r"lns-a\.outbox is full: 2 messages wait"):
        add(outbox, 3)
    asyncio.run(outbox.remove([1]))
    add(outbox, 3)
    assert [number for _, number in ids(outbox)] == [2, 3], "a refused message takes no number"
    outbox.close()


def test_the_bound_holds_for_many_at_once(path: Path) -> None:
    outbox = Outbox(path, messages_max=5)

    async def ten() -> list[BaseException | None]:
        adding = (outbox.add(message(f_cnt)) for f_cnt in range(10))
        return await asyncio.gather(*adding, return_exceptions=True)

    refused = [error for error in asyncio.run(ten()) if error is not None]
    assert (len(refused), outbox.waiting, len(ids(outbox))) == (5, 5, 5)
    outbox.close()


def test_a_full_disk_refuses_and_the_outbox_recovers(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 1)
    with full_disk(path), pytest.raises(UpstreamUnavailable, match="cannot be written: "):
        add(outbox, 2, 3)
    assert outbox.waiting == 1
    add(outbox, 4)
    outbox.close()
    again = Outbox(path)
    assert [number for _, number in ids(again)] == [1, 2]
    assert [name[-1] for name, _ in ids(again)] == ["1", "4"]
    again.close()


def test_a_closed_outbox_refuses(path: Path) -> None:
    outbox = Outbox(path)
    outbox.close()
    with pytest.raises(UpstreamUnavailable, match="is closed"):
        add(outbox, 1)


def test_an_outbox_has_one_owner(path: Path) -> None:
    outbox = Outbox(path)
    with pytest.raises(UpstreamUnavailable, match="is in use by another process"):
        Outbox(path)
    outbox.close()
    Outbox(path).close()


def test_a_file_that_is_no_outbox_is_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("not a database, and longer than the header of one " * 20)
    before = notes.read_bytes()
    with pytest.raises(UpstreamUnavailable, match=r"notes\.txt holds something else"):
        Outbox(notes)
    assert notes.read_bytes() == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UpstreamUnavailable, match=r"file/lns-a\.outbox cannot be opened: "):
        Outbox(tmp_path / "file" / "lns-a.outbox")
    with pytest.raises(UpstreamUnavailable, match="cannot be opened: "):
        Outbox(tmp_path)


def test_only_its_owner_can_read_it(path: Path) -> None:
    outbox = Outbox(path)
    add(outbox, 1)
    files = sorted(path.parent.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    outbox.close()
