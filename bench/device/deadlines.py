"""How long may a device take?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long to wait for a line before the device is silent, all generous.

    `transmission_us` is for one transmission of a message: 2.8 s at SF12, RX2 16 s later at most,
    3 s of retransmission timeout; LoRa-E5 waits up to 10 s before a repetition. A join takes the
    same with RX2 at 6 s. `proof_us`: after the airtime of a raw packet. `restricted_us`: the
    longest wait for the duty cycle of one message. `poll_us`: between two questions to a device
    that does not say when it is there.
    """

    reply_us: int = 5_000_000
    boot_us: int = 10_000_000
    join_us: int = 20_000_000
    transmission_us: int = 25_000_000
    proof_us: int = 2_000_000
    restricted_us: int = 60_000_000
    poll_us: int = 200_000
