"""The commands of the morning: what they print, how fast, and what they tell the shell."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli.nights import Morning, annotate, annotations, states_of
from bench.cli.program import COMMANDS, main
from bench.night.memory import remembered
from bench.night.morning import Change, Line, Night
from bench.night.series import Known
from tests.bench.night.written_nights import night_of, write_night
from tests.host_time import slowness
from tests.lns.test_capture import disk_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve nights on real time: a failure since the tenth, and a case that flakes."""
    folder = tmp_path_factory.mktemp("nights") / "runs"
    for number in range(12):
        outcomes = {"group/steady[Drop]": "PASS", "group/steady[Mark]": "PASS"}
        outcomes["group/breaks"] = "PASS" if number < 10 else "FAIL"
        outcomes["group/flakes"] = "FAIL" if number in (3, 7) else "PASS"
        lab = {("station", "0016C001F1500001"): (30 if number > 8 else 0, 100)}
        write_night(folder, number, outcomes, lab=lab, margins={"data": (22_000, 31_500)})
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_nights_are_a_line_each_the_newest_first(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, first, second, third, *_ = said(capsys, "nights", "--runs", str(runs), "-n", "3").split(
        "\n"
    )
    assert head.split()[:4] == ["night", "line", "build", "rig"]
    assert first.split() == (
        f"{night_of(11)} lns@main 0000000b0000 emulated 3 PASS 1 FAIL – 31.5 ms 1".split()
    )
    assert "+1" in second
    assert third.startswith(night_of(9))
    told = json.loads(said(capsys, "nights", "--runs", str(runs), "--json", "-n", "1"))
    assert (told[0]["baseline"], told[0]["gate_new"]) == (night_of(10), 10)


@pytest.mark.parametrize("manifest", ["{", "[]", '{"night": 5}', '"\\ud800"', "[" * 60_000])
def test_a_run_whose_manifest_nobody_can_read_is_told(
    manifest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        write_night(tmp_path, number, {"group/steady": "PASS"})
    torn = sorted(path for path in tmp_path.iterdir() if path.is_dir())[-1]
    (torn / "manifest.json").write_text(manifest)
    for _ in range(2):  # it is remembered
        assert main(["nights", "--runs", str(tmp_path)]) == 0
        output = capsys.readouterr()
        assert output.err == f"{torn} is of no night: its manifest cannot be read.\n"
        assert night_of(2) not in output.out
    shutil.rmtree(torn)
    assert main(["nights", "--runs", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("damage", [b"\xff", b'{"z":' + b"[" * 60_000, b'{"lost":["\xff"]}'])
def test_a_memory_that_nobody_can_read_is_made_anew(
    damage: bytes, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = said(capsys, "nights", "--runs", str(runs))
    (runs / "nights.json").write_bytes(damage)
    assert said(capsys, "nights", "--runs", str(runs)) == before


def test_the_page_of_all_nights_is_written_anew(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "nights", "--page", "--runs", str(runs))
    assert "still failing" in (runs / "nights.html").read_text("utf-8")


def test_history_shows_the_strip_the_segments_and_the_first_bad_build(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = said(capsys, "history", "breaks", "--runs", str(runs))
    assert "··········FF" in shown
    assert f"still failing since {night_of(10)} (build 0000000a0000)" in shown
    assert f"last pass  {night_of(9)}, build 000000090000" in shown
    assert "2/12 failed of the last 30 (95 % 5–45 %)" in shown
    assert "report.html" in shown


@pytest.mark.parametrize(
    ("strip", "rig", "first"),
    [
        ("·F", "emulated", f"new failure since {night_of(1)} (build 000000010000)"),
        ("·F·F·F", "emulated", f"flaky; failing since {night_of(5)} (build 000000050000)"),
        ("·- ", "simulated", f"lost; passing since {night_of(0)} (build 000000000000)"),
        ("·???", "simulated", f"unsettled; passing since {night_of(0)} (build 000000000000)"),
        ("???", "simulated", "unsettled"),
        (
            "·F·",
            "simulated",
            f"fixed since {night_of(2)} (build 000000020000),"
            " unconfirmed until it has passed three times",
        ),
    ],
)
def test_the_first_line_of_a_history_is_true_to_the_letter(
    strip: str, rig: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"·": "PASS", "F": "FAIL", "?": "INCONCLUSIVE"}
    for number, glyph in enumerate(strip):
        of_case = {"group/a": words[glyph]} if glyph in words else {}
        write_night(tmp_path, number, {"group/steady": "PASS", **of_case}, rig=rig)
    [_, told, *_] = said(capsys, "history", "group/a", "--runs", str(tmp_path)).split("\n")
    assert told == first


def test_history_asks_for_more_where_a_name_fits_several(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "steady", "--runs", str(runs)]) == 4
    assert "group/steady[Drop], group/steady[Mark]: say more of it" in capsys.readouterr().err
    assert main(["history", "brakes", "--runs", str(runs)]) == 4
    assert "group/breaks" in capsys.readouterr().err.partition("The nearest: ")[2]


def test_flaky_cases_have_an_interval(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [_, row, *_] = said(capsys, "flaky", "--runs", str(runs)).split("\n")
    assert row.split()[:4] == ["group/flakes", "2/12", "5–45", "%"]


def test_what_was_not_seen_to_flake_is_told_with_how_often_it_was_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        write_night(tmp_path, number, {"group/a[Drop]": "PASS", "group/a[Mark]": "PASS"})
    assert said(capsys, "flaky", "--runs", str(tmp_path)).startswith(
        "No case flakes. (Seen 0/4: up to 49 %.)"
    )


def test_a_case_is_named_by_several_parts(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "group/breaks" in said(capsys, "history", "BREAKS group/", "--runs", str(runs))


def test_the_lab_has_a_row_a_part(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [_, row, *_] = said(capsys, "lab", "--runs", str(runs)).split("\n")
    assert row.split()[:3] == ["station", "0016C001F1500001", "emulated"]
    assert "sick (3 nights)" in row


def test_known_failures_are_added_listed_and_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ["--known", str(tmp_path / "known.toml")]
    assert "Nothing" in said(capsys, "known", *file)
    said(capsys, "known", "add", "group/br*", "--issue", "LNS-1", "--until", "2026-01-31", *file)
    said(capsys, "known", "add", "x[Drop]", "--issue", 'a "quoted" one', *file)
    rows = json.loads(said(capsys, "known", "--json", *file))
    assert [(row["case"], row["issue"], row["until"]) for row in rows] == [
        ("group/br*", "LNS-1", "2026-01-31"),
        ("x[Drop]", 'a "quoted" one', None),
    ]
    [row] = json.loads(said(capsys, "known", "expired", "--json", *file))
    assert row["case"] == "group/br*"
    assert row["days_left"] < 0
    assert main(["known", "add", "x", *file]) == 4


def test_a_full_disk_takes_no_known_failure_that_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shared.toml").write_text(f"# {'x' * 2000}\n")
    file = tmp_path / "known.toml"
    file.symlink_to("shared.toml")
    words = ["known", "add", "group/x", "--issue", "LNS-1", "--known", str(file)]
    with disk_of(1_000):
        assert main(words) == 12
    assert (tmp_path / "shared.toml").read_text() == f"# {'x' * 2000}\n"
    assert main(words) == 0
    assert file.is_symlink()
    assert "group/x" in capsys.readouterr().out
    assert 'issue = "LNS-1"' in (tmp_path / "shared.toml").read_text()


def test_a_file_of_known_failures_that_cannot_be_used_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "known.toml"
    for text, why in (
        ("[[known]]\ncase = 'a'\n", "number 1: it lacks issue"),
        ("[[known]]\ncase = 'a'\nissue = 'b'\nuntill = 2026-01-01\n", "untill is none of"),
        ("[[known]]\ncase = 'a'\nissue = 'b'\nuntil = 'soon'\n", "until is a date"),
        ("[[known]]\ncase = 1\nissue = 'b'\n", "case is a text"),
        ("known = 1\n", "tables [[known]] and nothing else"),
        ("known = " + "[" * 9_999, "known.toml: "),
        ("[[", "known.toml"),
    ):
        file.write_text(text)
        assert main(["known", "--known", str(file)]) == 4
        assert why in capsys.readouterr().err
    file.write_text("\ufeff[[known]]\ncase = 'a'\nissue = 'b'\n", "utf-8")
    assert main(["known", "--known", str(file)]) == 0


def test_nights_and_builds_are_compared(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [night_of(9), "lns@main@0000000a"]
    assert main(["compare", *names, "--runs", str(runs)]) == 10
    assert "group/breaks" in capsys.readouterr().out
    assert main(["compare", night_of(10), "latest", "--runs", str(runs), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pairs"], told["outcome"], told["differences"]) == (4, "not_worse", [])


def test_without_a_night_one_is_told_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["nights"], ["flaky"], ["lab"], ["history", "a"]):
        assert main([*words, "--runs", str(tmp_path)]) == 4
        assert "`lorabench nightly` makes one" in capsys.readouterr().err


@pytest.mark.programs
@pytest.mark.parametrize("words", [["nights"], ["flaky"], ["lab"], ["history", "breaks"]])
def test_they_answer_in_under_half_a_second_without_spark(runs: Path, words: list[str]) -> None:
    code = (
        "import sys; from bench.cli.program import main; main(sys.argv[1:]);"
        "sys.exit('pyspark' in sys.modules or 'pytest' in sys.modules)"
    )

    def seconds_of_a_processor() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", code, *words, "--runs", str(runs)],
            check=True,
            capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    # What others do at the same time makes a processor slower, and none faster.
    assert any(seconds_of_a_processor() < 0.75 * slowness() for _ in range(3))


def a_morning(changes: int) -> Morning:
    told = [
        Change(kind="new_failure", case=f"c{n}", text="a, b: 100 %\nno", gated=True)
        for n in range(changes)
    ]
    line = Line(bench="", rig="emulated", line="lns@main")
    return Morning(line, Night(night="2026-11-20", changes=told), 1, Path("runs/nights.html"))


def test_a_build_job_gets_nine_annotations_and_the_number_of_the_rest() -> None:
    lines = annotations(a_morning(12))
    assert lines[0] == "::error title=new failure%3A c0::a, b: 100 %25%0Ano"
    assert len(lines) == 10
    assert lines[-1] == "::notice ::… and 3 more, in nights.html"
    assert annotations(a_morning(0)) == []


def test_the_summary_of_a_step_is_written_where_the_build_job_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "summary.md").write_text("# the run\n")
    into = tmp_path / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(into))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    annotate(a_morning(1), [tmp_path / "summary.md"])
    assert not into.exists()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    annotate(a_morning(1), [tmp_path / "summary.md", tmp_path / "nothing.md"])
    assert into.read_text() == "# the run\n\n"
    assert "::error title=new failure%3A c0" in capsys.readouterr().out


def test_the_states_of_the_cases_go_into_the_reports_of_the_runs(runs: Path) -> None:
    [line] = remembered(runs).lines
    morning = Morning(line, line.nights[-1], 1, runs / "nights.html")
    states = states_of(morning, [Known(case="group/br*", issue="LNS-1")])
    assert states["group/breaks"].known == "LNS-1"
    assert states["group/breaks"].since == night_of(10)
    assert states["group/breaks"].series == "emulated / lns@main / group/breaks"
    assert states["group/steady[Drop]"].state == "passing"


def test_every_new_command_has_help_with_its_own_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("nights", "history", "compare", "flaky", "lab", "known"):
        assert name in COMMANDS
        assert main([name, "--help"]) == 0
        assert f"lorabench {name}" in capsys.readouterr().out


@pytest.mark.programs
def test_a_shell_completes_commands(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    code = "import sys; from bench.cli.program import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "--install-completion", "--shell", "bash"]
    subprocess.run(words, check=True, capture_output=True, env=env, cwd=tmp_path)
    [script] = [path for path in tmp_path.rglob("*") if path.is_file() and "lorabench" in path.name]
    assert "nightly" in script.read_text()
    assert "history" in script.read_text()
