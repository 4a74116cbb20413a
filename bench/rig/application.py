"""The outboxes of the servers in this process: what do they publish, and what is sent again?"""

import asyncio
from collections import Counter

from bench.capture import Record
from bench.rig.injected import Witness
from bench.rig.memory_broker import MemoryBroker
from lns.delivery.publisher import ForApplication, UpstreamUnavailable

_Body = dict[str, object]
_Published = tuple[str, _Body]


class Application:
    """Takes messages durably and brings them to the broker, each of which is acknowledged or not.

    Numbers the messages of each topic from 1. `refuse` and `delay` force an outbox that cannot be
    written, or is slow; both act on the next `messages` messages.
    """

    def __init__(self, record: Record, broker: MemoryBroker | None = None) -> None:
        self._record = record
        self._broker = broker or MemoryBroker(Witness(record))
        self._numbers: Counter[str] = Counter()
        self._refusals = 0
        self._full: set[str] = set()
        self._delays_us: list[int] = []
        self._away: dict[str, str] = {}
        self._kept: list[_Published] = []

    def refuse(self, messages: int = 1) -> None:
        """Take none of the next messages."""
        self._refusals += messages
        self._fault("refuse", messages=messages)

    def delay(self, us: int, messages: int = 1) -> None:
        """Take each of the next messages only after `us`."""
        self._delays_us += [us] * messages
        self._fault("delay", us=us, messages=messages)

    def fill_disk(self, lns: str) -> None:
        """Take nothing of a server, until `free_disk`."""
        self._full.add(lns)
        self._fault("disk full", lns=lns)

    def free_disk(self, lns: str) -> None:
        """Take what it has to tell again."""
        self._full.discard(lns)
        self._fault("disk full", "fault.end", lns=lns)

    def lose_pubacks(self, lns: str) -> None:
        """Let the messages of a server be published, and published again after `find_broker`."""
        self._away[lns] = "swallow"
        self._fault("swallow", lns=lns)

    def hold(self, lns: str) -> None:
        """Let the messages of a server wait for `find_broker`."""
        self._away[lns] = "hold"
        self._fault("hold", lns=lns)

    def find_broker(self, lns: str) -> None:
        """Publish what was not acknowledged to a server."""
        self._away.pop(lns, None)
        self.send_again()

    def send_again(self) -> None:
        """Publish what was not acknowledged, as far as the broker can be reached."""
        kept, self._kept = self._kept, []
        for topic, body in kept:
            if body["lns"] in self._away:
                self._kept.append((topic, body))
            else:
                self._send(topic, body)

    def wipe(self, lns: str) -> None:
        """Forget the messages and the numbers of a server."""
        self._kept = [(topic, body) for topic, body in self._kept if body["lns"] != lns]
        for topic in [topic for topic in self._numbers if topic.split("/")[1] == lns]:
            del self._numbers[topic]
        self._fault("wipe", lns=lns)

    async def publish(self, message: ForApplication) -> None:
        """Take one message; UpstreamUnavailable where a scenario wants it so."""
        if self._delays_us:
            await asyncio.sleep(self._delays_us.pop(0) / 1_000_000)
        if self._refusals or message.lns in self._full:
            cause = "refused by the application" if self._refusals else "the disk is full"
            self._refusals = max(0, self._refusals - 1)
            fields: dict[str, object] = {"topic": message.topic, "cause": cause}
            fields["message_id"] = message.message_id
            self._record("upstream", "upstream.failed", fields)
            raise UpstreamUnavailable(cause)
        self._numbers[message.topic] += 1
        self._send(message.topic, message.body(self._numbers[message.topic]))

    def _send(self, topic: str, body: _Body) -> None:
        away = self._away.get(str(body["lns"]))
        if away is not None or not self._broker.is_up:
            self._kept.append((topic, body))
        if self._broker.is_up and away != "hold":
            self._broker.publish(topic, body)

    def _fault(self, fault: str, kind: str = "fault.begin", **detail: int | str) -> None:
        fields: dict[str, object] = {"seam": "upstream", "fault": fault, "origin": "injected"}
        fields["detail"] = detail
        self._record("bench", kind, fields)
