"""What the simulated rig does when a scenario takes the store away, and what it writes of it."""

from contextlib import closing, suppress
from pathlib import Path
from sqlite3 import DatabaseError, connect

import pytest

from bench.clock import milliseconds, seconds
from bench.rig.outages import BrokenWrites
from bench.rig.rig import Rig
from bench.verdict.case import Result
from lns.store.redis_wire import PATIENCE_US
from scenarios.words import LOST, OWNED
from tests.bench.rig.played import Played, Scenario, play


def two_servers(rig: Rig) -> None:
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))


def level2(run: Played) -> list[tuple[str, str]]:
    return [(event["lns"], event["level2"]) for event in run.of("lns.outcome")]


def test_a_wire_is_cut_for_one_server_only(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        two_servers(rig)
        rig.cut_store("lns-b")
        await rig.alpha.send()
        await rig.restore_store("lns-b")
        await rig.alpha.send()

    run = play(tmp_path, scenario)
    assert level2(run) == [
        ("lns-a", "Owner"), ("lns-b", "Unavailable"), ("lns-a", "Owner"), ("lns-b", "NotOwner"),
    ]  # fmt: skip
    [begin], [end] = (run.of(kind, seam="store") for kind in ("fault.begin", "fault.end"))
    for event in (begin, end):
        told = {name: event[name] for name in ("seam", "fault", "origin", "lns")}
        assert told == {"seam": "store", "fault": "cut", "origin": "injected", "lns": "lns-b"}
    assert begin["t_us"] < end["t_us"]


@pytest.mark.parametrize(
    ("delay_us", "word"), [(PATIENCE_US - 60_000, "Owner"), (PATIENCE_US, "Unavailable")]
)
def test_a_slow_answer_counts_only_in_time_and_the_claim_counts_always(
    tmp_path: Path, delay_us: int, word: str
) -> None:
    async def scenario(rig: Rig) -> None:
        rig.put_on("lns-b", "east")
        rig.east.delay_uplinks(seconds(1))
        rig.slow_store(delay_us, "lns-a")
        await rig.alpha.send()

    run = play(tmp_path, scenario)
    assert level2(run) == [("lns-a", word), ("lns-b", "NotOwner")]
    [begin] = run.of("fault.begin", seam="store")
    assert (begin["fault"], begin["detail"]) == ("delay", {"after_us": delay_us})


def test_a_fault_that_begins_anew_has_ended_first(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.slow_store(1)
        rig.slow_store(2)
        await rig.restore_store()
        await rig.restore_store()
        await rig.alpha.send()

    run = play(tmp_path, scenario)
    told = [(e["kind"], e["detail"]["after_us"]) for e in run.events if e["kind"][:5] == "fault"]
    assert told == [("fault.begin", 1), ("fault.end", 1), ("fault.begin", 2), ("fault.end", 2)]


def test_every_server_is_told_what_an_outage_means(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.on_outage("closed")
        two_servers(rig)
        rig.cut_store()
        await rig.alpha.send()

    run = play(tmp_path, scenario)
    assert {(e["lns"], e["on_outage"]) for e in run.of("case.lns")} == {
        ("lns-a", "closed"), ("lns-b", "closed"),
    }  # fmt: skip
    assert [event["reason"] for event in run.of("lns.outcome")] == ["StoreUnavailable"] * 2
    unsaid = play(tmp_path / "open", lambda rig: rig.start())
    assert [event["on_outage"] for event in unsaid.of("case.lns")] == ["open"]


async def _late(rig: Rig) -> None:
    await rig.start()
    rig.on_outage("closed")


async def _unknown(rig: Rig) -> None:
    rig.on_outage("ajar")


@pytest.mark.parametrize(
    ("scenario", "error", "says"),
    [
        (_late, RuntimeError, "before the first frame"),
        (_unknown, ValueError, "'ajar'"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    tmp_path: Path, scenario: Scenario, error: type[Exception], says: str
) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(error, match=says)):
        play(tmp_path, scenario)


@pytest.mark.parametrize(("empty", "owner"), [(False, "NotOwner"), (True, "Owner")])
def test_a_store_that_restarts_forgets_only_if_it_is_to(
    tmp_path: Path, empty: bool, owner: str
) -> None:
    async def scenario(rig: Rig) -> None:
        rig.put_on("lns-b", "east")
        rig.only("west")
        uplink = await rig.alpha.send()
        await rig.restart_store(empty=empty)
        await rig.replay(uplink, by="east")

    run = play(tmp_path, scenario)
    assert level2(run) == [("lns-a", "Owner"), ("lns-b", owner)]
    [begin], [end] = (run.of(kind, seam="store") for kind in ("fault.begin", "fault.end"))
    assert begin["detail"] == end["detail"] == {"empty": empty}


def test_a_server_remembers_dev_nonces_that_the_store_lost(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.put_on("lns-b", "north")
        rig.only("west")
        joining = await rig.bravo.join()
        await rig.restart_store(empty=True)
        await rig.replay(joining, by="west", after=seconds(61))

    run = play(tmp_path, scenario)
    assert [event.get("reason") for event in run.of("lns.outcome")] == [None, "DevNonceUsed"]


def test_nobody_of_the_rig_owns_an_orphan(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        two_servers(rig)
        await rig.orphan_next_frame(rig.alpha)
        await rig.alpha.send()

    run = play(tmp_path, scenario)
    assert level2(run) == [("lns-a", "NotOwner"), ("lns-b", "NotOwner")]
    assert {event["owner"] for event in run.of("lns.claim")} == {"lns-x"}
    [begin] = run.of("fault.begin", seam="store")
    assert begin["detail"] == {"lns": "lns-x", "dev_eui": "70B3D57ED0000001", "f_cnt": 10}


def test_a_clock_is_ahead_at_one_server_only(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        two_servers(rig)
        rig.step_wall_clock(seconds(5), lns="lns-b")
        await rig.alpha.send()

    run = play(tmp_path, scenario)
    west, east = (event["body"]["receivedAt"] for event in run.of("upstream.published"))
    at_s = [float(time[17:-1]) for time in (west, east)]
    assert at_s[1] - at_s[0] == pytest.approx(5.15, abs=0.02)
    [begin] = run.of("fault.begin", seam="clock")
    assert (begin["lns"], begin["detail"]) == ("lns-b", {"us": seconds(5)})


def test_a_race_has_one_owner_whichever_it_is(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        two_servers(rig)
        uplink = await rig.alpha.send(confirmed=True)
        rig.expect_race(uplink, OWNED + LOST, between=("east", "west"))

    assert play(tmp_path, scenario).verdict.result is Result.PASS


def test_a_race_with_two_owners_fails(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        two_servers(rig)
        uplink = await rig.craft(rig.alpha, confirmed=True)
        rig.deliver(uplink, by="west")
        await rig.wait(milliseconds(100))
        await rig.restart_store(empty=True)
        rig.deliver(uplink, by="east")
        rig.expect_race(uplink, OWNED + LOST, between=("west", "east"))

    verdict = play(tmp_path, scenario).verdict
    assert (verdict.result, verdict.owner) == (Result.FAIL, "LNS")
    assert "expected NonDuplicate forwarded Suppressed NotOwner" in verdict.reasons[0]


def test_a_race_without_an_owner_fails(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        two_servers(rig)
        await rig.orphan_next_frame(rig.alpha)
        uplink = await rig.alpha.send(confirmed=True)
        rig.expect_race(uplink, OWNED + LOST, between=("west", "east"))

    assert play(tmp_path, scenario).verdict.result is Result.FAIL


def test_a_write_breaks_at_its_commit(tmp_path: Path) -> None:
    writes = BrokenWrites(1, after=1)
    with closing(connect(tmp_path / "file", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (n INTEGER)")
        for number in range(4):
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO t VALUES (?)", (number,))
            with suppress(DatabaseError), writes.in_thread():
                db.execute("COMMIT")
            assert not db.in_transaction
        assert [n for (n,) in db.execute("SELECT n FROM t")] == [0, 2, 3]
