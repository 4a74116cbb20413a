"""When does the answer to a reception leave, if one is due?

A slow application, a slow store, or a station whose radio session is over make it later or none;
what waits for a device leaves with an answer, whether that asked for one or not.
"""

from collections.abc import Iterator
from itertools import islice, takewhile

from bench.explore.model_books import Decided, Server, Session, Unknowable, UnsureAnswer
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

LEAD_US = 400_000  # an answer is on its way so long before its window opens
RX2_AFTER_US = 1_000_000
DATA_RX1_US = 1_000_000
PROMPT_US = 1_000
DRIFT = 20_000  # 50 ppm
UNDER_WAY_US = 10_000_000  # no frame of a radio session before is under way for so long


def window(left_us: int) -> str:
    """The window of an answer, so long before RX1 opens."""
    if left_us >= LEAD_US:
        return "RX1"
    return "RX2" if left_us + RX2_AFTER_US >= LEAD_US else "TooLate"


class Answers:
    """Answers to what is received; `place` is that of the event that is looked at.

    `_prompt_us`: when a station last told of something at once. Its clock may run 50 ppm wrong.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._shared = trace.history.servers > 1
        self.place = 0
        self._prompt_us: dict[tuple[int, int], int] = {}
        self._running: dict[tuple[int, int], RadioRestarted] = {}
        self._moved: dict[tuple[int, int], int] = {}  # the radio whose clock an older one moved

    def look_at(self, place: int, event: Event) -> None:
        """Go on to an event."""
        self.place = place
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

    def answer(
        self, r: Reception, server: Server, session: Session, decided: Decided, done_us: int
    ) -> str:
        """In which window the answer leaves; one that cannot be kept in the store does not."""
        device, late_us = r.frame.device, server.lateness_us(r.at_us)
        if done_us > r.at_us and self._shared and self._trace.device_of(r.frame).kind == "relaxed":
            if self.is_heard(r, done_us, here=False):
                server.disputed.add(device)
                raise UnsureAnswer("another server has the session before the answer is under way")
        until_us = done_us + 3 * late_us
        if self.is_disturbed(r, until_us, StoreDisturbed):
            raise Unknowable("the store goes away while the answer is under way")
        if server.is_away(done_us):
            if decided.spends:
                session.spent[r.frame.f_cnt] -= 1
            return "Suppressed" if r.frame.wants_answer else "NotAsked"
        waits, before_us = server.queue[device], server.answering_us[device]
        server.answering_us[device] = max(before_us, until_us)
        comes = any(
            isinstance(event, DownlinkWanted) and (event.server, event.device) == (r.server, device)
            for event in self.until(until_us)
        )
        if comes or (waits and (before_us > r.at_us or self.is_heard(r, until_us, here=True))):
            server.disputed.add(device)
        if device in server.disputed and (waits or comes):
            raise UnsureAnswer("what waits for a device leaves with one of two answers under way")
        if not r.frame.wants_answer and not waits:
            return "NotAsked"
        asked_us = 3 * late_us if self._shared else 0
        window = self.window(r, server, DATA_RX1_US, done_us, asked_us)
        if window == "TooLate":
            is_cut = self.is_disturbed(r, done_us, RadioLost)
            is_cut = is_cut and not self.is_disturbed(r, done_us, RadioRestarted)
            return window if r.frame.wants_answer or is_cut else "NotAsked"
        server.queue[device] -= server.queue[device] > 0
        return window

    def is_disturbed(
        self,
        r: Reception,
        until_us: int,
        what: type[StoreDisturbed | UpstreamDisturbed | RadioLost | RadioRestarted],
    ) -> bool:
        """Whether this befalls a server, or one station of it, until then."""
        return any(
            isinstance(event, what)
            and event.server == r.server
            and getattr(event, "station", r.station) == r.station
            for event in self.until(until_us)
        )

    def is_heard(self, r: Reception, until_us: int, *, here: bool | None) -> bool:
        """Whether its device is heard again until then, by this server, another one, or any."""
        return any(
            isinstance(event, Reception)
            and here in (None, event.server == r.server)
            and event.frame.device == r.frame.device
            for event in self.until(until_us)
        )

    def is_overtaken(self, r: Reception, until_us: int) -> bool:
        """Whether until then more comes than copies elsewhere: of its device, or a fault here."""
        return any(
            event.frame.device == r.frame.device
            and (event.frame is not r.frame or event.server == r.server)
            if isinstance(event, Reception)
            else event.server == r.server and isinstance(event, StoreDisturbed | UpstreamDisturbed)
            for event in self.until(until_us)
        )

    def until(self, until_us: int) -> Iterator[Event]:
        """What happens after an event and until a time."""
        after = islice(self._trace.events, self.place + 1, None)
        return takewhile(lambda event: event.at_us <= until_us, after)

    def window(self, r: Reception, server: Server, rx1_us: int, at_us: int, late_us: int) -> str:
        """The first window that opens late enough; a radio session that is over has none."""
        if server.radios[r.station] != r.radio and self._running[r.place].mute:
            raise UnsureAnswer("a station has not told its clock")
        if server.radios[r.station] != r.radio:
            self._look_at_byte(r, self.place)
            return "TooLate"
        if self._moved.get(r.place) == r.radio:
            raise UnsureAnswer("a radio session that is over has the number of the one that runs")
        running = self._running.get(r.place)
        if running and running.mute and running.radio == r.radio:
            if r.at_us - running.at_us < UNDER_WAY_US or r.at_us - r.ended_us >= PROMPT_US:
                raise UnsureAnswer("a station has not told its clock")
        if self.is_disturbed(r, at_us, RadioLost):
            self._look_at_byte(r, len(self._trace.events))
            return "TooLate"
        if self.is_disturbed(r, at_us + 3 * server.lateness_us(r.at_us), RadioLost):
            raise UnsureAnswer("a station leaves while its answer waits for a slow store")
        windows = {window(r.ended_us + rx1_us - us) for us in (at_us, at_us + late_us)}
        if len(windows) > 1:
            raise UnsureAnswer("a slow store decides about the window")
        drift_us = (at_us - self._prompt_us.get(r.place, 0)) // DRIFT
        if window(r.ended_us + rx1_us - at_us + drift_us) not in windows:
            raise UnsureAnswer("the clock of a station may have drifted")
        return windows.pop()

    def _look_at_byte(self, r: Reception, place: int) -> None:
        """Whether a radio session that is over looks like one with the same number."""
        if any(
            isinstance(event, RadioRestarted) and event.again and event.radio > r.radio
            for event in self._trace.events[:place]
            if (event.server, getattr(event, "station", None)) == r.place
        ):
            raise UnsureAnswer("a radio session that is over has the number of the one that runs")
