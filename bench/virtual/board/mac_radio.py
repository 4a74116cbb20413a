"""How does the MAC of a board use its radio chip?"""

from collections.abc import Callable
from typing import TypeVar

from bench.transmission import Eui, Transmission
from bench.virtual.air.emission import PRIVATE, PUBLIC, Caught, Emission, Modulation, modulated
from bench.virtual.air.medium import Heard
from bench.virtual.board.radio import Radio, sleep_until
from bench.virtual.board.radio import Window as Tuned
from bench.virtual.lorawan.channel_plan import EU868, ChannelPlan
from bench.virtual.mac import Listened, Received, Window

T = TypeVar("T")


class ChipRadio:
    """The radio of one board for its MAC; remembers what it sends and hears: plan, sync word."""

    def __init__(self, chip: Radio) -> None:
        self.unasked: Callable[[Heard, int, int], None] = lambda heard, dr, freq_hz: None
        self._plan = EU868
        self._sync_word = PUBLIC
        self._chip = chip

    def tune(self, plan: ChannelPlan, *, public: bool) -> None:
        self._plan, self._sync_word = plan, PUBLIC if public else PRIVATE

    def hear_always(self) -> None:
        self._chip.unasked = self._hear

    def send(
        self, phy: bytes, *, dr: int, freq_hz: int, power_dbm: int, facts: dict[str, object]
    ) -> Transmission:
        modulation = self._modulation(dr, freq_hz, inverted=False)
        emission = self._chip.transmit(phy, modulation, power_dbm=power_dbm)
        return _transmission(emission, dr, is_uplink=True)

    async def listen(
        self,
        windows: tuple[Window, Window],
        believe: Callable[[Heard], T | None],
        *,
        gives_up_rx2: bool,
    ) -> Listened[T]:
        tuned = tuple(
            Tuned(one.slot, one.opens_us, self._modulation(one.dr, one.freq_hz, inverted=True))
            for one in windows
        )
        found = await self._chip.listen(
            tuned, lambda caught: believe(self._heard(caught)), gives_up=gives_up_rx2
        )
        if found is None:
            return Listened(gave_up=self._chip.gave_up)
        return Listened(Received(found.content, found.slot, self._heard(found.caught)))

    async def sleep_until(self, when_us: int) -> None:
        await sleep_until(when_us)

    def _hear(self, caught: Caught) -> None:
        modulation = caught.emission.modulation
        if caught.error or not modulation.inverted or modulation.sync_word != self._sync_word:
            return
        for dr, data_rate in enumerate(self._plan.data_rates):
            if data_rate == modulation.data_rate:
                self.unasked(self._heard(caught), dr, modulation.freq_hz)

    def _heard(self, caught: Caught) -> Heard:
        emission = caught.emission
        dr = self._plan.data_rates.index(emission.modulation.data_rate)
        transmission = _transmission(emission, dr, is_uplink=False)
        return Heard(transmission, caught.rssi_dbm, caught.snr_db, emission.end_us)

    def _modulation(self, dr: int, freq_hz: int, *, inverted: bool) -> Modulation:
        data_rate = self._plan.data_rates[dr]
        assert data_rate is not None, f"DR{dr} is not defined"
        return modulated(data_rate, freq_hz, inverted=inverted, sync_word=self._sync_word)


def _transmission(emission: Emission, dr: int, *, is_uplink: bool) -> Transmission:
    """An emission in the words of a MAC."""
    return Transmission(
        number=emission.number,
        direction="up" if is_uplink else "down",
        sender=Eui(emission.sender),
        phy=emission.phy,
        freq_hz=emission.freq_hz,
        dr=dr,
        data_rate=emission.modulation.data_rate,
        start_us=emission.start_us,
        airtime_us=emission.airtime_us,
        power_dbm=emission.power_dbm,
        origin="device" if is_uplink else "station",
    )
