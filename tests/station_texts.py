"""How does Basics Station spell what it says, and what does it read in the texts of a server?

It says what the station of the bench says (`bench.verdict.wire`), in the types of the server. What
a server says is read as strictly as by the station itself: one bad field spoils the message.
"""

from binascii import unhexlify
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct, field

from bench.verdict import wire
from lns.station.messages import (
    Dnmsg,
    Ignored,
    Int64,
    Malformed,
    UpInfo,
    either,
    json_object,
    read_eui,
)


def frame_text(
    phy: bytes, *, dr: int, freq_hz: int, upinfo: UpInfo, ref_time: float = 0.0
) -> str | None:
    """The message that a station makes of a frame; None where it stays silent."""
    heard = wire.Upinfo(
        rctx=upinfo.rctx, xtime=upinfo.xtime, gpstime=upinfo.gpstime, rxtime=upinfo.rxtime,
        rssi_dbm=round(upinfo.rssi_dbm), snr_db=upinfo.snr_db,
    )  # fmt: skip
    return wire.frame_told(phy, dr=dr, freq_hz=freq_hz, heard=heard, ref_time=ref_time)


def version_text(station: str, *, features: str = "") -> str:
    """The first message of a station on its connection."""
    return wire.version_told(station=station, firmware=None, features=features.split())


def dntxed_text(
    dnmsg: Dnmsg, *, dr: int, freq_hz: int, xtime: int, txtime: float, rctx: int = 0
) -> str:
    """A station tells that a downlink is on the air; `txtime`: its monotonic clock in seconds."""
    order = wire.Wanted(
        dev_eui=dnmsg.dev_eui, device_class=dnmsg.device_class, diid=dnmsg.diid, pdu=dnmsg.pdu,
        rx_delay_s=0, rx1=None, rx2=(dr, freq_hz), priority=0, xtime=xtime, rctx=rctx,
    )  # fmt: skip
    up_us = round(txtime * 1_000_000)
    told = wire.sent_told(order, dr=dr, freq_hz=freq_hz, xtime=xtime, up_us=up_us, gpstime=0)
    assert told is not None
    return told


def xtime_report_text(xtime: int, *, mux_time: float, uptime_us: int) -> str:
    """A station's answer to `getxtime`: the clock of its only radio unit."""
    utc_us = round(mux_time * 1_000_000)
    return wire.clocks_told(xtime, mux_time=mux_time, up_us=uptime_us, utc_us=utc_us)


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
        reader = _DOWN_READERS.get(msgtype)
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


_DOWN_READERS: dict[str, Callable[[dict[str, Any]], DownMessage]] = {
    "router_config": RouterConfig,
    "dnmsg": _dnmsg,
    "timesync": lambda fields: msgspec.convert(fields, TimesyncAnswer),
    "getxtime": lambda fields: msgspec.convert(fields, GetXtime),
}
