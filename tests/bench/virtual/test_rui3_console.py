"""The transcripts and quirks of RUI3, from the host's side."""

from pathlib import Path

import pytest

from tests.bench.virtual.wiring import (
    APP_KEY,
    BANNER,
    RUI5,
    Desk,
    Scenes,
)

SCENES = Scenes()


@SCENES
async def the_transcript_of_settings(desk: Desk) -> None:
    board = await desk.board("dut", RUI5)
    for command, answer in (
        ("AT", "OK\r\n"),
        ("at+ver=?", "AT+VER=RUI_5.0.0_RAK3172-H\r\nOK\r\n"),
        ("AT+NWM=?", "AT+NWM=1\r\nOK\r\n"),
        ("AT+BAND=?", "AT+BAND=4\r\nOK\r\n"),
        ("AT+BAND=4", "OK\r\n"),
        ("AT+NJM=1", "OK\r\n"),
        ("AT+DEVEUI=?", "AT+DEVEUI=AC1F09FFFE000001\r\nOK\r\n"),
        ("AT+DEVEUI=ac1f09fffe000002", "OK\r\n"),
        ("AT+DEVEUI=?", "AT+DEVEUI=AC1F09FFFE000002\r\nOK\r\n"),
        ("AT+APPEUI=AC1F09FFF8680001", "OK\r\n"),
        (f"AT+APPKEY={APP_KEY.lower()}", "OK\r\n"),
        ("AT+APPKEY=?", f"AT+APPKEY={APP_KEY}\r\nOK\r\n"),
        ("AT+CLASS=A", "OK\r\n"),
        ("AT+ADR=0", "OK\r\n"),
        ("AT+DR=5", "OK\r\n"),
        ("AT+DCS=0", "OK\r\n"),
        ("AT+CHS=868100000", "OK\r\n"),
        ("AT+CHS=?", "AT+CHS=868100000\r\nOK\r\n"),
        ("AT+JOIN=?", "AT+JOIN=0:0:8:0\r\nOK\r\n"),
        ("AT+RX1DL=3", "OK\r\n"),
        ("AT+RX2DL=?", "AT+RX2DL=4\r\nOK\r\n"),
        ("AT+ALIAS=DUT1", "OK\r\n"),
        ("AT+ALIAS=?", "AT+ALIAS=DUT1\r\nOK\r\n"),
        ("AT+DR?", "AT+DR,RW: get or set the data rate\r\nOK\r\n"),
    ):
        board.write(command.encode() + b"\r\n")
        assert (await board.until(answer[-4:].encode())).decode() == answer, command
    board.write(b"AT+SN=?\n")
    assert b"\0" in await board.until(b"OK\r\n")


ERRORS = {
    "AT+FOO=1": "AT_COMMAND_NOT_FOUND",
    "hello": "AT_COMMAND_NOT_FOUND",
    "AT+DR=": "AT_PARAM_ERROR",
    "AT+DR=9": "AT_PARAM_ERROR",
    "AT+VER=1": "AT_PARAM_ERROR",
    "AT+APPKEY=12": "AT_PARAM_ERROR",
    "AT+SEND=224:01": "AT_PARAM_ERROR",
    "AT+SEND=2:0": "AT_PARAM_ERROR",
    "AT+SEND=2:01": "AT_NO_NETWORK_JOINED",
    "AT+JOIN=1:0:6:0": "AT_PARAM_ERROR",
    "AT+PFREQ=?": "AT_MODE_NO_SUPPORT",
    "AT+PSEND=00": "AT_MODE_NO_SUPPORT",
    "AT+BAND=1": "AT_UNSUPPORTED_BAND",
    "AT+PGSLOT=1": "AT_NO_CLASSB_ENABLE",
}


@SCENES
async def errors(desk: Desk) -> None:
    board = await desk.board("dut", RUI5)
    for command, status in ERRORS.items():
        assert await board.ask(command) == f"{status}\r\n", command


@SCENES
async def echo_shows_the_end_of_a_line_as_lf_cr_and_is_kept(desk: Desk) -> None:
    board = await desk.board("dut", RUI5, "ATE")
    board.write(b"AT\r\n")
    assert await board.until(b"OK\r\n") == b"AT\n\rOK\r\n"
    board.write(b"ATZ\r\n")
    assert await board.until(BANNER) == b"ATZ\n\r\r\n" + BANNER
    board.write(b"ATE\r\nAT\r\n")
    assert await board.until(b"OK\r\nOK\r\n") == b"ATE\n\rOK\r\nOK\r\n"


@SCENES
async def a_reset_says_no_ok_and_a_work_mode_resets_always(desk: Desk) -> None:
    board = await desk.board("dut", RUI5, "AT+DR=5", "AT+ALIAS=DUT")
    board.write(b"ATZ\r\nAT\r\n")  # what comes with it is heard by nobody
    assert await board.until(BANNER) == b"\r\n" + BANNER
    assert await board.quiet() == b""
    board.write(b"AT+NWM=1\r\n")
    assert await board.until(BANNER) == b"OK\r\n" + BANNER
    assert await board.ask("AT+DR=?") == "AT+DR=5\r\n"
    await board.until(b"OK\r\n")
    board.write(b"ATR\r\n")
    assert await board.until(BANNER) == b"\r\n" + BANNER
    assert await board.ask("AT+DR=?") == "AT+DR=0\r\n"
    await board.until(b"OK\r\n")
    assert await board.ask("AT+ALIAS=?") == "AT+ALIAS=\r\n"


@SCENES
async def the_single_channel_is_lost_with_a_reset_in_eu868(desk: Desk) -> None:
    board = await desk.board("dut", RUI5, "AT+CHS=868100000")
    board.write(b"ATZ\r\n")
    await board.until(BANNER)
    assert await board.ask("AT+CHS=?") == "AT+CHS=0\r\n"


@SCENES
async def a_change_of_the_band_resets_what_hangs_on_it(desk: Desk) -> None:
    board = await desk.board("dut", RUI5, "AT+DR=5", "AT+TXP=3", "AT+BAND=5")
    for name, value in {
        "DR": "0", "TXP": "0", "RX2DR": "8", "RX2FQ": "923300000", "MASK": "00FF",
    }.items():  # fmt: skip
        assert await board.ask(f"AT+{name}=?", b"OK\r\n") == f"AT+{name}={value}\r\nOK\r\n"
    await board.set("AT+MASK=0002")


@pytest.mark.parametrize("name", SCENES.names)
def test_scene(name: str, tmp_path: Path) -> None:
    SCENES.play_in_memory(name, tmp_path)
