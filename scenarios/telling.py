"""Frames that stations tell one after another, at moments that a scenario chooses."""

from bench.clock import milliseconds


async def hear(rig, device, *stations, after=3_000_000, **facts):
    """A frame of a device that these stations hear a moment after each other; then time passes."""
    frame = await rig.craft(device, **facts)
    await tell(rig, frame, *stations)
    await rig.wait(after)
    return frame


async def tell(rig, frame, *stations):
    """Let these stations tell a frame, 100 ms after each other."""
    for number, station in enumerate(stations):
        if number:
            await rig.wait(milliseconds(100))
        await rig.say(rig.told(frame, by=station), by=station)
