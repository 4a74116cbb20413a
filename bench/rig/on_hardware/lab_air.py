"""The air of a lab, as one case has it: who is to hear what, what was heard, what is replayed?

What was sent is learnt from what the stations tell; the taps let only those hear it that were
meant to. A replay is sent by a second radio.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from bench.clock import until
from bench.plan import Item, PlannedCase
from bench.rig.case_setup import CaseSetup
from bench.rig.interfaces import CaseStation, Frame, Stations
from bench.rig.on_hardware.hardware_bench import Audibility, HardwareBench, HeardTransmission
from bench.rig.provisioning import DeviceBook, Known
from bench.rig.stations import DATA_RATE, TappedStation, first_channel, last_heard_us
from bench.station.switchboard import Party
from bench.transmission import Transmission
from bench.verdict.case import StimulusMissed
from bench.virtual.lorawan.channel_plan import time_on_air_us
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import frame_airtime_us
from lns.station.messages import Jreq, Updf, parse_up

SEEN_WITHIN_US = 1_000_000
HEARD_WITHIN_US = 3_000_000
SET_UP_US = 700_000
"""How long a replayer takes to get ready, with some room."""
LATE_US_MAX = 350_000
"""A replay that comes so much later than due is another one than the scenario asked for."""
_AGAIN_US = 20_000


class BookKept(Protocol):
    """A device, as far as what is heard of it goes."""

    @property
    def book(self) -> DeviceBook: ...

    @property
    def dev_eui(self) -> Eui: ...


class LabAir:
    """What one case has heard of its devices; remembers every transmission that a station told of.

    `gateways`: which gateway plays which station. `alone`: no other case uses them meanwhile.
    """

    def __init__(
        self, setup: CaseSetup, bench: HardwareBench, planned: PlannedCase, *, alone: bool
    ) -> None:
        self.setup = setup
        self.bench = bench
        self.planned = planned
        self.alone = alone
        self.gateways = gateways_of(planned.stations, list(bench.gateways.switchboards))
        self.audibility = Audibility()
        self._seen: list[tuple[Known, Transmission]] = []
        self._told: dict[int, HeardTransmission] = {}
        setup.listeners.append(self._keep_books)

    def _devices(self) -> list[BookKept]:
        return list(self.setup.devices.values())  # type: ignore[arg-type]

    def _known(self, text: str) -> tuple[BookKept, Known] | None:
        for device in self._devices():
            known = device.book.recognise(text)
            if known is not None:
                return device, known
        return None

    def owns(self, text: str) -> bool:
        return self._known(text) is not None

    def is_audible(self, station: str, text: str) -> bool:
        """Take note of what a station tells, and say whether it was meant to hear that."""
        message = parse_up(text)
        if not isinstance(message, Updf | Jreq):
            return True
        one, is_new = self.audibility.heard(station, message.phy(), now_us())
        self.bench.note_strength(station, text)
        found = self._known(text)
        if found is not None:
            device, known = found
            device.book.asked(text)
            if is_new and not one.injected:
                self._note(device, known, one, message)
        return self.audibility.is_audible(station, one)

    def _note(
        self, device: BookKept, known: Known, one: HeardTransmission, message: Updf | Jreq
    ) -> None:
        attempt = 1 + sum(known.phy == earlier.phy for earlier, _ in self._seen)
        data_rate = self.setup.medium.plan.data_rates[message.dr]
        assert data_rate is not None
        airtime_us = time_on_air_us(data_rate, len(known.phy), crc=True)
        facts: dict[str, object] = {"frame_id": known.frame_id, "genuine": True}
        if known.session is not None:
            facts |= {"session": known.session.number, "f_cnt": known.f_cnt}
        dev_eui = device.dev_eui
        number = self.setup.medium.observe(
            dev_eui, known.phy, {"dev_eui": dev_eui, **facts},
            freq_hz=message.freq_hz, dr=message.dr, airtime_us=airtime_us, attempt=attempt,
        )  # fmt: skip
        transmission = Transmission(
            number, "up", dev_eui, known.phy, message.freq_hz, message.dr, data_rate,
            one.since_us - airtime_us, airtime_us, one.since_us, 0, "device",
        )  # fmt: skip
        if known.session is None or known.f_cnt >= known.session.f_cnt_up:
            device.book.sent(known)
        self._seen.append((known, transmission))
        self._told[number] = one

    def _keep_books(self, source: str, kind: str, fields: dict[str, object]) -> None:
        if kind == "station.text" and "dropped" not in fields:
            text = str(fields["text"])
            for device in self._devices():
                if fields["direction"] == "down":
                    device.book.hear_down(text)
                else:
                    device.book.hear_report(text, self.setup.region)

    @property
    def place(self) -> int:
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
            await asyncio.sleep(_AGAIN_US / 1_000_000)

    def nobody_can_tell(self) -> bool:
        """Whether no station of the case has a connection now; it keeps what it hears."""
        return not any(self.setup.stations[name].is_up for name in self.gateways)

    def _deaf_to(self, transmission: Transmission) -> list[str]:
        one = self._told[transmission.number]
        return [
            name
            for name in self.gateways
            if self.audibility.is_audible(name, one)
            and name not in one.told_by
            and self.setup.stations[name].is_up
        ]

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
            for event in self.setup.case.events
        )

    # --- a second radio -------------------------------------------------------------------------

    async def replay(self, frame: Frame, *, by: str, due_us: int) -> None:
        """Send a frame again at that time, or now; to be heard by one station; StimulusMissed.

        It returns when that station has told of it.
        """
        bench, replayer = self.bench, self.bench.replayer
        assert replayer is not None, "the dry run has seen that this takes a replayer"
        channel = first_channel(bench.region)
        due_us = max(due_us, now_us())
        airtime_us = frame_airtime_us(DATA_RATE, len(frame.phy), crc=True)
        await self.setup.pause(due_us - SET_UP_US - now_us())
        async with bench.replaying:  # others replay too, and nobody has it while he only waits
            await replayer.tune(freq_hz=channel["freq_hz"], data_rate=DATA_RATE)
            await self.setup.pause(due_us - airtime_us - now_us())
            await bench.may_send(replayer.name, len(frame.phy), channel["dr"])
            self.audibility.expect_injected(frame.phy, (by,))
            told = self.audibility.told_injected
            detail = {"frame_id": frame.frame_id, "by": by}
            self.setup.case.fault("air", "replay", **detail)
            await replayer.transmit(frame.phy, freq_hz=channel["freq_hz"], data_rate=DATA_RATE)
            self.setup.case.fault("air", "replay", "fault.end", **detail)
            await until(
                lambda: self.audibility.told_injected != told,
                HEARD_WITHIN_US,
                lambda: StimulusMissed("air", f"no station heard the replay of {frame.frame_id}"),
            )
        late_us = now_us() - due_us
        # Until the taps have let it through.
        await asyncio.sleep(bench.gateways.lag_us_max / 1_000_000)
        if late_us > LATE_US_MAX:
            raise StimulusMissed("bench", f"a replay came {late_us // 1000} ms late")


class GatewayStation(TappedStation):
    """One gateway for one case.

    The air says which receptions are of this case, and which of them it was meant to hear.
    """

    can = frozenset({Item.ATTENUATOR})

    def __init__(self, name: str, gateway: str, air: LabAir) -> None:
        gateways = air.bench.gateways
        switchboard = gateways.switchboards[gateway]
        super().__init__(name, switchboard.station, air.setup)
        self.switchboard = switchboard
        self._alone = air.alone
        self._restart = partial(gateways.restart, gateway)
        self._party = Party(self.tap.accept, air.owns)
        self._is_fresh = not self._alone
        self._task: asyncio.Task[None] | None = None
        self.tap.lag_us = gateways.lag_us(gateway)
        self.tap.audible = lambda text: air.is_audible(name, text)
        self.tap.xtime_now = switchboard.clock.xtime_now

    @property
    def is_up(self) -> bool:
        if self._party.trouble:
            raise RuntimeError(self._party.trouble)
        return self._is_fresh and self.switchboard.is_up and self.tap.is_connected

    def start(self) -> None:
        tasks = self.setup.tasks
        self._task = tasks.create_task(self.tap.run())
        self.switchboard.join(self._party, alone=self._alone)
        if not self._is_fresh:
            tasks.create_task(self._refresh())

    async def _refresh(self) -> None:
        await self._restart()
        self._is_fresh = True

    def stop(self) -> None:
        self.switchboard.leave(self._party)
        if self._task is not None:
            self._task.cancel()

    def weaken(self, db: int) -> None:
        if self._task is not None:
            raise RuntimeError(f"equip {self.name} before the first frame of the scenario")
        self.weaker_db = db

    def cut(self) -> None:
        super().cut()
        self.switchboard.shut()

    def restore(self) -> None:
        super().restore()
        self.switchboard.open()

    def restart(self) -> None:
        self.setup.tasks.create_task(self._restart())


class AbsentStation(TappedStation):
    """A station that the scenario never uses, so that no gateway plays it."""

    @property
    def is_up(self) -> bool:
        return True

    def start(self) -> None:
        return None

    def stop(self) -> None:
        return None

    def restart(self) -> None:
        raise RuntimeError(f"no gateway plays station {self.name}")


class LabStations(Stations):
    """The stations of one case: a gateway for each that it uses."""

    capabilities = frozenset({Item.REPLAYER})

    def __init__(self, setup: CaseSetup, air: LabAir) -> None:
        self._setup = setup
        self._air = air

    def new(self, name: str, eui: Eui, seed: int) -> CaseStation:
        gateway = self._air.gateways.get(name)
        if gateway is None:
            return AbsentStation(name, eui, self._setup)
        return GatewayStation(name, gateway, self._air)

    def only(self, stations: tuple[str, ...]) -> None:
        self._air.audibility.only(stations)

    def heard_by(self, transmissions: Sequence[tuple[str, ...]]) -> None:
        self._air.audibility.schedule(transmissions)

    async def switch_on(self) -> None:
        for name, gateway in self._air.gateways.items():
            if weaker_db := self._setup.stations[name].weaker_db:
                await self._air.bench.gateways.attenuate(gateway, weaker_db)

    async def replay(self, frame: Frame, *, by: str, after_us: int) -> None:
        try:
            due_us = last_heard_us(self._setup.case.events, frame.frame_id) + after_us
        except LookupError as error:
            raise StimulusMissed("air", str(error)) from None
        await self._air.replay(frame, by=by, due_us=due_us)

    def shut_out(self, station: CaseStation) -> None:
        if isinstance(station, GatewayStation) and self._air.alone:
            station.switchboard.shut()

    def let_in(self, station: CaseStation) -> None:
        if isinstance(station, GatewayStation):
            station.switchboard.open()

    async def end(self) -> None:
        for name, gateway in self._air.gateways.items():
            if name in self._setup.stations and self._setup.stations[name].weaker_db:
                await self._air.bench.gateways.attenuate(gateway, 0)


def gateways_of(stations: Sequence[str], gateways: Sequence[str]) -> dict[str, str]:
    """Which gateway plays which station of a case: the one of its name, else the next one free."""
    played = {name: name for name in stations if name in gateways}
    free = iter([gateway for gateway in gateways if gateway not in played])
    return played | dict(zip((name for name in stations if name not in played), free, strict=False))
