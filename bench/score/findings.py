"""Who disagrees with whom, about what, and what follows for the case?

A finding has an owner (LNS, gateway, device, air or bench) and a `result`: FAIL or INCONCLUSIVE
where it decides the verdict of its case, null where it only stands in the report, as the
disagreements of the oracle, the laws between servers and stations that cannot answer do.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.inspection.found import FINDING
from bench.score import between_servers, conservation
from bench.score.answers import (
    unsaid,
    wrong_answers,
    wrong_bodies,
    wrong_evictions,
    wrong_statuses,
    wrong_windows,
)
from bench.score.closing import open_entries
from bench.score.effects import wrong_effects
from bench.score.expectations import (
    expected_answers,
    expected_bodies,
    expected_evictions,
    expected_lines,
    expected_statuses,
    expected_windows,
    said_lines,
)
from bench.score.finding import FAIL, INCONCLUSIVE, finding_rows
from bench.score.oracle import oracle_sentence, told_sentence
from bench.score.read import night, of_kind
from bench.score.scores import Grade

_AIR = (Grade.NOT_DELIVERED, Grade.OTHER_STATION, Grade.NOT_EXPECTED)


def findings(
    lines: DataFrame,
    matched: DataFrame,
    outcomes: DataFrame,
    published: DataFrame,
    dnmsgs: DataFrame,
    scores: DataFrame,
    judged: DataFrame,
    due_effects: DataFrame,
    accounts: DataFrame,
) -> DataFrame:
    """Every disagreement between expectation, network server, oracle and the books."""
    names = station_names(lines)
    due_lines = unsaid(expected_lines(lines), said_lines(lines), dnmsgs)
    parts = (
        of_inspection(lines),
        of_scores(scores, names),
        of_lines(due_lines),
        of_bodies(wrong_bodies(expected_bodies(lines), published), names),
        of_windows(wrong_windows(expected_windows(lines), lines)),
        of_answers(wrong_answers(expected_answers(lines), matched, dnmsgs)),
        of_evictions(wrong_evictions(expected_evictions(lines), lines)),
        of_statuses(wrong_statuses(expected_statuses(lines), lines)),
        of_effects(due_effects),
        of_laws(_violations(lines, matched, outcomes, published, dnmsgs), names),
        of_oracle(judged, names),
        of_ledger(accounts),
        of_late_stations(lines, names),
    )
    return reduce(DataFrame.unionAll, parts)


def station_names(lines: DataFrame) -> DataFrame:
    """One row per case: a map from the EUI of a station to its name."""
    return (
        of_kind(lines, "case.station")
        .groupBy("run", "case", "eui")
        .agg(F.first("name").alias("name"))
        .groupBy("run", "case")
        .agg(F.map_from_entries(F.collect_list(F.struct("eui", "name"))).alias("names"))
        .select("run", "case", "names")
    )


def of_inspection(lines: DataFrame) -> DataFrame:
    """What the bench found wrong while it had the keys: fields of downlinks, joins, messages."""
    facts = ("frame_id", "station", "expected", "observed", "t_us")
    return finding_rows(
        of_kind(lines, FINDING).where(F.col("case").isNotNull()),
        owner=F.col("owner"),
        rule=F.col("rule"),
        text=F.col("text"),
        result=FAIL,
        phase=-1,
        place=F.col("seq"),
        **{name: F.col(name) for name in facts},
    )


def of_scores(scores: DataFrame, names: DataFrame) -> DataFrame:
    """Receptions whose words differ from what was due, and stimuli that were not delivered."""
    grade, due, heard = F.col("grade"), _name("due_station"), _name("heard_station")
    where = F.format_string("%s #%d", "frame_id", "copy")
    observed = F.coalesce("observed", F.lit("no outcome"))
    of_air = grade.isin(*(word.value for word in _AIR))
    text = (
        F.when(
            grade == Grade.NOT_EXPECTED,
            F.format_string("%s: %s heard it and was not to", where, heard),
        )
        .when(
            of_air,
            F.format_string(
                "%s: %s was to hear it, %s did", where, due, F.coalesce(heard, F.lit("nobody"))
            ),
        )
        .otherwise(
            F.format_string(
                "%s through %s: expected %s, observed %s", where, heard, "due", observed
            )
        )
    )
    return finding_rows(
        _named(scores.where(grade != Grade.AGREES.value), names),
        owner=F.when(of_air, "air").otherwise("LNS"),
        rule=F.when(of_air, "stimulus").otherwise("expectation"),
        text=text,
        result=F.when(of_air, INCONCLUSIVE).otherwise(FAIL),
        phase=0,
        place=F.coalesce("due_seq", F.lit(1 << 62)),
        frame_id=F.col("frame_id"),
        station=F.coalesce("heard_station", "due_station"),
        n=F.col("copy"),
        expected=F.col("due"),
        observed=F.col("observed"),
        t_us=F.col("t_us"),
    )


def of_lines(unsaid: DataFrame) -> DataFrame:
    """Lines that a device did not say: its own fault if a station was told to answer it."""
    return finding_rows(
        unsaid,
        owner=F.when(F.col("answered"), "device").otherwise("LNS"),
        rule="device line",
        text=F.format_string("device %s did not say '%s'", "dev_eui", "line"),
        result=FAIL,
        phase=2,
        place=F.col("seq") * 1000 + F.col("nth"),
        expected=F.col("line"),
    )


def of_bodies(wrong: DataFrame, names: DataFrame) -> DataFrame:
    """Messages that the application got with other content than due."""
    text = F.format_string(
        "message %s through %s: expected %s %s, observed %s",
        "message_id",
        _name("station"),
        "field",
        F.coalesce("due", F.lit("null")),
        F.coalesce("observed", F.lit("null")),
    )
    return finding_rows(
        _named(wrong, names),
        owner="LNS",
        rule="message",
        text=text,
        result=FAIL,
        phase=3,
        place=F.col("seq"),
        station=F.col("station"),
        expected=F.col("due"),
        observed=F.col("observed"),
    )


def of_windows(wrong: DataFrame) -> DataFrame:
    """Answers that a gateway put on the air in other windows than due."""
    due, observed = (
        F.when(F.size(windows) == 0, F.lit("none")).otherwise(F.array_join(windows, ", "))
        for windows in ("due", "observed")
    )
    return finding_rows(
        wrong,
        owner="gateway",
        rule="window on the air",
        text=F.format_string(
            "answers to %s on the air: expected %s, observed %s", "frame_id", due, observed
        ),
        result=FAIL,
        phase=4,
        place=F.col("seq"),
        frame_id=F.col("frame_id"),
        expected=due,
        observed=observed,
    )


def of_answers(wrong: DataFrame) -> DataFrame:
    """Answers that said something else than due, or were never sent."""
    due, observed = (F.coalesce(value, F.lit("null")) for value in ("due", "observed"))
    told = F.when(
        F.col("sent"), F.format_string("expected %s %s, observed %s", "field", due, observed)
    ).otherwise("none was sent")
    return finding_rows(
        wrong,
        owner="LNS",
        rule="answer",
        text=F.format_string("answer %d to %s: %s", "n", "frame_id", told),
        result=FAIL,
        phase=3,
        place=F.col("seq") * 100 + F.col("pos"),
        frame_id=F.col("frame_id"),
        n=F.col("n"),
        expected=due,
        observed=observed,
    )


def of_effects(due_effects: DataFrame) -> DataFrame:
    """Messages that had another number of effects, or were ignored as often, than due."""
    return finding_rows(
        wrong_effects(due_effects),
        owner="application",
        rule="effect",
        text=F.col("text"),
        result=FAIL,
        phase=5,
        place=F.col("seq"),
        expected=F.col("count"),
        observed=F.col("observed"),
    )


def of_statuses(wrong: DataFrame) -> DataFrame:
    """Devices of which the application was not told the status as often as due."""
    due, observed = (F.format_string("%d times", number) for number in ("due", "observed"))
    return finding_rows(
        wrong,
        owner="LNS",
        rule="status of a device",
        text=F.format_string("status of %s: expected %s, observed %s", "dev_eui", due, observed),
        result=FAIL,
        phase=4,
        place=F.col("seq"),
        expected=due,
        observed=observed,
    )


def of_evictions(wrong: DataFrame) -> DataFrame:
    """Cases in which level 1 forgot frames before their time, or did not tell, unlike due."""
    due, observed = (F.format_string("%d", number) for number in ("due", "observed"))
    return finding_rows(
        wrong,
        owner="LNS",
        rule="evictions",
        text=F.format_string("frames forgotten too early: expected %s, observed %s", due, observed),
        result=FAIL,
        phase=3,
        place=F.col("seq"),
        expected=due,
        observed=observed,
    )


def of_laws(violations: DataFrame, names: DataFrame) -> DataFrame:
    """Violations of conservation laws."""
    rule = F.col("rule")
    through = F.coalesce(F.concat(F.lit(" ("), _name("station"), F.lit(")")), F.lit(""))
    facts = ("frame_id", "station", "expected", "observed", "t_us")
    return finding_rows(
        _named(violations.withColumn("night", night()), names),
        owner="LNS",
        rule=rule,
        text=F.concat(rule, F.lit(": "), F.col("text"), through),
        result=F.when(~rule.isin(*between_servers.RULES), FAIL),
        phase=1,
        place=F.col("t_us"),
        **{name: F.col(name) for name in facts},
    )


def of_late_stations(lines: DataFrame, names: DataFrame) -> DataFrame:
    """Stations that could not answer what they heard first, several times in a row."""
    rows = (
        of_kind(lines, "lns.too_late")
        .where((F.col("stage") == "going on") & F.col("case").isNotNull())
        .groupBy("night", "run", "case", "station")
        .agg(
            F.max("n").alias("n"),
            F.max_by("cause", "n").alias("cause"),
            F.min("t_us").alias("t_us"),
        )
    )
    text = F.format_string(
        "%s cannot answer what it hears first: %d TooLate in a row, at last because %s",
        _name("station"), "n", "cause",
    )  # fmt: skip
    return finding_rows(
        _named(rows, names),
        owner="gateway",
        rule="too late",
        text=text,
        result=None,
        phase=7,
        place=F.col("t_us"),
        station=F.col("station"),
        n=F.col("n"),
        t_us=F.col("t_us"),
    )


def of_oracle(judged: DataFrame, names: DataFrame) -> DataFrame:
    """Receptions on which the network server and the oracle differ."""
    observed = told_sentence()
    status, done, level2 = (F.col(f"{what}_agrees") for what in ("status", "disposition", "level2"))
    rule = (
        F.when(~status, "oracle status")
        .when(~level2, "oracle level 2")
        .otherwise("oracle disposition")
    )
    differs = F.col("told") & ~(status & done & level2) & F.col("unknowable").isNull()
    text = F.format_string(
        "%s through %s: the oracle says %s, observed %s",
        F.coalesce("frame_id", F.lit("an unreadable text")), _name("station"), oracle_sentence(),
        observed,
    )  # fmt: skip
    return finding_rows(
        _named(judged.where(differs & F.col("case").isNotNull()), names),
        owner="LNS",
        rule=rule,
        text=text,
        result=None,
        phase=7,
        place=F.col("t_us"),
        frame_id=F.col("frame_id"),
        station=F.col("station"),
        n=F.col("copy"),
        expected=oracle_sentence(),
        observed=observed,
        t_us=F.col("t_us"),
    )


def of_ledger(accounts: DataFrame) -> DataFrame:
    """Where the ledger between acceptance and effect stays open."""
    return finding_rows(
        open_entries(accounts),
        owner=F.col("owner"),
        rule=F.col("rule"),
        text=F.concat("rule", F.lit(": "), "text"),
        result=None,
        phase=8,
        place=F.col("t_us"),
        t_us=F.col("t_us"),
    )


def _violations(
    lines: DataFrame,
    matched: DataFrame,
    outcomes: DataFrame,
    published: DataFrame,
    dnmsgs: DataFrame,
) -> DataFrame:
    downlinks = conservation.downlinks(lines)
    passed = conservation.passed(dnmsgs)
    lost = conservation.lost_links(lines)
    laws = (
        conservation.one_outcome_per_reception(matched),
        conservation.forwarded_means_published(outcomes, published),
        conservation.one_message_per_id(published, lines),
        conservation.one_answer_per_reception(outcomes, downlinks, passed, lost),
        conservation.scheduled_means_handed_over(downlinks, dnmsgs, lost),
        conservation.answer_through_the_station_that_heard(matched, passed),
        conservation.nothing_accepted_that_nobody_sent(outcomes, lines),
        conservation.no_downlink_counter_twice(downlinks),
        between_servers.violations(lines, outcomes, published),
    )
    return reduce(DataFrame.unionByName, laws)


def _name(station: str) -> Column:
    """The name of a station for people."""
    return F.coalesce(F.col("names")[F.col(station)], F.col(station))


def _named(rows: DataFrame, names: DataFrame) -> DataFrame:
    return rows.join(F.broadcast(names), on=["run", "case"], how="left")
