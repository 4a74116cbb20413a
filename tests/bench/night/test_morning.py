"""What changed tonight, state by state, as the definitions have it."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from bench.lab.inventory import Inventory, NoSuchPart, load
from bench.night.memory import (
    SEEN_WELL,
    main_run,
    newest_night,
    note_well,
    remembered,
    sick_parts,
)
from bench.night.morning import Night, gate, with_known
from bench.night.series import Known, State
from tests.bench.night.written_nights import night_of, write_night

WORDS = {
    ".": "PASS", "F": "FAIL", "?": "INCONCLUSIVE", "!": "ERROR", "r": "REPEAT",
    "G": ("FAIL", "NonDuplicate"),
}  # fmt: skip


def played(runs: Path, strip: str, **more: Any) -> list[Night]:
    """The nights of a case with this strip, beside one that always passes; " " did not run."""
    for number, glyph in enumerate(strip):
        outcomes = {"steady": "PASS"}
        outcomes |= {} if glyph in " -" else {"case": WORDS[glyph]}  # type: ignore[dict-item]
        left_out = ["case"] if glyph == "-" else []
        write_night(runs, number, outcomes, left_out=left_out, **more)
    [line] = remembered(runs).lines
    return line.nights


def kinds(night: Night) -> list[str]:
    return [change.kind for change in night.changes if change.case in ("case", "")]


def state(runs: Path) -> State:
    return remembered(runs).lines[0].series["case"].state


@pytest.mark.parametrize(
    ("strip", "changed", "now"),
    [
        (".", ["new_case"], State.NEW_CASE),
        ("F", ["new_case_failing"], State.NEW_CASE_FAILING),
        ("...F", ["new_failure"], State.NEW_FAILURE),
        ("...??F", ["new_failure"], State.NEW_FAILURE),
        ("...FF", [], State.STILL_FAILING),
        ("...FG", ["changed_failure"], State.CHANGED_FAILURE),
        ("...F?F", [], State.STILL_FAILING),
        ("...F.", ["fixed"], State.FIXED),
        ("...F!.", ["fixed"], State.FIXED),
        ("....", [], State.PASSING),
        ("...F.F", ["new_failure"], State.NEW_FAILURE),
        ("...?", [], State.PASSING),
        ("...???", ["unsettled"], State.UNSETTLED),
        ("...????", [], State.UNSETTLED),
        ("... ", ["lost"], State.LOST),
        ("...  ", [], State.LOST),
        ("...-", [], State.PASSING),
        ("...F-", [], State.STILL_FAILING),
        ("-----", [], State.UNPROVEN),
        ("-.", ["new_case"], State.NEW_CASE),
        ("...r", [], State.PASSING),
    ],
)
def test_states_on_the_simulated_rig(
    tmp_path: Path, strip: str, changed: list[str], now: State
) -> None:
    nights = played(tmp_path, strip, rig="simulated")
    assert kinds(nights[-1]) == changed
    assert state(tmp_path) is now


@pytest.mark.parametrize(
    ("strip", "changed", "now"),
    [
        ("." * 20 + "F", ["new_failure"], State.NEW_FAILURE),
        ("." * 20 + "FF", [], State.STILL_FAILING),
        ("." * 20 + "FFF.", ["fixed"], State.FIXED),
        ("." * 20 + "FFF.F", [], State.STILL_FAILING),
        ("." * 20 + "F.", ["flaky"], State.FLAKY),
        ("." * 20 + "F.F", [], State.FLAKY),
        ("." * 10 + "F...F" + "." * 10 + "FFFFFF", ["new_failure"], State.NEW_FAILURE),
        ("." * 20 + "FFFF" + "." * 8, [], State.PASSING),
        ("." * 20 + "FG", ["changed_failure"], State.CHANGED_FAILURE),
    ],
)
def test_states_on_real_time(tmp_path: Path, strip: str, changed: list[str], now: State) -> None:
    nights = played(tmp_path, strip)
    assert kinds(nights[-1]) == changed
    assert state(tmp_path) is now


def test_both_outcomes_of_one_build_are_flaky(tmp_path: Path) -> None:
    nights = played(tmp_path, "." * 20 + "F", build="a" * 40)
    assert kinds(nights[-1]) == ["flaky"]


def test_a_few_passes_do_not_begin_a_failure_anew(tmp_path: Path) -> None:
    played(tmp_path, "." * 20 + "FFF..F")
    assert remembered(tmp_path).lines[0].series["case"].since == night_of(20)


def test_what_is_mended_is_confirmed_after_three_passes(tmp_path: Path) -> None:
    played(tmp_path, "." * 20 + "FFFF..")
    assert not remembered(tmp_path).lines[0].series["case"].confirmed
    write_night(tmp_path, 26, {"steady": "PASS", "case": "PASS"})
    assert remembered(tmp_path).lines[0].series["case"].confirmed


def test_a_failure_says_since_which_night_and_build(tmp_path: Path) -> None:
    [*_, night] = played(tmp_path, "...F", rig="simulated")
    [change] = [change for change in night.changes if change.case == "case"]
    assert (change.since, change.since_build) == (night_of(3), "000000030000")
    assert change.text == "case: expected Duplicate, observed SoftDuplicate"
    assert change.repeat == (
        "pytest scenarios/test_x.py::test_case --rig simulated --seed 1 --strategy Drop"
    )
    assert night.baseline == night_of(2)
    assert gate(night) == 1


def test_without_a_baseline_that_is_said(tmp_path: Path) -> None:
    [night] = played(tmp_path, ".")
    assert night.baseline == ""


@pytest.mark.parametrize("how", [{"scored": False, "ended": False}, {"whole": False}])
def test_a_broken_night_changes_nothing_and_is_no_baseline(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    write_night(tmp_path, 0, {"case": "PASS", "other": "PASS"}, rig="simulated")
    write_night(tmp_path, 1, {"case": "FAIL"}, rig="simulated", **how)
    write_night(tmp_path, 2, {"case": "PASS", "other": "PASS"}, rig="simulated")
    [line] = remembered(tmp_path).lines
    broken = line.nights[1]
    assert (broken.code, gate(broken), broken.changes) == (12, 12, [])
    assert broken.trouble
    assert (line.nights[2].baseline, line.nights[2].changes) == (night_of(0), [])
    assert line.series["case"].strip == "· ·"


def test_an_error_of_the_bench_is_no_baseline_and_blames_nobody(tmp_path: Path) -> None:
    nights = played(tmp_path, "..!.", rig="simulated")
    assert (gate(nights[2]), nights[2].changes) == (12, [])
    assert nights[3].baseline == night_of(1)


def test_a_part_of_the_catalogue_loses_nothing(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"case": "PASS", "other": "PASS"})
    write_night(tmp_path, 1, {"case": "PASS"}, part="case")
    write_night(tmp_path, 2, {"case": "PASS", "other": "PASS"})
    [line] = remembered(tmp_path).lines
    assert [night.baseline for night in line.nights] == ["", "", night_of(0)]
    assert not line.nights[1].changes
    assert not line.nights[2].changes


def test_the_same_must_give_the_same(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"case": "PASS"}, rig="simulated", build="a" * 40)
    write_night(tmp_path, 1, {"case": "FAIL"}, rig="simulated", build="a" * 40)
    write_night(tmp_path, 2, {"case": "FAIL"}, rig="simulated", build="a" * 40)
    [line] = remembered(tmp_path).lines
    assert kinds(line.nights[1]) == ["determinism_broken", "new_failure"]
    assert line.nights[1].changes[0].owner == "bench"
    assert not line.nights[2].changes


def test_other_bytes_of_the_same_are_told(tmp_path: Path) -> None:
    for number, content in enumerate(("same", "same", "other")):
        write_night(
            tmp_path, number, {"case": "PASS"}, rig="simulated", build="a" * 40, content=content
        )
    nights = remembered(tmp_path).lines[0].nights
    assert [kinds(night) for night in nights[1:]] == [[], ["determinism_broken"]]
    assert gate(nights[2]) == 1


def test_a_seed_that_finds_something_is_told_with_the_command_that_repeats_it(
    tmp_path: Path,
) -> None:
    for number in range(2):
        more = {"rig": "simulated", "build": "a" * 40}
        write_night(tmp_path, number, {"case": "PASS"}, **more)
        write_night(
            tmp_path, number, {"case": "FAIL"}, seed=77 + number, explores=True, time="030000",
            **more,
        )  # fmt: skip
    first, second = remembered(tmp_path).lines[0].nights
    [change] = [change for change in first.changes if change.kind == "seed_dependent"]
    assert change.repeat.endswith("--seed 77 --strategy Drop")
    assert (gate(first), gate(second)) == (1, 10)
    assert [change.gated for change in second.changes] == [False]


def test_a_night_of_which_only_the_seed_of_the_day_is_left_is_compared_as_well(
    tmp_path: Path,
) -> None:
    more = {"rig": "simulated", "seed": 77, "explores": True}
    left = [write_night(tmp_path, number, {"case": "PASS"}, **more).name for number in range(2)]
    [line] = remembered(tmp_path).lines
    newest_night(line)
    assert [main_run(night) for night in line.nights] == left
    main = write_night(tmp_path, 1, {"case": "PASS"}, rig="simulated", time="010000").name
    assert main_run(remembered(tmp_path).lines[0].nights[1]) == main


def test_what_is_known_is_out_of_the_gate_until_its_day(tmp_path: Path) -> None:
    known = (
        Known(case="ca*", issue="LNS-4", until=date(2026, 9, 3)),
        Known(case="nothing", issue="LNS-5"),
    )
    nights = []
    for number, glyph in enumerate("..FG"):
        write_night(tmp_path, number, {"case": WORDS[glyph]}, rig="simulated")  # type: ignore[dict-item]
        nights.append(with_known(remembered(tmp_path).lines[0], known))
    _, _, third, fourth = nights
    assert [(one.kind, one.known, one.gated) for one in third.changes] == [
        ("new_failure", "LNS-4 until 2026-09-03", False),
        ("known_unused", "", False),
    ]
    assert gate(third) == 10
    assert [(one.kind, one.gated) for one in fourth.changes] == [
        ("changed_failure", True),
        ("known_expired", False),
        ("known_unused", False),
    ]
    assert gate(fourth) == 1


def test_what_is_known_is_gone_only_where_it_was_played(tmp_path: Path) -> None:
    known = [Known(case=case, issue="LNS-4") for case in ("gr/a", "gr/b*", "gr/never")]

    def unused() -> list[str]:
        night = with_known(remembered(tmp_path).lines[0], known)
        return [one.case for one in night.changes if one.kind == "known_unused"]

    for number in range(2):
        write_night(tmp_path, number, {"gr/a": "PASS", "gr/b": "FAIL"})
    assert unused() == ["gr/a", "gr/never"]
    for number in range(2, 4):
        write_night(tmp_path, number, {"gr/b": "FAIL"}, part="b")
    assert unused() == []
    for number in range(4, 6):
        write_night(tmp_path, number, {"gr/b": "PASS"}, part="b")
    assert unused() == ["gr/b*"]


def test_an_answer_that_takes_longer_is_told_at_its_night(tmp_path: Path) -> None:
    for number in range(20):
        p50 = 22_000 + 100 * (number % 3) + 3_000 * (number >= 12)
        write_night(tmp_path, number, {"case": "PASS"}, margins={"data": (p50, p50 + 9_000)})
    [line] = remembered(tmp_path).lines
    told = [(n.night, change) for n in line.nights for change in n.changes if change.case == "data"]
    [(night, change)] = told
    assert (night, change.kind, change.since) == (night_of(12), "margin_shift", night_of(12))
    assert "take 25.0 ms" in change.text


def test_answers_that_are_too_late_are_a_finding_at_once(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"case": "PASS"}, margins={"data": (22_000, 30_000)})
    for number in (1, 2):
        write_night(tmp_path, number, {"case": "PASS"}, margins={"data": (22_000, 985_000)})
    _, night, after = remembered(tmp_path).lines[0].nights
    assert ("margin_limit", True) in [(one.kind, one.gated) for one in night.changes]
    assert "margin_limit" not in [one.kind for one in after.changes]
    assert (gate(night), gate(after)) == (1, 0)


def test_a_board_that_decays_is_sick_and_then_well(tmp_path: Path) -> None:
    board = ("device", "dut")
    for number, missed in enumerate([0, 1, 0, 30, 31, 30, 29, 0]):
        write_night(tmp_path, number, {"case": "PASS"}, lab={board: (missed, 100)})
    [line] = remembered(tmp_path).lines
    told = {n.night: n.changes[-1].text for n in line.nights if "lab_shift" in n.counts}
    assert told == {
        night_of(3): "device dut is sick: 30 of 100 stimuli missed (95 % 22–40 %)",
        night_of(7): "device dut is well again: 0 of 100 stimuli missed",
    }
    assert line.nights[6].sick == {"device dut": 4}


def test_one_night_more_is_folded_as_all_of_them_at_once(tmp_path: Path) -> None:
    strip = "." * 8 + "F.?FFG -.rF!...FF"
    step, whole = tmp_path / "step", tmp_path / "whole"
    for number, glyph in enumerate(strip):
        outcomes = {} if glyph in " -" else {"case": WORDS[glyph]}
        more = {"left_out": ["case"]} if glyph == "-" else {}
        for runs in (step, whole):
            write_night(runs, number, {"steady": "PASS", **outcomes}, **more)  # type: ignore[dict-item]
        memory = remembered(step)
    assert memory.lines == remembered(whole).lines
    assert remembered(step).lines == memory.lines


def test_a_night_that_is_looked_at_between_its_runs_is_one_night(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"a": "PASS"}, rig="simulated")
    remembered(tmp_path)
    more = {"seed": 7, "explores": True, "time": "030000"}
    write_night(tmp_path, 0, {"a": "PASS"}, rig="simulated", **more)
    [line] = remembered(tmp_path).lines
    [night] = line.nights
    assert ([run.seed for run in night.runs], line.series["a"].strip) == ([1, 7], "·")


def test_a_night_that_is_scored_again_is_folded_again(tmp_path: Path) -> None:
    played(tmp_path, "..F.", rig="simulated")
    (folder,) = tmp_path.glob(f"{night_of(2).replace('-', '')}*")
    text = (folder / "score.json").read_text().replace("FAIL", "PASS")
    (folder / "score.json").write_text(text)
    assert remembered(tmp_path).lines[0].series["case"].strip == "····"


def test_runs_of_the_day_are_no_nights(tmp_path: Path) -> None:
    write_night(tmp_path, 0, {"case": "FAIL"}, is_night=False)
    assert remembered(tmp_path).lines == []


EUI = "AC1F09FFFE000001"
BENCH = f"""
rig = "hardware"

[bench]
name = "lab-1"
region = "EU868"
tap = "127.0.0.1:6090"

[[device]]
name = "dut"
dialect = "rui3"
port = "/dev/ttyACM0"
dev_eui = "{EUI}"

[[gateway]]
name = "west"
eui = "0016C001F1500001"
kind = "program"
"""
SICK, WELL = (60, 120), (1, 120)


@pytest.fixture
def lab(tmp_path: Path) -> Inventory:
    (tmp_path / "bench.toml").write_text(BENCH)
    return load(tmp_path / "bench.toml")


def nights(runs: Path, *device: tuple[int, int], first: int = 0, line: str = "lns@main") -> None:
    """A night for each of these misses and opportunities of the device; the gateway is well."""
    for number, missed in enumerate(device, first):
        parts = {("device", EUI): missed, ("station", "west"): WELL}
        write_night(
            runs,
            number,
            {"group/case": "PASS"},
            rig="hardware",
            bench="lab-1",
            lab=parts,
            line=line,
        )


def test_three_sick_nights_running_leave_a_board_out(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, WELL, SICK, SICK)
    assert sick_parts(tmp_path, lab) == {}
    nights(tmp_path, SICK, first=3)
    assert sick_parts(tmp_path, lab) == {"dut": f"sick since {night_of(1)}"}


def test_it_stays_out_while_nothing_is_known_of_it(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK, SICK)
    write_night(
        tmp_path, 3, {"group/case": "PASS"}, rig="hardware", bench="lab-1",
        lab={("station", "west"): WELL},
    )  # fmt: skip
    assert sick_parts(tmp_path, lab) == {"dut": f"sick since {night_of(0)}"}


def test_a_good_night_between_begins_anew(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK, WELL, SICK, SICK)
    assert sick_parts(tmp_path, lab) == {}


def test_the_lab_is_one_whatever_is_tested_on_it(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK)
    nights(tmp_path, SICK, first=2, line="lns@next")
    assert set(sick_parts(tmp_path, lab)) <= {"dut"}
    assert sick_parts(tmp_path, replace(lab, name="lab-2")) == {}


def test_what_was_seen_well_takes_part_again(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK, SICK)
    note_well(tmp_path, "lab-1", ["west"])
    assert set(sick_parts(tmp_path, lab)) == {"dut"}
    note_well(tmp_path, "lab-1", ["dut"])
    assert sick_parts(tmp_path, lab) == {}


def test_a_spoilt_note_lets_nothing_in(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK, SICK)
    for text in ("", "[]", '{"lab-1": 7}', '{"lab-1": {"dut": 7}}'):
        (tmp_path / SEEN_WELL).write_text(text)
        assert set(sick_parts(tmp_path, lab)) == {"dut"}
    note_well(tmp_path, "lab-1", ["dut"])
    assert sick_parts(tmp_path, lab) == {}


def test_a_bench_without_some_of_its_parts(lab: Inventory) -> None:
    smaller = lab.without({"dut": "sick since Monday"})
    assert (smaller.devices, [one.name for one in smaller.gateways]) == ((), ["west"])
    assert smaller.absent == {"dut": "sick since Monday"}
    with pytest.raises(NoSuchPart, match="no board or gateway is called dot; there are: dut, west"):
        lab.without({"dot": ""})
