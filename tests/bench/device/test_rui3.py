"""The driver against a board whose every byte is written here."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bench.device.interfaces import (
    Abp,
    CommandRefused,
    DeviceConfig,
    DeviceRestarted,
    DeviceSilent,
    Ending,
    NotAsWritten,
    Otaa,
    Outcome,
    Radiation,
    UnknownFirmware,
    WrongDevice,
)
from bench.device.rui3 import Rui3Device, power_dbm, power_index, rui3_version, settings_of
from bench.device.serial_line import LineLost
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import EU868, US915
from tests.bench.device.far_end import FarEnd, Rui3Settings
from tests.bench.device.wired import ScriptedBoard, in_memory

BOOT = b"\r\nCurrent Work Mode: LoRaWAN.\r\n"
SHORT_US = 200_000
CFM = {"AT+CFM=0": b"OK\r\n", "AT+CFM=1": b"OK\r\n"}


@in_memory
async def test_a_device_is_identified_before_anything_else() -> None:
    async with ScriptedBoard() as board, board.device() as device:
        assert await device.identify() == "RUI_4.1.0_RAK3172-H"
    assert device.firmware == "RUI_4.1.0_RAK3172-H"
    assert device.version is not None
    assert device.version.number == (4, 1, 0)
    assert board.captured[:6] == [
        ("command", "AT"),
        ("line", "OK"),
        ("command", "AT+VER=?"),
        ("line", "AT+VER=RUI_4.1.0_RAK3172-H"),
        ("line", "OK"),
        ("command", "AT+DEVEUI=?"),
    ]


@pytest.mark.parametrize(
    ("number", "tells_tx_done", "obeys_retries", "counts_dev_nonces"),
    [("3.5.3", False, True, False), ("4.0.1", False, True, False), ("4.0.2", True, True, False),
     ("4.0.3", False, True, False), ("4.0.5", True, True, False), ("4.1.1", True, True, False),
     ("4.2.0", True, False, True), ("5.0.0", True, False, True)],
)  # fmt: skip
def test_versions_differ(
    number: str, tells_tx_done: bool, obeys_retries: bool, counts_dev_nonces: bool
) -> None:
    version = rui3_version(f"RUI_{number}_RAK3172-E")
    assert version.tells_tx_done is tells_tx_done
    assert version.obeys_retries is obeys_retries
    assert version.counts_dev_nonces is counts_dev_nonces


@in_memory
async def test_another_dialect_is_refused() -> None:
    async with ScriptedBoard({"AT+VER=?": b"AT+VER=V1.0.4\r\nOK\r\n"}) as board:
        async with board.device() as device:
            with pytest.raises(UnknownFirmware, match=r"V1\.0\.4"):
                await device.identify()


@in_memory
async def test_another_device_at_this_port_is_refused() -> None:
    async with ScriptedBoard({"AT+DEVEUI=?": b"AT+DEVEUI=AC1F09FFFE000001\r\nOK\r\n"}) as board:
        async with board.device() as device:
            with pytest.raises(WrongDevice, match="AC1F09FFFE000001"):
                await device.identify()


@in_memory
async def test_echo_is_noticed_and_switched_off_once() -> None:
    script = {"AT": b"AT\n\rOK\r\n", "ATE": b"ATE\n\rOK\r\n"}
    async with ScriptedBoard(script) as board, board.device() as device:
        await device.identify()
    assert board.commands.count("ATE") == 1


@in_memory
async def test_an_unconfirmed_message_ends_with_tx_done() -> None:
    script = {**CFM, "AT+SEND=7:0102": b"OK\r\n|+EVT:TX_DONE\r\n|+EVT:RX_1:-61:9:UNICAST:10:a1\r\n"}
    async with ScriptedBoard(script) as board, board.device() as device:
        ending = await device.send(b"\x01\x02", port=7)
    assert ending == Ending(Outcome.SENT, "+EVT:TX_DONE")
    assert board.commands == ["AT+CFM=0", "AT+SEND=7:0102"]


@pytest.mark.parametrize(
    ("line", "ending"),
    [(b"+EVT:SEND_CONFIRMED_OK", Ending(Outcome.ACKNOWLEDGED, "+EVT:SEND_CONFIRMED_OK")),
     (b"+EVT:SEND_CONFIRMED_FAILED(4)",
      Ending(Outcome.FAILED, "+EVT:SEND_CONFIRMED_FAILED(4)", 4)),
     (b"+EVT:SEND_CONFIRMED_FAILED", Ending(Outcome.FAILED, "+EVT:SEND_CONFIRMED_FAILED"))],
)  # fmt: skip
@in_memory
async def test_a_confirmed_message_ends_with_its_verdict(line: bytes, ending: Ending) -> None:
    # Data may come before the verdict or after it; both orders are known.
    said = b"OK\r\n+EVT:RX_1:-61:9:UNICAST:10:a1b2\r\n" + line + b"\r\n"
    async with ScriptedBoard({**CFM, "AT+SEND=2:01": said}) as board, board.device() as device:
        assert await device.send(b"\x01", confirmed=True) == ending
        assert await device.send(b"\x01", confirmed=True) == ending
    assert board.commands == ["AT+CFM=1", "AT+SEND=2:01", "AT+SEND=2:01"]


@in_memory
async def test_an_event_from_before_the_ok_is_not_this_messages() -> None:
    script = {**CFM, "AT+SEND=2:01": b"+EVT:TX_DONE\r\nOK\r\n"}
    async with ScriptedBoard(script) as board, board.device(transmission_us=SHORT_US) as device:
        with pytest.raises(DeviceSilent, match=r"AT\+SEND=2:01"):
            await device.send(b"\x01")


@in_memory
async def test_a_firmware_that_does_not_tell_of_the_end() -> None:
    script = {
        "AT+VER=?": b"AT+VER=RUI_4.0.1_RAK3172-H\r\nOK\r\n",
        "AT+SEND=2:01": b"OK\r\n",
        **CFM,
    }
    async with ScriptedBoard(script) as board, board.device(transmission_us=SHORT_US) as device:
        await device.identify()
        assert await device.send(b"\x01") == Ending(Outcome.UNTOLD)
        with pytest.raises(DeviceSilent):
            await device.send(b"\x01", confirmed=True)


@in_memory
async def test_a_refusal_of_two_lines_is_told_in_full() -> None:
    script = {**CFM, "AT+SEND=2:01": b"Restricted_Wait_9000_ms\r\nAT_BUSY_ERROR\r\n"}
    async with ScriptedBoard(script) as board, board.device(restricted_us=SHORT_US) as device:
        with pytest.raises(CommandRefused, match="Restricted_Wait_9000_ms AT_BUSY_ERROR"):
            await device.send(b"\x01")


@in_memory
async def test_the_empty_frame_after_a_payload_too_long_is_waited_for() -> None:
    script: dict[str, bytes | list[bytes]] = {
        **CFM,
        f"AT+SEND=2:{'00' * 100}": b"AT_PARAM_ERROR\r\n",
        "AT+SEND=2:01": [b"AT_BUSY_ERROR\r\n", b"OK\r\n|+EVT:TX_DONE\r\n"],
    }
    async with ScriptedBoard(script) as board, board.device() as device:
        with pytest.raises(CommandRefused, match="AT_PARAM_ERROR"):
            await device.send(bytes(100))
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(device.send(b"\x01"))
            await board.asked("AT+SEND=2:01")
            board.say(b"+EVT:TX_DONE\r\n")  # of the empty frame
        assert sending.result().outcome is Outcome.SENT
    assert board.commands.count("AT+SEND=2:01") == 2


@in_memory
async def test_a_busy_device_without_such_a_frame_is_refused_at_once() -> None:
    async with ScriptedBoard({**CFM, "AT+SEND=2:01": b"AT_BUSY_ERROR\r\n"}) as board:
        async with board.device() as device:
            with pytest.raises(CommandRefused, match="AT_BUSY_ERROR"):
                await device.send(b"\x01")


@pytest.mark.parametrize(("port", "length"), [(0, 1), (224, 1), (2, 0), (2, 251)])
@in_memory
async def test_what_no_firmware_takes_is_not_even_sent(port: int, length: int) -> None:
    async with ScriptedBoard() as board, board.device() as device:
        with pytest.raises(ValueError, match="1 to 223"):
            await device.send(bytes(length), port=port)
        with pytest.raises(ValueError, match="0 to 7"):
            await device.set_retries(8)
    assert board.commands == []


@pytest.mark.parametrize(
    ("event", "joined"),
    [(b"+EVT:JOINED", True), (b"+EVT:JOIN_FAILED_RX_TIMEOUT", False),
     (b"+EVT:JOIN_FAILED_TX_TIMEOUT", False), (b"+EVT:JOIN_FAILED_7", False)],
)  # fmt: skip
@in_memory
async def test_a_join_ends_with_its_event(event: bytes, joined: bool) -> None:
    async with ScriptedBoard({"AT+JOIN=1:0:8:0": b"OK\r\n|" + event + b"\r\n"}) as board:
        async with board.device() as device:
            assert await device.join() is joined


@pytest.mark.parametrize(("njs", "joined"), [(b"1", True), (b"0", False)])
@in_memory
async def test_a_device_in_abp_mode_prints_no_event_and_is_asked(njs: bytes, joined: bool) -> None:
    script = {
        "AT+NJM=?": b"AT+NJM=0\r\nOK\r\n",
        "AT+JOIN=1:0:8:0": b"OK\r\n",
        "AT+NJS=?": b"AT+NJS=" + njs + b"\r\nOK\r\n",
    }
    async with ScriptedBoard(script) as board, board.device() as device:
        assert await device.join() is joined


@pytest.mark.parametrize("said", [b"", b"OK\r\n"])
@in_memory
async def test_a_restart_is_over_at_the_banner_with_or_without_an_ok(said: bytes) -> None:
    banner = b"RAKwireless RAK3172\r\n----\r\n" + BOOT
    async with ScriptedBoard({"ATZ": said + b"|" + banner}) as board, board.device() as device:
        await device.restart()
    assert board.lines[-1] == "Current Work Mode: LoRaWAN."


@in_memory
async def test_a_restart_without_a_banner_is_silence() -> None:
    async with ScriptedBoard() as board, board.device(boot_us=SHORT_US) as device:
        with pytest.raises(DeviceSilent, match="ATZ"):
            await device.restart()


@in_memory
async def test_a_device_that_answers_nothing_is_silent() -> None:
    async with ScriptedBoard({"AT": b""}) as board:
        board.script["AT"] = b"half a li"
        async with board.device(reply_us=SHORT_US) as device:
            with pytest.raises(DeviceSilent, match="no answer to AT within 200000 us"):
                await device.identify()


@in_memory
async def test_a_reply_that_comes_too_late_is_not_the_next_commands() -> None:
    script: dict[str, bytes | list[bytes]] = {**CFM, "AT+RETY=3": b"", "AT+RETY=9": b""}
    async with ScriptedBoard(script) as board, board.device(reply_us=1_000_000) as device:
        with pytest.raises(DeviceSilent):
            await device.set_retries(3)
        # The OK of AT+RETY=3 arrives while the next command is already under way.
        board.script["AT+VER=?"] = b"OK\r\n|AT+VER=RUI_4.1.0_RAK3172-H\r\nOK\r\n"
        board.script["AT+RETY=2"] = b"AT_ERROR\r\n"
        with pytest.raises(CommandRefused, match="AT_ERROR"):
            await device.set_retries(2)


@in_memory
async def test_a_reboot_in_the_middle_of_a_reply_is_recognised() -> None:
    async with ScriptedBoard({"AT+VER=?": b"AT+VER=RUI_4|" + BOOT}) as board:
        async with board.device() as device:
            with pytest.raises(DeviceRestarted, match=r"Current Work Mode: LoRaWAN\."):
                await device.identify()
            board.script["AT+VER=?"] = b"AT+VER=RUI_4.1.0_RAK3172-H\r\nOK\r\n"
            await device.identify()  # and it is as good as new


@pytest.mark.parametrize("said", [BOOT, b"OK\r\n|" + BOOT])
@in_memory
async def test_a_reboot_ends_a_message(said: bytes) -> None:
    async with ScriptedBoard({**CFM, "AT+SEND=2:01": said}) as board, board.device() as device:
        assert (await device.send(b"\x01")).outcome is Outcome.RESTARTED
        await device.send(b"\x01")
    # Nobody knows what the device remembers: the mode is set again.
    assert board.commands == ["AT+CFM=0", "AT+SEND=2:01"] * 2


@in_memory
async def test_a_reboot_ends_a_join() -> None:
    async with ScriptedBoard({"AT+JOIN=1:0:8:0": b"OK\r\n" + BOOT}) as board:
        async with board.device() as device:
            assert await device.join() is False


@in_memory
async def test_a_reboot_that_nobody_waited_for_is_captured() -> None:
    async with ScriptedBoard() as board, board.device() as device:
        await device.identify()
        board.say(BOOT)
        await board.heard("Current Work Mode: LoRaWAN.")
        await device.identify()
    assert "Current Work Mode: LoRaWAN." in board.lines


@in_memory
async def test_noise_before_an_answer_does_no_harm() -> None:
    script = {**CFM, "AT+SEND=2:01": b"\x00\xff\xfe|OK\r\n\x80\r\n|\xff+EVT:TX_DONE\r\n"}
    async with ScriptedBoard(script) as board, board.device() as device:
        assert (await device.send(b"\x01")).outcome is Outcome.SENT


@in_memory
async def test_a_question_is_asked_again_when_its_answer_was_unreadable() -> None:
    good = b"AT+VER=RUI_4.1.0_RAK3172-H\r\nOK\r\n"
    script: dict[str, bytes | list[bytes]] = {"AT+VER=?": [b"A\xff+V\xffR=?\r\nOK\r\n", good]}
    async with ScriptedBoard(script) as board, board.device() as device:
        assert await device.identify() == "RUI_4.1.0_RAK3172-H"
        board.script["AT+VER=?"] = b"OK\r\n"
        with pytest.raises(DeviceSilent, match=r"no value in its answers to AT\+VER"):
            await device.identify()


@in_memory
async def test_a_locked_console_refuses_and_says_so() -> None:
    async with ScriptedBoard({"AT": b"COMMAND_LOCKED\r\n"}) as board, board.device() as device:
        with pytest.raises(CommandRefused, match="COMMAND_LOCKED"):
            await device.identify()


@in_memory
async def test_an_unplugged_board_ends_what_is_under_way_and_all_that_follows() -> None:
    async with ScriptedBoard({**CFM, "AT+SEND=2:01": b"OK\r\n"}) as board, board.device() as device:
        sending = asyncio.ensure_future(device.send(b"\x01"))
        await board.asked("AT+SEND=2:01")
        board.unplug()
        with pytest.raises(LineLost, match="unplugged or closed"):
            await sending
        with pytest.raises(LineLost, match="unplugged or closed"):
            await device.identify()


@in_memory
async def test_keys_are_never_captured() -> None:
    key = "2B7E151628AED2A6ABF7158809CF4F3C"
    script: dict[str, bytes | list[bytes]] = {
        f"AT+APPKEY={key}": b"AT+APPKEY=" + key.encode() + b"\n\rAT_PARAM_ERROR\r\n",
        "AT+NWKSKEY=?": b"AT+NW" + key[:15].encode() + b"\xff" + key[16:].encode() + b"\r\nOK\r\n",
        "AT+APPSKEY=?": b"AT+APPSKEY=" + key.encode() + b"\r\nOK\r\n",
    }
    async with ScriptedBoard(script) as board, board.device() as device:
        with pytest.raises(CommandRefused) as refused:
            await device.write("AT+APPKEY", key)
        with pytest.raises(DeviceSilent) as silent:
            await device.ask("AT+NWKSKEY")
        assert await device.ask("AT+APPSKEY") == key
    told = f"{board.captured} {refused.value} {silent.value}"
    assert key[:8] not in told
    assert key[16:] not in told
    assert ("command", "AT+APPKEY=***") in board.captured


@in_memory
async def test_what_the_caller_raises_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with ScriptedBoard() as board, board.device():
            raise KeyError("mine")


@in_memory
async def test_only_what_it_knows_of_itself_is_believed() -> None:
    async with ScriptedBoard({"AT+DEVEUI=?": b"AT+DEVEUI=nonsense\r\nOK\r\n"}) as board:
        async with board.device() as device:
            with pytest.raises(WrongDevice, match="nonsense"):
                await device.identify()
            assert device.dev_eui == Eui("70B3D57ED0000001")


DEV_EUI = Eui("70B3D57ED0000001")
APP_KEY = bytes.fromhex("2B7E151628AED2A6ABF7158809CF4F3C")
OTAA = Otaa(Eui("70B3D57ED0000000"), APP_KEY)
ABP = Abp(DevAddr("26011F42"), SessionKeys(bytes(range(16)), bytes(range(16, 32))))
WANTED = DeviceConfig(dev_eui=DEV_EUI, activation=OTAA, region="EU868", dr=5, power_dbm=14)


def device_at(far: FarEnd) -> Rui3Device:
    return Rui3Device("alpha", DEV_EUI, far.line, far.record)


@in_memory
async def test_only_what_differs_is_written_and_the_second_time_nothing() -> None:
    board = Rui3Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        assert await device.provision(WANTED) == (
            "APPEUI", "APPKEY", "ADR", "DR", "TXP", "DCS", "JOIN"
        )  # fmt: skip
        assert board.written == [
            "APPEUI=70B3D57ED0000000", f"APPKEY={APP_KEY.hex().upper()}", "ADR=0", "DR=5",
            "TXP=1", "DCS=0", "JOIN=0:0:8:0",
        ]  # fmt: skip
        board.written.clear()
        assert await device.provision(WANTED) == ()
        assert board.written == []
    assert board.starts == 0
    assert APP_KEY.hex().upper() not in str(far.captured)


@in_memory
async def test_no_abp_secret_is_ever_written_into_a_device_that_joins() -> None:
    """Writing one sets the DevNonce to 0, and a strict server refuses all joins from then on."""

    board = Rui3Settings(DEVADDR="01020304", NWKSKEY="AA" * 16)
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(WANTED)
    assert not [text for text in board.written if text.startswith(("DEVADDR", "NWKS", "APPS"))]
    assert "AT+DEVADDR=?" not in far.commands


@in_memory
async def test_the_action_in_the_parameters_of_a_join_is_none_of_them() -> None:
    board = Rui3Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(WANTED)
        board.values["JOIN"] = "1:0:8:0"  # it has joined since
        assert await device.provision(WANTED) == ()
        board.values["JOIN"] = "1:1:8:0"
        assert await device.provision(WANTED) == ("JOIN",)


@in_memory
async def test_the_session_of_abp_is_complete_after_a_restart_only() -> None:
    board = Rui3Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        written = await device.provision(replace(WANTED, activation=ABP))
        assert written[:4] == ("NJM", "DEVADDR", "NWKSKEY", "APPSKEY")
        assert board.starts == 1
        assert far.commands.index("ATZ") > far.commands.index("AT+DEVADDR=26011F42")
        assert await device.provision(replace(WANTED, activation=ABP)) == ()
    assert board.starts == 1


@in_memory
async def test_the_band_is_set_first_for_it_resets_what_follows() -> None:
    board = Rui3Settings(BAND="5", DR="5", TXP="1", NJM="1")
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(WANTED)
    assert board.written[0] == "BAND=4"
    assert (board.values["DR"], board.values["TXP"]) == ("5", "1")


@in_memory
async def test_in_us915_the_second_sub_band_is_used() -> None:
    board = Rui3Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(replace(WANTED, region="US915", dr=3, power_dbm=20))
    assert (board.values["BAND"], board.values["MASK"]) == ("5", "0002")
    assert board.values["TXP"] == "5"


@in_memory
async def test_in_as923_its_band_has_no_mask() -> None:
    board = Rui3Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(replace(WANTED, region="AS923-1"))
        assert (await device.radiation()).region == "AS923-1"
    assert (board.values["BAND"], board.values["TXP"]) == ("8", "1")
    assert not any(line.startswith("MASK") for line in board.written)


@in_memory
async def test_what_a_start_sets_back_is_written_again_and_the_channel_after_each() -> None:
    board = Rui3Settings()
    board.forgotten = {"CHS": "0"}
    wanted = replace(WANTED, activation=ABP, channel_hz=868_100_000)
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(wanted)
        assert board.values["CHS"] == "868100000"
        await device.restart()
        assert board.values["CHS"] == "868100000"
    assert board.starts == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [("DR", r"AT\+DR reads 0, not 5"), ("APPKEY", r"AT\+APPKEY reads otherwise")],
)
@in_memory
async def test_what_does_not_take_is_told_without_a_key(name: str, says: str) -> None:
    board = Rui3Settings()
    board.stubborn = (name,)
    async with FarEnd(board) as far, device_at(far) as device:
        with pytest.raises(NotAsWritten, match=says) as told:
            await device.provision(WANTED)
    assert APP_KEY.hex().upper() not in str(told.value)


@in_memory
async def test_a_setting_that_a_firmware_does_not_know_is_left_alone_unless_it_is_needed(
    tmp_path: Path,
) -> None:
    board = Rui3Settings()
    for name in ("PNM", "LPM", "LINKCHECK", "CHS"):
        del board.values[name]
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(WANTED)
        with pytest.raises(CommandRefused, match=r"AT_COMMAND_NOT_FOUND.*AT\+CHS"):
            await device.provision(replace(WANTED, channel_hz=868_100_000))


@in_memory
async def test_a_board_in_its_raw_mode_is_taken_out_of_it() -> None:
    board = Rui3Settings(NWM="0")
    async with FarEnd(board) as far, device_at(far) as device:
        assert (await device.provision(WANTED))[0] == "NWM"
        assert board.starts == 1
        await device.provision(WANTED)
    assert board.starts == 1  # it would start anew even when it has the mode


@in_memory
async def test_region_and_power_are_read_from_the_device() -> None:
    board = Rui3Settings(BAND="4", TXP="2")
    async with FarEnd(board) as far, device_at(far) as device:
        assert await device.radiation() == Radiation("EU868", 12)
        board.values["BAND"] = "7"
        with pytest.raises(CommandRefused, match=r"AT\+BAND=7"):
            await device.radiation()


@in_memory
async def test_counters_begin_anew_by_writing_the_same_address() -> None:
    board = Rui3Settings(NJM="0", DEVADDR="26011F42")
    async with FarEnd(board) as far, device_at(far) as device:
        await device.reset_counters()
        assert board.written == ["DEVADDR=26011F42"]
        assert board.starts == 1
        with pytest.raises(CommandRefused, match="cannot write frame counters"):
            await device.set_counters(5, 0)
        board.values["NJM"] = "1"
        with pytest.raises(ValueError, match="counts anew by joining"):
            await device.reset_counters()
    assert board.written == ["DEVADDR=26011F42"]


@pytest.mark.parametrize(
    ("power", "index", "radiated"), [(16, 0, 16), (14, 1, 14), (13, 2, 12), (20, 0, 16), (2, 7, 2)]
)
def test_a_power_is_never_exceeded(power: int, index: int, radiated: int) -> None:
    assert power_index(EU868, power) == index
    assert power_dbm(EU868, index) == radiated


def test_a_power_that_no_step_has_is_refused() -> None:
    with pytest.raises(ValueError, match="2 dBm is the weakest"):
        power_index(EU868, 1)
    assert power_index(US915, 2) == 14


def test_no_key_is_in_the_repr_of_a_setting() -> None:
    assert APP_KEY.hex().upper() not in str(settings_of(WANTED))
