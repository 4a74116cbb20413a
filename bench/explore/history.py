"""What befalls devices and the servers that hear them, as plain values and as one line of text?

A history is devices, servers and a list of steps. Each step is of interest for itself, so a history
without some of its steps is a history too. Nothing here knows the network server. As text:

    servers=2 open a=relaxed/Mark/from3 : a confirm A1 B2+300ms ; a restart ; A restart ; wait 61s

`A1` is the first station of server A; `+300ms` is how long after the end of a frame it tells of it.
Those that once broke a law are kept in a file in the manner of a catalogue, `{"cases": [{"id",
"title", "history"}]}`: the scenarios play each of them on every rig (`scenarios/test_explored.py`).
"""

import json
import re
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / "scenarios" / "explored.json"

MILLISECOND_US = 1_000
SECOND_US = 1_000_000
DEVICES_MAX = 3
F_CNT_MAX = 0xFFFFFFFF
SLOW_MAX_US = 9 * SECOND_US  # a server waits 10 s for its application
LATE_MAX_US = 240 * MILLISECOND_US  # and 250 ms for its store
LASTS_MAX_US = 8 * 365 * 86_400 * SECOND_US  # the clock of a radio begins anew then (48 bits)
SERVERS = "ABC"
KINDS = ("otaa", "strict", "relaxed")
STRATEGIES = ("Drop", "Mark", "None")


@dataclass(frozen=True, slots=True)
class Heard:
    """One station (of a server, both from 0) hears a frame and tells of it so much later (µs)."""

    server: int
    station: int
    late_us: int = 0

    @property
    def place(self) -> tuple[int, int]:
        return self.server, self.station


@dataclass(frozen=True, slots=True)
class Send:
    """A device sends something new; `same`: with the content of every other such message.

    `asks`: it asks whether anybody hears it (LinkCheckReq), so it waits for an answer.
    """

    device: int
    confirmed: bool
    heard: tuple[Heard, ...]
    same: bool = False
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """A device sends its last frame once more, bit by bit."""

    device: int
    heard: tuple[Heard, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """Somebody else sends what was sent so many transmissions before, by whomever."""

    back: int
    heard: tuple[Heard, ...]


@dataclass(frozen=True, slots=True)
class Forge:
    """Somebody sends a device's next frame, or its next join request, with a wrong MIC."""

    device: int
    join: bool
    heard: tuple[Heard, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """An OTAA device joins; `deaf`: it does not hear the accept."""

    device: int
    heard: tuple[Heard, ...]
    deaf: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """A device restarts; without its memory it counts from 0 again, or has to join."""

    device: int
    memory: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """So many frames of a device that nobody hears."""

    device: int
    frames: int


@dataclass(frozen=True, slots=True)
class Down:
    """The application wants a device to be sent something by one server."""

    device: int
    server: int


@dataclass(frozen=True, slots=True)
class ServerRestart:
    """A server begins anew, with the store it had."""

    server: int


@dataclass(frozen=True, slots=True)
class StationRestart:
    """A station's link is away for so long; then its radio begins a new session.

    `again`: the session byte that it draws is the one that it had; `mute`: it does not answer when
    it is asked for its clock.
    """

    server: int
    station: int
    away_us: int = 50 * MILLISECOND_US
    again: bool = False
    mute: bool = False


@dataclass(frozen=True, slots=True)
class Upstream:
    """The next message of a server takes so long to be durable, or to be refused by the broker."""

    server: int
    slow_us: int = 0
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """For some time the store does not answer a server, or so much later."""

    server: int
    lasts_us: int
    late_us: int = 0


@dataclass(frozen=True, slots=True)
class Empty:
    """The store loses all that it knew."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing happens."""

    us: int


Step = (
    Send | Again | Replay | Forge | Join | Restart | Skip | Down
    | ServerRestart | StationRestart | Upstream | Store | Empty | Wait
)  # fmt: skip
OnAir = Send | Again | Replay | Forge | Join
AtServer = Down | ServerRestart | StationRestart | Upstream | Store


@dataclass(frozen=True, slots=True)
class Device:
    """A device: "otaa", "strict" or "relaxed" ABP; its first frame has the counter `begins_at`.

    `counts`: its DevNonces have to grow (LoRaWAN 1.0.4). `alike`: all such ABP devices have one
    DevAddr, and are told apart by their keys alone.
    """

    kind: str
    strategy: str
    begins_at: int = 0
    bits: int = 32
    pinned: int | None = None
    counts: bool = False
    alike: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """Devices, servers and what befalls them; `closed`: what servers do without their store."""

    servers: int
    devices: tuple[Device, ...]
    steps: tuple[Step, ...]
    closed: bool = False

    def without(self, first: int, number: int) -> "History":
        return replace(self, steps=self.steps[:first] + self.steps[first + number :])

    def with_step(self, place: int, step: Step) -> "History":
        return replace(self, steps=(*self.steps[:place], step, *self.steps[place + 1 :]))

    @property
    def receptions(self) -> int:
        """How many receptions it has at most."""
        return sum(len(step.heard) for step in self.steps if isinstance(step, OnAir))

    @property
    def waits_us(self) -> int:
        return sum(step.us for step in self.steps if isinstance(step, Wait))

    @property
    def places(self) -> list[tuple[int, int]]:
        """The stations that hear something or are restarted, in order; at least one a server."""
        found = {(server, 0) for server in range(self.servers)}
        for step in self.steps:
            if isinstance(step, OnAir):
                found.update(heard.place for heard in step.heard)
            elif isinstance(step, StationRestart):
                found.add((step.server, step.station))
        return sorted(found)

    def __str__(self) -> str:
        words = [f"servers={self.servers}", "closed" if self.closed else "open"]
        words += [f"{_device_name(n)}={_device(d)}" for n, d in enumerate(self.devices)]
        return f"{' '.join(words)} : {' ; '.join(map(step_text, self.steps))}"


def step_text(step: Step) -> str:
    match step:
        case Send(device, confirmed, heard, same, asks):
            verb = ("confirm" if confirmed else "send") + "=" * same + "?" * asks
            return _words(_device_name(device), verb, *map(_heard, heard))
        case Again(device, heard):
            return _words(_device_name(device), "again", *map(_heard, heard))
        case Replay(back, heard):
            return _words(f"replay{back}", *map(_heard, heard))
        case Forge(device, join, heard):
            verb = "forge-join" if join else "forge"
            return _words(_device_name(device), verb, *map(_heard, heard))
        case Join(device, heard, deaf):
            return _words(_device_name(device), "join" + "~" * deaf, *map(_heard, heard))
        case Restart(device, memory):
            return _words(_device_name(device), "reboot" if memory else "restart")
        case Skip(device, frames):
            return _words(_device_name(device), f"skip{frames}")
        case Down(device, server):
            return _words(_device_name(device), "down", SERVERS[server])
        case ServerRestart(server):
            return _words(SERVERS[server], "restart")
        case StationRestart(server, station, away_us, again, mute):
            verb = "restart" + "=" * again + "~" * mute
            return _words(_place(server, station), verb, time_text(away_us))
        case Upstream(server, slow_us, refused):
            verb = "refuse" if refused else "slow"
            return _words(SERVERS[server], verb, *[time_text(slow_us)] * bool(slow_us))
        case Store(server, lasts_us, late_us):
            late = (time_text(late_us),) if late_us else ()
            return _words(SERVERS[server], "store", time_text(lasts_us), *late)
        case Empty():
            return "empty"
        case Wait(us):
            return _words("wait", time_text(us))


def time_text(us: int) -> str:
    """A time in the largest unit in which it is a whole number: 61s, 300ms, 7us."""
    for unit, size in (("s", SECOND_US), ("ms", MILLISECOND_US)):
        if us % size == 0 and us:
            return f"{us // size}{unit}"
    return f"{us}us"


def read_history(text: str) -> History:
    """A history from its text; ValueError names what cannot be read."""
    head, colon, body = text.partition(":")
    if not colon:
        raise ValueError("a history is `servers=… devices : steps`; there is no colon in it")
    servers, closed = 1, False
    devices: list[Device] = []
    for word in head.split():
        name, equals, value = word.partition("=")
        if word in ("open", "closed"):
            closed = word == "closed"
        elif name == "servers" and value in ("1", "2", "3"):
            servers = int(value)
        elif equals and len(devices) < DEVICES_MAX and name == _device_name(len(devices)):
            devices.append(_read_device(value))
        else:
            raise ValueError(f"cannot read {word!r}")
    if not devices:
        raise ValueError("a history has at least one device: a=relaxed/Mark")
    texts = [part.strip() for part in body.split(";")]
    steps = tuple(_read_step(part) for part in texts if part)
    for step in steps:
        _look_through(step, servers, len(devices))
    if sum(_lasts_us(step) for step in steps) > LASTS_MAX_US:
        raise ValueError(f"it takes longer than {time_text(LASTS_MAX_US)}")
    return History(servers, tuple(devices), steps, closed)


_HEARD = re.compile(r"([ABC])([1-3])(?:\+([0-9]+(?:us|ms|s)))?")
_TIME = re.compile(r"([0-9]+)(us|ms|s)")
_NUMBER = re.compile(r"[0-9]+")
_UNITS = {"us": 1, "ms": MILLISECOND_US, "s": SECOND_US}


def _words(*words: str) -> str:
    return " ".join(words)


def _device_name(number: int) -> str:
    return "abc"[number]


def _place(server: int, station: int) -> str:
    return f"{SERVERS[server]}{station + 1}"


def _heard(heard: Heard) -> str:
    late = f"+{time_text(heard.late_us)}" if heard.late_us else ""
    return _place(heard.server, heard.station) + late


def _device(device: Device) -> str:
    facts = [device.kind, device.strategy]
    facts += [f"from{device.begins_at}"] if device.begins_at else []
    facts += ["16bit"] if device.bits == 16 else []
    facts += [f"pinned{SERVERS[device.pinned]}"] if device.pinned is not None else []
    facts += ["1.0.4"] * device.counts + ["alike"] * device.alike
    return "/".join(facts)


def _read_device(text: str) -> Device:
    kind, _, rest = text.partition("/")
    strategy, *facts = rest.split("/")
    if kind not in KINDS or strategy not in STRATEGIES:
        raise ValueError(f"a device is kind/strategy, as relaxed/Mark, not {text!r}")
    device = Device(kind, strategy)
    for fact in facts:
        if fact == "16bit":
            device = replace(device, bits=16)
        elif fact in ("1.0.4", "alike"):
            word = "alike" if fact == "alike" else "counts"
            device = replace(device, **{word: True})  # type: ignore[arg-type]
        elif fact.startswith("from") and kind != "otaa":
            device = replace(device, begins_at=_read_number(fact[4:]))
        elif fact.startswith("pinned") and fact[6:] in tuple(SERVERS):
            device = replace(device, pinned=SERVERS.index(fact[6:]))
        else:
            raise ValueError(f"cannot read {fact!r} of a device that is {kind}")
    if device.bits == 16 and device.begins_at > 0xFFFF:
        raise ValueError(f"a counter of 16 bits does not begin at {device.begins_at}")
    return device


def _read_step(text: str) -> Step:
    subject, _, rest = text.partition(" ")
    verb, *words = rest.split() or [""]
    try:
        if text == "empty":
            return Empty()
        if subject == "wait":
            return Wait(_read_time(verb))
        if subject.startswith("replay"):
            back = _read_number(subject[6:])
            return Replay(back, _read_heard([verb, *words] if verb else []))
        if subject in ("a", "b", "c"):
            return _read_device_step("abc".index(subject), verb, words)
        if subject in tuple(SERVERS):
            return _read_server_step(SERVERS.index(subject), verb, words)
        if found := _HEARD.fullmatch(subject):
            server, station = SERVERS.index(found[1]), int(found[2]) - 1
            if verb.rstrip("=~") == "restart":
                away_us = _read_time(words[0]) if words else 50 * MILLISECOND_US
                return StationRestart(server, station, away_us, "=" in verb, "~" in verb)
    except IndexError:
        raise ValueError(f"cannot read the step {text!r}: a word is missing") from None
    except ValueError as error:
        raise ValueError(f"cannot read the step {text!r}: {error}") from None
    raise ValueError(f"cannot read the step {text!r}")


def _read_device_step(device: int, verb: str, words: list[str]) -> Step:
    if verb.rstrip("=?") in ("send", "confirm"):
        confirmed = verb.startswith("confirm")
        return Send(device, confirmed, _read_heard(words), "=" in verb, "?" in verb)
    if verb in ("join", "join~"):
        return Join(device, _read_heard(words), verb == "join~")
    if verb in ("forge", "forge-join"):
        return Forge(device, verb == "forge-join", _read_heard(words))
    if verb == "again":
        return Again(device, _read_heard(words))
    if verb in ("restart", "reboot"):
        return Restart(device, verb == "reboot")
    if verb.startswith("skip"):
        return Skip(device, _read_number(verb[4:]))
    if verb == "down":
        return Down(device, SERVERS.index(words[0]))
    raise ValueError(f"a device does not {verb!r}")


def _read_server_step(server: int, verb: str, words: list[str]) -> Step:
    if verb == "restart":
        return ServerRestart(server)
    if verb in ("slow", "refuse"):
        refused = verb == "refuse"
        slow_us = _read_time(words[0]) if words or not refused else 0
        if slow_us > SLOW_MAX_US or not (slow_us or refused):
            raise ValueError(
                f"a message takes more than no time, and {time_text(SLOW_MAX_US)} at most"
            )
        return Upstream(server, slow_us, refused)
    if verb == "store":
        lasts_us, late_us = _read_time(words[0]), _read_time(words[1]) if words[1:] else 0
        if late_us > LATE_MAX_US:
            raise ValueError(f"what answers later than {time_text(LATE_MAX_US)} is away: store 5s")
        return Store(server, lasts_us, late_us)
    raise ValueError(f"a server does not {verb!r}")


def _read_heard(words: list[str]) -> tuple[Heard, ...]:
    heard = []
    for word in words:
        found = _HEARD.fullmatch(word)
        if not found:
            raise ValueError(f"{word!r} is no station, as A1 or B2+300ms")
        late_us = _read_time(found[3]) if found[3] else 0
        heard.append(Heard(SERVERS.index(found[1]), int(found[2]) - 1, late_us))
        if heard[-1].place in {one.place for one in heard[:-1]}:
            raise ValueError(f"{word[:2]} hears a frame once; what it says twice is `again`")
    return tuple(heard)


def _read_number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > F_CNT_MAX:
        raise ValueError(f"{text!r} is no number from 0 to {F_CNT_MAX}")
    return int(text)


def _read_time(text: str) -> int:
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no time, as 61s, 300ms or 7us")
    us = int(found[1][:20]) * _UNITS[found[2]]
    if us > LASTS_MAX_US:
        raise ValueError(f"{text!r} is longer than {time_text(LASTS_MAX_US)}")
    return us


def _lasts_us(step: Step) -> int:
    match step:
        case Wait(us):
            return us
        case Upstream(_, slow_us):
            return slow_us
        case StationRestart(_, _, away_us):
            return away_us
        case Store(_, lasts_us, late_us):
            return lasts_us + late_us
        case _:
            return max((heard.late_us for heard in getattr(step, "heard", ())), default=0)


def _look_through(step: Step, servers: int, devices: int) -> None:
    for server in servers_of(step):
        if server >= servers:
            raise ValueError(f"{step_text(step)!r}: there is no server {SERVERS[server]}")
    if getattr(step, "device", 0) >= devices:
        raise ValueError(f"{step_text(step)!r}: there is no device {_device_name(step.device)}")  # type: ignore[union-attr]


def servers_of(step: Step) -> list[int]:
    if isinstance(step, OnAir):
        return [heard.server for heard in step.heard]
    return [step.server] if isinstance(step, AtServer) else []


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """A history that is played for ever, and why."""

    id: str
    title: str
    history: History

    def as_json(self) -> dict[str, str]:
        return {"id": self.id, "title": self.title, "history": str(self.history)}


def read_histories(path: Path) -> list[KeptHistory]:
    """Every history of a file; OSError or ValueError with the place of what cannot be read."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8-sig"))["cases"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        why = f"{path} keeps no histories, a JSON object with `cases`: {error!r}"
        raise ValueError(why) from None
    cases: dict[str, KeptHistory] = {}
    for place, case in enumerate(listed, 1):
        try:
            if not all(isinstance(case[key], str) for key in ("id", "title", "history")):
                raise ValueError("id, title and history are texts")
            kept = KeptHistory(case["id"], case["title"], read_history(case["history"]))
        except (ValueError, TypeError, KeyError) as error:
            missing = " is missing" if isinstance(error, KeyError) else ""
            raise ValueError(f"{path}: case {place} cannot be read: {error}{missing}") from None
        if kept.id in cases:
            raise ValueError(f"{path}: case {place} has the id {kept.id}, as one before it")
        cases[kept.id] = kept
    return list(cases.values())


def keep_histories(path: Path, found: list[tuple[str, History]]) -> list[KeptHistory]:
    """Add histories, each with its title; those that are there already are not added again."""
    cases = read_histories(path) if path.exists() else []
    known, ids = {str(case.history) for case in cases}, {case.id for case in cases}
    added: list[KeptHistory] = []
    for title, history in found:
        if str(history) not in known:
            known.add(str(history))
            number = next(n for n in count(len(cases) + len(added) + 1) if f"X{n:02}" not in ids)
            ids.add(f"X{number:02}")
            added.append(KeptHistory(f"X{number:02}", title, history))
    document = {"cases": [case.as_json() for case in (*cases, *added)]}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    return added
