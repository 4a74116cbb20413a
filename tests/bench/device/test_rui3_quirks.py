"""What RUI3 does that its manual does not say, each against a board that does it."""

import asyncio
from dataclasses import replace

import pytest

from bench.device.interfaces import (
    CommandRefused,
    Deadlines,
    DeviceConfig,
    DeviceSilent,
    Ending,
    Otaa,
    Outcome,
    Traits,
)
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import LineLost
from lns.lorawan.identifiers import Eui
from tests.bench.device.far_end import FarEnd, Rui3Settings
from tests.bench.device.wired import in_memory

DEV_EUI = Eui("70B3D57ED0000001")
WANTED = DeviceConfig(
    dev_eui=DEV_EUI,
    activation=Otaa(Eui("70B3D57ED0000000"), bytes(16)),
    region="EU868",
    dr=0,
    power_dbm=14,
)
PATIENCE = Deadlines(reply_us=2_000_000, transmission_us=3_000_000, boot_us=2_000_000)


def device_at(far: FarEnd) -> Rui3Device:
    return Rui3Device("alpha", DEV_EUI, far.line, far.record, deadlines=PATIENCE)


@in_memory
async def test_a_payload_too_long_for_the_data_rate_is_not_given_to_the_board() -> None:
    """It would answer AT_PARAM_ERROR, and send an empty frame all the same."""

    board = Rui3Settings()
    board.replies[f"AT+SEND=2:{'00' * 51}"] = b"OK\r\n+EVT:TX_DONE\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(WANTED)
        assert (await device.send(bytes(51))).outcome is Outcome.SENT
        with pytest.raises(CommandRefused, match="52 bytes at DR0, which takes 51"):
            await device.send(bytes(52))
    assert f"AT+SEND=2:{'00' * 52}" not in far.commands


@in_memory
async def test_the_data_rate_is_asked_for_where_the_network_sets_it() -> None:
    board = Rui3Settings()
    board.replies[f"AT+SEND=2:{'00' * 52}"] = b"OK\r\n+EVT:TX_DONE\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(replace(WANTED, adr=True))
        board.values["DR"] = "5"
        assert (await device.send(bytes(52))).outcome is Outcome.SENT
        board.values["DR"] = "2"
        with pytest.raises(CommandRefused, match="at DR2"):
            await device.send(bytes(52))


@in_memory
async def test_the_empty_frame_that_answers_a_confirmed_downlink_is_waited_for() -> None:
    """The firmware sends it by itself, after the message that was asked for has ended."""
    answers = [
        b"OK\r\n+EVT:TX_DONE\r\n+EVT:RX_1:-61:9:UNICAST:10:a1b2\r\n",
        b"AT_BUSY_ERROR\r\n",
        b"OK\r\n+EVT:TX_DONE\r\n",
    ]
    board = Rui3Settings()
    async with FarEnd(
        lambda command: answers.pop(0) if "SEND" in command else board(command),
    ) as far:
        async with device_at(far) as device:
            await device.send(b"\x01")
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(device.send(b"\x02"))
                await far.heard("AT_BUSY_ERROR")
                far.say(b"+EVT:TX_DONE\r\n")  # of the frame that nobody asked for
            assert sending.result().outcome is Outcome.SENT
        assert far.commands[-2:] == ["AT+SEND=2:02"] * 2


@in_memory
async def test_a_message_whose_end_was_not_heard_is_waited_for() -> None:
    """The port was gone when it ended; the board is busy for as long as its MAC cycle lasts."""
    answers = [b"OK\r\n", b"AT_BUSY_ERROR\r\n", b"OK\r\n+EVT:TX_DONE\r\n"]
    board = Rui3Settings()
    async with (
        FarEnd(
            lambda command: answers.pop(0) if "SEND" in command else board(command),
        ) as far,
        device_at(far) as device,
    ):
        sending = asyncio.ensure_future(device.send(b"\x01"))
        await far.asked("AT+SEND=2:01")
        await asyncio.sleep(0.05)
        far.unplug()
        with pytest.raises(LineLost):
            await sending
        far.plug()
        await device.returned(2_000_000)
        assert (await device.send(b"\x02")).outcome is Outcome.SENT
    assert answers == []


@in_memory
async def test_a_board_that_stays_busy_is_refused_in_the_end() -> None:
    board = Rui3Settings()
    board.replies["AT+SEND=2:01"] = b"AT_PARAM_ERROR\r\n"
    board.replies["AT+SEND=2:02"] = b"AT_BUSY_ERROR\r\n"
    patience = Deadlines(transmission_us=1_200_000)
    async with FarEnd(board) as far:
        line = far.line
        async with Rui3Device("alpha", DEV_EUI, line, far.record, deadlines=patience) as device:
            with pytest.raises(CommandRefused, match="AT_PARAM_ERROR"):
                await device.send(b"\x01")
            with pytest.raises(CommandRefused, match="AT_BUSY_ERROR"):
                await device.send(b"\x02")


@in_memory
async def test_a_change_of_mode_says_ok_without_a_line_end_and_starts_anew() -> None:
    board = Rui3Settings()
    board.replies["AT+NWM=0"] = b"OK\r\nCurrent Work Mode: LoRa P2P.\r\n"
    board.replies["AT+NWM=1"] = b"OKCurrent Work Mode: LoRaWAN.\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        assert await device.work_in_mode("0") is True
        board.values["NWM"] = "0"
        assert await device.work_in_mode("1") is True
        assert await device.work_in_mode("0") is False  # for it would start anew


@in_memory
async def test_a_board_in_its_raw_mode_tells_its_dev_eui_after_it() -> None:
    board = Rui3Settings(NWM="0")

    def answer(command: str) -> bytes:
        if command == "AT+DEVEUI=?" and board.values["NWM"] == "0":
            return b"AT_MODE_NO_SUPPORT\r\n"
        return board(command)

    async with FarEnd(answer) as far, device_at(far) as device:
        assert await device.identify() == "RUI_4.1.0_RAK3172-H"
    assert board.starts == 1


@in_memory
async def test_a_value_with_nul_bytes_is_read_without_them() -> None:
    board = Rui3Settings()
    board.replies["AT+SN=?"] = b"AT+SN=1234\x00\x00\x00567\x00\r\nOK\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        assert await device.ask("AT+SN") == "1234567"


@in_memory
async def test_all_that_is_reset_to_the_factory_state_starts_anew_without_an_ok() -> None:
    board = Rui3Settings()
    board.replies["ATR"] = b"\r\nCurrent Work Mode: LoRaWAN.\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        await device.factory_reset()
        board.replies["ATR"] = b"AT_BUSY_ERROR\r\n"
        with pytest.raises(CommandRefused, match="AT_BUSY_ERROR"):
            await device.factory_reset()


@pytest.mark.parametrize("command", ["AT+BOOT", "at+boot", "AT+BAUD=9600"])
@in_memory
async def test_what_the_bench_never_writes(command: str) -> None:
    async with FarEnd(Rui3Settings()) as far, device_at(far) as device:
        with pytest.raises(ValueError, match="never writes"):
            await device.reboot(command)
    assert far.commands == []


@in_memory
async def test_a_board_that_joins_by_itself_is_told_to_stop_and_is_not_reset() -> None:
    board = Rui3Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        await device.silence()
    assert far.commands == ["AT+JOIN=0:0:8:0"]


@in_memory
async def test_to_join_in_abp_mode_sends_nothing() -> None:
    board = Rui3Settings(NJM="0", NJS="1")
    board.replies["AT+JOIN=1:0:8:0"] = b"OK\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        assert await device.join() is True
        await device.silence()
    assert "ATZ" not in far.commands


@in_memory
async def test_a_message_under_way_is_ended_by_a_reset() -> None:
    """Nothing else ends the repetitions of a confirmed message."""

    board = Rui3Settings()
    board.replies["AT+SEND=2:01"] = b"OK\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        sending = asyncio.ensure_future(device.send(b"\x01", confirmed=True))
        await far.asked("AT+SEND=2:01")
        await far.heard("OK")
        await asyncio.sleep(0.05)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await device.silence()
        assert far.commands[-2:] == ["AT+JOIN=0:0:8:0", "ATZ"]
        await device.silence()  # it has ended: no second reset
        assert far.commands.count("ATZ") == 1


@in_memory
async def test_a_message_that_has_ended_needs_no_reset() -> None:
    board = Rui3Settings()
    board.replies["AT+SEND=2:01"] = b"OK\r\n+EVT:SEND_CONFIRMED_FAILED(4)\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        assert (await device.send(b"\x01", confirmed=True)).outcome is Outcome.FAILED
        await device.silence()
    assert "ATZ" not in far.commands


@in_memory
async def test_a_board_that_is_gone_or_says_nothing_raises_nothing_when_silenced() -> None:
    patience = Deadlines(reply_us=100_000, boot_us=100_000)
    async with FarEnd(lambda command: b"") as far:
        line = far.line
        async with Rui3Device("alpha", DEV_EUI, line, far.record, deadlines=patience) as device:
            with pytest.raises(DeviceSilent):
                await device.ask("AT+DR")
            await device.silence()
            far.unplug()
            await device.silence()


@in_memory
async def test_the_number_of_retries_is_written_when_it_changes() -> None:
    board = Rui3Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        for retries in (0, 3, 3, 0):
            await device.set_retries(retries)
    assert board.written == ["RETY=0", "RETY=3", "RETY=0"]


@pytest.mark.parametrize(
    ("version", "traits"),
    [("4.1.0", Traits(obeys_retries=True, sets_counters=False, tells_windows=True,
                      counts_dev_nonces=False, first_f_cnt=1)),
     ("5.0.0", Traits(obeys_retries=False, sets_counters=False, tells_windows=True,
                      counts_dev_nonces=True, first_f_cnt=1))],
)  # fmt: skip
@in_memory
async def test_traits_follow_from_the_version(version: str, traits: Traits) -> None:
    async with (
        FarEnd(Rui3Settings(VER=f"RUI_{version}_RAK3172-H")) as far,
        device_at(far) as device,
    ):
        await device.identify()
        assert device.traits == traits


@pytest.mark.parametrize(
    ("version", "line", "said"),
    [("4.1.0", "+EVT:TX_DONE", "+EVT:TX_DONE"), ("4.0.1", "+EVT:TX_DONE", None),
     ("4.0.1", "+EVT:SEND_CONFIRMED_FAILED(4)", "+EVT:SEND_CONFIRMED_FAILED"),
     ("5.0.0", "+EVT:SEND_CONFIRMED_FAILED(4)", "+EVT:SEND_CONFIRMED_FAILED(4)"),
     ("4.0.1", "+EVT:JOINED", "+EVT:JOINED")],
)  # fmt: skip
@in_memory
async def test_a_line_as_a_version_says_it(version: str, line: str, said: str | None) -> None:
    async with (
        FarEnd(Rui3Settings(VER=f"RUI_{version}_RAK3172-H")) as far,
        device_at(far) as device,
    ):
        await device.identify()
        assert device.said(line) == said


@in_memory
async def test_a_result_that_comes_with_its_ok_in_one_piece() -> None:
    board = Rui3Settings()
    board.replies["AT+SEND=2:01"] = b"OK+EVT:TX_DONE\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        assert await device.send(b"\x01") == Ending(Outcome.SENT, "+EVT:TX_DONE")
