"""Do the books of a case balance: those of the parties, and those of servers that share devices?

Laws over what the parties wrote independently of each other: the tap what stations delivered, the
network server what became of it, the application what it got, the air what was sent. The laws
between servers are ADR 007, part 2; a store or an upstream that failed may take a frame from its
owner, and what comes after that is left to the oracle.
"""

from bench.score.level2 import STATE_US
from bench.score.read import ARRIVAL
from bench.score.receptions import BEFORE

RETENTION_US = 60_000_000
# How long what a network server has said may be on its way; as `bench.verdict.expectation` has it.
_UNDER_WAY_US = 1_000_000
ONE_OWNER = "one owner per frame"
ONE_SERVER_ANSWERS = "one server answers"
ONE_MESSAGE = "one message under Drop"
NO_COUNTER_TWICE = "no downlink counter claimed twice"
CLAIMS_AND_OUTCOMES = "claims and outcomes agree"
BETWEEN_SERVERS = (
    ONE_OWNER, ONE_SERVER_ANSWERS, ONE_MESSAGE, NO_COUNTER_TWICE, CLAIMS_AND_OUTCOMES,
)  # fmt: skip
_FACTS = ("frame_id", "station", "expected", "observed")


def _law(rule: str, text: str, rows: str, **facts: str) -> str:
    """The violations of one law: `text` tells of each of the `rows`, `facts` are those it has."""
    columns = ", ".join(f"CAST({facts.get(name, 'NULL')} AS STRING) AS {name}" for name in _FACTS)
    return f"SELECT run, case, '{rule}' AS rule, {columns}, t_us, {text} AS text FROM ({rows})"


def _by_two_servers(rows: str, frame: str) -> str:
    """Rows of one frame after one of an `other` server, before anything failed.

    A claim is forgotten after a day. Of a relaxed device the counter may be that of another frame,
    of a life that began since, but for the first minute.
    """
    of_frame = f"(PARTITION BY {frame}, run, case ORDER BY t_us)"
    return f"""
{rows} |> WHERE case IS NOT NULL
|> EXTEND lag(lns) OVER {of_frame} AS other, t_us - lag(t_us) OVER {of_frame} AS silence_us
|> LEFT JOIN (SELECT run, case, failed_us, relaxed FROM cases) USING (run, case)
|> WHERE other != lns AND coalesce(t_us < failed_us, true)
|> WHERE silence_us < if(coalesce(array_contains(relaxed, dev_eui), false),
     {RETENTION_US}, {STATE_US})"""


_KEY = "run, case, dev_eui, station, f_cnt, marked"
_OF_MESSAGE = "'^([0-9A-F]{16})-[0-9A-F]{8}(?:[.][0-9]+)?-([0-9]+)'"
# How many messages of a frame were put aside that never came, or came more than once.
_PUT_ASIDE = f"""
FROM upstream_parked |> WHERE case IS NOT NULL AND NOT endswith(message_id, '-status')
|> AGGREGATE count(*) AS parked GROUP BY run, case, message_id
|> LEFT JOIN (FROM published |> WHERE coalesce(said.unverified, 'false') != 'true'
     |> AGGREGATE count(*) AS came GROUP BY run, case, message_id) USING (run, case, message_id)
|> EXTEND regexp_extract(message_id, {_OF_MESSAGE}, 1) AS dev_eui,
     CAST(regexp_extract(message_id, {_OF_MESSAGE}, 2) AS BIGINT) AS f_cnt
|> AGGREGATE count_if(came IS NULL) AS never, count_if(came > 1) AS again
   GROUP BY run, case, dev_eui, f_cnt"""
_TOGETHER = {"frame_id": "frame_id", "station": "station", "expected": "other", "observed": "lns"}
_ANSWER_KEY = "run, case, station, xtime"
# Whether the tap may not have seen what was said at told_us: its link was lost, or a server ended.
_SEEN = f"""
|> LEFT JOIN (SELECT run, case, station, min(t_us) AS lost_us FROM station_link
     WHERE case IS NOT NULL GROUP BY run, case, station) USING (run, case, station)
|> LEFT JOIN (SELECT run, case, get(restarts, 0).t_us AS ended_us FROM cases) USING (run, case)
|> EXTEND coalesce(least(lost_us, ended_us) <= told_us + {_UNDER_WAY_US}, false) AS is_blind"""
# fmt: off
_LAWS = (
    # A reception without an outcome, or an outcome without a reception.
    _law("one outcome per reception",
        """concat(coalesce(frame_id, outcome.frame_id, 'an unreadable text'),
             if(heard, ' has no outcome', ': an outcome without a reception'))""",
        "FROM matched |> WHERE NOT (heard AND told) AND case IS NOT NULL",
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
|> LEFT JOIN ({_PUT_ASIDE}) USING (run, case, dev_eui, f_cnt)
|> WHERE abs(owed - got) > coalesce(if(owed > got, never, again), 0)""",
        station="station", expected="owed", observed="got",
    ),
    # A message id is used once in a retention; after a restart of the server it may be sent again.
    # An unverified message counts for nothing: nobody knows whether another server sends it too.
    _law("forwarded means published",
        "format_string('message id %s was used %d times', message_id, times)",
        f"""
FROM published |> WHERE case IS NOT NULL AND coalesce(said.unverified, 'false') != 'true'
|> EXTEND t_us - lag(t_us) OVER (PARTITION BY run, case, message_id ORDER BY t_us) AS since_us
|> LEFT JOIN (SELECT run, case, coalesce(retention_us, {RETENTION_US}) AS retention_us,
     size(restarts) AS restarts FROM cases) USING (run, case)
|> AGGREGATE 1 + count_if(since_us < retention_us) AS times, max(t_us) AS t_us
   GROUP BY run, case, message_id, restarts
|> WHERE times > 1 AND coalesce(restarts, 0) = 0""",
        expected="1", observed="times",
    ),
    # RX1 or RX2 means one downlink scheduled, and just that one at the tap of the station.
    _law("one answer per reception",
        """format_string('xtime %s: %d by outcome, %d scheduled, %d passed the tap', xtime, owed,
             sent, tapped)""",
        f"""
FROM (SELECT {_ANSWER_KEY}, 'owed' AS what, t_us FROM outcomes WHERE answer IN ('RX1', 'RX2')
      UNION ALL SELECT {_ANSWER_KEY}, 'sent', t_us FROM scheduled WHERE xtime IS NOT NULL
      UNION ALL SELECT {_ANSWER_KEY}, 'tapped', t_us FROM passed)
|> WHERE case IS NOT NULL
|> AGGREGATE count_if(what = 'owed') AS owed, count_if(what = 'sent') AS sent,
     count_if(what = 'tapped') AS tapped, min(t_us) AS t_us,
     max(t_us) FILTER (WHERE what = 'owed') AS told_us GROUP BY {_ANSWER_KEY}
{_SEEN}
|> WHERE owed != sent OR tapped > owed OR (tapped < owed AND NOT is_blind)""",
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
    # FCntDown of a session only grows.
    _law("no downlink counter twice",
        "format_string('%s: FCntDown %s after %s', dev_eui, f_cnt_down, greatest)",
        f"""
FROM scheduled |> WHERE f_cnt_down IS NOT NULL AND case IS NOT NULL
|> EXTEND max(f_cnt_down) OVER (PARTITION BY dev_addr, dev_eui, run, case ORDER BY {ARRIVAL}
     {BEFORE}) AS greatest
|> WHERE f_cnt_down <= greatest""",
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
|> WHERE other IS NOT NULL""",
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
      WHERE xtime IS NOT NULL)
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

QUERIES = {"passed": _PASSED, "violations": "\nUNION ALL\n".join(_LAWS)}
