"""Is it told when the LoRaWAN of virtual devices is wrong?"""

import pytest

from bench.virtual.lorawan import known_answers
from bench.virtual.lorawan.air_interface import Keys


def test_nothing_is_wrong() -> None:
    assert known_answers.wrong_answers() == ()


def test_another_key_gives_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_answers, "_KEYS", Keys(bytes(16), bytes(16)))
    assert [what for what, *_ in known_answers._wrong()] == ["data uplink", "data downlink"]
