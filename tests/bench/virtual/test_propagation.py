import pytest

from bench.virtual.air import Links, sensitivity_dbm, snr_db
from bench.virtual.lorawan.channel_plan import Fsk, Lora
from lns.lorawan.identifiers import Eui

DEVICE, STATION = Eui("70B3D57ED0000001"), Eui("B827EBFFFE123456")


def test_what_lies_between_two_radios_is_the_same_both_ways() -> None:
    links = Links(attenuation_db=90)
    links.set_attenuation(DEVICE, STATION, 120)
    assert links.attenuation_db(STATION, DEVICE) == 120
    assert links.rssi_dbm(STATION, DEVICE, 14, 1) == -106
    assert links.attenuation_db(STATION, Eui("0" * 16)) == 90


def test_a_cut_is_undone() -> None:
    links = Links()
    links.cut(DEVICE, STATION)
    assert links.is_cut(STATION, DEVICE)
    links.restore(STATION, DEVICE)
    assert not links.is_cut(DEVICE, STATION)


def test_fading_depends_on_frame_receiver_and_seed_only() -> None:
    def rssi(seed: int, frame: int) -> float:
        return Links(fading_sigma_db=4.0, seed=seed).rssi_dbm(DEVICE, STATION, 14, frame)

    assert rssi(1, 1) == rssi(1, 1)
    assert len({rssi(1, 1), rssi(1, 2), rssi(2, 1), -86.0}) == 4


@pytest.mark.parametrize(
    ("rssi_dbm", "snr"), [(-50, 12.0), (-110, 7.0), (-117.3, -0.25), (-124.4, -7.25)]
)
def test_snr_has_steps_of_a_quarter_and_a_cap(rssi_dbm: float, snr: float) -> None:
    assert snr_db(rssi_dbm, Lora(7, 125_000)) == snr


def test_slow_and_narrow_data_rates_are_heard_further() -> None:
    assert sensitivity_dbm(Lora(7, 125_000)) == -124.5
    assert sensitivity_dbm(Lora(12, 125_000)) == -137
    assert sensitivity_dbm(Lora(7, 250_000)) == -121.5
    assert sensitivity_dbm(Fsk()) > sensitivity_dbm(Lora(7, 125_000))
