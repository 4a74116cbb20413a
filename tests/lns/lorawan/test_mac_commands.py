import pytest
from hypothesis import given
from hypothesis import strategies as st

from lns.lorawan.mac_commands import (
    DeviceTimeAns,
    DeviceTimeReq,
    DevStatusAns,
    DevStatusReq,
    LinkADRAns,
    LinkADRReq,
    LinkCheckAns,
    LinkCheckReq,
    MacCommand,
    OtherCommand,
    ServerCommand,
    TxParamSetupAns,
    TxParamSetupReq,
    encode,
    parse_downlink,
    parse_uplink,
)

UPLINKS: list[tuple[str, tuple[MacCommand, ...]]] = [
    ("", ()),
    ("02", (LinkCheckReq(),)),
    # Captured: DevStatusAns of a device under test (lorawan_conformance_testing, MIT).
    ("06FE1F", (DevStatusAns(battery=254, margin_db=31),)),
    ("06FE20", (DevStatusAns(battery=254, margin_db=-32),)),
    # brocaar/lorawan, phypayload_test.go (MIT).
    ("067307", (DevStatusAns(battery=115, margin_db=7),)),
    ("0307", (LinkADRAns(),)),
    ("0304", (LinkADRAns(power_ack=True, dr_ack=False, ch_mask_ack=False),)),
    ("0302", (LinkADRAns(power_ack=False, dr_ack=True, ch_mask_ack=False),)),
    ("0301", (LinkADRAns(power_ack=False, dr_ack=False, ch_mask_ack=True),)),
    ("0D020307", (DeviceTimeReq(), LinkCheckReq(), LinkADRAns())),
    ("050702", (OtherCommand(0x05, b"\x07"), LinkCheckReq())),
    ("091103", (TxParamSetupAns(), OtherCommand(0x11, b"\x03"))),
]  # fmt: skip

DOWNLINKS: list[tuple[str, tuple[ServerCommand, ...]]] = [
    ("", ()),
    ("06", (DevStatusReq(),)),
    ("020701", (LinkCheckAns(margin_db=7, gateway_count=1),)),
    (
        "0351FF0001",
        (LinkADRReq(dr=5, tx_power=1, ch_mask=0x00FF, ch_mask_cntl=0, nb_trans=1),),
    ),
    (
        "03FF020073",
        (LinkADRReq(dr=15, tx_power=15, ch_mask=2, ch_mask_cntl=7, nb_trans=3),),
    ),
    # ChirpStack: index 5 is 16 dBm, index 10 is 26 dBm; dwell times of 400 ms.
    ("0915", (TxParamSetupReq(downlink_dwell=False, uplink_dwell=True, max_eirp_dbm=16),)),
    ("0935", (TxParamSetupReq(downlink_dwell=True, uplink_dwell=True, max_eirp_dbm=16),)),
    ("091A", (TxParamSetupReq(downlink_dwell=False, uplink_dwell=True, max_eirp_dbm=26),)),
    ("080506", (OtherCommand(0x08, b"\x05"), DevStatusReq())),
    # brocaar/lorawan, mac_commands_test.go (MIT): one second; one second and two 256ths.
    ("0D0100000000", (DeviceTimeAns(gps_s=1, fraction_256=0),)),
    ("0D0100000002", (DeviceTimeAns(gps_s=1, fraction_256=2),)),
]


@pytest.mark.parametrize(("data", "expected"), UPLINKS)
def test_uplink_commands(data: str, expected: tuple[MacCommand, ...]) -> None:
    assert parse_uplink(bytes.fromhex(data)) == expected


@pytest.mark.parametrize(("data", "expected"), DOWNLINKS)
def test_downlink_commands(data: str, expected: tuple[ServerCommand, ...]) -> None:
    assert parse_downlink(bytes.fromhex(data)) == expected
    assert encode(expected).hex().upper() == data


@pytest.mark.parametrize("rest", ["8002", "0002", "FF", "06", "06FE", "03"])
def test_reading_stops_at_the_first_command_that_is_unknown_or_cut_off(rest: str) -> None:
    assert parse_uplink(bytes.fromhex("02" + rest)) == (LinkCheckReq(),)


@pytest.mark.parametrize("rest", ["80", "0207", "0351FF00"])
def test_reading_of_downlinks_stops_there_too(rest: str) -> None:
    assert parse_downlink(bytes.fromhex("06" + rest)) == (DevStatusReq(),)


def test_rfu_bits_are_ignored() -> None:
    assert parse_uplink(bytes.fromhex("03FF")) == (LinkADRAns(),)
    assert parse_uplink(bytes.fromhex("06FFC1")) == (DevStatusAns(battery=255, margin_db=1),)
    assert parse_downlink(bytes.fromhex("03000000F1")) == (
        LinkADRReq(dr=0, tx_power=0, ch_mask=0, ch_mask_cntl=7, nb_trans=1),
    )


@pytest.mark.parametrize(
    "command",
    [
        LinkCheckAns(margin_db=256, gateway_count=1),
        LinkCheckAns(margin_db=0, gateway_count=-1),
        LinkADRReq(dr=16, tx_power=0, ch_mask=0),
        LinkADRReq(dr=0, tx_power=16, ch_mask=0),
        LinkADRReq(dr=0, tx_power=0, ch_mask=1 << 16),
        LinkADRReq(dr=0, tx_power=0, ch_mask=0, ch_mask_cntl=8),
        LinkADRReq(dr=0, tx_power=0, ch_mask=0, nb_trans=16),
    ],
)
def test_a_field_that_does_not_fit_is_refused(command: ServerCommand) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode([command])


@given(st.binary(max_size=40))
def test_any_bytes_can_be_read_and_what_a_server_says_can_be_written(data: bytes) -> None:
    parse_uplink(data)
    commands = parse_downlink(data)
    assert parse_downlink(encode(commands)) == commands
    assert len(encode(commands)) <= len(data)
