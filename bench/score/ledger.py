"""Where was each duplicate born, where did it die, and which uplink had its effect just once?

The chain: transmission, reception, outcome, message at the broker, delivery to a consumer,
decision, effect. A duplicate is born on the air (another station, a retry, a replay), at a station
(the same text again), at a network server (a copy that it lets through, or what it sends again), at
the broker (brought again) or at a consumer (it ended before its acknowledgement); messages that a
scenario publishes itself are born at the bench. It dies at the first place that recognises it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.score.accounts import DELIVERED
from bench.score.effects import EFFECT
from bench.score.outcomes import ABSENT, told

BROKER_LOST = "broker"
_DIED = {
    "Duplicate": "level 1",
    "ResubmissionSuppressed": "level 1",
    "DuplicateAtOtherServer": "level 2",
    "StoreUnavailable": "level 2",
    "InvalidFrameCounter": "counter",
    "ResubmissionLimit": "counter",
    "DevNonceUsed": "counter",
}
_COLUMNS = (
    "night", "run", "case", "what", "which", "frame_id", "message_id", "station", "consumer",
    "born", "died", "delivered", "effects", "t_us",
)  # fmt: skip


def ledger(matched: DataFrame, accounts: DataFrame) -> DataFrame:
    """One row per duplicate, and one per accepted uplink and consumer (`what`).

    `which` is the uplink, as "DevEUI-DevAddr-FCnt", or the id of a message of the bench. Of an
    uplink `delivered` counts the messages at the broker, `effects` those at the consumer, and
    `died` is the last place it came to.
    """
    return (
        _of_receptions(matched)
        .unionByName(_of_messages(accounts), allowMissingColumns=True)
        .unionByName(_of_uplinks(accounts), allowMissingColumns=True)
        .select(*_COLUMNS)
    )


def _of_receptions(matched: DataFrame) -> DataFrame:
    """The copies of a frame that no server let through."""
    upstream, reason = told("upstream"), told("reason")
    died = F.when(~F.col("told"), F.lit("no outcome"))
    for word, place in _DIED.items():
        died = died.when(reason == word, F.lit(place))
    died = died.when(reason != ABSENT, F.lit("not served here")).when(
        reason == ABSENT, F.lit("no payload")
    )
    again = F.col("heard") & F.col("frame_id").isNotNull() & (F.col("copy") > 0)
    stopped = F.coalesce(~upstream.isin("forwarded", "marked"), F.lit(True))
    at_station = F.col("turn") > 1
    return matched.where(again & stopped & F.col("case").isNotNull()).select(
        "night", "run", "case",
        F.lit("duplicate").alias("what"),
        "frame_id",
        "station",
        F.when(at_station, "station").when(~at_station, "air").alias("born"),
        died.alias("died"),
        "t_us",
    )  # fmt: skip


def _of_messages(accounts: DataFrame) -> DataFrame:
    """What a network server, the broker or a consumer repeated, at each consumer."""
    return accounts.select(
        "night", "run", "case", "which", "consumer", F.inline("duplicates")
    ).select("*", F.lit("duplicate").alias("what"))


def _of_uplinks(accounts: DataFrame) -> DataFrame:
    no_consumer = F.col("consumer").isNull()
    arrived = F.size("arrivals") > 0
    died = (
        F.when(F.col("delivered") == 0, F.lit("LNS"))
        .when(no_consumer, F.lit(DELIVERED))
        .when((F.col("effects") > 0) | F.col("is_shared"), F.lit(EFFECT))
        .when(arrived, F.get("arrivals", F.lit(0))["died"])
        .when(~arrived, F.lit(BROKER_LOST))
    )
    return accounts.where(F.col("accepted") > 0).select(
        "night", "run", "case", "which", "consumer", "delivered", "effects",
        F.lit("uplink").alias("what"), died.alias("died"), F.col("accepted_us").alias("t_us"),
    )  # fmt: skip


def of_duplicates(ledger: DataFrame) -> DataFrame:
    """How many duplicates of a run were born and died where."""
    return (
        ledger.where(F.col("what") == "duplicate")
        .groupBy("run", "born", "died")
        .count()
        .select("run", "born", "died", "count")
    )


def of_uplinks(accounts: DataFrame) -> DataFrame:
    """How many uplinks of a run were accepted, were `delivered`, and had effects.

    Of those with a consumer: `once` had one effect at each consumer, `copies` at some consumer one
    for each of several messages, `more` one message that had several, `never` none at some.
    """
    has_consumer = F.col("consumer").isNotNull()
    once = (F.col("effects") == 1) | ((F.col("effects") == 0) & F.col("is_shared"))
    per_uplink = (
        accounts.where(F.col("accepted") > 0)
        .groupBy("run", "case", "which")
        .agg(
            F.max(F.col("delivered") > 0).alias("delivered"),
            F.max(has_consumer).alias("consumed"),
            F.min(once).alias("once"),
            F.max(F.col("effects") > F.col("ids")).alias("more"),
            F.max((F.col("effects") == 0) & ~F.col("is_shared")).alias("never"),
        )
    )
    with_consumer = F.col("consumed")
    counted = {
        "delivered": F.col("delivered"),
        "consumed": with_consumer,
        "once": with_consumer & F.col("once"),
        "more": with_consumer & F.col("more"),
        "never": with_consumer & F.col("never") & ~F.col("more"),
        "copies": with_consumer & ~F.col("once") & ~F.col("more") & ~F.col("never"),
    }
    return (
        per_uplink.groupBy("run")
        .agg(
            F.count("*").alias("uplinks"),
            *(F.count(F.when(is_so, 1)).alias(name) for name, is_so in counted.items()),
        )
        .select("run", "uplinks", *counted)
    )
