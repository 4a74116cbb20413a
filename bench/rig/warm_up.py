"""What does a board send before a case begins, so that its counters and its MAC are right?"""

import asyncio
from typing import Protocol

from bench.device.device_config import DeviceSession
from bench.device.interfaces import AttachedDevice
from bench.rig.device_book import DeviceBook
from bench.rig.repetition import told_to_repeat
from bench.verdict.case import StimulusMissed
from lns.lorawan.region import Region

MID_LIFE_F_CNT = 2
"""FCnt 0 and 1 may be those of a device that has just restarted; from 2 on nobody thinks so."""
DATA_OVERHEAD_BYTES = 13
"""MHDR, DevAddr, FCtrl, FCnt, FPort and MIC."""
FRAMES_MAX = 6
_PAYLOAD = b"warm up"


class Warm(Protocol):
    """A board, as far as this goes: `frames` counts what was heard of it, `told` the last words."""

    driver: AttachedDevice
    book: DeviceBook
    frames: int
    told: tuple[str, str]
    nb_trans: int

    @property
    def name(self) -> str:
        """Its name in the inventory."""

    @property
    def dr(self) -> int:
        """The data rate that it sends with."""


class OverTheAir(Protocol):
    """What a board needs of the bench to get a frame through without any case."""

    async def heard(self, board: Warm, since: int) -> int:
        """How many transmissions of a board were heard since; waits a moment for the first."""

    async def may_send(self, transmitter: str, size: int, dr: int, *, times: int = 1) -> None:
        """Wait until region and air allow it so many octets, and book them; NeverPermitted."""

    async def answer(self, board: Warm, dnmsg: str) -> None:
        """Let the gateway that has heard a board last send it something; LinkClosed."""


async def warm_up(board: Warm, air: OverTheAir) -> None:
    """Send until a frame was heard whose counter is that of no beginning; StimulusMissed."""
    session = _session(board)
    for _ in range(FRAMES_MAX):
        await _may_send(board, air)
        since = board.frames
        await board.driver.send(_PAYLOAD, port=1)
        await air.heard(board, since)
        if session.f_cnt_up >= MID_LIFE_F_CNT:
            return
    raise StimulusMissed(
        "air",
        f"{board.name}: no station heard any of {FRAMES_MAX} frames; antennas, attenuators,"
        " channel plan of the gateways?",
    )


async def repeat(board: Warm, nb_trans: int, region: Region, air: OverTheAir) -> None:
    """Let the network tell it to send each frame so often, until it does; StimulusMissed."""
    session = _session(board)
    for _ in range(FRAMES_MAX):
        await _may_send(board, air)
        since = board.frames
        sending = asyncio.ensure_future(board.driver.send(_PAYLOAD, port=1))
        try:
            if await air.heard(board, since):
                told = board.told[1]
                dnmsg = told_to_repeat(told, board.book.dev_eui, session, region, nb_trans)
                await air.answer(board, dnmsg)
        finally:
            await sending
        await _may_send(board, air, times=nb_trans)
        since = board.frames
        await board.driver.send(_PAYLOAD, port=1, transmissions=nb_trans)
        if board.frames - since >= nb_trans:
            board.nb_trans = nb_trans
            return
    raise StimulusMissed("device", f"{board.name}: it does not repeat, though it was told to")


async def _may_send(board: Warm, air: OverTheAir, *, times: int = 1) -> None:
    await air.may_send(board.name, DATA_OVERHEAD_BYTES + len(_PAYLOAD), board.dr, times=times)


def _session(board: Warm) -> DeviceSession:
    session = board.book.session
    assert session is not None, "only a board with a session can send"
    return session
