"""The hardware rig: real boards at serial ports, real gateways, all else as on any rig with wires.

What was sent is learnt from what the stations tell; the taps let only those hear it that were
meant to. A replay is sent by a second radio.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from bench.device.interfaces import Sent
from bench.plan.planned_case import PlannedCase
from bench.rig.board_pool import Place
from bench.rig.device import DeviceOfCase
from bench.rig.device_book import Known
from bench.rig.hardware_bench import HardwareBench
from bench.rig.hardware_device import HardwareDevice
from bench.rig.hardware_station import AbsentStation, HardwareStation
from bench.rig.hearing import Hearing, OnAir
from bench.rig.injection import last_heard_us
from bench.rig.provisioning import Provisioned
from bench.rig.rig import Frame
from bench.rig.second_radio import SecondRadio
from bench.rig.tapped_station import TappedStation
from bench.rig.wired import WiredRig
from bench.transmission import Transmission
from bench.verdict.case import StimulusMissed
from bench.virtual.lorawan.time_on_air import time_on_air_us
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.station.messages import Jreq, Updf, parse_up

LIMIT_S = 900
"""Real air may keep a case waiting for its duty cycle."""
SEEN_WITHIN_US = 1_000_000
_AGAIN_US = 20_000


class HardwareRig(WiredRig):
    """One case on the boards and gateways of a lab, as its dry run has planned it.

    Remembers every transmission of its devices that a station has told of.
    """

    _bench: HardwareBench

    def __init__(
        self, bench: HardwareBench, planned: PlannedCase, *, alone: bool, **facts: Any
    ) -> None:
        self._planned = planned
        self._gateways = gateways_of(planned.stations, list(bench.gateways.switchboards))
        self._alone = alone
        self._hearing = Hearing()
        self._seen: list[tuple[Known, Transmission]] = []
        self._told: dict[int, OnAir] = {}
        self._place: Place | None = None
        super().__init__(bench, own_server=True, **facts)

    @property
    def limit_s(self) -> int:
        return LIMIT_S

    # --- devices and stations --------------------------------------------------------------------

    def new_device(self, provisioned: Provisioned) -> DeviceOfCase:
        return HardwareDevice(provisioned, self.start, self)

    def new_station(self, name: str, station_eui: Eui, seed: int) -> TappedStation:
        gateway = self._gateways.get(name)
        if gateway is None:
            absent = self.server, self.retimed, self.record, self._tap_of
            return AbsentStation(name, station_eui, *absent)
        switchboard = self._bench.gateways.switchboards[gateway]
        return HardwareStation(
            name,
            switchboard.station,
            self.server,
            retimed=self.retimed,
            record=self.record,
            taps=self._tap_of,
            switchboard=switchboard,
            owns=self._owns,
            audible=self._audible,
            lag_us=self._bench.gateways.lag_us(gateway),
            alone=self._alone,
            restarts=self._bench.gateways.restarts_of(gateway),
        )

    def shut_out(self, station: TappedStation) -> None:
        assert isinstance(station, HardwareStation | AbsentStation)
        station.shut_out()

    def let_in(self, station: TappedStation) -> None:
        assert isinstance(station, HardwareStation | AbsentStation)
        station.let_in()

    async def _switch_on(self) -> None:
        for name, gateway in self._gateways.items():
            if weaker_db := self._stations[name].weaker_db:
                await self._bench.gateways.attenuate(gateway, weaker_db)
        await super()._switch_on()

    async def ready(self) -> None:
        """Wait for boards, bring them into the state that this case needs, then begin."""
        place = self._place = await self._bench.pool.take(self._planned, alone=self._alone)
        await self._bench.gateways.until_up(self._bench.taps.uri)
        for server in self.servers:
            self.wired_server(server.lns).take = self.case.collect
        for planned in self._planned.on_air:
            device, board = self._hardware(planned.name), place.boards[planned.name]
            device.provisioned = await board.prepare(device.provisioned, planned, self._bench)
            device.board = board
        await super().ready()

    async def end(self) -> None:
        try:
            await super().end()
        finally:
            for name, gateway in self._gateways.items():
                if name in self._stations and self._stations[name].weaker_db:
                    await self._bench.gateways.attenuate(gateway, 0)
            if self._place is not None:
                for board in self._place.boards.values():
                    board.listener = self._bench.say
                await self._bench.pool.give_back(self._place)

    def _hardware(self, name: str) -> HardwareDevice:
        device = self._devices[name]
        assert isinstance(device, HardwareDevice)
        return device

    def _own_devices(self) -> list[HardwareDevice]:
        return [self._hardware(name) for name in self._devices]

    # --- who hears whom ------------------------------------------------------------------------

    def only(self, *stations: str) -> None:
        self.named(stations)
        self._hearing.only(stations)

    def heard_by(self, *stations: str | Iterable[str]) -> None:
        schedule = [(s,) if isinstance(s, str) else tuple(s) for s in stations]
        self.named(chain.from_iterable(schedule))
        self._hearing.schedule(schedule)

    def _known(self, text: str) -> tuple[HardwareDevice, Known] | None:
        for device in self._own_devices():
            known = device.book.recognise(text)
            if known is not None:
                return device, known
        return None

    def _owns(self, text: str) -> bool:
        return self._known(text) is not None

    def _audible(self, station: str, text: str) -> bool:
        """Take note of what a station tells, and say whether it was meant to hear that."""
        message = parse_up(text)
        if not isinstance(message, Updf | Jreq):
            return True
        one, is_new = self._hearing.heard(station, message.phy(), now_us())
        self._bench.note_strength(station, text)
        found = self._known(text)
        if found is not None:
            device, known = found
            device.book.asked(text)
            if is_new and not one.injected:
                self._note(device, known, one, message)
        return self._hearing.is_audible(station, one)

    def _note(self, device: HardwareDevice, known: Known, one: OnAir, message: Updf | Jreq) -> None:
        """Write what a device has sent, as `radio.transmit`."""
        attempt = 1 + sum(known.phy == earlier.phy for earlier, _ in self._seen)
        data_rate = self.medium.plan.data_rates[message.dr]
        assert data_rate is not None
        airtime_us = time_on_air_us(data_rate, len(known.phy), crc=True)
        facts: dict[str, object] = {"frame_id": known.frame_id, "genuine": True}
        if known.session is not None:
            facts |= {"session": known.session.number, "f_cnt": known.f_cnt}
        dev_eui = device.provisioned.dev_eui
        number = self.medium.observe(
            dev_eui, known.phy, {"dev_eui": dev_eui, **facts},
            freq_hz=message.freq_hz, dr=message.dr, airtime_us=airtime_us, attempt=attempt,
        )  # fmt: skip
        transmission = Transmission(
            number, "up", dev_eui, known.phy, message.freq_hz, message.dr, data_rate,
            one.since_us - airtime_us, airtime_us, 0, "device",
        )  # fmt: skip
        if known.session is None or known.f_cnt >= known.session.f_cnt_up:
            device.book.sent(known)
        self._seen.append((known, transmission))
        self._told[number] = one

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        """Write an event; the books learn from every downlink on its way."""
        if kind == "station.text" and "dropped" not in fields:
            text = str(fields["text"])
            for device in self._own_devices():
                if fields["direction"] == "down":
                    device.book.hear_down(text)
                else:
                    device.book.hear_report(text, self.region)
        super().record(source, kind, fields)

    # --- what devices ask ------------------------------------------------------------------------

    @property
    def place(self) -> int:
        """The place in what was heard that is now."""
        return len(self._seen)

    async def seen(
        self, dev_eui: Eui, since: int, wanted: Callable[[Known], bool]
    ) -> list[tuple[Known, Transmission]]:
        """The transmissions of a device since then; waits for the first, not for long.

        StimulusMissed when a station has not told of one that it was to hear.
        """
        until_us = now_us() + SEEN_WITHIN_US
        while True:
            found = [
                (known, transmission)
                for known, transmission in self._seen[since:]
                if transmission.sender == dev_eui and wanted(known)
            ]
            deaf = [name for _, one in found for name in self._deaf_to(one)]
            if found and not deaf:
                return found
            if now_us() > until_us:
                if deaf:
                    frame_id = found[0][0].frame_id
                    raise StimulusMissed("air", f"{deaf[0]} was to hear {frame_id}, and did not")
                return found
            await self.pause(_AGAIN_US)

    def nobody_can_tell(self) -> bool:
        """Whether no station of the case has a connection now; it keeps what it hears."""
        return not any(self._stations[name].is_up for name in self._gateways)

    def _deaf_to(self, transmission: Transmission) -> list[str]:
        """The stations that were to hear it, could have told so, and have not."""
        one = self._told[transmission.number]
        return [
            name
            for name in self._gateways
            if self._hearing.is_audible(name, one)
            and name not in one.told_by
            and self._stations[name].is_up
        ]

    async def may_send(self, transmitter: str, size: int, dr: int, *, times: int) -> None:
        """Wait until the region allows it."""
        await self._bench.may_send(transmitter, size, dr, times=times)

    def was_answered(self, dev_eui: Eui, since: int) -> bool:
        """Whether a downlink for this device was handed to a station since then."""
        begun_us = self._seen[since][1].start_us if since < len(self._seen) else 0
        text = "-".join(dev_eui[place : place + 2] for place in range(0, 16, 2))
        return any(
            event["kind"] == "station.text"
            and event["direction"] == "down"
            and "dropped" not in event
            and event["t_us"] >= begun_us
            and text in event["text"].upper()
            for event in self.case.events
        )

    async def flood(self, device: Any, *, by: str, frames: int) -> list[Sent]:
        raise self._is_missing("many radios at one moment")

    # --- a second radio ------------------------------------------------------------------------

    async def replay(self, frame: Frame, *, by: str, after: int = 1_000_000) -> None:
        await self.start()
        try:
            due_us = last_heard_us(self.case.events, frame.frame_id) + self.retimed(after)
        except LookupError as error:
            raise StimulusMissed("air", str(error)) from None
        second_radio = SecondRadio(self._bench, self._hearing, self.record)
        await second_radio.send(frame, by=by, due_us=due_us)

    # --- what is due -----------------------------------------------------------------------------

    def expect_reply(self, frame: Frame, line: str | None = None) -> None:
        said = self.reply_line(frame, line)
        for device in self._own_devices():
            if device.board is not None and device.provisioned.dev_eui == frame.dev_eui:
                own = device.board.driver.said(said)
                if own is not None:
                    super().expect_reply(frame, own)
                return
        super().expect_reply(frame, said)


def gateways_of(stations: Sequence[str], gateways: Sequence[str]) -> dict[str, str]:
    """Which gateway plays which station of a case: the one of its name, else the next one free."""
    played = {name: name for name in stations if name in gateways}
    free = iter([gateway for gateway in gateways if gateway not in played])
    return played | dict(zip((name for name in stations if name not in played), free, strict=False))
