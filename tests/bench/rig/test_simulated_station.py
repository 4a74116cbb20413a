"""Stations of the simulated rig that are equipped, restarted, cut off or doubled."""

import json
from pathlib import Path

import pytest

from bench.rig.rig import Rig
from bench.verdict.case import Result
from scenarios.words import COPY, FIRST
from tests.bench.rig.played import Played, play

GPS_2026_US = 1_451_260_818_000_000


def told_up(played: Played, msgtype: str) -> list[dict[str, object]]:
    texts = [json.loads(event["text"]) for event in played.of("station.text", direction="up")]
    return [text for text in texts if text["msgtype"] == msgtype]


def test_a_station_with_gps_tells_when_a_frame_ended(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        rig.west.fit_gps()
        rig.expect(await rig.alpha.send(), FIRST, first="west")

    played = play(tmp_path, scenario)
    (sent,) = played.of("radio.transmit", direction="up")
    (updf,) = told_up(played, "updf")
    ended_us = sent["t_us"] + sent["airtime_us"]
    assert abs(updf["upinfo"]["gpstime"] - GPS_2026_US - ended_us) <= 1


def test_the_better_of_two_antennas_is_told(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        rig.west.weaken(30)
        rig.west.add_antenna(weaker_db=-10)
        rig.expect(await rig.alpha.send(), FIRST, first="west")

    played = play(tmp_path, scenario)
    assert played.verdict.result is Result.PASS
    (updf,) = told_up(played, "updf")
    assert (updf["upinfo"]["rctx"], updf["upinfo"]["rssi"]) == (1, -106)


def test_a_station_that_forgot_its_manners_sends_no_second_version(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        rig.expect(await rig.alpha.send(), FIRST, first="west")
        rig.west.reconnect_without_version()
        await rig.wait(2_000_000)
        rig.expect(await rig.alpha.send(), FIRST, first="west")

    played = play(tmp_path, scenario)
    assert played.verdict.result is Result.PASS
    assert len(told_up(played, "version")) == 2  # west and east, when they started


def test_an_impostor_has_the_eui_and_a_clock_of_its_own(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.impersonate("west", by="impostor")
        rig.only("west", "impostor")
        await rig.alpha.send()

    first, second = told_up(play(tmp_path, scenario), "updf")
    assert first["upinfo"]["xtime"] >> 48 != second["upinfo"]["xtime"] >> 48


def test_in_another_region_devices_and_stations_use_its_channels(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.in_region("US915")
        rig.east.delay_uplinks(40_000)
        uplink = await rig.alpha.send(confirmed=True)
        rig.expect(uplink, FIRST + COPY, first="west", copy="east")
        rig.expect_reply(uplink)

    played = play(tmp_path, scenario)
    assert played.verdict.result is Result.PASS
    up, down = played.of("radio.transmit")
    assert up["dr"] == 3 and 903_900_000 <= up["freq_hz"] <= 905_300_000
    assert 923_300_000 <= down["freq_hz"] <= 927_500_000


@pytest.mark.parametrize(
    "change",
    [
        lambda rig: rig.in_region("US915"),
        lambda rig: rig.impersonate("west", by="impostor"),
        lambda rig: rig.west.weaken(3),
        lambda rig: rig.west.add_antenna(weaker_db=3),
        lambda rig: rig.west.fit_gps(),
        lambda rig: rig.west.keep_duty_cycle(),
    ],
    ids=["region", "impostor", "attenuation", "antenna", "gps", "duty cycle"],
)
def test_what_belongs_before_the_first_frame_is_refused_after_it(tmp_path: Path, change) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.alpha.send()
        with pytest.raises(RuntimeError, match="before the first frame"):
            change(rig)

    play(tmp_path, scenario)
