"""Whatever somebody sends, nothing falls and no other station waits."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from bench.chance import stream
from lns.clock import now_us
from lns.events import Outcome
from lns.lorawan.identifiers import Eui
from lns.server.web_socket import Limits
from lns.station.protocol import LinkClosed
from tests.host_time import Watch
from tests.lns.served_network import EAST, WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.lns.server.listening import Listening, play

MARGIN_S = 0.5  # of the second until RX1 opens
QUICK = Limits(
    opening_us=1_000_000, question_us=1_000_000, closing_us=100_000, opening_max=20,
    message_bytes_max=65_536,
)  # fmt: skip
SHORTEST_PING, SHORTEST_PONG = b"\x89\x80" + bytes(4), b"\x8a\x00"
PINGS = 20_000
TURN_BYTES_MAX = 4096  # three turns of the server, if the reader was late
MALFORMED = ("-", "dropped", "Malformed", "NotAsked")


def beside_a_station(
    hostile: Callable[[Listening], Awaitable[None]], limits: Limits | None = None
) -> Listening:
    """Play while another station hears confirmed uplinks; each is answered in time.

    In RX1, but for those of which this host let the server wait that long.
    """
    in_time: list[bool] = []

    async def scenario(served: Listening) -> None:
        station = BasicsStation(EAST, served.uri)
        await station.connect()
        await station.until_configured()
        attack = asyncio.ensure_future(hostile(served))
        f_cnt = 10
        while not attack.done() or f_cnt < 13:
            station.hear(uplink(f_cnt, confirmed=True))
            watch, began_us = Watch(), now_us()
            await served.until(lambda: len(of(EAST, served)) > len(in_time))
            in_time.append(now_us() - began_us < MARGIN_S * 1_000_000)
            if of(EAST, served)[-1].answer in ("RX1", "RX2"):
                await station.next_dnmsg()
            assert watch.seconds < MARGIN_S
            f_cnt += 1
            await asyncio.sleep(0.02)
        await attack

    served = play(scenario, limits=limits)
    own = of(EAST, served)
    assert {outcome.reason for outcome in own} == {None}
    assert all(outcome.answer == "RX1" for outcome, soon in zip(own, in_time, strict=True) if soon)
    return served


def of(station: Eui, served: Listening) -> list[Outcome]:
    return [outcome for outcome in served.outcomes if outcome.station == station]


async def connected(served: Listening) -> StationSocket:
    return await StationSocket.open(f"{served.uri}/router/{WEST}")


async def ended(link: StationSocket) -> None:
    with pytest.raises(LinkClosed):
        while True:
            await link.receive_text()


def of_west(served: Listening) -> list[str | None]:
    return [outcome.reason for outcome in of(WEST, served)]


def test_a_thousand_unreadable_texts_have_a_thousand_outcomes() -> None:
    chance = stream(7, "hostile", "texts")

    async def hostile(served: Listening) -> None:
        link = await connected(served)
        for _ in range(1000):
            link.send_text("{" + chance.randbytes(20).hex())
        await served.until(lambda: len(served.events) > 1000)
        await served.until(lambda: len(of_west(served)) == 1000)
        link.reset()

    assert set(of_west(beside_a_station(hostile))) == {"Malformed"}


def test_deep_json_is_one_malformed_reception() -> None:
    async def hostile(served: Listening) -> None:
        link = await connected(served)
        for text in ("[" * 60_000, '{"a":' * 10_000, '{"msgtype":"updf","a":' + "[" * 50_000):
            link.send_text(text)
        await served.until(lambda: len(of_west(served)) == 3)
        link.reset()

    assert of_west(beside_a_station(hostile)) == ["Malformed"] * 3


def test_wrong_types_in_every_field_harm_nobody() -> None:
    fields = ["MHdr", "DevAddr", "FCtrl", "FCnt", "FOpts", "FPort", "FRMPayload", "MIC", "DR"]
    fields += ["Freq", "upinfo"]
    values = [None, True, -1, 1 << 70, 1.5, "x", [], {}, [[]], {"xtime": []}]
    good = {
        "msgtype": "updf", "MHdr": 128, "DevAddr": 28036591, "FCtrl": 0, "FCnt": 10, "FOpts": "",
        "FPort": 2, "FRMPayload": "6BCDD6", "MIC": 7, "DR": 5, "Freq": 868100000,
        "upinfo": {"rctx": 0, "xtime": 1, "rssi": -71, "snr": 9.5},
    }  # fmt: skip

    async def hostile(served: Listening) -> None:
        link = await connected(served)
        for field in fields:
            for value in values:
                link.send_text(json.dumps(good | {field: value}))
        await served.until(lambda: len(of_west(served)) == len(fields) * len(values))
        link.reset()

    reasons = of_west(beside_a_station(hostile))
    assert set(reasons) <= {"Malformed", "MicMismatch", "UnknownDevice"}
    assert reasons.count("Malformed") > len(fields) * len(values) * 3 // 4


def test_of_pings_that_come_at_once_a_few_are_answered_in_a_turn() -> None:
    answered: list[int] = []

    async def hostile(served: Listening) -> None:
        link = await connected(served)
        link.writer.write(SHORTEST_PING * PINGS)
        while sum(answered) < PINGS * len(SHORTEST_PONG):
            answered.append(len(await link.reader.read(1 << 20)))
        link.reset()

    beside_a_station(hostile)
    assert max(answered) < TURN_BYTES_MAX


def test_binary_messages_are_counted_and_not_read() -> None:
    async def hostile(served: Listening) -> None:
        link = await connected(served)
        for _ in range(3):
            link.send_frame(2, b"\x00$ ")
        link.send_text('{"msgtype":"version","station":"2.0.6"}')
        await link.receive_text()
        link.reset()

    served = beside_a_station(hostile)
    (ended_one,) = [c for c in served.connections("disconnected") if c.station == WEST]
    assert (ended_one.texts, ended_one.binaries) == (1, 3)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (lambda link: link.send_text("x" * 65_537), 1009),
        (lambda link: link.send_frame(2, b"x" * 100_000), 1009),
        (lambda link: link.send_frame(1, b"\xff\xfe"), 1007),
        (lambda link: link.send_frame(1, b"x", head=0xC0), 1002),  # RSV1
        (lambda link: link.send_frame(0, b"x"), 1002),  # goes on with nothing
        (lambda link: link.send_frame(3, b"x"), 1002),  # no such opcode
        (lambda link: link.writer.write(b"\x81\x01x"), 1002),  # no mask
        (lambda link: link.send_frame(9, b"x" * 200), 1002),  # a ping of 200 bytes
        (lambda link: link.writer.write(b"\x81\xff" + b"\x7f" * 8 + b"\1\1\1\1"), 1009),
    ],
)
def test_what_is_no_message_ends_its_connection_with_the_cause(
    frame: Callable[[StationSocket], None], code: int
) -> None:
    async def scenario(served: Listening) -> None:
        link = await connected(served)
        frame(link)
        await ended(link)
        await served.until(lambda: served.causes)

    assert str(code) in (play(scenario, limits=QUICK).causes[0] or "")


def test_random_bytes_after_the_upgrade_end_their_connections() -> None:
    chance = stream(7, "hostile", "frames")

    async def hostile(served: Listening) -> None:
        for _ in range(30):
            link = await connected(served)
            link.writer.write(chance.randbytes(400))
            link.writer.write_eof()
            await link.reader.read()
            link.writer.close()
        await served.until(lambda: len(served.connections("disconnected")) >= 30)

    beside_a_station(hostile, QUICK)


def test_random_bytes_instead_of_a_request_end_their_connections() -> None:
    chance = stream(7, "hostile", "requests")

    async def hostile(served: Listening) -> None:
        for number in range(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            start = b"GET /router-info HTTP/1.1\r\n" if number % 2 else b""
            writer.write(start + chance.randbytes(300) + b"\r\n\r\n")
            await reader.read()
            writer.close()

    beside_a_station(hostile, QUICK)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /router-info HTTP/1.1\r\nHost: a\r\n\r\n", 426),
        (b"GET //[x HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"GET /?%zz HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"POST /router-info HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET /router/::1 HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 400),
    ],
)
def test_a_request_that_is_no_stations_has_its_status(sent: bytes, status: int) -> None:
    async def scenario(served: Listening) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(sent)
        assert (await reader.read()).startswith(f"HTTP/1.1 {status} ".encode())
        writer.close()

    play(scenario, limits=QUICK)


def test_a_request_with_a_body_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Listening) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"POST /update-info HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        await reader.read()
        writer.close()

    play(scenario, limits=QUICK)
    assert "Traceback" not in caplog.text


def test_an_endless_request_ends() -> None:
    async def hostile(served: Listening) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /router-info HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            while True:
                writer.write(b"x" * 100 + b": 1\r\n")
                await writer.drain()
                await asyncio.sleep(0.005)
        writer.close()

    beside_a_station(hostile, QUICK)


def test_a_hundred_connections_that_say_nothing_keep_nobody_out() -> None:
    """Of more than twenty the oldest go at once; ten seconds are theirs otherwise."""

    async def hostile(served: Listening) -> None:
        opened = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(100)]
        watch = Watch()
        station = BasicsStation(WEST, served.uri)
        await station.connect()
        await station.until_configured()
        for reader, _ in opened[:80]:
            with pytest.raises(ConnectionError):
                if await reader.read() == b"":
                    raise ConnectionError
        assert watch.seconds < MARGIN_S
        for _, writer in opened:
            writer.close()
        assert station.socket is not None
        station.socket.reset()

    beside_a_station(hostile, Limits(opening_max=20))


def test_the_server_stops_without_waiting_for_who_says_nothing() -> None:
    async def scenario(served: Listening) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await StationSocket.open(f"{served.uri}/router-info")
        watch = Watch()
        await served.server.stop()
        assert watch.seconds < 1
        writer.close()

    play(scenario)


def test_questions_that_are_never_asked_end() -> None:
    async def scenario(served: Listening) -> None:
        link = await StationSocket.open(f"{served.uri}/router-info")
        await ended(link)

    play(scenario, limits=QUICK)


def test_a_station_that_stays_after_its_answer_is_closed() -> None:
    async def scenario(served: Listening) -> None:
        link = await StationSocket.open(f"{served.uri}/router-info")
        link.send_text('{"router":"::1"}')
        assert "uri" in json.loads(await link.receive_text())
        await ended(link)

    play(scenario, limits=QUICK)


def test_who_reads_nothing_is_dropped_and_delays_nobody() -> None:
    async def hostile(served: Listening) -> None:
        link = await connected(served)
        link.writer.transport.pause_reading()  # type: ignore[attr-defined]
        ask = '{"msgtype":"timesync","txtime":1}'
        try:
            while not [c for c in served.connections("disconnected") if c.station == WEST]:
                for _ in range(200):
                    link.send_text(ask)
                await link.writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        link.reset()
        await served.until(lambda: served.causes)

    served = beside_a_station(hostile, Limits(closing_us=100_000))
    (gone,) = [c for c in served.connections("disconnected") if c.station == WEST]
    assert gone.cause == "reads too slowly"


def test_a_flood_of_tiny_texts_leaves_the_others_their_turn() -> None:
    async def hostile(served: Listening) -> None:
        link = await connected(served)
        link.writer.write(b"\x81\x80\1\1\1\1" * 10_000)
        at_once, before = 0, len(served.events)
        while len(served.events) < 10_000:
            await asyncio.sleep(0)
            at_once, before = max(at_once, len(served.events) - before), len(served.events)
        await served.until(lambda: len(of_west(served)) == 10_000)
        assert at_once <= 20, "more than a few texts of each station in one turn of the loop"
        link.reset()

    beside_a_station(hostile)


def test_a_station_that_vanishes_mid_frame_is_forgotten() -> None:
    async def scenario(served: Listening) -> None:
        link = await connected(served)
        link.writer.write(b"\x81\xfe\xff\xff\1\1\1\1{")
        await asyncio.sleep(0.01)
        link.reset()
        await served.until(lambda: served.causes)
        await (await connected(served)).close()

    play(scenario)
