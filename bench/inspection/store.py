"""Does a server use its Redis as it ought to, and does a store keep what frames have come to?

What is said there is worked out from the requests and replies of each connection (Redis
serialization protocol, 2), and what stays from the keys that are there in the end: which of them
expire, and what belongs together. A counter that is not kept, or one too many, shows only when a
server begins anew: so each store is read at the end of each case in which nobody has disturbed
servers, store or broker. What it ought to hold of a device follows from what passed the taps and
from the outcomes, which have been compared already.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any

from bench.capture.reading import Event
from bench.inspection.known_device import KnownDevice, Session
from bench.verdict.owner import Found, Scrutiny, told
from bench.virtual.lorawan.air_interface import Keys

DATABASE = 3
USER, PASSWORD = "network server", "a:b/c%41"
AT_ONCE_MAX = 500
"""So many commands leave in one round trip."""
DAY_MS, LEASE_MS = 86_400_000, 30_000
AGAIN_US = 300_000
"""How soon a consumer says once more what could not be said."""
_RUN = (b"EVAL", b"EVALSHA")
OPENING = (b"AUTH", b"CLIENT", b"SELECT")
"""What a connection begins with: who it is."""
READS = frozenset(b"GET HGET HGETALL HLEN HVALS PING SMEMBERS ZCARD ZRANGE".split())
"""What a replica answers as well; it refuses all that could change something."""
OTHERS = {b"lns:{FFFFFFFFFFFFFFFF}:sessions": b"[]", b"inbox:{another}:lives": b"7", b"a": b"1"}
"""What somebody else has in the same Redis."""
Words = Sequence[bytes]


def read(octets: bytes | bytearray, at: int = 0) -> tuple[Any, int] | None:
    """What one request or reply of RESP2 says that begins here, and where it ends.

    Words and texts as octets, `-` and `+` included; None where it is not whole. Source: the Redis
    serialization protocol specification, version 2.
    """
    head = octets.find(b"\r\n", at)
    if head < 0:
        return None
    kind, said, after = octets[at : at + 1], octets[at + 1 : head], head + 2
    if kind == b"$" and int(said) >= 0:
        end = after + int(said)
        return (bytes(octets[after:end]), end + 2) if end + 2 <= len(octets) else None
    if kind == b"*" and int(said) >= 0:
        parts = []
        for _ in range(int(said)):
            part = read(octets, after)
            if part is None:
                return None
            parts.append(part[0])
            after = part[1]
        return parts, after
    if kind == b":":
        return int(said), after
    return (None if kind in b"$*" else bytes(kind + said)), after


def packed(words: Sequence[str | bytes]) -> bytes:
    """One request, or one reply of texts, as it is sent."""
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    said = [b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]
    return b"*%d\r\n" % len(parts) + b"".join(said)


@dataclass(frozen=True, slots=True)
class Key:
    """One key in the end: `left_ms` until it expires, None: it never does."""

    name: str
    left_ms: int | None
    value: Any

    @property
    def text(self) -> str:
        return self.value.decode(errors="replace") if isinstance(self.value, bytes) else ""


def is_refusal(reply: Any) -> bool:
    """Whether a reply is an error."""
    return isinstance(reply, bytes) and reply.startswith(b"-")


def run_by(words: Words) -> tuple[Words, Words]:
    """Keys and values of a script that is run; none of any other request."""
    first = 3 + int(words[2]) if words[0] in _RUN else 0
    return words[3:first], words[first:]


def meet(requests: Sequence[Words]) -> bool:
    """Whether several scripts of one exchange are about one key: each has its own outcome there."""
    keys = [words[3] for words in requests if words[0] in _RUN]
    return len(set(keys)) < len(keys)


class Conversation:
    """What one connection has said: who it is, which scripts it has run, and what it waits for."""

    def __init__(self) -> None:
        self._waits = 0
        self._together = 0
        self._user: tuple[str, ...] = ()
        self._database = 0
        self._known: set[str] = set()

    def asked(self, requests: Sequence[Words], *, go_on: bool = False) -> Iterator[str]:
        """What is wrong with requests that came at once; `go_on`: with a part of those before."""
        self._together = len(requests) + (self._together if go_on else 0)
        if self._together > AT_ONCE_MAX:
            yield f"expected {AT_ONCE_MAX} commands at once, observed {self._together}"
        for words in requests:
            if words[0] in OPENING:
                self._introduced(words)
                continue
            if self._waits > 0:
                yield f"expected the answer is waited for, observed {told(words[0].decode())}"
            if (*self._user, self._database) != (USER, PASSWORD, DATABASE):
                yield f"expected user, password and database {DATABASE}, observed others"
            yield from self._script(words)
        self._waits += len(requests)

    def answered(self, number: int) -> None:
        """So many replies have arrived."""
        self._waits -= number

    def learnt(self, requests: Sequence[Words], replies: Sequence[Any]) -> None:
        """Scripts were run, or were refused."""
        for words, reply in zip(requests, replies, strict=True):
            digest = _digest(words)
            if not is_refusal(reply):
                self._known |= {digest} - {""}
            elif words[0] == b"EVAL" or reply.startswith(b"-NOSCRIPT"):
                self._known.discard(digest)

    def _introduced(self, words: Words) -> None:
        if words[0] == b"AUTH":
            self._user = tuple(word.decode() for word in words[1:])
        elif words[0] == b"SELECT":
            self._database = int(words[1])

    def _script(self, words: Words) -> Iterator[str]:
        digest = _digest(words)
        if words[0] == b"EVALSHA" and digest not in self._known:
            yield "expected a script that it has not run yet whole, observed its digest"
        # Joins are rare, and bring theirs along.
        if words[0] == b"EVAL" and digest in self._known and not joined(words):
            yield "expected the digest of a script that it has run, observed all of it"


def _digest(words: Words) -> str:
    if words[0] == b"EVALSHA":
        return words[1].decode()
    return sha1(words[1], usedforsecurity=False).hexdigest() if words[0] == b"EVAL" else ""


def joined(words: Words) -> bytes:
    """Of which device a request keeps a join, as its keys begin; b"" for any other request."""
    first = next(iter(run_by(words)[0]), b"")
    return first.removesuffix(b"dev_nonces") if first.endswith(b":dev_nonces") else b""


def expiries(words: Words, retention_ms: int) -> Iterator[str]:
    """What a server asks for has its time: a session a day, and a frame that it claims as set."""
    keys, values = run_by(words)
    at = next((number for number, key in enumerate(keys) if b":frame:" in key), None)
    if at is not None:
        asked, due = (values[-2:], (DAY_MS, retention_ms)) if at == 2 else (values[3:4], (DAY_MS,))
        if (observed := tuple(map(int, asked))) != due:
            yield f"{keys[at].decode()}: expected remembered for {due} ms, observed {observed}"


Held = Mapping[bytes, tuple[bytes | None, int]]
"""Who holds which place, and for how long yet (ms)."""


def is_confirmation(words: Words) -> bool:
    """Whether a consumer says what it has decided on the places that it holds."""
    return any(b":confirmed:" in key for key in run_by(words)[0])


def looked_at(words: Words) -> list[bytes]:
    """The places that a request names, or the frame that it gives back."""
    keys = run_by(words)[0]
    is_given_back = len(keys) == 2 and b":frame:" in keys[1]
    return [keys[1]] if is_given_back else [key for key in words if b":held:" in key]


def is_reservation(words: Words) -> bool:
    """Whether a consumer asks for places."""
    return any(b":numbers" in key for key in run_by(words)[0]) and not is_confirmation(words)


def reserved(words: Words, reply: Any, before: Held, held: Held, taken: int) -> Iterator[str]:
    """A message that nobody else has is granted: all of its places are held then, for a lease.

    So many positions were `taken` before; the next ones are its own.
    """
    if reply[3] != taken:
        yield f"positions: expected those behind {taken}, observed behind {reply[3]}"
    keys, (token, _, said, *_rest) = run_by(words)
    asked, places = json.loads(said), keys[8:]
    for (number, name), place in zip(asked["places"], places, strict=True):
        of, _, table = keys[number - 1].rpartition(b":")
        if place != (due := b"%b:held:%b:%b" % (of, table, name.encode())):
            yield f"{due.decode()}: expected asked for, observed {place.decode()}"
    for is_granted, group in zip(reply[0], asked["groups"], strict=True):
        names = [places[place - 1] for place in group]
        if is_granted != all(before[name][0] in (None, token) for name in names):
            yield f"{names}: expected granted if nobody else has it, observed {is_granted}"
        for name in names if is_granted else ():
            holder, left_ms = held[name]
            if holder != token or not LEASE_MS // 2 <= left_ms <= LEASE_MS:
                text = name.decode(errors="replace")
                yield f"{text}: expected held for {LEASE_MS} ms, observed {holder!r}, {left_ms} ms"


def positions_taken(words: Words) -> int:
    """How many positions a reservation takes."""
    return int(run_by(words)[1][3])


def released(words: Words, before: Held, after: Held) -> Iterator[str]:
    """Whoever has decided releases what it holds, and nothing that others do.

    A frame that is given back is remembered no longer than it was.
    """
    token = run_by(words)[1][0]
    for place, (holder, left_ms) in before.items():
        if b":frame:" in place:
            if after[place][1] > left_ms:
                yield f"{place.decode()}: expected {left_ms} ms, observed {after[place][1]} ms"
            continue
        due = None if holder == token else holder
        if after[place][0] != due:
            name = place.decode(errors="replace")
            yield f"{name}: expected held by {due!r} then, observed {after[place][0]!r}"


def preset(words: Words) -> bytes:
    """Of which device a request lets the sessions begin anew, as its keys begin; b"" for others."""
    is_one = words[0] == b"SET" and words[1].endswith(b":sessions")
    return words[1].removesuffix(b"sessions") if is_one else b""


def left_of_before(device: bytes, sessions: bytes, keys: Iterable[bytes]) -> Iterator[str]:
    """Whoever begins anew is no more known by what was claimed and answered before."""
    begun = {session["dev_addr"] for session in json.loads(sessions)}
    for key in sorted(keys):
        kind, _, rest = key.removeprefix(device).decode(errors="replace").partition(":")
        if kind in ("frame", "f_cnt_down") or (kind == "claim" and rest in begun):
            yield f"{device.decode()}: expected nothing of before, observed {kind}:{rest}"


class Insistence:
    """How soon a confirmation that failed is said again, by each consumer."""

    def __init__(self) -> None:
        self._failed_us: dict[str, int] = {}

    def failed(self, consumer: str, now_us: int) -> None:
        """It was not taken, or nobody was there to take it."""
        self._failed_us[consumer] = now_us

    def is_over(self, consumer: str) -> None:
        """It was taken, or nobody is there to say it."""
        self._failed_us.pop(consumer, None)

    def comes(self, consumer: str, now_us: int) -> Iterator[str]:
        """A consumer comes, who may have something to say once more."""
        failed_us = self._failed_us.get(consumer)
        if failed_us is not None and (waited_us := now_us - failed_us) > AGAIN_US:
            yield (
                f"{consumer}: expected a confirmation that failed again within {AGAIN_US} us,"
                f" observed after {waited_us} us"
            )
        if failed_us is not None:
            self._failed_us[consumer] = now_us


def counters_left(sessions: bytes | None, dev_addrs: Iterable[bytes]) -> Iterator[str]:
    """When a device has joined, only sessions that it has then have downlink counters."""
    kept = {session["dev_addr"] for session in json.loads(sessions or b"[]")}
    over = sorted({one.decode() for one in dev_addrs} - kept)
    if over:
        yield f"downlink counters after a join: expected none of sessions that are over: {over}"
    if missing := sorted(kept)[:1] if not over and not set(dev_addrs) else []:
        yield f"downlink counters after a join: expected one of {missing}, observed none"


def in_the_end(
    keys: Sequence[Key], retention_ms: int, taken: Mapping[str, int], *, is_sure: bool
) -> Iterator[str]:
    """What is there and should not be, or should and is not; `is_sure`: nothing was disturbed.

    `taken`: how many positions were, by the key of the numbers of each inbox.
    """
    by_name = {key.name: key for key in keys}
    for name, value in OTHERS.items():
        other = by_name.pop(name.decode(), None)
        if other is None or other.value != value:
            yield f"{name.decode()} of somebody else: expected {value!r}, observed {other}"
    for key in by_name.values():
        yield from _expiry(key, retention_ms)
    yield from _addresses(by_name, is_sure=is_sure)
    for inbox, number in taken.items():
        numbers = pairs(by_name[inbox].value if inbox in by_name else ())
        if (observed := int(numbers.get(b"position", 0))) != number:
            yield f"{inbox}: expected {number} positions taken, observed {observed}"
    for key in by_name.values():
        if key.name.endswith(":order"):
            marks = by_name.get(key.name.removesuffix(":order"))
            yield from _order(key, marks)
        if is_sure and ":held:" in key.name:
            yield f"{key.name}: expected nothing reserved in the end, observed {key.text}"


_EXPIRES = (
    (re.compile(r"lns:\{\w+\}:claim:\w+"), DAY_MS),
    (re.compile(r"inbox:\{.*\}:confirmed:.*"), DAY_MS),
    (re.compile(r"inbox:\{.*\}:held:.*", re.DOTALL), LEASE_MS),
)
_FRAME = re.compile(r"lns:\{\w+\}:frame:\w+:\d+:\w+")
_STAYS = re.compile(
    r"lns:\{\w+\}:(sessions|dev_nonces|join_nonce|f_cnt_down)|lns:dev_addr:\w+"
    r"|inbox:\{.*\}:(numbers|parked|lives|(window|sequence|key)(:order)?)"
)


def _expiry(key: Key, retention_ms: int) -> Iterator[str]:
    """What is remembered for a time has it, all of what is long but for what the host took."""
    if _STAYS.fullmatch(key.name):
        if key.left_ms is not None:
            yield f"{key.name}: expected it stays, observed {key.left_ms} ms left"
        return
    most_ms = next((ms for shape, ms in _EXPIRES if shape.fullmatch(key.name)), None)
    if _FRAME.fullmatch(key.name):
        most_ms = retention_ms
    if most_ms is None:
        yield f"{key.name}: expected no such key"
        return
    least_ms = most_ms // 2 if most_ms == DAY_MS else 1
    if key.left_ms is None or not least_ms <= key.left_ms <= most_ms:
        yield f"{key.name}: expected it expires within {most_ms} ms, observed {key.left_ms}"


def _addresses(by_name: Mapping[str, Key], *, is_sure: bool) -> Iterator[str]:
    """Whoever looks for the devices of a DevAddr finds those that a join gave it."""
    for name, key in by_name.items():
        found = re.fullmatch(r"lns:\{(\w+)\}:sessions", name)
        if found is None:
            continue
        dev_eui, joined = found[1], f"lns:{{{found[1]}}}:dev_nonces" in by_name
        kept = {session["dev_addr"] for session in json.loads(key.value)}
        named = {
            other.removeprefix("lns:dev_addr:")
            for other, members in by_name.items()
            if other.startswith("lns:dev_addr:") and dev_eui.encode() in members.value
        }
        if (joined or named) and not kept <= named:
            yield f"{dev_eui}: expected found by {sorted(kept)}, observed by {sorted(named)}"
        if is_sure and not named <= kept:
            yield f"{dev_eui}: expected found by {sorted(kept)} only, observed by {sorted(named)}"


def _order(order: Key, marks: Key | None) -> Iterator[str]:
    """Each mark stands in the order of its table, at its position."""
    due = {} if marks is None else pairs(marks.value)
    positions = {name: mark.split()[1] for name, mark in due.items()}
    if (observed := pairs(order.value)) != positions:
        yield f"{order.name}: expected {positions}, observed {observed}"


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """What a hash has, or an order, whose names and values come in turn."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


_ON_THE_WAY = frozenset(
    {"delay", "drop", "drop_clock", "repeat", "clone", "replay", "suppress", "delay_downlink"}
)
"""What a tap does to texts, each of which it has seen."""
_UNDISTURBING = ("tap", "air", "clock")
_REPEATED = (None, "ResubmissionSuppressed")
"""The reasons of a frame that was heard before and may be answered once more."""
REPEATS_MAX = 3
COPIED_MAX = 16
"""Of so many counters the copies are counted, besides those of first messages."""
_FIRST, _AGAIN = "NonDuplicate", "DuplicateDueToResubmission"


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A session as a store has it: `f_cnt_up` is the newest counter, `f_cnt_down` the next one.

    `resubmissions` are the repeated answers, and `copies` the forwarded copies, by counter;
    `agreed` is what the device has granted: how often it sends, and that it knows dwell times.
    """

    dev_addr: str
    keys: Keys
    f_cnt_up: int | None
    f_cnt_down: int
    resubmissions: Mapping[int, int]
    copies: Mapping[int, int]
    rx1_dr_offset: int
    rx_delay_s: int
    rx2_dr: int | None
    more_channels: int
    agreed: tuple[int, bool]
    nb_trans_asked: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store has of one device, newest session first."""

    dev_eui: str
    sessions: Sequence[KeptSession]
    dev_nonces: frozenset[int]


@dataclass(slots=True)
class _Heard:
    """What became of the frames of one session, in order; `repeated` since the newest of them."""

    accepted: list[int] = field(default_factory=list)
    repeated: Counter[int] = field(default_factory=Counter)
    forwarded: Counter[int] = field(default_factory=Counter)

    @property
    def is_one_life(self) -> bool:
        """Whether its counter never went back."""
        return self.accepted == sorted(self.accepted)


class StoreInspection:
    """Remembers what outcomes say of each session and each join, to be compared at the end."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, str], _Heard] = {}
        self._joined: dict[str, set[int]] = {}
        self._is_sure = True
        self._is_shared = False

    def take(self, event: Event) -> None:
        """Read the next event; any kind."""
        match event["kind"]:
            case "lns.outcome":
                self._outcome(event)
            case "lns.claim":
                self._is_shared = True
            case "case.lns":
                self._is_sure &= event["event"] == "start"
            case "fault.begin":
                self._is_sure &= event.get("seam") in _UNDISTURBING
            case "case.begin":
                self._is_sure &= event.get("rig") == "simulated"

    def _outcome(self, event: Event) -> None:
        dev_eui, reason = event.get("dev_eui"), event.get("reason")
        if dev_eui is None or reason == "InternalError":
            self._is_sure &= dev_eui is None
            return
        if "dev_addr" not in event:
            if event.get("status") == _FIRST and reason is None:
                nonce = event["frame_id"].rpartition(":")[2]
                if not nonce.isdecimal():  # what is wrong with it is told elsewhere
                    self._is_sure = False
                    return
                self._joined.setdefault(dev_eui, set()).add(int(nonce))
            return
        if "status" not in event:
            return
        heard = self._heard.setdefault((dev_eui, event["dev_addr"]), _Heard())
        f_cnt, status = event["f_cnt"], event["status"]
        is_owned = event.get("level2", "NotAsked") in ("NotAsked", "Owner")
        is_newest = not heard.accepted or f_cnt != heard.accepted[-1]
        if event["upstream"] != "dropped":
            heard.forwarded[f_cnt] += 1
        goes_on = status == _AGAIN and f_cnt not in heard.accepted  # what was refused at first
        if (status == _FIRST and reason is None and is_owned and is_newest) or (
            goes_on and reason in _REPEATED and is_owned
        ):
            heard.accepted.append(f_cnt)
            heard.repeated.clear()
        elif status in (_FIRST, _AGAIN) and event["confirmed"] and reason in _REPEATED:
            heard.repeated[f_cnt] += 1

    def wrong(self, devices: Mapping[str, KnownDevice], kept: Sequence[Kept]) -> Iterator[Found]:
        """What a store has that it ought not to have, and the other way round."""
        for one in kept:
            for session in one.sessions:
                check = _check(f"{one.dev_eui}, {session.dev_addr}")
                if not all(0 <= n <= REPEATS_MAX for n in session.resubmissions.values()):
                    many = dict(session.resubmissions)
                    yield check.wrong("repeated answers", f"{REPEATS_MAX} of a counter", many)
                copied = sum(f_cnt > 1 for f_cnt in session.copies)
                if copied > COPIED_MAX:
                    yield check.wrong("counters with copies", f"{COPIED_MAX} at most", copied)
        for one in kept if self._is_sure else ():
            device = devices.get(one.dev_eui)
            if device is None:
                continue
            joined = self._joined.get(one.dev_eui, set())
            check = _check(one.dev_eui)
            yield from check.same("DevNonces", sorted(joined), sorted(one.dev_nonces))
            yield from self._sessions(device, one, check)
            for session in one.sessions:
                known = [s for s in device.sessions if s.dev_addr == session.dev_addr]
                if known:
                    yield from self._session(device, known[-1], session)

    def _sessions(self, device: KnownDevice, kept: Kept, check: Scrutiny) -> Iterator[Found]:
        """The session in use is there, none before it, and those that a join has opened since."""
        in_use = [
            number
            for number, session in enumerate(device.sessions)
            if self._of(device, session).accepted
        ]
        there = {session.dev_addr for session in kept.sessions}
        for session in device.sessions[: in_use[-1]] if in_use else ():
            if session.dev_addr in there:
                yield check.wrong("session that is over", None, session.dev_addr)
        if in_use and (due := device.sessions[in_use[-1]].dev_addr) not in there:
            yield check.wrong("session in use", due, ", ".join(sorted(there)) or None)

    def _of(self, device: KnownDevice, session: Session) -> _Heard:
        return self._heard.get((device.dev_eui, session.dev_addr)) or _Heard()

    def _session(self, device: KnownDevice, known: Session, kept: KeptSession) -> Iterator[Found]:
        check, heard = _check(f"{device.dev_eui}, {known.dev_addr}"), self._of(device, known)
        if (known.is_used or known.is_sure) and known.keys != kept.keys:
            yield check.wrong("keys", "those of its join", "others")
        agreed = known.rx1_dr_offset, known.rx_delay_s, len(known.more_channels)
        has = kept.rx1_dr_offset, kept.rx_delay_s, kept.more_channels
        yield from check.same("RX1DROffset, RxDelay and channels", agreed, has)
        if kept.rx2_dr is not None:
            yield from check.same("RX2DataRate", known.rx2_dr, kept.rx2_dr)
        least = 0 if known.f_cnt_down is None else known.f_cnt_down + 1
        if device.loses_no_f_cnt_down:
            yield from check.same("next FCntDown", least, kept.f_cnt_down)
        elif kept.f_cnt_down < least:
            yield check.wrong("next FCntDown", f"at least {least}", kept.f_cnt_down)
        if not heard.is_one_life:
            return
        newest = heard.accepted[-1] if heard.accepted else known.f_cnt_up
        yield from check.same("newest FCntUp", newest, kept.f_cnt_up)
        granted = known.nb_trans, known.has_set_dwell
        if None not in granted and newest == known.newest:
            yield from check.same("NbTrans and dwell times granted", granted, kept.agreed)
        if known.nb_trans_asked and newest == known.newest:
            yield from check.same("NbTrans asked for", known.nb_trans_asked, kept.nb_trans_asked)
        if self._is_shared or newest is None or newest <= 1 or not heard.accepted:
            return  # 0 and 1 may be those of another life
        if newest == known.f_cnt_up:
            return  # what is accepted repeats a counter of before
        copies = max(0, heard.forwarded[newest] - 1)
        yield from check.same("repeated answers", dict(heard.repeated), dict(kept.resubmissions))
        yield from check.same("copies of the newest frame", copies, kept.copies.get(newest, 0))


def may_lose_counters(event: Event) -> bool:
    """Whether a downlink counter may be taken for an answer that does not leave then."""
    match event["kind"]:
        case "fault.begin":
            on_the_way = event.get("seam") == "tap" and event["fault"] in _ON_THE_WAY
            return not on_the_way and event.get("seam") not in ("air", "clock")
        case "case.lns" | "lns.claim" | "station.link":
            return True
    return False


def _check(of: str) -> Scrutiny:
    return Scrutiny(rule="store", of=f"what the store has of {of}", t_us=0)
