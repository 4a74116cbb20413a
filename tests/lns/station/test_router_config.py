import json
from pathlib import Path

from lns.lorawan.region import AS923_1, EU868, REGIONS, US915
from lns.station.messages import router_config

VECTORS = Path(__file__).parents[2] / "vectors" / "station"


def test_eu868_is_what_a_real_station_was_run_with() -> None:
    recorded = json.loads((VECTORS / "recorded.json").read_text())["messages"]
    config = next(m["msg"] for m in recorded if m["msg"].get("msgtype") == "router_config")
    assert router_config(EU868, mux_time=config["MuxTime"]) == config


def test_us915_listens_on_sub_band_2() -> None:
    config = router_config(US915)
    radio = config["sx1301_conf"][0]
    freqs_hz = [
        radio[f"radio_{chan['radio']}"]["freq"] + chan["if"]
        for name, chan in radio.items()
        if name.startswith("chan_multiSF")
    ]
    assert freqs_hz == [903_900_000 + 200_000 * n for n in range(8)]
    assert config["freq_range"] == [902_000_000, 928_000_000]
    assert config["DRs"][4] == [8, 500, 0]
    assert config["DRs"][8:14] == [[sf, 500, 1] for sf in (12, 11, 10, 9, 8, 7)]
    assert config["DRs"][5:8] + config["DRs"][14:] == [[-1, 0, 0]] * 5
    assert radio["chan_Lora_std"] == {
        "enable": True, "radio": 0, "if": 300_000, "bandwidth": 500_000, "spread_factor": 8,
    }  # fmt: skip
    assert radio["chan_FSK"] == {"enable": False}
    assert "MuxTime" not in config


def test_every_intermediate_frequency_fits_its_radio() -> None:
    for region in REGIONS.values():
        radio = router_config(region)["sx1301_conf"][0]
        offsets_hz = [chan["if"] for chan in radio.values() if "if" in chan]
        assert all(abs(offset_hz) <= 400_000 for offset_hz in offsets_hz)


def test_stations_of_europe_listen_at_eight_channels() -> None:
    assert set(EU868.station_radio.channels_hz) == {
        868_100_000, 868_300_000, 868_500_000,
        867_100_000, 867_300_000, 867_500_000, 867_700_000, 867_900_000,
    }  # fmt: skip


def test_as923_is_called_as_basics_station_calls_it() -> None:
    """Any other name, such as AS923, and a station drops every downlink (s2e.c)."""
    config = router_config(AS923_1)
    assert config["region"] == "AS923-1"
    assert set(AS923_1.station_radio.channels_hz) == {
        923_200_000 + 200_000 * number for number in range(8)
    }
    assert config["DRs"][:8] == router_config(EU868)["DRs"][:8]
