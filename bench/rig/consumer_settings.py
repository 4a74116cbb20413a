"""What is a consumer of a scenario told to do, and is that allowed?"""

from collections.abc import Callable
from dataclasses import dataclass

from lns.delivery import Detectors, MessageIdWindow, RemoveDuplicatesKeys, SequenceTracker
from lns.delivery.detectors import TOPIC

WINDOWS_US = 20_000_000, 7 * 86_400_000_000
"""The shortest and the longest time for which a consumer compares ids."""
DEFAULTS_US = {
    "window_us": 600_000_000,
    "retention_us": 15 * 86_400_000_000,
    "retry_us": 86_400_000_000,
    "network_us": 10_000_000,
}
"""The times of a consumer that is told none."""
KEYS_MAX_US = 15 * 86_400_000_000
"""The longest time for which a queue keeps a message, and a consumer its key."""


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
    entries_max: int | None = None
    republishes: int = 0
    waiting_max: int | None = None

    @property
    def are_allowed(self) -> bool:
        """Whether a consumer has to take them, as the seeds say; any others it has to refuse."""
        window_us = WINDOWS_US[0] if self.window_us is None else self.window_us
        keys_fit = min(self.retry_us, self.network_us) >= 0 and 0 < self.retention_us <= KEYS_MAX_US
        return WINDOWS_US[0] <= window_us <= WINDOWS_US[1] and (keys_fit or not self.keys)

    def detectors(self, oldest_us: Callable[[], int | None] | None = None) -> Detectors:
        """The detectors themselves; ConfigurationError."""
        window = keys = None
        if self.window_us is not None:
            length = _unless_default(window_us=self.window_us)
            window = MessageIdWindow(**length, partitioned=self.partitioned, sessions=self.sessions)
        if self.keys:
            times = _unless_default(
                retention_us=self.retention_us, retry_us=self.retry_us, network_us=self.network_us
            )
            asked = oldest_us if self.knows_oldest else None
            keys = RemoveDuplicatesKeys(**times, min_msg_time_us=asked)
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


def _unless_default(**times_us: int) -> dict[str, int]:
    """What a consumer is told; by default it has to know what is right by itself."""
    return {name: us for name, us in times_us.items() if us != DEFAULTS_US[name]}


def _span(us: int) -> str:
    whole_s, rest_us = divmod(us, 1_000_000)
    return f"{whole_s}.{rest_us:06d}s"
