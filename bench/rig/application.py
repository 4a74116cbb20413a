"""The application at the far end: what does it get, and what if it takes nothing?"""

import asyncio
from collections import Counter

from bench.radio.medium import Record
from lns.delivery.publisher import Message, UpstreamUnavailable


class Application:
    """Takes messages in memory and writes each to the capture as the application got it.

    Numbers the messages of each topic from 1. `refuse` and `delay` force an upstream that is away
    or slow; both act on the next `messages` messages.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._numbers: Counter[str] = Counter()
        self._refusals = 0
        self._delays_us: list[int] = []

    def refuse(self, messages: int = 1) -> None:
        """Take none of the next messages."""
        self._refusals += messages
        self._fault("refuse", messages=messages)

    def delay(self, us: int, messages: int = 1) -> None:
        """Take each of the next messages only after `us`."""
        self._delays_us += [us] * messages
        self._fault("delay", us=us, messages=messages)

    async def publish(self, message: Message) -> None:
        """Take one message; UpstreamUnavailable where a scenario wants it so."""
        if self._delays_us:
            await asyncio.sleep(self._delays_us.pop(0) / 1_000_000)
        if self._refusals:
            self._refusals -= 1
            cause = "refused by the application"
            fields: dict[str, object] = {"topic": message.topic, "cause": cause}
            fields["message_id"] = message.message_id
            self._record("upstream", "upstream.failed", fields)
            raise UpstreamUnavailable(cause)
        self._numbers[message.topic] += 1
        body = message.body(self._numbers[message.topic])
        self._record("upstream", "upstream.published", {"topic": message.topic, "body": body})

    def _fault(self, fault: str, **detail: int) -> None:
        fields: dict[str, object] = {"seam": "upstream", "fault": fault, "origin": "injected"}
        fields["detail"] = detail
        self._record("bench", "fault.begin", fields)
