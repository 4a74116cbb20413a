"""Which files are taken, and what is said of the others."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from bench.traffic import read
from bench.traffic.recording import TrafficError
from tests.bench.traffic.traffic_files import (
    CONFORMANCE,
    SAINT_EYNARD,
    document,
    records,
    written,
)


@pytest.mark.parametrize("excerpt", [CONFORMANCE, SAINT_EYNARD])
@pytest.mark.parametrize("name", ["a.json", "b.ndjson", "no-suffix"])
def test_the_content_tells_the_format_and_gzip_not_the_name(
    tmp_path: Path, excerpt: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(excerpt.read_bytes()))
    assert read(path).logs == read(excerpt).logs


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
