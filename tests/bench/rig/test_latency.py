import asyncio
from threading import Event

from bench.rig.latency import STALLED_US, HostGuard


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
