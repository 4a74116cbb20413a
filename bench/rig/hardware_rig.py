"""The hardware rig: real boards at serial ports, real gateways, all else as programs."""

from typing import Any

from bench.capture.reading import Event
from bench.device.interfaces import DeviceSession, Ending, Joining, Outcome, Sent
from bench.inspection.inspector import REQUEST
from bench.plan import PlannedCase
from bench.rig.case_setup import CaseSetup
from bench.rig.interfaces import CaseDevice, Devices, Parts, capabilities_of
from bench.rig.on_hardware.hardware_bench import HardwareBench, Place
from bench.rig.on_hardware.lab_air import LabAir, LabStations
from bench.rig.on_hardware.lab_board import DATA_OVERHEAD_BYTES, LabBoard
from bench.rig.programs.process_application import ProcessApplication
from bench.rig.programs.processes import ProcessServers, ProcessStore
from bench.rig.provisioning import PAYLOAD, Answer, DeviceBook, Known, Provisioned
from bench.rig.rig import Rig
from bench.verdict.case import Case, StimulusMissed
from bench.virtual import crafted
from lns.clock import utc_of_this_host
from lns.lorawan.frame import Data, JoinRequest
from lns.lorawan.identifiers import Eui
from lns.uplink.registry import Activation

JOIN_BYTES = 23


class BoardDevice(CaseDevice):
    """One device; without a board it is only a name, keys and a counter."""

    def __init__(self, provisioned: Provisioned, air: LabAir) -> None:
        self.provisioned = provisioned
        self.board: LabBoard | None = None
        self._air = air
        self._own_book: DeviceBook | None = None
        self._retries = 0

    @property
    def dev_eui(self) -> Eui:
        return self.provisioned.dev_eui

    @property
    def book(self) -> DeviceBook:
        if self.board is not None:
            return self.board.book
        if self._own_book is None:
            self._own_book = DeviceBook(self.dev_eui)
            if self.provisioned.record.activation is Activation.ABP:
                heard = self.provisioned.f_cnt_up
                first = self.provisioned.stack.first_f_cnt if heard is None else heard + 1
                known = self.provisioned
                self._own_book.begin(known.dev_addr, known.keys, f_cnt_up=first)
        return self._own_book

    @property
    def session(self) -> DeviceSession | None:
        return self.book.session

    @property
    def dev_nonce(self) -> int:
        return self.book.dev_nonce

    @property
    def joins(self) -> bool:
        return self.provisioned.record.activation is Activation.OTAA

    async def start(self) -> None:
        if self.board is not None:
            self.board.listener = self._air.setup.record

    async def send(
        self,
        payload: bytes = PAYLOAD,
        *,
        confirmed: bool = False,
        port: int = 2,
        retries: int = 0,
        transmissions: int = 1,
    ) -> Sent:
        board = await self._ready()
        times = max(transmissions, retries + 1)
        await self._air.bench.may_send(
            board.name, DATA_OVERHEAD_BYTES + len(payload), board.entry.dr, times=times
        )
        if retries != self._retries and board.nb_trans == 1:
            await board.driver.set_retries(retries)
            self._retries = retries
        since, next_f_cnt = self._air.place, self._next_f_cnt
        answers = len(self.book.on_air)
        ending = await board.driver.send(
            payload, port=port, confirmed=confirmed, transmissions=times
        )

        def wanted(known: Known) -> bool:
            frame = known.frame
            return (
                isinstance(frame, Data)
                and frame.confirmed is confirmed
                and frame.f_port == port
                and known.payload == payload
            )

        if self._air.nobody_can_tell():
            return self._told_later(payload, port, next_f_cnt, ending, confirmed=confirmed)
        seen = await self._air.seen(self.dev_eui, since, wanted)
        if not seen:
            raise StimulusMissed(
                "air", f"no station heard the frame that {board.name} sent ({_of(ending)})"
            )
        is_over = ending.outcome in (Outcome.FAILED, Outcome.SENT, Outcome.UNTOLD)
        answered = self._air.was_answered(self.dev_eui, since)
        if is_over and len(seen) < times and (ending.outcome is Outcome.FAILED or not answered):
            raise StimulusMissed(
                "air", f"of {times} transmissions of {board.name} {len(seen)} were heard"
            )
        if ending.outcome is Outcome.FAILED:
            self._insist_that_it_heard(Answer.ACK, answers)
        known = seen[0][0]
        assert known.session is not None
        sent = Sent(
            self.dev_eui, known.frame_id, known.phy, known.f_cnt,
            known.session.number, confirmed,
            acknowledged=ending.outcome is Outcome.ACKNOWLEDGED,
            transmissions=[transmission for _, transmission in seen],
        )  # fmt: skip
        if sent.acknowledged and not answered:
            raise StimulusMissed(
                "air", f"{board.name} says it was acknowledged, but no station was told to answer"
            )
        return sent

    def _insist_that_it_heard(self, answer: Answer, since: int) -> None:
        """StimulusMissed if that was sent to it, in its window and as it had to be."""
        if answer in self.book.on_air[since:]:
            name = self.provisioned.record.name
            raise StimulusMissed("air", f"{name} did not hear the {answer} that a gateway has sent")

    @property
    def _next_f_cnt(self) -> int:
        return 0 if self.session is None else self.session.f_cnt_up

    def _told_later(
        self, payload: bytes, port: int, f_cnt: int, ending: Ending, *, confirmed: bool
    ) -> Sent:
        session = self.session
        assert session is not None, "only a device with a session sends data"
        session.f_cnt_up = max(session.f_cnt_up, f_cnt + 1)
        sent = crafted.data(
            self.dev_eui, session.dev_addr, session.keys, f_cnt,
            session=session.number, confirmed=confirmed, payload=payload, port=port,
        )  # fmt: skip
        sent.acknowledged = ending.outcome is Outcome.ACKNOWLEDGED
        return sent

    async def join(self) -> Joining:
        board = await self._ready()
        await self._air.bench.may_send(board.name, JOIN_BYTES, board.entry.dr)
        since, answers = self._air.place, len(self.book.on_air)
        accepted = await board.driver.join()

        def wanted(known: Known) -> bool:
            return isinstance(known.frame, JoinRequest)

        seen = await self._air.seen(self.dev_eui, since, wanted)
        if not seen:
            raise StimulusMissed("air", f"no station heard the join request of {board.name}")
        if not accepted:
            self._insist_that_it_heard(Answer.JOIN_ACCEPT, answers)
        known = seen[0][0]
        assert isinstance(known.frame, JoinRequest)
        return Joining(
            self.dev_eui, known.frame_id, known.phy, known.frame.dev_nonce,
            accepted=accepted,
            transmissions=[transmission for _, transmission in seen],
        )  # fmt: skip

    async def set_adr(self, adr: bool) -> None:
        await (await self._ready()).driver.set_adr(adr)

    async def ask_time(self) -> None:
        await (await self._ready()).driver.ask_time()

    async def ask_link(self) -> None:
        await (await self._ready()).driver.ask_link()

    async def restart(self, *, memory: bool) -> None:
        board = await self._ready()
        await board.restart(memory=memory, otaa=self.joins)

    async def _ready(self) -> LabBoard:
        await self._air.setup.begin()
        if self.board is None:
            raise RuntimeError(
                f"device {self.provisioned.record.name!r} was not to act, by the dry run of this"
                " scenario: does it decide by chance or by the clock what it does?"
            )
        return self.board


class LabDevices(Devices):
    """The devices of one case, on boards of a lab as its dry run has planned it."""

    capabilities: frozenset[str] = frozenset()

    def __init__(self, setup: CaseSetup, air: LabAir) -> None:
        self._setup = setup
        self._air = air
        self._place: Place | None = None

    def new(self, provisioned: Provisioned) -> CaseDevice:
        return BoardDevice(provisioned, self._air)

    async def ready(self) -> None:
        bench, planned = self._air.bench, self._air.planned
        place = self._place = await bench.pool.take(planned, alone=self._air.alone)
        await bench.gateways.until_up(bench.taps.uri)
        for one in planned.on_air:
            device, board = self._setup.device(one.name), place.boards[one.name]
            assert isinstance(device, BoardDevice)
            device.provisioned = await board.prepare(device.provisioned, one, bench)
            device.board = board

    def line_of(self, dev_eui: Eui, line: str) -> str | None:
        for device in self._setup.devices.values():
            assert isinstance(device, BoardDevice)
            if device.board is not None and device.dev_eui == dev_eui:
                return device.board.driver.said(line)
        return line

    async def end(self) -> None:
        if self._place is not None:
            for board in self._place.boards.values():
                board.listener = self._air.bench.say
            await self._air.bench.pool.give_back(self._place)


def _of(ending: Ending) -> str:
    return ending.line or ending.outcome.value


LIMIT_S = 900
"""Real air may keep a case waiting for its duty cycle."""
CAPABILITIES = capabilities_of(ProcessServers, ProcessStore, ProcessApplication)
"""What a rig in a lab can do, besides what its inventory says."""


def _is_of(case: Case, event: Event) -> bool:
    """Whether a server says this of its case: all of its id hear what applications ask of one."""
    if event["kind"] != "lns.request" or event["stage"] != "refused":
        return True
    dev_eui, asked = event.get("dev_eui"), [one for one in case.events if one["kind"] == REQUEST]
    if dev_eui is None:
        return any(one["wants"] == "unreadable" for one in asked)
    return any(one["dev_eui"] == dev_eui for one in asked)


def hardware_rig(
    bench: HardwareBench,
    planned: PlannedCase,
    *,
    alone: bool,
    wants_store: bool = False,
    **facts: Any,
) -> Rig:
    """One case on the boards and gateways of a lab, as its dry run has planned it.

    `facts` are those of `CaseSetup`.
    """
    setup = CaseSetup(wall_clock_start=utc_of_this_host(), **facts)
    application = ProcessApplication(setup, bench)

    def take(event: Event) -> None:
        tell = setup.case.collect if _is_of(setup.case, event) else bench.note
        tell(event)

    servers = ProcessServers(setup, bench, application, own=True, take=take)
    air = LabAir(setup, bench, planned, alone=alone)
    parts = Parts(
        LabDevices(setup, air),
        LabStations(setup, air),
        servers,
        ProcessStore(setup, bench, servers, wants=wants_store),
        application,
    )
    return Rig(setup, parts, limit_s=LIMIT_S)
