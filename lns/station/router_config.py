"""What does a station have to be told before its radio runs?

Explicit channels, never together with `upchannels`; data rates and frequency range always, or the
station drops every uplink or downlink without a word. Source: Basics Station, `router_config`.
"""

from typing import Any

from lns.lorawan.region import Region


def router_config(region: Region, *, mux_time: float | None = None) -> dict[str, Any]:
    """The `router_config` message for a region, as a JSON object.

    `mux_time`: seconds UTC as on the wire, None to leave it out. US915 is sub-band 2. ValueError
    for a region without a channel plan here.
    """
    config: dict[str, Any]
    match region.name:
        case "EU868":
            config = _eu868()
        case "US915":
            config = _us915_sub_band_2()
        case _:
            raise ValueError(f"no channel plan for region {region.name!r}")
    if mux_time is not None:
        config["MuxTime"] = mux_time
    return config


def listens_at_hz(region: Region) -> tuple[int, ...]:
    """The 125 kHz channels on which stations of a region are told to listen."""
    [radios] = router_config(region)["sx1301_conf"]
    modems = (radios[f"chan_multiSF_{number}"] for number in range(8))
    return tuple(radios[f"radio_{modem['radio']}"]["freq"] + modem["if"] for modem in modems)


def _eu868() -> dict[str, Any]:
    radio = {
        "radio_0": {"enable": True, "freq": 867_500_000},
        "radio_1": {"enable": True, "freq": 868_500_000},
        "chan_FSK": {"enable": True, "radio": 1, "if": 300_000},
        "chan_Lora_std": _standard(1, -200_000, 250_000, 7),
        **_multi_sf((1, -400_000), (1, -200_000), (1, 0)),
        **_multi_sf((0, -400_000), (0, -200_000), (0, 0), (0, 200_000), (0, 400_000), first=3),
    }
    drs = [[12, 125, 0], [11, 125, 0], [10, 125, 0], [9, 125, 0], [8, 125, 0], [7, 125, 0]]
    drs += [[7, 250, 0], [0, 0, 0]]
    return _config("EU868", [863_000_000, 870_000_000], drs, radio)


def _us915_sub_band_2() -> dict[str, Any]:
    radio = {
        "radio_0": {"enable": True, "freq": 904_300_000},
        "radio_1": {"enable": True, "freq": 905_000_000},
        "chan_FSK": {"enable": False},
        "chan_Lora_std": _standard(0, 300_000, 500_000, 8),
        **_multi_sf((0, -400_000), (0, -200_000), (0, 0), (0, 200_000)),
        **_multi_sf((1, -300_000), (1, -100_000), (1, 100_000), (1, 300_000), first=4),
    }
    drs = [[10, 125, 0], [9, 125, 0], [8, 125, 0], [7, 125, 0], [8, 500, 0], *[[-1, 0, 0]] * 3]
    drs += [[sf, 500, 1] for sf in (12, 11, 10, 9, 8, 7)]
    return _config("US915", [902_000_000, 928_000_000], drs, radio)


def _config(
    region: str, freq_range: list[int], drs: list[list[int]], radio: dict[str, Any]
) -> dict[str, Any]:
    undefined = [[-1, 0, 0] for _ in range(16 - len(drs))]
    return {
        "msgtype": "router_config",
        "region": region,
        "hwspec": "sx1301/1",
        "NetID": None,
        "JoinEui": None,
        "freq_range": freq_range,
        "DRs": [list(dr) for dr in drs] + undefined,
        "sx1301_conf": [radio],
    }


def _standard(radio: int, offset_hz: int, bandwidth_hz: int, sf: int) -> dict[str, Any]:
    """The one modem for a single spreading factor and a wider channel."""
    return {
        "enable": True,
        "radio": radio,
        "if": offset_hz,
        "bandwidth": bandwidth_hz,
        "spread_factor": sf,
    }


def _multi_sf(*channels: tuple[int, int], first: int = 0) -> dict[str, Any]:
    """125 kHz channels, each a radio and the offset from its centre in hertz."""
    return {
        f"chan_multiSF_{number}": {"enable": True, "radio": radio, "if": offset_hz}
        for number, (radio, offset_hz) in enumerate(channels, start=first)
    }
