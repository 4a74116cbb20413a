"""What does the server know about a device, and what does it remember of its session?"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from lns.dedup.life import Counter, Lived, Standing, begun_again, gone_on, is_later, standing
from lns.dedup.strategy import Strategy
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame_counter import F_CNT_MAX
from lns.lorawan.identifiers import DevAddr, Eui, Mic


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


class Listening(Struct, frozen=True):
    """How a device of class A listens after an uplink (LoRaWAN 1.0.4, 6.2.5: DLSettings, RxDelay).

    `rx1_dr_offset` is how many steps RX1 is slower than the uplink, `rx_delay_s` 1 to 15 seconds to
    RX1, `rx2_dr` the data rate of RX2 (None: that of the region).
    """

    rx1_dr_offset: Annotated[int, Meta(ge=0, le=7)] = 0
    rx_delay_s: Annotated[int, Meta(ge=1, le=15)] = 1
    rx2_dr: Annotated[int, Meta(ge=0, le=15)] | None = None


AS_REGION_SAYS = Listening()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDevice:
    """The record of one device, as provisioned; keys never show in its repr.

    OTAA devices have `join_eui` and `app_key`, ABP devices `dev_addr` and `session_keys`.
    `server` pins the device to one LNS; `relaxed_f_cnt` lets an ABP device restart its counter.
    No join accept of it has a JoinNonce below `join_nonce_min`. It is asked for its status every
    `dev_status_s` seconds, None: only when an application wants it. `listening` is what its join
    accepts say of its receive windows, `more_channels_hz` on which it may send besides the channels
    of its region.
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
    listening: Listening = AS_REGION_SAYS
    more_channels_hz: tuple[int, ...] = ()

    @property
    def may_restart_counter(self) -> bool:
        """Only a relaxed ABP device restarts its counter without a new session."""
        return self.activation is Activation.ABP and self.relaxed_f_cnt


COPIED_MAX = 16  # counters whose copies are counted: more than come while a copy is on its way

FCnt = Annotated[int, Meta(ge=0, le=F_CNT_MAX)]
Count = Annotated[int, Meta(ge=0)]


class Session(Struct, kw_only=True):
    """What the server remembers of one session until the device has joined again.

    `f_cnt_up` is the newest accepted counter (32 bits, None: nothing heard yet) with `mic`, its
    frame, and `owner`, the LNS whose it was (None: of the only one); `life`, `lives` and `former`
    are those of `lns.dedup.life`. `f_cnt_down` is the next one to use. `resubmissions` counts the
    repeated answers per counter value and is emptied when the counter advances. `copies` counts
    the copies that went up, of the last counter values that had any, so that each has its own id.
    `listening` and `more_channels_hz` are what the join accept of this session said, whatever the
    record says by now.

    `heard` is the newest counter that this server heard itself, in `heard_life`: what it knows
    beyond that it was told. No store keeps that. Whoever reads a session from a store is told of a
    value out of its range: nothing could use it.
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
    lives: Count = 0
    former: dict[Count, FCnt] = msgspec.field(default_factory=dict)
    mic: Mic | None = None
    owner: str | None = None
    listening: Listening = AS_REGION_SAYS
    more_channels_hz: tuple[int, ...] | None = None  # Redis makes an object of an empty list
    heard: int | None = None
    heard_life: int = 0

    def __post_init__(self) -> None:
        # One that was kept before lives had numbers of their own.
        self.lives = max(self.lives, self.life)

    @property
    def counter(self) -> Counter:
        """How far the session has come."""
        return Counter(self.f_cnt_up, self.life, self.lives, self.former, self.mic)

    def standing(self, f_cnt: int) -> Standing:
        """Where a counter stands against the newest accepted one."""
        return standing(self, f_cnt)

    def standing_at(self, lns: str, f_cnt: int) -> Standing:
        """The same for one of several servers: what it was only told of makes no frame an old one.

        A counter that another server brought counts for it when it has heard that one itself.
        """
        found = standing(self, f_cnt)
        if found in (Standing.NEWER, Standing.TOO_FAR) or self.owner in (None, lns):
            return found
        heard = self.heard if self.heard_life == self.life else None
        if heard is None or f_cnt > heard:
            return Standing.NEWER
        return Standing.EQUAL if f_cnt == heard else Standing.OLDER

    def hear(self, f_cnt: int, life: int) -> None:
        """Note that this server heard a frame itself; an older one is no news."""
        if life == self.life and (self.heard_life != life or f_cnt > (self.heard or -1)):
            self.heard, self.heard_life = f_cnt, life

    def hear_all(self) -> None:
        """Let what is known count as heard: nobody waits for copies of it any more."""
        self.heard, self.heard_life = self.f_cnt_up, self.life

    def advance(self, f_cnt: int, mic: Mic, owner: str | None = None) -> Lived:
        """Make `f_cnt` the newest counter, and tell which frame that is.

        One that is not newer begins a new life of the counter.
        """
        is_newer = standing(self, f_cnt) in (Standing.NEWER, Standing.TOO_FAR)
        self.take((gone_on if is_newer else begun_again)(self, f_cnt, mic), owner)
        self.heard, self.heard_life = f_cnt, self.life
        return Lived(self.life)

    def learn(self, counter: Counter, owner: str | None) -> None:
        """Know what all servers together know; what this one knows better stays."""
        if is_later(counter, self):
            self.take(counter, owner)
        elif self.mic is None and not is_later(self, counter):
            self.mic = counter.mic  # a store of before knew none

    def take(self, counter: Counter, owner: str | None) -> None:
        """Have come so far.

        A device that begins again sends each frame once until it is asked for more. The numbers of
        copies go on through all lives: a late one may come of a former life.
        """
        if counter.life != self.life:
            self.nb_trans, self.nb_trans_asked = 1, False
        self.f_cnt_up, self.life, self.lives = counter.f_cnt_up, counter.life, counter.lives
        self.former, self.mic, self.owner = counter.former, counter.mic, owner
        self.resubmissions = {}

    def snapshot(self) -> "Session":
        """The session as a store keeps it; what happens to one of the two does not touch the other.

        Whoever reads it has heard nothing yet.
        """
        resubmissions, copies = dict(self.resubmissions), dict(self.copies)
        return replace(self, resubmissions=resubmissions, copies=copies, heard=None, heard_life=0)

    def before(self) -> "Session":
        """The session as it is now, to be brought back by `step_back`."""
        return replace(self)

    def step_back(self, before: "Session") -> None:
        """Undo `advance`: all of the up counter is as in `before`; FCntDown only goes on.

        A life that began keeps its number to itself only if something was sent up in it.
        """
        self.take(before.counter, before.owner)
        self.resubmissions, self.copies = before.resubmissions, before.copies
        self.heard, self.heard_life = before.heard, before.heard_life
        self.nb_trans, self.nb_trans_asked = before.nb_trans, before.nb_trans_asked

    def catch_up(self, known: "Session") -> None:
        """Know what another server has met since; no counter ever goes back."""
        if is_later(known, self):
            self.take(known.counter, known.owner)
            self.resubmissions = dict(known.resubmissions)
            self.nb_trans, self.nb_trans_asked = known.nb_trans, known.nb_trans_asked
        self.f_cnt_down = max(self.f_cnt_down, known.f_cnt_down)
        for f_cnt, number in known.copies.items():
            self._count_copies(f_cnt, number)

    def number_copy(self, f_cnt: int) -> int:
        """The number of one more forwarded copy of a frame, from 1."""
        number = self.copies.get(f_cnt, 0) + 1
        self._count_copies(f_cnt, number)
        return number

    def _count_copies(self, f_cnt: int, number: int) -> None:
        """Remember how many went up, of the first messages and of the last `COPIED_MAX` others."""
        number = max(number, self.copies.pop(f_cnt, 0))
        others = [old for old in self.copies if old > 1]
        for old in others[: max(0, len(others) + 1 - COPIED_MAX)]:
            del self.copies[old]
        self.copies[f_cnt] = number

    def take_f_cnt_down(self) -> int:
        """The counter of the next downlink; each is handed out once in a session.

        It goes on when a relaxed device restarts: a device that begins again takes any counter,
        one that did not restart would refuse a repeated one.
        """
        f_cnt_down = self.f_cnt_down
        self.f_cnt_down += 1
        return f_cnt_down
