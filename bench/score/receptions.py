"""What did the network server hear, who had sent it, what became of it, and was that early enough?

What the JSON text of a station says about a frame: Basics Station, LNS protocol, `updf`, `jreq` and
`dnmsg`. DevAddr and MIC are signed (or unsigned) 32-bit integers of the little-endian bytes of the
frame; EUIs have any spelling.

The deadline of RX1 is the end of the uplink on the air and RxDelay after it, that of RX2 a second
later (LoRaWAN 1.0.4, 3.3). The answer's moment is when its `dnmsg` left the tap for the station.
The margin is the one minus the other and nothing else: what a station needs to get ready is not
taken off. Where nothing tells of the air (real radios), the moment at which the reception left the
tap stands for the end of the uplink; as that is later, the margin is an upper bound.
"""

from bench.score.read import ARRIVAL

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

_HEX = "r'^([0-9A-Fa-f]{2})*$'"
# Uplink MAC commands by length (LoRaWAN 1.0.4, 5 and 12; 1.0.2, 14) up to the first LinkCheckReq
# (CID 02) or DeviceTimeReq (CID 0D).
_OTHERS = "^((03|05|07|0A|10|11|13)..|(02|04|08|09|0D|12)|06....)*"
_UINT32, _INT32_MIN = 0xFFFFFFFF, -(1 << 31)
# Whether something follows the object in the text, which Spark's JSON readers do not mind.
_TRAILS = r"(text RLIKE r'^\s*[{]' AND NOT text RLIKE r'[}]\s*$')"

# The text with one spelling of the names of EUIs.
_TEXT = """replace(replace(text, '"JoinEUI"', '"JoinEui"'), '"DevEUI"', '"DevEui"')"""


def eui_no(eui: str) -> str:
    """The EUI in this column as a signed 64-bit number, null where the column holds none."""
    return f"CAST(conv(if({eui} RLIKE '^[0-9A-F]{{16}}$', {eui}, NULL), 16, -10) AS BIGINT)"


def _eui(text: str) -> str:
    """16 upper-case digits from any spelling, null if none; 16 decimal ones are taken as plain."""
    head, tail = (
        f"filter(split(substring_index({text}, '::', {side}), ':'), part -> part != '')"
        for side in (1, -1)
    )
    groups = f"""transform(if({text} LIKE '%::%',
        concat({head}, array_repeat('0', greatest(4 - size({head}) - size({tail}), 0)), {tail}),
        split({text}, ':')), part -> lpad(part, 4, '0'))"""
    return f"""CASE WHEN {text} RLIKE '^([0-9A-Fa-f]{{2}}[-:]?){{7}}[0-9A-Fa-f]{{2}}$'
          THEN upper(regexp_replace({text}, '[-:]', ''))
        WHEN {text} RLIKE '^[0-9A-Fa-f]{{0,4}}(:[0-9A-Fa-f]{{0,4}}){{1,4}}$' AND size({groups}) = 4
          THEN upper(array_join({groups}, ''))
        WHEN {text} RLIKE '^[0-9]+$' AND try_cast({text} AS DECIMAL(20)) <= {(1 << 64) - 1}BD
          THEN lpad(conv({text}, 10, 16), 16, '0') END"""


def _hex(number: str, digits: int) -> str:
    return f"lpad(hex({number}), {digits}, '0')"


def _little_endian(hexadecimal: str, digits: int) -> str:
    octets = (f"substr({hexadecimal}, {place}, 2)" for place in range(digits - 1, 0, -2))
    return f"concat({', '.join(octets)})"


def heard(texts: str) -> str:
    """The rows of this table that stand for a reception, with what their `text` says.

    Adds is_join, readable, frame_id, phy (upper-case hex), dev_addr, mic, mic_no, f_cnt_wire,
    join_eui, join_dev_eui, dev_nonce, f_port, confirmed, adr_ack_req, adr, device_time, link_check,
    xtime, rssi_dbm, snr_db, dr and freq_hz. A text that is no JSON is a reception that cannot be
    read.
    """
    dev_addr, join_eui, join_dev_eui = "dev_addr_", "join_eui_", "join_dev_eui_"
    # | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
    data_phy = f"""concat({_hex("said.MHdr", 2)}, {_little_endian(dev_addr, 8)},
        {_hex("said.FCtrl", 2)}, {_little_endian(_hex("said.FCnt", 4), 4)}, upper(said.FOpts),
        if(said.FPort >= 0, {_hex("said.FPort", 2)}, ''), upper(said.FRMPayload), mic_)"""
    # | MHDR 1 | JoinEUI 8 | DevEUI 8 | DevNonce 2 | MIC 4 |
    join_phy = f"""concat({_hex("said.MHdr", 2)}, {_little_endian(join_eui, 16)},
        {_little_endian(join_dev_eui, 16)}, {_little_endian(_hex("said.DevNonce", 4), 4)}, mic_)"""
    return rf"""
FROM {texts}
|> EXTEND if({_TRAILS}, NULL, from_json({_TEXT}, '{STATION_TEXT}')) AS said
|> WHERE coalesce(said.msgtype IN ('updf', 'jreq'), false)
     OR NOT (try_parse_json(text) IS NOT NULL AND NOT {_TRAILS})
|> EXTEND coalesce(said.msgtype = 'jreq', false) AS is_join,
     {_eui("said.JoinEui")} AS join_eui_, {_eui("said.DevEui")} AS join_dev_eui_,
     {_hex(f"said.DevAddr & {_UINT32}", 8)} AS dev_addr_,
     {_little_endian(_hex(f"said.MIC & {_UINT32}", 8), 8)} AS mic_
|> EXTEND coalesce(
     said.MIC BETWEEN {_INT32_MIN} AND {_UINT32} AND said.DR BETWEEN 0 AND 15
     AND said.Freq BETWEEN 1 AND {_UINT32} AND coalesce(said.upinfo.xtime, 0) >= 0
     AND (said.upinfo.xtime IS NOT NULL OR get_json_object(text, '$.upinfo.xtime') IS NULL)
     AND (said.upinfo.rctx IS NOT NULL OR get_json_object(text, '$.upinfo.rctx') IS NULL)
     AND (said.msgtype = 'updf' AND said.MHdr IN (64, 128)
         AND said.DevAddr BETWEEN {_INT32_MIN} AND {_UINT32}
         AND said.FCtrl BETWEEN 0 AND 255 AND said.FCnt BETWEEN 0 AND 65535
         AND said.FOpts RLIKE {_HEX} AND length(said.FOpts) / 2 = said.FCtrl & 15
         AND said.FRMPayload RLIKE {_HEX} AND said.FPort BETWEEN -1 AND 255
         AND (said.FPort >= 0 OR said.FRMPayload = '') AND (said.FPort != 0 OR said.FOpts = '')
         AND length(said.FOpts) / 2 + length(said.FRMPayload) / 2 + 13 <= 255
       OR said.msgtype = 'jreq' AND said.MHdr = 0 AND join_eui_ IS NOT NULL
         AND join_dev_eui_ IS NOT NULL AND said.DevNonce BETWEEN 0 AND 65535), false) AS readable
|> EXTEND readable AND NOT is_join AS is_data, readable AND is_join AS is_request
|> EXTEND
     CASE WHEN is_data THEN concat_ws(':', dev_addr_, said.FCnt, mic_)
       WHEN is_request THEN concat_ws(':', join_eui_, join_dev_eui_, said.DevNonce)
     END AS frame_id,
     CASE WHEN is_data THEN {data_phy}
       WHEN is_request THEN {join_phy} END AS phy,
     if(is_data, dev_addr_, NULL) AS dev_addr, if(readable, mic_, NULL) AS mic,
     if(readable, said.MIC & {_UINT32}, NULL) AS mic_no, if(is_data, said.FCnt, NULL) AS f_cnt_wire,
     if(is_request, join_eui_, NULL) AS join_eui,
     if(is_request, join_dev_eui_, NULL) AS join_dev_eui,
     if(is_request, said.DevNonce, NULL) AS dev_nonce,
     if(is_data AND said.FPort >= 0, CAST(said.FPort AS INT), NULL) AS f_port,
     if(is_data, said.MHdr = 128, NULL) AS confirmed,
     if(is_data, said.FCtrl & 64 != 0, NULL) AS adr_ack_req,
     if(is_data, said.FCtrl & 128 != 0, NULL) AS adr,
     if(is_data, upper(said.FOpts) RLIKE '{_OTHERS}0D', NULL) AS device_time,
     if(is_data, upper(said.FOpts) RLIKE '{_OTHERS}02', NULL) AS link_check,
     if(readable, coalesce(said.upinfo.xtime, 0), NULL) AS xtime,
     if(readable, said.upinfo.rssi, NULL) AS rssi_dbm,
     if(readable, said.upinfo.snr, NULL) AS snr_db, if(readable, CAST(said.DR AS INT), NULL) AS dr,
     if(readable, said.Freq, NULL) AS freq_hz
|> DROP said, join_eui_, join_dev_eui_, dev_addr_, mic_, is_data, is_request"""


# | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
_OF_DATA_DOWN = {
    "f_cnt": "octet[7] * 256 + octet[6]",
    "ack": "octet[5] & 32 != 0",
    "f_pending": "octet[5] & 16 != 0",
    "f_opts_bytes": "octet[5] & 15",
    "f_port": "if(size(octet) > port_at + 4, octet[port_at], NULL)",
    "confirmed": "octet[0] & 224 = 160",
}
_OF_MESSAGE = {
    "rctx": "said.rctx",
    "rx_delay_s": "said.RxDelay",
    "rx1_dr": "said.RX1DR",
    "rx1_freq_hz": "said.RX1Freq",
    "rx2_dr": "said.RX2DR",
    "rx2_freq_hz": "said.RX2Freq",
}
_SAID = {name: f"if(is_data, {value}, NULL)" for name, value in _OF_DATA_DOWN.items()} | _OF_MESSAGE
_SAYS = ", ".join(f"'{name}', CAST({value} AS STRING)" for name, value in _SAID.items())
DNMSGS = f"""
-- The downlinks that reached the tap of a station: what they say of uplink, windows and frame.
-- tap_xtime is that of the uplink, null where there is none; device_class "A" or "C"; in_rx1 and
-- in_rx2: whether that window may be used; says: a map of texts, by the names of
-- bench.verdict.expectation.
FROM station_text |> WHERE direction = 'down'
|> EXTEND if({_TRAILS}, NULL, from_json({_TEXT}, '{DOWN_TEXT}')) AS said
|> WHERE said.msgtype = 'dnmsg'
|> EXTEND transform(regexp_extract_all(said.pdu, '(..)', 1), one -> CAST(conv(one, 16, 10) AS INT))
     AS octet
|> EXTEND said.pdu RLIKE '^([0-9A-Fa-f]{{2}}){{12,}}$' AND get(octet, 0) & 224 IN (96, 160)
       AS is_data, (get(octet, 5) & 15) + 8 AS port_at
|> SELECT run, case, station, t_us, seq, held_us, coalesce(dropped, false) AS dropped,
     said.xtime AS tap_xtime, said.diid, {_eui("said.DevEui")} AS dev_eui, map({_SAYS}) AS says,
     if(said.dC = 2, 'C', 'A') AS device_class,
     -- LoRaWAN: 0 stands for 1 s.
     greatest(coalesce(said.RxDelay, 1), 1) * 1000000L AS rx_delay_us,
     said.RX1Freq IS NOT NULL AS in_rx1, said.RX2Freq IS NOT NULL AS in_rx2"""

WORDS = ("status", "upstream", "reason", "answer")
# Everything before a row in its case, and the row.
SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def told(word: str) -> str:
    """A word of the `outcome`, "-" where it is absent; null where there is no outcome."""
    return f"if(told, coalesce(outcome.{word}, '-'), NULL)"


def sentence(status: str, upstream: str, reason: str, answer: str) -> str:
    """The words as people write them: "status upstream(reason) answer"."""
    bracketed = f"coalesce(if({reason} != '-', concat('(', {reason}, ')'), NULL), '')"
    return f"concat_ws(' ', {status}, concat({upstream}, {bracketed}), {answer})"


_TEXTS = f"""
SELECT run, case, {ARRIVAL}, station, text, origin, held_us
FROM station_text WHERE direction = 'up' AND NOT coalesce(dropped, false)"""

# What only few look at, packed so that each step on the way copies one column more, not many.
_OF_FRAME = """readable, dev_addr, mic, mic_no, f_cnt_wire, join_eui, join_dev_eui, dev_nonce,
    f_port, confirmed, adr_ack_req, adr, device_time, link_check"""
_OF_TEXT = "text, origin, held_us, phy, rssi_dbm, snr_db, dr, freq_hz"
_EQUAL = f"(PARTITION BY xtime, station, run, case ORDER BY {ARRIVAL})"
_HEARD = f"""
-- One row per frame of a station that left its tap; frame: what it says, said: the text about it.
-- copy counts the receptions of a frame in a case from 0, turn those with the same station and
-- xtime, the first since_us. The sender is known from the latest transmission of the same bytes in
-- the case: a replayed frame finds its original, altered bytes find nothing and are not genuine.
SELECT h.*, try_element_at(filter(sendings, one -> one.t_us <= h.t_us), -1) AS latest
FROM (SELECT run, case, {ARRIVAL}, station, xtime, frame_id, is_join,
    struct({_OF_FRAME}) AS frame, struct({_OF_TEXT}) AS said FROM texts_heard) AS h
LEFT JOIN (
  SELECT run, case, upper(phy) AS phy, sort_array(collect_list(struct(t_us, genuine, dev_eui,
    session, f_cnt, transmission))) AS sendings
  FROM radio_transmit WHERE direction = 'up' GROUP BY ALL) AS s
ON h.run = s.run AND h.case <=> s.case AND h.said.phy = s.phy
|> EXTEND if(latest.genuine, latest, NULL) AS sent,
     row_number() OVER (PARTITION BY frame_id, run, case ORDER BY {ARRIVAL}) - 1 AS copy,
     row_number() OVER {_EQUAL} AS turn, min(t_us) OVER {_EQUAL} AS since_us
|> EXTEND coalesce(frame.join_dev_eui, sent.dev_eui) AS dev_eui |> DROP latest"""

_OUTCOMES = f"""
-- One row per outcome; turn counts those with the same station and xtime in a case.
FROM lns_outcome
|> EXTEND row_number() OVER {_EQUAL} AS turn
|> DROP kind"""

# How long what a network server has said may be on its way; as `bench.verdict.expectation` has it.
UNDER_WAY_US = 1_000_000
_KEY = ("xtime", "station", "turn", "run", "case")
_SHARED = (*_KEY, "t_us", "source", "seq")
_MATCHED = f"""
-- Receptions and outcomes side by side; heard and told say which of the two is there. They belong
-- together by station, xtime and their turn among those. No outcome: null; was_cut: a scenario may
-- have ended its server over it, so its message may be out without an outcome, and its answer too.
SELECT monotonically_increasing_id() AS row_id, h.turn IS NOT NULL AS heard,
  o.turn IS NOT NULL AS told,
  {", ".join(f"coalesce(h.{one}, o.{one}) AS {one}" for one in _SHARED)},
  h.* EXCEPT ({", ".join(_SHARED)}), o.outcome
FROM texts_sent AS h FULL JOIN (
  SELECT {", ".join(_SHARED)}, struct(t_us, seq, lns, frame_id, confirmed, status, upstream, reason,
    answer, level2) AS outcome FROM outcomes) AS o
  ON {" AND ".join(f"h.{one} <=> o.{one}" for one in _KEY)}
|> LEFT JOIN (SELECT run, case, links, if(size(restarts) > 0, {UNDER_WAY_US} + 2 * coalesce(
     upstream_late_us, 0), NULL) AS within_us, kills, cut FROM cases) USING (run, case)
|> EXTEND coalesce(heard AND NOT told AND exists(concat(filter(links, one -> one.station = station
     ).t_us, if(array_contains(cut, station), kills, array())),
     at_us -> at_us BETWEEN since_us AND t_us + within_us), false) AS was_cut
|> DROP links, within_us, kills, cut"""

_STORE_CALLS = f"""
-- How often level 2 was asked in the cases in which it is asked at all, by run, strategy and
-- status. ADR 007: Duplicate and SoftDuplicate never ask; saving those calls was a goal of the
-- design. uplinks counts frames, each at its first reception, asked the receptions that asked.
FROM outcomes |> WHERE confirmed IS NOT NULL AND dev_eui IS NOT NULL
|> LEFT SEMI JOIN (SELECT run, case FROM lns_claim WHERE case IS NOT NULL) USING (run, case)
|> EXTEND row_number() OVER (PARTITION BY frame_id, run, case ORDER BY {ARRIVAL}) AS copy
|> SET status = coalesce(status, '-')
|> AGGREGATE count_if(copy = 1) AS uplinks, count(*) AS receptions,
     count_if(level2 != 'NotAsked') AS asked GROUP BY run, strategy, status"""

_ANSWERS = """
-- How many receptions of each strategy and kind ended in each answer.
FROM outcomes |> AGGREGATE count(*) AS count GROUP BY run, strategy, confirmed, answer"""

# A station takes RX1 if that is at least so far ahead, else RX2, else nothing (Basics Station).
AIM_GAP_US = 20_000
RX2_AFTER_RX1_US = 1_000_000
_XTIME = "run, case, station, xtime"
_RECEPTION = f"{_XTIME}, nth"

_ANSWERED = f"""
-- The receptions with an answer; nth counts those with the same station and xtime.
FROM matched |> WHERE heard AND told AND (is_join OR outcome.confirmed) AND case IS NOT NULL
     AND outcome.answer IN ('RX1', 'RX2')
|> EXTEND coalesce(said.held_us, 0) AS held_us_, said.origin <=> 'injected' AS injected
|> SELECT {_XTIME}, row_number() OVER (PARTITION BY {_XTIME} ORDER BY t_us, turn) AS nth,
     frame_id, said.phy, if(is_join, 'join', 'data') AS kind, outcome.lns, outcome.answer AS aimed,
     t_us - held_us_ AS heard_us, injected, held_us_ > 0 OR injected AS held"""

_ENDS = f"""
-- When the uplink ended on the air: the last time it did before the station told of it.
SELECT {_RECEPTION}, max(t_us + airtime_us) AS air_end_us
FROM answered JOIN (SELECT run, case, upper(phy) AS phy, t_us, airtime_us FROM radio_transmit
  WHERE direction = 'up') USING (run, case, phy)
WHERE NOT injected AND t_us + airtime_us <= heard_us GROUP BY {_RECEPTION}"""

_MARGINS = f"""
-- One row per confirmed uplink or join that the network server answered. aimed is the window of the
-- outcome, used the one that the station reports (null if none), usable the one that the station
-- could still use (none: too late). disturbed: the bench held the texts back, invented the uplink,
-- or slowed the network server down, or the host stalled meanwhile; such margins say nothing of the
-- network server.
FROM answered
|> JOIN (
     SELECT run, case, station, tap_xtime AS xtime, diid, rx_delay_us, in_rx1, in_rx2,
       t_us AS left_us, coalesce(held_us, 0) > 0 AS held_down,
       row_number() OVER (PARTITION BY run, case, station, tap_xtime ORDER BY t_us, seq) AS nth
     FROM dnmsgs WHERE NOT dropped AND case IS NOT NULL AND device_class = 'A'
       AND tap_xtime IS NOT NULL) USING ({_RECEPTION})
|> LEFT JOIN ends USING ({_RECEPTION})
|> LEFT JOIN (
     SELECT run, case, station, diid, frame_id, min_by(window, t_us) AS used FROM lns_downlink
     WHERE stage = 'transmitted' GROUP BY ALL) USING (run, case, station, diid, frame_id)
|> LEFT JOIN (SELECT run, case, slowed_us FROM cases) USING (run, case)
|> LEFT JOIN stalls USING (run)
|> EXTEND coalesce(air_end_us, heard_us) AS end_us
|> EXTEND end_us + rx_delay_us - left_us AS margin_rx1_us
|> EXTEND margin_rx1_us + {RX2_AFTER_RX1_US} AS margin_rx2_us
|> SELECT run, case, station, lns, frame_id, kind, aimed, used,
     CASE WHEN in_rx1 AND margin_rx1_us >= {AIM_GAP_US} THEN 'RX1'
       WHEN in_rx2 AND margin_rx2_us >= {AIM_GAP_US} THEN 'RX2' ELSE 'none' END AS usable,
     margin_rx1_us, margin_rx2_us, if(air_end_us IS NULL, 'tap', 'air') AS measured_from,
     held OR held_down OR coalesce(slowed_us <= left_us, false) OR coalesce(exists(stalls,
       one -> one.since_us <= left_us AND one.woke_us >= end_us), false) AS disturbed,
     left_us - end_us AS consumed_us,
     left_us AS t_us"""

_OF_RUN = """
-- The distribution of each run and kind, in µs; of what was not disturbed, but for disturbed. late:
-- no window was left that the station could use; late_for_rx1: aimed at RX1, and only RX2 was left;
-- counts: how many margins to RX1 lie in each whole millisecond (floor); those to RX2 are all a
-- second longer.
SELECT * FROM (
  SELECT run, kind, count_if(NOT disturbed) AS answers, count_if(disturbed) AS disturbed,
    count_if(NOT disturbed AND usable = 'none') AS late,
    count_if(NOT disturbed AND aimed = 'RX1' AND usable = 'RX2') AS late_for_rx1,
    count_if(NOT disturbed AND measured_from = 'air') AS from_air,
    min(margin_rx1_us) FILTER (WHERE NOT disturbed) AS min_us,
    percentile(margin_rx1_us, array(0.01, 0.5, 0.99)) FILTER (WHERE NOT disturbed) AS shares_us,
    transform(percentile(consumed_us, array(0.5, 0.95, 0.99)) FILTER (WHERE NOT disturbed),
      one -> CAST(round(one) AS BIGINT)) AS consumed_shares_us,
    max(consumed_us) FILTER (WHERE NOT disturbed) AS consumed_max_us
  FROM margins GROUP BY run, kind)
LEFT JOIN (
  FROM margins |> WHERE NOT disturbed
  |> AGGREGATE count(*) AS count GROUP BY run, kind, floor(margin_rx1_us / 1000) AS ms
  |> AGGREGATE sort_array(collect_list(struct(ms, count))) AS counts GROUP BY run, kind)
USING (run, kind)"""

_CLEAN = "FILTER (WHERE NOT disturbed)"
_MARGIN_NIGHTS = f"""
-- One row per run, station, kind and place of measuring: the time that answers consumed.
SELECT run, station, kind, measured_from, cast(count_if(NOT disturbed) AS INT) AS n,
  cast(count_if(disturbed) AS INT) AS disturbed,
  cast(round(percentile(consumed_us, 0.5) {_CLEAN}) AS BIGINT) AS consumed_p50_us,
  cast(round(percentile(consumed_us, 0.95) {_CLEAN}) AS BIGINT) AS consumed_p95_us,
  cast(round(percentile(consumed_us, 0.99) {_CLEAN}) AS BIGINT) AS consumed_p99_us,
  max(consumed_us) {_CLEAN} AS consumed_max_us, min(margin_rx1_us) {_CLEAN} AS margin_min_us,
  cast(round(percentile(margin_rx1_us, 0.01) {_CLEAN}) AS BIGINT) AS margin_p1_us,
  cast(count_if(NOT disturbed AND usable = 'none') AS INT) AS late,
  cast(count_if(NOT disturbed AND aimed = 'RX1' AND usable = 'RX2') AS INT) AS late_for_rx1
FROM margins GROUP BY run, station, kind, measured_from"""

QUERIES = {
    "outcomes": _OUTCOMES,
    "dnmsgs": DNMSGS,
    "texts": _TEXTS,
    "texts_heard": heard("texts"),
    "texts_sent": _HEARD,
    "matched": _MATCHED,
    "answers": _ANSWERS,
    "store_calls": _STORE_CALLS,
    "answered": _ANSWERED,
    "ends": _ENDS,
    "margins": _MARGINS,
    "margins_of_runs": _OF_RUN,
    "margin_nights": _MARGIN_NIGHTS,
}
