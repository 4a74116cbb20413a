"""`lorabench timeline` on a small run folder."""

import json
from pathlib import Path

import pytest

from bench.cli.program import main
from tests.bench.report.timeline_run import FAILED, write_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_run(tmp_path / "runs")


def test_the_verdict_and_its_reasons_come_first(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", "latest", "two_stations mark", "--width", "120"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        f"FAIL (LNS)  {FAILED}",
        "  #1 through east: expected SoftDuplicate, observed NonDuplicate",
        "  First divergence at 0.109500 s: due: SoftDuplicate marked Suppressed",
        "",
    ]
    assert "run runs/20261121T020003Z-7f3a, strategy Mark" in lines
    assert "stations: west B827EBFFFE000001, east B827EBFFFE000002" in lines
    (marked,) = [line for line in lines if line.startswith("▶ 0.109500")]
    assert "FIRST DIVERGENCE: NonDuplicate · forwarded" in marked
    assert max(map(len, lines)) <= 120
    assert not any("\x1b" in line for line in lines)


def test_json_gives_the_events_in_order(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", str(run), FAILED, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["owner"]) == ("FAIL", "LNS")
    assert told["first_divergence"]["seconds"] == "0.109500"
    times = [event["line"]["t_us"] for event in told["events"]]
    assert len(times) == 16
    assert times == sorted(times)
    (diverging,) = [event for event in told["events"] if event["text"].startswith("NonDuplicate ·")
                    and event["diverges"]]  # fmt: skip
    assert diverging["way"] == ["lns-a"]
    (lost,) = [event for event in told["events"] if event["lost"]]
    assert lost["way"] == ["lns-a", "tap", "B827EBFFFE000001"]


def test_a_long_case_is_shown_around_its_divergence(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", str(run), FAILED, "--limit", "3"]) == 0
    shown = capsys.readouterr().out
    assert "FIRST DIVERGENCE" in shown
    assert "13 events are not shown; --limit 16 shows all." in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["latest", "two_stations"], "2 cases of runs/20261121T020003Z-7f3a fit 'two_stations'"),
        (["latest", "two_stations"], "copies/two_stations[None]  PASS"),
        (["latest", "two_statons"], "The nearest:\n  copies/two_stations[Mark]"),
        (["latest", "zzz"], "The nearest:\n  copies/two_stations[Mark]"),
        (["nowhere", "x"], "There is no run nowhere"),
        (["latest", "x", "--limit", "0"], "--limit must be 1 or more"),
        ([], "requires an argument"),
    ],
)
def test_a_mistake_is_answered_with_what_is_there(
    run: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", *words]) == 4
    output = capsys.readouterr()
    assert said in output.err
    assert output.out == ""


def test_without_a_case_all_are_listed_and_what_failed_comes_first(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", "latest"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.split()[1] == "copies/two_stations[Mark]" and not first.startswith("PASS")
    assert "One of them:  lorabench timeline runs/20261121T020003Z-7f3a" in last
    assert main(["timeline", "latest", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cases"][0]["case"] == "copies/two_stations[Mark]"


def test_a_run_without_cases_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "bench.jsonl").unlink()
    assert main(["timeline", "latest", "x"]) == 4
    assert "holds no case" in capsys.readouterr().err


def test_a_case_cut_short_is_shown_as_far_as_it_goes(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", "latest", "join"]) == 0
    assert "no verdict: the run ended before the case did" in capsys.readouterr().out


def test_another_verdict_of_spark_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = {"case": FAILED, "scenario": "test_two_stations", "verdict": "PASS"}
    score = {"schema": 1, "run": run.name, "verdicts": [verdict]}
    (run / "score.json").write_text(json.dumps(score))
    assert main(["timeline", "latest", FAILED]) == 0
    assert "Spark's verdict is another one: PASS" in capsys.readouterr().out


def test_hostile_texts_are_shown_and_harmless(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = {"source": "device-alpha", "seq": 1, "t_us": 1_011_000, "kind": "device.line"}
    hostile |= {"dev_eui": "70B3D57ED0000001", "text": "+EVT:\x1b[31m\n\ud800" + "x" * 9000}
    with (run / "device-alpha.jsonl").open("a") as lines:
        lines.write(json.dumps(hostile) + "\n[1]\nnull\n")
    assert main(["timeline", "latest", FAILED]) == 0
    assert main(["timeline", "latest", FAILED, "--json"]) == 0
    assert "\x1b" not in capsys.readouterr().out
