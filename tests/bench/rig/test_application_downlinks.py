"""What an application sends reaches a virtual device once, whoever heard the uplink before."""

from pathlib import Path

import pytest

from bench.clock import milliseconds
from bench.rig.rig import Rig
from lns.dedup.strategy import Strategy
from tests.bench.rig.played import Played, play
from tests.lns.served_network import EAST, WEST


def stages(run: Played, kind: str) -> list[str]:
    return [str(event["stage"]) for event in run.of(kind)]


@pytest.mark.parametrize("strategy", Strategy)
def test_a_pending_downlink_goes_once_through_the_first_of_two_stations(
    tmp_path: Path, strategy: Strategy
) -> None:
    """Catalogue H05."""

    async def scenario(rig: Rig) -> None:
        rig.east.delay_uplinks(milliseconds(50))
        await rig.alpha.send(confirmed=False)
        await rig.queue_downlink(rig.alpha, payload=b"\x01\x02", port=7)
        await rig.alpha.send(confirmed=False)
        await rig.alpha.send(confirmed=False)

    run = play(tmp_path, scenario, strategy=strategy)
    downlinks = run.of("lns.downlink")
    assert [(event["stage"], event["station"]) for event in downlinks] == [
        ("scheduled", WEST),
        ("transmitted", WEST),
    ]
    assert stages(run, "lns.request") == ["queued", "done"]
    answers = {(event["station"], event["answer"]) for event in run.of("lns.outcome")}
    assert answers == {(WEST, "RX1"), (WEST, "NotAsked"), (EAST, "NotAsked")}
    heard = [str(event["text"]) for event in run.of("device.line") if "RX_1" in str(event["text"])]
    assert len(heard) == 1
    assert "0102" in heard[0]
    # Nothing that holds for every case is broken.
    assert run.verdict.reasons == ("the scenario expects nothing",)


def test_a_confirmed_downlink_is_done_when_the_device_acknowledges_it(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.alpha.send(confirmed=False)
        await rig.queue_downlink(rig.alpha, payload=b"\x03", port=9, confirmed=True)
        await rig.alpha.send(confirmed=True)
        await rig.alpha.send(confirmed=False)

    run = play(tmp_path, scenario)
    assert stages(run, "lns.request") == ["queued", "done"]
    assert [event["confirmed"] for event in run.of("lns.downlink", stage="scheduled")] == [True]
