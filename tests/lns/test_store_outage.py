"""What a store that is away does: nothing is answered that a restart would not know of."""

import logging
from dataclasses import replace

import pytest

from lns.clock import StoreUnavailable
from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.lorawan.identifiers import Eui
from lns.store.memory import MemoryStore
from lns.uplink.registry import EndDevice, LoRaWanVersion
from tests.lns.served_network import ALPHA, GAMMA, Network, serve, uplink, wait
from tests.lns.uplink.test_join import request, session_of

FRAME = uplink(10, confirmed=True)


class FailingStore(MemoryStore):
    """A store in memory that can be away, at once or after `late_us`; counts what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.late_us = 0
        self.fails_at: int | None = None
        self.asked = 0

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        as_they_are = tuple(session.snapshot() for session in sessions)
        await self._fail()
        await super().keep_sessions(dev_eui, as_they_are)

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        as_they_are = tuple(session.snapshot() for session in sessions)
        await self._fail()
        return await super().keep_join(dev_eui, dev_nonce, as_they_are)

    async def _fail(self) -> None:
        self.asked += 1
        away = self.away or self.asked == self.fails_at
        if self.late_us:
            await wait(self.late_us / 1_000_000)
        if away:
            raise StoreUnavailable("the store is told to be away")


@pytest.mark.fault("store", "lost")
@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "unconfirmed"])
def test_an_uplink_is_forwarded_but_not_answered(confirmed: bool) -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        store.away = True
        await network.west.hears(uplink(10, confirmed=confirmed))

    network = serve(scenario, store=store)
    answer = "Suppressed" if confirmed else "NotAsked"
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", answer)]
    assert network.application.ids == ["70B3D57ED0000001-01ABCDEF-10"]
    assert network.west.dnmsgs == []


@pytest.mark.fault("store", "late")
def test_nobody_else_waits_for_a_store_that_is_slow_to_fail() -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        store.away, store.late_us = True, 250_000
        await network.west.hears(FRAME)
        store.away, store.late_us = False, 0
        await network.west.hears(uplink(11, confirmed=True))
        assert [words[2:] for words in network.words] == [("forwarded", "-", "RX1")]
        await wait(0.25)

    network = serve(scenario, store=store)
    assert [words[4] for words in network.words] == ["RX1", "Suppressed"]
    assert len(network.application.ids) == 2


@pytest.mark.fault("store", "late")
def test_a_store_that_never_says_anything_is_given_up() -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        store.late_us = 10_000_000
        await network.west.hears(FRAME)
        await network.west.hears(request(7))
        await wait(2)
        assert len(network.words) == 2
        store.late_us = 0
        await network.west.hears(uplink(11, confirmed=True))

    network = serve(scenario, ALPHA, GAMMA, store=store)
    assert [words[2:] for words in network.words] == [
        ("forwarded", "-", "Suppressed"),
        ("dropped", "StoreUnavailable", "Suppressed"),
        ("forwarded", "-", "RX1"),
    ]


def test_the_next_uplink_is_answered_when_the_store_is_back() -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        store.away = True
        await network.west.hears(FRAME)
        store.away = False
        await network.west.hears(uplink(11, confirmed=True))

    network = serve(scenario, store=store)
    assert network.words[1] == ("west", "NonDuplicate", "forwarded", "-", "RX1")
    [kept] = store.sessions(ALPHA.dev_eui)
    assert kept.f_cnt_up == 11


def test_the_outage_does_not_use_up_the_answers_to_a_repeated_frame() -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        store.away = True
        for _ in range(6):
            await network.west.hears(FRAME)
        store.away = False
        for _ in range(4):
            await network.west.hears(FRAME)

    network = serve(scenario, replace(ALPHA, strategy=Strategy.DROP), store=store)
    assert [words[4] for words in network.words] == [
        *["Suppressed"] * 6,
        *["RX1"] * 3,
        "Suppressed",
    ]
    assert network.words[-1][3] == "ResubmissionLimit"
    assert len(network.application.ids) == 1


def test_no_downlink_counter_is_used_twice() -> None:
    """One that could not be kept does not leave, and is not used again either."""
    store = FailingStore()

    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        store.fails_at = store.asked + 1
        await network.west.hears(uplink(11, confirmed=True))
        await network.west.hears(uplink(12, confirmed=True))

    network = serve(scenario, store=store)
    assert [words[4] for words in network.words] == ["RX1", "Suppressed", "RX1"]
    assert [frame.f_cnt for frame in network.west.answers] == [0, 2]


@pytest.mark.parametrize("fails_at", range(1, 5))
def test_whichever_write_fails_nothing_is_answered_that_was_not_kept(fails_at: int) -> None:
    """A restart after every single write finds every counter that left the server."""
    store = FailingStore()
    store.fails_at = fails_at

    async def scenario(network: Network) -> None:
        for f_cnt in (10, 10, 11, 12):
            answers = len(network.west.answers)
            await network.west.hears(uplink(f_cnt, confirmed=True))
            if len(network.west.answers) > answers:
                [kept] = store.sessions(ALPHA.dev_eui)
                assert kept.f_cnt_up == f_cnt
                assert kept.f_cnt_down == network.west.answers[-1].f_cnt + 1

    network = serve(scenario, store=store)
    counters = [frame.f_cnt for frame in network.west.answers]
    assert counters == sorted(set(counters))
    assert len(counters) == 3
    assert {words[2] for words in network.words} == {"forwarded"}


def test_an_outage_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        store.away = True
        for f_cnt in range(5):
            await network.west.hears(uplink(f_cnt, confirmed=True))
        store.away = False
        for f_cnt in range(5, 8):
            await network.west.hears(uplink(f_cnt, confirmed=True))

    with caplog.at_level(logging.INFO, "lns.uplink.registry"):
        serve(scenario, store=store)
    assert [
        record.getMessage() for record in caplog.records if record.name == "lns.uplink.registry"
    ] == [
        "the store is told to be away; devices are not answered until it is back",
        "the store is back",
    ]


OTAA = [replace(GAMMA, lorawan=version) for version in LoRaWanVersion]


@pytest.mark.fault("store", "lost")
@pytest.mark.parametrize("device", OTAA, ids=lambda device: str(device.lorawan))
@pytest.mark.parametrize("station", ["west", "east"])
@pytest.mark.parametrize("dev_nonce", [7, 8], ids=["the same", "the next"])
def test_a_join_is_not_accepted_and_the_next_try_is(
    device: EndDevice, station: str, dev_nonce: int
) -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        store.away = True
        await network.west.hears(request(7))
        store.away = False
        through = getattr(network, station)
        await through.hears(request(dev_nonce))
        [dnmsg] = through.dnmsgs
        dev_addr, keys = session_of(dnmsg, dev_nonce)
        await through.hears(uplink(0, keys=keys, dev_addr=dev_addr, confirmed=True))

    network = serve(scenario, device, store=store)
    assert network.words == [
        ("west", "NonDuplicate", "dropped", "StoreUnavailable", "Suppressed"),
        (station, "NonDuplicate", "dropped", "-", "RX1"),
        (station, "NonDuplicate", "forwarded", "-", "RX1"),
    ]
    assert store.dev_nonces(GAMMA.dev_eui) == {dev_nonce}


def test_a_session_stays_in_use_when_the_next_join_is_not_kept() -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        dev_addr, keys = session_of(network.west.dnmsgs[0], 7)
        await network.west.hears(uplink(0, keys=keys, dev_addr=dev_addr))
        store.away = True
        await network.west.hears(request(8))
        store.away = False
        await network.west.hears(uplink(1, keys=keys, dev_addr=dev_addr))
        await network.restart()
        await network.west.hears(uplink(2, keys=keys, dev_addr=dev_addr))

    network = serve(scenario, GAMMA, store=store)
    assert [words[2] for words in network.words] == [
        "dropped",
        "forwarded",
        "dropped",
        "forwarded",
        "forwarded",
    ]
    [kept] = store.sessions(GAMMA.dev_eui)
    assert kept.f_cnt_up == 2


def test_a_session_that_nobody_has_used_yet_outlives_a_join_that_is_not_kept() -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        dev_addr, keys = session_of(network.west.dnmsgs[0], 7)
        store.away = True
        await network.west.hears(request(8))
        store.away = False
        await network.west.hears(uplink(0, keys=keys, dev_addr=dev_addr))

    network = serve(scenario, GAMMA, store=store)
    assert [words[2:4] for words in network.words] == [
        ("dropped", "-"),
        ("dropped", "StoreUnavailable"),
        ("forwarded", "-"),
    ]


def test_a_join_that_fails_while_another_is_kept_takes_only_itself_back() -> None:
    store = FailingStore()

    async def scenario(network: Network) -> None:
        store.away, store.late_us = True, 250_000
        await network.west.hears(request(7))
        store.away, store.late_us = False, 0
        await network.west.hears(request(8))
        await wait(0.25)
        dev_addr, keys = session_of(network.west.dnmsgs[0], 8)
        await network.west.hears(uplink(0, keys=keys, dev_addr=dev_addr))

    network = serve(scenario, GAMMA, store=store)
    assert [words[2:4] for words in network.words] == [
        ("dropped", "-"),
        ("dropped", "StoreUnavailable"),
        ("forwarded", "-"),
    ]
