"""What must become of every reception? A model in plain Python, to be read in ten minutes.

Written from ADR 007 and the architecture alone; it shares no code with the network server. It knows
everything at once: one record of a session that all servers see alike, and for each server what
that one heard itself (`bench.explore.model_books`: look there for what a word means). What is
decided, is decided when a reception arrives; a message that takes its time makes the answer later.

Read it from the top: `policy` is the table of ADR 007, and the sections follow a frame from the
antenna to the application and back. Pass over every line with `_doubts`: what nobody outside can
know is *unknowable*, with the reason (`bench.explore.model_doubts`), and the rules are whole
without it.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from bench.explore.history import Device
from bench.explore.model_books import (
    ANSWERS_AGAIN_MAX,
    ENDED,
    EQUAL,
    GAP_MAX,
    NEWER,
    OLDER,
    TOO_FAR,
    UNTOLD,
    Claim,
    Coming,
    Decided,
    Due,
    Server,
    Session,
    Unknowable,
    bring_back,
    copy_of,
    elders,
    give_back,
    window,
)
from bench.explore.model_doubts import SLOW_JOIN, Doubts
from bench.explore.trace import (
    DownlinkWanted,
    Event,
    Frame,
    RadioLost,
    RadioRestarted,
    Reception,
    ServerRestarted,
    StoreDisturbed,
    StoreEmptied,
    Trace,
    UpstreamDisturbed,
    Words,
)

ASKED_AGAIN_US = 5_000_000  # a frame that fits nobody is asked for again after that
LOOKS_AFTER_US = 85_800_000_000  # ten minutes before claims are forgotten
JOIN_RX1_US, DATA_RX1_US = 5_000_000, 1_000_000

COPY = {"Drop": "dropped", "Mark": "marked", "None": "forwarded"}


def policy(copy: str, strategy: str, where: str, *, confirmed: bool, restarts: bool) -> Decided:
    """ADR 007: what becomes of the "first" of a frame, or the "same" or "other" station's copy.

    `where`: how its counter stands; `restarts`: it is FCnt 0 or 1 of a device that may begin again.
    """
    newer = where in (NEWER, UNTOLD)
    repeats = where == EQUAL and confirmed
    if copy == "first":
        decided = Decided("NonDuplicate", "forwarded", answers=True, advances=newer or restarts)
        valid = newer or restarts or repeats
    elif copy == "same":
        decided = Decided("DuplicateDueToResubmission", COPY[strategy], answers=confirmed)
        decided.reason = "ResubmissionSuppressed" if strategy == "Drop" else "-"
        decided.advances = newer  # a relaxed device has begun again and sends an equal frame
        valid = newer or restarts or repeats
    elif strategy == "Drop":
        return Decided("Duplicate", "dropped", "Duplicate")
    else:
        decided = Decided("SoftDuplicate", COPY[strategy])
        valid = newer or restarts or where == EQUAL
    if not valid:
        return Decided(decided.status, "dropped", "InvalidFrameCounter")
    # The fourth answer to one counter is none: that of a frame, and three again.
    decided.spends = decided.answers and not decided.advances
    return decided


class Model:
    """Judges a trace, event by event."""

    def __init__(self, trace: Trace) -> None:
        history = trace.history
        self._trace = trace
        self._shared = history.servers > 1
        self._closed = history.closed
        self._servers = [Server(began_us=trace.began_us) for _ in range(history.servers)]
        self._sessions: dict[tuple[int, int], Session] = {}
        self._nonces: defaultdict[int, set[int]] = defaultdict(set)
        self._is_emptied = False
        self._now_us = 0
        self._coming = Coming(trace)
        self._doubts = Doubts(trace, self._coming, self._sessions)
        self._refusals: list[tuple[int, Callable[[], None]]] = []
        for number, device in enumerate(history.devices):
            if device.kind != "otaa":
                begun = device.begins_at - 1 if device.begins_at else None
                session = self._sessions[number, -1] = Session(-1, begun)
                for number, server in enumerate(self._servers):
                    server.knows.add(session.opened)
                    session.hear_all(number)

    def judge(self) -> dict[int, Due]:
        """What every reception must become, by its number."""
        due: dict[int, Due] = {}
        for place, event in enumerate(self._trace.events):
            self._now_us = event.at_us
            self._coming.place = place
            self._doubts.look_at(event)
            while self._refusals and self._refusals[0][0] < event.at_us:
                self._refusals.pop(0)[1]()
            if isinstance(event, Reception) and self._is_emptied:
                due[event.number] = Due(None, "the store was emptied")
            elif isinstance(event, Reception):
                try:
                    due[event.number] = Due(self._receive(event))
                except Unknowable as why:
                    due[event.number] = Due(None, str(why))
                    self._doubts.spread(event, self._servers[event.server], why)
            else:
                self._note(event)
        return due

    # --- 1. who sent it ---------------------------------------------------------------------------

    def _receive(self, r: Reception) -> Words:
        frame, server = r.frame, self._servers[r.server]
        self._doubts.frame(r, server)
        if frame.is_join:
            return self._join(r, server)
        session = self._sessions.get((frame.device, frame.session))
        if session is None or not self._is_known(r, server, session):
            return _refused("UnknownDevice")
        if frame.forged:
            self._ask_for(r, server, session)
            self._doubts.stranger(session)
            return _refused("UnknownDevice" if session.opened in server.ended else "MicMismatch")
        self._doubts.turn(r, server, session, lambda: self._ask_for(r, server, session))
        withheld = "Suppressed" if frame.wants_answer else "NotAsked"
        if (pinned := self._device(frame).pinned) not in (None, r.server):
            return Words("-", "dropped", "BelongsToAnotherServer", withheld, "NotAsked")
        if self._shared and pinned is None and self._look_after_a_day(r, server, session):
            return _refused("UnknownDevice")
        return self._data(r, server, session, withheld)

    def _is_known(self, r: Reception, server: Server, session: Session) -> bool:
        """Whether a server knows a session; what it has not met it reads in the store."""
        if session.opened in server.ended:
            self._doubts.ending(r, server, session)
            return False
        if session.opened not in server.knows:
            self._doubts.search(r, server, session)
            self._ask_for(r, server, session)
        return session.opened in server.knows

    def _ask_for(self, r: Reception, server: Server, session: Session) -> None:
        """A server asks the store once who may have sent what fits nobody that it knows."""
        frame, device = r.frame, self._device(r.frame)
        if server.is_away(r.at_us):
            return
        if r.at_us - server.asked_us.get(frame.number, -ASKED_AGAIN_US) < ASKED_AGAIN_US:
            return
        server.asked_us[frame.number] = server.looked_us[session.opened] = r.at_us
        if self._shared:
            self._doubts.asked(r, server)
        is_sure = not server.lateness_us(r.at_us) and frame.device not in server.unsure_of
        is_found = not session.is_over or session.opened in server.knows
        if self._shared and is_sure and is_found:
            for number, one in enumerate(self._trace.history.devices):
                if number == frame.device or (one.alike and device.alike):
                    self._learn(r.server, number)

    def _look_after_a_day(self, r: Reception, server: Server, session: Session) -> bool:
        """Who has not looked for a day reads the store before claims have forgotten the day before.

        What is older than what is found is a late copy then. Whether the session is over.
        """
        looked_us = server.looked_us.get(session.opened, server.began_us)
        _, heard_us = server.sightings.get(r.frame.number, (0, -self._trace.retention_us))
        is_copy = r.at_us - heard_us < self._trace.retention_us
        if r.at_us - looked_us < LOOKS_AFTER_US or is_copy or server.is_away(r.at_us):
            return False
        is_whole = not self._is_under_way(r.frame.device)
        self._doubts.after_a_day(r, server, is_whole=is_whole)
        server.looked_us[session.opened] = r.at_us
        self._learn(r.server, r.frame.device)
        if session.place(r.frame.f_cnt) != NEWER and session.frame != r.frame.number:
            session.hear_all(r.server)
        return session.opened in server.ended

    # --- 2. a join --------------------------------------------------------------------------------

    def _join(self, r: Reception, server: Server) -> Words:
        frame = r.frame
        if frame.forged:
            return _refused("MicMismatch")
        if self._device(frame).pinned not in (None, r.server):
            return Words("-", "dropped", "BelongsToAnotherServer", "Suppressed", "NotAsked")
        if self._note_sighting(r, server) != "first":
            return Words("Duplicate", "dropped", "Duplicate", "Suppressed", "NotAsked")
        if frame.number in self._doubts.joins:
            raise Unknowable(SLOW_JOIN)
        nonces = self._nonces[frame.device]
        used = frame.f_cnt in nonces
        if self._device(frame).counts:  # LoRaWAN 1.0.4, 6.2.4
            used = frame.f_cnt <= max(nonces, default=-1)
        shared = self._shared and self._device(frame).pinned is None
        if server.is_away(r.at_us) and (shared or not used):
            del server.sightings[frame.number]
            return Words("NonDuplicate", "dropped", "StoreUnavailable", "Suppressed", "NotAsked")
        late_us = 3 * server.lateness_us(r.at_us)
        is_sure = not (late_us and self._shared)
        if shared and is_sure:
            self._learn(r.server, frame.device)
        if used and is_sure:
            return Words("NonDuplicate", "dropped", "DevNonceUsed", "Suppressed", "NotAsked")
        if frame.f_cnt not in nonces:  # whoever was first with it, it opens a session
            nonces.add(frame.f_cnt)
            self._sessions[frame.device, frame.number] = Session(frame.number, None)
            self._doubts.opened(r, self._servers)
        if not is_sure:
            self._doubts.asked(r, server)
            raise Unknowable(SLOW_JOIN)
        server.knows.add(frame.number)
        answer = self._window(r, server, JOIN_RX1_US, r.at_us, late_us)
        return Words("NonDuplicate", "dropped", "-", answer, "NotAsked")

    # --- 3. a data frame, from level 1 to the application and back --------------------------------

    def _data(self, r: Reception, server: Server, session: Session, withheld: str) -> Words:
        frame, before = r.frame, copy_of(session)
        self._doubts.session(r, session)
        late_us = 3 * server.lateness_us(r.at_us)
        copy = self._note_sighting(r, server)
        self._doubts.ended(server, session, copy)
        # A copy waits for what becomes of its first one, and is of the newest frame then.
        begins_us = max(r.at_us, server.busy.get(frame.number, 0))
        waited = begins_us > r.at_us and copy != "first"
        self._doubts.waiting(r, session, copy, begins_us, begins_us + late_us)
        decided = self._decide(r, server, session, copy, waited=waited)
        if decided is None:
            return _refused("UnknownDevice")
        if decided.reason == "StoreUnavailable":  # it was not heard
            bring_back(session, before)
            if copy == "first":
                del server.sightings[frame.number]
        goes_up = decided.upstream != "dropped"
        slow_us, refused = 0, False
        if goes_up:
            self._doubts.message(r, server, begins_us + late_us)
            slow_us, refused = server.slow_us, server.refused
            server.slow_us, server.refused = 0, False
        done_us = begins_us + slow_us
        if refused:
            self._doubts.refusal(r, server, copy, done_us, slowly=slow_us > 0)
            give_up = partial(self._give_up, r, session, before, decided)
            self._refusals.append((done_us, give_up))
            self._refusals.sort(key=lambda refusal: refusal[0])
            return Words(decided.status, "dropped", "UpstreamUnavailable", withheld, decided.level2)
        if (goes_up or decided.answers or decided.advances) and decided.level2 != "NotOwner":
            session.is_kept = not server.is_away(done_us)
        if slow_us and (decided.advances or copy == "first"):
            server.busy[frame.number], server.spent[frame.number] = done_us, session.spent
        if copy == "first" and (goes_up or decided.advances):
            self._settle(r, server, session, done_us + late_us, decided.level2)
        answer = withheld
        if decided.answers and decided.level2 in ("NotAsked", "Owner"):
            answer = self._answer(r, server, session, decided, done_us)
        return Words(decided.status, decided.upstream, decided.reason, answer, decided.level2)

    # --- 4. level 1: which copy is it here? -------------------------------------------------------

    def _note_sighting(self, r: Reception, server: Server) -> str:
        first, heard_us = server.sightings.get(r.frame.number, (r.station, 0))
        is_hit = heard_us and r.at_us - heard_us < self._trace.retention_us
        first = first if is_hit else r.station
        server.sightings[r.frame.number] = first, r.at_us
        if not is_hit:
            return "first"
        return "same" if first == r.station else "other"

    # --- 5. where does its counter stand? ---------------------------------------------------------

    def _standing(self, r: Reception, session: Session, *, shared: bool, restarts: bool) -> str:
        """Where a counter stands for one server: what it was only told of makes no frame old."""
        number, f_cnt = r.server, r.frame.f_cnt
        where = session.place(f_cnt)
        if not shared or where in (NEWER, TOO_FAR) or session.owner in (None, number):
            return where
        self._doubts.hearing(r, session, restarts=restarts)
        life, heard = session.heard.get(number, (session.life, None))
        if life != session.life or heard is None or f_cnt > heard:
            return UNTOLD
        return EQUAL if f_cnt == heard else OLDER

    def _look_up(
        self, r: Reception, server: Server, session: Session, where: str, copy: str
    ) -> bool:
        """What is too far for a server that has missed something is looked up first.

        Whether the session is over by what is found there.
        """
        self._doubts.slow_store(r, server, session, where, copy)
        _, heard = session.heard.get(r.server, (0, None))
        is_far = r.frame.f_cnt - (heard or 0) > GAP_MAX
        if where != TOO_FAR or copy != "first" or not is_far or server.is_away(r.at_us):
            return False
        self._learn(r.server, r.frame.device)
        server.looked_us[session.opened] = r.at_us
        return session.is_over

    # --- 6. what does the policy say? -------------------------------------------------------------

    def _decide(
        self, r: Reception, server: Server, session: Session, copy: str, *, waited: bool
    ) -> Decided | None:
        frame, device, f_cnt = r.frame, self._device(r.frame), r.frame.f_cnt
        shared = self._shared and device.pinned is None
        restarts = device.kind == "relaxed" and f_cnt <= 1
        if shared:
            self._doubts.claim(r, session)
        is_claimed = session.claim_of(r, self._trace.retention_us).owner is not None
        where = EQUAL if waited else self._standing(r, session, shared=shared, restarts=restarts)
        if shared and self._look_up(r, server, session, where, copy):
            server.sightings.pop(frame.number)
            return None
        self._doubts.misled(r, session, where, is_claimed=is_claimed)
        if r.server in session.misled and not session.is_told(r.server):
            where = EQUAL if where == NEWER else where
        if shared and copy == "other" and device.strategy != "Drop":
            self._doubts.other_copy(r, session, where)
        if shared and copy == "same":
            where = self._doubts.repetition(r, session, where)
        if shared and copy == "first" and is_claimed and not server.is_away(r.at_us):
            where = UNTOLD if where == TOO_FAR else where  # of a former life, heard there just now
        decided = policy(copy, device.strategy, where, confirmed=frame.confirmed, restarts=restarts)
        spent = server.spent.get(frame.number, session.spent) if waited else session.spent
        if decided.spends:
            self._doubts.answers(r, server, session, shared=shared, now=spent is session.spent)
            is_old = shared and restarts and session.place(f_cnt) == OLDER
            mine = session.owner in (None, r.server) and not is_old
            if mine and spent[r.server, f_cnt] >= ANSWERS_AGAIN_MAX:
                decided = Decided(decided.status, "dropped", "ResubmissionLimit")
        is_refused = decided.reason in ("InvalidFrameCounter", "ResubmissionLimit")
        if is_refused and copy == "first" and shared:
            self._look(r, server, session, where)
        if is_refused or copy == "other":
            return decided
        if shared and (decided.answers or decided.advances or decided.upstream != "dropped"):
            return self._ask(r, server, session, decided, restarts=restarts)
        if decided.advances and not shared:
            (session.go_on if session.place(f_cnt) == NEWER else session.begin_again)(f_cnt)
            session.owner, session.frame = r.server, frame.number
        decided.spend(spent, r)
        return decided

    def _look(self, r: Reception, server: Server, session: Session, where: str) -> None:
        """Even what a server refuses it has asked about, if its device may have begun again."""
        is_nameless = where == EQUAL and session.owner is None
        may_know = self._device(r.frame).kind == "relaxed" or where == TOO_FAR or is_nameless
        self._doubts.look(r, server, session, where, may_know=may_know)
        if not may_know or server.is_away(r.at_us):
            return
        if r.server not in session.misled:  # it holds what it was told for newer
            session.tell(r.server)
        known = session.claim_of(r, self._trace.retention_us)
        mine = (session.owner if known.owner is None else known.owner) in (None, r.server)
        if mine and session.place(r.frame.f_cnt) == EQUAL and known.life == session.life:
            known, session.owner = replace(known, owner=r.server), r.server
        session.claimed[r.frame.number] = replace(known, at_us=r.at_us)

    # --- 7. level 2: whose is it? -----------------------------------------------------------------

    def _ask(
        self, r: Reception, server: Server, session: Session, decided: Decided, *, restarts: bool
    ) -> Decided | None:
        """Level 2: whose is this frame? Only a newer counter, or an equal one of its owner."""
        frame, f_cnt, number = r.frame, r.frame.f_cnt, r.server
        if server.is_away(r.at_us):
            return self._nobody_says(r, session, decided)
        session.tell(number)
        if session.is_over:
            server.ended.add(session.opened)
            return None
        is_first = decided.status == "NonDuplicate"
        known = session.claim_of(r, self._trace.retention_us)
        life, owner, where = known.life, known.owner, session.place(f_cnt)
        is_of_before = not (known.odd or known.given_back) and life != session.life_of(f_cnt)
        both_mine = owner == number and session.owner == number
        if owner is not None and is_first:
            granted = owner == number
            self._doubts.claimed(granted=granted and decided.advances and not restarts)
        elif owner is not None and where in (NEWER, TOO_FAR) and not both_mine:
            granted = False  # an equal frame of another life is new for its own server only
        elif where == NEWER and owner is None and known.at_us is not None and is_of_before:
            granted = False  # the newest frame of a life that is over
        elif where == TOO_FAR and owner is None and not is_first:  # of a life that is over for all
            session.claimed[frame.number] = Claim(session.life, None, r.at_us, odd=True)
            return policy("same", "None", where, confirmed=frame.confirmed, restarts=False)
        elif where == NEWER or (restarts and (is_first or known.given_back)):
            self._doubts.forgotten(r, session, is_first=is_first)
            granted = decided.new = True
            (session.go_on if where == NEWER else session.begin_again)(f_cnt)
            session.owner, session.frame = number, frame.number
            if where != NEWER or known.at_us is None or not known.odd:  # else it has its name
                known, life = Claim(session.life), session.life
            session.tell(number)
        else:
            again = where == EQUAL and (life == session.life or session.frame == frame.number)
            whose = next((o for o in (owner, session.owner) if o is not None), number)
            granted = whose == number and (again or restarts)
            if granted and session.owner is None:
                session.owner = number
        owner, given_back = (number, False) if granted else (owner, known.given_back)
        session.claimed[frame.number] = Claim(life, owner, r.at_us, known.odd, given_back)
        session.hear(number, f_cnt, life)
        was_denied = session.denied.pop(number, None) == frame.number
        if not granted:
            session.denied[number] = frame.number
            up = COPY[self._device(frame).strategy]
            why = "DuplicateAtOtherServer" if up == "dropped" else "-"
            decided = replace(decided, upstream=up, reason=why, level2="NotOwner")
            return replace(decided, answers=False, spends=False)
        decided.level2, session.granted_us = "Owner", r.at_us
        if was_denied and decided.new and not is_first:
            decided.upstream, decided.reason = "forwarded", "-"  # nobody else has delivered it
        if decided.advances and not decided.new and restarts and is_first:
            decided.spends, decided.answers = frame.confirmed, frame.confirmed
        if decided.spends and session.spent[number, f_cnt] >= ANSWERS_AGAIN_MAX:
            return Decided(decided.status, "dropped", "ResubmissionLimit", level2="Owner")
        decided.spend(session.spent, r)
        session.given[number, f_cnt] += decided.spends
        return decided

    def _nobody_says(self, r: Reception, session: Session, decided: Decided) -> Decided:
        """Without the store: forwarded and not answered, or dropped."""
        self._doubts.alone(r, session)
        if self._closed:
            return Decided(decided.status, "dropped", "StoreUnavailable", level2="Unavailable")
        if decided.advances:
            session.hear(r.server, r.frame.f_cnt, session.life)
            why = "a frame was taken while nobody could say whose it was"
            session.be_doubted(why, r.frame.f_cnt, self._device(r.frame).kind == "relaxed")
        return replace(decided, level2="Unavailable", answers=False, spends=False)

    # --- 8. the answer: in which window does it leave? --------------------------------------------

    def _answer(
        self, r: Reception, server: Server, session: Session, decided: Decided, done_us: int
    ) -> str:
        """In which window the answer leaves; one that cannot be kept in the store does not.

        What waits for a device leaves with it, whether the frame asked for one or not.
        """
        device, late_us = r.frame.device, 3 * server.lateness_us(r.at_us)
        self._doubts.answer(r, server, done_us + late_us)
        if server.is_away(done_us):
            decided.spare(r)
            session.given[r.server, r.frame.f_cnt] -= decided.spends
            return "Suppressed" if r.frame.wants_answer else "NotAsked"
        waits = server.queue[device] > 0
        self._doubts.downlink(r, server, done_us + late_us, waits=waits)
        if not r.frame.wants_answer and not waits:
            return "NotAsked"
        found = self._window(r, server, DATA_RX1_US, done_us, late_us if self._shared else 0)
        if found == "TooLate":
            is_cut = self._coming.is_disturbed(r, done_us, RadioLost)
            is_cut = is_cut and not self._coming.is_disturbed(r, done_us, RadioRestarted)
            return found if r.frame.wants_answer or is_cut else "NotAsked"
        server.queue[device] -= waits
        return found

    def _window(self, r: Reception, server: Server, rx1_us: int, at_us: int, late_us: int) -> str:
        is_over = server.radios[r.station] != r.radio
        is_cut = self._coming.is_disturbed(r, at_us, RadioLost)
        self._doubts.radio(r, server, at_us, is_over=is_over, is_cut=is_cut)
        if is_over or is_cut:
            return "TooLate"
        left_us = r.ended_us + rx1_us - at_us
        self._doubts.window(r, at_us, left_us, late_us)
        return window(left_us)

    # --- 9. what follows of it --------------------------------------------------------------------

    def _settle(
        self, r: Reception, server: Server, session: Session, done_us: int, level2: str
    ) -> None:
        """A frame that was accepted ends all sessions before its own."""
        for other in elders(self._sessions, r.frame.device, session):
            if level2 == "Unavailable" or server.is_away(done_us):
                other.be_doubted(ENDED, 0, relaxed=True)  # the store has not been told
            elif level2 != "NotOwner" and not other.is_over:
                other.is_over, other.over_us = True, done_us
            server.ended.add(other.opened)
            server.ending_us.setdefault(other.opened, done_us)

    def _give_up(self, r: Reception, session: Session, before: Session, decided: Decided) -> None:
        is_newest = session.frame == r.frame.number
        if decided.new or (decided.advances and decided.level2 == "NotAsked"):
            give_back(session, before, r.frame.number)
        else:
            decided.spare(r)
        session.given[r.server, r.frame.f_cnt] -= decided.spends
        if decided.advances:
            session.heard.pop(r.server, None)
            if r.server in before.heard:
                session.heard[r.server] = before.heard[r.server]
        session.misled |= {s for s, one in session.denied.items() if one == r.frame.number}
        if is_newest:  # what it was told with it, it has forgotten too
            session.synced.pop(r.server, None)
        if session.denied.get(r.server) == r.frame.number:
            del session.denied[r.server]
            session.misled.discard(r.server)
        for elder in elders(self._sessions, r.frame.device, session) if self._shared else ():
            elder.be_doubted(ENDED, 0, relaxed=True)
        if decided.status == "NonDuplicate":
            self._servers[r.server].sightings.pop(r.frame.number, None)

    # --- what happens beside receptions -----------------------------------------------------------

    def _note(self, event: Event) -> None:
        match event:
            case ServerRestarted(_, number):
                self._restart(number)
            case RadioRestarted(_, number, station, radio):
                self._servers[number].radios[station] = radio
            case UpstreamDisturbed(_, number, slow_us, refused):
                server = self._servers[number]
                server.slow_us, server.refused = slow_us, refused
                server.is_unsure = event.at_us <= server.unsure_us
            case StoreDisturbed(_, number, until_us, late_us):
                self._servers[number].store_us = until_us
                self._servers[number].late_us = late_us
            case StoreEmptied():
                self._is_emptied = True
            case DownlinkWanted(_, number, device):
                pinned = self._trace.history.devices[device].pinned
                self._servers[number].queue[device] += pinned in (None, number)

    def _restart(self, number: int) -> None:
        """A server forgets all but what the store has; nobody waits for copies of that."""
        old = self._servers[number]
        since = self._now_us
        self._servers[number] = Server(store_us=old.store_us, late_us=old.late_us, began_us=since)
        self._servers[number].radios = old.radios
        for device in range(len(self._trace.history.devices)):
            self._learn(number, device)
        for session in self._sessions.values():
            if not session.is_kept:
                session.be_doubted("a counter was not kept before a restart", 0, relaxed=True)
            session.hear_all(number)

    def _learn(self, number: int, device: int) -> None:
        """A server reads what the store has of a device: no counter goes back by that.

        What is on its way to an application is not there yet.
        """
        server = self._servers[number]
        is_whole = not self._is_under_way(device)
        for (whose, opened), session in self._sessions.items():
            if whose == device:
                is_over = session.is_over and session.over_us <= self._now_us
                self._doubts.learnt(server, session, is_over=is_over)
                (server.ended if is_over else server.knows).add(opened)
                if is_whole and number not in session.misled:
                    session.tell(number)

    def _is_under_way(self, device: int) -> bool:
        return any(
            until_us >= self._now_us and self._trace.frames[frame].device == device
            for server in self._servers
            for frame, until_us in server.busy.items()
        )

    def _device(self, frame: Frame) -> Device:
        return self._trace.device_of(frame)


def _refused(reason: str) -> Words:
    return Words("-", "dropped", reason, "NotAsked", "NotAsked")
