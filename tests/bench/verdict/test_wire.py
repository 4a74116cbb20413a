"""What the bench reads of a station is what the protocol says, read a second time."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.verdict.wire import (
    gps_us,
    is_plain,
    is_reception,
    json_of,
    unreadable_type,
    uplink_of,
)
from lns.lorawan.frame import Data, JoinRequest, parse
from lns.station.messages import Jreq, Updf, parse_up

INFO = {"rctx": 0, "xtime": 5, "gpstime": 0, "rssi": -50, "snr": 9.25, "rxtime": 1.0}
UPDF = {
    "msgtype": "updf", "MHdr": 64, "DevAddr": -2, "FCtrl": 1, "FCnt": 5, "FOpts": "02", "FPort": 2,
    "FRMPayload": "abCD", "MIC": -5, "RefTime": 0.0, "DR": 5, "Freq": 868_100_000, "upinfo": INFO,
}  # fmt: skip
JREQ = {
    "msgtype": "jreq", "MHdr": 0, "JoinEui": "70-B3-D5-7E-D0-00-00-00",
    "DevEui": "70B3:D57E:D000:1", "DevNonce": 7, "MIC": 99, "RefTime": 0.0, "DR": 5,
    "Freq": 868_100_000, "upinfo": INFO,
}  # fmt: skip
EDGES = [0, 1, 15, 16, 127, 128, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1, 2**32, 2**63, 2**64]
ODD: list[Any] = [
    None, True, False, *EDGES, *(-n for n in EDGES), 1.0, 1.5, 868_100_000.0,
    "", "0", "zz", "02", "0203" * 10, "aaa", "ab" * 300, "::1", "1:2:3:4", [], [1], {},
]  # fmt: skip


def seen_by_server(text: str) -> object:
    message = parse_up(text)
    if not isinstance(message, Updf | Jreq):
        return None
    info = message.upinfo
    facts = message.dr, message.freq_hz, info.rctx, info.rssi_dbm, info.snr_db
    frame = parse(message.phy())
    assert isinstance(frame, Data | JoinRequest)
    return frame.frame_id, info.xtime, message.phy(), *facts


def seen_here(text: str) -> object:
    uplink = uplink_of("0016C001F1500001", 0, 0, text)
    if uplink is None:
        return None
    facts = uplink.dr, uplink.freq_hz, uplink.rctx, uplink.rssi, uplink.snr
    return uplink.frame_id, uplink.xtime, uplink.phy, *facts


@pytest.mark.parametrize("text", [UPDF, JREQ], ids=["updf", "jreq"])
def test_both_read_the_same_in_a_good_text(text: dict[str, Any]) -> None:
    assert seen_here(json.dumps(text)) == seen_by_server(json.dumps(text)) is not None


@pytest.mark.parametrize("text", [UPDF, JREQ], ids=["updf", "jreq"])
def test_nothing_is_read_here_that_a_server_refuses(text: dict[str, Any]) -> None:
    """What is not read here is judged by the server's own reader."""
    odd = [{**text, name: value} for name in text for value in ODD]
    odd += [{**text, "upinfo": {**INFO, name: value}} for name in INFO for value in ODD]
    for one in map(json.dumps, odd):
        here = seen_here(one)
        assert here is None or here == seen_by_server(one), one


def test_what_json_does_not_know_is_no_json() -> None:
    for text in ('{"a": NaN}', '{"a": Infinity}', '{"a": 1e999}', '{"a": "\\ud800"}', "{", "["):
        assert json_of(text) is None
        assert is_reception(text)
        assert unreadable_type(text) is None
    assert json_of('{"a": 1.5}') == {"a": 1.5}


def test_a_message_that_lacks_what_its_kind_needs_is_unreadable() -> None:
    assert unreadable_type("[1]") == ""
    assert unreadable_type('{"msgtype": "version"}') == "version"
    assert unreadable_type('{"msgtype": "version", "station": "2.0.6"}') is None
    assert unreadable_type('{"msgtype": "dntxed", "seqno": 1, "DevEUI": "", "DR": 0}') == "dntxed"
    assert unreadable_type('{"msgtype": 5}') is None
    assert unreadable_type('{"msgtype": "updf"}') is None


def test_gps_time_is_ahead_of_utc() -> None:
    assert gps_us(datetime(2026, 11, 22, tzinfo=UTC)) == 1_479_340_818_000_000


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('{"msgtype":"dntxed","diid":-1,"DevEui":"::1","DR":5,"Freq":1,"txtime":0.5}', True),
        ('{"msgtype":"getxtime","xtimes":[7,0],"MuxTime":1.5}', True),
        ('{"msgtype":"timesync","txtime":-1}', True),
        ('{"msgtype":"timesync","txtime":0.5}', False),
        ('{"msgtype":"timesync","txtime":9223372036854775808}', False),
        ('{"msgtype":"getxtime","xtimes":[-1]}', False),
        ('{"msgtype":"getxtime","xtimes":["7"]}', False),
        ('{"msgtype":"dntxed","diid":1,"DevEui":"nobody","DR":5,"Freq":1}', False),
        ('{"msgtype":"timesync","txtime":1,"more":"7"}', False),
        ('{"msgtype":"version","station":"2.0.6"}', False),
        ('{"msgtype":7}', False),
        ("{}", False),
        ("[", False),
    ],
)
def test_what_everybody_can_read(text, plain):
    assert is_plain(text) is plain
