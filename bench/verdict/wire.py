"""What do the texts between stations and network servers say, without the server's code?

Source: Basics Station, LNS protocol. First how the bench reads a text that any station or server
has written; then how a station spells its own, as Basics Station 2.0.6 was recorded. What it
understands it reads as strictly as that one: a number that is no integer, or half a receive window,
spoils the whole message, which then is None.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from math import isfinite
from typing import Any

import msgspec

from bench.virtual.lorawan.air_interface import F_OPTS_MAX, DataFrame, Kind, kind_of, read_data
from bench.virtual.lorawan.join_frames import JoinRequest, read_join_request

_RANGES = {
    "MHdr": (0, 0xFF), "FCtrl": (0, 0xFF), "FCnt": (0, 0xFFFF), "FPort": (-1, 0xFF),
    "DevNonce": (0, 0xFFFF), "DevAddr": (-(1 << 31), (1 << 32) - 1),
    "MIC": (-(1 << 31), (1 << 32) - 1), "DR": (0, 15), "Freq": (1, (1 << 32) - 1),
}  # fmt: skip
_INT64 = (-(1 << 63), (1 << 63) - 1)
_INFO_RANGES = {"rctx": _INT64, "xtime": (0, (1 << 63) - 1), "gpstime": _INT64, "fts": _INT64}
"""The least and the greatest value of each whole number; words may be signed or not."""
_TOLD_RANGES = {
    "DR": _RANGES["DR"], "Freq": _RANGES["Freq"], "xtime": _INFO_RANGES["xtime"],
    "xtimes": _INFO_RANGES["xtime"], "rctx": _INT64, "diid": _INT64, "seqno": _INT64,
}  # fmt: skip
"""The same for messages that are no receptions."""
_NUMBERS = ("rssi", "snr", "rxtime", "RefTime")
RECEPTIONS = ("updf", "jreq")
"""The messages that stand for a frame that was heard."""
_TEXTS_MAX = 2048
_NEEDED = {
    "version": ("station",),
    "dntxed": ("diid|seqno", "DevEui|DevEUI", "DR", "Freq"),
    "timesync": ("txtime",),
    "getxtime": ("xtimes",),
    "propdf": ("FRMPayload", "DR", "Freq"),
}
"""What each message of a station that is no reception has at least, in either spelling."""
_PLAIN = {
    "dntxed": frozenset("diid seqno DR Freq rctx xtime gpstime".split()),
    "timesync": frozenset({"txtime"}),
    "getxtime": frozenset({"xtimes"}),
}
"""The whole numbers of messages that have little else but who they are of."""
_SECONDS = ("txtime", "MuxTime")
_GPS_EPOCH = datetime(1980, 1, 6, tzinfo=UTC)
_LEAP_US = 18_000_000
"""GPS knows no leap seconds: since 2017 it is so far ahead of UTC."""
_DASHED = re.compile(r"([0-9A-Fa-f]{2}[-:]?){7}[0-9A-Fa-f]{2}")
_ID6 = re.compile(r"[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){1,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """A frame as a station has told it; `injected`: the bench spoke for it, at any later time.

    `gpstime`: when it ended, in µs of GPS time, 0 where the station does not know.
    """

    station: str
    t_us: int
    held_us: int
    phy: bytes
    frame: DataFrame | JoinRequest
    xtime: int
    rctx: int
    dr: int
    freq_hz: int
    rssi: float
    snr: float
    gpstime: int = 0
    injected: bool = False

    @property
    def frame_id(self) -> str:
        return self.frame.frame_id


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _finite(word: str) -> float:
    number = float(word)
    return number if isfinite(number) else _no_number(word)


_UNREADABLE = object()
_decode = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite).decode


@lru_cache(maxsize=_TEXTS_MAX)
def _read(text: str) -> object:
    """What a JSON text says, for whoever reads it only; `_UNREADABLE` where it is none.

    Each text is read by the tap, the evidence and the inspection of its case.
    """
    try:
        found: object = _decode(text)
        if "\\ud" in text.lower():
            json.dumps(found, ensure_ascii=False).encode()  # half a character is none
    except (ValueError, RecursionError):
        return _UNREADABLE
    return found


def json_of(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, not to be changed; None if it is none."""
    found = _read(text)
    return found if isinstance(found, dict) else None


def is_reception(text: str) -> bool:
    """Whether a text of a station stands for a frame that it heard, readable or not.

    It does if it is no JSON at all, or an object that says so.
    """
    found = _read(text)
    if found is _UNREADABLE:
        return True
    return isinstance(found, dict) and found.get("msgtype") in RECEPTIONS


@lru_cache(maxsize=_TEXTS_MAX)
def unreadable_type(text: str) -> str | None:
    """The msgtype of a text that is no reception and lacks what its kind must have; else None.

    "" for JSON that is no object. Of odd values only whole numbers out of their range are judged.
    """
    found = _read(text)
    if found is _UNREADABLE:
        return None
    if not isinstance(found, dict):
        return ""
    msgtype = found.get("msgtype")
    due = _NEEDED.get(msgtype) if isinstance(msgtype, str) else None
    lacks = [names for names in due or () if not any(name in found for name in names.split("|"))]
    is_odd = due is not None and any(
        type(number) is int and not least <= number <= most
        for name, (least, most) in _TOLD_RANGES.items()
        for number in (found[name] if isinstance(found.get(name), list) else [found.get(name)])
    )
    return str(msgtype) if lacks or is_odd else None


def is_plain(text: str) -> bool:
    """Whether everybody can read this text of a station: known fields and whole numbers in range.

    Not whether the rest of what a station may say can be read.
    """
    found = json_of(text)
    msgtype = found.get("msgtype") if found is not None else None
    if found is None or not isinstance(msgtype, str) or unreadable_type(text) is not None:
        return False
    numbers = _PLAIN.get(msgtype, frozenset())
    for name, value in found.items():
        if name in numbers:
            all_of = value if isinstance(value, list) and name == "xtimes" else [value]
            if not all(type(one) is int and _INT64[0] <= one <= _INT64[1] for one in all_of):
                return False
        elif name in ("DevEui", "DevEUI"):
            if eui_of(value) is None:
                return False
        elif name != "msgtype" and not (name in _SECONDS and type(value) in (int, float)):
            return False
    return bool(numbers)


def gps_us(at: datetime) -> int:
    """GPS time in µs, which is UTC without leap seconds."""
    return (at - _GPS_EPOCH) // timedelta(microseconds=1) + _LEAP_US


def eui_of(spelled: object) -> str | None:
    """16 upper-case digits from any spelling that a station reads; None if it is no EUI."""
    if type(spelled) is int and 0 <= spelled < 1 << 64:
        return f"{spelled:016X}"
    if not isinstance(spelled, str):
        return None
    if _DASHED.fullmatch(spelled):
        return re.sub("[-:]", "", spelled).upper()
    if not _ID6.fullmatch(spelled):
        return None
    head, gap, tail = spelled.partition("::")
    front, back = (part.split(":") if part else [] for part in (head, tail))
    if not all(front + back):
        return None
    if gap:  # for one group at least
        front += ["0"] * max(1, 4 - len(front) - len(back))
    groups = front + back
    return "".join(group.zfill(4) for group in groups).upper() if len(groups) == 4 else None


def uplink_of(
    station: str, t_us: int, held_us: int, text: str, *, injected: bool = False
) -> Uplink | None:
    """The reception that a station tells; None for anything else, or what cannot be read."""
    told = reception_in(text)
    return told and replace(told, station=station, t_us=t_us, held_us=held_us, injected=injected)


@lru_cache(maxsize=_TEXTS_MAX)
def reception_in(text: str) -> Uplink | None:
    """The same as the text alone tells it: through no station, at no time."""
    fields = json_of(text)
    if fields is None or fields.get("msgtype") not in RECEPTIONS:
        return None
    try:
        info = fields.get("upinfo", {})
        if not (_are_fit(fields, _RANGES) and _are_fit(info, _INFO_RANGES)):
            return None
        phy = _join(fields) if fields["msgtype"] == "jreq" else _data(fields)
        frame = read_join_request(phy) if fields["msgtype"] == "jreq" else read_data(phy)
        if frame is None:
            return None
        return Uplink(
            station="", t_us=0, held_us=0, phy=phy, frame=frame,
            xtime=int(info.get("xtime", 0)), rctx=int(info.get("rctx", 0)),
            dr=int(fields["DR"]), freq_hz=int(fields["Freq"]),
            rssi=float(info.get("rssi", 0)), snr=float(info.get("snr", 0)),
            gpstime=int(info.get("gpstime", 0)),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return None


def _are_fit(fields: dict[str, Any], ranges: dict[str, tuple[int, int]]) -> bool:
    for name, (least, most) in ranges.items():
        if name in fields and not (type(fields[name]) is int and least <= fields[name] <= most):
            return False
    return all(type(fields[name]) in (int, float) for name in _NUMBERS if name in fields)


# | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
def _data(fields: dict[str, Any]) -> bytes:
    port, f_opts = fields["FPort"], bytes.fromhex(fields["FOpts"])
    if fields["MHdr"] not in (Kind.UNCONFIRMED_UP << 5, Kind.CONFIRMED_UP << 5):
        raise ValueError("no data uplink")
    if len(f_opts) != fields["FCtrl"] & F_OPTS_MAX or (port < 0 and fields["FRMPayload"]):
        raise ValueError("no frame has these parts")
    if port == 0 and f_opts:
        raise ValueError("commands in two places: whoever gets it ignores the frame")
    return (
        bytes([fields["MHdr"]])
        + _little_endian(fields["DevAddr"], 4)
        + bytes([fields["FCtrl"]])
        + _little_endian(fields["FCnt"], 2)
        + f_opts
        + (bytes([port]) if port >= 0 else b"")
        + bytes.fromhex(fields["FRMPayload"])
        + _little_endian(fields["MIC"], 4)
    )


# | MHDR 1 | JoinEUI 8 | DevEUI 8 | DevNonce 2 | MIC 4 |
def _join(fields: dict[str, Any]) -> bytes:
    euis = [eui_of(fields.get(f"{name}Eui", fields.get(f"{name}EUI"))) for name in ("Join", "Dev")]
    return (
        bytes([fields["MHdr"]])
        + b"".join(bytes.fromhex(eui or "")[::-1] for eui in euis)
        + _little_endian(fields["DevNonce"], 2)
        + _little_endian(fields["MIC"], 4)
    )


def _little_endian(number: int, octets: int) -> bytes:
    return (number % (1 << 8 * octets)).to_bytes(octets, "little")


# What a station says, and what it understands.
NO_PORT = -1
UNITS = 4


CLASS_A, CLASS_B, CLASS_C = 0, 1, 2


_JOIN_REQUEST = 23
_PDU_MAX = 255


Tuned = tuple[int, int]
"""Data rate and frequency (Hz)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upinfo:
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


def frame_told(phy: bytes, *, dr: int, freq_hz: int, heard: Upinfo, ref_time: float) -> str | None:
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


def version_told(*, station: str, firmware: str | None, features: Sequence[str]) -> str:
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
    return json_of(text) or {}


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


_encode = msgspec.json.Encoder().encode


def _text(fields: dict[str, Any]) -> str:
    return _encode(fields).decode()


# What stations say, as Basics Station 2.0.6 spells it. Frames have the keys 00…0F and 10…1F.
_INFO = Upinfo(rctx=1, xtime=7 << 48 | 99, rssi_dbm=-131, snr_db=-7.25, gpstime=12, rxtime=3.5)
_HEARD = (
    ',"RefTime":1.25,"DR":7,"Freq":868800000,"upinfo":{"rctx":1,"xtime":1970324836974691,'
    '"gpstime":12,"fts":-1,"rssi":-131,"snr":-7.25,"rxtime":3.5}}'
)
_FRAMES = {
    "80cdab00fea0030200a2d8da68ed": (
        '{"msgtype":"updf","MHdr":128,"DevAddr":-33510451,"FCtrl":160,"FCnt":515,"FOpts":"",'
        '"FPort":0,"FRMPayload":"A2","MIC":-311895336'
    ),
    "40f17dbe49c53412030706ff1f75bea7ad": (
        '{"msgtype":"updf","MHdr":64,"DevAddr":1237220849,"FCtrl":197,"FCnt":4660,'
        '"FOpts":"030706FF1F","FPort":-1,"FRMPayload":"","MIC":-1381515659'
    ),
    "00000000d07ed5b3701e6fedf57ceeaf003412a577f0e4": (
        '{"msgtype":"jreq","MHdr":0,"JoinEui":"70-B3-D5-7E-D0-00-00-00",'
        '"DevEui":"00-AF-EE-7C-F5-ED-6F-1E","DevNonce":4660,"MIC":-454002779'
    ),
}
_ORDER = Wanted(
    dev_eui="00AFEE7CF5ED6F1E", device_class=CLASS_A, diid=300, pdu=b"", rx_delay_s=1, rx1=None,
    rx2=(0, 869_525_000), priority=0, xtime=77, rctx=1,
)  # fmt: skip
_SENT = (
    '{"msgtype":"dntxed","seqno":300,"diid":300,"DR":3,"Freq":868100000,'
    '"DevEui":"00-AF-EE-7C-F5-ED-6F-1E","rctx":1,"xtime":5000077,"txtime":1.5,"gpstime":9}'
)
_CLOCKS = '{"msgtype":"getxtime","MuxTime":1.5,"ustime":7,"UTCtime":8,"xtimes":[99,0,0,0]}'


@cache
def misspelt() -> tuple[tuple[str, str, str], ...]:
    """What stations in software would say otherwise than real ones: what, as it is known, so."""
    said = [
        (f"text of {phy}", head + _HEARD, frame_told(
            bytes.fromhex(phy), dr=7, freq_hz=868_800_000, heard=_INFO, ref_time=1.25))
        for phy, head in _FRAMES.items()
    ]  # fmt: skip
    sent = sent_told(_ORDER, dr=3, freq_hz=868_100_000, xtime=5_000_077, up_us=1_500_000, gpstime=9)
    clocks = clocks_told(99, mux_time=1.5, up_us=7, utc_us=8)
    said += [("text of a downlink that is sent", _SENT, sent)]
    said += [("text of clocks", _CLOCKS, clocks)]
    return tuple((what, due, str(seen)) for what, due, seen in said if due != seen)
