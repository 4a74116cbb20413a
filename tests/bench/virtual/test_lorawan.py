"""The vectors that hold `lns.lorawan` hold what the far end of the air knows as well."""

from itertools import product
from typing import Any

import pytest

from bench.virtual.lorawan import air_interface, join_frames
from bench.virtual.lorawan.air_interface import DOWN, UP, Cid, Command, Keys, Kind
from bench.virtual.lorawan.channel_plan import PLANS, Fsk, Lora, channel_plan, time_on_air_us
from bench.virtual.lorawan.join_frames import JoinAccept
from lns.lorawan.region import REGIONS, DataRate, airtime_us, fsk_airtime_us, region
from tests.lns.lorawan.vectors import each, vectors

DATA = [vector for vector in vectors("data_frames") if vector["lorawan"] == "1.0"]
KEYS = Keys(bytes(range(16)), bytes(range(16, 32)))


def octets(vector: dict[str, Any], name: str) -> bytes:
    return bytes.fromhex(vector[name])


def keys_of(vector: dict[str, Any]) -> Keys:
    return Keys(octets(vector["keys"], "NwkSKey"), octets(vector["keys"], "AppSKey"))


def frame_of(vector: dict[str, Any]) -> air_interface.DataFrame:
    frame = air_interface.read_data(octets(vector, "phy"))
    assert frame is not None
    return frame


@each(vectors("data_frames"))
def test_every_field_of_a_data_frame(vector: dict[str, Any]) -> None:
    frame = frame_of(vector)
    assert frame.kind is Kind[vector["m_type"]]
    assert frame.dev_addr == vector["dev_addr"]
    assert (frame.adr, frame.ack) == (vector["adr"], vector["ack"])
    assert frame.bit_6 is vector.get("adr_ack_req", False)
    assert frame.bit_4 is vector.get("f_pending", bool(vector["f_ctrl"] & 0x10))
    assert (frame.f_cnt, frame.f_port) == (vector["f_cnt"], vector.get("f_port"))
    assert frame.f_opts == octets(vector, "f_opts")
    assert frame.encrypted == octets(vector, "frm_payload")
    assert frame.mic == octets(vector, "mic")
    assert frame.confirmed is vector["m_type"].startswith("CONFIRMED")
    assert frame.direction == (UP if vector["m_type"].endswith("UP") else DOWN)
    assert frame.frame_id == f"{vector['dev_addr']}:{vector['f_cnt']}:{vector['mic']}"


@each([vector for vector in DATA if "mic_valid" in vector])
def test_the_mic_of_a_data_frame(vector: dict[str, Any]) -> None:
    frame, f_cnt = frame_of(vector), vector["f_cnt_full"]
    assert frame.is_signed_by(keys_of(vector).nwk_s_key, f_cnt) is vector["mic_valid"]
    assert not frame.is_signed_by(bytes(16), f_cnt)


@each([vector for vector in DATA if vector.get("mic_valid") and "payload" in vector])
def test_a_data_frame_is_read_and_built_again(vector: dict[str, Any]) -> None:
    frame, keys, f_cnt = frame_of(vector), keys_of(vector), vector["f_cnt_full"]
    payload = octets(vector, "payload")
    assert frame.clear(keys, f_cnt) == payload
    assert octets(vector, "phy") == air_interface.data_frame(
        frame.kind,
        frame.dev_addr,
        keys,
        f_cnt,
        f_port=frame.f_port,
        payload=payload,
        f_opts=frame.f_opts,
        adr=frame.adr,
        bit_6=frame.bit_6,
        ack=frame.ack,
        bit_4=frame.bit_4,
    )


@each(vectors("join_requests"))
def test_every_field_of_a_join_request(vector: dict[str, Any]) -> None:
    phy = octets(vector, "phy")
    request = join_frames.read_join_request(phy)
    assert request is not None
    assert (request.join_eui, request.dev_eui) == (vector["join_eui"], vector["dev_eui"])
    assert (request.dev_nonce, request.mic) == (vector["dev_nonce"], octets(vector, "mic"))
    assert request.frame_id == f"{request.join_eui}:{request.dev_eui}:{request.dev_nonce}"
    if "app_key" not in vector["keys"]:
        return
    built = join_frames.join_request(
        octets(vector["keys"], "app_key"),
        join_eui=vector["join_eui"],
        dev_eui=vector["dev_eui"],
        dev_nonce=vector["dev_nonce"],
    )
    assert (built == phy) is vector.get("mic_valid", True)


@each([vector for vector in vectors("join_accepts") if "phy" in vector])
def test_a_join_accept_is_opened_by_its_key_alone(vector: dict[str, Any]) -> None:
    phy, app_key = octets(vector, "phy"), octets(vector["keys"], "app_key")
    accept = join_frames.read_join_accept(app_key, phy)
    assert (accept is not None) is vector.get("mic_valid", vector["lorawan"] == "1.0")
    assert join_frames.read_join_accept(bytes(16), phy) is None
    if accept is None:
        return
    assert (accept.join_nonce, accept.net_id) == (vector["join_nonce"], vector["net_id"])
    assert accept.dev_addr == vector["dev_addr"]
    assert accept.rx1_dr_offset << 4 | accept.rx2_dr == vector["dl_settings"] & 0x7F
    assert accept.rx_delay_s == max(vector["rx_delay"], 1)


@each(vectors("session_keys"))
def test_the_keys_of_a_session(vector: dict[str, Any]) -> None:
    assert join_frames.session_keys(
        octets(vector, "app_key"), vector["join_nonce"], vector["net_id"], vector["dev_nonce"]
    ) == Keys(octets(vector, "nwk_s_key"), octets(vector, "app_s_key"))


@each([vector for vector in vectors("primitives") if vector["kind"] == "payload-crypt"])
def test_payloads_are_encrypted_and_decrypted_alike(vector: dict[str, Any]) -> None:
    how = octets(vector, "key"), UP if vector["direction"] == "UP" else DOWN, vector["dev_addr"]
    clear, encrypted = octets(vector, "clear"), octets(vector, "encrypted")
    assert air_interface.crypt(*how, vector["f_cnt"], clear) == encrypted
    assert air_interface.crypt(*how, vector["f_cnt"], encrypted) == clear


@each(vectors("airtime"))
def test_airtimes_of_others(vector: dict[str, Any]) -> None:
    assert vector["airtime_us"] == time_on_air_us(
        Lora(vector["sf"], vector["bw_hz"]),
        vector["payload_bytes"],
        crc=vector["crc"],
        coding_rate=vector["coding_rate"],
        optimised=vector.get("ldro"),
    )


@each(vectors("rejected"))
def test_what_no_station_reports_is_no_frame(vector: dict[str, Any]) -> None:
    phy = octets(vector, "phy")
    assert air_interface.read_data(phy) is None
    assert join_frames.read_join_request(phy) is None
    assert join_frames.read_join_accept(bytes(16), phy) is None


# --- the whole of each region, told twice


@pytest.mark.parametrize("name", sorted({*PLANS, *REGIONS}))
def test_a_region_is_the_same_from_both_ends(name: str) -> None:
    plan, other = channel_plan(name), region(name)
    assert [(c.freq_hz, c.drs[0], c.drs[-1]) for c in plan.default_channels] == [
        (c.freq_hz, c.dr_min, c.dr_max) for c in other.uplink_channels
    ]
    assert (plan.rx2_dr, plan.rx2_freq_hz) == (other.rx2_dr, other.rx2_freq_hz)
    assert plan.limits_hz == other.freq_range_hz
    assert plan.eirp_max_dbm == other.max_eirp_dbm
    assert [(b.ranges_hz, b.per_mille) for b in plan.bands] == [
        (b.ranges_hz, b.per_mille) for b in other.duty_cycle_bands
    ]
    assert plan.payload_max == tuple(size or 0 for size in other.max_payloads_no_repeater)
    assert plan.repeater_max == tuple(size or 0 for size in other.max_payloads)
    assert (plan.own_mask, plan.power_index_max) == (other.ch_mask, other.tx_power_max)
    assert (plan.rui3_band, plan.e5_plan) == (other.rui3_band, other.lora_e5_plan)
    for dr, offset in product(plan.up_drs, range(plan.offsets)):
        assert plan.rx1_dr(dr, offset) == other.rx1_drs[dr][offset]
    for channel in plan.default_channels:
        assert plan.rx1_freq_hz(channel.freq_hz) == other.rx1_freq_hz(channel.freq_hz)
    for own, theirs in zip(plan.data_rates, other.data_rates, strict=True):
        match own, theirs:
            case Lora(sf, bw_hz), DataRate():
                assert (sf, bw_hz) == (theirs.sf, theirs.bw_hz)
            case _:
                assert (own is None) is (theirs is None)


@pytest.mark.parametrize("sf", range(7, 13))
@pytest.mark.parametrize("bw_hz", [125_000, 250_000, 500_000])
def test_airtimes_are_the_same_from_both_ends(sf: int, bw_hz: int) -> None:
    for size, crc, coding_rate in product(range(1, 256), (False, True), (1, 4)):
        assert time_on_air_us(
            Lora(sf, bw_hz), size, crc=crc, coding_rate=coding_rate
        ) == airtime_us(size, sf=sf, bw_hz=bw_hz, crc=crc, coding_rate=coding_rate)


def test_the_airtime_of_fsk() -> None:
    assert time_on_air_us(Fsk(), 12, crc=True) == fsk_airtime_us(12) == 3_680


def test_devices_in_us915_begin_with_sub_band_2() -> None:
    channels = channel_plan("US915").own_channels
    assert [channel.freq_hz for channel in channels] == [
        *range(903_900_000, 905_500_000, 200_000),
        904_600_000,
    ]
    assert channel_plan("EU868").own_channels == channel_plan("EU868").default_channels


# --- counters and commands


@pytest.mark.parametrize(
    ("last", "sent", "taken"),
    [
        (None, 0, 0),
        (None, 65_535, 65_535),
        (0, 0, None),
        (0, 1, 1),
        (65_535, 65_536, 65_536),
        (65_537, 65_537, None),
        (65_537, 65_536, None),
        (7, 65_543, 65_543),
        (7, 131_079, None),
    ],
)
def test_a_downlink_counter_is_the_next_above_the_last(
    last: int | None, sent: int, taken: int | None
) -> None:
    phy = air_interface.data_frame(Kind.UNCONFIRMED_DOWN, "01020304", KEYS, sent)
    frame = air_interface.read_data(phy)
    assert frame is not None
    assert air_interface.counter_of(frame, KEYS.nwk_s_key, last) == taken


def test_commands_are_read_up_to_the_first_unknown_one() -> None:
    assert air_interface.from_network(bytes.fromhex("02140103500700010D00000000008000")) == (
        Command(Cid.LINK_CHECK, b"\x14\x01"),
        Command(Cid.LINK_ADR, b"\x50\x07\x00\x01"),
        Command(Cid.DEVICE_TIME, bytes(5)),
    )
    assert air_interface.from_network(b"\x06\x03\x50\x07\x00") == (Command(Cid.DEV_STATUS),)
    assert air_interface.from_device(b"\x03\x07\x06\xff\x3f\x0d\x02") == (
        Command(Cid.LINK_ADR, b"\x07"),
        Command(Cid.DEV_STATUS, b"\xff\x3f"),
        Command(Cid.DEVICE_TIME),
        Command(Cid.LINK_CHECK),
    )


def test_the_fields_of_commands() -> None:
    adr = Command(Cid.LINK_ADR, b"\x5f\x07\x80\x63")
    assert air_interface.link_adr(adr) == air_interface.LinkAdr(5, 15, 0x8007, 6, 3)
    assert air_interface.link_adr_ans(power=True, dr=False, mask=True).octets == b"\x03\x05"
    assert air_interface.dev_status_ans(255, -5).octets == b"\x06\xff\x3b"
    assert air_interface.dev_status_ans(0, 40).octets == b"\x06\x00\x1f"
    assert air_interface.hertz(bytes.fromhex("184F84")) == 867_100_000


@pytest.mark.parametrize(
    ("cf_list", "expected"),
    [
        (
            "184F84E85684B85E84886684586E8400",
            {"more_channels_hz": tuple(range(867_100_000, 868_000_000, 200_000))},
        ),
        ("00FF000000000000020000000000000001"[2:], {"channel_masks": (0xFF, 0, 0, 0x200, 0)}),
    ],
)
def test_the_channels_of_a_join_accept(cf_list: str, expected: dict[str, Any]) -> None:
    key = bytes(range(16))
    body = bytes.fromhex("010000130000" + "04030201" + "2301" + cf_list)
    clear = body + join_frames.join_mic(key, b"\x20" + body)
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import ECB

    sealed = Cipher(AES(key), ECB()).decryptor().update(clear)
    assert join_frames.read_join_accept(key, b"\x20" + sealed) == JoinAccept(
        join_nonce=1,
        net_id="000013",
        dev_addr="01020304",
        rx1_dr_offset=2,
        rx2_dr=3,
        rx_delay_s=1,
        **expected,
    )
