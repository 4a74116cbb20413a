from pathlib import Path

import pytest

from tests.firmware_scripts.running import Ended, script
from tests.firmware_scripts.scripted_boards import LoraE5Board, Rui3Board, ScriptedBoard

KEY = "2B7E151628AED2A6ABF7158809CF4F3C"
OTHER_KEY = "00112233445566778899AABBCCDDEEFF"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "dut.key"
    file.write_text(KEY + "\n")
    return file


def provision(board: ScriptedBoard, key_file: Path, *more: str) -> Ended:
    ended = script(
        *("provision.py", "--port", board.port, "--dev-eui", "AC1F09FFFE000001"),
        *("--join-eui", "AC1F09FFF8680001", "--app-key-file", key_file, "--role", "DUT"),
        *("--dialect", board.dialect, "--verbose", *more),
    )
    assert KEY not in ended.out + ended.err, "a key is never shown"
    return ended


def writes(board: ScriptedBoard) -> list[str]:
    return [line for line in board.commands if "=" in line and not line.endswith("=?")]


def test_a_new_board_gets_what_is_wanted_and_nothing_else(key_file: Path) -> None:
    with Rui3Board() as board:
        ended = provision(board, key_file)
        assert ended.code == 0, ended.err
        assert board.settings["APPKEY"] == KEY
        assert board.settings["DR"] == "5" and board.settings["TXP"] == "1"
        assert board.settings["JOIN"].split(":")[1] == "0"
        assert writes(board) == [
            *("AT+APPEUI=AC1F09FFF8680001", f"AT+APPKEY={KEY}", "AT+ADR=0", "AT+DR=5"),
            *("AT+TXP=1", "AT+JOIN=0:0:8:0"),
        ]
        assert board.restarts == 0
    assert "data rate: 0 -> 5" in ended.out
    assert "AppKey: another one -> written" in ended.out


def test_a_second_time_nothing_is_written(key_file: Path) -> None:
    with Rui3Board() as board:
        provision(board, key_file)
        board.commands.clear()
        ended = provision(board, key_file)
        assert writes(board) == []
    assert ended.code == 0
    assert "0 of 13 settings written, all compared" in ended.out


def test_a_dry_run_reads_and_writes_nothing(key_file: Path) -> None:
    with Rui3Board() as board:
        before = dict(board.settings)
        ended = provision(board, key_file, "--dry-run")
        assert board.settings == before and writes(board) == []
    assert ended.code == 0
    assert "would write data rate: 0 -> 5" in ended.out


def test_the_region_is_written_first_because_it_resets_the_data_rate(key_file: Path) -> None:
    with Rui3Board(BAND="5", DR="3") as board:
        assert provision(board, key_file).code == 0
        assert board.settings["BAND"] == "4" and board.settings["DR"] == "5"


def test_a_board_in_p2p_mode_comes_back_to_lorawan(key_file: Path) -> None:
    with Rui3Board(NWM="0") as board:
        ended = provision(board, key_file)
        assert ended.code == 0, ended.err
        assert board.settings["NWM"] == "1" and board.restarts == 1


def test_a_setting_that_does_not_stay_is_found_by_reading_back(key_file: Path) -> None:
    with Rui3Board() as board:
        board.deaf_to = ("DR",)
        ended = provision(board, key_file)
    assert ended.code == 1
    assert "data rate reads 0 after 5 was written" in ended.err


def test_a_cable_that_is_pulled_is_one_plain_message(key_file: Path) -> None:
    with Rui3Board() as board:
        board.unplugged_by = "AT+DR=?"
        ended = provision(board, key_file)
    assert ended.code == 1
    assert f"{board.port}: unplugged or closed" in ended.err.splitlines()[-1]


def test_a_device_that_joins_never_gets_session_keys(key_file: Path) -> None:
    with Rui3Board() as board:
        provision(board, key_file)
        assert not [line for line in writes(board) if "SKEY" in line or "DEVADDR" in line]


def test_an_abp_device_is_restarted_and_the_lost_counters_are_said(tmp_path: Path) -> None:
    (tmp_path / "nwk.key").write_text(KEY)
    with Rui3Board() as board:
        ended = script(
            *("provision.py", "--port", board.port, "--dev-eui", "AC1F09FFFE000001"),
            *("--dev-addr", "01abcdef", "--nwk-s-key-file", tmp_path / "nwk.key"),
            *("--app-s-key-env", "APP_KEY"),
            APP_KEY=OTHER_KEY,
        )
        assert ended.code == 0, ended.err
        assert board.settings["NJM"] == "0" and board.settings["DEVADDR"] == "01ABCDEF"
        assert board.settings["APPSKEY"] == OTHER_KEY and board.restarts == 1
    assert "frame counters begin anew" in ended.out


def test_us915_gets_the_mask_of_its_sub_band(key_file: Path) -> None:
    with Rui3Board(BAND="5") as board:
        ended = provision(board, key_file, "--region", "US915", "--power-dbm", "20")
        assert ended.code == 0, ended.err
        assert board.settings["MASK"] == "0002" and board.settings["DR"] == "3"
        assert board.settings["TXP"] == "5"
        assert not [line for line in board.commands if "DCS" in line], "it has no duty cycle"


def test_a_lora_e5_gets_its_mode_and_identity(key_file: Path) -> None:
    with LoraE5Board() as board:
        ended = provision(board, key_file)
        assert ended.code == 0, ended.err
        assert board.settings == {"MODE": "LWOTAA", "ADR": "OFF", "CLASS": "A", "POWER": "14"}
        assert board.ids["DevEui"] == "AC:1F:09:FF:FE:00:00:01"
        assert board.keys == {"APPKEY": KEY} and board.dr == 5
        board.commands.clear()
        again = provision(board, key_file)
        assert f'AT+KEY=APPKEY,"{KEY}"' in writes(board), "it cannot tell its key"
        assert not [line for line in writes(board) if line.startswith(("AT+ID", "AT+MODE"))]
    assert "AppKey: written, as this board cannot tell it" in again.out


def test_the_duty_cycle_goes_only_when_that_is_said(key_file: Path) -> None:
    with Rui3Board() as rui3, LoraE5Board() as e5:
        provision(rui3, key_file)
        provision(e5, key_file)
        assert rui3.settings["DCS"] == "1" and "AT+LW=DC,ON" in e5.commands
        provision(rui3, key_file, "--no-duty-cycle")
        provision(e5, key_file, "--no-duty-cycle")
        assert rui3.settings["DCS"] == "0"
        assert {"AT+LW=DC,OFF", "AT+LW=JDC,OFF"} <= set(e5.commands)


def test_a_lora_e5_in_us915_keeps_to_its_sub_band(key_file: Path) -> None:
    with LoraE5Board() as board:
        ended = provision(board, key_file, "--region", "US915", "--sub-band", "2")
        assert ended.code == 0, ended.err
        assert board.plan == "US915" and board.dr == 3
        assert "AT+CH=NUM,8-15" in board.commands
        assert not [line for line in board.commands if line.startswith("AT+LW")]


def test_a_lora_e5_that_answers_with_another_key_is_not_believed(key_file: Path) -> None:
    with LoraE5Board() as board:
        board.takes_keys = False
        ended = provision(board, key_file)
    assert ended.code == 1
    assert "AppKey was written and the answer holds another value" in ended.err


def test_the_inventory_says_where_who_and_with_which_key(tmp_path: Path) -> None:
    (tmp_path / "dut.key").write_text(KEY)
    bench = tmp_path / "bench.toml"
    with Rui3Board(ALIAS="") as board:
        bench.write_text(
            f"""
            [bench]
            name = "lab-1"
            region = "EU868"
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
        ended = script("provision.py", "dut", "--bench", bench)
        assert ended.code == 0, ended.err
        assert board.settings["DR"] == "4" and board.settings["TXP"] == "2"
        assert board.settings["APPKEY"] == KEY and board.settings["ALIAS"] == "dut"
        unknown = script("provision.py", "dud", "--bench", bench)
        radiating = script("provision.py", "dut", "--bench", bench, "--no-duty-cycle")
    assert unknown.code == 4 and "it has: dut" in unknown.err
    assert radiating.code == 4 and "conducted = true" in radiating.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dev-eui", "AC1F"], "needs --join-eui and --app-key-file"),
        (["--join-eui", "A" * 16], "give --dev-eui"),
        (["--dev-eui", "A" * 16, "--dev-addr", "01ABCDEF"], "--nwk-s-key-file"),
        (["dut"], "a name belongs to a --bench"),
        (["--bench", "/not/there.toml", "dut"], "/not/there.toml cannot be read"),
    ],
)
def test_what_is_missing_is_said_before_a_port_is_opened(
    arguments: list[str], message: str
) -> None:
    ended = script("provision.py", "--port", "/dev/not-there", *arguments)
    assert ended.code == 4
    assert message in ended.err


def test_a_wrong_key_is_refused_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "short.key").write_text(KEY[:-2])
    ended = script(
        *("provision.py", "--port", "/dev/not-there", "--dev-eui", "A" * 16),
        *("--join-eui", "A" * 16, "--app-key-file", tmp_path / "short.key"),
    )
    assert ended.code == 4
    assert "32 hex digits, not 30 characters" in ended.err
    assert KEY[:-2] not in ended.err


def test_a_power_between_two_steps_is_refused(key_file: Path) -> None:
    with Rui3Board() as board:
        ended = provision(board, key_file, "--power-dbm", "13")
        assert writes(board) == []
    assert ended.code == 1
    assert "steps of 2 dB" in ended.err
