"""A program that the bench starts, ends and watches."""

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from bench.host.program import (
    REFUSED_WAITS_S,
    STALLED_US,
    HostGuard,
    Program,
    ProgramDied,
    ProgramMissing,
    ProgramSilent,
    disk_us,
    guard_machine,
    guard_program,
    stolen_us,
)
from tests.blocking import stop_now, until_now
from tests.looped import on_a_loop

PATIENCE_S = 60
SLEEP = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('ready', flush=True); time.sleep(600)",
]


def state(pid: int) -> str:
    """The letter of a process in /proc, "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def fails(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@on_a_loop
async def test_it_is_started_and_ended_again_and_again(tmp_path: Path) -> None:
    program = Program("sleeper", tmp_path / "log")
    files = len(os.listdir("/proc/self/fd"))
    for end in (program.stop, program.kill):
        program.launch(SLEEP, speaks=True)
        assert await program.first_line(PATIENCE_S) == "ready"
        pid = program.pid
        assert program.running and state(pid)
        await end()
        assert not program.running and not state(pid)
        assert program.died is None
    assert len(os.listdir("/proc/self/fd")) == files


@contextmanager
def written_to(file: Path) -> Iterator[Callable[[], None]]:
    """A program that somebody writes to: the kernel refuses to start it until they have done."""
    with file.open("r+b") as open_file:
        yield open_file.close


def copy_of(program: str, place: Path) -> Path:
    found = shutil.which(program)
    assert found is not None
    return Path(shutil.copy2(Path(found).resolve(), place))


@pytest.mark.parametrize("refused", ["the program", "what starts it"])
def test_a_start_that_the_kernel_refuses_for_the_moment_is_tried_again(
    refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = copy_of("sleep", tmp_path)
    interpreter = copy_of(sys.executable, tmp_path / "interpreter")
    program = Program("sleeper", tmp_path / "log")
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with written_to(sleep if refused == "the program" else interpreter) as done:
        starting = Thread(target=program.launch, args=([str(sleep), "600"],))
        starting.start()
        for _ in range(PATIENCE_S * 100):
            if "refused to start it" in program.tail():
                break
            Event().wait(0.01)
        done()
        starting.join()
    until_now(program, lambda: Path(f"/proc/{program.pid}/exe").resolve() == sleep, PATIENCE_S)
    program.kill_now()
    assert "Text file busy" in program.tail()


def test_a_start_that_the_kernel_goes_on_refusing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = copy_of(sys.executable, tmp_path / "interpreter")
    program = Program("sleeper", tmp_path / "log")
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with written_to(interpreter), pytest.raises(OSError, match="Text file busy"):
        program.launch(SLEEP)
    assert not program.running
    assert program.tail().count("refused to start it") == len(REFUSED_WAITS_S)


def test_without_a_loop_it_is_ended_too(tmp_path: Path) -> None:
    program = Program("sleeper", tmp_path / "log")
    for end in (partial(stop_now, program), program.kill_now):
        program.launch(SLEEP)
        until_now(program, lambda: "ready" in program.tail(), PATIENCE_S)
        pid = program.pid
        end()
        end()
        assert not program.running and not state(pid)
    with pytest.raises(ProgramSilent, match="not ready after"):
        program.launch(SLEEP)
        until_now(program, lambda: False, 0.05)
    assert not program.running


@on_a_loop
async def test_who_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    program = Program("stubborn", tmp_path / "log")
    program.launch(STUBBORN, speaks=True)
    await program.first_line(PATIENCE_S)
    await program.stop(0.05)
    assert not program.running and program.died is None
    program.launch(STUBBORN, speaks=True)
    await program.first_line(PATIENCE_S)
    stop_now(program, 0.05)
    assert not program.running


@on_a_loop
async def test_a_paused_program_does_nothing_and_can_be_ended(tmp_path: Path) -> None:
    program = Program("sleeper", tmp_path / "log")
    program.launch(SLEEP, speaks=True)
    await program.first_line(PATIENCE_S)
    for _ in range(3):
        program.pause()
        assert state(program.pid) == "T"
        assert program.running
        program.resume()
        assert state(program.pid) != "T"
    program.pause()
    await program.stop()
    assert not program.running


def test_an_end_that_nobody_asked_for_is_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        program = Program("sleeper", tmp_path / "log")
        program.launch(SLEEP)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watched(program))
            await asyncio.sleep(0)
            os.kill(program.pid, signal.SIGKILL)
        assert "sleeper ended by signal 9" in watching.result()
        assert str(program.died) == watching.result()
        await program.stop()
        assert str(program.died) == watching.result()
        program.launch(SLEEP)
        assert program.died is None
        await program.kill()

    async def watched(program: Program) -> str:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ProgramDied) as caught:
                await program.watch()
        return str(caught.value)

    asyncio.run(main())


@on_a_loop
async def test_restarts_are_not_told_as_an_end(tmp_path: Path) -> None:
    program = Program("sleeper", tmp_path / "log")
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(program.watch())
        for _ in range(3):
            program.launch(SLEEP)
            await program.kill()
        await asyncio.sleep(0)
        assert not watching.done()
        watching.cancel()


@on_a_loop
async def test_who_dies_before_it_is_ready_says_why(tmp_path: Path) -> None:
    program = Program("broken", tmp_path / "log")
    program.launch(fails("import sys; sys.exit('no such thing')"), speaks=True)
    with pytest.raises(ProgramDied, match=r"exit code 1; the end of .*log:\nno such thing"):
        await program.first_line(PATIENCE_S)
    program.launch(fails("import sys; sys.exit('no such thing')"))
    with pytest.raises(ProgramDied, match="no such thing"):
        await program.until(lambda: False, PATIENCE_S)


@on_a_loop
async def test_who_says_nothing_is_ended_and_told(tmp_path: Path) -> None:
    program = Program("sleeper", tmp_path / "log")
    program.launch([sys.executable, "-c", "import time; time.sleep(600)"], speaks=True)
    with pytest.raises(ProgramSilent, match="it said nothing"):
        await program.first_line(0.05)
    assert not program.running
    program.launch(SLEEP)
    with pytest.raises(ProgramSilent):
        await program.until(lambda: False, 0.05)
    assert not program.running


def test_nothing_stays_behind_when_nobody_waits_any_more(tmp_path: Path) -> None:
    async def main() -> None:
        program = Program("sleeper", tmp_path / "log")
        program.launch([sys.executable, "-c", "import time; time.sleep(600)"], speaks=True)
        await cancelled(program, program.first_line(PATIENCE_S))
        program.launch(SLEEP)
        await cancelled(program, program.until(lambda: False, PATIENCE_S))
        program.launch(STUBBORN, speaks=True)
        await program.first_line(PATIENCE_S)
        await cancelled(program, program.stop(PATIENCE_S))

    async def cancelled(program: Program, waits: Coroutine[object, object, object]) -> None:
        waiting = asyncio.ensure_future(waits)
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert program.running and not done
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() and not program.running

    asyncio.run(main())


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProgramMissing, match="ghost cannot be started: no program /nowhere/ghost"):
        Program("ghost", tmp_path / "log").launch(["/nowhere/ghost"])


def test_it_dies_with_the_bench(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from bench.host.program import Program\n"
        "program = Program('sleeper', Path(sys.argv[1]))\n"
        "program.launch([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(program.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    bench = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with bench:
        assert bench.stdout is not None
        pid = int(bench.stdout.readline())
        handle = os.pidfd_open(pid)
        try:
            bench.kill()
            bench.wait()
            assert _ends(handle), "it lives on without the bench"
        finally:
            os.close(handle)


def _ends(handle: int) -> bool:
    return bool(select.select([handle], [], [], PATIENCE_S)[0])


async def guarded(stall_s: float) -> tuple[HostGuard, list[int]]:
    late: list[int] = []
    guard = HostGuard(late.append)
    watching = asyncio.create_task(guard.run())
    await asyncio.sleep(0.02)
    _stall(stall_s)
    await asyncio.sleep(0.02)
    watching.cancel()
    return guard, late


def _stall(seconds: float) -> None:
    Event().wait(seconds)


def test_a_loop_that_stood_still_is_told() -> None:
    guard, late = asyncio.run(guarded(0.2))
    assert max(late) >= 180_000
    assert guard.worst_us == max(late)


def test_what_is_told_is_never_less_than_a_stall() -> None:
    guard, late = asyncio.run(guarded(0.0))
    assert all(us >= STALLED_US for us in late)
    assert guard.worst_us > 0 or not late


BUSY = "import os\nos.sched_setaffinity(0, {CPU})\nwhile True: pass"


def busy(cpu: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", BUSY.replace("CPU", str(cpu))])


def test_a_process_that_must_share_its_processor_is_told() -> None:
    cpu = min(os.sched_getaffinity(0))
    rivals = [busy(cpu) for _ in range(4)]
    told = asyncio.Event()
    waits: list[int] = []

    def stalled(us: int) -> None:
        waits.append(us)
        told.set()

    async def watched() -> None:
        watching = asyncio.create_task(guard_program(rivals[0].pid, stalled))
        async with asyncio.timeout(30):
            await told.wait()
        watching.cancel()

    try:
        asyncio.run(watched())
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
    assert all(us >= STALLED_US for us in waits)


def test_the_end_of_a_process_ends_its_guard() -> None:
    with busy(min(os.sched_getaffinity(0))) as process:

        async def watched() -> None:
            watching = asyncio.create_task(guard_program(process.pid, lambda us: None))
            await asyncio.sleep(0)
            process.kill()
            process.wait()
            await asyncio.wait_for(watching, 30)

        asyncio.run(watched())


PRESSURE = """\
some avg10=0.81 avg60=2.02 avg300=1.50 total=726291790
full avg10=0.06 avg60=0.04 avg300=0.29 total=105815784
"""
PROCESSORS = """\
cpu  4581933 718240 629590 1105889 14436 0 28562 28460 0 0
cpu0 2290966 359120 314795 552944 7218 0 14281 14230 0 0
"""


def test_how_long_a_disk_and_a_processor_were_waited_for() -> None:
    assert disk_us(PRESSURE) == 726_291_790
    assert stolen_us(PROCESSORS) == 28_460 * 1_000_000 // os.sysconf("SC_CLK_TCK")


def test_a_kernel_that_tells_nothing_of_it_is_no_stall() -> None:
    assert (disk_us(""), stolen_us(""), stolen_us("cpu 1 2 3")) == (0, 0, 0)


def test_only_what_is_new_is_a_stall_of_the_machine() -> None:
    """It has waited for days since it was booted; in an idle tenth of a second it has not."""
    told: list[int] = []

    async def watched() -> None:
        watching = asyncio.create_task(guard_machine(told.append))
        await asyncio.sleep(0.35)
        watching.cancel()

    asyncio.run(watched())
    assert all(STALLED_US <= us < 30_000_000 for us in told)
