"""Which server owns a frame, when several of them hear it? Level 2, worked out from arrivals.

ADR 007, part 2: a counter higher than the newest claimed one is no duplicate, nor is an equal one
of the same server. A claim is remembered for a day. The first message of a relaxed device may be
lower, because its counter may have restarted; for a while the same message is a copy elsewhere.

Two things no arrival shows: who came first where servers raced (`bench.score.races`), and whether
a claim whose answer was lost had been granted. Only there the word of a server is taken, and all
that follows from it is still judged.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from bench.score.binding import bind, either, struct_of
from bench.score.seats import NOBODY

STATE_US = 86_400_000_000  # "State expires after a day"
NOT_ASKED, OWNER, NOT_OWNER, UNAVAILABLE = "NotAsked", "Owner", "NotOwner", "Unavailable"


def claim(state: Column, seat: Column, worth: Column, row: Column) -> Column:
    """The answer of level 2 to a reception.

    A struct of level2, `granted` to `bidder`, `moves` (the newest claim is another one now) and
    `life` (of the session, as all servers together know it).
    """
    return bind(_standing(state, worth, row), lambda bid: _answer(state, seat, worth, row, bid))


def _standing(state: Column, worth: Column, row: Column) -> Column:
    """Where a bid stands against the newest claim."""
    f_cnt, first = row["f_cnt"], row["first_message"]
    bidder = F.coalesce(row["winner"], row["lns"])
    fresh = row["t_us"] - state["claimed_us"] < STATE_US
    newest = F.when(fresh, state["newest"])
    mark = F.try_element_at(state["firsts"], f_cnt)
    lately = row["t_us"] - mark["claimed_us"] < row["retention_us"]
    seen = F.coalesce((mark["mic_no"] == row["mic_no"]) & lately, F.lit(False))
    mine = F.coalesce(state["owner"] == bidder, F.lit(False))
    higher = newest.isNull() | (f_cnt > newest)
    again = F.coalesce((f_cnt == newest) & mine, F.lit(False))
    return struct_of(
        {
            "bidder": bidder,
            "moves": higher | again | (first & worth["newer"] & (mine | ~seen)),
            "repeats": first & mine & ~worth["newer"],
            "restarts": first & worth["newer"] & ~higher & ~again,
        }
    )


def _answer(state: Column, seat: Column, worth: Column, row: Column, bid: Column) -> Column:
    due = bid["moves"] | bid["repeats"]
    unsure = _is_unsure(state, row, due)
    granted = either(unsure, F.coalesce(row["observed_level2"] == OWNER, F.lit(False)), due)
    asks, unavailable = worth["asks"], row["unavailable"]
    level2 = (
        F.when(~asks, NOT_ASKED)
        .when(unavailable, UNAVAILABLE)
        .when(granted & (bid["bidder"] == row["lns"]), OWNER)
        .when(asks, NOT_OWNER)
    )
    known_life = F.greatest(state["life"], seat["life"])
    return struct_of(
        {
            "level2": level2,
            "bidder": bid["bidder"],
            "granted": granted & due & asks & ~unavailable,
            "moves": bid["moves"],
            "life": either(granted & bid["restarts"], state["life"] + 1, known_life),
        }
    )


def _is_unsure(state: Column, row: Column, due: Column) -> Column:
    """Whether arrivals do not tell if this bid was granted."""
    f_cnt, first = row["f_cnt"], row["first_message"]
    lost = (state["maybe_of"] != row["lns"]) & ((f_cnt <= state["maybe"]) | first)
    raced = row["raced"] & (row["t_us"] - state["claimed_us"] <= row["race_bound_us"])
    overtook = raced & (state["owner"] != row["lns"]) & (f_cnt < state["newest"])
    was_first = ~due & overtook & (F.coalesce(state["before"], F.lit(NOBODY)) < f_cnt)
    return (
        F.coalesce(due & lost, F.lit(False))
        | (due & row["overtaken"])
        | F.coalesce(was_first, F.lit(False))
    )
