"""Which attempt at a case is followed by another one?"""

from pathlib import Path

import pytest

from bench import clock
from bench.device.interfaces import CommandRefused
from bench.rig.rig import CaseTooLong, Rig
from bench.rig.simulated_rig import simulated_rig
from bench.rig.stations import GatewayAway
from bench.run.attempts import BROKEN_MAX, ONLY, Play, Turn, perform
from bench.verdict.case import Case, Result, Title, Verdict
from bench.verdict.owner import ScenarioMistake
from lns.capture import Capture
from lns.clock import StoreUnavailable, now_us
from lns.dedup.strategy import Strategy

PROVES_NOTHING = Verdict(Result.INCONCLUSIVE, "bench", ("host stalled 60 ms",))
BROKEN = Verdict(Result.ERROR, "device", ("AT_NO_NETWORK_JOINED",))
LATE = [CommandRefused("no"), GatewayAway("no"), StoreUnavailable("no"), TimeoutError("no")]


def test_what_proves_nothing_is_played_as_often_as_is_allowed() -> None:
    assert Turn(1, 3).follows(PROVES_NOTHING, None)
    assert not Turn(3, 3).follows(PROVES_NOTHING, None)
    assert not Turn().follows(Verdict(Result.FAIL, "LNS", ("wrong",)), None)


@pytest.mark.parametrize("cause", LATE)
def test_what_a_late_host_may_have_caused_is_played_again(cause: Exception) -> None:
    assert Turn().follows(BROKEN, cause, stalled=True)
    assert not Turn().follows(BROKEN, cause, stalled=False)
    assert not Turn(BROKEN_MAX).follows(BROKEN, cause, stalled=True)
    assert not ONLY.follows(BROKEN, cause, stalled=True)


@pytest.mark.parametrize("cause", [ScenarioMistake("misspelt"), KeyError("alpa"), ValueError()])
def test_a_late_host_is_no_excuse_for_a_mistake(cause: Exception) -> None:
    assert not Turn().follows(BROKEN, cause, stalled=True)


@pytest.mark.parametrize("result", [Result.ERROR, Result.INCONCLUSIVE])
def test_what_took_too_long_on_a_late_host_is_played_once_more(result: Result) -> None:
    too_long = Verdict(result, "bench", ("not over",))
    assert Turn(1, 4).follows(too_long, CaseTooLong("not over"), stalled=True)
    assert not Turn(2, 4).follows(too_long, CaseTooLong("not over"), stalled=True)
    assert Turn(1, 4, is_played=True).excuses(CaseTooLong("not over"))
    assert not Turn(2, 4, is_played=True).excuses(CaseTooLong("not over"))


def test_what_this_host_broke_is_played_again_however_fast_it_was() -> None:
    assert Turn().follows(BROKEN, OSError(14, "Bad address"))
    assert not Turn(BROKEN_MAX).follows(BROKEN, OSError(14, "Bad address"))


def performed(folder: Path, cause: Exception, *, late_us: int) -> Verdict:
    """The verdict of a case that ends so, on a host that plays the devices and was so late."""

    async def scenario(rig: Rig) -> None:
        await rig.alpha.send()
        if late_us:
            fields = {"source": "bench", "seq": 0, "t_us": now_us(), "late_us": late_us}
            rig.case.witness({"kind": "host.stalled", **fields})
        raise cause

    capture = Capture(folder, "r", now_us, buffered=True)
    title = Title("g/c", "test_c", "test_g.py", "g", "title")
    try:
        rig = simulated_rig(seed=1, case="g/c", strategy=Strategy.NONE)
        case = Case(title, capture, rig="simulated")
        return clock.run(perform(case, rig, Play(title, scenario), Turn(1, 4, is_played=True)))
    finally:
        capture.close()


@pytest.mark.parametrize("cause", LATE)
def test_what_a_late_host_may_have_caused_proves_nothing(cause: Exception, tmp_path: Path) -> None:
    late = performed(tmp_path, cause, late_us=800_000)
    assert (late.result, late.owner) == (Result.INCONCLUSIVE, "bench")
    assert late.reasons[0].startswith(f"host stalled 800 ms; then: {type(cause).__name__}: no")


@pytest.mark.parametrize(
    ("cause", "late_us"), [(LATE[0], 0), (ScenarioMistake("misspelt"), 800_000)]
)
def test_an_error_stays_one_without_a_late_host_and_a_mistake_with_one(
    cause: Exception, late_us: int, tmp_path: Path
) -> None:
    assert performed(tmp_path, cause, late_us=late_us).result is Result.ERROR
