"""Is the frame counter of this copy admitted? Counter validation worked out from arrival order.

LoRaWAN 1.0.3, 4.3.1.5 (MAX_FCNT_GAP), ADR 007 and the bench's rule for resubmissions: a counter
that was already accepted is answered again three times, when the frame is confirmed.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.level1 import NON_DUPLICATE, RESUBMISSION, SOFT_DUPLICATE

MAX_GAP = 16384
RESUBMISSIONS_MAX = 3
_HALF = 0x10000
_SESSION = ("dev_eui_no", "session", "run", "case", "reaches", "stale_life")
_NOBODY = -1  # lower than every counter: nothing heard yet


def with_counters(receptions: DataFrame, *, order: tuple[str, ...]) -> DataFrame:
    """Data receptions that reach level 1, with what their counter is worth.

    Adds newer (accepted as the next counter), equal, first_message, spends (asks for one of the
    repeated answers), limited (there is none left), known (the counter can be told from the wire)
    and outlived (a frame of a later session was accepted before).

    A relaxed device lives again with every FCnt 0 or 1 that is not a copy. Within a life the last
    counter is the greatest so far, or the older one that a restart of the server brought back; only
    in a life with a jump beyond MAX_GAP the counters are followed one by one.
    """
    return (
        _with_last(receptions, order)
        .transform(_with_claims)
        .transform(lambda rows: _with_budget(rows, order))
        .transform(lambda rows: _with_later_session(rows, order))
        .select(
            *receptions.columns,
            "last",
            "newer",
            "equal",
            "first_message",
            "spends",
            "limited",
            "known",
            "outlived",
        )
    )


def _with_last(receptions: DataFrame, order: tuple[str, ...]) -> DataFrame:
    """`last`: the newest accepted counter before this row, -1 while there is none."""
    session = Window.partitionBy(*_SESSION).orderBy(*order)
    so_far = session.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    of_life = Window.partitionBy(*_SESSION, "life")
    before = of_life.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    is_new = F.col("status") == NON_DUPLICATE
    # A restart brings back the counters of those sessions only that the server had before.
    of_session = Window.partitionBy(*_SESSION[:-1])
    life_of_data = F.when(~F.col("is_join"), F.col("stale_life"))
    had = F.min(life_of_data).over(of_session) < F.col("stale_life")
    had = had | ((F.col("session") == 0) & F.col("device.f_cnt_up").isNotNull())
    of_stale = F.when(had, F.col("stale"))
    at_start = F.when(F.col("session") == 0, F.col("device.f_cnt_up"))
    preset = F.when(F.col("life") == 0, F.coalesce(of_stale, at_start))
    new_counter = F.when(is_new, F.col("f_cnt"))
    too_far = is_new & (F.col("f_cnt") - F.greatest("greatest", F.lit(0)) > MAX_GAP)
    return (
        receptions.withColumn("first_message", first_message())
        .withColumn("life", F.count(F.when(is_new & F.col("first_message"), 1)).over(so_far))
        .withColumn("preset", F.coalesce(preset, F.lit(_NOBODY)))
        .withColumn(
            "greatest",
            F.greatest("preset", F.coalesce(F.max(new_counter).over(before), F.lit(_NOBODY))),
        )
        .withColumn("jumps", F.max(too_far).over(of_life))
        .withColumn("earlier", F.collect_list(F.when(F.col("jumps"), new_counter)).over(before))
        .withColumn("followed", F.aggregate("earlier", F.col("preset"), _follow))
        .withColumn(
            "last",
            F.when(F.col("jumps"), F.col("followed")).when(~F.col("jumps"), F.col("greatest")),
        )
        .select(*receptions.columns, "first_message", "life", "last")
    )


def first_message() -> Column:
    """FCnt 0 or 1 of a relaxed ABP device: it may have started again."""
    relaxed = (F.col("device.activation") == "abp") & F.col("device.relaxed_f_cnt")
    return F.coalesce(relaxed & (F.col("f_cnt") <= 1), F.lit(False))


def is_next(f_cnt: Column, last: Column) -> Column:
    return (f_cnt > last) & (f_cnt - F.greatest(last, F.lit(0)) <= MAX_GAP)


def _follow(last: Column, f_cnt: Column) -> Column:
    accepted = is_next(f_cnt, last)
    return F.when(accepted, f_cnt).when(~accepted, last)


def _with_claims(rows: DataFrame) -> DataFrame:
    f_cnt, last, status = F.col("f_cnt"), F.col("last"), F.col("status")
    confirmed, first = F.col("confirmed"), F.col("first_message")
    equal = f_cnt == last
    newer = (status == NON_DUPLICATE) & (is_next(f_cnt, last) | first)
    repeated = (status == NON_DUPLICATE) & ~newer & equal
    resubmitted = (status == RESUBMISSION) & (equal | first)
    # The counter on the wire stands for one near the last one, or for itself.
    rolled = F.shiftright(f_cnt, 16) - F.shiftright(last, 16)
    on_wire = f_cnt < _HALF
    known = on_wire | ((last >= 0) & rolled.between(-1, 1) & (F.col("device.f_cnt_bits") != 16))
    return rows.withColumns(
        {
            "equal": equal,
            "newer": newer,
            "spends": (repeated | resubmitted) & confirmed,
            "known": known,
        }
    ).select("*")


def _with_budget(rows: DataFrame, order: tuple[str, ...]) -> DataFrame:
    """`limited`: this counter was repeated three times since the session last went on."""
    before = (
        Window.partitionBy(*_SESSION).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    )
    of_counter = (
        Window.partitionBy(*_SESSION, "steps", "f_cnt")
        .orderBy(*order)
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        rows.withColumn("steps", F.count(F.when(F.col("newer"), 1)).over(before))
        .withColumn("spent", F.count(F.when(F.col("spends"), 1)).over(of_counter))
        .withColumn("limited", F.col("spends") & (F.col("spent") >= RESUBMISSIONS_MAX))
        .select("*")
    )


def _with_later_session(rows: DataFrame, order: tuple[str, ...]) -> DataFrame:
    """`outlived`: a frame of a later session of the device was accepted before this row."""
    before = (
        Window.partitionBy("dev_eui_no", "run", "case")
        .orderBy(*order)
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    newest = F.max(F.when(is_accepted(), F.col("session"))).over(before)
    return rows.withColumn("outlived", F.coalesce(newest > F.col("session"), F.lit(False))).select(
        "*"
    )


def is_accepted() -> Column:
    """Whether a reception is the first one of a frame, and its server takes it."""
    new = F.col("status") == NON_DUPLICATE
    return F.col("reaches") & new & (F.col("newer") | (F.col("spends") & ~F.col("limited")))


def admitted() -> Column:
    """Whether the counter of a copy is admitted, by its status."""
    status = F.col("status")
    soft = (status == SOFT_DUPLICATE) & (F.col("equal") | F.col("first_message"))
    new = (status == NON_DUPLICATE) & (F.col("newer") | F.col("spends"))
    first = F.col("first_message") & ~F.col("confirmed")
    again = (status == RESUBMISSION) & (F.col("spends") | first | F.col("newer"))
    return soft | new | again


def asks_level2(of: Callable[[str], Column] = F.col) -> Column:
    """Whether a copy gets so far that its owner matters; `of` names the facts of its row.

    ADR 007: what is a Duplicate or a SoftDuplicate within one server is asked about by none. A
    resubmission that is neither forwarded nor answered is not either.
    """
    first = (of("status") == RESUBMISSION) & of("first_message") & ~of("confirmed")
    repeated = of("spends") & ~of("limited")
    return of("newer") | repeated | (first & (of("strategy") != "Drop"))
