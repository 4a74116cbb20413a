"""Does the ledger close: delivered at least once, one effect of each message, none of nothing?

Each disagreement stands in the report with its owner, and decides no verdict: what a scenario
expects of effects does that. An effect that a scenario says is due twice is no disagreement.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.owner import Owner

NEVER_DELIVERED = "accepted but never delivered"
NEVER_DECIDED = "delivered but never decided"
NO_EFFECT = "accepted without effect"
EFFECT_TWICE = "effect twice"
EFFECT_OF_NOTHING = "effect of nothing accepted"
IGNORED_AS_NEW = "ignored though never accepted before"
RULES = (
    NEVER_DELIVERED, NEVER_DECIDED, NO_EFFECT, EFFECT_TWICE, EFFECT_OF_NOTHING, IGNORED_AS_NEW,
)  # fmt: skip


def open_entries(accounts: DataFrame) -> DataFrame:
    """The places where the books stay open: night, run, case, rule, owner, text and t_us."""
    wrong = F.concat(
        _never_delivered(),
        _never_decided(),
        _no_effect(),
        _effect_twice(),
        _effect_of_nothing(),
        _ignored_as_new(),
    )
    return accounts.select("night", "run", "case", F.inline(wrong))


def _never_delivered() -> Column:
    """The network server let it through, and the broker never had it."""
    is_first = F.coalesce(F.col("consumer") == F.get("consumers", F.lit(0)), F.lit(True))
    broken = is_first & (F.col("accepted") > 0) & (F.col("delivered") == 0)
    return _rows(_where(broken, F.array("which")), NEVER_DELIVERED, Owner.LNS)


def _never_decided() -> Column:
    """The broker had it, and the consumer said nothing of it."""
    said = F.transform("arrivals", lambda one: one["message_id"])
    said = F.concat(said, F.transform("decided", lambda one: one["message_id"]))
    messages = F.array_distinct(F.transform("messages", lambda one: one["message_id"]))
    missing = F.filter(messages, lambda one: ~F.array_contains(said, one))
    has_consumer = F.coalesce(F.col("consumer").isNotNull() & ~_as_due(), F.lit(False))
    return _rows(_where(has_consumer, missing), NEVER_DECIDED, Owner.BROKER)


def _no_effect() -> Column:
    """The consumer says that it accepted it, and the application does not have it."""
    had = F.transform("own", lambda one: one["position"])
    missing = F.filter(
        "decided",
        lambda one: (one["kind"] == "inbox.accepted") & ~F.array_contains(had, one["position"]),
    )
    return _rows(_ids(missing), NO_EFFECT, Owner.APPLICATION)


def _effect_twice() -> Column:
    """One message had several effects at a consumer, and no scenario says so."""
    ids = _ids(F.col("own"))
    twice = F.filter(
        F.array_distinct(ids), lambda one: F.size(F.filter(ids, lambda other: other == one)) > 1
    )
    return _rows(_where(~_as_due(), twice), EFFECT_TWICE, Owner.APPLICATION)


def _effect_of_nothing() -> Column:
    """The application has what the broker never had, or what no network server accepted."""
    messages = _ids(F.col("messages"))
    missing = F.filter(
        F.array_distinct(_ids(F.col("own"))), lambda one: ~F.array_contains(messages, one)
    )
    nobody = F.col("is_uplink") & (F.col("accepted") == 0) & (F.size("own") > 0)
    published = F.exists("messages", lambda one: one["kind"] == "upstream.published")
    refused = _where(nobody & published, F.array("which"))
    return F.concat(
        _rows(missing, EFFECT_OF_NOTHING, Owner.APPLICATION),
        _rows(refused, EFFECT_OF_NOTHING, Owner.LNS),
    )


def _ignored_as_new() -> Column:
    """The consumer ignored it for a message that had no effect, or was another one."""

    def first(entry: Column) -> Column:
        own = F.filter(entry["first"], lambda one: one["consumer"] == F.col("consumer"))
        return F.when(F.size(own) > 0, own).when(F.size(own) == 0, entry["first"])

    def same(entry: Column, before: Column) -> Column:
        same_id = before["message_id"] == entry["message_id"]
        # An effect that no consumer told of names no key.
        same_key = F.coalesce(before["key"] == entry["key"], F.lit(False)) | ~F.exists(
            entry["first"], lambda one: one["key"].isNotNull()
        )
        by = entry["by"]
        return (
            F.when(by == "window", same_id)
            .when(by == "key", same_key)
            .when(by == "sequence", F.lit(True))
        )

    wrong = F.filter(
        "decided",
        lambda entry: (
            entry["first_position"].isNotNull()
            & ~F.coalesce(F.exists(first(entry), lambda before: same(entry, before)), F.lit(False))
        ),
    )
    return _rows(_ids(wrong), IGNORED_AS_NEW, Owner.APPLICATION)


def _as_due() -> Column:
    """Whether a scenario said how many effects these messages have here, and is right."""
    here = F.filter(
        "due",
        lambda one: F.coalesce(one["consumer"] == F.col("consumer"), F.lit(True)),
    )
    holds = F.forall(here, lambda one: one["count"] == one["observed"])
    return F.coalesce((F.size(here) > 0) & holds, F.lit(False))


def _ids(entries: Column) -> Column:
    return F.transform(entries, lambda one: one["message_id"])


def _where(condition: Column, ids: Column) -> Column:
    return F.filter(ids, lambda _: condition)


def _rows(ids: Column, rule: str, owner: str) -> Column:
    """One disagreement for each of these messages."""
    at = F.coalesce(F.concat(F.lit(" at "), F.col("consumer")), F.lit(""))
    t_us = F.coalesce(
        "accepted_us", F.get("messages", F.lit(0))["t_us"], F.get("own", F.lit(0))["t_us"]
    )
    return F.transform(
        ids,
        lambda one: F.struct(
            F.lit(rule).alias("rule"),
            F.lit(owner).alias("owner"),
            F.concat(one, at).alias("text"),
            t_us.alias("t_us"),
        ),
    )
