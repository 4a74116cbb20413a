"""What may one ask of a power switch?"""

import asyncio
from typing import Protocol

OFF_US = 3_000_000
"""How long a board is without power unless somebody says otherwise: its capacitors are empty."""


class PowerFailed(Exception):
    """A switch or an attenuator did not do what it was told; the text says why and what to do."""


class PowerSwitch(Protocol):
    """The power of one thing, or its reset button: then `cycle` presses it."""

    async def on(self) -> None:
        """Switch it on; PowerFailed if that was not done."""

    async def off(self) -> None:
        """Switch it off; PowerFailed if that was not done."""

    async def cycle(self, off_us: int = OFF_US) -> None:
        """Switch it off, and on again after `off_us` microseconds; PowerFailed."""


async def off_and_on(switch: PowerSwitch, off_us: int) -> None:
    """Off, a while, on; it ends switched on, even when it is cancelled in between.

    What was asked cannot be taken back: whoever cancels it waits until it is known to be off.
    """
    off = asyncio.ensure_future(switch.off())
    try:
        await asyncio.shield(off)
        await asyncio.sleep(off_us / 1_000_000)
    finally:
        await asyncio.wait([off])
        if off.exception() is None:
            await switch.on()
