"""The order of things in a log."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from bench import traffic
from bench.traffic import read, recording
from bench.traffic.recording import Hearing, Log, TrafficError, Uplink, steps
from lns.lorawan.identifiers import Eui
from tests.bench.traffic.traffic_files import (
    CONFORMANCE,
    SAINT_EYNARD,
    document,
    records,
    written,
)

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")


def uplink(at_us: int, *arrivals: tuple[Eui, int]) -> Uplink:
    hearings = tuple(Hearing(station, arrival_us, -80, 7.0) for station, arrival_us in arrivals)
    return Uplink(
        at_us=at_us,
        phy=b"",
        frame_id=str(at_us),
        dev_eui=Eui("0000000000000001"),
        dr=5,
        freq_hz=868_100_000,
        hearings=hearings,
        f_cnt=at_us,
    )


def order(*uplinks: Uplink) -> list[tuple[int, str, str]]:
    names = {WEST: "west", EAST: "east"}
    log = Log("log", "title", (), names, uplinks)
    return [
        (step.at_us, step.uplink.frame_id, names[step.hearing.station] if step.hearing else "air")
        for step in steps(log)
    ]


def test_an_uplink_ends_before_it_is_reported_and_no_two_things_share_a_microsecond() -> None:
    assert order(uplink(100, (WEST, 100), (EAST, 100))) == [
        (100, "100", "air"),
        (101, "100", "west"),
        (102, "100", "east"),
    ]


def test_reports_of_several_uplinks_interleave() -> None:
    assert order(uplink(0, (WEST, 10), (EAST, 300)), uplink(200, (WEST, 210), (EAST, 220))) == [
        (0, "0", "air"),
        (10, "0", "west"),
        (200, "200", "air"),
        (210, "200", "west"),
        (220, "200", "east"),
        (300, "0", "east"),
    ]


def test_nothing_is_reported_before_it_was_heard() -> None:
    assert order(uplink(50, (WEST, 20))) == [(50, "50", "air"), (51, "50", "west")]


@pytest.mark.parametrize("notice", [recording.SAINT_EYNARD, recording.CONFORMANCE])
def test_each_notice_stands_in_the_file_of_notices(notice: str) -> None:
    folder = Path(traffic.__file__).parent
    written = (folder / "NOTICES.md").read_text(encoding="utf-8")
    assert " ".join(notice.split()) in " ".join(written.split())


def test_the_excerpts_carry_their_notices() -> None:
    beside = (Path(__file__).parent / "excerpts" / "NOTICE.md").read_text(encoding="utf-8")
    assert "Open Database License (ODbL) 1.0" in beside
    assert "Copyright (c) 2018 Pablo Modernell, UOC, UdelaR" in beside


@pytest.mark.parametrize("excerpt", [CONFORMANCE, SAINT_EYNARD])
@pytest.mark.parametrize("name", ["a.json", "b.ndjson", "no-suffix"])
def test_the_content_tells_the_format_and_gzip_not_the_name(
    tmp_path: Path, excerpt: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(excerpt.read_bytes()))
    assert read(path).logs == read(excerpt).logs


def test_what_an_application_made_of_a_payload_is_no_format(tmp_path: Path) -> None:
    path = tmp_path / "decoded.ndjson"
    events = [json.loads(line) for line in SAINT_EYNARD.read_text("utf-8").splitlines()]
    told = [json.dumps({**event, "object": {"logs": 3}}) for event in events]
    path.write_text("\n".join(told))
    assert read(path).logs[0].uplinks == read(SAINT_EYNARD).logs[0].uplinks


def test_an_unknown_format_is_refused_and_the_known_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "frames.csv"
    path.write_text("time,phy\n1,40\n")
    with pytest.raises(TrafficError) as refusal:
        read(path)
    assert str(refusal.value) == (
        "frames.csv: unknown format; known are: LoRaWAN conformance logs;"
        " ChirpStack events, one per line"
    )


def test_an_empty_file_is_of_no_known_format(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.touch()
    with pytest.raises(TrafficError, match=r"^empty\.json: unknown format"):
        read(path)


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_gzip_file_that_is_cut_short_is_refused(tmp_path: Path, kept: float) -> None:
    whole = gzip.compress(SAINT_EYNARD.read_bytes())
    path = tmp_path / "short.ndjson.gz"
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(TrafficError, match=r"^short\.ndjson\.gz: after \d+ compressed bytes: the "):
        read(path)


def test_a_gzip_file_with_broken_content_is_refused(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(SAINT_EYNARD.read_bytes()))
    whole[len(whole) // 2] ^= 0xFF
    path = tmp_path / "broken.ndjson.gz"
    path.write_bytes(whole)
    with pytest.raises(TrafficError, match="cut short or broken"):
        read(path)


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_is_read_up_to_a_limit_and_no_octet_further(tmp_path: Path, packed: bool) -> None:
    content = SAINT_EYNARD.read_bytes()
    path = tmp_path / "long.ndjson"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert read(path, bytes_max=len(content)).logs
    with pytest.raises(TrafficError) as refusal:
        read(path, bytes_max=1 << 10)
    unpacked = " unpacked" * packed
    assert str(refusal.value) == (
        f"long.ndjson: more than 0.000976562 MiB{unpacked}, which is the limit; split it"
    )


def test_a_small_file_that_unpacks_to_much_costs_no_more_than_the_limit(tmp_path: Path) -> None:
    """100 MB in 100 kB: they are not held, nor are 2 MB."""
    path = tmp_path / "bomb.ndjson.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(TrafficError, match="more than 1 MiB unpacked"):
            read(path, bytes_max=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_file_without_one_usable_uplink_is_refused_and_says_why(tmp_path: Path) -> None:
    rows = [row for row in records() if "rxInfo" not in row]
    with pytest.raises(TrafficError, match=r"^status\.ndjson: no uplink that can be used$"):
        read(written(tmp_path / "status.ndjson", rows))
    content = document()
    for log in content["logs"]:
        for event in log["events"]:
            event["datr"] = "SF42"
    with pytest.raises(TrafficError, match=r"left out: .*events\[0\]: not a LoRa data rate"):
        read(written(tmp_path / "rates.json", content))


def test_a_file_that_is_not_there_is_the_affair_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.json")
