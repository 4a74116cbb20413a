"""How does a log pass through the network server, as one case?

Stations, taps, server and capture are those of the simulated rig, on virtual time; in place of
devices and air there is the log.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Protocol

from bench.capture import Record
from bench.chance import stream
from bench.clock import pause
from bench.rig.in_memory.application import Outboxes
from bench.run.attempts import first_cause
from bench.station import LinkClosed, TextLink
from bench.station.tap import MemoryLink, Tap, link_pair
from bench.traffic.recording import Device, Hearing, Log, Step, Uplink, steps
from bench.verdict import wire
from bench.verdict.case import Case, Verdict
from bench.verdict.expectation import Due, words
from bench.virtual.air import Links, Medium
from bench.virtual.transmitter import ConcentratorClock
from lns.clock import now_us, utc_counted_from
from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.events import Event, as_fields
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868, Region
from lns.network_server import NetworkServer
from lns.store.memory import MemoryStore

# ADR 007 in a few lines, so plain that they can be checked by eye. They share nothing with the
# network server: no registry, no cache, no policy table; the capture says who sent what, when, and
# who heard it.
RETENTION_US = 60_000_000
GAP_MAX = 16384
REPEATED_ANSWERS_MAX = 3
_COPY = {"Drop": "dropped(Duplicate)", "Mark": "marked", "None": "forwarded"}
_AGAIN = {"Drop": "dropped(ResubmissionSuppressed)", "Mark": "marked", "None": "forwarded"}
_BAD_COUNTER = "dropped(InvalidFrameCounter)"
_VERSION = "2.0.6(linux/std)"


@dataclass(slots=True)
class _Sighting:
    station: str
    last_us: int


class ExpectedWords:
    """Asked once for each reception in order of arrival; remembers what was heard before."""

    def __init__(self, log: Log, strategy: str) -> None:
        self._strategy = strategy
        self._devices = {device.dev_eui: device for device in log.devices}
        self._newest = {device.dev_eui: device.f_cnt_up for device in log.devices}
        self._sightings: dict[str, _Sighting] = {}
        self._repeated: Counter[tuple[str, int]] = Counter()
        self._nonces: set[tuple[str, ...]] = set()

    def of(self, uplink: Uplink, station: str, at_us: int) -> str:
        """The words "status upstream(reason) answer" for a report that arrives at `at_us`."""
        device = self._devices.get(uplink.dev_eui)
        if device is None:
            return "- dropped(UnknownDevice) NotAsked"
        if not uplink.genuine:
            return "- dropped(MicMismatch) NotAsked"
        sighting = self._sightings.get(uplink.frame_id)
        if sighting is None or at_us - sighting.last_us >= RETENTION_US:
            sighting = self._sightings[uplink.frame_id] = _Sighting(station, at_us)
            copy = "new"
        else:
            sighting.last_us = at_us
            copy = "same station" if sighting.station == station else "other station"
        if uplink.f_cnt is None:
            return self._join(device, uplink, copy)
        status, upstream, answers = self._data(device, uplink, uplink.f_cnt, copy)
        if uplink.f_port == 0 and "(" not in upstream:
            upstream = "dropped"  # nothing in it for the application
        asked = "RX1" if answers else "Suppressed"
        return f"{status} {upstream} {asked if uplink.wants_answer else 'NotAsked'}"

    def _join(self, device: Device, uplink: Uplink, copy: str) -> str:
        if copy != "new":
            return "Duplicate dropped(Duplicate) Suppressed"
        nonce = tuple(uplink.frame_id.split(":")[1:])  # DevEUI, DevNonce
        if nonce in self._nonces:
            return "NonDuplicate dropped(DevNonceUsed) Suppressed"
        if uplink.join_eui != device.join_eui:
            return "NonDuplicate dropped(UnknownDevice) Suppressed"
        self._nonces.add(nonce)
        return "NonDuplicate dropped RX1"

    def _data(self, device: Device, uplink: Uplink, f_cnt: int, copy: str) -> tuple[str, str, bool]:
        newest = self._newest[device.dev_eui]
        begins_again = device.relaxed_f_cnt and f_cnt <= 1
        if copy == "other station" and self._strategy == "Drop":
            return "Duplicate", _COPY["Drop"], False
        if copy == "other station":
            fits = f_cnt == newest or begins_again
            return "SoftDuplicate", _COPY[self._strategy] if fits else _BAD_COUNTER, False
        if copy == "new":
            is_next = newest is None or f_cnt > newest
            if begins_again or (is_next and f_cnt - (newest or 0) <= GAP_MAX):
                self._newest[device.dev_eui] = f_cnt
                for old in [key for key in self._repeated if key[0] == device.dev_eui]:
                    del self._repeated[old]
                return "NonDuplicate", "forwarded", True
            if f_cnt == newest and uplink.confirmed:
                return "NonDuplicate", *self._repeat(device, f_cnt, "forwarded")
            return "NonDuplicate", _BAD_COUNTER, False
        status = "DuplicateDueToResubmission"
        if uplink.confirmed and (f_cnt == newest or begins_again):
            return status, *self._repeat(device, f_cnt, _AGAIN[self._strategy])
        if begins_again:
            return status, _AGAIN[self._strategy], False
        return status, _BAD_COUNTER, False

    def _repeat(self, device: Device, f_cnt: int, upstream: str) -> tuple[str, bool]:
        self._repeated[device.dev_eui, f_cnt] += 1
        if self._repeated[device.dev_eui, f_cnt] > REPEATED_ANSWERS_MAX:
            return "dropped(ResubmissionLimit)", False
        return upstream, True


# It has no radio: a capture says what was heard. Everything it says is in Basics Station's own
# spelling, with an `xtime` of its own clock. It keeps both reports of a gateway that has two
# concentrators, where a station with one radio would keep the better copy.
class RecordedStation:
    """One station of a capture; `run` it in a task and, once it is `ready`, `tell` what it heard.

    Downlinks reach it and are not transmitted: the device that would listen is not there.
    """

    def __init__(self, eui: Eui, connect: Callable[[], Awaitable[TextLink]], *, seed: int) -> None:
        self.eui = eui
        self.ready = asyncio.Event()
        self._connect = connect
        self._clock = ConcentratorClock(stream(seed, "station", eui, "clock"))
        self._link: TextLink | None = None
        self._utc_us: int | None = None

    def xtime_now(self) -> int:
        """What its clock shows; 0 before the server has configured it."""
        return self._clock.xtime(now_us())

    async def run(self) -> None:
        """Introduce itself to the server and listen to it, until the link is over."""
        link = self._link = await self._connect()
        try:
            await link.send(wire.version_told(station=_VERSION, firmware=None, features=()))
            while True:
                await self._take_notice(link, wire.understood(await link.receive()))
        except LinkClosed:
            return
        finally:
            link.close()

    async def tell(self, uplink: Uplink, hearing: Hearing, *, heard_us: int) -> None:
        """Report an uplink now that ended at `heard_us`; LinkClosed where nobody listens."""
        assert self._link is not None and self.ready.is_set()
        utc_s = 0.0 if self._utc_us is None else (self._utc_us + now_us()) / 1_000_000
        heard = wire.Upinfo(
            rctx=0,
            xtime=self._clock.xtime(heard_us),
            rssi_dbm=round(hearing.rssi_dbm),
            snr_db=hearing.snr_db,
            gpstime=0,
            rxtime=utc_s,
        )
        text = wire.frame_told(
            uplink.phy, dr=uplink.dr, freq_hz=uplink.freq_hz, heard=heard, ref_time=utc_s
        )
        if text is not None:
            await self._link.send(text)

    async def _take_notice(self, link: TextLink, fields: Mapping[str, Any]) -> None:
        mux_time = float(fields.get("MuxTime", 0.0))
        told_us = round(mux_time * 1_000_000)
        if mux_time:
            self._utc_us = told_us - now_us()
        match fields.get("msgtype"):
            case "router_config":
                self._clock.start(now_us())
                self.ready.set()
            case "getxtime":
                xtime = self.xtime_now()
                await link.send(wire.clocks_told(xtime, mux_time=mux_time, up_us=0, utc_us=told_us))


LNS = "lns-a"
LINK_US = 2_000


class LogServer:
    """One LNS in this process for one log; its devices all have the same strategy."""

    def __init__(
        self,
        log: Log,
        region: Region,
        strategy: Strategy,
        *,
        seed: int,
        record: Record,
        wall_clock_start: datetime,
    ) -> None:
        self.devices = [replace(device, strategy=strategy) for device in log.devices]
        self._record = record
        self._links: list[MemoryLink] = []
        store = MemoryStore()
        for device in log.devices:
            store.preset(device.dev_eui, _sessions(device))
        self._server = NetworkServer(
            LNS,
            region,
            self.devices,
            store=store,
            application=Outboxes(record),
            record=self._note,
            utc=utc_counted_from(wall_clock_start),
            entropy=stream(seed, LNS, log.name),
        )

    def connect(self, station: Eui, tasks: asyncio.TaskGroup) -> TextLink:
        """A link to the server for one station, served in a task of `tasks`."""
        ours, theirs = link_pair(LINK_US)
        self._links.append(theirs)
        tasks.create_task(self._server.serve(station, theirs))
        return ours

    def stop(self) -> None:
        for link in self._links:
            link.close()

    def _note(self, event: Event) -> None:
        self._record(LNS, event.kind, as_fields(event))


def _sessions(device: Device) -> tuple[Session, ...]:
    if device.dev_addr is None or device.session_keys is None:
        return ()
    return (
        Session(
            dev_eui=device.dev_eui,
            dev_addr=device.dev_addr,
            keys=device.session_keys,
            f_cnt_up=device.f_cnt_up,
        ),
    )


WALL_CLOCK_START = datetime(2026, 1, 1, tzinfo=UTC)
LEAD_US = 1_000_000
SETTLE_US = 3_000_000
STEPS_BETWEEN_NEWS = 1_000


class Progress(Protocol):
    """Who is told how far the work is: a text, receptions delivered, receptions in all."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None: ...


@dataclass(slots=True)
class _Post:
    station: RecordedStation
    tap: Tap
    tasks: list[asyncio.Task[None]]


async def play(
    log: Log, case: Case, *, strategy: Strategy, seed: int, progress: Progress
) -> tuple[Verdict, int]:
    """Play a log and judge it; also returns the time at which it was over (µs).

    What the bench itself gets wrong is an ERROR of the case, not a crash.
    """
    case.begin()
    error = None
    try:
        await _Player(log, case, strategy, seed, progress).play()
    except Exception as failure:
        error = f"{type(failure).__name__}: {first_cause(failure)}"
    return case.end(error), now_us()


class _Player:
    def __init__(
        self, log: Log, case: Case, strategy: Strategy, seed: int, progress: Progress
    ) -> None:
        self._log = log
        self._case = case
        self._seed = seed
        self._progress = progress
        self._air = Medium(EU868, Links(seed=seed), case.record)
        self._expected = ExpectedWords(log, strategy.value)
        self._server = LogServer(
            log,
            EU868,
            strategy,
            seed=seed,
            record=case.record,
            wall_clock_start=WALL_CLOCK_START,
        )
        self._posts: dict[Eui, _Post] = {}

    async def play(self) -> None:
        self._tell_facts()
        async with asyncio.TaskGroup() as tasks:
            for eui in self._log.stations:
                self._posts[eui] = self._post(eui, tasks)
            for post in self._posts.values():
                await post.station.ready.wait()
            await self._play_steps(now_us() + LEAD_US)
            await asyncio.sleep(SETTLE_US / 1_000_000)
            for post in self._posts.values():
                for task in post.tasks:
                    task.cancel()
            self._server.stop()

    def _tell_facts(self) -> None:
        for eui, name in self._log.stations.items():
            self._case.station(eui, name)
        for device in self._server.devices:
            self._case.device(device, f_cnt_up=device.f_cnt_up)
        self._case.lns(LNS, "start", region=EU868.name, retention_us=RETENTION_US)

    def _post(self, eui: Eui, tasks: asyncio.TaskGroup) -> _Post:
        async def connect() -> TextLink:
            return self._server.connect(eui, tasks)

        tap = Tap(eui, connect, self._case.record, latency_us=LINK_US)
        station = RecordedStation(eui, tap.connect, seed=self._seed)
        tap.xtime_now = station.xtime_now
        running = [tasks.create_task(tap.run()), tasks.create_task(station.run())]
        return _Post(station, tap, running)

    async def _play_steps(self, start_us: int) -> None:
        total, done = self._log.receptions, 0
        for number, step in enumerate(steps(self._log)):
            await pause(max(0, start_us + step.at_us - now_us()))
            if step.hearing is None:
                self._announce(step)
            else:
                await self._deliver(step, start_us)
                done += 1
            if number % STEPS_BETWEEN_NEWS == 0:
                self._progress(self._case.title.case, done, total)
        self._progress(self._case.title.case, total, total)

    def _announce(self, step: Step) -> None:
        uplink = step.uplink
        facts: dict[str, object] = {"dev_eui": uplink.dev_eui}
        if uplink.f_cnt is not None:
            facts |= {"session": 0, "f_cnt": uplink.f_cnt}
        facts |= {"frame_id": uplink.frame_id, "genuine": uplink.genuine}
        facts |= {"freq_hz": uplink.freq_hz, "dr": uplink.dr}
        self._air.announce(uplink.dev_eui, uplink.phy, facts)

    async def _deliver(self, step: Step, start_us: int) -> None:
        uplink, hearing = step.uplink, step.hearing
        assert hearing is not None
        text = self._expected.of(uplink, hearing.station, step.at_us)
        self._case.expect_outcome(uplink.frame_id, hearing.station, _due(hearing.station, text))
        station = self._posts[hearing.station].station
        await station.tell(uplink, hearing, heard_us=start_us + uplink.at_us)


@cache
def _due(station: Eui, text: str) -> Due:
    return Due(station, words(text))
