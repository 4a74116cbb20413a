import pytest

from bench.virtual import crafted
from bench.virtual.air import uplink_in
from bench.virtual.crafted import Identity
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, JoinRequest, parse
from lns.lorawan.identifiers import DevAddr, Eui

DEV_EUI, JOIN_EUI = Eui("3331383274356905"), Eui("AA13693363343639")
DEV_ADDR = DevAddr("49BE7DF1")
# The keys and frames of lora-packet's README.
KEYS = SessionKeys(
    bytes.fromhex("44024241ed4ce9a68c6a8bc055233fd3"),
    bytes.fromhex("ec925802ae430ca77fd3dd73cb2cc588"),
)
RECORDED = "40f17dbe4900020001954378762b11ff0d"
APP_KEY = bytes(range(16))
IDENTITY = Identity(DEV_EUI, JOIN_EUI, APP_KEY)


def data(phy: bytes) -> Data:
    frame = parse(phy)
    assert isinstance(frame, Data)
    return frame


def join_request(phy: bytes) -> JoinRequest:
    request = parse(phy)
    assert isinstance(request, JoinRequest)
    return request


def test_a_frame_is_what_the_device_would_have_sent() -> None:
    sent = crafted.data(DEV_EUI, DEV_ADDR, KEYS, 2, payload=b"test", port=1)
    assert sent.phy.hex() == RECORDED
    assert sent.frame_id == "49BE7DF1:2:2B11FF0D"
    assert (sent.dev_eui, sent.f_cnt, sent.session, sent.confirmed) == (DEV_EUI, 2, 0, False)
    assert (sent.transmissions, sent.acknowledged) == ([], False)


def test_a_frame_may_have_anything_in_it() -> None:
    sent = crafted.data(
        DEV_EUI, DEV_ADDR, KEYS, 7, session=3, confirmed=True, port=None, f_opts=b"\x02"
    )
    frame = data(sent.phy)
    assert (frame.confirmed, frame.f_port, frame.f_opts) == (True, None, b"\x02")
    assert frame.mic_is_valid(KEYS.nwk_s_key, 7)
    assert (sent.session, sent.confirmed) == (3, True)


def test_a_counter_has_32_bits_and_16_of_them_on_the_wire() -> None:
    sent = crafted.data(DEV_EUI, DEV_ADDR, KEYS, 65_541)
    frame = data(sent.phy)
    assert (sent.f_cnt, frame.f_cnt) == (65_541, 5)
    assert sent.frame_id.startswith("49BE7DF1:5:")
    assert frame.mic_is_valid(KEYS.nwk_s_key, 65_541)
    assert not frame.mic_is_valid(KEYS.nwk_s_key, 5)


def test_a_forged_frame_differs_in_its_mic_only() -> None:
    genuine = crafted.data(DEV_EUI, DEV_ADDR, KEYS, 2, payload=b"test")
    forged = crafted.data(DEV_EUI, DEV_ADDR, KEYS, 2, payload=b"test", forged=True)
    assert forged.phy[:-4] == genuine.phy[:-4]
    assert not data(forged.phy).mic_is_valid(KEYS.nwk_s_key, 2)
    assert forged.frame_id == data(forged.phy).frame_id != genuine.frame_id


def test_a_sent_frame_can_be_forged_afterwards() -> None:
    genuine = crafted.data(DEV_EUI, DEV_ADDR, KEYS, 2, session=1, confirmed=True)
    forged = crafted.forged(genuine)
    again = crafted.data(DEV_EUI, DEV_ADDR, KEYS, 2, session=1, confirmed=True, forged=True)
    assert forged == again
    assert forged.transmissions is not genuine.transmissions


def test_a_frame_of_somebody_else_is_named() -> None:
    sent = uplink_in(DEV_EUI, bytes.fromhex(RECORDED), 2, session=4)
    assert sent.frame_id == "49BE7DF1:2:2B11FF0D"
    assert (sent.f_cnt, sent.session, sent.confirmed) == (2, 4, False)
    assert sent.phy == bytes.fromhex(RECORDED)
    with pytest.raises(ValueError, match="no data frame"):
        uplink_in(DEV_EUI, b"\x40\x01", 0)


def test_a_join_request_of_a_device() -> None:
    joining = crafted.join(IDENTITY, 35_076)
    request = join_request(joining.phy)
    assert request.mic_is_valid(APP_KEY)
    assert joining.frame_id == "AA13693363343639:3331383274356905:35076"
    assert (joining.dev_eui, joining.dev_nonce, joining.accepted) == (DEV_EUI, 35_076, False)


def test_a_join_request_for_another_join_eui() -> None:
    other = Eui("70B3D57ED00000FF")
    request = join_request(crafted.join(IDENTITY, 1, join_eui=other).phy)
    assert request.join_eui == other
    assert request.mic_is_valid(APP_KEY)


def test_a_forged_join_request_keeps_its_name() -> None:
    genuine, forged = crafted.join(IDENTITY, 1), crafted.join(IDENTITY, 1, forged=True)
    assert forged.frame_id == genuine.frame_id
    assert not join_request(forged.phy).mic_is_valid(APP_KEY)


def test_keys_do_not_show() -> None:
    assert APP_KEY.hex() not in repr(IDENTITY)
    assert repr(APP_KEY)[2:-1] not in repr(IDENTITY)
