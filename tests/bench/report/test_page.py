import json
import re
import time
from pathlib import Path

from bench.report import write
from tests.bench.report.page_outline import Outline, outline
from tests.host_time import slowness

SECTIONS = "causes run findings scenarios statuses words answers imported ledger cases".split()


def written(folder: Path) -> Outline:
    return outline(write(folder).read_text("utf-8"))


def test_the_first_line_says_how_the_night_went(bad_night: Path) -> None:
    page = written(bad_night)
    assert "The bench itself broke in 1 of 5 cases, and 1 case failed." in page.text
    assert page.tags.count("h1") == 1


def test_the_sections_stand_in_the_order_of_reading(bad_night: Path) -> None:
    page = written(bad_night)
    assert [name for name in page.ids if name in SECTIONS] == SECTIONS


def test_what_only_a_score_knows_is_not_told_without_one(bad_night: Path) -> None:
    (bad_night / "score.json").unlink()
    page = written(bad_night)
    assert "Not scored yet" in page.text
    assert "transmissions on the air" not in page.text
    assert "Every line could be read." not in page.text
    shown = [name for name in page.ids if name in SECTIONS]
    assert shown == ["run", "findings", "scenarios", "imported", "cases"]
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert page.open_tags == []


def test_every_element_is_closed_and_every_id_is_unique(bad_night: Path) -> None:
    page = written(bad_night)
    assert page.open_tags == []
    assert len(page.ids) == len(set(page.ids))


def test_every_link_leads_to_a_place_on_the_page(bad_night: Path) -> None:
    page = written(bad_night)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_the_page_asks_for_nothing_from_outside(bad_night: Path) -> None:
    html = write(bad_night).read_text("utf-8")
    assert outline(html).requests == []
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_only_the_script_of_the_page_may_run(bad_night: Path) -> None:
    html = write(bad_night).read_text("utf-8")
    assert html.count("<script>") == 1
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='", html)


def test_a_verdict_is_a_word_and_not_only_a_colour(bad_night: Path) -> None:
    table = written(bad_night).text_of["scenarios"]
    assert "✗ FAIL" in table
    assert "? INCONCLUSIVE" in table
    assert "↻ PASS on repeat" in table
    assert "Several concentrators hear one frame" in table


def test_a_failed_cell_leads_to_the_story_of_its_case(bad_night: Path) -> None:
    page = written(bad_night)
    assert "#s0" in page.links
    story = page.text_of["s0"]
    assert "The copy of the second station counts as a first one." in story
    assert "expectedSoftDuplicate" in "".join(story.split())
    assert "the network server" in story
    assert "pytest scenarios/test_multi_concentrator.py::test_two_stations" in story


def test_a_story_has_a_drawing_and_the_decoded_capture_lines(bad_night: Path) -> None:
    page = written(bad_night)
    story = page.text_of["s0"]
    assert "svg" in page.tags
    assert "station A → LNS: updf 01ABCDEF FCnt 7, confirmed, FPort 2" in story
    assert "dnmsg 12: ack for 01ABCDEF, FCntDown 3" in story
    assert "▶ finding: lns-a decides on 01ABCDEF:7:2B11FF0D from station B" in story


def test_a_first_attempt_pass_has_no_story(bad_night: Path) -> None:
    page = written(bad_night)
    assert "s1" not in page.ids
    assert "#c1" in page.links


def test_a_finding_outside_every_case_is_told(bad_night: Path) -> None:
    assert "A line of air.jsonl is torn." in written(bad_night).text_of["o0"]


def test_the_heat_tables_use_the_exact_words(bad_night: Path) -> None:
    text = written(bad_night).text_of["statuses"]
    for word in (
        "NonDuplicate",
        "Duplicate",
        "SoftDuplicate",
        "DuplicateDueToResubmission",
        "no status",
        "missing",
    ):
        assert word in text
    assert "4 of 6 agree" in text
    assert "≠ 1" in text


def test_imported_traffic_has_its_own_section_with_its_notices(bad_night: Path) -> None:
    page = written(bad_night)
    assert "A week of somebody's traffic" in page.text_of["imported"]
    assert "CC BY 4.0, https://example.org/data" in page.text_of["imported"]
    assert "A week of somebody's traffic" not in page.text_of["scenarios"]


def test_without_imported_traffic_there_is_no_such_section(empty_night: Path) -> None:
    assert "imported" not in written(empty_night).ids


def test_the_ledger_tells_of_torn_lines_and_evictions(bad_night: Path) -> None:
    ledger = written(bad_night).text_of["ledger"]
    assert "Not readable" in ledger
    assert "Raise dedup.entries_max" in ledger
    assert "1 outcome missing" in ledger


def test_an_empty_run_says_that_nothing_was_measured(empty_night: Path) -> None:
    page = written(empty_night)
    assert "No case ran, so there is no verdict: nothing was measured." in page.text
    assert "12 (bench error)" in page.text_of["run"]


def test_what_was_not_judged_has_its_share_of_the_strip(write_score) -> None:
    verdict = {"group": "g", "scenario": "test_a", "file": "t.py", "title": "A.", "verdict": "PASS"}
    books = {"whole": False, "sentence": "incomplete: killed at case 2 of 8", "how": "killed"}
    books |= {"planned": 8, "judged": 1, "withheld": [{"case": "g/b", "reason": "cut"}]}
    books |= {"unplayed": [f"g/{name}" for name in "cdefgh"]}
    folder = write_score(verdicts=[{**verdict, "case": "g/a"}], wholeness=books)
    html = write(folder).read_text("utf-8")
    assert '<i class="ok" style="flex:1 0 0"></i>\n<i class="none" style="flex:7 0 0"></i>' in html
    assert "PASS · 12 %" in html
    assert (
        'class="none"' not in write(write_score(verdicts=[{**verdict, "case": "g/a"}])).read_text()
    )


def test_hostile_text_is_escaped_and_made_visible(write_score) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e\x00\ud800\"'&{{ 7 * 7 }}"
    verdict = {"case": hostile, "scenario": hostile, "file": hostile, "group": hostile}
    verdict |= {"title": hostile, "verdict": "FAIL", "reasons": [hostile], "owner": hostile}
    finding = {"case": hostile, "owner": hostile, "rule": hostile, "text": hostile}
    finding |= {"frame_id": hostile, "station": hostile, "expected": hostile, "observed": hostile}
    confusion = [{"expected": hostile, "observed": hostile, "count": 1}]
    answers = [{"strategy": hostile, "confirmed": None, "answer": "RX1", "count": 1}]
    folder = write_score(
        run=hostile,
        verdicts=[verdict],
        findings=[finding],
        confusion=confusion,
        answers=answers,
    )
    html = write(folder).read_text("utf-8")
    page = outline(html)
    assert "img" not in page.tags
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert "<img src=x onerror=alert(1)>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert not {"\u202e", "\x00", "\ud800"} & set(html)


def test_hostile_capture_text_is_quoted(bad_night: Path) -> None:
    page = written(bad_night)
    assert page.tags.count("script") == 1
    assert "“<script>alert('hostile')</script>”" in page.text_of["s0"]


def test_no_key_is_printed_wherever_it_stands(bad_night: Path) -> None:
    key = "2B7E151628AED2A6ABF7158809CF4F3C"
    spaced = " ".join(key[at : at + 2] for at in range(0, 32, 2))
    with (bad_night / "device-alpha.jsonl").open("a") as lines:
        for seq, text in enumerate((f"AT+APPKEY={key}", f'+KEY: APPKEY "{spaced}"'), 1):
            event = {"source": "device-alpha", "seq": seq, "t_us": 1020000 + seq}
            event |= {"kind": "device.line", "dev_eui": "70B3D57ED0000001", "text": text}
            lines.write(json.dumps(event) + "\n")
    write(bad_night)
    for name in ("report.html", "junit.xml", "summary.md"):
        text = (bad_night / name).read_text("utf-8")
        assert key not in text
        assert spaced not in text
        assert "00112233445566778899AABBCCDDEEFF" not in text
    assert "AT+APPKEY=****" in (bad_night / "report.html").read_text("utf-8")


def test_the_same_folder_gives_the_same_bytes(bad_night: Path) -> None:
    first = write(bad_night).read_bytes()
    assert write(bad_night).read_bytes() == first


def test_two_thousand_cases_stay_small_and_quick(write_score) -> None:
    verdicts = [
        {
            "case": f"a_rather_long_name_of_a_case_number_{n}[Mark-confirmed]",
            "scenario": f"test_a_scenario_with_a_long_name_{n // 2}",
            "file": "scenarios/test_catalogue.py",
            "group": "catalogue",
            "title": f"The requirement number {n // 2} in a sentence of some length",
            "strategy": ("Drop", "Mark", "None")[n % 3],
            "confirmed": n % 2 == 0,
            "verdict": "FAIL",
            "reasons": ["reception 1: SoftDuplicate was due, NonDuplicate was observed"],
            "begin_us": n * 1000,
            "end_us": n * 1000 + 999,
        }
        for n in range(2000)
    ]
    findings = [
        {"case": v["case"], "owner": "LNS", "rule": "expectation", "t_us": v["begin_us"]}
        for v in verdicts
        for _ in range(5)
    ]
    folder = write_score(verdicts=verdicts, findings=findings)
    with (folder / "lns-a.jsonl").open("w") as lines:
        for t_us in range(0, 2_000_000, 10):
            lines.write(
                f'{{"schema":1,"source":"lns-a","seq":{t_us},"t_us":{t_us},"kind":"lns.outcome",'
                f'"station":"B827EBFFFE000001","lns":"lns-a","status":"NonDuplicate"}}\n'
            )
    started = time.process_time()
    page = write(folder)
    assert time.process_time() - started < 15 * slowness()
    assert page.stat().st_size < 5_000_000
    assert "1960 more cases deserve a story" in outline(page.read_text("utf-8")).text


def test_a_report_is_never_written_through_a_link(bad_night: Path, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.write_text("gold")
    names = ("report.html", "summary.md", "junit.xml")
    for name in (*names, *(f".{name}.unfinished" for name in names)):
        (bad_night / name).unlink(missing_ok=True)
        (bad_night / name).symlink_to(treasure)
    write(bad_night)
    assert treasure.read_text() == "gold"
    assert all((bad_night / name).is_file() for name in names)
    assert not any((bad_night / name).is_symlink() for name in names)
