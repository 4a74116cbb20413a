"""How are many histories explored, and which situations have been met together in them?

Histories come in rounds of a few batches. A batch has a stream of chance of its own and the wishes
of its round; when a round is over, what its batches met together decides about the next wishes: the
same for the same seed however many processes work. A pair is two situations of which the second
came at most ten seconds after the first, at the same device where both are about one. What nobody
has met is a hole; the generator steers there.

What is wrong with a history is a broken law, or another word than the model's. Its drawing has one
line for each thing that happened, in order: the time, a lane for each station, what it was and what
became of it; what was due stands below where it differs.
"""

import gc
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context

from bench.chance import stream
from bench.explore.generate import RECIPES, Limits, random_history, shortest
from bench.explore.history import SECOND_US, SERVERS, History, OnAir
from bench.explore.laws import Cause, broken_laws
from bench.explore.memory_stage import play_in_memory
from bench.explore.model import Model
from bench.explore.model_books import Due
from bench.explore.trace import (
    DownlinkWanted,
    Event,
    Frame,
    RadioLost,
    RadioRestarted,
    Reception,
    ServerRestarted,
    StoreDisturbed,
    StoreEmptied,
    Trace,
    UpstreamDisturbed,
    Words,
)
from bench.host.fork_server import beside, leave_ctrl_c

TOGETHER_US = 10 * SECOND_US
LATE_US = SECOND_US
GAP = 16_000
TURN = 1 << 16
SITUATIONS = tuple(RECIPES)
Pair = tuple[str, str]
_NICE = 10
_OF_KEYS_THAT_STAY = {"equal frame of another life"}
_OF_JOINS = {"join", "join nobody heard"}
ALL_PAIRS: tuple[Pair, ...] = tuple(
    (one, two)
    for one in SITUATIONS
    for two in SITUATIONS
    if two != "silence" and not ({one, two} & _OF_KEYS_THAT_STAY and {one, two} & _OF_JOINS)
)
"""What comes at the end of a silence came long after all before it; no device that joins sends an
equal frame again, for every session has keys of its own."""

_FAULTS = {
    "server restart", "station restart", "session byte again", "slow upstream", "refused upstream",
    "store away", "slow store",
}  # fmt: skip
PAIRS_WITHOUT_FAULTS = tuple(pair for pair in ALL_PAIRS if not _FAULTS & {*pair})


def pairs_met(trace: Trace) -> set[Pair]:
    """The pairs of situations that a history brought about."""
    met = set()
    before: list[tuple[int, str, int | None]] = []
    for at_us, situation, device in _situations(trace):
        before = [one for one in before if at_us - one[0] <= TOGETHER_US]
        for _, other, whose in before:
            if device is None or whose is None or device == whose:
                met.add((other, situation))
        before.append((at_us, situation, device))
    return met


def possible(*, faults: bool) -> tuple[Pair, ...]:
    """The pairs that histories with or without faults can bring about."""
    return ALL_PAIRS if faults else PAIRS_WITHOUT_FAULTS


def holes(met: Counter[Pair], *, faults: bool = True) -> list[Pair]:
    return [pair for pair in possible(faults=faults) if not met[pair]]


def wishes(
    met: Counter[Pair], chance: random.Random, number: int, *, faults: bool = True
) -> Sequence[Pair]:
    """Pairs worth steering to: holes first, then what was met least."""
    rarest = sorted(possible(faults=faults), key=lambda pair: (met[pair], chance.random()))
    return rarest[:number]


def table(met: Counter[Pair]) -> list[str]:
    """The table of pairs: rows came first, columns next; `.` is a hole."""
    width = max(map(len, SITUATIONS)) + 3
    head = " " * width + "".join(f"{number:>5}" for number in range(1, len(SITUATIONS) + 1))
    rows = [
        f"{number:2} {one:{width - 3}}"
        + "".join(f"{_short(met[one, two]):>5}" for two in SITUATIONS)
        for number, one in enumerate(SITUATIONS, 1)
    ]
    return [head, *rows]


def _short(number: int) -> str:
    if number == 0:
        return "."
    return str(number) if number < 1_000 else f"{number // 1_000}k"


def _situations(trace: Trace) -> Iterator[tuple[int, str, int | None]]:
    heard: dict[tuple[int, int], list[Reception]] = {}
    newest: dict[int, int] = {}
    last_us: int | None = None
    for event in trace.events:
        if last_us is not None and event.at_us - last_us >= trace.retention_us - SECOND_US:
            yield event.at_us, "silence", None
        last_us = event.at_us
        if isinstance(event, Reception):
            yield from _of_reception(trace, event, heard, newest)
        else:
            yield from _of_event(event)


def _of_event(event: Event) -> Iterator[tuple[int, str, int | None]]:
    match event:
        case ServerRestarted(at_us):
            yield at_us, "server restart", None
        case RadioRestarted(at_us):
            yield at_us, "session byte again" if event.again else "station restart", None
        case UpstreamDisturbed(at_us, refused=refused):
            yield at_us, "refused upstream" if refused else "slow upstream", None
        case StoreDisturbed(at_us, late_us=late_us):
            yield at_us, "slow store" if late_us else "store away", None
        case DownlinkWanted(at_us, _, device):
            yield at_us, "downlink waits", device


def _of_reception(
    trace: Trace,
    r: Reception,
    heard: dict[tuple[int, int], list[Reception]],
    newest: dict[int, int],
) -> Iterator[tuple[int, str, int | None]]:
    frame, device = r.frame, r.frame.device
    before = heard.setdefault((r.server, frame.number), [])
    if frame.forged:
        yield r.at_us, "forgery", device
        return
    if before:
        if r.place == before[0].place:
            yield r.at_us, "repetition", device
        else:
            yield r.at_us, "late copy" if r.at_us - r.ended_us >= LATE_US else "copy", device
        if sum(other.place == r.place for other in before) >= 4:
            yield r.at_us, "limit of answers", device
        if before[0].at_us + SECOND_US < r.at_us and frame.same and r.genuine:
            yield r.at_us, "equal frame of another life", device
    elif frame.is_join:
        adopted = frame.number in trace.dev_addr
        yield r.at_us, "join" if adopted else "join nobody heard", device
    elif not frame.is_join:
        yield from _of_counter(r.at_us, frame, newest)
    if not r.genuine:
        yield r.at_us, "replay", device
    before.append(r)


def _of_counter(
    at_us: int, frame: Frame, newest: dict[int, int]
) -> Iterator[tuple[int, str, int | None]]:
    device, known = frame.device, newest.get(frame.device)
    if frame.life and frame.f_cnt <= 1:
        yield at_us, "device restart", device
    if known is not None and frame.f_cnt - known >= GAP:
        yield at_us, "gap", device
    if known is not None and frame.f_cnt // TURN > known // TURN:
        yield at_us, "roll-over", device
    newest[device] = frame.f_cnt


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
    histories: int = 0
    receptions: int = 0
    unknowable: Counter[str] = field(default_factory=Counter)
    met: Counter[Pair] = field(default_factory=Counter)
    found: dict[Cause, tuple[int, History]] = field(default_factory=dict)

    def add(self, other: "Batch") -> None:
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
    batch: Batch
    findings: tuple[Finding, ...]
    seconds: float
    interrupted: bool = False

    @property
    def unknowable_share(self) -> float:
        return sum(self.batch.unknowable.values()) / max(1, self.batch.receptions)


def explore(order: Order, progress: Callable[[str, int, int], None]) -> Explored:
    """Explore until it is enough or Ctrl-C is typed, then shrink what was found."""
    began = time.monotonic()
    explored, interrupted = Batch(), False
    with ExitStack() as stack:
        pool: Executor | None = None
        if order.workers > 1:
            context = get_context("spawn")
            pool = ProcessPoolExecutor(order.workers, context, initializer=leave_ctrl_c)
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


def exploring(order: Order) -> AbstractContextManager[Callable[[], Explored]]:
    """Explore meanwhile, as `bench.host.fork_server` does it.

    It takes what the others leave of the processors: a night is no longer for it.
    """
    return beside(_explore_quietly, order)


def _explore_quietly(order: Order) -> Explored:
    os.nice(_NICE)
    return explore(order, lambda what, done, whole: None)


def explore_batch(
    seed: int, number: int, histories: int, limits: Limits, wished: list[Pair]
) -> Batch:
    """Play and judge one batch; it is the same wherever it is played."""
    batch, chance = Batch(), stream(seed, "explore", str(number))
    with undisturbed():
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
def undisturbed() -> Iterator[None]:
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
    findings: dict[tuple[str, tuple[str, ...]], Finding] = {}
    by_number = sorted(explored.found.items(), key=lambda one: -one[1][0])
    for place, (cause, (count, history)) in enumerate(by_number):
        if place < SHRUNK_MAX:
            progress("shrinking", place + 1, min(len(by_number), SHRUNK_MAX))
            with undisturbed():
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


MODEL = "the model"


@dataclass(frozen=True, slots=True)
class Judged:
    """A trace with what was due and all that was wrong, each cause once."""

    trace: Trace
    due: dict[int, Due]
    causes: tuple[Cause, ...]

    @property
    def unknowable(self) -> list[str]:
        return [due.why for due in self.due.values() if due.words is None]


def play_and_judge(history: History) -> Judged:
    """Play a history in memory; a crash of the server is a broken law too."""
    try:
        return judge(play_in_memory(history))
    except Exception as error:
        cause = Cause("no crash", f"{type(error).__name__}: {str(error).splitlines()[:1]}")
        return Judged(Trace(history, 0), {}, (cause,))


def judge(trace: Trace) -> Judged:
    due = Model(trace).judge()
    causes = broken_laws(trace)
    for number, one in due.items():
        for words in trace.outcomes[number][:1]:
            if one.words is not None and words != one.words:
                causes.append(Cause(MODEL, difference(one.words, words)))
                break
        else:
            continue
        break  # what follows a first difference is often its consequence
    return Judged(trace, due, tuple(dict.fromkeys(causes)))


def difference(due: Words, became: Words) -> str:
    """Two outcomes, as far as they differ; without what only the strategy makes different."""
    parts = []
    for name in ("status", "upstream", "reason", "answer", "level2"):
        left, right = _plain(name, due), _plain(name, became)
        if left != right:
            parts.append(f"{name} {left} is due, {right} it became")
    if not parts:
        parts = [f"{due} is due, {became} it became"]
    return "; ".join(parts)


def _plain(name: str, words: Words) -> str:
    word: str = getattr(words, name)
    if name == "status" and word in ("Duplicate", "SoftDuplicate"):
        return "a copy"
    if name == "upstream":
        return "dropped" if word == "dropped" else "up"
    if name == "answer" and word in ("RX1", "RX2", "TooLate"):
        return "answered"
    return word


def shape(history: History) -> tuple[str, ...]:
    """What a history is made of, without who and when: the same for one cause."""
    steps = [
        f"{type(step).__name__}{len(step.heard) if isinstance(step, OnAir) else ''}"
        for step in history.steps
    ]
    return (*sorted({device.kind for device in history.devices}), *steps)


_TIME_WIDTH = 10


def drawing(judged: Judged) -> list[str]:
    """The timeline of a history that was played and judged."""
    trace = judged.trace
    places = trace.history.places
    names = " ".join(f"{SERVERS[server]}{station + 1}" for server, station in places)
    lines = [f"{'time s':>{_TIME_WIDTH}}  {names}"]
    began_us = trace.events[0].at_us if trace.events else 0
    seen: set[int] = set()
    for event in trace.events:
        at = f"{(event.at_us - began_us) / 1_000_000:{_TIME_WIDTH}.6f}"
        lanes = "  ".join(_mark(event, place) for place in places)
        lines.append(f"{at}  {lanes}   {_words(trace, event, seen)}")
        lines += [f"{'':{_TIME_WIDTH}}  {'':{len(names)}}  {one}" for one in _became(judged, event)]
    return lines


def _mark(event: Event, place: tuple[int, int]) -> str:
    match event:
        case Reception():
            return "●" if event.place == place else "·"
        case RadioLost(_, server, station):
            return "×" if (server, station) == place else "·"
        case RadioRestarted(_, server, station):
            return "○" if (server, station) == place else "·"
        case ServerRestarted(_, server):
            return "═" if server == place[0] else "·"
        case _:
            return "┄" if event.server in (-1, place[0]) else "·"


def _words(trace: Trace, event: Event, seen: set[int]) -> str:
    match event:
        case Reception(frame=frame):
            again = "again: " if frame.number in seen else ""
            seen.add(frame.number)
            late_us = event.at_us - event.ended_us
            late = f", {late_us / 1_000:g} ms late" if late_us > 1_000 else ""
            by = "" if event.genuine else ", sent by somebody else"
            return f"{again}{_frame(frame)}{late}{by}"
        case ServerRestarted(_, server):
            return f"server {SERVERS[server]} has restarted"
        case RadioLost(_, server, station):
            return f"the link of {SERVERS[server]}{station + 1} is cut"
        case RadioRestarted(_, server, station, _, again, mute):
            byte = "the session byte that it had" if again else "another session"
            silent = ", and does not tell its clock" if mute else ""
            return f"{SERVERS[server]}{station + 1} is back with {byte}{silent}"
        case UpstreamDisturbed(_, server, slow_us, refused):
            how = " and ".join(
                ([f"takes {slow_us / 1_000:g} ms"] if slow_us else []) + ["is refused"] * refused
            )
            return f"the next message of server {SERVERS[server]} {how}"
        case StoreDisturbed(at_us, server, until_us, late_us):
            how = f"answers {late_us / 1_000:g} ms late" if late_us else "is away"
            return f"the store {how} for server {SERVERS[server]}, {(until_us - at_us) / 1e6:g} s"
        case StoreEmptied():
            return "the store has lost all that it knew"
        case DownlinkWanted(_, server, device):
            return (
                f"the application wants {'abc'[device]} to be sent something by {SERVERS[server]}"
            )


def _frame(frame: Frame) -> str:
    name = f"{'abc'[frame.device]} "
    if frame.is_join:
        return name + ("a forged join" if frame.forged else f"joins, DevNonce {frame.f_cnt}")
    kind = "confirmed" if frame.confirmed else "unconfirmed"
    life = f" of life {frame.life}" if frame.life else ""
    asks = ", asks for a link check" if frame.asks else ""
    return f"{name}FCnt {frame.f_cnt}{life}, " + ("forged" if frame.forged else kind) + asks


def _became(judged: Judged, event: Event) -> Iterator[str]:
    if not isinstance(event, Reception):
        return
    outcomes, due = judged.trace.outcomes[event.number], judged.due.get(event.number)
    for words in map(str, outcomes) if outcomes else ("nothing: it has no outcome",):
        yield f"→ {words}"
    if due is not None and due.words is None:
        yield f"  what is due is unknowable: {due.why}"
    elif due is not None and outcomes[:1] != [due.words]:
        yield f"  ! due is {due.words}"
