"""Does what becomes of requests agree with what applications have asked for?

By what a network server says of them; and is a device that always listens spoken to where it was
heard, when it can hear, and at all?
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from bench.capture.reading import Event
from bench.inspection.known_device import KnownDevice, Wanted
from bench.verdict.owner import Found, Scrutiny
from bench.virtual.lorawan.air_interface import DOWN, DataFrame, read_data

QUEUE_MAX = 16
SENDINGS_MAX = 3
OF_LINKS = frozenset({"cut", "half open"})
"""The faults that part a station from its server."""
_WHAT_IS_WRONG = re.compile(r"more than \d+ bytes|not a downlink: .+")


@dataclass(slots=True)
class Requests:
    """What applications want of devices, and what servers say has become of it.

    Remembers what waits by server and device: FPort, confirmed and length of each.
    """

    devices: Mapping[str, KnownDevice]
    longest: int
    asked: defaultdict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    waiting: defaultdict[tuple[str, str], list[tuple[object, ...]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    statuses: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Whose status applications want, by server and device; whether the next one is surely it."""
    statuses_told: set[str] = field(default_factory=set)
    """Which devices have told theirs since an application wanted it."""
    telling: dict[str, str] = field(default_factory=dict)
    """The frames that tell one and are not decided yet, and whose they are."""
    newest: dict[tuple[str, str], int] = field(default_factory=dict)
    """The highest counter that was accepted in each session."""
    statuses_due: dict[tuple[object, ...], str] = field(default_factory=dict)
    """The frames of which the application is to be told a status, with their names."""
    busy_until_us: dict[str, int] = field(default_factory=dict)
    """When the last window opens in which a device may hear what it was sent last."""
    unreadable: list[str] = field(default_factory=list)
    """What is wrong with each request that nobody can read, and no server has refused yet."""
    misread: int = 0
    """How many were refused as unreadable besides."""
    proofs: defaultdict[tuple[str, bool], int] = field(default_factory=lambda: defaultdict(int))
    """Per device and whether it was confirmed: acknowledgements, or reports of a station."""

    def ask(self, event: Event) -> None:
        """An application wants something."""
        if event["wants"] == "unreadable":
            self.unreadable.append(event.get("why", ""))
            return
        self.asked[event["dev_eui"]].append(event)

    def forget(self, lns: str) -> None:
        """A server has ended: what waited there is lost."""
        for key in [key for key in self.waiting if key[0] == lns]:
            del self.waiting[key]
        self.statuses = {key: sure for key, sure in self.statuses.items() if key[0] != lns}

    def tell(self, event: Event, check: Scrutiny) -> Iterator[Found]:
        """A server says what has become of a request."""
        dev_eui, stage = event.get("dev_eui", ""), event["stage"]
        if stage in ("queued", "refused"):
            yield from self._taken(event, dev_eui, check)
        elif event.get("wants") == "status":
            yield from self._status(event, dev_eui, check)
        else:
            waiting = self.waiting[event.get("lns", ""), dev_eui]
            if (this := _kind(event)) in waiting:
                waiting.remove(this)
            else:
                yield check.wrong(stage, "one of those that wait", this)
            if stage == "done":
                yield from self._done(dev_eui, confirmed=bool(event.get("confirmed")), check=check)
            elif dev_eui in self.devices:
                was_sent = any(_kind_of(one) == this for one in self.devices[dev_eui].handed)
                reason = "NotProven" if was_sent else "TooLong"
                yield from check.same("reason", reason, event.get("reason"))
                early_us = self.busy_until_us.get(dev_eui, 0) - event["t_us"]
                if reason == "NotProven" and early_us > 0:
                    seen = f"{early_us // 1000} ms before that"
                    yield check.wrong("time", "when the device may have heard it", seen)
        if event.get("wants") != "status" and dev_eui:
            due = len(self.waiting[event.get("lns", ""), dev_eui])
            yield from check.same("waiting", due, event.get("waiting"))

    def untold(self, until_us: int) -> Iterator[str]:
        """Of which requests, made until then, no server has said what becomes of them."""
        if self.unreadable:
            yield f"unreadable requests: {len(self.unreadable)} more than were refused"
        if self.misread:
            yield f"requests that can be read: {self.misread} refused as unreadable"
        for dev_eui, asked in sorted(self.asked.items()):
            untold = sum(event["t_us"] < until_us for event in asked)
            if untold:
                yield f"requests for {dev_eui}: {untold} more than were queued or refused"

    def decided(self, event: Event, check: Scrutiny) -> Iterator[Found]:
        """What became of a reception: a new frame that tells a status goes up with it.

        Nobody has to be asked for it any more then, and the server has said so before.
        """
        frame_id = event.get("frame_id", "")
        if event.get("level2") == "NotOwner":
            return
        tells = self.telling.pop(frame_id, None) is not None
        if event.get("status") != "NonDuplicate" or "reason" in event or "f_cnt" not in event:
            return
        session = event["dev_eui"], event["dev_addr"]
        before = self.newest.get(session, event["f_cnt"])
        self.newest[session] = max(before, event["f_cnt"])
        if tells and event["f_cnt"] > before:
            names = ("lns", "station", "dev_eui", "f_cnt")
            self.statuses_due[tuple(event[name] for name in names)] = frame_id
        if tells and self.statuses.get((event.get("lns", ""), event["dev_eui"]), False):
            yield check.wrong("status", "done, as the device has told it", "still wanted")

    def status_unsaid(self, said: Collection[tuple[object, ...]]) -> Iterator[str]:
        """Which statuses that devices told no application was told of."""
        for key, frame_id in self.statuses_due.items():
            if key not in said:
                yield f"status in {frame_id}: expected told to the application, observed nothing"

    def prove(self, dev_eui: str, *, confirmed: bool) -> None:
        """A device has acknowledged what it was sent, or a station reports it on the air."""
        self.proofs[dev_eui, confirmed] += 1

    def _done(self, dev_eui: str, *, confirmed: bool, check: Scrutiny) -> Iterator[Found]:
        if self.proofs[dev_eui, confirmed] == 0:
            due = "what the device acknowledged" if confirmed else "what a station reported"
            yield check.wrong("done", due, "what nobody did")
            return
        self.proofs[dev_eui, confirmed] -= 1

    def _status(self, event: Event, dev_eui: str, check: Scrutiny) -> Iterator[Found]:
        key = event.get("lns", ""), dev_eui
        if key not in self.statuses:
            yield check.wrong(event["stage"], "a status that an application wants", "none")
        self.statuses.pop(key, None)
        if event["stage"] == "done" and dev_eui not in self.statuses_told:
            yield check.wrong("done", "what the device has told", "what nobody did")
        due = None if event["stage"] == "done" else "NotAnswered"
        yield from check.same("reason", due, event.get("reason"))

    def _taken(self, event: Event, dev_eui: str, check: Scrutiny) -> Iterator[Found]:
        asked = self.asked[dev_eui].pop(0) if self.asked.get(dev_eui) else None
        if asked is None and event["stage"] == "refused" and not dev_eui:
            yield from self._refused(event.get("reason", ""), check)
            return
        if asked is None:
            yield check.wrong(event["stage"], "what an application wants", "nothing")
            return
        wants = "status" if asked["wants"] == "status" else None
        reason = self._reason(asked, event.get("lns", ""))
        yield from check.same("reason", reason, event.get("reason"))
        yield from check.same("stage", "refused" if reason else "queued", event["stage"])
        yield from check.same("wants", wants, event.get("wants"))
        if asked["wants"] == "downlink" and reason != "UnknownDevice":
            yield from check.same("request", _kind(asked), _kind(event))
        if event["stage"] == "queued" and asked["wants"] == "status":
            is_told = dev_eui in self.telling.values()
            self.statuses[event.get("lns", ""), dev_eui] = not is_told
            if not is_told:
                self.statuses_told.discard(dev_eui)
        if event["stage"] == "queued" and asked["wants"] == "downlink":
            self.waiting[event.get("lns", ""), dev_eui].append(_kind(event))

    def _refused(self, reason: str, check: Scrutiny) -> Iterator[Found]:
        """A server cannot read something, nor say whose it was: what is wrong with it?"""
        if not self.unreadable:
            self.misread += 1
            return
        why = self.unreadable.pop(0)
        if why:
            yield from check.same("reason", why, reason)
        elif not _WHAT_IS_WRONG.fullmatch(reason):
            yield check.wrong("reason", "what is wrong with it", reason)

    def _reason(self, asked: Event, lns: str) -> str | None:
        """Why it is to be refused; None if it is not."""
        device = self.devices.get(asked["dev_eui"])
        if device is None:
            return "UnknownDevice"
        if device.server not in (None, lns):
            return "BelongsToAnotherServer"
        if asked["wants"] != "downlink":
            return None
        if len(asked["payload"]) // 2 > self.longest:
            return "TooLong"
        is_full = len(self.waiting[lns, asked["dev_eui"]]) >= QUEUE_MAX
        return "QueueFull" if is_full else None


def _kind_of(wanted: Wanted) -> tuple[object, ...]:
    return wanted.f_port, wanted.confirmed, len(wanted.payload)


def _kind(event: Event) -> tuple[object, ...]:
    size = len(event["payload"]) // 2 if "payload" in event else event.get("payload_bytes")
    return event.get("f_port"), event.get("confirmed"), size


ACK_US = 8_000_000
"""How long a device of class C has for its acknowledgement (RP002, CLASS_C_RESP_TIMEOUT)."""
REPORT_US = 3_000_000
"""How long a station has to report a downlink that asks for no acknowledgement."""
_EARLY_US, _QUIET_EARLY_US = 500_000, 20_000
"""How much sooner it may be sent once more, and how much so on a quiet host."""
_FREE_US = 15_000
"""How soon after the one before what waits is handed over, on a quiet host."""
_TOLD_BEFORE_US = 20_000
"""How long before the air is free a server may say what comes next; not at all on a quiet host."""
_REPORTED_US = 10_000
"""A station looks 5 ms after a downlink has begun, and its word has a way to go."""
_JUST_HEARD_US = 5_000_000
"""A station that told a frame so lately may be the one that a server has heard a device through."""
_ELSEWHERE = "DuplicateAtOtherServer"
_KNOWN_WITHIN_US = 500_000
"""By then a server has read what a station has told."""
_UNHEARD = frozenset({"suppress", "replay"})
"""What keeps a downlink off the air, or is told anew, and holds nothing else up."""
_SENT_WITHIN_US = 10_000_000
"""By then a server has sent what a store that was late has held up."""
_LINE = re.compile(r"RX_C:UNICAST:(\d+:[0-9a-f]+)$")


@dataclass(slots=True)
class ClassC:
    """Remembers through which station each server accepted a device last, and who told of it when.

    `name_of`: the name of a station for people.
    """

    name_of: Callable[[str], str]
    accepted_by: dict[tuple[str, str], str] = field(default_factory=dict)
    accepted_in: dict[tuple[str, str], str] = field(default_factory=dict)
    """In which session that was: its DevAddr."""
    told_by: dict[tuple[str, str], int] = field(default_factory=dict)
    newest: dict[tuple[str, str], int] = field(default_factory=dict)
    """The `xtime` of the last frame that a station has told of a device, unless it is a copy."""
    told_in: dict[str, tuple[str, int]] = field(default_factory=dict)
    """In which session a device was told of, and when, if no server has said what became of it."""
    unproven_us: dict[str, int] = field(default_factory=dict)
    answered_us: dict[tuple[str, str], int] = field(default_factory=dict)
    """When each station was handed an answer that a device has to acknowledge, and has not yet."""
    sent: dict[str, tuple[int, Wanted | None]] = field(default_factory=dict)
    wanted_us: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """When an application has asked for each downlink of a device."""
    is_quiet: bool = False
    end_us: int = 0
    forgets_nothing: bool = False
    """Whether each server knows all that it has handed over."""
    sends_all: bool = False
    """Whether servers had all that they need for what devices are sent at once, in the end."""
    hears_all: bool = False
    """Whether there is one server only, and nothing keeps from it what stations tell."""
    sent_at_once: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """What each device was sent without an uplink: FPort and payload."""
    whose: dict[tuple[str, bytes], str] = field(default_factory=dict)
    """For which device each station was handed which octets."""
    sends_us: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """From when to when each station sends to a device, be it an accept or any other frame."""

    @property
    def _early_us(self) -> int:
        return _QUIET_EARLY_US if self.is_quiet else _EARLY_US

    def begin(self, events: Sequence[Event], *, undisturbed: bool) -> None:
        """These are the events of the case; `undisturbed`: its servers are."""
        self.is_quiet, self.forgets_nothing = is_quiet(events), undisturbed
        self.end_us = max((event["t_us"] for event in events), default=0)
        late = [event for event in events if is_late_store(event)]
        others = [event for event in events if not is_late_store(event)]
        is_mended = sum(1 if event["kind"] == "fault.begin" else -1 for event in late) == 0
        since_us = max((event["t_us"] for event in late), default=-_SENT_WITHIN_US)
        self.sends_all = is_mended and self.end_us - since_us >= _SENT_WITHIN_US
        self.sends_all &= not any(map(disturbs_servers, others))
        servers = {event.get("lns") for event in events if event["kind"] == "lns.outcome"}
        is_cut = any(disturbs_links(event) or disturbs_store(event) for event in events)
        self.hears_all = len(servers) == 1 and not is_cut

    def hand_over(self, station: str, pdu: str, dev_eui: str) -> None:
        """A station was handed a downlink."""
        self.whose[station, bytes.fromhex(pdu)] = dev_eui

    def on_air(self, event: Event) -> None:
        """A station sends."""
        dev_eui = self.whose.get((event["sender"], bytes.fromhex(event["phy"])), "")
        over_us = event["t_us"] + event["airtime_us"]
        self.sends_us[event["sender"], dev_eui] = event["t_us"], over_us

    def interrupted(self, event: Event, dev_eui: str, check: Scrutiny) -> Iterator[Found]:
        """Whether a device is sent something while it still hears what came before."""
        began_us, over_us = self.sends_us.get((event["station"], dev_eui), (0, 0))
        early_us = over_us - event["t_us"]
        is_reported = event["t_us"] - began_us > _REPORTED_US
        if is_reported and early_us > (0 if self.is_quiet else _TOLD_BEFORE_US):
            due = "after the one before is over"
            yield check.wrong("time", due, f"{early_us // 1000} ms before that")

    def told(self, dev_eui: str, station: str, frame: DataFrame, t_us: int, xtime: int) -> None:
        """A station has told a frame of a device."""
        self.told_by[dev_eui, station] = t_us
        self.newest[dev_eui, station] = xtime
        self.told_in[dev_eui] = frame.dev_addr, t_us
        self.sent.pop(dev_eui, None)
        if frame.ack:
            self.unproven_us.pop(dev_eui, None)
        self.answered_us.pop((dev_eui, station), None)

    def outcome(self, event: Event) -> None:
        """What became of a reception."""
        # Whoever loses a frame to another server has heard the device as well.
        is_taken = event.get("reason", _ELSEWHERE) == _ELSEWHERE
        is_new = event.get("status") == "NonDuplicate" and is_taken
        said = event.get("dev_addr")  # of a session that is over nobody says whose it was
        self.told_in = {of: told for of, told in self.told_in.items() if told[0] != said}
        # A join has none: until a frame comes, nobody knows that the device has heard the accept.
        if is_new and "dev_eui" in event and "dev_addr" in event:
            self.accepted_by[event.get("lns", ""), event["dev_eui"]] = event["station"]
            self.accepted_in[event.get("lns", ""), event["dev_eui"]] = event["dev_addr"]
            return
        copy = event.get("dev_eui", ""), event.get("station", "")
        if self.newest.get(copy) == event.get("xtime", 0):
            self.newest.pop(copy, None)

    def spoken_to(self, frame: DataFrame | None, dev_eui: str, check: Scrutiny) -> Iterator[Found]:
        """Whether a downlink is of the session that the device was heard in last."""
        due = {dev_addr for (_, of), dev_addr in self.accepted_in.items() if of == dev_eui}
        if due and dev_eui in self.told_in:  # that may be on its way to the application
            dev_addr, since_us = self.told_in[dev_eui]
            is_known = self.hears_all and check.t_us - since_us > _KNOWN_WITHIN_US
            due = {dev_addr} if is_known else due | {dev_addr}
        if frame is not None and due and frame.dev_addr not in due:
            yield check.wrong("DevAddr", " or ".join(sorted(due)), frame.dev_addr)

    def through(self, event: Event, dev_eui: str, check: Scrutiny) -> Iterator[Found]:
        """Whether a downlink goes where the device was heard last."""
        accepted = {by for (_, of), by in self.accepted_by.items() if of == dev_eui}
        since_us = event["t_us"] - _JUST_HEARD_US
        told = {by for (of, by) in self.newest if of == dev_eui and self.told_by[of, by] > since_us}
        if accepted and event["station"] not in accepted | told:
            due = " or ".join(sorted(map(self.name_of, accepted)))
            yield check.wrong("station", due, self.name_of(event["station"]))

    def too_soon(
        self, event: Event, frame: DataFrame | None, dev_eui: str, check: Scrutiny
    ) -> Iterator[Found]:
        """Whether the device had no time to acknowledge what came before."""
        before_us, said_us = self.unproven_us.get(dev_eui), said_us_of(event)
        if before_us is not None and said_us - before_us < ACK_US - self._early_us:
            after_ms = (said_us - before_us) // 1000
            due = f"{ACK_US // 1000} ms after one that is to be acknowledged"
            yield check.wrong("time", due, f"{after_ms} ms")
        answered_us = self.answered_us.get((dev_eui, event["station"]))
        if self.forgets_nothing and answered_us is not None and said_us - answered_us < ACK_US:
            after_ms = (said_us - answered_us) // 1000
            due = f"{ACK_US // 1000} ms after an answer that is to be acknowledged"
            yield check.wrong("time", due, f"{after_ms} ms")
        if frame is not None and frame.confirmed:
            self.unproven_us[dev_eui] = said_us

    def answer(self, event: Event, pdu: str, dev_eui: str) -> None:
        """A station is handed an answer to a frame of a device."""
        frame = read_data(bytes.fromhex(pdu))
        if frame is not None and frame.direction == DOWN and frame.confirmed:
            self.answered_us[dev_eui, event["station"]] = said_us_of(event)

    def next_one(
        self, event: Event, device: KnownDevice, sent: Wanted | None, check: Scrutiny
    ) -> Iterator[Found]:
        """Whether what is wanted comes as soon as its device can hear it, and no later.

        Only where nothing disturbs: what nobody has reported is waited for.
        """
        dev_eui, (before_us, before) = device.dev_eui, self.sent.get(device.dev_eui, (0, None))
        is_open = (before is not None and before.confirmed) or dev_eui in self.unproven_us
        is_open = is_open or (dev_eui, event["station"]) in self.answered_us
        if not self.is_quiet or sent is None or sent == before or is_open:
            return
        wanted_us = self.wanted_us[dev_eui][device.delivered]
        _, free_us = self.sends_us.get((event["station"], dev_eui), (0, -1))
        told_us = max((us for (of, _), us in self.told_by.items() if of == dev_eui), default=inf)
        is_over = before is None or before_us <= free_us
        is_next = before is not None and wanted_us <= before_us
        is_alone = told_us < wanted_us - _JUST_HEARD_US
        late_us = event["t_us"] - max(wanted_us, free_us)
        if is_over and (is_next or is_alone) and late_us > _FREE_US:
            due = "when the one before is over" if is_next else "when it was wanted"
            yield check.wrong("time", due, f"{late_us // 1000} ms after that")

    def again(
        self, event: Event, device: KnownDevice, sent: Wanted | None, check: Scrutiny
    ) -> Iterator[Found]:
        """Whether what nobody has proven is sent once more when its time is over.

        `device` sends nothing in between, and is to be sent the same only once.
        """
        said_us, (before_us, before) = said_us_of(event), self.sent.get(device.dev_eui, (0, None))
        self.sent[device.dev_eui] = said_us, sent
        if sent is not None and not event.get("dropped"):
            self.sent_at_once[device.dev_eui].add(f"{sent.f_port}:{sent.payload.hex()}")
        if sent is None or sent != before or device.wanted.count(sent) != 1:
            return
        due_us = ACK_US if sent.confirmed else REPORT_US
        after_us = said_us - before_us
        if not -self._early_us <= after_us - due_us <= _EARLY_US and after_us < 2 * due_us:
            due = f"{due_us // 1000} ms after the one before"
            yield check.wrong("time", due, f"{after_us // 1000} ms")

    def unsent(
        self,
        devices: Mapping[str, KnownDevice],
        missing: Collection[str],
        due: Mapping[str, Sequence[str]],
    ) -> Iterator[Found]:
        """What the application wants sent to such a device, and no station was handed at once.

        `missing`: the devices that did not say all the lines that are `due`. A server that has
        heard a device needs no uplink for it.
        """
        yield from self._left_alone(devices)
        heard = {dev_eui for _, dev_eui in self.accepted_by}
        for dev_eui in sorted(heard.intersection(missing, devices)):
            for wanted in [found[1] for line in due[dev_eui] if (found := _LINE.search(line))]:
                if wanted not in self.sent_at_once[dev_eui]:
                    yield Found(
                        rule="downlink of the application", t_us=0,
                        text=f"{wanted} for {dev_eui}: expected at a station at once,"
                        " observed nowhere",
                        expected=wanted, observed="none",
                    )  # fmt: skip

    def _left_alone(self, devices: Mapping[str, KnownDevice]) -> Iterator[Found]:
        """What a device had time to acknowledge, and has not: it is sent three times in all."""
        for dev_eui, (said_us, sent) in self.sent.items() if self.is_quiet else ():
            device, waited_us = devices[dev_eui], self.end_us - said_us
            if sent is None or not sent.confirmed or device.wanted.count(sent) != 1:
                continue
            if device.handed.count(sent) < SENDINGS_MAX and waited_us > ACK_US + _EARLY_US:
                check = Scrutiny(rule="downlink of the application", of=dev_eui, t_us=said_us)
                due = f"sent again after {ACK_US // 1000} ms"
                yield check.wrong("what is not acknowledged", due, "left alone")


def said_us_of(event: Event) -> int:
    """When a server said what a station was handed, however long a scenario held it up."""
    return int(event["t_us"] - event.get("held_us", 0))


def is_quiet(events: Sequence[Event]) -> bool:
    """Whether no host is late here, and no scenario holds anything up."""
    rigs = {event.get("rig") for event in events if event["kind"] == "case.begin"}
    ended = any(event["kind"] == "case.lns" and event["event"] != "start" for event in events)
    faults = {event["fault"] for event in events if event["kind"] == "fault.begin"}
    return rigs == {"simulated"} and not ended and faults <= _UNHEARD


def disturbs_servers(event: Event) -> bool:
    """Whether a scenario did something to a server, or to what it stores and publishes in."""
    if event["kind"] == "case.lns":
        return event["event"] in ("kill", "restart")
    return event["kind"] == "fault.begin" and event.get("seam") not in ("tap", "air")


def is_late_store(event: Event) -> bool:
    """Whether a store begins to answer late, or does so no more: it says all, and loses nothing."""
    return event["kind"] in ("fault.begin", "fault.end") and (
        (event.get("seam"), event["fault"]) == ("store", "delay")
    )


def disturbs_store(event: Event) -> bool:
    """Whether a scenario did something to the store, without which nobody joins."""
    return event["kind"] == "fault.begin" and event.get("seam") == "store"


def disturbs_links(event: Event) -> bool:
    """Whether a scenario did something to a server or to a link."""
    if event["kind"] == "case.lns":
        return event["event"] in ("kill", "restart")
    seam = event.get("seam") if event["kind"] == "fault.begin" else None
    return seam == "lns" or (seam == "tap" and event["fault"] in OF_LINKS)
