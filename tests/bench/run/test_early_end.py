"""Who is to blame when a case ends early while the broker is away?"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bench import clock
from bench.clock import seconds
from bench.device.interfaces import DeviceSilent
from bench.rig.rig import Rig
from bench.rig.simulated_rig import simulated_rig
from bench.rig.stations import GatewayAway
from bench.run.attempts import Play, perform
from bench.verdict.case import Case, StimulusMissed, Title, Verdict
from bench.verdict.owner import ScenarioMistake
from lns.capture import Capture
from lns.clock import now_us
from tests.bench.rig.played import Scenario

Breaks = Callable[[Rig], Awaitable[None]]


async def cut(rig: Rig) -> None:
    rig.cut_upstream()


BREAKS: dict[str, Breaks] = {
    "stopped": lambda rig: rig.stop_broker(),
    "cut off": cut,
    "messages held": lambda rig: rig.hold_messages(),
    "acknowledgements lost": lambda rig: rig.lose_pubacks(),
    "stopped, and its server": lambda rig: stopped_with_server(rig),
}
ENDS: dict[str, tuple[Exception, str]] = {
    "a silent device": (DeviceSilent("alpha: no reply"), "ERROR device"),
    "a lost gateway": (GatewayAway("not connected: west"), "ERROR gateway"),
    "a mistake": (ScenarioMistake("no station 'wset'"), "ERROR bench"),
    "a timeout": (TimeoutError("not published"), "ERROR bench"),
    "a stimulus": (StimulusMissed("air", "nobody heard it"), "INCONCLUSIVE air"),
}


async def stopped_with_server(rig: Rig) -> None:
    await rig.stop_broker()
    await rig.alpha.send(confirmed=True)
    await rig.kill_lns()


def play(folder: Path, scenario: Scenario) -> Verdict:
    capture = Capture(folder, "r", now_us, buffered=True)
    case = Case(Title("g/c", "test_c", "test_g.py", "g", "title"), capture, rig="simulated")
    rig = simulated_rig(wants_broker=True, seed=1, case="g/c")
    play = Play(case.title, scenario, faults=frozenset({"broker"}))
    try:
        return clock.run(perform(case, rig, play))
    finally:
        capture.close()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("away", BREAKS)
def test_no_server_is_blamed_for_what_a_broker_that_is_away_has_not(
    tmp_path: Path, away: str, end: str
) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.alpha.send()
        await BREAKS[away](rig)
        if "server" not in away:
            await rig.alpha.send(confirmed=True)
        await rig.wait(seconds(7))
        raise ENDS[end][0]

    verdict = play(tmp_path, scenario)
    assert f"{verdict.result} {verdict.owner}" == ENDS[end][1], verdict


def test_what_a_server_has_lost_is_missed_all_the_same(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.stop_broker()
        await rig.alpha.send(confirmed=True)
        await rig.kill_lns()
        rig.setup.server("lns-a").lose_outbox()
        raise DeviceSilent("alpha: no reply")

    verdict = play(tmp_path, scenario)
    assert (verdict.result, verdict.owner) == ("FAIL", "LNS"), verdict
    assert "forwarded means published" in verdict.reasons[0]
