"""A run on the simulated rig, each case on a virtual clock of its own.

A dry run plays them so too, to find out what each needs of a real bench. Waits about the retention
are shortened as on a bench, so that the time a case takes is the time it takes there. Nothing is
judged, and no capture stays behind. A `Watched` stands before a rig, a station or a device and
hands everything on; the scenario does not notice.
"""

import inspect
import json
import os
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import msgspec

import bench
import lns
from bench import clock, sockets
from bench.clock import Livelock
from bench.device.interfaces import Joining, Sent
from bench.host.fork_server import leave_ctrl_c
from bench.host.program import first_cause
from bench.plan import Item, PlannedAct, PlannedCase, PlannedDevice, needed_by
from bench.rig.interfaces import RigStation
from bench.rig.rig import Rig
from bench.rig.simulated_rig import CAPABILITIES, simulated_rig
from bench.rig.stations import DATA_RATE
from bench.run import PLAN, RETENTION_S, Retiming, RunRecord, RunSettings
from bench.run.attempts import OF_CONSUMER, Play, innermost, perform, serves_not, told_of
from bench.verdict.case import Book, Case, Result, Verdict
from bench.verdict.owner import Owner
from lns.capture import Capture
from lns.clock import now_us, read_from
from lns.lorawan.region import frame_airtime_us
from lns.uplink.registry import DeviceClass

BETWEEN_CASES_US = 1_000_000
CHUNK = 64
CHUNK_US = 60 * 86_400_000_000
"""Longer than any chunk takes on its clock. One that takes longer delays the next ones."""
PROCESSES_MAX = 4
_OCTETS = 4  # of the number of a chunk

_encode = msgspec.json.Encoder().encode
Kept = tuple[str, str, int, bytes]  # source, kind, t_us, the fields as JSON


@dataclass(frozen=True, slots=True)
class Played:
    """One case that passed: from when to when (µs), and what it has to say."""

    case: str
    begun_us: int
    next_us: int
    verdict: Verdict
    lines: Sequence[Kept]

    def write(self, capture: Capture) -> None:
        """The lines of the case, numbered anew; OSError where they cannot be written."""
        last_seq: dict[str, int] = {}
        for source, kind, t_us, fields in self.lines[:-1]:
            last_seq[source] = capture.record_json(source, kind, fields, t_us)
        source, kind, t_us, fields = self.lines[-1]
        end = msgspec.json.decode(fields)
        end["books"] = [{**one, "last_seq": last_seq[one["source"]]} for one in end["books"]]
        capture.record(source, kind, end, t_us=t_us)
        capture.flush()


@dataclass(slots=True)
class Lines:
    """Keeps what a case records, as a capture would write it."""

    kept: list[Kept] = field(default_factory=list)
    _seq: dict[str, int] = field(default_factory=dict)

    def record(
        self, source: str, kind: str, fields: dict[str, object], *, t_us: int | None = None
    ) -> dict[str, object]:
        when_us = now_us() if t_us is None else t_us
        seq = self._seq[source] = self._seq.get(source, -1) + 1
        self.kept.append((source, kind, when_us, _encode(fields)))
        return {"source": source, "seq": seq, "t_us": when_us, "kind": kind} | fields

    def flush(self) -> None:
        """They are told when the case is over."""


PlayOne = Callable[[Play, Lines, int], tuple[Verdict, int]]
"""Plays a case from a time on; its verdict, and when the next one begins (µs)."""


@dataclass(slots=True)
class _Helper:
    """A process that plays ahead; `reached`: the chunk of which it has told last."""

    process: BaseProcess
    told: Connection
    reached: float = 0

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.told.close()


class Ahead:
    """A long run on more than one processor, with the same bytes: its chunks, and who plays them.

    Each chunk begins at a time of its own, however long those before it took, so other processes,
    forks of this one, can play them, each the next one that nobody has begun. What they tell of a
    case is taken only if it passed and began when it was to begin; everything else this process
    plays itself. The capture is written here alone, in the order of the cases.
    """

    def __init__(self, plays: Sequence[Play], *, chunk: int = CHUNK) -> None:
        self._chunks = [plays[at : at + chunk] for at in range(0, len(plays), chunk)]
        self._chunk_of = {
            play.title.case: number for number, one in enumerate(self._chunks) for play in one
        }
        self._helpers: list[_Helper] = []
        self._played: dict[str, Played] = {}

    def begin(self, play: PlayOne, *, processes: int) -> None:
        """Let so many others play, if it is more than one; never beside other threads."""
        processes = min(processes, PROCESSES_MAX, len(self._chunks))
        if processes < 2 or "fork" not in get_all_start_methods() or threading.active_count() > 1:
            return
        context = get_context("fork")
        chunks, numbers = os.pipe()
        os.set_blocking(numbers, False)  # what it does not hold is played here
        os.write(numbers, b"".join(n.to_bytes(_OCTETS) for n in range(len(self._chunks))))
        os.close(numbers)
        for _ in range(processes):
            results, tell = context.Pipe(duplex=False)
            heard = [*(helper.told for helper in self._helpers), results]
            process = context.Process(
                target=_play_ahead, args=(tell, heard, chunks, self._chunks, play), daemon=True
            )
            process.start()
            tell.close()
            self._helpers.append(_Helper(process, results))
        os.close(chunks)

    def begins_us(self, case: str, next_us: int) -> int:
        """When a case begins whose predecessor let it begin at `next_us`."""
        return max(next_us, self._chunk_of.get(case, 0) * CHUNK_US)

    def take(self, case: str, begins_us: int) -> Played | None:
        """The case as another process has played it; None if this one is to play it."""
        while case not in self._played:
            # Nobody goes back: who is beyond the chunk of a case has not played it.
            number = self._chunk_of.get(case, -1)
            awaited = [one for one in self._helpers if one.reached <= number]
            if not awaited:
                return None
            ready = wait([one.told for one in awaited])
            for one in awaited:
                if one.told in ready:
                    self._hear(one)
        played = self._played.pop(case)
        passed = played.verdict.result is Result.PASS
        return played if passed and played.begun_us == begins_us else None

    def _hear(self, helper: _Helper) -> None:
        try:
            played: Played = helper.told.recv()
        except (EOFError, OSError):
            helper.reached = len(self._chunks)
        else:
            helper.reached = self._chunk_of[played.case]
            self._played[played.case] = played

    def close(self) -> None:
        while self._helpers:
            self._helpers.pop().stop()


def _play_ahead(
    tell: Connection,
    heard: Sequence[Connection],
    numbers: int,
    chunks: Sequence[Sequence[Play]],
    play: PlayOne,
) -> None:
    leave_ctrl_c()
    for connection in heard:
        connection.close()  # or nothing would tell that the listener is gone
    # A pipe holds a few cases only; whoever listens may be at a case of its own.
    with closing(tell), ThreadPoolExecutor(1) as sending:
        sent: Future[None] | None = None
        while octets := os.read(numbers, _OCTETS):
            number = int.from_bytes(octets)
            next_us = number * CHUNK_US
            for one in chunks[number]:
                begun_us, lines = next_us, Lines()
                verdict, next_us = play(one, lines, begun_us)
                kept = lines.kept if verdict.result is Result.PASS else []
                if sent is not None and sent.done() and sent.exception() is not None:
                    return  # nobody listens any more
                sent = sending.submit(
                    tell.send, Played(one.title.case, begun_us, next_us, verdict, kept)
                )


class SimulatedRun:
    """Plays cases as they are asked for; those of a long run, other processes play ahead.

    `processes` and `chunk`: see `Ahead`; the capture is the same for any number of processes.
    """

    capabilities = CAPABILITIES
    limits_itself = False

    def __init__(
        self, record: RunRecord, *, processes: int | None = None, chunk: int = CHUNK
    ) -> None:
        self._record = record
        self._processes = processes or len(os.sched_getaffinity(0))
        self._chunk = chunk
        self._ahead = Ahead([])
        self._next_us = 0

    def missing(self, play: Play) -> Sequence[str]:
        return ()

    def announce(self, plays: list[Play]) -> None:
        """Take note of what will be asked for, and let other processes begin with it."""
        self._ahead = Ahead(plays, chunk=self._chunk)
        self._ahead.begin(self._play_ahead, processes=self._processes)

    def play(self, play: Play) -> Verdict:
        begins_us = self._ahead.begins_us(play.title.case, self._next_us)
        played = self._ahead.take(play.title.case, begins_us)
        if played is None:
            verdict, self._next_us = self._perform(play, self._record.open, begins_us)
            return verdict

        with read_from(lambda: begins_us):
            played.write(self._record.open())
        self._next_us = played.next_us
        return played.verdict

    def _play_ahead(self, play: Play, lines: Lines, begins_us: int) -> tuple[Verdict, int]:
        return self._perform(play, lambda: lines, begins_us)

    def _perform(
        self, play: Play, opened: Callable[[], Book], begins_us: int
    ) -> tuple[Verdict, int]:
        case: Case | None = None

        async def perform_it() -> tuple[Verdict, int]:
            nonlocal case
            case = Case(play.title, opened(), rig=self._record.rig)
            rig = simulated_rig(
                wants_store="store" in play.faults,
                wants_broker="broker" in play.faults,
                seed=self._record.seed,
                case=play.title.case,
                strategy=play.strategy,
            )
            return await perform(case, rig, play), now_us() + BETWEEN_CASES_US

        async def break_off(failure: BaseException) -> tuple[Verdict, int]:
            assert case is not None
            error: str | None = innermost(failure)
            if _is_of_consumer(failure):
                case.find(serves_not(Owner.APPLICATION, f"a consumer broke: {error}"))
                error = None
            elif _is_of_server(failure):
                case.find(serves_not(Owner.LNS, f"a network server broke: {error}"))
                error = None
            return case.end(error), now_us() + BETWEEN_CASES_US

        try:
            return clock.run(perform_it(), start_us=begins_us)
        except (Exception, SystemExit) as failure:  # the clock stopped, and the scenario with it
            if case is None or isinstance(failure, OSError):
                raise  # the capture cannot be written: there is nothing to end
            last_us = case.events[-1]["t_us"] if case.events else begins_us
            return clock.run(break_off(failure), start_us=last_us)

    def close(self) -> None:
        self._ahead.close()


def _is_of_consumer(failure: BaseException) -> bool:
    """Whether consumers alone, which decide in the inbox, let no time pass, or one exits."""
    if not isinstance(failure, (Livelock, SystemExit)):
        return False
    called = {frame.filename for frame in traceback.extract_tb(failure.__traceback__)}
    return not called.isdisjoint(OF_CONSUMER) or (
        isinstance(failure, Livelock) and {*failure.files} <= OF_CONSUMER
    )


def _is_of_server(failure: BaseException) -> bool:
    """Whether a network server raised it, and clock or wire had called that, or never rests."""
    if isinstance(failure, Livelock):
        return any(Path(lns.__path__[0]) in Path(file).parents for file in failure.files)
    files = [frame.filename for frame in traceback.extract_tb(failure.__traceback__)]
    callers = (clock.__file__, sockets.__file__)
    called = list(takewhile(lambda file: file not in callers, reversed(files)))
    if not called:  # it was told to a future, and raised by the clock only
        return type(failure).__module__.startswith("lns.")
    ours, theirs = (
        any(Path(module.__path__[0]) in Path(file).parents for file in called)
        for module in (bench, lns)
    )
    return theirs and not ours


def open_run(record: RunRecord, settings: RunSettings) -> SimulatedRun:
    return SimulatedRun(record)


ACTS = frozenset({"send", "join", "restart"})
_ACT_FACTS = ("confirmed", "retries", "transmissions", "memory")
_COUNTERS = ("f_cnt", "f_cnt_up", "f_cnt_down")
_IDENTITY = ("dev_addr_text", "keys")
_DOWNLINK = frozenset({"queue_downlink", "expect_downlink"})


@dataclass(slots=True)
class DeviceNotes:
    """What a scenario does with one device; `target` is the device of the rig."""

    target: Any
    acts: list[PlannedAct] = field(default_factory=list)
    explicit_counter: bool = False
    explicit_identity: bool = False
    expects_downlink: bool = False


@dataclass(slots=True)
class Notes:
    """Everything that a scenario has asked of its rig, in the order of the first time."""

    verbs: dict[str, None] = field(default_factory=dict)
    takes: set[tuple[bool, str, str]] = field(default_factory=set)
    stations: dict[str, None] = field(default_factory=dict)
    servers: dict[str, None] = field(default_factory=dict)
    consumers: dict[str, None] = field(default_factory=dict)
    devices: dict[str, DeviceNotes] = field(default_factory=dict)
    replayed: list[Sent | Joining] = field(default_factory=list)

    def watched(self, value: Any) -> Any:
        """The same, or what stands before it if it is a device or a station."""
        if hasattr(value, "provisioned"):
            name = value.provisioned.record.name
            self.devices.setdefault(name, DeviceNotes(value))
            return Watched(value, self, name)
        if hasattr(value, "suppress_downlinks"):
            self.stations[value.name] = None
            return Watched(value, self, value.name)
        return value

    def called(self, name: str, verb: str, given: list[Any], facts: dict[str, Any]) -> None:
        """Note one call; `name` is empty for the rig itself."""
        self.verbs[f"{name}.{verb}" if name else verb] = None
        if name in self.devices and verb in ACTS:
            acted = {fact: facts[fact] for fact in _ACT_FACTS if fact in facts}
            self.devices[name].acts.append(PlannedAct(verb=verb, **acted))
        if verb == "replay":
            self.replayed += [one for one in given if isinstance(one, Sent | Joining)]
        if verb in _DOWNLINK:
            for one in given:
                if hasattr(one, "provisioned"):
                    self.devices[one.provisioned.record.name].expects_downlink = True
        if verb == "consumer":
            names = [one for one in [*given[:1], facts.get("name")] if isinstance(one, str)]
            self.consumers[names[0] if names else "application"] = None
        if "lns" in facts and isinstance(facts["lns"], str) and facts["lns"]:
            self.servers[facts["lns"]] = None
        if verb == "put_on":
            self.servers[given[0]] = None

    def provisioned(self, name: str, facts: dict[str, Any]) -> None:
        device = self.devices[name]
        device.explicit_counter = any(facts.get(fact) is not None for fact in _COUNTERS)
        device.explicit_identity = any(facts.get(fact) is not None for fact in _IDENTITY)


class Watched:
    """Stands before a rig (without a name), a station or a device."""

    def __init__(self, target: Any, notes: Notes, name: str = "") -> None:
        self._target = target
        self._notes = notes
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._target, attribute)
        if inspect.ismethod(value):
            return partial(self._call, attribute, value)
        return self._notes.watched(value)

    def _call(self, verb: str, method: Any, *arguments: Any, **facts: Any) -> Any:
        given = [_itself(argument) for argument in arguments]
        named = {fact: _itself(value) for fact, value in facts.items()}
        self._notes.called(self._name, verb, given, named)
        item = needed_by(RigStation if self._name else Rig, verb)
        if item is not None:
            self._notes.takes.add((bool(self._name), verb, item))
        result = self._notes.watched(method(*given, **named))
        if not self._name:
            self._note_stations([*given, *named.values()])
            if verb == "provision":
                self._notes.provisioned(given[0] if given else named["name"], named)
        return result

    def _note_stations(self, values: Any) -> None:
        for value in values:
            if isinstance(value, str) and self._target.has_station(value):
                self._notes.stations[value] = None
            elif isinstance(value, list | tuple):
                self._note_stations(value)


def _itself(value: Any) -> Any:
    if isinstance(value, Watched):
        return value._target
    if isinstance(value, list):
        return [_itself(one) for one in value]
    if type(value) is tuple:
        return tuple(_itself(one) for one in value)
    if isinstance(value, dict):
        return {name: _itself(one) for name, one in value.items()}
    return value


BOTH = ("west", "east")
"""Who hears everything where a scenario names no station."""
WIRES = Item.WIRES
"""What needs real wires takes place without them: the parts in memory do nothing then."""


@dataclass(slots=True)
class _Watch:
    rig: Rig
    notes: Notes
    ended_us: int = 0


class DryRun:
    """Plays cases as they are asked for; remembers what each needs, by its name, in `planned`.

    The verdict of a case is PASS when that is known, ERROR when the scenario could not be played
    to its end. `close` writes all of it into the folder `into`, if there is one.
    """

    capabilities = CAPABILITIES | {WIRES}
    limits_itself = False

    def __init__(
        self, *, seed: int = 1, retention_s: int = RETENTION_S, into: Path | None = None
    ) -> None:
        self._seed = seed
        self._retention_us = retention_s * 1_000_000
        self._into = into
        self.planned: dict[str, PlannedCase] = {}
        self.failed: dict[str, str] = {}

    def missing(self, play: Play) -> Sequence[str]:
        return ()

    def announce(self, plays: list[Play]) -> None:
        """Take note of what will be asked for; here nothing is done ahead of time."""

    def play(self, play: Play) -> Verdict:
        with tempfile.TemporaryDirectory(prefix="lorabench-plan-") as folder:
            capture = Capture(Path(folder), "plan", now_us, buffered=True)
            try:
                planned = clock.run(self._perform(play, capture))
            except (Exception, BaseExceptionGroup) as failure:
                reason = self.failed[play.title.case] = told_of(first_cause(failure), play)
                return Verdict(Result.ERROR, "bench", (reason,))
            finally:
                capture.close()
        self.planned[planned.case] = planned
        return Verdict(Result.PASS)

    async def _perform(self, play: Play, capture: Capture) -> PlannedCase:
        case = Case(play.title, capture, rig="plan")
        rig = simulated_rig(
            wants_store="store" in play.faults,
            wants_broker="broker" in play.faults,
            capabilities=frozenset({WIRES}),
            seed=self._seed,
            case=play.title.case,
            strategy=play.strategy,
            retention_us=self._retention_us,
            retimed=Retiming(self._retention_us),
        )
        watch = _Watch(rig, Notes())
        async with rig.running(case):
            await play.scenario(Watched(rig, watch.notes))  # type: ignore[arg-type]
            watch.ended_us = now_us()
            await rig.settle()
        return _planned(play, case, watch)

    def close(self) -> None:
        if self._into is None or not (self.planned or self.failed):
            return
        self._into.mkdir(parents=True, exist_ok=True)
        plan = {"cases": [one.as_json() for one in self.planned.values()], "failed": self.failed}
        (self._into / PLAN).write_text(json.dumps(plan), encoding="utf-8")


def _planned(play: Play, case: Case, watch: _Watch) -> PlannedCase:
    rig, notes = watch.rig, watch.notes
    began_us = watch.ended_us if rig.began_us is None else rig.began_us
    devices = [_device(name, one, case) for name, one in notes.devices.items()]
    replayed_us = [
        frame_airtime_us(DATA_RATE, len(frame.phy), crc=True) for frame in notes.replayed
    ]
    return PlannedCase(
        case=play.title.case,
        duration_us=watch.ended_us - began_us,
        region=rig.setup.region.name,
        servers=tuple(rig.setup.servers),
        stations=tuple(notes.stations) or BOTH,
        consumers=tuple(notes.consumers),
        verbs=tuple(sorted(notes.verbs)),
        takes=tuple(dict.fromkeys(item for _, _, item in sorted(notes.takes))),
        devices=tuple(devices),
        injected_airtime_us=sum(replayed_us),
        faults=tuple(sorted(play.faults)),
    )


def _device(name: str, notes: DeviceNotes, case: Case) -> PlannedDevice:
    provisioned = notes.target.provisioned
    sent = [
        event
        for event in case.events
        if event["kind"] == "radio.transmit" and event.get("dev_eui") == provisioned.dev_eui
    ]
    on_air = [event for event in sent if event["origin"] == "device"]
    heard = provisioned.f_cnt_up
    return PlannedDevice(
        name=name,
        activation=provisioned.record.activation,
        class_c=provisioned.record.device_class is DeviceClass.C,
        known=provisioned.known,
        dr=provisioned.dr,
        explicit_counter=notes.explicit_counter,
        next_f_cnt=None if heard is None else heard + 1,
        explicit_identity=notes.explicit_identity,
        acts=tuple(notes.acts),
        crafted=any(e["origin"] == "injected" and e.get("genuine", True) for e in sent),
        expects_downlink=notes.expects_downlink,
        transmissions=len(on_air),
        airtime_us=sum(event["airtime_us"] for event in on_air),
    )


def open_dry_run(record: RunRecord, settings: RunSettings) -> DryRun:
    """A dry run whose plan goes where another run would leave its captures."""
    return DryRun(
        seed=record.seed, retention_s=settings.retention_s or RETENTION_S, into=record.runs_dir
    )
