import asyncio
import os
import subprocess
import sys
from threading import Event

from bench.host.resources import STALLED_US, HostGuard, ProgramGuard


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
