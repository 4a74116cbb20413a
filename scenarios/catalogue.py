"""The catalogue of edge cases as data, and how a line of it is played on a rig."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.device.interfaces import Joining, Sent
from bench.virtual import crafted
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import parse
from scenarios import edge_case as rules
from scenarios.edge_case import Restart, Setup, Step

CATALOGUE = Path(__file__).with_name("edge_cases.json")
LETTERS = {
    "N": "NonDuplicate",
    "D": "Duplicate",
    "S": "SoftDuplicate",
    "R": "DuplicateDueToResubmission",
    "x": "-",
}
EXACT_S = 0.5
STRATEGIES = ("Drop", "Mark", "None")
DEV_STATUS_ANS = bytes.fromhex("06FF00")  # what a port-0 frame of the catalogue carries
OTHER_JOIN_EUI = "70B3D57ED00000FF"

# Frames that cannot be built on demand: two contents with one MIC, found by birthday search.
TWO_CONTENTS_ONE_MIC = ("400403020100050001b11c8adf2b57c889", "400403020100050001b11d19462b57c889")
ALIASES = ("400403020100050001b11d76d065a40c5e", "400403020100050001e900310265a40c5e")
FRAMES = {"D05": TWO_CONTENTS_ONE_MIC, "D06": ALIASES, "D07": ALIASES}
KEYS = SessionKeys(
    bytes.fromhex("44024241ed4ce9a68c6a8bc055233fd3"),
    bytes.fromhex("ec925802ae430ca77fd3dd73cb2cc588"),
)
DEV_ADDR = "01020304"
SHARED_DEV_ADDR = {"D09"}  # a second device with the same DevAddr and NwkSKey takes part


@dataclass(frozen=True)
class EdgeCase:
    """One case of the catalogue that is written as events."""

    id: str
    title: str
    events: str
    facts: dict[str, Any]
    l1: str
    up: str
    down: str

    @cached_property
    def stimulus(self) -> list[Step | Restart]:
        """The steps of the stimulus in order of time."""
        return rules.steps(self.events)

    @cached_property
    def setup(self) -> Setup:
        """The device of the case."""
        otaa = self.facts.get("otaa", False) or rules.joins(self.stimulus)
        relaxed = self.facts.get("relaxed", True)
        return Setup(otaa=otaa, relaxed=relaxed, srv=self.facts.get("srv"))

    @property
    def restarts(self) -> bool:
        """Whether the network server is restarted in it."""
        return any(isinstance(step, Restart) for step in self.stimulus)

    @property
    def is_exact(self) -> bool:
        """Whether a pause is so close to the retention that milliseconds decide."""
        times_s = [step.at_s for step in self.stimulus]
        return any(
            abs(later - earlier - rules.RETENTION_S) < EXACT_S
            for earlier in times_s
            for later in times_s
        )

    def due(self, strategy: str) -> list[str]:
        """The words of each reception, by the rules."""
        return rules.due(self.stimulus, self.setup, strategy)

    def due_statuses(self, strategy: str) -> list[str]:
        """The statuses by the rules."""
        return [text.split()[0] for text in self.due(strategy)]

    def due_totals(self, strategy: str) -> tuple[int, int, int]:
        """Messages up, messages marked, answers down, by the rules."""
        return rules.totals(self.due(strategy))

    def statuses(self, strategy: str) -> list[str]:
        """The statuses the catalogue promises."""
        letters = [text.split("|") for text in self.l1.split()]
        return [LETTERS[by[0] if strategy == "Drop" else by[-1]] for by in letters]

    def totals(self, strategy: str) -> tuple[int, int, int]:
        """Messages up, messages marked, answers down, as the catalogue promises them."""
        place = STRATEGIES.index(strategy)
        up, _, marked = self.up.split("/")[place].partition("*")
        return int(up), int(marked or 0), int(self.down.split("/")[place])


@dataclass(frozen=True)
class Unplayed:
    """A case of the catalogue that is not played, and why."""

    id: str
    title: str
    why: str


@dataclass(frozen=True)
class Catalogue:
    """The cases that are written as events for one server, and the others."""

    cases: tuple[EdgeCase, ...]
    unplayed: tuple[Unplayed, ...]


def read_catalogue(path: Path | str | None) -> Catalogue:
    """Every case of a catalogue; OSError or ValueError if the file is none at all."""
    path = Path(path or CATALOGUE)
    no_catalogue = f"{path} is no catalogue, a JSON object with `cases`"
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{no_catalogue}: {error}") from None
    listed = content.get("cases") if isinstance(content, dict) else content
    if not isinstance(content, dict) or listed is None:
        raise ValueError(no_catalogue)
    if not isinstance(listed, list):
        raise ValueError(f"{path} is no catalogue: its `cases` are no list")
    cases, unplayed, names = [], [], set()
    for place, case in enumerate(listed, 1):
        named = case.get("id") if isinstance(case, dict) else None
        name = named if isinstance(named, str) and named else f"case {place}"
        title = str(case.get("title", "")) if isinstance(case, dict) else ""
        try:
            if name in names:
                raise ValueError(f"there is a case {name} before it")
            names.add(name)
            cases.append(_read_case(case))
        except NotForEvents as reason:
            unplayed.append(Unplayed(name, title, str(reason)))
        except ValueError as error:
            unplayed.append(Unplayed(name, title, f"it cannot be read: {error}"))
    return Catalogue(tuple(cases), tuple(unplayed))


def read_cases(path: Path | str | None) -> tuple[EdgeCase, ...]:
    """The cases written as events for one server; OSError or ValueError if it is no catalogue."""
    return read_catalogue(path).cases


class NotForEvents(Exception):
    """A case can be read, but not be played from its events; the text says why."""


_FORMS = {
    "id": (r".+", "a text"),
    "title": (r".*", "a text"),
    "events": (r".+", "a text, such as S1@0:U10 S2@60:U10"),
    "l1": (
        r"[NDSRx](\|[NDSRx])?( +[NDSRx](\|[NDSRx])?)*",
        "a letter of N, D, S, R and x for each reception, such as N D|S",
    ),
    "up_drop_mark_none": (r"\d+(\*\d+)?(/\d+(\*\d+)?){2}", "three numbers, such as 1/2*1/2"),
    "down_drop_mark_none": (r"\d+/\d+/\d+", "three numbers, such as 1/1/1"),
}
"""How each text of a case is written: a regular expression, and in words."""
_SETUP = ("otaa", "relaxed", "srv", "sliding", "fcnt16_key", "two")


def _read_case(case: Any) -> EdgeCase:
    """One case, looked through to its last word; NotForEvents, or ValueError: it has no sense."""
    if not isinstance(case, dict):
        raise ValueError('it is no object, such as {"id": "X01", …}')
    if case.get("events", "none") in (None, ""):
        raise NotForEvents("it is only prose, without events")
    if missing := [key for key in (*_FORMS, "setup") if key not in case]:
        raise ValueError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    for key, (form, words) in _FORMS.items():
        if not isinstance(case[key], str) or not re.fullmatch(form, case[key], re.ASCII):
            raise ValueError(f"{key} is {words}")
    setup = case["setup"]
    if not isinstance(setup, dict):
        raise ValueError("setup is an object; {} if there is nothing to say")
    if setup.get("two"):
        raise NotForEvents("it needs a second server")
    if setup.get("sliding", True) is not True:
        raise NotForEvents("it needs a retention that does not slide")
    if unknown := sorted(set(setup) - set(_SETUP)):
        raise ValueError(f"its setup has {', '.join(unknown)}; known: {', '.join(_SETUP)}")
    counter = setup.get("srv")
    if counter is not None and not (type(counter) is int and -1 <= counter < 1 << 32):
        raise ValueError(f"srv is {counter!r}: a counter has 32 bits, and -1 is none yet")
    found = EdgeCase(
        case["id"],
        case["title"],
        case["events"],
        setup,
        case["l1"],
        case["up_drop_mark_none"],
        case["down_drop_mark_none"],
    )
    times_s = [step.at_s for step in found.stimulus]
    if times_s != sorted(times_s):
        raise ValueError("its steps are not in order of time")
    for strategy in STRATEGIES:
        if len(found.due(strategy)) != len(found.statuses(strategy)):
            raise ValueError(f"{found.l1!r} has not one status for each reception")
        found.totals(strategy)
    return found


@dataclass(frozen=True)
class Delivered:
    """A frame as it was delivered through a station."""

    sent: Sent | Joining
    station: str


class Player:
    """Plays one case on a rig; remembers frames, so that the same token is the same bytes."""

    def __init__(self, rig: Any, case: EdgeCase) -> None:
        self._rig = rig
        self._case = case
        self._frames: dict[tuple[object, ...], Sent | Joining] = {}
        self._sessions: dict[str, list[tuple[str, SessionKeys]]] = {}
        self._devices: dict[str, Any] = {}
        self.delivered: list[Delivered] = []

    async def play(self) -> list[Delivered]:
        """Deliver every frame of the stimulus at its time."""
        self._provision()
        for step in self._case.stimulus:
            await self._rig.wait_until(round(step.at_s * 1_000_000))
            if isinstance(step, Restart):
                await self._rig.restart_lns(f_cnt_up=step.f_cnt)
            else:
                self._deliver(step)
        await self._rig.settle()
        return self.delivered

    def _provision(self) -> None:
        case, setup = self._case, self._case.setup
        steps = [step for step in case.stimulus if isinstance(step, Step)]
        for station in sorted({step.station for step in steps}):
            self._rig.station(station)
        for name in sorted({step.device for step in steps}):
            srv = rules.first_f_cnt(case.stimulus, name) - 1 if setup.srv is None else setup.srv
            facts: dict[str, Any] = {"f_cnt_up": None if srv < 0 else srv}
            if setup.otaa:
                before_join = next((s.kind != "J" for s in steps if s.device == name), False)
                facts |= {"activation": "otaa", "preset_session": before_join}
            else:
                facts["relaxed_f_cnt"] = setup.relaxed
            if case.id in FRAMES or case.id in SHARED_DEV_ADDR:
                facts |= {"dev_addr_text": DEV_ADDR, "keys": KEYS}
            device = self._devices[name] = self._rig.provision(f"device-{name}", **facts)
            known = device.provisioned
            self._sessions[name] = [(known.dev_addr, known.keys)]
        if case.id in SHARED_DEV_ADDR:
            twin = SessionKeys(KEYS.nwk_s_key, bytes(16))
            self._rig.provision("twin", dev_addr_text=DEV_ADDR, keys=twin, f_cnt_up=4)

    def _deliver(self, step: Step) -> None:
        frame = self._frame(step)
        self._rig.deliver(frame, by=step.station)
        self.delivered.append(Delivered(frame, step.station))

    def _frame(self, step: Step) -> Sent | Joining:
        known = self._devices[step.device].provisioned
        if step.kind != "J":
            self._learn_session(step.device, known)
        session = len(self._sessions[step.device]) - 1
        key = (step.device, session, step.kind, step.number, step.port, step.variant, step.forged)
        if self._case.id in FRAMES:
            return self._found_frame(step)
        if key not in self._frames:
            frame = self._join(step, known) if step.kind == "J" else self._data(step, known)
            self._rig.announce(frame, genuine=not step.forged)
            self._frames[key] = frame
        elif step.kind == "J":
            self._rig.announce(self._frames[key], genuine=not step.forged)
        return self._frames[key]

    def _join(self, step: Step, known: Any) -> Joining:
        join_eui = OTHER_JOIN_EUI if step.variant == "b" else None
        identity = known.identity
        return crafted.join(identity, step.number, join_eui=join_eui, forged=step.forged)

    def _data(self, step: Step, known: Any) -> Sent:
        dev_addr, keys = self._sessions[step.device][-1]
        return crafted.data(
            known.dev_eui,
            dev_addr,
            keys,
            step.number,
            session=len(self._sessions[step.device]) - 1,
            confirmed=step.kind == "C",
            payload=DEV_STATUS_ANS if step.port == 0 else f"data{step.variant}".encode(),
            port=step.port,
            forged=step.forged,
        )

    def _found_frame(self, step: Step) -> Sent:
        place = sum(isinstance(d.sent, Sent) for d in self.delivered)
        phy = bytes.fromhex(FRAMES[self._case.id][place])
        frame_id = parse(phy).frame_id
        dev_eui = self._devices[step.device].provisioned.dev_eui
        sent = Sent(dev_eui, frame_id, phy, step.number, 0, step.kind == "C")
        self._rig.announce(sent)
        return sent

    def _learn_session(self, name: str, known: Any) -> None:
        """Take over the session of a join accept that the server has sent since."""
        accepted = self._rig.sessions_opened(known)
        self._sessions[name] = [(known.dev_addr, known.keys), *accepted]
