import gzip
import json
import os
from pathlib import Path

import pytest

from bench.capture.reading import (
    CaptureFollower,
    Event,
    capture_files,
    content,
    is_readable,
    lines,
    stream,
)
from tests.reading import cases, read


def line(source: str, seq: int, t_us: int, kind: str = "station.text", **more: object) -> str:
    head = {"schema": 1, "run_id": "r", "source": source, "seq": seq, "t_us": t_us, "kind": kind}
    return json.dumps({**head, **more}, separators=(",", ":"))


WHOLE = line("air", 0, 5)


def write(folder: Path, **files: str | bytes) -> Path:
    for name, text in files.items():
        data = text.encode() if isinstance(text, str) else text
        (folder / f"{name}.jsonl").write_bytes(data)
    return folder


def test_sources_are_merged_in_order_of_time_source_and_seq(tmp_path: Path) -> None:
    write(
        tmp_path,
        tap="\n".join([line("tap", 0, 7), line("tap", 1, 9), line("tap", 2, 9)]),
        air="\n".join([line("air", 0, 9), line("air", 1, 10)]) + "\n",
    )
    reading = read(tmp_path)
    assert [(event["t_us"], event["source"], event["seq"]) for event in reading.events] == [
        (7, "tap", 0), (9, "air", 0), (9, "tap", 1), (9, "tap", 2), (10, "air", 1),
    ]  # fmt: skip
    assert (reading.torn_lines, reading.torn) == (0, [])


def test_a_folder_without_a_capture_is_told(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="no capture"):
        read(tmp_path)


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    reading = read(write(tmp_path, air=""))
    assert (reading.events, reading.torn_lines) == ([], 0)


def test_a_last_line_without_its_end_counts_if_it_is_whole(tmp_path: Path) -> None:
    reading = read(write(tmp_path, air=WHOLE))
    assert (len(reading.events), reading.torn_lines) == (1, 0)


@pytest.mark.parametrize("length", [1, 10, len(WHOLE) // 2, len(WHOLE) - 1])
def test_a_truncated_line_is_torn(tmp_path: Path, length: int) -> None:
    reading = read(write(tmp_path, air=f"{WHOLE}\n{WHOLE[:length]}", tap=f"{WHOLE}\n"))
    assert len(reading.events) == 2
    assert (reading.torn_lines, reading.torn) == (1, ["air"])


@pytest.mark.parametrize(
    "torn",
    [
        b"garbage", b"\x00\x00\x00", b"\xff\xfe", b"null", b"5", b"[]", b'"air"', b"{}",
        b"[" * 200_000, b'{"a":' * 200_000, b'{"kind":"x","t_us":1,"source":"air"}',
        line("air", 0, 5).replace('"t_us":5', '"t_us":"5"').encode(),
        line("air", 0, 5).replace('"t_us":5', '"t_us":5.5').encode(),
        line("air", 0, 5).replace('"t_us":5', '"t_us":null').encode(),
        line("air", 0, 5).replace('"t_us":5', '"t_us":true').encode(),
        line("air", 0, 5).replace('"seq":0', '"seq":"0"').encode(),
        line("air", 0, 5).replace('"source":"air"', '"source":7').encode(),
        line("air", 0, 5).replace('"kind":"station.text"', '"kind":["x"]').encode(),
    ],
    ids=lambda torn: torn[:60].decode(errors="replace"),
)  # fmt: skip
def test_a_foreign_line_is_torn_and_spoils_no_other(tmp_path: Path, torn: bytes) -> None:
    before, after = line("air", 0, 5).encode(), line("air", 1, 6).encode()
    reading = read(write(tmp_path, air=b"\n".join([before, torn, after]) + b"\n"))
    assert [event["seq"] for event in reading.events] == [0, 1]
    assert (reading.torn_lines, reading.torn) == (1, ["air"])


def test_a_blank_line_is_no_line(tmp_path: Path) -> None:
    reading = read(write(tmp_path, air=f"\n{WHOLE}\n \n\r\n"))
    assert (len(reading.events), reading.torn_lines) == (1, 0)


def test_unknown_kinds_and_fields_are_kept(tmp_path: Path) -> None:
    [event] = read(write(tmp_path, air=line("air", 0, 1, "kind.of.tomorrow", more=[1]))).events
    assert (event["kind"], event["more"]) == ("kind.of.tomorrow", [1])


def case_line(kind: str, case: str, t_us: int) -> Event:
    return {"kind": f"case.{kind}", "case": case, "t_us": t_us}


def at(*times_us: int) -> list[Event]:
    return [{"kind": "station.text", "t_us": t_us} for t_us in times_us]


def times(events: list[Event]) -> list[list[int]]:
    return [[event["t_us"] for event in case] for case in cases(events)]


def test_each_case_has_what_lies_between_its_begin_and_its_end() -> None:
    events = [
        *at(1), case_line("begin", "a", 10), *at(10, 15), case_line("end", "a", 20), *at(20, 25),
        case_line("begin", "b", 30), case_line("end", "b", 40), *at(41),
    ]  # fmt: skip
    assert times(events) == [[10, 10, 15, 20, 20], [30, 40]]


def test_the_case_in_which_a_run_was_killed_has_all_that_follows() -> None:
    events = [case_line("begin", "a", 10), *at(15, 99)]
    assert times(events) == [[10, 15, 99]]


def test_a_case_that_lost_its_end_lasts_until_the_next_begins() -> None:
    events = [
        case_line("begin", "a", 10), *at(15), case_line("begin", "b", 30), *at(31),
        case_line("end", "b", 40),
    ]  # fmt: skip
    assert times(events) == [[10, 15], [30, 31, 40]]


def test_an_end_that_lost_its_begin_is_no_case() -> None:
    events = [
        *at(15), case_line("end", "a", 20), case_line("begin", "b", 30), case_line("end", "b", 40),
    ]  # fmt: skip
    assert times(events) == [[30, 40]]


def test_no_case_at_all() -> None:
    assert times([]) == []
    assert times(at(1, 2)) == []


def named(case: str, *times_us: int) -> list[Event]:
    return [{"kind": "station.text", "t_us": t_us, "case": case} for t_us in times_us]


def test_cases_side_by_side_have_what_names_them() -> None:
    events = [
        case_line("begin", "a", 10), *named("a", 12), case_line("begin", "b", 20),
        *named("b", 21), *named("a", 22), *at(23), case_line("end", "a", 30), *at(31),
        *named("a", 32), case_line("end", "b", 40), *named("nobody", 41),
    ]  # fmt: skip
    # 23 is anybody's; 31 can only be of the second; 32 says itself whose it is.
    assert times(events) == [[10, 12, 22, 30, 32], [20, 21, 31, 40]]


def test_a_stall_of_the_host_is_of_every_case_that_was_open() -> None:
    stall: Event = {"kind": "host.stalled", "t_us": 25, "late_us": 100}
    events = [
        case_line("begin", "a", 10), case_line("begin", "b", 20), stall, case_line("end", "a", 30),
        case_line("begin", "c", 30), case_line("end", "b", 40), case_line("end", "c", 41),
    ]  # fmt: skip
    assert times(events) == [[10, 25, 30], [20, 25, 40], [30, 41]]


def test_a_scenario_that_was_left_out_is_no_case() -> None:
    assert times([{"kind": "case.left_out", "case": "a", "t_us": 10}]) == []


def pack(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return packed


def test_a_compressed_capture_says_the_same(tmp_path: Path) -> None:
    folder = write(tmp_path, air=f"{WHOLE}\ntorn\n", bench=line("bench", 0, 1) + "\n")
    before = read(folder)
    for path in list(folder.glob("*.jsonl")):
        pack(path)
        path.unlink()
    assert read(folder) == before
    assert before.torn == ["air"]


def test_a_stream_that_was_being_compressed_is_read_once(tmp_path: Path) -> None:
    folder = write(tmp_path, air=WHOLE + "\n")
    pack(folder / "air.jsonl").write_bytes(b"not whole")
    assert capture_files(folder) == [folder / "air.jsonl"]
    assert len(read(folder).events) == 1


def test_streams_come_by_name_whichever_form_they_have(tmp_path: Path) -> None:
    folder = write(tmp_path, air="", bench="", west="")
    for name in ("air", "west"):
        pack(folder / f"{name}.jsonl")
        (folder / f"{name}.jsonl").unlink()
    found = [path.name for path in capture_files(folder)]
    assert found == ["air.jsonl.gz", "bench.jsonl", "west.jsonl.gz"]
    assert [stream(path) for path in capture_files(folder, "b*")] == ["bench"]


def test_the_lines_of_a_file_are_found_where_it_was_compressed(tmp_path: Path) -> None:
    folder = write(tmp_path, bench=f"{WHOLE}\n\n")
    packed = pack(folder / "bench.jsonl")
    (folder / "bench.jsonl").unlink()
    assert [one.strip() for one in lines(folder / "bench.jsonl")] == [WHOLE.encode()]
    assert list(lines(packed)) == list(lines(folder / "bench.jsonl"))


def test_a_damaged_compressed_capture_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, air=WHOLE * 100)
    packed = pack(folder / "air.jsonl")
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(OSError, match=r"air\.jsonl\.gz: this compressed capture is damaged"):
        list(lines(packed))


@pytest.mark.timeout(20)
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "air.jsonl")
    (tmp_path / "tap.jsonl").mkdir()
    for name in ("air.jsonl", "tap.jsonl"):
        assert list(lines(tmp_path / name)) == []
        with pytest.raises(OSError, match=rf"{name}: this is not a file"):
            content(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        content(tmp_path / "lns-a.jsonl")


def test_what_cannot_be_read_to_its_end_is_not_readable(tmp_path: Path) -> None:
    folder = write(tmp_path, air=WHOLE, tap=WHOLE)
    assert is_readable(folder / "air.jsonl")
    packed = pack(folder / "air.jsonl")
    assert is_readable(packed)
    packed.write_bytes(packed.read_bytes()[:-9])
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    unreadable = ["air.jsonl.gz", "loop.jsonl", "nothing.jsonl", "pipe.jsonl"]
    assert [is_readable(folder / name) for name in unreadable] == [False] * 4


def test_lines_are_handed_over_once_each_and_whole(tmp_path: Path) -> None:
    path, taken = tmp_path / "lns-a.jsonl", list[Event]()
    collector = CaptureFollower(path, taken.append)
    collector.read()
    assert not taken
    with path.open("w") as file:
        file.write(json.dumps({"seq": 0}) + "\n" + '{"seq"')
        file.flush()
        collector.read()
        assert taken == [{"seq": 0}]
        file.write(": 1}\n")
    collector.read()
    collector.read()
    assert taken == [{"seq": 0}, {"seq": 1}]
    assert collector.torn == 0


def test_a_line_torn_by_a_kill_is_counted_and_the_next_one_read(tmp_path: Path) -> None:
    path, taken = tmp_path / "lns-a.jsonl", list[Event]()
    collector = CaptureFollower(path, taken.append)
    path.write_text('{"seq": 0}\n{"se\n{"seq": 2}\n')
    collector.read()
    assert [event["seq"] for event in taken] == [0, 2]
    assert collector.torn == 1
