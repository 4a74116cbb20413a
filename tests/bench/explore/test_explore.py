"""Whatever befalls devices and servers, no law is broken, and every word is the model's.

`LORABENCH_SOAK=1` explores as many histories as a night does not.
"""

from pathlib import Path

import pytest

from bench.chance import stream
from bench.explore.coverage import (
    ALL_PAIRS,
    PAIRS_WITHOUT_FAULTS,
    holes,
    pairs_met,
    table,
    wishes,
)
from bench.explore.drawing import drawing
from bench.explore.explore import Order, explore, explore_batch
from bench.explore.generate import RECIPES, SHAPES, Limits, random_history
from bench.explore.history import History, Join, Send, keep_histories, read_histories, read_history
from bench.explore.judge import play_and_judge
from tests.sizes import size

UNKNOWABLE_MAX = 0.02
# What broke a law once, cut down to what matters.
ONCE_BROKEN = {
    "a counter too far for a life that the server was not told of": (
        "servers=2 a=relaxed/None/from16390 : a restart ; a confirm B2 ; a skip16384 ; a confirm A2"
    ),
    "a counter too far for a life between servers": (
        "servers=2 a=relaxed/Drop/from65534/16bit : a send ; a send A1 ; a send A1 ; replay2 B1"
    ),
    "an old frame is granted to the server that was refused it": (
        "servers=2 a=relaxed/None : a send ; a confirm= B1 ; a restart ; a send A1 ;"
        " a confirm= B1 ; a again B1+100ms ; a send A1"
    ),
    "a copy waits for a first one that is refused": (
        "servers=2 a=strict/Mark : a send A1 ; A store 5s 80ms ; a skip20000 ; a send A2 A1+10ms"
    ),
    "who gives a frame back owns the one before": (
        "servers=2 a=otaa/None : a join A1 ; a send A1+600010us ; a send B1 A1+600010us ; A refuse"
        " ; a send A1"
    ),
    "a refused copy counts as heard": (
        "servers=2 a=relaxed/Mark/from200000 :"
        " a send A1 ; B refuse ; a send A1 B1+100ms B2+300ms ; a send A1"
    ),
    "refused frames leave downlink counters out": (
        "servers=2 a=relaxed/None/from80000 :"
        " a skip16384 ; a send A1 ; a send A1 ; a restart ; a confirm A1"
    ),
    "what was given back has its name elsewhere": (
        "servers=2 a=strict/None : B refuse 5ms ; a send B1 A1 ; a restart ; a send B1"
    ),
    "a first message that was given back has its name elsewhere": (
        "servers=2 a=relaxed/None : a send ; a send A1 ; a restart ; B refuse 5ms ; a send B1 A1 ;"
        " a restart ; a send B1"
    ),
    "what was given back is refused in the life after": (
        "servers=2 a=relaxed/None :"
        " B refuse ; a send A1 ; a confirm= B1 ; a restart ; a send A1 ; a confirm= B1"
    ),
}

# What a judge took for a fault of the network server once, and it was none.
ONCE_BLAMED = {
    "a frame with the content of others is heard": (
        "a=strict/None : a skip16382 ; a send ; a send= A1 ; a send A1+100ms ; a send A1"
    ),
    "a frame under way makes a late one old, and is refused": (
        "a=otaa/None : a join A1 ; A refuse 100ms ; a send A1+100ms ; a send A1"
    ),
    "a refused first message seems to begin a life when it comes again": (
        "a=relaxed/None : A refuse ; a send A1 A2+100ms ; a send A1 ; a again A1"
    ),
    "an answer is due at the moment at which its station is cut": (
        "a=otaa/None : a join A1 ; A slow 120ms ; a confirm A2 ; A1 restart= 50ms ; a forge-join ;"
        " A2 restart 50ms"
    ),
    "a forged frame lets a server learn of a life that began elsewhere": (
        "servers=2 a=relaxed/None/from65534/16bit : a send ; a confirm B2 ; a again B2+599990us ;"
        " a send A1 ; a forge B1"
    ),
    "a forged frame lets a server learn that a session is over": (
        "servers=2 a=otaa/Drop/1.0.4 b=strict/Mark/from65533 : a join B1 B2+599990us ; wait 20ms ;"
        " b again B1 ; B restart ; a forge A1 B1+2s ; a join A2 A1+1599990us B1+1599990us B2+50ms ;"
        " a confirm A1 A2+2s"
    ),
    "a forged frame keeps a server from looking for a roll-over": (
        "servers=2 a=strict/None : a forge B1 ; a skip16383 ; a send A1 B1+300ms ; a skip16383 ;"
        " a send A1 B1+300ms ; a skip16383 ; a send A1 B1+300ms ; a skip16383 ;"
        " a send A1 B1+300ms ; a send B2"
    ),
    "what a repetition continues at a server that knows a later life": (
        "servers=2 a=relaxed/None/from16390 : a send A1 B1+1s ; a restart ; a send ; a send B1 ;"
        " replay2 B1 ; a skip20000 ; a send A1"
    ),
    "what its owner gives back was heard by nobody": (
        "servers=2 a=strict/None/from3 :"
        " A refuse 100ms ; a send A1 ; a again B1 ; a skip16383 ; a send A1"
    ),
    "nobody looks for a DevAddr again that forged frames had": (
        "servers=2 a=relaxed/None : a forge B1 ; a skip16383 ; a send A1 ; a skip16383 ;"
        " a send A1 ; a skip16383 ; a send A1 ; a skip16383 ; a send A1 ; a send A1 B1"
    ),
    "nobody finds the device of a session that is over": (
        "servers=2 a=otaa/None : a join A1 ; a send B1+1599990us ; B store 1s ; a join A1 ;"
        " a send B1 B2+1600010us A1"
    ),
    "a relaxed device may be in another life until a slow store has said": (
        "servers=2 a=relaxed/None/from3 :"
        " a send A1 ; a send ; A store 5s 80ms ; a again A1 ; replay2 A2"
    ),
    "a copy lets a server learn that a session is over": (
        "servers=2 a=otaa/Drop : a join A1 ; a send ; a again A1+1s ; a confirm A1 ;"
        " a again A1+600010us ; a join B1 ; a send B1"
    ),
    "a frame of a radio session that is over seems to be answered again": (
        "a=strict/None : a confirm A2 A1+30s ; A restart ; A1 restart~ 5ms"
    ),
    "who refused a copy as well spends no answer": (
        "servers=2 a=strict/None : A refuse 100ms ; B refuse ; a confirm A1 B1 ; wait 100ms ;"
        " a again B2 ; a again B2 ; a again B2 ; a again B2"
    ),
}


def quiet(text: str, done: int, total: int) -> None:
    """Nobody waits."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(1, 1 + size(1, 10)))
def test_no_history_breaks_a_law(seed: int) -> None:
    """Ten seconds of one processor, or 200 000 histories in parts of a minute or two."""
    explored = explore(Order(seed, histories=size(2_500, 20_000)), quiet)
    assert [f"{one.cause} in {one.history}" for one in explored.findings] == []
    assert explored.unknowable_share < UNKNOWABLE_MAX + size(0.005, 0)  # few are a matter of luck


@pytest.mark.parametrize("name", ONCE_BROKEN)
def test_what_broke_a_law_once_breaks_none(name: str) -> None:
    assert play_and_judge(read_history(ONCE_BROKEN[name])).causes == ()


@pytest.mark.parametrize("name", ONCE_BLAMED)
def test_what_was_no_fault_is_not_blamed(name: str) -> None:
    assert play_and_judge(read_history(ONCE_BLAMED[name])).causes == ()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_played_a_little_differently_breaks_none_as_it_stands(shape: History) -> None:
    assert play_and_judge(shape).causes == ()


def test_a_seed_is_explored_in_the_same_way_every_time() -> None:
    one, other = (explore_batch(7, 3, 40, Limits(), [("copy", "replay")]) for _ in range(2))
    assert (one.histories, one.receptions) == (40, other.receptions)
    assert one.met == other.met
    assert one.unknowable == other.unknowable


def test_limits_are_kept() -> None:
    limits = Limits(servers=(2,), devices_max=1, faults=False)
    for seed in range(100):
        history = random_history(stream(seed, "limits"), limits)
        assert (history.servers, len(history.devices)) == (2, 1)
        assert {type(step).__name__ for step in history.steps}.isdisjoint(
            {"Store", "Upstream", "ServerRestart", "StationRestart", "Empty"}
        )


@pytest.mark.parametrize("wish", RECIPES)
def test_a_wish_brings_its_situation_about(wish: str) -> None:
    met = set()
    for seed in range(size(30, 300)):
        history = random_history(stream(seed, "wish", wish), Limits(), (wish, "copy"))
        met |= {first for first, _ in pairs_met(play_and_judge(history).trace)}
    assert wish in met or wish == "silence"


def test_the_rarest_pairs_are_wished_for() -> None:
    batch = explore_batch(1, 1, 60, Limits(), [ALL_PAIRS[0]])
    missing = holes(batch.met)
    wished = wishes(batch.met, stream(1, "wishes"), 10)
    assert set(wished) <= set(missing)
    never = len(RECIPES) ** 2 - len(ALL_PAIRS)
    assert sum(line.count(" .") for line in table(batch.met)) == len(missing) + never


def test_a_broken_law_is_drawn() -> None:
    judged = play_and_judge(read_history("a=strict/Drop : a confirm A1 A2+300ms ; A restart"))
    lines = drawing(judged)
    assert lines[0] == "    time s  A1 A2"
    assert lines[1] == "  0.000000  ●  ·   a FCnt 0, confirmed"
    assert lines[3].endswith("again: a FCnt 0, confirmed, 300 ms late")
    assert lines[-1].endswith("server A has restarted") or "another session" in lines[-1]


def test_what_is_kept_is_read_again_and_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    history = read_history("servers=2 a=otaa/None : a join A1 ; a send B1")
    assert [case.id for case in keep_histories(file, [("a law", history)])] == ["X01"]
    assert keep_histories(file, [("the same", history)]) == []
    (case,) = read_histories(file)
    assert (case.title, case.history) == ("a law", history)
    assert [type(step) for step in case.history.steps] == [Join, Send]


def test_a_file_that_keeps_no_histories_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="keeps no histories"):
        read_histories(file)
    file.write_text('{"cases": [{"id": "X01", "title": "", "history": "?"}]}', encoding="utf-8")
    with pytest.raises(ValueError, match="case 1 cannot be read"):
        read_histories(file)


def test_ctrl_c_ends_in_what_was_explored_so_far() -> None:
    def typed(what: str, done: int, whole: int) -> None:
        raise KeyboardInterrupt

    explored = explore(Order(1, histories=300), typed)
    assert explored.interrupted
    assert explored.batch.histories == 100


def test_no_two_kept_histories_have_one_id(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    plain, other = (read_history(f"a=strict/{word} : a send A1") for word in ("None", "Mark"))
    keep_histories(file, [("one", plain)])
    file.write_text(file.read_text("utf-8").replace("X01", "X02"), "utf-8")
    assert [case.id for case in keep_histories(file, [("two", other)])] == ["X03"]
    file.write_text(file.read_text("utf-8").replace("X03", "X02"), "utf-8")
    with pytest.raises(ValueError, match="case 2 has the id X02, as one before it"):
        read_histories(file)


def test_without_faults_nothing_fails() -> None:
    batch = explore(Order(1, histories=500, limits=Limits(faults=False)), quiet).batch
    failing = set(ALL_PAIRS) - set(PAIRS_WITHOUT_FAULTS)
    assert ("server restart", "copy") in failing
    assert not [pair for pair in failing if batch.met[pair]]
