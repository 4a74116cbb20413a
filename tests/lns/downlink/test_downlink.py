"""How an answer leaves: station, window, bytes, counter."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from lns.dedup.session import Session
from lns.downlink.downlink import UNREPORTED_MAX
from lns.lorawan.crypto import Direction, data_mic
from lns.lorawan.frame import Data, parse
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import US915
from lns.station.messages import Dnmsg
from lns.store.memory import MemoryStore
from tests.lns.served_network import (
    ALPHA,
    DEV_ADDR,
    GAMMA,
    NWK_S_KEY,
    Network,
    Station,
    serve,
    uplink,
    wait,
)
from tests.station_texts import dntxed_text, xtime_report_text

FRAME = uplink(10, confirmed=True)


def test_the_answer_goes_through_the_station_of_the_reception_with_its_xtime_and_rctx() -> None:
    async def scenario(network: Network) -> None:
        await network.east.hears(FRAME, late_us=1_000, rctx=-5)

    network = serve(scenario)
    assert network.west.dnmsgs == []
    (dnmsg,) = network.east.dnmsgs
    assert (dnmsg.xtime, dnmsg.rctx) == (network.outcomes[0].xtime, -5)
    assert dnmsg.dev_eui == ALPHA.dev_eui


def test_a_resubmission_is_answered_where_it_was_heard() -> None:
    async def scenario(network: Network) -> None:
        for station in (network.west, network.east, network.west):
            await station.hears(FRAME)

    network = serve(scenario)
    xtimes = [outcome.xtime for outcome in network.outcomes]
    assert [dnmsg.xtime for dnmsg in network.west.dnmsgs] == [xtimes[0], xtimes[2]]


def windows(dnmsg: Dnmsg) -> tuple[object, ...]:
    return dnmsg.rx_delay_s, dnmsg.rx1, dnmsg.rx2


@pytest.mark.parametrize(
    ("late_us", "answer", "rx1"),
    [
        (0, "RX1", (3, 868_300_000)),
        (600_000, "RX1", (3, 868_300_000)),
        (600_001, "RX2", None),
        (1_600_000, "RX2", None),
    ],
)
def test_the_windows_of_eu868(late_us: int, answer: str, rx1: tuple[int, int] | None) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME, late_us=late_us, dr=3, freq_hz=868_300_000)

    network = serve(scenario)
    assert network.outcomes[0].answer == answer
    assert [windows(dnmsg) for dnmsg in network.west.dnmsgs] == [(1, rx1, (0, 869_525_000))]


def test_nothing_is_sent_after_both_windows() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME, late_us=1_600_001)

    network = serve(scenario)
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", "TooLate")]
    assert (network.west.dnmsgs, network.downlinks) == ([], [])


@pytest.mark.parametrize(
    ("dr", "freq_hz", "rx1"),
    [
        (0, 903_900_000, (10, 923_300_000)),
        (3, 905_300_000, (13, 927_500_000)),
        (4, 904_600_000, (13, 923_900_000)),
    ],
)
def test_the_windows_of_us915(dr: int, freq_hz: int, rx1: tuple[int, int]) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME, dr=dr, freq_hz=freq_hz)

    (dnmsg,) = serve(scenario, region=US915).west.dnmsgs
    assert windows(dnmsg) == (1, rx1, (8, 923_300_000))


@pytest.mark.parametrize(("dr", "freq_hz"), [(9, 903_900_000), (0, 868_100_000)])
def test_an_uplink_that_the_region_does_not_have_is_answered_in_rx2(dr: int, freq_hz: int) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME, dr=dr, freq_hz=freq_hz)
        await network.west.hears(uplink(11, f_opts=b"\x02"), dr=dr, freq_hz=freq_hz)

    network = serve(scenario, region=US915)
    assert [words[2:] for words in network.words] == [("forwarded", "-", "RX2")] * 2
    assert [windows(dnmsg) for dnmsg in network.west.dnmsgs] == [(1, None, (8, 923_300_000))] * 2
    assert network.downlinks[0].margin_us == 2_000_000


def test_every_answer_has_a_fresh_counter_and_a_mic_that_proves_it() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in (10, 10, 11, 0, 1):
            await network.west.hears(uplink(f_cnt, confirmed=True))

    answers = serve(scenario).west.answers
    assert [frame.f_cnt for frame in answers] == [0, 1, 2, 3, 4]
    for frame in answers:
        mic = data_mic(NWK_S_KEY, Direction.DOWN, DEV_ADDR, frame.f_cnt, frame.body())
        assert frame.mic == mic


def test_a_restarted_server_uses_no_downlink_counter_again() -> None:
    store = MemoryStore()

    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)

    async def again(network: Network) -> None:
        await network.west.hears(FRAME)

    first, second = serve(scenario, store=store), serve(again, store=store)
    assert [frame.f_cnt for frame in first.west.answers + second.west.answers] == [0, 1]


def test_two_devices_count_their_downlinks_apart() -> None:
    beta = replace(ALPHA, dev_eui=GAMMA.dev_eui, dev_addr=DevAddr("01ABCDEE"))

    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        assert beta.dev_addr is not None
        await network.west.hears(uplink(10, confirmed=True, dev_addr=beta.dev_addr))

    assert [frame.f_cnt for frame in serve(scenario, ALPHA, beta).west.answers] == [0, 0]


def test_a_scheduled_downlink_is_told_with_its_margin() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME, late_us=700_000)

    (scheduled,) = serve(scenario).downlinks
    assert (scheduled.stage, scheduled.window, scheduled.margin_us) == (
        "scheduled",
        "RX2",
        1_300_000,
    )
    assert scheduled.frame_id == "01ABCDEF:10:5B3EB521"
    assert scheduled.f_cnt_down == 0


def test_downlinks_are_numbered_from_the_milliseconds_of_utc() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in (10, 11):
            await network.west.hears(uplink(f_cnt, confirmed=True))

    first, second = (dnmsg.diid for dnmsg in serve(scenario).west.dnmsgs)
    assert (first, second) == (1795140001003, 1795140001004)


def test_a_report_for_a_server_before_the_restart_is_no_report_for_this_one() -> None:
    """The station sends an answer of the old process while the new one has answered as well."""

    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, confirmed=True))
        await network.restart()
        await network.west.hears(uplink(11, confirmed=True))
        old, new = network.west.dnmsgs
        assert old.diid != new.diid
        for dnmsg in (old, new):
            sent = dntxed_text(
                dnmsg, dr=5, freq_hz=868_100_000, xtime=dnmsg.xtime + 1_000_000, txtime=0.0
            )
            await network.west.says(sent)

    network = serve(scenario)
    transmitted = [event for event in network.downlinks if event.stage == "transmitted"]
    assert [event.diid for event in transmitted] == [network.west.dnmsgs[1].diid]


@pytest.mark.parametrize("by", ["east", "another device"])
def test_a_report_that_fits_no_downlink_of_its_station_proves_nothing(by: str) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        (dnmsg,) = network.west.dnmsgs
        station = network.east if by == "east" else network.west
        if by != "east":
            dnmsg = replace_struct(dnmsg, dev_eui=GAMMA.dev_eui)
        sent = dntxed_text(dnmsg, dr=5, freq_hz=868_100_000, xtime=dnmsg.xtime, txtime=0.0)
        await station.says(sent)

    assert [event.stage for event in serve(scenario).downlinks] == ["scheduled"]


async def transmit(station: Station, after_us: int) -> None:
    """The station reports its last downlink, `after_us` after the uplink it answers."""
    dnmsg = station.dnmsgs[-1]
    text = dntxed_text(dnmsg, dr=5, freq_hz=868_100_000, xtime=dnmsg.xtime + after_us, txtime=0.0)
    await station.says(text)


@pytest.mark.parametrize(("after_us", "window"), [(1_000_000, "RX1"), (2_000_000, "RX2")])
def test_a_transmitted_downlink_is_told_with_the_window_it_met(after_us: int, window: str) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        await transmit(network.west, after_us)

    scheduled, transmitted = serve(scenario).downlinks
    assert (transmitted.stage, transmitted.window) == ("transmitted", window)
    assert transmitted.xtime == scheduled.xtime + after_us
    assert (transmitted.diid, transmitted.frame_id) == (scheduled.diid, scheduled.frame_id)


def test_a_downlink_is_transmitted_once() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        await transmit(network.west, 1_000_000)
        await transmit(network.west, 1_000_000)

    assert [event.stage for event in serve(scenario).downlinks] == ["scheduled", "transmitted"]


def test_only_the_newest_downlinks_are_waited_for() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in range(UNREPORTED_MAX + 1):
            await network.west.hears(uplink(f_cnt, confirmed=True))
        network.west.texts = network.west.texts[:3]
        await transmit(network.west, 1_000_000)

    stages = [event.stage for event in serve(scenario).downlinks]
    assert stages == ["scheduled"] * (UNREPORTED_MAX + 1)


def test_without_xtime_there_is_no_window() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME, xtime=0)

    assert serve(scenario).outcomes[0].answer == "TooLate"


def test_an_xtime_of_an_earlier_radio_session_is_not_answered() -> None:
    async def scenario(network: Network) -> None:
        west, old = network.west, network.west.xtime_now()
        west.session += 1
        await west.says(xtime_report_text(west.xtime_now(), mux_time=0.0, uptime_us=0))
        await west.hears(uplink(9))
        await west.hears(FRAME, xtime=old)

    network = serve(scenario)
    assert network.words[1] == ("west", "NonDuplicate", "forwarded", "-", "TooLate")
    assert network.west.dnmsgs == []


def test_a_station_that_left_is_not_answered() -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [500_000]
        await network.west.hears(FRAME)
        network.west.link.close()
        await wait(1)

    network = serve(scenario)
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", "TooLate")]
    assert network.downlinks == []


def test_the_first_frame_of_a_connection_is_timed_by_the_clock_sample_before_it() -> None:
    async def scenario(network: Network) -> None:
        network.west.link.close()
        await wait(0.001)
        await network.connect(network.west, network.tasks)
        await network.west.hears(FRAME, late_us=700_000)

    network = serve(scenario)
    assert network.outcomes[0].answer == "RX2"


def test_the_bytes_of_an_answer() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, confirmed=True, f_opts=b"\x02"))

    (dnmsg,) = serve(scenario).west.dnmsgs
    # MHDR 60, DevAddr EFCDAB01, FCtrl 23 (ACK, 3 bytes of FOpts), FCntDown 0, LinkCheckAns 17 1.
    assert dnmsg.pdu[:11].hex() == "60efcdab01230000021101"
    assert len(dnmsg.pdu) == 15
    assert isinstance(parse(dnmsg.pdu), Data)


class SlowStore(MemoryStore):
    """A store that takes its time to keep sessions."""

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        await wait(0.1)
        await super().keep_sessions(dev_eui, sessions)


def test_a_downlink_counter_is_kept_before_it_is_on_its_way() -> None:
    store = SlowStore()

    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        await wait(0.05)
        assert store.sessions(ALPHA.dev_eui) == ()
        assert network.west.dnmsgs == []
        await wait(0.1)
        assert [session.f_cnt_down for session in store.sessions(ALPHA.dev_eui)] == [1]
        assert len(network.west.dnmsgs) == 1

    serve(scenario, store=store)


def test_a_station_that_leaves_while_the_counter_is_kept_is_not_answered() -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [500_000]
        old = network.west.link
        await network.west.hears(FRAME)
        await wait(0.55)
        await network.connect(network.west, network.tasks)
        network.west.link.close()
        await wait(1)
        old.close()

    network = serve(scenario, store=SlowStore())
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", "TooLate")]
