"""The transcripts and quirks of a LoRa-E5, from the host's side."""

import asyncio
from pathlib import Path

import pytest

from lns.lorawan.frame import Data
from tests.bench.virtual.wiring import (
    APP_KEY,
    APP_S_KEY,
    DEV_ADDR,
    E5,
    KEYS,
    NWK_S_KEY,
    Desk,
    Scenes,
    Terminal,
    data_up,
)

SCENES = Scenes()
COMMON = ("AT+DR=5", "AT+ADR=OFF", "AT+LW=DC,OFF", "AT+LW=JDC,OFF")
OTAA = (
    *COMMON, "AT+MODE=LWOTAA", 'AT+ID=AppEui,"AC1F09FFF8680001"', f'AT+KEY=APPKEY,"{APP_KEY}"',
    "AT+DELAY=JRX1,1000", "AT+DELAY=JRX2,2000",
)  # fmt: skip
ABP = (
    *COMMON, f'AT+ID=DevAddr,"{DEV_ADDR}"', f'AT+KEY=NWKSKEY,"{NWK_S_KEY}"',
    f'AT+KEY=APPSKEY,"{APP_S_KEY}"',
)  # fmt: skip


async def set_up(board: Terminal, commands: tuple[str, ...]) -> None:
    for command in commands:
        answer = await board.ask(command)
        assert "ERROR" not in answer, command
        if command.startswith("AT+DR="):
            await board.until(b"\r\n")


@SCENES
async def the_transcript_of_settings(desk: Desk) -> None:
    board = await desk.board("e5", E5)
    for command, answer in {
        "AT": "+AT: OK",
        "at+ver?": "+VER: 4.0.11",
        "AT+MODE": "+MODE: LWABP",  # as it leaves the factory
        "AT+ID": "+ID: DevAddr, 00:00:00:00\r\n+ID: DevEui, AC:1F:09:FF:FE:00:00:01\r\n"
        "+ID: AppEui, 00:00:00:00:00:00:00:00",
        'AT+ID=DevEui,"2CF7F12000000001"': "+ID: DevEui, 2C:F7:F1:20:00:00:00:01",
        f'AT+KEY=APPKEY,"{APP_KEY}"': f"+KEY: APPKEY {APP_KEY}",
        f"AT+KEY= APPKEY,{APP_KEY}": f"+KEY: APPKEY {APP_KEY}",
        "AT+MODE=LWOTAA": "+MODE: LWOTAA",
        "AT+DR=EU868": "+DR: EU868",
        "AT+DR=5": "+DR: DR5\r\n+DR: EU868 DR5  SF7  BW125K",
        "AT+CH=NUM,0-2": "+CH: NUM, 0-2",
        "AT+CH=0,868.1": "+CH: 0,868100000,DR0,DR5",
        "AT+ADR=OFF": "+ADR: OFF",
        "AT+CLASS=A": "+CLASS: A",
        "AT+PORT=8": "+PORT: 8",
        "AT+REPT=1": "+REPT: 1",
        "AT+RETRY=3": "+RETRY: 3",
        "AT+POWER=14": "+POWER: 14",
        "AT+RXWIN2=869.525,DR0": "+RXWIN2: 869525000,DR0",
        "AT+DELAY=RX1,1000": "+DELAY: RX1, 1000",
        "AT+LW=DC,OFF": "+LW: DC, OFF, 0",
        "AT+LW=JDC,OFF": "+LW: JDC, OFF",
        "AT+LW=NET,ON": "+LW: NET, ON",
        "AT+FDEFAULT": "+FDEFAULT: OK",
        "AT+MODE=?": "+MODE: LWABP",
    }.items():
        board.write(command.encode() + b"\r\n")
        wanted = f"{answer}\r\n".encode()
        assert await board.until(wanted.splitlines(keepends=True)[-1]) == wanted, command
    assert await board.quiet(0.1) == b""


@SCENES
async def errors(desk: Desk) -> None:
    board = await desk.board("e5", E5)
    for command, answer in {
        "AT+FOO": "+FOO: ERROR(-10)",
        "AT+DR=77": "+DR: ERROR(-1)",
        "AT+KEY=APPKEY,12": "+KEY: ERROR(-1)",
        'AT+MSGHEX="0g"': "+MSGHEX: ERROR(-23)",
        "AT+TEST=RXLRPKT": "+TEST: ERROR(-12)",
        f"AT+MSG={'a' * 530}": "+MSG: ERROR(-21)",
        "AT+JOIN": "+JOIN: Not in OTAA mode",
    }.items():
        assert await board.ask(command) == f"{answer}\r\n", command
    await set_up(board, ("AT+MODE=LWOTAA",))
    assert await board.ask("AT+MSG") == "+MSG: Please join network first\r\n"


@SCENES
async def join_and_messages_as_in_the_transcript(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("e5", E5)
    await set_up(board, OTAA)
    board.write(b"AT+JOIN\r\n")
    assert await board.until(b"NORMAL\r\n") == b"+JOIN: Start\r\n+JOIN: NORMAL\r\n"
    assert await board.ask("AT+JOIN") == "+JOIN: LoRaWAN modem is busy\r\n"
    assert await board.until(b"Done\r\n") == (
        b"+JOIN: Network joined\r\n+JOIN: NetID 000013 DevAddr 26:0B:12:34\r\n+JOIN: Done\r\n"
    )
    assert await board.ask("AT+JOIN") == "+JOIN: Joined already\r\n"
    assert await board.ask("AT+ID=DevAddr") == "+ID: DevAddr, 26:0B:12:34\r\n"
    board.write(b'AT+CMSGHEX="01 03"\r\n')
    assert await board.until(b"Done\r\n") == (
        b"+CMSGHEX: Start\r\n+CMSGHEX: Wait ACK\r\n+CMSGHEX: ACK Received\r\n"
        b"+CMSGHEX: RXWIN1, RSSI -44, SNR 12.0\r\n+CMSGHEX: Done\r\n"
    )
    gateway.answer = lambda frame: (
        1, gateway.down(f_port=8, payload=b"\xa1\xb2", f_pending=True),
    )  # fmt: skip
    board.write(b'AT+MSGHEX="01 02"\r\n')
    assert await board.until(b"Done\r\n") == (
        b'+MSGHEX: Start\r\n+MSGHEX: FPENDING\r\n+MSGHEX: PORT: 8; RX: "A1B2"\r\n'
        b"+MSGHEX: RXWIN1, RSSI -44, SNR 12.0\r\n+MSGHEX: Done\r\n"
    )
    last = gateway.frames[-1]
    assert isinstance(last, Data) and (last.f_port, last.payload(gateway.keys, 2)) == (8, b"\1\2")
    assert await board.ask("AT+RESET") == "+RESET: OK\r\n"
    await asyncio.sleep(0.6)
    assert await board.ask("AT+MSG") == "+MSG: Please join network first\r\n"


@SCENES
async def a_join_that_nobody_answers(desk: Desk) -> None:
    board = await desk.board("e5", E5)
    await set_up(board, OTAA)
    board.write(b"AT+JOIN=FORCE\r\n")
    assert await board.until(b"Done\r\n") == (
        b"+JOIN: Start\r\n+JOIN: FORCE\r\n+JOIN: Join failed\r\n+JOIN: Done\r\n"
    )


@SCENES
async def retry_counts_transmissions_and_waits_three_to_ten_seconds(desk: Desk) -> None:
    gateway = await desk.gateway()
    gateway.answer = lambda frame: None
    board = await desk.board("e5", E5)
    await set_up(board, (*ABP, "AT+RETRY=2"))
    board.write(b'AT+CMSGHEX="01"\r\n')
    assert await board.until(b"Done\r\n", 18) == (
        b"+CMSGHEX: Start\r\n+CMSGHEX: Wait ACK\r\n+CMSGHEX: Wait ACK\r\n+CMSGHEX: Done\r\n"
    )
    first, second = gateway.emissions
    assert first.phy == second.phy
    assert 5_000_000 < second.start_us - first.end_us < 13_500_000


@SCENES
async def counters_are_read_written_and_kept_over_a_power_cut(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("e5", E5)
    await set_up(board, ABP)
    assert await board.ask("AT+LW=ULDL,12,3") == "+LW: ULDL, 12, 3\r\n"
    board.write(b'AT+CMSG="hi"\r\n')
    gateway.f_cnt_down = 2
    assert b"ACK Received" in await board.until(b"Done\r\n")
    frame = gateway.frames[0]
    assert isinstance(frame, Data) and frame.f_cnt == 12 and frame.payload(KEYS, 12) == b"hi"
    await desk.cut_power("e5")
    board = await desk.board("e5", E5)
    assert await board.ask("AT+LW=ULDL") == "+LW: ULDL, 13, 4\r\n"


@SCENES
async def plain_lora_in_test_mode(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("e5", E5)
    other = await desk.board("other", E5)
    phy = data_up(DEV_ADDR, KEYS, 7, b"\1").hex().upper()
    shown = (
        "+TEST: RFCFG F:868100000, SF7, BW125K, TXPR:8, RXPR:8, POW:14dBm, CRC:ON, IQ:OFF, "
        "NET:ON\r\n"
    )
    for each in (board, other):
        await set_up(each, ("AT+MODE=TEST",))
        assert await each.ask("AT+TEST=RFCFG,868.1,SF7,125,8,8,14,ON,OFF,ON") == shown
    assert await other.ask("AT+TEST=RXLRPKT") == "+TEST: RXLRPKT\r\n"
    board.write(f'AT+TEST=TXLRPKT,"{phy}"\r\n'.encode())
    sent = f'+TEST: TXLRPKT "{phy}"\r\n+TEST: TX DONE\r\n'
    assert await board.until(b"DONE\r\n") == sent.encode()
    heard = f'+TEST: LEN:14, RSSI:-46, SNR:12\r\n+TEST: RX "{phy}"\r\n'
    assert await other.until(b'"\r\n') == heard.encode()
    assert [raw.hex().upper() for raw in gateway.raw] == [phy]
    assert await other.ask("AT+TEST=STOP") == "+TEST: STOP\r\n"
    assert await other.ask("AT+JOIN") == "+JOIN: ERROR(-12)\r\n"


@SCENES
async def the_log_shows_raw_frames(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("e5", E5)
    await set_up(board, (*ABP, "AT+LOG=DEBUG"))
    board.write(b'AT+MSGHEX="01"\r\n')
    said = (await board.until(b"Done\r\n")).decode()
    assert f"LORA TX, {gateway.raw[0].hex().upper()}\r\n" in said


@SCENES
async def it_sleeps_until_a_character_comes(desk: Desk) -> None:
    board = await desk.board("e5", E5)
    assert await board.ask("AT+LOWPOWER") == "+LOWPOWER: SLEEP\r\n"
    assert await board.ask("A") == "+LOWPOWER: WAKEUP\r\n"
    assert await board.ask("AT") == "+AT: OK\r\n"


@pytest.mark.parametrize("name", SCENES.names)
def test_scene(name: str, tmp_path: Path) -> None:
    SCENES.play_in_memory(name, tmp_path)
