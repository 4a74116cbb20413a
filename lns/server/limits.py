"""How long does the listener wait, and how much does it hold?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The deadlines (µs) and bounds of one listener.

    A station answers pings at once but while it connects elsewhere, so it is given a minute; it
    notices a dead peer itself after two (Basics Station, TCP keep-alive). A real message has less
    than 2 kB. A station that leaves 64 kB unread is dropped, never waited for. `opening_max`
    counts connections that are not yet a station's, from when they are accepted: of more than that
    the oldest are dropped. A TLS handshake takes a station two round trips.
    """

    handshake_us: int = 5_000_000
    opening_us: int = 10_000_000
    question_us: int = 10_000_000
    ping_interval_us: int = 30_000_000
    ping_timeout_us: int = 60_000_000
    closing_us: int = 5_000_000
    message_bytes_max: int = 65_536
    unsent_bytes_max: int = 65_536
    opening_max: int = 256
    stations_max: int = 4096
