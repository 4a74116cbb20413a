"""Messages as lines of a file that a kill cannot make twice."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lns.delivery.effect import (
    EffectUnavailable,
    JsonLinesFile,
    JsonLinesStream,
    json_line,
    json_lines,
)
from lns.store.inbox_store import MemoryEntries
from tests.lns.delivery.arriving import TOPIC, incoming


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
        "from tests.lns.delivery.test_json_lines import Written, EffectUnavailable\n"
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
