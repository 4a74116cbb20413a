"""A message that no network server has published: how does the bench play a producer?"""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.capture import Record

PRODUCER = "bench"
"""Stands where an LNS id does in the topics of the bench's own messages."""

UP_TOPIC, STATUS_TOPIC = "/up", "/status"
"""How the topics of uplinks, and of what devices tell of themselves, end."""


@dataclass(frozen=True, slots=True)
class Injected:
    """One message of the bench, by its id; the same id may be published several times."""

    message_id: str


class Witness:
    """Hears every message at the broker and writes which kind it is of; remembers all of them.

    `upstream.published`: a server's message. `upstream.repeated`: the same one, by its number in
    its topic, sent again. `upstream.injected`: none of a server's. `upstream.status`: what a device
    told of itself, which is no uplink.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._published: set[tuple[object, ...]] = set()

    def hear(self, topic: str, body: Mapping[str, object], *, injected: bool = False) -> None:
        """Write down one message as the broker has it; `injected`: the bench has published it."""
        kind = "upstream.injected" if injected else "upstream.published"
        if not injected:
            same = topic, body["messageId"], body["sequenceNumber"]
            kind = "upstream.repeated" if same in self._published else kind
            self._published.add(same)
        if topic.endswith(STATUS_TOPIC):
            kind = "upstream.status"
        self._record("upstream", kind, {"topic": topic, "body": body})
