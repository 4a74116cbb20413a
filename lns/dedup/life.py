"""How far has the counter of a session come, and in which of its lives?

Only a relaxed ABP device has more than one life: its counter may begin again at 0 or 1. Nobody can
tell a restart from an old first message that somebody replays, so a session remembers how far the
lives before came, as long as they came farther than those after them. Two rules place a counter:

1. Higher than how far a former life came, it continues that life (of several the farthest), and
   the lives after it are over. So the counter of a life is never higher than that of one before.
2. Otherwise it is judged by the newest life: newer, equal or older.

A counter is used in a life once, so life and counter together name a frame.
"""

from enum import Enum
from typing import Protocol

import msgspec
from msgspec import Struct

from lns.lorawan.frame_counter import MAX_GAP
from lns.lorawan.identifiers import Mic

LIVES_MAX = 8  # former lives of one session; of more, the oldest is forgotten


class Standing(Enum):
    """Where a frame counter stands against the newest accepted one of its session."""

    NEWER = "newer"
    EQUAL = "equal"
    OLDER = "older"
    TOO_FAR = "too far"


class Counter(Struct, frozen=True):
    """How far a session has come: `f_cnt_up` (None: nothing heard yet) in `life`.

    `lives` is the number of the newest life that ever began, `former` how far each former life
    came that came farther than those after it, `mic` of the frame that came with `f_cnt_up`.
    """

    f_cnt_up: int | None = None
    life: int = 0
    lives: int = 0
    former: dict[int, int] = msgspec.field(default_factory=dict)
    mic: Mic | None = None


class Lived(Struct, frozen=True):
    """Which frame this is: of which life, and whether another one has the name that it would have.

    `odd`: its counter was used by other bytes, or may have been.
    """

    life: int = 0
    odd: bool = False


class HasCome(Protocol):
    """Whatever knows how far a session has come: a `Counter`, or the session itself."""

    @property
    def f_cnt_up(self) -> int | None: ...
    @property
    def life(self) -> int: ...
    @property
    def lives(self) -> int: ...
    @property
    def former(self) -> dict[int, int]: ...


def standing(known: HasCome, f_cnt: int) -> Standing:
    """Where a counter stands (LoRaWAN 1.0.3, 4.3.1.5); a device nobody has heard counts from 0."""
    newest = known.f_cnt_up
    for f_cnt_up in known.former.values():
        if f_cnt > f_cnt_up:
            newest = f_cnt_up
            break
    if newest is None or f_cnt > newest:
        gap = f_cnt - (newest or 0)
        return Standing.NEWER if gap <= MAX_GAP else Standing.TOO_FAR
    return Standing.EQUAL if f_cnt == newest else Standing.OLDER


def gone_on(known: HasCome, f_cnt: int, mic: Mic) -> Counter:
    """The counter after one that is newer, perhaps back in a former life."""
    for life, f_cnt_up in known.former.items():
        if f_cnt > f_cnt_up:
            older = {before: far for before, far in known.former.items() if before < life}
            return Counter(f_cnt, life, known.lives, older, mic)
    return Counter(f_cnt, known.life, known.lives, known.former, mic)


def begun_again(known: HasCome, f_cnt: int, mic: Mic) -> Counter:
    """The counter after a first message that begins a new life."""
    former, newest = known.former, known.f_cnt_up
    if newest is not None and newest > f_cnt and newest < min(former.values(), default=newest + 1):
        farther = [*former.items(), (known.life, newest)]
        former = dict(farther[-LIVES_MAX:])
    return Counter(f_cnt, known.lives + 1, known.lives + 1, former, mic)


def is_later(one: HasCome, other: HasCome) -> bool:
    """Whether one of two knows more of a session.

    A life that began counts more than one before it, until the session goes back to that.
    """
    return _order(one) > _order(other)


def _order(known: HasCome) -> tuple[int, int, int]:
    return known.lives, -known.life, -1 if known.f_cnt_up is None else known.f_cnt_up
