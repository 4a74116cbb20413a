"""How is a history played on a rig, with its taps, captures and verdicts?

The same steps as in memory, through the verbs of the rig: frames are built by the conductor and
told by stations as if they had just been heard. What a rig cannot do it says (`missing`).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from bench.capture.reading import Event
from bench.clock import until
from bench.device.interfaces import Joining, Sent
from bench.explore.history import (
    SECOND_US,
    SERVERS,
    Down,
    Empty,
    History,
    OnAir,
    ServerRestart,
    StationRestart,
    Step,
    Store,
    Upstream,
)
from bench.explore.model import Model
from bench.explore.model_doubts import LINK_US
from bench.explore.play import ON_AIR_US, Conductor, Secrets, reception_text
from bench.explore.trace import Delivered, Frame, Trace, Words
from bench.rig.stations import GatewayAway
from bench.verdict import wire
from bench.verdict.expectation import Due, words
from bench.virtual.lorawan.air_interface import read_data
from bench.virtual.lorawan.join_frames import read_join_request
from lns.clock import now_us

FIRST_STATIONS = ("west", "east", "north")
ALIKE = "01000009"  # the DevAddr of several devices
APART_US = 150_000  # two stations on wires that tell of a frame
ON_WIRES_US = 1_200_000  # a frame on wires, with all that is told of it
CLOSES_US = 600_000  # every window of an answer: so much of a second after the end of the frame
WAITS_MAX_US = 5_000_000  # of a history on wires
UP_WITHIN_US = 20_000_000
CONFIGURED_US = 100_000  # what a station says of its clock is on its way


def missing(history: History) -> str | None:
    """Why a rig cannot play a history; None where it can."""
    any_away = any(isinstance(step, StationRestart) for step in history.steps)
    any_down = any(isinstance(step, Down) for step in history.steps)
    disturbed = [step.server for step in history.steps if isinstance(step, Upstream)]
    if len(disturbed) > len(set(disturbed)):
        return "on a rig every message that is disturbed is another one"
    wanted = [step.device for step in history.steps if isinstance(step, Down)]
    if len(wanted) > len(set(wanted)):
        return "on a rig a downlink waits while the one before is on its way to its window"
    if any_away and any_down:
        return "on a rig a downlink is on its way to its window when its station goes"
    for step in history.steps:
        if isinstance(step, Empty):
            return "a store that begins anew takes its own time on a rig"
        if isinstance(step, StationRestart) and step.mute:
            return "stations of a rig tell their clocks"
        if isinstance(step, Upstream) and step.refused and step.slow_us:
            return "on a rig a message is refused at once"
        if isinstance(step, ServerRestart) and any_away:
            return "on a rig a server that restarts waits for all stations, of all servers"
        if isinstance(step, ServerRestart) and step.server in disturbed:
            return "on a rig an application refuses whoever begins anew, too"
        if isinstance(step, Down) and history.servers > 1:
            return "on a rig downlinks of one of several servers are not told apart"
        if history.servers > 1 and (
            (isinstance(step, Upstream) and step.slow_us)
            or (isinstance(step, Store) and step.late_us)
        ):
            return "on a rig the answers of several servers leave in the order of their counters"
    return None


def needs(history: History) -> Iterator[str]:
    """What a rig must be capable of for a history."""
    if any(isinstance(step, Upstream) for step in history.steps):
        yield "slow application"
    # A cut that begins a microsecond before a frame; what a single server keeps is with it by then.
    is_cut = history.servers == 1 and any(isinstance(step, Store) for step in history.steps)
    is_exact = is_cut or any(_is_exact(step) for step in history.steps)
    if history.waits_us > WAITS_MAX_US or is_exact:
        yield "virtual time"


def fits_wires(history: History) -> bool:
    """Whether it is short enough, and nothing in it is over at a moment that decides."""
    faults = any(isinstance(step, Upstream | Store) for step in history.steps)
    return not faults and next(needs(history), None) is None


def for_wires(history: History) -> History:
    """The same with stations that tell so long after each other that wires keep the order."""
    return _told(history, lambda place, late_us: place * APART_US)


def _in_time(history: History) -> History:
    """The same with a window that is still open when what is told just before has come."""
    just_us = range(CLOSES_US - LINK_US, CLOSES_US)
    return _told(history, lambda _, late_us: late_us - LINK_US * (late_us % SECOND_US in just_us))


def _told(history: History, late_us: Callable[[int, int], int]) -> History:
    steps = []
    for step in history.steps:
        if isinstance(step, OnAir):
            heard = [replace(h, late_us=late_us(n, h.late_us)) for n, h in enumerate(step.heard)]
            step = replace(step, heard=tuple(heard))
        steps.append(step)
    return replace(history, steps=tuple(steps))


def _is_exact(step: Step) -> bool:
    told_us = sorted(heard.late_us for heard in getattr(step, "heard", ()))
    apart = all(later - sooner >= APART_US for sooner, later in pairwise(told_us))
    return not apart or any(us > ON_WIRES_US for us in told_us)


async def play_on(rig: Any, history: History) -> Trace:
    """Play a history on a rig, and let the rig expect what the model says."""
    history = _in_time(history)
    stage = RigStage(rig, history)
    await rig.start()
    trace = await Conductor(history, stage).play()
    due = Model(trace).judge()
    for reception in trace.receptions:
        seen = trace.outcomes[reception.number]
        wanted = due[reception.number].words or (seen[0] if seen else None)
        if wanted is None:
            continue
        name = stage.station(reception.server, reception.station)
        rig.expect_due(stage.sent(reception.frame), Due(name, words(str(wanted))))
    return trace


class RigStage:
    def __init__(self, rig: Any, history: History) -> None:
        self._rig: Any = rig
        self._history = history
        self.retention_us: int = self._rig.retention_us
        is_virtual = "virtual time" in rig.capabilities
        self.on_air_us = ON_AIR_US if is_virtual else ON_WIRES_US
        self._numbers: dict[tuple[str, int], int] = {}
        self._sent: dict[int, Sent | Joining] = {}
        for server in range(1, history.servers):
            names = [self.station(*place) for place in history.places if place[0] == server]
            rig.put_on(self._lns(server), *names)
        for place in history.places:
            rig.station(self.station(*place))
        if history.closed:
            rig.on_outage("closed")
        self._devices = [self._provision(number) for number in range(len(history.devices))]

    def station(self, server: int, station: int) -> str:
        if server == 0:
            return FIRST_STATIONS[station]
        return f"{SERVERS[server].lower()}{station + 1}"

    def sent(self, frame: Frame) -> Sent | Joining:
        """A frame as the rig knows it; announced, so that its books know who sent it."""
        if frame.number not in self._sent:
            dev_eui = self._devices[frame.device].provisioned.dev_eui
            read = read_join_request if frame.is_join else read_data
            said = read(frame.phy)
            assert said is not None, "the conductor builds what can be read"
            if frame.is_join:
                made: Sent | Joining = Joining(dev_eui, said.frame_id, frame.phy, frame.f_cnt)
            else:
                session, confirmed = max(frame.session, 0), frame.confirmed
                made = Sent(dev_eui, said.frame_id, frame.phy, frame.f_cnt, session, confirmed)
            self._sent[frame.number] = made
        return self._sent[frame.number]

    async def until(self, us: int) -> None:
        await self._rig.pause(us - now_us())

    def secrets(self, device: int) -> Secrets:
        known = self._devices[device].provisioned
        keys = None if self._history.devices[device].kind == "otaa" else known.keys
        join_eui = known.identity.join_eui
        return Secrets(known.dev_eui, join_eui, known.app_key, known.dev_addr, keys)

    def text(self, server: int, station: int, frame: Frame, number: int) -> str:
        name = self.station(server, station)
        self._rig.announce(self.sent(frame), genuine=not frame.forged)
        xtime = self._rig.station(name).tap.xtime_now()
        self._numbers[self._rig.station(name).eui, xtime] = number
        return reception_text(frame, xtime, number)

    async def tell(self, server: int, station: int, text: str) -> None:
        self._rig.station(self.station(server, station)).tap.inject(text)

    async def restart_server(self, server: int) -> None:
        await self._rig.restart_lns(lns=self._lns(server))

    async def take_away(self, server: int, station: int) -> None:
        self._rig.station(self.station(server, station)).cut()

    async def bring_back(self, step: StationRestart) -> None:
        back = self._rig.station(self.station(step.server, step.station))
        if step.again:
            back.repeat_session()
        back.restore()
        back.restart()
        not_back = GatewayAway(f"{back.name} does not come back")
        await until(lambda: back.is_up, UP_WITHIN_US, lambda: not_back, every_us=10_000)
        await self._rig.pause(CONFIGURED_US)

    def disturb_upstream(self, server: int, slow_us: int, *, refused: bool) -> None:
        if refused:
            self._rig.refuse_upstream(lns=self._lns(server))
        else:
            self._rig.delay_upstream(slow_us, lns=self._lns(server))

    def disturb_store(self, server: int, late_us: int) -> None:
        if late_us:
            self._rig.slow_store(late_us, self._lns(server))
        else:
            self._rig.cut_store(self._lns(server))

    async def restore_store(self, server: int) -> None:
        await self._rig.restore_store(self._lns(server))

    def empty_store(self) -> None:
        raise AssertionError("see `missing`")

    async def want_downlink(self, server: int, device: int) -> None:
        await self._rig.queue_downlink(self._devices[device], payload=b"on", port=7)

    def downlinks(self) -> list[tuple[int, bytes]]:
        found = []
        for event in self._rig.case.events:
            if event["kind"] != "station.text" or event["direction"] != "down":
                continue
            said = wire.wanted(wire.understood(event["text"]))
            if said is None:
                continue
            number = self._numbers.get((event["station"], said.xtime))
            if number is not None:
                found.append((number, said.pdu))
        return found

    def keep(self, trace: Trace, devices: int) -> None:
        """What the store has, no rig can see."""

    def see(self, trace: Trace) -> None:
        for event in self._rig.case.events:
            if event["kind"] == "lns.outcome":
                number = self._numbers.get((event["station"], event.get("xtime", 0)))
                if number is None:
                    trace.strays += 1
                else:
                    trace.outcomes[number].append(_words(event))
            elif event["kind"] == "upstream.published":
                trace.delivered.append(self._delivered(event))

    def _delivered(self, event: Event) -> Delivered:
        body = event.get("body", event)
        server = SERVERS.index(str(body["lns"])[-1].upper())
        return Delivered(
            round(-body["rssi"]),
            server,
            body["messageId"],
            body["removeDuplicatesKey"],
            body.get("dupMsg", False),
            body.get("unverified", False),
        )

    def _provision(self, number: int) -> Any:
        device = self._history.devices[number]
        facts: dict[str, Any] = {
            "strategy": self._rig.strategy.__class__(device.strategy),
            "f_cnt_bits": device.bits,
            "lorawan": "1.0.4" if device.counts else "1.0.3",
        }
        if device.pinned is not None:
            facts["server"] = self._lns(device.pinned)
        if device.kind == "otaa":
            facts["activation"] = "otaa"
        else:
            facts["relaxed_f_cnt"] = device.kind == "relaxed"
            facts |= {"dev_addr_text": ALIKE} if device.alike else {}
            facts |= {"f_cnt": device.begins_at} if device.begins_at else {}
        return self._rig.provision(f"explored-{'abc'[number]}", **facts)

    def _lns(self, server: int) -> str:
        return f"lns-{SERVERS[server].lower()}"


def _words(event: Event) -> Words:
    return Words(
        event.get("status", "-"),
        event["upstream"],
        event.get("reason", "-"),
        event["answer"],
        event.get("level2", "NotAsked"),
    )
