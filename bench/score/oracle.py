"""What should have become of each reception?

Worked out from the receptions and the facts of a case with window functions, without a look at what
the network server did, and without a line of its code. Three things cannot be known from
receptions: what an upstream or a store that failed did to a frame, and what a full level 1
forgot; such rows carry the reason in `unknowable` and count neither as agreement nor as
disagreement.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.counters import admitted, with_counters
from bench.score.facts import RETENTION_US, addresses, devices, evicted, servers
from bench.score.level1 import (
    DUPLICATE,
    KEY,
    NON_DUPLICATE,
    RESUBMISSION,
    with_status,
)
from bench.score.outcomes import ABSENT, sentence, told

DUE = "due"  # an answer is owed: RX1, RX2, or TooLate when both are gone
OPEN = "open"  # the frame may carry a request that only the keys show
_ANSWERED = ("RX1", "RX2", "TooLate")
# Receptions at the same microsecond are taken in the order in which they were finished.
_ORDER = ("t_us", "told_seq", "source", "seq")
_FAILURES = ("UpstreamUnavailable", "StoreUnavailable", "DuplicateAtOtherServer")


def judged(matched: DataFrame, lines: DataFrame) -> DataFrame:
    """The receptions with the words that are due, and whether the network server agrees.

    Adds oracle_status ("-" = level 1 not reached), oracle_upstream, oracle_reason, oracle_answer
    (DUE for any of RX1, RX2 and TooLate), unknowable, status_agrees and disposition_agrees.
    """
    heard = matched.where("heard").withColumn("told_seq", F.col("outcome.seq"))
    status_agrees = told("status") == F.col("oracle_status")
    disposition_agrees = (
        (told("upstream") == F.col("oracle_upstream"))
        & (told("reason") == F.col("oracle_reason"))
        & _answer_agrees()
    )
    return (
        _with_parties(heard, lines)
        .transform(_with_level1)
        .transform(lambda rows: with_counters(rows, order=_ORDER))
        .transform(_with_joins)
        .transform(_with_words)
        .transform(lambda rows: _with_unknowable(rows, lines))
        .withColumns(
            {
                "status_agrees": F.coalesce(status_agrees, F.lit(False)),
                "disposition_agrees": F.coalesce(disposition_agrees, F.lit(False)),
            }
        )
        .select(
            *matched.columns,
            *(f"oracle_{word}" for word in ("status", "upstream", "reason", "answer")),
            "unknowable",
            "status_agrees",
            "disposition_agrees",
        )
    )


def oracle_sentence() -> Column:
    """The words that are due as people write them."""
    words = (F.col(f"oracle_{word}") for word in ("status", "upstream", "reason", "answer"))
    return sentence(*words)


def _with_parties(heard: DataFrame, lines: DataFrame) -> DataFrame:
    """Who sent the frame and who got it; `reaches`: it is proven to be of a device known here."""
    known = devices(lines)
    owners = addresses(lines, known)
    provable = F.col("genuine") & F.col("device").isNotNull() & ~F.col("elsewhere")
    here = ~F.col("is_join") | (F.col("device.activation") == "otaa")
    elsewhere = F.col("device.server").isNotNull() & (F.col("device.server") != F.col("own_lns"))
    short = F.coalesce(F.col("device.f_cnt_bits") == 16, F.lit(False))
    on_wire = F.col("f_cnt_wire")
    return (
        heard.join(F.broadcast(known), on=["run", "case", "dev_eui"], how="left")
        .join(F.broadcast(servers(lines)), on=["run", "case"], how="left")
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


def _with_level1(rows: DataFrame) -> DataFrame:
    """The status of what reaches level 1; a join is known by JoinEUI, DevEUI and DevNonce."""
    is_join = F.col("is_join")
    of_frame = rows.withColumn(
        "key_high", F.when(is_join, F.col("join_eui_no")).when(~is_join, F.col("mic_no"))
    ).withColumn("key_low", F.when(is_join, F.col("dev_nonce")).when(~is_join, F.col("f_cnt_wire")))
    return (
        with_status(
            of_frame,
            key=("key_high", "key_low", *KEY[2:], "is_join", "reaches"),
            order=_ORDER,
            retention_us=F.col("retention_us"),
            life="lns_life",
            is_join=is_join,
        )
        .withColumn("status", F.when(F.col("reaches"), F.col("status")))
        .select(*rows.columns, "status")
    )


def _with_joins(rows: DataFrame) -> DataFrame:
    """`nonce_used`: this DevNonce was accepted before, or (LoRaWAN 1.0.4) a greater one was."""
    of_device = Window.partitionBy("dev_eui_no", "run", "case", "is_join", "reaches")
    of_nonce = Window.partitionBy("dev_nonce", "dev_eui_no", "run", "case", "is_join", "reaches")
    rows_before = (Window.unboundedPreceding, -1)
    # A join with a foreign JoinEUI is refused, and its DevNonce remains unused.
    own = F.coalesce(F.col("join_eui") == F.col("device.join_eui"), F.lit(True))
    taken = F.when((F.col("status") == NON_DUPLICATE) & own, F.col("dev_nonce"))
    greatest = F.max(taken).over(of_device.orderBy(*_ORDER).rowsBetween(*rows_before))
    times = F.count(taken).over(of_nonce.orderBy(*_ORDER).rowsBetween(*rows_before))
    is_counter = F.col("device.lorawan") == "1.0.4"
    used = (times > 0) | (is_counter & (F.col("dev_nonce") <= greatest))
    return rows.withColumns(
        {"foreign_join_eui": ~own, "nonce_used": F.coalesce(used, F.lit(False))}
    ).select("*")


def _with_words(rows: DataFrame) -> DataFrame:
    unproven = _unproven()
    of_level1 = unproven.isNull()
    status, is_join = F.col("status"), F.col("is_join")
    refusal = F.coalesce(unproven, _refusal())
    accepted = of_level1 & refusal.isNull()
    copies = {"Drop": "dropped", "Mark": "marked", "None": "forwarded"}
    upstream = F.when(~accepted | is_join | (F.col("f_port") == 0), F.lit("dropped"))
    upstream = upstream.when(status == NON_DUPLICATE, F.lit("forwarded"))
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
    return (
        F.when(status == DUPLICATE, F.lit("Duplicate"))
        .when(is_join & F.col("nonce_used"), F.lit("DevNonceUsed"))
        .when(is_join & F.col("foreign_join_eui"), F.lit("UnknownDevice"))
        .when(~is_join & ~admitted(), F.lit("InvalidFrameCounter"))
        .when(F.col("limited"), F.lit("ResubmissionLimit"))
        .when((status == RESUBMISSION) & dropped, F.lit("ResubmissionSuppressed"))
    )


def _answer(of_level1: Column) -> Column:
    status, is_join, confirmed = F.col("status"), F.col("is_join"), F.col("confirmed")
    asks = confirmed | F.col("adr_ack_req") | F.col("link_check")
    may_ask = ~asks & (F.col("f_port") == 0)
    # The network answers unasked while it has a request for repetitions of its own.
    may_tell = ~asks & (F.col("device.nb_trans") > 1) & (status == NON_DUPLICATE)
    granted = F.col("refusal").isNull() | (
        (F.col("refusal") == "ResubmissionSuppressed") & confirmed
    )
    by_status = (status == NON_DUPLICATE) | ((status == RESUBMISSION) & confirmed)
    elsewhere = F.col("refusal") == "BelongsToAnotherServer"
    return (
        F.when(elsewhere & confirmed, F.lit("Suppressed"))
        .when(~of_level1, F.lit("NotAsked"))
        .when(is_join & F.col("refusal").isNull(), F.lit(DUE))
        .when(is_join, F.lit("Suppressed"))
        .when(may_ask | (may_tell & F.col("refusal").isNull()), F.lit(OPEN))
        .when(asks & by_status & granted, F.lit(DUE))
        .when(asks, F.lit("Suppressed"))
        .when(~asks, F.lit("NotAsked"))
    )


def _answer_agrees() -> Column:
    observed, due = told("answer"), F.col("oracle_answer")
    return (observed == due) | ((due == DUE) & observed.isin(*_ANSWERED)) | (due == OPEN)


def _with_unknowable(rows: DataFrame, lines: DataFrame) -> DataFrame:
    """Why the right words of a row cannot be told from receptions; null when they can.

    A failure that the network server reports is believed only where the capture shows one: an
    `upstream.failed`, or a fault at the store or the upstream.
    """
    failing = F.col("kind").isin("upstream.failed") | (
        (F.col("kind") == "fault.begin")
        & F.col("seam").isin("upstream", "store", "broker", "redis")
    )
    failed_cases = (
        lines.where(failing & F.col("case").isNotNull())
        .groupBy("run", "case")
        .agg(F.lit(True).alias("has_failure"))
        .select("run", "case", "has_failure")
    )
    requested = (
        lines.where((F.col("kind") == "lns.request") & (F.col("stage") == "queued"))
        .groupBy("run", "case", "dev_eui")
        .agg(F.lit(True).alias("has_request"))
        .select("run", "case", "dev_eui", "has_request")
    )
    so_far = (
        Window.partitionBy("dev_eui_no", "session", "run", "case")
        .orderBy(*_ORDER)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    failed = F.col("has_failure") & (
        F.col("outcome.reason").isin(*_FAILURES) | (F.col("outcome.level2") == "Unavailable")
    )
    touched = F.max(F.when(failed, F.col("f_cnt"))).over(so_far)
    data_key = F.concat_ws(":", "dev_eui", "mic", "f_cnt_wire")
    # An answer that nobody asked for carries what the application wants sent.
    went_down = (
        F.col("has_request")
        & F.col("outcome.answer").isin(*_ANSWERED)
        & ~F.col("oracle_answer").isin(DUE, OPEN)
    )
    is_join = F.col("is_join")
    level1_key = F.when(is_join, F.col("frame_id")).when(~is_join, data_key)
    return (
        rows.join(F.broadcast(failed_cases), on=["run", "case"], how="left")
        .join(F.broadcast(requested), on=["run", "case", "dev_eui"], how="left")
        .withColumn("level1_key", level1_key)
        .join(
            F.broadcast(evicted(lines)).withColumnRenamed("key", "level1_key"),
            on=["run", "case", "level1_key"],
            how="left",
        )
        .withColumn("touched", touched)
        .withColumn(
            "unknowable",
            F.when(F.col("lns_count") > 1, F.lit("more than one network server"))
            .when(failed, F.lit("upstream or store failed"))
            .when(F.col("touched") >= F.col("f_cnt"), F.lit("upstream or store had failed"))
            .when(F.col("evicted_us") <= F.col("t_us"), F.lit("level 1 was full"))
            .when(went_down, F.lit("the application had something to send")),
        )
        .select("*")
    )
