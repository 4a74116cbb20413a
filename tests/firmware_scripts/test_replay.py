import json
from pathlib import Path

import pytest

from lns.lorawan.airtime import airtime_us
from lns.lorawan.region import EU868, US915
from tests.firmware_scripts.running import SCRIPTS, Ended, script
from tests.firmware_scripts.scripted_boards import LoraE5Board, Rui3Board, ScriptedBoard

# MHDR 40 | DevAddr 01ABCDEF | FCtrl 00 | FCnt 2A00 | FPort 02 | C0FFEE | MIC
PHY = "40EFCDAB01002A0002C0FFEE11223344"
UPDF = {
    **{"msgtype": "updf", "MHdr": 0x40, "DevAddr": 0x01ABCDEF, "FCtrl": 0, "FCnt": 42},
    **{"FOpts": "", "FPort": 2, "FRMPayload": "C0FFEE", "MIC": 0x44332211},
    **{"DR": 5, "Freq": 868_300_000},
}


def replay(board: ScriptedBoard, *more: str) -> Ended:
    channel = ("--freq", "868.1", "--dr", "5")
    return script("replay.py", "--port", board.port, "--dialect", board.dialect, *channel, *more)


def test_a_rui3_board_is_set_up_once_and_sends_the_frame() -> None:
    with Rui3Board() as board:
        first = replay(board, PHY)
        assert first.code == 0, first.err
        assert board.settings["P2P"] == "868100000:7:0:0:8:14"
        assert board.settings["SYNCWORD"] == "3444", "the default is the private one"
        assert board.commands[-1] == f"AT+PSEND={PHY}"
        assert board.restarts == 1
        board.commands.clear()
        again = replay(board, PHY)
        written = [line for line in board.commands if "=" in line and not line.endswith("=?")]
        assert written == ["AT+PRECV=0", f"AT+PSEND={PHY}"]
    assert again.code == 0
    assert "sent: unconfirmed uplink of 16 bytes at 868.1 MHz, DR5 (SF7, 125 kHz)" in again.out
    assert "forbids more in this band for 5 s" in again.out


def test_the_proof_may_come_before_ok() -> None:
    with Rui3Board(NWM="0") as board:
        board.sending = lambda: board.says("+EVT:TXP2P DONE", "OK")
        assert replay(board, PHY).code == 0


def test_ok_alone_is_no_proof() -> None:
    with Rui3Board(NWM="0") as board:
        board.sending = lambda: board.says("OK")
        ended = replay(board, PHY)
    assert ended.code == 1
    assert "nothing proves that the frame was sent" in ended.err
    assert "sent:" not in ended.out


def test_a_busy_radio_is_a_failure() -> None:
    with Rui3Board(NWM="0") as board:
        board.sending = lambda: board.says("AT_BUSY_ERROR")
        ended = replay(board, PHY)
    assert ended.code == 1
    assert "AT_BUSY_ERROR" in ended.err


def test_a_lora_e5_sends_in_test_mode_with_the_public_sync_word() -> None:
    with LoraE5Board() as board:
        ended = replay(board, PHY)
        assert ended.code == 0, ended.err
        assert board.commands[-3:] == [
            "AT+MODE=TEST",
            "AT+TEST=RFCFG,868.1,SF7,125,8,8,14,ON,OFF,ON",
            f'AT+TEST=TXLRPKT,"{PHY}"',
        ]


def test_a_lora_e5_that_stays_with_the_private_sync_word_sends_nothing() -> None:
    with LoraE5Board() as board:
        board.network = "OFF"
        ended = replay(board, PHY)
        assert not [line for line in board.commands if "TXLRPKT" in line]
    assert ended.code == 1
    assert "does not say NET:ON; nothing was sent" in ended.err


def test_a_message_of_a_station_is_the_same_frame(tmp_path: Path) -> None:
    (tmp_path / "updf.json").write_text(json.dumps(UPDF))
    with Rui3Board(NWM="0") as board:
        ended = script("replay.py", "--port", board.port, "--message", tmp_path / "updf.json")
        assert ended.code == 0, ended.err
        assert board.commands[-1] == f"AT+PSEND={PHY}"
        assert board.settings["P2P"].startswith("868300000:7:")


def test_counters_and_addresses_have_all_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from replay import phy_payload

    message = UPDF | {"FCnt": 0xFFFE, "DevAddr": -2, "MIC": -3, "FCtrl": 0x82, "FOpts": "0307"}
    assert phy_payload(message).hex() == "40feffffff82feff030702c0ffeefdffffff"
    without_port = message | {"FPort": -1, "FRMPayload": ""}
    assert phy_payload(without_port).hex() == "40feffffff82feff0307fdffffff"


def test_a_join_request_is_put_together_as_it_was_on_the_air(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from replay import phy_payload

    message = {"msgtype": "jreq", "MHdr": 0, "DevNonce": 0x0102, "MIC": -1}
    euis = {"JoinEui": "AC-1F-09-FF-F8-68-00-01", "DevEui": "AC-1F-09-FF-FE-00-00-01"}
    spelled_otherwise = {"JoinEUI": euis["JoinEui"], "DevEUI": euis["DevEui"]}
    phy = "00010068F8FF091FAC010000FEFF091FAC0201FFFFFFFF"
    assert phy_payload({**message, **euis}).hex().upper() == phy
    assert phy_payload({**message, **spelled_otherwise}).hex().upper() == phy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--freq", "869.525", "--dr", "5", PHY], "no uplink channel of EU868"),
        (["--freq", "868.1", "--dr", "6", PHY], "no uplink channel of EU868 for DR6"),
        (["--freq", "868.1", "--dr", "7", PHY], "DR7 is no LoRa uplink"),
        (["--freq", "868.1", "--dr", "0", PHY + "00" * 49], "65 bytes: EU868 DR0 carries 64"),
        (["--freq", "868.1", "--dr", "5", "60" + PHY[2:]], "no LoRaWAN uplink"),
        (["--freq", "868.1", "--dr", "5", "00" + PHY[2:]], "a join-request has 23 bytes"),
        (["--freq", "868.1", "--dr", "5", "40EF"], "an uplink has 12 at least"),
        (["--freq", "868.1", "--dr", "5", "4"], "even number of hex digits"),
        (["--freq", "868.1", "--dr", "5", "--power-dbm", "20", PHY], "EU868 allows 5 to 14"),
        (["--freq", "903.9", "--dr", "0", "--region", "US915", PHY + "00" * 9], "carries 24"),
        (["--freq", "868.1", "--dr", "3", "--region", "US915", PHY], "uplink channel of US915"),
        (["--dr", "5", PHY], "give --freq"),
        (["--freq", "868.1", "--dr", "5"], "give the frame as hex"),
    ],
)
def test_what_the_region_forbids_is_refused_before_a_port_is_opened(
    arguments: list[str], message: str
) -> None:
    ended = script("replay.py", "--port", "/dev/not-there", *arguments)
    assert ended.code == 4
    assert message in ended.err


def test_the_region_of_the_bench_decides(tmp_path: Path) -> None:
    bench = tmp_path / "bench.toml"
    bench.write_text(
        '[bench]\nname = "lab-1"\nregion = "US915"\n[[replayer]]\nname = "replayer"\n'
        'dialect = "rui3"\nport = "/dev/not-there"\n'
    )
    ended = script(
        *("replay.py", "replayer", PHY, "--bench", bench, "--freq", "903.9", "--dr", "3"),
        "--dry-run",
    )
    assert ended.code == 0, ended.err
    assert "would send: unconfirmed uplink of 16 bytes at 903.9 MHz, DR3" in ended.out


def test_a_frame_beyond_239_bytes_is_too_long_for_rui3() -> None:
    with Rui3Board(NWM="0") as board:
        ended = replay(board, PHY + "00" * 224)
        assert not [line for line in board.commands if "PSEND" in line]
    assert ended.code == 4
    assert "240 bytes: RUI3 sends 239 at most" in ended.err


def test_airtime_and_sizes_are_those_of_the_network_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import on_the_air

    for data_rate in (on_the_air.DATA_RATES["US915"][dr] for dr in range(4)):
        assert on_the_air.airtime_us(data_rate, data_rate.payload_max + 13) <= 400_000, "dwell"
    for region in (EU868, US915):
        for dr, data_rate in on_the_air.DATA_RATES[region.name].items():
            theirs = region.data_rates[dr]
            assert (data_rate.sf, data_rate.bw_khz * 1000) == (theirs.sf, theirs.bw_hz)
            assert data_rate.payload_max == region.max_payload(dr, repeater=False)
            for size in (12, 14, 23, 51, 64, 222, 255):
                ours = on_the_air.airtime_us(data_rate, size)
                assert abs(ours - airtime_us(size, sf=theirs.sf, bw_hz=theirs.bw_hz)) <= 1
