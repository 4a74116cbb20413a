from typing import Any

import pytest

from lns.lorawan.region import FSK, DataRate, airtime_us, frame_airtime_us, fsk_airtime_us
from tests.lns.lorawan.vectors import each, vectors


@each(vectors("airtime"))
def test_airtime_of_others(vector: dict[str, Any]) -> None:
    assert (
        airtime_us(
            vector["payload_bytes"],
            sf=vector["sf"],
            bw_hz=vector["bw_hz"],
            coding_rate=vector["coding_rate"],
            crc=vector["crc"],
            ldro=vector.get("ldro"),
        )
        == vector["airtime_us"]
    )


@pytest.mark.parametrize(
    ("payload_bytes", "sf", "crc", "expected_us"),
    [
        (10, 7, True, 41_216),
        (10, 12, True, 991_232),
        # A bare acknowledgement: 12 bytes, no payload CRC.
        (12, 7, False, 41_216),
        (12, 9, False, 144_384),
        (12, 12, False, 991_232),
    ],
)
def test_airtimes_that_decide_about_receive_windows(
    payload_bytes: int, sf: int, crc: bool, expected_us: int
) -> None:
    assert frame_airtime_us(DataRate(sf, 125_000), payload_bytes, crc=crc) == expected_us


@pytest.mark.parametrize(
    ("sf", "bw_hz", "optimised"),
    [
        (10, 125_000, False),
        (11, 125_000, True),
        (12, 125_000, True),
        (11, 250_000, False),
        (12, 250_000, True),
        (12, 500_000, False),
    ],
)
def test_low_data_rate_optimisation_starts_where_a_symbol_lasts_longer_than_16_ms(
    sf: int, bw_hz: int, optimised: bool
) -> None:
    # 51 bytes, so that the choice shows in the number of symbols.
    assert airtime_us(51, sf=sf, bw_hz=bw_hz) == airtime_us(51, sf=sf, bw_hz=bw_hz, ldro=optimised)
    assert airtime_us(51, sf=sf, bw_hz=bw_hz) != airtime_us(
        51, sf=sf, bw_hz=bw_hz, ldro=not optimised
    )


@pytest.mark.parametrize(
    ("coding_rate", "implicit_header", "ldro", "payload_bytes", "symbols"),
    [(1, False, False, 13, 23), (2, False, False, 13, 26), (1, True, False, 13, 18),
     (1, False, True, 50, 58)],
)  # fmt: skip
def test_payload_symbols_as_brocaar_lorawan_counts_them(
    coding_rate: int, implicit_header: bool, ldro: bool, payload_bytes: int, symbols: int
) -> None:
    # brocaar/lorawan, airtime_test.go (MIT); one SF12 symbol at 125 kHz lasts 32 768 us.
    expected_us = (symbols * 4 + 8 * 4 + 17) * 32_768 // 4
    assert (
        airtime_us(
            payload_bytes,
            sf=12,
            bw_hz=125_000,
            coding_rate=coding_rate,
            implicit_header=implicit_header,
            ldro=ldro,
        )
        == expected_us
    )


def test_a_frame_shorter_than_the_first_symbols_still_has_eight() -> None:
    assert airtime_us(0, sf=12, bw_hz=125_000, crc=False, implicit_header=True) == (
        (8 * 4 + 8 * 4 + 17) * 32_768 // 4
    )


def test_a_longer_preamble_adds_whole_symbols() -> None:
    assert airtime_us(10, sf=7, bw_hz=125_000, preamble=10) == 41_216 + 2 * 1_024


def test_fsk_counts_bytes_in_both_directions() -> None:
    # (5 + 3 + 1 + 12 + 2) bytes at 50 kbit/s.
    assert fsk_airtime_us(12) == 3_680
    assert frame_airtime_us(FSK, 12, crc=True) == frame_airtime_us(FSK, 12, crc=False) == 3_680


@pytest.mark.parametrize(
    "wrong",
    [
        {"sf": 5},
        {"sf": 13},
        {"bw_hz": 0},
        {"coding_rate": 0},
        {"coding_rate": 5},
        {"payload_bytes": -1},
    ],
)
def test_what_is_no_lora_frame_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no LoRa frame"):
        airtime_us(**({"payload_bytes": 10, "sf": 7, "bw_hz": 125_000} | wrong))
