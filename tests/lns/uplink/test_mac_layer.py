"""What a frame asks of the network, and what the network says."""

from dataclasses import replace

import pytest
from msgspec import json, structs

from lns.dedup.session import Session
from lns.lorawan.frame import Data, parse
from lns.lorawan.identifiers import Eui
from lns.lorawan.mac_commands import (
    DeviceTimeAns,
    DeviceTimeReq,
    DevStatusAns,
    DevStatusReq,
    LinkADRReq,
    LinkCheckAns,
    LinkCheckReq,
    TxParamSetupReq,
)
from lns.lorawan.region import AS923_1, EU868, US915, Region
from lns.station.protocol import Reception
from lns.uplink import mac_layer
from lns.uplink.mac_layer import Requests
from lns.uplink.registry import EndDevice
from tests.lns.served_network import ALPHA, DEV_ADDR, KEYS, uplink

NOTHING = Requests(
    ack=False, link_check=False, device_time=False, any_downlink=False, adr=False, commands=()
)
# 2024-02-29T12:00:00.5 UTC, 18 leap seconds behind GPS.
LEAP_DAY_GPS_US = 1_393_243_218_500_000


@pytest.fixture
def session() -> Session:
    return Session(dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS)


def reception(dr: int = 5, snr_db: float = 9.5) -> Reception:
    return Reception(Eui("0016C001F1500001"), b"", dr, 868_100_000, -71, snr_db, 1, 0, 1, 1)


def asked(phy: bytes, session: Session, f_cnt: int) -> Requests:
    frame = parse(phy)
    assert isinstance(frame, Data)
    return mac_layer.requests(frame, session, f_cnt)


def test_a_plain_frame_asks_nothing(session: Session) -> None:
    assert not asked(uplink(10), session, 10).wants_answer


@pytest.mark.parametrize(
    ("phy", "requests"),
    [
        (uplink(10, confirmed=True), structs.replace(NOTHING, ack=True)),
        (uplink(10, adr_ack_req=True), structs.replace(NOTHING, any_downlink=True)),
        (
            uplink(10, f_opts=b"\x02"),
            structs.replace(NOTHING, link_check=True, commands=(LinkCheckReq(),)),
        ),
        (
            uplink(10, f_port=0, payload=b"\x02"),
            structs.replace(NOTHING, link_check=True, commands=(LinkCheckReq(),)),
        ),
        (
            uplink(10, f_opts=b"\x0d"),
            structs.replace(NOTHING, device_time=True, commands=(DeviceTimeReq(),)),
        ),
        (
            uplink(10, f_port=0, payload=b"\x0d"),
            structs.replace(NOTHING, device_time=True, commands=(DeviceTimeReq(),)),
        ),
    ],
    ids=[
        "confirmed",
        "ADRACKReq",
        "LinkCheckReq in FOpts",
        "LinkCheckReq on FPort 0",
        "DeviceTimeReq in FOpts",
        "DeviceTimeReq on FPort 0",
    ],
)
def test_each_request_wants_an_answer(phy: bytes, requests: Requests, session: Session) -> None:
    found = asked(phy, session, 10)
    assert found == requests
    assert found.wants_answer


@pytest.mark.parametrize(
    ("dr", "snr_db", "margin_db"),
    [
        (5, 9.5, 17),  # SF7 needs -7.5 dB
        (0, -20.0, 0),  # SF12 needs -20 dB
        (0, -25.0, 0),
        (0, 1e9, 254),
        (7, 9.5, 0),  # FSK has no such figure
        (15, 9.5, 0),  # no data rate of this region
    ],
)
def test_the_margin_of_a_link_check(dr: int, snr_db: float, margin_db: int) -> None:
    said = mac_layer.answers(
        structs.replace(NOTHING, commands=(LinkCheckReq(),)),
        reception(dr, snr_db),
        EU868,
        LEAP_DAY_GPS_US,
    )
    assert said == [LinkCheckAns(margin_db, gateway_count=1)]


@pytest.mark.parametrize(
    ("region", "ch_mask"),
    [(EU868, 0b111), (US915, 0xFF00)],  # the default channels; sub-band 2
    ids=["EU868", "US915"],
)
def test_repetitions_are_asked_for_with_the_channels_that_stations_hear(
    region: Region, ch_mask: int, session: Session
) -> None:
    device = replace(ALPHA, nb_trans=3)
    adr = structs.replace(NOTHING, adr=True)
    said = mac_layer.wishes(adr, device, session, reception(dr=3), region)
    assert said == [LinkADRReq(dr=3, tx_power=15, ch_mask=ch_mask, ch_mask_cntl=0, nb_trans=3)]
    assert session.nb_trans_asked == 3


@pytest.mark.parametrize(
    ("f_opts", "nb_trans"),
    [(b"\x03\x07", 3), (b"\x03\x06", 1), (b"\x03\x05", 1), (b"\x03\x03", 1), (b"\x02", 1)],
    ids=["all accepted", "no mask", "no data rate", "no power", "no answer"],
)
def test_repetitions_are_granted_only_as_a_whole(
    f_opts: bytes, nb_trans: int, session: Session
) -> None:
    session.nb_trans_asked = 3
    mac_layer.apply(asked(uplink(10, f_opts=f_opts), session, 10), session)
    assert session.nb_trans == nb_trans


def test_a_device_that_a_server_of_before_has_asked_is_asked_again(session: Session) -> None:
    device: EndDevice = replace(ALPHA, nb_trans=3)
    session.nb_trans_asked = True
    granting = asked(uplink(10, f_opts=b"\x03\x07", adr=True), session, 10)
    mac_layer.apply(granting, session)
    assert mac_layer.wants_repetitions(granting, device, session)
    assert json.decode(json.encode(session), type=Session) == session


def test_a_device_that_is_to_send_less_often_is_told_so(session: Session) -> None:
    session.nb_trans = 3
    adr = structs.replace(NOTHING, adr=True)
    said = mac_layer.wishes(adr, ALPHA, session, reception(dr=3), EU868)
    assert said == [LinkADRReq(dr=3, tx_power=15, ch_mask=0b111, nb_trans=1)]


def test_an_answer_that_was_not_asked_for_changes_nothing(session: Session) -> None:
    mac_layer.apply(asked(uplink(10, f_opts=b"\x03\x07"), session, 10), session)
    assert session.nb_trans == 1


def test_nothing_is_asked_of_a_device_that_would_not_do_it(session: Session) -> None:
    device = replace(ALPHA, nb_trans=3)
    assert asked(uplink(10, adr=True), session, 10).adr
    assert not mac_layer.wants_repetitions(NOTHING, device, session)
    assert mac_layer.wishes(NOTHING, device, session, reception(), EU868) == []
    assert not session.nb_trans_asked


@pytest.mark.parametrize(
    ("gps_us", "answer"),
    [
        (LEAP_DAY_GPS_US, DeviceTimeAns(1_393_243_218, 128)),
        (1_003_906, DeviceTimeAns(1, 0)),
        (1_003_907, DeviceTimeAns(1, 1)),
        (1_999_999, DeviceTimeAns(1, 255)),
        ((1 << 32) * 1_000_000, DeviceTimeAns(0, 0)),
    ],
    ids=["a half", "just before a 256th", "just behind a 256th", "255 of 256", "2116"],
)
def test_the_time_is_told_in_256ths_of_a_second(gps_us: int, answer: DeviceTimeAns) -> None:
    wants = structs.replace(NOTHING, commands=(DeviceTimeReq(),))
    assert mac_layer.answers(wants, reception(), EU868, lambda: gps_us) == [answer]


def test_the_newest_status_counts(session: Session) -> None:
    assert asked(uplink(10), session, 10).status is None
    found = asked(uplink(10, f_opts=bytes.fromhex("06FE1F06733F")), session, 10)
    assert found.status == DevStatusAns(battery=115, margin_db=-1)


def test_a_device_in_as923_is_told_its_dwell_times_until_it_says_so(session: Session) -> None:
    """What it begins with depends on the version of the regional parameters it was built for."""
    assert mac_layer.wishes(NOTHING, ALPHA, session, reception(), EU868) == []
    for _ in range(2):
        assert mac_layer.has_wishes(NOTHING, ALPHA, session, AS923_1)
        [said] = mac_layer.wishes(NOTHING, ALPHA, session, reception(), AS923_1)
        assert said == TxParamSetupReq(downlink_dwell=False, uplink_dwell=True, max_eirp_dbm=16)
    mac_layer.apply(asked(uplink(10, f_opts=b"\x09"), session, 10), session)
    assert not mac_layer.has_wishes(NOTHING, ALPHA, session, AS923_1)
    assert mac_layer.wishes(NOTHING, ALPHA, session, reception(), AS923_1) == []


def test_commands_without_room_are_left_for_the_next_answer() -> None:
    """FOpts are 15 octets: 3, 6 and 5 leave one, which two do not fit into."""
    repeat, dwell = LinkADRReq(5, 15, 3, nb_trans=2), TxParamSetupReq(False, True, 16)
    said = [LinkCheckAns(10, 1), DeviceTimeAns(1, 0), repeat]
    assert mac_layer.that_fit([*said, dwell, DevStatusReq()]) == [*said, DevStatusReq()]
    assert mac_layer.that_fit([*said[1:], dwell, DevStatusReq()]) == [
        *said[1:], dwell, DevStatusReq(),
    ]  # fmt: skip
