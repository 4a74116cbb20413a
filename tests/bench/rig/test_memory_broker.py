"""The broker of the simulated rig: what it brings again, and what it calls each message."""

import asyncio
import json
from collections.abc import Callable, Mapping

from bench.rig.in_memory.application import MemoryBroker, Witness

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
