"""What a board does whose plug is pulled, or whose firmware hangs, and what a station says?

With real ptys and sockets: a port that goes away and a process that is asked are what is tested.
"""

import asyncio
from pathlib import Path

import pytest

from bench.host.program import free_port
from bench.lab.basicstation_host import health
from bench.station import LinkClosed
from bench.virtual.lab import lab_folder
from bench.virtual.lab.radio_process import _Uplink
from lns.lorawan.identifiers import Eui
from tests.bench.virtual.wiring import ABP, BANNER, RUI5, SOON, Desk, Outcomes, Scenes

SCENES = Scenes()


@SCENES
async def a_pulled_plug_is_a_hang_up_and_the_board_goes_on(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *SOON, *ABP)
    board.write(b"AT+SEND=2:01\r\n")
    await board.until(b"OK\r\n")
    await lab_folder.ask(desk.folder / "dut", "unplug", "dut")
    await board.end()
    await gateway.heard(0)
    await lab_folder.ask(desk.folder / "dut", "plug", "dut")
    board = await desk.terminal("dut")
    assert await board.until(b"\r\n", 4) == b"+EVT:TX_DONE\r\n"  # no boot


@SCENES
async def the_button_and_a_brown_out_show_in_the_banner(desk: Desk) -> None:
    board = await desk.board("dut", RUI5)
    for verb in ("reset", "reboot"):
        await lab_folder.ask(desk.folder / "dut", verb, "dut")
        assert await board.until(BANNER) == b"\r\n" + BANNER


@SCENES
async def a_hanging_firmware_answers_nothing_until_it_goes_on_or_is_reset(desk: Desk) -> None:
    board = await desk.board("dut", RUI5)
    await lab_folder.ask(desk.folder / "dut", "mute", "dut")
    board.write(b"AT\r\n")
    assert await board.quiet() == b""
    await lab_folder.ask(desk.folder / "dut", "unmute", "dut")
    assert await board.ask("AT") == "OK\r\n"
    await lab_folder.ask(desk.folder / "dut", "mute", "dut")
    await lab_folder.ask(desk.folder / "dut", "reset", "dut")
    assert await board.until(BANNER) == b"\r\n" + BANNER


@SCENES
async def a_board_that_loses_its_power_takes_its_port_along(desk: Desk) -> None:
    board = await desk.board("dut", RUI5, "AT+ALIAS=DUT1")
    await desk.cut_power("dut")
    await board.end()
    with pytest.raises(lab_folder.ControlRefused, match="nothing runs in"):
        await lab_folder.ask(desk.folder / "dut", "reset", "dut")
    board = await desk.board("dut", RUI5)
    assert await board.ask("AT+ALIAS=?") == "AT+ALIAS=DUT1\r\n"


@SCENES
async def what_a_board_cannot_do_is_refused(desk: Desk) -> None:
    await desk.board("dut", RUI5)
    with pytest.raises(lab_folder.ControlRefused, match="a board cannot attenuate"):
        await lab_folder.ask(desk.folder / "dut", "attenuate", "dut", "3")


@pytest.mark.parametrize("name", SCENES.names)
def test_scene(name: str, outcomes: Outcomes) -> None:
    outcomes.check(name)


EUI = Eui("0016C001F1500001")


def test_where_nothing_listens_nobody_has_refused_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tc.uri").write_text(f"ws://127.0.0.1:{free_port()}")
    with pytest.raises(LinkClosed):
        asyncio.run(_Uplink(tmp_path, EUI).open())
    [trouble] = health(capsys.readouterr().out.splitlines()).troubles
    assert trouble.cause == "nobody answers at the tap"
