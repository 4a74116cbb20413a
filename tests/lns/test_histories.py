"""Whatever befalls a device and its servers, no law is broken: random histories."""

import pytest

from bench.chance import stream
from tests.lns.played_history import laws_broken_by
from tests.reference.histories import (
    Again,
    Heard,
    History,
    Replay,
    Restart,
    Send,
    SlowUpstream,
    random_history,
    shortest,
)
from tests.sizes import size

PARTS = 10
HISTORIES = size(1_000, 50_000)

LATE_US = 300_000
A, B = (Heard(0, 0, 0), Heard(0, 1, LATE_US)), (Heard(1, 0, 0), Heard(1, 1, LATE_US))
NOBODY = Send(False, ())
# What broke a law once, cut down to what matters.
ONCE_BROKEN = {
    "counter kept without its frame": (
        "strict", 3,
        Restart(memory=False), NOBODY, NOBODY, Send(True, B[:1]),
        Restart(memory=False), NOBODY, NOBODY, Send(False, (*A, *B)),
    ),
    "repetition that waits while the device begins again": (
        "relaxed", 16_380,
        SlowUpstream(1, 1_500_000), Send(True, B[:1]), Again((B[0], A[1])),
        Restart(memory=False), Send(False, B[1:]),
    ),
    "late copies of an older frame": (
        "strict", 0,
        NOBODY, NOBODY, Send(True, (*A, B[0])), Send(True, (*A, B[1])), Replay(1, B[:1]),
    ),
    "first message that nobody heard, replayed": (
        "relaxed", 0,
        NOBODY, Send(True, A), Send(True, A), Send(True, (*A, *B)),
        Replay(3, A[:1]), Again((*A, *B)),
    ),
}  # fmt: skip


def broken(history: History) -> list[str]:
    try:
        return laws_broken_by(history)
    except Exception as error:  # a crash is a broken law too
        return [f"{type(error).__name__}: {error}"]


@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_history_breaks_a_law(part: int) -> None:
    for number in range(HISTORIES // PARTS):
        chance = stream(number, "history", str(part))
        history = random_history(chance)
        found = broken(history)
        if found:
            least = shortest(history, lambda shorter: bool(broken(shorter)))
            acts = "\n  ".join(map(str, least.acts))
            pytest.fail(
                f"history {part}.{number}: {found}\nshortest: {broken(least)}\n{least.kind}"
                f" {least.strategy}, {least.servers} servers, begins at {least.begins_at}\n  {acts}"
            )


@pytest.mark.parametrize("strategy", ["Drop", "Mark", "None"])
@pytest.mark.parametrize("name", ONCE_BROKEN)
def test_what_broke_a_law_once_breaks_none(name: str, strategy: str) -> None:
    kind, begins_at, *acts = ONCE_BROKEN[name]
    assert broken(History(kind, strategy, 2, begins_at, tuple(acts))) == []
