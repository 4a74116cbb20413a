"""What is to be known of receptions where network servers share devices, or a store was away?

Arrivals tell who claims first, but for those so close together that the way from the tap to the
store decides. Two receptions race if they are of one session, at different servers, and at most
RACE_US apart. Who was first in a race is then taken from the claims, which is not circular: it
settles an order between two events that the wires left open, and nothing else. Still exactly one
server has to own the frame, and what all others do with it, and with every later frame, has to
follow from that. If none says that it owns the frame, or more than one, arrivals count again, and
the claims are found to be wrong.
"""

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score import level2
from bench.score.counters import first_message, is_accepted

# Workers of a cluster do not have the bench: they are sent the module itself.
cloudpickle.register_pickle_by_value(level2)  # type: ignore[no-untyped-call]

_JUDGED = tuple(word.split()[0] for word in level2.JUDGED.split(", "))
_SESSION = ("dev_eui_no", "session", "run", "case")
_UNAVAILABLE = "Unavailable"
# Two hops through a loaded host; scenarios that want an order leave a multiple of it between two.
RACE_US = 20_000
# While the store is disturbed a claim may take as long as a server waits for it.
_DISTURBED_US = 300_000
_SENDER = ("dev_eui_no", "session", "run", "case", "is_join", "reaches")


def with_races(receptions: DataFrame, *, order: tuple[str, ...]) -> DataFrame:
    """The receptions of servers that share devices, each with what is known of its race.

    `raced`: another server took part; `winner`: the one that was first with this very frame, null
    where that is no question; `overtaken`: a newer frame came right behind, at another server;
    `race_us` and `race_rank` order the parts of a race, `race_bound_us` is how far apart they are.
    """
    of_sender = Window.partitionBy(*_SENDER).orderBy(*order)
    of_race = Window.partitionBy(*_SENDER, "race_no")
    so_far = of_sender.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    behind = of_race.orderBy(*order).rowsBetween(1, Window.unboundedFollowing)
    of_frame = Window.partitionBy(*_SENDER, "race_no", "mic_no")
    apart_us = F.col("t_us") - F.lag("t_us").over(of_sender)
    is_new = F.coalesce(apart_us > F.col("race_bound_us"), F.lit(True))
    owners = F.collect_set(F.when(_says_it_is_first(), F.col("lns"))).over(of_frame)
    others = F.size(F.collect_set("lns").over(of_frame)) > 1
    bound_us = F.when(F.col("store_fault"), _DISTURBED_US).otherwise(RACE_US)
    overtaken = F.col("raced") & (F.max("f_cnt").over(behind) > F.col("f_cnt"))
    return (
        receptions.withColumn("race_bound_us", bound_us)
        .withColumn("race_no", F.count(F.when(is_new, 1)).over(so_far))
        .withColumn("raced", F.size(F.collect_set("lns").over(of_race)) > 1)
        .withColumn("owners", owners)
        .withColumn("winner", F.when(others & (F.size("owners") == 1), F.get("owners", 0)))
        .withColumns(
            {
                "overtaken": F.coalesce(overtaken, F.lit(False)),
                "race_us": F.min("t_us").over(of_race),
                "race_rank": F.coalesce((F.col("winner") != F.col("lns")).cast("int"), F.lit(0)),
            }
        )
        .select(
            *receptions.columns, "raced", "winner", "overtaken", "race_us", "race_rank",
            "race_bound_us",
        )
    )  # fmt: skip


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
        .select(*receptions.columns, *_JUDGED, "first_message", "outlived")
    )


def with_ownership(receptions: DataFrame, *, order: tuple[str, ...]) -> DataFrame:
    """Data receptions that reach level 1, with `level2`, the word that is due, and the counters.

    The facts of `bench.score.counters` but first_message and outlived, each as the server of the
    reception sees it; `met`: it knows the session; `doubtful`: it may have missed something while
    the store was away. One fold per session, in plain Python.
    """
    entry = F.struct(*order, F.struct("*").alias("row"))
    fold = F.udf(level2.judged, f"ARRAY<STRUCT<{level2.JUDGED}>>", useArrow=False)
    facts = F.transform(
        "rows", lambda row: F.struct(*(row[name].alias(name) for name in level2.FACTS))
    )
    return (
        receptions.groupBy(*_SESSION)
        .agg(F.sort_array(F.collect_list(entry)).getField("row").alias("rows"))
        .withColumn("found", fold(facts))
        .select(F.inline(F.arrays_zip("rows", "found")))
        .select("rows.*", "found.*")
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

    A frame of a later session was accepted here; or anywhere, before this server heard of this one
    or asked whose this frame is.
    """
    before = (Window.unboundedPreceding, -1)
    of_device = Window.partitionBy("dev_eui_no", "run", "case").orderBy(*order)
    here = Window.partitionBy("lns", "dev_eui_no", "run", "case").orderBy(*order)
    of_life = Window.partitionBy("session", "lns", "lns_life", "dev_eui_no", "run", "case").orderBy(
        *order
    )
    so_far = of_life.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    new = F.when(is_accepted(), F.col("session"))
    elsewhere = F.max(new).over(of_device.rowsBetween(*before))
    is_first = F.count("*").over(of_life.rowsBetween(*before)) == 0
    later = (F.max(new).over(here.rowsBetween(*before)) > F.col("session")) | (
        (elsewhere > F.col("session")) & is_first
    )
    told = F.col("level2").isin("Owner", "NotOwner") & (
        F.max(F.when(F.col("level2") == "Owner", new)).over(of_device.rowsBetween(*before))
        > F.col("session")
    )
    unmet = F.coalesce(~F.col("met"), F.lit(False))
    return (
        rows.withColumn("told_over", _surely(told))
        .withColumn("outlived", _surely(later) | unmet | F.max("told_over").over(so_far))
        .select("*")
    )


def _surely(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


def _says_it_is_first() -> Column:
    """The server says that it owns the frame, or that it accepted the join."""
    joined = F.col("is_join") & F.col("outcome.reason").isNull()
    joined = joined & (F.col("outcome.status") == "NonDuplicate")
    return F.coalesce((F.col("observed_level2") == "Owner") | joined, F.lit(False))
