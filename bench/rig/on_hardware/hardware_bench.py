"""What do all cases of a run on real radios share: boards, gateways, replayer, air time?"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial

from bench.capture import Record
from bench.device.dialects import Replayer, driver_for, line_for, replayer_for, serial_ports
from bench.device.interfaces import AttachedDevice
from bench.device.serial_line import LineLost, PortUnavailable, SerialLine
from bench.host.program import HostError, why_no_listener
from bench.lab.basicstation_host import restart_gateway
from bench.lab.inventory import DeviceEntry, Inventory, PortMissing, Radio, port_of
from bench.lab.inventory.sections import GatewaySection
from bench.lab.power import PowerFailed, PowerSwitch, attenuate, power_switch
from bench.lab.regulation import AirtimeLedger, HeardFrame, LastingLedger, near_field
from bench.plan import PlannedCase, assignments
from bench.rig.on_hardware.lab_board import BoardUnfit, LabBoard
from bench.rig.programs.process_bench import ProcessBench
from bench.rig.stations import DATA_RATE, first_channel
from bench.station.switchboard import StationClock, Switchboard
from bench.station.web_socket import TapServer
from bench.verdict import wire
from lns.capture import Capture
from lns.clock import now_us, utc_of_this_host
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import RX2_AFTER_RX1_US, Region, frame_airtime_us, region
from lns.server.address import host_and_port
from lns.station.messages import Jreq, Updf, parse_up, router_config

# Real gateways hear all that is on the air. To let only one hear a frame, the taps of the others
# lose it; which frame is which can be told by its bytes and the moment it came.
TOGETHER_US = 500_000
"""Receptions of one transmission come within this time; no radio sends the same frame twice so
soon (a class A device listens for at least one second first)."""


@dataclass(slots=True, eq=False)
class HeardTransmission:
    """One transmission, as the stations told of it; `audible` None means: to all of them."""

    phy: bytes
    since_us: int
    audible: tuple[str, ...] | None
    injected: bool
    told_by: list[str] = field(default_factory=list)


class Audibility:
    """Who hears what in one case; remembers the transmissions of the last moments.

    `only` and `schedule` are for frames of devices, one entry for each transmission; what the
    replayer sends says for itself who is to hear it.
    """

    def __init__(self) -> None:
        self._only: tuple[str, ...] | None = None
        self._schedule: list[tuple[str, ...]] = []
        self._injected: list[tuple[bytes, tuple[str, ...]]] = []
        self._recent: list[HeardTransmission] = []
        self.told_injected = 0
        """How many transmissions of the replayer were heard by those who were to."""

    def only(self, stations: Iterable[str] | None) -> None:
        """Let no other station hear any device from now on; None: all of them do."""
        self._only = None if stations is None else tuple(stations)

    def schedule(self, entries: Iterable[tuple[str, ...]]) -> None:
        self._schedule = list(entries)

    def expect_injected(self, phy: bytes, stations: tuple[str, ...]) -> None:
        """Let the next transmission of these bytes be the replayer's, heard by these."""
        self._injected.append((phy, stations))

    def heard(self, station: str, phy: bytes, at_us: int) -> tuple[HeardTransmission, bool]:
        """The transmission that a station tells of, and whether it is a new one."""
        self._recent = [one for one in self._recent if at_us - one.since_us <= TOGETHER_US]
        for one in self._recent:
            if one.phy == phy and station not in one.told_by:
                return self._told(one, station), False
        one = self._begin(phy, at_us)
        self._recent.append(one)
        return self._told(one, station), True

    def _told(self, one: HeardTransmission, station: str) -> HeardTransmission:
        one.told_by.append(station)
        self.told_injected += one.injected and self.is_audible(station, one)
        return one

    def is_audible(self, station: str, one: HeardTransmission) -> bool:
        return one.audible is None or station in one.audible

    def _begin(self, phy: bytes, at_us: int) -> HeardTransmission:
        for place, (expected, stations) in enumerate(self._injected):
            if expected == phy:
                del self._injected[place]
                return HeardTransmission(phy, at_us, stations, injected=True)
        if self._schedule:
            self._only = self._schedule.pop(0)
        return HeardTransmission(phy, at_us, self._only, injected=False)


# Cases that use different boards run side by side. One that needs the stations for itself waits
# until nobody else is there; and those wait until all others are through.
@dataclass(frozen=True, slots=True, eq=False)
class Place:
    boards: Mapping[str, LabBoard]
    alone: bool


class BoardPool:
    """The boards of one bench; remembers who is playing and who waits.

    `injected_max`: how many cases may run at once that use no board; the others are bounded by the
    boards.
    """

    def __init__(self, boards: Iterable[LabBoard], *, injected_max: int) -> None:
        self._boards = tuple(boards)
        self._injected_max = injected_max
        self._playing: list[Place] = []
        self._not_alone_waiting = 0
        self._changed = asyncio.Condition()

    async def take(self, planned: PlannedCase, *, alone: bool) -> Place:
        """A place for a case, once there is one.

        BoardUnfit when boards that have failed in this run are missing for it.
        """
        async with self._changed:
            self._not_alone_waiting += not alone
            try:
                while (place := self._found(planned, alone=alone)) is None:
                    await self._changed.wait()
            finally:
                self._not_alone_waiting -= not alone
                self._changed.notify_all()
            self._playing.append(place)
            return place

    async def give_back(self, place: Place) -> None:
        async with self._changed:
            self._playing.remove(place)
            self._changed.notify_all()

    def _found(self, planned: PlannedCase, *, alone: bool) -> Place | None:
        fit = [board for board in self._boards if not board.unfit]
        if assignment(planned, fit) is None:
            why = "; ".join(board.unfit for board in self._boards if board.unfit)
            raise BoardUnfit(why or "no board of this bench can play its devices")
        if any(place.alone for place in self._playing):
            return None
        if alone and (self._playing or self._not_alone_waiting):
            return None
        injected = sum(not place.boards for place in self._playing)
        if not planned.on_air and injected >= self._injected_max:
            return None
        taken = [board for place in self._playing for board in place.boards.values()]
        boards = assignment(planned, [board for board in fit if board not in taken])
        return None if boards is None else Place(boards, alone)


def assignment(planned: PlannedCase, boards: Sequence[LabBoard]) -> dict[str, LabBoard] | None:
    """A board for each device that can do what it needs; None where there are not enough."""
    by_name = {board.name: board for board in boards}
    able = [board.abilities for board in boards]
    chosen = next(assignments(planned, able), None)
    if chosen is None:
        return None
    pairs = zip(planned.on_air, chosen, strict=True)
    return {device.name: by_name[board.name] for device, board in pairs}


INJECTED_MAX = 4
"""Cases at once that use no board: each has network servers of its own."""
OVERHEARD_MAX = 100_000
HEARD_WITHIN_US = 1_500_000
_LOOK_S = 0.05
_COUNTDOWN_US = 10_000_000

log = logging.getLogger(__name__)
START_UP_US = 60_000
"""How long after its command a board may begin to send."""
MARGIN_US = 15_000
_RX1_AFTER_US = 1_000_000 - START_UP_US - MARGIN_US
"""RX1 opens at the earliest so long after the time that a frame may need."""


@dataclass(frozen=True, slots=True)
class _Busy:
    begin_us: int
    end_us: int


class AirTraffic:
    """What is on the air of a lab and what is about to be; remembers it until it is over.

    Boards that play different cases share the air: two frames at once spoil each other, and a
    gateway that sends hears nothing. What is known to come can be waited for.
    """

    def __init__(self) -> None:
        self._busy: list[_Busy] = []

    def expect(self, begin_us: int, airtime_us: int) -> None:
        """Somebody will be sending from then on: a gateway its downlink."""
        self._busy.append(_Busy(begin_us - MARGIN_US, begin_us + airtime_us + MARGIN_US))

    async def clear(self, airtime_us: int) -> None:
        """Wait until a frame of this length can be sent at once, and be answered in RX1.

        The time that it takes is kept free for it.
        """
        needed_us = START_UP_US + airtime_us + MARGIN_US
        while (begin_us := self.answered_from(now_us(), needed_us)) > now_us():  # noqa: ASYNC110
            await asyncio.sleep((begin_us - now_us()) / 1_000_000)
        self._busy = [busy for busy in self._busy if busy.end_us > now_us()]
        self._busy.append(_Busy(now_us(), now_us() + needed_us))

    def answered_from(self, at_us: int, needed_us: int) -> int:
        """The earliest time from then on at which so much is free, and as much where RX1 opens.

        A gateway that sends something else then puts the answer off to RX2.
        """
        while True:
            at_us = self.free_from(at_us, needed_us)
            window_us = at_us + needed_us + _RX1_AFTER_US
            later_us = self.free_from(window_us, needed_us) - window_us
            if not later_us:
                return at_us
            at_us += later_us

    def free_from(self, at_us: int, needed_us: int) -> int:
        """The earliest time from then on at which so much time is free."""
        for busy in sorted(self._busy, key=lambda busy: busy.begin_us):
            if busy.end_us <= at_us:
                continue
            if at_us + needed_us <= busy.begin_us:
                break
            at_us = max(at_us, busy.end_us)
        return at_us


CONNECTED_WITHIN_US = 90_000_000
LAG_US = 40_000
_LOOK_S = 0.05


class BenchUnfit(HostError):
    """Something of the bench is missing or does not answer; the text names every such thing."""


class GatewaysAway(BenchUnfit):
    """Gateways are not connected, or their radios do not run."""


class Gateways:
    """The gateways of one inventory, each behind a switchboard.

    They connect to `taps`. `foreign` is told each reception of no case; `traffic` of each downlink
    before it is on the air.
    """

    def __init__(
        self,
        inventory: Inventory,
        region: Region,
        traffic: AirTraffic,
        taps: TapServer,
        foreign: Callable[[Eui, str], None],
    ) -> None:
        self._inventory = inventory
        self._region = region
        self._traffic = traffic
        self._taps = taps
        config = router_config(region)
        self.switchboards = {
            entry.name: Switchboard(
                entry.eui,
                config,
                foreign,
                downlink=self._expect_downlink,
                door=partial(self._let_in, entry.name),
            )
            for entry in inventory.gateways
        }
        for name in self.switchboards:
            self._let_in(name, True)

    def _let_in(self, name: str, is_open: bool) -> None:
        board = self.switchboards[name]
        if is_open:
            self._taps.register(board.station, board.accept)
        else:
            self._taps.unregister(board.station)

    def name_of(self, station: Eui) -> str:
        return next(name for name, one in self.switchboards.items() if one.station == station)

    async def until_up(self, tap_uri: str) -> None:
        """Wait until every gateway is connected and its radio runs; GatewaysAway."""
        until_us = now_us() + CONNECTED_WITHIN_US
        while missing := [name for name, one in self.switchboards.items() if not one.is_up]:
            if now_us() > until_us:
                raise GatewaysAway(
                    f"not connected, or without a radio that runs: {', '.join(missing)}."
                    f" The tap listens at {tap_uri}; tc.uri of a gateway has to say"
                    f" {self._inventory.tap_uri or tap_uri} (`lorabench stations check` tells more)"
                )
            await asyncio.sleep(_LOOK_S)

    def lag_us(self, name: str) -> int:
        """So much later than it comes a gateway's reception is let through.

        Which of two real ones tells first is chance, and most scenarios are about the first one.
        """
        return LAG_US * list(self.switchboards).index(name)

    @property
    def lag_us_max(self) -> int:
        """The longest of these, with some room."""
        return LAG_US * len(self.switchboards)

    async def restart(self, name: str) -> None:
        """Restart a gateway; GatewayFailed when that did not work."""
        await restart_gateway(self._entry(name))

    async def attenuate(self, name: str, more_db: int) -> None:
        """Put so much more than usual before a gateway; PowerFailed if it cannot be set."""
        which = self._entry(name).attenuator
        if which is None:
            raise PowerFailed(f"gateway {name} has no attenuator in the inventory")
        entry = self._inventory.attenuator(which)
        await attenuate(entry, entry.db + more_db)

    def _entry(self, name: str) -> GatewaySection:
        return next(one for one in self._inventory.gateways if one.name == name)

    def _expect_downlink(self, text: str, clock: StationClock) -> None:
        asked = wire.wanted(wire.understood(text))
        window = None if asked is None else asked.rx1 or asked.rx2
        if asked is None or window is None or not asked.xtime:
            return
        data_rate = self._region.data_rates[window[0]]
        delay_us = asked.rx_delay_s * 1_000_000 + (RX2_AFTER_RX1_US if asked.rx1 is None else 0)
        begins_us = now_us() + asked.xtime + delay_us - clock.xtime_now()
        if data_rate is not None:
            airtime_us = frame_airtime_us(data_rate, len(asked.pdu), crc=False)
            self._traffic.expect(begins_us, airtime_us)


class HardwareBench(ProcessBench):
    """The boards, gateways and replayers of one inventory, opened for one run.

    Remembers the air time of every transmitter for an hour. Use it with `async with`; at the end,
    however it comes about, every board is told to transmit no more.
    """

    def __init__(self, capture: Capture, inventory: Inventory, *, retention_us: int) -> None:
        super().__init__(capture, retention_us=retention_us, has_past=True)
        self.inventory = inventory
        self.region: Region = region(inventory.region)
        self.ledger: AirtimeLedger
        self.gateways: Gateways
        self.boards: dict[str, LabBoard] = {}
        self.replayer: Replayer | None = None
        self.replaying = asyncio.Lock()
        self.pool: BoardPool
        self.traffic = AirTraffic()
        self._is_ending = False
        self._hearing = Audibility()
        self.overheard: deque[HeardFrame] = deque(maxlen=OVERHEARD_MAX)

    async def _listen(self) -> None:
        try:
            await super()._listen()
        except OSError as error:
            raise BenchUnfit(
                f"{self.inventory.path}: [bench] tap: nothing can listen at {self.inventory.tap}:"
                f" {why_no_listener(error)}"
            ) from None

    def _new_tap_server(self) -> TapServer:
        host, port = host_and_port(self.inventory.tap)
        return TapServer(host, port, public_uri=self.inventory.tap_uri)

    async def _begin(self) -> None:
        await super()._begin()
        self.ledger = LastingLedger(
            self.region,
            self.inventory.lock.with_suffix(".airtime"),
            conducted=self.inventory.conducted,
            now_us=now_us(),
            utc=utc_of_this_host(),
        )
        self.gateways = Gateways(
            self.inventory, self.region, self.traffic, self.taps, self._heard_by_nobody
        )
        await self._plug_in_boards()
        self.pool = BoardPool(self.boards.values(), injected_max=INJECTED_MAX)
        self._stack.callback(self._tell_of_near_field)
        await self.gateways.until_up(self.taps.uri)

    # --- what is heard of no case ---------------------------------------------------------------

    def note_strength(self, station: str, text: str) -> None:
        message = parse_up(text)
        if isinstance(message, Updf | Jreq):
            info = message.upinfo
            phy = message.phy().hex().upper()
            self.overheard.append(
                HeardFrame(station, phy, message.freq_hz, round(info.rssi_dbm), info.xtime)
            )

    def near_field(self) -> tuple[str, ...]:
        """What tells of radios too close to each other, by all that was heard."""
        return near_field(self.overheard, rssi_dbm_max=self.inventory.limits.rssi_dbm_max)

    def _heard_by_nobody(self, station: Eui, text: str) -> None:
        for board in self.boards.values():
            known = board.book.recognise(text)
            if known is not None:
                board.book.sent(known)
                name = self.gateways.name_of(station)
                board.heard_by.add(name)
                board.last_heard = name, text
                board.frames += self._hearing.heard(name, known.phy, now_us())[1]
                self.note_strength(name, text)
                return
        fields: dict[str, object] = {"station": station, "direction": "up", "text": text}
        self.capture.record(
            f"tap-{station}", "station.text", {**fields, "dropped": True, "origin": "foreign"}
        )

    async def heard(self, board: LabBoard, since: int) -> int:
        until_us = now_us() + HEARD_WITHIN_US
        while board.frames == since and now_us() < until_us:  # noqa: ASYNC110 - with a deadline
            await asyncio.sleep(_LOOK_S)
        return board.frames - since

    def _tell_of_near_field(self) -> None:
        for line in self.near_field():
            log.warning("%s", line)
            self.capture.record("bench", "bench.warning", {"text": line})

    async def answer(self, board: LabBoard, dnmsg: str) -> None:
        name, _ = board.last_heard
        await self.gateways.switchboards[name].send(dnmsg)

    # --- boards --------------------------------------------------------------------------------

    async def _plug_in_boards(self) -> None:
        troubles = []
        for entry in self.inventory.devices:
            try:
                await self._plug_in(entry)
            except (PortMissing, PortUnavailable, LineLost, BoardUnfit) as error:
                troubles.append(str(error))
            except Exception as error:
                troubles.append(f"{entry.name}: {error}")
        for replayer in self.inventory.replayers[:1]:
            try:
                line = line_to(replayer)
                self.replayer = await self._stack.enter_async_context(
                    replayer_for(replayer.dialect, replayer.name, line, self.region, self.say)
                )
                self._stack.push_async_callback(self._silence_replayer, self.replayer)
                # The way into its raw mode takes a restart: not when a replay is due.
                freq_hz = first_channel(self.region)["freq_hz"]
                await self.replayer.tune(freq_hz=freq_hz, data_rate=DATA_RATE)
            except (PortMissing, PortUnavailable, LineLost) as error:
                troubles.append(str(error))
            except Exception as error:
                troubles.append(f"{replayer.name}: {error}")
        if troubles:
            raise BenchUnfit("\n".join(["the bench is not complete:", *troubles]))

    async def _plug_in(self, entry: DeviceEntry) -> None:
        line = line_to(entry.radio)

        def driver_of(record: Record) -> AttachedDevice:
            return driver_for(entry.radio.dialect, entry.name, entry.dev_eui, line, record)

        board = LabBoard(
            entry,
            self.inventory.name,
            self.region.name,
            driver_of,
            limits=self.inventory.limits,
            power=self._switch(entry.radio.power),
            reset=self._switch(entry.radio.reset),
        )
        board.listener = self.say
        await self._stack.enter_async_context(board.driver)
        self.boards[entry.name] = board
        self._stack.push_async_callback(self._silence, board)
        firmware = await board.identify()
        facts: dict[str, object] = {"name": entry.name, "dev_eui": entry.dev_eui, "text": firmware}
        self.capture.record("bench", "bench.board", facts)

    async def _silence_replayer(self, replayer: Replayer) -> None:
        self._is_ending = True
        await replayer.radio.silence()

    async def _silence(self, board: LabBoard) -> None:
        board.listener = self.say
        self._is_ending = True
        try:
            await board.silence()
        except Exception as error:  # nothing may keep the others from being silenced
            log.warning("%s could not be told to be silent: %s", board.name, error)

    def _switch(self, name: str | None) -> PowerSwitch | None:
        return None if name is None else power_switch(self.inventory.power(name))

    def say(self, source: str, kind: str, fields: dict[str, object]) -> None:
        """Write what belongs to no case; at the end even a full disk keeps no board talking."""
        with suppress(OSError) if self._is_ending else nullcontext():
            self.capture.record(source, kind, fields)

    # --- the air -------------------------------------------------------------------------------

    async def may_send(self, transmitter: str, size: int, dr: int, *, times: int = 1) -> None:
        data_rate = self.region.data_rates[dr]
        assert data_rate is not None
        airtime_us = frame_airtime_us(data_rate, size, crc=True) * times
        freq_hz = self.region.uplink_channels[0].freq_hz
        due_us = self.ledger.due_us(transmitter, freq_hz, airtime_us, now_us())
        while (left_us := due_us - now_us()) > 0:
            log.warning(
                "%s waits %d s more: duty cycle of %s",
                transmitter, left_us // 1_000_000 + 1, self.region.name,
            )  # fmt: skip
            await asyncio.sleep(min(left_us, _COUNTDOWN_US) / 1_000_000)
        await self.traffic.clear(airtime_us // times)
        self.ledger.note(transmitter, freq_hz, airtime_us, now_us())


def line_to(radio: Radio) -> SerialLine:
    """The serial line of a radio, not open yet; its port is looked for at each opening.

    A board that comes back at another port is found there by its USB serial number or path.
    """

    def port() -> str:
        try:
            return port_of(radio, serial_ports())
        except PortMissing as missing:
            raise PortUnavailable(str(missing)) from None

    return line_for(radio.dialect, port, baud=radio.baud, dtr=radio.dtr)
