"""Which laws did a history break? Laws that need no model of what is due.

What is due is worked out from the history alone: who sent what in which life of its counter, and
who heard it. It shares nothing with network servers but the frames.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from bench.explore.trace import (
    Frame,
    RadioRestarted,
    Reception,
    ServerRestarted,
    StoreDisturbed,
    StoreEmptied,
    Trace,
    Words,
)

GAP_MAX = 16_384
SURELY_US = 1_000_000
OVER_US = 5_000_000
REFUSED = "UpstreamUnavailable"
NOT_TAKEN = (REFUSED, "InvalidFrameCounter")


@dataclass(frozen=True, slots=True)
class Cause:
    """A law and how it was broken: the same for all histories that break it in this way."""

    law: str
    words: str

    def __str__(self) -> str:
        return f"{self.law}: {self.words}"


def broken_laws(trace: Trace) -> list[Cause]:
    facts = _Facts(trace)
    found = [*_outcomes(trace), *_answers(trace), *_flags(trace), *_owners(facts)]
    if not any(isinstance(event, StoreEmptied) for event in trace.events):
        found += _counters(trace)
    if not facts.store_was_away:
        found += [*_identities(facts), *_sessions(facts)]
        found += [] if facts.store_was_slow else _deliveries(facts)
    return found


class _Facts:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.receptions = trace.receptions
        self.by_number = {r.number: r for r in self.receptions}
        self.of_frame: defaultdict[int, list[Reception]] = defaultdict(list)
        for reception in self.receptions:
            if trace.device_of(reception.frame).pinned not in (None, reception.server):
                continue  # it is none of that server's business
            self.of_frame[reception.frame.number].append(reception)
        self.restarts = [e for e in trace.events if isinstance(e, ServerRestarted)]
        self.store_was_away = any(
            isinstance(event, StoreEmptied)
            or (isinstance(event, StoreDisturbed) and not event.late_us)
            for event in trace.events
        )
        self.store_was_slow = trace.history.servers > 1 and any(
            isinstance(event, StoreDisturbed) for event in trace.events
        )
        self.due = _due(trace)
        self._unsure: dict[int, bool] = {}

    def group(self, reception: Reception) -> int | None:
        """Which hearing of a frame this is, a retention apart; None where one cannot tell."""
        retention_us = self.trace.retention_us
        group, first_us, last_us = 0, None, None
        for other in self.of_frame[reception.frame.number]:
            if first_us is None or last_us is None:
                first_us = last_us = other.at_us
            if other.at_us - last_us >= retention_us:
                group, first_us = group + 1, other.at_us
            elif other.at_us - first_us >= retention_us - SURELY_US:
                return None
            if other is reception:
                return group
            last_us = other.at_us
        return None

    def forgotten(self, reception: Reception) -> int:
        """How often its server had forgotten this frame: it did not hear it for a retention.

        What other servers claimed may still name it then, so that it goes up under the id it had.
        """
        frame, server = reception.frame, reception.server
        mine = [r for r in self.receptions if r.frame is frame and r.server == server]
        heard_us = [r.at_us for r in mine if r.number <= reception.number]
        return sum(b - a >= self.trace.retention_us for a, b in pairwise(heard_us))

    def is_unsure(self, frame: Frame) -> bool:
        """Whether nobody can tell if a copy of this frame is one."""
        if frame.number not in self._unsure:
            self._unsure[frame.number] = self._find_unsure(frame)
        return self._unsure[frame.number]

    def _find_unsure(self, frame: Frame) -> bool:
        """A server forgot level 1 meanwhile, a copy was refused, or a station heard it again.

        The latter after the device began a new life, or seemed to with a first message that nobody
        had heard: by the rules that life may have sent an equal frame.
        """
        mine = self.of_frame[frame.number]
        if not mine:
            return True
        began_us, ended_us = mine[0].at_us, mine[-1].at_us
        if frame.same or any(began_us <= r.at_us <= ended_us for r in self.restarts):
            return True
        if any(w.reason in NOT_TAKEN for r in mine for w in self.trace.outcomes[r.number]):
            return True
        again = [r for n, r in enumerate(mine) if any(o.place == r.place for o in mine[:n])]
        return any(
            other.at_us <= r.at_us
            and (other.frame.life > frame.life or self._seems_to_begin(other))
            for r in again
            for other in self.receptions
            if other.at_us >= began_us
            and other.frame is not frame
            and other.frame.device == frame.device
        )

    def _seems_to_begin(self, reception: Reception) -> bool:
        """Whether a server takes this for the first message of a new life, whoever sent it."""
        frame = reception.frame
        if self.trace.device_of(frame).kind != "relaxed" or frame.f_cnt > 1:
            return False
        known_us = max((e.at_us for e in self.restarts if e.at_us < reception.at_us), default=-1)
        mine = self.of_frame[frame.number]
        before = [r for r in mine if known_us < r.at_us < reception.at_us]
        return all(
            reception.at_us - r.at_us >= self.trace.retention_us
            or any(words.reason == REFUSED for words in self.trace.outcomes[r.number])
            for r in before
        )


def _outcomes(trace: Trace) -> Iterator[Cause]:
    for reception in trace.receptions:
        told = len(trace.outcomes[reception.number])
        if told != 1:
            yield Cause("one outcome", f"a reception has {told} outcomes")
    if trace.strays:
        yield Cause("one outcome", "an outcome belongs to no reception")
    for failure in trace.failures:
        yield Cause("no failure", failure)


def _flags(trace: Trace) -> Iterator[Cause]:
    for message in trace.delivered:
        words = trace.outcomes[message.reception][:1]
        nobody_said = any(one.level2 == "Unavailable" for one in words)
        if words and message.unverified != nobody_said:
            yield Cause("flags", "a message is unverified, or is not, against its outcome")
            return


def _owners(facts: _Facts) -> Iterator[Cause]:
    """Who was told that a frame is another's does not own it later, unless that one gave it back.

    Even where the store has forgotten it meanwhile. Of a relaxed device a life may lie between.
    """
    trace = facts.trace
    if any(isinstance(event, StoreDisturbed) for event in trace.events):
        return
    for mine in facts.of_frame.values():
        words = {r.number: w for r in mine for w in trace.outcomes[r.number]}
        if any(w.reason == REFUSED for w in words.values()):
            continue
        not_mine: dict[int, int] = {}
        for r in mine:
            said = words.get(r.number)
            if said is None or trace.device_of(r.frame).kind == "relaxed":
                continue
            told_us = not_mine.get(r.server)
            if said.level2 == "Owner" and told_us is not None:
                if all(e.server != r.server or e.at_us < told_us for e in facts.restarts):
                    yield Cause("one owner", "a server owns what it was told is another's")
                    return
            if said.level2 == "NotOwner":
                not_mine.setdefault(r.server, r.at_us)


def _answers(trace: Trace) -> Iterator[Cause]:
    by_number = {r.number: r for r in trace.receptions}
    over = set(_of_radio_sessions_that_are_over(trace))
    emptied_us = min((e.at_us for e in trace.events if isinstance(e, StoreEmptied)), default=None)
    answered = Counter(
        # A copy that comes when the store has forgotten all is answered by whoever hears it.
        (r.transmission, emptied_us is not None and r.at_us > emptied_us)
        for answer in trace.answered
        if (r := by_number[answer.reception]).number not in over
    )
    downlinks = Counter(
        (by_number[answer.reception].frame.device, answer.dev_addr, answer.f_cnt_down)
        for answer in trace.answered
        if answer.f_cnt_down is not None
        and (emptied_us is None or _tells_all(trace, by_number[answer.reception], emptied_us))
    )
    if any(number > 1 for number in answered.values()):
        yield Cause("one answer", "a transmission is answered more than once")
    if any(number > 1 for number in downlinks.values()):
        yield Cause("one answer", "a downlink counter is used more than once")
    if emptied_us is None and _goes_too_far(downlinks):
        yield Cause("one answer", "a downlink counter is farther than a device takes")
    late = any(isinstance(event, StoreDisturbed) and event.late_us for event in trace.events)
    if not late and emptied_us is None:
        yield from _join_nonces(trace, by_number)


def _of_radio_sessions_that_are_over(trace: Trace) -> Iterator[int]:
    """Receptions of which a station sends no answer any more, whatever it is handed."""
    running: dict[tuple[int, int], int] = {}
    for event in trace.events:
        if isinstance(event, RadioRestarted):
            running[event.server, event.station] = event.radio
        elif isinstance(event, Reception) and event.radio < running.get(event.place, 0):
            yield event.number


def _goes_too_far(downlinks: Counter[tuple[int, str | None, int]]) -> bool:
    """Whether a device refuses one that has heard all before it (LoRaWAN 1.0.3, 4.3.1.5)."""
    newest: dict[tuple[int, str | None], int] = {}
    for device, dev_addr, f_cnt_down in sorted(downlinks, key=lambda one: one[2]):
        if f_cnt_down - newest.get((device, dev_addr), -1) > GAP_MAX:
            return True
        newest[device, dev_addr] = f_cnt_down
    return False


def _tells_all(trace: Trace, reception: Reception, emptied_us: int) -> bool:
    """Whether frames told, even without a store, how many answers there may have been before."""
    newest = -1
    for other in trace.receptions:
        if other.at_us > reception.at_us:
            break
        if other.at_us > emptied_us and other.frame.f_cnt <= newest:
            return False
        newest = max(newest, other.frame.f_cnt)
    return True


def _join_nonces(trace: Trace, by_number: dict[int, Reception]) -> Iterator[Cause]:
    """Each is greater than the one before, whichever server answers (LoRaWAN 1.0.4, 6.2.3)."""
    newest: dict[int, int] = {}
    for answer in sorted(trace.answered, key=lambda one: by_number[one.reception].at_us):
        device, join_nonce = by_number[answer.reception].frame.device, answer.join_nonce
        if join_nonce is None:
            continue
        if join_nonce <= newest.get(device, 0):
            yield Cause("one answer", "a JoinNonce is not greater than the one before")
            return
        newest[device] = join_nonce


def _counters(trace: Trace) -> Iterator[Cause]:
    newest: dict[tuple[int, str, int], int] = {}
    known: dict[int, set[str]] = defaultdict(set)
    ended: dict[int, set[str]] = defaultdict(set)
    for kept in trace.kept:
        now = {dev_addr for dev_addr, _, _ in kept.sessions}
        if now & ended[kept.device]:
            yield Cause("sessions end", "a session that has ended is in the store again")
            return
        ended[kept.device] |= known[kept.device] - now
        known[kept.device] = now
        for dev_addr, life, f_cnt_up in kept.sessions:
            if f_cnt_up < newest.get((kept.device, dev_addr, life), -1):
                yield Cause("counters only rise", "a counter went back within its life")
                return
            newest[kept.device, dev_addr, life] = f_cnt_up


def _identities(facts: _Facts) -> Iterator[Cause]:
    frames_of_key: defaultdict[str, set[int]] = defaultdict(set)
    frames_of_id: defaultdict[str, set[int]] = defaultdict(set)
    by_server: defaultdict[tuple[int, str], list[Reception]] = defaultdict(list)
    keys: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    restarted = {event.server for event in facts.restarts}
    for message in facts.trace.delivered:
        reception = facts.by_number[message.reception]
        frame = reception.frame
        frames_of_key[message.key].add(frame.number)
        frames_of_id[message.message_id].add(frame.number)
        if message.server not in restarted:
            by_server[message.server, message.message_id].append(reception)
        group = facts.group(reception)
        if group is not None and not facts.is_unsure(frame):
            keys[frame.number, group].add(message.key)
    if any(len(frames) > 1 for frames in frames_of_key.values()):
        yield Cause("names", "two frames share a key")
    if any(len(frames) > 1 for frames in frames_of_id.values()):
        yield Cause("names", "two frames share an id")
    twice = [said for said in by_server.values() if len(said) > 1]
    if any(len(set(map(facts.forgotten, said))) < len(said) for said in twice):
        yield Cause("names", "a server uses an id twice")
    if any(len(found) > 1 for found in keys.values()):
        yield Cause("names", "a frame has two keys")


def _deliveries(facts: _Facts) -> Iterator[Cause]:
    firsts: Counter[int] = Counter()
    unmarked: Counter[tuple[int, int]] = Counter()
    delivered = set()
    for message in facts.trace.delivered:
        reception = facts.by_number[message.reception]
        frame, group = reception.frame, facts.group(reception)
        delivered.add(frame.number)
        if frame.forged:
            yield Cause("delivered", "a forged frame is delivered")
        if group is None or facts.is_unsure(frame):
            continue
        firsts[frame.number] += group == 0 and message.message_id == message.key
        if not message.marked and facts.trace.device_of(frame).strategy != "None":
            unmarked[frame.number, group] += 1
    for number, receptions in facts.of_frame.items():
        if not receptions:
            continue
        frame = receptions[0].frame
        if number not in facts.due or frame.same or _is_refused(facts, receptions):
            continue
        if number not in delivered:
            yield Cause("delivered", "a frame is lost")
        elif firsts[number] != 1 and facts.group(receptions[0]) is not None:
            if not facts.is_unsure(frame):
                times = "twice or more" if firsts[number] else "never"
                yield Cause("delivered", f"a frame is {times} delivered as the first")
    if any(number > 1 for number in unmarked.values()):
        yield Cause("delivered", "a frame is delivered unmarked more than once")
    if any(_is_lost(facts.trace, r) for r in facts.receptions if r.frame.number not in delivered):
        yield Cause("delivered", "a frame is answered and lost")


def _is_lost(trace: Trace, reception: Reception) -> bool:
    """Whether a device believes that what nobody has delivered is with the application.

    What was refused by its counter, and is newer in a life that began since, is answered only: its
    copies are resubmissions (ADR 007).
    """
    frame = reception.frame
    if frame.is_join or all(w.answer[:2] != "RX" for w in trace.outcomes[reception.number]):
        return False
    words = (w for r in trace.receptions if r.frame is frame for w in trace.outcomes[r.number])
    return all(w.reason != "InvalidFrameCounter" for w in words)


def _is_refused(facts: _Facts, receptions: list[Reception]) -> bool:
    pinned = facts.trace.device_of(receptions[0].frame).pinned
    outcomes = facts.trace.outcomes
    return all(pinned not in (None, r.server) for r in receptions) or any(
        words.reason == REFUSED for r in receptions for words in outcomes[r.number]
    )


def _sessions(facts: _Facts) -> Iterator[Cause]:
    """No frame of a session is new when one of a later session was accepted a while before."""
    newest: dict[int, tuple[int, int]] = {}
    owned: dict[int, int] = {}
    for message in sorted(facts.trace.delivered, key=lambda m: facts.by_number[m.reception].at_us):
        reception = facts.by_number[message.reception]
        frame = reception.frame
        at_us = min((r.at_us for r in facts.of_frame[frame.number]), default=reception.at_us)
        session, since_us = newest.get(frame.device, (-1, 0))
        if facts.trace.device_of(frame).kind != "otaa":
            continue
        if frame.session < session and at_us - since_us > OVER_US:
            yield Cause("sessions end", "a frame of an older session is taken")
            return
        if frame.session > session:
            newest[frame.device] = frame.session, at_us
        if all(w.level2 != "NotOwner" for w in facts.trace.outcomes[reception.number]):
            owned[frame.device] = max(frame.session, owned.get(frame.device, -1))
    last = {kept.device: {said[0] for said in kept.sessions} for kept in facts.trace.kept}
    opened = facts.trace.dev_addr
    for device, session in owned.items():
        over = {opened[n] for n in opened if n < session and facts.trace.frames[n].device == device}
        if over & last.get(device, set()) - {opened.get(session)}:
            yield Cause("sessions end", "a session that is over is still kept")
            return


def _due(trace: Trace) -> set[int]:
    devices = {n: _Truth(trace, n) for n in range(len(trace.history.devices))}
    due = set()
    seen: set[int] = set()
    refused = {
        r.frame.number
        for r in trace.receptions
        if any(words.reason == REFUSED for words in trace.outcomes[r.number])
    }
    for reception in trace.receptions:
        frame = reception.frame
        if frame.is_join or frame.forged:
            continue
        if trace.device_of(frame).pinned not in (None, reception.server):
            continue
        if any(words.reason == REFUSED for words in trace.outcomes[reception.number]):
            # It was not heard, but meanwhile it may have made others old.
            devices[frame.device].hears(frame, is_new=False)
            continue
        # What its owner gave back counts for nobody, though a copy of it went up elsewhere.
        is_lent = frame.number in refused and any(
            words.level2 == "NotOwner" or words.reason != "-" or _is_copy(trace, words)
            for words in trace.outcomes[reception.number]
        )
        is_new = reception.genuine and frame.number not in seen and not (frame.same or is_lent)
        seen |= set() if is_lent else {frame.number}
        if devices[frame.device].hears(frame, is_new=is_new):
            due.add(frame.number)
    return due


def _is_copy(trace: Trace, words: Words) -> bool:
    """Whether it is passed on behind another copy, of which alone it was asked whose it is."""
    is_copy = words.status != "NonDuplicate" and words.level2 == "NotAsked"
    return is_copy and trace.history.servers > 1


class _Truth:
    """What of a device's frames must be accepted: never more than any server could know."""

    def __init__(self, trace: Trace, number: int) -> None:
        device = trace.history.devices[number]
        self._relaxed = device.kind == "relaxed"
        self._turns = device.bits == 16
        begun = -1 if device.kind == "otaa" else device.begins_at - 1
        self._newest: dict[tuple[int, int], int] = {(-1, 0): begun}
        self._foreign: dict[tuple[int, int], int] = {}
        self._heard_session = -1

    def hears(self, frame: Frame, *, is_new: bool) -> bool:
        """Note one reception; whether its frame must be delivered."""
        life = (frame.session, frame.life if self._relaxed else 0)
        if frame.session < self._heard_session:
            return False
        self._heard_session = frame.session
        if life not in self._newest:
            if self._relaxed and (frame.f_cnt > 1 or not is_new):
                for known in self._newest:
                    self._foreign[known] = max(self._foreign.get(known, -1), frame.f_cnt)
                return False
            self._newest[life] = -1
        newest, foreign = self._newest[life], self._foreign.get(life, -1)
        for other in self._newest:
            if other != life and other[0] == life[0]:
                self._foreign[other] = max(self._foreign.get(other, -1), frame.f_cnt)
        fits = frame.f_cnt > newest and frame.f_cnt - max(newest, 0) <= GAP_MAX
        may_fit = frame.f_cnt - max(newest, foreign, 0) <= GAP_MAX
        if fits and is_new:
            self._newest[life] = frame.f_cnt
        elif may_fit or self._turns or len(self._newest) > 1:  # refused, or of another life
            self._foreign[life] = max(foreign, frame.f_cnt)
        first = self._relaxed and frame.f_cnt <= 1
        turned = self._turns and self._relaxed  # each turn of the counter is a new life
        return is_new and fits and not turned and (first or frame.f_cnt > foreign)
