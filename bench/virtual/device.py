"""What does a virtual device do, from its console to its antenna?

A board with RUI3 on the air of this process, with a person at its console, or a serial port, which
`Board` has. It keeps no duty cycle, unless its stack does, and sends nothing that it was not asked
for.
"""

import asyncio
import contextlib
import os
import tty
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

from bench.capture import Record
from bench.chance import stream
from bench.device.at_session import task_group
from bench.device.interfaces import Abp, CommandRefused, Joining, Otaa, Sent
from bench.transmission import Eui, Transmission
from bench.virtual.air import Heard, Listened, Medium, Received, Window
from bench.virtual.lorawan.air_interface import Cid, Command, Session
from bench.virtual.lorawan.channel_plan import ChannelPlan
from bench.virtual.mac import Circuit, Mac, MacSettings, Nvm
from bench.virtual.rui3_console import BANDS, SUB_BAND_2_MASK, Rui3, Rui3Network
from bench.virtual.rui3_traffic import Rui3Version
from bench.virtual.stacks import LORAMAC_NODE, NEVER_COUNTED, Stack
from lns.clock import now_us

T = TypeVar("T")
TOLERANCE_US = 20_000
"""How far from the opening of its window a downlink may start: a few symbols."""


class Restarted(Exception):
    """The device was reset while it waited."""


@dataclass(slots=True)
class _Listening(Generic[T]):
    windows: tuple[Window, Window]
    believe: Callable[[Heard], T | None]
    gives_up_rx2: bool
    answer: Received[T] | None = None
    gave_up: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing is listened to any more."""
        return self.answer is not None or self.gave_up

    def catching(self, transmission: Transmission) -> Window | None:
        """The window in which a frame begins, if any."""
        for window in self.windows:
            is_near = abs(transmission.start_us - window.opens_us) <= TOLERANCE_US
            tuned = (window.dr, window.freq_hz) == (transmission.dr, transmission.freq_hz)
            if is_near and tuned:
                return window
        return None


class ClassARadio:
    """One device's radio: remembers the windows that are open now.

    `unasked` is told every frame that no window takes, of a radio that is never off (class C).
    """

    def __init__(self, eui: Eui, medium: Medium) -> None:
        self.eui = eui
        self._medium = medium
        self._listening: _Listening[Any] | None = None
        self.unasked: Callable[[Heard, int, int], None] = lambda heard, dr, freq_hz: None
        self._deaf_until_us = 0
        self._waiter: asyncio.Future[None] | None = None
        self._restarted = False
        medium.attach(self, hears="down")

    def send(
        self, phy: bytes, *, dr: int, freq_hz: int, power_dbm: int, facts: dict[str, object]
    ) -> Transmission:
        return self._medium.transmit(
            self.eui, phy, direction="up", freq_hz=freq_hz, dr=dr, power_dbm=power_dbm, facts=facts
        )

    async def listen(
        self,
        windows: tuple[Window, Window],
        believe: Callable[[Heard], T | None],
        *,
        gives_up_rx2: bool,
    ) -> Listened[T]:
        listening = self._listening = _Listening(windows, believe, gives_up_rx2)
        try:
            await self._wait(windows[1].closes_us)
            while not listening.is_over and (end_us := self._catch_ends_us(listening)):
                await self._wait(end_us)
            return Listened(listening.answer, listening.gave_up)
        finally:
            self._listening = None

    async def sleep_until(self, when_us: int) -> None:
        await self._wait(when_us)

    def tune(self, plan: ChannelPlan, *, public: bool) -> None:
        """There is one region on this air, and one network."""

    def hear_always(self) -> None:
        """It does."""

    def power_on(self) -> None:
        """Begin a command; a reset from before it is of no concern."""
        self._restarted = False

    def restart(self) -> None:
        """Close the windows; whoever waits, now or next, gets Restarted."""
        self._listening = None
        self._restarted = True
        self._wake()

    def frame_heard(self, heard: Heard) -> None:
        """Take a downlink, at its end; the medium calls it."""
        # RX2 does not open while a frame of RX1 is being received, whoever it is for.
        if heard.transmission.start_us < self._deaf_until_us:
            return
        listening = self._listening
        window = None
        if listening is not None and not listening.is_over:
            window = listening.catching(heard.transmission)
        if listening is None or window is None:
            return self.unasked(heard, heard.transmission.dr, heard.transmission.freq_hz)
        self._deaf_until_us = heard.end_us
        content = listening.believe(heard)
        if content is not None:
            listening.answer = Received(content, window.slot, heard)
        listening.gave_up = content is None and listening.gives_up_rx2
        if listening.is_over:
            self._wake()

    async def _wait(self, until_us: int) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_at(until_us / 1_000_000, self._wake)
        try:
            if not self._restarted:
                await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
        if self._restarted:
            raise Restarted

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _catch_ends_us(self, listening: _Listening[Any]) -> int | None:
        now = now_us()
        ends_us = [t.end_us for t in self._medium.ongoing("down") if listening.catching(t)]
        return max((end_us for end_us in ends_us if end_us > now), default=None)


BOOT_US = 500_000
FIRMWARE = "RUI_4.1.0_RAK3172-H"


class Asked(StrEnum):
    """What a device asks of the network, and the command of its console for it."""

    LINK_CHECK = "AT+LINKCHECK=1"
    DEVICE_TIME = "AT+TIMEREQ=1"

    @property
    def command(self) -> Command:
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
    """One device; remembers session, DevNonce, JoinNonce and settings until it is told not to.

    Every verb is a command at its console, which raises CommandRefused for a refusal. Where a port
    is plugged in (`write`, `spawn`), whoever is there types instead.
    """

    def __init__(
        self,
        name: str,
        dev_eui: Eui,
        activation: Otaa | Abp,
        medium: Medium,
        *,
        seed: int,
        record: Record,
        radio: ClassARadio | None = None,
        stack: Stack = LORAMAC_NODE,
        settings: Settings | None = None,
    ) -> None:
        begins = settings or Settings()
        self.name = name
        self.dev_eui = dev_eui
        self.stack = stack
        self.activation = activation
        self.write: Callable[[bytes], None] = self._print
        self._record = record
        self._last_line = ""
        self._waiting: list[Coroutine[Any, Any, None]] = []
        self.spawn: Callable[[Coroutine[Any, Any, None]], None] = self._waiting.append
        self._booting = 0
        self._radio = radio or ClassARadio(dev_eui, medium)
        self._nvm = Nvm()
        self._nvm.put(**_flash(begins, dev_eui, activation, medium.plan, stack))
        circuit = Circuit(
            name=name,
            nvm=self._nvm,
            radio=self._radio,
            chance=lambda purpose: stream(seed, "device", name, purpose),
            write=lambda data: self.write(data),
            spawn=lambda work: self.spawn(self._until_restarted(work)),
            reset=lambda: self.spawn(self._boot(memory=isinstance(activation, Abp))),
            stack=stack,
            sends_unasked=False,
            keeps_session=True,
        )
        self._rui3 = Rui3(circuit, Rui3Version(FIRMWARE), dev_eui=dev_eui)
        self.settings.nb_trans = begins.nb_trans

    @property
    def _network(self) -> Rui3Network:
        assert self._rui3.network is not None, "its firmware is in LoRaWAN mode"
        return self._rui3.network

    @property
    def mac(self) -> Mac:
        return self._network.mac

    @property
    def session(self) -> Session | None:
        return self.mac.session

    @property
    def settings(self) -> MacSettings:
        return self.mac.settings

    @property
    def dev_nonce(self) -> int:
        """The newest DevNonce, 0 before the first; a stack that draws them keeps none."""
        if self.stack.draws_dev_nonce:
            return self.last_join.dev_nonce if self.last_join else 0
        return int(self._nvm.get("dev_nonce", 0))

    @property
    def join_nonce(self) -> int:
        """The newest JoinNonce that it took, 0 before the first."""
        return self.mac.join_nonce

    @property
    def retries(self) -> int:
        return int(self._nvm.get("RETY"))

    @property
    def last_sent(self) -> Sent | None:
        """The message that it accepted last; complete once its MAC cycle is over."""
        return self._network.traffic.last_sent

    @property
    def last_join(self) -> Joining | None:
        """The last attempt to join; complete once it is over."""
        return self._network.join.last_join

    def set_retries(self, retries: int) -> None:
        self._type(f"AT+RETY={retries}")

    def set_adr(self, adr: bool) -> None:
        """Whether the network server may set how the messages from now on are sent."""
        self._type(f"AT+ADR={int(adr)}")

    def ask(self, asked: Asked) -> None:
        self._type(asked)

    def set_nb_trans(self, nb_trans: int) -> None:
        """Transmissions of every frame, 1..15, as LinkADRReq would set it."""
        self.settings.nb_trans = nb_trans

    async def join(self) -> bool:
        self._type("AT+JOIN=1:0:8:0")
        await self._carry_out()
        joining = self.last_join
        return isinstance(self.activation, Abp) or (joining is not None and joining.accepted)

    async def send(self, payload: bytes, *, port: int = 2, confirmed: bool = False) -> Sent:
        """Send one message, repetitions included; CommandRefused if the device will not.

        Returns when the MAC cycle is over: `Sent.acknowledged` and `Sent.transmissions` are final.
        """
        if confirmed is not (self._nvm.get("CFM", "0") == "1"):
            self._type(f"AT+CFM={int(confirmed)}")
        self._write_down("command", f"AT+SEND={port}:{payload.hex().upper()}")
        self._radio.power_on()
        status = self._network.traffic.take(payload, port, confirmed=confirmed)
        self._print(status.encode())
        self._insist_on_ok()
        await self._carry_out()
        assert self.last_sent is not None
        return self.last_sent

    async def restart(self, *, memory: bool = True) -> None:
        """Reset the device; a message under way is over.

        With memory, session and counters are kept. Without, an OTAA device must join again and an
        ABP device starts its counters anew; nonces are kept.
        """
        self._write_down("command", "ATZ", **({"keeps": "session"} if memory else {}))
        await self._boot(memory=memory)

    def hear(self, data: bytes) -> None:
        """Take bytes of a serial port; while it starts nobody is there to hear them."""
        if not self._booting:
            self._radio.power_on()
            self._rui3.hear(data)

    async def _boot(self, *, memory: bool) -> None:
        self._booting += 1
        try:
            self._radio.restart()
            if not memory:
                self._network.forget_session()
            await asyncio.sleep(BOOT_US / 1_000_000)
        finally:
            self._booting -= 1
        self._rui3.boot()

    def _type(self, command: str) -> None:
        self._write_down("command", command)
        self._radio.power_on()
        self._rui3.hear(f"{command}\r".encode())
        self._insist_on_ok()

    def _insist_on_ok(self) -> None:
        if self._last_line != "OK":
            raise CommandRefused(f"{self.name}: {self._last_line}")

    def _print(self, data: bytes) -> None:
        for line in data.decode("latin-1").splitlines():
            if line:
                self._last_line = line
                self._write_down("line", line)

    def _write_down(self, what: str, text: str, **facts: object) -> None:
        fields: dict[str, object] = {"dev_eui": self.dev_eui, "text": text, **facts}
        self._record(f"device-{self.name}", f"device.{what}", fields)

    async def _carry_out(self) -> None:
        while self._waiting:
            await self._waiting.pop(0)

    async def _until_restarted(self, work: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(Restarted):
            await work


def _flash(
    begins: Settings, dev_eui: Eui, activation: Otaa | Abp, plan: ChannelPlan, stack: Stack
) -> dict[str, object]:
    bands = {name: band for band, name in BANDS.items()}
    powers_dbm = [plan.power_dbm(index) for index in range(15)]
    flash: dict[str, object] = {
        "DEVEUI": dev_eui,
        "BAND": str(bands[plan.name]),
        "DR": str(begins.dr),
        "TXP": str(powers_dbm.index(begins.power_dbm)),
        "ADR": str(int(begins.adr)),
        "DCS": "0",
        "CLASS": "C" if begins.class_c else "A",
        "RETY": str(begins.retries),
        "RX2DR": str(plan.rx2_dr),
        "RX2FQ": str(plan.rx2_freq_hz),
        "counters": {**NEVER_COUNTED, "up": stack.first_f_cnt},
    }
    if plan.downlinks_hz:
        flash["MASK"] = SUB_BAND_2_MASK
    match activation:
        case Otaa(join_eui, app_key):
            return {**flash, "NJM": "1", "APPEUI": join_eui, "APPKEY": app_key.hex().upper()}
        case Abp(dev_addr, keys):
            nwk_s_key, app_s_key = keys.nwk_s_key.hex().upper(), keys.app_s_key.hex().upper()
            session = {"DEVADDR": dev_addr, "NWKSKEY": nwk_s_key, "APPSKEY": app_s_key}
            return {**flash, "NJM": "0", **session}


READ_BYTES = 4096
UNREAD_BYTES_MAX = 65_536
"""What is kept for a reader who is behind; more is lost, as on a serial line without a reader."""


class Port:
    """The USB side of one board; remembers what nobody has read yet.

    `link`, if given, is a name for it that stays the same over `unplug` and `plug`. `received` is
    given what the host writes. `lost_bytes`: how much nobody has read in time.
    """

    def __init__(self, link: Path | None, received: Callable[[bytes], None]) -> None:
        self.lost_bytes = 0
        self._path = ""
        self._link = link
        self._received = received
        self._unread = bytearray()
        self._master: int | None = None
        self._slave: int | None = None

    @property
    def path(self) -> str:
        return self._path if self._link is None else str(self._link)

    def plug(self) -> None:
        """Give it to the host; OSError when that has none left."""
        if self._master is not None:
            return
        self._master, self._slave = os.openpty()
        # Held open by us too: without any opener a pty reports a hang-up, a port does not.
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self._path = os.ttyname(self._slave)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._path)
        asyncio.get_running_loop().add_reader(self._master, self._readable)

    def unplug(self) -> None:
        """Take it away; the firmware goes on, as one with a battery does."""
        if self._master is None or self._slave is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        loop.remove_writer(self._master)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = None
        self._unread.clear()

    def write(self, data: bytes) -> None:
        if self._master is not None:
            self._unread += data
            self._flush()

    def _readable(self) -> None:
        assert self._master is not None
        with contextlib.suppress(BlockingIOError):
            self._received(os.read(self._master, READ_BYTES))

    def _flush(self) -> None:
        if self._master is None:
            return
        loop = asyncio.get_running_loop()
        with contextlib.suppress(BlockingIOError):
            while self._unread:
                del self._unread[: os.write(self._master, self._unread)]
        if not self._unread:
            loop.remove_writer(self._master)
            return
        over = len(self._unread) - UNREAD_BYTES_MAX
        if over > 0:  # what is oldest waits in the pty already
            del self._unread[-over:]
            self.lost_bytes += over
        loop.add_writer(self._master, self._flush)


# The other side of the wire: it hears bytes as a RAK3172 under RUI3 does, and writes what the
# firmware says with RUI3's line ends.
class Board:
    """One board, for as long as it is `plugged`.

    The host finds it at `port` meanwhile. One task per message under way, no thread. `new_port`
    makes another port than a pty; it is given what is to hear the host.
    """

    def __init__(
        self,
        make_firmware: Callable[[Record], VirtualDevice],
        *,
        new_port: Callable[[Callable[[bytes], None]], Port] = lambda received: Port(None, received),
    ) -> None:
        self.firmware = make_firmware(lambda *_: None)  # whoever is at the port captures
        self.port = new_port(self.firmware.hear)
        self.firmware.write, self.firmware.spawn = self.port.write, self._spawn
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: list[asyncio.Task[Any]] = []

    @asynccontextmanager
    async def plugged(self) -> AsyncIterator[None]:
        """Plug it in, and take it away at the end."""
        async with task_group() as self._tasks:
            try:
                self.port.plug()
                yield
            finally:
                self.port.unplug()
                for task in self._under_way:
                    task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        assert self._tasks is not None, "a board is used inside `plugged`"
        task = self._tasks.create_task(work)
        self._under_way.append(task)
        task.add_done_callback(self._under_way.remove)
