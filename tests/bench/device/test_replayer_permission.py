from dataclasses import replace

import pytest

from bench.device.dialects import NotPermitted, insist_on_permission
from lns.lorawan.region import EU868, US915, DataRate, Region

SF7, SF10, SF12 = (DataRate(sf, 125_000) for sf in (7, 10, 12))


def judge(
    region: Region, freq_hz: int, data_rate: DataRate, size: int = 20, power_dbm: int = 14
) -> None:
    insist_on_permission(
        bytes(size), region, freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm
    )


@pytest.mark.parametrize(
    ("region", "freq_hz", "data_rate", "size", "power_dbm"),
    [(EU868, 868_100_000, SF7, 255, 16), (EU868, 867_900_000, SF12, 64, 14),
     (EU868, 863_062_500, SF7, 1, 14), (EU868, 869_937_500, SF7, 1, 14),
     (EU868, 868_300_000, DataRate(7, 250_000), 20, 14),
     (US915, 903_900_000, SF10, 24, 30), (US915, 904_600_000, DataRate(8, 500_000), 200, 20)],
)  # fmt: skip
def test_what_a_device_of_the_region_may_send(
    region: Region, freq_hz: int, data_rate: DataRate, size: int, power_dbm: int
) -> None:
    judge(region, freq_hz, data_rate, size, power_dbm)


@pytest.mark.parametrize(
    ("region", "freq_hz", "data_rate", "size", "power_dbm", "why"),
    [(EU868, 863_062_499, SF7, 20, 14, "no uplink channel"),
     (EU868, 869_937_501, SF7, 20, 14, "no uplink channel"),
     (EU868, 903_900_000, SF7, 20, 14, "no uplink channel"),
     (EU868, 868_100_000, DataRate(6, 125_000), 20, 14, "no uplink data rate"),
     (EU868, 868_100_000, SF12, 65, 14, "65 bytes at DR0, 1 to 64"),
     (EU868, 868_100_000, SF7, 0, 14, "0 bytes"),
     (EU868, 868_100_000, SF7, 20, 17, "17 dBm, 16 dBm at most"),
     (US915, 903_800_000, SF7, 20, 14, "no uplink channel"),
     (US915, 904_600_000, SF7, 20, 14, "no uplink channel for DR3"),
     (US915, 923_300_000, DataRate(12, 500_000), 20, 14, "no uplink data rate"),
     (US915, 903_900_000, SF10, 25, 14, "25 bytes at DR0"),
     (US915, 903_900_000, SF7, 20, 31, "30 dBm at most")],
)  # fmt: skip
def test_what_it_may_not(
    region: Region, freq_hz: int, data_rate: DataRate, size: int, power_dbm: int, why: str
) -> None:
    with pytest.raises(NotPermitted, match=why):
        judge(region, freq_hz, data_rate, size, power_dbm)


def test_a_frame_that_takes_longer_than_a_channel_may_be_used() -> None:
    judge(US915, 903_900_000, SF10, 24)  # 370.7 ms
    strict = replace(EU868, uplink_dwell_us=400_000)
    judge(strict, 868_100_000, SF7, 255)
    with pytest.raises(NotPermitted, match="1318912 us on the air, 400000 us at most"):
        judge(strict, 868_100_000, SF12, 17)
