"""One scenario about to be played, and what became of it."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import walk_tb
from typing import Any

import lns
from bench.capture.reading import Event
from bench.clock import broken_off, ill_ended, left_open, never_awaited
from bench.device.interfaces import (
    NOT_JOINED,
    CommandRefused,
    DeviceRestarted,
    DeviceSilent,
    NotAsWritten,
    UnknownFirmware,
    WrongDevice,
)
from bench.device.serial_line import LineLost, PortUnavailable
from bench.host.lns_process import ServerDied
from bench.host.program import ConsumerDied, ConsumerSilent, HostError, first_cause
from bench.inspection.requests import disturbs_store
from bench.lab.basicstation_host import GatewayFailed
from bench.rig.on_hardware.hardware_bench import GatewaysAway
from bench.rig.on_hardware.lab_board import BoardUnfit
from bench.rig.rig import CaseTooLong, Rig
from bench.rig.stations import GatewayAway, ServerSilent
from bench.standstill import is_of
from bench.verdict.case import Case, Result, StimulusMissed, Title, Verdict
from bench.verdict.owner import GONE, Found, Owner, ScenarioMistake, place_in
from lns.clock import StoreUnavailable
from lns.dedup.strategy import Strategy
from lns.delivery import inbox, incoming
from lns.delivery.publisher import UpstreamUnavailable

BENCH = Owner.BENCH
SERVING = (Owner.LNS, Owner.APPLICATION)
BROKEN_MAX = 3
"""How often a case is played in all that this host breaks."""
TOO_LONG_MAX = 2
"""How often a case is played in all that takes too long: another time it most likely will, too."""
DEVICE_ERRORS = (
    BoardUnfit, CommandRefused, DeviceRestarted, DeviceSilent, LineLost, NotAsWritten,
    PortUnavailable, UnknownFirmware, WrongDevice,
)  # fmt: skip
"""What a board does that the bench can do nothing about."""
GATEWAY_ERRORS = (GatewayAway, GatewayFailed, GatewaysAway)
"""What a gateway does."""
CRASHES = (
    ArithmeticError, AssertionError, AttributeError, FileNotFoundError, LookupError, NameError,
    TypeError,
)  # fmt: skip
"""What nobody raises who refuses something: whoever it comes about in has a fault."""
LATE_ERRORS = (*DEVICE_ERRORS, *GATEWAY_ERRORS, StoreUnavailable, TimeoutError)
"""What may come of a host that was late: an accept after its window, an answer after its time."""


@dataclass(frozen=True, slots=True)
class Play:
    """A scenario with everything but its rig; `faults` are the seams at which it injects some."""

    title: Title
    scenario: Callable[[Rig], Coroutine[Any, Any, None]]
    strategy: Strategy = Strategy.NONE
    faults: frozenset[str] = frozenset()

    def attempt(self, number: int) -> "Play":
        """The same once more, under a name of its own."""
        case = f"{self.title.case} (attempt {number})"
        return replace(self, title=replace(self.title, case=case, attempt=number))


@dataclass(frozen=True, slots=True)
class Turn:
    """The number of an attempt, and how many there may be while the stimulus fails to come about.

    What this host broke is played `BROKEN_MAX` times in all, whatever else is allowed; so is what a
    device, a station or a store did not do in a case in which this host stalled. Where this host
    plays devices and stations itself (`is_played`) that proves nothing, and is no error of theirs.
    """

    number: int = 1
    attempts_max: int = 1
    again: bool = True
    is_played: bool = False

    def follows(
        self, verdict: Verdict, cause: BaseException | None, *, stalled: bool = False
    ) -> bool:
        if self._is_too_long(cause):
            return False
        if verdict.result is Result.INCONCLUSIVE:
            return self.number < self.attempts_max
        if verdict.result is not Result.ERROR or cause is None or not self.again:
            return False
        if self.number >= BROKEN_MAX:
            return False
        return is_of_host(cause) or (stalled and isinstance(cause, LATE_ERRORS))

    def excuses(self, cause: BaseException | None) -> bool:
        is_late = isinstance(cause, LATE_ERRORS) and not self._is_too_long(cause)
        return self.is_played and is_late

    def _is_too_long(self, cause: BaseException | None) -> bool:
        return isinstance(cause, CaseTooLong) and self.number >= TOO_LONG_MAX


_JOIN = re.compile(r"[0-9A-F]{16}:[0-9A-F]{16}:[0-9]+")
ONLY = Turn(again=False)
UNDER_TEST = Path(lns.__path__[0])
OF_CONSUMER = {inbox.__file__, incoming.__file__}
"""Only consumers run what stands here."""
MENDED_WITHIN_S = 60
"""How long what a case has broken may take to come back, where its own time is over."""


async def perform(case: Case, rig: Rig, play: Play, turn: Turn = ONLY) -> Verdict:
    """Play it; whatever the bench itself gets wrong is an ERROR, not a crash."""
    error, owner, cause = None, BENCH, None
    try:
        async with rig.running(case):
            try:
                await play.scenario(rig)
            except (Exception, asyncio.CancelledError) as failure:
                # What is under way to the network server still has an outcome.
                if isinstance(failure, Exception) or rig.is_over_time:
                    limit_s = MENDED_WITHIN_S if rig.is_over_time else None
                    with suppress(Exception):
                        async with asyncio.timeout(limit_s):
                            await rig.mend()
                raise
            await rig.settle()
    except (Exception, BaseExceptionGroup) as failure:
        cause = first_cause(failure)
        if isinstance(cause, StimulusMissed):
            case.missed(cause.owner, str(cause))
        else:
            owner = owner_of(cause)
            error = told_of(cause, play) if owner == BENCH else innermost(cause)
    if (broken := broken_off()) is not None:
        raise broken  # who runs the clock ends the case, with what had to break it off
    if cause is None:
        for of in sorted({*left_open()}):
            whose = Owner.APPLICATION if of.startswith("consumer") else Owner.LNS
            case.find(serves_not(whose, f"{of} has left a connection open"))
    for what, file in never_awaited():
        if not Path(file).is_relative_to(UNDER_TEST):
            error, owner = f"{what}() was never awaited: write `await` before it", BENCH
            continue
        case.find(serves_not(_whose(file), f"{what}: expected to be awaited, observed forgotten"))
    stall_us = max((e["late_us"] for e in case.events if e["kind"] == "host.stalled"), default=0)
    if stall_us and error is not None and turn.excuses(cause):
        case.missed(BENCH, f"host stalled {stall_us // 1000} ms; then: {error}")
        error, owner = None, BENCH
    try:
        if owner in SERVING and error is not None:
            # What a network server or a consumer does is never an error of the bench.
            case.find(serves_not(Owner(owner), error))
            error, owner = None, BENCH
        rig.inspect(is_stuck=owner == Owner.DEVICE)
    except Exception as failure:
        error = error or innermost(failure)
    for what, file in ill_ended():
        if what.startswith("unclosed file"):  # whoever opened it, perhaps the scenario
            error = error or what
        elif not file:  # the bench closes all that it opens
            case.find(serves_not(Owner.LNS, f"{what}: expected to be closed, observed let go open"))
        elif Path(file).is_relative_to(UNDER_TEST):
            said = f"{what}: expected to be ended, observed let go in the middle, where it failed"
            case.find(serves_not(_whose(file), said))
        else:
            error = error or f"{what}() was let go in the middle, and failed there"
    if cause is not None and error is not None:
        found = _found(cause, error, owner, case.in_order())
        if found is not None:
            case.find(found)
    return case.end(
        error,
        owner=owner,
        repeated=lambda verdict: turn.follows(verdict, cause, stalled=stall_us > 0),
    )


def _whose(file: str) -> Owner:
    return Owner.APPLICATION if file in OF_CONSUMER else Owner.LNS


def serves_not(owner: Owner, text: str) -> Found:
    """The finding that somebody under test has broken: it makes the case a FAIL of its own."""
    return Found(owner=owner, rule=GONE, text=text, t_us=0)


def _found(cause: BaseException, error: str, owner: str, events: Sequence[Event]) -> Found | None:
    t_us = events[-1]["t_us"] if events else 0
    if owner in (Owner.LNS, Owner.APPLICATION):
        return Found(rule="under test", text=error, t_us=t_us, owner=Owner(owner))
    if isinstance(cause, CommandRefused) and NOT_JOINED in str(cause):
        for event in events if not any(map(disturbs_store, events)) else ():
            is_join = event["kind"] == "lns.outcome" and _JOIN.fullmatch(event.get("frame_id", ""))
            if is_join and event["answer"] in ("NotAsked", "Suppressed"):
                text = f"{event['frame_id']} was not accepted: {event.get('reason', 'no reason')}"
                return Found(
                    rule="join accept", text=text, t_us=event["t_us"],
                    frame_id=event["frame_id"], station=event["station"],
                )  # fmt: skip
    return None


async def repeated(
    play: Play, turn: Turn, attempt: Callable[[Play, Turn], Awaitable[tuple[Verdict, bool]]]
) -> Verdict:
    """The verdict of the first attempt that proves something, or of the last one allowed.

    `turn` is the first one. `attempt` plays it once; with the verdict it says whether another
    attempt is to follow.
    """
    verdict, again = await attempt(play, turn)
    while again:
        turn = replace(turn, number=turn.number + 1)
        verdict, again = await attempt(play.attempt(turn.number), turn)
    return verdict


def owner_of(error: BaseException) -> Owner:
    if isinstance(error, ServerDied | ServerSilent | UpstreamUnavailable):
        return Owner.LNS
    if isinstance(error, ConsumerDied | ConsumerSilent):
        return Owner.APPLICATION
    if isinstance(error, DEVICE_ERRORS):
        return Owner.DEVICE
    if isinstance(error, GATEWAY_ERRORS):
        return Owner.GATEWAY
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    inmost = [frame for frame in frames if is_of(frame, "bench", "lns", "scenarios")][-1:]
    if isinstance(error, CRASHES) and any(is_of(frame, "lns") for frame in inmost):
        return _whose(inmost[0].f_code.co_filename)
    return BENCH


def is_of_host(error: BaseException) -> bool:
    """Whether this host did not do what it should, and may do it if it is asked again.

    A mistake of a scenario is none of this host, and a case that takes too long would again.
    """
    of_host = isinstance(error, HostError | OSError) and not isinstance(error, TimeoutError)
    return of_host and owner_of(error) == BENCH


def told_of(mistake: BaseException, play: Play) -> str:
    """What is wrong, after the line of the scenario in which it came about."""
    place = place_in(play.title.file, mistake.__traceback__)
    text = str(mistake) if isinstance(mistake, ScenarioMistake) else innermost(mistake)
    if "'coroutine' object" in text:
        text += "; is there an `await` missing?"
    return f"{place}: {text}" if place else text


def innermost(failure: BaseException) -> str:
    """The first cause in a group of groups, in a line."""
    cause = first_cause(failure)
    return f"{type(cause).__name__}: {cause}"
