"""What a few devices, one or two servers and a dozen verbs come to, whatever they are.

One answer alone is due in each case. Everything else that it finds is a mistake of the network
server, or a false alarm: what it is tells a scenario of a few lines, which is then written.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from types import MappingProxyType
from typing import Any

from bench.scenario import Rig, Table, milliseconds, minutes, seconds

DEVICES_MAX, ACTS = 3, (4, 16)
FIRST = Table("""
    strategy kind      | first
    *        confirmed | NonDuplicate forwarded RX1
""")
COMMANDS = (b"\x02", b"\x0d", b"\x02\x0d", b"\x06\x80\x05", b"\x03\x07", b"\x80\x01")
UNREADABLE = (b"{", b"[]", b'{"fPort":0,"payload":"00"}', b'{"fPort":1}', b"\xff")
PAUSES_US = milliseconds(5), milliseconds(50), milliseconds(400)


class World:
    """What a case has, and what of it is away."""

    def __init__(self, rig: Rig, dice: Random) -> None:
        self.rig: Any = rig
        self.dice = dice
        self.servers = ["lns-a"]
        self.devices: list[Any] = [self.rig.alpha]
        self.joins: set[Any] = set()
        self.sent: list[Any] = []
        self.cut: set[Any] = set()
        self.has_upstream = True
        self.has_consumer = False
        self.in_redis = self.is_cut_off = False
        self.is_held_up = False

    @property
    def device(self) -> Any:
        return self.dice.choice(self.devices)

    @property
    def personalised(self) -> Any:
        return self.dice.choice([one for one in self.devices if one not in self.joins])

    @property
    def station(self) -> Any:
        return self.dice.choice([self.rig.west, self.rig.east])

    @property
    def may_begin(self) -> bool:
        """Whether a server that begins finds its Redis; without it, it does not run."""
        return not (self.in_redis and self.is_cut_off)

    @property
    def there(self) -> Any:
        """A station that has its link; the other one if need be."""
        return next(one for one in (self.station, self.rig.west, self.rig.east) if self.has(one))

    def has(self, station: Any) -> bool:
        return station.name not in self.cut

    async def say(self, frame: Any) -> None:
        if self.cut != {"west", "east"}:
            by = self.there.name
            await self.rig.say(self.rig.told(frame, by=by), by=by)


Act = Callable[[World], Awaitable[Any]]


async def send(world: World) -> None:
    payload = bytes([world.dice.randrange(256)]) * world.dice.randint(1, 11)
    port = world.dice.choice([1, 2, 10, 223])
    world.sent.append(await world.device.send(payload, port=port))


async def send_confirmed(world: World) -> None:
    retries = world.dice.choice([0, 0, 1, 2])
    world.sent.append(await world.device.send(b"?", confirmed=True, retries=retries))


async def send_often(world: World) -> None:
    world.sent.append(await world.device.send(b"!", transmissions=world.dice.choice([2, 3])))


async def join(world: World) -> None:
    for device in world.joins & {world.device}:
        await device.join()
        if device.session is None:  # no server could take it: it has nothing to say by now
            world.devices.remove(device)


async def restart_device(world: World) -> None:
    """One that has to join is not restarted: it might be sent something before it has joined."""
    await world.personalised.restart(memory=world.dice.random() < 0.5)


async def replay(world: World) -> None:
    if world.sent:
        after = world.dice.choice([seconds(1), seconds(20), seconds(59), seconds(70)])
        by = world.dice.choice(["west", "east"])
        with suppress(LookupError):  # nobody has heard it
            await world.rig.replay(world.dice.choice(world.sent), by=by, after=after)


async def wait(world: World) -> None:
    await world.rig.wait(world.dice.choice([milliseconds(500), seconds(3), seconds(10)]))


async def wait_long(world: World) -> None:
    await world.rig.wait(minutes(world.dice.choice([1, 2, 30])))


async def ask(world: World) -> None:
    facts = {"confirmed": world.dice.random() < 0.4, "port": world.dice.choice([2, 3, 200])}
    payload = bytes([world.dice.randrange(256), 1])
    await world.rig.queue_downlink(world.device, payload=payload, **facts)


async def ask_status(world: World) -> None:
    await world.rig.queue_status(world.device)


async def ask_nonsense(world: World) -> None:
    await world.rig.post_request(world.device, world.dice.choice(UNREADABLE))


async def tell_commands(world: World) -> None:
    await world.say(await world.rig.craft(world.personalised, f_opts=world.dice.choice(COMMANDS)))


async def tell_join(world: World) -> None:
    for device in world.joins & {world.device}:
        nonce = world.dice.choice([None, 5, 60_000])
        await world.say(await world.rig.craft_join(device, dev_nonce=nonce))
        await world.rig.wait(seconds(7))


async def forge(world: World) -> None:
    confirmed = world.dice.random() < 0.5
    await world.rig.forge(world.personalised, by=world.station.name, confirmed=confirmed)


async def flood(world: World) -> None:
    """Where they stay in their order: no device sends so fast that one frame overtakes another."""
    if world.is_held_up or len(world.servers) > 1:
        return
    await world.rig.flood(world.personalised, by="west", frames=world.dice.choice([3, 10]))


async def hear_elsewhere(world: World) -> None:
    world.rig.only(*world.dice.choice([("west",), ("east",), ("west", "east"), ("west", "east")]))


async def toggle_adr(world: World) -> None:
    await world.device.set_adr(world.dice.random() < 0.5)


async def delay_uplinks(world: World) -> None:
    late = world.dice.choice([50, 300, 700, 2_000])
    world.station.delay_uplinks(milliseconds(late))


async def lose_downlink(world: World) -> None:
    world.station.suppress_downlinks(1)


async def cut_station(world: World) -> None:
    station = world.station
    if world.has(station):
        station.cut()
        world.cut.add(station.name)


async def restore_station(world: World) -> None:
    for name in sorted(world.cut)[:1]:
        world.cut.remove(name)
        world.rig.station(name).restore()
        await world.rig.wait(seconds(12))


async def restart_station(world: World) -> None:
    station = world.station
    if world.has(station):
        station.restart()


async def part_station(world: World) -> None:
    station = world.station
    if world.has(station):
        station.leave_half_open(seconds(world.dice.choice([1, 20])))


async def break_clock(world: World) -> None:
    world.station.break_clock()


async def restart_server(world: World) -> None:
    if world.may_begin:
        await world.rig.restart_lns(lns=world.dice.choice(world.servers))


async def kill_server(world: World) -> None:
    if world.may_begin:
        lns = world.dice.choice(world.servers)
        await world.rig.kill_lns(lns)
        await world.rig.wait(seconds(world.dice.choice([1, 30])))
        await world.rig.start_lns(lns)


async def change_record(world: World) -> None:
    if world.may_begin:
        await world.rig.change_record(world.device, nb_trans=world.dice.choice([1, 2, 3]))


async def cut_upstream(world: World) -> None:
    if world.has_upstream:
        world.rig.cut_upstream()
        world.has_upstream = False


async def restore_upstream(world: World) -> None:
    if not world.has_upstream:
        world.has_upstream = True
        await world.rig.restore_upstream()


async def refuse(world: World) -> None:
    world.rig.refuse_upstream(world.dice.choice([1, 2]))


async def disturb_store(world: World) -> None:
    if len(world.servers) > 1:
        if world.dice.random() < 0.5:
            world.rig.cut_store()
            world.is_cut_off = True
        else:
            world.rig.slow_store(50_000)


async def restore_store(world: World) -> None:
    if len(world.servers) > 1:
        await world.rig.restore_store()
        world.is_cut_off = False


async def drop_uplink(world: World) -> None:
    world.station.drop_uplinks(1)


async def repeat_uplinks(world: World) -> None:
    after = world.dice.choice([30, 400, 3_000])
    world.station.repeat_uplinks(milliseconds(after), world.dice.choice([1, 2]))


async def clone_uplinks(world: World) -> None:
    one, other = world.dice.choice([("west", "east"), ("east", "west")])
    late = world.dice.choice([20, 150, 1_000])
    world.rig.station(one).clone_uplinks_to(other, milliseconds(late))


async def delay_downlink(world: World) -> None:
    late = world.dice.choice([20, 300, 3_000])
    world.station.delay_downlinks(milliseconds(late), 1)


async def tell_far(world: World) -> None:
    session = world.personalised.session
    f_cnt = session.f_cnt_up + world.dice.choice([5, 16_384, 16_385, -1, -2])
    if f_cnt >= 0:
        await world.say(await world.rig.craft(world.personalised, f_cnt=f_cnt))


async def forge_join(world: World) -> None:
    for device in world.joins & {world.device}:
        await world.rig.forge_join(device, by=world.station.name)


async def delay_upstream(world: World) -> None:
    world.is_held_up = True
    late = world.dice.choice([100, 1_500, 3_000])
    world.rig.delay_upstream(milliseconds(late), world.dice.choice([1, 3]))


async def refuse_messages(world: World) -> None:
    await world.rig.refuse_messages(world.dice.choice([1, 2]))


async def delay_pubacks(world: World) -> None:
    if world.has_upstream:
        disturb = world.dice.choice(["delay", "hold", "lose"])
        if disturb == "delay":
            await world.rig.delay_pubacks(milliseconds(world.dice.choice([50, 700])))
        else:
            await (world.rig.hold_messages if disturb == "hold" else world.rig.lose_pubacks)()
        await world.rig.wait(seconds(world.dice.choice([1, 5])))
        await world.rig.find_broker()


async def crash_consumer(world: World) -> None:
    if world.has_consumer:
        await world.rig.kill_consumer()
        await world.rig.wait(seconds(1))
        await world.rig.start_consumer()


async def redeliver(world: World) -> None:
    if world.has_consumer:
        await world.rig.lose_acks()
        await world.device.send()
        await world.rig.wait(seconds(2))
        await world.rig.redeliver()


async def restart_store(world: World) -> None:
    if len(world.servers) > 1:
        await world.rig.restart_store(empty=False)


async def disturb_redis(world: World) -> None:
    if world.in_redis:
        how = world.dice.choice(["fail over", "forget scripts", "let expire", "be full", "hang"])
        if how == "hang" and world.cut:  # its servers would notice later, who knows when
            return
        await world.rig.disturb_redis(how)
        if how == "hang":
            for payload in (b"hangs", b"goes on"):  # so servers and consumers notice it by now
                await world.device.send(payload)
                await world.rig.wait(seconds(5))  # who begins meanwhile finds no store
        if how == "be full":
            await world.device.send(b"full")
            await world.rig.disturb_redis("have room")


async def orphan(world: World) -> None:
    if len(world.servers) > 1 and not world.in_redis:
        await world.rig.orphan_next_frame(world.personalised)


async def fill_disk(world: World) -> None:
    lns = world.dice.choice(world.servers)
    await world.rig.fill_disk(lns)
    await world.device.send(b"disk", confirmed=world.dice.random() < 0.5)
    await world.rig.free_disk(lns)


async def refuse_logins(world: World) -> None:
    if world.has_upstream:
        await world.rig.refuse_logins(world.dice.choice([1, 2]))
        world.rig.cut_upstream()
        await world.rig.wait(seconds(1))
        await world.rig.restore_upstream()


async def stop_broker(world: World) -> None:
    if world.has_upstream:
        await world.rig.stop_broker()
        await world.device.send(b"broker")
        await world.rig.wait(seconds(world.dice.choice([1, 20])))
        await world.rig.start_broker()


async def inject(world: World) -> None:
    if world.has_consumer:
        facts = world.dice.choice([{}, {"number": 5}, {"message_id": "same"}, {"key": "same"}])
        await world.rig.inject(world.device, **facts)


async def craft_join(world: World) -> None:
    for device in world.joins & {world.device}:
        await world.say(await world.rig.craft_join(device, dev_nonce=world.dice.choice([1, 2, 3])))
        await world.rig.wait(seconds(7))


async def ask_time(world: World) -> None:
    await (world.device.ask_time if world.dice.random() < 0.5 else world.device.ask_link)()


async def repeat_session(world: World) -> None:
    station = world.station
    station.repeat_session()
    if world.has(station):
        station.restart()


async def slow_disk(world: World) -> None:
    await world.rig.slow_disk(world.dice.choice([milliseconds(20), milliseconds(300)]))
    await world.device.send(b"slow", confirmed=world.dice.random() < 0.5)
    await world.rig.slow_disk(0)


async def fill_application(world: World) -> None:
    if world.has_consumer:
        await world.rig.fill_application(world.dice.choice([0, 1]))
        await world.device.send(b"full")
        await world.rig.wait(seconds(world.dice.choice([1, 8])))
        await world.rig.make_room()


WEIGHTS: dict[Act, float] = {
    send: 8, send_confirmed: 8, send_often: 3, join: 2, restart_device: 2, replay: 5, wait: 3,
    wait_long: 1, ask: 6, ask_status: 2, ask_nonsense: 1, tell_commands: 4, tell_join: 1, forge: 1,
    flood: 1, hear_elsewhere: 3, toggle_adr: 1, delay_uplinks: 2, lose_downlink: 1, cut_station: 1,
    restore_station: 1, restart_station: 1, part_station: 1, break_clock: 0.5, restart_server: 1,
    kill_server: 1, change_record: 1, cut_upstream: 1, restore_upstream: 1, refuse: 1,
    disturb_store: 1, restore_store: 1, drop_uplink: 1, repeat_uplinks: 1, clone_uplinks: 1,
    delay_downlink: 1, tell_far: 1, forge_join: 0.5, delay_upstream: 1, refuse_messages: 1,
    delay_pubacks: 1, crash_consumer: 1, redeliver: 0.5, restart_store: 0.5,
    disturb_redis: 1, orphan: 1, fill_disk: 1,
    refuse_logins: 1, stop_broker: 1, inject: 1, craft_join: 1, ask_time: 2, repeat_session: 0.5,
    slow_disk: 1, fill_application: 0.5,
}  # fmt: skip


def _provision(world: World, number: int) -> Any:
    dice, facts = world.dice, dict[str, Any]()
    joins = dice.random() < 0.5
    facts |= {"activation": "otaa"} if joins else {"relaxed_f_cnt": dice.random() < 0.3}
    facts |= {"device_class": "C"} if dice.random() < 0.3 else {}
    facts |= {"nb_trans": dice.choice([2, 3])} if dice.random() < 0.2 else {}
    facts |= {"lorawan": dice.choice(["1.0.2", "1.0.3"])} if dice.random() < 0.3 else {}
    if joins and dice.random() < 0.4:
        facts |= {"rx1_dr_offset": dice.choice([0, 1, 3]), "rx_delay_s": dice.choice([1, 2, 5])}
    if not joins and dice.random() < 0.3:
        facts |= {"f_cnt": dice.choice([1, 65_534]), "f_cnt_down": dice.choice([0, 5, 65_534])}
    strategy = dice.choice(["Drop", "Mark", "None"])
    device = world.rig.provision(f"device-{number}", strategy=strategy, **facts)
    world.joins |= {device} if joins else set()
    return device


async def play(
    rig: Rig,
    dice: Random,
    more: Mapping[Act, float] = MappingProxyType({}),
    *,
    shows: str | None = None,
) -> None:
    """Let what dice say happen, until all of it is undone; `more` acts, each with its weight.

    `shows`: stations come through a door, and show this; None: there is no door.
    """
    world, weights = World(rig, dice), {**WEIGHTS, **more}
    if shows is not None:
        rig.open_door(shows)
    rig.in_region(dice.choice(["EU868", "EU868", "EU868", "US915", "AS923-1"]))
    if dice.random() < 0.4:
        rig.put_on("lns-b", "east")
        world.servers.append("lns-b")
        if dice.random() < 0.3:
            rig.keep_in_redis()
            world.in_redis = True
    elif dice.random() < 0.3:
        rig.keep_on_disk()
    if dice.random() < 0.3:
        rig.dedup(retention=seconds(dice.choice([20, 60, 300])))
    if dice.random() < 0.2:
        rig.dedup(entries_max=dice.choice([2, 10]))
    if dice.random() < 0.2:
        rig.west.add_antenna(weaker_db=dice.choice([3, 20]))
    if dice.random() < 0.2:
        rig.east.fit_gps()
    if dice.random() < 0.2:
        rig.on_outage(dice.choice(["open", "closed"]))
    if dice.random() < 0.3:
        rig.consumer()
        world.has_consumer = True
    world.devices += [_provision(world, n) for n in range(dice.randint(1, DEVICES_MAX))]
    rig.only("west")
    first = await rig.alpha.send(b"hello", confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.expect_reply(first)
    for device in world.devices:
        if device in world.joins:
            await device.join()
    rig.only("west", "east")
    for act in dice.choices([*weights], [*weights.values()], k=dice.randint(*ACTS)):
        await act(world)
        await rig.wait(dice.choice(PAUSES_US))
    for name in sorted(world.cut):
        rig.station(name).restore()
    await restore_upstream(world)
    await restore_store(world)
    await rig.wait(seconds(30))
