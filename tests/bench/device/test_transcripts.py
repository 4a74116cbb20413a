"""The drivers against dialogues that others recorded or that stand in a firmware's source."""

from pathlib import Path

import pytest

from bench.device.dialects import LoraE5Test, Replayer, Rui3P2p
from bench.device.interfaces import CommandRefused, Ending, Outcome
from bench.device.lora_e5 import LoraE5Device
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import SerialLine
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868, DataRate
from tests.bench.device.far_end import TRANSCRIPTS, WHOLE, FarEnd, Transcript
from tests.bench.device.wired import on_wires

PHY = bytes.fromhex("40F42A01260001000231A8C9D20B")
KEY = "2B7E151628AED2A6ABF7158809CF4F3C"
SPLITS = pytest.mark.parametrize("piece", [WHOLE, 1, 7])


def test_each_transcript_says_where_it_is_from() -> None:
    files = sorted(TRANSCRIPTS.glob("*.txt"))
    assert len(files) == 4
    for file in files:
        text = file.read_text("utf-8")
        assert "# Source: " in text, file.name
        assert "Label: " in text, file.name


@SPLITS
@on_wires
async def test_a_lorawan_device_under_rui3(tmp_path: Path, piece: int) -> None:
    beside = {"AT+NJM=?": ["AT+NJM=1", "OK"]}
    script = Transcript("rui3_5_0_0", beside)
    async with FarEnd(script, tmp_path / "port", piece=piece) as far:
        line = SerialLine(far.port)
        async with Rui3Device("alpha", Eui("AC1F09FFFE000001"), line, far.record) as device:
            assert await device.ask("AT+NWM") == "1"
            for setting in (
                "BAND=4", "NJM=1", "DEVEUI=AC1F09FFFE000001", "APPEUI=AC1F09FFF8680001",
                f"APPKEY={KEY}", "CLASS=A", "ADR=0", "DR=5", "DCS=0", "CHS=868100000",
            ):  # fmt: skip
                name, _, value = setting.partition("=")
                await device.write(f"AT+{name}", value)
            assert await device.join() is True
            acknowledged = await device.send(b"\x01\x02", confirmed=True)
            assert acknowledged.outcome is Outcome.ACKNOWLEDGED
            missed = await device.send(b"\x01\x03", confirmed=True)
            assert missed == Ending(Outcome.FAILED, "+EVT:SEND_CONFIRMED_FAILED(4)", 4)
            assert (await device.send(b"\x01\x04")).outcome is Outcome.SENT
            assert (await device.send(b"\x01\x05")).outcome is Outcome.SENT
            with pytest.raises(CommandRefused, match="AT_BUSY_ERROR"):
                await device.write("AT+SEND", "2:01")
            await device.restart()
            with pytest.raises(CommandRefused, match="AT_NO_NETWORK_JOINED"):
                await device.send(b"\x01")
            with pytest.raises(CommandRefused, match="AT_COMMAND_NOT_FOUND"):
                await device.write("AT+FOO", "1")
            with pytest.raises(CommandRefused, match="AT_MODE_NO_SUPPORT"):
                await device.ask("AT+PFREQ")
    assert script.strange == []
    assert ("device.line", "+EVT:RX_1:-61:9:UNICAST:10:a1b2") in far.captured
    assert KEY not in str(far.captured)


@SPLITS
@on_wires
async def test_a_lora_e5(tmp_path: Path, piece: int) -> None:
    beside = {"AT+MODE?": ["+MODE: LWOTAA"], "AT+PORT?": ["+PORT: 8"]}
    script = Transcript("lora_e5_4_0_11", beside)
    async with FarEnd(script, tmp_path / "port", piece=piece) as far:
        line = SerialLine(far.port, 9_600)
        async with LoraE5Device("e5", Eui("2CF7F12000000001"), line, far.record) as device:
            assert await device.identify() == "4.0.11"
            for command in (
                'AT+ID=DevEui,"2CF7F12000000001"', f'AT+KEY=APPKEY,"{KEY}"', "AT+MODE=LWOTAA",
                "AT+DR=EU868", "AT+DR=5", "AT+CH=NUM,0-2", "AT+ADR=OFF", "AT+CLASS=A",
                "AT+PORT=8", "AT+REPT=1", "AT+RETRY=3", "AT+POWER=14", "AT+LW=DC,OFF",
            ):  # fmt: skip
                await device.answer_to(command)
            assert await device.counters() == (12, 3)
            assert await device.join() is True
            assert await device.join() is False  # joined already, and now by force: it failed
            sent = await device.send(b"\x01\x02", port=8)
            assert sent == Ending(Outcome.SENT, "+MSGHEX: Done")
            acknowledged = await device.send(b"\x01\x03", port=8, confirmed=True)
            assert acknowledged == Ending(Outcome.ACKNOWLEDGED, "+CMSGHEX: ACK Received")
            missed = await device.send(b"\x01\x04", port=8, confirmed=True)
            assert missed == Ending(Outcome.FAILED, "+CMSGHEX: Done")
            with pytest.raises(CommandRefused, match="LoRaWAN modem is busy"):
                await device.send(b"\x01\x05", port=8, confirmed=True)
            for payload, why in (
                (b"\x01\x06", "Please join network first"), (b"\x01\x07", "Length error 11"),
                (b"\x01\x08", "DR error"), (b"\x01\x09", "No free channel"),
            ):  # fmt: skip
                with pytest.raises(CommandRefused, match=why):
                    await device.send(payload, port=8)
            with pytest.raises(CommandRefused, match=r"ERROR\(-10\)"):
                await device.answer_to("AT+FOO=1")
            await device.restart()
    assert script.strange == []
    assert ("device.line", '+MSGHEX: PORT: 8; RX: "A1B2"') in far.captured
    assert KEY not in str(far.captured)


@SPLITS
@on_wires
async def test_a_replay_with_rui3(tmp_path: Path, piece: int) -> None:
    read = ("IQINVER", "ENCRY", "CAD", "FIXLENGTHPAYLOAD")
    beside = {
        "AT": ["OK"],
        "AT+VER=?": ["AT+VER=RUI_4.1.0_RAK3172-H", "OK"],
        "AT+NWM=?": ["AT+NWM=1", "OK"],
        **{f"AT+{name}=?": [f"AT+{name}=1", "OK"] for name in read},
    }
    script = Transcript("rui3_p2p", beside)
    # What is read first is what the module has by default; then what was written.
    script.answers["AT+SYNCWORD=?"].insert(0, "AT+SYNCWORD=1424\r\nOK\r\n")
    script.answers["AT+P2P=?"] = [
        "AT+P2P=868000000:7:0:0:8:14\r\nOK\r\n", "AT+P2P=868100000:7:0:0:8:14\r\nOK\r\n"
    ]  # fmt: skip
    for name in read:
        script.answers[f"AT+{name}=?"].append(f"AT+{name}=0\r\nOK\r\n")
    async with FarEnd(script, tmp_path / "port", piece=piece) as far:
        radio = Rui3P2p("replayer", SerialLine(far.port), far.record)
        async with Replayer("replayer", radio, EU868, far.record) as replayer:
            await replayer.transmit(
                PHY, freq_hz=868_100_000, data_rate=DataRate(7, 125_000), power_dbm=14
            )
    assert script.strange == []
    written = [command for command in far.commands if command[-1] != "?"]
    assert written == [
        "AT", "AT+NWM=0", "AT+PRECV=0", "AT+SYNCWORD=3444", "AT+IQINVER=0", "AT+ENCRY=0",
        "AT+CAD=0", "AT+FIXLENGTHPAYLOAD=0", "AT+P2P=868100000:7:0:0:8:14",
        f"AT+PSEND={PHY.hex().upper()}",
    ]  # fmt: skip
    assert far.captured[-1][0] == "replayer.transmit"


@SPLITS
@on_wires
async def test_a_replay_with_a_lora_e5(tmp_path: Path, piece: int) -> None:
    script = Transcript("lora_e5_test_mode")
    async with FarEnd(script, tmp_path / "port", piece=piece) as far:
        radio = LoraE5Test("replayer", SerialLine(far.port, 9_600), far.record)
        async with Replayer("replayer", radio, EU868, far.record) as replayer:
            await replayer.transmit(
                PHY, freq_hz=868_100_000, data_rate=DataRate(7, 125_000), power_dbm=14
            )
            await replayer.radio.silence()
    assert script.strange == []
    assert far.commands[-2] == f'AT+TEST=TXLRPKT,"{PHY.hex().upper()}"'
