"""The driver of the LoRa-E5 against a board whose every answer is written here."""

import asyncio
from dataclasses import replace

import pytest

from bench.device.interfaces import (
    Abp,
    CommandRefused,
    Deadlines,
    DeviceConfig,
    DeviceSilent,
    NotAsWritten,
    Otaa,
    Outcome,
    Radiation,
    UnknownFirmware,
    WrongDevice,
)
from bench.device.lora_e5 import LORA_E5, SEEEDUINO, Lineage, LoraE5Device, mhz, parse_data_rate
from bench.device.serial_line import LineLost, SerialLine
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from tests.bench.device.far_end import FarEnd
from tests.bench.device.wired import in_memory

DEV_EUI = Eui("2CF7F12000000001")
APP_KEY = bytes.fromhex("2B7E151628AED2A6ABF7158809CF4F3C")
OTAA = Otaa(Eui("70B3D57ED0000000"), APP_KEY)
ABP = Abp(DevAddr("26011F42"), SessionKeys(bytes(range(16)), bytes(range(16, 32))))
WANTED = DeviceConfig(dev_eui=DEV_EUI, activation=OTAA, region="EU868", dr=5, power_dbm=14)
SHORT_US = 200_000


def colons(digits: str) -> str:
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


class E5Settings:
    """The settings of a LoRa-E5; remembers in `written` what was written.

    `deaf` is how many commands it leaves unanswered while it starts. `replies`: answers of a test.
    """

    def __init__(self) -> None:
        self.values = {
            "MODE": "LWABP", "ADR": "ON", "CLASS": "A", "PORT": "8", "REPT": "1", "RETRY": "0",
            "POWER": "14",
        }  # fmt: skip
        self.ids = {"DevAddr": "0" * 8, "DevEui": DEV_EUI, "AppEui": "0" * 16}
        self.plan, self.dr = "EU868", "0"
        self.counters = "12, 3"
        self.written: list[str] = []
        self.replies: dict[str, bytes | list[bytes]] = {}
        self.deaf = 0

    def __call__(self, command: str) -> bytes:
        if self.deaf:
            self.deaf -= 1
            return b""
        given = self.replies.get(command)
        if isinstance(given, list):
            return given.pop(0) if len(given) > 1 else given[0]
        if given is not None:
            return given
        return self._answer(command).encode()

    def _answer(self, command: str) -> str:
        name, sign, value = command.removeprefix("AT+").partition("=")
        if command == "AT":
            return "+AT: OK\r\n"
        if command == "AT+VER":
            return "+VER: 4.0.11\r\n"
        if command == "AT+RESET":
            self.deaf = 2
            return "+RESET: OK\r\n"
        if command == "AT+ID":
            return "".join(f"+ID: {key}, {colons(text)}\r\n" for key, text in self.ids.items())
        if command == "AT+DR?":
            return self._modulation()
        if command == "AT+LW=ULDL":
            return f"+LW: ULDL, {self.counters}\r\n"
        if name.endswith("?") and name[:-1] in self.values:
            return f"+{name[:-1]}: {self.values[name[:-1]]}\r\n"
        assert sign, f"{command} is not in the script"
        self.written.append(f"{name}={value}")
        return self._write(name, value)

    def _write(self, name: str, value: str) -> str:
        word, _, rest = value.partition(",")
        if name == "ID":
            self.ids[word] = rest.strip('"')
            return f"+ID: {word}, {colons(self.ids[word])}\r\n"
        if name == "DR":
            if value.removeprefix("DR").isdigit():
                self.dr = value.removeprefix("DR")
                return f"+DR: DR{self.dr}\r\n" + self._modulation()
            self.plan, self.dr = value, "0"
            return f"+DR: {value}\r\n"
        if name == "LW" and word == "ULDL":
            self.counters = rest.replace(",", ", ")
        if name in self.values:
            self.values[name] = value
        if name == "FDEFAULT":
            return "+FDEFAULT: OK\r\n"
        spaced = value.replace(",", ", ")
        return f"+{name}: {spaced}\r\n"

    def _modulation(self) -> str:
        return f"+DR: {self.plan} DR{self.dr}  SF{12 - int(self.dr)}  BW125K\r\n"


def device_at(
    far: FarEnd, lineage: Lineage = LORA_E5, deadlines: Deadlines | None = None
) -> LoraE5Device:
    line = far.line
    return LoraE5Device("e5", DEV_EUI, line, far.record, deadlines=deadlines, lineage=lineage)


@in_memory
async def test_all_is_written_once_and_then_nothing() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        names = await device.provision(WANTED)
        assert board.written == [
            "MODE=LWOTAA", "ADR=OFF", 'ID=AppEui,"70B3D57ED0000000"',
            f'KEY=APPKEY,"{APP_KEY.hex().upper()}"', "DR=5", "RETRY=1", "CH=NUM,0-2",
            "LW=DC,OFF", "LW=JDC,OFF", "LW=NET,ON",
        ]  # fmt: skip
        assert names == ("MODE", "ADR", "AppEui", "APPKEY", "DR", "RETRY", "CH", "LW")
        board.written.clear()
        assert await device.provision(WANTED) == ()
        assert board.written == []
    assert APP_KEY.hex().upper() not in str(far.captured)
    assert ("device.command", "AT+KEY=***") in far.captured


@in_memory
async def test_another_key_is_written_and_the_mode_of_abp() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(replace(WANTED, activation=ABP, duty_cycle=True))
        assert board.ids["DevAddr"] == "26011F42"
        assert board.written[2:4] == [
            'KEY=NWKSKEY,"000102030405060708090A0B0C0D0E0F"',
            'KEY=APPSKEY,"101112131415161718191A1B1C1D1E1F"',
        ]
        assert "LW=DC,ON" in board.written
        assert await device.provision(WANTED)
        assert board.written[-1] == "LW=JDC,OFF"  # NET is ON already
        other = Otaa(OTAA.join_eui, bytes(16))
        assert await device.provision(replace(WANTED, activation=other)) == ("APPKEY",)


@in_memory
async def test_a_plan_is_changed_before_its_data_rate_and_channels() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        names = await device.provision(replace(WANTED, region="US915", dr=3))
        assert ("BAND" in names, board.plan, board.dr) == (True, "US915", "3")
        assert "CH=NUM,8-15" in board.written
        assert await device.radiation() == Radiation("US915", 14)
        board.values["POWER"] = "20dBm"
        assert (await device.radiation()).eirp_dbm == 20
        board.values["POWER"] = "much"
        with pytest.raises(CommandRefused, match="'much' is no power"):
            await device.radiation()
        board.values["POWER"] = "14"
        with pytest.raises(ValueError, match="1 Hz is no channel of EU868"):
            await device.provision(replace(WANTED, channel_hz=1))


@in_memory
async def test_in_as923_it_is_asked_for_the_plan_by_the_word_that_it_has() -> None:
    board = E5Settings()
    wanted = replace(WANTED, region="AS923-1")
    async with FarEnd(board) as far, device_at(far) as device:
        assert "BAND" in await device.provision(wanted)
        assert (board.plan, board.dr) == ("AS923", "5")
        assert "CH=NUM,0-1" in board.written
        assert await device.missing(wanted) == ()
        assert await device.radiation() == Radiation("AS923-1", 14)


@in_memory
async def test_the_other_board_of_the_lineage_spells_it_otherwise() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far, SEEEDUINO) as device:
        await device.provision(WANTED)
        await device.factory_reset()
    assert f"KEY=APPKEY,{APP_KEY.hex().upper()}" in board.written
    assert {"DR=DR5", "CH=0,868.1", "CH=1,868.3", "CH=2,868.5"} <= set(board.written)
    assert board.written[-1] == "FDEFAULT=RISINGHF"


@pytest.mark.parametrize(
    ("answer", "told"),
    [(b"+POWER: 20\r\n", r"AT\+POWER=14 was written, '20' the answer")],
)
@in_memory
async def test_an_answer_with_another_value_is_not_as_written(answer: bytes, told: str) -> None:
    board = E5Settings()
    board.values["POWER"] = "20"
    board.replies["AT+POWER=14"] = answer
    async with FarEnd(board) as far, device_at(far) as device:
        with pytest.raises(NotAsWritten, match=told):
            await device.provision(WANTED)


@in_memory
async def test_the_data_rate_may_be_told_in_one_line_or_two_or_end_in_silence() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        for answer, last in (
            (b"+DR: DR5\r\n+DR: EU868 DR5  SF7  BW125K\r\n", "+DR: EU868 DR5  SF7  BW125K"),
            (b"+DR: EU868 DR5  SF7  BW125K\r\n", "+DR: EU868 DR5  SF7  BW125K"),
            (b"+DR: DR5\r\n", "+DR: DR5"),
        ):
            board.replies["AT+DR=5"] = answer
            assert (await device.answer_to("AT+DR=5"))[-1] == last
        assert await device.ask("AT+MODE?") == "LWABP"  # and no line is left over


@in_memory
async def test_another_board_and_another_firmware_are_refused() -> None:
    board = E5Settings()
    board.ids["DevEui"] = "2CF7F12000000002"
    async with FarEnd(board) as far, device_at(far) as device:
        with pytest.raises(WrongDevice, match="2CF7F12000000002, not 2CF7F12000000001"):
            await device.identify()
        board.replies["AT+VER"] = b"+VER: beta\r\n"
        with pytest.raises(UnknownFirmware, match="beta"):
            await device.identify()


@in_memory
async def test_a_board_in_its_test_mode_is_taken_out_of_it() -> None:
    board = E5Settings()
    board.values["MODE"] = "TEST"
    async with FarEnd(board) as far, device_at(far) as device:
        assert await device.identify() == "4.0.11"
    assert board.written == ["MODE=LWABP"]


@in_memory
async def test_after_a_restart_it_is_asked_until_it_answers() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        await device.provision(WANTED)
        board.written.clear()
        await device.restart()
        assert far.commands.count("AT") >= 4  # one at first, two unheard, one answered
    # What it may have forgotten is written again, and no key.
    assert board.written == ["CH=NUM,0-2", "LW=DC,OFF", "LW=JDC,OFF", "LW=NET,ON"]


@in_memory
async def test_a_board_that_does_not_come_back_is_silent() -> None:
    board = E5Settings()
    board.replies["AT+RESET"] = b"+RESET: OK\r\n"
    board.replies["AT"] = b""
    patience = Deadlines(boot_us=SHORT_US, poll_us=50_000)
    async with FarEnd(board) as far, device_at(far, deadlines=patience) as device:
        with pytest.raises(DeviceSilent, match="not a word within 200000 us"):
            await device.restart()


@in_memory
async def test_a_restart_ends_a_message_under_way() -> None:
    board = E5Settings()
    board.replies['AT+CMSGHEX="01"'] = b"+CMSGHEX: Start\r\n+CMSGHEX: Wait ACK\r\n"
    async with FarEnd(board) as far, device_at(far) as device, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(device.send(b"\x01", confirmed=True))
        await far.asked('AT+CMSGHEX="01"')
        await device.restart()
    assert sending.result().outcome is Outcome.RESTARTED


@in_memory
async def test_a_button_restarts_it_and_ends_a_message() -> None:
    board = E5Settings()
    board.replies['AT+MSGHEX="01"'] = b"+MSGHEX: Start\r\n"

    async def press() -> None:
        board.deaf = 1

    async with FarEnd(board) as far, device_at(far) as device, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(device.send(b"\x01"))
        await far.asked('AT+MSGHEX="01"')
        await device.restarted_by(press())
    assert sending.result().outcome is Outcome.RESTARTED


@in_memory
async def test_a_session_that_is_gone_is_told() -> None:
    board = E5Settings()
    board.values["MODE"] = "LWOTAA"
    board.replies["AT+JOIN"] = b"+JOIN: Starting\r\n+JOIN: Network joined\r\n+JOIN: Done\r\n"
    board.replies['AT+MSGHEX="01"'] = b"+MSGHEX: Please join network first\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        with pytest.raises(CommandRefused, match="join network first"):
            await device.send(b"\x01")
        assert await device.join() is True
        with pytest.raises(CommandRefused, match="join network first"):
            await device.send(b"\x01")


@in_memory
async def test_a_second_message_at_the_same_time_is_refused_at_once() -> None:
    board = E5Settings()
    board.replies['AT+MSGHEX="01"'] = b"+MSGHEX: Start\r\n"
    board.replies['AT+MSGHEX="02"'] = b"+MSGHEX: LoRaWAN modem is busy\r\n"
    async with FarEnd(board) as far, device_at(far) as device, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(device.send(b"\x01"))
        await far.heard("+MSGHEX: Start")
        with pytest.raises(CommandRefused, match="busy"):
            await device.send(b"\x02")
        far.say(b"+MSGHEX: Done\r\n")
    assert sending.result().outcome is Outcome.SENT
    assert far.commands.count('AT+MSGHEX="02"') == 1


@in_memory
async def test_a_message_whose_end_was_not_heard_is_waited_for() -> None:
    """The port was gone when it ended; the board is busy for as long as its cycle lasts."""

    board = E5Settings()
    board.replies['AT+MSGHEX="01"'] = b"+MSGHEX: Start\r\n"
    busy = b"+MSGHEX: LoRaWAN modem is busy\r\n"
    board.replies['AT+MSGHEX="02"'] = [busy, busy, b"+MSGHEX: Start\r\n+MSGHEX: Done\r\n"]
    async with FarEnd(board) as far, device_at(far) as device:
        sending = asyncio.ensure_future(device.send(b"\x01"))
        await far.heard("+MSGHEX: Start")
        await asyncio.sleep(0.05)
        far.unplug()
        with pytest.raises(LineLost):
            await sending
        far.plug()
        await device.returned(2_000_000)
        async with asyncio.TaskGroup() as tasks:
            again = tasks.create_task(device.send(b"\x02"))
            await far.heard("+MSGHEX: LoRaWAN modem is busy")
        assert again.result().outcome is Outcome.SENT
        # One that sends nothing and is busy all the same is refused at once.
        board.replies['AT+MSGHEX="02"'] = busy
        with pytest.raises(CommandRefused, match="busy"):
            await device.send(b"\x02")
    assert far.commands.count('AT+MSGHEX="02"') == 4


@in_memory
async def test_what_is_left_of_an_earlier_message_is_no_refusal_of_the_next() -> None:
    board = E5Settings()
    board.replies['AT+CMSGHEX="02"'] = (
        b"+CMSGHEX: RXWIN1, RSSI -106, SNR 4\r\n+CMSGHEX: Done\r\n"  # of the message before
        b"+CMSGHEX: Start\r\n+CMSGHEX: Wait ACK\r\n+CMSGHEX: Wait ACK\r\n"
        b"+CMSGHEX: RXWIN2, RSSI -90, SNR 7\r\n+CMSGHEX: ACK Received\r\n+CMSGHEX: Done\r\n"
    )
    async with FarEnd(board) as far, device_at(far) as device:
        ending = await device.send(b"\x02", confirmed=True)
        assert ending.outcome is Outcome.ACKNOWLEDGED


@in_memory
async def test_the_duty_cycle_is_waited_for_as_long_as_the_board_says() -> None:
    board = E5Settings()
    board.replies['AT+MSGHEX="01"'] = [
        b"+MSGHEX: No band in 150ms\r\n", b"+MSGHEX: Start\r\n+MSGHEX: Done\r\n"
    ]  # fmt: skip
    board.replies['AT+MSGHEX="02"'] = b"+MSGHEX: No band in 13469ms\r\n"
    patience = Deadlines(restricted_us=2_000_000)
    async with FarEnd(board) as far, device_at(far, deadlines=patience) as device:
        assert (await device.send(b"\x01")).outcome is Outcome.SENT
        with pytest.raises(CommandRefused, match="No band in 13469ms"):
            await device.send(b"\x02")


@in_memory
async def test_retries_are_transmissions_less_one() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        await device.set_retries(2)
        await device.set_retries(2)
        assert board.written == ["RETRY=3"]
        with pytest.raises(ValueError, match="0 to 7"):
            await device.set_retries(8)


@in_memory
async def test_counters_are_written_and_read_back() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        await device.set_counters(40, 7)
        assert await device.counters() == (40, 7)
        await device.reset_counters()
        assert await device.counters() == (0, 0)
        board.replies["AT+LW=ULDL"] = b"+LW: ULDL, 1, 1\r\n"
        with pytest.raises(NotAsWritten, match=r"read \(1, 1\), not \(40, 7\)"):
            await device.set_counters(40, 7)
        board.values["MODE"] = "LWOTAA"
        with pytest.raises(ValueError, match="counts anew by joining"):
            await device.reset_counters()


@in_memory
async def test_a_device_in_abp_mode_has_joined_and_says_nothing_on_the_air() -> None:
    board = E5Settings()
    async with FarEnd(board) as far, device_at(far) as device:
        assert await device.join() is True
    assert far.commands == ["AT+MODE?"]


@pytest.mark.parametrize(
    "command", ["AT+TEST=TXCW", "AT+TEST=TXCLORA", "at+test=txcw", "AT+LOWPOWER", "AT+UART=BR,1"]
)
@in_memory
async def test_what_the_bench_never_writes(command: str) -> None:
    async with FarEnd(E5Settings()) as far, device_at(far) as device:
        with pytest.raises(ValueError, match="never writes"):
            await device.answer_to(command)
    assert far.commands == []


@in_memory
async def test_only_a_board_that_may_be_sending_is_reset_to_be_silent() -> None:
    board = E5Settings()
    board.replies['AT+MSGHEX="01"'] = b"+MSGHEX: Start\r\n"
    async with FarEnd(board) as far, device_at(far) as device:
        await device.silence()
        assert far.commands == []
        sending = asyncio.ensure_future(device.send(b"\x01"))
        await far.asked('AT+MSGHEX="01"')
        await far.heard("+MSGHEX: Start")
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await device.silence()
        assert "AT+RESET" in far.commands
        far.unplug()
        await device.silence()  # nothing of it is raised


def test_what_rui3_says_in_its_own_words() -> None:
    device = LoraE5Device("e5", DEV_EUI, SerialLine("/dev/null"), lambda *told: None)
    assert device.said("+EVT:JOINED") == "+JOIN: Network joined"
    assert device.said("+EVT:SEND_CONFIRMED_OK") == "+CMSGHEX: ACK Received"
    assert device.said("+EVT:TX_DONE") == "+MSGHEX: Done"
    assert device.said("+EVT:SEND_CONFIRMED_FAILED(4)") is None
    assert device.said("+EVT:RX_1:UNICAST:2:01") is None


@pytest.mark.parametrize(
    ("freq_hz", "text"), [(868_100_000, "868.1"), (869_525_000, "869.525"), (903_000_000, "903.0")]
)
def test_a_frequency_has_the_digits_it_needs(freq_hz: int, text: str) -> None:
    assert mhz(freq_hz) == text


def test_a_data_rate_that_is_none() -> None:
    assert parse_data_rate("EU868 DR5  SF7  BW125K") == ("EU868", 5)
    with pytest.raises(UnknownFirmware, match="DR5"):
        parse_data_rate("DR5")
