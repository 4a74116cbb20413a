"""What can nobody outside know of a reception, and what is in doubt since?

The guards of `bench.explore.model`: each raises with its reason, or says nothing. The rules are the
same without them, they would only claim more than anybody can know.
"""

from collections.abc import Callable

from bench.explore.model_answers import Answers
from bench.explore.model_books import (
    ANSWERS_AGAIN_MAX,
    ENDED,
    EQUAL,
    GAP_MAX,
    NEWER,
    OLDER,
    TOO_FAR,
    TURN,
    Harmless,
    Server,
    Session,
    Unknowable,
    UnsureAnswer,
    elders,
)
from bench.explore.trace import Reception, Trace, UpstreamDisturbed

NOT_TOLD = "a copy at a server that was not told what came since"
ONLY_A_PART = "a server without its store knows only a part"
SLOW_JOIN = "a join between servers with a slow store"


class Doubts:
    """Raises what nobody can know; `joins` are the numbers of those whose fate is in doubt."""

    def __init__(
        self, trace: Trace, answers: Answers, sessions: dict[tuple[int, int], Session]
    ) -> None:
        self._trace = trace
        self._shared = trace.history.servers > 1
        self._answers = answers
        self._sessions = sessions
        self.joins: set[int] = set()

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
            raise Harmless("a copy of something unknowable")
        if r.frame.session in server.maybe_ended:
            raise Harmless(ENDED)

    def ending(self, r: Reception, server: Server, session: Session) -> None:
        """A session that is over here: perhaps the frame that ends it is on its way."""
        if r.at_us <= max(session.over_us, server.ending_us.get(session.opened, 0)):
            raise Harmless(ENDED)
        if not session.is_over:
            session.raise_doubt()

    def search(self, r: Reception, server: Server) -> None:
        """A session that a server has not met, unless a slow store has told it."""
        session = r.frame.session
        if server.lateness_us(r.at_us):
            server.maybe_knows.add(session)
        if server.lateness_us(r.at_us) or (
            session in server.maybe_knows and server.is_away(r.at_us)
        ):
            raise Unknowable("who sent it is looked up in a slow store")
        if r.frame.device in server.unsure_of:
            raise Unknowable(SLOW_JOIN)

    def session(self, r: Reception, session: Session) -> None:
        """A session in doubt, until something is newer than all that the doubt is about."""
        until, f_cnt = session.doubt_until, r.frame.f_cnt
        if session.doubt and until is not None and f_cnt > until:
            if f_cnt - (session.newest or 0) <= GAP_MAX:
                session.doubt = ""
        session.raise_doubt()

    def turn(self, r: Reception, session: Session, ask: Callable[[], None]) -> None:
        """A counter beyond 16 bits: a server has to `ask` for its turn."""
        f_cnt, newest = r.frame.f_cnt, session.newest
        turn, (_, heard) = f_cnt // TURN, session.heard.get(r.server, (0, None))
        pinned = self._trace.device_of(r.frame).pinned
        is_near = heard is not None and abs(f_cnt - heard) < GAP_MAX
        if turn and not is_near and pinned not in (None, r.server):
            ask()
            raise Harmless("a turn of 16 bits that a server does not follow")
        if turn and (newest is None or abs(turn - newest // TURN) > 1):
            ask()
            raise Unknowable("a counter more than a turn of 16 bits away")
        is_far = turn > 0 and (heard is None or abs(turn - heard // TURN) > 1)
        if is_far and self._shared and pinned is None and not session.is_told(r.server):
            ask()

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
        if until_us > r.at_us and self._answers.is_disturbed(r, until_us, UpstreamDisturbed):
            raise Unknowable("the application is disturbed while a copy waits")
        if begins_us > r.at_us and copy == "same" and self._shared:
            is_newest = session.place(r.frame.f_cnt) == EQUAL
            if not is_newest or self._answers.is_heard(r, begins_us, here=None):
                raise Unknowable("a repetition waits while a newer frame is accepted")

    def message(self, r: Reception, server: Server, until_us: int) -> None:
        """A message on its way to a disturbed application, with others beside it."""
        if server.slow_us or server.refused:
            others = [e for e in self._answers.until(until_us) if isinstance(e, Reception)]
            if server.is_unsure or any(other.server == r.server for other in others):
                raise Unknowable("which message the application disturbs")

    def refusal(
        self, r: Reception, server: Server, copy: str, refused_us: int, *, slowly: bool
    ) -> None:
        """A message that is refused."""
        if self._shared and server.lateness_us(r.at_us):
            raise Unknowable("a frame is given back by way of a slow store")
        if slowly and (copy != "first" or self._answers.is_overtaken(r, refused_us)):
            raise Unknowable("a message under way that is refused when more has come")

    # --- what servers tell each other ------------------------------------------------------------

    def slow_store(
        self, r: Reception, server: Server, session: Session, where: str, copy: str
    ) -> None:
        """A counter that is looked up while the store is slow, or has been just now."""
        waits_us, is_told = server.waits_us[r.frame.device], session.is_told(r.server)
        gap = r.frame.f_cnt - (session.heard.get(r.server, (0, None))[1] or 0)
        is_plain = copy == "other" or (copy == "first" and where == NEWER and gap <= GAP_MAX // 2)
        if r.at_us < waits_us and not is_plain:
            raise Unknowable("a frame before it waits for a slow store")
        is_sure = is_told and self._trace.device_of(r.frame).kind != "relaxed"
        if r.at_us < waits_us and where not in (EQUAL, NEWER) and not is_sure:
            raise Harmless("a copy of an older frame waits for a slow store")
        if server.lateness_us(r.at_us) and not is_told and (session.lives or gap > GAP_MAX):
            raise Unknowable("a counter is looked up in a slow store")

    def misled(self, r: Reception, session: Session, where: str, *, is_claimed: bool) -> None:
        """A server that was told of a frame which its owner has given back since."""
        is_far = where == TOO_FAR and not is_claimed
        if session.denied.get(r.server) != r.frame.number and not is_far:
            raise Unknowable("a server was told of a frame that its owner has given back since")

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
        if life == session.life or heard is None or r.frame.f_cnt - heard > GAP_MAX:
            raise Unknowable("a repetition from a life before that of the others")
        if r.frame.f_cnt <= heard:
            return EQUAL if r.frame.f_cnt == heard else OLDER  # it knows its own life only
        return where

    def answers(self, r: Reception, session: Session) -> None:
        """A server that has given all answers of its own, as far as it was told."""
        given = session.given[r.server, r.frame.f_cnt]
        if given >= ANSWERS_AGAIN_MAX and not session.is_told(r.server):
            raise Harmless("all answers are spent by a server that was not told of a newer frame")

    def hearing(self, r: Reception, session: Session) -> None:
        """What a server has heard itself of what was unknowable."""
        if r.frame.f_cnt <= session.maybe_heard.get(r.server, -1):
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
