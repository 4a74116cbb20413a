from dataclasses import replace
from typing import Any

import pytest

from lns.lorawan.frame import (
    DlSettings,
    JoinAcceptFields,
    MalformedFrame,
    build_join_accept,
    cf_list_channel_masks,
    cf_list_frequencies_hz,
    frequency_cf_list,
    join_accept_fields,
    open_join_accept,
    parse,
)
from lns.lorawan.identifiers import dev_addr
from tests.lns.lorawan.vectors import each, vectors

APP_KEY = bytes.fromhex("98929b92c49edba9676d646d3b612456")
FIELDS = JoinAcceptFields(
    join_nonce=65793,
    net_id="020202",
    dev_addr=dev_addr("01020304"),
    dl_settings=DlSettings(rx1_dr_offset=6, rx2_dr=7),
    rx_delay=9,
)
EU868_CF_LIST = bytes.fromhex("184F84E85684B85E84886684586E8400")


def fields_of(vector: dict[str, Any]) -> JoinAcceptFields:
    return JoinAcceptFields(
        join_nonce=vector["join_nonce"],
        net_id=vector["net_id"],
        dev_addr=dev_addr(vector["dev_addr"]),
        dl_settings=DlSettings(vector["dl_settings"] >> 4, vector["dl_settings"] & 15),
        rx_delay=vector["rx_delay"],
        cf_list=bytes.fromhex(vector["cf_list"]),
    )


@each(vectors("join_accepts"))
def test_the_clear_bytes_of_others_are_read_and_written(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["clear"])[:-4]
    assert join_accept_fields(body) == fields_of(vector)
    assert fields_of(vector).body() == body


@each([vector for vector in vectors("join_accepts") if "phy" in vector])
def test_a_captured_join_accept_is_opened_and_built_again(vector: dict[str, Any]) -> None:
    app_key, phy = bytes.fromhex(vector["keys"]["app_key"]), bytes.fromhex(vector["phy"])
    assert open_join_accept(app_key, phy) == fields_of(vector)
    assert build_join_accept(app_key, fields_of(vector)) == phy
    assert parse(phy).to_bytes() == phy


def test_the_payload_bytes_of_chirpstack() -> None:
    # chirpstack/chirpstack, lrwn/src/payload.rs (MIT).
    assert FIELDS.body()[1:].hex() == "010101020202040302016709"
    with_list = replace(FIELDS, cf_list=EU868_CF_LIST)
    assert with_list.body()[1:].hex() == "010101020202040302016709184f84e85684b85e84886684586e8400"


@pytest.mark.parametrize("cf_list", [b"", EU868_CF_LIST])
def test_a_join_accept_survives_the_air(cf_list: bytes) -> None:
    fields = replace(FIELDS, cf_list=cf_list)
    phy = build_join_accept(APP_KEY, fields)
    assert len(phy) == 17 + len(cf_list)
    assert open_join_accept(APP_KEY, phy) == fields


def test_another_key_does_not_open_a_join_accept() -> None:
    with pytest.raises(MalformedFrame, match="MIC"):
        open_join_accept(bytes(16), build_join_accept(APP_KEY, FIELDS))


def test_a_changed_bit_does_not_open() -> None:
    phy = bytearray(build_join_accept(APP_KEY, FIELDS))
    phy[5] ^= 1
    with pytest.raises(MalformedFrame, match="MIC"):
        open_join_accept(APP_KEY, bytes(phy))


@pytest.mark.parametrize("phy", [b"", b"\x20" + bytes(15), b"\x20" + bytes(17), bytes(17)])
def test_what_is_no_join_accept_does_not_open(phy: bytes) -> None:
    with pytest.raises(MalformedFrame, match="join-accept"):
        open_join_accept(APP_KEY, phy)


def test_rfu_bits_are_ignored() -> None:
    body = bytearray(FIELDS.body())
    body[11] |= 0x80
    body[12] |= 0xF0
    assert join_accept_fields(bytes(body)) == FIELDS


@pytest.mark.parametrize(
    ("rx_delay", "expected_us"), [(0, 1_000_000), (1, 1_000_000), (15, 15_000_000)]
)
def test_an_rx_delay_of_zero_means_one_second(rx_delay: int, expected_us: int) -> None:
    assert replace(FIELDS, rx_delay=rx_delay).receive_delay_us == expected_us


@pytest.mark.parametrize(
    "wrong",
    [
        {"join_nonce": 1 << 24},
        {"join_nonce": -1},
        {"net_id": "13"},
        {"dl_settings": DlSettings(rx1_dr_offset=8)},
        {"dl_settings": DlSettings(rx2_dr=16)},
        {"rx_delay": 16},
        {"dl_settings": DlSettings(rx1_dr_offset=-1)},
        {"dl_settings": DlSettings(rx2_dr=-1)},
        {"rx_delay": -1},
        {"cf_list": bytes(15)},
    ],
)
def test_a_field_that_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        replace(FIELDS, **wrong).body()


@pytest.mark.parametrize(
    "fields",
    [
        {"join_nonce": 0, "dl_settings": DlSettings(0, 0), "rx_delay": 0},
        {"join_nonce": (1 << 24) - 1, "dl_settings": DlSettings(7, 15), "rx_delay": 15},
    ],
    ids=["least", "most"],
)
def test_a_field_has_all_its_bits(fields: dict[str, Any]) -> None:
    accept = replace(FIELDS, **fields)
    assert join_accept_fields(accept.body()) == accept


def test_a_frequency_of_a_cf_list_has_24_bits() -> None:
    most_hz = ((1 << 24) - 1) * 100
    assert cf_list_frequencies_hz(frequency_cf_list([0, most_hz])) == (most_hz,)


def test_a_cf_list_of_frequencies() -> None:
    frequencies_hz = (867_100_000, 867_300_000, 867_500_000, 867_700_000, 867_900_000)
    assert frequency_cf_list(frequencies_hz) == EU868_CF_LIST
    assert cf_list_frequencies_hz(EU868_CF_LIST) == frequencies_hz
    assert cf_list_channel_masks(EU868_CF_LIST) == ()


def test_unused_frequencies_are_left_out() -> None:
    assert cf_list_frequencies_hz(frequency_cf_list([867_100_000])) == (867_100_000,)
    assert cf_list_frequencies_hz(bytes(16)) == ()


def test_a_cf_list_of_channel_masks() -> None:
    # US915, sub-band 2: channels 8 to 15, and 65.
    cf_list = bytes.fromhex("00ff0000000000000200000000000001")
    assert cf_list_channel_masks(cf_list) == (0xFF00, 0, 0, 0, 0x0002)
    assert cf_list_frequencies_hz(cf_list) == ()


@pytest.mark.parametrize("cf_list", [b"", bytes(15) + b"\x02"])
def test_no_cf_list_and_an_unknown_type_say_nothing(cf_list: bytes) -> None:
    assert cf_list_frequencies_hz(cf_list) == ()
    assert cf_list_channel_masks(cf_list) == ()


@pytest.mark.parametrize("frequencies_hz", [[868_100_000] * 6, [868_100_050], [1 << 32], [-100]])
def test_frequencies_that_a_cf_list_cannot_spell_are_refused(frequencies_hz: list[int]) -> None:
    with pytest.raises(ValueError, match="CFList"):
        frequency_cf_list(frequencies_hz)
