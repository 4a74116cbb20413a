"""Many stations on one port, each handed to its own tap."""

import asyncio

import pytest
from websockets.asyncio import client

from bench.station import LinkClosed, TextLink
from bench.station.tap import Tap, link_pair
from bench.station.web_socket import TapServer, WebSocketLink, connect, discover
from lns.lorawan.identifiers import Eui
from tests.links import StationLinks
from tests.looped import on_a_loop

STATIONS = [Eui(f"0016C001F15000{number:02X}") for number in range(20)]
WEST = STATIONS[0]
PATIENCE_S = 60


async def echo(link: WebSocketLink) -> None:
    while True:
        await link.send(await link.receive())


def test_each_station_reaches_its_own_tap() -> None:
    async def main() -> None:
        server, links = TapServer(), StationLinks()
        await server.start()

        async def visit(station: Eui) -> str:
            link = await links.connect(server.uri, station)
            return await link.receive()

        async def told(link: WebSocketLink, station: Eui) -> None:
            await link.send(station)
            await link.wait_closed()

        for station in STATIONS:
            server.register(station, lambda link, who=station: told(link, who))
        async with asyncio.timeout(PATIENCE_S):
            assert await asyncio.gather(*map(visit, STATIONS)) == STATIONS
        await links.close()
        await server.stop()

    asyncio.run(main())


@on_a_loop
async def test_a_station_may_connect_again_and_again_until_it_is_unregistered() -> None:
    server = TapServer()
    await server.start()
    server.register(WEST, echo)
    uri = await discover(server.uri, WEST)
    assert uri == f"{server.uri}/router-{WEST}"
    for _ in range(2):
        link = await connect(uri)
        await link.send("a")
        assert await link.receive() == "a"
        link.close()
        await link.wait_closed()
    server.unregister(WEST)
    server.unregister(WEST)
    with pytest.raises(LinkClosed, match="404"):
        await connect(uri)
    with pytest.raises(LinkClosed, match="no tap of this bench has this EUI"):
        await discover(server.uri, WEST)
    await server.stop()


@pytest.mark.parametrize("path", ["/", "/router-", "/router-nonsense", "/router-info/x"])
@on_a_loop
async def test_other_paths_are_refused(path: str) -> None:
    server = TapServer()
    await server.start()
    with pytest.raises(LinkClosed, match="404"):
        await connect(server.uri + path)
    await server.stop()


@pytest.mark.parametrize("question", ["{}", "nonsense", '{"router": "x"}'])
@on_a_loop
async def test_a_question_that_cannot_be_read_is_answered_too(question: str) -> None:
    server = TapServer()
    await server.start()
    link = await connect(f"{server.uri}/router-info")
    await link.send(question)
    assert '"error"' in await link.receive()
    link.close()
    await server.stop()
    await link.wait_closed()


@on_a_loop
async def test_the_end_of_an_accept_is_the_end_of_the_link() -> None:
    server, links = TapServer(), StationLinks()
    await server.start()

    async def once(link: WebSocketLink) -> None:
        await link.receive()

    server.register(WEST, once)
    link = await links.connect(server.uri, WEST)
    await link.send("a")
    with pytest.raises(LinkClosed):
        await link.receive()
    await links.close()
    await server.stop()


@on_a_loop
async def test_stop_closes_what_is_open_and_tells_what_went_wrong() -> None:
    server, links = TapServer(), StationLinks()
    await server.start()

    async def broken(link: WebSocketLink) -> None:
        raise RuntimeError("a mistake in the bench")

    server.register(WEST, broken)
    server.register(STATIONS[1], echo)
    doomed = await links.connect(server.uri, WEST)
    with pytest.raises(LinkClosed):
        await doomed.receive()
    link = await links.connect(server.uri, STATIONS[1])
    with pytest.raises(RuntimeError, match="a mistake in the bench"):
        await server.stop()
    with pytest.raises(LinkClosed, match="1001"):
        await link.receive()
    await links.close()


def test_what_is_no_text_is_counted_and_shown_and_goes_no_further() -> None:
    """The 1st, 2nd and 4th of five binary messages; the text behind them passes."""

    async def main() -> None:
        events: list[tuple[str, str, dict[str, object]]] = []
        lns_end, tap_end = link_pair()
        server = TapServer()

        async def to_lns() -> TextLink:
            return tap_end

        tap = Tap(WEST, to_lns, lambda *event: events.append(event))
        await server.start()
        server.register(WEST, tap.accept)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(tap.run())
            async with client.connect(await discover(server.uri, WEST)) as station:
                for number in range(5):
                    await station.send(bytes([number]) * 20)
                await station.send("a text")
                assert await lns_end.receive() == "a text"
            running.cancel()
        await server.stop()
        shown = [(fields["n"], fields["begins"]) for _, kind, fields in events if "binary" in kind]
        assert shown == [(1, "00" * 16), (2, "01" * 16), (4, "03" * 16)]
        assert [fields["text"] for _, kind, fields in events if kind == "station.text"] == [
            "a text"
        ]
        assert events[0] == (
            f"tap-{WEST}",
            "station.binary",
            {"station": WEST, "direction": "up", "n": 1, "bytes_count": 20, "begins": "00" * 16,
             "dropped": True},
        )  # fmt: skip

    asyncio.run(main())
