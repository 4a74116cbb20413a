"""Whole captures, written by hand: what score.json and the lake say about them."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from bench.chance import stream
from bench.night.record import exit_code
from bench.score.job import score
from bench.score.read import STALL_US_MAX, lines
from bench.verdict.case import HOST_STALL_MAX_US, judge
from bench.verdict.owner import GONE, NO_PROTOCOL, SURE_STALL_MAX_US
from tests.bench.score.conftest import TABLES, Line, Rescored, Scored, captures, write_run
from tests.bench.score.frames import DataFrame
from tests.reading import cases, read

pytestmark = pytest.mark.spark

# Planning and starting them is what a small score waits for: a table more is worth a thought.
JOBS_MAX, STAGES_MAX = 58, 71

WEST, EAST = "B827EBFFFE000001", "B827EBFFFE000002"
ALPHA = "70B3D57ED0000001"
ADDRESS = "01ABCDEF"
WORDS = ("status", "upstream", "reason", "answer")

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
        '"pdu":"6001000000A001000312345678","RxDelay":1,"priority":0,"xtime":XTIME,"rctx":0,'
        '"MuxTime":1795191219.8,"RX1DR":5,"RX1Freq":868100000,"RX2DR":0,"RX2Freq":869525000}'
    ).replace("XTIME", str(xtime))
    return [
        ("lns-a", t_us, "lns.downlink", downlink),
        (f"tap-{station}", t_us, "station.text",
         {"station": station, "direction": "down", "text": text}),
    ]  # fmt: skip


def body(name: str, **fields: object) -> Line:
    which = {"dev_eui": ALPHA, "f_cnt": 10, "station": WEST}
    return (
        "bench",
        800,
        "case.expect",
        {"case": name, "expect": "upstream", **which, "body": fields},
    )


def on_air(name: str, windows: list[str]) -> Line:
    which = {"frame_id": uplink().frame_id, "windows": windows}
    return "bench", 800, "case.expect", {"case": name, "expect": "on_air", **which}


def answer(name: str, n: int = 0, **said: object) -> Line:
    which = {"frame_id": uplink().frame_id, "n": n, "body": said}
    return "bench", 800, "case.expect", {"case": name, "expect": "answer", **which}


def says(name: str, port: int) -> Line:
    line = f"+EVT:RX_1:UNICAST:{port}:01"
    due = {"case": name, "expect": "device", "dev_eui": ALPHA, "line": line}
    return "bench", 810, "case.expect", due


def evictions(name: str, count: int, *told_at_us: int) -> Case:
    due = ("bench", 800, "case.expect", {"case": name, "expect": "evicted", "count": count})
    told = {"lns": "lns-a", "key": "K", "silent_us": 1}
    return [due, *(("lns-a", at_us, "lns.evicted", told) for at_us in told_at_us)]


def status_due(name: str, count: int) -> Line:
    facts = {"case": name, "expect": "status", "dev_eui": ALPHA, "count": count}
    return "bench", 800, "case.expect", facts


def status_told(*f_cnts: int) -> Case:
    topic = f"lorawan/lns-a/{ALPHA}/status"
    return [
        ("upstream", 500, "upstream.status",
         {"topic": topic, "body": {"messageId": f"{ALPHA}-01ABCDEF-{f_cnt}-status",
                                   "devEui": ALPHA, "battery": 254, "margin": 7}})
        for f_cnt in f_cnts
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


def python_verdicts(folder: Path) -> dict[str, tuple[str, str | None]]:
    verdicts = {}
    written = read(folder).events
    for events in cases(written):
        name = next(event["case"] for event in events if event["kind"] == "case.begin")
        verdict = judge(events)
        verdicts[name] = str(verdict.result), verdict.owner
    return verdicts


def _every_verdict() -> Case:
    f_cnt_twice = answered(220, WEST, UP, 11, 0)
    other = told(300, EAST, UP, 22, "SoftDuplicate marked - Suppressed")
    middles: dict[str, Case] = {
        "good": good("good"),
        "wrong_word": [
            line if place != 7 else other for place, line in enumerate(good("wrong_word"))
        ],
        "no_outcome": without("no_outcome", 7),
        "outcome_of_nothing": [*good("outcome_of_nothing"), told(310, EAST, UP, 33, COPY)],
        "not_published": without("not_published", 3),
        "published_twice": [*good("published_twice"), published(230, UP, WEST)],
        "not_delivered": without("not_delivered", 6, 7),
        "too_many": [*good("too_many"), heard(320, EAST, UP, 44), told(320, EAST, UP, 44, COPY)],
        "silent_device": without("silent_device", 8),
        "not_acknowledged": [
            (*line[:3], {**line[3], "text": str(line[3]["text"]).replace("A001", "8001")})
            if line[3].get("direction") == "down" else line
            for line in without("not_acknowledged", 8)
        ],
        "silent_of_its_port": [*good("silent_of_its_port"), says("silent_of_its_port", 3)],
        "silent_of_no_port": [*good("silent_of_no_port"), says("silent_of_no_port", 9)],
        "not_answered": without("not_answered", 4, 5),
        "counter_twice": [*good("counter_twice"), *f_cnt_twice],
        "nobody_sent": without("nobody_sent", 0),
        "nothing_due": without("nothing_due", 9, 10, 11),
        "wrong_body": [*good("wrong_body"), body("wrong_body", dupMsg=True)],
        "right_body": [*good("right_body"), body("right_body", fCnt=10, dupMsg=None)],
        "wrong_window": [*good("wrong_window"), on_air("wrong_window", ["RX2"])],
        "no_window": [*good("no_window"), on_air("no_window", [])],
        "right_answer": [*good("right_answer"), answer("right_answer", rx_delay_s=1, rctx=0,
                         rx1_dr=5, f_cnt=1, f_port=3, ack=True, f_pending=False, confirmed=False)],
        "wrong_answer": [*good("wrong_answer"), answer("wrong_answer", rx2_dr=3, rctx=1)],
        "no_second_answer": [*good("no_second_answer"), answer("no_second_answer", 1, rctx=0)],
        "right_evictions": [*good("right_evictions"), *evictions("right_evictions", 2, 310, 320)],
        "wrong_evictions": [*good("wrong_evictions"), *evictions("wrong_evictions", 1)],
        "right_status": [*good("right_status"), status_due("right_status", 1), *status_told(1)],
        "status_brought_twice": [*good("status_brought_twice"),
                                 status_due("status_brought_twice", 1), *status_told(1, 1)],
        "wrong_status": [*good("wrong_status"), status_due("wrong_status", 1), *status_told(1, 2)],
        "no_status": [*good("no_status"), status_due("no_status", 1)],
        "cannot_answer": [*good("cannot_answer"), too_late(310, 5), too_late(320, 10)],
        "provoked": [*good("provoked"), provokes("provoked"), too_late(310, 5)],
        "not_provoked": [*good("not_provoked"), provokes("not_provoked")],
        "another_provoked": [*good("another_provoked"), provokes("another_provoked", EAST),
                             too_late(310, 5)],
        "provoked_and_stalled": [*good("provoked_and_stalled"), provokes("provoked_and_stalled"),
                                 too_late(310, 5), stall(320, 300_000)],
        "stalled": [*without("stalled", 7), stall(320, 179_600), stall(330, 60_000)],
        "stalled_a_little": [*without("stalled_a_little", 7), stall(320, STALL_US_MAX)],
        "stalled_and_well": [*good("stalled_and_well"), stall(320, 900_000)],
        "stalled_and_nothing_due": [*without("stalled_and_nothing_due", 9, 10, 11),
                                    stall(320, 900_000)],
        "stalled_and_broken": [*without("stalled_and_broken", 7, 9, 10, 11), stall(320, 900_000)],
        "stalled_and_gone": [*without("stalled_and_gone", 7), gone("stalled_and_gone"),
                             stall(320, SURE_STALL_MAX_US)],
        "stalled_and_no_text": [*good("stalled_and_no_text"), stall(320, SURE_STALL_MAX_US),
                                gone("stalled_and_no_text", NO_PROTOCOL)],
        "stalled_for_long": [*good("stalled_for_long"), gone("stalled_for_long"),
                             stall(320, SURE_STALL_MAX_US + 1)],
        "missed": [*good("missed"), missed("missed", "air")],
        "missed_and_wrong": [*without("missed_and_wrong", 7), missed("missed_and_wrong", "device")],
        "missed_and_nothing_due": [*without("missed_and_nothing_due", 9, 10, 11),
                                   missed("missed_and_nothing_due", "air")],
        "missed_and_stalled": [*without("missed_and_stalled", 7), stall(320, 900_000),
                               missed("missed_and_stalled", "air")],
    }  # fmt: skip
    lines: Case = []
    for number, (name, middle) in enumerate(middles.items()):
        lines += case(name, number * 1_000_000, sorted(middle, key=lambda line: line[1]))
    broken = {
        "case": "broken",
        "verdict": "ERROR",
        "reasons": ["no board on the port"],
        "owner": "device",
    }
    end = "bench", 50_000_900, "case.end", broken
    return [*lines, *case("broken", 50_000_000, [])[:-1], end, stall(60_000_000, 70_000)]


def missed(name: str, owner: str) -> Line:
    return "bench", 330, "stimulus.missed", {"case": name, "owner": owner, "reason": "not heard"}


def gone(name: str, rule: str = GONE) -> Line:
    said = {"owner": "LNS", "rule": rule, "text": "ServerSilent: lns-a has sent nothing"}
    return "bench", 310, "case.finding", {"case": name, **said}


def too_late(t_us: int, n: int) -> Line:
    facts = {"lns": "lns-a", "station": WEST, "stage": "going on", "n": n, "cause": "it is late"}
    return "lns-a", t_us, "lns.too_late", facts


def provokes(name: str, station: str = WEST) -> Line:
    due = {"expect": "finding", "owner": "gateway", "rule": "too late", "station": station}
    return "bench", 305, "case.expect", {"case": name, **due}


def stall(t_us: int, late_us: int) -> Line:
    return "bench", t_us, "host.stalled", {"late_us": late_us}


def left_out(name: str, *missing: str) -> Line:
    facts = {"case": name, "scenario": f"test_{name}", "file": "scenarios/test_copies.py",
             "title": "Needs more.", "group": "g", "missing": [*missing]}  # fmt: skip
    return "bench", 0, "case.left_out", facts


def _side_by_side() -> Case:
    """Cases that overlap: the same bytes, station, xtime and LNS in all of them, each its own."""
    lines: Case = [left_out("needs_time", "virtual time"), left_out("needs_both", "b", "a")]
    for number, name in enumerate(("one", "two", "wrong", "restarted")):
        begins, *middle = case(name, number * 40, sorted(good(name), key=lambda line: line[1]))
        if name == "wrong":
            middle = [line for line in middle if line[2] != "upstream.published"]
        if name == "restarted":  # its own network server of the same id, level 1 empty: no copy
            again = {"case": name, "lns": "lns-a", "retention_us": 60_000_000, "event": "restart"}
            middle.append(("bench", number * 40 + 250, "case.lns", again))
        stamped = [(s, t, kind, {"case": name, **fields}) for s, t, kind, fields in middle]
        lines += [begins, *stamped]
    return sorted(lines, key=lambda line: line[1])


def _repeated() -> Case:
    """A case that proved nothing and was played again, and one that was not to be played again."""
    other = told(300, EAST, UP, 22, "SoftDuplicate marked - Suppressed")
    wrong = [line if place != 7 else other for place, line in enumerate(good("wrong"))]
    attempts: list[tuple[str, Case, dict[str, object]]] = [
        ("deaf", without("deaf", 6, 7), {"attempt": 1, "repeated": True}),
        ("deaf (attempt 2)", good("deaf (attempt 2)"), {"attempt": 2}),
        ("wrong", wrong, {"attempt": 1, "repeated": True}),
    ]
    lines: Case = []
    for number, (name, middle, facts) in enumerate(attempts):
        at = number * 1_000_000
        *until_end, _ = case(name, at, sorted(middle, key=lambda line: line[1]))
        end = {"case": name, "verdict": "PASS", "reasons": [], **facts}
        lines += [*until_end, ("bench", at + 900, "case.end", end)]
    return lines


def _cut() -> Case:
    """A run that was killed in its second case, before the network server had said anything."""
    second = case("second", 1_000_000, good("second"))
    return [*case("first", 0, good("first")), *second[:7]]


def _random_damage() -> Case:
    lines: Case = []
    for number in range(60):
        name = f"case-{number}"
        lines += case(name, number * 1_000_000, _damaged(good(name), stream(11, name)))
    return lines


@captures
def write(root: Path) -> dict[str, Path]:
    well = case("good", 0, good())
    runs = {"good": well, "verdicts": _every_verdict(), "torn": well, "gap": well,
            "damage": _random_damage(), "side by side": _side_by_side(),
            "repeated": _repeated(), "cut": _cut()}  # fmt: skip
    runs["again"] = case("case", 0, sorted(without("case", 7), key=lambda line: line[1]))
    folders = {name: write_run(root / name, lines) for name, lines in runs.items()}
    lns = folders["gap"] / "lns-a.jsonl"
    lns.write_text(lns.read_text().replace('"seq":2', '"seq":3'))
    lns = folders["torn"] / "lns-a.jsonl"
    lns.write_text("\x00\x00garbage\n" + lns.read_text().replace('"seq":2', '"seq":3'))
    with (folders["torn"] / f"tap-{WEST}.jsonl").open("a") as file:
        file.write('{"schema":1,"run_id":"r1","sour')
    return folders


def test_every_kind_of_verdict_and_the_same_in_plain_python(scored: Scored) -> None:
    found = scored.scores["verdicts"]
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
        "not_acknowledged": ("FAIL", "LNS"),
        "silent_of_its_port": ("FAIL", "device"),
        "silent_of_no_port": ("FAIL", "LNS"),
        "not_answered": ("FAIL", "LNS"),
        "counter_twice": ("FAIL", "LNS"),
        "nobody_sent": ("FAIL", "LNS"),
        "nothing_due": ("ERROR", "bench"),
        "wrong_body": ("FAIL", "LNS"),
        "right_body": ("PASS", None),
        "wrong_window": ("FAIL", "gateway"),
        "no_window": ("PASS", None),
        "right_answer": ("PASS", None),
        "right_evictions": ("PASS", None),
        "wrong_evictions": ("FAIL", "LNS"),
        "wrong_answer": ("FAIL", "LNS"),
        "no_second_answer": ("FAIL", "LNS"),
        "right_status": ("PASS", None),
        "status_brought_twice": ("PASS", None),
        "wrong_status": ("FAIL", "LNS"),
        "no_status": ("FAIL", "LNS"),
        "cannot_answer": ("PASS", None),
        "provoked": ("PASS", None),
        "not_provoked": ("FAIL", "bench"),
        "another_provoked": ("FAIL", "bench"),
        "provoked_and_stalled": ("PASS", None),
        "stalled": ("INCONCLUSIVE", "bench"),
        "stalled_a_little": ("FAIL", "LNS"),
        "stalled_and_well": ("PASS", None),
        "stalled_and_nothing_due": ("ERROR", "bench"),
        "stalled_and_broken": ("INCONCLUSIVE", "bench"),
        "stalled_and_gone": ("FAIL", "LNS"),
        "stalled_and_no_text": ("FAIL", "LNS"),
        "stalled_for_long": ("INCONCLUSIVE", "bench"),
        "missed": ("INCONCLUSIVE", "air"),
        "missed_and_wrong": ("INCONCLUSIVE", "device"),
        "missed_and_nothing_due": ("INCONCLUSIVE", "air"),
        "missed_and_stalled": ("INCONCLUSIVE", "air"),
        "broken": ("ERROR", "device"),
    }
    assert verdicts == python_verdicts(scored.folders["verdicts"])
    assert found["totals"] == {"PASS": 11, "FAIL": 24, "INCONCLUSIVE": 9, "ERROR": 3}
    reasons = {row["case"]: row["reasons"] for row in found["verdicts"]}
    assert reasons["not_delivered"] == [f"{UP.frame_id} #1: east was to hear it, nobody did"]
    assert reasons["broken"] == ["no board on the port"]
    assert reasons["missed"] == reasons["missed_and_nothing_due"] == ["not heard"]
    assert reasons["missed_and_wrong"][0] == "not heard"
    assert "host" not in " ".join(reasons["missed_and_stalled"])
    assert reasons["stalled"][0] == "host stalled 180 ms"
    assert len(reasons["stalled"]) > 1
    owners = {row["owner"] for row in found["findings"] if row["case"] == "stalled"}
    assert owners == {"bench"}, "a slow machine is no failing network server"
    assert reasons["stalled_and_gone"] == ["ServerSilent: lns-a has sent nothing"]
    assert found["host"] == {"stalls": 11, "worst_stall_us": SURE_STALL_MAX_US + 1}
    assert STALL_US_MAX == HOST_STALL_MAX_US


def test_cases_side_by_side_are_told_apart(scored: Scored) -> None:
    found = scored.scores["side by side"]
    verdicts = {row["case"]: (row["verdict"], row["owner"]) for row in found["verdicts"]}
    assert verdicts == {
        "one": ("PASS", None), "two": ("PASS", None), "restarted": ("PASS", None),
        "wrong": ("FAIL", "LNS"),
    }  # fmt: skip
    assert verdicts == python_verdicts(scored.folders["side by side"])
    # The oracle knows that the copy at the restarted server was its first one; the others' was not.
    rules = {(row["case"], row["rule"]) for row in found["findings"]}
    assert rules == {
        ("wrong", "forwarded means published"),
        ("wrong", "accepted but never delivered"),
        ("restarted", "oracle status"),
    }
    assert [(row["case"], row["missing"]) for row in found["left_out"]] == [
        ("needs_time", ["virtual time"]),
        ("needs_both", ["b", "a"]),
    ]
    assert found["counts"]["left_out"] == 2


def test_only_the_last_attempt_of_a_case_counts(scored: Scored) -> None:
    found = scored.scores["repeated"]
    verdicts = {row["case"]: (row["verdict"], row["attempt"]) for row in found["verdicts"]}
    # What Spark finds wrong is a failure, whatever the run made of it.
    assert verdicts == {"deaf (attempt 2)": ("PASS", 2), "wrong": ("FAIL", 1)}
    assert {row["case"] for row in found["findings"]} == {"wrong"}
    assert found["counts"]["repeated"] == 1


def test_the_margin_of_an_answer_is_measured_from_the_end_of_its_uplink(scored: Scored) -> None:
    [margins] = scored.scores["good"]["margins"]
    # Heard at the tap at 200 µs, answered there at 210 µs; nothing tells when the frame ended.
    margin = dict.fromkeys(("min_us", "p1_us", "p50_us", "p99_us"), 999_990)
    later = dict.fromkeys(margin, 1_999_990)
    assert margins == {
        "kind": "data", "answers": 1, "disturbed": 0, "late": 0, "late_for_rx1": 0, "from_air": 0,
        "rx1": margin, "rx2": later, "rx1_ms": [[999, 1]],
        "consumed": dict.fromkeys(("p50_us", "p95_us", "p99_us", "max_us"), 10),
    }  # fmt: skip


def test_a_margin_says_nothing_where_the_host_stalled_meanwhile(scored: Scored) -> None:
    query = """
        SELECT "case", disturbed, aimed, usable, measured_from
        FROM read_parquet(?, hive_partitioning = true) WHERE run = ? AND "case" IN (?, ?)
    """
    files, run = str(scored.lake / "margins" / "*" / "*" / "*.parquet"), scored.folders["verdicts"]
    rows = duckdb.execute(query, [files, run.name, "good", "stalled_and_well"]).fetchall()
    assert sorted(rows) == [
        ("good", False, "RX1", "RX1", "tap"),
        ("stalled_and_well", True, "RX1", "RX1", "tap"),
    ]


def test_what_a_scenario_has_provoked_is_not_to_be_read(scored: Scored) -> None:
    found = scored.scores["verdicts"]
    mine = {"provoked", "not_provoked", "another_provoked", "provoked_and_stalled"}
    assert [(row["case"], row["owner"], row["rule"]) for row in found["provoked"]] == [
        ("provoked", "gateway", "too late"),
        ("provoked_and_stalled", "gateway", "too late"),
    ]
    rows = [row for row in found["findings"] if row["case"] in mine]
    assert sorted((row["case"], row["owner"], row["rule"]) for row in rows) == [
        ("another_provoked", "bench", "provoked"),
        ("another_provoked", "gateway", "too late"),
        ("not_provoked", "bench", "provoked"),
    ]


def test_a_station_that_cannot_answer_is_a_finding_of_its_gateway(scored: Scored) -> None:
    found = scored.scores["verdicts"]["findings"]
    rows = [row for row in found if row["case"] == "cannot_answer"]
    assert [(row["owner"], row["rule"], row["station"], row["n"]) for row in rows] == [
        ("gateway", "too late", WEST, 10)
    ]
    assert rows[0]["text"] == (
        "west cannot answer what it hears first: 10 TooLate in a row, at last because it is late"
    )


def test_every_law_that_is_broken_is_named(scored: Scored) -> None:
    rules = {(row["case"], row["rule"]) for row in scored.scores["verdicts"]["findings"]}
    assert rules >= {
        ("wrong_word", "expectation"),
        ("wrong_word", "oracle status"),
        ("no_outcome", "one outcome per reception"),
        ("outcome_of_nothing", "one outcome per reception"),
        ("not_published", "forwarded means published"),
        ("not_published", "accepted but never delivered"),
        ("published_twice", "forwarded means published"),
        ("not_answered", "one answer per reception"),
        ("counter_twice", "no downlink counter twice"),
        ("nobody_sent", "nothing accepted that nobody sent"),
        ("silent_device", "device line"),
    }


def test_a_good_run_in_full(scored: Scored) -> None:
    found, folder = scored.scores["good"], scored.folders["good"]
    assert found["findings"] == []
    assert found["counts"] == {
        "lines": 18, "torn_lines": 0, "receptions": 2, "outcomes": 2, "transmissions": 1,
        "evicted": 0, "deliveries": 1, "left_out": 0, "repeated": 0,
    }  # fmt: skip
    assert found["confusion"] == [
        {"expected": "Duplicate", "observed": "Duplicate", "count": 1},
        {"expected": "NonDuplicate", "observed": "NonDuplicate", "count": 1},
    ]
    assert found["oracle_agreement"] == {
        "receptions": 2, "status_agree": 2, "disposition_agree": 2, "level2_agree": 2,
        "unknowable": {},
    }  # fmt: skip
    assert found["answers"] == [
        {"strategy": "Drop", "confirmed": True, "answer": "RX1", "count": 1},
        {"strategy": "Drop", "confirmed": True, "answer": "Suppressed", "count": 1},
    ]
    assert (found["left_out"], found["host"]) == ([], {"stalls": 0, "worst_stall_us": 0})
    assert (found["run"], found["run_id"], found["seed"]) == (folder.name, "r1", 1)
    assert found["inconclusive_share_max"] == 0.05
    assert json.loads((folder / "score.json").read_text("utf-8")) == found


@pytest.mark.parametrize("damage", ["torn", "gap"])
def test_a_case_with_holes_is_withheld_and_the_holes_are_the_benchs(
    scored: Scored, damage: str
) -> None:
    found = scored.scores[damage]
    assert found["counts"]["torn_lines"] == (2 if damage == "torn" else 0)
    [verdict] = found["verdicts"]
    assert (verdict["verdict"], verdict["owner"]) == ("ERROR", "bench")
    assert verdict["reasons"] == ["incomplete: the stream lns-a has holes"]
    assert {row["owner"] for row in found["findings"]} == {"bench"}
    rules = {row["rule"] for row in found["findings"]}
    assert rules == {"no gaps in seq", *(["torn lines"] if damage == "torn" else [])}
    assert found["wholeness"]["whole"] is False
    assert exit_code(found) == 12


def test_a_case_that_is_not_whole_takes_no_other_with_it(scored: Scored) -> None:
    found = scored.scores["cut"]
    verdicts = {row["case"]: (row["verdict"], row["owner"]) for row in found["verdicts"]}
    assert verdicts == {"first": ("PASS", None), "second": ("ERROR", "bench")}
    assert found["wholeness"]["withheld"] == [
        {"case": "second", "reason": "incomplete: the run ended before this case did"}
    ]
    assert found["findings"] == []
    assert exit_code(found) == 12


def test_the_verdicts_equal_plain_python_on_random_damage(scored: Scored) -> None:
    rows = scored.scores["damage"]["verdicts"]
    observed = {row["case"]: (row["verdict"], row["owner"]) for row in rows}
    assert observed == python_verdicts(scored.folders["damage"])
    assert {verdict for verdict, _ in observed.values()} >= {"PASS", "FAIL", "INCONCLUSIVE"}


def test_duckdb_counts_the_same_confusions_from_the_lake(scored: Scored) -> None:
    for name, found in scored.scores.items():
        if name == "again":  # scored again since
            continue
        rows = [row for row in scored.rows("scores", name) if row["due"] is not None]
        counted = Counter((row["due_status"], row["observed_status"] or "missing") for row in rows)
        told = {(row["expected"], row["observed"]): row["count"] for row in found["confusion"]}
        assert counted == told


def test_scoring_a_run_again_replaces_its_rows_and_no_others(rescored: Rescored) -> None:
    before, after = rescored.before["again"], rescored.after["again"]
    assert (before["totals"]["FAIL"], after["totals"]["PASS"]) == (1, 1)
    assert rescored.findings_before and not rescored.scored.rows("findings", "again")
    assert len(rescored.scored.rows("findings", "verdicts")) > 12
    for table in TABLES:
        if table != "findings":
            assert rescored.scored.rows(table, "again"), table
    [first, _] = rescored.scored.rows("receptions", "again")
    assert (str(first["night"]), first["dev_eui"]) == ("2026-11-20", ALPHA)
    assert first["dev_eui_no"] == 0x70B3D57ED0000001


def test_the_names_of_captures_are_names_and_no_patterns(
    tmp_path: Path, spark: SparkSession
) -> None:
    names = ["{air,lns}", "[a-z]ir", "a*", "a?r", "back\\slash", "x+y %41", "lns{", "]", "air"]
    folder = tmp_path / "runs [of {one,two}] *" / "20261120T020003Z-7f3a"
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        said = {"t_us": number, "source": name, "seq": 0, "kind": "case.begin", "case": "one"}
        (folder / f"{name}.jsonl").write_text(json.dumps(said) + "\n")
    files = [str(folder / f"{name}.jsonl") for name in names]
    for few in (files, files[:1], files[2:3]):
        rows = lines(spark, few).select("source", "run").collect()
        assert sorted(row["source"] for row in rows) == sorted(Path(file).stem for file in few)
        assert {row["run"] for row in rows} == {folder.name}


def test_a_folder_without_a_capture_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no capture"):
        score([tmp_path / "empty"], lake=tmp_path / "lake")


def test_a_folder_in_which_nothing_can_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "bench.jsonl.gz").write_bytes(gzip.compress(b"{}\n" * 99)[:-9])
    with pytest.raises(FileNotFoundError, match="none of its captures"):
        score([tmp_path / "cut"], lake=tmp_path / "lake")


def test_two_folders_of_one_name_are_told(tmp_path: Path) -> None:
    folders = [tmp_path / place / "20261120T020003Z-7f3a" for place in ("here", "there")]
    for folder in folders:
        write_run(folder, case("good", 0, good()))
    with pytest.raises(ValueError, match="same name"):
        score(folders, lake=tmp_path / "lake")


def _damaged(middle: Case, chance: random.Random) -> Case:
    for _ in range(chance.choice((0, 1, 1, 2))):
        place = chance.randrange(len(middle))
        line = middle[place]
        match chance.choice(("lose", "repeat", "move")):
            case "lose":
                middle = middle[:place] + middle[place + 1 :]
            case "repeat":
                middle = [
                    *middle[: place + 1],
                    (line[0], line[1] + 1, *line[2:]),
                    *middle[place + 1 :],
                ]
            case "move" if line[0] != "bench":
                later = (line[0], line[1] + 150, *line[2:])
                middle = [*middle[:place], later, *middle[place + 1 :]]
    return sorted(middle, key=lambda line: line[1])


def test_a_score_takes_few_jobs_and_stages(scored: Scored) -> None:
    cost = scored.scores["verdicts"]["spark"]
    assert cost["jobs"] <= JOBS_MAX, cost["tables"]
    assert cost["stages"] <= STAGES_MAX, cost["tables"]
    assert {f"lake {name}" for name in (*TABLES, "runs")} <= set(cost["tables"])
