import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lns.lorawan.frame import Data, JoinRequest, parse
from lns.lorawan.identifiers import Eui
from lns.station.messages import (
    Dnmsg,
    Dntxed,
    Ignored,
    Jreq,
    Malformed,
    Propdf,
    RouterInfoRequest,
    Timesync,
    Updf,
    UpInfo,
    Version,
    XtimeReport,
    dnmsg_text,
    parse_up,
    router_info_answer_text,
    router_info_text,
)
from tests.station_texts import (
    GetXtime,
    RouterConfig,
    RouterInfoAnswer,
    TimesyncAnswer,
    dntxed_text,
    frame_text,
    parse_down,
    version_text,
)

VECTORS = Path(__file__).parents[2] / "vectors" / "station"
RECORDED = json.loads((VECTORS / "recorded.json").read_text())
OTHERS = json.loads((VECTORS / "from_other_projects.json").read_text())
STATIONS = ("16:c001:f150:1", "b827:ebff:fe12:3456")

UPDF = (
    '{"msgtype":"updf","MHdr":64,"DevAddr":1237220849,"FCtrl":0,"FCnt":2,"FOpts":"","FPort":1,'
    '"FRMPayload":"95437876","MIC":234819883,"RefTime":1795191219.883825,"DR":5,"Freq":868100000,'
    '"upinfo":{"rctx":0,"xtime":62768920078008177,"gpstime":1479226437882938,"fts":-1,"rssi":-51,'
    '"snr":9.5,"rxtime":1795191219.883979}}'
)
JREQ = (
    '{"msgtype":"jreq","MHdr":0,"JoinEui":"AA-13-69-33-63-34-36-39","DevEui":'
    '"33-31-38-32-74-35-69-05","DevNonce":35076,"MIC":68377542,"RefTime":1795191228.294736,"DR":5,'
    '"Freq":868100000,"upinfo":{"rctx":0,"xtime":62768920086417214,"gpstime":0,"fts":-1,'
    '"rssi":-60,"snr":7,"rxtime":1795191228.295041}}'
)


def compact(message: object) -> str:
    return json.dumps(message, separators=(",", ":"))


def changed(text: str, **fields: object) -> str:
    return compact({**json.loads(text), **fields})


def messages(direction: str) -> list[str]:
    return [compact(m["msg"]) for m in RECORDED["messages"] if m["dir"] == direction]


def test_every_recorded_message_of_a_station_is_understood() -> None:
    kinds = {type(parse_up(text)) for text in messages("up")}
    assert kinds == {RouterInfoRequest, Version, Timesync, Updf, Jreq, Propdf, Dntxed}


def test_every_recorded_message_of_a_server_is_understood() -> None:
    kinds = {type(parse_down(text)) for text in messages("down")}
    assert kinds == {RouterInfoAnswer, RouterConfig, Dnmsg, TimesyncAnswer}


@pytest.mark.parametrize("station", STATIONS)
def test_recorded_receptions_reassemble_to_the_injected_frames(station: str) -> None:
    told = [
        parse_up(compact(m["msg"]))
        for m in RECORDED["messages"]
        if m["station"] == station and m["dir"] == "up"
    ]
    frames = [message.phy().hex() for message in told if isinstance(message, Updf | Jreq | Propdf)]
    assert frames == [frame["phy"] for frame in RECORDED["injected"]]


def test_frames_are_spelled_as_the_real_station_spells_them() -> None:
    spelled = 0
    for text in messages("up"):
        message = parse_up(text)
        if isinstance(message, Updf | Jreq | Propdf):
            assert text == frame_text(
                message.phy(),
                dr=message.dr,
                freq_hz=message.freq_hz,
                upinfo=message.upinfo,
                ref_time=message.ref_time,
            )
            spelled += 1
    assert spelled == 70


def test_downlinks_are_spelled_as_the_recorded_ones() -> None:
    dnmsgs = [(text, parse_down(text)) for text in messages("down")]
    spelled = [(t, dnmsg_text(m)) for t, m in dnmsgs if isinstance(m, Dnmsg)]
    assert len(spelled) == 70
    assert all(recorded == ours for recorded, ours in spelled)


def test_dntxed_is_spelled_as_the_real_station_spells_it() -> None:
    recorded = next(text for text in messages("up") if '"dntxed"' in text)
    sent = parse_up(recorded)
    assert isinstance(sent, Dntxed)
    dnmsg = Dnmsg(dev_eui=sent.dev_eui, diid=sent.diid, pdu=b"", rx2_dr=0, rx2_freq_hz=1)
    ours = dntxed_text(
        dnmsg, dr=sent.dr, freq_hz=sent.freq_hz, xtime=sent.xtime, txtime=sent.txtime
    )
    assert ours == recorded


def test_version_and_router_info_are_spelled_as_recorded() -> None:
    version = version_text("2.0.6(linux/testsim)", features="rmtsh")
    recorded = next(text for text in messages("up") if '"version"' in text)
    harness = '"real-station-harness 1.0"'
    assert version == recorded.replace(harness, "null")
    assert router_info_text(Eui("0016C001F1500001")) == '{"router":"16:c001:f150:1"}'
    answer = router_info_answer_text(Eui("0016C001F1500001"), "ws://127.0.0.1:16333/muxs/x")
    assert parse_down(answer) == RouterInfoAnswer("ws://127.0.0.1:16333/muxs/x", None)
    assert list(json.loads(answer)) == ["router", "muxs", "uri"]


@pytest.mark.parametrize("vector", OTHERS["accepted"], ids=lambda v: str(v["id"]))
def test_messages_of_other_projects_reassemble(vector: dict[str, object]) -> None:
    message = parse_up(compact(vector["json"]))
    assert isinstance(message, Updf | Jreq)
    assert message.phy().hex() == vector["phy"]


@pytest.mark.parametrize("vector", OTHERS["rejected"], ids=lambda v: str(v["id"]))
def test_frames_the_station_keeps_to_itself(vector: dict[str, str]) -> None:
    phy = bytes.fromhex(vector["phy"])
    assert frame_text(phy, dr=0, freq_hz=868_100_000, upinfo=UpInfo()) is None


@pytest.mark.parametrize(
    "phy",
    ["", "41f17dbe4900020001954378762b11ff0d", "40f17dbe490f02002b11ff0d", "40f17dbe49000200ff0d",
     "60f17dbe4900020001954378762b11ff0d", "20" + 16 * "00", "c0" + 18 * "00", "e0" + 255 * "00"],
)  # fmt: skip
def test_broken_frames_and_downlinks_are_kept_by_the_station(phy: str) -> None:
    text = frame_text(bytes.fromhex(phy), dr=0, freq_hz=868_100_000, upinfo=UpInfo())
    assert text is None


def test_frame_ids() -> None:
    updf, jreq = parse_up(UPDF), parse_up(JREQ)
    assert isinstance(updf, Updf)
    assert isinstance(jreq, Jreq)
    data, request = parse(updf.phy()), parse(jreq.phy())
    assert isinstance(data, Data)
    assert isinstance(request, JoinRequest)
    assert data.frame_id == "49BE7DF1:2:2B11FF0D"
    assert request.frame_id == "AA13693363343639:3331383274356905:35076"


@pytest.mark.parametrize("word", [-2147483648, -1, 0, 4294967295])
def test_dev_addr_and_mic_may_be_signed_or_unsigned(word: int) -> None:
    updf = parse_up(changed(UPDF, DevAddr=word, MIC=word))
    assert isinstance(updf, Updf)
    little_endian = (word & 0xFFFFFFFF).to_bytes(4, "little")
    assert updf.phy()[1:5] == little_endian
    assert updf.phy()[-4:] == little_endian


def test_a_station_without_any_time_is_understood() -> None:
    upinfo = {"rctx": 0, "xtime": 62768920078008177, "rssi": -51, "snr": 9}
    message = json.loads(changed(UPDF, upinfo=upinfo))
    del message["RefTime"]
    updf = parse_up(compact(message))
    assert isinstance(updf, Updf)
    assert (updf.ref_time, updf.upinfo.gpstime, updf.upinfo.fts) == (0, 0, -1)


def test_times_may_be_whole_numbers() -> None:
    assert isinstance(parse_up(changed(UPDF, RefTime=0)), Updf)


def test_a_frame_without_port_is_not_a_frame_with_port_0() -> None:
    without = parse_up(changed(UPDF, FPort=-1, FRMPayload=""))
    zero = parse_up(changed(UPDF, FPort=0, FRMPayload=""))
    assert isinstance(without, Updf)
    assert isinstance(zero, Updf)
    assert (len(without.phy()), len(zero.phy())) == (12, 13)


@pytest.mark.parametrize(
    "spelling", ["AA-13-69-33-63-34-36-39", "aa13693363343639", "aa13:6933:6334:3639",
                 0xAA13693363343639]
)  # fmt: skip
def test_euis_may_have_any_spelling(spelling: object) -> None:
    message = json.loads(JREQ)
    del message["JoinEui"], message["DevEui"]
    jreq = parse_up(compact({**message, "JoinEUI": spelling, "DevEUI": spelling}))
    assert isinstance(jreq, Jreq)
    assert jreq.join_eui == jreq.dev_eui == "AA13693363343639"


@pytest.mark.parametrize(
    "fields",
    [{"MHdr": 96}, {"MHdr": 65}, {"MHdr": 256}, {"FCnt": 65536}, {"FCnt": "2"}, {"FCnt": True},
     {"DevAddr": 4294967296}, {"FPort": 256}, {"FPort": -1}, {"FPort": None}, {"FRMPayload": "9"},
     {"FRMPayload": "zz"}, {"FRMPayload": 5}, {"FRMPayload": "00" * 300}, {"FOpts": "00"},
     {"FCtrl": 1}, {"Freq": 868100000.5}, {"Freq": 0}, {"DR": 16}, {"upinfo": []},
     {"upinfo": {"xtime": 1.5}}, {"upinfo": {"xtime": -1}}, {"upinfo": {"xtime": 1 << 63}},
     {"MIC": None}, {"FCtrl": 1, "FOpts": "02", "FPort": 0}, {"MHdr": -1}, {"FCnt": -1},
     {"FCtrl": -1, "FOpts": "02" * 15}, {"DR": -1}, {"Freq": 1 << 32}, {"FPort": -2},
     {"DevAddr": -(1 << 31) - 1}, {"upinfo": {"rctx": 1 << 63}},
     {"upinfo": {"rctx": -(1 << 63) - 1}}, {"FRMPayload": "00" * 243}],
    ids=str,
)  # fmt: skip
def test_a_field_that_cannot_be_spoils_the_reception(fields: dict[str, object]) -> None:
    broken = parse_up(changed(UPDF, **fields))
    assert isinstance(broken, Malformed)
    assert broken.is_reception


@pytest.mark.parametrize(
    "fields",
    [{"FCnt": 0}, {"FCnt": 65535}, {"FCtrl": 0xFF, "FOpts": "02" * 15}, {"DR": 0}, {"DR": 15},
     {"Freq": 1}, {"Freq": (1 << 32) - 1}, {"FPort": 0}, {"FPort": 255},
     {"FPort": -1, "FRMPayload": ""}, {"FRMPayload": "00" * 242},
     {"DevAddr": -(1 << 31)}, {"DevAddr": (1 << 32) - 1}, {"upinfo": {"xtime": 0}},
     {"upinfo": {"xtime": (1 << 63) - 1}}, {"upinfo": {"rctx": -(1 << 63)}},
     {"upinfo": {"rctx": (1 << 63) - 1}}],
    ids=str,
)  # fmt: skip
def test_a_field_may_have_whatever_it_can_say(fields: dict[str, object]) -> None:
    read = parse_up(changed(UPDF, **fields))
    assert isinstance(read, Updf)
    assert len(read.phy()) == 13 + len(read.f_opts + read.frm_payload) // 2 - (read.f_port == -1)


@pytest.mark.parametrize("fields", [{"MHdr": 1}, {"DevNonce": 65536}, {"DevEui": 1 << 64}])
def test_a_join_request_that_cannot_be_is_spoilt_too(fields: dict[str, object]) -> None:
    broken = parse_up(changed(JREQ, **fields))
    assert isinstance(broken, Malformed)
    assert broken.is_reception


@pytest.mark.parametrize("field", ["MHdr", "DevAddr", "FCtrl", "FCnt", "FOpts", "FPort", "MIC"])
def test_a_missing_field_spoils_the_reception(field: str) -> None:
    message = json.loads(UPDF)
    del message[field]
    assert isinstance(parse_up(compact(message)), Malformed)


@pytest.mark.parametrize("text", ["", "{", "nonsense", "\ud800", "[" * 100_000, '{"a":1e999}'])
def test_no_json_is_a_malformed_reception(text: str) -> None:
    message = parse_up(text)
    assert isinstance(message, Malformed)
    assert message.is_reception


@pytest.mark.parametrize("text", ["[]", "5", "null", '"updf"'])
def test_json_that_is_no_object_is_malformed_but_no_reception(text: str) -> None:
    message = parse_up(text)
    assert isinstance(message, Malformed)
    assert not message.is_reception


@pytest.mark.parametrize("fields", [{"msgtype": "propdf"}, {"msgtype": "dntxed"},
                                    {"msgtype": "timesync"}, {"msgtype": "getxtime"},
                                    {"msgtype": "version"}, {"router": True}])  # fmt: skip
def test_other_broken_messages_are_malformed_but_no_receptions(fields: dict[str, object]) -> None:
    message = parse_up(compact(fields))
    assert isinstance(message, Malformed)
    assert not message.is_reception


@pytest.mark.parametrize("fields", [{}, {"msgtype": 5}, {"msgtype": "alarm", "text": "x"},
                                    {"msgtype": "dndf"}])  # fmt: skip
def test_unknown_messages_are_ignored(fields: dict[str, object]) -> None:
    assert isinstance(parse_up(compact(fields)), Ignored)


def test_the_fields_of_an_uplink_without_its_msgtype_are_no_uplink() -> None:
    """Found by the fuzz target: such a text counted as a reception in one place only."""
    text = (
        '{"MHdr":64,"DevAddr":0,"FCtrl":0,"FCnt":0,"FOpts":"","FPort":0,"FRMPayload":"00000034",'
        '"MIC":0,"DR":4,"Freq":1}'
    )
    assert parse_up(text) == Ignored("")
    named = parse_up(text.replace("{", '{"msgtype":"updf",', 1))
    assert isinstance(named, Updf)


def test_getxtime_is_answered_with_the_clocks() -> None:
    text = (
        '{"msgtype":"getxtime","MuxTime":1795188057.7,"ustime":5213162,"UTCtime":1795188057700000,'
        '"xtimes":[26458648088757040,0,0,0]}'
    )
    report = parse_up(text)
    assert isinstance(report, XtimeReport)
    assert report.xtimes == (26458648088757040, 0, 0, 0)


def test_a_downlink_survives_the_way_to_the_station() -> None:
    dnmsg = Dnmsg(
        dev_eui=Eui("0000000011000001"),
        diid=(1 << 53) + 1,
        pdu=bytes.fromhex("60010000008001000312345678"),
        rx2_dr=0,
        rx2_freq_hz=869_525_000,
        xtime=26458648088757040,
        priority=5,
    )
    assert parse_down(dnmsg_text(dnmsg)) == dnmsg
    assert dnmsg.rx1 is None
    assert dnmsg.rx2 == (0, 869_525_000)


def test_a_class_c_downlink_at_once_has_no_xtime() -> None:
    dnmsg = Dnmsg(dev_eui=Eui("0000000011000001"), device_class=2, diid=1, pdu=b"", rx2_dr=0,
                  rx2_freq_hz=869_525_000)  # fmt: skip
    assert "xtime" not in json.loads(dnmsg_text(dnmsg))


def test_a_downlink_for_rx1_alone_names_no_rx2() -> None:
    dnmsg = Dnmsg(dev_eui=Eui("0000000011000001"), diid=1, pdu=b"\x60", rx1_dr=5,
                  rx1_freq_hz=868_100_000, xtime=26458648088757040)  # fmt: skip
    said = json.loads(dnmsg_text(dnmsg))
    assert (said["RX1DR"], said["RX1Freq"]) == (5, 868_100_000)
    assert {"RX2DR", "RX2Freq"}.isdisjoint(said)


@pytest.mark.parametrize(
    "fields",
    [{"RxDelay": 16}, {"RX1DR": None}, {"RX2DR": None}, {"RX2Freq": None}, {"RX1DR": 16},
     {"dC": 3}, {"diid": "1"}, {"pdu": "6"},
     {"pdu": "00" * 256}, {"xtime": "1"}, {"RX1Freq": 868100000.5}, {"priority": 256},
     {"DevEui": "x"}, {"RX1DR": None, "RX1Freq": None, "RX2DR": None, "RX2Freq": None},
     {"MuxTime": 10**400}],
    ids=str,
)  # fmt: skip
def test_one_bad_field_spoils_the_whole_downlink(fields: dict[str, object]) -> None:
    recorded = next(text for text in messages("down") if '"dnmsg"' in text)
    assert isinstance(parse_down(changed(recorded, **fields)), Malformed)


def test_what_a_station_does_with_other_texts_of_a_server() -> None:
    assert parse_down('{"msgtype":"getxtime"}') == GetXtime()
    assert isinstance(parse_down('{"msgtype":"error","error":"x"}'), Ignored)
    assert isinstance(parse_down('{"error":"unknown","uri":5}'), Malformed)
    assert isinstance(parse_down("{"), Malformed)


def test_a_data_frame_and_a_join_request_and_a_proprietary_frame() -> None:
    phy = bytes.fromhex("40f17dbe4900020001954378762b11ff0d")
    at = {"dr": 5, "freq_hz": 868_100_000, "upinfo": UpInfo(xtime=1, rssi_dbm=-51, snr_db=9.5)}
    assert json.loads(frame_text(phy, **at))["FRMPayload"] == "95437876"  # type: ignore[arg-type]
    assert json.loads(frame_text(b"\xe0\x01", **at))["FRMPayload"] == "E001"  # type: ignore[arg-type]
    join = bytes.fromhex("0039363463336913aa05693574323831330489c65b1304")
    assert json.loads(frame_text(join, **at))["DevNonce"] == 35076  # type: ignore[arg-type]


@given(st.binary(min_size=1, max_size=60), st.integers(0, 2), st.data())
def test_whatever_a_station_tells_is_read_back(phy: bytes, kind: int, data: st.DataObject) -> None:
    head = (b"\x40", b"\x80", b"\xe0")[kind]
    frame = head + phy
    text = frame_text(frame, dr=0, freq_hz=868_100_000, upinfo=UpInfo(xtime=1))
    if text is not None:
        message = parse_up(text)
        assert isinstance(message, Updf | Propdf)
        assert message.phy() == frame


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(st.sampled_from([UPDF, JREQ, *messages("down")[2:6]]), st.data())
def test_no_mutation_of_a_message_raises(text: str, data: st.DataObject) -> None:
    message = json.loads(text)
    field = data.draw(st.sampled_from(sorted(message)))
    message[field] = data.draw(JSON)
    parse_up(json.dumps(message))
    parse_down(json.dumps(message))
    cut = data.draw(st.integers(0, len(text)))
    parse_up(text[:cut])
    parse_down(text[:cut])
