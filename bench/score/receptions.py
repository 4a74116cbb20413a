"""What did the network server hear, who had sent it, and what does it say became of it?"""

from bench.score.read import ARRIVAL
from bench.score.station_text import DNMSGS, heard

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
_HEARD = f"""
-- One row per frame of a station that left its tap; frame: what it says, said: the text about it.
-- copy counts the receptions of a frame in a case from 0, turn those with the same station and
-- xtime. What is known of the sender comes from the latest transmission of the very same bytes in
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
     row_number() OVER (PARTITION BY xtime, station, run, case ORDER BY {ARRIVAL}) AS turn
|> EXTEND coalesce(frame.join_dev_eui, sent.dev_eui) AS dev_eui |> DROP latest"""

_OUTCOMES = f"""
-- One row per outcome; turn counts those with the same station and xtime in a case.
FROM lns_outcome
|> EXTEND row_number() OVER (PARTITION BY xtime, station, run, case ORDER BY {ARRIVAL}) AS turn
|> DROP kind"""

_KEY = ("xtime", "station", "turn", "run", "case")
_SHARED = (*_KEY, "t_us", "source", "seq")
_MATCHED = f"""
-- Receptions and outcomes side by side; heard and told say which of the two is there. They belong
-- together by station, xtime and their turn among those. No outcome: null.
SELECT monotonically_increasing_id() AS row_id, h.turn IS NOT NULL AS heard,
  o.turn IS NOT NULL AS told,
  {", ".join(f"coalesce(h.{one}, o.{one}) AS {one}" for one in _SHARED)},
  h.* EXCEPT ({", ".join(_SHARED)}), o.outcome
FROM texts_sent AS h FULL JOIN (
  SELECT {", ".join(_SHARED)}, struct(t_us, seq, lns, frame_id, confirmed, status, upstream, reason,
    answer, level2) AS outcome FROM outcomes) AS o
  ON {" AND ".join(f"h.{one} <=> o.{one}" for one in _KEY)}"""

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

QUERIES = {
    "outcomes": _OUTCOMES,
    "dnmsgs": DNMSGS,
    "texts": _TEXTS,
    "texts_heard": heard("texts"),
    "texts_sent": _HEARD,
    "matched": _MATCHED,
    "answers": _ANSWERS,
    "store_calls": _STORE_CALLS,
}
