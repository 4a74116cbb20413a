"""A restarted device that happens to send the same measurement: ADR 007, same concentrator."""

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import AGAIN, COPY, EXPIRED, FIRST, OVER

FIRST_AGAIN = Table("""
    strategy kind        | again
    Drop     confirmed   | DuplicateDueToResubmission dropped(ResubmissionSuppressed) RX1
    Mark     confirmed   | DuplicateDueToResubmission marked RX1
    None     confirmed   | DuplicateDueToResubmission forwarded RX1
    Drop     unconfirmed | DuplicateDueToResubmission dropped(ResubmissionSuppressed) NotAsked
    Mark     unconfirmed | DuplicateDueToResubmission marked NotAsked
    None     unconfirmed | DuplicateDueToResubmission forwarded NotAsked
""")

REFUSED = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")


async def test_a_relaxed_device_sends_its_first_measurement_again(rig, strategy, confirmed):
    """The first message may go up again: it could be a restarted device (first-message rule)."""
    device = rig.provision("relaxed", strategy=strategy)
    rig.only("west")
    uplink = await device.send(b"21.5 C", confirmed=confirmed)
    await device.restart(memory=False)
    await device.send(b"21.5 C", confirmed=confirmed)
    rig.expect(uplink, FIRST + FIRST_AGAIN, first="west", again="west")


async def test_a_first_measurement_without_an_answer_may_come_at_any_time(rig, strategy):
    """Only answers are counted, and none is given."""
    device = rig.provision("relaxed", strategy=strategy)
    rig.only("west")
    uplink = await device.send(b"21.5 C")
    for _ in range(4):
        await device.restart(memory=False)
        await device.send(b"21.5 C")
    rig.expect(uplink, FIRST + FIRST_AGAIN * 4, first="west", again=("west",) * 4)


async def test_the_same_first_measurement_through_the_other_station(rig, strategy, confirmed):
    """Heard elsewhere, the first measurement of a new life is a copy; with Drop it is lost."""
    device = rig.provision("relaxed", strategy=strategy)
    rig.heard_by("west", "east")
    uplink = await device.send(b"21.5 C", confirmed=confirmed)
    await device.restart(memory=False)
    await device.send(b"21.5 C", confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")


async def test_a_relaxed_device_goes_on_from_its_first_counter(rig, strategy, confirmed):
    """Another first measurement is new; the counter starts again and the next frame passes."""
    device = rig.provision("relaxed", strategy=strategy)
    rig.only("west")
    before = [await device.send(b"old", confirmed=confirmed) for _ in range(3)]
    await device.restart(memory=False)
    after = [await device.send(b"new", confirmed=confirmed) for _ in range(2)]
    for uplink in before + after:
        rig.expect(uplink, FIRST, first="west")


async def test_a_device_that_remembers_its_counter_sends_something_new(rig, strategy, confirmed):
    """A restart with memory is no restart for the network server."""
    device = rig.provision("relaxed", strategy=strategy)
    rig.only("west")
    before = await device.send(b"21.5 C", confirmed=confirmed)
    await device.restart(memory=True)
    after = await device.send(b"21.5 C", confirmed=confirmed)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


async def test_a_strict_device_cannot_start_its_counter_again(rig, strategy, confirmed):
    """A strict ABP device that forgets its counter is refused until it passes the old one."""
    device = rig.provision("strict", strategy=strategy, relaxed_f_cnt=False)
    rig.only("west")
    before = [await device.send(b"old", confirmed=confirmed) for _ in range(2)]
    await device.restart(memory=False)
    refused = await device.send(b"new", confirmed=confirmed)
    for uplink in before:
        rig.expect(uplink, FIRST, first="west")
    rig.expect(refused, REFUSED, first="west")


async def test_a_strict_device_sends_its_first_measurement_again(rig, strategy, confirmed):
    """A strict device cannot have restarted: unconfirmed it is dropped, confirmed answered."""
    device = rig.provision("strict", strategy=strategy, relaxed_f_cnt=False)
    rig.only("west")
    uplink = await device.send(b"21.5 C", confirmed=confirmed)
    await device.restart(memory=False)
    await device.send(b"21.5 C", confirmed=confirmed)
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")


async def test_an_otaa_device_joins_again_and_starts_a_new_session(rig, strategy, confirmed):
    """After a re-join the same measurement with the same counter is a new frame."""
    device = rig.provision("joiner", activation="otaa", strategy=strategy)
    rig.only("west")
    first_join = await device.join()
    before = await device.send(b"21.5 C", confirmed=confirmed)
    await device.restart(memory=False)
    second_join = await device.join()
    after = await device.send(b"21.5 C", confirmed=confirmed)
    for join in (first_join, second_join):
        rig.expect(join, FIRST, first="west")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


async def test_a_restart_after_the_retention_is_a_new_first_message(rig, strategy, confirmed):
    """After sixty seconds of silence the same first measurement is new again."""
    device = rig.provision("relaxed", strategy=strategy)
    rig.only("west")
    uplink = await device.send(b"21.5 C", confirmed=confirmed)
    await device.restart(memory=False)
    await rig.wait(seconds(61))
    await device.send(b"21.5 C", confirmed=confirmed)
    rig.expect(uplink, FIRST + FIRST, first="west")


@pytest.mark.fault("lns", "restart")
async def test_the_network_server_restarts_between_two_copies(rig, strategy, confirmed):
    """A restart of the server empties level 1; the counters outlive it and still judge."""
    rig.only("west")
    uplink = await rig.alpha.send(b"21.5 C", confirmed=confirmed)
    await rig.restart_lns()
    await rig.replay(uplink, by="east")
    rig.expect(uplink, FIRST + EXPIRED, first="west", again="east")


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_an_old_first_message_is_answered_no_more_often_than_any_other(rig, strategy):
    """Its device has sent a newer one since: three answers are repeated, and no fourth."""
    device = rig.provision("relaxed", f_cnt=0, strategy=strategy)
    first = await hear(rig, device, "west", confirmed=True)
    newer = await hear(rig, device, "west")
    for _ in range(4):
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    rig.expect(first, FIRST + AGAIN * 3 + OVER, first="west", again=("west",) * 3, over="west")
    rig.expect(newer, FIRST, first="west")
