"""Do the books of network servers that share devices balance against each other?

ADR 007, part 2, as laws over what the servers wrote down, in the shape of
`bench.score.conservation`: each function returns the violations of one law. A store or an upstream
that failed may take a frame from its owner; what comes after that is left to the oracle.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.conservation import violation_rows
from bench.score.facts import RETENTION_US
from bench.score.level2 import NOT_ASKED, OWNER, STATE_US
from bench.score.read import ARRIVAL, of_kind

ONE_OWNER = "one owner per frame"
ONE_SERVER_ANSWERS = "one server answers"
ONE_MESSAGE = "one message under Drop"
NO_COUNTER_TWICE = "no downlink counter claimed twice"
CLAIMS_AND_OUTCOMES = "claims and outcomes agree"
RULES = (ONE_OWNER, ONE_SERVER_ANSWERS, ONE_MESSAGE, NO_COUNTER_TWICE, CLAIMS_AND_OUTCOMES)

_FRAME = ("frame_id", "f_cnt", "dev_eui", "run", "case")
_SENT = ("confirmed", "fPort", "payload")
_FAILING_SEAMS = ("store", "redis", "lns", "upstream", "broker")


def violations(lines: DataFrame, outcomes: DataFrame, published: DataFrame) -> DataFrame:
    """Every violation of a law between servers."""
    claims, failed = _claims(lines), _failures(lines)
    laws = (
        one_owner_per_frame(claims, failed),
        one_server_answers(lines, failed),
        one_message_under_drop(published, lines, failed),
        no_downlink_counter_claimed_twice(claims),
        claims_and_outcomes_agree(claims, outcomes),
    )
    return reduce(DataFrame.unionByName, laws)


def one_owner_per_frame(claims: DataFrame, failed: DataFrame) -> DataFrame:
    """A frame has one owner, however many servers hear it and however often."""
    owners = claims.where(F.col("level2") == OWNER)
    return violation_rows(
        _by_two_servers(owners, _FRAME, failed),
        ONE_OWNER,
        F.format_string("%s is owned by %s, and by %s before", "frame_id", "lns", "other"),
        frame_id=F.col("frame_id"),
        station=F.col("station"),
        expected=F.col("other"),
        observed=F.col("lns"),
    )


def one_server_answers(lines: DataFrame, failed: DataFrame) -> DataFrame:
    """Only one server answers a frame, whatever the strategy."""
    answers = of_kind(lines, "lns.downlink").where(F.col("stage") == "scheduled")
    of_data = answers.where(F.col("f_cnt_down").isNotNull() & F.col("xtime").isNotNull())
    counted = of_data.withColumn("f_cnt", F.split("frame_id", ":")[1].try_cast("bigint"))
    return violation_rows(
        _by_two_servers(counted, _FRAME, failed),
        ONE_SERVER_ANSWERS,
        F.format_string("%s is answered by %s, and by %s before", "frame_id", "lns", "other"),
        frame_id=F.col("frame_id"),
        station=F.col("station"),
        expected=F.col("other"),
        observed=F.col("lns"),
    )


def one_message_under_drop(published: DataFrame, lines: DataFrame, failed: DataFrame) -> DataFrame:
    """Under Drop a frame goes upstream once, over all servers.

    Messages that differ in what the device sent are of two frames: a counter that began again.
    """
    under_drop = of_kind(lines, "case.device").where(F.col("strategy") == "Drop")
    said = F.col("said")
    messages = (
        published.join(
            F.broadcast(under_drop.select("run", "case", "dev_eui").dropDuplicates()),
            on=["run", "case", "dev_eui"],
            how="left_semi",
        )
        .where(F.coalesce(said["unverified"], F.lit("false")) != "true")
        .withColumn("lns", said["lns"])
        .withColumn("dev_addr", said["devAddr"])
        .withColumn("sent", F.struct(*(said[name].alias(name) for name in _SENT)))
    )
    frame = ("sent", "dev_addr", "f_cnt", "dev_eui", "run", "case")
    return violation_rows(
        _by_two_servers(messages, frame, failed),
        ONE_MESSAGE,
        F.format_string(
            "%s FCnt %s is sent by %s, and by %s before", "dev_eui", "f_cnt", "lns", "other"
        ),
        station=F.col("station"),
        expected=F.col("other"),
        observed=F.col("lns"),
    )


def no_downlink_counter_claimed_twice(claims: DataFrame) -> DataFrame:
    """No two answers of a session are given one counter."""
    of_counter = Window.partitionBy("f_cnt_down", "dev_addr", "dev_eui", "run", "case")
    again = (
        claims.where(F.col("f_cnt_down").isNotNull())
        .withColumn("other", F.lag("lns").over(of_counter.orderBy(*ARRIVAL)))
        .where(F.col("other").isNotNull())
    )
    return violation_rows(
        again,
        NO_COUNTER_TWICE,
        F.format_string(
            "%s: FCntDown %s is taken by %s, and by %s before",
            "dev_eui", "f_cnt_down", "lns", "other",
        ),
        frame_id=F.col("frame_id"),
        station=F.col("station"),
        observed=F.col("f_cnt_down"),
    )  # fmt: skip


def claims_and_outcomes_agree(claims: DataFrame, outcomes: DataFrame) -> DataFrame:
    """What level 2 answered is what the outcome says of it; who never asked has no answer."""
    key = ("xtime", "station", "frame_id", "run", "case")
    columns = (*key, "level2", "what", "t_us")
    asked = claims.withColumn("what", F.lit("asked")).select(*columns)
    said = outcomes.where(F.col("xtime").isNotNull()).withColumn("what", F.lit("said"))

    def words(what: str) -> Column:
        told = (F.col("what") == what) & (F.col("level2") != NOT_ASKED)
        return F.array_join(F.sort_array(F.collect_list(F.when(told, F.col("level2")))), ", ")

    counted = (
        asked.unionByName(said.select(*columns))
        .where(F.col("case").isNotNull())
        .groupBy(*key)
        .agg(
            words("asked").alias("asked"),
            words("said").alias("said"),
            F.max(F.col("what") == "said").alias("has_outcome"),
            F.max("t_us").alias("t_us"),
        )
        .where(F.col("has_outcome") & (F.col("asked") != F.col("said")))
    )
    return violation_rows(
        counted,
        CLAIMS_AND_OUTCOMES,
        F.format_string("%s: claims '%s', outcomes '%s'", "frame_id", "asked", "said"),
        frame_id=F.col("frame_id"),
        station=F.col("station"),
        expected=F.col("asked"),
        observed=F.col("said"),
    )


def _claims(lines: DataFrame) -> DataFrame:
    return of_kind(lines, "lns.claim").where(F.col("case").isNotNull()).select(
        "run", "case", "lns", "station", "frame_id", "dev_eui", "dev_addr", "f_cnt",
        F.col("decision").alias("level2"), "owner", "f_cnt_down", "xtime", *ARRIVAL,
    )  # fmt: skip


def _failures(lines: DataFrame) -> DataFrame:
    """One row per case in which a store or an upstream failed: since when."""
    failing = (F.col("kind") == "upstream.failed") | F.col("seam").isin(*_FAILING_SEAMS)
    return (
        of_kind(lines, "upstream.failed", "fault.begin")
        .where(failing & F.col("case").isNotNull())
        .groupBy("run", "case")
        .agg(F.min("t_us").alias("failed_us"))
        .select("run", "case", "failed_us")
    )


def _by_two_servers(rows: DataFrame, frame: tuple[str, ...], failed: DataFrame) -> DataFrame:
    """Rows of one frame after one of an `other` server, before anything failed.

    A claim is forgotten after a day, and FCnt 0 or 1 may be another frame of a device that began
    again, but for the first minute.
    """
    in_order = Window.partitionBy(*frame).orderBy("t_us")
    silence_us = F.col("t_us") - F.lag("t_us").over(in_order)
    limit_us = F.when(F.col("f_cnt") <= 1, F.lit(RETENTION_US)).when(
        F.col("f_cnt") > 1, F.lit(STATE_US)
    )
    undisturbed = F.coalesce(F.col("t_us") < F.col("failed_us"), F.lit(True))
    return (
        rows.where(F.col("case").isNotNull())
        .withColumn("other", F.lag("lns").over(in_order))
        .withColumn("silence_us", silence_us)
        .join(F.broadcast(failed), on=["run", "case"], how="left")
        .where((F.col("other") != F.col("lns")) & (F.col("silence_us") < limit_us) & undisturbed)
        .select("*")
    )
