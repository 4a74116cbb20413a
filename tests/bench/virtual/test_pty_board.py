"""The virtual firmware behind a real pty, asked by hand and by the driver."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from bench.clock import run
from bench.device.interfaces import Abp, CommandRefused, Ending, Otaa, Outcome
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import LineLost, SerialLine
from bench.virtual.air import Heard, Links, Medium
from bench.virtual.device import UNREAD_BYTES_MAX, Board, Port, Settings, VirtualDevice
from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import (
    Data,
    DlSettings,
    JoinAcceptFields,
    JoinRequest,
    MType,
    build_data,
    build_join_accept,
    parse,
)
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import EU868
from tests.bench.device.wired import MemoryPort, play, play_in_memory

DEV_EUI, STATION = Eui("70B3D57ED0000001"), Eui("B827EBFFFE000001")
DEV_ADDR = DevAddr("01ABCDEF")
KEYS = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
ABP = Abp(DEV_ADDR, KEYS)
OTAA = Otaa(Eui("70B3D57ED0000000"), bytes(range(32, 48)))
BOOT = "Current Work Mode: LoRaWAN."
IDLE_S = 0.3  # after this a board that has something to say has said it


class Gateway:
    """Answers every frame in both windows, so that a stall of this host spoils no test."""

    eui = STATION

    def __init__(self, medium: Medium) -> None:
        self.medium = medium
        self.frames: list[Data | JoinRequest] = []
        self.answers = False
        self.heard = asyncio.Event()
        self._keys, self._f_cnt = KEYS, 0
        medium.attach(self, hears="up")

    def frame_heard(self, heard: Heard) -> None:
        up = heard.transmission
        frame = parse(up.phy)
        assert isinstance(frame, Data | JoinRequest)
        self.frames.append(frame)
        self.heard.set()
        if not self.answers:
            return
        is_join = isinstance(frame, JoinRequest)
        rx1_us = heard.end_us + (5_000_000 if is_join else 1_000_000)
        rx1_dr, rx1_freq_hz = EU868.rx1(up.dr, up.freq_hz)
        rx2 = (rx1_us + 1_000_000, 869_525_000, 0)
        for at_us, freq_hz, dr in ((rx1_us, rx1_freq_hz, rx1_dr), rx2):
            self._f_cnt += 1
            at_s = at_us / 1_000_000
            asyncio.get_running_loop().call_at(at_s, self._answer, frame, freq_hz, dr, self._f_cnt)

    def _answer(self, frame: Data | JoinRequest, freq_hz: int, dr: int, f_cnt: int) -> None:
        if isinstance(frame, JoinRequest):
            settings = DlSettings(rx1_dr_offset=0, rx2_dr=0)
            fields = JoinAcceptFields(
                join_nonce=1, net_id="000013", dev_addr=DEV_ADDR, dl_settings=settings, rx_delay=1
            )
            phy = build_join_accept(OTAA.app_key, fields)
            self._keys = derive_session_keys(
                OTAA.app_key, join_nonce=1, net_id="000013", dev_nonce=frame.dev_nonce
            )
        else:
            phy = build_data(
                MType.UNCONFIRMED_DOWN, dev_addr=DEV_ADDR, f_cnt=f_cnt, keys=self._keys, ack=True,
                f_port=9, payload=b"\xa1\xb2",
            )  # fmt: skip
        self.medium.transmit(STATION, phy, direction="down", power_dbm=16, freq_hz=freq_hz, dr=dr)


class Bench:
    """A board, its gateway, and what the driver captured."""

    def __init__(self, activation: Abp | Otaa = ABP, **board: object) -> None:
        self.medium = Medium(EU868, Links(), lambda *_: None)
        self.gateway = Gateway(self.medium)
        self.captured: list[tuple[str, str]] = []
        self._ports: list[MemoryPort] = []
        self.board = Board(
            lambda say: VirtualDevice(
                "alpha", DEV_EUI, activation, self.medium, seed=1, record=say,
                settings=Settings(dr=5),
            ),
            **board,  # type: ignore[arg-type]
        )  # fmt: skip

    @classmethod
    def in_memory(cls, activation: Abp | Otaa = ABP) -> "Bench":
        """The same without a pty."""
        ports: list[MemoryPort] = []

        def new_port(received: Callable[[bytes], None]) -> MemoryPort:
            ports.append(MemoryPort(received))
            return ports[-1]

        bench = cls(activation, new_port=new_port)
        bench._ports = ports
        return bench

    def line(self) -> SerialLine:
        """The end of the host."""
        if self._ports:
            return self._ports[0].line  # type: ignore[return-value]
        return SerialLine(self.board.port.path)

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        assert source == "device-alpha"
        self.captured.append((kind.removeprefix("device."), str(fields["text"])))

    def device(self) -> Rui3Device:
        return Rui3Device("alpha", DEV_EUI, self.line(), self.record)

    @property
    def lines(self) -> list[str]:
        return [text for kind, text in self.captured if kind == "line"]


class Terminal:
    """A person at the port: bytes in, bytes out."""

    def __init__(self, line: SerialLine) -> None:
        self._line = line
        self.said = b""

    async def ask(self, command: bytes, until: bytes) -> bytes:
        """What the board says from the command to the end of `until`."""
        self._line.write(command)
        while until not in self.said:
            self.said += await self._line.read()
        end = self.said.index(until) + len(until)
        answer, self.said = self.said[:end], self.said[end:]
        return answer

    async def quiet(self) -> bytes:
        """What it says when nobody asks."""
        try:
            async with asyncio.timeout(IDLE_S):
                while True:
                    self.said += await self._line.read()
        except TimeoutError:
            said, self.said = self.said, b""
            return said


def at_the_terminal(
    scene: Callable[[Bench, Terminal], Coroutine[object, object, None]],
    activation: Abp | Otaa = ABP,
) -> None:
    async def play_it() -> None:
        bench = Bench(activation)
        async with bench.board.plugged():
            line = SerialLine(bench.board.port.path)
            await line.open()
            try:
                await scene(bench, Terminal(line))
            finally:
                await line.close()

    play(play_it())


class InMemory:
    """The same without a pty, on virtual time: enough for what is only grammar."""

    def __init__(self, device: VirtualDevice) -> None:
        self._device = device
        self._woken = asyncio.Event()
        self.said = b""
        device.write = self._take

    def _take(self, data: bytes) -> None:
        self.said += data
        self._woken.set()

    async def ask(self, command: bytes, until: bytes) -> bytes:
        self._device.hear(command)
        while until not in self.said:
            self._woken.clear()
            await self._woken.wait()
        end = self.said.index(until) + len(until)
        answer, self.said = self.said[:end], self.said[end:]
        return answer


def in_memory(
    scene: Callable[[Bench, InMemory], Coroutine[object, object, None]],
    activation: Abp | Otaa = ABP,
) -> None:
    async def play_it() -> None:
        bench = Bench(activation)
        tasks: list[asyncio.Task[None]] = []
        bench.board.firmware.spawn = lambda work: tasks.append(asyncio.ensure_future(work))
        await scene(bench, InMemory(bench.board.firmware))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(play_it())


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("AT", "OK\r\n"),
        ("at", "OK\r\n"),
        ("AT+VER=?", "AT+VER=RUI_4.1.0_RAK3172-H\r\nOK\r\n"),
        ("at+ver=?", "AT+VER=RUI_4.1.0_RAK3172-H\r\nOK\r\n"),
        ("AT+DEVEUI=?", "AT+DEVEUI=70B3D57ED0000001\r\nOK\r\n"),
        ("AT+NJS=?", "AT+NJS=1\r\nOK\r\n"),
        ("AT+NJM=?", "AT+NJM=0\r\nOK\r\n"),
        ("AT+NWM=?", "AT+NWM=1\r\nOK\r\n"),
        ("AT+CLASS=?", "AT+CLASS=A\r\nOK\r\n"),
        ("AT+CLASS=A", "OK\r\n"),
        ("AT+CLASS=B", "OK\r\n"),
        ("AT+DEVADDR=?", "AT+DEVADDR=01ABCDEF\r\nOK\r\n"),
        ("AT+JOIN=?", "AT+JOIN=0:0:8:0\r\nOK\r\n"),
        ("AT+DR=?", "AT+DR=5\r\nOK\r\n"),
        ("AT+DR=3", "OK\r\n"),
        ("AT+DR=99", "AT_PARAM_ERROR\r\n"),
        ("AT+DR=x", "AT_PARAM_ERROR\r\n"),
        ("AT+ADR=1", "OK\r\n"),
        ("AT+ADR=2", "AT_PARAM_ERROR\r\n"),
        ("AT+CFM=1", "OK\r\n"),
        ("AT+CFM=2", "AT_PARAM_ERROR\r\n"),
        ("AT+CFM=", "AT_PARAM_ERROR\r\n"),
        ("AT+CFM=?", "AT+CFM=0\r\nOK\r\n"),
        ("AT+CFS=?", "AT+CFS=0\r\nOK\r\n"),
        ("AT+RETY=7", "OK\r\n"),
        ("AT+RETY=8", "AT_PARAM_ERROR\r\n"),
        ("AT+RETY=?", "AT+RETY=0\r\nOK\r\n"),
        ("AT+VER=1", "AT_PARAM_ERROR\r\n"),  # read only
        ("AT+FOO=1", "AT_COMMAND_NOT_FOUND\r\n"),
        ("AT+FOO", "AT_COMMAND_NOT_FOUND\r\n"),
        ("HELLO", "AT_COMMAND_NOT_FOUND\r\n"),
        ("AT+SEND=0:01", "AT_PARAM_ERROR\r\n"),
        ("AT+SEND=224:01", "AT_PARAM_ERROR\r\n"),
        ("AT+SEND=2:", "AT_PARAM_ERROR\r\n"),
        ("AT+SEND=2:012", "AT_PARAM_ERROR\r\n"),
        ("AT+SEND=2:0G", "AT_PARAM_ERROR\r\n"),
        ("AT+SEND=2", "AT_PARAM_ERROR\r\n"),
        ("AT+SEND=2:" + "00" * 251, "AT_PARAM_ERROR\r\n"),
        ("AT+SEND=2:" + "00" * 250, "AT_PARAM_ERROR\r\n"),  # too long for DR5
        ("AT+JOIN=0", "OK\r\n"),
        ("AT+JOIN=1:0:6:0", "AT_PARAM_ERROR\r\n"),
        ("AT+JOIN=1:0:8:256", "AT_PARAM_ERROR\r\n"),
        ("AT+JOIN=2", "AT_PARAM_ERROR\r\n"),
        ("AT+JOIN", "OK\r\n"),  # ABP: it has joined, and prints no event
        ("x" * 5000, "AT_COMMAND_NOT_FOUND\r\n"),
        ("\xff\x00", "AT_COMMAND_NOT_FOUND\r\n"),
    ],
)
def test_every_command_has_its_answer_to_the_byte(command: str, answer: str) -> None:
    async def scene(bench: Bench, terminal: InMemory) -> None:
        command_bytes = command.encode("latin-1")
        said = await terminal.ask(command_bytes + b"\r\nAT+NWM=?\r\n", b"AT+NWM=1\r\nOK\r\n")
        if command == "AT+NWM=?":
            said += await terminal.ask(b"", b"OK\r\n")
            assert said == answer.encode() * 2
        else:
            assert said == answer.encode() + b"AT+NWM=1\r\nOK\r\n"
        assert bench.gateway.frames == []

    in_memory(scene)


def test_a_command_may_come_in_pieces_and_several_at_once() -> None:
    async def scene(_: Bench, terminal: InMemory) -> None:
        for piece in (b"A", b"T+D", b"R=", b"?"):
            await terminal.ask(piece, b"")
        assert await terminal.ask(b"\r", b"OK\r\n") == b"AT+DR=5\r\nOK\r\n"
        assert await terminal.ask(b"\n\n\rAT\rAT\n", b"OK\r\nOK\r\n") == b"OK\r\nOK\r\n"

    in_memory(scene)


def test_echo_is_off_until_it_is_asked_for_and_ends_its_lines_the_odd_way() -> None:
    async def scene(_: Bench, terminal: InMemory) -> None:
        assert await terminal.ask(b"ATE\r\n", b"OK\r\n") == b"OK\r\n"
        assert await terminal.ask(b"AT\r\n", b"OK\r\n") == b"AT\n\rOK\r\n"
        assert await terminal.ask(b"ATE\r\n", b"OK\r\n") == b"ATE\n\rOK\r\n"
        assert await terminal.ask(b"AT\r\n", b"OK\r\n") == b"OK\r\n"

    in_memory(scene)


def test_a_reset_says_no_ok_and_nothing_is_heard_until_the_banner() -> None:
    async def scene(bench: Bench, terminal: InMemory) -> None:
        said = await terminal.ask(b"ATZ\r\nAT\r\n", b"Mode: LoRaWAN.\r\n")
        assert said == b"\r\nCurrent Work Mode: LoRaWAN.\r\n"
        # The mode is set by a command whose OK has no line end; it resets although nothing changed.
        said = await terminal.ask(b"AT+NWM=1\r\n", b"Mode: LoRaWAN.\r\n")
        assert said == b"OK\r\nCurrent Work Mode: LoRaWAN.\r\n"
        assert await terminal.ask(b"AT+NWM=0\r\n", b"\r\n") == b"AT_PARAM_ERROR\r\n"
        assert bench.gateway.frames == []

    in_memory(scene)


def test_without_a_session_nothing_is_sent() -> None:
    async def scene(bench: Bench, terminal: InMemory) -> None:
        said = await terminal.ask(b"AT+SEND=2:01\r\n", b"\r\n")
        assert said == b"AT_NO_NETWORK_JOINED\r\n"
        assert await terminal.ask(b"AT+NJS=?\r\n", b"OK\r\n") == b"AT+NJS=0\r\nOK\r\n"
        said = await terminal.ask(b"AT+DEVADDR=?\r\n", b"OK\r\n")
        assert said == b"AT+DEVADDR=00000000\r\nOK\r\n"
        assert bench.gateway.frames == []

    in_memory(scene, OTAA)


def test_an_uplink_from_the_serial_line_to_the_air() -> None:
    async def scene() -> None:
        bench = Bench()
        async with bench.board.plugged(), bench.device() as device:
            await device.identify()
            bench.captured.clear()
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(device.send(b"\x01\x02", port=7))
                await bench.gateway.heard.wait()
                with pytest.raises(CommandRefused, match="AT_BUSY_ERROR"):
                    await device.send(b"\x03")
            assert sending.result() == Ending(Outcome.SENT, "+EVT:TX_DONE")
        assert bench.captured == [
            ("command", "AT+SEND=7:0102"),
            ("line", "OK"),
            ("command", "AT+SEND=2:03"),
            ("line", "AT_BUSY_ERROR"),
            ("line", "+EVT:TX_DONE"),
        ]
        (frame,) = bench.gateway.frames
        assert isinstance(frame, Data)
        assert (frame.f_port, frame.confirmed) == (7, False)
        assert frame.payload(KEYS, frame.f_cnt) == b"\x01\x02"
        sent = bench.board.firmware.last_sent
        assert sent is not None
        assert (sent.frame_id, len(sent.transmissions)) == (frame.frame_id, 1)

    play(scene())


def test_a_confirmed_uplink_is_acknowledged_over_the_air() -> None:
    async def scene() -> None:
        bench = Bench.in_memory()
        bench.gateway.answers = True
        async with bench.board.plugged(), bench.device() as device:
            await device.identify()
            await device.set_retries(3)
            ending = await device.send(b"\x01", confirmed=True)
            assert ending == Ending(Outcome.ACKNOWLEDGED, "+EVT:SEND_CONFIRMED_OK")
            assert await device.ask("AT+CFS") == "1"
            sent = bench.board.firmware.last_sent
            assert sent is not None
            assert sent.acknowledged
        assert all(isinstance(frame, Data) and frame.confirmed for frame in bench.gateway.frames)
        # One OK for each command and no more, whoever printed it.
        asked = [text for kind, text in bench.captured if kind == "command"]
        assert bench.lines.count("OK") == len(asked)
        downlinks = [line for line in bench.lines if line.startswith("+EVT:RX_")]
        assert all(line.endswith(":UNICAST:9:a1b2") for line in downlinks)

    play_in_memory(scene())


def test_repetitions_by_the_network_are_one_message() -> None:
    async def scene() -> None:
        bench = Bench.in_memory()
        async with bench.board.plugged(), bench.device() as device:
            bench.board.firmware.set_nb_trans(2)
            ending = await device.send(b"\x01", transmissions=2)
            assert ending.outcome is Outcome.SENT
            assert bench.board.firmware.last_sent is not None
            assert (
                len(bench.board.firmware.last_sent.transmissions) == len(bench.gateway.frames) == 2
            )

    play_in_memory(scene())


def test_a_join_over_the_air_and_the_session_is_gone_after_a_reset() -> None:
    async def scene() -> None:
        bench = Bench.in_memory(OTAA)
        bench.gateway.answers = True
        async with bench.board.plugged(), bench.device() as device:
            assert await device.join()
            assert bench.board.firmware.last_join is not None
            assert bench.board.firmware.last_join.accepted
            assert await device.ask("AT+NJS") == "1"
            nonce = bench.board.firmware.dev_nonce
            await device.restart()
            assert await device.ask("AT+NJS") == "0"
            assert bench.board.firmware.dev_nonce == nonce
        assert bench.lines.count("+EVT:JOINED") == 1

    play_in_memory(scene())


def test_a_reset_by_command_keeps_the_counters_of_a_fixed_session() -> None:
    async def scene() -> None:
        bench = Bench.in_memory()
        session = bench.board.firmware.session
        assert session is not None
        session.f_cnt_up = 41
        async with bench.board.plugged(), bench.device() as device:
            await device.restart()
            assert session.f_cnt_up == 41
            await bench.board.firmware.restart(memory=False)
            assert bench.board.firmware.session is not session

    play_in_memory(scene())


def test_after_a_cut_of_the_power_the_driver_waits_for_the_boot() -> None:
    async def scene() -> None:
        bench = Bench.in_memory()
        async with bench.board.plugged(), bench.device() as device:
            await device.restarted_by(bench.board.firmware.restart(memory=False))
            assert BOOT in bench.lines
            await device.set_retries(2)

    play_in_memory(scene())


@pytest.mark.parametrize("memory", [True, False])
def test_the_reset_button_in_the_middle_of_a_message(memory: bool) -> None:
    async def scene() -> None:
        bench = Bench.in_memory()
        async with bench.board.plugged(), bench.device() as device:
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(device.send(b"\x01"))
                await bench.gateway.heard.wait()
                await bench.board.firmware.restart(memory=memory)
            assert sending.result().outcome is Outcome.RESTARTED
            assert await device.ask("AT+NJS") == "1"  # it is not busy any more
        assert BOOT in bench.lines
        assert "+EVT:TX_DONE" not in bench.lines

    play_in_memory(scene())


def test_unplugged_in_the_middle_of_a_message_and_plugged_in_again(tmp_path: Path) -> None:
    link = tmp_path / "dut"

    async def scene() -> None:
        bench = Bench(new_port=lambda received: Port(link, received))
        async with bench.board.plugged(), bench.device() as device:
            first = os.readlink(link)
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(_lost(device))
                await bench.gateway.heard.wait()
                bench.board.port.unplug()
            assert "unplugged or closed" in sending.result()
            assert not link.exists()
            kept = _take_port(first)  # so that the new one has another name
            try:
                bench.board.port.plug()
                await device.returned(10_000_000)
                assert os.readlink(link) != first
                assert await device.identify() == "RUI_4.1.0_RAK3172-H"
            finally:
                for end in kept:
                    os.close(end)

    play(scene())
    assert not link.is_symlink()


def _take_port(name: str) -> list[int]:
    """Open ports until one has this name: others that are free may be those of other programs."""
    ends: list[int] = []
    while not ends or (os.ttyname(ends[-1]) != name and len(ends) < 200):
        ends += os.openpty()
    return ends


async def _lost(device: Rui3Device) -> str:
    with pytest.raises(LineLost) as lost:
        await device.send(b"\x01")
    return str(lost.value)


def test_noise_on_the_line_does_no_harm() -> None:
    async def scene() -> None:
        bench = Bench()
        async with bench.board.plugged(), bench.device() as device:
            for noise in (b"\x00\xff\xfe", b"\x80\r\n\r\n", b"\xf0" * 3000):
                bench.board.port.write(noise)
                assert await device.identify() == "RUI_4.1.0_RAK3172-H"

    play(scene())


def test_a_board_that_nobody_reads_goes_on_and_loses_the_rest() -> None:
    async def scene(bench: Bench, terminal: Terminal) -> None:
        for _ in range(3):
            bench.board.port.write(bytes(UNREAD_BYTES_MAX))
        assert bench.board.port.lost_bytes > 0
        said = await terminal.ask(b"", b"\0" * UNREAD_BYTES_MAX)
        said += await terminal.quiet()
        assert len(said) == 3 * UNREAD_BYTES_MAX - bench.board.port.lost_bytes
        assert await terminal.ask(b"AT\r\n", b"OK\r\n") == b"OK\r\n"

    at_the_terminal(scene)


def test_what_was_said_before_the_port_was_opened_is_lost() -> None:
    async def scene() -> None:
        bench = Bench()
        async with bench.board.plugged():
            await bench.board.firmware.restart()
            async with bench.device() as device:
                await device.identify()
            assert BOOT not in bench.lines

    play(scene())


def test_a_board_alone_is_no_bother_and_leaves_nothing_open() -> None:
    async def scene() -> None:
        bench = Bench()
        async with bench.board.plugged():
            slave = os.open(bench.board.port.path, os.O_RDWR | os.O_NOCTTY)
            size = struct.pack("HHHH", 0, 0, 0, 0)
            fcntl.ioctl(slave, termios.TIOCGWINSZ, size)  # it is a real terminal
            os.close(slave)

    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        play(scene())
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_many_boards_side_by_side() -> None:
    async def one(number: int) -> Outcome:
        bench = Bench.in_memory()
        bench.board.firmware.settings.dr = number % 6
        async with bench.board.plugged(), bench.device() as device:
            await device.identify()
            return (await device.send(bytes([number]))).outcome

    async def scene() -> None:
        async with asyncio.TaskGroup() as tasks:
            sendings = [tasks.create_task(one(number)) for number in range(60)]
        assert {sending.result() for sending in sendings} == {Outcome.SENT}

    play_in_memory(scene())
