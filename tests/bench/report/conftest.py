"""Small run folders, written literally: a night with every verdict, and one without a case."""

# ruff: noqa: E501 - a capture has one JSON object in each line, however long

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BAD_NIGHT = """
{"schema":1,"run":"20261121T020003Z-7f3a","run_id":"7f3a0102","rig":"simulated","seed":7,
 "spark":{"version":"4.3.0","master":"local[2]","seconds":11.5},
 "totals":{"PASS":2,"FAIL":1,"INCONCLUSIVE":1,"ERROR":1},
 "counts":{"lines":19,"torn_lines":1,"receptions":9,"outcomes":8,"transmissions":5,"evicted":2,"deliveries":6},
 "verdicts":[
  {"case":"two_stations-Mark-confirmed","scenario":"test_two_stations","file":"scenarios/test_multi_concentrator.py",
   "group":"multi_concentrator","title":"Two stations hear one frame","strategy":"Mark","confirmed":true,"verdict":"FAIL",
   "reasons":["reception 1: SoftDuplicate was due, NonDuplicate was observed"],"owner":"LNS","attempt":1,
   "begin_us":1000000,"end_us":2000000,"receptions":2},
  {"case":"two_stations-None-unconfirmed","scenario":"test_two_stations","file":"scenarios/test_multi_concentrator.py",
   "group":"multi_concentrator","title":"Two stations hear one frame","strategy":"None","confirmed":false,"verdict":"PASS",
   "reasons":[],"owner":null,"attempt":1,"begin_us":3000000,"end_us":4000000,"receptions":2},
  {"case":"restart-Drop-confirmed","scenario":"test_restart","file":"scenarios/test_restart.py",
   "group":"restart","title":"A device restarts","strategy":"Drop","confirmed":true,"verdict":"INCONCLUSIVE",
   "reasons":["station B was deaf"],"owner":"air","attempt":1,"begin_us":5000000,"end_us":6000000,"receptions":1},
  {"case":"join-Drop","scenario":"test_join","file":"scenarios/test_joins.py",
   "group":"joins","title":"A join is heard twice","strategy":"Drop","confirmed":null,"verdict":"PASS",
   "reasons":[],"owner":null,"attempt":2,"begin_us":7000000,"end_us":8000000,"receptions":2},
  {"case":"import-None","scenario":"test_imported","file":"scenarios/test_imported.py",
   "group":"imported","title":"A week of somebody's traffic","strategy":"None","confirmed":null,"verdict":"ERROR",
   "reasons":["the file is gone"],"owner":"bench","attempt":1,"begin_us":9000000,"end_us":9500000,"receptions":2}],
 "confusion":[{"expected":"NonDuplicate","observed":"NonDuplicate","count":4},
  {"expected":"SoftDuplicate","observed":"NonDuplicate","count":1},{"expected":"-","observed":"missing","count":1}],
 "oracle":[{"oracle":"NonDuplicate","observed":"NonDuplicate","count":4},{"oracle":"SoftDuplicate","observed":"NonDuplicate","count":1}],
 "oracle_agreement":{"receptions":9,"status_agree":8,"disposition_agree":8},
 "findings":[
  {"case":null,"owner":"bench","rule":"torn-capture","frame_id":null,"station":null,"n":null,
   "expected":null,"observed":null,"t_us":2500000,"text":"A line of air.jsonl is torn."},
  {"case":"two_stations-Mark-confirmed","owner":"LNS","rule":"expectation","frame_id":"01ABCDEF:7:2B11FF0D",
   "station":"B827EBFFFE000002","n":1,"expected":"SoftDuplicate","observed":"NonDuplicate","t_us":1109500,
   "text":"The copy of the second station counts as a first one."}],
 "answers":[{"strategy":"Mark","confirmed":true,"answer":"RX1","count":3},
  {"strategy":"Mark","confirmed":true,"answer":"Suppressed","count":1},
  {"strategy":"-","confirmed":null,"answer":"NotAsked","count":2}]}
"""

EMPTY_NIGHT = '{"schema":1,"run":"20261122T020003Z-0000","verdicts":[]}'

MANIFEST = """
{"schema":1,"run_id":"7f3a0102","seed":7,"rig":"simulated","git_commit":"4f1c2d9e0aa1",
 "versions":{"python":"3.11.7","lorabench":"0.1.0"},
 "inventory":{"device":[{"name":"alpha","firmware":"virtual 1.0","app_key":"00112233445566778899AABBCCDDEEFF"}]},
 "argv":["lorabench","run","--rig","simulated"],
 "notices":["Traffic of a rural network, CC BY 4.0, https://example.org/data"]}
"""

CAPTURES = {
    "bench": """
{"schema":1,"run_id":"7f3a0102","source":"bench","seq":0,"t_us":1000000,"kind":"case.begin","case":"two_stations-Mark-confirmed","scenario":"test_two_stations","title":"Two stations hear one frame"}
{"schema":1,"run_id":"7f3a0102","source":"bench","seq":1,"t_us":1000001,"kind":"case.device","case":"two_stations-Mark-confirmed","dev_eui":"70B3D57ED0000001","name":"alpha","activation":"abp","strategy":"Mark","relaxed_f_cnt":true,"f_cnt_bits":32,"nb_trans":1}
{"schema":1,"run_id":"7f3a0102","source":"bench","seq":2,"t_us":1105000,"kind":"fault.begin","seam":"tap","fault":"delay","station":"B827EBFFFE000002","origin":"injected","detail":{"delay_us":35000}}
{"schema":1,"run_id":"7f3a0102","source":"bench","seq":3,"t_us":1900000,"kind":"case.expect","case":"two_stations-Mark-confirmed","expect":"outcome","frame_id":"01ABCDEF:7:2B11FF0D","n":1,"station":"B827EBFFFE000002","status":"SoftDuplicate","upstream":"marked","reason":"-","answer":"Suppressed"}
{"schema":1,"run_id":"7f3a0102","source":"bench","seq":4,"t_us":2000000,"kind":"case.end","case":"two_stations-Mark-confirmed","verdict":"FAIL","reasons":["reception 1"],"attempt":1}
""",
    "device-alpha": """
{"schema":1,"run_id":"7f3a0102","source":"device-alpha","seq":0,"t_us":1010000,"kind":"device.command","dev_eui":"70B3D57ED0000001","text":"AT+SEND=2:C0FFEE"}
""",
    "air": """
{"schema":1,"run_id":"7f3a0102","source":"air","seq":0,"t_us":1012000,"kind":"radio.transmit","transmission":0,"direction":"up","sender":"70B3D57ED0000001","dev_eui":"70B3D57ED0000001","session":0,"f_cnt":7,"frame_id":"01ABCDEF:7:2B11FF0D","genuine":true,"origin":"device","phy":"80efcdab0100070002c0ffee2b11ff0d","freq_hz":868100000,"dr":5,"airtime_us":61696,"attempt":1}
{"schema":1,"run_id":"7f3a0102","sou""",
    "tap-B827EBFFFE000001": r"""
{"schema":1,"run_id":"7f3a0102","source":"tap-B827EBFFFE000001","seq":0,"t_us":1074000,"kind":"station.text","station":"B827EBFFFE000001","direction":"up","text":"{\"msgtype\":\"updf\",\"MHdr\":128,\"DevAddr\":28036591,\"FCtrl\":0,\"FCnt\":7,\"FOpts\":\"\",\"FPort\":2,\"FRMPayload\":\"C0FFEE\",\"MIC\":234819883,\"DR\":5,\"Freq\":868100000,\"upinfo\":{\"rctx\":0,\"xtime\":62768920078008177,\"gpstime\":0,\"rssi\":-71,\"snr\":9.5}}"}
{"schema":1,"run_id":"7f3a0102","source":"tap-B827EBFFFE000001","seq":1,"t_us":1080000,"kind":"station.text","station":"B827EBFFFE000001","direction":"down","text":"{\"msgtype\":\"dnmsg\",\"DevEui\":\"70-B3-D5-7E-D0-00-00-01\",\"diid\":12,\"pdu\":\"60efcdab0120030012345678\",\"RX1DR\":5,\"RX1Freq\":868100000}"}
""",
    "tap-B827EBFFFE000002": r"""
{"schema":1,"run_id":"7f3a0102","source":"tap-B827EBFFFE000002","seq":0,"t_us":1109000,"kind":"station.text","station":"B827EBFFFE000002","direction":"up","held_us":35000,"text":"<script>alert('hostile')</script>"}
""",
    "lns-a": """
{"schema":1,"run_id":"7f3a0102","source":"lns-a","seq":0,"t_us":1074500,"kind":"lns.outcome","station":"B827EBFFFE000001","lns":"lns-a","frame_id":"01ABCDEF:7:2B11FF0D","status":"NonDuplicate","upstream":"forwarded","answer":"RX1","level2":"NotAsked"}
{"schema":1,"run_id":"7f3a0102","source":"lns-a","seq":1,"t_us":1109500,"kind":"lns.outcome","station":"B827EBFFFE000002","lns":"lns-a","frame_id":"01ABCDEF:7:2B11FF0D","status":"NonDuplicate","upstream":"forwarded","answer":"Suppressed","level2":"NotAsked"}
""",
    "upstream": """
{"schema":1,"run_id":"7f3a0102","source":"upstream","seq":0,"t_us":1074900,"kind":"upstream.published","topic":"lorawan/lns-a/70B3D57ED0000001/up","body":{"messageId":"70B3D57ED0000001-01ABCDEF-7","lns":"lns-a","fCnt":7,"payload":"c0ffee"}}
""",
}

Writer = Callable[..., Path]


@pytest.fixture
def bad_night(tmp_path: Path) -> Path:
    """A run with every verdict, its captures and its manifest; the air's last line is torn."""
    folder = tmp_path / "20261121T020003Z-7f3a"
    folder.mkdir()
    (folder / "score.json").write_text(BAD_NIGHT, "utf-8")
    (folder / "manifest.json").write_text(MANIFEST, "utf-8")
    for source, lines in CAPTURES.items():
        (folder / f"{source}.jsonl").write_text(lines.lstrip(), "utf-8")
    return folder


@pytest.fixture
def empty_night(tmp_path: Path) -> Path:
    """A scored run in which no case ran, without captures and without a manifest."""
    folder = tmp_path / "20261122T020003Z-0000"
    folder.mkdir()
    (folder / "score.json").write_text(EMPTY_NIGHT, "utf-8")
    return folder


@pytest.fixture
def write_score(tmp_path: Path) -> Writer:
    """A function that writes a run folder whose score has the given fields."""

    def write(**fields: Any) -> Path:
        folder = tmp_path / "written"
        folder.mkdir(exist_ok=True)
        score = {"schema": 1, "run": "written", "verdicts": [], **fields}
        (folder / "score.json").write_text(json.dumps(score), "utf-8")
        return folder

    return write
