"""What does a LoRaWAN device know of its session, and which downlinks does it believe?"""

from dataclasses import dataclass, field

from bench.virtual.lorawan.channel_plan import UpChannel
from bench.virtual.lorawan.ciphers import DOWN, SessionKeyPair, session_keys
from bench.virtual.lorawan.commands import Cid, Command, from_network
from bench.virtual.lorawan.frames import (
    F_OPTS_MAX,
    JoinAccept,
    Kind,
    counter_of,
    data_frame,
    read_data,
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
        return Downlink(
            ack=frame.ack,
            confirmed=frame.confirmed,
            f_pending=frame.bit_4,
            f_cnt=f_cnt,
            f_port=frame.f_port,
            payload=b"" if is_for_mac else payload,
            commands=from_network(payload if is_for_mac else frame.f_opts),
        )

    def counters(self) -> dict[str, int]:
        """What is written into the flash of a device with a fixed session; -1: none came yet."""
        return {"up": self.f_cnt_up, "down": -1 if self.f_cnt_down is None else self.f_cnt_down}

    def owed(self) -> int:
        """How many octets of MAC commands go with the next uplink."""
        return len(self._commands_that_fit())

    def _commands_that_fit(self) -> bytes:
        """What is asked goes first of all; answers as long as there is room."""
        asked = b"".join(command.octets for command in self.asked)
        told = b""
        for answer in self.answers:
            if len(told) + len(answer.octets) + len(asked) > F_OPTS_MAX:
                break
            told += answer.octets
        return told + asked


def last_down(counters: dict[str, int]) -> int | None:
    """The counter of the last downlink, as `Session.counters` writes it; None: none came yet."""
    return None if counters["down"] < 0 else counters["down"]


def joined(
    app_key: bytes, accept: JoinAccept, *, dev_nonce: int, first_f_cnt: int, number: int = 0
) -> Session:
    """The session that a join-accept opens."""
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
