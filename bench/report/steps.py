"""Between whom did an event take place, and what is written on its arrow?

The report draws the steps of a case as pixels, `lorabench timeline` as characters: this file is
what the two drawings have in common.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from bench.capture.reading import Event
from bench.report import narration
from bench.report.narration import Cast, disposition, milliseconds

_CLOCKWORK = ("timesync", "getxtime", "router_config")  # said whatever the case is about
_SPOKEN = re.compile(r"SEND|MSG|JOIN|RESET|ATZ|REBOOT|EVT|ERROR|TIMEOUT|FAIL", re.IGNORECASE)


class Kind(StrEnum):
    """The kinds of parties, in the order in which an uplink passes them."""

    DEVICE = "device"
    AIR = "air"
    STATION = "station"
    TAP = "tap"
    SERVER = "LNS"
    UPSTREAM = "upstream"


class Party(NamedTuple):
    """One party of a case; `name` is an EUI or a server's id, "" where there is only one."""

    kind: Kind
    name: str = ""


class Shape(StrEnum):
    """How a step is drawn: between parties, at one of them, or across all of them."""

    ARROW = "arrow"
    DOT = "dot"
    CROSS = "cross"
    BAND = "band"


AIR = Party(Kind.AIR)
TAP = Party(Kind.TAP)
UPSTREAM = Party(Kind.UPSTREAM)


@dataclass(frozen=True, slots=True)
class Step:
    """One event between parties: where it starts, what it passes, where it ends.

    A lost text ends at the tap if it passes one, anything else that is lost at its last stop.
    """

    shape: Shape
    stops: tuple[Party, ...]
    label: str
    injected: bool = False
    lost: bool = False


class Scene:
    """Who is there in one case, and which server each station talks to."""

    def __init__(self, events: Iterable[Event], cast: Cast) -> None:
        self.cast = cast
        self.servers = tuple(Party(Kind.SERVER, name) for name in cast.servers or ("LNS",))
        self.has_air = False
        self.server_of: dict[str, Party] = {}
        for event in events:
            self.has_air = self.has_air or str(event.get("kind")).startswith("radio.")
            named = Party(Kind.SERVER, str(event.get("lns")))
            if "station" in event and named in self.servers:
                self.server_of[str(event["station"])] = named

    def device(self, eui: object) -> Party | None:
        return Party(Kind.DEVICE, str(eui)) if str(eui) in self.cast.devices else None

    def station(self, eui: object) -> Party | None:
        return Party(Kind.STATION, str(eui)) if str(eui) in self.cast.stations else None

    def server(self, event: Event) -> Party:
        named = Party(Kind.SERVER, str(event.get("lns")))
        if named in self.servers:
            return named
        return self.server_of.get(str(event.get("station")), self.servers[0])


def step_of(event: Event, scene: Scene) -> Step | None:
    """The step of one event; None for what happens inside a party, or to nobody of the cast."""
    tell = _STEPS.get(str(event.get("kind")))
    return None if tell is None else tell(event, scene)


def _spoken(event: Event, scene: Scene) -> Step | None:
    device, text = scene.device(event.get("dev_eui")), str(event.get("text"))
    if device is None or _SPOKEN.search(text) is None:
        return None
    return Step(Shape.DOT, (device,), text)


def _transmitted(event: Event, scene: Scene) -> Step | None:
    injected = event.get("origin") == "injected"
    if event.get("direction") == "down":
        station = scene.station(event.get("sender"))
        if station is None:
            return None
        only = list(scene.cast.devices)
        ends = (AIR, Party(Kind.DEVICE, only[0])) if len(only) == 1 else (AIR,)
        return Step(Shape.ARROW, (station, *ends), "downlink on the air", injected)
    device = scene.device(event.get("sender"))
    if device is None:
        return None
    label = f"FCnt {event['f_cnt']}" if "f_cnt" in event else "join request"
    if event.get("genuine") is False:
        label = "forged frame"
    if event.get("attempt", 1) != 1:
        label += f", again ({event['attempt']})"
    return Step(Shape.ARROW, (device, AIR), label, injected)


def _lost(event: Event, scene: Scene) -> Step | None:
    receiver = event.get("receiver")
    party = scene.station(receiver) or scene.device(receiver)
    if party is None:
        return None
    return Step(Shape.CROSS, (party,), f"not heard: {event.get('cause')}")


def _texted(event: Event, scene: Scene) -> Step | None:
    station, word = scene.station(event.get("station")), narration.msgtype(event.get("text"))
    if station is None or word in _CLOCKWORK:
        return None
    injected, lost = event.get("origin") == "injected", event.get("dropped") is True
    label, server = narration.label(event.get("text")), scene.server(event)
    if event.get("direction") == "down":
        return Step(Shape.ARROW, (server, TAP, station), label, injected, lost)
    heard = word in ("updf", "jreq") and scene.has_air and not injected
    start = (AIR, station) if heard else (station,)
    return Step(Shape.ARROW, (*start, TAP, server), label, injected, lost)


def _decided(event: Event, scene: Scene) -> Step:
    return Step(Shape.DOT, (scene.server(event),), disposition(event))


def _forgot(event: Event, scene: Scene) -> Step:
    return Step(Shape.DOT, (scene.server(event),), "forgets a sighting too early")


def _published(event: Event, scene: Scene) -> Step:
    body = event.get("body")
    told = body if isinstance(body, dict) else {}
    marked = ", marked dupMsg" if told.get("dupMsg") is True else ""
    server = scene.server({**event, "lns": told.get("lns")})
    return Step(Shape.ARROW, (server, UPSTREAM), f"FCnt {told.get('fCnt', '?')}{marked}")


def _not_published(event: Event, scene: Scene) -> Step:
    stops = (scene.server(event), UPSTREAM)
    return Step(Shape.ARROW, stops, f"{event.get('cause')}", lost=True)


def _faulted(event: Event, scene: Scene) -> Step:
    where = f", {scene.cast.name(str(event['station']))}" if "station" in event else ""
    label = f"fault: {event.get('fault')} on the {event.get('seam')}{where}"
    return Step(Shape.BAND, (), label, injected=True)


def _restarted(event: Event, scene: Scene) -> Step | None:
    if event.get("event") != "restart":
        return None
    return Step(Shape.BAND, (), f"{event.get('lns')} restarts")


def _stalled(event: Event, scene: Scene) -> Step:
    label = f"the host stalled for {milliseconds(event.get('late_us'))}"
    return Step(Shape.BAND, (), label, injected=True)


_STEPS: dict[str, Callable[[Event, Scene], Step | None]] = {
    "device.command": _spoken,
    "device.line": _spoken,
    "radio.transmit": _transmitted,
    "radio.lost": _lost,
    "station.text": _texted,
    "lns.outcome": _decided,
    "lns.evicted": _forgot,
    "upstream.published": _published,
    "upstream.failed": _not_published,
    "fault.begin": _faulted,
    "case.lns": _restarted,
    "host.stalled": _stalled,
}
