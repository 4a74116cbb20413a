"""Wrong types in every field of every message, and a thousand connects: all counted, no harm.

The messages are those that real stations sent; each field of each is spoilt in each way.
"""

import asyncio
import json
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lns.clock import now_us
from lns.connections import COMPLAINTS_MAX
from lns.events import UnreadableMessage
from lns.station.messages import Malformed, parse_up
from tests.lns.served_network import EAST, WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.lns.server.listening import Listening, play
from tests.lns.server.test_hostile_peers import beside_a_station, connected, ended

RECORDED = json.loads(
    (Path(__file__).resolve().parents[2] / "vectors" / "station" / "recorded.json").read_text()
)
GETXTIME = {
    "msgtype": "getxtime", "MuxTime": 1.5, "ustime": 2.5, "UTCtime": 3.5, "xtimes": [1, 0, 0, 0],
}  # fmt: skip
WRONG: list[Any] = [
    None, True, -1, 1 << 70, -(1 << 70), 1.5, 1e300, "", "x", "\ud800", "0" * 300, [], {}, [[]],
    [None] * 20, {"xtime": []},
]  # fmt: skip


def examples() -> dict[str, dict[str, Any]]:
    """One message of a station for each type that was ever recorded."""
    up = [message["msg"] for message in RECORDED["messages"] if message["dir"] == "up"]
    named = {message["msgtype"]: message for message in up if "msgtype" in message}
    return {**named, "getxtime": GETXTIME}


def spoilt(message: dict[str, Any]) -> Iterator[str]:
    """The message without each of its fields, and with each wrong value in it."""
    for path in paths(message):
        for value in [..., *WRONG]:
            broken = deepcopy(message)
            place: Any = broken
            for key in path[:-1]:
                place = place[key]
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield json.dumps(broken)


def paths(value: Any, *before: Any) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, field in inner:
        yield (*before, key)
        if isinstance(field, dict | list):
            yield from paths(field, *before, key)


def test_there_is_an_example_of_every_type() -> None:
    known = {"version", "updf", "jreq", "propdf", "dntxed", "timesync", "getxtime"}
    assert set(examples()) == known


@pytest.mark.parametrize("msgtype", sorted(examples()))
def test_wrong_types_in_every_field_are_counted_and_harm_nobody(
    msgtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    texts = list(spoilt(examples()[msgtype]))
    broken = [isinstance(parse_up(text), Malformed) for text in texts]
    least = len(texts) // (8 if msgtype == "version" else 4)  # of which the name alone is read
    assert sum(broken) > least

    def counted(served: Listening) -> int:
        unread = [event for event in served.events if isinstance(event, UnreadableMessage)]
        malformed = [outcome for outcome in served.outcomes if outcome.reason == "Malformed"]
        return len(unread) + len(malformed)

    async def hostile(served: Listening) -> None:
        link = await connected(served)
        for text in texts:
            link.send_text(text)
            await asyncio.sleep(0)
        link.send_text('{"msgtype":"timesync","txtime":77}')
        # The same connection still listens and answers.
        while '"txtime":77' not in await link.receive_text():
            pass
        await served.until(lambda: counted(served) == sum(broken))
        link.reset()

    served = beside_a_station(hostile)
    assert counted(served) == sum(broken)
    complaints = [line for line in caplog.messages if "unreadable message" in line]
    assert 0 < len(complaints) <= COMPLAINTS_MAX
    assert max(map(len, complaints)) < 300


@pytest.mark.parametrize("value", [value for value in WRONG if value != -1])
def test_every_question_for_a_router_is_answered(value: object) -> None:
    async def scenario(served: Listening) -> None:
        socket = await StationSocket.open(f"{served.uri}/router-info")
        socket.send_text(json.dumps({"router": value}))
        assert list(json.loads(await socket.receive_text())) == ["error"]
        await socket.close()

    (refused,) = play(scenario).connections("refused")
    assert len(refused.cause or "") <= 200


async def goes_at_once(served: Listening) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.close()
    await writer.wait_closed()


async def says(served: Listening, data: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(data)
    if not data.endswith(b"\r\n\r\n"):
        writer.write_eof()
    await reader.read()
    writer.close()


async def asks_nonsense(served: Listening) -> None:
    socket = await StationSocket.open(f"{served.uri}/router-info")
    socket.send_text("who am I?")
    assert "error" in await socket.receive_text()
    socket.reset()


async def comes_and_goes(served: Listening) -> None:
    (await connected(served)).reset()


VISITS = (
    goes_at_once,
    lambda served: says(served, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),  # TLS
    lambda served: says(served, b"GET /router-info HTTP/1.1\r\nHost: a"),
    lambda served: says(served, b"GET /admin.php HTTP/1.1\r\nHost: a\r\n\r\n"),
    asks_nonsense,
    comes_and_goes,
)


def test_a_thousand_connects_a_minute_are_counted_and_delay_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hostile(served: Listening) -> None:
        began_us = now_us()
        for first in range(0, 1002, len(VISITS)):
            await asyncio.gather(*(visit(served) for visit in VISITS))
            if first % 120 == 0:
                await asyncio.sleep(0)
        assert now_us() - began_us < 60_000_000
        turns = 1002 // len(VISITS)
        await served.until(lambda: len(served.connections("refused")) == 5 * turns)
        of_west = [c for c in served.connections("connected") if c.station == WEST]
        assert len(of_west) == turns

    beside_a_station(hostile)
    assert 0 < len([line for line in caplog.messages if "refused" in line]) <= 60


def test_a_station_that_sends_a_byte_at_a_time_delays_nobody() -> None:
    async def hostile(served: Listening) -> None:
        link = await connected(served)
        for byte in b"\x81\xfe\x01\x00" + b"\1\1\1\1" + b"z" * 60:
            link.writer.write(bytes([byte]))
            await asyncio.sleep(0.005)
        link.reset()

    beside_a_station(hostile)


def has_ended(served: Listening, times: int) -> bool:
    return len(served.connections("disconnected")) == times


def test_a_message_as_long_as_a_station_takes_is_read_and_a_longer_one_ends_its_link() -> None:
    async def hostile(served: Listening) -> None:
        for _ in range(5):
            before = len(served.connections("disconnected"))
            link = await connected(served)
            link.send_text('{"msgtype":"x","y":"' + "z" * 60_000 + '"}')
            link.send_text('{"msgtype":"x","y":"' + "z" * 600_000 + '"}')
            await ended(link)
            link.reset()
            await served.until(partial(has_ended, served, before + 1))

    served = beside_a_station(hostile)
    gone = [c for c in served.connections("disconnected") if c.station == WEST]
    assert [(c.texts, "1009" in (c.cause or "")) for c in gone] == [(1, True)] * 5


def test_a_station_behind_a_hostile_one_of_its_own_name_comes_back() -> None:
    """Whoever may connect as a station replaces it; the station itself replaces him in turn."""

    async def scenario(served: Listening) -> None:
        station = BasicsStation(EAST, served.uri)
        for f_cnt in (10, 11):
            await StationSocket.open(f"{served.uri}/router/{EAST}")
            await station.connect()
            await station.until_configured()
            station.hear(uplink(f_cnt, confirmed=True))
            await station.next_dnmsg()
            station.socket = None

    assert [outcome.answer for outcome in play(scenario).outcomes] == ["RX1", "RX1"]
