"""Whole captures, written by hand: what score.json and the lake say about them."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.capture.reading import cases, read
from bench.chance import stream
from bench.expectation import judge
from bench.score.job import score
from tests.bench.score.conftest import Line
from tests.bench.score.frames import DataFrame

pytestmark = pytest.mark.spark

WEST, EAST = "B827EBFFFE000001", "B827EBFFFE000002"
ALPHA = "70B3D57ED0000001"
ADDRESS = "01ABCDEF"
WORDS = ("status", "upstream", "reason", "answer")

WriteRun = Callable[..., Path]
Case = list[Line]


def uplink(f_cnt: int = 10, confirmed: bool = True) -> DataFrame:
    return DataFrame(ADDRESS, f_cnt, confirmed)


def case(name: str, start_us: int, middle: Case, **begin: object) -> Case:
    """A case with one confirmed uplink of a device under Drop, heard by two stations, all well."""
    begins = {"case": name, "scenario": "test_copies", "file": "scenarios/test_copies.py",
              "title": "Copies are dropped.", "strategy": "Drop", "confirmed": True,
              "rig": "simulated", "group": "multi_concentrator", "params": {}, **begin}  # fmt: skip
    device = {"case": name, "dev_eui": ALPHA, "name": "alpha", "activation": "abp",
              "strategy": "Drop", "relaxed_f_cnt": False, "f_cnt_bits": 32, "nb_trans": 1,
              "f_cnt_up": 9, "lorawan": "1.0.4"}  # fmt: skip
    lns = {"case": name, "lns": "lns-a", "retention_us": 60_000_000, "region": "EU868"}
    head: Case = [
        ("bench", 0, "case.begin", begins),
        ("bench", 0, "case.device", device),
        ("bench", 0, "case.station", {"case": name, "eui": WEST, "name": "west"}),
        ("bench", 0, "case.station", {"case": name, "eui": EAST, "name": "east"}),
        ("bench", 0, "case.lns", {**lns, "event": "start"}),
    ]
    tail: Case = [("bench", 900, "case.end", {"case": name, "verdict": "PASS", "reasons": []})]
    moved = [(s, start_us + t, kind, fields) for s, t, kind, fields in [*head, *middle, *tail]]
    return moved


def sent(t_us: int, frame: DataFrame) -> Line:
    return ("air", t_us, "radio.transmit",
            {"transmission": 1, "direction": "up", "sender": ALPHA, "dev_eui": ALPHA, "session": 0,
             "f_cnt": frame.f_cnt, "frame_id": frame.frame_id, "genuine": True, "origin": "device",
             "phy": frame.phy})  # fmt: skip


def heard(t_us: int, station: str, frame: DataFrame, xtime: int) -> Line:
    fields = {"station": station, "direction": "up", "text": frame.text(xtime)}
    return f"tap-{station}", t_us, "station.text", fields


def told(t_us: int, station: str, frame: DataFrame, xtime: int, words: str) -> Line:
    found = {
        "station": station, "lns": "lns-a", "frame_id": frame.frame_id, "dev_eui": ALPHA,
        "dev_addr": ADDRESS, "f_cnt": frame.f_cnt, "mic": frame.mic, "confirmed": frame.confirmed,
        "strategy": "Drop", **dict(zip(WORDS, words.split(), strict=True)), "level2": "NotAsked",
        "xtime": xtime,
    }  # fmt: skip
    present = {name: value for name, value in found.items() if value != "-"}
    return "lns-a", t_us, "lns.outcome", present


def due(name: str, station: str, frame: DataFrame, n: int, words: str) -> Line:
    row = dict(zip(WORDS, words.split(), strict=True))
    return ("bench", 800, "case.expect",
            {"case": name, "expect": "outcome", "frame_id": frame.frame_id, "n": n,
             "station": station, **row})  # fmt: skip


def published(t_us: int, frame: DataFrame, station: str, **more: object) -> Line:
    body = {"messageId": f"{ALPHA}-{ADDRESS}-{frame.f_cnt}", "devEui": ALPHA, "devAddr": ADDRESS,
            "station": station, "fCnt": frame.f_cnt, **more}  # fmt: skip
    return "upstream", t_us, "upstream.published", {"topic": "lorawan/lns-a/x/up", "body": body}


def answered(t_us: int, station: str, frame: DataFrame, xtime: int, f_cnt_down: int) -> Case:
    downlink = {"stage": "scheduled", "lns": "lns-a", "station": station, "dev_eui": ALPHA,
                "dev_addr": ADDRESS, "diid": 1, "window": "RX1", "xtime": xtime,
                "f_cnt_down": f_cnt_down, "frame_id": frame.frame_id}  # fmt: skip
    text = (
        '{"msgtype":"dnmsg","DevEui":"70-B3-D5-7E-D0-00-00-01","dC":0,"diid":1,'
        '"pdu":"60010000008001000312345678","RxDelay":1,"priority":0,"xtime":%d,"rctx":0,'
        '"MuxTime":1795191219.8,"RX1DR":5,"RX1Freq":868100000,"RX2DR":0,"RX2Freq":869525000}'
    ) % xtime
    return [
        ("lns-a", t_us, "lns.downlink", downlink),
        (f"tap-{station}", t_us, "station.text",
         {"station": station, "direction": "down", "text": text}),
    ]  # fmt: skip


FIRST = "NonDuplicate forwarded - RX1"
COPY = "Duplicate dropped Duplicate Suppressed"
UP = uplink()


def good(name: str = "good") -> Case:
    return [
        sent(100, UP),
        heard(200, WEST, UP, 11), told(200, WEST, UP, 11, FIRST), published(200, UP, WEST),
        *answered(210, WEST, UP, 11, 0),
        heard(300, EAST, UP, 22), told(300, EAST, UP, 22, COPY),
        ("device-alpha", 400, "device.line", {"dev_eui": ALPHA, "text": "+EVT:SEND_CONFIRMED_OK"}),
        due(name, WEST, UP, 0, FIRST), due(name, EAST, UP, 1, COPY),
        ("bench", 800, "case.expect", {"case": name, "expect": "device", "dev_eui": ALPHA,
                                       "line": "+EVT:SEND_CONFIRMED_OK"}),
    ]  # fmt: skip


def without(name: str, *places: int) -> Case:
    return [line for place, line in enumerate(good(name)) if place not in places]


def scored(folder: Path, tmp_path: Path, *others: Path) -> dict[str, Any]:
    return score([folder, *others], lake=tmp_path / "lake")[folder.name]


def python_verdicts(folder: Path) -> dict[str, tuple[str, str | None]]:
    verdicts = {}
    for events in cases(read(folder).events):
        name = next(event["case"] for event in events if event["kind"] == "case.begin")
        verdict = judge(events)
        verdicts[name] = str(verdict.result), verdict.owner
    return verdicts


def test_every_kind_of_verdict_and_the_same_in_plain_python(
    spark: SparkSession, write_run: WriteRun, tmp_path: Path
) -> None:
    f_cnt_twice = answered(220, WEST, UP, 11, 0)
    middles: dict[str, Case] = {
        "good": good("good"),
        "wrong_word": [
            line if place != 7 else told(300, EAST, UP, 22, "SoftDuplicate marked - Suppressed")
            for place, line in enumerate(good("wrong_word"))
        ],
        "no_outcome": without("no_outcome", 7),
        "outcome_of_nothing": [*good("outcome_of_nothing"), told(310, EAST, UP, 33, COPY)],
        "not_published": without("not_published", 3),
        "published_twice": [*good("published_twice"), published(230, UP, WEST)],
        "not_delivered": without("not_delivered", 6, 7),
        "too_many": [*good("too_many"), heard(320, EAST, UP, 44), told(320, EAST, UP, 44, COPY)],
        "silent_device": without("silent_device", 8),
        "not_answered": without("not_answered", 4, 5),
        "counter_twice": [*good("counter_twice"), *f_cnt_twice],
        "nobody_sent": without("nobody_sent", 0),
        "nothing_due": without("nothing_due", 9, 10, 11),
    }
    lines: Case = []
    for number, (name, middle) in enumerate(middles.items()):
        ordered = sorted(middle, key=lambda line: line[1])
        lines += case(name, number * 1_000_000, ordered)
    broken = {"case": "broken", "verdict": "ERROR", "reasons": ["no board on the port"]}
    lines += case("broken", 50_000_000, [])[:-1] + [("bench", 50_000_900, "case.end", broken)]
    folder = write_run(lines)
    found = scored(folder, tmp_path)
    verdicts = {row["case"]: (row["verdict"], row["owner"]) for row in found["verdicts"]}
    assert verdicts == {
        "good": ("PASS", None),
        "wrong_word": ("FAIL", "LNS"),
        "no_outcome": ("FAIL", "LNS"),
        "outcome_of_nothing": ("FAIL", "LNS"),
        "not_published": ("FAIL", "LNS"),
        "published_twice": ("FAIL", "LNS"),
        "not_delivered": ("INCONCLUSIVE", "air"),
        "too_many": ("INCONCLUSIVE", "air"),
        "silent_device": ("FAIL", "device"),
        "not_answered": ("FAIL", "LNS"),
        "counter_twice": ("FAIL", "LNS"),
        "nobody_sent": ("FAIL", "LNS"),
        "nothing_due": ("ERROR", "bench"),
        "broken": ("ERROR", "bench"),
    }
    assert verdicts == python_verdicts(folder)
    assert found["totals"] == {"PASS": 1, "FAIL": 9, "INCONCLUSIVE": 2, "ERROR": 2}
    reasons = {row["case"]: row["reasons"] for row in found["verdicts"]}
    assert reasons["not_delivered"] == [f"{UP.frame_id} #1: east was to hear it, nobody did"]
    assert reasons["broken"] == ["no board on the port"]
    assert json.loads((folder / "score.json").read_text("utf-8")) == found


def test_a_good_run_in_full(spark: SparkSession, write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run(case("good", 0, good()))
    found = scored(folder, tmp_path)
    assert found["findings"] == []
    assert found["counts"] == {
        "lines": 18, "torn_lines": 0, "receptions": 2, "outcomes": 2, "transmissions": 1,
        "evicted": 0, "deliveries": 1,
    }  # fmt: skip
    assert found["confusion"] == [
        {"expected": "Duplicate", "observed": "Duplicate", "count": 1},
        {"expected": "NonDuplicate", "observed": "NonDuplicate", "count": 1},
    ]
    agreement = found["oracle_agreement"]
    assert agreement == {
        "receptions": 2, "status_agree": 2, "disposition_agree": 2, "unknowable": {},
    }  # fmt: skip
    assert found["answers"] == [
        {"strategy": "Drop", "confirmed": True, "answer": "RX1", "count": 1},
        {"strategy": "Drop", "confirmed": True, "answer": "Suppressed", "count": 1},
    ]
    assert (found["run"], found["run_id"], found["seed"]) == (folder.name, "r1", 1)


def test_a_torn_capture_still_scores(
    spark: SparkSession, write_run: WriteRun, tmp_path: Path
) -> None:
    folder = write_run(case("good", 0, good()))
    with (folder / "tap-B827EBFFFE000001.jsonl").open("a") as file:
        file.write('{"schema":1,"run_id":"r1","sour')
    air = folder / "air.jsonl"
    air.write_text("\x00\x00garbage\n" + air.read_text().replace('"seq":0', '"seq":1'))
    found = scored(folder, tmp_path)
    assert found["counts"]["torn_lines"] == 2
    assert found["totals"]["PASS"] == 1
    assert [(row["owner"], row["rule"]) for row in found["findings"]] == [("bench", "torn lines")]


def test_a_line_that_is_simply_missing_fails_the_case(
    spark: SparkSession, write_run: WriteRun, tmp_path: Path
) -> None:
    folder = write_run(case("good", 0, good()))
    air = folder / "air.jsonl"
    air.write_text(air.read_text().replace('"seq":0', '"seq":1'))
    [verdict] = scored(folder, tmp_path)["verdicts"]
    assert (verdict["verdict"], verdict["owner"]) == ("FAIL", "bench")


def test_two_runs_at_once_and_one_of_them_again(
    spark: SparkSession, write_run: WriteRun, tmp_path: Path
) -> None:
    bad = sorted(without("case", 7), key=lambda line: line[1])
    first = write_run(case("case", 0, good("case")), "20261120T020003Z-7f3a")
    second = write_run(case("case", 0, bad), "20261121T020003Z-7f3a")
    both = score([first, second], lake=tmp_path / "lake")
    assert [both[folder.name]["totals"]["PASS"] for folder in (first, second)] == [1, 0]
    assert _rows(spark, tmp_path, "findings") == {("2026-11-21", second.name)}
    (second / "lns-a.jsonl").write_bytes((first / "lns-a.jsonl").read_bytes())
    assert scored(second, tmp_path)["totals"]["PASS"] == 1
    assert _rows(spark, tmp_path, "findings") == set()
    runs = {("2026-11-20", first.name), ("2026-11-21", second.name)}
    for table in ("receptions", "outcomes", "expectations", "scores", "answers", "verdicts"):
        assert _rows(spark, tmp_path, table) == runs
    row = spark.read.parquet(str(tmp_path / "lake/receptions")).orderBy("run", "t_us").first()
    assert row is not None
    assert (row["dev_eui"], row["dev_eui_no"]) == (ALPHA, 0x70B3D57ED0000001)


def test_the_verdicts_equal_plain_python_on_random_damage(
    spark: SparkSession, write_run: WriteRun, tmp_path: Path
) -> None:
    lines: Case = []
    for number in range(60):
        name = f"case-{number}"
        damaged = _damaged(good(name), stream(11, name))
        lines += case(name, number * 1_000_000, damaged)
    folder = write_run(lines)
    found = scored(folder, tmp_path)
    observed = {row["case"]: (row["verdict"], row["owner"]) for row in found["verdicts"]}
    assert observed == python_verdicts(folder)
    assert {verdict for verdict, _ in observed.values()} >= {"PASS", "FAIL", "INCONCLUSIVE"}


def test_a_folder_without_a_capture_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no capture"):
        score([tmp_path / "empty"], lake=tmp_path / "lake")


def test_two_folders_of_one_name_are_told(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run(case("good", 0, good()))
    other = tmp_path / "elsewhere" / folder.name
    other.mkdir(parents=True)
    (other / "bench.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="same name"):
        score([folder, other], lake=tmp_path / "lake")


def _damaged(middle: Case, chance: random.Random) -> Case:
    for _ in range(chance.choice((0, 1, 1, 2))):
        place = chance.randrange(len(middle))
        line = middle[place]
        match chance.choice(("lose", "repeat", "move")):
            case "lose":
                middle = middle[:place] + middle[place + 1 :]
            case "repeat":
                middle = [*middle[: place + 1], (line[0], line[1] + 1, *line[2:]), *middle[place + 1 :]]
            case "move":
                later = (line[0], line[1] + 150, *line[2:])
                middle = [*middle[:place], later, *middle[place + 1 :]]
    return sorted(middle, key=lambda line: line[1])


def _rows(spark: SparkSession, tmp_path: Path, table: str) -> set[tuple[str, str]]:
    rows = spark.read.parquet(str(tmp_path / "lake" / table)).select("night", "run").collect()
    return {(str(row["night"]), row["run"]) for row in rows}
