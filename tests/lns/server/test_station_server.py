"""The listener with stations as they are: discovery, data connection, reconnects."""

import asyncio
import json
from pathlib import Path

import pytest

from lns.lorawan.identifiers import Eui
from lns.server.access import Access
from lns.server.web_socket import Limits
from tests.host_time import Watch
from tests.lns.served_network import EAST, WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket, UpgradeRefused
from tests.lns.server.listening import Listening, play

RECORDED = json.loads(
    (Path(__file__).resolve().parents[2] / "vectors" / "station" / "recorded.json").read_text()
)
GOOD = ("NonDuplicate", "forwarded", "-", "RX1")
LATE = ("NonDuplicate", "forwarded", "-", "TooLate")


def test_discovery_is_answered_with_port_and_path() -> None:
    async def scenario(served: Listening) -> None:
        station = BasicsStation(WEST, served.uri)
        assert await station.discover() == {
            "router": "16:c001:f150:1",
            "muxs": "muxs-::0",
            "uri": f"ws://127.0.0.1:{served.port}/router/0016C001F1500001",
        }

    assert play(scenario).events == []


def test_discovery_hands_out_the_public_uri() -> None:
    async def scenario(served: Listening) -> None:
        answer = await BasicsStation(WEST, served.uri).discover()
        assert answer["uri"] == "wss://lns.example:443/site/router/0016C001F1500001"

    play(scenario, public_uri="wss://lns.example:443/site")


@pytest.mark.parametrize(
    "question",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"router":null}',
        '{"router":"nobody"}',
        '{"router":-1}',
        '{"msgtype":"version"}',
        "[" * 30_000,
        '{"router":"\\ud800"}',
    ],
)
def test_a_question_that_cannot_be_read_is_answered_too(question: str) -> None:
    async def scenario(served: Listening) -> None:
        socket = await StationSocket.open(f"{served.uri}/router-info")
        socket.send_text(question)
        answer = json.loads(await socket.receive_text())
        assert list(answer) == ["error"]
        await socket.close()

    (refused,) = play(scenario).connections("refused")
    assert refused.station is None


def test_a_binary_question_is_answered_too() -> None:
    async def scenario(served: Listening) -> None:
        socket = await StationSocket.open(f"{served.uri}/router-info")
        socket.send_frame(2, b'{"router":"::1"}')
        assert list(json.loads(await socket.receive_text())) == ["error"]
        await socket.close()

    play(scenario)


def test_a_station_that_is_not_in_the_list_is_told_so_twice() -> None:
    async def scenario(served: Listening) -> None:
        station = BasicsStation(EAST, served.uri)
        assert await station.discover() == {
            "router": "16:c001:f150:2",
            "error": "not in the list of stations",
        }
        with pytest.raises(UpgradeRefused) as refused:
            await StationSocket.open(f"{served.uri}/router/{EAST}")
        assert (refused.value.status, refused.value.body) == (403, "not in the list of stations\n")
        await BasicsStation(WEST, served.uri).connect()

    served = play(scenario, access=Access(stations=frozenset({WEST})))
    told = [(event.station, event.cause) for event in served.connections("refused")]
    assert told == [(EAST, "not in the list of stations")] * 2


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "only /router-info is here"),
        ("router-info/", "only /router-info is here"),
        ("favicon.ico", "only /router-info is here"),
        ("router", "only /router-info is here"),
        ("router/", "the path does not end with a station EUI"),
        ("router/0016C001F15", "the path does not end with a station EUI"),
        ("router/0016C001F1500001/x", "the path does not end with a station EUI"),
        ("router/%ff%00", "the path does not end with a station EUI"),
    ],
)
def test_another_path_is_not_found(path: str, why: str) -> None:
    async def scenario(served: Listening) -> None:
        with pytest.raises(UpgradeRefused) as refused:
            await StationSocket.open(f"{served.uri}/{path}")
        assert (refused.value.status, refused.value.body) == (404, f"{why}\n")

    assert [event.cause for event in play(scenario).connections("refused")] == [why]


@pytest.mark.parametrize(
    "spelling",
    [
        "0016C001F1500001",
        "0016c001f1500001",
        "00-16-C0-01-F1-50-00-01",
        "00:16:c0:01:f1:50:00:01",
        "16:c001:f150:1",
        "16%3Ac001%3Af150%3A1",
        "16:c001:f150:1?session=7",
    ],
)
def test_every_spelling_of_an_eui_leads_to_the_same_station(spelling: str) -> None:
    async def scenario(served: Listening) -> None:
        await (await StationSocket.open(f"{served.uri}/router/{spelling}")).close()

    assert [event.station for event in play(scenario).connections("connected")] == [WEST]


def test_neither_compression_nor_a_subprotocol_is_agreed_to() -> None:
    async def scenario(served: Listening) -> None:
        headers = "Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Protocol: a\r\n"
        socket = await StationSocket.open(f"{served.uri}/router/{WEST}", headers=headers)
        assert "extensions" not in socket.response.lower()
        assert "sec-websocket-protocol" not in socket.response.lower()
        socket.send_text('{"msgtype":"version","station":"2.0.6"}')
        assert json.loads(await socket.receive_text())["msgtype"] == "router_config"
        await socket.close()

    play(scenario)


def test_a_confirmed_uplink_is_answered_in_rx1() -> None:
    async def scenario(served: Listening) -> None:
        station = BasicsStation(WEST, served.uri)
        await station.connect()
        await station.until_configured()
        station.hear(uplink(10, confirmed=True))
        dnmsg = await station.next_dnmsg()
        assert (dnmsg.rx1_dr, dnmsg.rx1_freq_hz) == (5, 868_100_000)

    served = play(scenario)
    assert served.words == [GOOD]
    assert [message.f_cnt for _, message in served.upstream.numbered] == [10]


@pytest.mark.parametrize("station", ["16:c001:f150:1", "b827:ebff:fe12:3456"])
def test_what_a_real_station_said_is_understood(station: str) -> None:
    said = [
        json.dumps(message["msg"], separators=(",", ":"))
        for message in RECORDED["messages"]
        if (message["station"], message["dir"]) == (station, "up")
    ]
    receptions = [text for text in said if '"updf"' in text or '"jreq"' in text]

    async def scenario(served: Listening) -> None:
        socket = await StationSocket.open(f"{served.uri}/router/{station}")
        for text in said:
            socket.send_text(text)
        await served.until(lambda: len(served.outcomes) == len(receptions))
        await socket.close()

    served = play(scenario)
    assert len(receptions) == 34
    assert [event.texts for event in served.connections("disconnected")] == [len(said)]
    # Nobody of them is provisioned here.
    assert {outcome.reason for outcome in served.outcomes} == {"UnknownDevice"}


def test_a_reconnect_ends_the_old_link_at_once_and_not_the_new_one() -> None:
    async def scenario(served: Listening) -> None:
        old, new = BasicsStation(WEST, served.uri), BasicsStation(WEST, served.uri)
        await old.connect()
        await old.until_configured()
        await new.connect()
        await new.until_configured()
        watch = Watch()
        await old.run()
        assert watch.seconds < 1
        await served.until(lambda: served.causes)
        new.hear(uplink(10, confirmed=True))
        await new.next_dnmsg()
        assert len(served.causes) == 1
        await BasicsStation(WEST, served.uri).connect()
        await served.until(lambda: len(served.causes) == 2)

    served = play(scenario)
    assert served.words == [GOOD]
    assert served.causes[:2] == ["replaced by a newer connection"] * 2


def test_what_was_queued_is_never_answered_after_a_reconnect() -> None:
    async def scenario(served: Listening) -> None:
        station = BasicsStation(WEST, served.uri)
        await station.connect()
        await station.until_configured()
        station.hear(uplink(10, confirmed=True))
        await station.next_dnmsg()
        assert station.socket is not None
        station.socket.reset()
        station.socket = None
        station.hear(uplink(11, confirmed=True))
        await station.connect()
        station.hear(uplink(12, confirmed=True))  # before it has read its configuration
        await station.until_configured()
        station.hear(uplink(13, confirmed=True))
        await station.next_dnmsg()
        assert station.obsolete == []
        assert len(station.dnmsgs) == 2

    assert play(scenario).words == [GOOD, LATE, LATE, GOOD]


def test_a_server_that_never_saw_the_station_does_not_believe_its_queue_either() -> None:
    async def scenario(served: Listening) -> None:
        station = BasicsStation(WEST, served.uri)
        station.session = 99
        station.hear(uplink(10, confirmed=True))
        await station.connect()
        await station.until_configured()
        station.hear(uplink(11, confirmed=True))
        await station.next_dnmsg()
        assert station.obsolete == []

    assert play(scenario).words == [LATE, GOOD]


def test_many_stations_are_served_side_by_side() -> None:
    euis = [Eui(f"0016C001F15001{number:02X}") for number in range(20)]

    async def scenario(served: Listening) -> None:
        stations = [BasicsStation(eui, served.uri) for eui in euis]
        for station in stations:
            await station.connect()
            await station.until_configured()
        frame = uplink(10)
        for station in stations:
            station.hear(frame)
        await served.until(lambda: len(served.outcomes) == len(stations))

    served = play(scenario)
    assert sorted(outcome.station for outcome in served.outcomes) == euis
    assert [outcome.status for outcome in served.outcomes].count("NonDuplicate") == 1


def test_more_stations_than_there_is_room_for_are_refused() -> None:
    async def scenario(served: Listening) -> None:
        await StationSocket.open(f"{served.uri}/router/{WEST}")
        with pytest.raises(UpgradeRefused) as refused:
            await StationSocket.open(f"{served.uri}/router/{EAST}")
        assert refused.value.status == 503
        await StationSocket.open(f"{served.uri}/router/{WEST}")

    play(scenario, limits=Limits(stations_max=1))


def test_a_live_station_is_pinged_and_stays_and_a_dead_one_is_dropped() -> None:
    async def scenario(served: Listening) -> None:
        alive, dead = BasicsStation(WEST, served.uri), BasicsStation(EAST, served.uri)
        for station in (alive, dead):
            await station.connect()
            await station.until_configured()
        living = asyncio.create_task(alive.run())
        await served.until(lambda: served.causes)  # the dead one reads nothing any more
        assert alive.socket is not None
        assert alive.socket.pongs > 1
        alive.hear(uplink(10))
        await served.until(lambda: served.outcomes)
        alive.socket.reset()
        await living

    limits = Limits(ping_interval_us=50_000, ping_timeout_us=1_000_000, closing_us=100_000)
    served = play(scenario, limits=limits)
    (ended, *_) = served.connections("disconnected")
    assert ended.station == EAST
    assert "keepalive ping timeout" in (ended.cause or "")


def test_stations_are_told_that_the_server_goes_away() -> None:
    async def scenario(served: Listening) -> None:
        station = BasicsStation(WEST, served.uri)
        await station.connect()
        await station.until_configured()
        running = asyncio.create_task(station.run())
        await asyncio.sleep(0)
        await served.server.stop()
        await running

    assert "1001" in (play(scenario).causes[0] or "")
