"""Plain LoRa on a RUI3 board: the dialogue of a replay, and a sniffer."""

from pathlib import Path

import pytest

from lns.lorawan.frame import Data
from tests.bench.virtual.wiring import BANNER, DEV_ADDR, KEYS, RUI5, Desk, Scenes
from tests.bench.virtual.wiring import data_up as frame_of

SCENES = Scenes()
MODE = b"Current Work Mode: LoRa P2P.\r\n"
REPLAY = (
    "AT+P2P=868100000:7:0:0:8:14", "AT+SYNCWORD=3444", "AT+IQINVER=0", "AT+ENCRY=0", "AT+CAD=0",
    "AT+FIXLENGTHPAYLOAD=0", "AT+PRECV=0",
)  # fmt: skip
ON = "P2P_RX_ON already, please disable P2P RX before setting.\r\n"


@SCENES
async def the_dialogue_of_a_replay(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("replayer", RUI5)
    board.write(b"AT+NWM=0\r\n")
    assert await board.until(MODE) == b"OK\r\n" + MODE
    assert await board.ask("AT+SYNCWORD=?", b"OK\r\n") == "AT+SYNCWORD=1424\r\nOK\r\n"
    assert await board.ask("AT+SEND=2:01") == "AT_MODE_NO_SUPPORT\r\n"
    phy = frame_of(DEV_ADDR, KEYS, 7, b"\1\2\3\4\5\6")
    board.write(f"AT+PSEND={phy.hex()}\r\n".encode())  # private: nobody hears it
    assert await board.until(b"DONE\r\n") == b"OK\r\n+EVT:TXP2P DONE\r\n"
    await board.set(*REPLAY)
    shown = await board.ask("AT+P2P=?", b"OK\r\n")
    assert shown == "AT+P2P=868100000:7:0:0:8:14\r\nOK\r\n"
    board.write(f"AT+PSEND={phy.hex()}\r\nAT+PSEND=00\r\n".encode())
    assert await board.until(b"DONE\r\n") == b"OK\r\nAT_BUSY_ERROR\r\n+EVT:TXP2P DONE\r\n"
    heard = await gateway.heard(0)
    assert isinstance(heard, Data) and gateway.raw == [phy]
    board.write(b"AT+NWM=1\r\n")
    await board.until(BANNER)


@SCENES
async def what_is_not_to_be_stored_is_lost_with_a_reset(desk: Desk) -> None:
    board = await desk.board("replayer", RUI5)
    board.write(b"AT+NWM=0\r\n")
    await board.until(MODE)
    await board.set("AT+P2P=868300000:9:0:0:8:10", "AT+P2P=868500000:12:1:0:8:12:1")
    assert await board.ask("AT+PSF=?", b"OK\r\n") == "AT+PSF=12\r\nOK\r\n"
    board.write(b"ATZ\r\n")
    await board.until(MODE)
    shown = await board.ask("AT+P2P=?", b"OK\r\n")
    assert shown == "AT+P2P=868300000:9:0:0:8:10\r\nOK\r\n"


@SCENES
async def the_event_of_a_short_frame_comes_before_its_ok(desk: Desk) -> None:
    board = await desk.board("replayer", RUI5)
    board.write(b"AT+NWM=0\r\n")
    await board.until(MODE)
    board.write(b"AT+PSEND=00112233\r\n")
    assert await board.until(b"OK\r\n") == b"+EVT:TXP2P DONE\r\nOK\r\n"


@SCENES
async def a_receiver_hears_its_own_modulation_and_forbids_to_send(desk: Desk) -> None:
    sender = await desk.board("replayer", RUI5)
    sniffer = await desk.board("spare", RUI5)
    for board in (sender, sniffer):
        board.write(b"AT+NWM=0\r\n")
        await board.until(MODE)
    await sniffer.set("AT+PRECV=65534")
    assert await sniffer.ask("AT+PRECV=?", b"OK\r\n") == "AT+PRECV=P2P_RX_ON\r\nOK\r\n"
    assert await sniffer.ask("AT+PSF=8", b"ERROR\r\n") == f"{ON}AT_BUSY_ERROR\r\n"
    assert await sniffer.ask("AT+PSEND=00") == "AT_BUSY_ERROR\r\n"
    sender.write(b"AT+PSEND=ABCDEF\r\n")
    assert await sniffer.until(b"ABCDEF\r\n") == b"+EVT:RXP2P:-46:12:ABCDEF\r\n"
    await sender.until(b"OK\r\n")
    await sender.set("AT+IQINVER=1")
    sender.write(b"AT+PSEND=ABCDEF\r\n")
    await sender.until(b"OK\r\n")
    assert await sniffer.quiet(0.1) == b""
    await sniffer.set("AT+PRECV=0", "AT+PRECV=100")
    assert await sniffer.until(b"\r\n") == b"+EVT:RXP2P RECEIVE TIMEOUT\r\n"


@pytest.mark.parametrize("name", SCENES.names)
def test_scene(name: str, tmp_path: Path) -> None:
    SCENES.play_in_memory(name, tmp_path)
