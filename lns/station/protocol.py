"""Which message follows which between a station and a network server?

The server's side of one connection, without input or output: texts in by `receive_text`, what they
mean out of `events_received`, texts to send out of `texts_to_send`. Nothing that a station sends
raises. A connection has no other state than what this object holds; a new one starts afresh.
A remote shell or a command (`rmtsh`, `runcmd`) is never asked for, and nothing configures it.
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
