"""Does what a network server says of requests agree with what applications have asked for?"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bench.capture.reading import Event
from bench.inspection.downlink import KnownDevice, Wanted
from bench.verdict.owner import Found, Scrutiny

QUEUE_MAX = 16


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
    statuses: set[tuple[str, str]] = field(default_factory=set)
    """Whose status applications want, by server and device."""
    statuses_told: set[str] = field(default_factory=set)
    """Which devices have told theirs since an application wanted it."""
    unreadable: int = 0
    proofs: defaultdict[tuple[str, bool], int] = field(default_factory=lambda: defaultdict(int))
    """Per device and whether it was confirmed: acknowledgements, or reports of a station."""

    def ask(self, event: Event) -> None:
        """An application wants something."""
        if event["wants"] == "unreadable":
            self.unreadable += 1
            return
        self.asked[event["dev_eui"]].append(event)

    def forget(self, lns: str) -> None:
        """A server has ended: what waited there is lost."""
        for key in [key for key in self.waiting if key[0] == lns]:
            del self.waiting[key]
        self.statuses = {key for key in self.statuses if key[0] != lns}

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
        if event.get("wants") != "status" and dev_eui:
            due = len(self.waiting[event.get("lns", ""), dev_eui])
            yield from check.same("waiting", due, event.get("waiting"))

    def untold(self, until_us: int) -> Iterator[str]:
        """Of which requests, made until then, no server has said what becomes of them."""
        if self.unreadable > 0:
            yield f"unreadable requests: {self.unreadable} more than were refused"
        if self.unreadable < 0:
            yield f"requests that can be read: {-self.unreadable} refused as unreadable"
        for dev_eui, asked in sorted(self.asked.items()):
            untold = sum(event["t_us"] < until_us for event in asked)
            if untold:
                yield f"requests for {dev_eui}: {untold} more than were queued or refused"

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
        self.statuses.discard(key)
        if event["stage"] == "done" and dev_eui not in self.statuses_told:
            yield check.wrong("done", "what the device has told", "what nobody did")
        due = None if event["stage"] == "done" else "NotAnswered"
        yield from check.same("reason", due, event.get("reason"))

    def _taken(self, event: Event, dev_eui: str, check: Scrutiny) -> Iterator[Found]:
        asked = self.asked[dev_eui].pop(0) if self.asked.get(dev_eui) else None
        if asked is None and event["stage"] == "refused" and not dev_eui:
            self.unreadable -= 1  # nobody can say whose it was
            return
        if asked is None:
            yield check.wrong(event["stage"], "what an application wants", "nothing")
            return
        reason = self._reason(asked, event.get("lns", ""))
        yield from check.same("reason", reason, event.get("reason"))
        yield from check.same("stage", "refused" if reason else "queued", event["stage"])
        yield from check.same("wants", _wants(asked), event.get("wants"))
        if asked["wants"] == "downlink" and reason != "UnknownDevice":
            yield from check.same("request", _kind(asked), _kind(event))
        if event["stage"] == "queued" and asked["wants"] == "status":
            self.statuses.add((event.get("lns", ""), dev_eui))
            self.statuses_told.discard(dev_eui)
        if event["stage"] == "queued" and asked["wants"] == "downlink":
            self.waiting[event.get("lns", ""), dev_eui].append(_kind(event))

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


def _wants(event: Event) -> str | None:
    return "status" if event["wants"] == "status" else None


def _kind_of(wanted: Wanted) -> tuple[object, ...]:
    return wanted.f_port, wanted.confirmed, len(wanted.payload)


def _kind(event: Event) -> tuple[object, ...]:
    size = len(event["payload"]) // 2 if "payload" in event else event.get("payload_bytes")
    return event.get("f_port"), event.get("confirmed"), size
