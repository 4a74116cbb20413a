import re
from pathlib import Path

from bench.report import write
from bench.report.facts import BARS_MAX, facts, histogram, host_words, ms, timing
from bench.report.score_file import Host, Margins, Percentiles, Score, Spark, Verdict

SCORE = Score(
    1,
    "20261121T020003Z-7f3a",
    (Verdict("a", "test", "PASS", begin_us=0, end_us=3_720_000_000),),
    rig="simulated",
    seed=7,
    spark=Spark("4.3.0", "local[2]", 11.53),
)


def test_the_facts_of_a_run() -> None:
    about = facts(SCORE, {"git_commit": "4f1c2d9e0aa1", "versions": {"python": "3.11.7"}})
    assert dict(about.rows) == {
        "Run": "20261121T020003Z-7f3a",
        "Rig": "simulated",
        "Seed": "7",
        "Git commit": "4f1c2d9e0aa1",
        "Duration": "1 h 02 min of the run's own clock",
        "Scored by": "Spark 4.3.0 in 11.5 s",
        "Versions": "python 3.11.7",
    }


def test_code_that_differs_from_its_commit_is_alarming() -> None:
    dut = {"name": "lns", "version": "0.1.0", "commit": "4f1c2d9e0aa1", "dirty": False}
    clean = facts(SCORE, {"dut": dut})
    assert "Uncommitted changes" not in dict(clean.rows)
    about = facts(SCORE, {"dut": {**dut, "dirty": True, "difference": "0123456789abcdef"}})
    found = dict(about.rows)
    assert found["Server under test"] == "lns 0.1.0"
    assert found["Uncommitted changes"].endswith("hash of the difference 0123456789abcdef")
    assert about.alarming == {"Uncommitted changes"}


def test_how_and_when_the_run_ended() -> None:
    ended = {"how": "stopped", "reason": "no board", "at": "2026-11-20T03:00:00Z"}
    about = dict(facts(SCORE, {"ended": ended, "host": "lab-pc"}).rows)
    assert (about["Ended"], about["Host"]) == ("2026-11-20T03:00:00Z, stopped: no board", "lab-pc")


def test_the_command_repeats_the_run_with_its_seed() -> None:
    assert facts(SCORE, {}).command == "lorabench run --rig simulated --seed 7"
    argv = ["/opt/bin/pytest", "scenarios", "--rig=simulated"]
    assert facts(SCORE, {"argv": argv}).command == "pytest scenarios --rig=simulated --seed 7"
    argv = ["/opt/bench/__main__.py", "run", "--seed=7"]
    assert facts(SCORE, {"argv": argv}).command == "lorabench run --seed=7"


def test_the_command_shows_no_key() -> None:
    argv = ["lorabench", "run", "--seed", "7", "--token", "abc", "--broker=mqtt://u:p@h"]
    assert facts(SCORE, {"argv": argv}).command == (
        "lorabench run --seed 7 --token **** '--broker=mqtt://****@h'"
    )


def test_of_the_inventory_only_names_and_firmware_are_printed() -> None:
    inventory = {
        "device": [{"name": "alpha", "firmware": "4.2.1", "app_key": "x", "port": "/dev/y"}]
    }
    inventory |= {"station": {"gw-a": {"kind": "virtual", "address": "10.0.0.1"}}}
    assert dict(facts(SCORE, {"inventory": inventory}).rows)["Inventory"] == (
        "device: alpha (4.2.1); station: gw-a (virtual)"
    )


def test_notices_may_be_texts_or_objects() -> None:
    manifest = {"notices": ["Set A, CC0", {"name": "Set B", "licence": "CC BY 4.0"}]}
    assert facts(SCORE, manifest).notices == ("Set A, CC0", "Set B — CC BY 4.0")


def test_a_bar_for_each_millisecond_where_they_are_few() -> None:
    drawing = histogram([(980, 3), (981, 6), (985, 1)])
    assert drawing is not None
    assert [(bar.from_ms, bar.to_ms, bar.count) for bar in drawing.bars] == [
        (980, 981, 3), (981, 982, 6), (985, 986, 1),
    ]  # fmt: skip
    assert (drawing.count_max, drawing.gap_x) == (6, None)
    heights = [bar.height for bar in drawing.bars]
    assert heights[1] == 2 * heights[0] == drawing.base - drawing.top
    assert all(bar.y + bar.height == drawing.base for bar in drawing.bars)
    assert drawing.left <= drawing.bars[0].x < drawing.bars[-1].x < drawing.right


def test_bars_are_wider_where_the_margins_lie_far_apart_and_none_crosses_the_limit() -> None:
    drawing = histogram([(-3_007, 1), (19, 2), (20, 4), (997, 5)])
    assert drawing is not None
    assert len(drawing.bars) <= BARS_MAX
    assert sum(bar.count for bar in drawing.bars) == 12
    assert [(bar.late, bar.count) for bar in drawing.bars] == [
        (True, 1), (True, 2), (False, 4), (False, 5),
    ]  # fmt: skip
    in_time = next(bar for bar in drawing.bars if not bar.late)
    assert (in_time.from_ms, in_time.x) == (20, drawing.gap_x)


def test_the_second_window_is_later() -> None:
    first, second = histogram([(980, 3)]), histogram([(980, 3)], 1000)
    assert first is not None
    assert second is not None
    assert [bar.from_ms for bar in (*first.bars, *second.bars)] == [980, 1980]


def test_however_far_they_lie_apart_there_are_few_bars() -> None:
    drawing = histogram([(-10_000_000, 1), (0, 1), (15_000, 1)])
    assert drawing is not None
    assert len(drawing.bars) <= BARS_MAX
    assert len(drawing.ticks) <= 12


def test_no_margin_is_no_drawing() -> None:
    assert histogram([]) is None


DATA = Margins(
    "data", 4, disturbed=2, late=1, late_for_rx1=0, from_air=3,
    rx1=Percentiles(-2_000_050, -2_000_050, 978_332, 990_621),
    rx2=Percentiles(-1_000_050, -1_000_050, 1_978_332, 1_990_621),
    rx1_ms=((-2001, 1), (978, 2), (990, 1)),
)  # fmt: skip
MARGINS = {
    "kind": "data", "answers": 4, "disturbed": 2, "late": 1, "late_for_rx1": 0, "from_air": 3,
    "rx1": {"min_us": -2_000_050, "p1_us": -2_000_050, "p50_us": 978_332, "p99_us": 990_621},
    "rx2": {"min_us": -1_000_050, "p1_us": -1_000_050, "p50_us": 1_978_332, "p99_us": 1_990_621},
    "rx1_ms": [[-2001, 1], [978, 2], [990, 1]],
}  # fmt: skip
PASSED = {"case": "x", "scenario": "test_x", "verdict": "PASS", "begin_us": 5, "end_us": 9}
LEFT_OUT = [
    {"case": "a[1]", "scenario": "test_a", "title": "Takes a minute.", "missing": ["time"]},
    {"case": "a[2]", "scenario": "test_a", "title": "Takes a minute.", "missing": ["time"]},
    {"case": "b", "scenario": "test_b", "missing": ["time", "a <radio>"]},
]


def test_the_figures_are_told_in_milliseconds() -> None:
    found = timing(Score(1, "run", (), margins=(DATA,)))
    assert [(row.kind, row.window, row.min_ms, row.p50_ms) for row in found.rows] == [
        ("confirmed uplinks", "RX1", "−2000.1", "978.3"),
        ("confirmed uplinks", "RX2", "−1000.1", "1978.3"),
    ]
    assert [window for window, _ in found.drawings] == ["RX1", "RX2"]
    late, disturbed, bounds = found.remarks
    assert "1 of 4" in late
    assert "2 answers" in disturbed
    assert bounds.startswith("1 of the 4 margins")


def test_a_run_in_which_every_answer_was_disturbed_has_no_figures() -> None:
    found = timing(Score(1, "run", (), margins=(Margins("data", 0, disturbed=3),)))
    assert (found.rows, found.drawings) == ((), ())


def test_the_worst_stall_is_told_where_one_was_noted() -> None:
    assert host_words(Score(1, "run", ())) == ""
    worst = Score(1, "run", (), host=Host(1, 179_600))
    assert host_words(worst) == "the host stalled for 179.6 ms at worst"
    assert (ms(-1), ms(0)) == ("−0.1", "0.0")


def test_the_page_the_summary_and_junit_tell_of_timing_and_of_what_was_left_out(
    write_score,
) -> None:
    host = {"stalls": 1, "worst_stall_us": 179_600}
    folder = write_score(verdicts=[PASSED], margins=[MARGINS], left_out=LEFT_OUT, host=host)
    html = write(folder).read_text("utf-8")
    assert html.count('class="histogram"') == 2
    assert "the host stalled for 179.6 ms at worst" in html
    assert "a &lt;radio&gt;, time" in html
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th><td class="num">(\d+)</td><td>Takes', html)
    assert rows == [("time", "2")]
    assert "left out: this rig lacks what they need." in html
    summary = (folder / "summary.md").read_text("utf-8")
    assert "| confirmed uplinks | RX1 | 4 | −2000.1 | −2000.1 | 978.3 | 990.6 |" in summary
    assert "- In this run the host stalled for 179.6 ms at worst." in summary
    assert "| time | 2 | test\\_a |" in summary
    junit = (folder / "junit.xml").read_text("utf-8")
    assert 'tests="4"' in junit
    assert 'skipped="3"' in junit
    assert 'message="left out: this rig lacks time, a &lt;radio&gt;"' in junit


def test_cases_side_by_side_take_no_longer_than_the_run(write_score) -> None:
    sides = [
        PASSED | {"case": "x", "begin_us": 1_000_000, "end_us": 4_000_000},
        PASSED | {"case": "y", "begin_us": 2_000_000, "end_us": 4_500_000},
    ]
    folder: Path = write_score(verdicts=sides)
    write(folder)
    junit = (folder / "junit.xml").read_text("utf-8")
    assert re.findall(r'time="([\d.]+)"', junit) == ["3.500", "3.500", "3.000", "2.500"]


def test_a_quiet_run_has_no_section_of_what_was_left_out(write_score) -> None:
    folder = write_score(verdicts=[PASSED])
    html = write(folder).read_text("utf-8")
    assert "No answer whose margin could be measured." in html
    assert 'id="left-out"' not in html
    assert "Timing" not in (folder / "summary.md").read_text("utf-8")
