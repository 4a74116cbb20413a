"""A board of the lab: who it is on the air, and how does a case get it as it needs it?

A board keeps its identity from night to night, and its counters go on from case to case: flash
wears, and whatever does not have to be written is not.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from bench.capture import Record
from bench.chance import stream
from bench.device.interfaces import (
    Abp,
    AttachedDevice,
    DeviceConfig,
    DeviceRestarted,
    DeviceSession,
    DeviceSilent,
    NotAsWritten,
    Otaa,
    UnknownFirmware,
    WrongDevice,
)
from bench.device.serial_line import LineLost, PortUnavailable
from bench.lab.inventory import DeviceEntry
from bench.lab.inventory.sections import LimitsSection
from bench.lab.power import PowerSwitch
from bench.lab.regulation import check_eirp, check_region
from bench.plan import Board, PlannedDevice, by_the_network
from bench.rig.provisioning import FIRST_DEV_ADDR, JOIN_EUI, DeviceBook, Provisioned
from bench.verdict.case import StimulusMissed
from lns.clock import utc_of_this_host
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import Eui, dev_addr
from lns.lorawan.mac_commands import encode
from lns.lorawan.region import Region, region
from lns.station.messages import Dnmsg, Updf, dnmsg_text, parse_up
from lns.uplink.mac_layer import repetitions
from lns.uplink.registry import Activation, DeviceClass, LoRaWanVersion

MID_LIFE_F_CNT = 2
"""FCnt 0 and 1 may be those of a device that has just restarted; from 2 on nobody thinks so."""
DATA_OVERHEAD_BYTES = 13
"""MHDR, DevAddr, FCtrl, FCnt, FPort and MIC."""
FRAMES_MAX = 6
_PAYLOAD = b"warm up"
RETURN_US = 30_000_000
_JOIN_NONCES_SINCE = datetime(2026, 1, 1, tzinfo=UTC)
_JOIN_NONCE_S = 20  # a board joins seldom more often, and 24 bits of it are ten years


class BoardUnfit(Exception):
    """A board does not do what the bench needs; the text names it and says what was tried."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """The identity of a board on the air, the same every night."""

    otaa: Otaa
    abp: Abp


def secrets_of(entry: DeviceEntry, bench: str) -> Secrets:
    """What the inventory says, or what name of bench and DevEUI give."""
    chance = stream(0, "identity", bench, entry.dev_eui)
    app_key, nwk_s_key, app_s_key = (chance.randbytes(16) for _ in range(3))
    address = dev_addr(f"{FIRST_DEV_ADDR + chance.getrandbits(24):08X}")
    return Secrets(
        Otaa(entry.join_eui or JOIN_EUI, entry.app_key or app_key),
        Abp(entry.dev_addr or address, entry.keys or SessionKeys(nwk_s_key, app_s_key)),
    )


class OverTheAir(Protocol):
    """What a board needs of the bench to get a frame through without any case."""

    async def heard(self, board: "LabBoard", since: int) -> int:
        """How many transmissions of a board were heard since; waits a moment for the first."""

    async def may_send(self, transmitter: str, size: int, dr: int, *, times: int = 1) -> None:
        """Wait until region and air allow it so many octets, and book them; NeverPermitted."""

    async def answer(self, board: "LabBoard", dnmsg: str) -> None:
        """Let the gateway that has heard a board last send it something; LinkClosed."""


class LabBoard:
    """One board; remembers its case, its book, and the mode in which it was left.

    `lines` go to whom `listener` names: the case that has the board, or the run.
    """

    def __init__(
        self,
        entry: DeviceEntry,
        bench: str,
        region_name: str,
        driver_of: Callable[[Record], AttachedDevice],
        *,
        limits: LimitsSection,
        power: PowerSwitch | None = None,
        reset: PowerSwitch | None = None,
    ) -> None:
        self.entry = entry
        self._eirp_dbm_max = limits.eirp_dbm_max
        self._patience_us = limits.board_patience_s * 1_000_000
        self.secrets = secrets_of(entry, bench)
        self.book = DeviceBook(entry.dev_eui, self.secrets.otaa)
        self.listener: Record = lambda source, kind, fields: None
        self.driver = driver_of(self._say)
        self.frames = 0
        """Frames of it that stations have told of, since the bench was opened."""
        self.heard_by: set[str] = set()
        """The gateways that have told of any of them."""
        self.last_heard = "", ""
        """The gateway that told of the last one, and its words."""
        self.nb_trans = 1
        """How often it sends each frame, as the network has told it."""
        self.unfit: str = ""
        self._region = region_name
        self._power = power
        self._reset = reset
        self._mode: Abp | None = None
        self._settled = False
        self._is_checked = False
        self._repeats = False

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def dr(self) -> int:
        return self.entry.dr

    @property
    def abilities(self) -> Board:
        """What it can do, as it has said itself."""
        return Board(name=self.name, dialect=self.entry.radio.dialect, traits=self.driver.traits)

    def _say(self, source: str, kind: str, fields: dict[str, object]) -> None:
        self.listener(source, kind, fields)

    async def identify(self) -> str:
        """Its firmware; BoardUnfit when another board is there, or none."""
        try:
            return await self.driver.identify()
        except (DeviceSilent, DeviceRestarted, LineLost, PortUnavailable):
            await self.back()
            return await self.driver.identify()

    async def back(self) -> None:
        """Get a board back that has not answered: its port, else its power; BoardUnfit."""
        try:
            await self.driver.returned(self._patience_us)
            return
        except (DeviceSilent, LineLost, PortUnavailable, DeviceRestarted) as error:
            if self._power is None:
                raise BoardUnfit(f"{self.name}: {error}") from None
        await self._power.cycle()
        self._settled = False  # nobody knows any more what it will count next
        try:
            await self.driver.returned(RETURN_US)
        except (DeviceSilent, LineLost, PortUnavailable, DeviceRestarted) as error:
            raise BoardUnfit(f"{self.name}: also after a power cycle: {error}") from None

    async def prepare(
        self, provisioned: Provisioned, planned: PlannedDevice, air: OverTheAir
    ) -> Provisioned:
        """The device of a case, as it is on this board; the board is in the state that it needs.

        BoardUnfit when that cannot be reached.
        """
        otaa = provisioned.record.activation is Activation.OTAA
        await self._recognise()
        own = self._own_identity(provisioned, given=planned.explicit_identity)
        wanted = DeviceConfig(
            dev_eui=self.entry.dev_eui,
            activation=self.secrets.otaa if otaa else Abp(own.dev_addr, own.keys),
            region=self._region,
            dr=self.entry.dr if provisioned.dr is None else provisioned.dr,
            power_dbm=min(self.entry.power_dbm, self._eirp_dbm_max),
            class_c=provisioned.record.device_class is DeviceClass.C,
            # Without ADR it would refuse the LinkADRReq that tells it to repeat.
            adr=provisioned.adr or by_the_network(planned, self.abilities),
        )
        try:
            if self._repeats or self.nb_trans > 1:
                # Its MAC still does what a LinkADRReq of the last case told it.
                await self.driver.restart()
                self._settled, self.nb_trans = False, 1
            self._repeats = wanted.adr
            await self.driver.provision(wanted)
            await self._check_radiation()
            await self.driver.set_retries(0)
        except (BoardUnfit, NotAsWritten, UnknownFirmware, WrongDevice) as error:
            self.unfit = str(error)
            raise
        if otaa:
            await self.driver.restart()
            self._mode = None
            return own
        if self._mode != wanted.activation:
            self._mode, self._settled = Abp(own.dev_addr, own.keys), False
            self.book.sessions.clear()
        repeats = by_the_network(planned, self.abilities)
        if not planned.is_in_mid_life:
            if repeats:
                await self._into_mid_life(air)
                await repeat(self, planned.nb_trans, region(self._region), air)
            return await self._counting_from(own, planned.next_f_cnt)
        await self._into_mid_life(air)
        if repeats:
            await repeat(self, planned.nb_trans, region(self._region), air)
        session = self.book.session
        assert session is not None
        down = 0 if session.f_cnt_down is None else session.f_cnt_down + 1
        return replace(own, f_cnt_up=session.f_cnt_up - 1, f_cnt_down=down)

    async def _recognise(self) -> None:
        """Ask who it is: what it can do depends on its firmware; BoardUnfit."""
        try:
            await self.identify()
        except (BoardUnfit, UnknownFirmware, WrongDevice) as error:
            self.unfit = str(error)
            raise
        self.book.first_f_cnt = self.driver.traits.first_f_cnt

    async def _check_radiation(self) -> None:
        """Read region and power back, once: what it was told is not what it does; BoardUnfit."""
        if self._is_checked:
            return
        radiation, here = await self.driver.radiation(), region(self._region)
        wrong = check_region(self.name, radiation.region, here) or check_eirp(
            self.name, radiation.eirp_dbm, here, self._eirp_dbm_max
        )
        if wrong is not None:
            raise BoardUnfit(wrong)
        self._is_checked = True

    def _own_identity(self, provisioned: Provisioned, *, given: bool) -> Provisioned:
        otaa, abp = self.secrets.otaa, self.secrets.abp
        if given:
            abp = Abp(provisioned.dev_addr, provisioned.keys)
        record = replace(provisioned.record, dev_eui=self.entry.dev_eui)
        if record.activation is Activation.OTAA:
            record = replace(
                record,
                join_eui=otaa.join_eui,
                app_key=otaa.app_key,
                lorawan=self._lorawan(record.lorawan),
                join_nonce_min=max(_join_nonce_now(), self.book.join_nonce + 1),
            )
        else:
            record = replace(record, dev_addr=abp.dev_addr, session_keys=abp.keys)
        return replace(
            provisioned, record=record, dev_addr=abp.dev_addr, keys=abp.keys, app_key=otaa.app_key
        )

    def _lorawan(self, wanted: LoRaWanVersion) -> LoRaWanVersion:
        if wanted is LoRaWanVersion.V1_0_4 and not self.driver.traits.counts_dev_nonces:
            return LoRaWanVersion.V1_0_3
        return wanted

    async def _counting_from(self, own: Provisioned, counter: int | None) -> Provisioned:
        first = self.driver.traits.first_f_cnt
        wanted = first if counter is None else counter
        if self.driver.traits.sets_counters:
            await self.driver.set_counters(wanted, own.f_cnt_down)
        elif wanted == first:
            await self.driver.reset_counters()
        else:
            raise BoardUnfit(f"{self.name}: its counter cannot be set to {counter}")
        self._begin_session(wanted, None if not own.f_cnt_down else own.f_cnt_down - 1)
        self._settled = False  # the next case does not want these
        return own

    async def _into_mid_life(self, air: OverTheAir) -> None:
        session = self.book.session
        if self._settled and session is not None and session.f_cnt_up >= MID_LIFE_F_CNT:
            return
        if self.driver.traits.sets_counters:
            await self.driver.set_counters(10, 0)
            self._begin_session(10, None)
        else:
            await self.driver.reset_counters()
            self._begin_session(self.driver.traits.first_f_cnt, None)
            await warm_up(self, air)
        self._settled = True

    def _begin_session(self, f_cnt_up: int, f_cnt_down: int | None) -> None:
        abp = self._mode
        assert abp is not None
        self.book.begin(abp.dev_addr, abp.keys, f_cnt_up=f_cnt_up, f_cnt_down=f_cnt_down)

    async def restart(self, *, memory: bool, otaa: bool) -> None:
        """Restart it; without memory an ABP device counts anew, and one that joins has to join."""
        if self._reset is not None:
            await self.driver.restarted_by(self._reset.cycle())
        elif not memory and self._power is not None:
            await self.driver.restarted_by(self._power.cycle())
        else:
            await self.driver.restart()
        if not memory and not otaa:
            await self.driver.reset_counters()
            self._begin_session(self.driver.traits.first_f_cnt, None)

    async def silence(self) -> None:
        async with asyncio.timeout(RETURN_US / 1_000_000):
            await self.driver.silence()


def _join_nonce_now() -> int:
    """A JoinNonce that no earlier run has used: every run has a store of its own, a board has not.

    LoRaWAN 1.0.4, 6.2.3: a board may refuse one that is not greater than the last.
    """
    since = utc_of_this_host() - _JOIN_NONCES_SINCE
    return max(1, int(since.total_seconds()) // _JOIN_NONCE_S)


async def warm_up(board: LabBoard, air: OverTheAir) -> None:
    """Send until a frame was heard whose counter is that of no beginning; StimulusMissed."""
    session = _session(board)
    for _ in range(FRAMES_MAX):
        await _may_send(board, air)
        since = board.frames
        await board.driver.send(_PAYLOAD, port=1)
        await air.heard(board, since)
        if session.f_cnt_up >= MID_LIFE_F_CNT:
            return
    raise StimulusMissed(
        "air",
        f"{board.name}: no station heard any of {FRAMES_MAX} frames; antennas, attenuators,"
        " channel plan of the gateways?",
    )


async def repeat(board: LabBoard, nb_trans: int, region: Region, air: OverTheAir) -> None:
    """Let the network tell it to send each frame so often, until it does; StimulusMissed."""
    session = _session(board)
    for _ in range(FRAMES_MAX):
        await _may_send(board, air)
        since = board.frames
        sending = asyncio.ensure_future(board.driver.send(_PAYLOAD, port=1))
        try:
            if await air.heard(board, since):
                heard = board.last_heard[1]
                dnmsg = _told_to_repeat(heard, board.book.dev_eui, session, region, nb_trans)
                await air.answer(board, dnmsg)
        finally:
            await sending
        await _may_send(board, air, times=nb_trans)
        since = board.frames
        await board.driver.send(_PAYLOAD, port=1, transmissions=nb_trans)
        if board.frames - since >= nb_trans:
            board.nb_trans = nb_trans
            return
    raise StimulusMissed("device", f"{board.name}: it does not repeat, though it was told to")


async def _may_send(board: LabBoard, air: OverTheAir, *, times: int = 1) -> None:
    await air.may_send(board.name, DATA_OVERHEAD_BYTES + len(_PAYLOAD), board.dr, times=times)


def _session(board: LabBoard) -> DeviceSession:
    session = board.book.session
    assert session is not None, "only a board with a session can send"
    return session


def _told_to_repeat(
    text: str, dev_eui: Eui, session: DeviceSession, region: Region, nb_trans: int
) -> str:
    """The `dnmsg` that answers a reception (`text`) with a LinkADRReq; uses up an FCntDown."""
    heard = parse_up(text)
    assert isinstance(heard, Updf), "a board was heard by it"
    f_cnt = 0 if session.f_cnt_down is None else session.f_cnt_down + 1
    session.f_cnt_down = f_cnt
    pdu = build_data(
        MType.UNCONFIRMED_DOWN,
        dev_addr=session.dev_addr,
        f_cnt=f_cnt,
        keys=session.keys,
        f_opts=encode([repetitions(nb_trans, dr=heard.dr, region=region)]),
    )
    rx1_dr, rx1_freq_hz = region.rx1(heard.dr, heard.freq_hz, 0)
    return dnmsg_text(
        Dnmsg(
            dev_eui=dev_eui,
            diid=0,
            pdu=pdu,
            rx_delay_s=region.receive_delay_us // 1_000_000,
            rx1_dr=rx1_dr,
            rx1_freq_hz=rx1_freq_hz,
            rx2_dr=region.rx2_dr,
            rx2_freq_hz=region.rx2_freq_hz,
            xtime=heard.upinfo.xtime,
            rctx=heard.upinfo.rctx,
        )
    )
