"""The question of a station to CUPS, and the bytes it gets."""

import json

import pytest

from bench.host.lns_files import Authority
from lns.lorawan.identifiers import Eui
from lns.station.cups import NO_CHANGE, Category, StationFiles, UpdateRequest, answer, parse_request
from lns.station.messages import Malformed

# As a real station asked, with the version it was.
ASKED = (
    b'{"router":"16:c001:f150:1","cupsUri":"http://127.0.0.1:16122","tcUri":null,'
    b'"cupsCredCrc":2077607535,"tcCredCrc":2077607535,'
    b'"station":"2.0.6(linux/testsim) 2026-11-20 15:01:02","model":"linux",'
    b'"package":null,"keys":[4154008533]}'
)
TRUST = Authority().certificate


def asked(**changed: object) -> UpdateRequest:
    request = parse_request(json.dumps(json.loads(ASKED) | changed).encode())
    assert isinstance(request, UpdateRequest)
    return request


def test_a_recorded_question_is_read() -> None:
    assert parse_request(ASKED) == UpdateRequest(
        router=Eui("0016C001F1500001"),
        cups_uri="http://127.0.0.1:16122",
        tc_uri=None,
        cups_crc=2077607535,
        tc_crc=2077607535,
        station="2.0.6(linux/testsim) 2026-11-20 15:01:02",
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 16_000,
        b'{"router":"::1"}',
        ASKED.replace(b'"16:c001:f150:1"', b"[]"),
        ASKED.replace(b"null,", b"7,", 1),
        ASKED.replace(b"2077607535", b'"2077607535"', 1),
        ASKED.replace(b"2077607535", b"-1"),
        ASKED.replace(b"2077607535", b"4294967296"),
        ASKED.replace(b"2077607535", b"true"),
    ],
)
def test_a_question_that_cannot_be_read_is_malformed(body: bytes) -> None:
    assert isinstance(parse_request(body), Malformed)


def test_fourteen_zero_bytes_change_nothing() -> None:
    given = answer(asked(), cups=Category(), tc=Category())
    assert (given.body, given.changes) == (NO_CHANGE, ())
    assert len(NO_CHANGE) == 14


def test_a_uri_that_differs_is_handed_out() -> None:
    tc = Category.of("ws://h:1", StationFiles())
    given = answer(asked(), cups=Category(), tc=tc)
    assert given.body == b"\x00" + b"\x08ws://h:1" + bytes(12)
    assert given.changes == ("TC URI",)
    assert answer(asked(tcUri="ws://h:1"), cups=Category(), tc=tc).body == NO_CHANGE


def test_credentials_come_with_a_length_of_two_bytes_little_endian() -> None:
    files = StationFiles(TRUST, b"", b"Authorization: Bearer x")
    segment = files.segment()
    size = len(segment).to_bytes(2, "little")
    tc = Category.of(None, files)
    assert answer(asked(), cups=Category(), tc=tc).body == bytes(4) + size + segment + bytes(8)
    given = answer(asked(), cups=tc, tc=Category())
    assert given.body == bytes(2) + size + segment + bytes(2) + bytes(8)
    assert given.changes == ("CUPS credentials",)


def test_credentials_that_a_station_has_are_not_sent_again() -> None:
    files = StationFiles(TRUST)
    tc = Category.of(None, files)
    for crc in (files.crc(), StationFiles(files.segment()[:-8]).crc()):
        assert answer(asked(tcCredCrc=crc), cups=Category(), tc=tc).body == NO_CHANGE
    assert answer(asked(tcCredCrc=1), cups=Category(), tc=tc).changes == ("TC credentials",)


def test_a_fingerprint_has_32_bits() -> None:
    assert asked(cupsCredCrc=0xFFFFFFFF, tcCredCrc=0).cups_crc == 0xFFFFFFFF


def test_a_uri_of_more_than_a_byte_can_count_is_refused() -> None:
    longest = "ws://" + "h" * 248 + ":1"
    assert Category.of(longest, StationFiles()).uri_for(None) == longest.encode()
    with pytest.raises(ValueError, match="255"):
        Category.of("ws://" + "h" * 249 + ":1", StationFiles())
