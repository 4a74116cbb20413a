"""Do the books of a case balance: those of the parties, and those of servers that share devices?

Laws over what the parties wrote independently of each other: the tap what stations delivered, the
network server what became of it, the application what it got, the air what was sent. The laws
between servers are ADR 007, part 2; a store or an upstream that failed may take a frame from its
owner, and what comes after that is left to the oracle.

Where was each duplicate born, where did it die, and which uplink had its effect just once? The
chain: transmission, reception, outcome, message at the broker, delivery to a consumer, decision,
effect. A duplicate is born on the air (another station, a retry, a replay), at a station (the same
text again), at a network server (a copy that it lets through, or what it sends again), at the
broker (brought again) or at a consumer (it ended before its acknowledgement); messages that a
scenario publishes itself are born at the bench. It dies where it is first recognised. A message is
followed by its id, not by time: what an application has is written down when its case ends.
"""

from bench.score.level2 import STATE_US
from bench.score.read import ARRIVAL, unpacked
from bench.score.receptions import BEFORE, UNDER_WAY_US, told
from bench.verdict.owner import Owner

RETENTION_US = 60_000_000
ONE_OWNER = "one owner per frame"
ONE_SERVER_ANSWERS = "one server answers"
ONE_MESSAGE = "one message under Drop"
NO_COUNTER_TWICE = "no downlink counter claimed twice"
CLAIMS_AND_OUTCOMES = "claims and outcomes agree"
BETWEEN_SERVERS = ONE_OWNER, ONE_SERVER_ANSWERS, ONE_MESSAGE, NO_COUNTER_TWICE, CLAIMS_AND_OUTCOMES
_FACTS = ("frame_id", "station", "expected", "observed")


def _law(rule: str, text: str, rows: str, **facts: str) -> str:
    """The violations of one law: `text` tells of each of the `rows`, `facts` are those it has."""
    columns = ", ".join(f"CAST({facts.get(name, 'NULL')} AS STRING) AS {name}" for name in _FACTS)
    return f"SELECT run, case, '{rule}' AS rule, {columns}, t_us, {text} AS text FROM ({rows})"


def _by_two_servers(rows: str, frame: str) -> str:
    """Rows of one frame after one of an `other` server, before anything failed.

    A claim is forgotten after a day. Of a relaxed device the counter may be that of another frame,
    of a life that began since, but for the retention.
    """
    of_frame = f"(PARTITION BY {frame}, run, case ORDER BY t_us)"
    return f"""
{rows} |> WHERE case IS NOT NULL
|> EXTEND lag(lns) OVER {of_frame} AS other, t_us - lag(t_us) OVER {of_frame} AS silence_us
|> LEFT JOIN (SELECT run, case, failed_us, relaxed, retention_us FROM cases) USING (run, case)
|> WHERE other != lns AND coalesce(t_us < failed_us, true)
|> WHERE silence_us < if(coalesce(array_contains(relaxed, dev_eui), false),
     coalesce(retention_us, {RETENTION_US}), {STATE_US})"""


_KEY = "run, case, dev_eui, station, f_cnt, marked"
_KEPT = "|> LEFT ANTI JOIN (FROM cases |> WHERE exists(faults, f -> f.emptied)) USING (run, case)"
_MESSAGE_ID = (
    r"'^([0-9A-F]{16})-([0-9A-F]{8})(?:[.][0-9]+)?-([0-9]+)(?:[.][0-9A-F]{8})?"
    r"(?:-[0-9A-F]{16}-[0-9]+)?$'"
)
# How many messages of a frame were put aside and did not come since, or came more than once.
_PUT_ASIDE = f"""
FROM upstream_parked |> WHERE case IS NOT NULL AND NOT endswith(message_id, '-status')
|> AGGREGATE max(t_us) AS parked_us GROUP BY run, case, message_id
|> LEFT JOIN (FROM published |> WHERE coalesce(said.unverified, 'false') != 'true' |> AGGREGATE
     array_agg(t_us) AS us GROUP BY run, case, message_id) USING (run, case, message_id)
|> EXTEND regexp_extract(message_id, {_MESSAGE_ID}, 1) AS dev_eui,
     CAST(regexp_extract(message_id, {_MESSAGE_ID}, 3) AS BIGINT) AS f_cnt
|> AGGREGATE count_if(coalesce(array_max(us) < parked_us, true)) AS never,
   count_if(size(us) > 1) AS again GROUP BY run, case, dev_eui, f_cnt"""
_TOGETHER = {"frame_id": "frame_id", "station": "station", "expected": "other", "observed": "lns"}
_ANSWER_KEY = "run, case, station, xtime"
# Whether the tap may not have seen what was said at told_us: its link was lost, or a server ended.
_SEEN = f"""
|> LEFT JOIN (SELECT run, case, get(restarts, 0).t_us AS ended_us, links FROM cases)
     USING (run, case)
|> EXTEND coalesce(ended_us <= told_us + {UNDER_WAY_US}, false) OR exists(links,
     one -> one.station = station AND one.t_us <= told_us + {UNDER_WAY_US}) AS is_blind"""
# fmt: off
_LAWS = (
    _law("one outcome per reception",
        """concat(coalesce(frame_id, outcome.frame_id, 'an unreadable text'),
             if(heard, ' has no outcome', ': an outcome without a reception'))""",
        "FROM matched |> WHERE NOT (heard AND told OR was_cut) AND case IS NOT NULL",
        frame_id="coalesce(frame_id, outcome.frame_id)", station="station",
        expected="CAST(heard AS INT)", observed="CAST(told AS INT)",
    ),
    # Copies forwarded or marked, and messages that the application got, are the same. What is put
    # aside may be on its way: it comes now, when it is released, or both, or never.
    _law("forwarded means published",
        """format_string('%s FCnt %s: %d %s by outcome, %d published', dev_eui, f_cnt, owed,
             if(marked, 'marked', 'unmarked'), got)""",
        f"""
FROM (SELECT *, 1 AS owed, 0 AS got FROM (
        SELECT run, case, dev_eui, station, f_cnt, upstream = 'marked' AS marked, t_us
        FROM outcomes WHERE upstream IN ('forwarded', 'marked'))
      UNION ALL SELECT {_KEY}, t_us, 0, 1 FROM published)
|> WHERE case IS NOT NULL
|> AGGREGATE sum(owed) AS owed, sum(got) AS got,
     coalesce(min(t_us) FILTER (WHERE owed > 0), min(t_us)) AS t_us GROUP BY {_KEY}
|> LEFT JOIN ({_PUT_ASIDE}) USING (run, case, dev_eui, f_cnt) |> EXTEND f_cnt & 65535 AS wire
|> LEFT JOIN (SELECT run, case, dev_eui, station, frame.f_cnt_wire AS wire, count(*) AS unsaid
     FROM matched WHERE was_cut GROUP BY ALL) USING (run, case, dev_eui, station, wire)
|> WHERE greatest(owed - got, got - owed - coalesce(unsaid, 0))
     > coalesce(if(owed > got, never, again), 0)""",
        station="station", expected="owed", observed="got",
    ),
    # A message id is used once in a retention; a server that began again, or its store, may repeat.
    # An unverified message counts for nothing: nobody knows whether another server sends it too.
    _law("forwarded means published",
        "format_string('message id %s was used %d times', message_id, times)",
        f"""
FROM published |> WHERE case IS NOT NULL AND coalesce(said.unverified, 'false') != 'true'
|> EXTEND t_us - lag(t_us) OVER (PARTITION BY run, case, message_id ORDER BY t_us) AS since_us
|> LEFT JOIN (SELECT run, case, coalesce(retention_us, {RETENTION_US}) AS retention_us,
     size(restarts) + size(filter(faults, one -> one.emptied)) AS lost FROM cases) USING (run, case)
|> AGGREGATE 1 + count_if(since_us < retention_us) AS times, max(t_us) AS t_us
   GROUP BY run, case, message_id, lost
|> WHERE times > 1 AND coalesce(lost, 0) = 0""",
        expected="1", observed="times",
    ),
    # RX1 or RX2 means one downlink scheduled, and just that one at the tap of the station.
    _law("one answer per reception",
        """format_string('xtime %s: %d by outcome, %d scheduled, %d passed the tap', xtime, owed,
             sent, tapped)""",
        f"""
FROM (SELECT {_ANSWER_KEY}, 'owed' AS what, t_us FROM outcomes WHERE answer IN ('RX1', 'RX2')
      UNION ALL SELECT {_ANSWER_KEY}, 'sent', t_us FROM scheduled WHERE xtime IS NOT NULL
      UNION ALL SELECT {_ANSWER_KEY}, 'tapped', t_us FROM passed
      UNION ALL SELECT {_ANSWER_KEY}, 'cut', t_us FROM matched WHERE was_cut)
|> WHERE case IS NOT NULL
|> AGGREGATE count_if(what = 'owed') AS owed, count_if(what = 'sent') AS sent,
     count_if(what = 'tapped') AS tapped, min(t_us) AS t_us,
     max(t_us) FILTER (WHERE what = 'owed') AS told_us, count_if(what = 'cut') AS cut
   GROUP BY {_ANSWER_KEY}
{_SEEN}
|> WHERE cut = 0 AND (owed != sent OR tapped > owed OR (tapped < owed AND NOT is_blind))""",
        station="station", expected="owed",
        observed="if(tapped < owed, tapped, greatest(sent, tapped))",
    ),
    # Each downlink that answers no uplink and is scheduled is one at the tap, and no other is.
    _law("scheduled means handed over",
        """format_string('downlink %s was scheduled %d times and reached the tap %d times', diid,
             owed, tapped)""",
        f"""
FROM (SELECT run, case, station, diid, 1 AS owed, 0 AS tapped, t_us FROM scheduled
      WHERE xtime IS NULL
      UNION ALL
      SELECT run, case, station, diid, 0, 1, t_us FROM dnmsgs WHERE tap_xtime IS NULL)
|> WHERE case IS NOT NULL AND diid IS NOT NULL
|> AGGREGATE sum(owed) AS owed, sum(tapped) AS tapped, min(t_us) AS t_us,
     max(t_us) FILTER (WHERE owed = 1) AS told_us GROUP BY run, case, station, diid
|> WHERE tapped != owed
{_SEEN}
|> WHERE tapped > owed OR NOT is_blind""",
        station="station", expected="owed", observed="tapped",
    ),
    # A downlink goes through a station that delivered the reception it answers.
    _law("answer through the station that heard it",
        "format_string('a downlink for xtime %s, which this station never reported', xtime)",
        f"""
FROM passed |> WHERE case IS NOT NULL
|> LEFT ANTI JOIN (SELECT {_ANSWER_KEY} FROM matched WHERE heard) USING ({_ANSWER_KEY})""",
        station="station",
    ),
    # What goes upstream was sent by a device in the case.
    _law("nothing accepted that nobody sent",
        "format_string('%s went upstream and no device sent it', frame_id)",
        """
FROM outcomes |> WHERE upstream != 'dropped' AND case IS NOT NULL
|> LEFT ANTI JOIN (SELECT run, case, frame_id FROM radio_transmit
     WHERE direction = 'up' AND genuine) USING (run, case, frame_id)""",
        frame_id="frame_id", station="station",
    ),
    # FCntDown of a session only grows where no application lets its server wait, and none is of two
    # servers; an emptied store knows of none.
    _law("no downlink counter twice",
        "format_string('%s: FCntDown %s after %s', dev_eui, f_cnt_down, greatest)",
        f"""
FROM scheduled |> WHERE f_cnt_down IS NOT NULL AND case IS NOT NULL
|> EXTEND max(f_cnt_down) OVER (PARTITION BY lns, dev_addr, dev_eui, run, case
     ORDER BY {ARRIVAL} {BEFORE}) AS own, count(*) OVER (PARTITION BY f_cnt_down, dev_addr,
     dev_eui, run, case ORDER BY {ARRIVAL} {BEFORE}) AS before
|> JOIN (SELECT run, case, upstream_late_us FROM cases
     WHERE NOT exists(faults, f -> f.emptied)) USING (run, case)
|> WHERE before > 0 OR (f_cnt_down < own AND upstream_late_us IS NULL)
|> EXTEND greatest(f_cnt_down, own) AS greatest""",
        frame_id="frame_id", station="station", expected="greatest + 1", observed="f_cnt_down",
    ),
    # A frame has one owner, however many servers hear it and however often.
    _law(ONE_OWNER,
        "format_string('%s is owned by %s, and by %s before', frame_id, lns, other)",
        _by_two_servers("FROM lns_claim |> WHERE decision = 'Owner'", "frame_id, f_cnt, dev_eui"),
        **_TOGETHER,
    ),
    # Only one server answers a frame, whatever the strategy.
    _law(ONE_SERVER_ANSWERS,
        "format_string('%s is answered by %s, and by %s before', frame_id, lns, other)",
        _by_two_servers("""FROM scheduled |> WHERE f_cnt_down IS NOT NULL AND xtime IS NOT NULL
|> EXTEND try_cast(get(split(frame_id, ':'), 1) AS BIGINT) AS f_cnt""",
            "frame_id, f_cnt, dev_eui"),
        **_TOGETHER,
    ),
    # Under Drop a frame goes upstream once, over all servers. Messages that differ in what the
    # device sent are of two frames: a counter that began again.
    _law(ONE_MESSAGE,
        """format_string('%s FCnt %s is sent by %s, and by %s before', dev_eui, f_cnt, lns,
             other)""",
        _by_two_servers("""FROM published |> WHERE coalesce(said.unverified, 'false') != 'true'
|> LEFT SEMI JOIN (SELECT run, case, dev_eui FROM case_device WHERE strategy = 'Drop')
   USING (run, case, dev_eui)
|> EXTEND said.lns AS lns, said.devAddr AS dev_addr,
     struct(said.confirmed, said.fPort, said.payload) AS sent""",
            "sent, dev_addr, f_cnt, dev_eui"),
        station="station", expected="other", observed="lns",
    ),
    # No two answers of a session are given one counter.
    _law(NO_COUNTER_TWICE,
        """format_string('%s: FCntDown %s is taken by %s, and by %s before', dev_eui, f_cnt_down,
             lns, other)""",
        f"""
FROM lns_claim |> WHERE f_cnt_down IS NOT NULL AND case IS NOT NULL
|> EXTEND lag(lns) OVER (PARTITION BY f_cnt_down, dev_addr, dev_eui, run, case ORDER BY {ARRIVAL})
     AS other
|> WHERE other IS NOT NULL {_KEPT}""",
        frame_id="frame_id", station="station", observed="f_cnt_down",
    ),
    # What level 2 answered is what the outcome says of it; who never asked has no answer.
    _law(CLAIMS_AND_OUTCOMES,
        """format_string("%s: claims '%s', outcomes '%s'", frame_id, asked, said)""",
        f"""
FROM (SELECT xtime, station, frame_id, run, case, decision AS level2, 'asked' AS what, t_us
      FROM lns_claim
      UNION ALL
      SELECT xtime, station, frame_id, run, case, level2, 'said', t_us FROM outcomes
      WHERE xtime IS NOT NULL AND coalesce(reason, '') != 'InternalError')
|> WHERE case IS NOT NULL
|> AGGREGATE {", ".join(f'''array_join(sort_array(collect_list(level2) FILTER (
       WHERE what = '{what}' AND level2 != 'NotAsked')), ', ') AS {what}'''
       for what in ("asked", "said"))}, bool_or(what = 'said') AS has_outcome, max(t_us) AS t_us
   GROUP BY xtime, station, frame_id, run, case
|> WHERE has_outcome AND asked != said""",
        frame_id="frame_id", station="station", expected="asked", observed="said",
    ),
)
# fmt: on

_PASSED = """
-- The downlinks for an uplink that reached the tap of a station.
SELECT run, case, station, tap_xtime AS xtime, t_us FROM dnmsgs WHERE tap_xtime IS NOT NULL"""

NEVER_DELIVERED = "accepted but never delivered"
NEVER_DECIDED = "delivered but never decided"
NO_EFFECT = "accepted without effect"
EFFECT_TWICE = "effect twice"
EFFECT_OF_NOTHING = "effect of nothing accepted"
IGNORED_AS_NEW = "ignored though never accepted before"
# An uplink as the ids of its messages name it: "DevEUI-DevAddr-FCnt"; null where a part is.
_UPLINK = "concat(dev_eui, '-', dev_addr, '-', f_cnt)"
# The uplink that a message id names, copies included; null where it names none.
_OF_MESSAGE = f"""if(message_id RLIKE {_MESSAGE_ID}, concat_ws('-', {
    ", ".join(f"regexp_extract(message_id, {_MESSAGE_ID}, {part})" for part in (1, 2, 3))
}), NULL)"""
_AGAIN_AT_BROKER = "'upstream.repeated', 'upstream.injected'"
_DECIDED = "'inbox.accepted', 'inbox.ignored', 'inbox.parked'"

_EFFECTS = f"""
-- One row per expectation of effects, or of duplicates ignored by a detector: how many were
-- observed. which is an uplink or a message id. No consumer: all consumers of the case together.
SELECT due.*, coalesce(sum(times) FILTER (WHERE consumer IS NULL OR consumer = at), 0) AS observed
FROM (
  SELECT run, case, seq, consumer, by, count, dev_eui, f_cnt, message_id,
    coalesce(message_id, {_UPLINK}) AS which, coalesce(by, 'effect') AS fate
  FROM case_expect WHERE expect IN ('effect', 'ignored')) AS due
LEFT JOIN (
  FROM others |> WHERE kind IN ('application.effect', 'inbox.ignored')
  |> EXTEND {unpacked("message_id by consumer")} AS rest
  |> EXTEND rest.message_id AS message_id
  |> SELECT run, case, explode(array_distinct(array_compact(array({_OF_MESSAGE}, message_id))))
       AS which, coalesce(rest.by, 'effect') AS fate, rest.consumer AS at
  |> AGGREGATE count(*) AS times GROUP BY run, case, which, fate, at) AS seen
ON due.run = seen.run AND due.case = seen.case AND due.which = seen.which AND due.fate = seen.fate
GROUP BY ALL"""

_ENTRIES = f"""
-- What was said of messages at the broker and at consumers: uplink is what the message id names,
-- first what the consumers of the case had at the position that it was ignored for.
FROM others |> WHERE kind IN ({_AGAIN_AT_BROKER}, {_DECIDED}, 'application.effect')
     AND case IS NOT NULL
|> EXTEND {unpacked("message_id body first_position consumer by key position")} AS rest
|> EXTEND coalesce(rest.message_id, get_json_object(rest.body, '$.messageId')) AS message_id,
     rest.first_position AS first_position
|> LEFT JOIN (
     FROM others |> WHERE kind IN ('inbox.accepted', 'application.effect') AND case IS NOT NULL
     |> EXTEND {unpacked("position consumer message_id key")} AS rest
     |> AGGREGATE collect_set(struct(rest.consumer, rest.message_id, rest.key)) AS first
        GROUP BY run, case, rest.position AS first_position) USING (run, case, first_position)
|> SELECT run, case, kind, message_id, struct({ARRIVAL}) AS arrival, rest.consumer, rest.by,
     rest.key, rest.position, first_position, first
|> UNION ALL (SELECT run, case, 'upstream.published', message_id, arrival, NULL, NULL, NULL, NULL,
     NULL, NULL FROM published WHERE case IS NOT NULL)
|> WHERE message_id IS NOT NULL
|> SELECT run, case, message_id, {_OF_MESSAGE} AS uplink, struct(arrival.*, kind, message_id,
     consumer, by, key, position, first_position, first) AS entry"""

_HERE = "one -> one.consumer = consumer"
# The decision that an effect belongs to; it is not told when the consumer was killed.
_OF_EFFECT = """get(filter(decided, one ->
    one.kind = 'inbox.accepted' AND one.position = effect.position), 0)"""
_UPLINKS = f"""
-- One row per uplink that was accepted or spoken of, or message of the bench, and consumer of its
-- case, if it has any. accepted counts the outcomes that let a copy through, delivered the messages
-- at the broker, effects those at the consumer, ids the messages that had one. arrivals are what
-- the consumer decided, in order, with where each died; is_shared: another consumer of the same
-- store had the effect, as a position that this one does not have is one of a store that it shares.
FROM (
  SELECT run, case, coalesce(uplink, message_id) AS which, uplink IS NOT NULL AS is_uplink,
    entry, CAST(NULL AS BIGINT) AS accepted_us FROM entries
  UNION ALL
  SELECT run, case, {_UPLINK}, true, NULL, t_us FROM outcomes
  WHERE upstream IN ('forwarded', 'marked') AND case IS NOT NULL AND {_UPLINK} IS NOT NULL)
|> AGGREGATE max(is_uplink) AS is_uplink, count(accepted_us) AS accepted,
     min(accepted_us) AS accepted_us, sort_array(collect_list(entry)) AS entries
   GROUP BY run, case, which
|> EXTEND filter(entries, one -> one.kind IN ('upstream.published', {_AGAIN_AT_BROKER}))
     AS messages
|> LEFT JOIN (SELECT run, case, if(size(consumers) > 0, consumers, NULL) AS consumers,
     if(size(consumers) > 0, disturbances, NULL) AS disturbances FROM cases) USING (run, case)
|> LEFT JOIN (SELECT run, case, which, collect_list(struct(consumer, count, observed)) AS due
     FROM effects_due WHERE fate = 'effect' GROUP BY run, case, which) USING (run, case, which)
|> LEFT JOIN (SELECT run, case, regexp_replace(message_id, {_MESSAGE_ID}, '$1-$2-$3') AS which,
     true AS is_aside FROM upstream_parked GROUP BY ALL) USING (run, case, which)
|> SELECT *, explode(coalesce(consumers, array(CAST(NULL AS STRING)))) AS consumer
|> EXTEND filter(entries, one -> one.kind IN ({_DECIDED}) AND one.consumer = consumer) AS decided,
     filter(entries, one -> one.kind = 'application.effect' AND one.consumer = consumer) AS own
|> EXTEND sort_array(concat(
       transform(own, effect -> struct(coalesce({_OF_EFFECT}.t_us, 0) AS t_us,
         coalesce({_OF_EFFECT}.seq, -1) AS seq, effect.message_id AS message_id, 'effect' AS died)),
       transform(filter(decided, one -> one.kind != 'inbox.accepted'), one -> struct(
         one.t_us AS t_us, one.seq AS seq, one.message_id AS message_id,
         coalesce(one.by, 'parked') AS died))))
       AS arrivals,
     size(messages) AS delivered, size(own) AS effects, size(array_distinct(own.message_id)) AS ids,
     coalesce(size(own) = 0 AND exists(decided, one -> one.first_position IS NOT NULL
       AND size(one.first) > 0 AND NOT exists(one.first, {_HERE})), false) AS is_shared
|> DROP entries"""

# Where an arrival, the nth of its message so far, was born: the broker brings a message to each of
# the consumers that share a store.
_BORN = """CASE
       WHEN size(filter(slice(arrivals, 1, place + 1), it -> it.message_id = one.message_id)) >
         size(filter(messages, it -> it.message_id = one.message_id))
         THEN coalesce(try_element_at(filter(disturbances, it -> it.t_us <= one.t_us
           AND coalesce(it.consumer = consumer, true)), -1).seam, 'broker')
       WHEN is_shared THEN 'broker' WHEN is_uplink THEN 'LNS' ELSE 'bench' END"""
_DUPLICATES = f"""
-- What a network server, the broker or a consumer repeated: each arrival at a consumer but the
-- first effect; without a consumer, each message at the broker but the first.
FROM uplinks
|> EXTEND greatest(array_position(arrivals.died, 'effect') - 1, 0) AS first
|> SELECT run, case, which, consumer, inline(if(consumer IS NOT NULL,
     filter(transform(arrivals, (one, place) -> struct(one.message_id AS message_id,
       {_BORN} AS born, one.died AS died, one.t_us AS t_us,
       is_shared OR place != first AS is_again)), one -> one.is_again),
     transform(slice(messages, 2, greatest(size(messages), 1)), one -> struct(
       one.message_id AS message_id, if(is_uplink, 'LNS', 'bench') AS born, 'delivered' AS died,
       one.t_us AS t_us, true AS is_again))))"""

_REASON = told("reason")
_LEDGER = f"""
-- One row per duplicate, and one per accepted uplink and consumer (what). which is the uplink, or
-- the id of a message of the bench. Of an uplink died is the last place it came to.
SELECT run, case, 'duplicate' AS what, NULL AS which, frame_id, NULL AS message_id, station,
  NULL AS consumer, if(turn > 1, 'station', 'air') AS born,
  CASE WHEN NOT told THEN 'no outcome'
    WHEN {_REASON} IN ('Duplicate', 'ResubmissionSuppressed') THEN 'level 1'
    WHEN {_REASON} IN ('DuplicateAtOtherServer', 'StoreUnavailable') THEN 'level 2'
    WHEN {_REASON} IN ('InvalidFrameCounter', 'ResubmissionLimit', 'DevNonceUsed') THEN 'counter'
    WHEN {_REASON} != '-' THEN 'not served here' ELSE 'no payload' END AS died,
  CAST(NULL AS INT) AS delivered, CAST(NULL AS INT) AS effects, t_us
FROM matched WHERE heard AND frame_id IS NOT NULL AND copy > 0 AND case IS NOT NULL
  AND coalesce({told("upstream")} NOT IN ('forwarded', 'marked'), true)
UNION ALL
SELECT run, case, 'duplicate', which, NULL, message_id, NULL, consumer, born, died, NULL,
  NULL, t_us FROM duplicates
UNION ALL
SELECT run, case, 'uplink', which, NULL, NULL, NULL, consumer, NULL,
  CASE WHEN delivered = 0 THEN 'LNS' WHEN consumer IS NULL THEN 'delivered'
    WHEN effects > 0 OR is_shared THEN 'effect' WHEN size(arrivals) > 0 THEN arrivals[0].died
    ELSE 'broker' END, delivered, effects, accepted_us
FROM uplinks WHERE accepted > 0"""

# Whether a scenario said how many effects these messages have here, and is right.
_OF_HERE = "filter(due, one -> coalesce(one.consumer = consumer, true))"
_AS_DUE = f"""coalesce(size({_OF_HERE}) > 0
       AND forall({_OF_HERE}, one -> one.count = one.observed), false)"""
# Those that the consumer ignored one for. An effect that no consumer told of names no key.
_FIRSTS = """if(exists(one.first, it -> it.consumer = consumer),
       filter(one.first, it -> it.consumer = consumer), one.first)"""
_NO_KEY = "NOT exists(one.first, it -> it.key IS NOT NULL)"
_SAME = f"""CASE one.by WHEN 'window' THEN had.message_id = one.message_id
       WHEN 'key' THEN coalesce(had.key = one.key, false) OR {_NO_KEY}
       WHEN 'sequence' THEN true END"""


_OPEN = (
    (NEVER_DELIVERED, Owner.LNS, """if(coalesce(consumer = consumers[0], true) AND accepted > 0
       AND is_aside IS NULL AND delivered = 0, array(which), array())"""),
    (NEVER_DECIDED, Owner.BROKER, """if(consumer IS NOT NULL AND NOT as_due, array_except(
       messages.message_id, concat(arrivals.message_id, decided.message_id)), array())"""),
    (NO_EFFECT, Owner.APPLICATION, """filter(decided, one -> one.kind = 'inbox.accepted'
       AND NOT array_contains(own.position, one.position)).message_id"""),
    (EFFECT_TWICE, Owner.APPLICATION, """if(as_due, array(), filter(array_distinct(own.message_id),
       one -> size(filter(own, it -> it.message_id = one)) > 1))"""),
    (EFFECT_OF_NOTHING, Owner.APPLICATION, "array_except(own.message_id, messages.message_id)"),
    (EFFECT_OF_NOTHING, Owner.LNS, """if(is_uplink AND accepted = 0 AND size(own) > 0
       AND exists(messages, one -> one.kind = 'upstream.published'), array(which), array())"""),
    (IGNORED_AS_NEW, Owner.APPLICATION, f"""filter(decided, one -> one.first_position IS NOT NULL
       AND NOT coalesce(exists({_FIRSTS}, had -> {_SAME}), false)).message_id"""),
)  # fmt: skip
_EACH_OPEN = ",\n       ".join(
    f"transform({ids}, one -> struct('{rule}' AS rule, '{owner}' AS owner, one AS id))"
    for rule, owner, ids in _OPEN
)
_OPEN_ENTRIES = f"""
-- Where the books stay open: each disagreement stands in the report with its owner, and decides no
-- verdict: what a scenario expects of effects does that. In order: the broker never had it; the
-- consumer said nothing of it; it says that it accepted it, and the application does not have it;
-- one message had several effects, and no scenario says so; the application has what the broker
-- never had; or what no network server accepted; the consumer ignored it for a message that had no
-- effect, or was another one.
FROM uplinks
|> EXTEND {_AS_DUE} AS as_due
|> SELECT run, case, consumer,
     coalesce(accepted_us, get(messages, 0).t_us, get(own, 0).t_us) AS t_us,
     inline(concat({_EACH_OPEN}))"""

QUERIES = {
    "passed": _PASSED, "violations": "\nUNION ALL\n".join(_LAWS),
    "effects_due": _EFFECTS, "entries": _ENTRIES, "uplinks": _UPLINKS, "duplicates": _DUPLICATES,
    "ledger": _LEDGER, "open_entries": _OPEN_ENTRIES,
}  # fmt: skip
