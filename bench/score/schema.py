"""What may stand in a capture line, a station's text and an upstream body, as explicit schemas?

In the words of SQL, because those need no running session.
"""

_TYPES = {
    "STRING": "kind source case scenario file title group strategy expect frame_id station status"
    " upstream reason answer dev_eui line verdict owner name eui activation lorawan join_eui server"
    " only_at lns event seam fault origin detail text direction phy cause dev_addr level2 stage"
    " window key body on_outage decision consumer message_id by region rule expected observed",
    "BIGINT": "t_us seq dev_status_s join_nonce_min f_cnt_up retention_us transmission f_cnt"
    " airtime_us held_us xtime diid f_cnt_down late_us position first_position",
    "INT": "n attempt f_cnt_bits nb_trans session race count",
    "BOOLEAN": "confirmed repeated relaxed_f_cnt genuine dropped",
    "ARRAY<STRING>": "windows reasons missing",
}
CAPTURE = {name: type_ for type_, names in _TYPES.items() for name in names.split()}
"""The type of each field of a line that the score looks at."""

KINDS = {
    "case.begin": "scenario file title group strategy confirmed",
    "case.device": "dev_eui activation strategy relaxed_f_cnt f_cnt_bits nb_trans f_cnt_up"
    " dev_status_s lorawan join_eui join_nonce_min server"
    " only_at",
    "case.expect": "expect frame_id n station status upstream reason answer level2 race windows"
    " dev_eui dev_addr line f_cnt body consumer message_id by count owner rule",
    "case.finding": "owner rule text frame_id station expected observed",
    "stimulus.missed": "owner reason",
    "host.stalled": "late_us",
    "radio.transmit": "transmission direction dev_eui session f_cnt frame_id genuine phy"
    " airtime_us",
    "device.line": "dev_eui text",
    "case.lns": "event f_cnt_up",
    "station.text": "station direction text origin held_us dropped",
    "station.link": "station",
    "lns.outcome": "station xtime lns frame_id dev_eui dev_addr f_cnt confirmed strategy status"
    " upstream reason answer level2",
    "lns.claim": "lns station xtime frame_id dev_eui dev_addr f_cnt decision f_cnt_down",
    "lns.downlink": "stage lns station xtime dev_eui dev_addr frame_id f_cnt_down diid window",
    "lns.too_late": "stage station n cause",
    "lns.evicted": "key",
    "upstream.published": "body",
    "upstream.status": "body",
}
"""What a line of a kind says beside what every line has: the columns of its table."""

# The fields of `updf` and `jreq` that identify and time a frame (Basics Station, LNS protocol).
STATION_TEXT = """
    msgtype STRING, MHdr BIGINT, DevAddr BIGINT, FCtrl BIGINT, FCnt BIGINT, FOpts STRING,
    FPort BIGINT, FRMPayload STRING, MIC BIGINT, JoinEui STRING, DevEui STRING, DevNonce BIGINT,
    DR BIGINT, Freq BIGINT, xtime BIGINT,
    upinfo STRUCT<rctx: BIGINT, xtime: BIGINT, rssi: DOUBLE, snr: DOUBLE>
"""

# The fields of `dnmsg` that say which uplink it answers, in which windows, and with what.
DOWN_TEXT = """
    msgtype STRING, DevEui STRING, diid BIGINT, dC INT, xtime BIGINT, RxDelay INT, RX1DR INT,
    RX1Freq BIGINT, RX2DR INT, RX2Freq BIGINT, rctx BIGINT, pdu STRING
"""
