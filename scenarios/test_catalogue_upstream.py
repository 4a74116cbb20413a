"""The catalogue's situations between the network server and the application."""

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from scenarios.words import COPY, FIRST, TOO_LATE

AGAIN_IN_RX2 = Table("""
    strategy kind      | again
    Drop     confirmed | DuplicateDueToResubmission dropped(ResubmissionSuppressed) RX2
    Mark     confirmed | DuplicateDueToResubmission marked RX2
    None     confirmed | DuplicateDueToResubmission forwarded RX2
""")
LOST = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate dropped(UpstreamUnavailable) Suppressed
    *        unconfirmed | NonDuplicate dropped(UpstreamUnavailable) NotAsked
""")


@pytest.mark.requires("slow application")
async def test_a_retry_waits_until_the_first_copy_is_upstream(rig, strategy):
    """A retry is judged when the first copy has found its end, and answered if there is time.

    Catalogue: B18.
    """
    rig.only("west")
    rig.delay_upstream(seconds(5))
    uplink = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(uplink, by="west"), by="west")
    await rig.replay(uplink, by="west", after=seconds(4))
    rig.expect(uplink, TOO_LATE + AGAIN_IN_RX2, first="west", again="west")


@pytest.mark.requires("slow application")
async def test_a_retry_of_a_frame_that_was_not_delivered_is_a_first_copy(rig, strategy, confirmed):
    """What could not go upstream was not heard: the retry is forwarded, unmarked, and answered.

    Catalogue: B19.
    """
    rig.only("west")
    rig.refuse_upstream()
    uplink = await rig.alpha.send(confirmed=confirmed, retries=1, transmissions=2)
    rig.expect(uplink, LOST + FIRST, first="west")
    rig.expect_reply(uplink)


@pytest.mark.requires("slow application")
async def test_nothing_is_acknowledged_before_it_is_delivered(rig, strategy):
    """The device hears no answer to a frame that the application did not get.

    Catalogue: F05.
    """
    rig.only("west")
    rig.refuse_upstream()
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, LOST, first="west")
    rig.expect_on_air(uplink)
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_FAILED(4)")


async def test_every_message_tells_how_its_own_station_heard_it(rig, strategy):
    """Each forwarded copy carries station, strength and frequency of its own reception.

    Catalogue: C19.
    """
    for station, weaker_db in {"west": 0, "east": 10, "north": 20}.items():
        rig.station(station).weaken(weaker_db)
        rig.station(station).delay_uplinks(5_000 * weaker_db)
    uplink = await rig.alpha.send()
    rig.expect(uplink, FIRST + COPY * 2, first="west", copy=("east", "north"))
    rig.expect_upstream(uplink, through="west", rssi=-86, snr=12, dr=5)
    rig.expect_upstream(uplink, through="east", rssi=-96, snr=12, dr=5)
    rig.expect_upstream(uplink, through="north", rssi=-106, snr=11, dr=5)
