"""What did the scenarios say was due, and was it so?

Reception by reception: the n-th expectation of a frame stands against its n-th reception. Where
another station delivered it, or none, the stimulus was not what the scenario set up and nothing
follows for the network server. What each device and station missed is kept for the comparison of
nights (`bench.night`).
"""

from enum import StrEnum

from bench.night.morning import SICK_SHARE
from bench.night.statistics import Z_95
from bench.score.read import ARRIVAL
from bench.score.receptions import WORDS, sentence, told


class Grade(StrEnum):
    """How one expectation and one reception go together."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NO_OUTCOME = "no outcome"
    NOT_DELIVERED = "not delivered"
    OTHER_STATION = "other station"
    NOT_EXPECTED = "not expected"


_EXPECTATIONS = f"""
-- One row per reception that is due: copy counts those of a frame in a case from 0. level2 is null
-- where that word is not asked about; rows of one race are due at one moment.
FROM case_expect |> WHERE expect = 'outcome'
|> SELECT run, case, frame_id,
     row_number() OVER (PARTITION BY frame_id, run, case ORDER BY seq) - 1 AS copy,
     station, {", ".join(WORDS)}, level2, race, seq"""

# Stations that deliver a frame at one moment may come in any order, and whichever of them gets
# which of the words that are due is right. A race is settled before anything is judged, as the
# plain-Python verdict does it: the receptions, in order of their words, get the words that are due,
# in order too. Without the stations of the race at its places nothing is settled.
_DUE = ("due", "due_status", "due_words")
_RACE = "PARTITION BY race, frame_id, run, case"
_OF_RACE = f"sort_array(collect_list(%s) OVER ({_RACE}))"
_BESIDE = f"""
-- One row per reception that is due or that a frame with expectations had. The word of level 2
-- counts only where one is due.
FROM (
  SELECT run, case, frame_id, copy, station AS due_station, race, seq AS due_seq,
    concat_ws(' ', {sentence(*WORDS)}, level2) AS due, status AS due_status,
    struct({", ".join(WORDS)}, level2) AS due_words
  FROM expectations) AS due
FULL JOIN (
  SELECT run, case, frame_id, copy, station AS heard_station, told, t_us,
    {sentence(*(told(word) for word in WORDS))} AS observed,
    struct({", ".join(f"{told(word)} AS {word}" for word in (*WORDS, "level2"))}) AS observed_words
  FROM matched LEFT SEMI JOIN expectations USING (run, case, frame_id) WHERE heard) AS seen
USING (run, case, frame_id, copy)
|> EXTEND if(due_words.level2 IS NULL, NULL, observed_words.level2) AS level2
|> SET observed = concat_ws(' ', observed, level2)"""
_SCORES = f"""
-- The same, with its grade; races are few.
FROM (
  FROM beside |> WHERE race IS NULL
  UNION ALL (
    FROM beside |> WHERE race IS NOT NULL
    |> EXTEND {_OF_RACE % "heard_station"} = {_OF_RACE % "due_station"} AS is_settled,
         get({_OF_RACE % "struct(due, copy, due_status, due_words)"}, row_number() OVER ({_RACE}
           ORDER BY coalesce(if(told, observed, NULL), ''), copy) - 1) AS settled
    |> SET due_station = if(is_settled, heard_station, due_station),
         {", ".join(f"{one} = if(is_settled, settled.{one}, {one})" for one in _DUE)}
    |> DROP is_settled, settled))
|> SELECT run, case, frame_id, copy, due_station, heard_station, due, due_status,
     if(told, observed, NULL) AS observed, observed_words.status AS observed_status,
     CASE WHEN due IS NULL THEN '{Grade.NOT_EXPECTED}'
       WHEN heard_station IS NULL THEN '{Grade.NOT_DELIVERED}'
       WHEN heard_station != due_station THEN '{Grade.OTHER_STATION}'
       WHEN NOT told THEN if(due_words.upstream = '-', '{Grade.AGREES}', '{Grade.NO_OUTCOME}')
       WHEN due_words <=> struct({", ".join(f"observed_words.{word}" for word in WORDS)}, level2)
         THEN '{Grade.AGREES}'
       ELSE '{Grade.DIFFERS}' END AS grade,
     t_us, due_seq"""


def _without_signal(line: str) -> str:
    """What is due of a downlink has no signal, as `bench.verdict.expectation` says."""
    return rf"regexp_replace({line}, r'^(\+EVT:RX_[0-9A-Z]+):-?[0-9]+:-?[0-9]+:', '$1:')"


_REST_OF_SAID = "slice(said, CAST(state.passed AS INT) + 1, size(said))"
_PLACE = f"array_position({_REST_OF_SAID}, {_without_signal('one')})"
_UNSAID = f"""
-- One row per line that a device should have said and did not; answered: a downlink can be why it
-- says so, one to the port that it names, or with an ACK. Lines are due in order: each is looked
-- for after the one before it, and after one that is missing nothing is found.
FROM case_expect |> WHERE expect = 'device'
|> AGGREGATE sort_array(collect_list(struct(seq, line))).line AS due, min(seq) AS seq
   GROUP BY run, case, dev_eui
|> LEFT JOIN (
     SELECT run, case, dev_eui,
       sort_array(collect_list(struct({ARRIVAL}, {_without_signal("text")} AS text))).text AS said
     FROM device_line WHERE case IS NOT NULL GROUP BY run, case, dev_eui) USING (run, case, dev_eui)
|> LEFT JOIN (SELECT run, case, dev_eui, collect_set(struct(says['f_port'] AS port,
       says['ack'] AS ack)) AS answers FROM dnmsgs GROUP BY ALL) USING (run, case, dev_eui)
|> SET said = coalesce(said, CAST(array() AS ARRAY<STRING>))
|> SELECT run, case, dev_eui, seq, answers, posexplode(aggregate(due,
     struct(0L AS passed, CAST(array() AS ARRAY<STRING>) AS missing),
     (state, one) -> if({_PLACE} = 0,
       struct(CAST(size(said) AS BIGINT) AS passed, concat(state.missing, array(one)) AS missing),
       struct(state.passed + {_PLACE} AS passed, state.missing AS missing)),
     state -> state.missing)) AS (nth, line)
|> EXTEND regexp_extract(line, '(?:UNICAST:|PORT: )([0-9]+)', 1) AS port
|> EXTEND line RLIKE '(TX_DONE|MSG: Done)$' OR coalesce(exists(answers,
     one -> (port = '' OR coalesce(one.port = port, false))
       AND (one.ack <=> 'true' OR NOT line RLIKE '(SEND_CONFIRMED_OK|ACK Received)$')), false)
     AS answered |> DROP answers, port"""

_WRONG_ANSWERS = """
-- One row per field of an answer that is not as due; one per answer that was never sent.
SELECT run, case, frame_id, n, pos, field, due, says[field] AS observed,
  coalesce(sent, false) AS sent, seq
FROM (SELECT run, case, frame_id, n, seq,
        posexplode(from_json(body, 'MAP<STRING, STRING>')) AS (pos, field, due)
      FROM case_expect WHERE expect = 'answer')
LEFT JOIN (
  SELECT run, case, frame_id, says, true AS sent,
    row_number() OVER (PARTITION BY run, case, frame_id ORDER BY t_us, station, seq) - 1 AS n
  FROM dnmsgs JOIN (SELECT run, case, station, xtime AS tap_xtime,
      max_by(frame_id, t_us) AS frame_id FROM matched WHERE heard GROUP BY ALL)
    USING (run, case, station, tap_xtime)) USING (run, case, frame_id, n)
WHERE (pos = 0 AND sent IS NULL) OR (sent AND NOT says[field] <=> due)"""

_WRONG_BODIES = """
-- One row per field of a message of an uplink through one station that is not as due.
SELECT run, case, station, message_id, field, due, said[field] AS observed, seq
FROM (SELECT run, case, dev_eui, f_cnt, station, seq,
        explode(from_json(body, 'MAP<STRING, STRING>')) AS (field, due)
      FROM case_expect WHERE expect = 'upstream')
JOIN published USING (run, case, dev_eui, f_cnt, station)
WHERE NOT said[field] <=> due"""

_WRONG_WINDOWS = f"""
-- One row per frame whose answers went on the air in other windows than due.
FROM case_expect |> WHERE expect = 'on_air'
|> AGGREGATE max_by(windows, seq) AS due, max(seq) AS seq GROUP BY run, case, frame_id
|> LEFT JOIN (
     SELECT run, case, frame_id,
       sort_array(collect_list(struct({ARRIVAL}, window))).window AS observed
     FROM lns_downlink WHERE stage = 'transmitted' GROUP BY ALL) USING (run, case, frame_id)
|> SET observed = coalesce(observed, CAST(array() AS ARRAY<STRING>)) |> WHERE observed != due"""

_WRONG_STATUSES = """
-- One row per device whose status the application was told not as often as due.
FROM case_expect |> WHERE expect = 'status'
|> AGGREGATE max_by(count, seq) AS due, max(seq) AS seq GROUP BY run, case, dev_eui
|> LEFT JOIN (
     SELECT run, case, get_json_object(body, '$.devEui') AS dev_eui,
       count(DISTINCT get_json_object(body, '$.messageId')) AS observed
     FROM upstream_status GROUP BY ALL) USING (run, case, dev_eui)
|> SET observed = coalesce(observed, 0) |> WHERE observed != due"""

_WRONG_EVICTIONS = """
-- One row per case in which level 1 forgot frames before their time not as often as due.
FROM case_expect |> WHERE expect = 'evicted'
|> AGGREGATE max_by(count, seq) AS due, max(seq) AS seq GROUP BY run, case
|> LEFT JOIN (SELECT run, case, count(*) AS observed FROM lns_evicted GROUP BY run, case)
   USING (run, case)
|> SET observed = coalesce(observed, 0) |> WHERE observed != due"""

_SCHEDULED = """
-- The downlinks that network servers handed to a station.
FROM lns_downlink |> WHERE stage = 'scheduled'"""

_PUBLISHED = f"""
-- The messages that the application got; said is a map from field to value as text.
FROM upstream_published |> EXTEND from_json(body, 'MAP<STRING, STRING>') AS said
|> SELECT run, case, said.messageId AS message_id, said.devEui AS dev_eui, said.station,
     try_cast(said.fCnt AS BIGINT) AS f_cnt, coalesce(said.dupMsg = 'true', false) AS marked,
     said, t_us, struct({ARRIVAL}) AS arrival"""

_RATE = "sum(missed) / sum(planned)"
_WILSON_LOW = f"""if(sum(missed) = 0, 0.0, ({_RATE} + {Z_95 * Z_95 / 2} / sum(planned)
  - {Z_95} * sqrt({_RATE} * (1 - {_RATE}) / sum(planned)
    + {Z_95 * Z_95 / 4} / (sum(planned) * sum(planned)))) / (1 + {Z_95 * Z_95} / sum(planned)))"""

_OPPORTUNITIES = f"""
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

_STIMULI = """
-- The same, with what followed for the case.
FROM opportunities
|> LEFT JOIN (
     SELECT run, case, attempt, if(verdict = 'INCONCLUSIVE', get(reasons, 0), NULL) AS reason
     FROM verdicts) USING (run, case)"""

_SENDERS = """
-- Who sent each frame, as the air tells, or the receptions of it.
SELECT run, case, frame_id, min(dev_eui) AS dev_eui FROM (
  SELECT run, case, frame_id, dev_eui FROM radio_transmit WHERE direction = 'up'
  UNION ALL SELECT run, case, frame_id, dev_eui FROM matched WHERE heard)
WHERE dev_eui IS NOT NULL AND frame_id IS NOT NULL GROUP BY ALL"""

_LAB_NIGHTS = f"""
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
    "expectations": _EXPECTATIONS,
    "beside": _BESIDE,
    "scores": _SCORES,
    "scheduled": _SCHEDULED,
    "published": _PUBLISHED,
    "unsaid": _UNSAID,
    "wrong_answers": _WRONG_ANSWERS,
    "wrong_bodies": _WRONG_BODIES,
    "wrong_windows": _WRONG_WINDOWS,
    "wrong_statuses": _WRONG_STATUSES,
    "wrong_evictions": _WRONG_EVICTIONS,
    "senders": _SENDERS,
    "opportunities": _OPPORTUNITIES,
    "stimuli": _STIMULI,
    "lab_nights": _LAB_NIGHTS,
}
