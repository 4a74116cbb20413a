"""How early was an answer there for the station to send it in time?

The deadline of RX1 is the end of the uplink on the air and RxDelay after it, that of RX2 a second
later (LoRaWAN 1.0.4, 3.3). The answer's moment is when its `dnmsg` left the tap for the station.
The margin is the one minus the other and nothing else: what a station needs to get ready is not
taken off. Where nothing tells of the air (real radios), the moment at which the reception left the
tap stands for the end of the uplink; as that is later, the margin is an upper bound.
"""

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
  max(consumed_us) {_CLEAN} AS consumed_max_us,
  min(margin_rx1_us) {_CLEAN} AS margin_min_us,
  cast(round(percentile(margin_rx1_us, 0.01) {_CLEAN}) AS BIGINT) AS margin_p1_us,
  cast(count_if(NOT disturbed AND usable = 'none') AS INT) AS late,
  cast(count_if(NOT disturbed AND aimed = 'RX1' AND usable = 'RX2') AS INT) AS late_for_rx1
FROM margins GROUP BY run, station, kind, measured_from"""

QUERIES = {
    "answered": _ANSWERED, "ends": _ENDS, "margins": _MARGINS, "margins_of_runs": _OF_RUN,
    "margin_nights": _MARGIN_NIGHTS,
}  # fmt: skip
