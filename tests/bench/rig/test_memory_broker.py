"""The broker of the simulated rig: what it brings again, and what it calls each message."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.rig.in_memory.application import MemoryBroker, Outboxes, Witness
from bench.rig.rig import Rig
from bench.verdict.case import Result
from bench.verdict.expectation import Table
from tests.bench.rig.played import play

TOPIC = "lorawan/lns-a/70B3D57ED0000001/up"


class Inbox:
    """Takes what it is brought, and acknowledges when it is told to."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.acknowledge: list[Callable[[], None]] = []

    def take(
        self,
        topic: str,
        payload: bytes,
        properties: Mapping[str, str],
        qos: int,
        acknowledge: Callable[[], None],
    ) -> None:
        self.taken.append(json.loads(payload)["messageId"])
        self.acknowledge.append(acknowledge)


def message(number: int) -> dict[str, object]:
    return {"messageId": f"m-{number}", "sequenceNumber": number}


def broker_and_kinds() -> tuple[MemoryBroker, list[str]]:
    kinds: list[str] = []
    broker = MemoryBroker(Witness(lambda source, kind, fields: kinds.append(kind)))
    broker.expect("c")
    return broker, kinds


def inside_a_loop(test: Callable[[], None]) -> None:
    async def run() -> None:
        test()

    asyncio.run(run())


def test_a_message_of_qos_0_comes_once() -> None:
    def play() -> None:
        broker, _ = broker_and_kinds()
        inbox = Inbox()
        broker.publish(TOPIC, message(1), qos=0)
        broker.connect("c", inbox.take)
        broker.publish(TOPIC, message(2), qos=0)
        broker.redeliver("c")
        assert inbox.taken == ["m-2"]

    inside_a_loop(play)


def test_what_is_not_acknowledged_comes_again_with_the_next_connection() -> None:
    def play() -> None:
        broker, _ = broker_and_kinds()
        first, second = Inbox(), Inbox()
        broker.connect("c", first.take)
        broker.publish(TOPIC, message(1))
        broker.publish(TOPIC, message(2))
        first.acknowledge[0]()
        broker.disconnect("c")
        broker.publish(TOPIC, message(3))
        broker.connect("c", second.take)
        assert (first.taken, second.taken) == (["m-1", "m-2"], ["m-2", "m-3"])
        first.acknowledge[1]()  # on a connection that is gone
        broker.redeliver("c")
        assert second.taken == ["m-2", "m-3", "m-2", "m-3"]

    inside_a_loop(play)


def test_a_lost_acknowledgement_is_none() -> None:
    def play() -> None:
        broker, _ = broker_and_kinds()
        inbox = Inbox()
        broker.connect("c", inbox.take)
        broker.lose_acks("c")
        broker.publish(TOPIC, message(1))
        inbox.acknowledge[0]()
        assert broker.oldest_us("c") is not None
        broker.redeliver("c")
        inbox.acknowledge[1]()
        broker.redeliver("c")
        assert (inbox.taken, broker.oldest_us("c")) == (["m-1", "m-1"], None)

    inside_a_loop(play)


def test_nothing_comes_while_it_is_away() -> None:
    def play() -> None:
        broker, _ = broker_and_kinds()
        inbox = Inbox()
        broker.publish(TOPIC, message(1))
        broker.stop()
        broker.connect("c", inbox.take)
        assert not inbox.taken
        broker.start()
        assert inbox.taken == ["m-1"]

    inside_a_loop(play)


def test_every_message_is_called_what_it_is() -> None:
    def play() -> None:
        broker, kinds = broker_and_kinds()
        broker.publish(TOPIC, message(1))
        broker.publish(TOPIC, message(1))
        broker.publish(TOPIC, message(1), injected=True)
        broker.publish(TOPIC, message(1) | {"sequenceNumber": 2})
        broker.publish(TOPIC.replace("lns-a", "lns-b"), message(1))
        broker.publish(TOPIC, {"messageId": "x"}, injected=True)
        assert [kind.removeprefix("upstream.") for kind in kinds] == [
            "published", "repeated", "injected", "published", "published", "injected",
        ]  # fmt: skip

    inside_a_loop(play)


def test_a_broker_that_brings_a_message_twice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    brings = MemoryBroker._bring

    def twice(self: MemoryBroker, session: Any, number: int) -> None:
        brings(self, session, number)
        brings(self, session, number)

    def play() -> None:
        broker, kinds = broker_and_kinds()
        broker.connect("c", Inbox().take)
        broker.publish(TOPIC, message(1))
        assert kinds == ["upstream.published", "stimulus.missed"]

    monkeypatch.setattr(MemoryBroker, "_bring", twice)
    inside_a_loop(play)


def test_a_broker_that_brings_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def play() -> None:
        broker, kinds = broker_and_kinds()
        broker.connect("c", Inbox().take)
        broker.publish(TOPIC, message(1))
        assert kinds == ["upstream.published", "stimulus.missed"]

    monkeypatch.setattr(MemoryBroker, "_bring", lambda *_: None)
    inside_a_loop(play)


FIRST = Table("""
    strategy kind        | first
    *        unconfirmed | NonDuplicate forwarded NotAsked
""")


def sends_twice(self: Outboxes, topic: str, body: dict[str, object]) -> None:
    for _ in range(2):
        self._broker.publish(topic, body)


def sends_on_another_topic(self: Outboxes, topic: str, body: dict[str, object]) -> None:
    self._broker.publish(f"{topic}s", body)


@pytest.mark.parametrize(
    ("sends", "seen"),
    [
        (lambda *_: None, "0 times"),
        (sends_twice, "2 times"),
        (sends_on_another_topic, "another topic, or number"),
    ],
    ids=["nothing", "twice", "on another topic"],
)
def test_what_a_server_has_handed_over_is_heard_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sends: Any, seen: str
) -> None:
    async def scenario(rig: Rig) -> None:
        rig.only("west")
        rig.expect(await rig.alpha.send(), FIRST, first="west")

    monkeypatch.setattr(Outboxes, "_send", sends)
    verdict = play(tmp_path, scenario).verdict
    assert (verdict.result, verdict.owner) == (Result.INCONCLUSIVE, "broker")
    assert verdict.reasons[0].endswith(f"heard 1 times, as it was handed over, observed {seen}")
