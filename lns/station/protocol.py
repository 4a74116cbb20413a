"""Which message follows which between a station and a server, and what does an `xtime` stand for?

The server's side of one connection, without input or output: texts in by `receive_text`, what they
mean out of `events_received`, texts to send out of `texts_to_send`. Nothing that a station sends
raises. A connection has no other state than what this object holds; a new one starts afresh.
A remote shell or a command (`rmtsh`, `runcmd`) is never asked for, and nothing configures it.

What moment of the server's clock an `xtime` is outlasts the connections of a station:

    | 0 | unit 62..56 | session 55..48 | microseconds of the concentrator's counter 47..0 |

The session is drawn at every start of the radio and is never 0 (Basics Station, ral.h).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from lns.clock import Utc
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region
from lns.station.messages import (
    Dnmsg,
    Dntxed,
    Ignored,
    Jreq,
    Malformed,
    Propdf,
    Timesync,
    Updf,
    Version,
    XtimeReport,
    dnmsg_text,
    getxtime_text,
    parse_up,
    router_config_text,
    timesync_answer_text,
)


class LinkClosed(Exception):
    """The other side of a station link is gone."""


class TextLink(Protocol):
    """One station connection; LinkClosed when it is over."""

    async def send(self, text: str) -> None:
        """Hand one text to the other side."""

    async def receive(self) -> str:
        """The next text of the other side."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A station introduced itself."""

    station_version: str


@dataclass(frozen=True, slots=True)
class Transmitted:
    """A downlink is on the air; `xtime` is its start on the station's clock."""

    diid: int
    dev_eui: Eui
    dr: int
    freq_hz: int
    xtime: int


@dataclass(frozen=True, slots=True)
class XtimeSample:
    """What the station's clock showed just now; 0: its radio has not shown any time yet."""

    xtime: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message that cannot be read; `reception`: it stands for a frame that was heard."""

    why: str
    msgtype: str
    reception: bool


@dataclass(frozen=True, slots=True)
class Passed:
    """A message without use here."""

    msgtype: str


Event = Versioned | Updf | Jreq | Transmitted | XtimeSample | Rejected | Passed


_GPS_EPOCH_S = 315_964_800
_GPS_LEAP_S = 18


class StationProtocol:
    """The server's side of one connection; `utc` is for MuxTime and GPS time.

    It answers `version` with `router_config` and then `getxtime`, whose reply is a sample of the
    station's clock.
    """

    def __init__(self, region: Region, utc: Utc) -> None:
        self._region = region
        self._utc = utc
        self._events: list[Event] = []
        self._texts: list[str] = []

    def events_received(self) -> list[Event]:
        """What has been received since the last call, in order."""
        events, self._events = self._events, []
        return events

    def texts_to_send(self) -> list[str]:
        """What is to be sent since the last call, in order."""
        texts, self._texts = self._texts, []
        return texts

    def send_downlink(self, dnmsg: Dnmsg) -> None:
        """Ask the station for a transmission."""
        self._texts.append(dnmsg_text(dnmsg))

    def ask_xtime(self) -> None:
        """Ask the station for its clock."""
        self._texts.append(getxtime_text(self._utc().timestamp()))

    def receive_text(self, text: str) -> None:
        """Take one message of the station."""
        match parse_up(text):
            case Updf() | Jreq() as uplink:
                self._events.append(uplink)
            case Malformed(why, msgtype) as malformed:
                self._events.append(Rejected(why, msgtype or "", malformed.is_reception))
                if msgtype == "version":  # without router_config its radio never runs
                    self._configure("of a version that cannot be read")
            case Dntxed() as sent:
                self._events.append(
                    Transmitted(sent.diid, sent.dev_eui, sent.dr, sent.freq_hz, sent.xtime)
                )
            case XtimeReport(xtimes=xtimes):
                # A station forgets its clocks with every router_config and answers zeros until
                # its radio has run for a moment (Basics Station, timesync.c).
                shown = [XtimeSample(xtime) for xtime in xtimes if xtime]
                self._events += shown or [XtimeSample(0)]
            case Version(station=station):
                self._configure(station)
            case Timesync(txtime=txtime):
                self._answer_timesync(txtime)
            case Ignored(msgtype):
                self._events.append(Passed(msgtype))
            case Propdf():
                self._events.append(Passed("propdf"))
            case _:
                self._events.append(Passed("router-info"))

    def _configure(self, station_version: str) -> None:
        self._events.append(Versioned(station_version))
        mux_time = self._utc().timestamp()
        self._texts += [router_config_text(self._region, mux_time), getxtime_text(mux_time)]

    def _answer_timesync(self, txtime: int) -> None:
        utc = self._utc()
        self._texts.append(
            timesync_answer_text(txtime, gpstime=gps_time_us(utc), mux_time=utc.timestamp())
        )


def gps_time_us(utc: datetime) -> int:
    """Microseconds since 1980-01-06 without leap seconds (GPS is 18 s ahead of UTC since 2017)."""
    seconds = int(utc.timestamp()) - _GPS_EPOCH_S + _GPS_LEAP_S
    return seconds * 1_000_000 + utc.microsecond


class Reception(Struct, frozen=True, gc=False):
    """A PHYPayload with the station's report about it.

    `xtime` is the station's own clock at the end of the frame (µs, opaque but for adding µs);
    `rctx` names its antenna; both go back in the answer. `heard_us` is the same moment on this
    server's clock, None while the station's clock is not known yet. `arrived_us` is when the
    text reached the server. `gps_us` is the same moment in GPS time (µs since 1980-01-06), 0 where
    the station does not know it. SNR in dB, RSSI in dBm. Source: Basics Station, uplink messages.
    """

    station: Eui
    phy: bytes
    dr: int
    freq_hz: int
    rssi_dbm: float
    snr_db: float
    xtime: int
    rctx: int
    arrived_us: int
    heard_us: int | None
    gps_us: int = 0


def reception_of(
    message: Updf | Jreq, station: Eui, *, arrived_us: int, heard_us: int | None
) -> Reception:
    """The frame that a station heard, whole again, and its report."""
    info = message.upinfo
    return Reception(
        station=station,
        phy=message.phy(),
        dr=message.dr,
        freq_hz=message.freq_hz,
        xtime=info.xtime,
        rctx=info.rctx,
        gps_us=info.gpstime,
        rssi_dbm=info.rssi_dbm,
        snr_db=info.snr_db,
        arrived_us=arrived_us,
        heard_us=heard_us,
    )


COUNTER_BITS = 48
_COUNTER_MASK = (1 << COUNTER_BITS) - 1
_SESSION_SHIFT = 48
_UNIT_SHIFT = 56

DRIFT_PPM = 50
VERSION_WAIT_US = 1_000_000
REPORT_WAIT_US = 10_000_000
AHEAD_US = 100_000
_SESSIONS_MAX = 16
_NEVER_US = 1 << 62


class _Offset(Struct, frozen=True, gc=False):
    """Server clock minus station clock, and when on the server's clock that was seen (µs).

    `least_us`: what is below it belongs to an earlier session of the same number.
    """

    offset_us: int
    seen_us: int
    least_us: int = -_NEVER_US


class StationClock:
    """One station's clock against the server's, through all its connections.

    A text arrives some time after the moment its `xtime` names, never before it: the smallest
    difference seen is the best estimate. A larger one replaces it only as far as two clocks that
    differ by 50 ppm can have moved apart since. Remembers the newest 16 sessions.

    Of a frame that is ahead of all before by more than 100 ms nobody can tell whether those were
    late or its moment is wrong, and then every later frame would seem late: so the station is asked
    (`is_unsure`). What it shows then it has read after the question, and no offset below that was
    ever true.

    A station starts its radio anew, and with it a session, at every `router_config`, but tells
    before that what it heard while the link was down. So a session runs when the station's own
    report of its clock, which follows the configuration, names it. Without a report it does when
    a frame names it 10 s after the connection began or the station was configured, whatever
    came last: no frame of an older session is under way for so long.

    The session is eight bits drawn at random: one that has ended and runs again is another one of
    the same number, with an offset of its own. It began after the configuration, so a frame whose
    counter is further than the station can have counted since is still of the earlier one.
    """

    def __init__(self) -> None:
        self._offsets: dict[int, _Offset] = {}
        self._running: dict[int, int] = {}
        self._ended: set[int] = set()
        self._configured_us = -_NEVER_US
        self._version_due_us = 0
        self._report_due_us = 0
        self._asked_us: int | None = None
        self._answered = -_NEVER_US, 0  # which question, and when
        self._unsure: set[int] = set()

    def connected(self, at_us: int) -> None:
        """A new connection: within 1 s it can become clear that the running session ends."""
        self._asked_us = None
        self._version_due_us = at_us + VERSION_WAIT_US
        self._report_due_us = at_us + REPORT_WAIT_US

    def configured(self, at_us: int) -> None:
        """The station was sent a `router_config`: every session known so far is over."""
        self._running.clear()
        self._ended.update(self._offsets)
        self._configured_us = at_us
        self._report_due_us = at_us + REPORT_WAIT_US
        self.asked(at_us)

    def asked(self, at_us: int) -> None:
        """The station is asked for its clock; its next report answers the oldest question."""
        if self._asked_us is None:
            self._asked_us = at_us

    def report(self, xtime: int, arrived_us: int) -> None:
        """Learn from the station's answer to `getxtime`, which names the running session.

        It has one for each radio unit that it has.
        """
        if self._asked_us is not None:
            self._answered, self._asked_us = (self._asked_us, arrived_us), None
        asked_us, answered_us = self._answered
        after_us = asked_us if arrived_us == answered_us else -_NEVER_US
        if xtime <= 0:
            return
        self._run(xtime, arrived_us, after_us)
        self._version_due_us = 0
        self._report_due_us = _NEVER_US  # a frame cannot take back what the station said

    def sample(self, xtime: int, arrived_us: int) -> int | None:
        """Learn from a frame of `xtime` (0: not told) that the station told of at `arrived_us`.

        Returns when the frame ended on the server's clock; None if nobody can say.
        """
        if xtime <= 0:
            return None
        session = xtime >> _SESSION_SHIFT
        may_run = session not in self._ended or _unit(session) not in self._running
        known = self._offsets.get(session)
        if may_run and arrived_us >= self._report_due_us:
            self._run(xtime, arrived_us)
        else:
            self._learn(xtime, arrived_us)
        if known is not None and self._offsets[session].offset_us < known.offset_us - AHEAD_US:
            self._unsure.add(session)
        heard_us = self.lns_time_us(xtime)
        return heard_us if heard_us is not None and heard_us <= arrived_us else None

    def knows(self, xtime: int, at_us: int) -> bool:
        """Whether `xtime` belongs to the session that runs: only then can it be answered."""
        return at_us >= self._version_due_us and self.runs(xtime)

    def is_unsure(self, xtime: int) -> bool:
        """Whether only the station itself can tell what `xtime` means."""
        return not self.runs(xtime) or xtime >> _SESSION_SHIFT in self._unsure

    def runs(self, xtime: int) -> bool:
        """Whether `xtime` belongs to a session that is known to run."""
        return xtime >> _SESSION_SHIFT in self._running.values()

    def lns_time_us(self, xtime: int) -> int | None:
        """The moment of `xtime` on the server's clock; None for a session never heard of."""
        known = self._offsets.get(xtime >> _SESSION_SHIFT)
        if known is None or xtime <= 0:
            return None
        return (xtime & _COUNTER_MASK) + known.offset_us

    def _learn(self, xtime: int, arrived_us: int, least_us: int = -_NEVER_US) -> None:
        session = xtime >> _SESSION_SHIFT
        offset_us = arrived_us - (xtime & _COUNTER_MASK)
        known = self._offsets.pop(session, None)
        if known is None:
            known = _Offset(offset_us, arrived_us, least_us)
        elif self._is_better(offset_us, arrived_us, known):
            known = _Offset(offset_us, arrived_us, max(least_us, known.least_us))
        elif least_us > known.least_us:
            known = _Offset(known.offset_us, known.seen_us, least_us)
        self._offsets[session] = known
        if len(self._offsets) > _SESSIONS_MAX:
            oldest = next(iter(self._offsets))
            del self._offsets[oldest]
            self._ended.discard(oldest)
            self._unsure.discard(oldest)

    def _is_better(self, offset_us: int, arrived_us: int, known: _Offset) -> bool:
        if arrived_us < self._configured_us + REPORT_WAIT_US and offset_us < known.least_us:
            return False  # a frame of the earlier session of this number was under way
        return offset_us <= known.offset_us + _drift_us(arrived_us - known.seen_us)

    def _run(self, xtime: int, arrived_us: int, after_us: int = -_NEVER_US) -> None:
        """The session of `xtime` runs on its radio unit; every other one of that unit is over."""
        session = xtime >> _SESSION_SHIFT
        # It began after the configuration: no moment of it can have been before that, and what the
        # station shows not before it was asked.
        began_us = max(self._configured_us, after_us)
        least_us = began_us - (xtime & _COUNTER_MASK) - _drift_us(REPORT_WAIT_US)
        known = self._offsets.get(session)
        if known is not None and (session in self._ended or known.offset_us < least_us):
            del self._offsets[session]
        self._learn(xtime, arrived_us, least_us)
        unit = _unit(session)
        self._ended.update(other for other in self._offsets if _unit(other) == unit)
        self._unsure.discard(session)
        self._ended.discard(session)
        self._running[unit] = session


def _unit(session: int) -> int:
    return session >> (_UNIT_SHIFT - _SESSION_SHIFT)


def _drift_us(elapsed_us: int) -> int:
    return max(elapsed_us, 0) * DRIFT_PPM // 1_000_000
