"""What is one consumer of a scenario asked to be, in this process and as a program?"""

from collections.abc import Callable
from dataclasses import dataclass

from lns.delivery import Detectors, MessageIdWindow, RemoveDuplicatesKeys, SequenceTracker
from lns.delivery.min_msg_time import TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The detectors, store and effect of one consumer; times in µs, `window_us` None: off."""

    name: str
    window_us: int | None
    partitioned: bool
    sessions: bool
    sequence: bool
    keys: bool
    retention_us: int
    retry_us: int
    network_us: int
    knows_oldest: bool
    store: str | None
    elsewhere: bool
    refuses: str | None = None
    refusals: int | None = None

    def detectors(self, oldest_us: Callable[[], int | None] | None = None) -> Detectors:
        """The detectors themselves; ConfigurationError."""
        window = keys = None
        if self.window_us is not None:
            window = MessageIdWindow(
                self.window_us, partitioned=self.partitioned, sessions=self.sessions
            )
        if self.keys:
            keys = RemoveDuplicatesKeys(
                retention_us=self.retention_us,
                retry_us=self.retry_us,
                network_us=self.network_us,
                min_msg_time_us=oldest_us if self.knows_oldest else None,
            )
        sequence = SequenceTracker(perform_duplicate_checking=self.sequence)
        return Detectors(window=window, sequence=sequence, keys=keys)

    def options(self) -> list[str]:
        """The same for `lorabench inbox`."""
        options = ["--window", "off" if self.window_us is None else _span(self.window_us)]
        options += ["--partitioned"] if self.partitioned else []
        options += ["--sessions"] if self.sessions else []
        options += [] if self.sequence else ["--no-sequence"]
        if self.keys:
            options += ["--keys", "--retention", _span(self.retention_us)]
            options += ["--retry", _span(self.retry_us), "--network", _span(self.network_us)]
            options += ["--min-msg-time", TOPIC] if self.knows_oldest else []
        return options


def _span(us: int) -> str:
    whole_s, rest_us = divmod(us, 1_000_000)
    return f"{whole_s}.{rest_us:06d}s"
