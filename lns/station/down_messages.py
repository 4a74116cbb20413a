"""What does a text message from a network server say to a station?

As strict as the station itself: one bad field spoils the whole message (Basics Station, uj.c), and
that is a `Malformed`, never an exception. Source: Basics Station, s2e.c.
"""

from binascii import unhexlify
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from lns.lorawan.identifiers import Eui
from lns.station.json_fields import (
    U8,
    Dr,
    FreqHz,
    Int64,
    Malformed,
    Xtime,
    either,
    json_object,
    read_eui,
)
from lns.station.up_messages import Ignored

RxDelay = Annotated[int, Meta(ge=0, le=15)]
CLASS_A, CLASS_B, CLASS_C = 0, 1, 2


class Dnmsg(Struct, frozen=True, kw_only=True):
    """A downlink for a station to send.

    `device_class` 0 = A, 1 = B, 2 = C. RX1 starts `rx_delay_s` after `xtime` (the value of the
    uplink, unchanged), RX2 one second later. Each window is a pair of data rate and frequency, both
    or none. `diid` comes back in `dntxed`; nothing else tells that it was sent.
    """

    dev_eui: Eui = field(name="DevEui")
    device_class: Annotated[int, Meta(ge=0, le=2)] = field(default=CLASS_A, name="dC")
    diid: Int64
    pdu: bytes
    rx_delay_s: RxDelay = field(default=1, name="RxDelay")
    rx1_dr: Dr | None = field(default=None, name="RX1DR")
    rx1_freq_hz: FreqHz | None = field(default=None, name="RX1Freq")
    rx2_dr: Dr | None = field(default=None, name="RX2DR")
    rx2_freq_hz: FreqHz | None = field(default=None, name="RX2Freq")
    priority: U8 = 0
    xtime: Xtime = 0
    rctx: Int64 = 0
    mux_time: float | None = field(default=None, name="MuxTime")

    @property
    def rx1(self) -> tuple[int, int] | None:
        """Data rate and frequency (Hz) of RX1, None without one."""
        return _pair(self.rx1_dr, self.rx1_freq_hz)

    @property
    def rx2(self) -> tuple[int, int] | None:
        """Data rate and frequency (Hz) of RX2, None without one."""
        return _pair(self.rx2_dr, self.rx2_freq_hz)


@dataclass(frozen=True, slots=True)
class RouterInfoAnswer:
    """Where a station finds its network server; `uri` None or an `error` is a rejection."""

    uri: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """The channel plan and the rest of `router_config`, as its JSON object."""

    fields: dict[str, Any]


class TimesyncAnswer(Struct, frozen=True):
    """The GPS time in µs since 1980-01-06 for a station that asked (`txtime` echoed)."""

    gpstime: Int64
    txtime: Int64 = 0
    mux_time: float | None = field(default=None, name="MuxTime")


class GetXtime(Struct, frozen=True):
    """A server asks for a station's clocks."""

    mux_time: float | None = field(default=None, name="MuxTime")


DownMessage = (
    RouterInfoAnswer | RouterConfig | Dnmsg | TimesyncAnswer | GetXtime | Ignored | Malformed
)


def parse_down(text: str) -> DownMessage:
    """The message of a network server; never raises."""
    fields = json_object(text)
    if isinstance(fields, Malformed):
        return fields
    msgtype = fields.get("msgtype", "")
    if not isinstance(msgtype, str):
        return Ignored("")
    try:
        if "msgtype" not in fields and ("uri" in fields or "error" in fields):
            return _router_info_answer(fields)
        reader = _READERS.get(msgtype)
        return Ignored(msgtype) if reader is None else reader(fields)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        return Malformed(f"{msgtype}: {error}", msgtype)


def _router_info_answer(fields: dict[str, Any]) -> RouterInfoAnswer:
    uri, error = fields.get("uri"), fields.get("error")
    if not isinstance(uri, str | None) or not isinstance(error, str | None):
        raise ValueError("uri and error are texts")
    return RouterInfoAnswer(uri, error)


def _dnmsg(fields: dict[str, Any]) -> Dnmsg:
    if "dC" not in fields:
        raise KeyError("dC")
    read = {
        **fields,
        "DevEui": read_eui(either(fields, "DevEui", "DevEUI")),
        "diid": either(fields, "diid", "seqno"),
        "pdu": unhexlify(fields["pdu"]),
    }
    dnmsg = msgspec.convert(read, Dnmsg)
    # Both are read: half a pair spoils the message also where the other window is whole.
    if (dnmsg.rx1, dnmsg.rx2) == (None, None):
        raise ValueError("no receive window")
    if len(dnmsg.pdu) > 255:
        raise ValueError("longer than a frame can be")
    return dnmsg


def _pair(dr: int | None, freq_hz: int | None) -> tuple[int, int] | None:
    """Both or none; ValueError for half a pair."""
    if dr is None and freq_hz is None:
        return None
    if dr is None or freq_hz is None:
        raise ValueError("a receive window needs both its data rate and its frequency")
    return dr, freq_hz


_READERS: dict[str, Callable[[dict[str, Any]], DownMessage]] = {
    "router_config": RouterConfig,
    "dnmsg": _dnmsg,
    "timesync": lambda fields: msgspec.convert(fields, TimesyncAnswer),
    "getxtime": lambda fields: msgspec.convert(fields, GetXtime),
}
