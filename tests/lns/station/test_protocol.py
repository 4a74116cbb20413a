import json
from datetime import UTC, datetime

import pytest

from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868
from lns.station.messages import Dnmsg, Jreq, Updf, UpInfo, router_config
from lns.station.protocol import (
    Passed,
    Reception,
    Rejected,
    StationProtocol,
    Transmitted,
    Versioned,
    XtimeSample,
    gps_time_us,
    reception_of,
)
from tests.station_texts import dntxed_text, frame_text, parse_down, version_text, xtime_report_text

PHY = bytes.fromhex("40f17dbe4900020001954378762b11ff0d")
JOIN = bytes.fromhex("0039363463336913aa05693574323831330489c65b1304")
STATION = Eui("0016C001F1500000")
XTIME = 26458648088757040
UTC_NOW = datetime(2026, 11, 20, 16, 13, 38, 887121, tzinfo=UTC)
DNMSG = Dnmsg(
    dev_eui=Eui("0000000011000001"),
    diid=1001,
    pdu=b"\x60" + bytes(11),
    rx1_dr=5,
    rx1_freq_hz=868_100_000,
    rx2_dr=0,
    rx2_freq_hz=869_525_000,
    xtime=XTIME,
)


def server() -> StationProtocol:
    return StationProtocol(EU868, lambda: UTC_NOW)


def test_a_station_is_configured_and_asked_for_its_clock() -> None:
    lns, mux_time = server(), UTC_NOW.timestamp()
    lns.receive_text(version_text("2.0.6(linux/std)", features="rmtsh prod"))
    assert lns.events_received() == [Versioned("2.0.6(linux/std)")]
    asked = {"msgtype": "getxtime", "MuxTime": mux_time}
    said = [json.loads(text) for text in lns.texts_to_send()]
    assert said == [router_config(EU868, mux_time=mux_time), asked]
    lns.receive_text(xtime_report_text(XTIME, mux_time=mux_time, uptime_us=0))
    assert lns.events_received() == [XtimeSample(XTIME)]


def test_an_uplink_arrives_before_the_configuration() -> None:
    lns = server()
    upinfo = UpInfo(rctx=0, xtime=XTIME, rssi_dbm=-51, snr_db=9.5)
    for phy in (PHY, JOIN):
        text = frame_text(phy, dr=5, freq_hz=868_100_000, upinfo=upinfo)
        assert text is not None
        lns.receive_text(text)
    receptions = []
    for event in lns.events_received():
        assert isinstance(event, Updf | Jreq)
        receptions.append(reception_of(event, STATION, arrived_us=7, heard_us=5))
    assert receptions == [
        Reception(STATION, PHY, 5, 868_100_000, -51.0, 9.5, XTIME, 0, 7, 5),
        Reception(STATION, JOIN, 5, 868_100_000, -51.0, 9.5, XTIME, 0, 7, 5),
    ]
    assert lns.texts_to_send() == []


def test_a_downlink_and_its_report() -> None:
    lns = server()
    lns.send_downlink(DNMSG)
    assert [parse_down(text) for text in lns.texts_to_send()] == [DNMSG]
    at = {"dr": 5, "freq_hz": 868_100_000, "xtime": XTIME + 10**6}
    lns.receive_text(dntxed_text(DNMSG, txtime=2.5, **at))
    assert lns.events_received() == [Transmitted(1001, Eui("0000000011000001"), **at)]


def test_timesync_is_answered_with_gps_time() -> None:
    lns = server()
    lns.receive_text('{"msgtype":"timesync","txtime":5215431914}')
    (text,) = lns.texts_to_send()
    assert json.loads(text) == {
        "msgtype": "timesync",
        "txtime": 5215431914,
        # The recorded answer of the same moment, whole seconds.
        "gpstime": 1479226436887117 + 4,
        "MuxTime": UTC_NOW.timestamp(),
    }
    assert gps_time_us(datetime(1980, 1, 6, tzinfo=UTC)) == 18_000_000


@pytest.mark.parametrize("text", ["{", '{"msgtype":"updf"}', '{"msgtype":"jreq","MHdr":"x"}'])
def test_a_broken_reception_is_an_event(text: str) -> None:
    lns = server()
    lns.receive_text(text)
    (event,) = lns.events_received()
    assert isinstance(event, Rejected)
    assert event.reception


@pytest.mark.parametrize(
    ("text", "msgtype"),
    [('{"msgtype":"alarm"}', "alarm"), ('{"msgtype":7}', ""),
     ('{"router":"::1"}', "router-info"),
     ('{"msgtype":"propdf","FRMPayload":"E001","DR":0,"Freq":1}', "propdf")],
)  # fmt: skip
def test_what_a_server_has_no_use_for(text: str, msgtype: str) -> None:
    lns = server()
    lns.receive_text(text)
    assert lns.events_received() == [Passed(msgtype)]


@pytest.mark.parametrize(
    ("text", "msgtype"),
    [("[]", ""), ('{"msgtype":"dntxed"}', "dntxed"), ('{"msgtype":"getxtime"}', "getxtime"),
     ('{"msgtype":"timesync","txtime":"x"}', "timesync"), ('{"router":7.5}', ""),
     ('{"msgtype":"propdf"}', "propdf")],
)  # fmt: skip
def test_a_broken_message_that_is_no_reception_is_an_event(text: str, msgtype: str) -> None:
    lns = server()
    lns.receive_text(text)
    (event,) = lns.events_received()
    assert isinstance(event, Rejected)
    assert (event.msgtype, event.reception) == (msgtype, False)


def test_a_version_that_cannot_be_read_is_told_and_answered() -> None:
    lns = server()
    lns.receive_text('{"msgtype":"version","station":null}')
    rejected, versioned = lns.events_received()
    assert isinstance(rejected, Rejected) and rejected.msgtype == "version"
    assert versioned == Versioned("of a version that cannot be read")
    assert "router_config" in lns.texts_to_send()[0]


def test_a_station_whose_radio_has_just_started_has_no_clock_to_show() -> None:
    lns = server()
    lns.receive_text('{"msgtype":"getxtime","MuxTime":0.0,"xtimes":[0,0,0,0]}')
    assert lns.events_received() == [XtimeSample(0)]
    lns.ask_xtime()
    asked = {"msgtype": "getxtime", "MuxTime": UTC_NOW.timestamp()}
    assert [json.loads(text) for text in lns.texts_to_send()] == [asked]
