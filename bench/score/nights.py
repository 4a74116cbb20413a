"""What does a run leave for the comparison of nights, and what changed between them?

`stimuli`, `margin_nights` and `lab_nights` are small tables made of the facts of a run; those of
several nights are known to `bench.night`, and written by `bench.lake`.
"""

from bench.night.morning import SICK_SHARE
from bench.score.expectations import Grade

_Z = 1.959963984540054
_RATE = "sum(missed) / sum(planned)"
_WILSON_LOW = f"""if(sum(missed) = 0, 0.0, ({_RATE} + {_Z * _Z / 2} / sum(planned)
  - {_Z} * sqrt({_RATE} * (1 - {_RATE}) / sum(planned)
    + {_Z * _Z / 4} / (sum(planned) * sum(planned)))) / (1 + {_Z * _Z} / sum(planned)))"""

OPPORTUNITIES = f"""
-- One row per case, device and station: how many receptions were planned and how many missed.
-- One is missed where the station that was to hear the frame did not deliver it.
SELECT *, planned - missed AS heard
FROM (
  SELECT run, case, coalesce(dev_eui, 'unknown') AS device, due_station AS station,
    cast(count(*) AS INT) AS planned,
    cast(count_if(grade IN ('{Grade.NOT_DELIVERED}', '{Grade.OTHER_STATION}')) AS INT) AS missed
  FROM scores LEFT JOIN senders USING (run, case, frame_id)
  WHERE due_station IS NOT NULL AND grade != '{Grade.NOT_EXPECTED}'
  GROUP BY ALL)
LEFT JOIN (
  SELECT run, case, station, median(said.rssi_dbm) AS rssi_p50, median(said.snr_db) AS snr_p50
  FROM matched WHERE heard GROUP BY ALL) USING (run, case, station)"""

STIMULI = """
-- The same, with what followed for the case.
FROM opportunities
|> LEFT JOIN (
     SELECT run, case, attempt, if(verdict = 'INCONCLUSIVE', get(reasons, 0), NULL) AS reason
     FROM verdicts) USING (run, case)"""

SENDERS = """
-- Who sent each frame, as the air tells, or the receptions of it.
SELECT run, case, frame_id, min(dev_eui) AS dev_eui FROM (
  SELECT run, case, frame_id, dev_eui FROM radio_transmit WHERE direction = 'up'
  UNION ALL SELECT run, case, frame_id, dev_eui FROM matched WHERE heard)
WHERE dev_eui IS NOT NULL AND frame_id IS NOT NULL GROUP BY ALL"""

_CLEAN = "FILTER (WHERE NOT disturbed)"
MARGIN_NIGHTS = f"""
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

LAB_NIGHTS = f"""
-- One row per run and part of the lab: what became of the stimuli that needed it.
SELECT run, part_kind, part, cast(sum(planned) AS INT) AS opportunities,
  cast(sum(missed) AS INT) AS missed, cast(count_if(superseded) AS INT) AS repeats,
  cast(count_if(verdict = 'INCONCLUSIVE') AS INT) AS inconclusive,
  cast(count_if(verdict = 'ERROR') AS INT) AS errors, median(rssi_p50) AS rssi_p50,
  median(snr_p50) AS snr_p50, {_WILSON_LOW} > {SICK_SHARE} AS sick
FROM (
  SELECT run, case, part_kind, part, sum(planned) AS planned, sum(missed) AS missed,
    median(rssi_p50) AS rssi_p50, median(snr_p50) AS snr_p50
  FROM (
    SELECT *, 'station' AS part_kind, station AS part FROM stimuli
    UNION ALL SELECT *, 'device', device FROM stimuli WHERE device != 'unknown')
  GROUP BY ALL)
LEFT JOIN (SELECT run, case, superseded, verdict FROM verdicts) USING (run, case)
GROUP BY run, part_kind, part"""

QUERIES = {
    "senders": SENDERS, "opportunities": OPPORTUNITIES, "stimuli": STIMULI,
    "margin_nights": MARGIN_NIGHTS, "lab_nights": LAB_NIGHTS,
}  # fmt: skip
