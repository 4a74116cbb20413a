"""What does the server know about a device, and what does it remember of its session?"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from lns.dedup.strategy import Standing, Strategy
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame_counter import F_CNT_MAX, MAX_GAP
from lns.lorawan.identifiers import DevAddr, Eui


class Activation(StrEnum):
    """How a device gets its session: over the air, or by personalisation."""

    OTAA = "otaa"
    ABP = "abp"


class LoRaWanVersion(StrEnum):
    """The LoRaWAN version of a device; 1.0.4 made the DevNonce a counter."""

    V1_0_2 = "1.0.2"
    V1_0_3 = "1.0.3"
    V1_0_4 = "1.0.4"


class DeviceClass(StrEnum):
    """When a device listens: after its own uplinks (A), or always (C)."""

    A = "A"
    C = "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDevice:
    """The record of one device, as provisioned; keys never show in its repr.

    OTAA devices have `join_eui` and `app_key`, ABP devices `dev_addr` and `session_keys`.
    `server` pins the device to one LNS; `relaxed_f_cnt` lets an ABP device restart its counter.
    No join accept of it has a JoinNonce below `join_nonce_min`. It is asked for its status every
    `dev_status_s` seconds, None: only when an application wants it.
    """

    name: str
    dev_eui: Eui
    activation: Activation
    join_eui: Eui | None = None
    app_key: bytes | None = field(default=None, repr=False)
    dev_addr: DevAddr | None = None
    session_keys: SessionKeys | None = field(default=None, repr=False)
    lorawan: LoRaWanVersion = LoRaWanVersion.V1_0_4
    strategy: Strategy = Strategy.NONE
    server: str | None = None
    relaxed_f_cnt: bool = True
    f_cnt_bits: int = 32
    nb_trans: int = 1
    device_class: DeviceClass = DeviceClass.A
    join_nonce_min: int = 1
    dev_status_s: int | None = None

    @property
    def may_restart_counter(self) -> bool:
        """Only a relaxed ABP device restarts its counter without a new session."""
        return self.activation is Activation.ABP and self.relaxed_f_cnt


FCnt = Annotated[int, Meta(ge=0, le=F_CNT_MAX)]
Count = Annotated[int, Meta(ge=0)]


class Session(Struct, kw_only=True):
    """What the server remembers of one session until the device has joined again.

    `f_cnt_up` is the newest accepted counter (32 bits, None: nothing heard yet), `f_cnt_down` the
    next one to use. `resubmissions` counts the repeated answers per counter value and is
    emptied when the counter advances. `life` counts the restarts of a relaxed ABP counter.
    `copies` counts the copies that went up per counter value, so that each has its own id.
    Whoever reads one from a store is told of a value out of its range: nothing could use it.
    """

    dev_eui: Eui
    dev_addr: Annotated[DevAddr, Meta(pattern="^[0-9A-F]{8}$")]
    keys: SessionKeys
    f_cnt_up: FCnt | None = None
    f_cnt_down: Annotated[int, Meta(ge=0, le=F_CNT_MAX + 1)] = 0
    life: Count = 0
    resubmissions: dict[FCnt, Count] = msgspec.field(default_factory=dict)
    copies: dict[FCnt, Count] = msgspec.field(default_factory=dict)
    nb_trans: Annotated[int, Meta(ge=1, le=15)] = 1
    nb_trans_asked: bool = False

    def standing(self, f_cnt: int) -> Standing:
        """Where a counter stands against the newest accepted one.

        LoRaWAN 1.0.3, 4.3.1.5 (MAX_FCNT_GAP 16384); a device nobody has heard counts from 0.
        """
        if self.f_cnt_up is None or f_cnt > self.f_cnt_up:
            gap = f_cnt - (self.f_cnt_up or 0)
            return Standing.NEWER if gap <= MAX_GAP else Standing.TOO_FAR
        return Standing.EQUAL if f_cnt == self.f_cnt_up else Standing.OLDER

    def advance(self, f_cnt: int) -> None:
        """Make `f_cnt` the newest counter; a step back begins a new life of the counter.

        A device that begins again sends each frame once until it is asked for more.
        """
        if self.f_cnt_up is not None and f_cnt <= self.f_cnt_up:
            self.life += 1
            self.copies = {}
            self.nb_trans, self.nb_trans_asked = 1, False
        self.f_cnt_up = f_cnt
        self.resubmissions = {}
        # Late copies are forwarded of the newest frame and of a first message only.
        self.copies = {old: number for old, number in self.copies.items() if old <= 1}

    def snapshot(self) -> "Session":
        """The session as it is now; what happens to one of the two does not touch the other."""
        return replace(self, resubmissions=dict(self.resubmissions), copies=dict(self.copies))

    def step_back(self, before: "Session") -> None:
        """Undo `advance`: up counter, life and copies as in `before`; FCntDown only goes on."""
        self.f_cnt_up = before.f_cnt_up
        self.life = before.life
        self.resubmissions = dict(before.resubmissions)
        self.copies = dict(before.copies)
        self.nb_trans, self.nb_trans_asked = before.nb_trans, before.nb_trans_asked

    def catch_up(self, known: "Session") -> None:
        """Know what another server has met since; no counter ever goes back."""
        newest = self.life, -1 if self.f_cnt_up is None else self.f_cnt_up
        if (known.life, -1 if known.f_cnt_up is None else known.f_cnt_up) > newest:
            self.f_cnt_up, self.life = known.f_cnt_up, known.life
            self.resubmissions, self.copies = dict(known.resubmissions), dict(known.copies)
            self.nb_trans, self.nb_trans_asked = known.nb_trans, known.nb_trans_asked
        self.f_cnt_down = max(self.f_cnt_down, known.f_cnt_down)

    def number_copy(self, f_cnt: int) -> int:
        """The number of one more forwarded copy of a frame, from 1."""
        self.copies[f_cnt] = self.copies.get(f_cnt, 0) + 1
        return self.copies[f_cnt]

    def take_f_cnt_down(self) -> int:
        """The counter of the next downlink; each is handed out once in a session.

        It goes on when a relaxed device restarts: a device that begins again takes any counter,
        one that did not restart would refuse a repeated one.
        """
        f_cnt_down = self.f_cnt_down
        self.f_cnt_down += 1
        return f_cnt_down
