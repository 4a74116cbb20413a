"""Do the books of a case balance?

Laws over what the parties wrote independently of each other: the tap what stations delivered, the
network server what became of it, the application what it got, the air what was sent. Each function
returns the violations of one law as rows of run, case, rule, frame_id, station, expected, observed,
t_us and text.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.evidence import LINK, UNDER_WAY_US
from bench.score.read import ARRIVAL, of_kind

_ABSENT = ("frame_id", "station", "expected", "observed")


def violation_rows(broken: DataFrame, rule: str, text: Column, **columns: Column) -> DataFrame:
    """The violations of one law; `columns` are those of _ABSENT it can fill."""
    filled = [columns.get(name, F.lit(None)).cast("string").alias(name) for name in _ABSENT]
    return broken.select(
        "run",
        "case",
        F.lit(rule).alias("rule"),
        *filled,
        "t_us",
        text.alias("text"),
    )


def one_outcome_per_reception(matched: DataFrame) -> DataFrame:
    """A reception without an outcome, or an outcome without a reception."""
    frame = F.coalesce("frame_id", "outcome.frame_id")
    named = F.coalesce(frame, F.lit("an unreadable text"))
    lost = F.when(F.col("heard"), F.concat(named, F.lit(" has no outcome"))).when(
        F.col("told"), F.concat(named, F.lit(": an outcome without a reception"))
    )
    return violation_rows(
        matched.where(~(F.col("heard") & F.col("told")) & F.col("case").isNotNull()),
        "one outcome per reception",
        lost,
        frame_id=frame,
        station=F.col("station"),
        expected=F.col("heard").cast("int"),
        observed=F.col("told").cast("int"),
    )


def forwarded_means_published(outcomes: DataFrame, published: DataFrame) -> DataFrame:
    """Copies forwarded or marked, and messages that the application got, are the same."""
    key = ["run", "case", "dev_eui", "station", "f_cnt", "marked"]
    owed = (
        outcomes.where(F.col("upstream").isin("forwarded", "marked"))
        .withColumn("marked", F.col("upstream") == "marked")
        .groupBy(*key)
        .agg(F.count("*").alias("owed"), F.min("t_us").alias("owed_us"))
        .select(*key, "owed", "owed_us")
    )
    got = published.groupBy(*key).agg(F.count("*").alias("got"), F.min("t_us").alias("got_us"))
    word = F.when(F.col("marked"), "marked").when(~F.col("marked"), "unmarked")
    counted = (
        owed.join(got, on=key, how="full")
        .withColumn("owed", F.coalesce("owed", F.lit(0)))
        .withColumn("got", F.coalesce("got", F.lit(0)))
        .withColumn("t_us", F.coalesce("owed_us", "got_us"))
        .where((F.col("owed") != F.col("got")) & F.col("case").isNotNull())
    )
    text = F.format_string(
        "%s FCnt %s: %d %s by outcome, %d published", "dev_eui", "f_cnt", "owed", word, "got"
    )
    return violation_rows(
        counted,
        "forwarded means published",
        text,
        station=F.col("station"),
        expected=F.col("owed"),
        observed=F.col("got"),
    )


def one_message_per_id(published: DataFrame, lines: DataFrame) -> DataFrame:
    """A message id is used once in a case; after a restart of the server it may be sent again.

    An unverified message counts for nothing: nobody could say whether another server sends it too.
    """
    verified = F.coalesce(F.col("said.unverified"), F.lit("false")) != "true"
    restarted = of_kind(lines, "case.lns").where(F.col("event") == "restart")
    used = (
        published.where(F.col("case").isNotNull() & verified)
        .groupBy("run", "case", "message_id")
        .agg(F.count("*").alias("times"), F.max("t_us").alias("t_us"))
        .where(F.col("times") > 1)
        .join(restarted.select("run", "case"), on=["run", "case"], how="left_anti")
    )
    return violation_rows(
        used,
        "forwarded means published",
        F.format_string("message id %s was used %d times", "message_id", "times"),
        expected=F.lit(1),
        observed=F.col("times"),
    )


def one_answer_per_reception(
    outcomes: DataFrame, downlinks: DataFrame, passed: DataFrame, lost: DataFrame
) -> DataFrame:
    """RX1 or RX2 means one downlink scheduled, and just that one at the tap of the station.

    `lost` as `lost_links` has it: a tap without a link sees nothing.
    """
    key = ["run", "case", "station", "xtime"]
    owed = outcomes.where(F.col("answer").isin("RX1", "RX2")).select(
        *key, F.lit("owed").alias("what"), "t_us"
    )
    answers = downlinks.where(F.col("xtime").isNotNull())
    sent = answers.select(*key, F.lit("sent").alias("what"), "t_us")
    tapped = passed.select(*key, F.lit("tapped").alias("what"), "t_us")
    counts = [
        F.count(F.when(F.col("what") == what, 1)).alias(what) for what in ("owed", "sent", "tapped")
    ]
    told_us = F.max(F.when(F.col("what") == "owed", F.col("t_us")))
    counted = (
        owed.unionByName(sent)
        .unionByName(tapped)
        .where(F.col("case").isNotNull())
        .groupBy(*key)
        .agg(*counts, F.min("t_us").alias("t_us"), told_us.alias("told_us"))
        .transform(lambda rows: _seen(rows, lost))
        .where(
            (F.col("owed") != F.col("sent"))
            | (F.col("tapped") > F.col("owed"))
            | ((F.col("tapped") < F.col("owed")) & ~F.col("is_blind"))
        )
    )
    text = F.format_string(
        "xtime %s: %d by outcome, %d scheduled, %d passed the tap",
        "xtime",
        "owed",
        "sent",
        "tapped",
    )
    return violation_rows(
        counted,
        "one answer per reception",
        text,
        station=F.col("station"),
        expected=F.col("owed"),
        observed=F.when(F.col("tapped") < F.col("owed"), F.col("tapped")).otherwise(
            F.greatest("sent", "tapped")
        ),
    )


def scheduled_means_handed_over(
    downlinks: DataFrame, dnmsgs: DataFrame, lost: DataFrame
) -> DataFrame:
    """Each downlink that answers no uplink and is scheduled is one at the tap, and no other is."""
    key = ["run", "case", "station", "diid"]
    scheduled = downlinks.where(F.col("xtime").isNull()).select(
        *key, F.lit(1).alias("scheduled"), "t_us"
    )
    seen = dnmsgs.where(F.col("tap_xtime").isNull()).select(
        *key, F.lit(0).alias("scheduled"), "t_us"
    )
    told_us = F.max(F.when(F.col("scheduled") == 1, F.col("t_us")))
    counted = (
        scheduled.unionByName(seen)
        .where(F.col("case").isNotNull() & F.col("diid").isNotNull())
        .groupBy(*key)
        .agg(
            F.sum("scheduled").alias("owed"),
            F.sum(1 - F.col("scheduled")).alias("tapped"),
            F.min("t_us").alias("t_us"),
            told_us.alias("told_us"),
        )
        .where(F.col("tapped") != F.col("owed"))
        .transform(lambda rows: _seen(rows, lost))
        .where((F.col("tapped") > F.col("owed")) | ~F.col("is_blind"))
    )
    text = F.format_string(
        "downlink %s was scheduled %d times and reached the tap %d times", "diid", "owed", "tapped"
    )
    return violation_rows(
        counted,
        "scheduled means handed over",
        text,
        station=F.col("station"),
        expected=F.col("owed"),
        observed=F.col("tapped"),
    )


def lost_links(lines: DataFrame) -> DataFrame:
    """When each station of a case lost its link first; without `station`: a server ended."""
    restarted = (F.col("kind") == "case.lns") & (F.col("event") == "restart")
    return (
        of_kind(lines, LINK, "case.lns")
        .where(((F.col("kind") == LINK) | restarted) & F.col("case").isNotNull())
        .groupBy("run", "case", "station")
        .agg(F.min("t_us").alias("lost_us"))
        .select("run", "case", "station", "lost_us")
    )


def _seen(rows: DataFrame, lost: DataFrame) -> DataFrame:
    """The rows with `is_blind`: the tap may not have seen what was said at `told_us`."""
    by_us = F.col("told_us") + UNDER_WAY_US
    ended = lost.where(F.col("station").isNull()).select(
        "run", "case", F.col("lost_us").alias("ended_us")
    )
    is_blind = F.least("lost_us", "ended_us") <= by_us
    return (
        rows.join(
            F.broadcast(lost.where(F.col("station").isNotNull())),
            on=["run", "case", "station"],
            how="left",
        )
        .join(F.broadcast(ended), on=["run", "case"], how="left")
        .withColumn("is_blind", F.coalesce(is_blind, F.lit(False)))
        .drop("lost_us", "ended_us")
    )


def answer_through_the_station_that_heard(matched: DataFrame, passed: DataFrame) -> DataFrame:
    """A downlink goes through a station that delivered the reception it answers."""
    key = ["run", "case", "station", "xtime"]
    heard = matched.where("heard").select(*key)
    return violation_rows(
        passed.where(F.col("case").isNotNull()).join(heard, on=key, how="left_anti"),
        "answer through the station that heard it",
        F.format_string("a downlink for xtime %s, which this station never reported", "xtime"),
        station=F.col("station"),
    )


def nothing_accepted_that_nobody_sent(outcomes: DataFrame, lines: DataFrame) -> DataFrame:
    """What goes upstream was sent by a device in the case."""
    is_sent = (F.col("direction") == "up") & F.col("genuine")
    sent = of_kind(lines, "radio.transmit").where(is_sent).select("run", "case", "frame_id")
    accepted = outcomes.where((F.col("upstream") != "dropped") & F.col("case").isNotNull())
    return violation_rows(
        accepted.join(sent, on=["run", "case", "frame_id"], how="left_anti"),
        "nothing accepted that nobody sent",
        F.format_string("%s went upstream and no device sent it", "frame_id"),
        frame_id=F.col("frame_id"),
        station=F.col("station"),
    )


def no_downlink_counter_twice(downlinks: DataFrame) -> DataFrame:
    """FCntDown of a session only grows."""
    before = (
        Window.partitionBy("dev_addr", "dev_eui", "run", "case")
        .orderBy(*ARRIVAL)
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    counted = (
        downlinks.where(F.col("f_cnt_down").isNotNull() & F.col("case").isNotNull())
        .withColumn("greatest", F.max("f_cnt_down").over(before))
        .where(F.col("f_cnt_down") <= F.col("greatest"))
    )
    return violation_rows(
        counted,
        "no downlink counter twice",
        F.format_string("%s: FCntDown %s after %s", "dev_eui", "f_cnt_down", "greatest"),
        frame_id=F.col("frame_id"),
        station=F.col("station"),
        expected=F.col("greatest") + 1,
        observed=F.col("f_cnt_down"),
    )


def downlinks(lines: DataFrame) -> DataFrame:
    """The downlinks that network servers handed to a station."""
    return of_kind(lines, "lns.downlink").where(F.col("stage") == "scheduled")


def passed(dnmsgs: DataFrame) -> DataFrame:
    """The downlinks for an uplink that reached the tap of a station."""
    return dnmsgs.where(F.col("tap_xtime").isNotNull()).select(
        "run", "case", "station", F.col("tap_xtime").alias("xtime"), "t_us"
    )


def published(lines: DataFrame) -> DataFrame:
    """The messages that the application got; `said` is a map from field to value as text."""
    body = F.from_json("body", "MAP<STRING, STRING>")
    return (
        of_kind(lines, "upstream.published")
        .withColumn("said", body)
        .select(
            "run",
            "case",
            F.col("said.messageId").alias("message_id"),
            F.col("said.devEui").alias("dev_eui"),
            F.col("said.station").alias("station"),
            F.col("said.fCnt").try_cast("bigint").alias("f_cnt"),
            F.coalesce(F.col("said.dupMsg") == "true", F.lit(False)).alias("marked"),
            "said",
            "t_us",
        )
    )
