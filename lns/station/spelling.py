"""How does a server that Basics Station accepts spell each message?

Key order and types are those that were recorded with Basics Station 2.0.6; the JSON is compact.
What a station has to be told before its radio runs: explicit channels, never together with
`upchannels`; data rates and frequency range always, or the station drops every uplink or downlink
without a word. Source: Basics Station, `router_config`.
"""

from functools import cache
from typing import Any

import msgspec

from lns.lorawan.identifiers import Eui, eui_dashed, eui_id6
from lns.lorawan.region import DataRate, FskDataRate, Region, StationRadio
from lns.station.messages import Dnmsg

_encode = msgspec.json.Encoder().encode


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
