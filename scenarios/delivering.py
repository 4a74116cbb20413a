"""Frames whose messages come to the broker one after another."""

from scenarios.words import FIRST


async def delivered(rig, *, confirmed=True):
    """A frame whose message the broker has."""
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.until_published(uplink)
    return uplink


def expect_in_order(rig, uplinks, first=1):
    """Each is delivered under the next number of its topic, and has one effect."""
    for n, uplink in enumerate(uplinks, first):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        rig.expect_upstream(uplink, through="west", sequenceNumber=n)
        rig.expect_effects(uplink)
