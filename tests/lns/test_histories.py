"""Whatever befalls a device and its servers, no law is broken: random histories.

`LORABENCH_SOAK=1` plays a hundred thousand of them.
"""

import os

import pytest

from bench.chance import stream
from tests.lns.played_history import laws_broken_by
from tests.reference.histories import History, random_history, shortest

PARTS = 10
HISTORIES = 100_000 if os.environ.get("LORABENCH_SOAK") == "1" else 1_000


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
