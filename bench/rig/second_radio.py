"""How does a captured frame get on the air again, at its time, and who is to hear it?"""

import asyncio

from bench.capture import Record
from bench.rig.hardware_bench import HardwareBench
from bench.rig.hearing import Hearing
from bench.rig.injection import DATA_RATE, first_channel
from bench.rig.rig import Frame
from bench.verdict.case import StimulusMissed
from lns.clock import now_us
from lns.lorawan.airtime import frame_airtime_us

HEARD_WITHIN_US = 3_000_000
SET_UP_US = 700_000
"""How long a replayer takes to get ready, with some room."""
LATE_US_MAX = 350_000
"""A replay that comes so much later than due is another one than the scenario asked for."""
_AGAIN_S = 0.02


class SecondRadio:
    """The replayer of the bench in the hands of one case."""

    def __init__(self, bench: HardwareBench, hearing: Hearing, record: Record) -> None:
        self._bench = bench
        self._hearing = hearing
        self._record = record

    async def send(self, frame: Frame, *, by: str, due_us: int) -> None:
        """Send a frame again at that time, or now; to be heard by one station; StimulusMissed.

        It returns when that station has told of it.
        """
        bench, replayer = self._bench, self._bench.replayer
        assert replayer is not None, "the dry run has seen that this takes a replayer"
        channel = first_channel(bench.region)
        due_us = max(due_us, now_us())
        airtime_us = frame_airtime_us(DATA_RATE, len(frame.phy), crc=True)
        await _until(due_us - SET_UP_US)
        async with bench.replaying:  # others replay too, and nobody has it while he only waits
            await replayer.tune(freq_hz=channel["freq_hz"], data_rate=DATA_RATE)
            await _until(due_us - airtime_us)
            await bench.may_send(replayer.name, len(frame.phy), channel["dr"])
            self._hearing.expect_injected(frame.phy, (by,))
            told = self._hearing.told_injected
            self._note("fault.begin", frame, by)
            await replayer.transmit(frame.phy, freq_hz=channel["freq_hz"], data_rate=DATA_RATE)
            self._note("fault.end", frame, by)
            await self._until_told(frame, told)
        late_us = now_us() - due_us
        # Until the taps have let it through.
        await asyncio.sleep(bench.gateways.lag_us_max / 1_000_000)
        if late_us > LATE_US_MAX:
            raise StimulusMissed("bench", f"a replay came {late_us // 1000} ms late")

    async def _until_told(self, frame: Frame, told: int) -> None:
        until_us = now_us() + HEARD_WITHIN_US
        while self._hearing.told_injected == told:
            if now_us() > until_us:
                raise StimulusMissed("air", f"no station heard the replay of {frame.frame_id}")
            await asyncio.sleep(_AGAIN_S)

    def _note(self, kind: str, frame: Frame, by: str) -> None:
        told: dict[str, object] = {"seam": "air", "fault": "replay", "origin": "injected"}
        self._record("bench", kind, told | {"detail": {"frame_id": frame.frame_id, "by": by}})


async def _until(when_us: int) -> None:
    await asyncio.sleep(max(0, when_us - now_us()) / 1_000_000)
