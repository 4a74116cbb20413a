"""Which situations were met together, and which never?

A pair is two situations of which the second came at most ten seconds after the first, at the same
device where both are about one. What nobody has met is a hole; the generator steers there.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from bench.explore.generate import RECIPES
from bench.explore.history import SECOND_US
from bench.explore.trace import (
    DownlinkWanted,
    Event,
    Frame,
    RadioRestarted,
    Reception,
    ServerRestarted,
    StoreDisturbed,
    Trace,
    UpstreamDisturbed,
)

TOGETHER_US = 10 * SECOND_US
LATE_US = SECOND_US
GAP = 16_000
TURN = 1 << 16
SITUATIONS = tuple(RECIPES)
Pair = tuple[str, str]
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
    """The pairs that nobody has met."""
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
    """What happened, in order: when, what, to which device."""
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
