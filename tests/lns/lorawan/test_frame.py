from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.virtual.lorawan.join_frames import join_request
from lns.lorawan.crypto import SessionKeys, join_mic
from lns.lorawan.frame import (
    Data,
    JoinAccept,
    JoinRequest,
    MalformedFrame,
    MType,
    Proprietary,
    RejoinRequest,
    build_data,
    candidates,
    parse,
)
from lns.lorawan.identifiers import dev_addr, eui
from tests.lns.lorawan.vectors import each, vectors

KEYS = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
APP_KEY = bytes.fromhex("98929b92c49edba9676d646d3b612456")
DEV_ADDR = dev_addr("01020304")
DATA = [vector for vector in vectors("data_frames") if vector["lorawan"] == "1.0"]
UPLINK = (MType.UNCONFIRMED_UP, MType.CONFIRMED_UP)
DOWNLINK = (MType.UNCONFIRMED_DOWN, MType.CONFIRMED_DOWN)


def data_frame(phy: bytes) -> Data:
    frame = parse(phy)
    assert isinstance(frame, Data)
    return frame


def keys_of(vector: dict[str, Any]) -> SessionKeys:
    return SessionKeys(
        bytes.fromhex(vector["keys"]["NwkSKey"]), bytes.fromhex(vector["keys"]["AppSKey"])
    )


# --- data frames of other implementations; the fields of 1.1 frames are the same


@each(vectors("data_frames"))
def test_every_field_of_a_data_frame(vector: dict[str, Any]) -> None:
    assert data_frame(bytes.fromhex(vector["phy"])) == Data(
        m_type=MType[vector["m_type"]],
        dev_addr=dev_addr(vector["dev_addr"]),
        adr=vector["adr"],
        adr_ack_req=vector.get("adr_ack_req", False),
        ack=vector["ack"],
        f_pending=vector.get("f_pending", bool(vector["f_ctrl"] & 0x10)),
        f_cnt=vector["f_cnt"],
        f_opts=bytes.fromhex(vector["f_opts"]),
        f_port=vector.get("f_port"),
        frm_payload=bytes.fromhex(vector["frm_payload"]),
        mic=bytes.fromhex(vector["mic"]),
    )


@each(vectors("data_frames"))
def test_a_data_frame_knows_its_kind_and_its_bytes(vector: dict[str, Any]) -> None:
    phy = bytes.fromhex(vector["phy"])
    frame = data_frame(phy)
    assert frame.to_bytes() == phy
    assert frame.body() == phy[:-4]
    assert frame.confirmed == vector["m_type"].startswith("CONFIRMED")
    assert frame.is_uplink == vector["m_type"].endswith("UP")
    assert frame.direction.name == vector["m_type"].rpartition("_")[2]
    assert frame.frame_id == f"{vector['dev_addr']}:{vector['f_cnt']}:{vector['mic']}"
    assert not frame.has_commands_twice


@each([vector for vector in DATA if "mic_valid" in vector])
def test_the_mic_of_a_data_frame(vector: dict[str, Any]) -> None:
    frame = data_frame(bytes.fromhex(vector["phy"]))
    f_cnt, nwk_s_key = vector["f_cnt_full"], keys_of(vector).nwk_s_key
    assert frame.mic_is_valid(nwk_s_key, f_cnt) is vector["mic_valid"]
    assert not frame.mic_is_valid(bytes(16), f_cnt)
    if "mic_would_be" in vector:
        mended = replace(frame, mic=bytes.fromhex(vector["mic_would_be"]))
        assert mended.mic_is_valid(nwk_s_key, f_cnt)


@each([vector for vector in DATA if vector.get("mic_valid") and "payload" in vector])
def test_a_data_frame_is_decrypted_and_built_again(vector: dict[str, Any]) -> None:
    phy, payload = bytes.fromhex(vector["phy"]), bytes.fromhex(vector["payload"])
    frame = data_frame(phy)
    assert frame.payload(keys_of(vector), vector["f_cnt_full"]) == payload
    assert phy == build_data(
        frame.m_type,
        dev_addr=frame.dev_addr,
        f_cnt=vector["f_cnt_full"],
        keys=keys_of(vector),
        f_port=frame.f_port,
        payload=payload,
        f_opts=frame.f_opts,
        ack=frame.ack,
        adr=frame.adr,
        adr_ack_req=frame.adr_ack_req,
        f_pending=frame.f_pending,
    )


@each([v for v in vectors("data_frames") if v["lorawan"] == "1.1" and "FNwkSIntKey" in v["keys"]])
def test_the_mic_of_a_1_1_frame_is_not_supported(vector: dict[str, Any]) -> None:
    # LoRaWAN 1.1 mixes two keys, data rate, channel and the confirmed counter into its MIC, so a
    # 1.1 device is a device whose MIC does not fit.
    frame = data_frame(bytes.fromhex(vector["phy"]))
    key = bytes.fromhex(vector["keys"]["FNwkSIntKey"])
    assert not frame.mic_is_valid(key, vector["f_cnt_full"])


def test_the_mic_of_a_rolled_over_frame_is_found_with_the_candidates_of_its_counter() -> None:
    found = {vector["id"]: vector for vector in DATA}
    vector = found["adv-rollover-conf-65536"]
    frame = data_frame(bytes.fromhex(vector["phy"]))
    nwk_s_key = keys_of(vector).nwk_s_key
    fits = [c for c in candidates(65535, frame.f_cnt) if frame.mic_is_valid(nwk_s_key, c)]
    assert fits == [65536]


def test_two_payloads_may_share_one_mic() -> None:
    found = {vector["id"]: bytes.fromhex(vector["phy"]) for vector in DATA}
    first, second = (data_frame(found[f"adv-mic-collision-{which}"]) for which in "ab")
    assert first.frm_payload != second.frm_payload
    assert first.frame_id == second.frame_id


# --- joins of other implementations


@each(vectors("join_requests"))
def test_every_field_of_a_join_request(vector: dict[str, Any]) -> None:
    phy = bytes.fromhex(vector["phy"])
    frame = parse(phy)
    assert frame == JoinRequest(
        join_eui=eui(vector["join_eui"]),
        dev_eui=eui(vector["dev_eui"]),
        dev_nonce=vector["dev_nonce"],
        mic=bytes.fromhex(vector["mic"]),
    )
    assert frame.to_bytes() == phy
    assert frame.frame_id == f"{frame.join_eui}:{frame.dev_eui}:{vector['dev_nonce']}"


@each([vector for vector in vectors("join_requests") if "mic_valid" in vector])
def test_a_join_request_is_checked_and_built_again(vector: dict[str, Any]) -> None:
    phy, app_key = bytes.fromhex(vector["phy"]), bytes.fromhex(vector["keys"]["app_key"])
    frame = parse(phy)
    assert isinstance(frame, JoinRequest)
    assert frame.mic_is_valid(app_key) is vector["mic_valid"]
    assert not frame.mic_is_valid(bytes(16))
    built = join_request(
        app_key, join_eui=frame.join_eui, dev_eui=frame.dev_eui, dev_nonce=frame.dev_nonce
    )
    assert (built == phy) is vector["mic_valid"]


@each(vectors("rejoin_requests"))
def test_every_field_of_a_rejoin_request(vector: dict[str, Any]) -> None:
    phy = bytes.fromhex(vector["phy"])
    frame = parse(phy)
    assert frame == RejoinRequest(
        rejoin_type=vector["rejoin_type"],
        net_id=vector.get("net_id"),
        join_eui=vector.get("join_eui"),
        dev_eui=eui(vector["dev_eui"]),
        rj_count=vector["rj_count"],
        mic=bytes.fromhex(vector["mic"]),
    )
    assert frame.to_bytes() == phy
    assert join_mic(bytes.fromhex(vector["key"]), phy[:-4]) == frame.mic


@each(vectors("parse_only"))
def test_frames_of_which_only_the_type_is_known(vector: dict[str, Any]) -> None:
    phy = bytes.fromhex(vector["phy"])
    frame = parse(phy)
    assert MType(phy[0] >> 5).name == vector["m_type"]
    assert frame.to_bytes() == phy
    expected = {"PROPRIETARY": Proprietary, "REJOIN_REQUEST": RejoinRequest}[vector["m_type"]]
    assert isinstance(frame, expected)
    if isinstance(frame, RejoinRequest):
        assert frame.rejoin_type == vector["rejoin_type"]


# --- what a frame must be


@each(vectors("rejected"))
def test_what_basics_station_refuses_is_malformed(vector: dict[str, Any]) -> None:
    with pytest.raises(MalformedFrame):
        parse(bytes.fromhex(vector["phy"]))


@pytest.mark.parametrize(
    ("phy", "why"),
    [
        ("", "1 to 255 bytes, not 0"),
        ("40" + "00" * 255, "1 to 255 bytes, not 256"),
        ("E0" + "00" * 255, "1 to 255 bytes, not 256"),
        ("40" + "00" * 10, "at least 12 bytes, not 11"),
        ("41" + "00" * 11, "RFU or major bits set in MHDR 41"),
        ("42" + "00" * 11, "RFU or major bits"),
        ("44" + "00" * 11, "RFU or major bits"),
        ("50" + "00" * 11, "RFU or major bits"),
        ("E1" + "00" * 11, "RFU or major bits"),
        ("400403020101000000000000", "FOptsLen 1 reaches beyond"),
        ("40040302010F00000000000000000000000000000000000000", "FOptsLen 15 reaches beyond"),
        ("00" * 22, "a join-request has 23 bytes, not 22"),
        ("00" * 24, "a join-request has 23 bytes, not 24"),
        ("20" + "00" * 15, "a join-accept has 17 or 33 bytes, not 16"),
        ("20" + "00" * 20, "a join-accept has 17 or 33 bytes, not 21"),
        ("C0", "a rejoin-request has"),
        ("C000" + "00" * 18, "a rejoin-request has .* not 20"),
        ("C001" + "00" * 17, "a rejoin-request has .* not 19"),
        ("C003" + "00" * 17, "a rejoin-request has"),
    ],
)
def test_a_malformed_frame_says_why(phy: str, why: str) -> None:
    with pytest.raises(MalformedFrame, match=why):
        parse(bytes.fromhex(phy))


def test_the_shortest_data_frame_has_neither_port_nor_payload() -> None:
    frame = data_frame(bytes.fromhex("400403020100070011223344"))
    assert (frame.f_port, frame.frm_payload, frame.f_opts) == (None, b"", b"")
    assert frame.payload(KEYS, 7) == b""


def test_f_opts_may_fill_the_frame() -> None:
    phy = bytes.fromhex("40040302010F0000" + "02" * 15 + "11223344")
    frame = data_frame(phy)
    assert (frame.f_opts, frame.f_port, frame.mic) == (b"\x02" * 15, None, phy[-4:])
    assert frame.to_bytes() == phy


def test_a_port_without_payload_is_kept() -> None:
    frame = data_frame(bytes.fromhex("40F17DBE49000300012A3518AF"))
    assert (frame.f_port, frame.frm_payload) == (1, b"")


def test_the_longest_frame_has_255_bytes() -> None:
    assert len(data_frame(b"\x40" + bytes(254)).frm_payload) == 242
    assert parse(b"\xe0" + bytes(254)) == Proprietary(bytes(254))


def test_a_proprietary_frame_may_be_a_single_byte() -> None:
    assert parse(b"\xe0") == Proprietary(b"")


@pytest.mark.parametrize("length", [17, 33])
def test_a_join_accept_stays_encrypted(length: int) -> None:
    phy = b"\x20" + bytes(range(length - 1))
    assert parse(phy) == JoinAccept(phy[1:])
    assert parse(phy).to_bytes() == phy


@pytest.mark.parametrize(("f_ctrl", "field"), [
    ("80", "adr"), ("40", "adr_ack_req"), ("20", "ack"), ("10", "f_pending"),
])  # fmt: skip
@pytest.mark.parametrize("m_hdr", ["40", "60", "80", "A0"])
def test_every_bit_of_f_ctrl_stands_for_itself(m_hdr: str, f_ctrl: str, field: str) -> None:
    phy = bytes.fromhex(f"{m_hdr}04030201{f_ctrl}0700AABBCCDD")
    frame = data_frame(phy)
    flags = ("adr", "adr_ack_req", "ack", "f_pending")
    assert [flag for flag in flags if getattr(frame, flag)] == [field]
    assert frame.to_bytes() == phy


def test_commands_in_f_opts_and_on_port_0_can_be_read_but_are_marked() -> None:
    # LoRaWAN 1.0.4, 4.3.1.6; Basics Station passes such a frame on.
    frame = data_frame(bytes.fromhex("40040302010107000200AA11223344"))
    assert (frame.f_opts, frame.f_port, frame.frm_payload) == (b"\x02", 0, b"\xaa")
    assert frame.has_commands_twice


# --- building


def test_port_0_is_encrypted_with_the_network_key() -> None:
    phy = build_data(
        MType.UNCONFIRMED_UP, dev_addr=DEV_ADDR, f_cnt=1, keys=KEYS, f_port=0, payload=b"\x02"
    )
    swapped = SessionKeys(KEYS.nwk_s_key, bytes(16))
    assert data_frame(phy).payload(swapped, 1) == b"\x02"


@pytest.mark.parametrize("f_cnt", [0, 1, 65535, 65536, 131071, (1 << 32) - 1])
@pytest.mark.parametrize("m_type", [*UPLINK, *DOWNLINK])
def test_all_32_bits_of_the_counter_are_under_mic_and_cipher(m_type: MType, f_cnt: int) -> None:
    phy = build_data(
        m_type, dev_addr=DEV_ADDR, f_cnt=f_cnt, keys=KEYS, f_port=2, payload=b"\xc0\xff\xee"
    )
    frame = data_frame(phy)
    assert frame.f_cnt == f_cnt & 0xFFFF
    assert frame.mic_is_valid(KEYS.nwk_s_key, f_cnt)
    assert frame.payload(KEYS, f_cnt) == b"\xc0\xff\xee"
    other = f_cnt ^ 0x10000
    assert not frame.mic_is_valid(KEYS.nwk_s_key, other)
    assert frame.payload(KEYS, other) != b"\xc0\xff\xee"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"m_type": MType.JOIN_REQUEST}, "no data frame"),
        ({"m_type": MType.PROPRIETARY}, "no data frame"),
        ({"payload": b"x"}, "needs an FPort"),
        ({"f_port": 256}, "FPort has 8 bits"),
        ({"f_port": -1}, "FPort has 8 bits"),
        ({"f_opts": bytes(16)}, "at most 15 bytes"),
        ({"f_opts": b"\x02", "f_port": 0}, "none with FPort 0"),
        ({"f_port": 1, "payload": bytes(243)}, "longer than 255"),
    ],
)
def test_what_lorawan_cannot_say_is_not_built(wrong: dict[str, Any], why: str) -> None:
    arguments: dict[str, Any] = {
        "m_type": MType.UNCONFIRMED_UP,
        "dev_addr": DEV_ADDR,
        "f_cnt": 1,
        "keys": KEYS,
    } | wrong
    with pytest.raises(ValueError, match=why):
        build_data(arguments.pop("m_type"), **arguments)


@pytest.mark.parametrize(
    ("said", "octets"),
    [
        ({"f_port": 255}, 13),
        ({"f_port": 0, "payload": bytes(15)}, 28),
        ({"f_opts": bytes(15)}, 27),  # without FPort
        ({"f_port": 1, "payload": bytes(242)}, 255),
        ({"f_port": 1, "f_opts": bytes(15), "payload": bytes(227)}, 255),
    ],
)
def test_the_most_that_lorawan_can_say_is_built(said: dict[str, Any], octets: int) -> None:
    phy = build_data(MType.UNCONFIRMED_UP, dev_addr=DEV_ADDR, f_cnt=1, keys=KEYS, **said)
    assert len(phy) == octets


def test_keys_do_not_show_in_any_frame() -> None:
    phy = build_data(MType.CONFIRMED_UP, dev_addr=DEV_ADDR, f_cnt=1, keys=KEYS, f_port=1)
    assert KEYS.nwk_s_key.hex() not in repr(data_frame(phy))


# --- properties

M_TYPES = st.sampled_from([*UPLINK, *DOWNLINK])
MHDRS = st.sampled_from([bytes([m_type << 5]) for m_type in MType])


@given(st.one_of(st.binary(max_size=300), st.builds(bytes.__add__, MHDRS, st.binary(max_size=40))))
def test_any_bytes_are_a_frame_that_spells_them_or_malformed(phy: bytes) -> None:
    try:
        frame = parse(phy)
    except MalformedFrame as malformed:
        assert str(malformed)
    else:
        assert frame.to_bytes() == phy


@given(st.sampled_from([vector["phy"] for vector in vectors("data_frames")]), st.data())
def test_damaged_frames_are_read_or_malformed(phy: str, data: st.DataObject) -> None:
    damaged = bytearray(bytes.fromhex(phy))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for tried in (bytes(damaged), cut):
        try:
            assert parse(tried).to_bytes() == tried
        except MalformedFrame as malformed:
            assert str(malformed)


@given(
    m_type=M_TYPES,
    address=st.integers(0, (1 << 32) - 1),
    f_cnt=st.integers(0, (1 << 32) - 1),
    f_port=st.one_of(st.none(), st.integers(0, 255)),
    payload=st.binary(max_size=60),
    f_opts=st.binary(max_size=15),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_what_was_built_is_read_back(
    m_type: MType,
    address: int,
    f_cnt: int,
    f_port: int | None,
    payload: bytes,
    f_opts: bytes,
    flags: tuple[bool, bool, bool, bool],
) -> None:
    payload = b"" if f_port is None else payload
    f_opts = b"" if f_port == 0 else f_opts
    ack, adr, adr_ack_req, f_pending = flags
    phy = build_data(
        m_type,
        dev_addr=dev_addr(address),
        f_cnt=f_cnt,
        keys=KEYS,
        f_port=f_port,
        payload=payload,
        f_opts=f_opts,
        ack=ack,
        adr=adr,
        adr_ack_req=adr_ack_req,
        f_pending=f_pending,
    )
    frame = data_frame(phy)
    assert frame.mic_is_valid(KEYS.nwk_s_key, f_cnt)
    assert frame.payload(KEYS, f_cnt) == payload
    assert (frame.m_type, frame.dev_addr, frame.f_cnt) == (
        m_type,
        dev_addr(address),
        f_cnt & 0xFFFF,
    )
    assert (frame.f_port, frame.f_opts) == (f_port, f_opts)
    assert (frame.ack, frame.adr, frame.adr_ack_req, frame.f_pending) == flags


@given(st.integers(0, 65535), st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))
def test_a_built_join_request_is_read_back(dev_nonce: int, join_eui: int, dev_eui: int) -> None:
    phy = join_request(APP_KEY, join_eui=eui(join_eui), dev_eui=eui(dev_eui), dev_nonce=dev_nonce)
    frame = parse(phy)
    assert frame == JoinRequest(eui(join_eui), eui(dev_eui), dev_nonce, phy[-4:])
    assert frame.mic_is_valid(APP_KEY)
