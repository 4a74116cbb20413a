"""Sixty nights with planted events: each is found at its night, and nothing else is.

The nights of the network server are real runs of the simulated rig, with servers that are broken on
purpose, in a soak scored by Spark. What has to do with boards and air is written as labs leave it.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from bench.night.memory import remembered
from bench.night.morning import Line, gate
from bench.night.record import Recorded, record_of
from bench.report import score_of
from tests.bench.night.planted_builds import Build, lay_down, played
from tests.bench.night.written_nights import night_of, write_night
from tests.sizes import SOAK

NIGHTS = 60
BREAKS, CHANGES, MENDED, LOST = 20, 30, 40, 50
SCENARIO = "scenarios/test_multi_concentrator.py"
GONE = "the_first_to_deliver_owns"


BUILDS = (
    Build(0),
    Build(BREAKS, "soft duplicate answered"),
    Build(CHANGES, "None marks copies"),
    Build(MENDED),
    Build(LOST, chosen=f"not {GONE}"),
)


def judge(folders: Sequence[Path], lake: Path) -> None:
    """Leave a score in each folder: by Spark, or the verdicts that the run itself has reached."""
    if SOAK:
        from bench.score.job import score

        score(folders, lake=lake)
        return
    for folder in folders:
        (folder / "score.json").write_bytes(msgspec.json.encode(score_of(folder)))


def told(line: Line) -> dict[str, dict[str, int]]:
    """What changed in each night in which something did."""
    return {night.night: night.counts for night in line.nights if night.counts}


@pytest.mark.timeout(900)
def test_every_event_of_sixty_nights_of_a_server_is_found_at_its_night(tmp_path: Path) -> None:
    # The same server gives the same bytes: what was mended is played once.
    runs = {
        (build.mutant, build.chosen): played(build, tmp_path / f"b{build.since}", [SCENARIO])
        for build in BUILDS
        if build.since != MENDED
    }
    folders = {build: runs[build.mutant, build.chosen] for build in BUILDS}
    judge(list(runs.values()), tmp_path / "lake")
    sound, broken, other, mended, _ = (record_of(folder) for folder in folders.values())
    assert sound and broken and other and mended
    for number in range(NIGHTS):
        build = max((one for one in BUILDS if one.since <= number), key=lambda one: one.since)
        lay_down(tmp_path / "runs", number, folders[build], build)
    [line] = remembered(tmp_path / "runs").lines
    before, after = failures(broken), failures(other)
    assert before
    assert after
    assert not failures(sound)
    on_change = {
        "changed_failure": sum(before.get(case, sig) != sig for case, sig in after.items()),
        "new_failure": len(after.keys() - before.keys()),
        "fixed": len(before.keys() - after.keys()),
    }
    assert told(line) == {
        night_of(0): {"new_case": len(sound.results)},
        night_of(BREAKS): {"new_failure": len(before)},
        night_of(CHANGES): {kind: n for kind, n in on_change.items() if n},
        night_of(MENDED): {"fixed": len(after)},
        night_of(LOST): {"lost": sum(GONE in case for case in sound.results)},
    }
    red = {number for number, night in enumerate(line.nights) if gate(night) == 1}
    assert red == {BREAKS, LOST} | ({CHANGES} if on_change["new_failure"] or SOAK else set())
    [change, *_] = line.nights[BREAKS].changes
    assert change.since_build == BUILDS[1].commit[:12]


def failures(record: Recorded) -> dict[str, str]:
    """The cases that failed, each with its signature."""
    return {case: one.signature for case, one in record.results.items() if one.glyph == "F"}


FLAKES, DRIFTS, DARK, DECAYS, KILLED = 10, 35, 25, 45, 28
CASES = [f"group/case_{n}" for n in range(20)]


def lab_night(chance: random.Random, number: int) -> Mapping[str, str]:
    """The verdicts of a night in the lab: one case flakes, once the lab is not there at all."""
    if number == DARK:
        return dict.fromkeys(CASES, "INCONCLUSIVE")
    flakes = {CASES[3]: "FAIL"} if number >= FLAKES and (number - FLAKES) % 4 == 0 else {}
    doubts = {case: "INCONCLUSIVE" for case in CASES[4:] if chance.random() < 0.01}
    return {**dict.fromkeys(CASES, "PASS"), **doubts, **flakes}


@pytest.mark.parametrize("seed", range(5))
def test_every_event_of_sixty_nights_of_a_lab_is_found_at_its_night(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(NIGHTS):
        p50_us = round(22_000 + chance.gauss(0, 250) + 3_000 * (number >= DRIFTS))
        missed = sum(chance.random() < (0.3 if number >= DECAYS else 0.01) for _ in range(120))
        other = sum(chance.random() < 0.01 for _ in range(120))
        dark = number == DARK
        lab = {} if dark else {("device", "dut"): (missed, 120), ("station", "west"): (other, 120)}
        margins = {} if dark else {"data": (p50_us, p50_us + 9_000 + round(chance.gauss(0, 250)))}
        write_night(
            tmp_path, number, lab_night(chance, number), lab=lab, margins=margins, bench="lab-1",
            whole=number != KILLED,
        )  # fmt: skip
    [line] = remembered(tmp_path).lines
    found = told(line)
    first = found.pop(night_of(0))
    assert set(first) == {"new_case"}
    late = {night: counts for night, counts in found.items() if set(counts) == {"new_case"}}
    assert all(night <= night_of(3) for night in late)  # what was inconclusive in the first night
    expected = {
        night_of(FLAKES): {"new_failure": 1},
        night_of(FLAKES + 1): {"flaky": 1},
        night_of(DRIFTS): {"margin_shift": 1},
        night_of(DECAYS): {"lab_shift": 1},
    }
    assert {night: counts for night, counts in found.items() if night not in late} == expected
    dark, killed = line.nights[DARK], line.nights[KILLED]
    assert (dark.code, gate(dark), killed.code, gate(killed)) == (11, 11, 12, 12)
    assert line.nights[KILLED + 1].baseline == night_of(KILLED - 1)
