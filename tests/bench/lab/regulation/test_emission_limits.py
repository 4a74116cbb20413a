"""Power and region of a device, as it tells them."""

from bench.lab.regulation import check_eirp, check_region
from lns.lorawan.region import EU868, US915


def test_power_up_to_the_limit_is_well() -> None:
    assert check_eirp("dut", 14, EU868, 14) is None


def test_power_over_the_limit_of_the_bench_is_told() -> None:
    told = check_eirp("dut", 16, EU868, 14)
    assert told is not None
    assert told.startswith("dut sends with 16 dBm EIRP, the bench allows 14 dBm")


def test_the_region_caps_what_the_bench_allows() -> None:
    told = check_eirp("dut", 22, EU868, 30)
    assert told is not None
    assert "EU868 allows 16 dBm" in told


def test_another_region_is_told() -> None:
    assert check_region("dut", "EU868", EU868) is None
    told = check_region("dut", "EU868", US915)
    assert told is not None
    assert "dut uses the region EU868, this bench is in US915" in told
