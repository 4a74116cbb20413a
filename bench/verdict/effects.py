"""Did every message have its effect on the application as often as was due?

Written from what consumers said of their decisions and what the application has in the end; the
network server is not asked. A message belongs to the uplink that its id names.
"""

import re
from dataclasses import dataclass, field

from bench.capture.reading import Event

_MESSAGE_ID = re.compile(
    r"([0-9A-F]{16})-([0-9A-F]{8})(?:\.[0-9]+)?-([0-9]+)(?:\.[0-9A-F]{8})?(?:-[0-9A-F]{16}-[0-9]+)?"
)


@dataclass(frozen=True, slots=True)
class Which:
    """The messages of an uplink, copies included, or the one message with this id."""

    dev_eui: str | None = None
    dev_addr: str | None = None
    f_cnt: int | None = None
    message_id: str | None = None

    @classmethod
    def of(cls, event: Event) -> "Which":
        """What an expectation names."""
        names = "dev_eui", "dev_addr", "f_cnt", "message_id"
        return cls(*(event.get(name) for name in names))

    def fits(self, message_id: str) -> bool:
        """Whether a message is one of these."""
        if self.message_id is not None:
            return message_id == self.message_id
        found = _MESSAGE_ID.fullmatch(message_id)
        if found is None:
            return False
        dev_eui, dev_addr, f_cnt = found.groups()
        return (dev_eui, dev_addr, int(f_cnt)) == (self.dev_eui, self.dev_addr, self.f_cnt)

    def __str__(self) -> str:
        if self.message_id is not None:
            return f"message {self.message_id}"
        return f"{self.dev_eui} FCnt {self.f_cnt}"


@dataclass(frozen=True, slots=True)
class Due:
    """How many effects, or duplicates ignored `by` a detector; consumer None: of all together."""

    which: Which
    count: int
    consumer: str | None = None
    by: str | None = None


@dataclass(slots=True)
class Effects:
    """What was due at the consumers of one case, and what was there, as (consumer, id, by)."""

    due: list[Due] = field(default_factory=list)
    observed: list[tuple[str, str, str | None]] = field(default_factory=list)

    def expect(self, event: Event) -> None:
        """Read a `case.expect` of effects or of ignored duplicates."""
        facts = Which.of(event), event["count"], event.get("consumer"), event.get("by")
        self.due.append(Due(*facts))

    def read(self, event: Event) -> None:
        """Read an `application.effect` or an `inbox.ignored`."""
        self.observed.append((event["consumer"], event["message_id"], event.get("by")))

    def wrong(self) -> list[str]:
        """What is due and was not there just as often."""
        return [
            f"{'effects' if due.by is None else f'{due.by} duplicates'} of {due.which}"
            f" at {due.consumer or 'all consumers'}: expected {due.count}, observed {count}"
            for due in self.due
            if (count := self._count(due)) != due.count
        ]

    def _count(self, due: Due) -> int:
        return sum(
            by == due.by and due.consumer in (None, consumer) and due.which.fits(message_id)
            for consumer, message_id, by in self.observed
        )
