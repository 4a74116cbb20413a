"""What does a virtual device do, from its console to its antenna?

A MAC in software behind the console lines of RUI3. It keeps no duty cycle, unless its stack does.
"""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from bench.capture import Record
from bench.chance import stream
from bench.device.at_session import Console
from bench.device.device_config import Abp, Eui, Otaa
from bench.device.interfaces import Joining, Sent
from bench.transmission import Transmission
from bench.virtual.air.medium import Heard, Medium
from bench.virtual.board.class_a_radio import ClassARadio, Restarted
from bench.virtual.lorawan.commands import Cid, Command
from bench.virtual.lorawan.frames import join_request, read_data, read_join_request
from bench.virtual.mac import Cycle, Mac, Received, Tries
from bench.virtual.mac_settings import MacSettings, own_mask
from bench.virtual.session import Downlink, Session
from bench.virtual.stack import LORAMAC_NODE, Stack

__all__ = ["Abp", "Asked", "Otaa", "Settings", "VirtualDevice"]

BOOT_US = 500_000
_RX2_TIMEOUT = 4  # LoRaMacEventInfoStatus: the ordinary missed acknowledgement
_JOIN_FAIL = 7  # LoRaMacEventInfoStatus: an accept of this server that the device refuses
_NONCES = 1 << 16


class Asked(StrEnum):
    """What a device asks of the network, and the command of its console for it."""

    LINK_CHECK = "AT+LINKCHECK=1"
    DEVICE_TIME = "AT+TIMEREQ=1"

    @property
    def command(self) -> Command:
        """The MAC command."""
        return Command(Cid.LINK_CHECK if self is Asked.LINK_CHECK else Cid.DEVICE_TIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a device begins: data rate, power, retries of confirmed frames, repetitions, ADR.

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
        begins = settings or Settings()
        self.name = name
        self.dev_eui = dev_eui
        self.stack = stack
        self.last_join: Joining | None = None
        self.dev_nonce = 0
        self.activation = activation
        self.retries = begins.retries
        self.confirming = False
        self._nonce_chance = stream(seed, "device", name, "nonce")
        self._radio = ClassARadio(dev_eui, medium)
        self.mac: Mac[Transmission, Heard] = Mac(
            self._radio,
            MacSettings(
                plan=medium.plan,
                dr=begins.dr,
                power_dbm=begins.power_dbm,
                adr=begins.adr,
                duty_cycle=False,
                class_c=begins.class_c,
                nb_trans=begins.nb_trans,
                rx2_dr=medium.plan.rx2_dr,
                rx2_freq_hz=medium.plan.rx2_freq_hz,
                masked=own_mask(medium.plan),
            ),
            channel_chance=stream(seed, "device", name, "channel"),
            retry_chance=stream(seed, "device", name, "retry"),
            stack=stack,
        )
        self.mac.join_nonce = 0
        self.mac.heard_unasked = self._tell_downlink
        self._console = Console(name, dev_eui, record)
        self._asks: list[Asked] = []
        self._asked: list[Asked] = []
        self._busy = False
        self._begin_fixed_session()

    @property
    def session(self) -> Session | None:
        """The session it has now."""
        return self.mac.session

    @property
    def settings(self) -> MacSettings:
        """What its MAC is set to now."""
        return self.mac.settings

    @property
    def join_nonce(self) -> int:
        """The newest JoinNonce that it took, 0 before the first."""
        return self.mac.join_nonce

    def set_retries(self, retries: int) -> None:
        """How often a confirmed frame without acknowledgement is repeated, 0..7."""
        self._console.command(f"AT+RETY={retries}")
        self.retries = retries
        self._console.line("OK")

    def set_confirming(self, confirming: bool) -> None:
        """Whether the messages from now on ask for an acknowledgement."""
        self._console.command(f"AT+CFM={int(confirming)}")
        self.confirming = confirming
        self._console.line("OK")

    def set_adr(self, adr: bool) -> None:
        """Whether the network server may set how the messages from now on are sent."""
        self._console.command(f"AT+ADR={int(adr)}")
        self.settings.adr = adr
        self._console.line("OK")

    def ask(self, asked: Asked) -> None:
        """Ask the network with the next message."""
        self._console.command(asked)
        self._asks.append(asked)
        self._console.line("OK")

    def set_nb_trans(self, nb_trans: int) -> None:
        """Transmissions of every frame, 1..15, as LinkADRReq would set it."""
        self.settings.nb_trans = nb_trans

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
        if len(payload) > self.mac.plan.payload_max[self.settings.dr]:
            raise self._console.refuse("AT_PARAM_ERROR")
        self._console.line("OK")
        self._busy = True
        f_cnt = session.f_cnt_up
        self._asked, self._asks = self._asks, []
        session.asked = [asked.command for asked in self._asked]
        phy = self.mac.uplink(payload, port, confirmed=confirmed)
        frame = read_data(phy)
        assert frame is not None
        return Sent(self.dev_eui, frame.frame_id, phy, f_cnt, session.number, confirmed)

    async def finish(self, sent: Sent) -> Sent:
        """Carry out what `begin_send` accepted, to the end of its MAC cycle."""
        try:
            await self._deliver(sent, self._asked)
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
            self.dev_nonce = self.mac.join_nonce = 0
        if not memory:
            self._begin_fixed_session()
            self.settings.receive_as_at_first()
            self.settings.masked = own_mask(self.mac.plan)
        await asyncio.sleep(BOOT_US / 1_000_000)
        self._console.line("Current Work Mode: LoRaWAN.")

    async def _join(self, otaa: Otaa) -> bool:
        if self.stack.draws_dev_nonce:
            self.dev_nonce = self._nonce_chance.randrange(_NONCES)
        else:
            self.dev_nonce += 1
        identity = {"join_eui": otaa.join_eui, "dev_eui": self.dev_eui}
        phy = join_request(otaa.app_key, **identity, dev_nonce=self.dev_nonce)
        request = read_join_request(phy)
        assert request is not None
        joining = Joining(self.dev_eui, request.frame_id, phy, self.dev_nonce)
        self.last_join = joining
        facts = {"dev_eui": self.dev_eui, "frame_id": request.frame_id, "genuine": True}
        session = await self.mac.join(
            otaa.app_key,
            **identity,
            dev_nonce=self.dev_nonce,
            sent=joining.transmissions.append,
            facts=facts,
        )
        if session is None:
            why = str(_JOIN_FAIL) if self.mac.accept_was_refused else "RX_TIMEOUT"
            self._console.line(f"+EVT:JOIN_FAILED_{why}")
            return False
        joining.accepted = True
        self._console.line("+EVT:JOINED")
        return True

    async def _deliver(self, sent: Sent, asked: list[Asked]) -> None:
        """Send a frame as often as it takes, and say on the console how it ended."""
        number = self.settings.nb_trans
        if sent.confirmed:
            number = max(number, 1 + self.retries)
        cycle: Cycle[Transmission, Heard] = Cycle(sent.confirmed, tries=sent.transmissions)
        tries: Tries[Transmission, Heard] = Tries(
            number=number,
            facts=lambda attempt: _facts(sent, attempt),
            heard=self._tell_downlink,
        )
        await self.mac.deliver(sent.phy, cycle, tries)
        sent.acknowledged = cycle.acknowledged
        if not sent.confirmed:
            self._console.line("+EVT:TX_DONE")
        elif sent.acknowledged:
            self._console.line("+EVT:SEND_CONFIRMED_OK")
        else:
            self._console.line(f"+EVT:SEND_CONFIRMED_FAILED({_RX2_TIMEOUT})")
        ends = cycle.downlink if cycle.acknowledged or not sent.confirmed else None
        if ends is not None:
            self._tell_downlink(ends)
        for what in asked:
            self._tell_asked(what, ends)

    def _tell_downlink(self, received: Received[Downlink, Heard]) -> None:
        """The line of a downlink with application data; one without has none."""
        downlink = received.content
        if downlink.f_port:
            data = f"UNICAST:{downlink.f_port}:{downlink.payload.hex()}"
            self._console.line(f"+EVT:RX_{received.slot}:{_signal(received.heard)}:{data}")

    def _tell_asked(self, asked: Asked, received: Received[Downlink, Heard] | None) -> None:
        """The line that tells what became of a LinkCheckReq or a DeviceTimeReq."""
        commands = received.content.commands if received else ()
        answer = next((c for c in commands if c.cid is asked.command.cid), None)
        if asked is Asked.DEVICE_TIME:
            self._console.line(f"+EVT:TIMEREQ_{'FAILED' if answer is None else 'OK'}")
        elif answer is None or received is None:
            self._console.line("+EVT:LINKCHECK:1:0:0:0:0")
        else:
            margin_db, count = answer.told
            told = f"{margin_db}:{count}:{_signal(received.heard)}"
            self._console.line(f"+EVT:LINKCHECK:0:{told}")

    def _begin_fixed_session(self) -> None:
        """Back to what is written into the device: an ABP session at its start, or none."""
        self.mac.session = None
        if isinstance(self.activation, Abp):
            self.mac.session = Session(
                dev_addr=self.activation.dev_addr,
                keys=self.activation.keys,
                f_cnt_up=self.stack.first_f_cnt,
            )

    def _begin(self, command: str) -> None:
        self._console.command(command)
        if self._busy:
            raise self._console.refuse("AT_BUSY_ERROR")
        self._radio.power_on()


def _signal(heard: Heard) -> str:
    return f"{heard.rssi_dbm}:{round(heard.snr_db)}"


def _facts(sent: Sent, attempt: int) -> dict[str, object]:
    return {
        "dev_eui": sent.dev_eui,
        "session": sent.session,
        "f_cnt": sent.f_cnt,
        "frame_id": sent.frame_id,
        "genuine": True,
        "attempt": attempt,
    }
