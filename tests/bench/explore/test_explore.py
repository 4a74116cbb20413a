"""Whatever befalls devices and servers, no law is broken, and every word is the model's.

`LORABENCH_SOAK=1` explores as many histories as a night does not.
"""

from pathlib import Path

import pytest

from bench.chance import stream
from bench.explore.explore import (
    ALL_PAIRS,
    PAIRS_WITHOUT_FAULTS,
    Order,
    drawing,
    explore,
    explore_batch,
    holes,
    pairs_met,
    play_and_judge,
    table,
    wishes,
)
from bench.explore.generate import RECIPES, Limits, random_history
from bench.explore.history import (
    KEPT,
    Join,
    KeptHistory,
    Send,
    keep_histories,
    read_histories,
    read_history,
)
from tests.sizes import size

UNKNOWABLE_MAX = 0.02


def quiet(text: str, done: int, total: int) -> None:
    """Nobody waits."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(1, 1 + size(1, 10)))
def test_no_history_breaks_a_law(seed: int) -> None:
    """Ten seconds of one processor, or 200 000 histories in parts of a minute or two."""
    explored = explore(Order(seed, histories=size(2_500, 20_000)), quiet)
    assert [f"{one.cause} in {one.history}" for one in explored.findings] == []
    assert explored.unknowable_share < UNKNOWABLE_MAX + size(0.005, 0)  # few are a matter of luck


# What the score cannot know of a frame that somebody forged; in memory it can be judged.
FORGED = (
    "servers=2 a=relaxed/None/from65534/16bit : a send ; a confirm B2 ; a again B2+599990us"
    " ; a send A1 ; a forge B1",
    "servers=2 a=otaa/Drop/1.0.4 b=strict/Mark/from65533 : a join B1 B2+599990us ; wait 20ms"
    " ; b again B1 ; B restart ; a forge A1 B1+2s"
    " ; a join A2 A1+1599990us B1+1599990us B2+50ms ; a confirm A1 A2+2s",
)


@pytest.mark.parametrize("history", FORGED)
def test_what_a_forged_frame_lets_a_server_learn_breaks_no_law(history: str) -> None:
    assert play_and_judge(read_history(history)).causes == ()


@pytest.mark.parametrize("kept", read_histories(KEPT), ids=lambda kept: kept.id)
def test_what_was_found_once_breaks_no_law(kept: KeptHistory) -> None:
    assert play_and_judge(kept.history).causes == ()


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
    for case, why in (
        ('"id": "X01", "title": "", "history": "?"', "there is no colon in it"),
        ('"id": "X01", "title": "", "history": 7', "id, title and history are texts"),
        ('"title": "", "history": "?"', "'id' is missing"),
    ):
        file.write_text(f'{{"cases": [{{{case}}}]}}', encoding="utf-8")
        with pytest.raises(ValueError, match=f"case 1 cannot be read: .*{why}"):
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
