"""What was agreed before a case began: its devices and its network servers?"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.score.station_text import eui_no

_DEVICE = (
    "activation",
    "strategy",
    "relaxed_f_cnt",
    "f_cnt_bits",
    "nb_trans",
    "f_cnt_up",
    "lorawan",
    "server",
)
RETENTION_US = 60_000_000


def devices(lines: DataFrame) -> DataFrame:
    """One row per device of a case: `device` is the struct of its facts."""
    first = F.min_by(F.struct(*_DEVICE, "join_eui"), "t_us")
    return (
        lines.where(F.col("kind") == "case.device")
        .groupBy("run", "case", "dev_eui")
        .agg(first.alias("device"))
        .select("run", "case", "dev_eui", "device")
    )


def servers(lines: DataFrame) -> DataFrame:
    """One row per case: its network server, how many it has, and the retention of level 1 in µs."""
    return (
        lines.where(F.col("kind") == "case.lns")
        .groupBy("run", "case")
        .agg(
            F.min_by("lns", "t_us").alias("own_lns"),
            F.count_distinct("lns").alias("lns_count"),
            F.min_by("retention_us", "t_us").alias("retention_us"),
        )
        .select("run", "case", "own_lns", "lns_count", "retention_us")
    )


def addresses(lines: DataFrame, devices: DataFrame) -> DataFrame:
    """Who uses a DevAddr in a case: the device and session whose genuine frames bear it."""
    known = devices.select("run", "case", "dev_eui")
    data = (F.col("kind") == "radio.transmit") & F.col("genuine") & F.col("session").isNotNull()
    return (
        lines.where(data & F.col("case").isNotNull())
        .join(F.broadcast(known), on=["run", "case", "dev_eui"], how="left_semi")
        .withColumn("dev_addr", F.substring_index("frame_id", ":", 1))
        .groupBy("run", "case", "dev_addr")
        .agg(
            F.max_by(eui_no("dev_eui"), "session").alias("owner_no"),
            F.max("session").alias("owner_session"),
        )
        .select("run", "case", "dev_addr", "owner_no", "owner_session")
    )


def evicted(lines: DataFrame) -> DataFrame:
    """The level-1 keys that a full cache lost in a case, in the words of the network server."""
    return (
        lines.where((F.col("kind") == "lns.evicted") & F.col("case").isNotNull())
        .groupBy("run", "case", "key")
        .agg(F.min("t_us").alias("evicted_us"))
        .select("run", "case", "key", "evicted_us")
    )
