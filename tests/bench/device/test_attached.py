"""What all drivers do when a port goes away, the duty cycle forbids, or a button is pressed."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from bench.device.at_session import Wire
from bench.device.attached import ASK_AGAIN_US, MacCycle, restricted_us
from bench.device.interfaces import CommandRefused, Deadlines, DeviceSilent, Outcome
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import LineLost, PortUnavailable, SerialLine
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from tests.bench.device.far_end import FarEnd, Rui3Settings
from tests.bench.device.wired import in_memory, on_wires, play, play_in_memory
from tests.host_time import Watch

DEV_EUI = Eui("70B3D57ED0000001")
BOOT = b"\r\nCurrent Work Mode: LoRaWAN.\r\n"
PATIENCE = Deadlines(
    reply_us=300_000, boot_us=2_000_000, poll_us=50_000, restricted_us=1_000_000,
    transmission_us=2_000_000,
)  # fmt: skip


def device_at(far: FarEnd, line: Wire | None = None) -> Rui3Device:
    return Rui3Device("alpha", DEV_EUI, line or far.line, far.record, deadlines=PATIENCE)


def later(far: FarEnd) -> None:
    asyncio.get_running_loop().call_later(0.2, far.plug)


@on_wires
async def test_a_port_that_comes_back_under_another_name_is_waited_for(tmp_path: Path) -> None:
    async with (
        FarEnd(Rui3Settings(), tmp_path / "port") as far,
        device_at(far, SerialLine(far.port)) as device,
    ):
        before = os.readlink(far.port)
        far.unplug()
        with pytest.raises(LineLost):
            await device.ask("AT+DR")
        await asyncio.sleep(0.05)
        keep = [*os.openpty()]
        # A driver that kept the old port open would never let its name be had; another
        # program that opens ports may have it for a while.
        while os.ttyname(keep[-1]) != before:
            await asyncio.sleep(0.05)
            keep += os.openpty()
        later(far)
        await device.returned(2_000_000)
        assert await device.ask("AT+DR") == "0"
        assert os.readlink(far.port) != before
        for end in keep:
            os.close(end)


def test_a_line_may_be_looked_for_at_each_opening(tmp_path: Path) -> None:
    async def scene() -> None:
        async with FarEnd(Rui3Settings(), tmp_path / "port") as far:
            names: list[str] = []

            def find() -> str:
                names.append(os.readlink(far.port))
                return names[-1]

            line = SerialLine(find)
            async with Rui3Device("alpha", DEV_EUI, line, far.record) as device:
                far.unplug()
                far.plug()
                await device.returned(2_000_000)
                assert await device.ask("AT+DR") == "0"
            assert len(names) == 2
            assert line.url == names[1]

    play(scene())


@on_wires
async def test_a_port_that_does_not_come_back_is_told(tmp_path: Path) -> None:
    async with (
        FarEnd(Rui3Settings(), tmp_path / "port") as far,
        device_at(far, SerialLine(far.port)) as device,
    ):
        far.unplug()
        watch = Watch()
        with pytest.raises(PortUnavailable, match="no such port"):
            await device.returned(200_000)
        assert watch.seconds < 2


@in_memory
async def test_a_port_without_a_board_that_answers_is_silent() -> None:
    async with FarEnd(lambda command: b"") as far, device_at(far) as device:
        with pytest.raises(DeviceSilent, match="not a word within 200000 us"):
            await device.returned(200_000)


@in_memory
async def test_an_answer_to_one_of_many_questions_is_not_the_next_commands() -> None:
    board, unheard = Rui3Settings(), 2
    late = b"OK\r\nOK\r\n"

    def answer(command: str) -> bytes:
        nonlocal unheard, late
        if command == "AT" and unheard:
            unheard -= 1
            return b""
        # The OKs to the questions that seemed unheard come when the next command is under way.
        before, late = (b"", late) if command == "AT" else (late, b"")
        return before + board(command)

    async with FarEnd(answer) as far, device_at(far) as device:
        await device.returned(2_000_000)
        with pytest.raises(CommandRefused, match="AT_COMMAND_NOT_FOUND"):
            await device.write("AT+FOO", "1")


@in_memory
async def test_a_power_cut_that_takes_the_port_with_it() -> None:
    """The banner is lost with the port: the device is asked until it answers."""

    async with FarEnd(Rui3Settings()) as far, device_at(far) as device:

        async def cut() -> None:
            far.unplug()
            later(far)

        await device.restarted_by(cut())
        assert await device.ask("AT+DR") == "0"


@pytest.mark.parametrize("by_command", [True, False])
def test_a_banner_that_comes_with_the_port_is_no_surprise(by_command: bool) -> None:
    board = Rui3Settings()

    def answer(command: str) -> bytes:
        if command == "ATZ":
            return b""
        return BOOT if command == "AT" and far.commands.count("AT") == 1 else board(command)

    async def cut() -> None:
        far.unplug()
        later(far)

    async def scene() -> None:
        nonlocal far
        async with FarEnd(answer) as far:
            async with device_at(far) as device, asyncio.TaskGroup() as tasks:
                if by_command:
                    tasks.create_task(device.restart())
                    await far.asked("ATZ")
                    await cut()
                else:
                    await device.restarted_by(cut())
            assert "Current Work Mode: LoRaWAN." in str(far.captured)

    far: FarEnd

    play_in_memory(scene())


@in_memory
async def test_a_button_is_pressed_and_the_banner_comes() -> None:
    async with FarEnd(Rui3Settings()) as far, device_at(far) as device:

        async def press() -> None:
            asyncio.get_running_loop().call_later(0.1, far.say, BOOT)

        await device.restarted_by(press())
        assert "AT" not in far.commands  # the banner is enough


@in_memory
async def test_a_button_that_does_nothing_is_silence() -> None:
    async with FarEnd(Rui3Settings()) as far:
        line = far.line
        patience = Deadlines(boot_us=200_000)
        async with Rui3Device("alpha", DEV_EUI, line, far.record, deadlines=patience) as device:
            with pytest.raises(DeviceSilent, match="not a word since its restart"):
                await device.restarted_by(asyncio.sleep(0))


@in_memory
async def test_a_board_with_usb_of_its_own_goes_away_while_it_starts() -> None:
    board = Rui3Settings()
    async with FarEnd(lambda command: b"" if command == "ATZ" else board(command)) as far:
        async with device_at(far) as device, asyncio.TaskGroup() as tasks:
            tasks.create_task(device.restart())
            await far.asked("ATZ")
            far.unplug()
            later(far)
        assert "AT" in far.commands  # there was no banner to hear


@in_memory
async def test_a_board_that_is_gone_is_not_waited_for_to_restart() -> None:
    async with FarEnd(Rui3Settings()) as far, device_at(far) as device:
        far.unplug()
        with pytest.raises(LineLost):
            await device.ask("AT+DR")
        with pytest.raises(LineLost):
            await device.restart()


@in_memory
async def test_the_duty_cycle_is_waited_for_as_long_as_the_board_says() -> None:
    board = Rui3Settings()
    answers = [
        b"Restricted_Wait_150_ms\r\nAT_BUSY_ERROR\r\n", b"OK\r\n+EVT:TX_DONE\r\n",
        b"Restricted_Wait_9000_ms\r\nAT_BUSY_ERROR\r\n",
    ]  # fmt: skip
    async with (
        FarEnd(
            lambda command: answers.pop(0) if "SEND" in command else board(command),
        ) as far,
        device_at(far) as device,
    ):
        begun_us = now_us()
        assert (await device.send(b"\x01")).outcome is Outcome.SENT
        assert now_us() - begun_us >= 150_000
        with pytest.raises(CommandRefused, match="Restricted_Wait_9000_ms"):
            await device.send(b"\x01")


@in_memory
async def test_a_board_that_names_a_time_is_not_asked_before() -> None:
    """Also where it may be busy with a frame of its own."""
    board = Rui3Settings()
    answers = [
        b"AT_PARAM_ERROR\r\n", b"Restricted_Wait_150_ms\r\nAT_BUSY_ERROR\r\n",
        b"OK\r\n+EVT:TX_DONE\r\n",
    ]  # fmt: skip
    async with (
        FarEnd(
            lambda command: answers.pop(0) if "SEND" in command else board(command),
        ) as far,
        device_at(far) as device,
    ):
        with pytest.raises(CommandRefused, match="AT_PARAM_ERROR"):
            await device.send(b"\x01")
        assert (await device.send(b"\x01")).outcome is Outcome.SENT


@pytest.mark.parametrize(
    ("text", "wait_us"),
    [("alpha: Restricted_Wait_1234_ms AT_BUSY_ERROR (to AT+SEND=2:01)", 1_234_000),
     ("e5: +MSGHEX: No band in 13469ms (to x)", 13_469_000), ("alpha: AT_BUSY_ERROR", None)],
)  # fmt: skip
def test_how_long_a_refusal_forbids_to_transmit(text: str, wait_us: int | None) -> None:
    assert restricted_us(text) == wait_us


def busy_for(times: int) -> tuple[list[int], Any]:
    tried: list[int] = []

    async def carry_out() -> str:
        tried.append(now_us())
        if len(tried) <= times:
            raise CommandRefused("AT_BUSY_ERROR")
        return "done"

    return tried, carry_out


@in_memory
async def test_the_line_that_ends_a_cycle_is_enough() -> None:
    cycle = MacCycle()
    cycle.begin()
    tried, carry_out = busy_for(1)
    asyncio.get_running_loop().call_later(0.1, cycle.end)
    assert await cycle.past(carry_out, lambda refused: True, 10_000_000) == "done"
    assert tried[1] - tried[0] < ASK_AGAIN_US
    assert not cycle.is_open


def test_an_end_that_is_told_during_the_refusal_counts() -> None:
    async def scene() -> None:
        cycle, tried = MacCycle(), 0

        async def carry_out() -> str:
            nonlocal tried
            tried += 1
            if tried == 1:
                cycle.end()
                raise CommandRefused("AT_BUSY_ERROR")
            return "done"

        begun_us = now_us()
        await cycle.past(carry_out, lambda refused: True, 10_000_000)
        assert now_us() - begun_us < ASK_AGAIN_US

    play_in_memory(scene())


@in_memory
async def test_without_such_a_line_it_is_asked_again_until_it_took_too_long() -> None:
    tried, carry_out = busy_for(1)
    assert await MacCycle().past(carry_out, lambda refused: True, 10_000_000) == "done"
    assert tried[1] - tried[0] >= ASK_AGAIN_US
    tried, carry_out = busy_for(9)
    with pytest.raises(CommandRefused):
        await MacCycle().past(carry_out, lambda refused: True, 500_000)
    assert len(tried) == 2


@in_memory
async def test_one_end_is_one_more_try_and_no_storm_of_them() -> None:
    cycle = MacCycle()
    tried, carry_out = busy_for(2)
    asyncio.get_running_loop().call_later(0.1, cycle.end)
    await cycle.past(carry_out, lambda refused: True, 10_000_000)
    assert tried[2] - tried[1] >= ASK_AGAIN_US


@in_memory
async def test_what_is_not_waited_for_is_told_at_once() -> None:
    tried, carry_out = busy_for(1)
    with pytest.raises(CommandRefused):
        await MacCycle().past(carry_out, lambda refused: False, 10_000_000)
    assert len(tried) == 1
