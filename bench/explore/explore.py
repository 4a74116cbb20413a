"""How are many histories explored, the same ones for the same seed however many processes work?

Histories come in rounds of a few batches. A batch has a stream of chance of its own and the wishes
of its round; when a round is over, what its batches met together decides about the next wishes.
"""

import gc
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.chance import stream
from bench.explore.coverage import Pair, pairs_met, wishes
from bench.explore.generate import Limits, random_history
from bench.explore.history import History
from bench.explore.judge import Cause, play_and_judge, shape
from bench.explore.shrink import shortest

BATCH = 100
BATCHES_OF_A_ROUND = 4
WISHES = 40
WISHED_SHARE = 0.12
SHRUNK_MAX = 20  # causes; of more than that only the first history is told


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be explored: so many histories or so many seconds, whatever ends first."""

    seed: int
    histories: int | None = None
    seconds: float | None = None
    limits: Limits = field(default_factory=Limits)
    workers: int = 1
    until_first: bool = False


@dataclass(slots=True)
class Batch:
    """What a batch of histories came to."""

    histories: int = 0
    receptions: int = 0
    unknowable: Counter[str] = field(default_factory=Counter)
    met: Counter[Pair] = field(default_factory=Counter)
    found: dict[Cause, tuple[int, History]] = field(default_factory=dict)

    def add(self, other: "Batch") -> None:
        """Take another batch in; of each cause the shortest history is kept."""
        self.histories += other.histories
        self.receptions += other.receptions
        self.unknowable.update(other.unknowable)
        self.met.update(other.met)
        for cause, (number, history) in other.found.items():
            self.find(cause, number, history)

    def find(self, cause: Cause, number: int, history: History) -> None:
        """So many histories were broken by a cause, the shortest of them this one."""
        known, least = self.found.get(cause, (0, history))
        least = min((least, history), key=lambda one: (one.receptions, len(one.steps)))
        self.found[cause] = known + number, least


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause: how many histories showed it, and the shortest that was found."""

    cause: Cause
    count: int
    history: History


@dataclass(frozen=True, slots=True)
class Explored:
    """What was explored and found, and how long it took."""

    batch: Batch
    findings: tuple[Finding, ...]
    seconds: float
    interrupted: bool = False

    @property
    def unknowable_share(self) -> float:
        """Which part of the receptions nobody could judge."""
        return sum(self.batch.unknowable.values()) / max(1, self.batch.receptions)


def explore(order: Order, progress: Callable[[str, int, int], None]) -> Explored:
    """Explore until it is enough or Ctrl-C is typed, then shrink what was found."""
    began = time.monotonic()
    explored, interrupted = Batch(), False
    with ExitStack() as stack:
        pool: Executor | None = None
        if order.workers > 1:
            context = get_context("spawn")
            pool = ProcessPoolExecutor(order.workers, context, initializer=_leave_ctrl_c)
            stack.enter_context(pool)
            stack.callback(pool.shutdown, cancel_futures=True)
        try:
            for batch in _rounds(order, explored, pool, began):
                explored.add(batch)
                progress("histories", explored.histories, order.histories or 0)
                if order.until_first and explored.found:
                    break
        except KeyboardInterrupt:
            interrupted = True
    if order.until_first:
        explored.found = dict(sorted(explored.found.items(), key=_by_receptions)[:1])
    findings = _shrunk(explored, progress)
    return Explored(explored, findings, time.monotonic() - began, interrupted)


@contextmanager
def exploring(order: Order) -> Iterator[Callable[[], Explored]]:
    """Explore meanwhile, in a process of its own, which ends with the block.

    What is handed out waits for the end of it; EOFError where that process has died.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_explore_into, args=(order, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv
    finally:
        process.terminate()
        process.join()
        ours.close()


def _leave_ctrl_c() -> None:
    """Whoever waits for this process ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _explore_into(order: Order, result: Connection) -> None:
    _leave_ctrl_c()
    result.send(explore(order, lambda what, done, whole: None))


def explore_batch(
    seed: int, number: int, histories: int, limits: Limits, wished: list[Pair]
) -> Batch:
    """Play and judge one batch; it is the same wherever it is played."""
    batch, chance = Batch(), stream(seed, "explore", str(number))
    with _undisturbed():
        for _ in range(histories):
            wish = chance.choice(wished) if chance.random() < WISHED_SHARE else None
            history = random_history(chance, limits, wish)
            judged = play_and_judge(history)
            batch.histories += 1
            batch.receptions += len(judged.due)
            batch.unknowable.update(judged.unknowable)
            batch.met.update(pairs_met(judged.trace))
            for cause in judged.causes:
                batch.find(cause, 1, history)
            del judged
            gc.collect(0)  # what a history leaves behind; all before it is old and not looked at
    return batch


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Nothing that servers say at the console, and no collector of garbage: a third of the time.

    Whoever plays many histories lets it look at what each of them left behind.
    """
    logging.disable(logging.CRITICAL)
    was_enabled = gc.isenabled()
    gc.disable()
    gc.collect(0)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        if was_enabled:
            gc.enable()


def _rounds(order: Order, explored: Batch, pool: Executor | None, began: float) -> Iterator[Batch]:
    number = 0
    while not _is_done(order, explored, began):
        chance = stream(order.seed, "wishes", str(number))
        wished = list(wishes(explored.met, chance, WISHES, faults=order.limits.faults))
        left = BATCH * BATCHES_OF_A_ROUND
        if order.histories is not None:
            left = min(left, order.histories - explored.histories)
        sizes = [min(BATCH, left - first) for first in range(0, left, BATCH)]
        orders = [
            (order.seed, number + place, size, order.limits, wished)
            for place, size in enumerate(sizes)
        ]
        if pool is None:
            yield from (explore_batch(*one) for one in orders)
        else:
            waiting = [pool.submit(explore_batch, *one) for one in orders]
            yield from (future.result() for future in waiting)
        number += len(sizes)


def _by_receptions(found: tuple[Cause, tuple[int, History]]) -> tuple[int, int]:
    _, (_, history) = found
    return history.receptions, len(history.steps)


def _is_done(order: Order, explored: Batch, began: float) -> bool:
    if order.histories is not None and explored.histories >= order.histories:
        return True
    return order.seconds is not None and time.monotonic() - began >= order.seconds


def _shrunk(explored: Batch, progress: Callable[[str, int, int], None]) -> tuple[Finding, ...]:
    """Each cause with its shortest history; causes of one law and one shape are one."""
    findings: dict[tuple[str, tuple[str, ...]], Finding] = {}
    by_number = sorted(explored.found.items(), key=lambda one: -one[1][0])
    for place, (cause, (count, history)) in enumerate(by_number):
        if place < SHRUNK_MAX:
            progress("shrinking", place + 1, min(len(by_number), SHRUNK_MAX))
            with _undisturbed():
                history = shrink(cause, history)
        key = cause.law, shape(history)
        known = findings.get(key)
        if known is not None:
            count += known.count
            cause, history = known.cause, known.history
        findings[key] = Finding(cause, count, history)
    return tuple(sorted(findings.values(), key=lambda one: -one.count))


def shrink(cause: Cause, history: History) -> History:
    """The shortest history found that is broken by the same cause."""
    return shortest(history, lambda shorter: cause in play_and_judge(shorter).causes)
