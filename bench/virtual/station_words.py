"""How does a station spell what it says, and what does it understand of its network server?

As Basics Station 2.0.6 was recorded. Strict as it is: a number that is no integer, or half a
receive window, spoils the whole message, which then is None.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.virtual.lorawan.air_interface import Kind, kind_of, read_data

NO_PORT = -1
UNITS = 4
CLASS_A, CLASS_B, CLASS_C = 0, 1, 2
_JOIN_REQUEST = 23
_PDU_MAX = 255

Tuned = tuple[int, int]
"""Data rate and frequency (Hz)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """How a frame came: antenna, clocks, strength. Times of day in seconds, `gpstime` in µs."""

    rctx: int
    xtime: int
    rssi_dbm: int
    snr_db: float
    gpstime: int
    rxtime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A downlink that the server wants (`dnmsg`); RX1 is `rx_delay_s` after `xtime`."""

    dev_eui: str
    device_class: int
    diid: int
    pdu: bytes
    rx_delay_s: int
    rx1: Tuned | None
    rx2: Tuned | None
    priority: int
    xtime: int
    rctx: int


def frame_told(phy: bytes, *, dr: int, freq_hz: int, heard: Heard, ref_time: float) -> str | None:
    """The message of a frame; None for what a station keeps to itself.

    That is what is no frame, and what servers send: dndf and jacc are of no use to anybody.
    """
    kind = kind_of(phy)
    message: dict[str, Any]
    if kind is Kind.PROPRIETARY:
        message = {"msgtype": "propdf", "FRMPayload": phy.hex().upper()}
    elif kind is Kind.JOIN_REQUEST and len(phy) == _JOIN_REQUEST:
        message = {
            "msgtype": "jreq",
            "MHdr": phy[0],
            "JoinEui": _dashed(phy[1:9]),
            "DevEui": _dashed(phy[9:17]),
            "DevNonce": int.from_bytes(phy[17:19], "little"),
            "MIC": _signed(phy[19:]),
        }
    elif kind in (Kind.UNCONFIRMED_UP, Kind.CONFIRMED_UP) and (frame := read_data(phy)):
        message = {
            "msgtype": "updf",
            "MHdr": phy[0],
            "DevAddr": _signed(phy[1:5]),
            "FCtrl": phy[5],
            "FCnt": frame.f_cnt,
            "FOpts": frame.f_opts.hex().upper(),
            "FPort": NO_PORT if frame.f_port is None else frame.f_port,
            "FRMPayload": frame.encrypted.hex().upper(),
            "MIC": _signed(frame.mic),
        }
    else:
        return None
    upinfo = {
        "rctx": heard.rctx,
        "xtime": heard.xtime,
        "gpstime": heard.gpstime,
        "fts": -1,
        "rssi": heard.rssi_dbm,
        "snr": int(heard.snr_db) if heard.snr_db == int(heard.snr_db) else heard.snr_db,
        "rxtime": round(heard.rxtime, 6),
    }
    tail = {"RefTime": round(ref_time, 6), "DR": dr, "Freq": freq_hz, "upinfo": upinfo}
    return _text({**message, **tail})


def version_told(*, station: str, firmware: str, features: Sequence[str]) -> str:
    """What a station says first; firmware and package are the same line of its `version.txt`."""
    return _text(
        {
            "msgtype": "version",
            "station": station,
            "firmware": firmware,
            "package": firmware,
            "model": "linux",
            "protocol": 2,
            "features": " ".join(features),
        }
    )


def sent_told(
    wanted: Wanted, *, dr: int, freq_hz: int, xtime: int, up_us: int, gpstime: int
) -> str | None:
    """That a downlink is on the air since `xtime`; None for a DevEUI of zeros."""
    if not int(wanted.dev_eui, 16):
        return None
    return _text(
        {
            "msgtype": "dntxed",
            "seqno": wanted.diid,
            "diid": wanted.diid,
            "DR": dr,
            "Freq": freq_hz,
            "DevEui": _dashed(bytes.fromhex(wanted.dev_eui)[::-1]),
            "rctx": wanted.rctx,
            "xtime": xtime,
            "txtime": up_us / 1_000_000,
            "gpstime": gpstime,
        }
    )


def clocks_told(xtime: int, *, mux_time: float, up_us: int, utc_us: int) -> str:
    """The answer to `getxtime`: the clock of each radio unit, 0 for one that is not there.

    `ustime` is the monotonic clock of the host, `UTCtime` its time of day, both in µs.
    """
    xtimes = [xtime, *[0] * (UNITS - 1)]
    message = {"msgtype": "getxtime", "MuxTime": round(mux_time, 6), "ustime": up_us}
    return _text({**message, "UTCtime": utc_us, "xtimes": xtimes})


def pulse_told(up_us: int) -> str:
    """The question which second a pulse of the receiver began; the monotonic clock in µs."""
    return _text({"msgtype": "timesync", "txtime": up_us})


def understood(text: str) -> Mapping[str, Any]:
    """The fields of a message of the server; none of what is no JSON object."""
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def wanted(fields: Mapping[str, Any]) -> Wanted | None:
    """The downlink in a `dnmsg`; None if a field of it is missing or wrong."""
    try:
        order = Wanted(
            dev_eui=_eui(fields.get("DevEui", fields.get("DevEUI"))),
            device_class=_whole(fields["dC"], CLASS_A, CLASS_C),
            diid=_whole(fields.get("diid", fields.get("seqno"))),
            pdu=bytes.fromhex(fields["pdu"]),
            rx_delay_s=_whole(fields.get("RxDelay", 1), 0, 15),
            rx1=_window(fields, "RX1"),
            rx2=_window(fields, "RX2"),
            priority=_whole(fields.get("priority", 0), 0, 255),
            xtime=_whole(fields.get("xtime", 0)),
            rctx=_whole(fields.get("rctx", 0)),
        )
    except (KeyError, TypeError, ValueError):
        return None
    if (order.rx1 is None and order.rx2 is None) or len(order.pdu) > _PDU_MAX:
        return None
    return order


def _window(fields: Mapping[str, Any], name: str) -> Tuned | None:
    dr, freq_hz = fields.get(f"{name}DR"), fields.get(f"{name}Freq")
    if dr is None and freq_hz is None:
        return None
    return _whole(dr, 0, 15), _whole(freq_hz, 1)


def id6(eui: str) -> str:
    """An EUI as a station writes its own: 16-bit groups, zeros left out once (uj.c)."""
    groups = ":".join(f"{int(eui[at : at + 4], 16):x}" for at in range(0, 16, 4))
    for zeros in ("0:0:0", "0:0"):
        if groups.startswith(f"{zeros}:"):
            return "::" + groups.removeprefix(f"{zeros}:")
        if groups.endswith(f":{zeros}"):
            return groups.removesuffix(f":{zeros}") + "::"
    return groups.replace(":0:0:", "::")


def _whole(value: object, low: int | None = None, high: int | None = None) -> int:
    """An integer as the station's decoder takes one; ValueError for anything else."""
    if type(value) is not int or (low is not None and value < low):
        raise ValueError(f"{value!r}")
    if high is not None and value > high:
        raise ValueError(f"{value!r}")
    return value


def _eui(value: object) -> str:
    if type(value) is int:
        return f"{value:016X}"
    digits = str(value).replace("-", "").upper()
    if len(digits) != 16 or int(digits, 16) < 0:
        raise ValueError(f"{value!r}")
    return digits


def _dashed(octets: bytes) -> str:
    return octets[::-1].hex("-").upper()


def _signed(octets: bytes) -> int:
    return int.from_bytes(octets, "little", signed=True)


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def _text(fields: dict[str, Any]) -> str:
    return _ENCODER.encode(fields)
