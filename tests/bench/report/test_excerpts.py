import gzip
import json
from pathlib import Path

import pytest

from bench.report.excerpts import Window, excerpts, nearest, read_events, shown, shown_arguments

AIR = """{"source":"air","seq":0,"t_us":5,"kind":"radio.transmit"}
{"source":"air","seq":1,"t_us":30,"kind":"radio.transmit"}
[1, 2]
{"source":"air","seq":2,"t_us":"40","kind":"radio.transmit"}
{"source":"air","seq":3,"t_u"""
LNS = """{"source":"lns-a","seq":0,"t_us":5,"kind":"lns.outcome"}
\xff\xfe
{"source":"lns-a","seq":1,"t_us":20,"kind":"lns.outcome"}
"""


def captured(folder: Path) -> Path:
    (folder / "air.jsonl").write_text(AIR, "utf-8")
    (folder / "lns-a.jsonl").write_bytes(LNS.encode("latin-1"))
    return folder


def places(events) -> list[tuple[str, int]]:
    return [(event["source"], event["seq"]) for event in events]


def test_events_are_sorted_by_time_and_torn_lines_passed_over(tmp_path: Path) -> None:
    events = read_events(captured(tmp_path))
    assert places(events) == [("air", 0), ("lns-a", 0), ("lns-a", 1), ("air", 1)]


def test_of_a_damaged_capture_what_comes_before_the_damage_is_read(tmp_path: Path) -> None:
    lines = [json.dumps({"t_us": at, "source": "air", "seq": at}) for at in range(50_000)]
    packed = gzip.compress("\n".join(lines).encode())
    (tmp_path / "air.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "tap.jsonl.gz").write_bytes(b"no archive")
    read = [one["t_us"] for one in read_events(tmp_path)]
    assert 0 < len(read) < len(lines)
    assert read == list(range(len(read)))


def test_only_the_lines_of_the_windows_are_read(tmp_path: Path) -> None:
    windows = [Window("a", 6, 20), Window("b", 15, 25), Window("c", 30, 30)]
    assert places(read_events(captured(tmp_path), windows)) == [("lns-a", 1), ("air", 1)]


def test_a_window_has_both_its_ends(tmp_path: Path) -> None:
    found = excerpts(captured(tmp_path), [Window("a", 5, 20), Window("none", 0, -1)], {})
    assert places(found["a"].events) == [("air", 0), ("lns-a", 0), ("lns-a", 1)]
    assert found["none"].events == ()


def test_a_folder_without_captures_has_no_events(tmp_path: Path) -> None:
    assert list(read_events(tmp_path)) == []


def test_one_instant_reads_in_the_order_of_causes(tmp_path: Path) -> None:
    for source, kind in (
        ("upstream", "upstream.published"),
        ("tap-1", "station.text"),
        ("bench", "case.end"),
        ("air", "radio.transmit"),
        ("lns-a", "lns.outcome"),
        ("device-alpha", "device.command"),
    ):
        line = f'{{"source":"{source}","seq":0,"t_us":5,"kind":"{kind}"}}\n'
        (tmp_path / f"{source}.jsonl").write_text(line)
    assert [event["source"] for event in read_events(tmp_path)] == [
        "device-alpha",
        "air",
        "tap-1",
        "lns-a",
        "upstream",
        "bench",
    ]


def test_the_lines_nearest_to_the_findings_are_kept_and_the_gaps_counted() -> None:
    events = [{"t_us": t_us} for t_us in range(10)]
    excerpt = nearest(events, [8, 1], 4)
    assert [event["t_us"] for event in excerpt.events] == [0, 1, 2, 8]
    assert excerpt.left_out == 6
    assert excerpt.gaps == {3: 5}


def test_a_time_inside_a_text_is_not_the_time_of_the_line(tmp_path: Path) -> None:
    line = '{"source":"tap-1","seq":0,"t_us":5,"kind":"station.text","text":"{\\"t_us\\":99}"}\n'
    (tmp_path / "tap-1.jsonl").write_text(line)
    assert list(read_events(tmp_path, [Window("a", 99, 99)])) == []


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a frame", "a frame"),
        ("AT+APPKEY=00112233445566778899AABBCCDDEEFF", "AT+APPKEY=****"),
        ("AT+NWKSKEY=?secret?", "AT+NWKSKEY=****"),
        ('AT+KEY=APPKEY,"00112233"', "AT+KEY=APPKEY,****"),
        ('{"app_key": "00ff", "x": 1}', '{"app_key": ****, "x": 1}'),
        ("key 00112233445566778899aabbccddeeff.", "key ****."),
        ("00 11 22 33 44 55 66 77 88 99 AA BB CC DD EE FF", "****"),
        ("mqtt://anna:hunter2@host/1", "mqtt://****@host/1"),
        ("70B3D57ED0000001", "70B3D57ED0000001"),
        ("4f1c2d9e0aa17b30c0de4f1c2d9e0aa17b30c0de", "4f1c2d9e0aa17b30c0de4f1c2d9e0aa17b30c0de"),
        ("a\x00b\x1bc", "a␀b␛c"),
        ("a\u202eb\ud800c", "a�b�c"),
    ],
)
def test_what_is_printed_of_a_text(text: str, printed: str) -> None:
    assert shown(text) == printed


def test_a_long_text_is_cut() -> None:
    assert shown("x" * 1000, 10) == "xxxxxxxxx…"


def test_the_value_of_a_secret_flag_is_masked() -> None:
    assert shown_arguments(["run", "--app-key", "00FF", "--seed", "7"]) == [
        "run",
        "--app-key",
        "****",
        "--seed",
        "7",
    ]
