"""A small run folder, written literally: a copy that was due as a Duplicate, and two more cases."""

# ruff: noqa: E501 - a capture has one JSON object in each line, however long

from pathlib import Path

CAPTURES = {
    "bench": """
{"source":"bench","seq":0,"t_us":1000000,"kind":"case.begin","case":"copies/two_stations[Mark]","scenario":"test_two_stations","title":"Two stations hear one frame.","strategy":"Mark"}
{"source":"bench","seq":1,"t_us":1000000,"kind":"case.station","case":"copies/two_stations[Mark]","eui":"B827EBFFFE000001","name":"west"}
{"source":"bench","seq":2,"t_us":1000000,"kind":"case.station","case":"copies/two_stations[Mark]","eui":"B827EBFFFE000002","name":"east"}
{"source":"bench","seq":3,"t_us":1000000,"kind":"fault.begin","seam":"tap","fault":"delay","station":"B827EBFFFE000002","origin":"injected","detail":{"after_us":35000}}
{"source":"bench","seq":4,"t_us":1900000,"kind":"case.expect","case":"copies/two_stations[Mark]","expect":"outcome","frame_id":"01ABCDEF:7:2B11FF0D","n":0,"station":"B827EBFFFE000001","status":"NonDuplicate","upstream":"forwarded","reason":"-","answer":"RX1"}
{"source":"bench","seq":5,"t_us":1900000,"kind":"case.expect","case":"copies/two_stations[Mark]","expect":"outcome","frame_id":"01ABCDEF:7:2B11FF0D","n":1,"station":"B827EBFFFE000002","status":"SoftDuplicate","upstream":"marked","reason":"-","answer":"Suppressed"}
{"source":"bench","seq":6,"t_us":1900000,"kind":"case.expect","case":"copies/two_stations[Mark]","expect":"device","dev_eui":"70B3D57ED0000001","line":"+EVT:SEND_CONFIRMED_OK"}
{"source":"bench","seq":7,"t_us":2000000,"kind":"case.end","case":"copies/two_stations[Mark]","verdict":"FAIL","owner":"LNS","reasons":["#1 through east: expected SoftDuplicate, observed NonDuplicate"],"attempt":1}
{"source":"bench","seq":8,"t_us":3000000,"kind":"case.begin","case":"copies/two_stations[None]","scenario":"test_two_stations","title":"Two stations hear one frame.","strategy":"None"}
{"source":"bench","seq":9,"t_us":4000000,"kind":"case.end","case":"copies/two_stations[None]","verdict":"PASS","reasons":[],"attempt":2}
{"source":"bench","seq":10,"t_us":5000000,"kind":"case.begin","case":"joins/a_join_is_heard_twice"}
{"source":"bench","seq":11,"t_us":50000""",
    "device-alpha": """
{"source":"device-alpha","seq":0,"t_us":1010000,"kind":"device.command","dev_eui":"70B3D57ED0000001","text":"AT+SEND=2:C0FFEE"}
""",
    "air": """
{"source":"air","seq":0,"t_us":1012000,"kind":"radio.transmit","transmission":0,"direction":"up","sender":"70B3D57ED0000001","dev_eui":"70B3D57ED0000001","f_cnt":7,"frame_id":"01ABCDEF:7:2B11FF0D","genuine":true,"origin":"device","freq_hz":868100000,"dr":5,"attempt":1}
""",
    "tap-B827EBFFFE000001": r"""
{"source":"tap-B827EBFFFE000001","seq":0,"t_us":1074000,"kind":"station.text","station":"B827EBFFFE000001","direction":"up","text":"{\"msgtype\":\"updf\",\"MHdr\":128,\"DevAddr\":28036591,\"FCtrl\":0,\"FCnt\":7,\"FOpts\":\"\",\"FPort\":2,\"FRMPayload\":\"C0FFEE\",\"MIC\":234819883,\"DR\":5,\"Freq\":868100000,\"upinfo\":{\"rctx\":0,\"xtime\":62768920078008177,\"gpstime\":0,\"rssi\":-71,\"snr\":9.5}}"}
{"source":"tap-B827EBFFFE000001","seq":1,"t_us":1080000,"kind":"station.text","station":"B827EBFFFE000001","direction":"down","dropped":true,"text":"{\"msgtype\":\"dnmsg\",\"DevEui\":\"70-B3-D5-7E-D0-00-00-01\",\"diid\":12,\"pdu\":\"60efcdab0120030012345678\",\"RX1DR\":5,\"RX1Freq\":868100000}"}
""",
    "tap-B827EBFFFE000002": r"""
{"source":"tap-B827EBFFFE000002","seq":0,"t_us":1109000,"kind":"station.text","station":"B827EBFFFE000002","direction":"up","held_us":35000,"text":"{\"msgtype\":\"updf\",\"MHdr\":128,\"DevAddr\":28036591,\"FCtrl\":0,\"FCnt\":7,\"FOpts\":\"\",\"FPort\":2,\"FRMPayload\":\"C0FFEE\",\"MIC\":234819883,\"DR\":5,\"Freq\":868100000,\"upinfo\":{\"rctx\":0,\"xtime\":55,\"gpstime\":0,\"rssi\":-71,\"snr\":9.5}}"}
""",
    "lns-a": """
{"source":"lns-a","seq":0,"t_us":1074500,"kind":"lns.outcome","station":"B827EBFFFE000001","lns":"lns-a","frame_id":"01ABCDEF:7:2B11FF0D","xtime":62768920078008177,"status":"NonDuplicate","upstream":"forwarded","answer":"RX1"}
{"source":"lns-a","seq":1,"t_us":1109500,"kind":"lns.outcome","station":"B827EBFFFE000002","lns":"lns-a","frame_id":"01ABCDEF:7:2B11FF0D","xtime":55,"status":"NonDuplicate","upstream":"forwarded","answer":"Suppressed"}
""",
    "upstream": """
{"source":"upstream","seq":0,"t_us":1074900,"kind":"upstream.published","topic":"lorawan/lns-a/70B3D57ED0000001/up","body":{"messageId":"70B3D57ED0000001-01ABCDEF-7","lns":"lns-a","fCnt":7,"payload":"c0ffee"}}
""",
}

FAILED = "copies/two_stations[Mark]"


def write_run(runs: Path) -> Path:
    """The run folder; the last line of the bench is torn, so the last case has no end."""
    folder = runs / "20261121T020003Z-7f3a"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}", "utf-8")
    for source, lines in CAPTURES.items():
        (folder / f"{source}.jsonl").write_text(lines.lstrip(), "utf-8")
    return folder
