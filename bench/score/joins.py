"""Which join requests are accepted? A DevNonce is used once, whichever server hears it."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from bench.score.level1 import NON_DUPLICATE


def with_joins(rows: DataFrame, *, order: tuple[str, ...]) -> DataFrame:
    """Whether a join is accepted, by the DevNonces that all servers together have accepted.

    nonce_used: this one was, or (LoRaWAN 1.0.4) a greater one; nonce_doubtful: nobody can tell,
    because the store was lost when it was to be used; accepts_join and foreign_join_eui.
    """
    of_device = Window.partitionBy("dev_eui_no", "run", "case", "is_join", "reaches")
    of_nonce = Window.partitionBy("dev_nonce", "dev_eui_no", "run", "case", "is_join", "reaches")
    before_of = of_device.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    before = of_nonce.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    # A join with a foreign JoinEUI is refused, and its DevNonce remains unused.
    own = F.coalesce(F.col("join_eui") == F.col("device.join_eui"), F.lit(True))
    accepted = (F.col("status") == NON_DUPLICATE) & own & ~F.col("lost")
    taken = F.when(accepted, F.col("dev_nonce"))
    is_counter = F.col("device.lorawan") == "1.0.4"
    used = (F.count(taken).over(before) > 0) | (
        is_counter & (F.col("dev_nonce") <= F.max(taken).over(before_of))
    )
    lost = F.max(F.when(F.col("lost"), F.col("dev_nonce"))).over(before_of)
    doubtful = lost >= F.col("dev_nonce")
    said = (F.col("outcome.status") == NON_DUPLICATE) & F.col("outcome.reason").isNull()
    accepts = F.when(F.col("nonce_doubtful"), said).when(
        ~F.col("nonce_doubtful"), accepted & ~F.col("nonce_used")
    )
    return (
        rows.withColumns(
            {
                "foreign_join_eui": ~own,
                "nonce_used": F.coalesce(used, F.lit(False)),
                "nonce_doubtful": F.coalesce(doubtful, F.lit(False)),
            }
        )
        .withColumn(
            "accepts_join",
            F.coalesce(F.col("is_join") & F.col("reaches") & accepts, F.lit(False)),
        )
        .select("*")
    )
