"""The verbs of a scenario, as every rig with virtual devices and stations carries them out."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from bench.device.interfaces import Joining, Sent
from bench.inspection.downlink import KnownDevice, Session
from bench.inspection.inspector import REQUEST, Inspector
from bench.rig.assembly import Assembly
from bench.rig.device import PAYLOAD
from bench.rig.injection import last_heard_us, reception_text, sessions_opened
from bench.rig.provisioning import NET_ID, Provisioned
from bench.rig.rig import Frame
from bench.verdict.expectation import Due, Table
from bench.virtual import crafted
from bench.virtual.lorawan.channel_plan import ChannelPlan, channel_plan
from bench.virtual.lorawan.ciphers import Keys
from lns.clock import now_us
from lns.dedup.claim import Bid
from lns.downlink.downlink_queue import ApplicationDownlink
from lns.lorawan.identifiers import eui
from lns.uplink.end_device import DeviceClass, LoRaWanVersion

REPLIES = {True: "+EVT:SEND_CONFIRMED_OK", False: "+EVT:TX_DONE"}
SETTLE_US = 3_000_000
DEAD_LNS = "lns-x"


class Stimulation(Assembly):
    """What a scenario may do: frames that nobody sends now, restarts, waits, expectations."""

    clock_began: datetime | None = None
    """What the clocks of the servers showed when the bench's was 0, where that is known."""

    # --- frames that nobody sends now ---------------------------------------------------------

    async def replay(self, frame: Frame, *, by: str, after: int = 1_000_000) -> None:
        await self.start()
        due_us = last_heard_us(self.case.events, frame.frame_id) + self.retimed(after)
        await self.pause(due_us - now_us())
        self.deliver(frame, by=by)
        await self.pause(0)

    async def hear(self, phy: str, *, of: Any, f_cnt: int, by: str) -> Sent:
        await self.start()
        sent = crafted.found(of.provisioned.dev_eui, bytes.fromhex(phy), f_cnt)
        self.announce(sent)
        self.deliver(sent, by=by)
        await self.pause(1_000_000)
        return sent

    async def forge(self, device: Any, *, by: str, confirmed: bool = False) -> Sent:
        await self.start()
        session = device.session
        sent = crafted.data(
            device.provisioned.dev_eui,
            session.dev_addr,
            session.keys,
            session.f_cnt_up,
            confirmed=confirmed,
            forged=True,
        )
        self.announce(sent, genuine=False)
        self.deliver(sent, by=by)
        await self.pause(1_000_000)
        return sent

    async def forge_join(self, device: Any, *, by: str) -> Joining:
        await self.start()
        identity = device.provisioned.identity
        joining = crafted.join(identity, device.dev_nonce + 1, forged=True)
        self.announce(joining, genuine=False)
        self.deliver(joining, by=by)
        await self.pause(1_000_000)
        return joining

    async def craft(
        self,
        device: Any,
        *,
        confirmed: bool = False,
        payload: bytes = PAYLOAD,
        port: int | None = 2,
        f_cnt: int | None = None,
        f_opts: bytes = b"",
        adr: bool = False,
        adr_ack_req: bool = False,
        ack: bool = False,
        class_b: bool = False,
    ) -> Sent:
        await self.start()
        session = device.session
        if f_cnt is None:
            f_cnt, session.f_cnt_up = session.f_cnt_up, session.f_cnt_up + 1
        sent = crafted.data(
            device.provisioned.dev_eui,
            session.dev_addr,
            session.keys,
            f_cnt,
            confirmed=confirmed,
            payload=payload,
            port=port,
            f_opts=f_opts,
            adr=adr,
            adr_ack_req=adr_ack_req,
            ack=ack,
            class_b=class_b,
        )
        self.announce(sent)
        return sent

    async def craft_join(
        self, device: Any, *, dev_nonce: int | None = None, join_eui: str | None = None
    ) -> Joining:
        await self.start()
        nonce = device.dev_nonce + 1 if dev_nonce is None else dev_nonce
        other_eui = None if join_eui is None else eui(join_eui)
        joining = crafted.join(device.provisioned.identity, nonce, join_eui=other_eui)
        self.announce(joining)
        return joining

    def told(
        self, frame: Frame, *, by: str, dr: int | None = None, freq_hz: int | None = None
    ) -> str:
        xtime = self.known_station(by).tap.xtime_now()
        return reception_text(frame.phy, self.region, xtime, dr=dr, freq_hz=freq_hz)

    async def say(self, text: str, *, by: str) -> None:
        await self.start()
        self.known_station(by).tap.inject(text)
        await self.pause(0)

    def announce(self, frame: Frame, *, genuine: bool = True) -> None:
        """Note a frame that the bench made, so that the books know who sent it."""
        facts: dict[str, object] = {"dev_eui": frame.dev_eui, "frame_id": frame.frame_id}
        if isinstance(frame, Sent):
            facts |= {"session": frame.session, "f_cnt": frame.f_cnt}
        self.medium.announce(frame.dev_eui, frame.phy, {**facts, "genuine": genuine})

    def sessions_opened(self, device: Provisioned) -> list[tuple[str, Keys]]:
        """The sessions that join accepts have opened for a device, oldest first."""
        return sessions_opened(self.case.events, device.identity)

    def deliver(self, frame: Frame, *, by: str) -> None:
        """Let a station deliver a frame now, as if it had just heard it."""
        self.known_station(by).tap.replay(self.told(frame, by=by))

    # --- what became of it -------------------------------------------------------------------

    def note_request(self, device: Any, downlink: ApplicationDownlink | None = None) -> None:
        """Tell what the application wants sent to a device; None: to know its status."""
        facts: dict[str, object] = {"dev_eui": device.provisioned.dev_eui, "wants": "status"}
        if downlink is not None:
            facts |= {"wants": "downlink", "f_port": downlink.f_port}
            facts |= {"payload": downlink.payload.hex(), "confirmed": downlink.confirmed}
        self.record("application", REQUEST, facts)

    def note_unreadable_request(self, device: Any) -> None:
        """Tell that an application asks for something that nobody can read."""
        facts: dict[str, object] = {"dev_eui": device.provisioned.dev_eui, "wants": "unreadable"}
        self.record("application", REQUEST, facts)

    def inspect(self, *, is_stuck: bool = False) -> None:
        """Note what is wrong in all that network servers handed over.

        `is_stuck`: a device refused to go on, which may be for want of what it was not given.
        """
        provisioned = [device.provisioned for device in self._devices.values()]
        names = {str(station.eui): station.name for station in self._stations.values()}
        plan = channel_plan(self.region.name)
        known = [_known(one, plan) for one in provisioned if one.known]
        has_twins = len(names) < len(self._stations)
        inspector = Inspector(
            plan, NET_ID, known, names, began=self.clock_began, has_twins=has_twins
        )
        for found in inspector.inspect(self.case.in_order(), is_stuck=is_stuck):
            self.case.find(found)

    # --- network server, application, time ----------------------------------------------------

    async def restart_lns(self, *, f_cnt_up: int | None = None, lns: str = "lns-a") -> None:
        """Restart a server; `f_cnt_up` replaces the counters it had persisted."""
        await self.kill_lns(lns)
        await self._start_lns(lns, f_cnt_up)

    async def kill_lns(self, lns: str = "lns-a") -> None:
        await self.start()
        self.case.lns(lns, "kill")
        await self.server_of(lns).kill()

    async def start_lns(self, lns: str = "lns-a") -> None:
        await self._start_lns(lns, None)

    async def _start_lns(self, lns: str, f_cnt_up: int | None) -> None:
        facts = {} if f_cnt_up is None else {"f_cnt_up": f_cnt_up}
        self.case.lns(lns, "restart", **facts)
        await self._run_server_again(lns, f_cnt_up)
        await self.pause(100_000)  # until the stations notice
        await self._until_stations_are_up()

    def delay_upstream(self, us: int, messages: int = 1) -> None:
        raise self._is_missing("slow application")

    def refuse_upstream(self, messages: int = 1) -> None:
        raise self._is_missing("slow application")

    async def _run_server_again(self, lns: str, f_cnt_up: int | None) -> None:
        await self.server_of(lns).start_again(f_cnt_up=f_cnt_up)

    async def orphan_next_frame(self, device: Any) -> None:
        await self.start()
        session = device.session
        dev_eui, f_cnt = device.provisioned.dev_eui, session.f_cnt_up
        self.note_store("fault.begin", "orphan", lns=DEAD_LNS, dev_eui=dev_eui, f_cnt=f_cnt)
        await self.claim(Bid(lns=DEAD_LNS, dev_eui=dev_eui, dev_addr=session.dev_addr, f_cnt=f_cnt))

    @abstractmethod
    async def claim(self, bid: Bid) -> None:
        """Claim a frame in the name of a server that is none of this rig's."""

    async def pause_lns_in_mid_claim(self, lns: str = "lns-a") -> None:
        raise self._is_missing("wires")

    def pause_lns(self, lns: str = "lns-a") -> None:
        raise self._is_missing("wires")

    def resume_lns(self, lns: str = "lns-a") -> None:
        raise self._is_missing("wires")

    def cut_upstream(self) -> None:
        raise self._is_missing("wires")

    async def restore_upstream(self) -> None:
        raise self._is_missing("wires")

    def pause_store(self) -> None:
        raise self._is_missing("wires")

    def resume_store(self) -> None:
        raise self._is_missing("wires")

    def park_after(self, us: int) -> None:
        raise self._is_missing("wires")

    async def release_parked(self, lns: str = "lns-a") -> None:
        raise self._is_missing("wires")

    async def spoil_store(self, device: Any) -> None:
        raise self._is_missing("wires")

    async def mend_store(self, device: Any) -> None:
        raise self._is_missing("wires")

    def note_store(self, kind: str, fault: str, **detail: object) -> None:
        """Tell of a fault at the store that all network servers meet."""
        told: dict[str, object] = {"seam": "store", "fault": fault, "origin": "injected"}
        self.record("bench", kind, told | {"detail": detail})

    def step_wall_clock(self, us: int, *, lns: str = "lns-a") -> None:
        raise self._is_missing("wall clock")

    def _is_missing(self, capability: str) -> RuntimeError:
        return RuntimeError(
            f"this rig has no {capability}: mark the scenario with"
            f" @pytest.mark.requires({capability!r}), so that it is left out here"
        )

    async def wait(self, us: int) -> None:
        await self.pause(self.retimed(us))

    async def wait_until(self, us: int) -> None:
        await self.start()
        self._due_us = max(self._due_us + self.retimed(us - self._reached_us), now_us())
        self._reached_us = us
        await self.pause(self._due_us - now_us())

    async def meanwhile(self, us: int, action: Callable[[], None]) -> None:
        await self.start()
        asyncio.get_running_loop().call_later(us / 1_000_000, action)

    async def settle(self) -> None:
        delays_us = [station.longest_delay_us for station in self._stations.values()]
        delays_us.append(self._longest_delay_us)
        await self.pause(max(delays_us, default=0) + SETTLE_US)

    # --- what is due ----------------------------------------------------------------------------

    def expect(self, frame: Frame, table: Table, **stations: str | tuple[str, ...]) -> None:
        for due in table.row(self.strategy, _kind_of(frame), stations):
            self.expect_due(frame, due)

    def expect_due(self, frame: Frame, due: Due) -> None:
        """Expect the words of the next reception of a frame."""
        self.case.expect_outcome(frame.frame_id, self.known_station(due.station).eui, due)

    def expect_race(self, frame: Frame, table: Table, *, between: Sequence[str]) -> None:
        due = table.race(self.strategy, _kind_of(frame), between)
        self.case.expect_race(frame.frame_id, {self.known_station(d.station).eui: d for d in due})

    def expect_reply(self, frame: Frame, line: str | None = None) -> None:
        self.case.expect_line(frame.dev_eui, self.reply_line(frame, line))

    def reply_line(self, frame: Frame, line: str | None) -> str:
        """The line that is due, in the words of RUI3; None: what a successful frame ends in."""
        if line is not None:
            return line
        return "+EVT:JOINED" if isinstance(frame, Joining) else REPLIES[frame.confirmed]

    def expect_downlink(
        self, device: Any, payload: bytes, *, port: int = 2, window: str = "1"
    ) -> None:
        line = f"+EVT:RX_{window}:UNICAST:{port}:{payload.hex()}"
        self.case.expect_line(device.provisioned.dev_eui, line)

    def expect_status(self, device: Any, *, times: int = 1) -> None:
        self.case.expect_status(device.provisioned.dev_eui, times)

    def expect_evictions(self, times: int) -> None:
        self.case.expect_evictions(times)

    def expect_upstream(self, uplink: Sent, *, through: str, **body: object) -> None:
        station = self.known_station(through).eui
        self.case.expect_upstream(uplink.dev_eui, uplink.f_cnt, station, body)

    def expect_answer(self, frame: Frame, **said: int | bool | None) -> None:
        self.case.expect_answer(frame.frame_id, said)

    def expect_on_air(self, frame: Frame, *windows: str) -> None:
        self.case.expect_on_air(frame.frame_id, windows)


def _known(provisioned: Provisioned, plan: ChannelPlan) -> KnownDevice:
    record, session = provisioned.record, provisioned.session()
    sessions = []
    if session is not None:
        keys = Keys(session.keys.nwk_s_key, session.keys.app_s_key)
        last = session.f_cnt_down - 1 if session.f_cnt_down else None
        sessions.append(Session(session.dev_addr, keys, plan.rx2_dr, f_cnt_down=last))
    return KnownDevice(
        record.dev_eui,
        provisioned.app_key,
        sessions,
        server=record.server,
        join_nonce_min=record.join_nonce_min,
        is_class_c=record.device_class is DeviceClass.C,
        nb_trans=record.nb_trans,
        counts_join_nonces=record.lorawan is LoRaWanVersion.V1_0_4,
        rx1_dr_offset=record.listening.rx1_dr_offset,
        rx_delay_s=record.listening.rx_delay_s,
        rx2_dr=record.listening.rx2_dr,
        status_wanted=record.dev_status_s is not None,
    )


def _kind_of(frame: Frame) -> str:
    if isinstance(frame, Joining):
        return "join"
    return "confirmed" if frame.confirmed else "unconfirmed"
