"""What do all cases of a run on real radios share: boards, gateways, replayer, air time?"""

import asyncio
import logging
import os
from collections import deque
from contextlib import nullcontext, suppress

from bench.capture import Record
from bench.device.dialects import driver_for, line_for
from bench.device.discovery import serial_ports
from bench.device.interfaces import AttachedDevice
from bench.device.replayer import Replayer, replayer_for
from bench.device.serial_line import LineLost, PortUnavailable, SerialLine
from bench.lab.inventory.entries import DeviceEntry, Inventory, Radio
from bench.lab.inventory.ports import PortMissing, port_of
from bench.lab.power import PowerSwitch, power_switch
from bench.lab.regulation.airtime_ledger import AirtimeLedger
from bench.lab.regulation.lasting_ledger import LastingLedger
from bench.lab.regulation.near_field import HeardFrame, near_field
from bench.rig.air_traffic import AirTraffic
from bench.rig.board_pool import BoardPool
from bench.rig.gateways import BenchUnfit, Gateways
from bench.rig.hearing import Hearing
from bench.rig.injection import DATA_RATE, first_channel
from bench.rig.lab_board import BoardUnfit, LabBoard
from bench.rig.warm_up import Warm
from bench.rig.wired_bench import WiredBench
from bench.station.tap_server import TapServer
from lns.capture import Capture
from lns.clock import now_us, utc_of_this_host
from lns.lorawan.airtime import frame_airtime_us
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region, region
from lns.server.address import host_and_port
from lns.station.messages import Jreq, Updf, parse_up

INJECTED_MAX = 4
"""Cases at once that use no board: each has network servers of its own."""
OVERHEARD_MAX = 100_000
HEARD_WITHIN_US = 1_500_000
_LOOK_S = 0.05
_COUNTDOWN_US = 10_000_000

log = logging.getLogger(__name__)


class HardwareBench(WiredBench):
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
        self._hearing = Hearing()
        self.overheard: deque[HeardFrame] = deque(maxlen=OVERHEARD_MAX)

    async def _listen(self) -> None:
        try:
            await super()._listen()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else error
            raise BenchUnfit(
                f"{self.inventory.path}: [bench] tap: nothing can listen at {self.inventory.tap}:"
                f" {why}. Give an address of this host (`ip address` lists them) and a free port"
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
        """Remember how strong a frame of a board was heard."""
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
        """A reception of no case: a board that is being prepared, or the street."""
        for board in self.boards.values():
            known = board.book.recognise(text)
            if known is not None:
                board.book.sent(known)
                name = self.gateways.name_of(station)
                board.heard_by.add(name)
                board.told = name, text
                board.frames += self._hearing.heard(name, known.phy, now_us())[1]
                self.note_strength(name, text)
                return
        fields: dict[str, object] = {"station": station, "direction": "up", "text": text}
        self.capture.record(
            f"tap-{station}", "station.text", {**fields, "dropped": True, "origin": "foreign"}
        )

    async def heard(self, board: Warm, since: int) -> int:
        """How many transmissions of a board were heard since; waits a moment for the first."""
        until_us = now_us() + HEARD_WITHIN_US
        while board.frames == since and now_us() < until_us:  # noqa: ASYNC110 - with a deadline
            await asyncio.sleep(_LOOK_S)
        return board.frames - since

    def _tell_of_near_field(self) -> None:
        for line in self.near_field():
            log.warning("%s", line)
            self.capture.record("bench", "bench.warning", {"text": line})

    async def answer(self, board: Warm, dnmsg: str) -> None:
        """Let the gateway that has heard a board last send it something; LinkClosed."""
        name, _ = board.told
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
                line = line_to(replayer.radio)
                self.replayer = await self._stack.enter_async_context(
                    replayer_for(replayer.radio.dialect, replayer.name, line, self.region, self.say)
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
        await replayer.silence()

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
        """Wait until region and air allow it so many octets, and book them; NeverPermitted."""
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
