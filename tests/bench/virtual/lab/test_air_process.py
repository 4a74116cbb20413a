"""Who hears what on the air between the processes."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from bench.virtual.air import Emission, Modulation
from bench.virtual.lab.air_process import Air
from lns.clock import now_us

SF7 = Modulation(freq_hz=868_100_000, sf=7, bw_hz=125_000)
AIRTIME_US = 20_000


class Radios:
    """An air with radios a, b and west; what each was told, and what was noted."""

    def __init__(self) -> None:
        self.noted: list[dict[str, Any]] = []
        self.told: dict[str, list[Mapping[str, Any]]] = {"a": [], "b": [], "west": []}
        self.sent = dict.fromkeys(self.told, 0)
        self.air = Air(self.noted.append)
        for name, heard in self.told.items():
            self.air.attach(name, heard.append)

    def send(self, sender: str, modulation: Modulation = SF7, *, power_dbm: int = 14) -> str:
        self.sent[sender] += 1
        emission = Emission(
            sender=sender, number=self.sent[sender], phy=b"\1",
            modulation=modulation, start_us=now_us(), airtime_us=AIRTIME_US,
            power_dbm=power_dbm,
        )  # fmt: skip
        self.air.begin(emission)
        return emission.key


def play(scene: Callable[[Radios], None]) -> Radios:
    async def staged() -> Radios:
        radios = Radios()
        scene(radios)
        await asyncio.sleep(0.05)
        return radios

    return asyncio.run(staged())


def test_a_frame_is_told_at_its_begin_and_heard_at_its_end() -> None:
    def scene(radios: Radios) -> None:
        radios.air.attenuate("west", 20)
        radios.send("a")

    radios = play(scene)
    begins, heard = radios.told["west"]
    assert begins["begins"]["phy"] == "01"
    assert heard == {"heard": "a#1", "rssi_dbm": -66, "snr_db": 12.0}
    assert radios.told["a"] == []
    assert radios.noted[0]["heard"] == {"b": -46, "west": -66}


def test_a_weak_frame_is_not_there_at_all() -> None:
    def scene(radios: Radios) -> None:
        radios.air.attenuate("west", 80)  # -126 dBm, below -124.5 dBm of SF7
        radios.send("a")
        radios.send("b", Modulation(freq_hz=868_300_000, sf=12, bw_hz=125_000))

    radios = play(scene)
    assert [told["begins"]["sender"] for told in radios.told["west"] if "begins" in told] == ["b"]


def test_two_frames_spoil_each_other_unless_one_is_stronger_or_they_differ() -> None:
    for other, power_dbm, losses in (
        (SF7, 14, {"a": "collision", "b": "collision"}),
        (SF7, 8, {"b": "collision"}),
        (Modulation(freq_hz=868_100_000, sf=8, bw_hz=125_000), 14, {}),
        (Modulation(freq_hz=868_300_000, sf=7, bw_hz=125_000), 14, {}),
        (Modulation(freq_hz=868_100_000, sf=7, bw_hz=125_000, inverted=True), 14, {}),
        (
            Modulation(freq_hz=868_100_000, sf=7, bw_hz=125_000, sync_word="1424"),
            14,
            {"a": "collision", "b": "collision"},
        ),
    ):

        def scene(radios: Radios, other: Modulation = other, power_dbm: int = power_dbm) -> None:
            radios.send("a")
            radios.send("b", other, power_dbm=power_dbm)

        radios = play(scene)
        lost = {note["sender"]: note["lost"].get("west") for note in radios.noted}
        assert {sender: cause for sender, cause in lost.items() if cause} == losses
        assert [note["lost"].get("b") for note in radios.noted if note["sender"] == "a"] == ["busy"]


def test_a_frame_breaks_off_with_its_sender() -> None:
    def stopped(radios: Radios) -> None:
        radios.air.stop(radios.send("a"))

    def gone(radios: Radios) -> None:
        radios.send("a")
        radios.air.detach("a")

    for scene in (stopped, gone):
        assert play(scene).told["west"][-1]["cause"] == "cut off"


def test_a_radio_in_a_box_hears_nothing_and_is_not_heard() -> None:
    def scene(radios: Radios) -> None:
        radios.air.box("west", closed=True)
        radios.send("a")

    assert play(scene).told["west"] == []

    def taken_out(radios: Radios) -> None:
        scene(radios)
        radios.air.box("west", closed=False)
        radios.send("b", Modulation(freq_hz=868_300_000, sf=7, bw_hz=125_000))

    assert [told.get("heard") for told in play(taken_out).told["west"]] == [None, "b#1"]


def test_a_frame_under_way_is_lost_when_the_box_is_closed() -> None:
    def scene(radios: Radios) -> None:
        radios.send("a")
        radios.air.box("west", closed=True)

    assert play(scene).told["west"][-1]["cause"] == "boxed"
