"""The catalogue's situations of time and memory: a paused server, a restart at the wrong moment."""

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from scenarios.words import EXPIRED, FIRST

AFTER_THE_PAUSE = Table("""
    strategy kind        | copy
    *        confirmed   | NonDuplicate forwarded TooLate
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")


async def test_a_copy_that_waits_longer_than_the_minute_is_new(rig, strategy, confirmed):
    """The retention counts from when frames are handled: a pause of the server splits copies.

    Catalogue: A14. The tap holds the second copy back for as long as the pause would.
    """
    rig.east.delay_uplinks(seconds(65))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + AFTER_THE_PAUSE, first="west", copy="east")


@pytest.mark.fault("lns", "restart")
async def test_a_retry_after_a_crash_is_the_same_message(rig, strategy):
    """What went up before a crash goes up again under the same message id.

    Catalogue: F04. The counter was not durable yet when the server crashed, and the answer is lost.
    """
    rig.only("west")
    rig.west.suppress_downlinks(1)
    delta = rig.provision("delta", dev_addr_text="26000042", f_cnt=10)
    uplink = await delta.send(confirmed=True)
    await rig.restart_lns(f_cnt_up=9)
    await rig.replay(uplink, by="west", after=seconds(4))
    rig.expect(uplink, FIRST + FIRST, first="west")
    rig.expect_upstream(uplink, through="west", messageId=f"{uplink.dev_eui}-26000042-10")


async def test_an_uplink_redelivered_an_hour_later_is_stopped_by_its_counter(rig, strategy):
    """A transport that delivers an old text once more finds the counter in its way.

    Catalogue: I10.
    """
    rig.only("west")
    rig.west.repeat_uplinks(seconds(3_600))
    uplink = await rig.alpha.send()
    rig.expect(uplink, FIRST + EXPIRED, first="west", again="west")
