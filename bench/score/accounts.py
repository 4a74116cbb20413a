"""What became of each uplink after it was accepted: its messages, deliveries, decisions, effects?

One row per uplink, or message of the bench, and consumer of its case. A message is followed by its
id, not by time: what an application has is written down when its case ends.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.score.effects import EFFECT, uplink_key, uplink_of
from bench.score.read import ARRIVAL, of_kind

DELIVERED = "delivered"
_AT_BROKER = ("upstream.published", "upstream.repeated", "upstream.injected")
_DECIDED = ("inbox.accepted", "inbox.ignored", "inbox.parked")
_EFFECT = "application.effect"
_ENTRY = ("consumer", "message_id", "station", "by", "key", "position", "first_position")
_OF_CONSUMER = ("broker", "consumer")


def accounts(lines: DataFrame, outcomes: DataFrame, due: DataFrame) -> DataFrame:
    """One row per `which` (see `bench.score.effects`) and consumer of its case, if it has any.

    accepted counts the outcomes that let a copy through, delivered the messages at the broker,
    effects those at the consumer, ids the messages that had one. `arrivals` are what the consumer
    decided, in order, with where each `died`; `is_shared`: another consumer of the same store had
    the effect. `duplicates` are all of them but one; `due` is what was expected of `which`.
    """
    expected = (
        due.where(F.col("fate") == EFFECT)
        .groupBy("run", "case", "which")
        .agg(F.collect_list(F.struct("consumer", "count", "observed")).alias("due"))
    )
    return (
        _grouped(lines, outcomes)
        .join(F.broadcast(_cases(lines)), on=["run", "case"], how="left")
        .join(F.broadcast(expected), on=["run", "case", "which"], how="left")
        .withColumn("consumer", F.explode_outer("consumers"))
        .transform(_with_arrivals)
        .withColumn("duplicates", _duplicates())
        .select(
            "night", "run", "case", "which", "consumer", "consumers", "is_uplink", "accepted",
            "accepted_us", F.size("messages").alias("delivered"), "messages", "decided",
            F.size("own").alias("effects"),
            F.size(F.array_distinct(F.transform("own", lambda one: one["message_id"])))
            .alias("ids"),
            "own", "arrivals", "is_shared", "duplicates", "due",
        )
    )  # fmt: skip


def _grouped(lines: DataFrame, outcomes: DataFrame) -> DataFrame:
    """All entries of one uplink side by side."""
    message_id = F.coalesce("message_id", F.get_json_object("body", "$.messageId"))
    names = [name for name in _ENTRY if name != "message_id"]
    said = (
        of_kind(lines, *_AT_BROKER, *_DECIDED, _EFFECT)
        .where(F.col("case").isNotNull())
        .withColumn("message_id", message_id)
        .where(F.col("message_id").isNotNull())
        .join(_firsts(lines), on=["run", "case", "first_position"], how="left")
        .withColumn("uplink", uplink_of(F.col("message_id")))
        .select(
            "night", "run", "case",
            F.coalesce("uplink", "message_id").alias("which"),
            F.col("uplink").isNotNull().alias("is_uplink"),
            F.struct(*ARRIVAL, "kind", "message_id", *names, "first").alias("entry"),
            F.lit(None).cast("bigint").alias("accepted_us"),
        )
    )  # fmt: skip
    let_through = outcomes.where(
        F.col("upstream").isin("forwarded", "marked")
        & F.col("case").isNotNull()
        & uplink_key("dev_eui", "dev_addr", "f_cnt").isNotNull()
    ).select(
        "night", "run", "case",
        uplink_key("dev_eui", "dev_addr", "f_cnt").alias("which"),
        F.lit(True).alias("is_uplink"),
        F.col("t_us").alias("accepted_us"),
    )  # fmt: skip

    def of(*kinds: str) -> Column:
        return F.filter("entries", lambda entry: entry["kind"].isin(*kinds))

    return (
        said.unionByName(let_through, allowMissingColumns=True)
        .groupBy("night", "run", "case", "which")
        .agg(
            F.max("is_uplink").alias("is_uplink"),
            F.count("accepted_us").alias("accepted"),
            F.min("accepted_us").alias("accepted_us"),
            F.sort_array(F.collect_list("entry")).alias("entries"),
        )
        .withColumns(
            {"messages": of(*_AT_BROKER), "all_decided": of(*_DECIDED), "had": of(_EFFECT)}
        )
        .drop("entries")
    )


def _firsts(lines: DataFrame) -> DataFrame:
    """What the consumers of a case had at a position of their stores."""
    had = F.struct("consumer", "message_id", "key")
    return (
        of_kind(lines, "inbox.accepted", _EFFECT)
        .where(F.col("case").isNotNull())
        .groupBy("run", "case", F.col("position").alias("first_position"))
        .agg(F.collect_set(had).alias("first"))
        .select("run", "case", "first_position", "first")
    )


def _cases(lines: DataFrame) -> DataFrame:
    """One row per case with a consumer: `consumers`, and the `faults` before them."""
    kind = F.col("kind")
    fault = (kind == "fault.begin") & F.col("seam").isin(*_OF_CONSUMER)
    of_fault = F.get_json_object("detail", "$.consumer").alias("consumer")
    faults = F.collect_list(F.when(fault, F.struct("t_us", "seam", of_fault)))
    return (
        of_kind(lines, *_DECIDED, _EFFECT, "fault.begin")
        .where(((kind != "fault.begin") | fault) & F.col("case").isNotNull())
        .groupBy("run", "case")
        .agg(
            F.sort_array(F.collect_set("consumer")).alias("consumers"),
            F.sort_array(faults).alias("faults"),
        )
        .where(F.size("consumers") > 0)
        .select("run", "case", "consumers", "faults")
    )


def _with_arrivals(rows: DataFrame) -> DataFrame:
    """What this consumer decided and had: `decided`, `own`, `arrivals`, `is_shared`."""
    consumer = F.col("consumer")

    def here(entry: Column) -> Column:
        return entry["consumer"] == consumer

    def told_of(effect: Column) -> Column:
        """The decision that an effect belongs to; it is not told when the consumer was killed."""
        return F.get(
            F.filter(
                "decided",
                lambda entry: (
                    (entry["kind"] == "inbox.accepted") & (entry["position"] == effect["position"])
                ),
            ),
            0,
        )

    def arrival(entry: Column, t_us: Column, seq: Column, died: Column) -> Column:
        return F.struct(
            t_us.alias("t_us"), seq.alias("seq"), entry["message_id"].alias("message_id"),
            died.alias("died"),
        )  # fmt: skip

    effects = F.transform(
        "own",
        lambda effect: arrival(
            effect,
            F.coalesce(told_of(effect)["t_us"], F.lit(0)),
            F.coalesce(told_of(effect)["seq"], F.lit(-1)),
            F.lit(EFFECT),
        ),
    )
    others = F.transform(
        F.filter("decided", lambda entry: entry["kind"] != "inbox.accepted"),
        lambda entry: arrival(
            entry, entry["t_us"], entry["seq"], F.coalesce(entry["by"], F.lit("parked"))
        ),
    )
    ignored = F.filter("decided", lambda entry: entry["first_position"].isNotNull())
    # A position that this consumer does not have is one of a store that it shares.
    elsewhere = F.exists(
        ignored, lambda entry: (F.size(entry["first"]) > 0) & ~F.exists(entry["first"], here)
    )
    return (
        rows.withColumns({"decided": F.filter("all_decided", here), "own": F.filter("had", here)})
        .withColumn("arrivals", F.sort_array(F.concat(effects, others)))
        .withColumn("is_shared", F.coalesce((F.size("own") == 0) & elsewhere, F.lit(False)))
    )


def _duplicates() -> Column:
    """Where each arrival but the first effect was born; without a consumer, each message."""
    places = F.transform("arrivals", lambda one: one["died"])
    first = F.greatest(F.array_position(places, EFFECT) - 1, F.lit(0))

    def delivered(message_id: Column) -> Column:
        return F.size(F.filter("messages", lambda one: one["message_id"] == message_id))

    def nth(arrival: Column, place: Column) -> Column:
        so_far = F.slice("arrivals", 1, place + 1)
        return F.size(F.filter(so_far, lambda one: one["message_id"] == arrival["message_id"]))

    def born(arrival: Column, place: Column) -> Column:
        before = F.filter(
            "faults",
            lambda fault: (
                (fault["t_us"] <= arrival["t_us"])
                & F.coalesce(fault["consumer"] == F.col("consumer"), F.lit(True))
            ),
        )
        seam = F.try_element_at(before, F.lit(-1))["seam"]
        again = nth(arrival, place) > delivered(arrival["message_id"])
        shared = F.col("is_shared")
        return (
            F.when(again, F.coalesce(seam, F.lit("broker")))
            # The broker brings a message to each of the consumers that share a store.
            .when(~again & shared, F.lit("broker"))
            .when(~again & ~shared, _of_producer())
        )

    def row(
        message_id: Column, station: Column, born: Column, died: Column, t_us: Column
    ) -> Column:
        return F.struct(
            message_id.alias("message_id"), station.alias("station"), born.alias("born"),
            died.alias("died"), t_us.alias("t_us"),
        )  # fmt: skip

    nobody = F.lit(None).cast("string")
    at_consumer = F.filter(
        F.transform(
            "arrivals",
            lambda one, place: F.struct(
                (F.col("is_shared") | (place != first)).alias("is_again"),
                row(one["message_id"], nobody, born(one, place), one["died"], one["t_us"]).alias(
                    "row"
                ),
            ),
        ),
        lambda one: one["is_again"],
    ).getField("row")
    at_broker = F.transform(
        F.slice("messages", 2, F.greatest(F.size("messages"), F.lit(1))),
        lambda one: row(one["message_id"], nobody, _of_producer(), F.lit(DELIVERED), one["t_us"]),
    )
    has_consumer = F.col("consumer").isNotNull()
    return F.when(has_consumer, at_consumer).when(~has_consumer, at_broker)


def _of_producer() -> Column:
    return F.when(F.col("is_uplink"), "LNS").when(~F.col("is_uplink"), "bench")
