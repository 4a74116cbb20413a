"""Which frame is this: what was refused, waited for or came back keeps its name and its answers."""

import pytest

from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import COPY, FIRST

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

OLD = Table("""
    strategy kind        | old
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")


def key_of(device, f_cnt, frame=None, life=0):
    """The name of a frame; with `frame` another one has, or may have, the one without its MIC."""
    provisioned = device.provisioned
    in_life = f".{life}" if life else ""
    mic = f".{frame.phy[-4:].hex().upper()}" if frame else ""
    return f"{provisioned.dev_eui}-{provisioned.dev_addr}{in_life}-{f_cnt}{mic}"


async def test_what_was_refused_has_a_name_of_the_life_that_it_was_refused_in(rig):
    """The device is back in its first life, where an old frame is refused; then it begins again.

    A copy of that frame is no older than the newest life: it goes up, with the name of the first.
    """
    device = rig.provision("relaxed", f_cnt=500, strategy="Mark")
    for f_cnt in (500, 0, 501):
        rig.expect(await hear(rig, device, "west", f_cnt=f_cnt), FIRST, first="west")
    old = await hear(rig, device, "west", f_cnt=300)
    rig.expect(await hear(rig, device, "west", f_cnt=1), FIRST, first="west")
    await tell(rig, old, "east")
    rig.expect(old, OLD + COPY, old="west", copy="east")
    rig.expect_upstream(old, through="east", removeDuplicatesKey=key_of(device, 300, old))


async def test_what_was_refused_is_not_the_newest_frame_of_which_nobody_knows_the_bytes(rig):
    """The server knows how far the session came, and nothing else of that frame."""
    device = rig.provision("relaxed", f_cnt=501, strategy="Mark")
    old = await hear(rig, device, "west", f_cnt=300)
    rig.expect(await hear(rig, device, "west", f_cnt=0), FIRST, first="west")
    await tell(rig, old, "east")
    rig.expect(old, OLD + COPY, old="west", copy="east")
    rig.expect_upstream(old, through="east", removeDuplicatesKey=key_of(device, 300, old))
