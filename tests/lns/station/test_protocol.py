import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868, US915
from lns.station.messages import Dnmsg, Jreq, Updf, UpInfo
from lns.station.protocol import (
    Configured,
    DownlinkWanted,
    Passed,
    Reception,
    Rejected,
    Side,
    StationProtocol,
    TimeTold,
    Transmitted,
    Versioned,
    XtimeSample,
    gps_time_us,
    reception_of,
)
from lns.station.spelling import dntxed_text, router_config
from tests.sizes import size

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
    return StationProtocol(Side.LNS, region=EU868, utc=lambda: UTC_NOW)


def station() -> StationProtocol:
    return StationProtocol(Side.STATION, xtime_now=lambda: XTIME)


def carry(sender: StationProtocol, receiver: StationProtocol) -> list[object]:
    for text in sender.texts_to_send():
        receiver.receive_text(text)
    return list(receiver.events_received())


def test_a_station_is_configured_and_asked_for_its_clock() -> None:
    lns, gateway = server(), station()
    gateway.send_version(features="rmtsh prod")
    assert carry(gateway, lns) == [Versioned("2.0.6(linux/std)", ("rmtsh", "prod"))]
    mux_time = UTC_NOW.timestamp()
    config = router_config(EU868, mux_time=mux_time)
    told = TimeTold(mux_time)
    assert carry(lns, gateway) == [told, Configured(config), told]
    assert carry(gateway, lns) == [XtimeSample(XTIME)]


def test_an_uplink_arrives_before_the_configuration() -> None:
    lns, gateway = server(), station()
    upinfo = UpInfo(rctx=0, xtime=XTIME, rssi_dbm=-51, snr_db=9.5)
    gateway.send_uplink(PHY, dr=5, freq_hz=868_100_000, upinfo=upinfo)
    gateway.send_uplink(JOIN, dr=5, freq_hz=868_100_000, upinfo=upinfo)
    receptions = []
    for event in carry(gateway, lns):
        assert isinstance(event, Updf | Jreq)
        receptions.append(reception_of(event, STATION, arrived_us=7, heard_us=5))
    assert receptions == [
        Reception(STATION, PHY, 5, 868_100_000, -51.0, 9.5, XTIME, 0, 7, 5),
        Reception(STATION, JOIN, 5, 868_100_000, -51.0, 9.5, XTIME, 0, 7, 5),
    ]
    assert lns.texts_to_send() == []


def test_a_frame_that_a_station_keeps_is_not_sent() -> None:
    gateway = station()
    gateway.send_uplink(PHY[:5], dr=5, freq_hz=868_100_000, upinfo=UpInfo())
    assert gateway.texts_to_send() == []


def test_a_downlink_and_its_report() -> None:
    lns, gateway = server(), station()
    lns.send_downlink(DNMSG)
    assert carry(lns, gateway) == [DownlinkWanted(DNMSG)]
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


def test_a_server_without_a_wall_clock_tells_no_time() -> None:
    lns = StationProtocol(Side.LNS, region=US915)
    lns.receive_text('{"msgtype":"timesync","txtime":1}')
    assert lns.texts_to_send() == []
    lns.receive_text('{"msgtype":"version","station":"x"}')
    assert [json.loads(text).get("MuxTime") for text in lns.texts_to_send()] == [None, None]


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
     ('{"msgtype":"version"}', "version"), ('{"msgtype":"propdf"}', "propdf")],
)  # fmt: skip
def test_a_broken_message_that_is_no_reception_is_an_event(text: str, msgtype: str) -> None:
    lns = server()
    lns.receive_text(text)
    (event,) = lns.events_received()
    assert isinstance(event, Rejected)
    assert (event.msgtype, event.reception) == (msgtype, False)


def test_a_station_whose_radio_has_just_started_has_no_clock_to_show() -> None:
    lns = server()
    lns.receive_text('{"msgtype":"getxtime","MuxTime":0.0,"xtimes":[0,0,0,0]}')
    assert lns.events_received() == [XtimeSample(0)]
    lns.ask_xtime()
    asked = {"msgtype": "getxtime", "MuxTime": UTC_NOW.timestamp()}
    assert [json.loads(text) for text in lns.texts_to_send()] == [asked]


@pytest.mark.parametrize(
    ("text", "msgtype"),
    [('{"msgtype":"error","error":"x"}', "error"), ("{", ""), ('{"msgtype":"dnmsg"}', "dnmsg"),
     ('{"msgtype":"timesync","gpstime":1}', "timesync"),
     ('{"uri":"ws://x:1/"}', "router-info")],
)  # fmt: skip
def test_what_a_station_has_no_use_for(text: str, msgtype: str) -> None:
    gateway = station()
    gateway.receive_text(text)
    assert gateway.events_received() == [Passed(msgtype)]


@pytest.mark.parametrize("mux_time", ["x", 0, True, 10**400, -1])
def test_a_time_that_cannot_be_is_not_believed(mux_time: object) -> None:
    gateway = station()
    config = {"msgtype": "router_config", "MuxTime": mux_time}
    gateway.receive_text(json.dumps(config))
    told = [e for e in gateway.events_received() if isinstance(e, TimeTold)]
    assert told in ([], [TimeTold(1.0)])


ACTIONS = st.lists(st.sampled_from(["version", "uplink", "downlink", "cut"]), max_size=12)


@settings(max_examples=size(50, 3_000))
@given(ACTIONS)
def test_both_sides_agree_whatever_is_cut(actions: list[str]) -> None:
    lns, gateway = server(), station()
    told = heard = 0
    for action in actions:
        match action:
            case "version":
                gateway.send_version()
            case "uplink":
                upinfo = UpInfo(xtime=XTIME)
                gateway.send_uplink(PHY, dr=5, freq_hz=868_100_000, upinfo=upinfo)
                told += 1
            case "downlink":
                lns.send_downlink(DNMSG)
            case _:
                told -= sum('"updf"' in text for text in gateway.texts_to_send())
                lns, gateway = server(), station()
        heard += sum(isinstance(event, Updf | Jreq) for event in carry(gateway, lns))
        for event in carry(lns, gateway):
            assert isinstance(event, Configured | DownlinkWanted | TimeTold)
    assert heard == told
