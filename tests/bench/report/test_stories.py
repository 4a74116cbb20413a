from pathlib import Path

from bench.report.score_file import Finding, Score, Verdict
from bench.report.stories import repeat_command, stories

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
