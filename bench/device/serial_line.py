"""How do bytes get to a serial port and back?

By pyserial. A port with a file descriptor (a tty, `socket://`) is watched by the event loop; for
one without (`rfc2217://`) a thread reads.
"""

import asyncio
import contextlib
import errno
import os
import termios
from collections.abc import Callable
from threading import Thread

import serial

READ_BYTES = 4096
ARRIVED_BYTES_MAX = 1_000_000
UNWRITTEN_BYTES_MAX = 65_536
_POLL_S = 0.2  # how long the reading thread may keep `close` waiting


class LineLost(Exception):
    """The serial line is gone: unplugged, closed by the other side, or by us."""


class PortUnavailable(Exception):
    """The port cannot be opened; the text says why and what to do."""


class SerialLine:
    """One serial port, opened and closed as often as one likes.

    Remembers what has arrived and was not read (the newest million bytes) and what the port would
    not take yet. `url`: a device path or any URL of `serial.serial_for_url`, or what finds it at
    each opening, for a port may come back under another name; it raises PortUnavailable. `dtr`: the
    level of the control line; boards with USB of their own talk only while it is set, others may
    reset.
    """

    def __init__(
        self, url: str | Callable[[], str], baud: int = 115_200, *, dtr: bool = False
    ) -> None:
        self.url = url if isinstance(url, str) else ""
        self._find = None if isinstance(url, str) else url
        self._baud = baud
        self._dtr = dtr
        self._port: serial.Serial | None = None
        self._fd: int | None = None
        self._thread: Thread | None = None
        self._arrived = bytearray()
        self._unwritten = bytearray()
        self._lost: str | None = "it was never opened"
        self._reader: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Open the port for us alone; PortUnavailable if that cannot be."""
        assert self._port is None, f"{self.url} is open"
        if self._find is not None:
            self.url = self._find()
        try:
            port = serial.serial_for_url(self.url, do_not_open=True)
        except ValueError as error:  # a protocol that pyserial does not know
            raise PortUnavailable(f"{self.url}: {error}") from None
        port.baudrate, port.timeout = self._baud, _POLL_S
        port.dtr, port.rts = self._dtr, False
        try:
            if self._is_url:
                await asyncio.to_thread(port.open)  # its host may be slow to answer
            else:
                port.exclusive = True
                port.open()
        except (serial.SerialException, OSError, ValueError) as error:
            raise PortUnavailable(_advice(self.url, error)) from None
        self._arrived.clear()
        self._unwritten.clear()
        self._lost, self._port = None, port
        self._watch(port)

    async def read(self) -> bytes:
        """What has arrived, at least one byte; LineLost once the line is gone and all was read."""
        assert self._reader is None, "a line has one reader"
        while not self._arrived:
            if self._lost is not None:
                raise LineLost(f"{self.url}: {self._lost}")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    def write(self, data: bytes) -> None:
        """Hand bytes to the port; LineLost if it is gone or has taken nothing for 64 KiB."""
        if self._lost is not None:
            raise LineLost(f"{self.url}: {self._lost}")
        assert self._port is not None
        if self._fd is None:
            try:
                self._port.write(data)
            except (serial.SerialException, OSError) as error:
                self._lose(f"it was unplugged or closed ({error})")
                raise LineLost(f"{self.url}: {self._lost}") from None
            return
        self._unwritten += data
        self._flush()
        if len(self._unwritten) > UNWRITTEN_BYTES_MAX:
            self._lose("it takes no bytes any more")
        if self._lost is not None:
            raise LineLost(f"{self.url}: {self._lost}")

    async def close(self) -> None:
        """Close the port; whoever reads gets LineLost."""
        self._lose("it was closed by the bench")
        port, thread = self._port, self._thread
        self._port = self._thread = None
        if thread is not None:
            await asyncio.to_thread(thread.join)
        if port is not None:
            if self._is_url:
                await asyncio.to_thread(port.close)  # pyserial waits a while for its host
            else:
                port.close()

    @property
    def _is_url(self) -> bool:
        return "://" in self.url

    def _watch(self, port: serial.Serial) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._fd = port.fileno()
        except OSError:  # io.UnsupportedOperation: it has none
            self._fd = None
            self._thread = Thread(target=self._keep_reading, args=(port, loop), daemon=True)
            self._thread.start()
        else:
            loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        assert self._fd is not None
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(f"it was unplugged or closed ({os.strerror(error.errno or 0)})")
            return
        if data:
            self._take(data)
        else:
            self._lose("it was unplugged or closed (end of file)")

    def _flush(self) -> None:
        assert self._fd is not None
        loop = asyncio.get_running_loop()
        try:
            while self._unwritten:
                del self._unwritten[: os.write(self._fd, self._unwritten)]
            loop.remove_writer(self._fd)
        except BlockingIOError:
            loop.add_writer(self._fd, self._flush)
        except OSError as error:
            self._lose(f"it was unplugged or closed ({os.strerror(error.errno or 0)})")

    def _keep_reading(self, port: serial.Serial, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed without closing the line
            while self._lost is None:
                try:
                    data = port.read(max(1, port.in_waiting))
                except (serial.SerialException, OSError) as error:
                    loop.call_soon_threadsafe(self._lose, f"the connection ended ({error})")
                    return
                if data:
                    loop.call_soon_threadsafe(self._take, data)

    def _take(self, data: bytes) -> None:
        self._arrived += data
        del self._arrived[:-ARRIVED_BYTES_MAX]
        self._wake()

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
        if self._fd is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._fd)
            loop.remove_writer(self._fd)
            self._fd = None
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _advice(url: str, error: Exception) -> str:
    if isinstance(error.__context__, termios.error):
        return f"{url}: this is no serial port"
    match error.errno if isinstance(error, OSError) else None:
        case errno.ENOENT | errno.ENODEV | errno.ENXIO:
            return f"{url}: no such port; is the board plugged in? `ls -l /dev/serial/by-path`"
        case errno.EACCES | errno.EPERM:
            return (
                f"{url}: this user may not open it; "
                'sudo usermod -aG dialout "$(id -un)", then log in anew'
            )
        case errno.EBUSY | errno.EAGAIN:
            return f"{url}: another program has it open; `fuser -v {url}` says which, end that one"
    return f"{url}: cannot be opened ({error})"
