"""What should have become of each reception?

Worked out from the receptions and the facts of a case with window functions, without a look at what
the network server did, and without a line of its code. Where several servers share devices, their
sessions are followed one by one (`bench.score.level2`), each server's level 1 and counters for
itself. A few things cannot be known from receptions: what an upstream that failed did to a frame,
what a full level 1 forgot, what a server missed while its store was away; such rows carry the
reason in `unknowable` and count neither as agreement nor as disagreement.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.score.counters import admitted, asks_level2, with_counters
from bench.score.facts import RETENTION_US, addresses, devices, relaxed, servers
from bench.score.joins import with_joins
from bench.score.level1 import (
    DUPLICATE,
    KEY,
    NON_DUPLICATE,
    RESUBMISSION,
    with_status,
)
from bench.score.level2 import NOT_ASKED, NOT_OWNER, OWNER, UNAVAILABLE
from bench.score.outcomes import ABSENT, sentence, told
from bench.score.sharing import with_homes, with_races, with_sharing
from bench.score.unknowable import ANSWERED, DUE, OPEN, with_unknowable

Cut = Callable[[str, DataFrame], DataFrame]
ORACLE_WORDS = ("status", "upstream", "reason", "answer", "level2")
# Receptions at the same microsecond are taken in the order in which they were finished.
_ORDER = ("t_us", "told_seq", "source", "seq")
# The same, but whoever won a race comes first in it.
_RACE_ORDER = ("race_us", "race_rank", *_ORDER)


def judged(matched: DataFrame, lines: DataFrame, cut: Cut) -> DataFrame:
    """The receptions with the words that are due, and whether the network server agrees.

    Adds oracle_status ("-" = level 1 not reached), oracle_upstream, oracle_reason, oracle_answer
    (DUE for any of RX1, RX2 and TooLate), oracle_level2, unknowable, status_agrees,
    disposition_agrees and level2_agrees. `cut` cuts a table off from its plan.
    """
    heard = matched.where("heard").withColumn("told_seq", F.col("outcome.seq"))
    of_case = heard.join(F.broadcast(servers(lines)), on=["run", "case"], how="left").join(
        F.broadcast(relaxed(lines)), on=["run", "case", "dev_eui"], how="left"
    )
    several = (F.col("lns_count") > 1) | F.col("had_outage") | F.col("has_lives")
    several = F.coalesce(several, F.lit(False))
    status_agrees = told("status") == F.col("oracle_status")
    disposition_agrees = (
        (told("upstream") == F.col("oracle_upstream"))
        & (told("reason") == F.col("oracle_reason"))
        & _answer_agrees()
    )
    level2_agrees = F.coalesce("outcome.level2", F.lit(NOT_ASKED)) == F.col("oracle_level2")
    agree = {
        "status_agrees": status_agrees,
        "disposition_agrees": disposition_agrees,
        "level2_agrees": F.col("told") & level2_agrees,
    }
    return (
        cut("counted", _of_one_server(of_case.where(~several), lines))
        .unionByName(
            cut("shared", _of_several_servers(of_case.where(several), lines)),
            allowMissingColumns=True,
        )
        .transform(_with_words)
        .transform(lambda rows: with_unknowable(rows, lines, order=_ORDER))
        .withColumns({name: F.coalesce(agrees, F.lit(False)) for name, agrees in agree.items()})
        .select(
            *matched.columns,
            *(f"oracle_{word}" for word in ORACLE_WORDS),
            "unknowable",
            *agree,
        )
    )


def _of_one_server(receptions: DataFrame, lines: DataFrame) -> DataFrame:
    """The receptions of cases with one server, whose store was never away, but for relaxed ones."""
    withheld = F.col("outcome.answer") == "Suppressed"
    unkept = F.exists("faults", lambda fault: fault["is_store"]) & withheld
    owned = F.when(F.col("asks") & ~F.col("pinned") & asks_level2(), F.lit(OWNER))
    never = F.lit(False)
    return (
        receptions.withColumn("lns", F.col("own_lns"))
        .withColumns({"lost": never, "unkept": F.coalesce(unkept, never)})
        .withColumns({"race_us": F.col("t_us"), "race_rank": F.lit(0)})
        .transform(lambda rows: _with_parties(rows, lines))
        .transform(lambda rows: _with_level1(rows, lost=None))
        .transform(lambda rows: with_joins(rows, order=_RACE_ORDER))
        .transform(lambda rows: with_counters(rows, order=_ORDER))
        .withColumn("pinned", F.coalesce(F.col("device.server").isNotNull(), never))
        .withColumn("level2", F.coalesce(owned, F.lit(NOT_ASKED)))
        .withColumn("doubtful", never)
    )


def _of_several_servers(receptions: DataFrame, lines: DataFrame) -> DataFrame:
    """Those of servers that share devices, or whose store was away; and of relaxed devices."""
    return (
        with_homes(receptions)
        .transform(lambda rows: _with_parties(rows, lines))
        .transform(lambda rows: with_races(rows, order=_ORDER))
        .transform(lambda rows: _with_level1(rows, lost=F.col("lost")))
        .transform(lambda rows: with_joins(rows, order=_RACE_ORDER))
        .transform(lambda rows: with_sharing(rows, order=_ORDER))
    )


def oracle_sentence() -> Column:
    """The words that are due as people write them, with that of level 2 where one was asked."""
    words = (F.col(f"oracle_{word}") for word in ORACLE_WORDS[:-1])
    return F.concat_ws(" ", sentence(*words), _if_asked("oracle_level2"))


def told_sentence() -> Column:
    """The words of the network server, in the same way."""
    words = (told(word) for word in ORACLE_WORDS[:-1])
    return F.concat_ws(" ", sentence(*words), _if_asked("outcome.level2"))


def _if_asked(level2: str) -> Column:
    asked = (F.col("oracle_level2") != NOT_ASKED) | (F.col("outcome.level2") != NOT_ASKED)
    return F.when(asked, F.col(level2))


def _with_parties(heard: DataFrame, lines: DataFrame) -> DataFrame:
    """Who sent the frame and who got it; `reaches`: it is proven to be of a device known here."""
    known = devices(lines)
    owners = addresses(lines, known)
    provable = F.col("genuine") & F.col("device").isNotNull() & ~F.col("elsewhere")
    here = ~F.col("is_join") | (F.col("device.activation") == "otaa")
    elsewhere = F.col("device.server").isNotNull() & (F.col("device.server") != F.col("lns"))
    short = F.coalesce(F.col("device.f_cnt_bits") == 16, F.lit(False))
    on_wire = F.col("f_cnt_wire")
    return (
        heard.join(F.broadcast(known), on=["run", "case", "dev_eui"], how="left")
        .join(F.broadcast(owners), on=["run", "case", "dev_addr"], how="left")
        .withColumns(
            {
                "retention_us": F.coalesce("retention_us", F.lit(RETENTION_US)),
                "elsewhere": F.coalesce(elsewhere, F.lit(False)),
                "strategy": F.col("device.strategy"),
                "session": F.coalesce("session", "owner_session", F.lit(0)),
                "f_cnt": F.when(short, on_wire).when(~short, F.coalesce("f_cnt", on_wire)),
            }
        )
        .withColumn("reaches", F.coalesce(provable & here, F.lit(False)))
        # Forged frames stand in the line of the device whose address they bear.
        .withColumn("owner_no", F.when(~F.col("reaches"), F.col("owner_no")))
        .withColumn("dev_eui_no", F.coalesce("owner_no", "dev_eui_no"))
        .select("*")
    )


def _with_level1(rows: DataFrame, *, lost: Column | None) -> DataFrame:
    """The status of what reaches level 1; a join is known by JoinEUI, DevEUI and DevNonce."""
    is_join = F.col("is_join")
    of_frame = rows.withColumn(
        "key_high", F.when(is_join, F.col("join_eui_no")).when(~is_join, F.col("mic_no"))
    ).withColumn("key_low", F.when(is_join, F.col("dev_nonce")).when(~is_join, F.col("f_cnt_wire")))
    return (
        with_status(
            of_frame,
            key=("key_high", "key_low", *KEY[2:], "lns", "is_join", "reaches"),
            order=_ORDER,
            retention_us=F.col("retention_us"),
            life="lns_life",
            is_join=is_join,
            lost=lost,
        )
        .withColumn("status", F.when(F.col("reaches"), F.col("status")))
        .select(*rows.columns, "status")
    )


def _with_words(rows: DataFrame) -> DataFrame:
    unproven = _unproven()
    of_level1 = unproven.isNull()
    status, is_join = F.col("status"), F.col("is_join")
    refusal = F.coalesce(unproven, _refusal())
    accepted = of_level1 & refusal.isNull()
    copies = {"Drop": "dropped", "Mark": "marked", "None": "forwarded"}
    upstream = F.when(~accepted | is_join | (F.col("f_port") == 0), F.lit("dropped"))
    owned = F.coalesce(F.col("level2") != NOT_OWNER, F.lit(True))
    upstream = upstream.when((status == NON_DUPLICATE) & owned, F.lit("forwarded"))
    for strategy, word in copies.items():
        upstream = upstream.when(F.col("strategy") == strategy, F.lit(word))
    return (
        rows.withColumn("refusal", refusal)
        .withColumns(
            {
                "oracle_status": F.when(of_level1, status).when(~of_level1, F.lit(ABSENT)),
                "oracle_upstream": upstream,
                "oracle_reason": F.coalesce("refusal", F.lit(ABSENT)),
                "oracle_answer": _answer(of_level1),
                "oracle_level2": F.coalesce(F.when(of_level1, F.col("level2")), F.lit(NOT_ASKED)),
            }
        )
        .select("*")
    )


def _unproven() -> Column:
    """Why a reception does not reach level 1; null when it does."""
    known_device = F.col("device").isNotNull()
    otaa = F.coalesce(F.col("device.activation") == "otaa", F.lit(False))
    known_address = F.col("owner_no").isNotNull() & ~F.col("outlived")
    is_join, genuine = F.col("is_join"), F.col("genuine")
    gone = F.col("outlived") | ~F.col("known")
    return (
        F.when(~F.col("readable"), F.lit("Malformed"))
        .when(is_join & ~otaa, F.lit("UnknownDevice"))
        .when(is_join & ~genuine, F.lit("MicMismatch"))
        .when(~is_join & genuine & known_device & F.col("outlived"), F.lit("UnknownDevice"))
        .when(~is_join & genuine & known_device & gone, F.lit("MicMismatch"))
        .when(genuine & F.col("elsewhere"), F.lit("BelongsToAnotherServer"))
        .when(~F.col("reaches") & known_address, F.lit("MicMismatch"))
        .when(~F.col("reaches"), F.lit("UnknownDevice"))
    )


def _refusal() -> Column:
    """Why a reception that reached level 1 is dropped; null when it is accepted."""
    status, is_join = F.col("status"), F.col("is_join")
    dropped = F.col("strategy") == "Drop"
    level2, closed = F.col("level2"), F.col("on_outage") == "closed"
    return (
        F.when(status == DUPLICATE, F.lit("Duplicate"))
        .when(is_join & F.col("lost"), F.lit("StoreUnavailable"))
        .when(is_join & F.col("nonce_used"), F.lit("DevNonceUsed"))
        .when(is_join & F.col("foreign_join_eui"), F.lit("UnknownDevice"))
        .when(~is_join & ~admitted(), F.lit("InvalidFrameCounter"))
        .when(F.col("limited"), F.lit("ResubmissionLimit"))
        .when((level2 == NOT_OWNER) & dropped, F.lit("DuplicateAtOtherServer"))
        .when((level2 == UNAVAILABLE) & closed, F.lit("StoreUnavailable"))
        .when((status == RESUBMISSION) & dropped, F.lit("ResubmissionSuppressed"))
    )


def _answer(of_level1: Column) -> Column:
    status, is_join, confirmed = F.col("status"), F.col("is_join"), F.col("confirmed")
    asks = confirmed | F.col("adr_ack_req") | F.col("link_check") | F.col("device_time")
    may_ask = ~asks & (F.col("f_port") == 0)
    # The network answers unasked while it has a request of its own: for repetitions, of a device
    # that obeys (ADR), or for its status.
    wants = (F.col("adr") & (F.col("device.nb_trans") > 1)) | F.col(
        "device.dev_status_s"
    ).isNotNull()
    may_tell = ~asks & wants & (status == NON_DUPLICATE)
    granted = F.col("refusal").isNull() | (
        (F.col("refusal") == "ResubmissionSuppressed") & confirmed
    )
    by_status = (status == NON_DUPLICATE) | ((status == RESUBMISSION) & confirmed)
    elsewhere = F.col("refusal") == "BelongsToAnotherServer"
    # Only the server that owns a frame answers it, whatever the strategy (ADR 007, part 2).
    may = F.coalesce(~F.col("level2").isin(NOT_OWNER, UNAVAILABLE), F.lit(True))
    return (
        F.when(elsewhere & may_ask, F.lit(OPEN))
        .when(elsewhere & asks, F.lit("Suppressed"))
        .when(~of_level1, F.lit("NotAsked"))
        .when(is_join & F.col("refusal").isNull(), F.lit(DUE))
        .when(is_join, F.lit("Suppressed"))
        .when(may_ask | (may_tell & may & F.col("refusal").isNull()), F.lit(OPEN))
        .when(asks & by_status & granted & may, F.lit(DUE))
        .when(asks, F.lit("Suppressed"))
        .when(~asks, F.lit("NotAsked"))
    )


def _answer_agrees() -> Column:
    observed, due = told("answer"), F.col("oracle_answer")
    return (observed == due) | ((due == DUE) & observed.isin(*ANSWERED)) | (due == OPEN)
