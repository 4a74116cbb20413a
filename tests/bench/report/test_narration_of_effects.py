"""How a report tells what a case expects of messages and of answers on the air."""

import pytest

from bench.report.narration import Cast, in_words

CAST = Cast({"D1": "alpha"}, {"G1": "station A"}, ("lns-a",))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"expect": "upstream", "station": "G1", "f_cnt": 10, "body": {"rssi": -51, "dr": 5}},
            "due: the application gets FCnt 10 through station A with rssi -51, dr 5",
        ),
        (
            {"expect": "on_air", "frame_id": "F", "windows": ["RX1", "RX2"]},
            "due: answers to F on the air: RX1, RX2",
        ),
        (
            {"expect": "on_air", "frame_id": "F", "windows": []},
            "due: answers to F on the air: none",
        ),
    ],
)
def test_an_expected_effect_is_told_in_words(fields: dict[str, object], words: str) -> None:
    assert in_words({"kind": "case.expect", **fields}, CAST) == words
