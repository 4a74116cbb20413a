"""What a station's text says, for texts as stations write them and as they should not."""

import json

import pytest
from pyspark.sql import Row, SparkSession

from bench.score.receptions import eui_no, heard

pytestmark = pytest.mark.spark

# Recorded from a Basics Station 2.0.6: frame 40 F1 7D BE 49 00 02 00 01 95 43 78 76 2B 11 FF 0D.
UPDF = (
    '{"msgtype":"updf","MHdr":64,"DevAddr":1237220849,"FCtrl":0,"FCnt":2,"FOpts":"","FPort":1,'
    '"FRMPayload":"95437876","MIC":234819883,"RefTime":1795191219.883825,"DR":5,"Freq":868100000,'
    '"upinfo":{"rctx":0,"xtime":62768920078008177,"gpstime":1479226437882938,"fts":-1,"rssi":-51,'
    '"snr":9.5,"rxtime":1795191219.883979}}'
)
JREQ = (
    '{"msgtype":"jreq","MHdr":0,"JoinEui":"AA-13-69-33-63-34-36-39",'
    '"DevEui":"33-31-38-32-74-35-69-05","DevNonce":35076,"MIC":68377542,"RefTime":1795191228.294736,'
    '"DR":5,"Freq":868100000,"upinfo":{"rctx":0,"xtime":62768920086417214,"gpstime":0,"fts":-1,'
    '"rssi":-60,"snr":7,"rxtime":1795191228.295041}}'
)


def changed(text: str, **fields: object) -> str:
    return json.dumps({**json.loads(text), **fields})


def heard_of(spark: SparkSession, texts: dict[str, str]) -> list[Row]:
    rows = spark.createDataFrame(list(texts.items()), "name STRING, text STRING")
    rows.createOrReplaceTempView("texts")
    return spark.sql(heard("texts")).collect()


def test_frames_are_read_as_stations_tell_them(spark: SparkSession) -> None:
    texts = {
        "updf": UPDF,
        "negative": changed(UPDF, DevAddr=-2147483647, MIC=-406457590, FPort=-1, FRMPayload=""),
        "asking": changed(UPDF, MHdr=128, FCtrl=0x42, FOpts="0302"),
        "checking": changed(UPDF, FCtrl=0x03, FOpts="030702"),
        "class B": changed(UPDF, FCtrl=0x08, FOpts="100511031213010D"),
        "unknown": changed(UPDF, FCtrl=0x02, FOpts="0C0D"),
        "jreq": JREQ,
        "id6": changed(JREQ, JoinEui="::1", DevEui="16:c001:f150:1"),
        "numbers": changed(JREQ, JoinEui=0xF0B3D57ED0000000, DevEui=7),
    }
    said = {row["name"]: row for row in heard_of(spark, texts)}
    assert all(row["readable"] for row in said.values())
    assert said["updf"]["frame_id"] == "49BE7DF1:2:2B11FF0D"
    assert said["updf"]["phy"] == "40F17DBE49000200" + "01954378762B11FF0D"
    assert said["updf"]["xtime"] == 62768920078008177
    assert said["negative"]["frame_id"] == "80000001:2:0AF3C5E7"
    assert said["negative"]["f_port"] is None
    assert said["negative"]["phy"] == "4001000080000200" + "0AF3C5E7"
    assert (said["asking"]["confirmed"], said["asking"]["adr_ack_req"]) == (True, True)
    assert [said[name]["link_check"] for name in ("asking", "checking")] == [False, True]
    assert [said[name]["device_time"] for name in ("class B", "unknown")] == [True, False]
    assert said["jreq"]["frame_id"] == "AA13693363343639:3331383274356905:35076"
    assert said["jreq"]["phy"] == "00" + "39363463336913AA" + "0569357432383133" + "0489C65B1304"
    assert said["id6"]["frame_id"] == "0000000000000001:0016C001F1500001:35076"
    assert said["numbers"]["frame_id"] == "F0B3D57ED0000000:0000000000000007:35076"


def test_a_text_that_cannot_be_read_is_a_reception_all_the_same(spark: SparkSession) -> None:
    texts = [
        "", "not json", UPDF[:-1], UPDF + " x", changed(UPDF, MIC="234819883"),
        changed(UPDF, FCnt=65536), changed(UPDF, FCnt=2.5), changed(UPDF, MHdr=96),
        changed(UPDF, FOpts="02"), changed(UPDF, FRMPayload="9"), changed(UPDF, FPort=-1),
        changed(UPDF, FCtrl=0x02, FOpts="0302", FPort=0),
        changed(JREQ, DevEui="33-31"), changed(JREQ, DevEui=1 << 64), changed(JREQ, DevNonce=-1),
        changed(UPDF, upinfo={"xtime": -1}), changed(UPDF, upinfo={"xtime": 1 << 63}),
        changed(UPDF, upinfo={"rctx": 1 << 63}),
    ]  # fmt: skip
    rows = heard_of(spark, {text: text for text in texts})
    assert {row["text"] for row in rows} == set(texts)
    for row in rows:
        read = (row["readable"], row["frame_id"], row["xtime"])
        assert read == (False, None, None), row["text"]


def test_other_messages_are_no_receptions(spark: SparkSession) -> None:
    texts = ['{"msgtype":"version"}', '{"msgtype":"dntxed","diid":1}', "[1]", "12", "null", "{}"]
    assert heard_of(spark, {text: text for text in texts}) == []


def test_an_eui_is_a_number_of_64_bits(spark: SparkSession) -> None:
    euis = ["70B3D57ED0000001", "F0B3D57ED0000001", "FFFFFFFFFFFFFFFF", "west", None]
    rows = spark.createDataFrame([(eui,) for eui in euis], "eui STRING")
    numbers = [row[0] for row in rows.selectExpr(eui_no("eui")).collect()]
    assert numbers == [0x70B3D57ED0000001, 0xF0B3D57ED0000001 - (1 << 64), -1, None, None]
