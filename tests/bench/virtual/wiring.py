"""Emulated boards on an air, played with by hand: no driver of the bench here."""

import asyncio
import os
import termios
import tty
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench import clock
from bench.host.program import STALLED_US, HostGuard
from bench.virtual.air import Caught, Emission, Modulation
from bench.virtual.lab import lab_folder
from bench.virtual.lab.air_process import (
    Air,
    AirGone,
    AirLine,
    go_on_air,
    open_air,
    serve_air,
    serve_radio,
)
from bench.virtual.lab.lab_folder import Wire
from bench.virtual.lab.radio_process import Board
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
from lns.lorawan.identifiers import DevAddr
from lns.lorawan.region import EU868

PLAY_S = 120
SCENE_S = 3600  # on virtual time
PATIENCE_S = 60
ATTEMPTS_MAX = 5
"""How often a scene is played in which this host was late: a board misses its windows then."""
RUI5, RUI4, E5 = "RUI_5.0.0_RAK3172-H", "RUI_4.1.0_RAK3172-H", "4.0.11"
DEV_EUI = "AC1F09FFFE000001"
APP_KEY = "2B7E151628AED2A6ABF7158809CF4F3C"
NWK_S_KEY, APP_S_KEY = "000102030405060708090A0B0C0D0E0F", "101112131415161718191A1B1C1D1E1F"
KEYS = SessionKeys(bytes.fromhex(NWK_S_KEY), bytes.fromhex(APP_S_KEY))
DEV_ADDR = DevAddr("260B1234")


class Terminal:
    """A person at a serial port: bytes in, bytes out."""

    def __init__(self, write: Callable[[bytes], object], close: Callable[[], None]) -> None:
        self._write = write
        self._close = close
        self.said = b""
        self.hung_up = False
        self._woken = asyncio.Event()

    @classmethod
    def at(cls, port: Path) -> "Terminal":
        """At this port; what was said before is kept."""
        fd = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        with suppress(termios.error):
            tty.setraw(fd, termios.TCSANOW)
        loop = asyncio.get_running_loop()

        def readable() -> None:
            try:
                data = os.read(fd, 4096)
            except OSError:
                data = b""
            if not data:
                loop.remove_reader(fd)
            terminal.hear(data)

        def close() -> None:
            loop.remove_reader(fd)
            os.close(fd)

        terminal = cls(partial(os.write, fd), close)
        loop.add_reader(fd, readable)
        return terminal

    def hear(self, data: bytes) -> None:
        """What the board says; nothing, once it has hung up."""
        self.hung_up = self.hung_up or not data
        self.said += data
        self._woken.set()

    def write(self, data: bytes) -> None:
        """Type."""
        self._write(data)

    def close(self) -> None:
        """Go away."""
        self._close()

    async def until(self, end: bytes, within_s: float = PATIENCE_S) -> bytes:
        """What was said up to and with this; it is taken."""
        try:
            async with asyncio.timeout(max(within_s, PATIENCE_S)):
                while end not in self.said and not self.hung_up:
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            pass
        assert end in self.said, f"no {end!r} within {within_s} s in {self.said!r}"
        at = self.said.index(end) + len(end)
        taken, self.said = self.said[:at], self.said[at:]
        return taken

    async def ask(self, command: str, end: bytes = b"\r\n", within_s: float = PATIENCE_S) -> str:
        """The answer to a command, to the end of the line that begins with OK or is an error."""
        self.write(command.encode() + b"\r\n")
        return (await self.until(end, within_s)).decode("latin-1")

    async def set(self, *commands: str) -> None:
        """Give commands of RUI3 that are answered by OK."""
        for command in commands:
            assert await self.ask(command) == "OK\r\n", command

    async def quiet(self, for_s: float = 0.3) -> bytes:
        """What it says when nobody asks."""
        await asyncio.sleep(for_s)
        taken, self.said = self.said, b""
        return taken

    async def end(self, within_s: float = PATIENCE_S) -> None:
        """Wait for the hang-up."""
        async with asyncio.timeout(within_s):
            while not self.hung_up:
                self._woken.clear()
                await self._woken.wait()


class MemoryPort:
    """A port of a board that is no pty, with somebody at it from the beginning."""

    path = "memory"
    lost_bytes = 0

    def __init__(self, received: Callable[[bytes], None]) -> None:
        self._received = received
        self._is_plugged = False
        self.terminal = Terminal(self._typed, lambda: None)

    def plug(self) -> None:
        """Be there."""
        self._is_plugged = True

    def unplug(self) -> None:
        """Hang up."""
        if self._is_plugged:
            self._is_plugged = False
            self.terminal.hear(b"")

    def write(self, data: bytes) -> None:
        """What the board says."""
        if self._is_plugged:
            self.terminal.hear(data)

    def _typed(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._received, data)


class MemoryWriter:
    """What writes into the reader at the other end of a connection in memory."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._is_closed = False

    def is_closing(self) -> bool:
        return self._is_closed

    def write(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._reader.feed_eof()

    async def wait_closed(self) -> None:
        pass


def wire_pair() -> tuple[Wire, Wire]:
    """Both ends of a connection in memory."""
    here, there = asyncio.StreamReader(), asyncio.StreamReader()
    ours, theirs = MemoryWriter(there), MemoryWriter(here)
    return Wire(here, ours), Wire(there, theirs)  # type: ignore[arg-type]


class Gateway:
    """Hears every frame; answers it as `answer` says: with the window, and the bytes to send.

    As it comes it gives a join-accept, and acknowledges what is confirmed, in RX1.
    """

    def __init__(self, line: AirLine) -> None:
        self.line = line
        self.frames: list[Data | JoinRequest] = []
        self.emissions: list[Emission] = []
        self.raw: list[bytes] = []
        self.answer: Callable[[Data | JoinRequest], tuple[int, bytes] | None] = self.serve
        self.keys = KEYS
        self.f_cnt_down = -1
        self._woken = asyncio.Event()
        line.caught = self._caught

    def serve(self, frame: Data | JoinRequest) -> tuple[int, bytes] | None:
        """What a server does."""
        if isinstance(frame, JoinRequest):
            return 1, self.join_accept(frame)
        return (1, self.down(ack=True)) if frame.confirmed else None

    def join_accept(self, frame: JoinRequest) -> bytes:
        """A session for whoever asked."""
        key = bytes.fromhex(APP_KEY)
        fields = JoinAcceptFields(
            join_nonce=1, net_id="000013", dev_addr=DEV_ADDR, dl_settings=DlSettings(), rx_delay=1
        )
        self.keys = derive_session_keys(
            key, join_nonce=1, net_id="000013", dev_nonce=frame.dev_nonce
        )
        self.f_cnt_down = -1
        return build_join_accept(key, fields)

    def down(self, *, confirmed: bool = False, **fields: Any) -> bytes:
        """The next downlink of the session."""
        self.f_cnt_down += 1
        m_type = MType.CONFIRMED_DOWN if confirmed else MType.UNCONFIRMED_DOWN
        return build_data(
            m_type, dev_addr=DEV_ADDR, f_cnt=self.f_cnt_down, keys=self.keys, **fields
        )

    async def heard(self, number: int, within_s: float = PATIENCE_S) -> Data | JoinRequest:
        """The frame of this number, from 0."""
        async with asyncio.timeout(within_s):
            while len(self.frames) <= number:
                self._woken.clear()
                await self._woken.wait()
        return self.frames[number]

    def send(self, phy: bytes, *, at_us: int, freq_hz: int, sf: int) -> None:
        """Send a downlink at this moment."""
        modulation = Modulation(freq_hz=freq_hz, sf=sf, bw_hz=125_000, inverted=True)
        asyncio.get_running_loop().call_at(
            at_us / 1_000_000,
            lambda: self.line.transmit(phy, modulation, power_dbm=16, crc=False, start_us=at_us),
        )

    def _caught(self, caught: Caught) -> None:
        up = caught.emission
        if caught.error or up.modulation.inverted or up.modulation.sync_word != "3444":
            return
        self.raw.append(up.phy)
        frame = parse(up.phy)
        assert isinstance(frame, Data | JoinRequest)
        self.frames.append(frame)
        self.emissions.append(up)
        self._woken.set()
        answer = self.answer(frame)
        if answer is None:
            return
        window, phy = answer
        delay_us = JOIN_US if isinstance(frame, JoinRequest) else 1_000_000
        if window == 1:
            modulation = up.modulation
            self.send(phy, at_us=up.end_us + delay_us, freq_hz=modulation.freq_hz, sf=modulation.sf)
        else:
            at_us = up.end_us + delay_us + 1_000_000
            self.send(phy, at_us=at_us, freq_hz=EU868.rx2_freq_hz, sf=12)


JOIN_US = 1_000_000
"""The boards of these tests are told to listen for their join-accept after one second."""
SOON = ("AT+JN1DL=1", "AT+JN2DL=2", "AT+DR=5", "AT+DCS=0", "AT+ADR=0")
OTAA = (*SOON, "AT+APPEUI=AC1F09FFF8680001", f"AT+APPKEY={APP_KEY}")
ABP = ("AT+NJM=0", f"AT+DEVADDR={DEV_ADDR}", f"AT+NWKSKEY={NWK_S_KEY}", f"AT+APPSKEY={APP_S_KEY}")
BANNER = b"Current Work Mode: LoRaWAN.\r\n"


Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Folder:
    """An air with a socket in a folder and boards with ptys, as in a lab; on the wall clock."""

    def __init__(self, folder: Path, spawn: Spawn) -> None:
        self._folder = folder
        self._spawn = spawn

    async def start(self) -> None:
        """Have an air."""
        self._spawn(serve_air(self._folder, {}))
        await _there(self._folder / lab_folder.AIR / lab_folder.SOCKET)

    async def radio(self, name: str) -> AirLine:
        """Bring a radio on the air."""
        return await open_air(self._folder, name)

    async def power(self, name: str, firmware: str) -> tuple[asyncio.Task[None], Terminal]:
        """A board that runs, and somebody at its port."""
        running = self._spawn(Board(self._folder, name, firmware, DEV_EUI).run())
        return running, await self.terminal(name)

    async def terminal(self, name: str) -> Terminal:
        """Somebody at a port, once it is there."""
        port = lab_folder.port_link(self._folder, name)
        await _there(port)
        return Terminal.at(port)


class Memory:
    """The same air and the same boards without sockets and ptys, on any clock."""

    def __init__(self, folder: Path, spawn: Spawn) -> None:
        self._folder = folder
        self._spawn = spawn
        self._air = Air(lambda frame: None)
        self._terminals: dict[str, Terminal] = {}

    async def start(self) -> None:
        """It is there."""

    async def radio(self, name: str) -> AirLine:
        """Bring a radio on the air."""
        wire, far_end = wire_pair()
        self._spawn(serve_radio(self._air, far_end))
        return await go_on_air(wire, name)

    async def power(self, name: str, firmware: str) -> tuple[asyncio.Task[None], Terminal]:
        """A board that runs, and somebody at its port."""
        ports: list[MemoryPort] = []

        def new_port(received: Callable[[bytes], None]) -> MemoryPort:
            ports.append(MemoryPort(received))
            return ports[-1]

        board = Board(self._folder, name, firmware, DEV_EUI, new_port=new_port)
        running = self._spawn(board.have_power(await self.radio(name)))
        self._terminals[name] = ports[0].terminal
        return running, ports[0].terminal

    async def terminal(self, name: str) -> Terminal:
        """Who is at a port."""
        return self._terminals[name]


class Desk:
    """An air and boards on it, all in this process; `async with`.

    What is only grammar needs no wire (`Memory`); a port that comes and goes, and a control that is
    asked, are those of a lab (`Folder`).
    """

    def __init__(self, folder: Path, place: type[Folder] | type[Memory] = Folder) -> None:
        self.folder = folder
        self._tasks = asyncio.TaskGroup()
        self._running: list[asyncio.Task[None]] = []
        self._place = place(folder, self._spawn)
        self._boards: dict[str, asyncio.Task[None]] = {}
        self._terminals: list[Terminal] = []

    async def __aenter__(self) -> "Desk":
        await self._tasks.__aenter__()
        await self._place.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for terminal in self._terminals:
            terminal.close()
        for task in reversed(self._running):  # the air ends last
            task.cancel()
        await self._tasks.__aexit__(None, None, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._running.append(self._tasks.create_task(work))
        return self._running[-1]

    async def gateway(self) -> Gateway:
        """A gateway that hears everything."""
        line = await self._place.radio("gateway")
        self.hear(line)
        return Gateway(line)

    def hear(self, line: AirLine) -> None:
        """Let a radio hear until the end, where it is closed."""
        self._spawn(_hear(line))

    async def radio(self, name: str) -> AirLine:
        """A radio of its own on this air."""
        return await self._place.radio(name)

    async def board(self, name: str, firmware: str, *commands: str) -> Terminal:
        """A board with power, its boot over, and somebody at its port; set up for RUI3."""
        self._boards[name], terminal = await self._place.power(name, firmware)
        self._terminals.append(terminal)
        if firmware == E5:
            await asyncio.sleep(0.5)
        else:
            await terminal.until(b"\r\n" + BANNER)
            await terminal.set(*commands)
        return terminal

    async def terminal(self, name: str) -> Terminal:
        """Somebody at a port, once it is there."""
        self._terminals.append(await self._place.terminal(name))
        return self._terminals[-1]

    async def cut_power(self, name: str) -> None:
        """What killing its process does, but for the port."""
        task = self._boards.pop(name)
        task.cancel()
        await asyncio.wait([task])


async def _there(file: Path) -> None:
    """Wait for a file, of which nobody tells."""
    async with asyncio.timeout(PATIENCE_S):
        while not file.exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)


async def _hear(line: AirLine) -> None:
    try:
        with suppress(AirGone):
            await line.run()
    finally:
        await line.close()


Scene = Callable[[Desk], Coroutine[Any, Any, None]]


class Scenes:
    """The scenes of one module, by name.

    In memory each is played by itself, on virtual time. On the wall clock most of each is waiting,
    so all are played at once, and one that goes wrong while this host is late again, alone.
    """

    def __init__(self) -> None:
        self._scenes: dict[str, Scene] = {}

    def __call__(self, scene: Scene) -> Scene:
        self._scenes[scene.__name__] = scene
        return scene

    @property
    def names(self) -> list[str]:
        """For `parametrize`."""
        return list(self._scenes)

    def play_in_memory(self, name: str, folder: Path) -> None:
        """Play this one, without sockets and ptys."""

        async def playing() -> None:
            async with asyncio.timeout(SCENE_S), Desk(folder, Memory) as desk:
                await self._scenes[name](desk)

        clock.run(playing())

    def play(self, folder: Path) -> "Outcomes":
        """Play all of them on the wall clock, each with an air of its own."""
        return Outcomes(asyncio.run(self._play(folder)))

    async def _play(self, folder: Path) -> dict[str, BaseException | None]:
        guard = HostGuard(lambda late_us: None)
        watching = asyncio.create_task(guard.run())

        async def one(name: str, wait_s: float, attempt: int = 1) -> BaseException | None:
            await asyncio.sleep(wait_s)
            try:
                place = folder / f"{name}-{attempt}"
                async with asyncio.timeout(PLAY_S), Desk(place) as desk:
                    await self._scenes[name](desk)
            except (Exception, BaseExceptionGroup) as error:
                return error
            return None

        # One shortly after the other, so that they do not start at once.
        waits = {name: 0.1 * number for number, name in enumerate(self.names)}
        played = await asyncio.gather(*(one(name, wait_s) for name, wait_s in waits.items()))
        errors = dict(zip(self.names, played, strict=True))
        first_us = guard.worst_us
        for name in self.names:
            late_us, attempt = first_us, 1
            while errors[name] is not None and late_us >= STALLED_US and attempt < ATTEMPTS_MAX:
                guard.worst_us, attempt = 0, attempt + 1
                errors[name] = await one(name, 0, attempt)
                late_us = guard.worst_us
        watching.cancel()
        return errors


class Outcomes:
    """How the scenes of one module ended."""

    def __init__(self, errors: dict[str, BaseException | None]) -> None:
        self._errors = errors

    def check(self, name: str) -> None:
        """Nothing, or what went wrong in that scene."""
        error = self._errors[name]
        if error is not None:
            raise error


def data_up(dev_addr: DevAddr, keys: SessionKeys, f_cnt: int, payload: bytes) -> bytes:
    """An uplink that somebody has captured."""
    return build_data(
        MType.UNCONFIRMED_UP, dev_addr=dev_addr, f_cnt=f_cnt, keys=keys, f_port=2, payload=payload
    )
