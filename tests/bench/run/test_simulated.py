"""However many processes play a run on virtual time, its capture has the same bytes."""

import json
import os
import select
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import pytest

from bench.capture.run_folder import Ending
from bench.capture.wholeness import wholeness
from bench.clock import milliseconds, seconds
from bench.plan import PlannedAct, PlannedCase, PlannedDevice, from_json
from bench.run import PLAN, RunRecord
from bench.run.attempts import Play
from bench.run.simulated import CHUNK_US, DryRun, SimulatedRun
from bench.verdict.case import Result, Title, Verdict
from lns.lorawan.region import airtime_us
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


def test_other_processes_play_the_chunks(tmp_path: Path) -> None:
    here: list[str] = []

    async def notes(rig: Any) -> None:
        here.append("played")
        await sends(rig)

    played(tmp_path, 2, **{f"case_{number}": notes for number in range(CASES)})
    assert here == []


def test_others_go_on_while_one_is_busy(tmp_path: Path) -> None:
    """The next chunk is that of whoever is free; what was played waits, however much it is."""

    async def says_much(rig: Any) -> None:
        for _ in range(200):
            await sends(rig)

    heard, over = os.pipe()

    async def is_the_last_elsewhere(rig: Any) -> None:
        await sends(rig)
        os.write(over, b"..")

    async def takes_long(rig: Any) -> None:
        assert select.select([heard], [], [], PATIENCE_S)[0], "the other process waits"
        os.read(heard, 1)
        await sends(rig)

    async def takes_long_here(rig: Any) -> None:
        await (is_wrong if parent_process() is not None else takes_long)(rig)

    busy = {"case_0": takes_long, "case_2": says_much, "case_3": says_much}
    _, verdicts = played(
        tmp_path / "runs", 2, case_1=takes_long_here, **busy, case_8=is_the_last_elsewhere
    )
    assert [verdict.result for verdict in verdicts] == [Result.PASS] * CASES
    os.close(heard)
    os.close(over)


SF7 = {"sf": 7, "bw_hz": 125_000}


def play(scenario: Any, *faults: str) -> Play:
    title = Title("g/c", "test_c", "test_g.py", "g", "title")
    return Play(title, scenario, faults=frozenset(faults))


def planned(scenario: Any, *faults: str) -> PlannedCase:
    run = DryRun()
    verdict = run.play(play(scenario, *faults))
    assert verdict.result is Result.PASS, verdict
    return run.planned["g/c"]


def only_device(case: PlannedCase) -> PlannedDevice:
    [device] = case.devices
    return device


async def sends_twice(rig: Any) -> None:
    rig.only("west")
    await rig.alpha.send(b"12345678", confirmed=True)
    rig.west.suppress_downlinks(4)
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, FIRST + COPY, first="west", copy="west")


def test_what_a_device_does_is_noted_in_order() -> None:
    case = planned(sends_twice)
    alpha = only_device(case)
    assert alpha.acts == (
        PlannedAct(verb="send", confirmed=True),
        PlannedAct(verb="send", confirmed=True, retries=1),
    )
    assert (alpha.name, alpha.activation, alpha.next_f_cnt) == ("alpha", "abp", 10)
    assert alpha.transmissions == 3
    assert alpha.airtime_us == airtime_us(21, **SF7) + 2 * airtime_us(19, **SF7)
    assert not alpha.explicit_counter
    assert not alpha.crafted


def test_verbs_stations_and_time_are_noted() -> None:
    case = planned(sends_twice)
    assert case.verbs == (
        "alpha.send", "expect", "only", "west.suppress_downlinks",
    )  # fmt: skip
    assert case.stations == ("west",)
    assert case.servers == ("lns-a",)
    assert case.region == "EU868"
    # Two cycles with both windows and a retransmission time-out: no set-up, no settling.
    assert 5_000_000 < case.duration_us < 12_000_000


def test_where_no_station_is_named_both_hear() -> None:
    async def scenario(rig: Any) -> None:
        await rig.alpha.send()

    assert planned(scenario).stations == ("west", "east")


def test_waits_about_the_retention_are_those_of_a_bench() -> None:
    async def scenario(rig: Any) -> None:
        await rig.wait_until(seconds(61))

    assert planned(scenario).duration_us == seconds(30.5)


def test_a_device_that_was_provisioned_tells_what_was_said_of_it() -> None:
    async def scenario(rig: Any) -> None:
        keys = rig.alpha.provisioned.keys
        device = rig.provision(
            "own", f_cnt=70_000, device_class="C", dev_addr_text="26000042", keys=keys, dr=0
        )
        await device.restart(memory=True)
        rig.expect_downlink(device, b"x")

    _, own = planned(scenario).devices
    assert (own.explicit_counter, own.next_f_cnt, own.explicit_identity) == (True, 70_000, True)
    assert (own.class_c, own.dr, own.expects_downlink) == (True, 0, True)
    assert own.acts == (PlannedAct(verb="restart", memory=True),)


def test_a_device_that_joins_and_a_stranger() -> None:
    async def scenario(rig: Any) -> None:
        stranger = rig.stranger()
        await rig.bravo.join()
        await stranger.send()

    stranger, bravo = planned(scenario).devices
    assert (bravo.activation, bravo.known, bravo.next_f_cnt) == ("otaa", True, None)
    assert [act.verb for act in bravo.acts] == ["join"]
    assert bravo.airtime_us == 61_696
    assert not stranger.known


def test_frames_that_the_bench_builds_need_no_board() -> None:
    async def scenario(rig: Any) -> None:
        uplink = await rig.craft(rig.charlie)
        await rig.say(rig.told(uplink, by="east"), by="east")

    case = planned(scenario)
    assert only_device(case).crafted
    assert case.on_air == ()
    assert case.stations == ("east",)


def test_a_forged_frame_does_not_use_up_a_counter() -> None:
    async def scenario(rig: Any) -> None:
        await rig.forge(rig.alpha, by="west")

    assert not only_device(planned(scenario)).crafted


def test_a_replay_takes_the_air_of_the_replayer() -> None:
    async def scenario(rig: Any) -> None:
        uplink = await rig.alpha.send(b"")
        await rig.replay(uplink, by="east", after=milliseconds(100))
        await rig.replay(uplink, by="east", after=milliseconds(100))

    case = planned(scenario)
    assert case.replays
    assert case.injected_airtime_us == 2 * only_device(case).airtime_us


def test_what_happens_meanwhile_is_noted_too() -> None:
    async def scenario(rig: Any) -> None:
        await rig.meanwhile(milliseconds(10), rig.west.cut)
        await rig.alpha.send()

    case = planned(scenario)
    assert "west.cut" in case.verbs
    assert case.alone


def test_servers_and_consumers_are_noted() -> None:
    async def scenario(rig: Any) -> None:
        rig.consumer("billing", keys=True)
        rig.put_on("lns-b", "east")
        await rig.alpha.send()

    case = planned(scenario, "store")
    assert (case.servers, case.consumers, case.faults) == (
        ("lns-a", "lns-b"),
        ("billing",),
        ("store",),
    )
    assert case.own_servers


def test_what_needs_wires_is_planned_without_them() -> None:
    async def scenario(rig: Any) -> None:
        await rig.alpha.send()
        rig.pause_lns()
        rig.cut_upstream()
        rig.resume_lns()
        await rig.restore_upstream()

    assert "pause_lns" in planned(scenario, "lns", "broker").verbs


def test_a_scenario_that_breaks_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async def scenario(rig: Any) -> None:
        await rig.alpha.send()
        raise LookupError("no such thing")

    run = DryRun(into=tmp_path)
    verdict = run.play(play(scenario))
    run.close()
    assert verdict.result is Result.ERROR
    assert verdict.reasons == ("LookupError: no such thing",)
    written = json.loads((tmp_path / PLAN).read_text())
    assert written == {"cases": [], "failed": {"g/c": "LookupError: no such thing"}}


def test_the_plan_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    run = DryRun(into=tmp_path / "plan")
    run.play(play(sends_twice))
    run.close()
    [case] = json.loads((tmp_path / "plan" / PLAN).read_text())["cases"]
    assert from_json(case) == run.planned["g/c"]


def test_nothing_else_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = DryRun()
    run.play(play(sends_twice))
    run.close()
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_gives_the_same_plan() -> None:
    assert planned(sends_twice) == planned(sends_twice)
