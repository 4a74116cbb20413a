"""How do files of real traffic go through the network server, as a run like any other?

`run` reads them (see `conformance`, `campus_iot`), plays each log once for each strategy on virtual
time, and leaves one run folder with one case per log and strategy. Stations, taps, server and
capture are those of the simulated rig; in place of devices and air there is the log.
"""

import asyncio
import gc
import gzip
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from bench import clock
from bench.capture import Record, run_folder
from bench.capture.run_folder import Ending, Origin
from bench.chance import stream
from bench.clock import pause
from bench.host.program import first_cause
from bench.rig.in_memory.application import Outboxes
from bench.station import LinkClosed, TextLink
from bench.station.tap import MemoryLink, Tap, link_pair
from bench.traffic import campus_iot, conformance
from bench.traffic.recording import (
    REGION,
    Device,
    Hearing,
    Log,
    Step,
    TrafficError,
    TrafficFile,
    Uplink,
    steps,
)
from bench.verdict import wire
from bench.verdict.case import Case, Title, Verdict
from bench.verdict.expectation import Due, words
from bench.virtual.air import Links, Medium
from bench.virtual.transmitter import ConcentratorClock
from lns.capture import Capture
from lns.clock import now_us, utc_counted_from
from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.events import Event, as_fields
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region
from lns.network_server import NetworkServer
from lns.store.memory import MemoryStore

__all__ = ["TrafficError", "read", "run"]

KNOWN = (conformance.FORMAT, campus_iot.FORMAT)
TEXT_BYTES_MAX = 256 << 20
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 65_536


class Progress(Protocol):
    """Who is told how far the work is: a text, receptions delivered, receptions in all."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None: ...


def read(
    path: Path,
    *,
    seed: int = 1,
    limit: int | None = None,
    stations: int = 1,
    bytes_max: int = TEXT_BYTES_MAX,
) -> TrafficFile:
    """Read a file of real traffic, whatever its name.

    TrafficError, with the file and the place, where it is cut short, of no known format, longer
    than `bytes_max` (unpacked, if it is compressed), or without a single uplink that can be used;
    OSError where it cannot be opened. A single broken record is left out and told in `left_out`.
    `limit`: at most so many uplinks of the file. `stations`: how many deliver traffic that one
    gateway heard.
    """
    text = _text(path, bytes_max)
    head = text[:_HEAD_BYTES]
    # What an application made of a payload (`object`) may have any name in it.
    if b'"devEUI"' in head or b'"rxInfo"' in head:
        found = campus_iot.read(path, text, seed=seed, limit=limit)
    elif b'"logs"' in head:
        found = conformance.read(path, text, seed=seed, limit=limit, stations=stations)
    else:
        raise TrafficError(path, "", f"unknown format; known are: {'; '.join(KNOWN)}")
    if not found.logs:
        reason = f"; the first record left out: {found.left_out[0]}" if found.left_out else ""
        raise TrafficError(path, "", f"no uplink that can be used{reason}")
    return found


def _text(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        text = _unpacked(path, file, bytes_max) if packed else file.read(bytes_max + 1)
    if len(text) > bytes_max:
        unpacked = " unpacked" if packed else ""
        limit = f"{bytes_max / (1 << 20):g} MiB"
        raise TrafficError(path, "", f"more than {limit}{unpacked}, which is the limit; split it")
    return text.removeprefix(BOM_UTF8)


def _unpacked(path: Path, file: BinaryIO, bytes_max: int) -> bytes:
    """At most one octet more than `bytes_max`: a small file may hold terabytes."""
    try:
        with gzip.open(file, "rb") as stream:
            return stream.read(bytes_max + 1)
    except (EOFError, OSError, zlib.error) as error:
        place = f"after {file.tell()} compressed bytes"
        raise TrafficError(path, place, f"the gzip file is cut short or broken: {error}") from error


RIG = "simulated"
GROUP = "imported"
BETWEEN_CASES_US = 1_000_000


def _silent(text: str, done: int = 0, total: int = 0) -> None:
    """Tell nobody."""


def run(
    files: Sequence[Path],
    *,
    runs_dir: Path,
    strategy: str | None,
    seed: int,
    limit: int | None = None,
    stations: int = 1,
    origin: Origin | None = None,
    progress: Progress = _silent,
) -> Path:
    """Play files of real traffic and return the folder of the run.

    `strategy` None: once for each. `limit`: at most so many uplinks of each file. `stations`: how
    many deliver what one gateway heard, each with its own delay. TrafficError where a file cannot
    be used, before anything runs; ValueError for an unknown strategy. Records left out are told to
    `progress` and stand in the manifest.
    """
    strategies = list(Strategy) if strategy is None else [Strategy(strategy)]
    traffic = []
    for file in files:
        progress(f"reading {file.name}")
        traffic.append(read(file, seed=seed, limit=limit, stations=stations))
        if out := traffic[-1].left_out:
            progress(f"{len(out)} record{'s' * (len(out) != 1)} left out, the first: {out[0]}")
    cases = list(_cases(traffic, strategies))
    folder = run_folder.create(
        runs_dir,
        rig=RIG,
        seed=seed,
        started=datetime.now(UTC),  # noqa: TID251 - names the folder, decides nothing
        argv=run_folder.argv_of_this_process(),
        inventory={
            "devices": "recorded",
            "stations": "recorded",
            "traffic": [found.facts() for found in traffic],
        },
        planned=[title.case for _, title in cases],
        origin=origin,
        configuration={"rig": RIG, "limit": limit, "stations": stations},
        notices=list(dict.fromkeys(notice for found in traffic for notice in found.notices)),
    )
    capture = Capture(folder.path, folder.run_id, now_us, buffered=True)
    how, next_us = Ending.STOPPED, 0
    collects = gc.isenabled()
    gc.disable()  # of all that is kept for the verdict nothing is garbage
    try:
        for log, title in cases:
            case = Case(title, capture, rig=RIG)
            playing = play(
                log, case, strategy=Strategy(title.strategy or ""), seed=seed, progress=progress
            )
            _, over_us = clock.run(playing, start_us=next_us)
            next_us = over_us + BETWEEN_CASES_US
        how = Ending.FINISHED
    except KeyboardInterrupt:
        how = Ending.INTERRUPTED
        raise
    finally:
        if collects:
            gc.enable()
        with suppress(OSError) if how is not Ending.FINISHED else nullcontext():
            run_folder.end(folder, capture, how)
    return folder.path


def _cases(
    traffic: Sequence[TrafficFile], strategies: Sequence[Strategy]
) -> Iterator[tuple[Log, Title]]:
    names: set[str] = set()
    for found in traffic:
        for log in found.logs:
            place = "/".join(part for part in (GROUP, found.path.name, log.name) if part)
            number = 1
            while (name := place if number == 1 else f"{place}#{number}") in names:
                number += 1
            names.add(name)
            params = {
                "format": found.file_format,
                "uplinks": str(len(log.uplinks)),
                "receptions": str(log.receptions),
                **{fact: str(count) for fact, count in log.facts.items()},
            }
            for strategy in strategies:
                title = Title(
                    case=f"{name}[{strategy.value}]",
                    scenario=found.path.name,
                    file=found.path.name,
                    group=GROUP,
                    title=log.title,
                    strategy=strategy.value,
                    params=params,
                )
                yield log, title


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
        self._air = Medium(REGION, Links(seed=seed), case.record)
        self._expected = ExpectedWords(log, strategy.value)
        self._server = LogServer(
            log, REGION, strategy, seed=seed, record=case.record, wall_clock_start=WALL_CLOCK_START
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
        self._case.lns(LNS, "start", region=REGION.name, retention_us=RETENTION_US)

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
