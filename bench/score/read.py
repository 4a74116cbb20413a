"""What lines do the captures hold, to which case does each belong, and what befell each case?"""

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.spark.cut import literal

STALL_US_MAX = 50_000
"""A host that stood still for longer than this, in µs, has disturbed what it played."""
# The order of everything that happened in a run. Equal times are put in order as the plain-Python
# reading of a capture does it.
ARRIVAL = "t_us, source, seq"
_HEAD = ("case", "kind", "t_us", "source", "seq")

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
    " f_cnt_down dev_status_s lorawan join_eui join_nonce_min server only_at",
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
    "upstream.parked": "message_id",
}
"""What a line of a kind says beside what every line has: the columns of its table."""


def lines(
    spark: SparkSession, files: Sequence[str], withheld: Collection[tuple[str, str]] = ()
) -> DataFrame:
    """Every line of these capture files, with the `run` it belongs to: the name of the folder.

    `text` is the whole line; `unpacked` tells what else stands in it. One that is torn has nothing
    but its text. `withheld`: whether it names one of these cases, each with its run. The files are
    these and no others, whatever characters their names have.
    """
    folder = F.substring_index(F.substring_index("_metadata.file_path", "/", -2), "/", 1)
    # Spark writes a path as a URL, in which "+" stands for itself.
    run = F.url_decode(F.replace(folder, F.lit("+"), F.lit("%2B")))
    said = F.from_json("value", columns_of(_HEAD))
    whole = reduce(and_, (F.col(f"said.{name}").isNotNull() for name in _HEAD[1:]))
    return (
        spark.read.text([literal(file) for file in files])
        .where("trim(value) != ''")
        .select(run.alias("run"), F.col("value").alias("text"), said.alias("said"))
        .select("run", F.when(whole, F.col("said")).alias("said"), "text")
        .select("run", "said.*", "text")
        .withColumn("withheld", F.concat_ws("/", "run", "case").isin(*map("/".join, withheld)))
    )


def columns_of(names: Iterable[str]) -> str:
    """These fields of a line with their types, in words of SQL."""
    return ", ".join(f"`{name}` {CAPTURE[name]}" for name in names)


def unpacked(names: str) -> str:
    """The struct of these fields of the line in `text`."""
    return f"from_json(text, '{columns_of(names.split())}')"


# When the next case begins. Backwards, because a window that reaches to the end is gone through
# anew for each row of it.
_NEXT_BEGIN = """min(begin_us) OVER (PARTITION BY run ORDER BY begin_us DESC
     RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""


_NAMELESS = f"""
-- The whole lines that name no case, which are few, with the case that was open then, if it was the
-- only one: cases may run side by side. A case without an end is open until another one begins; the
-- last one has no open_until_us.
WITH whole AS (FROM read |> WHERE kind IS NOT NULL),
  numbered AS (
    FROM whole |> WHERE kind IN ('case.begin', 'case.end') AND case IS NOT NULL AND source = 'bench'
    |> AGGREGATE max(t_us) FILTER (WHERE kind = 'case.begin') AS begin_us,
         max(t_us) FILTER (WHERE kind = 'case.end') AS end_us GROUP BY run, case
    |> WHERE begin_us IS NOT NULL
    |> SELECT run, case, begin_us, coalesce(end_us, {_NEXT_BEGIN} - 1) AS open_until_us,
         row_number() OVER (PARTITION BY run ORDER BY begin_us, case) AS number),
  events AS (
    SELECT run, number, NULL AS line, inline(array(
      struct(begin_us AS t_us, 0 AS rank, 1 AS opens),
      struct(open_until_us AS t_us, 2 AS rank, -1 AS opens)))
    FROM numbered
    UNION ALL
    SELECT run, 0, struct(*), t_us, 1, 0 FROM whole WHERE case IS NULL)
FROM events |> WHERE t_us IS NOT NULL
|> SELECT run, line, sum(opens) OVER so_far AS open, sum(opens * number) OVER so_far AS number
   WINDOW so_far AS (PARTITION BY run ORDER BY t_us, rank
     ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
|> WHERE line IS NOT NULL |> SET number = if(open = 1, number, NULL)
|> LEFT JOIN numbered USING (run, number)
|> LEFT ANTI JOIN withheld USING (run, case)
|> SELECT run, case, line.kind, line.t_us, line.source, line.seq, line.text"""

_LINES = """
-- The whole lines of the cases that are whole, each with its case. They are not kept once more.
FROM read |> WHERE kind IS NOT NULL AND case IS NOT NULL AND NOT withheld |> DROP withheld
|> UNION ALL (FROM nameless)"""

_STALLS = f"""
-- One row per run whose host stalled for too long: when, each time.
FROM host_stalled |> WHERE late_us > {STALL_US_MAX}
|> AGGREGATE collect_list(struct(late_us, t_us AS woke_us, t_us - late_us AS since_us)) AS stalls
   GROUP BY run"""

# A server that stands still, or its store, keeps nobody informed.
_OF_STORE = "kind = 'fault.begin' AND rest.seam IN ('store', 'redis', 'lns')"
_BROKE = "kind = 'case.end' AND rest.verdict = 'ERROR'"
_CONSUMED = "'inbox.accepted', 'inbox.ignored', 'inbox.parked', 'application.effect'"
# Most outcomes have nothing to tell of it.
_OUTAGE = "(kind = 'lns.outcome' AND text LIKE '%Unavailable%')"
_PROMISES = "'outcome', 'device', 'upstream', 'answer', 'evicted', 'on_air', 'effect', 'ignored'"
# The kinds of lines of which there are as many as receptions.
_MANY = {"case.expect", "radio.transmit", "station.text", "lns.outcome", "upstream.published"}
_OTHERS = f"""
-- The lines of all other kinds, which are few, and outcomes that tell of an outage.
FROM lines |> WHERE kind NOT IN ({", ".join(f"'{kind}'" for kind in sorted(_MANY))}) OR {_OUTAGE}"""
_OF_CASES = """lns event region retention_us on_outage f_cnt_up verdict reasons owner attempt
repeated eui name seam fault station detail stage dev_eui consumer level2 reason relaxed_f_cnt"""
_CASES = f"""
-- One row per case: how it began and ended, its network servers and stations, and what befell them.
-- relaxed: devices that may begin again, own_lns: the first of its servers, begun_us when they
-- began (one that several cases share was there before), retention_us that of level 1, on_outage
-- what becomes of a frame whose owner nobody can name, dwells: devices are told dwell times, asks:
-- level 2 is asked at all, had_outage: some server says that it had no store.
-- faults: of servers and of their store (one without lns concerns all); orphans: claims of a server
-- that is none of this case; stall: the longest of the host while the case was open, where no
-- stimulus was missed; missed: stimuli that the bench itself did not deliver.
FROM others
|> WHERE case IS NOT NULL AND (kind IN ('case.begin', 'case.end', 'case.station', 'case.lns',
     'case.device', 'fault.begin', 'lns.claim', 'lns.request', 'upstream.failed',
     'station.link', 'stimulus.missed', {_CONSUMED}) OR {_OUTAGE})
|> EXTEND {unpacked(_OF_CASES)} AS rest
|> EXTEND if(kind = 'case.lns', struct(t_us, rest.lns), NULL) AS begun,
     if({_OF_STORE}, from_json(rest.detail,
       'empty BOOLEAN, lns STRING, dev_eui STRING, f_cnt BIGINT'), NULL) AS detail,
     if({_BROKE}, concat_ws('; ', rest.reasons), NULL) AS why
|> AGGREGATE
     max(t_us) FILTER (WHERE kind = 'case.begin') AS begin_us,
     max(t_us) FILTER (WHERE kind = 'case.end') AS end_us,
     max(rest.attempt) FILTER (WHERE kind = 'case.end') AS attempt,
     max(rest.repeated) FILTER (WHERE kind = 'case.end') AS repeated,
     max(if(why != '', why, 'the bench failed')) FILTER (WHERE {_BROKE}) AS broken,
     max(rest.owner) FILTER (WHERE {_BROKE}) AS breaker,
     collect_list(struct(rest.eui, rest.name)) FILTER (WHERE kind = 'case.station') AS stations,
     collect_set(rest.dev_eui) FILTER (WHERE rest.relaxed_f_cnt) AS relaxed,
     min_by(rest.lns, begun) AS own_lns,
     size(collect_set(rest.lns) FILTER (WHERE kind = 'case.lns')) AS lns_count,
     min(t_us) FILTER (WHERE kind = 'case.lns') AS begun_us,
     min_by(rest.retention_us, begun) AS retention_us,
     coalesce(min_by(rest.on_outage, begun), 'open') AS on_outage,
     bool_or(coalesce(rest.region LIKE 'AS923%', false)) AS dwells,
     bool_or(kind = 'lns.claim') AS asks,
     bool_or({_OUTAGE} AND coalesce(
       rest.level2 = 'Unavailable' OR rest.reason = 'StoreUnavailable', false)) AS had_outage,
     sort_array(collect_list(struct(t_us, rest.lns, rest.f_cnt_up))
       FILTER (WHERE kind = 'case.lns' AND rest.event = 'restart')) AS restarts,
     collect_list(t_us) FILTER (WHERE kind = 'case.lns' AND rest.event = 'kill') AS kills,
     collect_set(rest.station) FILTER (WHERE rest.seam = 'tap' AND rest.fault = 'cut') AS cut,
     collect_list(struct(t_us, rest.station)) FILTER (WHERE kind = 'station.link') AS links,
     sort_array(collect_list(struct(t_us, rest.lns, detail.empty AS emptied,
         rest.seam != 'lns' AS is_store))
       FILTER (WHERE {_OF_STORE} AND rest.fault != 'orphan')) AS faults,
     sort_array(collect_list(struct(t_us, detail.lns, detail.dev_eui, detail.f_cnt))
       FILTER (WHERE {_OF_STORE} AND rest.fault = 'orphan')) AS orphans,
     bool_or(kind = 'upstream.failed' OR kind = 'fault.begin'
       AND coalesce(rest.seam IN ('upstream', 'store', 'broker', 'redis'), false)) AS has_failure,
     bool_or(kind = 'fault.begin' AND coalesce(rest.seam = 'program', false)) AS has_mistake,
     min(t_us) FILTER (WHERE kind = 'upstream.failed' OR kind = 'fault.begin'
       AND rest.seam IN ('store', 'redis', 'lns', 'program', 'upstream', 'broker')) AS failed_us,
     max(CAST(get_json_object(rest.detail, if(rest.seam = 'store', '$.after_us', '$.us')) AS
       BIGINT)) FILTER (WHERE kind = 'fault.begin' AND (rest.seam, rest.fault) IN
       (('upstream', 'delay'), ('store', 'slow disk'))) AS upstream_late_us,
     -- What stands between the taps is slowed down on purpose; what stands before is not timed.
     min(t_us) FILTER (WHERE kind = 'fault.begin'
       AND rest.seam IN ('lns', 'store', 'redis', 'upstream', 'broker')) AS slowed_us,
     collect_set(rest.dev_eui) FILTER (WHERE kind = 'lns.request' AND rest.stage = 'queued')
       AS requests,
     sort_array(collect_set(rest.consumer) FILTER (WHERE kind IN ({_CONSUMED}))) AS consumers,
     sort_array(collect_list(struct(t_us, rest.seam,
         get_json_object(rest.detail, '$.consumer') AS consumer))
       FILTER (WHERE kind = 'fault.begin' AND rest.seam IN ('broker', 'consumer'))) AS disturbances,
     count_if(kind = 'stimulus.missed') AS missed
   GROUP BY run, case
|> EXTEND coalesce(end_us, {_NEXT_BEGIN} - 1) AS open_until_us
|> LEFT JOIN stalls USING (run)
|> LEFT JOIN (SELECT run, case, count_if(expect IN ({_PROMISES})) AS promises FROM case_expect
     GROUP BY run, case) USING (run, case)
|> EXTEND if(missed > 0, NULL, array_max(filter(stalls, one -> one.woke_us >= begin_us
     AND (open_until_us IS NULL OR one.woke_us <= open_until_us)))) AS stall"""


def _of_kind(kind: str) -> str:
    """What every line has, and what lines of this kind say: a narrow table."""
    rows = f"FROM {'lines' if kind in _MANY else 'others'} |> WHERE kind = '{kind}'"
    if said := KINDS[kind]:
        rows += f" |> EXTEND {unpacked(said)} AS said"
    return f"{rows} |> SELECT run, case, kind, {ARRIVAL}{', said.*' if said else ''}"


QUERIES = {
    "nameless": _NAMELESS,
    "lines": _LINES,
    "others": _OTHERS,
    **{kind.replace(".", "_"): _of_kind(kind) for kind in KINDS},
    "stalls": _STALLS,
    "cases": _CASES,
}
