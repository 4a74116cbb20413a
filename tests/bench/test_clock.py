import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import process_time
from types import FunctionType

import pytest

from bench import standstill
from bench.clock import Deadlock, Livelock, VirtualTimeLoop, awaited_in, pause, run
from lns.capture import Capture
from lns.clock import now_us
from lns.lorawan import mac_commands
from lns.lorawan.mac_commands import DevStatusReq, MacCommand

HOUR_S = 3600.0


def test_an_hour_of_waiting_takes_an_hour_of_virtual_time() -> None:
    async def wait() -> int:
        await asyncio.sleep(HOUR_S)
        return now_us()

    assert run(wait()) == 3_600_000_000
    assert run(wait(), start_us=500) == 3_600_000_500


def test_timers_of_the_same_microsecond_run_in_the_order_they_were_set() -> None:
    async def collect() -> list[int]:
        order: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_at(1.0 + (number % 2) * 1e-8, order.append, number)
        loop.call_at(0.5, order.append, -1)
        await asyncio.sleep(2)
        return order

    assert run(collect()) == [-1, *range(50)]


def test_time_in_which_nothing_happens_is_skipped_at_once() -> None:
    async def skip() -> tuple[list[bool], list[int]]:
        loop, happened = asyncio.get_running_loop(), []
        assert isinstance(loop, VirtualTimeLoop)
        loop.call_later(0.000_050, lambda: happened.append(now_us()))
        loop.call_later(0.000_020, happened.append, 0).cancel()
        skipped = [loop.skip_to(us) for us in (30, 10, 50, 70)]
        loop.call_soon(happened.append, -1)
        skipped.append(loop.skip_to(40))
        happened.append(now_us())
        await asyncio.sleep(0.000_040)
        return [*skipped, loop.skip_to(90)], [*happened, now_us()]

    assert run(skip()) == ([True, True, False, False, False, True], [30, -1, 50, 90])


def test_a_pause_in_which_nothing_happens_is_over_at_once() -> None:
    async def pauses() -> tuple[bool, list[int]]:
        happened: list[int] = []
        asyncio.get_running_loop().call_later(0.000_030, lambda: happened.append(now_us()))
        first, times = pause(20), []
        with suppress(StopIteration):
            times.append(first.send(None))
        happened.append(now_us())
        await pause(20)
        return times == [], [*happened, now_us()]

    assert run(pauses()) == (True, [20, 30, 40])


def test_the_clock_stands_still_while_anything_can_run() -> None:
    async def busy() -> int:
        for _ in range(1000):
            await asyncio.sleep(0)
        return now_us()

    assert run(busy()) == 0


def test_a_timer_in_the_past_runs_now() -> None:
    async def late() -> int:
        await asyncio.sleep(1)
        ran = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_at(0.5, lambda: ran.set_result(now_us()))
        result: int = await ran
        return result

    assert run(late()) == 1_000_000


def test_time_outs_and_task_groups_work() -> None:
    async def main() -> tuple[int, int]:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.sleep(5)
        timed_out_us = now_us()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(1))
            tasks.create_task(asyncio.sleep(2))
        return timed_out_us, now_us()

    assert run(main()) == (3_000_000, 5_000_000)


def test_waiting_for_nothing_is_a_deadlock_that_names_who_waits() -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="waits_for_ever"):
        run(waits_for_ever())


def test_who_lets_no_time_pass_is_named() -> None:
    async def spins() -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.sleep(1)
        await asyncio.gather(spins(), asyncio.sleep(5))

    with pytest.raises(Livelock, match=r"at 1000000 us, .*spins") as raised:
        run(main())
    assert raised.value.files == [__file__]


def test_what_never_gives_way_is_broken_off_where_it_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever lives on an exception, as a server does, does not hide it."""
    monkeypatch.setattr(standstill, "LOOKS_EACH_S", 0.05)
    never: Iterator[MacCommand] = (DevStatusReq() for one in iter(int, 1) if one)

    async def main() -> None:
        await asyncio.sleep(1)
        with suppress(Exception):
            mac_commands.encode(never)
        await asyncio.sleep(1)

    with pytest.raises(
        Livelock, match=r"at 1000000 us, running: lns.lorawan.mac_commands, encode\b"
    ) as raised:
        run(main())
    assert raised.value.files == [mac_commands.__file__]


# It may be broken off while garbage is collected, where nobody hears of it; then it is once more.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_never_gives_way_and_asks_the_clock_for_timers_is_not_the_clocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standstill, "LOOKS_EACH_S", 0.05)

    def commands() -> Iterator[MacCommand]:
        while True:
            for _ in range(1_000):
                asyncio.get_running_loop().call_later(9, print).cancel()
            yield DevStatusReq()

    async def main() -> None:
        mac_commands.encode(FunctionType(commands.__code__, names)())

    names = {**vars(mac_commands), "asyncio": asyncio, "DevStatusReq": DevStatusReq}
    for _ in range(3):
        with pytest.raises(Livelock, match=r"running: lns.lorawan.mac_commands"):
            run(main())


def test_who_waits_in_a_call_for_what_cannot_come_is_broken_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And is taken for no slow machine: one that computes for as long is let be."""
    monkeypatch.setattr(standstill, "STILL_EACH_S", 0.3)
    never = threading.Lock()

    def commands(wait: Callable[[], object]) -> Iterator[MacCommand]:
        wait()
        yield DevStatusReq()

    def compute() -> None:
        began = process_time()
        while process_time() - began < 1.5:
            pass

    async def main(wait: Callable[[], object]) -> None:
        await asyncio.sleep(1)
        mac_commands.encode(commands(wait))

    run(main(compute))
    never.acquire()
    with pytest.raises(
        Livelock, match=r"all stand still at 1000000 us, running: lns.lorawan.mac_commands, encode"
    ):
        run(main(never.acquire))


def test_somebody_elses_timer_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "STILL_EACH_S", 0.1)
    rang: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(process_time()))
    before_s = signal.setitimer(signal.ITIMER_REAL, 0.2)

    async def compute(until: Callable[[], bool]) -> None:
        while not until():
            pass

    try:
        run(compute(lambda: True))
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.2
        run(compute(lambda: bool(rang)))
        assert signal.getitimer(signal.ITIMER_REAL)[0] < 0.1
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before_s)
        signal.signal(signal.SIGALRM, before)


def test_a_server_may_have_a_name_of_its_own_for_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mac_commands, "rest", time.sleep, raising=False)  # noqa: TID251
    standstill._bound.cache_clear()

    def of_a_server() -> None:
        rest(0.01)  # type: ignore[name-defined]  # noqa: F821

    async def main() -> None:
        FunctionType(of_a_server.__code__, vars(mac_commands))()

    try:
        with pytest.raises(Livelock, match=r"running: lns.lorawan.mac_commands, .*of_a_server"):
            run(main())
    finally:
        standstill._bound.cache_clear()


def test_what_takes_long_in_many_turns_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "LOOKS_EACH_S", 0.05)

    async def main() -> None:
        for _ in range(30):
            began = process_time()
            while process_time() - began < 0.01:
                pass
            await asyncio.sleep(0.001)

    run(main())


def test_a_long_turn_of_the_bench_is_let_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It judges a hundred thousand receptions in one, and writes it down as a server does."""
    monkeypatch.setattr(standstill, "LOOKS_EACH_S", 0.05)

    def busy_us() -> int:
        began = process_time()
        while process_time() - began < 0.3:
            sum(range(1000))
        return now_us()

    async def main() -> None:
        with closing(Capture(tmp_path, run_id="long", now_us=busy_us)) as capture:
            capture.record("bench", "case.end", {})

    run(main())


def test_a_cancelled_timer_does_not_hide_a_deadlock() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(5, print).cancel()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="at 0 us"):
        run(main())


def test_many_cancelled_timers_are_forgotten() -> None:
    async def main() -> int:
        for _ in range(5000):
            asyncio.get_running_loop().call_later(9, print).cancel()
        await asyncio.sleep(1)
        return now_us()

    assert run(main()) == 1_000_000


def test_an_exception_in_a_callback_ends_the_run() -> None:
    def fail() -> None:
        raise ZeroDivisionError("in a callback")

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, fail)
        await asyncio.sleep(HOUR_S)

    with pytest.raises(ZeroDivisionError, match="in a callback"):
        run(main())


def test_tasks_left_over_are_cancelled() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(HOUR_S)
        finally:
            ended.append("cancelled")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(forever())
        await asyncio.sleep(1)
        assert not task.done()

    run(main())
    assert ended == ["cancelled"]


def test_a_socket_of_this_process_is_served_before_the_clock_jumps() -> None:
    async def talk() -> tuple[bytes, int]:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        with here, there:
            here.setblocking(False)
            loop.add_writer(there, lambda: (loop.remove_writer(there), there.send(b"hello")))
            said = await loop.sock_recv(here, 10)
            loop.call_later(5, there.close)
            assert await loop.sock_recv(here, 10) == b""
        return said, now_us()

    assert run(talk()) == (b"hello", 5_000_000)


def test_who_reads_sockets_comes_in_the_order_in_which_they_began() -> None:
    async def talk() -> list[int]:
        loop = asyncio.get_running_loop()
        pairs = [socket.socketpair() for _ in range(5)]
        order: list[int] = []

        def heard(number: int) -> None:
            assert loop.remove_reader(pairs[number][0])
            order.append(number)

        for number in (3, 1, 4, 0, 2):
            loop.add_reader(pairs[number][0], heard, number)
        for _, there in pairs:
            there.send(b".")
        await asyncio.sleep(1)
        for one in [end for pair in pairs for end in pair]:
            one.close()
        return order

    assert run(talk()) == [3, 1, 4, 0, 2]


def test_what_others_give_to_a_thread_is_done_on_the_loop() -> None:
    async def work() -> tuple[bool, int]:
        loop = asyncio.get_running_loop()
        here = threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 1, 0)
        return await loop.run_in_executor(None, threading.get_ident) == here, now_us()

    assert run(work()) == (True, 0)


def test_what_is_done_in_a_thread_may_be_made_to_fail() -> None:
    @contextmanager
    def failing() -> Iterator[None]:
        yield
        raise OSError("not now")

    async def play() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        assert await loop.run_in_executor(None, divmod, 7, 2) == (3, 1)
        loop.in_thread = failing
        with pytest.raises(OSError, match="not now"):
            await loop.run_in_executor(None, divmod, 7, 2)

    run(play())


def test_what_would_be_called_is_named_unless_it_was_cancelled() -> None:
    async def play() -> list[list[str]]:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(1, now_us)
        named = [awaited_in("lns"), awaited_in("bench")]
        timer.cancel()
        near, far = socket.socketpair()
        with near, far:
            loop.add_reader(near, now_us)
            named.append(awaited_in("lns"))
            loop.remove_reader(near)
        return [*named, awaited_in("lns")]

    assert run(play()) == [["lns.clock.now_us"], [], ["lns.clock.now_us"], []]


def test_what_is_under_way_over_tcp_arrives_before_time_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy kernel may take some milliseconds to hand over what was said to this very process."""
    monkeypatch.setattr("bench.clock._TCP_TAKES_MS", 10_000)  # this host may be busier yet
    with socket.create_server(("127.0.0.1", 0)) as listener:
        said = socket.create_connection(listener.getsockname())
        heard, _ = listener.accept()
    heard.setblocking(False)

    async def listens() -> tuple[bytes, int]:
        later = threading.Timer(0.005, said.send, [b"at last"])
        later.start()
        async with asyncio.timeout(5):
            octets = await asyncio.get_running_loop().sock_recv(heard, 100)
        later.join()
        return octets, now_us()

    with said, heard:
        assert run(listens()) == (b"at last", 0)
