"""What is read of a message, and why another one cannot be read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lns.delivery.incoming import (
    BODY_BYTES_MAX,
    NUMBER_MAX,
    InboxFull,
    Incoming,
    Offered,
    Unfit,
    Unreadable,
    WaitingMessages,
)
from tests.lns.delivery.arriving import ALPHA, TOPIC, incoming

BODY = (
    b'{"messageId": "70B3D57ED0000001-01ABCDEF-42", "partitionKey": "70B3D57ED0000001",'
    b' "sequenceNumber": 17, "removeDuplicatesKey": "70B3D57ED0000001-01ABCDEF-42",'
    b' "sessionId": "s", "lns": "lns-a", "payload": "c0ffee"}'
)


def of(payload: bytes, **properties: str) -> Incoming | Unreadable:
    return Incoming.of(TOPIC, payload, properties, 1)


def test_the_body_says_which_message_it_is() -> None:
    assert of(BODY) == Incoming(
        bus="mqtt",
        channel=TOPIC,
        qos=1,
        message_id="70B3D57ED0000001-01ABCDEF-42",
        partition_key=ALPHA,
        session_id="s",
        sequence_number=17,
        remove_duplicates_key="70B3D57ED0000001-01ABCDEF-42",
        body=BODY,
    )


def test_user_properties_say_what_the_body_does_not() -> None:
    message = of(
        b'{"temperature": 21.5}',
        messageId="m",
        partitionKey="p",
        sessionId="s",
        sequenceNumber="17",
        removeDuplicatesKey="k",
    )
    assert isinstance(message, Incoming)
    assert message.stream == ("mqtt", TOPIC, 1)
    assert (message.message_id, message.partition_key, message.session_id) == ("m", "p", "s")
    assert (message.sequence_number, message.remove_duplicates_key) == (17, "k")


def test_everything_but_the_id_may_be_absent() -> None:
    assert of(b'{"messageId": "m", "partitionKey": null}') == Incoming(
        channel=TOPIC, message_id="m", body=b'{"messageId": "m", "partitionKey": null}'
    )
    assert of(b"{}", messageId="m", partitionKey="", sequenceNumber="0") == Incoming(
        channel=TOPIC, message_id="m"
    )


@pytest.mark.parametrize(
    ("body", "properties", "reason"),
    [
        (b"", {}, Unfit.NOT_JSON),
        (b"not json", {}, Unfit.NOT_JSON),
        (b'{"messageId": "m"', {}, Unfit.NOT_JSON),
        (b'{"messageId": "m"} {}', {}, Unfit.NOT_JSON),
        (b'{"messageId": "m", "x": "\xff"}', {}, Unfit.NOT_JSON),
        (b'{"messageId": "\\ud800"}', {}, Unfit.NOT_JSON),
        (b'{"messageId": "m", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {}, Unfit.NOT_JSON),
        (b"[]", {"messageId": "m"}, Unfit.WRONG_FIELD),
        (b"42", {"messageId": "m"}, Unfit.WRONG_FIELD),
        (b'{"messageId": 5}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": ""}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "%s"}' % (b"m" * 257), {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m", "partitionKey": ["p"]}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m", "sequenceNumber": 0}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m", "sequenceNumber": -1}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m", "sequenceNumber": "17"}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m", "sequenceNumber": true}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m", "sequenceNumber": 1.5}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m", "sequenceNumber": 9223372036854775808}', {}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m"}', {"sequenceNumber": "1e3"}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m"}', {"sequenceNumber": "-1"}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m"}', {"sequenceNumber": "9" * 19}, Unfit.WRONG_FIELD),
        (b'{"messageId": "m"}', {"sequenceNumber": "9" * 5000}, Unfit.WRONG_FIELD),
        (b"{}", {}, Unfit.NO_MESSAGE_ID),
        (b'{"messageid": "m"}', {}, Unfit.NO_MESSAGE_ID),
        (b'{"messageId": "m"}', {"messageId": "n"}, Unfit.CONTRADICTION),
        (b'{"messageId": "m", "sequenceNumber": 2}', {"sequenceNumber": "1"}, Unfit.CONTRADICTION),
        (b'{"messageId": "%s"}' % (b"m" * BODY_BYTES_MAX), {}, Unfit.TOO_LARGE),
    ],
)
def test_what_cannot_be_read_has_a_reason(
    body: bytes, properties: dict[str, str], reason: Unfit
) -> None:
    message = of(body, **properties)
    assert isinstance(message, Unreadable)
    assert message.reason is reason
    assert (message.channel, message.bytes_count) == (TOPIC, len(body))
    assert len(message.detail) < 200


def test_the_limits_themselves_can_be_read() -> None:
    body = b'{"messageId": "%s", "sequenceNumber": %d}' % (b"m" * 256, NUMBER_MAX)
    message = of(body + b" " * (BODY_BYTES_MAX - len(body)))
    assert isinstance(message, Incoming)
    assert (len(message.message_id), message.sequence_number) == (256, NUMBER_MAX)
    assert (BODY_BYTES_MAX, NUMBER_MAX) == (262_144, 9_223_372_036_854_775_807)


def test_what_cannot_be_read_is_not_repeated() -> None:
    for body in (b'{"messageId": 5, "appKey": "secret"}', b'{"messageId": "m", "appKey": secret'):
        message = of(body)
        assert isinstance(message, Unreadable)
        assert "secret" not in message.detail


FIELDS = st.dictionaries(
    st.sampled_from(["messageId", "partitionKey", "sequenceNumber", "sessionId", "x"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(["m"])),
)


@given(st.one_of(st.binary(max_size=40), FIELDS.map(lambda fields: json.dumps(fields).encode())))
def test_no_message_stops_the_consumer(body: bytes) -> None:
    """Whatever came, it is a message that every store can keep, or it has a reason."""
    message = of(body)
    if isinstance(message, Incoming):
        message.message_id.encode()
        message.partition_key.encode()


def waiting(*streams: str, waiting_max: int = 100) -> WaitingMessages:
    """Messages named by their stream and number, as a0, b1, a2."""
    messages = WaitingMessages(waiting_max)
    for number, stream in enumerate(streams):
        messages.add(incoming(f"{stream}{number}", channel=stream), lambda: None)
    return messages


def ids(taken: list[Offered]) -> list[str]:
    return [offered.message.message_id for offered in taken]  # type: ignore[union-attr]


def later(offered: Offered, due_us: int) -> Offered:
    offered.due_us = due_us
    return offered


def test_messages_are_taken_in_the_order_in_which_they_came() -> None:
    messages = waiting("a", "b", "a", "c")
    first = messages.take(3, 0)
    assert ids(first) == ["a0", "b1", "a2"]
    messages.give_back([])
    assert ids(messages.take(3, 0)) == ["c3"]


def test_one_that_is_not_due_holds_its_stream_and_no_other() -> None:
    messages = waiting("a", "b", "a", "b")
    taken = messages.take(2, 0)
    messages.give_back([later(taken[0], 100)])
    assert ids(messages.take(9, 99)) == ["b3"]
    messages.give_back([])
    assert messages.next_due_us() == 100
    assert ids(messages.take(9, 100)) == ["a0", "a2"]


def test_what_is_given_back_is_where_it_was() -> None:
    messages = waiting("a", "b", "c", "d")
    taken = messages.take(3, 0)
    messages.give_back([taken[2], taken[0]])
    assert ids(messages.take(9, 0)) == ["a0", "c2", "d3"]


def test_one_that_came_meanwhile_stays_behind_its_stream() -> None:
    messages = waiting("a")
    taken = messages.take(1, 0)
    messages.add(incoming("a1", channel="a"), lambda: None)
    messages.give_back([later(taken[0], 100)])
    assert messages.take(9, 0) == []
    assert ids(messages.take(9, 100)) == ["a0", "a1"]


def test_nothing_is_due_when_nothing_waits() -> None:
    assert waiting().next_due_us() is None
    assert waiting("a").next_due_us() == 0


def test_more_than_may_are_not_taken() -> None:
    messages = waiting("a", "a", waiting_max=2)
    messages.take(1, 0)  # what is being decided on waits too
    assert len(messages) == 2
    with pytest.raises(InboxFull, match="2 messages wait"):
        messages.add(incoming("m"), lambda: None)
    messages.give_back([])
    messages.add(incoming("m"), lambda: None)
    assert len(messages) == 2
