from pathlib import Path
from time import process_time

from bench.clock import milliseconds, minutes, seconds
from bench.rig.rig import Rig
from bench.verdict.expectation import Table
from lns.dedup.strategy import Strategy
from tests.bench.rig.played import Played, play
from tests.host_time import slowness

TWO_STATIONS = Table("""
    strategy kind      | first                       | copy
    Drop     confirmed | NonDuplicate forwarded RX1  | Duplicate dropped(Duplicate) Suppressed
    None     confirmed | NonDuplicate forwarded RX1  | SoftDuplicate forwarded Suppressed
""")


async def everything(rig: Rig) -> None:
    """A little of all that draws random numbers: keys, channels, polls, retries, joins."""
    rig.west.drop_uplinks(1)
    rig.east.delay_uplinks(milliseconds(70))
    rig.east.suppress_downlinks(2)
    uplink = await rig.alpha.send(confirmed=True, retries=3)
    joining = await rig.bravo.join()
    await rig.bravo.send(transmissions=3)
    await rig.restart_lns()
    await rig.replay(uplink, by="west", after=seconds(70))
    await rig.forge(rig.charlie, by="east")
    await rig.charlie.restart(memory=False)
    await rig.charlie.send(confirmed=True)
    rig.expect_reply(joining)


def written(run: Played) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(run.folder.iterdir())}


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    one, again = (play(tmp_path / name, everything, seed=4) for name in ("one", "again"))
    files = written(one)
    assert files == written(again)
    assert files.keys() >= {
        "air.jsonl", "bench.jsonl", "device-alpha.jsonl", "device-bravo.jsonl", "lns-a.jsonl",
        "tap-0016C001F1500001.jsonl", "tap-0016C001F1500002.jsonl", "upstream.jsonl",
    }  # fmt: skip
    assert all(files.values())
    assert one.verdict == again.verdict


async def a_server_ends(rig: Rig) -> None:
    """Its stations lose their connections at one moment, and come again."""
    rig.open_door()
    await rig.alpha.send()
    await rig.restart_lns()
    await rig.wait(seconds(30))


def test_a_server_that_ends_closes_its_connections_in_one_order(tmp_path: Path) -> None:
    runs = [play(tmp_path / str(n), a_server_ends, seed=4) for n in range(6)]
    assert all(written(run) == written(runs[0]) for run in runs)


def test_another_seed_writes_other_bytes(tmp_path: Path) -> None:
    one, other = (play(tmp_path / str(seed), everything, seed=seed) for seed in (4, 5))
    assert written(one) != written(other)
    ids = [{event["frame_id"] for event in run.of("lns.outcome")} for run in (one, other)]
    assert ids[0] & ids[1] == {
        "70B3D57ED0000000:70B3D57ED0000002:1"
    }  # a join has no keys in its id


def test_seq_counts_every_source_from_0_and_time_never_goes_back(tmp_path: Path) -> None:
    run = play(tmp_path, everything)
    for source in {event["source"] for event in run.events}:
        events = [event for event in run.events if event["source"] == source]
        in_order = sorted(events, key=lambda event: event["seq"])
        assert [event["seq"] for event in in_order] == list(range(len(events)))
        assert events == in_order


def test_a_simulated_hour_takes_well_under_a_second(tmp_path: Path) -> None:
    async def an_hour(rig: Rig) -> None:
        rig.east.delay_uplinks(milliseconds(40))
        for minute in range(60):
            uplink = await rig.alpha.send(confirmed=True)
            rig.expect(uplink, TWO_STATIONS, first="west", copy="east")
            rig.expect_reply(uplink)
            await rig.wait_until(minutes(minute + 1))

    began_s = process_time()
    run = play(tmp_path, an_hour, strategy=Strategy.DROP)
    took_s = process_time() - began_s
    assert run.verdict.result == "PASS"
    assert run.events[-1]["t_us"] >= minutes(60)
    assert len(run.of("lns.outcome", status="NonDuplicate")) == 60
    assert took_s < slowness()
