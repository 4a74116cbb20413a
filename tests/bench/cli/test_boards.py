"""`lorabench devices provision`, `reset`, `replay` with boards that are written by hand."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli.program import main
from tests.firmware_scripts.scripted_boards import DEFAULTS, LoraE5Board, Rui3Board, ScriptedBoard

KEY = "2B7E151628AED2A6ABF7158809CF4F3C"
OTHER_KEY = "00112233445566778899AABBCCDDEEFF"
# MHDR 40 | DevAddr 01ABCDEF | FCtrl 00 | FCnt 2A00 | FPort 02 | C0FFEE | MIC
PHY = "40EFCDAB01002A0002C0FFEE11223344"
UPDF = {
    **{"msgtype": "updf", "MHdr": 0x40, "DevAddr": 0x01ABCDEF, "FCtrl": 0, "FCnt": 42},
    **{"FOpts": "", "FPort": 2, "FRMPayload": "C0FFEE", "MIC": 0x44332211},
    **{"DR": 5, "Freq": 868_300_000},
}
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a verb: its exit code, and what it says."""

    def run(*words: object) -> tuple[int, str, str]:
        code = main(["devices", *map(str, words)])
        out, err = capsys.readouterr()
        assert KEY not in out + err, "a key is never shown"
        return code, out, err

    return run


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "dut.key"
    file.write_text(KEY + "\n")
    return file


def identity(board: ScriptedBoard, key_file: Path) -> tuple[object, ...]:
    return (
        *("provision", "--port", board.port, "--dialect", board.dialect),
        *("--dev-eui", "AC1F09FFFE000001", "--join-eui", "AC1F09FFF8680001"),
        *("--app-key-file", key_file, "--role", "DUT", "--verbose"),
    )


def writes(board: ScriptedBoard) -> list[str]:
    return [line for line in board.commands if "=" in line and not line.endswith("=?")]


def test_a_new_board_gets_what_is_wanted_and_nothing_else(said: Said, key_file: Path) -> None:
    with Rui3Board() as board:
        code, out, err = said(*identity(board, key_file))
        assert code == 0, err
        assert writes(board) == [
            *("AT+APPEUI=AC1F09FFF8680001", f"AT+APPKEY={KEY}", "AT+ADR=0", "AT+DR=5"),
            *("AT+TXP=1", "AT+JOIN=0:0:8:0"),
        ]
        assert out.splitlines()[1:] == [
            "written: APPEUI: 0000000000000000 -> AC1F09FFF8680001",
            "written: APPKEY: a key, not shown",
            "written: ADR: 1 -> 0",
            "written: DR: 0 -> 5",
            "written: TXP: 0 -> 1",
            "written: JOIN: 1:1:8:0 -> 0:0:8:0",
            "6 settings written, all compared",
        ]
        assert "> AT+APPKEY=***" in err
        board.commands.clear()
        code, out, _ = said(*identity(board, key_file))
        assert writes(board) == [] and "0 settings written" in out


def test_a_dry_run_reads_and_writes_nothing(said: Said, key_file: Path) -> None:
    with Rui3Board() as board:
        code, out, _ = said(*identity(board, key_file), "--dry-run")
        assert writes(board) == []
    assert code == 0 and "would write DR: 0 -> 5" in out and "would write ALIAS" not in out
    assert "would write APPKEY: a key, not shown" in out


def test_a_setting_that_does_not_stay_is_found_by_reading_back(said: Said, key_file: Path) -> None:
    with Rui3Board() as board:
        board.deaf_to = ("DR",)
        code, _, err = said(*identity(board, key_file))
    assert code == 12 and "AT+DR reads 0, not 5" in err


def test_a_cable_that_is_pulled_is_one_plain_message(said: Said, key_file: Path) -> None:
    with Rui3Board() as board:
        board.unplugged_by = "AT+DR=?"
        code, _, err = said(*identity(board, key_file))
    assert code == 12 and "unplugged or closed" in err.splitlines()[-1]


def test_an_abp_device_gets_its_session_and_another_sub_band(
    said: Said, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APP_KEY", OTHER_KEY)
    with Rui3Board(BAND="5") as board:
        code, _, err = said(
            *("provision", "--port", board.port, "--dialect", "rui3", "--region", "US915"),
            *("--dev-eui", "AC1F09FFFE000001", "--dev-addr", "01abcdef", "--sub-band", 3),
            *("--nwk-s-key-file", key_file, "--app-s-key-env", "APP_KEY", "--power-dbm", 20),
        )
        assert code == 0, err
        assert board.settings["NJM"] == "0" and board.settings["DEVADDR"] == "01ABCDEF"
        assert board.settings["APPSKEY"] == OTHER_KEY and board.restarts == 1
        assert board.settings["MASK"] == "0004" and board.settings["TXP"] == "5"


def test_a_lora_e5_is_told_its_key_every_time(said: Said, key_file: Path) -> None:
    with LoraE5Board() as board:
        code, _, err = said(*identity(board, key_file), "--no-duty-cycle")
        assert code == 0, err
        assert board.keys == {"APPKEY": KEY} and board.dr == 5
        assert board.settings["MODE"] == "LWOTAA"
        assert {"AT+LW=DC,OFF", "AT+LW=JDC,OFF"} <= set(board.commands)
        _, out, _ = said(*identity(board, key_file), "--dry-run")
        assert "would write APPKEY: a key, not shown" in out and "would write MODE" not in out
        assert "would write LW: not told -> DC,ON" in out


def test_the_inventory_says_where_who_and_with_which_key(
    said: Said, tmp_path: Path, key_file: Path
) -> None:
    bench = tmp_path / "bench.toml"
    with Rui3Board(ALIAS="") as board:
        bench.write_text(
            f"""
            rig = "hardware"
            [bench]
            name = "lab-1"
            region = "EU868"
            tap = "127.0.0.1:0"
            [[device]]
            name = "dut"
            dialect = "rui3"
            port = "{board.port}"
            dev_eui = "AC1F09FFFE000001"
            join_eui = "AC1F09FFF8680001"
            app_key = "file:dut.key"
            dr = 4
            power_dbm = 12
            """
        )
        code, _, err = said("provision", "dut", "--bench", bench)
        assert code == 0, err
        assert board.settings["DR"] == "4" and board.settings["TXP"] == "2"
        assert board.settings["APPKEY"] == KEY and board.settings["ALIAS"] == "dut"
        code, _, err = said("provision", "dud", "--bench", bench)
        assert code == 4 and "Known: dut" in err
        code, _, err = said("provision", "dut", "--bench", bench, "--no-duty-cycle")
        assert code == 4 and "conducted = true" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dev-eui", "A" * 16], "needs --join-eui and --app-key-file"),
        (["--dev-eui", "A" * 16, "--dev-addr", "01ABCDEF"], "--nwk-s-key-file"),
        (["--app-key-env", "NOBODY"], "the environment has no NOBODY"),
        (["--sub-band", "9"], "needs --join-eui"),
        (["--region", "XX"], "XX"),
    ],
)
def test_what_is_missing_is_said_before_a_port_is_opened(
    said: Said, words: list[str], message: str
) -> None:
    code, _, err = said("provision", "--port", "/dev/not-there", *words)
    assert code == 4 and message in err


def test_a_wrong_key_is_refused_and_not_shown(said: Said, tmp_path: Path) -> None:
    (tmp_path / "short.key").write_text(KEY[:-2])
    code, _, err = said(
        *("provision", "--port", "/dev/not-there", "--dev-eui", "A" * 16),
        *("--join-eui", "A" * 16, "--app-key-file", tmp_path / "short.key"),
    )
    assert code == 4 and "32 hex digits, not 30 characters" in err and KEY[:-2] not in err


@pytest.mark.parametrize("make", [Rui3Board, LoraE5Board])
def test_a_board_forgets_everything_when_that_is_said(
    said: Said, make: Callable[[], ScriptedBoard]
) -> None:
    with make() as board:
        words = ("reset", "--port", board.port, "--dialect", board.dialect)
        code, out, _ = said(*words, "--dry-run")
        assert code == 0 and out.startswith("would reset ")
        code, _, err = said(*words)
        assert code == 4 and "say --yes" in err
        assert not {"ATR", "AT+FDEFAULT"} & set(board.commands)
        code, out, err = said(*words, "--yes")
        assert code == 0, err
        assert {"ATR", "AT+FDEFAULT"} & set(board.commands) and out.startswith("reset: ")
        if isinstance(board, Rui3Board):
            assert board.settings == DEFAULTS


def replay_words(board: ScriptedBoard, *more: object) -> tuple[object, ...]:
    channel = ("--freq", "868.1", "--dr", 5)
    return ("replay", "--port", board.port, "--dialect", board.dialect, *channel, *more)


def test_a_rui3_board_sends_the_frame_and_proves_it(said: Said) -> None:
    with Rui3Board() as board:
        code, out, err = said(*replay_words(board, PHY))
        assert code == 0, err
        assert board.settings["P2P"] == "868100000:7:0:0:8:14"
        assert board.settings["SYNCWORD"] == "3444", "the default is the private one"
        assert board.commands[-1] == f"AT+PSEND={PHY}"
    assert "sent: unconfirmed uplink of 16 bytes at 868.1 MHz, DR5" in out
    assert "forbids more in this band for 5 s" in out


def test_a_lora_e5_sends_in_test_mode_with_the_public_sync_word(said: Said) -> None:
    with LoraE5Board() as board:
        code, _, err = said(*replay_words(board, PHY))
        assert code == 0, err
        assert board.commands[-2:] == [
            "AT+TEST=RFCFG,868.1,SF7,125,8,8,14,ON,OFF,ON",
            f'AT+TEST=TXLRPKT,"{PHY}"',
        ]


def test_ok_alone_is_no_proof(said: Said) -> None:
    with Rui3Board(NWM="0") as board:
        board.sending = lambda: board.says("OK")
        code, out, err = said(*replay_words(board, PHY))
    assert code == 12 and "sent:" not in out and "TXP2P" not in out and board.port in err


def test_a_message_of_a_station_is_the_same_frame(said: Said, tmp_path: Path) -> None:
    (tmp_path / "updf.json").write_text(json.dumps(UPDF))
    with Rui3Board(NWM="0") as board:
        words = ("--dialect", "rui3", "--message", tmp_path / "updf.json")
        code, _, err = said("replay", "--port", board.port, *words)
        assert code == 0, err
        assert board.commands[-1] == f"AT+PSEND={PHY}"
        assert board.settings["P2P"].startswith("868300000:7:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ('{"MHdr": 64}', "no frame to replay"),
        ('{"msgtype": "version", "station": "2.0.6"}', "no frame to replay"),
        (json.dumps({**UPDF, "DevAddr": None}), "DevAddr"),
        (json.dumps({**UPDF, "FCtrl": 2}), "FCtrl 2 does not fit"),
    ],
)
def test_what_is_no_message_with_a_frame_is_refused(
    said: Said, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "said.json").write_text(text)
    words = ("--port", "/dev/not-there", "--message", tmp_path / "said.json")
    code, _, err = said("replay", *words)
    assert code == 4 and message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--freq", "871", "--dr", "5", PHY], "no uplink channel"),
        (["--freq", "868.1", "--dr", "7", PHY], "DR7"),
        (["--freq", "868.1", "--dr", "0", PHY + "00" * 49], "65 bytes at DR0"),
        (["--freq", "868.1", "--dr", "5", "60" + PHY[2:]], "no LoRaWAN uplink"),
        (["--freq", "868.1", "--dr", "5", "00" + PHY[2:]], "join-request has 23 bytes"),
        (["--freq", "868.1", "--dr", "5", "40EF"], "an uplink has 12 at least"),
        (["--freq", "868.1", "--dr", "5", "4"], "even number of hex digits"),
        (["--freq", "868.1", "--dr", "5", "--power-dbm", "20", PHY], "dBm at most"),
        (["--freq", "868.1", "--dr", "3", "--region", "US915", PHY], "no uplink channel"),
        (["--dr", "5", PHY], "Give --freq"),
        (["--freq", "868.1", "--dr", "5"], "Give the frame as hex"),
    ],
)
def test_what_the_region_forbids_is_refused_before_a_port_is_opened(
    said: Said, words: list[str], message: str
) -> None:
    code, _, err = said("replay", "--port", "/dev/not-there", *words)
    assert code == 4 and message in err


def test_the_help_of_each_verb_has_examples(said: Said) -> None:
    for verb in ("provision", "reset", "replay"):
        code, out, _ = said(verb, "--help")
        assert code == 0 and "Examples:" in out and "--dry-run" in out
