import asyncio
import math
from collections.abc import Callable, Coroutine

import pytest

from bench.clock import run
from bench.transmission import Transmission
from bench.virtual.air import Heard, Links, Medium
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868

ALPHA, BRAVO = Eui("70B3D57ED0000001"), Eui("70B3D57ED0000002")
NEAR, FAR = Eui("B827EBFFFE000001"), Eui("B827EBFFFE000002")
PHY = bytes(23)
AIRTIME_US = 61_696  # 23 bytes, SF7, 125 kHz, with CRC


class Ear:
    """A station that only listens; remembers who was heard."""

    def __init__(self, eui: Eui) -> None:
        self.eui = eui
        self.heard: list[Heard] = []

    def frame_heard(self, heard: Heard) -> None:
        assert heard.end_us == now_us()
        self.heard.append(heard)


class Air:
    """A medium with two stations and its capture."""

    def __init__(self) -> None:
        self.links = Links()
        self.events: list[tuple[str, dict[str, object]]] = []
        self.medium = Medium(EU868, self.links, self.record)
        self.near, self.far = Ear(NEAR), Ear(FAR)
        self.medium.attach(self.near, hears="up")
        self.medium.attach(self.far, hears="up")

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        assert source == ("bench" if kind == "stimulus.missed" else "air")
        self.events.append((kind, fields))

    def send(self, sender: Eui = ALPHA, *, freq_hz: int = 868_100_000, dr: int = 5) -> Transmission:
        return self.medium.transmit(
            sender, PHY, direction="up", freq_hz=freq_hz, dr=dr, power_dbm=14
        )

    @property
    def lost(self) -> list[tuple[object, object, object]]:
        return [
            (fields["transmission"], fields["receiver"], fields["cause"])
            for kind, fields in self.events
            if kind == "radio.lost"
        ]


def on_air(scene: Callable[[Air], Coroutine[object, object, None]]) -> Air:
    async def main() -> Air:
        air = Air()
        await scene(air)
        await asyncio.sleep(10)
        return air

    return run(main())


def test_a_frame_is_heard_by_all_at_its_end() -> None:
    async def scene(air: Air) -> None:
        air.send()

    air = on_air(scene)
    (heard,) = air.near.heard
    assert heard.end_us == AIRTIME_US
    assert (heard.rssi_dbm, heard.snr_db) == (-86, 12.0)
    assert len(air.far.heard) == 1
    assert air.lost == []
    kind, fields = air.events[0]
    assert kind == "radio.transmit"
    assert list(fields) == [
        "transmission", "direction", "sender", "origin", "phy", "freq_hz", "dr", "airtime_us",
        "attempt",
    ]  # fmt: skip
    assert fields["airtime_us"] == AIRTIME_US


def test_a_downlink_has_no_crc_and_is_not_heard_by_stations() -> None:
    async def scene(air: Air) -> None:
        sent = air.medium.transmit(
            NEAR, bytes(12), direction="down", freq_hz=869_525_000, dr=0, power_dbm=27
        )
        assert sent.airtime_us == 991_232
        assert air.medium.ongoing("down") == [sent]
        assert air.medium.ongoing("up") == []

    air = on_air(scene)
    assert air.far.heard == []
    assert air.lost == []


def test_a_weak_frame_fades_away_and_a_slower_one_does_not() -> None:
    async def scene(air: Air) -> None:
        air.links.set_attenuation(ALPHA, FAR, 140)
        air.send()
        await asyncio.sleep(1)
        air.send(dr=2)

    air = on_air(scene)
    assert air.lost == [(1, FAR, "faded")]
    assert len(air.near.heard) == 2


@pytest.mark.parametrize("restore", [False, True])
def test_a_link_cut_at_any_time_during_the_frame_loses_it(restore: bool) -> None:
    async def scene(air: Air) -> None:
        if restore:
            air.links.cut(ALPHA, FAR)
        air.send()
        await asyncio.sleep(0.01)
        (air.links.restore if restore else air.links.cut)(ALPHA, FAR)

    assert on_air(scene).lost == [(1, FAR, "cut")]


def test_two_equal_frames_spoil_each_other() -> None:
    async def scene(air: Air) -> None:
        air.send(ALPHA)
        await asyncio.sleep(0.06)
        air.send(BRAVO)

    air = on_air(scene)
    assert air.near.heard == air.far.heard == []
    assert [cause for _, _, cause in air.lost] == ["collision"] * 4


@pytest.mark.parametrize(("stronger_db", "survivors"), [(5, 0), (6, 1), (20, 1)])
def test_the_stronger_survives_from_6_db(stronger_db: int, survivors: int) -> None:
    async def scene(air: Air) -> None:
        air.links.set_attenuation(ALPHA, NEAR, 100 - stronger_db)
        air.send(ALPHA)
        air.send(BRAVO)

    air = on_air(scene)
    assert [heard.transmission.sender for heard in air.near.heard] == [ALPHA] * survivors
    assert air.far.heard == []


def test_the_strongest_of_three_survives() -> None:
    async def scene(air: Air) -> None:
        for number, sender in enumerate((ALPHA, BRAVO, Eui("70B3D57ED0000003"))):
            air.links.set_attenuation(sender, NEAR, 100 - 6 * number)
            air.send(sender)

    assert [heard.transmission.number for heard in on_air(scene).near.heard] == [3]


@pytest.mark.parametrize("other", [{"freq_hz": 868_300_000}, {"dr": 4}])
def test_another_channel_or_spreading_factor_does_not_disturb(other: dict[str, int]) -> None:
    async def scene(air: Air) -> None:
        air.send(ALPHA)
        air.send(BRAVO, **other)

    assert len(on_air(scene).near.heard) == 2


def test_frames_one_after_the_other_do_not_disturb() -> None:
    async def scene(air: Air) -> None:
        air.send(ALPHA)
        await asyncio.sleep(AIRTIME_US / 1_000_000)
        air.send(BRAVO)

    assert len(on_air(scene).near.heard) == 2


def test_an_interferer_that_is_cut_from_the_receiver_does_not_disturb() -> None:
    async def scene(air: Air) -> None:
        air.links.cut(BRAVO, NEAR)
        air.send(ALPHA)
        air.send(BRAVO)

    air = on_air(scene)
    assert [heard.transmission.sender for heard in air.near.heard] == [ALPHA]
    assert air.far.heard == []


def test_a_station_that_sends_does_not_hear() -> None:
    async def scene(air: Air) -> None:
        air.send()
        await asyncio.sleep(0.01)
        air.medium.transmit(
            NEAR, bytes(12), direction="down", freq_hz=869_525_000, dr=5, power_dbm=14
        )

    air = on_air(scene)
    assert air.lost == [(1, NEAR, "busy")]
    assert len(air.far.heard) == 1


def test_who_is_not_attached_neither_hears_nor_loses() -> None:
    async def scene(air: Air) -> None:
        air.medium.detach(air.far, hears="up")
        air.links.cut(ALPHA, FAR)
        air.send()

    air = on_air(scene)
    assert (len(air.near.heard), air.lost) == (1, [])


def test_facts_of_the_sender_are_recorded_in_their_place() -> None:
    async def scene(air: Air) -> None:
        facts: dict[str, object] = {"dev_eui": ALPHA, "genuine": False, "attempt": 3}
        air.medium.transmit(
            ALPHA, PHY, direction="up", freq_hz=868_100_000, dr=5, power_dbm=14,
            origin="injected", facts=facts,
        )  # fmt: skip

    fields = on_air(scene).events[0][1]
    assert list(fields)[:6] == [
        "transmission", "direction", "sender", "dev_eui", "genuine", "origin",
    ]  # fmt: skip
    assert (fields["attempt"], fields["origin"]) == (3, "injected")


def test_an_undefined_data_rate_is_the_callers_mistake() -> None:
    async def scene(air: Air) -> None:
        with pytest.raises(ValueError, match="DR9"):
            air.send(dr=9)

    on_air(scene)


def test_strength_is_told_without_its_fraction() -> None:
    async def scene(air: Air) -> None:
        for _ in range(20):
            air.medium.transmit(ALPHA, PHY, direction="up", freq_hz=868_100_000, dr=5, power_dbm=14)
            await asyncio.sleep(0.1)

    air = Air()
    air.links = air.medium.links = Links(fading_sigma_db=3.0, seed=2)
    run(scene(air))
    strengths = [heard.rssi_dbm for heard in air.near.heard]
    exact = [
        air.links.rssi_dbm(ALPHA, NEAR, 14, heard.transmission.number) for heard in air.near.heard
    ]
    assert strengths == [math.trunc(strength) for strength in exact]
    assert strengths != [round(strength) for strength in exact]


def test_an_air_that_loses_what_was_heard_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Medium, "_loss", lambda self, *frame: "faded")

    async def scene(air: Air) -> None:
        air.send()

    air = on_air(scene)
    missed = [fields for kind, fields in air.events if kind == "stimulus.missed"]
    assert [one["owner"] for one in missed] == ["air", "air"]
    assert missed[0]["reason"] == f"transmission 1 at {NEAR}: expected another end than faded"
