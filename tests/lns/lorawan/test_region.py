import json
from pathlib import Path

import pytest

from lns.lorawan.region import (
    AS923_1,
    EU868,
    FSK,
    US915,
    Channel,
    DataRate,
    DwellTimes,
    frame_airtime_us,
    region,
    us915_sub_band,
)

VECTORS = Path(__file__).parents[2] / "vectors" / "lorawan"


def test_regions_are_found_by_name() -> None:
    assert region("EU868") is EU868
    assert region("US915") is US915


@pytest.mark.parametrize("name", ["", "eu868", "AS923"])
def test_an_unknown_region_names_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match="known: EU868, US915, AS923-1"):
        region(name)


def test_eu868_data_rates() -> None:
    assert EU868.data_rates == (
        DataRate(12, 125_000),
        DataRate(11, 125_000),
        DataRate(10, 125_000),
        DataRate(9, 125_000),
        DataRate(8, 125_000),
        DataRate(7, 125_000),
        DataRate(7, 250_000),
        FSK,
    )


def test_us915_data_rates() -> None:
    assert US915.data_rates == (
        DataRate(10, 125_000),
        DataRate(9, 125_000),
        DataRate(8, 125_000),
        DataRate(7, 125_000),
        DataRate(8, 500_000),
        None,
        None,
        None,
        DataRate(12, 500_000),
        DataRate(11, 500_000),
        DataRate(10, 500_000),
        DataRate(9, 500_000),
        DataRate(8, 500_000),
        DataRate(7, 500_000),
    )


def test_eu868_channels() -> None:
    assert tuple(c.freq_hz for c in EU868.uplink_channels) == (
        868_100_000,
        868_300_000,
        868_500_000,
    )
    assert EU868.join_channels == EU868.uplink_channels
    assert {(channel.dr_min, channel.dr_max) for channel in EU868.uplink_channels} == {(0, 5)}
    assert EU868.downlink_channels_hz == ()
    assert EU868.freq_range_hz == (863_000_000, 870_000_000)


def test_us915_channels() -> None:
    channels = US915.uplink_channels
    assert len(channels) == 72
    assert channels[0] == Channel(902_300_000, 0, 3)
    assert channels[1] == Channel(902_500_000, 0, 3)
    assert channels[63] == Channel(914_900_000, 0, 3)
    assert channels[64] == Channel(903_000_000, 4, 4)
    assert channels[71] == Channel(914_200_000, 4, 4)
    assert US915.uplink_channels[8].freq_hz == 903_900_000
    assert US915.downlink_channels_hz[0] == 923_300_000
    assert US915.downlink_channels_hz[7] == 927_500_000
    assert US915.freq_range_hz == (902_000_000, 928_000_000)


def test_us915_devices_join_on_125_khz_with_dr0_and_on_500_khz_with_dr4() -> None:
    assert US915.join_channels[:64] == tuple(
        Channel(902_300_000 + 200_000 * n, 0, 0) for n in range(64)
    )
    assert US915.join_channels[64:] == US915.uplink_channels[64:]


def test_us915_sub_band_2_is_the_one_of_public_networks() -> None:
    frequencies = [channel.freq_hz for channel in us915_sub_band(2)]
    assert frequencies == [903_900_000 + 200_000 * n for n in range(8)] + [904_600_000]


@pytest.mark.parametrize("number", [0, 9])
def test_us915_has_eight_sub_bands(number: int) -> None:
    with pytest.raises(ValueError, match="sub-bands 1 to 8"):
        us915_sub_band(number)


@pytest.mark.parametrize(
    ("dr", "expected"),
    [
        (0, [0, 0, 0, 0, 0, 0]),
        (1, [1, 0, 0, 0, 0, 0]),
        (2, [2, 1, 0, 0, 0, 0]),
        (3, [3, 2, 1, 0, 0, 0]),
        (4, [4, 3, 2, 1, 0, 0]),
        (5, [5, 4, 3, 2, 1, 0]),
        (6, [6, 5, 4, 3, 2, 1]),
        (7, [7, 6, 5, 4, 3, 2]),
    ],
)
def test_eu868_rx1_lowers_the_data_rate_on_the_same_frequency(dr: int, expected: list[int]) -> None:
    rx1 = [EU868.rx1(dr, 868_300_000, offset) for offset in range(6)]
    assert rx1 == [(down, 868_300_000) for down in expected]


@pytest.mark.parametrize(
    ("dr", "expected"),
    [
        (0, [10, 9, 8, 8]),
        (1, [11, 10, 9, 8]),
        (2, [12, 11, 10, 9]),
        (3, [13, 12, 11, 10]),
        (4, [13, 13, 12, 11]),
    ],
)
def test_us915_rx1_data_rates(dr: int, expected: list[int]) -> None:
    assert [US915.rx1(dr, 902_300_000, offset)[0] for offset in range(4)] == expected


@pytest.mark.parametrize(
    ("uplink_hz", "downlink_hz"),
    [
        (902_300_000, 923_300_000),  # channel 0
        (903_700_000, 927_500_000),  # channel 7
        (903_900_000, 923_300_000),  # channel 8
        (914_900_000, 927_500_000),  # channel 63
        (903_000_000, 923_300_000),  # channel 64
        (904_600_000, 923_900_000),  # channel 65
        (914_200_000, 927_500_000),  # channel 71
    ],
)
def test_us915_rx1_is_on_the_uplink_channel_modulo_eight(uplink_hz: int, downlink_hz: int) -> None:
    assert US915.rx1(0, uplink_hz)[1] == downlink_hz


@pytest.mark.parametrize(("dr", "offset"), [(-1, 0), (8, 0), (5, 6), (5, -1)])
def test_eu868_has_no_such_rx1(dr: int, offset: int) -> None:
    with pytest.raises(ValueError, match=f"no RX1 for DR{dr} with offset {offset}"):
        EU868.rx1(dr, 868_100_000, offset)


@pytest.mark.parametrize(
    ("dr", "freq_hz", "offset"), [(5, 902_300_000, 0), (0, 902_300_000, 4), (0, 902_400_000, 0)]
)
def test_us915_has_no_such_rx1(dr: int, freq_hz: int, offset: int) -> None:
    with pytest.raises(ValueError, match="US915"):
        US915.rx1(dr, freq_hz, offset)


def test_rx2_and_delays() -> None:
    assert (EU868.rx2_dr, EU868.rx2_freq_hz) == (0, 869_525_000)
    assert (US915.rx2_dr, US915.rx2_freq_hz) == (8, 923_300_000)
    for known in (EU868, US915):
        assert known.receive_delay_us == 1_000_000
        assert known.join_accept_delay_us == 5_000_000


def test_how_many_channels_a_join_accept_may_name() -> None:
    assert (EU868.more_channels_max, US915.more_channels_max, AS923_1.more_channels_max) == (
        5,
        0,
        5,
    )


def test_largest_payloads() -> None:
    assert [EU868.max_payload(dr) for dr in range(8)] == [51, 51, 51, 115, 222, 222, 222, 222]
    assert [US915.max_payload(dr) for dr in range(5)] == [11, 53, 125, 242, 242]
    assert [US915.max_payload(dr) for dr in range(8, 14)] == [33, 109, 222, 222, 222, 222]


def test_largest_payloads_without_a_repeater() -> None:
    assert EU868.max_payload(5, repeater=False) == 242
    assert [US915.max_payload(dr, repeater=False) for dr in range(8, 14)] == (
        [53, 129, 242, 242, 242, 242]
    )


@pytest.mark.parametrize("dr", [-1, 5, 7, 14])
def test_an_undefined_data_rate_carries_nothing(dr: int) -> None:
    with pytest.raises(ValueError, match=f"DR{dr} is not defined"):
        US915.max_payload(dr)


def test_uplink_data_rates_are_found_by_modulation() -> None:
    assert EU868.uplink_dr(DataRate(7, 125_000)) == 5
    assert EU868.uplink_dr(FSK) == 7
    # SF8 at 500 kHz is DR4 up and DR12 down.
    assert US915.uplink_dr(DataRate(8, 500_000)) == 4


def test_a_downlink_data_rate_labels_no_uplink() -> None:
    with pytest.raises(ValueError, match="SF12BW500 is no uplink data rate"):
        US915.uplink_dr(DataRate(12, 500_000))


@pytest.mark.parametrize(
    ("freq_hz", "per_mille"),
    [
        (863_100_000, 1),
        (867_900_000, 1),
        (868_000_000, 10),
        (868_100_000, 10),
        (868_600_000, 10),
        (868_800_000, 1),
        (869_400_000, 100),
        (869_525_000, 100),
        (869_650_000, 100),
        (869_700_000, 10),
        (870_000_000, 10),
    ],
)
def test_eu868_duty_cycle(freq_hz: int, per_mille: int) -> None:
    band = EU868.duty_cycle_band(freq_hz)
    assert band is not None
    assert band.per_mille == per_mille


def test_us915_has_no_duty_cycle_but_a_dwell_time() -> None:
    assert US915.duty_cycle_band(902_300_000) is None
    assert EU868.duty_cycle_band(902_300_000) is None
    assert US915.uplink_dwell_us == 400_000
    assert EU868.uplink_dwell_us is None


@pytest.mark.parametrize("dr", range(4))
def test_the_largest_us915_uplink_fits_its_dwell_time(dr: int) -> None:
    data_rate = US915.data_rates[dr]
    assert data_rate is not None
    phy_bytes = US915.max_payload(dr) + 13  # MHDR, FHDR, FPort and MIC
    assert US915.uplink_dwell_us is not None
    assert frame_airtime_us(data_rate, phy_bytes, crc=True) <= US915.uplink_dwell_us


def test_as923_is_as_a_stack_of_end_devices_has_it() -> None:
    found = json.loads((VECTORS / "as923.json").read_text())
    assert [c.freq_hz for c in AS923_1.uplink_channels] == found["default_channels_hz"]
    drs = {(channel.dr_min, channel.dr_max) for channel in AS923_1.uplink_channels}
    assert drs == {tuple(found["channel_drs"])}
    assert {channel.dr_min for channel in AS923_1.join_channels} == {found["join_dr_min"]}
    assert AS923_1.rx2() == (found["rx2_dr"], found["rx2_freq_hz"])
    assert AS923_1.max_eirp_dbm == found["max_eirp_dbm"]
    assert list(AS923_1.max_payloads) == found["payload_max_repeater"]
    assert list(AS923_1.max_payloads_no_repeater) == found["payload_max"]
    assert [list(drs) for drs in AS923_1.rx1_drs] == found["rx1_drs"]
    lora = zip(found["spreading_factors"], found["bandwidths_hz"], strict=True)
    assert AS923_1.data_rates == (*(DataRate(sf, bw_hz) for sf, bw_hz in lora), FSK)
    assert AS923_1.more_channels_max == found["cf_list_channels"]
    assert AS923_1.dwell_times == DwellTimes(
        uplink=bool(found["uplink_dwell_time"]), downlink=bool(found["downlink_dwell_time"])
    )


def test_the_longest_uplinks_of_as923_keep_the_dwell_time() -> None:
    """What the specification allows at each data rate lasts 400 ms at most; one more would not."""
    found = json.loads((VECTORS / "as923.json").read_text())
    assert AS923_1.uplink_dwell_us is not None
    for dr in range(2, 5):
        longest = found["uplink_payload_max"][dr] + 13
        data_rate = AS923_1.data_rates[dr]
        assert data_rate is not None
        assert frame_airtime_us(data_rate, longest, crc=True) <= AS923_1.uplink_dwell_us
    slow = AS923_1.data_rates[1]
    assert slow is not None and frame_airtime_us(slow, 13, crc=True) > AS923_1.uplink_dwell_us
