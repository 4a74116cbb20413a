"""How do cases share one real station? A station in the test, taps that are the test's own."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from bench.clock import run
from bench.station import LinkClosed, TextLink
from bench.station.switchboard import Party, Switchboard
from bench.station.tap import MemoryLink, link_pair
from lns.lorawan.identifiers import Eui, eui

STATION = eui("0016C001F1500001")
CONFIG = {"msgtype": "router_config", "region": "EU868", "MuxTime": 1.0}
VERSION = '{"msgtype":"version","station":"2.0.6","protocol":2}'


def updf(dev_addr: int, xtime: int = 1_000) -> str:
    return json.dumps({"msgtype": "updf", "DevAddr": dev_addr, "upinfo": {"xtime": xtime}})


class Server:
    """The tap and the server of one case: what the station says to it, and a way to answer."""

    def __init__(self, dev_addr: int) -> None:
        self.heard: list[dict[str, Any]] = []
        self.links: list[TextLink] = []
        self.party = Party(self.accept, lambda text: f'"DevAddr": {dev_addr},' in text)

    async def accept(self, link: TextLink) -> None:
        self.links.append(link)
        try:
            while True:
                self.heard.append(json.loads(await link.receive()))
        except LinkClosed:
            return

    async def say(self, **fields: object) -> None:
        await self.links[-1].send(json.dumps(fields))

    def kinds(self) -> list[str]:
        return [text["msgtype"] for text in self.heard]


class Bench:
    """A switchboard, the far end of the station's link, and what nobody claimed."""

    def __init__(self) -> None:
        self.foreign: list[tuple[Eui, str]] = []
        self.board = Switchboard(STATION, CONFIG, lambda *heard: self.foreign.append(heard))
        self.tasks: asyncio.TaskGroup
        self.station: MemoryLink

    async def connect(self) -> None:
        self.station, end = link_pair()
        self.tasks.create_task(self.board.accept(end))
        await self.station.send(VERSION)
        await settle()

    async def told(self) -> dict[str, Any]:
        """The next text at the station, but for questions after its clock."""
        while True:
            text: dict[str, Any] = json.loads(await self.station.receive())
            if text["msgtype"] != "getxtime":
                return text

    async def said(self, text: str) -> None:
        await self.station.send(text)
        await settle()


async def settle() -> None:
    await asyncio.sleep(0.01)


def on_bench(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        bench = Bench()
        async with asyncio.TaskGroup() as bench.tasks:
            await bench.connect()
            await test(bench)
            bench.station.close()

    run(main())


def test_a_station_is_configured_once_for_all_and_each_case_believes_it_is_its_own() -> None:
    async def test(bench: Bench) -> None:
        first, second = Server(1), Server(2)
        assert (await bench.told())["msgtype"] == "router_config"
        for server in (first, second):
            bench.board.join(server.party)
            await settle()
            await server.say(**{**CONFIG, "MuxTime": 2.0})
        await first.say(msgtype="dnmsg", diid=7)
        assert (await bench.told())["msgtype"] == "dnmsg"  # and no second configuration before it
        assert first.kinds() == second.kinds() == ["version"]
        for server in (first, second):
            bench.board.leave(server.party)

    on_bench(test)


def test_a_reception_goes_to_its_case_and_to_no_other() -> None:
    async def test(bench: Bench) -> None:
        first, second = Server(1), Server(2)
        for server in (first, second):
            bench.board.join(server.party)
        await settle()
        await bench.said(updf(2))
        await bench.said(updf(3))
        assert (first.kinds(), second.kinds()) == (["version"], ["version", "updf"])
        assert bench.foreign == [(STATION, updf(3))]
        for server in (first, second):
            bench.board.leave(server.party)

    on_bench(test)


def test_equal_numbers_of_two_cases_do_not_mix_up_their_reports() -> None:
    async def test(bench: Bench) -> None:
        first, second = Server(1), Server(2)
        await bench.told()
        for server in (first, second):
            bench.board.join(server.party)
        await settle()
        for server in (first, second):
            await server.say(msgtype="dnmsg", diid=7)
        numbers = [(await bench.told())["diid"] for _ in range(2)]
        assert len(set(numbers)) == 2
        await bench.said(json.dumps({"msgtype": "dntxed", "diid": numbers[1], "seqno": numbers[1]}))
        assert first.kinds() == ["version"]
        assert second.heard[-1] == {"msgtype": "dntxed", "diid": 7, "seqno": 7}
        for server in (first, second):
            bench.board.leave(server.party)

    on_bench(test)


def test_the_clock_is_told_to_who_asked() -> None:
    async def test(bench: Bench) -> None:
        first, second = Server(1), Server(2)
        for server in (first, second):
            bench.board.join(server.party)
        await settle()
        await second.say(msgtype="getxtime")
        await settle()
        await bench.said('{"msgtype":"getxtime","xtimes":[5,0,0,0]}')
        assert (first.kinds(), second.kinds()) == (["version"], ["version", "getxtime"])
        assert bench.board.is_up
        for server in (first, second):
            bench.board.leave(server.party)

    on_bench(test)


def test_a_server_that_comes_back_is_put_through_again() -> None:
    async def test(bench: Bench) -> None:
        server = Server(1)
        bench.board.join(server.party)
        await settle()
        server.links[-1].close()
        await asyncio.sleep(1)
        await bench.said(updf(1))
        assert server.kinds() == ["version", "version", "updf"]
        bench.board.leave(server.party)

    on_bench(test)


def test_another_channel_plan_is_a_trouble_of_that_case_and_never_reaches_the_station() -> None:
    async def test(bench: Bench) -> None:
        server = Server(1)
        await bench.told()
        bench.board.join(server.party)
        await settle()
        await server.say(**{**CONFIG, "region": "US915"})
        await server.say(msgtype="dnmsg", diid=1)
        assert (await bench.told())["msgtype"] == "dnmsg"
        assert "channel plan" in server.party.trouble
        bench.board.leave(server.party)

    on_bench(test)


def test_a_station_that_connects_anew_gives_up_its_earlier_connection() -> None:
    """As after a cable was pulled: the end of the old connection is noticed late, or never."""

    async def test(bench: Bench) -> None:
        server = Server(1)
        bench.board.join(server.party)
        await settle()
        old = bench.station
        await bench.connect()
        await ended(old.receive)
        await bench.said(updf(1))
        assert server.kinds() == ["version", "version", "updf"]
        assert bench.board.connected
        bench.board.leave(server.party)

    on_bench(test)


def test_a_case_alone_has_the_bare_connection() -> None:
    """The station connects anew for it, is configured by its server, and again afterwards."""

    async def test(bench: Bench) -> None:
        server = Server(1)
        await bench.told()
        bench.board.join(server.party, alone=True)
        await ended(bench.station.receive)
        await bench.connect()
        await bench.said(updf(3))
        assert server.kinds() == ["version", "updf"]  # also what is another's
        await server.say(**{**CONFIG, "region": "US915"})
        assert (await bench.told())["region"] == "US915"
        bench.board.leave(server.party)
        await ended(bench.told)
        await bench.connect()
        assert (await bench.told())["region"] == "EU868"

    on_bench(test)


def test_a_case_alone_can_keep_the_station_out() -> None:
    async def test(bench: Bench) -> None:
        server = Server(1)
        bench.board.join(server.party, alone=True)
        bench.board.shut()
        await bench.connect()
        await ended(bench.told)
        assert server.kinds() == []
        bench.board.open()
        await bench.connect()
        assert server.kinds() == ["version"]
        bench.board.leave(server.party)
        await bench.connect()
        assert bench.board.connected

    on_bench(test)


def test_noise_of_a_station_harms_nobody() -> None:
    async def test(bench: Bench) -> None:
        server = Server(1)
        bench.board.join(server.party)
        await settle()
        for text in ("", "no json", "[]", '{"msgtype":"dntxed","diid":99}', '{"msgtype":5}'):
            await bench.said(text)
        await bench.said(updf(1))
        assert server.kinds()[-1] == "updf"
        bench.board.leave(server.party)

    on_bench(test)


async def ended(receive: Callable[[], Awaitable[object]]) -> None:
    try:
        while True:
            await receive()
    except LinkClosed:
        return
