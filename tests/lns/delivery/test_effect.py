"""Messages as lines of a file that a kill cannot make twice."""

import asyncio
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from lns.delivery import Inbox
from lns.delivery.effect import (
    EffectUnavailable,
    JsonLinesFile,
    JsonLinesStream,
    Republishing,
    json_line,
    json_lines,
)
from lns.delivery.incoming import Incoming
from lns.delivery.mqtt_sender import MqttSender
from lns.delivery.mqtt_session import broker
from lns.delivery.publisher import UpstreamUnavailable
from lns.store.inbox_store import Batch, MemoryEntries, SqliteInboxStore
from tests.broker import Heard, Listener, Mosquitto
from tests.lns.delivery.arriving import TOPIC, incoming, payload
from tests.lns.delivery.sending import QUICK
from tests.looped import on_a_loop


class Written:
    """A file of lines and the state that knows how long it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = MemoryEntries()
        self.lines = self._open()

    def write(self, *ids: str, kept: bool = True, crash: bool = False) -> None:
        """Lines of one transaction, which is kept, or not, or in which the process ends."""
        numbers = dict(self.state.numbers)
        for message_id in ids:
            self.state.position += 1
            self.lines.handle(incoming(message_id), self.state)
        self.lines.flush(self.state)
        if not kept or crash:
            self.state.numbers = numbers
        if not crash:
            self.lines.end(kept=kept)

    def open_again(self) -> None:
        self.lines.close()
        self.lines = self._open()

    def ids(self) -> list[str]:
        text = self.path.read_text("utf-8")
        return [json.loads(line)["messageId"] for line in text.splitlines()]

    def _open(self) -> JsonLinesFile:
        lines = JsonLinesFile(self.path)
        lines.open(self.state)
        return lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "uplinks.jsonl"


def test_a_line_has_the_position_and_the_body_as_it_came() -> None:
    body = b'{"messageId": "m",\r\n "text": "\\n \xc3\xa9",\n "f": 1.50}'
    line = json_line(incoming("m", body=body), 7)
    assert line == (
        b'{"position":7,"channel":"%s","messageId":"m","body":{"messageId": "m",   "text":'
        b' "\\n \xc3\xa9",  "f": 1.50}}\n' % TOPIC.encode()
    )
    assert json.loads(line)["body"] == json.loads(body)


def test_lines_come_in_order_and_go_on_after_a_restart(path: Path) -> None:
    written = Written(path)
    written.write("a", "b")
    written.write("c")
    written.open_again()
    written.write("d")
    assert written.ids() == ["a", "b", "c", "d"]
    lines = path.read_text("utf-8").splitlines()
    assert [json.loads(line)["position"] for line in lines] == [1, 2, 3, 4]
    written.lines.close()


def test_nobody_else_reads_the_lines(path: Path) -> None:
    JsonLinesFile(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_of_a_transaction_that_was_not_kept_are_cut_off(path: Path) -> None:
    written = Written(path)
    written.write("a")
    written.write("b", "c", kept=False)
    assert written.ids() == ["a"]
    written.write("d")
    assert written.ids() == ["a", "d"]
    written.lines.close()


def test_lines_that_a_killed_consumer_wrote_and_never_kept_are_cut_off(path: Path) -> None:
    written = Written(path)
    written.write("a")
    written.write("b", crash=True)
    assert written.ids() == ["a", "b"]
    with path.open("ab") as file:
        file.write(b'{"torn')
    written.open_again()
    assert written.ids() == ["a"]
    written.write("b")
    assert written.ids() == ["a", "b"]
    written.lines.close()


def test_a_kill_before_the_first_line_leaves_nothing(path: Path) -> None:
    written = Written(path)
    written.write("a", crash=True)
    written.open_again()
    assert written.ids() == []
    written.lines.close()


def test_a_file_that_became_shorter_is_an_error(path: Path) -> None:
    written = Written(path)
    written.write("a")
    written.lines.close()
    path.write_bytes(b"")
    lines = JsonLinesFile(path)
    with pytest.raises(EffectUnavailable, match=r"has 0 octets, and had \d+ of this"):
        lines.open(written.state)
    lines.close()


def test_a_file_that_this_inbox_did_not_write_stays_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"somebody else's\n")
    lines = JsonLinesFile(path)
    with pytest.raises(EffectUnavailable, match="did not write; name another file"):
        lines.open(MemoryEntries())
    lines.close()
    assert path.read_bytes() == b"somebody else's\n"


def test_a_file_has_one_writer(path: Path) -> None:
    first = JsonLinesFile(path)
    with pytest.raises(EffectUnavailable, match="cannot be written: is in use"):
        JsonLinesFile(path)
    first.close()
    JsonLinesFile(path).close()


def test_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EffectUnavailable, match="cannot be opened: Is a directory"):
        JsonLinesFile(tmp_path)


def test_a_full_disk_is_waited_for_and_no_part_of_a_line_stays(path: Path) -> None:
    """In a process of its own, whose files may have 300 octets."""
    script = (
        "import resource, sys; from pathlib import Path;"
        "from tests.lns.delivery.test_effect import Written, EffectUnavailable\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "written = Written(Path(sys.argv[1])); written.write('a')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
        "try: written.write(*'bcdefgh')\n"
        "except EffectUnavailable as error: print(error)\n"
        "written.lines.end(kept=False); print(written.ids())\n"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == [f"{path} cannot be written: File too large", "['a']"]


def test_a_stream_gets_its_lines_before_they_are_kept() -> None:
    stream, state = io.BytesIO(), MemoryEntries()
    lines = JsonLinesStream(stream)
    lines.open(state)
    state.position = 1
    lines.handle(incoming("a"), state)
    assert stream.getvalue() == b""
    lines.flush(state)
    assert stream.getvalue() == json_line(incoming("a"), 1)
    lines.end(kept=True)
    lines.flush(state)
    assert stream.getvalue() == json_line(incoming("a"), 1)


def test_a_stream_that_took_nothing_gets_no_line_of_a_transaction_that_is_over() -> None:
    stream, state = io.BytesIO(), MemoryEntries()
    lines = JsonLinesStream(stream)
    lines.open(state)
    state.position = 1
    lines.handle(incoming("a"), state)
    lines.end(kept=False)
    lines.handle(incoming("b"), state)
    lines.flush(state)
    assert stream.getvalue() == json_line(incoming("b"), 1)


def test_a_stream_that_takes_a_part_at_a_time_gets_whole_lines(tmp_path: Path) -> None:
    class Narrow(io.FileIO):
        def write(self, octets: bytes | memoryview) -> int:
            return super().write(memoryview(octets)[:7])

    path = tmp_path / "pipe"
    lines = JsonLinesStream(Narrow(path, "wb"), owned=True)
    lines.handle(incoming("a"), MemoryEntries())
    lines.flush(MemoryEntries())
    lines.close()
    assert path.read_bytes() == json_line(incoming("a"), 0)


def test_a_broken_pipe_is_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = open(writing, "wb", buffering=0)
    lines = JsonLinesStream(stream)
    lines.handle(incoming("a"), MemoryEntries())
    with pytest.raises(EffectUnavailable, match="no line can be written: Broken pipe"):
        lines.flush(MemoryEntries())
    lines.close()
    assert not stream.closed
    stream.close()


def test_a_path_is_a_file_and_a_dash_or_a_device_a_stream(path: Path) -> None:
    assert isinstance(json_lines("-", io.BytesIO()), JsonLinesStream)
    device = json_lines("/dev/null", io.BytesIO())
    assert isinstance(device, JsonLinesStream)
    device.close()
    file = json_lines(str(path), io.BytesIO())
    assert isinstance(file, JsonLinesFile)
    file.close()


WAIT_S = 60


def sender(url: str, clean: Republishing) -> MqttSender:
    chance = random.Random(1)
    return MqttSender(broker(url), clean, client_id="clean", chance=chance, back_off=QUICK)


async def take(inbox: Inbox, *f_cnts: int) -> None:
    for f_cnt in f_cnts:
        inbox.offer(TOPIC, payload(f_cnt), {}, 1, lambda: None)
    async with asyncio.timeout(WAIT_S):
        await inbox.settled()


@pytest.mark.broker
def test_the_clean_topic_has_each_message_as_it_came(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    async def body() -> None:
        store = SqliteInboxStore(tmp_path / "inbox.sqlite")
        clean = Republishing(store, "clean")
        async with Inbox(store, clean) as inbox, sender(mosquitto.url, clean) as on_its_way:
            clean.look = on_its_way.look
            await take(inbox, 1, 2, 1, 3, 2)
            async with asyncio.timeout(WAIT_S):
                await on_its_way.drained()
        assert clean.waiting == 0
        await store.close()

    asyncio.run(body())
    heard = listener.count(3)
    assert [(one.topic, one.payload) for one in heard] == [
        (f"clean/{TOPIC}", payload(f_cnt)) for f_cnt in (1, 2, 3)
    ]
    read = Incoming.of(heard[0].topic, heard[0].payload, dict(heard[0].properties), 1)
    assert isinstance(read, Incoming)
    assert (read.sequence_number, read.remove_duplicates_key) == (1, read.message_id)


@pytest.mark.broker
def test_what_the_broker_has_not_taken_goes_out_after_a_restart_with_its_id_and_number(
    mosquitto: Mosquitto, listener: Listener, tmp_path: Path
) -> None:
    path = tmp_path / "inbox.sqlite"

    async def accept() -> None:
        store = SqliteInboxStore(path)
        clean = Republishing(store, "clean")
        async with Inbox(store, clean) as inbox:
            await take(inbox, 7, 8)
        assert clean.waiting == 2
        await store.close()

    async def send() -> None:
        store = SqliteInboxStore(path)
        clean = Republishing(store, "clean")
        async with Inbox(store, clean) as inbox:
            assert clean.waiting == 2
            async with sender(mosquitto.url, clean) as on_its_way, asyncio.timeout(WAIT_S):
                await take(inbox, 7, 8)
                await on_its_way.drained()
        await store.close()

    asyncio.run(accept())
    asyncio.run(send())

    def enough(heard: list[Heard]) -> bool:
        return len(heard) == 2

    heard = listener.wait_for(enough)
    assert [dict(one.properties)["sequenceNumber"] for one in heard] == ["7", "8"]
    assert [one.message_id for one in heard] == [
        f"70B3D57ED0000001-01ABCDEF-{f_cnt}" for f_cnt in (7, 8)
    ]


@on_a_loop
async def test_a_message_without_number_and_partition_has_none_on_the_clean_topic_either(
    tmp_path: Path,
) -> None:
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    clean = Republishing(store, "clean")
    async with Inbox(store, clean) as inbox:
        inbox.offer(TOPIC, b'{"messageId": "m"}', {}, 1, lambda: None)
        await inbox.settled()
        [entry] = await clean.after(0, 10)
    told = {"sequenceNumber": str(entry.sequence_number), "partitionKey": entry.partition_key}
    told |= {"messageId": entry.message_id}
    again = Incoming.of(entry.topic, entry.body, told, 1)
    assert again == incoming("m", channel=f"clean/{TOPIC}", body=b'{"messageId": "m"}')
    await store.close()


@on_a_loop
async def test_a_store_that_is_closed_is_away(tmp_path: Path) -> None:
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    clean = Republishing(store, "clean")
    async with Inbox(store, clean) as inbox:
        await take(inbox, 1)
    await store.close()
    with pytest.raises(UpstreamUnavailable):
        await clean.after(0, 10)
    with pytest.raises(UpstreamUnavailable):
        await clean.remove([1])
    assert clean.waiting == 1


@on_a_loop
async def test_a_message_keeps_its_remove_duplicates_key_or_its_id_is_one(tmp_path: Path) -> None:
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    clean = Republishing(store, "clean")
    async with Inbox(store, clean) as inbox:
        for text in (b'{"messageId": "m", "removeDuplicatesKey": "k"}', b'{"messageId": "n"}'):
            inbox.offer(TOPIC, text, {}, 1, lambda: None)
        await inbox.settled()
        entries = await clean.after(0, 10)
    assert [entry.remove_duplicates_key for entry in entries] == ["k", "n"]
    await store.close()


@pytest.mark.parametrize("batch_max", [1, 500])
def test_nothing_is_accepted_while_too_many_wait_for_the_broker(
    tmp_path: Path, batch_max: int
) -> None:
    acknowledged: list[int] = []

    async def body() -> None:
        store = SqliteInboxStore(tmp_path / "inbox.sqlite")
        clean = Republishing(store, "clean", messages_max=2)
        async with Inbox(store, clean, batch_max=batch_max) as inbox:
            for f_cnt in (1, 2, 3):
                inbox.offer(TOPIC, payload(f_cnt), {}, 1, lambda n=f_cnt: acknowledged.append(n))  # type: ignore[misc]
            async with asyncio.timeout(WAIT_S):
                while len(acknowledged) < 2:  # noqa: ASYNC110 - the broker is told, nobody else
                    await asyncio.sleep(0.01)
            entries = await clean.after(0, 10)
            assert (len(entries), acknowledged) == (2, [1, 2])
            await clean.remove([entries[0].position])
            async with asyncio.timeout(WAIT_S):
                await inbox.settled()
            assert [entry.sequence_number for entry in await clean.after(0, 10)] == [2, 3]
        await store.close()

    asyncio.run(body())
    assert acknowledged == [1, 2, 3]


@on_a_loop
async def test_what_was_not_kept_does_not_wait(tmp_path: Path) -> None:
    looks: list[int] = []
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    clean = Republishing(store, "clean")
    clean.look = lambda: looks.append(clean.waiting)

    async def work(batch: Batch) -> None:
        clean.open(batch)
        clean.handle(incoming("m"), batch)
        raise EffectUnavailable("another one")

    with pytest.raises(EffectUnavailable):
        await store.transact([], work)
    clean.end(kept=False)
    assert (clean.waiting, looks) == (0, [])
    async with Inbox(store, clean) as inbox:
        await take(inbox, 1)
    assert (clean.waiting, looks) == (1, [1])
    await store.close()


@pytest.mark.parametrize("prefix", ["", "/clean", "clean/", "a/+", "#"])
@on_a_loop
async def test_a_prefix_is_a_topic(tmp_path: Path, prefix: str) -> None:
    store = SqliteInboxStore(tmp_path / "inbox.sqlite")
    try:
        with pytest.raises(ValueError, match="a prefix is a topic"):
            Republishing(store, prefix)
    finally:
        await store.close()
