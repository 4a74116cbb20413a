"""However many processes play a run on virtual time, its capture has the same bytes."""

import os
import select
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import pytest

from bench.capture.run_folder import Ending
from bench.capture.wholeness import wholeness
from bench.clock import seconds
from bench.run.attempts import Play
from bench.run.run_record import RunRecord
from bench.run.simulated import CHUNK_US, SimulatedRun
from bench.verdict.case import Result, Title, Verdict
from scenarios.words import COPY, FIRST

CASES = 9
CHUNK = 2
PATIENCE_S = 60


async def sends(rig: Any) -> None:
    rig.only("west")
    rig.expect(await rig.alpha.send(b"hello"), FIRST, first="west")


async def waits_longer_than_a_chunk_may_take(rig: Any) -> None:
    await rig.wait(CHUNK_US + seconds(1))
    await sends(rig)


async def is_wrong(rig: Any) -> None:
    rig.only("west")
    rig.expect(await rig.alpha.send(), COPY, copy="west")


async def ends_who_is_not_the_first(rig: Any) -> None:
    if parent_process() is not None:
        os._exit(3)
    await sends(rig)


def played(
    folder: Path, processes: int, *, skipped: int | None = None, **special: Any
) -> tuple[dict[str, bytes], list[Verdict]]:
    """The files of a run without its name, and the verdicts; `special`: scenarios by `case_N`."""
    names = [f"case_{number}" for number in range(CASES)]
    plays = [
        Play(Title(f"g/{name}", name, "test_g.py", "g", name), special.get(name, sends))
        for name in names
    ]
    record = RunRecord("simulated", 1, folder)
    record.prepare(play.title.case for play in plays)
    run = SimulatedRun(record, processes=processes, chunk=CHUNK)
    run.announce(plays)
    try:
        verdicts = [run.play(play) for number, play in enumerate(plays) if number != skipped]
    finally:
        run.close()
        record.end(Ending.FINISHED)
    assert record.folder is not None
    if skipped is None:
        assert wholeness(record.folder).whole
    name = record.folder.name.encode()
    files = {
        one.name: one.read_bytes().replace(name, b"RUN") for one in record.folder.glob("*.jsonl")
    }
    return files, verdicts


@pytest.mark.parametrize("processes", [2, 3, 9])
def test_the_capture_is_the_same_for_any_number_of_processes(
    tmp_path: Path, processes: int
) -> None:
    alone, verdicts = played(tmp_path / "alone", 1)
    shared, same_verdicts = played(tmp_path / "shared", processes)
    assert [verdict.result for verdict in verdicts] == [Result.PASS] * CASES
    assert same_verdicts == verdicts
    assert shared == alone


@pytest.mark.parametrize(
    ("scenario", "result"),
    [
        (waits_longer_than_a_chunk_may_take, Result.PASS),
        (is_wrong, Result.FAIL),
        (ends_who_is_not_the_first, Result.PASS),
    ],
)
def test_what_no_other_process_can_tell_is_played_by_the_first(
    tmp_path: Path, scenario: Any, result: Result
) -> None:
    for case in ("case_2", "case_5"):
        alone, verdicts = played(tmp_path / f"{case}-alone", 1, **{case: scenario})
        shared, same_verdicts = played(tmp_path / f"{case}-shared", 2, **{case: scenario})
        assert verdicts[int(case[-1])].result is result
        assert same_verdicts == verdicts
        assert shared == alone


@pytest.mark.parametrize("skipped", [0, 2, 3, 6])
def test_a_case_that_is_not_asked_for_after_all_is_in_no_capture(
    tmp_path: Path, skipped: int
) -> None:
    alone, _ = played(tmp_path / "alone", 1, skipped=skipped)
    shared, _ = played(tmp_path / "shared", 2, skipped=skipped)
    assert f"g/case_{skipped}".encode() not in shared["bench.jsonl"]
    assert shared == alone


def test_other_processes_play_their_chunks(tmp_path: Path) -> None:
    here: list[str] = []

    async def notes(rig: Any) -> None:
        here.append("played")
        await sends(rig)

    played(tmp_path, 2, **{f"case_{number}": notes for number in range(CASES)})
    assert len(here) == 5  # 0, 1, 4, 5 and 8


def test_others_go_on_while_the_first_is_busy(tmp_path: Path) -> None:
    """What they have played waits for the first, however much it is."""

    async def says_much(rig: Any) -> None:
        for _ in range(200):
            await sends(rig)

    heard, over = os.pipe()

    async def is_the_last_elsewhere(rig: Any) -> None:
        await sends(rig)
        os.write(over, b".")

    async def takes_long(rig: Any) -> None:
        assert select.select([heard], [], [], PATIENCE_S)[0], "the other process waits"
        await sends(rig)

    others = {"case_2": says_much, "case_3": says_much, "case_7": is_the_last_elsewhere}
    _, verdicts = played(tmp_path / "runs", 2, case_0=takes_long, **others)
    assert [verdict.result for verdict in verdicts] == [Result.PASS] * CASES
    os.close(heard)
    os.close(over)
