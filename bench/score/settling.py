"""How did the races come out that a scenario let several stations run?

Stations that deliver a frame at one moment may come in any order, and whichever of them gets which
of the words that are due is right. A race is settled before anything is judged, as the plain-Python
verdict does it: the receptions, in order of their words, get the words that are due, in order too.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_DUE = ("due", "due_status", "due_words")


def settled(rows: DataFrame) -> DataFrame:
    """Expectations beside receptions, each race with the stations and words it came out with.

    Without the stations of the race at its places nothing is settled, and its rows stay.
    """
    of_race = Window.partitionBy("race", "frame_id", "run", "case")
    ran = F.sort_array(F.collect_list("heard_station").over(of_race))
    were_to = F.sort_array(F.collect_list("due_station").over(of_race))
    in_order = F.sort_array(F.collect_list(F.struct("due", "copy", *_DUE[1:])).over(of_race))
    observed = F.when(F.col("told"), F.col("observed"))
    rank = F.row_number().over(of_race.orderBy(F.coalesce(observed, F.lit("")), "copy"))
    is_settled = F.col("race").isNotNull() & (F.col("ran") == F.col("were_to"))
    words = F.get("in_order", F.col("rank") - 1)
    return (
        rows.withColumns({"ran": ran, "were_to": were_to, "in_order": in_order, "rank": rank})
        .withColumn("is_settled", F.coalesce(is_settled, F.lit(False)))
        .withColumns(
            {
                "due_station": F.when(F.col("is_settled"), F.col("heard_station")).when(
                    ~F.col("is_settled"), F.col("due_station")
                ),
                **{
                    name: F.when(F.col("is_settled"), words[name]).when(
                        ~F.col("is_settled"), F.col(name)
                    )
                    for name in _DUE
                },
            }
        )
        .select(*rows.columns)
    )
