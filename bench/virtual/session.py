"""What does a LoRaWAN device know of its session, and which downlinks does it believe?"""

from dataclasses import dataclass, field
from enum import StrEnum

from bench.device.interfaces import Sent
from bench.transmission import Eui
from bench.virtual.lorawan.channel_plan import UpChannel
from bench.virtual.lorawan.commands import Cid, Command, from_network
from bench.virtual.lorawan.frames import (
    DOWN,
    F_OPTS_MAX,
    JoinAccept,
    Kind,
    SessionKeyPair,
    counter_of,
    data_frame,
    read_data,
    session_keys,
)


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

    def dr(self, dr: int, attempt: int) -> int:
        """The data rate of a try (from 1) that was begun with `dr`."""
        return max(dr - (attempt - 1) // 2, 0) if self.lowers_data_rate else dr


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


ADR_ACK_LIMIT = 64
ADR_ACK_DELAY = 32
NEVER_COUNTED = {"up": 1, "down": -1}
"""The counters that stand in flash at first: those of LoRaMac, which counts before it sends."""
_STICKY = (Cid.RX_PARAM_SETUP, Cid.RX_TIMING_SETUP, Cid.DL_CHANNEL)
"""Answers that are repeated until a downlink shows that they have come (LoRaWAN 1.0.4, 5.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downlink:
    """A downlink that the device believed; `payload` in clear, empty without application data."""

    ack: bool
    confirmed: bool
    f_pending: bool
    f_cnt: int
    f_port: int | None
    payload: bytes
    commands: tuple[Command, ...]


@dataclass(slots=True, kw_only=True)
class Session:
    """One session of one device, until the next join or a reset without memory.

    Remembers both counters (`f_cnt_up` is the next to be used, `f_cnt_down` the last accepted),
    what it owes the server (answers and an acknowledgement), what it asks with the message under
    way, how many uplinks went `unheard` since the last downlink, and the channels beside those of
    the region, with their own downlink frequencies.
    """

    dev_addr: str
    keys: SessionKeyPair = field(repr=False)
    number: int = 0
    f_cnt_up: int = 1
    f_cnt_down: int | None = None
    net_id: str = "000000"
    join_nonce: int = 0
    answers: list[Command] = field(default_factory=list)
    asked: list[Command] = field(default_factory=list)
    ack_due: bool = False
    unheard: int = 0
    more_channels: tuple[UpChannel | None, ...] = ()
    downlinks_hz: dict[int, int] = field(default_factory=dict)

    @property
    def wants_sign_of_life(self) -> bool:
        """Whether the next uplink has ADRACKReq, if ADR is on."""
        return self.unheard >= ADR_ACK_LIMIT

    def uplink(self, payload: bytes, port: int | None, *, confirmed: bool, adr: bool) -> bytes:
        """The frame of the next message; uses up a counter and what is owed to the server."""
        f_cnt, self.f_cnt_up = self.f_cnt_up, self.f_cnt_up + 1
        ack, self.ack_due = self.ack_due, False
        f_opts, self.asked = self._commands_that_fit(), []
        self.answers = [answer for answer in self.answers if answer.cid in _STICKY]
        asks, self.unheard = adr and self.wants_sign_of_life, self.unheard + 1
        return data_frame(
            Kind.CONFIRMED_UP if confirmed else Kind.UNCONFIRMED_UP,
            self.dev_addr,
            self.keys,
            f_cnt,
            f_port=port,
            payload=payload,
            f_opts=f_opts,
            adr=adr,
            bit_6=asks,
            ack=ack,
        )

    def believe(self, phy: bytes) -> Downlink | None:
        """The downlink in these bytes; None for another device's, a forged or a repeated one."""
        frame = read_data(phy)
        if frame is None or frame.direction != DOWN or frame.dev_addr != self.dev_addr:
            return None
        f_cnt = counter_of(frame, self.keys.nwk_s_key, self.f_cnt_down)
        if f_cnt is None or (frame.f_port == 0 and frame.f_opts):
            return None
        self.f_cnt_down = f_cnt
        self.ack_due = self.ack_due or frame.confirmed
        self.answers = [answer for answer in self.answers if answer.cid not in _STICKY]
        self.unheard = 0
        payload = frame.clear(self.keys, f_cnt)
        is_for_mac = frame.f_port == 0
        octets = payload if is_for_mac else frame.f_opts
        return Downlink(
            ack=frame.ack,
            confirmed=frame.confirmed,
            f_pending=frame.bit_4,
            f_cnt=f_cnt,
            f_port=frame.f_port,
            payload=b"" if is_for_mac else payload,
            commands=from_network(octets) if octets else (),
        )

    def counters(self) -> dict[str, int]:
        return {"up": self.f_cnt_up, "down": -1 if self.f_cnt_down is None else self.f_cnt_down}

    def owed(self) -> int:
        """How many octets of MAC commands go with the next uplink."""
        return len(self._commands_that_fit())

    def _commands_that_fit(self) -> bytes:
        asked = b"".join(command.octets for command in self.asked)
        octets = b""
        for answer in self.answers:
            if len(octets) + len(answer.octets) + len(asked) > F_OPTS_MAX:
                break
            octets += answer.octets
        return octets + asked


def last_down(counters: dict[str, int]) -> int | None:
    """The counter of the last downlink, as `Session.counters` writes it; None: none came yet."""
    return None if counters["down"] < 0 else counters["down"]


def uplink_in(dev_eui: Eui, phy: bytes, f_cnt: int, *, session: int = 0) -> Sent:
    """The uplink in these bytes, as its sender knows it; ValueError if they are none."""
    frame = read_data(phy)
    if frame is None:
        raise ValueError(f"{phy.hex().upper()} is no data frame")
    return Sent(dev_eui, frame.frame_id, phy, f_cnt, session, frame.confirmed)


def facts_of(sent: Sent, attempt: int) -> dict[str, object]:
    """What only its sender knows of a transmission of this frame."""
    return {
        "dev_eui": sent.dev_eui,
        "session": sent.session,
        "f_cnt": sent.f_cnt,
        "frame_id": sent.frame_id,
        "genuine": True,
        "attempt": attempt,
    }


def joined(
    app_key: bytes, accept: JoinAccept, *, dev_nonce: int, first_f_cnt: int, number: int = 0
) -> Session:
    more = [UpChannel(hz, range(6)) if hz else None for hz in accept.more_channels_hz]
    return Session(
        dev_addr=accept.dev_addr,
        keys=session_keys(app_key, accept.join_nonce, accept.net_id, dev_nonce),
        number=number,
        f_cnt_up=first_f_cnt,
        net_id=accept.net_id,
        join_nonce=accept.join_nonce,
        more_channels=tuple(more),
    )
