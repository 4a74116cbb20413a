import asyncio
import json
from collections.abc import Callable, Coroutine

import pytest

from bench.clock import run
from bench.station import LinkClosed, TextLink
from bench.station.tap import MemoryLink, Tap, link_pair
from lns.clock import now_us
from lns.lorawan.frame import Data, parse
from lns.lorawan.identifiers import Eui
from lns.station.messages import Updf, UpInfo, parse_up
from tests.station_texts import frame_text

NEAR, FAR = Eui("B827EBFFFE000001"), Eui("B827EBFFFE000002")
DNMSG = '{"msgtype":"dnmsg","diid":1}'
DNTXED = '{"msgtype":"dntxed","diid":1}'
XTIME = {NEAR: 5 << 48, FAR: 9 << 48}


def updf(number: int, *, xtime: int = 5 << 48) -> str:
    phy = bytes.fromhex("40f17dbe4900") + bytes([number, 0, 1, 0xAA]) + b"\0\0\0" + bytes([number])
    return frame_text(phy, dr=5, freq_hz=868_100_000, upinfo=UpInfo(xtime=xtime))


def frame_id(number: int) -> str:
    return f"49BE7DF1:{number}:000000{number:02X}"


def named(message: Updf) -> str:
    frame = parse(message.phy())
    assert isinstance(frame, Data)
    return frame.frame_id


class Side:
    """What one end of a tap received: when, and what."""

    def __init__(self) -> None:
        self.link: TextLink | None = None
        self.got: list[tuple[int, str]] = []

    async def listen(self, link: TextLink) -> None:
        try:
            while True:
                text = await link.receive()
                self.got.append((now_us(), text))
        except LinkClosed:
            self.link = None

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.got]


class Wire:
    """A link that takes a turn to send, as a socket does."""

    def __init__(self, link: MemoryLink) -> None:
        self._link = link
        self.receive, self.close = link.receive, link.close

    @property
    def closed(self) -> bool:
        return self._link.closed

    async def send(self, text: str) -> None:
        await asyncio.sleep(0)
        await self._link.send(text)


class Rig:
    """Two taps between two hand-driven stations and a server that only listens."""

    def __init__(self, tasks: asyncio.TaskGroup, *, wired: bool = False) -> None:
        self.tasks = tasks
        self.wired = wired
        self.events: list[tuple[str, str, dict[str, object]]] = []
        self.stations = {NEAR: Side(), FAR: Side()}
        self.servers = {NEAR: Side(), FAR: Side()}
        self.taps = {eui: self.tap_of(eui) for eui in (NEAR, FAR)}
        self.near = self.taps[NEAR]

    def tap_of(self, eui: Eui) -> Tap:
        async def connect_lns() -> TextLink:
            tap_end, server_end = link_pair()
            self.servers[eui].link = server_end
            self.tasks.create_task(self.servers[eui].listen(server_end))
            return Wire(tap_end) if self.wired else tap_end

        tap = Tap(eui, connect_lns, self.record)
        tap.xtime_now = lambda: XTIME[eui] + now_us()
        return tap

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        self.events.append((source, kind, fields))

    async def connect(self, eui: Eui = NEAR) -> None:
        link = await self.taps[eui].connect()
        self.stations[eui].link = link
        self.tasks.create_task(self.stations[eui].listen(link))

    async def up(self, *texts: str, eui: Eui = NEAR) -> None:
        link = self.stations[eui].link
        assert link is not None
        for text in texts:
            await link.send(text)
        await asyncio.sleep(0.001)

    async def down(self, *texts: str) -> None:
        link = self.servers[NEAR].link
        assert isinstance(link, MemoryLink)
        for text in texts:
            await link.send(text)
        await asyncio.sleep(0.001)

    @property
    def arrived(self) -> list[str]:
        return self.servers[NEAR].texts

    @property
    def noted(self) -> list[dict[str, object]]:
        """The `station.text` lines of the near tap, but for station and text."""
        return [
            {name: value for name, value in fields.items() if name not in ("station", "text")}
            for source, kind, fields in self.events
            if kind == "station.text" and source == f"tap-{NEAR}"
        ]

    @property
    def faults(self) -> list[tuple[str, object]]:
        return [(k, f["fault"]) for _, k, f in self.events if k.startswith("fault.")]


Scene = Callable[[Rig], Coroutine[object, object, None]]


def play(scene: Scene, *, wired: bool = False) -> Rig:
    async def main() -> Rig:
        async with asyncio.TaskGroup() as tasks:
            rig = Rig(tasks, wired=wired)
            running = [tasks.create_task(tap.run()) for tap in rig.taps.values()]
            await asyncio.sleep(0)
            await rig.connect()
            await rig.connect(FAR)
            await scene(rig)
            await asyncio.sleep(60)
            for task in running:
                task.cancel()
        return rig

    return run(main())


@pytest.mark.parametrize("wired", [False, True])
def test_texts_pass_both_ways_and_are_recorded(*, wired: bool) -> None:
    async def scene(rig: Rig) -> None:
        await rig.up(updf(1), "nonsense {", '{"msgtype":"alarm"}')
        await rig.down(DNMSG, "[]")

    rig = play(scene, wired=wired)
    assert rig.arrived == [updf(1), "nonsense {", '{"msgtype":"alarm"}']
    assert rig.stations[NEAR].texts == [DNMSG, "[]"]
    later = [{"direction": "up"}] * 2 + [{"direction": "down"}] * 2
    assert rig.noted == [{"direction": "up", "link": 1}, *later]
    assert rig.events[0] == (
        f"tap-{NEAR}",
        "station.text",
        {"station": NEAR, "direction": "up", "text": updf(1), "link": 1},
    )


def test_a_dropped_reception_is_recorded_and_does_not_leave() -> None:
    async def scene(rig: Rig) -> None:
        rig.near.drop_up(2)
        await rig.up(DNTXED, updf(1), "{", updf(3))

    rig = play(scene)
    assert rig.arrived == [DNTXED, updf(3)]
    dropped = [fields["text"] for _, _, fields in rig.events if fields.get("dropped")]
    assert dropped == [updf(1), "{"]
    assert rig.faults == [("fault.begin", "drop"), ("fault.end", "drop")]
    begin = rig.events[0]
    assert begin == (
        "bench",
        "fault.begin",
        {
            "seam": "tap", "fault": "drop", "station": NEAR, "origin": "injected",
            "detail": {"n": 2},
        },
    )  # fmt: skip


def test_a_delayed_reception_is_overtaken_and_says_how_long_it_was_held() -> None:
    async def scene(rig: Rig) -> None:
        rig.near.delay_up(500_000, n=1)
        await rig.up(updf(1), updf(2), DNTXED)

    rig = play(scene)
    assert rig.arrived == [updf(2), DNTXED, updf(1)]
    assert [at_us for at_us, _ in rig.servers[NEAR].got] == [0, 0, 500_000]
    assert rig.noted[-1] == {"direction": "up", "held_us": 500_000}


def test_a_delay_of_all_keeps_their_order() -> None:
    async def scene(rig: Rig) -> None:
        rig.near.delay_up(500_000)
        await rig.up(updf(1), updf(2), DNTXED)

    rig = play(scene)
    assert rig.arrived == [DNTXED, updf(1), updf(2)]
    assert rig.faults == [("fault.begin", "delay")]


def test_a_repeated_reception_comes_again_with_the_same_words() -> None:
    async def scene(rig: Rig) -> None:
        rig.near.repeat_up(1_000_000, times=2)
        await rig.up(updf(1), updf(2))

    rig = play(scene)
    assert rig.arrived == [updf(1), updf(2), updf(1), updf(1)]
    assert [at_us for at_us, _ in rig.servers[NEAR].got] == [0, 0, 1_000_000, 2_000_000]
    assert [line.get("origin") for line in rig.noted] == [None, None, "injected", "injected"]


def test_a_cut_ends_the_connection_until_it_is_restored() -> None:
    async def scene(rig: Rig) -> None:
        rig.near.delay_up(10_000, n=1)
        await rig.up(updf(1))
        rig.near.cut()
        await asyncio.sleep(1)
        assert rig.stations[NEAR].link is None
        assert rig.servers[NEAR].link is None
        with pytest.raises(LinkClosed):
            await rig.connect()
        rig.near.restore()
        await rig.connect()
        await rig.up(updf(2))

    rig = play(scene)
    assert rig.arrived == [updf(2)]
    lost = {"direction": "up", "held_us": 10_000, "dropped": True, "cause": "no link"}
    assert rig.noted[0] == lost
    assert ("fault.end", "cut") in rig.faults


def test_a_text_on_its_way_out_when_the_link_is_cut_is_recorded_as_dropped() -> None:
    async def scene(rig: Rig) -> None:
        rig.near.inject(updf(1))
        rig.near.cut()

    rig = play(scene, wired=True)
    assert rig.arrived == []
    assert [line.get("dropped") for line in rig.noted] == [True]
    rig = play(scene)  # in memory nothing is on its way out
    assert rig.arrived == [updf(1)]
    assert [line.get("dropped") for line in rig.noted] == [None]


@pytest.mark.parametrize("wired", [False, True])
def test_a_server_that_closes_its_link_is_told_of_once(*, wired: bool) -> None:
    async def scene(rig: Rig) -> None:
        await rig.up(updf(1))
        link = rig.servers[NEAR].link
        assert isinstance(link, MemoryLink)
        link.close()
        await asyncio.sleep(0.001)

    rig = play(scene, wired=wired)
    assert rig.arrived == [updf(1)]
    links = [fields for _, kind, fields in rig.events if kind == "station.link"]
    assert links == [{"station": NEAR, "event": "closed"}]


def test_a_link_is_handed_over_with_what_has_arrived() -> None:
    async def main() -> list[str]:
        told: list[str] = []
        ours, theirs = link_pair()
        ours.send_now("1")
        await asyncio.sleep(0.001)
        theirs.hand_to(told.append, lambda: told.append("over"))
        ours.send_now("2")
        await asyncio.sleep(0.001)
        ours.vanish(0)
        theirs.close()
        await asyncio.sleep(0.001)
        theirs.hand_to(told.append, lambda: told.append("over already"))
        return told

    assert run(main()) == ["1", "2", "over", "over already"]


def test_the_end_of_one_side_ends_the_other() -> None:
    async def scene(rig: Rig) -> None:
        link = rig.servers[NEAR].link
        assert isinstance(link, MemoryLink)
        link.close()
        await asyncio.sleep(0.001)
        assert rig.stations[NEAR].link is None
        await rig.connect()
        await rig.up(updf(1))

    assert play(scene).arrived == [updf(1)]


def test_a_clone_comes_from_the_other_station_in_its_own_time() -> None:
    async def scene(rig: Rig) -> None:
        rig.near.clone_to(rig.taps[FAR], after_us=300_000)
        await asyncio.sleep(2)
        await rig.up(updf(1, xtime=XTIME[NEAR] + 1_900_000))
        await rig.up(updf(2))

    rig = play(scene)
    assert len(rig.arrived) == 2
    (at_us, text), _ = rig.servers[FAR].got
    clone = parse_up(text)
    assert isinstance(clone, Updf)
    # The frame ended 100 ms before it was told, on either clock.
    assert clone.upinfo.xtime == XTIME[FAR] + 1_900_000
    assert named(clone) == frame_id(1)
    assert at_us == 2_300_000
    line, _ = (f for s, k, f in rig.events if s == f"tap-{FAR}" and k == "station.text")
    assert (line["origin"], line["held_us"]) == ("injected", 300_000)


def test_a_replay_is_fresh_and_what_is_injected_is_verbatim() -> None:
    async def scene(rig: Rig) -> None:
        await asyncio.sleep(5)
        rig.near.replay(updf(1))
        rig.near.inject(updf(1))
        await asyncio.sleep(0.001)

    rig = play(scene)
    (at_us, fresh), (_, verbatim) = rig.servers[NEAR].got
    message = parse_up(fresh)
    assert isinstance(message, Updf)
    assert named(message) == frame_id(1)
    assert message.upinfo.xtime == XTIME[NEAR] + at_us
    assert verbatim == updf(1)
    assert list(json.loads(fresh)) == list(json.loads(verbatim))
    assert [line.get("origin") for line in rig.noted] == ["injected", "injected"]


@pytest.mark.parametrize("text", ["broken {", "[]", '{"msgtype":"updf"}', '{"upinfo":{}}'])
def test_any_text_can_be_injected(text: str) -> None:
    async def scene(rig: Rig) -> None:
        rig.near.replay(text)
        await asyncio.sleep(0.001)

    rig = play(scene)
    assert rig.arrived == [text]
    assert rig.faults == [("fault.begin", "replay"), ("fault.end", "replay")]


def test_answers_to_getxtime_are_lost_and_nothing_else_is() -> None:
    shown = '{"msgtype":"getxtime","xtimes":[1]}'

    async def scene(rig: Rig) -> None:
        rig.near.drop_clock(1)
        await rig.up('{"msgtype":"version"}', updf(1), shown, shown)

    rig = play(scene)
    assert rig.arrived == ['{"msgtype":"version"}', updf(1), shown]
    assert rig.noted[2] == {"direction": "up", "dropped": True}
    assert rig.faults == [("fault.begin", "drop_clock"), ("fault.end", "drop_clock")]


def test_downlinks_are_suppressed_or_delayed_and_nothing_else_is() -> None:
    async def scene(rig: Rig) -> None:
        rig.near.suppress_down(1)
        rig.near.delay_down(200_000)
        await rig.down('{"msgtype":"getxtime"}', DNMSG, DNMSG, '{"msgtype":"timesync"}')

    rig = play(scene)
    assert rig.stations[NEAR].texts == [
        '{"msgtype":"getxtime"}', '{"msgtype":"timesync"}', DNMSG,
    ]  # fmt: skip
    assert rig.noted == [
        {"direction": "down"},
        {"direction": "down", "dropped": True},
        {"direction": "down"},
        {"direction": "down", "held_us": 200_000},
    ]
    assert rig.faults[:3] == [
        ("fault.begin", "suppress"), ("fault.begin", "delay_downlink"), ("fault.end", "suppress"),
    ]  # fmt: skip


def test_a_tap_that_does_not_run_connects_nobody() -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            with pytest.raises(LinkClosed):
                await Rig(tasks).connect()

    run(main())
