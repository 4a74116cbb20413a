import json
import socket
import threading
import tomllib

import pytest

from tests.firmware_scripts.running import SCRIPTS, script
from tests.firmware_scripts.scripted_boards import LoraE5Board, Rui3Board


def test_what_it_prints_can_be_pasted_into_the_inventory() -> None:
    with Rui3Board() as dut, Rui3Board(NWM="0", ALIAS="REPLAY", DEVEUI="AC1F09FFFE000002") as other:
        ended = script("identify.py", dut.port, other.port)
    assert ended.code == 0
    inventory = tomllib.loads(ended.out)
    assert inventory["device"] == [
        {
            "name": "dut",
            "dialect": "rui3",
            "port": dut.port,
            "dev_eui": "AC1F09FFFE000001",
            "dr": 5,
            "power_dbm": 14,
        }
    ]
    assert inventory["replayer"] == [{"name": "replay", "dialect": "rui3", "port": other.port}]
    assert "RUI_4.2.0_RAK3172-H" in ended.err


def test_two_boards_with_one_role_get_two_names() -> None:
    with Rui3Board() as one, Rui3Board() as other:
        ended = script("identify.py", one.port, other.port)
    assert [entry["name"] for entry in tomllib.loads(ended.out)["device"]] == ["dut", "dut-2"]


def test_a_lora_e5_is_told_from_a_rui3_board() -> None:
    with LoraE5Board() as board:
        ended = script("identify.py", "--json", board.port)
    (entry,) = json.loads(ended.out)
    # A pty has no baud rate, so the board answers at the first one that is tried.
    assert entry["dialect"] == "lora-e5" and entry["baud"] == 115_200
    assert entry["dev_eui"] == "2CF7F12000000001" and entry["firmware"] == "4.0.11"


def test_only_harmless_questions_are_asked() -> None:
    with Rui3Board() as board:
        script("identify.py", board.port)
        assert set(board.commands) == {
            *("AT", "AT+VER=?", "AT+NWM=?", "AT+DEVEUI=?", "AT+ALIAS=?"),
        }


def test_an_echo_and_an_event_in_the_answer_change_nothing() -> None:
    with Rui3Board() as board:
        board.echo = True
        board.before_ok = ("+EVT:RX_1:-61:9:UNICAST:10:a1b2",)
        ended = script("identify.py", board.port)
    assert ended.code == 0
    assert tomllib.loads(ended.out)["device"][0]["dev_eui"] == "AC1F09FFFE000001"


def test_a_port_where_nobody_answers_is_named_and_the_others_are_printed() -> None:
    class SilentBoard(Rui3Board):
        def answer(self, command: str) -> bytes:
            return b""

    with SilentBoard() as silent, Rui3Board() as board:
        ended = script("identify.py", silent.port, board.port)
    assert ended.code == 0
    assert f"{silent.port}: nobody answers" in ended.err
    assert len(tomllib.loads(ended.out)["device"]) == 1


def test_another_firmware_is_refused_with_its_name() -> None:
    with Rui3Board(VER="V1.2.0") as board:
        ended = script("identify.py", board.port)
    assert ended.code == 1
    assert "'V1.2.0' is no RUI3 firmware" in ended.err


def test_a_board_behind_a_serial_server_is_asked_by_its_url() -> None:
    with Rui3Board() as board, socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):  # once to find the dialect, once to ask
                connection, _ = server.accept()
                with connection, connection.makefile("rw", newline="") as lines:
                    for line in lines:
                        lines.write(board.answer(line.strip()).decode())
                        lines.flush()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"socket://127.0.0.1:{server.getsockname()[1]}"
        ended = script("identify.py", url)
        thread.join(5)
    assert ended.code == 0, ended.err
    assert tomllib.loads(ended.out)["device"][0]["port"] == url


def test_a_port_that_is_not_there_is_one_plain_message() -> None:
    ended = script("identify.py", "/dev/not-there")
    assert ended.code == 1
    assert "/dev/not-there cannot be opened" in ended.err


def test_a_dry_run_sends_nothing() -> None:
    with Rui3Board() as board:
        ended = script("identify.py", "--dry-run", board.port)
        assert board.commands == []
    assert ended.out == f"would send `AT` to {board.port}\n"


def test_a_board_is_named_by_serial_number_only_if_that_tells_boards_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from at_port import Plug
    from board import Identity
    from identify import _entry

    who = Identity(dialect="rui3", firmware="RUI_4.2.0_RAK3172-H", dev_eui="AC1F09FFFE000001")

    def entry(serial: str | None, *, unique: bool = True) -> dict[str, object]:
        plug = Plug("/dev/ttyUSB0", 0x10C4, serial, "1-1.2.1")
        return _entry(plug, who, 115_200, 1, serial_is_unique=unique)

    assert entry("0123ABCD")["usb_serial"] == "0123ABCD"
    assert "usb_path" not in entry("0123ABCD")
    for useless in (entry(None), entry("0001"), entry("0123ABCD", unique=False)):
        assert useless["usb_path"] == "1-1.2.1" and "usb_serial" not in useless
