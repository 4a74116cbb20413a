"""What the application wants sent: with the next answer (class A), or at once (class C)."""

import asyncio
from dataclasses import replace

import pytest

from lns.clock import StoreUnavailable
from lns.dedup.session import Session
from lns.downlink.downlink import ACK_US, REPORT_US
from lns.downlink.downlink_queue import QUEUE_MAX, SENDINGS_MAX, ApplicationDownlink
from lns.events import Request
from lns.lorawan.crypto import Direction, crypt_payload
from lns.lorawan.frame import Data, MType, build_data, parse
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import US915
from lns.station.messages import Dnmsg
from lns.store.memory import MemoryStore
from lns.uplink.registry import DeviceClass
from tests.lns.served_network import (
    ALPHA,
    APP_S_KEY,
    DEV_ADDR,
    GAMMA,
    KEYS,
    Network,
    Station,
    serve,
    uplink,
    wait,
)
from tests.station_texts import dntxed_text

ON = ApplicationDownlink(7, b"on")
OFF = ApplicationDownlink(8, b"off")
LOCK = ApplicationDownlink(9, b"lock", confirmed=True)
ALWAYS = replace(ALPHA, device_class=DeviceClass.C)


def ask(network: Network, *downlinks: ApplicationDownlink) -> None:
    for downlink in downlinks:
        network.server.enqueue(ALPHA.dev_eui, downlink)


def acknowledging(f_cnt: int) -> bytes:
    return build_data(
        MType.UNCONFIRMED_UP, dev_addr=DEV_ADDR, f_cnt=f_cnt, keys=KEYS, f_port=2, ack=True
    )


async def report(station: Station, dnmsg: Dnmsg | None = None) -> None:
    """The station reports its newest downlink on the air."""
    told = dnmsg or station.dnmsgs[-1]
    text = dntxed_text(told, dr=5, freq_hz=868_100_000, xtime=told.xtime + 1_000_000, txtime=0.0)
    await station.says(text)


def said(frame: Data) -> bytes:
    return crypt_payload(APP_S_KEY, Direction.DOWN, DEV_ADDR, frame.f_cnt, frame.frm_payload)


def carried(network: Network) -> list[tuple[int | None, bytes, bool]]:
    """Of each downlink of the west station: FPort, payload in clear, FPending."""
    return [(frame.f_port, said(frame), frame.f_pending) for frame in network.west.answers]


def requests(network: Network) -> list[tuple[str, str | None]]:
    found = [event for event in network.events if isinstance(event, Request)]
    return [(event.stage, event.reason) for event in found if event.stage != "queued"]


def test_it_waits_for_an_uplink_and_goes_with_the_answer_one_at_a_time() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ON, OFF)
        await wait(10)
        assert network.west.texts[2:] == []
        for f_cnt in (10, 11, 12):
            await network.west.hears(uplink(f_cnt))
            await wait(1)
            if network.west.dnmsgs:
                await report(network.west)

    network = serve(scenario)
    assert carried(network) == [(7, b"on", True), (8, b"off", False)]
    assert [words[4] for words in network.words] == ["RX1", "RX1", "NotAsked"]
    assert requests(network) == [("done", None)] * 2
    assert [(d.stage, d.f_port, d.confirmed) for d in network.downlinks[:2]] == [
        ("scheduled", 7, False),
        ("transmitted", 7, False),
    ]


def test_it_goes_together_with_the_acknowledgement_and_mac_commands() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ON)
        await network.west.hears(uplink(10, confirmed=True, f_opts=b"\x02"))

    network = serve(scenario)
    (answer,) = network.west.answers
    assert (answer.ack, answer.f_opts, answer.m_type) == (
        True,
        bytes.fromhex("021101"),
        MType.UNCONFIRMED_DOWN,
    )
    assert carried(network) == [(7, b"on", False)]


def test_heard_by_two_stations_it_goes_once_through_the_first() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ON)
        await network.west.hears(uplink(10))
        await wait(0.05)
        await network.east.hears(uplink(10), late_us=50_000)
        await wait(1)
        await report(network.west)
        await network.west.hears(uplink(11))

    network = serve(scenario)
    assert carried(network) == [(7, b"on", False)]
    assert network.east.dnmsgs == []
    assert [words[1] for words in network.words[:2]] == ["NonDuplicate", "SoftDuplicate"]
    assert requests(network) == [("done", None)]


def test_without_proof_it_goes_three_times_each_with_a_counter_of_its_own() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ON)
        for f_cnt in range(10, 16):
            await network.west.hears(uplink(f_cnt))
            await wait(3)

    network = serve(scenario)
    assert carried(network) == [(7, b"on", False)] * SENDINGS_MAX
    assert [frame.f_cnt for frame in network.west.answers] == [0, 1, 2]
    assert requests(network) == [("given_up", "NotProven")]


def test_a_confirmed_one_is_done_when_the_device_says_so() -> None:
    async def scenario(network: Network) -> None:
        ask(network, LOCK, ON)
        await network.west.hears(uplink(10))
        await wait(1)
        await report(network.west)
        await wait(2)
        await network.west.hears(uplink(11))
        await wait(3)
        await network.west.hears(acknowledging(12))

    network = serve(scenario)
    assert carried(network) == [(9, b"lock", True)] * 2 + [(7, b"on", False)]
    kinds = [frame.m_type for frame in network.west.answers]
    assert kinds == [MType.CONFIRMED_DOWN, MType.CONFIRMED_DOWN, MType.UNCONFIRMED_DOWN]
    assert requests(network) == [("done", None)]


def test_while_it_is_under_way_another_answer_does_not_carry_it_too() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ON)
        await network.west.hears(uplink(10, confirmed=True))
        await wait(0.3)
        await network.west.hears(uplink(10, confirmed=True))
        await wait(0.2)
        await network.west.hears(uplink(11))

    network = serve(scenario)
    assert carried(network) == [(7, b"on", False), (None, b"", True)]


def test_a_long_one_goes_in_rx1_alone() -> None:
    """222 bytes at DR5, 51 at DR0: the fall-back would be against the regional parameters."""

    async def scenario(network: Network) -> None:
        ask(network, ApplicationDownlink(7, bytes(222)))
        await network.west.hears(uplink(10))

    (dnmsg,) = serve(scenario).west.dnmsgs
    assert (dnmsg.rx1, dnmsg.rx2) == ((5, 868_100_000), None)


def test_a_long_one_waits_while_only_rx2_is_left() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ApplicationDownlink(7, bytes(52)))
        await network.west.hears(uplink(10, confirmed=True), late_us=700_000)
        await wait(2)
        await network.west.hears(uplink(11), late_us=700_000)
        await wait(2)
        await network.west.hears(uplink(12))

    network = serve(scenario)
    assert [words[4] for words in network.words] == ["RX2", "NotAsked", "RX1"]
    assert carried(network) == [(None, b"", True), (7, bytes(52), False)]


@pytest.mark.parametrize(("size", "f_port"), [(48, 7), (49, None)])
def test_mac_commands_go_first(size: int, f_port: int | None) -> None:
    """51 bytes at DR0, of which the LinkCheckAns takes three."""

    async def scenario(network: Network) -> None:
        ask(network, ApplicationDownlink(7, bytes(size)))
        await network.west.hears(uplink(10, f_opts=b"\x02"), dr=0)

    network = serve(scenario)
    (answer,) = network.west.answers
    assert (answer.f_port, answer.f_opts[:1], answer.f_pending) == (f_port, b"\x02", f_port is None)
    assert requests(network) == []


def test_one_that_fits_no_window_of_its_uplink_is_given_up() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ApplicationDownlink(7, bytes(52)), ON)
        await network.west.hears(uplink(10, confirmed=True), dr=0)
        await wait(3)
        await network.west.hears(uplink(11), dr=0)

    network = serve(scenario)
    assert carried(network) == [(None, b"", True), (7, b"on", False)]
    assert requests(network) == [("given_up", "TooLong")]


def test_in_us915_each_window_has_its_own_size() -> None:
    """RX1 of DR3 is DR13 with 222 bytes, RX2 is DR8 with 33."""

    async def scenario(network: Network) -> None:
        for f_cnt, size in ((10, 33), (11, 34)):
            ask(network, ApplicationDownlink(7, bytes(size)))
            await network.west.hears(uplink(f_cnt), dr=3, freq_hz=903_900_000)
            await wait(3)
            await report(network.west)

    first, second = serve(scenario, region=US915).west.dnmsgs
    assert (first.rx1_dr, first.rx2_dr) == (13, 8)
    assert (second.rx1_dr, second.rx2_dr) == (13, None)


def test_too_late_it_waits_and_costs_no_counter() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ON)
        await network.west.hears(uplink(10), late_us=1_700_000)
        await network.west.hears(uplink(11))

    network = serve(scenario)
    assert [words[4] for words in network.words] == ["NotAsked", "RX1"]
    assert [frame.f_cnt for frame in network.west.answers] == [0]


def test_what_a_lost_station_was_to_send_waits_again() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ON)
        network.application.delays_us = [500_000]
        await network.west.hears(uplink(10))
        network.west.link.close()
        await wait(1)
        await network.east.hears(uplink(11))
        assert len(network.east.answers) == 1

    serve(scenario)


@pytest.mark.parametrize(
    ("dev_eui", "downlink", "reason"),
    [
        (GAMMA.dev_eui, ON, "UnknownDevice"),
        (ALPHA.dev_eui, ApplicationDownlink(7, bytes(223)), "TooLong"),
    ],
)
def test_some_are_refused(dev_eui: Eui, downlink: ApplicationDownlink, reason: str) -> None:
    async def scenario(network: Network) -> None:
        assert not network.server.enqueue(dev_eui, downlink)

    assert requests(serve(scenario)) == [("refused", reason)]


def test_the_device_of_another_server_is_refused() -> None:
    async def scenario(network: Network) -> None:
        assert not network.server.enqueue(ALPHA.dev_eui, ON)

    network = serve(scenario, replace(ALPHA, server="lns-b"))
    assert requests(network) == [("refused", "BelongsToAnotherServer")]


def test_whoever_asks_hears_that_a_queue_is_full() -> None:
    async def scenario(network: Network) -> None:
        assert all(network.server.enqueue(ALPHA.dev_eui, ON) for _ in range(QUEUE_MAX))
        assert not network.server.enqueue(ALPHA.dev_eui, ON)

    assert requests(serve(scenario))[-1] == ("refused", "QueueFull")


def test_what_comes_by_the_broker_is_read_strictly(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(network: Network) -> None:
        topic = f"lorawan/lns-a/{ALPHA.dev_eui}/down"
        network.server.receive_request(topic, b'{"fPort":7,"payload":"6f6e"}')
        network.server.receive_request(topic, b'{"fPort":7,"payload":"6f6e","more":1}')
        network.server.receive_request("lorawan/lns-a/::1/down", b'{"fPort":7,"payload":""}')
        await network.west.hears(uplink(10))

    network = serve(scenario)
    assert carried(network) == [(7, b"on", False)]
    (unread, unknown) = [reason for stage, reason in requests(network) if stage == "refused"]
    assert unread is not None and "unknown field" in unread
    assert unknown == "UnknownDevice"
    assert len(caplog.messages) == 2
    assert caplog.messages[1] == "lorawan/lns-a/::1/down: the downlink is refused: UnknownDevice"


async def heard(network: Network, f_cnt: int = 10) -> None:
    await network.west.hears(uplink(f_cnt))


def test_a_class_c_device_is_sent_one_after_the_other_at_once() -> None:
    async def scenario(network: Network) -> None:
        await heard(network)
        ask(network, ON, OFF)
        await wait(0.1)
        assert len(network.west.dnmsgs) == 1
        await report(network.west)
        await wait(0.1)
        await report(network.west)

    network = serve(scenario, ALWAYS)
    assert carried(network) == [(7, b"on", True), (8, b"off", False)]
    for dnmsg in network.west.dnmsgs:
        assert (dnmsg.device_class, dnmsg.xtime, dnmsg.rx1) == (2, 0, None)
        assert dnmsg.rx2 == (0, 869_525_000)
    assert requests(network) == [("done", None)] * 2
    told = [(event.stage, event.window, event.frame_id) for event in network.downlinks]
    assert told == [("scheduled", "RX2", None), ("transmitted", "RX2", None)] * 2
    assert (network.downlinks[0].xtime, network.downlinks[0].margin_us) == (None, None)


def test_it_goes_through_the_station_that_heard_the_device_last() -> None:
    async def scenario(network: Network) -> None:
        await heard(network, 10)
        await network.east.hears(uplink(11))
        await network.west.hears(uplink(11))  # a copy: it is not the last to be heard first
        ask(network, ON)
        await wait(0.1)

    network = serve(scenario, ALWAYS)
    assert (len(network.west.dnmsgs), len(network.east.dnmsgs)) == (0, 1)


def test_a_class_c_device_that_nobody_has_heard_waits_for_its_uplink() -> None:
    async def scenario(network: Network) -> None:
        ask(network, ON)
        await wait(5)
        assert network.west.dnmsgs == []
        await heard(network)

    (dnmsg,) = serve(scenario, ALWAYS).west.dnmsgs
    assert (dnmsg.device_class, dnmsg.rx1) == (0, (5, 868_100_000))


def test_without_report_it_is_sent_again_and_then_given_up() -> None:
    async def scenario(network: Network) -> None:
        await heard(network)
        ask(network, ON)
        await wait(SENDINGS_MAX * REPORT_US / 1_000_000 + 1)

    network = serve(scenario, ALWAYS)
    assert carried(network) == [(7, b"on", False)] * SENDINGS_MAX
    assert requests(network) == [("given_up", "NotProven")]


def test_a_confirmed_one_waits_for_the_device_even_when_it_is_on_the_air() -> None:
    async def scenario(network: Network) -> None:
        await heard(network)
        ask(network, LOCK)
        await wait(0.1)
        await report(network.west)
        await wait(ACK_US / 1_000_000 + 1)
        assert len(network.west.dnmsgs) == 2
        await network.west.hears(acknowledging(11))
        await wait(2 * ACK_US / 1_000_000)

    network = serve(scenario, ALWAYS)
    assert len(network.west.dnmsgs) == 2
    assert requests(network) == [("done", None)]


def test_an_uplink_meanwhile_does_not_carry_it_too() -> None:
    async def scenario(network: Network) -> None:
        await heard(network)
        ask(network, ON)
        await wait(0.1)
        await network.west.hears(uplink(11, confirmed=True))

    assert carried(serve(scenario, ALWAYS)) == [(7, b"on", False), (None, b"", True)]


def test_it_waits_while_its_station_is_away() -> None:
    async def scenario(network: Network) -> None:
        await heard(network)
        network.west.link.close()
        await wait(0.1)
        ask(network, ON)
        await network.east.hears(uplink(11))
        assert len(network.east.answers) == 1

    serve(scenario, ALWAYS)


def test_a_station_that_leaves_in_mid_sending_ends_it() -> None:
    async def scenario(network: Network) -> None:
        await heard(network)
        ask(network, ON, OFF)
        await wait(0.1)
        network.west.link.close()
        await wait(0.1)
        ask(network, ON)  # nobody waits for the old station's report any more
        await wait(REPORT_US / 1_000_000)
        await network.east.hears(uplink(11))
        await wait(0.1)
        await report(network.east)
        await wait(0.1)
        kinds = [(dnmsg.device_class, parse(dnmsg.pdu)) for dnmsg in network.east.dnmsgs]
        assert [kind for kind, _ in kinds] == [0, 2]

    serve(scenario, ALWAYS)


def test_one_too_long_for_rx2_waits_for_rx1() -> None:
    async def scenario(network: Network) -> None:
        await heard(network)
        ask(network, ApplicationDownlink(7, bytes(52)))
        await wait(1)
        assert network.west.dnmsgs == []
        await heard(network, 11)

    (dnmsg,) = serve(scenario, ALWAYS).west.dnmsgs
    assert (dnmsg.rx1, dnmsg.rx2) == ((5, 868_100_000), None)


class AwayStore(MemoryStore):
    """A store that refuses what it is told to refuse."""

    away = False

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        if self.away:
            raise StoreUnavailable("told to refuse")
        await super().keep_sessions(dev_eui, sessions)


def test_without_a_durable_counter_nothing_leaves_and_no_connection_falls() -> None:
    store = AwayStore()

    async def scenario(network: Network) -> None:
        await heard(network)
        store.away = True
        ask(network, ON)
        await wait(1)
        assert network.west.dnmsgs == []
        store.away = False
        await heard(network, 11)
        assert carried(network) == [(7, b"on", False)]

    serve(scenario, ALWAYS, store=store)


def test_a_restarted_server_uses_no_counter_again() -> None:
    store = MemoryStore()

    async def scenario(network: Network) -> None:
        await heard(network)
        ask(network, ON)
        await wait(0.1)
        await network.restart()
        await heard(network, 11)
        ask(network, OFF)
        await asyncio.sleep(0.1)

    network = serve(scenario, ALWAYS, store=store)
    assert [frame.f_cnt for frame in network.west.answers] == [0, 1]
