import asyncio
import os
import socket
import threading
import tty
from pathlib import Path

import pytest
import serial
import serial.rfc2217

from bench.device.serial_line import UNWRITTEN_BYTES_MAX, LineLost, PortUnavailable, SerialLine
from tests.bench.device.wired import on_wires, play


class Pty:
    """A pty; `master` is the board's side."""

    def __init__(self) -> None:
        self.master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._open = True

    def __enter__(self) -> "Pty":
        return self

    def __exit__(self, *_: object) -> None:
        self.unplug()

    def unplug(self) -> None:
        if self._open:
            os.close(self.master)
            os.close(self._slave)
            self._open = False


async def read_exactly(line: SerialLine, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await line.read()
    return data


@on_wires
async def test_bytes_go_both_ways() -> None:
    with Pty() as pty:
        line = SerialLine(pty.port)
        await line.open()
        line.write(b"AT\r\n")
        assert os.read(pty.master, 100) == b"AT\r\n"
        everything = bytes(range(256))
        os.write(pty.master, everything)
        assert await read_exactly(line, 256) == everything
        await line.close()


@on_wires
async def test_what_came_before_it_was_opened_is_not_read() -> None:
    with Pty() as pty:
        os.write(pty.master, b"old\r\n")
        line = SerialLine(pty.port)
        await line.open()
        os.write(pty.master, b"new\r\n")
        assert await read_exactly(line, 5) == b"new\r\n"
        await line.close()


@on_wires
async def test_an_unplugged_port_is_lost_for_reader_and_writer() -> None:
    with Pty() as pty:
        line = SerialLine(pty.port)
        await line.open()
        os.write(pty.master, b"last words")
        assert await read_exactly(line, 10) == b"last words"
        reading = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        pty.unplug()
        with pytest.raises(LineLost, match=r"/dev/pts/\d+: it was unplugged or closed"):
            await reading
        with pytest.raises(LineLost, match="unplugged"):
            line.write(b"AT\r\n")
        await line.close()


@on_wires
async def test_closing_ends_a_read_and_it_can_be_opened_again() -> None:
    with Pty() as pty:
        line = SerialLine(pty.port)
        await line.open()
        reading = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        await line.close()
        with pytest.raises(LineLost, match="closed by the bench"):
            await reading
        await line.open()
        os.write(pty.master, b"x")
        assert await line.read() == b"x"
        await line.close()


def test_a_line_that_was_never_opened() -> None:
    with pytest.raises(LineLost, match="never opened"):
        SerialLine("/dev/ttyUSB0").write(b"AT\r\n")


@on_wires
async def test_more_than_a_port_takes_at_once_arrives_in_order() -> None:
    sent = b"".join(b"%06d" % n for n in range(5_000))
    with Pty() as pty:
        line = SerialLine(pty.port)
        await line.open()
        line.write(sent)  # more than a pty holds: the rest waits
        arrived = bytearray()
        all_there = asyncio.Event()

        def readable() -> None:
            arrived.extend(os.read(pty.master, 4096))
            if len(arrived) >= len(sent):
                all_there.set()

        loop = asyncio.get_running_loop()
        loop.add_reader(pty.master, readable)
        await all_there.wait()
        loop.remove_reader(pty.master)
        assert bytes(arrived) == sent
        await line.close()


@on_wires
async def test_a_port_that_takes_nothing_is_lost() -> None:
    with Pty() as pty:
        line = SerialLine(pty.port)
        await line.open()
        with pytest.raises(LineLost, match="takes no bytes"):
            for _ in range(20):
                line.write(bytes(UNWRITTEN_BYTES_MAX // 4))
        await line.close()


def open_error(url: str) -> str:
    async def scene() -> str:
        with pytest.raises(PortUnavailable) as caught:
            await SerialLine(url).open()
        return str(caught.value)

    return play(scene())


def test_no_such_port_says_where_to_look(tmp_path: Path) -> None:
    said = open_error(str(tmp_path / "ttyUSB0"))
    assert "no such port" in said
    assert "/dev/serial/by-path" in said


def test_a_port_in_use_says_how_to_find_the_other() -> None:
    async def scene() -> str:
        with Pty() as pty:
            first = SerialLine(pty.port)
            await first.open()
            try:
                with pytest.raises(PortUnavailable) as caught:
                    await SerialLine(pty.port).open()
            finally:
                await first.close()
            return str(caught.value)

    said = play(scene())
    assert "another program has it open" in said
    assert "fuser -v /dev/pts/" in said


def test_a_port_of_others_says_how_to_be_let_in() -> None:
    user = os.geteuid()
    with Pty() as pty:
        os.chmod(pty.port, 0)
        if user == 0:  # root may open everything: be somebody else for a moment
            os.seteuid(65_534)
        try:
            said = open_error(pty.port)
        finally:
            os.seteuid(user)
    assert "this user may not open it" in said
    assert "usermod -aG dialout" in said


def test_a_file_is_no_port(tmp_path: Path) -> None:
    (tmp_path / "ttyUSB0").touch()
    assert "no serial port" in open_error(str(tmp_path / "ttyUSB0"))


def test_an_unknown_url_and_a_host_that_does_not_answer() -> None:
    assert "telegraph" in open_error("telegraph://here")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but it does not listen
        assert "refused" in open_error(f"socket://127.0.0.1:{nobody.getsockname()[1]}")


@on_wires
async def test_a_board_behind_a_plain_tcp_port() -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"AT\r\n"
        writer.write(b"OK\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(host, "127.0.0.1", 0) as server:
        line = SerialLine(f"socket://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await line.open()
        line.write(b"AT\r\n")
        assert await read_exactly(line, 4) == b"OK\r\n"
        with pytest.raises(LineLost, match="unplugged or closed"):
            await line.read()
        await line.close()


def test_a_port_without_a_file_descriptor_is_read_by_a_thread() -> None:
    async def scene() -> None:
        line = SerialLine("loop://")
        await line.open()
        line.write(b"OK\r\n")
        assert await read_exactly(line, 4) == b"OK\r\n"
        reading = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        await line.close()
        with pytest.raises(LineLost, match="closed by the bench"):
            await reading
        with pytest.raises(LineLost):
            line.write(b"AT\r\n")

    threads = threading.active_count()
    play(scene())
    assert threading.active_count() <= threads + 1  # at most asyncio's own


class PortServer:
    """pyserial's own RFC 2217 server before a port that echoes, for one client."""

    def __init__(self) -> None:
        self._serial = serial.serial_for_url("loop://", timeout=0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"rfc2217://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def write(self, data: bytes) -> None:
        self._client.sendall(data)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # if nobody has come
        self._thread.join()
        self._listener.close()
        self._serial.close()

    def _serve(self) -> None:
        try:
            self._client, _ = self._listener.accept()
        except OSError:
            return
        with self._client:
            manager = serial.rfc2217.PortManager(self._serial, self)
            while data := self._client.recv(1024):
                self._serial.write(b"".join(manager.filter(data)))
                self.write(b"".join(manager.escape(self._serial.read(1024))))


@pytest.mark.filterwarnings("ignore:set(Daemon|Name):DeprecationWarning")
@on_wires
async def test_a_board_behind_a_port_server() -> None:
    server = PortServer()
    line = SerialLine(server.url)
    try:
        await line.open()
        line.write(b"AT\xff\r\n")
        assert await read_exactly(line, 5) == b"AT\xff\r\n"
    finally:
        await line.close()
        await asyncio.to_thread(server.close)
