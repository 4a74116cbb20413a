import re
from pathlib import Path

from bench.report import write
from bench.report.facts import host_words, ms, timing
from bench.report.score_file import Host, Margins, Percentiles, Score

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
