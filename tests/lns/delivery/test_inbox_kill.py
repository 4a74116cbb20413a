"""A consumer that is killed at any moment: every effect once, and nothing lost.

What was not acknowledged is offered again, as a broker does it, and a little of what was.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.sizes import size

ROOT = Path(__file__).resolve().parents[3]
KILLS = int(os.environ.get("LORABENCH_INBOX_KILLS", size(4, 40)))
SEED = int(os.environ.get("LORABENCH_KILL_SEED", "1"))
MESSAGES = 60 * KILLS
AGAIN = 15  # so many that were acknowledged come again nevertheless


class Consumer:
    """The process, life after life, and what it has said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: dict[str, Counter[int]] = {
            word: Counter() for word in ("accepted", "ignored", "acknowledged")
        }
        self.ended = 0

    def live(self, first: int, *, kill_after: int | None, wait_s: float) -> None:
        """Offer messages from one on; killed `wait_s` after so many lines."""
        script = Path(__file__).with_name("inbox_process.py")
        command = [sys.executable, str(script), str(self.folder), str(first), str(MESSAGES)]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        ) as process:
            assert process.stdout is not None
            for number, line in enumerate(process.stdout, start=1):
                word, f_cnt = line.split()
                self.said[word][int(f_cnt)] += 1
                if number == kill_after:
                    time.sleep(wait_s)  # noqa: TID251 - the moment of the kill is any moment
                    process.kill()
        assert process.returncode in (0, -signal.SIGKILL), "it ended by itself"
        self.ended += process.returncode == 0

    def next_to_send(self) -> int:
        """The first message that the broker has not heard of, and a little before."""
        known = self.said["acknowledged"]
        first = next((n for n in range(1, MESSAGES + 1) if n not in known), MESSAGES)
        return max(1, first - AGAIN)


def test_every_effect_is_there_once_however_often_the_consumer_is_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    consumer = Consumer(tmp_path)
    for _ in range(KILLS):
        lines, wait_s = chance.randint(1, 120), chance.choice([0.0, 0.0005, 0.002, 0.005, 0.02])
        consumer.live(consumer.next_to_send(), kill_after=lines, wait_s=wait_s)
    consumer.live(consumer.next_to_send(), kill_after=None, wait_s=0)

    lines = (tmp_path / "up.jsonl").read_text("utf-8").splitlines()
    written = [json.loads(line) for line in lines]
    assert [line["body"]["sequenceNumber"] for line in written] == list(range(1, MESSAGES + 1))
    assert [line["position"] for line in written] == list(range(1, MESSAGES + 1))
    said = consumer.said
    assert set(said["acknowledged"]) == set(range(1, MESSAGES + 1))
    # Killed between the commit and the telling: the event is missing, never told twice.
    assert set(said["accepted"].values()) == {1}
    untold = set(range(1, MESSAGES + 1)) - set(said["accepted"])
    assert untold <= set(said["ignored"])
    print(
        f"seed {SEED}: {KILLS - consumer.ended + 1} kills, {MESSAGES} messages,"
        f" {sum(said['ignored'].values())} repeats ignored, {len(untold)} accepted and not told"
    )
