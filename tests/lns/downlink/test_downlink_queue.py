"""What an application may ask for, and what becomes of it while it waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lns.downlink.downlink_queue import (
    QUEUE_MAX,
    SENDINGS_MAX,
    ApplicationDownlink,
    DownlinkQueues,
    Refused,
    Waiting,
    parse_request,
    topic_filter,
)
from lns.events import Request
from lns.lorawan.identifiers import Eui

ALPHA = Eui("70B3D57ED0000001")
TOPIC = "lorawan/lns-a/70B3D57ED0000001/down"
ON = ApplicationDownlink(7, b"\x01")
OFF = ApplicationDownlink(7, b"\x00", confirmed=True)


def test_the_topics_of_a_server() -> None:
    assert topic_filter("lns-a") == "lorawan/lns-a/+/down"


@pytest.mark.parametrize(
    ("body", "downlink"),
    [
        ('{"fPort":2,"payload":"c0ffee"}', ApplicationDownlink(2, b"\xc0\xff\xee")),
        ('{"payload":"C0FFEE","fPort":2,"confirmed":false}',
         ApplicationDownlink(2, b"\xc0\xff\xee")),
        ('{"fPort":223,"payload":"","confirmed":true}', ApplicationDownlink(223, b"", True)),
    ],
)  # fmt: skip
def test_a_request_is_read(body: str, downlink: ApplicationDownlink) -> None:
    assert parse_request(TOPIC, body.encode()) == (ALPHA, downlink)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 2000,
        b"\xff\xfe",
        b'{"fPort":2}',
        b'{"payload":"00"}',
        b'{"fPort":0,"payload":"00"}',
        b'{"fPort":224,"payload":"00"}',
        b'{"fPort":2.0,"payload":"00"}',
        b'{"fPort":"2","payload":"00"}',
        b'{"fPort":true,"payload":"00"}',
        b'{"fPort":2,"payload":"0"}',
        b'{"fPort":2,"payload":"xy"}',
        b'{"fPort":2,"payload":null}',
        b'{"fPort":2,"payload":"\xc3\xa9\xc3\xa9"}',
        b'{"fPort":2,"payload":"00","confirmed":1}',
        b'{"fPort":2,"payload":"00","confirmed":null}',
        b'{"fPort":2,"payload":"00","priority":1}',
        b'{"fPort":2,"payload":"' + b"00" * 2048 + b'"}',
    ],
)
def test_anything_else_is_refused(body: bytes) -> None:
    assert isinstance(parse_request(TOPIC, body), Refused)


@pytest.mark.parametrize("topic", ["", "down", "lorawan/lns-a/nobody/down", "a/b/+/down"])
def test_a_topic_without_device_is_refused(topic: str) -> None:
    assert isinstance(parse_request(topic, b'{"fPort":2,"payload":"00"}'), Refused)


@given(st.binary() | st.text().map(str.encode), st.text())
def test_no_request_raises(body: bytes, topic: str) -> None:
    assert parse_request(TOPIC, body) is not None
    assert parse_request(topic, b'{"fPort":2,"payload":"00"}') is not None


class Queues(DownlinkQueues):
    """Queues that keep what they told."""

    def __init__(self) -> None:
        self.told: list[Request] = []
        super().__init__("lns-a", self.told.append)

    @property
    def words(self) -> list[tuple[str, str | None, int | None]]:
        return [(event.stage, event.reason, event.waiting) for event in self.told]


def sent(queues: Queues, until_us: int = 0) -> Waiting:
    due = queues.due(ALPHA, 0)
    assert due is not None
    queues.take(due, until_us)
    return due


def test_the_oldest_is_sent_first_and_done_once() -> None:
    queues = Queues()
    queues.add(ALPHA, ON)
    queues.add(ALPHA, OFF)
    first = sent(queues)
    assert first.downlink is ON
    queues.prove(ALPHA, first)
    queues.prove(ALPHA, first)
    assert sent(queues).downlink is OFF
    assert queues.words == [("queued", None, 1), ("queued", None, 2), ("done", None, 1)]


def test_while_one_is_under_way_no_other_is_due() -> None:
    queues = Queues()
    queues.add(ALPHA, ON)
    queues.add(ALPHA, OFF)
    sent(queues, until_us=100)
    assert queues.due(ALPHA, 99) is None
    again = queues.due(ALPHA, 100)
    assert again is not None and again.downlink is ON


def test_one_without_proof_is_given_up_after_three_sendings() -> None:
    queues = Queues()
    queues.add(ALPHA, ON)
    for _ in range(SENDINGS_MAX):
        sent(queues)
    assert queues.due(ALPHA, 0) is None
    assert queues.words[1:] == [("given_up", "NotProven", 0)]
    assert ALPHA not in queues.devices


def test_one_that_did_not_leave_was_not_sent() -> None:
    queues = Queues()
    queues.add(ALPHA, ON)
    for _ in range(2 * SENDINGS_MAX):
        queues.put_back(sent(queues, until_us=1_000_000))
    assert sent(queues).downlink is ON


def test_an_acknowledgement_is_for_a_confirmed_one_that_was_sent() -> None:
    queues = Queues()
    queues.acknowledge(ALPHA)
    queues.add(ALPHA, OFF)
    queues.acknowledge(ALPHA)
    assert queues.waiting(ALPHA) == 1
    sent(queues)
    queues.acknowledge(ALPHA)
    queues.acknowledge(ALPHA)
    queues.add(ALPHA, ON)
    sent(queues)
    queues.acknowledge(ALPHA)
    assert [stage for stage, _, _ in queues.words] == ["queued", "done", "queued"]


def test_a_full_queue_refuses() -> None:
    queues = Queues()
    assert all(queues.add(ALPHA, ON) for _ in range(QUEUE_MAX))
    assert not queues.add(ALPHA, ON)
    assert queues.words[-1] == ("refused", "QueueFull", QUEUE_MAX)


def test_two_equal_ones_are_two() -> None:
    queues = Queues()
    queues.add(ALPHA, ON)
    queues.add(ALPHA, ON)
    queues.prove(ALPHA, sent(queues))
    assert queues.waiting(ALPHA) == 1
