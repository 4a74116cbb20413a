"""How long did something take, on a host that has other work too?

Limits are written for a processor that does `WORK_US` of `_work` in that time. One that shares its
core with others, or is an older one, takes longer for everything: `slowness` says by how much, at
the moment.
"""

import hashlib
import json
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import monotonic, thread_time_ns

from bench.host.program import away_us

WORK_US = 4_500
SLOWNESS_MAX = 5.0


def coreless_us(pid: str = "self") -> int:
    """For how long threads of a process were ready to run and did not; 0 where nobody tells.

    All threads: one that has no core may have what another one waits for.
    """
    waited_ns = 0
    for told in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, IndexError):  # it has ended meanwhile
            waited_ns += int(told.read_text().split()[1])
    return waited_ns // 1000


def slowness() -> float:
    """How many times longer than planned a processor takes now for its work; 1 at least."""
    return _slower(_work_us())


def slowness_of_all(each_s: float = 1.0) -> float:
    """The same while every processor has such work: two of them may share a core."""
    processors = os.cpu_count() or 1
    with ProcessPoolExecutor(processors) as pool:
        found = list(pool.map(_median_us, [each_s] * processors))
    return _slower(max(found))


def _slower(work_us: float) -> float:
    return min(max(1.0, work_us / WORK_US), SLOWNESS_MAX)


def _median_us(during_s: float) -> float:
    until_s, found = monotonic() + during_s, [_work_us()]
    while monotonic() < until_s:
        found.append(_work_us())
    return median(found)


def _work_us() -> int:
    began_ns = thread_time_ns()
    for number in range(700):
        text = json.dumps({"number": number, "words": ["updf"] * 10, "of": {"a": number * 7}})
        hashlib.sha256(json.loads(text)["words"][0].encode() * 20).digest()
    return (thread_time_ns() - began_ns) // 1000


class Watch:
    """A stop watch that stands still while the host has no core for this process, or no disk."""

    def __init__(self) -> None:
        self._began_s, self._waited_us = monotonic(), _waited_us()

    @property
    def seconds(self) -> float:
        """What has passed since it was made."""
        without_s = (_waited_us() - self._waited_us) / 1_000_000
        return max(0.0, monotonic() - self._began_s - without_s)


def _waited_us() -> int:
    return coreless_us() + sum(away_us())
