from pathlib import Path
from xml.etree import ElementTree

from bench.report import write
from bench.report.summary import CaseState


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


def suite_of(folder: Path) -> ElementTree.Element:
    write(folder)
    suite = ElementTree.parse(folder / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    return suite


def test_one_testcase_for_each_verdict(bad_night: Path) -> None:
    suite = suite_of(bad_night)
    assert [testcase.get("name") for testcase in suite.iter("testcase")] == [
        "two_stations-Mark-confirmed",
        "two_stations-None-unconfirmed",
        "restart-Drop-confirmed",
        "join-Drop",
        "import-None",
    ]
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "1", "errors": "1", "skipped": "1"}


def test_each_verdict_has_its_element(bad_night: Path) -> None:
    cases = {case.get("name"): case for case in suite_of(bad_night).iter("testcase")}
    failure = cases["two_stations-Mark-confirmed"].find("failure")
    assert failure is not None
    assert failure.get("message") == "reception 1: SoftDuplicate was due, NonDuplicate was observed"
    assert "expected SoftDuplicate, observed NonDuplicate" in (failure.text or "")
    skipped = cases["restart-Drop-confirmed"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "station B was deaf"
    assert cases["import-None"].find("error") is not None
    assert [child.tag for child in cases["join-Drop"]] == ["properties", "flakyFailure"]


def test_the_properties_name_strategy_confirmation_seed_and_run(bad_night: Path) -> None:
    case = next(suite_of(bad_night).iter("testcase"))
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties == {
        "scenario": "test_two_stations",
        "strategy": "Mark",
        "confirmed": "true",
        "attempt": "1",
        "owner": "LNS",
        "seed": "7",
        "run": "20261121T020003Z-7f3a",
        "rig": "simulated",
    }


def test_text_that_xml_forbids_does_not_break_the_file(write_score) -> None:
    hostile = "]]><x>&\x00\x1b\ud800\uffff"
    verdict = {"case": hostile, "scenario": hostile, "verdict": "FAIL", "reasons": [hostile]}
    case = next(suite_of(write_score(verdicts=[verdict])).iter("testcase"))
    assert case.get("name") == "]]><x>&␀␛��"


def test_an_empty_run_is_an_empty_suite(empty_night: Path) -> None:
    assert suite_of(empty_night).get("tests") == "0"


def test_a_known_failure_is_skipped_and_every_case_says_how_it_stands(bad_night: Path) -> None:
    case = "two_stations-Mark-confirmed"
    state = CaseState("still_failing", "2026-11-18", "7e07562", "lns@main / x", "4f1c2d9", "LNS-4")
    write(bad_night, states={case: state})
    suite = ElementTree.parse(bad_night / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "2")
    first = next(suite.iter("testcase"))
    skipped = first.find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "known: LNS-4"
    properties = {p.get("name"): p.get("value") for p in first.iter("property")}
    assert {name: properties[name] for name in ("state", "since", "series", "dut")} == {
        "state": "still_failing", "since": "2026-11-18", "series": "lns@main / x", "dut": "4f1c2d9",
    }  # fmt: skip
