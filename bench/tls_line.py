"""What does a broker on TLS hear of a client that shakes hands in one blocking call?

The client has the only thread of a loop on virtual time for itself meanwhile: so the other end of
the handshake has another one, which nobody outlives who connects. From then on both ends are on the
loop, as without TLS. What is said in one turn of it is one record: whoever reads a part of that has
to know that there is more, as its socket cannot be read any more.
"""

import asyncio
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

_SHAKES_WITHIN_S = 5.0


class TlsLine:
    """The secured end of a connection, as a socket that does not block."""

    def __init__(self, secured: ssl.SSLSocket) -> None:
        self._secured = secured
        self._to_say = bytearray()
        self.family = secured.family

    def fileno(self) -> int:
        return self._secured.fileno()

    def recv(self, octets_max: int) -> bytes:
        """What was said; BlockingIOError where nothing is there, and OSError as a socket has it."""
        try:
            return self._secured.recv(octets_max)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None

    def send(self, octets: bytes | bytearray) -> int:
        """Say it together with what else is said in this turn."""
        if not self._to_say:
            asyncio.get_running_loop().call_soon(self._flush)
        self._to_say += octets
        return len(octets)

    def close(self) -> None:
        self._flush()
        self._secured.close()

    def _flush(self) -> None:
        with suppress(OSError):
            if self._to_say:
                self._secured.send(self._to_say)
        self._to_say.clear()


class TlsListener:
    """Shakes hands with whoever connects in a thread; `came` is told each line, on the loop.

    `refused`: how many have made nothing of it.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        came: Callable[[TlsLine], None],
    ) -> None:
        self._listener = listener
        self._context = context
        self._came = came
        self._secured: deque[ssl.SSLSocket] = deque()
        self.refused = 0

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """What is done in here may connect (`VirtualTimeLoop.in_thread`)."""
        over, tell = os.pipe()
        thread = Thread(target=self._shake_hands, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.close(tell)
            thread.join()
            os.close(over)
            while self._secured:
                secured = self._secured.popleft()
                secured.setblocking(False)
                asyncio.get_running_loop().call_soon(self._came, TlsLine(secured))

    def _shake_hands(self, over: int) -> None:
        while True:
            listener = self._listener.fileno()
            ready, _, _ = select.select([listener, over], [], [])
            if listener not in ready:
                return
            line, _ = self._listener.accept()
            line.settimeout(_SHAKES_WITHIN_S)
            # No word waits for the acknowledgement of the one before.
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._secured.append(self._context.wrap_socket(line, server_side=True))
            except OSError:
                self.refused += 1
                line.close()
