"""Is a history the same after it was written down?"""

import pytest

from bench.chance import stream
from bench.explore.explore import play_and_judge
from bench.explore.generate import Limits, random_history
from bench.explore.history import (
    Device,
    Heard,
    History,
    Send,
    StationRestart,
    Store,
    read_history,
)
from bench.explore.rig_stage import missing

TEXT = (
    "servers=2 closed a=relaxed/Mark/from3/alike b=otaa/None/16bit/pinnedA/1.0.4 :"
    " a confirm=? A1 B2+300ms ; b join~ A1 ; b forge-join B1 ; a again A2 ; replay3 A1 ;"
    " a restart ; a reboot ; a skip16384 ; b down A ; A restart ; A1 restart= 2s ;"
    " A1 restart=~ 2s ; B slow 120ms ; B refuse ; B refuse 1500ms ; empty ; A store 5s ;"
    " A store 5s 20ms ; wait 59940001us"
)


def test_a_history_is_a_line_of_text() -> None:
    assert str(read_history(TEXT)) == TEXT


def test_the_text_says_who_heard_what_and_how_late() -> None:
    history = read_history("a=strict/Drop : a send A1 A3+7us ; A2 restart 5s ; A store 1s 40ms")
    assert history == History(
        1,
        (Device("strict", "Drop"),),
        (
            Send(0, False, (Heard(0, 0), Heard(0, 2, 7))),
            StationRestart(0, 1, 5_000_000),
            Store(0, 1_000_000, 40_000),
        ),
    )


@pytest.mark.parametrize("seed", range(50))
def test_random_histories_are_read_as_they_were_written(seed: int) -> None:
    history = random_history(stream(seed, "history"), Limits())
    assert read_history(str(history)) == history


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=relaxed/Mark", "no colon"),
        ("servers=4 a=relaxed/Mark :", "cannot read 'servers=4'"),
        (": a send A1", "at least one device"),
        ("a=loose/Mark :", "kind/strategy"),
        ("a=relaxed/Mark/x :", "cannot read 'x' of a device"),
        ("a=relaxed/Mark : a send B1", "no server B"),
        ("a=relaxed/Mark : b send A1", "no device b"),
        ("a=relaxed/Mark : a send A9", "'A9' is no station"),
        ("a=relaxed/Mark : a sings", "does not 'sings'"),
        ("a=relaxed/Mark : wait 5", "'5' is no time"),
        ("a=relaxed/Mark : A slow", "cannot read the step 'A slow'"),
        ("a=relaxed/Mark : nobody knows", "cannot read the step 'nobody knows'"),
        ("a=strict/Mark b=strict/Mark c=strict/Mark d=strict/Mark :", "cannot read 'd=strict"),
        ("a=otaa/Mark/from5 :", "'from5' of a device that is otaa"),
        ("a=strict/Mark/from4294967296 :", "no number from 0 to 4294967295"),
        ("a=strict/Mark/16bit/from65536 :", "does not begin at 65536"),
        ("a=strict/Mark : a skip-1", "'-1' is no number"),
        ("a=strict/Mark : replay-1 A1", "'-1' is no number"),
        ("a=strict/Mark : a send A1 A1+1s", "A1 hears a frame once"),
        ("a=strict/Mark : A slow", "a word is missing"),
        ("a=strict/Mark : A slow 10s", "9s at most"),
        ("a=strict/Mark : A store 5s 250ms", "is away: store 5s"),
        ("a=strict/Mark : wait 999999999s", "is longer than"),
        ("a=strict/Mark : wait 252288000s ; wait 1s", "it takes longer than"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_history(text)


@pytest.mark.parametrize(
    "text",
    [
        "a=strict/None/from4294967295 : a send A1 ; a send A1 ; a again A1",
        "a=strict/None : A slow 9s ; a send A1",
        "servers=2 a=strict/None : A store 5s 240ms ; a confirm A1 ; a confirm A1",
    ],
    ids=["the last counter of all", "as slow as can be", "as late as can be"],
)
def test_a_history_at_the_edge_of_what_can_be_played_breaks_no_law(text: str) -> None:
    assert play_and_judge(read_history(text)).causes == ()


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("a down A ; a send A1 ; A1 restart= 2s", "on its way to its window when its station goes"),
        ("a down A ; a send A1 ; a down A", "a downlink waits while the one before is on its way"),
        ("a down A ; a send A1", None),
        ("a send A1 ; A1 restart= 2s", None),
    ],
)
def test_a_rig_says_what_it_cannot_play(steps: str, why: str | None) -> None:
    said = missing(read_history(f"a=strict/Drop : {steps}"))
    assert said is None if why is None else why in (said or "")
