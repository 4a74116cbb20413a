"""What is to be known of receptions where network servers share devices, or a store was away?"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.counters import first_message, is_accepted
from bench.score.ownership import WORDS, with_ownership

_UNAVAILABLE = "Unavailable"


def with_homes(receptions: DataFrame) -> DataFrame:
    """The receptions with `lns`, the server that their station is connected to, and its life.

    Adds what the capture shows of its store: store_fault (disturbed by then), unavailable (the
    server says so, and is believed because of that), lost (what the frame brought is forgotten),
    unkept (its answer was withheld because nothing could be kept), observed_level2.
    """
    of_station = Window.partitionBy("station", "run", "case")
    told_by = F.coalesce("outcome.lns", F.first("outcome.lns", ignorenulls=True).over(of_station))
    level2, reason = F.col("outcome.level2"), F.col("outcome.reason")
    withheld = F.col("outcome.answer") == "Suppressed"
    closed = F.col("store_fault") & (reason == "StoreUnavailable")

    def here(event: Column) -> Column:
        """Whether something befell this server, or all of them, before the outcome."""
        by_us = F.coalesce("outcome.t_us", "t_us")
        return (event["t_us"] <= by_us) & F.coalesce(event["lns"] == F.col("lns"), F.lit(True))

    def of_store(event: Column) -> Column:
        return here(event) & event["is_store"]

    def restarted(event: Column) -> Column:
        return (event["t_us"] <= F.col("t_us")) & (event["lns"] == F.col("lns"))

    return (
        receptions.withColumn("lns", F.coalesce(told_by, "own_lns"))
        .withColumn("store_fault", F.exists("faults", here))
        .withColumns(
            {
                "lns_life": F.size(F.filter("restarts", restarted)).cast("bigint"),
                "asks": F.col("asks") | (F.col("lns_count") > 1),
                "observed_level2": level2,
                "unavailable": _surely(F.col("store_fault") & (level2 == _UNAVAILABLE)),
                "lost": _surely(closed),
                "unkept": _surely(F.exists("faults", of_store) & withheld & (level2 != "NotOwner")),
            }
        )
        .select("*")
    )


def with_sharing(receptions: DataFrame, *, order: tuple[str, ...]) -> DataFrame:
    """The receptions with the facts of their counters and `level2`, the word that is due.

    Needs what `with_homes`, `bench.score.races` and the joins add. What reaches no counter has
    none of these facts, but for `outlived`.
    """
    facts = _with_facts(receptions, order)
    follows = F.col("reaches") & ~F.col("is_join")
    return (
        with_ownership(facts.where(follows), order=order)
        .unionByName(facts.where(~follows), allowMissingColumns=True)
        .transform(lambda rows: _with_outlived(rows, order))
        .select(*receptions.columns, *WORDS, "first_message", "outlived")
    )


def _with_facts(receptions: DataFrame, order: tuple[str, ...]) -> DataFrame:
    """What the fold over a session needs of each row.

    granted_by is the server that accepted the join which opened the session; null where the
    session was there before.
    """
    device = F.col("device")
    race = ("race_us", "race_rank", *order)
    so_far = (
        Window.partitionBy("dev_eui_no", "run", "case")
        .orderBy(*race)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    of_session = (
        Window.partitionBy("dev_eui_no", "session", "run", "case", "is_join", "reaches")
        .orderBy(*race)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    preset = F.when(F.col("session") == 0, device.f_cnt_up)
    relaxed = (device.activation == "abp") & device.relaxed_f_cnt
    joined = F.last(F.when(F.col("accepts_join"), F.col("lns")), ignorenulls=True).over(so_far)
    there_before = preset.isNotNull() | (device.activation == "abp")
    return (
        receptions.withColumn("joined_at", joined)
        .withColumns(
            {
                "first_message": first_message(),
                "preset": F.coalesce(preset, F.lit(-1).cast("bigint")),
                "relaxed": _surely(relaxed),
                "short": _surely(device.f_cnt_bits == 16),
                "pinned": device.server.isNotNull(),
                "closed": F.col("on_outage") == "closed",
                "granted_by": F.when(~_surely(there_before), F.first("joined_at").over(of_session)),
            }
        )
        .select("*")
    )


def _with_outlived(rows: DataFrame, order: tuple[str, ...]) -> DataFrame:
    """`outlived`: this server does not know the session any more, or never did.

    A frame of a later session was accepted here; or anywhere, before this server heard of this one.
    """
    before = (Window.unboundedPreceding, -1)
    of_device = Window.partitionBy("dev_eui_no", "run", "case").orderBy(*order)
    here = Window.partitionBy("lns", "dev_eui_no", "run", "case").orderBy(*order)
    of_life = (
        Window.partitionBy("session", "lns", "lns_life", "dev_eui_no", "run", "case")
        .orderBy(*order)
        .rowsBetween(*before)
    )
    new = F.when(is_accepted(), F.col("session"))
    elsewhere = F.max(new).over(of_device.rowsBetween(*before))
    is_first = F.count("*").over(of_life) == 0
    later = (F.max(new).over(here.rowsBetween(*before)) > F.col("session")) | (
        (elsewhere > F.col("session")) & is_first
    )
    unmet = F.coalesce(~F.col("met"), F.lit(False))
    return rows.withColumn("outlived", _surely(later) | unmet).select("*")


def _surely(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
