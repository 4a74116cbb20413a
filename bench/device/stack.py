"""How do the MAC stacks that are in real devices differ?

Read from their sources: LoRaMac-node 4.7.0, LoRaMac 4.4.7 (RUI3 up to 4.1), LoRa Basics Modem 4.8.
"""

from dataclasses import dataclass
from enum import StrEnum


class RetryFrom(StrEnum):
    """From when the wait before a repetition counts."""

    RX2_OPENING = "rx2_opening"
    RX2_CLOSING = "rx2_closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One MAC stack.

    `first_f_cnt`: counter of the first frame of a session. A repetition follows `retry_min_us` to
    `retry_max_us`, drawn evenly, after `retry_from`. `lowers_data_rate`: one step down after every
    second try of a confirmed frame. `checks_join_nonce`: a join accept whose JoinNonce is not
    greater than the last one is refused.
    """

    name: str
    first_f_cnt: int
    retry_from: RetryFrom
    retry_min_us: int = 1_000_000
    retry_max_us: int = 3_000_000
    lowers_data_rate: bool = False
    checks_join_nonce: bool = False

    def dr(self, dr: int, attempt: int) -> int:
        """The data rate of a try (from 1) that was begun with `dr`."""
        return max(dr - (attempt - 1) // 2, 0) if self.lowers_data_rate else dr


# RETRANSMIT_TIMEOUT = RX2 delay + 2000 ms +- 1000 ms after the end of the transmission.
LORAMAC_NODE = Stack(
    name="LoRaMac-node 4.7",
    first_f_cnt=1,
    retry_from=RetryFrom.RX2_OPENING,
    checks_join_nonce=True,
)
LORAMAC_44 = Stack(
    name="LoRaMac 4.4",
    first_f_cnt=1,
    retry_from=RetryFrom.RX2_CLOSING,
    lowers_data_rate=True,
)
BASICS_MODEM = Stack(name="LoRa Basics Modem", first_f_cnt=0, retry_from=RetryFrom.RX2_CLOSING)
