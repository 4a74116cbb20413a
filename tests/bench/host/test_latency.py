import asyncio
import os
import subprocess
import sys
from threading import Event

from bench.host.program import (
    STALLED_US,
    HostGuard,
    MachineGuard,
    ProgramGuard,
    disk_us,
    stolen_us,
)


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
        watching = asyncio.create_task(ProgramGuard(stalled).run(rivals[0].pid))
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
            watching = asyncio.create_task(ProgramGuard(lambda us: None).run(process.pid))
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
        watching = asyncio.create_task(MachineGuard(told.append).run())
        await asyncio.sleep(0.35)
        watching.cancel()

    asyncio.run(watched())
    assert all(STALLED_US <= us < 30_000_000 for us in told)
