"""How early was an answer there for the station to send it in time?

The deadline of RX1 is the end of the uplink on the air and RxDelay after it, that of RX2 a second
later (LoRaWAN 1.0.4, 3.3). The answer's moment is when its `dnmsg` left the tap for the station.
The margin is the one minus the other and nothing else: what a station needs to get ready is not
taken off. Where nothing tells of the air (real radios), the moment at which the reception left the
tap stands for the end of the uplink; as that is later, the margin is an upper bound.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.read import of_kind
from bench.score.stalls import STALL_US_MAX

# A station takes RX1 if that is at least so far ahead, else RX2, else nothing (Basics Station).
AIM_GAP_US = 20_000
RX2_AFTER_RX1_US = 1_000_000
_RECEPTION = ("run", "case", "station", "xtime", "nth")
# What stands between the taps is slowed down on purpose; what stands before them is not timed.
_SLOWED = ("lns", "store", "redis", "upstream", "broker")


def margins(matched: DataFrame, dnmsgs: DataFrame, lines: DataFrame) -> DataFrame:
    """One row per confirmed uplink or join that the network server answered.

    aimed is the window of the outcome, used the one that the station reports (null if none),
    usable the one that the station could still use ("none": too late). measured_from is "air" or
    "tap". disturbed: the bench held the texts back, invented the uplink, or slowed the network
    server down, or the host stalled meanwhile; such margins say nothing of the network server.
    """
    answered = _answered(matched)
    downlinks = _downlinks(dnmsgs)
    key = ["run", "case", "station"]
    measured_from = F.when(F.col("air_end_us").isNotNull(), "air").otherwise("tap")
    rx1_us = F.col("end_us") + F.col("rx_delay_us") - F.col("left_us")
    return (
        answered.join(downlinks, on=list(_RECEPTION), how="inner")
        .join(_ends(answered, lines), on=list(_RECEPTION), how="left")
        .join(F.broadcast(_used(lines)), on=[*key, "diid", "frame_id"], how="left")
        .join(F.broadcast(_slowed(lines)), on=["run", "case"], how="left")
        .join(F.broadcast(_stalls(lines)), on="run", how="left")
        .withColumn("measured_from", measured_from)
        .withColumn("end_us", F.coalesce("air_end_us", "heard_us"))
        .withColumn("margin_rx1_us", rx1_us)
        .withColumn("margin_rx2_us", rx1_us + RX2_AFTER_RX1_US)
        .withColumn("slowed", F.coalesce(F.col("slowed_us") <= F.col("left_us"), F.lit(False)))
        .withColumn("stalled", F.coalesce(F.exists("stalls", _is_meanwhile), F.lit(False)))
        .select(
            "night", "run", "case", "station", "lns", "frame_id", "kind", "aimed", "used",
            _usable().alias("usable"), "margin_rx1_us", "margin_rx2_us", "measured_from",
            _any("held", "held_down", "slowed", "stalled").alias("disturbed"),
            F.col("left_us").alias("t_us"),
        )
    )  # fmt: skip


def _answered(matched: DataFrame) -> DataFrame:
    """The receptions with an answer; `nth` counts those with the same station and xtime."""
    in_order = Window.partitionBy(*_RECEPTION[:-1]).orderBy("t_us", "turn")
    asked = F.col("is_join") | F.col("outcome.confirmed")
    held_us = F.coalesce("held_us", F.lit(0))
    injected = F.coalesce(F.col("origin") == "injected", F.lit(False))
    return (
        matched.where(F.col("heard") & F.col("told") & asked & F.col("case").isNotNull())
        .where(F.col("outcome.answer").isin("RX1", "RX2"))
        .withColumn("nth", F.row_number().over(in_order))
        .select(
            "night",
            *_RECEPTION,
            "frame_id",
            "phy",
            F.when(F.col("is_join"), "join").otherwise("data").alias("kind"),
            F.col("outcome.lns").alias("lns"),
            F.col("outcome.answer").alias("aimed"),
            (F.col("t_us") - held_us).alias("heard_us"),
            injected.alias("injected"),
            ((held_us > 0) | injected).alias("held"),
        )
    )


def _downlinks(dnmsgs: DataFrame) -> DataFrame:
    """The class A downlinks that left a tap for the station, by the reception they answer."""
    left = dnmsgs.where(~F.col("dropped") & F.col("case").isNotNull())
    in_order = Window.partitionBy(*_RECEPTION[:-1]).orderBy("left_us", "seq")
    return (
        left.where((F.col("device_class") == "A") & F.col("tap_xtime").isNotNull())
        .withColumnsRenamed({"tap_xtime": "xtime", "t_us": "left_us"})
        .withColumn("nth", F.row_number().over(in_order))
        .withColumn("held_down", F.coalesce("held_us", F.lit(0)) > 0)
        .select(
            *_RECEPTION, "diid", "rx_delay_us", "in_rx1", "in_rx2", "left_us", "held_down"
        )
    )  # fmt: skip


def _ends(answered: DataFrame, lines: DataFrame) -> DataFrame:
    """When the uplink ended on the air: the last time it did before the station told of it."""
    sent = of_kind(lines, "radio.transmit").where(F.col("direction") == "up")
    on_air = sent.select(
        "run",
        "case",
        F.upper("phy").alias("phy"),
        (F.col("t_us") + F.col("airtime_us")).alias("air_end_us"),
    )
    return (
        answered.where(~F.col("injected"))
        .select(*_RECEPTION, "phy", "heard_us")
        .join(on_air, on=["run", "case", "phy"], how="inner")
        .where(F.col("air_end_us") <= F.col("heard_us"))
        .groupBy(*_RECEPTION)
        .agg(F.max("air_end_us").alias("air_end_us"))
        .select(*_RECEPTION, "air_end_us")
    )


def _used(lines: DataFrame) -> DataFrame:
    """The window in which a station reports to have sent a downlink."""
    return (
        of_kind(lines, "lns.downlink")
        .where(F.col("stage") == "transmitted")
        .where(F.col("case").isNotNull() & F.col("frame_id").isNotNull())
        .groupBy("run", "case", "station", "diid", "frame_id")
        .agg(F.min_by("window", "t_us").alias("used"))
        .select("run", "case", "station", "diid", "frame_id", "used")
    )


def _slowed(lines: DataFrame) -> DataFrame:
    """From when on a case disturbed the network server, or what it waits for."""
    return (
        of_kind(lines, "fault.begin")
        .where(F.col("seam").isin(*_SLOWED) & F.col("case").isNotNull())
        .groupBy("run", "case")
        .agg(F.min("t_us").alias("slowed_us"))
        .select("run", "case", "slowed_us")
    )


def _stalls(lines: DataFrame) -> DataFrame:
    """One row per run whose host stalled for too long: when, each time."""
    since_us = (F.col("t_us") - F.col("late_us")).alias("since_us")
    return (
        of_kind(lines, "host.stalled")
        .where(F.col("late_us") > STALL_US_MAX)
        .groupBy("run")
        .agg(F.collect_list(F.struct(since_us, F.col("t_us").alias("woke_us"))).alias("stalls"))
        .select("run", "stalls")
    )


def _is_meanwhile(stall: Column) -> Column:
    """Whether a stall lies, in part, between the end of the uplink and its answer."""
    return (stall.since_us <= F.col("left_us")) & (stall.woke_us >= F.col("end_us"))


def _any(*names: str) -> Column:
    return reduce(Column.__or__, (F.col(name) for name in names))


def _usable() -> Column:
    in_rx1 = F.col("in_rx1") & (F.col("margin_rx1_us") >= AIM_GAP_US)
    in_rx2 = F.col("in_rx2") & (F.col("margin_rx2_us") >= AIM_GAP_US)
    return F.when(in_rx1, "RX1").when(in_rx2, "RX2").otherwise("none")


def of_run(margins: DataFrame) -> DataFrame:
    """The distribution of each run and kind, in µs; of what was not disturbed, but for `disturbed`.

    `late`: no window was left that the station could use. `late_for_rx1`: aimed at RX1, and only
    RX2 was left. `counts`: how many margins to RX1 lie in each whole millisecond (floor); those to
    RX2 are all a second longer.
    """
    clean = ~F.col("disturbed")
    shares = F.array(*(F.lit(share) for share in (0.01, 0.5, 0.99)))
    of_kind = ["run", "kind"]

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    late_for_rx1 = (F.col("aimed") == "RX1") & (F.col("usable") == "RX2")
    figures = margins.groupBy(*of_kind).agg(
        count(clean).alias("answers"),
        count(F.col("disturbed")).alias("disturbed"),
        count(clean & (F.col("usable") == "none")).alias("late"),
        count(clean & late_for_rx1).alias("late_for_rx1"),
        count(clean & (F.col("measured_from") == "air")).alias("from_air"),
        F.min(F.when(clean, F.col("margin_rx1_us"))).alias("min_us"),
        F.percentile(F.when(clean, F.col("margin_rx1_us")), shares).alias("shares_us"),
    )
    bins = (
        margins.where(clean)
        .groupBy(*of_kind, F.floor(F.col("margin_rx1_us") / 1000).alias("ms"))
        .agg(F.count("*").alias("count"))
        .groupBy(*of_kind)
        .agg(F.sort_array(F.collect_list(F.struct("ms", "count"))).alias("counts"))
    )
    return figures.join(bins, on=of_kind, how="left").select(
        *of_kind, "answers", "disturbed", "late", "late_for_rx1", "from_air", "min_us",
        "shares_us", "counts",
    )  # fmt: skip
