"""A run as its writers leave it, then damaged: what is said to be missing, and of which case."""

import gzip
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.capture import run_folder
from bench.capture.run_folder import Ending, replace, replacing
from bench.capture.wholeness import Wholeness, wholeness
from bench.verdict.case import Case, Title
from lns.capture import Capture
from tests.lns.test_capture import Ticks

CASES = ("a", "b", "c", "d")


def write(
    runs: Path,
    *,
    planned: tuple[str, ...] = CASES,
    played: tuple[str, ...] = CASES,
    broken_off: tuple[str, ...] = (),
    how: Ending | None = Ending.FINISHED,
    reason: str = "",
    seed: int = 1,
) -> Path:
    """A run folder of these cases; `how` None: it was killed."""
    started = datetime(2026, 11, 20, 2, 0, 3, tzinfo=UTC)
    run = run_folder.create(
        runs, rig="simulated", seed=seed, started=started, argv=[], inventory={}, planned=planned
    )
    capture = Capture(run.path, run.run_id, Ticks(), buffered=True)
    run_folder.begin(run, capture)
    for name in (*played, *broken_off):
        case = Case(Title(name, f"test_{name}", "f.py", "g", "T."), capture, rig="simulated")
        case.begin()
        for n in range(3):
            case.record("air", "air.said", {"n": n})
            case.record("lns-a", "lns.said", {"n": n})
        if name in played:
            case.end()
    capture.record("bench", "host.stalled", {"late_us": 7})
    if how is None:
        capture.close()
    else:
        run_folder.end(run, capture, how, reason=reason)
    return run.path


def withheld(found: Wholeness) -> dict[str, str]:
    return {one.case: one.reason for one in found.withheld}


def rewrite(file: Path, change: Callable[[list[str]], list[str]]) -> None:
    file.write_text("".join(change(file.read_text().splitlines(keepends=True))))


def test_a_run_that_ended_is_whole(tmp_path: Path) -> None:
    found = wholeness(write(tmp_path))
    assert found == Wholeness(planned=4, how="finished", begun=4, judged=CASES)
    assert (found.whole, found.sentence) == (True, "")


def test_a_compressed_run_is_as_whole_as_it_was(tmp_path: Path) -> None:
    run = write(tmp_path)
    for file in run.glob("*.jsonl"):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert wholeness(run).whole
    damaged = (run / "air.jsonl.gz").read_bytes()[:-20]
    (run / "air.jsonl.gz").write_bytes(damaged)
    found = wholeness(run)
    assert not found.whole
    assert set(withheld(found)) == set(CASES)
    assert any(hole.text.startswith("air.jsonl.gz: this compr") for hole in found.holes)


def test_a_killed_run_says_at_which_case_and_judges_those_before(tmp_path: Path) -> None:
    run = write(tmp_path, played=("a", "b"), broken_off=("c",), how=None)
    found = wholeness(run)
    assert found.judged == ("a", "b")
    assert withheld(found) == {"c": "incomplete: the run ended before this case did"}
    assert found.unplayed == ("d",)
    assert found.sentence == (
        "incomplete: killed at case 3 of 4; 1 case is not played;"
        " 1 case is not whole, and nobody is blamed for it"
    )


@pytest.mark.parametrize("how", [Ending.INTERRUPTED, Ending.STOPPED])
def test_a_run_that_ended_early_says_how_and_why(how: Ending, tmp_path: Path) -> None:
    run = write(tmp_path, played=("a",), how=how, reason="no board")
    found = wholeness(run)
    assert found.sentence == f"incomplete: {how} at case 1 of 4 (no board); 3 cases are not played"
    assert (found.judged, found.unplayed) == (("a",), ("b", "c", "d"))


def test_a_run_that_was_killed_before_its_first_case_is_incomplete(tmp_path: Path) -> None:
    found = wholeness(write(tmp_path, played=(), how=None))
    assert found.sentence == "incomplete: killed at case 0 of 4; 4 cases are not played"


def test_a_capture_cut_after_the_end_of_a_case_is_no_shorter_run(tmp_path: Path) -> None:
    run = write(tmp_path)
    ends = {"bench": '"kind":"case.end","case":"b"', "air": '"case":"b","n":2', "lns-a": ""}
    ends["lns-a"] = ends["air"]
    for name, last in ends.items():

        def cut(lines: list[str], last: str = last) -> list[str]:
            place = next(place for place, line in enumerate(lines) if last in line)
            return lines[: place + 1]

        rewrite(run / f"{name}.jsonl", cut)
    found = wholeness(run)
    assert (found.judged, found.unplayed) == (("a", "b"), ("c", "d"))
    assert found.sentence.startswith(
        "incomplete: 2 of 4 cases have vanished from its books; air has 6 lines, and had 12"
    )


def test_a_deleted_line_withholds_its_case_and_no_other(tmp_path: Path) -> None:
    run = write(tmp_path)
    rewrite(run / "lns-a.jsonl", lambda lines: [*lines[:4], *lines[5:]])
    found = wholeness(run)
    assert withheld(found) == {"b": "incomplete: 1 of its 3 lines in lns-a are missing"}
    assert found.judged == ("a", "c", "d")
    assert [str(hole.rule) for hole in found.holes] == ["no gaps in seq", "lines as counted"]
    assert found.holes[0].text == "lns-a goes on with seq 5: 4 is missing"


def test_a_doubled_line_withholds_its_case_and_no_other(tmp_path: Path) -> None:
    run = write(tmp_path)
    rewrite(run / "air.jsonl", lambda lines: [*lines[:5], lines[4], *lines[5:]])
    found = wholeness(run)
    assert withheld(found) == {"b": "incomplete: the stream air has holes"}
    assert [str(hole.rule) for hole in found.holes] == ["no line twice", "lines as counted"]


def test_a_torn_line_withholds_its_case_and_no_other(tmp_path: Path) -> None:
    run = write(tmp_path)
    rewrite(run / "air.jsonl", lambda lines: [*lines[:7], lines[7][:20] + "\n", *lines[8:]])
    found = wholeness(run)
    assert withheld(found) == {"c": "incomplete: 1 of its 3 lines in air are missing"}
    assert {str(hole.rule) for hole in found.holes} == {"torn lines"}


def test_a_stream_that_is_missing_withholds_the_cases_that_wrote_to_it(tmp_path: Path) -> None:
    for how in (Ending.FINISHED, None):
        run = write(tmp_path, how=how)
        (run / "lns-a.jsonl").unlink()
        found = wholeness(run)
        assert set(withheld(found)) == set(CASES)
        assert found.judged == ()
    assert withheld(found)["a"] == "incomplete: 3 of its 3 lines in lns-a are missing"


def test_without_the_stream_of_the_bench_nothing_was_played(tmp_path: Path) -> None:
    run = write(tmp_path)
    (run / "bench.jsonl").unlink()
    found = wholeness(run)
    assert found.sentence == (
        "incomplete: 4 of 4 cases have vanished from its books; the stream bench is missing"
    )


def test_a_line_that_was_changed_withholds_every_case_of_its_stream(tmp_path: Path) -> None:
    run = write(tmp_path)
    file = run / "air.jsonl"
    file.write_text(file.read_text().replace('"case":"c","n":1', '"case":"c","n":2'))
    found = wholeness(run)
    assert set(withheld(found)) == set(CASES)
    assert [str(hole.rule) for hole in found.holes] == ["checksum"]


def test_lines_in_another_order_withhold_the_cases_beside(tmp_path: Path) -> None:
    run = write(tmp_path)
    rewrite(run / "air.jsonl", lambda lines: [lines[1], lines[0], *lines[2:]])
    assert "a" in withheld(wholeness(run))


def test_a_lost_line_that_names_no_case_leaves_the_cases_beside_it_in_doubt(tmp_path: Path) -> None:
    run = write(tmp_path)
    rewrite(run / "bench.jsonl", lambda lines: [line for line in lines if "stalled" not in line])
    found = wholeness(run)
    assert not found.whole
    assert withheld(found) == {"d": "incomplete: the stream bench has holes"}


def test_a_stream_that_the_run_did_not_have_is_no_evidence(tmp_path: Path) -> None:
    run = write(tmp_path)
    (run / "lns-b.jsonl").write_text((run / "lns-a.jsonl").read_text().replace("lns-a", "lns-b"))
    found = wholeness(run)
    assert set(withheld(found)) == set(CASES)
    assert "the stream lns-b is not one that this run had" in found.sentence


def test_without_a_case_begin_a_case_cannot_be_judged(tmp_path: Path) -> None:
    run = write(tmp_path)
    rewrite(
        run / "bench.jsonl",
        lambda lines: [line for line in lines if '"case.begin","case":"b"' not in line],
    )
    found = wholeness(run)
    assert withheld(found) == {"b": "incomplete: its beginning is missing"}
    assert found.unplayed == ()


def test_a_manifest_that_cannot_be_read_makes_the_run_incomplete(tmp_path: Path) -> None:
    run = write(tmp_path)
    (run / "manifest.json").write_text('{"schema": 1, "planned": ["a"')
    found = wholeness(run)
    assert found.judged == CASES
    assert found.sentence == ("incomplete: manifest.json cannot be read: nobody knows the plan")


def without(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda said: {name: value for name, value in said.items() if name not in names}


MANIFESTS: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "emptied": (lambda said: {}, "manifest.json does not say what was planned"),
    "without a plan": (without("planned"), "manifest.json does not say what was planned"),
    "without streams": (
        without("streams"),
        "manifest.json does not say what its streams were",
    ),
    "without an end and streams": (
        without("ended", "streams"),
        "manifest.json does not say what its streams were",
    ),
    "a shorter plan": (
        lambda said: {**said, "planned": ["a", "b", "c"]},
        "manifest.json plans 3 cases, and its run 4",
    ),
    "a stream without its book": (
        lambda said: {**said, "streams": {**said["streams"], "air": None}},
        "the stream air is not one that this run had",
    ),
}


@pytest.mark.parametrize("damage", MANIFESTS)
def test_a_manifest_that_says_less_than_its_run_had_makes_it_incomplete(
    damage: str, tmp_path: Path
) -> None:
    change, says = MANIFESTS[damage]
    run = write(tmp_path)
    file = run / "manifest.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    found = wholeness(run)
    assert not found.whole
    assert says in found.sentence


def test_a_run_without_its_manifest_is_incomplete(tmp_path: Path) -> None:
    run = write(tmp_path, how=None)
    (run / "manifest.json").unlink()
    found = wholeness(run)
    assert found.sentence == "incomplete: manifest.json does not say what was planned"
    assert found.judged == CASES


def renumbered(lines: list[str]) -> list[str]:
    rows = [json.loads(line) | {"seq": seq} for seq, line in enumerate(lines)]
    return [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]


def jumped(lines: list[str]) -> list[str]:
    rows = [json.loads(line) for line in lines]
    for row in rows[len(rows) // 2 :]:
        row["t_us"] += 10_000_000
    return [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]


def third(lines: list[str]) -> int:
    return len(lines) // 3


# Which stream is edited, how, and which cases nobody judges any more. A run that was killed has no
# checksums: there only what its books and its marks tell can be found.
FORGERIES: dict[str, tuple[str, Callable[[list[str]], list[str]], set[str]]] = {
    "a tap that loses what comes down": (
        "air",
        lambda lines: renumbered([line for line in lines if '"n":1' not in line]),
        set(CASES),
    ),
    "a clock that jumps": ("lns-a", jumped, set(CASES)),
    "the middle third is gone": (
        "lns-a",
        lambda lines: renumbered([*lines[: third(lines)], *lines[2 * third(lines) :]]),
        {"b", "c"},
    ),
    "a case is there twice": (
        "bench",
        lambda lines: renumbered(
            [*lines[:-1], *[line for line in lines if '"case":"b"' in line], lines[-1]]
        ),
        {"b"},
    ),
    "events out of order": ("lns-a", lambda lines: renumbered(lines[::-1]), set(CASES)),
    "a case that ends otherwise": (
        "bench",
        lambda lines: [line.replace('"verdict":"ERROR"', '"verdict":"PASS"') for line in lines],
        set(CASES),
    ),
}


COUNTED = ("a tap that loses what comes down", "the middle third is gone", "a case is there twice")
"""What books and marks tell, without any checksum."""


@pytest.mark.parametrize(
    ("forgery", "how"),
    [*((name, Ending.FINISHED) for name in FORGERIES), *((name, None) for name in COUNTED)],
)
def test_what_was_edited_from_outside_is_evidence_against_nobody(
    forgery: str, how: Ending | None, tmp_path: Path
) -> None:
    run = write(tmp_path, how=how)
    stream, change, withholds = FORGERIES[forgery]
    rewrite(run / f"{stream}.jsonl", change)
    found = wholeness(run)
    assert "not whole, and nobody is blamed for" in found.sentence
    assert set(withheld(found)) == withholds


@pytest.mark.parametrize(
    "books", ["1", "[1]", "null", '[{"source":"air","lines":"9","last_seq":9}]', '[{"lines":9}]']
)
def test_a_case_whose_books_nobody_can_read_is_not_judged(books: str, tmp_path: Path) -> None:
    run = write(tmp_path, how=None)

    def changed(lines: list[str]) -> list[str]:
        [end] = [at for at, line in enumerate(lines) if json.loads(line)["kind"] == "case.end"][:1]
        row = json.loads(lines[end]) | {"books": json.loads(books)}
        return [*lines[:end], json.dumps(row) + "\n", *lines[end + 1 :]]

    rewrite(run / "bench.jsonl", changed)
    assert withheld(wholeness(run))["a"] == "incomplete: nobody can read its books"


def test_a_line_that_is_no_utf_8_is_torn(tmp_path: Path) -> None:
    run = write(tmp_path, how=None)
    with (run / "lns-a.jsonl").open("ab") as file:
        file.write(b'{"seq":99,"t_us":1,"source":"lns-a","kind":"\xff"}\n')
    texts = [hole.text for hole in wholeness(run).holes]
    assert any(text.startswith("lns-a: line ") and text.endswith(" is torn") for text in texts)


@pytest.mark.parametrize("how", [Ending.FINISHED, None])
def test_a_stream_of_another_run_is_no_evidence(how: Ending | None, tmp_path: Path) -> None:
    run, other = write(tmp_path, how=how), write(tmp_path, seed=2)
    (run / "air.jsonl").write_bytes((other / "air.jsonl").read_bytes())
    found = wholeness(run)
    assert set(withheld(found)) == set(CASES)
    assert "air: line 1 is of another run" in found.sentence


def test_a_copy_under_the_name_of_another_stream_is_no_evidence(tmp_path: Path) -> None:
    run = write(tmp_path, how=None)
    (run / "tap-1.jsonl").write_bytes((run / "air.jsonl").read_bytes())
    found = wholeness(run)
    assert (found.judged, set(withheld(found))) == ((), set(CASES))
    assert "tap-1: line 1 is of another stream" in found.sentence


def test_a_line_less_in_the_stream_of_the_bench_is_missed_whatever_its_numbers(
    tmp_path: Path,
) -> None:
    run = write(tmp_path, how=None)
    had = '{"source":"bench","lines":1,"last_seq":3}', '{"source":"bench","lines":2,"last_seq":4}'
    rewrite(run / "bench.jsonl", lambda lines: [line.replace(*had) for line in lines])
    assert withheld(wholeness(run)) == {"b": "incomplete: 1 of its 2 lines in bench are missing"}


def test_no_stream_is_taken_at_its_word_beside_a_bench_that_is_of_another_run(
    tmp_path: Path,
) -> None:
    run, other = write(tmp_path), write(tmp_path, played=("a", "b"))
    for name in ("bench", "lns-a"):
        (other / f"{name}.jsonl").write_bytes((run / f"{name}.jsonl").read_bytes())
    found = wholeness(other)
    assert found.judged == ("a", "b")
    assert withheld(found)["c"] == "incomplete: 3 of its 3 lines in air are missing"


@pytest.mark.parametrize("name", ["[5]", "{}", "5", "null"])
def test_an_end_whose_case_is_no_text_is_none(name: str, tmp_path: Path) -> None:
    run = write(tmp_path, how=None)
    named = '"case.end","case":"b"', f'"case.end","case":{name}'
    rewrite(run / "bench.jsonl", lambda lines: [line.replace(*named) for line in lines])
    found = wholeness(run)
    assert withheld(found)["b"] == "incomplete: the run ended before this case did"


def test_a_case_that_is_in_no_book_is_no_evidence(tmp_path: Path) -> None:
    run = write(tmp_path)
    rewrite(run / "bench.jsonl", lambda lines: lines[:3])
    rewrite(run / "air.jsonl", lambda lines: [*lines[:-1], lines[-1].replace('"d"', "5")])
    assert wholeness(run).strange == ("5", "b", "c", "d")


def test_a_manifest_of_another_run_is_told(tmp_path: Path) -> None:
    run, other = write(tmp_path, how=None), write(tmp_path, how=None, seed=2)
    (run / "manifest.json").write_bytes((other / "manifest.json").read_bytes())
    assert "manifest.json is of another run" in wholeness(run).sentence


def test_a_torn_end_of_a_killed_run_spoils_no_case_that_was_whole(tmp_path: Path) -> None:
    run = write(tmp_path, played=("a", "b"), broken_off=("c",), how=None)
    for name in ("air", "lns-a"):
        file = run / f"{name}.jsonl"
        file.write_bytes(file.read_bytes()[:-150])
    found = wholeness(run)
    assert found.judged == ("a", "b")
    assert set(withheld(found)) == {"c"}


def as_of_an_older_version(run: Path) -> None:
    """Lines without a beginning and an end of the run, and without books."""
    for file in run.glob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        lines = [line for line in lines if not line["kind"].startswith("run.")]
        for seq, line in enumerate(lines):
            line["seq"] = seq
            line.pop("books", None)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_run_of_an_older_version_is_judged_by_its_numbers(tmp_path: Path) -> None:
    run = write(tmp_path)
    manifest = json.loads((run / "manifest.json").read_text())
    for name in ("planned", "ended", "streams"):
        del manifest[name]
    (run / "manifest.json").write_text(json.dumps(manifest))
    as_of_an_older_version(run)
    found = wholeness(run)
    assert (found.whole, found.planned, found.how) == (True, None, "")
    assert found.judged == CASES
    rewrite(run / "air.jsonl", lambda lines: [*lines[:4], *lines[5:]])
    assert withheld(wholeness(run)) == {"b": "incomplete: the stream air has holes"}


def test_an_older_run_that_was_killed_does_not_judge_its_last_case(tmp_path: Path) -> None:
    run = write(tmp_path, played=("a",), broken_off=("b",), how=None)
    (run / "manifest.json").write_text("{}")
    as_of_an_older_version(run)
    assert set(withheld(wholeness(run))) == {"b"}


def test_a_file_takes_the_place_of_a_link_and_leaves_what_it_names(tmp_path: Path) -> None:
    treasure, run = tmp_path / "treasure", tmp_path / "run"
    treasure.write_text("gold")
    run.mkdir()
    aside = f".report.html.{os.getpid()}.unfinished"
    for name in ("report.html", aside, ".report.html.unfinished"):
        (run / name).symlink_to(treasure)
    replace(run / "report.html", b"<html>")
    assert treasure.read_text() == "gold"
    assert not (run / "report.html").is_symlink()
    assert (run / "report.html").read_bytes() == b"<html>"


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "score.json"
    path.write_text("old")
    with pytest.raises(OSError, match="disk"), replacing(path) as file:
        file.write(b"half")
        raise OSError("the disk is full")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("score.json", "old")]
