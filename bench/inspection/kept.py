"""Does a store keep of a device what its frames and its answers have come to, when a case is over?

A counter that is not kept, or one too many, shows only when a server begins anew: so the store is
read at the end of each case in which nobody has disturbed servers, store or broker. What it ought
to hold follows from what passed the taps and from the outcomes, which have been compared already.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.capture.reading import Event
from bench.inspection.downlink import KnownDevice, Session
from bench.verdict.owner import Found, Scrutiny
from bench.virtual.lorawan.air_interface import Keys

_ON_THE_WAY = frozenset(
    {"delay", "drop", "repeat", "clone", "replay", "suppress", "delay_downlink"}
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
