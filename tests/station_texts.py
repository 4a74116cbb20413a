"""How does Basics Station spell what it says, and what does it read in the texts of a server?

Key order and types are those of a recorded 2.0.6. What a server says is read as strictly as by the
station itself: one bad field spoils the message.
"""

import struct
from binascii import unhexlify
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct, field

from lns.lorawan.identifiers import Eui, eui_dashed
from lns.station.messages import (
    NO_PORT,
    Dnmsg,
    Ignored,
    Int64,
    Malformed,
    UpInfo,
    either,
    json_object,
    read_eui,
)

_HEAD = struct.Struct("<BiBH")
_MIC = struct.Struct("<i")
_JOIN = struct.Struct("<BQQHi")
_F_OPTS_LEN = 0x0F
_MHDR_RFU_AND_MAJOR = 0x1F
_DATA_BYTES_MIN = 12


def frame_text(
    phy: bytes, *, dr: int, freq_hz: int, upinfo: UpInfo, ref_time: float = 0.0
) -> str | None:
    """The message that a station makes of a frame; None where it stays silent.

    Silent: RFU or major bits set, too short, FOptsLen beyond the frame, a join-request that has not
    23 bytes, and downlinks (dndf, jacc), which no server asks for.
    """
    tail = _tail(dr, freq_hz, upinfo, ref_time)
    if not phy or len(phy) > 255 or phy[0] & _MHDR_RFU_AND_MAJOR:
        return None
    match phy[0] >> 5:
        case 0b000 if len(phy) == _JOIN.size:
            return _jreq_text(phy, tail)
        case 0b010 | 0b100 if len(phy) >= _DATA_BYTES_MIN:
            if _HEAD.size + (phy[5] & _F_OPTS_LEN) + _MIC.size <= len(phy):
                return _updf_text(phy, tail)
        case 0b111:
            return _propdf_text(phy, tail)
        case _:
            pass
    return None


def _updf_text(phy: bytes, tail: dict[str, Any]) -> str:
    m_hdr, dev_addr, f_ctrl, f_cnt = _HEAD.unpack_from(phy)
    port_at = _HEAD.size + (f_ctrl & _F_OPTS_LEN)
    mic_at = len(phy) - _MIC.size
    return _text(
        {
            "msgtype": "updf",
            "MHdr": m_hdr,
            "DevAddr": dev_addr,
            "FCtrl": f_ctrl,
            "FCnt": f_cnt,
            "FOpts": _hex(phy[_HEAD.size : port_at]),
            "FPort": phy[port_at] if port_at < mic_at else NO_PORT,
            "FRMPayload": _hex(phy[port_at + 1 : mic_at]),
            "MIC": _MIC.unpack_from(phy, mic_at)[0],
            **tail,
        }
    )


def _jreq_text(phy: bytes, tail: dict[str, Any]) -> str:
    m_hdr, join_eui, dev_eui, dev_nonce, mic = _JOIN.unpack(phy)
    return _text(
        {
            "msgtype": "jreq",
            "MHdr": m_hdr,
            "JoinEui": eui_dashed(Eui(f"{join_eui:016X}")),
            "DevEui": eui_dashed(Eui(f"{dev_eui:016X}")),
            "DevNonce": dev_nonce,
            "MIC": mic,
            **tail,
        }
    )


def _propdf_text(phy: bytes, tail: dict[str, Any]) -> str:
    return _text({"msgtype": "propdf", "FRMPayload": _hex(phy), **tail})


def _tail(dr: int, freq_hz: int, upinfo: UpInfo, ref_time: float) -> dict[str, Any]:
    return {
        "RefTime": round(ref_time, 6),
        "DR": dr,
        "Freq": freq_hz,
        "upinfo": {
            "rctx": upinfo.rctx,
            "xtime": upinfo.xtime,
            "gpstime": upinfo.gpstime,
            "fts": upinfo.fts,
            "rssi": round(upinfo.rssi_dbm),
            "snr": _number(upinfo.snr_db),
            "rxtime": round(upinfo.rxtime, 6),
        },
    }


def version_text(station: str, *, features: str = "") -> str:
    """The first message of a station on its connection."""
    return _text(
        {
            "msgtype": "version",
            "station": station,
            "firmware": None,
            "package": None,
            "model": "linux",
            "protocol": 2,
            "features": features,
        }
    )


def dntxed_text(
    dnmsg: Dnmsg, *, dr: int, freq_hz: int, xtime: int, txtime: float, rctx: int = 0
) -> str:
    """A station tells that a downlink is on the air; `txtime`: its monotonic clock in seconds."""
    return _text(
        {
            "msgtype": "dntxed",
            "seqno": dnmsg.diid,
            "diid": dnmsg.diid,
            "DR": dr,
            "Freq": freq_hz,
            "DevEui": eui_dashed(dnmsg.dev_eui),
            "rctx": rctx,
            "xtime": xtime,
            "txtime": round(txtime, 6),
            "gpstime": 0,
        }
    )


def xtime_report_text(xtimes: Sequence[int], *, mux_time: float, uptime_us: int) -> str:
    """A station's answer to `getxtime`: its clocks, one per radio unit, padded to four."""
    return _text(
        {
            "msgtype": "getxtime",
            "MuxTime": round(mux_time, 6),
            "ustime": uptime_us,
            "UTCtime": round(mux_time * 1_000_000),
            "xtimes": [*xtimes, *[0] * (4 - len(xtimes))],
        }
    )


def _hex(data: bytes) -> str:
    return data.hex().upper()


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _text(fields: dict[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()


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
