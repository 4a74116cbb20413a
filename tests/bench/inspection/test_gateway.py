"""Who is to blame when a station tells of a frame otherwise than it was on the air?"""

from dataclasses import replace

from bench.inspection.gateway import Gateways
from bench.verdict.owner import Owner, Scrutiny
from bench.verdict.wire import Uplink
from bench.virtual.lorawan.air_interface import read_data

PHY = bytes.fromhex("4001000026000A0002B12D79F6271B6F918F42")
FRAME = read_data(PHY)
assert FRAME is not None
CHECK = Scrutiny(rule="reception", of="frame", t_us=0)
SESSION = 0xAB << 48
SECOND_US = 1_000_000
HEARD = Uplink(
    station="west", t_us=0, held_us=0, phy=PHY, frame=FRAME, xtime=SESSION | 7_000_000, rctx=0,
    dr=5, freq_hz=868_100_000, rssi=-80, snr=7,
)  # fmt: skip
SENT = {"t_us": SECOND_US, "airtime_us": 50_000, "dr": 5, "freq_hz": 868_100_000}


def found(
    *heard: tuple[Uplink, int], rig: str = "simulated", fault: str | None = None
) -> list[str]:
    """What is wrong with what was heard so many microseconds after the first frame."""
    gateways = Gateways(rig=rig)
    all_found = []
    for uplink, later_us in heard:
        sent = SENT | {"t_us": SENT["t_us"] + later_us}
        all_found += gateways.heard(uplink, sent, CHECK)
    assert all(one.owner is Owner.GATEWAY for one in all_found)
    return [one.text.removeprefix("frame: ") for one in all_found]


def after(us: int) -> Uplink:
    counter_us = (HEARD.xtime + us) % (1 << 48)
    return replace(HEARD, xtime=SESSION | counter_us)


def test_it_tells_the_channel_and_the_data_rate() -> None:
    assert found((HEARD, 0)) == []
    assert found((replace(HEARD, dr=4), 0)) == ["DR: expected 5, observed 4"]
    other = replace(HEARD, freq_hz=868_300_000)
    assert found((other, 0)) == ["Freq: expected 868100000, observed 868300000"]


def test_its_clock_goes_as_time_does() -> None:
    assert found((HEARD, 0), (after(60 * SECOND_US + 3_000), 60 * SECOND_US)) == []
    wrong = "xtime: expected 60000000 us after the first, observed 60010000 us"
    assert found((HEARD, 0), (after(60 * SECOND_US + 10_000), 60 * SECOND_US)) == [wrong]
    assert found((HEARD, 0), (after(60 * SECOND_US + 10_000), 60 * SECOND_US), rig="emulated") == []
    assert len(found((HEARD, 0), (after(-SECOND_US), SECOND_US))) == 1
    assert found((after(SECOND_US), SECOND_US), (HEARD, 0)) == []  # it was held


def test_its_counter_begins_again_behind_its_end() -> None:
    end = replace(HEARD, xtime=SESSION | ((1 << 48) - 1_000))
    assert found((end, 0), (replace(HEARD, xtime=SESSION | 999_000), SECOND_US)) == []


def test_nobody_compares_the_clocks_of_two_lives() -> None:
    other = replace(HEARD, xtime=0xAC << 48 | 5)
    assert found((HEARD, 0), (other, SECOND_US)) == []
    assert found((replace(HEARD, xtime=0), 0), (replace(HEARD, xtime=0), SECOND_US)) == []
    gateways = Gateways(rig="simulated")
    assert not [*gateways.heard(HEARD, SENT, CHECK)]
    gateways.connected("west")
    assert not [*gateways.heard(HEARD, SENT | {"t_us": 2 * SECOND_US}, CHECK)]


def test_for_what_the_bench_said_in_its_name_it_is_not_blamed() -> None:
    assert found((replace(HEARD, dr=4, injected=True), 0)) == []


def test_in_a_lab_a_second_radio_may_have_sent_a_frame_again() -> None:
    assert found((replace(HEARD, dr=4), 0), (after(0), SECOND_US), rig="hardware") == []
