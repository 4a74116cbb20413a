"""Who disagrees with whom, about what, and what follows for the case?

A finding has an owner (LNS, gateway, device, air, application or bench) and a `result`: FAIL or
INCONCLUSIVE where it decides the verdict of its case, null where it only stands in the report, as
the disagreements of the oracle, the laws between servers and stations that cannot answer do.
"""

from collections.abc import Mapping
from typing import Any

from bench.capture.wholeness import Wholeness
from bench.lake.tables import TABLES
from bench.score.expectations import Grade
from bench.score.laws import BETWEEN_SERVERS
from bench.score.oracle import ORACLE_SENTENCE, TOLD_SENTENCE
from bench.score.read import KINDS, columns_of
from bench.verdict.owner import SURE, SURE_STALL_MAX_US

FAIL, INCONCLUSIVE = "'FAIL'", "'INCONCLUSIVE'"
# Those of the lake, and where it stands among the reasons of its verdict.
_TYPES = {name: type_ for name, type_, _ in TABLES["findings"].columns}
_TYPES |= {"phase": "INT", "place": "BIGINT"}
_COLUMNS = ", ".join(("run", *_TYPES))
_REASONS_MAX = 20
# A station in a text, until its name for people takes the place of this.
_MARK = "char(1)"


def finding(
    rows: str, owner: str, rule: str, result: str, place: tuple[int, str], text: str, **facts: str
) -> str:
    """The findings that these rows of run and case are, as a query; all in words of SQL.

    The reasons of a verdict stand in order of `place`, a phase and a number. `facts` are what else
    of `findings` (bench/lake/tables.py) a finding of this kind has.
    """
    values = {"case": "case", "owner": owner, "rule": rule, "text": text, "result": result}
    values |= {"phase": str(place[0]), "place": place[1], **facts}
    filled = (f"CAST({values.get(name, 'NULL')} AS {_TYPES[name]}) AS {name}" for name in _TYPES)
    return f"SELECT run, {', '.join(filled)} FROM {rows}"


def _own(*names: str) -> dict[str, str]:
    """Facts that the rows have by these very names."""
    return {name: name for name in names}


_OF_AIR = f"grade IN ('{Grade.NOT_DELIVERED}', '{Grade.OTHER_STATION}', '{Grade.NOT_EXPECTED}')"
_PLACE = "format_string('%s #%d', frame_id, copy)"
_STATION, _HEARD_BY, _DUE_AT = (
    f"concat({_MARK}, {one}, {_MARK})" for one in ("station", "heard_station", "due_station")
)
_DUE, _OBSERVED = (
    f"if(size({one}) = 0, 'none', array_join({one}, ', '))" for one in ("due", "observed")
)
_DUE_TIMES, _TIMES = (f"format_string('%d times', {one})" for one in ("due", "observed"))
_DUE_TEXT, _TEXT = (f"coalesce({one}, 'null')" for one in ("due", "observed"))
# fmt: off
_PARTS = (
    # What the bench found wrong while it had the keys: fields of downlinks, joins, messages. What
    # is wrong before the antenna comes first: what a device then does is no fault of its own.
    finding(
        "case_finding WHERE case IS NOT NULL", "owner", "rule", FAIL, (-1, "seq"), "text",
        **_own("frame_id", "station", "expected", "observed", "t_us"),
    ),
    # Receptions whose words differ from what was due, and stimuli that were not delivered.
    finding(
        f"scores WHERE grade != '{Grade.AGREES}'",
        f"if({_OF_AIR}, 'air', 'LNS')", f"if({_OF_AIR}, 'stimulus', 'expectation')",
        f"if({_OF_AIR}, {INCONCLUSIVE}, {FAIL})", (0, "coalesce(due_seq, 1L << 62)"),
        f"""CASE WHEN grade = '{Grade.NOT_EXPECTED}'
            THEN format_string('%s: %s heard it and was not to', {_PLACE}, {_HEARD_BY})
          WHEN {_OF_AIR} THEN format_string('%s: %s was to hear it, %s did', {_PLACE}, {_DUE_AT},
            coalesce({_HEARD_BY}, 'nobody'))
          ELSE format_string('%s through %s: expected %s, observed %s', {_PLACE}, {_HEARD_BY}, due,
            coalesce(observed, 'no outcome')) END""",
        station="coalesce(heard_station, due_station)", n="copy", expected="due",
        **_own("frame_id", "observed", "t_us"),
    ),
    # Violations of laws.
    finding(
        "violations", "'LNS'", "rule",
        f"if(rule IN {BETWEEN_SERVERS}, NULL, {FAIL})", (1, "t_us"),
        f"concat(rule, ': ', text, coalesce(concat(' (', {_STATION}, ')'), ''))",
        **_own("frame_id", "station", "expected", "observed", "t_us"),
    ),
    # Lines that a device did not say: its own fault if a station was told to answer it.
    finding(
        "unsaid", "if(answered, 'device', 'LNS')", "'device line'", FAIL,
        (2, "seq * 1000 + nth"),
        "format_string(\"device %s did not say '%s'\", dev_eui, line)", expected="line",
    ),
    # Messages that the application got with other content than due.
    finding(
        "wrong_bodies", "'LNS'", "'message'", FAIL, (3, "seq"),
        f"""format_string('message %s through %s: expected %s %s, observed %s', message_id,
          {_STATION}, field, {_DUE_TEXT}, {_TEXT})""",
        expected="due", **_own("station", "observed"),
    ),
    # Answers that said something else than due, or were never sent.
    finding(
        "wrong_answers", "'LNS'", "'answer'", FAIL, (3, "seq * 100 + pos"),
        f"""format_string('answer %d to %s: %s', n, frame_id, if(sent,
          format_string('expected %s %s, observed %s', field, {_DUE_TEXT},
            {_TEXT}), 'none was sent'))""",
        expected=_DUE_TEXT, observed=_TEXT, **_own("frame_id", "n"),
    ),
    # Cases in which level 1 forgot frames before their time, or did not tell, unlike due.
    finding(
        "wrong_evictions", "'LNS'", "'evictions'", FAIL, (3, "seq"),
        "format_string('frames forgotten too early: expected %d, observed %d', due, observed)",
        **_own("observed"), expected="due",
    ),
    # Answers that a gateway put on the air in other windows than due.
    finding(
        "wrong_windows", "'gateway'", "'window on the air'", FAIL, (4, "seq"),
        f"""format_string('answers to %s on the air: expected %s, observed %s', frame_id,
          {_DUE}, {_OBSERVED})""",
        frame_id="frame_id", expected=_DUE, observed=_OBSERVED,
    ),
    # Devices of which the application was not told the status as often as due.
    finding(
        "wrong_statuses", "'LNS'", "'status of a device'", FAIL, (4, "seq"),
        f"""format_string('status of %s: expected %s, observed %s', dev_eui, {_DUE_TIMES},
          {_TIMES})""",
        expected=_DUE_TIMES, observed=_TIMES,
    ),
    # Messages that had another number of effects, or were ignored as often, than due.
    finding(
        "effects_due WHERE count != observed", "'application'", "'effect'", FAIL, (5, "seq"),
        """format_string('%s of %s at %s: expected %s, observed %s',
          coalesce(concat(by, ' duplicates'), 'effects'), coalesce(concat('message ', message_id),
          format_string('%s FCnt %s', dev_eui, f_cnt)), coalesce(consumer, 'all consumers'), count,
          observed)""",
        expected="count", observed="observed",
    ),
    # Stations that could not answer what they heard first, several times in a row.
    finding(
        """(SELECT run, case, station, max(n) AS n, max_by(cause, n) AS cause,
            min(t_us) AS t_us FROM lns_too_late WHERE stage = 'going on' AND case IS NOT NULL
          GROUP BY run, case, station)""",
        "'gateway'", "'too late'", "NULL", (7, "t_us"),
        f"""format_string('%s cannot answer what it hears first: %d TooLate in a row, at last '
          || 'because %s', {_STATION}, n, cause)""",
        **_own("station", "n", "t_us"),
    ),
    # Where the ledger between acceptance and effect stays open.
    finding(
        "open_entries", "owner", "rule", "NULL", (8, "t_us"),
        "concat(rule, ': ', id, coalesce(concat(' at ', consumer), ''))", t_us="t_us",
    ),
)
# Receptions on which the network server and the oracle differ.
_OF_ORACLE = finding(
    """oracle WHERE told AND NOT (status_agrees AND disposition_agrees
      AND level2_agrees) AND unknowable IS NULL AND case IS NOT NULL""",
    "'LNS'",
    """CASE WHEN NOT status_agrees THEN 'oracle status'
      WHEN NOT level2_agrees THEN 'oracle level 2' ELSE 'oracle disposition' END""",
    "NULL", (7, "t_us"),
    f"""format_string('%s through %s: the oracle says %s, observed %s', coalesce(frame_id,
      'an unreadable text'), {_STATION}, {ORACLE_SENTENCE}, {TOLD_SENTENCE})""",
    n="copy", expected=ORACLE_SENTENCE, observed=TOLD_SENTENCE,
    **_own("frame_id", "station", "t_us"),
)
# fmt: on
# Kept by itself, because it is made while the oracle is.
_CONTRADICTIONS = "\nUNION ALL\n".join(_PARTS)
_DISAGREEMENTS = f"""
-- Every disagreement between expectation, network server, oracle and the books.
FROM (SELECT * FROM contradictions UNION ALL {_OF_ORACLE})
|> LEFT JOIN (SELECT run, case, stations FROM cases) USING (run, case)
|> SET text = coalesce(aggregate(stations, text, (said, one) ->
     replace(said, concat({_MARK}, one.eui, {_MARK}), coalesce(one.name, one.eui))), text)
|> SET text = replace(text, {_MARK}, '') |> DROP stations"""

# A case in which the bench itself has seen that a stimulus did not come about proves nothing; and a
# host whose event loop stood still for a while makes devices, stations and network servers late:
# what went wrong in a case that was open when it woke is nobody's failure. Where something would
# have failed, the stall itself stands before it as a finding.
# What a scenario brings about on purpose is no news; what it was to bring about, and did not, is.
_DECLARED = "run, case, owner, rule, station"
_UNPROVOKED = finding(
    f"""(SELECT {_DECLARED}, min(seq) AS seq FROM case_expect WHERE expect = 'finding' GROUP BY ALL)
    LEFT ANTI JOIN disagreements USING ({_DECLARED})
    LEFT JOIN (SELECT run, case, missed > 0 AS missed, stall, stations FROM cases)
      USING (run, case)""",
    "'bench'", "'provoked'", f"if(missed OR stall IS NOT NULL, {INCONCLUSIVE}, {FAIL})", (6, "seq"),
    """format_string('%s: expected the finding %s, observed none',
      coalesce(filter(stations, one -> one.eui = station)[0].name, station), rule)""",
    station="station", expected="rule",
)  # fmt: skip
_STALLED = finding(
    f"""(SELECT run, case, max(stall) AS stall
      FROM disagreements JOIN (SELECT run, case, stall FROM cases) USING (run, case)
      WHERE stall IS NOT NULL AND result = {FAIL} GROUP BY run, case)""",
    "'bench'", "'host stall'", INCONCLUSIVE, (-1, "stall.woke_us"),
    "format_string('host stalled %d ms', (stall.late_us + 500) div 1000)", t_us="stall.woke_us",
)  # fmt: skip
_MISSED = finding(
    "stimulus_missed", "coalesce(owner, 'air')", "'stimulus'", INCONCLUSIVE, (-2, "t_us"),
    "reason", t_us="t_us",
)  # fmt: skip
_HOLES = finding("holes", "'bench'", "rule", "NULL", (6, "place"), "text", case="NULL")
_SURE = ", ".join(f"'{rule}'" for rule in sorted(SURE))
_FINDINGS = f"""
-- The findings; where a stimulus was missed or the host stalled nothing fails, but for what no
-- stall can be why of; what is missing of the run itself is the bench's.
FROM disagreements
|> LEFT JOIN (SELECT DISTINCT {_DECLARED}, true AS provoked FROM case_expect
     WHERE expect = 'finding') USING ({_DECLARED})
|> LEFT JOIN (SELECT run, case, missed > 0 AS missed, stall FROM cases) USING (run, case)
|> SET provoked = coalesce(provoked AND result IS NULL, false)
|> EXTEND stall IS NOT NULL AND NOT (rule IN ({_SURE}) AND stall.late_us <= {SURE_STALL_MAX_US})
     AS excused
|> SET owner = if(NOT excused OR provoked, owner, 'bench'),
     result = if(result = {FAIL} AND (missed OR excused), {INCONCLUSIVE}, result)
|> SELECT {_COLUMNS}, provoked
UNION ALL
SELECT *, false FROM ({_UNPROVOKED} UNION ALL {_STALLED} UNION ALL {_MISSED} UNION ALL {_HOLES})"""

_REASONS = f"""slice(sort_array(collect_list(struct(phase, place, n, text, owner))
    FILTER (WHERE result = %s)), 1, {_REASONS_MAX})"""
_VERDICTS = f"""
-- One row per case. FAIL beats ERROR beats INCONCLUSIVE beats PASS. The scenario's own ERROR (the
-- bench broke) stays. A case that expects nothing and has nothing wrong proves nothing: it is an
-- ERROR of the bench, as one is that began and is not whole. A case that proved nothing and was
-- played again does not count.
FROM case_begin |> SELECT run, case, coalesce(scenario, case) AS scenario, file, group, title,
     strategy, confirmed, t_us AS first_us
|> LEFT JOIN (SELECT run, case, end_us, attempt, repeated, broken, breaker, promises, missed
     FROM cases) USING (run, case)
|> LEFT JOIN (SELECT run, case, count(*) AS receptions FROM matched WHERE heard GROUP BY ALL)
   USING (run, case)
|> LEFT JOIN (SELECT run, case, {_REASONS % FAIL} AS failures, {_REASONS % INCONCLUSIVE} AS doubts
     FROM findings WHERE case IS NOT NULL GROUP BY run, case) USING (run, case)
|> EXTEND CASE WHEN missed > 0 THEN NULL WHEN broken IS NOT NULL THEN broken
     WHEN coalesce(promises, 0) = 0 AND NOT coalesce(size(doubts) > 0, false)
     THEN 'the scenario expects nothing' END AS error
|> EXTEND CASE WHEN size(failures) > 0 THEN 'FAIL' WHEN error IS NOT NULL THEN 'ERROR'
     WHEN size(doubts) > 0 THEN 'INCONCLUSIVE' ELSE 'PASS' END AS verdict
|> SELECT run, case, scenario, file, group, title, strategy, confirmed, verdict,
     CASE verdict WHEN 'FAIL' THEN failures.text WHEN 'ERROR' THEN array(error)
       WHEN 'INCONCLUSIVE' THEN doubts.text ELSE CAST(array() AS ARRAY<STRING>) END AS reasons,
     CASE verdict WHEN 'FAIL' THEN failures[0].owner WHEN 'ERROR' THEN coalesce(breaker, 'bench')
       WHEN 'INCONCLUSIVE' THEN doubts[0].owner END AS owner,
     coalesce(attempt, 1) AS attempt,
     coalesce(repeated, false) AND verdict IN ('INCONCLUSIVE', 'ERROR') AS superseded,
     first_us AS begin_us, end_us, coalesce(receptions, 0) AS receptions
UNION ALL
SELECT run, case, coalesce(scenario, case), file, group, title, strategy, confirmed, 'ERROR',
  array(reason), 'bench', 1, false, coalesce(t_us, 0), NULL, 0 FROM withheld"""

QUERIES = {
    "contradictions": _CONTRADICTIONS, "disagreements": _DISAGREEMENTS, "findings": _FINDINGS,
    "verdicts": _VERDICTS,
}  # fmt: skip

HOLES = "run STRING, rule STRING, text STRING, place BIGINT"
WITHHELD = "run STRING, case STRING, reason STRING, t_us BIGINT, "
WITHHELD += columns_of(KINDS["case.begin"].split())


def holes(books: Mapping[str, Wholeness]) -> list[dict[str, Any]]:
    """A row for each hole in the books of these runs."""
    return [
        {"run": run, "rule": hole.rule, "text": hole.text, "place": place}
        for run, book in books.items()
        for place, hole in enumerate(book.holes)
    ]


def withheld(books: Mapping[str, Wholeness]) -> list[dict[str, Any]]:
    """A row for each case that is not whole, with what its beginning says."""
    return [
        {**one.begin, "run": run, "case": one.case, "reason": one.reason}
        for run, book in books.items()
        for one in book.withheld
    ]
