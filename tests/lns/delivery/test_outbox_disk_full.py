"""A disk that is really full: what is refused, what stays, and how it goes on with more room.

The disk is a tmpfs of 3 MiB in a mount namespace of its own, which needs no root.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--map-root-user", "--mount"]
STORY = """
import asyncio, json, subprocess, sys
from pathlib import Path
from lns.delivery.outbox import Outbox
from lns.delivery.outbox import state_of
from lns.delivery.publisher import UpstreamUnavailable
from tests.lns.delivery.sending import message

folder = Path(sys.argv[1])
path = folder / "lns-a.outbox"
mount = ["mount", "-t", "tmpfs", "-o"]
subprocess.run([*mount, "size=3M", "tmpfs", str(folder)], check=True)

async def add(outbox, numbers):
    for number in numbers:
        try:
            await outbox.add(message(number))
        except UpstreamUnavailable as unavailable:
            return number, str(unavailable)

async def story():
    outbox = Outbox(path)
    taken, said = await add(outbox, range(100_000))
    refused_again = (await add(outbox, [taken]))[0] == taken
    waiting = outbox.waiting
    outbox.close()
    again = Outbox(path)
    survived = [entry.message_id for entry in await again.after(0, 100_000)]
    subprocess.run([*mount, "remount,size=16M", "tmpfs", str(folder)], check=True)
    assert await add(again, [taken]) is None
    entries = await again.after(0, 100_000)
    await again.remove([entry.position for entry in entries])
    await again.compact()
    print(json.dumps({
        "taken": taken,
        "said": said,
        "refused_again": refused_again,
        "waiting": waiting,
        "survived": survived == [message(number).message_id for number in range(taken)],
        "numbers": [entry.sequence_number for entry in entries] == list(range(1, taken + 2)),
        "left": state_of(path).waiting,
    }))
    again.close()

asyncio.run(story())
"""


def test_a_full_disk_refuses_keeps_and_recovers(tmp_path: Path) -> None:
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", STORY, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("taken") > 100
    assert "cannot be written: database or disk is full" in found.pop("said")
    assert found.pop("waiting") > 100
    assert found == {"refused_again": True, "survived": True, "numbers": True, "left": 0}
