"""Does a network server's own account of a reception name the frame, and whose it is, rightly?

And that of what level 1 forgot before its time, and of claims. Who owns the newest frame of a
session follows from the claims that were granted before. Where the store, a server or the
application was disturbed, a frame may have been given back or forgotten: then only who was granted
something at all, or had no store to ask, can own it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.capture.reading import Event
from bench.inspection.downlink import DAY_US, Answered
from bench.verdict.owner import Found, Scrutiny
from bench.verdict.wire import Uplink
from bench.virtual.lorawan.air_interface import DataFrame
from bench.virtual.lorawan.join_frames import JoinRequest

_FORGOTTEN = re.compile(r"[0-9A-F]{16}:([0-9A-F]{8}|[0-9A-F]{16}):[0-9]+")
_SILENCE_ERROR_US = 300_000
"""By how much a silence may differ from what passed at the taps."""
_AT_ONCE_US = 10_000
"""By then a server that waits for nothing has said what became of a text."""
_COPIES, _REFUSED = ("Duplicate", "SoftDuplicate"), ("Duplicate", "InvalidFrameCounter")
_NAMELESS = ("UnknownDevice", "MicMismatch")
"""Refused before anybody knew who had sent it."""
_HEAD = frozenset({"schema", "run_id", "source", "seq", "t_us", "kind", "case"})
_FRAME = "frame_id dev_addr f_cnt confirmed mic"
_NAMELESS_FRAME = "frame_id dev_addr confirmed mic"
_ANSWER, _CARRIED = "frame_id margin_us xtime", "f_port confirmed"
_DATA = "f_port confirmed payload_bytes waiting dev_eui"
# What every one of a kind has, and what it has besides: either of these.
_SHAPES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "lns.claim": (
        "lns station frame_id dev_eui dev_addr f_cnt decision duration_us xtime",
        ("", "owner", "owner f_cnt_down"),
    ),
    "lns.connection connected": ("lns stage station peer", ("",)),
    "lns.connection disconnected": ("lns stage station peer cause texts binaries", ("",)),
    "lns.connection refused": ("lns stage peer cause", ("", "station")),
    "lns.downlink scheduled": (
        "lns stage station dev_eui diid window",
        (
            _ANSWER,
            f"{_ANSWER} dev_addr f_cnt_down",
            f"{_ANSWER} dev_addr f_cnt_down {_CARRIED}",
            f"dev_addr f_cnt_down {_CARRIED}",
        ),
    ),
    "lns.downlink transmitted": (
        "lns stage station dev_eui diid window xtime",
        ("frame_id", f"frame_id {_CARRIED}", _CARRIED),
    ),
    "lns.evicted": ("lns key silent_us", ("",)),
    "lns.failure": ("lns station during error", ("", "frame_id")),
    "lns.outcome": (
        "lns station upstream answer level2",
        (
            "reason",
            *(f"reason xtime {of}" for of in ("frame_id", "frame_id mic", _NAMELESS_FRAME)),
            *(f"xtime strategy dev_eui {of} {how}"
              for of in (_FRAME, "frame_id mic")
              for how in ("status", "reason", "status reason")),
        ),
    ),
    "lns.request queued": ("lns stage", (_DATA, "wants dev_eui")),
    "lns.request done": ("lns stage", (_DATA, "wants dev_eui")),
    "lns.request given_up": ("lns stage reason", (_DATA, "wants dev_eui")),
    "lns.request refused": ("lns stage reason", ("", _DATA, "wants dev_eui")),
    "lns.too_late going on": ("lns stage station n cause", ("",)),
    "lns.too_late over": ("lns stage station n", ("",)),
    "lns.turned": ("lns file", ("",)),
    "lns.unreadable": ("lns station msgtype why", ("",)),
    "lns.unrecorded": ("lns events", ("",)),
    "upstream.acknowledged": ("lns topic message_id sequence_number waiting", ("",)),
    "upstream.parked": ("lns topic message_id sequence_number waiting", ("",)),
}  # fmt: skip
_NAMES = {
    kind: [frozenset(f"{always} {either}".split()) for either in others]
    for kind, (always, others) in _SHAPES.items()
}


def misshapen(event: Event) -> Iterator[Found]:
    """Whether an event of a network server has what one of its kind has, and nothing else."""
    if not event["kind"].startswith(("lns.", "upstream.")):
        return
    kind = " ".join(filter(None, (event["kind"], str(event.get("stage", "")))))
    seen, shapes = event.keys() - _HEAD, _NAMES.get(kind, [])
    if seen in shapes:
        return
    of, station = f"{kind} of {event.get('lns')}", event.get("station")
    check = Scrutiny(rule="account", of=of, t_us=event["t_us"], station=station)
    if shapes:
        due = min(shapes, key=lambda names: len(names ^ seen))
        yield check.wrong("names", ", ".join(sorted(due)), ", ".join(sorted(seen)))
    elif event["kind"].startswith("lns."):
        yield check.wrong("kind", "one of a network server", kind)


def outcome(
    told: Mapping[str, Any],
    uplink: Uplink,
    sender: Answered | None,
    strategy: str | None,
    check: Scrutiny,
) -> Iterator[Found]:
    """What is wrong in the outcome of a frame that was heard so.

    `sender`: the device of the case that sent it, if one did; `strategy` is that device's.
    """
    if told.get("reason") == "InternalError":
        return  # that is what is wrong
    if sender is not None and sender.session is not None:
        sender.session.decide(told)
    frame = uplink.frame
    due: dict[str, object] = {}
    if isinstance(frame, DataFrame):
        due = {
            "dev_addr": frame.dev_addr,
            "mic": frame.mic.hex().upper(),
            "confirmed": frame.confirmed,
        }
    if isinstance(frame, JoinRequest):
        due = {"mic": frame.mic.hex().upper(), "dev_eui": None}
        if "status" in told or told.get("reason") == "BelongsToAnotherServer":
            due["dev_eui"] = frame.dev_eui
    elif told.get("reason") in _NAMELESS:
        yield from check.same("dev_eui", None, told.get("dev_eui"))
    if sender is not None and ("status" in told or told.get("reason") == "BelongsToAnotherServer"):
        due |= {"dev_eui": sender.device.dev_eui, "strategy": strategy}
        if isinstance(frame, DataFrame):
            due["f_cnt"] = sender.f_cnt
    if told.get("status") == "Duplicate":  # whatever is in it
        due |= {"upstream": "dropped", "reason": "Duplicate"}
    for name, value in due.items():
        yield from check.same(name, _plain(value), _plain(told.get(name)))
    yield from _answered(told, uplink, sender, check)


def _answered(
    told: Mapping[str, Any], uplink: Uplink, sender: Answered | None, check: Scrutiny
) -> Iterator[Found]:
    """Whether it is told that a frame asked for an answer when it did, and not when it did not.

    What the network itself wants of a device may be due with a new frame only.
    """
    answer, is_known = str(told.get("answer")), "status" in told
    if not is_known and told.get("reason") != "BelongsToAnotherServer":
        yield from check.same("answer", "NotAsked", answer)
    elif isinstance(uplink.frame, JoinRequest):
        if "reason" in told:
            yield from check.same("answer", "Suppressed", answer)
        elif answer in ("Suppressed", "NotAsked"):
            yield check.wrong("answer", "RX1, RX2 or TooLate", answer)
    elif sender is not None and sender.session is not None:
        if sender.asks and answer == "NotAsked":
            yield check.wrong("answer", "that of a frame which asks for one", answer)
        elif not sender.asks and ("reason" in told or told.get("status") in _COPIES):
            yield from check.same("answer", "NotAsked", answer)


class Decided:
    """When each server has said what became of the copy of a frame that came before its others.

    One that goes nowhere then waits for nothing: no store is asked about what level 1 has seen.
    """

    def __init__(self) -> None:
        self._since_us: dict[tuple[str, str], int] = {}

    def compare(self, event: Event, told_us: int, check: Scrutiny) -> Iterator[Found]:
        """What is wrong in when an outcome is told, whose frame its station told at `told_us`."""
        frame, t_us = (event["lns"], event["frame_id"]), int(event["t_us"])
        if event.get("status") not in _COPIES:
            self._since_us[frame] = t_us
        elif event.get("reason") in _REFUSED:
            late_us = t_us - max(told_us, self._since_us.get(frame, t_us))
            if late_us > _AT_ONCE_US:
                yield check.wrong("told", "at once", f"{late_us // 1000} ms later")


def unreadable(told: Mapping[str, Any], check: Scrutiny) -> Iterator[Found]:
    """What is wrong in the outcome of a reception that cannot be read."""
    due = {"upstream": "dropped", "reason": "Malformed", "answer": "NotAsked"}
    for name, value in {**due, "level2": "NotAsked", "status": None, "dev_eui": None}.items():
        yield from check.same(name, value, _plain(told.get(name)))


def forgotten(event: Event, told: Sequence[Uplink]) -> Iterator[Found]:
    """What is wrong in what level 1 says that it forgot: which frame, and how long it was silent.

    A frame is named by DevEUI, MIC and the counter on the wire, a join by JoinEUI, DevEUI and
    DevNonce. `told`: all that stations have told so far.
    """
    key: str = event["key"]
    check = Scrutiny(rule="evicted", of=f"what was forgotten, {key}", t_us=event["t_us"])
    if _FORGOTTEN.fullmatch(key) is None:
        yield check.wrong("key", "a DevEUI, a MIC and a counter, or what names a join", key)
        return
    _, mic, counter = key.split(":")
    frames = [one for one in told if one.frame_id == key]
    for uplink in told:
        if isinstance(uplink.frame, DataFrame) and uplink.frame.mic.hex().upper() == mic:
            frames.append(uplink)
            yield from check.same("FCnt", str(uplink.frame.f_cnt), counter)
    silences = [event["t_us"] - one.t_us for one in frames]
    if frames and all(abs(us - event["silent_us"]) > _SILENCE_ERROR_US for us in silences):
        yield check.wrong("silent_us", silences[-1], event["silent_us"])


@dataclass(slots=True)
class Remembered:
    """Which frames were told when level 1 may have forgotten that they were told before.

    It forgets what was silent for `retention_us`, all with its process, and what it has no room
    for. Each server has its own, so what another station has told meanwhile counts for nothing.
    """

    retention_us: int = 60_000_000
    _told_us: defaultdict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """Of each frame when each station told it last."""
    _again: set[tuple[str, int]] = field(default_factory=set)

    def tell(self, uplink: Uplink) -> None:
        """A station has told of a frame."""
        told_us = self._told_us[uplink.frame_id]
        latest_us = max(told_us.values(), default=uplink.t_us)
        before_us = min(told_us.get(uplink.station, latest_us), latest_us)
        if uplink.t_us - before_us > self.retention_us - _SILENCE_ERROR_US:
            self._again.add((uplink.station, uplink.xtime))
        told_us[uplink.station] = uplink.t_us

    def forget(self, key: str = "") -> None:
        """A server has begun anew, or has no room for one, which it names by its MIC."""
        mic = key.partition(":")[2].partition(":")[0]
        for frame_id, told_us in self._told_us.items():
            if frame_id.endswith(mic):
                told_us |= dict.fromkeys(told_us, -self.retention_us)

    def may_be_new(self, uplink: Uplink) -> bool:
        """Whether this was told once more of a frame that may be forgotten."""
        return (uplink.station, uplink.xtime) in self._again


def _plain(value: object) -> object:
    """A word is the same text in this process as in the capture of another one."""
    return str(value) if isinstance(value, str) else value


ASKED_US, BEHIND_US = 200_000, 250_000
"""How long a server waits for an answer, whose a frame is; and behind another question of its."""
_TOLD_WITHIN_US = 1_000_000
"""Two servers that claim at the same moment tell of it in any order."""
_UNDISTURBING = ("tap", "air", "clock")
Session = tuple[str, str]
"""DevEUI and DevAddr."""


def claimed(claim: Event, outcome: Event, check: Scrutiny) -> Iterator[Found]:
    """What is wrong in what a server says of a claim, by the outcome of the same reception."""
    if outcome.get("reason") != "InternalError":  # of which nobody knows how far it came
        yield from check.same("level2", str(claim["decision"]), str(outcome.get("level2")))
    for name in ("dev_eui", "dev_addr", "frame_id", "f_cnt"):
        if name in outcome:
            yield from check.same(name, outcome[name], claim.get(name))
    if claim["decision"] == "Owner":
        yield from check.same("owner", claim.get("lns"), claim.get("owner"))
    if claim["decision"] == "Unavailable":  # nobody has said whose it is
        yield from check.same("owner", None, claim.get("owner"))


@dataclass(slots=True)
class Claims:
    """What servers say of whose a session is, and which downlink counter a claim has brought.

    Remembers who was granted something of a session, and what its newest frame was and when; the
    counters that claims have taken (None: they took none), by server, station and `xtime`.
    `is_in_order`: servers tell in the order in which it happens; `is_blind`: something was
    disturbed that decides whose a frame is.
    """

    is_in_order: bool = False
    is_blind: bool = False
    has_begun: bool = False
    """Whether anything was claimed: a server that starts later than that begins anew."""
    granted: defaultdict[Session, set[str]] = field(default_factory=lambda: defaultdict(set))
    alone: defaultdict[Session, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Who had no store to ask: what it accepted meanwhile may be the newest, granted by nobody."""
    orphaned: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By device: who claimed a frame for a scenario, and is none of those that tell."""
    last: dict[Session, int] = field(default_factory=dict)
    """The counter of the frame that was granted last."""
    newest: dict[Session, tuple[frozenset[str], int]] = field(default_factory=dict)
    frames: set[tuple[Session, str]] = field(default_factory=set)
    taken: dict[tuple[object, ...], list[int | None]] = field(default_factory=dict)
    brought: defaultdict[Session, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Every downlink counter that a claim has taken, whether an answer left with it or not."""
    used: dict[Session, tuple[int, int]] = field(default_factory=dict)
    """The downlink counter that left last, and when."""
    doubtful: list[tuple[Session, Event, Found]] = field(default_factory=list)
    delays: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By server: since when its store answers late, and by how much."""
    told_us: dict[str, int] = field(default_factory=dict)
    """By server: when it told of a claim last."""
    slowed: set[str] = field(default_factory=set)
    """The servers whose store has ever answered late: the others wait for nothing."""
    waits: bool = False
    """Whether the store took everything once and answered nothing, or is found by Sentinels."""
    keeps: defaultdict[Session, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The servers that nobody told whose a frame is, and that may have kept it."""
    is_over: bool = False
    """Whether claims are over: of a frame that is kept the owner is who kept it last."""
    asks_twice: bool = False
    """Whether a store has forgotten the scripts of claims: its answer is that, and then they go."""
    is_hurried: bool = True
    """Whether the application takes whatever it is given at once."""
    cut_off: set[str] = field(default_factory=set)
    """The servers whose wire to the store is cut: they need not wait for an answer."""
    relaxed: set[str] = field(default_factory=set)
    granted_us: dict[tuple[object, ...], int] = field(default_factory=dict)
    """When a server was granted a frame of a session that was its own, and said nothing since."""

    def provisioned(self, device: Event) -> None:
        """A device of the case."""
        if device.get("relaxed_f_cnt"):
            self.relaxed.add(device["dev_eui"])

    def disturbed(self, fault: Event) -> None:
        """A scenario disturbs something, or undoes that."""
        if fault.get("seam") == "store" and fault["fault"] == "delay":
            self.delays.pop(fault.get("lns", ""), None)
            if fault["kind"] == "fault.begin":
                after_us = fault["detail"].get("after_us", 0)
                self.delays[fault.get("lns", "")] = fault["t_us"], after_us
                self.slowed.add(fault.get("lns", ""))
        if fault.get("seam") == "store" and fault["fault"] == "cut":
            change = self.cut_off.add if fault["kind"] == "fault.begin" else self.cut_off.discard
            change(fault.get("lns", ""))
        self.waits |= fault["fault"] == "hang"
        self.asks_twice |= fault["fault"] == "forget scripts"
        self.is_over |= fault["fault"] == "let expire"
        if fault["fault"] == "orphan":
            self.orphaned[fault["detail"]["dev_eui"]].add(fault["detail"]["lns"])
        if fault.get("seam") not in _UNDISTURBING:
            self.is_blind = True
            self.is_hurried &= fault.get("seam") == "store" and fault["fault"] != "slow disk"

    def ran(self, event: Event) -> None:
        """A server begins, or ends: one that has ended waits for nobody's answer."""
        lns = event.get("lns", "")
        self.waits |= "store" in event
        self.is_blind |= event.get("event") != "start" or self.has_begun
        if lns in self.delays:
            _, after_us = self.delays[lns]
            self.delays[lns] = event["t_us"], after_us

    def tell(self, claim: Event, check: Scrutiny) -> Iterator[Found]:
        """A server says whose a frame is; only who was granted one, or was alone, can own it."""
        session = claim["dev_eui"], claim["dev_addr"]
        owners, self.has_begun = self.granted[session], True
        message = tuple(claim.get(name) for name in ("lns", "station", "dev_eui", "f_cnt"))
        self.granted_us.pop(message, None)
        if claim["decision"] == "Owner" and self._is_its_own(session, claim):
            self.granted_us[message] = claim["t_us"]
        self.brought[session] |= {claim.get("f_cnt_down", -1)}
        if claim["decision"] == "Owner":
            owners.add(claim.get("lns", ""))
            self._grant(session, claim)
        elif claim["decision"] == "Unavailable":
            began_anew = claim["f_cnt"] <= 1 and claim["dev_eui"] in self.relaxed
            if began_anew or claim["f_cnt"] > self.last.get(session, -1):
                self.alone[session].add(claim.get("lns", ""))
            self.keeps[session].add(claim.get("lns", ""))
        elif owners and claim.get("owner") not in self._may_own(session):
            found = check.wrong("owner", " or ".join(sorted(owners)), claim.get("owner"))
            if self.is_in_order:
                yield found
            else:
                self.doubtful.append((session, claim, found))
        else:
            self._look_at_owner(session, claim, check)
        yield from self._late(claim, check)

    def _is_its_own(self, session: Session, claim: Event) -> bool:
        owners, _ = self.newest.get(session, (frozenset(), 0))
        return owners == {claim.get("lns", "")}

    def _may_own(self, session: Session) -> set[str]:
        kept = self.keeps[session] if self.is_over else set()
        return self.granted[session] | self.alone[session] | kept | self.orphaned[session[0]]

    def followed(self, claim: Event, outcome: Event, check: Scrutiny) -> Iterator[Found]:
        """A server says what became of a frame; for one of another server it keeps nothing."""
        late_us = outcome["t_us"] - claim["t_us"]
        is_sure = self.is_in_order and self.is_hurried and claim["decision"] == "NotOwner"
        if is_sure and late_us > _AT_ONCE_US:
            yield check.wrong("told", "at once", f"{late_us // 1000} ms later")

    def published(self, event: Event) -> Iterator[Found]:
        """The application gets a frame: nobody else is asked whose frame of its own it was."""
        body = event["body"] if isinstance(event["body"], dict) else {}
        message = tuple(body.get(name) for name in ("lns", "station", "devEui", "fCnt"))
        late_us = event["t_us"] - self.granted_us.pop(message, event["t_us"])
        if self.is_in_order and self.is_hurried and late_us > _AT_ONCE_US:
            of = f"message {body.get('messageId')}"
            check = Scrutiny(rule="message", of=of, t_us=event["t_us"], station=message[1])
            yield check.wrong("told", "at once", f"{late_us // 1000} ms later")

    def answer(self, downlink: Event, check: Scrutiny) -> Iterator[Found]:
        """A server answers a frame: with the counter that its claim has taken for that."""
        if (key := _answer(downlink)) not in self.taken:
            return
        *others, due = self.taken.pop(key)
        if downlink.get("f_cnt_down") in others:  # of a frame that was told again meanwhile
            self.taken[key] = [due]
            return
        is_sure = self.is_in_order and not self.is_blind
        if due is not None or (is_sure and downlink.get("dev_eui") not in self.relaxed):
            yield from check.same("f_cnt_down", due, downlink.get("f_cnt_down"))

    def in_sequence(self, downlink: Event, check: Scrutiny) -> Iterator[Found]:
        """A downlink leaves: whatever counter is left out before it was brought by a claim."""
        f_cnt_down = downlink.get("f_cnt_down")
        if f_cnt_down is None:
            return
        session, t_us = (downlink["dev_eui"], downlink.get("dev_addr", "")), downlink["t_us"]
        before, since_us = self.used.get(session, (f_cnt_down, t_us))
        self.used[session] = f_cnt_down, t_us
        between, brought = range(before + 1, f_cnt_down), self.brought[session]
        left_out = next((one for one in between if one not in brought), None)
        is_sure = self.is_in_order and not self.is_blind and t_us - since_us < DAY_US
        if is_sure and left_out is not None:
            yield check.wrong("f_cnt_down", left_out, f_cnt_down)

    def end(self) -> Iterator[Found]:
        """What nobody has explained since: an owner may tell of its claim after those who lost."""
        for _, _, found in self.doubtful:
            yield found

    def _grant(self, session: Session, claim: Event) -> None:
        lns, frame = claim.get("lns", ""), (session, claim["frame_id"])
        # What was granted before may be an older one by now: its owner need not have the newest.
        others, _ = self.newest.get(session, (frozenset(), 0))
        owners = others | {lns} if frame in self.frames else frozenset({lns})
        self.newest[session] = owners, claim["t_us"]
        if frame not in self.frames:
            self.last[session] = claim["f_cnt"]
        self.frames.add(frame)
        self.taken.setdefault(_answer(claim), []).append(claim.get("f_cnt_down"))
        self.doubtful = [
            (whose, told, found)
            for whose, told, found in self.doubtful
            if (whose, told.get("owner")) != (session, lns)
            or claim["t_us"] - told["t_us"] > _TOLD_WITHIN_US
        ]

    def _look_at_owner(self, session: Session, claim: Event, check: Scrutiny) -> None:
        owners, since_us = self.newest.get(session, (frozenset(), 0))
        is_sure = self.is_in_order and not self.is_blind
        if not is_sure or not owners or claim["t_us"] - since_us >= DAY_US:
            return
        if claim.get("owner") not in owners:
            found = check.wrong("owner", " or ".join(sorted(owners)), claim.get("owner"))
            self.doubtful.append((session, claim, found))

    def _late(self, claim: Event, check: Scrutiny) -> Iterator[Found]:
        if not self.is_in_order:
            return
        lns, began_us = claim.get("lns", ""), claim["t_us"] - claim["duration_us"]
        is_behind = self.asks_twice or began_us < self.told_us.get(lns, 0)
        self.told_us[lns] = claim["t_us"]
        is_slow = self.waits or lns in self.slowed
        most_us = 0 if not is_slow else BEHIND_US if is_behind else ASKED_US
        if claim["duration_us"] > most_us:
            yield check.wrong("duration_us", f"{most_us} at most", claim["duration_us"])
        if lns in self.cut_off:
            return
        since_us, after_us = self.delays.get(lns, (0, 0))
        due_us = min(after_us, ASKED_US)
        if claim["t_us"] - since_us >= due_us > claim["duration_us"]:
            yield check.wrong("duration_us", f"{due_us} or more", claim["duration_us"])


def _answer(event: Event) -> tuple[object, ...]:
    return tuple(event.get(name) for name in ("lns", "station", "xtime"))
