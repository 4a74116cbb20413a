"""A confirmed frame whose answer did not come in time: ADR 007, "missed window"."""

import pytest

from bench.clock import milliseconds, seconds
from bench.virtual.stacks import LORAMAC_44
from scenarios.words import AGAIN, COPY, FIRST, IN_RX2, OVER, TOO_LATE


async def test_the_retry_is_heard_by_the_same_station(rig, strategy):
    """The same station again is a resubmission: the answer is repeated, Drop sends no data."""
    rig.only("west")
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True, retries=3)
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


@pytest.mark.requires("virtual time")
async def test_every_second_retry_is_slower_and_answered_as_fast_as_it_came(rig, strategy):
    """An older device goes down one data rate after every second try (LoRaWAN 1.0.3, 19)."""
    older = rig.provision("older", stack=LORAMAC_44, lorawan="1.0.3", f_cnt=10, strategy=strategy)
    rig.only("west")
    rig.west.suppress_downlinks(3)
    uplink = await older.send(confirmed=True, retries=3)
    rig.expect(uplink, FIRST + AGAIN * 3, first="west", again="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


async def test_the_retry_is_heard_by_the_other_station(rig, strategy):
    """A retry that only another station hears is a copy; nobody answers it (a gap of the ADR)."""
    rig.heard_by("west", "east")
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_FAILED(4)")


async def test_the_retry_is_heard_by_both_stations(rig, strategy):
    """Each transmission is judged by its own receptions; the owner answers the retry."""
    rig.east.delay_uplinks(milliseconds(100))
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True, retries=3)
    rig.expect(uplink, FIRST + COPY + AGAIN + COPY, first="west", again="west", copy="east")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


async def test_the_retry_reaches_the_owner_again_after_the_other(rig, strategy):
    """The first station stays the owner, however many copies come through others."""
    rig.heard_by("west", "east", "west")
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True, retries=2)
    rig.expect(uplink, FIRST + COPY + AGAIN, first="west", copy="east", again="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


async def test_the_answer_moves_to_rx2_when_the_uplink_was_slow(rig, strategy):
    """An uplink too late for RX1 is answered in RX2."""
    rig.only("west")
    rig.west.delay_uplinks(milliseconds(800))
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, IN_RX2, first="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


async def test_the_station_moves_a_late_answer_to_rx2(rig, strategy):
    """An answer that misses RX1 on its way down still finds RX2 in the same message."""
    rig.only("west")
    rig.west.delay_downlinks(milliseconds(1_100))
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


async def test_an_uplink_late_for_both_windows_is_answered_at_the_retry(rig, strategy):
    """Too late is said so and costs no answer; the retry gets one."""
    rig.only("west")
    rig.west.delay_uplinks(milliseconds(2_000), receptions=1)
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, TOO_LATE + AGAIN, first="west", again="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


async def test_an_answer_late_for_both_windows_is_repeated_at_the_retry(rig, strategy):
    """The station drops an answer that comes too late; the device asks again."""
    rig.only("west")
    rig.west.delay_downlinks(milliseconds(2_500), downlinks=1)
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


async def test_the_fourth_resubmission_is_over_the_limit(rig, strategy):
    """A counter value is answered four times in all; then neither answer nor data."""
    rig.only("west")
    rig.west.suppress_downlinks(9)
    uplink = await rig.alpha.send(confirmed=True, retries=5)
    rig.expect(uplink, FIRST + AGAIN * 3 + OVER * 2, first="west", again="west", over="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_FAILED(4)")


async def test_the_limit_begins_anew_with_the_next_counter(rig, strategy):
    """What one frame spent is not charged to the next one."""
    rig.only("west")
    rig.west.suppress_downlinks(9)
    spent = await rig.alpha.send(confirmed=True, retries=3)
    fresh = await rig.alpha.send(confirmed=True, retries=3)
    rig.expect(spent, FIRST + AGAIN * 3, first="west", again="west")
    rig.expect(fresh, FIRST + AGAIN * 3, first="west", again="west")


async def test_copies_do_not_use_up_the_limit(rig, strategy):
    """Soft duplicates of five stations cost no resubmission."""
    others = ("east", "north", "south", "uphill")
    for place, station in enumerate(others, start=1):
        rig.station(station).delay_uplinks(milliseconds(100 * place))
    rig.west.suppress_downlinks(3)
    uplink = await rig.alpha.send(confirmed=True, retries=3)
    receptions = FIRST + COPY * 4 + (AGAIN + COPY * 4) * 3
    rig.expect(uplink, receptions, first="west", again="west", copy=others)
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


async def test_unconfirmed_repetitions_are_dropped_by_validation(rig, strategy):
    """NbTrans repetitions of an unconfirmed frame go up once, whatever the strategy."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=False, transmissions=3)
    rig.expect(uplink, FIRST + AGAIN * 2, first="west", again="west")


async def test_the_server_asks_for_repetitions_with_a_mac_command(rig, strategy):
    """LinkADRReq sets NbTrans; the repetitions of the next frame are resubmissions."""
    delta = rig.provision("delta", nb_trans=2, strategy=strategy)
    rig.only("west")
    asked = await delta.send(confirmed=True)
    await rig.wait(seconds(5))
    repeated = await delta.send(confirmed=False)
    rig.expect(asked, FIRST, first="west")
    rig.expect(repeated, FIRST + AGAIN, first="west", again="west")
