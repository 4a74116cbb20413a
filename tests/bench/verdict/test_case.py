import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.capture.reading import Event
from bench.verdict.case import (
    HOST_STALL_MAX_US,
    Case,
    Result,
    StimulusMissed,
    Title,
    Verdict,
    fault_fields,
)
from bench.verdict.expectation import Due, Words
from bench.verdict.owner import GONE, NO_PROTOCOL, SURE_STALL_MAX_US, Found, Owner
from lns.capture import Capture
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.uplink.registry import Activation, EndDevice
from tests.bench.verdict.written_case import (
    ACKED,
    ALPHA,
    COPY,
    EAST,
    FRAME,
    GOOD,
    WEST,
    outcome,
)

TITLE = Title(
    case="group/c", scenario="test_c", file="scenarios/test_group.py", group="group",
    title="Is so.", strategy="Drop", confirmed=True, params={"id": "Drop-confirmed"},
)  # fmt: skip
DUE = {
    WEST: Due("west", Words("NonDuplicate", "forwarded", "-", "RX1")),
    EAST: Due("east", Words("Duplicate", "dropped", "Duplicate", "Suppressed")),
}
Open = Callable[..., Case]


@pytest.fixture
def open_case(tmp_path: Path) -> Iterator[Open]:
    times = iter(range(0, 10_000, 10))
    capture = Capture(tmp_path, "r", lambda: next(times))
    yield lambda title=TITLE: Case(title, capture, rig="simulated")
    capture.close()


def play(case: Case, events: dict[str, Event] = GOOD) -> None:
    """What the parties write in the good case."""
    for event in events.values():
        if event["source"] != "bench":
            fields = {key: value for key, value in event.items() if key not in ("source", "kind")}
            case.record(event["source"], event["kind"], fields)


def expect(case: Case) -> None:
    for eui, row in DUE.items():
        case.expect_outcome(FRAME, Eui(eui), row)
    case.expect_line(Eui(ALPHA), ACKED)


def written(tmp_path: Path) -> list[Event]:
    return [json.loads(line) for line in (tmp_path / "bench.jsonl").read_text().splitlines()]


def test_a_good_case_from_begin_to_end(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    case.station(Eui(WEST), "west")
    case.lns("lns-a", "start", retention_us=60_000_000)
    play(case)
    expect(case)
    verdict = case.end()
    assert verdict.result == "PASS"
    first, *_, last = lines = written(tmp_path)
    assert first == {
        "schema": 1, "run_id": "r", "source": "bench", "seq": 0, "t_us": 0, "kind": "case.begin",
        "case": "group/c", "scenario": "test_c", "file": "scenarios/test_group.py",
        "group": "group", "title": "Is so.", "rig": "simulated",
        "params": {"id": "Drop-confirmed"}, "strategy": "Drop", "confirmed": True,
    }  # fmt: skip
    assert {key: last[key] for key in ("kind", "case", "verdict", "reasons", "attempt")} == {
        "kind": "case.end", "case": "group/c", "verdict": "PASS", "reasons": [], "attempt": 1,
    }  # fmt: skip
    assert "owner" not in last
    assert {line["case"] for line in lines} == {"group/c"}
    rows = [line for line in lines if line.get("expect") == "outcome"]
    assert [(row["n"], row["station"], row["status"], row["reason"]) for row in rows] == [
        (0, WEST, "NonDuplicate", "-"), (1, EAST, "Duplicate", "Duplicate"),
    ]  # fmt: skip
    assert [event["kind"] for event in case.events if event["source"] == "bench"] == [
        line["kind"] for line in lines
    ]


def test_a_failed_case_says_whose_it_is(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    play(case, GOOD | {"told east": outcome(EAST, 22, f"Soft{COPY}")})
    expect(case)
    verdict = case.end()
    end = written(tmp_path)[-1]
    assert (end["verdict"], end["owner"]) == ("FAIL", "LNS")
    assert tuple(end["reasons"]) == verdict.reasons != ()


def test_what_is_not_known_is_left_out(open_case: Open, tmp_path: Path) -> None:
    case = open_case(Title("g/c", "test_c", "f", "g", "t"))
    case.begin()
    [begin] = written(tmp_path)
    assert {"strategy", "confirmed"}.isdisjoint(begin)
    assert None not in begin.values()


def test_unconfirmed_is_not_unknown(open_case: Open, tmp_path: Path) -> None:
    open_case(Title("g/c", "test_c", "f", "g", "t", confirmed=False)).begin()
    assert written(tmp_path)[0]["confirmed"] is False


def test_an_error_of_the_bench_ends_in_error(open_case: Open) -> None:
    case = open_case()
    case.begin()
    play(case)
    expect(case)
    assert case.end("OSError: no board") == Verdict(Result.ERROR, "bench", ("OSError: no board",))


def test_a_failure_beats_the_error_and_the_error_is_told_too(open_case: Open) -> None:
    case = open_case()
    case.begin()
    play(case, {name: event for name, event in GOOD.items() if name != "published"})
    expect(case)
    verdict = case.end("OSError: no board")
    assert (verdict.result, verdict.owner) == ("FAIL", "LNS")
    assert verdict.reasons[-1] == "besides: OSError: no board"


def test_an_error_breaks_nothing_where_the_bench_has_missed_something(open_case: Open) -> None:
    case = open_case()
    case.begin()
    play(case)
    expect(case)
    case.missed("store", "it has kept nothing")
    verdict = case.end("CommandRefused: not joined", owner="device")
    reasons = "it has kept nothing", "then: CommandRefused: not joined"
    assert verdict == Verdict(Result.INCONCLUSIVE, "store", reasons)


def test_a_case_that_expects_nothing_is_an_error(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    assert case.end().reasons == ("the scenario expects nothing",)
    assert written(tmp_path)[-1]["owner"] == "bench"


def test_the_facts_of_a_device_have_no_keys(open_case: Open, tmp_path: Path) -> None:
    keys = SessionKeys(bytes.fromhex("a1" * 16), bytes.fromhex("b2" * 16))
    device = EndDevice(
        name="alpha", dev_eui=Eui(ALPHA), activation=Activation.ABP, session_keys=keys,
        dev_addr=DevAddr("01ABCDEF"), app_key=bytes.fromhex("c3" * 16),
    )  # fmt: skip
    case = open_case()
    case.begin()
    case.device(device, f_cnt_up=0)
    _, fact = written(tmp_path)
    assert (fact["kind"], fact["case"], fact["f_cnt_up"]) == ("case.device", "group/c", 0)
    assert (fact["activation"], fact["dev_addr"], fact["lorawan"]) == ("abp", "01ABCDEF", "1.0.4")
    assert {"join_eui", "server"}.isdisjoint(fact)
    text = (tmp_path / "bench.jsonl").read_text().lower()
    assert not any(key * 16 in text for key in ("a1", "b2", "c3"))


def test_what_happens_before_the_begin_is_written_after_it(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.station(Eui(WEST), "west")
    case.begin()
    case.begin()
    assert [fact["kind"] for fact in written(tmp_path)] == ["case.begin", "case.station"]


def test_every_line_names_its_case(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    case.record("air", "radio.lost", {"transmission": 1})
    [line] = map(json.loads, (tmp_path / "air.jsonl").read_text().splitlines())
    assert line["case"] == "group/c"


def test_a_line_of_another_process_keeps_its_time(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    theirs = {"schema": 1, "run_id": "x", "source": "lns-a", "seq": 7, "t_us": 123, "kind": "k"}
    case.collect({**theirs, "station": WEST})
    [line] = map(json.loads, (tmp_path / "lns-a.jsonl").read_text().splitlines())
    assert (line["t_us"], line["seq"], line["case"], line["station"]) == (123, 0, "group/c", WEST)


def test_what_concerns_all_is_judged_but_not_written_again(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    case.witness({"t_us": 1, "source": "bench", "seq": 9, "kind": "host.stalled", "late_us": 1})
    assert case.events[-1]["kind"] == "host.stalled"
    assert [fact["kind"] for fact in written(tmp_path)] == ["case.begin"]


def test_the_rows_of_a_race_have_its_number(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    owned = Due("west", Words("NonDuplicate", "forwarded", "-", "RX1", "Owner"))
    lost = Due("east", Words("NonDuplicate", "marked", "-", "Suppressed", "NotOwner"))
    for frame in (FRAME, "another"):
        case.expect_race(frame, {Eui(WEST): owned, Eui(EAST): lost})
    case.expect_outcome(FRAME, Eui(WEST), DUE[WEST])
    rows = [line for line in written(tmp_path) if line["kind"] == "case.expect"]
    told = [(row["frame_id"], row["n"], row.get("race"), row.get("level2")) for row in rows]
    assert told == [
        (FRAME, 0, 1, "Owner"), (FRAME, 1, 1, "NotOwner"),
        ("another", 0, 2, "Owner"), ("another", 1, 2, "NotOwner"),
        (FRAME, 2, None, None),
    ]  # fmt: skip


HEARD_BY_NOBODY = ("published", "scheduled", "told west", "dnmsg", "told east", "said")


def lost(*stations: str, cause: str | None = None) -> dict[str, Event]:
    """The good case, but these stations could not deliver the frame, and nothing followed."""
    why = {"dropped": True} | ({"cause": cause} if cause else {})
    return {
        name: {**event, **why} if name.removeprefix("heard ") in stations else event
        for name, event in GOOD.items()
        if name not in HEARD_BY_NOBODY
    }


def ended(case: Case, events: dict[str, Event], error: str | None = None) -> Verdict:
    case.begin()
    play(case, events)
    if error is None:
        expect(case)
    return case.end(error)


def test_what_never_reached_the_server_is_not_its_fault(open_case: Open, tmp_path: Path) -> None:
    verdict = ended(open_case(), lost("west", "east"))
    assert (verdict.result, verdict.owner) == ("INCONCLUSIVE", "air")
    assert verdict.reasons[0] == "nothing that was sent has reached a network server"
    assert [line["owner"] for line in written(tmp_path) if line["kind"] == "stimulus.missed"] == [
        "air"
    ]


def test_an_error_proves_nothing_either_where_nothing_reached_the_server(open_case: Open) -> None:
    verdict = ended(open_case(), lost("west", "east"), "LookupError: not delivered yet")
    assert (verdict.result, verdict.owner) == ("INCONCLUSIVE", "air")
    assert verdict.reasons[0].endswith("; then: LookupError: not delivered yet")


def test_a_silent_device_proves_nothing_where_one_of_two_copies_was_lost(open_case: Open) -> None:
    events = {name: event for name, event in GOOD.items() if name not in ("said", "told east")}
    events["heard east"] = {**events["heard east"], "dropped": True}
    verdict = ended(open_case(), events)
    assert (verdict.result, verdict.owner) == ("INCONCLUSIVE", "air")
    assert verdict.reasons[0] == f"{FRAME} #1 has not reached a network server through {EAST}"


def test_what_was_delivered_and_is_wrong_fails_whatever_was_lost(open_case: Open) -> None:
    events = {name: event for name, event in GOOD.items() if name not in ("said", "told east")}
    events["heard east"] = {**events["heard east"], "dropped": True}
    events["told west"] = outcome(WEST, 11, "SoftDuplicate forwarded - RX1")
    verdict = ended(open_case(), events)
    assert (verdict.result, verdict.owner) == ("FAIL", "LNS")


def test_a_link_that_nobody_has_cut_may_be_the_servers_doing(open_case: Open) -> None:
    events = lost("west", "east", cause="no link")
    verdict = ended(open_case(), events)
    assert (verdict.result, verdict.owner) == ("FAIL", "LNS")
    case = open_case()
    case.record("bench", "fault.begin", {"seam": "link", "fault": "cut"})
    verdict = ended(case, events)
    assert (verdict.result, verdict.owner) == ("INCONCLUSIVE", "air")


def test_what_is_expected_of_devices_and_messages_is_written(
    open_case: Open, tmp_path: Path
) -> None:
    case = open_case()
    case.begin()
    case.expect("upstream", dev_eui=ALPHA, f_cnt=2, station=WEST, body={"fPort": 2})
    case.expect("status", dev_eui=ALPHA, count=1)
    case.expect("evicted", count=2)
    case.expect("finding", owner="gateway", rule="too late", station=WEST)
    with pytest.raises(ValueError, match="no answer says f_count; f_cnt, "):
        case.expect_answer(FRAME, {"f_count": 7})
    case.expect("on_air", frame_id=FRAME, windows=["RX1", "RX2"])
    for f_cnt in (7, 8):
        case.expect_answer(FRAME, {"f_cnt": f_cnt})
    case.expect("effect", message_id="m-2", consumer="one", count=1)
    case.expect("ignored", message_id="m-2", by="window", count=2)
    told = [line for line in written(tmp_path) if line["kind"] == "case.expect"]
    head = {"schema", "run_id", "source", "seq", "t_us", "kind", "case"}
    assert [{key: fact[key] for key in fact if key not in head} for fact in told] == [
        {"expect": "upstream", "dev_eui": ALPHA, "f_cnt": 2, "station": WEST, "body": {"fPort": 2}},
        {"expect": "status", "dev_eui": ALPHA, "count": 1},
        {"expect": "evicted", "count": 2},
        {"expect": "finding", "owner": "gateway", "rule": "too late", "station": WEST},
        {"expect": "on_air", "frame_id": FRAME, "windows": ["RX1", "RX2"]},
        {"expect": "answer", "frame_id": FRAME, "n": 0, "body": {"f_cnt": 7}},
        {"expect": "answer", "frame_id": FRAME, "n": 1, "body": {"f_cnt": 8}},
        {"expect": "effect", "message_id": "m-2", "consumer": "one", "count": 1},
        {"expect": "ignored", "message_id": "m-2", "by": "window", "count": 2},
    ]


def test_a_stimulus_that_was_missed_has_its_owner_and_its_reason() -> None:
    missed = StimulusMissed("gateway", "west is away")
    assert (missed.owner, str(missed)) == ("gateway", "west is away")


def test_another_case_is_not_judged_by_what_happened_before_it_began(open_case: Open) -> None:
    case = open_case()
    case.witness({"t_us": 1, "source": "bench", "seq": 9, "kind": "host.stalled", "late_us": 1})
    assert case.events == []


def test_an_attempt_that_another_one_follows_says_so(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    verdict = case.end("OSError: no board", repeated=lambda verdict: verdict.result is Result.ERROR)
    assert verdict.result is Result.ERROR
    assert case.repeated
    assert written(tmp_path)[-1]["repeated"] is True


def test_what_the_bench_itself_found_decides_the_verdict(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.begin()
    play(case)
    expect(case)
    case.find(Found(rule="forged", text="a frame that nobody sent", t_us=1, station=WEST))
    assert case.end().result is Result.FAIL
    [fact] = [line for line in written(tmp_path) if line["kind"] == "case.finding"]
    assert (fact["owner"], fact["text"]) == ("LNS", "a frame that nobody sent")


def test_what_was_found_again_and_again_is_one_reason(open_case: Open) -> None:
    case = open_case()
    play(case)
    expect(case)
    for text in ("refused", "refused", "silent", "refused"):
        case.find(Found(rule="a server serves", text=text, t_us=1, owner=Owner.LNS))
    assert case.end().reasons == ("refused (3 times)", "silent")


@pytest.mark.parametrize(
    ("rule", "late_us", "result"),
    [
        (GONE, SURE_STALL_MAX_US, "FAIL"),
        (NO_PROTOCOL, SURE_STALL_MAX_US, "FAIL"),
        (GONE, SURE_STALL_MAX_US + 1, "INCONCLUSIVE"),
        ("another", HOST_STALL_MAX_US + 1, "INCONCLUSIVE"),
        ("another", HOST_STALL_MAX_US, "FAIL"),
    ],
)
def test_a_moment_of_the_host_excuses_no_server_that_is_gone(
    rule: str, late_us: int, result: str, open_case: Open
) -> None:
    case = open_case()
    case.begin()
    play(case)
    expect(case)
    case.find(Found(rule=rule, text="none came", t_us=1, owner=Owner.LNS))
    case.find(Found(rule="late", text="it was late", t_us=1, owner=Owner.LNS))
    stalled = {"t_us": 5_000, "source": "bench", "seq": 9, "kind": "host.stalled"}
    case.witness({**stalled, "late_us": late_us})
    verdict = case.end()
    assert verdict.result == result
    is_alone = result == "FAIL" and late_us > HOST_STALL_MAX_US
    assert ("it was late" in verdict.reasons) is not is_alone


def test_a_fault_says_where_who_meets_it_and_what_it_is() -> None:
    told = fault_fields("tap", "delay", {"after_us": 5}, server="lns-b", station="west")
    assert told == {
        "seam": "tap", "fault": "delay", "station": "west", "origin": "injected", "lns": "lns-b",
        "detail": {"after_us": 5},
    }  # fmt: skip
    assert fault_fields("store", "cut", {}) == {
        "seam": "store", "fault": "cut", "origin": "injected", "detail": {},
    }  # fmt: skip


def test_a_fault_of_a_case_is_in_its_capture(open_case: Open, tmp_path: Path) -> None:
    case = open_case()
    case.fault("store", "cut", after_us=5)
    case.fault("store", "cut", "fault.end")
    case.end()
    lines = [json.loads(line) for line in (tmp_path / "bench.jsonl").read_text().splitlines()]
    faults = [line for line in lines if line["kind"].startswith("fault.")]
    assert [(one["kind"], one["detail"]) for one in faults] == [
        ("fault.begin", {"after_us": 5}), ("fault.end", {}),
    ]  # fmt: skip
