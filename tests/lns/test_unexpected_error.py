"""One unexpected error is one outcome or one event; nobody else loses anything."""

import asyncio
from datetime import datetime

import pytest

from bench.clock import run
from lns.dedup.session import Session
from lns.delivery.publisher import Message
from lns.downlink.downlink_queue import ApplicationDownlink
from lns.events import Failure
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, parse
from lns.lorawan.identifiers import DevAddr, Eui
from lns.store.memory import MemoryStore
from lns.uplink.registry import Activation, DeviceClass, EndDevice
from tests.lns.served_network import (
    ALPHA,
    EPOCH,
    START_US,
    Application,
    Network,
    uplink,
    wait,
)
from tests.station_texts import version_text

OTHER_KEYS = SessionKeys(bytes(16), bytes(range(16)))
BRAVO = EndDevice(
    name="bravo",
    dev_eui=Eui("70B3D57ED0000002"),
    activation=Activation.ABP,
    dev_addr=DevAddr("01ABCD00"),
    session_keys=OTHER_KEYS,
)
CHARLIE = EndDevice(
    name="charlie",
    dev_eui=Eui("70B3D57ED0000004"),
    activation=Activation.ABP,
    dev_addr=DevAddr("01ABCD01"),
    session_keys=OTHER_KEYS,
    device_class=DeviceClass.C,
)
SECRET = "the key is 00112233"
GOOD = ("west", "NonDuplicate", "forwarded", "-", "RX1")


class Broken(Application):
    """Fails for some messages in a way that nobody has foreseen."""

    def __init__(self, *f_cnts: int) -> None:
        super().__init__()
        self._f_cnts = list(f_cnts)

    async def publish(self, message: Message) -> None:
        await asyncio.sleep(0.001)
        if message.f_cnt in self._f_cnts:
            self._f_cnts.remove(message.f_cnt)
            raise ZeroDivisionError(SECRET)
        await super().publish(message)


class Breaking(MemoryStore):
    """Fails, when it is told to, in a way that nobody has foreseen."""

    is_broken = False

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        if self.is_broken:
            raise ZeroDivisionError(SECRET)
        await super().keep_sessions(dev_eui, sessions)


def played(network: Network, scenario: object) -> Network:
    run(network.play(scenario), start_us=START_US)  # type: ignore[arg-type]
    return network


def failures(network: Network) -> list[Failure]:
    return [event for event in network.events if isinstance(event, Failure)]


def with_session(device: EndDevice, **counters: int) -> MemoryStore:
    """A store that a broken program wrote to."""
    assert device.dev_addr is not None and device.session_keys is not None
    session = Session(
        dev_eui=device.dev_eui,
        dev_addr=device.dev_addr,
        keys=device.session_keys,
        **counters,  # type: ignore[arg-type]
    )
    store = MemoryStore()
    store.preset(device.dev_eui, (session,))
    return store


def test_an_error_in_one_reception_is_one_outcome_and_the_station_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network(ALPHA)
    network.application = Broken(10)
    network.server = network._server()

    async def scenario(network: Network) -> None:
        for f_cnt in (10, 11):
            await network.west.hears(uplink(f_cnt, confirmed=True))
            await wait(0.1)

    played(network, scenario)
    assert network.words == [("west", "-", "dropped", "InternalError", "NotAsked"), GOOD]
    [failure] = failures(network)
    assert (failure.station, failure.during) == (network.west.eui, "reception")
    first, second = network.outcomes
    frame = parse(uplink(10, confirmed=True))
    assert isinstance(frame, Data)
    assert failure.frame_id == first.frame_id == frame.frame_id
    assert None not in (first.xtime, second.xtime)
    assert failure.error.startswith("ZeroDivisionError at test_unexpected_error.py:")
    assert SECRET not in repr(network.events) + caplog.text
    assert "uplink/data.py" in caplog.text


@pytest.mark.parametrize(
    "text", ['{"msgtype":"timesync","txtime":1}', version_text("2.0.6(linux/std)")]
)
def test_an_error_in_one_text_loses_that_text_and_the_station_stays(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_broken = False

    def utc() -> datetime:
        if is_broken:
            raise ZeroDivisionError(SECRET)
        return EPOCH

    async def scenario(network: Network) -> None:
        nonlocal is_broken
        is_broken = True
        await network.west.says(text)
        is_broken = False
        await network.west.hears(uplink(10, confirmed=True))
        await wait(0.1)

    network = played(Network(ALPHA, utc=utc), scenario)
    assert network.words == [GOOD]
    [failure] = failures(network)
    assert (failure.station, failure.during) == (network.west.eui, "message")
    assert failure.error.startswith("ZeroDivisionError at test_unexpected_error.py:")
    assert SECRET not in repr(network.events) + caplog.text


def test_a_first_copy_that_failed_unexpectedly_shadows_no_other_copy() -> None:
    network = Network(ALPHA)
    network.application = Broken(10)
    network.server = network._server()

    async def scenario(network: Network) -> None:
        frame = uplink(10, confirmed=True)
        await asyncio.gather(network.west.hears(frame), network.east.hears(frame))
        await wait(0.1)
        await network.west.hears(uplink(11, confirmed=True))
        await wait(0.1)

    played(network, scenario)
    assert network.words == [
        ("west", "-", "dropped", "InternalError", "NotAsked"),
        ("east", "NonDuplicate", "forwarded", "-", "RX1"),
        GOOD,
    ]
    assert [message.f_cnt for message in network.application.messages] == [10, 11]


@pytest.mark.parametrize("counters", [{"f_cnt_up": 1 << 40}, {"f_cnt_down": 1 << 32}])
def test_a_session_nobody_can_use_costs_its_own_frames_only(counters: dict[str, int]) -> None:
    network = Network(ALPHA, BRAVO, store=with_session(BRAVO, **counters))

    async def scenario(network: Network) -> None:
        frame = uplink(10, confirmed=True, keys=OTHER_KEYS, dev_addr=DevAddr("01ABCD00"))
        await network.west.hears(frame)
        await network.west.hears(uplink(10, confirmed=True))

    played(network, scenario)
    [ours] = [outcome for outcome in network.outcomes if outcome.dev_eui == ALPHA.dev_eui]
    assert (ours.reason, ours.answer) == (None, "RX1")
    assert len(network.outcomes) == 2


def test_an_error_in_a_downlink_at_once_is_one_event() -> None:
    store = Breaking()
    network = Network(ALPHA, CHARLIE, store=store)

    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(5, keys=OTHER_KEYS, dev_addr=DevAddr("01ABCD01")))
        store.is_broken = True
        network.server.enqueue(CHARLIE.dev_eui, ApplicationDownlink(2, b"\x01", False))
        await wait(0.1)
        store.is_broken = False
        await network.west.hears(uplink(10, confirmed=True))

    played(network, scenario)
    assert {failure.during for failure in failures(network)} == {"downlink"}
    assert network.words[-1] == GOOD
