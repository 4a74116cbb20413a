"""Who sent this frame, if another server has met the device since?

Sessions are in memory, and read again from the shared store only when a frame shows that they are
out of date. Whoever sends frames that fit nobody must not make this server ask for each of them.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from cachetools import FIFOCache, TTLCache

from lns.dedup.claim import STATE_US
from lns.dedup.session import Standing
from lns.dedup.strategy import Reason
from lns.lorawan.identifiers import DevAddr, Eui
from lns.outage import StoreUnavailable, in_time
from lns.uplink.registry import Match, Registry

ASK_US = 250_000
AGAIN_US = 5_000_000  # the same DevAddr is not asked for twice in this time
ASKED_MAX = 10_000
UNDER_WAY_MAX = 64
# A claim is remembered for a day: who has looked since then knows every counter that a claim has
# forgotten. The minutes are for clocks that run unevenly.
FRESH_US = STATE_US - 600_000_000
FRESH_MAX = 1_000_000
_DEVICES_MAX = 8  # more than a few that share a DevAddr are no accident


@runtime_checkable
class SharedSessions(Protocol):
    """A store that other servers write to as well."""

    async def refresh(self, dev_eui: Eui) -> None:
        """Read again what it holds of a device; StoreUnavailable when that fails."""

    async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        """The devices that a join gave a DevAddr; StoreUnavailable when nobody can say."""


class SessionRefresh:
    """Asks the shared store who has a DevAddr, once in `AGAIN_US`, whatever the answer was.

    Remembers at most `ASKED_MAX` of them and asks for `UNDER_WAY_MAX` at a time; a frame beyond
    that is judged by what is known here. Copies that arrive meanwhile wait for the same answer.
    """

    def __init__(
        self, registry: Registry, shared: SharedSessions, now_us: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._shared = shared
        self._now_us = now_us
        self._asked: TTLCache[DevAddr, bool] = TTLCache(ASKED_MAX, AGAIN_US, timer=now_us)
        self._under_way: dict[DevAddr, asyncio.Event] = {}
        self._began_us = 0
        self._learnt_us: FIFOCache[DevAddr, int] = FIFOCache(FRESH_MAX)

    def begin(self) -> None:
        """Everything that the store knows has just been read; only the first call counts."""
        self._began_us = self._began_us or self._now_us()

    def may_help(self, match: Match | Reason, *, seen: bool) -> bool:
        """Whether a frame looks as if this server missed something; `seen`: it is a copy."""
        if isinstance(match, Reason):
            return match in (Reason.UNKNOWN_DEVICE, Reason.MIC_MISMATCH)
        if seen or match.device.server is not None:
            return False
        standing = match.session.standing(match.f_cnt)
        return standing is Standing.TOO_FAR or self._is_out_of_date(match)

    async def ask(self, dev_addr: DevAddr, match: Match | Reason) -> bool:
        """Learn what the store knows of a DevAddr; False when nothing was asked or answered.

        Whoever is proven to be a device is not made to wait for strangers.
        """
        if isinstance(match, Match):
            return await self._learn_of_proven(match, is_old=self._is_out_of_date(match))
        under_way = self._under_way.get(dev_addr)
        if under_way is not None:
            await under_way.wait()
            return True
        if not self._is_due(dev_addr):
            return False
        done = self._under_way[dev_addr] = asyncio.Event()
        try:
            await in_time("the store", ASK_US, self._learn(dev_addr))
            self._note_learnt(dev_addr)
            return True
        except StoreUnavailable:
            return False
        finally:
            del self._under_way[dev_addr]
            done.set()

    async def learn_of(self, dev_eui: Eui) -> None:
        """Know all that the store knows of one device; StoreUnavailable."""
        await in_time("the store", ASK_US, self._shared.refresh(dev_eui))
        self._registry.catch_up(dev_eui)

    async def _learn_of_proven(self, match: Match, *, is_old: bool) -> bool:
        try:
            await self.learn_of(match.device.dev_eui)
        except StoreUnavailable:
            return False
        if is_old:
            match.session.hear_all()
        self._note_learnt(match.session.dev_addr)
        return True

    def _is_due(self, dev_addr: DevAddr) -> bool:
        if dev_addr in self._asked or len(self._under_way) >= UNDER_WAY_MAX:
            return False
        self._asked[dev_addr] = True
        return True

    async def _learn(self, dev_addr: DevAddr) -> None:
        here = self._registry.devices_with(dev_addr)
        found = sorted({*here, *await self._shared.devices_with(dev_addr)})
        for dev_eui in found[:_DEVICES_MAX]:
            if self._registry.device(dev_eui) is not None:
                await self._shared.refresh(dev_eui)
                self._registry.catch_up(dev_eui)

    def _is_out_of_date(self, match: Match) -> bool:
        """Whether claims that this server has not heard of may be forgotten by now."""
        learnt_us = self._learnt_us.get(match.session.dev_addr, self._began_us)
        return self._now_us() - learnt_us >= FRESH_US

    def _note_learnt(self, dev_addr: DevAddr) -> None:
        self._learnt_us[dev_addr] = self._now_us()
