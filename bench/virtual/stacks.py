"""Which MAC stacks are there, and in what do they differ?"""

from dataclasses import dataclass
from enum import StrEnum


# Seen on the air: LoRaMac-node 4.7.0 and Basic MAC 2.2 (LMIC). Read from their sources: LoRaMac
# 4.4.7 (RUI3 up to 4.1), LoRa Basics Modem 4.8.
class RetryFrom(StrEnum):
    """From when the wait before a repetition counts."""

    RX2_OPENING = "rx2_opening"
    RX2_CLOSING = "rx2_closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One MAC stack.

    `first_f_cnt`: counter of the first frame of a session. A confirmed frame is repeated
    `retry_min_us` to `retry_max_us`, drawn evenly, after `retry_from`; an unconfirmed one when RX2
    has closed. `lowers_data_rate`: one step down after every second try of a confirmed frame.
    `checks_join_nonce`: a join accept whose JoinNonce is not greater than the last one is refused.
    `draws_dev_nonce`: DevNonces are drawn, not counted. `changes_channel`: a repetition is never on
    the channel of the try before. `gives_up_rx2`: after any frame in RX1, whoever it is for, RX2
    stays closed. `keeps_duty_cycle`: a repetition waits until its band is free again.
    `asks_at_lowest_dr`: ADRACKReq is set at the lowest data rate too (LoRaWAN 1.0.4, 4.3.1.1; up to
    1.0.3 it is not).
    """

    name: str
    first_f_cnt: int
    retry_from: RetryFrom
    retry_min_us: int = 1_000_000
    retry_max_us: int = 3_000_000
    lowers_data_rate: bool = False
    checks_join_nonce: bool = False
    draws_dev_nonce: bool = False
    changes_channel: bool = True
    gives_up_rx2: bool = False
    keeps_duty_cycle: bool = False
    asks_at_lowest_dr: bool = True


# RETRANSMIT_TIMEOUT = RX2 delay + 2000 ms +- 1000 ms after the end of the transmission.
LORAMAC_NODE = Stack(
    name="LoRaMac-node 4.7",
    first_f_cnt=1,
    retry_from=RetryFrom.RX2_OPENING,
    checks_join_nonce=True,
    changes_channel=False,
    gives_up_rx2=True,
)
LORAMAC_44 = Stack(
    name="LoRaMac 4.4",
    first_f_cnt=1,
    retry_from=RetryFrom.RX2_CLOSING,
    lowers_data_rate=True,
    draws_dev_nonce=True,
    changes_channel=False,
    gives_up_rx2=True,
    asks_at_lowest_dr=False,
)
LMIC = Stack(
    name="LMIC",
    first_f_cnt=0,
    retry_from=RetryFrom.RX2_CLOSING,
    keeps_duty_cycle=True,
)
BASICS_MODEM = Stack(
    name="LoRa Basics Modem",
    first_f_cnt=0,
    retry_from=RetryFrom.RX2_CLOSING,
    checks_join_nonce=True,
)


NEVER_COUNTED = {"up": 1, "down": -1}
"""The counters that stand in flash at first: those of LoRaMac, which counts before it sends."""
