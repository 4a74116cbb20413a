from pathlib import Path

from bench.report import write


def summary_of(folder: Path) -> str:
    write(folder)
    return (folder / "summary.md").read_text("utf-8")


def test_the_summary_begins_with_the_sentence(bad_night: Path) -> None:
    first = summary_of(bad_night).splitlines()[0].replace("\N{NO-BREAK SPACE}", " ")
    assert first == "# ⛔ ERROR: The bench itself broke in 1 of 5 cases, and 1 case failed."


def test_the_summary_counts_and_names_what_did_not_pass(bad_night: Path) -> None:
    text = summary_of(bad_night)
    assert "| 1 | 1 | 1 | 1 | 1 | 9 | 6 | 2 |" in text
    assert "| FAIL | two\\_stations-Mark-confirmed | Mark, confirmed | LNS |" in text
    assert "| LNS | expectation | 1 |" in text
    assert "    lorabench run --rig simulated --seed 7\n" in text


def test_text_cannot_leave_its_table_cell(write_score) -> None:
    hostile = "a|b\n# c <script> [x](y) `z`"
    verdict = {"case": hostile, "scenario": "test", "verdict": "FAIL"}
    text = summary_of(write_score(verdicts=[verdict]))
    assert "| a\\|b \\# c &lt;script\\> \\[x\\](y) \\`z\\` |" in text


def test_an_empty_run_has_a_summary(empty_night: Path) -> None:
    assert "nothing was measured" in summary_of(empty_night)
