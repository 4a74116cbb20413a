"""Octets as MQTT 5.0 writes them, said to a broker by hand."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.clock import run
from bench.virtual.mqtt_broker import Client, MqttBroker
from bench.virtual.mqtt_packets import Published

CONNECT = bytes.fromhex("100e 0004 4d515454 05 02 001e 00 0001 61".replace(" ", ""))
CONNACK = bytes.fromhex("2006 00 00 03 21 0003".replace(" ", ""))
# PUBLISH, QoS 1, topic "t", packet identifier 7, user property a = b, payload "hi".
PUBLISH = bytes.fromhex("320f 0001 74 0007 07 26 0001 61 0001 62 6869".replace(" ", ""))
OTHER, THIRD = PUBLISH.replace(b"hi", b"ho"), PUBLISH.replace(b"\x01t", b"\x01s")
PUBACK = bytes.fromhex("40020007")
PINGREQ = bytes.fromhex("c000")


def played(
    folder: Path, talk: Callable[[socket.socket, MqttBroker], Awaitable[None]]
) -> list[object]:
    """What a broker took and found wrong while somebody talked to it."""
    told: list[object] = []

    async def play() -> None:
        broker = MqttBroker(folder / "b", told.append, told.append)
        broker.listen()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(str(broker.path))
            line.setblocking(False)
            try:
                await talk(line, broker)
            finally:
                broker.go()

    run(play())
    return told


async def said(line: socket.socket, octets: bytes) -> bytes:
    if octets:
        line.send(octets)
    await asyncio.sleep(0.001)
    try:
        return line.recv(1000)
    except BlockingIOError:
        return b"nothing"


def test_a_message_is_taken_and_acknowledged_however_it_is_cut(tmp_path: Path) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        assert await said(line, CONNECT) == CONNACK
        for octet in PUBLISH[:-1]:
            assert await said(line, bytes([octet])) == b"nothing"
        assert await said(line, PUBLISH[-1:]) == PUBACK
        assert await said(line, OTHER + THIRD) == PUBACK * 2
        assert await said(line, PINGREQ) == bytes.fromhex("d000")

    message = Published("a", "t", b"hi", (("a", "b"),), retain=False, again=False)
    others = replace(message, payload=b"ho"), replace(message, topic="s")
    assert played(tmp_path, talk) == [message, *others]


def test_a_message_comes_twice_only_in_two_connections(tmp_path: Path) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        assert await said(line, PUBLISH) == PUBACK
        assert await said(line, PUBLISH) == b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as new:
            new.connect(str(broker.path))
            new.setblocking(False)
            await said(new, CONNECT)
            assert await said(new, PUBLISH) == PUBACK

    message, violation, again = played(tmp_path, talk)
    assert message == again
    assert violation == "a: a message on t twice in one connection"


@pytest.mark.parametrize("has_left", [True, False])
def test_whoever_comes_twice_at_a_time_is_told(tmp_path: Path, has_left: bool) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        if has_left:
            broker.be_deaf()
            line.close()
            broker.be_well()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as new:
            new.connect(str(broker.path))
            new.setblocking(False)
            assert await said(new, CONNECT) == CONNACK

    told = [] if has_left else ["a: expected one connection at a time, observed two"]
    assert played(tmp_path, talk) == told


def test_a_client_without_a_name_begins_anew_and_is_taken(tmp_path: Path) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        assert await said(line, b"\x10\x0d" + CONNECT[2:-3] + b"\0\0") == CONNACK
        assert await said(line, PUBLISH) == PUBACK

    [message] = played(tmp_path, talk)
    assert isinstance(message, Published) and message.client == "a client without a name"


def test_two_messages_of_a_topic_at_a_time_are_told(tmp_path: Path) -> None:
    crowded: list[str] = []

    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        broker.crowded = crowded.append
        await said(line, CONNECT)
        assert await said(line, PUBLISH) == PUBACK
        assert await said(line, OTHER + THIRD) == PUBACK * 2
        assert crowded == []
        broker.puback_us = 1_000_000
        await said(line, OTHER.replace(b"ho", b"he"))
        await said(line, OTHER.replace(b"ho", b"hu"))

    played(tmp_path, talk)
    assert crowded == ["t"]


def test_a_refused_message_is_not_taken(tmp_path: Path) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        broker.refusals = 1
        assert await said(line, PUBLISH) == bytes.fromhex("400400079700")
        assert await said(line, PUBLISH) == PUBACK

    assert len(played(tmp_path, talk)) == 1


def test_a_mute_broker_takes_and_a_deaf_one_does_not(tmp_path: Path) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        broker.be_mute()
        assert await said(line, PUBLISH) == b"nothing"
        broker.be_well()
        assert await said(line, b"") == b""

    assert len(played(tmp_path, talk)) == 1

    async def talk_to_the_deaf(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        broker.be_deaf()
        assert await said(line, PUBLISH) == b"nothing"
        broker.be_well()
        assert await said(line, b"") == PUBACK

    assert len(played(tmp_path, talk_to_the_deaf)) == 1


@pytest.mark.parametrize("silence", [MqttBroker.be_mute, MqttBroker.be_deaf])
@pytest.mark.parametrize("waits_s, deserted", [(19, 1), (21, 0)])
def test_who_leaves_a_silent_broker_early_deserts_it(
    tmp_path: Path, silence: Callable[[MqttBroker], None], waits_s: int, deserted: int
) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        silence(broker)
        await asyncio.sleep(waits_s)
        line.close()
        await asyncio.sleep(0.001)
        broker.be_well()
        await asyncio.sleep(0.001)
        assert broker.let_go() == deserted

    assert played(tmp_path, talk) == []


@pytest.mark.parametrize(
    "octets, why",
    [
        (PUBLISH, "CONNECT is the first packet"),
        (CONNECT + CONNECT, "CONNECT is the first packet"),
        (CONNECT + PUBLISH * 4, "4 messages at once, not 3"),
        (CONNECT + b"\x30" + PUBLISH[1:], "QoS 0"),
        (CONNECT + PUBLISH.replace(b"\x26", b"\x01"), "no user property"),
        (CONNECT + PUBLISH.replace(b"t", b"#"), "a message on '#'"),
        (CONNECT + b"\x32\x02\x00\x05", "ends too early"),
        (CONNECT + b"\x32\xff\xff\xff\xff\x01", "more than four octets"),
        (
            CONNECT + b"\x32\x10" + PUBLISH[2:7] + b"\x87\0" + PUBLISH[8:],
            "the length 7 has an octet too many",
        ),
    ],
)
def test_what_the_specification_does_not_know_ends_the_connection(
    tmp_path: Path, octets: bytes, why: str
) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        assert await said(line, octets) in (b"", CONNACK)
        assert line.recv(10) == b""

    [told] = played(tmp_path, talk)
    assert why in str(told)


@pytest.mark.parametrize(("says", "told"), [(b"", 0), (PUBLISH, 1)])
def test_who_is_refused_says_nothing_more(tmp_path: Path, says: bytes, told: int) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        broker.login_refusals = 1
        assert await said(line, CONNECT) == bytes.fromhex("2003 00 87 00".replace(" ", ""))
        await said(line, says)

    assert len(played(tmp_path, talk)) == told


def test_who_is_refused_leaves(tmp_path: Path) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        broker.login_refusals = 1
        await said(line, CONNECT)
        await asyncio.sleep(5)

    assert played(tmp_path, talk) == [
        "a: expected it leaves when it is refused, observed 5001000 us later"
    ]


@pytest.mark.parametrize(("waits_s", "told"), [(45, 0), (45.1, 1)])
def test_who_says_nothing_for_a_keep_alive_and_a_half_is_told(
    tmp_path: Path, waits_s: float, told: int
) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        await asyncio.sleep(waits_s - 0.001)
        await said(line, PINGREQ)

    assert len(played(tmp_path, talk)) == told


@pytest.mark.parametrize(
    ("says", "waits_s", "told"),
    [(PINGREQ, 30.9, 0), (PINGREQ, 31.1, 1), (PUBLISH, 20.9, 1), (PUBLISH, 21.1, 2)],
)
def test_who_stays_with_a_broker_that_does_not_answer_is_told(
    tmp_path: Path, says: bytes, waits_s: float, told: int
) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        broker.be_mute()
        assert await said(line, says) == b"nothing"
        await asyncio.sleep(waits_s)

    assert len(played(tmp_path, talk)) == told


@pytest.mark.parametrize(("unlimited", "at_once"), [(False, 2), (True, 3)])
def test_a_client_is_brought_as_many_as_it_takes_at_a_time(
    tmp_path: Path, *, unlimited: bool, at_once: int
) -> None:
    clients: list[Client] = []
    brought = bytes.fromhex("3206 0001 74 0001 00".replace(" ", ""))
    puback = bytes.fromhex("40020001")

    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        broker.is_unlimited, broker.greeted = unlimited, clients.append
        await said(line, bytes.fromhex("1011 0004 4d515454 05 02 001e 03 21 0002 0001 61"))
        for _ in range(3):
            clients[0].bring("t", b"", (), 1)
        assert len(await said(line, b"")) == at_once * len(brought)
        rest = await said(line, puback)
        assert rest == (
            b"nothing" if unlimited else brought.replace(b"\x00\x01\x00", b"\x00\x03\x00")
        )

    assert played(tmp_path, talk) == []


def test_the_packet_identifier_of_what_is_acknowledged_is_given_again(tmp_path: Path) -> None:
    clients: list[Client] = []

    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        broker.greeted = clients.append
        await said(line, CONNECT)
        numbers = [clients[0].bring("t", b"", (), 1) for _ in range(2)]
        await said(line, bytes.fromhex("40020001"))
        numbers += [clients[0].bring("t", b"", (), qos) for qos in (1, 0, 1)]
        assert numbers == [1, 2, 1, 0, 3]

    assert played(tmp_path, talk) == []


def test_a_broker_that_stops_says_so(tmp_path: Path) -> None:
    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        await said(line, CONNECT)
        broker.stop()
        assert await said(line, b"") == bytes.fromhex("e002 8b00")

    assert played(tmp_path, talk) == []


NO_PUBACK = "PUBACK of 7: expected one, observed none"
TWO_PUBACKS = "PUBACK of 7: expected none, observed one"


@pytest.mark.parametrize(
    ("times", "due"), [(0, [NO_PUBACK]), (1, []), (2, [TWO_PUBACKS])], ids=["none", "one", "two"]
)
def test_a_broker_that_acknowledges_otherwise_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int, due: list[str]
) -> None:
    missed: list[str] = []

    def answer(self: Client, topic: str, body: bytes) -> None:
        for _ in range(times):
            self._say(0x40, body)

    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        broker.missed = missed.append
        await said(line, CONNECT)
        await said(line, PUBLISH)
        await asyncio.sleep(1)

    monkeypatch.setattr(Client, "_answer", answer)
    played(tmp_path, talk)
    assert missed == due


def test_a_broker_that_refuses_what_it_is_to_take_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missed: list[str] = []

    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        broker.missed = missed.append
        await said(line, CONNECT)
        await said(line, PUBLISH)

    monkeypatch.setattr(MqttBroker, "take", lambda self, message: 0x97)
    played(tmp_path, talk)
    assert missed == ["PUBACK of 7: expected taken, observed refused"]


def test_who_has_left_is_owed_nothing(tmp_path: Path) -> None:
    missed: list[str] = []

    async def talk(line: socket.socket, broker: MqttBroker) -> None:
        broker.missed = missed.append
        broker.puback_us = 500_000
        await said(line, CONNECT)
        await said(line, PUBLISH)
        broker.hang_up()
        await asyncio.sleep(1)

    played(tmp_path, talk)
    assert missed == []
