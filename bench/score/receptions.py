"""What did the network server hear, when, through which station, and who had really sent it?"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.read import ARRIVAL, of_kind
from bench.score.station_text import eui_no, spoken

LIVES = ("lns_life", "stale_life", "stale")
_SENT = ("genuine", "dev_eui", "session", "f_cnt", "transmission")


def receptions(lines: DataFrame) -> DataFrame:
    """One row per frame that a station delivered, in the words of its text.

    `copy` counts the receptions of a frame in a case from 0, `turn` those with the same station and
    xtime, both in order of arrival. What is known of the sender comes from the latest transmission
    of the very same bytes: a replayed frame finds its original, altered bytes find nothing and are
    not `genuine`. EUIs stand beside their text as numbers, `*_no`.
    """
    is_up = (F.col("direction") == "up") & ~F.coalesce("dropped", F.lit(False))
    texts = with_lives(lines, is_up).select(
        "night", "run", "case", *LIVES, "station", "text", "origin", "held_us", *ARRIVAL
    )
    by_frame = Window.partitionBy("frame_id", "run", "case").orderBy(*ARRIVAL)
    by_xtime = Window.partitionBy("xtime", "station", "run", "case").orderBy(*ARRIVAL)
    return (
        with_senders(spoken(texts), lines)
        .withColumn("copy", F.row_number().over(by_frame) - 1)
        .withColumn("turn", F.row_number().over(by_xtime))
        .withColumn("dev_eui", F.coalesce("join_dev_eui", "dev_eui"))
        .withColumn("dev_eui_no", eui_no("dev_eui"))
        .withColumn("join_eui_no", eui_no("join_eui"))
        .withColumn("station_no", eui_no("station"))
    )


def with_lives(lines: DataFrame, wanted: Column) -> DataFrame:
    """The wanted texts of stations, each with what restarts of servers in its case did before it.

    `lns_life` counts the restarts, `stale_life` those that brought an older counter back, and
    `stale` is the counter that the last of these brought. A server that several cases share starts
    anew for none of them: a restart is of the case that tells of it.
    """
    so_far = (
        Window.partitionBy("run", "case")
        .orderBy(*ARRIVAL)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    texts = of_kind(lines, "station.text", "case.lns")
    restart = (F.col("kind") == "case.lns") & F.coalesce(F.col("event") == "restart", F.lit(False))
    stale = F.when(restart, F.col("f_cnt_up"))
    return (
        texts.where(restart | wanted)
        .withColumn("lns_life", F.count(F.when(restart, 1)).over(so_far))
        .withColumn("stale_life", F.count(stale).over(so_far))
        .withColumn("stale", F.last(stale, ignorenulls=True).over(so_far))
        .where(~restart)
        .select(*texts.columns, *LIVES)
    )


def with_senders(heard: DataFrame, lines: DataFrame) -> DataFrame:
    """The receptions `heard`, each with genuine, dev_eui, session, f_cnt and transmission.

    The sender of the same case: two cases side by side may send the same bytes.
    """
    transmissions = (
        of_kind(lines, "radio.transmit")
        .where(F.col("direction") == "up")
        .select(
            "run", "case", *ARRIVAL, F.upper("phy").alias("phy"), F.struct(*_SENT).alias("sent")
        )
    )
    latest = (
        Window.partitionBy("phy", "run", "case")
        .orderBy("t_us", "is_heard")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    genuine = F.coalesce(F.col("sent.genuine") & F.col("phy").isNotNull(), F.lit(False))
    others = [F.when(genuine, F.col(f"sent.{name}")).alias(name) for name in _SENT[1:]]
    return (
        heard.select("*", F.lit(1).alias("is_heard"))
        .unionByName(
            transmissions.select("*", F.lit(0).alias("is_heard")), allowMissingColumns=True
        )
        .withColumn("sent", F.last("sent", ignorenulls=True).over(latest))
        .where(F.col("is_heard") == 1)
        .select(*heard.columns, genuine.alias("genuine"), *others)
    )
