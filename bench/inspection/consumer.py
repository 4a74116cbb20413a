"""Is what a consumer decides what its detectors must decide, and does it count that rightly?

Worked out anew from the three seeds (message id within a window, sequence number, Remove Duplicates
key), with nothing of the consumer but its settings and what it was brought, which is read anew from
its octets.
"""

import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

from bench.verdict.owner import Found, Owner, told

BYTES_MAX, TEXT_MAX, NUMBER_MAX = 262_144, 256, 2**63 - 1
WINDOW_MAX_US, _BEGUN_WITHIN_US = 7 * 86_400_000_000, 1_000_000
_NAMES = {
    "messageId": "message_id", "partitionKey": "partition_key", "sessionId": "session_id",
    "sequenceNumber": "sequence_number", "removeDuplicatesKey": "key",
}  # fmt: skip
_SPELT = _NAMES | {"removeDuplicatesKey": "remove_duplicates_key"}
_DETAILS = {
    "TooLarge": f"more than {BYTES_MAX} octets",
    "NoMessageId": "neither body nor user properties name one",
    "SessionIsNotPartition": "with sessions, partition key and session id must be equal",
}
Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Brought:
    """A message as the broker brings it; `facts` is what names it, or `unfit` why nothing does.

    `detail`: what is said of it, where that is not in the words of a library; of a wrong field a
    pattern that fits those.
    """

    body: Mapping[str, object] | None
    octets: int
    qos: int = 1
    facts: Facts = field(default_factory=dict)
    unfit: str | None = None
    detail: str | None = None
    pattern: str = ""

    @classmethod
    def of(
        cls,
        payload: bytes,
        properties: Mapping[str, str] | None = None,
        qos: int = 1,
        *,
        sessions: bool = False,
    ) -> "Brought":
        """What body and user properties name; with `sessions` a session has to be a partition."""
        body = _body(payload)
        facts, unfit = _named(body, payload, properties or {}, sessions=sessions)
        read = body if isinstance(body, dict) else None
        detail = None if unfit is None else _DETAILS.get(unfit, _undecodable(payload))
        pattern = ""
        if read is not None and unfit in ("WrongField", "Contradiction"):
            said, told = _stated(read, properties or {})
            if unfit == "WrongField":
                pattern = _wrong(said, told)
            else:
                differs = next(n for n in _NAMES if n in said and said[n] != told.get(n, said[n]))
                detail = f"body and user properties differ: {_SPELT[differs]}"
        return cls(read, len(payload), qos, facts, unfit, detail, pattern)


def _undecodable(payload: bytes) -> str | None:
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        return f"no UTF-8 at octet {error.start}"
    return None


def _body(payload: bytes) -> object:
    """The JSON; the octets themselves where they are none."""
    try:
        read: object = json.loads(payload.decode())
    except (ValueError, RecursionError):
        return payload
    return read


def _named(
    body: object, payload: bytes, properties: Mapping[str, str], *, sessions: bool
) -> tuple[Facts, str | None]:
    if len(payload) > BYTES_MAX:
        return {}, "TooLarge"
    if body is payload:
        return {}, "NotJson"
    if not isinstance(body, dict):
        return {}, "WrongField"
    said, told = _stated(body, properties)
    if not all(_is_fit(name, value) for names in (said, told) for name, value in names.items()):
        return {}, "WrongField"
    if any(said[name] != told[name] for name in said.keys() & told.keys()):
        return {}, "Contradiction"
    facts = {_NAMES[name]: value for name, value in (told | said).items()}
    facts.setdefault("partition_key", "")
    if "message_id" not in facts:
        return {}, "NoMessageId"
    if sessions and facts.get("session_id") != facts["partition_key"]:
        return {}, "SessionIsNotPartition"
    facts.pop("session_id", None)
    return facts, None


def _stated(
    body: Mapping[str, object], properties: Mapping[str, str]
) -> tuple[dict[str, object], dict[str, object]]:
    """What the body says, and what the user properties do."""
    said = {name: body[name] for name in _NAMES if body.get(name) is not None}
    told = {name: _of_property(name, properties[name]) for name in _NAMES if properties.get(name)}
    return said, {name: value for name, value in told.items() if value is not None}


def _wrong(said: Mapping[str, object], told: Mapping[str, object]) -> str:
    """What fits the words of a library: where the wrong field stands, its type, and its name."""
    for where, names in (("Expected ", said), ("user properties: Expected ", told)):
        wrong = [name for name, value in names.items() if not _is_fit(name, value)]
        if wrong:
            name = "|".join(wrong)
            types = {type(names[one]) is (int if one == "sequenceNumber" else str) for one in wrong}
            got = ".*" if len(types) > 1 else "[^,]*" if types == {True} else ".*, got .*"
            return rf"{where}{got}\$\.({name})`"
    return ""


def _of_property(name: str, text: str) -> object:
    """A text knows no null and no number: "" is none, and so is 0 where a number stands."""
    if name == "sequenceNumber" and re.fullmatch("[0-9]{1,19}", text):
        return int(text) or None
    return text


def _is_fit(name: str, value: object) -> bool:
    if name == "sequenceNumber":
        return type(value) is int and 1 <= value <= NUMBER_MAX
    return isinstance(value, str) and 1 <= len(value) <= TEXT_MAX


FIRST_WAIT_US, WAIT_MAX_US = 100_000, 10_000_000
"""How long an effect that failed is not tried again: twice as long after each failure."""
TRIES_MAX = 5
"""After so many failures a message is put aside, and the same one may be behind it."""
AGAIN_US = 100_000, 500_000
"""How long an application that has no room is left alone at least, and at most."""
REFUSED, REASON_MAX = "Refused", 1_000
"""What an effect fails with, and how much of it is kept."""
_OF_PARKED = "sequence_number", "key", "reason", "tries", "parked_us", "body"
Said = Mapping[str, object]
T = TypeVar("T")
_NAMED = "message_id", "partition_key", "sequence_number", "key"
By = tuple[str, int]
"""Which detector recognises a message, and the position of what it repeats."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a consumer; times in µs. `window_us` None: ids are not compared.

    `oldest_us` says when the oldest message was sent that nobody has consumed, where it is asked.
    Where effects are somebody else's (`is_relayed`), no line of them is looked for. Where leases
    have ended before their time (`may_overrun`), another consumer may have had the same effect.
    """

    name: str
    window_us: int | None
    partitioned: bool
    sequence: bool
    keys: bool
    retention_us: int
    late_us: int
    oldest_us: Callable[[], int | None] | None = None
    is_relayed: bool = False
    may_overrun: bool = False

    def cut_off_us(self, now_us: int) -> int:
        """What was consumed before may be consumed again, as nobody sends it any more."""
        oldest_us = None if self.oldest_us is None else self.oldest_us()
        return (now_us - self.retention_us if oldest_us is None else oldest_us) - self.late_us


@dataclass(slots=True)
class ConsumerBooks:
    """What the consumers of one store were brought and have decided, and what follows from that.

    `is_blind`: one of them ended with decisions that it had kept and not told. `entries_max` ids,
    streams and keys each are remembered; where that is few, each decision has its own time.
    Positions follow each other, or have gaps (`has_gaps`); none is given twice. `is_slow`: what
    goes to a disk was there late once, so nobody knows the times of tries.
    """

    is_blind: bool = False
    is_slow: bool = False
    entries_max: int | None = None
    has_gaps: bool = False
    positions: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    _over_us: int = 0
    """What was consumed before it may be consumed again by its key."""
    _evicted_or_over: int = 0
    """Of how many keys nobody knows whether they were over when others drove them out."""
    _ids: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)
    _numbers: dict[object, tuple[int, int]] = field(default_factory=dict)
    _keys: dict[object, tuple[int, int]] = field(default_factory=dict)
    _parked: dict[tuple[object, ...], Said] = field(default_factory=dict)
    _failures: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)
    _newest: tuple[Rules, int] | None = None
    _brought: defaultdict[tuple[str, object], list[Brought]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _decided: Counter[tuple[str, object]] = field(default_factory=Counter)
    window_us: int | None = None
    oldest_us: int | None = None
    _checks: bool = True
    _opened_us: list[int] = field(default_factory=list)
    _unavailable_us: dict[str, tuple[int, int]] = field(default_factory=dict)
    _had: defaultdict[str, deque[Said]] = field(default_factory=lambda: defaultdict(deque))

    def brought(self, consumer: str, topic: str, message: Brought) -> None:
        """The broker brings a message; those of a topic and QoS are decided on in this order."""
        self._brought[consumer, topic].append(message)

    def waiting(self, consumer: str) -> int:
        """How many messages were brought and are not decided on."""
        return sum(len(messages) for (of, _), messages in self._brought.items() if of == consumer)

    def had(self, consumer: str, line: Said) -> None:
        """A message has its effect: a line, of which a consumer tells once it is kept."""
        self._had[consumer].append(line)

    def gone(self, consumer: str) -> None:
        """A consumer has ended: what it was brought comes again."""
        for key in [key for key in self._brought if key[0] == consumer]:
            del self._brought[key]
        self._had.pop(consumer, None)
        self._unavailable_us.pop(consumer, None)
        for failure in [key for key in self._failures if key[0] == consumer]:
            del self._failures[failure]  # the tries are counted anew

    def gone_back(self, consumer: str, topic: str) -> None:
        """A consumer has no room for the message that it was brought last: it comes again."""
        self._brought[consumer, topic].pop()

    def opened(self, window_us: int | None, now_us: int, *, checks: bool) -> None:
        """A consumer begins: all that share its store compare ids for as long as it does."""
        self.window_us = window_us or self.window_us
        self._checks = checks
        self._opened_us.append(now_us)

    def unavailable(self, consumer: str, now_us: int, *, kept: bool) -> None:
        """No effect can be had at all; where something was `kept` before, others may soon."""
        self._unavailable_us[consumer] = now_us, AGAIN_US[0 if kept else 1]

    def acknowledged(self, consumer: str, topic: str) -> Iterator[str]:
        """A message is acknowledged: only what was decided on may be."""
        self._decided[consumer, topic] -= 1
        if self._decided[consumer, topic] < 0:
            yield f"{consumer}: {topic}: a message is acknowledged that nothing was decided on"

    def tried(self, consumer: str, topic: str, message_id: str, now_us: int) -> Iterator[str]:
        """The effect of a message is asked for, perhaps once more."""
        failures, failed_us = self._failures.get((consumer, topic, message_id), (0, 0))
        wait_us = min(FIRST_WAIT_US << max(failures - 1, 0), WAIT_MAX_US)
        waited_us = now_us - failed_us
        since_us, least_us = self._unavailable_us.pop(consumer, (None, 0))
        if since_us is not None:
            if not least_us <= now_us - since_us <= AGAIN_US[1]:
                yield (
                    f"{consumer}: {message_id}: expected {least_us} to {AGAIN_US[1]} µs from no"
                    f" room to the next try, observed {now_us - since_us} µs"
                )
        elif 0 < failures < TRIES_MAX and waited_us != wait_us and not self.is_slow:
            yield (
                f"{consumer}: {message_id}: expected {wait_us} µs from failure {failures} to the"
                f" next try, observed {waited_us} µs"
            )

    def failed(self, consumer: str, topic: str, message_id: str, now_us: int) -> None:
        """It could not be had."""
        failures, _ = self._failures.get((consumer, topic, message_id), (0, 0))
        self._failures[consumer, topic, message_id] = failures + 1, now_us
        self.counts["failed"] += 1

    def told(self, rules: Rules, kind: str, said: Said, now_us: int) -> Iterator[str]:
        """A consumer has decided on a message."""
        where = rules.name, said["channel"]
        self._decided[where] += 1
        self.counts[kind] += 1
        message = self._next(where, said)
        said = {**said, "stream": (said["channel"], message.qos if message else 1)}
        body = message.body if message else None
        self._newest = rules, now_us
        if self.is_blind:
            return
        if message is not None:
            yield from _read(f"{rules.name}: {said['channel']}", kind, message, said)
        if kind == "inbox.unreadable":
            return
        name = f"{rules.name}: {said['message_id']} on {said['channel']}"
        by = self._recognised(rules, said, now_us)
        if kind == "inbox.ignored":
            yield from self._ignored(rules, said, by, name)
        elif by is not None and rules.may_overrun:
            self.counts["overruns"] += 1
        elif by is not None:
            yield f"{name}: expected ignored by {by[0]} of {by[1]}, observed {kind}"
        if kind == "inbox.parked":
            yield from self._put_aside(rules, {**said, "parked_us": now_us, "body": body}, name)
        if kind == "inbox.accepted":
            yield from self._accepted(
                rules, said, now_us, name, is_first=by is None or not rules.may_overrun
            )
            if not rules.is_relayed:
                yield from self._effect(rules, said, body, name)
        self._let_go(rules, now_us)

    def _next(self, where: tuple[str, object], said: Said) -> Brought | None:
        """Which message a decision is on: the first of its topic, or the first of one QoS."""
        waiting = self._brought[where]
        heads = [next((m for m in waiting if m.qos == qos), None) for qos in (1, 0)]
        fitting = [
            one for one in heads if one is not None
            and one.facts.get("message_id") == said.get("message_id")
        ]  # fmt: skip
        found = next(iter(fitting or waiting), None)
        if found is not None:
            waiting.remove(found)
        return found

    def figures(self, seen: Mapping[str, int | None]) -> Iterator[str]:
        """The figures of the store, when all consumers have come to rest."""
        if self.is_blind:
            return
        ignored = {f"ignored by {by}": 0 for by in ("window", "sequence", "key")}
        due: dict[str, int | None] = {**ignored, "failed": 0, "NumDupMsgsRcvd": 0, **self.counts}
        if not self._checks:
            due["NumDupMsgsRcvd"] = 0
        due |= {"inbox.parked": len(self._parked), "window_us": self.window_us}
        for name, lines in sorted(self._had.items()):
            if lines:
                yield f"effects of {name} that it never told of: expected 0, observed {len(lines)}"
        for name in sorted(seen):
            most, observed = due.get(name, 0), seen[name] or 0
            if name == "evicted" and most and 0 < most - observed <= self._evicted_or_over:
                continue
            yield from _same(f"figure {name}", most, seen[name])

    def remembered(self, ids: int, now_us: int) -> Iterator[str]:
        """So many ids are remembered: what is over leaves with the next decision."""
        if self.is_blind or self._newest is None:
            return
        rules, decided_us = self._newest
        least, most = self._within(rules, now_us), self._within(rules, decided_us)
        if rules.window_us is not None and not least <= ids <= most:
            yield f"ids that are remembered: expected {least} to {most}, observed {ids}"

    def put_aside(self, seen: Iterable[Said]) -> Iterator[str]:
        """What waits for a person is what consumers have told of, all of it, the oldest first."""
        seen = () if self.is_blind else list(seen)
        since_us = [parked["parked_us"] for parked in seen]
        if since_us != (in_order := sorted(since_us, key=str)):
            yield f"put aside: expected {in_order}, observed {since_us}"
        for parked in seen:
            due = self._parked.get(_identity(parked), {})
            for name in _OF_PARKED:
                if name == "parked_us" and self.is_slow:
                    continue
                which = f"{parked['message_id']} that is put aside: {name}"
                yield from _same(which, due.get(name), parked.get(name))

    def kept(self, oldest_us: int | None) -> Iterator[str]:
        """What the formula went by is kept for a consumer that starts again."""
        if not self.is_blind and oldest_us != self.oldest_us:
            yield f"oldest message: expected {self.oldest_us} µs, observed {oldest_us}"

    def topicless(self, until_us: int) -> Iterator[str]:
        """Ids of before they had a topic count for as long as a window can be, and no longer."""
        since_us = until_us - WINDOW_MAX_US
        if until_us and not any(0 <= us - since_us <= _BEGUN_WITHIN_US for us in self._opened_us):
            due = f"until {WINDOW_MAX_US} µs after one of {self._opened_us}"
            yield f"ids without a topic: expected {due}, observed {until_us}"
        if 0 < until_us <= self._opened_us[-1]:
            yield f"ids without a topic: expected none from {self._opened_us[-1]} µs on"

    def remembered_keys(self, keys: int, now_us: int) -> Iterator[str]:
        """So many Remove Duplicates keys are remembered, where time alone says for how long."""
        if self.is_blind or self._newest is None:
            return
        rules, decided_us = self._newest
        least, most = self._since(rules, now_us), self._since(rules, decided_us)
        if rules.keys and rules.oldest_us is None and not least <= keys <= most:
            yield f"keys that are remembered: expected {least} to {most}, observed {keys}"

    def _since(self, rules: Rules, now_us: int) -> int:
        return sum(at_us >= rules.cut_off_us(now_us) for at_us, _ in self._keys.values())

    def _within(self, rules: Rules, now_us: int) -> int:
        window_us = rules.window_us or 0
        return sum(now_us - at_us < window_us for at_us, _ in self._ids.values())

    def _recognised(self, rules: Rules, said: Said, now_us: int) -> By | None:
        at_us, position = self._ids.get(_id(rules, said), (0, 0))
        if rules.window_us is not None and position and now_us - at_us < rules.window_us:
            return "window", position
        if (by := self._by_number(rules, said)) is not None:
            return by
        at_us, position = self._keys.get(said.get("key"), (0, 0))
        if rules.keys and position and at_us >= rules.cut_off_us(now_us):
            return "key", position
        return None

    def _by_number(self, rules: Rules, said: Said) -> By | None:
        number = said.get("sequence_number")
        newest, position = self._numbers.get(said["stream"], (0, 0))
        if not rules.sequence or not isinstance(number, int) or not 1 < number <= newest:
            return None
        return "sequence", position

    def _ignored(self, rules: Rules, said: Said, by: By | None, name: str) -> Iterator[str]:
        observed = str(said["by"]), said["first_position"]
        if by != observed:
            due = "accepted" if by is None else f"ignored by {by[0]} of {by[1]}"
            yield f"{name}: expected {due}, observed ignored by {observed[0]} of {observed[1]}"
        self.counts[f"ignored by {observed[0]}"] += 1
        number, first = said.get("sequence_number"), said["first_position"]
        if self._by_number(rules, said) is not None:
            self.counts["NumDupMsgsRcvd"] += 1
        elif isinstance(number, int) and isinstance(first, int):  # it was received all the same
            _, position = self._numbers.get(said["stream"], (0, 0))
            self._remember(self._numbers, said["stream"], (number, max(position, first)))

    def _put_aside(self, rules: Rules, said: Said, name: str) -> Iterator[str]:
        self._parked[_identity(said)] = said
        failures, _ = self._failures.pop((rules.name, said["channel"], said["message_id"]), (0, 0))
        why = f"{REFUSED}: {refusal(str(said['message_id']))}"[:REASON_MAX]
        if said["tries"] != failures or said["reason"] != why:
            observed = f"{told(said['tries'])}: {told(said['reason'])}"
            yield f"{name}: expected parked after {failures} tries, observed {observed}"

    def _accepted(
        self, rules: Rules, said: Said, now_us: int, name: str, *, is_first: bool
    ) -> Iterator[str]:
        due, position = self.positions + 1, said["position"]
        assert isinstance(position, int), "the inbox counts"
        if position != due and not (self.has_gaps and position > due):
            yield f"{name}: expected position {due}, observed {position}"
        self.positions = position if self.has_gaps else due
        mark = now_us, self.positions
        self._failures.pop((rules.name, said["channel"], said["message_id"]), None)
        self._parked.pop(_identity(said), None)
        if not is_first:
            return
        if rules.window_us is not None:
            self._remember(self._ids, _id(rules, said), mark)
        if rules.keys and said.get("key") is not None:
            self._over_us = max(self._over_us, rules.cut_off_us(now_us))
            oldest_us, _ = next(iter(self._keys.values()), (now_us, 0))
            evicted = self._remember(self._keys, said["key"], mark)
            self._evicted_or_over += evicted and oldest_us < self._over_us
        number = said.get("sequence_number")
        if isinstance(number, int):
            self._remember(self._numbers, said["stream"], (number, self.positions))

    def _let_go(self, rules: Rules, now_us: int) -> None:
        if len(self._ids) >= (self.entries_max or inf):
            window_us = rules.window_us or 0
            known = self._ids.items()
            self._ids = {name: mark for name, mark in known if now_us - mark[0] < window_us}

    def _remember(self, marks: dict[T, tuple[int, int]], name: T, mark: tuple[int, int]) -> bool:
        """Whether what was remembered longest leaves, for there is no room; it is counted."""
        marks.pop(name, None)
        marks[name] = mark
        if len(marks) <= (self.entries_max or len(marks)):
            return False
        del marks[next(iter(marks))]
        self.counts["evicted"] += 1
        return True

    def _effect(self, rules: Rules, said: Said, body: Said | None, name: str) -> Iterator[str]:
        """What a message leaves: one line, with where it stands, whence it came, and all of it."""
        lines = self._had[rules.name]
        if not lines:
            yield f"{name}: expected one line, observed none"
            return
        facts = {"channel": said["channel"], "messageId": said["message_id"]}
        observed = lines.popleft()
        due = {"position": said["position"], **facts, "body": body or observed.get("body")}
        for field_name in sorted(due.keys() | observed.keys()):
            which = f"{name}: {field_name} of its effect"
            yield from _same(which, due.get(field_name), observed.get(field_name))


def found(text: str, t_us: int) -> Found:
    """What is wrong with a consumer."""
    return Found(owner=Owner.APPLICATION, rule="consumer", text=f"consumer {text}", t_us=t_us)


def refusal(message_id: str) -> str:
    """Why an application cannot have a message; more than anybody keeps."""
    return message_id + REASON_MAX * "."


def _read(where: str, kind: str, message: Brought, said: Said) -> Iterator[str]:
    """Whether a message was read as it was written."""
    if kind != "inbox.unreadable":
        due: Said = {"why it cannot be read": message.unfit, **message.facts}
        for name in ("why it cannot be read", *_NAMED) if message.facts or message.unfit else ():
            yield from _same(f"{where}: {name}", due.get(name), said.get(name))
        return
    which = f"{where}: bytes_count of what cannot be read"
    yield from _same(which, message.octets, said["bytes_count"])
    yield from _same(f"{where}: why it cannot be read", message.unfit, said["reason"])
    if message.detail is not None:
        yield from _same(f"{where}: what is said of it", message.detail, said.get("detail"))
    if message.pattern and not re.fullmatch(message.pattern, str(said.get("detail"))):
        fits = f"like {message.pattern}"
        yield from _same(f"{where}: what is said of a wrong field", fits, said.get("detail"))


def _same(what: str, due: object, observed: object) -> Iterator[str]:
    """Nothing, or what has another value than due."""
    if due != observed:
        yield f"{what}: expected {told(due)}, observed {told(observed)}"


def _id(rules: Rules, said: Said) -> tuple[object, ...]:
    partition = said.get("partition_key", "") if rules.partitioned else None
    return said["channel"], partition, said["message_id"]


def _identity(said: Said) -> tuple[object, ...]:
    return said["channel"], said["message_id"], said.get("partition_key", "")
