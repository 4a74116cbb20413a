"""What does a LoRaWAN 1.0.x MAC of class A or C do between its application and its radio?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from bench.emulation.air_waiting import AirTimes
from bench.emulation.emission import PRIVATE, PUBLIC, Caught, Emission, Modulation, modulated
from bench.emulation.mac_answers import obey
from bench.emulation.mac_session import Downlink, Session, joined
from bench.emulation.mac_settings import MacSettings
from bench.emulation.radio import Radio, Received, Window, sleep_until
from lns.lorawan.frame import (
    JoinAcceptFields,
    MalformedFrame,
    MType,
    build_join_request,
    open_join_accept,
)
from lns.lorawan.identifiers import Eui

_JOIN_ACCEPT = MType.JOIN_ACCEPT << 5


@dataclass(slots=True)
class Cycle:
    """One message on its way: its tries, and what came back."""

    confirmed: bool
    tries: list[Emission] = field(default_factory=list)
    downlink: Received[Downlink] | None = None

    @property
    def acknowledged(self) -> bool:
        """Whether the server has confirmed it."""
        return self.downlink is not None and self.downlink.content.ack


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """How a message is repeated: how often, with which data rate, and when.

    All are given the number of the try, from 1; `next_us` also the last emission and its RX2: then
    comes the next try, or the verdict on a confirmed message.
    """

    number: int
    dr: Callable[[int], int]
    next_us: Callable[[int, Emission, Window], int]
    told: Callable[[int, Emission], None] = lambda number, emission: None


class Mac:
    """The MAC of one board from a boot to the next; remembers its session and the last channel."""

    def __init__(self, radio: Radio, settings: MacSettings, chance: Random) -> None:
        self.settings = settings
        self.session: Session | None = None
        self.air_times = AirTimes()
        self.unasked: Callable[[Received[Downlink]], None] = lambda received: None
        self.accept_was_refused = False
        self._radio = radio
        self._chance = chance
        self._last_freq_hz = 0
        radio.unasked = self.hear_unasked

    @property
    def sync_word(self) -> str:
        """What it sends and hears."""
        return PUBLIC if self.settings.public else PRIVATE

    def restricted_us(self, dr: int) -> int:
        """How long the duty cycle forbids to send with this data rate; 0 for not at all."""
        if not self.settings.duty_cycle:
            return 0
        bands = [self.settings.region.duty_cycle_band(hz) for hz in self._channels_hz(dr)]
        return min((self.air_times.wait_us(band) for band in bands), default=0)

    def max_payload(self, dr: int) -> int:
        """How many bytes of an application fit a frame now."""
        owed = len(self.session.answers) if self.session else 0
        return self.settings.region.max_payload(dr, repeater=False) - owed

    async def join(
        self,
        app_key: bytes,
        *,
        dev_eui: Eui,
        join_eui: Eui,
        dev_nonce: int,
        last_join_nonce: int = -1,
        told: Callable[[Emission], None] = lambda emission: None,
    ) -> Session | None:
        """Ask once for a session; it is in force if one was given.

        `accept_was_refused` tells whether there was a join-accept that is not for this device, or
        whose JoinNonce is not greater than `last_join_nonce`.
        """
        self.accept_was_refused = False
        phy = build_join_request(app_key, join_eui=join_eui, dev_eui=dev_eui, dev_nonce=dev_nonce)
        settings = self.settings
        emission = self._transmit(phy, settings.dr)
        told(emission)
        rx1_us, rx2_us = settings.join1_delay_us, settings.join2_delay_us
        windows = self._windows(emission, settings.dr, rx1_us, rx2_us, offset=0)

        def believe(caught: Caught) -> JoinAcceptFields | None:
            try:
                return open_join_accept(app_key, caught.emission.phy)
            except MalformedFrame:
                self.accept_was_refused = caught.emission.phy[0] == _JOIN_ACCEPT
                return None

        answer = await self._radio.listen(windows, believe)
        if answer is None:
            return None
        accept = answer.content
        if accept.join_nonce <= last_join_nonce:
            self.accept_was_refused = True
            return None
        self.session = joined(app_key, accept, dev_nonce)
        settings.rx1_delay_us = accept.receive_delay_us
        settings.rx2_delay_us = accept.receive_delay_us + 1_000_000
        settings.rx2_dr = accept.dl_settings.rx2_dr
        settings.nb_trans = 1
        return self.session

    async def deliver(self, phy: bytes, cycle: Cycle, tries: Tries) -> Cycle:
        """Send one frame as often as it takes; what the server wants of the MAC is done then."""
        session, settings = self.session, self.settings
        assert session is not None
        for number in range(1, tries.number + 1):
            dr = tries.dr(number)
            emission = self._transmit(phy, dr)
            cycle.tries.append(emission)
            tries.told(number, emission)
            windows = self._windows(
                emission, dr, settings.rx1_delay_us, settings.rx2_delay_us,
                offset=session.rx1_dr_offset,
            )  # fmt: skip
            answer = await self._radio.listen(windows, lambda c: session.believe(c.emission.phy))
            if answer is not None:
                obey(answer.content.commands, session, settings, answer.caught.snr_db)
                cycle.downlink = answer
                if answer.content.ack or not cycle.confirmed:
                    return cycle
            last = number == tries.number
            if cycle.confirmed or not last:
                await sleep_until(tries.next_us(number, emission, windows[1]))
        return cycle

    def _transmit(self, phy: bytes, dr: int) -> Emission:
        """Send on another channel than the last time, where there is one that may be used."""
        settings = self.settings
        usable = self._channels_hz(dr)
        if settings.duty_cycle:
            bands = {hz: settings.region.duty_cycle_band(hz) for hz in usable}
            free = [hz for hz in usable if not self.air_times.wait_us(bands[hz])]
            usable = free or usable
        others = [hz for hz in usable if hz != self._last_freq_hz]
        freq_hz = self._last_freq_hz = self._chance.choice(others or usable)
        emission = self._radio.transmit(
            phy, self._modulation(dr, freq_hz, inverted=False), power_dbm=settings.power_dbm
        )
        self.air_times.note(settings.region.duty_cycle_band(freq_hz), emission)
        return emission

    def _channels_hz(self, dr: int) -> list[int]:
        settings = self.settings
        if settings.single_channel_hz:
            return [settings.single_channel_hz]
        known = [
            channel.freq_hz
            for number, channel in enumerate(settings.region.uplink_channels)
            if channel.dr_min <= dr <= channel.dr_max and settings.uses(number)
        ]
        more = (self.session and self.session.more_channels_hz) or settings.added_channels_hz
        first = len(settings.region.uplink_channels)
        added = [hz for at, hz in enumerate(more) if settings.uses(first + at)]
        return [*known, *added] or list(settings.region.default_channels_hz[:1])

    def _windows(
        self, emission: Emission, dr: int, rx1_us: int, rx2_us: int, *, offset: int
    ) -> tuple[Window, Window]:
        settings = self.settings
        freq_hz = emission.modulation.freq_hz
        rx1_dr, rx1_freq_hz = settings.region.rx1(dr, freq_hz, offset)
        rx1 = self._modulation(rx1_dr, rx1_freq_hz, inverted=True)
        return (
            Window("1", emission.end_us + rx1_us, rx1),
            Window("2", emission.end_us + rx2_us, self._rx2()),
        )

    def _rx2(self) -> Modulation:
        return self._modulation(self.settings.rx2_dr, self.settings.rx2_freq_hz, inverted=True)

    def _modulation(self, dr: int, freq_hz: int, *, inverted: bool) -> Modulation:
        data_rate = self.settings.region.data_rates[dr]
        assert data_rate is not None, f"DR{dr} is not defined"
        return modulated(data_rate, freq_hz, inverted=inverted, sync_word=self.sync_word)

    def hear_unasked(self, caught: Caught) -> None:
        """Take a frame that no window takes: in class C RX2 is open all the time."""
        session = self.session
        if session is None or not self.settings.class_c or caught.error:
            return
        if caught.emission.modulation != self._rx2():
            return
        downlink = session.believe(caught.emission.phy)
        if downlink is not None:
            obey(downlink.commands, session, self.settings, caught.snr_db)
            self.unasked(Received(downlink, "C", caught))
