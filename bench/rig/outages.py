"""What goes wrong with network servers, with their store, and with the wires between them."""

from typing import Any

from bench.plan.needs import Item, needs
from bench.rig.case_setup import LNS, CaseSetup
from bench.rig.interfaces import CaseStation, Parts, RigDevice
from bench.rig.stations import until_stations_are_up
from lns.dedup.claim import Bid, OnOutage

_DEAD_LNS = "lns-x"


class Outages:
    """Disturbs what a case shares with nobody; remembers the longest delay that it made."""

    def __init__(self, setup: CaseSetup, parts: Parts) -> None:
        self.setup = setup
        self.must_have = setup.must_have
        self._parts = parts
        self.longest_delay_us = 0

    def on_outage(self, word: str) -> None:
        """What network servers do with a frame whose owner nobody can name; before the first act.

        "open": forward it, flagged; "closed": drop it.
        """
        self._parts.servers.must_be_own('on_outage: mark the scenario with'
                                        ' @pytest.mark.fault("store", …)')  # fmt: skip
        self.setup.before_start(f"on_outage {word!r}")
        self.setup.on_outage = OnOutage(word)

    async def restart_lns(self, *, f_cnt_up: int | None = None, lns: str = LNS) -> None:
        """Restart a network server; what it had in memory only is gone.

        `f_cnt_up`: the newest counter that it had made durable, if that was not its newest.
        """
        await self.kill_lns(lns)
        await self._start_lns(lns, f_cnt_up)

    async def kill_lns(self, lns: str = LNS) -> None:
        """End a network server at once, as a crash does, until `start_lns`."""
        await self.setup.begin()
        self.setup.case.lns(lns, "kill")
        await self.setup.server(lns).kill()
        for station in self._stations_on(lns):
            # Nobody is behind the tap: a station is refused before it tells anything.
            self._parts.stations.shut_out(station)

    async def start_lns(self, lns: str = LNS) -> None:
        """Start the network server that was killed, and wait until the stations are back."""
        await self._start_lns(lns, None)

    async def _start_lns(self, lns: str, f_cnt_up: int | None) -> None:
        self.setup.case.lns(lns, "restart", **({} if f_cnt_up is None else {"f_cnt_up": f_cnt_up}))
        await self.setup.server(lns).start_again(f_cnt_up=f_cnt_up)
        for station in self._stations_on(lns):
            self._parts.stations.let_in(station)
        await self.setup.pause(100_000)  # until the stations notice
        await until_stations_are_up(self.setup)

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

    @needs(Item.WIRES)
    def cut_upstream(self) -> None:
        """Cut the wire between the network server and the application, until `restore_upstream`."""
        self.setup.servers[LNS].to_broker.cut()

    @needs(Item.WIRES)
    async def restore_upstream(self) -> None:
        """Mend the wire; the network server finds it when its back-off is over."""
        await self.setup.servers[LNS].to_broker.restore()

    def cut_store(self, lns: str | None = None) -> None:
        """Cut the wires between all network servers, or one, and the store they share."""
        for server in self.setup.some_servers(lns):
            server.to_store.cut()

    def slow_store(self, us: int, lns: str | None = None) -> None:
        """Let what the store says to all network servers, or to one, arrive so much later.

        What it is asked to do it does at once.
        """
        for server in self.setup.some_servers(lns):
            server.to_store.delay(us)

    async def restore_store(self, lns: str | None = None) -> None:
        """Undo `cut_store` and `slow_store` for all network servers, or for one."""
        for server in self.setup.some_servers(lns):
            await server.to_store.restore()

    async def restart_store(self, *, empty: bool) -> None:
        """Restart the store that the network servers share; `empty`: it knows nothing any more."""
        await self.setup.begin()
        self._parts.store.must_be_own()
        self.setup.case.fault("store", "restart", empty=empty)
        await self._parts.store.restart(empty=empty)
        self.setup.case.fault("store", "restart", "fault.end", empty=empty)

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
    def delay_upstream(self, us: int, messages: int = 1) -> None:
        """Let the application take each of the next messages only after so long."""
        self.longest_delay_us = max(self.longest_delay_us, us)
        self._parts.application.delay(us, messages)

    @needs(Item.APPLICATION)
    def refuse_upstream(self, messages: int = 1) -> None:
        """Let the application take none of the next messages."""
        self._parts.application.refuse(messages)

    async def fill_disk(self, lns: str = LNS) -> None:
        """Let a network server's disk take nothing more that it promises the application."""
        await self.setup.begin()
        self.setup.server(lns).fill_disk()

    async def free_disk(self, lns: str = LNS) -> None:
        """Give it room again."""
        self.setup.server(lns).free_disk()

    @needs(Item.WIRES)
    def park_after(self, us: int) -> None:
        """Let network servers put aside what waits for the broker for longer; before the start."""
        self.setup.before_start("when messages are parked")
        for server in self.setup.servers.values():
            server.park_after(us)

    @needs(Item.WIRES)
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
    def step_wall_clock(self, us: int, *, lns: str = LNS) -> None:
        """Set the wall clock of a network server's host forward or back."""
        self.setup.server(lns).step_wall_clock(us)

    def _stations_on(self, lns: str) -> list[CaseStation]:
        server = self.setup.server(lns)
        return [one for one in self.setup.stations.values() if one.server is server]
