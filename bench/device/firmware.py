"""What does a LoRaWAN 1.0.x device of class A or C do, from its console to its antenna?

A MAC in software behind the console lines of RUI3. Not simulated: duty cycle of the device, ADR
back-off, fewer channels by LinkADRReq, more channels by CFList.
"""

import asyncio
from dataclasses import dataclass, replace

from bench.chance import stream
from bench.device.activation import (
    Abp,
    Otaa,
    fixed_session,
    join_accept_for,
    joined_session,
)
from bench.device.class_c import unasked
from bench.device.console import Console
from bench.device.link_adr import judge
from bench.device.radio import ClassARadio, Received, Restarted
from bench.device.receive_windows import ReceiveWindows, windows_after
from bench.device.seam import Joining, Sent
from bench.device.session import DeviceSession, Downlink
from bench.device.stack import LORAMAC_NODE, RetryFrom, Stack
from bench.radio.medium import Heard, Medium, Record, Transmission
from lns.clock import now_us
from lns.lorawan.frame import Data, JoinAcceptFields, JoinRequest, build_join_request, parse
from lns.lorawan.identifiers import Eui
from lns.lorawan.mac_commands import (
    DeviceTimeReq,
    LinkADRAns,
    LinkADRReq,
    LinkCheckReq,
    MacCommand,
)

__all__ = ["Abp", "Otaa", "Settings", "VirtualDevice"]

BOOT_US = 500_000
_RX2_TIMEOUT = 4  # LoRaMacEventInfoStatus: the ordinary missed acknowledgement
_JOIN_FAIL = 7  # LoRaMacEventInfoStatus: an accept of this server that the device refuses
_ASKING = {LinkCheckReq: "AT+LINKCHECK=1", DeviceTimeReq: "AT+TIMEREQ=1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the console sets: data rate, power, retries of confirmed frames, repetitions, ADR.

    `class_c`: RX2 is open whenever the device does not send.
    """

    dr: int = 5
    power_dbm: int = 14
    retries: int = 0
    nb_trans: int = 1
    adr: bool = False
    class_c: bool = False


class VirtualDevice:
    """One device; remembers session, DevNonce, JoinNonce and settings until it is told not to."""

    def __init__(
        self,
        name: str,
        dev_eui: Eui,
        activation: Otaa | Abp,
        medium: Medium,
        *,
        seed: int,
        record: Record,
        stack: Stack = LORAMAC_NODE,
        settings: Settings | None = None,
    ) -> None:
        self.name = name
        self.dev_eui = dev_eui
        self.stack = stack
        self.settings = settings or Settings()
        self.session: DeviceSession | None = None
        self.last_join: Joining | None = None
        self.dev_nonce = 0
        self.join_nonce = 0
        self.activation = activation
        self.region = medium.region
        self._radio = ClassARadio(dev_eui, medium, stream(seed, "device", name, "channel"))
        self._radio.unasked = self._hear_unasked
        self._retry_chance = stream(seed, "device", name, "retry")
        self._console = Console(name, dev_eui, record)
        self._sessions = 0
        self._asks: list[MacCommand] = []
        self.confirming = False
        self._busy = False
        self._forget_session()

    def set_retries(self, retries: int) -> None:
        """How often a confirmed frame without acknowledgement is repeated, 0..7."""
        self._console.command(f"AT+RETY={retries}")
        self.settings = replace(self.settings, retries=retries)
        self._console.line("OK")

    def set_confirming(self, confirming: bool) -> None:
        """Whether the messages from now on ask for an acknowledgement."""
        self._console.command(f"AT+CFM={int(confirming)}")
        self.confirming = confirming
        self._console.line("OK")

    def set_adr(self, adr: bool) -> None:
        """Whether the network server may set how the messages from now on are sent."""
        self._console.command(f"AT+ADR={int(adr)}")
        self.settings = replace(self.settings, adr=adr)
        self._console.line("OK")

    def ask(self, request: MacCommand) -> None:
        """Ask the network with the next message: LinkCheckReq, DeviceTimeReq."""
        self._console.command(_ASKING[type(request)])
        self._asks.append(request)
        self._console.line("OK")

    def set_nb_trans(self, nb_trans: int) -> None:
        """Transmissions of every frame, 1..15, as LinkADRReq would set it."""
        self.settings = replace(self.settings, nb_trans=nb_trans)

    async def join(self) -> bool:
        """Join once; whether a join-accept came. CommandRefused while another command runs."""
        self.begin_join()
        return await self.finish_join()

    def begin_join(self) -> None:
        """Accept to join; nothing is on the air before `finish_join`."""
        self._begin("AT+JOIN=1:0:8:0")
        self._console.line("OK")
        self._busy = isinstance(self.activation, Otaa)

    async def finish_join(self) -> bool:
        """Carry out what `begin_join` accepted; whether the device has joined."""
        try:
            return isinstance(self.activation, Abp) or await self._join(self.activation)
        except Restarted:
            return False
        finally:
            self._busy = False

    async def send(self, payload: bytes, *, port: int = 2, confirmed: bool = False) -> Sent:
        """Send one message, repetitions included; CommandRefused if the device will not.

        Returns when the MAC cycle is over: `Sent.acknowledged` and `Sent.transmissions` are final.
        """
        return await self.finish(self.begin_send(payload, port=port, confirmed=confirmed))

    def begin_send(self, payload: bytes, *, port: int = 2, confirmed: bool = False) -> Sent:
        """Accept a message; nothing is on the air before `finish`."""
        if confirmed is not self.confirming:
            self.set_confirming(confirmed)
        self._begin(f"AT+SEND={port}:{payload.hex().upper()}")
        session = self.session
        if session is None:
            raise self._console.refuse("AT_NO_NETWORK_JOINED")
        if len(payload) > self.region.max_payload(self.settings.dr, repeater=False):
            raise self._console.refuse("AT_PARAM_ERROR")
        self._console.line("OK")
        self._busy = True
        f_cnt = session.f_cnt_up
        session.asked, self._asks = self._asks, []
        phy = session.next_uplink(payload, port, confirmed=confirmed, adr=self.settings.adr)
        frame = parse(phy)
        assert isinstance(frame, Data)
        return Sent(self.dev_eui, frame.frame_id, phy, f_cnt, session.number, confirmed)

    async def finish(self, sent: Sent) -> Sent:
        """Carry out what `begin_send` accepted, to the end of its MAC cycle."""
        assert self.session is not None
        try:
            await self._deliver(sent, self.session)
        except Restarted:
            pass
        finally:
            self._busy = False
        return sent

    async def restart(self, *, memory: bool = True, forget_nonces: bool = False) -> None:
        """Reset the device; a message under way is over.

        With memory, session, counters and nonces are kept. Without, an OTAA device must join
        again and an ABP device starts its counters anew; nonces are kept unless `forget_nonces`.
        """
        self._console.command("ATZ")
        self._radio.restart()
        if forget_nonces:
            self.dev_nonce = self.join_nonce = 0
        if not memory:
            self._forget_session()
            self.settings = replace(self.settings, nb_trans=1)
        await asyncio.sleep(BOOT_US / 1_000_000)
        self._console.line("Current Work Mode: LoRaWAN.")

    async def _join(self, otaa: Otaa) -> bool:
        self.dev_nonce += 1
        phy = build_join_request(
            otaa.app_key, join_eui=otaa.join_eui, dev_eui=self.dev_eui, dev_nonce=self.dev_nonce
        )
        request = parse(phy)
        assert isinstance(request, JoinRequest)
        joining = Joining(self.dev_eui, request.frame_id, phy, self.dev_nonce)
        self.last_join = joining
        facts: dict[str, object] = {"dev_eui": self.dev_eui, "frame_id": request.frame_id}
        uplink = self._transmit(phy, self.settings.dr, {**facts, "genuine": True})
        joining.transmissions.append(uplink)
        windows = self._windows(uplink, self.region.join_accept_delay_us, 0, self.region.rx2_dr)
        answer = await self._radio.listen(windows, join_accept_for(otaa))
        if answer is None:
            self._console.line("+EVT:JOIN_FAILED_RX_TIMEOUT")
            return False
        if self.stack.checks_join_nonce and answer.content.join_nonce <= self.join_nonce:
            self._console.line(f"+EVT:JOIN_FAILED_{_JOIN_FAIL}")
            return False
        joining.accepted = True
        self._accept(otaa, answer.content)
        self._console.line("+EVT:JOINED")
        return True

    def _accept(self, otaa: Otaa, accept: JoinAcceptFields) -> None:
        number, self._sessions = self._sessions, self._sessions + 1
        self.join_nonce = accept.join_nonce
        self.settings = replace(self.settings, nb_trans=1)
        self.session = joined_session(
            otaa,
            accept,
            dev_nonce=self.dev_nonce,
            number=number,
            first_f_cnt=self.stack.first_f_cnt,
        )

    async def _deliver(self, sent: Sent, session: DeviceSession) -> None:
        """Send a frame as often as it takes, and say on the console how it ended."""
        attempts = self.settings.nb_trans
        if sent.confirmed:
            attempts = max(attempts, 1 + self.settings.retries)
        dr = self.settings.dr
        for attempt in range(1, attempts + 1):
            used_dr = self.stack.dr(dr, attempt) if sent.confirmed else dr
            uplink = self._transmit(sent.phy, used_dr, _facts(sent, attempt))
            sent.transmissions.append(uplink)
            windows = self._windows(
                uplink, session.receive_delay_us, session.rx1_dr_offset, session.rx2_dr
            )
            answer = await self._radio.listen(windows, session.hear)
            if answer is not None:
                self._obey(session, answer)
            if self._is_over(sent, answer, last=attempt == attempts):
                self._tell_asked(session, answer)
                return
            await self._radio.sleep_until(self._retry_at_us(windows))
        self._console.line(f"+EVT:SEND_CONFIRMED_FAILED({_RX2_TIMEOUT})")
        self._tell_asked(session, None)

    def _tell_asked(self, session: DeviceSession, answer: Received[Downlink] | None) -> None:
        """What became of the requests in a message; one that is not answered has failed."""
        asked, session.asked = session.asked, []
        for request in asked:
            self._console.asked(request, answer)

    def _is_over(self, sent: Sent, answer: Received[Downlink] | None, *, last: bool) -> bool:
        """Whether this try ends the message; its lines on the console are written."""
        over = False
        if not sent.confirmed and (answer is not None or last):
            over = True
            self._console.line("+EVT:TX_DONE")
        elif sent.confirmed and answer is not None and answer.content.ack:
            over = sent.acknowledged = True
            self._console.line("+EVT:SEND_CONFIRMED_OK")
        if answer is not None:
            self._console.downlink(answer)
        return over

    def _hear_unasked(self, heard: Heard) -> None:
        session = self.session if self.settings.class_c else None
        answer = unasked(session, self.region, heard)
        if answer is not None and session is not None:
            self._obey(session, answer)
            self._console.downlink(answer)

    def _retry_at_us(self, windows: ReceiveWindows) -> int:
        from_rx2_opening = self.stack.retry_from is RetryFrom.RX2_OPENING
        from_us = windows.rx2.opens_us if from_rx2_opening else now_us()
        wait_us = self._retry_chance.randint(self.stack.retry_min_us, self.stack.retry_max_us)
        return max(from_us + wait_us, now_us())

    def _obey(self, session: DeviceSession, answer: Received[Downlink]) -> None:
        """Do what the MAC commands of a downlink ask, and owe their answers."""
        for command in answer.content.commands:
            if isinstance(command, LinkADRReq):
                session.answers.append(self._obey_link_adr(command))
            else:
                session.owe_answer(command, snr_db=answer.heard.snr_db)

    def _obey_link_adr(self, command: LinkADRReq) -> LinkADRAns:
        """Obey all of it or nothing; without ADR grant it, and do nothing of it."""
        settings = self.settings
        said, dr = judge(command, self.region, dr=settings.dr, adr=settings.adr)
        if settings.adr and said == LinkADRAns():
            self.settings = replace(settings, dr=dr, nb_trans=max(command.nb_trans, 1))
        return said

    def _transmit(self, phy: bytes, dr: int, facts: dict[str, object]) -> Transmission:
        return self._radio.transmit(phy, dr=dr, power_dbm=self.settings.power_dbm, facts=facts)

    def _windows(
        self, uplink: Transmission, delay_us: int, rx1_dr_offset: int, rx2_dr: int
    ) -> ReceiveWindows:
        return windows_after(
            uplink, self.region, delay_us=delay_us, rx1_dr_offset=rx1_dr_offset, rx2_dr=rx2_dr
        )

    def _forget_session(self) -> None:
        """Back to what is written into the device: an ABP session at its start, or none."""
        self.session = None
        if isinstance(self.activation, Abp):
            first_f_cnt = self.stack.first_f_cnt
            self.session = fixed_session(self.activation, self.region, first_f_cnt=first_f_cnt)

    def _begin(self, command: str) -> None:
        self._console.command(command)
        if self._busy:
            raise self._console.refuse("AT_BUSY_ERROR")
        self._radio.power_on()


def _facts(sent: Sent, attempt: int) -> dict[str, object]:
    return {
        "dev_eui": sent.dev_eui,
        "session": sent.session,
        "f_cnt": sent.f_cnt,
        "frame_id": sent.frame_id,
        "genuine": True,
        "attempt": attempt,
    }
