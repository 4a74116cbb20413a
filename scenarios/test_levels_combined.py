"""Level 1 within two servers and level 2 between them: every combination of the two policies."""

import pytest

from bench.clock import milliseconds
from scenarios.two_levels import SERVERS, STATIONS, due, orders

BETWEEN_US = milliseconds(120)  # far enough apart that the order is certain on any wire
NOBODY_OR_ONE = ((), *((station,) for station in STATIONS))


def every_order(scenario):
    """The scenario once for each order in which the stations may hear a transmission."""
    return pytest.mark.parametrize("order", orders(), ids="-".join)(scenario)


@every_order
async def test_a_frame_is_heard_and_then_again_by_any_station(rig, strategy, confirmed, order):
    """Some hear a frame, in every order; then it comes once more through one of all stations.

    Of five frames the first is left alone, each other one is heard again by another station.
    """
    _build(rig, order)
    rig.only(*order)
    for again in NOBODY_OR_ONE:
        uplink = await rig.alpha.send(confirmed=confirmed)
        for station in again:
            await rig.replay(uplink, by=station, after=milliseconds(500))
            # Its answer leaves before the next frame: a station that sends does not hear.
            await rig.wait(milliseconds(1_200 if confirmed else 200))
        _expect(rig, uplink, *order, *again)
        rig.expect_reply(uplink)


@every_order
@pytest.mark.requires("virtual time")
async def test_a_device_repeats_what_some_have_heard_to_any_station(
    rig, strategy, confirmed, order
):
    """Some hear a frame, in every order, and the device repeats it to nobody, to one or to all.

    The owner answers the retry of a confirmed frame through its first station; whoever else hears
    it says nothing. What was not confirmed is a repetition by NbTrans.
    """
    everybody = _build(rig, order)
    for again in (*NOBODY_OR_ONE, everybody):
        rig.heard_by(order, again)
        if confirmed:
            rig.station(order[0]).suppress_downlinks(1)
            uplink = await rig.alpha.send(confirmed=True, retries=1)
            answered = order[0] in again
            line = "+EVT:SEND_CONFIRMED_OK" if answered else "+EVT:SEND_CONFIRMED_FAILED(4)"
        else:
            uplink = await rig.alpha.send(transmissions=2)
            line = "+EVT:TX_DONE"
        _expect(rig, uplink, *order, *again)
        rig.expect_reply(uplink, line)


def _build(rig, order):
    """The rig, and all stations in the order in which a frame that each one hears is delivered."""
    rig.put_on("lns-b", *(station for station in STATIONS if SERVERS[station] == "lns-b"))
    everybody = (*order, *(station for station in STATIONS if station not in order))
    for place, station in enumerate(everybody):
        rig.station(station).delay_uplinks(place * BETWEEN_US)
    return everybody


def _expect(rig, uplink, *receptions):
    kind = "confirmed" if uplink.confirmed else "unconfirmed"
    for row in due(receptions, rig.strategy, kind):
        rig.expect_due(uplink, row)
