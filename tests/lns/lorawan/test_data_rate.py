import pytest

from lns.lorawan.region import FSK, DataRate, data_rate


@pytest.mark.parametrize(
    ("text", "expected"),
    [("SF7BW125", DataRate(7, 125_000)), ("SF12BW500", DataRate(12, 500_000))],
)
def test_a_data_rate_is_read_and_written_as_packet_forwarders_do(
    text: str, expected: DataRate
) -> None:
    assert data_rate(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize("text", ["", "SF7", "BW125", "SF7BW12", "50000", "SF7BW125 "])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a LoRa data rate"):
        data_rate(text)


def test_fsk_shows_its_bit_rate() -> None:
    assert str(FSK) == "FSK 50000"
