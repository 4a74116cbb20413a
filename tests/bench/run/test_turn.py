"""Which attempt at a case is followed by another one?"""

import pytest

from bench.device.interfaces import CommandRefused
from bench.rig.rig import GatewayAway
from bench.run.attempts import BROKEN_MAX, ONLY, Turn
from bench.verdict.expectation import Result, Verdict
from bench.verdict.owner import ScenarioMistake
from lns.outage import StoreUnavailable

PROVES_NOTHING = Verdict(Result.INCONCLUSIVE, "bench", ("host stalled 60 ms",))
BROKEN = Verdict(Result.ERROR, "device", ("AT_NO_NETWORK_JOINED",))
LATE = [CommandRefused("no"), GatewayAway("no"), StoreUnavailable("no")]


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


@pytest.mark.parametrize(
    "cause", [ScenarioMistake("misspelt"), TimeoutError("hangs"), ValueError()]
)
def test_a_late_host_is_no_excuse_for_a_mistake(cause: Exception) -> None:
    assert not Turn().follows(BROKEN, cause, stalled=True)


def test_what_this_host_broke_is_played_again_however_fast_it_was() -> None:
    assert Turn().follows(BROKEN, OSError(14, "Bad address"))
    assert not Turn(BROKEN_MAX).follows(BROKEN, OSError(14, "Bad address"))
