"""Which servers raced for a frame, and who came first?

Arrivals tell who claims first, but for those so close together that the way from the tap to the
store decides. Two receptions race if they are of one session, at different servers, and at most
RACE_US apart. Who was first in a race is then taken from the claims, which is not circular: it
settles an order between two events that the wires left open, and nothing else. Still exactly one
server has to own the frame, and what all others do with it, and with every later frame, has to
follow from that. If none says that it owns the frame, or more than one, arrivals count again, and
the claims are found to be wrong.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

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
    bound_us = F.when(F.col("store_fault"), F.lit(_DISTURBED_US)).when(
        ~F.col("store_fault"), F.lit(RACE_US)
    )
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


def _says_it_is_first() -> Column:
    """The server says that it owns the frame, or that it accepted the join."""
    joined = F.col("is_join") & F.col("outcome.reason").isNull()
    joined = joined & (F.col("outcome.status") == "NonDuplicate")
    return F.coalesce((F.col("observed_level2") == "Owner") | joined, F.lit(False))
