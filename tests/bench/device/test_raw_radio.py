"""The replayers: what they refuse, what they take for proof, and what they read back."""

from collections.abc import Callable

import pytest

from bench.device.dialects import DIALECTS, NotPermitted, Replayer, replayer_for
from bench.device.interfaces import (
    CommandRefused,
    Deadlines,
    DeviceSilent,
    NotAsWritten,
    UnknownFirmware,
)
from bench.device.serial_line import SerialLine
from lns.lorawan.region import EU868, DataRate
from tests.bench.device.far_end import FarEnd, Rui3Settings
from tests.bench.device.wired import in_memory

PHY = bytes.fromhex("40F42A01260001000231A8C9D20B")
SEND = f"AT+PSEND={PHY.hex().upper()}"
SEND_E5 = f'AT+TEST=TXLRPKT,"{PHY.hex().upper()}"'
SF7, SF8 = DataRate(7, 125_000), DataRate(8, 125_000)
DONE = b"OK\r\n+EVT:TXP2P DONE\r\n"
P2P = {
    "VER": "RUI_5.0.0_RAK3172-H", "NWM": "0", "P2P": "868000000:7:0:0:8:14", "SYNCWORD": "1424",
    "IQINVER": "0", "ENCRY": "0", "CAD": "0", "FIXLENGTHPAYLOAD": "0", "PRECV": "0",
}  # fmt: skip
RADIO = "RFCFG F:868100000, SF7, BW125K, TXPR:8, RXPR:8, POW:14dBm, CRC:ON, IQ:OFF, NET:"
SHORT = Deadlines(proof_us=100_000)


class P2pBoard(Rui3Settings):
    """A board under RUI3 in its raw mode; the seventh field of AT+P2P is not read back."""

    def __call__(self, command: str) -> bytes:
        if command.endswith(":14:1") and command not in self.replies:
            self.written.append(command.removeprefix("AT+"))
            self.values["P2P"] = command.removeprefix("AT+P2P=").removesuffix(":1")
            return b"OK\r\n"
        return super().__call__(command)


def rui3_board(**values: str) -> P2pBoard:
    board = P2pBoard(**{**P2P, **values})
    board.replies[SEND] = DONE
    return board


def e5_board(net: str = "ON") -> dict[str, bytes]:
    return {
        "AT+MODE?": b"+MODE: TEST\r\n",
        "AT+TEST=RFCFG,868.1,SF7,125,8,8,14,ON,OFF,ON": f"+TEST: {RADIO}{net}\r\n".encode(),
        SEND_E5: f'+TEST: TXLRPKT "{PHY.hex().upper()}"\r\n+TEST: TX DONE\r\n'.encode(),
        "AT+TEST=STOP": b"+TEST: STOP\r\n",
    }


def replayer_at(far: FarEnd, dialect: str = "rui3") -> Replayer:
    line = far.line
    return replayer_for(dialect, "replayer", line, EU868, far.record, deadlines=SHORT)


async def transmit(replayer: Replayer, phy: bytes = PHY, data_rate: DataRate = SF7) -> None:
    await replayer.transmit(phy, freq_hz=868_100_000, data_rate=data_rate)


def answering(answers: dict[str, bytes]) -> Callable[[str], bytes]:
    return lambda command: answers.get(command, b"")


@pytest.mark.parametrize("said", [DONE, b"+EVT:TXP2P DONE\r\nOK\r\n", b"OK+EVT:TXP2P DONE\r\n"])
@in_memory
async def test_the_proof_may_come_before_the_ok(said: bytes) -> None:
    board = rui3_board()
    board.replies[SEND] = said
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        await transmit(replayer)
        assert replayer.radio.firmware == "RUI_5.0.0_RAK3172-H"
    assert far.events[-1] == {
        "source": "replayer-replayer", "kind": "replayer.transmit", "phy": PHY.hex(),
        "freq_hz": 868_100_000, "data_rate": "SF7BW125", "power_dbm": 14,
    }  # fmt: skip


@in_memory
async def test_an_ok_is_no_proof() -> None:
    board = rui3_board()
    board.replies[SEND] = b"OK\r\n"
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        with pytest.raises(DeviceSilent, match="no answer to AT"):
            await transmit(replayer)
    assert not [event for event in far.events if event["kind"] == "replayer.transmit"]


@in_memory
async def test_a_proof_of_an_earlier_packet_is_none_of_this_one() -> None:
    board = rui3_board(SYNCWORD="3444", P2P="868100000:7:0:0:8:14")
    board.replies["AT+P2P=?"] = b"+EVT:TXP2P DONE\r\nAT+P2P=868100000:7:0:0:8:14\r\nOK\r\n"
    board.replies[SEND] = b"OK\r\n"
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        with pytest.raises(DeviceSilent):
            await transmit(replayer)


@in_memory
async def test_the_sync_word_of_public_networks_is_set_and_read_back() -> None:
    board = rui3_board()
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        await transmit(replayer)
        await transmit(replayer)
        assert [text for text in board.written if "PRECV" not in text] == [
            "SYNCWORD=3444", "P2P=868100000:7:0:0:8:14:1"
        ]  # fmt: skip
    board = rui3_board()
    board.stubborn = ("SYNCWORD",)
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        with pytest.raises(NotAsWritten, match=r"AT\+SYNCWORD reads 1424, not 3444"):
            await transmit(replayer)
    assert SEND not in far.commands


@in_memory
async def test_its_receiver_is_off_before_any_setting() -> None:
    async with FarEnd(rui3_board()) as far, replayer_at(far) as replayer:
        await transmit(replayer)
    assert far.commands.index("AT+PRECV=0") < far.commands.index("AT+SYNCWORD=?")


@in_memory
async def test_a_receiver_that_somebody_has_switched_on_is_switched_off() -> None:
    board, answers = rui3_board(), [b"AT_BUSY_ERROR\r\n", DONE]
    del board.replies[SEND]
    async with (
        FarEnd(lambda command: answers.pop(0) if command == SEND else board(command)) as far,
        replayer_at(far) as replayer,
    ):
        await transmit(replayer)
    assert far.commands[-3:] == [SEND, "AT+PRECV=0", SEND]


@in_memory
async def test_a_firmware_without_the_seventh_field_stores_what_it_is_given() -> None:
    board = rui3_board()
    due = "868100000:7:0:0:8:14"
    board.replies[f"AT+P2P={due}:1"] = b"AT_PARAM_ERROR\r\n"
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        await transmit(replayer)
    assert board.written[-1] == f"P2P={due}"
    board = rui3_board(VER="RUI_4.1.0_RAK3172-H")
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        await transmit(replayer)
    assert f"AT+P2P={due}:1" not in far.commands


@in_memory
async def test_after_a_start_everything_is_read_again() -> None:
    board = rui3_board()
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        await transmit(replayer)
        board.values["SYNCWORD"] = "1424"
        far.say(b"\r\nCurrent Work Mode: LoRa P2P.\r\n")
        await far.heard("Current Work Mode: LoRa P2P.")
        await transmit(replayer)
    assert board.values["SYNCWORD"] == "3444"


@in_memory
async def test_a_firmware_that_gives_no_proof_is_refused() -> None:
    async with FarEnd(rui3_board(VER="RUI_4.0.3_RAK3172-H")) as far, replayer_at(far) as replayer:
        with pytest.raises(UnknownFirmware, match=r"4\.0\.3.*does not prove"):
            await replayer.radio.identify()
    assert SEND not in far.commands


@pytest.mark.parametrize(
    ("freq_hz", "data_rate", "size", "power_dbm"),
    [(870_100_000, SF7, 14, 14), (868_100_000, SF7, 240, 14), (868_100_000, SF7, 14, 17),
     (868_100_000, SF7, 14, 4), (868_100_000, DataRate(12, 500_000), 14, 14)],
)  # fmt: skip
@in_memory
async def test_what_is_not_permitted_is_not_even_asked_of_the_radio(
    freq_hz: int, data_rate: DataRate, size: int, power_dbm: int
) -> None:
    async with FarEnd(rui3_board()) as far, replayer_at(far) as replayer:
        with pytest.raises(NotPermitted):
            await replayer.transmit(
                bytes(size), freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm
            )
    assert far.commands == []


@in_memory
async def test_a_lora_e5_must_say_that_its_sync_word_is_public() -> None:
    async with FarEnd(answering(e5_board())) as far, replayer_at(far, "lora-e5") as replayer:
        await transmit(replayer)
    async with FarEnd(answering(e5_board("OFF"))) as far, replayer_at(far, "lora-e5") as replayer:
        with pytest.raises(NotAsWritten, match="NET:OFF"):
            await transmit(replayer)
    assert SEND_E5 not in far.commands


@in_memory
async def test_a_lora_e5_that_does_not_say_tx_done_has_not_sent() -> None:
    answers = e5_board()
    answers[SEND_E5] = answers[SEND_E5].replace(b"+TEST: TX DONE\r\n", b"")
    async with FarEnd(answering(answers)) as far, replayer_at(far, "lora-e5") as replayer:
        with pytest.raises(DeviceSilent):
            await transmit(replayer)


@in_memory
async def test_a_lora_e5_that_receives_is_stopped_first() -> None:
    board = e5_board()
    answers = [b"+TEST: ERROR(-12)\r\n", board[SEND_E5]]
    async with (
        FarEnd(
            lambda command: answers.pop(0) if command == SEND_E5 else board[command],
        ) as far,
        replayer_at(far, "lora-e5") as replayer,
    ):
        await transmit(replayer)
    assert far.commands[-3:] == [SEND_E5, "AT+TEST=STOP", SEND_E5]


@in_memory
async def test_silence_is_never_refused() -> None:
    for dialect in DIALECTS:
        async with (
            FarEnd(lambda command: b"AT_ERROR\r\n") as far,
            replayer_at(far, dialect) as replayer,
        ):
            far.unplug()
            await replayer.radio.silence()


@in_memory
async def test_a_refusal_of_the_radio_is_told() -> None:
    board = rui3_board()
    board.replies[SEND] = b"AT_PARAM_ERROR\r\n"
    async with FarEnd(board) as far, replayer_at(far) as replayer:
        with pytest.raises(CommandRefused, match="AT_PARAM_ERROR"):
            await transmit(replayer)


def test_a_dialect_that_nobody_speaks() -> None:
    with pytest.raises(ValueError, match="rui3, lora-e5, seeeduino"):
        replayer_for("rui4", "replayer", SerialLine("x"), EU868, lambda *told: None)
