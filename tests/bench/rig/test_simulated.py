"""The verbs that need no scenario of their own: what is written when they are used."""

from pathlib import Path

import pytest

from bench.clock import milliseconds, seconds
from bench.device.interfaces import CommandRefused
from bench.rig.rig import Rig
from bench.verdict.expectation import Table
from lns.dedup.strategy import Strategy
from tests.bench.rig.played import Played, Scenario, play

WEST, EAST = "0016C001F1500001", "0016C001F1500002"

NEW = Table("""
    strategy kind | first
    *        *    | NonDuplicate forwarded NotAsked
""")


def played(tmp_path: Path, scenario: Scenario, strategy: Strategy = Strategy.NONE) -> Played:
    return play(tmp_path, scenario, strategy=strategy)


def stations(run: Played) -> list[str]:
    return [event["station"] for event in run.of("lns.outcome")]


def test_everybody_hears_unless_told_otherwise(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.east.delay_uplinks(milliseconds(50))
        await rig.alpha.send()
        rig.only("east")
        await rig.alpha.send()
        rig.only()
        await rig.alpha.send()

    assert stations(played(tmp_path, scenario)) == [WEST, EAST, EAST]


def test_a_schedule_says_who_hears_each_transmission(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.heard_by("west", ("east",), "west")
        await rig.alpha.send(confirmed=False, transmissions=3)

    assert stations(played(tmp_path, scenario)) == [WEST, EAST, WEST]


def test_a_replay_comes_so_long_after_the_last_reception(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        uplink = await rig.alpha.send()
        await rig.replay(uplink, by="east", after=seconds(10))

    run = played(tmp_path, scenario)
    first, again = (
        event for event in run.of("station.text", direction="up") if '"updf"' in event["text"]
    )
    assert again["t_us"] - first["t_us"] == seconds(10)
    assert (again["station"], again["origin"]) == (EAST, "injected")


def test_what_no_station_delivered_cannot_be_replayed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only()
        uplink = await rig.alpha.send()
        with pytest.raises(LookupError, match="no station has delivered"):
            await rig.replay(uplink, by="west")

    played(tmp_path, scenario)


def test_a_forged_frame_is_told_as_forged(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.forge(rig.alpha, by="west")
        await rig.forge_join(rig.bravo, by="east")

    run = played(tmp_path, scenario)
    forged = run.of("radio.transmit", genuine=False)
    assert [event["origin"] for event in forged] == ["injected", "injected"]
    assert [event["reason"] for event in run.of("lns.outcome")] == ["MicMismatch", "MicMismatch"]


def test_a_stranger_is_not_known_and_not_among_the_facts(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.stranger().send()

    run = played(tmp_path, scenario)
    assert {event["reason"] for event in run.of("lns.outcome")} == {"UnknownDevice"}
    names = [event["name"] for event in run.of("case.device")]
    assert names == ["alpha", "bravo", "charlie"]


def test_a_restarted_server_has_forgotten_level_1_and_kept_its_counters(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        uplink = await rig.alpha.send()
        await rig.restart_lns()
        await rig.replay(uplink, by="west")

    run = played(tmp_path, scenario)
    assert [event.get("reason") for event in run.of("lns.outcome")] == [None, "InvalidFrameCounter"]
    assert [event["status"] for event in run.of("lns.outcome")] == ["NonDuplicate"] * 2
    assert [event["event"] for event in run.of("case.lns")] == ["start", "kill", "restart"]


def test_the_wall_clock_is_in_the_messages_only(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        await rig.alpha.send()
        rig.step_wall_clock(seconds(-3600))
        await rig.alpha.send()

    first, second = (
        event["body"]["receivedAt"] for event in played(tmp_path, scenario).of("upstream.published")
    )
    assert first.startswith("2026-01-01T00:00:0")
    assert second.startswith("2025-12-31T23:00:0")


def test_an_upstream_that_refuses_has_not_heard(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        await rig.alpha.send()
        rig.refuse_upstream()
        await rig.alpha.send()
        await rig.alpha.send()
        await rig.charlie.send()

    run = played(tmp_path, scenario)
    bodies = [event["body"] for event in run.of("upstream.published")]
    assert [(body["devEui"], body["fCnt"], body["sequenceNumber"]) for body in bodies] == [
        ("70B3D57ED0000001", 10, 1), ("70B3D57ED0000001", 12, 2), ("70B3D57ED0000003", 10, 1),
    ]  # fmt: skip
    [lost] = run.of("lns.outcome", reason="UpstreamUnavailable")
    assert (lost["f_cnt"], lost["upstream"]) == (11, "dropped")
    [failed] = run.of("upstream.failed")
    assert failed["cause"] == "refused by the application"


def test_settling_waits_for_what_was_delayed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        rig.west.delay_uplinks(seconds(100))
        rig.expect(await rig.alpha.send(), NEW, first="west")

    run = played(tmp_path, scenario)
    assert run.verdict.result == "PASS"
    assert run.events[-1]["t_us"] > seconds(100)


def test_stations_and_devices_come_before_the_first_act(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.alpha.send()
        with pytest.raises(RuntimeError, match="station 'late': ask for it before"):
            rig.station("late")
        with pytest.raises(RuntimeError, match="device 'late': ask for it before"):
            rig.provision("late")

    played(tmp_path, scenario)


def test_devices_have_the_strategy_of_the_case_unless_they_have_their_own(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.provision("delta", strategy=Strategy.MARK)
        await rig.start()

    run = played(tmp_path, scenario, Strategy.DROP)
    strategies = {event["name"]: event["strategy"] for event in run.of("case.device")}
    assert strategies == {"alpha": "Drop", "bravo": "Drop", "charlie": "Drop", "delta": "Mark"}


def test_a_device_that_has_not_joined_has_no_frame_to_craft(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        for frame in (rig.craft(rig.bravo), rig.forge(rig.bravo, by="west")):
            with pytest.raises(CommandRefused, match="AT_NO_NETWORK_JOINED"):
                await frame

    played(tmp_path, scenario)
