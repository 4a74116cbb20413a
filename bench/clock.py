"""How does an hour pass in a second, and twice in the same order?

An asyncio event loop whose clock is a whole number of microseconds and stands still while anything
can run; then it jumps to the next timer. Timers that are due at the same microsecond run in the
order in which they were set. Sockets are served whose both ends are in this process, connections
need none (`bench.sockets`), and what others would give to a thread is done at once: everything that
happens was scheduled by something that happened before. What never gives way to others is broken
off; how long that takes is counted in the time of the processor, which a slow machine does not run
out of. So is what stands still and lets the processor rest.
"""

import asyncio
import gc
import heapq
import os
import select
import ssl as tls
import time
from asyncio import BaseEventLoop, Future, Handle, Task, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from functools import partial
from socket import AF_INET, AF_INET6, socket
from traceback import walk_stack
from types import FrameType
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from bench import standstill
from bench.sockets import LOCALHOST, Listener, Network
from lns.clock import now_us, read_from


def microseconds(number: int) -> int:
    return number


def milliseconds(number: float) -> int:
    return round(number * 1_000)


def seconds(number: float) -> int:
    return round(number * 1_000_000)


def minutes(number: float) -> int:
    return round(number * 60_000_000)


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MICROSECONDS = 1_000_000
_COMPACT_AT = 1000
_TCP_TAKES_MS = 20
"""On the wall, from a `send` until the other end in this process can read it, on a busy host."""


TURNS_MAX = 100_000
"""So often tasks may take turns at one moment; who does so more often never ends."""
_WATCHED = 16


class Deadlock(RuntimeError):
    """Nothing is scheduled, so the tasks that wait would wait for ever."""


class Livelock(RuntimeError):
    """Something runs again and again, and lets no time pass, or sleeps and lets nobody else run.

    `files` is where it is, or where the tasks began that take turns.
    """

    def __init__(self, at_us: int, running: dict[str, str], what: str = "no time passes") -> None:
        super().__init__(f"{what} at {at_us} us, running: {'; '.join(sorted(running))}")
        self.files = sorted(set(running.values()))


def run(coroutine: Coroutine[Any, Any, T], *, start_us: int = 0) -> T:
    """Run one coroutine to its end on a virtual clock of its own that starts at `start_us`.

    Deadlock if it waits for something that cannot happen; an exception in a callback ends the run
    as one in the coroutine would. Tasks left over are cancelled.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(start_us)) as runner:
        return runner.run(coroutine)


def _virtual() -> "VirtualTimeLoop | None":
    loop = asyncio.get_running_loop()
    return loop if isinstance(loop, VirtualTimeLoop) else None


def broken_off() -> BaseException | None:
    """What has ended this run before its time, if it is one on virtual time."""
    return loop.failure if (loop := _virtual()) else None


def virtual_loop() -> "VirtualTimeLoop":
    """The loop that runs; only on virtual time."""
    loop = _virtual()
    assert loop is not None, "the threads and connections of a real loop are its host's"
    return loop


def network() -> Network:
    """All who listen within this process; only on virtual time."""
    return virtual_loop().network


def left_open() -> list[str]:
    """Whose connections are open on this loop, if it is one on virtual time."""
    return loop.network.left_open() if (loop := _virtual()) else []


def never_awaited() -> list[tuple[str, str]]:
    """What somebody on this loop has begun and never did; of which file it is."""
    return loop.never_awaited if (loop := _virtual()) else []


def ill_ended() -> list[tuple[str, str]]:
    """What somebody on this loop has let go in the middle, and failed then; of which file it is.

    What was let go together is looked at by now; that is little, as each case begins anew.
    """
    loop = _virtual()
    if loop is None:
        return []
    gc.collect(0)
    return loop.ill_ended


class _Sockets:
    """Who waits until which socket can be read or written, in the order in which they began to."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[int, Handle]] = {}
        self._over_tcp: set[int] = set()
        self._poll = select.poll()

    @property
    def are_waited_for(self) -> bool:
        return bool(self._waiting)

    def wait(self, file: Any, event: int, handle: Handle) -> None:
        number = _number(file)
        waiting = self._waiting.setdefault(number, {})
        waiting[event] = handle
        if getattr(file, "family", None) in (AF_INET, AF_INET6):
            self._over_tcp.add(number)
        self._poll.register(number, sum(waiting))

    def give_up(self, number: int, event: int) -> bool:
        waiting = self._waiting.get(number, {})
        if waiting.pop(event, None) is None:
            return False
        if waiting:
            self._poll.register(number, sum(waiting))
        else:
            del self._waiting[number]
            self._over_tcp.discard(number)
            self._poll.unregister(number)
        return True

    def handles(self) -> list[Handle]:
        return [handle for waiting in self._waiting.values() for handle in waiting.values()]

    def ready(self) -> list[Handle]:
        """Who need not wait any more; one that is gone can be read and written.

        What is said to a Unix socket can be read at once; over TCP a busy host may take its time.
        """
        if not self._waiting:
            return []
        found = dict(self._poll.poll(_TCP_TAKES_MS if self._over_tcp else 0))
        either = select.POLLHUP | select.POLLERR
        return [
            handle
            for number, waiting in self._waiting.items()
            for event, handle in waiting.items()
            if found.get(number, 0) & (event | either)
        ]


class VirtualTimeLoop(BaseEventLoop):
    """The loop itself; it remembers what is ready, what is due later, and what time it is."""

    _ready: deque[Handle]
    _stopping: bool
    _running = False

    def __init__(self, start_us: int = 0) -> None:
        super().__init__()
        self._now_us = start_us
        self._timers: list[tuple[int, int, TimerHandle]] = []
        self._timers_set = 0
        self._timers_cancelled = 0
        self.failure: BaseException | None = None
        """What has ended the run, or will at the end of this turn."""
        self._is_over = False
        self._turns = 0
        self._spinning: dict[str, str] = {}
        self._looked_at = (start_us, -1)
        self._still_at = (start_us, -1, 0.0)
        self._sockets = _Sockets()
        self._signals: dict[int, Callable[[], object]] = {}
        self.network = Network(self)
        self.never_awaited: list[tuple[str, str]] = []
        self.ill_ended: list[tuple[str, str]] = []
        self.thread_us = 0
        self.slow_until_us = -1
        """How long what is done in a thread takes, and when the last of that is done."""
        self.in_thread: Callable[[], AbstractContextManager[object]] = nullcontext
        """What it is done in, for who wants it to fail."""

    def close(self) -> None:
        if not self.is_closed():
            self.network.shut()
        super().close()

    def time(self) -> float:
        return self._now_us / MICROSECONDS

    def _read_us(self) -> int:
        return self._now_us

    def handles(self) -> list[Handle]:
        """What would be called later, or once a socket is ready."""
        handles = [*(one for *_, one in self._timers), *self._sockets.handles()]
        return [one for one in handles if not one.cancelled()]

    def run_forever(self) -> None:
        """Run until `stop`; Deadlock when nothing is left that could call it."""
        asyncio._set_running_loop(self)
        self._running = True
        try:
            with (
                read_from(self._read_us),
                standstill.looking(self._look, self._stands_still),
                standstill.told_first(time.sleep, self._sleeps),  # noqa: TID251
                standstill.told_first(os._exit, self._exits),
                standstill.told_of_unawaited(self.never_awaited),
                standstill.told_of_ill_ended(self.ill_ended),
            ):
                while not self._stopping:
                    self._run_once()
        except (Exception, SystemExit) as failure:
            self.failure = self.failure or failure
            self._is_over = True
            raise
        finally:
            self._stopping = False
            self._running = False
            asyncio._set_running_loop(None)

    def _run_once(self) -> None:
        if not self._ready:
            self._ready.extend(self._sockets.ready())
        if not self._ready:
            self._jump()
        self._turns += 1
        if self._turns > TURNS_MAX:
            self._watch()
        ready = self._ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        if self.failure is not None and not self._is_over:
            raise self.failure

    def skip_to(self, us: int) -> bool:
        """Let it be `us` at once if nothing at all happens until then; whether that is so.

        For who would sleep until then, and saves two turns of the loop.
        """
        self._drop_cancelled()
        nothing_due = not self._timers or self._timers[0][0] > us
        if self._ready or self._sockets.are_waited_for or not nothing_due:
            return False
        self._now_us = max(self._now_us, us)
        self._turns = 0
        return True

    def _drop_cancelled(self) -> None:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._timers_cancelled -= 1

    def _jump(self) -> None:
        self._drop_cancelled()
        timers = self._timers
        if not timers:
            raise Deadlock(self._who_waits())
        if self._now_us < timers[0][0]:
            self._now_us, self._turns = timers[0][0], 0
        while timers and timers[0][0] <= self._now_us:
            handle = heapq.heappop(timers)[2]
            if handle._cancelled:
                self._timers_cancelled -= 1
            else:
                handle._scheduled = False  # type: ignore[attr-defined]
                self._ready.append(handle)

    def _watch(self) -> None:
        for handle in self._ready:
            task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
            if isinstance(task, Task):
                code = getattr(task.get_coro(), "cr_code", None)
                if code is not None:
                    self._spinning[f"{task.get_name()} ({code.co_qualname})"] = code.co_filename
        if self._turns > TURNS_MAX + _WATCHED:
            self._turns = 0  # they may be cancelled yet
            raise Livelock(self._now_us, self._spinning)

    def _look(self, _: int, frame: FrameType | None) -> None:
        """Livelock if the turn is the one of the last look, and a server's or a consumer's.

        The bench judges all of a long case in one turn. Who catches the Livelock does not go on.
        """
        here = self._now_us, self._turns
        frames = [one for one, _ in walk_stack(frame)]
        if here != self._looked_at or not any(standstill.is_of(one, "lns") for one in frames):
            self._looked_at = here
            return
        self._break_off(next(one for one in frames if standstill.is_of(one, "bench", "lns")))

    def _stands_still(self, _: int, frame: FrameType | None) -> None:
        """Livelock if a server or a consumer waits in a call of its own since the last look."""
        *turn, used_s = self._still_at
        is_same = turn == [self._now_us, self._turns]
        busy_s = standstill.busy_s()
        rested = busy_s - used_s < standstill.HARDLY * standstill.STILL_EACH_S
        self._still_at = self._now_us, self._turns, busy_s
        if is_same and rested and (inmost := standstill.inmost_of(frame)) is not None:
            self._break_off(inmost, "all stand still")

    def _sleeps(self, frame: FrameType | None, seconds: float) -> None:
        """Livelock if it is a server or a consumer that sleeps: nobody else can run meanwhile."""
        if seconds > 0 and (inmost := standstill.inmost_of(frame)) is not None:
            self._break_off(inmost, f"all stand still for {seconds} s")

    def _exits(self, frame: FrameType | None, status: int) -> None:
        """Livelock if it is a server or a consumer that ends the process, and the bench with it."""
        if (inmost := standstill.inmost_of(frame)) is not None:
            self._break_off(inmost, f"the process ends with {status}")

    def _break_off(self, frame: FrameType, what: str = "no time passes") -> NoReturn:
        code = frame.f_code
        place = f"{frame.f_globals['__name__']}, {code.co_qualname} (line {frame.f_lineno})"
        failure = Livelock(self._now_us, {place: code.co_filename}, what)
        self.failure = self.failure or failure
        raise failure

    def _who_waits(self) -> str:
        waiting = sorted(
            f"{task.get_name()} ({getattr(task.get_coro(), '__qualname__', '?')})"
            for task in asyncio.all_tasks(self)
        )
        listed = "; ".join(waiting) or "none"
        return f"nothing is scheduled at {self._now_us} us, waiting tasks: {listed}"

    def is_running(self) -> bool:
        return self._running

    def run_in_executor(
        self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> Future[T]:
        """Do on the loop what would be done in a thread, after `thread_us`."""
        done: Future[T] = self.create_future()

        def work() -> None:
            try:
                with self.in_thread():
                    result = func(*args)
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(result)

        if self.thread_us:
            self.slow_until_us = max(self.slow_until_us, now_us() + self.thread_us)
            self.call_later(self.thread_us / MICROSECONDS, work)
        else:
            self.call_soon(work)
        return done

    def add_signal_handler(
        self, sig: int, callback: Callable[[Unpack[Ts]], object], *args: *Ts
    ) -> None:
        self._signals[sig] = partial(callback, *args)

    def take_signal(self, sig: int) -> bool:
        """Send this process a signal; whether anybody takes it. Nobody takes the next one."""
        handler = self._signals.get(sig)
        self._signals.clear()
        if handler is not None:
            self.call_soon(handler)
        return handler is not None

    def add_reader(self, fd: Any, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> None:
        self._sockets.wait(fd, select.POLLIN, Handle(callback, args, self))

    def remove_reader(self, fd: Any) -> bool:
        return self._sockets.give_up(_number(fd), select.POLLIN)

    def add_writer(self, fd: Any, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> None:
        self._sockets.wait(fd, select.POLLOUT, Handle(callback, args, self))

    def remove_writer(self, fd: Any) -> bool:
        return self._sockets.give_up(_number(fd), select.POLLOUT)

    async def sock_recv(self, sock: socket, nbytes: int) -> bytes:
        """What a socket of this process has to read, once there is something."""
        while True:
            try:
                return sock.recv(nbytes)
            except BlockingIOError:
                readable: Future[None] = self.create_future()
                self.add_reader(sock, readable.set_result, None)
                try:
                    await readable
                finally:
                    self.remove_reader(sock)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **_: Any,
    ) -> Listener:
        return self.network.listen(protocol_factory, host, port)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: tls.SSLContext | None = None,
        server_hostname: str | None = None,
        local_addr: tuple[str, int] | None = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A connection to somebody in this process, from the host of `local_addr`."""
        ours, _port = local_addr or (LOCALHOST, 0)
        if ssl is None:
            return await self.network.connect(protocol_factory, port or 0, host=ours)
        plain, _nobody = await self.network.connect(asyncio.Protocol, port or 0, host=ours)
        protocol = protocol_factory()
        secured = await self.network.secure(
            plain, protocol, ssl, server_hostname=server_hostname or host, is_new=True
        )
        return secured, protocol

    async def start_tls(  # type: ignore[override]
        self,
        transport: asyncio.Transport,
        protocol: asyncio.BaseProtocol,
        sslcontext: tls.SSLContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> asyncio.Transport:
        return await self.network.secure(
            transport,
            protocol,
            sslcontext,
            server_side=server_side,
            server_hostname=server_hostname,
            handshake_s=ssl_handshake_timeout,
            shutdown_s=ssl_shutdown_timeout,
        )

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """As `call_soon`; for signal handlers."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        """Run a callback `delay` seconds from now, rounded to microseconds."""
        when_us = self._now_us + round(delay * MICROSECONDS)
        return self._call_at_us(when_us, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        """Run a callback at `when` seconds, rounded to microseconds; at once if that is past."""
        return self._call_at_us(round(when * MICROSECONDS), callback, args, context)

    def _call_at_us(
        self,
        when_us: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> TimerHandle:
        handle = TimerHandle(when_us / MICROSECONDS, callback, args, self, context)
        self._timers_set += 1
        heapq.heappush(self._timers, (max(when_us, self._now_us), self._timers_set, handle))
        handle._scheduled = True  # type: ignore[attr-defined]
        return handle

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > _COMPACT_AT and self._timers_cancelled * 2 > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An exception that nobody catches ends the run."""
        failure = context.get("exception") or RuntimeError(str(context.get("message")))
        if self.failure is None:
            self.failure = failure


def _number(file: Any) -> int:
    number: int = file if isinstance(file, int) else file.fileno()
    return number


async def pause(us: int) -> None:
    """Let so much time pass, on whatever clock; TypeError for parts of a microsecond."""
    if not isinstance(us, int):
        raise TypeError(f"a time is whole microseconds, not {us!r}: say seconds({us!r})")
    if not (loop := _virtual()) or not loop.skip_to(now_us() + us):
        await asyncio.sleep(us / MICROSECONDS)


def is_disk_slow(since_us: int | None = None) -> bool:
    """Whether what others would give to a thread takes time on the loop that runs, or has since."""
    loop = _virtual()
    was_slow = loop and since_us is not None and loop.slow_until_us >= since_us
    return bool(loop and (loop.thread_us or was_slow))


def is_being_written() -> bool:
    """Whether what was given to a thread on the loop that runs is not done yet."""
    loop = _virtual()
    return loop is not None and loop.slow_until_us >= now_us()


def awaited_in(room: str) -> list[str]:
    """The functions of a package that would be called later, or once a socket is ready."""
    handles = loop.handles() if (loop := _virtual()) else []
    called = [handle._callback for handle in handles]  # type: ignore[attr-defined]
    names = {f"{one.__module__}.{one.__qualname__}" for one in called if hasattr(one, "__module__")}
    return sorted(name for name in names if name.startswith(f"{room}."))


async def until(
    condition: Callable[[], bool],
    within_us: int,
    error: Callable[[], Exception],
    *,
    every_us: int = 20_000,
) -> None:
    """Wait until a condition holds, on whatever clock; what `error` makes when that takes longer.

    For what tells nobody that it has changed.
    """
    until_us = now_us() + within_us
    while not condition():
        if now_us() > until_us:
            raise error()
        await pause(every_us)
