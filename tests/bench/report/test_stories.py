from pathlib import Path

from bench.report.excerpts import Event, Excerpt
from bench.report.narration import cast_of
from bench.report.score_file import Finding, Score, Verdict
from bench.report.stories import ROWS_MAX, Ladder, ladder, repeat_command, stories

CASE = "two_stations-Mark-confirmed"  # the one that the captures of the bad night hold


def verdict(case: str, word: str = "FAIL", **more) -> Verdict:
    return Verdict(case, more.pop("scenario", "test"), word, **more)


def told(folder: Path, *verdicts: Verdict, findings=(), stories_max: int = 40):
    return stories(folder, Score(1, "run", verdicts, findings=tuple(findings)), stories_max)


def test_the_worst_case_is_told_first_and_a_clean_pass_not_at_all(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        verdict("clean", "PASS"),
        verdict("again", "PASS", attempt=2),
        verdict("unproven", "INCONCLUSIVE"),
        verdict("broken", "ERROR"),
        verdict("doubted", "PASS"),
        verdict("failed"),
        findings=[Finding("LNS", "oracle", case="doubted")],
    )
    cases = [story.verdict.case for story in found.stories if story.verdict]
    assert cases == ["failed", "doubted", "broken", "unproven", "again"]
    assert found.anchors == {5: "s5", 4: "s4", 3: "s3", 2: "s2", 1: "s1"}


def test_every_scenario_has_its_first_case_told_before_a_second(tmp_path: Path) -> None:
    verdicts = [verdict(f"a{n}", scenario="test_a") for n in range(5)]
    verdicts += [verdict("b0", scenario="test_b")]
    found = told(tmp_path, *verdicts, stories_max=3)
    assert [story.verdict.case for story in found.stories if story.verdict] == ["a0", "b0", "a1"]
    assert found.left_out == 3


def test_a_story_holds_the_lines_of_its_case_and_no_other(bad_night: Path) -> None:
    found = told(bad_night, verdict(CASE, begin_us=1_000_000, end_us=1_080_000))
    assert [line.source for line in found.stories[0].lines] == [
        "bench",
        "bench",
        "device-alpha",
        "air",
        "tap-B827EBFFFE000001",
        "lns-a",
        "upstream",
        "tap-B827EBFFFE000001",
        "bench",  # the last two name their case
        "bench",
    ]


def test_cases_side_by_side_are_told_apart(tmp_path: Path) -> None:
    head = '{"source":"bench","seq":%d,"t_us":%d,"kind":"%s"%s}\n'
    (tmp_path / "bench.jsonl").write_text(
        head % (0, 10, "case.begin", ',"case":"a"')
        + head % (1, 20, "case.begin", ',"case":"b"')
        + head % (2, 25, "fault.begin", ',"case":"a","detail":{"case":"b"}')
        + head % (3, 26, "fault.begin", ',"case":"b"')
        + head % (4, 27, "host.stalled", ',"late_us":7')
        + head % (5, 28, "fault.end", "")
        + head % (6, 30, "case.end", ',"case":"a"')
        + head % (7, 35, "fault.end", "")
        + head % (8, 40, "case.end", ',"case":"b"')
    )
    first, second = verdict("a", begin_us=10, end_us=30), verdict("b", begin_us=20, end_us=40)
    stories = told(tmp_path, first, second).stories
    assert [[line.seq for line in story.lines] for story in stories] == [
        ["0", "2", "4", "6"],
        ["1", "3", "4", "7", "8"],
    ]
    assert [story.lines[-1].seconds for story in stories] == ["0.000020", "0.000020"]


def test_a_case_that_was_cut_short_ends_where_the_next_begins(bad_night: Path) -> None:
    found = told(
        bad_night,
        verdict(CASE, "ERROR", begin_us=1_000_000),
        verdict("next", "PASS", begin_us=1_010_001),
    )
    assert [line.kind for line in found.stories[0].lines] == [
        "case.begin",
        "case.device",
        "device.command",
        "case.expect",  # these two name their case
        "case.end",
    ]


def test_a_case_that_never_began_has_no_lines(bad_night: Path) -> None:
    assert told(bad_night, verdict("never", "ERROR")).stories[0].lines == ()


def test_a_finding_points_at_the_line_of_its_time_station_and_frame(bad_night: Path) -> None:
    finding = Finding("LNS", "rule", case=CASE, station="B827EBFFFE000001", t_us=1_074_500)
    found = told(bad_night, verdict(CASE, begin_us=1_000_000, end_us=2_000_000), findings=[finding])
    assert [line.seq for line in found.stories[0].lines if line.pointed_at] == ["0"]


def test_a_finding_of_an_unknown_case_is_told_outside(bad_night: Path) -> None:
    finding = Finding("bench", "rule", case="nobody", t_us=1_074_500)
    (story,) = told(bad_night, findings=[finding]).stories
    assert story.verdict is None
    assert [line.seconds for line in story.lines if line.pointed_at] == ["0.000000"]


def test_many_findings_outside_are_counted_only(tmp_path: Path) -> None:
    found = told(tmp_path, findings=[Finding("bench", "rule")] * 13)
    assert (len(found.stories), found.outside_left_out) == (10, 3)


def test_the_command_repeats_one_scenario() -> None:
    score = Score(1, "run", (), rig="simulated", seed=7)
    case = verdict("x", file="scenarios/test_a.py", scenario="test_b", strategy="None")
    assert repeat_command(case, score) == (
        "pytest scenarios/test_a.py::test_b --rig simulated --seed 7 --strategy None"
    )
    assert repeat_command(verdict("x"), score) == ""
    hostile = verdict("x", file="a.py; rm -rf /", scenario="test_b")
    assert repeat_command(hostile, score).startswith("pytest 'a.py; rm -rf /::test_b'")


DEVICE = {"t_us": 0, "kind": "case.device", "dev_eui": "D1", "name": "alpha"}
SENT = {"t_us": 10, "kind": "radio.transmit", "direction": "up", "sender": "D1", "f_cnt": 7}
HEARD = {"t_us": 20, "kind": "station.text", "station": "G1", "direction": "up"}
HEARD |= {"text": '{"msgtype":"updf","FCnt":7}'}
DECIDED = {"t_us": 30, "kind": "lns.outcome", "station": "G1", "lns": "lns-a", "answer": "RX1"}
DECIDED |= {"status": "NonDuplicate", "upstream": "forwarded"}
PUBLISHED = {"t_us": 40, "kind": "upstream.published", "body": {"fCnt": 7, "dupMsg": True}}
ANSWERED = {"t_us": 50, "kind": "station.text", "station": "G1", "direction": "down"}
ANSWERED |= {"text": '{"msgtype":"dnmsg"}'}
ON_AIR = {"t_us": 60, "kind": "radio.transmit", "direction": "down", "sender": "G1"}


def drawn(*events: Event, pointed_at: frozenset[int] = frozenset()) -> Ladder:
    found = ladder(Excerpt(events), cast_of(events), 0, pointed_at)
    assert found is not None
    return found


def test_the_lanes_stand_from_device_to_upstream() -> None:
    picture = drawn(DEVICE, SENT, HEARD, DECIDED, PUBLISHED)
    assert [lane.title for lane in picture.lanes] == [
        "alpha",
        "air",
        "station A",
        "tap",
        "lns-a",
        "upstream",
    ]
    xs = [lane.x for lane in picture.lanes]
    assert xs == sorted(xs)
    assert picture.width > xs[-1]


def test_an_uplink_and_its_answer_are_arrows_between_the_lanes() -> None:
    picture = drawn(DEVICE, SENT, HEARD, DECIDED, PUBLISHED, ANSWERED, ON_AIR)
    device, air, station, tap, lns, upstream = (lane.x for lane in picture.lanes)
    assert [(m.shape, m.x, m.to_x, m.via_xs, m.label) for m in picture.marks] == [
        ("arrow", device, air, (), "FCnt 7"),
        ("arrow", air, lns, (station, tap), "updf FCnt 7"),
        ("dot", lns, lns, (), "NonDuplicate · forwarded · RX1"),
        ("arrow", lns, upstream, (), "FCnt 7, marked dupMsg"),
        ("arrow", lns, station, (tap,), "dnmsg"),
        ("arrow", station, device, (air,), "downlink on the air"),
    ]
    ys = [mark.y for mark in picture.marks]
    assert ys == sorted(set(ys))


def test_an_injected_copy_starts_at_the_station() -> None:
    picture = drawn(DEVICE, SENT, HEARD | {"origin": "injected"})
    _, _, station, tap, *_ = (lane.x for lane in picture.lanes)
    copy = picture.marks[1]
    assert copy.injected
    assert (copy.x, copy.via_xs) == (station, (tap,))


def test_a_dropped_text_does_not_reach_the_server() -> None:
    picture = drawn(DEVICE, HEARD | {"dropped": True}, DECIDED)
    tap = next(lane.x for lane in picture.lanes if lane.title == "tap")
    assert picture.marks[0].lost
    assert picture.marks[0].to_x == tap < picture.marks[1].x


def test_a_dropped_answer_does_not_reach_the_station() -> None:
    picture = drawn(DEVICE, DECIDED, ANSWERED | {"dropped": True})
    tap = next(lane.x for lane in picture.lanes if lane.title == "tap")
    assert (picture.marks[1].lost, picture.marks[1].to_x) == (True, tap)


def test_faults_restarts_losses_and_evictions_are_drawn() -> None:
    picture = drawn(
        {"t_us": 1, "kind": "fault.begin", "seam": "tap", "fault": "replay", "station": "G1"},
        {"t_us": 2, "kind": "case.lns", "event": "restart", "lns": "lns-a"},
        {"t_us": 3, "kind": "radio.lost", "receiver": "G1", "cause": "faded"},
        {"t_us": 4, "kind": "lns.evicted", "lns": "lns-a"},
        {"t_us": 5, "kind": "upstream.failed", "cause": "cut"},
        {"t_us": 6, "kind": "host.stalled", "late_us": 179_600},
    )
    assert [(mark.shape, mark.label) for mark in picture.marks] == [
        ("band", "fault: replay on the tap, station A"),
        ("band", "lns-a restarts"),
        ("cross", "not heard: faded"),
        ("dot", "forgets a sighting too early"),
        ("arrow", "cut"),
        ("band", "the host stalled for 179.6 ms"),
    ]


def test_a_station_that_only_missed_a_frame_has_a_lane() -> None:
    picture = drawn(DEVICE, SENT, {"t_us": 11, "kind": "radio.lost", "receiver": "G9"})
    assert [lane.subtitle for lane in picture.lanes][2] == "G9"
    assert [mark.shape for mark in picture.marks] == ["arrow", "cross"]


def test_a_forged_frame_and_a_repetition_are_labelled() -> None:
    marks = drawn(DEVICE, SENT | {"genuine": False}, SENT | {"t_us": 11, "attempt": 2}).marks
    assert [mark.label for mark in marks] == ["forged frame", "FCnt 7, again (2)"]


def test_a_long_silence_is_written_into_the_drawing() -> None:
    marks = drawn(DEVICE, SENT, HEARD | {"t_us": 59_200_010}).marks
    assert [(mark.shape, mark.label) for mark in marks][1] == ("gap", "59.2 s later")


def test_of_the_console_only_what_is_spoken_is_drawn() -> None:
    line = {"t_us": 1, "kind": "device.line", "dev_eui": "D1"}
    marks = drawn(line | {"text": "OK"}, line | {"text": "+EVT:JOINED"}).marks
    assert [mark.label for mark in marks] == ["+EVT:JOINED"]


def test_a_finding_points_at_its_mark() -> None:
    marks = drawn(DEVICE, SENT, HEARD, DECIDED, pointed_at=frozenset({3})).marks
    assert [mark.pointed_at for mark in marks] == [False, False, True]


def test_a_long_case_is_drawn_around_its_findings() -> None:
    events = [DEVICE, *(SENT | {"t_us": n, "f_cnt": n} for n in range(100))]
    picture = drawn(*events, pointed_at=frozenset({100}))
    assert len(picture.marks) == ROWS_MAX
    assert picture.left_out == 100 - ROWS_MAX
    assert picture.marks[-1].label == "FCnt 99"


def test_the_times_are_those_since_the_case_began_however_late_the_clock_is() -> None:
    boot_us = 48_123_456_789_012
    events = tuple(event | {"t_us": boot_us + event["t_us"]} for event in (DEVICE, SENT, HEARD))
    picture = ladder(Excerpt(events), cast_of(events), boot_us, frozenset())
    assert picture is not None
    assert [mark.time for mark in picture.marks] == ["0.000010", "0.000020"]


def test_a_case_without_events_has_no_drawing() -> None:
    assert ladder(Excerpt((DEVICE,)), cast_of([DEVICE]), 0, frozenset()) is None
    assert ladder(Excerpt(()), cast_of([]), 0, frozenset()) is None


def test_parties_that_are_not_in_the_cast_are_left_out() -> None:
    picture = drawn(
        DEVICE,
        SENT,
        {"t_us": 11, "kind": "device.command", "dev_eui": 7, "text": "ATZ"},
        {"t_us": 12, "kind": "radio.transmit", "direction": "down", "sender": "G9"},
        {"t_us": 13, "kind": "device.line", "dev_eui": "D9", "text": "+EVT:X"}
        | {"source": "device-other"},
    )
    assert [mark.label for mark in picture.marks] == ["FCnt 7", "+EVT:X"]
