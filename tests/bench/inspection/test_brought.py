"""What names a message is read from its octets as a consumer has to read it."""

import json
import re
from collections.abc import Mapping

import pytest

from bench.inspection.consumer import Brought
from lns.delivery import Incoming

DEEP = b'{"messageId": "a", "n": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
NAMED = '{"messageId": "a", %s}'


@pytest.mark.parametrize(
    ("payload", "properties", "unfit"),
    [
        (b'{"messageId": "a"}' + b" " * 262_127, {}, "TooLarge"),
        (b'{"messageId": "a"}' + b" " * 262_126, {}, None),
        (b'{"messageId": "a", "n": "\xff"}', {}, "NotJson"),
        (b'{"messageId": "a"', {}, "NotJson"),
        (DEEP, {}, "NotJson"),
        (b'["a"]', {}, "WrongField"),
        (NAMED % '"partitionKey": "", "sequenceNumber": "1"', {}, "WrongField"),
        (NAMED % '"sequenceNumber": 0', {}, "WrongField"),
        (NAMED % '"sequenceNumber": "1"', {}, "WrongField"),
        (NAMED % '"partitionKey": ""', {}, "WrongField"),
        (NAMED % '"partitionKey": null', {"partitionKey": "p"}, None),
        (NAMED % '"removeDuplicatesKey": 1', {}, "WrongField"),
        ("{}", {"messageId": "a", "sequenceNumber": "x"}, "WrongField"),
        ("{}", {"messageId": "a" * 257}, "WrongField"),
        ("{}", {"messageId": "a", "sequenceNumber": "9" * 20}, "WrongField"),
        ("{}", {"messageId": "a", "sequenceNumber": "0"}, None),
        (NAMED % '"n": 1', {"messageId": "b"}, "Contradiction"),
        (NAMED % '"sequenceNumber": 1', {"sequenceNumber": "2"}, "Contradiction"),
        ("{}", {"messageId": ""}, "NoMessageId"),
    ],
)
def test_a_message_is_read_as_consumers_read_it(
    payload: bytes | str, properties: Mapping[str, str], unfit: str | None
) -> None:
    octets = payload if isinstance(payload, bytes) else payload.encode()
    brought = Brought.of(octets, properties)
    assert (brought.unfit, brought.octets) == (unfit, len(octets))
    read = Incoming.of("up", octets, properties, 1)
    if isinstance(read, Incoming):
        facts = {"sequence_number": read.sequence_number, "key": read.remove_duplicates_key}
        facts |= {"message_id": read.message_id, "partition_key": read.partition_key}
        assert {name: brought.facts.get(name) for name in facts} == facts
    else:
        assert read.reason.value == unfit and brought.detail in (None, read.detail)
        assert re.fullmatch(brought.pattern or ".*", read.detail)


def test_where_no_library_words_it_what_is_said_of_a_message_is_known() -> None:
    octets = "°C \udcff".encode("utf-8", "surrogateescape")
    assert Brought.of(octets).detail == "no UTF-8 at octet 4"
    assert Brought.of(b"{}").detail == "neither body nor user properties name one"
    assert Brought.of(b"{").detail is None
    differs = Brought.of(b'{"messageId": "a", "sessionId": "p"}', {"sessionId": "q"})
    assert differs.detail == "body and user properties differ: session_id"


@pytest.mark.parametrize(
    ("session", "unfit"),
    [("p", None), ("q", "SessionIsNotPartition"), (None, "SessionIsNotPartition")],
)
def test_with_sessions_a_session_is_a_partition(session: str | None, unfit: str | None) -> None:
    body = {"messageId": "a", "partitionKey": "p", "sessionId": session}
    assert Brought.of(json.dumps(body).encode(), sessions=True).unfit == unfit
    assert Brought.of(json.dumps(body).encode()).unfit is None
