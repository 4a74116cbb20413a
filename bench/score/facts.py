"""What was agreed before a case began: its devices and its network servers?"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.score.read import of_kind
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
    "dev_status_s",
)
RETENTION_US = 60_000_000
SERVERS = (
    "own_lns", "lns_count", "begun_us", "retention_us", "on_outage", "asks", "had_outage",
    "restarts", "faults", "orphans",
)  # fmt: skip
# A server that stands still, or its store, keeps nobody informed.
_STORE_SEAMS = ("store", "redis", "lns")
_RESTART = ("t_us", "lns", "f_cnt_up")


def devices(lines: DataFrame) -> DataFrame:
    """One row per device of a case: `device` is the struct of its facts."""
    first = F.min_by(F.struct(*_DEVICE, "join_eui"), "t_us")
    return (
        of_kind(lines, "case.device")
        .groupBy("run", "case", "dev_eui")
        .agg(first.alias("device"))
        .select("run", "case", "dev_eui", "device")
    )


def relaxed(lines: DataFrame) -> DataFrame:
    """The devices of a case whose counters may begin again: `has_lives`."""
    is_relaxed = (F.col("device.activation") == "abp") & F.col("device.relaxed_f_cnt")
    return (
        devices(lines)
        .where(is_relaxed)
        .select("run", "case", "dev_eui", F.lit(True).alias("has_lives"))
    )


def servers(lines: DataFrame) -> DataFrame:
    """One row per case: its network servers, and what was done to them and to their store.

    own_lns is the first of them, lns_count how many there are, begun_us when they began (a server
    that several cases share was there before), retention_us that of level 1,
    on_outage what becomes of a frame whose owner nobody can name ("open" or "closed"), asks whether
    level 2 is asked at all, had_outage whether some server says that it had no store. Arrays of
    structs: `restarts` of servers, `faults` of them and of their store (one without `lns` concerns
    all), `orphans`, the claims of a server that is none of this case.
    """
    kind = F.col("kind")
    of_lns, of_fault = kind == "case.lns", kind == "fault.begin"
    no_store = (F.col("level2") == "Unavailable") | (F.col("reason") == "StoreUnavailable")
    of_outage = (kind == "lns.outcome") & F.coalesce(no_store, F.lit(False))
    begun_us = F.when(of_lns, F.struct("t_us", "lns"))
    restart = F.when(of_lns & (F.col("event") == "restart"), F.struct(*_RESTART))
    detail = F.from_json("detail", "empty BOOLEAN, lns STRING, dev_eui STRING, f_cnt BIGINT")
    of_store = of_fault & F.col("seam").isin(*_STORE_SEAMS)
    emptied = F.coalesce(detail.empty, F.lit(False)).alias("emptied")
    is_store = (F.col("seam") != "lns").alias("is_store")
    fault = F.when(
        of_store & (F.col("fault") != "orphan"), F.struct("t_us", "lns", emptied, is_store)
    )
    orphan = F.when(
        of_store & (F.col("fault") == "orphan"),
        F.struct("t_us", *(detail[name].alias(name) for name in ("lns", "dev_eui", "f_cnt"))),
    )
    return (
        of_kind(lines, "case.lns", "fault.begin", "lns.claim", "lns.outcome")
        .where((kind != "lns.outcome") | of_outage)
        .groupBy("run", "case")
        .agg(
            F.min_by("lns", begun_us).alias("own_lns"),
            F.size(F.collect_set(F.when(of_lns, F.col("lns")))).alias("lns_count"),
            F.min(F.when(of_lns, F.col("t_us"))).alias("begun_us"),
            F.min_by("retention_us", begun_us).alias("retention_us"),
            F.coalesce(F.min_by("on_outage", begun_us), F.lit("open")).alias("on_outage"),
            F.max(kind == "lns.claim").alias("asks"),
            F.max(kind == "lns.outcome").alias("had_outage"),
            F.sort_array(F.collect_list(restart)).alias("restarts"),
            F.sort_array(F.collect_list(fault)).alias("faults"),
            F.sort_array(F.collect_list(orphan)).alias("orphans"),
        )
        .select("run", "case", *SERVERS)
    )


def addresses(lines: DataFrame, devices: DataFrame) -> DataFrame:
    """Who uses a DevAddr in a case: the device and session whose genuine frames bear it."""
    known = devices.select("run", "case", "dev_eui")
    data = F.col("genuine") & F.col("session").isNotNull()
    return (
        of_kind(lines, "radio.transmit")
        .where(data & F.col("case").isNotNull())
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
        of_kind(lines, "lns.evicted")
        .where(F.col("case").isNotNull())
        .groupBy("run", "case", "key")
        .agg(F.min("t_us").alias("evicted_us"))
        .select("run", "case", "key", "evicted_us")
    )
