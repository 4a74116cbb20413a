"""Is it told when the LoRaWAN of virtual devices or the air is wrong?"""

from dataclasses import replace
from typing import Any

import pytest

from bench.inspection import known_device
from bench.virtual import air, lorawan
from bench.virtual.lorawan.air_interface import Keys
from bench.virtual.lorawan.join_frames import JoinAccept, read_join_accept


def test_nothing_is_wrong() -> None:
    assert lorawan.wrong_answers() == ()
    assert air.wrong_answers() == []


def test_another_key_gives_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lorawan, "_KEYS", Keys(bytes(16), bytes(16)))
    assert [what for what, *_ in lorawan._wrong()] == ["data uplink", "data downlink"]


ACCEPTED: dict[str, Any] = {"rx_delay_s": 2, "rx1_dr_offset": 3, "rx2_dr": 2, "net_id": "130000"}


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_field_of_a_join_accept_is_known(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def misread(app_key: bytes, phy: bytes) -> JoinAccept | None:
        accept = read_join_accept(app_key, phy)
        return accept and replace(accept, **{name: ACCEPTED[name]})

    monkeypatch.setattr(lorawan, "read_join_accept", misread)
    assert [what for what, *_ in lorawan._wrong()] == ["join accept"]


def test_another_region_and_other_commands_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {name: replace(plan, rx2_dr=3) for name, plan in lorawan.PLANS.items()}
    monkeypatch.setattr(lorawan, "PLANS", plans)
    monkeypatch.setattr(lorawan, "from_device", lambda octets: ())
    assert [what for what, *_ in lorawan._wrong()] == ["commands", "regions"]


def test_an_air_that_cuts_nobody_off_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(air.Links, "cut", lambda *ends: None)
    assert air.wrong_answers() == [
        ("a link that is cut, and is restored", "True, False", "False, False")
    ]


def test_who_is_to_blame_for_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_device, "misspelt", lambda: [("text", "a", "b")])
    monkeypatch.setattr(known_device, "wrong_answers", lambda: [("MIC", "a", "b")])
    for rig, due in (("simulated", ["device", "gateway", "air"]), ("hardware", ["bench"] * 3)):
        found = list(known_device.misread(rig, [("SNR", "a", "b")]))
        assert [one.owner for one in found] == due
