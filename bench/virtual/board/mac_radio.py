"""How does the MAC of a board use its radio chip?"""

from collections.abc import Callable
from typing import TypeVar

from bench.virtual.air.emission import PUBLIC, Caught, Emission, Modulation, modulated
from bench.virtual.board.radio import Radio, sleep_until
from bench.virtual.board.radio import Window as Tuned
from bench.virtual.lorawan.channel_plan import ChannelPlan
from bench.virtual.mac import Listened, Received, Window

T = TypeVar("T")


class MacRadio:
    """The radio of one board for its MAC; remembers what it sends and hears: plan, sync word."""

    def __init__(self, radio: Radio, plan: ChannelPlan) -> None:
        self.plan = plan
        self.sync_word = PUBLIC
        self.unasked: Callable[[Caught, int, int], None] = lambda caught, dr, freq_hz: None
        self._radio = radio

    def listen_always(self) -> None:
        """Hear what no window takes, from now on."""
        self._radio.unasked = self._hear

    def send(
        self, phy: bytes, *, dr: int, freq_hz: int, power_dbm: int, facts: dict[str, object]
    ) -> Emission:
        """Put a frame on the air now."""
        modulation = self._modulation(dr, freq_hz, inverted=False)
        return self._radio.transmit(phy, modulation, power_dbm=power_dbm)

    async def listen(
        self,
        windows: tuple[Window, Window],
        believe: Callable[[Caught], T | None],
        *,
        gives_up_rx2: bool,
    ) -> Listened[T, Caught]:
        """The first frame that is believed; when all windows are over, none."""
        tuned = tuple(
            Tuned(one.slot, one.opens_us, self._modulation(one.dr, one.freq_hz, inverted=True))
            for one in windows
        )
        found = await self._radio.listen(tuned, believe, gives_up=gives_up_rx2)
        if found is None:
            return Listened(gave_up=self._radio.gave_up)
        return Listened(Received(found.content, found.slot, found.caught))

    async def sleep_until(self, when_us: int) -> None:
        """Wait with the radio off."""
        await sleep_until(when_us)

    def _hear(self, caught: Caught) -> None:
        modulation = caught.emission.modulation
        if caught.error or not modulation.inverted or modulation.sync_word != self.sync_word:
            return
        for dr, data_rate in enumerate(self.plan.data_rates):
            if data_rate == modulation.data_rate:
                self.unasked(caught, dr, modulation.freq_hz)

    def _modulation(self, dr: int, freq_hz: int, *, inverted: bool) -> Modulation:
        data_rate = self.plan.data_rates[dr]
        assert data_rate is not None, f"DR{dr} is not defined"
        return modulated(data_rate, freq_hz, inverted=inverted, sync_word=self.sync_word)
