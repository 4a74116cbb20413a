"""Is it told when the LoRaWAN of virtual devices is wrong?"""

import pytest

from bench.virtual import lorawan
from bench.virtual.lorawan.air_interface import Keys


def test_nothing_is_wrong() -> None:
    assert lorawan.wrong_answers() == ()


def test_another_key_gives_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lorawan, "_KEYS", Keys(bytes(16), bytes(16)))
    assert [what for what, *_ in lorawan._wrong()] == ["data uplink", "data downlink"]
