"""What did the scenarios say was due?"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.outcomes import WORDS
from bench.score.read import ARRIVAL, of_kind

_DUE = (*WORDS, "level2", "race")


def expectations(lines: DataFrame) -> DataFrame:
    """One row per reception that is due: `copy` counts those of a frame in a case from 0.

    `level2` is null where that word is not asked about; rows of one `race` are due at one moment.
    """
    of_frame = Window.partitionBy("frame_id", "run", "case").orderBy("seq")
    return (
        of_kind(lines, "case.expect")
        .where(F.col("expect") == "outcome")
        .select("night", "run", "case", "frame_id", "station", *_DUE, *ARRIVAL)
        .withColumn("copy", F.row_number().over(of_frame) - 1)
        .select("night", "run", "case", "frame_id", "copy", "station", *_DUE, "seq")
    )


def expected_lines(lines: DataFrame) -> DataFrame:
    """One row per device of a case: the texts it should have said, in order."""
    due = F.sort_array(F.collect_list(F.struct("seq", "line")))
    return (
        of_kind(lines, "case.expect")
        .where(F.col("expect") == "device")
        .groupBy("night", "run", "case", "dev_eui")
        .agg(due.getField("line").alias("due"), F.min("seq").alias("seq"))
        .select("night", "run", "case", "dev_eui", "due", "seq")
    )


def expected_bodies(lines: DataFrame) -> DataFrame:
    """One row per field that every message of an uplink through one station should have."""
    entries = F.from_json("body", "MAP<STRING, STRING>")
    return (
        of_kind(lines, "case.expect")
        .where(F.col("expect") == "upstream")
        .select("night", "run", "case", "dev_eui", "f_cnt", "station", "seq", F.explode(entries))
        .withColumnsRenamed({"key": "field", "value": "due"})
        .select("night", "run", "case", "dev_eui", "f_cnt", "station", "field", "due", "seq")
    )


def expected_answers(lines: DataFrame) -> DataFrame:
    """One row per field that the `n`-th answer to a frame should have."""
    entries = F.from_json("body", "MAP<STRING, STRING>")
    return (
        of_kind(lines, "case.expect")
        .where(F.col("expect") == "answer")
        .select("night", "run", "case", "frame_id", "n", "seq", F.posexplode(entries))
        .withColumnsRenamed({"key": "field", "value": "due"})
        .select("night", "run", "case", "frame_id", "n", "pos", "field", "due", "seq")
    )


def expected_windows(lines: DataFrame) -> DataFrame:
    """One row per frame whose answers on the air are due: their windows, in order."""
    return (
        of_kind(lines, "case.expect")
        .where(F.col("expect") == "on_air")
        .groupBy("night", "run", "case", "frame_id")
        .agg(F.max_by("windows", "seq").alias("due"), F.max("seq").alias("seq"))
        .select("night", "run", "case", "frame_id", "due", "seq")
    )


def expected_evictions(lines: DataFrame) -> DataFrame:
    """One row per case: how often level 1 is to forget a frame before its time."""
    return (
        of_kind(lines, "case.expect")
        .where(F.col("expect") == "evicted")
        .groupBy("night", "run", "case")
        .agg(F.max_by("count", "seq").alias("due"), F.max("seq").alias("seq"))
        .select("night", "run", "case", "due", "seq")
    )


def expected_statuses(lines: DataFrame) -> DataFrame:
    """One row per device of a case: how often the application is to be told its status."""
    return (
        of_kind(lines, "case.expect")
        .where(F.col("expect") == "status")
        .groupBy("night", "run", "case", "dev_eui")
        .agg(F.max_by("count", "seq").alias("due"), F.max("seq").alias("seq"))
        .select("night", "run", "case", "dev_eui", "due", "seq")
    )


def without_signal(line: Column) -> Column:
    """What a device says of a downlink is due without RSSI and SNR; as `bench.evidence` has it."""
    return F.regexp_replace(line, r"^(\+EVT:RX_[0-9A-Z]+):-?[0-9]+:-?[0-9]+:", "$1:")


def said_lines(lines: DataFrame) -> DataFrame:
    """One row per device of a case: every text it said, in order, without RSSI and SNR."""
    said = F.sort_array(F.collect_list(F.struct(*ARRIVAL, "text")))
    return (
        of_kind(lines, "device.line")
        .where(F.col("case").isNotNull())
        .withColumn("text", without_signal(F.col("text")))
        .groupBy("run", "case", "dev_eui")
        .agg(said.getField("text").alias("said"))
        .select("run", "case", "dev_eui", "said")
    )
