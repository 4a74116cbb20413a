"""How a station spells its texts, and which orders of a server it understands."""

import json
from itertools import product
from typing import Any

import pytest

from bench.verdict import wire
from bench.verdict.wire import id6
from lns.lorawan.identifiers import eui


@pytest.mark.parametrize(
    ("station", "spelt"),
    [("0016C001F1500001", "16:c001:f150:1"), ("0000000000000001", "::1"), ("0" * 16, "::0")],
)
def test_a_station_spells_its_own_eui_in_groups(station: str, spelt: str) -> None:
    assert id6(station) == spelt


def test_whatever_zeros_it_leaves_out_the_server_reads_them_again() -> None:
    spelt = {"".join(groups) for groups in product(("0000", "0001", "ABCD"), repeat=4)}
    assert {eui(id6(station)) for station in sorted(spelt)} == spelt


@pytest.mark.parametrize("spelled", ["70b3:::a02", ":70b3:0:a02", "70b3::0:0:a02", "70b3:0:a02"])
def test_each_of_four_groups_has_a_digit(spelled: str) -> None:
    assert wire.eui_of(spelled) is None


HEARD = wire.Upinfo(rctx=0, xtime=7, rssi_dbm=-80, snr_db=7.5, gpstime=0, rxtime=0.0)
UPINFO = (
    '"RefTime":0.5,"DR":5,"Freq":868100000,"upinfo":{"rctx":0,"xtime":7,"gpstime":0,"fts":-1,'
    '"rssi":-80,"snr":7.5,"rxtime":0.0}}'
)


@pytest.mark.parametrize(
    ("phy", "told"),
    [
        (
            "4004030201800A0001AABBCC01020304",
            '{"msgtype":"updf","MHdr":64,"DevAddr":16909060,"FCtrl":128,"FCnt":10,"FOpts":"",'
            '"FPort":1,"FRMPayload":"AABBCC","MIC":67305985,',
        ),
        (
            "8004030201810A0006060102FF",
            '{"msgtype":"updf","MHdr":128,"DevAddr":16909060,"FCtrl":129,"FCnt":10,"FOpts":"06",'
            '"FPort":-1,"FRMPayload":"","MIC":-16645882,',
        ),
        (
            "00" + "0807060504030201" + "1817161514131211" + "0A00" + "01020304",
            '{"msgtype":"jreq","MHdr":0,"JoinEui":"01-02-03-04-05-06-07-08",'
            '"DevEui":"11-12-13-14-15-16-17-18","DevNonce":10,"MIC":67305985,',
        ),
        ("E0C0FFEE", '{"msgtype":"propdf","FRMPayload":"E0C0FFEE",'),
    ],
)
def test_a_frame_is_told_in_words_of_its_kind(phy: str, told: str) -> None:
    octets = bytes.fromhex(phy)
    text = wire.frame_told(octets, dr=5, freq_hz=868_100_000, heard=HEARD, ref_time=0.5)
    assert text == told + UPINFO


@pytest.mark.parametrize("phy", ["", "60040302018005000102030405", "2001020304", "40010203"])
def test_what_servers_send_and_what_is_no_frame_is_not_told(phy: str) -> None:
    octets = bytes.fromhex(phy)
    assert wire.frame_told(octets, dr=5, freq_hz=868_100_000, heard=HEARD, ref_time=0.5) is None


ORDER: dict[str, Any] = {
    "msgtype": "dnmsg", "DevEui": "70-B3-D5-7E-D0-00-00-01", "dC": 0, "diid": 9, "pdu": "6001",
    "RxDelay": 1, "RX1DR": 5, "RX1Freq": 868_100_000, "priority": 0, "xtime": 7, "rctx": 0,
}  # fmt: skip


def test_an_order_is_understood_and_told_when_it_is_on_the_air() -> None:
    order = wire.wanted(ORDER)
    assert order is not None
    assert (order.dev_eui, order.pdu) == ("70B3D57ED0000001", b"\x60\x01")
    assert (order.rx1, order.rx2) == ((5, 868_100_000), None)
    sent = {"dr": 5, "freq_hz": 868_100_000, "xtime": 1_000_007, "up_us": 2_000_000, "gpstime": 0}
    assert wire.sent_told(order, **sent) == (
        '{"msgtype":"dntxed","seqno":9,"diid":9,"DR":5,"Freq":868100000,'
        '"DevEui":"70-B3-D5-7E-D0-00-00-01","rctx":0,"xtime":1000007,"txtime":2.0,"gpstime":0}'
    )
    nobody = wire.wanted({**ORDER, "DevEui": 0})
    assert nobody is not None
    assert wire.sent_told(nobody, **sent) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"dC": 3},
        {"dC": -1},
        {"diid": "9"},
        {"diid": True},
        {"pdu": "6"},
        {"pdu": "60" * 256},
        {"DevEui": "70-B3"},
        {"RX1Freq": None},
        {"RX1DR": None, "RX1Freq": None},
    ],
)
def test_one_wrong_field_spoils_an_order(wrong: dict[str, object]) -> None:
    assert wire.wanted({**ORDER, **wrong}) is None


def test_a_text_of_the_server_is_an_object_or_says_nothing() -> None:
    assert wire.understood(json.dumps(ORDER)) == ORDER
    assert wire.understood("[1]") == wire.understood("{") == {}


def test_clocks_and_the_first_words_are_spelled_as_recorded() -> None:
    assert wire.clocks_told(7, mux_time=1.5, up_us=2, utc_us=3) == (
        '{"msgtype":"getxtime","MuxTime":1.5,"ustime":2,"UTCtime":3,"xtimes":[7,0,0,0]}'
    )
    assert wire.pulse_told(2) == '{"msgtype":"timesync","txtime":2}'
    assert wire.version_told(station="2.0.6", firmware="f", features=["rmtsh", "gps"]) == (
        '{"msgtype":"version","station":"2.0.6","firmware":"f","package":"f","model":"linux",'
        '"protocol":2,"features":"rmtsh gps"}'
    )


def test_stations_in_software_spell_as_real_ones_do() -> None:
    assert wire.misspelt() == ()


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [("_signed", "MIC", 0), ("_dashed", "JoinEui", "-"), ("kind_of", "updf", None)],
)
def test_who_spells_another_way_is_known(
    monkeypatch: pytest.MonkeyPatch, name: str, field: str, wrong: Any
) -> None:
    wire.misspelt.cache_clear()
    monkeypatch.setattr(wire, name, lambda octets: wrong)
    assert any(field in due for _, due, _ in wire.misspelt())
    wire.misspelt.cache_clear()
