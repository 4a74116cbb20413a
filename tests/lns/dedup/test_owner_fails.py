"""What becomes of a frame that was refused to a server, when its owner cannot deliver it?"""

import asyncio

import pytest

from lns.dedup.strategy import Strategy
from tests.lns.served_network import uplink
from tests.lns.several_servers import Servers, serve_both
from tests.lns.test_several_servers import MISSED, counters, device, words

FRAME = uplink(10, confirmed=True)
PUBLISHING_US = 400_000


async def refused_to_b(servers: Servers, times: int) -> None:
    """Server a claims the frame; `b` hears it while `a` tries in vain to deliver it."""
    servers.a.application.refusals = 1
    servers.a.application.delays_us = [PUBLISHING_US]
    owner, other = servers.a.west, servers.b.east
    await owner.link.send(owner.text(FRAME))
    await asyncio.sleep(PUBLISHING_US / 4 / 1_000_000)
    for _ in range(times):
        await other.link.send(other.text(FRAME))
    await servers.settled(1 + times)


@pytest.mark.parametrize("strategy", Strategy)
def test_what_was_not_answered_is_not_spent(strategy: Strategy) -> None:
    async def scenario(servers: Servers) -> None:
        await refused_to_b(servers, 5)
        await servers.hear((servers.b.east, FRAME))

    servers = serve_both(scenario, device(strategy))
    assert [word[2:] for word in words(servers.a)] == [
        ("UpstreamUnavailable", "Suppressed", "Owner")
    ]
    assert [word[3:] for word in words(servers.b)] == [
        *[("Suppressed", "NotOwner")] * 5,
        ("RX", "Owner"),
    ]
    assert counters(servers.a) == []
    assert counters(servers.b) == [MISSED + 1]


@pytest.mark.parametrize("strategy", Strategy)
def test_nothing_is_acknowledged_that_no_server_has_delivered(strategy: Strategy) -> None:
    async def scenario(servers: Servers) -> None:
        await refused_to_b(servers, 1)
        await servers.hear((servers.b.east, FRAME))

    servers = serve_both(scenario, device(strategy))
    assert servers.a.application.ids == []
    assert len(counters(servers.b)) == 1
    copies = 0 if strategy is Strategy.DROP else 1
    assert len(servers.b.application.ids) == copies + 1
    first = [copy_id for copy_id in servers.b.application.ids if copy_id.count("-") == 2]
    assert len(first) == 1


def test_what_was_given_back_is_answered_no_more_often_than_anything_else() -> None:
    async def scenario(servers: Servers) -> None:
        await refused_to_b(servers, 1)
        for _ in range(5):
            await servers.hear((servers.b.east, FRAME))

    servers = serve_both(scenario, device(Strategy.MARK))
    assert [word[2] for word in words(servers.b)[-2:]] == ["ResubmissionLimit"] * 2
    assert len(counters(servers.b)) == 3


def test_what_was_given_back_twice_is_still_delivered_before_it_is_acknowledged() -> None:
    async def scenario(servers: Servers) -> None:
        await refused_to_b(servers, 1)
        servers.b.application.refusals = 1
        await servers.hear((servers.b.east, FRAME))
        await servers.hear((servers.b.east, FRAME))

    servers = serve_both(scenario, device(Strategy.DROP))
    assert len(servers.b.application.ids) == len(counters(servers.b)) == 1
