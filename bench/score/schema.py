"""What may stand in a capture line, a station's text and an upstream body, as explicit schemas?

In the words of SQL, because those need no running session.
"""

TORN = "torn"

# One row per line, all kinds side by side; what a kind does not have is null.
CAPTURE_FIELDS = """
    schema INT, run_id STRING, source STRING, seq BIGINT, t_us BIGINT, kind STRING,
    case STRING, scenario STRING, file STRING, title STRING, group STRING, rig STRING,
    strategy STRING, confirmed BOOLEAN, params STRING,
    expect STRING, windows ARRAY<STRING>, frame_id STRING, n INT, station STRING,
    status STRING, upstream STRING,
    reason STRING, answer STRING, dev_eui STRING, line STRING,
    verdict STRING, reasons ARRAY<STRING>, owner STRING, attempt INT, repeated BOOLEAN,
    name STRING, eui STRING, activation STRING, relaxed_f_cnt BOOLEAN, f_cnt_bits INT,
    nb_trans INT, dev_status_s BIGINT, f_cnt_up BIGINT, lorawan STRING, join_eui STRING,
    server STRING,
    lns STRING, retention_us BIGINT, region STRING, event STRING,
    seam STRING, fault STRING, origin STRING, detail STRING,
    text STRING, transmission BIGINT, direction STRING, sender STRING, session INT, f_cnt BIGINT,
    genuine BOOLEAN, phy STRING, freq_hz BIGINT, dr INT, airtime_us BIGINT,
    receiver STRING, cause STRING, held_us BIGINT, dropped BOOLEAN,
    dev_addr STRING, mic STRING, level2 STRING, xtime BIGINT,
    stage STRING, diid BIGINT, window STRING, f_cnt_down BIGINT, margin_us BIGINT,
    key STRING, silent_us BIGINT, topic STRING, body STRING,
    missing ARRAY<STRING>, late_us BIGINT,
    on_outage STRING, decision STRING, duration_us BIGINT, race INT,
    rule STRING, expected STRING, observed STRING,
    consumer STRING, message_id STRING, position BIGINT, by STRING, first_position BIGINT, count INT
"""


CAPTURE = f"{CAPTURE_FIELDS}, {TORN} STRING"
CAPTURE_NAMES = tuple(field.split()[0] for field in CAPTURE_FIELDS.split(","))

_MESSAGE = "topic body message_id consumer station by key position first_position"
_FAULT = "seam fault origin detail"
# What a line of each kind says beside what every line has: the columns of its narrow table.
KINDS = {
    kind: tuple(fields.split())
    for kind, fields in {
        "case.begin": "scenario file title group rig strategy confirmed params",
        "case.device": "dev_eui name activation strategy relaxed_f_cnt f_cnt_bits nb_trans f_cnt_up"
        " dev_status_s lorawan join_eui server",
        "case.station": "eui name",
        "case.lns": "lns event retention_us region on_outage f_cnt_up",
        "case.expect": "expect frame_id n station status upstream reason answer level2 race windows"
        " dev_eui dev_addr line f_cnt body consumer message_id by count",
        "case.end": "verdict reasons owner attempt repeated",
        "case.left_out": "scenario file title group missing",
        "case.finding": "owner rule text frame_id station expected observed",
        "stimulus.missed": "owner reason",
        "host.stalled": "late_us",
        "fault.begin": _FAULT,
        "radio.transmit": "transmission direction sender dev_eui session f_cnt frame_id genuine"
        " origin phy airtime_us",
        "device.line": "dev_eui text",
        "station.text": "station direction text origin held_us dropped",
        "station.link": "station event",
        "lns.outcome": "station xtime lns frame_id dev_eui dev_addr f_cnt confirmed strategy status"
        " upstream reason answer level2",
        "lns.claim": "lns station xtime frame_id dev_eui dev_addr f_cnt decision owner f_cnt_down",
        "lns.downlink": "stage lns station xtime dev_eui dev_addr frame_id f_cnt_down diid window",
        "lns.request": "dev_eui stage",
        "lns.too_late": "stage station n cause",
        "lns.evicted": "key",
        "upstream.published": _MESSAGE,
        "upstream.repeated": _MESSAGE,
        "upstream.injected": _MESSAGE,
        "upstream.status": "body",
        "upstream.failed": "",
        "inbox.accepted": _MESSAGE,
        "inbox.ignored": _MESSAGE,
        "inbox.parked": _MESSAGE,
        "application.effect": _MESSAGE,
    }.items()
}

# The fields of `updf` and `jreq` that identify and time a frame (Basics Station, LNS protocol).
STATION_TEXT = """
    msgtype STRING, MHdr BIGINT, DevAddr BIGINT, FCtrl BIGINT, FCnt BIGINT, FOpts STRING,
    FPort BIGINT, FRMPayload STRING, MIC BIGINT, JoinEui STRING, DevEui STRING, DevNonce BIGINT,
    DR BIGINT, Freq BIGINT, xtime BIGINT,
    upinfo STRUCT<xtime: BIGINT, rssi: DOUBLE, snr: DOUBLE>
"""

# The fields of `dnmsg` that say which uplink it answers, in which windows, and with what.
DOWN_TEXT = """
    msgtype STRING, DevEui STRING, diid BIGINT, dC INT, xtime BIGINT, RxDelay INT, RX1DR INT,
    RX1Freq BIGINT, RX2DR INT, RX2Freq BIGINT, rctx INT, pdu STRING
"""
