"""A station that comes back: what it queued, in which session it is, how much it may tell."""

import asyncio

import pytest

from bench.station.tap import link_pair
from lns.connections import COMPLAINTS_MAX
from tests.lns.served_network import WEST, Network, serve, uplink, wait
from tests.station_texts import xtime_report_text

GOOD = ("west", "NonDuplicate", "forwarded", "-", "RX1")
LATE = ("west", "NonDuplicate", "forwarded", "-", "TooLate")


async def connect_in_silence(network: Network) -> None:
    """A new link of the west station, which says nothing on it by itself."""
    near, far = link_pair()
    network.west.link = near
    network.tasks.create_task(network.server.serve(WEST, far))
    await asyncio.sleep(0.001)


def test_what_comes_before_the_report_of_the_new_session_is_not_answered() -> None:
    async def scenario(network: Network) -> None:
        west = network.west
        west.link.close()
        await connect_in_silence(network)
        await west.hears(uplink(10, confirmed=True))
        await west.says('{"msgtype":"version","station":"2.0.6"}')
        await west.hears(uplink(11, confirmed=True))
        await wait(2)
        await west.hears(uplink(12, confirmed=True))
        west.session += 1
        await west.says(xtime_report_text(west.xtime_now(), mux_time=0.0, uptime_us=0))
        await west.hears(uplink(13, confirmed=True))

    assert serve(scenario).words == [LATE, LATE, LATE, GOOD]


def test_a_station_that_does_not_introduce_itself_goes_on_in_its_session() -> None:
    async def scenario(network: Network) -> None:
        network.west.link.close()
        await connect_in_silence(network)
        await network.west.hears(uplink(10, confirmed=True))
        await wait(1)
        await network.west.hears(uplink(11, confirmed=True))

    assert serve(scenario).words == [LATE, GOOD]


def test_a_frame_that_waited_for_the_link_is_as_old_as_it_is() -> None:
    async def scenario(network: Network) -> None:
        west = network.west
        west.link.close()
        heard = west.text(uplink(11, confirmed=True))
        await wait(0.8)
        await connect_in_silence(network)
        await wait(1.2)
        await west.says(heard)

    assert serve(scenario).words == [LATE]


def test_a_replaced_connection_teaches_nothing_about_the_new_one() -> None:
    """Two stations with one EUI: the session that only the older link tells of never runs."""

    async def scenario(network: Network) -> None:
        west = network.west
        west.link.close()
        await connect_in_silence(network)
        old, session = west.link, west.session
        await network.connect(west, network.tasks)
        west.session = session + 2
        behind = west.text(uplink(10, confirmed=True))
        west.session = session
        await old.send(behind)
        await old.send(xtime_report_text(session + 2 << 48, mux_time=0.0, uptime_us=0))
        await wait(0.001)
        old.close()
        await west.hears(uplink(11, confirmed=True))

    assert serve(scenario).words == [LATE, GOOD]


def test_a_station_waits_when_too_much_of_it_is_under_way() -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [1_000_000] * 300
        for f_cnt in range(1, 259):
            await network.west.link.send(network.west.text(uplink(f_cnt)))
        await wait(0.5)
        assert (network.outcomes, len(network.application.delays_us)) == ([], 300 - 256)
        network.application.delays_us = []
        await network.east.hears(uplink(1000))
        assert [outcome.station for outcome in network.outcomes] != [WEST]
        await wait(1)

    assert len(serve(scenario).outcomes) == 256 + 3


def test_not_every_mistake_of_a_station_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(network: Network) -> None:
        for _ in range(3 * COMPLAINTS_MAX):
            await network.west.says("{")
        await asyncio.sleep(0)

    assert len(serve(scenario).outcomes) == 3 * COMPLAINTS_MAX
    assert len(caplog.messages) == COMPLAINTS_MAX
