"""What goes wrong with servers and their store, and with the wires between them?"""

import asyncio
from dataclasses import replace
from typing import Any

from bench.chance import stream
from bench.clock import VirtualTimeLoop, is_being_written, until
from bench.plan import Item, needs
from bench.rig.case_setup import LNS, CaseSetup
from bench.rig.in_memory.mistakes import BrokenWrites
from bench.rig.interfaces import CaseStation, Parts, RigDevice, Wire
from bench.rig.stations import until_stations_are_up
from lns.dedup.claim import Bid, OnOutage

_DEAD_LNS = "lns-x"
_WRITTEN_WITHIN_US = 600_000_000


class Outages:
    """Disturbs what a case shares with nobody; remembers the longest delay that it made."""

    def __init__(self, setup: CaseSetup, parts: Parts) -> None:
        self.setup = setup
        self.must_have = setup.must_have
        self._parts = parts
        self.longest_delay_us = 0
        self._bids = stream(setup.seed, "bids")

    def on_outage(self, word: str) -> None:
        """What network servers do with a frame whose owner nobody can name; before the first act.

        "open": forward it, flagged; "closed": drop it.
        """
        self._parts.servers.must_be_own('on_outage: mark the scenario with'
                                        ' @pytest.mark.fault("store", …)')  # fmt: skip
        self.setup.before_start(f"on_outage {word!r}")
        self.setup.on_outage = OnOutage(word)

    @needs(Item.VIRTUAL_TIME)
    def keep_on_disk(self, *, capture_mib: int = 1024) -> None:
        """Give servers and consumers, each of which is alone, files; before the first act.

        A server reads its configuration there, keeps what it knows and writes its capture, of
        which so many MiB stay; a consumer has its inbox there.
        """
        self.setup.before_start("what is kept on the disk")
        self.setup.on_disk = True
        self.setup.capture_mib = capture_mib

    @needs(Item.VIRTUAL_TIME)
    async def fill_capture(self, room: int, lns: str = LNS) -> None:
        """Let the capture of a server that keeps on a disk take so many octets more each time,
        until `free_capture`: a line that has more is not written.
        """
        await self.setup.begin()
        self.setup.server(lns).fill_capture(room)

    @needs(Item.VIRTUAL_TIME)
    async def free_capture(self, lns: str = LNS) -> None:
        """Undo `fill_capture`."""
        self.setup.server(lns).free_capture()

    def keep_in_redis(self, *, by_sentinels: bool = False) -> None:
        """Let servers share a real Redis, in which nothing expires; before the first act.

        `by_sentinels`: the last of four Sentinels tells them where it is; the others say nothing
        that helps.
        """
        self.setup.must_have("redis")
        self.setup.before_start("where servers keep what they share")
        self.setup.on_redis, self.setup.by_sentinels = True, by_sentinels

    async def restart_lns(self, *, f_cnt_up: int | None = None, lns: str = LNS) -> None:
        """Restart a network server; what it had in memory only is gone.

        `f_cnt_up`: the newest counter that it had made durable, if that was not its newest.
        """
        await self.kill_lns(lns)
        await self._start_lns(lns, f_cnt_up)

    async def kill_lns(self, lns: str = LNS) -> None:
        """End a network server at once, as a crash does, until `start_lns`."""
        await self.setup.begin()
        await self.setup.pause(1)  # what it did a moment ago, it did before
        self.setup.case.lns(lns, "kill")
        await self.setup.server(lns).kill()
        for station in self._stations_on(lns):
            # Nobody is behind the tap: a station is refused before it tells anything.
            self._parts.stations.shut_out(station)

    async def start_lns(self, lns: str = LNS) -> None:
        """Start the network server that was killed, and wait until the stations are back.

        RuntimeError while the wire to its Redis is cut: no server begins without that.
        """
        await self._start_lns(lns, None)

    def _lacks_store(self, lns: str) -> bool:
        cuts = [
            event["kind"]
            for event in self.setup.case.events
            if (event.get("seam"), event.get("fault"), event.get("lns")) == ("store", "cut", lns)
        ]
        needs_it = self.setup.on_redis or Item.WIRES in self.setup.capabilities
        return needs_it and cuts[-1:] == ["fault.begin"]

    async def _start_lns(self, lns: str, f_cnt_up: int | None) -> None:
        if self._lacks_store(lns):
            raise RuntimeError(f"{lns} cannot begin without its store: await rig.restore_store()")
        self.setup.case.lns(lns, "restart", **({} if f_cnt_up is None else {"f_cnt_up": f_cnt_up}))
        await self.setup.server(lns).start_again(f_cnt_up=f_cnt_up)
        for station in self._stations_on(lns):
            self._parts.stations.let_in(station)
        await self.setup.pause(100_000)  # until the stations notice
        await until_stations_are_up(self.setup, lns)

    @needs(Item.VIRTUAL_TIME)
    async def change_record(self, device: Any, /, **facts: Any) -> None:
        """Restart all network servers, with a record of a device that says something else by then.

        `facts` are fields of the record: `nb_trans`, `join_nonce_min`, ….
        """
        await self.setup.begin()
        for lns in self.setup.servers:
            await self.kill_lns(lns)
        before = device.provisioned
        device.provisioned = replace(before, record=replace(before.record, **facts))
        self.setup.case.device(device.provisioned.record, f_cnt_up=None, only_at=before.only_at)
        for lns in self.setup.servers:
            await self.start_lns(lns)

    async def mend(self) -> None:
        """Start the servers that a case has ended and not started again, and free their disks.

        Nobody waits for their stations.
        """
        for lns, server in self.setup.servers.items():
            events = self.setup.case.events
            told = [e["event"] for e in events if e["kind"] == "case.lns" and e["lns"] == lns]
            if told and told[-1] == "kill":
                if self._lacks_store(lns):
                    await server.to_store.restore()
                self.setup.case.lns(lns, "restart")
                await server.start_again()
                for station in self._stations_on(lns):
                    self._parts.stations.let_in(station)
            if any(e["kind"] == "fault.begin" and e["fault"] == "disk full" for e in events):
                server.free_disk()

    async def orphan_next_frame(self, device: Any) -> None:
        """Let a server claim a device's next frame and die before it has delivered anything.

        It is none of those that stations connect to; nothing is left of it but its claim.
        """
        await self.setup.begin()
        session, dev_eui = device.session, device.dev_eui
        f_cnt = session.f_cnt_up
        self.setup.case.fault("store", "orphan", lns=_DEAD_LNS, dev_eui=dev_eui, f_cnt=f_cnt)
        bid = Bid(lns=_DEAD_LNS, dev_eui=dev_eui, dev_addr=session.dev_addr, f_cnt=f_cnt)
        await self._parts.store.claim(bid)

    @needs(Item.WIRES)
    async def pause_lns_in_mid_claim(self, lns: str = LNS) -> None:
        """Let a network server stand still as soon as it has asked who owns its next frame.

        It learns the answer too late: after `resume_lns` and `restore_store`.
        """
        await self.setup.begin()
        self.setup.server(lns).pause_in_mid_claim()

    @needs(Item.WIRES)
    def pause_lns(self, lns: str = LNS) -> None:
        """Let a network server do nothing, until `resume_lns`."""
        self.setup.server(lns).pause()

    @needs(Item.WIRES)
    def resume_lns(self, lns: str = LNS) -> None:
        """Let it go on."""
        self.setup.server(lns).resume()

    @needs(Item.OUTBOX)
    def cut_upstream(self) -> None:
        """Cut the wire between the network server and the application, until `restore_upstream`."""
        self.setup.servers[LNS].to_broker.cut()

    @needs(Item.OUTBOX)
    async def restore_upstream(self) -> None:
        """Mend the wire; the network server finds it when its back-off is over."""
        await self.setup.servers[LNS].to_broker.restore()

    def cut_store(self, lns: str | None = None) -> None:
        """Cut the wires between all network servers, or one, and the store they share.

        Or that between a consumer with this name and its store; a file takes nothing then.
        """
        for wire in self._to_store(lns):
            wire.cut()

    def slow_store(self, us: int, lns: str | None = None) -> None:
        """Let what the store says to all network servers, or to one, arrive so much later.

        A store in memory does what it is asked when half of that is over, any other at once.
        """
        for wire in self._to_store(lns):
            wire.delay(us)

    async def restore_store(self, lns: str | None = None) -> None:
        """Undo `cut_store` and `slow_store` for all network servers, or for one."""
        for wire in self._to_store(lns):
            await wire.restore()

    def _to_store(self, whose: str | None) -> list[Wire]:
        of_consumer = None if whose is None else self._parts.application.to_store(whose)
        if of_consumer is not None:
            return [of_consumer]
        return [server.to_store for server in self.setup.some_servers(whose)]

    async def restart_store(self, *, empty: bool) -> None:
        """Restart the store that the network servers share; `empty`: it knows nothing any more."""
        await self.setup.begin()
        self._parts.store.must_be_own()
        self.setup.case.fault("store", "restart", empty=empty)
        await self._parts.store.restart(empty=empty)
        self.setup.case.fault("store", "restart", "fault.end", empty=empty)

    async def bid_at_random(self, device: Any) -> None:
        """Let servers that nobody runs claim frames of a device, in sessions that it never had.

        They also keep sessions of devices that nobody has, join with them and forget them, and
        inboxes that nobody reads. In a Redis all of it comes to what it would in memory. A server
        that is alone with its file claims nothing.
        """
        await self.setup.begin()
        await self._parts.store.bid_at_random(device.dev_eui, self._bids)

    async def disturb_redis(self, how: str) -> None:
        """Let the Redis of a case "fail over", or "forget scripts" while connections stay.

        Or "let expire": what it would forget some day, it forgets now. Or "be full", until it is to
        "have room": what it has it tells, and takes nothing more. Or "hang": it fails over, and the
        one of before takes everything and answers nothing.
        """
        await self.setup.begin()
        self.setup.case.fault("store", how)
        self.setup.ends_leases |= how == "let expire"
        self._parts.store.disturb(how)

    @needs(Item.WIRES)
    def pause_store(self) -> None:
        """Let the store take everything and answer nothing, until `resume_store`."""
        self._parts.store.pause()
        self.setup.case.fault("store", "pause")

    @needs(Item.WIRES)
    def resume_store(self) -> None:
        """Let the store go on, with what it was told meanwhile."""
        self.setup.case.fault("store", "pause", "fault.end")
        self._parts.store.resume()

    @needs(Item.APPLICATION)
    def delay_upstream(self, us: int, messages: int = 1, lns: str | None = None) -> None:
        """Let the application take the next messages, of one server or any, each after so long."""
        self.longest_delay_us = max(self.longest_delay_us, us)
        self._parts.application.delay(us, messages, lns)

    @needs(Item.APPLICATION)
    def refuse_upstream(self, messages: int = 1, lns: str | None = None) -> None:
        """Let the application take none of the next messages, of one server or of any."""
        self._parts.application.refuse(messages, lns)

    async def fill_disk(self, lns: str = LNS) -> None:
        """Let a network server's disk take nothing more that it promises the application."""
        await self._written()
        self.setup.server(lns).fill_disk()

    @needs(Item.VIRTUAL_TIME)
    async def break_disk(self, after: int, lns: str = LNS) -> None:
        """Let a network server's disk take so many messages more, then take and give nothing."""
        await self._written()
        self.setup.server(lns).fill_disk(after)

    @needs(Item.VIRTUAL_TIME)
    async def fill_store(self, after: int, lns: str = LNS) -> None:
        """Let the file of a server that keeps on a disk take so many writes more, and no others."""
        await self._written()
        self.setup.server(lns).fill_disk(writes=after)

    @needs(Item.VIRTUAL_TIME)
    async def slow_disk(self, us: int) -> None:
        """Let whatever goes to a disk be there so much later; 0: at once again."""
        await self.setup.begin()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.thread_us = us
        self.longest_delay_us = max(self.longest_delay_us, us)
        kind = "fault.begin" if us else "fault.end"
        self.setup.case.fault("store", "slow disk", kind, after_us=us)

    @needs(Item.VIRTUAL_TIME)
    async def break_writes(self, writes: int, *, after: int = 0) -> None:
        """Let writes to any disk fail when they are to be there for good, `after` so many others.

        Until then they look as if all were well.
        """
        await self.setup.begin()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.in_thread = BrokenWrites(writes, after).in_thread
        self.setup.breaks_writes = True
        self.setup.case.fault("store", "broken writes", writes=writes, after=after)

    @needs(Item.VIRTUAL_TIME)
    def stumble(self, over: str, lns: str = LNS) -> None:
        """Let the program of a network server make a mistake once, which it has to tell.

        Over the "store" when it asks or keeps something, over the "application" when it hands a
        message over, or over the next event of a kind, such as "lns.downlink".
        """
        self.setup.case.fault("program", "stumble", over=over, lns=lns)
        self.setup.server(lns).stumble(over)

    async def free_disk(self, lns: str = LNS) -> None:
        """Undo `fill_disk`, `break_disk` and `fill_store`."""
        self.setup.server(lns).free_disk()

    @needs(Item.OUTBOX)
    def park_after(self, us: int) -> None:
        """Let network servers put aside what waits for the broker for longer; before the start."""
        self.setup.before_start("when messages are parked")
        self.setup.puts_aside_s.append(us // 1_000_000)
        for server in self.setup.servers.values():
            server.set_upstream("retry_max_s", us // 1_000_000)

    @needs(Item.OUTBOX)
    def keep_acknowledged(self, us: int) -> None:
        """Let network servers keep a message for so long after its PUBACK; before the start.

        It goes out again when its broker or its server is lost meanwhile.
        """
        self.setup.before_start("how long a message stays")
        for server in self.setup.servers.values():
            server.set_upstream("keep_s", us // 1_000_000)

    @needs(Item.VIRTUAL_TIME)
    def limit_outbox(self, messages: int, lns: str = LNS) -> None:
        """Let a server's outbox hold so many messages and no more; before the start."""
        self.setup.before_start("how many messages an outbox holds")
        self.setup.case.fault("upstream", "little room", lns=lns, messages=messages)
        self.setup.server(lns).set_upstream("messages_max", messages)

    @needs(Item.VIRTUAL_TIME)
    async def refuse_messages(
        self, messages: int, lns: str = LNS, *, of: RigDevice | None = None
    ) -> None:
        """Let the broker refuse the next messages that a server sends, or those of one device."""
        await self.setup.begin()
        dev_eui = "" if of is None else of.dev_eui
        self._parts.application.refuse(messages, lns, broker=True, of=dev_eui)

    @needs(Item.VIRTUAL_TIME)
    async def refuse_logins(self, logins: int, lns: str = LNS) -> None:
        """Let the broker refuse the next logins of a server; it has to leave, and to come again."""
        await self.setup.begin()
        self.setup.server(lns).to_broker.refuse(logins)

    @needs(Item.OUTBOX)
    async def release_parked(self, lns: str = LNS) -> None:
        """End a network server, let what it has put aside be sent after all, and start it again.

        It tries as long as usual from then on.
        """
        await self.kill_lns(lns)
        await self.setup.server(lns).release_parked()
        await self.start_lns(lns)

    @needs(Item.WIRES)
    async def spoil_store(self, device: RigDevice) -> None:
        """Write something foreign where the store has what servers know of a device."""
        await self.setup.begin()
        self._parts.store.must_be_own()
        self.setup.case.fault("store", "foreign value", dev_eui=device.dev_eui)
        await self._parts.store.spoil(device.dev_eui)

    @needs(Item.WIRES)
    async def mend_store(self, device: RigDevice) -> None:
        """Remove what is foreign; the store knows nothing of the device then."""
        await self._parts.store.mend(device.dev_eui)
        self.setup.case.fault("store", "foreign value", "fault.end", dev_eui=device.dev_eui)

    @needs(Item.WALL_CLOCK)
    def step_wall_clock(self, us: int, *, lns: str | None = LNS) -> None:
        """Set the wall clock of a network server's host, or of all consumers', forward or back."""
        if lns is None:
            self.setup.consumers_stepped_us += us
            self.setup.case.fault("clock", "step", us=us)
        else:
            self.setup.server(lns).step_wall_clock(us)

    async def _written(self) -> None:
        """Begin, and let what a slow disk has begun be there."""
        await self.setup.begin()
        await until(lambda: not is_being_written(), _WRITTEN_WITHIN_US, TimeoutError)

    def _stations_on(self, lns: str) -> list[CaseStation]:
        server = self.setup.server(lns)
        return [one for one in self.setup.stations.values() if one.server is server]
