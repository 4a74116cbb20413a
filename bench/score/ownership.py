"""What is a frame worth to each of several network servers, and which of them owns it?

A session is followed reception by reception, over all its servers in order of arrival on the
clock that they share: what each of them knows (`bench.score.seats`), what their common store
knows, and who claimed which frame last (`bench.score.claims`). One fold per session, and only in
cases whose servers share something, or whose store was away; every other case does with windows.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.score.binding import bind, either, emptied, empty_map, struct_of, with_entry
from bench.score.claims import NOT_ASKED, NOT_OWNER, OWNER, UNAVAILABLE, claim
from bench.score.seats import LONG_AGO, NOBODY, SEAT, learned, seat_of, worth

WORDS = ("newer", "equal", "spends", "limited", "known", "met", "level2", "doubtful")
_SESSION = ("dev_eui_no", "session", "run", "case")
_FIRST = "STRUCT<mic_no: BIGINT, claimed_us: BIGINT>"
# `seats`: what each server knows. `kept`: what the store knows, and up to which counter it may
# have missed something (`unsaved`). `newest` of `owner` since `claimed_us` is the newest claim,
# `before` the one before it, `maybe` one of `maybe_of` whose answer was lost. `firsts`: the first
# messages claimed lately.
_STATE = {
    "now_us": "BIGINT", "seats": f"MAP<STRING, STRUCT<{SEAT}>>",
    "kept": "BIGINT", "kept_life": "INT", "kept_spent": "MAP<BIGINT, INT>", "unsaved": "BIGINT",
    "newest": "BIGINT", "owner": "STRING", "claimed_us": "BIGINT", "before": "BIGINT",
    "life": "INT", "maybe": "BIGINT", "maybe_of": "STRING", "firsts": f"MAP<BIGINT, {_FIRST}>",
    "told": "ARRAY<STRUCT<newer: BOOLEAN, equal: BOOLEAN, spends: BOOLEAN,"
            " limited: BOOLEAN, known: BOOLEAN, met: BOOLEAN, level2: STRING, doubtful: BOOLEAN>>",
}  # fmt: skip


def with_ownership(receptions: DataFrame, *, order: tuple[str, ...]) -> DataFrame:
    """Data receptions that reach level 1, with `level2`, the word that is due, and the counters.

    The facts of `bench.score.counters` but first_message and outlived, each as the server of the
    reception sees it; `met`: it knows the session; `doubtful`: it may have missed something while
    the store was away.
    """
    entry = F.struct(*order, F.struct("*").alias("row"))
    told = F.aggregate("rows", _beginning(F.element_at("rows", 1)), _step, lambda end: end["told"])
    return (
        receptions.groupBy(*_SESSION)
        .agg(F.sort_array(F.collect_list(entry)).getField("row").alias("rows"))
        .withColumn("told", told)
        .select(F.inline(F.arrays_zip("rows", "told")))
        .select("rows.*", *(f"told.{word}" for word in WORDS))
        .select(*receptions.columns, *WORDS)
    )


def _beginning(first: Column) -> Column:
    """The state of a session that nobody has heard: at most its preset counter is known."""
    known = {
        "now_us": F.lit(LONG_AGO),
        "kept": first["preset"],
        "kept_life": F.lit(0),
        "unsaved": F.lit(NOBODY),
        "life": F.lit(0),
        "seats": empty_map("string", f"struct<{SEAT}>"),
        "kept_spent": empty_map("bigint", "int"),
        "firsts": empty_map("bigint", _FIRST),
        "told": F.array(),
    }
    return struct_of({name: known.get(name, F.lit(None)).cast(_STATE[name]) for name in _STATE})


def _changed(state: Column, **changes: Column) -> Column:
    """The state with some of its fields replaced."""
    return struct_of(
        {
            name: changes[name].cast(_STATE[name]) if name in changes else state[name]
            for name in _STATE
        }
    )


def _step(state: Column, row: Column) -> Column:
    """One reception: what befell the servers since, what its server knows, who owns it."""

    def counted(now: Column, seat: Column) -> Column:
        return bind(
            worth(seat, row),
            lambda value: bind(
                claim(now, seat, value, row),
                lambda answer: bind(
                    _seat_after(seat, value, answer, row),
                    lambda after: _after(now, seat, after, value, answer, row),
                ),
            ),
        )

    return bind(
        _after_faults(state, row),
        lambda now: bind(
            seat_of(now, row),
            lambda seat: bind(learned(now, seat, row), lambda seat: counted(now, seat)),
        ),
    )


def _after_faults(state: Column, row: Column) -> Column:
    """The state after restarts of servers, and of an empty store, since the last reception.

    A claim of a server that is none of this case counts as any other.
    A server that restarts knows what the store knows. One that brings an older counter back gives
    it to the store, where no claim of before counts then.
    """

    def lately(event: Column) -> Column:
        return (event["t_us"] > state["now_us"]) & (event["t_us"] <= row["t_us"])

    begun = (state["now_us"] > LONG_AGO) | row["granted_by"].isNull()

    def restarted(state: Column, restart: Column) -> Column:
        stale = F.when(begun, restart["f_cnt_up"])
        kept = F.coalesce(stale, state["kept"])
        knows = {
            "last": kept,
            "life": state["kept_life"],
            "spent": state["kept_spent"],
            "doubt": state["unsaved"],
            "asked_us": F.lit(LONG_AGO),
            "learnt_us": restart["t_us"],
        }
        seats = with_entry(state["seats"], restart["lns"], struct_of(knows))
        newest = F.when(stale.isNull(), state["newest"])
        seats = either(begun, seats, state["seats"])
        return _changed(state, kept=kept, seats=seats, newest=newest)

    is_emptied = F.exists(row["faults"], lambda fault: fault["emptied"] & lately(fault))
    nothing_seen = emptied(state["firsts"])
    orphans = F.filter(row["orphans"], lambda bid: lately(bid) & (bid["dev_eui"] == row["dev_eui"]))
    orphan = F.get(orphans, F.size(orphans) - 1)
    newest = F.when(~is_emptied, state["newest"])
    takes = F.coalesce(orphan["f_cnt"] > F.coalesce(newest, F.lit(NOBODY)), F.lit(False))
    after = _changed(
        state,
        newest=either(takes, orphan["f_cnt"], newest),
        owner=either(takes, orphan["lns"], state["owner"]),
        claimed_us=either(takes, orphan["t_us"], state["claimed_us"]),
        maybe_of=F.when(~is_emptied, state["maybe_of"]),
        firsts=either(is_emptied, nothing_seen, state["firsts"]),
    )
    restarts = F.filter(row["restarts"], lately)
    return bind(after, lambda after: F.aggregate(restarts, after, restarted))


def _seat_after(seat: Column, worth: Column, answer: Column, row: Column) -> Column:
    """What the server knows after the reception; what was not delivered it has not heard."""
    level2, f_cnt = answer["level2"], row["f_cnt"]
    advances = worth["known"] & worth["newer"] & ~((level2 == UNAVAILABLE) & row["closed"])
    here = level2.isin(OWNER, NOT_ASKED) & ~row["unkept"]
    spends = worth["known"] & worth["spends"] & ~worth["limited"] & here
    own_life = seat["life"] + worth["restarts"].cast("int")
    life = either(level2.isin(OWNER, NOT_OWNER), answer["life"], own_life)
    spent = F.coalesce(F.try_element_at(seat["spent"], f_cnt), F.lit(0))
    none = emptied(seat["spent"])
    one_more = with_entry(seat["spent"], f_cnt, spent + 1)
    return struct_of(
        {
            "last": either(advances, f_cnt, seat["last"]),
            "life": either(advances, life, seat["life"]),
            "spent": F.when(advances, none).when(spends, one_more).when(~spends, seat["spent"]),
            "doubt": seat["doubt"],
            "asked_us": seat["asked_us"],
            "learnt_us": seat["learnt_us"],
        }
    )


def _after(
    state: Column, before: Column, seat: Column, worth: Column, answer: Column, row: Column
) -> Column:
    """The state after a reception, with what is told of it."""
    f_cnt, level2 = row["f_cnt"], answer["level2"]
    unavailable, moves = level2 == UNAVAILABLE, answer["granted"] & answer["moves"]
    asked = level2.isin(OWNER, NOT_OWNER)
    mark = struct_of({"mic_no": row["mic_no"], "claimed_us": row["t_us"]})
    life, last = seat["life"], seat["last"]
    same_life = life == state["kept_life"]
    newest = (life > state["kept_life"]) | (same_life & (last >= state["kept"]))
    keeps = worth["passes"] & level2.isin(OWNER, NOT_ASKED) & ~row["unkept"] & newest
    unsaved = F.when(unavailable & worth["newer"], F.greatest(state["unsaved"], f_cnt))
    unsaved = unsaved.when(keeps & (last >= state["unsaved"]), F.lit(NOBODY))
    settled = moves & (f_cnt >= state["maybe"])
    told = {name: worth[name] for name in ("newer", "equal", "spends", "limited", "known")}
    told |= {"met": before["met"], "level2": level2}
    told |= {"doubtful": before["blind"] | (f_cnt <= before["doubt"])}
    return _changed(
        state,
        now_us=row["t_us"],
        seats=with_entry(state["seats"], row["lns"], seat),
        kept=either(keeps, last, state["kept"]),
        kept_life=either(keeps, life, state["kept_life"]),
        kept_spent=either(keeps, seat["spent"], state["kept_spent"]),
        unsaved=F.coalesce(unsaved, state["unsaved"]),
        newest=either(moves, f_cnt, state["newest"]),
        owner=either(moves, answer["bidder"], state["owner"]),
        before=either(moves, state["newest"], state["before"]),
        claimed_us=either(answer["granted"], row["t_us"], state["claimed_us"]),
        life=either(asked, answer["life"], state["life"]),
        maybe=either(unavailable, F.greatest(f_cnt, state["maybe"]), state["maybe"]),
        maybe_of=F.when(unavailable, row["lns"]).when(
            ~F.coalesce(settled, F.lit(False)), state["maybe_of"]
        ),
        firsts=either(
            asked & row["first_message"],
            with_entry(state["firsts"], f_cnt, mark),
            state["firsts"],
        ),
        told=F.concat(state["told"], F.array(struct_of({w: told[w] for w in WORDS}))),
    )
