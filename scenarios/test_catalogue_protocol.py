"""The catalogue's situations of the station protocol: spellings, odd messages, odd frames."""

from collections.abc import Callable

import pytest

from bench.clock import milliseconds
from bench.verdict.expectation import Table
from lns.lorawan.identifiers import Eui, eui_dashed, eui_id6
from scenarios.words import COPY, FIRST, IN_RX2

GARBAGE = bytes(range(0x80, 0x80 + 38))
FOR_THE_NETWORK = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate dropped RX1
    *        unconfirmed | NonDuplicate dropped NotAsked
""")
US915_CHANNEL_0_HZ = 902_300_000
LR_FHSS_DR = 8


async def test_a_device_address_may_be_negative(rig, strategy, confirmed):
    """A DevAddr from 80000000 on is negative in a station's JSON, and a device like any other.

    Catalogue: K01.
    """
    device = rig.provision("negative", dev_addr_text="FE00ABCD", f_cnt=10)
    rig.east.delay_uplinks(milliseconds(100))
    uplink = await device.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(uplink)


async def test_a_station_with_gps_tells_the_time_of_a_frame(rig, strategy, confirmed):
    """A gpstime of sixteen digits is read like the zero of a station without a receiver.

    Catalogue: K02.
    """
    rig.east.delay_uplinks(milliseconds(100))
    rig.west.fit_gps()
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(uplink)


async def test_messages_without_use_are_passed_over(rig, strategy, confirmed):
    """Proprietary frames, join accepts and unknown messages disturb nothing and have no outcome.

    Catalogue: K04.
    """
    rig.only("west")
    tail = '"DR":5,"Freq":868100000,"upinfo":{"rctx":0,"xtime":0,"rssi":-80,"snr":7}'
    await rig.say('{"msgtype":"propdf","FRMPayload":"E0C0FFEE",' + tail + "}", by="west")
    await rig.say('{"msgtype":"jacc","MHdr":32,"FRMPayload":"C0FFEE",' + tail + "}", by="west")
    await rig.say('{"msgtype":"tomorrow","FRMPayload":"C0FFEE"}', by="west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_reply(uplink)


def respelled(text: str, frame_id: str, spelling: Callable[[Eui], str]) -> str:
    """The text of a join with its EUIs in another spelling than the station's own."""
    join_eui, dev_eui, _ = frame_id.split(":")
    for known in (Eui(join_eui), Eui(dev_eui)):
        text = text.replace(eui_dashed(known), spelling(known))
    return text


@pytest.mark.parametrize("spelling", [eui_id6, str.lower], ids=["id6", "lower"])
async def test_a_join_in_another_spelling_is_the_same_join(rig, strategy, spelling):
    """However a station writes an EUI, level 1 knows the device by it.

    Catalogue: K05.
    """
    rig.only("west")
    join = await rig.bravo.join()
    await rig.say(respelled(rig.told(join, by="east"), join.frame_id, spelling), by="east")
    rig.expect(join, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(join)


@pytest.mark.requires("any port")
async def test_garbage_for_the_network_does_not_stop_a_device(rig, strategy, confirmed):
    """MAC commands that nobody can read are passed over; the next frame is handled as ever.

    Catalogue: K06.
    """
    rig.only("west")
    poison = await rig.alpha.send(GARBAGE, port=0, confirmed=confirmed)
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(poison, FOR_THE_NETWORK, first="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_reply(after)


async def test_stations_may_number_data_rates_differently(rig, strategy, confirmed):
    """The data rate is no part of the key: a copy told with another one is a copy.

    Catalogue: K10.
    """
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.say(rig.told(uplink, by="east", dr=0), by="east")
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")


@pytest.mark.requires("any port")
async def test_a_frame_inside_a_relayed_frame_is_not_looked_at(rig, strategy, confirmed):
    """The outer frame of a relay is deduplicated as the relay's own; it goes up as it is.

    Catalogue: L02.
    """
    relay = rig.provision("relay", f_cnt=10)
    rig.east.delay_uplinks(milliseconds(100))
    inner = await rig.craft(rig.alpha)
    outer = await relay.send(inner.phy, port=226, confirmed=confirmed)
    rig.expect(outer, FIRST + COPY, first="west", copy="east")
    rig.expect_upstream(outer, through="west", payload=inner.phy.hex(), fPort=226)


async def test_a_ghost_on_another_sub_band_is_a_copy(rig, strategy, confirmed):
    """The frequency is no part of the key: US915 channel 8, and the same frame on channel 0.

    Catalogue: L05.
    """
    rig.in_region("US915")
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    ghost = rig.told(uplink, by="east", freq_hz=US915_CHANNEL_0_HZ)
    await rig.say(ghost, by="east")
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(uplink)


async def test_a_frame_in_lr_fhss_is_known_by_its_bytes(rig, strategy):
    """The modulation is no part of the key; where RX1 is not defined, the answer is in RX2.

    Catalogue: L06.
    """
    uplink = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(uplink, by="west", dr=LR_FHSS_DR), by="west")
    await rig.say(rig.told(uplink, by="east", dr=LR_FHSS_DR), by="east")
    rig.expect(uplink, IN_RX2 + COPY, first="west", copy="east")
    rig.expect_on_air(uplink, "RX2")
