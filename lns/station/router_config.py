"""What does a station have to be told before its radio runs?

Explicit channels, never together with `upchannels`; data rates and frequency range always, or the
station drops every uplink or downlink without a word. Source: Basics Station, `router_config`.
"""

from typing import Any

from lns.lorawan.airtime import DataRate, FskDataRate
from lns.lorawan.region import Region, StationRadio

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
    """[SF, kHz, only for downlinks] for each DR."""
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
