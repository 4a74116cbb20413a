"""Who disagrees with whom, about what, and what follows for the case?

A finding has an owner (LNS, gateway, device, air or bench) and a `result`: FAIL or INCONCLUSIVE
where it decides the verdict of its case, null where it only stands in the report, as the
disagreements of the oracle, the laws between servers and stations that cannot answer do.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.score import between_servers, conservation
from bench.score.answers import unsaid, wrong_bodies, wrong_statuses, wrong_windows
from bench.score.application import of_effects, of_ledger
from bench.score.expectations import (
    expected_bodies,
    expected_lines,
    expected_statuses,
    expected_windows,
    said_lines,
)
from bench.score.finding import COLUMNS, FAIL, INCONCLUSIVE, nothing
from bench.score.oracle import oracle_sentence, told_sentence
from bench.score.read import night
from bench.score.scores import Grade

_AIR = (Grade.NOT_DELIVERED, Grade.OTHER_STATION, Grade.NOT_EXPECTED)
_LNS = (Grade.DIFFERS, Grade.NO_OUTCOME)


def findings(
    lines: DataFrame,
    matched: DataFrame,
    outcomes: DataFrame,
    scores: DataFrame,
    judged: DataFrame,
    due_effects: DataFrame,
    accounts: DataFrame,
) -> DataFrame:
    """Every disagreement between expectation, network server, oracle and the books."""
    names = station_names(lines)
    due_lines = unsaid(expected_lines(lines), said_lines(lines), conservation.downlinks(lines))
    parts = (
        of_scores(scores, names),
        of_lines(due_lines),
        of_bodies(wrong_bodies(expected_bodies(lines), conservation.published(lines)), names),
        of_windows(wrong_windows(expected_windows(lines), lines)),
        of_statuses(wrong_statuses(expected_statuses(lines), lines)),
        of_effects(due_effects),
        of_laws(_violations(lines, matched, outcomes), names),
        of_oracle(judged, names),
        of_ledger(accounts),
        of_late_stations(lines, names),
    )
    return reduce(DataFrame.unionByName, parts).select(*COLUMNS)


def station_names(lines: DataFrame) -> DataFrame:
    """One row per case: a map from the EUI of a station to its name."""
    return (
        lines.where(F.col("kind") == "case.station")
        .groupBy("run", "case", "eui")
        .agg(F.first("name").alias("name"))
        .groupBy("run", "case")
        .agg(F.map_from_entries(F.collect_list(F.struct("eui", "name"))).alias("names"))
        .select("run", "case", "names")
    )


def of_scores(scores: DataFrame, names: DataFrame) -> DataFrame:
    """Receptions whose words differ from what was due, and stimuli that were not delivered."""
    grade, due, heard = F.col("grade"), _name("due_station"), _name("heard_station")
    where = F.format_string("%s #%d", "frame_id", "copy")
    observed = F.coalesce("observed", F.lit("no outcome"))
    text = (
        F.when(
            grade == Grade.NOT_EXPECTED,
            F.format_string("%s: %s heard it and was not to", where, heard),
        )
        .when(
            grade.isin(Grade.NOT_DELIVERED.value, Grade.OTHER_STATION.value),
            F.format_string(
                "%s: %s was to hear it, %s did", where, due, F.coalesce(heard, F.lit("nobody"))
            ),
        )
        .when(
            grade.isin(*(word.value for word in _LNS)),
            F.format_string(
                "%s through %s: expected %s, observed %s", where, heard, "due", observed
            ),
        )
    )
    of_air = grade.isin(*(word.value for word in _AIR))
    return (
        scores.where(grade != Grade.AGREES.value)
        .join(F.broadcast(names), on=["run", "case"], how="left")
        .select(
            "night",
            "run",
            "case",
            F.when(of_air, "air").when(~of_air, "LNS").alias("owner"),
            F.when(of_air, "stimulus").when(~of_air, "expectation").alias("rule"),
            "frame_id",
            F.coalesce("heard_station", "due_station").alias("station"),
            F.col("copy").alias("n"),
            F.col("due").alias("expected"),
            "observed",
            "t_us",
            text.alias("text"),
            F.when(of_air, INCONCLUSIVE).when(~of_air, FAIL).alias("result"),
            F.lit(0).alias("phase"),
            F.coalesce("due_seq", F.lit(1 << 62)).alias("place"),
        )
    )


def of_lines(unsaid: DataFrame) -> DataFrame:
    """Lines that a device did not say: its own fault when it was answered, else the LNS's."""
    answered = F.col("answered")
    return unsaid.select(
        "night",
        "run",
        "case",
        F.when(answered, "device").when(~answered, "LNS").alias("owner"),
        F.lit("device line").alias("rule"),
        nothing("string").alias("frame_id"),
        nothing("string").alias("station"),
        nothing("int").alias("n"),
        F.col("line").alias("expected"),
        nothing("string").alias("observed"),
        nothing("bigint").alias("t_us"),
        F.format_string("device %s did not say '%s'", "dev_eui", "line").alias("text"),
        F.lit(FAIL).alias("result"),
        F.lit(1).alias("phase"),
        (F.col("seq") * 1000 + F.col("nth")).alias("place"),
    )


def of_bodies(wrong: DataFrame, names: DataFrame) -> DataFrame:
    """Messages that the application got with other content than due."""
    told = F.format_string(
        "message %s through %s: expected %s %s, observed %s",
        "message_id",
        _name("station"),
        "field",
        F.coalesce("due", F.lit("null")),
        F.coalesce("observed", F.lit("null")),
    )
    return wrong.join(F.broadcast(names), on=["run", "case"], how="left").select(
        "night",
        "run",
        "case",
        F.lit("LNS").alias("owner"),
        F.lit("message").alias("rule"),
        nothing("string").alias("frame_id"),
        "station",
        nothing("int").alias("n"),
        F.col("due").alias("expected"),
        "observed",
        nothing("bigint").alias("t_us"),
        told.alias("text"),
        F.lit(FAIL).alias("result"),
        F.lit(2).alias("phase"),
        F.col("seq").alias("place"),
    )


def of_windows(wrong: DataFrame) -> DataFrame:
    """Answers that a gateway put on the air in other windows than due."""
    due, observed = (
        F.when(F.size(windows) == 0, F.lit("none")).when(
            F.size(windows) > 0, F.array_join(windows, ", ")
        )
        for windows in ("due", "observed")
    )
    return wrong.select(
        "night",
        "run",
        "case",
        F.lit("gateway").alias("owner"),
        F.lit("window on the air").alias("rule"),
        "frame_id",
        nothing("string").alias("station"),
        nothing("int").alias("n"),
        due.alias("expected"),
        observed.alias("observed"),
        nothing("bigint").alias("t_us"),
        F.format_string(
            "answers to %s on the air: expected %s, observed %s", "frame_id", due, observed
        ).alias("text"),
        F.lit(FAIL).alias("result"),
        F.lit(3).alias("phase"),
        F.col("seq").alias("place"),
    )


def of_statuses(wrong: DataFrame) -> DataFrame:
    """Devices of which the application was not told the status as often as due."""
    due, observed = (F.format_string("%d times", number) for number in ("due", "observed"))
    return wrong.select(
        "night",
        "run",
        "case",
        F.lit("LNS").alias("owner"),
        F.lit("status of a device").alias("rule"),
        nothing("string").alias("frame_id"),
        nothing("string").alias("station"),
        nothing("int").alias("n"),
        due.alias("expected"),
        observed.alias("observed"),
        nothing("bigint").alias("t_us"),
        F.format_string("status of %s: expected %s, observed %s", "dev_eui", due, observed).alias(
            "text"
        ),
        F.lit(FAIL).alias("result"),
        F.lit(3).alias("phase"),
        F.col("seq").alias("place"),
    )


def of_laws(violations: DataFrame, names: DataFrame) -> DataFrame:
    """Violations of conservation laws."""
    rule, name = F.col("rule"), _name("station")
    through = F.coalesce(F.concat(F.lit(" ("), name, F.lit(")")), F.lit(""))
    return violations.join(F.broadcast(names), on=["run", "case"], how="left").select(
        night().alias("night"),
        "run",
        "case",
        F.lit("LNS").alias("owner"),
        "rule",
        "frame_id",
        "station",
        nothing("int").alias("n"),
        "expected",
        "observed",
        "t_us",
        F.concat(rule, F.lit(": "), F.col("text"), through).alias("text"),
        F.when(~rule.isin(*between_servers.RULES), FAIL).alias("result"),
        F.lit(5).alias("phase"),
        F.col("t_us").alias("place"),
    )


def of_late_stations(lines: DataFrame, names: DataFrame) -> DataFrame:
    """Stations that could not answer what they heard first, several times in a row."""
    rows = (
        lines.where((F.col("kind") == "lns.too_late") & (F.col("stage") == "going on"))
        .where(F.col("case").isNotNull())
        .groupBy("run", "case", "station")
        .agg(
            F.max("n").alias("n"),
            F.max_by("cause", "n").alias("cause"),
            F.min("t_us").alias("t_us"),
        )
    )
    return rows.join(F.broadcast(names), on=["run", "case"], how="left").select(
        night().alias("night"),
        "run",
        "case",
        F.lit("gateway").alias("owner"),
        F.lit("too late").alias("rule"),
        nothing("string").alias("frame_id"),
        "station",
        F.col("n").cast("int").alias("n"),
        nothing("string").alias("expected"),
        nothing("string").alias("observed"),
        "t_us",
        F.format_string(
            "%s cannot answer what it hears first: %d TooLate in a row, at last because %s",
            _name("station"), "n", "cause",
        ).alias("text"),
        nothing("string").alias("result"),
        F.lit(7).alias("phase"),
        F.col("t_us").alias("place"),
    )  # fmt: skip


def of_oracle(judged: DataFrame, names: DataFrame) -> DataFrame:
    """Receptions on which the network server and the oracle differ."""
    observed = told_sentence()
    status, done = F.col("status_agrees"), F.col("disposition_agrees")
    agrees = status & done & F.col("level2_agrees")
    rule = (
        F.when(~status, "oracle status")
        .when(~F.col("level2_agrees"), "oracle level 2")
        .when(~done, "oracle disposition")
    )
    frame = F.coalesce("frame_id", F.lit("an unreadable text"))
    return (
        judged.where(F.col("told") & ~agrees & F.col("unknowable").isNull())
        .where(F.col("case").isNotNull())
        .join(F.broadcast(names), on=["run", "case"], how="left")
        .select(
            "night",
            "run",
            "case",
            F.lit("LNS").alias("owner"),
            rule.alias("rule"),
            "frame_id",
            "station",
            F.col("copy").alias("n"),
            oracle_sentence().alias("expected"),
            observed.alias("observed"),
            "t_us",
            F.format_string(
                "%s through %s: the oracle says %s, observed %s",
                frame, _name("station"), oracle_sentence(), observed,
            ).alias("text"),
            nothing("string").alias("result"),
            F.lit(7).alias("phase"),
            F.col("t_us").alias("place"),
        )
    )  # fmt: skip


def _violations(lines: DataFrame, matched: DataFrame, outcomes: DataFrame) -> DataFrame:
    published = conservation.published(lines)
    downlinks = conservation.downlinks(lines)
    passed = conservation.passed(lines)
    laws = (
        conservation.one_outcome_per_reception(matched),
        conservation.forwarded_means_published(outcomes, published),
        conservation.one_message_per_id(published, lines),
        conservation.one_answer_per_reception(outcomes, downlinks, passed),
        conservation.answer_through_the_station_that_heard(matched, passed),
        conservation.nothing_accepted_that_nobody_sent(outcomes, lines),
        conservation.no_downlink_counter_twice(downlinks),
        between_servers.violations(lines, outcomes, published),
    )
    return reduce(DataFrame.unionByName, laws)


def _name(station: str) -> Column:
    """The name of a station for people."""
    return F.coalesce(F.col("names")[F.col(station)], F.col(station))
