"""What does one of several network servers know of a session, and what is a counter worth to it?

Each server keeps counters of its own. It looks into the store that all of them share only where
a frame shows that it missed something; that is the specification, not the code, of a server.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from bench.score.binding import bind, either, emptied, struct_of
from bench.score.counters import MAX_GAP, RESUBMISSIONS_MAX, asks_level2, is_next
from bench.score.level1 import NON_DUPLICATE, RESUBMISSION, SOFT_DUPLICATE

NOBODY = -1  # lower than every counter: nothing heard yet
LONG_AGO = -(1 << 60)
# Its newest counter and in which life of a relaxed counter, the repeated answers it gave, up to
# which counter the store may have missed something, when it looked into the store last, and since
# when it may have missed a claim.
SEAT = (
    "last BIGINT, life INT, spent MAP<BIGINT, INT>, doubt BIGINT, asked_us BIGINT, learnt_us BIGINT"
)
_AGAIN_US = 5_000_000  # a DevAddr is not looked up twice in this time
# A claim lasts a day. Who has not looked since ten minutes less than that looks before it is gone.
_FRESH_US = 86_400_000_000 - 600_000_000
_HALF = 0x10000


def seat_of(state: Column, row: Column) -> Column:
    """The seat of the server that has this reception; `met` if it knows the session at all.

    A session that a join opened is known to the server that accepted it, any other to all.
    """
    seat = F.try_element_at(state["seats"], row["lns"])
    at_home = row["granted_by"].isNull() | (row["granted_by"] == row["lns"])
    nothing_spent = emptied(state["kept_spent"])
    return struct_of(
        {
            "last": F.coalesce(seat["last"], row["preset"]),
            "life": F.coalesce(seat["life"], F.lit(0)),
            "spent": F.coalesce(seat["spent"], nothing_spent),
            "doubt": F.coalesce(seat["doubt"], F.lit(NOBODY).cast("bigint")),
            "asked_us": F.coalesce(seat["asked_us"], F.lit(LONG_AGO)),
            "learnt_us": F.coalesce(seat["learnt_us"], row["begun_us"], row["t_us"]),
            "met": seat.isNotNull() | at_home,
        }
    )


def learned(state: Column, seat: Column, row: Column) -> Column:
    """The seat after a look into the store; `blind` where the store was away for it.

    Reasons to look: a session or a counter that this server does not know, one too far ahead, or
    an older one of a relaxed device, which may have restarted elsewhere; or that it has not looked
    for about as long as a claim lasts. A copy is none.
    """
    f_cnt, last = row["f_cnt"], seat["last"]
    too_far = f_cnt - F.greatest(last, F.lit(0)) > MAX_GAP
    missed = (row["status"] == NON_DUPLICATE) & (too_far | ((f_cnt < last) & row["relaxed"]))
    is_old = row["t_us"] - seat["learnt_us"] >= _FRESH_US
    out_of_date = (row["status"] == NON_DUPLICATE) & ~row["pinned"] & is_old
    lacks = ~seat["met"] | ~_is_known(row, last) | missed | out_of_date
    looks = lacks & row["asks"] & (row["t_us"] - seat["asked_us"] >= _AGAIN_US)
    same_life = state["kept_life"] == seat["life"]
    ahead = (state["kept_life"] > seat["life"]) | (same_life & (state["kept"] > last))
    takes = looks & (ahead | ~seat["met"])
    return struct_of(
        {
            "last": either(takes, state["kept"], last),
            "life": either(takes, state["kept_life"], seat["life"]),
            "spent": either(takes, state["kept_spent"], seat["spent"]),
            "doubt": either(looks, F.greatest(seat["doubt"], state["unsaved"]), seat["doubt"]),
            "asked_us": either(looks, row["t_us"], seat["asked_us"]),
            "learnt_us": either(looks & ~row["store_fault"], row["t_us"], seat["learnt_us"]),
            "met": seat["met"] | looks,
            "blind": lacks & row["store_fault"],
        }
    )


def worth(seat: Column, row: Column) -> Column:
    """What the counter of a reception is worth at its server.

    Beside the facts of `bench.score.counters`: `passes` (it is accepted here), `asks` (level 2 is
    asked) and `restarts` (a relaxed counter begins again).
    """
    f_cnt, last, status = row["f_cnt"], seat["last"], row["status"]
    first, confirmed = row["first_message"], row["confirmed"]
    equal = f_cnt == last
    newer = (status == NON_DUPLICATE) & (is_next(f_cnt, last) | first)
    repeated = (status == NON_DUPLICATE) & ~newer & equal
    spends = (repeated | ((status == RESUBMISSION) & (equal | first))) & confirmed
    spent = F.coalesce(F.try_element_at(seat["spent"], f_cnt), F.lit(0))
    facts = {
        "equal": equal,
        "newer": newer,
        "spends": spends,
        "limited": spends & (spent >= RESUBMISSIONS_MAX),
        "known": seat["met"] & _is_known(row, last),
        "restarts": newer & (f_cnt <= last),
    }

    def with_consequences(found: Column) -> Column:
        asks = found["known"] & asks_level2(
            lambda name: found[name] if name in facts else row[name]
        )
        soft = (status == SOFT_DUPLICATE) & (found["equal"] | first)
        return struct_of(
            {name: found[name] for name in facts}
            | {
                "passes": asks | (found["known"] & soft),
                "asks": asks & row["asks"] & ~row["pinned"],
            }
        )

    return bind(struct_of(facts), with_consequences)


def _is_known(row: Column, last: Column) -> Column:
    """Whether the counter on the wire stands for this one at a server with this last one."""
    rolled = F.shiftright(row["f_cnt"], 16) - F.shiftright(last, 16)
    return (row["f_cnt"] < _HALF) | ((last >= 0) & rolled.between(-1, 1) & ~row["short"])
