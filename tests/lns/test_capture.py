"""The lines of the capture, and what never stands in them."""

import json
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.virtual.lorawan.join_frames import join_request
from lns.capture import Capture
from lns.events import as_fields
from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import open_join_accept
from tests.lns.served_network import ALPHA, APP_KEY, GAMMA, JOIN_EUI, KEYS, Network, serve, uplink


class Ticks:
    """A clock that moves by a microsecond each time it is read."""

    def __init__(self) -> None:
        self.us = 0

    def __call__(self) -> int:
        self.us += 1
        return self.us


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[Capture]:
    opened = Capture(tmp_path, "7f3a2b1c", Ticks())
    yield opened
    opened.close()


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_latest_time_is_that_of_all_lines_and_not_of_the_last(capture: Capture) -> None:
    for t_us in (20, 10):
        capture.record_json("lns-a", "lns.outcome", b'{"x":1}', t_us)
    assert capture.latest_us == 20
    capture.record("lns-a", "lns.outcome", {"x": 1}, t_us=15)
    assert capture.latest_us == 20


def test_a_line_to_the_byte(tmp_path: Path, capture: Capture) -> None:
    capture.record("lns-a", "lns.outcome", {"station": "0016C001F1500001", "f_cnt": 10})
    assert (tmp_path / "lns-a.jsonl").read_bytes() == (
        b'{"schema":1,"run_id":"7f3a2b1c","source":"lns-a","seq":0,"t_us":1,"kind":"lns.outcome",'
        b'"station":"0016C001F1500001","f_cnt":10}\n'
    )


def test_an_event_is_written_as_its_fields_are(tmp_path: Path, capture: Capture) -> None:
    events = serve(_every_kind_of_trouble, ALPHA, GAMMA, entries_max=1).events
    for event in events:
        capture.record("fields", event.kind, as_fields(event))
        capture.record_event("event", event.kind, event)
    fields, event_lines = lines(tmp_path / "fields.jsonl"), lines(tmp_path / "event.jsonl")
    assert len(events) >= 8
    for one, other in zip(fields, event_lines, strict=True):
        assert list(one) == list(other)
        assert one | {"source": "event", "t_us": other["t_us"]} == other


def test_the_line_is_handed_back(tmp_path: Path, capture: Capture) -> None:
    line = capture.record("air", "radio.lost", {"cause": "faded"})
    assert lines(tmp_path / "air.jsonl") == [line]


def test_every_source_has_its_file_and_counts_without_gaps(
    tmp_path: Path, capture: Capture
) -> None:
    for source in ("air", "bench", "air", "air", "bench"):
        capture.record(source, "kind", {})
    assert [line["seq"] for line in lines(tmp_path / "air.jsonl")] == [0, 1, 2]
    assert [line["seq"] for line in lines(tmp_path / "bench.jsonl")] == [0, 1]
    times = [line["t_us"] for line in lines(tmp_path / "air.jsonl")]
    assert times == [1, 3, 4]


def test_what_cannot_be_written_leaves_no_gap(tmp_path: Path, capture: Capture) -> None:
    with pytest.raises(TypeError):
        capture.record("air", "kind", {"value": object()})
    capture.record("air", "kind", {})
    assert [line["seq"] for line in lines(tmp_path / "air.jsonl")] == [0]


def test_a_buffered_capture_is_complete_when_it_is_closed(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "7f3a2b1c", Ticks(), buffered=True)
    for _ in range(3):
        capture.record("air", "kind", {})
    assert lines(tmp_path / "air.jsonl") == []
    capture.close()
    assert [line["seq"] for line in lines(tmp_path / "air.jsonl")] == [0, 1, 2]


def test_a_buffered_capture_is_handed_over_when_it_is_asked_to(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "7f3a2b1c", Ticks(), buffered=True)
    capture.record("air", "kind", {})
    capture.flush()
    assert [line["seq"] for line in lines(tmp_path / "air.jsonl")] == [0]
    capture.close()


def test_a_closed_capture_takes_no_line(tmp_path: Path, capture: Capture) -> None:
    capture.record("air", "kind", {})
    capture.close()
    with pytest.raises(ValueError, match="closed: air kind"):
        capture.record("air", "kind", {})
    assert len(lines(tmp_path / "air.jsonl")) == 1


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        Capture(tmp_path / "nowhere", "7f3a2b1c", Ticks()).record("air", "kind", {})


def test_a_line_that_does_not_fit_on_the_disk_leaves_nothing_behind(
    tmp_path: Path, capture: Capture
) -> None:
    capture.record("air", "kind", {})
    size = (tmp_path / "air.jsonl").stat().st_size
    with disk_of(size + 30), pytest.raises(OSError, match=r"File too large: .*air\.jsonl"):
        capture.record("air", "kind", {"cause": "faded"})
    assert (tmp_path / "air.jsonl").stat().st_size == size
    capture.record("air", "kind", {"cause": "faded"})
    assert [line["seq"] for line in lines(tmp_path / "air.jsonl")] == [0, 1]


def test_a_source_keeps_two_files_of_half_the_size(tmp_path: Path) -> None:
    turned: list[str] = []
    capture = Capture(tmp_path, "7f3a2b1c", Ticks(), bytes_max=2000, turned=turned.append)
    for _ in range(60):
        capture.record("air", "kind", {})
    capture.close()
    older, newer = lines(tmp_path / "air.jsonl.1"), lines(tmp_path / "air.jsonl")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["air.jsonl", "air.jsonl.1"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2200
    seqs = [line["seq"] for line in (*older, *newer)]
    assert seqs == list(range(60 - len(seqs), 60))
    assert len(turned) >= 2 and set(turned) == {"air"}
    assert len(older) > 9


def test_the_numbers_go_on_in_the_next_process(tmp_path: Path) -> None:
    for _ in range(7):
        capture = Capture(tmp_path, "7f3a2b1c", Ticks(), bytes_max=500)
        for _ in range(3):
            capture.record("air", "kind", {})
        capture.close()
    assert lines(tmp_path / "air.jsonl")[-1]["seq"] == 20


@pytest.mark.parametrize("torn", [b"", b'{"schema":1,"se', b'{"schema":1,"se\n', b"\xff\xff"])
def test_the_numbers_go_on_after_a_file_that_was_turned_and_torn(
    tmp_path: Path, torn: bytes
) -> None:
    (tmp_path / "air.jsonl.1").write_bytes(b'{"seq":41}\n')
    (tmp_path / "air.jsonl").write_bytes(b'{"seq":42}\n{"seq":43}\n' + torn)
    capture = Capture(tmp_path, "7f3a2b1c", Ticks())
    capture.record("air", "kind", {})
    capture.close()
    last = (tmp_path / "air.jsonl").read_bytes().splitlines()[-1]
    assert json.loads(last)["seq"] == (45 if torn else 44)


def test_the_numbers_go_on_where_the_older_file_ends(tmp_path: Path) -> None:
    (tmp_path / "air.jsonl.1").write_bytes(b'{"seq":41}\n')
    (tmp_path / "air.jsonl").write_bytes(b"")
    capture = Capture(tmp_path, "7f3a2b1c", Ticks())
    assert capture.record("air", "kind", {})["seq"] == 42
    capture.close()


@contextmanager
def disk_of(octets: int) -> Iterator[None]:
    """No file of this process grows beyond so many octets."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def _every_kind_of_trouble(network: Network) -> None:
    await network.west.hears(uplink(10, confirmed=True))
    await network.east.hears(uplink(10, confirmed=True))
    await network.west.hears(uplink(10)[:-1] + b"\x00")
    await network.west.says('{"msgtype":"updf"}')
    network.application.refusals = 1
    await network.west.hears(uplink(11))
    for app_key in (bytes(16), APP_KEY):
        await network.west.hears(
            join_request(app_key, join_eui=JOIN_EUI, dev_eui=GAMMA.dev_eui, dev_nonce=7)
        )


def test_no_key_is_anywhere_in_what_a_server_says(
    tmp_path: Path, capture: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        network = serve(_every_kind_of_trouble, ALPHA, GAMMA, entries_max=1)
    for event in network.events:
        capture.record("lns-a", event.kind, as_fields(event))
    accept = open_join_accept(APP_KEY, network.west.dnmsgs[-1].pdu)
    joined = derive_session_keys(
        APP_KEY, join_nonce=accept.join_nonce, net_id=accept.net_id, dev_nonce=7
    )
    said = "\n".join(
        [
            (tmp_path / "lns-a.jsonl").read_text(),
            *network.west.texts,
            *network.east.texts,
            json.dumps(network.bodies),
            repr(network.events),
            repr(network.application),
            repr(network.devices),
            repr(network.store.sessions(GAMMA.dev_eui)),
            caplog.text,
        ]
    )
    assert len(network.events) >= 8
    assert "unreadable message" in said
    for key in _octets(KEYS) + _octets(joined) + [APP_KEY]:
        assert key.hex() not in said.lower()
        assert repr(key) not in said


def _octets(keys: SessionKeys) -> list[bytes]:
    return [keys.nwk_s_key, keys.app_s_key]
