"""The page of all nights: what it says first, what it links, and how large it is."""

import re
from datetime import date
from pathlib import Path

from bench.night.memory import remembered
from bench.night.series import Known
from bench.report.page import PAGE, nights_page, write_nights
from tests.bench.night.written_nights import night_of, write_night
from tests.bench.report.page_outline import outline

LAB = {("station", "0016C001F1500002"): (30, 100), ("device", "70B3D57ED0000001"): (0, 100)}


def told(runs: Path, *known: Known) -> str:
    return nights_page(remembered(runs).lines, known, night_of(20))


def planted(runs: Path) -> None:
    """Twenty nights: a failure since the last one, a mend, a killed night, a drift, a sick part."""
    for number in range(20):
        outcomes = {f"group/steady_{n}[Drop]": "PASS" for n in range(5)}
        outcomes["group/breaks[Drop-confirmed]"] = "PASS" if number < 19 else "FAIL"
        outcomes["group/mended"] = "FAIL" if 3 <= number < 7 else "PASS"
        outcomes["group/flakes"] = "FAIL" if number in (4, 9, 13) else "PASS"
        p50_us = 22_000 + 3_000 * (number >= 12)
        write_night(
            runs, number, outcomes, margins={"data": (p50_us, p50_us + 9_000)}, lab=LAB,
            whole=number != 15, bench="lab-1",
        )  # fmt: skip


def test_the_first_line_says_what_is_new_since_when_and_how_the_lab_is(tmp_path: Path) -> None:
    planted(tmp_path)
    html = told(tmp_path)
    [heading] = re.findall(r"<h1>(.*?)</h1>", html)
    assert heading == (
        "1 new failure since Saturday&#39;s build 0000001 (2026-09-19); nothing fixed;"
        " station 0016C001F1500002 sick."
    ).replace("0000001", "0000001")
    assert "✗ 1 NEW" in html


def test_every_change_has_the_command_that_repeats_it_and_the_page_of_its_run(
    tmp_path: Path,
) -> None:
    planted(tmp_path)
    html = told(tmp_path)
    assert "group/breaks" in html.replace("<wbr>", "")
    assert "pytest scenarios/test_x.py::test_group/breaks[Drop-confirmed] --rig emulated" in html
    assert 'href="20260920T020000Z-0001/report.html"' in html


def test_what_changed_in_a_night_is_counted_in_words(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"group/a": "PASS", "group/b": "PASS"})
    write_night(tmp_path, 1, {"group/a": "FAIL", "group/b": "FAIL"})
    assert "<td>2 new failures</td>" in told(tmp_path)


def test_the_map_has_the_loud_rows_first_and_folds_the_quiet_ones(tmp_path: Path) -> None:
    planted(tmp_path)
    html = told(tmp_path)
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td class="soft">(.*?)</td>', html)
    names = [re.sub("<.*?>", "", name).strip() for name, _ in rows]
    assert names[:3] == ["group breaks", "group flakes", "group mended"]
    assert names[3:] == ["group 5 quiet scenarios"]
    assert rows[0][1] == "1 of 1 fail"
    assert 'title="2026-09-20, build 000000130000: failed">✗' in html


def test_a_drift_is_ticked_and_a_killed_night_is_told(tmp_path: Path) -> None:
    planted(tmp_path)
    html = told(tmp_path)
    assert "since 2026-09-13</title>" in html
    assert "incomplete: killed at case 3" in html
    assert "25.0 ms, 99 % within 34.0 ms" in html


def test_what_is_known_has_its_days_left(tmp_path: Path) -> None:
    planted(tmp_path)
    html = told(
        tmp_path,
        Known(case="group/breaks*", issue="LNS-4", until=date(2026, 9, 24)),
        Known(case="group/mended", issue="LNS-5", until=date(2026, 9, 1)),
    )
    assert "2026-09-24, 3 days left" in html
    assert "over since 2026-09-01" in html
    assert "known: LNS-4 until 2026-09-24" in html
    assert "NOTHING NEW" in html


def test_uncommitted_changes_are_told_in_red(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"a": "PASS"}, dut={"dirty": True, "difference": "ab12cd34ef"})
    html = told(tmp_path)
    assert '<li class="alarm">Uncommitted changes' in html
    assert "000000000000+ab12cd34" in html


def test_a_night_that_was_killed_is_never_green(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"a": "PASS"})
    write_night(tmp_path, 1, {}, scored=False, ended=False)
    html = told(tmp_path)
    assert "! NO VERDICT" in html
    assert '<header class="er">' in html
    assert "No verdict counts: it did not end: it was killed, or is still running." in html


def test_no_night_is_no_crash(tmp_path: Path) -> None:
    assert "No night yet" in told(tmp_path)


def test_the_page_is_well_formed_and_asks_for_nothing(tmp_path: Path) -> None:
    planted(tmp_path)
    path = write_nights(tmp_path, remembered(tmp_path).lines, (), night_of(20))
    html = path.read_text("utf-8")
    assert path.name == PAGE
    outline(html)
    assert "<script" not in html
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)


def test_a_year_of_a_thousand_cases_fits_on_the_page(tmp_path: Path) -> None:
    for number in range(40):
        outcomes = {
            f"group_{n % 12}/a_scenario_with_a_name_of_its_own_{n}": (
                "FAIL" if (n * 7 + number * 13) % 97 == 0 else "PASS"
            )
            for n in range(1000)
        }
        write_night(tmp_path, number, outcomes, rig="simulated")
    assert len(told(tmp_path).encode()) <= 400_000
