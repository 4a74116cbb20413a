"""What the driver of RUI3 writes into a board, and what it leaves alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.device.interfaces import Abp, CommandRefused, DeviceConfig, NotAsWritten, Otaa, Radiation
from bench.device.rui3 import Rui3Device, power_dbm, power_index, settings_of
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import EU868, US915
from tests.bench.device.far_end import FarEnd, Rui3Settings
from tests.bench.device.wired import in_memory

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
    async with FarEnd(board) as far:
        async with device_at(far) as device:
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
    async with FarEnd(board) as far:
        async with device_at(far) as device:
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
