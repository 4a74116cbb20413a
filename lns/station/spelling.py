"""How does Basics Station, or a server it accepts, spell each message?

Key order and types are those of recorded Basics Station 2.0.6; the JSON is compact. What a station
has to be told before its radio runs: explicit channels, never together with `upchannels`; data
rates and frequency range always, or the station drops every uplink or downlink without a word.
Source: Basics Station, `router_config`.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from lns.lorawan.identifiers import Eui, eui_dashed, eui_id6
from lns.lorawan.region import DataRate, FskDataRate, Region, StationRadio
from lns.station.messages import NO_PORT, Dnmsg, UpInfo

_encode = msgspec.json.Encoder().encode
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


def router_info_text(router: Eui) -> str:
    """A station's question on `/router-info`."""
    return _text({"router": eui_id6(router)})


def router_info_answer_text(router: Eui, uri: str) -> str:
    """The answer on `/router-info`; `uri` has a port and a path, 127 characters at most."""
    return _text({"router": eui_id6(router), "muxs": "muxs-::0", "uri": uri})


def dnmsg_text(dnmsg: Dnmsg) -> str:
    """A downlink for a station; numbers are integers throughout (but MuxTime)."""
    fields: dict[str, Any] = {
        "msgtype": "dnmsg",
        "DevEui": eui_dashed(dnmsg.dev_eui),
        "dC": dnmsg.device_class,
        "diid": dnmsg.diid,
        "pdu": dnmsg.pdu.hex(),
        "RxDelay": dnmsg.rx_delay_s,
        "priority": dnmsg.priority,
    }
    if dnmsg.xtime:
        fields |= {"xtime": dnmsg.xtime, "rctx": dnmsg.rctx}
    if dnmsg.mux_time is not None:
        fields["MuxTime"] = dnmsg.mux_time
    if dnmsg.rx1 is not None:
        fields["RX1DR"], fields["RX1Freq"] = dnmsg.rx1
    if dnmsg.rx2 is not None:
        fields["RX2DR"], fields["RX2Freq"] = dnmsg.rx2
    return _text(fields)


def getxtime_text(mux_time: float | None = None) -> str:
    """A server asks a station for its clocks."""
    return _text({"msgtype": "getxtime"} | _mux_time(mux_time))


def timesync_answer_text(txtime: int, *, gpstime: int, mux_time: float) -> str:
    """A server tells a station the GPS time (µs since 1980-01-06)."""
    fields = {"msgtype": "timesync", "txtime": txtime, "gpstime": gpstime}
    return _text(fields | _mux_time(mux_time))


def router_config_text(region: Region, mux_time: float | None) -> str:
    """The `router_config` of a region as one message."""
    text = _router_config_text(region)
    return text if mux_time is None else f'{text[:-1]},"MuxTime":{_encode(mux_time).decode()}}}'


@cache  # there are a few regions, and none ever changes
def _router_config_text(region: Region) -> str:
    return _text(router_config(region))


def _mux_time(mux_time: float | None) -> dict[str, Any]:
    return {} if mux_time is None else {"MuxTime": mux_time}


def _text(fields: dict[str, Any]) -> str:
    return _encode(fields).decode()


def _hex(data: bytes) -> str:
    return data.hex().upper()


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


_DRS = 16
_UNDEFINED = (-1, 0, 0)
_FSK = (0, 0, 0)


def router_config(region: Region, *, mux_time: float | None = None) -> dict[str, Any]:
    """The `router_config` message for a region, as a JSON object.

    `mux_time`: seconds UTC as on the wire, None to leave it out.
    """
    config: dict[str, Any] = {
        "msgtype": "router_config",
        "region": region.name,
        "hwspec": "sx1301/1",
        "NetID": None,
        "JoinEui": None,
        "freq_range": list(region.freq_range_hz),
        "DRs": [list(row) for row in _data_rates(region)],
        "sx1301_conf": [_radio(region.station_radio)],
    }
    if mux_time is not None:
        config["MuxTime"] = mux_time
    return config


def _data_rates(region: Region) -> list[tuple[int, int, int]]:
    rows = [
        _row(data_rate, only_down=dr in region.downlink_only_drs)
        for dr, data_rate in enumerate(region.data_rates)
    ]
    return rows + [_UNDEFINED] * (_DRS - len(rows))


def _row(data_rate: DataRate | FskDataRate | None, *, only_down: bool) -> tuple[int, int, int]:
    if data_rate is None:
        return _UNDEFINED
    if isinstance(data_rate, FskDataRate):
        return _FSK
    return data_rate.sf, data_rate.bw_hz // 1000, int(only_down)


def _radio(radio: StationRadio) -> dict[str, Any]:
    number, offset_hz, data_rate = radio.standard
    return {
        "radio_0": {"enable": True, "freq": radio.centres_hz[0]},
        "radio_1": {"enable": True, "freq": radio.centres_hz[1]},
        "chan_FSK": {"enable": False} if radio.fsk is None else _modem(*radio.fsk),
        "chan_Lora_std": {
            **_modem(number, offset_hz),
            "bandwidth": data_rate.bw_hz,
            "spread_factor": data_rate.sf,
        },
        **{f"chan_multiSF_{n}": _modem(*modem) for n, modem in enumerate(radio.multi_sf)},
    }


def _modem(radio: int, offset_hz: int) -> dict[str, Any]:
    return {"enable": True, "radio": radio, "if": offset_hz}
