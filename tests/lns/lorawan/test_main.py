import runpy
import sys

import pytest

from lns.lorawan.__main__ import main
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import (
    JoinAcceptFields,
    MType,
    build_data,
    build_join_accept,
)
from lns.lorawan.identifiers import dev_addr

FRAME = "40F17DBE4900020001954378762B11FF0D"
NWK_S_KEY = "44024241ED4CE9A68C6A8BC055233FD3"
APP_S_KEY = "EC925802AE430CA77FD3DD73CB2CC588"
WITH_KEYS = ["--nwk-s-key", NWK_S_KEY, "--app-s-key", APP_S_KEY]
KEYS = SessionKeys(bytes.fromhex(NWK_S_KEY), bytes.fromhex(APP_S_KEY))
APP_KEY = "98929B92C49EDBA9676D646D3B612456"


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, str]:
    """What the command prints for a frame it can read: the name of each line and its value."""
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[:12].strip(): line[13:] for line in lines}


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What the command says about input it cannot use."""
    assert main(argv) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    return printed.err.removeprefix("error: ").strip()


def test_a_data_frame_without_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, FRAME) == {
        "type": "unconfirmed data up",
        "DevAddr": "49BE7DF1",
        "FCnt": "2",
        "flags": "none",
        "FOpts": "none",
        "FPort": "1",
        "payload": "95437876 (as on the air)",
        "MIC": "2B11FF0D (not checked: give --nwk-s-key and --app-s-key)",
        "frame id": "49BE7DF1:2:2B11FF0D",
    }


def test_a_data_frame_with_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, FRAME.lower(), *WITH_KEYS)
    assert lines["MIC"] == "2B11FF0D (valid)"
    assert lines["decrypted"] == "74657374"


def test_keys_are_never_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main([FRAME, *WITH_KEYS])
    main([FRAME, "--nwk-s-key", NWK_S_KEY[:-2], "--app-s-key", APP_S_KEY])
    printed = capsys.readouterr()
    assert NWK_S_KEY[:-2] not in (printed.out + printed.err).upper()
    assert APP_S_KEY not in (printed.out + printed.err).upper()


def test_a_wrong_key_decrypts_nothing_and_says_what_to_try(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(capsys, FRAME, "--nwk-s-key", "00" * 16, "--app-s-key", APP_S_KEY)
    assert lines["MIC"] == "2B11FF0D (WRONG for this key)"
    assert lines[""] == "a wrong key, or the counter is above 65535: try --f-cnt"
    assert "decrypted" not in lines


def test_a_rolled_over_counter_is_given_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    phy = build_data(
        MType.CONFIRMED_UP, dev_addr=dev_addr(1), f_cnt=65543, keys=KEYS, f_port=2, payload=b"\xc0"
    )
    lines = shown(capsys, phy.hex(), *WITH_KEYS, "--f-cnt", "65543")
    assert lines["FCnt"] == "7, full 65543"
    assert lines["MIC"].endswith("(valid)")
    assert lines["decrypted"] == "C0"


def test_flags_and_commands_of_an_uplink(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "40010101 01F30300 0D06FE E0 4A5D 0579A305".replace(" ", ""))
    assert lines["flags"] == "ADR, ADRACKReq, ACK, class B"
    assert lines["FOpts"] == "0D06FE = DeviceTimeReq()"
    lines = shown(capsys, "4001010101A3030006FE1FE04A5D0579A305")
    assert lines["FOpts"] == "06FE1F = DevStatusAns(battery=254, margin_db=31)"


def test_flags_and_commands_of_a_downlink(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "60 01010101 71 0300 FF 0579A305".replace(" ", ""))
    assert lines["type"] == "unconfirmed data down"
    assert lines["flags"] == "RFU bit 6, ACK, FPending"
    assert lines["FOpts"] == "FF = no known MAC command"
    assert lines["FPort"] == "none"
    assert "payload" not in lines


def test_commands_on_port_0_are_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    phy = build_data(
        MType.UNCONFIRMED_DOWN,
        dev_addr=dev_addr(1),
        f_cnt=1,
        keys=KEYS,
        f_port=0,
        payload=b"\x08\x05\x06",
    )
    lines = shown(capsys, phy.hex(), *WITH_KEYS)
    assert lines["decrypted"] == "080506 = command 08 05, DevStatusReq()"


def test_a_frame_without_port_has_nothing_to_decrypt(capsys: pytest.CaptureFixture[str]) -> None:
    phy = build_data(MType.CONFIRMED_DOWN, dev_addr=dev_addr(1), f_cnt=1, keys=KEYS, ack=True)
    lines = shown(capsys, phy.hex(), *WITH_KEYS)
    assert lines["MIC"].endswith("(valid)")
    assert "decrypted" not in lines


def test_commands_in_two_places_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "40040302010107000200AA11223344")
    assert "discards this frame" in lines["warning"]


def test_a_join_request(capsys: pytest.CaptureFixture[str]) -> None:
    phy = "0039363463336913aa05693574323831330489c65b1304"
    lines = shown(capsys, phy)
    assert lines["type"] == "join-request"
    assert lines["join EUI"] == "AA13693363343639"
    assert lines["device EUI"] == "3331383274356905"
    assert lines["DevNonce"] == "35076"
    assert lines["MIC"] == "C65B1304 (not checked: give --app-key)"
    assert shown(capsys, phy, "--app-key", APP_KEY)["MIC"] == "C65B1304 (valid)"
    assert shown(capsys, phy, "--app-key", "00" * 16)["MIC"] == "C65B1304 (WRONG for this key)"


def test_a_join_accept_with_channels(capsys: pytest.CaptureFixture[str]) -> None:
    # Captured (lorawan_conformance_testing, MIT).
    phy = "208c939ade6717c7451af0ad55f407a069625658a2e0fde7a75c8097fce26eeed7"
    lines = shown(capsys, phy)
    assert lines["encrypted"].endswith("(give --app-key to open it)")
    assert shown(capsys, phy, "--app-key", "2b7e151628aed2a6abf7158809cf4f3c") == {
        "type": "join-accept",
        "JoinNonce": "7478800",
        "NetID": "CDFFBC",
        "DevAddr": "78928D1E",
        "RX1 offset": "0",
        "RX2 DR": "0",
        "RX1 delay": "1 s",
        "channels": "867100000 Hz, 867300000 Hz, 867500000 Hz, 867700000 Hz, 867900000 Hz",
        "MIC": "valid",
    }


@pytest.mark.parametrize(
    ("cf_list", "name", "expected"),
    [
        (b"", "CFList", "none"),
        (bytes(15) + b"\x07", "CFList", "0" * 31 + "7"),
        (bytes.fromhex("00FF0000000000000200000000000001"), "masks", "FF00 0000 0000 0000 0002"),
    ],
)
def test_other_channel_lists_of_a_join_accept(
    capsys: pytest.CaptureFixture[str], cf_list: bytes, name: str, expected: str
) -> None:
    fields = JoinAcceptFields(
        join_nonce=1, net_id="000013", dev_addr=dev_addr(1), rx_delay=5, cf_list=cf_list
    )
    phy = build_join_accept(bytes.fromhex(APP_KEY), fields)
    lines = shown(capsys, phy.hex(), "--app-key", APP_KEY)
    assert lines[name] == expected
    assert lines["RX1 delay"] == "5 s"


def test_a_join_accept_with_another_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert "MIC" in refused(capsys, "20" + "00" * 16, "--app-key", APP_KEY)


def test_a_rejoin_request(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "c0020302010807060504030201db003c8642ae")
    assert lines["type"] == "rejoin-request, type 2 (LoRaWAN 1.1)"
    assert (lines["NetID"], lines["join EUI"]) == ("010203", "not sent")
    assert lines["MIC"] == "3C8642AE (not checked: LoRaWAN 1.1 is not supported)"
    lines = shown(capsys, "c0010807060504030201100f0e0d0c0b0a09db00eac31072")
    assert (lines["NetID"], lines["join EUI"]) == ("not sent", "0102030405060708")


def test_a_proprietary_frame(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "e0008b658839") == {"type": "proprietary", "payload": "008B658839"}


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["40F17"], "the frame is not hexadecimal: two digits per byte are needed"),
        (["xyz"], "the frame is not hexadecimal"),
        (["40F1"], "cannot read this frame: a data frame has at least 12 bytes, not 2"),
        ([""], "cannot read this frame: a frame has 1 to 255 bytes, not 0"),
        ([FRAME, "--nwk-s-key", NWK_S_KEY], "--nwk-s-key and --app-s-key are needed together"),
        ([FRAME, "--app-s-key", APP_S_KEY], "--nwk-s-key and --app-s-key are needed together"),
        ([FRAME, "--nwk-s-key", "00", "--app-s-key", "00"], "--nwk-s-key needs 16 bytes"),
        ([FRAME, "--app-key", "zz"], "--app-key is not hexadecimal"),
        ([FRAME, "--f-cnt", "3"], "--f-cnt 3 does not end in the 16 bits on the wire, 2"),
        ([FRAME, "--f-cnt", "-65534"], "--f-cnt -65534 does not end"),
        ([FRAME, "--f-cnt", str((1 << 32) + 2)], "--f-cnt 4294967298 does not end"),
    ],
)
def test_bad_input_is_refused_in_one_plain_line(
    capsys: pytest.CaptureFixture[str], argv: list[str], why: str
) -> None:
    error = refused(capsys, *argv)
    assert why in error
    assert "\n" not in error


@pytest.mark.parametrize("argv", [[], [FRAME, "--f-cnt", "x"], [FRAME, "--unknown"]])
def test_wrong_options_exit_with_4(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(argv)
    assert left.value.code == 4
    assert "Traceback" not in capsys.readouterr().err


def test_the_module_is_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lns.lorawan", FRAME])
    monkeypatch.delitem(sys.modules, "lns.lorawan.__main__", raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module("lns.lorawan", run_name="__main__", alter_sys=False)
    assert left.value.code == 0
    assert "49BE7DF1" in capsys.readouterr().out
