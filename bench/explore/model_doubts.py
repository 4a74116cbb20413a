"""What can nobody outside know of a reception, and what is in doubt since?

The guards of `bench.explore.model`: each raises with its reason, or says nothing. The rules are the
same without them, they would only claim more than anybody can know.
"""

from collections.abc import Callable, Sequence

from bench.explore.model_books import (
    ANSWERS_AGAIN_MAX,
    ENDED,
    EQUAL,
    GAP_MAX,
    NEWER,
    OLDER,
    TOO_FAR,
    TURN,
    Coming,
    Harmless,
    Server,
    Session,
    Unknowable,
    UnsureAnswer,
    elders,
    window,
)
from bench.explore.trace import (
    DownlinkWanted,
    Event,
    RadioLost,
    RadioRestarted,
    Reception,
    StoreDisturbed,
    Trace,
    UpstreamDisturbed,
)

NOT_TOLD = "a copy at a server that was not told what came since"
ONLY_A_PART = "a server without its store knows only a part"
MISLED = "a server was told of a frame that its owner has given back since"
SLOW_JOIN = "a join between servers with a slow store"
NO_CLOCK = "a station has not told its clock"
SAME_BYTE = "a radio session that is over has the number of the one that runs"
FORGOTTEN_US = 86_000_000_000  # nearly a day: about a claim of then the store may know
PROMPT_US = 1_000
LINK_US = 5_000  # from a station of a rig to its server, at most
DRIFT = 20_000  # 50 ppm
UNDER_WAY_US = 10_000_000  # no frame of a radio session before is under way for so long


class Doubts:
    """Raises what nobody can know; `joins` are the numbers of those whose fate is in doubt.

    `_prompt_us`: when a station last told of something at once. Its clock may run 50 ppm wrong.
    """

    def __init__(
        self, trace: Trace, coming: Coming, sessions: dict[tuple[int, int], Session]
    ) -> None:
        self._trace = trace
        self._shared = trace.history.servers > 1
        self._coming = coming
        self._sessions = sessions
        self.joins: set[int] = set()
        self._prompt_us: dict[tuple[int, int], int] = {}
        self._running: dict[tuple[int, int], RadioRestarted] = {}
        self._moved: dict[tuple[int, int], int] = {}  # the radio whose clock an older one moved

    def spread(self, r: Reception, server: Server, unknowable: Unknowable) -> None:
        """What follows from something unknowable is unknowable too.

        Its copies at this server; and of a frame between servers all, until a newer one.
        """
        device = r.frame.device
        session = self._sessions.get((device, r.frame.session))
        if server.queue[device]:
            server.disputed.add(device)
        if isinstance(unknowable, UnsureAnswer):
            return
        why, waits_us = str(unknowable), r.at_us + 3 * server.lateness_us(r.at_us)
        server.doubtful[r.frame.number] = r.at_us
        server.is_unsure = server.is_unsure or server.slow_us > 0 or server.refused
        server.unsure_us = max(server.unsure_us, waits_us + server.slow_us, *server.busy.values())
        server.waits_us[device] = max(server.waits_us[device], waits_us)
        if session is not None:
            session.maybe_claimed_us[r.frame.number] = waits_us
        if session is not None and not isinstance(unknowable, Harmless):
            for elder in elders(self._sessions, device, session):
                elder.be_doubted(why, 0, relaxed=True)
        if r.frame.is_join:
            self.joins.add(r.frame.number)
            server.unsure_of.add(device)
        elif session is not None and not isinstance(unknowable, Harmless):
            heard = max(r.frame.f_cnt, session.maybe_heard.get(r.server, 0))
            session.maybe_heard[r.server] = heard
            relaxed = self._trace.device_of(r.frame).kind == "relaxed"
            session.be_doubted(why, r.frame.f_cnt, relaxed)

    # --- who sent it --------------------------------------------------------------------------

    def frame(self, r: Reception, server: Server) -> None:
        """A copy of what was unknowable, or a session of which a copy may have shown the end."""
        doubted_us = server.doubtful.get(r.frame.number)
        if doubted_us is not None and r.at_us - doubted_us < self._trace.retention_us:
            session = self._sessions.get((r.frame.device, r.frame.session))
            may_advance = session is not None and session.place(r.frame.f_cnt) == NEWER
            raise (Unknowable if may_advance else Harmless)("a copy of something unknowable")
        if r.frame.session in server.maybe_ended:
            raise Harmless(ENDED)

    def opened(self, r: Reception, servers: Sequence[Server]) -> None:
        """A session that opens while somebody looks into a slow store is perhaps found there."""
        for server in servers:
            if r.at_us < server.waits_us[r.frame.device]:
                server.maybe_knows.add(r.frame.number)

    def ending(self, r: Reception, server: Server, session: Session) -> None:
        """A session that is over here: perhaps the frame that ends it is on its way."""
        if r.at_us <= max(session.over_us, server.ending_us.get(session.opened, 0)):
            server.maybe_ended.add(session.opened)  # who asks the store now finds it there
            raise Harmless(ENDED)
        if not session.is_over:
            session.raise_doubt()

    def stranger(self, session: Session) -> None:
        """A session in doubt is perhaps over: nobody knows its DevAddr then, whoever uses it."""
        if session.doubt:
            raise Harmless(session.doubt)

    def search(self, r: Reception, server: Server, session: Session) -> None:
        """A session that a server has not met, unless a slow store has told it."""
        if server.lateness_us(r.at_us):
            server.maybe_knows.add(session.opened)
        may_know = session.opened in server.maybe_knows
        cannot_ask = server.is_away(r.at_us) or session.is_over
        if server.lateness_us(r.at_us) or (may_know and cannot_ask):
            raise Unknowable("who sent it is looked up in a slow store")
        if r.at_us < server.waits_us[r.frame.device]:
            raise Unknowable("a frame before it waits for a slow store")
        if r.frame.device in server.unsure_of:
            raise Unknowable(SLOW_JOIN)
        if may_know:  # then it does not ask, and is told of nothing
            self._perhaps_tell_ends(r, server)

    def asked(self, r: Reception, server: Server) -> None:
        """A slow store that was asked for a device has perhaps told which sessions are over."""
        if server.lateness_us(r.at_us):
            self._perhaps_tell_ends(r, server)

    def _perhaps_tell_ends(self, r: Reception, server: Server) -> None:
        server.maybe_ended |= {
            opened
            for (device, opened), session in self._sessions.items()
            if device == r.frame.device and session.is_over and opened not in server.ended
        }

    def learnt(self, server: Server, session: Session, *, is_over: bool) -> None:
        """A session that is over here, and read again from a store that was not told so yet."""
        if session.opened in server.ended and not is_over:
            server.maybe_ended.add(session.opened)

    def session(self, r: Reception, session: Session) -> None:
        """A session in doubt, until something is newer than all that the doubt is about."""
        until, f_cnt = session.doubt_until, r.frame.f_cnt
        if session.doubt and until is not None and f_cnt > until:
            if f_cnt - (session.surely or 0) <= GAP_MAX:
                session.doubt = ""
        session.raise_doubt()
        session.surely = session.newest

    def turn(self, r: Reception, server: Server, session: Session, ask: Callable[[], None]) -> None:
        """A counter beyond 16 bits: a server has to `ask` for its turn."""
        f_cnt, newest = r.frame.f_cnt, session.newest
        turn, (_, heard) = f_cnt // TURN, session.heard.get(r.server, (0, None))
        pinned = self._trace.device_of(r.frame).pinned
        if pinned not in (None, r.server):
            self.stranger(session)
        is_near = heard is not None and abs(f_cnt - heard) < GAP_MAX
        if turn and not is_near and pinned not in (None, r.server):
            ask()
            raise Harmless("a turn of 16 bits that a server does not follow")
        if turn and (newest is None or abs(turn - newest // TURN) > 1):
            ask()
            raise Unknowable("a counter more than a turn of 16 bits away")
        is_far = turn > 0 and (heard is None or abs(turn - heard // TURN) > 1)
        is_strange = is_far and r.frame.number not in server.sightings
        if is_strange and self._shared and pinned is None and not session.is_told(r.server):
            ask()
            if not session.is_told(r.server):
                raise Unknowable("a counter beyond 16 bits when the newest is not in the store yet")

    # --- which copy, and what came meanwhile -----------------------------------------------------

    def ended(self, server: Server, session: Session, copy: str) -> None:
        """A copy of a session that others have seen the end of: perhaps its server asks them."""
        if session.is_over and copy != "first":
            server.maybe_ended.add(session.opened)
            raise Harmless(ENDED)

    def waiting(
        self, r: Reception, session: Session, copy: str, begins_us: int, until_us: int
    ) -> None:
        """A copy that waits for the fate of its first one, or anything for a slow store."""
        if until_us > r.at_us and self._coming.is_disturbed(r, until_us, UpstreamDisturbed):
            raise Unknowable("the application is disturbed while a copy waits")
        if begins_us > r.at_us and copy == "same" and self._shared:
            is_newest = session.place(r.frame.f_cnt) == EQUAL
            if not is_newest or self._coming.is_heard(r, begins_us, here=None):
                raise Unknowable("a repetition waits while a newer frame is accepted")

    def message(self, r: Reception, server: Server, until_us: int) -> None:
        """A message on its way to a disturbed application, with others beside it."""
        if server.slow_us or server.refused:
            others = [e for e in self._coming.until(until_us) if isinstance(e, Reception)]
            if server.is_unsure or any(other.server == r.server for other in others):
                raise Unknowable("which message the application disturbs")

    def refusal(
        self, r: Reception, server: Server, copy: str, refused_us: int, *, slowly: bool
    ) -> None:
        """A message that is refused."""
        if self._shared and server.lateness_us(r.at_us):
            raise Unknowable("a frame is given back by way of a slow store")
        if slowly and (copy != "first" or self._coming.is_overtaken(r, refused_us)):
            server.unsure_us = max(server.unsure_us, refused_us)  # a copy of it tries again then
            raise Unknowable("a message under way that is refused when more has come")

    # --- what servers tell each other ------------------------------------------------------------

    def slow_store(
        self, r: Reception, server: Server, session: Session, where: str, copy: str
    ) -> None:
        """A counter that is looked up while the store is slow, or has been just now."""
        waits_us, is_told = server.waits_us[r.frame.device], session.is_told(r.server)
        may_pass = self._trace.device_of(r.frame).strategy != "Drop"
        if r.at_us >= waits_us:
            server.surely_heard[r.frame.device] = session.heard.get(r.server, (0, None))[1] or 0
        gap = r.frame.f_cnt - server.surely_heard.get(r.frame.device, 0)
        is_plain = copy == "other" or (copy == "first" and where == NEWER and gap <= GAP_MAX // 2)
        if r.at_us < waits_us and not is_plain:
            raise Unknowable("a frame before it waits for a slow store")
        is_refused = (
            where == TOO_FAR and session.claim_of(r, self._trace.retention_us).owner is None
        )
        if r.at_us < waits_us and where not in (EQUAL, NEWER) and may_pass and not is_refused:
            raise Harmless("a copy of an older frame waits for a slow store")
        if server.lateness_us(r.at_us) and not is_told and (session.lives or gap > GAP_MAX):
            raise Unknowable("a counter is looked up in a slow store")
        until_us = r.at_us + 3 * server.lateness_us(r.at_us)
        server.waits_us[r.frame.device] = max(waits_us, until_us)

    def look(
        self, r: Reception, server: Server, session: Session, where: str, *, may_know: bool
    ) -> None:
        """What is refused, at a server that was not told of all that came."""
        if session.is_told(r.server):
            return
        if server.is_away(r.at_us):
            raise Unknowable(ONLY_A_PART)
        is_answered = session.given[r.server, r.frame.f_cnt] >= ANSWERS_AGAIN_MAX
        if may_know and session.lives and (where != TOO_FAR or is_answered):
            session.tell(r.server)
            raise Harmless(NOT_TOLD)

    def after_a_day(self, r: Reception, server: Server, *, is_whole: bool) -> None:
        """A server that has not looked for a day, when not all there is can be read at once."""
        if server.lateness_us(r.at_us) or not is_whole:
            raise Unknowable("a server looks after a day while the newest is not in the store yet")

    def claim(self, r: Reception, session: Session) -> None:
        """A frame that somebody has asked about perhaps, longer after the last time than known."""
        known, retention_us = session.claimed.get(r.frame.number), self._trace.retention_us
        known_us = known.at_us if known and known.at_us is not None else -retention_us
        maybe_us = session.maybe_claimed_us.get(r.frame.number, -retention_us)
        is_free = r.at_us - known_us >= retention_us or (known is not None and known.given_back)
        if is_free and r.at_us - maybe_us < retention_us:
            raise Unknowable("whether a frame was asked about again a short while ago")

    def claimed(self, *, granted: bool) -> None:
        """A newer frame that a server has claimed already: it began anew since."""
        if granted:
            raise Unknowable("claimed before a restart: was it delivered?")

    def forgotten(self, r: Reception, session: Session, *, is_first: bool) -> None:
        """A copy of a frame of which it is forgotten whose it was."""
        known = session.claimed.get(r.frame.number)
        if not is_first and known and known.owner not in (None, r.server):
            raise Unknowable("another server's frame is claimed again when that is forgotten")

    def misled(self, r: Reception, session: Session, where: str, *, is_claimed: bool) -> None:
        """A server that was told of a frame which its owner has given back since.

        It is told when it asks again, unless the store has forgotten that (a day after a claim). It
        may have kept in the store what it was told: what is near that may be near for anybody.
        """
        if not session.misled:
            return
        is_far = where == TOO_FAR and not is_claimed
        frames, mine = self._trace.frames, r.frame
        denied = (session.denied.get(server, mine.number) for server in session.misled)
        may_be_near = any(0 <= mine.f_cnt - frames[one].f_cnt <= GAP_MAX for one in denied)
        if is_far and may_be_near:
            raise Unknowable(MISLED)
        if r.server not in session.misled or session.is_told(r.server):
            return
        is_forgotten = r.at_us - session.granted_us >= FORGOTTEN_US
        is_its = session.denied.get(r.server) == r.frame.number
        if is_forgotten or not (is_its or is_far):
            raise Unknowable(MISLED)

    def other_copy(self, r: Reception, session: Session, where: str) -> None:
        """A copy by another station, at a server that may know less than the others."""
        is_told = session.is_told(r.server)
        life, heard = session.heard.get(r.server, (session.life, None))
        is_odd = where == TOO_FAR or r.frame.f_cnt < (heard or 0) or not is_told
        is_missed = not is_told and (where == NEWER or r.frame.f_cnt - (heard or 0) > GAP_MAX)
        knows_another = not is_told and session.told_life.get(r.server, life) != life
        if is_missed or knows_another or (life != session.life and is_odd):
            raise Harmless(NOT_TOLD)

    def repetition(self, r: Reception, session: Session, where: str) -> str:
        """The same by the same station; where its counter stands for a server that was not told."""
        life, heard = session.heard.get(r.server, (session.life, None))
        if session.is_told(r.server):
            return where
        told_life = session.told_life.get(r.server, life)
        if where in (EQUAL, OLDER) and told_life == session.life:
            return where
        is_torn = life == session.life or told_life != life
        if is_torn or heard is None or r.frame.f_cnt - heard > GAP_MAX:
            raise Unknowable("a repetition from a life before that of the others")
        if r.frame.f_cnt <= heard:
            return EQUAL if r.frame.f_cnt == heard else OLDER  # it knows its own life only
        return where

    def answers(
        self, r: Reception, server: Server, session: Session, *, shared: bool, now: bool
    ) -> None:
        """A server that has given all answers as far as it was told, or another frame's meanwhile.

        `now`: those of the life of now, that is; a repetition may wait for its first copy.
        """
        given = session.given[r.server, r.frame.f_cnt]
        if shared and given >= ANSWERS_AGAIN_MAX and not session.is_told(r.server):
            raise Unknowable("all answers are spent by a server that was not told of a newer frame")
        if now and self._coming.has_twin(r, server.busy.get(r.frame.number, 0)):
            raise Unknowable("which of two frames with one counter is answered again")

    def hearing(self, r: Reception, session: Session, *, restarts: bool) -> None:
        """What a server has heard itself of what was unknowable."""
        if not restarts and r.frame.f_cnt <= session.maybe_heard.get(r.server, -1):
            raise Unknowable("whether a server has heard more of it itself")

    def alone(self, r: Reception, session: Session) -> None:
        """A server without its store that may have missed something."""
        if session.is_over:
            raise Unknowable(ONLY_A_PART)
        if not session.is_told(r.server):
            _, heard = session.heard.get(r.server, (0, None))
            is_near = r.frame.f_cnt - (heard or 0) <= GAP_MAX and not session.lives
            if session.place(r.frame.f_cnt) != NEWER or not is_near:
                raise Unknowable(ONLY_A_PART)

    # --- the answer -------------------------------------------------------------------------------

    def look_at(self, event: Event) -> None:
        """See what an event tells of a station's radio and clock."""
        if isinstance(event, RadioRestarted):
            self._running[event.server, event.station] = event
        elif isinstance(event, Reception) and (known := self._running.get(event.place)):
            is_late = event.at_us - known.at_us >= UNDER_WAY_US
            if event.radio < known.radio and (known.mute or (known.again and is_late)):
                self._moved[event.place] = known.radio
        if (isinstance(event, RadioRestarted) and not event.mute) or (
            isinstance(event, Reception) and event.at_us - event.ended_us < PROMPT_US
        ):
            self._prompt_us[event.server, event.station] = event.at_us

    def answer(self, r: Reception, server: Server, until_us: int) -> None:
        """Whether an answer is given at all."""
        if until_us > r.at_us and self._shared and self._trace.device_of(r.frame).kind == "relaxed":
            if self._coming.is_heard(r, until_us, here=False):
                server.disputed.add(r.frame.device)
                raise UnsureAnswer("another server has the session before the answer is under way")
        if self._coming.is_disturbed(r, until_us, StoreDisturbed):
            raise Unknowable("the store goes away while the answer is under way")

    def downlink(self, r: Reception, server: Server, until_us: int, *, waits: bool) -> None:
        """What waits for a device leaves with one answer: of two under way nobody knows which."""
        device, before_us = r.frame.device, server.answering_us[r.frame.device]
        until_us += LINK_US  # on a rig it comes so much later
        server.answering_us[device] = max(before_us, until_us)
        comes = any(
            isinstance(event, DownlinkWanted) and (event.server, event.device) == (r.server, device)
            for event in self._coming.until(until_us)
        )
        is_beside = before_us > r.at_us or self._coming.is_heard(r, until_us, here=True)
        if comes or (waits and is_beside):
            server.disputed.add(device)
        if device in server.disputed and (waits or comes):
            raise UnsureAnswer("what waits for a device leaves with one of two answers under way")

    def radio(
        self, r: Reception, server: Server, at_us: int, *, is_over: bool, is_cut: bool
    ) -> None:
        """Which radio session a frame is of, and whether that lasts until its answer leaves."""
        running = self._running.get(r.place)
        if is_over:
            if running and running.mute:
                raise UnsureAnswer(NO_CLOCK)
            self._look_at_byte(r, self._coming.place)
            return
        if self._moved.get(r.place) == r.radio:
            raise UnsureAnswer(SAME_BYTE)
        if running and running.mute and running.radio == r.radio:
            if r.at_us - running.at_us < UNDER_WAY_US or r.at_us - r.ended_us >= PROMPT_US:
                raise UnsureAnswer(NO_CLOCK)
        if is_cut:
            self._look_at_byte(r, len(self._trace.events))
        elif self._coming.is_disturbed(r, at_us + 3 * server.lateness_us(r.at_us), RadioLost):
            raise UnsureAnswer("a station leaves while its answer waits for a slow store")

    def window(self, r: Reception, at_us: int, left_us: int, late_us: int) -> None:
        """Whether the same window is reached with all that an answer may wait for."""
        if window(left_us) != window(left_us - late_us):
            raise UnsureAnswer("a slow store decides about the window")
        drift_us = (at_us - self._prompt_us.get(r.place, 0)) // DRIFT
        if window(left_us + drift_us) != window(left_us):
            raise UnsureAnswer("the clock of a station may have drifted")

    def _look_at_byte(self, r: Reception, place: int) -> None:
        """Whether a radio session that is over looks like one with the same number."""
        if any(
            isinstance(event, RadioRestarted) and event.again and event.radio > r.radio
            for event in self._trace.events[:place]
            if (event.server, getattr(event, "station", None)) == r.place
        ):
            raise UnsureAnswer(SAME_BYTE)
